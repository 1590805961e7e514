//! The result of `hpl`: the rating, what it is held against, its residual, and the plan.

use crate::table::{Loudness, Style, incomplete, loud_paragraph, paragraph, table};
use crate::words;
use nodegauge_measure::record::{Category, Measurement, Record, Status};
use nodegauge_measure::{Bytes, FlopsPerSec, Hertz, Seconds};

/// A plan in numbers; see [`plan`].
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// N.
    pub order: usize,
    /// How it came about.
    pub formula: String,
    /// NB.
    pub nb: usize,
    /// How that came about.
    pub nb_basis: String,
    /// Threads of the native run.
    pub threads: usize,
    /// Threads that factor a panel together.
    pub crew: usize,
    /// P and Q of the real HPL.
    pub grid: (usize, usize),
    /// Its ranks.
    pub ranks: usize,
    /// Threads of each.
    pub threads_a_rank: usize,
    /// Predicted seconds of the solution.
    pub seconds: f64,
    /// The rate on which the prediction rests, in words.
    pub rate: String,
    /// Bytes of the matrix.
    pub bytes: u64,
    /// Bytes in all.
    pub needed: u64,
    /// Bytes that can be had.
    pub available: u64,
    /// Why the rating would mean little.
    pub doubt: Option<String>,
}

/// A plan, formulas with their numbers.
pub fn plan(plan: &Plan, style: Style) -> String {
    let Plan { order, formula, nb, nb_basis, threads, crew, grid: (p, q), ranks, .. } = plan;
    let beyond = 100.0 * (plan.needed as f64 / plan.bytes as f64 - 1.0);
    let lines = [
        ("N", format!("{order}: {formula}")),
        ("NB", format!("{nb} ({nb_basis})")),
        ("native", format!("{threads} threads, {crew} of them on a panel")),
        (
            "P x Q",
            format!(
                "{p} x {q} for {ranks} ranks of {} threads (P <= Q, as square as may be, P a power of two where it can be)",
                plan.threads_a_rank
            ),
        ),
        (
            "memory",
            format!(
                "8 B x N x (N + 1) = {}, at most {} in all (+{beyond:.1} %), of {} that can be had",
                Bytes(plan.bytes),
                Bytes(plan.needed),
                Bytes(plan.available)
            ),
        ),
        (
            "time",
            format!(
                "{} predicted for (2/3 N^3 + 3/2 N^2) = {:.4e} operations; {}",
                Seconds(plan.seconds),
                2.0 / 3.0 * (*order as f64).powi(3) + 1.5 * (*order as f64).powi(2),
                plan.rate
            ),
        ),
    ];
    let mut out: String = lines.iter().map(|(label, text)| paragraph(style, label, text)).collect();
    if let Some(doubt) = &plan.doubt {
        out.push_str(&loud_paragraph(style, Loudness::Warning, "doubt", doubt));
    }
    out
}

/// The whole result.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = section(record, style);
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", &notice.text));
    }
    out.push_str(&incomplete(style, record));
    out
}

fn all(record: &Record) -> Vec<&Measurement> {
    record.measurements.iter().filter(|m| m.gauge == "compute" && m.test == "hpl").collect()
}

/// The part of the page: the table and the evidence, of which a page with other gauges shows what the
/// rating rests on.
pub(crate) fn section(record: &Record, style: Style) -> String {
    let all = all(record);
    if all.is_empty() {
        return String::new();
    }
    let alone = record.measurements.iter().all(|m| m.gauge == "compute");
    let rows: Vec<Vec<String>> = all.iter().map(|m| row(m)).collect();
    let mut out = table(style, &["GFLOP/s", "", "median", "of limit", "how"], &rows, &[1, 2, 3]);
    out.push('\n');
    let native = all.iter().filter(|m| m.name == "rating" && m.category == Category::Variant);
    for m in native {
        out.push_str(&if alone { evidence(m, style) } else { brief(m, style) });
    }
    for m in all.iter().filter(|m| alone && m.name.starts_with("fma_peak")) {
        out.push_str(&peak_lines(m, style));
    }
    for m in &all {
        for reason in &m.validity.reasons {
            let loudness = if m.validity.status == Status::Invalid {
                Loudness::Bad
            } else {
                Loudness::Warning
            };
            let text = format!("{}: {reason}", m.name);
            out.push_str(&loud_paragraph(style, loudness, words::status(m.validity.status), &text));
        }
    }
    out
}

fn gflops(rate: f64) -> String {
    format!("{:.1}", rate / 1e9)
}

fn row(m: &Measurement) -> Vec<String> {
    let how = match m.name.as_str() {
        "rating" => {
            let n = |key| words::number(m, key).unwrap_or(0.0);
            let by = match words::text(m, "engine") {
                Some("native") => words::text(m, "blas").unwrap_or("?").to_owned(),
                other => format!("{}, P x Q = {} x {}", other.unwrap_or("?"), n("p"), n("q")),
            };
            format!("N {}, NB {}, {by}", n("n"), n("nb"))
        }
        "dgemm" => words::text(m, "blas").unwrap_or("?").to_owned(),
        _ => {
            let clock = words::number(m, "clock_hz");
            let clock = clock.map(|hz| format!(" at {}", Hertz(hz))).unwrap_or_default();
            format!("{} in registers{clock}", words::text(m, "isa").unwrap_or("?"))
        }
    };
    vec![
        m.name.clone(),
        m.value.map_or_else(|| words::status(m.validity.status).to_owned(), gflops),
        m.summary.as_ref().filter(|s| s.n > 1).map_or_else(|| "-".to_owned(), |s| gflops(s.median)),
        m.limit
            .as_ref()
            .map_or_else(|| "-".to_owned(), |limit| format!("{:.1} %", 100.0 * limit.fraction)),
        how,
    ]
}

/// What stands behind a native rating, in a line or two.
fn brief(m: &Measurement, style: Style) -> String {
    let mut parts = Vec::new();
    if let Some(seconds) = words::number(m, "seconds") {
        parts.push(format!("solved in {}", Seconds(seconds)));
    }
    if let Some(of) = words::number(m, "of_dgemm") {
        parts.push(format!("{:.1} % of DGEMM", 100.0 * of));
    }
    if let Some(value) = m.config.get("residual").and_then(|r| r.get("value")?.as_f64()) {
        parts.push(format!("residual {value:.3e} (16 and more fails)"));
    }
    paragraph(style, "rating", &parts.join("; "))
}

/// What stands behind a native rating.
fn evidence(m: &Measurement, style: Style) -> String {
    let number = |key: &str| words::number(m, key);
    let part = |key: &str, inner: &str| m.config.get(key)?.get(inner)?.as_f64();
    let mut out = String::new();
    if let (Some(n), Some(seconds)) = (number("n"), number("seconds")) {
        let shares: Vec<String> = [
            ("of_dgemm", "DGEMM"),
            ("of_fma_peak", "the peak in registers"),
            ("of_theoretical", "the theoretical peak"),
        ]
        .into_iter()
        .filter_map(|(key, of)| Some(format!("{:.1} % of {of}", 100.0 * number(key)?)))
        .collect();
        let shares =
            if shares.is_empty() { String::new() } else { format!("; {}", shares.join(", ")) };
        let text = format!("(2/3 N^3 + 3/2 N^2) / t with N = {n}, t = {seconds:.3} s{shares}");
        out.push_str(&paragraph(style, "rating", &text));
    }
    if let Some(value) = part("residual", "value") {
        let verdict =
            if value < part("residual", "threshold").unwrap_or(16.0) { "PASSED" } else { "FAILED" };
        let formula =
            m.config.get("residual").and_then(|r| r.get("formula")).and_then(|f| f.as_str());
        let text =
            format!("{} = {value:.3e} against 16: {verdict}", formula.unwrap_or("scaled residual"));
        out.push_str(&paragraph(style, "residual", &text));
    }
    if let Some(formula) = words::text(m, "order_formula") {
        let huge = number("on_huge_pages").map(|x| format!(", {:.0} % on huge pages", 100.0 * x));
        let text = format!(
            "{formula}; {}{}",
            Bytes(number("matrix_bytes").unwrap_or(0.0) as u64),
            huge.unwrap_or_default()
        );
        out.push_str(&paragraph(style, "N", &text));
    }
    if let Some(text) = search(m) {
        out.push_str(&paragraph(style, "NB", &text));
    }
    if let (Some(panels), Some(waiting), Some(solve)) =
        (part("time", "panels"), part("time", "waiting"), part("time", "solve_s"))
    {
        let text = format!(
            "{} threads: panels {:.1} %, waiting {:.1} % of their time; back-substitution {}",
            number("threads").unwrap_or(0.0),
            100.0 * panels,
            100.0 * waiting,
            Seconds(solve)
        );
        out.push_str(&paragraph(style, "time", &text));
    }
    if let Some(power) = m.config.get("power") {
        let text = match (
            power.get("watts").and_then(|w| w.as_f64()),
            power.get("reason").and_then(|r| r.as_str()),
        ) {
            (Some(watts), _) => {
                let a_watt = power.get("flops_per_watt").and_then(|x| x.as_f64()).unwrap_or(0.0);
                let basis = power.get("basis").and_then(|b| b.as_str()).unwrap_or("?");
                format!("{watts:.0} W ({basis}), {:.2} GFLOP/s per watt", a_watt / 1e9)
            }
            (None, reason) => format!("unknown: {}", reason.unwrap_or("?")),
        };
        out.push_str(&paragraph(style, "power", &text));
    }
    out
}

/// The search of NB at its larger size, best first.
fn search(m: &Measurement) -> Option<String> {
    let tried = m.config.get("search")?.as_array()?;
    let number = |entry: &serde_json::Value, key: &str| entry.get(key).and_then(|x| x.as_f64());
    let largest = tried.iter().filter_map(|entry| number(entry, "n")).reduce(f64::max)?;
    let mut last: Vec<(f64, f64)> = tried
        .iter()
        .filter(|entry| number(entry, "n") == Some(largest))
        .filter_map(|entry| Some((number(entry, "rate")?, number(entry, "nb")?)))
        .collect();
    last.sort_by(|a, b| b.0.total_cmp(&a.0));
    let shown: Vec<String> =
        last.iter().take(3).map(|(rate, nb)| format!("{nb}: {} GFLOP/s", gflops(*rate))).collect();
    Some(format!("by {} runs; at N = {largest} {}", tried.len(), shown.join(", ")))
}

fn peak_lines(m: &Measurement, style: Style) -> String {
    let mut out = String::new();
    let precision = match words::text(m, "element") {
        Some("f32") => " in single precision",
        _ => "",
    };
    if let Some(theory) = m.config.get("theoretical") {
        let formula = theory.get("formula").and_then(|f| f.as_str()).unwrap_or("?");
        let value = |key: &str| theory.get(key).and_then(|x| x.as_f64()).unwrap_or(0.0);
        let text = format!(
            "{} = {formula}{precision}; {} without",
            FlopsPerSec(value("value")),
            FlopsPerSec(value("without_fma"))
        );
        out.push_str(&paragraph(style, "theory", &text));
    }
    if let Some(loops) = m.config.get("loops").and_then(|l| l.as_array()) {
        let text: Vec<String> = loops
            .iter()
            .filter_map(|l| {
                Some(format!("{} {}", l.get("isa")?.as_str()?, gflops(l.get("rate")?.as_f64()?)))
            })
            .collect();
        out.push_str(&paragraph(
            style,
            "registers",
            &format!("{} GFLOP/s{precision}", text.join(", ")),
        ));
    }
    out
}
