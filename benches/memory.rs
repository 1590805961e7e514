//! Copy, Scale, Add, Triad, read and write beside every rival that is here, in one run: likwid-bench's
//! kernels of the same loop, glibc's memcpy, the stream.c that `STREAM_C=PATH` names by gcc and by
//! clang, and BabelStream's OpenMP from the source folder that `BABELSTREAM=PATH` names.
//!
//! Every program runs once a round, in random order, `ROUNDS` times (default 4), on arrays of one
//! length. Before and after each, the round trip of a cache line between two CPUs is measured,
//! because on a virtual machine the CPUs are moved and bandwidth with them: a rival's run during which
//! they moved is dropped, and only figures of one regime are compared (nodegauge tells its regimes
//! apart itself). A rival's best is its best in any run: of stream.c and BabelStream of passes, of
//! likwid-bench averages of `PASSES` passes. Its median is that over runs of what it says of a typical
//! pass: the average, of memcpy the median. Prints Markdown for docs/benchmarks.md.

mod common;

use common::{is_installed, likwid_bench, note, print, variable};
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::schedule::shuffle::Shuffler;
use nodegauge_measure::{Seconds, stats};
use nodegauge_placement::Request;
use nodegauge_team::Team;
use nodegauge_team::core_to_core::{self, SharedLines};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kernels of STREAM and two more: the name that BabelStream has for it, and likwid-bench's kernels of
/// the same loop with the arrays that they walk (likwid has none for Scale and Add).
const LOOPS: [(&str, &str, u64, &[&str]); 6] = [
    ("copy", "Copy", 2, &["copy_mem_avx", "copy_mem_avx512", "copy_avx512"]),
    ("scale", "Mul", 2, &[]),
    ("add", "Add", 3, &[]),
    ("triad", "Triad", 3, &["stream_mem_avx", "stream_mem_avx_fma", "stream_mem_avx512"]),
    ("read", "", 1, &["load_avx", "load_avx512"]),
    ("write", "", 1, &["store_mem_avx", "store_mem_avx512"]),
];
/// Passes of a run of likwid-bench, stream.c and BabelStream: STREAM's own number twice.
const PASSES: &str = "20";
/// A compiler whose Copy is a call of memcpy.
const MEMCPY: &str = "gcc -O3 -march=native";

/// Best and typical rate of each loop in one run, B/s.
type Rates = BTreeMap<String, (f64, f64)>;

/// One run of one program.
struct Run {
    /// The program, e.g. `nodegauge`, `copy_mem_avx`, `stream.c gcc`.
    program: String,
    rates: Rates,
    /// Round trips before and after.
    trips: (f64, f64),
}

/// A program that runs once a round.
enum Program {
    Nodegauge,
    /// Copy by [`MEMCPY`], by turns with the native loop.
    Memcpy,
    /// A kernel of a loop on so many arrays.
    Likwid(&'static str, &'static str, u64),
    /// The name of one that prints a table of loops, and where it is.
    Table(String, PathBuf),
}

/// The core-to-core latency of the two CPUs.
struct CoreToCore {
    team: Team,
    lines: SharedLines,
}

impl CoreToCore {
    fn take(&mut self) -> f64 {
        core_to_core::round_trip(&mut self.team, &self.lines).expect("the team lives")
    }
}

fn main() {
    let rounds: usize = variable("ROUNDS").unwrap_or(4);
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let placement =
        nodegauge_placement::plan(&topology, &Request::default()).expect("there are CPUs");
    let threads = placement.threads.len();
    let places: Vec<_> = placement.threads.iter().map(|thread| thread.cpus.clone()).collect();
    let team = Team::start(&places).expect("threads can be bound");
    let mut latency = CoreToCore { lines: SharedLines::new(team.len()), team };
    // What nodegauge takes by itself is what all others get.
    let first = common::nodegauge(&["stream", "--samples", "1", "--kernels", "copy"]);
    let array = first.measurements.iter().find_map(|m| m.config.get("array_bytes")?.as_u64());
    let array = array.expect("a run says how long its arrays are");
    let scratch = std::env::temp_dir().join(format!("nodegauge-memory-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    // Twice a round, so that the own figures see as much of the machine's time as the others'.
    let mut programs = vec![Program::Nodegauge, Program::Nodegauge];
    match is_installed("gcc") {
        true => programs.push(Program::Memcpy),
        false => note("gcc is not installed: no memcpy"),
    }
    match is_installed("likwid-bench") {
        true => programs.extend(LOOPS.iter().flat_map(|(name, _, arrays, kernels)| {
            kernels.iter().map(|kernel| Program::Likwid(name, kernel, *arrays))
        })),
        false => note("likwid-bench is not installed: skipped"),
    }
    programs.extend(build(&scratch, array / 8));
    let (mut runs, mut order) = (Vec::new(), Shuffler::new(0x6D65_6D6F));
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
        // What there is so far, should the run be cut off.
        note(&report(&runs));
    }
    let _ = std::fs::remove_dir_all(&scratch);
    print(&report(&runs));
}

/// Runs a program: its name, and its rates, of each regime that it can tell apart.
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
            // The plain loop alone: that with pages side by side is no memcpy.
            let args = [&args[..], &["--side-by-side", "1"]].concat();
            ("memcpy".to_owned(), regimes(&common::nodegauge(&args), "compiled"))
        }
        Program::Likwid(name, kernel, arrays) => {
            let group = format!("N:{}kB:{threads}", arrays * array / 1000);
            let rate = likwid_bench(kernel, &group, "MByte/s:", &["-i", PASSES]);
            let rate = rate.map(|rate| ((*name).to_owned(), (rate, rate)));
            ((*kernel).to_owned(), alone(rate.into_iter().collect()))
        }
        Program::Table(name, path) => (name.clone(), alone(table_of(path, array, threads))),
    }
}

/// Best and median of each loop of an engine in each regime that it met.
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
        // With several regimes each has its summary; else the one has the measurement's.
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

/// Builds the sources that variables name, for arrays of so many elements.
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
        match built {
            true => programs.push(Program::Table(name.to_owned(), program)),
            false => note(&format!("{compiler} does not build {name} here: skipped")),
        }
    };
    match variable::<PathBuf>("STREAM_C") {
        Some(source) => {
            let size = format!("-DSTREAM_ARRAY_SIZE={elements}");
            let args = [size, format!("-DNTIMES={PASSES}"), "-mcmodel=medium".to_owned()];
            add("stream.c gcc", "gcc", &args, std::slice::from_ref(&source));
            add("stream.c clang", "clang", &args, &[source]);
        }
        None => note("STREAM_C is not set: no stream.c"),
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
        None => note("BABELSTREAM is not set: no BabelStream"),
    }
    programs
}

/// What stream.c and BabelStream print: the best rate of each loop in MB/s, and somewhere behind it the
/// average time, which stands second and last.
fn table_of(program: &Path, array: u64, threads: usize) -> Rates {
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

/// A table for each regime.
fn report(runs: &[Run]) -> String {
    let trips: Vec<f64> = runs.iter().flat_map(|run| [run.trips.0, run.trips.1]).collect();
    let regimes = regime::regimes(&trips);
    let mut out = String::new();
    for (i, regime) in regimes.iter().enumerate() {
        let of_regime: Vec<&Run> = runs
            .iter()
            .filter(|run| regime::assign(&regimes, run.trips.0, run.trips.1) == Some(i))
            .collect();
        out.push_str(&table(&of_regime, regime));
    }
    let moved = runs
        .iter()
        .filter(|run| regime::assign(&regimes, run.trips.0, run.trips.1).is_none())
        .count();
    out.push_str(&format!(
        "\n{} runs in all; {moved} dropped because the CPUs moved.\n",
        runs.len()
    ));
    out
}

fn table(runs: &[&Run], regime: &Regime) -> String {
    let mut out = format!(
        "\nRound trip between the CPUs {} to {}, {} runs:\n\n| loop | nodegauge best (median) | rival | its best (median) | best / best | median / median | runs |\n| --- | --- | --- | --- | --- | --- | --- |\n",
        Seconds(regime.from),
        Seconds(regime.to),
        runs.len()
    );
    let of = |program: &str, name: &str| -> (f64, f64, usize) {
        let ran = runs.iter().filter(|run| run.program == program);
        let rates: Vec<(f64, f64)> = ran.filter_map(|run| run.rates.get(name).copied()).collect();
        let best = rates.iter().map(|(best, _)| *best).fold(0.0, f64::max);
        let typical: Vec<f64> = rates.iter().map(|(_, typical)| *typical).collect();
        (best, stats::median(&typical), rates.len())
    };
    let mut rivals: Vec<&str> = runs.iter().map(|run| run.program.as_str()).collect();
    rivals.sort_unstable();
    rivals.dedup();
    for (name, ..) in LOOPS {
        let (own_best, own_median, own_runs) = of("nodegauge", name);
        for rival in rivals.iter().filter(|program| **program != "nodegauge") {
            let (their_best, their_median, their_runs) = of(rival, name);
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
