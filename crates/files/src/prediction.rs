//! Prediction of the time of a run before its first file is measured.
//!
//! Operations end when the time of the run is used up, and the remaining cells are left out. The shortest run is
//! therefore one pass over the files of the first cell, which has the smallest files.

use crate::plan::FilesPlan;
use crate::precision;
use nodegauge_blocks::scratch::ScratchDirectory;
use nodegauge_blocks::task::Task;
use nodegauge_measure::schedule::{PredictedTime, RunLimits};
use nodegauge_measure::{Bytes, BytesPerSec, Failure, Observer, clock};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Maximum duration of the probe of a file system.
const MAX_PROBE_TIME: Duration = Duration::from_millis(100);
/// Block size of the probe.
const BLOCK: Bytes = Bytes::mib(1);
/// Advice in hints on how to shorten a run.
const SMALLER: &str = "smaller files (--file-sizes, --max-size), or --time-limit";

/// Predicts the time of the shortest run from the write rate of its folder.
///
/// # Errors
/// Fails if the user set the budget and the shortest run exceeds it.
pub(crate) fn admit(
    plan: &FilesPlan,
    scratch: &[ScratchDirectory],
    limits: &RunLimits,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    let first = plan.tasks.first().filter(|_| limits.must_be_kept());
    let Some((folder, task)) = first else { return Ok(()) };
    observer.begin_phase("predicting the time of the run");
    let path = scratch[*folder].file_path("probe");
    let rate = writing_rate(&path, task.cell.file);
    // The file of the probe may be incomplete; its folder is removed at the end.
    let _ = std::fs::remove_file(&path);
    // If the folder cannot be written, the first operation fails with the reason.
    let Ok(rate) = rate else { return Ok(()) };
    limits.admit_as_planned(predicted(plan, task, rate), SMALLER).map(|_| ())
}

/// Returns the predicted time of a task whose files are written at `rate`.
fn predicted(plan: &FilesPlan, task: &Task, rate: BytesPerSec) -> PredictedTime {
    let workers = plan.options.workers.map_or(1, |workers| workers.count as u64);
    let over_all = (task.cell.file * workers / rate).duration();
    let operation = plan.options.limit.map_or(over_all, |limit| limit.min(over_all));
    // A file that an operation writes only in part is completed afterwards.
    let min = over_all + operation * (task.operations.len() as u32).saturating_sub(1);
    PredictedTime { min, likely: min * precision::MIN_PASSES as u32 }
}

/// Measures the rate at which a new file of at most `max` bytes is written through the page cache.
fn writing_rate(path: &Path, max: Bytes) -> std::io::Result<BytesPerSec> {
    let mut file = File::create_new(path)?;
    let block = vec![1; BLOCK.0.min(max.0) as usize];
    let begun = clock::now();
    let mut written = 0;
    while written < max.0 && clock::now() < begun + MAX_PROBE_TIME {
        file.write_all(&block)?;
        written += block.len() as u64;
    }
    let seconds = clock::now().saturating_duration_since(begun).as_secs_f64();
    Ok(BytesPerSec(written as f64 / seconds.max(1e-9)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{self, FilesOptions};
    use nodegauge_blocks::operation;

    /// Returns a plan with files of one size in a folder.
    fn plan(folder: &Path, file: Bytes, limit: Option<Duration>) -> FilesPlan {
        let operations = ["write", "read"].map(|name| operation::find(name).unwrap()).to_vec();
        let options = FilesOptions {
            paths: vec![folder.to_owned()],
            files: Some(vec![file]),
            blocks: Some(vec![Bytes::kib(64)]),
            operations,
            limit,
            ..FilesOptions::default()
        };
        plan::plan(options, Vec::new()).unwrap()
    }

    #[test]
    fn shortest_run_is_a_pass_over_the_smallest_files() {
        let folder = tempfile::tempdir().unwrap();
        let rate = BytesPerSec(1024.0 * 1024.0);
        let time = |limit| {
            let plan = plan(folder.path(), Bytes::mib(4), limit);
            predicted(&plan, &plan.tasks[0].1, rate).min
        };
        assert_eq!(time(None), Duration::from_secs(8));
        // The file is written completely, although the operation ends earlier.
        assert_eq!(time(Some(Duration::from_secs(1))), Duration::from_secs(5));
    }

    #[test]
    fn folder_rate_is_measured_within_its_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe");
        let rate = writing_rate(&path, Bytes::kib(4)).unwrap();
        assert!(rate.0 > 0.0);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
        assert!(writing_rate(&path, Bytes::kib(4)).is_err());
    }
}
