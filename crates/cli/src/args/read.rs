//! The arguments of `read`.

use super::ImportedNode;
use super::history::ImportedRun;
use super::values::label;
use crate::commands::read::{self, RunDescription};
use crate::failure::{Exit, Failure};
use crate::gauges::GAUGES;
use clap::Args as ClapArgs;
use nodegauge_gauge::readers;
use std::path::PathBuf;

/// Arguments of `read`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReadArgs {
    /// Files with any number of runs; '-' is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Put a label on the records (repeatable), e.g. --label nps=4
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Host on which the other programs ran
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    #[command(flatten)]
    node: ImportedNode,
    #[command(flatten)]
    run: ImportedRun,
}

impl ReadArgs {
    /// Prints the records of the files.
    pub(crate) fn execute(&self) -> Result<Exit, Failure> {
        let run = &self.run.known();
        let host = self.host.as_deref();
        let described = RunDescription { labels: &self.label, host, node: &self.node, run };
        read::execute(&self.files, &described)
    }
}

/// Returns a sentence with the programs whose output is read.
pub(super) fn programs() -> String {
    let programs = readers::programs(&readers::all(&GAUGES));
    format!("Reads the output of {programs}. Saves nothing")
}
