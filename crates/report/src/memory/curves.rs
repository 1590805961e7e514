//! Curves: bandwidth and latency over working sets, latency over load.

use super::{bars, evidence, ns, shown};
use crate::table::{Style, table};
use crate::{text, words};
use nodegauge_gauge::view::{Chart, Scale, Series};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Bytes, Unit};

/// The working sets of some measurements, ascending.
fn sets(of: &[&Measurement]) -> Vec<u64> {
    let mut sets: Vec<u64> = of.iter().filter_map(|m| m.name.parse().ok()).collect();
    sets.sort_unstable();
    sets.dedup();
    sets
}

/// Distinct texts of `key`, in order of appearance.
fn kinds<'a>(
    of: &[&'a Measurement],
    key: impl Fn(&'a Measurement) -> Option<&'a str>,
) -> Vec<&'a str> {
    let mut kinds: Vec<&str> = Vec::new();
    for kind in of.iter().filter_map(|m| key(m)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn pages(m: &Measurement) -> Option<&str> {
    m.config.get("pages")?.get("asked")?.as_str()
}

/// Powers of four from the first set on, for the axis.
fn ticks(sets: &[u64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (sets.first(), sets.last()) else { return Vec::new() };
    let mut ticks = vec![*first as f64];
    while let Some(tick) = ticks.last().map(|tick| tick * 4.0).filter(|tick| *tick <= *last as f64)
    {
        ticks.push(tick);
    }
    ticks
}

/// The levels of one curve: a line each, with what the machine says.
fn levels(of: &[&Measurement], figure: fn(f64) -> String, unit: &str, style: Style) -> String {
    let mut found: Vec<(&str, Vec<&Measurement>)> = Vec::new();
    for m in of {
        if let Some(name) = words::text(m, "level") {
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, members)) => members.push(m),
                None => found.push((name, vec![m])),
            }
        }
    }
    if found.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(name, members)| {
            let values: Vec<f64> = members.iter().filter_map(|m| m.value).collect();
            let bytes = |m: Option<&&Measurement>| {
                m.and_then(|m| words::number(m, "thread_bytes"))
                    .map_or_else(|| "?".to_owned(), |bytes| Bytes(bytes as u64).to_string())
            };
            let said = members.first().and_then(|m| words::number(m, "level_reported_bytes"));
            vec![
                (*name).to_owned(),
                figure(nodegauge_measure::stats::median(&values)),
                format!("{} to {}", bytes(members.first()), bytes(members.last())),
                said.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes as u64).to_string()),
            ]
        })
        .collect();
    table(style, &["level", unit, "sets of a thread", "said to hold"], &rows, &[1])
}

/// Bandwidth by working set.
pub(super) fn ladder(of: &[&Measurement], style: Style) -> String {
    let patterns = kinds(of, |m| words::text(m, "kernel"));
    let sets = sets(of);
    let at = |set: u64, pattern: &str| {
        let name = set.to_string();
        of.iter().find(|m| m.name == name && words::text(m, "kernel") == Some(pattern))
    };
    let mut header = vec!["GB/s"];
    header.extend(&patterns);
    header.extend(["a thread", "level"]);
    let rows: Vec<Vec<String>> = sets
        .iter()
        .map(|set| {
            let mut row = vec![Bytes(*set).to_string()];
            row.extend(patterns.iter().map(|pattern| shown(at(*set, pattern), words::gb)));
            let any = patterns.iter().find_map(|pattern| at(*set, pattern));
            let each = any.and_then(|m| words::number(m, "thread_bytes"));
            row.push(each.map_or_else(|| "?".to_owned(), |bytes| Bytes(bytes as u64).to_string()));
            row.push(any.and_then(|m| words::text(m, "level")).unwrap_or("").to_owned());
            row
        })
        .collect();
    let right: Vec<usize> = (0..header.len() - 1).collect();
    let mut out = table(style, &header, &rows, &right);
    out.push('\n');
    let series: Vec<Series> = patterns
        .iter()
        .map(|pattern| Series {
            mark: pattern.chars().next().unwrap_or('*'),
            name: (*pattern).to_owned(),
            dots: sets
                .iter()
                .filter_map(|set| Some((*set as f64, at(*set, pattern)?.value?)))
                .collect(),
        })
        .collect();
    let y = Scale::Rate(Unit::BytesPerSecond);
    let chart = Chart { x: Scale::Bytes, y, ticks: ticks(&sets), series };
    out.push_str(&text::chart(&chart, style));
    let first = patterns.first().copied().unwrap_or("");
    let curve: Vec<&Measurement> = sets.iter().filter_map(|set| at(*set, first).copied()).collect();
    let found = levels(&curve, words::gb, "GB/s", style);
    if !found.is_empty() {
        out.push_str(&format!("\n{found}"));
    }
    out.push_str("\nall threads together; levels are those of reads\n");
    out.push_str(&evidence(of, style, "regular stores"));
    out
}

/// Idle latency by working set.
pub(super) fn latency(of: &[&Measurement], style: Style) -> String {
    let kinds = kinds(of, pages);
    let sets = sets(of);
    let at = |set: u64, kind: &str| {
        let name = set.to_string();
        of.iter().find(|m| m.name == name && pages(m) == Some(kind))
    };
    let last = kinds.last().copied().unwrap_or("");
    let mut header = vec!["ns"];
    header.extend(&kinds);
    header.push("5 %..95 %");
    if kinds.len() > 1 {
        header.push("x");
    }
    header.push("level");
    let rows: Vec<Vec<String>> = sets
        .iter()
        .map(|set| {
            let mut row = vec![Bytes(*set).to_string()];
            row.extend(kinds.iter().map(|kind| shown(at(*set, kind), ns)));
            let spread = at(*set, last).and_then(|m| m.summary.as_ref());
            row.push(
                spread.map_or_else(|| "-".to_owned(), |s| format!("{}..{}", ns(s.p05), ns(s.p95))),
            );
            if kinds.len() > 1 {
                let ratio = at(*set, kinds[0])
                    .and_then(|m| m.value)
                    .zip(at(*set, last).and_then(|m| m.value));
                row.push(ratio.map_or_else(|| "-".to_owned(), |(x, y)| format!("{:.2}", x / y)));
            }
            let level = at(*set, last).and_then(|m| words::text(m, "level"));
            row.push(level.unwrap_or("").to_owned());
            row
        })
        .collect();
    let right: Vec<usize> = (0..header.len() - 1).collect();
    let mut out = table(style, &header, &rows, &right);
    out.push('\n');
    let series: Vec<Series> = kinds
        .iter()
        .map(|kind| Series {
            mark: if *kind == "4k" { '4' } else { kind.chars().next().unwrap_or('*') },
            name: format!("{kind} pages"),
            dots: sets
                .iter()
                .filter_map(|set| Some((*set as f64, at(*set, kind)?.value?)))
                .collect(),
        })
        .collect();
    let chart = Chart { x: Scale::Bytes, y: Scale::Nanoseconds, ticks: ticks(&sets), series };
    out.push_str(&text::chart(&chart, style));
    let curve: Vec<&Measurement> = sets.iter().filter_map(|set| at(*set, last).copied()).collect();
    let found = levels(&curve, ns, "ns", style);
    if !found.is_empty() {
        out.push_str(&format!("\n{found}"));
    }
    let about = if kinds.len() > 1 {
        format!(
            "spread and levels are of {last} pages; x: {} over {last}, the cost of the TLB",
            kinds[0]
        )
    } else {
        format!("levels are of {last} pages")
    };
    out.push_str(&format!("\n{about}\n"));
    let first = of.first();
    let stride = first.and_then(|m| words::number(m, "stride_bytes")).unwrap_or(0.0);
    let locality = match first.and_then(|m| words::text(m, "locality")) {
        Some("whole") | None => "the whole set".to_owned(),
        Some(bytes) => format!("blocks of {}", bytes.parse().map(Bytes).unwrap_or_default()),
    };
    let what = format!("chase in random order over {locality}, an element every {stride} B");
    out.push_str(&evidence(of, style, &what));
    out
}

/// Latency under load.
pub(super) fn loaded(of: &[&Measurement], style: Style) -> String {
    let named = |name: &str| of.iter().find(|m| m.name == name);
    let idle = named("latency_idle").and_then(|m| m.value);
    let steps: Vec<&str> = of.iter().filter_map(|m| m.name.strip_prefix("latency_")).collect();
    let latency = |step: &str| named(&format!("latency_{step}"));
    let rate = |step: &str| named(&format!("bandwidth_{step}"));
    let most = steps.iter().filter_map(|s| latency(s)?.value).fold(0.0, f64::max);
    let header = ["load", "GB/s", "ns", "5 %", "95 %", "x idle", ""];
    let mut rows: Vec<Vec<String>> = steps
        .iter()
        .map(|step| {
            let m = latency(step);
            let of = |f: &dyn Fn(&nodegauge_measure::stats::Summary) -> f64| {
                m.and_then(|m| m.summary.as_ref()).map_or_else(|| "-".to_owned(), |s| ns(f(s)))
            };
            let times = m.and_then(|m| m.value).zip(idle);
            vec![
                match step.strip_prefix("load") {
                    Some(share) => format!("{share} %"),
                    None => (*step).to_owned(),
                },
                if *step == "idle" { "0".to_owned() } else { shown(rate(step), words::gb) },
                shown(m, ns),
                of(&|s| s.p05),
                of(&|s| s.p95),
                times.map_or_else(
                    || "-".to_owned(),
                    |(loaded, idle)| format!("{:.2}", loaded / idle),
                ),
            ]
        })
        .collect();
    let shares: Vec<f64> =
        steps.iter().map(|s| latency(s).and_then(|m| m.value).unwrap_or(0.0) / most).collect();
    bars(&mut rows, &header[..6], &shares, style);
    let mut out = table(style, &header, &rows, &[0, 1, 2, 3, 4, 5]);
    let curve: Vec<(f64, f64)> =
        steps.iter().filter_map(|step| Some((rate(step)?.value?, latency(step)?.value?))).collect();
    let ticks: Vec<f64> = curve.iter().map(|(rate, _)| *rate).collect();
    let x = Scale::Rate(Unit::BytesPerSecond);
    let name = "ns over what the others read".to_owned();
    let series = vec![Series { mark: '*', name, dots: curve }];
    out.push('\n');
    out.push_str(&text::chart(&Chart { x, y: Scale::Nanoseconds, ticks, series }, style));
    if let Some(m) = named("bandwidth_at_2x_idle") {
        out.push_str(&format!("\n{} GB/s at twice the idle latency\n", shown(Some(m), words::gb)));
    }
    let loaders = of.iter().filter_map(|m| words::number(m, "loaders")).fold(0.0, f64::max);
    let what = format!("1 thread chases, {loaders} read; load is their share of full rate");
    out.push_str(&evidence(of, style, &what));
    out
}
