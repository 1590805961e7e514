//! Names of nodes: host names in records, or the names by which the user and the carrier know the nodes.

use crate::node::NodeRun;
use nodegauge_toolchain::mpi::HostList;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Names of the nodes of some runs.
///
/// A node has its host name, unless its carrier's name is expected, or the host name is that of several nodes: nodes
/// from one image may all be called `localhost`. A node that is expected has the expected name, with or without the
/// domain that it has in its record: schedulers know `n05` and not `n05.cluster.example.org`.
#[derive(Debug, Default)]
pub struct Names<'a> {
    expected: HashSet<&'a str>,
    /// Expected name of each host name that differs from it in the domain.
    asked: HashMap<&'a str, &'a str>,
    /// Labels of the nodes of each host name that several nodes have.
    shared: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    /// Finds the names of the nodes of these runs. A label is the name of a node if it carries one host name only, which
    /// the label of no run of this host is.
    pub fn from_runs(runs: &'a [NodeRun], expected: &'a [String]) -> Self {
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
        let asked = asked(run_hosts(runs), &expected);
        let mut shared = BTreeMap::new();
        for (host, of_host) in labels {
            let known: BTreeSet<&str> = of_host.iter().copied().flatten().collect();
            let are_nodes = known.iter().all(|label| {
                !are_one(host, label) && hosts.get(label).is_none_or(|of_label| of_label.len() == 1)
            });
            let has_others = known.len() < of_host.len();
            if known.len() > 1 && are_nodes && !has_others && !expected.contains(host) {
                shared.insert(host, known);
            }
        }
        Self { expected, asked, shared }
    }

    /// Returns the name of the node of a run.
    pub fn run_node(&self, run: &'a NodeRun) -> &'a str {
        let host: &'a str = &run.host;
        match run.label.as_deref() {
            Some(label) if self.expected.contains(label) || self.shared.contains_key(host) => label,
            _ => self.asked.get(host).copied().unwrap_or(host),
        }
    }

    /// Returns a remark on each host name that several nodes have.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (host, labels) in &self.shared {
            // Labels that are expected are names in any case.
            if labels.iter().all(|label| self.expected.contains(label)) {
                continue;
            }
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            let folded = HostList::folded(&labels);
            remarks.push(format!(
                "the records of {folded} have the same host name, {host}: nodes have the names of their files or lines"
            ));
        }
        remarks
    }
}

/// Returns the different host names of runs.
fn run_hosts(runs: &[NodeRun]) -> BTreeSet<&str> {
    runs.iter().map(|run| run.host.as_str()).collect()
}

/// Returns the expected name of each host name that differs from it in the domain only. A name that several hosts or
/// several expected nodes share without their domains is nobody's.
fn asked<'a>(hosts: BTreeSet<&'a str>, expected: &HashSet<&'a str>) -> HashMap<&'a str, &'a str> {
    let mut by_short: HashMap<String, (Vec<&str>, Vec<&str>)> = HashMap::new();
    for name in expected.iter().copied() {
        by_short.entry(short(name)).or_default().0.push(name);
    }
    for host in hosts.into_iter().filter(|host| !expected.contains(host)) {
        if let Some((_, of_name)) = by_short.get_mut(&short(host)) {
            of_name.push(host);
        }
    }
    let mut asked = HashMap::new();
    for (names, of_name) in by_short.into_values() {
        if let ([name], [host]) = (&names[..], &of_name[..])
            && name.contains('.') != host.contains('.')
        {
            asked.insert(*host, *name);
        }
    }
    asked
}

/// Returns a name without the domain.
fn short(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_ascii_lowercase()
}

/// True if both are names of one host, with or without its domain.
fn are_one(one: &str, other: &str) -> bool {
    short(one) == short(other)
}
