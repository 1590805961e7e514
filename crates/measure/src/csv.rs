//! Records as CSV (RFC 4180): a line a measurement, base units, the unit in a column of its own.

use crate::record::{Measurement, Record};
use serde_json::Value;

/// The columns. Figures are in the measurement's `unit`.
const HEADER: [&str; 26] = [
    "id",
    "started",
    "host",
    "gauge",
    "test",
    "name",
    "unit",
    "value",
    "n",
    "best",
    "median",
    "p05",
    "p95",
    "ci95_low",
    "ci95_high",
    "status",
    "category",
    "limit",
    "limit_fraction",
    "moved",
    "threads",
    "bind",
    "array_bytes",
    "element",
    "stores",
    "pages",
];

/// All measurements of the records, under one header.
pub fn render(records: &[Record]) -> String {
    let mut out = HEADER.join(",") + "\n";
    for record in records {
        for measurement in &record.measurements {
            let row: Vec<String> =
                row(record, measurement).iter().map(|cell| quote(cell)).collect();
            out.push_str(&row.join(","));
            out.push('\n');
        }
    }
    out
}

fn row(record: &Record, m: &Measurement) -> Vec<String> {
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    let summary = m.summary.as_ref();
    let config = |path: &str| match m.config.get(path) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // The pages that were asked for stand for the object with what was got.
        Some(Value::Object(map)) => {
            map.get("asked").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        Some(other) => other.to_string(),
    };
    vec![
        record.id.clone(),
        record.started.clone(),
        record.machine.host.clone().unwrap_or_default(),
        m.gauge.clone(),
        m.test.clone(),
        m.name.clone(),
        m.unit.clone(),
        number(m.value),
        summary.map(|s| s.n.to_string()).unwrap_or_default(),
        number(summary.map(|s| s.best)),
        number(summary.map(|s| s.median)),
        number(summary.map(|s| s.p05)),
        number(summary.map(|s| s.p95)),
        number(summary.and_then(|s| s.ci95).map(|[low, _]| low)),
        number(summary.and_then(|s| s.ci95).map(|[_, high]| high)),
        word(&serde_json::to_value(m.validity.status)),
        word(&serde_json::to_value(m.category)),
        number(m.limit.as_ref().map(|limit| limit.value)),
        number(m.limit.as_ref().map(|limit| limit.fraction)),
        number(m.moved.as_ref().map(|moved| moved.value)),
        config("threads"),
        config("bind"),
        config("array_bytes"),
        config("element"),
        config("stores"),
        config("pages"),
    ]
}

/// The name of an enumeration's value, as JSON has it.
fn word(value: &serde_json::Result<Value>) -> String {
    value.as_ref().ok().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A cell, in quotes when it holds a separator, a quote or a line break.
fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quote("plain"), "plain");
        assert_eq!(quote("a,b"), "\"a,b\"");
        assert_eq!(quote("say \"x\""), "\"say \"\"x\"\"\"");
    }

    #[test]
    fn a_record_without_measurements_is_a_header() {
        assert_eq!(render(&[]).lines().count(), 1);
        assert_eq!(HEADER.len(), HEADER.iter().collect::<std::collections::BTreeSet<_>>().len());
    }
}
