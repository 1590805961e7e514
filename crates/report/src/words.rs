//! Figures in words, the same everywhere.

use nodegauge_measure::Bytes;
use nodegauge_measure::record::Measurement;
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
            if cpus.len() == 1 {
                cpus[0].to_string()
            } else {
                format!("{{{}}}", nodegauge_machine::number_ranges(cpus))
            }
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

/// A percentage with one digit after the point unless it is whole.
pub(crate) fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
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
