//! The arguments of `history`.

// Doc comments here are help texts, in which brackets are grammar and no links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::{Database, label, stream};
use clap::Subcommand;
use std::path::PathBuf;

/// `history`.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List saved runs, newest first
    List {
        /// At most this many
        #[arg(long, short = 'n', value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Only runs on this host
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        /// Only runs with this label
        #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
        label: Option<(String, String)>,
        #[command(flatten)]
        db: Database,
    },
    /// Show a saved run again
    Show {
        /// Identifier or its beginning, latest, latest~1, a label, or a file
        run: String,
        /// Write the record as JSON; '-' or nothing is standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
        json: Option<String>,
        /// Write a line a measurement as CSV; '-' or nothing is standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
        csv: Option<String>,
        #[command(flatten)]
        show: stream::ShowArgs,
        #[command(flatten)]
        db: Database,
    },
    /// Save what stream.c (C, MPI, Fortran), an OSU micro-benchmark, iozone or fio printed, as records
    Import {
        /// Files with saved output, one run each
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Put a label on the records (repeatable), e.g. --label nps=4
        #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
        label: Vec<(String, String)>,
        /// Host on which they ran
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
        #[command(flatten)]
        db: Database,
    },
    /// Put a label on a saved run; an empty value takes it away
    Label {
        /// Identifier or its beginning, latest, latest~1, or a label
        run: String,
        /// The label
        #[arg(value_name = "KEY=VALUE", value_parser = label)]
        label: (String, String),
        #[command(flatten)]
        db: Database,
    },
    /// Remove saved runs
    Remove {
        /// Identifiers or their beginnings
        #[arg(required = true)]
        runs: Vec<String>,
        #[command(flatten)]
        db: Database,
    },
}
