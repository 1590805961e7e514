//! Preconditioners of block rows: the inverse of the diagonal blocks, or an incomplete factorisation `(I + L) D (I +
//! L^T)` without fill-in (block-IC(0): J. A. Meijerink, H. A. van der Vorst, Math. Comp. 31, 1977; O. Axelsson,
//! Iterative Solution Methods, 1994, chapter 7).
//!
//! A row is eliminated after all rows of lower colours and, within a colour, after the preceding rows of the same
//! thread. Rows of the same colour on different threads may still be coupled, e.g. if there is only one colour.
//! Such couplings are ignored; the method is then additive Schwarz without overlap.

mod factorisation;
mod pattern;

use crate::array::{MappedArray, SharedArray};
use crate::code::LoopCode;
use crate::context::{ThreadContext, Threads};
use crate::elasticity::element::invert;
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use crate::sparse::{self, BLOCK, Blocks};
use crate::system::check_end_request;
use factorisation::Factorisation;
use nodegauge_measure::Failure;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Relative increase (shift) of the diagonals in the first attempt after a pivot that is not positive, and factor by
/// which the shift grows in further attempts (T. A. Manteuffel, Math. Comp. 34, 1980).
const SHIFT: (f64, f64) = (0.01, 2.0);
/// Maximum shift. With this shift, the matrix is diagonally dominant.
const MAX_SHIFT: f64 = 100.0;

/// Preconditioner of the rows of a rank.
#[derive(Debug)]
pub(crate) struct Preconditioner {
    /// Inverses of the diagonal blocks, [`BLOCK`] numbers per row.
    inverse: MappedArray<f64>,
    /// Factors below and above the diagonal; `None` for the diagonal preconditioner.
    factor: Option<[Blocks; 2]>,
    /// Shift of the diagonals with which all pivots are positive.
    pub shift: f64,
}

impl Preconditioner {
    /// Creates the diagonal preconditioner: the inverses of the diagonal blocks.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if a block is not positive definite.
    pub fn diagonal(
        threads: &mut impl Threads,
        matrix: &Blocks,
        rows: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let inverse = SharedArray::<f64>::allocate(BLOCK * rows.owned_count())?;
        clock.touch_untimed(threads, |context| {
            let own = rows.thread_rows(context.thread);
            // SAFETY: the rows belong to this thread.
            unsafe { inverse.touch(BLOCK * own.start..BLOCK * own.end) };
        })?;
        let good = AtomicBool::new(true);
        threads.run_and_collect(|context| {
            for row in rows.thread_rows(context.thread) {
                let block = diagonal_block(matrix, row);
                // SAFETY: the row belongs to this thread.
                let own = unsafe { inverse.slice_mut(BLOCK * row..BLOCK * (row + 1)) };
                invert_into(&block, own, &good);
            }
        })?;
        if !good.load(Ordering::Relaxed) {
            return Err(not_definite());
        }
        Ok(Self { inverse: inverse.into_array(), factor: None, shift: 0.0 })
    }

    /// Computes block-IC(0), with elimination in the order of the colours.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if no shift of the diagonal gives positive pivots.
    pub fn incomplete_factorisation(
        threads: &mut impl Threads,
        matrix: &Blocks,
        rows: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let mut factor = Factorisation::allocate(threads, matrix, rows, clock)?;
        while !factor.try_shift(threads)? {
            check_end_request()?;
            factor.shift = SHIFT.0.max(factor.shift * SHIFT.1);
            if factor.shift > MAX_SHIFT {
                return Err(not_definite());
            }
        }
        let shift = factor.shift;
        let (inverse, factors) = factor.into_factors();
        Ok(Self { inverse, factor: Some(factors), shift })
    }

    /// Computes `z = M^-1 r` on the rows of a thread. All threads must call this method together; the result is
    /// complete after the next barrier.
    ///
    /// # Safety
    /// `r` and `z` must have all rows of the rank, and no other code may use them.
    pub unsafe fn apply(
        &self,
        context: &ThreadContext<'_>,
        code: LoopCode,
        rows: &Numbering,
        r: *const f64,
        z: *mut f64,
    ) {
        let diagonal = self.inverse.at(0);
        let Some([lower, upper]) = &self.factor else {
            let own = rows.thread_rows(context.thread);
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

    /// Returns the bytes that one application of the preconditioner moves for the rows of a thread, including
    /// vectors.
    pub fn bytes(&self, rows: &Range<usize>) -> usize {
        let factor =
            self.factor.iter().flatten().map(|part| part.product_bytes(rows)).sum::<usize>();
        // The forward substitution reads r and writes z; the backward substitution reads and writes z.
        let vectors = if self.factor.is_some() { 4 } else { 2 };
        factor + rows.len() * 8 * (BLOCK + 3 * vectors)
    }

    /// Returns the number of operations of one application of the preconditioner for the rows of a thread.
    pub fn flops(&self, rows: &Range<usize>) -> usize {
        let blocks: usize = self.factor.iter().flatten().map(|part| part.block_count(rows)).sum();
        blocks * 2 * BLOCK + rows.len() * 15
    }
}

/// Inverts a symmetric block; sets `good` to false if the block is not positive definite.
#[inline(always)]
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

/// Returns the index of the column `wanted`. All columns are compared, because the processor could not predict an early
/// exit from the loop.
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
fn diagonal_block(matrix: &Blocks, row: usize) -> [f64; BLOCK] {
    let (columns, blocks) = matrix.row(row);
    position(columns, row as u32).map_or([f64::NAN; BLOCK], |at| blocks[at])
}

fn not_definite() -> Failure {
    Failure::unmet("the matrix has no incomplete factorisation: it is not positive definite")
}
