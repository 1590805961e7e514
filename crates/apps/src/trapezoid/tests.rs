use super::*;
use nodegauge_machine::{SysRoot, Topology, TopologySource};
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::{Machine, Status};
use nodegauge_placement::{PlacementRequest, RankPolicy, RankRequest, plan, plan_ranks};

fn site() -> MeasuredNode {
    let topology = Topology::load(&TopologySource::Live).unwrap();
    MeasuredNode::new(topology, Machine::default(), SysRoot::live())
}

/// Returns three kinds of workers: one thread, one rank without a policy, and one rank with a policy.
fn workers(site: &MeasuredNode) -> Vec<Workers> {
    let one = PlacementRequest { threads: Some(1), ..PlacementRequest::default() };
    let ranks = |policy| {
        let request =
            RankRequest { ranks: 1, policy: RankPolicy::new(policy), ..RankRequest::default() };
        Workers::Ranks(plan_ranks(&site.topology, &request).unwrap())
    };
    vec![Workers::Threads(plan(&site.topology, &one).unwrap()), ranks(0), ranks(5)]
}

fn options() -> TrapezoidOptions {
    let budget = Some(Duration::from_secs(1));
    TrapezoidOptions { points: vec![1000, 100_000], budget, samples: Some(3) }
}

#[test]
fn each_sum_has_figures_for_all_workers() {
    let site = site();
    let plan = TrapezoidPlan::from_workers(workers(&site), options(), Vec::new()).unwrap();
    let outcome = Box::new(plan).run(&site, &mut SilentObserver).unwrap();
    let names: Vec<&str> = outcome.measurements.iter().map(|m| m.name.as_str()).collect();
    let of_points = ["rate", "rate", "efficiency", "rate", "efficiency", "relative"];
    assert_eq!(names, [of_points, of_points].concat());
    for m in &outcome.measurements {
        let config: TrapezoidConfig = m.read_config();
        assert!(m.value.unwrap() > 0.0 && m.summary.as_ref().unwrap().n >= 3, "{m:?}");
        assert!(config.error <= config.error_allowed && config.error.is_some());
        assert_eq!(m.name == "rate", config.against.is_none());
    }
}

#[test]
fn wrong_sum_is_invalid() {
    let site = site();
    let workers = workers(&site);
    let cell = |error| TrapezoidCell { points: 1000, at: 0, workers: &workers[0], error };
    assert_eq!(cell(max_error(1000)).validity().status, Status::Valid);
    for wrong in [2e-6, f64::NAN, f64::INFINITY] {
        let validity = cell(wrong).validity();
        assert_eq!(validity.status, Status::Invalid);
        assert!(
            validity.reasons[0]
                .starts_with("a sum over 1000 intervals by 1 thread deviates from pi")
        );
    }
}

#[test]
fn zero_or_too_many_intervals_are_refused() {
    let of = |points| TrapezoidOptions { points: vec![points], ..options() };
    for wrong in [0, MAX_POINTS + 1] {
        assert!(TrapezoidPlan::from_workers(Vec::new(), of(wrong), Vec::new()).is_err());
    }
}
