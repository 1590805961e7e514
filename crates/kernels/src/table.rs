//! Table of kernels with one row per kernel: formula, arrays read and written, counted operations, and the reference
//! function on one element. The arrays that loops load and store, the expected values in checks and tests, and the
//! names in records and help texts are derived from this table.

use super::{Element, Stores, UnknownName};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum number of arrays of a kernel.
pub const MAX_ARRAYS: usize = 4;

/// Number of arrays of STREAM. A pass has a fourth array only if one of its kernels uses it.
pub const STREAM_ARRAY_COUNT: usize = 3;

/// Value of the scalar `s` in STREAM's kernels.
pub const SCALAR: f64 = 3.0;

/// One of the arrays of a pass. The discriminant is the index in [`LoopArgs::at`](super::LoopArgs::at).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Array {
    /// First array, `a` in STREAM.
    A,
    /// Second array, `b` in STREAM.
    B,
    /// Third array, `c` in STREAM.
    C,
    /// Fourth array, `d`, which STREAM's kernels do not use.
    D,
}

/// Kinds of loops that a kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKinds {
    /// Only loops for passes over long arrays, as in STREAM.
    Passes,
    /// Only resident loops, which traverse data in a cache repeatedly within one call.
    ResidentLoop,
    /// Both kinds of loops.
    Both,
}

/// Function that computes the result for one element, from an element of each array and the scalar.
type Reference<T> = fn([T; MAX_ARRAYS], T) -> T;

/// Row of the table: properties of one kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelSpec {
    /// Kernel that the row describes.
    pub kernel: Kernel,
    /// Name of the kernel in options and records.
    pub name: &'static str,
    /// Loop body as a formula.
    pub formula: &'static str,
    /// Arrays that the kernel reads.
    pub reads: &'static [Array],
    /// Array that the kernel writes; `None` for a kernel that sums what it reads.
    pub writes: Option<Array>,
    /// Floating-point operations per element.
    pub flops: u32,
    /// Number of scalars that stay in registers.
    pub scalars: u32,
    /// Kinds of loops that the kernel has.
    pub loops: LoopKinds,
    /// Reference functions for `f64` and `f32`, in which every operation is rounded. From one element of each array and
    /// the scalar, they compute the new element of the written array, or the term of the sum.
    reference: (Reference<f64>, Reference<f32>),
}

/// Declares the enum of kernels and the table, both in the order of the rows.
macro_rules! kernels {
    ($($kernel:ident, $name:literal, $formula:literal, [$($read:ident)*] => $write:expr,
       flops $flops:literal, scalars $scalars:literal, $loops:ident,
       |$x:pat_param, $s:pat_param| $reference:expr;)*) => {
        /// Kernel: one of STREAM's four, or an additional kernel.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub enum Kernel {$(
            #[doc = concat!("`", $formula, "`")]
            $kernel,
        )*}

        /// All kernels, in the order in which a pass runs them: first STREAM's four in STREAM's order, then the
        /// additional kernels.
        pub static KERNELS: &[KernelSpec] = {
            use Array::{A, B, C, D};
            &[$(KernelSpec {
                kernel: Kernel::$kernel,
                name: $name,
                formula: $formula,
                reads: &[$($read),*],
                writes: $write,
                flops: $flops,
                scalars: $scalars,
                loops: LoopKinds::$loops,
                reference: (
                    |$x: [f64; MAX_ARRAYS], $s: f64| $reference,
                    |$x: [f32; MAX_ARRAYS], $s: f32| $reference,
                ),
            }),*]
        };
    };
}

kernels! {
    Copy, "copy", "c = a", [A] => Some(C), flops 0, scalars 0, Both, |[a, ..], _| a;
    Scale, "scale", "b = s c", [C] => Some(B), flops 1, scalars 1, Both, |[_, _, c, _], s| s * c;
    Add, "add", "c = a + b", [A B] => Some(C), flops 1, scalars 0, Both, |[a, b, ..], _| a + b;
    Triad, "triad", "a = b + s c", [B C] => Some(A), flops 2, scalars 1, Both,
        |[_, b, c, _], s| b + s * c;
    Read, "read", "sum += a", [A] => None, flops 1, scalars 0, Both, |[a, ..], _| a;
    Write, "write", "c = s", [] => Some(C), flops 0, scalars 1, Both, |_, s| s;
    Update, "update", "a = s a", [A] => Some(A), flops 1, scalars 1, Both, |[a, ..], s| s * a;
    Dot, "dot", "sum += a b", [A B] => None, flops 2, scalars 0, Passes, |[a, b, ..], _| a * b;
    Nstream, "nstream", "a += b + s c", [A B C] => Some(A), flops 3, scalars 1, Both,
        |[a, b, c, _], s| a + (b + s * c);
    VectorTriad, "vector_triad", "d = a + b c", [A B C] => Some(D), flops 2, scalars 0, Passes,
        |[a, b, c, _], _| a + b * c;
    Axpy, "axpy", "a += s b", [A B] => Some(A), flops 2, scalars 1, ResidentLoop,
        |[a, b, ..], s| a + s * b;
    Blend, "blend", "a = b + s c + d", [B C D] => Some(A), flops 3, scalars 1, ResidentLoop,
        |[_, b, c, d], s| b + s * c + d;
}

/// STREAM's four kernels, in STREAM's order.
pub const STREAM: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

impl Array {
    /// All arrays that a pass can have.
    pub const ALL: [Self; MAX_ARRAYS] = [Self::A, Self::B, Self::C, Self::D];

    /// Returns the name of the array in formulas, messages and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
        }
    }
}

/// Returns the number of arrays of a pass with these kernels: four if one of them uses the fourth array, otherwise
/// three.
pub fn array_count(kernels: impl IntoIterator<Item = Kernel>) -> usize {
    let used = kernels.into_iter().flat_map(|kernel| kernel.spec().arrays());
    used.map(|array| array as usize + 1).fold(STREAM_ARRAY_COUNT, usize::max)
}

impl KernelSpec {
    /// True if the loop reads the array.
    pub const fn reads_from(&self, array: Array) -> bool {
        self.reads_mask()[array as usize]
    }

    /// Returns true for each array that the loop reads.
    pub(super) const fn reads_mask(&self) -> [bool; MAX_ARRAYS] {
        let mut reads = [false; MAX_ARRAYS];
        let mut i = 0;
        while i < self.reads.len() {
            reads[self.reads[i] as usize] = true;
            i += 1;
        }
        reads
    }

    /// True if the loop writes an array that it does not read. Regular stores read the lines of such an
    /// array into the cache first (write-allocate).
    pub const fn write_allocates(&self) -> bool {
        match self.writes {
            Some(array) => !self.reads_from(array),
            None => false,
        }
    }

    /// Returns the number of words per iteration by STREAM's counting rule: one for each array read and one for each
    /// array written.
    pub const fn words_per_iteration(&self) -> u32 {
        self.reads.len() as u32 + self.writes.is_some() as u32
    }

    /// Returns the arrays that the kernel uses, in the order `a` to `d`.
    pub fn arrays(&self) -> impl Iterator<Item = Array> {
        let arrays = Array::ALL.into_iter();
        arrays.filter(|array| self.reads_from(*array) || self.writes == Some(*array))
    }

    /// True if the kernel has loops for passes over long arrays.
    pub const fn has_pass_loops(&self) -> bool {
        !matches!(self.loops, LoopKinds::ResidentLoop)
    }

    /// True if the kernel has loops for data that stays in a cache.
    pub const fn has_resident_loops(&self) -> bool {
        !matches!(self.loops, LoopKinds::Passes)
    }
}

impl Kernel {
    /// Returns the row of the kernel in the table.
    pub fn spec(self) -> &'static KernelSpec {
        &KERNELS[self as usize]
    }

    /// Returns the name of the kernel in options and records.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns the bytes per iteration by STREAM's counting rule: one element for each array read and each array
    /// written.
    pub fn counted_bytes(self, element: Element) -> u64 {
        u64::from(self.spec().words_per_iteration()) * element.bytes()
    }

    /// Returns the bytes per iteration that move between processor and memory. With regular stores they include the
    /// lines that are read only to be overwritten (write-allocate).
    pub fn moved_bytes(self, element: Element, stores: Stores) -> u64 {
        let allocates = self.spec().write_allocates() && stores == Stores::Regular;
        self.counted_bytes(element) + u64::from(allocates) * element.bytes()
    }

    /// True if the kernel writes an array.
    pub fn writes(self) -> bool {
        self.spec().writes.is_some()
    }

    /// Computes the new element of the written array, or the term of the sum, from one element of each array, in the
    /// precision of `element`.
    pub fn reference_value(
        self,
        element: Element,
        elements: [f64; MAX_ARRAYS],
        scalar: f64,
    ) -> f64 {
        let (double, single) = self.spec().reference;
        match element {
            Element::F64 => double(elements, scalar),
            Element::F32 => f64::from(single(elements.map(|x| x as f32), scalar as f32)),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kernel {
    type Err = UnknownName;

    /// Parses the name of a kernel with loops for passes over long arrays.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let mut passes = KERNELS.iter().filter(|spec| spec.has_pass_loops());
        let known = passes.clone().map(|spec| spec.name);
        match passes.find(|spec| spec.name == text) {
            Some(spec) => Ok(spec.kernel),
            None => {
                Err(UnknownName { what: "kernel", given: text.to_owned(), known: known.collect() })
            }
        }
    }
}
