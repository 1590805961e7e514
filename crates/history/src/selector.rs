//! How a user names a run: identifier or its beginning, `latest`, `latest~2`, a label `key=value`
//! or its value, or a file. Reading records from files; nothing here knows the database.

use crate::error::HistoryError;
use nodegauge_measure::Failure;
use nodegauge_measure::record::{Record, SCHEMA};
use serde::Deserialize;
use std::path::Path;

/// What a text means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The newest but this many.
    Latest(u32),
    /// The newest with a label.
    Label(String, String),
    /// An identifier, its beginning, or the value of a label.
    Word(String),
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
            None => Self::Word(text.to_owned()),
        }
    }
}

/// Whether a text that names no saved run means a file: it is one, or looks like one, or is `-`, standard
/// input.
pub fn means_a_file(text: &str) -> bool {
    text == "-" || text.contains('/') || text.ends_with(".json") || Path::new(text).is_file()
}

/// Reads a record from a file.
///
/// # Errors
/// When the file cannot be read, or is no record of a schema that is known.
pub fn read_file(path: &Path) -> Result<Record, HistoryError> {
    let shown = path.display();
    let bytes = nodegauge_os::read_input(path, nodegauge_os::LONGEST_TEXT)
        .map_err(|cause| HistoryError::of_file(path, &cause))?;
    String::from_utf8(bytes)
        .map_err(|_| "it is not text".to_owned())
        .and_then(|text| parse(&text))
        .map_err(|cause| -> HistoryError {
            Failure::usage(format!("{shown} is not a record of nodegauge"))
                .cause(cause)
                .hint("give a file that --json FILE wrote")
                .into()
        })
}

/// A record from JSON; the schema is looked at first, so that a newer one is named as such.
///
/// # Errors
/// What is wrong, in words.
pub fn parse(text: &str) -> Result<Record, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match head.schema.as_deref() {
        // What has another shape is named, without a place in a text that nobody wrote by hand.
        Some(SCHEMA) => serde_json::from_str(text)
            .or_else(|_| serde_json::from_str(text).and_then(serde_json::from_value))
            .map_err(|error| error.to_string()),
        Some(other) => Err(format!("found schema {other}, required is {SCHEMA}")),
        None => Err(format!("found no schema, required is {SCHEMA}")),
    }
}
