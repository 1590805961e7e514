//! Loops that go over the same lines again and again within one call, so that neither a call, a clock
//! nor a barrier stands between two passes over a set that fits a cache.
//!
//! The rows of `rows` serve long arrays: they peel, fence and sum up once a call, which is nothing
//! beside a pass through main memory and more than the pass itself through 4 KiB. Here arrays are
//! whole lines, so a pass is vectors only; sums stay in registers from pass to pass. Elements are
//! `f64`.

use super::vector::{Lanes, Scalar, Vector};
use super::{Isa, Stores};
use std::sync::atomic::{Ordering, compiler_fence};

/// Bytes of a line: lengths are multiples of it, addresses too. Every vector divides it.
pub const LINE: usize = 64;
/// Arrays that a pattern uses at most.
pub const MOST_ARRAYS: usize = 4;

/// What a pass does with each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// `sum += a`
    Read,
    /// `a = s`
    Write,
    /// `a = b`
    Copy,
    /// `a = b + s c`
    Triad,
    /// `a = s a`
    Update,
    /// `a += s b`
    Axpy,
    /// `a += b + s c`
    Nstream,
    /// `a = b + s c + d`
    Blend,
}

/// What a pattern reads and writes of each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternSpec {
    /// The pattern.
    pub pattern: Pattern,
    /// Its name in records.
    pub name: &'static str,
    /// Its loop body.
    pub formula: &'static str,
    /// Arrays.
    pub arrays: usize,
    /// Arrays read by the loop.
    pub reads: u32,
    /// Arrays written.
    pub writes: u32,
}

/// All patterns.
pub const PATTERNS: [PatternSpec; 8] = {
    const fn row(
        pattern: Pattern,
        name: &'static str,
        formula: &'static str,
        arrays: usize,
        [reads, writes]: [u32; 2],
    ) -> PatternSpec {
        PatternSpec { pattern, name, formula, arrays, reads, writes }
    }
    [
        row(Pattern::Read, "read", "sum += a", 1, [1, 0]),
        row(Pattern::Write, "write", "a = s", 1, [0, 1]),
        row(Pattern::Copy, "copy", "a = b", 2, [1, 1]),
        row(Pattern::Triad, "triad", "a = b + s c", 3, [2, 1]),
        row(Pattern::Update, "update", "a = s a", 1, [1, 1]),
        row(Pattern::Axpy, "axpy", "a += s b", 2, [2, 1]),
        row(Pattern::Nstream, "nstream", "a += b + s c", 3, [3, 1]),
        row(Pattern::Blend, "blend", "a = b + s c + d", 4, [3, 1]),
    ]
};

impl Pattern {
    /// What it reads and writes.
    pub fn spec(self) -> &'static PatternSpec {
        &PATTERNS[self as usize]
    }

    /// Its name in records.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Bytes that the loop names for each element: every array once a read and once a write.
    pub fn counted(self) -> u64 {
        u64::from(self.spec().reads + self.spec().writes) * size_of::<f64>() as u64
    }

    /// Whether a regular store first brings in a line that the loop itself does not read.
    pub fn write_allocates(self) -> bool {
        matches!(self, Self::Write | Self::Copy | Self::Triad | Self::Blend)
    }

    /// What one pass makes of the first array's element, given the elements of all arrays.
    fn apply<T: Scalar>(self, [a, b, c, d]: [T; MOST_ARRAYS], s: T) -> T {
        match self {
            Self::Read => a,
            Self::Write => s,
            Self::Copy => b,
            Self::Triad => b.add(s.mul(c)),
            Self::Update => s.mul(a),
            Self::Axpy => a.add(s.mul(b)),
            Self::Nstream => a.add(b.add(s.mul(c))),
            Self::Blend => b.add(s.mul(c)).add(d),
        }
    }

    /// The first array's element after `passes` passes.
    pub fn replay(self, elements: [f64; MOST_ARRAYS], s: f64, passes: u64) -> f64 {
        let [a, rest @ ..] = elements;
        match self {
            // Each pass adds the same, which is exact for the values that are used here.
            Self::Axpy => a + passes as f64 * s * rest[0],
            Self::Nstream => a + passes as f64 * (rest[0] + s * rest[1]),
            // Only a factor of one can be applied so often.
            Self::Update => a * s.powi(passes.min(i32::MAX as u64) as i32),
            _ if passes == 0 => a,
            _ => self.apply(elements, s),
        }
    }
}

/// What a loop works on.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// First element of each array; those that the pattern does not use are not looked at.
    pub at: [*mut u8; MOST_ARRAYS],
    /// Elements an array: a multiple of a line's.
    pub n: usize,
    /// Passes.
    pub repeats: u64,
    /// The scalar `s`.
    pub scalar: f64,
}

/// One pass's work on a vector, written once for every instruction set.
trait Body {
    /// Whether the pattern is [`Pattern::Read`].
    const SUMS: bool = false;
    /// Which arrays it loads.
    const LOADS: [bool; MOST_ARRAYS];
    /// The value of one vector; of a summing body the new sum.
    ///
    /// # Safety
    /// As for [`Vector`].
    unsafe fn vector<V: Vector>(x: [V; MOST_ARRAYS], s: V) -> V;
}

macro_rules! bodies {
    ($($name:ident: [$a:literal, $b:literal, $c:literal, $d:literal], sums $sums:literal,
       |$x:ident, $s:ident| $value:expr;)*) => {$(
        struct $name;
        impl Body for $name {
            const SUMS: bool = $sums;
            const LOADS: [bool; MOST_ARRAYS] = [$a, $b, $c, $d];
            #[inline(always)]
            unsafe fn vector<V: Vector>($x: [V; MOST_ARRAYS], $s: V) -> V {
                let _ = ($x, $s);
                // SAFETY: the caller's promise.
                #[allow(unused_unsafe)]
                unsafe { $value }
            }
        }
    )*};
}

bodies! {
    Read: [true, false, false, false], sums true, |x, s| s.add(x[0]);
    Write: [false, false, false, false], sums false, |x, s| s;
    Copy: [false, true, false, false], sums false, |x, s| x[1];
    Triad: [false, true, true, false], sums false, |x, s| s.mul_add(x[2], x[1]);
    Update: [true, false, false, false], sums false, |x, s| s.mul(x[0]);
    Axpy: [true, true, false, false], sums false, |x, s| s.mul_add(x[1], x[0]);
    Nstream: [true, true, true, false], sums false, |x, s| x[0].add(s.mul_add(x[2], x[1]));
    Blend: [false, true, true, true], sums false, |x, s| s.mul_add(x[2], x[1]).add(x[3]);
}

/// Runs the passes. `NT`: streaming stores; `U`: vectors a step.
///
/// # Safety
/// The processor has the instruction set of `V`; each array that `B` uses has `n` elements of `f64`
/// from an address that is a multiple of [`LINE`], and `n` is a multiple of a line's elements; the
/// arrays are apart, and no other thread writes them or reads the first.
#[inline(always)]
unsafe fn passes<V: Vector<Scalar = f64>, B: Body, const NT: bool, const U: usize>(
    streams: &Streams,
) -> f64 {
    let at: [*mut f64; MOST_ARRAYS] = streams.at.map(<*mut u8>::cast);
    let (n, step) = (streams.n, V::LANES * U);
    let stepped = n - n % step;
    // SAFETY: every index below is less than n, vectors start at multiples of their size; the rest
    // is the caller's promise.
    unsafe {
        let s = V::splat(streams.scalar);
        let zero = V::splat(0.0);
        let mut sums = [zero; U];
        let load = |i: usize| -> [V; MOST_ARRAYS] {
            std::array::from_fn(|k| if B::LOADS[k] { V::load(at[k].add(i)) } else { zero })
        };
        let put = |i: usize, value: V| {
            if NT {
                value.stream(at[0].add(i));
            } else {
                value.store(at[0].add(i));
            }
        };
        for _ in 0..streams.repeats {
            let mut i = 0;
            while i < stepped {
                let mut x = [[zero; MOST_ARRAYS]; U];
                for (u, x) in x.iter_mut().enumerate() {
                    *x = load(i + u * V::LANES);
                }
                for (u, x) in x.into_iter().enumerate() {
                    if B::SUMS {
                        sums[u] = B::vector(x, sums[u]);
                    } else {
                        put(i + u * V::LANES, B::vector(x, s));
                    }
                }
                i += step;
            }
            while i < n {
                let x = load(i);
                if B::SUMS {
                    sums[0] = B::vector(x, sums[0]);
                } else {
                    put(i, B::vector(x, s));
                }
                i += V::LANES;
            }
            // No pass may be merged with the next one.
            compiler_fence(Ordering::SeqCst);
        }
        if NT {
            V::fence();
        }
        let mut total = 0.0;
        for sum in sums {
            // A vector is its lanes, in order.
            let lanes: *const f64 = std::ptr::from_ref(&sum).cast();
            for lane in 0..V::LANES {
                total += *lanes.add(lane);
            }
        }
        total
    }
}

/// A compiled loop and what it is.
#[derive(Debug, Clone, Copy)]
pub struct ResidentRow {
    /// The pattern.
    pub pattern: Pattern,
    /// Instruction set.
    pub isa: Isa,
    /// Kind of store; patterns that store nothing have rows of `Regular` only.
    pub stores: Stores,
    /// Vectors a step.
    pub unroll: u8,
    run: unsafe fn(&Streams) -> f64,
}

impl ResidentRow {
    /// Runs the passes on one thread's arrays; returns the sum of [`Pattern::Read`], else 0.
    ///
    /// # Safety
    /// The processor has the row's instruction set; each array that the pattern uses has `n` elements
    /// of `f64` from an address that is a multiple of [`LINE`], and `n` is a multiple of a line's
    /// elements; the arrays are apart, and no other thread writes them or reads the first.
    pub unsafe fn run(&self, streams: &Streams) -> f64 {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(streams) }
    }
}

macro_rules! resident {
    ($vector:ty, [$($feature:tt)?], $isa:ident, $pattern:ident, $stores:ident, $nt:literal,
     $unroll:literal) => {{
        $(#[target_feature(enable = $feature)])?
        unsafe fn run(streams: &Streams) -> f64 {
            // SAFETY: the promise of `ResidentRow::run`, which includes the instruction set.
            unsafe { passes::<$vector, $pattern, $nt, $unroll>(streams) }
        }
        ResidentRow {
            pattern: Pattern::$pattern,
            isa: Isa::$isa,
            stores: Stores::$stores,
            unroll: $unroll,
            run,
        }
    }};
}

/// Every unroll of the named patterns with one kind of store.
macro_rules! residents {
    ($vector:ty, $feature:tt, $isa:ident, $stores:ident, $nt:literal, $($pattern:ident),*) => {
        &[$(
            resident!($vector, $feature, $isa, $pattern, $stores, $nt, 1),
            resident!($vector, $feature, $isa, $pattern, $stores, $nt, 2),
            resident!($vector, $feature, $isa, $pattern, $stores, $nt, 4),
            resident!($vector, $feature, $isa, $pattern, $stores, $nt, 8),
        )*]
    };
}

macro_rules! regular {
    ($vector:ty, $feature:tt, $isa:ident) => {
        residents!(
            $vector, $feature, $isa, Regular, false, Read, Write, Copy, Triad, Update, Axpy,
            Nstream, Blend
        )
    };
}

static PORTABLE: &[ResidentRow] = regular!(Lanes<f64, 8>, [], Portable);

#[cfg(target_arch = "x86_64")]
static GROUPS: &[&[ResidentRow]] = {
    use std::arch::x86_64::{__m128d, __m256d, __m512d};
    macro_rules! nontemporal {
        ($vector:ty, $feature:tt, $isa:ident) => {
            residents!($vector, $feature, $isa, NonTemporal, true, Write, Copy, Triad, Blend)
        };
    }
    &[
        PORTABLE,
        regular!(__m128d, ["sse2"], Sse2),
        nontemporal!(__m128d, ["sse2"], Sse2),
        regular!(__m256d, ["avx"], Avx),
        nontemporal!(__m256d, ["avx"], Avx),
        regular!(__m512d, ["avx512f"], Avx512),
        nontemporal!(__m512d, ["avx512f"], Avx512),
    ]
};
#[cfg(target_arch = "aarch64")]
static GROUPS: &[&[ResidentRow]] =
    &[PORTABLE, regular!(std::arch::aarch64::float64x2_t, ["neon"], Neon)];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
static GROUPS: &[&[ResidentRow]] = &[PORTABLE];

/// The rows of a pattern with one kind of store that this processor can run: the widest vectors
/// first, and of each width the largest unroll.
pub fn rows(pattern: Pattern, stores: Stores) -> Vec<&'static ResidentRow> {
    let mut rows: Vec<&ResidentRow> = GROUPS
        .iter()
        .flat_map(|group| group.iter())
        .filter(|row| row.pattern == pattern && row.stores == stores && row.isa.available())
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.isa.vector_bits(), row.unroll)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start values: exact in binary, different for neighbouring elements and arrays.
    fn start(array: usize, i: usize) -> f64 {
        (1 + (i * 7 + array * 3) % 61) as f64 / 1024.0
    }

    /// Lines of guard on either side of each array.
    const GUARD: usize = 8;
    const GUARD_VALUE: f64 = -12345.0;

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Aligned([f64; 8]);

    fn check(row: &ResidentRow, lines: usize, repeats: u64) {
        let scalar = if row.pattern == Pattern::Update { 1.0 } else { 3.0 };
        let mut memory =
            vec![[Aligned([GUARD_VALUE; 8]); 1].repeat(lines + 2 * GUARD); MOST_ARRAYS];
        let at: Vec<*mut f64> = memory
            .iter_mut()
            .enumerate()
            .map(|(array, lines)| {
                let end = lines.len() - GUARD;
                for (l, line) in lines[GUARD..end].iter_mut().enumerate() {
                    line.0 = std::array::from_fn(|k| start(array, l * 8 + k));
                }
                lines[GUARD..].as_mut_ptr().cast()
            })
            .collect();
        let n = lines * 8;
        let streams = Streams { at: std::array::from_fn(|k| at[k].cast()), n, repeats, scalar };
        // SAFETY: the row is available; four arrays of n elements, apart and aligned to lines.
        let sum = unsafe { row.run(&streams) };
        let what = format!("{row:?} on {lines} lines, {repeats} times");
        for i in 0..n {
            let before: [f64; MOST_ARRAYS] = std::array::from_fn(|array| start(array, i));
            for array in 0..MOST_ARRAYS {
                // SAFETY: i is below n.
                let found = unsafe { *at[array].add(i) };
                let expected = match array {
                    0 => row.pattern.replay(before, scalar, repeats),
                    _ => before[array],
                };
                assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{what}: {array}[{i}]");
            }
        }
        let expected = match row.pattern {
            Pattern::Read => repeats as f64 * (0..n).map(|i| start(0, i)).sum::<f64>(),
            _ => 0.0,
        };
        assert!((sum - expected).abs() <= 1e-12 * expected.abs(), "{what}: {sum} {expected}");
        for lines in &memory {
            let guards = lines[..GUARD].iter().chain(&lines[lines.len() - GUARD..]);
            assert!(guards.flat_map(|line| line.0).all(|x| x == GUARD_VALUE), "{what}: guards");
        }
    }

    #[test]
    fn every_row_of_this_processor_does_what_its_formula_says() {
        let mut tried = 0;
        for spec in &PATTERNS {
            for stores in [Stores::Regular, Stores::NonTemporal] {
                for row in rows(spec.pattern, stores) {
                    // Around the longest step, 8 vectors of a line each.
                    for lines in [1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 65] {
                        for repeats in [0, 1, 2, 5] {
                            check(row, lines, repeats);
                        }
                    }
                    tried += 1;
                }
            }
        }
        assert!(tried >= 8 * 4, "{tried} rows");
    }

    #[test]
    fn specs_stand_in_the_order_of_their_patterns() {
        for (i, spec) in PATTERNS.iter().enumerate() {
            assert_eq!(spec.pattern as usize, i);
            assert!(spec.arrays <= MOST_ARRAYS);
            assert_eq!(spec.pattern.counted(), u64::from(spec.reads + spec.writes) * 8);
        }
    }

    #[test]
    fn wide_rows_come_first() {
        let widths: Vec<u32> =
            rows(Pattern::Copy, Stores::Regular).iter().map(|row| row.isa.vector_bits()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] >= pair[1]) && !widths.is_empty());
        assert!(rows(Pattern::Read, Stores::NonTemporal).is_empty());
    }
}
