//! Records as CSV (RFC 4180) for spreadsheets and data frames: one line per measurement.
//!
//! Figures are in base units, and the unit of a measurement is in its own column. The cell of an unknown value is
//! empty. New columns are added at the end; the order of the existing columns does not change.

use nodegauge_measure::keys::{Registry, scalar_text};
use nodegauge_measure::legible;
use nodegauge_measure::record::{Measurement, Record};
use serde_json::Value;

/// Function that returns the content of a column for a measurement.
type ColumnContent = fn(&Record, &Measurement) -> String;

/// Columns that all measurements have: name and content.
const COLUMNS: &[(&str, ColumnContent)] = &[
    ("id", |r, _| r.id.clone()),
    ("started", |r, _| r.started.clone()),
    ("host", |r, m| m.host().or(r.machine.host.as_deref()).unwrap_or_default().to_owned()),
    ("gauge", |_, m| m.gauge.clone()),
    ("test", |_, m| m.test.clone()),
    ("name", |_, m| m.name.clone()),
    ("unit", |_, m| m.unit.to_string()),
    ("value", |_, m| format_number(m.value)),
    ("n", |_, m| m.summary.as_ref().map(|s| s.n.to_string()).unwrap_or_default()),
    ("best", |_, m| format_number(m.summary.as_ref().map(|s| s.best))),
    ("median", |_, m| format_number(m.summary.as_ref().map(|s| s.median))),
    ("p05", |_, m| format_number(m.summary.as_ref().map(|s| s.p05))),
    ("p95", |_, m| format_number(m.summary.as_ref().map(|s| s.p95))),
    ("ci95_low", |_, m| format_number(m.summary.as_ref().and_then(|s| s.ci95).map(|[low, _]| low))),
    ("ci95_high", |_, m| {
        format_number(m.summary.as_ref().and_then(|s| s.ci95).map(|[_, high]| high))
    }),
    ("status", |_, m| word(serde_json::to_value(m.validity.status))),
    ("category", |_, m| word(serde_json::to_value(m.category))),
    ("limit", |_, m| format_number(m.limit.as_ref().map(|limit| limit.value))),
    ("limit_fraction", |_, m| format_number(m.limit.as_ref().map(|limit| limit.fraction.0))),
    ("traffic", |_, m| format_number(m.traffic.as_ref().map(|traffic| traffic.value))),
    ("complete", |r, _| r.complete.to_string()),
    ("labels", |r, _| join_texts(r.labels.iter().map(|(key, value)| format!("{key}={value}")))),
    ("reasons", |_, m| join_texts(m.validity.reasons.iter().cloned())),
];

/// Returns all measurements of the records below one header: the columns that all measurements have, then one column
/// for each registry key with a column.
pub fn render(records: &[Record], registry: &Registry) -> String {
    let keys: Vec<&str> = registry.columns().iter().map(|key| key.name).collect();
    let common = COLUMNS.iter().map(|(name, _)| *name);
    let mut rows = vec![common.chain(keys.iter().copied()).map(str::to_owned).collect()];
    for record in records {
        for measurement in &record.measurements {
            let cells = COLUMNS.iter().map(|(_, cell)| cell(record, measurement));
            rows.push(cells.chain(keys.iter().map(|key| config(measurement, key))).collect());
        }
    }
    format_rows(&rows)
}

/// Formats rows as CSV; the first row is the header, and all rows must have the same length.
pub fn format_rows(rows: &[Vec<String>]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer
            .write_record(row.iter().map(|cell| no_formula(cell)))
            .expect("writing to memory cannot fail, and all rows have the same length");
    }
    let bytes = writer.into_inner().expect("flushing to memory cannot fail");
    String::from_utf8(bytes).expect("cells and separators are UTF-8")
}

/// Characters with which spreadsheets begin a formula, according to OWASP ("CSV Injection"), and their full-width
/// forms, which East Asian editions interpret in the same way.
const FORMULAS: [char; 11] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Returns a cell that spreadsheets do not interpret as a formula. If the cell is not a number and begins with one of
/// [`FORMULAS`], an apostrophe is prepended, as OWASP recommends. Leading spaces and invisible characters are skipped,
/// as in spreadsheets.
fn no_formula(cell: &str) -> String {
    let begins =
        cell.chars().count() > 1 && cell.trim_start_matches(is_ignored).starts_with(FORMULAS);
    if begins && cell.parse::<f64>().is_err() {
        return format!("'{cell}");
    }
    cell.to_owned()
}

/// True for spaces and invisible characters.
fn is_ignored(c: char) -> bool {
    c == ' ' || c == '\u{3000}' || legible::is_deceiving(c)
}

/// Formats a number exactly, so that parsing returns the same number; empty if the number is unknown or not finite.
pub fn format_number(figure: Option<f64>) -> String {
    figure.filter(|x| x.is_finite()).map(|x| x.to_string()).unwrap_or_default()
}

/// Returns the name of an enum value in JSON.
fn word(value: serde_json::Result<Value>) -> String {
    value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Joins several texts for one cell.
pub fn join_texts(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns a value of the configuration as text: a short text if it has one, lists as JSON, and other objects as a list
/// of their entries.
fn config(measurement: &Measurement, name: &str) -> String {
    let Some(value) = measurement.config.get(name) else { return String::new() };
    if let Some(text) = scalar_text(value) {
        return text;
    }
    match value {
        Value::Array(_) => value.to_string(),
        Value::Object(map) => join_texts(map.iter().filter_map(entry)),
        _ => String::new(),
    }
}

/// Formats an entry of an object; `None` if its value has no short text.
fn entry((key, part): (&String, &Value)) -> Option<String> {
    Some(format!("{key}={}", scalar_text(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::keys::shared;
    use serde_json::json;

    nodegauge_measure::config! {
        /// Configuration keys of the test.
        pub struct Keys {
            message_bytes: shared::message_bytes;
            threads: shared::threads;
            /// Kind of pages.
            pages: Value = Setting "pages";
            /// Number of passes.
            passes: u64 = Observation "passes";
        }
    }

    #[test]
    fn cells_never_become_formulas() {
        let row = ["=cmd|' /C calc'!A0", "@SUM(A1)", "-5.5", "+1e9", "-", "-x", "\t=1"];
        let text = format_rows(&[row.map(str::to_owned).to_vec()]);
        assert_eq!(text, "'=cmd|' /C calc'!A0,'@SUM(A1),-5.5,+1e9,-,'-x,'\t=1\n");
        let hidden = [
            "\u{ff1d}1+1",
            "\u{ff0b}1",
            "\u{ff0d}1",
            "\u{ff20}SUM(A1)",
            " =1+1",
            "\u{200b}=1",
            "\u{feff}=1",
        ];
        let guarded = format_rows(&[hidden.map(str::to_owned).to_vec()]);
        assert!(guarded.split(',').all(|cell| cell.starts_with('\'')), "{guarded}");
    }

    fn registry() -> Registry {
        Registry::new([nodegauge_measure::keys::ConfigKind::from_config::<Keys>(
            "memory",
            &["stream"],
        )])
    }

    /// Returns a record with a memory measurement, a measurement without a result, and a message measurement.
    fn record() -> Record {
        serde_json::from_value(json!({
            "schema": "nodegauge/1", "id": "01KA0000000000000000000001",
            "started": "2026-11-21T05:00:00Z", "seconds": 9.5, "complete": true,
            "tool": {"version": "0.1.0", "commit": null}, "command": ["stream"],
            "labels": {"bios": "NPS4, \"tuned\"", "ecc": "on"},
            "machine": {
                "host": "n01",
                "processor": {"model": null, "microarchitecture": null, "sockets": 1, "cores": 2,
                              "threads": 2, "flops_per_cycle": null, "hz": null},
                "caches": [], "numa_nodes": [],
                "memory": {"bytes": null, "available": null, "channels": null,
                           "transfers_per_s": null, "theoretical": null},
                "peak_flops": null, "kernel": null, "virtual": null,
            },
            "measurements": [
                {"gauge": "memory", "test": "stream", "name": "triad", "unit": "B/s",
                 "value": 78.4e9,
                 "summary": {"n": 6, "best": 78.4e9, "median": 78.1e9, "p05": 77e9, "p95": 78.3e9,
                             "ci95": [77.5e9, 78.2e9]},
                 "samples": [],
                 "config": {"threads": 2, "bind": "close", "stores": "nontemporal",
                            "pages": {"asked": "thp", "got": {"2097152": 0.997}},
                            "element": "f64", "array_bytes": 268435456, "engine": "native"},
                 "quoted": "best", "traffic": {"value": 78.4e9, "basis": "no write-allocate"},
                 "category": "variant",
                 "limit": {"value": 1e11, "basis": "option", "fraction": 0.784},
                 "validity": {"status": "valid", "reasons": []}},
                {"gauge": "memory", "test": "stream", "name": "copy", "unit": "B/s",
                 "value": null, "summary": null, "samples": [], "config": {}, "quoted": "median", "traffic": null,
                 "category": "variant", "limit": null,
                 "validity": {"status": "invalid", "reasons": ["a[0] is 1, not 2", "stopped"]}},
                {"gauge": "messages", "test": "mpi", "name": "latency", "unit": "s",
                 "value": 2.5e-7, "summary": null, "samples": [],
                 "config": {"message_bytes": 8, "distance": "same socket"}, "quoted": "median", "traffic": null,
                 "category": "variant", "limit": null,
                 "validity": {"status": "valid", "reasons": []}},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn record_has_one_line_per_measurement() {
        insta::assert_snapshot!(render(&[record()], &registry()), @r#"
        id,started,host,gauge,test,name,unit,value,n,best,median,p05,p95,ci95_low,ci95_high,status,category,limit,limit_fraction,traffic,complete,labels,reasons,threads,pages,message_bytes
        01KA0000000000000000000001,2026-11-21T05:00:00Z,n01,memory,stream,triad,B/s,78400000000,6,78400000000,78100000000,77000000000,78300000000,77500000000,78200000000,valid,variant,100000000000,0.784,78400000000,true,"bios=NPS4, ""tuned""; ecc=on",,2,thp,
        01KA0000000000000000000001,2026-11-21T05:00:00Z,n01,memory,stream,copy,B/s,,,,,,,,,invalid,variant,,,,true,"bios=NPS4, ""tuned""; ecc=on","a[0] is 1, not 2; stopped",,,
        01KA0000000000000000000001,2026-11-21T05:00:00Z,n01,messages,mpi,latency,s,0.00000025,,,,,,,,valid,variant,,,,true,"bios=NPS4, ""tuned""; ecc=on",,,,8
        "#);
    }

    #[test]
    fn csv_round_trips() {
        let odd = ["plain", "a,b", "say \"x\"", "two\nlines", "cr\r", " blank ", "", "ü→"];
        let rows = vec![odd.map(str::to_owned).to_vec(), vec![String::new(); odd.len()]];
        let text = format_rows(&rows);
        assert!(text.starts_with("plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\"cr\r\","));
        let mut reader =
            ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let back: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        assert_eq!(back, rows);
    }

    #[test]
    fn figures_round_trip_exactly() {
        for x in [0.1, 1e-300, 78_412_345_678.9, f64::MAX, 0.0] {
            assert_eq!(format_number(Some(x)).parse(), Ok(x));
        }
        assert_eq!(format_number(Some(f64::NAN)), "");
        assert_eq!(format_number(None), "");
    }

    #[test]
    fn records_share_one_csv_header() {
        assert_eq!(render(&[], &registry()).lines().count(), 1);
        assert_eq!(render(&[record(), record()], &registry()).lines().count(), 7);
        let names: std::collections::BTreeSet<_> = COLUMNS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), COLUMNS.len());
    }
}
