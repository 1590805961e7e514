//! Figures as metrics, in a text that is of two formats at once: Prometheus' text format 0.0.4, which
//! node_exporter's textfile collector reads (`# UNIT` and `# EOF` are comments to it, and samples have no
//! times, which it refuses), and OpenMetrics 1.0.

use super::{Document, Export, Exporter};
use crate::figures::{self, Figure};
use nodegauge_measure::Failure;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{Record, Status};
use nodegauge_measure::{Unit, legible};
use std::collections::BTreeSet;

/// `openmetrics`.
pub(super) struct OpenMetrics;

impl Exporter for OpenMetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn purpose(&self) -> &'static str {
        "Metrics for Prometheus, as node_exporter's textfile collector reads them"
    }

    fn extension(&self) -> &'static str {
        "prom"
    }

    fn export(&self, export: &Export<'_>) -> Result<Vec<Document>, Failure> {
        Ok(Document::whole(text(export.records, export.registry)))
    }
}

/// Labels of a series: names and values.
type Labels = Vec<(String, String)>;

/// A metric with its series.
struct Metric {
    name: &'static str,
    /// In what it is, as its name ends; empty where it is in nothing.
    unit: &'static str,
    help: &'static str,
    samples: Vec<String>,
}

/// The metric that the figures of a unit are.
fn of_unit(unit: Unit) -> (&'static str, &'static str) {
    match unit {
        Unit::BytesPerSecond => ("nodegauge_bytes_per_second", "bytes_per_second"),
        Unit::FlopsPerSecond => ("nodegauge_flops_per_second", "flops_per_second"),
        Unit::Seconds => ("nodegauge_seconds", "seconds"),
        Unit::MessagesPerSecond => ("nodegauge_messages_per_second", "messages_per_second"),
        Unit::OperationsPerSecond => ("nodegauge_operations_per_second", "operations_per_second"),
        Unit::Factor => ("nodegauge_ratio", "ratio"),
    }
}

/// What else there is of a figure, and of a test of a run: name, unit, help.
const LIMIT: (&str, &str, &str) =
    ("nodegauge_limit_ratio", "ratio", "Figure over the limit that is known for it.");
const VALIDITY: (&str, &str, &str) =
    ("nodegauge_validity", "", "Whether a figure may be believed: 0 valid, 1 suspect, 2 invalid.");
const TIMESTAMP: (&str, &str, &str) =
    ("nodegauge_run_timestamp_seconds", "seconds", "When the run of a test started, since 1970.");
const DURATION: (&str, &str, &str) =
    ("nodegauge_run_duration_seconds", "seconds", "How long the run with a test took.");
const COMPLETE: (&str, &str, &str) = (
    "nodegauge_run_complete",
    "",
    "1 when all of the run was measured, 0 when it was interrupted.",
);
const INFO: (&str, &str, &str) = ("nodegauge_run_info", "", "Which run has a test: always 1.");

/// The figures of these runs. Of several runs of one host and of the same labels, a test is of the newest that has
/// it: metrics say what is so now.
fn text(records: &[Record], registry: &Registry) -> String {
    let mut metrics = Metrics::default();
    let mut newest: Vec<&Record> = records.iter().collect();
    let age = |record: &Record| (record.started_s().unwrap_or(0.0), record.id.clone());
    newest.sort_by(|a, b| age(b).partial_cmp(&age(a)).unwrap_or(std::cmp::Ordering::Equal));
    let mut told: BTreeSet<Labels> = BTreeSet::new();
    for record in newest {
        let node = node(record);
        let figures = figures::own(record, registry);
        let test = |figure: &Figure<'_>| tested(&node, figure);
        let tests: BTreeSet<Labels> = figures.iter().map(test).collect();
        let new: BTreeSet<Labels> = tests.difference(&told).cloned().collect();
        for test in &new {
            metrics.run(record, test);
        }
        for figure in figures.iter().filter(|figure| new.contains(&test(figure))) {
            metrics.figure(figure, &test(figure));
        }
        told.extend(new);
    }
    metrics.text()
}

/// The metrics, each where its first series is.
#[derive(Default)]
struct Metrics(Vec<Metric>);

impl Metrics {
    fn add(
        &mut self,
        (name, unit, help): (&'static str, &'static str, &'static str),
        labels: &Labels,
        value: f64,
    ) {
        if !value.is_finite() {
            return;
        }
        let at = self.0.iter().position(|metric| metric.name == name).unwrap_or_else(|| {
            self.0.push(Metric { name, unit, help, samples: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].samples.push(format!("{name}{} {value}", braced(labels)));
    }

    fn run(&mut self, record: &Record, test: &Labels) {
        if let Some(started) = record.started_s() {
            self.add(TIMESTAMP, test, started);
        }
        self.add(DURATION, test, record.seconds);
        self.add(COMPLETE, test, f64::from(u8::from(record.complete)));
        let more = [("id", &record.id), ("version", &record.tool.version)];
        let more = more.map(|(name, value)| (name.to_owned(), value.clone()));
        self.add(INFO, &[test.as_slice(), &more].concat(), 1.0);
    }

    fn figure(&mut self, figure: &Figure<'_>, test: &Labels) {
        let m = figure.m;
        let category = serde_json::to_value(m.category).ok();
        let category = category.and_then(|name| Some(name.as_str()?.to_owned()));
        let name = [("name", Some(m.name.clone())), ("category", category)];
        let name = name.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let mut labels: Labels = test.iter().cloned().chain(name).collect();
        labels.extend(figure.identity.at.iter().cloned());
        let (name, unit) = of_unit(m.unit);
        if let Some(value) = m.value {
            self.add((name, unit, "What was measured, in the unit of the name."), &labels, value);
        }
        // Figures of two units may share all else.
        labels.push(("unit".to_owned(), m.unit.symbol().to_owned()));
        if let Some(limit) = &m.limit {
            self.add(LIMIT, &labels, limit.fraction);
        }
        let validity = match m.validity.status {
            Status::Valid => 0.0,
            Status::Suspect => 1.0,
            Status::Invalid => 2.0,
        };
        self.add(VALIDITY, &labels, validity);
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for Metric { name, unit, help, samples } in &self.0 {
            out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
            if !unit.is_empty() {
                out.push_str(&format!("# UNIT {name} {unit}\n"));
            }
            samples.iter().for_each(|sample| out.push_str(&format!("{sample}\n")));
        }
        out + "# EOF\n"
    }
}

/// The labels of all series of a run: its host, and its own labels as `label_KEY`, with a number behind the keys that
/// letters, digits and underscores alone do not tell apart.
fn node(record: &Record) -> Labels {
    let host = record.machine.host.iter().map(|host| ("host".to_owned(), host.clone()));
    let mut labels: Labels = host.collect();
    for (key, value) in &record.labels {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name = format!("label_{}", key.chars().map(plain).collect::<String>());
        let taken = |name: &String| labels.iter().any(|(known, _)| known == name);
        let mut names = (2..).map(|n| format!("{name}_{n}"));
        let name =
            if taken(&name) { names.find(|name| !taken(name)).unwrap_or(name) } else { name };
        labels.push((name, value.clone()));
    }
    labels
}

/// The labels of a test of a run.
fn tested(node: &Labels, figure: &Figure<'_>) -> Labels {
    let test = [("gauge", &figure.m.gauge), ("test", &figure.m.test)];
    let test = test.map(|(name, value)| (name.to_owned(), value.clone()));
    [node.as_slice(), &test].concat()
}

/// `{host="n01",gauge="memory"}`; a label without a value is none.
fn braced(labels: &Labels) -> String {
    let quoted = |(name, value): &(String, String)| {
        let value = legible::escaped(value).replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{value}\"")
    };
    let all = labels.iter().filter(|(_, value)| !value.is_empty()).map(quoted);
    match all.collect::<Vec<_>>().join(",") {
        all if all.is_empty() => all,
        all => format!("{{{all}}}"),
    }
}
