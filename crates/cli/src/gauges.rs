//! The gauges, in the order of a page: the one list that runs, shows, compares and describes them.

use crate::progress::Progress;
use nodegauge_gauge::{Gauge, Glance, Site};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::Record;
use nodegauge_measure::{Failure, Notice, NoticeId, Outcome};

/// All gauges.
pub(crate) const GAUGES: [&dyn Gauge; 4] = [
    &nodegauge_memory::Memory::PLAIN,
    &nodegauge_compute::ComputeGauge,
    &nodegauge_messages::Messages,
    &nodegauge_files::Files,
];

/// The kinds of figures of all gauges, with the keys of their configurations.
pub(crate) fn registry() -> Registry {
    Registry::new(GAUGES.iter().flat_map(|gauge| gauge.kinds()))
}

/// A record as CSV.
pub(crate) fn csv(record: &Record) -> String {
    nodegauge_measure::csv::render(std::slice::from_ref(record), &registry())
}

/// A gauge's part of `run`. What one gauge lacks must not cost the others' figures: why it was not
/// measured is a notice.
pub(crate) fn glance(
    gauge: &dyn Gauge,
    site: &Site,
    ask: &Glance<'_>,
    progress: &mut Progress,
) -> Outcome {
    let not_measured = |failure: Failure| {
        let text = format!("not measured: {}", failure.in_a_line());
        Notice::new(NoticeId::LeftOut, gauge.name(), text)
    };
    let found = gauge
        .glance(site, ask)
        .and_then(|planned| planned.map(|planned| planned.run(site, progress)).transpose());
    match found {
        Ok(outcome) => {
            let mut outcome = outcome.unwrap_or_default();
            let failure = outcome.failure.take();
            outcome.notices.extend(failure.map(not_measured));
            outcome
        }
        Err(failure) => Outcome { notices: vec![not_measured(failure)], ..Outcome::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::compare::{Comparison, Design, Side, Verdict, compare};
    use nodegauge_measure::keys::{ConfigKind, Role};
    use nodegauge_measure::record::{Measurement, Status};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// The golden records by the names of their folders.
    fn golden() -> Vec<(String, Record)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
        let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let records: Vec<(String, Record)> = folders
            .filter(|path| path.is_dir())
            .map(|path| {
                let text = std::fs::read_to_string(path.join("record.json")).unwrap();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, serde_json::from_str(&text).unwrap())
            })
            .collect();
        assert!(records.len() > 60, "{}", records.len());
        records
    }

    fn own(record: &Record) -> usize {
        record.measurements.iter().filter(|m| !m.is_published()).count()
    }

    fn compared(a: &Record, b: &Record) -> Comparison {
        let side = |run: &Record| Side { runs: vec![run.clone()], ..Side::default() };
        compare(&side(a), &side(b), Design::default(), &registry())
    }

    /// Every figure has its pair, and every one with a result its ratio.
    fn pairs_completely(name: &str, a: &Record, b: &Record) -> Comparison {
        let comparison = compared(a, b);
        assert_eq!(comparison.pairs.len(), own(a), "{name}: {:?}", comparison.only_a);
        assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty(), "{name}");
        for pair in &comparison.pairs {
            let failed = pair.a.status == Status::Invalid;
            let left_out = pair.verdict == Verdict::NotComparable;
            assert!(failed || !left_out, "{name}: {}: {:?}", pair.title(), pair.reasons);
        }
        comparison
    }

    #[test]
    fn every_golden_record_pairs_all_its_figures_with_itself() {
        for (name, record) in golden() {
            pairs_completely(&name, &record, &record);
        }
    }

    /// Another value of the same kind.
    fn changed(value: &Value) -> Value {
        match value {
            Value::Number(number) => json!(number.as_f64().unwrap() * 1.5 + 1.0),
            Value::String(text) => json!(format!("{text} other")),
            Value::Bool(is) => json!(!is),
            Value::Array(all) => all.iter().map(changed).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.clone(), changed(value))).collect()
            }
            Value::Null => Value::Null,
        }
    }

    #[test]
    fn two_runs_of_one_command_that_differ_in_every_outcome_pair_completely() {
        let registry = registry();
        let mut outcomes = 0;
        for (name, record) in golden().into_iter().filter(|(_, run)| !run.machine.is_imported()) {
            let itself = compared(&record, &record);
            let telling: BTreeSet<&String> =
                itself.pairs.iter().flat_map(|pair| pair.at.keys()).collect();
            let mut other = record.clone();
            other.id.push('2');
            for m in &mut other.measurements {
                let role = |key: &str| registry.key(&m.gauge, &m.test, key).map(|key| key.role);
                for (key, value) in &mut m.config {
                    let is_outcome = match role(key) {
                        // Of a guest, round trips are of the regime that is compared.
                        Some(Role::Observation) => key != "round_trip_s",
                        // What a search or the machine may come to where nothing is asked.
                        Some(Role::Choice | Role::Identity) => !telling.contains(key),
                        _ => false,
                    };
                    if is_outcome {
                        *value = changed(value);
                        outcomes += 1;
                    }
                }
            }
            pairs_completely(&name, &record, &other);
        }
        assert!(outcomes > 5000, "{outcomes}");
    }

    /// Whether a figure may be of a kind: the test is one of its own, and it has no other keys.
    fn is_of(kind: &ConfigKind, m: &Measurement) -> bool {
        let known = |name: &String| kind.keys.iter().any(|key| key.name == name);
        kind.gauge == m.gauge && kind.tests.contains(&m.test.as_str()) && m.config.keys().all(known)
    }

    #[test]
    fn every_kind_of_figure_has_a_golden_record() {
        /// Tests of which none is recorded, each with the reason.
        const NOT_RECORDED: [(&str, &str); 0] = [];
        let golden = golden();
        let measurements = || golden.iter().flat_map(|(_, record)| &record.measurements);
        for kind in registry().kinds() {
            for test in kind.tests {
                let recorded = measurements().any(|m| m.test == *test && is_of(kind, m));
                let listed = NOT_RECORDED.iter().any(|(known, _)| known == test);
                assert!(recorded != listed, "{} {test}: recorded {recorded}", kind.gauge);
            }
        }
    }
}
