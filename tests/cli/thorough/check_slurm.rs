//! `check` in a real Slurm: vetting of the nodes of a job.

use crate::check::reference;
use crate::harness::{Harness, Part, skip};
use crate::program;
use crate::thorough::slurm::Slurm;
use std::path::PathBuf;

/// Control group with a quota of CPU time, into which the daemon of a node is moved. All nodes are this machine, so that
/// nothing else makes one of them slow.
struct SlowGroup(PathBuf);

impl SlowGroup {
    fn of(daemon: u32) -> Option<Self> {
        let name = format!("nodegauge-test-{daemon}");
        let first = PathBuf::from("/sys/fs/cgroup/cpu");
        let is_first_version = first.join("cpu.cfs_quota_us").exists();
        let parent = if is_first_version { first } else { PathBuf::from("/sys/fs/cgroup") };
        let folder = parent.join(name);
        // Controllers may have to be enabled for groups below the root.
        let _ = std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
        let limits = if is_first_version {
            [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "80000")]
        } else {
            [("cpu.max", "80000 100000"), ("cpu.weight", "100")]
        };
        let made = std::fs::create_dir(&folder).and_then(|()| {
            for (file, value) in limits {
                std::fs::write(folder.join(file), value)?;
            }
            std::fs::write(folder.join("cgroup.procs"), daemon.to_string())
        });
        let group = Self(folder);
        match made {
            Ok(()) => Some(group),
            Err(cause) => {
                skip(Part::Root, &format!("no control group with a quota: {cause}"));
                None
            }
        }
    }
}

impl Drop for SlowGroup {
    fn drop(&mut self) {
        // A group with processes cannot be removed; they end with the daemons.
        for _ in 0..100 {
            let processes =
                std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for process in processes.lines() {
                let _ = std::fs::write(self.0.with_file_name("cgroup.procs"), process);
            }
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_job_keeps_the_nodes_that_are_not_bad_and_runs_on_them() {
    let harness = Harness::new();
    let names = ["node1", "node2", "node3", "node4"];
    let Some(slurm) = Slurm::of(&harness, &names) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let good = reference(&harness, "good.json", |_| {});
    // A node with a quota is bad; the tests themselves may run with one.
    let probe = harness.run(&["check", "--reference", &good, "--deadline", "60", "--json"]).json();
    if probe["verdict"] != "good" {
        return skip(Part::Slurm, "this node is not good itself");
    }
    let Some(_slow) = SlowGroup::of(slurm.nodes[2]) else { return };
    let program = program::path();
    let vet = |keep: &str, more: &str| {
        let script = format!(
            "srun -N4 --ntasks-per-node=1 --overlap {program} check --vet {keep} --deadline 60 --no-save \
             --reference {good} --exclude-file bad.txt --node-file good.txt {more}"
        );
        harness.run_other(&["salloc", "-Q", "-N4", "sh", "-c", &script], &variables)
    };
    let then = " && srun -N3 --nodelist=./good.txt sh -c 'echo on $SLURMD_NODENAME'";
    let outcome = vet("3", then).exits(0).says("excluded   node3");
    assert!(outcome.stdout.contains("quota; bad: "), "{}", outcome.stdout);
    assert_eq!(std::fs::read_to_string(harness.path("bad.txt")).unwrap(), "node3\n");
    let mut ran: Vec<&str> =
        outcome.stdout.lines().filter_map(|line| line.strip_prefix("on ")).collect();
    ran.sort_unstable();
    assert_eq!(ran, ["node1", "node2", "node4"]);
    // Too few nodes are left.
    let refused = vet("4", "").exits(1);
    assert!(refused.stderr.contains("3 of 4 nodes can be kept"), "{}", refused.stderr);
    // No file of a rank is left.
    let left: Vec<_> = std::fs::read_dir(harness.path(""))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with("bad.txt."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn options_of_a_vetting_that_do_not_fit_are_refused() {
    let harness = Harness::new();
    let alone = ["check", "--vet", "2", "--exclude-file", "bad.txt"];
    harness.run(&alone).exits(2);
    harness.run(&["check", "--vet", "2"]).exits(2);
    let two = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_STEP_NUM_NODES", "2")];
    let many = ["check", "--vet", "3", "--exclude-file", "bad.txt"];
    let refused = harness.run_with(&two, &many).exits(2);
    assert!(refused.stderr.contains("--vet 3: there are only 2 ranks"), "{}", refused.stderr);
    let odd = [&two[..], &[("SLURMD_NODENAME", "-oProxyCommand=x")]].concat();
    harness.run_with(&odd, &alone).exits(2);
}
