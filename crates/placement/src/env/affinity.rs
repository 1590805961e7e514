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
    // Byte of the blank after the last entry, which becomes a comma if there is no comma before the next entry.
    let mut blank = None;
    let mut is_after_entry = false;
    for letter in text.trim_end().chars() {
        if letter.is_ascii_whitespace() {
            if is_after_entry {
                blank = Some(found.len());
            }
            is_after_entry = false;
            found.push(' ');
            continue;
        }
        let separator = blank.take();
        if let (Some(at), true) = (separator, letter != ',') {
            found.replace_range(at..=at, ",");
        }
        is_after_entry = letter != ',';
        found.push(letter);
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
            ("0 , 3", "{0},{3}"),
            ("4-8:2", "{4},{6},{8}"),
        ] {
            let expected: PlacesSpec = words.parse().unwrap();
            assert_eq!(parse_places(text).unwrap(), expected, "{text}");
        }
        for (text, at) in
            [("x", 0), ("0 x", 2), ("3-1", 2), ("0,,1", 2), ("0, ,1", 3), ("0,", 2), (",0", 0)]
        {
            let error = parse_places(text).unwrap_err();
            assert_eq!((error.what, error.at), (GOMP_VARIABLE, at), "{text}");
        }
    }
}
