//! Names of nodes: host names in records, or the names by which a carrier knows the nodes.

use crate::node::NodeRun;
use nodegauge_toolchain::mpi::HostList;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Names of the nodes of some runs.
///
/// A node has its host name, unless its carrier's name is expected, or the host name is that of several nodes: nodes
/// from one image may all be called `localhost`.
#[derive(Debug, Default)]
pub struct Names<'a> {
    expected: HashSet<&'a str>,
    /// Labels of the nodes of each host name that several nodes have.
    shared: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    /// Finds the names of the nodes of these runs. A label is the name of a node if it carries one host name only, which
    /// the label of no run of this host is.
    pub fn of(runs: &'a [NodeRun], expected: &'a [String]) -> Self {
        let expected: HashSet<&str> = expected.iter().map(String::as_str).collect();
        let mut labels: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
        let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for run in runs {
            let label = run.label.as_deref();
            labels.entry(&run.host).or_default().insert(label);
            if let Some(label) = label {
                hosts.entry(label).or_default().insert(&run.host);
            }
        }
        let is_of_node = |host: &str, label: &str| {
            !are_one(host, label) && hosts.get(label).is_none_or(|of_label| of_label.len() == 1)
        };
        let mut shared = BTreeMap::new();
        for (host, of_host) in labels {
            let known: BTreeSet<&str> = of_host.iter().copied().flatten().collect();
            let are_nodes = known.iter().all(|label| is_of_node(host, label));
            let has_others = known.len() < of_host.len();
            if known.len() > 1 && are_nodes && !has_others && !expected.contains(host) {
                shared.insert(host, known);
            }
        }
        Self { expected, shared }
    }

    /// Returns the name of the node of a run.
    pub fn of_run(&self, run: &'a NodeRun) -> &'a str {
        let is_name =
            |label: &&str| self.expected.contains(label) || self.shared.contains_key(&*run.host);
        run.label.as_deref().filter(is_name).unwrap_or(&run.host)
    }

    /// Returns a remark on each host name that several nodes have.
    pub fn remarks(&self) -> Vec<String> {
        let remark = |(host, labels): (&&str, &BTreeSet<&str>)| {
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            let folded = HostList::folded(&labels);
            format!(
                "the records of {folded} have the same host name, {host}: nodes have the names of their files or lines"
            )
        };
        // Labels that are expected are names in any case.
        let shared = self.shared.iter();
        let unexpected =
            shared.filter(|(_, labels)| labels.iter().any(|label| !self.expected.contains(label)));
        unexpected.map(remark).collect()
    }
}

/// True if both are names of one host, with or without its domain.
fn are_one(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    short(one) == short(other)
}
