//! Messages as lines over the standard streams of srun, for jobs without an MPI: rank 0 starts the leaders of the
//! other hosts with a second srun, writes to its standard input and reads its standard output.
//!
//! srun copies its input to all tasks; therefore a line begins with the name of its receiver. srun may divide long
//! lines; therefore a message is divided into parts of [`PART`] bytes.

use nodegauge_measure::Failure;
use nodegauge_os::KillOnDrop;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

/// First word of each line of a message.
const MARK: &str = "nodegauge-host";
/// Maximum length of the part of a message in a line, bytes.
const PART: usize = 400;
/// Receiver of messages for all hosts.
const ALL: &str = "*";
/// Message that interrupts a leader. It is necessary because a signal to the step of rank 0 does not reach the
/// second step.
const INTERRUPT: &str = "interrupt";
/// Time for srun to end after the last message.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Writes a message to or from `host` in parts. The mark of the last part is `=`, of the other parts `+`.
fn write(to: &mut impl Write, host: &str, message: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(message).map_err(Failure::missing)?;
    let mut rest = text.as_str();
    let mut lines = String::new();
    while !rest.is_empty() {
        let end = (0..=PART.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at));
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        let sign = if after.is_empty() { '=' } else { '+' };
        lines.push_str(&format!("{MARK} {host} {sign}{part}\n"));
        rest = after;
    }
    let written = to.write_all(lines.as_bytes()).and_then(|()| to.flush());
    written.map_err(|cause| Failure::missing(format!("cannot write to the other hosts: {cause}")))
}

/// Incomplete messages of several hosts, assembled from their lines.
#[derive(Debug, Default)]
struct Parts(HashMap<String, String>);

impl Parts {
    /// Adds a line. If it completes a message, returns the host and the message.
    fn take(&mut self, line: &str) -> Option<(String, String)> {
        // srun precedes the lines of a task with its number.
        let (_, line) = line.split_once(MARK)?;
        let (host, rest) = line.trim_start().split_once(' ')?;
        let part = rest.get(1..)?;
        let message = self.0.entry(host.to_owned()).or_default();
        message.push_str(part);
        rest.starts_with('=').then(|| (host.to_owned(), std::mem::take(message)))
    }
}

/// Reads messages in a thread until the stream ends. A message that interrupts takes effect immediately, even while
/// this process measures.
fn listen(from: impl Read + Send + 'static) -> Result<Receiver<(String, String)>, Failure> {
    let (sender, receiver) = mpsc::channel();
    let started = std::thread::Builder::new().spawn(move || {
        let mut parts = Parts::default();
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let Some((host, message)) = parts.take(&line) else { continue };
            if message == format!("\"{INTERRUPT}\"") {
                nodegauge_os::interrupt_this_process();
            } else if sender.send((host, message)).is_err() {
                return;
            }
        }
    });
    started.map(|_| receiver).map_err(|cause| {
        Failure::missing(format!("cannot start the thread for other hosts: {cause}"))
    })
}

fn cannot_start_srun(cause: impl std::fmt::Display) -> Failure {
    Failure::missing(format!("cannot start srun for the other hosts: {cause}"))
}

/// Leaders of the other hosts, from the view of rank 0.
#[derive(Debug)]
pub(super) struct SrunStep {
    child: RefCell<KillOnDrop>,
    input: RefCell<Option<ChildStdin>>,
    inbox: Receiver<(String, String)>,
    /// Messages of each host that have not been read yet.
    waiting: RefCell<HashMap<String, VecDeque<String>>>,
}

impl SrunStep {
    /// Starts the step.
    ///
    /// # Errors
    /// Fails if srun cannot be started.
    pub fn start(mut command: Command) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = KillOnDrop::spawn(command).map_err(cannot_start_srun)?;
        let input = child.take_stdin();
        let output = child.take_stdout().ok_or_else(|| cannot_start_srun("no standard output"))?;
        Ok(Self {
            input: RefCell::new(input),
            inbox: listen(output)?,
            child: RefCell::new(child),
            waiting: RefCell::default(),
        })
    }

    /// Sends a message to a host; to all hosts if `host` is `None`.
    pub fn send(&self, host: Option<&str>, message: &impl Serialize) -> Result<(), Failure> {
        match &mut *self.input.borrow_mut() {
            Some(input) => write(input, host.unwrap_or(ALL), message),
            None => Err(Failure::missing("srun has ended")),
        }
    }

    /// Interrupts the leaders.
    pub fn interrupt(&self) -> Result<(), Failure> {
        self.send(None, &INTERRUPT)
    }

    /// Returns a message of a host; `None` if none has arrived.
    ///
    /// # Errors
    /// Fails if srun has ended.
    pub fn poll(&self, host: &str) -> Result<Option<String>, Failure> {
        let mut waiting = self.waiting.borrow_mut();
        let has_ended = loop {
            match self.inbox.try_recv() {
                Ok((from, message)) => waiting.entry(from).or_default().push_back(message),
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Disconnected) => break true,
            }
        };
        match waiting.get_mut(host).and_then(VecDeque::pop_front) {
            Some(message) => Ok(Some(message)),
            None if has_ended => Err(Failure::missing("srun ended without a result of this host")),
            None => Ok(None),
        }
    }

    /// Waits for the end of srun, which ends tasks that do not end by themselves.
    pub fn end(&self, all_respond: bool) {
        self.input.borrow_mut().take();
        let mut child = self.child.borrow_mut();
        if all_respond && child.wait_within(GRACE_PERIOD).is_some() {
            return;
        }
        child.terminate();
        child.wait_within(GRACE_PERIOD);
    }
}

/// Rank 0, from the view of the leader of another host.
#[derive(Debug)]
pub(super) struct LeaderConnection {
    name: String,
    inbox: Receiver<(String, String)>,
}

impl LeaderConnection {
    /// Listens on standard input.
    ///
    /// # Errors
    /// Fails if the thread for listening cannot be started.
    pub fn new(name: &str) -> Result<Self, Failure> {
        Ok(Self { name: name.to_owned(), inbox: listen(io::stdin())? })
    }

    /// Sends a message to rank 0.
    pub fn send(&self, message: &impl Serialize) -> Result<(), Failure> {
        write(&mut io::stdout().lock(), &self.name, message)
    }

    /// Returns a message of rank 0; `None` if none has arrived.
    ///
    /// # Errors
    /// Fails if rank 0 has ended.
    pub fn poll(&self) -> Result<Option<String>, Failure> {
        loop {
            match self.inbox.try_recv() {
                Ok((to, message)) if to == ALL || to == self.name => return Ok(Some(message)),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::missing("rank 0 has ended"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_messages_of_hosts_are_assembled() {
        let long = "\u{e4}".repeat(1000);
        let mut streams = [Vec::new(), Vec::new()];
        write(&mut streams[0], "a", &long).unwrap();
        write(&mut streams[1], "b", &"short").unwrap();
        let texts = streams.map(|stream| String::from_utf8(stream).unwrap());
        assert!(texts[0].lines().all(|line| line.len() < 500));
        let mut parts = Parts::default();
        let mut found = Vec::new();
        // The lines of the hosts alternate, and srun numbers them.
        let mut others = texts[1].lines();
        for line in texts[0].lines() {
            found.extend(parts.take(&format!("  3: {line}")));
            found.extend(others.next().and_then(|other| parts.take(&format!("12: {other}"))));
        }
        found.extend(parts.take("srun: error: node3: task 4: Killed"));
        let [short, long] = ["short", &long].map(|text| serde_json::to_string(text).unwrap());
        assert_eq!(found, [("b".to_owned(), short), ("a".to_owned(), long)]);
    }
}
