//! Loops over blocks: products and substitutions.

use crate::code::{compiled, prefetch_ahead};
use nodegauge_kernels::isa::{InstructionSet, multiply_add};

/// Number of block rows of a slice: the number of lanes of the widest vectors.
pub(crate) const LANES: usize = 8;

/// Number of independent rows or slices that are processed side by side. Hardware prefetchers follow the stream of each
/// of them.
const SIDE_BY_SIDE: usize = 2;

/// Block rows in the form that the loops use. Row `i` has the blocks from `starts[i]` to `starts[i + 1]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// First row, and the row after the last one.
    pub range: (usize, usize),
    /// Start of each row.
    pub starts: *const usize,
    /// Column index of every block.
    pub columns: *const u32,
    /// Elements of the blocks.
    pub values: *const f64,
}

/// Returns the product of row `i` and `x`. If `BACKWARD` is true, rows and their blocks are visited backwards. The
/// addresses thus always rise or always fall, which hardware prefetchers can follow, and the block that needs the
/// previously solved row comes last in the sum. Lane 3 is undefined.
///
/// # Safety
/// The requirements of [`product`] apply.
#[inline(always)]
unsafe fn row_product<S: InstructionSet, const ASK: bool, const BACKWARD: bool>(
    rows: &Rows,
    i: usize,
    x: *const f64,
) -> [f64; 4] {
    // Three partial sums are used, so that additions do not wait for each other.
    let mut sums = [[0.0; 4]; 3];
    // SAFETY: the row and its blocks exist, four numbers can be read from the start of each column of a block, and `x`
    // has the columns of the row.
    unsafe {
        let first = *rows.starts.add(i);
        let end = *rows.starts.add(i + 1);
        for step in 0..end - first {
            let block = if BACKWARD { end - 1 - step } else { first + step };
            let x = x.add(3 * *rows.columns.add(block) as usize);
            let values = rows.values.add(9 * block);
            // A block is longer than a cache line, so two lines are prefetched.
            prefetch_ahead::<ASK, BACKWARD>(values);
            prefetch_ahead::<ASK, BACKWARD>(values.add(8));
            for c in 0..3 {
                let column = values.add(3 * c).cast::<[f64; 4]>().read_unaligned();
                let factor = *x.add(c);
                for lane in 0..4 {
                    sums[c][lane] = multiply_add::<S>(column[lane], factor, sums[c][lane]);
                }
            }
        }
    }
    std::array::from_fn(|lane| (sums[0][lane] + sums[1][lane]) + sums[2][lane])
}

/// Returns the product of a diagonal block and three components; lane 3 is undefined.
///
/// # Safety
/// The processor must support the instruction set. `block` must have nine readable numbers and one after these.
#[inline(always)]
unsafe fn block_product<S: InstructionSet>(block: *const f64, x: [f64; 3]) -> [f64; 4] {
    let mut sum = [0.0; 4];
    for (c, factor) in x.into_iter().enumerate() {
        // SAFETY: the caller guarantees that the block and one number after it can be read.
        let column = unsafe { block.add(3 * c).cast::<[f64; 4]>().read_unaligned() };
        for lane in 0..4 {
            sum[lane] = multiply_add::<S>(column[lane], factor, sum[lane]);
        }
    }
    sum
}

compiled! {
    /// Computes `y = A x`.
    ///
    /// # Safety
    /// The processor must support the instruction set. The rows must exist, with one readable number after the last
    /// block. `x` must have all columns of the rows, and `y` the rows. No other thread may use these rows of `y` or
    /// write `x`.
    product = product_body(rows: &Rows, x: *const f64, y: *mut f64)
}

/// Body of [`product`].
///
/// # Safety
/// The requirements of [`product`] apply.
#[inline(always)]
unsafe fn product_body<S: InstructionSet, const ASK: bool>(
    rows: &Rows,
    x: *const f64,
    y: *mut f64,
) {
    let (first, end) = rows.range;
    let each = (end - first) / SIDE_BY_SIDE;
    let write = |i: usize| {
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            let product = row_product::<S, ASK, false>(rows, i, x);
            (0..3).for_each(|lane| y.add(3 * i + lane).write(product[lane]));
        }
    };
    for i in first..first + each {
        for part in 0..SIDE_BY_SIDE {
            write(i + part * each);
        }
    }
    (first + SIDE_BY_SIDE * each..end).for_each(write);
}

compiled! {
    /// Runs a forward substitution on unit lower rows: `z_i = r_i - sum of L_ij z_j`.
    ///
    /// # Safety
    /// The requirements of [`product`] apply; the columns of a row refer to preceding rows, or to rows of other
    /// threads that no longer change.
    forward = forward_body(rows: &Rows, r: *const f64, z: *mut f64)
}

/// Body of [`forward`].
///
/// # Safety
/// The requirements of [`forward`] apply.
#[inline(always)]
unsafe fn forward_body<S: InstructionSet, const ASK: bool>(
    rows: &Rows,
    r: *const f64,
    z: *mut f64,
) {
    for i in rows.range.0..rows.range.1 {
        // SAFETY: guaranteed by the caller: values of `z` are written before they are read.
        unsafe {
            let product = row_product::<S, ASK, false>(rows, i, z);
            let r = r.add(3 * i).cast::<[f64; 3]>().read();
            z.add(3 * i)
                .cast::<[f64; 3]>()
                .write(std::array::from_fn(|lane| r[lane] - product[lane]));
        }
    }
}

compiled! {
    /// Runs a backward substitution on unit upper rows, from the last row to the first: `z_i = D_i z_i - sum of U_ij
    /// z_j`, with `D` as 3 x 3 numbers per row.
    ///
    /// # Safety
    /// The requirements of [`forward`] apply, with following rows instead of preceding rows. `diagonal` must have
    /// the rows and one number after them.
    backward = backward_body(rows: &Rows, diagonal: *const f64, z: *mut f64)
}

/// Body of [`backward`].
///
/// # Safety
/// The requirements of [`backward`] apply.
#[inline(always)]
unsafe fn backward_body<S: InstructionSet, const ASK: bool>(
    rows: &Rows,
    diagonal: *const f64,
    z: *mut f64,
) {
    for i in (rows.range.0..rows.range.1).rev() {
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            let own = z.add(3 * i).cast::<[f64; 3]>();
            let scaled = block_product::<S>(diagonal.add(9 * i), own.read());
            let product = row_product::<S, ASK, true>(rows, i, z);
            own.write(std::array::from_fn(|lane| scaled[lane] - product[lane]));
        }
    }
}

compiled! {
    /// Computes `z = D r` on the rows from `first` to `end`, with `D` as 3 x 3 numbers per row.
    ///
    /// # Safety
    /// The processor must support the instruction set. `diagonal` (with one number after it), `r` and `z` must have the
    /// rows. No other thread may use these rows of `z`.
    scale = scale_body(range: (usize, usize), diagonal: *const f64, r: *const f64, z: *mut f64)
}

/// Body of [`scale`].
///
/// # Safety
/// The requirements of [`scale`] apply.
#[inline(always)]
unsafe fn scale_body<S: InstructionSet, const ASK: bool>(
    range: (usize, usize),
    diagonal: *const f64,
    r: *const f64,
    z: *mut f64,
) {
    for i in range.0..range.1 {
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            let r = r.add(3 * i).cast::<[f64; 3]>().read();
            let scaled = block_product::<S>(diagonal.add(9 * i), r);
            z.add(3 * i).cast::<[f64; 3]>().write([scaled[0], scaled[1], scaled[2]]);
        }
    }
}

/// Slices of block rows, in the form that the loops use. Slice `s` has the columns of blocks from `starts[s]` to
/// `starts[s + 1]`. A column of blocks contains one block of each row of the slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slices {
    /// Number of slices.
    pub count: usize,
    /// First row of the slices.
    pub first: usize,
    /// Row after the last one.
    pub end: usize,
    /// First column of blocks of every slice.
    pub starts: *const usize,
    /// Index of the first vector component by which a block is multiplied; [`LANES`] indices per column of blocks.
    pub columns: *const u32,
    /// Elements of the blocks. The same element of the [`LANES`] blocks of a column is stored consecutively.
    pub values: *const f64,
}

compiled! {
    /// Computes `y = A x` on slices.
    ///
    /// # Safety
    /// The requirements of [`product`] apply.
    slices = slices_body(slices: &Slices, x: *const f64, y: *mut f64)
}

/// Body of [`slices`].
///
/// # Safety
/// The requirements of [`slices`] apply.
#[inline(always)]
unsafe fn slices_body<S: InstructionSet, const ASK: bool>(
    slices: &Slices,
    x: *const f64,
    y: *mut f64,
) {
    // The slices of the thread are divided into parts with the same number of slices; the remaining slices are
    // processed one by one.
    let each = slices.count / SIDE_BY_SIDE;
    // SAFETY: the caller meets the requirements of this function.
    unsafe {
        for slice in 0..each {
            let these = std::array::from_fn(|part| part * each + slice);
            slice_group_product::<S, ASK, SIDE_BY_SIDE>(slices, these, x, y);
        }
        for slice in SIDE_BY_SIDE * each..slices.count {
            slice_group_product::<S, ASK, 1>(slices, [slice], x, y);
        }
    }
}

/// Computes the products of several slices side by side, one column of blocks after another.
///
/// # Safety
/// The requirements of [`slices`] apply, and `these` must be slices of the thread.
#[inline(always)]
unsafe fn slice_group_product<S: InstructionSet, const ASK: bool, const N: usize>(
    slices: &Slices,
    these: [usize; N],
    x: *const f64,
    y: *mut f64,
) {
    let mut sums = [[[0.0; LANES]; 3]; N];
    // SAFETY: the caller guarantees that the slices and their blocks exist and that `x` has the columns.
    unsafe {
        let places = these.map(|slice| (*slices.starts.add(slice), *slices.starts.add(slice + 1)));
        let shortest = places.iter().fold(usize::MAX, |min, (first, end)| min.min(end - first));
        for step in 0..shortest {
            for part in 0..N {
                add_block_column::<S, ASK>(slices, places[part].0 + step, x, &mut sums[part]);
            }
        }
        for part in 0..N {
            for place in places[part].0 + shortest..places[part].1 {
                add_block_column::<S, ASK>(slices, place, x, &mut sums[part]);
            }
            let row = slices.first + these[part] * LANES;
            for lane in 0..LANES.min(slices.end - row) {
                let y = y.add(3 * (row + lane));
                (0..3).for_each(|r| y.add(r).write(sums[part][r][lane]));
            }
        }
    }
}

/// Adds to `sums` the products of the blocks in one column of blocks and x; `place` is the index of the column.
///
/// # Safety
/// The requirements of [`slices`] apply, and the column must belong to one of the slices.
#[inline(always)]
unsafe fn add_block_column<S: InstructionSet, const ASK: bool>(
    slices: &Slices,
    place: usize,
    x: *const f64,
    sums: &mut [[f64; LANES]; 3],
) {
    // SAFETY: as above.
    unsafe {
        let columns = slices.columns.add(LANES * place).cast::<[u32; LANES]>().read_unaligned();
        let values = slices.values.add(9 * LANES * place).cast::<[f64; LANES]>();
        for c in 0..3 {
            let x: [f64; LANES] = std::array::from_fn(|lane| *x.add(columns[lane] as usize + c));
            for (r, sum) in sums.iter_mut().enumerate() {
                let value = values.add(3 * c + r);
                prefetch_ahead::<ASK, false>(value.cast());
                let value = value.read_unaligned();
                for lane in 0..LANES {
                    sum[lane] = multiply_add::<S>(value[lane], x[lane], sum[lane]);
                }
            }
        }
    }
}
