//! Test `device peaks`: register-only fused multiply-adds in single and double precision. If the vendor's library is
//! installed, DGEMM is measured interleaved with them.

mod chains;
mod product;

use crate::config::DevicePeakConfig;
use crate::driver::{DeviceError, OpenDevice};
use crate::evidence::DeviceEvidence;
use crate::info::{DeviceClass, DeviceInfo};
use crate::state::DeviceStates;
use crate::{GAUGE, drivers, host_memory};
use chains::{ChainLoopShape, Chains};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_kernels::Element;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::halving::{
    self, CandidateTurns, DeadlineCheck, EliminationRule, Halving, PassesPerRound,
    PreparationResult, SearchRules, TurnRate,
};
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, policy};
use nodegauge_measure::{Failure, Notice, NoticeId, Observer, Outcome, Unit, clock};
use product::MatrixProduct;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Name of this test in records.
pub const TEST: &str = "device_peaks";
/// Name of the figure for the rate of fused multiply-adds.
pub const FMA: &str = "fma";
/// Name of the figure for the rate of matrix products.
pub const DGEMM: &str = "dgemm";

/// Share of the time budget for the choice of loops. It is large because some drivers need a second to build a loop,
/// whereas the samples of the chosen loop vary little.
const CHOICE_SHARE: f64 = 0.5;

/// Planned run.
pub struct PeakPlan {
    devices: Vec<DeviceInfo>,
    elements: Vec<Element>,
    budget: Budget,
    samples: Option<usize>,
    notices: Vec<Notice>,
}

impl PeakPlan {
    /// Default time budget.
    pub const BUDGET: Duration = Duration::from_secs(8);

    /// Plans a run on `devices` in the precisions `elements` (both precisions if empty), with a time budget or an exact
    /// number of samples.
    pub fn new(
        devices: Vec<DeviceInfo>,
        elements: Vec<Element>,
        budget: Budget,
        samples: Option<usize>,
        notices: Vec<Notice>,
    ) -> Self {
        let elements =
            if elements.is_empty() { vec![Element::F64, Element::F32] } else { elements };
        Self { devices, elements, budget, samples, notices }
    }
}

/// Work that a cell measures.
enum Work {
    Chains(Chains),
    Product(MatrixProduct),
}

struct PeakCell {
    device: Rc<dyn OpenDevice>,
    work: Work,
    watched: DeviceStates,
}

impl PeakCell {
    fn new(device: &Rc<dyn OpenDevice>, work: Work) -> Self {
        let watched = DeviceStates::new(device.state());
        Self { device: device.clone(), work, watched }
    }

    /// Runs the work once and returns its time by the device's clock, seconds.
    fn time(&mut self) -> Result<f64, DeviceError> {
        match &mut self.work {
            Work::Chains(chains) => chains.run_timed(),
            Work::Product(product) => product.run_timed(),
        }
    }

    fn flops(&self) -> f64 {
        match &self.work {
            Work::Chains(chains) => chains.flops(),
            Work::Product(product) => product.flops(),
        }
    }
}

impl PlannedRun for PeakPlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.budget.time), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        vec![
            PossibleFigures::new(GAUGE, TEST, [FMA, DGEMM], &[Unit::FlopsPerSecond])
                .with_known_limit(true),
        ]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let limits = RunLimits::from_budget(self.budget, self.samples);
        let mut notices = self.notices;
        let devices = drivers::open_devices(&self.devices)?;
        let host = host_memory::remaining_memory(site);
        for device in devices.iter().filter(|device| device.info().shares_host_memory) {
            host_memory::array_memory(device.info(), host)?;
        }
        let mut cells: Vec<PeakCell> = Vec::new();
        let all =
            devices.iter().flat_map(|device| self.elements.iter().map(move |of| (device, *of)));
        let all: Vec<(&Rc<dyn OpenDevice>, Element)> = all.collect();
        let choose = limits.budget.mul_f64(CHOICE_SHARE / all.len().max(1) as f64);
        for (device, element) in &all {
            let id = device.info().id();
            if *element == Element::F64 && !device.info().double {
                let text = format!("{id} has no double precision");
                notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
                continue;
            }
            observer.begin_phase(&format!("{id}: trying loops in {element}"));
            let deadline = clock::now() + choose;
            let chains = best(device, *element, deadline, observer)?;
            cells.push(PeakCell::new(device, Work::Chains(chains)));
            if *element == Element::F64 {
                let product = MatrixProduct::for_device(device)?;
                cells.extend(product.map(|product| PeakCell::new(device, Work::Product(product))));
            }
        }
        observer.begin_phase("measuring the peaks, interleaved");
        let mut series = Series::new(policy::DEVICES, limits, cells.len());
        let mut turn = |turn: Turn| -> Result<Vec<Sample>, DeviceError> {
            let cell = &mut cells[turn.cell];
            let seconds = cell.time()?;
            cell.watched.record_state(cell.device.state());
            Ok(vec![Sample::from_times(vec![seconds])])
        };
        series.run(&mut turn, observer, None)?;
        let regime = series.samples_by_regime(&[]);
        let stopped = series.stop_reason().to_string();
        let mut measurements = Vec::new();
        for (number, cell) in cells.iter_mut().enumerate() {
            let mut worst = None;
            if series.failure().is_none() {
                match cell.largest_deviation() {
                    Ok(deviation) => worst = deviation,
                    Err(error) => series.mark_lost(number, error.into()),
                }
            }
            let evidence =
                DeviceEvidence { site, series: &series, regime: &regime, stopped: &stopped };
            measurements.extend(cell.figure(number, &evidence, worst));
        }
        let mut outcome = Outcome { measurements, notices, ..Outcome::default() };
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}

/// Rules for the choice of loops. Each loop is timed once per round. A launch is short, so that enough rounds are
/// possible to eliminate only significantly slower loops, even on a busy node.
const RULES: SearchRules = SearchRules {
    seed: 0x7065_616B,
    passes: PassesPerRound::One,
    elimination: EliminationRule::SignificantlySlower,
    min_rounds: 0,
    max_rounds: None,
    whole_rounds: 3,
    check: DeadlineCheck::Round,
};

/// Returns the fastest loop of multiply-adds, chosen by successive halving. Loops that cannot be built for the device
/// are left out.
fn best(
    device: &Rc<dyn OpenDevice>,
    element: Element,
    deadline: Instant,
    observer: &dyn Observer,
) -> Result<Chains, DeviceError> {
    let shapes = ChainLoopShape::candidates(device.info(), element);
    let late = || observer.is_interrupted() || clock::now() >= deadline;
    let mut build = |_: usize, shape: &ChainLoopShape| match Chains::new(device, element, *shape) {
        Ok(chains) => Ok(PreparationResult::Works(chains)),
        Err(error) => Ok(PreparationResult::Refused(error)),
    };
    let working = halving::prepare_candidates(&[shapes], &late, &mut build)?;
    let mut groups: Vec<Halving<Chains>> = working.into_iter().map(Halving::new).collect();
    halving::choose(&mut Loops { observer }, &mut groups, &RULES, deadline)?;
    Ok(groups.swap_remove(0).into_leader())
}

/// Loops of multiply-adds for the choice, which measures them interleaved.
struct Loops<'a> {
    observer: &'a dyn Observer,
}

impl CandidateTurns for Loops<'_> {
    type Candidate = Chains;
    type Error = DeviceError;

    fn turn(&mut self, picked: &mut [&mut Chains]) -> Result<Vec<TurnRate>, DeviceError> {
        let mut rates = Vec::with_capacity(picked.len());
        for chains in picked {
            let rate = chains.flops() / chains.run_timed()?;
            rates.push(TurnRate { rate, round_trip: f64::NAN });
        }
        Ok(rates)
    }

    fn must_end(&mut self) -> bool {
        self.observer.is_interrupted()
    }
}

impl PeakCell {
    /// Verifies the result of the work. Returns its largest deviation from the expected result.
    fn largest_deviation(&mut self) -> Result<Option<f64>, DeviceError> {
        match &mut self.work {
            Work::Chains(chains) => chains.max_deviation().map(Some),
            Work::Product(product) => product.max_deviation().map(Some),
        }
    }

    /// Returns the figure of the cell at index `number`. `worst` is the largest relative deviation of its results.
    fn figure(
        &self,
        number: usize,
        evidence: &DeviceEvidence<'_>,
        worst: Option<f64>,
    ) -> Option<Measurement> {
        let DeviceEvidence { site, series, regime, stopped } = *evidence;
        let info = self.device.info();
        let mut validity = Validity::valid();
        self.watched.judge(&info.id(), &mut validity);
        let mut on = self.watched.config(info);
        on.stopped = Some(stopped.clone());
        let config = DevicePeakConfig { on, worst_error: worst, ..DevicePeakConfig::default() };
        let (name, config, allowed, limit) = match &self.work {
            Work::Chains(chains) => {
                let limit = match (info.class, chains.element) {
                    (DeviceClass::Cpu, Element::F64) => site.machine.peak_flops.as_ref(),
                    (DeviceClass::Cpu, Element::F32) => None,
                    (_, Element::F64) => info.peak[0].as_ref(),
                    (_, Element::F32) => info.peak[1].as_ref(),
                };
                (FMA, chains.describe(config), 0.0, limit)
            }
            Work::Product(product) => {
                let limit = info.matrix_peak.as_ref();
                (DGEMM, product.describe(config), product.tolerance(), limit)
            }
        };
        match worst {
            Some(worst) if worst > allowed => validity.mark_invalid(format!(
                "{}: results of {name} deviate by {worst:.1e}, but rounding explains at most \
                 {allowed:.1e}; the device computed wrong results",
                info.id()
            )),
            None => validity.mark_suspect("the device failed before its results were checked"),
            Some(_) => {}
        }
        let flops = self.flops();
        let m = Measurement::new(GAUGE, TEST, name, Unit::FlopsPerSecond);
        let m = series
            .figure(regime, (number, 0), m, QuotedStatistic::Best, &|seconds| flops / seconds)?;
        let mut m = m.with_config(&config);
        if let Some(limit) = limit {
            m = m.with_theoretical_limit(limit);
        }
        Some(series.judge_figure(number, m.with_validity(validity)))
    }
}

/// Describes the measured loop or library.
pub(crate) fn loop_in_words(config: &DevicePeakConfig) -> String {
    match (&config.library, config.n, config.chains) {
        (Some(library), Some(n), _) => format!("{library}, order {n}"),
        (_, _, Some(chains)) => format!(
            "{} groups of {}, {chains} chains of {}",
            config.groups.unwrap_or(0),
            config.group_items.unwrap_or(0),
            config.vector_elements.unwrap_or(0),
        ),
        _ => "-".to_owned(),
    }
}
