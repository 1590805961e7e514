//! What NVIDIA's management library says of GPUs: NVML, `libnvidia-ml.so.1`, which comes with the driver and is
//! what `nvidia-smi` asks. Loaded at run time; in a child process, for [`read`], because a driver and a library
//! that do not fit may crash or hang.

use nodegauge_os::{ChildAnswer, SharedLibrary};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;
use std::time::Duration;

/// The library, as the dynamic linker finds it.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Longest time for a reading: a driver that is not kept loaded initialises every GPU first.
const LIMIT: Duration = Duration::from_secs(60);

/// Why there is no reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NvmlError {
    /// The library cannot be loaded, with what the dynamic linker says.
    #[error("{0}")]
    Missing(String),
    /// The kernel's module is not loaded, or no device file can be opened.
    #[error("the NVIDIA driver's kernel module does not answer")]
    NoDriver,
    /// Library and kernel module are of different versions, as after an update without a restart.
    #[error("{LIBRARY} and the loaded kernel module are of different versions")]
    VersionMismatch,
    /// The device file cannot be opened.
    #[error("its device file cannot be opened")]
    NoPermission,
    /// The GPU does not answer any more.
    #[error("it has fallen off the bus")]
    Lost,
    /// Another error, by NVML's number (`nvmlReturn_t`).
    #[error("NVML error {0}")]
    Code(i32),
    /// The process that loaded the library ended without an answer.
    #[error("{LIBRARY} crashes")]
    Crashed,
    /// No answer in time.
    #[error("{LIBRARY} gives no answer within {} s", LIMIT.as_secs())]
    TimedOut,
}

impl NvmlError {
    /// Of `nvmlReturn_t`.
    fn of(code: c_int) -> Self {
        match code {
            4 => Self::NoPermission,
            9 => Self::NoDriver,
            15 => Self::Lost,
            18 => Self::VersionMismatch,
            code => Self::Code(code),
        }
    }
}

/// All GPUs at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NvmlReading {
    /// The driver's version, e.g. `550.54.15`.
    pub driver: Option<String>,
    /// GPUs that answer.
    pub gpus: Vec<GpuState>,
    /// GPUs that do not, by NVML's index.
    pub silent: Vec<(u32, NvmlError)>,
}

impl NvmlReading {
    /// The GPU at a PCI address, e.g. `0000:3b:00.0`.
    pub fn at(&self, pci: &str) -> Option<&GpuState> {
        self.gpus.iter().find(|gpu| gpu.pci == pci)
    }
}

/// What NVML says of a GPU; `None` where it, or this kind of GPU, does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// Its name.
    pub name: Option<String>,
    /// Its UUID, `GPU-…`.
    pub uuid: Option<String>,
    /// Its PCI address as the kernel writes it, e.g. `0000:3b:00.0`.
    pub pci: String,
    /// Memory and what of it is used, bytes.
    pub memory: Option<(u64, u64)>,
    /// Width of the memory bus, bits.
    pub bus_bits: Option<u32>,
    /// Whether ECC is on.
    pub ecc: Option<bool>,
    /// Whether it is on after the next restart.
    pub ecc_pending: Option<bool>,
    /// Errors that ECC corrected since the driver was loaded.
    pub corrected: Option<u64>,
    /// Errors that it could not correct, since then.
    pub uncorrected: Option<u64>,
    /// Clock of the multiprocessors now and at most, Hz.
    pub clock: Option<NowAndMost>,
    /// Clock of the memory now and at most, Hz.
    pub memory_clock: Option<NowAndMost>,
    /// What keeps clocks down now, as bits: [`GpuState::slowed_by`] has the words.
    pub clock_limits: Option<u64>,
    /// The power limit in force, and what is drawn, watts.
    pub power_limit_w: Option<f64>,
    /// Power drawn, watts.
    pub power_w: Option<f64>,
    /// Generation of PCIe now and at most: links rest at a low one while nothing is copied.
    pub link_generation: Option<NowAndMost>,
    /// Lanes of PCIe now and at most.
    pub link_width: Option<NowAndMost>,
    /// Processes that compute on it: number, and bytes of its memory where known.
    pub processes: Option<Vec<(u32, Option<u64>)>>,
    /// Whether it is divided into MIG instances.
    pub mig: Option<bool>,
    /// Who may use it.
    pub compute_mode: Option<ComputeMode>,
}

/// A quantity that changes, and what it can be at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NowAndMost {
    /// Now.
    pub now: f64,
    /// At most.
    pub most: f64,
}

/// `nvmlComputeMode_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComputeMode {
    /// Any number of processes.
    Shared,
    /// No process.
    Prohibited,
    /// One process.
    Exclusive,
}

/// Reasons why clocks are kept down, of `nvmlClocksEventReason…`, that cost speed under load; resting is none, and
/// neither is a clock that the user has set.
const CLOCK_LIMITS: [(u64, &str); 6] = [
    (0x04, "power limit"),
    (0x20, "temperature"),
    (0x40, "temperature (hardware)"),
    (0x80, "power brake of the board"),
    (0x08, "hardware slowdown"),
    (0x10, "boost kept equal among GPUs"),
];

/// The words of those bits that mean lost speed.
pub fn clock_limits(bits: u64) -> Vec<&'static str> {
    CLOCK_LIMITS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, words)| *words).collect()
}

impl GpuState {
    /// What keeps its clocks down now.
    pub fn slowed_by(&self) -> Vec<&'static str> {
        clock_limits(self.clock_limits.unwrap_or(0))
    }
}

/// Asks NVML about all GPUs, in a child process.
///
/// # Errors
/// When the library is not there, or gives no answer.
pub fn read() -> Result<NvmlReading, NvmlError> {
    // SAFETY: the child loads a library that this process has not loaded, and uses the allocator.
    let answer = unsafe {
        nodegauge_os::ask_child(LIMIT, || {
            let reading = Nvml::open().and_then(|nvml| nvml.reading());
            serde_json::to_vec(&reading).unwrap_or_default()
        })
    };
    match answer {
        Ok(ChildAnswer::Said(said)) => {
            serde_json::from_slice(&said).unwrap_or(Err(NvmlError::Crashed))
        }
        Ok(ChildAnswer::TimedOut) => Err(NvmlError::TimedOut),
        Err(_) => Err(NvmlError::Crashed),
    }
}

/// `nvmlDevice_t`.
type Handle = *mut c_void;
/// A function that fills in one value of a device.
type Get<T> = unsafe extern "C" fn(Handle, *mut T) -> c_int;
/// As [`Get`], of one kind of value.
type GetOf<T> = unsafe extern "C" fn(Handle, c_uint, *mut T) -> c_int;
/// A function that fills in two.
type GetTwo<T> = unsafe extern "C" fn(Handle, *mut T, *mut T) -> c_int;
/// A function that fills in a text of a length.
type GetText = unsafe extern "C" fn(Handle, *mut c_char, c_uint) -> c_int;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlPciInfo_t`, of version 3 of its function.
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

/// `nvmlProcessInfo_t`, as of version 2 of its function.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    instances: [c_uint; 2],
}

/// The loaded library, initialised. Every foreign call of this module is here.
#[derive(Debug)]
pub struct Nvml {
    library: SharedLibrary,
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // Nothing is left to do where it fails.
        let _ = self.call("nvmlShutdown");
    }
}

/// The value, where NVML gives it.
fn given<T>(code: c_int, value: T) -> Option<T> {
    (code == 0).then_some(value)
}

impl Nvml {
    /// Loads and initialises the library in this process, where [`read`] had an answer of a child process.
    ///
    /// # Errors
    /// When the library is not there or does not reach a driver.
    pub fn open() -> Result<Self, NvmlError> {
        // SAFETY: NVIDIA's library, which a child process has tried.
        let library = unsafe { SharedLibrary::open(LIBRARY) }.map_err(NvmlError::Missing)?;
        let nvml = Self { library };
        nvml.call("nvmlInit_v2")?;
        Ok(nvml)
    }

    /// The GPU at a PCI address as it is now, e.g. `0000:3b:00.0`.
    pub fn at(&self, pci: &str) -> Option<GpuState> {
        type ByAddress = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
        let address = CString::new(pci).ok()?;
        let mut device = null_mut();
        // SAFETY: the function's declared type; the handle is filled in.
        let code = unsafe {
            let by_address =
                self.library.function::<ByAddress>("nvmlDeviceGetHandleByPciBusId_v2")?;
            by_address(address.as_ptr(), &raw mut device)
        };
        given(code, ())?;
        self.state(device)
    }

    fn call(&self, name: &str) -> Result<(), NvmlError> {
        // SAFETY: functions without arguments, as NVML declares those that are called here.
        let call = unsafe { self.library.function::<unsafe extern "C" fn() -> c_int>(name) };
        // SAFETY: as above.
        match call.map_or(13, |call| unsafe { call() }) {
            0 => Ok(()),
            code => Err(NvmlError::of(code)),
        }
    }

    fn get<T: Default>(&self, name: &str, device: Handle) -> Option<T> {
        let mut value = T::default();
        // SAFETY: callers take `T` from the function's declaration; it is filled in.
        let code = unsafe { self.library.function::<Get<T>>(name)?(device, &raw mut value) };
        given(code, value)
    }

    fn get_of(&self, name: &str, device: Handle, kind: c_uint) -> Option<c_uint> {
        let mut value = 0;
        // SAFETY: the function's declared type; the value is filled in.
        let code =
            unsafe { self.library.function::<GetOf<c_uint>>(name)?(device, kind, &raw mut value) };
        given(code, value)
    }

    fn get_two(&self, name: &str, device: Handle) -> Option<[c_uint; 2]> {
        let (mut a, mut b) = (0, 0);
        // SAFETY: the function's declared type; both values are filled in.
        let code = unsafe {
            self.library.function::<GetTwo<c_uint>>(name)?(device, &raw mut a, &raw mut b)
        };
        given(code, [a, b])
    }

    fn text(&self, name: &str, device: Handle) -> Option<String> {
        let mut text = [0u8; 96];
        // SAFETY: the function's declared type; at most so many bytes are filled in, the last of them zero.
        let code = unsafe {
            self.library.function::<GetText>(name)?(device, text.as_mut_ptr().cast(), 96)
        };
        given(code, CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned())
    }

    /// All GPUs as they are now.
    ///
    /// # Errors
    /// When NVML cannot count them.
    pub fn reading(&self) -> Result<NvmlReading, NvmlError> {
        type Count = unsafe extern "C" fn(*mut c_uint) -> c_int;
        type ByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> c_int;
        let missing = NvmlError::Code(13);
        // SAFETY: the functions' declared types.
        let (count, by_index) = unsafe {
            let count = self.library.function::<Count>("nvmlDeviceGetCount_v2");
            let by_index = self.library.function::<ByIndex>("nvmlDeviceGetHandleByIndex_v2");
            count.zip(by_index).ok_or(missing)?
        };
        let mut gpus = 0;
        // SAFETY: as above; the value is filled in.
        match unsafe { count(&raw mut gpus) } {
            0 => {}
            code => return Err(NvmlError::of(code)),
        }
        let mut reading = NvmlReading { driver: self.driver(), ..NvmlReading::default() };
        for index in 0..gpus {
            let mut device = null_mut();
            // SAFETY: as above; the handle is filled in.
            match unsafe { by_index(index, &raw mut device) } {
                0 => reading.gpus.extend(self.state(device)),
                code => reading.silent.push((index, NvmlError::of(code))),
            }
        }
        Ok(reading)
    }

    /// The driver's version.
    pub fn driver(&self) -> Option<String> {
        type Version = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
        let mut text = [0u8; 80];
        // SAFETY: the function's declared type; at most so many bytes are filled in, the last of them zero.
        let code = unsafe {
            let version = self.library.function::<Version>("nvmlSystemGetDriverVersion")?;
            version(text.as_mut_ptr().cast(), 80)
        };
        given(code, CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned())
    }

    fn state(&self, device: Handle) -> Option<GpuState> {
        /// Of `nvmlClockType_t`.
        const SM: c_uint = 1;
        const MEMORY: c_uint = 2;
        let pci: PciInfo = self.get("nvmlDeviceGetPciInfo_v3", device)?;
        let ecc = self.get_two("nvmlDeviceGetEccMode", device);
        let pair = |now: Option<c_uint>, most: Option<c_uint>, factor: f64| {
            let (now, most) = (f64::from(now?) * factor, f64::from(most?) * factor);
            Some(NowAndMost { now, most })
        };
        let clock = |kind| {
            let now = self.get_of("nvmlDeviceGetClockInfo", device, kind);
            pair(now, self.get_of("nvmlDeviceGetMaxClockInfo", device, kind), 1e6)
        };
        let link = |now, most| pair(self.get(now, device), self.get(most, device), 1.0);
        let watts = |name| self.get::<c_uint>(name, device).map(|milli| f64::from(milli) / 1e3);
        let limits = ["nvmlDeviceGetCurrentClocksEventReasons", OLDER_LIMITS];
        Some(GpuState {
            name: self.text("nvmlDeviceGetName", device),
            uuid: self.text("nvmlDeviceGetUUID", device),
            pci: format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device),
            memory: self
                .get::<Memory>("nvmlDeviceGetMemoryInfo", device)
                .map(|memory| (memory.total, memory.used)),
            bus_bits: self.get("nvmlDeviceGetMemoryBusWidth", device),
            ecc: ecc.map(|[now, _]| now == 1),
            ecc_pending: ecc.map(|[_, pending]| pending == 1),
            corrected: self.errors(device, 0),
            uncorrected: self.errors(device, 1),
            clock: clock(SM),
            memory_clock: clock(MEMORY),
            clock_limits: limits.iter().find_map(|name| self.get::<c_ulonglong>(name, device)),
            power_limit_w: watts("nvmlDeviceGetEnforcedPowerLimit"),
            power_w: watts("nvmlDeviceGetPowerUsage"),
            link_generation: link(
                "nvmlDeviceGetCurrPcieLinkGeneration",
                "nvmlDeviceGetMaxPcieLinkGeneration",
            ),
            link_width: link("nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth"),
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

    /// Errors since the driver was loaded: corrected (0) or uncorrected (1).
    fn errors(&self, device: Handle, kind: c_uint) -> Option<u64> {
        type Errors = unsafe extern "C" fn(Handle, c_uint, c_uint, *mut c_ulonglong) -> c_int;
        /// Of `nvmlEccCounterType_t`.
        const VOLATILE: c_uint = 0;
        let mut count = 0;
        // SAFETY: the function's declared type; the count is filled in.
        let code = unsafe {
            let errors = self.library.function::<Errors>("nvmlDeviceGetTotalEccErrors")?;
            errors(device, kind, VOLATILE, &raw mut count)
        };
        given(code, count)
    }

    fn processes(&self, device: Handle) -> Option<Vec<(u32, Option<u64>)>> {
        type Processes = unsafe extern "C" fn(Handle, *mut c_uint, *mut Process) -> c_int;
        /// More than a node has cores for; with more, NVML says that they are too many.
        const MOST: usize = 256;
        let names = ["_v3", "_v2"].map(|v| format!("nvmlDeviceGetComputeRunningProcesses{v}"));
        // SAFETY: the functions' declared type, the same for both versions.
        let call =
            names.iter().find_map(|name| unsafe { self.library.function::<Processes>(name) })?;
        let mut processes = vec![Process::default(); MOST];
        let mut count = MOST as c_uint;
        // SAFETY: there is room for as many as are said.
        let code = unsafe { call(device, &raw mut count, processes.as_mut_ptr()) };
        given(code, ())?;
        processes.truncate(count as usize);
        // All bits are set where the memory is not known.
        let known = |p: &Process| (p.pid, Some(p.memory).filter(|bytes| *bytes != u64::MAX));
        Some(processes.iter().map(known).collect())
    }
}

/// The name that drivers before 535 have for what keeps clocks down.
const OLDER_LIMITS: &str = "nvmlDeviceGetCurrentClocksThrottleReasons";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_nvml_declares_them() {
        assert_eq!(size_of::<PciInfo>(), 68);
        assert_eq!(size_of::<Process>(), 24);
        assert_eq!(size_of::<Memory>(), 24);
    }

    #[test]
    fn bits_that_cost_speed_have_words_and_resting_has_none() {
        assert_eq!(clock_limits(0x1 | 0x4 | 0x40), ["power limit", "temperature (hardware)"]);
        assert!(clock_limits(0x1 | 0x2 | 0x100).is_empty());
    }

    #[test]
    fn a_reading_survives_the_way_out_of_the_child() {
        let gpu = GpuState { pci: "0000:3b:00.0".into(), ecc: Some(true), ..GpuState::default() };
        let silent = vec![(1, NvmlError::of(4))];
        let reading: Result<_, NvmlError> =
            Ok(NvmlReading { driver: Some("550.54".into()), gpus: vec![gpu], silent });
        let text = serde_json::to_vec(&reading).unwrap();
        let read: Result<NvmlReading, NvmlError> = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, reading);
        assert_eq!(read.unwrap().at("0000:3b:00.0").unwrap().ecc, Some(true));
    }
}
