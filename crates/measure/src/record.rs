//! The record of a run, schema `nodegauge/1`, for scripts, reports and other programs.
//!
//! Rates are SI per second, times are in seconds, sizes in bytes. An unknown value is `null`; values are never guessed.
//! Readers ignore unknown fields; the meaning of a field changes only with a new schema number. Gauges create
//! [`Measurement`]s; the command puts them into a [`Record`].

mod device;
pub mod doubt;
mod ledger;
mod machine;
mod measurement;
mod saved_trips;
mod software;

pub use device::{Device, DeviceKind, DeviceMemory, DeviceState, NearbyNetworkAdapter, PciLink};
pub use ledger::{
    CounterNote, EventCount, HardwareEvent, Ledger, LedgerSource, NarrowLink, SlowLink, SourceState,
};
pub use machine::{
    Cache, CacheKind, ClockBasis, CoreClass, Dimm, Disk, Firmware, HugePages, InheritedBinding,
    Machine, MachineSource, MeasuredCache, Memory, NumaNode, PageSettings, Processor,
    SystemSettings, product_name,
};
pub use measurement::{
    Category, DisturbedSample, Limit, Measurement, PUBLISHED_ENGINE, QuotedStatistic,
    RegimeSamples, SampleUse, Status, Traffic, Validity,
};
pub use saved_trips::SavedRoundTrips;
pub use software::{InstalledLibrary, MountedFileSystem, Software};

use crate::Seconds;
use crate::keys::FormerNames;
use crate::legible::escape_controls;
use crate::notice::Notice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Schema that this version writes.
pub const SCHEMA: &str = "nodegauge/1";

/// Record of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Name and version of the schema: [`SCHEMA`].
    pub schema: String,
    /// Identifier of the run: a ULID, which sorts by time.
    pub id: String,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// Elapsed time of the run, in seconds.
    pub seconds: Seconds,
    /// True unless the run ended before everything was measured.
    pub complete: bool,
    /// Version of the program that wrote the record.
    pub tool: Tool,
    /// Arguments as typed, without the name of the program.
    pub command: Vec<String>,
    /// Labels from `--label KEY=VALUE`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Description of the node.
    pub machine: Machine,
    /// Conditions of the node that impair measurements, worst first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Values that were clamped, rounded, replaced or taken from the environment in this run.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// Hardware errors and throttling that the kernel counted; absent in records of described machines, of imported
    /// output and of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// Figures of the run.
    pub measurements: Vec<Measurement>,
}

impl Record {
    /// Returns the record as JSON on one line, without a line end.
    ///
    /// # Errors
    /// Fails if a number is outside the range of JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Returns the start of the run in seconds since 1970; `None` if it is unknown, as in some imported records.
    pub fn started_s(&self) -> Option<Seconds> {
        let started = humantime::parse_rfc3339_weak(&self.started).ok()?;
        Some(Seconds(started.duration_since(UNIX_EPOCH).ok()?.as_secs_f64()))
    }

    /// Returns the hosts of a run on several hosts, in the order of their ranks; empty for a run on
    /// one host. The field `machine` describes the first host.
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = Vec::new();
        for host in self.measurements.iter().filter_map(Measurement::host) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }

    /// Keeps only the figures of the machine that the record describes; in a run on several hosts,
    /// this is the first host.
    pub fn keep_own_host(&mut self) {
        let first = self.measurements.iter().find_map(Measurement::host).map(str::to_owned);
        if let Some(first) = first {
            self.measurements.retain(|m| m.host() == Some(&first) || m.is_published());
        }
    }
}

/// Parses a record from JSON, and renames keys with former names. The error for a newer schema contains the name of
/// that schema.
///
/// # Errors
/// Fails with a message of one line that describes the problem.
pub fn parse(text: &str, names: &FormerNames) -> Result<Record, String> {
    let mut record = parse_as_written(text)?;
    for m in &mut record.measurements {
        names.rename(&mut m.config);
    }
    Ok(record)
}

/// Parses a record without renaming its keys.
fn parse_as_written(text: &str) -> Result<Record, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let refusal = match serde_json::from_str::<Record>(text) {
        Ok(record) if record.schema == SCHEMA => return Ok(record),
        direct => direct.err(),
    };
    // Messages contain text of the record, which must not begin a line.
    let message = |error: serde_json::Error| escape_controls(&error.to_string()).into_owned();
    let head: Head = serde_json::from_str(text).map_err(message)?;
    match head.schema.as_deref() {
        // The record is parsed again from a JSON value, because this error has no line and column, which are useless in
        // generated text.
        Some(SCHEMA) => {
            let from_value = serde_json::from_str(text).and_then(serde_json::from_value::<Record>);
            // In a JSON value, a key that occurs twice has its last value, so that the first error is not lost here.
            let error = from_value.err().or(refusal).map(message);
            Err(error.unwrap_or_else(|| "the record cannot be read".to_owned()))
        }
        Some(other) => {
            Err(format!("found schema {}, required is {SCHEMA}", escape_controls(other)))
        }
        None => Err(format!("found no schema, required is {SCHEMA}")),
    }
}

/// Program that wrote a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Version of nodegauge that wrote the record.
    pub version: String,
    /// Commit from which nodegauge was built, if known.
    pub commit: Option<String>,
}

/// A value that was not measured, with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TheoreticalValue {
    /// Value, in the unit of the field that contains the figure.
    pub value: f64,
    /// Source: `DMI`, `catalog`, `option`, or the formula.
    pub basis: String,
    /// Full description of the source, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// True if the value is the highest known value for this kind of hardware and is not specific to this node. A
    /// measured value can exceed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
}

/// Severity of a finding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The finding is information only.
    Info,
    /// The condition reduces performance, or confidence in the figures.
    Warning,
    /// The condition makes figures wrong or much too low.
    Critical,
}

/// A condition of the node that impairs measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable identifier of the condition, e.g. `thp-never`.
    pub id: String,
    /// Severity of the condition.
    pub severity: Severity,
    /// Description of the condition, with its value.
    pub text: String,
    /// Action that removes the condition.
    pub remedy: String,
    /// Loss of performance that the condition causes, if known.
    #[serde(default)]
    pub cost: Option<String>,
}

impl Finding {
    /// Returns the identifier of a finding as words, e.g. `thp never`.
    pub fn finding_name(id: &str) -> String {
        id.replace('-', " ")
    }
}

/// Returns an identifier for a new record: a ULID of the current time.
pub fn new_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ulid::Ulid::from_parts(now.as_millis() as u64, fastrand::u128(..)).to_string()
}

/// Formats a time in RFC 3339 with whole seconds; returns `None` before 1970 and after 9999.
pub fn format_rfc3339(time: SystemTime) -> Option<String> {
    time.duration_since(UNIX_EPOCH).ok()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    Some(text)
}

/// Parses a time in RFC 3339.
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

/// Returns the current time in RFC 3339 with whole seconds.
pub fn now_rfc3339() -> String {
    format_rfc3339(SystemTime::now()).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_of_run_is_in_seconds_since_1970() {
        let mut record = Record {
            schema: SCHEMA.to_owned(),
            id: new_id(),
            started: "1970-01-02T00:00:01Z".to_owned(),
            seconds: Seconds(2.0),
            complete: true,
            tool: Tool { version: "0.1.0".to_owned(), commit: None },
            command: Vec::new(),
            labels: BTreeMap::new(),
            machine: Machine::default(),
            findings: Vec::new(),
            notices: Vec::new(),
            ledger: None,
            measurements: Vec::new(),
        };
        assert_eq!(record.started_s(), Some(Seconds(86_401.0)));
        for unknown in ["", "yesterday", "1969-12-31T23:59:59Z"] {
            record.started = unknown.to_owned();
            assert_eq!(record.started_s(), None, "{unknown}");
        }
    }

    #[test]
    fn duplicate_key_is_refused() {
        let text = format!(
            r#"{{"schema":"{SCHEMA}","id":"x","started":"","seconds":1,"complete":true,
            "tool":{{"version":"1","commit":null}},"command":[],"machine":{},"measurements":[],
            "measurements":[]}}"#,
            serde_json::to_string(&Machine::default()).unwrap()
        );
        let error = parse_as_written(&text).unwrap_err();
        assert!(error.starts_with("duplicate field `measurements`"), "{error}");
        let once = text.replacen("\"measurements\":[],", "", 1);
        assert!(parse_as_written(&once).is_ok(), "{once}");
    }

    #[test]
    fn rfc3339_times_round_trip() {
        let time = UNIX_EPOCH + std::time::Duration::from_secs(1_763_714_786);
        assert_eq!(format_rfc3339(time).unwrap(), "2025-11-21T08:46:26Z");
        assert_eq!(parse_rfc3339("2025-11-21T08:46:26Z"), Some(time));
        assert_eq!(format_rfc3339(UNIX_EPOCH - std::time::Duration::from_secs(1)), None);
    }

    #[test]
    fn record_ids_contain_time_and_are_unique() {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let before = now();
        let id: ulid::Ulid = new_id().parse().unwrap();
        assert!((before..=now()).contains(&id.timestamp_ms()));
        assert_ne!(new_id(), new_id());
    }

    #[test]
    fn finding_id_is_printed_as_words() {
        assert_eq!(Finding::finding_name("thp-never"), "thp never");
    }
}
