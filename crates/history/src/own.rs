//! Saved figures that were measured on this node. New runs and verdicts read saved figures only through this module.

use crate::error::{Access, HistoryError};
use crate::list::RunFilter;
use crate::order::collect_newest_first;
use crate::store::Store;
use nodegauge_measure::record::{Category, Record, SavedRoundTrips, Status};
use rusqlite::params;
use std::collections::BTreeSet;

/// Maximum number of saved runs of a test from which the run-to-run variation is estimated.
const MAX_RELATED_RUNS: u32 = 40;
/// Number of runs from which core-to-core round trips are read. It is about the number of runs per day, and reading
/// them takes 0.1 s.
const LATEST: usize = 20;

impl Store {
    /// Returns the newest complete runs on `host` with figures of `test`, or with the figure `name` of that test. Each
    /// record contains only the valid and suspect figures that this run measured. Imported runs, published figures, and
    /// output of other programs are left out.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn own_runs(
        &self,
        host: Option<&str>,
        test: &str,
        name: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, HistoryError> {
        let found = collect_newest_first(limit as usize, |of_time, max| {
            self.connection
                .prepare(&format!(
                    "SELECT id FROM run
                     WHERE own AND complete AND host IS ?1 AND {of_time}
                       AND EXISTS (
                           SELECT 1 FROM measurement
                           WHERE run = run.id AND test = ?2 AND (?3 IS NULL OR name = ?3)
                             AND category <> 'reference' AND status <> 'invalid')
                     ORDER BY started DESC, id DESC LIMIT ?4"
                ))?
                .query_map(params![host, test, name, max as i64], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<String>>>()
        });
        let found = found.map_err(self.error_translator(Access::Read))?;
        found.iter().map(|id| self.own_record(id)).collect()
    }

    /// Returns a saved run with only those valid and suspect figures that were measured on this node.
    fn own_record(&self, id: &str) -> Result<Record, HistoryError> {
        let mut record = self.read_record(id)?;
        record.keep_own_host();
        record
            .measurements
            .retain(|m| m.category != Category::Reference && m.validity.status != Status::Invalid);
        Ok(record)
    }

    /// Returns other saved runs of the same node that contain figures of the same tests, newest first.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn related_runs(&self, runs: &[Record]) -> Result<Vec<Record>, HistoryError> {
        let mut related: Vec<Record> = Vec::new();
        let host = runs.first().and_then(|run| run.machine.host.as_deref());
        let tests = runs.iter().flat_map(|run| &run.measurements).map(|m| m.test.as_str());
        for test in tests.collect::<BTreeSet<_>>() {
            let for_test = self.own_runs(host, test, None, MAX_RELATED_RUNS)?;
            let others = for_test.into_iter().filter(|run| runs.iter().all(|own| own.id != run.id));
            related.extend(others);
        }
        related.sort_by(|x, y| y.id.cmp(&x.id));
        related.dedup_by(|x, y| x.id == y.id);
        Ok(related)
    }

    /// Returns the core-to-core round trips of the latest runs on `host`. Runs that cannot be read are skipped.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn saved_round_trips(&self, host: Option<&str>) -> Result<SavedRoundTrips, HistoryError> {
        let host = host.map(str::to_owned);
        let latest =
            RunFilter { limit: Some(LATEST), host, own_only: true, ..RunFilter::default() };
        let ids = self.ids(&latest)?;
        let mut runs: Vec<Record> = ids.into_iter().filter_map(|id| self.find(&id).ok()).collect();
        runs.iter_mut().for_each(Record::keep_own_host);
        let figures = runs.iter().flat_map(|run| &run.measurements);
        Ok(SavedRoundTrips::from_figures(figures.filter(|m| m.category == Category::Variant)))
    }
}
