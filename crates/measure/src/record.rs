//! The record of a run, schema `nodegauge/1`: what scripts, reports and other programs read.
//!
//! Rates are SI per second, times seconds, sizes bytes. A value that is not known is `null`, never
//! a guess. Readers ignore fields they do not know; a field's meaning changes only with a new
//! schema number. Gauges make [`Measurement`]s; the command puts them into a [`Record`].

mod device;
mod machine;
mod measurement;
mod saved_trips;

pub use device::{Device, DeviceKind, DeviceMemory, DeviceState, NearNetwork, PciLink};
pub use machine::{
    Cache, CacheKind, Circumstances, ClockBasis, Dimm, HugePages, Inherited, Machine,
    MachineSource, Memory, NumaNode, Pages, Processor,
};
pub use measurement::{
    Category, Counts, Disturbed, Limit, Measurement, PUBLISHED, Quoted, RegimeSamples, Status,
    Traffic, Validity,
};
pub use saved_trips::SavedTrips;

use crate::notice::Notice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// The schema that this version writes.
pub const SCHEMA: &str = "nodegauge/1";

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// A ULID: sorts by time.
    pub id: String,
    /// When the run started, RFC 3339.
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// False when the run was interrupted before everything was measured.
    pub complete: bool,
    /// The program that wrote this.
    pub tool: Tool,
    /// The arguments as typed, without the program's name.
    pub command: Vec<String>,
    /// `--label KEY=VALUE`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The node.
    pub machine: Machine,
    /// What on the node would spoil a measurement, worst first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What was clamped, rounded, replaced or taken from the environment in this run.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// The figures.
    pub measurements: Vec<Measurement>,
}

impl Record {
    /// When the run started, in seconds since 1970; `None` where an imported record does not say.
    pub fn started_s(&self) -> Option<f64> {
        let started = humantime::parse_rfc3339_weak(&self.started).ok()?;
        Some(started.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
    }
}

/// The program that wrote a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Version of nodegauge.
    pub version: String,
    /// Commit it was built from, when known.
    pub commit: Option<String>,
}

/// A figure that is not measured, with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// In the unit of its place.
    pub value: f64,
    /// `DMI`, `catalog`, `option`, or the formula.
    pub basis: String,
    /// The basis in full, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether it is the most that is known of the kind, and not of this very node: an upper limit that
    /// may turn out too low.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
}

/// How much a finding matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs some performance or some trust.
    Warning,
    /// Makes figures wrong or much too low.
    Critical,
}

/// Something on the node that would spoil a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable name, e.g. `thp-never`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// What is so, with its value.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// What it costs, where that is known.
    #[serde(default)]
    pub cost: Option<String>,
}

/// An identifier for a new record: a ULID of now.
pub fn new_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ulid::Ulid::from_parts(now.as_millis() as u64, fastrand::u128(..)).to_string()
}

/// A time in RFC 3339 with whole seconds; `None` before 1970 and after 9999.
pub fn rfc3339(time: SystemTime) -> Option<String> {
    time.duration_since(UNIX_EPOCH).ok()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    Some(text)
}

/// The moment that a text in RFC 3339 names.
pub fn time_of(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(text).ok()
}

/// Now, in RFC 3339 with whole seconds.
pub fn now_rfc3339() -> String {
    rfc3339(SystemTime::now()).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}
