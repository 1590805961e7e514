//! Saved figures of a node. New runs and verdicts read saved figures only through this module.

use crate::error::{Access, HistoryError};
use crate::store::Store;
use nodegauge_measure::record::{Category, Record, Status};
use rusqlite::params;

impl Store {
    /// Returns the newest complete runs on `host` that measured `test`, or the figure `name` of it, newest
    /// first. Each record contains only the valid and suspect figures that the run itself measured. Runs from
    /// another history, published figures, and output of other programs are left out.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn own_runs(
        &self,
        host: Option<&str>,
        test: &str,
        name: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, HistoryError> {
        let ids = || -> rusqlite::Result<Vec<String>> {
            self.connection
                .prepare(
                    "SELECT id FROM run
                     WHERE own AND complete AND host IS ?1
                       AND EXISTS (
                           SELECT 1 FROM measurement
                           WHERE run = run.id AND test = ?2 AND (?3 IS NULL OR name = ?3)
                             AND category <> 'reference' AND status <> 'invalid')
                     ORDER BY started DESC, id DESC LIMIT ?4",
                )?
                .query_map(params![host, test, name, limit], |row| row.get(0))?
                .collect()
        };
        let own = |id: &String| {
            let mut record = self.record(id)?;
            record.measurements.retain(|m| {
                m.category != Category::Reference && m.validity.status != Status::Invalid
            });
            Ok(record)
        };
        ids().map_err(self.failed(Access::Read))?.iter().map(own).collect()
    }
}
