//! Tests of `nodegauge machine`.

use crate::harness::{GENOA, Harness, Part, ROME, has_keys, skip};
use serde_json::{Value, json};

/// Checks that the words in a machine description are among the permitted ones.
#[track_caller]
pub fn check_machine(machine: &Value) {
    for cache in machine["caches"].as_array().unwrap() {
        assert!(["data", "instruction", "unified"].contains(&cache["type"].as_str().unwrap()));
    }
    if let Some(basis) = machine["memory"]["theoretical"]["basis"].as_str() {
        assert!(["DMI", "catalog", "option"].contains(&basis), "{basis}");
    }
}

#[test]
fn machine_prints_a_line_for_each_property() {
    let reported = Harness::new().run(&["machine"]).exits(0).warns_nothing();
    for label in ["host ", "processor ", "peak ", "memory ", "node ", "pages ", "kernel "] {
        if !reported.stdout.lines().any(|line| line.starts_with(label)) {
            reported.fail(&format!("no line begins with {label}"));
        }
    }
}

#[test]
fn machine_json_is_a_record_without_measurements() {
    let record = Harness::new().run(&["machine", "--json", "-"]).exits(0).warns_nothing().json();
    assert_eq!(record["schema"], "nodegauge/1");
    assert_eq!(record["measurements"], json!([]));
    let machine = &record["machine"];
    check_machine(machine);
    assert_eq!(machine["source"], "live");
    has_keys(machine, &["host", "kernel", "pages"]);
    has_keys(&machine["memory"], &["bytes", "available"]);
    let processor = &machine["processor"];
    let count = |name: &str| processor[name].as_u64().unwrap();
    assert!(count("sockets") >= 1 && count("cores") >= count("sockets"));
    assert!(count("threads") >= count("cores"));
    let cpus: usize = machine["numa_nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["cpus"].as_array().unwrap().len())
        .sum();
    assert_eq!(cpus as u64, count("threads"));
}

#[test]
fn machine_json_describes_two_epyc_9654_from_the_catalog() {
    let args = ["machine", "--topology", GENOA, "--processor", "EPYC 9654", "--json"];
    let record = Harness::new().run(&args).exits(0).warns_nothing().json();
    let machine = &record["machine"];
    check_machine(machine);
    assert_eq!(machine["source"], "synthetic");
    assert_eq!(machine["host"], Value::Null);
    assert_eq!(machine["processor"]["microarchitecture"], "Zen 4");
    assert_eq!(machine["processor"]["sockets"], 2);
    assert_eq!(machine["processor"]["cores"], 192);
    assert_eq!(machine["processor"]["flops_per_cycle"], 16);
    assert_eq!(machine["processor"]["hz"], 2.4e9);
    assert_eq!(machine["memory"]["theoretical"]["value"], 921.6e9);
    assert_eq!(machine["memory"]["theoretical"]["basis"], "catalog");
    assert_eq!(machine["memory"]["channels"], 24);
    assert_eq!(machine["memory"]["transfers_per_s"], 4.8e9);
    assert_eq!(machine["peak_flops"]["value"], 7.3728e12);
    assert_eq!(machine["caches"][2]["bytes"], 32 << 20);
    assert_eq!(machine["caches"][2]["count"], 24);
    assert_eq!(machine["caches"][2]["cores"], 8);
}

#[test]
fn machine_page_describes_two_epyc_9654_from_the_catalog() {
    let args = ["machine", "--topology", GENOA, "--processor", "EPYC 9654"];
    Harness::new()
        .run(&args)
        .exits(0)
        .warns_nothing()
        .prints_words("processor EPYC 9654 (Zen 4), 2 sockets, 192 cores, 192 hardware threads, 2.400 GHz (catalog: base clock)")
        .prints_words("peak 7.373 TFLOP/s double precision: 192 cores x 2.400 GHz (catalog: base clock) x 16 FLOP/cycle; 16 FLOP per cycle: 2 FMA units x 4 lanes x 2")
        .prints_words("cache L2 unified: 192 x size unknown, one per core")
        .prints_words("cache L3 unified: 24 x 32 MiB, each shared by 8 cores")
        .prints_words("memory size unknown 921.6 GB/s theoretical = 24 channels x DDR5-4800 x 8 B (catalog: EPYC 9654, 2 x 12 channels of DDR5-4800, every channel populated)")
        .prints_words("node 1: memory unknown, cpus 96-191");
}

#[test]
fn machine_json_describes_two_epyc_7h12_from_the_catalog() {
    let args = ["machine", "--topology", ROME, "--processor", "EPYC 7H12", "--json"];
    let machine = &Harness::new().run(&args).exits(0).json()["machine"];
    assert_eq!(machine["memory"]["theoretical"]["value"], 409.6e9);
    assert_eq!(machine["processor"]["microarchitecture"], "Zen 2");
    assert_eq!(machine["numa_nodes"].as_array().unwrap().len(), 8);
}

#[test]
fn dimms_option_overrides_the_catalog() {
    let args = ["machine", "--topology", GENOA, "--processor", "EPYC 9654", "--json"];
    let args = [&args[..], &["--dimms", "16x3200"]].concat();
    let memory = &Harness::new().run(&args).exits(0).json()["machine"]["memory"];
    assert_eq!(memory["theoretical"]["value"], 409.6e9);
    assert_eq!(memory["theoretical"]["basis"], "option");
    assert_eq!(memory["channels"], 16);
}

#[test]
fn properties_missing_in_a_description_are_null() {
    let args = ["machine", "--topology", "synthetic:Package:1 Core:4 PU:2", "--json"];
    let machine = &Harness::new().run(&args).exits(0).json()["machine"];
    check_machine(machine);
    let unknown = [
        &machine["memory"]["theoretical"],
        &machine["memory"]["bytes"],
        &machine["peak_flops"],
        &machine["processor"]["model"],
        &machine["processor"]["hz"],
        &machine["kernel"],
    ];
    assert!(unknown.iter().all(|value| value.is_null()), "{machine:#}");
    assert_eq!(machine["processor"]["threads"], 8);
    assert_eq!(machine["processor"]["threads_per_core"], 2);
}

/// Machine in the format of `lstopo FILE.xml` of hwloc 2, reduced to what hwloc needs: two NUMA nodes, each with one
/// core and one hardware thread.
pub const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" allowed_cpuset="0x00000003" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <info name="CPUModel" value="A processor of the tests"/>
      <object type="NUMANode" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1073741824"/>
      <object type="L3Cache" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4" cache_size="8388608" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
        <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5">
          <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6"/>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="7">
      <object type="NUMANode" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8" local_memory="2147483648"/>
      <object type="L3Cache" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9" cache_size="8388608" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
        <object type="Core" os_index="0" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="10">
          <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="11"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"#;

#[test]
fn machine_in_an_xml_file_is_described() {
    let harness = Harness::new();
    let file = harness.write("node.xml", XML);
    let machine =
        &harness.run(&["machine", "--topology", &file, "--json"]).exits(0).json()["machine"];
    check_machine(machine);
    assert_eq!(machine["source"], "xml");
    assert_eq!(machine["host"], Value::Null);
    assert_eq!(machine["kernel"], Value::Null);
    assert_eq!(machine["processor"]["model"], "A processor of the tests");
    assert_eq!(machine["processor"]["sockets"], 2);
    assert_eq!(machine["numa_nodes"][1]["bytes"], 2_u64 << 30);
    assert_eq!(machine["numa_nodes"][1]["cpus"], json!([1]));
    assert_eq!(machine["caches"][0]["bytes"], 8 << 20);
    assert_eq!(machine["caches"][0]["count"], 2);
}

#[test]
fn lstopo_output_is_read() {
    let harness = Harness::new();
    let Ok(output) = harness.command("lstopo").arg("this.xml").output() else {
        return skip(Part::Hwloc, "there is no lstopo");
    };
    let text = std::fs::read_to_string(harness.path("this.xml")).unwrap_or_default();
    if !output.status.success() || text.contains("version=\"3") {
        return skip(Part::Hwloc, "lstopo writes nothing that hwloc 2 reads");
    }
    let count = |args: &[&str]| {
        let record = harness.run(args).exits(0).json();
        record["machine"]["processor"]["threads"].clone()
    };
    let read = count(&["machine", "--topology", "this.xml", "--json"]);
    assert_eq!(read, count(&["machine", "--json"]));
}

#[test]
fn control_group_limits_available_memory() {
    let harness = Harness::new();
    let shown = control_group(&harness, 100_000_000, 40_000_000);
    let shown: Vec<(&str, &str)> = shown.iter().map(|(what, at)| (what.as_str(), *at)).collect();
    let Some(outcome) = harness.run_where(&shown, &["machine", "--json"]) else { return };
    let memory = &outcome.exits(0).json()["machine"]["memory"];
    assert_eq!(memory["cgroup_limit"], 100_000_000);
    assert_eq!(memory["available"], 60_000_000);
}

/// Returns the files of a control group (version 2) with a memory limit and usage, and the paths that they replace.
pub fn control_group(harness: &Harness, limit: u64, used: u64) -> [(String, &'static str); 2] {
    harness.write("groups/job/memory.max", format!("{limit}\n"));
    harness.write("groups/job/memory.current", format!("{used}\n"));
    let group = harness.write("cgroup", "0::/job\n");
    let at = harness.arg("groups");
    let mounts = harness.write("mountinfo", format!("30 1 0:30 / {at} rw - cgroup2 cgroup2 rw\n"));
    [(group, "self/cgroup"), (mounts, "self/mountinfo")]
}

/// Returns a described machine with devices.
fn described(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies");
    format!("{folder}/{name}.xml")
}

#[test]
fn devices_are_described_with_near_cpus_and_networks() {
    Harness::new()
        .run(&["machine", "--topology", &described("dgx-h100")])
        .exits(0)
        .warns_nothing()
        .prints_words("device 8 x NVIDIA H100 80GB HBM3: 79.2 GiB HBM3, 3.350 TB/s theoretical (catalog: NVIDIA H100 data sheet)")
        .prints_words("network 8 x Mellanox 15b3:1021")
        .prints_words("4 0000:9d:00.0 1 8-15 mlx5_4 (switch)");
    let args = ["machine", "--json", "--topology", &described("dgx-h100")];
    let record = Harness::new().run(&args).exits(0).warns_nothing().json();
    let devices = record["machine"]["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 16);
    let gpu = &devices[9];
    assert_eq!((&gpu["name"], &gpu["numa_node"]), (&json!("NVIDIA H100 80GB HBM3"), &json!(1)));
    assert_eq!(gpu["memory"]["theoretical"]["value"], 3.35e12);
    assert_eq!(gpu["networks"], json!([{"name": "mlx5_4", "same_switch": true}]));
}

#[test]
fn device_memory_of_a_coherent_machine_is_not_counted_as_host_memory() {
    Harness::new()
        .run(&["machine", "--topology", &described("gh200")])
        .exits(0)
        .warns_nothing()
        .prints_words("memory 476.6 GiB")
        .prints_words("node 0: 476.6 GiB, cpus 0-71")
        .prints_words(
            "node 1: 95.6 GiB, at most 4.000 TB/s theoretical, memory of device 0009:01:00.0",
        )
        .prints_words("node 2-8: no memory, not counted")
        .prints_words("device NVIDIA GH200 480GB: 95.6 GiB HBM3, 4.000 TB/s theoretical");
    let gh200 = described("gh200");
    let args = ["places", "--numa", "interleave", "--threads", "1", "--topology", &gh200];
    Harness::new().run(&args).exits(0).prints_words("interleave 0");
}

#[test]
fn device_without_a_driver_is_listed() {
    let harness = Harness::new();
    let files = [
        ("class", "0x030200"),
        ("vendor", "0x10de"),
        ("device", "0x2335"),
        ("numa_node", "0"),
        ("local_cpulist", "0"),
        ("current_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "8"),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("max_link_width", "16"),
    ];
    for (file, text) in files {
        harness.write(&format!("bus/0000:1b:00.0/{file}"), text);
    }
    let bus = harness.arg("bus");
    let shown = [(bus.as_str(), "/sys/bus/pci/devices")];
    let Some(outcome) = harness.run_where(&shown, &["machine"]) else { return };
    outcome
        .exits(0)
        .prints_words("device NVIDIA H200: 131.3 GiB HBM3e, 4.800 TB/s theoretical (catalog: NVIDIA H200 data sheet)")
        .prints_words("PCIe 5.0 x8, 31.51 GB/s each way (of PCIe 5.0 x16)")
        .prints_words("0 0000:1b:00.0 0 0 the kernel has no driver for this device");
    let Some(doctor_outcome) = harness.run_where(&shown, &["doctor"]) else { return };
    doctor_outcome
        .exits(0)
        .prints_words("NVIDIA H200 (0000:1b:00.0): the link uses 8 of 16 lanes")
        .prints_words("NVIDIA H200 (0000:1b:00.0): the kernel has no driver for this device");
    let Some(devices_outcome) = harness.run_where(&shown, &["places", "--devices"]) else { return };
    devices_outcome.exits(2).warns("cannot place ranks near devices");
}

#[test]
fn report_shows_bus_width_and_error_correction_of_memory_modules() {
    let harness = Harness::new();
    let mut record = harness.run(&["machine", "--json", "-"]).exits(0).json();
    let module = |slot: &str, total_bits: u32| json!({"slot": slot, "bytes": 32u64 << 30, "transfers_per_s": 2.933e9, "data_bits": 64, "total_bits": total_bits});
    record["machine"]["memory"]["dimms"] = json!([module("A1", 72), module("B1", 64)]);
    let file = harness.write("modules.json", record.to_string());
    let page = harness.run(&["report", &file, "--format", "html", "--output", "-"]).exits(0).stdout;
    assert!(page.contains("A1: 32 GiB at 2933 MT/s, 72/64 bit (ECC)"));
    assert!(page.contains("B1: 32 GiB at 2933 MT/s, 64 bit (no ECC)"));
}
