//! Lists of saved runs, newest first, with one line per run. Records are not parsed for a list.

use crate::error::{Access, HistoryError};
use crate::moment::{DayOrSecond, latest_plausible_start};
use crate::order::collect_newest_first;
use crate::store::Store;
use nodegauge_measure::record::MachineSource;
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Seconds, Unit};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};
use serde::Serialize;
use std::collections::BTreeMap;

/// Selection of the runs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Maximum number of runs.
    pub limit: Option<usize>,
    /// Only runs on this host.
    pub host: Option<String>,
    /// Only runs with all these labels.
    pub labels: Vec<(String, String)>,
    /// Only runs with a label of this key or value, or with the label `key=value`.
    pub any_label: Option<String>,
    /// Only runs with figures of one of these tests; an empty list selects all runs.
    pub tests: Vec<&'static str>,
    /// Only runs that started at this time or later.
    pub since: Option<DayOrSecond>,
    /// Only runs that started before the end of this day or second.
    pub until: Option<DayOrSecond>,
    /// True to leave out imported runs.
    pub own_only: bool,
}

/// Saved run, as shown in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRun {
    /// Identifier of the run.
    pub id: String,
    /// Start time, RFC 3339.
    pub started: String,
    /// Elapsed time.
    pub seconds: Seconds,
    /// Name of the host.
    pub host: Option<String>,
    /// Command line without the program name, separated by blanks.
    pub command: String,
    /// True if all planned figures were measured.
    pub complete: bool,
    /// True for a run of this node; false for a run that was imported from another history.
    pub own: bool,
    /// Labels of the run.
    pub labels: BTreeMap<String, String>,
    /// Figures of nodegauge, grouped by name. Figures of reference programs and publications are left out.
    pub figures: Vec<ListedFigures>,
    /// Source file, for imported output of another program.
    #[serde(skip)]
    pub imported_from: Option<String>,
}

/// Summary of the runs that share a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledRuns {
    /// Value of the label.
    pub value: String,
    /// Start time of the first run, RFC 3339.
    pub first_start: String,
    /// Number of runs that share the label.
    pub runs: usize,
}

/// Figures with the same name in a listed run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedFigures {
    /// Name of the gauge.
    pub gauge: String,
    /// Name of the test.
    pub test: String,
    /// Name of the figures.
    pub name: String,
    /// Unit; `None` if this version of the program does not know the unit.
    pub unit: Option<Unit>,
    /// Best value; if the unit has no better direction, the largest value. `None` without a valid result.
    pub best: Option<f64>,
    /// Number of figures with this name.
    pub count: usize,
    /// Number of suspect figures with this name.
    pub suspect: usize,
}

impl RunFilter {
    /// Returns the SQL conditions of the filter, joined by AND, and the values for their question marks.
    fn conditions(&self) -> (String, Vec<Value>) {
        let mut found = SqlConditions { sql: "1".to_owned(), values: Vec::new() };
        if let Some(host) = &self.host {
            found.and("host = ?", [host.clone()]);
        }
        for (key, value) in &self.labels {
            let label = "id IN (SELECT run FROM label WHERE key = ? AND value = ?)";
            found.and(label, [key.clone(), value.clone()]);
        }
        if let Some(label) = &self.any_label {
            let (key, value, operator) = match label.split_once('=') {
                Some((key, value)) => (key, value, "AND"),
                None => (label.as_str(), label.as_str(), "OR"),
            };
            let labelled =
                format!("id IN (SELECT run FROM label WHERE key = ? {operator} value = ?)");
            found.and(&labelled, [key.to_owned(), value.to_owned()]);
        }
        if !self.tests.is_empty() {
            let marks = vec!["?"; self.tests.len()].join(", ");
            let one = "EXISTS (SELECT 1 FROM measurement WHERE run = run.id AND test IN";
            let tests = self.tests.iter().map(|test| (*test).to_owned());
            found.and(&format!("{one} ({marks}))"), tests);
        }
        if let Some(since) = &self.since {
            found.and("started >= ?", [since.first()]);
        }
        if let Some(until) = &self.until {
            found.and("started < ?", [until.end()]);
        }
        if self.own_only {
            found.and("own", []);
        }
        (found.sql, found.values)
    }
}

/// SQL conditions joined by AND, with the values for their question marks.
struct SqlConditions {
    sql: String,
    values: Vec<Value>,
}

impl SqlConditions {
    /// Adds a condition with its values.
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = String>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values.into_iter().map(Value::Text));
    }
}

impl Store {
    /// Returns the saved runs, newest first.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<ListedRun>, HistoryError> {
        let lines = || -> rusqlite::Result<Vec<ListedRun>> {
            // The JSON of own records is not parsed, to save time. For an import, the last argument of the command is
            // the file.
            let columns = format!(
                "id, started, seconds, host, command, complete, own,
                 CASE WHEN NOT own AND json_extract(record, '$.machine.source') = '{}'
                      THEN coalesce(json_extract(record, '$.command[#-1]'), '') END",
                MachineSource::Import.name()
            );
            let mut lines = self.select_columns(&columns, filter, |row| {
                Ok(ListedRun {
                    id: row.get(0)?,
                    started: row.get(1)?,
                    seconds: Seconds(row.get(2)?),
                    host: row.get(3)?,
                    command: row.get(4)?,
                    complete: row.get(5)?,
                    own: row.get(6)?,
                    labels: BTreeMap::new(),
                    figures: Vec::new(),
                    imported_from: row.get(7)?,
                })
            })?;
            for line in &mut lines {
                line.labels = self.labels(&line.id)?;
                // The figures of an imported output are reference figures. For other runs, reference figures are left
                // out.
                line.figures = self.figures(&line.id, line.imported_from.is_some())?;
            }
            Ok(lines)
        };
        lines().map_err(self.error_translator(Access::Read))
    }

    /// Returns the identifiers of the saved runs, newest first.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn ids(&self, filter: &RunFilter) -> Result<Vec<String>, HistoryError> {
        self.select_columns("id", filter, |row| row.get(0))
            .map_err(self.error_translator(Access::Read))
    }

    /// Returns the number of selected runs; the limit of the filter is ignored.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn count(&self, filter: &RunFilter) -> Result<usize, HistoryError> {
        let (conditions, values) = filter.conditions();
        self.connection
            .prepare(&format!("SELECT count(*) FROM run WHERE {conditions}"))
            .and_then(|mut found| found.query_row(params_from_iter(values), |row| row.get(0)))
            .map_err(self.error_translator(Access::Read))
    }

    /// Returns the runs with this value of a label. Without a value, returns the runs with the value that the newest
    /// run with this label has. Only runs that were measured on `host` count, without imported runs.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn runs_with_label(
        &self,
        host: Option<&str>,
        key: &str,
        value: Option<&str>,
    ) -> Result<Option<LabelledRuns>, HistoryError> {
        self.connection
            .prepare(
                "SELECT value, min(started), count(*) FROM label JOIN run ON label.run = run.id
                 WHERE key = ?1 AND (?2 IS NULL OR value = ?2) AND host IS ?3 AND own
                 GROUP BY value ORDER BY max(iif(started <= ?4, started, '')) DESC LIMIT 1",
            )
            .and_then(|mut found| {
                found
                    .query_row((key, value, host, latest_plausible_start()), labelled_runs)
                    .optional()
            })
            .map_err(self.error_translator(Access::Read))
    }

    /// Returns the minimum prefix length, at least `min`, that distinguishes the identifiers of these runs from all
    /// other saved identifiers.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn distinct_prefix_length(
        &self,
        lines: &[ListedRun],
        min: usize,
    ) -> Result<usize, HistoryError> {
        let mut length = min;
        for line in lines {
            let neighbours =
                self.neighbours(&line.id).map_err(self.error_translator(Access::Read))?;
            for other in neighbours.iter().flatten() {
                let common = line.id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                length = length.max(common + 1);
            }
        }
        Ok(length)
    }

    /// Returns the saved identifiers directly before and after an identifier, in alphabetical order.
    fn neighbours(&self, id: &str) -> rusqlite::Result<[Option<String>; 2]> {
        self.connection
            .prepare_cached(
                "SELECT (SELECT max(id) FROM run WHERE id < ?1), (SELECT min(id) FROM run WHERE id > ?1)",
            )?
            .query_row([id], |row| Ok([row.get(0)?, row.get(1)?]))
    }

    /// Reads columns of the selected runs, newest first.
    pub(crate) fn select_columns<T>(
        &self,
        columns: &str,
        filter: &RunFilter,
        mut of: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let (conditions, values) = filter.conditions();
        let newest = "ORDER BY started DESC, id DESC LIMIT ?";
        collect_newest_first(filter.limit.unwrap_or(usize::MAX), |of_time, max| {
            let max = Value::Integer(i64::try_from(max).unwrap_or(-1));
            let values = values.iter().cloned().chain([max]);
            let sql =
                format!("SELECT {columns} FROM run WHERE {conditions} AND {of_time} {newest}");
            self.connection.prepare(&sql)?.query_map(params_from_iter(values), &mut of)?.collect()
        })
    }

    fn figures(&self, id: &str, others: bool) -> rusqlite::Result<Vec<ListedFigures>> {
        let result = "CASE status WHEN 'invalid' THEN NULL ELSE value END";
        self.connection
            .prepare_cached(&format!(
                "SELECT gauge, test, name, unit, min({result}), max({result}), count(*),
                        sum(status = 'suspect')
                 FROM measurement WHERE run = ?1 AND (?2 OR category <> 'reference')
                 GROUP BY gauge, test, name, unit ORDER BY min(position)"
            ))?
            .query_map((id, others), |row| {
                let unit = Unit::from_symbol(&row.get::<_, String>(3)?);
                let lower = unit.is_some_and(|unit| unit.better() == BetterDirection::Lower);
                Ok(ListedFigures {
                    gauge: row.get(0)?,
                    test: row.get(1)?,
                    name: row.get(2)?,
                    unit,
                    best: row.get(if lower { 4 } else { 5 })?,
                    count: row.get(6)?,
                    suspect: row.get(7)?,
                })
            })?
            .collect()
    }

    /// Returns the labels of a run.
    pub(crate) fn labels(&self, id: &str) -> rusqlite::Result<BTreeMap<String, String>> {
        self.connection
            .prepare_cached("SELECT key, value FROM label WHERE run = ?1")?
            .query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }
}

/// Reads the summary of runs that share a label from a row.
fn labelled_runs(row: &Row<'_>) -> rusqlite::Result<LabelledRuns> {
    Ok(LabelledRuns { value: row.get(0)?, first_start: row.get(1)?, runs: row.get(2)? })
}
