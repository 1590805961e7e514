//! The native kernels and what compilers made, by turns, in one run on the same arrays and threads.
//!
//! Before each compiler's turn the native kernels have one, and the compilers' order is random and new
//! each round: a ratio is of neighbours in time. The first pass of a turn is not kept, because it
//! finds the caches as another loop left them: full of lines that must be written back, or not. First
//! of all, the kernels of each compiler have one pass at full length after which every element is
//! checked, so that wrong values have an owner.

use super::build::CompiledKernels;
use crate::halving::Shuffler;
use crate::kernels::Loop;
use crate::point::{Point, Sample};
use crate::result::{self, Evidence};
use crate::samples::{self, Sorted};
use crate::size::Size;
use crate::stream::{self, Options, Ready, StreamError};
use crate::target::Target;
use crate::values::WrongValue;
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Finding, Machine, Measurement};
use nodegauge_measure::repeat::{Stop, StopRule};
use nodegauge_measure::stats::Better;
use nodegauge_measure::{Bytes, Watch, clock};
use nodegauge_placement::Placement;
use nodegauge_toolchain::memcpy_streams_from;
use std::time::{Duration, Instant};

/// What all found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The native ones, then those of each compiler.
    pub measurements: Vec<Measurement>,
    /// What was clamped, assumed or replaced.
    pub notices: Vec<String>,
    /// What the run found out about the machine.
    pub findings: Vec<Finding>,
    /// Why repetition ended.
    pub stop: Stop,
    /// Where each thread ran.
    pub affinity: Vec<String>,
}

/// Share of the budget for the trial of native loops.
const TRIAL_SHARE: f64 = 0.2;
/// Part of the budget kept for checking the arrays and ending.
const TAIL_SHARE: f64 = 0.05;
/// Passes of a turn that are kept.
const KEPT: usize = 2;
/// Rounds at least.
const LEAST_ROUNDS: usize = 6;
/// Rounds even when the time is spent before.
const FEWEST_ROUNDS: usize = 3;
/// Stable means within this share.
const TOLERANCE: f64 = 0.005;

/// The native kernels, or those of a compiler, under measurement.
struct LoopCandidate {
    loops: Vec<Loop>,
    /// The warm-up first.
    samples: Vec<Sample>,
    wrong: Option<WrongValue>,
}

impl LoopCandidate {
    fn new(loops: Vec<Loop>) -> Self {
        Self { loops, samples: Vec::new(), wrong: None }
    }

    /// Whether it has something to run, and what it made was right.
    fn is_good(&self) -> bool {
        !self.loops.is_empty() && self.wrong.is_none()
    }

    /// Passes of its next turn that are kept: fewer where only so many samples are left to take.
    fn due(&self, samples: Option<usize>) -> usize {
        let taken = self.samples.len().saturating_sub(1);
        samples.map_or(KEPT, |n| KEPT.min(n.saturating_sub(taken)))
    }

    /// A pass that is not kept, and then those that are due.
    fn turn(&mut self, point: &mut Point, samples: Option<usize>) -> Result<(), StreamError> {
        let due = self.due(samples);
        if due == 0 {
            return Ok(());
        }
        point.set_loops(self.loops.clone())?;
        let warm_up = point.pass()?;
        if self.samples.is_empty() {
            self.samples.push(warm_up);
        }
        for _ in 0..due {
            self.samples.push(point.pass()?);
        }
        // What a kernel summed up wrongly is known at once; what it wrote, when the arrays are
        // checked, which may be another's turn.
        self.wrong = self.wrong.take().or(point.wrong.take());
        Ok(())
    }
}

/// Measures all.
///
/// # Errors
/// No memory, pages or CPUs as asked.
pub fn run(
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    compiled: &[CompiledKernels],
    watch: &mut dyn Watch,
) -> Result<Outcome, StreamError> {
    let started = Instant::now();
    let config = stream::plan(topology, machine, placement, options)?;
    let Ready { mut point, size, mut notices, tried } =
        stream::ready(config, options, TRIAL_SHARE, started, watch)?;
    notices.extend(about_memcpy(compiled, &point, watch));
    let mut native = LoopCandidate::new(point.loops().to_vec());
    let mut candidates: Vec<LoopCandidate> =
        compiled.iter().map(|v| LoopCandidate::new(v.loops())).collect();
    watch.phase("checking every element");
    check_each(&mut point, &mut native, &mut candidates)?;
    watch.phase("native and compiled by turns");
    let stop = rounds(&mut point, &mut native, &mut candidates, options, started, watch)?;
    settle(&mut point, &mut native, &mut candidates)?;

    let in_common = InCommon { topology, machine, placement, size: &size, stop };
    let (mut measurements, findings) = in_common.conclude(&mut point, native, tried)?;
    for (candidate, compiled) in candidates.into_iter().zip(compiled) {
        let wrong = candidate.wrong.as_ref().map(result::wrong_in_words);
        let (measured, _) = in_common.conclude(&mut point, candidate, 0)?;
        measurements.extend(compiled.complete(measured, wrong.as_deref()));
    }
    Ok(Outcome {
        measurements,
        findings,
        notices,
        stop,
        affinity: point.observed().iter().map(ToString::to_string).collect(),
    })
}

/// Where loops became calls of memcpy: whether it stores past the caches for copies as long as these.
fn about_memcpy(compiled: &[CompiledKernels], point: &Point, watch: &dyn Watch) -> Option<String> {
    let calls_it = |each: &Loop| match each {
        Loop::Compiled(made) => {
            made.code.as_ref().is_some_and(|code| code.calls.iter().any(|call| call == "memcpy"))
        }
        Loop::Native(_) => false,
    };
    if !compiled.iter().flat_map(CompiledKernels::loops).any(|each| calls_it(&each)) {
        return None;
    }
    let from = memcpy_streams_from(&|| watch.interrupted())?;
    let config = point.config();
    let share = config.elements * config.element.bytes() / config.places.len().max(1) as u64;
    let does = if share >= from { "so it does here" } else { "so it does not here" };
    Some(format!(
        "memcpy of this C library stores past the caches from {} on; a thread's share of an array \
         is {}, {does}",
        Bytes(from),
        Bytes(share)
    ))
}

/// Lets each make one pass over fresh arrays, and checks them.
fn check_each(
    point: &mut Point,
    native: &mut LoopCandidate,
    candidates: &mut [LoopCandidate],
) -> Result<(), StreamError> {
    for candidate in
        std::iter::once(native).chain(candidates).filter(|candidate| candidate.is_good())
    {
        point.fill()?;
        point.set_loops(candidate.loops.clone())?;
        point.pass()?;
        point.check()?;
        candidate.wrong = point.wrong.take();
    }
    point.fill()?;
    Ok(())
}

/// Checks the arrays a last time. Wrong values belong to whoever makes them again; when nobody does,
/// nobody's figures can be believed.
fn settle(
    point: &mut Point,
    native: &mut LoopCandidate,
    candidates: &mut [LoopCandidate],
) -> Result<(), StreamError> {
    point.check()?;
    let all = || std::iter::once(&*native).chain(&*candidates);
    let seen = point.wrong.take().or_else(|| all().find_map(|candidate| candidate.wrong.clone()));
    let Some(seen) = seen else { return Ok(()) };
    for candidate in std::iter::once(&mut *native).chain(&mut *candidates) {
        candidate.wrong = None;
    }
    check_each(point, native, candidates)?;
    if std::iter::once(&*native).chain(&*candidates).all(|candidate| candidate.wrong.is_none()) {
        for candidate in std::iter::once(native).chain(candidates) {
            candidate.wrong = Some(seen.clone());
        }
    }
    Ok(())
}

/// Rounds until all are stable, the time is spent, the samples are taken, or the user ends it.
fn rounds(
    point: &mut Point,
    native: &mut LoopCandidate,
    candidates: &mut [LoopCandidate],
    options: &Options,
    started: Instant,
    watch: &mut dyn Watch,
) -> Result<Stop, StreamError> {
    let rule = StopRule {
        least: LEAST_ROUNDS,
        exactly: options.samples,
        at_least: Duration::ZERO,
        at_most: options.budget.mul_f64(1.0 - TAIL_SHARE).saturating_sub(started.elapsed()),
        tolerance: TOLERANCE,
    };
    let begun = Instant::now();
    let mut shuffler = Shuffler::new(0x636F_6D70);
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|i| candidates[*i].is_good()).collect();
    for round in 1.. {
        shuffler.shuffle(&mut order);
        if order.is_empty() {
            native.turn(point, options.samples)?;
        }
        for i in &order {
            if watch.interrupted() {
                return Ok(Stop::Interrupted);
            }
            native.turn(point, options.samples)?;
            candidates[*i].turn(point, options.samples)?;
        }
        if watch.interrupted() {
            break;
        }
        let share = match options.samples {
            Some(n) => (round * KEPT) as f64 / n.max(1) as f64,
            None => begun.elapsed().as_secs_f64() / rule.at_most.as_secs_f64().max(1e-3),
        };
        watch.progress(share.min(1.0), &format!("round {round}"));
        let late = begun.elapsed() >= rule.at_most && round >= FEWEST_ROUNDS;
        if round < LEAST_ROUNDS && !late && options.samples.is_none() {
            continue;
        }
        let figures: Vec<Vec<f64>> = std::iter::once(&*native)
            .chain(order.iter().map(|i| &candidates[*i]))
            .flat_map(|candidate| rates(point, candidate, options.samples))
            .collect();
        let slices: Vec<&[f64]> = figures.iter().map(Vec::as_slice).collect();
        if let Some(stop) = rule.decide(&slices, begun.elapsed(), Better::Higher) {
            return Ok(stop);
        }
    }
    Ok(Stop::Interrupted)
}

/// Rates of each kernel in the headline's regime, in elements a second; a wished number of samples
/// counts all of them.
fn rates(point: &Point, candidate: &LoopCandidate, samples: Option<usize>) -> Vec<Vec<f64>> {
    if samples.is_some() {
        return vec![vec![1.0; candidate.samples.len().saturating_sub(1)]];
    }
    let sorted = samples::sort(&candidate.samples);
    let Some(group) = sorted.headline() else { return Vec::new() };
    let elements = point.config().elements as f64;
    (0..candidate.loops.len())
        .map(|i| Sorted::rates(&candidate.samples, group, i, elements))
        .collect()
}

/// What all candidates have in common.
struct InCommon<'a> {
    topology: &'a Topology,
    machine: &'a Machine,
    placement: &'a Placement,
    size: &'a Size,
    stop: Stop,
}

impl InCommon<'_> {
    /// The measurements of a candidate, and what it found out about the machine.
    fn conclude(
        &self,
        point: &mut Point,
        candidate: LoopCandidate,
        loops_tried: usize,
    ) -> Result<(Vec<Measurement>, Vec<Finding>), StreamError> {
        if candidate.samples.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        point.set_loops(candidate.loops)?;
        point.wrong = candidate.wrong;
        let sorted = samples::sort(&candidate.samples);
        let seen = point.seen()?;
        let evidence = Evidence {
            machine: self.machine,
            topology: self.topology,
            placement: self.placement,
            target: point,
            seen: &seen,
            size: self.size,
            samples: &candidate.samples,
            sorted: &sorted,
            stop: self.stop,
            loops_tried,
            clock: clock::quality(),
            traffic: None,
        };
        Ok((result::measurements(&evidence), result::findings(&evidence)))
    }
}
