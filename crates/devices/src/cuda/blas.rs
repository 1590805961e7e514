//! Products of matrices by the vendor's library, cuBLAS or rocBLAS, whose functions have the same arguments.

use super::api::{Dialect, text_of};
use super::place::Place;
use crate::driver::{Blas, DeviceError, Kind, Memory, Queue};
use nodegauge_os::{ChildAnswer, SharedLibrary};
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// Libraries, newest first.
const LIBRARIES: [&[&str]; 2] = [
    &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"],
    &["librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so"],
];
/// Longest time for loading: cuBLAS has hundreds of megabytes of kernels.
const LIMIT: Duration = Duration::from_secs(60);

type Create = unsafe extern "C" fn(*mut usize) -> c_int;
type Destroy = unsafe extern "C" fn(usize) -> c_int;
type SetStream = unsafe extern "C" fn(usize, usize) -> c_int;
type Dgemm = unsafe extern "C" fn(
    usize,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f64,
    usize,
    c_int,
    usize,
    c_int,
    *const f64,
    usize,
    c_int,
) -> c_int;

/// A handle of the library, in a context.
pub struct VendorBlas {
    place: Place,
    name: String,
    handle: usize,
    set_stream: SetStream,
    dgemm: Dgemm,
    destroy: Destroy,
}

impl VendorBlas {
    /// Loads the library, after a child process has; `None` where it is not installed.
    ///
    /// # Errors
    /// When it is there and crashes, lacks a function or refuses the device.
    pub fn open(place: Place) -> Result<Option<Self>, DeviceError> {
        let dialect = place.api.dialect;
        let libraries = LIBRARIES[dialect as usize];
        // SAFETY: the child loads a library and ends.
        let tried = unsafe {
            nodegauge_os::ask_child(LIMIT, || {
                vec![u8::from(SharedLibrary::first_of(libraries).is_ok())]
            })
        };
        match tried {
            Ok(ChildAnswer::Said(said)) if said == [0] => return Ok(None),
            Ok(ChildAnswer::Said(said)) if said == [1] => {}
            _ => return Err(dialect.lacks(libraries[0], "it crashes when it is loaded")),
        }
        // SAFETY: a child process has survived it.
        let library = unsafe { SharedLibrary::first_of(libraries) };
        let library = library.map_err(|cause| dialect.lacks(libraries[0], &cause))?;
        let lacks = |name: &str| dialect.error(Kind::TooOld, name, 0);
        let names = dialect.of(
            ["cublasCreate_v2", "cublasSetStream_v2", "cublasDgemm_v2", "cublasDestroy_v2"],
            [
                "rocblas_create_handle",
                "rocblas_set_stream",
                "rocblas_dgemm",
                "rocblas_destroy_handle",
            ],
        );
        // SAFETY: the types that cublas_v2.h and rocblas.h declare.
        let (create, set_stream, dgemm, destroy) = unsafe {
            (
                library.function::<Create>(names[0]).ok_or_else(|| lacks(names[0]))?,
                library.function(names[1]).ok_or_else(|| lacks(names[1]))?,
                library.function(names[2]).ok_or_else(|| lacks(names[2]))?,
                library.function(names[3]).ok_or_else(|| lacks(names[3]))?,
            )
        };
        let mut handle = 0;
        // SAFETY: the context is current; the handle is filled in.
        check(dialect, names[0], unsafe { create(&raw mut handle) })?;
        let version = version(dialect, &library, handle).unwrap_or_default();
        let name = format!("{} {version}", dialect.of("cuBLAS", "rocBLAS")).trim().to_owned();
        Ok(Some(Self { place, name, handle, set_stream, dgemm, destroy }))
    }
}

/// What the library says of its version.
fn version(dialect: Dialect, library: &SharedLibrary, handle: usize) -> Option<String> {
    type Number = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
    type Text = unsafe extern "C" fn(*mut c_char, usize) -> c_int;
    let (mut number, mut text) = (0, [0u8; 64]);
    // SAFETY: the functions' declared types; both are filled in.
    let code = unsafe {
        match dialect {
            Dialect::Cuda => {
                library.function::<Number>("cublasGetVersion_v2")?(handle, &raw mut number)
            }
            Dialect::Hip => library.function::<Text>("rocblas_get_version_string")?(
                text.as_mut_ptr().cast(),
                text.len(),
            ),
        }
    };
    let numbers = format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100);
    (code == 0).then(|| dialect.of(numbers, text_of(&text)))
}

/// A status of cuBLAS or rocBLAS, by its meaning.
fn check(dialect: Dialect, call: &str, code: c_int) -> Result<(), DeviceError> {
    let kind = match (dialect, code) {
        (_, 0) => return Ok(()),
        // CUBLAS_STATUS_ALLOC_FAILED, rocblas_status_memory_error
        (Dialect::Cuda, 3) | (Dialect::Hip, 5) => Kind::OutOfMemory,
        // CUBLAS_STATUS_ARCH_MISMATCH and NOT_SUPPORTED, rocblas_status_not_implemented
        (Dialect::Cuda, 8 | 15) | (Dialect::Hip, 2) => Kind::Unsupported,
        // CUBLAS_STATUS_EXECUTION_FAILED
        (Dialect::Cuda, 13) => Kind::Lost,
        _ => Kind::Other,
    };
    Err(dialect.error(kind, call, code))
}

impl Blas for VendorBlas {
    fn name(&self) -> String {
        self.name.clone()
    }

    unsafe fn dgemm(
        &mut self,
        queue: &mut dyn Queue,
        n: usize,
        matrices: [&Memory; 3],
    ) -> Result<(), DeviceError> {
        let dialect = self.place.api.dialect;
        // CUBLAS_OP_N, rocblas_operation_none
        let plain = dialect.of(0, 111);
        let [a, b, c] = matrices.map(|memory| {
            assert!(n * n * 8 <= memory.bytes, "order {n} in {} bytes", memory.bytes);
            memory.handle.raw
        });
        let (m, one, none) = (n as c_int, 1.0, 0.0);
        // SAFETY: the matrices have that order, and the caller promises that they live; factors are read at once.
        unsafe {
            let set = (self.set_stream)(self.handle, queue.raw());
            check(dialect, dialect.of("cublasSetStream", "rocblas_set_stream"), set)?;
            let (dgemm, one, none) = (self.dgemm, &raw const one, &raw const none);
            let code = dgemm(self.handle, plain, plain, m, m, m, one, a, m, b, m, none, c, m);
            check(dialect, dialect.of("cublasDgemm", "rocblas_dgemm"), code)
        }
    }
}

impl Drop for VendorBlas {
    fn drop(&mut self) {
        // SAFETY: the handle was made here.
        unsafe { (self.destroy)(self.handle) };
    }
}
