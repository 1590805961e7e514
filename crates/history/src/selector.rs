//! Selectors of runs that users type: an identifier or its prefix, `latest`, `latest~2`, a label `key=value` or its
//! value, or a file. This module also reads records from files, and does not use the database.

use crate::error::HistoryError;
use nodegauge_measure::keys::FormerNames;
use nodegauge_measure::printed::without_byte_order_mark;
use nodegauge_measure::record::{Record, parse};
use nodegauge_measure::{Failure, legible};
use std::path::Path;

/// Parsed selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    /// The latest run, after skipping this number of newer runs.
    Latest(u32),
    /// Newest run with a label of this key and value.
    Label(String, String),
    /// Identifier, prefix of an identifier, or value of a label.
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

/// True if a selector denotes a file when no saved run matches it: the file exists, the text looks like a path, or it
/// is `-` (standard input).
pub fn is_file_selector(text: &str) -> bool {
    text == "-" || text.contains('/') || text.ends_with(".json") || Path::new(text).is_file()
}

/// Reads a record from a file; `names` are the former names of configuration keys.
///
/// # Errors
/// Fails if the file cannot be read, or is not a record of a supported schema.
pub fn read_file(path: &Path, names: &FormerNames) -> Result<Record, HistoryError> {
    let shown = legible::path(path);
    let bytes = nodegauge_os::read_input(path, nodegauge_os::MAX_TEXT_BYTES)
        .map_err(|cause| HistoryError::from_file_error(path, &cause))?;
    String::from_utf8(bytes)
        .map_err(|_| "the file is not UTF-8 text".to_owned())
        .and_then(|text| parse(without_byte_order_mark(&text), names))
        .map_err(|cause| -> HistoryError {
            Failure::usage(format!("{shown} is not a nodegauge record"))
                .cause(cause)
                .hint("give a file that --json FILE wrote")
                .into()
        })
}
