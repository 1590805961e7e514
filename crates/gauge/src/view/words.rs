//! Texts for figures and configurations, shared by the views of all gauges.

use super::TableCell;
use nodegauge_measure::quantity::significant;
pub use nodegauge_measure::quantity::trimmed;
use nodegauge_measure::record::{Limit, Measurement};
use nodegauge_measure::{BytesPerSec, Unit};
use nodegauge_placement::cpus::number_ranges;

/// Names of tests and gauges that are acronyms.
const ACRONYMS: [&str; 5] = ["hpl", "hpcg", "iccg", "mpi", "io"];

/// Returns a name with its acronyms in capitals: `MPI latency`.
pub fn with_acronyms(name: &str) -> String {
    let shown = |word: &str| {
        if ACRONYMS.contains(&word) { word.to_uppercase() } else { word.to_owned() }
    };
    name.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

/// Formats a rate in gigabytes per second with four digits, without the unit.
pub fn gb(rate: f64) -> String {
    significant(rate / 1e9)
}

/// Returns the cell of a rate in a GB/s column; without a rate, a dash.
pub fn rate(rate: Option<f64>) -> TableCell {
    rate.map_or_else(|| "-".into(), |rate| TableCell::figure(rate, Unit::BytesPerSecond, gb(rate)))
}

/// Returns the cell of a figure in a GB/s column. If the figure has no value, the cell contains its status.
pub fn value(m: &Measurement) -> TableCell {
    match m.value {
        Some(value) => rate(Some(value)),
        None => m.validity.status.name().into(),
    }
}

/// Returns a cell with the measured share of the limit.
pub fn of_limit(limit: Option<&Limit>) -> TableCell {
    limit.map_or_else(|| "?".into(), |limit| limit.fraction.to_string().into())
}

/// Describes the limit of a figure, or the reason why the limit is unknown.
pub fn limit(m: &Measurement) -> String {
    match &m.limit {
        Some(limit) => format!("{} theoretical ({})", BytesPerSec(limit.value), limit.basis),
        None => "unknown: no theoretical bandwidth for this memory; give --dimms COUNTxMT/s".into(),
    }
}

/// Formats a count and a noun: `1 thread`, `2 threads`.
pub fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Formats the CPUs of each thread: `0, 1` or `{0-3}, {4-7}`; long lists are shortened in the middle.
pub fn places(places: &[Vec<u32>]) -> String {
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

/// Formats a loop of nodegauge: `nt avx512 u2` for non-temporal stores, AVX-512 and an unroll factor of 2; `p4` if the
/// loop traverses four pages alternately.
pub fn native_loop(
    stores: Option<&str>,
    isa: Option<&str>,
    unroll: Option<u64>,
    side_by_side: Option<u64>,
) -> String {
    let stores = match stores {
        Some("nontemporal") => "nt ",
        Some("regular") => "regular ",
        // A loop without stores.
        _ => "",
    };
    let pages = side_by_side.map_or_else(String::new, |pages| format!(" p{pages}"));
    format!("{stores}{} u{}{pages}", isa.unwrap_or("?"), unroll.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acronyms_are_in_capitals() {
        assert_eq!(with_acronyms("mpi latency"), "MPI latency");
        assert_eq!(with_acronyms("io read"), "IO read");
        assert_eq!(with_acronyms("ratio of hplx"), "ratio of hplx");
    }
}
