//! Lists of CPUs and of NUMA nodes in the words of numactl, such as `0-3,8`.

use crate::cpu_list::cpu;
use crate::grammar;
use crate::places::PlacesSpec;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;

/// First and last number of a range.
pub type NumberRange = (u32, u32);

/// Parses the value of `--physcpubind` into one place per CPU.
///
/// # Errors
/// Fails if the text is not a list of CPUs; the error has the position of the first wrong character.
pub fn parse_physcpubind(text: &str) -> Result<PlacesSpec, SyntaxError> {
    let mut cursor = Cursor::new("CPUs", "--physcpubind 0-3,8", text);
    let problems = ["expected a CPU number", "expected the last CPU after '-'"];
    range_places(&grammar::ranges(&mut cursor, cpu, problems)?)
}

/// Parses the value of `--cpunodebind`.
///
/// # Errors
/// Fails if the text is not a list of NUMA nodes; the error has the position of the first wrong character.
pub fn parse_numa_node_ranges(text: &str) -> Result<Vec<NumberRange>, SyntaxError> {
    let mut cursor = Cursor::new("NUMA nodes", "--cpunodebind 0", text);
    // There are at most as many nodes as CPUs.
    let problems = ["expected the number of a NUMA node", "expected the last NUMA node after '-'"];
    grammar::ranges(&mut cursor, cpu, problems)
}

/// Returns one place for each CPU of the ranges.
///
/// # Errors
/// Fails if there are no CPUs.
pub fn range_places(ranges: &[NumberRange]) -> Result<PlacesSpec, SyntaxError> {
    let places: Vec<String> =
        ranges.iter().map(|(first, last)| format!("{first}:{}", last - first + 1)).collect();
    places.join(",").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numactl_ranges_begin_with_smaller_number() {
        assert_eq!(parse_physcpubind("0-3,8"), "0:4,8:1".parse());
        assert_eq!(parse_numa_node_ranges("0,2-3"), Ok(vec![(0, 0), (2, 3)]));
        for (text, at) in [("3-0", 2), ("x", 0), ("0,", 2), ("65536", 0), ("0 1", 2)] {
            assert_eq!(parse_physcpubind(text).unwrap_err().at, at, "{text}");
            assert_eq!(parse_numa_node_ranges(text).unwrap_err().at, at, "{text}");
        }
    }
}
