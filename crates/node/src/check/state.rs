//! State that is kept between two checks: the counters of hardware errors, and the last measured verdict.

use super::CheckRequest;
use crate::caller::{Outputs, to_json};
use humantime::format_duration;
use nodegauge_fleet::check::NodeVerdict;
use nodegauge_machine::ledger::LedgerReading;
use nodegauge_measure::{Failure, record};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Schema of the state.
pub(super) const SCHEMA: &str = "nodegauge-check-state/1";

/// Content of the state file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CheckState {
    pub(super) schema: String,
    /// Time of the last check, RFC 3339.
    pub(super) checked: String,
    /// Counters at the time of the last check.
    pub(super) ledger: LedgerReading,
    /// Verdict of the last check that measured and did not end with *unknown*.
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
    /// Identifier of the boot during which the check ran.
    pub(super) boot: Option<String>,
}

impl MeasuredVerdict {
    /// Describes the verdict and its age.
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

/// State that the file contains before this check.
pub(super) enum SavedState {
    /// There is no file, or it is empty.
    Absent,
    /// State of the last check.
    Known(CheckState),
    /// The file cannot be used, and is not changed.
    Refused(Failure),
}

impl SavedState {
    /// Returns the state of the last check.
    pub(super) fn known_state(&self) -> Option<&CheckState> {
        match self {
            Self::Known(state) => Some(state),
            Self::Absent | Self::Refused(_) => None,
        }
    }
}

impl StateFile {
    /// Returns the state file of a check: the one that the user gave, or one next to the history.
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

    /// Reads the state of the last check. It decides the verdict, so the file must belong to the caller or to root. A
    /// file without a state of this version is refused and not changed.
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
                Failure::usage(format!("{shown} is not a state file of check ({SCHEMA})"))
                    .hint("give another file"),
            ),
        }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces the content of the file.
    pub(super) fn write(&self, state: &CheckState, outputs: &dyn Outputs) -> Result<(), Failure> {
        outputs.write_text(&self.0, to_json(state)?)
    }
}

/// Returns the character for a file name that replaces `c` in a host name.
fn in_file_name(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' }
}
