//! ReFrame's run report: one run per test case, with the values of its performance variables. The report does not
//! describe the nodes, so nodes are compared within the partition in which the test cases ran.

use super::{InputText, Intake, short};
use crate::figures::{FigureKey, FigureSelection, NodeFigure};
use crate::inventory::NodeKind;
use crate::node::NodeRun;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{ScaledUnit, keys::Registry};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Unit names in ReFrame checks.
const UNITS: [&str; 10] =
    ["GB/s", "MB/s", "B/s", "TFLOP/s", "GFLOP/s", "us", "ns", "s", "msg/s", "op/s"];
/// Other names for GFLOP/s.
const GFLOPS: [&str; 2] = ["Gflops", "Gflop/s"];

#[derive(Deserialize)]
struct Report {
    runs: Vec<ReportRun>,
}

#[derive(Deserialize)]
struct ReportRun {
    #[serde(default)]
    testcases: Vec<TestCase>,
}

/// Fields of a test case in reports of ReFrame 4.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct TestCase {
    name: String,
    system: String,
    partition: String,
    result: String,
    fail_reason: Option<String>,
    /// List of node names, or a text with names separated by commas.
    job_nodelist: Value,
    nodelist: Value,
    job_completion_time: Option<String>,
    /// Value, reference, lower and upper deviation, unit, by `system:partition:name`.
    perfvalues: Option<BTreeMap<String, Vec<Value>>>,
}

/// Adds the runs of a report.
pub(super) fn add(
    intake: &mut Intake,
    text: &InputText,
    json: &str,
    selection: &FigureSelection<'_>,
) {
    let report: Report = match serde_json::from_str(json) {
        Ok(report) => report,
        Err(error) => {
            let why = format!("unknown format of ReFrame's report: {}", short(&error.to_string()));
            intake.reject(text.source.clone(), None, why);
            return;
        }
    };
    for case in report.runs.into_iter().flat_map(|run| run.testcases) {
        let mut nodes = names(&case.job_nodelist);
        nodes.extend(names(&case.nodelist));
        nodes.dedup();
        let source = format!("{}, {}", text.source, case.name);
        let [node] = nodes.as_slice() else {
            let why = format!("the test case ran on {} nodes, not on one", nodes.len());
            intake.reject(source, None, why);
            continue;
        };
        let figures: Vec<NodeFigure> = case
            .perfvalues
            .iter()
            .flatten()
            .filter_map(|(name, value)| figure(name, value, selection.registry))
            .filter(|figure| selection.includes_all || is_headline(figure, selection.registry))
            .collect();
        if figures.is_empty() {
            let why = case.fail_reason.as_deref().unwrap_or("no performance values");
            let why = format!("{}: {}", case.result, short(why));
            intake.reject(source, Some(node.clone()), why);
            continue;
        }
        let partition = format!("{}:{}", case.system, case.partition);
        intake.runs.push(NodeRun {
            host: node.clone(),
            label: None,
            id: String::new(),
            started: case.job_completion_time.unwrap_or_default(),
            kind: NodeKind {
                processor: Some(format!("partition {partition}")),
                ..NodeKind::default()
            },
            inventory: Default::default(),
            settings: BTreeMap::new(),
            clock_hz: None,
            findings: Vec::new(),
            critical_findings: Vec::new(),
            other_load: None,
            facts: Default::default(),
            figures,
        });
    }
}

fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        Value::String(text) if !text.is_empty() => text.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the figure of a performance variable. Gauge and test are those whose headline figure has this name.
fn figure(name: &str, value: &[Value], registry: &Registry) -> Option<NodeFigure> {
    let name = name.rsplit(':').next()?;
    let [amount, .., unit] = value else { return None };
    let (amount, unit) = match (amount.as_f64(), unit.as_str()) {
        (Some(amount), Some(unit)) => (amount, unit),
        // Later versions of ReFrame append the result.
        _ => (amount.as_f64()?, value.get(4)?.as_str()?),
    };
    let unit = match unit_by_name(unit) {
        Some(unit) => unit,
        None => unit_by_name(value.get(4)?.as_str()?)?,
    };
    let converted = amount * unit.factor();
    let kind = registry.kinds().iter().find(|kind| kind.headlines.contains(&name));
    let gauge = kind.map_or("reframe", |kind| kind.gauge);
    let test = kind.and_then(|kind| kind.tests.first()).copied().unwrap_or("reframe");
    let m = Measurement::new(gauge, test, name, unit.unit);
    let key = FigureKey::from_measurement(&m, name.to_owned());
    let is_result = converted.is_finite() && converted > 0.0;
    is_result.then_some(NodeFigure::new(key, converted))
}

/// Returns the unit with this name.
fn unit_by_name(name: &str) -> Option<ScaledUnit> {
    if GFLOPS.contains(&name) {
        return Some(ScaledUnit::GFLOP_PER_S);
    }
    ScaledUnit::from_symbol(UNITS.into_iter().find(|unit| *unit == name)?)
}

/// True if the figure is a headline figure, or from a check that the site wrote.
fn is_headline(figure: &NodeFigure, registry: &Registry) -> bool {
    let key = &figure.key;
    let known = registry.kinds().iter().flat_map(|kind| kind.headlines);
    let siblings = ["copy", "scale", "add"];
    registry.is_headline(&key.gauge, &key.test, &key.name)
        || (key.gauge == "reframe"
            && !known.into_iter().any(|name| *name == key.name)
            && !siblings.contains(&key.name.as_str()))
}
