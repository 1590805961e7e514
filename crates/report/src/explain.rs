//! The waterfall of `explain`: from the plain run to the best, one choice a line.

use crate::table::{Style, incomplete, paragraph, table};
use crate::words;
use nodegauge_measure::Bytes;
use nodegauge_measure::record::{Measurement, Record};

/// Widest bar, in characters.
const BAR: f64 = 24.0;

/// The waterfall with all that the run noticed.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = section(record, style);
    if !out.is_empty() {
        for notice in &record.notices {
            out.push_str(&paragraph(style, "note", &notice.text));
        }
        out.push_str(&incomplete(style, record));
    }
    out
}

/// The waterfall of the explained kernel, with the other kernels' factors beside it.
pub(crate) fn section(record: &Record, style: Style) -> String {
    let all: Vec<&Measurement> =
        record.measurements.iter().filter(|m| m.test == "explain").collect();
    let Some(whole) = all.iter().find(|m| m.name == "whole") else { return String::new() };
    let kernel = words::text(whole, "kernel").unwrap_or("triad");
    let from = words::number(whole, "from").unwrap_or(0.0);
    let to = words::number(whole, "to").unwrap_or(0.0);
    let scale = BAR / to.max(from).max(1.0);
    let bar = |rate: f64| "#".repeat((rate * scale).round().max(1.0) as usize);
    let baseline = words::text(whole, "baseline").unwrap_or("plain run");
    let mut rows = vec![vec!["baseline".to_owned(), String::new(), words::gb(from), bar(from)]];
    for m in all.iter().filter(|m| m.name != "whole") {
        let rate = words::number(m, "to").unwrap_or(0.0);
        rows.push(vec![
            m.name.clone(),
            m.value.map_or_else(|| "-".to_owned(), |x| format!("x {x:.3}")),
            words::gb(rate),
            bar(rate),
        ]);
    }
    rows.push(vec![
        "whole".to_owned(),
        whole.value.map_or_else(|| "-".to_owned(), |x| format!("x {x:.3}")),
        words::gb(to),
        String::new(),
    ]);
    let mut out = table(style, &[kernel, "factor", "GB/s", ""], &rows, &[1, 2]);
    out.push('\n');
    out.push_str(&paragraph(style, "baseline", baseline));
    for m in all.iter().filter(|m| m.name != "whole") {
        let what = words::text(m, "what").unwrap_or("");
        let others = m
            .config
            .get("factors")
            .and_then(serde_json::Value::as_object)
            .map(|factors| {
                factors
                    .iter()
                    .filter(|(name, _)| *name != kernel)
                    .filter_map(|(name, x)| Some(format!("{name} x {:.2}", x.as_f64()?)))
                    .collect::<Vec<_>>()
                    .join(", ")
            })
            .filter(|text| !text.is_empty())
            .map(|text| format!(" [{text}]"))
            .unwrap_or_default();
        out.push_str(&paragraph(style, &m.name, &format!("{what}{others}")));
    }
    let rounds = words::number(whole, "rounds").unwrap_or(0.0);
    let left_out = words::number(whole, "rounds_left_out").unwrap_or(0.0);
    let bytes = words::number(whole, "array_bytes").unwrap_or(0.0);
    out.push_str(&paragraph(
        style,
        "rounds",
        &format!(
            "{rounds} count, {left_out} left out because something interfered; all steps by turns in \
             random order; 3 arrays of {} for each; factors are geometric means",
            Bytes(bytes as u64)
        ),
    ));
    out.push_str(&crate::stream::doubts(&all, style));
    out.push_str(&paragraph(style, "name", crate::stream::VARIANT));
    out
}
