//! Names of nodes: host names from records, or the names that the user or a parallel tool uses.

use crate::node::NodeRun;
use nodegauge_toolchain::mpi::HostList;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Finds the names of the nodes of several runs.
///
/// A node is named by its host name, with two exceptions. If several nodes have the same host name, e.g. `localhost`
/// from one image, their labels are used. An expected node has the expected name, with or without the domain in its
/// record: schedulers use `n05`, not `n05.cluster.example.org`.
#[derive(Debug, Default)]
pub struct NodeNames<'a> {
    expected: HashSet<&'a str>,
    /// Map from host name to expected name, for hosts whose expected name has another domain or none.
    expected_names: HashMap<&'a str, &'a str>,
    /// Map from host name to the labels of its nodes, for host names that several nodes share.
    shared: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> NodeNames<'a> {
    /// Finds the names of the nodes of these runs. Labels name the nodes of a host name if all its runs have labels,
    /// none of them is the host name itself, and none belongs to another host name.
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
        let expected_names = expected_names(run_hosts(runs), &expected);
        let mut shared = BTreeMap::new();
        for (host, of_host) in labels {
            let known: BTreeSet<&str> = of_host.iter().copied().flatten().collect();
            let are_nodes = known.iter().all(|label| {
                !is_same_host(host, label)
                    && hosts.get(label).is_none_or(|of_label| of_label.len() == 1)
            });
            let has_others = known.len() < of_host.len();
            if known.len() > 1 && are_nodes && !has_others && !expected.contains(host) {
                shared.insert(host, known);
            }
        }
        Self { expected, expected_names, shared }
    }

    /// Returns the name of the node of a run.
    pub fn node_name(&self, run: &'a NodeRun) -> &'a str {
        let host: &'a str = &run.host;
        match run.label.as_deref() {
            Some(label) if self.expected.contains(label) || self.shared.contains_key(host) => label,
            _ => self.expected_names.get(host).copied().unwrap_or(host),
        }
    }

    /// Returns one remark per host name that several nodes share.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (host, labels) in &self.shared {
            // Labels that the user expects need no remark.
            if labels.iter().all(|label| self.expected.contains(label)) {
                continue;
            }
            let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
            let folded = HostList::fold_names(&labels);
            remarks.push(format!(
                "the records of {folded} have the same host name, {host}: nodes are named by their files or line prefixes"
            ));
        }
        remarks
    }
}

/// Returns the distinct host names of runs.
fn run_hosts(runs: &[NodeRun]) -> BTreeSet<&str> {
    runs.iter().map(|run| run.host.as_str()).collect()
}

/// Returns a map from host name to expected name, for hosts whose two names differ only in the domain. A name that is
/// ambiguous without the domain is left out.
fn expected_names<'a>(
    hosts: BTreeSet<&'a str>,
    expected: &HashSet<&'a str>,
) -> HashMap<&'a str, &'a str> {
    let mut by_short: HashMap<String, (Vec<&str>, Vec<&str>)> = HashMap::new();
    for name in expected.iter().copied() {
        by_short.entry(short(name)).or_default().0.push(name);
    }
    for host in hosts.into_iter().filter(|host| !expected.contains(host)) {
        if let Some((_, of_name)) = by_short.get_mut(&short(host)) {
            of_name.push(host);
        }
    }
    let mut found = HashMap::new();
    for (names, of_name) in by_short.into_values() {
        if let ([name], [host]) = (&names[..], &of_name[..])
            && name.contains('.') != host.contains('.')
        {
            found.insert(*host, *name);
        }
    }
    found
}

/// Returns a name without its domain.
fn short(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_ascii_lowercase()
}

/// True if both are names of one host, with or without the domain.
fn is_same_host(one: &str, other: &str) -> bool {
    short(one) == short(other)
}
