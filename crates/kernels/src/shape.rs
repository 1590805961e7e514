//! How a kernel's loop is built: element type, instruction set, kind of store, unroll, prefetch. The
//! names of options and records, and their grammar.

use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The name of something that is chosen by name is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} '{given}': expected {}", known.join(", "))]
pub struct UnknownName {
    /// What was to be chosen.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What there is.
    pub known: Vec<&'static str>,
}

macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $name:literal),*) => {
        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The name in options and records.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().find(|x| x.name() == text).copied().ok_or_else(|| UnknownName {
                    what: $what,
                    given: text.to_owned(),
                    known: Self::ALL.iter().map(|x| x.name()).collect(),
                })
            }
        }
    };
}

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Element {
    /// 8 bytes, as STREAM's results are quoted.
    #[default]
    F64,
    /// 4 bytes.
    F32,
}
names!(Element, "element type", F64 = "f64", F32 = "f32");

impl Element {
    /// Bytes an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
        }
    }
}

/// How results are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stores {
    /// Through the caches, which read each line before it is overwritten.
    Regular,
    /// Past the caches (streaming), without that read.
    NonTemporal,
}
names!(Stores, "kind of store", Regular = "regular", NonTemporal = "nontemporal");

/// An instruction set with kernels of its own, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Isa {
    /// Plain code for the target's baseline.
    Portable,
    /// 128-bit vectors of x86-64.
    Sse2,
    /// 256-bit vectors.
    Avx,
    /// 512-bit vectors, with fused multiply-add.
    Avx512,
    /// 128-bit vectors of Arm, with fused multiply-add.
    Neon,
}
names!(
    Isa,
    "instruction set",
    Portable = "portable",
    Sse2 = "sse2",
    Avx = "avx",
    Avx512 = "avx512",
    Neon = "neon"
);

impl Isa {
    /// Whether this processor has it.
    pub fn available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Sse2 => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx => std::arch::is_x86_feature_detected!("avx"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Whether it has non-temporal stores.
    pub const fn has_nontemporal(self) -> bool {
        matches!(self, Self::Sse2 | Self::Avx | Self::Avx512)
    }

    /// Vector width in bits; 0 where the compiler chose.
    pub fn vector_bits(self) -> u32 {
        match self {
            Self::Portable => 0,
            Self::Sse2 | Self::Neon => 128,
            Self::Avx => 256,
            Self::Avx512 => 512,
        }
    }
}

/// Software prefetch: off, or how far ahead lines are asked for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Prefetch {
    /// The hardware's prefetchers alone.
    #[default]
    Off,
    /// Into level 1, this far ahead.
    Near(u32),
    /// Into level 2 at the first distance, and into level 1 at the second.
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

    /// `off`, `BYTES`, or `FAR,NEAR`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        /// Farther ahead than any processor's buffers can hold lines.
        const MOST: u64 = 1 << 20;
        if text == "off" {
            return Ok(Self::Off);
        }
        let mut cursor = Cursor::new("prefetch", "--prefetch 512 or --prefetch 4096,512", text);
        let distance = |cursor: &mut Cursor<'_>| {
            let at = cursor.position();
            match cursor.number("expected off, or a distance in bytes")? {
                0 => Err(cursor.error_at(at, "a distance is greater than zero")),
                bytes if bytes > MOST => Err(cursor.error_at(at, "a distance is at most 1 MiB")),
                bytes => Ok(bytes as u32),
            }
        };
        let first = distance(&mut cursor)?;
        if cursor.eat(',') {
            let near = distance(&mut cursor)?;
            cursor.finish("expected nothing after the second distance")?;
            return Ok(Self::FarNear(first, near));
        }
        cursor.finish("expected ',' and a second distance, or nothing")?;
        Ok(Self::Near(first))
    }
}

impl Prefetch {
    /// The kind alone, without its distances, which a loop takes from its arguments.
    pub(super) fn kind(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Near(_) => Self::Near(0),
            Self::FarNear(..) => Self::FarNear(0, 0),
        }
    }

    /// The kind with so many distances.
    pub(super) const fn with_distances(distances: u8) -> Self {
        match distances {
            0 => Self::Off,
            1 => Self::Near(0),
            _ => Self::FarNear(0, 0),
        }
    }

    /// `(near, far)` in bytes, 0 where there is none.
    pub(crate) fn bytes(self) -> (usize, usize) {
        match self {
            Self::Off => (0, 0),
            Self::Near(near) => (near as usize, 0),
            Self::FarNear(far, near) => (near as usize, far as usize),
        }
    }
}

/// How a kernel's loop is built. An axis more is a field here, a parameter of `body::Pass` and its
/// values in `variants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Instruction set.
    pub isa: Isa,
    /// Kind of store.
    pub stores: Stores,
    /// Vectors a step.
    pub unroll: u8,
    /// Software prefetch.
    pub prefetch: Prefetch,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stores, {}, unroll {}", self.stores, self.isa, self.unroll)?;
        match self.prefetch {
            Prefetch::Off => Ok(()),
            some => write!(f, ", prefetch {some} B"),
        }
    }
}
