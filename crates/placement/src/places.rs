//! The grammar of `OMP_PLACES` and `--places`: abstract names and explicit lists of places.
//!
//! Pure: reads no files, binds nothing. [`PlacesSpec::resolve`] gives non-empty places within the
//! CPUs that this process may use, or says which CPU is outside. Source: OpenMP 5.2, "OMP_PLACES".
//! An excluded place is one listed before, an excluded CPU one of the same braces, as in libgomp.

mod resolve;

pub(crate) use resolve::Cpus;

use crate::threads::MOST;
use nodegauge_machine::CpuId;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use std::fmt;
use std::str::FromStr;

const WHAT: &str = "places";
const EXAMPLE: &str = "--places cores, --places '{0:4}:4:8' or --places 0:96:2";

/// A set of CPUs on which threads may be bound; sorted, not empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Vec<CpuId>);

impl Place {
    /// From CPUs in any order; `None` when there is none.
    pub fn new(cpus: impl IntoIterator<Item = CpuId>) -> Option<Self> {
        let cpus = crate::cpus::sorted(cpus);
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// Its CPUs, in numeric order.
    pub fn cpus(&self) -> &[CpuId] {
        &self.0
    }
}

impl fmt::Display for Place {
    /// As `OMP_PLACES` takes it: `{0:4,8}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, run) in self.0.chunk_by(|a, b| b.0 - a.0 == 1).enumerate() {
            let separator = if index > 0 { "," } else { "" };
            match run {
                [first] => write!(f, "{separator}{first}")?,
                [first, ..] => write!(f, "{separator}{first}:{}", run.len())?,
                [] => {}
            }
        }
        f.write_str("}")
    }
}

/// What `OMP_PLACES` or `--places` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacesSpec {
    /// One place for each object of a kind: `cores`, or the first eight: `cores(8)`.
    Abstract {
        /// The kind of object.
        name: PlaceName,
        /// How many places; all when absent.
        count: Option<u32>,
    },
    /// A list of places: `{0:4}:4:8,!{8:4}`.
    Explicit(Vec<PlaceItem>),
}

/// The abstract names of OpenMP 5.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlaceName {
    /// A hardware thread.
    Threads,
    /// A core with all its hardware threads.
    Cores,
    /// A last-level cache.
    LlCaches,
    /// The hardware threads nearest to one NUMA node.
    NumaDomains,
    /// A socket.
    Sockets,
}

impl PlaceName {
    /// All names.
    pub const ALL: [Self; 5] =
        [Self::Threads, Self::Cores, Self::LlCaches, Self::NumaDomains, Self::Sockets];

    /// The word of the grammar.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Cores => "cores",
            Self::LlCaches => "ll_caches",
            Self::NumaDomains => "numa_domains",
            Self::Sockets => "sockets",
        }
    }
}

/// One entry of an explicit list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceItem {
    /// `place[:count[:stride]]`: the place and its copies, each shifted by `stride` CPUs.
    Include {
        /// The first place.
        place: PlaceExpr,
        /// How many places, 1 or more.
        count: u32,
        /// From one to the next; 1 when there is only one.
        stride: i32,
    },
    /// `!place`: without the place.
    Exclude(PlaceExpr),
}

/// A place as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceExpr {
    /// `5`, short for `{5}`.
    Cpu(u32),
    /// `{0:4,8,!2}`.
    Set(Vec<CpuItem>),
}

/// One entry within braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuItem {
    /// `first[:count[:stride]]`.
    Include {
        /// The first CPU.
        first: u32,
        /// How many CPUs, 1 or more.
        count: u32,
        /// From one to the next; 1 when there is only one.
        stride: i32,
    },
    /// `!cpu`: without the CPU.
    Exclude(u32),
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
            items.push(place_item(&mut cursor)?);
            cursor.skip_blanks();
            if cursor.at_end() {
                return Ok(Self::Explicit(items));
            }
            let problem = match items.last() {
                Some(PlaceItem::Exclude(_)) => "expected ',' or the end after an excluded place",
                _ => "expected ',', ':' or the end after a place",
            };
            cursor.expect(',', problem)?;
        }
    }
}

fn abstract_name(cursor: &mut Cursor<'_>) -> Result<PlacesSpec, SyntaxError> {
    let at = cursor.position();
    let word = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_ascii_lowercase();
    let Some(name) = PlaceName::ALL.into_iter().find(|name| name.as_str() == word) else {
        let problem = "expected threads, cores, sockets, ll_caches, numa_domains, a number or '{'";
        return Err(cursor.error_at(at, problem));
    };
    cursor.skip_blanks();
    let count = if cursor.eat('(') {
        cursor.skip_blanks();
        let count = length(cursor, "expected a number of places after '('")?;
        cursor.skip_blanks();
        cursor.expect(')', "expected ')' after the number of places")?;
        Some(count)
    } else {
        None
    };
    cursor.skip_blanks();
    cursor.finish("expected the end after an abstract name")?;
    Ok(PlacesSpec::Abstract { name, count })
}

fn place_item(cursor: &mut Cursor<'_>) -> Result<PlaceItem, SyntaxError> {
    cursor.skip_blanks();
    if cursor.eat('!') {
        cursor.skip_blanks();
        return Ok(PlaceItem::Exclude(place_expr(cursor, "expected a place after '!'")?));
    }
    let place = place_expr(cursor, "expected a place: a number or '{'")?;
    let (count, stride) = interval(cursor)?;
    Ok(PlaceItem::Include { place, count, stride })
}

fn place_expr(cursor: &mut Cursor<'_>, problem: &str) -> Result<PlaceExpr, SyntaxError> {
    if !cursor.eat('{') {
        return Ok(PlaceExpr::Cpu(cpu(cursor, problem)?));
    }
    let mut items = Vec::new();
    loop {
        cursor.skip_blanks();
        items.push(if cursor.eat('!') {
            cursor.skip_blanks();
            CpuItem::Exclude(cpu(cursor, "expected a CPU number after '!'")?)
        } else {
            let first = cpu(cursor, "expected a CPU number")?;
            let (count, stride) = interval(cursor)?;
            CpuItem::Include { first, count, stride }
        });
        cursor.skip_blanks();
        if cursor.eat('}') {
            return Ok(PlaceExpr::Set(items));
        }
        cursor.expect(',', "expected ',' or '}'")?;
    }
}

/// `[:count[:stride]]`, 1 and 1 when absent. A stride without effect is read and dropped.
fn interval(cursor: &mut Cursor<'_>) -> Result<(u32, i32), SyntaxError> {
    cursor.skip_blanks();
    if !cursor.eat(':') {
        return Ok((1, 1));
    }
    cursor.skip_blanks();
    let count = length(cursor, "expected a count after ':'")?;
    cursor.skip_blanks();
    if !cursor.eat(':') {
        return Ok((count, 1));
    }
    cursor.skip_blanks();
    let negative = cursor.eat('-');
    if !negative {
        cursor.eat('+');
    }
    let at = cursor.position();
    let stride = cursor.number("expected a stride after ':'")?;
    if stride > u64::from(MOST) {
        return Err(cursor.error_at(at, format!("expected at most {MOST}")));
    }
    let stride = if negative { -(stride as i32) } else { stride as i32 };
    Ok((count, if count == 1 { 1 } else { stride }))
}

/// A number of places or CPUs, from 1 to [`MOST`].
fn length(cursor: &mut Cursor<'_>, problem: &str) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    match cursor.number(problem)? {
        0 => Err(cursor.error_at(at, "expected at least 1")),
        n if n > u64::from(MOST) => Err(cursor.error_at(at, format!("expected at most {MOST}"))),
        n => Ok(n as u32),
    }
}

fn cpu(cursor: &mut Cursor<'_>, problem: &str) -> Result<u32, SyntaxError> {
    let at = cursor.position();
    let number = cursor.number(problem)?;
    u32::try_from(number).map_err(|_| cursor.error_at(at, "this number is too large"))
}

impl fmt::Display for PlacesSpec {
    /// Canonical: without blanks, and without counts and strides that say nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract { name, count: None } => f.write_str(name.as_str()),
            Self::Abstract { name, count: Some(count) } => write!(f, "{}({count})", name.as_str()),
            Self::Explicit(items) => list(f, items),
        }
    }
}

impl fmt::Display for PlaceItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Include { place, count, stride } => spread(f, place, *count, *stride),
            Self::Exclude(place) => write!(f, "!{place}"),
        }
    }
}

impl fmt::Display for PlaceExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => cpu.fmt(f),
            Self::Set(items) => {
                f.write_str("{")?;
                list(f, items)?;
                f.write_str("}")
            }
        }
    }
}

impl fmt::Display for CpuItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Include { first, count, stride } => spread(f, first, *count, *stride),
            Self::Exclude(cpu) => write!(f, "!{cpu}"),
        }
    }
}

/// `first[:count[:stride]]`.
fn spread(
    f: &mut fmt::Formatter<'_>,
    first: &dyn fmt::Display,
    count: u32,
    stride: i32,
) -> fmt::Result {
    match (count, stride) {
        (1, _) => write!(f, "{first}"),
        (_, 1) => write!(f, "{first}:{count}"),
        _ => write!(f, "{first}:{count}:{stride}"),
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if index > 0 { "," } else { "" })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
