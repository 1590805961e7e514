//! State of NVIDIA GPUs from NVIDIA's management library NVML (`libnvidia-ml.so.1`). NVML is part of the driver, and
//! `nvidia-smi` uses it as well. The library is loaded at run time. [`read`] loads it in a child process, because a
//! library that does not match the driver may crash or hang.

use nodegauge_measure::{Hertz, Watts};
use nodegauge_os::{AnswerLimits, ChildAnswer, SharedLibrary};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;
use std::time::Duration;

/// Name of the library for the dynamic linker.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Limits of a reading. They are long, because a driver that does not stay loaded first initialises every GPU.
const LIMITS: AnswerLimits = AnswerLimits { elapsed: Duration::from_secs(60), cpu_seconds: None };

/// Reason why NVML returned no reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NvmlError {
    /// The library cannot be loaded; the text is the dynamic linker's message.
    #[error("{0}")]
    Missing(String),
    /// The kernel module is not loaded, or no device file can be opened.
    #[error("the NVIDIA driver's kernel module does not respond")]
    NoDriver,
    /// The library and the kernel module have different versions, e.g. after an update without a restart.
    #[error("{LIBRARY} and the loaded kernel module have different versions")]
    VersionMismatch,
    /// The device file of the GPU cannot be opened.
    #[error("the device file cannot be opened")]
    NoPermission,
    /// The GPU no longer responds.
    #[error("the GPU has fallen off the bus")]
    Lost,
    /// Another error, with the error number of NVML (`nvmlReturn_t`).
    #[error("NVML error {0}")]
    Code(i32),
    /// The process that loaded the library ended without a result.
    #[error("{LIBRARY} crashed")]
    Crashed,
    /// The library did not respond before the time limit.
    #[error("{LIBRARY} did not respond within {} s", LIMITS.elapsed.as_secs())]
    TimedOut,
}

impl NvmlError {
    /// Converts a value of `nvmlReturn_t`.
    fn from_code(code: c_int) -> Self {
        match code {
            4 => Self::NoPermission,
            9 => Self::NoDriver,
            15 => Self::Lost,
            18 => Self::VersionMismatch,
            code => Self::Code(code),
        }
    }
}

/// State of all GPUs at one point in time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NvmlReading {
    /// Version of the driver, e.g. `550.54.15`.
    pub driver: Option<String>,
    /// GPUs that respond.
    pub gpus: Vec<GpuState>,
    /// GPUs that do not respond: NVML's index and the error.
    pub unresponsive: Vec<(u32, NvmlError)>,
}

impl NvmlReading {
    /// Returns the GPU at a PCI address, e.g. `0000:3b:00.0`.
    pub fn gpu_state(&self, pci: &str) -> Option<&GpuState> {
        self.gpus.iter().find(|gpu| gpu.pci == pci)
    }
}

/// State of a GPU. A field is `None` if NVML or this type of GPU does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// Name of the GPU.
    pub name: Option<String>,
    /// UUID of the GPU, e.g. `GPU-…`.
    pub uuid: Option<String>,
    /// PCI address in the kernel's notation, e.g. `0000:3b:00.0`.
    pub pci: String,
    /// Total and used memory, bytes.
    pub memory: Option<(u64, u64)>,
    /// Width of the memory bus, bits.
    pub bus_bits: Option<u32>,
    /// True if ECC is enabled.
    pub ecc: Option<bool>,
    /// True if ECC will be enabled after the next reboot; false if it will be disabled.
    pub ecc_pending: Option<bool>,
    /// Number of errors that ECC has corrected since the driver was loaded.
    pub corrected: Option<u64>,
    /// Number of errors that ECC could not correct since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// Current and maximum clock of the multiprocessors, Hz.
    pub clock: Option<CurrentAndMax<Hertz>>,
    /// Current and maximum clock of the memory, Hz.
    pub memory_clock: Option<CurrentAndMax<Hertz>>,
    /// Current reasons for reduced clocks as a bit mask; [`GpuState::clock_limit_reasons`] converts it to text.
    pub clock_limits: Option<u64>,
    /// Enforced power limit, watts.
    pub power_limit_w: Option<Watts>,
    /// Power draw, watts.
    pub power_w: Option<Watts>,
    /// Current and maximum PCIe generation. An idle link runs at a low generation.
    pub link_generation: Option<CurrentAndMax<u32>>,
    /// Current and maximum number of PCIe lanes.
    pub link_width: Option<CurrentAndMax<u32>>,
    /// Processes that compute on the GPU: process ID, and bytes of GPU memory if known.
    pub processes: Option<Vec<(u32, Option<u64>)>>,
    /// True if the GPU is divided into MIG instances.
    pub mig: Option<bool>,
    /// Compute mode, which limits the number of processes on the GPU.
    pub compute_mode: Option<ComputeMode>,
}

/// Current and maximum value of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurrentAndMax<T> {
    /// Current value.
    pub now: T,
    /// Maximum value.
    pub max: T,
}

/// Compute mode of a GPU (`nvmlComputeMode_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComputeMode {
    /// Any number of processes may use the GPU.
    Shared,
    /// No process may use the GPU.
    Prohibited,
    /// Only one process at a time may use the GPU.
    Exclusive,
}

/// Reasons for reduced clocks that lower the speed under load, as bits of `nvmlClocksEventReason…`. Idle GPUs and
/// clocks that the user has set are not included.
const CLOCK_LIMITS: [(u64, &str); 6] = [
    (0x04, "power limit"),
    (0x20, "temperature"),
    (0x40, "temperature (hardware)"),
    (0x80, "power brake (hardware)"),
    (0x08, "hardware slowdown"),
    (0x10, "sync boost with other GPUs"),
];

/// Returns the descriptions of the bits that indicate reduced speed.
pub fn clock_limit_reasons(bits: u64) -> Vec<&'static str> {
    CLOCK_LIMITS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, words)| *words).collect()
}

impl GpuState {
    /// Returns the descriptions of the current reasons for reduced clocks.
    pub fn clock_limit_reasons(&self) -> Vec<&'static str> {
        clock_limit_reasons(self.clock_limits.unwrap_or(0))
    }
}

/// Reads the state of all GPUs with NVML, in a child process.
///
/// # Errors
/// Fails if the library is missing, or returns no result.
pub fn read() -> Result<NvmlReading, NvmlError> {
    // SAFETY: the child process uses only the allocator and the library, which this process has not loaded.
    let answer = unsafe {
        nodegauge_os::ask_child(LIMITS.for_helper(), || {
            let reading = Nvml::open().and_then(|nvml| nvml.read());
            serde_json::to_vec(&reading).unwrap_or_default()
        })
    };
    match answer {
        Ok(ChildAnswer::Answered(output)) => {
            serde_json::from_slice(&output).unwrap_or(Err(NvmlError::Crashed))
        }
        Ok(ChildAnswer::TimedOut) => Err(NvmlError::TimedOut),
        Err(_) => Err(NvmlError::Crashed),
    }
}

/// Handle of a GPU (`nvmlDevice_t`).
type Handle = *mut c_void;
/// Function that returns one value of a device.
type Get<T> = unsafe extern "C" fn(Handle, *mut T) -> c_int;
/// Function that returns a value of a device; an argument selects the quantity.
type GetKind<T> = unsafe extern "C" fn(Handle, c_uint, *mut T) -> c_int;
/// Function that returns two values of a device.
type GetTwo<T> = unsafe extern "C" fn(Handle, *mut T, *mut T) -> c_int;
/// Function that writes a text into a buffer of a given length.
type GetText = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> c_int;

/// Structure `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct NvmlMemory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Structure `nvmlPciInfo_t`, version 3.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PciInfo {
    legacy: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    ids: [c_uint; 2],
    text: [u8; 32],
}

/// Structure `nvmlProcessInfo_t`, version 2.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    instances: [c_uint; 2],
}

impl Process {
    /// Returns the memory of the process in bytes; `None` if it is unknown; NVML then sets all bits of the number.
    fn known_memory(&self) -> Option<u64> {
        (self.memory != u64::MAX).then_some(self.memory)
    }
}

/// Loaded and initialised library. All calls of NVML functions are in this type.
#[derive(Debug)]
pub struct Nvml {
    library: SharedLibrary,
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // A failure of this call is ignored, because the library is not used afterwards.
        let _ = self.call("nvmlShutdown");
    }
}

/// Returns `value` if the return code of the NVML call means success.
fn value_if_ok<T>(code: c_int, value: T) -> Option<T> {
    (code == 0).then_some(value)
}

impl Nvml {
    /// Loads and initialises the library in this process. Callers must call this function only after [`read`] has
    /// succeeded in a child process.
    ///
    /// # Errors
    /// Fails if the library is missing or cannot access a driver.
    pub fn open() -> Result<Self, NvmlError> {
        // SAFETY: this is NVIDIA's library, which a child process has loaded without a crash.
        let library =
            unsafe { SharedLibrary::open(LIBRARY) }.map_err(|why| NvmlError::Missing(why.0))?;
        let nvml = Self { library };
        nvml.call("nvmlInit_v2")?;
        Ok(nvml)
    }

    /// Returns the current state of the GPU at a PCI address, e.g. `0000:3b:00.0`.
    pub fn gpu_state(&self, pci: &str) -> Option<GpuState> {
        type ByAddress = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
        let address = CString::new(pci).ok()?;
        let mut device = null_mut();
        // SAFETY: the type matches the function's declaration; the function writes the handle.
        let code = unsafe {
            let by_address =
                self.library.function::<ByAddress>("nvmlDeviceGetHandleByPciBusId_v2")?;
            by_address(address.as_ptr(), &raw mut device)
        };
        value_if_ok(code, ())?;
        self.state(device)
    }

    fn call(&self, name: &str) -> Result<(), NvmlError> {
        // SAFETY: according to NVML's declarations, these functions have no arguments.
        let call = unsafe { self.library.function::<unsafe extern "C" fn() -> c_int>(name) };
        // SAFETY: according to NVML's declarations, these functions have no arguments.
        match call.map_or(13, |call| unsafe { call() }) {
            0 => Ok(()),
            code => Err(NvmlError::from_code(code)),
        }
    }

    fn get<T: Default>(&self, name: &str, device: Handle) -> Option<T> {
        let mut value = T::default();
        // SAFETY: callers take `T` from the function's declaration; the function writes the value.
        let code = unsafe { self.library.function::<Get<T>>(name)?(device, &raw mut value) };
        value_if_ok(code, value)
    }

    fn device_value(&self, name: &str, device: Handle, kind: c_uint) -> Option<c_uint> {
        let mut value = 0;
        // SAFETY: the type matches the function's declaration; the function writes the value.
        let code = unsafe {
            self.library.function::<GetKind<c_uint>>(name)?(device, kind, &raw mut value)
        };
        value_if_ok(code, value)
    }

    fn get_two(&self, name: &str, device: Handle) -> Option<[c_uint; 2]> {
        let mut a = 0;
        let mut b = 0;
        // SAFETY: the type matches the function's declaration; the function writes both values.
        let code = unsafe {
            self.library.function::<GetTwo<c_uint>>(name)?(device, &raw mut a, &raw mut b)
        };
        value_if_ok(code, [a, b])
    }

    fn text(&self, name: &str, device: Handle) -> Option<String> {
        let mut text = [0u8; 96];
        // SAFETY: the type matches the function's declaration; the function writes at most the given number of bytes,
        // including the final zero.
        let code = unsafe {
            self.library.function::<GetText>(name)?(device, text.as_mut_ptr().cast(), 96)
        };
        value_if_ok(code, CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned())
    }

    /// Returns the current state of all GPUs.
    ///
    /// # Errors
    /// Fails if NVML cannot count the GPUs.
    pub fn read(&self) -> Result<NvmlReading, NvmlError> {
        type Count = unsafe extern "C" fn(*mut c_uint) -> c_int;
        type ByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> c_int;
        let missing = NvmlError::Code(13);
        // SAFETY: the types match the declarations of the functions.
        let (count, by_index) = unsafe {
            let count = self.library.function::<Count>("nvmlDeviceGetCount_v2");
            let by_index = self.library.function::<ByIndex>("nvmlDeviceGetHandleByIndex_v2");
            count.zip(by_index).ok_or(missing)?
        };
        let mut gpus = 0;
        // SAFETY: the types match the declarations; the function writes the value.
        match unsafe { count(&raw mut gpus) } {
            0 => {}
            code => return Err(NvmlError::from_code(code)),
        }
        let mut reading = NvmlReading { driver: self.driver_version(), ..NvmlReading::default() };
        for index in 0..gpus {
            let mut device = null_mut();
            // SAFETY: the types match the declarations; the function writes the handle.
            match unsafe { by_index(index, &raw mut device) } {
                0 => reading.gpus.extend(self.state(device)),
                code => reading.unresponsive.push((index, NvmlError::from_code(code))),
            }
        }
        Ok(reading)
    }

    /// Returns the driver's version.
    pub fn driver_version(&self) -> Option<String> {
        type Version = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
        let mut text = [0u8; 80];
        // SAFETY: the type matches the function's declaration; the function writes at most the given number of bytes,
        // including the final zero.
        let code = unsafe {
            let version = self.library.function::<Version>("nvmlSystemGetDriverVersion")?;
            version(text.as_mut_ptr().cast(), 80)
        };
        value_if_ok(code, CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned())
    }

    /// Returns the clock of this kind, a value of `nvmlClockType_t`.
    fn clock(&self, device: Handle, kind: c_uint) -> Option<CurrentAndMax<Hertz>> {
        let now = self.device_value("nvmlDeviceGetClockInfo", device, kind)?;
        let max = self.device_value("nvmlDeviceGetMaxClockInfo", device, kind)?;
        Some(CurrentAndMax { now: Hertz(f64::from(now) * 1e6), max: Hertz(f64::from(max) * 1e6) })
    }

    /// Returns the results of two functions, which report the current and the maximum value.
    fn current_and_max(&self, now: &str, max: &str, device: Handle) -> Option<CurrentAndMax<u32>> {
        Some(CurrentAndMax { now: self.get(now, device)?, max: self.get(max, device)? })
    }

    /// Returns the result of a function that reports milliwatts.
    fn watts(&self, name: &str, device: Handle) -> Option<Watts> {
        let milliwatts: c_uint = self.get(name, device)?;
        Some(Watts(f64::from(milliwatts) / 1e3))
    }

    fn state(&self, device: Handle) -> Option<GpuState> {
        /// Clock of the multiprocessors, a value of `nvmlClockType_t`.
        const SM: c_uint = 1;
        const MEMORY: c_uint = 2;
        let pci: PciInfo = self.get("nvmlDeviceGetPciInfo_v3", device)?;
        let ecc = self.get_two("nvmlDeviceGetEccMode", device);

        let limits = ["nvmlDeviceGetCurrentClocksEventReasons", OLDER_LIMITS];
        Some(GpuState {
            name: self.text("nvmlDeviceGetName", device),
            uuid: self.text("nvmlDeviceGetUUID", device),
            pci: format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device),
            memory: self
                .get::<NvmlMemory>("nvmlDeviceGetMemoryInfo", device)
                .map(|memory| (memory.total, memory.used)),
            bus_bits: self.get("nvmlDeviceGetMemoryBusWidth", device),
            ecc: ecc.map(|[now, _]| now == 1),
            ecc_pending: ecc.map(|[_, pending]| pending == 1),
            corrected: self.errors(device, 0),
            uncorrected: self.errors(device, 1),
            clock: self.clock(device, SM),
            memory_clock: self.clock(device, MEMORY),
            clock_limits: limits.iter().find_map(|name| self.get::<c_ulonglong>(name, device)),
            power_limit_w: self.watts("nvmlDeviceGetEnforcedPowerLimit", device),
            power_w: self.watts("nvmlDeviceGetPowerUsage", device),
            link_generation: self.current_and_max(
                "nvmlDeviceGetCurrPcieLinkGeneration",
                "nvmlDeviceGetMaxPcieLinkGeneration",
                device,
            ),
            link_width: self.current_and_max(
                "nvmlDeviceGetCurrPcieLinkWidth",
                "nvmlDeviceGetMaxPcieLinkWidth",
                device,
            ),
            processes: self.processes(device),
            mig: self.get_two("nvmlDeviceGetMigMode", device).map(|[now, _]| now == 1),
            compute_mode: self.get::<c_uint>("nvmlDeviceGetComputeMode", device).map(|mode| {
                match mode {
                    2 => ComputeMode::Prohibited,
                    1 | 3 => ComputeMode::Exclusive,
                    _ => ComputeMode::Shared,
                }
            }),
        })
    }

    /// Returns the number of corrected (kind 0) or uncorrected (kind 1) errors since the driver was loaded.
    fn errors(&self, device: Handle, kind: c_uint) -> Option<u64> {
        type Errors = unsafe extern "C" fn(Handle, c_uint, c_uint, *mut c_ulonglong) -> c_int;
        /// Counter since the driver was loaded, a value of `nvmlEccCounterType_t`.
        const VOLATILE: c_uint = 0;
        let mut count = 0;
        // SAFETY: the type matches the function's declaration; the function writes the count.
        let code = unsafe {
            let errors = self.library.function::<Errors>("nvmlDeviceGetTotalEccErrors")?;
            errors(device, kind, VOLATILE, &raw mut count)
        };
        value_if_ok(code, count)
    }

    fn processes(&self, device: Handle) -> Option<Vec<(u32, Option<u64>)>> {
        type Processes = unsafe extern "C" fn(Handle, *mut c_uint, *mut Process) -> c_int;
        /// Maximum number of processes in the list. If there are more, NVML reports an error, and the processes are
        /// unknown.
        const MAX_PROCESSES: usize = 256;
        let names = ["_v3", "_v2"].map(|v| format!("nvmlDeviceGetComputeRunningProcesses{v}"));
        // SAFETY: the type matches the function's declaration, which is the same for both versions.
        let call =
            names.iter().find_map(|name| unsafe { self.library.function::<Processes>(name) })?;
        let mut processes = vec![Process::default(); MAX_PROCESSES];
        let mut count = MAX_PROCESSES as c_uint;
        // SAFETY: the buffer has the length in `count`.
        let code = unsafe { call(device, &raw mut count, processes.as_mut_ptr()) };
        value_if_ok(code, ())?;
        processes.truncate(count as usize);
        Some(processes.iter().map(|process| (process.pid, process.known_memory())).collect())
    }
}

/// Name of the function for the reasons for reduced clocks in drivers before version 535.
const OLDER_LIMITS: &str = "nvmlDeviceGetCurrentClocksThrottleReasons";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvml_structures_have_correct_sizes() {
        assert_eq!(size_of::<PciInfo>(), 68);
        assert_eq!(size_of::<Process>(), 24);
        assert_eq!(size_of::<NvmlMemory>(), 24);
    }

    #[test]
    fn clock_limits_are_named_except_idle() {
        assert_eq!(
            clock_limit_reasons(0x1 | 0x4 | 0x40),
            ["power limit", "temperature (hardware)"]
        );
        assert!(clock_limit_reasons(0x1 | 0x2 | 0x100).is_empty());
    }

    #[test]
    fn nvml_reading_round_trips_as_json() {
        let gpu = GpuState { pci: "0000:3b:00.0".into(), ecc: Some(true), ..GpuState::default() };
        let unresponsive = vec![(1, NvmlError::from_code(4))];
        let reading: Result<_, NvmlError> =
            Ok(NvmlReading { driver: Some("550.54".into()), gpus: vec![gpu], unresponsive });
        let text = serde_json::to_vec(&reading).unwrap();
        let read: Result<NvmlReading, NvmlError> = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, reading);
        assert_eq!(read.unwrap().gpu_state("0000:3b:00.0").unwrap().ecc, Some(true));
    }
}
