//! Findings on differences between hosts.

use super::finding;
use crate::document::JobHost;
use nodegauge_measure::record::{Finding, Severity};
use std::collections::BTreeMap;

/// Finds hosts whose placement of processes differs from that of most hosts. Hosts with another processor or another
/// number of ranks count as different, too.
pub(super) fn different_placements(hosts: &[JobHost]) -> Option<Finding> {
    let mut groups: BTreeMap<Vec<String>, Vec<&JobHost>> = BTreeMap::new();
    for host in hosts {
        groups.entry(host_placement(host)).or_default().push(host);
    }
    if groups.len() < 2 {
        return None;
    }
    let mut by_size: Vec<(Vec<String>, Vec<&JobHost>)> = groups.into_iter().collect();
    by_size.sort_by_key(|(_, own)| std::cmp::Reverse(own.len()));
    let (usual, of_usual) = by_size.first()?;
    let (other, _) = by_size.get(1)?;
    let odd: Vec<&str> =
        by_size[1..].iter().flat_map(|(_, own)| own).map(|host| host.host.as_str()).collect();
    let (at_usual, at_other) = first_difference(usual, other);
    let text = format!(
        "placement on {} differs from that on {}: {at_other} instead of {at_usual}",
        odd.join(", "),
        names(of_usual),
    );
    let remedy = "set binding and distribution explicitly, e.g. srun --cpu-bind=cores --distribution=block:block, \
                  and request whole nodes (--exclusive)";
    Some(finding("placement-differs", Severity::Warning, text, remedy))
}

fn names(hosts: &[&JobHost]) -> String {
    match hosts {
        [one] => one.host.clone(),
        several => format!("{} hosts", several.len()),
    }
}

/// Returns the CPUs and the memory policy of each process on a host, in rank order.
fn host_placement(host: &JobHost) -> Vec<String> {
    let mut lines = Vec::new();
    for process in &host.processes {
        let cpus = nodegauge_machine::number_ranges(process.allowed_cpus());
        let busy = process.threads.iter().filter(|thread| thread.busy).count();
        let policy = process.memory.as_ref().map_or("", |memory| memory.policy.as_str());
        lines.push(format!("CPUs {cpus}, {busy} busy, {policy}").trim_end_matches(", ").to_owned());
    }
    lines
}

/// Returns the first pair of lines that differ.
fn first_difference(one: &[String], other: &[String]) -> (String, String) {
    let count = one.len().max(other.len());
    for at in 0..count {
        let of_one = one.get(at).map_or("no process", String::as_str);
        let of_other = other.get(at).map_or("no process", String::as_str);
        if of_one != of_other {
            return (format!("({of_one})"), format!("({of_other})"));
        }
    }
    (String::new(), String::new())
}
