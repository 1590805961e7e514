//! What is said of a measurement by several ranks, beside its table.

use crate::words;
use nodegauge_measure::record::Measurement;
use serde_json::Value;

/// `4 ranks of 1 thread (policy 3 block)`; `None` for one process.
pub(crate) fn how(m: &Measurement) -> Option<String> {
    let ranks = words::number(m, "processes")?;
    let threads = words::number(m, "threads_per_rank").unwrap_or(1.0);
    let several =
        |count: f64, noun: &str| format!("{count} {noun}{}", if count == 1.0 { "" } else { "s" });
    let placed = words::text(m, "places_asked").unwrap_or("?");
    Some(format!("{} of {} ({placed})", several(ranks, "rank"), several(threads, "thread")))
}

/// The slowest and the fastest rank by their own medians; `None` with fewer than two.
pub(crate) fn spread(m: &Measurement) -> Option<String> {
    let ranks = m.config.get("ranks")?.as_array()?;
    let rate = |rank: &Value| Some((rank.get("rank")?.as_u64()?, rank.get("median")?.as_f64()?));
    let mut rates: Vec<(u64, f64)> = ranks.iter().filter_map(rate).collect();
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (slowest, fastest) = (rates.first()?, rates.last()?);
    (rates.len() > 1).then(|| {
        format!(
            "{} of each by itself: slowest rank {} with {}, fastest rank {} with {} GB/s (medians)",
            m.name,
            slowest.0,
            words::gb(slowest.1),
            fastest.0,
            words::gb(fastest.1)
        )
    })
}

/// The rate over that of the reference of its sweep; `None` without a reference.
pub(crate) fn relative(m: &Measurement) -> Option<f64> {
    m.config.get("relative")?.get("median")?.as_f64()
}

/// What the reference is: `1 rank of policy 5`.
pub(crate) fn reference(m: &Measurement) -> Option<String> {
    let to = m.config.get("relative")?.get("to")?;
    let policy = to.get("policy").and_then(Value::as_str);
    Some(policy.map_or("1 rank".to_owned(), |policy| format!("1 rank of policy {policy}")))
}
