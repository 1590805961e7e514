//! Compares figures of caches with reference programs, which alternate in one run on one core: the latency of `memory
//! latency` with multichase (`MULTICHASE=PATH`), and the bandwidth of `memory ladder` in the first two caches with
//! likwid-bench, if it is installed.
//!
//! Every program runs once per round, for `ROUNDS` rounds (default 7). Each round gives one ratio of bests per row, so
//! that interference during a round affects both programs. Prints Markdown and writes the result file.

mod common;

use common::{
    BestAndMedian, Comparison, UNKNOWN, is_installed, likwid_bench, nodegauge, note, print, range,
    variable, version_of, write_results,
};
use nodegauge_measure::record::Record;
use nodegauge_measure::stats;
use std::collections::BTreeMap;
use std::process::Command;

/// Working sets of the latencies in bytes: one in each cache of a usual core, and one in memory.
const SETS: [u64; 4] = [16 << 10, 256 << 10, 4 << 20, 128 << 20];
/// Working sets of the bandwidths in bytes, in the first and the second cache.
const LEVELS: [(&str, u64); 2] = [("L1", 16 << 10), ("L2", 192 << 10)];
/// Patterns of the ladder, with likwid-bench's kernels for the same loop.
const LOOPS: [(&str, &[&str]); 2] = [
    ("read", &["load", "load_sse", "load_avx", "load_avx512"]),
    ("copy", &["copy", "copy_sse", "copy_avx", "copy_avx512"]),
];

/// Results of one round: for each quantity, the figure of nodegauge and that of the reference program.
type Round = BTreeMap<String, (f64, f64)>;

fn main() {
    let rounds = variable("ROUNDS").unwrap_or(7);
    let chase = variable::<String>("MULTICHASE");
    if chase.is_none() {
        note("MULTICHASE is not set: multichase is skipped");
    }
    let likwid = is_installed("likwid-bench");
    if !likwid {
        note("likwid-bench is not installed: skipped");
    }
    let mut all: Vec<Round> = Vec::new();
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        let mut figures = Round::new();
        if let Some(chase) = &chase {
            latencies(chase, &mut figures);
        }
        if likwid {
            bandwidths(&mut figures);
        }
        all.push(figures);
    }
    print(&report(&all));
    write_results("caches", &comparisons(&all));
}

fn one_core(args: &[&str]) -> Record {
    nodegauge(&[&["memory"], args, &["--threads", "1", "--places", "{0}"]].concat())
}

fn latencies(chase: &str, figures: &mut Round) {
    let record = one_core(&["latency"]);
    for set in SETS {
        for (pages, options) in [("4k", &[][..]), ("thp", &["-H"][..])] {
            let own = record.measurements.iter().find(|m| {
                let asked = m.config.get("pages").and_then(|reported| reported.get("asked"));
                m.name == set.to_string() && asked.and_then(|asked| asked.as_str()) == Some(pages)
            });
            let bytes = set.to_string();
            let output = Command::new(chase)
                // multichase accesses one element per line, in random order over the whole set, as nodegauge does.
                .args(["-s", "64", "-m", &bytes, "-T", &bytes, "-n", "3"])
                .args(options)
                .output()
                .expect("multichase runs");
            let text = String::from_utf8_lossy(&output.stdout);
            let theirs = text.trim().parse::<f64>().map(|ns| ns * 1e-9);
            if let (Some(own), Ok(theirs)) = (own.and_then(|m| m.value), theirs) {
                let name = format!("latency {} KiB, {pages} pages, ns", set >> 10);
                figures.insert(name, (own * 1e9, theirs * 1e9));
            }
        }
    }
}

fn bandwidths(figures: &mut Round) {
    let record = one_core(&["ladder", "--size", "512KiB"]);
    for (level, set) in LEVELS {
        for (pattern, kernels) in LOOPS {
            let own = record.measurements.iter().find(|m| {
                let kernel = m.config.get("kernel").and_then(|kernel| kernel.as_str());
                m.name == set.to_string() && kernel == Some(pattern)
            });
            let theirs = kernels.iter().filter_map(|kernel| {
                likwid_bench(kernel, &format!("S0:{}kB:1", set >> 10), "MByte/s:", &[])
            });
            let theirs = theirs.fold(0.0, f64::max);
            if let (Some(own), true) = (own.and_then(|m| m.value), theirs > 0.0) {
                let name = format!("{pattern} in {level}, {} KiB, GB/s", set >> 10);
                figures.insert(name, (own / 1e9, theirs / 1e9));
            }
        }
    }
}

/// Returns the names of all figures, sorted.
fn names(rounds: &[Round]) -> Vec<&String> {
    let mut names: Vec<&String> = rounds.iter().flat_map(|round| round.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the comparisons for the result file. Each round gives the best of each program; figures and ratios are
/// medians over the rounds.
fn comparisons(rounds: &[Round]) -> Vec<Comparison> {
    let likwid = version_of("likwid-bench", &["-v"]);
    let mut found = Vec::new();
    for name in names(rounds) {
        let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(|r| r.get(name)).copied().collect();
        let column = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
        let own = BestAndMedian::best(stats::median(&column(|pair| pair.0)));
        let theirs = BestAndMedian::best(stats::median(&column(|pair| pair.1)));
        // The name ends with the unit, after the last comma.
        let (quantity, _) = name.rsplit_once(", ").unwrap_or((name, ""));
        let quantity = quantity.replace(',', "");
        let (comparison, ratios) = if name.starts_with("latency") {
            let ratios = column(|pair| pair.1 / pair.0);
            (Comparison::from_times("multichase", quantity, "ns", own, theirs), ratios)
        } else {
            let ratios = column(|pair| pair.0 / pair.1);
            (Comparison::from_rates("likwid-caches", quantity, "GB/s", own, theirs), ratios)
        };
        let version = if comparison.peer == "multichase" { UNKNOWN } else { &likwid };
        let ratio = BestAndMedian::best(stats::median(&ratios));
        let comparison = comparison.with_version(version).with_noise(range(&ratios));
        found.push(Comparison { ratio, ..comparison });
    }
    found
}

fn report(rounds: &[Round]) -> String {
    let mut out = String::from(
        "| what | nodegauge | reference | ratio, median of rounds | range of ratios | rounds |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for name in names(rounds) {
        let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(|r| r.get(name)).copied().collect();
        let column = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
        let ratios = column(|pair| pair.0 / pair.1);
        out.push_str(&format!(
            "| {name} | {:.2} | {:.2} | {:.3} | {:.3} to {:.3} | {} |\n",
            stats::median(&column(|pair| pair.0)),
            stats::median(&column(|pair| pair.1)),
            stats::median(&ratios),
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
            ratios.len(),
        ));
    }
    out
}
