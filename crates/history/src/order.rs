//! Order of runs by time: newest first, and runs whose start lies in the future last.
//!
//! A run that was measured under a wrong clock, e.g. in the year 9999, must not be the newest run for ever.

use crate::moment::horizon;

/// Collects up to `limit` items, newest first, from two queries: the runs up to now, and then those in the future. `part`
/// returns the items that a condition on runs selects, newest first, and at most as many as its second argument. Two
/// queries use the index of the times, which one query with both orders cannot.
pub(crate) fn newest_first<T>(
    limit: usize,
    mut part: impl FnMut(&str, usize) -> rusqlite::Result<Vec<T>>,
) -> rusqlite::Result<Vec<T>> {
    // The text of a time contains no characters with a meaning in SQL.
    let horizon = horizon();
    let mut found = part(&format!("started <= '{horizon}'"), limit)?;
    if found.len() < limit {
        found.extend(part(&format!("started > '{horizon}'"), limit - found.len())?);
    }
    Ok(found)
}
