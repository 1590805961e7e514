//! The definition of the command line. One definition serves parsing, help, man page and shell
//! completions.

// Doc comments here are help texts, in which brackets are grammar and no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

pub(crate) mod apps;
mod arrays;
mod compare;
pub(crate) mod device;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod grammars;
pub(crate) mod history;
pub(crate) mod hpl;
pub(crate) mod io;
pub(crate) mod memory;
pub(crate) mod ranks;
pub(crate) mod report;
pub(crate) mod roofline;
pub(crate) mod stream;
mod tree;
mod watch;

pub(crate) use arrays::{ArrayArgs, Choice, ExplainArgs, or_auto};
pub(crate) use compare::CompareArgs;
pub(crate) use history::HistoryCommand;
pub(crate) use watch::{WatchArgs, WhenBusy};

use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
use nodegauge_analysis::expect::Expectation;
use nodegauge_kernels::{Element, Kernel};
use nodegauge_machine::{DimmSpec, TopologySource};
use nodegauge_measure::Bytes;
use nodegauge_placement::{Bind, NumaSpec, PlacesSpec, Started, ThreadList};
use nodegauge_published::Against;
use nodegauge_stream::compiled::self_test;
use ranks::{Emit, RankArgs};
use std::path::PathBuf;
use std::time::Duration;

mod mpi;

pub(crate) use mpi::MpiArgs;

/// Gauges a compute node: what it really sustains, and why.
///
/// Without a command: nodegauge run.
#[derive(Debug, Parser)]
#[command(
    name = "nodegauge",
    version,
    help_expected = true,
    max_term_width = 80,
    after_help = "Exit codes: 0 valid, 1 invalid or unmet, 2 usage, 3 missing, 129/130/143 interrupted.\n\
                  Example: nodegauge stream --threads 4 --bind spread --json result.json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) color: Color,
}

/// `--color`, as a type of its own so that it is global.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct Color {
    /// When to use colour; NO_COLOR is honoured
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "Rarely needed"
    )]
    color: ColorWhen,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ColorWhen {
    /// On a terminal.
    Auto,
    /// In pipes too.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Makes the choice for everything that is printed. What a launcher started has no colours of its own accord:
    /// it may have a terminal of the launcher's, which writes what comes of it to wherever its own output goes.
    pub(crate) fn write_global(self) {
        match self.color {
            ColorWhen::Auto if Started::on_a_launchers_terminal() => anstream::ColorChoice::Never,
            ColorWhen::Auto => anstream::ColorChoice::Auto,
            ColorWhen::Always => anstream::ColorChoice::Always,
            ColorWhen::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Gauge the node: everything that nodegauge measures, on one page
    Run(RunArgs),
    /// Describe the node: processors, caches, NUMA, memory, peaks
    Machine(MachineArgs),
    /// Tell what would spoil a measurement here, worst first, each with its remedy
    Doctor(DoctorArgs),
    /// Show where threads and memory would go; measures nothing
    Places(PlacesArgs),
    /// Measure memory bandwidth: STREAM's Copy, Scale, Add, Triad
    Stream(Box<stream::StreamArgs>),
    /// Take the best STREAM result apart: what each choice is worth on this node
    ///
    /// Its steps, each held against the one before: threads, binding, layout, pages, stores, loop,
    /// side_by_side, and memcpy of the C library beside copy. A choice that is given is no step.
    Explain(ExplainArgs),
    /// Measure the rest of the memory system: ladder, latency, matrix, loaded, mix
    #[command(subcommand)]
    Memory(Box<memory::MemoryCommand>),
    /// Measure the node's roofline: ceilings of bandwidth and peaks, and what runs into which
    Roofline(Box<roofline::RooflineArgs>),
    /// Measure MPI messages: latency, bandwidth, message rate, collectives
    Mpi(Box<MpiArgs>),
    /// Measure floating point: a dense system solved as HPL solves it, the peaks, the real xhpl
    Hpl(Box<hpl::HplArgs>),
    /// Measure files: IOzone's operations, with the page cache told apart from the device
    Io(Box<io::IoArgs>),
    /// Measure GPUs and other accelerators: STREAM, the links to them, their peaks
    Device(Box<device::DeviceArgs>),
    /// Measure proxy applications: trapezoid (pi, computes alone), iccg and hpcg (solvers, limited by memory)
    #[command(subcommand)]
    Apps(Box<apps::AppsCommand>),
    /// Take short samples over a day: stream and memory latency, every ten minutes
    Watch(WatchArgs),
    /// Saved runs
    #[command(subcommand)]
    History(HistoryCommand),
    /// Compare two runs or settings: ratio, confidence and verdict for each measurement
    Compare(CompareArgs),
    /// Make a report of saved runs: one HTML file that needs no network, or a text for other tools
    Report(report::ReportArgs),
    /// Print a script that completes commands and options in a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page, in roff: nodegauge man | man -l -
    Man {
        /// Write a page for each command to this folder instead: nodegauge.1, nodegauge-stream.1, ...
        #[arg(long, value_name = "DIR", help_heading = "Output")]
        output: Option<PathBuf>,
    },
    /// Print the JSON Schema of the record
    Schema,
    /// Measure as a rank; nodegauge starts itself so for --ranks
    #[command(hide = true, name = nodegauge_stream::ranks::COMMAND)]
    MeasureAsRank {
        /// The name under which the coordinating process listens
        name: String,
        /// The number of this rank
        rank: u32,
        /// How many ranks there are
        ranks: u32,
    },
    /// Start ranks that exchange messages without an MPI; nodegauge starts itself so
    #[command(hide = true, name = nodegauge_messages::transport::COMMAND)]
    TransportRanks {
        /// What they are to do
        order: String,
    },
    /// Try a BLAS library; nodegauge starts itself so, for what may crash
    #[command(hide = true, name = nodegauge_compute::choose::TRY_BLAS)]
    TryBlas {
        /// The library
        library: PathBuf,
        /// Print only the kernels that BLIS knows, in the order of their numbers
        #[arg(long)]
        list_kernels: bool,
        /// CPUs of each thread that multiplies
        #[arg(long, default_value = "")]
        on: nodegauge_compute::choose::TrialPlaces,
    },
    /// List the devices of a driver; nodegauge starts itself so, for what may crash
    #[command(hide = true, name = nodegauge_devices::drivers::LIST_DEVICES)]
    ListDevices {
        /// The driver
        driver: String,
    },
    /// Try a kernel that a compiler made; nodegauge starts itself so, for what may crash
    #[command(hide = true, name = self_test::COMMAND)]
    TestKernel {
        /// The shared object
        library: PathBuf,
        /// The kernel
        kernel: Kernel,
        /// Type of the elements
        element: Element,
    },
}

/// Where what is shown goes as a document, too.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Documents {
    /// Write what is shown as JSON; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Write a line for each measurement, or run, as CSV; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) csv: Option<String>,
}

/// What every measuring command understands.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Common {
    /// Write the record as JSON; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Write a line a measurement as CSV; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) csv: Option<String>,
    /// Time for everything, setting up and checking too, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "How long")]
    pub(crate) budget: Option<Duration>,
    /// Take exactly this many samples, whatever the time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "How long")]
    pub(crate) samples: Option<u32>,
    /// Put a label on the record (repeatable), e.g. --label nps=4
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, help_heading = "Output")]
    pub(crate) label: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    #[command(flatten)]
    pub(crate) db: Database,
    /// Do not save the record in the history
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) no_save: bool,
    /// Print nothing but errors and what is asked for
    #[arg(long, short, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Say more: where each thread runs, what was met of the expectations
    #[arg(long, short, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Set published figures beside those of this node, e.g. --against 'EPYC 7H12'
    ///
    /// Every word of NAME must be in what is known of a published node: its processor, settings or
    /// source. --against list shows what there is, and measures nothing. What was published of this
    /// node's processor is shown without being asked for.
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) against: Option<Against>,
    /// Memory modules, populated channels x MT/s, for the theoretical bandwidth, e.g. 16x3200
    #[arg(long, value_name = "COUNTxMT/s", help_heading = "Rarely needed")]
    pub(crate) dimms: Option<DimmSpec>,
    /// Processor, where it does not give its name, e.g. 'EPYC 9654'
    #[arg(long, value_name = "NAME", help_heading = "Rarely needed")]
    pub(crate) processor: Option<String>,
}

/// What figures must be.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Conditions {
    /// Exit with 1 unless this holds (repeatable): 'triad>=300GB/s', 'triad>=75%', 'latency<2us@8B'
    ///
    /// [GAUGE.|TEST.]NAME, then >=, <=, > or <, and a value with its unit, or % of the limit that is known.
    /// @SIZE is for the figures of one message, block or array size; without it all of the name must meet
    /// it. A name, unit or limit that the command cannot have is refused before it measures, and a suspect
    /// figure meets nothing unless --accept-suspect. Examples: --expect 'mpi.bw>=10GB/s@1MiB', --expect
    /// 'io.random_read>=1GB/s@4KiB', --expect 'hpl.rating>=80%'
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    pub(crate) expect: Vec<Expectation>,
    /// Let suspect figures meet what is expected
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) accept_suspect: bool,
    /// Exit with 1 when any figure is suspect
    #[arg(long, conflicts_with = "accept_suspect", help_heading = "Output")]
    pub(crate) strict: bool,
}

/// Where saved runs are.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Database {
    /// History database [default: $NODEGAUGE_DB, or in the XDG data folder]
    #[arg(long, value_name = "FILE", help_heading = "Rarely needed")]
    pub(crate) db: Option<PathBuf>,
}

/// `run`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RunArgs {
    /// A quick look, about a minute at most [default]
    #[arg(long, conflicts_with = "full", help_heading = "How long")]
    pub(crate) quick: bool,
    /// Take more time for every gauge
    #[arg(long, help_heading = "How long")]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Which machine is described.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Described {
    /// Describe another machine: FILE.xml of lstopo, or 'synthetic:Package:2 Core:4 PU:1'
    #[arg(long, value_name = "MACHINE", help_heading = "What")]
    pub(crate) topology: Option<TopologySource>,
}

/// `machine`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct MachineArgs {
    #[command(flatten)]
    pub(crate) described: Described,
    /// Memory of a described machine, e.g. 768GiB
    #[arg(long, value_name = "BYTES", requires = "topology", help_heading = "Machine")]
    pub(crate) memory: Option<Bytes>,
    /// Write a record without measurements as JSON; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Memory modules, populated channels x MT/s, e.g. 16x3200
    #[arg(long, value_name = "COUNTxMT/s", help_heading = "What")]
    pub(crate) dimms: Option<DimmSpec>,
    /// Processor of a described or nameless machine, e.g. 'EPYC 9654'
    #[arg(long, value_name = "NAME", help_heading = "What")]
    pub(crate) processor: Option<String>,
}

/// `doctor`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Write a record with the findings as JSON; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
}

/// Where threads and memory go.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct PlacementArgs {
    /// Threads: N, or counts to sweep over: A,B,C or A-B[:STEP] [default: one a core]
    #[arg(
        long,
        short = 't',
        value_name = "COUNTS",
        allow_negative_numbers = true,
        help_heading = "Where"
    )]
    pub(crate) threads: Option<ThreadList>,
    /// Places as in OMP_PLACES: threads, cores, sockets, ll_caches, numa_domains, '{0:4}:4:8'
    #[arg(long, value_name = "PLACES", help_heading = "Where")]
    pub(crate) places: Option<PlacesSpec>,
    /// Binding as in OMP_PROC_BIND: close, spread, primary, none
    #[arg(long, value_name = "POLICY", help_heading = "Where")]
    pub(crate) bind: Option<Bind>,
    /// This many threads on each last-level cache
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) per_cache: Option<u32>,
    /// Memory: local, interleave[:NODES], bind:NODES, preferred:NODE
    #[arg(long, value_name = "POLICY", help_heading = "Where")]
    pub(crate) numa: Option<NumaSpec>,
}

/// `places`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct PlacesArgs {
    #[command(flatten)]
    pub(crate) described: Described,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
    /// Give each rank N devices with cores near to them [default: 1]; ranks: one for each N devices
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Where")]
    pub(crate) devices: Option<u32>,
    /// Print the placement for a program of your own instead: omp prints variables, the others a
    /// shell script that runs the command after it, e.g. --emit slurm > run.sh; sh run.sh ./a.out
    #[arg(long, value_name = "FOR", value_enum, conflicts_with_all = ["json", "verbose"], help_heading = "Output")]
    pub(crate) emit: Option<Emit>,
    /// Write the placement as JSON; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Show the pairs of hardware threads that `nodegauge mpi` measures, one for each distance
    #[arg(long, conflicts_with_all = ["threads", "places", "bind", "per_cache", "numa", "verbose", "devices"], help_heading = "What")]
    pub(crate) mpi_pairs: bool,
    /// Bind threads as shown and print where the kernel says that they may run
    #[arg(long, short, help_heading = "Output")]
    pub(crate) verbose: bool,
}

/// The command with what only the running program knows.
pub(crate) fn command() -> clap::Command {
    definition().long_version(long_version())
}

/// The command line, for documents that are made from it too.
pub(crate) fn definition() -> clap::Command {
    // They have one team, and no figures of which others have published any.
    let one_team = |command: clap::Command| {
        command
            .mut_arg("threads", |threads| {
                threads.help("Threads [default: one a core]").value_name("N")
            })
            .mut_arg("against", |against| against.hide(true))
    };
    // They choose among the runs of a trend.
    let report = |report: clap::Command| {
        let filters = ["gauge", "label", "host", "since", "until"];
        filters.iter().fold(report, |report, id| report.mut_arg(id, |arg| arg.requires("trend")))
    };
    let all = ["explain", "roofline"].into_iter();
    let command = all.fold(Args::command(), |all, name| all.mut_subcommand(name, one_team));
    tree::in_order(command.mut_subcommand("report", report))
}

/// An error of the command line with the commands that may be meant where one is not known.
pub(crate) fn with_suggestions(error: clap::Error) -> clap::Error {
    tree::with_suggestions(error, &definition())
}

/// Version, build, and what this processor can run.
fn long_version() -> String {
    let isas: Vec<&str> =
        nodegauge_kernels::available_isas().iter().map(|isa| isa.name()).collect();
    format!(
        "{} ({})\nkernels for this processor: {}\nkernel variants compiled in: {}",
        env!("CARGO_PKG_VERSION"),
        option_env!("NODEGAUGE_COMMIT").unwrap_or("commit unknown"),
        isas.join(", "),
        nodegauge_kernels::compiled_in(),
    )
}

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text
        .trim_end_matches('s')
        .parse()
        .map_err(|_| "expected a number of seconds, e.g. 10".to_owned())?;
    if (0.1..=1e6).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err("expected between 0.1 and 1000000 seconds".to_owned())
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("expected a share above 0 and up to 1, e.g. 0.8".to_owned()),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected KEY=VALUE, e.g. nps=4".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn labels_need_a_key() {
        assert_eq!(label("nps=4"), Ok(("nps".to_owned(), "4".to_owned())));
        assert_eq!(label("nps="), Ok(("nps".to_owned(), String::new())));
        assert!(label("=4").is_err() && label("nps").is_err());
    }

    #[test]
    fn budgets_are_positive() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("soon").is_err());
    }
}
