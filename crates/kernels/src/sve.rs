//! Loops for Arm's Scalable Vector Extension, whose vector length depends on the processor. No Rust type can contain
//! such a vector. Therefore each kernel is a line of assembler code, which is inserted into a common assembler loop: a
//! number of steps of `U` vectors each, with a constant stride between steps.
//!
//! Instructions: "Arm A64 Instruction Set Architecture", SVE instructions. Loads and stores have a predicate, so that
//! the ends of an array need no scalar loop.

use super::builds::{LoopBuild, has_stores};
use super::entry::{AccessOrder, CACHE_LINE_BYTES, LoopArgs};
use super::isa::{Isa, sve_vector_bytes};
use super::pass::{CompensatedSum, KernelBody, PAGE_DISTANCE_BYTES, STEPS_PER_BLOCK};
use super::shape::{Element, KernelShape};
use super::table::MAX_ARRAYS;
use super::vector::Scalar;
use std::arch::asm;
use std::sync::atomic::{Ordering, compiler_fence};

/// Range of steps of a loop: first element of each array, number of steps, distance between steps in bytes, and number
/// of active elements per vector. If this number exceeds the vector length, all elements are active.
#[derive(Clone, Copy)]
pub(super) struct StepRange {
    at: [*mut u8; MAX_ARRAYS],
    count: usize,
    stride: usize,
    lanes: usize,
}

/// Kernel that has loops with scalable vectors.
pub(super) trait ScalableKernel: KernelBody {
    /// Runs one or more steps of `U` vectors each. Returns the sum for a kernel that sums. `P` is the number of
    /// prefetch distances.
    ///
    /// # Safety
    /// The processor must have SVE. Each array that the kernel uses must contain the elements of all steps.
    unsafe fn steps<T: Scalar, const NT: bool, const U: usize, const P: u8>(
        steps: StepRange,
        scalar: f64,
        way: AccessOrder,
    ) -> f64;
}

/// Assembler loop for one element type. Its parameters are the suffix of load and store instructions, the suffix of
/// registers, and the form of the general register that contains the scalar. Vectors of arrays a and d (no kernel reads
/// both) are in z0 to z7, of b in z10 to z17, of c and sums in z20 to z27, the scalar is in z31. All elements are
/// active in p1; the elements of the step are active in p0.
macro_rules! steps {
    ($body:literal, $result:literal, $move:literal, $lane:literal, $scalar:literal, $widen:literal;
     $steps:ident, $bits:expr, $way:ident, $kernel:ident) => {{
        let sum: f64;
        let [a, b, c, d] = $steps.at;
        // SAFETY: the caller guarantees the conditions of `ScalableKernel::steps`; every changed register is declared.
        unsafe {
            asm!(
                concat!(".macro body a, b, c, d, s, sum\n", $body, "\n.endm"),
                ".macro get array, register, k",
                concat!("ld1", $move, " {{\\register}}, p0/z, [\\array, #\\k, mul vl]"),
                ".if {p} >= 1",
                "add {ahead}, \\array, {near}",
                "prfb pldl1keep, p1, [{ahead}, #\\k, mul vl]",
                ".endif",
                ".if {p} >= 2",
                "add {ahead}, \\array, {far}",
                "prfb pldl2keep, p1, [{ahead}, #\\k, mul vl]",
                ".endif",
                ".endm",
                ".macro put register, k",
                ".if {nt}",
                concat!("stnt1", $move, " {{\\register}}, p0, [{to}, #\\k, mul vl]"),
                ".else",
                concat!("st1", $move, " {{\\register}}, p0, [{to}, #\\k, mul vl]"),
                ".endif",
                ".endm",
                concat!("ptrue p1.", $lane),
                concat!("whilelo p0.", $lane, ", xzr, {lanes}"),
                concat!("dup z31.", $lane, ", ", $scalar),
                ".if {writes} == 0",
                ".irp k,0,1,2,3,4,5,6,7",
                concat!("dup z2\\k\\().", $lane, ", #0"),
                ".endr",
                ".endif",
                "2:",
                ".irp k,0,1,2,3,4,5,6,7",
                ".if \\k < {u}",
                ".if {reads_a}",
                concat!("get {a}, z\\k\\().", $lane, ", \\k"),
                ".endif",
                ".if {reads_b}",
                concat!("get {b}, z1\\k\\().", $lane, ", \\k"),
                ".endif",
                ".if {reads_c}",
                concat!("get {c}, z2\\k\\().", $lane, ", \\k"),
                ".endif",
                ".if {reads_d}",
                concat!("get {d}, z\\k\\().", $lane, ", \\k"),
                ".endif",
                ".endif",
                ".endr",
                ".irp k,0,1,2,3,4,5,6,7",
                ".if \\k < {u}",
                concat!(
                    "body z\\k\\().", $lane, ", z1\\k\\().", $lane, ", z2\\k\\().", $lane,
                    ", z\\k\\().", $lane, ", z31.", $lane, ", z2\\k\\().", $lane
                ),
                ".if {writes}",
                concat!("put ", $result, ".", $lane, ", \\k"),
                ".endif",
                ".endif",
                ".endr",
                "add {a}, {a}, {stride}",
                "add {b}, {b}, {stride}",
                "add {c}, {c}, {stride}",
                "add {d}, {d}, {stride}",
                "add {to}, {to}, {stride}",
                "subs {count}, {count}, #1",
                "b.ne 2b",
                ".if {writes} == 0",
                ".irp k,1,2,3,4,5,6,7",
                ".if \\k < {u}",
                concat!("fadd z20.", $lane, ", z20.", $lane, ", z2\\k\\().", $lane),
                ".endif",
                ".endr",
                concat!("faddv ", $lane, "0, p1, z20.", $lane),
                $widen,
                ".endif",
                ".purgem body",
                ".purgem get",
                ".purgem put",
                a = inout(reg) a => _,
                b = inout(reg) b => _,
                c = inout(reg) c => _,
                d = inout(reg) d => _,
                to = inout(reg) $steps.at[$kernel::WRITES.unwrap_or(0)] => _,
                count = inout(reg) $steps.count => _,
                stride = in(reg) $steps.stride,
                lanes = in(reg) $steps.lanes,
                scalar = in(reg) $bits,
                near = in(reg) $way.near,
                far = in(reg) $way.far,
                ahead = out(reg) _,
                reads_a = const $kernel::READS[0] as u8,
                reads_b = const $kernel::READS[1] as u8,
                reads_c = const $kernel::READS[2] as u8,
                reads_d = const $kernel::READS[3] as u8,
                writes = const $kernel::WRITES.is_some() as u8,
                nt = const NT as u8,
                u = const U,
                p = const P,
                out("v0") sum, out("v1") _, out("v2") _, out("v3") _,
                out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                out("v10") _, out("v11") _, out("v12") _, out("v13") _,
                out("v14") _, out("v15") _, out("v16") _, out("v17") _,
                out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                out("v24") _, out("v25") _, out("v26") _, out("v27") _,
                out("v31") _, out("p0") _, out("p1") _,
                options(nostack),
            );
        }
        sum
    }};
}

/// Declares for each kernel the operation on the vectors of its arrays, and the register that contains the result:
/// `z\k` for array a (or d), `z1\k` for b, `z2\k` for c. `z31` is the scalar.
macro_rules! scalable {
    ($($kernel:ident: $body:literal => $result:literal;)*) => {
        $(
            impl ScalableKernel for super::bodies::$kernel {
                #[inline]
                #[target_feature(enable = "sve")]
                unsafe fn steps<T: Scalar, const NT: bool, const U: usize, const P: u8>(
                    steps: StepRange,
                    scalar: f64,
                    way: AccessOrder,
                ) -> f64 {
                    use super::bodies::$kernel as Of;
                    let sum = match T::ELEMENT {
                        Element::F64 => steps!($body, $result, "d", "d", "{scalar:x}", "";
                            steps, scalar.to_bits(), way, Of),
                        Element::F32 => steps!($body, $result, "w", "s", "{scalar:w}", "fcvt d0, s0";
                            steps, (scalar as f32).to_bits(), way, Of),
                    };
                    if Self::WRITES.is_some() { 0.0 } else { sum }
                }
            }
        )*

        /// Returns the loops of all kernels.
        pub(super) const fn all() -> &'static [&'static [LoopBuild]] {
            use super::bodies::*;
            const { &[$(
                passes::<f64, $kernel, false>(),
                passes::<f64, $kernel, true>(),
                passes::<f32, $kernel, false>(),
                passes::<f32, $kernel, true>(),
                residents::<$kernel, false>(),
                residents::<$kernel, true>(),
            )*] }
        }
    };
}

scalable! {
    Copy: "" => "z\\k\\()";
    Scale: "fmul \\c, \\c, \\s" => "z2\\k\\()";
    Add: "fadd \\a, \\a, \\b" => "z\\k\\()";
    Triad: "fmla \\b, p0/m, \\c, \\s" => "z1\\k\\()";
    Read: "fadd \\sum, p0/m, \\sum, \\a" => "z31";
    Write: "" => "z31";
    Update: "fmul \\a, \\a, \\s" => "z\\k\\()";
    Dot: "fmla \\sum, p0/m, \\a, \\b" => "z31";
    Nstream: "fmla \\b, p0/m, \\c, \\s\nfadd \\a, \\a, \\b" => "z\\k\\()";
    VectorTriad: "fmla \\a, p0/m, \\b, \\c" => "z\\k\\()";
    Axpy: "fmla \\a, p0/m, \\b, \\s" => "z\\k\\()";
    Blend: "fmla \\b, p0/m, \\c, \\s\nfadd \\b, \\b, \\d" => "z1\\k\\()";
}

/// Runs a loop once, as [`PassLoops`](super::pass::PassLoops) does for vectors of a known length.
///
/// # Safety
/// The processor must have SVE. The other conditions of [`InlinedLoop::run`](super::entry::InlinedLoop::run) apply.
#[target_feature(enable = "sve")]
unsafe fn run<
    T: Scalar,
    K: ScalableKernel,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
>(
    args: &LoopArgs,
    way: AccessOrder,
) -> f64 {
    let end = args.n * size_of::<T>();
    let mut total = CompensatedSum::default();
    // SAFETY: all offsets in this block are less than the end, and the last vector has no more active elements than are
    // left; the caller guarantees the other conditions.
    unsafe {
        let vector = sve_vector_bytes();
        let from = |i: usize| args.at.map(|at| at.as_ptr().wrapping_add(i));
        // Pages are traversed side by side only if a span consists of whole vectors.
        let side = SIDE && PAGE_DISTANCE_BYTES.is_multiple_of(vector);
        let repeats = if RESIDENT { args.repeats } else { 1 };
        for _ in 0..repeats {
            let mut i = match K::WRITES {
                Some(array) if !RESIDENT => {
                    args.at[array].as_ptr().align_offset(CACHE_LINE_BYTES).min(end)
                }
                _ => 0,
            };
            total.add(few::<T, K, NT>(from(0), i, vector, args.scalar, way));
            while side && end - i >= way.pages * PAGE_DISTANCE_BYTES {
                let mut line = 0;
                while line < PAGE_DISTANCE_BYTES {
                    let steps = StepRange {
                        at: from(i + line),
                        count: way.pages,
                        stride: PAGE_DISTANCE_BYTES,
                        lanes: usize::MAX,
                    };
                    total.add(match CACHE_LINE_BYTES / vector {
                        4 => K::steps::<T, NT, 4, 0>(steps, args.scalar, way),
                        2 => K::steps::<T, NT, 2, 0>(steps, args.scalar, way),
                        _ => K::steps::<T, NT, 1, 0>(steps, args.scalar, way),
                    });
                    line += vector.max(CACHE_LINE_BYTES);
                }
                i += way.pages * PAGE_DISTANCE_BYTES;
            }
            let stride = U * vector;
            while end - i >= stride {
                // After this number of steps the sums are added to an `f64`, before they lose digits.
                let max = if K::WRITES.is_some() { usize::MAX } else { STEPS_PER_BLOCK };
                let count = ((end - i) / stride).min(max);
                let steps = StepRange { at: from(i), count, stride, lanes: usize::MAX };
                total.add(K::steps::<T, NT, U, P>(steps, args.scalar, way));
                i += count * stride;
            }
            total.add(few::<T, K, NT>(from(i), end - i, vector, args.scalar, way));
            // The fence prevents the compiler from merging two passes.
            compiler_fence(Ordering::SeqCst);
        }
    }
    total.sum
}

/// Runs the kernel over `bytes` bytes, vector by vector; the last vector may be partial.
///
/// # Safety
/// The conditions of [`ScalableKernel::steps`] must hold.
#[inline]
#[target_feature(enable = "sve")]
unsafe fn few<T: Scalar, K: ScalableKernel, const NT: bool>(
    at: [*mut u8; MAX_ARRAYS],
    bytes: usize,
    vector: usize,
    scalar: f64,
    way: AccessOrder,
) -> f64 {
    let mut sum = 0.0;
    let mut i = 0;
    while i < bytes {
        let at = at.map(|at| at.wrapping_add(i));
        let steps = StepRange { at, count: 1, stride: 0, lanes: (bytes - i) / size_of::<T>() };
        // SAFETY: the caller guarantees the conditions of `ScalableKernel::steps`.
        sum += unsafe { K::steps::<T, NT, 1, 0>(steps, scalar, way) };
        i += vector;
    }
    sum
}

const fn build<
    T: Scalar,
    K: ScalableKernel,
    const RESIDENT: bool,
    const NT: bool,
    const U: usize,
    const SIDE: bool,
    const P: u8,
>() -> LoopBuild {
    LoopBuild {
        kernel: K::SPEC.kernel,
        element: T::ELEMENT,
        shape: KernelShape::built(Isa::Sve, NT, U as u8, SIDE, P),
        resident: RESIDENT,
        run: run::<T, K, RESIDENT, NT, U, SIDE, P>,
    }
}

/// Returns the loops for passes over long arrays.
const fn passes<T: Scalar, K: ScalableKernel + 'static, const NT: bool>() -> &'static [LoopBuild] {
    if !(K::SPEC.has_pass_loops() && has_stores::<K>(Isa::Sve, NT)) {
        return &[];
    }
    const {
        let [one, two, four, eight, side] = unprefetched::<T, K, false, NT>();
        &[
            one,
            two,
            four,
            eight,
            side,
            build::<T, K, false, NT, 4, false, 1>(),
            build::<T, K, false, NT, 4, false, 2>(),
        ]
    }
}

/// Returns the loops without prefetch: several unroll factors, and a loop with pages side by side.
const fn unprefetched<T: Scalar, K: ScalableKernel, const RESIDENT: bool, const NT: bool>()
-> [LoopBuild; 5] {
    [
        build::<T, K, RESIDENT, NT, 1, false, 0>(),
        build::<T, K, RESIDENT, NT, 2, false, 0>(),
        build::<T, K, RESIDENT, NT, 4, false, 0>(),
        build::<T, K, RESIDENT, NT, 8, false, 0>(),
        build::<T, K, RESIDENT, NT, 1, true, 0>(),
    ]
}

/// Returns the loops for resident sets, i.e. for data that stays in a cache.
const fn residents<K: ScalableKernel + 'static, const NT: bool>() -> &'static [LoopBuild] {
    let stores = has_stores::<K>(Isa::Sve, NT) && (!NT || K::SPEC.write_allocates());
    if !(K::SPEC.has_resident_loops() && stores) {
        return &[];
    }
    const { &unprefetched::<f64, K, true, NT>() }
}
