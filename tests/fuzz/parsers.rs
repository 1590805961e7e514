//! List of all parsers for external input: grammars of the command line and of environment variables, topologies,
//! records, databases, and outputs of other programs. Each has real texts as seeds.

use nodegauge_analysis::compare::{self, ComparisonDesign, Side, Threshold};
use nodegauge_analysis::csv;
use nodegauge_analysis::expect::Expectation;
use nodegauge_apps::iccg::{IccgMethod, MatrixFormat};
use nodegauge_apps::sweep::WorkersAxis as AppAxis;
use nodegauge_arena::RequestedPages;
use nodegauge_compute::choose::TrialPlaces;
use nodegauge_compute::output::HplRow;
use nodegauge_files::{CacheMode, IoEngine, Msync, OperationList, SizeList, SyncWrites};
use nodegauge_gauge::readers::{self, GivenRunProperties, ReadContext};
use nodegauge_history::{RunFilter, Store};
use nodegauge_kernels::size::SizeSpec;
use nodegauge_kernels::{Kernel, Prefetch, SideBySidePages};
use nodegauge_machine::{DimmSpec, Topology, TopologySource, catalog};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::{Machine, Record};
use nodegauge_measure::{Bytes, legible};
use nodegauge_messages::Pattern;
use nodegauge_os::Input;
use nodegauge_placement::{
    Binding, CpuList, Distance, KmpAffinity, NumaSpec, PlacementEnvironment, PlacementRequest,
    PlacesSpec, Policies, RankMap, RankPolicy, ThreadCountList, plan,
};
use nodegauge_published::PublishedSelection;
use nodegauge_report::{Style, run, text};
use nodegauge_roofline::GivenPoint;
use nodegauge_stream::axis::StreamAxis;
use nodegauge_stream::compiled::CompilerChoice;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::blas::BlasRequest;
use nodegauge_toolchain::mpi::HostList;
use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;

#[path = "../../crates/cli/src/gauges/list.rs"]
mod list;
#[path = "../recorded.rs"]
mod recorded;
use list::GAUGES;

/// Function that reads a text. An error means that the parser behaved wrongly.
pub type ReadText = Box<dyn Fn(&[u8]) -> Result<(), String>>;

/// Parser to be tested.
pub struct Parser {
    /// Name of the input that it reads.
    pub name: &'static str,
    /// Texts that it accepts, or that users may type.
    pub seeds: Vec<Vec<u8>>,
    /// Reads a text. Returns an error if the parser behaves wrongly; rejecting a text is correct.
    pub read: ReadText,
    /// Divisor of the number of cases. It is above 1 for parsers that start a process or use the disk.
    pub one_in: u64,
}

/// Returns all parsers.
pub fn all() -> Vec<Parser> {
    let mut all = vec![
        printed::<Expectation>(
            "expectation",
            &["triad>=300GB/s", "mpi.bw >= 2 GB/s @ 1KiB", "n0->n1<30%", "mix.2:1-nt>1GB/s"],
        ),
        printed::<Threshold>(
            "threshold",
            &["triad<-5%", "any<-2.5%", "slower", "mpi.latency>10%@8B"],
        ),
        printed::<PlacesSpec>(
            "places",
            &[
                "threads",
                "cores(4)",
                "{0:4}:4:8",
                "{0,1},!{2},{3:2:2}",
                "0:96:2",
                "ll_caches",
                "numa_domains(2)",
            ],
        ),
        printed::<KmpAffinity>(
            "KMP_AFFINITY",
            &[
                "granularity=fine,compact,1,0",
                "explicit,proclist=[0-3,{4,5}]",
                "scatter",
                "verbose,balanced",
            ],
        ),
        printed::<CpuList>("list of CPUs", &["0-3,8", "0-15:2", "7"]),
        printed::<ThreadCountList>("threads", &["4", "1,2,4", "2-32:2", "1-8"]),
        printed::<NumaSpec>("NUMA policy", &["local", "interleave:0-3", "bind:0,1", "preferred:1"]),
        printed::<Binding>("binding", &["close", "spread", "primary", "none", "true"]),
        printed::<RankPolicy>("policy of ranks", &["0", "5"]),
        printed::<StreamAxis>(
            "axis",
            &[
                "threads=1,2-32:2",
                "places=cores;sockets",
                "size=1MiB,2MiB",
                "compiler=native;gcc -O3",
                "prefetch=off,256",
                "policy=0-5",
                "ranks=1,2,4",
            ],
        ),
        printed::<AppAxis>(
            "axis of applications",
            &["workers=threads,ranks", "threads=1,2-8", "ranks=1,2,4", "policy=0-5", "rank-map"],
        ),
        printed::<SizeSpec>("array size", &["auto", "4xLLC", "1GiB", "80000000"]),
        printed::<Prefetch>("prefetch", &["off", "256", "256,512"]),
        printed::<SideBySidePages>("pages side by side", &["1", "4"]),
        printed::<CompilerChoice>("compiler", &["gcc -O2", "all", "clang -DPAGES=4 '-O3'"]),
        printed::<CommandLine>("command", &["mpirun --oversubscribe", "'a b' c\\ d \"e'f\""]),
        printed::<DimmSpec>("memory modules", &["16x3200", "8x4800"]),
        printed::<TrialPlaces>("places of a trial", &["0,1;2,3", "0"]),
        read_only::<Bytes>("size", &["8B", "4KiB", "1.5 GB", "10MiB"]),
        read_only::<GivenPoint>("point", &["spmv,2.4e9,1.9e10,0.8", "a:b,1,2,3,L2"]),
        read_only::<RequestedPages>("pages", &["auto", "4k", "thp", "2m", "1g"]),
        read_only::<Distance>("distance", &["smt", "same cache", "node"]),
        read_only::<Kernel>("kernel", &["triad", "copy"]),
        read_only::<Pattern>("pattern", &["latency", "allreduce"]),
        read_only::<IccgMethod>("preconditioner", &["domain", "cm-rcm"]),
        read_only::<MatrixFormat>("storage", &["bcsr", "sell"]),
        read_only::<Policies>("policies", &["0,3", "0-5", "1..3,5", "3/block,4/even"]),
        printed::<RankMap>("map of ranks", &["block", "cyclic", "spread", "even"]),
        read_only::<HostList>(
            "hosts",
            &["node[01-16,20]", "a,b,c", "fe80::1", "slurm", "n[1-2]x[3-4]"],
        ),
        read_only::<BlasRequest>("BLAS", &["openblas", "/usr/lib/libblis.so", "builtin"]),
        read_only::<SizeList>("sizes of files", &["64KiB-512MiB", "4KiB,1MiB", "4KiB-16MiB"]),
        read_only::<OperationList>("operations", &["usual", "all", "write", "random_read"]),
        read_only::<CacheMode>("mode of the cache", &["cached", "direct"]),
        read_only::<IoEngine>("engine", &["sync", "uring"]),
        read_only::<Msync>("msync", &["none", "async"]),
        read_only::<SyncWrites>("kind of write", &["sync", "dsync"]),
        Parser {
            one_in: 16,
            ..read_only::<PublishedSelection>("published node", &["EPYC 7H12", "list", "xeon 8480"])
        },
        Parser {
            name: "processor",
            seeds: texts(&["EPYC 9654", "Xeon Platinum 8480+"]),
            read: Box::new(processor),
            one_in: 16,
        },
        Parser {
            name: "placement",
            seeds: texts(&[
                "4|threads|close|compact",
                "2|{0:4}:4:4|spread|",
                "|sockets|primary|scatter",
                "16|cores(2)|true|granularity=core,compact",
                "8||||0-3 5,7-15:2|4|true|4c,1t",
            ]),
            read: Box::new(placement),
            one_in: 4,
        },
        Parser {
            name: "rows of HPL",
            seeds: files("crates/compute/tests/outputs", "txt"),
            read: Box::new(rows_of_hpl),
            one_in: 4,
        },
        Parser {
            name: "HPCG of another version",
            seeds: texts(&[
                "HPCG-Benchmark version: 3.0\nMachine Summary: \n  Distributed Processes: 4\n  \
                            Threads per processes: 2\nFinal Summary: \n  HPCG result is VALID with a GFLOP/s \
                            rating of: 1.5\n",
            ]),
            read: Box::new(|bytes| read_output("HPCG", bytes)),
            one_in: 4,
        },
        Parser {
            name: "synthetic topology",
            seeds: texts(&[
                "Package:4 NUMANode:1 Core:4 PU:1",
                "Package:2 NUMANode:1 L3Cache:12(size=33554432) L2Cache:8 L1dCache:1 Core:1 PU:1",
                "Package:1 PU:2(indexes=1,0)",
                "Package:2 Core:2(memory=1GB) PU:2",
            ]),
            read: Box::new(synthetic),
            one_in: 256,
        },
        Parser {
            name: "XML topology",
            seeds: files("crates/machine/tests/topologies", "xml"),
            read: Box::new(xml),
            one_in: 512,
        },
        Parser { name: "record", seeds: records(), read: Box::new(record), one_in: 64 },
        Parser {
            name: "history database",
            seeds: vec![database()],
            read: Box::new(history),
            one_in: 256,
        },
    ];
    all.extend(output_parsers());
    all.iter_mut().for_each(|parser| parser.seeds.push(Vec::new()));
    all
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns the parser of a grammar whose values can be printed. A printed value must be parsed as the same value.
fn printed<T: FromStr<Err: Display> + Display + PartialEq + Debug + 'static>(
    name: &'static str,
    seeds: &[&str],
) -> Parser {
    fn read<T: FromStr<Err: Display> + Display + PartialEq + Debug>(
        bytes: &[u8],
    ) -> Result<(), String> {
        let Some(value) = one::<T>(bytes)? else { return Ok(()) };
        let text = value.to_string();
        match text.parse::<T>() {
            Ok(again) if again == value => Ok(()),
            Ok(again) => {
                Err(format!("{value:?} is printed as {text:?}, which is read as {again:?}"))
            }
            Err(error) => {
                Err(format!("{value:?} is printed as {text:?}, which is refused: {error}"))
            }
        }
    }
    Parser { name, seeds: texts(seeds), read: Box::new(read::<T>), one_in: 1 }
}

/// Returns the parser of a grammar whose values are not printed.
fn read_only<T: FromStr<Err: Display> + 'static>(name: &'static str, seeds: &[&str]) -> Parser {
    Parser {
        name,
        seeds: texts(seeds),
        read: Box::new(|bytes| one::<T>(bytes).map(drop)),
        one_in: 1,
    }
}

/// Parses a value. Returns `None` if it is rejected with a short message without control sequences, and an error if the
/// message is wrong.
fn one<T: FromStr<Err: Display>>(bytes: &[u8]) -> Result<Option<T>, String> {
    match String::from_utf8_lossy(bytes).parse::<T>() {
        Ok(value) => Ok(Some(value)),
        Err(error) => short(&error.to_string()).map(|()| None),
    }
}

/// Checks that a printed message is short and contains no control sequences.
pub fn short(message: &str) -> Result<(), String> {
    let shown = legible::message(message);
    let plain = shown.chars().all(|c| !c.is_control() || c == '\n');
    if plain && shown.lines().count() <= 6 && !shown.trim().is_empty() {
        return Ok(());
    }
    Err(format!("the message is {shown:?}"))
}

fn processor(bytes: &[u8]) -> Result<(), String> {
    let name = String::from_utf8_lossy(bytes);
    catalog::find_by_name(&name).map(drop).or_else(|error| short(&error.to_string()))
}

/// Reads threads, places, binding and KMP_AFFINITY for a fixed machine.
fn placement(bytes: &[u8]) -> Result<(), String> {
    static MACHINE: LazyLock<Topology> = LazyLock::new(|| {
        let source = "synthetic:Package:2 NUMANode:2 L3Cache:2 Core:2 PU:2".parse().unwrap();
        Topology::load(&source).unwrap()
    });
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split('|').map(str::to_owned);
    let variables = PlacementEnvironment {
        num_threads: words.next(),
        places: words.next(),
        proc_bind: words.next(),
        kmp_affinity: words.next(),
        gomp_affinity: words.next(),
        thread_limit: words.next(),
        dynamic: words.next(),
        hw_subset: words.next(),
        device_limit: words.next(),
        all_threads: words.next(),
    };
    let mut request = PlacementRequest::default();
    if let Err(error) = variables.apply(&mut request) {
        return short(&error.to_string());
    }
    plan(&MACHINE, &request).map(drop).or_else(|error| short(&error.to_string()))
}

/// Reads the output of a program. A mutated text is read even if the program is no longer recognised.
fn read_output(program: &str, bytes: &[u8]) -> Result<(), String> {
    let context =
        ReadContext { machine: &Machine::default(), known: &GivenRunProperties::default() };
    let text = String::from_utf8_lossy(bytes);
    let all = readers::all(&GAUGES);
    let reader = all.iter().find(|reader| reader.program() == program).ok_or("no such reader")?;
    let lines = readers::find_runs(&[*reader], &Input::from(text.as_bytes())).unwrap_or_default();
    let lines: Vec<usize> = lines.iter().map(|run| run.line).collect();
    let last = text.lines().count();
    if !lines.is_sorted() || lines.iter().any(|line| *line == 0 || *line > last) {
        return Err(format!("runs in lines {lines:?} of {last}"));
    }
    match readers::read(&all, &text, &context) {
        Err(error) => short(&error.into_failure("x").single_line())?,
        Ok(runs) => {
            for run in runs {
                let words = run.in_words();
                if let Err(why) = run.printed {
                    short(&why.into_failure("x", &words).single_line())?;
                }
            }
        }
    }
    match reader.read(&text, &context) {
        Ok(run) => check_figures(run.measurements),
        Err(why) => short(&why.cause),
    }
}

/// Returns one parser per program whose output can be read. The seeds are recorded outputs.
fn output_parsers() -> Vec<Parser> {
    let recorded: Vec<Vec<u8>> = recorded::outputs().into_values().collect();
    let all = readers::all(&GAUGES);
    let parsers = all.into_iter().map(|reader| {
        let program = reader.program();
        let mut seeds = recorded.clone();
        seeds
            .retain(|text| readers::recognise(&[reader], &String::from_utf8_lossy(text)).is_some());
        let read = Box::new(move |bytes: &[u8]| read_output(program, bytes));
        Parser { name: program, seeds, read, one_in: 4 }
    });
    parsers.collect()
}

/// Reads the rows of HPL's output, and formats them as HPL does.
fn rows_of_hpl(bytes: &[u8]) -> Result<(), String> {
    let output = nodegauge_compute::output::read(&String::from_utf8_lossy(bytes));
    let of_one = |row: &HplRow| ("xhpl".to_owned(), row.clone());
    let rows: Vec<(String, HplRow)> = output.rows.iter().map(of_one).collect();
    let again = nodegauge_compute::output::read(&nodegauge_compute::output::format_rows(&rows));
    if again.rows.len() == output.rows.len() {
        return Ok(());
    }
    Err(format!("{} rows are printed and {} read", output.rows.len(), again.rows.len()))
}

/// Makes a record from imported figures, and checks it.
fn check_figures(measurements: Vec<nodegauge_measure::record::Measurement>) -> Result<(), String> {
    static KNOWN: LazyLock<Record> =
        LazyLock::new(|| serde_json::from_slice(&records()[0]).unwrap());
    check_record(&Record { measurements, ..KNOWN.clone() })
}

fn synthetic(bytes: &[u8]) -> Result<(), String> {
    let text = format!("synthetic:{}", String::from_utf8_lossy(bytes));
    match text.parse::<TopologySource>() {
        Ok(source) => Topology::load(&source).map(drop).or_else(|error| short(&error.to_string())),
        Err(error) => short(&error.to_string()),
    }
}

fn xml(bytes: &[u8]) -> Result<(), String> {
    let source = TopologySource::Xml(kept("topology.xml", bytes));
    Topology::load(&source).map(drop).or_else(|error| short(&error.to_string()))
}

fn record(bytes: &[u8]) -> Result<(), String> {
    match nodegauge_measure::record::parse(&String::from_utf8_lossy(bytes), &Default::default()) {
        Ok(record) => check_record(&record),
        Err(error) => short(&error),
    }
}

/// Creates all outputs of a record (pages, CSV, comparisons). Checks that a record that was written and read is
/// unchanged.
fn check_record(record: &Record) -> Result<(), String> {
    let registry = Registry::new(GAUGES.iter().flat_map(|gauge| gauge.figure_kinds()));
    for width in [60, 120] {
        let style = Style { width, colour: width > 60 };
        for all in [false, true] {
            text::page(&run::page(record, &GAUGES, all), style);
        }
    }
    csv::render(std::slice::from_ref(record), &registry);
    let side =
        || Side { asked: "latest".to_owned(), runs: vec![record.clone()], ..Side::default() };
    let compared = compare::compare(&side(), &side(), ComparisonDesign::default(), &registry);
    text::page(&nodegauge_report::compare::page(&compared), Style::default());
    let written = serde_json::to_string(record).map_err(|error| error.to_string())?;
    let again = nodegauge_measure::record::parse(&written, &Default::default())?;
    if serde_json::to_string(&again).is_ok_and(|again| again == written) {
        return Ok(());
    }
    Err("it is not read as it was written".to_owned())
}

fn history(bytes: &[u8]) -> Result<(), String> {
    let file = kept("history.db", bytes);
    let store = match Store::open_to_read(&file, &Default::default()) {
        Ok(Some(store)) => store,
        Ok(None) => return Ok(()),
        Err(error) => return short(&error.to_string()),
    };
    let listed = store.list(&RunFilter { limit: Some(20), ..RunFilter::default() });
    if let Err(error) =
        listed.map(drop).or_else(|error| short(&error.to_string()).map_err(|_| error))
    {
        return Err(error.to_string());
    }
    for selector in ["latest", "latest~1", "nps=4", "01AB"] {
        match store.find(selector) {
            Ok(record) => check_record(&record)?,
            Err(error) => short(&error.to_string())?,
        }
    }
    Ok(())
}

/// Writes `bytes` to a temporary file of this process; returns its path.
fn kept(name: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    let file = FOLDER.path().join(name);
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns recorded outputs of programs.
fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|of| of == ending)).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder}");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Returns the golden records, shortest first.
fn records() -> Vec<Vec<u8>> {
    let folders = std::fs::read_dir(root().join("tests/golden")).unwrap();
    let paths = folders.map(|entry| entry.unwrap().path().join("record.json"));
    let mut records: Vec<Vec<u8>> = paths.filter_map(|path| std::fs::read(path).ok()).collect();
    records.sort_by_key(Vec::len);
    assert!(records.len() > 50);
    records
}

/// Returns a database with two runs.
fn database() -> Vec<u8> {
    let file = kept("seed.db", b"");
    std::fs::remove_file(&file).unwrap();
    let mut store = Store::open(&file, &Default::default()).unwrap();
    for record in records().iter().take(2) {
        store.save(&serde_json::from_slice(record).unwrap()).unwrap();
    }
    drop(store);
    std::fs::read(file).unwrap()
}
