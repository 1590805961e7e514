//! Matrix products and triangular solves on one thread, by an installed BLAS library or by the built-in kernels.

use crate::leaf;
use nodegauge_kernels::Isa;
use nodegauge_toolchain::ToolchainError;
use nodegauge_toolchain::blas::{
    BlasLibrary, ColumnMajor, ColumnMajorMut, ProbedBlas, ProductOperands,
};
use std::fmt;

/// Maximum order of a triangular solve with plain loops.
const PLAIN_SOLVE: usize = 24;
/// Maximum number of columns of A for which [`leaf::update`] is faster than a library. A library copies the
/// operands first.
const FEW_COLUMNS: usize = 48;
/// Minimum order of a triangular solve with the library.
const LIBRARY_SOLVE: usize = 64;

/// Implementation of matrix products.
#[derive(Debug)]
pub enum Multiplier {
    /// Loaded BLAS library.
    Library(BlasLibrary),
    /// Kernels of the `gemm` crate.
    BuiltIn,
}

impl Multiplier {
    /// Loads the library into this process, after setting the environment variable that selects the kernels. It
    /// must be called before a team is started.
    ///
    /// # Errors
    /// Fails if the library cannot be loaded.
    pub fn load(probed: &ProbedBlas) -> Result<Self, ToolchainError> {
        if let Some((name, value)) = &probed.environment {
            // SAFETY: called before a team starts; the only other thread of the program waits for
            // signals and reads no variables.
            unsafe { std::env::set_var(name, value) };
        }
        BlasLibrary::load(probed).map(Self::Library)
    }
}

impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(library) => library.info().fmt(f),
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

    /// Sets the library to run products on the calling thread only. Every thread that multiplies must call this
    /// function once.
    pub(crate) fn use_one_thread(&self) {
        if let Multiplier::Library(library) = self.multiplier {
            library.restrict_to_calling_thread();
        }
    }

    /// Computes `C -= A B`.
    ///
    /// # Safety
    /// The requirements of [`BlasLibrary::subtract_product`] apply.
    pub(crate) unsafe fn update(&self, job: ProductOperands) {
        let ProductOperands { size: (m, n, k), a: (a, lda), b: (b, ldb), c: (c, ldc) } = job;
        if m == 0 || n == 0 || k == 0 {
            return;
        }
        // SAFETY: the caller meets the requirements of this function.
        unsafe {
            match self.multiplier {
                _ if k <= FEW_COLUMNS && n <= 2 * FEW_COLUMNS => leaf::update(self.isa, job),
                Multiplier::Library(library) => library.subtract_product(job),
                Multiplier::BuiltIn => {
                    let ldc = ldc as isize;
                    let lda = lda as isize;
                    let ldb = ldb as isize;
                    let alone = gemm_common::Parallelism::None;
                    // In C, the distance between columns is never smaller than the distance between rows, so no
                    // transposition is needed.
                    gemm_f64::gemm::f64::get_gemm_fn()(
                        m, n, k, c, ldc, 1, true, a, lda, 1, b, ldb, 1, 1.0, -1.0, false, false,
                        false, alone,
                    );
                }
            }
        }
    }

    /// Solves L X = B; X replaces B. L is unit lower triangular of order `m`; B has `n` columns.
    ///
    /// # Safety
    /// The requirements of [`BlasLibrary::solve_unit_lower`] apply.
    pub(crate) unsafe fn solve(
        &self,
        (m, n): (usize, usize),
        (l, ldl): ColumnMajor,
        (b, ldb): ColumnMajorMut,
    ) {
        // SAFETY: the caller meets the requirements of this function; the two halves of B consist of different rows.
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
                    self.update(ProductOperands { size: (m - top, n, top), a, b: (b, ldb), c });
                    self.solve((m - top, n), (l.add(top * ldl + top), ldl), c);
                }
            }
        }
    }
}
