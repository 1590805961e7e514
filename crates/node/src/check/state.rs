//! State between two checks: the counters of hardware errors, and the last measured verdict.

use super::CheckRequest;
use crate::caller::{Outputs, as_json};
use humantime::format_duration;
use nodegauge_fleet::check::NodeVerdict;
use nodegauge_machine::ledger::LedgerReading;
use nodegauge_measure::{Failure, record};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Schema of the state.
pub(super) const SCHEMA: &str = "nodegauge-check-state/1";

/// Content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CheckState {
    pub(super) schema: String,
    /// Time of the last check, RFC 3339.
    pub(super) checked: String,
    /// Counters at that time.
    pub(super) ledger: LedgerReading,
    /// Last verdict of a check that measured.
    pub(super) measured: Option<MeasuredVerdict>,
}

/// Verdict of a check that measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct MeasuredVerdict {
    /// Time of the check, RFC 3339.
    pub(super) at: String,
    pub(super) level: u8,
    pub(super) verdict: NodeVerdict,
    pub(super) reason: Option<String>,
    /// Identifier of the boot.
    pub(super) boot: Option<String>,
}

impl MeasuredVerdict {
    /// Describes the verdict with its age.
    pub(super) fn in_words(&self) -> String {
        let elapsed = record::parse_rfc3339(&self.at).and_then(|time| time.elapsed().ok());
        let minutes = elapsed.map(|time| Duration::from_secs(time.as_secs() / 60 * 60));
        let age = match minutes {
            None => "at an unknown time".to_owned(),
            Some(Duration::ZERO) => "less than 1min ago".to_owned(),
            Some(whole) => format!("{} ago", format_duration(whole)),
        };
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("measured {}{reason} at level {}, {age}", self.verdict, self.level)
    }
}

/// File of the state.
#[derive(Debug, Clone)]
pub(super) struct StateFile(PathBuf);

/// Content of the file before this check.
pub(super) enum SavedState {
    /// There is no file, or an empty one.
    Absent,
    /// State of the last check.
    Known(CheckState),
    /// The file does not count, and is left alone.
    Refused(Failure),
}

impl SavedState {
    /// Returns the state of the last check.
    pub(super) fn known(&self) -> Option<&CheckState> {
        match self {
            Self::Known(state) => Some(state),
            Self::Absent | Self::Refused(_) => None,
        }
    }
}

impl StateFile {
    /// Returns the file: as given, or next to the history.
    pub(super) fn from_request(request: &CheckRequest, host: &str) -> Result<Self, Failure> {
        if let Some(path) = &request.state {
            return Ok(Self(path.clone()));
        }
        let history = request
            .history
            .path()
            .map_err(|failure| failure.hint("give --state FILE, --db FILE, or --no-save"))?;
        let name: String = host.chars().map(in_file_name).take(128).collect();
        Ok(Self(history.with_file_name(format!("check-{name}.json"))))
    }

    /// Reads the state of the last check. It decides the verdict, so that it must be a file of the caller or of root; a file
    /// that is no state of this version belongs to something else.
    pub(super) fn read(&self) -> SavedState {
        let shown = self.0.display();
        let bytes = match nodegauge_os::read_trusted_file(&self.0, nodegauge_os::MAX_TEXT_BYTES) {
            Ok(bytes) => bytes,
            Err(why) if why.is_absent() => return SavedState::Absent,
            Err(why) => return SavedState::Refused(Failure::missing(format!("{shown}: {why}"))),
        };
        if bytes.is_empty() {
            return SavedState::Absent;
        }
        let state = serde_json::from_slice(&bytes).ok();
        match state.filter(|state: &CheckState| state.schema == SCHEMA) {
            Some(state) => SavedState::Known(state),
            None => SavedState::Refused(
                Failure::usage(format!("{shown} is no state of check ({SCHEMA})"))
                    .hint("give another file"),
            ),
        }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces the state.
    pub(super) fn write(&self, state: &CheckState, outputs: &dyn Outputs) -> Result<(), Failure> {
        outputs.write_text(&self.0, as_json(state)?)
    }
}

/// Returns a character of a host's name as it stands in the name of a file.
fn in_file_name(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' }
}
