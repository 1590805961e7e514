//! What is saved, newest first: a line a run, without reading records.

use crate::error::{Access, HistoryError};
use crate::moment::Moment;
use crate::store::Store;
use nodegauge_measure::Unit;
use nodegauge_measure::record::MachineSource;
use nodegauge_measure::stats::Better;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};
use serde::Serialize;
use std::collections::BTreeMap;

/// Which runs to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// At most this many.
    pub limit: Option<usize>,
    /// Only on this host.
    pub host: Option<String>,
    /// Only with all these labels.
    pub labels: Vec<(String, String)>,
    /// Only with a label of this key, of this value, or `key=value`.
    pub labelled: Option<String>,
    /// Only with figures of one of these tests; none for whatever was measured.
    pub tests: Vec<&'static str>,
    /// Only from this moment on.
    pub since: Option<Moment>,
    /// Only until this moment, and all of it.
    pub until: Option<Moment>,
    /// Only what this history's node measured itself.
    pub own: bool,
}

/// A saved run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunLine {
    /// Identifier.
    pub id: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// On which host.
    pub host: Option<String>,
    /// The arguments, separated by blanks.
    pub command: String,
    /// Whether everything was measured.
    pub complete: bool,
    /// Whether this history's node measured it.
    pub own: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its figures, none of a program or a publication beside it; those of one name together.
    pub figures: Vec<Figures>,
    /// The file that it was read from, for the imported output of another program.
    #[serde(skip)]
    pub imported_from: Option<String>,
}

/// Runs that share a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// The value of the label.
    pub value: String,
    /// When the first of them started, RFC 3339.
    pub first: String,
    /// How many there are.
    pub runs: usize,
}

/// The figures of one name in a run, in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Gauge.
    pub gauge: String,
    /// Test.
    pub test: String,
    /// Name.
    pub name: String,
    /// Unit; `None` for one that this version does not know.
    pub unit: Option<Unit>,
    /// The best of their values, or the greatest where no direction is better; `None` when there was no
    /// valid result.
    pub best: Option<f64>,
    /// How many there are.
    pub count: usize,
}

impl RunFilter {
    /// Conditions on runs, joined by AND, and what stands for their question marks.
    fn conditions(&self) -> (String, Vec<Value>) {
        let mut sql = "1".to_owned();
        let mut values: Vec<Value> = Vec::new();
        let mut and = |condition: &str, of: &mut dyn Iterator<Item = String>| {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.extend(of.map(Value::Text));
        };
        if let Some(host) = &self.host {
            and("host = ?", &mut [host.clone()].into_iter());
        }
        for (key, value) in &self.labels {
            let label = "id IN (SELECT run FROM label WHERE key = ? AND value = ?)";
            and(label, &mut [key.clone(), value.clone()].into_iter());
        }
        if let Some(label) = &self.labelled {
            let (key, value, both) = match label.split_once('=') {
                Some((key, value)) => (key, value, "AND"),
                None => (label.as_str(), label.as_str(), "OR"),
            };
            let label = format!("id IN (SELECT run FROM label WHERE key = ? {both} value = ?)");
            and(&label, &mut [key.to_owned(), value.to_owned()].into_iter());
        }
        if !self.tests.is_empty() {
            let marks = vec!["?"; self.tests.len()].join(", ");
            let one = "EXISTS (SELECT 1 FROM measurement WHERE run = run.id AND test IN";
            let tests = self.tests.iter().map(|test| (*test).to_owned());
            and(&format!("{one} ({marks}))"), &mut tests.into_iter());
        }
        if let Some(since) = &self.since {
            and("started >= ?", &mut [since.first()].into_iter());
        }
        if let Some(until) = &self.until {
            and("started < ?", &mut [until.end()].into_iter());
        }
        if self.own {
            and("own", &mut std::iter::empty());
        }
        (sql, values)
    }
}

impl Store {
    /// The saved runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunLine>, HistoryError> {
        let lines = || -> rusqlite::Result<Vec<RunLine>> {
            // Records of this node are not looked into. The command of an import ends with the file.
            let columns = format!(
                "id, started, seconds, host, command, complete, own,
                 CASE WHEN NOT own AND json_extract(record, '$.machine.source') = '{}'
                      THEN coalesce(json_extract(record, '$.command[#-1]'), '') END",
                MachineSource::Import.name()
            );
            let mut lines = self.runs(&columns, filter, |row| {
                Ok(RunLine {
                    id: row.get(0)?,
                    started: row.get(1)?,
                    seconds: row.get(2)?,
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
                // Reference figures count only for the imported output of another program.
                line.figures = self.figures(&line.id, line.imported_from.is_some())?;
            }
            Ok(lines)
        };
        lines().map_err(self.failed(Access::Read))
    }

    /// The identifiers of the saved runs, newest first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn ids(&self, filter: &RunFilter) -> Result<Vec<String>, HistoryError> {
        self.runs("id", filter, |row| row.get(0)).map_err(self.failed(Access::Read))
    }

    /// How many runs there are, whatever the limit.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn count(&self, filter: &RunFilter) -> Result<usize, HistoryError> {
        let (conditions, values) = filter.conditions();
        self.connection
            .prepare(&format!("SELECT count(*) FROM run WHERE {conditions}"))
            .and_then(|mut found| found.query_row(params_from_iter(values), |row| row.get(0)))
            .map_err(self.failed(Access::Read))
    }

    /// The series of runs that share the value of a label, this one or that of the latest run, among those that
    /// this history's node `host` measured itself.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn series(
        &self,
        host: Option<&str>,
        key: &str,
        value: Option<&str>,
    ) -> Result<Option<Series>, HistoryError> {
        self.connection
            .prepare(
                "SELECT value, min(started), count(*) FROM label JOIN run ON label.run = run.id
                 WHERE key = ?1 AND (?2 IS NULL OR value = ?2) AND host IS ?3 AND own
                 GROUP BY value ORDER BY max(started) DESC LIMIT 1",
            )
            .and_then(|mut found| {
                let series = |row: &Row<'_>| {
                    Ok(Series { value: row.get(0)?, first: row.get(1)?, runs: row.get(2)? })
                };
                found.query_row((key, value, host), series).optional()
            })
            .map_err(self.failed(Access::Read))
    }

    /// Characters of an identifier that tell these runs from all that are saved, `least` or more.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn telling(&self, lines: &[RunLine], least: usize) -> Result<usize, HistoryError> {
        let beside = |id: &str| -> rusqlite::Result<[Option<String>; 2]> {
            self.connection
                .prepare_cached(
                    "SELECT (SELECT max(id) FROM run WHERE id < ?1), (SELECT min(id) FROM run WHERE id > ?1)",
                )?
                .query_row([id], |row| Ok([row.get(0)?, row.get(1)?]))
        };
        let mut telling = least;
        for line in lines {
            for other in beside(&line.id).map_err(self.failed(Access::Read))?.iter().flatten() {
                let alike = line.id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                telling = telling.max(alike + 1);
            }
        }
        Ok(telling)
    }

    fn runs<T>(
        &self,
        columns: &str,
        filter: &RunFilter,
        of: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let (conditions, mut values) = filter.conditions();
        let limit = filter.limit.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
        values.push(Value::Integer(limit));
        let newest = "ORDER BY started DESC, id DESC LIMIT ?";
        self.connection
            .prepare(&format!("SELECT {columns} FROM run WHERE {conditions} {newest}"))?
            .query_map(params_from_iter(values), of)?
            .collect()
    }

    fn figures(&self, id: &str, others: bool) -> rusqlite::Result<Vec<Figures>> {
        let result = "CASE status WHEN 'invalid' THEN NULL ELSE value END";
        self.connection
            .prepare_cached(&format!(
                "SELECT gauge, test, name, unit, min({result}), max({result}), count(*)
                 FROM measurement WHERE run = ?1 AND (?2 OR category <> 'reference')
                 GROUP BY gauge, test, name, unit ORDER BY min(position)"
            ))?
            .query_map((id, others), |row| {
                let unit = Unit::of_symbol(&row.get::<_, String>(3)?);
                let lower = unit.is_some_and(|unit| unit.better() == Better::Lower);
                Ok(Figures {
                    gauge: row.get(0)?,
                    test: row.get(1)?,
                    name: row.get(2)?,
                    unit,
                    best: row.get(if lower { 4 } else { 5 })?,
                    count: row.get(6)?,
                })
            })?
            .collect()
    }

    /// The labels of a run.
    pub(crate) fn labels(&self, id: &str) -> rusqlite::Result<BTreeMap<String, String>> {
        self.connection
            .prepare_cached("SELECT key, value FROM label WHERE run = ?1")?
            .query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    }
}
