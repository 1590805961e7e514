//! Properties and state of a device, as plain data that a child process can serialize.

use nodegauge_measure::record::TheoreticalValue;
use nodegauge_measure::{Bytes, Hertz};
use serde::{Deserialize, Serialize};

/// Class of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DeviceClass {
    /// The host's processor, used through OpenCL.
    Cpu,
    /// A GPU.
    #[default]
    Gpu,
    /// Another accelerator with separate memory.
    Accelerator,
}

/// Properties of a device. A property is `None` if the driver does not report it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Driver, e.g. `opencl`.
    pub driver: String,
    /// Index in the driver's list.
    pub index: usize,
    /// Name that the vendor gave the device.
    pub name: String,
    /// Class of the device.
    pub class: DeviceClass,
    /// Driver and version, e.g. `OpenCL 3.0 PoCL 3.1`.
    pub driver_version: String,
    /// Unique identifier that the vendor assigned.
    pub uuid: Option<String>,
    /// Address on the PCI bus, e.g. `0000:17:00.0`.
    pub pci: Option<String>,
    /// Name of the MIG slice of a GPU; `None` for a whole device.
    pub slice: Option<String>,
    /// Total memory of the device.
    pub memory: Bytes,
    /// Maximum size of a single allocation.
    pub largest_allocation: Bytes,
    /// True if the device uses the host's memory.
    pub shares_host_memory: bool,
    /// Size of the last-level cache.
    pub last_cache: Option<Bytes>,
    /// Number of compute units (streaming multiprocessors).
    pub units: u32,
    /// Maximum clock of the compute units.
    pub clock: Option<Hertz>,
    /// Clock of the memory.
    pub memory_clock: Option<Hertz>,
    /// Width of the memory bus.
    pub memory_bus_bits: Option<u32>,
    /// Maximum number of work-items per group.
    pub largest_group: usize,
    /// Number of elements of a native vector, for `f64` and for `f32`.
    pub native_vector_widths: [Option<u32>; 2],
    /// True if the device supports double precision.
    pub double: bool,
    /// True if ECC of the memory is enabled.
    pub ecc: Option<bool>,
    /// Theoretical memory bandwidth in B/s, if the back end can determine it.
    pub theoretical: Option<TheoreticalValue>,
    /// Theoretical peak in FLOP/s, for `f64` and for `f32`, if the back end can determine it.
    pub peak: [Option<TheoreticalValue>; 2],
    /// Theoretical peak of matrix products in `f64` in FLOP/s, if the back end can determine it. It exceeds the peak of
    /// multiply-adds on devices with matrix units.
    pub matrix_peak: Option<TheoreticalValue>,
}

impl DeviceInfo {
    /// Returns the name of the device in options and records, e.g. `opencl:0`.
    pub fn id(&self) -> String {
        format!("{}:{}", self.driver, self.index)
    }
}

/// State of a device at one time: clocks, memory errors and other processes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceReading {
    /// Current clock of the compute units.
    pub clock: Option<Hertz>,
    /// Current clock of the memory.
    pub memory_clock: Option<Hertz>,
    /// Reasons why the clocks are currently reduced, e.g. `power limit`.
    pub slowed_by: Vec<String>,
    /// Number of corrected memory errors since the start of the counter, e.g. the last reset.
    pub corrected: Option<u64>,
    /// Number of uncorrectable memory errors since the start of the counter, e.g. the last reset.
    pub uncorrected: Option<u64>,
    /// Number of other processes that use the device.
    pub others: Option<u32>,
}
