//! Compares the message probe with the OSU micro-benchmarks for both MPIs, interleaved, with `nodegauge mpi --osu`, and
//! checks the ratios against the bounds below. `OSU_OPENMPI=DIR` and `OSU_MPICH=DIR` name builds of OSU. Prints
//! Markdown: for each size, the ratio of the probe to OSU (median over `ROUNDS` rounds, default 5), and the ratio of
//! OSU's even rounds to its odd rounds, which shows the random part of such a ratio. OSU prints two decimals of a
//! microsecond unless its macro `FLOAT_PRECISION` is larger. `OSU_DIGITS` is the number of decimals; half a unit of the
//! last decimal is added to the bound.
//!
//! Before that, the precompiled probe is compared with the one that a compiler wrapper builds, for `ROUNDS` alternating
//! rounds. Prints the median of the ratios per round (expected within 1 %), the ratio of the compiled probe to itself
//! as above, and the ratio of the bests of all rounds.
//!
//! With `FLOOR=1`, both MPIs are compared with the lower bound instead, which is nodegauge's own transport, in `ROUNDS`
//! alternating runs. Prints the geometric mean, the minimum and the maximum of their shares.
//!
//! The comparisons with OSU and with the compiled probe are written to the result file.

mod common;

use common::{BestAndMedian, Comparison, UNKNOWN, note, print, variable, write_results};
use nodegauge_measure::stats;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Smallest and largest message size in bytes whose latencies are checked.
const LATENCY: (u64, u64) = (1, 8 << 10);
/// Smallest and largest message size in bytes whose bandwidths are checked.
const RATE: (u64, u64) = (64 << 10, 4 << 20);
/// Maximum deviation of a checked ratio from 1.
const BOUND: f64 = 0.03;

fn main() {
    if variable::<u32>("FLOOR").is_some() {
        return compare_with_lower_bound(variable("ROUNDS").unwrap_or(3));
    }
    let rounds: usize = variable("ROUNDS").unwrap_or(5);
    let mut comparisons = Vec::new();
    for (mpicc, mpirun, peer) in [
        ("mpicc.openmpi", "mpirun.openmpi", "compiled-probe-openmpi"),
        ("mpicc.mpich", "mpirun.mpich", "compiled-probe-mpich"),
    ] {
        comparisons.extend(compare_probes(mpicc, mpirun, rounds, peer));
    }
    let rounds = rounds.to_string();
    for (mpicc, name, peer) in
        [("mpicc.openmpi", "OSU_OPENMPI", "osu-openmpi"), ("mpicc.mpich", "OSU_MPICH", "osu-mpich")]
    {
        let Some(folder) = variable::<String>(name) else {
            note(&format!("{name} is not set: {mpicc} skipped"));
            continue;
        };
        let args = ["--allow-run-as-root", "--osu", &folder, "--samples", &rounds];
        comparisons.extend(print_table(mpicc, &record(mpicc, &args), peer));
    }
    write_results("mpi", &comparisons);
}

/// Returns the MPI library in a record with its version, e.g. `MPICH 4.0.2`.
fn library(record: &Value) -> String {
    let mpi = &record["measurements"][0]["config"]["mpi"];
    let part = |name: &str| mpi[name].as_str().unwrap_or(UNKNOWN);
    format!("{} {}", part("library"), part("version"))
}

/// Formats a message size, e.g. `64 KiB`.
fn size_in_words(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Runs `nodegauge mpi` with the MPI of `mpicc` and with these options; returns the record.
fn record(mpicc: &str, args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(["mpi", "--no-save", "--json", "-", "--mpicc", mpicc, "--patterns", "latency,bw"])
        .args(args)
        .output()
        .expect("nodegauge runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Prints the share of the lower bound that each MPI reaches in alternating runs.
fn compare_with_lower_bound(rounds: usize) {
    print("| | bytes | MPI | floor | share of the floor |\n| --- | --- | --- | --- | --- |");
    let mpis = ["mpicc.openmpi", "mpicc.mpich"];
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (mpicc, own_runs) in mpis.iter().zip(&mut runs) {
            own_runs.push(record(mpicc, &["--sizes", "8,64KiB,1MiB"]));
        }
    }
    for (name, bytes) in [("latency", 8), ("bw", 64 << 10), ("bw", 1 << 20)] {
        for (mpicc, own_runs) in mpis.iter().zip(&runs) {
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
            let found: Vec<[f64; 3]> = own_runs
                .iter()
                .filter_map(|run| Some(own(run)?.map(|value| value.unwrap_or(f64::NAN))))
                .collect();
            let mean = |at: usize| {
                let logs: f64 = found.iter().map(|figures| figures[at].ln()).sum();
                (logs / found.len() as f64).exp()
            };
            let shares = found.iter().map(|figures| figures[2]);
            let least = shares.clone().fold(f64::INFINITY, f64::min);
            let most = shares.fold(0.0, f64::max);
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

/// Compares the compiled and the precompiled probe of one MPI, interleaved.
fn compare_probes(mpicc: &str, mpirun: &str, rounds: usize, peer: &'static str) -> Vec<Comparison> {
    let version = std::cell::RefCell::new(UNKNOWN.to_owned());
    // This search path contains a launcher, but no compiler.
    let bin = tempfile::tempdir().expect("a folder");
    // Hydra searches its proxy in its own folder, and Open MPI requires ssh, with which it starts ranks on other nodes.
    let proxy = "hydra_pmi_proxy";
    for (name, link) in [(mpirun, "mpirun"), (proxy, proxy), ("true", "ssh")] {
        let target = Path::new("/usr/bin").join(name);
        std::os::unix::fs::symlink(target, bin.path().join(link)).expect("a link");
    }
    let figures = |compiled: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodegauge"));
        command.args(["mpi", "--no-save", "--json", "-", "--patterns", "latency,bw"]);
        command.args(["--pairs", "0-1", "--sizes", "8,1KiB,64KiB,1MiB"]);
        if compiled {
            command.args(["--mpicc", mpicc]);
        } else {
            command.env("PATH", bin.path());
        }
        let output = command.output().expect("nodegauge runs");
        let record: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        *version.borrow_mut() = library(&record);
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
        "\n{mpicc}, {rounds} rounds\n\n| | bytes | precompiled over compiled | minimum | maximum | compiled over itself | best over best |\n| --- | --- | --- | --- | --- | --- | --- |"
    ));
    let mut comparisons = Vec::new();
    for (name, bytes) in by_turns[0].0.keys() {
        let key = (name.clone(), *bytes);
        // Median and best of each round in which both probes have the figure.
        let both: Vec<([f64; 2], [f64; 2])> = by_turns
            .iter()
            .filter_map(|(compiled, carried)| Some((*compiled.get(&key)?, *carried.get(&key)?)))
            .collect();
        let mut ratios: Vec<f64> =
            both.iter().map(|(compiled, carried)| carried[0] / compiled[0]).collect();
        ratios.sort_by(f64::total_cmp);
        let chance =
            halves_ratio(&both.iter().map(|(compiled, _)| compiled[0]).collect::<Vec<f64>>());
        let best = |of: fn(&([f64; 2], [f64; 2])) -> f64| {
            let better = if name == "latency" { f64::min } else { f64::max };
            both.iter().map(of).reduce(better).unwrap_or(f64::NAN)
        };
        let best = best(|(_, carried)| carried[1]) / best(|(compiled, _)| compiled[1]);
        let least = ratios[0];
        let most = ratios[ratios.len() - 1];
        let median = ratios[ratios.len() / 2];
        print(&format!(
            "| {name} | {bytes} | {median:.3} | {least:.3} | {most:.3} | {chance:.3} | {best:.3} |"
        ));
        let none = BestAndMedian::default();
        let quantity = format!("{name} {}", size_in_words(*bytes));
        let comparison = Comparison::from_rates(peer, quantity, "", none, none)
            .with_version(version.borrow().clone())
            .with_noise(format!("{:.3}", (chance - 1.0).abs()));
        let printed = BestAndMedian::both(best, median);
        let ratio = if name == "latency" {
            BestAndMedian::both(1.0, 1.0).ratio_to(printed)
        } else {
            printed
        };
        comparisons.push(Comparison { ratio, ..comparison });
    }
    comparisons
}

/// Prints the table of an MPI, and returns the comparisons of its checked sizes for the result file.
fn print_table(mpicc: &str, record: &Value, peer: &'static str) -> Vec<Comparison> {
    print(&format!(
        "\n{mpicc}\n\n| | bytes | probe | OSU | ratio | within 3 % | OSU over itself |\n| --- | --- | --- | --- | --- | --- | --- |"
    ));
    let digits = variable("OSU_DIGITS").unwrap_or(2);
    let half_digit = 0.5e-6 * 0.1f64.powi(digits);
    let empty = Vec::new();
    let all = record["measurements"].as_array().unwrap_or(&empty);
    let version = library(record);
    let mut comparisons = Vec::new();
    let mut chances = Vec::new();
    for own in all.iter().filter(|m| m["category"] == "variant") {
        let name = &own["name"];
        let bytes = &own["config"]["message_bytes"];
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
        let within = if !(least..=most).contains(&size) {
            ""
        } else if (ratio - 1.0).abs() <= BOUND + slack {
            "yes"
        } else {
            "NO"
        };
        let (x, y) = if name == "latency" { (x * 1e6, y * 1e6) } else { (x / 1e9, y / 1e9) };
        let name = name.as_str().unwrap_or("?");
        let chance = osu.map_or(f64::NAN, ratio_to_itself);
        print(&format!(
            "| {name} | {size} | {x:.3} | {y:.3} | {ratio:.3} | {within} | {chance:.3} |"
        ));
        if within.is_empty() {
            continue;
        }
        let quantity = format!("{name} {}", size_in_words(size));
        let [own_median, their_median] = [x, y].map(BestAndMedian::median);
        let is_time = name == "latency";
        let unit = if is_time { "us" } else { "GB/s" };
        let comparison = Comparison::from_rates(peer, quantity, unit, own_median, their_median);
        let ratio = BestAndMedian::median(if is_time { 1.0 / ratio } else { ratio });
        comparisons.push(Comparison { ratio, ..comparison.with_version(&version) });
        chances.push((chance - 1.0).abs());
    }
    // The deviation of a single size may be small by chance, so the noise is at least the median over all sizes.
    let typical = stats::median(&chances);
    let with_noise = |(comparison, chance): (Comparison, &f64)| {
        comparison.with_noise(format!("{:.3}", chance.max(typical)))
    };
    comparisons.into_iter().zip(&chances).map(with_noise).collect()
}

/// Returns the ratio of the median of the even rounds to that of the odd rounds; NaN for fewer than two rounds.
fn ratio_to_itself(m: &Value) -> f64 {
    let empty = Vec::new();
    let samples = m["samples"].as_array().unwrap_or(&empty);
    halves_ratio(&samples.iter().filter_map(Value::as_f64).collect::<Vec<f64>>())
}

/// Returns the ratio of the median of the samples with even numbers to that of the samples with odd numbers.
fn halves_ratio(samples: &[f64]) -> f64 {
    let half = |first: usize| {
        let mut values: Vec<f64> = samples.iter().skip(first).step_by(2).copied().collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    half(1) / half(0)
}
