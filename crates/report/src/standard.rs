//! Standard results of STREAM, beside the native variant of the same run where there is one.

use crate::stream::{self, doubts};
use crate::table::{Style, paragraph, table};
use crate::words;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, regime};
use serde_json::Value;

/// The table and the evidence of the standard results; empty without any.
pub(crate) fn render(record: &Record, style: Style) -> String {
    let standard: Vec<&Measurement> =
        stream::all(record).into_iter().filter(|m| m.category == Category::Standard).collect();
    if standard.is_empty() {
        return String::new();
    }
    let native = stream::of(record);
    let mut rows = Vec::new();
    for m in &standard {
        let own = native.iter().find(|own| own.name == m.name).copied();
        rows.push(row(m, own));
    }
    let mut out = table(
        style,
        &["GB/s", "standard", "median", "variant", "ratio", "program"],
        &rows,
        &[1, 2, 3, 4],
    );
    out.push('\n');
    let mut builds: Vec<Vec<&Measurement>> = Vec::new();
    for m in standard {
        match builds.last_mut().filter(|build| program(build[0]) == program(m)) {
            Some(build) => build.push(m),
            None => builds.push(vec![m]),
        }
    }
    for build in &builds {
        out.push_str(&paragraph(style, "standard", &evidence(build[0])));
        out.push_str(&doubts(build, style));
    }
    out
}

fn row(m: &Measurement, own: Option<&Measurement>) -> Vec<String> {
    let figure = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), words::gb);
    let (beside, ratio) = match own.and_then(|own| comparable(own, m)) {
        Some(own) => {
            let ratio = m.value.map(|value| own / value).filter(|ratio| ratio.is_finite());
            (words::gb(own), ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2} x")))
        }
        None => ("-".to_owned(), "-".to_owned()),
    };
    vec![
        m.name.clone(),
        m.value.map_or_else(|| words::status(m.validity.status).to_owned(), words::gb),
        figure(m.summary.as_ref().filter(|_| m.value.is_some()).map(|summary| summary.median)),
        beside,
        ratio,
        program(m),
    ]
}

/// The best of the native kernel in the regime of another result of the same run; `None` when it never met
/// that regime: figures of different regimes are not set beside each other.
pub(crate) fn comparable(own: &Measurement, other: &Measurement) -> Option<f64> {
    own.value?;
    let Some(trip) = words::number(other, "round_trip_s") else { return own.value };
    match words::number(own, "round_trip_s") {
        Some(mine) if !regime::same(mine, trip) => own
            .regimes
            .iter()
            .find(|met| regime::same(met.round_trip_s, trip))
            .map(|met| met.summary.best),
        _ => own.value,
    }
}

/// `stream.c, gcc -O3 -fopenmp`.
fn program(m: &Measurement) -> String {
    let engine = words::text(m, "engine").unwrap_or("stream.c");
    match of_compiler(m, "command") {
        Some(command) => format!("{engine}, {command}"),
        None => engine.to_owned(),
    }
}

pub(crate) fn of_compiler<'a>(m: &'a Measurement, key: &str) -> Option<&'a str> {
    m.config.get("compiler")?.get(key).and_then(Value::as_str)
}

/// What stands behind the figures of a build.
fn evidence(m: &Measurement) -> String {
    let engine = words::text(m, "engine").unwrap_or("stream.c");
    let version = words::text(m, "engine_version").map(|v| format!(" {v}")).unwrap_or_default();
    let mut parts = vec![format!("{engine}{version}")];
    // Of a saved output nobody knows what was compiled.
    if let Some(compiler) = of_compiler(m, "version").or_else(|| of_compiler(m, "command")) {
        parts.push(format!("the given source as it is, compiled by {compiler}"));
    }
    if let Some(bytes) = words::number(m, "array_bytes") {
        parts.push(format!("3 arrays of {}", Bytes(bytes as u64)));
    }
    if let Some(threads) = words::number(m, "threads") {
        parts.push(format!("{threads} {}", if threads == 1.0 { "thread" } else { "threads" }));
    }
    if let Some(ranks) = words::number(m, "ranks") {
        parts.push(format!("{ranks} ranks"));
    }
    let passes = words::number(m, "ntimes");
    match (&m.summary, passes) {
        (Some(summary), Some(passes)) if summary.n == 1 => {
            parts.push(format!("1 run of {passes} passes"));
        }
        (Some(summary), Some(passes)) => {
            parts.push(format!("best of {} runs of {passes} passes by turns", summary.n));
        }
        _ => parts.push("no run that counts".to_owned()),
    }
    if !m.disturbed.is_empty() {
        parts.push(format!("{} left out because the cpus were moved", m.disturbed.len()));
    }
    parts.join(", ")
}
