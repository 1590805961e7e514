//! The arguments of `check`.

// Doc comments in this module are help texts; brackets in them are syntax, not links.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

use super::values::parse_seconds;
use super::{DatabaseArgs, WhenBusy};
use clap::Args as ClapArgs;
use nodegauge_node::check::VerdictCodes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Name of the command.
const CHECK: &str = "check";
/// Option that selects Nagios' exit codes.
const NAGIOS: &str = "--nagios";
/// Nagios' exit code for an unknown state.
const NAGIOS_UNKNOWN: u8 = 3;

/// Returns the exit code for a check that cannot start, if the command line selects special codes. For Nagios, the
/// usual code of wrong usage would mean a critical state.
pub(crate) fn failure_exit_code(words: impl IntoIterator<Item = OsString>) -> Option<u8> {
    // Words after `--` belong to another program.
    let words: Vec<OsString> = words.into_iter().take_while(|word| word != "--").collect();
    let is_asked = [CHECK, NAGIOS].iter().all(|word| words.iter().any(|one| one == word));
    is_asked.then_some(NAGIOS_UNKNOWN)
}

/// Arguments of `check`.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Extent: 1 examines only, 2 measures memory, 3 also floating point, messages and files
    ///
    /// Level 1 (1 s) measures nothing, so it can run on a node with jobs. It compares parts with the reference and
    /// checks hardware errors, the findings of doctor and the last measured verdict. Level 2 (10 s) and level 3 (180 s)
    /// need an idle node, and measure twice before a figure makes the node bad.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=3), help_heading = "What")]
    pub(crate) level: u8,
    /// Maximum time until the verdict [default: 1, 10 or 180 s, by level]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, help_heading = "How long")]
    pub(crate) deadline: Option<Duration>,
    /// Reference of the site, from fleet baseline [default: earlier runs of this node]
    #[arg(long, value_name = "FILE", help_heading = "What")]
    pub(crate) reference: Option<PathBuf>,
    /// Action at level 2 or 3 if other programs use the node
    #[arg(long, value_name = "WHAT", value_enum, default_value = "skip", help_heading = "How")]
    pub(crate) when_busy: WhenBusy,
    /// Exit with Nagios' codes: 0 good, 2 bad, 3 unknown
    #[arg(long, conflicts_with = "npd", help_heading = "Output")]
    pub(crate) nagios: bool,
    /// Exit with node-problem-detector's codes: 0 good, 1 bad, 2 unknown; print one line
    #[arg(long, help_heading = "Output")]
    pub(crate) npd: bool,
    /// Keep the N best nodes of a job with several ranks; exit with 1 if fewer than N remain
    ///
    /// With one rank per node: srun -N6 --ntasks-per-node=1 nodegauge check --level 2 --vet 4 --exclude-file bad.txt.
    /// The ranks communicate through files next to the list, so its folder must be on a shared file system.
    #[arg(long, value_name = "N", requires = "exclude_file", conflicts_with_all = ["nagios", "npd"], value_parser = clap::value_parser!(u32).range(1..=65536), help_heading = "What")]
    pub(crate) vet: Option<u32>,
    /// Write the nodes that --vet does not keep to this file, one per line
    #[arg(long, value_name = "FILE", requires = "vet", help_heading = "Output")]
    pub(crate) exclude_file: Option<PathBuf>,
    /// Write the nodes that --vet keeps to this file, one per line, best first
    #[arg(long, value_name = "FILE", requires = "vet", help_heading = "Output")]
    pub(crate) node_file: Option<PathBuf>,
    /// File for the state between two checks [default: check-HOST.json next to the history]
    ///
    /// It contains the counters of hardware errors at the last check, and the last measured verdict.
    #[arg(long, value_name = "FILE", help_heading = "Rarely needed")]
    pub(crate) state: Option<PathBuf>,
    /// Save neither the state nor the measured runs
    #[arg(long, help_heading = "Rarely needed")]
    pub(crate) no_save: bool,
    /// Write the verdict with all remarks as JSON; '-' or no FILE is standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<String>,
    /// Print only the line with the verdict
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) db: DatabaseArgs,
}

impl CheckArgs {
    /// Returns the maximum time until the verdict.
    pub(crate) fn max_time(&self) -> Duration {
        let usual = match self.level {
            1 => 1,
            2 => 10,
            _ => 180,
        };
        self.deadline.unwrap_or(Duration::from_secs(usual))
    }

    /// Returns the exit codes for verdicts. By default they suit a Slurm prolog: Slurm drains a node on any code but 0.
    pub(crate) fn verdict_codes(&self) -> VerdictCodes {
        match (self.nagios, self.npd) {
            (true, _) => VerdictCodes { good: 0, bad: 2, unknown: NAGIOS_UNKNOWN },
            (_, true) => VerdictCodes { good: 0, bad: 1, unknown: 2 },
            _ => VerdictCodes { good: 0, bad: 1, unknown: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nagios_check_that_cannot_start_is_unknown() {
        let code = |words: &[&str]| failure_exit_code(words.iter().map(OsString::from));
        assert_eq!(code(&["check", "--nagios", "--levle", "2"]), Some(3));
        assert_eq!(code(&["check", "--levle", "2"]), None);
        assert_eq!(code(&["stream", "--nagios"]), None);
        assert_eq!(code(&["sweep", "--", "check", "--nagios"]), None);
    }
}
