//! Traits of a back end. A [`Driver`] lists and opens devices; an [`OpenDevice`] provides memory, programs and queues;
//! a [`Queue`] runs work asynchronously.
//!
//! The traits make few assumptions about the processor: device memory has no address and no pages, and calls that
//! enqueue work return immediately. A back end is a module that implements the three traits.

use crate::info::{DeviceInfo, DeviceReading};
use crate::kernels::KernelSource;
use nodegauge_measure::{Bytes, Seconds};
use nodegauge_os::{Mapping, PageSize};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

/// Driver of devices, whose library is loaded at run time.
pub trait Driver {
    /// Returns the driver's name, which is the first part of device names: `opencl`, `cuda`, `hip`.
    fn name(&self) -> &'static str;

    /// Lists the devices in the driver's order, without creating a context.
    ///
    /// # Errors
    /// Fails if the driver returns an error. If there is no device, the error is [`FailureClass::NoDevice`].
    fn devices(&self) -> Result<Vec<DeviceInfo>, DeviceError>;

    /// Opens the device with this index in the list of [`Self::devices`].
    ///
    /// # Errors
    /// Fails if the device is missing or in exclusive use by another process.
    fn open(&self, index: usize) -> Result<Box<dyn OpenDevice>, DeviceError>;
}

/// Device that is open for measurements.
pub trait OpenDevice {
    /// Returns the properties of the device.
    fn info(&self) -> &DeviceInfo;

    /// Returns the free device memory; `None` if the driver does not report it.
    ///
    /// # Errors
    /// Fails if the driver returns an error.
    fn free_memory(&self) -> Result<Option<Bytes>, DeviceError>;

    /// Returns the current clocks, the reasons for reduced clocks, and the counts of memory errors; `None` if they
    /// cannot be read.
    fn state(&self) -> Option<DeviceReading> {
        None
    }

    /// Allocates device memory with undefined content.
    ///
    /// # Errors
    /// Fails if the device has too little memory.
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError>;

    /// Fills device memory with zeros, for drivers that allocate memory only when it is accessed. Otherwise, the first
    /// copy would include the time of the allocation.
    ///
    /// Fails if the driver returns an error, or if the user interrupts the run; in this case, only part of the memory
    /// is zero.
    fn fill(&self, _: &DeviceBuffer) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Allocates host memory for copies and fills it with zeros, which places the pages according to the NUMA policy of
    /// the calling thread. The device can access `pinned` memory directly.
    ///
    /// # Errors
    /// Fails if the host has too little memory, or if the memory cannot be pinned.
    fn host(&self, bytes: usize, pinned: bool) -> Result<HostMemory, DeviceError>;

    /// Compiles the loops.
    ///
    /// # Errors
    /// Returns [`FailureClass::Build`] with a line of the compiler's log.
    fn build(&self, source: &KernelSource) -> Result<DeviceProgram, DeviceError>;

    /// Looks up a kernel of a program by name.
    ///
    /// # Errors
    /// Fails if the program has no kernel of this name.
    fn kernel(&self, program: &DeviceProgram, name: &str) -> Result<DeviceKernel, DeviceError>;

    /// Creates an in-order queue, whose work runs concurrently with the work of other queues.
    ///
    /// # Errors
    /// Fails if the driver returns an error.
    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError>;

    /// Opens the vendor's BLAS library; `None` if it is not installed.
    ///
    /// # Errors
    /// Fails if the library is installed but does not work.
    fn blas(&self) -> Result<Option<Box<dyn Blas>>, DeviceError> {
        Ok(None)
    }
}

/// In-order queue of a device.
pub trait Queue {
    /// Enqueues a kernel.
    ///
    /// # Errors
    /// Fails if the driver returns an error.
    ///
    /// # Safety
    /// `args` must match the kernel's parameters. Each buffer must contain all bytes that the kernel accesses, and must
    /// live until [`Self::wait`] has returned.
    unsafe fn launch(
        &mut self,
        kernel: &DeviceKernel,
        args: &[Arg<'_>],
        grid: LaunchGrid,
    ) -> Result<(), DeviceError>;

    /// Enqueues a copy of the first `bytes` bytes of a buffer.
    ///
    /// # Errors
    /// Fails if the driver returns an error.
    ///
    /// # Safety
    /// Source and destination must live until [`Self::wait`] has returned, and the host memory must not be used until
    /// then.
    unsafe fn copy(&mut self, copy: BufferCopy<'_>, bytes: usize) -> Result<(), DeviceError>;

    /// Returns the driver's handle of the queue, for libraries that enqueue work; 0 if no library uses the queue.
    fn raw(&self) -> usize {
        0
    }

    /// Enqueues an event. The device records when all work before the event is done.
    ///
    /// # Errors
    /// Fails if the driver returns an error.
    fn enqueue_event(&mut self) -> Result<QueueEvent, DeviceError>;

    /// Submits the enqueued work to the device.
    ///
    /// # Errors
    /// Fails if the driver returns an error.
    fn submit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Waits until all work of the queue is done.
    ///
    /// # Errors
    /// Returns the failure of the device.
    fn wait(&mut self) -> Result<(), DeviceError>;

    /// Returns the time between two completed events, measured with the device's clock.
    ///
    /// # Errors
    /// Fails if the device does not report the times of events.
    fn seconds_between(&self, from: &QueueEvent, to: &QueueEvent) -> Result<Seconds, DeviceError>;
}

/// BLAS library of the device's vendor.
pub trait Blas {
    /// Returns the name and version of the library.
    fn name(&self) -> String;

    /// Enqueues the product `c = a b` of square matrices of order `n` in double precision. `queue` must be a queue of
    /// this device.
    ///
    /// # Errors
    /// Fails if the library returns an error.
    ///
    /// # Safety
    /// The requirements are those of [`Queue::launch`]. Each buffer must contain `n * n` numbers.
    unsafe fn dgemm(
        &mut self,
        queue: &mut dyn Queue,
        n: usize,
        matrices: [&DeviceBuffer; 3],
    ) -> Result<(), DeviceError>;
}

/// Grid of a kernel launch: number of work-groups and of work-items per group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchGrid {
    /// Number of work-groups (blocks).
    pub groups: usize,
    /// Number of work-items (threads) per group.
    pub items: usize,
    /// True if the driver selects the group size.
    pub driver_groups: bool,
}

impl LaunchGrid {
    /// Returns a grid of `groups` groups with `items` work-items each.
    pub fn new(groups: usize, items: usize) -> Self {
        Self { groups, items, driver_groups: false }
    }

    /// Returns a grid of `items` work-items in groups that the driver selects.
    pub fn sized_by_driver(items: usize) -> Self {
        Self { groups: items, items: 1, driver_groups: true }
    }
}

/// Argument of a kernel.
#[derive(Debug)]
pub enum Arg<'a> {
    /// Buffer in device memory.
    Memory(&'a DeviceBuffer),
    /// Value of type `ulong`.
    U64(u64),
    /// Value of type `double`.
    F64(f64),
    /// Value of type `float`.
    F32(f32),
}

impl Arg<'_> {
    /// Returns the address and the length of the argument's value, as drivers require them.
    pub fn raw_parts(&self) -> (*const c_void, usize) {
        match self {
            Self::Memory(memory) => ((&raw const memory.handle.raw).cast(), size_of::<usize>()),
            Self::U64(value) => (std::ptr::from_ref(value).cast(), 8),
            Self::F64(value) => (std::ptr::from_ref(value).cast(), 8),
            Self::F32(value) => (std::ptr::from_ref(value).cast(), 4),
        }
    }
}

/// Source and destination of a copy.
#[derive(Debug, Clone, Copy)]
pub enum BufferCopy<'a> {
    /// Copy from the host to a device.
    HostToDevice(&'a HostMemory, &'a DeviceBuffer),
    /// Copy from a device to the host.
    DeviceToHost(&'a DeviceBuffer, &'a HostMemory),
    /// Copy within a device, or to another device of the same driver.
    DeviceToDevice(&'a DeviceBuffer, &'a DeviceBuffer),
}

/// Object of a driver that is released when this handle is dropped.
pub struct Handle {
    /// Number or address by which the driver identifies the object.
    pub raw: usize,
    release: Option<Box<dyn FnOnce(usize)>>,
}

impl Handle {
    /// Creates a handle for an object; `release` is called to release it.
    pub fn new(raw: usize, release: impl FnOnce(usize) + 'static) -> Self {
        Self { raw, release: Some(Box::new(release)) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(self.raw);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.raw)
    }
}

/// Buffer in device memory.
#[derive(Debug)]
pub struct DeviceBuffer {
    /// Driver's handle of the buffer.
    pub handle: Handle,
    /// Pages of the buffer, unless the driver allocated them.
    pub pages: Option<Arc<Mapping>>,
    /// Context of the device, for copies between devices.
    pub context: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// Program with compiled loops. The kernels may share the handle, because some drivers release the kernels of a program
/// together with the program.
#[derive(Debug)]
pub struct DeviceProgram(pub Rc<Handle>);

/// Kernel of a program. It may outlive the program.
#[derive(Debug)]
pub struct DeviceKernel(pub Handle);

/// Event in a queue; the device records when all earlier work is done.
#[derive(Debug)]
pub struct QueueEvent(pub Handle);

/// Host memory that a device copies from or to.
#[derive(Debug)]
pub struct HostMemory {
    /// Address of the first byte.
    pub start: NonNull<u8>,
    /// Length in bytes.
    pub bytes: usize,
    /// Handle that unpins or frees the memory when it is dropped; it is dropped before `pages`.
    pub pin: Option<Handle>,
    /// Pages of the memory, unless the driver allocated them.
    pub pages: Option<Mapping>,
}

impl DeviceBuffer {
    /// Returns the driver's handle for a copy of this length.
    ///
    /// Panics if the buffer is shorter than the copy.
    pub fn handle_for(&self, bytes: usize) -> usize {
        assert!(bytes <= self.bytes, "{bytes} B do not fit in a buffer of {} B", self.bytes);
        self.handle.raw
    }
}

impl HostMemory {
    /// Returns the address for a copy of this length.
    ///
    /// Panics if the memory is shorter than the copy.
    pub fn address_for(&self, bytes: usize) -> *mut c_void {
        assert!(bytes <= self.bytes, "{bytes} B do not fit in a buffer of {} B", self.bytes);
        self.start.as_ptr().cast()
    }

    /// Maps anonymous memory and touches its pages.
    ///
    /// Fails if the operating system has too little memory, or if the user interrupts the run.
    pub fn pageable(bytes: usize) -> Result<Self, DeviceError> {
        let pages = Mapping::anonymous(bytes, PageSize::PreferHuge).map_err(|error| {
            DeviceError::new(FailureClass::OutOfMemory, "host", "mmap", 0).with_detail(error)
        })?;
        let start = pages.at(0, bytes);
        // SAFETY: the mapping is new and `bytes` long.
        unsafe { clear(start, bytes)? };
        Ok(Self { start, bytes, pin: None, pages: Some(pages) })
    }
}

/// Size of the part of memory that is cleared between two checks for an interruption.
pub(crate) const CLEAR_CHUNK_BYTES: usize = 16 << 20;

/// Sets host memory to zero.
///
/// Fails if the user interrupts the run; in this case, only part of the memory is zero.
///
/// # Safety
/// The memory must be writable, `bytes` long, and not shared.
pub(crate) unsafe fn clear(start: NonNull<u8>, bytes: usize) -> Result<(), DeviceError> {
    for from in (0..bytes).step_by(CLEAR_CHUNK_BYTES) {
        DeviceError::check_end_request()?;
        let length = CLEAR_CHUNK_BYTES.min(bytes - from);
        // SAFETY: the part lies in the memory.
        unsafe { start.add(from).write_bytes(0, length) };
    }
    Ok(())
}

/// Class of a failure. It alone determines how a command reacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FailureClass {
    /// The driver's library is not installed.
    NoDriver,
    /// The OpenCL loader is installed, but no driver is registered with it.
    NoPlatform,
    /// The driver is too old for a requested function or for the device.
    TooOld,
    /// The driver has no device, or none that is visible to this process.
    NoDevice,
    /// This process has no permission to use the device file.
    NotAllowed,
    /// The memory is exhausted.
    OutOfMemory,
    /// Another process uses the device exclusively.
    InUse,
    /// The device failed and no longer responds.
    Lost,
    /// The device memory has an uncorrectable error.
    Ecc,
    /// A kernel cannot be built or loaded.
    Build,
    /// The device or the driver does not support an operation.
    Unsupported,
    /// Any other failure.
    Other,
}

/// Failure of a driver.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeviceError {
    /// Class of the failure.
    pub kind: FailureClass,
    /// Name of the driver, e.g. `opencl`.
    pub driver: String,
    /// Name of the call or library that failed.
    pub call: String,
    /// Error code of the driver; 0 if it returned none.
    pub code: i64,
    /// Further information on one line, e.g. the first line of a compiler's log.
    pub detail: String,
}

impl DeviceError {
    /// Creates a failure of `call` with the driver's error code.
    pub fn new(kind: FailureClass, driver: &str, call: impl Into<String>, code: i64) -> Self {
        Self { kind, driver: driver.to_owned(), call: call.into(), code, detail: String::new() }
    }

    /// Returns an error if the user requested the end of the run. A set-up calls this before each long step, because
    /// some drivers take seconds to compile or to map memory.
    ///
    /// Fails if the run must end.
    pub(crate) fn check_end_request() -> Result<(), Self> {
        if nodegauge_os::is_end_requested() {
            return Err(Self::new(FailureClass::Other, "", "interrupted", 0));
        }
        Ok(())
    }

    /// Adds further information to the failure.
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = detail.to_string();
        self
    }

    /// Returns a hint for the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        self.meaning_and_hint().1
    }

    /// Returns the meaning of the failure and a hint, if there is any.
    fn meaning_and_hint(&self) -> (&'static str, Option<&'static str>) {
        match self.kind {
            FailureClass::NoDriver => ("the driver's library is not installed", None),
            FailureClass::NoPlatform => (
                "no OpenCL driver is registered with the loader",
                Some(
                    "install an OpenCL driver, e.g. pocl-opencl-icd, and check that its .icd file is in /etc/OpenCL/vendors or in the folder of OCL_ICD_VENDORS",
                ),
            ),
            FailureClass::TooOld => ("the driver is too old", Some("update the driver")),
            FailureClass::NoDevice => (
                "there is no device",
                Some(
                    "check that lspci lists the device and that CUDA_VISIBLE_DEVICES or a similar variable does not hide it",
                ),
            ),
            FailureClass::NotAllowed => (
                "no permission to use the device",
                Some("check the permissions of the device files in /dev and the cgroup of the job"),
            ),
            FailureClass::OutOfMemory => (
                "not enough memory",
                Some("use smaller arrays (--size), or end other programs on the device"),
            ),
            FailureClass::InUse => (
                "the device is in exclusive use by another process",
                Some("end that process, or set the device to the default compute mode"),
            ),
            FailureClass::Lost => (
                "the device was lost during the measurement",
                Some("check the kernel log (dmesg); the device may need a reset"),
            ),
            FailureClass::Ecc => (
                "the device memory has an uncorrectable error",
                Some("reset the device; replace it if the error occurs again"),
            ),
            FailureClass::Build => ("a kernel cannot be built", None),
            FailureClass::Unsupported => ("not supported by the device", None),
            FailureClass::Other => ("the driver failed", None),
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (meaning, _) = self.meaning_and_hint();
        write!(f, "{}: {meaning} ({}", self.driver, self.call)?;
        match self.code {
            0 => write!(f, ")")?,
            code => write!(f, ": {code})")?,
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for DeviceError {}
