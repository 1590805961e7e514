//! Conversion of a placement into shell scripts. `sh run.sh PROGRAM [ARGUMENT]...` starts a program as planned.
//!
//! The scripts are for a POSIX shell. They contain only numbers and constant words of this crate, so that only the
//! braces of places need quotes. `job` writes job scripts; `rank` writes the code by which a process determines its
//! rank.

use super::{OpenMpiOptions, OpenMpiVersion, RankSettings, device_variables, rank_variable};
use crate::numa::MemoryPolicy;
use crate::ranks::{RankPlace, RankPlan};
use nodegauge_machine::Topology;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_os::mpi_abi::LauncherKind;
use std::num::NonZeroU32;

mod job;
mod rank;

pub use job::{nqs, pbs, pjm};

const RUN: &str = "run: sh FILE PROGRAM [ARGUMENT]...";

/// Ranks to start: the placement on one node, and the number of nodes with this placement.
#[derive(Debug, Clone, Copy)]
pub struct EmittedRanks<'a> {
    /// Placement on each node.
    pub plan: &'a RankPlan,
    /// Topology of each node.
    pub topology: &'a Topology,
    /// Number of nodes; `None` if it is not given. Scripts then start ranks on one node only.
    pub nodes: Option<NonZeroU32>,
}

impl<'a> EmittedRanks<'a> {
    /// Returns the ranks of a single node.
    pub fn single_numa_node(plan: &'a RankPlan, topology: &'a Topology) -> Self {
        Self { plan, topology, nodes: None }
    }

    /// Returns the number of nodes on which a script starts ranks.
    fn node_count(&self) -> usize {
        self.nodes.map_or(1, |nodes| nodes.get() as usize)
    }

    /// Returns the number of ranks per node.
    fn per_node(&self) -> usize {
        self.plan.ranks.len().max(1)
    }

    /// Returns the number of ranks on all nodes.
    fn total(&self) -> usize {
        self.node_count() * self.per_node()
    }

    /// Returns the number of threads per rank.
    fn max_threads_per_rank(&self) -> usize {
        self.plan.max_threads_per_rank()
    }

    /// True if the plan has one process that is not a rank.
    fn is_single(&self) -> bool {
        matches!(self.plan.ranks.as_slice(), [RankPlace { rank: None, .. }])
    }
}

/// Returns the first lines of a script: the interpreter line and comments.
fn head(job: &EmittedRanks<'_>, remark: &str) -> String {
    let plan = job.plan;
    let ranks = if job.is_single() {
        String::new()
    } else {
        count_in_words(plan.ranks.len(), "rank") + ", "
    };
    let nodes = match job.node_count() {
        1 => String::new(),
        nodes => format!("{nodes} nodes, each with "),
    };
    let threads = count_in_words(plan.threads(), "thread");
    format!("#!/bin/sh\n# {nodes}{ranks}{threads} in all: {}\n# {remark}\n", plan.canonical_text)
}

/// Returns one `export A='1'` line per variable.
fn exports(environment: &[(&'static str, String)]) -> String {
    environment.iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect()
}

/// Returns a script that sets variables. The shell of each rank sources it (`. ./FILE`).
pub fn omp(job: &EmittedRanks<'_>) -> String {
    let plan = job.plan;
    let mut text = head(job, "use: . ./FILE, in the shell that starts the program");
    if plan.ranks.iter().any(|place| place.memory != MemoryPolicy::Default) {
        text.push_str("# memory policy: not available as an OpenMP variable; see --emit numactl\n");
    }
    let own = plan.ranks.iter().map(super::omp_variables).enumerate();
    let each: Vec<_> =
        own.map(|(rank, words)| [words, device_variables(plan, rank)].concat()).collect();
    match each.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => text + &exports(first),
        _ => {
            let exports: Vec<String> = each
                .iter()
                .map(|words| format!("export {}", env_words(words, QUOTE).trim_end()))
                .collect();
            text + &rank::cases(job, &exports)
        }
    }
}

/// Returns a script that starts all ranks of one node concurrently with one command per rank. The script fails if a
/// rank fails.
pub fn numactl(job: &EmittedRanks<'_>) -> String {
    let plan = job.plan;
    let mut text = head(job, RUN);
    if let [only] = plan.ranks.as_slice() {
        return text + "exec " + &rank_command(plan, 0, only, QUOTE) + "\n";
    }
    text.push_str("pids=\ntrap 'kill $pids 2>/dev/null' INT TERM\n");
    for (rank, place) in plan.ranks.iter().enumerate() {
        text.push_str(&format!("{} & pids=\"$pids $!\"\n", rank_command(plan, rank, place, QUOTE)));
    }
    text + "status=0\nfor pid in $pids; do wait \"$pid\" || status=$?; done\nexit $status\n"
}

/// Returns a script that starts the program of one rank, bound as planned, under any launcher, on one node or on
/// several identical nodes. It fails if the rank is unknown, or if there are more ranks than planned.
pub fn wrapper(job: &EmittedRanks<'_>) -> String {
    let np = match job.nodes {
        Some(_) => job.total().to_string(),
        None => "RANKS".to_owned(),
    };
    let remark = format!(
        "use: mpirun -np {np} --bind-to none sh FILE PROGRAM [ARGUMENT]...; srun likewise\n\
         # if no rank is found, set RANK_VARIABLE to the name of the launcher's variable that contains the rank"
    );
    head(job, &remark) + &by_rank(job, QUOTE)
}

/// Returns the code that determines the rank of this process and starts the program of this rank, bound as planned.
fn by_rank(job: &EmittedRanks<'_>, quote: char) -> String {
    let places = job.plan.ranks.iter().enumerate();
    let commands: Vec<String> = places
        .map(|(rank, place)| format!("exec {}", rank_command(job.plan, rank, place, quote)))
        .collect();
    rank::cases(job, &commands)
}

/// Returns the code that puts [`by_rank`] before the program's command, for launchers on several nodes. The
/// launchers start the ranks unbound, with a fixed number per node.
fn with_rank_code(job: &EmittedRanks<'_>) -> String {
    format!("set -- sh -c '\n{}' wrapper \"$@\"\n", by_rank(job, INNER_QUOTE))
}

/// Returns a script for Open MPI that detects the installed version. The variable `MPIRUN` selects another `mpirun`.
pub fn openmpi(job: &EmittedRanks<'_>) -> String {
    head(job, RUN) + &openmpi_commands(job)
}

fn openmpi_commands(job: &EmittedRanks<'_>) -> String {
    let as_root = format!("[ \"$(id -u)\" -ne 0 ] || set -- {} \"$@\"\n", OpenMpiOptions::AS_ROOT);
    if job.node_count() > 1 {
        let args =
            format!("-np {} --map-by ppr:{}:node --bind-to none", job.total(), job.per_node());
        let code = with_rank_code(job);
        return format!("{code}{as_root}exec \"${{MPIRUN:-mpirun}}\" {args} \"$@\"\n");
    }
    let versions = [OpenMpiVersion::V5, OpenMpiVersion::V4];
    let [v5, v4] = versions.map(|version| super::openmpi_options(job.plan, job.topology, version));
    let mut text = wrapped(job.plan, LauncherKind::OpenMpi);
    text.push_str("mpirun=${MPIRUN:-mpirun}\n");
    text.push_str(&as_root);
    if v5.rankfile.is_some() {
        text.push_str("rankfile=$(mktemp) || exit 3\ntrap 'rm -f \"$rankfile\"' EXIT\n");
        text.push_str("trap 'exit 130' INT\ntrap 'exit 143' TERM\n");
    }
    text.push_str("case $(\"$mpirun\" --version) in\n");
    for (pattern, version) in [("*'Open MPI) '[5-9]*", &v5), ("*", &v4)] {
        text.push_str(&format!("{pattern})\n"));
        if let Some(rankfile) = &version.rankfile {
            text.push_str(&format!("cat > \"$rankfile\" <<END\n{rankfile}END\n"));
        }
        let args = version.args("\"$rankfile\"").join(" ");
        text.push_str(&format!("\"$mpirun\" {args} \"$@\" ;;\n"));
    }
    text + "esac\n"
}

/// Returns a script for MPICH and its derivatives. The variable `MPIRUN` selects another `mpirun`.
pub fn mpich(job: &EmittedRanks<'_>) -> String {
    head(job, RUN) + &mpich_commands(job)
}

fn mpich_commands(job: &EmittedRanks<'_>) -> String {
    let (code, args) = if job.node_count() > 1 {
        let args = format!("-np {} -ppn {} -bind-to none", job.total(), job.per_node());
        (with_rank_code(job), args)
    } else {
        (wrapped(job.plan, LauncherKind::Hydra), super::mpich_options(job.plan).join(" "))
    };
    format!("{code}exec \"${{MPIRUN:-mpirun}}\" {args} \"$@\"\n")
}

/// Returns the command of one rank with its variables and its binding.
fn rank_command(plan: &RankPlan, rank: usize, place: &RankPlace, quote: char) -> String {
    let variables = [super::rank_thread_variables(place), device_variables(plan, rank)].concat();
    let environment = env_words(&variables, quote);
    let words: String =
        super::numactl_prefix(place).iter().map(|word| format!("{word} ")).collect();
    format!("env {environment}{words}\"$@\"")
}

/// Returns a script for Slurm, which must be run in an allocation of whole nodes or outside any allocation. The
/// numbers of CPUs and NUMA nodes apply to the tasks of each node, in order.
pub fn slurm(job: &EmittedRanks<'_>) -> String {
    let args = super::slurm_options(job.plan, job.node_count()).join(" ");
    let wrapped = wrapped(job.plan, LauncherKind::Slurm);
    let node = if job.node_count() > 1 { "its nodes" } else { "the node" };
    let remark = format!("the job must have {node} to itself (--exclusive)\n# {RUN}");
    format!("{}{wrapped}exec srun {args} \"$@\"\n", head(job, &remark))
}

/// Returns the program's command with the settings of a rank.
fn with_settings(rank: &RankSettings, quote: char) -> String {
    let prefix: String = rank.prefix.iter().map(|word| format!("{word} ")).collect();
    format!("env {}{prefix}\"$@\"", env_words(&rank.environment, quote))
}

/// Returns the shell code that puts the settings of each rank before the program's command. Settings that all ranks
/// share are passed with `env`. If the settings differ, a shell selects them by the rank on the node.
fn wrapped(plan: &RankPlan, launcher: LauncherKind) -> String {
    let each = super::rank_settings(plan, launcher);
    let Some(first) = each.first() else { return String::new() };

    if each.iter().all(|rank| rank == first) {
        // Variables that are part of the command work with every launcher.
        return format!("set -- {}\n", with_settings(first, QUOTE));
    }
    let own_rank = rank_variable(launcher);
    let mut text = format!("set -- sh -c '\ncase ${own_rank} in\n");
    for (number, rank) in each.iter().enumerate() {
        text.push_str(&format!("{number}) exec {} ;;\n", with_settings(rank, INNER_QUOTE)));
    }
    text.push_str(&format!(
        "*) echo \"{own_rank}=${own_rank}: {} planned\" >&2; exit 1 ;;\n",
        count_in_words(each.len(), "rank")
    ));
    text + "esac' sh \"$@\"\n"
}

/// Quote character for values in scripts.
const QUOTE: char = '\'';
/// Quote character for values in code that is itself quoted.
const INNER_QUOTE: char = '"';

/// Returns the variables as words of a shell command: `A='1' B='2' `.
fn env_words(environment: &[(&'static str, String)], quote: char) -> String {
    environment.iter().map(|(name, value)| format!("{name}={quote}{value}{quote} ")).collect()
}
