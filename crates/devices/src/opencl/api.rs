//! Table of the functions of `libOpenCL.so.1`, which are looked up at run time, and the meaning of their error codes.
//! All functions are part of OpenCL 1.2.
// The functions have the names of CL/cl.h.
#![allow(non_snake_case)]

use crate::driver::{DeviceError, FailureClass};
use nodegauge_os::SharedLibrary;
use std::ffi::{c_char, c_void};

/// Name of the driver in [`crate::driver`].
pub const NAME: &str = "opencl";
/// Library name of the loader for OpenCL drivers.
const LIBRARY: &str = "libOpenCL.so.1";

/// Handle of a platform, device, context, queue, program, kernel, memory object or event.
pub type Object = *mut c_void;
type BuildDone = Option<extern "C" fn(Object, *mut c_void)>;
type Deleted = Option<unsafe extern "C" fn(Object, *mut c_void)>;
type Complaint = Option<extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>;

macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $result:ty;)*) => {
        /// Functions of the library.
        pub struct OpenClApi {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> $result,)*
        }

        impl OpenClApi {
            /// Loads the library. This runs code of the library and of every installed driver in this process. The
            /// library stays loaded until the program ends, because drivers run their own threads.
            ///
            /// # Errors
            /// Fails if the library is missing or lacks a function.
            pub fn load() -> Result<&'static Self, DeviceError> {
                let missing = |_| DeviceError::new(FailureClass::NoDriver, NAME, LIBRARY, 0);
                let lacks = |name: &str| DeviceError::new(FailureClass::TooOld, NAME, name, 0);
                // SAFETY: any program may load the library; a child process has loaded it before without a crash.
                let library = unsafe { SharedLibrary::open(LIBRARY) }.map_err(missing)?;
                Ok(Box::leak(Box::new(Self {
                    $(
                        // SAFETY: the function has this signature in every version of OpenCL from 1.2 on.
                        $name: unsafe { library.function(stringify!($name)) }
                            .ok_or_else(|| lacks(stringify!($name)))?,
                    )*
                })))
            }
        }
    };
}

functions! {
    clGetPlatformIDs(u32, *mut Object, *mut u32) -> i32;
    clGetPlatformInfo(Object, u32, usize, *mut c_void, *mut usize) -> i32;
    clGetDeviceIDs(Object, u64, u32, *mut Object, *mut u32) -> i32;
    clGetDeviceInfo(Object, u32, usize, *mut c_void, *mut usize) -> i32;
    clCreateContext(*const isize, u32, *const Object, Complaint, *mut c_void, *mut i32) -> Object;
    clReleaseContext(Object) -> i32;
    clCreateCommandQueue(Object, Object, u64, *mut i32) -> Object;
    clReleaseCommandQueue(Object) -> i32;
    clCreateBuffer(Object, u64, usize, *mut c_void, *mut i32) -> Object;
    clSetMemObjectDestructorCallback(Object, Deleted, *mut c_void) -> i32;
    clReleaseMemObject(Object) -> i32;
    clCreateProgramWithSource(Object, u32, *const *const c_char, *const usize, *mut i32) -> Object;
    clBuildProgram(Object, u32, *const Object, *const c_char, BuildDone, *mut c_void) -> i32;
    clGetProgramBuildInfo(Object, Object, u32, usize, *mut c_void, *mut usize) -> i32;
    clReleaseProgram(Object) -> i32;
    clCreateKernel(Object, *const c_char, *mut i32) -> Object;
    clSetKernelArg(Object, u32, usize, *const c_void) -> i32;
    clReleaseKernel(Object) -> i32;
    clEnqueueNDRangeKernel(Object, Object, u32, *const usize, *const usize, *const usize, u32, *const Object, *mut Object) -> i32;
    clEnqueueReadBuffer(Object, Object, u32, usize, usize, *mut c_void, u32, *const Object, *mut Object) -> i32;
    clEnqueueWriteBuffer(Object, Object, u32, usize, usize, *const c_void, u32, *const Object, *mut Object) -> i32;
    clEnqueueCopyBuffer(Object, Object, Object, usize, usize, usize, u32, *const Object, *mut Object) -> i32;
    clEnqueueFillBuffer(Object, Object, *const c_void, usize, usize, usize, u32, *const Object, *mut Object) -> i32;
    clEnqueueMigrateMemObjects(Object, u32, *const Object, u64, u32, *const Object, *mut Object) -> i32;
    clEnqueueMapBuffer(Object, Object, u32, u64, usize, usize, u32, *const Object, *mut Object, *mut i32) -> *mut c_void;
    clEnqueueUnmapMemObject(Object, Object, *mut c_void, u32, *const Object, *mut Object) -> i32;
    clEnqueueMarkerWithWaitList(Object, u32, *const Object, *mut Object) -> i32;
    clFlush(Object) -> i32;
    clFinish(Object) -> i32;
    clGetEventProfilingInfo(Object, u32, usize, *mut c_void, *mut usize) -> i32;
    clReleaseEvent(Object) -> i32;
}

/// Returns an error if the return code of a call is not success.
pub fn check(call: &str, code: i32) -> Result<(), DeviceError> {
    // These are codes of CL/cl.h and cl_ext.h. An invalid queue or context means that the device was lost, because this
    // program creates its queues and contexts and does not release them before their last use.
    let kind = match code {
        0 => return Ok(()),
        // CL_DEVICE_NOT_FOUND
        -1 => FailureClass::NoDevice,
        // CL_PLATFORM_NOT_FOUND_KHR
        -1001 => FailureClass::NoPlatform,
        // CL_DEVICE_NOT_AVAILABLE
        -2 => FailureClass::InUse,
        // CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE
        -4 | -6 | -61 => FailureClass::OutOfMemory,
        // CL_OUT_OF_RESOURCES: drivers return this code for lack of memory and for device failures.
        -5 => FailureClass::OutOfMemory,
        // CL_COMPILER_NOT_AVAILABLE, CL_PROFILING_INFO_NOT_AVAILABLE
        -3 | -7 => FailureClass::Unsupported,
        // CL_BUILD_PROGRAM_FAILURE, CL_INVALID_PROGRAM_EXECUTABLE, CL_INVALID_KERNEL_NAME
        -11 | -45 | -46 => FailureClass::Build,
        // CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_CONTEXT, CL_INVALID_COMMAND_QUEUE
        -14 | -34 | -36 => FailureClass::Lost,
        _ => FailureClass::Other,
    };
    Err(DeviceError::new(kind, NAME, call, code.into()))
}

/// Returns the object that a call created, or the error if the call failed.
pub fn created_object(call: &str, object: Object, code: i32) -> Result<Object, DeviceError> {
    check(call, code)?;
    if object.is_null() {
        return Err(DeviceError::new(FailureClass::Other, NAME, call, 0));
    }
    Ok(object)
}
