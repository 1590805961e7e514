//! Run of one node, reduced to the values that are compared: ten thousand complete records with samples would not fit
//! into memory.

use crate::facts::Facts;
use crate::figures::{FigureSelection, NodeFigure};
use crate::inventory::{Inventory, NodeKind};
use nodegauge_analysis::facts::FACTS;
use nodegauge_measure::legible;
use nodegauge_measure::record::{Machine, Record, Severity};
use std::collections::BTreeMap;

/// Identifier of the finding that other programs use the node.
pub(crate) const OTHER_LOAD: &str = "other-load";

/// Run of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRun {
    /// Host name in the record.
    pub host: String,
    /// Name of the node according to the tool that collected the record, from the file name or the line prefix. It
    /// replaces the host name if the user expects the node under this name, because schedulers may use other names.
    pub label: Option<String>,
    /// Identifier of the record; empty if there is none.
    pub id: String,
    /// Start of the run, RFC 3339; empty if unknown.
    pub started: String,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Parts of the node.
    pub inventory: Inventory,
    /// Settings of kernel and firmware that change the speed of a node, by short name.
    pub settings: BTreeMap<&'static str, String>,
    /// Clock with all cores busy, in Hz.
    pub clock_hz: Option<f64>,
    /// Identifiers of the findings that disturb measurements.
    pub findings: Vec<String>,
    /// Identifiers of the critical findings. These are defects of the node, regardless of other load.
    pub critical_findings: Vec<String>,
    /// Description of other load during the run; `None` if there was none.
    pub other_load: Option<String>,
    /// Figures that are compared.
    pub figures: Vec<NodeFigure>,
    /// Facts of the node; empty unless they are selected.
    pub facts: Facts,
}

/// Label of a record with the name of the node. It takes precedence over the host name, which in a container is that of
/// the container.
pub const NODE_LABEL: &str = "node";

impl NodeRun {
    /// Makes a run from a record. `label` is the name of the node according to the tool.
    pub fn from_record(
        record: &Record,
        label: Option<&str>,
        selection: &FigureSelection<'_>,
    ) -> Self {
        let machine = &record.machine;
        let warnings = record.findings.iter().filter(|one| one.severity >= Severity::Warning);
        let critical_findings =
            record.findings.iter().filter(|one| one.severity == Severity::Critical);
        let load = record.findings.iter().find(|one| one.id == OTHER_LOAD);
        let busy = load.filter(|one| one.severity >= Severity::Warning);
        // The names come from other nodes and appear in lists, pages and messages, so control characters are escaped.
        let of_label = record.labels.get(NODE_LABEL).map(String::as_str);
        let host = of_label.or(machine.host.as_deref()).or(label).unwrap_or_default();
        Self {
            host: legible::escape_controls(host).into_owned(),
            label: label.map(|name| legible::escape_controls(name).into_owned()),
            id: record.id.clone(),
            started: record.started.clone(),
            kind: NodeKind::from_machine(machine),
            inventory: Inventory::from_machine(machine),
            settings: settings(machine),
            clock_hz: machine.processor.measured_hz.map(|clock| clock.0),
            findings: warnings.map(|one| one.id.clone()).collect(),
            critical_findings: critical_findings.map(|one| one.id.clone()).collect(),
            other_load: busy.map(|one| one.text.clone()),
            figures: selection.figures_in_record(record),
            facts: if selection.facts { Facts::from_machine(machine) } else { Facts::default() },
        }
    }
}

/// Returns the settings of a machine that affect its speed; the keys are their short words in reasons.
fn settings(machine: &Machine) -> BTreeMap<&'static str, String> {
    let mut all = BTreeMap::new();
    for fact in FACTS {
        if let Some((word, value)) = fact.setting_name().zip(fact.text(machine)) {
            all.insert(word, value);
        }
    }
    all
}
