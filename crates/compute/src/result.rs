//! Figures and notices derived from the measured values of a run. The figures are the rating, the DGEMM rate and the
//! peaks, with their limits and all reasons for doubt.

use crate::choose;
use crate::config::{
    DgemmConfig, LoopRate, PeakConfig, PowerConfig, RatingConfig, TheoreticalPeak, ThreadsConfig,
    TimeConfig,
};
use crate::observed::{LibraryRuns, Observations, SolvedSystem};
use crate::options::HplOptions;
use crate::{DGEMM, FMA_PEAK, FMA_PEAK_F32, GAUGE, RATING, TEST};
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_gauge::MeasuredNode;
use nodegauge_lu::peak::{self, Peak, PeakLoop};
use nodegauge_lu::residual::THRESHOLD;
use nodegauge_lu::{dgemm, factorisation as lu};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::{BytesPerSec, FlopsPerSec, Fraction, Hertz, Notice, NoticeId, Unit};
use nodegauge_placement::{Binding, Placement};
use std::collections::BTreeSet;

/// Formula of the rating, as written in the record.
pub(crate) const RATING_FORMULA: &str = "(2/3 N^3 + 3/2 N^2) / t";

/// Maximum share of the threads' time that panels and waiting for panels may take. If they take more, panels limit the
/// rating, not matrix products.
const MAX_PANEL_SHARE: f64 = 0.5;
/// Share of the DGEMM rate below which LU is reported as slow, if N is large enough for a higher share.
const MIN_LU_SHARE: f64 = 0.85;
/// Share of the peak below which a library's DGEMM is reported as slow.
const MIN_DGEMM_SHARE: f64 = 0.75;
/// Share of the Triad bandwidth above which the memory traffic of the products also limits the rating.
const MEMORY_BOUND: f64 = 0.5;
/// Minimum relative drop of the clock, compared with scalar work, that is reported.
const CLOCK_DROP: f64 = 0.03;
/// Share of the time of the threads above which waiting is reported.
const MAX_WAITING: f64 = 0.05;
/// Share of disturbance above which a rating is suspect. It applies to the time of a thread used by other processes, to
/// the CPU time used by other guests, and to the execution units used by other processes. On an idle node, the rating
/// would be higher by about this share.
const MAX_DISTURBANCE: f64 = 0.02;
/// Share by which a rate may exceed its measured limit. A larger excess means that the limit was measured under worse
/// conditions.
const MAX_EXCESS: f64 = 0.02;
/// Reason why a figure above the measured peak is suspect.
const ABOVE_PEAK: &str =
    "above the measured peak: the clock or other load changed between the two measurements";

/// Measured values of a run, and the settings of the run.
pub(crate) struct RatingEvidence<'a> {
    pub site: &'a MeasuredNode,
    pub placement: &'a Placement,
    pub options: &'a HplOptions,
    pub observations: &'a Observations,
}

/// Returns a figure whose value is the best of its samples.
fn figure(name: &str, samples: Vec<f64>) -> Measurement {
    let quoted = if samples.len() == 1 { QuotedStatistic::Single } else { QuotedStatistic::Best };
    Measurement::new(GAUGE, TEST, name, Unit::FlopsPerSecond).with_samples(quoted, samples)
}

/// Sets the validity of a figure; a figure above its measured limit is suspect.
fn judged(m: Measurement, mut validity: Validity, reason: &str) -> Measurement {
    if m.limit.as_ref().is_some_and(|limit| limit.fraction.0 > 1.0 + MAX_EXCESS) {
        validity.add(Status::Suspect, reason);
    }
    m.with_validity(validity)
}

/// Returns a statement on whether memory bandwidth limits products that use this share of Triad's rate, with the
/// remedy.
fn memory_verdict(share: f64) -> &'static str {
    if share > MEMORY_BOUND {
        "memory bandwidth limits the products: check the populated channels (nodegauge machine), or use a larger NB"
    } else {
        "memory bandwidth does not limit the products"
    }
}

fn bottleneck(text: String) -> Notice {
    Notice::new(NoticeId::Bottleneck, GAUGE, text)
}

impl RatingEvidence<'_> {
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let mut out = Vec::new();
        for library in &self.observations.libraries {
            out.extend(library.best().map(|solution| self.rating(library, solution)));
            let m = self.against_peak(DGEMM, library.dgemm.clone());
            let m = m.with_config(&DgemmConfig::from_trial(
                &library.candidate,
                ThreadsConfig::from_placement(self.placement),
            ));
            out.push(judged(m, Validity::valid(), ABOVE_PEAK));
        }
        let peaks =
            ["f64", "f32"].into_iter().filter_map(|element| self.observations.peak(element));
        out.extend(peaks.map(|peak| self.fma_peak(peak)));
        out
    }

    fn threads(&self) -> usize {
        self.placement.threads.len()
    }

    /// Returns a figure with the measured peak as its limit.
    fn against_peak(&self, name: &str, samples: Vec<f64>) -> Measurement {
        let m = figure(name, samples);
        let Some(peak) = self.observations.peak("f64").filter(|peak| peak.best_rate().0 > 0.0)
        else {
            return m;
        };
        let isa = peak.kernel.isa_name();
        let threads = count_in_words(self.threads(), "thread");
        m.with_limit(peak.best_rate().0, format!("{isa} multiply-adds in registers, {threads}"))
    }

    fn rating(&self, library: &LibraryRuns, solution: &SolvedSystem) -> Measurement {
        let peak = self.observations.peak("f64");
        let SolvedSystem { order, nb, rating, seconds, residual, .. } = solution;
        let bursts = peak.map(|peak| solution.comparison.loop_bursts(&peak.kernel));
        let bursts = bursts.unwrap_or_default();
        let shared = peak.and_then(|peak| peak::other_load_share(&bursts, &peak.bursts));
        let time = &TimeConfig { shared, ..solution.time.clone() };
        let theory = peak.and_then(|peak| self.theory(peak));
        let sized = library.order.as_ref();
        let config = RatingConfig {
            dgemm: DgemmConfig::from_trial(
                &library.candidate,
                ThreadsConfig::from_placement(self.placement),
            ),
            engine: Some("native".to_owned()),
            n: Some(*order as u64),
            nb: Some(*nb as u64),
            p: Some(1),
            q: Some(1),
            seed: Some(self.options.seed),
            seconds: Some(*seconds),
            formula: Some(RATING_FORMULA.to_owned()),
            residual: Some(residual.clone()),
            time: Some(time.clone()),
            began: Some(solution.start_time),
            order_formula: sized.map(|sized| sized.formula.clone()),
            predicted_seconds: sized.map(|sized| sized.seconds),
            matrix_bytes: sized.map(|sized| sized.bytes.0),
            on_huge_pages: solution.huge_pages,
            search: (!library.search.is_empty()).then(|| library.search.clone()),
            of_dgemm: Some(solution.dgemm_share()).filter(|of| of.0.is_finite()),
            of_fma_peak: peak.map(|peak| Fraction(*rating / peak.best_rate())),
            of_theoretical: theory.map(|theory| Fraction(*rating / theory.value)),
            power: self.power(solution),
            ..RatingConfig::default()
        };
        let mut validity = Validity::valid();
        let failed = library.solutions.iter().find(|candidate| !candidate.residual.passes());
        if let Some(failed) = failed {
            let failed_residual = failed.residual.value.unwrap_or(f64::NAN);
            let reason = format!(
                "the residual is {failed_residual:.3e}, not below {THRESHOLD}: x is not a solution"
            );
            validity.add(Status::Invalid, reason);
        }
        let idle = time.panels + time.waiting;
        if idle.0 > MAX_PANEL_SHARE {
            let idle = idle.in_whole_percent();
            let of_dgemm = solution.dgemm_share().in_whole_percent();
            let reason = format!(
                "N = {order} is too small: panels limit the rating, not matrix products; panels \
                 and waiting for panels took {idle} of the threads' time, and the rating is \
                 {of_dgemm} of the DGEMM rate"
            );
            validity.add(Status::Suspect, reason);
        }
        if failed.is_none() && time.lost.0 > MAX_DISTURBANCE {
            let lost = time.lost.in_whole_percent();
            let reason = format!(
                "other load took {lost} of a thread's time during the solve; repeat the run on \
                 an idle node"
            );
            validity.add(Status::Suspect, reason);
        }
        let stolen = time.stolen.filter(|stolen| stolen.0 > MAX_DISTURBANCE);
        if let (None, Some(stolen)) = (failed, stolen) {
            let stolen = stolen.in_whole_percent();
            let reason = format!(
                "the hypervisor gave {stolen} of the CPU time to other guests during the solve"
            );
            validity.add(Status::Suspect, reason);
        }
        if let (None, Some(shared)) = (failed, shared.filter(|shared| shared.0 > MAX_DISTURBANCE)) {
            let rates: Vec<f64> = bursts.iter().map(|burst| burst.rate.0 / 1e9).collect();
            let min = rates.iter().copied().reduce(f64::min);
            let max = rates.iter().copied().reduce(f64::max);
            let reason = format!(
                "other load used {} of the cores' execution units: register-only loops before \
                 and after the solve reached {:.1} to {:.1} GFLOP/s; repeat the run on an idle \
                 node",
                shared.in_whole_percent(),
                min.unwrap_or(0.0),
                max.unwrap_or(0.0)
            );
            validity.add(Status::Suspect, reason);
        }
        let samples = match failed {
            Some(_) => Vec::new(),
            None => library.solutions.iter().map(|each| each.rating.0).collect(),
        };
        judged(self.against_peak(RATING, samples).with_config(&config), validity, ABOVE_PEAK)
    }

    fn power(&self, solution: &SolvedSystem) -> Option<PowerConfig> {
        let basis = match self.observations.energy.as_ref()? {
            Ok(basis) => Some(basis.clone()),
            Err(reason) => {
                let reason = Some(reason.0.clone());
                return Some(PowerConfig { reason, ..PowerConfig::default() });
            }
        };
        let watts = solution.joules? / solution.seconds;
        let flops_per_watt = Some(solution.rating / watts);
        let watts = Some(watts);
        Some(PowerConfig { watts, flops_per_watt, basis, reason: None })
    }

    fn fma_peak(&self, peak: &Peak) -> Measurement {
        let PeakLoop { element, .. } = peak.kernel;
        let isa = peak.kernel.isa_name();
        let loops = self.observations.peaks.iter().filter(|other| other.kernel.element == element);
        let of_loops = loops
            .map(|other| LoopRate { clock_hz: self.clock(other), ..LoopRate::from_peak(other) })
            .collect();
        let theory = self.theory(peak);
        let config = PeakConfig {
            on: ThreadsConfig::from_placement(self.placement),
            element: Some(element.to_owned()),
            isa: Some(isa.to_owned()),
            clock_hz: self.clock(peak),
            flops_per_cycle: self
                .clock(peak)
                .and_then(|_| peak.best_burst().flops_per_cycle(self.threads())),
            loops: Some(of_loops),
            theoretical: theory.clone(),
        };
        let name = if element == "f64" { FMA_PEAK } else { FMA_PEAK_F32 };
        let rates = peak.bursts.iter().map(|burst| burst.rate.0).collect();
        let mut m = figure(name, rates).with_config(&config);
        if let Some(theory) = theory.filter(|theory| theory.value.0 > 0.0) {
            m = m.with_limit(theory.value.0, theory.formula);
        }
        m.with_validity(Validity::valid())
    }

    /// Returns the maximum number of operations per cycle of one core for the element type of a loop. If the number for
    /// single precision is unknown, it is twice the number for double precision.
    fn architecture(&self, peak: &Peak) -> Option<f64> {
        let processor = &self.site.machine.processor;
        let double = f64::from(processor.flops_per_cycle?);
        if peak.kernel.element != "f32" {
            return Some(double);
        }
        Some(processor.flops_per_cycle_single.map_or(2.0 * double, f64::from))
    }

    /// Returns the clock frequency during the best burst of a loop; `None` if it is unknown, or if it implies more
    /// operations per cycle than a core can do.
    fn clock(&self, peak: &Peak) -> Option<Hertz> {
        let burst = peak.best_burst();
        let per_cycle = burst.flops_per_cycle(self.threads())?;
        let possible =
            self.architecture(peak).is_none_or(|max| per_cycle <= max * (1.0 + MAX_EXCESS));
        burst.clock.filter(|_| possible)
    }

    /// Returns the theoretical peak: cores x clock x operations per cycle. The clock is measured during the best burst,
    /// because the reported nominal clock is often the frequency of the time-stamp counter.
    fn theory(&self, peak: &Peak) -> Option<TheoreticalPeak> {
        let per_cycle = self.architecture(peak)?;
        let clock = self.clock(peak)?;
        let processor = &self.site.machine.processor;
        let cores = self.threads().min(processor.cores.max(1) as usize);
        let value = cores as f64 * clock.0 * per_cycle;
        let formula = format!(
            "{} x {clock} measured under load x {per_cycle} FLOP/cycle with FMA",
            count_in_words(cores, "core")
        );
        Some(TheoreticalPeak {
            value: FlopsPerSec(value),
            formula,
            without_fma: processor.ratio_without_fma().map(|ratio| FlopsPerSec(value * ratio)),
        })
    }

    /// Returns the notices about what limits the ratings.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        let several = self.observations.libraries.len() > 1;
        for library in &self.observations.libraries {
            if let Some(solution) = library.best() {
                let own = self.library_notices(library, solution).into_iter();
                let name = &library.candidate.name;
                // With several libraries, notices about a library begin with the name of the library.
                let named = own.chain([self.memory_notice(solution)]).map(|mut notice| {
                    if several && !notice.message.starts_with(name.as_str()) {
                        notice.message = format!("{name}: {}", notice.message);
                    }
                    notice
                });
                notices.extend(named);
            }
        }
        notices.extend(self.node_notices());
        notices
    }

    /// Returns the reason why comparisons of libraries in this run are doubtful: lost time; `None` if little time was
    /// lost. The libraries were compared shortly before the solve.
    fn disturbance(&self, solution: &SolvedSystem) -> Option<String> {
        let time = &solution.time;
        let bursts = self.observations.peak("f64").and_then(|peak| {
            let bursts = solution.comparison.loop_bursts(&peak.kernel);
            peak::other_load_share(&bursts, &peak.bursts)
        });
        let lost = [Some(time.lost), time.stolen, bursts].into_iter().flatten();
        let max = lost.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|max| max.0 > MAX_DISTURBANCE)?;
        Some(format!("a thread lost {} of its time", max.in_whole_percent()))
    }

    /// Returns the notices about low performance of a library or of LU.
    fn library_notices(&self, library: &LibraryRuns, solution: &SolvedSystem) -> Vec<Notice> {
        let mut notices = Vec::new();
        let best = dgemm::best_rate(&library.dgemm).0;
        let name = &library.candidate.name;
        let of_dgemm = solution.dgemm_share();
        let time = &solution.time;
        let disturbance = self.disturbance(solution);
        if let Some(setting) = library.candidate.setting() {
            let default = library.candidate.default;
            let text = choose::advice(name, &setting, default, disturbance.as_deref());
            notices.push(Notice::new(NoticeId::Chosen, GAUGE, text));
        }
        // Other load makes the rating suspect, but it is not a problem of the library or of LU.
        if disturbance.is_some() {
            return notices;
        }
        let peak = self
            .observations
            .peak("f64")
            .map(|peak| (Fraction(best / peak.best_rate().0), peak.kernel.isa_name()));
        if let Some((share, isa)) = peak.filter(|(share, _)| share.0 < MIN_DGEMM_SHARE) {
            let share = share.in_whole_percent();
            notices.push(bottleneck(format!(
                "the library is slow: DGEMM by {name} is {share} of the {isa} peak; another BLAS library or other kernels may be faster"
            )));
        }
        let waiting = time.waiting.in_whole_percent();
        if of_dgemm.0 < MIN_LU_SHARE {
            let share = of_dgemm.in_whole_percent();
            let panels = time.panels.in_whole_percent();
            notices.push(bottleneck(format!(
                "LU is slow: the rating is {share} of the median DGEMM rate before and after the \
                 solve; panels take {panels} of the threads' time, waiting {waiting}; \
                 a larger N reduces the loss"
            )));
        } else if time.waiting.0 > MAX_WAITING {
            notices.push(bottleneck(format!("threads waited for {waiting} of their time")));
        }
        notices
    }

    /// Returns the notice about memory bandwidth as a limit of the products. A product C -= A B reads and writes every
    /// element of C once per 2 NB operations.
    fn memory_notice(&self, solution: &SolvedSystem) -> Notice {
        let SolvedSystem { rating, nb, .. } = solution;
        let demand = BytesPerSec(rating.0 / lu::flops_per_byte(*nb));
        let gigabytes = demand.0 / 1e9;
        let products = format!(
            "memory traffic of products with NB = {nb}: at least {gigabytes:.1} GB/s (rating x \
             16 B / (2 NB))"
        );
        let Some((triad, source)) = &self.options.triad else {
            return bottleneck(format!(
                "{products}; no saved Triad rate of this node for comparison (run nodegauge stream)"
            ));
        };
        let verdict = match self.disturbance(solution) {
            Some(why) => {
                Obstacle::new(why).cannot_tell("whether memory bandwidth limits the products")
            }
            None => memory_verdict(demand / *triad).to_owned(),
        };
        let share = Fraction(demand / *triad).in_whole_percent();
        bottleneck(format!("{products}, {share} of Triad's {triad} ({source}): {verdict}"))
    }

    /// Returns the notices about clock, throttling and sibling threads.
    fn node_notices(&self) -> Vec<Notice> {
        let mut texts = Vec::new();
        let processor = &self.site.machine.processor;
        let under_load = self.observations.peak("f64").and_then(|peak| self.clock(peak));
        if let (Some(clock), Some(scalar)) = (under_load, processor.measured_hz)
            && 1.0 - clock.0 / scalar.0 > CLOCK_DROP
        {
            let drop = Fraction(1.0 - clock.0 / scalar.0).in_whole_percent();
            texts.push(format!(
                "the clock drops by {drop} under this load: {clock}, compared with {scalar} for scalar work on all cores"
            ));
        }
        if let Some(events) = self.observations.throttle_events.filter(|events| *events > 0) {
            texts.push(format!(
                "the processor was throttled {} during this run (temperature or power): check cooling and power limits",
                count_in_words(events as usize, "time")
            ));
        }
        let threads = &self.placement.threads;
        let cores: Vec<u32> =
            threads.iter().flat_map(|thread| thread.cores(&self.site.topology)).collect();
        let all = cores.len();
        let cores = cores.into_iter().collect::<BTreeSet<u32>>().len();
        if self.placement.bind != Binding::None && cores < all {
            let cores = count_in_words(cores, "core");
            texts.push(format!(
                "{all} threads on {cores}: sibling threads share the execution units of a core, which one HPL thread already uses fully"
            ));
        }
        texts.into_iter().map(bottleneck).collect()
    }
}

#[cfg(test)]
mod tests;
