//! Exporter of records as JSON, one line per record.

use super::{Document, ExportInput, Exporter};
use nodegauge_measure::Failure;
use nodegauge_measure::record::Record;

/// Exporter of the format `jsonl`.
pub(super) struct JsonLines;

impl Exporter for JsonLines {
    fn name(&self) -> &'static str {
        "jsonl"
    }

    fn purpose(&self) -> &'static str {
        "Records as `--json` writes them, one per line, as `history import` reads them"
    }

    fn extension(&self) -> &'static str {
        "jsonl"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        let lines: Result<String, Failure> = export.records.iter().map(line).collect();
        Ok(Document::single(lines?))
    }
}

/// Returns a record as JSON on one line, including the line break.
///
/// # Errors
/// Fails if the record cannot be written as JSON.
pub fn line(record: &Record) -> Result<String, Failure> {
    record
        .to_json()
        .map(|text| text + "\n")
        .map_err(|error| Failure::missing(format!("cannot write JSON: {error}")))
}
