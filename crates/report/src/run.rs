//! The one page of `run`: the machine, what matters of the findings, the figures with their
//! evidence.

use crate::table::{Style, incomplete, paragraph};
use crate::{
    compiled, explain, hpl, io, machine, memory, published, standard, stream, sweep, text, tune,
};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::record::{Finding, Record, Severity};
use nodegauge_measure::{Notice, NoticeId, Seconds};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// What those gauges that have no view of their own yet have to say of a record, empty when they took
/// no part; in the order of the page. The views of the others stand before the last of these.
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
    io::section,
];

/// Any saved record: its page, and what was noticed on the way. The page has all evidence where one
/// gauge alone was at work, as that gauge's command shows it.
pub fn saved(record: &Record, gauges: &[&dyn Gauge], style: Style) -> String {
    let mut names: Vec<&str> = record.measurements.iter().map(|m| m.gauge.as_str()).collect();
    names.dedup();
    let detail = if names.len() > 1 { Detail::Brief } else { Detail::Full };
    let mut out = page(record, gauges, detail, style);
    out.push_str(&notes(record, style));
    out
}

/// What the command of one gauge shows of its record.
pub fn own(record: &Record, gauge: &dyn Gauge, style: Style) -> String {
    let mut out = sections(&gauge.view(record, Detail::Full), style);
    out.push_str(&incomplete(style, record));
    out.push_str(&notes(record, style));
    out
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
    let (last, first) = SECTIONS.split_last().expect("there are sections");
    let mut parts: Vec<String> = first.iter().map(|section| section(record, style)).collect();
    parts.extend(gauges.iter().map(|gauge| sections(&gauge.view(record, detail), style)));
    parts.push(last(record, style));
    for part in parts.iter().filter(|part| !part.is_empty()) {
        out.push('\n');
        out.push_str(part);
    }
    out.push_str(&incomplete(style, record));
    out
}

fn sections(sections: &[Section], style: Style) -> String {
    let texts: Vec<String> = sections.iter().map(|one| text::section(one, style)).collect();
    texts.join("\n")
}

/// What was noticed on the way. Why a gauge took no part stands in its own section.
fn notes(record: &Record, style: Style) -> String {
    let shown = |notice: &&Notice| {
        notice.id != NoticeId::LeftOut
            || notice.gauge.is_empty()
            || record.measurements.iter().any(|m| m.gauge == notice.gauge)
    };
    let notices = record.notices.iter().filter(shown);
    notices.map(|notice| paragraph(style, "note", &notice.text)).collect()
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
