//! Import of records from other histories.

use crate::error::{Access, HistoryError};
use crate::moment::latest_plausible_start;
use crate::store::Store;
use nodegauge_measure::keys::FormerNames;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{self, Record};
use nodegauge_measure::{Failure, legible, printed};
use nodegauge_os::{Wait, wait_whole_time};
use rusqlite::OptionalExtension;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

/// Result of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportResult {
    /// Number of records that the import saved.
    pub saved: usize,
    /// Number of records that had already been saved.
    pub known: usize,
}

/// Returns the records in a file that `history export` or `--json` wrote; `None` if the text does not begin with a
/// record. `names` are the former names of configuration keys. Errors contain the line number.
pub fn read_records<'a>(
    path: &'a Path,
    text: &'a str,
    names: &'a FormerNames,
) -> Option<impl Iterator<Item = Result<Record, HistoryError>> + 'a> {
    let text = printed::without_byte_order_mark(text);
    let first = text.trim_start().strip_prefix('{')?;
    if !first.trim_start().starts_with("\"schema\"") {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut from = 0;
    let mut line = 1;
    Some(std::iter::from_fn(move || {
        let value = values.next()?;
        let to = values.byte_offset();
        let whole = value.map_err(|error| error.to_string());
        let record = whole.and_then(|_| record::parse(&text[from..to], names));
        let begins = from + text[from..].len() - text[from..].trim_start().len();
        line += text[from..begins].matches('\n').count();
        let record = record.map_err(|cause| -> HistoryError {
            let shown = legible::path(path);
            Failure::usage(format!("{shown}, record at line {line}"))
                .cause(cause)
                .hint("give a complete file from history export or --json")
                .into()
        });
        line += text[begins..to.max(begins)].matches('\n').count();
        from = to.max(begins);
        Some(record)
    }))
}

impl Store {
    /// Saves records of another history, marked as imported, with unchanged identifiers. A record that is already saved
    /// is not changed and keeps its labels. `records` is called twice: a first pass checks all records, so that nothing
    /// is saved if one of them is refused. Records are committed in portions, so that other programs can save runs
    /// between the portions.
    ///
    /// # Errors
    /// Fails if `records` returns an error, if a record has no valid identifier, start or figures, or if it differs
    /// from the saved run with the same identifier. If writing fails, earlier portions stay saved, and a second import
    /// saves the remaining records.
    pub fn import<R>(&mut self, records: impl Fn() -> R) -> Result<ImportResult, HistoryError>
    where
        R: Iterator<Item = Result<Record, HistoryError>>,
    {
        self.import_in_portions(records, PORTION)
    }

    pub(crate) fn import_in_portions<R>(
        &mut self,
        records: impl Fn() -> R,
        portion: Duration,
    ) -> Result<ImportResult, HistoryError>
    where
        R: Iterator<Item = Result<Record, HistoryError>>,
    {
        let mut imported = ImportResult::default();
        let mut first_two = records().take(2);
        if let (Some(only), None) = (first_two.next(), first_two.next()) {
            self.import_portion(std::iter::once(only), portion, &mut imported)?;
            return Ok(imported);
        }
        self.check(records())?;
        let mut records = records().peekable();
        while records.peek().is_some() {
            if imported != ImportResult::default() {
                wait_whole_time(&Wait::within(PAUSE));
            }
            self.import_portion(&mut records, portion, &mut imported)?;
        }
        Ok(imported)
    }

    /// Checks that all records can be imported.
    fn check(
        &self,
        records: impl Iterator<Item = Result<Record, HistoryError>>,
    ) -> Result<(), HistoryError> {
        let mut seen: HashMap<String, u64> = HashMap::new();
        for record in records {
            let record = Record { labels: BTreeMap::new(), ..record? };
            check_plausible(&record)?;
            self.is_saved(&record)?;
            let digest = digest(&record)?;
            if seen.insert(record.id.clone(), digest).is_some_and(|other| other != digest) {
                return Err(self.other_content(&record.id));
            }
        }
        Ok(())
    }

    /// Imports records in one transaction until `portion` has elapsed.
    fn import_portion(
        &mut self,
        records: impl Iterator<Item = Result<Record, HistoryError>>,
        portion: Duration,
        imported: &mut ImportResult,
    ) -> Result<(), HistoryError> {
        let whole = self.import_whole_portion(records, portion, *imported);
        *imported = whole.map_err(|error| error.with_saved(imported.saved))?;
        Ok(())
    }

    /// Imports one portion in a transaction. Returns `counts`, increased by its records.
    fn import_whole_portion(
        &self,
        records: impl Iterator<Item = Result<Record, HistoryError>>,
        portion: Duration,
        mut counts: ImportResult,
    ) -> Result<ImportResult, HistoryError> {
        let transaction = self.begin()?;
        let started = Instant::now();
        for record in records {
            let record = record?;
            check_plausible(&record)?;
            if self.is_saved(&record)? {
                counts.known += 1;
            } else {
                self.insert(&record, false)?;
                counts.saved += 1;
            }
            if started.elapsed() >= portion {
                break;
            }
        }
        transaction.commit().map_err(self.error_translator(Access::Write))?;
        Ok(counts)
    }

    /// True if the record has already been saved; its labels may differ.
    ///
    /// Fails if the saved run differs in anything else.
    fn is_saved(&self, record: &Record) -> Result<bool, HistoryError> {
        let Some(saved) = self.saved(&record.id)? else { return Ok(false) };
        if (Record { labels: saved.labels.clone(), ..record.clone() }) == saved {
            return Ok(true);
        }
        Err(self.other_content(&record.id))
    }

    fn other_content(&self, id: &str) -> HistoryError {
        let path = legible::path(self.path());
        let id = legible::escape_controls(id);
        Failure::usage(format!("run {id} is in history database {path} with different content"))
            .hint(format!("nodegauge history remove {id}, or import into another --db FILE"))
            .into()
    }

    /// Returns the saved run with exactly this identifier; `None` if there is none.
    ///
    /// Fails if the identifier has a wrong length or other characters.
    fn saved(&self, id: &str) -> Result<Option<Record>, HistoryError> {
        // The text of a file is untrusted. Identifiers are printed, typed by users and matched by prefix, so their
        // characters are checked.
        if id.len() != ID || !id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
            return Err(Failure::usage(format!("invalid run identifier {id:?}"))
                .hint("import a file that `nodegauge history export` wrote")
                .into());
        }
        let there = self
            .connection
            .prepare_cached("SELECT 1 FROM run WHERE id = ?1")
            .and_then(|mut found| found.query_row([id], |_| Ok(())).optional())
            .map_err(self.error_translator(Access::Read))?;
        there.map(|()| self.read_record(id)).transpose()
    }
}

impl HistoryError {
    /// Adds to the error of an import that `runs` runs have been saved in earlier portions.
    fn with_saved(self, runs: usize) -> Self {
        if runs == 0 {
            return self;
        }
        let is_busy = matches!(self, Self::Busy(_));
        let failure = Failure::from(self);
        let imported = count_in_words(runs, "run");
        let text = format!("{}; {imported} imported before the error", failure.problem());
        let failure =
            Failure::new(failure.kind, text).hint("import the same file again to import the rest");
        if is_busy { Self::Busy(failure) } else { Self::Failed(failure) }
    }
}

/// Checks that a record is plausible: its start is a time in the past, and its times and figures are not negative. Runs
/// are sorted by the text of their start, so only the format that nodegauge writes is accepted.
fn check_plausible(record: &Record) -> Result<(), HistoryError> {
    let started = legible::escape_controls(&record.started);
    if record::parse_rfc3339(&record.started).and_then(record::format_rfc3339).as_ref()
        != Some(&record.started)
    {
        let cause =
            format!("it starts at \"{started}\", which is not a time such as 2026-11-21T20:00:00Z");
        return Err(implausible(
            record,
            &cause,
            "import a file that `nodegauge history export` wrote",
        ));
    }
    if record.started > latest_plausible_start() {
        let cause = format!("it starts at {started}, which is in the future");
        let hint = "check the clocks, and leave this run out of the export";
        return Err(implausible(record, &cause, hint));
    }
    if record.seconds.0 < 0.0 {
        let cause = format!("it lasts {} s", record.seconds.0);
        return Err(implausible(
            record,
            &cause,
            "import a file that `nodegauge history export` wrote",
        ));
    }
    let negative = record
        .measurements
        .iter()
        .find(|m| m.value.into_iter().chain(m.samples.iter().copied()).any(|value| value < 0.0));
    if let Some(m) = negative {
        let name = format!("{} {}", m.test, m.name);
        let cause = format!("its figure {} is negative", legible::escape_controls(&name));
        return Err(implausible(
            record,
            &cause,
            "import a file that `nodegauge history export` wrote",
        ));
    }
    Ok(())
}

/// Creates the error for an implausible record.
fn implausible(record: &Record, cause: &str, hint: &str) -> HistoryError {
    let id = legible::escape_controls(&record.id);
    Failure::usage(format!("cannot import run {id}: {cause}")).hint(hint).into()
}

/// Returns a hash of a record. Records with the same hash are treated as equal.
fn digest(record: &Record) -> Result<u64, HistoryError> {
    let json = record.to_json().map_err(|cause| {
        Failure::usage(format!("cannot compare run {} with the saved run", record.id)).cause(cause)
    })?;
    let mut hasher = DefaultHasher::new();
    json.hash(&mut hasher);
    Ok(hasher.finish())
}

/// Maximum time for which an import holds the write lock. It is shorter than the time for which other programs wait.
const PORTION: Duration = Duration::from_secs(1);
/// Time between portions. It is longer than the 100 ms after which a waiting program tries to take the lock again.
const PAUSE: Duration = Duration::from_millis(150);

/// Number of characters of an identifier (a ULID).
const ID: usize = 26;
