//! Texts for figures and configurations in all views of this gauge.

use crate::config::{CountersConfig, SizeCheckConfig, StreamConfig};
use crate::size::check::MAX_UNCACHED_RATIO;
pub(crate) use nodegauge_arena::words::{numa, pages};
pub(crate) use nodegauge_gauge::view::words::{
    count_range, count_with_noun, format_gb_per_s, format_trimmed, limit_in_words,
    native_loop_in_words, places_in_words, rate_cell,
};
use nodegauge_gauge::view::{Note, partial_memory_reason};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::{Bytes, BytesPerSec, Seconds};

/// Designation that STREAM's licence requires for results of modified code.
pub(crate) const VARIANT_DESIGNATION: &str = "based on a variant of the STREAM benchmark code";

/// Describes the limit of a figure, and the part of the memory that the run used, if it used only a part.
pub(crate) fn limit_in_use(m: &Measurement, machine: &Machine) -> String {
    // The description of a virtual machine already states that it has only a part of a node.
    let part = partial_memory_reason(m, machine).filter(|_| machine.virtualisation.is_none());
    let part = part.map(|why| format!("; only a part of it in use: {why}"));
    format!("{}{}", limit_in_words(m), part.unwrap_or_default())
}

/// Returns the note with the designation of a variant.
pub(crate) fn variant_note() -> Note {
    Note::new("name", VARIANT_DESIGNATION)
}

/// Describes the result of the size check:
/// `triad over half of each array is 1.01 x as fast (0.99 to 1.02 x): no cache helps`.
pub(crate) fn size_check(check: &SizeCheckConfig) -> String {
    let SizeCheckConfig { kernel, half_over_whole: ratio, within: [low, high], cached, .. } = check;
    let verdict = match (cached, *high > MAX_UNCACHED_RATIO) {
        (true, _) => "a cache helps",
        (false, true) => "too noisy to detect a cache",
        (false, false) => "no cache helps",
    };
    format!(
        "{kernel} over half of each array is {ratio:.2} x as fast ({low:.2} to {high:.2} x): {verdict}"
    )
}

/// Describes the counts of the memory controllers for these kernels, or the reason why there are no counts; `None` if
/// counting was not requested.
pub(crate) fn counters(figures: &[(&Measurement, StreamConfig)]) -> Option<String> {
    let counted = match figures.first()?.1.counters.as_ref()? {
        CountersConfig::Unavailable { unavailable } => {
            return Some(format!("traffic is computed, not counted: {unavailable}"));
        }
        CountersConfig::Counted(counted) => counted,
    };
    let each: Vec<String> = figures.iter().map(counted_traffic).collect();
    let rest = counted.at_rest_bytes_per_s;
    let rest = rest.map(|rest| format!("; idle {}", BytesPerSec(rest))).unwrap_or_default();
    Some(format!(
        "traffic per counted byte, from {} of {}: {}{rest}",
        count_with_noun(counted.events as u64, "counter"),
        counted.family,
        each.join("; "),
    ))
}

/// Formats the traffic of a kernel per byte that STREAM counts: the traffic that the memory controllers counted, next
/// to the computed traffic.
fn counted_traffic((m, config): &(&Measurement, StreamConfig)) -> String {
    let factors = match &config.counters {
        Some(CountersConfig::Counted(own)) => own.factor.map(|factor| (own, factor)),
        _ => None,
    };
    let Some((own, factor)) = factors else { return format!("{} not counted", m.name) };
    let mut text = format!("{} {factor:.2}", m.name);
    if let (Some(read), Some(write)) = (own.read_factor, own.write_factor) {
        text.push_str(&format!(" ({read:.2} read, {write:.2} written)"));
    }
    if let (Some(computed), Some(of)) = (&config.traffic_computed, &m.traffic) {
        text.push_str(&format!(", computed {:.2}", factor * computed.value / of.value));
    }
    text
}

/// Formats ranks: `4 ranks of 1 thread (policy 3 block)`; `None` for one process.
pub(crate) fn ranks(config: &StreamConfig) -> Option<String> {
    let ranks = count_with_noun(config.processes?, "rank");
    let threads = count_with_noun(config.threads_per_rank?, "thread");
    let placed = config.places_asked.as_deref().unwrap_or("?");
    Some(format!("{ranks} of {threads} ({placed})"))
}

/// Formats the memory of the arrays of each process in MiB, as stream_mpi prints it.
pub(crate) fn mib_per_rank(config: &StreamConfig) -> Option<String> {
    let bytes = config.array_count() * config.array_bytes?;
    Some(format!("{:.1}", bytes as f64 / f64::from(1 << 20)))
}

/// Formats the number and the memory of processes: `16 processes, 45.8 MiB per rank, 732.4 MiB in total`; `None`
/// without ranks.
pub(crate) fn tasks(config: &StreamConfig) -> Option<String> {
    let processes = config.processes?;
    let bytes = config.array_count() * config.array_bytes?;
    let all = (processes * bytes) as f64 / f64::from(1 << 20);
    let counted_processes = count_in_words(processes as usize, "process");
    Some(format!(
        "{counted_processes}, {} MiB per rank, {all:.1} MiB in total",
        mib_per_rank(config)?
    ))
}

/// Describes the configuration of a STREAM measurement.
pub(crate) fn configuration_in_words(config: &StreamConfig) -> String {
    let threads = count_with_noun(config.threads.unwrap_or(0), "thread");
    let bind = config.bind.as_deref().unwrap_or("none");
    let places = places_in_words(config.places.as_deref().unwrap_or_default());
    let ranks = ranks(config);
    let mut parts = vec![match (&ranks, bind) {
        (Some(ranks), "none") => format!("{ranks}, not bound"),
        (Some(ranks), _) => format!("{ranks} bound to cpus {places}"),
        (None, "none") => format!("{threads}, not bound"),
        (None, _) => format!("{threads} bound to cpus {places} ({bind})"),
    }];
    if let Some(bytes) = config.array_bytes {
        let [each, all] = if ranks.is_some() { [" in each", ", together"] } else { [""; 2] };
        let times = times_caches(
            config.array_times_llc,
            config.measured_cache_bytes,
            config.reported_cache_bytes,
            all,
        );
        let arrays = count_with_noun(config.array_count(), "array");
        parts.push(format!("{arrays} of {}{each}{times}", Bytes(bytes)));
    }
    parts.extend(config.pages.as_ref().map(pages));
    parts.extend(config.element.clone());
    parts.join(", ")
}

/// Returns the ratio of arrays to the caches with which they are compared, in parentheses: the measured caches, or else
/// the caches that the system reports. It is empty if the caches are unknown. `end` is text that
/// follows the caches.
pub(crate) fn times_caches(
    times: Option<f64>,
    measured: Option<u64>,
    reported: Option<u64>,
    end: &str,
) -> String {
    let caches = match (measured.map(Bytes), reported.map(Bytes)) {
        (Some(measured), Some(reported)) if measured == reported => {
            format!("the {measured} of cache")
        }
        (Some(measured), Some(reported)) => {
            format!("the {measured} of cache found by measuring; {reported} are reported")
        }
        (Some(measured), None) => format!("the {measured} of cache found by measuring"),
        (None, Some(reported)) => format!("the {reported} of last-level cache reported"),
        (None, None) => "the last-level caches in use".to_owned(),
    };
    times.map(|times| format!(" ({} x {caches}{end})", format_trimmed(times))).unwrap_or_default()
}

/// Returns a short form of the native loop of a STREAM figure: `nt avx512 u2`.
pub(crate) fn loop_in_words(config: &StreamConfig) -> String {
    let prefetch = match config.prefetch.as_deref() {
        None | Some("off") => String::new(),
        Some(distance) => format!(" pf{distance}"),
    };
    let stores = config.stores.as_deref();
    native_loop_in_words(stores, config.isa.as_deref(), config.unroll, config.side_by_side)
        + &prefetch
}

/// Describes the regimes of a figure; `None` if there was only one. `round_trip` is the round trip of the regime that
/// the value describes.
pub(crate) fn regimes(m: &Measurement, round_trip: Option<f64>) -> Option<String> {
    if m.regimes.len() < 2 {
        return None;
    }
    let each: Vec<String> = m
        .regimes
        .iter()
        .map(|regime| {
            let trip = Seconds(regime.round_trip_s);
            let rate = BytesPerSec(regime.summary.median);
            format!("{} of the time {trip} ({} {rate})", regime.share.in_whole_percent(), m.name)
        })
        .collect();
    let shown = round_trip.map_or_else(|| "?".to_owned(), |trip| Seconds(trip).to_string());
    Some(format!(
        "core-to-core round trip: {}. Figures are from samples with a round trip of {shown}.",
        each.join("; "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::keys::Config;
    use serde_json::{Value, json};

    fn config(value: Value) -> StreamConfig {
        StreamConfig::from_map(value.as_object().unwrap())
    }

    #[test]
    fn counted_traffic_is_printed_with_computed_traffic() {
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
            "traffic per counted byte, from 48 counters of AMD UMC: triad 1.10 (0.75 read, 0.35 \
             written), computed 1.00; idle 200.0 MB/s"
        );
        let absent = config(json!({"counters": {"unavailable": "no such thing"}}));
        assert_eq!(
            counters(&[(&m, absent)]).unwrap(),
            "traffic is computed, not counted: no such thing"
        );
        assert_eq!(counters(&[(&m, StreamConfig::default())]), None);
    }
}
