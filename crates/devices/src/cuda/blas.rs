//! Matrix products with the vendor's library (cuBLAS or rocBLAS). The functions of both libraries have the same
//! arguments.

use super::api::{VendorApi, text_from_bytes};
use super::context::Context;
use crate::driver::{Blas, DeviceBuffer, DeviceError, FailureClass, Queue};
use nodegauge_os::{AnswerLimits, ChildAnswer, SharedLibrary};
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// Library names, newest first, for CUDA and HIP.
const LIBRARIES: [&[&str]; 2] = [
    &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"],
    &["librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so"],
];
/// Timeout for loading the library. It is long because cuBLAS contains hundreds of megabytes of kernels.
const LIMITS: AnswerLimits = AnswerLimits { elapsed: Duration::from_secs(60), cpu_seconds: None };

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

/// Vendor's BLAS library with its handle in a context.
pub struct VendorBlas {
    context: Context,
    name: String,
    handle: usize,
    set_stream: SetStream,
    dgemm: Dgemm,
    destroy: Destroy,
}

impl VendorBlas {
    /// Loads the library if a child process can load it without a crash; returns `None` if it is not installed.
    ///
    /// # Errors
    /// Fails if the library crashes, lacks a function or does not support the device.
    pub fn open(context: Context) -> Result<Option<Self>, DeviceError> {
        let dialect = context.api.dialect;
        let libraries = LIBRARIES[dialect as usize];
        // SAFETY: the child process only loads the library and exits.
        let answer = unsafe {
            nodegauge_os::ask_child(LIMITS.for_helper(), || {
                vec![u8::from(SharedLibrary::open_first(libraries).is_ok())]
            })
        };
        match answer {
            Ok(ChildAnswer::Answered(output)) if output == [0] => return Ok(None),
            Ok(ChildAnswer::Answered(output)) if output == [1] => {}
            _ => return Err(dialect.unsupported_error(libraries[0], "loading it crashes")),
        }
        // SAFETY: a child process has loaded it without a crash.
        let library = unsafe { SharedLibrary::open_first(libraries) };
        let library = library.map_err(|cause| dialect.unsupported_error(libraries[0], &cause.0))?;
        let lacks = |name: &str| dialect.error(FailureClass::TooOld, name, 0);
        let names = dialect.select(
            ["cublasCreate_v2", "cublasSetStream_v2", "cublasDgemm_v2", "cublasDestroy_v2"],
            [
                "rocblas_create_handle",
                "rocblas_set_stream",
                "rocblas_dgemm",
                "rocblas_destroy_handle",
            ],
        );
        // SAFETY: cublas_v2.h and rocblas.h declare this type.
        let create = unsafe { library.function::<Create>(names[0]) };
        let create = create.ok_or_else(|| lacks(names[0]))?;
        // SAFETY: cublas_v2.h and rocblas.h declare this type.
        let set_stream = unsafe { library.function::<SetStream>(names[1]) };
        let set_stream = set_stream.ok_or_else(|| lacks(names[1]))?;
        // SAFETY: cublas_v2.h and rocblas.h declare this type.
        let dgemm = unsafe { library.function::<Dgemm>(names[2]) };
        let dgemm = dgemm.ok_or_else(|| lacks(names[2]))?;
        // SAFETY: cublas_v2.h and rocblas.h declare this type.
        let destroy = unsafe { library.function::<Destroy>(names[3]) };
        let destroy = destroy.ok_or_else(|| lacks(names[3]))?;
        let mut handle = 0;
        // SAFETY: the context is current; the call writes the handle.
        check(dialect, names[0], unsafe { create(&raw mut handle) })?;
        let version = version(dialect, &library, handle).unwrap_or_default();
        let name = format!("{} {version}", dialect.select("cuBLAS", "rocBLAS")).trim().to_owned();
        Ok(Some(Self { context, name, handle, set_stream, dgemm, destroy }))
    }
}

/// Returns the version that the library reports.
fn version(dialect: VendorApi, library: &SharedLibrary, handle: usize) -> Option<String> {
    type Number = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
    type Text = unsafe extern "C" fn(*mut c_char, usize) -> c_int;
    let mut number = 0;
    let mut text = [0u8; 64];
    // SAFETY: the types match the declarations; the call writes the number or the text.
    let code = unsafe {
        match dialect {
            VendorApi::Cuda => {
                library.function::<Number>("cublasGetVersion_v2")?(handle, &raw mut number)
            }
            VendorApi::Hip => library.function::<Text>("rocblas_get_version_string")?(
                text.as_mut_ptr().cast(),
                text.len(),
            ),
        }
    };
    let numbers = format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100);
    (code == 0).then(|| dialect.select(numbers, text_from_bytes(&text)))
}

/// Returns an error if the status of cuBLAS or rocBLAS is not success.
fn check(dialect: VendorApi, call: &str, code: c_int) -> Result<(), DeviceError> {
    let kind = match (dialect, code) {
        (_, 0) => return Ok(()),
        // CUBLAS_STATUS_ALLOC_FAILED, rocblas_status_memory_error
        (VendorApi::Cuda, 3) | (VendorApi::Hip, 5) => FailureClass::OutOfMemory,
        // CUBLAS_STATUS_ARCH_MISMATCH and NOT_SUPPORTED, rocblas_status_not_implemented
        (VendorApi::Cuda, 8 | 15) | (VendorApi::Hip, 2) => FailureClass::Unsupported,
        // CUBLAS_STATUS_EXECUTION_FAILED
        (VendorApi::Cuda, 13) => FailureClass::Lost,
        _ => FailureClass::Other,
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
        matrices: [&DeviceBuffer; 3],
    ) -> Result<(), DeviceError> {
        let dialect = self.context.api.dialect;
        // CUBLAS_OP_N, rocblas_operation_none
        let plain = dialect.select(0, 111);
        let [a, b, c] = matrices.map(|memory| {
            assert!(
                n * n * 8 <= memory.bytes,
                "a matrix of order {n} does not fit in {} B",
                memory.bytes
            );
            memory.handle.raw
        });
        let m = n as c_int;
        let alpha = 1.0;
        let beta = 0.0;
        // SAFETY: the matrices have order `n`, and the caller guarantees that they live. The factors are read before
        // the call returns.
        unsafe {
            let set = (self.set_stream)(self.handle, queue.raw());
            check(dialect, dialect.select("cublasSetStream", "rocblas_set_stream"), set)?;
            let dgemm = self.dgemm;
            let alpha = &raw const alpha;
            let beta = &raw const beta;
            let code = dgemm(self.handle, plain, plain, m, m, m, alpha, a, m, b, m, beta, c, m);
            check(dialect, dialect.select("cublasDgemm", "rocblas_dgemm"), code)
        }
    }
}

impl Drop for VendorBlas {
    fn drop(&mut self) {
        // SAFETY: the handle was created here.
        unsafe { (self.destroy)(self.handle) };
    }
}
