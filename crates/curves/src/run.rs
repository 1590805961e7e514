//! Code that all modes use: it runs a schedule, and creates figures from the samples, with all reasons why figures are
//! suspect or invalid.

use crate::GAUGE;
use crate::config::CurveConfig;
use crate::levels::{self, CurvePoint, MachineCache, NamedLevel};
use crate::{Curve, CurveSetup, notice};
use nodegauge_arena::ArenaError;
use nodegauge_arena::PagedMapping;
use nodegauge_arena::evidence::{
    add_memory_limit, page_size_reason, regime_finding, wrong_values_reason,
};
use nodegauge_arena::location;
use nodegauge_arena::names;
use nodegauge_arena::{NumaConfig, PagesConfig};
use nodegauge_chase::traffic::{self, MIN_CALL_SECONDS, WorkingSetLoop, is_short_call};
use nodegauge_chase::{MemoryRegion, RegionBuffers, WitnessedPool};
use nodegauge_gauge::roofline;
use nodegauge_gauge::series::Series;
use nodegauge_kernels::{self as kernels, Kernel, ResidentLoop, Stores};
use nodegauge_machine::CpuId;
use nodegauge_measure::notice::add_new;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::schedule::{RepetitionPolicy, RunLimits, Schedule, Turn, policy};
use nodegauge_measure::{
    BytesPerSec, Failure, Fraction, NoticeId, Observer, Outcome, Seconds, Unit,
};
use std::collections::BTreeMap;
use std::ops::{Deref, Range};

/// Number of vector widths that the choice of loops tries, beginning with the widest.
const WIDTHS: usize = 2;
/// Advice in hints on how to shorten a run.
pub(crate) const SMALLER_SET_ADVICE: &str = "a smaller working set (--size)";
/// Size of the part of a worker's working set that a trial of loops uses if the working set is larger than the caches,
/// bytes. A pass over the part takes much longer than a barrier; successive trials use different parts.
const TRIAL_PART: usize = 8 << 20;

impl Curve {
    /// Returns the test name of the figures.
    pub(crate) fn test_name(self) -> &'static str {
        match self {
            Self::Ceilings => roofline::BANDWIDTH_TEST,
            Self::Ladder => names::LADDER,
            Self::Latency => names::LATENCY,
            Self::Matrix => names::MATRIX,
            Self::Loaded => names::LOADED,
            Self::Mix => names::MIX,
            Self::Family => names::CURVE_FAMILY,
            Self::Scaling => names::SCALING,
        }
    }

    /// Returns the gauge name of the figures; ceilings belong to the gauge of rooflines.
    fn gauge(self) -> &'static str {
        if self == Self::Ceilings { roofline::GAUGE } else { GAUGE }
    }
}

/// State of a run in progress.
pub(crate) struct CurveRun<'a> {
    pub curve: Curve,
    pub setup: CurveSetup<'a>,
    pub limits: RunLimits,
    pub observer: &'a mut dyn Observer,
    pub outcome: Outcome,
}

/// Conversion of the time of a sample into a value.
#[derive(Clone, Copy)]
pub(crate) enum TimeConversion<'a> {
    /// The value is the time itself.
    Seconds,
    /// The value is a rate; the time is the time per byte.
    Rate,
    /// The value is the rate at which a pass of this loop moves bytes on all threads. If the flag is true, the rate is
    /// compared with the theoretical bandwidth of main memory.
    Loop(&'a WorkingSetLoop, bool),
    /// The value is the rate of floating-point operations in a pass, for a kernel under a roof.
    Work(&'a WorkingSetLoop),
}

/// Cells with their samples, sorted by regime, and the failures of lost cells.
pub(crate) struct TimedCells {
    regime: SamplesByRegime,
    series: Series,
}

impl Deref for TimedCells {
    type Target = SamplesByRegime;

    fn deref(&self) -> &SamplesByRegime {
        &self.regime
    }
}

/// Properties of a figure without its samples.
pub(crate) struct FigureOutline<'a> {
    pub name: String,
    pub quoted: QuotedStatistic,
    pub value: TimeConversion<'a>,
    pub config: CurveConfig,
    /// Validity so far, with its reasons.
    pub validity: Validity,
}

impl CurveRun<'_> {
    /// Takes interleaved samples of `cells` cells.
    pub(crate) fn take_samples(
        &mut self,
        policy: RepetitionPolicy,
        cells: usize,
        phase: &str,
        turn: impl FnMut(usize) -> Result<Sample, ArenaError>,
    ) -> Result<TimedCells, Failure> {
        self.take_samples_after_warm_up(policy, vec![Vec::new(); cells], phase, turn)
    }

    /// Takes interleaved samples of cells that have already been warmed up.
    pub(crate) fn take_samples_after_warm_up(
        &mut self,
        policy: RepetitionPolicy,
        warm_up: Vec<Vec<Sample>>,
        phase: &str,
        mut turn: impl FnMut(usize) -> Result<Sample, ArenaError>,
    ) -> Result<TimedCells, Failure> {
        self.observer.begin_phase(phase);
        let mut series =
            Series::new(policy, self.limits, warm_up.len()).with_setup_samples(warm_up);
        series.run(
            &mut |of: Turn| turn(of.cell).map(|sample| vec![sample]),
            self.observer,
            None,
        )?;
        series.store_end(&mut self.outcome);
        let regime = series.samples_by_regime(&self.known_trips());
        self.outcome.findings.extend(regime_finding(&regime.trips, self.setup.is_guest()));
        Ok(TimedCells { regime, series })
    }

    /// Returns the core-to-core round trips that earlier runs saved for the CPUs of the placement.
    pub(crate) fn known_trips(&self) -> Vec<f64> {
        let places = self.setup.placement.thread_cpus();
        let places: Vec<Vec<u32>> =
            places.iter().map(|place| place.iter().map(|cpu| cpu.0).collect()).collect();
        self.setup.site.round_trips.for_places(&places)
    }

    /// Starts a worker for each thread.
    pub(crate) fn start_thread_pool(&mut self) -> Result<WitnessedPool, ArenaError> {
        self.start_place_pool(&self.setup.placement.thread_cpus(), self.setup.spare())
    }

    /// Starts a worker for each place.
    pub(crate) fn start_place_pool(
        &mut self,
        places: &[Vec<CpuId>],
        spare: Option<CpuId>,
    ) -> Result<WitnessedPool, ArenaError> {
        let pool = WitnessedPool::start(places, spare)?;
        self.outcome.details.extend(pool.observed_affinities().iter().map(ToString::to_string));
        Ok(pool)
    }

    /// Maps a buffer of `bytes` for each of `workers`, on the pages and with the policy of the options.
    pub(crate) fn allocate_buffers(
        &self,
        pool: &mut WitnessedPool,
        workers: Range<usize>,
        bytes: u64,
    ) -> Result<MemoryRegion, ArenaError> {
        let policy = &self.setup.options.policy;
        MemoryRegion::allocate(pool, workers, bytes, self.setup.pages(), policy)
    }

    /// Returns the fastest loop of a kernel for working sets of `bytes` bytes. A short trial measures loops of two
    /// vector widths and all unroll factors interleaved, until the share `until` of the time for choices has elapsed.
    /// If there is no time for a trial, the loop with the widest vectors is returned.
    pub(crate) fn find_fastest_loop(
        &mut self,
        until: f64,
        pool: &mut WitnessedPool,
        buffers: RegionBuffers<'_>,
        kernel: Kernel,
        stores: &[Stores],
        bytes: usize,
    ) -> Result<Option<ResidentLoop>, ArenaError> {
        let variants = stores.iter().flat_map(|kind| kernels::resident_loops(kernel, *kind));
        let mut variants: Vec<ResidentLoop> = variants.collect();
        let mut widths: Vec<u32> = variants.iter().map(vector_bits).collect();
        widths.sort_unstable_by(|a, b| b.cmp(a));
        widths.dedup();
        let narrowest = widths.get(WIDTHS - 1).or(widths.last()).copied().unwrap_or(0);
        variants.retain(|variant| vector_bits(variant) >= narrowest);
        // The first loop has the widest vectors.
        if variants.len() < 2 || self.is_chosen_late(until) {
            return Ok(variants.first().copied());
        }
        let beyond = (bytes * pool.workers()) as u64 > self.setup.held() && bytes > TRIAL_PART;
        let bytes = if beyond { TRIAL_PART } else { bytes };
        if !beyond {
            traffic::refill(pool, buffers, bytes)?;
        }
        let mut field: Vec<WorkingSetLoop> =
            variants.iter().map(|variant| WorkingSetLoop::new(*variant, bytes)).collect();
        let trial = RepetitionPolicy {
            measurement_share: Fraction(until * policy::CURVES.choice_share.0),
            ..policy::LOOP_CHOICE
        };
        let limits = RunLimits { samples: None, ..self.limits };
        // The trial belongs to the set-up: its failure ends the run, whereas a failure in a series keeps part of the
        // run.
        let mut schedule = Schedule::new(trial, limits, field.len());
        let mut trials = 0..;
        schedule.run(self.observer, None, |turn| -> Result<_, ArenaError> {
            let shift = trials.next().filter(|_| beyond);
            let seconds = field[turn.cell].time_short_call(pool, buffers, shift)?;
            Ok(vec![Sample::from_times(vec![seconds])])
        })?;
        let times: Vec<f64> = schedule.samples.iter().map(|samples| shortest(samples)).collect();
        // Without time for a trial, the first loop is used, which has the widest vectors.
        let fastest = (0..variants.len()).min_by(|x, y| times[*x].total_cmp(&times[*y]));
        Ok(fastest.map(|cell| variants[cell]))
    }

    /// True if the user set the budget and the share `until` of the time for choices has elapsed. In this case, also
    /// adds a notice.
    fn is_chosen_late(&mut self, until: f64) -> bool {
        let whole = self.setup.options.run_budget.unwrap_or(self.setup.options.budget);
        let end = self.limits.budget.mul_f64(until * policy::CURVES.choice_share.0);
        let of_whole = RunLimits { is_set_by_user: whole.is_set_by_user, ..self.limits };
        let is_late = of_whole.must_be_kept() && self.limits.elapsed() >= end;
        if is_late {
            let text = "no time left to compare the loops of each kernel: some were chosen by \
                        vector width";
            add_new(&mut self.outcome.notices, [notice(NoticeId::Budget, text)]);
        }
        is_late
    }

    /// Returns the configuration and the validity that all figures of a pool on a memory region share.
    pub(crate) fn config_and_validity(
        &self,
        pool: &WitnessedPool,
        region: &MemoryRegion,
    ) -> (CurveConfig, Validity) {
        let (pages, doubts) = actual_pages(region.mapping());
        let places =
            pool.observed_affinities().iter().map(|thread| thread.cpus.iter().map(|cpu| cpu.0));
        let config = CurveConfig {
            threads: Some(pool.workers() as u64),
            places: Some(places.map(Iterator::collect).collect()),
            places_asked: Some(self.setup.placement.places.clone()),
            bind: Some(self.setup.placement.bind.to_string()),
            pages: Some(pages),
            numa: Some(NumaConfig {
                asked: self.setup.options.policy.to_string(),
                got: numa_node_shares(region.mapping()),
                ..NumaConfig::default()
            }),
            ..CurveConfig::default()
        };
        (config, doubts)
    }

    /// Adds the figure for one part of the samples of a cell. For a lost cell without counting samples, adds an invalid
    /// figure without a value. Otherwise, adds nothing if no sample counts. Returns true if the figure has a value.
    pub(crate) fn add_figure(
        &mut self,
        judged: &TimedCells,
        cell: usize,
        part: usize,
        figure: FigureOutline<'_>,
    ) -> bool {
        let Some(timed) = judged.cell_samples(cell) else {
            let is_lost = judged.series.cell_failure(cell).is_some();
            self.outcome
                .measurements
                .extend(is_lost.then(|| self.unmeasured(judged, cell, figure)));
            return false;
        };
        let FigureOutline { name, quoted, value, mut config, mut validity } = figure;
        let threads = config.threads.unwrap_or(1) as f64;
        let (test, unit) = self.test_and_unit(value);
        let amount = match value {
            TimeConversion::Seconds => None,
            TimeConversion::Rate => Some(1.0),
            TimeConversion::Loop(traffic, _) => Some(traffic.counted_bytes() * threads),
            TimeConversion::Work(traffic) => {
                Some(traffic.counted_bytes() * threads * traffic.flops_per_byte())
            }
        };
        let m = Measurement::new(self.curve.gauge(), test, name, unit);
        let mut m = m.with_timed_samples(quoted, timed, part, &|seconds| {
            amount.map_or(seconds, |amount| amount / seconds)
        });
        let Some(reported_value) = m.value else { return false };
        if let TimeConversion::Loop(traffic, _) | TimeConversion::Work(traffic) = value {
            config.add_loop(traffic);
            if let TimeConversion::Loop(_, true) = value {
                let allocates = self.setup.site.machine.processor.write_allocate == Some(true);
                m = m.with_traffic(traffic.memory_traffic(reported_value, allocates));
                m = add_memory_limit(m, &self.setup.site.machine, config.numa.as_ref());
            }
            if let Some(wrong) = &traffic.wrong_value {
                validity.add(Status::Invalid, wrong_values_reason(wrong));
            }
            let seconds = amount.map(|amount| amount / reported_value);
            if let Some(doubt) = seconds.and_then(|seconds| short_call(traffic, seconds)) {
                validity.add(Status::Suspect, doubt);
            }
        }
        for doubt in judged.doubts(cell, part, self.setup.is_guest()) {
            validity.add(Status::Suspect, doubt);
        }
        if let Some(limit) = m.limit.as_ref().filter(|limit| limit.fraction > Fraction(1.0)) {
            let reason = format!(
                "{} exceeds the theoretical {} ({}): part of the set is in a cache, or the \
                 theoretical value is wrong",
                BytesPerSec(reported_value),
                BytesPerSec(limit.value),
                limit.basis
            );
            validity.add(Status::Invalid, reason);
        }
        config.engine = Some("native".to_owned());
        config.stopped = self.outcome.stop.map(|stop| stop.to_string());
        config.round_trip_s = Some(timed.group.round_trip).filter(|trip| trip.is_finite());
        let m = judged.series.judge_figure(cell, m.with_config(&config).with_validity(validity));
        self.outcome.measurements.push(m);
        true
    }

    /// Returns the invalid figure of a lost cell.
    fn unmeasured(
        &self,
        judged: &TimedCells,
        cell: usize,
        figure: FigureOutline<'_>,
    ) -> Measurement {
        let (test, unit) = self.test_and_unit(figure.value);
        let m = Measurement::new(self.curve.gauge(), test, figure.name, unit);
        judged
            .series
            .judge_figure(cell, m.with_config(&figure.config).with_validity(figure.validity))
    }

    /// Returns the test and the unit of a figure.
    fn test_and_unit(&self, value: TimeConversion<'_>) -> (&'static str, Unit) {
        match value {
            TimeConversion::Seconds => (self.curve.test_name(), Unit::Seconds),
            TimeConversion::Rate | TimeConversion::Loop(..) => {
                (self.curve.test_name(), Unit::BytesPerSecond)
            }
            TimeConversion::Work(_) => (roofline::KERNEL_TEST, Unit::FlopsPerSecond),
        }
    }

    /// Adds a notice about something that was not measured.
    pub(crate) fn add_left_out_notice(&mut self, text: String) {
        self.outcome.notices.push(notice(NoticeId::LeftOut, text));
    }

    /// Returns the levels of a curve. If `whole` is true because all working sets were measured, contradictions with
    /// the reported caches become notices.
    pub(crate) fn name_levels(
        &mut self,
        dots: &[CurvePoint],
        reported: &[MachineCache],
        whole: bool,
    ) -> Vec<NamedLevel> {
        let named =
            levels::name_levels(dots, levels::find_levels(dots), reported, self.setup.is_guest());
        if whole {
            let other = levels::difference_reason(self.curve == Curve::Latency);
            let shared = reported.last().filter(|cache| cache.level > 2);
            let shared = shared.map(|cache| format!("L{} ", cache.level));
            for mut text in levels::disagreements(dots, &named, reported) {
                if shared.as_ref().is_some_and(|level| text.starts_with(level)) {
                    text = format!("{text}; {other}");
                }
                self.outcome.notices.push(notice(NoticeId::Contradicted, text));
            }
        }
        named
    }
}

/// Returns the share of a mapping on each NUMA node; `None` if the kernel does not report it.
pub(crate) fn numa_node_shares(mapping: &PagedMapping) -> Option<BTreeMap<u32, Fraction>> {
    let (start, length) = mapping.address_and_length();
    let got = location::range_shares(start, length)?;
    Some(got.into_iter().map(|(node, share)| (node.0, share)).collect())
}

/// Returns the requested and the actual pages of a mapping, and the validity: suspect if they differ.
pub(crate) fn actual_pages(mapping: &PagedMapping) -> (PagesConfig, Validity) {
    let asked = mapping.requested_pages();
    let got = mapping.page_size_shares().ok();
    let mut validity = Validity::valid();
    if let Some(doubt) = got.as_ref().and_then(|got| page_size_reason(asked, got, "memory")) {
        validity.add(Status::Suspect, doubt);
    }
    (PagesConfig { asked: asked.name().to_owned(), got }, validity)
}

/// Returns the reason why a figure is suspect if its timed calls are too short; `None` if they are long enough.
/// `seconds` is the time of a pass.
fn short_call(traffic: &WorkingSetLoop, seconds: f64) -> Option<String> {
    let call = seconds * traffic.repeats() as f64;
    is_short_call(call).then(|| {
        format!(
            "a timed call takes only {} instead of {}, so the start and the end of the threads \
             add to its time",
            Seconds(call),
            Seconds(MIN_CALL_SECONDS)
        )
    })
}

/// Returns the length of the vectors of a loop, bits.
fn vector_bits(variant: &ResidentLoop) -> u32 {
    variant.shape().isa.vector_bits()
}

/// Returns the shortest time of the first part in these samples, seconds; infinite if there are no samples.
fn shortest(samples: &[Sample]) -> f64 {
    samples.iter().map(|sample| sample.seconds[0]).fold(f64::INFINITY, f64::min)
}
