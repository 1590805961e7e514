//! Open device of CUDA or HIP: context, memory, modules and streams.

use super::api::CudaApi;
use super::blas::VendorBlas;
use super::compile;
use super::context::Context;
use crate::driver::{
    Arg, Blas, BufferCopy, DeviceBuffer, DeviceError, DeviceKernel, DeviceProgram, Handle,
    HostMemory, LaunchGrid, OpenDevice, Queue, QueueEvent,
};
use crate::info::{DeviceInfo, DeviceReading};
use crate::kernels::KernelSource;
use nodegauge_machine::devices::nvml::Nvml;
use nodegauge_measure::{Bytes, Seconds};
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

/// Flag for streams that do not wait for the default stream (`CU_STREAM_NON_BLOCKING`).
const NON_BLOCKING: u32 = 1;
/// Flag for pinning memory for all contexts (`CU_MEMHOSTREGISTER_PORTABLE`).
const PORTABLE: u32 = 1;
/// Options `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const LOG_OPTIONS: [c_int; 2] = [5, 6];

/// Open device with its primary context.
pub struct VendorDevice {
    context: Context,
    info: DeviceInfo,
    /// Target architecture of compiled code, e.g. `sm_90`; `None` if the compiler itself queries the device.
    architecture: Option<String>,
    /// NVML library, which reports clocks and memory errors.
    management: Option<Nvml>,
}

impl VendorDevice {
    /// Opens the device with the driver's number `number`.
    ///
    /// # Errors
    /// Fails if another process uses the device exclusively, or if there is no memory for a context.
    pub fn open(
        api: &'static CudaApi,
        number: c_int,
        info: DeviceInfo,
        architecture: Option<String>,
        management: Option<Nvml>,
    ) -> Result<Self, DeviceError> {
        let mut raw = 0;
        // SAFETY: the call writes the context.
        unsafe { api.retain(&raw mut raw, number)? };
        Ok(Self { context: Context { api, raw }, info, architecture, management })
    }

    fn load(&self, image: &compile::DeviceCode) -> Result<DeviceProgram, DeviceError> {
        let api = self.context.enter()?;
        let mut log = vec![0u8; 8 << 10];
        let mut names = LOG_OPTIONS;
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut module = 0;
        // SAFETY: the type `DeviceCode` guarantees complete code; the log has the given length.
        let loaded = unsafe {
            api.module(
                &raw mut module,
                image.bytes().as_ptr().cast(),
                names.len() as u32,
                names.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        loaded.map_err(|error| match super::api::text_from_bytes(&log).lines().next() {
            Some(line) if !line.is_empty() => error.with_detail(line),
            _ => error,
        })?;
        Ok(DeviceProgram(Rc::new(self.context.create_handle(module, CudaApi::module_unload))))
    }
}

impl OpenDevice for VendorDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&self) -> Result<Option<Bytes>, DeviceError> {
        let api = self.context.enter()?;
        let mut free = 0;
        let mut all = 0;
        // SAFETY: the call writes both numbers.
        unsafe { api.memory_info(&raw mut free, &raw mut all)? };
        Ok(Some(Bytes(free as u64)))
    }

    fn state(&self) -> Option<DeviceReading> {
        let gpu = self.management.as_ref()?.gpu_state(self.info.pci.as_deref()?)?;
        // One of the listed processes is this process. It cannot be identified by its ID, which may differ in the
        // driver's PID namespace. Processes on other slices do not affect this slice.
        let processes = gpu.processes.as_ref().filter(|_| self.info.slice.is_none());
        let others = processes.map(|all| all.len().saturating_sub(1) as u32);
        Some(DeviceReading {
            slowed_by: gpu.clock_limit_reasons().into_iter().map(str::to_owned).collect(),
            clock: gpu.clock.map(|clock| clock.now),
            memory_clock: gpu.memory_clock.map(|clock| clock.now),
            corrected: gpu.corrected,
            uncorrected: gpu.uncorrected,
            others,
        })
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        let api = self.context.enter()?;
        let mut at = 0;
        // SAFETY: the call writes the address.
        unsafe { api.allocate(&raw mut at, bytes) }
            .map_err(|error| error.with_detail(format!("allocation of {}", Bytes(bytes as u64))))?;
        let handle = self.context.create_handle(at, CudaApi::free);
        Ok(DeviceBuffer { handle, pages: None, context: self.context.raw, bytes })
    }

    fn host(&self, bytes: usize, pinned: bool) -> Result<HostMemory, DeviceError> {
        let mut memory = HostMemory::pageable(bytes)?;
        if pinned {
            let api = self.context.enter()?;
            let start = memory.start.as_ptr();
            // SAFETY: the memory is `bytes` long and lives until it is unpinned.
            unsafe { api.register(start.cast(), bytes, PORTABLE)? };
            // SAFETY: the memory is pinned and is unpinned only once.
            let unpin =
                |loaded: &CudaApi, raw: usize| unsafe { loaded.unregister(raw as *mut c_void) };
            memory.pin = Some(self.context.create_handle(start as usize, unpin));
        }
        Ok(memory)
    }

    fn build(&self, source: &KernelSource) -> Result<DeviceProgram, DeviceError> {
        self.context.enter()?;
        let dialect = self.context.api.dialect;
        // The included PTX is used if the compiler does not support the device, or if the driver is too old for the
        // compiler's output.
        let compiled = compile::compile_at_run_time(dialect, source, self.architecture.as_deref());
        let compiled = compiled.and_then(|image| self.load(&image));
        match compile::embedded_ptx(dialect, source) {
            Some(assembly) => compiled.or_else(|_| self.load(&assembly)),
            None => compiled,
        }
    }

    fn kernel(&self, program: &DeviceProgram, name: &str) -> Result<DeviceKernel, DeviceError> {
        let api = self.context.enter()?;
        let mut function = 0;
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: the module lives; the name ends with a zero byte.
        unsafe { api.function(&raw mut function, program.0.raw, text.as_ptr()) }
            .map_err(|error| error.with_detail(name))?;
        // A function belongs to its module, which must stay loaded until the last launch.
        let module = program.0.clone();
        Ok(DeviceKernel(Handle::new(function, |_| drop(module))))
    }

    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError> {
        let api = self.context.enter()?;
        let mut stream = 0;
        // SAFETY: the call writes the stream.
        unsafe { api.stream(&raw mut stream, NON_BLOCKING)? };
        let stream = self.context.create_handle(stream, CudaApi::stream_destroy);
        Ok(Box::new(Stream { context: self.context, stream, reached: Vec::new() }))
    }

    fn blas(&self) -> Result<Option<Box<dyn Blas>>, DeviceError> {
        self.context.enter()?;
        let blas = VendorBlas::open(self.context)?;
        Ok(blas.map(|blas| Box::new(blas) as Box<dyn Blas>))
    }
}

/// Queue that uses a stream of a context.
struct Stream {
    context: Context,
    stream: Handle,
    /// Contexts whose memory this context can access directly.
    reached: Vec<usize>,
}

impl Stream {
    /// Enables direct access to the memory of another device. If this fails, the driver copies through the host.
    fn reach(&mut self, context: usize) {
        if context != self.context.raw && !self.reached.contains(&context) {
            self.reached.push(context);
            // SAFETY: both contexts are retained until the program ends.
            let _ = unsafe { self.context.api.enable_peer(context, 0) };
        }
    }
}

impl Queue for Stream {
    fn raw(&self) -> usize {
        self.stream.raw
    }

    unsafe fn launch(
        &mut self,
        kernel: &DeviceKernel,
        args: &[Arg<'_>],
        grid: LaunchGrid,
    ) -> Result<(), DeviceError> {
        let api = self.context.enter()?;
        if grid.driver_groups {
            return Err(api.dialect.unsupported_error("launch", "groups that the driver selects"));
        }
        let mut args: Vec<*mut c_void> =
            args.iter().map(|arg| arg.raw_parts().0.cast_mut()).collect();
        let groups = grid.groups as u32;
        let items = grid.items as u32;
        let function = kernel.0.raw;
        let stream = self.stream.raw;
        let args = args.as_mut_ptr();
        // SAFETY: the caller guarantees that the arguments are valid; the call reads them before it returns.
        unsafe { api.launch(function, groups, 1, 1, items, 1, 1, 0, stream, args, null_mut()) }
    }

    unsafe fn copy(&mut self, copy: BufferCopy<'_>, bytes: usize) -> Result<(), DeviceError> {
        let api = self.context.enter()?;
        let stream = self.stream.raw;
        // SAFETY: the buffers are long enough, and the caller guarantees that they live.
        unsafe {
            match copy {
                BufferCopy::HostToDevice(from, to) => {
                    api.copy_in(to.handle_for(bytes), from.address_for(bytes), bytes, stream)
                }
                BufferCopy::DeviceToHost(from, to) => {
                    api.copy_out(to.address_for(bytes), from.handle_for(bytes), bytes, stream)
                }
                BufferCopy::DeviceToDevice(from, to) => {
                    self.reach(from.context);
                    self.reach(to.context);
                    let from = from.handle_for(bytes);
                    api.copy_across(to.handle_for(bytes), from, bytes, stream)
                }
            }
        }
    }

    fn enqueue_event(&mut self) -> Result<QueueEvent, DeviceError> {
        let api = self.context.enter()?;
        let mut event = 0;
        // SAFETY: the call writes the event.
        unsafe { api.event(&raw mut event, 0)? };
        let mark = QueueEvent(self.context.create_handle(event, CudaApi::event_destroy));
        // SAFETY: the event and the stream live.
        unsafe { api.event_record(event, self.stream.raw)? };
        Ok(mark)
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        let api = self.context.enter()?;
        // SAFETY: the stream lives.
        unsafe { api.stream_wait(self.stream.raw) }
    }

    fn seconds_between(&self, from: &QueueEvent, to: &QueueEvent) -> Result<Seconds, DeviceError> {
        let mut millis = 0f32;
        // SAFETY: the events live; the call writes the time.
        unsafe { self.context.enter()?.event_elapsed(&raw mut millis, from.0.raw, to.0.raw)? };
        Ok(Seconds(f64::from(millis) / 1e3))
    }
}
