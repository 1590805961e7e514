//! The pages of records: the machine, what matters of the findings, the figures with their evidence.

use crate::machine;
use nodegauge_gauge::view::{Note, Page, Section, Tone};
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::Seconds;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Finding, Record, Severity};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// The page of a record: when and where it was measured, and what was. It has all evidence and what was
/// noticed on the way where one gauge alone was at work, as that gauge's command shows it, and where `all`
/// is asked for. `run` and `history show` print it.
pub fn page(record: &Record, gauges: &[&dyn Gauge], all: bool) -> Page {
    let first = record.measurements.first();
    let alone = record.measurements.iter().all(|m| Some(&m.gauge) == first.map(|m| &m.gauge));
    let detail = if alone || all { Detail::Full } else { Detail::Brief };
    ended(begun(record, gauges, detail), record, detail == Detail::Full)
}

/// What the command of one gauge shows of its record: the page without when and where.
pub fn own(record: &Record, gauge: &dyn Gauge) -> Page {
    let page = Page { heading: String::new(), sections: gauge.view(record, Detail::Full) };
    ended(page, record, true)
}

fn begun(record: &Record, gauges: &[&dyn Gauge], detail: Detail) -> Page {
    let host = record.machine.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    let heading = format!(
        "nodegauge {}{host}, {}, {}",
        record.tool.version,
        record.started,
        Seconds(record.seconds)
    );
    let mut node = machine::brief(&record.machine);
    findings(&record.findings, &mut node);
    let parts = gauges.iter().flat_map(|gauge| gauge.view(record, detail));
    Page { heading, sections: std::iter::once(node).chain(parts).collect() }
}

/// Behind the last section: that a run was interrupted, so that its table is not taken for whole, and
/// what was noticed on the way, or where that is found.
fn ended(mut page: Page, record: &Record, notices: bool) -> Page {
    page.sections.retain(|section| !section.blocks.is_empty());
    if page.sections.is_empty() {
        page.sections.push(Section::new("notes"));
    }
    let last = page.sections.last_mut().expect("one was just added");
    if !record.complete {
        let text = "the run was interrupted before all was measured";
        last.push(Note::new("incomplete", text).tone(Tone::Warning));
    }
    for notice in record.notices.iter().filter(|_| notices) {
        last.note("note", notice.text.as_str());
    }
    if !notices {
        let noticed = counted(record.notices.len(), "note");
        last.push(Note::new("more", format!("all figures and {noticed}: -v")).faint());
    }
    page
}

/// The findings that matter most, and how many more there are.
fn findings(findings: &[Finding], section: &mut Section) {
    let matter = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let shown: Vec<&Finding> = matter.take(FINDINGS_SHOWN).collect();
    for finding in &shown {
        section.push(machine::finding(finding));
    }
    let more = findings.len() - shown.len();
    if more > 0 {
        let label = if shown.is_empty() { "findings" } else { "" };
        let text = format!("{more} more with their remedies: nodegauge doctor");
        section.push(Note::new(label, text).faint());
    }
}
