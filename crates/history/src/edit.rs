//! Changes of saved runs: labels are set and removed, and runs are removed.

use crate::error::{Access, HistoryError};
use crate::store::Store;

impl Store {
    /// Sets a label of a run; an empty `value` removes the label. Returns the identifier of the run.
    ///
    /// # Errors
    /// Fails if there is no such run, or if the database cannot be written.
    pub fn set_label(
        &self,
        selector: &str,
        key: &str,
        value: &str,
    ) -> Result<String, HistoryError> {
        let transaction = self.begin()?;
        let id = self.resolve(selector)?;
        let done = if value.is_empty() {
            transaction.execute("DELETE FROM label WHERE run = ?1 AND key = ?2", [&*id, key])
        } else {
            transaction.execute(
                "INSERT INTO label (run, key, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (run, key) DO UPDATE SET value = excluded.value",
                [&*id, key, value],
            )
        };
        done.and_then(|_| transaction.commit()).map_err(self.error_translator(Access::Write))?;
        Ok(id)
    }

    /// Removes a run with its labels and figures. Returns the identifier of the run.
    ///
    /// # Errors
    /// Fails if there is no such run, or if the database cannot be written.
    pub fn remove(&self, selector: &str) -> Result<String, HistoryError> {
        let transaction = self.begin()?;
        let id = self.resolve(selector)?;
        transaction
            .execute("DELETE FROM run WHERE id = ?1", [&id])
            .and_then(|_| transaction.commit())
            .map_err(self.error_translator(Access::Write))?;
        Ok(id)
    }
}
