//! Functions that are derived from the list of gauges ([`GAUGES`]): registry of figures, CSV, plans for `run`, and
//! names of tests.

use nodegauge_gauge::{Gauge, MeasuredNode, SummaryRequest};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::Record;
use nodegauge_measure::{Observer, Outcome, UnknownName};
use std::collections::BTreeSet;
use std::sync::LazyLock;

#[cfg(test)]
#[path = "../../../tests/chapters.rs"]
pub(crate) mod chapters;
#[cfg(test)]
mod doubted;
#[cfg(test)]
mod failing;
mod list;
#[cfg(test)]
mod renamed;
pub(crate) use list::{GAUGES, with_stream};

/// Tests selected by the name of a gauge or of a test.
#[derive(Debug, Clone)]
pub(crate) struct SelectedTests(pub(crate) Vec<&'static str>);

/// Returns all kinds of figures, with the keys of their configurations.
pub(crate) fn registry() -> &'static Registry {
    static ALL: LazyLock<Registry> =
        LazyLock::new(|| Registry::new(GAUGES.iter().flat_map(|gauge| gauge.figure_kinds())));
    &ALL
}

/// Returns the tests of the gauge of this name, or the test of this name.
///
/// # Errors
/// Fails if neither a gauge nor a test has this name.
pub(crate) fn find_tests(name: &str) -> Result<SelectedTests, UnknownName> {
    let mut found: Vec<&str> = Vec::new();
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for kind in registry().kinds() {
        known.insert(kind.gauge);
        known.extend(kind.tests);
        let meant = kind.tests.iter().filter(|test| [kind.gauge, **test].contains(&name));
        found.extend(meant);
    }
    if !found.is_empty() {
        return Ok(SelectedTests(found));
    }
    let known = known.into_iter().collect();
    Err(UnknownName { what: "gauge or test", given: name.to_owned(), known })
}

/// Returns a record as CSV.
pub(crate) fn record_csv(record: &Record) -> String {
    nodegauge_analysis::csv::render(std::slice::from_ref(record), registry())
}

/// Measures a gauge's part of `run`.
pub(crate) fn measure_summary_part(
    gauge: &dyn Gauge,
    site: &MeasuredNode,
    ask: &SummaryRequest<'_>,
    observer: &mut dyn Observer,
) -> Outcome {
    nodegauge_gauge::run_part_with_notice(gauge, gauge.summary_plan(site, ask), site, observer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_analysis::compare::{Comparison, ComparisonDesign, Side, Verdict, compare};
    use nodegauge_measure::keys::ConfigKind;
    use nodegauge_measure::keys::{COLUMNS, Key, Role};
    use nodegauge_measure::record::{Measurement, Status};
    use serde_json::{Value, json};

    /// Returns the golden records, with the names of their folders.
    pub(super) fn golden() -> Vec<(String, Record)> {
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
        compare(&side(a), &side(b), ComparisonDesign::default(), registry())
    }

    /// Compares two records. Asserts that every figure is paired, and that every figure with a result has a ratio.
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
    fn golden_records_pair_completely_with_themselves() {
        for (name, record) in golden() {
            pairs_completely(&name, &record, &record);
        }
    }

    /// Returns a different value of the same type.
    fn changed(value: &Value) -> Value {
        match value {
            Value::Number(number) => json!(number.as_f64().unwrap() * 1.5 + 1.0),
            Value::String(text) => json!(format!("{text} other")),
            Value::Bool(is) => json!(!is),
            Value::Array(all) => all.iter().map(changed).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, child)| (key.clone(), changed(child))).collect()
            }
            Value::Null => Value::Null,
        }
    }

    #[test]
    fn runs_of_one_command_pair_despite_different_observations() {
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
                        // On a virtual machine, only samples with similar core-to-core round trips are compared, so
                        // this key must not change.
                        Some(Role::Observation) => key != "round_trip_s",
                        // Such a key is an observation, unless an option of the command sets it.
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

    /// True if a figure belongs to a kind: the kind has the test and all keys of the figure.
    fn matches_kind(kind: &ConfigKind, m: &Measurement) -> bool {
        let known = |name: &String| kind.keys.iter().any(|key| key.name == name);
        kind.gauge == m.gauge && kind.tests.contains(&m.test.as_str()) && m.config.keys().all(known)
    }

    #[test]
    fn every_kind_of_figure_has_a_golden_record() {
        /// Tests without a golden record, with the reasons.
        const NOT_RECORDED: [(&str, &str); 0] = [];
        let golden = golden();
        let measurements = || golden.iter().flat_map(|(_, record)| &record.measurements);
        for kind in registry().kinds() {
            for test in kind.tests {
                let recorded = measurements().any(|m| m.test == *test && matches_kind(kind, m));
                let listed = NOT_RECORDED.iter().any(|(known, _)| known == test);
                assert!(recorded != listed, "{} {test}: recorded {recorded}", kind.gauge);
            }
        }
    }

    /// Returns the tables of keys for `docs/record.md`, one per kind of figure, with the descriptions from the schema.
    fn keys_in_words() -> String {
        let registry = registry();
        let schema = nodegauge_measure::schema::record_schema(registry);
        let mut text = String::new();
        let mut reported = BTreeSet::new();
        for kind in registry.kinds() {
            let generated = json!((kind.schema)(&mut Default::default()));
            let name = generated["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            let described = &schema["$defs"][&name];
            if !reported.insert(name) {
                continue;
            }
            let kinds = registry.kinds().iter().filter(|other| other.keys == kind.keys);
            let tests: BTreeSet<String> = kinds
                .flat_map(|kind_here| {
                    kind_here.tests.iter().map(move |test| format!("`{} {test}`", kind_here.gauge))
                })
                .collect();
            let title = tests.into_iter().collect::<Vec<_>>().join(", ");
            let what = described["description"].as_str().unwrap();
            text.push_str(&format!("\n### {title}\n\n{what}\n\n"));
            text.push_str("| key | what it is | role | CSV |\n| --- | --- | --- | --- |\n");
            for key in kind.keys {
                let key_words = described["properties"][key.name]["description"].as_str().unwrap();
                let key_description = key_words.replace('\n', " ").replace('|', "\\|");
                let role = format!("{:?}", key.role).to_lowercase();
                let column = key.column().map(|at| (at + 1).to_string()).unwrap_or_default();
                text.push_str(&format!(
                    "| `{}` | {key_description} | {role} | {column} |\n",
                    key.name
                ));
            }
        }
        text
    }

    /// Returns the keys of all kinds of figures.
    fn all_keys() -> Vec<&'static Key> {
        registry().kinds().iter().flat_map(|kind| kind.keys).collect()
    }

    #[test]
    fn every_key_is_declared_once() {
        let names: BTreeSet<&str> = all_keys().iter().map(|key| key.name).collect();
        let declarations: BTreeSet<(&str, &str)> =
            all_keys().iter().map(|key| (key.name, key.declaration)).collect();
        for name in &names {
            let places: Vec<&str> = declarations
                .iter()
                .filter(|(declared, _)| declared == name)
                .map(|(_, place)| *place)
                .collect();
            assert_eq!(places.len(), 1, "{name} is declared in {places:?}; see keys::shared");
        }
        assert_eq!(declarations.len(), names.len());
        assert!(names.len() > 200, "{}", names.len());
    }

    #[test]
    fn kind_of_figure_has_each_key_once() {
        for kind in registry().kinds() {
            let names: BTreeSet<&str> = kind.keys.iter().map(|key| key.name).collect();
            assert_eq!(names.len(), kind.keys.len(), "{} {:?}", kind.gauge, kind.tests);
        }
    }

    /// Lists all keys of a gauge whose role or type differs from that of the shared key with the same name. The
    /// declarations of these keys give the reasons.
    #[test]
    fn keys_that_differ_from_the_shared_keys_are_listed() {
        let kinds = registry();
        let mut exceptions: BTreeSet<(&str, &str)> = BTreeSet::new();
        for kind in kinds.kinds() {
            let excepted = kind.keys.iter().filter(|key| key.exception.is_some());
            exceptions.extend(excepted.map(|key| (kind.gauge, key.name)));
        }
        let expected = [
            ("compute", "loops"),
            ("compute", "residual"),
            ("device", "clock_hz"),
            ("files", "clock"),
            ("memory", "ranks"),
            ("memory", "stores"),
            ("messages", "ranks"),
            ("messages", "threads"),
            ("roofline", "flops"),
            ("roofline", "loops"),
        ];
        assert_eq!(exceptions.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn former_name_is_not_a_key() {
        let names: BTreeSet<&str> = all_keys().iter().map(|key| key.name).collect();
        for key in all_keys() {
            for former in key.former_names {
                assert!(!names.contains(former), "{} was {former}, which is a key", key.name);
            }
        }
    }

    #[test]
    fn every_csv_column_is_a_key_and_listed_once() {
        let names: BTreeSet<&str> = all_keys().iter().map(|key| key.name).collect();
        for column in COLUMNS {
            assert!(names.contains(column), "no key {column}");
        }
        assert_eq!(BTreeSet::from(COLUMNS).len(), COLUMNS.len());
        let columns: Vec<&str> = registry().columns().iter().map(|key| key.name).collect();
        assert_eq!(columns, COLUMNS);
    }

    #[test]
    fn record_chapter_lists_every_key() {
        const MARK: &str = "cargo test -p nodegauge -->\n";
        chapters::assert_has("record.md", MARK, &format!("{MARK}{}", keys_in_words()), None);
    }

    /// Splits a page into two parts: the header, which ends with the trust in the figures, and the figures.
    fn split(page: &str) -> (&str, &str) {
        let (heading, rest) = page.split_once("\n\n").unwrap();
        let (node, figures) = rest.split_once("\n\n").unwrap();
        (&page[..heading.len() + 2 + node.len()], figures)
    }

    /// Compares the output of a command that has one gauge with the page of its record, without node and findings.
    #[test]
    fn golden_record_page_equals_the_output_of_its_run() {
        let style = nodegauge_report::Style::default();
        let text = |page| nodegauge_report::text::page(&page, style);
        for (name, record) in golden().into_iter().filter(|(_, run)| !run.machine.is_imported()) {
            let shown = text(nodegauge_report::run::page(&record, &GAUGES, false));
            let of: BTreeSet<&str> = record.measurements.iter().map(|m| m.gauge.as_str()).collect();
            // STREAM and the memory curves have the same gauge name. The first figure shows which of them it is.
            let measures = |gauge: &&&dyn Gauge, m: &Measurement| {
                let is_own = |kind: &ConfigKind| {
                    kind.gauge == m.gauge && kind.tests.contains(&m.test.as_str())
                };
                gauge.name() == m.gauge && gauge.figure_kinds().iter().any(is_own)
            };
            let first = record.measurements.first().filter(|_| of.len() == 1);
            let named = |measurement: &Measurement| {
                GAUGES.iter().find(|gauge| gauge.name() == measurement.gauge)
            };
            let gauge = first.and_then(|first| {
                GAUGES.iter().find(|gauge| measures(gauge, first)).or_else(|| named(first))
            });
            let Some(gauge) = gauge else {
                assert!(["run", "stream-nothing"].contains(&name.as_str()), "{name}: {of:?}");
                continue;
            };
            let printed = text(nodegauge_report::run::gauge_page(&record, *gauge));
            let (head, figures) = split(&printed);
            assert!(shown.starts_with(&format!("{head}\n")), "{name}: {head}");
            assert!(shown.ends_with(&format!("\n\n{figures}")), "{name}: {figures}");
            assert!(head.contains("\ntrust      ") && figures.lines().count() > 1, "{name}");
        }
    }

    /// Returns the paths of all texts in a value. All elements of a list have the path of the first one.
    fn texts(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::String(_) => {
                found.insert(path.to_owned());
            }
            Value::Array(all) => {
                for (i, one) in all.iter().enumerate().take(2) {
                    texts(one, &format!("{path}/{i}"), found);
                }
            }
            Value::Object(map) => {
                for (key, one) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    texts(one, &format!("{path}/{key}"), found);
                }
            }
            _ => {}
        }
    }

    /// Records come from other nodes, so a line break in a text must not add a forged line to a page.
    #[test]
    fn record_texts_cannot_forge_lines_of_a_page() {
        let style = nodegauge_report::Style::default();
        let named = ["run", "stream-hosts", "mpi", "io", "memory-latency", "stream-sweep-threads"];
        let mut tried = 0;
        for (name, record) in golden().into_iter().filter(|(name, _)| named.contains(&&**name)) {
            let whole = serde_json::to_value(&record).unwrap();
            let mut paths = BTreeSet::new();
            texts(&whole, "", &mut paths);
            for path in paths {
                let mut changed = whole.clone();
                let text = changed.pointer_mut(&path).unwrap();
                *text =
                    json!(format!("{}\nFORGED line\rFORGED\u{2028}FORGED", text.as_str().unwrap()));
                // A record with a changed word of a fixed set is invalid.
                let Ok(forged) = serde_json::from_value::<Record>(changed) else { continue };
                tried += 1;
                let page = nodegauge_report::run::page(&forged, &GAUGES, true);
                let shown = nodegauge_report::text::page(&page, style);
                let is_end = |c: char| matches!(c, '\n' | '\r' | '\u{2028}');
                let line = shown.split(is_end).find(|line| line.trim_start().starts_with("FORGED"));
                assert_eq!(line, None, "{name}: {path}: {shown}");
            }
        }
        assert!(tried > 300, "{tried}");
    }

    #[test]
    fn csv_lines_of_a_record_have_distinct_figures() {
        let registry = registry();
        let columns = registry.columns();
        for (name, record) in golden() {
            let text = nodegauge_analysis::csv::render(std::slice::from_ref(&record), registry);
            let mut rows = csv::Reader::from_reader(text.as_bytes());
            let header = rows.headers().unwrap().clone();
            let is_identity = |column: &str| {
                let key = columns.iter().find(|key| key.name == column);
                ["gauge", "test", "name", "unit", "category"].contains(&column)
                    || key.is_some_and(|key| key.role != Role::Observation || key.name == "sweep")
            };
            let mut seen = BTreeSet::new();
            for row in rows.records() {
                let row = row.unwrap();
                let cells = header.iter().zip(&row).filter(|(column, _)| is_identity(column));
                let figure: Vec<(String, String)> =
                    cells.map(|(column, cell)| (column.to_owned(), cell.to_owned())).collect();
                assert!(seen.insert(figure.clone()), "{name}: {figure:?}");
            }
            assert_eq!(seen.len(), record.measurements.len(), "{name}");
        }
    }
}
