//! Processes of the program that place themselves: ranks that an MPI launcher starts, and copies without a launcher.
//!
//! A launcher starts nodegauge instead of the user's program, with a file that contains the places. The process binds
//! itself, sets its memory policy, and then executes the user's program. The result is the same under every launcher;
//! no launcher has options for all policies.

use crate::arrangement::{ProcessPlaces, ProgramArrangement, VariableChange};
use nodegauge_machine::CpuId;
use nodegauge_machine::devices::local_rank_variables;
use nodegauge_measure::{Failure, FailureKind};
use nodegauge_os::{ChildPlace, disable_transparent_huge_pages, read_file};
use nodegauge_placement::{MemoryPolicy, RankPlace, emit, pin_current_thread};
use serde::{Deserialize, Serialize};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// Name of the hidden command that starts placed processes.
pub const START_PLACED_COMMAND: &str = "start-placed";
/// Environment variables with the number of a copy and with the number of copies.
const RANK: &str = "NODEGAUGE_RANK";
const RANKS: &str = "NODEGAUGE_RANKS";
/// Maximum size in bytes of the file with the places.
const LONGEST: u64 = 64 << 20;

/// Place of one process, with its environment variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PlacedProcess {
    cpus: Option<Vec<u32>>,
    memory: MemoryPolicy,
    variables: Vec<VariableChange>,
}

/// Places of all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlacedProcesses {
    processes: Vec<PlacedProcess>,
    without_huge_pages: bool,
    /// True if there is no launcher, so that one process of nodegauge starts all copies.
    copies: bool,
}

impl PlacedProcesses {
    /// Returns the places of the ranks of an arrangement; `None` for a single process.
    pub fn from_arrangement(arrangement: &ProgramArrangement, has_launcher: bool) -> Option<Self> {
        let ProcessPlaces::Ranks(plan) = &arrangement.places else { return None };
        let process = |place: &RankPlace| PlacedProcess {
            cpus: place.bound_cpus().map(|cpus| cpus.iter().map(|cpu| cpu.0).collect()),
            memory: place.memory.clone(),
            variables: emit::rank_thread_variables(place)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), Some(value)))
                .collect(),
        };
        Some(Self {
            processes: plan.ranks.iter().map(process).collect(),
            without_huge_pages: arrangement.without_huge_pages,
            copies: !has_launcher,
        })
    }

    /// Returns the content of the file with the places.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("plain data: {error}"))
    }
}

/// Executes the user's program at the place that the file contains. This is the hidden command
/// [`START_PLACED_COMMAND`]. Returns the exit code of the copies.
///
/// Fails if the file cannot be read, if the kernel refuses a setting, or if the program cannot be started.
pub fn execute_placed(file: &Path, program: &[String]) -> Result<u8, Failure> {
    let content = read_file(file, LONGEST)
        .map_err(|cause| Failure::missing(format!("cannot read {file:?}")).cause(cause))?;
    let all: PlacedProcesses = serde_json::from_slice(&content).map_err(|cause| {
        Failure::usage(format!("{file:?} is not a file of places")).cause(cause)
    })?;
    let Some((name, arguments)) = program.split_first() else {
        return Err(Failure::usage("expected a program"));
    };
    let mut command = Command::new(name);
    command.args(arguments);
    if all.copies {
        return copies(&all, name, arguments);
    }
    let rank = local_rank()?;
    let place = &all.processes[rank % all.processes.len().max(1)];
    if let Some(cpus) = &place.cpus {
        let cpus: Vec<CpuId> = cpus.iter().map(|cpu| CpuId(*cpu)).collect();
        pin_current_thread(&cpus).map_err(Failure::missing)?;
    }
    let refused = |cause: nodegauge_os::SysError| {
        Failure::missing(format!("cannot set the memory policy {}", place.memory)).cause(cause)
    };
    place.memory.apply_to_thread().map_err(refused)?;
    if all.without_huge_pages {
        disable_transparent_huge_pages().map_err(|cause| {
            Failure::missing("cannot disable transparent huge pages").cause(cause)
        })?;
    }
    change(&mut command, &place.variables);
    Err(cannot_start(name, command.exec()))
}

/// Starts a copy of the program at each place, and waits for all copies. Returns the first exit code other than 0, in
/// the order of the places.
fn copies(all: &PlacedProcesses, name: &str, arguments: &[String]) -> Result<u8, Failure> {
    let mut children: Vec<Child> = Vec::new();
    for (rank, place) in all.processes.iter().enumerate() {
        let mut command = Command::new(name);
        command.args(arguments);
        command.env(RANK, rank.to_string()).env(RANKS, all.processes.len().to_string());
        change(&mut command, &place.variables);
        let child_place = ChildPlace {
            cpus: place.cpus.clone(),
            memory: place.memory.in_kernel_form(),
            without_huge_pages: all.without_huge_pages,
        };
        child_place.apply_to(&mut command).map_err(Failure::missing)?;
        // Copies that have started end together with this process.
        children.push(command.spawn().map_err(|cause| cannot_start(name, cause))?);
    }
    let mut first = 0;
    for child in &mut children {
        let status = child.wait().map_err(|cause| cannot_start(name, cause))?;
        first = if first == 0 { code(status) } else { first };
    }
    Ok(first)
}

/// Returns the exit code of a process, as a shell reports it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn change(command: &mut Command, variables: &[VariableChange]) {
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

fn cannot_start(name: &str, cause: std::io::Error) -> Failure {
    Failure::missing(format!("cannot start {name}")).cause(cause).kind(FailureKind::Missing)
}

/// Returns the number of this rank on its node.
fn local_rank() -> Result<usize, Failure> {
    let own = local_rank_variables().find_map(|name| std::env::var(name).ok()?.parse().ok());
    own.ok_or_else(|| {
        Failure::usage("the launcher does not set the node-local rank number")
            .hint("use an mpirun of Open MPI or MPICH, or srun")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_equals_that_of_a_shell() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
