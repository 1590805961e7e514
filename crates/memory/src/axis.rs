//! The grammar of `--sweep AXIS=VALUES`: which option a sweep varies, and through which values.
//!
//! `threads=1,2-32:2` and `per-cache=1,2,4` take counts; `places` takes places separated by `;`;
//! `size`, `stores`, `pages`, `side-by-side` and `prefetch` take lists (prefetch with two distances is written
//! `4096+512`); `compiler` takes commands separated by `;` that stands outside of quotes, `native`
//! for nodegauge's own kernels, and `all` for what is installed. `stores`, `pages` and `rank-map` alone mean
//! all kinds that need no reservation.

use crate::arrays::Pages;
use crate::compiled::CompilerChoice;
use crate::kernels::{Prefetch, SideBySide, Stores, UnknownName};
use crate::size::SizeSpec;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use nodegauge_placement::{PlacesSpec, Policy, RankMap, ThreadList};
use std::fmt;
use std::str::FromStr;

/// A value of an option that can be swept.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// Number of threads.
    Threads(u32),
    /// Threads on each last-level cache.
    PerCache(u32),
    /// Places.
    Places(PlacesSpec),
    /// Kind of store.
    Stores(Stores),
    /// Kind of page.
    Pages(Pages),
    /// Length of the arrays.
    Size(SizeSpec),
    /// Prefetch distance.
    Prefetch(Prefetch),
    /// Pages walked side by side.
    SideBySide(SideBySide),
    /// Number of ranks.
    Ranks(u32),
    /// Policy of ranks.
    Policy(Policy),
    /// Socket or core of each rank.
    RankMap(RankMap),
    /// Who made the loops.
    Compiler(CompilerChoice),
}

impl Setting {
    /// The compiler, where it is one.
    pub fn compiler(&self) -> Option<&CompilerChoice> {
        match self {
            Self::Compiler(choice) => Some(choice),
            _ => None,
        }
    }

    /// The name of its axis.
    pub fn axis(&self) -> &'static str {
        match self {
            Self::Threads(_) => "threads",
            Self::PerCache(_) => "per-cache",
            Self::Places(_) => "places",
            Self::Stores(_) => "stores",
            Self::Pages(_) => "pages",
            Self::Size(_) => "size",
            Self::Prefetch(_) => "prefetch",
            Self::SideBySide(_) => "side-by-side",
            Self::Ranks(_) => "ranks",
            Self::Policy(_) => "policy",
            Self::RankMap(_) => "rank-map",
            Self::Compiler(_) => "compiler",
        }
    }

    /// The number on an axis of numbers.
    pub(crate) fn count(&self) -> Option<u32> {
        match self {
            Self::Threads(count) | Self::PerCache(count) | Self::Ranks(count) => Some(*count),
            _ => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) | Self::PerCache(count) | Self::Ranks(count) => count.fmt(f),
            Self::Places(places) => places.fmt(f),
            Self::Stores(stores) => stores.fmt(f),
            Self::Pages(pages) => pages.fmt(f),
            Self::Size(size) => size.fmt(f),
            Self::Prefetch(prefetch) => prefetch.fmt(f),
            Self::SideBySide(pages) => pages.fmt(f),
            Self::Policy(policy) => policy.fmt(f),
            Self::RankMap(map) => map.fmt(f),
            Self::Compiler(choice) => choice.fmt(f),
        }
    }
}

/// The values of one option, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis(Vec<Setting>);

impl Axis {
    /// Numbers of threads.
    pub fn threads(counts: &ThreadList) -> Self {
        Self::of(counts.counts().iter().copied(), Setting::Threads)
    }

    /// Who made the loops.
    pub fn compilers(choices: impl IntoIterator<Item = CompilerChoice>) -> Self {
        Self::of(choices, Setting::Compiler)
    }

    fn of<T>(values: impl IntoIterator<Item = T>, setting: impl Fn(T) -> Setting) -> Self {
        Self(values.into_iter().map(setting).collect())
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0[0].axis()
    }

    /// Its values.
    pub fn settings(&self) -> &[Setting] {
        &self.0
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Option<Vec<u32>> = self.0.iter().map(Setting::count).collect();
        if let Some(counts) = counts.and_then(ThreadList::new) {
            return write!(f, "{}={counts}", self.name());
        }
        let separator = match self.0[0] {
            Setting::Places(_) | Setting::Compiler(_) => ";",
            _ => ",",
        };
        let word = |setting: &Setting| match setting {
            Setting::Prefetch(prefetch) => prefetch.to_string().replace(',', "+"),
            other => other.to_string(),
        };
        let values: Vec<String> = self.0.iter().map(word).collect();
        write!(f, "{}={}", self.name(), values.join(separator))
    }
}

const WHAT: &str = "sweep";
const EXAMPLE: &str = "--sweep threads=1,2-32:2 or --sweep pages=4k,thp";
const EXPECTED: &str = "expected an axis of threads, per-cache, places, stores, pages, side-by-side, size, prefetch, compiler, ranks, policy or rank-map";

/// What is wrong with a value, and where in it.
struct Wrong(usize, String);

impl From<SyntaxError> for Wrong {
    fn from(error: SyntaxError) -> Self {
        Self(error.at, error.problem)
    }
}

impl From<UnknownName> for Wrong {
    fn from(error: UnknownName) -> Self {
        Self(0, error.to_string())
    }
}

impl From<String> for Wrong {
    fn from(problem: String) -> Self {
        Self(0, problem)
    }
}

/// Reads the settings of a part of the text.
type Reader<'a> = &'a dyn Fn(&str) -> Result<Vec<Setting>, Wrong>;

/// The parts of a list with their positions; a separator inside quotes or behind a backslash is part
/// of a word.
fn parts(text: &str, separator: char) -> Vec<(usize, &str)> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut quote, mut escaped) = (None, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != Some('\'') => escaped = true,
            '\'' | '"' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            c if c == separator && quote.is_none() => {
                parts.push((from, &text[from..i]));
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push((from, &text[from..]));
    parts
}

/// One value.
fn value<T: FromStr<Err: Into<Wrong>>>(
    text: &str,
    setting: fn(T) -> Setting,
) -> Result<Vec<Setting>, Wrong> {
    text.parse().map(|value| vec![setting(value)]).map_err(Into::into)
}

/// Numbers, as for `--threads`.
fn counts(text: &str, setting: fn(u32) -> Setting) -> Result<Vec<Setting>, Wrong> {
    let counts: ThreadList = text.parse()?;
    Ok(counts.counts().iter().map(|count| setting(*count)).collect())
}

/// A policy, or a range of them: `0-5`.
fn policies(text: &str) -> Result<Vec<Setting>, Wrong> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (Policy, Policy) = (first.parse()?, last.parse()?);
    if first > last {
        return Err(Wrong(0, "a range goes from the smaller number up".to_owned()));
    }
    let range = first.number()..=last.number();
    Ok(range.filter_map(Policy::new).map(Setting::Policy).collect())
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
        match name {
            "stores" if alone => return Ok(Self::of(Stores::ALL.to_vec(), Setting::Stores)),
            "rank-map" if alone => return Ok(Self::of(RankMap::ALL.to_vec(), Setting::RankMap)),
            "pages" if alone => {
                return Ok(Self::of([Pages::Base, Pages::Transparent], Setting::Pages));
            }
            _ => {}
        }
        // Counts have a grammar of lists of their own.
        let (separator, read): (Option<char>, Reader<'_>) = match name {
            "threads" => (None, &|text| counts(text, Setting::Threads)),
            "per-cache" => (None, &|text| counts(text, Setting::PerCache)),
            "ranks" => (None, &|text| counts(text, Setting::Ranks)),
            "policy" => (Some(','), &policies),
            "rank-map" => (Some(','), &|text| value(text, Setting::RankMap)),
            "places" => (Some(';'), &|text| value(text, Setting::Places)),
            "compiler" => (Some(';'), &|text| value(text, Setting::Compiler)),
            "size" => (Some(','), &|text| value(text, Setting::Size)),
            "stores" => (Some(','), &|text| value(text, Setting::Stores)),
            "pages" => (Some(','), &|text| value(text, Setting::Pages)),
            "side-by-side" => (Some(','), &|text| value(text, Setting::SideBySide)),
            // Two distances are joined by '+', because ',' separates values.
            "prefetch" => (Some(','), &|text| value(&text.replace('+', ","), Setting::Prefetch)),
            _ => return Err(cursor.error_at(0, EXPECTED)),
        };
        if alone {
            return Err(cursor.error("expected '=' and values"));
        }
        let (rest, start) = (cursor.rest(), cursor.position());
        let parts = separator.map_or_else(|| vec![(0, rest)], |separator| parts(rest, separator));
        let mut settings = Vec::new();
        for (at, part) in parts {
            let part = if separator.is_some() { part.trim() } else { part };
            let of_part = read(part);
            let of_part = of_part.map_err(|Wrong(i, why)| cursor.error_at(start + at + i, why))?;
            settings.extend(of_part);
        }
        Ok(Self(settings))
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
            "side-by-side=1,2,4,8",
            "compiler=native;all;gcc -O3 -march=native;clang '-DX=a;b' -O2",
            "stores",
            "pages",
            "ranks=1,2-8:2",
            "policy=0-3,5",
            "rank-map=block,cyclic",
            "rank-map",
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
            ("side-by-side=4,65", 15),
            ("stores;", 6),
            ("policy=0-6", 7),
            ("policy=1,5-2", 9),
            ("ranks=0", 6),
            ("rank-map=block,round", 15),
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
