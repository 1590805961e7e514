//! How a user names a saved run: identifier or its beginning, `latest`, `latest~2`, a label
//! `key=value`, or a file.

use crate::error::HistoryError;
use nodegauge_measure::record::{Record, SCHEMA};
use std::path::Path;

/// What a text means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The newest but this many.
    Latest(u32),
    /// The newest with a label.
    Label(String, String),
    /// An identifier or its beginning.
    Id(String),
}

impl From<&str> for Selector {
    fn from(text: &str) -> Self {
        if text == "latest" {
            return Self::Latest(0);
        }
        if let Some(back) = text.strip_prefix("latest~").and_then(|back| back.parse().ok()) {
            return Self::Latest(back);
        }
        match text.split_once('=') {
            Some((key, value)) => Self::Label(key.to_owned(), value.to_owned()),
            // Identifiers are upper-case; nobody should have to type them so.
            None => Self::Id(text.to_ascii_uppercase()),
        }
    }
}

/// Reads a record from a file.
///
/// # Errors
/// When the file cannot be read, or is no record of a schema that is known.
pub fn read_file(path: &Path) -> Result<Record, HistoryError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| HistoryError::Io { path: path.to_owned(), cause })?;
    parse(&text).map_err(|cause| HistoryError::NotARecord { path: path.to_owned(), cause })
}

/// A record from JSON; the schema is looked at first, so that a newer one is named as such.
pub(crate) fn parse(text: &str) -> Result<Record, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => serde_json::from_value(value).map_err(|error| error.to_string()),
        Some(other) => Err(format!("its schema is {other}, {SCHEMA} is needed")),
        None => Err(format!("it names no schema, {SCHEMA} is needed")),
    }
}
