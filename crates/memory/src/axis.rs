//! The grammar of `--sweep AXIS=VALUES`: which knob a sweep turns, and through which values.
//!
//! `threads=1,2-32:2` and `per-cache=1,2,4` take counts; `places` takes places separated by `;`;
//! `size`, `stores`, `pages` and `prefetch` take lists (prefetch with two distances is written
//! `4096+512`); `compiler` takes commands separated by `;` that stands outside of quotes, `native`
//! for nodegauge's own kernels, and `all` for what is installed. `stores` and `pages` alone mean all kinds that need no reservation.

use crate::arrays::Pages;
use crate::compiled::CompilerChoice;
use crate::kernels::{Prefetch, Stores};
use crate::size::SizeSpec;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_placement::{PlacesSpec, Policy, ThreadList};
use std::fmt;
use std::str::FromStr;

/// A knob and the values it goes through; at least one.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// Numbers of threads.
    Threads(ThreadList),
    /// Threads on each last-level cache.
    PerCache(ThreadList),
    /// Places.
    Places(Vec<PlacesSpec>),
    /// Kinds of store.
    Stores(Vec<Stores>),
    /// Kinds of page.
    Pages(Vec<Pages>),
    /// Lengths of the arrays.
    Size(Vec<SizeSpec>),
    /// Prefetch distances.
    Prefetch(Vec<Prefetch>),
    /// Numbers of ranks.
    Ranks(ThreadList),
    /// Policies of ranks.
    Policy(Vec<Policy>),
    /// Who made the loops.
    Compiler(Vec<CompilerChoice>),
}

const WHAT: &str = "sweep";
const EXAMPLE: &str = "--sweep threads=1,2-32:2 or --sweep pages=4k,thp";

impl Axis {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Threads(_) => "threads",
            Self::PerCache(_) => "per-cache",
            Self::Places(_) => "places",
            Self::Stores(_) => "stores",
            Self::Pages(_) => "pages",
            Self::Size(_) => "size",
            Self::Prefetch(_) => "prefetch",
            Self::Ranks(_) => "ranks",
            Self::Policy(_) => "policy",
            Self::Compiler(_) => "compiler",
        }
    }

    /// The values in words.
    pub fn values(&self) -> Vec<String> {
        fn words<T: ToString>(values: &[T]) -> Vec<String> {
            values.iter().map(ToString::to_string).collect()
        }
        match self {
            Self::Threads(counts) | Self::PerCache(counts) | Self::Ranks(counts) => {
                words(counts.counts())
            }
            Self::Places(places) => words(places),
            Self::Stores(stores) => words(stores),
            Self::Pages(pages) => words(pages),
            Self::Size(sizes) => words(sizes),
            Self::Prefetch(prefetches) => words(prefetches),
            Self::Policy(policies) => words(policies),
            Self::Compiler(choices) => words(choices),
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self, Self::Places(_) | Self::Compiler(_)) { ";" } else { "," };
        let values: Vec<String> = match self {
            Self::Prefetch(_) => self.values().iter().map(|v| v.replace(',', "+")).collect(),
            _ => self.values(),
        };
        write!(f, "{}={}", self.name(), values.join(separator))
    }
}

/// Reads commands: `;` inside quotes or behind a backslash is part of a word.
fn commands(
    whole: &Cursor<'_>,
    text: &str,
    start: usize,
) -> Result<Vec<CompilerChoice>, SyntaxError> {
    let mut ends = Vec::new();
    let (mut quote, mut escaped) = (None, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != Some('\'') => escaped = true,
            '\'' | '"' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            ';' if quote.is_none() => ends.push(i),
            _ => {}
        }
    }
    ends.push(text.len());
    let mut from = 0;
    let mut choices = Vec::new();
    for end in ends {
        let choice = text[from..end]
            .parse()
            .map_err(|error: SyntaxError| whole.error_at(start + from + error.at, error.problem))?;
        choices.push(choice);
        from = end + 1;
    }
    Ok(choices)
}

/// Reads a list; an error inside a value is moved to its place in the whole text.
fn list<T: FromStr>(
    whole: &Cursor<'_>,
    text: &str,
    start: usize,
    separator: char,
    wrong: impl Fn(T::Err) -> (usize, String),
) -> Result<Vec<T>, SyntaxError> {
    let mut at = start;
    let mut values = Vec::new();
    for part in text.split(separator) {
        let value = part.trim();
        values.push(value.parse().map_err(|error| {
            let (offset, problem) = wrong(error);
            whole.error_at(at + offset, problem)
        })?);
        at += part.len() + separator.len_utf8();
    }
    Ok(values)
}

/// Reads `0-5` or `0,3,5`.
fn policies(whole: &Cursor<'_>, text: &str, start: usize) -> Result<Vec<Policy>, SyntaxError> {
    let pair = |part: &str| -> Result<(Policy, Policy), String> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (Policy, Policy) = (first.parse()?, last.parse()?);
        match first <= last {
            true => Ok((first, last)),
            false => Err("a range goes from the smaller number up".to_owned()),
        }
    };
    let mut at = start;
    let mut policies = Vec::new();
    for part in text.split(',') {
        let (first, last) = pair(part.trim()).map_err(|problem| whole.error_at(at, problem))?;
        policies.extend((first.number()..=last.number()).filter_map(Policy::new));
        at += part.len() + 1;
    }
    Ok(policies)
}

impl FromStr for Axis {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        let name = cursor.take_while(|c| c.is_ascii_alphabetic() || c == '-');
        let alone = cursor.at_end();
        if !alone {
            cursor.expect('=', "expected '=' after the axis")?;
        }
        let (rest, start) = (cursor.rest(), cursor.position());
        let syntax = |error: SyntaxError| (error.at, error.problem);
        let needs_values = || cursor.error("expected '=' and values");
        match name {
            "stores" if alone => Ok(Self::Stores(Stores::ALL.to_vec())),
            "pages" if alone => Ok(Self::Pages(vec![Pages::Base, Pages::Transparent])),
            "threads" | "per-cache" | "places" | "size" | "prefetch" | "ranks" | "policy" | "compiler"
                if alone => {
                Err(needs_values())
            }
            "threads" | "per-cache" | "ranks" => {
                let counts: ThreadList = rest.parse().map_err(|error: SyntaxError| {
                    cursor.error_at(start + error.at, error.problem)
                })?;
                Ok(match name {
                    "threads" => Self::Threads(counts),
                    "ranks" => Self::Ranks(counts),
                    _ => Self::PerCache(counts),
                })
            }
            "policy" => Ok(Self::Policy(policies(&cursor, rest, start)?)),
            "places" => Ok(Self::Places(list(&cursor, rest, start, ';', syntax)?)),
            "compiler" => Ok(Self::Compiler(commands(&cursor, rest, start)?)),
            "size" => Ok(Self::Size(list(&cursor, rest, start, ',', syntax)?)),
            "stores" => {
                let wrong = |error: crate::kernels::UnknownName| (0, error.to_string());
                Ok(Self::Stores(list(&cursor, rest, start, ',', wrong)?))
            }
            "pages" => Ok(Self::Pages(list(&cursor, rest, start, ',', |error| (0, error))?)),
            "prefetch" => {
                // Two distances are joined by '+', because ',' separates values.
                let joined = rest.replace(',', ";").replace('+', ",");
                Ok(Self::Prefetch(list(&cursor, &joined, start, ';', syntax)?))
            }
            _ => Err(cursor.error_at(
                0,
                "expected an axis of threads, per-cache, places, stores, pages, size, prefetch, compiler, ranks or policy",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_axis_prints_and_parses_back() {
        for text in [
            "threads=1,2-8:2",
            "per-cache=1,2,4",
            "places=cores;{0:4}:2:4;0:96:2",
            "stores=regular,nontemporal",
            "pages=4k,thp,2m",
            "size=auto,8xLLC,1000000",
            "prefetch=off,512,4096+512",
            "compiler=native;all;gcc -O3 -march=native;clang '-DX=a;b' -O2",
            "stores",
            "pages",
            "ranks=1,2-8:2",
            "policy=0-3,5",
        ] {
            let axis: Axis = text.parse().unwrap();
            assert_eq!(axis.to_string().parse::<Axis>(), Ok(axis), "{text}");
        }
    }

    #[test]
    fn a_wrong_axis_is_pointed_at() {
        for (text, at) in [
            ("", 0),
            ("thread=1", 0),
            ("threads", 7),
            ("threads=1,x", 10),
            ("places=cores;{0:x}", 16),
            ("pages=4k,5k", 9),
            ("size=1GiB,2Qb", 11),
            ("prefetch=off,51x", 15),
            ("stores;", 6),
            ("policy=0-6", 7),
            ("policy=1,5-2", 9),
            ("ranks=0", 6),
            ("compiler", 8),
            ("compiler=gcc;", 13),
            ("compiler=gcc;cc 'x;y", 16),
        ] {
            assert_eq!(text.parse::<Axis>().unwrap_err().at, at, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_typed_makes_the_parser_fail_badly(text in "[a-z-]{0,9}=?.{0,12}") {
            let _ = text.parse::<Axis>();
        }
    }
}
