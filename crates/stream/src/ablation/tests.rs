use super::*;
use crate::size::RuleCaches;
use nodegauge_kernels::Element;
use nodegauge_measure::interference::Cause;
use nodegauge_measure::record::Status;

fn config() -> TargetConfig {
    let shape = KernelShape {
        isa: kernels::available_isas()[0],
        stores: Stores::Regular,
        unroll: 4,
        side_by_side: SideBySidePages::ONE,
        prefetch: Prefetch::Off,
    };
    TargetConfig {
        places: vec![Vec::new()],
        arrays: 3,
        elements: 8,
        element: kernels::Element::F64,
        pages: RequestedPages::Base,
        layout: ArrayLayout::Staggered,
        policy: nodegauge_placement::MemoryPolicy::Default,
        kernels: vec![(Kernel::Copy, shape), (Kernel::Triad, shape)],
        cache_bytes: 0,
    }
}

/// Returns a round of a baseline and two steps: times of Copy and Triad in seconds, and the time of `memcpy` in the
/// last cell.
fn round(triads: [f64; 3], memcpy: f64) -> Vec<Sample> {
    let step = |triad: f64| Sample::from_times(vec![1.0, triad]);
    triads.map(step).into_iter().chain([Sample::from_times(vec![memcpy])]).collect()
}

fn steps() -> [Step; 3] {
    let step = |name| Step { name, what: String::new(), options: Vec::new(), config: config() };
    ["baseline", "binding", "loop"].map(step)
}

fn measured<'a>(
    steps: &'a [Step],
    rounds: &'a [Vec<Sample>],
    alone: &'a [Sample],
) -> MeasuredSteps<'a> {
    let selected =
        SelectedRounds::from_rounds(rounds, &[false, true, true, true], CountingRounds::OneRegime);
    let SelectedRounds { rounds: counted, has_enough_rounds: settled, .. } = selected;
    MeasuredSteps {
        steps,
        kernels: vec![Kernel::Copy, Kernel::Triad],
        bytes: vec![16.0, 24.0],
        copy: Some(0),
        left_out: rounds.len() - counted.len(),
        enough: (counted.len() < MIN_ROUNDS).then_some(Seconds(87.0)),
        rounds: counted,
        settled,
        alone,
        wrong: None,
        lost: None,
        unchecked: None,
        size: ArraySize::new(8, Element::F64, RuleCaches::Reported(None), Vec::new()),
        check: None,
        array_bytes: Bytes(64),
    }
}

#[test]
fn product_of_step_factors_is_the_total_factor() {
    let rounds: Vec<Vec<Sample>> = (0..12)
        .map(|i| {
            let slower = 1.0 + 0.01 * f64::from(i % 5);
            round([3.0, 2.0 * slower, 1.0 * slower], 0.8 + 0.01 * f64::from(i % 3))
        })
        .collect();
    let alone: Vec<Sample> = (0..11).map(|_| Sample::from_times(vec![1.0, 1.01])).collect();
    let steps = steps();
    let measured = measured(&steps, &rounds, &alone);
    let figures = measured.figures();
    let names: Vec<&str> = figures.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["binding", "loop", TOTAL_FACTOR, MEMCPY]);
    let values: Vec<f64> = figures.iter().filter_map(|m| m.value).collect();
    assert!((values[0] * values[1] / values[2] - 1.0).abs() < 1e-12, "{values:?}");
    assert!((values[2] - 3.0).abs() < 1e-12 && (values[3] - 1.25).abs() < 1e-12, "{values:?}");
    let config: ExplainConfig = figures[2].read_config();
    let (from, to) = (config.from.unwrap(), config.to.unwrap());
    assert!((to / from / values[2] - 1.0).abs() < 1e-12);
    assert_eq!((config.rounds, config.rounds_left_out), (Some(12), Some(0)));
    assert!(figures.iter().all(|m| m.validity.status == Status::Valid), "{figures:?}");
    assert_eq!(figures[3].category, Category::Reference);
    // The rate of the last step is the best of its passes and is compared with the result of `stream`.
    let stream = config.stream.unwrap();
    assert_eq!(stream.passes, 10);
    assert!((stream.rate - 24.0 / 1.01).abs() < 1e-9 && (stream.ratio - 1.0 / 1.01).abs() < 1e-9);
    let first_config: ExplainConfig = figures[0].read_config();
    assert_eq!(first_config.factors.unwrap()["copy"], 1.0);
    let [low, high] = first_config.interval.unwrap()[..] else { panic!("no interval") };
    assert!(low <= 1.5 && (1.5..1.6).contains(&high), "{low} {high}");
    assert!(measured.memcpy_note().unwrap().starts_with("memcpy of the C library is faster"));
}

#[test]
fn disturbed_run_reports_its_number_of_rounds() {
    let mut rounds = vec![round([3.0, 2.0, 1.0], 1.2); 5];
    for sample in rounds.iter_mut().flatten() {
        sample.causes = vec![Cause::Faults(99)];
    }
    let steps = steps();
    let figures = measured(&steps, &rounds, &[]).figures();
    let config: ExplainConfig = figures[2].read_config();
    assert_eq!((config.rounds, config.rounds_left_out), (Some(5), Some(0)));
    let reasons = &figures[0].validity.reasons;
    assert!(reasons[0].starts_with("only 5 rounds count"), "{reasons:?}");
    assert!(reasons[0].ends_with("depends on chance; use --budget 87"), "{reasons:?}");
    assert_eq!(config.enough_budget_s, Some(Seconds(87.0)));
    assert!(measured(&steps, &rounds, &[]).memcpy_note().is_none());
}

#[test]
fn budget_for_ten_rounds_is_computed_from_the_round_time() {
    let pace =
        Pace { fixed: Duration::from_secs(9), round: Duration::from_millis(2500), kept: 1.0 };
    // Eleven rounds with the warm-up take 27.5 s; the shares of the policy are for the rounds and the setup.
    let share = policy::EXPLAIN.measurement_share.0 - policy::EXPLAIN.choice_share.0;
    assert_eq!(pace.enough(), Seconds((1.1f64 * 36.5 / share).ceil()));
    let moved = Pace { kept: 0.5, ..pace };
    assert_eq!(moved.enough(), Seconds((1.1f64 * 61.5 / share).ceil()));
}

#[test]
fn rounds_of_another_regime_are_excluded() {
    let of = |trip: f64| {
        let mut round = round([3.0, 2.0, 1.0], 1.2);
        round.iter_mut().for_each(|sample| sample.round_trips = (trip, trip));
        round
    };
    let mut rounds = vec![of(115e-9); 11];
    rounds.extend(vec![of(390e-9); 4]);
    let selected =
        SelectedRounds::from_rounds(&rounds, &[false, true, true, true], CountingRounds::OneRegime);
    let SelectedRounds { rounds: counted, has_enough_rounds: settled, .. } = selected;
    assert_eq!((counted.len(), settled), (11, true));
}
