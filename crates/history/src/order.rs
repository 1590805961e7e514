//! Order of runs: newest first, but runs that start in the future last.
//!
//! Otherwise a run that was measured with a wrong clock, e.g. in the year 9999, would always be the newest run.

use crate::moment::latest_plausible_start;

/// Collects up to `limit` items, newest first: first from the runs up to now, then from those in the future. `part`
/// returns the items of the runs that satisfy an SQL condition, newest first; its second argument is the maximum number
/// of items. A single query for both parts could not use the index of the start times.
pub(crate) fn collect_newest_first<T>(
    limit: usize,
    mut part: impl FnMut(&str, usize) -> rusqlite::Result<Vec<T>>,
) -> rusqlite::Result<Vec<T>> {
    // The text contains no characters that have a meaning in SQL, because it is a time.
    let latest_plausible_start = latest_plausible_start();
    let mut found = part(&format!("started <= '{latest_plausible_start}'"), limit)?;
    if found.len() < limit {
        found.extend(part(&format!("started > '{latest_plausible_start}'"), limit - found.len())?);
    }
    Ok(found)
}
