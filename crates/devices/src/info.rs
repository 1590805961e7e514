//! What a device is, and how it is doing: plain data, which a child process can write down.

use nodegauge_measure::record::Figure;
use nodegauge_measure::{Bytes, Hertz};
use serde::{Deserialize, Serialize};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Class {
    /// The host's processor, as OpenCL can use it.
    Cpu,
    /// A GPU.
    #[default]
    Gpu,
    /// Something else with memory of its own.
    Accelerator,
}

/// Properties of a device; what the driver does not say is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// The driver, e.g. `opencl`.
    pub driver: String,
    /// Its place in the driver's list.
    pub index: usize,
    /// What the vendor calls it.
    pub name: String,
    /// What it is.
    pub class: Class,
    /// The driver with its version, e.g. `OpenCL 3.0 PoCL 3.1`.
    pub driver_version: String,
    /// The vendor's unique name of it.
    pub uuid: Option<String>,
    /// Where it is on the PCI bus, e.g. `0000:17:00.0`.
    pub pci: Option<String>,
    /// Of a part of a device (MIG), what part it is.
    pub slice: Option<String>,
    /// All its memory.
    pub memory: Bytes,
    /// The largest memory that can be had at once.
    pub largest_allocation: Bytes,
    /// Its memory is the host's.
    pub shares_host_memory: bool,
    /// The last cache before its memory.
    pub last_cache: Option<Bytes>,
    /// Compute units (streaming multiprocessors).
    pub units: u32,
    /// Fastest clock.
    pub clock: Option<Hertz>,
    /// Clock of the memory.
    pub memory_clock: Option<Hertz>,
    /// Width of its bus.
    pub memory_bus_bits: Option<u32>,
    /// Work-items of a group at most.
    pub largest_group: usize,
    /// Whether it computes in double precision.
    pub double: bool,
    /// Whether its memory corrects errors.
    pub ecc: Option<bool>,
    /// Theoretical bandwidth of its memory, B/s, where the back end knows it.
    pub theoretical: Option<Figure>,
    /// Theoretical peak by precision, FLOP/s: `f64`, `f32`, where the back end knows it.
    pub peak: [Option<Figure>; 2],
}

impl DeviceInfo {
    /// Its name in options and records, e.g. `opencl:0`.
    pub fn id(&self) -> String {
        format!("{}:{}", self.driver, self.index)
    }
}

/// How a device is doing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceState {
    /// Clock of the compute units now.
    pub clock: Option<Hertz>,
    /// Clock of the memory now.
    pub memory_clock: Option<Hertz>,
    /// What holds its clocks down now, in words, e.g. `power limit`.
    pub slowed_by: Vec<String>,
    /// Errors of the memory that were corrected, counted since some time before.
    pub corrected: Option<u64>,
    /// Errors that could not be.
    pub uncorrected: Option<u64>,
    /// Other processes on it.
    pub others: Option<u32>,
}
