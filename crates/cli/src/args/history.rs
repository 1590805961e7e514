//! The arguments of `history`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::stream::ShowArgs;
use super::values::parse_label;
use super::{DatabaseArgs, DocumentArgs, examples};
use crate::gauges::{self, GAUGES};
use clap::{Args as ClapArgs, Subcommand};
use nodegauge_gauge::readers::{self, GivenRunProperties};
use nodegauge_history::{DayOrSecond, RunFilter};
use nodegauge_machine::DimmSpec;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::{Bytes, SyntaxError};
use nodegauge_stream::kernels::Element;
use std::path::PathBuf;

/// Commands of `history`.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List saved runs, newest first
    #[command(after_long_help = examples::section(&[
        "nodegauge history list",
        "nodegauge history list --gauge stream --since 7d",
    ]))]
    List(ListArgs),
    /// Show a saved run: its output, time and host
    #[command(after_long_help = examples::section(&[
        "nodegauge history show latest",
        "nodegauge history show nps=4 --verbose",
    ]))]
    Show {
        /// Identifier or its prefix, latest, latest~1, a label, or a file
        run: String,
        /// Show all figures with their samples and notes, also for a run of several gauges
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        documents: DocumentArgs,
        #[command(flatten)]
        show: ShowArgs,
        #[command(flatten)]
        db: DatabaseArgs,
    },
    /// Write records to a file, one per line (JSON Lines), for history import on another node
    #[command(after_long_help = examples::section(&[
        "nodegauge history export --output runs.jsonl",
        "nodegauge history export nps=4",
    ]))]
    Export {
        /// Identifiers or their prefixes, latest, labels (all runs with that label), or files [default: all runs]
        runs: Vec<String>,
        /// Output file; '-' is standard output
        #[arg(long, short, value_name = "FILE", default_value = "-")]
        output: String,
        #[command(flatten)]
        db: DatabaseArgs,
    },
    /// Save records of another history, or the output of another program
    #[command(about = about_import(), long_about = format!("{}\n\n{IMPORT_HELP}", about_import()))]
    #[command(after_long_help = examples::section(&[
        "nodegauge history import runs.jsonl",
        "nodegauge history import stream.out --processor 'EPYC 9654' --sockets 2",
    ]))]
    Import {
        /// Files from history export or --json, or files with the output of one run each
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Put a label on the records (repeatable), e.g. --label nps=4
        #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
        label: Vec<(String, String)>,
        /// Host on which the other programs ran
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        #[command(flatten)]
        node: ImportedNode,
        #[command(flatten)]
        run: ImportedRun,
        #[command(flatten)]
        db: DatabaseArgs,
    },
    /// Put a label on a saved run; an empty value removes the label
    #[command(after_long_help = examples::section(&["nodegauge history label latest nps=4"]))]
    Label {
        /// Identifier or its prefix, latest, latest~1, or a label
        run: String,
        /// Label to set
        #[arg(value_name = "KEY=VALUE", value_parser = parse_label)]
        label: (String, String),
        #[command(flatten)]
        db: DatabaseArgs,
    },
    /// Remove saved runs
    #[command(after_long_help = examples::section(&["nodegauge history remove latest"]))]
    Remove {
        /// Identifiers or their prefixes
        #[arg(required = true)]
        runs: Vec<String>,
        #[command(flatten)]
        db: DatabaseArgs,
    },
}

/// Help text about the import of records.
const IMPORT_HELP: &str = "Records from history export and --json keep their identifiers and their host; new runs on \
                          this host do not use the imported figures. A record that is already saved is skipped.";

/// Returns the description of `import`, with the programs whose output can be read.
fn about_import() -> String {
    let programs = readers::programs(&readers::all(&GAUGES));
    format!("Save records of another history, or the output of {programs}")
}

/// Node on which another program ran.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ImportedNode {
    /// Processor on which the other programs ran, e.g. 'EPYC 9654'
    #[arg(long, value_name = "NAME")]
    pub(crate) processor: Option<String>,
    /// Number of sockets of the node
    #[arg(long, value_name = "N", default_value = "1", requires = "processor", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) sockets: u32,
    /// Populated memory channels of the node x MT/s, e.g. 16x3200; gives the theoretical bandwidth
    #[arg(long, value_name = "COUNTxMT/s")]
    pub(crate) dimms: Option<DimmSpec>,
}

impl ImportedNode {
    /// True if the user describes the node.
    pub(crate) fn is_given(&self) -> bool {
        self.processor.is_some() || self.dimms.is_some()
    }
}

/// Properties of a run that may be missing in STREAM's output.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ImportedRun {
    /// Bytes per element of STREAM (4 or 8), if missing in the output
    #[arg(long, value_name = "BYTES", value_parser = element)]
    pub(crate) element: Option<Element>,
    /// Elements per array as compiled into STREAM, if missing in the output, e.g. 800000000
    #[arg(long, value_name = "ELEMENTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) size: Option<u64>,
    /// Threads of STREAM on all ranks together, if missing in the output
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) threads: Option<u64>,
    /// MPI ranks of STREAM, if missing in the output
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ranks: Option<u64>,
    /// Runs of each STREAM kernel (NTIMES), if missing in the output
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) times: Option<u64>,
    /// Compiler and flags of STREAM, e.g. 'icc -O3 -qopenmp'
    #[arg(long, value_name = "COMMAND")]
    pub(crate) compiler: Option<String>,
}

/// Parses the number of bytes per element.
fn element(text: &str) -> Result<Element, SyntaxError> {
    match text {
        "4" => Ok(Element::F32),
        "8" => Ok(Element::F64),
        _ => Err(Cursor::new("element", "--element 8", text)
            .error("an element has 4 bytes (float) or 8 bytes (double)")),
    }
}

impl ImportedRun {
    /// Returns the properties that the user gave.
    pub(crate) fn given_properties(&self) -> GivenRunProperties {
        GivenRunProperties {
            element: self.element.map(|element| Bytes(element.bytes())),
            elements: self.size,
            threads: self.threads,
            ranks: self.ranks,
            ntimes: self.times,
            compiler: self.compiler.clone(),
        }
    }
}

/// Options that select saved runs.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct RunFilterArgs {
    /// Only runs with figures of this gauge or test, e.g. files, stream, hpl, mpi
    #[arg(long, value_name = "NAME", value_parser = gauges::find_tests, help_heading = "What")]
    pub(crate) gauge: Option<gauges::SelectedTests>,
    /// Only runs with this label (repeatable: only runs with all given labels)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label, help_heading = "What")]
    pub(crate) label: Vec<(String, String)>,
    /// Only runs on this host
    #[arg(long, value_name = "NAME", help_heading = "What")]
    pub(crate) host: Option<String>,
    /// Only runs since this time: a date or time (RFC 3339, UTC unless an offset is given), or an age: 2d,
    /// 12h
    #[arg(long, value_name = "WHEN", help_heading = "What")]
    pub(crate) since: Option<DayOrSecond>,
    /// Only runs until this time; a date includes the whole day
    #[arg(long, value_name = "WHEN", help_heading = "What")]
    pub(crate) until: Option<DayOrSecond>,
}

impl RunFilterArgs {
    /// Returns the filter for the history.
    pub(crate) fn filter(&self) -> RunFilter {
        RunFilter {
            host: self.host.clone(),
            labels: self.label.clone(),
            tests: self.gauge.as_ref().map(|tests| tests.0.clone()).unwrap_or_default(),
            since: self.since.clone(),
            until: self.until.clone(),
            ..RunFilter::default()
        }
    }
}

/// Arguments of `history list`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) saved: RunFilterArgs,
    /// Maximum number of runs [default: 20; all with --quiet, --json or --csv]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What")]
    pub(crate) limit: Option<u32>,
    /// List all runs
    #[arg(long, conflicts_with = "limit", help_heading = "What")]
    pub(crate) all: bool,
    /// Print identifiers only, e.g. nodegauge history remove $(nodegauge history list -q --until 2026-01-01)
    #[arg(long, short, conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) documents: DocumentArgs,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
}
