//! Exporter of an HTML file: the complete page of one run, or a page of several runs next to each other.

use super::{Document, ExportInput, Exporter, title};
use crate::{html, run};
use nodegauge_gauge::view::Page;
use nodegauge_measure::Failure;
use nodegauge_measure::record::Record;

/// Exporter of the format `html`.
pub(super) struct Html;

impl Exporter for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn purpose(&self) -> &'static str {
        "One page that needs no network; several runs are shown side by side"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        let page = match export.records {
            [record] => run::report_page(
                record,
                export.gauges,
                &export.related.earlier_runs(record)?,
                export.registry,
            ),
            _ => export.side_by_side()?,
        };
        Ok(Document::single(html::page(&page, &title(export.records))))
    }

    fn default_file(&self, records: &[Record]) -> Option<String> {
        Some(format!("{}.{}", title(records), self.extension()))
    }

    fn renderer(&self) -> Option<fn(&Page, &str) -> String> {
        Some(html::page)
    }
}
