//! Comparison as CSV (RFC 4180): one line per pair, with figures in base units.

use super::Pair;
use crate::csv::{format_number, format_rows, join_texts};

/// Function that returns the content of a column for a pair.
type ColumnContent = fn(&Pair) -> String;

/// Names and contents of the columns; new columns are added at the end.
const COLUMNS: [(&str, ColumnContent); 23] = [
    ("gauge", |pair| pair.gauge.clone()),
    ("test", |pair| pair.test.clone()),
    ("name", |pair| pair.name.clone()),
    ("at", |pair| {
        join_texts(pair.at.iter().map(|(key, value)| {
            format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        }))
    }),
    ("unit", |pair| pair.unit.to_string()),
    ("statistic", |pair| pair.statistic.to_owned()),
    ("a", |pair| format_number(pair.a.value)),
    ("b", |pair| format_number(pair.b.value)),
    ("ratio", |pair| format_number(pair.ratio)),
    ("ci95_low", |pair| format_number(pair.ci95.map(|[low, _]| low))),
    ("ci95_high", |pair| format_number(pair.ci95.map(|[_, high]| high))),
    ("a_median", |pair| format_number(pair.a.median)),
    ("b_median", |pair| format_number(pair.b.median)),
    ("median_ratio", |pair| format_number(pair.median_ratio)),
    ("verdict", |pair| pair.verdict.name().to_owned()),
    ("a_samples", |pair| pair.a.samples.to_string()),
    ("b_samples", |pair| pair.b.samples.to_string()),
    ("a_runs", |pair| pair.a.runs.to_string()),
    ("b_runs", |pair| pair.b.runs.to_string()),
    ("reasons", |pair| join_texts(pair.reasons.iter().map(ToString::to_string))),
    ("visible", |pair| format_number(pair.visible)),
    ("basis", |pair| pair.basis.map(|basis| basis.name().to_owned()).unwrap_or_default()),
    ("needed", |pair| pair.needed.map(|runs| runs.to_string()).unwrap_or_default()),
];

pub(super) fn render(pairs: &[Pair]) -> String {
    let mut rows: Vec<Vec<String>> =
        vec![COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect()];
    for pair in pairs {
        rows.push(COLUMNS.iter().map(|(_, cell)| cell(pair)).collect());
    }
    format_rows(&rows)
}
