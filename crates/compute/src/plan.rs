//! Plan of an `hpl` run: checks that can refuse the run, and prediction of N, time and memory from known properties of
//! the node. Planning measures nothing.

use crate::choose::{self, Trial, TrialPlaces, TrialResult};
use crate::config::RatingConfig;
use crate::dat;
use crate::hpl::{self, NbSearch};
use crate::options::HplOptions;
use crate::reference::{self, PlacedReferenceProgram, RankLayout, USUAL_NB};
use crate::request::HplRequest;
use crate::size::{self, ChosenOrder, OrderSpec};
use crate::{DGEMM, FMA_PEAK, FMA_PEAK_F32, GAUGE, RATING, TEST};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_machine::{Topology, peak_in_use};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Machine, TheoreticalValue};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::schedule::{Budget, PredictedTime, RunLimits};
use nodegauge_measure::{
    Bytes, Failure, FlopsPerSec, Fraction, Notice, NoticeId, Observer, Outcome, Seconds, Unit,
    clock, notice,
};
use nodegauge_placement::Placement;
use std::time::Duration;

/// Share of the peak that DGEMM is assumed to reach if no DGEMM rate of this node is known.
const USUAL_DGEMM: f64 = 0.9;
/// Remedy for a budget that is too short.
const SMALLER: &str = "a smaller --order, or one library (--blas)";
/// Assumed maximum ratio of the rate of a library to that of the built-in kernels, if the peak is unknown.
const LIBRARY_OVER_BUILT_IN: f64 = 2.0;
/// Maximum time for generating and checking the matrix, as a share of the predicted time of a solve.
const MAX_OVERHEAD_SHARE: f64 = 0.25;
/// Share of the budget in which libraries and kernels are compared, in addition to the first five measurements of every
/// candidate.
const CHOICE_SHARE: f64 = 0.15;
/// Assumed clock in Hz and operations per cycle of an unknown core; most cores reach these values.
const ASSUMED_CORE: (f64, f64) = (2e9, 16.0);

/// Planned run of `hpl`.
#[derive(Debug)]
pub struct HplPlan {
    pub(crate) placement: Placement,
    pub(crate) options: HplOptions,
    pub(crate) layout: RankLayout,
    /// Plan for each candidate for NB, in the order of the user; a single plan if one NB is given or if NB is searched.
    pub(crate) candidates: Vec<PlannedNb>,
    /// Orders of the two rounds of the search for NB; `None` without a search, or if no rate is known.
    pub(crate) search: Option<[usize; 2]>,
    /// Description of the rate from which the time is predicted; `None` if no rate is known.
    pub(crate) rate: Option<String>,
    /// Available memory; `None` if unknown.
    pub(crate) available: Option<Bytes>,
    /// Theoretical peak of the cores in use; `None` if unknown.
    pub(crate) peak: Option<TheoreticalValue>,
    /// Description of the cores' peaks in single precision and without fused multiply-adds; `None` if unknown.
    pub(crate) other_peaks: Option<String>,
    reference: Option<PlacedReferenceProgram>,
    /// Budget that the user set. A run that would exceed it is refused.
    asked: Option<Duration>,
    /// True if the budget is a share of the user's budget, which the comparison of libraries must keep.
    pub(crate) is_share: bool,
    /// Number of solves that the user set instead of a budget.
    samples: Option<usize>,
    /// Notices about the places of the threads.
    pub(crate) notices: Vec<Notice>,
}

/// Candidate for NB, with N rounded for this NB.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedNb {
    pub nb: usize,
    pub order: ChosenOrder,
}

impl HplPlan {
    /// True if the predicted times are lower bounds, because no earlier solve on this node provides the rate of LU.
    pub(crate) fn is_lower_bound(&self) -> bool {
        self.options.half_rate_order.is_none() && self.options.rate.is_none()
    }

    /// Returns the first candidate; the prediction of the run is based on it.
    pub(crate) fn first_candidate(&self) -> &PlannedNb {
        &self.candidates[0]
    }

    /// Plans the requested run.
    ///
    /// Fails if the threads cannot be placed, if the hosts of a job are unknown, and for the reasons of [`Self::new`].
    pub fn from_request(site: &MeasuredNode, request: HplRequest<'_>) -> Result<Self, Failure> {
        let asked = request.budget;
        let samples = request.samples;
        let placed = request.place(site)?;
        let options = request.options(site, placed.placement.threads.len())?;
        let texts = placed.notices.into_iter();
        let notices = texts.map(|text| Notice::new(NoticeId::Other, "", text)).collect();
        Ok(Self { notices, asked, samples, ..Self::new(site, placed.placement, options)? })
    }

    /// Plans a run on the threads of `placement`.
    ///
    /// Fails if N does not fit into memory, if a library is missing, or if the reference program cannot be run.
    pub fn new(
        site: &MeasuredNode,
        placement: Placement,
        options: HplOptions,
    ) -> Result<Self, Failure> {
        let layout = RankLayout::from_options(&site.topology, &options.ranks, &placement);
        let threads = placement.threads.len();
        let machine = &site.machine;
        let peak = peak_in_use(machine, &site.topology, &placement.cpus(), threads);
        let (dgemm, rate) = foreseen_rate(machine, &options, peak.as_ref(), threads).unzip();
        let spec = options.order;
        let sized = !matches!(spec, OrderSpec::Given(_));
        if machine.is_described() && machine.memory.available.is_none() && sized {
            return Err(Failure::usage("the memory of the described machine is unknown")
                .hint("give --memory, e.g. --memory 768GiB, or --order N"));
        }
        if spec == OrderSpec::Quick && rate.is_none() {
            return Err(Failure::usage(
                "the rate of the described machine is unknown, so N cannot be chosen by time",
            )
            .hint("give --rate, e.g. --rate 2.5TFLOP/s, or --processor"));
        }
        let dgemm = dgemm.unwrap_or(FlopsPerSec(f64::NAN));
        let nbs = if options.nb.is_empty() { vec![USUAL_NB] } else { options.nb.clone() };
        let factor = multiple(&options, &layout);
        let mut candidates = Vec::with_capacity(nbs.len());
        for nb in nbs {
            let constraints = options.constraints(machine, dgemm, threads, nb * factor);
            candidates.push(PlannedNb { nb, order: size::choose(spec, &constraints)? });
        }
        let search = rate.as_ref().and_then(|_| search_orders(machine, &options, dgemm, threads));
        choose::check_libraries(&options.libraries)?;
        let reference = PlacedReferenceProgram::find(&site.topology, layout, &options)?;
        let available = machine.memory.available.map(Bytes);
        let other_peaks =
            peak.as_ref().and_then(|peak| machine.processor.other_peaks_in_words(peak));
        let notices = Vec::new();
        Ok(Self {
            placement,
            options,
            layout,
            candidates,
            search,
            rate,
            available,
            peak,
            other_peaks,
            reference,
            asked: None,
            is_share: false,
            samples: None,
            notices,
        })
    }

    /// Checks that the CPUs of a node are sufficient for the ranks that the user requested per host.
    ///
    /// # Errors
    /// Fails if they are not. An input file for another machine does not require them.
    pub fn check_ranks(&self, topology: &Topology) -> Result<(), Failure> {
        if self.options.ranks.ranks.is_none() {
            return Ok(());
        }
        let [ranks, threads] = [self.layout.ranks, self.layout.threads_per_rank]
            .map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Ok(nodegauge_placement::check_counts(topology, ranks, threads)?)
    }

    /// Returns the input file of the reference program, with the N of this plan. On several hosts, N fills the memory
    /// of all hosts unless the user gave an order.
    ///
    /// # Errors
    /// Fails if N does not fit into memory.
    pub fn input_file(&self, site: &MeasuredNode) -> Result<String, Failure> {
        let mut filled = self.options.clone();
        let PlannedNb { nb, order } = self.first_candidate();
        let nbs: Vec<usize> = self.candidates.iter().map(|candidate| candidate.nb).collect();
        // HPL solves every N with every NB, so there is a single N.
        let of_first = if nbs.len() > 1 { " (the first NB)" } else { "" };
        let grids = [self.layout.grid()];
        if self.layout.hosts == 1 {
            let basis = format!("{}{of_first}", order.formula);
            return Ok(dat::format_input(order.order, &nbs, &grids, &basis));
        }
        if filled.order == OrderSpec::Quick {
            filled.order = OrderSpec::Full;
        }
        let rate = foreseen_rate(&site.machine, &filled, self.peak.as_ref(), 1);
        let rate = rate.map_or(f64::NAN, |(rate, _)| rate.0);
        let chosen = reference::choose_order(site, &filled, rate, &self.layout, 1, *nb)?;
        Ok(dat::format_input(chosen.order, &nbs, &grids, &format!("{}{of_first}", chosen.formula)))
    }
}

impl PlannedRun for HplPlan {
    fn expected_cost(&self) -> ExpectedCost {
        let needed =
            size::needed_memory(self.first_candidate().order.order, self.placement.threads.len());
        ExpectedCost { time: Some(self.options.budget), memory: Some(needed) }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        let limited = site.machine.processor.flops_per_cycle.is_some();
        let names = [RATING, DGEMM, FMA_PEAK, FMA_PEAK_F32];
        vec![
            PossibleFigures::new(GAUGE, TEST, names, &[Unit::FlopsPerSecond])
                .with_known_limit(limited)
                .with_sizes([]),
        ]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let mut outcome = self.measure(site, observer)?;
        let mut notices = self.notices;
        notice::add_new(&mut notices, outcome.notices);
        outcome.notices = notices;
        Ok(outcome)
    }
}

impl HplPlan {
    /// Runs the native solver, then the reference program.
    fn measure(
        &self,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let mut limits =
            RunLimits::from_budget(Budget::new(self.asked, self.options.budget), self.samples);
        if self.options.order != OrderSpec::Quick {
            observer.begin_phase("predicting the time of the solve");
            limits.admit_as_planned(self.predicted()?, SMALLER)?;
        }
        let mut notices = Vec::new();
        observer.begin_phase("comparing BLAS libraries");
        let trial = Trial {
            root: &site.root,
            places: TrialPlaces(self.placement.thread_cpus()),
            time: self.options.budget.mul_f64(CHOICE_SHARE),
            end: choose::trial_end(&RunLimits {
                is_set_by_user: limits.is_set_by_user || self.is_share,
                ..limits
            }),
            interrupted: &|| observer.is_interrupted(),
        };
        let found = choose::choose_fastest_kernels(&self.options.libraries, &trial, &mut notices)?;
        let Some(libraries) = found else {
            let text = "interrupted while BLAS libraries were compared";
            notices.push(Notice::new(NoticeId::Interrupted, GAUGE, text));
            let stop = Some(StopReason::Interrupted);
            return Ok(Outcome { notices, stop, ..Outcome::default() });
        };
        // The time spent on comparing libraries is subtracted from the budget, but a minimum remains.
        let tried = limits.elapsed();
        let solutions = self.requested_solutions(&libraries);
        let min = hpl::min_time(libraries.len());
        let left = self.options.budget.saturating_sub(tried);
        let budget = match self.asked {
            Some(_) => left.saturating_sub(solutions).max(min),
            None => left.max(self.options.budget.mul_f64(1.0 - 2.0 * CHOICE_SHARE)),
        };
        let options = HplOptions { budget, ..self.options.clone() };
        let end = limits.time_at_share(Fraction(1.0));
        let multiple = multiple(&self.options, &self.layout);
        let mut outcome =
            hpl::run(site, &self.placement, &libraries, &options, multiple, end, observer)?;
        outcome.notices.splice(0..0, notices);
        if let (Some(reference), false) = (&self.reference, outcome.is_interrupted()) {
            // The native solve also predicts the time of the reference program.
            let ratings = outcome.measurements.iter().filter(|m| m.name == RATING);
            let configs = ratings.map(|m| m.read_config::<RatingConfig>());
            let half_rate_order = configs
                .filter_map(|config| size::half_rate_order_from_rating(&config))
                .next()
                .or(self.options.half_rate_order);
            let reference_options = HplOptions { half_rate_order, ..self.options.clone() };
            let begun = clock::now();
            reference.measure(site, &reference_options, &mut outcome, observer);
            // The budget does not include the time of the reference program.
            limits.started += clock::now() - begun;
        }
        // The default budget does not limit the solve for a requested order.
        if self.options.order == OrderSpec::Quick || limits.is_set_by_user {
            outcome.set_run_time(&limits, tried);
        }
        Ok(outcome)
    }
}

impl HplPlan {
    /// Returns the predicted time of all solves with the requested order; zero if N is chosen by time. The DGEMM rates
    /// are those that the comparison of the libraries measured.
    fn requested_solutions(&self, libraries: &[TrialResult]) -> Duration {
        if self.options.order == OrderSpec::Quick {
            return Duration::ZERO;
        }
        let rates: Vec<FlopsPerSec> = libraries.iter().map(|library| library.rate).collect();
        self.solutions(&rates)
    }

    /// Returns the predicted time of the solves of the planned order, one solve per rate.
    fn solutions(&self, rates: &[FlopsPerSec]) -> Duration {
        let one = |rate: &FlopsPerSec| {
            size::predicted_solve_time(
                self.first_candidate().order.order,
                self.options.half_rate_order,
                *rate,
            )
        };
        let all = rates.iter().map(one).map(|seconds| seconds.0).sum::<f64>();
        let samples = self.options.samples.max(1) as f64;
        Seconds(samples * all * (1.0 + MAX_OVERHEAD_SHARE)).duration()
    }

    /// Predicts the time of the solves of a requested order before the libraries are compared. The rate is that of the
    /// user or of an earlier run of this node; if neither is known, it is measured with a short product by the built-in
    /// kernels. The lower bound is computed from the peak of the cores.
    fn predicted(&self) -> Result<PredictedTime, Failure> {
        let known = self.options.rate.or(self.options.dgemm.as_ref().map(|(rate, _)| *rate));
        let rate = match known {
            Some(rate) => rate,
            None => choose::measure_built_in_rate(&TrialPlaces(self.placement.thread_cpus()))?,
        };
        let peak = self.peak.as_ref().map(|peak| peak.value);
        let fastest = FlopsPerSec(peak.unwrap_or(LIBRARY_OVER_BUILT_IN * rate.0).max(rate.0));
        let libraries = self.options.libraries.len().max(1);
        let other_parts = hpl::min_time(libraries);
        let min = self.solutions(&vec![fastest; libraries]) + other_parts;
        let likely = self.solutions(&vec![rate; libraries]) + other_parts;
        Ok(PredictedTime { min, likely })
    }
}

/// Returns the orders of the two rounds of the search for NB with this DGEMM rate; `None` without a search.
fn search_orders(
    machine: &Machine,
    options: &HplOptions,
    dgemm: FlopsPerSec,
    threads: usize,
) -> Option<[usize; 2]> {
    let candidates =
        if options.nb.is_empty() { size::NB_CANDIDATES.len() } else { options.nb.len() };
    if candidates == 1 {
        return None;
    }
    let constraints = options.constraints(machine, dgemm, threads, hpl::COMMON_MULTIPLE);
    let search = NbSearch::new(constraints, options.order, options.budget, candidates);
    let first = search.order(0, options.half_rate_order).ok()?;
    Some([first, search.order(1, options.half_rate_order).ok()?])
}

/// Returns the factor f for which N must be a multiple of f x NB.
fn multiple(options: &HplOptions, layout: &RankLayout) -> usize {
    let (p, q) = layout.grid();
    if options.grid_multiple { size::lcm(p, q) } else { 1 }
}

/// Returns the rate from which the time of a solve is predicted, with its source: the given rate, otherwise the DGEMM
/// rate of an earlier run, otherwise a share of the processor's peak. For an unknown processor, a peak is assumed.
/// Returns `None` for a described machine with an unknown processor. `peak` is the peak of the cores in use.
fn foreseen_rate(
    machine: &Machine,
    options: &HplOptions,
    peak: Option<&TheoreticalValue>,
    threads: usize,
) -> Option<(FlopsPerSec, String)> {
    if let Some(rate) = options.rate {
        return Some((rate, format!("{rate} as given")));
    }
    if let Some((dgemm, source)) = &options.dgemm {
        return Some((*dgemm, format!("{dgemm} DGEMM ({source})")));
    }
    let (peak, basis) = match peak {
        Some(peak) => (peak.value, peak.basis.clone()),
        None if machine.is_described() => return None,
        None => {
            let used = threads.min(machine.processor.cores.max(1) as usize);
            let (hz, per_cycle) = ASSUMED_CORE;
            let basis = format!(
                "assumed: {} x {} GHz x {per_cycle} FLOP/cycle; the processor's peak is unknown",
                count_in_words(used, "core"),
                hz / 1e9
            );
            (used as f64 * hz * per_cycle, basis)
        }
    };
    let dgemm = FlopsPerSec(peak * USUAL_DGEMM);
    let peak = FlopsPerSec(peak);
    Some((dgemm, format!("{dgemm} DGEMM, estimated as {USUAL_DGEMM} x {peak} ({basis})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::{DescribeOptions, SysRoot, TopologySource};
    use nodegauge_measure::record::MachineSource;
    use nodegauge_placement::PlacementRequest;

    #[test]
    fn predicted_rate_is_given_saved_computed_or_assumed() {
        let mut machine = Machine::default();
        machine.processor.cores = 4;
        let mut options = HplOptions::default();
        let (dgemm, basis) = foreseen_rate(&machine, &options, None, 2).unwrap();
        assert!((dgemm.0 / (0.9 * 2.0 * 32e9) - 1.0).abs() < 1e-12, "{basis}");
        assert!(basis.contains("assumed: 2 cores x 2 GHz x 16 FLOP/cycle"), "{basis}");
        let peak_basis = "2 of 4 cores".to_owned();
        let peak =
            TheoreticalValue { value: 200e9, basis: peak_basis, detail: None, at_most: false };
        let (peak_dgemm, taken_basis) = foreseen_rate(&machine, &options, Some(&peak), 2).unwrap();
        assert!((peak_dgemm.0 / 180e9 - 1.0).abs() < 1e-12, "{taken_basis}");
        assert!(
            taken_basis.ends_with("estimated as 0.9 x 200.0 GFLOP/s (2 of 4 cores)"),
            "{taken_basis}"
        );
        options.dgemm = Some((FlopsPerSec(123e9), "saved yesterday".to_owned()));
        let (saved_dgemm, saved_basis) = foreseen_rate(&machine, &options, None, 2).unwrap();
        assert_eq!(saved_dgemm, FlopsPerSec(123e9));
        assert_eq!(saved_basis, "123.0 GFLOP/s DGEMM (saved yesterday)");
        options.rate = Some(FlopsPerSec(1e12));
        let (_, given_basis) = foreseen_rate(&machine, &options, None, 2).unwrap();
        assert_eq!(given_basis, "1.000 TFLOP/s as given");
        let unknown = Machine { source: MachineSource::Synthetic, ..Machine::default() };
        assert_eq!(foreseen_rate(&unknown, &HplOptions::default(), None, 2), None);
    }

    #[test]
    fn peak_and_predicted_rate_are_those_of_the_chosen_cores() {
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies/three-classes.xml");
        let topology = Topology::load(&TopologySource::Xml(file.into())).unwrap();
        let of = DescribeOptions {
            processor: Some("EPYC 9654".to_owned()),
            ..DescribeOptions::default()
        };
        let root = SysRoot::live();
        let machine = nodegauge_machine::describe(&topology, &root, &of);
        let site = MeasuredNode::new(topology, machine, root).with_plan_memory(None);
        let peak = |cores: &str| {
            let cores = Some(cores.parse().unwrap());
            let request = PlacementRequest { cores, ..PlacementRequest::default() };
            let placement = nodegauge_placement::plan(&site.topology, &request).unwrap();
            let options = HplOptions { order: OrderSpec::Full, ..HplOptions::default() };
            let plan = HplPlan::new(&site, placement, options).unwrap();
            assert!(plan.rate.unwrap().contains(&plan.peak.as_ref().unwrap().basis));
            plan.peak.unwrap().value
        };
        assert_eq!(peak("slow"), 2.0 * 1.25e9 * 16.0);
        assert_eq!(peak("class2"), 4.0 * 1.9e9 * 16.0);
        assert_eq!(peak("fast"), 4.0 * 2.4e9 * 16.0);
    }

    #[test]
    fn more_ranks_than_cpus_are_refused() {
        let source = TopologySource::Synthetic("Package:1 Core:1 PU:1".to_owned());
        let topology = Topology::load(&source).unwrap();
        let placement = nodegauge_placement::plan(&topology, &PlacementRequest::default()).unwrap();
        let machine = Machine { source: MachineSource::Synthetic, ..Machine::default() };
        let site = MeasuredNode::new(topology, machine, SysRoot::live());
        let mut options = HplOptions { order: OrderSpec::Given(1000), ..HplOptions::default() };
        options.ranks.ranks = Some(8);
        let plan = HplPlan::new(&site, placement, options).unwrap();
        let refused = plan.check_ranks(&site.topology).unwrap_err();
        assert!(refused.to_string().contains("cannot place 8 ranks of 1 thread"), "{refused}");
    }

    /// Returns the plan of two EPYC 7F52 with 377.81 GB for candidates for NB.
    fn of_published(nb: &[usize], grid_multiple: bool) -> HplPlan {
        let text = "Package:2 NUMANode:1 L3Cache:16(size=16777216) L2Cache:1 Core:1 PU:1";
        let source = TopologySource::Synthetic(text.to_owned());
        let topology = Topology::load(&source).unwrap();
        let placement = nodegauge_placement::plan(&topology, &PlacementRequest::default()).unwrap();
        let mut machine = Machine { source: MachineSource::Synthetic, ..Machine::default() };
        machine.processor.cores = 32;
        let memory = Some(Bytes(377_810_000_000));
        let site = MeasuredNode::new(topology, machine, SysRoot::live()).with_plan_memory(memory);
        let options = HplOptions {
            order: OrderSpec::Full,
            rate: Some(FlopsPerSec(1.3e12)),
            nb: nb.to_vec(),
            grid_multiple,
            ..HplOptions::default()
        };
        HplPlan::new(&site, placement, options).unwrap()
    }

    #[test]
    fn each_nb_candidate_has_its_own_order() {
        let orders = |plan: &HplPlan| -> Vec<usize> {
            plan.candidates.iter().map(|candidate| candidate.order.order).collect()
        };
        let all = of_published(&[32, 64, 128, 180, 192, 256], false);
        assert_eq!(orders(&all), [194_368, 194_368, 194_304, 194_220, 194_304, 194_304]);
        assert_eq!(all.candidates[3].order.seconds.0.round(), 3757.0);
        let [first, second] = all.search.unwrap();
        assert!(first < second && second < 194_220, "{first} {second}");
        let single = of_published(&[180], false);
        assert_eq!((orders(&single), single.search), (vec![194_220], None));
        // A multiple of 180 x LCM(4, 8).
        assert_eq!(orders(&of_published(&[180], true)), [192_960]);
    }
}
