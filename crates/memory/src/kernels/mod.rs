//! The kernels as rows of tables: what each one counts and moves ([`Kernel`]), and which compiled
//! function runs it with which instruction set, stores, unroll and prefetch ([`Row`]).
//!
//! The loops are written once in `body`; `rows` instantiates them. A row is chosen once, by
//! feature detection, before anything is timed; inside a loop there is no choice left.

mod body;
pub mod compiled;
mod loops;
pub mod oracle;
pub mod resident;
mod rows;
mod vector;

pub use body::Args;
pub use loops::Loop;
use nodegauge_measure::SyntaxError;
use nodegauge_measure::grammar::Cursor;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kernel of STREAM or one of its relatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kernel {
    /// `c = a`
    Copy,
    /// `b = s c`
    Scale,
    /// `c = a + b`
    Add,
    /// `a = b + s c`
    Triad,
    /// `sum += a`
    Read,
    /// `c = s`
    Write,
    /// `a = s a`
    Update,
    /// `sum += a b`
    Dot,
    /// `a += b + s c`
    Nstream,
}

/// What a kernel does to memory and arithmetic, for one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSpec {
    /// The kernel.
    pub kernel: Kernel,
    /// Its name in options and records.
    pub name: &'static str,
    /// Its loop body.
    pub formula: &'static str,
    /// Arrays read.
    pub reads: u32,
    /// Arrays written.
    pub writes: u32,
    /// Arrays that a regular store first reads into the cache because the loop does not read them.
    pub write_allocates: u32,
    /// Floating-point operations.
    pub flops: u32,
}

/// Every kernel, in the order in which a pass runs them: STREAM's four first, in STREAM's order.
pub const KERNELS: [KernelSpec; 9] = {
    const fn row(
        kernel: Kernel,
        name: &'static str,
        formula: &'static str,
        [reads, writes, write_allocates, flops]: [u32; 4],
    ) -> KernelSpec {
        KernelSpec { kernel, name, formula, reads, writes, write_allocates, flops }
    }
    [
        row(Kernel::Copy, "copy", "c = a", [1, 1, 1, 0]),
        row(Kernel::Scale, "scale", "b = s c", [1, 1, 1, 1]),
        row(Kernel::Add, "add", "c = a + b", [2, 1, 1, 1]),
        row(Kernel::Triad, "triad", "a = b + s c", [2, 1, 1, 2]),
        row(Kernel::Read, "read", "sum += a", [1, 0, 0, 1]),
        row(Kernel::Write, "write", "c = s", [0, 1, 1, 0]),
        row(Kernel::Update, "update", "a = s a", [1, 1, 0, 1]),
        row(Kernel::Dot, "dot", "sum += a b", [2, 0, 0, 2]),
        row(Kernel::Nstream, "nstream", "a += b + s c", [3, 1, 0, 3]),
    ]
};

/// STREAM's four.
pub const STREAM: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

impl Kernel {
    /// What it does to memory and arithmetic.
    pub fn spec(self) -> &'static KernelSpec {
        &KERNELS[self as usize]
    }

    /// Its name in options and records.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Bytes that STREAM's rule counts for one element of `element` bytes: each array named once a
    /// read and once a write.
    pub fn counted(self, element: Element) -> u64 {
        u64::from(self.spec().reads + self.spec().writes) * element.bytes()
    }

    /// Bytes that move between processor and memory for one element: with regular stores also the
    /// lines that are read only to be overwritten (write-allocate).
    pub fn moved(self, element: Element, stores: Stores) -> u64 {
        let extra = match stores {
            Stores::Regular => self.spec().write_allocates,
            Stores::NonTemporal => 0,
        };
        self.counted(element) + u64::from(extra) * element.bytes()
    }

    /// Whether it stores to memory at all.
    pub fn writes(self) -> bool {
        self.spec().writes > 0
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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

impl FromStr for Kernel {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        KERNELS.iter().find(|spec| spec.name == text).map(|spec| spec.kernel).ok_or_else(|| {
            UnknownName {
                what: "kernel",
                given: text.to_owned(),
                known: KERNELS.iter().map(|spec| spec.name).collect(),
            }
        })
    }
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
    /// How many distances there are.
    fn distances(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Near(_) => 1,
            Self::FarNear(..) => 2,
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

/// How a kernel's loop is built.
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

/// A compiled kernel.
///
/// # Safety
/// The processor has the row's instruction set; the pointers that the kernel uses lead to `n`
/// elements aligned to the element; the destination is writable, used by no other thread, and
/// either equal to a source or apart from it.
pub type KernelFn = unsafe fn(&Args) -> f64;

/// One compiled kernel and what it is.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name, e.g. `Triad_F64_Avx512_NonTemporal_u4_p0`.
    pub name: &'static str,
    /// The kernel.
    pub kernel: Kernel,
    /// Element type.
    pub element: Element,
    /// Instruction set.
    pub isa: Isa,
    /// Kind of store; kernels that store nothing have rows of `Regular` only.
    pub stores: Stores,
    /// Vectors a step.
    pub unroll: u8,
    /// Prefetch distances that it reads from its arguments: 0, 1 or 2.
    pub prefetches: u8,
    /// The function.
    run: KernelFn,
}

impl Row {
    /// Runs the kernel on one thread's share; returns the sum of a kernel that sums, else 0.
    ///
    /// # Safety
    /// As for [`KernelFn`].
    pub unsafe fn run(&self, args: &Args) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(args) }
    }
}

/// Every row compiled into this program, for all instruction sets of its target.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    rows::all()
}

/// The row for a kernel of a shape; `None` when this processor lacks the instruction set or no such
/// row was compiled. A kernel that stores nothing ignores the kind of store.
pub fn find(kernel: Kernel, element: Element, shape: Shape) -> Option<&'static Row> {
    let stores = if kernel.writes() { shape.stores } else { Stores::Regular };
    rows()
        .find(|row| {
            row.kernel == kernel
                && row.element == element
                && row.isa == shape.isa
                && row.stores == stores
                && row.unroll == shape.unroll
                && row.prefetches == shape.prefetch.distances()
        })
        .filter(|row| row.isa.available())
}

/// The instruction sets that this processor has and that have rows, widest first.
pub fn available_isas() -> Vec<Isa> {
    let mut isas: Vec<Isa> = Isa::ALL
        .iter()
        .copied()
        .filter(|isa| isa.available() && rows().any(|row| row.isa == *isa))
        .collect();
    isas.sort_by_key(|isa| std::cmp::Reverse(isa.vector_bits()));
    isas
}

/// Whether non-temporal stores exist for an instruction set.
pub fn has_nontemporal(isa: Isa) -> bool {
    matches!(isa, Isa::Sse2 | Isa::Avx | Isa::Avx512)
}

#[cfg(test)]
mod tests;
