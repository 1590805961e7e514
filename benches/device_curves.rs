//! Measures latency under load in the memory of a device (`DEVICE`, default `cuda:0`): `device curves` alternates with
//! `device stream`, whose kernels read, nstream, update and write have the mixes 1:0, 3:1, 1:1 and 0:1.
//!
//! Runs `ROUNDS` times (default 3), with `BUDGET` seconds per run of the curves (default 70) and a third of it per run
//! of the kernels. With the default values, this takes six minutes. Prints Markdown: the figures of the curves with the
//! spread over the runs, and the bandwidth of each mix compared with that of its kernel.

mod common;

use common::{nodegauge, note, print, range, variable};
use nodegauge_measure::record::Record;
use nodegauge_measure::stats;

/// Mixes with the kernel of `device stream` that moves the same lines, if there is one.
const MIXES: [(&str, Option<&str>); 5] = [
    ("1:0", Some("read")),
    ("3:1", Some("nstream")),
    ("2:1", None),
    ("1:1", Some("update")),
    ("0:1", Some("write")),
];

fn value(record: &Record, name: &str) -> Option<f64> {
    record.measurements.iter().find(|m| m.name == name)?.value
}

/// Returns the values of a figure in all runs.
fn values(records: &[Record], name: &str) -> Vec<f64> {
    records.iter().filter_map(|record| value(record, name)).collect()
}

/// Formats the median of a figure over the runs, multiplied by `factor`, and its range relative to the median.
fn median_and_range(records: &[Record], name: &str, factor: f64) -> String {
    let all = values(records, name);
    if all.is_empty() {
        return "-".to_owned();
    }
    let median = stats::median(&all);
    let relative: Vec<f64> = all.iter().map(|value| value / median).collect();
    format!("{:.4} ({})", median * factor, range(&relative))
}

fn main() {
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let device = std::env::var("DEVICE").unwrap_or_else(|_| "cuda:0".to_owned());
    let rounds: usize = variable("ROUNDS").unwrap_or(3);
    let budget: f64 = variable("BUDGET").unwrap_or(70.0);
    let of_curves = budget.to_string();
    let of_kernels = (budget / 3.0).to_string();
    let kernels: Vec<&str> = MIXES.iter().filter_map(|(_, kernel)| *kernel).collect();
    let kernels = kernels.join(",");
    let mut curves = Vec::new();
    let mut streams = Vec::new();
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        curves.push(nodegauge(&["device", "curves", "--device", &device, "--budget", &of_curves]));
        let args = ["device", "stream", "--device", &device, "--kernels", &kernels];
        streams.push(nodegauge(&[&args[..], &["--budget", &of_kernels]].concat()));
    }
    print(
        "| mix | idle, ns (runs) | knee, GB/s (runs) | all, GB/s (runs) | kernel, GB/s (runs) | ratio |",
    );
    print("| --- | --- | --- | --- | --- | --- |");
    for (mix, kernel) in MIXES {
        let saturated = format!("saturated_{mix}");
        let own = values(&curves, &saturated).into_iter().fold(f64::NAN, f64::max);
        let theirs = kernel.map(|kernel| values(&streams, kernel));
        let best = theirs.unwrap_or_default().into_iter().fold(f64::NAN, f64::max);
        print(&format!(
            "| {mix} | {} | {} | {} | {} | {:.3} |",
            median_and_range(&curves, &format!("idle_{mix}"), 1e9),
            median_and_range(&curves, &format!("knee_{mix}"), 1e-9),
            median_and_range(&curves, &saturated, 1e-9),
            kernel
                .map_or_else(|| "-".to_owned(), |kernel| median_and_range(&streams, kernel, 1e-9)),
            own / best,
        ));
    }
}
