//! Tests of `device` with CUDA and HIP, whose drivers are replaced by stand-ins (`tests/standin`): stand-ins use the
//! memory and the threads of the processor, their kernels are C functions, and environment variables make them fail.

use crate::harness::{Harness, Outcome, Part, measurements, skip};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// Folder with the sources of the stand-ins and of their kernels.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Stand-ins: library, source, and true if it replaces a library of AMD.
const LIBRARIES: [(&str, &str, bool); 6] = [
    ("libcuda.so.1", "driver.c", false),
    ("libamdhip64.so.6", "driver.c", true),
    ("libnvidia-ml.so.1", "nvml.c", false),
    ("libhiprtc.so.6", "compiler.c", true),
    ("libcublas.so.12", "blas.c", false),
    ("librocblas.so.4", "blas.c", true),
];

/// Returns the folder with all stand-ins. They are compiled once.
fn libraries() -> &'static str {
    static COMPILED: OnceLock<TempDir> = OnceLock::new();
    let folder = COMPILED.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        for (library, source, amd) in LIBRARIES {
            let mut command = Command::new("cc");
            command
                .args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
                .arg(folder.path().join(library));
            command.arg(format!("{ROOT}/tests/standin/{source}")).args(amd.then_some("-DHIP"));
            let output = command.arg("-lm").output().unwrap();
            let reported = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && reported.is_empty(), "{library}: {reported}");
        }
        folder
    });
    folder.path().to_str().unwrap()
}

/// Options for arrays of four times the stand-in's cache, and for few samples.
const STREAM: [&str; 6] = ["device", "stream", "--samples", "2", "--size", "65536elements"];

fn run(harness: &Harness, variables: &[(&str, &str)], args: &[&str]) -> Outcome {
    // Variables in the caller's environment are removed.
    let own = [("LD_LIBRARY_PATH", libraries()), ("STANDIN_MEMORY", "0x1000000")];
    let unset = [("CUDA_VISIBLE_DEVICES", ""), ("ROCR_VISIBLE_DEVICES", "")];
    harness.run_with(&[&unset[..], &own[..], variables].concat(), args)
}

/// Returns the figures of a successful run.
fn figures(harness: &Harness, variables: &[(&str, &str)], args: &[&str]) -> Vec<Value> {
    let record = run(harness, variables, &[args, &["--json", "-"]].concat()).exits(0).json();
    measurements(&record).clone()
}

#[test]
fn embedded_and_compiled_loops_are_checked_on_both_drivers() {
    let harness = Harness::new();
    for (driver, version) in
        [("cuda:0", "CUDA 12.4 (driver 550.54.15)"), ("hip:0", "HIP 6.4.43484")]
    {
        let args = [&STREAM[..], &["--device", driver, "--element", "f64,f32"]].concat();
        let all = figures(&harness, &[("STANDIN_MEMORY", "0x4000000")], &args);
        assert_eq!(all.len(), 12);
        for m in &all {
            let config = &m["config"];
            // The times of the stand-in vary, and there are only two samples.
            assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
            assert_eq!((&config["device"], &config["wrong_elements"]), (&driver.into(), &0.into()));
            assert_eq!((&config["pci"], &config["class"]), (&"0000:3b:00.0".into(), &"gpu".into()));
            assert_eq!(config["driver_version"], version);
            // The stand-in's bus has 5120 bits at 10 MHz, with two transfers per clock.
            assert_eq!(m["limit"]["value"], 12.8e9, "{m:#}");
        }
        // The embedded loops have groups of two sizes. For AMD, the stand-in compiles all loops.
        assert!(all.iter().any(|m| m["config"]["loops_tried"].as_u64().unwrap() > 1));
    }
    run(&harness, &[], &["history", "show", "latest"])
        .exits(0)
        .prints("Stand-in GPU")
        .prints("hip:0");
}

#[test]
fn device_curves_are_measured_on_both_drivers() {
    let harness = Harness::new();
    let curves = ["device", "curves", "--size", "1MiB", "--samples", "1", "--mixes", "1:0,0:1"];
    for driver in ["cuda:0", "hip:0"] {
        let variables = [("STANDIN_MEMORY", "0x4000000")];
        let all = figures(&harness, &variables, &[&curves[..], &["--device", driver]].concat());
        for name in ["idle_1:0", "saturated_1:0", "latency_0:1_load100", "bandwidth_0:1_load50"] {
            let m = all.iter().find(|m| m["name"] == name).unwrap();
            assert!(m["value"].as_f64().unwrap() > 0.0, "{m:#}");
            // The latency of the stand-in is meaningless, and one sample is too few.
            assert_ne!(m["validity"]["status"], "invalid", "{m:#}");
            assert_eq!(m["config"]["device"], driver);
            assert_eq!(m["config"]["stride_bytes"], 128);
        }
    }
}

#[test]
fn vendor_libraries_multiply_and_wrong_results_are_invalid() {
    let harness = Harness::new();
    let peaks = ["device", "peaks", "--samples", "1", "--budget", "2", "--device"];
    for (driver, library) in [("cuda:0", "cuBLAS 12.3.4"), ("hip:0", "rocBLAS 4.2.0")] {
        let all = figures(&harness, &[], &[&peaks[..], &[driver]].concat());
        let dgemm = all.iter().find(|m| m["name"] == "dgemm").unwrap();
        assert_eq!(
            (&dgemm["config"]["library"], &dgemm["config"]["n"]),
            (&library.into(), &512.into())
        );
        assert!(dgemm["value"].as_f64().unwrap() > 0.0, "{dgemm:#}");
        assert_eq!(all.iter().filter(|m| m["name"] == "fma").count(), 2);
    }
    let wrong = run(&harness, &[("STANDIN_DGEMM", "wrong")], &[&peaks[..], &["cuda:0"]].concat());
    wrong.exits(1);
}

#[test]
fn copies_between_host_and_devices_are_measured() {
    let harness = Harness::new();
    let args =
        ["device", "links", "--sizes", "8,64KiB", "--samples", "1", "--device", "cuda:0,cuda:1"];
    let all = figures(&harness, &[("STANDIN_DEVICES", "2")], &args);
    for name in
        ["host_to_device", "device_to_host", "both_ways", "device_to_device", "all_both_ways"]
    {
        assert!(
            all.iter().any(|m| m["name"] == name && m["value"].as_f64().unwrap() > 0.0),
            "{name}"
        );
    }
    assert!(all.iter().any(|m| m["config"]["peer"] == "cuda:1"));
}

#[test]
fn copies_with_wrong_data_are_invalid() {
    let harness = Harness::new();
    let args =
        ["device", "links", "--sizes", "8,64KiB", "--samples", "1", "--device", "cuda:0,cuda:1"];
    let wrong = |copies: &str| {
        let variables = [("STANDIN_DEVICES", "2"), ("STANDIN_COPY", copies)];
        let record = run(&harness, &variables, &[&args[..], &["--json", "-"]].concat()).exits(1);
        let invalid = |m: &&Value| m["validity"]["status"] == "invalid";
        let all = measurements(&record.json()).clone();
        let reasons: Vec<String> =
            all.iter().filter(invalid).map(|m| m["validity"]["reasons"].to_string()).collect();
        (all.len(), reasons)
    };
    let (all, across) = wrong("across");
    assert!(across.len() < all, "those of one device with the host are right: {across:#?}");
    for way in ["cuda:0 to cuda:1", "cuda:1 to cuda:0"] {
        let error = format!("{way} from byte 65528 on");
        assert!(!across.is_empty() && across.iter().all(|of| of.contains(&error)), "{across:#?}");
    }
    let (all_copies, together) = wrong("together");
    assert_eq!(together.len(), all_copies);
    assert!(together.iter().all(|of| of.contains("copied data differ from the source: ")));
    // The messages contain both directions and both devices.
    assert!(
        together.iter().any(|of| of.contains("cuda:0 to host (simultaneous copies)")),
        "{together:#?}"
    );
    assert!(
        together.iter().any(|of| of.contains("host to cuda:1 (simultaneous copies)")),
        "{together:#?}"
    );
}

#[test]
fn unusable_driver_is_reported_with_the_reason() {
    let harness = Harness::new();
    for (variables, expected) in [
        (&[("STANDIN_INIT", "100")][..], &["there is no device", "cuInit: 100", "hint: "][..]),
        (
            &[("STANDIN_VERSION", "7050")],
            &["the driver is too old", "found CUDA 7.5, but 8.0 is required", "update"],
        ),
        (&[("STANDIN_INIT", "802")], &["fabric manager"]),
        (
            &[("STANDIN_CONTEXT", "46")],
            &["in exclusive use by another process", "CUDA_ERROR_DEVICE_UNAVAILABLE"],
        ),
        (&[("STANDIN_ALLOCATE", "2")], &["not enough memory", "allocation of 512 KiB", "hint: "]),
        (
            &[("STANDIN_MODULE", "218")],
            &["a kernel cannot be built", "the stand-in is set to fail"],
        ),
        (
            &[("STANDIN_LAUNCH", "719@1")],
            &["the device was lost", "CUDA_ERROR_LAUNCH_FAILED", "dmesg"],
        ),
        (
            &[("STANDIN_INIT", "100"), ("STANDIN_SILENT", "4")],
            &["no permission to use the device", "the device file cannot be opened", "cgroup"],
        ),
        (
            &[("CUDA_VISIBLE_DEVICES", "-1"), ("STANDIN_DEVICES", "2")],
            &["CUDA_VISIBLE_DEVICES=-1 hides all 2 GPUs of this node"],
        ),
    ] {
        let args = [&STREAM[..], &["--device", "cuda:0"]].concat();
        let outcome = run(&harness, variables, &args).exits(3);
        expected.iter().fold(outcome, |outcome, words| outcome.warns(words));
    }
    let gone = run(&harness, &[], &[&STREAM[..], &["--device", "cuda:7"]].concat());
    gone.exits(2).warns("there is no device cuda:7: expected cuda:0, hip:0");
    let broken = [("STANDIN_COMPILE", "fails")];
    let args = [&STREAM[..], &["--device", "hip:0"]].concat();
    run(&harness, &broken, &args).exits(3).warns("the stand-in is set to fail");
}

#[test]
fn results_before_a_device_is_lost_are_kept() {
    let harness = Harness::new();
    // Dot has only one embedded loop, so there is no trial before launch 30.
    let own =
        ["--kernels", "dot", "--samples", "40", "--size", "65536elements", "--device", "cuda:0"];
    let args = [&STREAM[..2], &own].concat();
    let lost = run(&harness, &[("STANDIN_LAUNCH", "719@30")], &args);
    lost.exits(1).warns("the device was lost");
    let record = harness.run(&["history", "show", "latest", "--json", "-"]).exits(0).json();
    assert_eq!(record["complete"], false);
    // The peaks fail after STREAM and the links have been measured.
    let all = ["device", "--device", "cuda:0", "--samples", "2", "--budget", "20"];
    let fails = [("STANDIN_CHAINS", "719"), ("STANDIN_MEMORY", "0x4000000")];
    let without_peaks = run(&harness, &fails, &all);
    without_peaks.exits(1).warns("error: cuda: ").prints("to device   to host");
    let saved = harness.run(&["history", "show", "latest", "--json", "-"]).exits(0).json();
    let tests: BTreeSet<&str> =
        measurements(&saved).iter().filter_map(|figure| figure["test"].as_str()).collect();
    assert_eq!((saved["complete"].as_bool(), tests.len()), (Some(false), 2), "{tests:?}");
    let ecc = run(&harness, &[("STANDIN_LAUNCH", "214@30")], &args);
    ecc.exits(1).warns("uncorrectable error");
}

#[test]
fn memory_errors_wrong_elements_and_throttling_change_validity() {
    let harness = Harness::new();
    let args = [&STREAM[..], &["--device", "cuda:0", "--kernels", "copy", "--json", "-"]].concat();
    let judged = |variables: &[(&str, &str)], exit: i32| {
        let record = run(&harness, variables, &args).exits(exit).json();
        let copy = measurements(&record)[0].clone();
        let reasons = copy["validity"]["reasons"].to_string();
        (copy["validity"]["status"].as_str().unwrap().to_owned(), reasons, copy)
    };
    let (status, reasons, copy) = judged(&[("STANDIN_ECC", "0,2")], 1);
    assert!(
        status == "invalid"
            && reasons.contains("2 uncorrectable memory errors during the measurement"),
        "{reasons}"
    );
    assert!(copy["value"].is_null());
    let (uncorrected_status, uncorrected_reasons, _) = judged(&[("STANDIN_ECC", "3,0")], 0);
    assert!(
        uncorrected_status == "suspect"
            && uncorrected_reasons.contains("3 corrected memory errors"),
        "{uncorrected_reasons}"
    );
    let (throttled_status, throttled_reasons, throttled_copy) =
        judged(&[("STANDIN_CLOCK", "1200,0x44")], 0);
    assert!(
        throttled_reasons.contains("power limit, temperature"),
        "{throttled_status} {throttled_reasons}"
    );
    let config = &throttled_copy["config"];
    assert!(config["clock_hz"].is_array() && config["slowed_by"].is_array(), "{throttled_copy:#}");
    let (shared_status, shared_reasons, _) = judged(&[("STANDIN_PROCESSES", "3")], 0);
    assert!(
        shared_status == "suspect" && shared_reasons.contains("2 other processes"),
        "{shared_reasons}"
    );
    let (wrong_status, wrong_reasons, _) = judged(&[("STANDIN_WRONG", "4")], 1);
    assert!(
        wrong_status == "invalid" && wrong_reasons.contains("differ from the replay"),
        "{wrong_reasons}"
    );
}

#[test]
fn figure_of_a_mig_slice_has_its_name_and_no_limit() {
    let harness = Harness::new();
    let args = [&STREAM[..], &["--device", "cuda:0", "--kernels", "copy"]].concat();
    let copy = figures(&harness, &[("STANDIN_MIG", "1")], &args).remove(0);
    let slice = copy["config"]["slice"].as_str().unwrap();
    assert!(slice.starts_with("MIG slice of GPU-00112233"), "{slice}");
    // The slice's share of the bus is unknown.
    assert!(copy["limit"].is_null(), "{copy:#}");
}

#[test]
fn babelstream_and_nvbandwidth_output_is_imported() {
    let harness = Harness::new();
    let outputs = format!("{ROOT}/crates/devices/tests/outputs");
    for (file, expected) in [
        ("babelstream-text-2t.txt", "49.29 GB/s"),
        ("babelstream-csv-2t.txt", "50.85 GB/s"),
        ("babelstream-4.0-text.txt", "172.3 GB/s"),
        ("babelstream-4.0-csv.txt", "214.0 GB/s"),
        ("nvbandwidth-0.8.txt", "55.64 GB/s"),
    ] {
        let imported = harness.run(&["history", "import", &format!("{outputs}/{file}")]).exits(0);
        let id = imported.stdout.split_whitespace().next().unwrap();
        harness.run(&["history", "show", id, "-v"]).exits(0).prints(expected);
    }
    let cut = harness.write("cut.txt", "BabelStream\nVersion: 5.0\n");
    harness.run(&["history", "import", &cut]).exits(2).warns("the output has no table");
}

#[test]
fn babelstream_gives_reference_figures_and_a_missing_program_is_refused() {
    let harness = Harness::new();
    let outputs = format!("{ROOT}/crates/devices/tests/outputs");
    let program = |name: &str, output: &str| {
        let path = harness
            .write(name, format!("#!/bin/sh\necho \"$*\" > {name}.args\ncat {outputs}/{output}\n"));
        Command::new("chmod").args(["+x", &path]).status().unwrap();
        path
    };
    let babelstream = program("stream", "babelstream-text-2t.txt");
    let args = [&STREAM[..], &["--device", "cuda:0", "--babelstream", &babelstream]].concat();
    let all = figures(&harness, &[], &args);
    let references = all.iter().filter(|m| m["category"] == "reference");
    assert_eq!(references.clone().count(), 5);
    assert!(references.clone().all(|m| m["config"]["engine"] == "babelstream"));
    let asked = std::fs::read_to_string(harness.path("stream.args")).unwrap();
    assert_eq!(asked, "--device 0 --arraysize 65536 --numtimes 100\n");
    run(&harness, &[], &["history", "show", "latest"]).exits(0).prints("cuda:0 triad 0.0");
    let missing_args = [&STREAM[..], &["--device", "cuda:0", "--babelstream", "no/such"]].concat();
    run(&harness, &[], &missing_args).exits(3).warns("there is no program no/such");
    // A name without a path does not refer to a file in the current folder.
    std::fs::remove_file(harness.path("stream.args")).unwrap();
    let stand_in_args = [&STREAM[..], &["--device", "cuda:0", "--babelstream", "stream"]].concat();
    let refused = run(&harness, &[], &stand_in_args).exits(3).warns("there is no program stream");
    refused.warns("; ./stream is the file in the current folder");
    assert!(!harness.path("stream.args").exists());
}

#[test]
fn nvbandwidth_and_native_copies_are_interleaved_on_the_same_devices() {
    let harness = Harness::new();
    // The recorded output determines the test cases; the stand-ins determine the bus addresses.
    let program = harness.write(
        "nvb",
        format!(
            r#"#!/bin/sh
echo "$CUDA_VISIBLE_DEVICES $*" >> nvb.args
sed 's/:1b:/:3b:/; s/:43:/:3c:/' {ROOT}/crates/devices/tests/outputs/nvbandwidth-0.8.txt | awk -v asked=" $* " '
    BEGIN {{ RS = ""; ORS = "\n\n" }}
    /^Running / {{ name = $2; sub(/\.$/, "", name); other = !index(asked, " " name " ") }}
    !other'
"#
        ),
    );
    crate::harness::make_program(&program);
    let args = ["device", "links", "--sizes", "64KiB,1MiB", "--samples", "1", "--nvbandwidth"];
    let which = ["--device", "cuda:1,cuda:0"];
    let all =
        figures(&harness, &[("STANDIN_DEVICES", "2")], &[&args[..], &[&program], &which].concat());
    let (theirs, ours): (Vec<&Value>, Vec<&Value>) =
        all.iter().partition(|m| m["category"] == "reference");
    let read: Vec<(&str, &str, f64)> = theirs
        .iter()
        .map(|m| {
            let config = &m["config"];
            assert_eq!(
                (&config["engine"], &config["message_bytes"]),
                (&"nvbandwidth".into(), &(1 << 20).into())
            );
            (
                m["name"].as_str().unwrap(),
                config["device"].as_str().unwrap(),
                m["value"].as_f64().unwrap(),
            )
        })
        .collect();
    let (to_device, across) = ("host_to_device", "device_to_device");
    assert_eq!(
        read,
        [
            (to_device, "cuda:1", 55.64e9),
            (to_device, "cuda:0", 55.63e9),
            (across, "cuda:0", 392.51e9),
            (across, "cuda:1", 392.60e9),
        ]
    );
    // Before and after each run of the program, native copies of the same size were measured: a warm-up, one copy, and
    // three copies.
    let samples = |m: &Value| {
        m["samples"].as_array().unwrap().len() + m["disturbed"].as_array().map_or(0, Vec::len)
    };
    for m in ours.iter().filter(|m| m["unit"] == "B/s") {
        let expected = if m["config"]["message_bytes"] == 1 << 20 { 5 } else { 2 };
        assert_eq!(samples(m), expected, "{m:#}");
    }
    let [first, second] =
        ["GPU-00112233-4455-6677-8899-aabbccddeeff", "GPU-01122334-4556-6778-899a-abbccddeef00"];
    let host = "-b 1 -t host_to_device_memcpy_ce device_to_host_memcpy_ce";
    let asked = std::fs::read_to_string(harness.path("nvb.args")).unwrap();
    assert_eq!(
        asked,
        format!(
            "{second} {host}\n{first} {host}\n{second},{first} -b 1 -t device_to_device_memcpy_write_ce\n"
        )
    );
    let page = run(&harness, &[], &["history", "show", "latest"]).exits(0);
    page.prints_words("figures: cuda:1 host_to_device").prints_words("cuda:0 device_to_device 0.");
    let other = ["device", "links", "--sizes", "64KiB", "--samples", "1", "--device", "hip:0"];
    let other = run(&harness, &[], &[&other[..], &["--nvbandwidth", &program]].concat());
    other.exits(0).prints("nvbandwidth is not run");
}

#[test]
fn hwloc_does_not_load_vendor_plugins() {
    let harness = Harness::new();
    // Plug-in that creates a file in its folder when it is loaded.
    let source = harness.write(
        "plugin.c",
        r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
__attribute__((constructor)) static void load(void)
{
    Dl_info own;
    char mark[4096];
    if (dladdr((void *)load, &own) && snprintf(mark, sizeof mark, "%s.loaded", own.dli_fname) > 0)
        fclose(fopen(mark, "w"));
}
"#,
    );
    let first = harness.write("plugins/hwloc_other.so", "");
    let compile = ["-shared", "-fPIC", "-o", &first, &source, "-ldl"];
    assert!(Command::new("cc").args(compile).status().unwrap().success());
    for vendors in ["opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"] {
        std::fs::copy(&first, harness.path(&format!("plugins/hwloc_{vendors}.so"))).unwrap();
    }
    let folder = harness.arg("plugins");
    for args in [
        &["places"][..],
        &["machine", "--json"],
        &["places", "--topology", crate::harness::T2K, "--threads", "16"],
    ] {
        harness.run_with(&[("HWLOC_PLUGINS_PATH", &folder)], args).exits(0);
        let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut loaded: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        loaded.retain(|name| name.ends_with(".loaded"));
        if loaded.is_empty() {
            return skip(Part::Hwloc, "hwloc has no plug-ins here");
        }
        assert_eq!(loaded, ["hwloc_other.so.loaded"], "{args:?}");
        std::fs::remove_file(harness.path("plugins/hwloc_other.so.loaded")).unwrap();
    }
}
