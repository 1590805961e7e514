//! Compares STREAM through OpenCL on the host's processor (PoCL) with nodegauge's own loops with regular stores, and
//! with BabelStream's OpenCL build at `BABELSTREAM_OCL`. The programs alternate. Prints Markdown and writes the result
//! file.
//!
//! `BABELSTREAM_OCL=path/to/ocl-stream ROUNDS=5 make bench BENCHES=device`

mod common;

use common::{BestAndMedian, Comparison, nodegauge, note, print, variable, write_results};
use nodegauge_measure::stats::{median, quantile};
use std::collections::BTreeMap;
use std::process::Command;

/// Elements per array for all programs: 420 MiB, which is four times the L3 cache of a Sapphire Rapids (105 MiB).
const ELEMENTS: &str = "55050240";
/// Kernels by their names in nodegauge and in BabelStream.
const KERNELS: [(&str, &str); 6] = [
    ("copy", "Copy"),
    ("scale", "Mul"),
    ("add", "Add"),
    ("triad", "Triad"),
    ("dot", "Dot"),
    ("nstream", "Nstream"),
];

/// Best and median rate of each kernel, B/s.
type Rates = BTreeMap<String, (f64, f64)>;

fn own_rates(args: &[&str]) -> Rates {
    let names: Vec<&str> = KERNELS.iter().map(|(name, _)| *name).collect();
    let names = names.join(",");
    let elements = format!("{ELEMENTS}elements");
    let size = ["--size", &elements, "--kernels", &names, "--budget", "10"];
    let record = nodegauge(&[args, &size[..]].concat());
    let rate = |m: &nodegauge_measure::record::Measurement| {
        let summary = m.summary.as_ref()?;
        Some((m.name.clone(), (summary.best, summary.median)))
    };
    record.measurements.iter().filter_map(rate).collect()
}

/// Returns BabelStream's figures: the best pass and the average of all passes.
fn babelstream(program: &str) -> Rates {
    let args = ["--arraysize", ELEMENTS, "--numtimes", "20", "--csv"];
    let output = Command::new(program).args(args).output().expect("BabelStream runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = |line: &str| {
        // function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime
        let cells: Vec<&str> = line.split(',').collect();
        let (name, _) = KERNELS.iter().find(|(_, theirs)| Some(theirs) == cells.first())?;
        let number = |at: usize| cells.get(at)?.trim().parse::<f64>().ok();
        let best = number(4)? * 1e6;
        Some(((*name).to_owned(), (best, best * number(5)? / number(7)?)))
    };
    text.lines().filter_map(rate).collect()
}

fn main() {
    let rounds = variable("ROUNDS").unwrap_or(5);
    let theirs: Option<String> = variable("BABELSTREAM_OCL");
    let mut found: [Vec<Rates>; 4] = Default::default();
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        found[0].push(own_rates(&["device", "stream", "--device", "opencl:0"]));
        found[1].push(own_rates(&["stream", "--stores", "regular"]));
        found[2].push(own_rates(&[
            "stream",
            "--stores",
            "regular",
            "--pages",
            "4k",
            "--side-by-side",
            "1",
        ]));
        found[3].extend(theirs.as_ref().map(|program| babelstream(program)));
    }
    print(
        "| loop | PoCL best (median) | native, regular stores | ratio | native, 4 KiB pages one by one | ratio | BabelStream OCL on PoCL | ratio |",
    );
    print("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut comparisons = Vec::new();
    for (kernel, _) in KERNELS {
        let of = |rates: &[Rates]| -> Option<(f64, f64)> {
            let all: Vec<&(f64, f64)> =
                rates.iter().filter_map(|round| round.get(kernel)).collect();
            let best: Vec<f64> = all.iter().map(|(best, _)| *best).collect();
            let medians: Vec<f64> = all.iter().map(|(_, median)| *median).collect();
            (!all.is_empty()).then(|| (quantile(&best, 1.0), median(&medians)))
        };
        let best_and_median = |rates: Option<(f64, f64)>| match rates {
            Some((best, median)) => format!("{:.1} ({:.1})", best / 1e9, median / 1e9),
            None => "-".to_owned(),
        };
        let ours = of(&found[0]);
        let mut line = format!("| {kernel} | {} GB/s", best_and_median(ours));
        for other in &found[1..] {
            let other = of(other);
            let ratio = ours.zip(other).map(|((best, middle), (other_best, of_middle))| {
                format!("{:.2} ({:.2})", best / other_best, middle / of_middle)
            });
            let ratio = ratio.unwrap_or_else(|| "-".to_owned());
            line += &format!(" | {} | {ratio}", best_and_median(other));
        }
        print(&format!("{line} |"));
        let peers = [
            ("native-loops", &found[1], "own loops; regular stores"),
            ("babelstream-ocl", &found[3], common::UNKNOWN),
        ];
        for (peer, rates, version) in peers {
            if let Some(both) = ours.zip(of(rates)) {
                let figure = |(best, median)| BestAndMedian::both(best, median).scaled(1e-9);
                let quantity = kernel.to_owned();
                let [own, other] = [both.0, both.1].map(figure);
                let compared = Comparison::from_rates(peer, quantity, "GB/s", own, other);
                comparisons.push(compared.with_version(version));
            }
        }
    }
    write_results("device", &comparisons);
}
