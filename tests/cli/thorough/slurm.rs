//! Slurm cluster in a private folder. Its nodes, one or several, are all this machine. munged, slurmctld and the
//! slurmds are child processes, which end with the test. slurmd requires root.

use crate::harness::{Harness, Part, skip, timeout};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Slurm {
    daemons: Vec<Child>,
    /// Process identifier of each node's daemon.
    pub nodes: Vec<u32>,
    /// Value of the environment variable `SLURM_CONF`.
    pub conf: String,
}

impl Slurm {
    /// Starts a cluster whose only node is this machine. If that fails, reports the reason and returns `None`.
    pub fn start(harness: &Harness) -> Option<Self> {
        Self::with_nodes(harness, &["localhost"])
    }

    /// Starts a cluster whose nodes have these names.
    pub fn with_nodes(harness: &Harness, names: &[&str]) -> Option<Self> {
        Self::with(harness, names, "")
    }

    /// Starts a cluster whose nodes have these names; `more` is appended to its configuration.
    pub fn with(harness: &Harness, names: &[&str], more: &str) -> Option<Self> {
        for program in ["munged", "slurmctld", "slurmd", "srun"] {
            if !harness.has(Part::Slurm, program) {
                return None;
            }
        }
        if harness.command("id").arg("-u").output().unwrap().stdout != b"0\n" {
            skip(Part::Slurm, "slurmd needs root");
            return None;
        }
        // munged requires that no other user can replace its socket and its key.
        let private =
            r#"chmod 755 . && head -c 1024 /dev/urandom > key && chmod 400 key && mkdir state"#;
        assert!(harness.command("sh").args(["-c", private]).status().unwrap().success());
        let at = |name: &str| harness.arg(name);
        let conf = harness.write("slurm.conf", configuration(harness, names) + more);
        let mut slurm = Self { daemons: Vec::new(), nodes: Vec::new(), conf };
        let files = [
            format!("--key-file={}", at("key")),
            format!("--socket={}", at("munge.sock")),
            format!("--pid-file={}", at("munge.pid")),
            format!("--seed-file={}", at("munge.seed")),
        ];
        let mut munged = harness.command("munged");
        munged.args(["--foreground", "--force", "--num-threads=2"]).args(files);
        slurm.daemon(munged);
        let mut control = harness.command("slurmctld");
        control.args(["-D", "-i"]).env("SLURM_CONF", &slurm.conf);
        slurm.daemon(control);
        for name in names {
            std::fs::create_dir(harness.path(&format!("spool-{name}"))).unwrap();
            let mut daemon = harness.command("slurmd");
            daemon.args(["-D", "-N", name]).env("SLURM_CONF", &slurm.conf);
            let process = slurm.daemon(daemon);
            slurm.nodes.push(process);
        }
        let deadline = Instant::now() + timeout();
        let mut reported = String::new();
        while Instant::now() < deadline {
            let mut sinfo = harness.command("sinfo");
            sinfo.args(["-h", "-N", "-o", "%T"]).env("SLURM_CONF", &slurm.conf);
            let output = sinfo.output().unwrap();
            reported =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            let idle = reported.lines().filter(|line| line.trim() == "idle").count();
            if idle == names.len() && reported.lines().count() == idle {
                return Some(slurm);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        skip(Part::Slurm, &format!("Slurm does not start here: {}", reported.trim()));
        None
    }

    fn daemon(&mut self, mut command: Command) -> u32 {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = command.spawn().unwrap();
        let process = daemon.id();
        self.daemons.push(daemon);
        process
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Returns a port that is currently free.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the configuration of a cluster. The time limit for messages is a minute, because the daemons are slow on a
/// busy machine, and because a launch that `srun` repeats is refused (`Job credential replayed`).
fn configuration(harness: &Harness, names: &[&str]) -> String {
    let folder = harness.arg("");
    let folder = folder.trim_end_matches('/');
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let node = |name: &&str| {
        format!(
            "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs={cpus}\n",
            port()
        )
    };
    let nodes: String = names.iter().map(node).collect();
    format!(
        "ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
SlurmctldPort={}
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
TmpFS={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
MpiDefault=none
MessageTimeout=60
ReturnToService=2
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE State=UP MaxTime=INFINITE
",
        port()
    )
}
