//! Job scripts of batch systems. Values that only the user knows are words in capitals (`QUEUE`), which the user
//! replaces; for PBS, they are options of `qsub`.
//!
//! Sources: qsub(1) and pbs_resources(7) of OpenPBS; the job scripts of the ccNUMA lecture for NQS; public job
//! scripts for Fujitsu's PJM (`pjsub`).

use super::{
    EmittedRanks, QUOTE, head, mpich_commands, openmpi_commands, rank_command, with_rank_code,
};
use std::fmt::Write as _;

/// Placeholder for the program in scripts that the user edits.
const PROGRAM: &str = "./PROGRAM";

/// Returns a job script for PBS (OpenPBS, PBS Professional), which passes no arguments to a job script: the program
/// is in the variable `PROGRAM`. The job requests its nodes exclusively. Ranks are started by the `mpirun` of Open
/// MPI or MPICH.
pub fn pbs(job: &EmittedRanks<'_>) -> String {
    let nodes = job.node_count();
    let place = if nodes > 1 { "scatter:excl" } else { "excl" };
    let mut text = head(job, "submit: qsub -v PROGRAM='./a.out ARGUMENT' FILE");
    let _ = write!(
        text,
        "#PBS -l select={nodes}:ncpus={}:mpiprocs={}:ompthreads={}\n\
         #PBS -l place={place}\n\
         #PBS -j oe\n\
         cd \"${{PBS_O_WORKDIR:-.}}\" || exit 3\n\
         set -f\n\
         set -- ${{PROGRAM:?no program: qsub -v PROGRAM=./a.out FILE}}\n",
        job.topology.allowed_threads().count(),
        job.per_node(),
        job.max_threads_per_rank(),
    );
    if let Some(command) = single_command(job) {
        return text + &command;
    }
    // Intel MPI's launcher is derived from Hydra, too.
    text += "case $(\"${MPIRUN:-mpirun}\" --version) in\n*HYDRA*|*Intel*)\n";
    text += &mpich_commands(job);
    text += ";;\n*)\n";
    text += &openmpi_commands(job);
    text + ";;\nesac\n"
}

/// Returns a job script for NQS as on the T2K cluster, with the ranks per node in the option `-J T`. The batch
/// system passes the number of ranks to `mpirun`.
pub fn nqs(job: &EmittedRanks<'_>) -> String {
    let remark = format!(
        "replace NAME, QUEUE, MEMORY (per node, e.g. 28GB), HH:MM:SS and {PROGRAM}, then: qsub FILE\n\
         # the time limit is -lE or -lT, depending on the queue"
    );
    let mut text = head(job, &remark);
    let _ = write!(
        text,
        "#@$-r NAME\n\
         #@$-q QUEUE\n\
         #@$-N {}\n\
         #@$-J T{}\n\
         #@$-e NAME.err\n\
         #@$-o NAME.out\n\
         #@$-lM MEMORY\n\
         #@$-lE HH:MM:SS\n\
         #@$-s /bin/sh\n\
         #@$\n\
         cd \"${{PBS_O_WORKDIR:-.}}\" || exit 3\n",
        job.node_count(),
        job.per_node(),
    );
    text + &edited_commands(job, "exec \"${MPIRUN:-mpirun}\"")
}

/// Returns a job script for PJM, the batch system of Fujitsu.
pub fn pjm(job: &EmittedRanks<'_>) -> String {
    let remark =
        format!("replace NAME, GROUP (of resources), HH:MM:SS and {PROGRAM}, then: pjsub FILE");
    let mut text = head(job, &remark);
    let _ = write!(
        text,
        "#PJM -N NAME\n\
         #PJM -L \"rscgrp=GROUP\"\n\
         #PJM -L \"node={}\"\n\
         #PJM --mpi \"proc={}\"\n\
         #PJM --mpi \"max-proc-per-node={}\"\n\
         #PJM -L \"elapse=HH:MM:SS\"\n\
         #PJM -e NAME.err\n\
         #PJM -o NAME.out\n\
         cd \"${{PJM_O_WORKDIR:-.}}\" || exit 3\n",
        job.node_count(),
        job.total(),
        job.per_node(),
    );
    text + &edited_commands(job, &format!("exec \"${{MPIRUN:-mpiexec}}\" -n {}", job.total()))
}

/// Returns the commands that start the program whose name the user writes into the script; `launcher` starts the
/// ranks.
fn edited_commands(job: &EmittedRanks<'_>, launcher: &str) -> String {
    let program = format!("set -- {PROGRAM}\n");
    match single_command(job) {
        Some(command) => program + &command,
        None => format!("{program}{}{launcher} \"$@\"\n", with_rank_code(job)),
    }
}

/// Returns the command of a process that is not a rank; `None` for ranks.
fn single_command(job: &EmittedRanks<'_>) -> Option<String> {
    let place = job.plan.ranks.first().filter(|_| job.is_single())?;
    Some(format!("exec {}\n", rank_command(job.plan, 0, place, QUOTE)))
}
