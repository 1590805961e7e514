//! Compares the bandwidth of all threads for each ratio of reads to writes: `memory curves` (`saturated_MIX`), `memory
//! mix`, and likwid-bench's kernels with the same ratio, in one run.
//!
//! Each program runs once per round, in random order, `ROUNDS` times (default 3), on arrays of the same length.
//! `BUDGET` (default 40) is the time of a run of the curves in seconds. With two CPUs, the bench takes about five
//! minutes. Each figure is the best of all rounds. Ratios are above 1 if `memory curves` is faster; their
//! ranges are over the rounds. Prints Markdown and writes the result file.

mod common;

use common::{
    BestAndMedian, Comparison, is_installed, likwid_bench, nodegauge, note, print, range, variable,
    version_of, write_results,
};
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::record::Record;
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::stats;
use nodegauge_placement::PlacementRequest;

/// Mix of lines read and lines written, with the kernels of likwid-bench that have the same mix, and their number of
/// arrays.
struct ComparedMix {
    name: &'static str,
    kernels: &'static [&'static str],
    arrays: u64,
}

/// Mixes of the family. likwid-bench has no kernel that reads three lines and writes one of them.
const MIXES: [ComparedMix; 5] = [
    ComparedMix { name: "1:0", kernels: &["load_avx", "load_avx512"], arrays: 1 },
    ComparedMix { name: "3:1", kernels: &[], arrays: 3 },
    ComparedMix {
        name: "2:1",
        kernels: &["daxpy_avx", "daxpy_avx_fma", "daxpy_avx512_fma"],
        arrays: 2,
    },
    ComparedMix { name: "1:1", kernels: &["update_avx", "update_avx512"], arrays: 1 },
    ComparedMix { name: "0:1-nt", kernels: &["store_mem_avx", "store_mem_avx512"], arrays: 1 },
];
/// Passes per run of likwid-bench.
const PASSES: &str = "20";

/// Program that runs once per round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Program {
    Curves,
    Mix,
    /// Kernels of likwid-bench for the mix with this index.
    Likwid(usize),
}

/// Rates of a mix in all rounds, B/s.
#[derive(Debug, Default, Clone)]
struct Rates {
    curves: Vec<f64>,
    mix: Vec<f64>,
    likwid: Vec<f64>,
}

fn value(record: &Record, name: &str) -> Option<f64> {
    record.measurements.iter().find(|m| m.name == name)?.value
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::NAN, f64::max)
}

/// Returns the ratio of the own rate to the peer's rate in each round.
fn ratios(own: &[f64], theirs: &[f64]) -> Vec<f64> {
    own.iter().zip(theirs).map(|(own, theirs)| own / theirs).collect()
}

fn main() {
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let rounds: usize = variable("ROUNDS").unwrap_or(3);
    let budget = std::env::var("BUDGET").unwrap_or_else(|_| "40".to_owned());
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let placement =
        nodegauge_placement::plan(&topology, &PlacementRequest::default()).expect("there are CPUs");
    let threads = placement.threads.len();
    // The reference programs use arrays of the length that nodegauge chooses.
    let first = nodegauge(&["memory", "mix", "--samples", "1"]);
    let array = first.measurements.iter().find_map(|m| m.config.get("array_bytes")?.as_u64());
    let array = array.expect("a run records the length of its arrays");
    let mut programs = vec![Program::Curves, Program::Mix];
    if is_installed("likwid-bench") {
        programs.extend((0..MIXES.len()).map(Program::Likwid));
    } else {
        note("likwid-bench is not installed: skipped");
    }
    let mut rates = vec![Rates::default(); MIXES.len()];
    let mut order = Shuffler::new(0x6D69_7865);
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        order.shuffle(&mut programs);
        for program in &programs {
            match program {
                Program::Curves => {
                    let record = nodegauge(&["memory", "curves", "--budget", &budget]);
                    for (of, mix) in rates.iter_mut().zip(&MIXES) {
                        of.curves.extend(value(&record, &format!("saturated_{}", mix.name)));
                    }
                }
                Program::Mix => {
                    let record = nodegauge(&["memory", "mix"]);
                    for (of, mix) in rates.iter_mut().zip(&MIXES) {
                        of.mix.extend(value(&record, mix.name));
                    }
                }
                Program::Likwid(number) => {
                    let ComparedMix { kernels, arrays, .. } = &MIXES[*number];
                    let group = format!("N:{}kB:{threads}", arrays * array / 1000);
                    let run =
                        |kernel: &&str| likwid_bench(kernel, &group, "MByte/s:", &["-i", PASSES]);
                    let fastest = kernels.iter().filter_map(run).reduce(f64::max);
                    rates[*number].likwid.extend(fastest);
                }
            }
        }
    }
    print("| mix | memory curves | memory mix | ratio (rounds) | likwid-bench | ratio (rounds) |");
    print("| --- | ---: | ---: | --- | ---: | --- |");
    let version = version_of("likwid-bench", &["-v"]);
    let mut comparisons = Vec::new();
    for (of, mix) in rates.iter().zip(&MIXES) {
        let own = best(&of.curves);
        let [by_mix, to_mix] = against(&of.curves, &of.mix);
        let [by_likwid, to_likwid] = against(&of.curves, &of.likwid);
        let name = mix.name;
        print(&format!(
            "| {name} | {:.2} | {by_mix} | {to_mix} | {by_likwid} | {to_likwid} |",
            own / 1e9
        ));
        if of.likwid.is_empty() || of.curves.is_empty() {
            continue;
        }
        let ours = best_and_median(&of.curves);
        let theirs = best_and_median(&of.likwid);
        let compared =
            Comparison::from_rates("likwid-mixes", mix.name.to_owned(), "GB/s", ours, theirs);
        let noise = range(&ratios(&of.curves, &of.likwid));
        comparisons.push(compared.with_version(version.clone()).with_noise(noise));
    }
    write_results("mixes", &comparisons);
}

/// Returns the best and the median of rates in GB/s.
fn best_and_median(rates: &[f64]) -> BestAndMedian {
    BestAndMedian::both(best(rates), stats::median(rates)).scaled(1e-9)
}

/// Formats the best rate of a peer in GB/s, and the ratio of the own best rate to it with the range over the rounds;
/// dashes without a peer.
fn against(own: &[f64], theirs: &[f64]) -> [String; 2] {
    if theirs.is_empty() {
        return ["-".to_owned(), "-".to_owned()];
    }
    let peer = best(theirs);
    let spread = range(&ratios(own, theirs));
    [format!("{:.2}", peer / 1e9), format!("{:.3} ({spread})", best(own) / peer)]
}
