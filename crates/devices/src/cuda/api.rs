//! Table of the functions of CUDA's driver API (`libcuda.so.1`), which are looked up at run time. HIP
//! (`libamdhip64.so`) has functions with other names but the same arguments and error codes, so CUDA and HIP share this
//! table.

use crate::driver::{DeviceError, FailureClass};
use nodegauge_os::SharedLibrary;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Driver API of a GPU vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VendorApi {
    /// CUDA, NVIDIA's API.
    Cuda,
    /// HIP, AMD's API.
    Hip,
}

impl VendorApi {
    /// Returns the driver's name, as in [`crate::driver::Driver::name`].
    pub fn name(self) -> &'static str {
        self.select("cuda", "hip")
    }

    /// Returns the argument for this API: `cuda` or `hip`.
    pub fn select<T>(self, cuda: T, hip: T) -> T {
        match self {
            Self::Cuda => cuda,
            Self::Hip => hip,
        }
    }

    /// Creates the failure for a library or feature that cannot be used; `why` is the reason.
    pub fn unsupported_error(self, library: &str, why: &str) -> DeviceError {
        self.error(FailureClass::Unsupported, library, 0).with_detail(why)
    }

    /// Creates a failure of a call or library of this API.
    pub fn error(self, kind: FailureClass, call: &str, code: c_int) -> DeviceError {
        DeviceError::new(kind, self.name(), call, code.into())
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) = $cuda:literal, $hip:literal;)*) => {
        /// Pointers to the functions of a driver's API.
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            fn load(library: &SharedLibrary, dialect: VendorApi) -> Result<Self, DeviceError> {
                Ok(Self {
                    $(
                        // SAFETY: the function has this signature in every version of the library that contains it.
                        $name: unsafe { library.function(dialect.select($cuda, $hip)) }.ok_or_else(
                            || dialect.error(FailureClass::TooOld, dialect.select($cuda, $hip), 0),
                        )?,
                    )*
                })
            }
        }

        #[allow(clippy::too_many_arguments, clippy::missing_safety_doc)]
        impl CudaApi {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Returns the driver's error code, with its meaning.
                ///
                /// # Safety
                /// The arguments must be valid for the function.
                pub unsafe fn $name(&self, $($arg: $type),*) -> Result<(), DeviceError> {
                    // SAFETY: the caller guarantees valid arguments.
                    let code = unsafe { (self.functions.$name)($($arg),*) };
                    self.check(self.dialect.select($cuda, $hip), code)
                }
            )*
        }
    };
}

functions! {
    /// Initialises the driver.
    init(flags: c_uint) = "cuInit", "hipInit";
    /// Returns the version as a number: `12040` is CUDA 12.4; HIP's number has three parts.
    version(version: *mut c_int) = "cuDriverGetVersion", "hipDriverGetVersion";
    /// Returns the number of devices.
    count(count: *mut c_int) = "cuDeviceGetCount", "hipGetDeviceCount";
    /// Returns the driver's number of the device at an index.
    device(device: *mut c_int, index: c_int) = "cuDeviceGet", "hipDeviceGet";
    /// Returns the name of a device.
    device_name(text: *mut c_char, length: c_int, device: c_int) = "cuDeviceGetName", "hipDeviceGetName";
    /// Returns the memory size of a device in bytes.
    device_memory(bytes: *mut usize, device: c_int) = "cuDeviceTotalMem_v2", "hipDeviceTotalMem";
    /// Returns an attribute of a device.
    attribute(value: *mut c_int, attribute: c_int, device: c_int) = "cuDeviceGetAttribute", "hipDeviceGetAttribute";
    /// Returns the PCI address of a device.
    pci(text: *mut c_char, length: c_int, device: c_int) = "cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId";
    /// Retains the primary context of a device.
    retain(context: *mut usize, device: c_int) = "cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain";
    /// Makes a context current in the calling thread.
    make_current(context: usize) = "cuCtxSetCurrent", "hipCtxSetCurrent";
    /// Enables direct access from the current context to the memory of another context.
    enable_peer(context: usize, flags: c_uint) = "cuCtxEnablePeerAccess", "hipCtxEnablePeerAccess";
    /// Returns the free and the total device memory in bytes.
    memory_info(free: *mut usize, all: *mut usize) = "cuMemGetInfo_v2", "hipMemGetInfo";
    /// Allocates device memory.
    allocate(at: *mut usize, bytes: usize) = "cuMemAlloc_v2", "hipMalloc";
    /// Frees device memory.
    free(at: usize) = "cuMemFree_v2", "hipFree";
    /// Pins host memory.
    register(at: *mut c_void, bytes: usize, flags: c_uint) = "cuMemHostRegister_v2", "hipHostRegister";
    /// Unpins host memory.
    unregister(at: *mut c_void) = "cuMemHostUnregister", "hipHostUnregister";
    /// Copies from the host to the device.
    copy_in(to: usize, from: *mut c_void, bytes: usize, stream: usize) = "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync";
    /// Copies from the device to the host.
    copy_out(to: *mut c_void, from: usize, bytes: usize, stream: usize) = "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync";
    /// Copies between devices. This also works between contexts, because all contexts share one address space.
    copy_across(to: usize, from: usize, bytes: usize, stream: usize) = "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync";
    /// Creates a stream.
    stream(stream: *mut usize, flags: c_uint) = "cuStreamCreate", "hipStreamCreateWithFlags";
    /// Releases a stream.
    stream_destroy(stream: usize) = "cuStreamDestroy_v2", "hipStreamDestroy";
    /// Waits for all work in a stream.
    stream_wait(stream: usize) = "cuStreamSynchronize", "hipStreamSynchronize";
    /// Creates an event.
    event(event: *mut usize, flags: c_uint) = "cuEventCreate", "hipEventCreateWithFlags";
    /// Releases an event.
    event_destroy(event: usize) = "cuEventDestroy_v2", "hipEventDestroy";
    /// Records an event in a stream.
    event_record(event: usize, stream: usize) = "cuEventRecord", "hipEventRecord";
    /// Returns the milliseconds between two events.
    event_elapsed(millis: *mut f32, from: usize, to: usize) = "cuEventElapsedTime", "hipEventElapsedTime";
    /// Loads a module from machine code, or from PTX that the driver compiles.
    module(module: *mut usize, image: *const c_void, options: c_uint, names: *mut c_int, values: *mut *mut c_void) = "cuModuleLoadDataEx", "hipModuleLoadDataEx";
    /// Releases a module.
    module_unload(module: usize) = "cuModuleUnload", "hipModuleUnload";
    /// Returns a kernel of a module.
    function(function: *mut usize, module: usize, name: *const c_char) = "cuModuleGetFunction", "hipModuleGetFunction";
    /// Launches a kernel: blocks, threads per block, bytes of shared memory, stream, arguments.
    launch(function: usize, x: c_uint, y: c_uint, z: c_uint, tx: c_uint, ty: c_uint, tz: c_uint, shared: c_uint, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void) = "cuLaunchKernel", "hipModuleLaunchKernel";
}

/// Initialised library of a driver. It stays loaded until the program ends, because drivers run their own threads.
pub struct CudaApi {
    /// API of the library.
    pub dialect: VendorApi,
    /// Loaded library, for functions that only some versions have.
    pub library: SharedLibrary,
    functions: Functions,
}

impl CudaApi {
    /// Loads the first available library into this process and initialises it.
    ///
    /// # Errors
    /// Fails if the library is missing, lacks a function, or finds no device.
    pub fn load(dialect: VendorApi, libraries: &[&str]) -> Result<&'static Self, DeviceError> {
        // SAFETY: the library is a driver, which a child process has loaded before without a crash.
        let library = unsafe { SharedLibrary::open_first(libraries) }
            .map_err(|_| dialect.error(FailureClass::NoDriver, libraries[0], 0))?;
        let functions = Functions::load(&library, dialect)?;
        let api = Self { dialect, library, functions };
        // SAFETY: there are no flags.
        unsafe { api.init(0)? };
        Ok(Box::leak(Box::new(api)))
    }

    /// Returns an error if the return code of a call is not success.
    fn check(&self, call: &str, code: c_int) -> Result<(), DeviceError> {
        let Some(kind) = failure_class(code) else { return Ok(()) };
        Err(self.dialect.error(kind, call, code).with_detail(self.error_name(code)))
    }

    /// Returns the driver's name of an error code, e.g. `CUDA_ERROR_OUT_OF_MEMORY`.
    fn error_name(&self, code: c_int) -> String {
        type Fills = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        type Returns = unsafe extern "C" fn(c_int) -> *const c_char;
        let mut name = std::ptr::null();
        // SAFETY: the types match the declarations; error names are constants of the library.
        unsafe {
            match self.dialect {
                VendorApi::Cuda => {
                    if let Some(fill) = self.library.function::<Fills>("cuGetErrorName") {
                        fill(code, &raw mut name);
                    }
                }
                VendorApi::Hip => {
                    let returns = self.library.function::<Returns>("hipGetErrorName");
                    name = returns.map_or(name, |returns| returns(code));
                }
            }
            if name.is_null() {
                return String::new();
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}

/// Returns the class of failure for a `CUresult` code (cuda.h); `None` for success. `hipError_t` has the same values.
pub fn failure_class(code: c_int) -> Option<FailureClass> {
    Some(match code {
        0 => return None,
        2 => FailureClass::OutOfMemory,
        // STUB_LIBRARY: the toolkit's stub library, intended only for linking, was loaded instead of the driver's
        // library.
        34 => FailureClass::NoDriver,
        // INSUFFICIENT_DRIVER, CALL_REQUIRES_NEWER_DRIVER, UNSUPPORTED_PTX_VERSION, SYSTEM_DRIVER_MISMATCH,
        // COMPAT_NOT_SUPPORTED_ON_DEVICE
        35 | 36 | 222 | 803 | 804 => FailureClass::TooOld,
        // DEVICE_UNAVAILABLE (exclusive mode), CONTEXT_ALREADY_IN_USE, MPS: server not ready, too many clients
        46 | 216 | 807..=809 => FailureClass::InUse,
        // NO_DEVICE, INVALID_DEVICE
        100 | 101 => FailureClass::NoDevice,
        // DEVICE_NOT_LICENSED, OPERATING_SYSTEM (a device file), NOT_PERMITTED
        102 | 304 | 800 => FailureClass::NotAllowed,
        // INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, JIT_COMPILATION_DISABLED,
        // INVALID_SOURCE, SHARED_OBJECT_SYMBOL_NOT_FOUND, NOT_FOUND
        200 | 209 | 218 | 221 | 223 | 300 | 302 | 500 => FailureClass::Build,
        214 => FailureClass::Ecc,
        // PEER_ACCESS_UNSUPPORTED, LAUNCH_OUT_OF_RESOURCES, NOT_SUPPORTED
        217 | 701 | 801 => FailureClass::Unsupported,
        // NVLINK_UNCORRECTABLE, CONTAINED, ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, ASSERT,
        // HARDWARE_STACK_ERROR to LAUNCH_FAILED: the context is unusable afterwards
        220 | 226 | 700 | 702 | 709 | 710 | 714..=719 => FailureClass::Lost,
        _ => FailureClass::Other,
    })
}

/// Converts a text that a call has written, up to the terminating zero.
pub fn text_from_bytes(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).map(CStr::to_string_lossy);
    text.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_match_cuda_h() {
        let kinds =
            [2, 46, 100, 218, 214, 719, 35, 304, 801].map(|code| failure_class(code).unwrap());
        let meant = [
            FailureClass::OutOfMemory,
            FailureClass::InUse,
            FailureClass::NoDevice,
            FailureClass::Build,
            FailureClass::Ecc,
            FailureClass::Lost,
            FailureClass::TooOld,
            FailureClass::NotAllowed,
            FailureClass::Unsupported,
        ];
        assert_eq!(kinds, meant);
        assert_eq!((failure_class(0), failure_class(999)), (None, Some(FailureClass::Other)));
    }
}
