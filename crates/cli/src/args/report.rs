//! The arguments of `report`.

use super::history::RunFilterArgs;
use super::{ConditionArgs, DatabaseArgs};
use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum};
use nodegauge_report::export::{EXPORTERS, Exporter};
use std::fmt;
use std::sync::LazyLock;

/// Arguments of `report`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Identifiers or their prefixes, latest, latest~1, labels (the newest run with the label), or files; html and text
    /// show up to 16 runs next to each other
    #[arg(default_value = "latest")]
    pub(crate) runs: Vec<String>,
    /// Plot the headline figures of all runs with this label over time: key, value or key=value
    #[arg(long, value_name = "LABEL", conflicts_with = "runs", help_heading = "What")]
    pub(crate) trend: Option<String>,
    #[command(flatten)]
    pub(crate) saved: RunFilterArgs,
    /// Format of the report
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        default_value = "html",
        help_heading = "Output"
    )]
    pub(crate) format: ReportFormat,
    /// Output file; '-' is standard output [default: nodegauge-ID.html for html, else -]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
}

/// Format of a report: one of [`EXPORTERS`].
#[derive(Clone, Copy)]
pub(crate) struct ReportFormat(pub(crate) &'static dyn Exporter);

static FORMATS: LazyLock<Vec<ReportFormat>> =
    LazyLock::new(|| EXPORTERS.iter().copied().map(ReportFormat).collect());

impl ValueEnum for ReportFormat {
    fn value_variants<'a>() -> &'a [Self] {
        &FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.purpose().replace('`', "")))
    }
}

impl fmt::Debug for ReportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}
