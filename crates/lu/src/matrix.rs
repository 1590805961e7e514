//! The matrix and the right-hand side, stored column-major in one memory mapping, on huge pages if available.

use crate::distribution::ColumnDistribution;
use nodegauge_measure::{Bytes, Failure, Fraction};
use nodegauge_os::{Mapping, PageSize};
use nodegauge_toolchain::blas::ProductOperands;
use std::ops::Range;

/// Matrix of n rows and n + 1 columns; the last column is the right-hand side. Each page is on the NUMA node of the
/// thread that first writes to it.
#[derive(Debug)]
pub struct Matrix {
    mapping: Mapping,
    order: usize,
    distance: usize,
    distribution: ColumnDistribution,
}

/// Minimum size of a huge page, bytes.
const HUGE: u64 = 2 << 20;

/// Returns the distance between columns for matrices of this order, in elements: an odd number of 64-byte cache
/// lines, so that neighbouring elements of a row are in different sets of each cache.
pub fn column_distance(order: usize) -> usize {
    let lines = order.div_ceil(8).max(1);
    8 * if lines.is_multiple_of(2) { lines + 1 } else { lines }
}

/// Returns the size of a matrix of this order, including the right-hand side.
pub fn bytes(order: usize) -> Bytes {
    Bytes((column_distance(order) * (order + 1) * 8) as u64)
}

impl Matrix {
    /// Maps memory for a matrix of this order.
    ///
    /// # Errors
    /// Fails if the kernel refuses the mapping.
    pub fn allocate(order: usize) -> Result<Self, Failure> {
        let wanted = bytes(order);
        // The caller has compared the size with the available memory.
        let mapping =
            Mapping::anonymous(wanted.0 as usize, PageSize::PreferHuge).map_err(|error| {
                let cause = std::io::Error::from(error);
                Failure::missing(format!("cannot map {wanted} of memory for the matrix"))
                    .cause(cause)
                    .hint("use a smaller --order")
            })?;
        Ok(Self {
            mapping,
            order,
            distance: column_distance(order),
            distribution: ColumnDistribution::single_numa_node(),
        })
    }

    /// Returns the matrix with a distribution of its columns over NUMA nodes. The threads of a NUMA node first
    /// touch and later update its columns.
    pub fn with_distribution(self, distribution: ColumnDistribution) -> Self {
        Self { distribution, ..self }
    }

    /// Returns the distribution of the columns.
    pub fn distribution(&self) -> &ColumnDistribution {
        &self.distribution
    }

    /// Returns the number of rows, which is the number of columns without the right-hand side.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Returns the distance between neighbouring columns, in elements.
    pub fn distance(&self) -> usize {
        self.distance
    }

    /// Returns a view for threads that work on parts of the matrix. The caller must ensure that these parts are
    /// disjoint.
    pub(crate) fn view(&self) -> MatrixView {
        let a = self.mapping.at(0, bytes(self.order).0 as usize).cast().as_ptr();
        MatrixView { a, ld: self.distance, n: self.order }
    }

    /// Returns column `j`; the right-hand side is column `order`.
    ///
    /// # Panics
    /// Panics if `j` is beyond the last column.
    pub fn column(&mut self, j: usize) -> &mut [f64] {
        assert!(j <= self.order, "column {j} of {}", self.order);
        // SAFETY: the column lies in the mapping, and all of `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.view().at(0, j), self.order) }
    }

    /// Returns the share of the resident matrix that is on huge pages, 0 to 1; `None` if the kernel does not report
    /// it.
    pub fn huge_page_share(&self) -> Option<Fraction> {
        let got = self.mapping.page_size_shares().ok()?;
        let huge = got.range(HUGE..).map(|(_, share)| Fraction(*share)).sum();
        (!got.is_empty()).then_some(huge)
    }
}

/// View of the matrix, for threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixView {
    a: *mut f64,
    /// Distance between neighbouring columns, in elements.
    pub ld: usize,
    /// Order of the matrix.
    pub n: usize,
}

// SAFETY: the pointer refers to shared memory; every use explains why no other thread uses that part of the memory.
unsafe impl Send for MatrixView {}
// SAFETY: as above.
unsafe impl Sync for MatrixView {}

impl MatrixView {
    pub(crate) fn at(&self, i: usize, j: usize) -> *mut f64 {
        self.a.wrapping_add(j * self.ld + i)
    }

    /// Returns the operands of the product `C -= A B`. C is in `rows` and `columns`; B is above C, in the rows
    /// `depth`; A is left of C, in the columns `depth`.
    pub(crate) fn product(
        &self,
        rows: &Range<usize>,
        depth: &Range<usize>,
        columns: &Range<usize>,
    ) -> ProductOperands {
        ProductOperands {
            size: (rows.len(), columns.len(), depth.len()),
            a: (self.at(rows.start, depth.start), self.ld),
            b: (self.at(depth.start, columns.start), self.ld),
            c: (self.at(rows.start, columns.start), self.ld),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_distance_is_odd_number_of_lines() {
        for order in [1, 7, 8, 9, 64, 1000, 8000, 8192, 16384] {
            let distance = column_distance(order);
            assert!(
                distance >= order
                    && distance.is_multiple_of(8)
                    && !(distance / 8).is_multiple_of(2)
            );
            assert!(distance <= order + 16);
        }
    }

    #[test]
    fn matrix_elements_do_not_overlap() {
        let mut matrix = Matrix::allocate(33).unwrap();
        for j in 0..=33 {
            matrix.column(j).iter_mut().enumerate().for_each(|(i, x)| *x = (i * 100 + j) as f64);
        }
        for j in 0..=33 {
            assert!(matrix.column(j).iter().enumerate().all(|(i, x)| *x == (i * 100 + j) as f64));
        }
    }
}
