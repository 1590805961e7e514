//! Figures from the output of the reference program.

use crate::config::{RatingConfig, ResidualConfig};
use crate::output::{HplOutput, HplRow};
use crate::result::RATING_FORMULA;
use crate::{GAUGE, RATING, TEST};
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};

/// Returns the measurements of a saved output. They are suspect if the output may be incomplete.
pub fn saved_output_figures(output: &HplOutput) -> Vec<Measurement> {
    engine_figures(output, "xhpl")
}

/// Returns the measurements of a saved output of the program `engine`.
pub fn engine_figures(output: &HplOutput, engine: &str) -> Vec<Measurement> {
    let mut all = measurements(&output.rows, engine, output.version.as_deref(), None);
    if let Some(reason) = output.incomplete_reason() {
        for measurement in &mut all {
            measurement.validity.add(Status::Suspect, reason.clone());
        }
    }
    all
}

/// Returns the results as measurements, one per combination of N, NB, P, Q and variant, best first. Several results of
/// a combination become the samples of one measurement.
pub fn measurements(
    rows: &[HplRow],
    engine: &str,
    version: Option<&str>,
    command: Option<&str>,
) -> Vec<Measurement> {
    let mut groups: Vec<Vec<&HplRow>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| is_same_run(group[0], row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.sort_by(|a, b| best(b).total_cmp(&best(a)));
    let about = RatingConfig {
        engine: Some(engine.to_owned()),
        version: version.map(str::to_owned),
        command: command.map(str::to_owned),
        ..RatingConfig::default()
    };
    groups.iter().map(|group| measurement(group, about.clone())).collect()
}

/// True if two rows have the same combination of N, NB, P, Q and variant.
fn is_same_run(a: &HplRow, b: &HplRow) -> bool {
    (a.n, a.nb, a.p, a.q, &a.variant) == (b.n, b.nb, b.p, b.q, &b.variant)
}

/// Returns the best rate of several rows.
fn best(group: &[&HplRow]) -> f64 {
    group.iter().map(|row| row.rate.0).fold(0.0, f64::max)
}

fn measurement(group: &[&HplRow], about: RatingConfig) -> Measurement {
    let row = group.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap_or(&group[0]);
    let config = RatingConfig {
        variant: Some(row.variant.clone()),
        n: Some(row.n as u64),
        nb: Some(row.nb as u64),
        p: Some(row.p as u64),
        q: Some(row.q as u64),
        seconds: Some(row.seconds),
        formula: Some(RATING_FORMULA.to_owned()),
        residual: Some(ResidualConfig::from_value(row.residual)),
        ..about
    };
    let failed = group.iter().any(|member| member.passed == Some(false));
    let mut validity = Validity::valid();
    if failed {
        validity.add(Status::Invalid, "residual check FAILED: x is not a solution");
    } else if group.iter().any(|member| member.passed.is_none()) {
        validity.add(Status::Suspect, "no residual was printed: x is not verified");
    }
    let counted = group.iter().filter(|_| !failed);
    Measurement::new(GAUGE, TEST, RATING, Unit::FlopsPerSecond)
        .with_category(Category::Reference)
        .with_samples(QuotedStatistic::Best, counted.map(|member| member.rate.0).collect())
        .with_config(&config)
        .with_validity(validity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;

    #[test]
    fn rows_become_measurements_sorted_by_rate() {
        let rows = output::read(include_str!("../../tests/outputs/three-nb.txt")).rows;
        let made = measurements(&rows, "xhpl", Some("2.3"), None);
        assert_eq!(made.len(), 3);
        assert_eq!(made[0].config["nb"], 192);
        assert_eq!(made[0].value, Some(89.775e9));
        assert!(made.iter().all(|m| m.category == Category::Reference));
        let failed_rows = output::read(include_str!("../../tests/outputs/failed.txt")).rows;
        let failed = &measurements(&failed_rows, "xhpl", None, None)[0];
        assert_eq!((failed.value, failed.validity.status), (None, Status::Invalid));
    }

    #[test]
    fn results_of_truncated_output_are_suspect() {
        let whole = include_str!("../../tests/outputs/three-nb.txt");
        let status = |text: &str| saved_output_figures(&output::read(text))[0].validity.status;
        assert_eq!(status(whole), Status::Valid);
        assert_eq!(status(whole.split("Finished").next().unwrap()), Status::Suspect);
    }

    #[test]
    fn result_without_residual_is_suspect() {
        let rows = output::read(
            "WR11C2R4        4000   192     1     2               0.56             7.6559e+01\n",
        )
        .rows;
        assert_eq!(measurements(&rows, "xhpl", None, None)[0].validity.status, Status::Suspect);
    }
}
