//! Open device of OpenCL: context, memory and programs.

use super::api::{NAME, Object, OpenClApi, check, created_object};
use super::queue::OpenClQueue;
use super::{NO_EVENTS, words};
use crate::driver::{
    CLEAR_CHUNK_BYTES, DeviceBuffer, DeviceError, DeviceKernel, DeviceProgram, FailureClass,
    Handle, HostMemory, OpenDevice, Queue, clear,
};
use crate::info::{DeviceClass, DeviceInfo};
use crate::kernels::KernelSource;
use nodegauge_measure::Bytes;
use nodegauge_os::{Mapping, PageSize};
use nodegauge_toolchain::ScratchFolder;
use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;
use std::sync::Arc;

// Memory flags of CL/cl.h.
const MEM_READ_WRITE: u64 = 1;
const MEM_USE_HOST_PTR: u64 = 1 << 3;
const MEM_ALLOC_HOST_PTR: u64 = 1 << 4;
const MAP_READ_WRITE: u64 = 0b11;
const QUEUE_PROFILING_ENABLE: u64 = 1 << 1;
const PROGRAM_BUILD_LOG: u32 = 0x1183;

/// Releases the reference of a buffer to its pages. The driver calls this when it deletes the buffer. This may be after
/// the release of the buffer's handle, because running kernels still use the buffer.
///
/// # Safety
/// `pages` must be a reference to a [`Mapping`] that is not used afterwards.
unsafe extern "C" fn release(_buffer: Object, pages: *mut c_void) {
    // SAFETY: the caller guarantees it.
    drop(unsafe { Arc::from_raw(pages.cast::<Mapping>()) });
}

/// Open device of OpenCL.
pub struct OpenClDevice {
    api: &'static OpenClApi,
    info: DeviceInfo,
    device: Object,
    context: Rc<Handle>,
    /// Folder of PoCL's compiled kernels, which must exist as long as the device is open.
    _kernels: Option<Rc<ScratchFolder>>,
}

impl OpenClDevice {
    /// Opens a device and creates a context of all devices of its platform.
    pub fn open(
        api: &'static OpenClApi,
        info: DeviceInfo,
        device: Object,
        of_platform: &[Object],
        kernels: Option<Rc<ScratchFolder>>,
    ) -> Result<Self, DeviceError> {
        let count = of_platform.len() as u32;
        let mut code = 0;
        // SAFETY: there are `count` devices, which have just been listed. There are no properties and no error
        // callback.
        let context = unsafe {
            (api.clCreateContext)(
                null(),
                count,
                of_platform.as_ptr(),
                None,
                null_mut(),
                &raw mut code,
            )
        };
        let context = created_object("clCreateContext", context, code)?;
        let context = Handle::new(context as usize, |raw| {
            // SAFETY: the handle owns the context; objects that were created in the context hold their own references
            // to it.
            unsafe { (api.clReleaseContext)(raw as Object) };
        });
        Ok(Self { api, info, device, context: Rc::new(context), _kernels: kernels })
    }

    fn context(&self) -> Object {
        self.context.raw as Object
    }

    /// Creates a buffer in memory of the driver, or in `pages`.
    fn buffer(
        &self,
        flags: u64,
        bytes: usize,
        pages: Option<&Arc<Mapping>>,
    ) -> Result<Handle, DeviceError> {
        let api = self.api;
        let mut code = 0;
        let start = pages.map_or(null_mut(), |pages| pages.at(0, bytes).as_ptr().cast());
        // SAFETY: the context lives. The memory belongs to the driver, or is at least `bytes` bytes of the mapping,
        // which lives as long as the buffer.
        let memory =
            unsafe { (api.clCreateBuffer)(self.context(), flags, bytes, start, &raw mut code) };
        let memory = created_object("clCreateBuffer", memory, code)?;
        let handle = Handle::new(memory as usize, |raw| {
            // SAFETY: the handle owns the memory.
            unsafe { (api.clReleaseMemObject)(raw as Object) };
        });
        if let Some(pages) = pages {
            let kept = Arc::into_raw(pages.clone()).cast_mut().cast();
            // SAFETY: the buffer lives; the callback gets the reference that it releases.
            let set =
                unsafe { (api.clSetMemObjectDestructorCallback)(memory, Some(release), kept) };
            if let Err(error) = check("clSetMemObjectDestructorCallback", set) {
                // SAFETY: the driver did not take the reference.
                unsafe { release(memory, kept) };
                return Err(error);
            }
        }
        Ok(handle)
    }

    /// Maps huge pages for a buffer of a CPU, because drivers do not request huge pages. The first kernel that writes
    /// the buffer touches the pages, so they are on the NUMA nodes of the driver's threads. Returns `None` for other
    /// devices, and if the memory is not available.
    fn pages(&self, bytes: usize) -> Option<Arc<Mapping>> {
        let is_cpu = self.info.class == DeviceClass::Cpu;
        is_cpu.then(|| Mapping::anonymous(bytes, PageSize::PreferHuge).ok()).flatten().map(Arc::new)
    }

    fn new_queue(&self) -> Result<OpenClQueue, DeviceError> {
        let api = self.api;
        let mut code = 0;
        // SAFETY: the context and the device live.
        let queue = unsafe {
            (api.clCreateCommandQueue)(
                self.context(),
                self.device,
                QUEUE_PROFILING_ENABLE,
                &raw mut code,
            )
        };
        let queue = created_object("clCreateCommandQueue", queue, code)?;
        let queue = Handle::new(queue as usize, |raw| {
            // SAFETY: the handle owns the queue.
            unsafe { (api.clReleaseCommandQueue)(raw as Object) };
        });
        Ok(OpenClQueue { api, queue })
    }

    /// Returns the compiler's log of a program.
    fn log(&self, program: Object) -> String {
        let log = super::info(|bytes, at, length| {
            // SAFETY: there is room for `bytes` bytes; the program and the device live.
            unsafe {
                (self.api.clGetProgramBuildInfo)(
                    program,
                    self.device,
                    PROGRAM_BUILD_LOG,
                    bytes,
                    at,
                    length,
                )
            }
        });
        words(&log.unwrap_or_default())
    }
}

impl OpenDevice for OpenClDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns `None`, because OpenCL has no such query. For a device that shares the host's memory, callers use the
    /// free memory of the host.
    fn free_memory(&self) -> Result<Option<Bytes>, DeviceError> {
        Ok(None)
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        if bytes as u64 > self.info.largest_allocation.0 {
            let error = DeviceError::new(FailureClass::OutOfMemory, NAME, "clCreateBuffer", 0);
            let asked = Bytes(bytes as u64);
            let max = self.info.largest_allocation;
            return Err(error.with_detail(format!("allocation of {asked}, at most {max}")));
        }
        let pages = self.pages(bytes);
        let flags = MEM_READ_WRITE | pages.as_ref().map_or(0, |_| MEM_USE_HOST_PTR);
        let handle = self.buffer(flags, bytes, pages.as_ref())?;
        // A buffer belongs to a context with several devices; the migration moves it to this device.
        let mut queue = self.new_queue()?;
        let memory = handle.raw as Object;
        let (events, list) = NO_EVENTS;
        // SAFETY: there is one buffer, whose content is undefined. The buffer and the queue live until the queue is
        // done.
        let code = unsafe {
            (self.api.clEnqueueMigrateMemObjects)(
                queue.object(),
                1,
                &raw const memory,
                0,
                events,
                list,
                null_mut(),
            )
        };
        check("clEnqueueMigrateMemObjects", code)?;
        queue.wait()?;
        Ok(DeviceBuffer { handle, pages, context: self.context.raw, bytes })
    }

    fn fill(&self, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        let mut queue = self.new_queue()?;
        let zero = 0u64;
        let (events, list) = NO_EVENTS;
        let end = buffer.bytes & !(size_of_val(&zero) - 1);
        for from in (0..end).step_by(CLEAR_CHUNK_BYTES) {
            DeviceError::check_end_request()?;
            // SAFETY: the part lies in the buffer, and its size is a multiple of that of the pattern.
            let code = unsafe {
                (self.api.clEnqueueFillBuffer)(
                    queue.object(),
                    buffer.handle.raw as Object,
                    (&raw const zero).cast(),
                    size_of_val(&zero),
                    from,
                    CLEAR_CHUNK_BYTES.min(end - from),
                    events,
                    list,
                    null_mut(),
                )
            };
            check("clEnqueueFillBuffer", code)?;
            queue.wait()?;
        }
        Ok(())
    }

    fn host(&self, bytes: usize, pinned: bool) -> Result<HostMemory, DeviceError> {
        if !pinned {
            return HostMemory::pageable(bytes);
        }
        // According to the vendors' guides, memory that the driver allocates and maps is pinned.
        let api = self.api;
        let mut code = 0;
        let buffer = self.buffer(MEM_READ_WRITE | MEM_ALLOC_HOST_PTR, bytes, None)?;
        let mut queue = self.new_queue()?;
        let (events, list) = NO_EVENTS;
        // SAFETY: the buffer is `bytes` long; the call waits until it is mapped.
        let start = unsafe {
            (api.clEnqueueMapBuffer)(
                queue.object(),
                buffer.raw as Object,
                1,
                MAP_READ_WRITE,
                0,
                bytes,
                events,
                list,
                null_mut(),
                &raw mut code,
            )
        };
        let start = created_object("clEnqueueMapBuffer", start, code)?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| DeviceError::new(FailureClass::Other, NAME, "clEnqueueMapBuffer", 0))?;
        let unmap = move |raw: usize| {
            // SAFETY: the buffer is mapped at this address and released after this call.
            unsafe {
                (api.clEnqueueUnmapMemObject)(
                    queue.object(),
                    buffer.raw as Object,
                    raw as Object,
                    events,
                    list,
                    null_mut(),
                );
            }
            let _ = queue.wait();
        };
        let pin = Handle::new(start.as_ptr() as usize, unmap);
        // SAFETY: the memory is mapped, `bytes` long, and not shared.
        unsafe { clear(start, bytes)? };
        Ok(HostMemory { start, bytes, pin: Some(pin), pages: None })
    }

    fn build(&self, source: &KernelSource) -> Result<DeviceProgram, DeviceError> {
        let api = self.api;
        let mut code = 0;
        let text = KernelSource::text();
        let lines = text.as_ptr().cast();
        let length = text.len();
        // SAFETY: there is one text of this length.
        let program = unsafe {
            (api.clCreateProgramWithSource)(
                self.context(),
                1,
                &raw const lines,
                &raw const length,
                &raw mut code,
            )
        };
        let program = created_object("clCreateProgramWithSource", program, code)?;
        let handle = Handle::new(program as usize, |raw| {
            // SAFETY: the handle owns the program; the program's kernels hold their own references to it.
            unsafe { (api.clReleaseProgram)(raw as Object) };
        });
        let options: Vec<String> = source
            .defines()
            .into_iter()
            .map(|(name, value)| format!("-D{name}={value}"))
            .chain(["-cl-mad-enable".to_owned()])
            .collect();
        let options = CString::new(options.join(" ")).unwrap_or_default();
        // SAFETY: there is one device, which lives. The options end with a zero byte, and there is no callback.
        let build_code = unsafe {
            (api.clBuildProgram)(
                program,
                1,
                &raw const self.device,
                options.as_ptr(),
                None,
                null_mut(),
            )
        };
        check("clBuildProgram", build_code).map_err(|error| {
            let log = self.log(program);
            let line =
                log.lines().find(|line| line.contains("error")).or_else(|| log.lines().next());
            error.with_detail(line.unwrap_or_default())
        })?;
        Ok(DeviceProgram(Rc::new(handle)))
    }

    fn kernel(&self, program: &DeviceProgram, name: &str) -> Result<DeviceKernel, DeviceError> {
        let api = self.api;
        let mut code = 0;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the program lives; the name ends with a zero byte.
        let kernel =
            unsafe { (api.clCreateKernel)(program.0.raw as Object, name.as_ptr(), &raw mut code) };
        let kernel = created_object("clCreateKernel", kernel, code)?;
        Ok(DeviceKernel(Handle::new(kernel as usize, |raw| {
            // SAFETY: the handle owns the kernel.
            unsafe { (api.clReleaseKernel)(raw as Object) };
        })))
    }

    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        Ok(Box::new(self.new_queue()?))
    }
}
