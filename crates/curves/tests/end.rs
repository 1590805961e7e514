//! End of a run during its set-up. A request to end the run concerns the whole process, so this test has its own
//! program.

use nodegauge_curves::{Curve, CurveOptions, CurvePlan};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_machine::{SysRoot, Topology, TopologySource};
use nodegauge_measure::record::Machine;
use nodegauge_measure::{Bytes, Observer};
use nodegauge_os::{end_request_flag, is_end_requested};
use nodegauge_placement::PlacementRequest;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Observer of a user who ends the run in a phase.
struct Ending {
    phase: &'static str,
    seen: Vec<String>,
}

impl Observer for Ending {
    fn begin_phase(&mut self, what: &str) {
        self.seen.push(what.to_owned());
        if what.starts_with(self.phase) {
            end_request_flag().store(true, Ordering::Relaxed);
        }
    }
    fn report_progress(&mut self, _: f64, _: &str) {}
    fn is_interrupted(&self) -> bool {
        is_end_requested()
    }
}

#[test]
fn interruption_during_set_up_ends_the_measurement_of_ceilings() {
    let source = TopologySource::Synthetic("Package:1 L3Cache:1(size=2MB) Core:1 PU:1".to_owned());
    let topology = Topology::load(&source).unwrap();
    let mut machine = Machine::default();
    machine.memory.available = Some(1 << 34);
    let site = MeasuredNode::new(topology, machine, SysRoot::live());
    let request = PlacementRequest { threads: Some(1), ..PlacementRequest::default() };
    let placement = nodegauge_placement::plan(&site.topology, &request).unwrap();
    let options = CurveOptions {
        max_working_set: Some(Bytes::mib(8)),
        budget: Duration::from_secs(10).into(),
        ..CurveOptions::default()
    };
    let plan =
        CurvePlan::with_placement(Curve::Ceilings, &site, placement, options, Vec::new()).unwrap();
    let mut user = Ending { phase: "choosing", seen: Vec::new() };
    let ended = Box::new(plan).run(&site, &mut user);
    assert_eq!(ended.unwrap_err().message, "interrupted");
    assert!(user.seen.last().unwrap().starts_with("choosing"), "{:?}", user.seen);
}
