//! Runs a program that starts others out of its process group, as launchers of MPI do, listens to
//! it line by line, and sees to it that nothing of what it started stays behind.
//!
//! Every descendant on this machine carries a word of this run in its environment. At a forced end
//! the launcher is asked first (it knows its ranks on other machines), then its group is killed;
//! however it ended, whoever still carries the word is killed by its number.

use crate::ToolchainError;
use crate::guard::{Collector, Ended, Finished, Job, LOOK_EVERY};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The variable that descendants carry.
const WORD: &str = "NODEGAUGE_FAMILY";
/// How long a launcher may take to end its ranks when it is asked to.
const MANNERS: Duration = Duration::from_millis(1500);
/// Looks for descendants that are just being born or dying.
const SWEEPS: u32 = 20;

/// Listens to a running program.
pub trait Listener {
    /// Gets what the program has printed since the last call, in whole lines, possibly none.
    /// `Some` ends it.
    fn hear(&mut self, lines: &str) -> Option<Ended>;
}

impl<F: FnMut(&str) -> Option<Ended>> Listener for F {
    fn hear(&mut self, lines: &str) -> Option<Ended> {
        self(lines)
    }
}

/// Runs `job` to its end and all its descendants with it. The listener is called some hundred times
/// a second and gets all standard output; that of `Finished` is empty.
///
/// # Errors
/// When it cannot be started or watched; how it ends is no error here.
pub fn run_family(job: &Job, listener: &mut dyn Listener) -> Result<Finished, ToolchainError> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let word = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let mut command = Command::new(job.command.program());
    command
        .args(job.command.arguments())
        .current_dir(&job.folder)
        .env("LC_ALL", "C")
        .env(WORD, &word)
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
    let ended = see_to_its_end(&mut child, started, job.limit, &stdout, listener);
    sweep(&word);
    let ended =
        ended.map_err(|cause| ToolchainError::Watch { command: job.command.to_string(), cause })?;
    let seconds = started.elapsed().as_secs_f64();
    listener.hear(&stdout.text());
    Ok(Finished { ended, stdout: String::new(), stderr: stderr.text(), seconds })
}

fn see_to_its_end(
    child: &mut Child,
    started: Instant,
    limit: Duration,
    stdout: &Collector,
    listener: &mut dyn Listener,
) -> io::Result<Ended> {
    let leader = Pid::from_child(child);
    let outcome = loop {
        match over(leader) {
            Ok(true) => break Ok(None),
            Ok(false) => {}
            Err(error) => break Err(error),
        }
        if let Some(ended) = listener.hear(&stdout.lines()) {
            break Ok(Some(ended));
        }
        if started.elapsed() >= limit {
            break Ok(Some(Ended::TooLong));
        }
        std::thread::sleep(LOOK_EVERY);
    };
    if matches!(outcome, Ok(Some(_))) {
        let _ = kill_process_group(leader, Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < MANNERS && !over(leader).unwrap_or(true) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    // The group is killed before its leader is reaped: until then its number is its own.
    let _ = kill_process_group(leader, Signal::KILL);
    let status = child.wait()?;
    outcome.map(|ended| ended.unwrap_or(Ended::Itself(status)))
}

/// Whether the program is over; it is not reaped.
fn over(leader: Pid) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(leader), look) {
        Ok(Some(_)) => Ok(true),
        Ok(None) | Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Kills every process that carries `word`, until there is none.
fn sweep(word: &str) {
    for _ in 0..SWEEPS {
        let left = carriers(word);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Living processes with `word` in their environment.
fn carriers(word: &str) -> Vec<Pid> {
    let variable = format!("{WORD}={word}");
    let Ok(folders) = std::fs::read_dir("/proc") else { return Vec::new() };
    folders
        .flatten()
        .filter_map(|folder| {
            let number: i32 = folder.file_name().to_str()?.parse().ok()?;
            // Of the dead and of other users it is empty or cannot be read.
            let environment = std::fs::read(folder.path().join("environ")).ok()?;
            let carries =
                environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes());
            if carries { Pid::from_raw(number) } else { None }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;
    use std::path::PathBuf;

    fn shell(script: &str, limit: f64) -> Job {
        Job {
            command: CommandLine::new("sh", ["-c", script]),
            folder: PathBuf::from("."),
            environment: Vec::new(),
            limit: Duration::from_secs_f64(limit),
        }
    }

    fn alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn lines_are_heard_as_they_come() {
        let mut heard = String::new();
        let mut listener = |lines: &str| {
            heard.push_str(lines);
            heard.contains("two\n").then_some(Ended::Interrupted)
        };
        let finished =
            run_family(&shell("echo one; echo two; sleep 60", 30.0), &mut listener).unwrap();
        assert_eq!(finished.ended, Ended::Interrupted);
        assert_eq!(heard, "one\ntwo\n");
        assert!(finished.seconds < 20.0);
    }

    #[test]
    fn a_descendant_in_a_session_of_its_own_does_not_stay() {
        let mut heard = String::new();
        let mut listener = |lines: &str| {
            heard.push_str(lines);
            None
        };
        let script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 60' & wait";
        let finished = run_family(&shell(script, 0.7), &mut listener).unwrap();
        assert_eq!(finished.ended, Ended::TooLong);
        let pid = heard.trim().to_owned();
        assert!(!pid.is_empty(), "the descendant told its number");
        assert!(!alive(&pid), "descendant {pid} is alive");
    }
}
