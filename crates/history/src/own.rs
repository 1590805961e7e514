//! Figures of a node: the one way by which what was saved comes back into new runs and verdicts.

use crate::error::{Access, HistoryError};
use crate::store::Store;
use nodegauge_measure::record::{Category, IMPORTED, Record, Status};
use rusqlite::params;

impl Store {
    /// The newest complete runs on `host` that measured `test`, or `name` of it, newest first, with what
    /// they measured themselves. Figures that were imported or published, or that another program printed,
    /// are no figures of the node, nor are those without a result.
    ///
    /// # Errors
    /// When the database cannot be read.
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
                     WHERE complete AND host IS ?1
                       AND json_extract(record, '$.machine.source') IS NOT ?2
                       AND EXISTS (
                           SELECT 1 FROM measurement
                           WHERE run = run.id AND test = ?3 AND (?4 IS NULL OR name = ?4)
                             AND category <> 'reference' AND status <> 'invalid')
                     ORDER BY started DESC, id DESC LIMIT ?5",
                )?
                .query_map(params![host, IMPORTED, test, name, limit], |row| row.get(0))?
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
