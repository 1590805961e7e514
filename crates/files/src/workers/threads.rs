//! Workers that are threads.

use super::{SharedFlags, WorkerReport, WorkerTask};
use crate::error;
use crate::pass::Bench;
use nodegauge_measure::Failure;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How often the user is asked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Lets all work; their reports in order, and when they were let go.
pub(super) fn run(
    work: &WorkerTask<'_>,
    benches: &mut [Bench],
    shared: &SharedFlags,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<WorkerReport>, u64), Failure> {
    std::thread::scope(|scope| {
        let start = |bench| scope.spawn(move || work.carry_out(bench, shared));
        let handles: Vec<_> = benches.iter_mut().map(start).collect();
        let released = shared.release(handles.len(), interrupted);
        while !handles.iter().all(ScopedJoinHandle::is_finished) {
            if interrupted() {
                shared.end.store(1, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let report = |(worker, handle): (usize, ScopedJoinHandle<'_, _>)| {
            handle.join().unwrap_or_else(|_| Err(error::no_result(worker, "it panicked")))
        };
        let reports: Result<_, _> = handles.into_iter().enumerate().map(report).collect();
        Ok((reports?, released))
    })
}
