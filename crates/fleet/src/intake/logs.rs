//! Log files of nodes, e.g. `n1.log` next to `n1.json`. A log contains no record; its text explains why the node has no
//! record.

use super::{EMPTY, Evidence, Intake, stem};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Extensions of log files.
const ENDINGS: [&str; 2] = ["log", "err"];
/// Names of files that GNU parallel and MPI launchers create for the streams of a command. They are not node names.
pub(super) const STREAM_FILE_NAMES: [&str; 4] = ["stdout", "stderr", "rc", "seq"];

/// True for the file of a stream that is empty in a successful run.
pub(super) fn is_side_stream(path: &Path) -> bool {
    stem(path).is_some_and(|stem| STREAM_FILE_NAMES.contains(&stem) && stem != "stdout")
}

fn is_named_as_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|log| ending == *log))
}

/// Returns the path without its extension.
fn base(path: &Path) -> Option<PathBuf> {
    Some(path.with_file_name(stem(path)?))
}

/// Returns the files that are logs next to a record.
pub(super) fn find_logs<'a>(files: impl Iterator<Item = &'a Path> + Clone) -> HashSet<PathBuf> {
    let logs: Vec<&Path> = files.clone().filter(|path| is_named_as_log(path)).collect();
    if logs.is_empty() {
        return HashSet::new();
    }
    let others = files.filter(|path| !is_named_as_log(path));
    let records: HashSet<PathBuf> = others.filter_map(base).collect();
    let of_record =
        logs.into_iter().filter(|path| base(path).is_some_and(|base| records.contains(&base)));
    of_record.map(Path::to_owned).collect()
}

/// Adds the text of each log to the reason why the record next to it is missing, and removes the logs.
pub(super) fn merge_logs(intake: &mut Intake) {
    let all = std::mem::take(&mut intake.rejected);
    let (logs, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|one| one.evidence == Evidence::Log);
    for log in logs {
        let of_log = base(Path::new(&log.source));
        let line = log.reason.strip_prefix("no record: ").unwrap_or(&log.reason);
        let of_node = others.iter_mut().filter(|one| base(Path::new(&one.source)) == of_log);
        for one in of_node.filter(|_| !line.is_empty()) {
            one.reason = match one.reason.as_str() {
                EMPTY => log.reason.clone(),
                other => format!("{other}; {line}"),
            };
        }
    }
    intake.rejected = others;
}
