//! The loops over blocks, compiled for each instruction set.
//!
//! A loop is written once on arrays of lanes, which the compiler makes vectors of whatever the function
//! that it is inlined into may use.

/// Block rows of a slice: as many as the widest vectors have lanes.
pub(crate) const LANES: usize = 8;

/// An instruction set that the loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// The baseline of the target.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The widest that this processor has.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512vl") && has!("avx512dq") && has!("fma") {
                return Self::Avx512;
            }
            if has!("avx2") && has!("fma") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// The name of the instruction set, for records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }
}

/// Whether the baseline has fused multiply-add; elsewhere it would be a call.
const PORTABLE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// `a x + y`
#[inline(always)]
fn multiply_add<const FMA: bool>(a: f64, x: f64, y: f64) -> f64 {
    if FMA { a.mul_add(x, y) } else { a * x + y }
}

/// Gives a loop `body` that is generic over fused multiply-add its function for each instruction set.
macro_rules! compiled {
    ($(#[$meta:meta])* $name:ident = $body:ident ($($arg:ident: $type:ty),*)) => {
        $(#[$meta])*
        #[inline]
        pub(crate) unsafe fn $name(isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $type),*) {
                // SAFETY: the caller's promise.
                unsafe { $body::<true>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
            unsafe fn avx512($($arg: $type),*) {
                // SAFETY: the caller's promise.
                unsafe { $body::<true>($($arg),*) }
            }
            #[inline(never)]
            unsafe fn portable($($arg: $type),*) {
                // SAFETY: the caller's promise.
                unsafe { $body::<PORTABLE_FMA>($($arg),*) }
            }
            // SAFETY: the caller's promise, the instruction set included.
            unsafe {
                match isa {
                    Isa::Portable => portable($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => avx512($($arg),*),
                }
            }
        }
    };
}

/// Block rows as a loop sees them. Row `i` has the blocks from `starts[i]` to `starts[i + 1]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// The first row, and the one behind the last.
    pub range: (usize, usize),
    /// Where each row starts.
    pub starts: *const usize,
    /// Block column of each block.
    pub columns: *const u32,
    /// The blocks.
    pub values: *const f64,
}

/// The product of row `i` with `x`; lane 3 has no meaning.
#[inline(always)]
unsafe fn row_product<const FMA: bool>(rows: &Rows, i: usize, x: *const f64) -> [f64; 4] {
    // Three sums, so that no addition waits for the one before.
    let mut sums = [[0.0; 4]; 3];
    // SAFETY: the row and its blocks are there, four numbers may be read from the start of each column of a
    // block, and `x` has the columns that are named.
    unsafe {
        let (first, end) = (*rows.starts.add(i), *rows.starts.add(i + 1));
        for block in first..end {
            let x = x.add(3 * *rows.columns.add(block) as usize);
            let values = rows.values.add(9 * block);
            for c in 0..3 {
                let column = values.add(3 * c).cast::<[f64; 4]>().read_unaligned();
                let factor = *x.add(c);
                for lane in 0..4 {
                    sums[c][lane] = multiply_add::<FMA>(column[lane], factor, sums[c][lane]);
                }
            }
        }
    }
    std::array::from_fn(|lane| (sums[0][lane] + sums[1][lane]) + sums[2][lane])
}

/// The product of a block of the diagonal with three components; lane 3 has no meaning.
#[inline(always)]
unsafe fn block_product<const FMA: bool>(block: *const f64, x: [f64; 3]) -> [f64; 4] {
    let mut sum = [0.0; 4];
    for (c, factor) in x.into_iter().enumerate() {
        // SAFETY: the caller's promise: the block, and a number behind it, may be read.
        let column = unsafe { block.add(3 * c).cast::<[f64; 4]>().read_unaligned() };
        for lane in 0..4 {
            sum[lane] = multiply_add::<FMA>(column[lane], factor, sum[lane]);
        }
    }
    sum
}

compiled! {
    /// `y = b - A x`, or `y = A x` where `b` is null.
    ///
    /// # Safety
    /// The processor has the instruction set; the rows are there, with a number behind their last block;
    /// `x` has the columns that they name, `y` and `b` the rows, and nobody else uses these of `y` or writes
    /// the others.
    subtract_into = multiply_body(rows: &Rows, b: *const f64, x: *const f64, y: *mut f64)
}

#[inline(always)]
unsafe fn multiply_body<const FMA: bool>(rows: &Rows, b: *const f64, x: *const f64, y: *mut f64) {
    for i in rows.range.0..rows.range.1 {
        // SAFETY: the caller's promise.
        unsafe {
            let product = row_product::<FMA>(rows, i, x);
            for lane in 0..3 {
                let at = 3 * i + lane;
                let value = if b.is_null() { product[lane] } else { *b.add(at) - product[lane] };
                y.add(at).write(value);
            }
        }
    }
}

compiled! {
    /// Forward substitution on unit lower rows: `z_i = r_i - sum of L_ij z_j`.
    ///
    /// # Safety
    /// As for [`subtract_into`]; the columns that a row names are of rows before it or of other threads'
    /// that no longer change.
    forward = forward_body(rows: &Rows, r: *const f64, z: *mut f64)
}

#[inline(always)]
unsafe fn forward_body<const FMA: bool>(rows: &Rows, r: *const f64, z: *mut f64) {
    // SAFETY: the caller's promise: what is read of `z` is written before.
    unsafe { multiply_body::<FMA>(rows, r, z, z) }
}

compiled! {
    /// Backward substitution on unit upper rows, last row first: `z_i = D_i z_i - sum of U_ij z_j`, `D` three
    /// by three numbers a row.
    ///
    /// # Safety
    /// As for [`forward`], with rows behind in place of rows before; `diagonal` has the rows and a number
    /// behind them.
    backward = backward_body(rows: &Rows, diagonal: *const f64, z: *mut f64)
}

#[inline(always)]
unsafe fn backward_body<const FMA: bool>(rows: &Rows, diagonal: *const f64, z: *mut f64) {
    for i in (rows.range.0..rows.range.1).rev() {
        // SAFETY: the caller's promise.
        unsafe {
            let own = z.add(3 * i).cast::<[f64; 3]>();
            let scaled = block_product::<FMA>(diagonal.add(9 * i), own.read());
            let product = row_product::<FMA>(rows, i, z);
            own.write(std::array::from_fn(|lane| scaled[lane] - product[lane]));
        }
    }
}

compiled! {
    /// `z = D r` on the rows from `first` to `end`, `D` three by three numbers a row.
    ///
    /// # Safety
    /// The processor has the instruction set; `diagonal` (and a number behind it), `r` and `z` have the rows,
    /// and nobody else uses these of `z`.
    scale = scale_body(range: (usize, usize), diagonal: *const f64, r: *const f64, z: *mut f64)
}

#[inline(always)]
unsafe fn scale_body<const FMA: bool>(
    range: (usize, usize),
    diagonal: *const f64,
    r: *const f64,
    z: *mut f64,
) {
    for i in range.0..range.1 {
        // SAFETY: the caller's promise.
        unsafe {
            let r = r.add(3 * i).cast::<[f64; 3]>().read();
            let scaled = block_product::<FMA>(diagonal.add(9 * i), r);
            z.add(3 * i).cast::<[f64; 3]>().write([scaled[0], scaled[1], scaled[2]]);
        }
    }
}

/// Slices of block rows as a loop sees them. Slice `s` has the places from `starts[s]` to `starts[s + 1]`; a
/// place has a block of each of its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slices {
    /// How many there are.
    pub count: usize,
    /// The first row.
    pub first: usize,
    /// The row behind the last.
    pub end: usize,
    /// Where each slice starts, places.
    pub starts: *const usize,
    /// First component of the column of each block, [`LANES`] a place.
    pub columns: *const u32,
    /// Element by element of a block, [`LANES`] each.
    pub values: *const f64,
}

compiled! {
    /// `y = A x` on slices.
    ///
    /// # Safety
    /// As for [`subtract_into`].
    slices = slices_body(slices: &Slices, x: *const f64, y: *mut f64)
}

#[inline(always)]
unsafe fn slices_body<const FMA: bool>(slices: &Slices, x: *const f64, y: *mut f64) {
    for slice in 0..slices.count {
        let mut sums = [[0.0; LANES]; 3];
        // SAFETY: the caller's promise: the slice and its places are there, and `x` has the columns.
        unsafe {
            for place in *slices.starts.add(slice)..*slices.starts.add(slice + 1) {
                let columns =
                    slices.columns.add(LANES * place).cast::<[u32; LANES]>().read_unaligned();
                let values = slices.values.add(9 * LANES * place).cast::<[f64; LANES]>();
                for c in 0..3 {
                    let x: [f64; LANES] =
                        std::array::from_fn(|lane| *x.add(columns[lane] as usize + c));
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let value = values.add(3 * c + r).read_unaligned();
                        for lane in 0..LANES {
                            sum[lane] = multiply_add::<FMA>(value[lane], x[lane], sum[lane]);
                        }
                    }
                }
            }
            let row = slices.first + slice * LANES;
            for lane in 0..LANES.min(slices.end - row) {
                let y = y.add(3 * (row + lane));
                (0..3).for_each(|r| y.add(r).write(sums[r][lane]));
            }
        }
    }
}
