//! Grammar of `--cpus`: one entry per thread or per rank, in the order typed.
//!
//! `0,2,8-15` and `0-62:2` denote single CPUs; `{0-3},{4-7}` denotes groups. CPU numbers are those of the operating
//! system. Unlike in a cpuset, the order matters, and a CPU may occur several times.

use crate::cpus::{self, CpuLookup, join_with_commas, number_ranges};
use crate::error::PlacementError;
use crate::grammar::{self, MAX_COUNT};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "cpus";
const EXAMPLE: &str = "--cpus 0,2,4-7, --cpus 0-30:2 or --cpus '{0-3},{4-7}'";

/// List of CPUs in the order of threads or ranks. It has at least one entry, and each entry has at least one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(Vec<Vec<u32>>);

impl CpuList {
    /// Returns the numbers of the CPUs of each entry, before they are checked against a machine.
    pub(crate) fn entries(&self) -> &[Vec<u32>] {
        &self.0
    }

    /// Checks the entries against the machine and returns them. The CPUs within an entry are sorted.
    ///
    /// # Errors
    /// Fails when a CPU does not exist or this process may not use it.
    pub fn resolve(&self, topology: &Topology) -> Result<Vec<Vec<CpuId>>, PlacementError> {
        let usable = CpuLookup::new(topology);
        let mut entries = Vec::new();
        for numbers in &self.0 {
            let checked: Result<Vec<CpuId>, _> =
                numbers.iter().map(|number| usable.get(i64::from(*number))).collect();
            entries.push(cpus::sort_and_deduplicate(checked?));
        }
        Ok(entries)
    }
}

impl FromStr for CpuList {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        let mut all = 0;
        let entries = grammar::list(&mut cursor, None, "expected ',' or the end", |entry| {
            if entry.eat('{') {
                let group = grammar::list(entry, Some('}'), "expected ',' or '}'", |input| {
                    counted_range(input, &mut all)
                })?;
                return Ok(vec![group.concat()]);
            }
            let cpus = counted_range(entry, &mut all)?;
            Ok(cpus.into_iter().map(|cpu| vec![cpu]).collect())
        })?;
        Ok(Self(entries.concat()))
    }
}

/// Parses a range of CPUs, and adds their number to `all`, the number of CPUs in the list so far.
fn counted_range(cursor: &mut Cursor<'_>, all: &mut usize) -> Result<Vec<u32>, SyntaxError> {
    let at = cursor.position();
    let cpus = range(cursor)?;
    *all += cpus.len();
    if *all > MAX_COUNT as usize {
        return Err(cursor.error_at(at, "too many CPUs"));
    }
    Ok(cpus)
}

/// Parses `A`, `A-B` or `A-B:STEP`.
fn range(cursor: &mut Cursor<'_>) -> Result<Vec<u32>, SyntaxError> {
    grammar::range(cursor, cpu, ["expected a CPU number", "expected the last CPU after '-'"])
}

/// Parses the number of a CPU.
pub(crate) fn cpu(cursor: &mut Cursor<'_>, problem: &str) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    match grammar::number(cursor, problem)? {
        MAX_COUNT.. => Err(cursor.error_at(at, "this number is too large")),
        cpu => Ok(cpu),
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join_with_commas(self.0.iter().map(|entry| match entry[..] {
            [cpu] => cpu.to_string(),
            _ => format!("{{{}}}", number_ranges(entry)),
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{T2K, machine};
    use proptest::prelude::*;

    #[test]
    fn cpu_list_keeps_order() {
        let entries = |text: &str| text.parse::<CpuList>().unwrap().0;
        assert_eq!(entries("3,1, 0-1"), [[3], [1], [0], [1]]);
        assert_eq!(entries("0-6:3"), [[0], [3], [6]]);
        assert_eq!(entries("{0-1,3},{2}"), [vec![0, 1, 3], vec![2]]);
        for text in ["3,1", "{0-1,3},2"] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_cpu_list_is_reported_with_its_column() {
        for (text, at, problem) in [
            ("", 0, "expected a CPU number"),
            ("0,", 2, "expected a CPU number"),
            ("0-", 2, "expected the last CPU after '-'"),
            ("3-1", 2, "a range must begin with the smaller number"),
            ("0-3:0", 4, "expected at least 1"),
            ("{0", 2, "expected ',' or '}'"),
            ("{}", 1, "expected a CPU number"),
            ("0;1", 1, "expected ',' or the end"),
            ("70000", 0, "this number is too large"),
        ] {
            let error = text.parse::<CpuList>().unwrap_err();
            assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
        }
    }

    #[test]
    fn nonexistent_cpu_is_reported() {
        let error = "0,16".parse::<CpuList>().unwrap().resolve(&machine(T2K)).unwrap_err();
        assert!(error.to_string().starts_with("cpu 16 is not on this machine"), "{error}");
    }

    proptest! {
        #[test]
        fn cpu_list_parser_never_panics(text in "[0-9{},: -]{0,14}|.{0,8}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
