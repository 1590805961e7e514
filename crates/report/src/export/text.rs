//! Exporter of plain text with 80 columns: a run with all samples and notes, or several runs next to each other.

use super::{Document, ExportInput, Exporter};
use crate::{Style, run, text};
use nodegauge_measure::{Failure, legible};

/// Exporter of the format `text`.
pub(super) struct Text;

impl Exporter for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn purpose(&self) -> &'static str {
        "The page that `history show -v` prints; several runs are shown side by side"
    }

    fn extension(&self) -> &'static str {
        "txt"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        let page = match export.records {
            [record] => run::page(record, export.gauges, true),
            _ => export.side_by_side()?,
        };
        let text = text::page(&page, Style::default());
        Ok(Document::single(legible::page(&text).into()))
    }
}
