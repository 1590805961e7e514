//! The one page of `run`: the machine, what matters of the findings, the figures with their
//! evidence.

use crate::table::{Style, incomplete, paragraph};
use crate::{machine, text};
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Finding, Record, Severity};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// Any saved record: its page, and what was noticed on the way. The page has all evidence where one
/// gauge alone was at work, as that gauge's command shows it.
pub fn saved(record: &Record, gauges: &[&dyn Gauge], style: Style) -> String {
    let first = record.measurements.first();
    let alone = record.measurements.iter().all(|m| Some(&m.gauge) == first.map(|m| &m.gauge));
    let detail = if alone { Detail::Full } else { Detail::Brief };
    page(record, gauges, detail, style) + &notes(record, style)
}

/// What the command of one gauge shows of its record.
pub fn own(record: &Record, gauge: &dyn Gauge, style: Style) -> String {
    let parts = parts(record, &[gauge], Detail::Full, style);
    parts.join("\n") + &incomplete(style, record) + &notes(record, style)
}

/// The page of `run`.
pub fn render(record: &Record, gauges: &[&dyn Gauge], style: Style) -> String {
    page(record, gauges, Detail::Brief, style)
}

fn page(record: &Record, gauges: &[&dyn Gauge], detail: Detail, style: Style) -> String {
    let mut out = style.strong(&format!(
        "nodegauge {}{}, {}, {}",
        record.tool.version,
        record.machine.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default(),
        record.started,
        Seconds(record.seconds)
    ));
    out.push_str("\n\n");
    out.push_str(&machine::brief(&record.machine, style));
    out.push_str(&findings(&record.findings, style));
    for part in parts(record, gauges, detail, style) {
        out.push('\n');
        out.push_str(&part);
    }
    out.push_str(&incomplete(style, record));
    out
}

/// The sections of all gauges that took part, as text.
fn parts(record: &Record, gauges: &[&dyn Gauge], detail: Detail, style: Style) -> Vec<String> {
    let mut parts = Vec::new();
    for gauge in gauges {
        let sections = gauge.view(record, detail);
        parts.extend(sections.iter().map(|section| text::section(section, style)));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// What was noticed on the way.
pub(crate) fn notes(record: &Record, style: Style) -> String {
    record.notices.iter().map(|notice| paragraph(style, "note", &notice.text)).collect()
}

/// The findings that matter most, and how many more there are.
fn findings(findings: &[Finding], style: Style) -> String {
    let matter: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    let mut out = String::new();
    for finding in matter.iter().take(FINDINGS_SHOWN) {
        out.push_str(&machine::finding_line(finding, style));
    }
    let shown = matter.len().min(FINDINGS_SHOWN);
    let more = findings.len() - shown;
    if more > 0 {
        let text = format!("{more} more with their remedies: nodegauge doctor");
        out.push_str(&paragraph(
            style,
            if shown == 0 { "findings" } else { "" },
            &style.faint(&text),
        ));
    }
    out
}
