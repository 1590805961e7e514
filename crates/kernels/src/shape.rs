//! Shape of a kernel's loop: element type, instruction set, kind of store, unroll factor, pages side by side, prefetch.
//! This module also contains the names of the shapes in options and records, and the grammar of their values.

use super::isa::Isa;
pub use nodegauge_measure::UnknownName;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::{SyntaxError, names};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Element {
    /// Double precision, 8 bytes: the type of published STREAM results.
    #[default]
    F64,
    /// Single precision, 4 bytes.
    F32,
}
names!(Element, "element type", F64 = "f64", F32 = "f32");

impl Element {
    /// Returns the bytes per element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
        }
    }
}

/// Kind of stores that a loop uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stores {
    /// Stores through the caches, for which each line is read before it is overwritten.
    Regular,
    /// Stores that bypass the caches, so that lines are not read before they are overwritten.
    NonTemporal,
}
names!(Stores, "kind of store", Regular = "regular", NonTemporal = "nontemporal" | "nt");

/// Software prefetch: off, or the distances in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Prefetch {
    /// No software prefetch; only hardware prefetchers are active.
    #[default]
    Off,
    /// Prefetch into level 1 at this distance.
    Near(u32),
    /// Prefetch into level 2 at the first distance, and into level 1 at the second.
    FarNear(u32, u32),
}

impl fmt::Display for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.pad("off"),
            Self::Near(near) => write!(f, "{near}"),
            Self::FarNear(far, near) => write!(f, "{far},{near}"),
        }
    }
}

impl FromStr for Prefetch {
    type Err = SyntaxError;

    /// Parses `off`, `BYTES`, or `FAR,NEAR`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let mut cursor = Cursor::new("prefetch", "--prefetch 512 or --prefetch 4096,512", text);
        let first = distance(&mut cursor)?;
        if cursor.eat(',') {
            let near = distance(&mut cursor)?;
            cursor.finish("expected nothing after the second distance")?;
            return Ok(Self::FarNear(first, near));
        }
        cursor.finish("only ',' and a second distance may follow")?;
        Ok(Self::Near(first))
    }
}

/// Reads a distance in bytes.
fn distance(input: &mut Cursor<'_>) -> Result<u32, SyntaxError> {
    /// Maximum accepted distance, which exceeds the buffers of any processor.
    const MAX: u64 = 1 << 20;
    let at = input.position();
    match input.number("expected off, or a distance in bytes")? {
        0 => Err(input.error_at(at, "the distance must be greater than zero")),
        bytes if bytes > MAX => Err(input.error_at(at, "the distance must be at most 1 MiB")),
        bytes => Ok(bytes as u32),
    }
}

impl Prefetch {
    /// Returns the kind of prefetch without the distances. The distances are arguments of a loop.
    pub(super) fn without_distances(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Near(_) => Self::Near(0),
            Self::FarNear(..) => Self::FarNear(0, 0),
        }
    }

    /// Returns the kind of prefetch with this number of distances. The distances are 0, because they are arguments of a
    /// loop.
    pub(super) const fn with_distances(distances: u8) -> Self {
        match distances {
            0 => Self::Off,
            1 => Self::Near(0),
            _ => Self::FarNear(0, 0),
        }
    }

    /// Returns the distances `(near, far)` in bytes; 0 for an absent distance.
    #[inline]
    pub(super) fn bytes(self) -> (usize, usize) {
        match self {
            Self::Off => (0, 0),
            Self::Near(near) => (near as usize, 0),
            Self::FarNear(far, near) => (near as usize, far as usize),
        }
    }
}

/// Number of pages of 4 KiB that a loop traverses side by side: it accesses the same line of each page before the
/// next line of each page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SideBySidePages(u8);

impl SideBySidePages {
    /// The pages are traversed one after another.
    pub const ONE: Self = Self(1);
    /// Placeholder for any number greater than one; the actual number is an argument of the loop.
    pub(super) const ABOVE_ONE: Self = Self(u8::MAX);
    /// Maximum number of pages. No core supports more outstanding lines.
    const MAX: u8 = 64;

    /// Creates the number `pages`; `None` if it is 0 or greater than 64.
    pub const fn new(pages: u8) -> Option<Self> {
        match pages {
            1..=Self::MAX => Some(Self(pages)),
            _ => None,
        }
    }

    /// Returns the number as an integer.
    #[inline]
    pub fn pages(self) -> u8 {
        self.0
    }

    /// Returns the number as an integer; `None` for a single page.
    pub fn above_one(self) -> Option<u8> {
        (self != Self::ONE).then_some(self.0)
    }
}

impl Default for SideBySidePages {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for SideBySidePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SideBySidePages {
    type Err = SyntaxError;

    /// Parses a number of pages.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new("side-by-side", "--side-by-side 4", text);
        let pages = cursor.number("expected a number of pages")?;
        cursor.finish("expected nothing after the number")?;
        let known = u8::try_from(pages).ok().and_then(Self::new);
        known.ok_or_else(|| cursor.error_at(0, "the number of pages side by side must be 1 to 64"))
    }
}

/// Shape of a kernel's loop. A new property of loops needs a field in this type, a parameter of `pass::PassLoops`, and
/// its values in `builds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelShape {
    /// Instruction set of the vectors.
    pub isa: Isa,
    /// Kind of stores that the loop uses.
    pub stores: Stores,
    /// Unroll factor: number of vectors per iteration.
    pub unroll: u8,
    /// Number of pages traversed side by side.
    pub side_by_side: SideBySidePages,
    /// Software prefetch, with distances.
    pub prefetch: Prefetch,
}

impl KernelShape {
    /// Returns the shape of a compiled loop with this number of prefetch `distances`. The distances are 0 and the
    /// number of pages side by side is [`SideBySidePages::ABOVE_ONE`], because both are arguments of the loop.
    pub(super) const fn built(
        isa: Isa,
        nontemporal: bool,
        unroll: u8,
        side_by_side: bool,
        distances: u8,
    ) -> Self {
        Self {
            isa,
            stores: if nontemporal { Stores::NonTemporal } else { Stores::Regular },
            unroll,
            side_by_side: if side_by_side {
                SideBySidePages::ABOVE_ONE
            } else {
                SideBySidePages::ONE
            },
            prefetch: Prefetch::with_distances(distances),
        }
    }
}

impl fmt::Display for KernelShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stores, {}, unroll {}", self.stores, self.isa, self.unroll)?;
        if self.side_by_side != SideBySidePages::ONE {
            write!(f, ", {} pages side by side", self.side_by_side)?;
        }
        match self.prefetch {
            Prefetch::Off => Ok(()),
            some => write!(f, ", prefetch {some} B"),
        }
    }
}
