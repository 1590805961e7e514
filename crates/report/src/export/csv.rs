//! Exporter of figures as CSV, one line per figure.

use super::{Document, ExportInput, Exporter};
use nodegauge_analysis::csv;
use nodegauge_measure::Failure;

/// Exporter of the format `csv`.
pub(super) struct Csv;

impl Exporter for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn purpose(&self) -> &'static str {
        "Figures for spreadsheets and data frames, one per line, with the columns of `--csv`"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        Ok(Document::single(csv::render(export.records, export.registry)))
    }
}
