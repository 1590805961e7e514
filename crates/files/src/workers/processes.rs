//! WorkerFigures that are processes: forked, because all that they need is in memory already, and each with
//! counters of its own in the kernel.

use super::{WorkerReport, WorkerTask};
use crate::FilesError;
use crate::counters::Counters;
use crate::pass::Bench;
use crate::volume::Volume;
use crate::workers::shared::SharedFlags;
use nodegauge_machine::SysRoot;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::Ordering;

/// How often the user is asked, in milliseconds.
const LOOK_EVERY: i32 = 5;

/// What comes back through a worker's pipe.
#[derive(Serialize, Deserialize)]
enum Message {
    WorkerReport(WorkerReport),
    /// What failed: the operation in words, its offset, and the cause by number.
    Failure {
        text: String,
        errno: Option<i32>,
        offset: Option<u64>,
        wrong: bool,
    },
}

/// A worker and its pipe. Dropped, it is killed and reaped.
struct Child {
    pid: libc::pid_t,
    pipe: File,
    said: Vec<u8>,
    open: bool,
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: the process is a child that nobody else reaps, so its number is still its own.
        unsafe {
            if self.open {
                libc::kill(self.pid, libc::SIGKILL);
            }
            libc::waitpid(self.pid, &raw mut status, 0);
        }
    }
}

/// Lets all work; their reports in order, and when they were let go.
pub(super) fn run(
    work: &WorkerTask<'_>,
    benches: &mut [Bench],
    shared: &SharedFlags,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<WorkerReport>, u64), FilesError> {
    let mut children = Vec::new();
    for (worker, bench) in benches.iter_mut().enumerate() {
        let child = fork(work, worker, bench, shared)
            .map_err(|cause| FilesError::Worker { worker, why: cause.to_string() })?;
        children.push(child);
    }
    let released = shared.release(children.len(), || {
        // A worker that is gone without a word has closed its pipe.
        listen(&mut children, 0);
        interrupted() || children.iter().any(|child| !child.open && child.said.is_empty())
    });
    while children.iter().any(|child| child.open) {
        listen(&mut children, LOOK_EVERY);
        if interrupted() {
            shared.end.store(true, Ordering::Relaxed);
        }
    }
    let mut reports = Vec::new();
    for (worker, child) in children.iter().enumerate() {
        let message = serde_json::from_slice(&child.said).map_err(|_| FilesError::Worker {
            worker,
            why: "it was killed, perhaps for want of memory".to_owned(),
        })?;
        match message {
            Message::WorkerReport(report) => reports.push(report),
            Message::Failure { text, errno, offset, wrong } => {
                return Err(failure(work, worker, text, errno, offset, wrong));
            }
        }
    }
    Ok((reports, released))
}

/// The error that a worker had, made anew.
fn failure(
    work: &WorkerTask<'_>,
    worker: usize,
    text: String,
    errno: Option<i32>,
    offset: Option<u64>,
    wrong: bool,
) -> FilesError {
    match errno {
        Some(errno) => FilesError::Io {
            what: text,
            file: work.states[worker].path.clone(),
            offset,
            cause: io::Error::from_raw_os_error(errno),
        },
        None if wrong => FilesError::WrongInWorker(text),
        None => FilesError::Worker { worker, why: text },
    }
}

/// Takes what the workers say, for at most so many milliseconds.
fn listen(children: &mut [Child], milliseconds: i32) {
    let mut waiting: Vec<libc::pollfd> = children
        .iter()
        .filter(|child| child.open)
        .map(|child| libc::pollfd { fd: child.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the kernel reads and fills as many structures as are given.
    let ready = unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as u64, milliseconds) };
    if ready <= 0 {
        return;
    }
    for child in children.iter_mut().filter(|child| child.open) {
        let fd = child.pipe.as_raw_fd();
        if !waiting.iter().any(|entry| entry.fd == fd && entry.revents != 0) {
            continue;
        }
        let mut buffer = [0; 16 << 10];
        match child.pipe.read(&mut buffer) {
            Ok(0) => child.open = false,
            Ok(n) => child.said.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => child.open = false,
        }
    }
}

/// Starts a worker.
fn fork(
    work: &WorkerTask<'_>,
    worker: usize,
    bench: &mut Bench,
    shared: &SharedFlags,
) -> io::Result<Child> {
    let mut ends = [0; 2];
    // SAFETY: the kernel fills two descriptors, which become owned files below.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are fresh and owned by nobody.
    let (reader, writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child goes on with this thread alone. It uses memory that was made before, the
    // allocator, which the C library makes usable in the child of a process with threads, and system
    // calls; it ends without running what the parent registered for its end.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid > 0 {
        return Ok(Child { pid, pipe: reader, said: Vec::new(), open: true });
    }
    drop(reader);
    // SAFETY: plain system calls. The worker dies with its parent, and leaves Ctrl-C to it.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(1);
        }
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
    }
    speak(work, worker, bench, shared, writer);
    // SAFETY: ends the process at once: what is registered for its end belongs to the parent.
    unsafe { libc::_exit(0) }
}

/// A worker's part, and its report. A panic must not unwind into the parent's code.
fn speak(
    work: &WorkerTask<'_>,
    worker: usize,
    bench: &mut Bench,
    shared: &SharedFlags,
    mut pipe: File,
) {
    let root = SysRoot::live();
    let nowhere = Volume::default();
    let before = Counters::now(&root, &nowhere);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        work.carry_out(worker, bench, shared)
    }));
    let message = match result {
        Ok(Ok(report)) => {
            let rise = Counters::now(&root, &nowhere).since(&before);
            Message::WorkerReport(WorkerReport { rise, ..report })
        }
        Ok(Err(FilesError::Io { what, offset, cause, .. })) => {
            Message::Failure { text: what, errno: cause.raw_os_error(), offset, wrong: false }
        }
        Ok(Err(error)) => Message::Failure {
            text: error.to_string(),
            errno: None,
            offset: None,
            wrong: matches!(error, FilesError::Wrong { .. }),
        },
        Err(_) => return,
    };
    if let Ok(text) = serde_json::to_vec(&message) {
        // A parent that does not listen any more has no use for it.
        let _ = pipe.write_all(&text);
    }
}
