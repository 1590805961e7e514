//! Matrix products and triangular solves on one thread, by a BLAS library of the site or by the built-in
//! kernels.

use crate::leaf;
use nodegauge_kernels::Isa;
use nodegauge_toolchain::blas::{BlasLibrary, Columns, ColumnsMut, Product};
use std::fmt;

/// Order up to which plain loops do a triangular solve.
const PLAIN_SOLVE: usize = 24;
/// Columns of A up to which [`leaf::update`] is faster than a library, which first copies its operands.
const FEW_COLUMNS: usize = 48;
/// Order from which the library's triangular solve is used.
const LIBRARY_SOLVE: usize = 64;

/// A source of products.
#[derive(Debug)]
pub enum Multiplier {
    /// A loaded library.
    Library(BlasLibrary),
    /// The `gemm` crate's kernels.
    BuiltIn,
}

impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(library) => library.about().fmt(f),
            Self::BuiltIn => f.write_str("built-in (gemm crate)"),
        }
    }
}

/// Products and triangular solves on the calling thread.
#[derive(Debug)]
pub(crate) struct GemmEngine<'a> {
    multiplier: &'a Multiplier,
    /// Instruction set of the loops in [`leaf`]; this processor supports it.
    pub isa: Isa,
}

impl<'a> GemmEngine<'a> {
    pub(crate) fn new(multiplier: &'a Multiplier) -> Self {
        Self { multiplier, isa: Isa::detected() }
    }

    /// Keeps the library's work on the calling thread; every thread that multiplies calls this once.
    pub(crate) fn settle(&self) {
        if let Multiplier::Library(library) = self.multiplier {
            library.stay_on_this_thread();
        }
    }

    /// `C -= A B`.
    ///
    /// # Safety
    /// The requirements are those of [`BlasLibrary::update`].
    pub(crate) unsafe fn update(&self, job: Product) {
        let Product { size: (m, n, k), a: (a, lda), b: (b, ldb), c: (c, ldc) } = job;
        if m == 0 || n == 0 || k == 0 {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.multiplier {
                _ if k <= FEW_COLUMNS && n <= 2 * FEW_COLUMNS => leaf::update(self.isa, job),
                Multiplier::Library(library) => library.update(job),
                Multiplier::BuiltIn => {
                    let ldc = ldc as isize;
                    let lda = lda as isize;
                    let ldb = ldb as isize;
                    let alone = gemm_common::Parallelism::None;
                    // The distance of columns of C is never smaller than that of rows, so no transposition is
                    // needed.
                    gemm_f64::gemm::f64::get_gemm_fn()(
                        m, n, k, c, ldc, 1, true, a, lda, 1, b, ldb, 1, 1.0, -1.0, false, false,
                        false, alone,
                    );
                }
            }
        }
    }

    /// Solves L X = B in place of B: L of order `m`, unit lower triangular, B of `n` columns.
    ///
    /// # Safety
    /// The requirements are those of [`BlasLibrary::solve_unit_lower`].
    pub(crate) unsafe fn solve(
        &self,
        (m, n): (usize, usize),
        (l, ldl): Columns,
        (b, ldb): ColumnsMut,
    ) {
        // SAFETY: the caller's promise; the two halves of B are different rows.
        unsafe {
            match self.multiplier {
                _ if m == 0 || n == 0 => {}
                _ if m <= PLAIN_SOLVE => leaf::solve(self.isa, (m, n), (l, ldl), (b, ldb)),
                Multiplier::Library(library) if m.min(n) >= LIBRARY_SOLVE => {
                    library.solve_unit_lower((m, n), (l, ldl), (b, ldb));
                }
                _ => {
                    let top = (m / 2).next_multiple_of(8);
                    self.solve((top, n), (l, ldl), (b, ldb));
                    let a = (l.add(top), ldl);
                    let c = (b.add(top), ldb);
                    self.update(Product { size: (m - top, n, top), a, b: (b, ldb), c });
                    self.solve((m - top, n), (l.add(top * ldl + top), ldl), c);
                }
            }
        }
    }
}
