//! Conversion of a placement into shell scripts. `sh run.sh PROGRAM [ARGUMENT]...` starts a program as planned.
//!
//! The scripts are for a POSIX shell. They contain only numbers and constant words of this crate, so that only the
//! braces of places need quotes.

use super::{OpenMpi, OpenMpiVersion, PerRank, RankLauncher, visible};
use crate::numa::MemoryPolicy;
use crate::ranks::{RankPlace, RankPlan};
use nodegauge_machine::Topology;
use nodegauge_machine::devices::LOCAL_RANK;
use nodegauge_measure::quantity::counted;

const RUN: &str = "run: sh FILE PROGRAM [ARGUMENT]...";

/// Returns the first lines of a script: the interpreter line and comments.
fn head(plan: &RankPlan, remark: &str) -> String {
    let ranks = match plan.ranks.as_slice() {
        [RankPlace { rank: None, .. }] => String::new(),
        ranks => counted(ranks.len(), "rank") + ", ",
    };
    let threads = counted(plan.threads(), "thread");
    format!("#!/bin/sh\n# {ranks}{threads} in all: {}\n# {remark}\n", plan.words)
}

/// Returns one `export A='1'` line per variable.
fn exports(environment: &[(&'static str, String)]) -> String {
    environment.iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect()
}

/// Returns a script that sets variables. The shell of each rank sources it (`. ./FILE`).
pub fn omp(plan: &RankPlan) -> String {
    let mut text = head(plan, "use: . ./FILE, in the shell that starts the program");
    if plan.ranks.iter().any(|place| place.memory != MemoryPolicy::Default) {
        text.push_str("# memory policy: not available as an OpenMP variable; see --emit numactl\n");
    }
    let own = plan.ranks.iter().map(super::omp).enumerate();
    let each: Vec<_> = own.map(|(rank, words)| [words, visible(plan, rank)].concat()).collect();
    match each.as_slice() {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => text + &exports(first),
        _ => {
            text.push_str(
                "case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:?no rank is set}}} in\n",
            );
            for (rank, environment) in each.iter().enumerate() {
                text.push_str(&format!("{rank}) export {};;\n", env_words(environment)));
            }
            text + "esac\n"
        }
    }
}

/// Returns a script that starts all ranks concurrently with one command per rank. The script fails if a rank fails.
pub fn numactl(plan: &RankPlan) -> String {
    let mut text = head(plan, RUN);
    if let [only] = plan.ranks.as_slice() {
        return text + "exec " + &started(plan, 0, only) + "\n";
    }
    text.push_str("pids=\ntrap 'kill $pids 2>/dev/null' INT TERM\n");
    for (rank, place) in plan.ranks.iter().enumerate() {
        text.push_str(&format!("{} & pids=\"$pids $!\"\n", started(plan, rank, place)));
    }
    text + "status=0\nfor pid in $pids; do wait \"$pid\" || status=$?; done\nexit $status\n"
}

/// Returns a script that starts the program of one rank, bound as planned, under any launcher. It works on one node or
/// on several identical nodes, because it reads the rank's number on its node from the launcher's variable.
pub fn wrapper(plan: &RankPlan) -> String {
    let remark =
        "use: mpirun -np RANKS --bind-to none sh FILE PROGRAM [ARGUMENT]...; srun likewise";
    let mut text = head(plan, remark);
    let local_rank =
        LOCAL_RANK.iter().rev().fold("0".to_owned(), |rest, name| format!("${{{name}:-{rest}}}"));
    text.push_str(&format!("case $(({local_rank} % {})) in\n", plan.ranks.len().max(1)));
    for (rank, place) in plan.ranks.iter().enumerate() {
        let variables = [super::threads_within(place), visible(plan, rank)].concat();
        let words: String = super::numactl(place).iter().map(|word| format!("{word} ")).collect();
        text.push_str(&format!("{rank}) exec env {}{words}\"$@\" ;;\n", env_words(&variables)));
    }
    text + "esac\n"
}

/// Returns a script for Open MPI that detects the installed version. The variable `MPIRUN` selects another `mpirun`.
pub fn openmpi(plan: &RankPlan, topology: &Topology) -> String {
    head(plan, RUN) + &openmpi_commands(plan, topology)
}

fn openmpi_commands(plan: &RankPlan, topology: &Topology) -> String {
    let versions = [OpenMpiVersion::V5, OpenMpiVersion::V4];
    let [v5, v4] = versions.map(|version| super::openmpi(plan, topology, version));
    let mut text = wrapped(plan, RankLauncher::OpenMpi);
    text.push_str("mpirun=${MPIRUN:-mpirun}\n");
    text.push_str(&format!("[ \"$(id -u)\" -ne 0 ] || set -- {} \"$@\"\n", OpenMpi::AS_ROOT));
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
pub fn mpich(plan: &RankPlan) -> String {
    head(plan, RUN) + &mpich_commands(plan)
}

fn mpich_commands(plan: &RankPlan) -> String {
    let args = super::mpich(plan).join(" ");
    let wrapped = wrapped(plan, RankLauncher::Mpich);
    format!("{wrapped}exec \"${{MPIRUN:-mpirun}}\" {args} \"$@\"\n")
}

/// Returns a job script for PBS (OpenPBS, PBS Professional), which gives a job's script no arguments: the program is in
/// the variable `PROGRAM`. The job has the node to itself. Ranks are started by the `mpirun` of Open MPI or MPICH.
pub fn pbs(plan: &RankPlan, topology: &Topology) -> String {
    let ranks = plan.ranks.len();
    let threads = plan.ranks.iter().map(|place| place.placement.threads.len()).max().unwrap_or(1);
    let mut text = head(plan, "submit: qsub -v PROGRAM='./a.out ARGUMENT' FILE");
    text += &format!(
        "#PBS -l select=1:ncpus={}:mpiprocs={ranks}:ompthreads={threads}\n\
         #PBS -l place=excl\n\
         #PBS -j oe\n\
         cd \"${{PBS_O_WORKDIR:-.}}\" || exit 3\n\
         set -f\n\
         set -- ${{PROGRAM:?no program: qsub -v PROGRAM=./a.out FILE}}\n",
        topology.allowed().count()
    );
    if let [place @ RankPlace { rank: None, .. }] = plan.ranks.as_slice() {
        return text + "exec " + &started(plan, 0, place) + "\n";
    }
    // Intel MPI's launcher is derived from Hydra, too.
    text += "case $(\"${MPIRUN:-mpirun}\" --version) in\n*HYDRA*|*Intel*)\n";
    text += &mpich_commands(plan);
    text += ";;\n*)\n";
    text += &openmpi_commands(plan, topology);
    text + ";;\nesac\n"
}

/// Returns the command of one rank with its variables and its binding.
fn started(plan: &RankPlan, rank: usize, place: &RankPlace) -> String {
    let variables = [super::threads_within(place), visible(plan, rank)].concat();
    let environment = env_words(&variables);
    let words: String = super::numactl(place).iter().map(|word| format!("{word} ")).collect();
    format!("env {environment}{words}\"$@\"")
}

/// Returns a script for Slurm, which must be run in an allocation of the whole node or outside any allocation.
pub fn slurm(plan: &RankPlan) -> String {
    let args = super::slurm(plan).join(" ");
    let wrapped = wrapped(plan, RankLauncher::Slurm);
    let remark = "the job must have the node to itself (--exclusive)\n# ".to_owned() + RUN;
    format!("{}{wrapped}exec srun {args} \"$@\"\n", head(plan, &remark))
}

/// Returns the shell code that puts the settings of each rank before the program's command. Settings that all ranks
/// share are passed with `env`. If the settings differ, a shell selects them by the number of its rank.
fn wrapped(plan: &RankPlan, launcher: RankLauncher) -> String {
    let each = super::per_rank(plan, launcher);
    let Some(first) = each.first() else { return String::new() };
    let prefix = |rank: &PerRank| rank.prefix.iter().map(|word| format!("{word} ")).collect();
    if each.iter().all(|rank| rank == first) {
        let prefix: String = prefix(first);
        let all = env_words(&first.environment);
        // Variables that are part of the command work with every launcher.
        return format!("set -- env {all}{prefix}\"$@\"\n");
    }
    let mut text = "set -- sh -c '\n".to_owned();
    text.push_str(&format!("case ${} in\n", launcher.rank_variable()));
    for (number, rank) in each.iter().enumerate() {
        let prefix: String = prefix(rank);
        let words: String =
            rank.environment.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect();
        text.push_str(&format!("{number}) exec env {words}{prefix}\"$@\" ;;\n"));
    }
    text + "esac' sh \"$@\"\n"
}

/// Returns the variables as words of a shell command: `A='1' B='2' `.
fn env_words(environment: &[(&'static str, String)]) -> String {
    environment.iter().map(|(name, value)| format!("{name}='{value}' ")).collect()
}
