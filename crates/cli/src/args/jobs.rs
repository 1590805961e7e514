//! The arguments of `where`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::values::{parse_seconds_from, parse_time_between};
use clap::Args as ClapArgs;
use nodegauge_analysis::expect::Expectation;
use nodegauge_measure::SyntaxError;
use std::time::Duration;

/// Arguments of `where`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WhereArgs {
    /// Processes to read, together with their descendants
    #[arg(value_name = "PID", conflicts_with_all = ["job", "program"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processes: Vec<u32>,
    /// Program to run and read, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,
    /// Read the processes of this job on this node, e.g. 4711 for Slurm
    ///
    /// On all nodes of the job: srun --jobid=4711 --overlap --ntasks-per-node=1 nodegauge where --job 4711
    #[arg(long, value_name = "ID", conflicts_with = "program", help_heading = "What")]
    pub(crate) job: Option<String>,
    /// Time between the first and the last reading of running processes [default: 0.1 s]
    #[arg(long = "for", value_name = "TIME", value_parser = window, conflicts_with = "program", help_heading = "How long")]
    pub(crate) window: Option<Duration>,
    /// Time limit for reading the pages of processes, which locks their memory map; 0 skips the pages
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = pages_time, help_heading = "How long")]
    pub(crate) pages: Duration,
    /// Exit with 1 unless this holds for all processes, e.g. 'local>=95%' (repeatable)
    ///
    /// local: share of the memory on the NUMA nodes where the busy threads run. huge: share of the memory on huge
    /// pages. waiting: share of the time for which a thread waited for a CPU, e.g. 'waiting<=1%'.
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    pub(crate) expect: Vec<Expectation>,
    /// Write the document as JSON (nodegauge-where/1); '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// List idle threads and all variables
    #[arg(long, short, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Print the JSON Schema of the document
    #[arg(long, exclusive = true, help_heading = "Rarely needed")]
    pub(crate) schema: bool,
}

/// Parses the time between the first and the last reading.
fn window(text: &str) -> Result<Duration, SyntaxError> {
    parse_seconds_from(0.01, text)
}

/// Parses a time limit, which may be zero.
fn pages_time(text: &str) -> Result<Duration, SyntaxError> {
    parse_time_between(0.0, 1e6, text)
}
