//! The arguments of `report`.

use super::history::WhichRuns;
use super::{Conditions, Database};
use clap::{Args as ClapArgs, ValueEnum};

/// `report`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Identifiers or their beginnings, latest, latest~1, labels (the newest run with it), or files; in html several,
    /// up to 16, stand side by side
    #[arg(default_value = "latest")]
    pub(crate) runs: Vec<String>,
    /// Draw the figures that stand for a node from run to run, of the runs with this label: key, value or
    /// key=value
    #[arg(long, value_name = "LABEL", conflicts_with = "runs", help_heading = "What")]
    pub(crate) trend: Option<String>,
    #[command(flatten)]
    pub(crate) which: WhichRuns,
    /// What is made of them
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        default_value = "html",
        help_heading = "Output"
    )]
    pub(crate) format: Format,
    /// Where the report goes; '-' is standard output [default: nodegauge-ID.html; of texts -]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    #[command(flatten)]
    pub(crate) db: Database,
}

/// Kinds of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One page that needs no network.
    Html,
    /// Markdown, for a ticket.
    Md,
    /// JUnit's XML: a test case for each figure and each --expect; exit code 1 when one fails.
    Junit,
    /// Metrics for Prometheus, as node_exporter's textfile collector reads them.
    Openmetrics,
    /// Records, one a line.
    Jsonl,
    /// For github-action-benchmark; with --output NAME.json a file for each direction: NAME-bigger.json,
    /// NAME-smaller.json.
    GithubActionBenchmark,
}
