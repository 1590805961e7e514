//! Saving of a record in the history or, if that fails, in a file that can be imported later.

use crate::caller::Outputs;
use crate::signals::Signals;
use nodegauge_history::{HistoryError, HistoryFile, Store};
use nodegauge_measure::record::Record;
use nodegauge_measure::{Failure, legible};
use nodegauge_toolchain::CommandLine;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time after which the user is informed that the history is locked.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// Divisor of the elapsed time of the measurement that gives the maximum wait for a locked history, from [`MIN_WAIT`]
/// to [`MAX_WAIT`].
const WAIT_DIVISOR: u32 = 10;
/// Lower bound of the maximum wait for a locked history.
const MIN_WAIT: Duration = Duration::from_secs(30);
/// Upper bound of the maximum wait for a locked history.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Maximum wait after a signal, because the user wants the program to end.
const WAIT_AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// Context in which a record is saved.
pub struct SavingContext<'a> {
    /// The history, as given by the user.
    pub history: &'a HistoryFile,
    /// Signals that end the wait for a locked history.
    pub signals: &'a Signals,
    /// Elapsed time of the measurement.
    pub elapsed: Duration,
    /// Outputs for remarks and for a file with the record.
    pub outputs: &'a dyn Outputs,
}

impl SavingContext<'_> {
    /// Saves a record. `copy` is a file that already contains the record, if any. If the history cannot be written
    /// immediately, the record is first written to a file, so that it is not lost if this process ends during the wait.
    ///
    /// # Errors
    /// Fails if the record is not saved; the failure names the file that contains it.
    pub fn save(
        &self,
        store: &mut Store,
        record: &Record,
        copy: Option<PathBuf>,
    ) -> Result<(), Failure> {
        let Err(cause) = store.save_within(record, SHORT_WAIT, &|| false) else { return Ok(()) };
        let is_temporary = copy.is_none();
        let copy = match copy {
            Some(file) => Ok(file),
            None => write_to_first_folder(
                std::slice::from_ref(record),
                &folders(store.path()),
                self.outputs,
            ),
        };
        let HistoryError::Busy(_) = cause else { return Err(self.failure(record, &cause, copy)) };
        self.announce(store, copy.as_ref().ok());
        let before = self.signals.received_signal();
        let saved =
            store.save_within(record, self.wait(), &|| self.signals.received_signal() != before);
        if let Err(final_cause) = saved {
            return Err(self.failure(record, &final_cause, copy));
        }
        if let Ok(file) = copy
            && is_temporary
        {
            // If the file cannot be removed, an import of it skips the record, which is already saved.
            let _ = std::fs::remove_file(file);
        }
        Ok(())
    }

    fn wait(&self) -> Duration {
        match self.signals.received_signal() {
            Some(_) => WAIT_AFTER_SIGNAL,
            None => (self.elapsed / WAIT_DIVISOR).clamp(MIN_WAIT, MAX_WAIT),
        }
    }

    fn announce(&self, store: &Store, copy: Option<&PathBuf>) {
        let until = match copy {
            Some(file) => format!("; until then the record is in {}", legible::path(file)),
            None => String::new(),
        };
        self.outputs.note(&format!(
            "waiting for at most {} s: another program is writing to history database {}{until}",
            self.wait().as_secs(),
            legible::path(store.path()),
        ));
    }

    /// Returns the failure for a record that is not saved. Its hint is the command that imports the record later.
    fn failure(
        &self,
        record: &Record,
        cause: &HistoryError,
        copy: Result<PathBuf, Failure>,
    ) -> Failure {
        let id = &record.id;
        let problem = Failure::from(cause).problem();
        match copy {
            Ok(file) => Failure::missing(format!(
                "run {id} is not saved: {problem}; the record is in {}",
                legible::path(&file),
            ))
            .hint(import_command(&file, self.history).to_string()),
            Err(failure) => Failure::missing(format!(
                "run {id} is not saved: {problem}; the record cannot be written to a file either: {failure}"
            )),
        }
    }
}

/// Returns the command that imports a file into the history.
pub(crate) fn import_command(file: &Path, history: &HistoryFile) -> CommandLine {
    let mut words = vec!["history".to_owned(), "import".to_owned(), file.display().to_string()];
    if let Some(given_path) = &history.given_path {
        words.extend(["--db".to_owned(), given_path.display().to_string()]);
    }
    CommandLine::new("nodegauge".to_owned(), words)
}

/// Returns the folders for records that cannot be saved: the folder of the history, the temporary folder, and
/// the current folder.
fn folders(history: &Path) -> Vec<PathBuf> {
    let history_folder = history.parent().map(Path::to_owned).unwrap_or_default();
    vec![history_folder, std::env::temp_dir(), PathBuf::new()]
}

/// Writes records to a new file in the first folder that is writable.
pub(crate) fn write_to_first_folder(
    records: &[Record],
    folders: &[PathBuf],
    outputs: &dyn Outputs,
) -> Result<PathBuf, Failure> {
    let name = format!("nodegauge-unsaved-{}.jsonl", records[0].id);
    let mut written = Err(Failure::missing("no folder available"));
    for folder in folders {
        let file = folder.join(&name);
        let mut lines = records.iter().map(nodegauge_report::export::json_line);
        written = outputs.write_file(&file, &mut lines).map(|()| file);
        if written.is_ok() {
            break;
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::Page;

    /// Outputs of the tests, which only write files.
    struct OnlyFiles;

    impl Outputs for OnlyFiles {
        fn print(&self, _: &str) -> Result<(), Failure> {
            Ok(())
        }

        fn print_or_end(&self, _: &str) {}

        fn show(&self, _: &Page) {}

        fn print_within(&self, _: &str, _: Duration) {}

        fn note(&self, _: &str) {}

        fn note_within(&self, _: &str, _: Duration) {}

        fn print_error(&self, _: &str) {}

        fn check_file(&self, _: &Path) -> Result<(), Failure> {
            Ok(())
        }

        fn write_file(
            &self,
            file: &Path,
            parts: &mut dyn Iterator<Item = Result<String, Failure>>,
        ) -> Result<(), Failure> {
            let text: String = parts.collect::<Result<_, _>>()?;
            std::fs::write(file, text)
                .map_err(|cause| Failure::missing("cannot write the file").cause(cause))
        }
    }

    #[test]
    fn unsaved_records_go_to_the_first_writable_folder() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        let record: Record = serde_json::from_str(
            &std::fs::read_to_string(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../tests/golden/stream-nothing/record.json"
            ))
            .unwrap(),
        )
        .unwrap();
        let records = [record.clone(), record];
        let file = write_to_first_folder(
            &records,
            &[absent.clone(), folder.path().to_owned()],
            &OnlyFiles,
        )
        .unwrap();
        assert_eq!(file.parent(), Some(folder.path()));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
        assert!(write_to_first_folder(&records, &[absent], &OnlyFiles).is_err());
    }
}
