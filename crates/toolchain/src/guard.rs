//! Runs a program in a process group of its own and sees to its end: by itself, at its time limit,
//! or when the user wants to end. However it ends, nothing of its group stays behind.

use crate::{CommandLine, ToolchainError};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What to run.
#[derive(Debug, Clone)]
pub struct Job {
    /// Program and arguments.
    pub command: CommandLine,
    /// Where it runs.
    pub folder: PathBuf,
    /// Variables that are set for it, and those (`None`) that are taken away.
    pub environment: Vec<(String, Option<String>)>,
    /// How long it may take.
    pub limit: Duration,
}

/// Why a program is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself; how, its status says.
    Itself(ExitStatus),
    /// Killed at its time limit.
    TooLong,
    /// Killed because the user ends the run.
    Interrupted,
}

/// A program that is over.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Why.
    pub ended: Ended,
    /// What it printed, up to a bound.
    pub stdout: String,
    /// Its error output, up to the same bound.
    pub stderr: String,
    /// How long it ran.
    pub seconds: f64,
}

/// How often a running program is looked at: seldom, because looking takes a CPU from it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Output beyond this is read and thrown away.
const KEPT: usize = 1 << 20;
/// How long the output of a dead program is waited for: something that left its group may hold it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Lines of error output that a message shows.
const LINES: usize = 6;

/// Runs `job` to its end. `interrupted` is asked all the while.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run(job: &Job, interrupted: &dyn Fn() -> bool) -> Result<Finished, ToolchainError> {
    let mut command = Command::new(job.command.program());
    command
        .args(job.command.arguments())
        .current_dir(&job.folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    for (name, value) in &job.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let started = Instant::now();
    let mut child = command
        .spawn()
        .map_err(|cause| ToolchainError::Start { command: job.command.to_string(), cause })?;
    let stdout = Collector::of(child.stdout.take());
    let stderr = Collector::of(child.stderr.take());
    let ended = see_to_its_end(&mut child, started, job.limit, interrupted)
        .map_err(|cause| ToolchainError::Watch { command: job.command.to_string(), cause })?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Finished { ended, stdout: stdout.text(), stderr: stderr.text(), seconds })
}

/// Waits, kills if need be, and reaps. The group is killed before its leader is reaped: until then
/// its number cannot belong to anybody else.
fn see_to_its_end(
    child: &mut Child,
    started: Instant,
    limit: Duration,
    interrupted: &dyn Fn() -> bool,
) -> io::Result<Ended> {
    let leader = Pid::from_child(child);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let outcome = loop {
        match waitid(WaitId::Pid(leader), look) {
            Ok(Some(_)) => break Ok(None),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => break Err(io::Error::from(errno)),
        }
        if interrupted() {
            break Ok(Some(Ended::Interrupted));
        }
        if started.elapsed() >= limit {
            break Ok(Some(Ended::TooLong));
        }
        std::thread::sleep(LOOK_EVERY);
    };
    // A group that is gone already is what is wanted.
    let _ = kill_process_group(leader, Signal::KILL);
    let status = child.wait()?;
    outcome.map(|killed| killed.unwrap_or(Ended::Itself(status)))
}

/// Reads a pipe to its end on a thread of its own, so that a program never waits for its reader.
pub(crate) struct Collector {
    kept: Arc<Mutex<Vec<u8>>>,
    done: Receiver<()>,
}

impl Collector {
    pub(crate) fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (tell, done) = mpsc::channel();
        if let Some(mut pipe) = pipe {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || {
                let mut buffer = [0; 8192];
                while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = KEPT.saturating_sub(kept.len()).min(n);
                    kept.extend_from_slice(&buffer[..room]);
                }
                let _ = tell.send(());
            });
        }
        Self { kept, done }
    }

    /// Takes what has come since the last time, up to the last line break.
    pub(crate) fn lines(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let end = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = kept.split_off(end);
        String::from_utf8_lossy(&std::mem::replace(&mut *kept, rest)).into_owned()
    }

    pub(crate) fn text(self) -> String {
        let _ = self.done.recv_timeout(PATIENCE);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Finished {
    /// What it printed, if it ended well.
    ///
    /// # Errors
    /// When it was killed or ended with a failure; with its last words.
    pub fn success(self, job: &Job) -> Result<String, ToolchainError> {
        let command = job.command.to_string();
        let last_words = last_lines(&self.stderr);
        match self.ended {
            Ended::Itself(status) if status.success() => Ok(self.stdout),
            Ended::Itself(status) => {
                Err(ToolchainError::Failed { command, status: in_words(status), last_words })
            }
            Ended::TooLong => {
                Err(ToolchainError::TooLong { command, limit: job.limit, last_words })
            }
            Ended::Interrupted => Err(ToolchainError::Interrupted),
        }
    }
}

/// `exit status 1`, `signal 11 (SIGSEGV)`.
pub fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(number)) => {
            let name = match number {
                4 => " (illegal instruction)",
                6 => " (abort)",
                7 => " (bus error)",
                8 => " (arithmetic error)",
                9 => " (killed, perhaps for want of memory)",
                11 => " (segmentation fault)",
                _ => "",
            };
            format!("signal {number}{name}")
        }
        (None, None) => status.to_string(),
    }
}

/// The last lines that say something.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The first lines that name an error, else the first lines.
pub(crate) fn first_errors(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> =
        lines.iter().copied().filter(|line| line.contains("error")).take(LINES).collect();
    if errors.is_empty() { lines[..lines.len().min(LINES)].join("\n") } else { errors.join("\n") }
}
