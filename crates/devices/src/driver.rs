//! What devices are reached through: a [`Driver`] lists and opens them, an opened [`Device`] has memory,
//! programs and queues, and a [`Queue`] takes work that it does later.
//!
//! Nothing here assumes a processor: memory of a device has no address and no pages, and what is put in a
//! queue returns at once. A back end is one module that implements the three traits.

use crate::info::{DeviceInfo, DeviceState};
use crate::kernels::KernelSource;
use nodegauge_measure::{Bytes, Seconds};
use nodegauge_os::{Mapping, PageSize};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

/// A driver's library, loaded at run time.
pub trait Driver {
    /// Its name in the names of devices: `opencl`, `cuda`, `hip`.
    fn name(&self) -> &'static str;

    /// What it can reach, in its own order; no context is made.
    ///
    /// # Errors
    /// When the driver refuses; no device at all is [`Kind::NoDevice`].
    fn devices(&self) -> Result<Vec<DeviceInfo>, DeviceError>;

    /// Opens a device by its place in that list.
    ///
    /// # Errors
    /// When there is none, or another process has it to itself.
    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError>;
}

/// A device that was opened.
pub trait Device {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Memory that is free now; `None` where the driver does not say.
    ///
    /// # Errors
    /// When the driver fails.
    fn free_memory(&self) -> Result<Option<Bytes>, DeviceError>;

    /// Clocks, what slows them, and errors of the memory, as they are now; `None` where nothing tells.
    fn state(&self) -> Option<DeviceState> {
        None
    }

    /// Memory of the device, of no content.
    ///
    /// # Errors
    /// When there is too little.
    fn allocate(&self, bytes: usize) -> Result<Memory, DeviceError>;

    /// Memory of the host to copy from and to, filled with zeros, so that its pages are there: where the NUMA
    /// policy of the calling thread has them. Pinned memory is what the driver can let the device read by itself.
    ///
    /// # Errors
    /// When there is too little, or it cannot be pinned.
    fn host(&self, bytes: usize, pinned: bool) -> Result<HostMemory, DeviceError>;

    /// Builds loops.
    ///
    /// # Errors
    /// [`Kind::Build`] with the compiler's words.
    fn build(&self, source: &KernelSource) -> Result<Program, DeviceError>;

    /// A kernel of a program by its name.
    ///
    /// # Errors
    /// When there is none of this name.
    fn kernel(&self, program: &Program, name: &str) -> Result<Kernel, DeviceError>;

    /// A new queue, whose work is done in order, and beside that of others.
    ///
    /// # Errors
    /// When the driver fails.
    fn queue(&self) -> Result<Box<dyn Queue>, DeviceError>;

    /// Products of matrices by the vendor's library; `None` where there is none.
    ///
    /// # Errors
    /// When it is there and does not work.
    fn blas(&self) -> Result<Option<Box<dyn Blas>>, DeviceError> {
        Ok(None)
    }
}

/// A queue of a device.
pub trait Queue {
    /// Puts a kernel in the queue.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// `args` are what the kernel takes, memories are as long as it goes, and live until [`Self::wait`] has
    /// returned.
    unsafe fn launch(
        &mut self,
        kernel: &Kernel,
        args: &[Arg<'_>],
        grid: Grid,
    ) -> Result<(), DeviceError>;

    /// Puts a copy of the first `bytes` bytes in the queue.
    ///
    /// # Errors
    /// When the driver refuses.
    ///
    /// # Safety
    /// Both ends live until [`Self::wait`] has returned, and nobody uses the host's meanwhile.
    unsafe fn copy(&mut self, copy: Copy<'_>, bytes: usize) -> Result<(), DeviceError>;

    /// What the driver knows it by, for libraries that put work in it; 0 where there are none.
    fn raw(&self) -> usize {
        0
    }

    /// Puts a mark in the queue: the time at which all before it is done.
    ///
    /// # Errors
    /// When the driver refuses.
    fn mark(&mut self) -> Result<Mark, DeviceError>;

    /// Lets the device begin with what is in the queue.
    ///
    /// # Errors
    /// When the driver fails.
    fn submit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Waits until all in the queue is done.
    ///
    /// # Errors
    /// What went wrong on the device.
    fn wait(&mut self) -> Result<(), DeviceError>;

    /// The device's own time between two marks that are done.
    ///
    /// # Errors
    /// When the device does not say.
    fn between(&self, from: &Mark, to: &Mark) -> Result<Seconds, DeviceError>;
}

/// Products of matrices by a library of the device's vendor.
pub trait Blas {
    /// The library with its version.
    fn name(&self) -> String;

    /// Puts `c = a b` of square matrices of order `n` in double precision in `queue`, of the same device.
    ///
    /// # Errors
    /// When the library refuses.
    ///
    /// # Safety
    /// As for [`Queue::launch`]; each memory holds `n * n` numbers.
    unsafe fn dgemm(
        &mut self,
        queue: &mut dyn Queue,
        n: usize,
        matrices: [&Memory; 3],
    ) -> Result<(), DeviceError>;
}

/// Work-items: groups, and items of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Work-groups (blocks).
    pub groups: usize,
    /// Work-items (threads) of a group.
    pub items: usize,
}

/// An argument of a kernel.
#[derive(Debug)]
pub enum Arg<'a> {
    /// Memory of the device.
    Memory(&'a Memory),
    /// `ulong`
    U64(u64),
    /// `double`
    F64(f64),
    /// `float`
    F32(f32),
}

impl Arg<'_> {
    /// Where its value is, and how long that is, as drivers take arguments.
    pub fn value(&self) -> (*const c_void, usize) {
        match self {
            Self::Memory(memory) => ((&raw const memory.handle.raw).cast(), size_of::<usize>()),
            Self::U64(value) => (std::ptr::from_ref(value).cast(), 8),
            Self::F64(value) => (std::ptr::from_ref(value).cast(), 8),
            Self::F32(value) => (std::ptr::from_ref(value).cast(), 4),
        }
    }
}

/// From where to where a copy goes.
#[derive(Debug)]
pub enum Copy<'a> {
    /// Host to device.
    In(&'a HostMemory, &'a Memory),
    /// Device to host.
    Out(&'a Memory, &'a HostMemory),
    /// From a device of the driver to the same or another one of it.
    Across(&'a Memory, &'a Memory),
}

/// A thing of the driver, which is released when it is dropped.
pub struct Handle {
    /// The driver's own number or address of it.
    pub raw: usize,
    release: Option<Box<dyn FnOnce(usize)>>,
}

impl Handle {
    /// A thing that `release` gives back.
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

/// Memory of a device.
#[derive(Debug)]
pub struct Memory {
    /// What the driver knows it by.
    pub handle: Handle,
    /// The device's context, for copies between devices.
    pub context: usize,
    /// Its length.
    pub bytes: usize,
}

/// Loops that were built.
#[derive(Debug)]
pub struct Program(pub Handle);

/// A kernel of a program; it may outlive it.
#[derive(Debug)]
pub struct Kernel(pub Handle);

/// A place in a queue.
#[derive(Debug)]
pub struct Mark(pub Handle);

/// Memory of the host that a device copies from or to.
#[derive(Debug)]
pub struct HostMemory {
    /// Its first byte.
    pub start: NonNull<u8>,
    /// Its length.
    pub bytes: usize,
    /// What unpins or frees it; dropped before `pages`.
    pub pin: Option<Handle>,
    /// Its pages, where the driver did not allocate them.
    pub pages: Option<Mapping>,
}

impl HostMemory {
    /// Memory as a program gets it from the kernel, touched.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub fn pageable(bytes: usize) -> Result<Self, DeviceError> {
        let no_memory =
            |error| DeviceError::new(Kind::OutOfMemory, "host", "mmap", 0).saying(error);
        let pages = Mapping::anonymous(bytes, PageSize::PreferHuge).map_err(no_memory)?;
        let start = pages.at(0, bytes);
        // SAFETY: the mapping is new, and so long.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { start, bytes, pin: None, pages: Some(pages) })
    }
}

/// What kind of failure it is; what a command does about it hangs on this alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// The driver's library is not there.
    NoDriver,
    /// It is older than what is asked of it, or than the device.
    TooOld,
    /// The driver has no device, or none that this process may see.
    NoDevice,
    /// This process may not use the device file.
    NotAllowed,
    /// No memory left.
    OutOfMemory,
    /// Another process has the device to itself.
    InUse,
    /// The device failed and does not answer any more.
    Lost,
    /// Its memory has an error that could not be corrected.
    Ecc,
    /// A kernel does not build or load.
    Build,
    /// Something that this device or its driver cannot do.
    Unsupported,
    /// Anything else.
    Other,
}

/// A failure of a driver.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DeviceError {
    /// What it means.
    pub kind: Kind,
    /// The driver, e.g. `opencl`.
    pub driver: String,
    /// What failed: a call, or a library.
    pub call: String,
    /// The driver's own number; 0 where it gave none.
    pub code: i64,
    /// More in a line, e.g. the first one of a compiler's log.
    pub detail: String,
}

impl DeviceError {
    /// A failure of `call` with the driver's number.
    pub fn new(kind: Kind, driver: &str, call: impl Into<String>, code: i64) -> Self {
        let (driver, call) = (driver.to_owned(), call.into());
        Self { kind, driver, call, code, detail: String::new() }
    }

    /// The same with more words.
    pub fn saying(mut self, detail: impl fmt::Display) -> Self {
        self.detail = detail.to_string();
        self
    }

    /// Returns what to do about it, where something is known.
    pub fn hint(&self) -> Option<&'static str> {
        self.words().1
    }

    /// What it means, and what can be done, where that is known.
    fn words(&self) -> (&'static str, Option<&'static str>) {
        match self.kind {
            Kind::NoDriver => ("the driver's library is not installed", None),
            Kind::TooOld => ("the driver is too old", Some("update the driver")),
            Kind::NoDevice => (
                "there is no device",
                Some(
                    "see that the device is there (lspci) and that CUDA_VISIBLE_DEVICES and the like do not hide it",
                ),
            ),
            Kind::NotAllowed => (
                "the device may not be used",
                Some("see the permissions of the device files in /dev, and the cgroup of the job"),
            ),
            Kind::OutOfMemory => (
                "not enough memory",
                Some("give smaller arrays (--size), or end what else uses the device"),
            ),
            Kind::InUse => (
                "the device is in use by another process, which has it to itself",
                Some("end it, or ask for the default compute mode"),
            ),
            Kind::Lost => (
                "the device was lost while it measured",
                Some("see the kernel's log (dmesg); it may need a reset"),
            ),
            Kind::Ecc => (
                "the device's memory has an error that could not be corrected",
                Some("reset the device; one that fails again is to be replaced"),
            ),
            Kind::Build => ("a kernel does not build", None),
            Kind::Unsupported => ("the device cannot do this", None),
            Kind::Other => ("the driver failed", None),
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (meaning, _) = self.words();
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
