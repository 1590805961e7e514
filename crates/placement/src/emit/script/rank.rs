//! Shell code with which a process finds its rank on its node, under any launcher.
//!
//! The code reads the variables of [`local_rank_variables`]. If none is set, it reads the rank in the job and computes
//! `rank mod ranks per node`. A variable that the user names (`RANK_VARIABLE`) replaces all others. The code never
//! guesses: it fails with one line if no variable is set, if the value is not a number, and if there are more ranks
//! than planned. The name that the user gives is expanded only if it is a name of a shell variable; values are used in
//! arithmetic only if they are numbers. Variables of a batch script are ignored, because a batch script is not a rank.
//!
//! The code contains no single quotes, so that it can be in single quotes itself, and it sets no variables of the shell
//! that runs it.

use super::EmittedRanks;
use crate::launchers::{self, RankVariables};
use nodegauge_machine::devices::local_rank_variables;
use std::fmt::Write as _;

/// Functions of the code. `first` finds the first variable that is set, given as RANK or RANK/RANKS; `fits`
/// compares the rank and the number of ranks with the planned number.
const FUNCTIONS: &str = r#"LC_ALL=C IFS=" "
fail() { printf "%s\n" "$0: $*" >&2; exit 1; }
first() {
for name; do
case $name in (*/*) ranks=${name#*/} name=${name%/*}; eval "ranks=\${$ranks-}" ;; (*) ranks= ;; esac
eval "value=\${$name-}"
[ -z "$value" ] || return 0
done
return 1
}
fits() {
case $value$ranks in (*[!0-9]*|???????????????????*) fail "$name is not the number of a rank" ;; esac
while :; do case $value in (0?*) value=${value#0} ;; (*) break ;; esac; done
[ "$value" -lt "$1" ] && [ "${ranks:-0}" -le "$1" ] ||
fail "more ranks than planned ($2): $name=$value${ranks:+ of $ranks}"
}
"#;

/// Selection of the variable: the one that the user names, otherwise one of a launcher. A batch script of Slurm has
/// the variables of a task, but is not a rank; nor is a task in which another launcher starts ranks.
const SELECTION: &str = r#"if [ -n "${RANK_VARIABLE-}" ]; then
case $RANK_VARIABLE in ([0-9]*|*[!A-Za-z0-9_]*) fail "RANK_VARIABLE is not the name of a variable" ;; esac
first "$RANK_VARIABLE" || fail "no rank: $RANK_VARIABLE is not set (RANK_VARIABLE)"
fits $job_ranks "$job_plan"
else
[ -z "${SLURM_JOB_ID-}" ] || [ -n "${SLURM_STEP_NUM_TASKS-}" ] || unset SLURM_PROCID SLURM_LOCALID
if first $mpi; then
[ "$value" = "${SLURM_PROCID-$value}" ] || unset SLURM_PROCID SLURM_LOCALID
[ "$value" = "${FLUX_TASK_RANK-$value}" ] || unset FLUX_TASK_RANK FLUX_TASK_LOCAL_ID
fi
"#;

/// Selection among the variables of launchers.
const LAUNCHER_SELECTION: &str = r#"if first $node; then
fits $node_ranks "$node_plan"
elif first $mpi $system; then
fits $job_ranks "$job_plan"
else
fail "no rank: no variable of a known launcher is set; set RANK_VARIABLE to the name of the variable of this launcher"
fi
fi
echo $((value % node_ranks))
"#;

/// Returns the code that determines the rank of this process and runs the command of this rank; `commands`
/// has one command per rank of a node.
pub(super) fn cases(job: &EmittedRanks<'_>, commands: &[String]) -> String {
    let mut text = format!("# the rank of this process on its node\ncase $(\n{}) in\n", code(job));
    for (rank, command) in commands.iter().enumerate() {
        let _ = writeln!(text, "{rank}) {command} ;;");
    }
    text + "*) exit 1 ;;\nesac\n"
}

/// Formats variables as the arguments of `first`: RANK or RANK/RANKS.
fn words(variables: &[RankVariables]) -> String {
    let mut words = Vec::new();
    for (rank, ranks) in variables {
        words.push(match ranks {
            Some(ranks) => format!("{rank}/{ranks}"),
            None => (*rank).to_owned(),
        });
    }
    words.join(" ")
}

/// Returns the code that prints the rank on the node, or fails with a message of one line.
fn code(job: &EmittedRanks<'_>) -> String {
    let mpi = words(&launchers::mpi_variables());
    let system = words(&launchers::batch_system_variables());
    let node = local_rank_variables().collect::<Vec<_>>().join(" ");
    let each = job.per_node();
    let total = job.total();
    let plan = match job.nodes {
        Some(nodes) => format!("{total} on {nodes} nodes"),
        None => format!("{total} on one node, see places --nodes"),
    };
    let numbers = format!(
        "node_ranks={each} node_plan=\"{each} per node\"\njob_ranks={total} job_plan=\"{plan}\"\n"
    );
    // Without a number of nodes, a launcher that numbers the ranks of each node may use any number of nodes.
    let all = match job.nodes {
        Some(_) => "if first $mpi $system; then fits $job_ranks \"$job_plan\"; fi\n",
        None => "",
    };
    format!(
        "{FUNCTIONS}{numbers}mpi=\"{mpi}\"\nsystem=\"{system}\"\nnode=\"{node}\"\n{SELECTION}{all}{LAUNCHER_SELECTION}"
    )
}
