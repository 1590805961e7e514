//! Tests of the failure rule in the series of every gauge. Each plan in a table is run with failing, slow and
//! interrupted turns.

use super::GAUGES;
use nodegauge_apps::WorkersOptions;
use nodegauge_apps::hpcg::{HpcgOptions, HpcgPlan, XhpcgOptions};
use nodegauge_apps::iccg::{IccgOptions, IccgPlan};
use nodegauge_apps::trapezoid::{TrapezoidOptions, TrapezoidPlan};
use nodegauge_curves::{Curve, CurveOptions, CurvePlan, Mix};
use nodegauge_devices::curves::{DeviceCurveOptions, DeviceCurvePlan, DeviceMix};
use nodegauge_devices::drivers::{self, DriverListing};
use nodegauge_devices::info::DeviceInfo;
use nodegauge_devices::links::{LinkOptions, LinkPlan};
use nodegauge_devices::peaks::PeakPlan;
use nodegauge_devices::stream::{DeviceStreamOptions, DeviceStreamPlan};
use nodegauge_files::FilesOptions;
use nodegauge_files::metadata::{MetadataOptions, MetadataPlan, MetadataPrograms};
use nodegauge_gauge::series::alteration::{self, TurnResult};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_kernels::Kernel;
use nodegauge_kernels::size::SizeSpec;
use nodegauge_machine::{DescribeOptions, SysRoot, Topology, TopologySource};
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::schedule::{Budget, Turn, TurnFailure};
use nodegauge_measure::{
    Bytes, Failure, FailureKind, Fraction, NoticeId, Observer, Outcome, clock,
};
use nodegauge_noise::{NoiseOptions, NoisePlan};
use nodegauge_placement::PlacementOptions;
use nodegauge_programs::{FigureSource, ProgramOptions, ProgramSweep, SweepLimits};
use nodegauge_roofline::{RooflineOptions, RooflinePlan};
use nodegauge_stream::StreamRequest;
use nodegauge_toolchain::CommandLine;
use skip::Part;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

mod budgets;
mod references;
#[path = "../../../../tests/skip.rs"]
mod skip;

/// Gauges whose command measures without a series, with the reasons.
const WITHOUT_SERIES: [(&str, &str); 3] = [
    ("compute", "the factorisation of HPL is one run; the peaks are cells of the roofline"),
    ("messages", "the loops of the OSU benchmarks run in their own processes"),
    ("network", "its figures are those of other programs"),
];

/// Problem that a failing turn reports.
const PROBLEM: &str = "the power of this cell is gone";
/// Reason for the figures of lost cells.
const REASON: &str = "not measured to the end: the power of this cell is gone";
/// Time that no run exceeds.
const LONG_TIME: Duration = Duration::from_secs(100);

/// Budget and number of samples of a plan.
#[derive(Clone, Copy)]
struct Extent {
    budget: Duration,
    /// True if the budget counts as given by the user. Some plans treat a default budget differently.
    is_set_by_user: bool,
    samples: Option<usize>,
}

/// Three samples per cell.
const FEW_SAMPLES: Extent = Extent { budget: LONG_TIME, is_set_by_user: false, samples: Some(3) };
/// Budget without a number of samples. It is sufficient on any machine, even if other programs are running.
const TIMED: Extent =
    Extent { budget: Duration::from_secs(60), is_set_by_user: false, samples: None };

impl From<Extent> for Budget {
    fn from(extent: Extent) -> Self {
        Self { time: extent.budget, is_set_by_user: extent.is_set_by_user }
    }
}

/// Function that makes a plan; `None` after it has reported that the machine lacks something.
type Make = fn(&MeasuredNode, Extent) -> Option<Box<dyn PlannedRun>>;

/// Plan of a gauge.
struct Case {
    gauge: &'static str,
    name: &'static str,
    make: Make,
}

/// Makes the table of plans, and the tests of each plan.
macro_rules! cases {
    ($($name:ident: $gauge:literal, $make:expr;)*) => {
        /// Plans that measure in series. Each is small enough for any machine.
        const CASES: &[Case] = &[$(Case { gauge: $gauge, name: stringify!($name), make: $make },)*];

        $(mod $name {
            fn case() -> &'static super::Case {
                super::CASES.iter().find(|case| case.name == stringify!($name)).unwrap()
            }

            #[test]
            fn failing_turn_ends_only_its_cell() {
                super::keeps_the_rule(case());
            }

            #[test]
            fn lost_target_keeps_its_samples() {
                super::keeps_lost_target_samples(case());
            }

            #[test]
            fn interrupted_turn_is_not_a_failure() {
                super::is_only_interrupted(case());
            }

            #[test]
            fn too_small_budget_gives_figures_or_names_a_sufficient_budget() {
                super::budgets::refuses_or_delivers(case());
            }

            #[test]
            fn few_samples_are_suspect() {
                super::budgets::doubts_few_samples(case());
            }

            #[test]
            fn disturbed_samples_are_suspect() {
                super::budgets::doubts_disturbed_samples(case());
            }

            #[test]
            fn run_delayed_by_load_keeps_its_figures() {
                super::budgets::delivers_under_load(case());
            }

            #[test]
            fn long_turn_keeps_the_figures() {
                super::delivers_after_a_long_turn(case());
            }
        })*
    };
}

cases! {
    plain_stream: "memory", stream;
    sweep_of_stream: "memory", sweep;
    explain_steps: "memory", explain;
    loops_of_compilers: "memory", compilers;
    standard_stream: "memory", standard;
    ladder: "memory", |site, extent| curve(Curve::Ladder, site, extent);
    latency: "memory", |site, extent| curve(Curve::Latency, site, extent);
    family_of_curves: "memory", family;
    file_grid: "files", files;
    file_entries: "files", entries;
    kernels_of_devices: "device", device_stream;
    links_of_devices: "device", device_links;
    peaks_of_devices: "device", device_peaks;
    curves_of_devices: "device", device_curves;
    sums: "apps", trapezoid;
    solver: "apps", iccg;
    gradients: "apps", hpcg;
    detours: "noise", noise;
    own_programs: "program", program;
    ceilings: "roofline", roofline;
}

fn boxed<P: PlannedRun + 'static>(plan: Result<P, Failure>) -> Option<Box<dyn PlannedRun>> {
    Some(Box::new(plan.unwrap()))
}

/// Returns the options for one thread.
fn one_thread() -> PlacementOptions {
    PlacementOptions { threads: Some("1".parse().unwrap()), ..PlacementOptions::default() }
}

fn request(extent: Extent) -> StreamRequest {
    let mut request = StreamRequest {
        budget: Some(extent.budget),
        samples: extent.samples,
        ..StreamRequest::default()
    };
    request.cell.job.process = one_thread();
    request.cell.arrays.size = SizeSpec::Bytes(Bytes::mib(1));
    request
}

fn planned(request: &StreamRequest, site: &MeasuredNode) -> Option<Box<dyn PlannedRun>> {
    let mode = request.mode(None).unwrap();
    Some(request.plan(mode, site, None, &|_, _| None).unwrap())
}

fn stream(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    planned(&request(extent), site)
}

fn sweep(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let mut request = request(extent);
    request.cell.job.process = one_thread();
    request.cell.arrays.size = SizeSpec::Auto;
    request.axes = vec!["size=1MiB,2MiB,3MiB".parse().unwrap()];
    planned(&request, site)
}

fn explain(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    boxed(request(extent).plan_ablation(site))
}

/// Returns a request that compiles with gcc; `None` if gcc is missing.
fn with_gcc(extent: Extent) -> Option<StreamRequest> {
    if nodegauge_toolchain::which("gcc").is_none() {
        skip::skip(Part::Compilers, "gcc is missing");
        return None;
    }
    Some(StreamRequest { compilers: vec!["gcc -O1".parse().unwrap()], ..request(extent) })
}

fn compilers(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    planned(&with_gcc(extent)?, site)
}

/// Plans `--standard` with a program that only prints the output of stream.c.
fn standard(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/standin/stream.c"));
    let standard = Some(path.to_owned());
    planned(&StreamRequest { standard, ..with_gcc(extent)? }, site)
}

/// Returns the budget for a plan that spends a share of it on the search for the fastest loops. The budget is short if
/// the number of samples ends the run.
fn with_search(extent: Extent) -> Budget {
    let time = match extent.samples {
        Some(_) => extent.budget.min(Duration::from_secs(4)),
        None => extent.budget,
    };
    Budget { time, is_set_by_user: extent.is_set_by_user }
}

fn curve(curve: Curve, site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = CurveOptions {
        max_working_set: Some(Bytes::kib(256)),
        budget: with_search(extent),
        samples: extent.samples,
        ..CurveOptions::default()
    };
    boxed(CurvePlan::new(curve, site, &one_thread(), options))
}

fn family(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    if site.topology.allowed_threads().count() < 2 {
        skip::skip(Part::Cpus, "a family of curves needs two CPUs");
        return None;
    }
    let two =
        PlacementOptions { threads: Some("2".parse().unwrap()), ..PlacementOptions::default() };
    let options = CurveOptions {
        max_working_set: Some(Bytes::mib(1)),
        mixes: vec![Mix::Reads, Mix::OneToOne],
        budget: with_search(extent),
        samples: extent.samples,
        ..CurveOptions::default()
    };
    boxed(CurvePlan::new(Curve::Family, site, &two, options))
}

fn roofline(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = RooflineOptions {
        placement: one_thread(),
        largest: Some(Bytes::mib(16)),
        budget: with_search(extent),
        samples: extent.samples,
        given_points: &[],
        program: None,
        newest: &|_, _| None,
    };
    boxed(RooflinePlan::new(&GAUGES, site, options))
}

fn files_options(extent: Extent) -> FilesOptions {
    FilesOptions {
        paths: vec![std::env::temp_dir()],
        files: Some(vec![Bytes::mib(1)]),
        blocks: Some([16, 64, 256].map(Bytes::kib).to_vec()),
        budget: Some(extent.into()),
        samples: extent.samples,
        limit: Some(Duration::from_millis(50)),
        ..FilesOptions::default()
    }
}

fn files(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    boxed(nodegauge_files::plan(files_options(extent), Vec::new()))
}

fn entries(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = MetadataOptions {
        paths: vec![std::env::temp_dir()],
        files: Some(20),
        workers: vec![1, 2],
        budget: Some(extent.budget).filter(|_| extent.is_set_by_user || extent.samples.is_none()),
        samples: extent.samples,
        ..MetadataOptions::default()
    };
    boxed(MetadataPlan::new(options, MetadataPrograms::default()))
}

/// Returns the OpenCL devices.
fn devices() -> Option<Vec<DeviceInfo>> {
    let listing: DriverListing = serde_json::from_str(&drivers::listing_json("opencl")).unwrap();
    let devices = listing.devices.ok().filter(|devices| !devices.is_empty());
    if devices.is_none() {
        skip::skip(Part::Opencl, "OpenCL has no device");
    }
    devices
}

fn device_stream_options(extent: Extent) -> DeviceStreamOptions {
    DeviceStreamOptions {
        size: SizeSpec::Bytes(Bytes::mib(1)),
        memory_fraction: Fraction(0.5),
        elements: Vec::new(),
        kernels: vec![Kernel::Copy, Kernel::Triad],
        budget: extent.into(),
        samples: extent.samples,
    }
}

fn device_stream(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    boxed(DeviceStreamPlan::new(devices()?, device_stream_options(extent), Vec::new()))
}

fn device_links(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options =
        LinkOptions { sizes: vec![4096, 1 << 20], budget: extent.into(), samples: extent.samples };
    Some(Box::new(LinkPlan::new(devices()?, options, Vec::new())))
}

fn device_peaks(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    // The search for the fastest loops takes a share of the budget, but does not refuse the run.
    let time = extent.budget.min(Duration::from_secs(4));
    let budget = Budget { time, is_set_by_user: extent.is_set_by_user };
    Some(Box::new(PeakPlan::new(devices()?, Vec::new(), budget, extent.samples, Vec::new())))
}

fn device_curves(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = DeviceCurveOptions {
        mixes: vec![DeviceMix::Reads],
        size: Some(Bytes::mib(1)),
        budget: extent.into(),
        samples: extent.samples,
    };
    boxed(DeviceCurvePlan::new(devices()?, options, Vec::new()))
}

fn workers() -> WorkersOptions {
    let mut options =
        WorkersOptions { policies: Some("0".parse().unwrap()), ..WorkersOptions::default() };
    options.cell.job.process = one_thread();
    options.cell.job.ranks.ranks = Some(1);
    options
}

fn noise(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = NoiseOptions {
        placement: one_thread(),
        budget: Some(extent.budget),
        samples: extent.samples,
    };
    boxed(NoisePlan::new(site, options))
}

fn trapezoid(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = TrapezoidOptions {
        points: vec![1000, 100_000],
        budget: Some(extent.budget),
        samples: extent.samples,
    };
    boxed(TrapezoidPlan::new(site, &workers(), None, options))
}

fn iccg(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = IccgOptions {
        elements: Some([8; 3]),
        budget: Some(extent.budget),
        samples: extent.samples,
        ..IccgOptions::default()
    };
    boxed(IccgPlan::new(site, &workers(), None, options))
}

fn hpcg_options(extent: Extent, xhpcg: Option<XhpcgOptions>) -> HpcgOptions {
    HpcgOptions {
        grid: [16; 3],
        column_per_coefficient: false,
        memory_fraction: Fraction(0.5),
        budget: Some(extent.budget),
        samples: extent.samples,
        xhpcg,
    }
}

fn hpcg(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    boxed(HpcgPlan::new(site, &workers(), hpcg_options(extent, None)))
}

fn program(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = ProgramOptions {
        axes: vec!["env:LETTER=a,b,c".parse().unwrap()],
        ..ProgramOptions::default()
    };
    let limits =
        SweepLimits { budget: Some(extent.budget), samples: extent.samples, run: LONG_TIME };
    let command = CommandLine::new("true".to_owned(), Vec::new());
    let plan =
        ProgramSweep::new(site, command, &options, FigureSource::elapsed(), limits, || Ok(None));
    boxed(plan)
}

fn site() -> MeasuredNode {
    let topology = Topology::load(&TopologySource::Live).unwrap();
    let machine =
        nodegauge_machine::describe(&topology, &SysRoot::live(), &DescribeOptions::default());
    MeasuredNode::new(topology, machine, SysRoot::live())
}

/// Program that passes every self-test. It replaces the test binary.
const SELF_TEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/standin/self-test");

/// Turns of a run, in order, and its result.
struct Run {
    turns: Vec<Turn>,
    ended: Result<Outcome, Failure>,
}

/// Runs a case. `alter` receives the number of each turn, the turn, and the function that measures it. Returns `None`
/// if the machine lacks something.
fn run(
    case: &Case,
    extent: Extent,
    observer: &mut dyn Observer,
    mut alter: impl FnMut(usize, Turn, &mut dyn FnMut() -> TurnResult) -> TurnResult + 'static,
) -> Option<Run> {
    // Device drivers do not support several runs in one process at the same time.
    static DEVICES: Mutex<()> = Mutex::new(());
    let _alone = (case.gauge == "device").then(|| DEVICES.lock());
    let site = site();
    let plan = (case.make)(&site, extent)?;
    let turns = Rc::new(RefCell::new(Vec::new()));
    let seen = turns.clone();
    let altered = move |turn: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        let number = seen.borrow().len();
        seen.borrow_mut().push(turn);
        alter(number, turn, measure)
    };
    let ended = alteration::with_alteration(altered, || {
        nodegauge_os::with_own_program(SELF_TEST.to_owned(), || plan.run(&site, observer))
    });
    let ended = Outcome::finish_run(ended, observer);
    Some(Run { turns: Rc::into_inner(turns).unwrap().into_inner(), ended })
}

fn failure() -> Failure {
    Failure::missing(PROBLEM)
}

fn is_lost(m: &Measurement) -> bool {
    m.validity.reasons.iter().any(|reason| reason == REASON || reason == PROBLEM)
}

/// Asserts that only figures of lost cells are invalid, and that the failure is the one of the turn.
fn assert_rule(what: &str, outcome: &Outcome) {
    assert!(!outcome.is_complete(), "{what}");
    assert!(!outcome.is_interrupted(), "{what}");
    assert_eq!(outcome.failure.as_ref().map(Failure::problem).as_deref(), Some(PROBLEM), "{what}");
    for m in &outcome.measurements {
        let is_invalid = m.validity.status == Status::Invalid;
        assert_eq!(is_invalid, is_lost(m), "{what}: {} {:?}", m.name, m.validity);
    }
}

/// Returns the number of figures that are not invalid, and of invalid figures.
fn counts(outcome: &Outcome) -> [usize; 2] {
    let lost = outcome.measurements.iter().filter(|m| is_lost(m)).count();
    [outcome.measurements.len() - lost, lost]
}

/// Runs a case with failing turns. The first and the last cell fail after samples that count; a middle one fails at its
/// first turn.
fn keeps_the_rule(case: &Case) {
    let observer = &mut SilentObserver;
    let Some(whole) = run(case, FEW_SAMPLES, observer, |_, _, measure| measure()) else { return };
    let complete = whole.ended.unwrap();
    assert!(complete.is_complete() && complete.failure.is_none(), "{}", case.name);
    let cells = 1 + whole.turns.iter().map(|turn| turn.cell).max().unwrap();
    for (cell, turns) in [(0, 2), (cells / 2, 0), (cells - 1, 2)] {
        // A cell with few turns fails at its last turn.
        let of_cell = whole.turns.iter().filter(|turn| turn.cell == cell).count();
        let before = turns.min(of_cell.saturating_sub(1));
        let what = format!("{}: cell {cell} of {cells} after {before} turns", case.name);
        let mut taken = 0;
        let met = Rc::new(Cell::new(false));
        let meets = met.clone();
        let fails = move |_, turn: Turn, measure: &mut dyn FnMut() -> TurnResult| {
            let is_due = turn.cell == cell && taken >= before;
            taken += usize::from(turn.cell == cell);
            meets.set(meets.get() || is_due);
            if is_due { Err(TurnFailure::Cell(failure())) } else { measure() }
        };
        match run(case, FEW_SAMPLES, observer, fails).unwrap().ended {
            // The number of steps of explain depends on which loops are fastest.
            Ok(_) if !met.get() => assert_eq!(case.name, "explain_steps", "{what}"),
            Ok(outcome) => {
                assert_rule(&what, &outcome);
                let [kept, lost] = counts(&outcome);
                assert!(lost > 0, "{what}: {:?}", outcome.measurements);
                let code = outcome.ending_failure().unwrap().kind;
                let expected = if kept > 0 { FailureKind::Unmet } else { FailureKind::Missing };
                assert_eq!(code, expected, "{what}");
                assert!(kept > 0 || cells == 1, "{what}: {:?}", outcome.measurements);
            }
            // The steps of explain are conclusive up to the gap. With fewer than two steps there is no conclusion.
            Err(refused) => {
                assert_eq!(refused.problem(), PROBLEM, "{what}");
                assert!(cells == 1 || (case.name == "explain_steps" && cell == 0), "{what}");
            }
        }
    }
}

/// Runs a case that loses its shared target in a middle turn.
fn keeps_lost_target_samples(case: &Case) {
    let observer = &mut SilentObserver;
    let Some(whole) = run(case, FEW_SAMPLES, observer, |_, _, measure| measure()) else { return };
    // At this turn, at least one cell has a sample that counts.
    let middle = whole.turns.len() * 2 / 3;
    let what = format!("{}: target lost at turn {middle}", case.name);
    let loses = move |number, _: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        if number >= middle { Err(TurnFailure::Target(failure())) } else { measure() }
    };
    let outcome = run(case, FEW_SAMPLES, observer, loses).unwrap().ended.expect(&what);
    assert_rule(&what, &outcome);
    assert!(counts(&outcome)[0] > 0, "{what}: {:?}", outcome.measurements);
}

/// Observer that acts like a user who interrupts the run within a turn.
struct User(Rc<Cell<bool>>);

impl Observer for User {
    fn begin_phase(&mut self, _: &str) {}
    fn report_progress(&mut self, _: f64, _: &str) {}
    fn is_interrupted(&self) -> bool {
        self.0.get()
    }
}

/// Runs a case that the user interrupts in its third turn, which then fails.
fn is_only_interrupted(case: &Case) {
    let ended = Rc::new(Cell::new(false));
    let end = ended.clone();
    let interrupts = move |number, _: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        if number < 2 {
            return measure();
        }
        end.set(true);
        Err(TurnFailure::Target(failure()))
    };
    let Some(run) = run(case, FEW_SAMPLES, &mut User(ended), interrupts) else { return };
    let outcome = run.ended.unwrap();
    assert!(outcome.is_interrupted(), "{}", case.name);
    assert_eq!(outcome.failure, None, "{}", case.name);
    assert_eq!(counts(&outcome)[1], 0, "{}: {:?}", case.name, outcome.measurements);
}

/// Runs a case in which one turn takes longer than the remaining budget.
fn delivers_after_a_long_turn(case: &Case) {
    let is_long = Rc::new(Cell::new(false));
    let slow = is_long.clone();
    let delays = move |_, turn: Turn, measure: &mut dyn FnMut() -> TurnResult| {
        let taken = measure();
        // In most series, the second turn of a cell is the first that counts.
        if turn.round == 1 && !slow.replace(true) {
            clock::advance_clock(4 * LONG_TIME);
        }
        taken
    };
    let Some(run) = run(case, TIMED, &mut SilentObserver, delays) else { return };
    assert!(is_long.get(), "{}: {:?}, {:?}", case.name, run.turns, run.ended);
    let outcome = run.ended.expect(case.name);
    assert!(outcome.is_complete(), "{}: {:?}", case.name, outcome.failure);
    assert!(outcome.measurements.iter().any(|m| m.value.is_some()), "{}", case.name);
    assert!(counts(&outcome)[1] == 0, "{}", case.name);
    let is_named = outcome.notices.iter().any(|notice| notice.id == NoticeId::Budget);
    assert!(is_named, "{}: {:?}", case.name, outcome.notices);
}

#[test]
fn every_gauge_with_series_has_a_case() {
    for gauge in GAUGES {
        let has_case = CASES.iter().any(|case| case.gauge == gauge.name());
        let is_excepted = WITHOUT_SERIES.iter().any(|(name, _)| *name == gauge.name());
        assert!(has_case != is_excepted, "{}", gauge.name());
    }
}
