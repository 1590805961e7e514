//! Peaks for a roofline: fused multiply-adds, vectors without them and one number at a time in registers, and
//! DGEMM by the fastest library, by turns.

use crate::choose::{self, Trial, TrialPlaces, Tried};
use crate::config::{DgemmConfig, LoopRate, PeakConfig, ThreadsConfig};
use crate::engine::Multiplier;
use crate::hpl::places;
use crate::peak::{self, Burst, Peak, PeakLoop};
use crate::{GAUGE, dgemm};
use nodegauge_analysis::expect::Figures;
use nodegauge_gauge::roofline::{self, CeilingsAsk, CeilingsPart};
use nodegauge_gauge::{Foreseen, Planned, Site};
use nodegauge_kernels::Isa;
use nodegauge_measure::record::{Measurement, Quoted};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::{OneRegime, Sample};
use nodegauge_measure::schedule::{Limits, Schedule, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome, Unit};
use nodegauge_placement::Placement;
use nodegauge_team::{Team, TeamError};
use std::time::Duration;

/// Share of the time for choosing a library, behind four turns of each.
const CHOOSE: f64 = 0.1;
/// Time of a turn of DGEMM: several products even of a slow library.
const PRODUCTS: Duration = Duration::from_millis(60);

/// Peaks that have been planned, of these threads one after another: where they run, what ends the names of
/// their figures, and their share of the time.
pub(crate) struct CeilingsPlan {
    parts: Vec<(Placement, &'static str, f64)>,
    limits: (Duration, Option<usize>),
}

impl CeilingsPlan {
    pub(crate) fn new(ask: &CeilingsAsk<'_>) -> Self {
        let part = |part: &CeilingsPart<'_>| (part.placement.clone(), part.suffix, part.share);
        Self { parts: ask.parts.iter().map(part).collect(), limits: (ask.budget, ask.samples) }
    }
}

/// What a loop is of: its name among the peaks.
fn peak_of(kernel: &PeakLoop) -> &'static str {
    let [fma, simd, scalar, _] = roofline::PEAKS;
    match (kernel.isa, kernel.fused) {
        (Isa::Scalar, _) => scalar,
        (_, true) => fma,
        (_, false) => simd,
    }
}

impl Planned for CeilingsPlan {
    fn foreseen(&self) -> Foreseen {
        Foreseen { time: Some(self.limits.0), memory: None }
    }

    fn figures(&self, _: &Site) -> Vec<Figures> {
        let of = (roofline::GAUGE, roofline::PEAK);
        let names = self.parts.iter().flat_map(|(_, suffix, _)| {
            roofline::PEAKS.iter().map(move |name| format!("{name}{suffix}"))
        });
        vec![Figures::new(of, names, &[Unit::FlopsPerSecond]).limited(true)]
    }

    /// One library for all parts: what one is loaded with rules what others load.
    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let Self { parts, limits: (budget, samples) } = *self;
        let Some((first, ..)) = parts.first() else { return Ok(Outcome::default()) };
        let mut found = Outcome::default();
        observer.phase("trying BLAS libraries");
        let limits = Limits::new(budget, None);
        let trial = Trial {
            root: &site.root,
            places: TrialPlaces(places(first)),
            time: budget.mul_f64(CHOOSE),
            interrupted: &|| observer.interrupted(),
        };
        let library = choose::find(&[], &trial, &mut found.notices)?.and_then(|mut all| all.pop());
        let Some(library) = library else {
            let text = "interrupted while BLAS libraries were tried";
            found.notices.push(Notice::new(NoticeId::Interrupted, GAUGE, text));
            found.stop = Some(Stop::Interrupted);
            return Ok(found);
        };
        let multiplier = library.load()?;
        // Not all of what the trial took is taken from the parts, where the budget is small.
        let left = budget.saturating_sub(limits.elapsed()).max(budget.div_f64(2.0));
        for (placement, suffix, share) in &parts {
            if !found.is_interrupted() {
                let with = Part { placement, suffix, library: (&library, &multiplier) };
                found.extend(with.measure(Limits::new(left.mul_f64(*share), samples), observer)?);
            }
        }
        found.notices.extend(limits.overrun(GAUGE, Duration::ZERO));
        Ok(found)
    }
}

/// Threads under way.
struct Part<'a> {
    placement: &'a Placement,
    suffix: &'static str,
    library: (&'a Tried, &'a Multiplier),
}

impl Part<'_> {
    /// Loops and DGEMM by turns.
    fn measure(&self, limits: Limits, observer: &mut dyn Observer) -> Result<Outcome, TeamError> {
        let Self { placement, suffix, library: (library, multiplier) } = self;
        let of_double = |kernel: &PeakLoop| kernel.element == "f64";
        let loops = peak::loops().into_iter().filter(of_double).chain(peak::without_fma());
        let mut peaks: Vec<Peak> =
            loops.map(|kernel| Peak { kernel, bursts: Vec::new() }).collect();
        let mut team = Team::start(&places(placement))?;
        let details = team.observed().iter().map(ToString::to_string).collect();
        observer.phase("peaks in registers and DGEMM by turns");
        let mut schedule = Schedule::new(policy::CURVES, limits, peaks.len() + 1);
        let stop = schedule.run(observer, None, |turn| {
            let rate = match peaks.get_mut(turn.cell) {
                Some(of) => {
                    let burst = peak::measure(&mut team, &of.kernel, peak::BURST)?.burst();
                    of.bursts.push(burst);
                    burst.rate
                }
                None => dgemm::best(&dgemm::measure(&mut team, multiplier, PRODUCTS)?).0,
            };
            Ok::<_, TeamError>(vec![Sample::of_times(vec![1.0 / rate])])
        })?;
        let judged = OneRegime::new(schedule.samples, &[]);
        let on = ThreadsConfig::of(placement);
        let figure = |name: &str, cell: usize| {
            let name = format!("{name}{suffix}");
            let m = Measurement::new(roofline::GAUGE, roofline::PEAK, name, Unit::FlopsPerSecond);
            Some(m.timed(Quoted::Best, judged.of(cell)?, 0, &|seconds| 1.0 / seconds))
        };
        let mut measurements = Vec::new();
        let [fma, simd, scalar, dgemm] = roofline::PEAKS;
        for name in [fma, simd, scalar] {
            let of_name = || peaks.iter().enumerate().filter(|(_, of)| peak_of(&of.kernel) == name);
            let best = of_name().max_by(|(_, a), (_, b)| a.best().0.total_cmp(&b.best().0));
            let Some((cell, fastest)) = best else { continue };
            let loops = of_name().map(|(_, of)| LoopRate::of(of)).collect();
            let config = peak_config(fastest, &on, loops);
            measurements.extend(figure(name, cell).map(|m| m.config(&config)));
        }
        let in_registers = measurements.iter().filter_map(|m: &Measurement| m.value);
        let limit = in_registers.reduce(f64::max);
        let products = figure(dgemm, peaks.len()).map(|m| m.config(&DgemmConfig::of(library, on)));
        measurements.extend(products.map(|m| match limit {
            Some(peak) => m.limit(peak, "the highest peak in registers"),
            None => m,
        }));
        Ok(Outcome { measurements, details, stop: Some(stop), ..Outcome::default() })
    }
}

/// What the record says of the fastest loop.
fn peak_config(peak: &Peak, on: &ThreadsConfig, loops: Vec<LoopRate>) -> PeakConfig {
    let burst: Burst = peak.burst();
    PeakConfig {
        on: on.clone(),
        element: Some(peak.kernel.element.to_owned()),
        isa: Some(peak.kernel.isa_name().to_owned()),
        clock_hz: burst.clock.map(|clock| clock.0),
        flops_per_cycle: burst.a_cycle(on.threads.unwrap_or(1) as usize),
        loops: Some(loops),
        theoretical: None,
    }
}
