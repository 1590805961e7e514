//! Records from other histories.

use crate::error::{Access, HistoryError};
use crate::selector;
use crate::store::Store;
use nodegauge_measure::Failure;
use nodegauge_measure::record::Record;
use rusqlite::OptionalExtension;
use serde::de::IgnoredAny;
use std::path::Path;

/// What became of records that were imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// How many are saved now.
    pub saved: usize,
    /// How many were saved before.
    pub known: usize,
}

/// The records in the text of a file, one after another, as `history export` and `--json` write them; `None`
/// when it begins with something else. What is wrong names the line.
pub fn records<'a>(
    path: &'a Path,
    text: &'a str,
) -> Option<impl Iterator<Item = Result<Record, HistoryError>> + 'a> {
    let first = text.trim_start().strip_prefix('{')?;
    if !first.trim_start().starts_with("\"schema\"") {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let (mut from, mut line) = (0, 1);
    Some(std::iter::from_fn(move || {
        let value = values.next()?;
        let to = values.byte_offset();
        let whole = value.map_err(|error| error.to_string());
        let record = whole.and_then(|_| selector::parse(&text[from..to]));
        let begins = from + text[from..].len() - text[from..].trim_start().len();
        line += text[from..begins].matches('\n').count();
        let refusal = |cause| -> HistoryError {
            let shown = path.display();
            Failure::usage(format!("{shown}, record at line {line}"))
                .cause(cause)
                .hint("give a file that history export or --json wrote, whole")
                .into()
        };
        let record = record.map_err(refusal);
        line += text[begins..to.max(begins)].matches('\n').count();
        from = to.max(begins);
        Some(record)
    }))
}

impl Store {
    /// Saves records of another history under their identifiers, as runs that are not this node's own; all of
    /// them or, where one is refused, none. One that is saved already is left as it is, with its labels of
    /// today.
    ///
    /// # Errors
    /// What `records` fails with, a record that has no identifier of nodegauge's, or one that differs from
    /// the run of its identifier; and when they cannot be written.
    pub fn import(
        &mut self,
        records: impl Iterator<Item = Result<Record, HistoryError>>,
    ) -> Result<Imported, HistoryError> {
        let transaction = self.begin()?;
        let mut imported = Imported::default();
        for record in records {
            let record = record?;
            match self.saved(&record.id)? {
                Some(saved)
                    if Record { labels: saved.labels.clone(), ..record.clone() } == saved =>
                {
                    imported.known += 1;
                }
                Some(_) => {
                    let (id, path) = (&record.id, self.path().display());
                    return Err(Failure::usage(format!(
                        "run {id} is in history database {path} with other content: nothing \
                             is imported"
                    ))
                    .hint(format!(
                        "nodegauge history remove {id}, or import into another --db FILE"
                    ))
                    .into());
                }
                None => {
                    self.insert(&record, false)?;
                    imported.saved += 1;
                }
            }
        }
        transaction.commit().map_err(self.failed(Access::Write))?;
        Ok(imported)
    }

    /// The run of this very identifier.
    fn saved(&self, id: &str) -> Result<Option<Record>, HistoryError> {
        // What a file says may be anything; an identifier is printed, typed and matched by its beginning.
        if id.len() != ID || !id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
            return Err(Failure::usage(format!("{id:?} is no identifier of a run"))
                .hint("import what history export wrote")
                .into());
        }
        let there = self
            .connection
            .prepare_cached("SELECT 1 FROM run WHERE id = ?1")
            .and_then(|mut found| found.query_row([id], |_| Ok(())).optional())
            .map_err(self.failed(Access::Read))?;
        there.map(|()| self.record(id)).transpose()
    }
}

/// Characters of an identifier, a ULID.
const ID: usize = 26;
