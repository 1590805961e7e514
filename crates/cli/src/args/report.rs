//! The arguments of `report`.

use super::Database;
use clap::Args as ClapArgs;

/// `report`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Identifier or its beginning, latest, latest~1, a label, or a file
    #[arg(default_value = "latest")]
    pub(crate) run: String,
    /// Where the report goes; '-' is standard output [default: nodegauge-ID.html]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) db: Database,
}
