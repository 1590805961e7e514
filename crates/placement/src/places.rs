//! Grammar of `OMP_PLACES` and `--places`: abstract names and explicit lists of places.
//!
//! The module reads no files and binds no threads. [`PlacesSpec::resolve`] returns places that are not empty and
//! contain only CPUs that this process may use. Otherwise it returns an error with the CPU that the process may not
//! use. Source: OpenMP 5.2, "OMP_PLACES". As in libgomp, `!` removes a place that precedes it in the list, or a CPU
//! in the same braces.

mod resolve;

use crate::cpus::join_with_commas;
use crate::grammar::{self, MAX_COUNT, count};
use nodegauge_machine::CpuId;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "places";
const EXAMPLE: &str = "--places cores, --places '{0:4}:4:8' or --places 0:96:2";

/// Set of CPUs to which threads can be bound. The CPUs are sorted; there is at least one CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Vec<CpuId>);

impl Place {
    /// Creates a place from CPUs in any order; `None` if there is no CPU.
    pub fn new(cpus: impl IntoIterator<Item = CpuId>) -> Option<Self> {
        let cpus = crate::cpus::sort_and_deduplicate(cpus);
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// Returns the CPUs of the place in numeric order.
    pub fn cpus(&self) -> &[CpuId] {
        &self.0
    }
}

impl fmt::Display for Place {
    /// Formats the place in the notation of `OMP_PLACES`, e.g. `{0:4,8}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| b.0 - a.0 == 1);
        write!(
            f,
            "{{{}}}",
            join_with_commas(runs.map(|run| interval_text(&run[0], run.len() as u32, 1)))
        )
    }
}

/// Parsed value of `OMP_PLACES` or `--places`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacesSpec {
    /// One place per object of a kind: `cores` for all cores, `cores(8)` for the first eight.
    Abstract {
        /// Kind of hardware object.
        name: PlaceName,
        /// Number of places; all places if absent.
        count: Option<u32>,
    },
    /// List of places, e.g. `{0:4}:4:8,!{8:4}`.
    Explicit(Vec<ListEntry<PlaceExpr>>),
}

/// Abstract names of places in OpenMP 5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlaceName {
    /// One place per hardware thread.
    Threads,
    /// One place per core, with all hardware threads of the core.
    Cores,
    /// One place per last-level cache.
    LlCaches,
    /// One place per NUMA node, with the hardware threads nearest to it.
    NumaDomains,
    /// One place per socket.
    Sockets,
}
nodegauge_measure::names!(
    PlaceName,
    "kind of place",
    Threads = "threads",
    Cores = "cores",
    LlCaches = "ll_caches",
    NumaDomains = "numa_domains",
    Sockets = "sockets"
);

/// Entry of an explicit list of places, or of a list of CPUs within braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEntry<T> {
    /// Interval `first[:count[:stride]]`: the first item and copies of it, each shifted by `stride` CPUs.
    Include {
        /// First place or first CPU.
        first: T,
        /// Number of items; at least 1.
        count: u32,
        /// Number of CPUs between the starts of consecutive items; 1 if there is only one item.
        stride: i32,
    },
    /// Exclusion `!place` or `!cpu`, which removes the item.
    Exclude(T),
}

/// Place as the user types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceExpr {
    /// Single CPU such as `5`, which is short for `{5}`.
    Cpu(u32),
    /// Set of CPUs such as `{0:4,8,!2}`.
    Set(Vec<ListEntry<u32>>),
}

impl FromStr for PlacesSpec {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(WHAT, EXAMPLE, text);
        cursor.skip_blanks();
        if cursor.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            return abstract_name(&mut cursor);
        }
        let mut items = Vec::new();
        loop {
            let places = ["expected a place: a number or '{'", "expected a place after '!'"];
            items.push(interval(&mut cursor, places, place)?);
            cursor.skip_blanks();
            if cursor.at_end() {
                return Ok(Self::Explicit(items));
            }
            let problem = match items.last() {
                Some(ListEntry::Exclude(_)) => "expected ',' or the end after an excluded place",
                _ => "expected ',', ':' or the end after a place",
            };
            cursor.expect(',', problem)?;
        }
    }
}

fn abstract_name(cursor: &mut Cursor<'_>) -> Result<PlacesSpec, SyntaxError> {
    let at = cursor.position();
    let word = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_ascii_lowercase();
    let Ok(name) = word.parse() else {
        let problem = "expected threads, cores, sockets, ll_caches, numa_domains, a number or '{'";
        return Err(cursor.error_at(at, problem));
    };
    cursor.skip_blanks();
    let count = if cursor.eat('(') {
        cursor.skip_blanks();
        let count = count(cursor, "expected a number of places after '('")?;
        cursor.skip_blanks();
        cursor.expect(')', "expected ')' after the number of places")?;
        Some(count)
    } else {
        None
    };
    cursor.skip_blanks();
    cursor.finish("expected nothing after an abstract name")?;
    Ok(PlacesSpec::Abstract { name, count })
}

fn place(cursor: &mut Cursor<'_>, problem: &str) -> Result<PlaceExpr, SyntaxError> {
    if !cursor.eat('{') {
        return Ok(PlaceExpr::Cpu(grammar::number(cursor, problem)?));
    }
    let cpus = ["expected a CPU number", "expected a CPU number after '!'"];
    let entries = grammar::list(cursor, Some('}'), "expected ',' or '}'", |entry| {
        interval(entry, cpus, grammar::number)
    })?;
    Ok(PlaceExpr::Set(entries))
}

/// Parses `!item` or `item[:count[:stride]]`. The defaults of count and stride are 1. A stride without effect is
/// accepted and ignored. `problems` are the error messages for a missing item at the start and for a missing item
/// after `!`.
fn interval<T>(
    cursor: &mut Cursor<'_>,
    problems: [&str; 2],
    item: fn(&mut Cursor<'_>, &str) -> Result<T, SyntaxError>,
) -> Result<ListEntry<T>, SyntaxError> {
    cursor.skip_blanks();
    if cursor.eat('!') {
        cursor.skip_blanks();
        return Ok(ListEntry::Exclude(item(cursor, problems[1])?));
    }
    let first = item(cursor, problems[0])?;
    cursor.skip_blanks();
    if !cursor.eat(':') {
        return Ok(ListEntry::Include { first, count: 1, stride: 1 });
    }
    cursor.skip_blanks();
    let count = count(cursor, "expected a count after ':'")?;
    cursor.skip_blanks();
    let mut stride = 1;
    if cursor.eat(':') {
        stride = read_stride(cursor)?;
    }
    if count == 1 {
        stride = 1;
    }
    Ok(ListEntry::Include { first, count, stride })
}

fn read_stride(cursor: &mut Cursor<'_>) -> Result<i32, SyntaxError> {
    cursor.skip_blanks();
    let negative = cursor.eat('-');
    if !negative {
        cursor.eat('+');
    }
    let at = cursor.position();
    let stride = cursor.number("expected a stride after ':'")?;
    if stride > u64::from(MAX_COUNT) {
        return Err(cursor.error_at(at, format!("expected at most {MAX_COUNT}")));
    }
    Ok(if negative { -(stride as i32) } else { stride as i32 })
}

impl fmt::Display for PlacesSpec {
    /// Formats the canonical form, without spaces, and without counts and strides of 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract { name, count: None } => f.write_str(name.name()),
            Self::Abstract { name, count: Some(count) } => write!(f, "{name}({count})"),
            Self::Explicit(items) => f.write_str(&join_with_commas(items)),
        }
    }
}

impl<T: fmt::Display> fmt::Display for ListEntry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Include { first, count, stride } => {
                f.write_str(&interval_text(first, *count, *stride))
            }
            Self::Exclude(item) => write!(f, "!{item}"),
        }
    }
}

impl fmt::Display for PlaceExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => cpu.fmt(f),
            Self::Set(items) => write!(f, "{{{}}}", join_with_commas(items)),
        }
    }
}

/// Formats an interval `first[:count[:stride]]`.
fn interval_text(first: &dyn fmt::Display, count: u32, stride: i32) -> String {
    match (count, stride) {
        (1, _) => first.to_string(),
        (_, 1) => format!("{first}:{count}"),
        _ => format!("{first}:{count}:{stride}"),
    }
}

#[cfg(test)]
mod tests;
