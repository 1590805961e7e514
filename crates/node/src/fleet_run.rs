//! `nodegauge fleet run --slurm`: submits jobs until every node has its records, or a reason why it has none.

use crate::caller::{Caller, Outputs};
use crate::signals::Signals;
use nodegauge_fleet::folder::{FleetFolder, failure_file_name, job_file_name};
use nodegauge_fleet::intake::{Intake, error_or_last_line};
use nodegauge_fleet::rank::{RankVerdict, Ranking, RankingOptions};
use nodegauge_fleet::reference::Reference;
use nodegauge_fleet::slurm::{self, JobOptions, JobRefusal, NodeState, QueuedJob, SlurmDeadline};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Failure, record};
use nodegauge_os::{Wait, wait_whole_time};
use nodegauge_toolchain::mpi::HostList;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

/// Interval between two queries of the queue. It is long because Slurm's controller serves all users.
const INTERVAL: Duration = Duration::from_secs(2);
/// Number of queries after which a job counts as failed if it has ended without a record. A shared file system may show
/// new files with a delay.
const MAX_QUERIES_WITHOUT_RECORD: u32 = 3;
/// Number of successive failures of Slurm's programs after which the command stops. The jobs continue, and the folder
/// keeps the state.
const MAX_FAILURES: u32 = 5;

/// Options of `fleet run`, which measures many nodes with Slurm jobs.
#[derive(Debug, Clone)]
pub struct FleetRequest {
    /// Folder of the records, which also contains the state of the command.
    pub folder: PathBuf,
    /// Nodes to measure; by default, those in the folder or in the partition.
    pub nodes: Option<HostList>,
    /// Partition of the jobs.
    pub partition: Option<String>,
    /// Quality of service of the jobs.
    pub qos: Option<String>,
    /// Additional options for sbatch.
    pub sbatch: Vec<String>,
    /// Time limit of a job in minutes.
    pub minutes: u32,
    /// Command that each node runs.
    pub command: Vec<String>,
    /// True if jobs may switch nodes on.
    pub power_up: bool,
    /// Maximum number of jobs in the queue.
    pub max_jobs: usize,
    /// Time after which the command stops waiting.
    pub deadline: Option<Duration>,
    /// Number of consistent runs that are required to call a node slow.
    pub confirm: usize,
    /// Reference by which nodes are judged; groups of few nodes need one.
    pub reference: Option<Reference>,
    /// True to wait for the jobs in the queue without submitting new ones.
    pub is_watch_only: bool,
}

/// Outcome of the measurement of many nodes.
pub enum FleetEnd {
    /// A signal ended the command; the folder keeps the state.
    Signal(u8),
    /// Ranking of the records in the folder.
    Ranked(Box<Ranking>),
}

impl FleetRequest {
    /// Submits jobs until every node has its records or a reason why it has none, or until the deadline.
    ///
    /// # Errors
    /// Fails if Slurm's programs fail, or if the folder cannot be written.
    pub fn run(&self, caller: &Caller) -> Result<FleetEnd, Failure> {
        let signals = Signals::listen()?;
        check_configuration()?;
        let folder = FleetFolder::create(&self.folder)?;
        let until = SlurmDeadline::from_duration(self.deadline);
        let mut run = FleetRun::new(self, &folder, until, caller)?;
        let outputs = caller.outputs;
        let mut failures = 0;
        let mut has_worked = false;
        loop {
            if until.has_passed() {
                outputs.note("deadline reached; start the command again to continue");
                break;
            }
            match run.step(self.is_watch_only) {
                Ok(true) => break,
                Ok(false) => {
                    has_worked = true;
                    failures = 0;
                }
                // If the first queries fail, Slurm is assumed to be unavailable.
                Err(failure) if !has_worked => return Err(failure),
                Err(failure) => {
                    failures += 1;
                    if failures == MAX_FAILURES {
                        outputs.note("the state is saved; start the command again to continue");
                        return Err(failure);
                    }
                    outputs.note(&failure.single_line());
                }
            }
            let interrupted = || signals.is_received();
            wait_whole_time(&Wait::within(until.left(INTERVAL)).unless(&interrupted));
            if let Some(signal) = signals.received_signal() {
                outputs.note("jobs in the queue stay there; start the command again to continue");
                return Ok(FleetEnd::Signal(signal));
            }
        }
        run.ranking().map(|ranking| FleetEnd::Ranked(Box::new(ranking)))
    }
}

/// State of the command between two queries of the queue.
struct FleetRun<'a> {
    caller: &'a Caller,
    folder: &'a FleetFolder,
    /// Time until which Slurm is queried.
    until: SlurmDeadline,
    /// Nodes to measure.
    hosts: Vec<String>,
    /// Name of the jobs that belong to this folder.
    name: String,
    jobs: JobOptions,
    /// True if jobs may switch nodes on.
    power_up: bool,
    /// Maximum number of jobs in the queue. It is lower than requested if Slurm has a lower limit.
    max: usize,
    options: RankingOptions,
    /// Number of records that each node needs.
    needed: HashMap<String, usize>,
    /// Number of queries since the job of a node was last active.
    absent: HashMap<String, u32>,
    /// Nodes that get no more jobs; the folder contains the reasons.
    failed: HashMap<String, ()>,
    /// Progress line that was printed last.
    printed: String,
}

/// Returns the reason why a node in this state gets no job; `None` if it gets one.
fn why_not(state: Option<&NodeState>, power_up: bool) -> Option<String> {
    match state {
        Some(NodeState::Idle | NodeState::Busy) => None,
        Some(NodeState::PoweredDown(_)) if power_up => None,
        Some(NodeState::PoweredDown(state)) => {
            Some(format!("not measured: {state}; --power-up switches such nodes on"))
        }
        Some(NodeState::Unavailable(state)) => Some(format!("the node is not available: {state}")),
        None => Some("the node is unknown to Slurm, or not in the partition".to_owned()),
    }
}

/// Checks that Slurm's configuration file exists. Without it, Slurm's programs would search for a configuration for a
/// minute.
///
/// Fails if the file does not exist.
fn check_configuration() -> Result<(), Failure> {
    let named = std::env::var_os("SLURM_CONF").map(PathBuf::from);
    match named.filter(|file| !file.exists()) {
        Some(absent) => {
            let text = format!("SLURM_CONF: file {} does not exist", absent.display());
            Err(Failure::missing(text).hint("check that Slurm's commands work here, e.g. sinfo"))
        }
        None => Ok(()),
    }
}

impl<'a> FleetRun<'a> {
    fn new(
        request: &FleetRequest,
        folder: &'a FleetFolder,
        until: SlurmDeadline,
        caller: &'a Caller,
    ) -> Result<Self, Failure> {
        let known = folder.nodes();
        let mut hosts = match &request.nodes {
            Some(nodes) => nodes.0.clone(),
            None if !known.is_empty() => known.clone(),
            None => slurm::query_nodes(request.partition.as_deref(), until)?.into_keys().collect(),
        };
        let (valid, odd) = HostList::split_invalid_names(&hosts);
        if let Some(odd) = odd.first() {
            return Err(Failure::usage(format!("'{odd}' is not a valid host name"))
                .hint("give the nodes, e.g. --nodes node[01-64]"));
        }
        hosts = valid;
        hosts.sort();
        hosts.dedup();
        if hosts.is_empty() {
            return Err(Failure::usage("no nodes to measure").hint("give --nodes or --partition"));
        }
        let mut all = known;
        all.extend(hosts.iter().cloned());
        folder.write_state("nodes", &HostList::fold_names(&all))?;
        let name = match folder.read_state("name") {
            Some(name) => name,
            None => {
                let id = record::new_id();
                let name = format!("nodegauge-fleet-{}", id[id.len() - 8..].to_lowercase());
                folder.write_state("name", &name)?;
                name
            }
        };
        slurm::write_job_script(folder)?;
        let program = nodegauge_os::own_program_file().map_err(|cause| {
            Failure::missing("cannot find the executable of nodegauge").cause(cause)
        })?;
        Ok(Self {
            caller,
            folder,
            until,
            needed: hosts.iter().map(|host| (host.clone(), 1)).collect(),
            hosts,
            name,
            jobs: JobOptions {
                partition: request.partition.clone(),
                qos: request.qos.clone(),
                sbatch_options: request.sbatch.clone(),
                minutes: request.minutes,
                program,
                command: request.command.clone(),
            },
            power_up: request.power_up,
            max: request.max_jobs,
            options: RankingOptions {
                reference: request.reference.clone(),
                confirm: request.confirm,
                ..RankingOptions::default()
            },
            absent: HashMap::new(),
            failed: HashMap::new(),
            printed: String::new(),
        })
    }

    /// Queries the queue and, unless `watch` is true, submits jobs. Returns true if all work is done.
    fn step(&mut self, watch: bool) -> Result<bool, Failure> {
        let queue = slurm::query_jobs(&self.name, self.until)?;
        let mut waiting: Vec<String> = Vec::new();
        let mut active: Vec<String> = Vec::new();
        for host in self.hosts.clone() {
            if self.has_records(&host) {
                self.folder.remove_state(&job_file_name(&host));
                self.folder.remove_state(&failure_file_name(&host));
                continue;
            }
            match self.node_job(&host, &queue)? {
                Some(id) if self.is_active(&host, &id, queue.get(&id))? => active.push(host),
                Some(_) => {}
                None if !self.failed.contains_key(&host) => waiting.push(host),
                None => {}
            }
        }
        if !waiting.is_empty() && !watch {
            self.submit(&mut waiting, &mut active, &queue)?;
        }
        self.report(waiting.len(), active.len());
        if !active.is_empty() || !waiting.is_empty() && !watch {
            return Ok(false);
        }
        if watch { Ok(true) } else { self.confirm() }
    }

    /// True if a node has all required records. If Slurm ends a job at its time limit, its incomplete record is moved
    /// to the state folder and does not count.
    fn has_records(&self, host: &str) -> bool {
        if self.folder.record_count(host) < self.needed[host] {
            return false;
        }
        let is_new = self.folder.read_state(&job_file_name(host)).is_some();
        let is_interrupted = is_new && self.folder.move_incomplete_record(host);
        !is_interrupted
    }

    /// Returns the job identifier of a node. If the command was killed between sbatch and the saving of the identifier,
    /// it is looked up in the queue.
    fn node_job(
        &self,
        host: &str,
        queue: &HashMap<String, QueuedJob>,
    ) -> Result<Option<String>, Failure> {
        let known = self.folder.read_state(&job_file_name(host));
        if known.is_some() || self.failed.contains_key(host) {
            return Ok(known);
        }
        let mut jobs = queue.iter().filter(|(_, job)| job.is_active() && job.node == host);
        let Some((id, _)) = jobs.next() else { return Ok(None) };
        self.folder.write_state(&job_file_name(host), id)?;
        Ok(Some(id.clone()))
    }

    /// True if the job of a node may still write a record. Otherwise the reason is saved.
    fn is_active(
        &mut self,
        host: &str,
        id: &str,
        job: Option<&QueuedJob>,
    ) -> Result<bool, Failure> {
        let is_stuck = job.is_some_and(QueuedJob::waits_for_unavailable_node);
        if job.is_some_and(|job| job.is_active() && !is_stuck) {
            self.absent.remove(host);
            return Ok(true);
        }
        let looks = self.absent.entry(host.to_owned()).or_default();
        *looks += 1;
        if *looks < MAX_QUERIES_WITHOUT_RECORD {
            return Ok(true);
        }
        self.absent.remove(host);
        if is_stuck {
            slurm::cancel(id, self.until);
        }
        let why = match job {
            Some(job) if is_stuck => format!("the node is not available: {}", job.reason),
            Some(job) => format!("job {id}: {}{}", job.state, self.reported_by_job(host)),
            None => format!("job {id} left no record{}", self.reported_by_job(host)),
        };
        self.fail(host, &why)?;
        Ok(false)
    }

    /// Returns the error that the job of a node printed, otherwise its last line, preceded by a separator.
    fn reported_by_job(&self, host: &str) -> String {
        let log = self.folder.read_state(&format!("{host}.log")).unwrap_or_default();
        match error_or_last_line(&log) {
            "" => String::new(),
            line => format!(": {line}"),
        }
    }

    /// Marks a node as failed. If the command is started again, it measures the node.
    fn fail(&mut self, host: &str, why: &str) -> Result<(), Failure> {
        self.fail_all(&[host.to_owned()], why)
    }

    /// Marks several nodes as failed for the same reason, which is printed once.
    fn fail_all(&mut self, hosts: &[String], why: &str) -> Result<(), Failure> {
        for host in hosts {
            self.folder.write_state(&failure_file_name(host), why)?;
            self.folder.remove_state(&job_file_name(host));
            self.failed.insert(host.clone(), ());
        }
        self.outputs().note(&format!("{}: {why}", HostList::fold_names(hosts)));
        Ok(())
    }

    /// Submits jobs for the waiting nodes, idle nodes first.
    fn submit(
        &mut self,
        waiting: &mut Vec<String>,
        active: &mut Vec<String>,
        queue: &HashMap<String, QueuedJob>,
    ) -> Result<(), Failure> {
        let states = slurm::query_nodes(self.jobs.partition.as_deref(), self.until)?;
        self.give_up_unavailable(waiting, &states)?;
        let pending = active.iter().filter(|host| self.is_pending(host, queue)).count();
        let names: Vec<&str> = waiting.iter().map(String::as_str).collect();
        let next: Vec<String> = slurm::next_nodes(&names, &states, active.len(), pending, self.max)
            .into_iter()
            .map(str::to_owned)
            .collect();
        for host in next {
            let run = self.folder.record_count(&host) + 1;
            match slurm::submit(self.folder, &self.name, &host, run, &self.jobs, self.until) {
                Ok(id) => {
                    self.folder.write_state(&job_file_name(&host), &id)?;
                    active.push(host.clone());
                }
                Err(JobRefusal::Limit) => {
                    // If jobs of other users fill the limit, one job is still tried.
                    self.max = active.len().max(1);
                    self.outputs().note(&format!(
                        "Slurm accepts only {} now",
                        count_in_words(active.len(), "job")
                    ));
                    break;
                }
                Err(JobRefusal::Rejected(why)) => self.fail(&host, &format!("sbatch: {why}"))?,
                Err(JobRefusal::Failed(failure)) => return Err(failure),
            }
            waiting.retain(|other| *other != host);
        }
        Ok(())
    }

    /// True if the job of a node is waiting in the queue.
    fn is_pending(&self, host: &str, queue: &HashMap<String, QueuedJob>) -> bool {
        let id = self.folder.read_state(&job_file_name(host)).unwrap_or_default();
        queue.get(&id).is_some_and(QueuedJob::is_pending)
    }

    /// Marks waiting nodes as failed if no job can start on them, or if a job would have to switch them on without
    /// permission.
    fn give_up_unavailable(
        &mut self,
        waiting: &mut Vec<String>,
        states: &BTreeMap<String, NodeState>,
    ) -> Result<(), Failure> {
        let mut given_up: BTreeMap<String, Vec<String>> = BTreeMap::new();
        waiting.retain(|host| match why_not(states.get(host), self.power_up) {
            Some(why) => {
                given_up.entry(why).or_default().push(host.clone());
                false
            }
            None => true,
        });
        given_up.iter().try_for_each(|(why, hosts)| self.fail_all(hosts, why))
    }

    /// Requests further runs of nodes that are slow in fewer runs than required, or undecided. Returns true if no node
    /// needs further runs.
    fn confirm(&mut self) -> Result<bool, Failure> {
        let ranking = self.ranking()?;
        let mut is_done = true;
        for host in ranking.hosts(RankVerdict::Suspect) {
            let runs = self.folder.record_count(&host);
            let is_own = self.hosts.contains(&host) && !self.failed.contains_key(&host);
            // If the second run is faster, the node is not slow, because even a third run could not make all runs
            // agree.
            if is_own && runs < self.options.confirm {
                self.outputs().note(&format!(
                    "{host}: slow or undecided in {}; it will be measured again",
                    count_in_words(runs, "run")
                ));
                self.needed.insert(host, runs + 1);
                is_done = false;
            }
        }
        Ok(is_done)
    }

    /// Ranks the records in the folder.
    fn ranking(&self) -> Result<Ranking, Failure> {
        let intake = Intake::read(&[self.folder.path().to_owned()], &self.caller.headlines())?;
        let mut options = self.options.clone();
        self.folder.add_to_ranking_options(&mut options);
        Ok(Ranking::from_intake(&intake, &options))
    }

    /// Returns the outputs for progress lines.
    fn outputs(&self) -> &'static dyn Outputs {
        self.caller.outputs
    }

    /// Prints a progress line if something has changed.
    fn report(&mut self, waiting: usize, active: usize) {
        let done = self.hosts.iter().filter(|host| self.folder.record_count(host) > 0).count();
        let failed = self.failed.len();
        let line = format!(
            "fleet: {done} of {} measured, {active} submitted, {waiting} not submitted yet, {failed} failed",
            count_in_words(self.hosts.len(), "node")
        );
        if line != self.printed {
            self.outputs().note(&line);
            self.printed = line;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powered_down_node_is_skipped_with_a_hint() {
        let off = NodeState::PoweredDown("idle, powered off".to_owned());
        let why = why_not(Some(&off), false).unwrap();
        assert_eq!(why, "not measured: idle, powered off; --power-up switches such nodes on");
        assert_eq!(why_not(Some(&off), true), None);
        assert_eq!(why_not(Some(&NodeState::Busy), false), None);
        let down = NodeState::Unavailable("down".to_owned());
        assert!(why_not(Some(&down), true).unwrap().contains("not available: down"));
    }
}
