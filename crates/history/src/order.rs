//! Order of runs: newest first, but runs that start in the future last.
//!
//! A run that was measured with a wrong clock, e.g. in the year 9999, must not stay the newest run.

use crate::moment::latest_plausible_start;

/// Collects up to `limit` items, newest first: first the runs up to now, then those in the future. `part` returns the
/// items for a condition on runs, newest first; its second argument is the maximum number. Two queries are used because
/// one query with both orders could not use the index of the times.
pub(crate) fn newest_first<T>(
    limit: usize,
    mut part: impl FnMut(&str, usize) -> rusqlite::Result<Vec<T>>,
) -> rusqlite::Result<Vec<T>> {
    // The text of a time contains no characters that have a meaning in SQL.
    let latest_plausible_start = latest_plausible_start();
    let mut found = part(&format!("started <= '{latest_plausible_start}'"), limit)?;
    if found.len() < limit {
        found.extend(part(&format!("started > '{latest_plausible_start}'"), limit - found.len())?);
    }
    Ok(found)
}
