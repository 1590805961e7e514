//! Workers that are processes: forked, because all that they need is in memory already, and each with
//! counters of its own in the kernel.

use super::{Report, Work};
use crate::FilesError;
use crate::counters::Counters;
use crate::pass::Bench;
use crate::team::shared::SharedFlags;
use crate::volume::Volume;
use nodegauge_machine::SysRoot;
use nodegauge_os::{ForkedChild, SysError, receive};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::Ordering;

/// How often the user is asked, in milliseconds.
const LOOK_EVERY: i32 = 5;

/// What comes back through a worker's pipe.
#[derive(Serialize, Deserialize)]
enum Message {
    Report(Report),
    /// What failed: the operation in words, its offset, and the cause by number.
    Failure {
        text: String,
        errno: Option<i32>,
        offset: Option<u64>,
        wrong: bool,
    },
}

/// Lets all work; their reports in order, and when they were let go.
pub(super) fn run(
    work: &Work<'_>,
    benches: &mut [Bench],
    shared: &SharedFlags,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<Report>, u64), FilesError> {
    let mut children = Vec::new();
    for (worker, bench) in benches.iter_mut().enumerate() {
        let failed = |cause: SysError| FilesError::Worker {
            worker,
            why: io::Error::from(cause).to_string(),
        };
        // SAFETY: a worker uses memory that was made before, the allocator and system calls, and waits
        // for flags only.
        let child = unsafe { nodegauge_os::fork(|pipe| speak(work, worker, bench, shared, pipe)) };
        children.push(child.map_err(failed)?);
    }
    let released = shared.release(children.len(), || {
        // A worker that is gone without a word has closed its pipe.
        receive(&mut children, 0);
        interrupted()
            || children.iter().any(|child| !child.is_open() && child.received().is_empty())
    });
    while children.iter().any(ForkedChild::is_open) {
        receive(&mut children, LOOK_EVERY);
        if interrupted() {
            shared.end.store(true, Ordering::Relaxed);
        }
    }
    let mut reports = Vec::new();
    for (worker, child) in children.iter().enumerate() {
        let message = serde_json::from_slice(child.received()).map_err(|_| FilesError::Worker {
            worker,
            why: "it was killed, perhaps for want of memory".to_owned(),
        })?;
        match message {
            Message::Report(report) => reports.push(report),
            Message::Failure { text, errno, offset, wrong } => {
                return Err(failure(work, worker, text, errno, offset, wrong));
            }
        }
    }
    Ok((reports, released))
}

/// The error that a worker had, made anew.
fn failure(
    work: &Work<'_>,
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

/// A worker's part, and its report.
fn speak(work: &Work<'_>, worker: usize, bench: &mut Bench, shared: &SharedFlags, mut pipe: File) {
    let root = SysRoot::live();
    let nowhere = Volume::default();
    let before = Counters::now(&root, &nowhere);
    let message = match work.carry_out(worker, bench, shared) {
        Ok(report) => {
            let rise = Counters::now(&root, &nowhere).since(&before);
            Message::Report(Report { rise, ..report })
        }
        Err(FilesError::Io { what, offset, cause, .. }) => {
            Message::Failure { text: what, errno: cause.raw_os_error(), offset, wrong: false }
        }
        Err(error) => Message::Failure {
            text: error.to_string(),
            errno: None,
            offset: None,
            wrong: matches!(error, FilesError::Wrong { .. }),
        },
    };
    if let Ok(text) = serde_json::to_vec(&message) {
        // A parent that does not listen any more has no use for it.
        let _ = pipe.write_all(&text);
    }
}
