//! Child processes with limits. A child ends by itself; it is killed when it reaches a limit of time or output, or when
//! the user interrupts the run. [`run_child`] is the only function that runs a child to its end.
//!
//! A child runs in its own process group. MPI launchers and daemons leave the group. Therefore an environment variable
//! marks all descendants on this machine. After the child has ended for any reason, the group and all marked processes
//! are killed. Before it is killed, a launcher gets SIGTERM and a grace period, because only the launcher can end its
//! ranks on other machines.
//!
//! If this process receives a signal that would end it while a child runs, the child is killed first; see
//! [`SignalDelay`].

use crate::input::MAX_TEXT_BYTES;
use crate::signal_delay::SignalDelay;
use crate::wait::{Wait, is_readable_within, sleep, wait_for_event, wait_until};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Name of the environment variable that marks descendants.
const MARK: &str = "NODEGAUGE_RUN";
/// Interval between two checks of a running child. It is long, because each check takes CPU time away from the
/// child.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of searches for marked processes. Several searches are needed because processes may start or end
/// during a search.
const SWEEPS: u32 = 20;
/// Maximum time in which killed processes are expected to end. On a busy machine, a process may wait for a CPU
/// before it ends.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time in which a process is expected to have executed another program. On a busy machine, a process may wait
/// for a CPU while it executes another program.
const EXECUTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the first read of an environment, in bytes. A single read of the whole environment is consistent; between
/// two reads, the process may execute another program, which replaces the environment.
const ENVIRONMENT_SIZE: usize = 1 << 18;
/// Numbers of fields of `/proc/PID/stat` (proc(5)): state, which is the first field after the name; size of the
/// virtual memory; start address of the code; start address and end address of the environment.
const STATE_FIELD: usize = 3;
const MEMORY_FIELD: usize = 23;
const CODE_START_FIELD: usize = 26;
const ENVIRONMENT_START_FIELD: usize = 50;
const ENVIRONMENT_END_FIELD: usize = 51;
/// Run time in seconds up to which only processes that are younger than the child are searched.
const SHORT_RUN: f64 = 1.0;
/// Maximum number of bytes of standard output that are kept for `listen`.
const WAITING_LIMIT: u64 = MAX_TEXT_BYTES;
/// Timeout for reading the remaining output of an ended child. A process that has left the group may keep the pipe
/// open.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);
/// Reason for killing a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// The time limit was reached.
    TimedOut,
    /// The user interrupted the run.
    Interrupted,
    /// The output limit was exceeded.
    TooMuchOutput,
}

/// Limits of a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// Maximum run time.
    pub time: Duration,
    /// Maximum number of bytes of standard output, which is also the maximum for the error output.
    pub output: u64,
    /// Time between SIGTERM and SIGKILL when the child is killed. If the time is zero, no SIGTERM is sent.
    pub grace: Duration,
}

/// Way in which a child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// The child ended by itself.
    Exited(ExitStatus),
    /// The child was killed.
    Killed(KillReason),
}

/// Result of a child process that has ended.
#[derive(Debug, Clone)]
pub struct ChildOutput {
    /// Way in which the child ended.
    pub end: ChildEnd,
    /// Error output of the child.
    pub stderr: String,
    /// Elapsed time in seconds.
    pub seconds: f64,
}

/// Error of a child process that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The command cannot be started.
    #[error("cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The kernel does not report the status of the child.
    #[error("cannot be watched: {0}")]
    Watch(#[source] io::Error),
}

/// Runs `command` to its end and kills all its descendants. `listen` is called about a hundred times per second with
/// the complete lines of standard output since the last call; the text may be empty. `listen` may return a reason to
/// kill the child.
///
/// # Errors
/// Fails if the command cannot be started or watched. A child that fails is not an error of this function.
pub fn run_child(
    mut command: Command,
    limits: ChildLimits,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<ChildOutput, ChildError> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    command.env(MARK, &mark);
    let signals = SignalDelay::new();
    let mut child = SupervisedChild::start(command, limits.output)?;
    let mut poll = |stdout: &Collector| {
        let lines = stdout.take_lines();
        let stop = listen(&lines);
        if signals.has_caught_signal() { Some(KillReason::Interrupted) } else { stop }
    };
    let end = child.wait(limits, &mut poll);
    let seconds = child.started.elapsed().as_secs_f64();
    // Descendants may keep the pipe open. Therefore they are killed before the wait for the remaining output.
    kill_marked(&mark, first_descendant(child.child.id(), seconds));
    let end = end?;
    let (stdout, output) = child.output(end, seconds);
    listen(&stdout);
    Ok(output)
}

/// Running child, with the readers of its output.
struct SupervisedChild {
    child: Child,
    started: Instant,
    stdout: Collector,
    stderr: Collector,
}

impl SupervisedChild {
    fn start(mut command: Command, output_limit: u64) -> Result<Self, ChildError> {
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().map_err(ChildError::Start)?;
        prefer_for_oom(child.id());
        let stdout = Collector::new(child.stdout.take(), output_limit);
        let stderr = Collector::new(child.stderr.take(), output_limit);
        match (stdout, stderr) {
            (Ok(stdout), Ok(stderr)) => Ok(Self { child, started, stdout, stderr }),
            (Err(cause), _) | (_, Err(cause)) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                Err(ChildError::Watch(cause))
            }
        }
    }

    /// Waits for the child, kills it if it reaches a limit, and reaps it. The process group is killed before its leader
    /// is reaped. Until then, the kernel cannot assign the number of the group to another process.
    fn wait(
        &mut self,
        limits: ChildLimits,
        poll: &mut dyn FnMut(&Collector) -> Option<KillReason>,
    ) -> Result<ChildEnd, ChildError> {
        let leader = Pid::from_child(&self.child);
        // Kernels before 5.3 have no descriptors of processes; the end is then noticed at the next check.
        let ending = pidfd_open(leader, PidfdFlags::empty()).ok();
        let left = limits.time.saturating_sub(self.started.elapsed());
        let stop = wait_for_event(&Wait::within(left).every(POLL_INTERVAL), |pause| {
            pause_until_end(ending.as_ref(), pause);
            match has_ended(leader) {
                Ok(true) => Some(Ok(None)),
                Ok(false) => self.kill_reason(poll).map(|reason| Ok(Some(reason))),
                Err(cause) => Some(Err(cause)),
            }
        });
        let stop = stop.unwrap_or(Ok(Some(KillReason::TimedOut)));
        if matches!(stop, Ok(Some(_))) && !limits.grace.is_zero() {
            let _ = kill_process_group(leader, Signal::TERM);
            // A child that has not ended is killed below.
            let _ = wait_for_event(&Wait::within(limits.grace).every(POLL_INTERVAL), |pause| {
                pause_until_end(ending.as_ref(), pause);
                has_ended(leader).unwrap_or(true).then_some(())
            });
        }
        // A failure means that the group has already ended.
        let _ = kill_process_group(leader, Signal::KILL);
        let status = self.child.wait().map_err(ChildError::Watch)?;
        let stop = stop.map_err(ChildError::Watch)?;
        Ok(stop.map_or(ChildEnd::Exited(status), ChildEnd::Killed))
    }

    /// Returns the reason to kill the running child; the time limit is checked elsewhere.
    fn kill_reason(
        &self,
        poll: &mut dyn FnMut(&Collector) -> Option<KillReason>,
    ) -> Option<KillReason> {
        poll(&self.stdout).or(self.has_overflowed().then_some(KillReason::TooMuchOutput))
    }

    /// True if standard output or error output exceeds its limit.
    fn has_overflowed(&self) -> bool {
        self.stdout.has_overflowed() || self.stderr.has_overflowed()
    }

    /// Returns the remaining standard output, and the result of an ended child.
    fn output(self, end: ChildEnd, seconds: f64) -> (String, ChildOutput) {
        self.stdout.wait();
        self.stderr.wait();
        let end = match end {
            // The child may have ended before its output was checked.
            ChildEnd::Exited(_) if self.has_overflowed() => {
                ChildEnd::Killed(KillReason::TooMuchOutput)
            }
            end => end,
        };
        let stdout = self.stdout.take();
        let stderr = self.stderr.take();
        (stdout, ChildOutput { end, stderr, seconds })
    }
}

/// Makes the kernel end this child and its descendants first if the memory of the machine or of a control group is
/// used up, so that this process can report it (proc_pid_oom_score_adj(5)).
fn prefer_for_oom(child: u32) {
    // Without permission or without /proc, the kernel chooses by itself.
    let _ = std::fs::write(format!("/proc/{child}/oom_score_adj"), "1000");
}

/// Waits until the process of this descriptor ends, at most for `pause`; without a descriptor, always for `pause`.
fn pause_until_end(process: Option<&OwnedFd>, pause: Duration) {
    match process {
        // After an error, the next look at the process reports it.
        Some(process) => drop(is_readable_within(process, pause)),
        None => sleep(pause),
    }
}

/// Returns true if the child has ended, without reaping it.
fn has_ended(leader: Pid) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(leader), options) {
        Ok(status) => Ok(status.is_some()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns the lowest process ID that descendants of a child can have if the child has run for `seconds`.
/// Process IDs ascend up to a maximum of at least 32768 and then start again, which does not happen twice in a
/// short time. A node with many cores has thousands of older processes, and searching them would take longer than a
/// short run.
fn first_descendant(child: u32, seconds: f64) -> i32 {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let newest: Option<u32> = loads.split_whitespace().next_back().and_then(|n| n.parse().ok());
    let is_ascending = newest.is_some_and(|newest| newest >= child);
    if seconds < SHORT_RUN && is_ascending { child as i32 } else { 0 }
}

/// Kills all marked processes whose process ID is at least `first`, until there are none.
fn kill_marked(mark: &str, first: i32) {
    for _ in 0..SWEEPS {
        let marked = marked_processes(mark, first);
        if marked.is_empty() {
            return;
        }
        kill_all(&marked);
    }
}

/// Kills processes and waits until they have ended, at most for [`KILL_TIMEOUT`].
fn kill_all(processes: &[Pid]) {
    let descriptors: Vec<Option<OwnedFd>> =
        processes.iter().map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok()).collect();
    for pid in processes {
        let _ = kill_process(*pid, Signal::KILL);
    }
    let killed = Instant::now();
    for descriptor in &descriptors {
        let left = KILL_TIMEOUT.saturating_sub(killed.elapsed());
        let pause = if descriptor.is_some() { left } else { POLL_INTERVAL };
        pause_until_end(descriptor.as_ref(), pause);
    }
}

/// Kills all processes that the process `process` has started with [`run_child`], and their descendants. `process` was
/// itself killed before it could kill them.
pub fn kill_descendants(process: u32) {
    kill_marked(&format!("{process}-"), 0);
}

/// Finds the running processes with process IDs from `first` on whose environment contains `mark`. A `mark` that
/// ends with `-` matches all marks that begin with it.
fn marked_processes(mark: &str, first: i32) -> Vec<Pid> {
    let Ok(folders) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = folders.flatten().filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    // Processes that may be marked.
    let mut unknown: Vec<i32> = numbers.filter(|number| *number >= first).collect();
    let mut reader = MarkReader::new(mark);
    let mut marked = Vec::new();
    // What executes programs for longer is not found.
    let _ = wait_until(&Wait::within(EXECUTION_TIMEOUT), || {
        unknown.retain(|number| {
            let found = reader.read(*number);
            if found == Mark::Present {
                marked.extend(Pid::from_raw(*number));
            }
            found == Mark::Unknown
        });
        unknown.is_empty().then_some(())
    });
    marked
}

/// Mark in the environment of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Present,
    Absent,
    /// The process is executing another program at this moment, and has no environment yet.
    Unknown,
}

/// Reader of the marks of processes.
struct MarkReader {
    /// Environment entry `NAME=MARK` that is searched for.
    variable: String,
    /// True if the mark in `variable` also matches longer marks that begin with it.
    is_prefix: bool,
    buffer: Vec<u8>,
}

impl MarkReader {
    fn new(mark: &str) -> Self {
        Self {
            variable: format!("{MARK}={mark}"),
            is_prefix: mark.ends_with('-'),
            buffer: vec![0; ENVIRONMENT_SIZE],
        }
    }

    /// Reads the mark of the process with this ID. Processes of other users have none, because their environment
    /// cannot be read.
    fn read(&mut self, number: i32) -> Mark {
        let folder = Path::new("/proc").join(number.to_string());
        let Ok(mut environment) = File::open(folder.join("environ")) else { return Mark::Absent };
        let Ok(length) = environment.read(&mut self.buffer) else { return Mark::Absent };
        if length == 0 {
            return if has_no_environment(&folder) { Mark::Absent } else { Mark::Unknown };
        }
        let mut rest = Vec::new();
        if length == self.buffer.len() && environment.read_to_end(&mut rest).is_err() {
            return Mark::Absent;
        }
        let text = [&self.buffer[..length], &rest].concat();
        let is_present = text.split(|byte| *byte == 0).any(|entry| self.is_mark(entry));
        if is_present { Mark::Present } else { Mark::Absent }
    }

    fn is_mark(&self, entry: &[u8]) -> bool {
        let begins = entry.starts_with(self.variable.as_bytes());
        begins && (self.is_prefix || entry.len() == self.variable.len())
    }
}

/// True if the process with this folder will never have an environment, see [`lacks_environment`].
fn has_no_environment(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("stat")).map_or(true, |stat| lacks_environment(&stat))
}

/// True if the process with this line of /proc/PID/stat will never have an environment: a program that was started
/// without variables, an ended process, or a kernel thread. False for a process that is executing another program. The
/// kernel first sets both addresses of the new environment to its start, as if it were empty, then its end, and then the
/// address of the code (create_elf_tables and load_elf_binary of Linux).
fn lacks_environment(stat: &str) -> bool {
    // The name of the program, in brackets, may contain spaces and brackets.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let start = numbered_field(&fields, ENVIRONMENT_START_FIELD);
    let end = numbered_field(&fields, ENVIRONMENT_END_FIELD);
    let is_executed = numbered_field(&fields, CODE_START_FIELD) != "0";
    numbered_field(&fields, MEMORY_FIELD) == "0" || is_executed && end != "0" && start == end
}

/// Returns the field with this number, given the fields from [`STATE_FIELD`] on; `0` if there is no such field.
fn numbered_field<'a>(fields: &[&'a str], number: usize) -> &'a str {
    fields.get(number - STATE_FIELD).copied().unwrap_or("0")
}

/// Reader of a pipe, which runs in its own thread. It reads until the end of the pipe, so that a child never waits
/// for its reader. Text beyond the limit is discarded.
struct Collector {
    kept: Arc<Mutex<PendingText>>,
    done: Receiver<()>,
}

/// Text of a pipe that the caller has not taken yet.
#[derive(Debug)]
struct PendingText {
    text: Vec<u8>,
    /// Number of bytes that may still be stored.
    left: u64,
    overflowed: bool,
}

impl PendingText {
    fn add(&mut self, bytes: &[u8]) {
        let room = self.left.min(WAITING_LIMIT.saturating_sub(self.text.len() as u64));
        let fitting = bytes.len().min(room as usize);
        self.text.extend_from_slice(&bytes[..fitting]);
        self.left -= fitting as u64;
        self.overflowed |= fitting < bytes.len();
    }
}

impl Collector {
    /// Starts to read a pipe.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread.
    fn new(pipe: Option<impl Read + Send + 'static>, limit: u64) -> io::Result<Self> {
        let kept = PendingText { text: Vec::new(), left: limit, overflowed: false };
        let kept = Arc::new(Mutex::new(kept));
        let (finished, done) = mpsc::channel();
        if let Some(mut pipe) = pipe {
            let kept = Arc::clone(&kept);
            std::thread::Builder::new().spawn(move || {
                let mut buffer = [0; 8192];
                while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).add(&buffer[..n]);
                }
                let _ = finished.send(());
            })?;
        }
        Ok(Self { kept, done })
    }

    fn kept(&self) -> MutexGuard<'_, PendingText> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_overflowed(&self) -> bool {
        self.kept().overflowed
    }

    /// Takes the text since the last call, up to its last line break.
    fn take_lines(&self) -> String {
        let mut kept = self.kept();
        let end = kept.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = kept.text.split_off(end);
        let lines = std::mem::replace(&mut kept.text, rest);
        String::from_utf8_lossy(&lines).into_owned()
    }

    /// Waits at most [`OUTPUT_TIMEOUT`] for the end of the pipe.
    fn wait(&self) {
        let _ = self.done.recv_timeout(OUTPUT_TIMEOUT);
    }

    /// Takes the remaining text.
    fn take(&self) -> String {
        let text = std::mem::take(&mut self.kept().text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Child process that is killed and reaped when this value is dropped.
#[derive(Debug)]
pub struct KillOnDrop(Child);

impl KillOnDrop {
    /// Starts a command as a child process.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Takes the pipe to the standard input of the child; `None` if there is none.
    pub fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.0.stdin.take()
    }

    /// Takes the pipe from the standard output of the child; `None` if there is none.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.0.stdout.take()
    }

    /// Asks the child to end, by SIGTERM.
    pub fn terminate(&mut self) {
        // A child that has been reaped has no number any more.
        if let (Ok(None), child) = (self.0.try_wait(), Pid::from_child(&self.0)) {
            // An error means that the child has ended.
            let _ = kill_process(child, Signal::TERM);
        }
    }

    /// Waits for the end of the child. Returns `None` if the child is still running after `timeout`.
    pub fn wait_within(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let ended = wait_until(&Wait::within(timeout), || self.0.try_wait().transpose());
        ended.ok()?.ok()
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // A failure means that the child has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn child_has_the_maximum_oom_score_adjustment() {
        let script =
            "until grep -qx 1000 /proc/self/oom_score_adj; do sleep 0.01; done; echo first";
        assert_eq!(run(script, LIMITS).0, "first\n");
    }

    const LIMITS: ChildLimits =
        ChildLimits { time: Duration::from_secs(30), output: 1 << 20, grace: Duration::ZERO };

    /// Runs a script. Returns its standard output and the result.
    fn run(script: &str, limits: ChildLimits) -> (String, ChildOutput) {
        let mut stdout = String::new();
        let mut listener = |lines: &str| {
            stdout.push_str(lines);
            None
        };
        let output = run_child(shell(script), limits, &mut listener).unwrap();
        (stdout, output)
    }

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn listener_receives_complete_lines() {
        let mut printed = String::new();
        let mut listener = |lines: &str| {
            printed.push_str(lines);
            printed.contains("two\n").then_some(KillReason::Interrupted)
        };
        let output =
            run_child(shell("echo one; echo two; sleep 60"), LIMITS, &mut listener).unwrap();
        assert_eq!(output.end, ChildEnd::Killed(KillReason::Interrupted));
        assert_eq!(printed, "one\ntwo\n");
        assert!(output.seconds < 20.0);
    }

    #[test]
    fn descendant_in_another_session_is_killed() {
        let script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & wait";
        let grace = Duration::from_millis(300);
        let limits = ChildLimits { time: Duration::from_millis(700), grace, ..LIMITS };
        let (printed, output) = run(script, limits);
        assert_eq!(output.end, ChildEnd::Killed(KillReason::TimedOut));
        let pid = printed.trim().to_owned();
        assert!(!pid.is_empty(), "the descendant printed its number");
        assert!(!is_alive(&pid), "descendant {pid} is alive");
    }

    #[test]
    fn run_time_excludes_time_after_end_of_child() {
        let (_, output) = run("sleep 0.05 & wait; sleep 60 &", LIMITS);
        assert!((0.05..5.0).contains(&output.seconds), "{}", output.seconds);
    }

    /// Runs a script that leaves a daemon behind. The script prints the process ID of the daemon, and the daemon
    /// writes it to the pipe `$1`. Checks that the script succeeds and that the daemon is killed.
    #[track_caller]
    fn kills_daemon_of(script: &str) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = shell(script);
        command.arg("sh").arg(folder.path().join("pipe"));
        let mut printed = String::new();
        let mut listener = |lines: &str| {
            printed.push_str(lines);
            None
        };
        let output = run_child(command, LIMITS, &mut listener).unwrap();
        assert!(matches!(output.end, ChildEnd::Exited(status) if status.success()));
        let pid = printed.trim().to_owned();
        assert!(!pid.is_empty() && !is_alive(&pid), "daemon {pid:?} is alive");
    }

    #[test]
    fn daemon_of_successful_child_is_killed() {
        // The script ends after the daemon has printed its process ID.
        kills_daemon_of(
            "mkfifo \"$1\"; setsid sh -c 'echo $$ >\"$1\"; exec sleep 60' sh \"$1\" \
             >/dev/null 2>&1 & cat \"$1\"",
        );
    }

    #[test]
    fn daemon_that_keeps_executing_programs_is_killed() {
        // While a process executes another program, it has no environment.
        for _ in 0..5 {
            kills_daemon_of(
                "mkfifo \"$1\"; setsid sh -c 'echo $$ >\"$1\"; exec sh -c \"$2\" sh \"$1\" \"$2\"' sh \"$1\" \
                 'n=$((${n:-0}+1)); export n; [ $n -lt 300 ] && exec sh -c \"$2\" sh \"$1\" \"$2\"; exec sleep 60' \
                 >/dev/null 2>&1 & cat \"$1\"",
            );
        }
    }

    /// Returns the line of /proc/PID/stat of a process with these values: memory in bytes, addresses of the code and of
    /// the environment.
    fn stat_line(memory: &str, code: &str, environment: [&str; 2]) -> String {
        let mut fields = vec!["1"; ENVIRONMENT_END_FIELD + 1 - STATE_FIELD];
        fields[MEMORY_FIELD - STATE_FIELD] = memory;
        fields[CODE_START_FIELD - STATE_FIELD] = code;
        fields[ENVIRONMENT_START_FIELD - STATE_FIELD] = environment[0];
        fields[ENVIRONMENT_END_FIELD - STATE_FIELD] = environment[1];
        format!("7 (a) b) {}", fields.join(" "))
    }

    #[test]
    fn process_that_executes_a_program_may_get_an_environment() {
        assert!(lacks_environment(&stat_line("0", "0", ["0", "0"])));
        assert!(lacks_environment(&stat_line("4096", "5", ["9", "9"])));
        // Steps of the kernel while it executes a program.
        assert!(!lacks_environment(&stat_line("4096", "0", ["0", "0"])));
        assert!(!lacks_environment(&stat_line("4096", "0", ["9", "9"])));
        assert!(!lacks_environment(&stat_line("4096", "5", ["9", "12"])));
    }

    #[test]
    fn mark_of_a_process_is_read_from_its_environment() {
        let mark_of = |assignments: &[&str], mark: &str| {
            let mut command = Command::new("env");
            command.arg("-i").args(assignments).args(["sleep", "60"]);
            let mut child = KillOnDrop::spawn(command).unwrap();
            let folder = Path::new("/proc").join(child.id().to_string());
            // The child has the environment of this process until it executes `sleep`.
            let executes = || std::fs::read_to_string(folder.join("comm")).unwrap() == "sleep\n";
            while !executes() {
                assert_eq!(child.wait_within(Duration::from_millis(1)), None);
            }
            let mut reader = MarkReader::new(mark);
            loop {
                let found = reader.read(child.id() as i32);
                if found != Mark::Unknown {
                    break found;
                }
            }
        };
        assert_eq!(mark_of(&[], "1-2"), Mark::Absent);
        assert_eq!(mark_of(&["A=1", "NODEGAUGE_RUN=1-2"], "1-2"), Mark::Present);
        assert_eq!(mark_of(&["NODEGAUGE_RUN=1-23"], "1-2"), Mark::Absent);
        assert_eq!(mark_of(&["NODEGAUGE_RUN=1-23"], "1-"), Mark::Present);
        assert_eq!(mark_of(&["XNODEGAUGE_RUN=1-2"], "1-2"), Mark::Absent);
    }

    #[test]
    fn child_output_and_status_are_returned() {
        let (stdout, output) = run("echo out; echo err >&2; exit 3", LIMITS);
        assert!(matches!(output.end, ChildEnd::Exited(status) if status.code() == Some(3)));
        assert_eq!((stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
        let missing = run_child(Command::new("no-such-program"), LIMITS, &mut |_| None);
        assert!(matches!(missing, Err(ChildError::Start(_))));
    }

    #[test]
    fn endless_output_kills_child() {
        let too_much = ChildEnd::Killed(KillReason::TooMuchOutput);
        let (stdout, output) = run("yes", LIMITS);
        assert_eq!((output.end, stdout.len() as u64), (too_much, LIMITS.output));
        let (_, zeros) = run("tr '\\0' x </dev/zero", LIMITS);
        assert_eq!(zeros.end, too_much);
        let (_, standard_error) = run("yes >&2", LIMITS);
        assert_eq!(
            (standard_error.end, standard_error.stderr.len() as u64),
            (too_much, LIMITS.output)
        );
        // The child may have ended before its output is checked.
        let (_, short_output) = run("echo 123456789", ChildLimits { output: 5, ..LIMITS });
        assert_eq!(short_output.end, too_much);
    }

    #[test]
    fn child_is_killed_on_drop() {
        let mut child = KillOnDrop::spawn(shell("exec sleep 60")).unwrap();
        assert_eq!(child.wait_within(Duration::ZERO), None);
        let pid = child.id().to_string();
        drop(child);
        assert!(!is_alive(&pid));
        let mut exited = KillOnDrop::spawn(shell("exit 4")).unwrap();
        let status = exited.wait_within(Duration::from_secs(30));
        assert_eq!(status.and_then(|status| status.code()), Some(4));
    }
}
