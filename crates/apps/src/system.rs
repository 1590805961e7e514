//! Linear system of a rank: the matrix in one of the storage formats, and the right-hand side. The threads that use the
//! rows create them.

use crate::array::{Array, SharedArray, share};
use crate::code::Code;
use crate::context::Threads;
use crate::elasticity::{Assembler, Problem, Subdomain, by_columns};
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use crate::sparse::{Blocks, EmptySlices, SharedBlocks, Sliced, Storage};
use nodegauge_measure::Failure;
use nodegauge_os::is_end_requested;

/// Matrix in one of the storage formats.
#[derive(Debug)]
pub(crate) enum Matrix {
    Bcsr(Blocks),
    /// Sliced ELL, with separate slices for every thread.
    Sell(Vec<Sliced>),
}

impl Matrix {
    /// Returns the storage format.
    pub fn storage(&self) -> Storage {
        match self {
            Self::Bcsr(_) => Storage::Bcsr,
            Self::Sell(_) => Storage::Sell,
        }
    }

    /// Returns the slices of `blocks`, created by the threads that own them.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn sliced(
        threads: &mut impl Threads,
        blocks: &Blocks,
        rows: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let parts =
            (0..rows.threads()).map(|thread| EmptySlices::map(blocks, rows.of_thread(thread)));
        let parts = parts.collect::<Result<Vec<_>, Failure>>()?;
        // SAFETY: each thread uses its own slices only.
        clock.provide(threads, |context| unsafe { parts[context.thread].touch() })?;
        // SAFETY: as above.
        threads.map(|context| unsafe { parts[context.thread].fill(blocks) })?;
        Ok(Self::Sell(parts.into_iter().map(EmptySlices::into_sliced).collect()))
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
        code: Code,
        x: *const f64,
        y: *mut f64,
    ) {
        // SAFETY: all columns are rows of the numbering; the caller guarantees the remaining requirements.
        unsafe {
            match self {
                Self::Bcsr(blocks) => blocks.multiply(code, &rows.of_thread(thread), x, y),
                Self::Sell(parts) => parts[thread].multiply(code, x, y),
            }
        }
    }

    /// Returns the number of bytes that a product moves: the matrix, x (counted once), and y.
    pub fn product_bytes(&self, rows: &Numbering) -> usize {
        let stored: usize = (0..rows.threads())
            .map(|thread| match self {
                Self::Bcsr(blocks) => blocks.bytes_of(&rows.of_thread(thread)),
                Self::Sell(parts) => parts[thread].bytes(),
            })
            .sum();
        stored + 8 * 3 * (rows.nodes.len() + rows.owned())
    }
}

/// Linear system of a rank.
#[derive(Debug)]
pub(crate) struct System {
    pub subdomain: Subdomain,
    pub rows: Numbering,
    /// Right-hand side, three numbers per row; the memory is first touched by the thread that owns the row.
    pub rhs: Array<f64>,
    /// Number of blocks without padding.
    pub blocks: usize,
}

/// Number of rows that a thread assembles or eliminates between two checks if the user ends the run; they take
/// milliseconds.
pub(crate) const ROWS_UNCHECKED: usize = 4096;

/// Returns an error if the user requested the end of the run.
///
/// # Errors
/// Fails if the run is to end.
pub(crate) fn check_end_request() -> Result<(), Failure> {
    if is_end_requested() { Err(Failure::missing("interrupted")) } else { Ok(()) }
}

impl System {
    /// Numbers the rows and fills the matrix and the right-hand side.
    ///
    /// # Errors
    /// Fails if the elements are degenerate, or if memory cannot be mapped.
    pub fn assemble(
        threads: &mut impl Threads,
        subdomain: Subdomain,
        rows: Numbering,
        problem: &dyn Problem,
        clock: &mut SetupClock,
    ) -> Result<(Self, Blocks), Failure> {
        let assembler = Assembler::new(&subdomain, problem).map_err(Failure::usage)?;
        let owned = &rows.nodes[..rows.owned()];
        let neighbours = |local: &u32| subdomain.neighbour_count(subdomain.node(*local as usize));
        let blocks = SharedBlocks::map(owned.iter().map(neighbours))?;
        let prescribed = SharedArray::<u8>::map(subdomain.known_nodes())?;
        let rhs = SharedArray::<f64>::map(3 * rows.owned())?;
        clock.provide(threads, |context| {
            let own = rows.of_thread(context.thread);
            // SAFETY: the rows belong to this thread.
            unsafe {
                blocks.touch(&own);
                rhs.touch(3 * own.start..3 * own.end);
            }
        })?;
        let count = threads.count();
        threads.map(|context| {
            let own = share(prescribed.len(), context.thread, count);
            // SAFETY: each thread has its own part.
            let flags = unsafe { prescribed.part_mut(own.clone()) };
            for (flag, local) in flags.iter_mut().zip(own) {
                *flag = u8::from(assembler.is_prescribed(local));
            }
        })?;
        let prescribed = prescribed.into_array();
        threads.map(|context| {
            for row in rows.of_thread(context.thread) {
                if row.is_multiple_of(ROWS_UNCHECKED) && is_end_requested() {
                    return;
                }
                let node = subdomain.node(rows.nodes[row] as usize);
                // SAFETY: the row belongs to this thread.
                let (columns, values) = unsafe { blocks.row_mut(row) };
                if let Some((of_row, lines)) = assembler.usual_row(node, &prescribed) {
                    values.copy_from_slice(of_row);
                    for (three, first) in columns.as_chunks_mut::<3>().0.iter_mut().zip(lines) {
                        three.copy_from_slice(&rows.rows[first..first + 3]);
                    }
                    continue;
                }
                let made = assembler.row(node);
                let places = columns.iter_mut().zip(values);
                for ((place, other), (column, value)) in subdomain.neighbours(node).zip(places) {
                    *column = rows.rows[subdomain.local(other)];
                    *value = by_columns(&made.blocks[place]);
                }
                // SAFETY: as above.
                unsafe { rhs.part_mut(3 * row..3 * row + 3) }.copy_from_slice(&made.rhs);
            }
        })?;
        check_end_request()?;
        let blocks = blocks.into_blocks();
        let rhs = rhs.into_array();
        Ok((Self { subdomain, rows, rhs, blocks: blocks.count() }, blocks))
    }

    /// Returns the largest difference between `x` and the exact displacements, divided by the largest displacement.
    pub fn error(&self, x: &[f64], problem: &dyn Problem) -> f64 {
        let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
        for (row, local) in self.rows.nodes[..self.rows.owned()].iter().enumerate() {
            let mesh = self.subdomain.mesh;
            let at = mesh.point(self.subdomain.node(*local as usize));
            for (component, exact) in x[3 * row..].iter().zip(problem.exact(at, mesh.far())) {
                let error = (component - exact).abs();
                // NaN counts as the largest error.
                worst = if error <= worst { worst } else { error };
                largest = largest.max(exact.abs());
            }
        }
        worst / largest
    }
}
