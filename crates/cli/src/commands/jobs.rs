//! Implementation of the command `nodegauge where`.

use crate::args::jobs::WhereArgs;
use crate::failure::{Exit, Failure};
use crate::launched;
use crate::output;
use crate::session::{self, HostsRun};
use nodegauge_gauge::view::Page;
use nodegauge_jobs::{
    JobHost, JobReader, PagesTimeLimit, expect, findings, merge_hosts, selection, view,
};
use nodegauge_machine::devices::local_rank_variables;
use nodegauge_machine::{SysRoot, Topology, TopologySource, host_name};
use nodegauge_measure::Seconds;
use nodegauge_node::signals::Signals;
use nodegauge_os::{Wait, describe_exit_status, wait_whole_time};
use nodegauge_placement::LauncherJob;
use nodegauge_team::host_ranks;
use nodegauge_team::hosts::Hosts;
use nodegauge_toolchain::program::{ProgramJob, run_with_listener};
use nodegauge_toolchain::{ChildEnd, CommandLine, KillReason, required_program};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Default time between the first and the last reading of running processes.
const WINDOW: Duration = Duration::from_millis(100);
/// Minimum time between two readings.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// Pause between two readings, as a multiple of the CPU time of a reading. Readings use less than 1 % of a CPU.
const PAUSE_PER_READING: f64 = 200.0;
/// Minimum age of a program before its pages are read; its memory must also have stopped growing.
const MIN_PROGRAM_AGE: Duration = Duration::from_millis(500);
/// Maximum ratio of the memory in two consecutive readings at which the memory counts as not growing.
const MAX_GROWTH: f64 = 1.1;
/// Time limit for a program, so long that no job reaches it.
const NO_LIMIT: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Minimum time for which the first rank of a host waits for the other ranks.
const RANKS_TIMEOUT: Duration = Duration::from_secs(60);
/// Topic of the messages between the ranks of a host.
const TOPIC: &str = "where";

pub(crate) fn execute(args: &WhereArgs) -> Result<Exit, Failure> {
    if args.schema {
        output::print(&output::json(&nodegauge_jobs::schema())?);
        return Ok(Exit::Success);
    }
    expect::check_supported(&args.expect)?;
    let run = WhereRun::new(args)?;
    match LauncherJob::current() {
        Some(started) => run.as_rank(&started),
        None => {
            let host = run.read()?;
            run.report(vec![host], Vec::new())
        }
    }
}

/// One execution of `nodegauge where`.
struct WhereRun<'a> {
    args: &'a WhereArgs,
    root: SysRoot,
    topology: Topology,
    signals: Signals,
    started: Instant,
    /// Failure of the program, if it failed.
    program_failure: std::cell::RefCell<Option<String>>,
}

impl<'a> WhereRun<'a> {
    fn new(args: &'a WhereArgs) -> Result<Self, Failure> {
        Ok(Self {
            args,
            root: SysRoot::live(),
            topology: session::load_topology(&TopologySource::Live)?,
            signals: Signals::listen()?,
            started: Instant::now(),
            program_failure: std::cell::RefCell::new(None),
        })
    }

    /// Reads the processes that the user selected.
    fn read(&self) -> Result<JobHost, Failure> {
        if let Some((name, arguments)) = self.args.program.split_first() {
            return self.read_program(name, arguments);
        }
        if let Some(id) = &self.args.job {
            let own = std::process::id();
            let pids = selection::job_processes(&self.root, id, own)?;
            return self.read_running(&pids, &BTreeSet::new(), false);
        }
        if self.args.processes.is_empty() {
            let own = BTreeSet::from([std::process::id()]);
            return self.read_running(&own, &own, true);
        }
        let found =
            selection::named_processes(&self.root, &self.args.processes, std::process::id())?;
        for missing in &found.missing {
            output::print_note(&format!("note: {missing}"));
        }
        self.read_running(&found.all, &found.named, false)
    }

    /// Reads running processes at least twice.
    fn read_running(
        &self,
        pids: &BTreeSet<u32>,
        named: &BTreeSet<u32>,
        in_place: bool,
    ) -> Result<JobHost, Failure> {
        let window = self.args.window.unwrap_or(WINDOW);
        let pids: Vec<u32> = pids.iter().copied().collect();
        let mut reader = JobReader::new(&self.root, named.iter().copied());
        let started = Instant::now();
        let interrupted = || self.signals.is_received();
        loop {
            let elapsed = started.elapsed();
            reader.read(&pids, Seconds(elapsed.as_secs_f64()));
            if elapsed >= window || interrupted() {
                break;
            }
            let pause = interval(&reader).min(window.saturating_sub(elapsed));
            wait_whole_time(&Wait::within(pause).unless(&interrupted));
        }
        if !reader.has_processes() {
            return Err(Failure::missing("the processes ended before they were read"));
        }
        reader.read_pages(PagesTimeLimit(self.args.pages));
        Ok(reader.describe_host(&self.topology, in_place))
    }

    /// Runs a program and reads its processes while it runs.
    fn read_program(&self, name: &str, arguments: &[String]) -> Result<JobHost, Failure> {
        let hint = "give the program and its arguments after --, e.g. nodegauge where -- ./solver";
        required_program(Path::new(name), hint)?;
        let command = CommandLine::new(name.to_owned(), arguments.to_vec());
        let mut job = ProgramJob::new(command, NO_LIMIT);
        job.output_limit = u64::MAX;
        let mut readings = ProgramReadings::new(&self.root, self.args.pages);
        let to_stderr = self.args.json.as_deref() == Some("-");
        let ended = run_with_listener(&job, &mut |lines| {
            if to_stderr {
                lines.lines().for_each(output::print_note);
            } else if !lines.is_empty() {
                output::print(lines);
            }
            readings.poll();
            self.signals.is_received().then_some(KillReason::Interrupted)
        })?;
        ended.stderr.lines().for_each(output::print_note);
        let failure = match ended.end {
            ChildEnd::Exited(status) if status.success() => None,
            ChildEnd::Exited(status) => Some(describe_exit_status(status)),
            ChildEnd::Killed(KillReason::Interrupted) => None,
            ChildEnd::Killed(reason) => Some(format!("{reason:?}")),
        };
        *self.program_failure.borrow_mut() = failure.map(|how| format!("{name}: {how}"));
        if !readings.reader.has_processes() {
            return Err(Failure::missing(format!(
                "{name} ended before it was read, after {}",
                ended.seconds
            )));
        }
        Ok(readings.reader.describe_host(&self.topology, false))
    }

    /// Reads the processes of this rank, which is one of several. If MPI connects the hosts, rank 0 prints the table of
    /// all hosts; otherwise the first rank of each host prints the table of its host.
    fn as_rank(&self, started: &LauncherJob) -> Result<Exit, Failure> {
        let host = self.read();
        if Hosts::is_started_by_rank_0() {
            return Ok(Exit::Success);
        }
        // The program may itself be a rank of this MPI job, and MPI can be initialised only once per rank.
        let may_connect =
            self.args.program.is_empty() && started.spans_hosts() && started.has_mpi();
        if may_connect {
            let is_rank_0 = started.rank == 0;
            let joined = Hosts::join(started, &session::version(), None, move |refusal| {
                if is_rank_0 {
                    output::print_failure(&refusal);
                }
                nodegauge_os::end_process(Exit::Missing.code())
            });
            if let Ok(Some(hosts)) = joined {
                return launched::lead_or_serve(
                    &hosts,
                    None,
                    |run| self.lead(run, host.clone()),
                    |of_job| self.send(of_job.host_job(), &host).map(|()| 0),
                );
            }
        }
        let name = host_name(&self.root).unwrap_or_default();
        let Some(here) = ranks_here(started, &name) else {
            return self.report(vec![host?], Vec::new());
        };
        if here.rank > 0 {
            self.send(&here, &host)?;
            return Ok(Exit::Success);
        }
        let gathered = self.gather(&here, host)?;
        let mut missing = gathered.missing;
        if started.spans_hosts() {
            missing.push(format!(
                "hosts are not compared, because {} does not connect them; each prints its own table",
                started.launcher
            ));
        }
        self.report(vec![gathered.host], missing)
    }

    /// Returns how long the ranks of a host wait for each other. Their programs may end at different times.
    fn timeout(&self) -> Duration {
        self.started.elapsed().max(RANKS_TIMEOUT)
    }

    fn send(&self, here: &LauncherJob, host: &Result<JobHost, Failure>) -> Result<(), Failure> {
        let message = host.as_ref().map_err(|failure| failure.message.clone());
        host_ranks::send(here, TOPIC, &message, self.timeout())
    }

    /// Collects the readings of the other ranks on this host.
    fn gather(
        &self,
        here: &LauncherJob,
        own: Result<JobHost, Failure>,
    ) -> Result<GatheredHost, Failure> {
        let collection =
            host_ranks::collect::<Result<JobHost, String>>(here, TOPIC, self.timeout())?;
        let mut missing: Vec<String> = collection.missing_ranks_in_words().into_iter().collect();
        let mut hosts = Vec::new();
        let mut first_failure = None;
        match own {
            Ok(host) => hosts.push(host),
            Err(failure) => first_failure = Some(failure),
        }
        for (rank, message) in collection.into_messages() {
            match message {
                Ok(host) => hosts.push(host),
                Err(failure) => missing.push(format!("rank {rank} of this host: {failure}")),
            }
        }
        if let Some(failure) = first_failure {
            if hosts.is_empty() {
                return Err(failure);
            }
            missing.insert(0, format!("rank 0 of this host: {}", failure.message));
        }
        Ok(GatheredHost { host: merge_hosts(hosts, &self.topology), missing })
    }

    /// As the leader of a host, gathers the readings on this host and sends them to the first host. The leader of the
    /// first host reports the readings of all hosts.
    fn lead(&self, run: &HostsRun<'_>, own: Result<JobHost, Failure>) -> Result<Exit, Failure> {
        let hosts = run.hosts;
        let gathered = self.gather(hosts.host_job(), own)?;
        if !hosts.is_first() {
            if let Some(code) = hosts.await_start()? {
                return Ok(Exit::FromRank0(code));
            }
            let message = (gathered.host, gathered.missing);
            return hosts.report(Ok(message)).map(Exit::FromRank0);
        }
        let interrupted = || self.signals.is_received();
        hosts.start(&interrupted)?;
        let mut all = vec![gathered.host];
        let mut missing = gathered.missing;
        let others =
            hosts.collect::<(JobHost, Vec<String>)>(self.started.elapsed(), &interrupted)?;
        for (name, result) in others {
            match result {
                Ok((host, of_host)) => {
                    missing.extend(of_host.iter().map(|text| format!("{name}: {text}")));
                    all.push(host);
                }
                Err(failure) => missing.push(format!("{name}: {}", failure.message)),
            }
        }
        self.report(all, missing)
    }

    /// Writes the document, prints the page and checks the conditions.
    fn report(&self, hosts: Vec<JobHost>, missing: Vec<String>) -> Result<Exit, Failure> {
        let where_document = findings::where_document(session::version(), hosts, missing);
        let json = self.args.json.as_deref();
        if !output::write_documents(&[(json, &|| output::json(&where_document))])? {
            let sections = view::sections(&where_document, self.args.verbose);
            output::show(&Page { sections, ..Page::default() });
        }
        if let Some(signal) = self.signals.received_signal() {
            return Ok(Exit::Signal(signal));
        }
        let mut exit = Exit::Success;
        for condition in &self.args.expect {
            let checked = expect::check_condition(condition, &where_document.hosts);
            if !checked.is_met {
                output::print_error_line(&format!("expectation {}", checked.text));
                exit = Exit::Unmet;
            } else if self.args.verbose {
                output::print_note(&format!("expectation {}", checked.text));
            }
        }
        if let Some(failure) = self.program_failure.borrow().as_ref() {
            output::print_error_line(failure);
            exit = Exit::Unmet;
        }
        Ok(exit)
    }
}

/// Readings of all ranks on a host.
struct GatheredHost {
    host: JobHost,
    /// Reasons why ranks are missing.
    missing: Vec<String>,
}

/// Returns the ranks on this host as a separate job; `None` if the launcher does not number them.
fn ranks_here(started: &LauncherJob, host: &str) -> Option<LauncherJob> {
    if !started.spans_hosts() {
        return Some(started.clone());
    }
    if started.implementation.is_none() {
        let name = std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| host.to_owned());
        return LauncherJob::from_slurm_node(&name);
    }
    let local = local_rank_variables().find_map(|name| std::env::var(name).ok()?.parse().ok())?;
    Some(started.on_host(host, local, started.local_ranks?))
}

/// Returns the time until the next reading.
fn interval(reader: &JobReader<'_>) -> Duration {
    let seconds = PAUSE_PER_READING * reader.reading_cost().0;
    Duration::try_from_secs_f64(seconds).unwrap_or(MIN_INTERVAL).max(MIN_INTERVAL)
}

/// Readings of a program that this process started.
struct ProgramReadings<'r> {
    reader: JobReader<'r>,
    pages: Option<PagesTimeLimit>,
    started: Instant,
    next: Instant,
    /// Resident memory at the previous reading, in bytes.
    resident_bytes: u64,
}

impl<'r> ProgramReadings<'r> {
    fn new(root: &'r SysRoot, pages: Duration) -> Self {
        let now = Instant::now();
        Self {
            reader: JobReader::new(root, []),
            pages: Some(PagesTimeLimit(pages)),
            started: now,
            next: now,
            resident_bytes: 0,
        }
    }

    /// Reads the processes if a reading is due. Reads their pages once, when their memory has stopped growing.
    fn poll(&mut self) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let elapsed = now - self.started;
        self.reader.read_descendants(std::process::id(), Seconds(elapsed.as_secs_f64()));
        self.next = Instant::now() + interval(&self.reader);
        let resident_bytes = self.reader.resident_bytes();
        let has_settled = resident_bytes as f64 <= MAX_GROWTH * self.resident_bytes as f64;
        self.resident_bytes = resident_bytes;
        if elapsed >= MIN_PROGRAM_AGE
            && has_settled
            && let Some(limit) = self.pages.take()
        {
            self.reader.read_pages(limit);
        }
    }
}
