//! Compares the native kernels with the same loops built by every installed compiler, on the same arrays and threads,
//! alternating in one run: `nodegauge stream --compiler all`.
//!
//! The four kernels of STREAM run together, as in STREAM. Each other kernel runs alone, because the content of the
//! caches after the previous kernel depends on its stores (non-temporal or regular). `BUDGET` is the time of each run
//! in seconds (default 30). Arguments replace the list of kernels per run, e.g. `cargo bench --bench compilers -- read
//! dot`. Prints Markdown and writes the result file: for each kernel and regime, the best rate and the best median of
//! all compiled variants, which may belong to different variants.

mod common;

use common::{
    BestAndMedian, Comparison, nodegauge, note, print, variable, version_of, write_results,
};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::regime;
use nodegauge_measure::stats::Summary;
use serde_json::Value;

/// Kernels per run.
const RUNS: [&str; 6] = ["copy,scale,add,triad", "read", "write", "update", "dot", "nstream"];
/// Minimum number of samples of a loop in a regime; regimes with fewer samples are left out.
const MIN_SAMPLES: usize = 3;

fn main() {
    let budget: String = variable("BUDGET").unwrap_or_else(|| "30".to_owned());
    let mut out = String::from(
        "| loop | round trip | native best (median) | compiled best | of | compiled median | of | best / best | median / median | samples |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    // `cargo bench` adds options to the arguments.
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runs = if asked.is_empty() { RUNS.map(str::to_owned).to_vec() } else { asked };
    let compilers =
        ["gcc", "clang"].map(|name| format!("{name} {}", version_of(name, &["-dumpversion"])));
    let version = compilers.join(" / ");
    let mut comparisons = Vec::new();
    for kernels in &runs {
        note(&format!("{kernels} ..."));
        let record =
            nodegauge(&["stream", "--compiler", "all", "--kernels", kernels, "--budget", &budget]);
        for native in record.measurements.iter().filter(|m| !is_compiled(m)) {
            let compiled: Vec<&Measurement> = record
                .measurements
                .iter()
                .filter(|m| is_compiled(m) && m.name == native.name)
                .collect();
            let regimes = regimes(native);
            for (trip, summary) in &regimes {
                let Some(fastest) = Fastest::in_regime(*trip, &compiled) else { continue };
                out.push_str(&line(native, *trip, summary, &fastest));
                let quantity = if regimes.len() > 1 {
                    format!("{} ({})", native.name, Seconds(*trip))
                } else {
                    native.name.clone()
                };
                let own = BestAndMedian::both(summary.best, summary.median).scaled(1e-9);
                let theirs = BestAndMedian::both(fastest.best.1, fastest.median.1).scaled(1e-9);
                let rates = Comparison::from_rates("compiled", quantity, "GB/s", own, theirs);
                comparisons.push(rates.with_version(&version));
            }
        }
    }
    print(&out);
    write_results("compilers", &comparisons);
}

fn is_compiled(m: &Measurement) -> bool {
    m.config.get("engine").and_then(Value::as_str) == Some("compiled")
}

fn command(m: &Measurement) -> &str {
    m.config["compiler"]["command"].as_str().unwrap_or("?")
}

/// Returns the regimes in which a loop has enough samples. Each has its round trip in seconds (NaN for one thread).
fn regimes(m: &Measurement) -> Vec<(f64, Summary)> {
    if m.regimes.is_empty() {
        let trip = m.config.get("round_trip_s").and_then(Value::as_f64).unwrap_or(f64::NAN);
        return m.summary.iter().map(|summary| (trip, summary.clone())).collect();
    }
    let often = m.regimes.iter().filter(|regime| regime.summary.n >= MIN_SAMPLES);
    often.map(|regime| (regime.round_trip_s, regime.summary.clone())).collect()
}

/// Fastest compiled variants in a regime: their best rate and best median with the commands, and the number of samples.
struct Fastest {
    best: (String, f64),
    median: (String, f64),
    samples: usize,
}

impl Fastest {
    /// Returns the fastest variants in the regime with this round trip; `None` if no variant has samples in it.
    fn in_regime(trip: f64, compiled: &[&Measurement]) -> Option<Self> {
        let alike: Vec<(&str, Summary)> = compiled
            .iter()
            .flat_map(|m| {
                regimes(m).into_iter().map(|(other, summary)| (command(m), other, summary))
            })
            .filter(|(_, other, _)| regime::may_share_regime(*other, trip))
            .map(|(command, _, summary)| (command, summary))
            .collect();
        let most = |figure: &dyn Fn(&Summary) -> f64| {
            alike
                .iter()
                .map(|(command, summary)| ((*command).to_owned(), figure(summary)))
                .max_by(|x, y| x.1.total_cmp(&y.1))
        };
        let samples = alike.iter().map(|(_, summary)| summary.n).sum();
        Some(Self { best: most(&|s| s.best)?, median: most(&|s| s.median)?, samples })
    }
}

fn line(native: &Measurement, trip: f64, own: &Summary, fastest: &Fastest) -> String {
    let Fastest { best, median, samples } = fastest;
    format!(
        "| {} | {} | {:.1} ({:.1}) GB/s | {:.1} | {} | {:.1} | {} | {:.3} | {:.3} | {} : {samples} |\n",
        native.name,
        Seconds(trip),
        own.best / 1e9,
        own.median / 1e9,
        best.1 / 1e9,
        best.0,
        median.1 / 1e9,
        median.0,
        own.best / best.1,
        own.median / median.1,
        own.n,
    )
}
