//! Hosts of a job: the ranks of a launcher grouped by host, the common start of all hosts, and the collection of their
//! results before a deadline.
//!
//! The first rank of a host is its leader. Each leader measures its host with the ranks of the host, independently
//! of the other hosts. The leader of the first host, rank 0, starts all hosts together and collects their results.
//! A host that fails or does not respond before the deadline is reported with the reason; the results of the others
//! are kept.
//!
//! # What a host is
//! Ranks are on the same host if they have the same host name and the same boot identifier of the kernel. The host name
//! is `SLURMD_NODENAME` if Slurm's daemon has set it, because a machine may run several of these daemons; otherwise it
//! is the name that the kernel reports, which differs between UTS namespaces.
//!
//! # Connections
//! Leaders communicate with rank 0 over the MPI of the launcher. In a step of Slurm without an MPI, rank 0 starts
//! the leaders of the other hosts itself, with a second srun, and communicates with them over the standard streams
//! of that srun; the tasks that the first srun has started on the other hosts then end immediately.

mod cpus;
mod lines;
mod link;

use crate::TeamError;
use crate::collect::MessageCollection;
use crate::mpi::{World, WorldHosts};
use crate::rank_service::join_timeout;
use lines::{LeaderConnection, SrunStep};
use link::Link;
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_os::{Wait, is_end_requested, wait_until};
use nodegauge_placement::launchers::LauncherJob;
use nodegauge_placement::pin;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Interval between two checks for a message. It is fixed, because the hosts must start at nearly the same time.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time for the other hosts to report after an interrupt. Launchers kill ranks about a second after the signal.
const AFTER_INTERRUPT: Duration = Duration::from_millis(700);
/// Time for rank 0 to end the other ranks after an interrupt.
const END_AFTER_INTERRUPT: Duration = Duration::from_secs(5);
/// Variable that Slurm's daemon sets to the name of its node.
const SLURM_NODE: &str = "SLURMD_NODENAME";
/// Environment variable by which a process detects that rank 0 has started it with srun, as a rank of another host.
const STARTED_BY_RANK_0: &str = "NODEGAUGE_OF_RANK_0";
/// Prefixes of Slurm's variables that the second srun needs. All other variables of Slurm contain options of the
/// first srun.
const KEPT_PREFIXES: [&str; 3] = ["SLURM_CONF", "SLURM_JOB", "SLURM_CLUSTER"];

/// Nodes of a Slurm step, with the program that starts another step.
#[derive(Debug, Clone)]
pub struct SlurmNodes {
    /// Path of srun.
    pub srun: PathBuf,
    /// Names of the nodes of the step, in Slurm's order.
    pub names: Vec<String>,
    /// Number of tasks on each node.
    pub tasks: Vec<u32>,
}

impl SlurmNodes {
    /// Returns the command that starts this program with the same arguments on all nodes but the first.
    fn command(&self) -> Result<Command, Failure> {
        let program = nodegauge_os::own_program_file().map_err(Failure::missing)?;
        let others = self.names.iter().zip(&self.tasks).skip(1);
        let list: Vec<&str> =
            others.flat_map(|(name, n)| std::iter::repeat_n(name.as_str(), *n as usize)).collect();
        let mut command = Command::new(&self.srun);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let is_kept = KEPT_PREFIXES.iter().any(|kept| name.starts_with(kept));
            if name.starts_with("SLURM_") && !is_kept {
                command.env_remove(name.as_ref());
            }
        }
        if let Ok(cpus) = std::env::var("SLURM_CPUS_PER_TASK") {
            command.arg(format!("--cpus-per-task={cpus}"));
        }
        command
            .args([
                "--overlap",
                "--mpi=none",
                "--kill-on-bad-exit=0",
                "--label",
                "--input=all",
                "--distribution=arbitrary",
            ])
            .arg(format!("--nodes={}", self.names.len() - 1))
            .arg(format!("--ntasks={}", list.len()))
            .arg(format!("--nodelist={}", list.join(",")))
            .arg("--")
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env(STARTED_BY_RANK_0, "1");
        Ok(command)
    }
}

/// Host of a rank, and the CPUs that the launcher has assigned to the rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RankHost {
    /// Host name.
    name: String,
    /// Boot identifier of the kernel.
    boot: String,
    cpus: Vec<u32>,
    /// Version of the program.
    version: String,
}

impl RankHost {
    fn own(version: &str) -> Self {
        let by_slurm = std::env::var(SLURM_NODE).ok().filter(|name| !name.is_empty());
        let name = by_slurm.unwrap_or_else(|| file_word("/proc/sys/kernel/hostname"));
        let cpus = pin::current_affinity().unwrap_or_default();
        Self {
            name: legible(&name),
            boot: file_word("/proc/sys/kernel/random/boot_id"),
            cpus: cpus.into_iter().map(|cpu| cpu.0).collect(),
            version: version.to_owned(),
        }
    }
}

/// Returns the word in a file of the kernel; an empty text if the file cannot be read.
fn file_word(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Replaces characters that host names cannot contain, so that the result can be written to a list of hosts.
fn legible(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if is_host_name_character(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

fn is_host_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._:".contains(c)
}

/// Ranks of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HostRanks {
    /// Name of the host, which is unique in the job.
    name: String,
    /// Ranks on the host, in ascending order; the first is the leader.
    ranks: Vec<u32>,
    /// CPUs of all these ranks.
    cpus: BTreeSet<u32>,
}

/// Groups ranks by host, in the order of the first rank of each host.
///
/// # Errors
/// Fails if ranks run different versions of the program.
fn group(ranks: &[(u32, RankHost)]) -> Result<Vec<HostRanks>, Failure> {
    let mut hosts: Vec<(&RankHost, HostRanks)> = Vec::new();
    for (rank, own) in ranks {
        let first = &ranks[0].1;
        if own.version != first.version {
            return Err(Failure::missing(format!(
                "rank {rank} on {} runs nodegauge {}, rank {} on {} runs {}",
                own.name, own.version, ranks[0].0, first.name, first.version,
            ))
            .hint("start the same program on all hosts"));
        }
        let same =
            |(of, _): &&mut (&RankHost, HostRanks)| of.name == own.name && of.boot == own.boot;
        if let Some((_, host)) = hosts.iter_mut().find(same) {
            host.ranks.push(*rank);
            host.cpus.extend(&own.cpus);
            continue;
        }
        let namesakes = hosts.iter().filter(|(of, _)| of.name == own.name).count();
        let name = match namesakes {
            0 => own.name.clone(),
            n => format!("{}-{}", own.name, n + 1),
        };
        let cpus = own.cpus.iter().copied().collect();
        hosts.push((own, HostRanks { name, ranks: vec![*rank], cpus }));
    }
    Ok(hosts.into_iter().map(|(_, host)| host).collect())
}

/// Message to the leader of a host.
#[derive(Debug, Serialize, Deserialize)]
enum ToHost {
    /// The measurement starts.
    Go,
    /// The process ends with this exit code.
    End { code: u8, all_respond: bool },
}

/// Message of the leader of a host.
#[derive(Debug, Serialize, Deserialize)]
enum FromHost<R> {
    /// The host is ready: everything that can be refused was checked.
    Ready,
    /// Result of the measurement.
    Measured(R),
    /// The measurement failed before it had a result.
    Failed(Failure),
}

/// Name of a host, with its result or the reason why there is none.
pub type HostResult<R> = (String, Result<R, Failure>);

/// Hosts of a job, from the view of one rank.
#[derive(Debug)]
pub struct Hosts {
    names: Vec<String>,
    /// Index of the host on which this rank runs.
    own: usize,
    started: LauncherJob,
    /// CPUs of all ranks on this host; without MPI, the CPUs of this rank only.
    cpus: BTreeSet<u32>,
    link: Link,
    /// At rank 0: the reasons why hosts have no result.
    lost: RefCell<Vec<Option<Failure>>>,
    /// At rank 0: notices about the ranks and their connection.
    notices: Vec<Notice>,
    /// False if a rank has not joined, or if a host has not responded.
    all_respond: Cell<bool>,
    /// True if rank 0 has reported that all ranks respond.
    may_leave: Cell<bool>,
}

impl Hosts {
    /// True if rank 0 has started this process with srun, as a rank of another host.
    pub fn is_started_by_rank_0() -> bool {
        std::env::var_os(STARTED_BY_RANK_0).is_some()
    }

    /// Returns the hosts from the view of a process that rank 0 has started ([`Hosts::is_started_by_rank_0`]).
    ///
    /// # Errors
    /// Fails outside of a step of Slurm.
    pub fn from_rank_0() -> Result<Self, Failure> {
        let name = RankHost::own("").name;
        let started = LauncherJob::from_slurm_node(&name).ok_or_else(|| {
            Failure::usage(format!(
                "{STARTED_BY_RANK_0} is set, but srun has not started this process"
            ))
        })?;
        let link = match started.rank {
            0 => Link::Leader(LeaderConnection::new(&name)?),
            _ => Link::Nothing,
        };
        // The first host is that of rank 0, whose name does not matter here.
        Ok(Self::at(vec![String::new(), name], 1, started, link))
    }

    fn at(names: Vec<String>, own: usize, started: LauncherJob, link: Link) -> Self {
        let cpus = pin::current_affinity().unwrap_or_default();
        Self {
            own,
            started,
            cpus: cpus.into_iter().map(|cpu| cpu.0).collect(),
            link,
            lost: RefCell::new(vec![None; names.len()]),
            names,
            notices: Vec::new(),
            all_respond: Cell::new(true),
            may_leave: Cell::new(false),
        }
    }

    /// Joins the tasks of a step of Slurm without MPI. Returns `None` in tasks that are not on the host of rank
    /// 0; these tasks then end.
    ///
    /// # Errors
    /// Fails if srun cannot be started.
    fn join_step(nodes: &SlurmNodes, reason: &Failure) -> Result<Option<Self>, Failure> {
        let own = RankHost::own("").name;
        if nodes.names.first() != Some(&own) {
            return Ok(None);
        }
        let started = LauncherJob::from_slurm_node(&own)
            .ok_or_else(|| Failure::missing("Slurm does not report the tasks of this node"))?;
        if started.rank > 0 {
            return Ok(Some(Self::at(nodes.names.clone(), 0, started, Link::Nothing)));
        }
        let step = SrunStep::start(nodes.command()?)?;
        let link = Link::Step { step, names: nodes.names.clone() };
        let mut hosts = Self::at(nodes.names.clone(), 0, started, link);
        let text = format!("a second srun connects the hosts: {}", reason.reason());
        hosts.notices.push(Notice::new(NoticeId::Method, "", text));
        Ok(Some(hosts))
    }

    /// Groups the ranks of a job by host. All ranks must call this function. `version` is the version of the
    /// program. If MPI cannot be initialised before the timeout, because a rank is missing, `give_up` is called in
    /// another thread. Without MPI, the hosts of a step of Slurm are connected by srun, if `nodes` are given.
    /// Returns `None` in a process that must end because rank 0 starts another leader on its host.
    ///
    /// # Errors
    /// Fails if MPI is missing or does not belong to the launcher, and if ranks run different versions.
    pub fn join(
        started: &LauncherJob,
        version: &str,
        nodes: Option<&SlurmNodes>,
        give_up: impl FnOnce(Failure) + Send + 'static,
    ) -> Result<Option<Self>, Failure> {
        let timeout = join_timeout()?;
        let world = if started.has_mpi() {
            link::join_world(started, timeout, give_up)
        } else {
            Err(Failure::missing("srun started the ranks without an MPI"))
        };
        match (world, nodes) {
            (Ok(world), _) => Self::from_world(started, version, world, timeout).map(Some),
            (Err(reason), Some(nodes)) => Self::join_step(nodes, &reason),
            (Err(reason), None) => Err(reason),
        }
    }

    fn from_world(
        started: &LauncherJob,
        version: &str,
        world: &'static World,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let own = RankHost::own(version);
        let mut notices = Vec::new();
        if world.rank == 0 {
            let collection = rank_hosts(world, timeout)?;
            if let Some(missing) = collection.missing_ranks_in_words() {
                let text = format!("{missing}; hosts without a response were not measured");
                notices.push(Notice::new(NoticeId::Failed, "", text));
            }
            let mut ranks = vec![(0, own)];
            let others = collection.into_messages();
            ranks.extend(others.into_iter().map(|(rank, host)| (rank as u32, host)));
            let layout = group(&ranks);
            world.broadcast(&layout)?;
            return Self::new(started, world, layout?, notices);
        }
        world.send(0, &serde_json::to_vec(&own).map_err(Failure::missing)?);
        let layout: Result<Vec<HostRanks>, Failure> =
            serde_json::from_slice(&world.receive(0)).map_err(Failure::missing)?;
        Self::new(started, world, layout?, notices)
    }

    fn new(
        started: &LauncherJob,
        world: &'static World,
        layout: Vec<HostRanks>,
        notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let found = layout.iter().enumerate().find_map(|(at, host)| {
            let rank = host.ranks.iter().position(|rank| *rank == started.rank)?;
            Some((at, rank))
        });
        let (own, rank) =
            found.ok_or_else(|| Failure::missing("this rank joined after the deadline"))?;
        let HostRanks { name, ranks, cpus } = &layout[own];
        let leaders = layout.iter().map(|host| host.ranks[0] as usize).collect();
        Ok(Self {
            started: started.on_host(name, rank as u32, ranks.len() as u32),
            cpus: cpus.clone(),
            own,
            link: Link::Mpi { world, leaders },
            lost: RefCell::new(vec![None; layout.len()]),
            names: layout.into_iter().map(|host| host.name).collect(),
            all_respond: Cell::new(notices.is_empty()),
            may_leave: Cell::new(false),
            notices,
        })
    }

    /// Returns the names of all hosts, in the order of their first ranks.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the name of the host of this rank.
    pub fn name(&self) -> &str {
        &self.names[self.own]
    }

    /// Returns the ranks on this host as a separate job, in which the leader has rank 0.
    pub fn host_job(&self) -> &LauncherJob {
        &self.started
    }

    /// True if this process is the leader of its host.
    pub fn is_leader(&self) -> bool {
        self.started.rank == 0
    }

    /// True if this process is rank 0, which starts all hosts and collects their results.
    pub fn is_first(&self) -> bool {
        self.own == 0 && self.is_leader()
    }

    /// Returns notices about the ranks and their connection.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Allows this process to use the CPUs of all ranks on this host, for measurements by the threads of one
    /// process. Only the leader of a host calls this function; without MPI, the other ranks call
    /// [`Hosts::offer_cpus`].
    ///
    /// # Errors
    /// Fails if a rank of this host does not respond, and if the kernel refuses the CPUs.
    pub fn use_all_ranks_cpus(&self) -> Result<(), Failure> {
        let mut cpus = self.cpus.clone();
        if !matches!(self.link, Link::Mpi { .. }) {
            cpus.extend(cpus::collect(&self.started)?);
        }
        let cpus: Vec<_> = cpus.into_iter().map(nodegauge_machine::CpuId).collect();
        pin::pin_current_thread(&cpus).map_err(Failure::missing)
    }

    /// Sends the CPUs of this rank to the leader of its host. Without MPI, the leader cannot determine them itself.
    ///
    /// # Errors
    /// Fails if the leader does not respond.
    pub fn offer_cpus(&self) -> Result<(), Failure> {
        if matches!(self.link, Link::Nothing) { cpus::offer(&self.started) } else { Ok(()) }
    }

    /// Starts the measurement on all hosts. Rank 0 calls this function when it is ready. The function waits for the
    /// other hosts, at most until the timeout.
    ///
    /// # Errors
    /// Fails if the timeout in the environment is invalid.
    pub fn start(&self, interrupted: &dyn Fn() -> bool) -> Result<(), Failure> {
        for (host, message) in self.collect_from_hosts::<()>(join_timeout()?, interrupted)? {
            match message {
                FromHost::Failed(why) => self.lost.borrow_mut()[host] = Some(why),
                FromHost::Ready | FromHost::Measured(()) => self.link.send(host, &ToHost::Go)?,
            }
        }
        Ok(())
    }

    /// Reports that this host is ready, and waits for the start. Returns the exit code if the job ends instead. The
    /// leaders of all hosts except the first call this function.
    ///
    /// # Errors
    /// Fails if the connection to rank 0 is lost.
    pub fn await_start(&self) -> Result<Option<u8>, Failure> {
        self.link.send(0, &FromHost::<()>::Ready)?;
        match self.await_message()? {
            ToHost::Go => Ok(None),
            ToHost::End { code, all_respond } => Ok(Some(self.ended(code, all_respond))),
        }
    }

    /// Reports the result of this host, waits for the end of the job and returns the exit code. The leaders of all
    /// hosts except the first call this function.
    ///
    /// # Errors
    /// Fails if the connection to rank 0 is lost.
    pub fn report<R: Serialize>(&self, result: Result<R, Failure>) -> Result<u8, Failure> {
        self.link.send(0, &result.map_or_else(FromHost::Failed, FromHost::Measured))?;
        loop {
            if let ToHost::End { code, all_respond } = self.await_message()? {
                return Ok(self.ended(code, all_respond));
            }
        }
    }

    /// Waits for a message of rank 0. After an interrupt, which rank 0 also receives, the wait is limited to a
    /// few seconds.
    fn await_message(&self) -> Result<ToHost, Failure> {
        let wait = Wait::unlimited().every(POLL_INTERVAL).unless(&is_end_requested);
        let words = wait_until(&wait.grace(END_AFTER_INTERRUPT), || self.link.poll(0).transpose());
        let words = words.map_err(|_| TeamError::Interrupted)??;
        serde_json::from_slice(&words).map_err(Failure::missing)
    }

    fn ended(&self, code: u8, all_respond: bool) -> u8 {
        self.may_leave.set(all_respond);
        code
    }

    /// Closes the connection of a rank other than rank 0, if all ranks respond. All ranks wait for each other here,
    /// so the ranks of a host must be ended before their leader.
    pub fn leave(&self, code: u8) {
        if self.may_leave.get() {
            self.link.leave(code);
        }
    }

    /// Collects the results of all hosts except the first, in order. The time limit is `elapsed`, the time that
    /// rank 0 needed for its own result, plus the timeout.
    ///
    /// # Errors
    /// Fails if the timeout in the environment is invalid.
    pub fn collect<R: DeserializeOwned>(
        &self,
        elapsed: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<HostResult<R>>, Failure> {
        let mut messages = self.collect_from_hosts(elapsed + join_timeout()?, interrupted)?;
        let mut results = Vec::new();
        for (host, name) in self.names.iter().enumerate().skip(1) {
            let result = match messages.remove(&host) {
                Some(FromHost::Measured(result)) => Ok(result),
                Some(FromHost::Failed(why)) => Err(why),
                Some(FromHost::Ready) => Err(Failure::missing("reported twice that it is ready")),
                None => Err(self.loss_reason(host)),
            };
            results.push((name.clone(), result));
        }
        Ok(results)
    }

    /// Returns the reason why a lost host has no result.
    fn loss_reason(&self, host: usize) -> Failure {
        let lost = self.lost.borrow();
        lost[host].clone().unwrap_or_else(|| Failure::missing("no result"))
    }

    /// Collects one message from each host that is not lost, except the first. Hosts without a message at the
    /// deadline are marked as lost.
    fn collect_from_hosts<R: DeserializeOwned>(
        &self,
        timeout: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<BTreeMap<usize, FromHost<R>>, Failure> {
        let others = (1..self.names.len()).filter(|host| self.lost.borrow()[*host].is_none());
        let mut collection = MessageCollection::new(others, timeout);
        let passed_on = || self.pass_on_interrupt(interrupted);
        let wait = collection
            .deadline_wait()
            .every(POLL_INTERVAL)
            .unless(&passed_on)
            .grace(AFTER_INTERRUPT);
        collection.poll_each(&wait, |host| Ok(self.host_message(host)))?;
        for host in collection.missing() {
            self.all_respond.set(false);
            self.lost.borrow_mut()[host] = Some(Failure::missing(collection.missing_reason()));
        }
        Ok(collection.into_messages())
    }

    /// Interrupts the leaders of the other hosts if the user interrupts the run; returns true in this case.
    fn pass_on_interrupt(&self, interrupted: &dyn Fn() -> bool) -> bool {
        let is_interrupted = interrupted();
        if is_interrupted {
            self.link.interrupt();
        }
        is_interrupted
    }

    /// Returns the message of a host; `None` if none has arrived. If the host has ended, returns a failure.
    fn host_message<R: DeserializeOwned>(&self, host: usize) -> Option<FromHost<R>> {
        match self.link.poll(host) {
            Ok(words) => Some(serde_json::from_slice(&words?).unwrap_or_else(|cause| {
                FromHost::Failed(Failure::missing(format!("unreadable result: {cause}")))
            })),
            Err(why) => {
                self.all_respond.set(false);
                Some(FromHost::Failed(why))
            }
        }
    }

    /// Ends the job. Rank 0 calls this function with its exit code after all output is written. Hosts that do not
    /// respond are ended by the launcher.
    pub fn end(&self, code: u8) {
        let all_respond = self.all_respond.get();
        // A rank that has ended needs no message.
        let _ = self.link.send_all(&ToHost::End { code, all_respond });
        if all_respond {
            self.link.leave(code);
        } else {
            self.link.abort(code);
        }
    }

    /// Waits for the end of the job, and returns the exit code of rank 0. Without a connection to rank 0, returns
    /// `served`, the exit code that the leader of this host has sent. Ranks that do not lead their hosts call this
    /// function when they have nothing else to do; their cores are then available to other processes.
    ///
    /// # Errors
    /// Fails if the connection to rank 0 is lost.
    pub fn await_end(&self, served: u8) -> Result<u8, Failure> {
        nodegauge_os::ignore_interrupts();
        if matches!(self.link, Link::Nothing) {
            return Ok(served);
        }
        loop {
            if let ToHost::End { code, all_respond } = self.await_message()? {
                return Ok(self.ended(code, all_respond));
            }
        }
    }
}

/// Determines the hosts of all ranks of an MPI job ([`World::hosts`]), and collects the CPUs of all ranks at rank
/// 0; returns `None` at all other ranks. All ranks must call this function.
///
/// # Errors
/// Fails if ranks do not respond before the timeout, or if they run different versions of the program.
pub fn gather_rank_cpus(world: &World, version: &str) -> Result<Option<Vec<Vec<u32>>>, Failure> {
    let own = RankHost::own(version);
    let layout: Result<Vec<HostRanks>, Failure>;
    let mut cpus = None;
    if world.rank == 0 {
        let others = rank_hosts(world, join_timeout()?)?.all_messages();
        let hint = "check the hosts of these ranks, e.g. mpirun hostname";
        let others = others.map_err(|lost| lost.hint(hint))?;
        let all: Vec<(u32, RankHost)> = (0..).zip(std::iter::once(own).chain(others)).collect();
        layout = group(&all);
        world.broadcast(&layout)?;
        cpus = Some(all.into_iter().map(|(_, of)| of.cpus).collect());
    } else {
        world.send(0, &serde_json::to_vec(&own).map_err(Failure::missing)?);
        layout = serde_json::from_slice(&world.receive(0)).map_err(Failure::missing)?;
    }
    let layout = layout?;
    let mut of_ranks = vec![0; world.count];
    for (at, host) in layout.iter().enumerate() {
        host.ranks.iter().for_each(|rank| of_ranks[*rank as usize] = at);
    }
    let names = layout.into_iter().map(|host| host.name).collect();
    world.set_hosts(WorldHosts { names, rank_hosts: of_ranks });
    Ok(cpus)
}

/// Collects the hosts of all other ranks at rank 0.
///
/// # Errors
/// Fails if a rank sends another kind of message, as another version of the program may do. All ranks then get the
/// failure instead of their hosts.
fn rank_hosts(world: &World, timeout: Duration) -> Result<MessageCollection<RankHost>, Failure> {
    let mut collection = MessageCollection::new(1..world.count, timeout);
    let wait = collection.deadline_wait().every(POLL_INTERVAL);
    let collected = collection.poll_each(&wait, |rank| match world.poll(rank) {
        Some(words) => serde_json::from_slice(&words)
            .map(Some)
            .map_err(|cause| Failure::missing(format!("rank {rank}: unreadable message: {cause}"))),
        None => Ok(None),
    });
    if let Err(failure) = &collected {
        world.broadcast(&Err::<Vec<HostRanks>, &Failure>(failure))?;
    }
    collected.map(|()| collection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(name: &str, boot: &str, cpus: &[u32]) -> RankHost {
        let (name, boot) = (legible(name), boot.to_owned());
        RankHost { name, boot, cpus: cpus.to_vec(), version: "1".to_owned() }
    }

    fn grouped(ranks: &[RankHost]) -> Vec<(String, Vec<u32>)> {
        let numbered: Vec<(u32, RankHost)> = (0..).zip(ranks.iter().cloned()).collect();
        let hosts = group(&numbered).unwrap();
        hosts.into_iter().map(|host| (host.name, host.ranks)).collect()
    }

    #[test]
    fn ranks_with_same_name_and_boot_share_host() {
        let ranks = [
            rank("a", "1", &[0]),
            rank("b", "1", &[0]),
            rank("a", "1", &[1]),
            rank("a", "2", &[0]),
        ];
        let expected = [("a", vec![0, 2]), ("b", vec![1]), ("a-2", vec![3])];
        assert_eq!(grouped(&ranks), expected.map(|(name, of)| (name.to_owned(), of)));
        assert_eq!(
            group(&[(0, ranks[0].clone()), (2, ranks[2].clone())]).unwrap()[0].cpus.len(),
            2
        );
    }

    #[test]
    fn unsafe_characters_in_host_names_are_replaced() {
        assert_eq!(legible("n01.site"), "n01.site");
        assert_eq!(legible("a b\n;c"), "a_b__c");
        assert_eq!(legible(""), "unnamed");
    }

    #[test]
    fn rank_with_other_version_is_refused() {
        let other = RankHost { version: "2".to_owned(), ..rank("b", "1", &[0]) };
        let refusal = group(&[(0, rank("a", "1", &[0])), (1, other)]).unwrap_err();
        assert_eq!(refusal.message, "rank 1 on b runs nodegauge 2, rank 0 on a runs 1");
    }
}
