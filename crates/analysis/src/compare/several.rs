//! Comparison of several runs: the differences between them, and each figure with the runs that have it.

use super::judge;
use super::pairing::{self, PairedMeasurement};
use super::settings::{self, Difference};
use crate::expect;
use crate::identity::{figure_group_key, in_words};
use nodegauge_measure::Bytes;
use nodegauge_measure::keys::{Registry, Role};
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::stats::BetterDirection;

/// Result of the comparison of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunComparison<'a> {
    /// Differences between the runs; labels and the machine first.
    pub differences: Vec<Difference>,
    /// All figures, in the order of the runs.
    pub figures: Vec<SharedFigure<'a>>,
}

/// Figure with the runs that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedFigure<'a> {
    /// Title of the figure: `triad`, `latency 8 B`, `triad, threads 4`.
    pub title: String,
    /// Title without the size: the title of the curve that shows the figure over the size.
    pub curve: String,
    /// Size to which the figure applies; `None` unless there is exactly one.
    pub size: Option<Bytes>,
    /// Measurement of each run, in the order of the runs; `None` for a run without the figure.
    pub runs: Vec<Option<&'a Measurement>>,
    /// Reasons why the figures of the runs are not comparable; empty if they are comparable.
    pub obstacles: Vec<String>,
}

impl<'a> SharedFigure<'a> {
    fn from_point(
        point: &PairedMeasurement<'a>,
        is_same_command: bool,
        registry: &Registry,
    ) -> Self {
        let first = point.first();
        let name = first.name_in_words();
        let named = name != first.name;
        let mut rest = point.at.clone();
        rest.retain(|key_name, _| {
            let known = registry.key(&first.gauge, &first.test, key_name);
            known.is_none_or(|key| key.role != Role::Size)
        });
        let sizes = point.at.len() - rest.len() + usize::from(named);
        let name_of_size = named.then(|| first.name.parse().ok().map(Bytes)).flatten();
        let rest = in_words(figure_group_key(first), &rest, registry);
        Self {
            title: point.title(),
            curve: format!("{}{rest}", if named { &first.test } else { &name }),
            size: name_of_size
                .or_else(|| expect::figure_size(first, registry))
                .filter(|_| sizes == 1),
            runs: point.sides.iter().map(|side| side.first().map(|(_, m)| *m)).collect(),
            obstacles: judge::obstacles(point, is_same_command, registry),
        }
    }

    /// Returns the measurement of the first run that has the figure.
    pub fn first(&self) -> &'a Measurement {
        self.runs.iter().flatten().next().expect("at least one run has the figure")
    }

    /// True if every run has the figure.
    pub fn is_in_all_runs(&self) -> bool {
        self.runs.iter().all(Option::is_some)
    }

    /// Returns the indices of the runs with the best and the worst valid value. Returns `None` if neither direction of
    /// the unit is better, if the figures are not comparable, or if all values are equal.
    pub fn best_and_worst(&self) -> Option<[usize; 2]> {
        let better = self.first().unit.direction().filter(|_| self.obstacles.is_empty())?;
        let mut ranked: Vec<(usize, f64)> = Vec::new();
        for (run, m) in self.runs.iter().enumerate() {
            let valid = m.filter(|figure| figure.validity.status == Status::Valid);
            ranked.extend(valid.and_then(|figure| figure.value).map(|value| (run, value)));
        }
        ranked.sort_by(|(_, x), (_, y)| match better {
            BetterDirection::Higher => y.total_cmp(x),
            BetterDirection::Lower => x.total_cmp(y),
        });
        let [(best, max), .., (worst, min)] = ranked[..] else { return None };
        (max != min).then_some([best, worst])
    }
}

/// Compares several runs with each other.
pub fn compare_runs<'a>(runs: &'a [Record], registry: &Registry) -> RunComparison<'a> {
    let sides: Vec<&[Record]> = runs.chunks(1).collect();
    let paired_measurements = pairing::paired_measurements(&sides, registry);
    let same = settings::is_same_command(&sides);
    RunComparison {
        differences: settings::differences(&sides, &paired_measurements, same, registry),
        figures: paired_measurements
            .iter()
            .map(|point| SharedFigure::from_point(point, same, registry))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::Validity;
    use serde_json::json;

    /// Returns a run with one figure per name and value.
    fn run(host: &str, figures: &[(&str, Unit, f64)]) -> Record {
        let of = |(name, unit, value): &(&str, Unit, f64)| Measurement {
            value: Some(*value),
            ..Measurement::new("memory", "stream", *name, *unit)
        };
        let measurements: Vec<Measurement> = figures.iter().map(of).collect();
        serde_json::from_value(json!({
            "schema": "nodegauge/1", "id": host, "started": "2026-11-21T20:00:00Z", "seconds": 1.0,
            "complete": true, "tool": {"version": "0", "commit": null}, "command": ["stream"],
            "machine": nodegauge_measure::record::Machine { host: Some(host.to_owned()), ..Default::default() },
            "measurements": measurements,
        }))
        .unwrap()
    }

    fn registry() -> Registry {
        Registry::new(std::iter::empty())
    }

    #[test]
    fn best_and_worst_values_depend_on_the_unit() {
        let rate = Unit::BytesPerSecond;
        let values = [(3.0, 5.0), (4.0, 6.0), (1.0, 4.0), (9.0, 1.0)];
        let of = |(i, (bw, time)): (usize, &(f64, f64))| {
            run(&format!("n{i}"), &[("triad", rate, *bw), ("latency", Unit::Seconds, *time)])
        };
        let mut runs: Vec<Record> = values.iter().enumerate().map(of).collect();
        for m in &mut runs[3].measurements {
            m.validity = Validity { status: Status::Suspect, reasons: vec!["busy".to_owned()] };
        }
        let known = compare_runs(&runs, &registry());
        let marked: Vec<_> = known.figures.iter().map(SharedFigure::best_and_worst).collect();
        assert_eq!(marked, [Some([1, 2]), Some([2, 1])]);
        assert!(known.figures.iter().all(SharedFigure::is_in_all_runs));
        // With a single valid value or with equal values there is no best run.
        runs[2] = run("n2", &[]);
        runs[1].measurements[0].value = Some(3.0);
        let known_again = compare_runs(&runs, &registry());
        assert_eq!(known_again.figures[0].best_and_worst(), None);
        assert!(!known_again.figures[0].is_in_all_runs());
    }

    #[test]
    fn figures_of_different_kinds_have_no_best_value() {
        let mut runs = ["a", "b", "c"].map(|id| run(id, &[("triad", Unit::BytesPerSecond, 1.0)]));
        runs[1].measurements[0].value = Some(2.0);
        runs[2].measurements[0].category = nodegauge_measure::record::Category::Standard;
        let known = compare_runs(&runs, &registry());
        assert_eq!(known.figures[0].best_and_worst(), None);
        assert_eq!(known.figures[0].obstacles, ["category: variant against standard"]);
        assert_eq!(compare_runs(&runs[..2], &registry()).figures[0].best_and_worst(), Some([1, 0]));
    }

    #[test]
    fn figures_named_by_size_are_points_of_one_curve() {
        let sized = |value: f64| {
            let mut run = run("n1", &[("8", Unit::Seconds, value)]);
            run.measurements[0].test = "latency".to_owned();
            run.measurements[0].config.insert("message_bytes".to_owned(), json!(8));
            run
        };
        let runs = [sized(1e-6), sized(2e-6)];
        let known = compare_runs(&runs, &registry());
        assert_eq!(known.figures[0].size, Some(Bytes(8)));
        assert_eq!(known.figures[0].curve, "latency");
    }

    #[test]
    fn only_differences_between_runs_are_listed() {
        let mut runs = ["a", "b", "c"].map(|host| run(host, &[]));
        for run in &mut runs[..2] {
            run.machine.kernel = Some(format!("6.{}", run.id));
        }
        runs[0].labels.insert("nps".to_owned(), "4".to_owned());
        let differences = compare_runs(&runs, &registry()).differences;
        let reported: Vec<String> =
            differences.iter().map(|d| format!("{}: {}", d.what, d.sides.join(" "))).collect();
        assert!(reported.contains(&"host: a b c".to_owned()), "{reported:?}");
        assert!(reported.contains(&"kernel: 6.a 6.b ?".to_owned()), "{reported:?}");
        assert!(!reported.iter().any(|line| line.starts_with("nodegauge")), "{reported:?}");
    }
}
