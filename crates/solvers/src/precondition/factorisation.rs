//! Computation of block-IC(0): the elimination of the rows, and the transposition of the lower factor.

use super::pattern::{Coupling, FactorPattern, OwnRows};
use super::{invert_into, position};
use crate::array::{MappedArray, SharedArray};
use crate::code::{LoopCode, compiled};
use crate::context::{ThreadContext, Threads};
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use crate::sparse::{
    BLOCK, Blocks, PaddedBlock, RegisterBlock, SharedBlocks, prefetch_block, transpose,
};
use nodegauge_kernels::isa::InstructionSet;
use nodegauge_measure::Failure;
use nodegauge_os::is_end_requested;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of rows that a thread eliminates before it transposes the completed rows. The blocks that it transposes
/// are then still in a cache.
const ROWS_PER_GROUP: usize = 64;

/// Block-IC(0) during its computation by the threads.
pub(super) struct Factorisation<'a> {
    matrix: &'a Blocks,
    rows: &'a Numbering,
    pattern: FactorPattern,
    /// Inverses of the diagonal blocks, as in [`Preconditioner`](super::Preconditioner).
    inverse: SharedArray<f64>,
    /// Factor below the diagonal.
    lower: SharedBlocks,
    /// Factor above the diagonal.
    upper: SharedBlocks,
    /// Relative increase of the diagonals in the current attempt.
    pub shift: f64,
}

impl<'a> Factorisation<'a> {
    /// Finds the pattern of the factors and maps their memory.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if a thread fails.
    pub fn allocate(
        threads: &mut impl Threads,
        matrix: &'a Blocks,
        rows: &'a Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let pattern = FactorPattern::find(threads, matrix, rows, clock)?;
        let inverse = SharedArray::allocate(BLOCK * rows.owned_count())?;
        clock.touch_untimed(threads, |context| {
            let own = rows.thread_rows(context.thread);
            // SAFETY: the rows belong to this thread.
            unsafe { inverse.touch(BLOCK * own.start..BLOCK * own.end) };
        })?;
        let lower = SharedBlocks::allocate(threads, rows, &pattern.lower, clock)?;
        let upper = SharedBlocks::allocate(threads, rows, &pattern.upper, clock)?;
        Ok(Self { matrix, rows, pattern, inverse, lower, upper, shift: 0.0 })
    }

    /// Factorises with the current shift; returns false if a pivot is not positive.
    ///
    /// # Errors
    /// Fails if a thread fails.
    pub fn try_shift(&mut self, threads: &mut impl Threads) -> Result<bool, Failure> {
        let good = AtomicBool::new(true);
        // SAFETY: `self` is borrowed exclusively, and every thread calls the function once.
        threads.run_and_collect(|context| unsafe { self.factorise(context, &good) })?;
        Ok(good.load(Ordering::Relaxed))
    }

    /// Returns the inverses of the diagonal blocks, and the factors below and above the diagonal.
    pub fn into_factors(self) -> (MappedArray<f64>, [Blocks; 2]) {
        let Self { inverse, lower, upper, .. } = self;
        (inverse.into_array(), [lower.into_blocks(), upper.into_blocks()])
    }

    /// Runs one thread's part of the factorisation. If the user ends the run, some rows are omitted; the caller must
    /// check this.
    ///
    /// # Safety
    /// All threads must call this function, with different contexts. No other code may use `self` during the call.
    unsafe fn factorise(&self, context: &ThreadContext<'_>, good: &AtomicBool) {
        let own = OwnRows::from_numbering(self.rows, context.thread);
        let code = LoopCode::widest(false);
        let mut scratch = RowScratch::new(self.rows.owned_count());
        let mut transposition = Transposition::new(self, own);
        for stage in self.rows.stages(context.thread) {
            let mut first = stage.start;
            while first < stage.end && !is_end_requested() {
                let end = stage.end.min(first + ROWS_PER_GROUP);
                let group = RowGroup { factor: self, own, first, end };
                // SAFETY: the processor supports the instruction set; the rows belong to this thread, and the rows that
                // they need are complete.
                unsafe { eliminate(code, &group, &mut scratch, good) };
                // SAFETY: the rows of this thread before `end` are complete.
                unsafe { transposition.advance(end) };
                first = end;
            }
            context.barrier();
        }
        // SAFETY: all rows are complete.
        unsafe { transposition.finish() };
    }

    /// Returns the inverse of the diagonal block of a row.
    ///
    /// # Safety
    /// The row must have been eliminated.
    #[inline(always)]
    unsafe fn inverse_block(&self, row: usize) -> &[f64; BLOCK] {
        // SAFETY: an eliminated row is not written again.
        let block = unsafe { self.inverse.slice(BLOCK * row..BLOCK * (row + 1)) };
        &block.as_chunks().0[0]
    }
}

/// Consecutive rows of a stage that are eliminated as follows: `W_ij = A_ij - sum of W_ik L_jk^T`, `L_ij = W_ij
/// D_j^-1`, `D_i = A_ii - sum of W_ij L_ij^T`.
pub(super) struct RowGroup<'a> {
    factor: &'a Factorisation<'a>,
    /// Rows of the thread.
    own: OwnRows<'a>,
    first: usize,
    /// Row after the last one.
    end: usize,
}

compiled! {
    /// Eliminates rows; sets `good` to false if a pivot block is not positive definite.
    ///
    /// # Safety
    /// The processor must support the instruction set, and no other thread may use the rows. Rows of lower colours and
    /// the preceding rows of the thread must be complete.
    eliminate = eliminate_body(group: &RowGroup<'_>, scratch: &mut RowScratch, good: &AtomicBool)
}

/// Body of [`eliminate`].
///
/// # Safety
/// The requirements of [`eliminate`] apply.
#[inline(always)]
unsafe fn eliminate_body<S: InstructionSet, const ASK: bool>(
    group: &RowGroup<'_>,
    scratch: &mut RowScratch,
    good: &AtomicBool,
) {
    for row in group.first..group.end {
        // SAFETY: the caller meets the requirements of this function.
        unsafe { eliminate_row::<S>(group, row, scratch, good) };
    }
}

/// Eliminates a row.
///
/// # Safety
/// The requirements of [`eliminate`] apply.
#[inline(always)]
unsafe fn eliminate_row<S: InstructionSet>(
    group: &RowGroup<'_>,
    row: usize,
    scratch: &mut RowScratch,
    good: &AtomicBool,
) {
    let RowGroup { factor, own, .. } = group;
    let Factorisation { matrix, lower, .. } = factor;
    if !scratch.shift_to(&factor.pattern, row) {
        // SAFETY: the caller meets the requirements of this function.
        unsafe { scratch.find(factor, own, row) };
    }
    let RowScratch { coupled, unscaled, common, diagonal, .. } = scratch;
    // The blocks of the next row, most of which are at the same positions, arrive while this row is eliminated.
    if row + 1 < own.end {
        let next = matrix.row(row + 1).1;
        let positions = coupled.iter().map(|each| each.position).chain(*diagonal);
        positions
            .filter_map(|position| next.get(position))
            .for_each(|block| prefetch_block(block.as_ptr()));
    }
    // The rows that the next row is coupled with, but not this row, are likely to be in a far cache.
    for each in coupled.iter().filter(|each| each.is_front) {
        for part in each.common(common) {
            lower.prefetch(each.column as usize + 1, part.index as usize);
        }
    }
    let blocks = matrix.row(row).1;
    let mut pivot = diagonal.map_or([f64::NAN; BLOCK], |position| blocks[position]);
    // The shift increases only the diagonal.
    (0..3).for_each(|at| pivot[4 * at] *= 1.0 + factor.shift);
    // SAFETY: the caller guarantees the instruction set, here and below.
    let mut of_pivot = unsafe { RegisterBlock::<S>::load(&pivot) };
    // SAFETY: the caller guarantees that no other thread uses the row.
    let (slots, values) = unsafe { lower.row_mut(row) };
    for (number, each) in coupled.iter().enumerate() {
        let column = each.column as usize;
        // SAFETY: the caller guarantees that the other row is complete.
        let (_, theirs) = unsafe { lower.row(column) };
        // SAFETY: as above.
        let inverse = unsafe { factor.inverse_block(column) };
        let value = &mut values[number];
        // SAFETY: as above.
        unsafe {
            let mut w = RegisterBlock::<S>::load(&blocks[each.position]);
            for Common { coupling, index } in each.common(common) {
                let mine = &unscaled[*coupling as usize];
                w.subtract_padded_product(mine, &theirs[*index as usize]);
            }
            let mut scaled = RegisterBlock::<S>::zero();
            scaled.add_product(&w, inverse);
            scaled.store(value);
            of_pivot.subtract_product(&w, value);
            w.store_padded(&mut unscaled[number]);
        }
        slots[number] = each.column;
    }
    // SAFETY: as above.
    unsafe { of_pivot.store(&mut pivot) };
    // SAFETY: as above.
    let inverse = unsafe { factor.inverse.slice_mut(BLOCK * row..BLOCK * (row + 1)) };
    invert_into(&pivot, inverse, good);
}

/// Lower coupling of a row, in the order of elimination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LowerCoupling {
    colour: u32,
    column: u32,
    /// Index of the block in the row.
    position: usize,
    /// Start of this coupling's part of [`RowScratch::common`].
    common_start: usize,
    /// End of this part.
    common_end: usize,
    /// True if the current row is not coupled with the row that follows `column`.
    is_front: bool,
}

impl LowerCoupling {
    /// Returns this coupling's part of the common rows of all couplings.
    #[inline(always)]
    fn common<'a>(&self, all: &'a [Common]) -> &'a [Common] {
        &all[self.common_start..self.common_end]
    }
}

/// Row with which both the current row and one of its lower couplings are coupled.
#[derive(Debug, Clone, Copy)]
struct Common {
    /// Number of the current row's coupling with the common row.
    coupling: u32,
    /// Index of the common row's block in the row of the lower coupling.
    index: u32,
}

/// Scratch memory for the elimination of rows. It keeps the couplings of the last eliminated row.
pub(super) struct RowScratch {
    /// Row whose couplings are stored; `None` before the first row.
    row: Option<usize>,
    /// Number of the current row's coupling with each row, counted from 1; 0 if the current row is not coupled with the
    /// row.
    number_of: Vec<u32>,
    /// Lower couplings in the order of elimination.
    coupled: Vec<LowerCoupling>,
    /// Index of the diagonal block in the row; `None` if the row has none.
    diagonal: Option<usize>,
    /// Common rows of each lower coupling.
    common: Vec<Common>,
    /// Block `W` of each coupling.
    unscaled: Vec<PaddedBlock>,
}

impl RowScratch {
    fn new(rows: usize) -> Self {
        Self {
            row: None,
            number_of: vec![0; rows],
            coupled: Vec::new(),
            diagonal: None,
            common: Vec::new(),
            unscaled: Vec::new(),
        }
    }

    /// Shifts the couplings of the last row to `row`. Returns false if this is not possible, because `row` does not
    /// follow the last row, or because `row` or one of its lower couplings does not repeat the pattern of the
    /// preceding row.
    #[inline(always)]
    fn shift_to(&mut self, pattern: &FactorPattern, row: usize) -> bool {
        if !(self.row.is_some_and(|last| last + 1 == row) && pattern.is_repetition(row)) {
            return false;
        }
        let mut is_repetition = true;
        for each in &mut self.coupled {
            each.column += 1;
            is_repetition &= pattern.is_repetition(each.column as usize);
        }
        self.row = is_repetition.then_some(row);
        is_repetition
    }

    /// Finds the couplings of a row.
    ///
    /// # Safety
    /// The lower couplings of the row must have been eliminated.
    unsafe fn find(&mut self, factor: &Factorisation<'_>, own: &OwnRows<'_>, row: usize) {
        let Self { number_of, coupled, diagonal, common, unscaled, .. } = self;
        let columns = factor.matrix.row(row).0;
        *diagonal = position(columns, row as u32);
        coupled.clear();
        for (position, column) in columns.iter().copied().enumerate() {
            let role = own.role(row, column as usize);
            if role.coupling == Coupling::Lower {
                let colour = role.colour;
                coupled.push(LowerCoupling {
                    colour,
                    column,
                    position,
                    common_start: 0,
                    common_end: 0,
                    is_front: false,
                });
            }
        }
        coupled.sort_unstable();
        for (number, each) in coupled.iter().enumerate() {
            number_of[each.column as usize] = number as u32 + 1;
        }
        // Common rows are listed without a branch, which the processor could not predict.
        common.clear();
        for each in coupled.iter_mut() {
            // SAFETY: the caller guarantees that the other row is complete.
            let (others, _) = unsafe { factor.lower.row(each.column as usize) };
            let start = common.len();
            let mut end = start;
            common.resize(start + others.len(), Common { coupling: 0, index: 0 });
            for (index, other) in others.iter().enumerate() {
                let number = number_of[*other as usize];
                common[end] = Common { coupling: number.wrapping_sub(1), index: index as u32 };
                end += usize::from(number > 0);
            }
            common.truncate(end);
            each.common_start = start;
            each.common_end = end;
            let after = each.column as usize + 1;
            each.is_front = after < row && number_of[after] == 0;
        }
        coupled.iter().for_each(|each| number_of[each.column as usize] = 0);
        unscaled.resize(coupled.len(), PaddedBlock::ZERO);
        self.row = Some(row);
    }
}

/// Upper coupling of a row.
#[derive(Debug, Clone, Copy)]
struct UpperCoupling {
    column: u32,
    /// Index of the transposed block in row `column` of the lower factor. The sparsity pattern is symmetric, so
    /// that the block exists; `None` for rows that were omitted because the user ended the run.
    index: Option<usize>,
}

/// Block of the upper factor, and the block of the lower factor from which it is transposed.
struct BlockPair<'a> {
    above: &'a mut [f64; BLOCK],
    below: &'a [f64; BLOCK],
}

/// Transposition of the lower factor into the upper rows of a thread, in ascending order.
struct Transposition<'a> {
    factor: &'a Factorisation<'a>,
    own: OwnRows<'a>,
    /// Next row to transpose.
    next: usize,
    /// Upper couplings of the next row.
    coupled: Vec<UpperCoupling>,
    /// True if the couplings have the same indices as the couplings of the preceding row.
    has_indices: bool,
    /// Row of this thread up to which all rows must be complete before the next row can be transposed; `None` if rows
    /// of other threads must be complete.
    needed: Option<usize>,
    /// Blocks of the last row. They are prefetched while the couplings of the next row are searched.
    pending: Vec<BlockPair<'a>>,
}

impl<'a> Transposition<'a> {
    fn new(factor: &'a Factorisation<'a>, own: OwnRows<'a>) -> Self {
        let mut made = Self {
            factor,
            own,
            next: own.start,
            coupled: Vec::new(),
            has_indices: false,
            needed: None,
            pending: Vec::new(),
        };
        made.find();
        made
    }

    /// Finds the upper couplings of the next row, but not their indices.
    fn find(&mut self) {
        self.coupled.clear();
        self.has_indices = false;
        if self.next == self.own.end {
            return;
        }
        let mut is_own = true;
        let mut needed = 0;
        for column in self.factor.matrix.row(self.next).0 {
            let at = *column as usize;
            if self.own.role(self.next, at).coupling == Coupling::Upper {
                self.coupled.push(UpperCoupling { column: *column, index: None });
                is_own &= self.own.range().contains(&at);
                needed = needed.max(at + 1);
            }
        }
        self.needed = is_own.then_some(needed);
    }

    /// Transposes the next rows, as long as they depend only on rows of this thread before `complete`.
    ///
    /// # Safety
    /// These rows of the lower factor must be complete, and no other code may use the upper rows of the thread.
    unsafe fn advance(&mut self, complete: usize) {
        while self.next < self.own.end && self.needed.is_some_and(|needed| needed <= complete) {
            // SAFETY: the caller meets the requirements of this function.
            unsafe { self.transpose_next() };
        }
    }

    /// Transposes the remaining rows.
    ///
    /// # Safety
    /// All rows of the lower factor must be complete, and no other code may use the upper rows of the thread.
    unsafe fn finish(&mut self) {
        while self.next < self.own.end {
            // SAFETY: the caller meets the requirements of this function.
            unsafe { self.transpose_next() };
        }
        self.pending.drain(..).for_each(|pair| *pair.above = transpose(pair.below));
    }

    /// Transposes the next row.
    ///
    /// # Safety
    /// The rows of the upper couplings must be complete in the lower factor, and no other code may use the upper row.
    unsafe fn transpose_next(&mut self) {
        let Factorisation { pattern, lower, upper, .. } = self.factor;
        let row = self.next;
        let mut is_known = self.has_indices;
        for each in &self.coupled {
            is_known &= pattern.is_repetition(each.column as usize);
        }
        // SAFETY: the row belongs to this thread, and no thread reads upper rows yet.
        let (slots, values) = unsafe { upper.row_mut(row) };
        let earlier = self.pending.len();
        for (each, (slot, above)) in self.coupled.iter_mut().zip(slots.iter_mut().zip(values)) {
            *slot = each.column;
            // SAFETY: the caller guarantees that the lower row is complete.
            let (others, blocks) = unsafe { lower.row(each.column as usize) };
            if !is_known {
                each.index = position(others, row as u32);
            }
            if let Some(index) = each.index {
                let below = &blocks[index];
                prefetch_block(below.as_ptr());
                self.pending.push(BlockPair { above, below });
            }
        }
        self.pending.drain(..earlier).for_each(|pair| *pair.above = transpose(pair.below));
        self.next += 1;
        self.find_next();
    }

    /// Derives the upper couplings of the next row from the upper couplings of the preceding row.
    fn find_next(&mut self) {
        if self.next == self.own.end || !self.factor.pattern.is_repetition(self.next) {
            return self.find();
        }
        self.coupled.iter_mut().for_each(|each| each.column += 1);
        self.has_indices = true;
        self.needed = self.needed.filter(|needed| *needed < self.own.end).map(|needed| needed + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elasticity::element::{Block3x3, invert};
    use crate::elasticity::{Mesh, StretchedBox, Subdomain};
    use crate::order::EliminationOrder;
    use crate::system::{AssembledSystem, System};
    use nodegauge_team::Team;
    use std::collections::HashMap;

    const MESH: Mesh = Mesh { elements: [6, 4, 5] };

    /// Factors of a system, together with the system.
    struct Factorised {
        rows: Numbering,
        matrix: Blocks,
        inverse: MappedArray<f64>,
        factors: [Blocks; 2],
        /// Number of rows that repeat the pattern of the preceding row.
        repetitions: usize,
    }

    /// Factorises the system of [`MESH`]. If `general` is true, no row is treated as a repetition of the preceding
    /// row.
    fn factorised(numbering: Numbering, general: bool) -> Factorised {
        let mut team = Team::start(&vec![Vec::new(); numbering.threads()]).unwrap();
        let mut clock = SetupClock::start();
        let whole = Subdomain::whole_mesh(MESH);
        let made = System::assemble(&mut team, whole, numbering, &StretchedBox, false, &mut clock);
        let AssembledSystem { system: System { rows, .. }, blocks: matrix, .. } = made.unwrap();
        let mut factor = Factorisation::allocate(&mut team, &matrix, &rows, &mut clock).unwrap();
        let repetitions =
            (0..rows.owned_count()).filter(|row| factor.pattern.is_repetition(*row)).count();
        if general {
            factor.pattern.forget_repetitions();
        }
        factor.shift = 0.01;
        assert!(factor.try_shift(&mut team).unwrap());
        let (inverse, factors) = factor.into_factors();
        Factorised { rows, matrix, inverse, factors, repetitions }
    }

    /// Returns the numberings of [`MESH`] in every order, and a shuffled sequence with a single colour.
    fn numberings(threads: usize) -> Vec<Numbering> {
        let whole = Subdomain::whole_mesh(MESH);
        let count = whole.known_point_count();
        let ordered = EliminationOrder::ALL.map(|order| Numbering::new(&whole, order, threads));
        // 89 and the number of nodes have no common divisor.
        let shuffled: Vec<u32> = (0..count).map(|at| (at * 89 % count) as u32).collect();
        let shuffled = Numbering::from_sequence(&whole, &shuffled, &vec![0; count], threads);
        ordered.into_iter().chain([shuffled]).collect()
    }

    fn bits(numbers: &[[f64; BLOCK]]) -> Vec<[u64; BLOCK]> {
        numbers.iter().map(|block| block.map(f64::to_bits)).collect()
    }

    #[test]
    fn reused_row_patterns_give_the_factors_of_a_general_search() {
        for threads in [1, 3] {
            for (fast, general) in numberings(threads).into_iter().zip(numberings(threads)) {
                let [fast, general] = [factorised(fast, false), factorised(general, true)];
                for (mine, other) in fast.factors.iter().zip(&general.factors) {
                    for row in 0..fast.rows.owned_count() {
                        assert_eq!(mine.row(row).0, other.row(row).0);
                        assert_eq!(bits(mine.row(row).1), bits(other.row(row).1));
                    }
                }
                let diagonals = [&fast, &general].map(|each| bits(each.inverse.as_chunks().0));
                assert_eq!(diagonals[0], diagonals[1]);
            }
        }
    }

    #[test]
    fn most_rows_repeat_pattern_unless_shuffled() {
        let repetitions: Vec<usize> =
            numberings(1).into_iter().map(|rows| factorised(rows, false).repetitions).collect();
        let nodes = MESH.point_count();
        assert!(repetitions[0] > nodes / 2, "{repetitions:?}");
        assert!(repetitions[EliminationOrder::ALL.len()] < nodes / 4, "{repetitions:?}");
    }

    /// Returns a block of the matrix or of a factor, row by row.
    fn by_rows(block: &[f64; BLOCK]) -> Block3x3 {
        std::array::from_fn(|row| std::array::from_fn(|column| block[3 * column + row]))
    }

    /// Adds `a d b^T` to `sum`.
    fn add(sum: &mut Block3x3, a: &Block3x3, d: &Block3x3, b: &Block3x3) {
        for (i, row) in sum.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                for k in 0..3 {
                    for l in 0..3 {
                        *entry += a[i][k] * d[k][l] * b[j][l];
                    }
                }
            }
        }
    }

    /// Tests that, on the sparsity pattern of the matrix, the product of the factors equals the matrix.
    #[test]
    fn product_of_factors_equals_matrix() {
        const UNIT: Block3x3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        for threads in [1, 3] {
            for rows in numberings(threads) {
                let Factorised { rows, matrix, inverse, factors: [lower, upper], .. } =
                    factorised(rows, false);
                let below: Vec<HashMap<u32, Block3x3>> = (0..rows.owned_count())
                    .map(|row| {
                        let (columns, blocks) = lower.row(row);
                        let mut of_row: HashMap<u32, Block3x3> =
                            columns.iter().copied().zip(blocks.iter().map(by_rows)).collect();
                        of_row.insert(row as u32, UNIT);
                        of_row
                    })
                    .collect();
                let diagonal: Vec<Block3x3> =
                    inverse.as_chunks().0.iter().map(|block| invert(&by_rows(block)).0).collect();
                let mut checked = 0;
                for thread in 0..threads {
                    let own = OwnRows::from_numbering(&rows, thread);
                    for row in own.range() {
                        let (columns, blocks) = matrix.row(row);
                        for (column, block) in columns.iter().zip(blocks) {
                            let coupling = own.role(row, *column as usize).coupling;
                            if !matches!(coupling, Coupling::Lower | Coupling::Diagonal) {
                                continue;
                            }
                            let mut product = [[0.0; 3]; 3];
                            for (common, mine) in &below[row] {
                                if let Some(other) = below[*column as usize].get(common) {
                                    add(&mut product, mine, &diagonal[*common as usize], other);
                                }
                            }
                            let mut expected = by_rows(block);
                            if coupling == Coupling::Diagonal {
                                (0..3).for_each(|at| expected[at][at] *= 1.01);
                            }
                            for (sum, entry) in
                                product.iter().flatten().zip(expected.iter().flatten())
                            {
                                assert!(
                                    (sum - entry).abs() < 1e-12,
                                    "{row} {column}: {sum} {entry}"
                                );
                            }
                            checked += 1;
                        }
                        let above = upper.row(row);
                        let is_upper = |column: &&u32| {
                            own.role(row, **column as usize).coupling == Coupling::Upper
                        };
                        let expected: Vec<u32> = columns.iter().filter(is_upper).copied().collect();
                        assert_eq!(above.0, expected);
                        for (column, block) in above.0.iter().zip(above.1) {
                            let (others, transposed) = lower.row(*column as usize);
                            let at = others.iter().position(|other| *other == row as u32).unwrap();
                            assert_eq!(*block, transpose(&transposed[at]));
                        }
                    }
                }
                assert_eq!(checked, lower.count() + rows.owned_count());
            }
        }
    }
}
