//! Tests of the failure rule for reference programs: a failing program does not change the native figures.

use super::skip::{self, Part};
use super::{Case, Extent, FEW_SAMPLES, one_thread, run, workers};
use nodegauge_apps::hpcg::{HpcgPlan, XhpcgOptions};
use nodegauge_compute::options::ReferenceProgramOptions;
use nodegauge_compute::{HplPlan, HplRequest};
use nodegauge_devices::reference::UsersProgram;
use nodegauge_devices::stream::DeviceStreamPlan;
use nodegauge_files::reference::ReferenceProgram;
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::{Category, Status};
use nodegauge_measure::{FailureKind, Fraction};
use std::path::Path;

/// Program that runs and fails.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/standin/no-reference");

/// Plans with a failing reference program. nvbandwidth is missing because it needs a CUDA device; builds of stream.c
/// are cells of the series.
const CASES: [Case; 4] = [
    Case { gauge: "device", name: "babelstream", make: babelstream },
    Case { gauge: "apps", name: "xhpcg", make: xhpcg },
    Case { gauge: "files", name: "iozone", make: iozone },
    Case { gauge: "compute", name: "xhpl", make: xhpl },
];

fn babelstream(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let options = super::device_stream_options(extent);
    let plan = DeviceStreamPlan::new(super::devices()?, options, Vec::new()).unwrap();
    let program = UsersProgram::find(Path::new(PROGRAM), "a BabelStream").unwrap();
    Some(Box::new(plan.with_reference_program(Some(program))))
}

/// True if a launcher of ranks is installed.
fn has_launcher() -> bool {
    let has = nodegauge_toolchain::which("mpirun").is_some();
    if !has {
        skip::skip(Part::Mpi, "mpirun is missing");
    }
    has
}

fn xhpcg(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let program =
        XhpcgOptions { program: PROGRAM.into(), launcher: None, allow_root: true, seconds: 1 };
    let xhpcg = has_launcher().then_some(program)?;
    let options = super::hpcg_options(extent, Some(xhpcg));
    super::boxed(HpcgPlan::new(site, &workers(), options))
}

fn iozone(_: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let program = ReferenceProgram::find_iozone(Path::new(PROGRAM), None).unwrap();
    super::boxed(nodegauge_files::plan(super::files_options(extent), vec![program]))
}

fn xhpl(site: &MeasuredNode, extent: Extent) -> Option<Box<dyn PlannedRun>> {
    let program =
        ReferenceProgramOptions { program: PROGRAM.into(), launcher: None, allow_root: true };
    let request = HplRequest {
        order: Some(256),
        full: false,
        is_memory_given: false,
        memory_fraction: Fraction(0.5),
        nb: vec![64],
        grid_multiple: false,
        seed: 1,
        budget: None,
        samples: extent.samples,
        libraries: vec!["builtin".parse().unwrap()],
        rate: None,
        placement: one_thread(),
        ranks: Some(1),
        hosts: Vec::new(),
        reference: Some(has_launcher().then_some(program)?),
        newest: &|_, _| None,
    };
    super::boxed(HplPlan::from_request(site, request))
}

#[test]
fn failing_reference_program_leaves_native_figures_usable() {
    for case in &CASES {
        let name = case.name;
        let measured = run(case, FEW_SAMPLES, &mut SilentObserver, |_, _, measure| measure());
        let Some(ended) = measured.map(|run| run.ended) else { continue };
        let outcome = ended.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert!(!outcome.is_interrupted() && !outcome.is_complete(), "{name}");
        let failure = outcome.ending_failure().unwrap();
        assert_eq!(failure.kind, FailureKind::Unmet, "{name}: {failure}");
        assert!(failure.to_string().contains("no-reference"), "{name}: {failure}");
        for m in &outcome.measurements {
            assert!(m.category != Category::Reference, "{name}: {}", m.name);
            assert!(m.value.is_some(), "{name}: {} {:?}", m.name, m.validity);
            assert!(m.validity.status != Status::Invalid, "{name}: {} {:?}", m.name, m.validity);
        }
    }
}
