//! Check for cyclic dependencies between modules. Cycles between parent and child are permitted.
//!
//! Dependencies are checked between the children of each module. A child uses another one if any module in the first
//! uses any module in the second.

use crate::crates;
use crate::exceptions::CYCLES;
use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// Cycle: modules with the same parent that depend on each other, and the uses that cause it.
#[derive(Debug)]
struct Cycle {
    /// Folder of the crate and path of the parent, e.g. `compute::lu`.
    parent: String,
    /// Names of the children.
    members: BTreeSet<String>,
    /// Uses between the children, one line each.
    uses: Vec<String>,
}

/// Returns the cyclic dependencies of a crate.
fn cycles(crate_name: &str, graph: &Graph) -> Vec<Cycle> {
    // For each parent, the pairs of a child and another child that it uses, with the modules.
    let mut levels: BTreeMap<String, BTreeMap<(String, String), Vec<String>>> = BTreeMap::new();
    for (from, to) in graph.edges() {
        let parts = from.split("::").zip(to.split("::"));
        let common: Vec<&str> = parts.take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
        let child = |path: &str| path.split("::").nth(common.len()).unwrap().to_owned();
        let level = levels.entry(common.join("::")).or_default();
        level.entry((child(&from), child(&to))).or_default().push(format!("{from} -> {to}"));
    }
    let mut found = Vec::new();
    for (parent, uses) in levels {
        let mut left: BTreeSet<&String> = uses.keys().map(|(from, _)| from).collect();
        while let Some(&start) = left.first() {
            let forward = reached(start, |(a, b)| (a, b), &uses);
            let backward = reached(start, |(a, b)| (b, a), &uses);
            let members: BTreeSet<String> = forward.intersection(&backward).cloned().collect();
            left.remove(start);
            left.retain(|name| !members.contains(*name));
            if members.len() > 1 {
                let among = uses.iter();
                let among = among.filter(|((a, b), _)| members.contains(a) && members.contains(b));
                let edges = among.flat_map(|(_, lines)| lines.clone()).collect();
                let parent = match parent.as_str() {
                    "" => crate_name.to_owned(),
                    parent => format!("{crate_name}::{parent}"),
                };
                found.push(Cycle { parent, members, uses: edges });
            }
        }
    }
    found
}

/// Returns the children that can be reached from `start`, including `start`. `direction` is applied to each use; it may
/// reverse it.
fn reached<'a>(
    start: &str,
    direction: impl Fn((&'a String, &'a String)) -> (&'a String, &'a String),
    uses: &'a BTreeMap<(String, String), Vec<String>>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::from([start.to_owned()]);
    let mut todo = vec![start.to_owned()];
    while let Some(name) = todo.pop() {
        for (a, b) in uses.keys() {
            let (from, to) = direction((a, b));
            if *from == name && seen.insert(to.clone()) {
                todo.push(to.clone());
            }
        }
    }
    seen
}

fn all_cycles() -> Vec<Cycle> {
    let mut found = Vec::new();
    let mut modules = 0;
    for folder in crates() {
        let graph = Graph::of_crate(&folder);
        modules += graph.names().count();
        found.extend(cycles(folder.file_name().unwrap().to_str().unwrap(), &graph));
    }
    assert!(modules > 100, "only {modules} modules were found");
    found
}

#[test]
fn modules_have_no_cyclic_dependencies() {
    let is_allowed = |cycle: &Cycle, (parent, members): &(&str, &[&str])| {
        cycle.parent == *parent && cycle.members.iter().all(|name| members.contains(&name.as_str()))
    };
    let cycles = all_cycles();
    let mut wrong = String::new();
    for cycle in &cycles {
        if !CYCLES.iter().any(|allowed| is_allowed(cycle, allowed)) {
            let members: Vec<&str> = cycle.members.iter().map(String::as_str).collect();
            wrong += &format!(
                "in {}, {} depend on each other:\n  {}\n",
                cycle.parent,
                members.join(", "),
                cycle.uses.join("\n  ")
            );
        }
    }
    for allowed in CYCLES {
        if !cycles.iter().any(|cycle| is_allowed(cycle, allowed)) {
            wrong += &format!("no longer needed in exceptions.rs: {allowed:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn cycle_between_children_is_found_at_their_parent() {
    let mut graph = Graph::default();
    graph.read("", "mod a; mod b; mod c;");
    graph.read("a", "mod x; mod y;");
    graph.read("a::x", "use crate::b; use super::y;");
    graph.read("a::y", "use super::Parent;");
    graph.read("b", "use crate::a::y::Y;");
    graph.read("c", "use crate::{a, b};");
    let found = cycles("k", &graph);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].parent, "k");
    assert_eq!(found[0].uses, ["a::x -> b", "b -> a::y"]);
}
