//! Exporter of figures as metrics. The text is valid in two formats: OpenMetrics 1.0 and the Prometheus text format
//! 0.0.4, which the textfile collector of node_exporter reads. The collector ignores `# UNIT` and `# EOF` as comments,
//! and rejects time stamps, so the samples have no time stamps.

use super::{Document, ExportInput, Exporter};
use crate::figures::{self, IdentifiedFigure};
use nodegauge_measure::Failure;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{Record, Status};
use nodegauge_measure::{Seconds, Unit, legible};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Exporter of the format `openmetrics`.
pub(super) struct OpenMetrics;

impl Exporter for OpenMetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn purpose(&self) -> &'static str {
        "Metrics for Prometheus, readable by the textfile collector of node_exporter"
    }

    fn extension(&self) -> &'static str {
        "prom"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        Ok(Document::single(text(export.records, export.registry)))
    }
}

/// Labels of a sample as pairs of name and value.
type Labels = Vec<(String, String)>;

/// Label with the name of the node. In a run on several hosts, each figure has its own host.
const HOST: &str = "host";

/// Labels that all samples of a run have. A record can have many labels, so they are formatted only once.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeLabels {
    host: String,
    /// Labels of the record, formatted, separated by commas.
    others: String,
}

/// Labels of the samples of one test in one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TestLabels {
    node: Rc<NodeLabels>,
    gauge: String,
    test: String,
}

impl TestLabels {
    /// Returns the labels for the test of a figure.
    fn new(node: &Rc<NodeLabels>, figure: &IdentifiedFigure<'_>) -> Self {
        Self { node: node.clone(), gauge: figure.m.gauge.clone(), test: figure.m.test.clone() }
    }

    /// Formats these labels and `further` labels, e.g. `{host="n01",gauge="memory"}`. Labels without a value are left
    /// out. A further label replaces the label of the same name.
    fn with(&self, further: &Labels) -> String {
        let test = [("gauge", &self.gauge), ("test", &self.test)];
        let test = test.map(|(name, value)| (name.to_owned(), value.clone()));
        let own: Labels = test.into_iter().chain(further.iter().cloned()).collect();
        let has_host = further.iter().any(|(name, _)| name == HOST);
        let host = if has_host { String::new() } else { formatted(HOST, &self.node.host) };
        let shown = own
            .iter()
            .enumerate()
            .filter(|(at, (name, _))| own[at + 1..].iter().all(|(later, _)| later != name));
        let shown = shown.map(|(_, (name, value))| formatted(name, value));
        let all: Vec<String> = [host, self.node.others.clone()]
            .into_iter()
            .chain(shown)
            .filter(|label| !label.is_empty())
            .collect();
        if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
    }
}

/// Name, unit and help text of a metric.
#[derive(Debug, Clone, Copy)]
struct Family {
    name: &'static str,
    /// Unit at the end of the metric name; empty if the metric has no unit.
    unit: &'static str,
    help: &'static str,
}

/// Metric with its samples.
struct Metric {
    family: Family,
    samples: Vec<String>,
}

/// Returns name, unit and help text of the metric for figures with this unit.
fn unit_family(unit: Unit) -> Family {
    let (name, suffix) = match unit {
        Unit::BytesPerSecond => ("nodegauge_bytes_per_second", "bytes_per_second"),
        Unit::FlopsPerSecond => ("nodegauge_flops_per_second", "flops_per_second"),
        Unit::Seconds => ("nodegauge_seconds", "seconds"),
        Unit::MessagesPerSecond => ("nodegauge_messages_per_second", "messages_per_second"),
        Unit::OperationsPerSecond => ("nodegauge_operations_per_second", "operations_per_second"),
        Unit::Hertz => ("nodegauge_hertz", "hertz"),
        Unit::Factor => ("nodegauge_ratio", "ratio"),
    };
    Family { name, unit: suffix, help: "Measured value, in the unit of the metric name." }
}

/// Metric for the share of the limit.
const LIMIT: Family = Family {
    name: "nodegauge_limit_ratio",
    unit: "ratio",
    help: "Measured value divided by its limit.",
};
const VALIDITY: Family = Family {
    name: "nodegauge_validity",
    unit: "",
    help: "Validity of a figure: 0 valid, 1 suspect, 2 invalid.",
};

/// Metric for the start time of a run.
const TIMESTAMP: Family = Family {
    name: "nodegauge_run_timestamp_seconds",
    unit: "seconds",
    help: "Start time of the run of a test, in seconds since 1970.",
};
const DURATION: Family = Family {
    name: "nodegauge_run_duration_seconds",
    unit: "seconds",
    help: "Elapsed time of the run of a test.",
};
const COMPLETE: Family = Family {
    name: "nodegauge_run_complete",
    unit: "",
    help: "1 if the run is complete, 0 if it ended before everything was measured.",
};
const INFO: Family = Family {
    name: "nodegauge_run_info",
    unit: "",
    help: "Identifier and version of the run of a test; the value is always 1.",
};

/// Returns the metrics of these runs. Metrics describe the current state: if several runs have the same host and
/// labels, the figures of each test are those of the newest run with this test.
fn text(records: &[Record], registry: &Registry) -> String {
    let mut metrics = Metrics::default();
    let mut newest: Vec<&Record> = records.iter().collect();
    newest.sort_by(|a, b| {
        let [newer, older] = [b, a].map(|run| run.started_s().unwrap_or(Seconds(0.0)));
        newer.total_cmp(&older).then_with(|| b.id.cmp(&a.id))
    });
    let mut written: BTreeSet<TestLabels> = BTreeSet::new();
    for record in newest {
        let node = Rc::new(node(record));
        let figures = figures::measured_figures(record, registry);
        let tests: BTreeSet<TestLabels> =
            figures.iter().map(|figure| TestLabels::new(&node, figure)).collect();
        let new: BTreeSet<TestLabels> = tests.difference(&written).cloned().collect();
        for labels in &new {
            metrics.run(record, labels);
        }
        for figure in &figures {
            if let Some(labels) = new.get(&TestLabels::new(&node, figure)) {
                metrics.figure(figure, labels);
            }
        }
        written.extend(new);
    }
    metrics.text()
}

/// Metrics, in the order of their first samples.
#[derive(Default)]
struct Metrics(Vec<Metric>);

impl Metrics {
    fn add(&mut self, family: Family, labels: &str, value: f64) {
        if !value.is_finite() {
            return;
        }
        let known = self.0.iter().position(|metric| metric.family.name == family.name);
        let at = known.unwrap_or_else(|| {
            self.0.push(Metric { family, samples: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].samples.push(format!("{}{labels} {value}", family.name));
    }

    fn run(&mut self, record: &Record, test: &TestLabels) {
        let labels = test.with(&Vec::new());
        if let Some(started) = record.started_s() {
            self.add(TIMESTAMP, &labels, started.0);
        }
        self.add(DURATION, &labels, record.seconds.0);
        self.add(COMPLETE, &labels, f64::from(u8::from(record.complete)));
        let more = [("id", &record.id), ("version", &record.tool.version)];
        let more = more.map(|(name, value)| (name.to_owned(), value.clone()));
        self.add(INFO, &test.with(&more.to_vec()), 1.0);
    }

    fn figure(&mut self, figure: &IdentifiedFigure<'_>, test: &TestLabels) {
        let m = figure.m;
        let category = serde_json::to_value(m.category).ok();
        let category = category.and_then(|name| Some(name.as_str()?.to_owned()));
        let name = [("name", Some(m.name.clone())), ("category", category)];
        let name = name.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let mut own: Labels = name.collect();
        own.extend(figure.identity.at.iter().cloned());
        if let Some(value) = m.value {
            self.add(unit_family(m.unit), &test.with(&own), value);
        }
        // The unit is a label here, because two figures may differ only in the unit.
        own.push(("unit".to_owned(), m.unit.symbol().to_owned()));
        let labels = test.with(&own);
        if let Some(limit) = &m.limit {
            self.add(LIMIT, &labels, limit.fraction.0);
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
        for Metric { family: Family { name, unit, help }, samples } in &self.0 {
            out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
            if !unit.is_empty() {
                out.push_str(&format!("# UNIT {name} {unit}\n"));
            }
            samples.iter().for_each(|sample| out.push_str(&format!("{sample}\n")));
        }
        out + "# EOF\n"
    }
}

/// Returns the labels of all samples of a run: the host, and the labels of the record as `label_KEY`. Invalid
/// characters in a key are replaced by underscores; if two keys become equal, they get numbers.
fn node(record: &Record) -> NodeLabels {
    let mut others: Vec<String> = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    // Number of keys so far that become the same label name.
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for (key, value) in &record.labels {
        let first = format!("label_{}", key.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        let mut name = first.clone();
        while !names.insert(name.clone()) {
            let number = numbers.entry(first.clone()).or_insert(2);
            name = format!("{first}_{number}");
            *number += 1;
        }
        others.push(formatted(&name, value));
    }
    others.retain(|label| !label.is_empty());
    let host = record.machine.host.clone().unwrap_or_default();
    NodeLabels { host, others: others.join(",") }
}

/// Formats a label, e.g. `host="n01"`; empty if it has no value.
fn formatted(name: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    let value = legible::escape_controls(value).replace('\\', "\\\\").replace('"', "\\\"");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/stream/record.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Checks the labels of a record with many labels, which are formatted once per run. If each sample compared all
    /// pairs of labels, the test would take minutes.
    #[test]
    fn sample_contains_all_labels_of_its_record() {
        let mut record = record();
        record.labels = (0..50_000).map(|i| (format!("k{i}"), "v".to_owned())).collect();
        record.labels.insert("a.b".to_owned(), "1".to_owned());
        record.labels.insert("a-b".to_owned(), "2".to_owned());
        let text = text(&[record], &Registry::new(Vec::new()));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.len() > 10, "{}", samples.len());
        for sample in samples {
            assert_eq!(sample.matches("label_k").count(), 50_000);
            assert!(sample.contains("label_a_b=\"2\",label_a_b_2=\"1\""));
        }
    }

    #[test]
    fn figure_label_replaces_run_label() {
        let node = NodeLabels { host: "n1".to_owned(), others: "label_a=\"1\"".to_owned() };
        let (gauge, test) = ("memory".to_owned(), "stream".to_owned());
        let test = TestLabels { node: Rc::new(node), gauge, test };
        let with = |name: &str, value: &str| test.with(&vec![(name.to_owned(), value.to_owned())]);
        assert_eq!(
            with("name", "a\"\n"),
            r#"{host="n1",label_a="1",gauge="memory",test="stream",name="a\"\\n"}"#
        );
        assert_eq!(with("host", "n2"), r#"{label_a="1",gauge="memory",test="stream",host="n2"}"#);
        assert_eq!(with("test", "x"), r#"{host="n1",label_a="1",gauge="memory",test="x"}"#);
    }
}
