//! Back end for OpenCL: devices of any vendor, and CPUs through PoCL.

mod api;
mod device;
mod queue;

use crate::driver::{DeviceError, Driver, FailureClass, OpenDevice};
use crate::info::{DeviceClass, DeviceInfo};
use api::{Object, OpenClApi, check};
use device::OpenClDevice;
use nodegauge_measure::{Bytes, Hertz};
use nodegauge_os::TrustedFolder;
use nodegauge_toolchain::ScratchFolder;
use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::rc::Rc;

/// OpenCL drivers, accessed through the system's loader library.
pub struct OpenCl {
    api: &'static OpenClApi,
    /// Folder for PoCL's compiled kernels. It is removed when the driver and all open devices are dropped.
    kernels: Option<Rc<ScratchFolder>>,
}

/// Environment variable with the folder of PoCL's compiled kernels.
const KERNEL_FOLDER: &str = "POCL_CACHE_DIR";
/// Name of PoCL's folder in the user's cache folder.
const CACHE_NAME: &str = "pocl";

/// True if PoCL's compiled kernels are in a folder that the user's variables specify by an absolute path, so that no
/// other user can place kernels in it. PoCL uses `POCL_CACHE_DIR`, otherwise `XDG_CACHE_HOME`, otherwise `HOME`. A
/// relative path depends on the current folder, in which other users may have placed kernels.
fn has_kernel_folder(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_closed =
        |path: PathBuf| path.is_absolute() && TrustedFolder::open_exclusive(&path).is_ok();
    if let Some(folder) = variable(KERNEL_FOLDER) {
        return is_closed(PathBuf::from(folder));
    }
    match variable("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => is_closed(Path::new(&folder).join(CACHE_NAME)),
        None => variable("HOME")
            .is_some_and(|home| is_closed(Path::new(&home).join(".cache").join(CACHE_NAME))),
    }
}

/// Creates a private folder for PoCL's compiled kernels; returns `None` if the user's variables already specify a
/// folder in which no other user can place kernels (see [`has_kernel_folder`]). By default, PoCL would load these
/// kernels from /tmp/pocl, where any user may have placed other kernels.
fn kernel_folder() -> Result<Option<Rc<ScratchFolder>>, DeviceError> {
    if has_kernel_folder(nodegauge_os::environment_variable) {
        return Ok(None);
    }
    let folder = ScratchFolder::new().map_err(|error| {
        DeviceError::new(FailureClass::Other, api::NAME, KERNEL_FOLDER, 0)
            .with_detail(error.to_string())
    })?;
    // SAFETY: this is called before the driver and its threads start. The only other thread of the program waits for
    // signals and reads no variables.
    unsafe { std::env::set_var(KERNEL_FOLDER, folder.path()) };
    Ok(Some(Rc::new(folder)))
}

impl OpenCl {
    /// Loads the library and initialises its drivers. Because loading may crash, a child process has already tried it.
    ///
    /// # Errors
    /// Fails if the library is missing.
    pub fn load() -> Result<Self, DeviceError> {
        let kernels = kernel_folder()?;
        Ok(Self { api: OpenClApi::load()?, kernels })
    }

    /// Returns each device with its platform, in the order of the platforms.
    fn all(&self) -> Result<Vec<(Object, Object)>, DeviceError> {
        let api = self.api;
        let platforms = list("clGetPlatformIDs", |n, at, count| {
            // SAFETY: there is room for `n` objects, or `n` is 0.
            unsafe { (api.clGetPlatformIDs)(n, at, count) }
        })?;
        let mut all = Vec::new();
        for platform in platforms {
            let devices = list("clGetDeviceIDs", |n, at, count| {
                // SAFETY: there is room for `n` objects, or `n` is 0; the platform has just been listed.
                unsafe { (api.clGetDeviceIDs)(platform, TYPE_ALL, n, at, count) }
            });
            match devices {
                Ok(devices) => all.extend(devices.into_iter().map(|device| (platform, device))),
                Err(error) if error.kind == FailureClass::NoDevice => {}
                Err(error) => return Err(error),
            }
        }
        if all.is_empty() {
            return Err(DeviceError::new(FailureClass::NoDevice, api::NAME, "clGetDeviceIDs", -1));
        }
        Ok(all)
    }
}

impl Driver for OpenCl {
    fn name(&self) -> &'static str {
        api::NAME
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        let all = self.all()?.into_iter().enumerate();
        all.map(|(index, (platform, device))| self.describe(index, platform, device)).collect()
    }

    fn open(&self, index: usize) -> Result<Box<dyn OpenDevice>, DeviceError> {
        let all = self.all()?;
        let gone = DeviceError::new(FailureClass::NoDevice, api::NAME, "clGetDeviceIDs", -1);
        let (platform, device) = *all.get(index).ok_or(gone)?;
        let info = self.describe(index, platform, device)?;
        // All devices of a platform share a context, so that copies between them are possible.
        let of_platform: Vec<Object> =
            all.iter().filter(|(of, _)| *of == platform).map(|(_, id)| *id).collect();
        Ok(Box::new(OpenClDevice::open(
            self.api,
            info,
            device,
            &of_platform,
            self.kernels.clone(),
        )?))
    }
}

/// Value of `CL_DEVICE_TYPE_ALL`.
const TYPE_ALL: u64 = 0xFFFF_FFFF;

// Parameters of clGetDeviceInfo (CL/cl.h, cl_ext.h).
const DEVICE_TYPE: u32 = 0x1000;
const MAX_COMPUTE_UNITS: u32 = 0x1002;
const MAX_WORK_GROUP_SIZE: u32 = 0x1004;
const MAX_CLOCK_FREQUENCY: u32 = 0x100C;
const MAX_MEM_ALLOC_SIZE: u32 = 0x1010;
const GLOBAL_MEM_CACHE_SIZE: u32 = 0x101E;
const GLOBAL_MEM_SIZE: u32 = 0x101F;
const ERROR_CORRECTION_SUPPORT: u32 = 0x1024;
const NATIVE_VECTOR_WIDTH_FLOAT: u32 = 0x103A;
const NATIVE_VECTOR_WIDTH_DOUBLE: u32 = 0x103B;
const DEVICE_NAME: u32 = 0x102B;
const DRIVER_VERSION: u32 = 0x102D;
const DOUBLE_FP_CONFIG: u32 = 0x1032;
const HOST_UNIFIED_MEMORY: u32 = 0x1035;
const DEVICE_UUID_KHR: u32 = 0x106A;
const DEVICE_PCI_BUS_INFO_KHR: u32 = 0x410F;
/// Parameter of clGetPlatformInfo.
const PLATFORM_VERSION: u32 = 0x0901;

/// Device in the list of a platform, with the functions that describe it.
#[derive(Clone, Copy)]
struct ListedDevice {
    api: &'static OpenClApi,
    device: Object,
}

impl ListedDevice {
    /// Returns the bytes of a property.
    fn value(self, what: u32) -> Result<Vec<u8>, DeviceError> {
        info(|bytes, at, length| {
            // SAFETY: there is room for `bytes` bytes; the device has just been listed.
            unsafe { (self.api.clGetDeviceInfo)(self.device, what, bytes, at, length) }
        })
    }

    /// Returns a numeric property; `None` if the driver does not support it.
    fn number(self, what: u32) -> Option<u64> {
        let bytes = self.value(what).ok()?;
        let mut number = [0; 8];
        number.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(u64::from_le_bytes(number))
    }
}

impl OpenCl {
    fn describe(
        &self,
        index: usize,
        platform: Object,
        device: Object,
    ) -> Result<DeviceInfo, DeviceError> {
        let api = self.api;
        let listed = ListedDevice { api, device };
        let version = info(|bytes, at, length| {
            // SAFETY: there is room for `bytes` bytes; the platform has just been listed.
            unsafe { (api.clGetPlatformInfo)(platform, PLATFORM_VERSION, bytes, at, length) }
        });
        let class = match listed.number(DEVICE_TYPE) {
            Some(kind) if kind & 2 != 0 => DeviceClass::Cpu,
            Some(kind) if kind & 4 != 0 => DeviceClass::Gpu,
            _ => DeviceClass::Accelerator,
        };
        let pci = listed.value(DEVICE_PCI_BUS_INFO_KHR).ok().and_then(|bytes| pci_address(&bytes));
        let uuid = listed.value(DEVICE_UUID_KHR).ok().filter(|bytes| bytes.len() == 16);
        Ok(DeviceInfo {
            driver: api::NAME.to_owned(),
            index,
            name: words(&listed.value(DEVICE_NAME)?),
            class,
            // In a text such as `OpenCL 3.0 PoCL 3.1+debian  Linux, ...`, the part after two spaces describes the
            // build.
            driver_version: format!(
                "{} (driver {})",
                words(&version?).split("  ").next().unwrap_or_default().trim(),
                words(&listed.value(DRIVER_VERSION)?)
            ),
            uuid: uuid.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            pci,
            memory: Bytes(listed.number(GLOBAL_MEM_SIZE).unwrap_or(0)),
            largest_allocation: Bytes(listed.number(MAX_MEM_ALLOC_SIZE).unwrap_or(0)),
            shares_host_memory: listed.number(HOST_UNIFIED_MEMORY) == Some(1),
            last_cache: listed.number(GLOBAL_MEM_CACHE_SIZE).filter(|value| *value > 0).map(Bytes),
            units: listed.number(MAX_COMPUTE_UNITS).unwrap_or(0) as u32,
            clock: listed
                .number(MAX_CLOCK_FREQUENCY)
                .filter(|value| *value > 0)
                .map(|mhz| Hertz(mhz as f64 * 1e6)),
            largest_group: listed.number(MAX_WORK_GROUP_SIZE).unwrap_or(1) as usize,
            native_vector_widths: [NATIVE_VECTOR_WIDTH_DOUBLE, NATIVE_VECTOR_WIDTH_FLOAT].map(
                |what| {
                    listed.number(what).filter(|value| *value > 0).map(|elements| elements as u32)
                },
            ),
            double: listed.number(DOUBLE_FP_CONFIG).filter(|value| *value > 0).is_some(),
            ecc: listed.number(ERROR_CORRECTION_SUPPORT).map(|on| on == 1),
            ..DeviceInfo::default()
        })
    }
}

/// Formats a PCI address from four 32-bit numbers: domain, bus, device, function.
fn pci_address(bytes: &[u8]) -> Option<String> {
    let mut numbers =
        bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap_or_default()));
    let domain = numbers.next()?;
    let bus = numbers.next()?;
    let device = numbers.next()?;
    let function = numbers.next()?;
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

/// Converts a text of the driver, which ends with a zero byte.
fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_matches(['\0', ' ', '\n']).to_owned()
}

/// Returns the objects that a query function lists. The function is called twice: first for the number of objects, then
/// for the objects.
fn list(
    call: &str,
    ask: impl Fn(u32, *mut Object, *mut u32) -> i32,
) -> Result<Vec<Object>, DeviceError> {
    let mut count = 0;
    check(call, ask(0, null_mut(), &raw mut count))?;
    let mut all = vec![null_mut(); count as usize];
    check(call, ask(count, all.as_mut_ptr(), &raw mut count))?;
    all.truncate(count as usize);
    Ok(all)
}

/// Returns the bytes that a query function writes. The function is called twice: first for the number of bytes, then
/// for the bytes.
fn info(ask: impl Fn(usize, *mut c_void, *mut usize) -> i32) -> Result<Vec<u8>, DeviceError> {
    let mut length = 0;
    check("clGetDeviceInfo", ask(0, null_mut(), &raw mut length))?;
    let mut bytes = vec![0u8; length];
    check("clGetDeviceInfo", ask(length, bytes.as_mut_ptr().cast(), null_mut()))?;
    Ok(bytes)
}

/// Arguments of a call that waits for no events: an empty list of events.
const NO_EVENTS: (u32, *const Object) = (0, null());

#[cfg(test)]
mod tests;
