//! Texts for figures and configurations, shared by the views of all gauges.

use super::{ColumnUnit, TableCell};
use nodegauge_measure::BytesPerSec;
use nodegauge_measure::quantity::count_in_words;
pub use nodegauge_measure::quantity::format_trimmed;
use nodegauge_measure::record::Measurement;
use nodegauge_placement::cpus::number_ranges;

/// Names of tests and gauges that are acronyms.
const ACRONYMS: [&str; 5] = ["hpl", "hpcg", "iccg", "mpi", "io"];

/// Returns a name with its acronyms in capitals: `MPI latency`.
pub fn with_acronyms(name: &str) -> String {
    name.split(' ').map(with_acronym).collect::<Vec<_>>().join(" ")
}

/// Returns a word, in capitals if it is an acronym.
fn with_acronym(word: &str) -> String {
    if ACRONYMS.contains(&word) { word.to_uppercase() } else { word.to_owned() }
}

/// Formats a rate in gigabytes per second with four digits, without the unit.
pub fn format_gb_per_s(rate: f64) -> String {
    ColumnUnit::GB_PER_S.number_text(rate)
}

/// Returns the cell of a rate in a GB/s column; without a rate, a dash.
pub fn rate_cell(rate: Option<f64>) -> TableCell {
    ColumnUnit::GB_PER_S.cell(rate)
}

/// Describes the limit of a figure, or the reason why the limit is unknown.
pub fn limit_in_words(m: &Measurement) -> String {
    match &m.limit {
        Some(limit) => format!("{} theoretical ({})", BytesPerSec(limit.value), limit.basis),
        None => "unknown: no theoretical bandwidth for this memory; give --dimms COUNTxMT/s".into(),
    }
}

/// Formats a count and a noun: `1 thread`, `2 threads`.
pub fn count_with_noun(count: u64, noun: &str) -> String {
    count_in_words(count as usize, noun)
}

/// Returns a reason without its leading number. Reasons that differ only in this number are listed once.
pub fn without_number(reason: &str) -> &str {
    reason.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// Formats counts as one number, or as the range from the minimum to the maximum: `20`, `18 to 20`; `None` without a
/// count.
pub fn count_range(counts: impl IntoIterator<Item = usize> + Clone) -> Option<String> {
    let min = counts.clone().into_iter().min()?;
    let max = counts.into_iter().max()?;
    Some(if min == max { min.to_string() } else { format!("{min} to {max}") })
}

/// Formats the CPUs of each thread: `0, 1` or `{0-3}, {4-7}`; long lists are shortened in the middle.
pub fn places_in_words(places: &[Vec<u32>]) -> String {
    const SHOWN: usize = 8;
    let words: Vec<String> = places.iter().map(|cpus| place(cpus)).collect();
    if words.len() <= SHOWN {
        return words.join(", ");
    }
    let tail = &words[words.len() - 2..];
    format!("{}, ..., {}", words[..SHOWN - 2].join(", "), tail.join(", "))
}

/// Formats the CPUs of one thread.
fn place(cpus: &[u32]) -> String {
    match cpus {
        [cpu] => cpu.to_string(),
        cpus => format!("{{{}}}", number_ranges(cpus.iter().copied())),
    }
}

/// Formats a loop of nodegauge: `nt avx512 u2` for non-temporal stores, AVX-512 and an unroll factor of 2. `p4` is
/// added if the loop traverses four pages side by side.
pub fn native_loop_in_words(
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
