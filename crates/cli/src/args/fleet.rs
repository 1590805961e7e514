//! The arguments of `fleet`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::history::RunFilterArgs;
use super::values::{parse_seconds, parse_time_between};
use super::{DatabaseArgs, examples};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use nodegauge_fleet::reference::Reference;
use nodegauge_fleet::script::FleetTool;
use nodegauge_history::DayOrSecond;
use nodegauge_measure::{Failure, SyntaxError};
use nodegauge_toolchain::mpi::HostList;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reads the reference that an option names.
pub(crate) fn read_reference(path: &str) -> Result<Reference, Failure> {
    Reference::read(Path::new(path))
}

/// Commands of `fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Rank nodes: which are slow, unknown or missing, with the reason; exits with 1 if a node is slow
    #[command(after_long_help = examples::section(&[
        "nodegauge fleet rank fleet/",
        "nodegauge fleet rank fleet/ --nodes node[01-04]",
        "nodegauge fleet rank fleet/ --format html --output rank.html",
    ]))]
    Rank(RankArgs),
    /// Make the reference of a site: bounds of each figure for each kind of node
    #[command(after_long_help = examples::section(&[
        "nodegauge fleet baseline fleet/ --output site.json",
        "nodegauge fleet baseline --gauge stream --since 30d",
    ]))]
    Baseline(BaselineArgs),
    /// Show how nodes of the same kind differ, without measuring; exits with 1 if they do
    ///
    /// Records of nodegauge machine --json are sufficient.
    #[command(after_long_help = examples::section(&[
        "nodegauge fleet diff fleet/",
        "nodegauge fleet diff fleet/ --before older/",
    ]))]
    Diff(DiffArgs),
    /// Print the lines with which a scheduler or parallel shell measures all nodes
    #[command(
        override_usage = "nodegauge fleet script --for TOOL --nodes NODES [OPTIONS]\n       [-- COMMAND...]"
    )]
    #[command(after_long_help = examples::section(&[
        "nodegauge fleet script --for slurm --nodes node[01-64]",
        "nodegauge fleet script --for clush --nodes node[01-64] -- stream --budget 20",
    ]))]
    Script(ScriptArgs),
    /// Measure nodes of a Slurm cluster in production: one exclusive job per node, a few at a time
    ///
    /// The folder is the only state: you can interrupt the command at any time, and start it again to measure the nodes
    /// without a record. It never drains or resumes a node.
    #[command(after_long_help = examples::section(&[
        "nodegauge fleet run fleet",
        "nodegauge fleet run fleet --nodes node[01-64] -- stream",
    ]))]
    Run(Box<RunArgs>),
}

/// Options that select records of nodes.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct InputArgs {
    /// Folders and files that the nodes wrote, '-' for standard input [default: the history]
    ///
    /// Supported: one record per file, JSON Lines, lines prefixed with the node name (clush, pdsh, srun --label), clush
    /// -b, folders of Ansible and parallel-ssh, and ReFrame's run report.
    pub(crate) inputs: Vec<PathBuf>,
    /// Use all figures of the records, not only the headlines
    #[arg(long, help_heading = "What")]
    pub(crate) all_figures: bool,
    #[command(flatten)]
    pub(crate) saved: RunFilterArgs,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
}

/// Arguments of `fleet rank`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RankArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Expected nodes, e.g. node[01-64]; nodes without a record are listed as missing
    #[arg(long, value_name = "NODES", help_heading = "What")]
    pub(crate) nodes: Option<HostList>,
    /// Reference from fleet baseline, without which fewer than eight nodes of one kind are not judged
    #[arg(long, value_name = "FILE", value_parser = read_reference, help_heading = "How")]
    pub(crate) reference: Option<Reference>,
    /// Minimum number of runs with a bad figure for a node to be slow
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "How")]
    pub(crate) confirm: u32,
    /// List all good nodes; by default, only the worst of them are listed
    #[arg(long, help_heading = "Output")]
    pub(crate) all: bool,
    /// Format of the ranking
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        help_heading = "Output"
    )]
    pub(crate) format: RankFormat,
    /// Output file; '-' is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub(crate) output: String,
}

/// Formats of a ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RankFormat {
    /// Tables for a terminal
    Text,
    /// HTML page that needs no network
    Html,
    /// Markdown for a ticket
    Md,
    /// One CSV line per node and figure
    Csv,
    /// Complete ranking as JSON
    Json,
    /// Slow nodes as a host list, for --exclude of Slurm and ReFrame
    Exclude,
    /// Bounds of the figures, as the reference of a ReFrame check
    Reframe,
    /// Lines for nhc.conf that fail on slow nodes
    Nhc,
}

/// Arguments of `fleet baseline`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct BaselineArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Format of the reference
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        default_value = "json",
        help_heading = "Output"
    )]
    pub(crate) format: BaselineFormat,
    /// System and partition in ReFrame, e.g. daint:mc
    #[arg(long, value_name = "SYSTEM", default_value = "*", help_heading = "Output")]
    pub(crate) system: String,
    /// Output file; '-' is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub(crate) output: String,
}

/// Formats of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BaselineFormat {
    /// The file that --reference reads
    Json,
    /// The attribute `reference` of a ReFrame check
    Reframe,
}

/// Arguments of `fleet diff`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Earlier records of the nodes: show also what has changed
    ///
    /// A folder or file, '-' for standard input, or a date or age: saved runs until then, e.g. 7d.
    #[arg(long, value_name = "PATH|WHEN", value_parser = earlier, help_heading = "What")]
    pub(crate) before: Option<EarlierRecords>,
}

/// Earlier records of nodes.
#[derive(Debug, Clone)]
pub(crate) enum EarlierRecords {
    /// Folder, file or standard input.
    Path(PathBuf),
    /// Saved runs until this time.
    Saved(DayOrSecond),
}

/// Parses the location of earlier records. An existing path is a path, even if its name looks like a date. Any other
/// text that begins like a date or an age must be a valid date or age.
fn earlier(text: &str) -> Result<EarlierRecords, SyntaxError> {
    let path = PathBuf::from(text);
    let is_time = text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains('/');
    if is_time && !path.exists() {
        return text.parse().map(EarlierRecords::Saved);
    }
    Ok(EarlierRecords::Path(path))
}

/// Arguments of `fleet script`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ScriptArgs {
    /// Program that starts the measurement on the nodes.
    #[arg(long = "for", help = tools(), value_name = "TOOL", help_heading = "What")]
    pub(crate) tool: FleetTool,
    /// Nodes to measure, e.g. node[01-64]
    #[arg(long, value_name = "NODES", help_heading = "What")]
    pub(crate) nodes: HostList,
    /// Folder for the records
    #[arg(long, value_name = "DIR", default_value = "fleet", help_heading = "Output")]
    pub(crate) folder: String,
    /// Command that each node runs, without --json [default: run --quick]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Returns the help of `fleet script --for`.
fn tools() -> String {
    let names: Vec<&str> = FleetTool::ALL.iter().map(|tool| tool.name()).collect();
    format!("Scheduler or parallel shell that runs the measurement: {}", names.join(", "))
}

impl RunArgs {
    /// Returns the time limit of a job in minutes, the unit that Slurm uses.
    pub(crate) fn job_minutes(&self) -> u32 {
        self.minutes.unwrap_or_else(|| self.time_limit.as_secs().div_ceil(60) as u32)
    }
}

/// Parses the time limit of a job.
fn job_time(text: &str) -> Result<Duration, SyntaxError> {
    parse_time_between(60.0, 600_000.0, text)
}

/// Arguments of `fleet run`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RunArgs {
    /// Folder for the records, which is also the state of the command
    pub(crate) folder: PathBuf,
    /// Use Slurm: one exclusive single-node job per node [default]
    #[arg(long, help_heading = "Where")]
    pub(crate) slurm: bool,
    /// Nodes to measure [default: all nodes of the default partition, or of --partition]
    #[arg(long, value_name = "NODES", help_heading = "Where")]
    pub(crate) nodes: Option<HostList>,
    /// Partition of the jobs
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    pub(crate) partition: Option<String>,
    /// Quality of service of the jobs, preferably a low one
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    pub(crate) qos: Option<String>,
    /// Another option for sbatch (repeatable), e.g. --sbatch=--account=ops
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = "Where")]
    pub(crate) sbatch: Vec<String>,
    /// Also measure nodes that Slurm has powered off; the jobs switch them on
    #[arg(long, help_heading = "Where")]
    pub(crate) power_up: bool,
    /// Maximum number of jobs in the queue
    #[arg(long, value_name = "K", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "How")]
    pub(crate) outstanding: u32,
    /// Time limit of a job, e.g. 20m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = job_time, help_heading = "How long")]
    pub(crate) time_limit: Duration,
    /// Time limit of a job, in minutes
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "time_limit", hide = true)]
    pub(crate) minutes: Option<u32>,
    /// Stop after this time; jobs in the queue stay there
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, help_heading = "How long")]
    pub(crate) deadline: Option<Duration>,
    /// Measure slow nodes again until this many runs agree
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=10), help_heading = "How")]
    pub(crate) confirm: u32,
    /// Reference from fleet baseline
    #[arg(long, value_name = "FILE", value_parser = read_reference, help_heading = "How")]
    pub(crate) reference: Option<Reference>,
    /// Submit nothing; show the state of the jobs until all have ended
    #[arg(long, help_heading = "What")]
    pub(crate) watch: bool,
    /// Command that each node runs, without --json [default: run --quick]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
