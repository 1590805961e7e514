//! Measurement protocol for native and compiled kernels, which are measured interleaved on the same arrays and threads.
//!
//! The native kernels are measured before the kernels of each compiler, so that a ratio compares figures that are close
//! in time. The order of the compilers is random and different in each round. The first pass of each turn is discarded,
//! because the previous loop determined the state of the caches, such as the number of dirty lines. Before the first
//! round, the kernels of each compiler run one pass over the whole arrays, and every element is checked, so that wrong
//! values can be attributed to a compiler.

use super::build::CompiledKernels;
use crate::GAUGE;
use crate::arrangement::{Arrangement, PreparedTarget, TargetSetup};
use crate::kernels::Loop;
use crate::kernels::values::WrongValue;
use crate::point::StreamTarget;
use crate::result::{self, StreamEvidence};
use crate::target::Target;
use nodegauge_arena::ArenaError;
use nodegauge_arena::evidence::wrong_values_reason;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::series::Series;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{RunLimits, Turn, policy};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_toolchain::nontemporal_memcpy_min_bytes;

/// Number of passes per turn that are kept.
const KEPT_PASSES: usize = 2;

/// Native kernels or kernels of a compiler, with the state of their measurement.
struct MeasuredKernels {
    loops: Vec<Loop>,
    begun: bool,
    wrong: Option<WrongValue>,
}

impl MeasuredKernels {
    fn new(loops: Vec<Loop>) -> Self {
        Self { loops, begun: false, wrong: None }
    }

    /// True if there are loops and none of them has produced a wrong value.
    fn is_good(&self) -> bool {
        !self.loops.is_empty() && self.wrong.is_none()
    }

    /// Runs one pass that is discarded (in the first turn it is the warm-up), and then the passes of the turn.
    fn turn(&mut self, point: &mut StreamTarget, turn: Turn) -> Result<Vec<Sample>, ArenaError> {
        // The first round is short, so that a round can be completed even with a short budget.
        let kept = if turn.round == 0 { 1 } else { KEPT_PASSES };
        let due = turn.remaining.map_or(kept, |due| kept.min(due));
        if due == 0 {
            return Ok(Vec::new());
        }
        point.set_loops(self.loops.clone())?;
        let mut passes = (0..=due).map(|_| point.run_pass()).collect::<Result<Vec<_>, _>>()?;
        if self.begun {
            passes.remove(0);
        }
        self.begun = true;
        // A wrong sum is detected immediately. Wrong stores are detected when the arrays are checked, which may happen
        // in the turn of another candidate.
        self.wrong = self.wrong.take().or(point.wrong.take());
        Ok(passes)
    }
}

/// Measures the native kernels and the kernels of all compilers.
pub(super) fn run(
    site: &MeasuredNode,
    mut arrangement: Arrangement,
    compiled: &[CompiledKernels],
    limits: RunLimits,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let make = &mut |of: &Arrangement| of.prepare_stream_target();
    let mut set_up = TargetSetup { make, target: |it| it, count: 1, may_grow: true };
    let mut ready = set_up.run(&arrangement, &limits, observer)?;
    let until = limits.time_at_share(policy::COMPILED_LOOPS.choice_share);
    let chosen = arrangement.choose(&mut ready.target, until, observer)?;
    let ready = arrangement.check_size(site, ready, &mut set_up, limits, observer)?;
    let PreparedTarget { target: mut point, check, .. } = ready;
    arrangement.notices.extend(about_memcpy(compiled, &point, observer));
    // The native kernels come first.
    let mut candidates = vec![MeasuredKernels::new(point.loops().to_vec())];
    candidates.extend(compiled.iter().map(|made| MeasuredKernels::new(made.loops())));
    observer.begin_phase("checking every element");
    let begun = limits.elapsed();
    check_each(&mut point, &mut candidates)?;
    let setup_time = limits.elapsed();
    // The reserve is for the final check and, if values are wrong, for a check of each candidate.
    let reserve = (setup_time - begun) / candidates.len() as u32;
    let limits = RunLimits { reserve, ..limits };
    observer.begin_phase("measuring native and compiled kernels, interleaved");
    let mut series = Series::new(policy::COMPILED_LOOPS, limits, candidates.len());
    for cell in (1..candidates.len()).filter(|cell| !candidates[*cell].is_good()) {
        series.schedule.exclude(cell);
    }
    let mut turn = |turn: Turn| candidates[turn.cell].turn(&mut point, turn);
    series.run(&mut turn, observer, None)?;
    let target = series.target_loss();
    if target.is_none() {
        settle(&mut point, &mut candidates)?;
    }

    let stop = series.stop_reason();
    let mut outcome = Outcome::default();
    series.store_end(&mut outcome);
    for (i, (candidate, samples)) in
        candidates.into_iter().zip(&series.schedule.samples).enumerate()
    {
        let wrong = candidate.wrong.as_ref().map(wrong_values_reason);
        let mut of_candidate = Outcome::default();
        if !samples.is_empty() || series.cell_failure(i).is_some() {
            point.set_loops(candidate.loops)?;
            point.wrong = candidate.wrong;
            let seen = point.observe()?;
            let evidence = StreamEvidence::new(site, &arrangement, &point, &seen, samples, stop);
            let chosen = chosen.as_ref().filter(|_| i == 0);
            let lost = series.cell_failure(i);
            let unchecked = target;
            let evidence = StreamEvidence { chosen, check, lost, unchecked, ..evidence };
            of_candidate = result::outcome(&evidence);
        }
        match i.checked_sub(1) {
            None => outcome.extend(of_candidate),
            Some(i) => outcome.measurements.extend(
                compiled[i].complete_measurements(of_candidate.measurements, wrong.as_deref()),
            ),
        }
    }
    outcome.notices = arrangement.notices;
    Ok(outcome)
}

/// Returns a note on loops that the compiler replaced by a call of memcpy. It states whether memcpy uses non-temporal
/// stores for copies of this length.
fn about_memcpy(
    compiled: &[CompiledKernels],
    point: &StreamTarget,
    observer: &dyn Observer,
) -> Option<Notice> {
    if !compiled.iter().flat_map(CompiledKernels::loops).any(|each| calls_memcpy(&each)) {
        return None;
    }
    let from = nontemporal_memcpy_min_bytes(&|| observer.is_interrupted())?;
    let config = point.config();
    let share = config.elements * config.element.bytes() / config.places.len().max(1) as u64;
    let does = if share >= from { "so memcpy uses them" } else { "so memcpy does not use them" };
    let text = format!(
        "memcpy of this C library uses non-temporal stores from {} on; a thread's share of an array \
         is {}, {does}",
        Bytes(from),
        Bytes(share)
    );
    Some(Notice::new(NoticeId::Reference, GAUGE, text))
}

/// Runs one pass of each candidate over newly filled arrays, and checks the arrays.
fn check_each(
    point: &mut StreamTarget,
    candidates: &mut [MeasuredKernels],
) -> Result<(), ArenaError> {
    for candidate in candidates.iter_mut().filter(|candidate| candidate.is_good()) {
        point.fill()?;
        point.set_loops(candidate.loops.clone())?;
        point.run_pass()?;
        point.check()?;
        candidate.wrong = point.wrong.take();
    }
    point.fill()
}

/// Checks the arrays at the end of the run. If a value is wrong, each candidate runs again, and the error is attributed
/// to those that produce wrong values. If no candidate does, all figures are invalid.
fn settle(point: &mut StreamTarget, candidates: &mut [MeasuredKernels]) -> Result<(), ArenaError> {
    point.check()?;
    let known = candidates.iter().find_map(|candidate| candidate.wrong.clone());
    let Some(seen) = point.wrong.take().or(known) else { return Ok(()) };
    candidates.iter_mut().for_each(|candidate| candidate.wrong = None);
    check_each(point, candidates)?;
    if candidates.iter().all(|candidate| candidate.wrong.is_none()) {
        candidates.iter_mut().for_each(|candidate| candidate.wrong = Some(seen.clone()));
    }
    Ok(())
}

/// True if the compiler replaced this loop by a call of memcpy.
fn calls_memcpy(each: &Loop) -> bool {
    match each {
        Loop::Compiled(made) => {
            made.code.as_ref().is_some_and(|code| code.calls.iter().any(|call| call == "memcpy"))
        }
        Loop::Native(_) | Loop::Memcpy(_) => false,
    }
}
