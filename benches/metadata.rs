//! Compares `nodegauge io --metadata` with mdtest: the same numbers of files, processes and directories, interleaved.
//!
//! `MDTEST=PATH` names an mdtest (no package has one), `LAUNCHER` the launcher of its ranks. `FOLDER=DIR` is the
//! directory of the files (default: the current one), `ROUNDS` the number of rounds (default 8), `FILES` the number of
//! files per process (default 1000). In each round, nodegauge has six turns before the six iterations of mdtest, and
//! three turns after them. Prints Markdown and writes the result file.

mod common;

use common::{BestAndMedian, Comparison, note, print, range, variable, write_results};
use nodegauge_files::WorkerKind;
use nodegauge_files::metadata::{MdtestOptions, MetadataOptions, MetadataPlan, MetadataPrograms};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_machine::{DescribeOptions, SysRoot, Topology, TopologySource};
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::quantity::number_form;
use nodegauge_measure::record::{Category, Measurement};
use nodegauge_measure::stats::median;
use nodegauge_toolchain::CommandLine;
use std::path::PathBuf;

/// Rates of an operation in all rounds.
struct Rates {
    /// Operation, workers and layout.
    quantity: String,
    version: String,
    own: Vec<f64>,
    theirs: Vec<f64>,
}

fn main() {
    let Some(program) = variable::<PathBuf>("MDTEST") else {
        return note("MDTEST is not set: nothing is compared");
    };
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let root = SysRoot::live();
    let machine = nodegauge_machine::describe(&topology, &root, &DescribeOptions::default());
    let site = MeasuredNode::new(topology, machine, root);
    let rounds: usize = variable("ROUNDS").unwrap_or(8);
    let mut all: Vec<Rates> = Vec::new();
    for _ in 0..rounds {
        let found = round(&program, &site);
        for theirs in found.iter().filter(|m| m.category == Category::Reference) {
            let own = found
                .iter()
                .find(|own| own.category == Category::Variant && key(own) == key(theirs));
            let Some((own, value)) = own.and_then(|own| own.value).zip(theirs.value) else {
                continue;
            };
            let quantity = key(theirs);
            match all.iter_mut().find(|known| known.quantity == quantity) {
                Some(known) => {
                    known.own.push(own);
                    known.theirs.push(value);
                }
                None => {
                    let version = text(theirs, "version");
                    all.push(Rates { quantity, version, own: vec![own], theirs: vec![value] });
                }
            }
        }
    }
    print(
        "| operation | nodegauge op/s | mdtest op/s | ratio of medians | ratio of bests | rounds |",
    );
    print("| --- | --- | --- | --- | --- | --- |");
    let mut comparisons = Vec::new();
    for rates in &all {
        let [own, theirs] = [&rates.own, &rates.theirs].map(|side| {
            BestAndMedian::both(side.iter().copied().fold(0.0, f64::max), median(side))
        });
        let ratios: Vec<f64> = rates.own.iter().zip(&rates.theirs).map(|(a, b)| a / b).collect();
        let comparison =
            Comparison::from_rates("mdtest", rates.quantity.clone(), "op/s", own, theirs);
        print(&format!(
            "| {} | {:.0} | {:.0} | {:.3} | {:.3} | {} |",
            rates.quantity,
            own.median.unwrap_or_default(),
            theirs.median.unwrap_or_default(),
            comparison.ratio.median.unwrap_or_default(),
            comparison.ratio.best.unwrap_or_default(),
            range(&ratios)
        ));
        comparisons.push(comparison.with_version(&rates.version).with_noise(range(&ratios)));
    }
    write_results("metadata", &comparisons);
}

/// Measures all cells once with both programs.
fn round(program: &std::path::Path, site: &MeasuredNode) -> Vec<Measurement> {
    let mdtest = MdtestOptions {
        program: program.to_owned(),
        launcher: variable::<CommandLine>("LAUNCHER"),
        allow_root: true,
    };
    let programs = MetadataPrograms::find(Some(&mdtest), None).expect("mdtest and its launcher");
    let folder = variable("FOLDER").unwrap_or_else(|| PathBuf::from("."));
    let options = MetadataOptions {
        paths: vec![std::path::absolute(folder).expect("a current directory")],
        files: Some(variable("FILES").unwrap_or(MetadataPlan::DEFAULT_FILES)),
        kind: WorkerKind::Processes,
        workers: vec![1, 2],
        samples: Some(6),
        ..MetadataOptions::default()
    };
    let plan = MetadataPlan::new(options, programs).expect("this can be measured here");
    let outcome = Box::new(plan).run(site, &mut SilentObserver).expect("there is a figure");
    if let Some(failure) = outcome.failure {
        note(&failure.to_string());
        std::process::exit(1);
    }
    outcome.measurements
}

/// Returns a key of the configuration as text.
fn text(m: &Measurement, key: &str) -> String {
    m.config.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the operation with the number of workers, the layout of directories, and the file system.
fn key(m: &Measurement) -> String {
    let count = m.config.get("processes").and_then(serde_json::Value::as_u64).unwrap_or(1);
    let kind = m.config.get("volume").and_then(|volume| volume.get("type"));
    let kind = kind.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let processes = number_form(count as usize, "process", "processes");
    format!("{}; {count} {processes}; {} directories; {kind}", m.name, text(m, "directories"))
}
