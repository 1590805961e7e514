//! Measures the time for reading all hardware error counters: on this machine, in the recorded trees, and in a
//! synthetic tree with the counters of a large node (2 sockets with 64 cores and two threads per core, 32 memory
//! modules, 64 PCI devices, 4 InfiniBand ports).
//!
//! `ROUNDS` is the number of readings per tree (default 101). Prints Markdown for docs/benchmarks.md. The kernel
//! creates the content of a file in `/sys` when it is read, so the synthetic tree shows only the cost in the reading
//! process.

mod common;

use common::{print, variable};
use nodegauge_machine::SysRoot;
use nodegauge_machine::ledger::LedgerReading;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Recorded trees of the unit tests.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/ledgers");
/// Number of CPUs. The first half of them is in the first package.
const CPUS: usize = 256;

fn main() {
    let rounds: usize = variable("ROUNDS").unwrap_or(101);
    let large = tempfile::tempdir().expect("a temporary folder");
    large_node(large.path());
    print("| node | best, ms | median, ms |\n| --- | ---: | ---: |");
    timed("this machine", &SysRoot::live(), rounds);
    let trees = fs::read_dir(RECORDED).expect("the recorded trees");
    let mut trees: Vec<_> = trees.filter_map(Result::ok).map(|entry| entry.path()).collect();
    trees.retain(|path| path.is_dir());
    trees.sort();
    for tree in trees {
        let name = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
        timed(&name, &SysRoot::recorded(&tree), rounds);
    }
    timed("synthetic large node", &SysRoot::recorded(large.path()), rounds);
}

/// Prints the best and the median time of reading the counters of a tree.
fn timed(name: &str, root: &SysRoot, rounds: usize) {
    let mut times: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let began = Instant::now();
            std::hint::black_box(LedgerReading::read(root));
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    print(&format!("| {name} | {:.3} | {:.3} |", times[0], times[times.len() / 2]));
}

/// Writes a file below `root`.
fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("room for the tree");
    fs::write(path, text).expect("room for the tree");
}

/// Writes the counters of a large node, all of which are zero or small.
fn large_node(root: &Path) {
    write(root, "proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000000\n");
    let names: String = (0..CPUS).map(|cpu| format!(" {:>10}", format!("CPU{cpu}"))).collect();
    let mut interrupts = format!("      {names}\n");
    let lines = (0..200).map(|number| number.to_string());
    for name in lines.chain(["NMI", "THR", "DFR", "MCE", "MCP"].map(str::to_owned)) {
        let columns = format!(" {:>10}", 7).repeat(CPUS);
        let _ = writeln!(interrupts, "{name:>4}: {columns} text");
    }
    write(root, "proc/interrupts", &interrupts);
    for cpu in 0..CPUS {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        for file in ["core_throttle_count", "package_throttle_count", "package_power_limit_count"] {
            write(root, &format!("{folder}/thermal_throttle/{file}"), "0\n");
        }
        let package = if cpu < CPUS / 2 { "0-127\n" } else { "128-255\n" };
        write(root, &format!("{folder}/topology/package_cpus_list"), package);
    }
    for controller in 0..16 {
        let folder = format!("sys/devices/system/edac/mc/mc{controller}");
        for file in ["ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count"] {
            write(root, &format!("{folder}/{file}"), "0\n");
        }
        for module in 0..2 {
            let files = [("dimm_label", "P0_Channel0_Dimm0\n"), ("size", "65536\n")];
            let counters = [("dimm_ce_count", "0\n"), ("dimm_ue_count", "0\n")];
            for (file, text) in files.into_iter().chain(counters) {
                write(root, &format!("{folder}/dimm{module}/{file}"), text);
            }
        }
    }
    for device in 0..64 {
        let folder = format!("sys/bus/pci/devices/0000:{device:02x}:00.0");
        for (file, total) in [
            ("aer_dev_fatal", "TOTAL_ERR_FATAL 0\n"),
            ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 0\n"),
            ("aer_dev_correctable", "TOTAL_ERR_COR 0\n"),
        ] {
            let text = format!("RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\n{total}");
            write(root, &format!("{folder}/{file}"), &text);
        }
    }
    for adapter in 0..4 {
        for counter in ["symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"] {
            let path = format!("sys/class/infiniband/mlx5_{adapter}/ports/1/counters/{counter}");
            write(root, &path, "0\n");
        }
    }
}
