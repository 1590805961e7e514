//! Command lines that run the program without nodegauge, with the settings of a combination.

use crate::arrangement::{ProcessPlaces, ProgramArrangement};
use crate::plan::ProgramSweep;
use crate::view;
use nodegauge_machine::Topology;
use nodegauge_measure::legible;
use nodegauge_measure::record::Record;
use nodegauge_placement::emit::{self, EmittedRanks, script};
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::LauncherKind;

/// Comment line for a setting that no standard command can make.
const WITHOUT_HUGE_PAGES: &str = "# transparent huge pages were off: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) in the program does the same\n";

/// Command line that reproduces a combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmittedCommand {
    /// Values on all axes.
    under: String,
    /// Command line, or a shell script for ranks.
    text: String,
}

/// Returns the command line of the fastest combination in a record; `None` if nothing was measured. If a figure is
/// suspect, a comment precedes the command line.
pub fn fastest_command(record: &Record, commands: &[EmittedCommand]) -> Option<String> {
    let fastest = view::fastest_combination(record)?;
    let command = commands.iter().find(|command| command.under == fastest.name)?;
    let remark =
        fastest.doubt.map(|why| format!("# cannot tell which is fastest: {}\n", one_line(&why)));
    Some(after_the_shebang(&remark.unwrap_or_default(), &command.text))
}

/// Formats a text as one comment line.
fn one_line(text: &str) -> String {
    legible::escape_controls(text).into_owned()
}

/// Inserts a remark before a command line; in a script, after its first line.
fn after_the_shebang(remark: &str, text: &str) -> String {
    match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => format!("{first}\n{remark}{rest}"),
        _ => format!("{remark}{text}"),
    }
}

impl ProgramSweep {
    /// Returns the command lines of all combinations.
    pub fn commands(&self, topology: &Topology) -> Vec<EmittedCommand> {
        let mut commands = Vec::new();
        for cell in &self.cells {
            let text = self.command(cell, topology);
            commands.push(EmittedCommand { under: cell.in_words(), text });
        }
        commands
    }

    fn command(&self, cell: &ProgramArrangement, topology: &Topology) -> String {
        let remark = if cell.without_huge_pages { WITHOUT_HUGE_PAGES } else { "" };
        let ProcessPlaces::Ranks(plan) = &cell.places else {
            let place = cell.rank_places().first();
            let numactl = place.map(emit::numactl_prefix).unwrap_or_default();
            let words = [variables(cell), numactl, self.program.words().to_vec()].concat();
            return format!("{remark}{}\n", line(&words));
        };
        let ranks = EmittedRanks::single_numa_node(plan, topology);
        let text = match self.launcher.as_ref().map(|launcher| launcher.launcher.kind) {
            Some(LauncherKind::OpenMpi) => script::openmpi(&ranks),
            Some(LauncherKind::Hydra) => script::mpich(&ranks),
            Some(LauncherKind::Slurm) => script::slurm(&ranks),
            None => script::numactl(&ranks),
        };
        // The program is part of this script, so the remark on its arguments does not apply.
        let head: String = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .filter(|line| !line.contains("FILE PROGRAM"))
            .map(|line| format!("{line}\n"))
            .collect();
        let body = text
            .trim_start_matches(|c| c != '\n')
            .lines()
            .skip_while(|line| line.is_empty() || line.starts_with('#'));
        let body: String = body.map(|line| format!("{line}\n")).collect();
        let program = [variables(cell), self.program.words().to_vec()].concat();
        format!("{head}{remark}set -- {}\n{body}", line(&program))
    }
}

/// Returns the words of an `env` command that sets and removes the variables of a combination; empty if there are no
/// variables.
fn variables(cell: &ProgramArrangement) -> Vec<String> {
    let mut words = Vec::new();
    for (name, value) in &cell.variables {
        match value {
            Some(value) => words.push(format!("{name}={value}")),
            None if std::env::var_os(name).is_some() => {
                words.splice(0..0, ["-u".to_owned(), name.clone()]).for_each(drop)
            }
            None => {}
        }
    }
    if !words.is_empty() {
        words.insert(0, "env".to_owned());
    }
    words
}

/// Joins words to a command line, with the quotes that a shell requires.
fn line(words: &[String]) -> String {
    words.split_first().map_or_else(String::new, |(program, arguments)| {
        CommandLine::new(program.clone(), arguments.to_vec()).to_string()
    })
}
