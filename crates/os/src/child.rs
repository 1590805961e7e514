//! Child processes that end: by themselves, at a time limit, or when the user wants to. A child runs in
//! a process group of its own, and nothing of what it started stays behind.
//!
//! Launchers of MPI start ranks outside their group. [`run_with_descendants`] marks every descendant on
//! this machine with a variable in its environment. At a forced end the launcher gets SIGTERM first,
//! because it knows its ranks on other machines, then its group is killed; however it ended, every
//! process that carries the mark is killed.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The variable that descendants carry.
const MARK: &str = "NODEGAUGE_RUN";
/// How often a running child is looked at: seldom, because looking takes a CPU from it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a launcher may take to end its ranks after SIGTERM.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);
/// Searches for marked processes that are just being born or dying.
const SWEEPS: u32 = 20;
/// Output beyond this is read and thrown away.
const OUTPUT_LIMIT: usize = 1 << 20;
/// How long the output of a dead child is waited for: something that left its group may hold it.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);
/// Lines of error output that a message shows.
const LINES: usize = 6;

/// Why a child is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its time limit.
    TimedOut,
    /// The user ends the run.
    Interrupted,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// By itself.
    Exited(ExitStatus),
    /// It was killed.
    Killed(KillReason),
}

/// A child that is over.
#[derive(Debug, Clone)]
pub struct ChildOutput {
    /// How it ended.
    pub end: ChildEnd,
    /// Its standard output, up to a bound.
    pub stdout: String,
    /// Its error output, up to the same bound.
    pub stderr: String,
    /// How long it ran.
    pub seconds: f64,
}

/// Why a child gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It cannot be started.
    #[error("cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The kernel did not answer about it.
    #[error("cannot be watched: {0}")]
    Watch(#[source] io::Error),
}

/// Runs `command` to its end in a process group of its own, which is killed at `limit`, when
/// `interrupted` says so, and when its leader has ended.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run_group(
    command: Command,
    limit: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Result<ChildOutput, ChildError> {
    let mut poll = |_: &Collector| interrupted().then_some(KillReason::Interrupted);
    let mut child = Supervised::start(command)?;
    let end = child.wait(limit, Duration::ZERO, &mut poll)?;
    Ok(child.output(end))
}

/// Runs `command` to its end and ends all its descendants. `listen` is called some hundred times a
/// second with what standard output has got since the last call, in whole lines, possibly none, and may
/// stop the child; `stdout` of the result is empty.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run_with_descendants(
    mut command: Command,
    limit: Duration,
    listen: &mut dyn FnMut(&str) -> Option<KillReason>,
) -> Result<ChildOutput, ChildError> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    command.env(MARK, &mark);
    let mut child = Supervised::start(command)?;
    let mut poll = |stdout: &Collector| listen(&stdout.take_lines());
    let end = child.wait(limit, GRACE_PERIOD, &mut poll);
    // Before the last output is waited for: descendants may hold the pipe.
    kill_marked(&mark);
    let mut output = child.output(end?);
    listen(&std::mem::take(&mut output.stdout));
    Ok(output)
}

/// A running child with the readers of its output.
struct Supervised {
    child: Child,
    started: Instant,
    stdout: Collector,
    stderr: Collector,
}

impl Supervised {
    fn start(mut command: Command) -> Result<Self, ChildError> {
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().map_err(ChildError::Start)?;
        let stdout = Collector::of(child.stdout.take());
        let stderr = Collector::of(child.stderr.take());
        Ok(Self { child, started, stdout, stderr })
    }

    /// Waits, kills if need be, and reaps. The group is killed before its leader is reaped: until then
    /// its number cannot belong to anybody else.
    fn wait(
        &mut self,
        limit: Duration,
        grace: Duration,
        poll: &mut dyn FnMut(&Collector) -> Option<KillReason>,
    ) -> Result<ChildEnd, ChildError> {
        let leader = Pid::from_child(&self.child);
        let stop = loop {
            let ended = has_ended(leader);
            if !matches!(ended, Ok(false)) {
                break ended.map(|_| None);
            }
            let late = || (self.started.elapsed() >= limit).then_some(KillReason::TimedOut);
            if let Some(stop) = poll(&self.stdout).or_else(late) {
                break Ok(Some(stop));
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        if matches!(stop, Ok(Some(_))) && !grace.is_zero() {
            let _ = kill_process_group(leader, Signal::TERM);
            let asked = Instant::now();
            while asked.elapsed() < grace && !has_ended(leader).unwrap_or(true) {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        // A group that is gone already is what is wanted.
        let _ = kill_process_group(leader, Signal::KILL);
        let status = self.child.wait().map_err(ChildError::Watch)?;
        let stop = stop.map_err(ChildError::Watch)?;
        Ok(stop.map_or(ChildEnd::Exited(status), ChildEnd::Killed))
    }

    /// What came of a child that has ended.
    fn output(self, end: ChildEnd) -> ChildOutput {
        let seconds = self.started.elapsed().as_secs_f64();
        ChildOutput { end, stdout: self.stdout.text(), stderr: self.stderr.text(), seconds }
    }
}

/// Whether a child is over; it is not reaped.
fn has_ended(leader: Pid) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(leader), look) {
        Ok(status) => Ok(status.is_some()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Kills every process that carries `mark`, until there is none.
fn kill_marked(mark: &str) {
    for _ in 0..SWEEPS {
        let left = marked_processes(mark);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Living processes with `mark` in their environment.
fn marked_processes(mark: &str) -> Vec<Pid> {
    let variable = format!("{MARK}={mark}");
    let Ok(folders) = std::fs::read_dir("/proc") else { return Vec::new() };
    folders
        .flatten()
        .filter_map(|folder| {
            let number: i32 = folder.file_name().to_str()?.parse().ok()?;
            // Of the dead and of other users it is empty or cannot be read.
            let environment = std::fs::read(folder.path().join("environ")).ok()?;
            let mut entries = environment.split(|byte| *byte == 0);
            entries.find(|entry| *entry == variable.as_bytes())?;
            Pid::from_raw(number)
        })
        .collect()
}

/// Reads a pipe to its end on a thread of its own, so that a child never waits for its reader.
struct Collector {
    kept: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Collector {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (tell, done) = mpsc::channel();
        if let Some(mut pipe) = pipe {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                let mut buffer = [0; 8192];
                while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = OUTPUT_LIMIT.saturating_sub(kept.len()).min(n);
                    kept.extend_from_slice(&buffer[..room]);
                }
                let _ = tell.send(());
            });
        }
        Self { kept, done }
    }

    /// Takes what has come since the last time, up to the last line break.
    fn take_lines(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let end = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = kept.split_off(end);
        String::from_utf8_lossy(&std::mem::replace(&mut *kept, rest)).into_owned()
    }

    /// All that is left, once the pipe has ended.
    fn text(self) -> String {
        let _ = self.done.recv_timeout(OUTPUT_TIMEOUT);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// The last lines that say something.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The first lines that name an error, else the first lines.
pub fn first_errors(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> =
        lines.iter().copied().filter(|line| line.contains("error")).take(LINES).collect();
    if errors.is_empty() { lines[..lines.len().min(LINES)].join("\n") } else { errors.join("\n") }
}

/// A child that does not outlive this value: it is killed and reaped when it is dropped.
#[derive(Debug)]
pub struct KillOnDrop(Child);

impl KillOnDrop {
    /// Starts a command.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end; `None` when it does not come within `timeout`.
    pub fn wait_within(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return None,
            }
        }
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // An error means that it has ended.
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

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn lines_are_passed_on_as_they_come() {
        let mut printed = String::new();
        let mut listener = |lines: &str| {
            printed.push_str(lines);
            printed.contains("two\n").then_some(KillReason::Interrupted)
        };
        let limit = Duration::from_secs(30);
        let output =
            run_with_descendants(shell("echo one; echo two; sleep 60"), limit, &mut listener)
                .unwrap();
        assert_eq!(output.end, ChildEnd::Killed(KillReason::Interrupted));
        assert_eq!(printed, "one\ntwo\n");
        assert!(output.seconds < 20.0);
    }

    #[test]
    fn a_descendant_in_a_session_of_its_own_does_not_stay() {
        let mut printed = String::new();
        let mut listener = |lines: &str| {
            printed.push_str(lines);
            None
        };
        let script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & wait";
        let limit = Duration::from_millis(700);
        let output = run_with_descendants(shell(script), limit, &mut listener).unwrap();
        assert_eq!(output.end, ChildEnd::Killed(KillReason::TimedOut));
        let pid = printed.trim().to_owned();
        assert!(!pid.is_empty(), "the descendant told its number");
        assert!(!is_alive(&pid), "descendant {pid} is alive");
    }

    #[test]
    fn a_group_says_what_it_printed_and_how_it_ended() {
        let output =
            run_group(shell("echo out; echo err >&2; exit 3"), Duration::from_secs(30), &|| false)
                .unwrap();
        assert!(matches!(output.end, ChildEnd::Exited(status) if status.code() == Some(3)));
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
        let missing = run_group(Command::new("no-such-program"), Duration::ZERO, &|| false);
        assert!(matches!(missing, Err(ChildError::Start(_))));
    }

    #[test]
    fn a_child_does_not_outlive_its_value() {
        let mut child = KillOnDrop::spawn(shell("exec sleep 60")).unwrap();
        assert_eq!(child.wait_within(Duration::ZERO), None);
        let pid = child.id().to_string();
        drop(child);
        assert!(!is_alive(&pid));
        let mut child = KillOnDrop::spawn(shell("exit 4")).unwrap();
        let status = child.wait_within(Duration::from_secs(30));
        assert_eq!(status.and_then(|status| status.code()), Some(4));
    }

    #[test]
    fn messages_show_the_lines_that_matter() {
        assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n7\n"), "2\n3\n4\n5\n6\n7");
        assert_eq!(first_errors("a.c: In main\na.c:1: error: x\nnote"), "a.c:1: error: x");
        assert_eq!(first_errors("one\n\ntwo\n"), "one\ntwo");
    }
}
