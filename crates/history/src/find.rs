//! Search for saved runs by a selector, with suggestions of similar selectors if no run matches.

use crate::error::{Access, HistoryError};
use crate::list::RunFilter;
use crate::order::collect_newest_first;
use crate::selector::{self, Selector};
use crate::store::Store;
use nodegauge_measure::Failure;
use nodegauge_measure::record::{self, Record};
use rusqlite::params;
use std::path::Path;

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 5;
/// Minimum Jaro-Winkler similarity of a suggestion. Two exchanged letters in a word of four give 0.9; an unrelated
/// label mostly gives less than 0.5.
const MIN_SIMILARITY: f64 = 0.7;
/// Minimum length of an identifier prefix. One or two characters typed by mistake must not select and remove a run.
const MIN_PREFIX: usize = 4;

impl Store {
    /// Returns the record that `selector` selects. A selector is an identifier or its prefix of at least four
    /// characters, `latest`, `latest~N`, a label `key=value` or its value alone (the newest run with that label), or a
    /// file with a record. A saved run has precedence over a file of the same name.
    ///
    /// # Errors
    /// Fails if there is no such run, if several runs have the prefix, or if the file contains no valid record.
    pub fn find(&self, selector: &str) -> Result<Record, HistoryError> {
        let id = match self.resolve(selector) {
            Err(HistoryError::NotFound { .. }) if selector::is_file_selector(selector) => {
                return selector::read_file(Path::new(selector), &self.former_names);
            }
            resolved => resolved?,
        };
        self.read_record(&id)
    }

    /// Returns all records that `selector` selects, newest first. A label selects all runs with that label; any other
    /// selector selects the record that [`Store::find`] returns.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::find`].
    pub fn find_all(&self, selector: &str) -> Result<Vec<Record>, HistoryError> {
        let label = match Selector::from(selector) {
            Selector::Latest(_) => None,
            Selector::Label(key, value) => Some((Some(key), value)),
            // A single word is either an identifier or the value of a label.
            Selector::Word(word) => self
                .resolve(selector)
                .is_ok_and(|id| !id.starts_with(&word.to_ascii_uppercase()))
                .then_some((None, word)),
        };
        let ids = match label {
            Some((key, value)) => self
                .all_with(key.as_deref(), &value)
                .map_err(self.error_translator(Access::Read))?,
            None => Vec::new(),
        };
        if ids.is_empty() {
            return Ok(vec![self.find(selector)?]);
        }
        ids.iter().map(|id| self.read_record(id)).collect()
    }

    /// Returns the record of a run with its current labels.
    pub(crate) fn read_record(&self, id: &str) -> Result<Record, HistoryError> {
        let failed = self.error_translator(Access::Read);
        let text: String = self
            .connection
            .prepare_cached("SELECT record FROM run WHERE id = ?1")
            .and_then(|mut found| found.query_row([id], |row| row.get(0)))
            .map_err(&failed)?;
        let mut record = record::parse(&text, &self.former_names)
            .map_err(|cause| HistoryError::unreadable(self.path(), format!("run {id}: {cause}")))?;
        // Labels may have changed since the record was saved, so they are read from the database.
        record.labels = self.labels(id).map_err(failed)?;
        Ok(record)
    }

    /// Returns the identifier of the saved run that `selector` selects.
    pub(crate) fn resolve(&self, selector: &str) -> Result<String, HistoryError> {
        let failed = self.error_translator(Access::Read);
        let found = match Selector::from(selector) {
            Selector::Latest(back) => self.nth_newest(back),
            Selector::Label(key, value) => self.newest_with(Some(&key), &value),
            Selector::Word(word) => {
                // Identifiers are in upper case; lower case is also accepted.
                let prefix = word.to_ascii_uppercase();
                let mut matching = self.with_prefix(&prefix).map_err(&failed)?;
                if matching.contains(&prefix) {
                    return Ok(prefix);
                }
                if matching.len() == 1 && prefix.len() >= MIN_PREFIX {
                    return Ok(matching.remove(0));
                }
                let offered = matching.join(", ");
                if matching.len() > 1 && prefix.len() >= MIN_PREFIX {
                    return Err(Failure::usage(format!(
                        "'{selector}' is the prefix of several runs: {offered}"
                    ))
                    .hint("give more characters of the identifier")
                    .into());
                }
                match self.newest_with(None, &word).map_err(&failed)? {
                    None if !matching.is_empty() => {
                        return Err(Failure::usage(format!(
                            "'{selector}' is too short to select a run; it matches {offered}"
                        ))
                        .hint(format!("give at least {MIN_PREFIX} characters of the identifier"))
                        .into());
                    }
                    found => Ok(found),
                }
            }
        };
        match found.map_err(&failed)? {
            Some(id) => Ok(id),
            None => Err(HistoryError::NotFound {
                selector: selector.to_owned(),
                candidates: self.similar_selectors(selector).map_err(failed)?,
            }),
        }
    }

    fn nth_newest(&self, back: u32) -> rusqlite::Result<Option<String>> {
        let count = (back as usize).saturating_add(1);
        let mut ids = self.latest_ids(Some(count))?;
        Ok(if ids.len() == count { ids.pop() } else { None })
    }

    /// Returns the runs to which `latest` and `latest~N` refer, newest first: the runs that nodegauge measured, or all
    /// runs if it measured none.
    fn latest_ids(&self, limit: Option<usize>) -> rusqlite::Result<Vec<String>> {
        let own_only = RunFilter { limit, own_only: true, ..RunFilter::default() };
        let ids: Vec<String> = self.select_columns("id", &own_only, |row| row.get(0))?;
        if !ids.is_empty() {
            return Ok(ids);
        }
        self.select_columns("id", &RunFilter { own_only: false, ..own_only }, |row| row.get(0))
    }

    /// Returns the newest run whose label `key` has this value; without a key, any label may have it.
    fn newest_with(&self, key: Option<&str>, value: &str) -> rusqlite::Result<Option<String>> {
        Ok(self.all_with(key, value)?.into_iter().next())
    }

    /// Returns the runs whose label `key` has this value, newest first; without a key, any label may have it.
    fn all_with(&self, key: Option<&str>, value: &str) -> rusqlite::Result<Vec<String>> {
        collect_newest_first(usize::MAX, |of_time, _| {
            self.connection
                .prepare(&format!(
                    "SELECT DISTINCT id, started FROM run JOIN label ON label.run = run.id
                     WHERE value = ?2 AND (?1 IS NULL OR key = ?1) AND {of_time}
                     ORDER BY started DESC, id DESC"
                ))?
                .query_map((key, value), |row| row.get(0))?
                .collect()
        })
    }

    /// Returns at most [`MAX_SUGGESTIONS`] identifiers with a prefix, newest first.
    fn with_prefix(&self, prefix: &str) -> rusqlite::Result<Vec<String>> {
        if prefix.is_empty() {
            return Ok(Vec::new());
        }
        // Every character of an identifier sorts before the tilde, so the prefix with a tilde is an upper bound. An
        // identifier that equals the prefix comes first.
        let matching = "SELECT id FROM run WHERE id >= ?1 AND id < ?2";
        self.connection
            .prepare(&format!("{matching} ORDER BY id = ?1 DESC, id DESC LIMIT ?3"))?
            .query_map(params![prefix, format!("{prefix}~"), MAX_SUGGESTIONS], |row| row.get(0))?
            .collect()
    }

    /// Returns selectors that are similar to `selector`, most similar first.
    fn similar_selectors(&self, selector: &str) -> rusqlite::Result<Vec<String>> {
        Ok(match Selector::from(selector) {
            Selector::Latest(_) => match self.latest_ids(None)?.len() {
                0 => Vec::new(),
                1 => vec!["latest".to_owned()],
                2 => vec!["latest".to_owned(), "latest~1".to_owned()],
                n => vec!["latest".to_owned(), format!("latest~1 to latest~{}", n - 1)],
            },
            Selector::Label(..) => nearest(selector, self.all_labels()?),
            Selector::Word(word) => {
                let mut known = self.all_ids()?;
                known.extend(self.all_labels()?);
                nearest(&word.to_ascii_uppercase(), known)
            }
        })
    }

    /// Returns the identifiers of all runs.
    fn all_ids(&self) -> rusqlite::Result<Vec<String>> {
        self.select_columns("id", &RunFilter::default(), |row| row.get(0))
    }

    /// Returns all labels as `key=value`.
    fn all_labels(&self) -> rusqlite::Result<Vec<String>> {
        let labels = "SELECT DISTINCT key || '=' || value FROM label ORDER BY 1";
        self.connection.prepare(labels)?.query_map([], |row| row.get(0))?.collect()
    }
}

/// Returns the texts in `known` that are most similar to `typed`. If none is similar, returns the first texts.
fn nearest(typed: &str, mut known: Vec<String>) -> Vec<String> {
    let mut similar: Vec<String> =
        known.iter().filter(|text| similarity(typed, text) >= MIN_SIMILARITY).cloned().collect();
    if similar.is_empty() {
        known.truncate(MAX_SUGGESTIONS);
        return known;
    }
    similar.sort_by(|a, b| similarity(typed, b).total_cmp(&similarity(typed, a)));
    similar.truncate(MAX_SUGGESTIONS);
    similar
}

/// Returns the similarity, 0 to 1, of a typed text to a label or identifier. The typed text may also be only the value
/// of the label.
fn similarity(typed: &str, text: &str) -> f64 {
    let whole = strsim::jaro_winkler(typed, text);
    match text.split_once('=') {
        Some((_, value)) => whole.max(strsim::jaro_winkler(typed, &value.to_ascii_uppercase())),
        None => whole,
    }
}
