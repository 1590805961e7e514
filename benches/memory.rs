//! Compares Copy, Scale, Add, Triad, read and write with every reference program that is available, in one run:
//! likwid-bench's kernels for the same loop, glibc's memcpy, stream.c (`STREAM_C=PATH`) built by gcc and clang, and
//! BabelStream's OpenMP version from its source folder (`BABELSTREAM=PATH`).
//!
//! Every program runs once per round, in random order, for `ROUNDS` rounds (default 4), on arrays of the same length.
//! Before and after each run, the round trip of a cache line between two CPUs is measured, because a hypervisor may
//! move the virtual CPUs and thus change the bandwidth. A run of a reference program during which they moved is
//! dropped, and only figures of one regime are compared (nodegauge separates its regimes itself). The best of a
//! reference program is its best over all runs: the best pass of stream.c and BabelStream, the best average over
//! `PASSES` passes of likwid-bench. Its median is the median over runs of the typical pass: the median pass of memcpy,
//! and the average pass of the others. Prints Markdown and writes the result file: per loop and regime, the best of
//! likwid-bench's kernels.

mod common;

use common::{
    BestAndMedian, Comparison, UNKNOWN, is_installed, likwid_bench, note, print, variable,
    version_in_file, version_of, write_results,
};
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::{Seconds, stats};
use nodegauge_placement::PlacementRequest;
use nodegauge_team::Team;
use nodegauge_team::core_to_core::{self, SharedCacheLines};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kernels of STREAM, read and write. Columns: name, BabelStream's name, number of arrays, and likwid-bench's kernels
/// for the same loop (none for Scale and Add).
const LOOPS: [(&str, &str, u64, &[&str]); 6] = [
    ("copy", "Copy", 2, &["copy_mem_avx", "copy_mem_avx512", "copy_avx512"]),
    ("scale", "Mul", 2, &[]),
    ("add", "Add", 3, &[]),
    ("triad", "Triad", 3, &["stream_mem_avx", "stream_mem_avx_fma", "stream_mem_avx512"]),
    ("read", "", 1, &["load_avx", "load_avx512"]),
    ("write", "", 1, &["store_mem_avx", "store_mem_avx512"]),
];
/// Passes per run of likwid-bench, stream.c and BabelStream: twice STREAM's default.
const PASSES: &str = "20";
/// Compiler command that turns Copy into a call of memcpy.
const MEMCPY: &str = "gcc -O3 -march=native";

/// Best and typical rate of each loop in one run, in B/s.
type Rates = BTreeMap<String, (f64, f64)>;

/// Run of one program.
struct Run {
    /// Name of the program, e.g. `nodegauge`, `copy_mem_avx`, `stream.c gcc`.
    program: String,
    rates: Rates,
    /// Round trips before and after the run.
    trips: (f64, f64),
}

/// Program that runs once per round.
enum Program {
    Nodegauge,
    /// Copy built by [`MEMCPY`], alternating with the native loop.
    Memcpy,
    /// Loop, likwid-bench's kernel, and number of arrays.
    Likwid(&'static str, &'static str, u64),
    /// Program that prints a table of loops: name and path.
    Table(String, PathBuf),
}

/// Measurement of the core-to-core latency between two CPUs.
struct CoreToCore {
    team: Team,
    lines: SharedCacheLines,
}

impl CoreToCore {
    fn take(&mut self) -> f64 {
        core_to_core::measure_round_trip(&mut self.team, &self.lines).expect("the team lives").0
    }
}

fn main() {
    let rounds: usize = variable("ROUNDS").unwrap_or(4);
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let placement =
        nodegauge_placement::plan(&topology, &PlacementRequest::default()).expect("there are CPUs");
    let threads = placement.threads.len();
    let places: Vec<_> = placement.threads.iter().map(|thread| thread.cpus.clone()).collect();
    let team = Team::start(&places).expect("threads can be bound");
    let mut latency = CoreToCore { lines: SharedCacheLines::new(team.len()), team };
    // The reference programs use arrays of the length that nodegauge chooses.
    let first = common::nodegauge(&["stream", "--samples", "1", "--kernels", "copy"]);
    let array = first.measurements.iter().find_map(|m| m.config.get("array_bytes")?.as_u64());
    let array = array.expect("a run records the length of its arrays");
    let scratch = std::env::temp_dir().join(format!("nodegauge-memory-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    // nodegauge runs twice per round, so that its figures cover as much time as those of the other programs.
    let mut programs = vec![Program::Nodegauge, Program::Nodegauge];
    if is_installed("gcc") {
        programs.push(Program::Memcpy);
    } else {
        note("gcc is not installed: memcpy is skipped");
    }
    if is_installed("likwid-bench") {
        programs.extend(LOOPS.iter().flat_map(|(name, _, arrays, kernels)| {
            kernels.iter().map(|kernel| Program::Likwid(name, kernel, *arrays))
        }));
    } else {
        note("likwid-bench is not installed: skipped");
    }
    programs.extend(build(&scratch, array / 8));
    let mut runs = Vec::new();
    let mut order = Shuffler::new(0x6D65_6D6F);
    for round in 0..rounds {
        note(&format!("round {} of {rounds}", round + 1));
        order.shuffle(&mut programs);
        for program in &programs {
            let before = latency.take();
            let (name, ran) = run(program, array, threads);
            let after = latency.take();
            let with = |(trips, rates): (Option<f64>, Rates)| Run {
                program: name.clone(),
                rates,
                trips: trips.map_or((before, after), |trip| (trip, trip)),
            };
            runs.extend(ran.into_iter().map(with));
        }
        // The intermediate results are printed, because the run may be interrupted.
        note(&report(&runs));
    }
    let _ = std::fs::remove_dir_all(&scratch);
    print(&report(&runs));
    write_results("memory", &comparisons(&runs));
}

/// Runs a program. Returns its name, and its rates per regime; a reference program has one entry without a regime.
fn run(program: &Program, array: u64, threads: usize) -> (String, Vec<(Option<f64>, Rates)>) {
    let alone = |rates: Rates| vec![(None, rates)];
    match program {
        Program::Nodegauge => {
            let kernels = "copy,scale,add,triad,read,write";
            let record = common::nodegauge(&["stream", "--budget", "4", "--kernels", kernels]);
            ("nodegauge".to_owned(), regimes(&record, "native"))
        }
        Program::Memcpy => {
            let args = ["stream", "--compiler", MEMCPY, "--kernels", "copy", "--budget", "3"];
            // Only the plain loop is used, because the loop with pages side by side does not call memcpy.
            let args = [&args[..], &["--side-by-side", "1"]].concat();
            ("memcpy".to_owned(), regimes(&common::nodegauge(&args), "compiled"))
        }
        Program::Likwid(name, kernel, arrays) => {
            let group = format!("N:{}kB:{threads}", arrays * array / 1000);
            let rate = likwid_bench(kernel, &group, "MByte/s:", &["-i", PASSES]);
            let rate = rate.map(|rate| ((*name).to_owned(), (rate, rate)));
            ((*kernel).to_owned(), alone(rate.into_iter().collect()))
        }
        Program::Table(name, path) => (name.clone(), alone(printed_rates(path, array, threads))),
    }
}

/// Returns the best and the median of each loop that `engine` measured, per regime of its samples.
fn regimes(record: &Record, engine: &str) -> Vec<(Option<f64>, Rates)> {
    let mut met: Vec<(Option<f64>, Rates)> = Vec::new();
    let mut add = |trip: Option<f64>, name: &str, rates: (f64, f64)| {
        let at = met.iter().position(|(known, _)| *known == trip).unwrap_or_else(|| {
            met.push((trip, Rates::new()));
            met.len() - 1
        });
        met[at].1.insert(name.to_owned(), rates);
    };
    let of = |m: &&Measurement| m.config.get("engine").and_then(Value::as_str) == Some(engine);
    for m in record.measurements.iter().filter(of).filter(|m| m.value.is_some()) {
        // If there are several regimes, each has a summary. Otherwise the summary of the measurement is used.
        for regime in m.regimes.iter().filter(|regime| regime.summary.n >= 3) {
            let rates = (regime.summary.best, regime.summary.median);
            add(Some(regime.round_trip_s), &m.name, rates);
        }
        if let (true, Some(summary)) = (m.regimes.is_empty(), &m.summary) {
            let trip = m.config.get("round_trip_s").and_then(Value::as_f64);
            add(trip, &m.name, (summary.best, summary.median));
        }
    }
    met
}

/// Builds the reference programs whose sources the environment variables name, for arrays with `elements` elements.
fn build(scratch: &Path, elements: u64) -> Vec<Program> {
    let mut programs = Vec::new();
    let mut add = |name: &str, compiler: &str, args: &[String], sources: &[PathBuf]| {
        let program = scratch.join(name.replace(' ', "-"));
        let built = Command::new(compiler)
            .args(["-O3", "-march=native", "-fopenmp"])
            .args(args)
            .args(sources)
            .arg("-o")
            .arg(&program)
            .status()
            .is_ok_and(|status| status.success());
        if built {
            programs.push(Program::Table(name.to_owned(), program));
        } else {
            note(&format!("{compiler} cannot build {name} here: skipped"));
        }
    };
    match variable::<PathBuf>("STREAM_C") {
        Some(source) => {
            let size = format!("-DSTREAM_ARRAY_SIZE={elements}");
            let args = [size, format!("-DNTIMES={PASSES}"), "-mcmodel=medium".to_owned()];
            add("stream.c gcc", "gcc", &args, std::slice::from_ref(&source));
            add("stream.c clang", "clang", &args, &[source]);
        }
        None => note("STREAM_C is not set: stream.c is skipped"),
    }
    match variable::<PathBuf>("BABELSTREAM") {
        Some(folder) => {
            let src = folder.join("src");
            let include = |path: &Path| format!("-I{}", path.display());
            let mut args = vec![include(&src), include(&src.join("omp"))];
            args.extend(["-std=c++17", "-DOMP"].map(str::to_owned));
            let sources = ["main.cpp", "omp/OMPStream.cpp"].map(|file| src.join(file));
            add("BabelStream", "g++", &args, &sources);
        }
        None => note("BABELSTREAM is not set: BabelStream is skipped"),
    }
    programs
}

/// Runs stream.c or BabelStream and parses its table. Each row has a loop, its best rate in MB/s, and times, including
/// the minimum and the average.
fn printed_rates(program: &Path, array: u64, threads: usize) -> Rates {
    let elements = (array / 8).to_string();
    let mut command = Command::new(program);
    let is_babel = program.ends_with("BabelStream");
    if is_babel {
        command.args(["--arraysize", &elements, "--numtimes", PASSES]);
    }
    let output = command
        .env("OMP_NUM_THREADS", threads.to_string())
        .env("OMP_PROC_BIND", "spread")
        .env("OMP_PLACES", "cores")
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.first()?.trim_end_matches(':');
        let (kernel, ..) = LOOPS.iter().find(|(kernel, babel, ..)| {
            if is_babel { *babel == name } else { *kernel == name.to_lowercase() }
        })?;
        let numbers: Vec<f64> = words[1..].iter().filter_map(|word| word.parse().ok()).collect();
        let average = if is_babel { numbers.get(3) } else { numbers.get(1) };
        let least = if is_babel { numbers.get(1) } else { numbers.get(2) };
        let best = numbers.first()? * 1e6;
        Some(((*kernel).to_owned(), (best, best * least? / average?)))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the regimes of all round trips.
fn regimes_of(runs: &[Run]) -> Vec<Regime> {
    let trips: Vec<f64> = runs.iter().flat_map(|run| [run.trips.0, run.trips.1]).collect();
    regime::find_regimes(&trips)
}

/// Returns the runs in the regime with index `number`.
fn runs_in_regime<'r>(runs: &'r [Run], regimes: &[Regime], number: usize) -> Vec<&'r Run> {
    let of_regime =
        |run: &&Run| regime::regime_index(regimes, run.trips.0, run.trips.1) == Some(number);
    runs.iter().filter(of_regime).collect()
}

/// Returns the best and the median rate of a program for a loop over all runs, and the number of runs.
fn rates_of(runs: &[&Run], program: &str, name: &str) -> (f64, f64, usize) {
    let ran = runs.iter().filter(|run| run.program == program);
    let rates: Vec<(f64, f64)> = ran.filter_map(|run| run.rates.get(name).copied()).collect();
    let best = rates.iter().map(|(best, _)| *best).fold(0.0, f64::max);
    let typical: Vec<f64> = rates.iter().map(|(_, typical)| *typical).collect();
    (best, stats::median(&typical), rates.len())
}

/// Returns the comparisons of all regimes for the result file.
fn comparisons(runs: &[Run]) -> Vec<Comparison> {
    let stream = variable::<PathBuf>("STREAM_C");
    let stream = stream.map(|source| version_in_file(&source, "stream.c,v"));
    let stream = stream.unwrap_or_else(|| UNKNOWN.to_owned());
    let babel = variable::<PathBuf>("BABELSTREAM");
    let babel = babel.map(|folder| version_in_file(&folder.join("src/main.cpp"), "VERSION_STRING"));
    let babel = babel.unwrap_or_else(|| UNKNOWN.to_owned());
    let likwid = version_of("likwid-bench", &["-v"]);
    let glibc = version_of("getconf", &["GNU_LIBC_VERSION"]);
    let regimes = regimes_of(runs);
    let mut found = Vec::new();
    for number in 0..regimes.len() {
        let of_regime = runs_in_regime(runs, &regimes, number);
        for (name, _, _, kernels) in LOOPS {
            let quantity = match (regimes.len(), number) {
                (1, _) => name.to_owned(),
                (2, 0) => format!("{name} (near)"),
                (2, _) => format!("{name} (far)"),
                _ => format!("{name} (regime {})", number + 1),
            };
            let (own_best, own_median, own_runs) = rates_of(&of_regime, "nodegauge", name);
            let peers: [(&'static str, &[&str], &str); 5] = [
                ("stream-c-gcc", &["stream.c gcc"], &stream),
                ("stream-c-clang", &["stream.c clang"], &stream),
                ("babelstream-omp", &["BabelStream"], &babel),
                ("likwid-memory", kernels, &likwid),
                ("memcpy", &["memcpy"], &glibc),
            ];
            for (peer, programs, version) in peers {
                let rates: Vec<(f64, f64, usize)> =
                    programs.iter().map(|program| rates_of(&of_regime, program, name)).collect();
                let rates: Vec<&(f64, f64, usize)> =
                    rates.iter().filter(|(.., ran)| *ran > 0).collect();
                if rates.is_empty() || own_runs == 0 {
                    continue;
                }
                let best = rates.iter().map(|rate| rate.0).fold(0.0, f64::max);
                let median = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
                let own = BestAndMedian::both(own_best, own_median).scaled(1e-9);
                let theirs = BestAndMedian::both(best, median).scaled(1e-9);
                let compared = Comparison::from_rates(peer, quantity.clone(), "GB/s", own, theirs);
                found.push(compared.with_version(version));
            }
        }
    }
    found
}

/// Returns one table per regime.
fn report(runs: &[Run]) -> String {
    let regimes = regimes_of(runs);
    let mut out = String::new();
    for (i, regime) in regimes.iter().enumerate() {
        out.push_str(&table(&runs_in_regime(runs, &regimes, i), regime));
    }
    let moved = runs
        .iter()
        .filter(|run| regime::regime_index(&regimes, run.trips.0, run.trips.1).is_none())
        .count();
    out.push_str(&format!(
        "\n{} runs in all; {moved} dropped because the CPUs moved.\n",
        runs.len()
    ));
    out
}

fn table(runs: &[&Run], regime: &Regime) -> String {
    let mut out = format!(
        "\nRound trip between the CPUs {} to {}, {} runs:\n\n| loop | nodegauge best (median) | reference | its best (median) | best / best | median / median | runs |\n| --- | --- | --- | --- | --- | --- | --- |\n",
        Seconds(regime.from),
        Seconds(regime.to),
        runs.len()
    );
    let mut rivals: Vec<&str> = runs.iter().map(|run| run.program.as_str()).collect();
    rivals.sort_unstable();
    rivals.dedup();
    for (name, ..) in LOOPS {
        let (own_best, own_median, own_runs) = rates_of(runs, "nodegauge", name);
        for rival in rivals.iter().filter(|program| **program != "nodegauge") {
            let (their_best, their_median, their_runs) = rates_of(runs, rival, name);
            if their_runs == 0 || own_runs == 0 {
                continue;
            }
            out.push_str(&format!(
                "| {name} | {:.1} ({:.1}) GB/s | {rival} | {:.1} ({:.1}) GB/s | {:.3} | {:.3} | {own_runs} : {their_runs} |\n",
                own_best / 1e9,
                own_median / 1e9,
                their_best / 1e9,
                their_median / 1e9,
                own_best / their_best,
                own_median / their_median,
            ));
        }
    }
    out
}
