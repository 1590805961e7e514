//! Differences between nodes of one kind, and between a node and its earlier records, without measurements.
//!
//! A fact that a record does not contain is not a difference, because older versions and unprivileged users cannot read
//! all facts. A mount, library, module or kernel parameter counts as absent if the record lists other entries of its
//! kind.

use crate::intake::Intake;
use crate::names::NodeNames;
use crate::node::NodeRun;
use nodegauge_gauge::view::{ColumnList, Page, Section, group_by_key};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_toolchain::mpi::HostList;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of rows; further differences are only counted.
const MAX_ROWS: usize = 500;

/// Fact in which nodes differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactDifference {
    /// Nodes, as a host list.
    pub nodes: String,
    /// Name of the fact, e.g. `kernel`, or path of a part, e.g. `memory.dimms[A7]`.
    pub what: String,
    /// Value of the nodes.
    pub value: String,
    /// Value of most of the other nodes, or the value of the node in its earlier record. In a tie, the text also names
    /// the nodes with this value.
    pub usual: String,
    /// True if `usual` and `value` belong to equally many nodes.
    pub is_tie: bool,
}

/// Newest run of each node.
#[derive(Debug)]
pub struct NewestRuns<'a> {
    intake: &'a Intake,
    names: NodeNames<'a>,
    runs: BTreeMap<&'a str, &'a NodeRun>,
}

impl<'a> NewestRuns<'a> {
    /// Finds the newest run of each node.
    pub fn from_intake(intake: &'a Intake) -> Self {
        let names = NodeNames::from_runs(&intake.runs, &[]);
        let mut runs: BTreeMap<&str, &NodeRun> = BTreeMap::new();
        for run in &intake.runs {
            let known = runs.entry(names.node_name(run)).or_insert(run);
            if run.started > known.started {
                *known = run;
            }
        }
        Self { intake, names, runs }
    }

    /// Describes each text that contains no record.
    fn not_read(&self) -> impl Iterator<Item = String> {
        self.intake.rejected.iter().map(|text| format!("{}: {}", text.source, text.reason))
    }
}

/// Returns the facts in which nodes differ from most nodes of their kind.
pub fn node_differences(newest: &NewestRuns<'_>) -> Vec<FactDifference> {
    let mut found = Vec::new();
    for (_, nodes) in group_by_key(&newest.runs, |(_, run)| run.kind.clone()) {
        let paths: BTreeSet<&str> = nodes.iter().flat_map(|(_, run)| run.facts.paths()).collect();
        for path in paths {
            let mut values: HashMap<&str, Vec<&str>> = HashMap::new();
            for (name, run) in &nodes {
                if let Some(value) = run.facts.value(path) {
                    values.entry(value).or_default().push(name);
                }
            }
            if values.len() < 2 {
                continue;
            }
            let mut ranked: Vec<(&str, Vec<&str>)> = values.into_iter().collect();
            ranked.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(b.0)));
            // With two nodes, or with two halves of equal size, no value is usual, so the text names the nodes of each
            // value.
            let (first, others) = &ranked[0];
            let is_tie = others.len() == ranked[1].1.len();
            let usual =
                if is_tie { format!("{first} ({})", folded(others)) } else { (*first).to_owned() };
            for (value, hosts) in &ranked[1..] {
                found.push(FactDifference { is_tie, ..difference(hosts, path, value, &usual) });
            }
        }
    }
    in_order(found)
}

/// Differences between nodes and their earlier records.
#[derive(Debug)]
pub struct EarlierDifferences<'a> {
    earlier: &'a NewestRuns<'a>,
    /// Differences of nodes that have an earlier record.
    pub found: Vec<FactDifference>,
    /// Nodes without an earlier record.
    unknown: Vec<&'a str>,
}

/// Returns the differences between nodes and their earlier records.
pub fn differences_from_earlier<'a>(
    earlier: &'a NewestRuns<'a>,
    now: &'a NewestRuns<'a>,
) -> EarlierDifferences<'a> {
    let mut changes = Vec::new();
    let mut unknown = Vec::new();
    for (&host, run) in &now.runs {
        let Some(known) = earlier.runs.get(host) else {
            unknown.push(host);
            continue;
        };
        let paths: BTreeSet<&str> = run.facts.paths().chain(known.facts.paths()).collect();
        for path in paths {
            let Some((value, old)) = run.facts.value(path).zip(known.facts.value(path)) else {
                continue;
            };
            if value != old {
                changes.push((host, (path, value, old)));
            }
        }
    }
    let found =
        group_by_key(changes, |(_, change)| *change).into_iter().map(|((path, value, old), of)| {
            let hosts: Vec<&str> = of.into_iter().map(|(host, _)| host).collect();
            difference(&hosts, path, value, old)
        });
    EarlierDifferences { earlier, found: in_order(found.collect()), unknown }
}

fn folded(hosts: &[&str]) -> String {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    HostList::fold_names(&hosts)
}

fn difference(hosts: &[&str], path: &str, value: &str, usual: &str) -> FactDifference {
    FactDifference {
        nodes: folded(hosts),
        what: path.to_owned(),
        value: value.to_owned(),
        usual: usual.to_owned(),
        is_tie: false,
    }
}

fn in_order(mut found: Vec<FactDifference>) -> Vec<FactDifference> {
    found.sort_by(|a, b| a.nodes.cmp(&b.nodes).then(a.what.cmp(&b.what)));
    found
}

/// Returns the page of differences.
pub fn page(
    nodes: &NewestRuns<'_>,
    between: &[FactDifference],
    since: Option<&EarlierDifferences<'_>>,
) -> Page {
    let usual = match between.iter().filter(|one| one.is_tie).count() {
        0 => "most nodes",
        n if n == between.len() => "others",
        _ => "other nodes",
    };
    let mut sections = vec![section("nodes", between, usual)];
    let mut lists = Section::new("lists");
    for remark in nodes.names.remarks() {
        lists.note("remark", remark);
    }
    for text in nodes.not_read() {
        lists.note("not read", text);
    }
    if let Some(changes) = since {
        sections.push(section("changes", &changes.found, "before"));
        if !changes.unknown.is_empty() {
            lists.note("remark", format!("no earlier record of {}", folded(&changes.unknown)));
        }
        for text in changes.earlier.not_read() {
            lists.note("not read", format!("earlier records: {text}"));
        }
    }
    sections.push(lists);
    let count = nodes.runs.len();
    let heading = format!("nodegauge fleet: differences of {}", count_in_words(count, "node"));
    Page { heading, sections, ..Page::default() }
}

fn section(id: &'static str, differences: &[FactDifference], usual: &str) -> Section {
    let mut section = Section::new(id);
    if differences.is_empty() {
        section.note(id, "no difference");
        return section;
    }
    let columns = ColumnList::<FactDifference>::new()
        .left("nodes", |one| one.nodes.clone())
        .left("property", |one| one.what.clone())
        .left(usual, |one| one.usual.clone())
        .left("here", |one| one.value.clone());
    section.push(columns.table(differences.iter().take(MAX_ROWS)));
    let more = differences.len().saturating_sub(MAX_ROWS);
    if more > 0 {
        section.note("", count_in_words(more, "more difference"));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use nodegauge_measure::record::{Dimm, Machine, Memory, MountedFileSystem, Software};

    fn run(host: &str, machine: &Machine) -> NodeRun {
        NodeRun {
            host: host.to_owned(),
            label: None,
            id: String::new(),
            started: String::new(),
            kind: Default::default(),
            inventory: Default::default(),
            settings: BTreeMap::new(),
            clock_hz: None,
            findings: Vec::new(),
            critical_findings: Vec::new(),
            other_load: None,
            figures: Vec::new(),
            facts: Facts::from_machine(machine),
        }
    }

    fn machine(dimms: usize, kernel: &str) -> Machine {
        let dimm = |i: usize| Dimm {
            slot: format!("A{i}"),
            bytes: 32 << 30,
            transfers_per_s: None,
            technology: None,
            channel: None,
            data_bits: None,
            total_bits: None,
        };
        Machine {
            host: Some("x".to_owned()),
            kernel: Some(kernel.to_owned()),
            memory: Memory {
                bytes: Some((dimms as u64) << 35),
                available: Some(dimms as u64 * 1234),
                dimms: (0..dimms).map(dimm).collect(),
                ..Memory::default()
            },
            ..Machine::default()
        }
    }

    fn texts(found: &[FactDifference]) -> Vec<String> {
        let line = |one: &FactDifference| {
            format!("{} {}: {} | {}", one.nodes, one.what, one.usual, one.value)
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn missing_memory_module_is_a_difference_and_free_memory_is_not() {
        let machines = [(8, "6.1"), (8, "6.1"), (7, "6.1"), (8, "6.2"), (8, "6.2")];
        let runs = |of: &[(usize, &str)]| Intake {
            runs: of
                .iter()
                .enumerate()
                .map(|(i, (dimms, kernel))| run(&format!("n{i}"), &machine(*dimms, kernel)))
                .collect(),
            ..Intake::default()
        };
        let now = runs(&machines);
        let newest = NewestRuns::from_intake(&now);
        let found = texts(&node_differences(&newest));
        assert_eq!(found[0], "n2 memory: 260 GiB | 220 GiB");
        assert_eq!(found[1], "n2 memory.dimms[A7]: present | absent");
        assert_eq!(found[2], "n[3-4] kernel: 6.1 | 6.2");
        assert_eq!(found.len(), 3);
        let before = runs(&[(8, "6.1"); 5]);
        let earlier = NewestRuns::from_intake(&before);
        let changes = texts(&differences_from_earlier(&earlier, &newest).found);
        assert!(changes.contains(&"n[3-4] kernel: 6.1 | 6.2".to_owned()), "{changes:?}");
        assert!(differences_from_earlier(&newest, &newest).found.is_empty());
        let first = runs(&[(8, "6.1")]);
        let of_one = NewestRuns::from_intake(&first);
        let of_others = differences_from_earlier(&of_one, &newest);
        let shown = format!("{:?}", page(&newest, &[], Some(&of_others)));
        assert!(shown.contains("no earlier record of n[1-4]"), "{shown}");
    }

    #[test]
    fn missing_memory_module_is_one_difference_and_two_nodes_have_no_usual_value() {
        let node = |host: &str, lost: Option<usize>| {
            let mut whole = machine(12, "6.1");
            for (i, dimm) in whole.memory.dimms.iter_mut().enumerate() {
                dimm.bytes = (i as u64 + 1) << 30;
            }
            if let Some(lost) = lost {
                whole.memory.dimms.remove(lost);
            }
            run(host, &whole)
        };
        let of = |runs: Vec<NodeRun>| Intake { runs, ..Intake::default() };
        let three = of(vec![node("n1", None), node("n2", Some(4)), node("n3", None)]);
        assert_eq!(
            texts(&node_differences(&NewestRuns::from_intake(&three))),
            ["n2 memory.dimms[A4]: present | absent"]
        );
        // Modules can only be read with privileges.
        let mut unknown = machine(12, "6.1");
        unknown.memory.dimms.clear();
        let with = of(vec![node("n1", None), node("n2", None), run("n3", &unknown)]);
        assert_eq!(texts(&node_differences(&NewestRuns::from_intake(&with))), Vec::<String>::new());
        let two = of(vec![node("n1", None), node("n2", Some(4))]);
        let [two, three] = [&two, &three].map(NewestRuns::from_intake);
        let found = node_differences(&two);
        assert_eq!(texts(&found), ["n1 memory.dimms[A4]: absent (n2) | present"]);
        assert!(!format!("{:?}", page(&two, &found, None)).contains("most nodes"));
        assert!(
            format!("{:?}", page(&three, &node_differences(&three), None)).contains("most nodes")
        );
    }

    #[test]
    fn each_changed_mount_sysctl_or_library_is_one_difference() {
        let node = |host: &str, change: &dyn Fn(&mut Software)| {
            let mount = |options: &str| MountedFileSystem {
                kind: "tmpfs".to_owned(),
                export: None,
                options: options.to_owned(),
            };
            let mut software = Software::default();
            software.mounts.insert("/scratch".to_owned(), mount("rw,flock"));
            software.mounts.insert("/tmp".to_owned(), mount("rw,size=12345678k"));
            software.sysctl.insert("vm.swappiness".to_owned(), "10".to_owned());
            let file = "/usr/lib64/libmpi.so.40.30.4".to_owned();
            let library = nodegauge_measure::record::InstalledLibrary { file, build_id: None };
            software.libraries.insert("libmpi.so.40".to_owned(), library);
            change(&mut software);
            run(host, &Machine { software: Some(software), ..machine(8, "6.1") })
        };
        let runs = vec![
            node("n1", &|_| {}),
            node("n2", &|_| {}),
            node("n3", &|software| {
                software.mounts.remove("/scratch");
                software.sysctl.insert("vm.swappiness".to_owned(), "60".to_owned());
                // The size of a file system in memory varies with the memory that the kernel reserves.
                let tmp = software.mounts.get_mut("/tmp").unwrap();
                tmp.options = "rw,size=12345999k".to_owned();
            }),
            node("n4", &|software| {
                let library = software.libraries.get_mut("libmpi.so.40").unwrap();
                library.build_id = Some("0a1b2c".to_owned());
            }),
            // The record of an older version has no such lists.
            run("n5", &machine(8, "6.1")),
        ];
        let now = Intake { runs, ..Intake::default() };
        let library = "/usr/lib64/libmpi.so.40.30.4";
        assert_eq!(
            texts(&node_differences(&NewestRuns::from_intake(&now))),
            [
                "n3 mount /scratch: tmpfs rw,flock | absent",
                "n3 sysctl vm.swappiness: 10 | 60",
                &format!("n4 library libmpi.so.40: {library} | {library}, build 0a1b2c"),
            ]
        );
    }
}
