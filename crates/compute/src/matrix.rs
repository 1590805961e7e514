//! The matrix with its right-hand side behind: one mapping, by columns, on huge pages where there
//! are any.

use crate::homes::Homes;
use nodegauge_measure::{Bytes, Failure};
use nodegauge_os::{Mapping, PageSize};
use nodegauge_toolchain::blas::Product;
use std::ops::Range;

/// An n by (n + 1) matrix; nothing is touched before it is written.
#[derive(Debug)]
pub struct Matrix {
    mapping: Mapping,
    order: usize,
    distance: usize,
    homes: Homes,
}

/// Pages from this size on are huge, bytes.
const HUGE: u64 = 2 << 20;

/// Distance of columns for matrices of this order, elements: whole lines of 64 B, an odd number of
/// them, so that neighbours in a row fall into different sets of every cache.
pub fn column_distance(order: usize) -> usize {
    let lines = order.div_ceil(8).max(1);
    8 * if lines.is_multiple_of(2) { lines + 1 } else { lines }
}

/// Memory that the matrix of this order takes with its right-hand side.
pub fn bytes(order: usize) -> Bytes {
    Bytes((column_distance(order) * (order + 1) * 8) as u64)
}

impl Matrix {
    /// Maps memory for an order.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map(order: usize) -> Result<Self, Failure> {
        let wanted = bytes(order);
        // The size was held against the memory that can be had.
        let mapping =
            Mapping::anonymous(wanted.0 as usize, PageSize::PreferHuge).map_err(|error| {
                let cause = std::io::Error::from(error);
                Failure::missing(format!("cannot map {wanted} of memory for the matrix"))
                    .cause(cause)
                    .hint("use a smaller --order")
            })?;
        Ok(Self { mapping, order, distance: column_distance(order), homes: Homes::one() })
    }

    /// The same with columns that lie on NUMA nodes: filling touches them there first, and the
    /// factorisation updates them there.
    pub fn at(self, homes: Homes) -> Self {
        Self { homes, ..self }
    }

    /// Which node has which columns.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Rows, and columns without the right-hand side.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Distance of columns, elements.
    pub fn distance(&self) -> usize {
        self.distance
    }

    /// The matrix for threads that share it by parts that do not overlap, which is up to the caller.
    pub(crate) fn view(&self) -> MatrixView {
        let a = self.mapping.at(0, bytes(self.order).0 as usize).cast().as_ptr();
        MatrixView { a, ld: self.distance, n: self.order }
    }

    /// Column `j`; the right-hand side is column `order`.
    ///
    /// # Panics
    /// Beyond the last column.
    pub fn column(&mut self, j: usize) -> &mut [f64] {
        assert!(j <= self.order, "column {j} of {}", self.order);
        // SAFETY: the column lies in the mapping, and `self` is borrowed whole.
        unsafe { std::slice::from_raw_parts_mut(self.view().at(0, j), self.order) }
    }

    /// The share of the resident matrix that lies on huge pages, 0 to 1; `None` when the kernel
    /// does not say.
    pub fn on_huge_pages(&self) -> Option<f64> {
        let got = self.mapping.pages_got().ok()?;
        let huge = got.range(HUGE..).map(|(_, share)| share).sum();
        (!got.is_empty()).then_some(huge)
    }
}

/// The matrix as the threads see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatrixView {
    a: *mut f64,
    /// Distance of columns.
    pub ld: usize,
    /// Order.
    pub n: usize,
}

// SAFETY: a pointer to shared memory; every use of it says why no other thread uses that part.
unsafe impl Send for MatrixView {}
// SAFETY: as above.
unsafe impl Sync for MatrixView {}

impl MatrixView {
    pub(crate) fn at(&self, i: usize, j: usize) -> *mut f64 {
        self.a.wrapping_add(j * self.ld + i)
    }

    /// `C -= A B` for the elements C in `rows` and `columns`: B is above them in rows `depth`, A left of
    /// them in columns `depth`.
    pub(crate) fn product(
        &self,
        rows: &Range<usize>,
        depth: &Range<usize>,
        columns: &Range<usize>,
    ) -> Product {
        Product {
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
    fn columns_lie_apart_by_an_odd_number_of_lines() {
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
    fn every_element_is_its_own() {
        let mut matrix = Matrix::map(33).unwrap();
        for j in 0..=33 {
            matrix.column(j).iter_mut().enumerate().for_each(|(i, x)| *x = (i * 100 + j) as f64);
        }
        for j in 0..=33 {
            assert!(matrix.column(j).iter().enumerate().all(|(i, x)| *x == (i * 100 + j) as f64));
        }
    }
}
