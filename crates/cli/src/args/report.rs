//! The arguments of `report`.

use super::Database;
use clap::Args as ClapArgs;

/// `report`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Identifiers or their beginnings, latest, latest~1, labels, or files; several, up to 16, stand side by side
    #[arg(default_value = "latest")]
    pub(crate) runs: Vec<String>,
    /// Where the report goes; '-' is standard output [default: nodegauge-ID.html]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) db: Database,
}
