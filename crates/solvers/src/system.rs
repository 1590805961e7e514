//! Linear system of a rank: the matrix in one of the storage formats, and the right-hand side. Each thread creates the
//! rows that it uses.

use crate::array::{MappedArray, SharedArray, share_range};
use crate::code::LoopCode;
use crate::context::Threads;
use crate::elasticity::{Assembler, PointKinds, Problem, RowMaker, Subdomain};
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use crate::sparse::{
    BlockRow, Blocks, EmptySlices, LANES, MatrixFormat, SharedBlocks, SlicedRows, stream_blocks,
};
use nodegauge_kernels::fence_nontemporal_stores;
use nodegauge_measure::Failure;
use nodegauge_os::is_end_requested;

/// Matrix in one of the storage formats.
#[derive(Debug)]
pub(crate) enum Matrix {
    Bcsr(Blocks),
    /// Sliced ELL, with separate slices for every thread.
    Sell(Vec<SlicedRows>),
}

impl Matrix {
    /// Returns the storage format.
    pub fn storage(&self) -> MatrixFormat {
        match self {
            Self::Bcsr(_) => MatrixFormat::Bcsr,
            Self::Sell(_) => MatrixFormat::Sell,
        }
    }

    /// Converts `blocks` to slices; each thread converts its own rows.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if the user ends the run.
    pub fn sliced(
        threads: &mut impl Threads,
        blocks: &Blocks,
        rows: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let parts = empty_slices(threads, rows, |row| blocks.row(row).0.len(), clock)?;
        threads.run_and_collect(|context| {
            let part = &parts[context.thread];
            let code = LoopCode::widest(false);
            for slice in 0..part.count() {
                if slice.is_multiple_of(SLICES_UNCHECKED) && is_end_requested() {
                    return;
                }
                let mut of_lanes = [BlockRow::default(); LANES];
                for (of_lane, row) in of_lanes.iter_mut().zip(part.slice_rows(slice)) {
                    let (columns, blocks) = blocks.row(row);
                    *of_lane = BlockRow { columns, blocks };
                }
                // SAFETY: each thread uses its own slices only.
                unsafe { part.fill(code, slice, &of_lanes) };
            }
            fence_nontemporal_stores();
        })?;
        check_end_request()?;
        Ok(Self::from_slices(parts))
    }

    /// Returns the matrix that consists of these slices, which must be filled.
    fn from_slices(parts: Vec<EmptySlices>) -> Self {
        Self::Sell(parts.into_iter().map(EmptySlices::into_sliced).collect())
    }

    /// Computes `y = A x` on the rows of a thread.
    ///
    /// # Safety
    /// `x` must have all columns, and no thread may write it. `y` must have the rows, and no other thread may use the
    /// rows of this thread.
    pub unsafe fn multiply(
        &self,
        rows: &Numbering,
        thread: usize,
        code: LoopCode,
        x: *const f64,
        y: *mut f64,
    ) {
        // SAFETY: all columns are rows of the numbering; the caller guarantees the remaining requirements.
        unsafe {
            match self {
                Self::Bcsr(blocks) => blocks.multiply(code, &rows.thread_rows(thread), x, y),
                Self::Sell(parts) => parts[thread].multiply(code, x, y),
            }
        }
    }

    /// Returns the number of bytes that a product moves: the matrix, x (counted once), and y.
    pub fn product_bytes(&self, rows: &Numbering) -> usize {
        let stored: usize = (0..rows.threads())
            .map(|thread| match self {
                Self::Bcsr(blocks) => blocks.product_bytes(&rows.thread_rows(thread)),
                Self::Sell(parts) => parts[thread].bytes(),
            })
            .sum();
        stored + 8 * 3 * (rows.nodes.len() + rows.owned_count())
    }
}

/// Linear system of a rank.
#[derive(Debug)]
pub(crate) struct System {
    pub subdomain: Subdomain,
    pub rows: Numbering,
    /// Right-hand side, three numbers per mesh point; the memory is first touched by the thread that owns the row.
    pub rhs: MappedArray<f64>,
    /// Number of blocks without padding.
    pub blocks: usize,
}

/// Number of slices whose rows a thread assembles between two checks whether the run must end; assembling them takes
/// milliseconds.
const SLICES_UNCHECKED: usize = 512;

/// Returns an error if the user requested the end of the run.
///
/// # Errors
/// Fails if the run must end.
pub(crate) fn check_end_request() -> Result<(), Failure> {
    if is_end_requested() { Err(Failure::missing("interrupted")) } else { Ok(()) }
}

/// Maps the memory of the slices of all threads.
///
/// # Errors
/// Fails if memory cannot be mapped, or if a thread fails.
fn empty_slices(
    threads: &mut impl Threads,
    rows: &Numbering,
    length_of: impl Fn(usize) -> usize,
    clock: &mut SetupClock,
) -> Result<Vec<EmptySlices>, Failure> {
    let parts = (0..rows.threads())
        .map(|thread| EmptySlices::allocate(rows.thread_rows(thread), &length_of));
    let parts = parts.collect::<Result<Vec<_>, Failure>>()?;
    // SAFETY: each thread uses its own slices only.
    clock.touch_untimed(threads, |context| unsafe { parts[context.thread].touch() })?;
    Ok(parts)
}

/// Assembled system and its matrix.
pub(crate) struct AssembledSystem {
    pub system: System,
    pub blocks: Blocks,
    /// Matrix in sliced ELL, if requested.
    pub sliced: Option<Matrix>,
}

impl System {
    /// Fills the matrix and the right-hand side. If `is_sliced` is true, also fills the matrix in sliced ELL.
    ///
    /// # Errors
    /// Fails if the elements are degenerate, or if memory cannot be mapped.
    pub fn assemble(
        threads: &mut impl Threads,
        subdomain: Subdomain,
        rows: Numbering,
        problem: &dyn Problem,
        is_sliced: bool,
        clock: &mut SetupClock,
    ) -> Result<AssembledSystem, Failure> {
        let assembler = Assembler::new(&subdomain, problem).map_err(Failure::usage)?;
        let kinds = SharedArray::<u8>::allocate(subdomain.known_point_count())?;
        let lengths = SharedArray::<u32>::allocate(rows.owned_count())?;
        let rhs = SharedArray::<f64>::allocate(3 * rows.owned_count())?;
        let count = threads.count();
        clock.touch_untimed(threads, |context| {
            let own = rows.thread_rows(context.thread);
            // SAFETY: the rows and the share of the nodes belong to this thread.
            unsafe {
                kinds.touch(share_range(kinds.len(), context.thread, count));
                lengths.touch(own.clone());
                rhs.touch(3 * own.start..3 * own.end);
            }
        })?;
        let all_kinds = PointKinds::default();
        threads.run_and_collect(|context| {
            let nodes = share_range(kinds.len(), context.thread, count);
            // SAFETY: each thread has its own part.
            let own_kinds = unsafe { kinds.slice_mut(nodes.clone()) };
            assembler.classify(&all_kinds, nodes, own_kinds);
            let own = rows.thread_rows(context.thread);
            // SAFETY: the rows belong to this thread.
            let own_lengths = unsafe { lengths.slice_mut(own.clone()) };
            for (length, local) in own_lengths.iter_mut().zip(&rows.nodes[own]) {
                *length = subdomain.neighbour_count(subdomain.node(*local as usize)) as u32;
            }
        })?;
        check_end_request()?;
        let kinds = kinds.into_array();
        let lengths = lengths.into_array();
        let blocks = SharedBlocks::allocate(threads, &rows, &lengths, clock)?;
        let parts = if is_sliced {
            Some(empty_slices(threads, &rows, |row| lengths[row] as usize, clock)?)
        } else {
            None
        };
        threads.run_and_collect(|context| {
            let mut maker = RowMaker::new(&assembler, &kinds);
            let mut numbers = Vec::with_capacity(LANES);
            let code = LoopCode::widest(false);
            let own = rows.thread_rows(context.thread);
            for (slice, first) in own.clone().step_by(LANES).enumerate() {
                if slice.is_multiple_of(SLICES_UNCHECKED) && is_end_requested() {
                    return;
                }
                let of_slice = first..own.end.min(first + LANES);
                numbers.clear();
                maker.remove_single();
                for row in of_slice.clone() {
                    let local = rows.nodes[row] as usize;
                    let number = maker.make(local);
                    numbers.push(number);
                    let made = maker.row(number);
                    // SAFETY: the row belongs to this thread, here and below.
                    let (columns, values) = unsafe { blocks.row_mut(row) };
                    stream_blocks(code, values, &made.blocks);
                    for (column, offset) in columns.iter_mut().zip(&made.offsets) {
                        *column = rows.rows[local.wrapping_add_signed(*offset)];
                    }
                    // SAFETY: as above.
                    unsafe { rhs.slice_mut(3 * row..3 * row + 3) }.copy_from_slice(&made.rhs);
                }
                if let Some(parts) = &parts {
                    let mut of_lanes = [BlockRow::default(); LANES];
                    for ((of_lane, row), number) in of_lanes.iter_mut().zip(of_slice).zip(&numbers)
                    {
                        // SAFETY: as above.
                        let (columns, _) = unsafe { blocks.row(row) };
                        *of_lane = BlockRow { columns, blocks: &maker.row(*number).blocks };
                    }
                    // SAFETY: each thread uses its own slices only.
                    unsafe { parts[context.thread].fill(code, slice, &of_lanes) };
                }
            }
            fence_nontemporal_stores();
        })?;
        check_end_request()?;
        let blocks = blocks.into_blocks();
        let rhs = rhs.into_array();
        let sliced = parts.map(Matrix::from_slices);
        let system = Self { subdomain, rows, rhs, blocks: blocks.count() };
        Ok(AssembledSystem { system, blocks, sliced })
    }

    /// Returns the largest difference between `x` and the exact displacements, divided by the largest displacement.
    pub fn relative_error(&self, x: &[f64], problem: &dyn Problem) -> f64 {
        let mut worst = 0.0_f64;
        let mut largest = 0.0_f64;
        for (row, local) in self.rows.nodes[..self.rows.owned_count()].iter().enumerate() {
            let mesh = self.subdomain.mesh;
            let at = mesh.point(self.subdomain.node(*local as usize));
            let displacement = problem.exact(at, mesh.far_corner());
            for (component, exact) in x[3 * row..].iter().zip(displacement) {
                let error = (component - exact).abs();
                // NaN counts as the largest error.
                worst = if error <= worst { worst } else { error };
                largest = largest.max(exact.abs());
            }
        }
        worst / largest
    }
}
