//! The message probe and the OSU micro-benchmarks, both MPIs, interleaved: what `nodegauge mpi --osu`
//! measures, against the bounds that the probe is held to. `OSU_OPENMPI=DIR` and `OSU_MPICH=DIR` name
//! builds of them. Prints Markdown: the ratio probe over OSU for each size, medians of `ROUNDS`
//! (default 5) rounds that count, and how OSU stands to itself: its even rounds over its odd ones,
//! which is what chance alone does to such a ratio. OSU prints two decimals of a microsecond unless it
//! is built with its macro `FLOAT_PRECISION` set to more; `OSU_DIGITS` says how many, and half of the
//! last one is allowed for.
//!
//! First, the probe that nodegauge carries beside the one that a wrapper compiles, by turns, `ROUNDS` times: the
//! median of the rounds' ratios, which are to be within 1 %, the compiled one over itself, as above, and the best of all rounds over the best.
//!
//! With `FLOOR=1` both MPIs against the floor instead, nodegauge's own transport, start by start by turns: `ROUNDS`
//! runs of each, the geometric mean of their shares and the least and greatest.

mod common;

use common::{note, print, variable};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Latency within 3 % for these sizes, bandwidth for those.
const LATENCY: (u64, u64) = (1, 8 << 10);
const RATE: (u64, u64) = (64 << 10, 4 << 20);
const BOUND: f64 = 0.03;

fn main() {
    if variable::<u32>("FLOOR").is_some() {
        return floor(variable("ROUNDS").unwrap_or(3));
    }
    let rounds: usize = variable("ROUNDS").unwrap_or(5);
    for (mpicc, mpirun) in [("mpicc.openmpi", "mpirun.openmpi"), ("mpicc.mpich", "mpirun.mpich")] {
        carried(mpicc, mpirun, rounds);
    }
    let rounds = rounds.to_string();
    for (mpicc, name) in [("mpicc.openmpi", "OSU_OPENMPI"), ("mpicc.mpich", "OSU_MPICH")] {
        let Some(folder) = variable::<String>(name) else {
            note(&format!("{name} is not set: {mpicc} skipped"));
            continue;
        };
        let args = ["--allow-run-as-root", "--osu", &folder, "--samples", &rounds];
        print_table(mpicc, &record(mpicc, &args));
    }
}

/// The record of `nodegauge mpi` with an MPI and these options.
fn record(mpicc: &str, args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(["mpi", "--no-save", "--json", "-", "--mpicc", mpicc, "--patterns", "latency,bw"])
        .args(args)
        .output()
        .expect("nodegauge runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Each MPI's share of the floor, over runs by turns.
fn floor(rounds: usize) {
    print("| | bytes | MPI | floor | share of the floor |\n| --- | --- | --- | --- | --- |");
    let mpis = ["mpicc.openmpi", "mpicc.mpich"];
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (mpicc, runs) in mpis.iter().zip(&mut runs) {
            runs.push(record(mpicc, &["--sizes", "8,64KiB,1MiB"]));
        }
    }
    for (name, bytes) in [("latency", 8), ("bw", 64 << 10), ("bw", 1 << 20)] {
        for (mpicc, runs) in mpis.iter().zip(&runs) {
            let own = |record: &Value| {
                let all = record["measurements"].as_array()?;
                let found = all.iter().find(|m| {
                    m["name"] == name
                        && m["config"]["message_bytes"] == bytes
                        && !m["config"]["floor"].is_null()
                })?;
                let floor = &found["config"]["floor"];
                Some([&found["value"], &floor["value"], &floor["share"]].map(Value::as_f64))
            };
            let found: Vec<[f64; 3]> = runs
                .iter()
                .filter_map(|run| Some(own(run)?.map(|value| value.unwrap_or(f64::NAN))))
                .collect();
            let mean = |at: usize| {
                let logs: f64 = found.iter().map(|figures| figures[at].ln()).sum();
                (logs / found.len() as f64).exp()
            };
            let shares = found.iter().map(|figures| figures[2]);
            let (least, most) =
                (shares.clone().fold(f64::INFINITY, f64::min), shares.fold(0.0, f64::max));
            let scale = if name == "latency" { 1e6 } else { 1e-9 };
            print(&format!(
                "| {mpicc} {name} | {bytes} | {:.3} | {:.3} | {:.2} ({least:.2} to {most:.2}) |",
                mean(0) * scale,
                mean(1) * scale,
                mean(2)
            ));
        }
    }
}

/// The two probes of one MPI by turns.
fn carried(mpicc: &str, mpirun: &str, rounds: usize) {
    // A search path that leads to a launcher and to no compiler.
    let bin = tempfile::tempdir().expect("a folder");
    // Hydra looks for its proxy beside itself, Open MPI for what would start ranks elsewhere.
    let proxy = "hydra_pmi_proxy";
    for (name, link) in [(mpirun, "mpirun"), (proxy, proxy), ("true", "ssh")] {
        let target = Path::new("/usr/bin").join(name);
        std::os::unix::fs::symlink(target, bin.path().join(link)).expect("a link");
    }
    let figures = |compiled: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodegauge"));
        command.args(["mpi", "--no-save", "--json", "-", "--patterns", "latency,bw"]);
        command.args(["--pairs", "0-1", "--sizes", "8,1KiB,64KiB,1MiB"]);
        match compiled {
            true => command.args(["--mpicc", mpicc]),
            false => command.env("PATH", bin.path()),
        };
        let output = command.output().expect("nodegauge runs");
        let record: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let probe = record["measurements"][0]["config"]["mpi"]["probe"].to_string();
        assert_eq!(probe.contains("precompiled"), !compiled, "{probe}");
        let all = record["measurements"].as_array().cloned().unwrap_or_default();
        let of = |m: &Value| {
            let name = m["name"].as_str().unwrap_or("?").to_owned();
            let of = |statistic: &str| m["summary"][statistic].as_f64();
            Some(((name, m["config"]["message_bytes"].as_u64()?), [of("median")?, of("best")?]))
        };
        all.iter().filter_map(of).collect::<BTreeMap<_, _>>()
    };
    let by_turns: Vec<_> = (0..rounds).map(|_| (figures(true), figures(false))).collect();
    print(&format!(
        "\n{mpicc}, {rounds} rounds\n\n| | bytes | carried over compiled | least | greatest | compiled over itself | best over best |\n| --- | --- | --- | --- | --- | --- | --- |"
    ));
    for (name, bytes) in by_turns[0].0.keys() {
        let key = (name.clone(), *bytes);
        // Median and best of each round that has both.
        let both: Vec<([f64; 2], [f64; 2])> = by_turns
            .iter()
            .filter_map(|(compiled, carried)| Some((*compiled.get(&key)?, *carried.get(&key)?)))
            .collect();
        let mut ratios: Vec<f64> =
            both.iter().map(|(compiled, carried)| carried[0] / compiled[0]).collect();
        ratios.sort_by(f64::total_cmp);
        let chance = halves(&both.iter().map(|(compiled, _)| compiled[0]).collect::<Vec<f64>>());
        let best = |of: fn(&([f64; 2], [f64; 2])) -> f64| {
            let better = if name == "latency" { f64::min } else { f64::max };
            both.iter().map(of).reduce(better).unwrap_or(f64::NAN)
        };
        let best = best(|(_, carried)| carried[1]) / best(|(compiled, _)| compiled[1]);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let median = ratios[ratios.len() / 2];
        print(&format!(
            "| {name} | {bytes} | {median:.3} | {least:.3} | {most:.3} | {chance:.3} | {best:.3} |"
        ));
    }
}

fn print_table(mpicc: &str, record: &Value) {
    print(&format!(
        "\n{mpicc}\n\n| | bytes | probe | OSU | ratio | within 3 % | OSU over itself |\n| --- | --- | --- | --- | --- | --- | --- |"
    ));
    let digits = variable("OSU_DIGITS").unwrap_or(2);
    let half_digit = 0.5e-6 * 0.1f64.powi(digits);
    let empty = Vec::new();
    let all = record["measurements"].as_array().unwrap_or(&empty);
    for own in all.iter().filter(|m| m["category"] == "variant") {
        let (name, bytes) = (&own["name"], &own["config"]["message_bytes"]);
        let osu = all.iter().find(|m| {
            m["category"] == "reference"
                && m["name"] == *name
                && m["config"]["message_bytes"] == *bytes
        });
        let size = bytes.as_u64().unwrap_or(0);
        let (least, most) = if name == "latency" { LATENCY } else { RATE };
        let (Some(x), Some(y)) = (own["value"].as_f64(), osu.and_then(|m| m["value"].as_f64()))
        else {
            continue;
        };
        let ratio = own["config"]["over_osu"].as_f64().unwrap_or(f64::NAN);
        let slack = if name == "latency" { half_digit / y } else { 0.0 };
        let within = match (least..=most).contains(&size) {
            true if (ratio - 1.0).abs() <= BOUND + slack => "yes",
            true => "NO",
            false => "",
        };
        let (x, y) = if name == "latency" { (x * 1e6, y * 1e6) } else { (x / 1e9, y / 1e9) };
        let name = name.as_str().unwrap_or("?");
        let chance = osu.map_or(f64::NAN, over_itself);
        print(&format!(
            "| {name} | {size} | {x:.3} | {y:.3} | {ratio:.3} | {within} | {chance:.3} |"
        ));
    }
}

/// The median of every other round over that of the rest; NaN for fewer than two.
fn over_itself(m: &Value) -> f64 {
    let empty = Vec::new();
    let samples = m["samples"].as_array().unwrap_or(&empty);
    halves(&samples.iter().filter_map(Value::as_f64).collect::<Vec<f64>>())
}

fn halves(samples: &[f64]) -> f64 {
    let half = |first: usize| {
        let mut values: Vec<f64> = samples.iter().skip(first).step_by(2).copied().collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    half(1) / half(0)
}
