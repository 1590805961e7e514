//! Compares `nodegauge io` with IOzone and fio, which alternate in one run, and measures the overhead of a latency
//! sample.
//!
//! `IOZONE=PATH` names an iozone (its licence is not free, so no package is required); fio is found in `PATH`.
//! `FOLDER=DIR` is the folder of the files (default: the current one), `ROUNDS` the number of rounds (default 4), and
//! `MAX_MIB` the largest file of the grid (default 64). `ONLY=agreement` only compares two alternating runs of the
//! default grid. Prints Markdown and writes the result file.

mod common;

use common::{
    BestAndMedian, Comparison, is_installed, note, print, variable, version_of, write_results,
};
use nodegauge_files::reference::ReferenceProgram;
use nodegauge_files::{
    CacheMode, FilesOptions, IoEngine, OperationList, TaskSetup, choose_operations, latency_cost,
    plan, run,
};
use nodegauge_machine::SysRoot;
use nodegauge_measure::Bytes;
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::{Category, Measurement, Status};
use nodegauge_measure::stats::median;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Minimum file size for comparisons. For smaller files, most of the time is spent in system calls.
const COUNTED: u64 = 1 << 20;

fn main() {
    let rounds: usize = variable("ROUNDS").unwrap_or(4);
    let mib: u64 = variable("MAX_MIB").unwrap_or(64);
    let folder = variable("FOLDER").unwrap_or_else(|| PathBuf::from("."));
    if variable::<String>("ONLY").is_some_and(|only| only == "agreement") {
        return compare_with_itself(&folder, variable("MAX_MIB").map(Bytes::mib));
    }
    print_latency_overhead();
    let mut comparisons = Vec::new();
    match variable::<PathBuf>("IOZONE") {
        Some(program) => comparisons.extend(compare_with_iozone(&program, &folder, mib, rounds)),
        None => note("IOZONE is not set: the grid is skipped"),
    }
    if is_installed("fio") {
        comparisons.extend(compare_with_fio(&folder, rounds));
    } else {
        note("fio is not installed: skipped");
    }
    write_results("io", &comparisons);
}

/// Prints the overhead of a latency sample, to show that it does not affect the figures.
fn print_latency_overhead() {
    let mut best = f64::INFINITY;
    let mut memory = Bytes::default();
    for _ in 0..20 {
        let (bytes, overhead) = latency_cost();
        best = best.min(overhead.0);
        memory = bytes;
    }
    print(&format!(
        "A latency sample costs {:.1} ns (best of 20 x 100000); all samples occupy {memory}.\n",
        best * 1e9
    ));
}

/// Runs the default grid twice and prints the differences between the figures. Valid and suspect figures are printed
/// separately.
fn compare_with_itself(folder: &std::path::Path, max_file: Option<Bytes>) {
    let options = FilesOptions {
        paths: vec![folder.to_owned()],
        max_file,
        budget: Some(Duration::from_secs(120).into()),
        ..FilesOptions::default()
    };
    let runs = [(); 2].map(|()| {
        let started = Instant::now();
        let found = measured(options.clone(), Vec::new());
        note(&format!("elapsed time of a run: {:.1} s", started.elapsed().as_secs_f64()));
        found
    });
    print("| figures | number | median of A/B | within 10 % | within 20 % |");
    print("| --- | --- | --- | --- | --- |");
    for status in [Status::Valid, Status::Suspect] {
        let both = runs[0].iter().zip(&runs[1]).filter(|(a, b)| {
            a.validity.status.max(b.validity.status) == status
                && a.value.is_some()
                && b.value.is_some()
        });
        let ratios: Vec<f64> = both.filter_map(|(a, b)| Some(a.value? / b.value?)).collect();
        let within = |share: f64| {
            let near = ratios.iter().filter(|ratio| ratio.ln().abs() <= share.ln_1p()).count();
            100.0 * near as f64 / ratios.len() as f64
        };
        print(&format!(
            "| {} | {} | {:.3} | {:.1} % | {:.1} % |",
            status.name(),
            ratios.len(),
            median(&ratios),
            within(0.1),
            within(0.2)
        ));
    }
}

/// Runs each cell of the grid interleaved with IOzone, and then measures the time of the whole grid for both.
fn compare_with_iozone(
    program: &std::path::Path,
    folder: &std::path::Path,
    mib: u64,
    rounds: usize,
) -> Vec<Comparison> {
    let iozone = ReferenceProgram::find_iozone(program, None).expect("this is an iozone");
    let options = FilesOptions {
        paths: vec![folder.to_owned()],
        max_file: Some(Bytes::mib(mib)),
        samples: Some(rounds),
        ..FilesOptions::default()
    };
    let found = measured(options.clone(), vec![iozone]);
    print(&format!(
        "Grid to {mib} MiB, {rounds} rounds interleaved; medians over cells with files of 1 MiB and more.\n"
    ));
    let version = version_of(&program.display().to_string(), &["-v"]);
    let comparisons = table(&found, "IOzone", &version);
    let mut own_times = Vec::new();
    let mut iozone_times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        measured(FilesOptions { samples: Some(1), ..options.clone() }, Vec::new());
        own_times.push(started.elapsed().as_secs_f64());
        let write_started = Instant::now();
        let max = format!("{mib}M");
        let args = ["-a", "-g", &max, "-f", "nodegauge-bench-iozone"];
        let output = Command::new(program).args(args).current_dir(folder).output();
        assert!(output.expect("it runs").status.success());
        iozone_times.push(write_started.elapsed().as_secs_f64());
    }
    print(&format!(
        "Whole grid once: nodegauge {:.2} s, IOzone {:.2} s (medians of {rounds}).\n",
        median(&own_times),
        median(&iozone_times)
    ));
    comparisons
}

/// Compares direct I/O with fio, interleaved, with the same block size, engine and depth.
fn compare_with_fio(folder: &std::path::Path, rounds: usize) -> Vec<Comparison> {
    let cases: [(&str, u64, IoEngine, u32); 6] = [
        ("read", 1 << 20, IoEngine::Sync, 1),
        ("read", 128 << 10, IoEngine::Uring, 8),
        ("random_read", 4 << 10, IoEngine::Uring, 8),
        ("random_write", 4 << 10, IoEngine::Sync, 1),
        ("random_write", 4 << 10, IoEngine::Uring, 8),
        ("random_write", 128 << 10, IoEngine::Uring, 8),
    ];
    print("Direct I/O on a file of 256 MiB, compared with fio; medians of interleaved rounds.\n");
    print("| operation | block | engine | depth | nodegauge GB/s | fio GB/s | ratio |");
    print("| --- | --- | --- | --- | --- | --- | --- |");
    let limit = Duration::from_millis(700);
    let version = version_of("fio", &["--version"]);
    let mut comparisons = Vec::new();
    for (name, block, engine, depth) in cases {
        let fio = ReferenceProgram::find_fio(&PathBuf::from("fio"), None, Some(limit))
            .expect("this is fio");
        let options = FilesOptions {
            paths: vec![folder.to_owned()],
            files: Some(vec![Bytes::mib(256)]),
            blocks: Some(vec![Bytes(block)]),
            operations: choose_operations(
                &[name.parse::<OperationList>().expect("it is in the table")],
                None,
            )
            .expect("one operation needs one engine")
            .operations,
            setup: TaskSetup { engine, depth, ..TaskSetup::default() },
            caches: vec![CacheMode::Direct],
            limit: Some(limit),
            samples: Some(rounds),
            ..FilesOptions::default()
        };
        let found = measured(options, vec![fio]);
        let of = |category| {
            let m = found.iter().find(|m| m.category == category);
            m.map_or_else(Vec::new, |m| m.samples.clone())
        };
        let ours = of(Category::Variant);
        let theirs = of(Category::Reference);
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
        print(&format!(
            "| {name} | {} | {} | {depth} | {:.3} | {:.3} | {:.3} |",
            Bytes(block),
            engine.name(),
            median(&ours) / 1e9,
            median(&theirs) / 1e9,
            median(&ratios)
        ));
        let quantity = format!("{name} {}; {} depth {depth}", Bytes(block), engine.name());
        comparisons.push(comparison("fio", quantity, &version, [&ours, &theirs, &ratios]));
    }
    comparisons
}

/// Returns a row for the result file, from rates of nodegauge and of the peer in B/s, and their ratios.
fn comparison(
    peer: &'static str,
    quantity: String,
    version: &str,
    [own, theirs, ratios]: [&[f64]; 3],
) -> Comparison {
    let [own, theirs] = [own, theirs].map(|rates| BestAndMedian::median(median(rates) / 1e9));
    let rates = Comparison::from_rates(peer, quantity, "GB/s", own, theirs);
    Comparison { ratio: BestAndMedian::median(median(ratios)), ..rates.with_version(version) }
}

fn measured(options: FilesOptions, programs: Vec<ReferenceProgram>) -> Vec<Measurement> {
    let plan = plan(options, programs).expect("this can be measured here");
    let outcome = run(plan, &SysRoot::live(), &mut SilentObserver).expect("there is memory");
    if let Some(failure) = outcome.failure {
        note(&failure.to_string());
        std::process::exit(1);
    }
    outcome.measurements
}

/// Prints medians per operation, and the median of the ratios of the cells.
fn table(found: &[Measurement], program: &str, version: &str) -> Vec<Comparison> {
    print(&format!("| operation | nodegauge GB/s | {program} GB/s | ratio | cells |"));
    print("| --- | --- | --- | --- | --- |");
    let size = |m: &Measurement, key: &str| m.config.get(key).and_then(serde_json::Value::as_u64);
    let cell = |m: &Measurement| (size(m, "file_bytes"), size(m, "block_bytes"));
    let of = |category| {
        found
            .iter()
            .filter(move |m| m.category == category && size(m, "file_bytes") >= Some(COUNTED))
    };
    let mut names: Vec<&str> = of(Category::Reference).map(|m| m.name.as_str()).collect();
    names.dedup();
    let mut seen: Vec<&str> = Vec::new();
    let mut comparisons = Vec::new();
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let pairs: Vec<(f64, f64)> = of(Category::Reference)
            .filter(|m| m.name == name)
            .filter_map(|theirs| {
                let ours =
                    of(Category::Variant).find(|m| m.name == name && cell(m) == cell(theirs))?;
                Some((ours.value?, theirs.value?))
            })
            .collect();
        let part =
            |f: &dyn Fn(&(f64, f64)) -> f64| median(&pairs.iter().map(f).collect::<Vec<_>>());
        print(&format!(
            "| {name} | {:.2} | {:.2} | {:.3} | {} |",
            part(&|p| p.0) / 1e9,
            part(&|p| p.1) / 1e9,
            part(&|p| p.0 / p.1),
            pairs.len()
        ));
        let column = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).collect::<Vec<f64>>();
        let columns = [column(&|p| p.0), column(&|p| p.1), column(&|p| p.0 / p.1)];
        let columns = [&columns[0][..], &columns[1], &columns[2]];
        comparisons.push(comparison("iozone", name.to_owned(), version, columns));
    }
    print("");
    comparisons
}
