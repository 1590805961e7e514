//! Compares the ceilings of `roofline` with likwid-bench's loops of the same kind, interleaved, on all threads and with
//! working sets of the same size.
//!
//! Each of the `ROUNDS` rounds (default 5) has a run of nodegauge, followed by likwid-bench's kernels of the same kind
//! for each ceiling, of which the fastest counts. likwid-bench prints the average over a second, so it is compared with
//! nodegauge's median; the bests of all rounds are compared, too. Prints Markdown and writes the result file.

mod common;

use common::{
    BestAndMedian, Comparison, is_installed, likwid_bench, nodegauge, note, print, range, variable,
    version_of, write_results,
};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::stats;
use std::collections::BTreeMap;

/// Ceilings by suffix, with the kernels of likwid-bench for the same loop, and the label of their figure in its output.
const LOOPS: [(&str, &[&str], &str); 6] = [
    ("_read", &["load_avx", "load_avx512"], BYTES),
    ("memory_triad", &["stream_mem_avx_fma", "stream_mem_avx512", "stream_avx512_fma"], BYTES),
    ("_triad", &["stream_avx_fma", "stream_avx512_fma"], BYTES),
    ("fma", &["peakflops_avx_fma", "peakflops_avx512_fma"], FLOPS),
    ("simd", &["peakflops_sse", "peakflops_avx", "peakflops_avx512"], FLOPS),
    ("scalar", &["peakflops"], FLOPS),
];
const BYTES: &str = "MByte/s:";
const FLOPS: &str = "MFlops/s:";
/// Working set per thread of computing loops in bytes, which fits in the first-level cache.
const SMALL: u64 = 16 << 10;

/// Figures of a round: median and best of nodegauge, and the average of likwid-bench.
type Round = (f64, f64, f64);

fn main() {
    if !is_installed("likwid-bench") {
        note("likwid-bench is not installed");
        return;
    }
    let rounds: usize = variable("ROUNDS").unwrap_or(5);
    let budget = variable("BUDGET").unwrap_or("15".to_owned());
    let mut all: BTreeMap<String, Vec<Round>> = BTreeMap::new();
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        let record = nodegauge(&["roofline", "--budget", &budget]);
        let ceilings = record.measurements.iter().filter(|m| {
            ["bandwidth", "peak"].contains(&m.test.as_str()) && !m.name.ends_with("_one")
        });
        for m in ceilings {
            let Some((median, best, theirs)) = compared(m) else { continue };
            all.entry(m.name.clone()).or_default().push((median, best, theirs));
        }
    }
    print(&report(&all));
    write_results("roofline", &comparisons(&all));
}

/// Runs the kernels of likwid-bench for a ceiling. Returns the figures of the ceiling and that of the fastest kernel;
/// `None` if no kernel exists.
fn compared(m: &Measurement) -> Option<Round> {
    let (_, kernels, label) = LOOPS.iter().find(|(end, ..)| m.name.ends_with(end))?;
    let number = |key: &str| m.config.get(key).and_then(|value| value.as_u64());
    let threads = number("threads")?;
    let set = number("set_bytes").unwrap_or(SMALL * threads);
    let group = format!("N:{}kB:{threads}", set >> 10);
    let theirs = kernels.iter().filter_map(|kernel| likwid_bench(kernel, &group, label, &[]));
    let theirs = theirs.reduce(f64::max)?;
    Some((m.summary.as_ref()?.median, m.value?, theirs))
}

/// Returns the comparisons for the result file. The ratio of medians is the median over rounds.
fn comparisons(all: &BTreeMap<String, Vec<Round>>) -> Vec<Comparison> {
    let likwid = version_of("likwid-bench", &["-v"]);
    let comparison = |(name, rounds): (&String, &Vec<Round>)| {
        let column = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let [medians, bests] = [column(|round| round.0), column(|round| round.1)];
        let theirs = column(|round| round.2);
        let ratios = column(|(median, _, peer)| median / peer);
        let own = BestAndMedian::both(most(&bests), stats::median(&medians)).scaled(1e-9);
        let peer = BestAndMedian::both(most(&theirs), stats::median(&theirs)).scaled(1e-9);
        let unit = if name.contains("read") || name.contains("triad") { "GB/s" } else { "GFLOP/s" };
        let rates = Comparison::from_rates("likwid-ceilings", name.clone(), unit, own, peer);
        let ratio = BestAndMedian { median: Some(stats::median(&ratios)), ..rates.ratio };
        Comparison { ratio, ..rates.with_version(&likwid).with_noise(range(&ratios)) }
    };
    all.iter().map(comparison).collect()
}

fn report(all: &BTreeMap<String, Vec<Round>>) -> String {
    let mut out = String::from(
        "| ceiling | nodegauge, best | likwid-bench, best | ratio | median over average, median of rounds | range of ratios | rounds |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (name, rounds) in all {
        let best = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(0.0, f64::max);
        let (own, theirs) = (best(|round| round.1), best(|round| round.2));
        let ratios: Vec<f64> = rounds.iter().map(|(median, _, peer)| median / peer).collect();
        out.push_str(&format!(
            "| {name} | {:.1} | {:.1} | {:.3} | {:.3} | {:.3} to {:.3} | {} |\n",
            own / 1e9,
            theirs / 1e9,
            own / theirs,
            stats::median(&ratios),
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
            rounds.len(),
        ));
    }
    out
}
