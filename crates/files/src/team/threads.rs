//! Workers that are threads.

use super::{Report, Work};
use crate::FilesError;
use crate::pass::Bench;
use crate::team::shared::SharedFlags;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How often the user is asked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Lets all work; their reports in order, and when they were let go.
pub(super) fn run(
    work: &Work<'_>,
    benches: &mut [Bench],
    shared: &SharedFlags,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Vec<Report>, u64), FilesError> {
    let (released, results) = std::thread::scope(|scope| {
        let handles: Vec<_> = benches
            .iter_mut()
            .enumerate()
            .map(|(i, bench)| scope.spawn(move || work.carry_out(i, bench, shared)))
            .collect();
        let released = shared.release(handles.len(), interrupted);
        while !handles.iter().all(ScopedJoinHandle::is_finished) {
            if interrupted() {
                shared.end.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let results: Vec<_> = handles.into_iter().map(ScopedJoinHandle::join).collect();
        (released, results)
    });
    let mut reports = Vec::new();
    for (worker, result) in results.into_iter().enumerate() {
        let result =
            result.map_err(|_| FilesError::Worker { worker, why: "it panicked".to_owned() })?;
        reports.push(result?);
    }
    Ok((reports, released))
}
