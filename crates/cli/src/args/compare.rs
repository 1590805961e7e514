//! The arguments of `compare`.

use super::{DatabaseArgs, DocumentArgs};
use clap::Args as ClapArgs;
use nodegauge_analysis::compare::{MAX_BLOCKS, Threshold};
use nodegauge_fleet::reference::Reference;
use nodegauge_measure::SyntaxError;
use nodegauge_toolchain::CommandLine;

/// Arguments of `compare`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CompareArgs {
    /// Run A: identifier or its prefix, latest, latest~1, a file, or a label such as nps=1
    ///
    /// A label selects all runs that have it; they count as repeated runs of one setting.
    #[arg(required_unless_present = "run")]
    pub(crate) a: Option<String>,
    /// Run B, which is compared with A, in one of the forms of A
    #[arg(required_unless_present = "run")]
    pub(crate) b: Option<String>,
    /// Run two commands alternately, in blocks A B B A, and compare their runs
    ///
    /// Each command is a command of nodegauge without the word `nodegauge`. Environment variables may precede it: --run
    /// 'OMP_PLACES=cores stream' 'OMP_PLACES=sockets stream'. After another program, nodegauge is named: --run stream
    /// 'numactl -i all nodegauge stream', --run './before io' './after io'. Every run is saved.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["a", "b"], value_parser = turns, help_heading = "What")]
    pub(crate) run: Option<Vec<CommandLine>>,
    /// Number of blocks of four runs
    #[arg(long, value_name = "N", conflicts_with_all = ["a", "b"], default_value = "5", value_parser = clap::value_parser!(u32).range(3..=MAX_BLOCKS as i64), help_heading = "How long")]
    pub(crate) blocks: u32,
    /// Do not save the runs in the history
    #[arg(long, conflicts_with_all = ["a", "b"], help_heading = "Rarely needed")]
    pub(crate) no_save: bool,
    /// Exit with 1 if this condition holds (repeatable), e.g. --fail-on 'triad<-5%' or --fail-on slower
    ///
    /// [GAUGE.|TEST.]NAME, or any, then >=, <=, > or <, and the change from A to B in percent; @SIZE for one message,
    /// block or array size. 'slower' fails if any figure is slower by more than the noise. A change within noise is
    /// reported and does not fail. A figure that is suspect, not comparable or missing in B fails. Example: --fail-on
    /// 'mpi.latency>10%@8B'
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true, help_heading = "Output")]
    pub(crate) fail_on: Vec<Threshold>,
    /// Exit with 1 if a figure of B's last run is worse than its bound in this reference
    #[arg(long, value_name = "FILE", value_parser = super::fleet::read_reference, help_heading = "Output")]
    pub(crate) reference: Option<Reference>,
    /// Treat suspect figures as valid
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) accept_suspect: bool,
    /// Exit with 1 if any figure of run A or B is suspect
    #[arg(long, conflicts_with = "accept_suspect", help_heading = "Output")]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) documents: DocumentArgs,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
}

fn turns(text: &str) -> Result<CommandLine, SyntaxError> {
    CommandLine::parse("command", "--run 'stream --pages 4k' 'stream --pages thp'", text)
}
