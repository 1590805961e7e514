//! Places in `GOMP_CPU_AFFINITY`, the CPU list of GNU's runtime: `0 3 1-2 4-15:2`. Source: manual of libgomp.

use crate::places::PlacesSpec;
use crate::{CpuList, cpus};
use nodegauge_measure::SyntaxError;

/// Name of the variable.
pub(super) const GOMP_VARIABLE: &str = "GOMP_CPU_AFFINITY";
const EXAMPLE: &str = "GOMP_CPU_AFFINITY='0 3 1-2 4-15:2'";

/// Returns one place for each CPU of the list.
pub(super) fn parse_places(text: &str) -> Result<PlacesSpec, SyntaxError> {
    let list: CpuList = super::parsed(&with_commas(text), GOMP_VARIABLE, EXAMPLE)?;
    let places = list.entries().iter().map(|cpus| format!("{{{}}}", cpus::join_with_commas(cpus)));
    super::parsed(&cpus::join_with_commas(places), GOMP_VARIABLE, EXAMPLE)
}

/// Returns the list with commas instead of the blanks between entries; no character changes its position.
fn with_commas(text: &str) -> String {
    let mut found = String::new();
    let mut is_after_entry = false;
    let text = text.trim_end();
    for letter in text.chars() {
        let separates = letter == ',' || letter.is_whitespace();
        match (separates, is_after_entry) {
            (true, true) => found.push(','),
            (true, false) => found.push(' '),
            (false, _) => found.push(letter),
        }
        is_after_entry = !separates;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gomp_entries_are_separated_by_blanks_or_commas() {
        for (text, words) in [
            ("0 3 1-2", "{0},{3},{1},{2}"),
            ("0,3, 1-2 ", "{0},{3},{1},{2}"),
            ("4-8:2", "{4},{6},{8}"),
        ] {
            let expected: PlacesSpec = words.parse().unwrap();
            assert_eq!(parse_places(text).unwrap(), expected, "{text}");
        }
        for (text, at) in [("x", 0), ("0 x", 2), ("3-1", 2)] {
            let error = parse_places(text).unwrap_err();
            assert_eq!((error.what, error.at), (GOMP_VARIABLE, at), "{text}");
        }
    }
}
