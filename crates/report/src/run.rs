//! The one page of `run`: the machine, what matters of the findings, the figures with their
//! evidence.

use crate::table::{Style, incomplete, paragraph};
use crate::{machine, standard, stream, words};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Finding, Record, Severity};

/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 3;

/// The page.
pub fn render(record: &Record, style: Style) -> String {
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
    let memory = stream::of(record);
    if let Some(first) = memory.first() {
        out.push('\n');
        out.push_str(&stream::rates(&memory, style));
        out.push('\n');
        out.push_str(&paragraph(style, "how", &words::how(first)));
        if let Some(regimes) = memory.last().and_then(|m| words::regimes(m)) {
            out.push_str(&paragraph(style, "regime", &regimes));
        }
        out.push_str(&stream::doubts(&memory, style));
        out.push_str(&paragraph(style, "name", stream::VARIANT));
    }
    let standard = standard::render(record, style);
    if !standard.is_empty() {
        out.push('\n');
        out.push_str(&standard);
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
