//! Figures in words, the same everywhere.

use nodegauge_measure::record::{Measurement, Status};
use nodegauge_measure::{Bytes, BytesPerSec, Seconds};
use serde_json::Value;

/// A number of the measurement's configuration.
pub(crate) fn number(measurement: &Measurement, key: &str) -> Option<f64> {
    measurement.config.get(key).and_then(Value::as_f64)
}

/// A text of the measurement's configuration.
pub(crate) fn text<'a>(measurement: &'a Measurement, key: &str) -> Option<&'a str> {
    measurement.config.get(key).and_then(Value::as_str)
}

/// Gigabytes per second with four digits, without the unit.
pub(crate) fn gb(rate: f64) -> String {
    nodegauge_measure::quantity::significant(rate / 1e9)
}

/// CPUs of each thread: `0, 1` or `{0-3}, {4-7}`; long lists are cut in the middle.
pub(crate) fn places(measurement: &Measurement) -> Option<String> {
    let places = measurement.config.get("places")?.as_array()?;
    let words: Vec<String> = places
        .iter()
        .map(|cpus| {
            let cpus: Vec<u32> = cpus
                .as_array()
                .map(|list| list.iter().filter_map(Value::as_u64).map(|n| n as u32).collect())
                .unwrap_or_default();
            if cpus.len() == 1 { cpus[0].to_string() } else { format!("{{{}}}", ranges(&cpus)) }
        })
        .collect();
    const SHOWN: usize = 8;
    Some(if words.len() <= SHOWN {
        words.join(", ")
    } else {
        let tail = &words[words.len() - 2..];
        format!("{}, ..., {}", words[..SHOWN - 2].join(", "), tail.join(", "))
    })
}

/// Ascending numbers as ranges: `0-3,8`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == *n => *end = *n,
            _ => parts.push((*n, *n)),
        }
    }
    parts
        .iter()
        .map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") })
        .collect::<Vec<_>>()
        .join(",")
}

/// Pages as got: `thp (100 % on 2 MiB)`.
pub(crate) fn pages(measurement: &Measurement) -> Option<String> {
    let pages = measurement.config.get("pages")?;
    let asked = pages.get("asked")?.as_str()?;
    let Some(got) = pages.get("got").and_then(Value::as_object) else {
        return Some(format!("{asked} pages (what was got is not known)"));
    };
    let shares: Vec<String> = got
        .iter()
        .rev()
        .filter_map(|(size, share)| {
            let share = share.as_f64()? * 100.0;
            (share >= 0.05).then(|| {
                let size = size.parse().map(Bytes).unwrap_or_default();
                format!("{} % on {size}", trimmed(share))
            })
        })
        .collect();
    Some(format!("{asked} pages ({})", shares.join(", ")))
}

/// What the memory controllers counted of these kernels, or why they did not; `None` where nobody
/// asked.
pub(crate) fn counters(measurements: &[&Measurement]) -> Option<String> {
    let counters = measurements.first()?.config.get("counters")?;
    if let Some(why) = counters.get("unavailable").and_then(Value::as_str) {
        return Some(format!("moved is computed, not counted: {why}"));
    }
    let of = |m: &Measurement, key: &str| m.config.get("counters")?.get(key)?.as_f64();
    let each: Vec<String> = measurements
        .iter()
        .map(|m| {
            let Some(factor) = of(m, "factor") else { return format!("{} not counted", m.name) };
            let computed = m.config.get("moved_computed").and_then(|c| c.get("value")?.as_f64());
            let computed = computed.zip(m.traffic.as_ref()).map(|(computed, moved)| {
                format!(", computed {:.2}", factor * computed / moved.value)
            });
            let apart = of(m, "read_factor").zip(of(m, "write_factor"));
            let apart = apart.map(|(read, write)| format!(" ({read:.2} read, {write:.2} written)"));
            format!(
                "{} {factor:.2}{}{}",
                m.name,
                apart.unwrap_or_default(),
                computed.unwrap_or_default()
            )
        })
        .collect();
    let rest = counters.get("at_rest_bytes_per_s").and_then(Value::as_f64);
    let rest = rest.map(|rest| format!("; at rest {}", BytesPerSec(rest)));
    Some(format!(
        "moved for each byte counted, by {} counters of {}: {}{}",
        counters.get("events").and_then(Value::as_u64).unwrap_or(0),
        counters.get("family").and_then(Value::as_str).unwrap_or("?"),
        each.join("; "),
        rest.unwrap_or_default()
    ))
}

/// Where the pages are: `asked local: 100 % where it should be; 50 % on node 0, 50 % on node 1`; `None`
/// on one node where all is as it should be.
pub(crate) fn numa(measurement: &Measurement) -> Option<String> {
    let numa = measurement.config.get("numa")?;
    let held = numa.get("held").and_then(Value::as_f64);
    let nodes = numa.get("nodes").and_then(Value::as_u64).unwrap_or(0);
    if nodes <= 1 && held.is_none_or(|held| held >= 0.9995) {
        return None;
    }
    let asked = numa.get("asked")?.as_str()?;
    let shares: Vec<String> = numa
        .get("got")?
        .as_object()?
        .iter()
        .filter_map(|(node, share)| {
            let percent = share.as_f64()? * 100.0;
            Some(format!("{} % on node {node}", trimmed(percent)))
        })
        .collect();
    let held = match held {
        Some(held) => format!("{} % of the pages where they should be", trimmed(held * 100.0)),
        None => "the threads are not bound, so pages may be anywhere".to_owned(),
    };
    let apart =
        if numa.get("arrays").is_some() { "; the arrays differ: see the record" } else { "" };
    Some(format!("asked {asked}: {held}; {}{apart}", shares.join(", ")))
}

/// A percentage with one digit after the point unless it is whole.
pub(crate) fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The configuration of a STREAM measurement, in words.
pub(crate) fn how(measurement: &Measurement) -> String {
    let mut parts = Vec::new();
    let threads = number(measurement, "threads").unwrap_or(0.0);
    let bind = text(measurement, "bind").unwrap_or("none");
    let places = places(measurement).unwrap_or_default();
    let plural = if threads == 1.0 { "thread" } else { "threads" };
    let ranks = crate::ranks::how(measurement);
    parts.push(match (&ranks, bind) {
        (Some(ranks), "none") => format!("{ranks}, not bound"),
        (Some(ranks), _) => format!("{ranks} bound to cpus {places}"),
        (None, "none") => format!("{threads} {plural}, not bound"),
        (None, _) => format!("{threads} {plural} bound to cpus {places} ({bind})"),
    });
    if let Some(bytes) = number(measurement, "array_bytes") {
        let (each, all) = if ranks.is_some() { (" in each", ", together") } else { ("", "") };
        let times = number(measurement, "array_times_llc")
            .map(|times| format!(" ({} x the last-level caches in use{all})", trimmed(times)))
            .unwrap_or_default();
        parts.push(format!("3 arrays of {}{each}{times}", Bytes(bytes as u64)));
    }
    if let Some(pages) = pages(measurement) {
        parts.push(pages);
    }
    if let Some(element) = text(measurement, "element") {
        parts.push(element.to_owned());
    }
    parts.join(", ")
}

/// The loop of a STREAM measurement, in a few letters: `nontemporal avx512 x2`.
pub(crate) fn loop_of(measurement: &Measurement) -> String {
    let stores = match text(measurement, "stores") {
        Some("nontemporal") => "nt",
        Some(other) => other,
        None => "-",
    };
    let isa = text(measurement, "isa").unwrap_or("?");
    let unroll = number(measurement, "unroll").unwrap_or(0.0);
    let prefetch = match text(measurement, "prefetch") {
        None | Some("off") => String::new(),
        Some(distance) => format!(" pf{distance}"),
    };
    format!("{stores} {isa} u{unroll}{prefetch}")
}

/// The regimes of a measurement in words, when there were several.
pub(crate) fn regimes(measurement: &Measurement) -> Option<String> {
    if measurement.regimes.len() < 2 {
        return None;
    }
    let each: Vec<String> = measurement
        .regimes
        .iter()
        .map(|regime| {
            format!(
                "{} of the time {} ({} {})",
                share(regime.share),
                Seconds(regime.round_trip_s),
                measurement.name,
                BytesPerSec(regime.summary.median)
            )
        })
        .collect();
    let shown = number(measurement, "round_trip_s").map(|trip| Seconds(trip).to_string());
    Some(format!(
        "the cpus were moved during the run; a cache line went between them and back in: {}. \
         The figures are of the regime of {}.",
        each.join("; "),
        shown.unwrap_or_else(|| "?".to_owned())
    ))
}

fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `valid`, `suspect` or `invalid`.
pub(crate) fn status(status: Status) -> &'static str {
    status.name()
}

#[cfg(test)]
mod tests {
    use nodegauge_measure::record::Measurement;

    fn with_numa(numa: serde_json::Value) -> Measurement {
        with_config(serde_json::json!({ "numa": numa }))
    }

    fn with_config(config: serde_json::Value) -> Measurement {
        serde_json::from_value(serde_json::json!({
            "gauge": "memory", "test": "stream", "name": "triad", "unit": "B/s", "value": 3e9,
            "summary": null, "samples": [], "config": config,
            "moved": {"value": 3.3e9, "basis": "counters"},
            "category": "variant", "limit": null, "validity": {"status": "valid", "reasons": []}
        }))
        .unwrap()
    }

    #[test]
    fn counted_traffic_stands_beside_the_computed() {
        let counted = with_config(serde_json::json!({
            "counters": {
                "family": "AMD UMC", "events": 48, "passes": 5, "at_rest_bytes_per_s": 2e8,
                "factor": 1.1, "read_factor": 0.75, "write_factor": 0.35,
            },
            "moved_computed": {"value": 3e9, "basis": "no write-allocate"},
        }));
        assert_eq!(
            super::counters(&[&counted]).unwrap(),
            "moved for each byte counted, by 48 counters of AMD UMC: triad 1.10 (0.75 read, 0.35 \
             written), computed 1.00; at rest 200.0 MB/s"
        );
        let absent = with_config(serde_json::json!({"counters": {"unavailable": "no such thing"}}));
        assert_eq!(
            super::counters(&[&absent]).unwrap(),
            "moved is computed, not counted: no such thing"
        );
        assert_eq!(super::counters(&[&with_config(serde_json::json!({}))]), None);
    }

    #[test]
    fn memory_is_said_to_be_where_it_is_when_there_is_a_choice() {
        let one = serde_json::json!({"asked": "local", "got": {"0": 1.0}, "held": 1.0, "nodes": 1});
        assert_eq!(super::numa(&with_numa(one)), None);
        let two = serde_json::json!({
            "asked": "local", "got": {"0": 0.75, "1": 0.25}, "held": 0.75, "nodes": 2,
            "arrays": {"a": {"0": 1.0}, "b": {"0": 1.0}, "c": {"0": 0.25, "1": 0.75}},
        });
        assert_eq!(
            super::numa(&with_numa(two)).unwrap(),
            "asked local: 75 % of the pages where they should be; 75 % on node 0, 25 % on node 1; \
             the arrays differ: see the record"
        );
        let unbound =
            serde_json::json!({"asked": "default", "got": {"0": 1.0}, "held": null, "nodes": 2});
        assert!(super::numa(&with_numa(unbound)).unwrap().contains("not bound"));
    }

    #[test]
    fn numbers_in_a_row_become_ranges() {
        assert_eq!(super::ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(super::ranges(&[]), "");
    }
}
