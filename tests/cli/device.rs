//! Tests of `nodegauge device` and `stream --device` with PoCL, which is OpenCL on the host's processor.

use crate::harness::{Harness, Outcome, Part, measurements, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// True if OpenCL has a device here.
pub fn has_opencl(harness: &Harness) -> bool {
    let there = harness.run(&["list-devices", "opencl"]).stdout.contains("\"Ok\"");
    if !there {
        skip(Part::Opencl, "OpenCL has no device: install pocl-opencl-icd");
    }
    there
}

/// Options for arrays of a few MiB. The arrays violate STREAM's size rule, but fit on every machine.
const SMALL: [&str; 4] = ["--size", "300000elements", "--samples", "2"];

fn device(harness: &Harness, args: &[&str]) -> Value {
    let args = [&["device"], args, &["--device", "opencl:0", "--json", "-"]].concat();
    harness.run(&args).exits(0).json()
}

#[test]
fn kernels_run_in_both_precisions_and_every_element_is_checked() {
    let harness = Harness::new();
    if !has_opencl(&harness) {
        return;
    }
    let record = device(&harness, &[&["stream", "--element", "f64,f32"], &SMALL[..]].concat());
    let all = measurements(&record);
    let kernels = ["copy", "scale", "add", "triad", "dot", "nstream"];
    let names: Vec<&str> = all.iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, [kernels, kernels].concat());
    for m in all {
        let config = &m["config"];
        assert!(m["value"].as_f64().unwrap() > 0.0, "{m:#}");
        assert_eq!((&m["gauge"], &m["test"]), (&"device".into(), &"device_stream".into()));
        assert_eq!((&config["device"], &config["wrong_elements"]), (&"opencl:0".into(), &0.into()));
        assert!(config["checks"].as_u64().unwrap() > 0 && config["worst_error"].is_number());
        let time = |key: &str| config[key].as_f64().unwrap();
        assert!(time("device_seconds") <= time("host_seconds"), "{m:#}");
    }
    let page = harness.run(&["history", "show", "latest"]).exits(0);
    page.prints("BabelStream's Mul").prints("opencl:0").prints("every element on the device");
    // The command `stream --device` has the same effect, here with another kernel.
    let args = [&["stream", "--device", "opencl:0", "--kernels", "triad"], &SMALL[..]].concat();
    let f32_record = harness.run(&[&args[..], &["--json", "-"]].concat()).exits(0).json();
    assert_eq!(measurements(&f32_record).len(), 1);
    harness.run(&["compare", "latest~1", "latest"]).exits(0).prints("triad");
}

#[test]
fn vector_triad_uses_four_arrays_of_the_device() {
    let harness = Harness::new();
    if !has_opencl(&harness) {
        return;
    }
    let args = ["stream", "--element", "f64,f32", "--kernels", "copy,vector_triad,dot"];
    let record = device(&harness, &[&args, &SMALL[..]].concat());
    let all = measurements(&record);
    assert_eq!(all.len(), 6);
    for m in all {
        let config = &m["config"];
        assert!(m["value"].as_f64().unwrap() > 0.0, "{m:#}");
        assert_eq!((&config["arrays"], &config["wrong_elements"]), (&4.into(), &0.into()));
        assert!(config["checks"].as_u64().unwrap() > 0, "{m:#}");
    }
    harness.run(&["history", "show", "latest"]).exits(0).prints("4 arrays of");
}

#[test]
fn device_links_measure_both_directions_with_pageable_and_pinned_memory() {
    let harness = Harness::new();
    if !has_opencl(&harness) {
        return;
    }
    let record = device(&harness, &["links", "--sizes", "8,64KiB,1MiB", "--samples", "2"]);
    let all = measurements(&record);
    for (name, memory, count) in [
        ("host_to_device", "pageable", 2),
        ("device_to_host", "pinned", 2),
        ("both_ways", "pinned", 2),
        ("host_to_device_latency", "pinned", 1),
    ] {
        let is = |m: &&Value| m["name"] == name && m["config"]["host_memory"] == memory;
        let of: Vec<&Value> = all.iter().filter(is).collect();
        // Each NUMA node has a curve. Only that of the nearest node has all sizes; the others have the smallest and the
        // largest size.
        assert!(of.len() >= count, "{name} {memory}: {}", of.len());
        assert!(of.iter().all(|m| m["value"].as_f64().unwrap() > 0.0), "{of:#?}");
        assert!(of.iter().all(|m| m["config"]["on_node"].as_f64().unwrap() > 0.98), "{of:#?}");
    }
    let page = harness.run(&["history", "show", "latest"]).exits(0);
    page.prints("1 MiB").prints("both ways").prints("copies between devices");
}

#[test]
fn device_curves_have_latencies_and_bandwidths_for_each_mix() {
    let harness = Harness::new();
    if !has_opencl(&harness) || !harness.has_cpus(2) {
        return;
    }
    let args = ["curves", "--size", "4MiB", "--samples", "2", "--mixes", "1:0,1:1"];
    let record = device(&harness, &args);
    let all = measurements(&record);
    for m in all {
        assert_eq!((&m["gauge"], &m["test"]), (&"device".into(), &"device_curves".into()));
        assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
    }
    for mix in ["1:0", "1:1"] {
        let find = |name: &str| all.iter().find(|m| m["name"] == format!("{name}{mix}"));
        assert!(find("saturated_").unwrap()["value"].as_f64().unwrap() > 0.0, "{record:#}");
        // On a busy node, the chain and its load may not overlap in time.
        let start = format!("latency_{mix}_load");
        let points = all.iter().filter(|m| m["name"].as_str().unwrap().starts_with(&start));
        let is_cut = record["complete"] == false;
        assert!(is_cut || points.count() > 3 && find("idle_").is_some(), "{record:#}");
    }
    let page = harness.run(&["history", "show", "latest"]).exits(0);
    page.prints("\nmix ").prints("one work-item follows a chain");
    let refused = harness.run(&["device", "curves", "--mixes", "4:1"]);
    refused.exits(2).warns("1:0");
    let large = harness.run(&["device", "curves", "--size", "900TiB", "--device", "opencl:0"]);
    large.exits(2).warns("limited to 1 GiB");
}

/// Runs a `device` command with a faulty library; `None` without OpenCL or a compiler.
fn run_with_fault(fault: &str, args: &[&str]) -> Option<(Harness, Outcome)> {
    let harness = Harness::new();
    if !has_opencl(&harness) || !harness.has(Part::Compilers, "gcc") {
        return None;
    }
    let source = harness.write("faults.c", include_str!("opencl_faults.c"));
    let library = harness.write("lib/libOpenCL.so.1", "");
    let compile = ["-shared", "-fPIC", "-O1", "-o", &library, &source, "-ldl"];
    assert!(Command::new("gcc").args(compile).status().unwrap().success());
    let known = Command::new("sh").args(["-c", "/sbin/ldconfig -p"]).output().unwrap().stdout;
    let known = String::from_utf8(known).unwrap();
    let line = known.lines().find(|line| line.trim().starts_with("libOpenCL.so.1 "));
    let system = line.and_then(|line| Some(line.split_once("=> ")?.1.to_owned())).unwrap();
    let folder = harness.arg("lib");
    let variables = [("LD_LIBRARY_PATH", &*folder), ("SYSTEM_OPENCL", &*system), ("FAULT", fault)];
    let outcome = harness.run_with(&variables, &[&["device"], args].concat());
    Some((harness, outcome))
}

#[test]
fn missing_devices_and_excessive_sizes_are_refused() {
    let harness = Harness::new();
    if !has_opencl(&harness) {
        return;
    }
    let unknown = harness.run(&["device", "peaks", "--device", "opencl:7"]);
    unknown.exits(2).warns("there is no device opencl:7: expected opencl:0");
    let large = harness.run(&["device", "stream", "--size", "900TiB", "--device", "opencl:0"]);
    large.exits(3).warns("of memory is available").warns("hint: use --size");
    let huge = harness.run(&["device", "links", "--sizes", "1TiB", "--device", "opencl:0"]);
    huge.exits(3).warns("do not fit in memory");
    let empty = harness.arg("");
    let none = [("OCL_ICD_VENDORS", empty.as_str())];
    let unregistered = harness.run_with(&none, &["device", "peaks", "--device", "opencl:0"]);
    unregistered.exits(3).warns("no OpenCL driver is registered").warns("OCL_ICD_VENDORS");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn multiply_add_chains_have_the_expected_result() {
        let harness = Harness::new();
        if !has_opencl(&harness) {
            return;
        }
        let record = device(&harness, &["peaks", "--samples", "2"]);
        let all = measurements(&record);
        let elements: Vec<&str> =
            all.iter().map(|m| m["config"]["element"].as_str().unwrap()).collect();
        assert_eq!(elements, ["f64", "f32"]);
        assert!(
            all.iter().all(|m| m["name"] == "fma" && m["config"]["worst_error"] == 0.0),
            "{all:#?}"
        );
        harness.run(&["history", "show", "latest"]).exits(0).prints("GFLOP/s").prints("chains of");
    }

    #[test]
    fn missing_driver_is_reported_with_a_hint() {
        let harness = Harness::new();
        // The dynamic linker finds this file first, which is not a library.
        harness.write("lib/libOpenCL.so.1", "");
        let folder = harness.arg("lib");
        let hidden = [("LD_LIBRARY_PATH", &*folder)];
        let missing = "opencl: the driver's library is not installed (libOpenCL.so.1)";
        let asked = harness.run_with(&hidden, &["device", "stream", "--device", "opencl:0"]);
        asked.exits(3).only_error(&format!(
            "{missing}\nhint: install the driver of the device's vendor, or pocl-opencl-icd for this node's processor"
        ));
        // A node without devices is measured.
        let args = ["run", "--samples", "2", "--budget", "0.5", "--dimms", "1024x20000"];
        harness.run_with(&hidden, &args).exits(0).warns_nothing();
        let record = harness.latest();
        let notices = record["notices"].as_array().unwrap();
        let reported: Vec<&str> = notices
            .iter()
            .filter(|n| n["gauge"] == "device")
            .map(|n| n["text"].as_str().unwrap())
            .collect();
        assert!(
            matches!(reported[..], [line] if line.contains(missing) && !line.contains('\n')),
            "{reported:#?}"
        );
        assert!(measurements(&record).iter().all(|m| m["gauge"] != "device"));
    }

    #[test]
    fn driver_faults_are_reported_with_at_most_one_hint() {
        let stream = [&["stream", "--device", "opencl:0"], &SMALL[..]].concat();
        for (fault, code, reported) in [
            ("crash", 3, "the child process ended with signal"),
            ("none", 3, "opencl: no OpenCL driver is registered"),
            ("build", 3, "opencl: a kernel cannot be built (clBuildProgram: -11): error: "),
            ("memory", 3, "hint: use smaller arrays (--size)"),
            ("busy", 3, "the device is in exclusive use by another process"),
            ("lost=2", 3, "the device was lost during the measurement"),
            ("wrong=12", 1, ""),
        ] {
            let Some((harness, outcome)) = run_with_fault(fault, &stream) else { return };
            let outcome = outcome.exits(code).warns(reported);
            // A driver may print its own messages.
            let lines =
                |start: &str| outcome.stderr.lines().filter(|line| line.starts_with(start)).count();
            assert!(
                lines("error: ") == usize::from(code == 3) && lines("hint: ") <= 1,
                "{}",
                outcome.stderr
            );
            if fault.starts_with("wrong") {
                let record = harness.latest();
                let wrong = |m: &Value| {
                    m["validity"]["reasons"].to_string().contains("differ from the replay")
                };
                assert!(measurements(&record).iter().all(wrong), "{record:#}");
            }
        }
    }

    #[test]
    fn results_before_a_device_is_lost_are_saved() {
        let stream =
            ["stream", "--device", "opencl:0", "--size", "300000elements", "--samples", "2000"];
        let Some((harness, outcome)) = run_with_fault("lost=2000", &stream) else { return };
        outcome.exits(1).warns("the device was lost during the measurement");
        let record = harness.latest();
        assert_eq!(record["complete"], false);
        let doubted = |m: &Value| m["validity"]["reasons"].to_string().contains("were checked");
        assert!(
            measurements(&record).iter().all(|m| m["value"].is_number() && doubted(m)),
            "{record:#}"
        );
    }

    #[test]
    fn results_before_an_interrupt_are_checked_and_saved() {
        let harness = Harness::new();
        if !has_opencl(&harness) {
            return;
        }
        let endless = [
            "device",
            "stream",
            "--device",
            "opencl:0",
            "--size",
            "300000elements",
            "--samples",
            "1000000",
        ];
        let running = harness.start(&endless).shows_times(10, "measuring all devices, interleaved");
        running.signal("INT");
        running.end().exits(130).prints("\nsaved ");
        let record = harness.latest();
        assert_eq!(record["complete"], false);
        assert!(
            measurements(&record).iter().all(|m| m["config"]["checks"].as_u64() > Some(0)),
            "{record:#}"
        );
    }

    #[test]
    fn pocl_leaves_no_kernels_in_temporary_folders_without_a_home() {
        let harness = Harness::new();
        if !has_opencl(&harness) {
            return;
        }
        let temporary = harness.path("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let shared = Path::new("/tmp/pocl");
        let before = std::fs::metadata(shared).and_then(|folder| folder.modified()).ok();
        let args = ["device", "stream", "-q", "--device", "opencl:0", "--no-save"];
        // In the harness, an empty value removes a variable. The relative folder is ignored.
        for cache in ["", "relative"] {
            let variables = [
                ("HOME", ""),
                ("XDG_CACHE_HOME", cache),
                ("POCL_CACHE_DIR", ""),
                ("TMPDIR", temporary.to_str().unwrap()),
            ];
            harness.run_with(&variables, &[&args[..], &SMALL].concat()).exits(0);
            let after = std::fs::metadata(shared).and_then(|folder| folder.modified()).ok();
            assert_eq!(after, before, "kernels were compiled in /tmp/pocl");
            assert!(!harness.path("relative").exists());
            assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
        }
    }

    #[test]
    fn device_without_double_precision_measures_single_precision() {
        let Some((harness, outcome)) =
            run_with_fault("single", &[&["stream"], &SMALL[..]].concat())
        else {
            return;
        };
        outcome.exits(0).prints("opencl:0 has no double precision; only f32 is measured");
        assert!(measurements(&harness.latest()).iter().all(|m| m["config"]["element"] == "f32"));
        let asked = [&["stream", "--element", "f64"], &SMALL[..]].concat();
        let Some((_, single_outcome)) = run_with_fault("single", &asked) else { return };
        single_outcome.exits(3).warns("hint: use --element f32");
    }
}
