//! Grammar of `--threads`: one or more numbers of threads, `N | A,B,C | A-B[:STEP]`.
//!
//! Several numbers form a sweep, in the order typed. Whether the machine has enough hardware threads is checked
//! later, for each number.

use crate::grammar::{self, MAX_COUNT};
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "threads";
const EXAMPLE: &str = "--threads 8 or --threads 1,2-32:2";

/// Numbers of threads to measure with, in the order typed. There is at least one number, and each number is at least 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCountList(Vec<u32>);

impl ThreadCountList {
    /// Creates a list from numbers; `None` if there is no number or a number is 0.
    pub fn new(counts: Vec<u32>) -> Option<Self> {
        (!counts.is_empty() && !counts.contains(&0)).then_some(Self(counts))
    }

    /// Returns the numbers, in the order typed.
    pub fn counts(&self) -> &[u32] {
        &self.0
    }

    /// Returns the number if the list contains exactly one; several numbers form a sweep.
    pub fn single(&self) -> Option<u32> {
        match self.0[..] {
            [count] => Some(count),
            _ => None,
        }
    }
}

impl IntoIterator for ThreadCountList {
    type Item = u32;
    type IntoIter = std::vec::IntoIter<u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromStr for ThreadCountList {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        let mut all = 0;
        let problems = ["expected a number of threads", "expected the end of the range after '-'"];
        let problem = "expected ',', '-' or the end";
        let counts = grammar::list(&mut cursor, None, problem, |cursor| {
            let at = cursor.position();
            let counts = grammar::range(cursor, grammar::count, problems)?;
            all += counts.len();
            if all > MAX_COUNT as usize {
                return Err(cursor.error_at(at, format!("more than {MAX_COUNT} numbers in all")));
            }
            Ok(counts)
        })?;
        Ok(Self(counts.concat()))
    }
}

impl fmt::Display for ThreadCountList {
    /// Formats the shortest form: three or more numbers with equal differences become a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        let mut separator = "";
        while let [first, tail @ ..] = rest {
            let step = tail.first().and_then(|second| second.checked_sub(*first)).unwrap_or(0);
            let run = match step {
                0 => 1,
                _ => {
                    1 + rest.windows(2).take_while(|w| w[0].checked_add(step) == Some(w[1])).count()
                }
            };
            write!(f, "{separator}{first}")?;
            separator = ",";
            if run < 3 {
                rest = tail;
                continue;
            }
            write!(f, "-{}", rest[run - 1])?;
            if step > 1 {
                write!(f, ":{step}")?;
            }
            rest = &rest[run..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<ThreadCountList, SyntaxError> {
        text.parse()
    }

    #[test]
    fn thread_list_keeps_order() {
        assert_eq!(parse("8").unwrap().single(), Some(8));
        assert_eq!(parse("1,2-9:2, 64").unwrap().counts(), [1, 2, 4, 6, 8, 64]);
        assert_eq!(parse("4,2,1").unwrap().counts(), [4, 2, 1]);
        assert_eq!(parse("1,2-32:2").unwrap().to_string(), "1,2-32:2");
        assert_eq!(parse("1-4").unwrap().to_string(), "1-4");
        assert_eq!(parse("4,4,4,6-8,6").unwrap().to_string(), "4,4,4,6-8,6");
    }

    #[test]
    fn invalid_thread_list_is_reported_with_its_column() {
        for (text, at, problem) in [
            ("", 0, "expected a number of threads"),
            ("x", 0, "expected a number of threads"),
            ("0", 0, "expected at least 1"),
            ("1,", 2, "expected a number of threads"),
            ("4-", 2, "expected the end of the range after '-'"),
            ("8-4", 2, "a range must begin with the smaller number"),
            ("1-8:", 4, "expected a step after ':'"),
            ("1-8:0", 4, "expected at least 1"),
            ("1-8;9", 3, "expected ',', '-' or the end"),
            ("4000000000", 0, "expected at most 65536"),
            ("1-65536,1", 8, "more than 65536 numbers in all"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
        }
    }

    proptest! {
        #[test]
        fn thread_list_round_trips(counts in prop::collection::vec(1u32..300, 1..12)) {
            let counts = ThreadCountList::new(counts).unwrap();
            prop_assert_eq!(parse(&counts.to_string()), Ok(counts));
        }

        #[test]
        fn thread_list_parser_never_panics(text in "[0-9,:\\- x]{0,16}|.{0,16}") {
            let _ = parse(&text);
        }
    }
}
