//! The one page of `run`: the machine, what matters of the findings, the figures with their
//! evidence.

use crate::table::{Style, incomplete, paragraph};
use crate::{
    compiled, explain, io, machine, memory, messages, published, standard, stream, sweep, text,
    tune,
};
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Finding, Record, Severity};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// What a gauge has to say of a record, empty when it took no part.
type Part = fn(&Record, Style) -> String;

/// Parts of the page above those of the registered gauges, in order.
const ABOVE: [Part; 8] = [
    tune::render,
    stream::section,
    compiled::render,
    standard::render,
    sweep::section,
    explain::section,
    published::section,
    memory::section,
];

/// Parts of the page below those of the registered gauges, in order.
const BELOW: [Part; 2] = [messages::section, io::section];

/// Any saved record: its page, and what was noticed on the way.
pub fn saved(record: &Record, gauges: &[&dyn Gauge], style: Style) -> String {
    render(record, gauges, style) + &notes(record, style)
}

/// What a gauge's own command shows: its part with all evidence, and what was noticed on the way.
pub fn alone(record: &Record, gauge: &dyn Gauge, style: Style) -> String {
    let view = gauge.view(record, Detail::Full);
    let mut out: String = view.iter().map(|section| text::section(section, style)).collect();
    out.push_str(&notes(record, style));
    out.push_str(&incomplete(style, record));
    out
}

fn notes(record: &Record, style: Style) -> String {
    record.notices.iter().map(|notice| paragraph(style, "note", &notice.text)).collect()
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
    let of_gauge = |gauge: &&dyn Gauge| {
        let alone = record.measurements.iter().all(|m| m.gauge == gauge.name());
        let view = gauge.view(record, if alone { Detail::Full } else { Detail::Brief });
        view.iter().map(|section| text::section(section, style)).collect()
    };
    let above = ABOVE.iter().map(|part| part(record, style));
    let below = BELOW.iter().map(|part| part(record, style));
    let parts = above.chain(gauges.iter().map(of_gauge)).chain(below);
    for text in parts.filter(|text: &String| !text.is_empty()) {
        out.push('\n');
        out.push_str(&text);
    }
    out.push_str(&incomplete(style, record));
    out
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
