//! The arguments of `compare`.

use super::Database;
use clap::Args as ClapArgs;
use nodegauge_measure::compare::Threshold;

/// `compare`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CompareArgs {
    /// Identifier or its beginning, latest, latest~1, a file, or a label such as nps=1
    ///
    /// A label that several runs carry means all of them, as repeated runs of one setting.
    pub(crate) a: String,
    /// The same, held against the first
    pub(crate) b: String,
    /// Exit with 1 when this is so (repeatable), e.g. --fail-on 'triad<-5%' or --fail-on slower
    ///
    /// [GAUGE.|TEST.]NAME, or any, then >=, <=, > or <, and the change of B to A in percent; @SIZE for
    /// one message, block or array size. A change within noise does not fail, and is said. 'slower'
    /// fails when any measurement is slower beyond noise. Example: --fail-on 'mpi.latency>10%@8B'
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true, help_heading = "Output")]
    pub(crate) fail_on: Vec<Threshold>,
    /// Write the comparison as JSON; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Write a line a measurement as CSV; '-' or nothing is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) csv: Option<String>,
    #[command(flatten)]
    pub(crate) db: Database,
}
