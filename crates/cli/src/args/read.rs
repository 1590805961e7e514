//! The arguments of `read`.

use super::ImportedNode;
use super::history::ImportedRun;
use super::values::parse_label;
use crate::gauges::GAUGES;
use clap::Args as ClapArgs;
use nodegauge_gauge::readers;
use std::path::PathBuf;

/// Arguments of `read`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReadArgs {
    /// Files with the output of any number of runs; '-' is standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Put a label on the records (repeatable), e.g. --label nps=4
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,
    /// Host on which the other programs ran
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) node: ImportedNode,
    #[command(flatten)]
    pub(crate) run: ImportedRun,
}

/// Returns a sentence that lists the programs whose output can be read.
pub(super) fn programs() -> String {
    let programs = readers::programs(&readers::all(&GAUGES));
    format!("Reads the output of {programs}. Saves nothing")
}
