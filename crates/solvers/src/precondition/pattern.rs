//! Couplings of rows: their roles in the elimination, and the rows that repeat the pattern of the preceding row.
//!
//! A row repeats the pattern of the preceding row if every column is larger by one and has the same role. This holds
//! for most rows of a mesh, so that positions that were found for a row are also valid for the next row. The patterns
//! of successive rows are always compared; they are never assumed to repeat.

use crate::array::{MappedArray, SharedArray};
use crate::context::Threads;
use crate::order::Numbering;
use crate::setup_clock::SetupClock;
use crate::sparse::Blocks;
use nodegauge_measure::Failure;
use std::ops::Range;

/// Role of a coupling in the elimination of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coupling {
    Lower,
    Upper,
    Diagonal,
    LeftOut,
}

/// Role of a coupling, with the colour of the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CouplingRole {
    pub coupling: Coupling,
    /// Colour of the column; 0 if another rank owns the column.
    pub colour: u32,
}

/// Rows of a thread, with the numbering that determines the roles of their couplings.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnRows<'a> {
    pub numbering: &'a Numbering,
    pub start: usize,
    pub end: usize,
}

impl<'a> OwnRows<'a> {
    /// Returns the rows of a thread.
    pub fn from_numbering(numbering: &'a Numbering, thread: usize) -> Self {
        let Range { start, end } = numbering.thread_rows(thread);
        Self { numbering, start, end }
    }

    /// Returns the range of the rows.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Returns the role of the coupling between a row of the thread and `column`.
    #[inline]
    pub fn role(&self, row: usize, column: usize) -> CouplingRole {
        let colours = &self.numbering.colours;
        let Some(colour) = colours.get(column).copied() else {
            return CouplingRole { coupling: Coupling::LeftOut, colour: 0 };
        };
        let own_colour = colours[row];
        let coupling = if row == column {
            Coupling::Diagonal
        } else if colour == own_colour && !self.range().contains(&column) {
            Coupling::LeftOut
        } else if (colour, column) < (own_colour, row) {
            Coupling::Lower
        } else {
            Coupling::Upper
        };
        CouplingRole { coupling, colour }
    }
}

/// Pattern of the factors of all rows of a rank.
#[derive(Debug)]
pub(super) struct FactorPattern {
    /// For each row, 1 if it repeats the pattern of the preceding row, otherwise 0.
    repeats: MappedArray<u8>,
    /// Number of lower couplings of each row.
    pub lower: MappedArray<u32>,
    /// Number of upper couplings of each row.
    pub upper: MappedArray<u32>,
}

impl FactorPattern {
    /// Finds the pattern.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped, or if a thread fails.
    pub fn find(
        threads: &mut impl Threads,
        matrix: &Blocks,
        numbering: &Numbering,
        clock: &mut SetupClock,
    ) -> Result<Self, Failure> {
        let repeats = SharedArray::<u8>::allocate(numbering.owned_count())?;
        let lower = SharedArray::<u32>::allocate(numbering.owned_count())?;
        let upper = SharedArray::<u32>::allocate(numbering.owned_count())?;
        clock.touch_untimed(threads, |context| {
            let own = numbering.thread_rows(context.thread);
            // SAFETY: the rows belong to this thread.
            unsafe {
                repeats.touch(own.clone());
                lower.touch(own.clone());
                upper.touch(own);
            }
        })?;
        threads.run_and_collect(|context| {
            let own = OwnRows::from_numbering(numbering, context.thread);
            // SAFETY: the rows belong to this thread, here and below.
            let repeats = unsafe { repeats.slice_mut(own.range()) };
            // SAFETY: as above.
            let lower = unsafe { lower.slice_mut(own.range()) };
            // SAFETY: as above.
            let upper = unsafe { upper.slice_mut(own.range()) };
            for stage in numbering.stages(context.thread) {
                for row in stage.clone() {
                    let at = row - own.start;
                    if row > stage.start && is_repetition(matrix, &own, stage, row) {
                        repeats[at] = 1;
                        lower[at] = lower[at - 1];
                        upper[at] = upper[at - 1];
                        continue;
                    }
                    for column in matrix.row(row).0 {
                        match own.role(row, *column as usize).coupling {
                            Coupling::Lower => lower[at] += 1,
                            Coupling::Upper => upper[at] += 1,
                            Coupling::Diagonal | Coupling::LeftOut => {}
                        }
                    }
                }
            }
        })?;
        Ok(Self {
            repeats: repeats.into_array(),
            lower: lower.into_array(),
            upper: upper.into_array(),
        })
    }

    /// True if the couplings of a row equal the couplings of the preceding row, shifted by one column, with the
    /// same roles.
    #[inline(always)]
    pub fn is_repetition(&self, row: usize) -> bool {
        self.repeats[row] != 0
    }

    /// Marks all rows as not repeating the pattern of the preceding row.
    #[cfg(test)]
    pub fn forget_repetitions(&mut self) {
        self.repeats.fill(0);
    }
}

/// True if a row repeats the pattern of the preceding row, which belongs to the same stage.
fn is_repetition(matrix: &Blocks, own: &OwnRows<'_>, stage: &Range<usize>, row: usize) -> bool {
    let earlier = matrix.row(row - 1).0;
    let columns = matrix.row(row).0;
    if earlier.len() != columns.len() {
        return false;
    }
    // All columns are compared, so that the compiler can use vector instructions.
    let mut is_shifted = true;
    let mut min = u32::MAX;
    let mut largest = 0;
    for (column, before) in columns.iter().zip(earlier) {
        is_shifted &= *column == before.wrapping_add(1);
        min = min.min(*column);
        largest = largest.max(*column);
    }
    if !is_shifted {
        return false;
    }
    // Within a stage, only the order of row and column determines the role.
    if stage.start < min as usize && (largest as usize) < stage.end {
        return true;
    }
    columns.iter().all(|column| {
        let column = *column as usize;
        own.role(row, column) == own.role(row - 1, column.wrapping_sub(1))
    })
}
