//! Figures and configurations in words, the same in all views of memory.

use crate::config::{CountersConfig, SizeCheckConfig, StreamConfig};
use crate::keys::{NumaConfig, PagesConfig};
use crate::size::check::ALIKE;
use nodegauge_gauge::view::{Cell, Note};
use nodegauge_measure::record::{Limit, Measurement};
use nodegauge_measure::{Bytes, BytesPerSec, Seconds, Unit, quantity::significant};
use nodegauge_placement::cpus::number_ranges;

/// The name that STREAM's licence asks for, for results of changed code.
pub(crate) const VARIANT: &str = "based on a variant of the STREAM benchmark code";

/// The note with that name.
pub(crate) fn variant() -> Note {
    Note::new("name", VARIANT)
}

/// Gigabytes per second with four digits, without the unit.
pub(crate) fn gb(rate: f64) -> String {
    significant(rate / 1e9)
}

/// A rate in a column of GB/s; a dash without one.
pub(crate) fn rate(rate: Option<f64>) -> Cell {
    rate.map_or_else(|| "-".into(), |rate| Cell::figure(rate, Unit::BytesPerSecond, gb(rate)))
}

/// The value in a column of GB/s, or why there is none.
pub(crate) fn value(m: &Measurement) -> Cell {
    match m.value {
        Some(value) => rate(Some(value)),
        None => m.validity.status.name().into(),
    }
}

/// The share of the limit that was reached.
pub(crate) fn of_limit(limit: Option<&Limit>) -> Cell {
    limit.map_or_else(|| "?".into(), |limit| percent(limit.fraction).into())
}

/// What the column of shares is of, or why it is absent.
pub(crate) fn limit(m: &Measurement) -> String {
    match &m.limit {
        Some(limit) => format!("{} theoretical ({})", BytesPerSec(limit.value), limit.basis),
        None => "unknown: no theoretical bandwidth for this memory; give --dimms COUNTxMT/s".into(),
    }
}

/// A share in per cent with one digit after the point unless it is whole.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", trimmed(share * 100.0))
}

/// A number with one digit after the point unless it is whole.
pub(crate) fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// `1 thread`, `2 threads`.
pub(crate) fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// CPUs of each thread: `0, 1` or `{0-3}, {4-7}`; long lists are cut in the middle.
pub(crate) fn places(places: &[Vec<u32>]) -> String {
    const SHOWN: usize = 8;
    let one = |cpus: &Vec<u32>| match cpus.as_slice() {
        [cpu] => cpu.to_string(),
        cpus => format!("{{{}}}", number_ranges(cpus.iter().copied())),
    };
    let words: Vec<String> = places.iter().map(one).collect();
    if words.len() <= SHOWN {
        return words.join(", ");
    }
    let tail = &words[words.len() - 2..];
    format!("{}, ..., {}", words[..SHOWN - 2].join(", "), tail.join(", "))
}

/// Pages as got: `thp pages (100 % on 2 MiB)`.
pub(crate) fn pages(pages: &PagesConfig) -> String {
    let asked = &pages.asked;
    let Some(got) = &pages.got else {
        return format!("{asked} pages (what was got is not known)");
    };
    let shares: Vec<String> = got
        .iter()
        .rev()
        .filter(|(_, share)| **share >= 0.0005)
        .map(|(size, share)| format!("{} on {}", percent(*share), Bytes(*size)))
        .collect();
    format!("{asked} pages ({})", shares.join(", "))
}

/// Where the pages are: `asked local: 100 % where it should be; 50 % on node 0, 50 % on node 1`; `None`
/// on one node where all is as it should be.
pub(crate) fn numa(numa: &NumaConfig) -> Option<String> {
    let held = numa.held;
    if numa.nodes.unwrap_or(0) <= 1 && held.is_none_or(|held| held >= 0.9995) {
        return None;
    }
    let shares: Vec<String> = (numa.got.as_ref()?.iter())
        .map(|(node, share)| format!("{} on node {node}", percent(*share)))
        .collect();
    let held = match held {
        Some(held) => format!("{} of the pages where they should be", percent(held)),
        None => "the threads are not bound, so pages may be anywhere".to_owned(),
    };
    let apart = if numa.arrays.is_some() { "; the arrays differ: see the record" } else { "" };
    Some(format!("asked {}: {held}; {}{apart}", numa.asked, shares.join(", ")))
}

/// Whether a cache helps: `triad over half of the arrays is 1.01 x as fast (0.99 to 1.02 x): no cache helps`.
pub(crate) fn size_check(check: &SizeCheckConfig) -> String {
    let SizeCheckConfig { kernel, half_over_whole: ratio, within: [low, high], cached, .. } = check;
    let verdict = match (cached, *high > ALIKE) {
        (true, _) => "a cache helps",
        (false, true) => "whether a cache helps cannot be told in this noise",
        (false, false) => "no cache helps",
    };
    format!(
        "{kernel} over half of each array is {ratio:.2} x as fast ({low:.2} to {high:.2} x): {verdict}"
    )
}

/// What the memory controllers counted of these kernels, or why they did not; `None` where nobody
/// asked.
pub(crate) fn counters(figures: &[(&Measurement, StreamConfig)]) -> Option<String> {
    let counted = match figures.first()?.1.counters.as_ref()? {
        CountersConfig::Unavailable { unavailable } => {
            return Some(format!("traffic is computed, not counted: {unavailable}"));
        }
        CountersConfig::Counted(counted) => counted,
    };
    let one = |(m, config): &(&Measurement, StreamConfig)| {
        let own = match &config.counters {
            Some(CountersConfig::Counted(own)) => own,
            _ => return format!("{} not counted", m.name),
        };
        let Some(factor) = own.factor else { return format!("{} not counted", m.name) };
        let apart = own.read_factor.zip(own.write_factor);
        let apart = apart.map(|(read, write)| format!(" ({read:.2} read, {write:.2} written)"));
        let computed = config.traffic_computed.as_ref().zip(m.traffic.as_ref());
        let computed = computed
            .map(|(computed, of)| format!(", computed {:.2}", factor * computed.value / of.value));
        let (apart, computed) = (apart.unwrap_or_default(), computed.unwrap_or_default());
        format!("{} {factor:.2}{apart}{computed}", m.name)
    };
    let each: Vec<String> = figures.iter().map(one).collect();
    let rest = counted.at_rest_bytes_per_s;
    let rest = rest.map(|rest| format!("; at rest {}", BytesPerSec(rest))).unwrap_or_default();
    Some(format!(
        "traffic for each byte counted, by {} counters of {}: {}{rest}",
        counted.events,
        counted.family,
        each.join("; "),
    ))
}

/// `4 ranks of 1 thread (policy 3 block)`; `None` for one process.
pub(crate) fn ranks(config: &StreamConfig) -> Option<String> {
    let ranks = several(config.processes?, "rank");
    let threads = several(config.threads_per_rank?, "thread");
    let placed = config.places_asked.as_deref().unwrap_or("?");
    Some(format!("{ranks} of {threads} ({placed})"))
}

/// The memory of the three arrays of each process, as stream_mpi prints it.
pub(crate) fn mib_a_task(config: &StreamConfig) -> Option<String> {
    let bytes = 3 * config.array_bytes?;
    Some(format!("{:.1}", bytes as f64 / f64::from(1 << 20)))
}

/// `16 processes, 45.8 MiB a task, 732.4 MiB in all`; `None` without ranks.
pub(crate) fn tasks(config: &StreamConfig) -> Option<String> {
    let (processes, bytes) = (config.processes?, 3 * config.array_bytes?);
    let all = (processes * bytes) as f64 / f64::from(1 << 20);
    let noun = if processes == 1 { "process" } else { "processes" };
    Some(format!("{processes} {noun}, {} MiB a task, {all:.1} MiB in all", mib_a_task(config)?))
}

/// The configuration of a STREAM measurement, in words.
pub(crate) fn how(config: &StreamConfig) -> String {
    let threads = several(config.threads.unwrap_or(0), "thread");
    let bind = config.bind.as_deref().unwrap_or("none");
    let places = places(config.places.as_deref().unwrap_or_default());
    let ranks = ranks(config);
    let mut parts = vec![match (&ranks, bind) {
        (Some(ranks), "none") => format!("{ranks}, not bound"),
        (Some(ranks), _) => format!("{ranks} bound to cpus {places}"),
        (None, "none") => format!("{threads}, not bound"),
        (None, _) => format!("{threads} bound to cpus {places} ({bind})"),
    }];
    if let Some(bytes) = config.array_bytes {
        let (each, all) = if ranks.is_some() { (" in each", ", together") } else { ("", "") };
        let times = config
            .array_times_llc
            .map(|times| format!(" ({} x the last-level caches in use{all})", trimmed(times)))
            .unwrap_or_default();
        parts.push(format!("3 arrays of {}{each}{times}", Bytes(bytes)));
    }
    parts.extend(config.pages.as_ref().map(pages));
    parts.extend(config.element.clone());
    parts.join(", ")
}

/// The native loop of a STREAM figure in a few letters: `nt avx512 u2`.
pub(crate) fn loop_of(config: &StreamConfig) -> String {
    let prefetch = match config.prefetch.as_deref() {
        None | Some("off") => String::new(),
        Some(distance) => format!(" pf{distance}"),
    };
    let stores = config.stores.as_deref();
    native_loop(stores, config.isa.as_deref(), config.unroll, config.side_by_side) + &prefetch
}

/// A native loop in a few letters: `nt avx512 u2`, or `nt avx512 u1 p4` with four pages side by side.
pub(crate) fn native_loop(
    stores: Option<&str>,
    isa: Option<&str>,
    unroll: Option<u64>,
    side_by_side: Option<u64>,
) -> String {
    let stores = match stores {
        Some("nontemporal") => "nt",
        stores => stores.unwrap_or("-"),
    };
    let pages = side_by_side.map_or_else(String::new, |pages| format!(" p{pages}"));
    format!("{stores} {} u{}{pages}", isa.unwrap_or("?"), unroll.unwrap_or(0))
}

/// The regimes of a figure in words, when there were several; `round_trip` is that of the value.
pub(crate) fn regimes(m: &Measurement, round_trip: Option<f64>) -> Option<String> {
    if m.regimes.len() < 2 {
        return None;
    }
    let each: Vec<String> = m
        .regimes
        .iter()
        .map(|regime| {
            let (trip, rate) = (Seconds(regime.round_trip_s), BytesPerSec(regime.summary.median));
            format!("{:.0} % of the time {trip} ({} {rate})", regime.share * 100.0, m.name)
        })
        .collect();
    let shown = round_trip.map_or_else(|| "?".to_owned(), |trip| Seconds(trip).to_string());
    Some(format!(
        "a cache line went between the cpus and back in: {}. The figures are of the regime of {shown}.",
        each.join("; "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::keys::Config;
    use serde_json::{Value, json};

    fn config(value: Value) -> StreamConfig {
        StreamConfig::of_map(value.as_object().unwrap())
    }

    #[test]
    fn counted_traffic_stands_beside_the_computed() {
        let mut m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        m.traffic =
            Some(nodegauge_measure::record::Traffic { value: 3.3e9, basis: "counters".to_owned() });
        let counted = config(json!({
            "counters": {
                "family": "AMD UMC", "events": 48, "passes": 5, "at_rest_bytes_per_s": 2e8,
                "factor": 1.1, "read_factor": 0.75, "write_factor": 0.35,
            },
            "traffic_computed": {"value": 3e9, "basis": "no write-allocate"},
        }));
        assert_eq!(
            counters(&[(&m, counted)]).unwrap(),
            "traffic for each byte counted, by 48 counters of AMD UMC: triad 1.10 (0.75 read, 0.35 \
             written), computed 1.00; at rest 200.0 MB/s"
        );
        let absent = config(json!({"counters": {"unavailable": "no such thing"}}));
        assert_eq!(
            counters(&[(&m, absent)]).unwrap(),
            "traffic is computed, not counted: no such thing"
        );
        assert_eq!(counters(&[(&m, StreamConfig::default())]), None);
    }

    #[test]
    fn memory_is_said_to_be_where_it_is_when_there_is_a_choice() {
        let words = |value: Value| numa(&serde_json::from_value(value).unwrap());
        let one = json!({"asked": "local", "got": {"0": 1.0}, "held": 1.0, "nodes": 1});
        assert_eq!(words(one), None);
        let two = json!({
            "asked": "local", "got": {"0": 0.75, "1": 0.25}, "held": 0.75, "nodes": 2,
            "arrays": {"a": {"0": 1.0}, "b": {"0": 1.0}, "c": {"0": 0.25, "1": 0.75}},
        });
        assert_eq!(
            words(two).unwrap(),
            "asked local: 75 % of the pages where they should be; 75 % on node 0, 25 % on node 1; \
             the arrays differ: see the record"
        );
        let unbound = json!({"asked": "default", "got": {"0": 1.0}, "held": null, "nodes": 2});
        assert!(words(unbound).unwrap().contains("not bound"));
    }
}
