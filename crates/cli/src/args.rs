//! Definition of the command line, from which parsing, help, man page and shell completions are made.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

pub(crate) mod apps;
mod arrays;
mod budgets;
pub(crate) mod check;
mod compare;
pub(crate) mod device;
mod examples;
pub(crate) mod fleet;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod grammars;
pub(crate) mod hints;
pub(crate) mod history;
pub(crate) mod hpl;
pub(crate) mod io;
pub(crate) mod jobs;
pub(crate) mod memory;
pub(crate) mod noise;
mod numactl;
pub(crate) mod plan;
pub(crate) mod ranks;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod roofline;
pub(crate) mod stream;
mod summary;
pub(crate) mod sweep;
mod tree;
mod values;
mod watch;

pub(crate) use arrays::{ArrayArgs, ExplainArgs, OrAuto, parse_or_auto};
pub(crate) use compare::CompareArgs;
pub(crate) use examples::declared_examples;
pub(crate) use history::{HistoryCommand, ImportedNode};
pub(crate) use watch::{WatchArgs, WhenBusy};

use clap::{ArgMatches, Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
use nodegauge_analysis::expect::Expectation;
use nodegauge_fleet::reference::Reference;
use nodegauge_kernels::{Element, Kernel};
use nodegauge_machine::{DimmSpec, TopologySource};
use nodegauge_measure::Bytes;
use nodegauge_measure::schedule::{Budget, RunLimits};
use nodegauge_placement::{
    Binding, CoreChoice, LauncherJob, NumaSpec, PlacementEnvironment, PlacementOptions, PlacesSpec,
    ThreadCountList,
};
use nodegauge_published::PublishedSelection;
use nodegauge_stream::compiled::self_test;
use numactl::NumactlArgs;
use ranks::{EmitFormat, RankArgs};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use values::{parse_label, parse_seconds};

mod mpi;

pub(crate) use mpi::MpiArgs;

/// Measures the sustained performance of a compute node and shows what limits it.
///
/// Without a command, nodegauge run is executed.
#[derive(Debug, Parser)]
#[command(
    name = "nodegauge",
    version,
    help_expected = true,
    max_term_width = 80,
    after_help = "Exit codes: 0 valid, 1 invalid or unmet, 2 usage, 3 missing, 129/130/143 interrupted.",
    after_long_help = examples::section(&[
        "nodegauge",
        "nodegauge stream --json result.json",
        "nodegauge report latest",
    ])
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) color: ColorArgs,
}

/// Global option `--color`, which selects when output is coloured.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct ColorArgs {
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
    /// Use colour only on a terminal
    Auto,
    /// Use colour in pipes and files too
    Always,
    /// Use no colour
    Never,
}

impl ColorArgs {
    /// Applies the choice to all output. With `auto`, a process that an MPI launcher started prints no colours, because
    /// the launcher may copy output from a pseudo-terminal to a file.
    pub(crate) fn write_global(self) {
        match self.color {
            ColorWhen::Auto if LauncherJob::is_started_by_mpi() => anstream::ColorChoice::Never,
            ColorWhen::Auto => anstream::ColorChoice::Auto,
            ColorWhen::Always => anstream::ColorChoice::Always,
            ColorWhen::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Commands of nodegauge.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the node: all measurements of nodegauge, on one page
    #[command(after_long_help = examples::section(&[
        "nodegauge run",
        "nodegauge run --budget 2m --label nps=4 --json node.json",
        "nodegauge run --full --strict",
    ]))]
    Run(RunArgs),
    /// Describe the node: processors, caches, NUMA, memory, peaks
    #[command(after_long_help = examples::section(&[
        "nodegauge machine",
        "nodegauge machine --json machine.json",
        "nodegauge machine --topology 'synthetic:Package:2 Core:96 PU:1'",
    ]))]
    Machine(MachineArgs),
    /// List what disturbs measurements on this node, with remedies
    #[command(after_long_help = examples::section(&[
        "nodegauge doctor",
        "nodegauge doctor --json findings.json",
    ]))]
    Doctor(DoctorArgs),
    /// Show the placement of threads and memory without measuring
    #[command(after_long_help = examples::section(&[
        "nodegauge places",
        "nodegauge places --places cores --bind spread",
        "nodegauge places --topology 'synthetic:Package:2 Core:4 PU:1' --ranks 4",
        "nodegauge places --emit omp",
    ]))]
    Places(Box<PlacesArgs>),
    /// Show what running processes got: CPUs, memory, pages, devices
    ///
    /// Reads the given processes with their descendants, the processes of a job, or a program that it starts. Without
    /// arguments, nodegauge reads its own process; if srun or mpirun starts it in place of a program, it shows what
    /// each rank gets. It measures nothing, changes nothing, and needs no privileges.
    #[command(after_long_help = examples::section(&[
        "nodegauge where 4711",
        "nodegauge where --expect 'local>=95%' -- ./solver input",
        "nodegauge where --job 4711 --json where.json",
        "nodegauge where",
    ]))]
    Where(Box<jobs::WhereArgs>),
    /// Measure memory bandwidth: STREAM's Copy, Scale, Add, Triad
    #[command(after_long_help = examples::section(&[
        "nodegauge stream",
        "nodegauge stream --threads 1 --size 2GiB --stores regular",
        "nodegauge stream --sweep pages=4k,thp --kernels triad",
        "nodegauge stream --expect 'triad>=1GB/s' --accept-suspect",
        "nodegauge stream --plan",
    ]))]
    Stream(Box<stream::StreamArgs>),
    /// Explain the best STREAM result: the effect of each choice
    ///
    /// Each step is compared with the previous one: threads, binding, layout, pages, stores, loop, side_by_side;
    /// finally, memcpy of the C library is compared with copy. A choice that an option sets is not a step.
    #[command(after_long_help = examples::section(&[
        "nodegauge explain",
        "nodegauge explain --threads 1 --kernels triad",
    ]))]
    Explain(Box<ExplainArgs>),
    /// Measure the memory hierarchy: bandwidth and latency in detail
    #[command(subcommand)]
    #[command(after_long_help = examples::section(&[
        "nodegauge memory ladder",
        "nodegauge memory latency",
        "nodegauge memory matrix",
    ]))]
    Memory(Box<memory::MemoryCommand>),
    /// Measure the node's roofline: bandwidth ceilings and peaks
    ///
    /// The result shows which ceiling limits each kernel.
    #[command(after_long_help = examples::section(&[
        "nodegauge roofline",
        "nodegauge roofline --point spmv,2.4e9,1.9e10,0.8",
        "nodegauge roofline --perf -- ./solver input",
    ]))]
    Roofline(Box<roofline::RooflineArgs>),
    /// Measure MPI messages: latency, bandwidth, rate, collectives
    #[command(after_long_help = examples::section(&[
        "nodegauge mpi",
        "nodegauge mpi --patterns latency,bw --sizes 8,4KiB,1MiB",
        "nodegauge mpi --transport=shm --patterns latency",
    ]))]
    Mpi(Box<MpiArgs>),
    /// Measure floating point: a dense system solved as in HPL, peaks
    #[command(after_long_help = examples::section(&[
        "nodegauge hpl",
        "nodegauge hpl --order 4000 --threads 1",
        "nodegauge hpl --full --plan",
    ]))]
    Hpl(Box<hpl::HplArgs>),
    /// Measure files: IOzone's operations, in page cache and on device
    #[command(after_long_help = examples::section(&[
        "nodegauge io",
        "nodegauge io --path . --quick",
        "nodegauge io --metadata --files 100 --budget 5",
        "nodegauge io --operations write,read --file-sizes 64MiB --block-sizes 1MiB",
        "nodegauge io --operations random_read --engine uring --bs 4KiB --iodepth 8",
    ]))]
    Io(Box<io::IoArgs>),
    /// Measure GPUs and other accelerators: STREAM, links, peaks
    #[command(after_long_help = examples::section(&[
        "nodegauge device",
        "nodegauge device stream --device all",
    ]))]
    Device(Box<device::DeviceArgs>),
    /// Measure proxy applications: trapezoid, iccg and hpcg
    #[command(subcommand)]
    #[command(after_long_help = examples::section(&[
        "nodegauge apps trapezoid",
        "nodegauge apps iccg",
        "nodegauge apps hpcg --grid 64",
    ]))]
    Apps(Box<apps::AppsCommand>),
    /// Measure the time that the node takes away from a program
    ///
    /// A loop of fixed work runs on all cores at the same time and records its interruptions. The page shows how long
    /// they last, what ran instead, and how much they slow down a program with barriers on many hosts.
    #[command(after_long_help = examples::section(&[
        "nodegauge noise",
        "nodegauge noise --budget 60 --threads 1",
    ]))]
    Noise(Box<noise::NoiseArgs>),
    /// Compare your own program under several placements and settings
    ///
    /// Each round runs the program once under each combination of values, in random order. Speeds are compared within a
    /// round, with the first combination. The 95 % intervals are simultaneous: they hold for all combinations together.
    /// The program cannot read the terminal, and its child processes end with it.
    #[command(after_long_help = examples::section(&[
        "nodegauge sweep policy=0-5 -- ./solver input",
        "nodegauge sweep env:BLOCK=16,64 --threads 1 -- ./solver input",
    ]))]
    Sweep(Box<sweep::SweepArgs>),
    /// Take short samples of memory over a day, every ten minutes
    ///
    /// Each sample measures stream and memory latency.
    #[command(after_long_help = examples::section(&[
        "nodegauge watch",
        "nodegauge watch --every 10m --for 24h --label watch=night",
    ]))]
    Watch(WatchArgs),
    /// Check if this node is good: parts, errors, measured figures
    ///
    /// Exit codes: 0 good or unknown, 1 bad; --nagios: 0 good, 2 bad, 3 unknown; --npd: 0 good, 1 bad, 2
    /// unknown. The first line has at most 80 characters: host, reason, verdict.
    #[command(after_long_help = examples::section(&[
        "nodegauge check",
        "nodegauge check --level 2 --reference site.json",
        "nodegauge check --nagios",
    ]))]
    Check(check::CheckArgs),
    /// List, show, export, import, label and remove saved runs
    #[command(subcommand)]
    #[command(after_long_help = examples::section(&[
        "nodegauge history list",
        "nodegauge history show latest",
    ]))]
    History(HistoryCommand),
    /// Print the output of other programs as records, one per line (JSON Lines)
    #[command(long_about = format!("Print the output of other programs as records, one per line (JSON Lines). {}", read::programs()))]
    #[command(after_long_help = examples::section(&[
        "nodegauge read stream.out",
        "nodegauge read stream.out --host n07 --label nps=4",
    ]))]
    Read(read::ReadArgs),
    /// Compare two runs or settings: ratio, confidence and verdict
    #[command(after_long_help = examples::section(&[
        "nodegauge compare latest~1 latest",
        "nodegauge compare nps=1 nps=4 --fail-on slower",
        "nodegauge compare --run 'stream --pages 4k' 'stream --pages thp'",
    ]))]
    Compare(CompareArgs),
    /// Write a report of saved runs: an HTML file, or text for tools
    #[command(after_long_help = examples::section(&[
        "nodegauge report latest",
        "nodegauge report nps=1 nps=4 --output nps.html",
        "nodegauge report latest --format md",
    ]))]
    Report(report::ReportArgs),
    /// Rank and measure the nodes of a cluster, make its reference
    #[command(subcommand)]
    #[command(after_long_help = examples::section(&[
        "nodegauge fleet rank fleet/",
        "nodegauge fleet baseline fleet/ --output site.json",
    ]))]
    Fleet(fleet::FleetCommand),
    /// Print a script that completes commands and options in a shell
    #[command(after_long_help = examples::section(&["nodegauge completions bash"]))]
    Completions {
        /// Shell that runs the script
        shell: clap_complete::Shell,
    },
    /// Print the man page, in roff: nodegauge man | man -l -
    #[command(after_long_help = examples::section(&[
        "nodegauge man",
        "nodegauge man --output man1",
    ]))]
    Man {
        /// Write one page per command to this folder instead: nodegauge.1, nodegauge-stream.1, ...
        #[arg(long, value_name = "DIR", help_heading = "Output")]
        output: Option<PathBuf>,
    },
    /// Print the JSON Schema of the record
    #[command(after_long_help = examples::section(&["nodegauge schema"]))]
    Schema,
    /// Examine the node for check, without measuring (internal)
    #[command(hide = true, name = nodegauge_node::check::EXAMINE_NODE_COMMAND)]
    ExamineNode {
        /// Time of the last check, seconds since 1970
        since: u64,
    },
    /// Measure how fast memory is touched, for check (internal)
    #[command(hide = true, name = nodegauge_node::check::MEASURE_TOUCH_COMMAND)]
    MeasureTouch {
        /// Number of threads
        threads: u32,
    },
    /// Measure as one rank (internal, for --ranks)
    #[command(hide = true, name = nodegauge_stream::ranks::COMMAND)]
    MeasureAsRank {
        /// Socket name of the coordinating process
        name: String,
        /// Number of this rank, from 0
        rank: u32,
        /// Number of all ranks
        ranks: u32,
    },
    /// Start ranks that exchange messages without an MPI (internal)
    #[command(hide = true, name = nodegauge_messages::transport::COMMAND)]
    TransportRanks {
        /// Description of the ranks' job
        order: String,
    },
    /// Try a BLAS library in a process that may crash (internal)
    #[command(hide = true, name = nodegauge_compute::choose::TRY_BLAS_COMMAND)]
    TryBlas {
        /// Path of the BLAS library
        library: PathBuf,
        /// Print only the kernels that BLIS supports, in the order of their numbers
        #[arg(long)]
        list_kernels: bool,
        /// CPUs of each BLAS thread
        #[arg(long, default_value = "")]
        on: nodegauge_compute::choose::TrialPlaces,
    },
    /// Start the user's program at its place (internal)
    #[command(hide = true, name = nodegauge_programs::START_PLACED_COMMAND)]
    StartPlaced {
        /// File with the places
        file: PathBuf,
        /// Program with its arguments
        #[arg(last = true, required = true)]
        program: Vec<String>,
    },
    /// Clean up after a process that was killed (internal)
    #[command(hide = true, name = nodegauge_toolchain::watchdog::COMMAND)]
    CleanUpAfter {
        /// Process to wait for
        process: u32,
    },
    /// List the devices of a driver in a process that may crash (internal)
    #[command(hide = true, name = nodegauge_devices::drivers::LIST_DEVICES_COMMAND)]
    ListDevices {
        /// Name of the driver
        driver: String,
    },
    /// Try a compiled kernel in a process that may crash (internal)
    #[command(hide = true, name = self_test::COMMAND)]
    TestKernel {
        /// Path of the shared object that contains the kernel
        library: PathBuf,
        /// Name of the kernel
        kernel: Kernel,
        /// Type of the elements
        element: Element,
        /// CPU time after which the process is killed
        cpu_seconds: u64,
    },
}

/// Options that write the shown content to a file as JSON or CSV.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DocumentArgs {
    /// Write the shown data as JSON; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Write one line per measurement or run as CSV; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) csv: Option<String>,
}

/// Options of every command that measures.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct MeasuringArgs {
    /// Write the record as JSON to FILE or standard output
    ///
    /// '-' or no FILE is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Write one line per measurement as CSV; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) csv: Option<String>,
    /// Total time, in seconds or as 10m, including set-up and checks
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, help_heading = "How long")]
    pub(crate) budget: Option<Duration>,
    /// Exceed a budget that is shorter than the setup instead of refusing it; for `watch`
    #[arg(long, hide = true)]
    pub(crate) exceed_budget: bool,
    /// Take exactly this many samples, regardless of the time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "How long")]
    pub(crate) samples: Option<u32>,
    /// Label the record, e.g. --label nps=4 (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label, help_heading = "Output")]
    pub(crate) label: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
    /// Do not save the record in the history
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) no_save: bool,
    /// Print only errors and requested documents
    #[arg(long, short, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Print more: where each thread runs, which expectations are met
    #[arg(long, short, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Compare with published figures, e.g. --against 'EPYC 7H12'
    ///
    /// Every word of NAME must occur in the processor, settings or source of a published node. --against list prints
    /// the published nodes and measures nothing. Published figures for this node's processor are shown without this
    /// option.
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) against: Option<PublishedSelection>,
    /// Populated memory channels x MT/s, for the theoretical bandwidth, e.g. 16x3200
    #[arg(long, value_name = "COUNTxMT/s", help_heading = "Rarely needed")]
    pub(crate) dimms: Option<DimmSpec>,
    /// Processor, if it does not report its name, e.g. 'EPYC 9654'
    #[arg(long, value_name = "NAME", help_heading = "Rarely needed")]
    pub(crate) processor: Option<String>,
}

impl MeasuringArgs {
    /// Returns the budget that the user gave, otherwise `usual`.
    pub(crate) fn budget(&self, usual: Duration) -> Budget {
        let budget = Budget::new(self.budget, usual);
        Budget { is_set_by_user: budget.is_set_by_user && !self.exceed_budget, ..budget }
    }
}

/// Minimum time for helper processes such as compilers, even with a short budget: on a busy node, a compilation or the
/// listing of devices may take several seconds.
const MIN_HELPER_TIME: Duration = Duration::from_secs(10);

/// Returns the time at which helper processes must end: the end of the user's budget plus its grace period. `None`
/// without `--budget`, and with `--samples` or `--exceed-budget`. `None` also for `run`: its gauges receive shares of
/// the budget, which they may exceed like a default budget.
pub(crate) fn helper_deadline(matches: &ArgMatches) -> Option<Instant> {
    if matches.subcommand_name().is_none_or(|name| name == "run") {
        return None;
    }
    let mut own = matches;
    while let Some((_, of_subcommand)) = own.subcommand() {
        own = of_subcommand;
    }
    let budget = *own.try_get_one::<Duration>("budget").ok()??;
    let has_samples = own.try_get_one::<u32>("samples").is_ok_and(|samples| samples.is_some());
    let exceeds = own.try_get_one::<bool>("exceed_budget").is_ok_and(|flag| flag == Some(&true));
    if has_samples || exceeds {
        return None;
    }
    let limits = RunLimits::new(budget, None);
    Some(limits.started + (budget + limits.grace()).max(MIN_HELPER_TIME))
}

/// Option for measurements on several hosts.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct HostsArgs {
    /// Write the slow hosts and those without a figure to this file, one per line
    ///
    /// Started by srun or mpirun on several hosts, the command measures all hosts at the same time and ranks them.
    /// Eight or more hosts are judged as by fleet rank. With fewer hosts, a host is slow if its figure is worse than
    /// the median by more than the practical limit (4 % for memory, 3 % for hpl, 5 % for latency).
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) exclude_file: Option<String>,
}

/// Options with conditions that the figures must meet.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ConditionArgs {
    /// Exit with 1 unless this holds, e.g. 'triad>=300GB/s' (repeatable)
    ///
    /// [GAUGE.|TEST.]NAME, then >=, <=, > or <, and a value with its unit, or % of the known limit. @SIZE selects the
    /// figures of one message, block or array size; without it, all figures of this name must meet the condition. A
    /// name, unit or limit that no figure of the command has is reported before the measurement. A suspect figure meets
    /// no condition unless --accept-suspect is given. Examples: --expect 'triad>=75%', --expect 'latency<2us@8B',
    /// --expect 'mpi.bw>=10GB/s@1MiB', --expect 'io.random_read>=1GB/s@4KiB', --expect 'hpl.rating>=80%'
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    pub(crate) expect: Vec<Expectation>,
    /// Exit with 1 if a figure is worse than its bound in this reference (see fleet baseline)
    #[arg(long, value_name = "FILE", value_parser = fleet::read_reference, help_heading = "Output")]
    pub(crate) reference: Option<Reference>,
    /// Let suspect figures meet the conditions of --expect
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) accept_suspect: bool,
    /// Exit with 1 if any figure is suspect
    #[arg(long, conflicts_with = "accept_suspect", help_heading = "Output")]
    pub(crate) strict: bool,
}

/// Option for the path of the history database.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DatabaseArgs {
    /// History database [default: $NODEGAUGE_DB, or in the XDG data folder]
    #[arg(long, value_name = "FILE", help_heading = "Rarely needed")]
    pub(crate) db: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Debug, Clone, ClapArgs)]
#[command(mut_arg("budget", budgets::default_in_words("each gauge has its own")))]
pub(crate) struct RunArgs {
    /// Measure for at most about a minute [default]
    #[arg(long, conflicts_with = "full", help_heading = "How long")]
    pub(crate) quick: bool,
    /// Run the complete default measurement of every gauge
    #[arg(long, help_heading = "How long")]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) common: MeasuringArgs,
}

/// Option that describes another machine.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct TopologyArgs {
    /// Describe another machine: FILE.xml of lstopo, or 'synthetic:Package:2 Core:4 PU:1'
    #[arg(long, value_name = "MACHINE", help_heading = "What")]
    pub(crate) topology: Option<TopologySource>,
}

/// Arguments of `machine`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct MachineArgs {
    #[command(flatten)]
    pub(crate) described: TopologyArgs,
    /// Memory of a described machine, e.g. 768GiB
    #[arg(long, value_name = "BYTES", requires = "topology", help_heading = "Where")]
    pub(crate) memory: Option<Bytes>,
    /// Write a record without measurements as JSON; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Populated memory channels x MT/s, e.g. 16x3200
    #[arg(long, value_name = "COUNTxMT/s", help_heading = "What")]
    pub(crate) dimms: Option<DimmSpec>,
    /// Processor of a described or nameless machine, e.g. 'EPYC 9654'
    #[arg(long, value_name = "NAME", help_heading = "What")]
    pub(crate) processor: Option<String>,
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) described: TopologyArgs,
    /// Write a record with the findings as JSON; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
}

/// Options for the placement of threads and memory.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct PlacementArgs {
    /// Threads: N, or counts to sweep over: A,B,C or A-B[:STEP] [default: one per core]
    #[arg(
        long,
        short = 't',
        value_name = "COUNTS",
        allow_negative_numbers = true,
        help_heading = "Where"
    )]
    pub(crate) threads: Option<ThreadCountList>,
    /// Places as in OMP_PLACES: threads, cores, sockets, ll_caches, numa_domains, '{0:4}:4:8'
    #[arg(long, value_name = "PLACES", help_heading = "Where")]
    pub(crate) places: Option<PlacesSpec>,
    /// Binding as in OMP_PROC_BIND: close, spread, primary, none
    #[arg(long, value_name = "POLICY", help_heading = "Where")]
    pub(crate) bind: Option<Binding>,
    /// Number of threads on each last-level cache
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) per_cache: Option<u32>,
    /// Cores to use if they differ in speed: fast, all, or a class or design of `machine` [default: fastest]
    #[arg(long, value_name = "CLASS", help_heading = "Where")]
    pub(crate) cores: Option<CoreChoice>,
    /// Memory: local, interleave[:NODES], bind:NODES, preferred:NODE
    #[arg(long, value_name = "POLICY", help_heading = "Where")]
    pub(crate) numa: Option<NumaSpec>,
    #[command(flatten)]
    pub(crate) numactl: NumactlArgs,
}

impl PlacementArgs {
    /// Returns the placement options. Environment variables apply where an option is missing.
    pub(crate) fn options(&self) -> PlacementOptions {
        PlacementOptions {
            threads: self.threads.clone(),
            places: self.places.as_ref().or(self.numactl.places()).cloned(),
            bind: self.bind,
            per_cache: self.per_cache,
            cores: self.cores.clone(),
            numa: self.numa.as_ref().or(self.numactl.numa()).cloned(),
            environment: PlacementEnvironment::current(),
        }
    }
}

/// Arguments of `places`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct PlacesArgs {
    #[command(flatten)]
    pub(crate) described: TopologyArgs,
    #[command(flatten)]
    pub(crate) placement: PlacementArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
    /// Give each rank N devices (1 without N) and the cores near them; without --ranks, one rank per N devices
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Where")]
    pub(crate) devices: Option<u32>,
    /// Place --ranks on this number of equal nodes, with an equal number on each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Where")]
    pub(crate) nodes: Option<u32>,
    /// Print the placement for another program instead, e.g. --emit slurm > run.sh; sh run.sh ./a.out
    ///
    /// omp prints environment variables; pbs prints a job script, which runs the command in the variable PROGRAM; nqs
    /// and pjm print job scripts to be filled in; the other formats print a shell script that runs its arguments as a
    /// command.
    #[arg(long, value_name = "FOR", value_enum, conflicts_with_all = ["json", "verify"], help_heading = "Output")]
    pub(crate) emit: Option<EmitFormat>,
    /// Write the placement as JSON; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Show the pairs of hardware threads that `nodegauge mpi` measures, one per distance
    #[arg(long, conflicts_with_all = ["threads", "places", "bind", "per_cache", "cores", "numa", "verify", "devices", "nodes"], help_heading = "What")]
    pub(crate) mpi_pairs: bool,
    /// Bind threads as shown and print the CPUs on which the kernel allows them to run
    #[arg(long, help_heading = "Output")]
    pub(crate) verify: bool,
}

/// Returns the definition of the command line, with the long version text for this processor.
pub(crate) fn command() -> clap::Command {
    definition().long_version(long_version())
}

/// Returns the definition of the command line. Documents such as the man page are generated from it, too.
pub(crate) fn definition() -> clap::Command {
    let command = Args::command()
        .mut_subcommand("explain", without_published_figures)
        .mut_subcommand("roofline", without_published_figures)
        .mut_subcommand("report", with_trend_filters);
    let mut command =
        command.mut_subcommand("memory", |memory| memory.mut_subcommands(with_one_team));
    for name in ["explain", "roofline", "hpl", "noise"] {
        command = command.mut_subcommand(name, with_one_team);
    }
    examples::with_short_help_end(tree::sort_options(summary::hide_details(command)))
}

/// Changes the help of a command that accepts a single number of threads.
fn with_one_team(command: clap::Command) -> clap::Command {
    if command.get_arguments().all(|arg| arg.get_id() != "threads") {
        return command;
    }
    command.mut_arg("threads", |threads| {
        threads.help("Threads [default: one per core]").value_name("N")
    })
}

/// Hides `--against` of a command for which no figures are published.
fn without_published_figures(command: clap::Command) -> clap::Command {
    command.mut_arg("against", |against| against.hide(true))
}

/// Makes the options that select the runs of `report --trend` require `--trend`.
fn with_trend_filters(mut report: clap::Command) -> clap::Command {
    for id in ["gauge", "label", "host", "since", "until"] {
        report = report.mut_arg(id, |arg| arg.requires("trend"));
    }
    report
}

/// Returns the text of `--version`: version, commit, kernels that this processor supports, and version of hwloc.
fn long_version() -> String {
    let isas: Vec<&str> =
        nodegauge_kernels::available_isas().iter().map(|isa| isa.name()).collect();
    // A release names the version of hwloc that it contains; a shared library names only its interface version.
    let hwloc = match option_env!("NODEGAUGE_HWLOC") {
        Some(version) => format!("{version} (linked statically)"),
        None => format!("interface {}", nodegauge_machine::topology::hwloc_interface_version()),
    };
    format!(
        "{} ({})\nkernels for this processor: {}\nkernel variants compiled in: {}\nhwloc: {}",
        env!("CARGO_PKG_VERSION"),
        option_env!("NODEGAUGE_COMMIT").unwrap_or("commit unknown"),
        isas.join(", "),
        nodegauge_kernels::compiled_count(),
        hwloc,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_budget_sets_a_deadline_for_helper_processes() {
        let left = |words: &str| {
            let words = ["nodegauge"].into_iter().chain(words.split_whitespace());
            let matches = command().try_get_matches_from(words).unwrap();
            helper_deadline(&matches).map(|end| (end - Instant::now()).as_secs_f64().round())
        };
        for words in ["stream --budget 60", "device stream --budget 60"] {
            assert_eq!(left(words), Some(66.0), "{words}");
        }
        assert_eq!(left("mpi --budget 4"), Some(10.0));
        for words in
            ["stream", "machine", "stream --budget 9 --samples 3", "run --budget 9", "--budget 9"]
        {
            assert_eq!(left(words), None, "{words}");
        }
        assert_eq!(left("stream --budget 9 --exceed-budget"), None);
    }

    #[test]
    fn commands_with_a_single_team_do_not_offer_counts_to_sweep_over() {
        let definition = definition();
        let memory = definition.find_subcommand("memory").unwrap();
        let others = ["hpl", "noise", "explain", "roofline"];
        let others = others.map(|name| definition.find_subcommand(name).unwrap());
        let mut examined = 0;
        for command in memory.get_subcommands().chain(others) {
            let threads = command.get_arguments().find(|arg| arg.get_id() == "threads");
            let Some(help) = threads.and_then(clap::Arg::get_help) else { continue };
            assert!(!help.to_string().contains("sweep"), "{}: {help}", command.get_name());
            examined += 1;
        }
        assert!(examined >= 10, "{examined}");
    }

    #[test]
    fn command_definition_is_valid() {
        command().debug_assert();
    }
}
