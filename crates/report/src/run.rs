//! The one page of `run`: the machine, what matters of the findings, the figures with their
//! evidence.

use crate::table::{Style, incomplete, paragraph};
use crate::{
    compiled, explain, hpl, machine, memory, messages, published, standard, stream, sweep, text,
    tune,
};
use nodegauge_gauge::view::{Page, Section};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Finding, Record, Severity};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// What each gauge has to say of a record, empty when it took no part; in the order of the page.
const SECTIONS: [fn(&Record, Style) -> String; 10] = [
    tune::render,
    stream::section,
    compiled::render,
    standard::render,
    sweep::section,
    explain::section,
    published::section,
    memory::section,
    hpl::section,
    messages::section,
];

/// Any saved record: its page, and what was noticed on the way.
pub fn saved(record: &Record, sections: &[Section], style: Style) -> String {
    let mut out = render(record, sections, style);
    out.push_str(&notices(record, style));
    out
}

/// What one gauge measured alone: its sections, and what was noticed on the way.
pub fn of_gauge(record: &Record, sections: &[Section], style: Style) -> String {
    let sections = sections.to_vec();
    let mut out = text::page(&Page { heading: String::new(), sections }, style);
    out.push_str(&incomplete(style, record));
    out.push_str(&notices(record, style));
    out
}

fn notices(record: &Record, style: Style) -> String {
    record.notices.iter().map(|notice| paragraph(style, "note", &notice.text)).collect()
}

/// The page of `run`, with the `sections` of gauges.
pub fn render(record: &Record, sections: &[Section], style: Style) -> String {
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
    for section in SECTIONS {
        let text = section(record, style);
        if !text.is_empty() {
            out.push('\n');
            out.push_str(&text);
        }
    }
    for section in sections.iter().filter(|section| !section.blocks.is_empty()) {
        out.push('\n');
        out.push_str(&text::section(section, style));
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
