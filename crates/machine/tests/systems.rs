//! Tests with recorded machines. Each folder of `tests/systems` is a trimmed `/proc` and `/sys`. The `.case` file with
//! the same name contains the expected result: fields of the record by JSON pointer, and the doctor's findings in
//! order.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use nodegauge_machine::{
    DescribeOptions, SysRoot, Topology, TopologySource, describe, examine, pci,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Contents of a `.case` file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Topology as an hwloc synthetic description.
    topology: String,
    /// CPUs that the process may use, in the form `FIRST-LAST`; all CPUs if absent.
    allowed: Option<String>,
    /// Identifiers of all findings, worst first.
    findings: Vec<String>,
    /// Fields of the machine's description with their expected values.
    machine: BTreeMap<String, Value>,
    /// Expected parts of the findings' texts, by identifier.
    #[serde(default)]
    texts: BTreeMap<String, String>,
    /// Fields that must be unknown.
    #[serde(default)]
    absent: Absent,
}

#[derive(Deserialize, Default)]
struct Absent {
    fields: Vec<String>,
}

fn topology(case: &Case) -> Topology {
    let mut topology = Topology::load(&TopologySource::Synthetic(case.topology.clone())).unwrap();
    // Treats the topology as if hwloc had read it on the live machine.
    topology.source = TopologySource::Live;
    if let Some((first, last)) = case.allowed.as_ref().and_then(|range| range.split_once('-')) {
        let range = first.parse::<u32>().unwrap()..=last.parse().unwrap();
        for thread in &mut topology.threads {
            thread.allowed = range.contains(&thread.cpu.0);
        }
    }
    topology
}

fn same(got: &Value, wanted: &Value) -> bool {
    match (got.as_f64(), wanted.as_f64()) {
        (Some(got), Some(wanted)) => (got - wanted).abs() <= wanted.abs() * 1e-12,
        _ => got == wanted,
    }
}

fn check(path: &Path) {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let case: Case = toml::from_str(&std::fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let root = SysRoot::recorded(path.with_extension(""));
    let mut topology = topology(&case);
    topology.devices = pci::list_devices(&root);
    let machine = describe(&topology, &root, &DescribeOptions::default());
    let json = serde_json::to_value(&machine).unwrap();
    for (pointer, wanted) in &case.machine {
        let got = json.pointer(pointer).unwrap_or(&Value::Null);
        assert!(same(got, wanted), "{name}: {pointer} is {got}, not {wanted}");
    }
    for pointer in &case.absent.fields {
        let got = json.pointer(pointer).unwrap_or(&Value::Null);
        assert!(got.is_null(), "{name}: {pointer} is {got}, not unknown");
    }
    let findings = examine(&topology, &root, &machine);
    let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, case.findings, "{name}: {findings:#?}");
    for (id, part) in &case.texts {
        let text = &findings.iter().find(|finding| &finding.id == id).unwrap().text;
        assert!(text.contains(part), "{name}: {id}: {text}");
    }
    for finding in &findings {
        assert!(!finding.text.ends_with('.') && !finding.remedy.is_empty(), "{name}: {finding:?}");
    }
}

#[test]
fn recorded_machines_match_expected_descriptions() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/systems");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "case"))
        .collect();
    cases.sort();
    assert!(cases.len() >= 5);
    for case in cases {
        check(&case);
    }
}

#[test]
fn live_machine_is_described() {
    let topology = Topology::load(&TopologySource::Live).unwrap();
    let root = SysRoot::live();
    let machine = describe(&topology, &root, &DescribeOptions::default());
    assert_eq!(machine.source, nodegauge_measure::record::MachineSource::Live);
    assert!(machine.kernel.is_some() && machine.memory.available > Some(0));
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    assert!(machine.processor.measured_hz > Some(nodegauge_measure::Hertz(1e8)));
    let findings = examine(&topology, &root, &machine);
    assert!(findings.windows(2).all(|pair| pair[0].severity >= pair[1].severity));
}
