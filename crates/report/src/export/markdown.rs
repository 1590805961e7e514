//! Exporter of tickets in Markdown, one per run.

use super::{Document, ExportInput, Exporter};
use crate::{markdown, run};
use nodegauge_measure::Failure;

/// Exporter of the format `md`.
pub(super) struct Markdown;

impl Exporter for Markdown {
    fn name(&self) -> &'static str {
        "md"
    }

    fn purpose(&self) -> &'static str {
        "Markdown for a ticket: figures with limit and validity, findings, environment, and the command that repeats the run"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        let tickets = export.records.iter().map(|record| {
            let page = run::ticket_page(record, export.gauges, export.conditions, export.registry);
            markdown::ticket(&page, &run::repeat_command(record))
        });
        let tickets: Vec<String> = tickets.collect();
        Ok(Document::single(tickets.join("\n")))
    }
}
