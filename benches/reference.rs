//! nodegauge and reference programs, interleaved in one run: likwid-bench where it is installed, and the
//! stream.c that `STREAM_C=PATH` names, built by gcc and clang.
//!
//! Every program runs once a round, in turn, `ROUNDS` times (default 8). Before and after each, the
//! round trip of a cache line between two CPUs is measured, because on a virtual machine the CPUs
//! are moved and bandwidth with them: a reference run during which they moved is dropped, and only
//! figures of one regime are compared (nodegauge tells its regimes apart itself).
//! Prints Markdown for docs/benchmarks.md.

mod common;

use common::{is_installed, likwid_bench, note, print, variable};
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::Seconds;
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats::{self, Summary};
use nodegauge_memory::team::Team;
use nodegauge_memory::team::core_to_core::{self, SharedLines};
use nodegauge_placement::Request;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kernels of STREAM, and likwid-bench's kernels of the same loop (likwid has none for Scale and
/// Add).
const LOOPS: [(&str, &[&str]); 6] = [
    ("copy", &["copy_mem_sse", "copy_mem_avx", "copy_mem_avx512", "copy_avx512"]),
    ("scale", &[]),
    ("add", &[]),
    (
        "triad",
        &[
            "stream_mem_sse",
            "stream_mem_avx",
            "stream_mem_avx_fma",
            "stream_mem_avx512",
            "stream_avx512_fma",
        ],
    ),
    ("read", &["load_avx", "load_avx512"]),
    ("write", &["store_mem_avx", "store_mem_avx512"]),
];

/// One run of one program.
struct Run {
    /// The program, e.g. `nodegauge`, `copy_mem_avx`, `stream.c gcc`.
    program: String,
    /// Loop to rate, B/s.
    rates: BTreeMap<String, f64>,
    /// Round trips before and after.
    trips: (f64, f64),
}

/// The core-to-core latency of the two CPUs.
struct CoreToCore {
    team: Team,
    lines: SharedLines,
}

impl CoreToCore {
    fn take(&mut self) -> f64 {
        core_to_core::round_trip(&mut self.team, &self.lines).expect("the team lives")
    }
}

fn main() {
    let rounds: usize = variable("ROUNDS").unwrap_or(8);
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let placement =
        nodegauge_placement::plan(&topology, &Request::default()).expect("there are CPUs");
    let threads = placement.threads.len();
    let places: Vec<_> = placement.threads.iter().map(|thread| thread.cpus.clone()).collect();
    let team = Team::start(&places).expect("threads can be bound");
    let mut latency = CoreToCore { lines: SharedLines::new(team.len()), team };
    let scratch = std::env::temp_dir().join(format!("nodegauge-reference-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    let streams = build_stream(&scratch);
    let likwid = is_installed("likwid-bench");
    if !likwid {
        note("likwid-bench is not installed: skipped");
    }
    let mut runs = Vec::new();
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        // Twice a round, so that the own figures see as much of the machine's time as the others'.
        runs.extend(nodegauge());
        if likwid {
            for (name, kernel) in
                LOOPS.iter().flat_map(|(name, all)| all.iter().map(|k| (*name, *k)))
            {
                runs.push(timed(&mut latency, kernel, || {
                    let rate = likwid_bench(kernel, &format!("N:400MB:{threads}"), "MByte/s:");
                    rate.map(|rate| (name.to_owned(), rate)).into_iter().collect()
                }));
            }
        }
        runs.extend(nodegauge());
        for (name, program) in &streams {
            runs.push(timed(&mut latency, name, || stream_c(program, threads)));
        }
        // What there is so far, should the run be cut off.
        note(&report(&runs));
    }
    let _ = std::fs::remove_dir_all(&scratch);
    print(&report(&runs));
}

fn timed(
    latency: &mut CoreToCore,
    program: &str,
    run: impl FnOnce() -> BTreeMap<String, f64>,
) -> Run {
    let before = latency.take();
    let rates = run();
    Run { program: program.to_owned(), rates, trips: (before, latency.take()) }
}

/// The program as a user runs it: a run for each regime that it met, with best and median.
fn nodegauge() -> Vec<Run> {
    let kernels = "copy,scale,add,triad,read,write";
    let record = common::nodegauge(&["stream", "--budget", "4", "--kernels", kernels]);
    let mut runs: Vec<Run> = Vec::new();
    let mut add = |trip: f64, name: &str, summary: &Summary| {
        let at = runs.iter().position(|run| run.trips.0 == trip).unwrap_or_else(|| {
            let program = "nodegauge".to_owned();
            runs.push(Run { program, rates: BTreeMap::new(), trips: (trip, trip) });
            runs.len() - 1
        });
        runs[at].rates.insert(name.to_owned(), summary.best);
        runs[at].rates.insert(format!("{name} median"), summary.median);
    };
    for m in record.measurements.iter().filter(|m| m.value.is_some()) {
        // With several regimes each has its summary; else the one has the measurement's.
        for regime in m.regimes.iter().filter(|regime| regime.summary.n >= 3) {
            add(regime.round_trip_s, &m.name, &regime.summary);
        }
        let trip = m.config.get("round_trip_s").and_then(serde_json::Value::as_f64);
        if let (true, Some(trip), Some(summary)) = (m.regimes.is_empty(), trip, &m.summary) {
            add(trip, &m.name, summary);
        }
    }
    runs
}

/// Builds the stream.c of `STREAM_C` with each compiler that is there.
fn build_stream(scratch: &Path) -> Vec<(String, PathBuf)> {
    let Some(source) = std::env::var_os("STREAM_C") else {
        note("STREAM_C is not set: no stream.c");
        return Vec::new();
    };
    ["gcc", "clang"]
        .into_iter()
        .filter_map(|compiler| {
            let program = scratch.join(format!("stream-{compiler}"));
            let built = Command::new(compiler)
                .args(["-O3", "-march=native", "-fopenmp", "-mcmodel=medium"])
                .args(["-DSTREAM_ARRAY_SIZE=67000000", "-DNTIMES=20"])
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .status()
                .is_ok_and(|status| status.success());
            if !built {
                note(&format!("{compiler} does not build stream.c here: skipped"));
            }
            built.then(|| (format!("stream.c {compiler}"), program))
        })
        .collect()
}

fn stream_c(program: &Path, threads: usize) -> BTreeMap<String, f64> {
    let output = Command::new(program)
        .env("OMP_NUM_THREADS", threads.to_string())
        .env("OMP_PROC_BIND", "spread")
        .env("OMP_PLACES", "cores")
        .output()
        .expect("stream.c runs");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let rate: f64 = rest.split_whitespace().next()?.parse().ok()?;
            LOOPS
                .iter()
                .any(|(known, _)| *known == name.to_lowercase())
                .then(|| (name.to_lowercase(), rate * 1e6))
        })
        .collect()
}

/// A table for each regime.
fn report(runs: &[Run]) -> String {
    let trips: Vec<f64> = runs.iter().flat_map(|run| [run.trips.0, run.trips.1]).collect();
    let regimes = regime::regimes(&trips);
    let mut out = String::new();
    for (i, regime) in regimes.iter().enumerate() {
        let of_regime: Vec<&Run> = runs
            .iter()
            .filter(|run| regime::assign(&regimes, run.trips.0, run.trips.1) == Some(i))
            .collect();
        out.push_str(&table(&of_regime, regime));
    }
    let moved = runs
        .iter()
        .filter(|run| regime::assign(&regimes, run.trips.0, run.trips.1).is_none())
        .count();
    out.push_str(&format!(
        "\n{} runs in all; {moved} dropped because the CPUs moved.\n",
        runs.len()
    ));
    out
}

fn table(runs: &[&Run], regime: &Regime) -> String {
    let mut out = format!(
        "\nRound trip between the CPUs {} to {}, {} runs:\n\n| loop | nodegauge best (median of medians) | reference | its best (median) | best / best | median / median | runs |\n| --- | --- | --- | --- | --- | --- | --- |\n",
        Seconds(regime.from),
        Seconds(regime.to),
        runs.len()
    );
    let of = |program: &str, rate: &str| -> Vec<f64> {
        runs.iter()
            .filter(|run| run.program == program)
            .filter_map(|run| run.rates.get(rate).copied())
            .collect()
    };
    let mut references: Vec<&str> = runs.iter().map(|run| run.program.as_str()).collect();
    references.sort_unstable();
    references.dedup();
    for (name, _) in LOOPS {
        let (own, medians) = (of("nodegauge", name), of("nodegauge", &format!("{name} median")));
        let (own_best, own_median) = (best(&own), stats::median(&medians));
        for reference in references.iter().filter(|program| **program != "nodegauge") {
            let theirs = of(reference, name);
            if theirs.is_empty() || own.is_empty() {
                continue;
            }
            let (their_best, their_median) = (best(&theirs), stats::median(&theirs));
            out.push_str(&format!(
                "| {name} | {:.1} ({:.1}) GB/s | {reference} | {:.1} ({:.1}) GB/s | {:.3} | {:.3} | {} : {} |\n",
                own_best / 1e9,
                own_median / 1e9,
                their_best / 1e9,
                their_median / 1e9,
                own_best / their_best,
                own_median / their_median,
                own.len(),
                theirs.len(),
            ));
        }
    }
    out
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}
