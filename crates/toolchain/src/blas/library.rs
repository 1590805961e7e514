//! Loaded BLAS library: its routines by their Fortran names, its version, and its threads.
//!
//! Calls follow the Fortran convention: all arguments are passed by reference, and the lengths of character arguments
//! follow at the end. Integers are passed as 64 bits. A small number has the same value in its lower 32 bits, which
//! are the first bytes on a little-endian machine. Therefore libraries with 32-bit and with 64-bit integers read the
//! same number.

use super::info::{BlasInfo, BlasVendor, ProbedBlas};
use crate::ToolchainError;
use nodegauge_measure::Failure;
use nodegauge_os::SharedLibrary;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;

/// Integer argument. Small values are valid for libraries with 32-bit and with 64-bit integers.
type Int = i64;

type Dgemm = unsafe extern "C" fn(
    *const u8,
    *const u8,
    *const Int,
    *const Int,
    *const Int,
    *const f64,
    *const f64,
    *const Int,
    *const f64,
    *const Int,
    *const f64,
    *mut f64,
    *const Int,
    usize,
    usize,
);
type Dtrsm = unsafe extern "C" fn(
    *const u8,
    *const u8,
    *const u8,
    *const u8,
    *const Int,
    *const Int,
    *const f64,
    *const f64,
    *const Int,
    *mut f64,
    *const Int,
    usize,
    usize,
    usize,
    usize,
);
type Ddot = unsafe extern "C" fn(*const Int, *const f64, *const Int, *const f64, *const Int) -> f64;

/// Column-major matrix that a routine reads: pointer to the first element, and leading dimension.
pub type ColumnMajor = (*const f64, usize);
/// Column-major matrix that a routine writes: pointer to the first element, and leading dimension.
pub type ColumnMajorMut = (*mut f64, usize);

/// Operands of the operation `C -= A B`.
#[derive(Debug, Clone, Copy)]
pub struct ProductOperands {
    /// Number of rows of C, number of columns of C, and number of columns of A.
    pub size: (usize, usize, usize),
    /// Matrix A.
    pub a: ColumnMajor,
    /// Matrix B.
    pub b: ColumnMajor,
    /// Matrix C.
    pub c: ColumnMajorMut,
}

/// Function of a library that restricts it to one thread.
#[derive(Clone, Copy)]
enum Threads {
    /// Function `void set(int)`.
    Int(unsafe extern "C" fn(c_int)),
    /// Function `void set(long)` of BLIS, whose `dim_t` has 64 bits.
    Long(unsafe extern "C" fn(i64)),
}

/// Loaded BLAS library. It is never unloaded, because its threads and handlers could otherwise run code that no longer
/// exists.
pub struct BlasLibrary {
    about: BlasInfo,
    dgemm: Dgemm,
    dtrsm: Dtrsm,
    threads: Option<Threads>,
}

impl fmt::Debug for BlasLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlasLibrary").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Loaded library, from which functions are obtained by name. Every foreign call in this module uses this type.
struct Symbols {
    library: SharedLibrary,
}

impl Symbols {
    fn open(path: &Path) -> Result<Self, ToolchainError> {
        // SAFETY: a child process has already loaded the library (`probe`). The behaviour of foreign code cannot be
        // verified further.
        let library = unsafe { SharedLibrary::open(path) };
        let library = library.map_err(|cause| {
            ToolchainError::Unusable(
                Failure::missing(format!("cannot load {}", path.display()))
                    .cause(cause)
                    .hint("give a shared library of BLAS, e.g. libopenblas.so.0"),
            )
        })?;
        Ok(Self { library })
    }

    /// Returns the function with this name; `None` if the library lacks it.
    ///
    /// # Safety
    /// `F` must be a function pointer of the symbol's true type.
    unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller guarantees the type of the function.
        unsafe { self.library.function(name) }
    }

    /// Returns the text that a function of OpenBLAS returns; `None` if the function is missing. In builds with 64-bit
    /// integers, the name of the function may have a suffix.
    fn suffixed_text(&self, name: &str) -> Option<String> {
        self.text(name).or_else(|| self.text(&format!("{name}64_")))
    }

    /// Returns a routine by its Fortran name. In builds with 64-bit integers, the name may have a suffix.
    ///
    /// # Safety
    /// The requirements of [`Symbols::function`] apply.
    unsafe fn routine<F: Copy>(&self, path: &Path, name: &str) -> Result<F, ToolchainError> {
        let mut names = ["", "64_", "_64_"].into_iter().map(|suffix| format!("{name}{suffix}"));
        // SAFETY: the caller guarantees the type of the function.
        names.find_map(|spelling| unsafe { self.function(&spelling) }).ok_or_else(|| {
            ToolchainError::Unusable(
                Failure::missing(format!(
                    "{} has no {name}: it is not a BLAS library with Fortran symbol names",
                    path.display(),
                ))
                .hint("give another library with --blas"),
            )
        })
    }

    /// Calls a function without arguments that returns a C string, and returns the text.
    fn text(&self, name: &str) -> Option<String> {
        type GetText = unsafe extern "C" fn() -> *const c_char;
        // SAFETY: the libraries declare the functions that are named in this module with this type. The strings live as
        // long as the library, which is never unloaded.
        unsafe {
            let text = self.function::<GetText>(name)?();
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}

impl BlasLibrary {
    /// Loads a library that [`crate::blas::BlasProber`] has tested in a child process. The test is required because a
    /// library that crashes while it is loaded would end this process.
    ///
    /// # Errors
    /// Fails when the library cannot be loaded, or its results are wrong in this process.
    pub fn load(probed: &ProbedBlas) -> Result<Self, ToolchainError> {
        Self::open(&probed.info().path)
    }

    /// Loads the library at `path` and verifies its results. Only the child process that tests a library calls this
    /// function.
    ///
    /// # Errors
    /// Fails when the library cannot be loaded, lacks DGEMM, DTRSM or DDOT, or computes wrong results.
    pub(super) fn open(path: &Path) -> Result<Self, ToolchainError> {
        let symbols = Symbols::open(path)?;
        // SAFETY: every BLAS has the same Fortran interface for these routines.
        let (dgemm, dtrsm, ddot) = unsafe {
            (
                symbols.routine::<Dgemm>(path, "dgemm_")?,
                symbols.routine::<Dtrsm>(path, "dtrsm_")?,
                symbols.routine::<Ddot>(path, "ddot_")?,
            )
        };
        let integer_bits = integer_bits(ddot).ok_or_else(|| {
            let what = "the product is wrong with 32-bit and with 64-bit integers";
            wrong(path, "ddot", what.to_owned())
        })?;
        let about = about(&symbols, path, integer_bits);
        let library = Self { threads: threads(&symbols, about.vendor), about, dgemm, dtrsm };
        library.restrict_to_calling_thread();
        library.check()?;
        Ok(library)
    }

    /// Returns the properties of the library.
    pub fn info(&self) -> &BlasInfo {
        &self.about
    }

    /// Restricts the library to the calling thread. Some libraries store this setting per process, others per
    /// thread. Therefore every thread that calls routines must call this function once.
    pub fn restrict_to_calling_thread(&self) {
        // SAFETY: the functions have the declared types, and 1 is a valid number of threads.
        unsafe {
            match self.threads {
                Some(Threads::Int(set)) => set(1),
                Some(Threads::Long(set)) => set(1),
                None => {}
            }
        }
    }

    /// Computes `C -= A B`.
    ///
    /// # Safety
    /// A and B must be in readable memory. C must be in writable memory that no other code accesses. Leading dimensions
    /// must be at least the number of rows.
    pub unsafe fn subtract_product(
        &self,
        ProductOperands { size: (m, n, k), a, b, c }: ProductOperands,
    ) {
        let [m, n, k, lda, ldb, ldc] = [m, n, k, a.1, b.1, c.1].map(|x| x as Int);
        let none = b"N".as_ptr();
        // SAFETY: the caller guarantees the requirements; the arguments are those of the Fortran routine.
        unsafe {
            (self.dgemm)(
                none, none, &m, &n, &k, &-1.0, a.0, &lda, b.0, &ldb, &1.0, c.0, &ldc, 1, 1,
            );
        }
    }

    /// Solves `L X = B` and overwrites B with X. L is `m` by `m`, lower triangular with a unit diagonal that is not
    /// stored; B is `m` by `n`.
    ///
    /// # Safety
    /// The matrices must satisfy the requirements of [`BlasLibrary::subtract_product`].
    pub unsafe fn solve_unit_lower(
        &self,
        (m, n): (usize, usize),
        (l, ldl): ColumnMajor,
        (b, ldb): ColumnMajorMut,
    ) {
        let [m, n, ldl, ldb] = [m, n, ldl, ldb].map(|x| x as Int);
        let [left, lower, plain, unit] = [b"L", b"L", b"N", b"U"].map(|word| word.as_ptr());
        // SAFETY: the caller guarantees the requirements; the arguments are those of the Fortran routine.
        unsafe {
            (self.dtrsm)(left, lower, plain, unit, &m, &n, &1.0, l, &ldl, b, &ldb, 1, 1, 1, 1);
        }
    }

    /// Computes small products and compares them with the results of plain loops. The matrices contain small integers,
    /// so that all results are exact, and any difference is an error.
    fn check(&self) -> Result<(), ToolchainError> {
        let m = 37;
        let n = 19;
        let k = 23;
        let a = filled(m, k, entry);
        let b = filled(k, n, entry);
        let mut c = filled(m, n, entry);
        let product = ProductOperands {
            size: (m, n, k),
            a: (a.as_ptr(), m),
            b: (b.as_ptr(), k),
            c: (c.as_mut_ptr(), m),
        };
        // SAFETY: the vectors have the given sizes.
        unsafe { self.subtract_product(product) };
        self.check_entries("dgemm", &c, m, |i, j| {
            entry(i, j) - (0..k).map(|p| entry(i, p) * entry(p, j)).sum::<f64>()
        })?;
        // X is chosen, and B is computed as L X.
        let l = filled(n, n, entry_below_diagonal);
        // The array contains B; the routine replaces B by the solution X.
        let mut x = filled(n, k, |i, j| {
            entry(i, j) + (0..i).map(|p| entry_below_diagonal(i, p) * entry(p, j)).sum::<f64>()
        });
        // SAFETY: the vectors have the given sizes.
        unsafe { self.solve_unit_lower((n, k), (l.as_ptr(), n), (x.as_mut_ptr(), n)) };
        self.check_entries("dtrsm", &x, n, entry)
    }

    /// Compares the entries of a result that has `rows` rows with the expected entries.
    ///
    /// Fails at the first difference.
    fn check_entries(
        &self,
        routine: &str,
        result: &[f64],
        rows: usize,
        expected: impl Fn(usize, usize) -> f64,
    ) -> Result<(), ToolchainError> {
        for (at, got) in result.iter().enumerate() {
            let i = at % rows;
            let j = at / rows;
            let expected = expected(i, j);
            if *got != expected {
                let what = format!("{got} at row {i}, column {j}, not {expected}");
                return Err(wrong(&self.about.path, routine, what));
            }
        }
        Ok(())
    }
}

/// Creates a matrix in column-major order; `at(i, j)` is the entry in row `i` and column `j`.
fn filled(rows: usize, columns: usize, at: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    (0..rows * columns).map(|x| at(x % rows, x / rows)).collect()
}

/// Returns an entry of the test matrices: a small integer.
fn entry(i: usize, j: usize) -> f64 {
    ((i * 7 + j * 5) % 9) as f64 - 4.0
}

/// Returns an entry of the triangular test matrix L, which is zero on and above the diagonal.
fn entry_below_diagonal(i: usize, j: usize) -> f64 {
    if i > j { ((i + 2 * j) % 3) as f64 - 1.0 } else { 0.0 }
}

fn wrong(path: &Path, routine: &str, what: String) -> ToolchainError {
    ToolchainError::Unusable(
        Failure::missing(format!("{} computes {routine} wrongly: {what}", path.display()))
            .hint("give another library with --blas"),
    )
}

/// Returns the width of a library's integers. It is detected by the dot product of two vectors with two elements. The
/// number 2 is passed in the lower half of 64 bits, and all bits of the upper half are set. A library with 64-bit
/// integers reads a negative length, for which DDOT is zero by definition; a library with 32-bit integers reads 2.
fn integer_bits(ddot: Ddot) -> Option<u32> {
    let x = [3.0, 5.0];
    let y = [7.0, 11.0];
    let two_or_negative = (-1i64 << 32) | 2;
    let [product_of_either, product_of_two] = [two_or_negative, 2].map(|n: Int| {
        // SAFETY: the routine reads at most two elements of each vector, and the vectors have two elements.
        unsafe { ddot(&n, x.as_ptr(), &1, y.as_ptr(), &1) }
    });
    match (product_of_either, product_of_two) {
        (76.0, 76.0) => Some(32),
        (0.0, 76.0) => Some(64),
        _ => None,
    }
}

fn about(symbols: &Symbols, path: &Path, integer_bits: u32) -> BlasInfo {
    let config = symbols.suffixed_text("openblas_get_config");
    let (vendor, version, kernel) = if let Some(config) = config {
        let mut words = config.split_whitespace();
        let version = words.next().filter(|name| *name == "OpenBLAS").and_then(|_| words.next());
        let kernel = symbols.suffixed_text("openblas_get_corename");
        (BlasVendor::OpenBlas, version.map(str::to_owned), kernel)
    } else if let Some(version) = symbols.text("bli_info_get_version_str") {
        (BlasVendor::Blis, Some(version), blis_kernel(symbols))
    } else if let Some(version) = mkl_version(symbols) {
        (BlasVendor::Mkl, Some(version), None)
    } else if let Some(version) = armpl_version(symbols) {
        (BlasVendor::ArmPl, Some(version), None)
    } else {
        (BlasVendor::Other, None, None)
    };
    BlasInfo { vendor, version, kernel, path: path.to_owned(), integer_bits }
}

type ArchString = unsafe extern "C" fn(c_int) -> *const c_char;

fn blis_kernel(symbols: &Symbols) -> Option<String> {
    // SAFETY: BLIS declares `arch_t bli_arch_query_id(void)` and `char* bli_arch_string(arch_t)`,
    // where arch_t is an enumeration.
    unsafe {
        let id = symbols.function::<unsafe extern "C" fn() -> c_int>("bli_arch_query_id")?();
        let name = symbols.function::<ArchString>("bli_arch_string")?(id);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Returns the names of the kernels of a BLIS library. The index of a name is the number of the kernel. The result
/// is empty if the library has no such list. The numbers differ between versions, and most versions accept only
/// numbers in `BLIS_ARCH_TYPE`.
///
/// # Errors
/// Fails when the library cannot be loaded.
pub(super) fn blis_kernels(path: &Path) -> Result<Vec<String>, ToolchainError> {
    const LAST: &str = "generic";
    const MAX_KERNELS: c_int = 64;
    let symbols = Symbols::open(path)?;
    let mut names = Vec::new();
    // SAFETY: BLIS declares `char* bli_arch_string(arch_t)`; its table ends with "generic", and no
    // larger number is passed.
    unsafe {
        let Some(named) = symbols.function::<ArchString>("bli_arch_string") else {
            return Ok(names);
        };
        while names.last().is_none_or(|name| name != LAST) && (names.len() as c_int) < MAX_KERNELS {
            let text = named(names.len() as c_int);
            if text.is_null() {
                break;
            }
            names.push(CStr::from_ptr(text).to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn mkl_version(symbols: &Symbols) -> Option<String> {
    // SAFETY: MKL declares `void mkl_get_version_string(char*, int)`. The function writes text of the given length,
    // padded with spaces.
    unsafe {
        type Fill = unsafe extern "C" fn(*mut c_char, c_int);
        let fill = symbols.function::<Fill>("MKL_Get_Version_String")?;
        let mut text = [0u8; 200];
        fill(text.as_mut_ptr().cast(), text.len() as c_int - 1);
        let banner = String::from_utf8_lossy(&text);
        let version = banner.split("Version").nth(1)?.split_whitespace().next()?;
        Some(version.to_owned())
    }
}

fn armpl_version(symbols: &Symbols) -> Option<String> {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int, *mut *const c_char);
    // SAFETY: ArmPL declares `void armplversion(int*, int*, int*, const char**)`, which writes all four values.
    unsafe {
        let version = symbols.function::<Version>("armplversion")?;
        let mut major = 0;
        let mut minor = 0;
        let mut patch = 0;
        let mut tag = std::ptr::null();
        version(&raw mut major, &raw mut minor, &raw mut patch, &raw mut tag);
        Some(format!("{major}.{minor}.{patch}"))
    }
}

/// Returns the function that restricts the library to one thread; `None` if the library has none.
fn threads(symbols: &Symbols, vendor: BlasVendor) -> Option<Threads> {
    let names: &[&str] = match vendor {
        BlasVendor::OpenBlas => &["openblas_set_num_threads", "openblas_set_num_threads64_"],
        BlasVendor::Blis => &["bli_thread_set_num_threads"],
        // The function whose name contains capitals takes its argument by value.
        BlasVendor::Mkl => &["MKL_Set_Num_Threads_Local"],
        BlasVendor::ArmPl | BlasVendor::Other => &["omp_set_num_threads"],
    };
    names.iter().find_map(|name| {
        // SAFETY: each library declares its function with this type; `dim_t` of BLIS has 64 bits.
        unsafe {
            match vendor {
                BlasVendor::Blis => symbols.function(name).map(Threads::Long),
                _ => symbols.function(name).map(Threads::Int),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the dot product of `n` elements.
    ///
    /// # Safety
    /// The requirements of the library function apply.
    unsafe fn product(n: i64, x: *const f64, y: *const f64) -> f64 {
        let at = |i: i64| i as usize;
        // SAFETY: the vectors have `n` elements.
        (0..n).map(|i| unsafe { *x.add(at(i)) * *y.add(at(i)) }).sum()
    }

    /// DDOT of a library with 32-bit integers.
    ///
    /// # Safety
    /// The requirements of the library function apply.
    unsafe extern "C" fn of_32_bits(
        n: *const Int,
        x: *const f64,
        _: *const Int,
        y: *const f64,
        _: *const Int,
    ) -> f64 {
        // SAFETY: the first half of a 64-bit integer on x86-64 and Arm is its lower half.
        unsafe { product((*n.cast::<i32>()).into(), x, y) }
    }

    /// DDOT of a library with 64-bit integers.
    ///
    /// # Safety
    /// The requirements of the library function apply.
    unsafe extern "C" fn of_64_bits(
        n: *const Int,
        x: *const f64,
        _: *const Int,
        y: *const f64,
        _: *const Int,
    ) -> f64 {
        // SAFETY: the caller passes a valid length.
        unsafe { product(*n, x, y) }
    }

    /// DDOT with a wrong result.
    ///
    /// # Safety
    /// The requirements of the library function apply.
    unsafe extern "C" fn wrong_product(
        _: *const Int,
        _: *const f64,
        _: *const Int,
        _: *const f64,
        _: *const Int,
    ) -> f64 {
        75.0
    }

    #[test]
    fn version_text_of_library_is_read() {
        // The C library of the system replaces a BLAS library in this test.
        let Ok(symbols) = Symbols::open(Path::new("libc.so.6")) else { return };
        let version = symbols.text("gnu_get_libc_version").unwrap();
        assert!(version.starts_with("2."), "{version}");
        assert_eq!(symbols.text("no_such_function"), None);
    }

    #[test]
    fn integer_width_of_library_is_detected() {
        assert_eq!(integer_bits(of_32_bits), Some(32));
        assert_eq!(integer_bits(of_64_bits), Some(64));
        assert_eq!(integer_bits(wrong_product), None);
    }
}
