//! Reference of a site: for each kind of node, the parts of a good node and the worst values that it may have.
//!
//! `fleet baseline` writes the file; `fleet rank`, `check`, `--expect` and `compare` read it. A node is judged only by
//! the group for its own kind. All values are in base units, as in records; readers ignore unknown fields.

use crate::figures::{FigureKey, NodeFigure};
use crate::inventory::{Inventory, NodeKind};
use nodegauge_analysis::slow::SpreadComponents;
use nodegauge_analysis::slow::power::{DetectionPower, NeededMeasurements, PeerSpread};
use nodegauge_measure::record::{Machine, Tool};
use nodegauge_measure::{Failure, Fraction, legible};
use nodegauge_os::TrustError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Schema that this version writes.
pub const SCHEMA: &str = "nodegauge-reference/1";

/// Reference of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Name and version of the schema: [`SCHEMA`].
    pub schema: String,
    /// Time at which the reference was written, RFC 3339.
    pub written: String,
    /// Version of the program that wrote the reference.
    pub tool: Tool,
    /// Groups of nodes of one kind.
    pub groups: Vec<ReferenceGroup>,
}

/// Expected parts and figures for nodes of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReferenceGroup {
    /// Kind of the nodes that this group judges.
    pub kind: NodeKind,
    /// Parts of a good node.
    pub inventory: Inventory,
    /// Nodes from which the group was made, as a host list: `node[01-64]`.
    pub nodes: String,
    /// Start times of the oldest and the newest run, RFC 3339.
    #[serde(default)]
    pub measured: Option<[String; 2]>,
    /// Bounds of the figures.
    pub figures: Vec<ReferenceFigure>,
}

/// Bound of a figure, with its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReferenceFigure {
    /// Identity of the figure.
    #[serde(flatten)]
    pub key: FigureKey,
    /// Median of the nodes, in the unit of the figure.
    pub value: f64,
    /// Worst value of a good node, in the unit of the figure: the lowest rate, or the longest time.
    pub bound: f64,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of runs of all nodes.
    pub runs: usize,
    /// Relative standard deviation between nodes, without that between runs; `null` if it is unknown.
    pub spread_nodes: Option<Fraction>,
    /// Relative standard deviation between runs of one node; `null` if no node has two runs.
    pub spread_runs: Option<Fraction>,
    /// Description of the origin of the bound.
    pub basis: String,
    /// Smallest loss that `check` detects with this bound in 95 of 100 nodes; absent if it is unknown, and in
    /// references from earlier versions. Readers compute it from the spreads.
    #[serde(default)]
    pub loss_found: Option<Fraction>,
    /// Numbers of nodes and runs with which a loss worth acting on would be detected; absent if it is already detected.
    #[serde(default)]
    pub needed: Option<NeededMeasurements>,
    /// Array size or working set of all runs, in bytes; absent for figures without a size, if runs had different sizes,
    /// and in references from earlier versions. `check` measures with this size.
    #[serde(default)]
    pub size: Option<u64>,
}

impl ReferenceFigure {
    /// Returns the power with which a node is judged by the better median of `runs` runs.
    pub fn detection_power(&self, runs: usize) -> DetectionPower {
        let spread = SpreadComponents {
            nodes: self.spread_nodes.map(|spread| spread.0),
            runs: self.spread_runs.map(|spread| spread.0),
        };
        let peers = PeerSpread { spread, nodes: self.nodes, runs: self.runs };
        let deficit = Fraction(1.0 - self.share(self.bound));
        peers.detection_power(self.key.practical_limit(), deficit, runs)
    }

    /// Returns the performance of a value divided by that of the reference; below 1 for a longer time.
    pub fn share(&self, value: f64) -> f64 {
        self.key.share(value, self.value)
    }

    /// True if a value is at least as good as the bound.
    pub fn is_met(&self, value: f64) -> bool {
        self.share(value) >= self.share(self.bound)
    }
}

impl ReferenceGroup {
    /// Returns the bound of a figure.
    pub fn figure(&self, key: &FigureKey) -> Option<&ReferenceFigure> {
        self.figures.iter().find(|figure| figure.key == *key)
    }

    /// Returns the bound of a measured figure; `None` if the reference has none.
    pub fn figure_bound(&self, figure: &NodeFigure) -> Option<&ReferenceFigure> {
        self.figure(&figure.key)
    }
}

/// Figure compared with its bound.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedFigure {
    /// Description: `triad 262.0 GB/s: 68 % of the reference, bound 364.8 GB/s`.
    pub words: String,
    /// True if the figure is at least as good as the bound.
    pub is_met: bool,
}

impl ReferenceGroup {
    /// Compares figures with their bounds. Figures without a bound are left out.
    pub fn compare(&self, figures: &[NodeFigure]) -> Vec<ComparedFigure> {
        let mut compared = Vec::new();
        for figure in figures {
            let Some(of) = self.figure_bound(figure) else { continue };
            let unit = figure.key.unit;
            compared.push(ComparedFigure {
                words: format!(
                    "{} {}: {} of the reference, bound {}",
                    figure.key,
                    unit.in_words(figure.value),
                    Fraction(of.share(figure.value)).rounded_down().in_whole_percent(),
                    unit.in_words(of.bound)
                ),
                is_met: of.is_met(figure.value),
            });
        }
        compared
    }
}

impl Reference {
    /// Returns the group that judges a machine: of the same kind, with the most similar parts. `None` if the reference
    /// has no such kind.
    pub fn machine_group(&self, machine: &Machine) -> Option<&ReferenceGroup> {
        self.closest_group(&NodeKind::from_machine(machine), &Inventory::from_machine(machine))
    }

    /// Returns the group of a kind whose parts are most similar to `inventory`; in a tie, the first one.
    pub fn closest_group(&self, kind: &NodeKind, inventory: &Inventory) -> Option<&ReferenceGroup> {
        let of_kind = self.groups.iter().filter(|group| group.kind == *kind);
        of_kind.min_by_key(|group| group.inventory.differences(inventory).len())
    }

    /// Describes why no group can judge a machine.
    pub fn no_group_reason(&self, machine: &Machine) -> String {
        let known: Vec<String> = self.groups.iter().map(|group| group.kind.in_words()).collect();
        format!(
            "the reference is for other nodes: {}, not {}",
            known.join("; "),
            NodeKind::from_machine(machine).in_words()
        )
    }

    /// Parses a reference.
    ///
    /// # Errors
    /// Fails if the text is not a reference of a supported schema, or if a bound is not a positive number.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
        }
        let hint = "nodegauge fleet baseline writes a reference";
        let head: Head = serde_json::from_str(text)
            .map_err(|cause| Failure::usage("not a reference").cause(cause).hint(hint))?;
        if head.schema.as_deref() != Some(SCHEMA) {
            let found = head.schema.unwrap_or_else(|| "no schema".to_owned());
            let message = format!("not a reference: found {found}, required is {SCHEMA}");
            return Err(Failure::usage(message).hint(hint));
        }
        let reference: Self = serde_json::from_str(text)
            .map_err(|cause| Failure::usage("incomplete reference").cause(cause).hint(hint))?;
        let figures = reference.groups.iter().flat_map(|group| &group.figures);
        for figure in figures {
            if !is_positive(figure.value) || !is_positive(figure.bound) {
                let of = &figure.key;
                return Err(Failure::usage(format!("{of}: a value or bound is not positive"))
                    .hint("correct the value in the reference"));
            }
        }
        Ok(reference)
    }

    /// Reads a reference from a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or under the conditions of [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = legible::path(path);
        let bytes = nodegauge_os::read_input(path, nodegauge_os::MAX_TEXT_BYTES)
            .map_err(|cause| Failure::usage(format!("cannot read {shown}")).cause(cause))?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|failure| failure.with_context(shown))
    }

    /// Reads a reference with which nodes may be drained. Therefore the file must belong to the caller or to root.
    ///
    /// # Errors
    /// Fails for the reasons of [`Self::read`], or if another user may have written the file.
    pub fn read_trusted(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let bytes = match nodegauge_os::read_trusted_input(path, nodegauge_os::MAX_TEXT_BYTES) {
            Ok(bytes) => bytes,
            Err(TrustError::Io(cause)) => {
                return Err(Failure::usage(format!("cannot read {shown}")).cause(cause));
            }
            Err(why) => {
                return Err(Failure::usage(format!("{shown}: {why}"))
                    .hint("give a copy that belongs to root or to you"));
            }
        };
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|failure| failure.with_context(shown))
    }
}

/// True for a finite number above zero.
fn is_positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::{Category, Measurement};

    fn reference() -> Reference {
        let triad = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond)
            .with_category(Category::Variant);
        let kind = NodeKind { processor: Some("A".to_owned()), sockets: 2, virtualisation: None };
        let figure = ReferenceFigure {
            key: FigureKey::from_measurement(&triad, "triad".to_owned()),
            value: 380e9,
            bound: 364.8e9,
            nodes: 64,
            runs: 128,
            spread_nodes: Some(Fraction(0.008)),
            spread_runs: Some(Fraction(0.003)),
            basis: "median of 64 nodes minus 4 %".to_owned(),
            loss_found: Some(Fraction(0.055)),
            needed: None,
            size: Some(1 << 30),
        };
        let group = |dimms| ReferenceGroup {
            kind: kind.clone(),
            inventory: Inventory { dimms: Some(dimms), ..Inventory::default() },
            nodes: "n[01-64]".to_owned(),
            measured: None,
            figures: vec![figure.clone()],
        };
        Reference {
            schema: SCHEMA.to_owned(),
            written: "2026-11-25T03:00:00Z".to_owned(),
            tool: Tool { version: "0.1.0".to_owned(), commit: None },
            groups: vec![group(24), group(16)],
        }
    }

    #[test]
    fn reference_round_trips_and_judges_only_nodes_of_its_kind() {
        let text = serde_json::to_string_pretty(&reference()).unwrap();
        let read = Reference::parse(&text).unwrap();
        assert_eq!(read, reference());
        let kind = read.groups[0].kind.clone();
        let lost = Inventory { dimms: Some(15), ..Inventory::default() };
        assert!(read.closest_group(&kind, &lost).is_some());
        let exact = Inventory { dimms: Some(16), ..Inventory::default() };
        assert_eq!(read.closest_group(&kind, &exact), Some(&read.groups[1]));
        let other = NodeKind { sockets: 1, ..kind };
        assert_eq!(read.closest_group(&other, &exact), None);
        assert_eq!(
            read.no_group_reason(&Machine::default()),
            "the reference is for other nodes: 2 x A; 2 x A, not unknown processor"
        );
    }

    #[test]
    fn bound_is_a_minimum_for_rates_and_a_maximum_for_times() {
        let mut figure = reference().groups.remove(0).figures.remove(0);
        assert!(figure.is_met(365e9) && !figure.is_met(364e9));
        figure.key.unit = Unit::Seconds;
        figure.value = 100e-9;
        figure.bound = 105e-9;
        assert!(figure.is_met(104e-9) && !figure.is_met(106e-9));
        assert!((figure.share(125e-9) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn invalid_reference_is_refused() {
        let refused = |text: &str| Reference::parse(text).unwrap_err().to_string();
        assert!(refused("{").starts_with("not a reference: EOF"));
        let record = r#"{"schema": "nodegauge/1"}"#;
        assert_eq!(
            refused(record),
            "not a reference: found nodegauge/1, required is nodegauge-reference/1\n\
             hint: nodegauge fleet baseline writes a reference"
        );
        let mut wrong = reference();
        wrong.groups[0].figures[0].bound = 0.0;
        let text = serde_json::to_string(&wrong).unwrap();
        assert!(refused(&text).starts_with("triad: a value or bound is not positive"));
    }
}
