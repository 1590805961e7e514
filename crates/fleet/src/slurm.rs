//! Measurement with Slurm: one exclusive single-node job per node, the queue, and the states of nodes. `sbatch`,
//! `squeue`, `sinfo` and `scancel` are started with separate arguments, never through a shell.
//!
//! A job array cannot select nodes, so each node has a job with `--nodelist`. Idle nodes come first. Jobs that wait for
//! busy nodes take at most half of the places in the queue, so that idle nodes do not wait. If Slurm refuses a job
//! because of a limit such as MaxSubmitJobs, the current number of jobs becomes the maximum.

use crate::folder::FleetFolder;
use crate::script::command_for_record;
use nodegauge_measure::{Failure, legible};
use nodegauge_os::describe_exit_status;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::program::{self, ProgramJob, ProgramOutput};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Time limit for a program of Slurm. A busy controller may answer only after several seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// Job script, which runs its arguments.
const JOB_SCRIPT: &str = "#!/bin/sh\nexec \"$@\"";
/// Name of the job script in the state folder.
const JOB_SCRIPT_NAME: &str = "job.sh";
/// Texts in the message with which Slurm refuses a job because of a limit on the number of jobs.
const LIMITS: [&str; 4] =
    ["MaxSubmit", "job submit limit", "temporarily unable to accept", "MaxJobCount"];
/// Reasons of pending jobs whose node will not become available by itself.
const UNAVAILABLE: [&str; 3] = ["ReqNodeNotAvail", "NodeDown", "PartitionDown"];

/// Options for the jobs.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// Partition; `None` for the default.
    pub partition: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Additional options for sbatch.
    pub sbatch_options: Vec<String>,
    /// Time limit of a job in minutes.
    pub minutes: u32,
    /// Path of nodegauge on the nodes.
    pub program: String,
    /// Command that measures.
    pub command: Vec<String>,
}

/// Time after which Slurm is no longer queried; `None` for no limit.
#[derive(Debug, Clone, Copy)]
pub struct SlurmDeadline(Option<Instant>);

impl SlurmDeadline {
    /// Creates the deadline that ends after `time`; `None` for no limit.
    pub fn from_duration(time: Option<Duration>) -> Self {
        Self(time.and_then(|time| Instant::now().checked_add(time)))
    }

    /// True if the deadline has passed.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    /// Returns the remaining time, at most `longest`.
    pub fn left(self, longest: Duration) -> Duration {
        let left = self.0.map(|end| end.saturating_duration_since(Instant::now()));
        left.map_or(longest, |left| left.min(longest))
    }
}

/// State of a node, as far as it matters for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// A job would start immediately.
    Idle,
    /// A job must wait for other jobs, or until the node returns.
    Busy,
    /// A job would switch the node on, which may cost the site energy and time. Contains the state as text.
    PoweredDown(String),
    /// A job would not start in this state. Contains the state as text.
    Unavailable(String),
}

/// Job in the queue, or a job that ended in the last minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// State as Slurm names it, e.g. `RUNNING`.
    pub state: String,
    /// Reason why the job waits or failed.
    pub reason: String,
    /// Node that the job requests.
    pub node: String,
}

impl QueuedJob {
    /// True if the job may still write a record.
    pub fn is_active(&self) -> bool {
        const ACTIVE: [&str; 9] = [
            "PENDING",
            "RUNNING",
            "CONFIGURING",
            "COMPLETING",
            "SUSPENDED",
            "REQUEUED",
            "RESIZING",
            "STAGE_OUT",
            "SIGNALING",
        ];
        ACTIVE.contains(&self.state.as_str())
    }

    /// True if the job is waiting to start.
    pub fn is_pending(&self) -> bool {
        self.state == "PENDING"
    }

    /// True if the job waits for a node that is not available.
    pub fn waits_for_unavailable_node(&self) -> bool {
        self.is_pending() && UNAVAILABLE.iter().any(|word| self.reason.contains(word))
    }
}

/// Reason why a job was not accepted.
#[derive(Debug)]
pub enum JobRefusal {
    /// The maximum number of jobs is reached.
    Limit,
    /// Slurm refuses the job for this node.
    Rejected(String),
    /// Slurm's programs failed.
    Failed(Failure),
}

/// Runs a program of Slurm.
fn ask(program: &str, words: Vec<String>, until: SlurmDeadline) -> Result<ProgramOutput, Failure> {
    let job = ProgramJob::new(CommandLine::new(program.to_owned(), words), until.left(LIMIT));
    let hint = "check that Slurm's commands work here, e.g. sinfo";
    let output = program::run(&job, &|| false).map_err(|error| Failure::from(error).hint(hint))?;
    output.status().map_err(|error| Failure::from(error).hint(hint))?;
    Ok(output)
}

/// Runs a program of Slurm that must succeed, and returns its output.
fn answer(program: &str, words: Vec<String>, until: SlurmDeadline) -> Result<String, Failure> {
    let output = ask(program, words, until)?;
    let status = output.status()?;
    if status.success() {
        return Ok(output.stdout);
    }
    let why = legible::escape_controls(output.error_tail().trim()).into_owned();
    Err(Failure::missing(format!("{program} ended with {}: {why}", describe_exit_status(status)))
        .hint("check that Slurm's controller answers, e.g. scontrol ping"))
}

/// Asks Slurm for the states of all nodes of a partition; `None` means the default partition.
///
/// # Errors
/// Fails if the program of Slurm fails.
pub fn query_nodes(
    partition: Option<&str>,
    until: SlurmDeadline,
) -> Result<BTreeMap<String, NodeState>, Failure> {
    let mut words =
        vec!["--noheader".to_owned(), "--Node".to_owned(), "--format=%N|%T|%P".to_owned()];
    words.extend(partition.map(|name| format!("--partition={name}")));
    let text = answer("sinfo", words, until)?;
    Ok(node_states(&text, partition.is_some()))
}

/// Parses the output of sinfo. Without a partition, only nodes of the default partition are returned, which sinfo marks
/// with `*`; if sinfo marks no partition, all nodes are returned.
fn node_states(text: &str, is_partition: bool) -> BTreeMap<String, NodeState> {
    let mut rows = Vec::new();
    for line in text.lines() {
        if let [node, state, partition, ..] = line.trim().split('|').collect::<Vec<_>>()[..] {
            rows.push((node, state, partition));
        }
    }
    let has_default = rows.iter().any(|(.., partition)| partition.ends_with('*'));
    rows.retain(|(.., partition)| is_partition || !has_default || partition.ends_with('*'));
    rows.into_iter().map(|(node, state, _)| (node.to_owned(), node_state(state))).collect()
}

/// Parses a node state of Slurm, which may end with a flag (manual of sinfo, NODE STATE CODES).
fn node_state(word: &str) -> NodeState {
    let name = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let by_word = match name {
        "idle" => NodeState::Idle,
        // In a maintenance reservation, a job starts if its options permit it, or when the reservation ends.
        "allocated" | "mixed" | "completing" | "reserved" | "planned" | "maint" | "blocked"
        | "reboot" => NodeState::Busy,
        "powered_down" | "power_down" | "powering_down" | "powering_up" | "power_up" => {
            NodeState::PoweredDown(name.replace('_', " "))
        }
        _ => NodeState::Unavailable(name.to_owned()),
    };
    let starts_jobs = !matches!(by_word, NodeState::Unavailable(_));
    match word[name.len()..].chars().next() {
        Some('*') => NodeState::Unavailable(format!("{name}, does not respond")),
        // A node that is drained for a reboot becomes available by itself.
        Some('@' | '^') => NodeState::Busy,
        // The backfill scheduler has planned the node for another job.
        Some('-') => NodeState::Busy,
        // In a maintenance reservation, a node that is also down or drained starts no job when the reservation ends.
        Some('$') if starts_jobs => NodeState::Busy,
        Some('~') if starts_jobs => NodeState::PoweredDown(format!("{name}, powered off")),
        Some('%') if starts_jobs => NodeState::PoweredDown(format!("{name}, being powered off")),
        Some('!') if starts_jobs => {
            NodeState::PoweredDown(format!("{name}, about to be powered off"))
        }
        Some('#') if starts_jobs => NodeState::PoweredDown(format!("{name}, being powered on")),
        _ => by_word,
    }
}

/// Asks Slurm for the jobs with the name `name`. Returns them by identifier.
///
/// # Errors
/// Fails if the program of Slurm fails.
pub fn query_jobs(name: &str, until: SlurmDeadline) -> Result<HashMap<String, QueuedJob>, Failure> {
    let words = ["--noheader", "--states=all", "--format=%i|%T|%n|%r"].map(str::to_owned);
    let words = words.into_iter().chain([format!("--name={name}")]).collect();
    let text = answer("squeue", words, until)?;
    Ok(queued(&text))
}

fn queued(text: &str) -> HashMap<String, QueuedJob> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.trim().splitn(4, '|');
            let id = cells.next()?.to_owned();
            let state = cells.next()?.to_owned();
            let node = cells.next()?.to_owned();
            let reason = cells.next().unwrap_or_default().to_owned();
            Some((id, QueuedJob { state, reason, node }))
        })
        .collect()
}

/// Writes the job script.
///
/// # Errors
/// Fails if it cannot be written.
pub fn write_job_script(folder: &FleetFolder) -> Result<(), Failure> {
    folder.write_state(JOB_SCRIPT_NAME, JOB_SCRIPT)
}

/// Submits the job of a node; returns its identifier.
///
/// # Errors
/// Fails with a [`JobRefusal`].
pub fn submit(
    folder: &FleetFolder,
    name: &str,
    host: &str,
    run: usize,
    options: &JobOptions,
    until: SlurmDeadline,
) -> Result<String, JobRefusal> {
    let words = words(folder, name, host, run, options);
    let output = ask("sbatch", words, until).map_err(JobRefusal::Failed)?;
    let status = output.status().map_err(|error| JobRefusal::Failed(error.into()))?;
    if status.success() {
        // A semicolon and the name of the cluster may follow the identifier.
        let id = output.stdout.trim().split(';').next().unwrap_or_default().to_owned();
        return Ok(id);
    }
    let stderr = output.stderr.trim().to_owned();
    if LIMITS.iter().any(|word| stderr.contains(word)) {
        return Err(JobRefusal::Limit);
    }
    let last = stderr.lines().last().unwrap_or_default();
    let why = last.rsplit("error: ").next().unwrap_or(last);
    Err(JobRefusal::Rejected(legible::escape_controls(why).into_owned()))
}

/// Returns the options for sbatch, the job script and its arguments.
fn words(
    folder: &FleetFolder,
    name: &str,
    host: &str,
    run: usize,
    options: &JobOptions,
) -> Vec<String> {
    let log = folder.state_path(&format!("{host}.log")).display().to_string();
    let record = folder.record_path(host, run).display().to_string();
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--job-name={name}"),
        "--nodes=1".to_owned(),
        "--ntasks=1".to_owned(),
        "--exclusive".to_owned(),
        "--no-requeue".to_owned(),
        format!("--nodelist={host}"),
        format!("--time={}", options.minutes),
        // sbatch interprets percent signs.
        format!("--output={}", log.replace('%', "%%")),
        format!("--chdir={}", folder.path().display()),
    ];
    words.extend(options.partition.iter().map(|one| format!("--partition={one}")));
    words.extend(options.qos.iter().map(|one| format!("--qos={one}")));
    words.extend(options.sbatch_options.iter().cloned());
    words.push(folder.state_path(JOB_SCRIPT_NAME).display().to_string());
    let measure = command_for_record(&options.program, &options.command, &record);
    words.extend(measure.words().iter().cloned());
    words
}

/// Cancels a job. A failure is ignored, because the job may already have ended.
pub fn cancel(id: &str, until: SlurmDeadline) {
    let _ = ask("scancel", vec![id.to_owned()], until);
}

/// Returns the nodes for which jobs are submitted next: first idle nodes, then nodes that a job switches on, then busy
/// nodes, which fill at most half of the places.
pub fn next_nodes<'a>(
    waiting: &[&'a str],
    states: &BTreeMap<String, NodeState>,
    active: usize,
    waiting_for_busy: usize,
    max: usize,
) -> Vec<&'a str> {
    let free = max.saturating_sub(active);
    let mut chosen: Vec<&str> = Vec::new();
    let mut off: Vec<&str> = Vec::new();
    let mut busy: Vec<&str> = Vec::new();
    for host in waiting {
        match states.get(*host) {
            Some(NodeState::Idle) => chosen.push(host),
            Some(NodeState::PoweredDown(_)) => off.push(host),
            Some(NodeState::Busy) => busy.push(host),
            Some(NodeState::Unavailable(_)) | None => {}
        }
    }
    chosen.extend(off);
    chosen.truncate(free);
    let places = (max / 2).max(1).saturating_sub(waiting_for_busy);
    let left = (free - chosen.len()).min(places);
    chosen.extend(busy.into_iter().take(left));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn node_states_are_read_from_the_default_partition() {
        let text = "n1|idle|all*\nn2|mixed|all*\nn3|down*|all*\nn4|drained|all*\nn6|idle|gpu\n\
                    n7|idle*|all*\nn8|maint|all*\n";
        let states = node_states(text, false);
        let of = |node: &str| states.get(node).cloned();
        let unavailable = |state: &str| Some(NodeState::Unavailable(state.to_owned()));
        assert_eq!(of("n1"), Some(NodeState::Idle));
        assert_eq!(of("n2"), Some(NodeState::Busy));
        assert_eq!(of("n3"), unavailable("down, does not respond"));
        assert_eq!(of("n4"), unavailable("drained"));
        assert_eq!(of("n6"), None);
        assert_eq!(of("n7"), unavailable("idle, does not respond"));
        assert_eq!(of("n8"), Some(NodeState::Busy));
        assert_eq!(node_states("n6|idle|gpu\n", true).len(), 1);
    }

    #[test]
    fn powered_down_busy_and_unavailable_nodes_are_distinguished() {
        let off = |words: &str| NodeState::PoweredDown(words.to_owned());
        let unavailable = |word: &str| NodeState::Unavailable(word.to_owned());
        for (word, state) in [
            ("idle~", off("idle, powered off")),
            ("idle%", off("idle, being powered off")),
            ("idle!", off("idle, about to be powered off")),
            ("idle#", off("idle, being powered on")),
            ("mixed#", off("mixed, being powered on")),
            ("allocated~", off("allocated, powered off")),
            ("powered_down", off("powered down")),
            ("down~", unavailable("down")),
            ("drained%", unavailable("drained")),
            ("idle@", NodeState::Busy),
            ("idle^", NodeState::Busy),
            ("idle$", NodeState::Busy),
            ("idle-", NodeState::Busy),
            ("mixed-", NodeState::Busy),
            ("mixed@", NodeState::Busy),
            ("allocated$", NodeState::Busy),
            ("reboot^", NodeState::Busy),
            ("drained@", NodeState::Busy),
            ("drained$", unavailable("drained")),
            ("down$", unavailable("down")),
            ("allocated*", unavailable("allocated, does not respond")),
        ] {
            assert_eq!(node_state(word), state, "{word}");
        }
    }

    #[test]
    fn idle_nodes_come_first_and_busy_nodes_get_half_of_the_jobs() {
        let states = BTreeMap::from(
            [
                ("a", NodeState::Busy),
                ("b", NodeState::Busy),
                ("c", NodeState::Idle),
                ("d", NodeState::Busy),
                ("e", NodeState::PoweredDown("idle, powered off".to_owned())),
            ]
            .map(|(name, state)| (name.to_owned(), state)),
        );
        let waiting = ["a", "b", "c", "d"];
        assert_eq!(next_nodes(&waiting, &states, 0, 0, 4), ["c", "a", "b"]);
        assert_eq!(next_nodes(&waiting, &states, 2, 2, 4), ["c"]);
        assert_eq!(next_nodes(&waiting, &states, 4, 2, 4), Vec::<&str>::new());
        assert_eq!(next_nodes(&["a"], &states, 0, 0, 1), ["a"]);
        assert_eq!(next_nodes(&["a", "e", "c"], &states, 0, 0, 2), ["c", "e"]);
    }

    #[test]
    fn slurm_job_arguments_contain_no_shell_text() {
        let folder = FleetFolder::from_path(Path::new("/shared/50%"));
        let options = JobOptions {
            partition: None,
            qos: Some("low".to_owned()),
            sbatch_options: vec!["--account=ops".to_owned()],
            minutes: 10,
            program: "/opt/nodegauge".to_owned(),
            command: Vec::new(),
        };
        let words = words(&folder, "name", "n1", 2, &options);
        let script = words.iter().position(|word| word.ends_with("/.fleet/job.sh")).unwrap();
        assert!(words.contains(&"--output=/shared/50%%/.fleet/n1.log".to_owned()));
        assert!(words[..script].contains(&"--account=ops".to_owned()));
        assert_eq!(
            words[script + 1..],
            [
                "/opt/nodegauge",
                "run",
                "--quick",
                "--quiet",
                "--no-save",
                "--json",
                "/shared/50%/n1.2.json"
            ]
        );
    }

    #[test]
    fn jobs_that_wait_for_unavailable_nodes_are_detected() {
        let all = queued(
            "7|PENDING|n3|ReqNodeNotAvail, UnavailableNodes:n3\n8|RUNNING|n1|None\n9|TIMEOUT|n2|TimeLimit\n",
        );
        assert!(all["7"].is_active() && all["7"].waits_for_unavailable_node());
        assert_eq!(all["7"].node, "n3");
        assert!(all["8"].is_active() && !all["8"].waits_for_unavailable_node());
        assert!(!all["9"].is_active());
    }
}
