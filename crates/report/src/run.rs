//! The one page of `run`: the machine, what matters of the findings, the figures with their
//! evidence.

use crate::table::{Style, incomplete, paragraph};
use crate::{hpl, io, machine, memory, messages, stream, text};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, published};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Finding, Record, Severity};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// What a gauge has to say of a record, empty when it took no part.
type Part = fn(&Record, Style) -> String;

/// Parts of the page below those of the registered gauges, in order.
const BELOW: [Part; 5] = [published, memory::section, hpl::section, messages::section, io::section];

/// Any saved record: its page, and what was noticed on the way.
pub fn saved(record: &Record, gauges: &[&dyn Gauge], style: Style) -> String {
    render(record, gauges, style) + &stream::notes(record, style)
}

/// What a gauge's own command shows: its part with all evidence, and what was noticed on the way.
pub fn alone(record: &Record, gauge: &dyn Gauge, style: Style) -> String {
    let sections = gauge.view(record, Detail::Full);
    let parts: Vec<String> = sections.iter().map(|part| text::section(part, style)).collect();
    parts.join("\n") + &incomplete(style, record) + &stream::notes(record, style)
}

/// The page of `run`.
pub fn render(record: &Record, gauges: &[&dyn Gauge], style: Style) -> String {
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
    let sections = gauges.iter().flat_map(|gauge| gauge.view(record, Detail::Brief));
    let above = sections.map(|section: Section| text::section(&section, style));
    let below = BELOW.iter().map(|part| part(record, style));
    for part in above.chain(below).filter(|part| !part.is_empty()) {
        out.push('\n');
        out.push_str(&part);
    }
    out.push_str(&incomplete(style, record));
    out
}

/// Published figures of gauges that do not show them themselves.
fn published(record: &Record, style: Style) -> String {
    let of = |gauge| text::section(&published::section(record, gauge), style);
    ["compute", "files"].into_iter().map(of).collect()
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
