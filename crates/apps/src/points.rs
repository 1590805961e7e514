//! Applications as points in a roofline of main memory. The applications count the operations; the bytes are computed
//! from the storage format.

use crate::config::{HpcgConfig, TrapezoidConfig};
use crate::iccg::config::IccgConfig;
use crate::{GAUGE, TIMES_LLC, hpcg, iccg, trapezoid};
use nodegauge_gauge::roofline::{NoPointReason, RooflinePoint};
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_solvers::hpcg::problem::{DomainLayout, ITERATIONS, OperationCounts};

/// Point, or the reason why the run has none.
type Point = Result<RooflinePoint, NoPointReason>;

/// Number of bytes that a worker of the trapezoid rule writes for its partial sum.
const SUM: f64 = 8.0;

/// Returns the points of the newest run of each application.
pub(crate) fn points(newest: &dyn Fn(&str, &str) -> Option<Record>) -> Vec<Point> {
    let mut all = Vec::new();
    if let Some(record) = newest(iccg::TEST, "rate") {
        all.extend(iccg_points(&record));
    }
    if let Some(record) = newest(hpcg::TEST, "rating") {
        all.extend(hpcg_points(&record));
    }
    if let Some(record) = newest(trapezoid::TEST, "rate") {
        all.extend(trapezoid_points(&record));
    }
    all
}

/// Returns the figures of a test that have a value and are not invalid; published figures are left out.
fn own<'r>(record: &'r Record, test: &'static str) -> impl Iterator<Item = &'r Measurement> {
    let own = record.measurements.iter().filter(move |m| m.gauge == GAUGE && m.test == test);
    let usable = own.filter(|m| m.value.is_some() && m.validity.status != Status::Invalid);
    usable.filter(|m| !m.is_published())
}

/// Returns points for the solver and its parts, for the workers with the fastest iterations. If caches hold part of the
/// matrix, returns this as the reason why there are none.
fn iccg_points(record: &Record) -> Vec<Point> {
    let all: Vec<(&Measurement, IccgConfig)> =
        own(record, iccg::TEST).map(|m| (m, m.read_config())).collect();
    let rates = all.iter().filter(|(m, _)| m.name == "rate");
    let Some((_, best)) = rates.max_by(|(a, _), (b, _)| a.cmp_value(b)) else {
        return Vec::new();
    };
    if let Some(times) = best.times_llc.filter(|times| *times < TIMES_LLC) {
        let reason = format!(
            "iccg: no roofline point for main memory, because the matrix is only {times:.2} times \
             as large as the last-level caches (apps iccg of {})",
            record.started
        );
        return vec![Err(NoPointReason(reason))];
    }
    let same = all.iter().filter(|(_, config)| config.on == best.on && config.sweep == best.sweep);
    same.filter_map(|(m, config)| iccg_point(record, m, config)).map(Ok).collect()
}

/// Returns the point of the solver or of one of its parts; `None` if it has no operations.
fn iccg_point(record: &Record, m: &Measurement, config: &IccgConfig) -> Option<RooflinePoint> {
    let flops = config.flops? as f64;
    let bytes = config.moved_bytes? as f64;
    // The figure of a part is a bandwidth in bytes per second.
    let (name, rate) = match m.name.as_str() {
        "rate" => ("iccg".to_owned(), m.value?),
        part if config.share.is_some() => (format!("iccg_{part}"), m.value? * flops / bytes),
        _ => return None,
    };
    let n = config.n?;
    let threads = config.on.threads?;
    let storage = config.storage.as_deref()?;
    if flops <= 0.0 {
        return None;
    }
    let basis = format!(
        "apps iccg of {}, {n} unknowns, threads {threads}, bytes from the storage format, {storage}",
        record.started
    );
    Some(RooflinePoint::for_main_memory(&name, rate, flops / bytes, basis).with_validity_from(m))
}

/// Returns a point for the HPCG rating, with the operations that HPCG counts.
fn hpcg_points(record: &Record) -> Vec<Point> {
    let ratings = own(record, hpcg::TEST).filter(|m| m.name == "rating");
    let points = ratings.filter_map(|m| hpcg_point(record, m));
    let best = points.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.into_iter().map(|(_, highest)| highest).collect()
}

/// Returns a rating with its point.
fn hpcg_point(record: &Record, m: &Measurement) -> Option<(f64, Point)> {
    let config: HpcgConfig = m.read_config();
    let local = config.grid.clone()?.try_into().ok()?;
    let domains = config.domains.clone()?.try_into().ok()?;
    let flops =
        OperationCounts::from_layout(&DomainLayout { local, domains }).total() / ITERATIONS as f64;
    let n = config.n?;
    let threads = config.on.threads?;
    let basis = format!(
        "apps hpcg of {}, {n} equations, threads {threads}, operations as counted by HPCG, bytes from the storage format",
        record.started
    );
    let value = m.value?;
    let intensity = flops / config.moved_bytes? as f64;
    let point =
        RooflinePoint::for_main_memory("hpcg", value, intensity, basis).with_validity_from(m);
    let set = config.matrix_bytes.map(Bytes);
    Some((value, point.if_exceeding_caches(&record.machine, set, TIMES_LLC)))
}

/// Returns a point for the longest sum, computed by the fastest workers.
fn trapezoid_points(record: &Record) -> Vec<Point> {
    let rates = own(record, trapezoid::TEST).filter(|m| m.name == "rate");
    let rates = rates.map(|m| (m, m.read_config::<TrapezoidConfig>()));
    let best =
        rates.max_by(|(a, of_a), (b, of_b)| of_a.n.cmp(&of_b.n).then_with(|| a.cmp_value(b)));
    let point = best.and_then(|(m, config)| trapezoid_point(record, m, &config));
    point.map(Ok).into_iter().collect()
}

/// Returns the point of a sum.
fn trapezoid_point(
    record: &Record,
    m: &Measurement,
    config: &TrapezoidConfig,
) -> Option<RooflinePoint> {
    let n = config.n?;
    let threads = config.on.threads?;
    let basis = format!(
        "apps trapezoid of {}, {n} intervals, threads {threads}, bytes: one partial sum per thread",
        record.started
    );
    let intensity = n as f64 * trapezoid::FLOPS_PER_POINT / (SUM * threads as f64);
    Some(
        RooflinePoint::for_main_memory("trapezoid", m.value?, intensity, basis)
            .with_validity_from(m),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Fraction;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    fn record(name: &str) -> Record {
        let path = format!("{}/../../tests/golden/{name}/record.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn reported(record: &Record) -> Vec<(String, f64, f64)> {
        let newest = |test: &str, name: &str| {
            let has = record.measurements.iter().any(|m| m.test == test && m.name == name);
            has.then(|| record.clone())
        };
        let place =
            |point: RooflinePoint| (point.name, point.rate, point.config.flops_per_byte.unwrap());
        points(&newest).into_iter().filter_map(Result::ok).map(place).collect()
    }

    #[test]
    fn roofline_points_are_those_of_the_fastest_workers() {
        let config = |threads, flops: u64, bytes: u64, share| {
            let mut config = IccgConfig {
                n: Some(30),
                storage: Some("sell".into()),
                times_llc: Some(4.0),
                flops: Some(flops),
                moved_bytes: Some(bytes),
                share,
                ..IccgConfig::default()
            };
            config.on.threads = Some(threads);
            config
        };
        let figure = |name: &str, unit, value, figure_config: &IccgConfig| {
            Measurement::new(GAUGE, iccg::TEST, name, unit)
                .with_value(QuotedStatistic::Median, value)
                .with_config(figure_config)
        };
        let mut of = record("apps-iccg");
        let (flops, rate) = (Unit::FlopsPerSecond, Unit::BytesPerSecond);
        of.measurements = [(1, 1.0), (2, 1.5)]
            .into_iter()
            .flat_map(|(threads, speed)| {
                [
                    figure("rate", flops, 2e9 * speed, &config(threads, 40, 240, None)),
                    figure(
                        "spmv",
                        rate,
                        12e9 * speed,
                        &config(threads, 18, 76, Some(Fraction(0.5))),
                    ),
                    figure(
                        "halo",
                        rate,
                        12e9 * speed,
                        &config(threads, 0, 76, Some(Fraction(0.1))),
                    ),
                    figure("read", rate, 20e9, &config(threads, 1, 1, None)),
                ]
            })
            .collect();
        let spmv = 18e9 * 18.0 / 76.0;
        let expected = [("iccg", 3e9, 40.0 / 240.0), ("iccg_spmv", spmv, 18.0 / 76.0)];
        assert_eq!(
            reported(&of),
            expected.map(|(name, expected_rate, x)| (name.to_owned(), expected_rate, x))
        );
        // A matrix that fits into caches gives no point in a roofline of main memory.
        let small = |m: &mut Measurement| {
            let cached_config = IccgConfig { times_llc: Some(0.1), ..m.read_config() };
            *m = m.clone().with_config(&cached_config);
        };
        of.measurements.iter_mut().for_each(small);
        assert_eq!(reported(&of), []);
    }

    #[test]
    fn point_of_a_suspect_run_is_suspect() {
        let mut sums = record("apps-trapezoid");
        sums.measurements.iter_mut().for_each(|m| m.validity.mark_suspect("disturbed"));
        let newest = |test: &str, _: &str| (test == trapezoid::TEST).then(|| sums.clone());
        let point = points(&newest).remove(0).unwrap().into_measurement();
        assert_eq!(point.validity.status, Status::Suspect);
        assert!(point.validity.reasons.iter().any(|reason| reason == "disturbed"));
    }

    #[test]
    fn matrix_in_the_caches_gives_no_memory_point() {
        let mut solved = record("apps-hpcg");
        let set = Bytes::mib(22);
        for m in &mut solved.measurements {
            let config = HpcgConfig { matrix_bytes: Some(set.0), ..m.read_config() };
            *m = m.clone().with_config(&config);
        }
        let newest = |test: &str, _: &str| (test == hpcg::TEST).then(|| solved.clone());
        let NoPointReason(reason) = points(&newest).remove(0).unwrap_err();
        assert!(
            reason.starts_with("hpcg: no roofline point for main memory, because the last-level"),
            "{reason}"
        );
    }

    #[test]
    fn hpcg_and_trapezoid_points_have_plausible_intensities() {
        let mut solved = record("apps-hpcg");
        // The golden run was small; its counts are those of a set beyond the caches.
        for m in &mut solved.measurements {
            let config = HpcgConfig { matrix_bytes: Some(Bytes::gib(2).0), ..m.read_config() };
            *m = m.clone().with_config(&config);
        }
        let hpcg = reported(&solved);
        let [(name, _, intensity)] = &hpcg[..] else { panic!("{hpcg:?}") };
        // A product has 2 operations per more than 8 bytes; the multigrid cycle saves some of the bytes.
        assert!(name == "hpcg" && (0.15..0.5).contains(intensity), "{hpcg:?}");
        let sums = reported(&record("apps-trapezoid"));
        let [(sum_name, rate, sum_intensity)] = &sums[..] else { panic!("{sums:?}") };
        assert!(sum_name == "trapezoid" && *rate > 1e9 && *sum_intensity > 1e4, "{sums:?}");
    }
}
