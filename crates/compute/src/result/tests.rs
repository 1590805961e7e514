//! Tests of figures and notices, derived from given peaks and rates.

use super::*;
use crate::choose::{DefaultKernelsVerdict, TrialResult};
use crate::config::ResidualConfig;
use crate::observed::{ComparisonRates, LoopBurst};
use nodegauge_lu::peak::{Burst, loops};
use nodegauge_machine::{SysRoot, Topology, TopologySource};
use nodegauge_measure::record::Machine;
use nodegauge_measure::{FlopsPerSec, Seconds};
use nodegauge_placement::PlacementRequest;

/// Returns a site with two cores of 32 FLOP per cycle, with separate units for additions.
fn site() -> MeasuredNode {
    let source = TopologySource::Synthetic("Package:1 NUMANode:1 Core:2 PU:1".to_owned());
    let mut machine = Machine::default();
    machine.processor.cores = 2;
    machine.processor.flops_per_cycle = Some(32);
    machine.processor.flops_per_cycle_without_fma = Some(32);
    MeasuredNode::new(Topology::load(&source).unwrap(), machine, SysRoot::live())
}

fn burst(gflops: f64, ghz: f64) -> Burst {
    Burst { rate: FlopsPerSec(gflops * 1e9), clock: Some(Hertz(ghz * 1e9)) }
}

/// Returns bursts of the loop whose peak [`run_timed`] contains.
fn of_loop(bursts: &[Burst]) -> Vec<LoopBurst> {
    let isa = loops()[0].isa;
    bursts.iter().map(|burst| LoopBurst { isa, burst: *burst }).collect()
}

/// Returns the figure `name` and the notices of a run with these bursts, and with these rates before and after the
/// solve.
fn judged(name: &str, bursts: &[Burst], comparison: ComparisonRates) -> (Measurement, Vec<String>) {
    timed(name, bursts, comparison, TimeConfig::default())
}

fn timed(
    name: &str,
    bursts: &[Burst],
    comparison: ComparisonRates,
    time: TimeConfig,
) -> (Measurement, Vec<String>) {
    let (site, options) = (site(), HplOptions::default());
    let placement =
        nodegauge_placement::plan(&site.topology, &PlacementRequest::default()).unwrap();
    let solution = SolvedSystem {
        order: 8000,
        nb: 192,
        rating: FlopsPerSec(90e9),
        seconds: Seconds(4.0),
        time,
        residual: ResidualConfig::from_value(Some(0.01)),
        huge_pages: None,
        joules: None,
        start_time: Seconds(0.0),
        comparison,
    };
    let rate = FlopsPerSec(1.0);
    let observations = Observations {
        peaks: vec![Peak { kernel: loops()[0], bursts: bursts.to_vec() }],
        libraries: vec![LibraryRuns {
            candidate: TrialResult {
                name: "a library".to_owned(),
                rate,
                probed: None,
                default: DefaultKernelsVerdict::default(),
            },
            dgemm: vec![100e9, 140e9],
            search: Vec::new(),
            order: None,
            solutions: vec![solution],
        }],
        ..Observations::default()
    };
    let evidence = RatingEvidence {
        site: &site,
        placement: &placement,
        options: &options,
        observations: &observations,
    };
    let figure = evidence.measurements().into_iter().find(|m| m.name == name).unwrap();
    (figure, evidence.notices().into_iter().map(|notice| notice.message).collect())
}

#[test]
fn theoretical_peak_uses_the_clock_of_the_best_burst() {
    // The clock dropped after the best burst; the best burst is still valid.
    let even = burst(178.0, 2.97);
    let bursts = [burst(180.0, 3.0), even, even, even, burst(120.0, 2.0)];
    let (peak, _) = judged("fma_peak", &bursts, ComparisonRates::default());
    let limit = peak.limit.clone().unwrap();
    assert!((limit.value / (2.0 * 3e9 * 32.0) - 1.0).abs() < 1e-12, "{limit:?}");
    assert_eq!((peak.validity.status, limit.fraction), (Status::Valid, Fraction(180.0 / 192.0)));
}

#[test]
fn processor_with_separate_adders_reaches_its_peak_without_fma() {
    let (peak, _) = judged("fma_peak", &[burst(180.0, 3.0)], ComparisonRates::default());
    let config: PeakConfig = peak.read_config();
    let theory = config.theoretical.unwrap();
    assert_eq!(theory.without_fma, Some(theory.value));
}

#[test]
fn impossible_operations_per_cycle_discard_the_clock() {
    let (peak, _) = judged("fma_peak", &[burst(205.0, 3.0)], ComparisonRates::default());
    assert_eq!((&peak.limit, peak.validity.status), (&None, Status::Valid));
    let config: PeakConfig = peak.read_config();
    assert_eq!((config.clock_hz, config.flops_per_cycle, config.theoretical), (None, None, None));
    assert_eq!(peak.value, Some(205e9));
}

#[test]
fn load_during_the_solve_makes_the_rating_suspect() {
    let quiet = [burst(190.0, 3.0), burst(188.0, 3.0), burst(126.0, 2.0)];
    let comparison =
        |bursts: &[Burst]| ComparisonRates { dgemm: vec![100e9], bursts: of_loop(bursts) };
    let (rating, _) = judged("rating", &quiet, comparison(&quiet));
    assert_eq!(rating.validity.status, Status::Valid, "{:?}", rating.validity);
    let busy = [burst(124.0, 3.0), burst(71.0, 3.0), burst(100.0, 3.0)];
    let (busy_rating, _) = judged("rating", &quiet, comparison(&busy));
    assert_eq!(busy_rating.validity.status, Status::Suspect);
    let reason = &busy_rating.validity.reasons[0];
    assert!(reason.starts_with("other load used 47 % of the cores' execution units: register-only loops before and after the solve reached 71.0 to 124.0 GFLOP/s"), "{reason}");
    let time = busy_rating.read_config::<RatingConfig>().time.unwrap();
    assert!((time.shared.unwrap() - Fraction(1.0 - 100.0 / 190.0)).0.abs() < 1e-12);
}

#[test]
fn loop_slowed_by_other_load_remains_a_candidate() {
    let of_double: Vec<PeakLoop> =
        loops().into_iter().filter(|kernel| kernel.element == "f64").collect();
    let (narrow, wide) = (of_double[0], of_double[of_double.len() - 1]);
    let mut observations = Observations::default();
    for (at, kernel) in of_double.iter().enumerate() {
        observations.add_burst(kernel, burst(600.0 - 50.0 * at as f64, 3.0));
    }
    let fastest_candidates = observations.fastest_candidates();
    assert!(
        fastest_candidates[0].is_same_loop(&narrow)
            && fastest_candidates[fastest_candidates.len() - 1].is_same_loop(&wide)
    );
    observations.add_burst(&wide, burst(1200.0, 3.0));
    assert!(observations.peak("f64").unwrap().kernel.is_same_loop(&wide));
    let bursts = vec![
        LoopBurst { isa: narrow.isa, burst: burst(590.0, 3.0) },
        LoopBurst { isa: wide.isa, burst: burst(1190.0, 3.0) },
    ];
    let comparison = ComparisonRates { dgemm: Vec::new(), bursts };
    assert_eq!(comparison.loop_bursts(&wide).last(), Some(&burst(1190.0, 3.0)));
}

#[test]
fn lu_is_compared_with_dgemm_before_and_after_the_solve() {
    let comparison = |dgemm: &[f64]| ComparisonRates { dgemm: dgemm.to_vec(), bursts: Vec::new() };
    let loses = |notices: &[String]| notices.iter().any(|text| text.starts_with("LU is slow"));
    // The best DGEMM rate is 140 GFLOP/s, the median before and after the solve is 100 GFLOP/s, and LU reached 90
    // GFLOP/s.
    let (rating, notices) = judged("rating", &[], comparison(&[98e9, 100e9, 140e9]));
    assert_eq!(rating.read_config::<RatingConfig>().of_dgemm, Some(Fraction(0.9)));
    assert!(!loses(&notices), "{notices:?}");
    let (_, quiet_notices) = judged("rating", &[], comparison(&[138e9, 140e9, 141e9]));
    assert!(loses(&quiet_notices), "{quiet_notices:?}");
}

#[test]
fn panel_limited_rating_is_suspect_if_threads_wait() {
    let of = |panels, waiting| {
        let comparison = ComparisonRates { dgemm: vec![200e9], bursts: Vec::new() };
        timed("rating", &[], comparison, TimeConfig { panels, waiting, ..TimeConfig::default() }).0
    };
    assert_eq!(of(Fraction(0.1), Fraction(0.2)).validity.status, Status::Valid);
    let doubted = of(Fraction(0.2), Fraction(0.45));
    assert_eq!(doubted.validity.status, Status::Suspect);
    let reason = &doubted.validity.reasons[0];
    assert!(reason.contains("took 65 % of the threads' time, and the rating is 45 % of the DGEMM"));
}
