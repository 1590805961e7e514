//! Tests of `mpi` on several hosts: with a replacement of ssh, and in a Slurm job.

use crate::harness::{Harness, make_program, measurements, texts};
use crate::mpi::{FAST, MPICH, figure, installed, mpi, no_orphans};
use crate::thorough::slurm::Slurm;
use serde_json::Value;

/// Checks that a single notice reports that `host` does not respond.
#[track_caller]
fn reports_unresponsive_host(record: &Value, host: &str) {
    let silent = |notice: &&str| notice.contains(" cannot be used");
    let silent: Vec<&str> = texts(&record["notices"]).into_iter().filter(silent).collect();
    assert_eq!(silent.len(), 1, "{silent:?}");
    assert!(silent[0].starts_with(&format!("{host} cannot be used")), "{silent:?}");
}

#[test]
fn hosts_that_do_not_respond_are_reported() {
    let harness = Harness::new();
    // Replacement of ssh: every host is this machine, except one that does not respond. Each host has its own folder
    // for temporary files, because otherwise the daemons of a run would share one.
    let folder = harness.path("").display().to_string();
    let agent = harness.write(
        "agent",
        format!(
            "#!/bin/sh\nTMPDIR=$(mktemp -d {folder}/XXXXXX) && export TMPDIR PMIX_MCA_gds=hash\n\
             while :; do case $1 in -*) shift ;; *) break ;; esac; done\n\
             [ \"$1\" = deadnode ] && exec sleep 600\nshift\nexec sh -c \"$*\"\n"
        ),
    );
    make_program(&agent);
    for which in installed(&harness) {
        let launcher = match which.variable {
            "-x" => format!("mpirun.openmpi --mca plm_rsh_agent {agent}"),
            _ => format!("mpirun.mpich -launcher ssh -launcher-exec {agent}"),
        };
        let hosts = ["--hosts", "node1,deadnode,node2", "--launcher", &launcher];
        let args = [&hosts[..], &FAST, &["--patterns", "latency", "--json"]].concat();
        let record = mpi(&harness, which, &args).exits(1).json();
        reports_unresponsive_host(&record, "deadnode");
        let recorded_hosts = &figure(&record, "latency", 8)["config"]["hosts"];
        assert_eq!(texts(recorded_hosts), ["node1", "node2"]);
        assert_eq!(figure(&record, "latency", 8)["config"]["distance"], "other host");
        no_orphans(&harness);
    }
}

#[test]
fn unreachable_host_is_reported_with_the_message_of_ssh() {
    let harness = Harness::new();
    let agent = harness.write("agent", "#!/bin/sh\necho 'ssh: no route to host' >&2; exit 255\n");
    make_program(&agent);
    let Some(which) = installed(&harness).into_iter().find(|which| which.variable == "-x") else {
        return;
    };
    let launcher = format!("mpirun.openmpi --mca plm_rsh_agent {agent}");
    let args = ["--hosts", "node1,node2", "--launcher", &launcher, "--patterns", "latency"];
    let refused = mpi(&harness, which, &args);
    let words = refused.stdout.split_whitespace().chain(refused.stderr.split_whitespace());
    let printed = words.collect::<Vec<_>>().join(" ");
    assert!(printed.contains("exit status 255: ssh: no route to host"), "{printed}");
    assert!(!printed.contains("This usually is caused by"), "{printed}");
    no_orphans(&harness);
}

#[test]
fn slurm_nodes_form_a_ring_and_dead_node_is_reported() {
    let harness = Harness::new();
    let mpis = installed(&harness);
    if mpis.is_empty() {
        return;
    }
    let names = ["node1", "node2", "node3", "node4"];
    let Some(slurm) = Slurm::with_nodes(&harness, &names) else { return };
    let variables = [("SLURM_CONF", slurm.conf.as_str())];
    let job = |first: &str, mpi: &[&str]| {
        let own = ["mpi", "--allow-run-as-root", "--hosts", "slurm", "--patterns", "latency"];
        let words = [&own[..], mpi, &FAST, &["--json", "-"]].concat();
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!("{first} exec {} {}", crate::program::path(), words.join(" "));
        harness.run_other(&["salloc", "-Q", "-N4", "sh", "-c", &script], &variables)
    };
    let met = |record: &Value| {
        let of_8 = measurements(record).iter().filter(|m| m["config"]["message_bytes"] == 8);
        let mut met: Vec<String> = of_8.map(|m| texts(&m["config"]["hosts"]).join(" ")).collect();
        met.sort_unstable();
        met
    };
    for which in &mpis {
        let record = job("", &["--mpicc", which.mpicc]).exits(0).json();
        let met = met(&record);
        // There are the pairs of the ring, and two random pairs.
        assert_eq!(met.len(), 4 + 2, "{met:?}");
        for pair in ["node1 node2", "node2 node3", "node3 node4", "node4 node1"] {
            assert!(met.iter().any(|known| known == pair), "{pair} in {met:?}");
        }
    }
    if let Some(mpich) = mpis.iter().find(|which| which.mpicc == MPICH.mpicc) {
        let started = ["--mpicc", mpich.mpicc, "--launcher", "srun --mpi=pmi2"];
        let record = job("", &started).exits(0).json();
        assert_eq!(met(&record).len(), 6);
        // The daemon remains as a zombie, because this process does not wait for it.
        let daemon = slurm.nodes[3];
        let kill =
            format!("kill -9 {daemon}; until grep -q ') Z ' /proc/{daemon}/stat; do :; done;");
        let killed_record = job(&kill, &started).exits(1).json();
        reports_unresponsive_host(&killed_record, "node4");
        assert!(!met(&killed_record).iter().any(|pair| pair.contains("node4")));
    }
    // The daemons are also processes of the harness.
    drop(slurm);
    no_orphans(&harness);
}
