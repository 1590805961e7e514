//! From what a user typed to a saved run, and what comes near when there is none.

use crate::error::{Access, HistoryError};
use crate::selector::{self, Selector};
use crate::store::Store;
use nodegauge_measure::Failure;
use nodegauge_measure::record::Record;
use rusqlite::{OptionalExtension, params};
use std::path::Path;

/// What is offered when nothing is found.
const OFFERED: usize = 5;
/// Jaro-Winkler similarity from which a text may have been meant: two letters exchanged in a word
/// of four give 0.9, an unrelated label mostly less than 0.5.
const ALIKE: f64 = 0.7;
/// Shortest beginning of an identifier that names a run: identifiers begin with the time, and one
/// or two characters typed by mistake should not remove a run.
const SHORTEST: usize = 4;

impl Store {
    /// The record that `selector` names: an identifier or its beginning of four characters or
    /// more, `latest`, `latest~N`, a label `key=value` or its value alone (the newest run with
    /// it), or a file that holds a record. What is saved comes before a file of the same name.
    ///
    /// # Errors
    /// When there is none, several begin like that, or the file is no record.
    pub fn find(&self, selector: &str) -> Result<Record, HistoryError> {
        let id = match self.resolve(selector) {
            Err(HistoryError::NotFound { .. }) if selector::means_a_file(selector) => {
                return selector::read_file(Path::new(selector));
            }
            resolved => resolved?,
        };
        self.record(&id)
    }

    /// All records that `selector` names, newest first: those with a label, where [`Store::find`]
    /// takes the newest; else the one that it finds.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub fn find_all(&self, selector: &str) -> Result<Vec<Record>, HistoryError> {
        let label = match Selector::from(selector) {
            Selector::Latest(_) => None,
            Selector::Label(key, value) => Some((Some(key), value)),
            // A word may be an identifier as well as the value of a label.
            Selector::Word(word) => self
                .resolve(selector)
                .is_ok_and(|id| !id.starts_with(&word.to_ascii_uppercase()))
                .then_some((None, word)),
        };
        let ids = match label {
            Some((key, value)) => {
                self.all_with(key.as_deref(), &value).map_err(self.failed(Access::Read))?
            }
            None => Vec::new(),
        };
        match ids.is_empty() {
            true => Ok(vec![self.find(selector)?]),
            false => ids.iter().map(|id| self.record(id)).collect(),
        }
    }

    /// The record of this identifier, with its labels of today.
    pub(crate) fn record(&self, id: &str) -> Result<Record, HistoryError> {
        let failed = self.failed(Access::Read);
        let text: String = self
            .connection
            .prepare_cached("SELECT record FROM run WHERE id = ?1")
            .and_then(|mut found| found.query_row([id], |row| row.get(0)))
            .map_err(&failed)?;
        let mut record = selector::parse(&text)
            .map_err(|cause| HistoryError::unreadable(self.path(), format!("run {id}: {cause}")))?;
        // Labels may have changed since.
        record.labels = self.labels(id).map_err(failed)?;
        Ok(record)
    }

    /// The identifier of the saved run that `selector` names.
    pub(crate) fn resolve(&self, selector: &str) -> Result<String, HistoryError> {
        let failed = self.failed(Access::Read);
        let found = match Selector::from(selector) {
            Selector::Latest(back) => self.nth_newest(back),
            Selector::Label(key, value) => self.newest_with(Some(&key), &value),
            Selector::Word(word) => {
                // Identifiers are upper-case; nobody should have to type them so.
                let prefix = word.to_ascii_uppercase();
                let mut begin_so = self.with_prefix(&prefix).map_err(&failed)?;
                if begin_so.contains(&prefix) {
                    return Ok(prefix);
                }
                if begin_so.len() == 1 && prefix.len() >= SHORTEST {
                    return Ok(begin_so.remove(0));
                }
                let offered = begin_so.join(", ");
                if begin_so.len() > 1 && prefix.len() >= SHORTEST {
                    return Err(Failure::usage(format!(
                        "'{selector}' is the beginning of several runs: {offered}"
                    ))
                    .hint("give more of the identifier")
                    .into());
                }
                match self.newest_with(None, &word).map_err(&failed)? {
                    None if !begin_so.is_empty() => {
                        return Err(Failure::usage(format!(
                            "'{selector}' is too short for a run; it begins {offered}"
                        ))
                        .hint(format!("give at least {SHORTEST} characters of the identifier"))
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
                candidates: self.near(selector).map_err(failed)?,
            }),
        }
    }

    fn nth_newest(&self, back: u32) -> rusqlite::Result<Option<String>> {
        self.connection
            .query_row(
                "SELECT id FROM run ORDER BY started DESC, id DESC LIMIT 1 OFFSET ?1",
                [back],
                |row| row.get(0),
            )
            .optional()
    }

    /// The newest run with this value of the label `key`, or of any label.
    fn newest_with(&self, key: Option<&str>, value: &str) -> rusqlite::Result<Option<String>> {
        Ok(self.all_with(key, value)?.into_iter().next())
    }

    /// The runs with this value of the label `key`, or of any label, newest first.
    fn all_with(&self, key: Option<&str>, value: &str) -> rusqlite::Result<Vec<String>> {
        self.connection
            .prepare(
                "SELECT DISTINCT id, started FROM run JOIN label ON label.run = run.id
                 WHERE value = ?2 AND (?1 IS NULL OR key = ?1)
                 ORDER BY started DESC, id DESC",
            )?
            .query_map((key, value), |row| row.get(0))?
            .collect()
    }

    /// The newest few that begin so.
    fn with_prefix(&self, prefix: &str) -> rusqlite::Result<Vec<String>> {
        if prefix.is_empty() {
            return Ok(Vec::new());
        }
        // No identifier has a character that sorts behind the tilde. A whole one comes first.
        let matching = "SELECT id FROM run WHERE id >= ?1 AND id < ?2";
        self.connection
            .prepare(&format!("{matching} ORDER BY id = ?1 DESC, id DESC LIMIT ?3"))?
            .query_map(params![prefix, format!("{prefix}~"), OFFERED], |row| row.get(0))?
            .collect()
    }

    /// What can be typed instead of `selector`, nearest first.
    fn near(&self, selector: &str) -> rusqlite::Result<Vec<String>> {
        let texts = |sql: &str| -> rusqlite::Result<Vec<String>> {
            self.connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
        };
        let ids = || texts("SELECT id FROM run ORDER BY started DESC, id DESC");
        let labels = || texts("SELECT DISTINCT key || '=' || value FROM label ORDER BY 1");
        Ok(match Selector::from(selector) {
            Selector::Latest(_) => match ids()?.len() {
                0 => Vec::new(),
                1 => vec!["latest".to_owned()],
                2 => vec!["latest".to_owned(), "latest~1".to_owned()],
                n => vec!["latest".to_owned(), format!("latest~1 to latest~{}", n - 1)],
            },
            Selector::Label(..) => nearest(selector, labels()?),
            Selector::Word(word) => {
                nearest(&word.to_ascii_uppercase(), ids()?.into_iter().chain(labels()?).collect())
            }
        })
    }
}

/// The few of `known` that are most like `typed`, or its first few when none is like it.
fn nearest(typed: &str, mut known: Vec<String>) -> Vec<String> {
    let likeness = |text: &String| {
        let whole = strsim::jaro_winkler(typed, text);
        // A label may have been meant by its value.
        text.split_once('=').map_or(whole, |(_, value)| {
            whole.max(strsim::jaro_winkler(typed, &value.to_ascii_uppercase()))
        })
    };
    let mut like: Vec<String> =
        known.iter().filter(|text| likeness(text) >= ALIKE).cloned().collect();
    if like.is_empty() {
        known.truncate(OFFERED);
        return known;
    }
    like.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    like.truncate(OFFERED);
    like
}
