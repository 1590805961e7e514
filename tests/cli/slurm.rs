//! A Slurm of one node in a private folder: munged, slurmctld and slurmd as children that end with
//! the test. Needs root, as slurmd does.

use crate::harness::{Harness, skip};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the daemons may take until the node is idle.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Slurm {
    daemons: Vec<Child>,
    /// The value of `SLURM_CONF`.
    pub conf: String,
}

impl Slurm {
    /// Starts one; `None`, with the reason printed, where that cannot be.
    pub fn start(harness: &Harness) -> Option<Self> {
        for program in ["munged", "slurmctld", "slurmd", "srun"] {
            if !exists(harness, program) {
                skip(&format!("there is no {program}"));
                return None;
            }
        }
        if harness.command("id").arg("-u").output().unwrap().stdout != b"0\n" {
            skip("slurmd needs root");
            return None;
        }
        // munged wants nobody else to be able to replace its socket and its key.
        let private = r#"chmod 755 . && head -c 1024 /dev/urandom > key && chmod 400 key && mkdir spool state"#;
        assert!(harness.command("sh").args(["-c", private]).status().unwrap().success());
        let at = |name: &str| harness.arg(name);
        let conf = harness.write("slurm.conf", configuration(harness));
        let mut slurm = Self { daemons: Vec::new(), conf };
        let files = [
            format!("--key-file={}", at("key")),
            format!("--socket={}", at("munge.sock")),
            format!("--pid-file={}", at("munge.pid")),
            format!("--seed-file={}", at("munge.seed")),
        ];
        let mut munged = harness.command("munged");
        munged.args(["--foreground", "--force", "--num-threads=2"]).args(files);
        slurm.daemon(munged);
        for args in [&["slurmctld", "-D", "-i"][..], &["slurmd", "-D", "-N", "localhost"]] {
            let mut daemon = harness.command(args[0]);
            daemon.args(&args[1..]).env("SLURM_CONF", &slurm.conf);
            slurm.daemon(daemon);
        }
        let deadline = Instant::now() + PATIENCE;
        let mut said = String::new();
        while Instant::now() < deadline {
            let mut sinfo = harness.command("sinfo");
            sinfo.args(["-h", "-o", "%T"]).env("SLURM_CONF", &slurm.conf);
            let output = sinfo.output().unwrap();
            said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            if said.trim() == "idle" {
                return Some(slurm);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        skip(&format!("Slurm does not start here: {}", said.trim()));
        None
    }

    fn daemon(&mut self, mut command: Command) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
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

fn exists(harness: &Harness, program: &str) -> bool {
    let found = harness.command("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

/// A port that was free just now.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn configuration(harness: &Harness) -> String {
    let folder = harness.arg("");
    let folder = folder.trim_end_matches('/');
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count();
    format!(
        "ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
SlurmctldPort={}
SlurmdPort={}
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE State=UP MaxTime=INFINITE
",
        port(),
        port()
    )
}
