//! Memory attributes in the output of hwloc's tools, from the XML file that `memory matrix --emit hwloc` writes.

use crate::skip::{Part, skip};
use std::process::Command;

/// Attributes that the file contains for each initiator and target.
pub const NAMES: [&str; 4] = ["Bandwidth", "ReadBandwidth", "WriteBandwidth", "Latency"];

/// Topology with the measured attributes, in a file.
pub struct MeasuredTopology {
    folder: tempfile::TempDir,
}

impl MeasuredTopology {
    pub fn new(xml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("matrix.xml"), xml).unwrap();
        Self { folder }
    }

    /// Runs a tool of hwloc on the topology, and returns its output; `None` if the tool is not installed.
    ///
    /// # Panics
    /// Panics if the tool fails.
    pub fn run(&self, words: &[&str]) -> Option<String> {
        let path = self.folder.path().join("matrix.xml");
        let output = Command::new(words[0]).args(&words[1..]).env("HWLOC_XMLFILE", path).output();
        let Ok(output) = output else {
            skip(Part::Hwloc, &format!("there is no {}", words[0]));
            return None;
        };
        assert!(output.status.success(), "{words:?}: {output:?}");
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// Asserts that hwloc-calc chooses, for a CPU, the NUMA node with the best value among those that are local to the
    /// CPU. `printed` is the output of `lstopo --memattrs`, and `cpus` the initiator that contains the CPU as it
    /// prints it.
    pub fn assert_best_is_chosen(&self, printed: &str, cpu: &str, cpus: &str) {
        let Some(local) = self.run(&["hwloc-calc", "--local-memory", cpu]) else { return };
        for (attribute, name) in [("bandwidth", "Bandwidth"), ("latency", "Latency")] {
            let words = ["hwloc-calc", "--local-memory", "--best-memattr", attribute, cpu];
            let chosen = self.run(&words).unwrap();
            let is_local = |node: &String| local.split(',').any(|one| one == node);
            let of_initiator: Vec<MemoryAttribute> = attributes(printed, name)
                .into_iter()
                .filter(|value| value.cpus == cpus && is_local(&value.node))
                .collect();
            let values = of_initiator.iter().map(|one| one.value);
            let best = if attribute == "latency" { values.min() } else { values.max() };
            let of_chosen = of_initiator.iter().find(|one| one.node == chosen);
            assert!(best.is_some(), "{name}: {printed}");
            assert_eq!(of_chosen.map(|one| one.value), best, "{cpu}, {name}: {chosen}\n{printed}");
        }
    }
}

/// Value of a memory attribute.
pub struct MemoryAttribute {
    /// Logical index of the NUMA node, or its number in Linux, as lstopo prints it.
    pub node: String,
    pub value: u64,
    /// CPU set of the initiator.
    pub cpus: String,
}

/// Parses the values of an attribute in the output of `lstopo --memattrs`: `NUMANode L#0 = 57446 from cpuset
/// 0x00000003`, with `-p` `NUMANode P#0 = ...`.
pub fn attributes(printed: &str, name: &str) -> Vec<MemoryAttribute> {
    let title = format!("name `{name}'");
    let lines = printed.lines().skip_while(|line| !line.contains(&title)).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let mut values = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, node, _, value, _, _, cpus, ..] = words[..] else { panic!("{line}") };
        values.push(MemoryAttribute {
            node: node.trim_start_matches(['L', 'P', '#']).to_owned(),
            value: value.parse().unwrap(),
            cpus: cpus.to_owned(),
        });
    }
    values
}
