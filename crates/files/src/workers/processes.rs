//! Workers that are processes: forked, because all that they need is in memory already, and each with
//! counters of its own in the kernel.

use super::{SharedFlags, WorkerReport, WorkerTask};
use crate::counters::Counters;
use crate::error;
use crate::pass::Bench;
use crate::volume::Volume;
use nodegauge_machine::SysRoot;
use nodegauge_measure::Failure;
use nodegauge_os::{ForkedChild, receive};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the user is asked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Message through a worker's pipe: its report, or its failure.
type Message = Result<WorkerReport, Failure>;

/// Lets all work; their reports in order, and when they were let go.
pub(super) fn run(
    work: &WorkerTask<'_>,
    benches: &mut [Bench],
    shared: &SharedFlags,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<WorkerReport>, u64), Failure> {
    let mut children = Vec::new();
    for (worker, bench) in benches.iter_mut().enumerate() {
        // SAFETY: a worker uses memory that was made before, the allocator and system calls, and waits
        // for flags only.
        let child = unsafe { nodegauge_os::fork(|pipe| speak(work, bench, shared, pipe)) };
        children.push(child.map_err(|cause| error::no_result(worker, cause))?);
    }
    let released = shared.release(children.len(), || {
        // A worker that is gone without a word has closed its pipe.
        receive(&mut children, Duration::ZERO);
        interrupted()
            || children.iter().any(|child| !child.is_open() && child.received().is_empty())
    });
    while children.iter().any(ForkedChild::is_open) {
        receive(&mut children, LOOK_EVERY);
        if interrupted() {
            shared.end.store(1, Ordering::Relaxed);
        }
    }
    let report = |(worker, child): (usize, &ForkedChild)| {
        let killed = |_| error::no_result(worker, "it was killed, perhaps for want of memory");
        let message: Message = serde_json::from_slice(child.received()).map_err(killed)?;
        message
    };
    let reports: Result<_, Failure> = children.iter().enumerate().map(report).collect();
    Ok((reports?, released))
}

/// A worker's part, and its report.
fn speak(work: &WorkerTask<'_>, bench: &mut Bench, shared: &SharedFlags, mut pipe: File) {
    let (root, nowhere) = (SysRoot::live(), Volume::default());
    let before = Counters::now(&root, &nowhere);
    let report = work.carry_out(bench, shared);
    let rise = Counters::now(&root, &nowhere).since(&before);
    let message: Message = report.map(|report| WorkerReport { rise, ..report });
    if let Ok(text) = serde_json::to_vec(&message) {
        // A parent that does not listen any more has no use for it.
        let _ = pipe.write_all(&text);
    }
}
