//! Tests of `check` in a real Slurm: vetting of the nodes of a job.

use crate::check::reference;
use crate::harness::{Harness, Part, skip};
use crate::program;
use crate::thorough::control_group::ControlGroup;
use crate::thorough::slurm::Slurm;

#[test]
fn vetted_job_runs_only_on_nodes_that_are_not_bad() {
    let harness = Harness::new();
    let names = ["node1", "node2", "node3", "node4"];
    let Some(slurm) = Slurm::with_nodes(&harness, &names) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let good = reference(&harness, "good.json", |_| {});
    // A node with a CPU quota is bad, and the tests may run with a CPU quota.
    let probe = harness.run(&["check", "--reference", &good, "--deadline", "60", "--json"]).json();
    if probe["verdict"] != "good" {
        return skip(Part::Slurm, "this node is not good itself");
    }
    // All nodes are this machine, so only a quota makes one of them slower.
    let Some(slow) = ControlGroup::with_quota("slow-node", 80) else { return };
    slow.take(slurm.nodes[2]);
    let program = program::path();
    let vet = |keep: &str, more: &str| {
        let script = format!(
            "srun -N4 --ntasks-per-node=1 --overlap {program} check --vet {keep} --deadline 60 --no-save \
             --reference {good} --exclude-file bad.txt --node-file good.txt {more}"
        );
        harness.run_other(&["salloc", "-Q", "-N4", "sh", "-c", &script], &variables)
    };
    let then = " && srun -N3 --nodelist=./good.txt sh -c 'echo on $SLURMD_NODENAME'";
    let outcome = vet("3", then).exits(0).prints("excluded   node3");
    assert!(outcome.stdout.contains("quota; bad: "), "{}", outcome.stdout);
    assert_eq!(std::fs::read_to_string(harness.path("bad.txt")).unwrap(), "node3\n");
    let mut ran: Vec<&str> =
        outcome.stdout.lines().filter_map(|line| line.strip_prefix("on ")).collect();
    ran.sort_unstable();
    assert_eq!(ran, ["node1", "node2", "node4"]);
    // Too few nodes can be kept.
    let refused = vet("4", "").exits(1);
    assert!(refused.stderr.contains("only 3 nodes can be kept; required: 4"), "{}", refused.stderr);
    // The files of the ranks are removed.
    let left: Vec<_> = std::fs::read_dir(harness.path(""))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with("bad.txt."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn unsuitable_vetting_options_are_refused() {
    let harness = Harness::new();
    let alone = ["check", "--vet", "2", "--exclude-file", "bad.txt"];
    harness.run(&alone).exits(2);
    harness.run(&["check", "--vet", "2"]).exits(2);
    let two = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NUM_NODES", "2")];
    let many = ["check", "--vet", "3", "--exclude-file", "bad.txt"];
    let refused = harness.run_with(&two, &many).exits(2);
    assert!(refused.stderr.contains("--vet 3: the job has only 2 ranks"), "{}", refused.stderr);
    let odd = [&two[..], &[("SLURMD_NODENAME", "-oProxyCommand=x")]].concat();
    harness.run_with(&odd, &alone).exits(2);
}
