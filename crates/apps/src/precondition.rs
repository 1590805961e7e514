//! Preconditioners of block rows: the inverse of the diagonal blocks, or an incomplete factorisation `(I + L) D (I +
//! L^T)` without fill-in (block-IC(0): J. A. Meijerink, H. A. van der Vorst, Math. Comp. 31, 1977; O. Axelsson,
//! Iterative Solution Methods, 1994, chapter 7).
//!
//! A row is eliminated after all rows of lower colours and, within a colour, after the preceding rows of the same
//! thread. Rows of the same colour on different threads may still be coupled, e.g. if there is only one colour. These
//! couplings are ignored; the method is then additive Schwarz without overlap.

use crate::array::{Array, SharedArray};
use crate::code::{Code, compiled};
use crate::context::{ThreadContext, Threads};
use crate::elasticity::element::invert;
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use crate::sparse::{self, BLOCK, Blocks, PaddedBlock, SharedBlocks, transpose};
use crate::system::{ROWS_UNCHECKED, check_end_request};
use nodegauge_kernels::isa::InstructionSet;
use nodegauge_measure::Failure;
use nodegauge_os::is_end_requested;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Initial relative increase (shift) of the diagonals if a pivot is not positive, and factor for further increases (T.
/// A. Manteuffel, Math. Comp. 34, 1980).
const SHIFT: (f64, f64) = (0.01, 2.0);
/// Maximum relative increase of the diagonals; the matrix is then diagonally dominant.
const MOST_SHIFT: f64 = 100.0;

/// Role of a coupling in the elimination of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coupling {
    Lower,
    Upper,
    Diagonal,
    LeftOut,
}

/// Returns the role of the coupling between `row` and `column`; `own` are the rows of the thread that eliminates `row`.
fn coupling(numbering: &Numbering, own: &Range<usize>, row: usize, column: usize) -> Coupling {
    if row == column {
        return Coupling::Diagonal;
    }
    let Some(other) = numbering.colours.get(column) else { return Coupling::LeftOut };
    let mine = numbering.colours[row];
    if *other == mine && !own.contains(&column) {
        return Coupling::LeftOut;
    }
    if (*other, column) < (mine, row) { Coupling::Lower } else { Coupling::Upper }
}

/// Preconditioner of the rows of a rank.
#[derive(Debug)]
pub(crate) struct Preconditioner {
    /// Inverse of the diagonal blocks, [`BLOCK`] numbers per row.
    inverse: Array<f64>,
    /// Factors below and above the diagonal; `None` for the diagonal preconditioner.
    factor: Option<[Blocks; 2]>,
    /// Relative increase of the diagonals with which every pivot is positive.
    pub shift: f64,
}

impl Preconditioner {
    /// Creates the diagonal preconditioner: the inverse of the diagonal blocks.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if a block is not positive definite.
    pub fn diagonal(
        threads: &mut impl Threads,
        matrix: &Blocks,
        rows: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let inverse = SharedArray::<f64>::map(BLOCK * rows.owned())?;
        clock.provide(threads, |context| {
            let own = rows.of_thread(context.thread);
            // SAFETY: the rows belong to this thread.
            unsafe { inverse.touch(BLOCK * own.start..BLOCK * own.end) };
        })?;
        let good = AtomicBool::new(true);
        threads.map(|context| {
            for row in rows.of_thread(context.thread) {
                let block = diagonal_of(matrix, row);
                // SAFETY: the row belongs to this thread.
                let own = unsafe { inverse.part_mut(BLOCK * row..BLOCK * (row + 1)) };
                invert_into(&block, own, &good);
            }
        })?;
        if !good.load(Ordering::Relaxed) {
            return Err(not_definite());
        }
        Ok(Self { inverse: inverse.into_array(), factor: None, shift: 0.0 })
    }

    /// Computes block-IC(0) in the order of the colours.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if no shift of the diagonal gives positive pivots.
    pub fn incomplete(
        threads: &mut impl Threads,
        matrix: &Blocks,
        rows: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let lengths = threads.map(|context| {
            let own = rows.of_thread(context.thread);
            let both = |row: usize| {
                let mut counts = [0, 0];
                for column in matrix.row(row).0 {
                    match coupling(rows, &own, row, *column as usize) {
                        Coupling::Lower => counts[0] += 1,
                        Coupling::Upper => counts[1] += 1,
                        Coupling::Diagonal | Coupling::LeftOut => {}
                    }
                }
                counts
            };
            own.clone().map(both).collect::<Vec<[usize; 2]>>()
        })?;
        let lengths = lengths.concat();
        let mut factor = Factorisation {
            matrix,
            rows,
            inverse: SharedArray::map(BLOCK * rows.owned())?,
            lower: SharedBlocks::map(lengths.iter().map(|both| both[0]))?,
            upper: SharedBlocks::map(lengths.iter().map(|both| both[1]))?,
            shift: 0.0,
        };
        clock.provide(threads, |context| {
            let own = rows.of_thread(context.thread);
            // SAFETY: the rows belong to this thread.
            unsafe {
                factor.inverse.touch(BLOCK * own.start..BLOCK * own.end);
                factor.lower.touch(&own);
                factor.upper.touch(&own);
            }
        })?;
        while !factor.try_shift(threads)? {
            check_end_request()?;
            factor.shift = SHIFT.0.max(factor.shift * SHIFT.1);
            if factor.shift > MOST_SHIFT {
                return Err(not_definite());
            }
        }
        let Factorisation { inverse, lower, upper, shift, .. } = factor;
        let factors = Some([lower.into_blocks(), upper.into_blocks()]);
        Ok(Self { inverse: inverse.into_array(), factor: factors, shift })
    }

    /// Computes `z = M^-1 r` on the rows of a thread; all threads must call this function together. The result is
    /// complete after a barrier.
    ///
    /// # Safety
    /// `r` and `z` must have all rows of the rank, and no other code may use them.
    pub unsafe fn apply(
        &self,
        context: &ThreadContext<'_>,
        code: Code,
        rows: &Numbering,
        r: *const f64,
        z: *mut f64,
    ) {
        let diagonal = self.inverse.at(0);
        let Some([lower, upper]) = &self.factor else {
            let own = rows.of_thread(context.thread);
            // SAFETY: the rows belong to this thread; the processor supports its widest instruction set.
            return unsafe { sparse::scale(code, (own.start, own.end), diagonal, r, z) };
        };
        let stages = rows.stages(context.thread);
        for (number, stage) in stages.iter().enumerate() {
            if number > 0 {
                context.barrier();
            }
            // SAFETY: a lower row refers to rows of lower colours, which are complete after the barrier, and to
            // preceding rows of its own thread.
            unsafe { sparse::forward(code, &lower.rows(stage), r, z) };
        }
        for (number, stage) in stages.iter().enumerate().rev() {
            // SAFETY: the corresponding condition holds for upper rows; rows of the last colour refer to no rows of
            // other threads.
            unsafe { sparse::backward(code, &upper.rows(stage), diagonal, z) };
            if number > 0 {
                context.barrier();
            }
        }
    }

    /// Returns the number of bytes that one application of the preconditioner moves for the rows of a thread, including
    /// vectors.
    pub fn bytes(&self, rows: &Range<usize>) -> usize {
        let factor = self.factor.iter().flatten().map(|part| part.bytes_of(rows)).sum::<usize>();
        // The forward substitution reads r and writes z; the backward substitution reads and writes z.
        let vectors = if self.factor.is_some() { 4 } else { 2 };
        factor + rows.len() * 8 * (BLOCK + 3 * vectors)
    }

    /// Returns the number of operations of one application of the preconditioner for the rows of a thread.
    pub fn flops(&self, rows: &Range<usize>) -> usize {
        let blocks: usize = self.factor.iter().flatten().map(|part| part.count_of(rows)).sum();
        blocks * 2 * BLOCK + rows.len() * 15
    }
}

/// Block-IC(0) while the threads compute it.
struct Factorisation<'a> {
    matrix: &'a Blocks,
    rows: &'a Numbering,
    /// Inverse of the diagonal blocks, as in [`Preconditioner`].
    inverse: SharedArray<f64>,
    /// Factor below the diagonal.
    lower: SharedBlocks,
    /// Factor above the diagonal.
    upper: SharedBlocks,
    /// Relative increase of the diagonals.
    shift: f64,
}

impl Factorisation<'_> {
    /// Factorises with the current shift; returns false if a pivot is not positive.
    ///
    /// # Errors
    /// Fails if a thread fails.
    fn try_shift(&mut self, threads: &mut impl Threads) -> Result<bool, Failure> {
        let good = AtomicBool::new(true);
        // SAFETY: `self` is borrowed exclusively, and every thread calls the function once.
        threads.map(|context| unsafe { self.factorise(context, &good) })?;
        Ok(good.load(Ordering::Relaxed))
    }

    /// Runs the part of one thread in the factorisation. If the user ends the run, some rows are left out; the caller
    /// must check this.
    ///
    /// # Safety
    /// All threads must call this function, with different contexts. No other code may use `self` during the call.
    unsafe fn factorise(&self, context: &ThreadContext<'_>, good: &AtomicBool) {
        let Self { matrix, rows, lower, upper, .. } = self;
        let own = rows.of_thread(context.thread);
        let (mut scratch, code) = (RowScratch::new(rows.owned()), Code::widest(false));
        for stage in rows.stages(context.thread) {
            for row in stage.clone() {
                if row.is_multiple_of(ROWS_UNCHECKED) && is_end_requested() {
                    break;
                }
                let at = Elimination { factor: self, own: &own, row };
                // SAFETY: the processor supports the instruction set; the row belongs to this thread, and the rows that
                // it needs are complete.
                unsafe { eliminate(code, &at, &mut scratch, good) };
            }
            context.barrier();
        }
        let mut found: Vec<(&mut [f64; BLOCK], &[f64; BLOCK])> = Vec::new();
        for row in own.clone() {
            if row.is_multiple_of(ROWS_UNCHECKED) && is_end_requested() {
                break;
            }
            // SAFETY: the row belongs to this thread, and no thread reads upper rows yet.
            let (columns, values) = unsafe { upper.row_mut(row) };
            let is_above =
                |column: &&u32| coupling(rows, &own, row, **column as usize) == Coupling::Upper;
            let above = matrix.row(row).0.iter().filter(is_above);
            let earlier = found.len();
            for (column, (slot, value)) in above.zip(columns.iter_mut().zip(values)) {
                *slot = *column;
                // SAFETY: lower rows are complete.
                let (others, blocks) = unsafe { lower.row(*column as usize) };
                // The sparsity pattern is symmetric, so the transposed block exists.
                if let Some(at) = position(others, row as u32) {
                    prefetch_block(&blocks[at]);
                    found.push((value, &blocks[at]));
                }
            }
            // The blocks of this row arrive while those of the row before are transposed.
            found.drain(..earlier).for_each(|(value, block)| *value = transpose(block));
        }
        found.into_iter().for_each(|(value, block)| *value = transpose(block));
    }

    /// Returns the inverse of the diagonal block of a row.
    ///
    /// # Safety
    /// The row must have been eliminated.
    #[inline(always)]
    unsafe fn inverse_of(&self, row: usize) -> [f64; BLOCK] {
        // SAFETY: an eliminated row is not written again.
        let block = unsafe { self.inverse.part(BLOCK * row..BLOCK * (row + 1)) };
        block.as_chunks().0[0]
    }
}

/// Row during the elimination: `W_ij = A_ij - sum of W_ik L_jk^T`, `L_ij = W_ij D_j^-1`, `D_i = A_ii - sum of W_ij
/// L_ij^T`.
pub(crate) struct Elimination<'a> {
    factor: &'a Factorisation<'a>,
    /// Rows of the thread.
    own: &'a Range<usize>,
    row: usize,
}

compiled! {
    /// Eliminates a row; clears `good` if the pivot block is not positive definite.
    ///
    /// # Safety
    /// The processor must support the instruction set, and no other thread may write the row. Rows of lower colours and
    /// the preceding rows of the thread must be complete.
    eliminate = eliminate_body(at: &Elimination<'_>, scratch: &mut RowScratch, good: &AtomicBool)
}

#[inline(always)]
unsafe fn eliminate_body<S: InstructionSet, const ASK: bool>(
    at: &Elimination<'_>,
    scratch: &mut RowScratch,
    good: &AtomicBool,
) {
    let Elimination { factor, own, row } = *at;
    let Factorisation { matrix, rows, lower, .. } = factor;
    let (columns, blocks) = matrix.row(row);
    // The blocks of the next row, most of which are in the same order, arrive while this row is eliminated.
    if own.contains(&(row + 1)) {
        let next = matrix.row(row + 1).1;
        scratch.order.iter().filter_map(|position| next.get(*position)).for_each(prefetch_block);
    }
    scratch.find_lower(columns, |column| {
        let role = coupling(rows, own, row, column);
        (role, rows.colours.get(column).copied().unwrap_or_default())
    });
    let RowScratch { place, coupled, unscaled, common, ends, .. } = scratch;
    let mut pivot = PaddedBlock::of(&diagonal_of(matrix, row));
    unscaled.clear();
    ends.clear();
    for (number, LowerCoupling { column, .. }) in coupled.iter().enumerate() {
        place[*column as usize] = number as u8 + 1;
    }
    // The shift increases only the diagonal.
    pivot.scale_diagonal(1.0 + factor.shift);
    // SAFETY: the caller meets the requirements of this function.
    let (slots, values) = unsafe { lower.row_mut(row) };
    // First the rows that the current row and its lower couplings have in common are listed without a branch, which the
    // processor could not predict, and their blocks are prefetched, because few of them are in a near cache.
    common.clear();
    for LowerCoupling { column, .. } in coupled.iter() {
        // SAFETY: the caller guarantees that the other row is complete.
        let (others, theirs) = unsafe { lower.row(*column as usize) };
        let start = common.len();
        common.resize(start + others.len(), (0, 0));
        let mut end = start;
        for (index, other) in others.iter().enumerate() {
            let of_row = place[*other as usize];
            common[end] = (of_row, index as u32);
            end += usize::from(of_row > 0);
        }
        common.truncate(end);
        common[start..].iter().for_each(|(_, index)| prefetch_block(&theirs[*index as usize]));
        ends.push(end);
    }
    let mut from = 0;
    for (number, LowerCoupling { column, position: slot, .. }) in coupled.iter().enumerate() {
        let mut w = PaddedBlock::of(&blocks[*slot]);
        // SAFETY: as above.
        let (_, theirs) = unsafe { lower.row(*column as usize) };
        for (of_row, index) in &common[from..ends[number]] {
            let mine = &unscaled[usize::from(*of_row) - 1];
            w.add_product::<S>(-1.0, mine, &theirs[*index as usize]);
        }
        from = ends[number];
        // SAFETY: as above.
        let inverse = unsafe { factor.inverse_of(*column as usize) };
        let mut scaled = PaddedBlock::ZERO;
        scaled.add_product::<S>(1.0, &w, &inverse);
        let scaled = scaled.block();
        pivot.add_product::<S>(-1.0, &w, &scaled);
        slots[number] = *column;
        values[number] = scaled;
        unscaled.push(w);
    }
    coupled.iter().for_each(|each| place[each.column as usize] = 0);
    // SAFETY: as above.
    let inverse = unsafe { factor.inverse.part_mut(BLOCK * row..BLOCK * (row + 1)) };
    invert_into(&pivot.block(), inverse, good);
}

/// Lower coupling of a row, ordered by elimination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LowerCoupling {
    colour: u32,
    column: u32,
    /// Index of the block in the row.
    position: usize,
}

/// Scratch memory for the elimination of a row.
pub(crate) struct RowScratch {
    /// For every row: position of the coupling with the current row among the couplings of the current row, from 1; 0
    /// if the rows are not coupled.
    place: Vec<u8>,
    /// Lower couplings in the order of elimination.
    coupled: Vec<LowerCoupling>,
    /// Positions of all blocks of the last row: first the lower couplings in the order of elimination, then the others.
    order: Vec<usize>,
    /// Block `W` of every coupling.
    unscaled: Vec<PaddedBlock>,
    /// Rows that the current row and one of its lower couplings are coupled with: position in the current row, from 1,
    /// and index in the row of the coupling.
    common: Vec<(u8, u32)>,
    /// End of the part of each lower coupling in `common`.
    ends: Vec<usize>,
}

impl RowScratch {
    fn new(rows: usize) -> Self {
        Self {
            place: vec![0; rows],
            coupled: Vec::new(),
            order: Vec::new(),
            unscaled: Vec::new(),
            common: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Finds the lower couplings of a row and their order of elimination. `role_of` returns the role and the colour of
    /// a column. Most rows have the order of the row before, which is therefore tried first.
    #[inline(always)]
    fn find_lower(&mut self, columns: &[u32], role_of: impl Fn(usize) -> (Coupling, u32)) {
        let Self { coupled, order, .. } = self;
        if order.len() != columns.len() {
            order.clear();
            order.extend(0..columns.len());
        }
        coupled.clear();
        for position in order.iter().copied() {
            let column = columns[position];
            let (role, colour) = role_of(column as usize);
            if role == Coupling::Lower {
                coupled.push(LowerCoupling { colour, column, position });
            }
        }
        if !coupled.is_sorted() {
            coupled.sort_unstable();
            let is_other = |position: &usize| coupled.iter().all(|each| each.position != *position);
            let others: Vec<usize> = (0..columns.len()).filter(is_other).collect();
            order.clear();
            order.extend(coupled.iter().map(|each| each.position));
            order.extend(others);
        }
    }
}

/// Prefetches the cache lines of a block.
#[inline(always)]
fn prefetch_block(block: &[f64; BLOCK]) {
    nodegauge_kernels::prefetch::<false>(block.as_ptr().cast());
    nodegauge_kernels::prefetch::<false>(block[BLOCK - 1..].as_ptr().cast());
}

/// Returns the index of a column. All columns are compared, because the processor could not predict an earlier end.
#[inline(always)]
fn position(columns: &[u32], wanted: u32) -> Option<usize> {
    let mut at = None;
    for (index, column) in columns.iter().enumerate() {
        if *column == wanted {
            at = Some(index);
        }
    }
    at
}

/// Returns the diagonal block of a row.
fn diagonal_of(matrix: &Blocks, row: usize) -> [f64; BLOCK] {
    let (columns, blocks) = matrix.row(row);
    position(columns, row as u32).map_or([f64::NAN; BLOCK], |at| blocks[at])
}

/// Inverts a symmetric block; clears `good` if the block is not positive definite.
fn invert_into(block: &[f64; BLOCK], inverse: &mut [f64], good: &AtomicBool) {
    let rows = std::array::from_fn(|row| std::array::from_fn(|column| block[3 * column + row]));
    let (inverted, determinant) = invert(&rows);
    let minor = block[0] * block[4] - block[1] * block[3];
    if !(block[0] > 0.0 && minor > 0.0 && determinant > 0.0 && determinant.is_finite()) {
        good.store(false, Ordering::Relaxed);
    }
    for (at, value) in inverse.iter_mut().enumerate() {
        *value = inverted[at % 3][at / 3];
    }
}

fn not_definite() -> Failure {
    Failure::unmet("the matrix has no incomplete factorisation: it is not positive definite")
}
