//! Back end for CUDA's driver API on NVIDIA GPUs. It requires only the driver; the CUDA toolkit is optional.

pub(crate) mod api;
mod blas;
mod compile;
mod context;
pub(crate) mod device;

use crate::driver::{DeviceError, Driver, FailureClass, OpenDevice};
use crate::info::{DeviceClass, DeviceInfo};
use api::{CudaApi, VendorApi, text_from_bytes};
use device::VendorDevice;
use nodegauge_machine::devices::nvml::{self, Nvml, NvmlError, NvmlReading};
use nodegauge_measure::record::TheoreticalValue;
use nodegauge_measure::{Bytes, Hertz};
use std::ffi::c_int;

/// File names of the driver's library.
const LIBRARIES: &[&str] = &["libcuda.so.1"];
/// Oldest supported driver version (CUDA 8.0). It can load the included PTX and supports its target architecture.
const MIN_VERSION: c_int = 8000;

/// Numbers of device attributes in the driver's API.
#[derive(Debug, Clone, Copy)]
pub struct AttributeNumbers {
    /// Maximum number of threads per block.
    pub largest_block: c_int,
    /// Clock of the compute units, kHz.
    pub clock: c_int,
    /// Number of multiprocessors.
    pub units: c_int,
    /// 1 if the device uses the host's memory.
    pub integrated: c_int,
    /// 1 if ECC is enabled.
    pub ecc: c_int,
    /// Clock of the memory, kHz.
    pub memory_clock: c_int,
    /// Width of the memory bus, bits.
    pub bus: c_int,
    /// Size of the last-level cache, bytes.
    pub last_cache: c_int,
}

/// Values of `CUdevice_attribute` of cuda.h.
const ATTRIBUTES: AttributeNumbers = AttributeNumbers {
    largest_block: 1,
    clock: 13,
    units: 16,
    integrated: 18,
    ecc: 32,
    memory_clock: 36,
    bus: 37,
    last_cache: 38,
};
/// Attributes for the major and minor version number of the compute capability.
const CAPABILITY: [c_int; 2] = [75, 76];

/// Loaded CUDA driver.
pub struct Cuda {
    api: &'static CudaApi,
}

impl Cuda {
    /// Loads and initialises the library. Because loading may crash, a child process has already tried it.
    ///
    /// # Errors
    /// Fails if the library is missing or too old, or lists no device.
    pub fn load() -> Result<Self, DeviceError> {
        let api = CudaApi::load(VendorApi::Cuda, LIBRARIES).map_err(with_cause)?;
        let version = driver_version(api)?;
        if version < MIN_VERSION {
            let error = VendorApi::Cuda.error(FailureClass::TooOld, LIBRARIES[0], 0);
            return Err(
                error.with_detail(format!("found CUDA {}, but 8.0 is required", words(version)))
            );
        }
        Ok(Self { api })
    }

    fn describe(&self, index: usize) -> Result<DeviceInfo, DeviceError> {
        let (info, number) = describe(self.api, &ATTRIBUTES, index)?;
        let nvml = Nvml::open().ok();
        let kernel = nvml.as_ref().and_then(Nvml::driver_version);
        let kernel = kernel.map(|version| format!(" (driver {version})")).unwrap_or_default();
        let slice = slice(self.api, number);
        // The memory bus of a MIG slice is unknown, because the driver reports the bus of the whole GPU.
        let whole = slice.is_none();
        let capability = self.capability(number)?;
        Ok(DeviceInfo {
            driver_version: format!("CUDA {}{kernel}", words(driver_version(self.api)?)),
            uuid: uuid(self.api, "cuDeviceGetUuid_v2", number)
                .or_else(|| uuid(self.api, "cuDeviceGetUuid", number))
                .map(|uuid| format!("{}-{uuid}", if whole { "GPU" } else { "MIG" })),
            theoretical: info.theoretical.filter(|_| whole),
            peak: peaks(capability, info.units, info.clock),
            matrix_peak: matrix_peak(capability, info.units, info.clock),
            slice,
            ..info
        })
    }

    fn capability(&self, number: c_int) -> Result<[c_int; 2], DeviceError> {
        let [major, minor] = CAPABILITY.map(|what| attribute(self.api, what, number));
        Ok([major?, minor?])
    }
}

impl Driver for Cuda {
    fn name(&self) -> &'static str {
        VendorApi::Cuda.name()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        probe_compiler(VendorApi::Cuda);
        let count = device_count(self.api).map_err(with_cause)?;
        (0..count).map(|index| self.describe(index)).collect()
    }

    fn open(&self, index: usize) -> Result<Box<dyn OpenDevice>, DeviceError> {
        let info = self.describe(index)?;
        let number = device_number(self.api, index)?;
        let [major, minor] = self.capability(number)?;
        let architecture = Some(format!("sm_{major}{minor}"));
        let nvml = Nvml::open().ok();
        Ok(Box::new(VendorDevice::open(self.api, number, info, architecture, nvml)?))
    }
}

/// Loads the run-time compiler. The child process that lists devices calls this, so that a crash does not affect the
/// main process.
pub(crate) fn probe_compiler(dialect: VendorApi) {
    compile::is_available(dialect);
}

/// Returns the properties of a device that CUDA and HIP report in the same way, together with the driver's number of
/// the device.
pub(crate) fn describe(
    api: &'static CudaApi,
    attributes: &AttributeNumbers,
    index: usize,
) -> Result<(DeviceInfo, c_int), DeviceError> {
    let number = device_number(api, index)?;
    let mut name = [0u8; 256];
    let mut pci = [0u8; 32];
    let mut memory = 0;
    // SAFETY: there is room for texts of these lengths; the call writes the number of bytes.
    unsafe {
        api.device_name(name.as_mut_ptr().cast(), name.len() as c_int, number)?;
        api.pci(pci.as_mut_ptr().cast(), pci.len() as c_int, number)?;
        api.device_memory(&raw mut memory, number)?;
    }
    let get = |what| attribute(api, what, number);
    let some = |what| get(what).map(|value| Some(value).filter(|value| *value > 0));
    let memory_clock = some(attributes.memory_clock)?.map(hertz_from_khz);
    let bus = some(attributes.bus)?;
    let info = DeviceInfo {
        driver: api.dialect.name().to_owned(),
        index,
        name: text_from_bytes(&name),
        class: DeviceClass::Gpu,
        pci: Some(text_from_bytes(&pci).to_lowercase()),
        memory: Bytes(memory as u64),
        largest_allocation: Bytes(memory as u64),
        shares_host_memory: get(attributes.integrated)? == 1,
        last_cache: some(attributes.last_cache)?.map(|bytes| Bytes(bytes as u64)),
        units: get(attributes.units)? as u32,
        clock: some(attributes.clock)?.map(hertz_from_khz),
        memory_clock,
        memory_bus_bits: bus.map(|bits| bits as u32),
        largest_group: get(attributes.largest_block)? as usize,
        double: true,
        ecc: Some(get(attributes.ecc)? == 1),
        theoretical: memory_clock.zip(bus).map(|(clock, bits)| TheoreticalValue {
            // The memory performs two transfers per reported clock cycle.
            value: 2.0 * clock.0 * f64::from(bits) / 8.0,
            basis: "driver".to_owned(),
            detail: Some(format!("{bits} bits x 2 x {:.0} MHz", clock.0 / 1e6)),
            at_most: false,
        }),
        ..DeviceInfo::default()
    };
    Ok((info, number))
}

/// Returns the number of devices that the driver lists.
pub(crate) fn device_count(api: &CudaApi) -> Result<usize, DeviceError> {
    let mut count = 0;
    // SAFETY: the call writes the count.
    unsafe { api.count(&raw mut count)? };
    match count {
        0 => Err(api.dialect.error(FailureClass::NoDevice, "cuDeviceGetCount", 0)),
        count => Ok(count as usize),
    }
}

/// Returns the driver's number of a device.
pub(crate) fn device_number(api: &CudaApi, index: usize) -> Result<c_int, DeviceError> {
    let mut number = 0;
    // SAFETY: the call writes the number.
    unsafe { api.device(&raw mut number, index as c_int)? };
    Ok(number)
}

/// Returns the version of the driver, in the driver's encoding.
pub(crate) fn driver_version(api: &CudaApi) -> Result<c_int, DeviceError> {
    let mut version = 0;
    // SAFETY: the call writes the version.
    unsafe { api.version(&raw mut version)? };
    Ok(version)
}

fn attribute(api: &CudaApi, what: c_int, number: c_int) -> Result<c_int, DeviceError> {
    let mut value = 0;
    // SAFETY: the call writes the value.
    unsafe { api.attribute(&raw mut value, what, number)? };
    Ok(value)
}

/// Formats an encoded version number: `12040` is 12.4.
fn words(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the UUID of a device as reported by `function`. For a MIG slice, only the function whose name ends with
/// `_v2` returns the UUID of the slice.
fn uuid(api: &CudaApi, function: &str, number: c_int) -> Option<String> {
    type Uuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;
    let mut bytes = [0; 16];
    // SAFETY: the type matches the declaration of the function; the call writes 16 bytes.
    let code = unsafe { api.library.function::<Uuid>(function)?(&raw mut bytes, number) };
    let text = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| text[part].to_owned());
    (code == 0).then(|| parts.join("-"))
}

/// Returns the description of a MIG slice; `None` if the device is a whole GPU. A slice has a UUID that differs from
/// the GPU's.
fn slice(api: &CudaApi, number: c_int) -> Option<String> {
    let own = uuid(api, "cuDeviceGetUuid_v2", number)?;
    let whole = uuid(api, "cuDeviceGetUuid", number)?;
    (own != whole).then(|| format!("MIG slice of GPU-{whole}"))
}

/// Number of multiply-adds per cycle and multiprocessor in double and in single precision, by compute capability (CUDA
/// C++ Programming Guide, "Throughput of Native Arithmetic Instructions").
const MULTIPLY_ADDS: [([c_int; 2], [u32; 2]); 10] = [
    ([6, 0], [32, 64]),
    ([6, 1], [4, 128]),
    ([7, 0], [32, 64]),
    ([7, 5], [2, 64]),
    ([8, 0], [32, 64]),
    ([8, 6], [2, 128]),
    ([8, 9], [2, 128]),
    ([9, 0], [64, 128]),
    ([10, 0], [64, 128]),
    ([12, 0], [2, 128]),
];

/// Number of multiply-adds in double precision per cycle and multiprocessor of tensor cores, by compute capability, for
/// devices whose tensor cores are faster than the other units. NVIDIA's data sheets give 19.5 TFLOP/s for A100 (108
/// multiprocessors, 1.41 GHz) and 66.9 TFLOP/s for H100 SXM (132, 1.98 GHz), twice the peaks without tensor cores.
const TENSOR_MULTIPLY_ADDS: [([c_int; 2], u32); 2] = [([8, 0], 64), ([9, 0], 128)];

/// Returns the number of multiply-adds per cycle and multiprocessor in double and in single precision.
fn multiply_adds(capability: [c_int; 2]) -> Option<[u32; 2]> {
    let (_, rates) = MULTIPLY_ADDS.iter().find(|(of, _)| *of == capability)?;
    Some(*rates)
}

/// Returns the peak of `units` multiprocessors with `rate` multiply-adds per cycle each; `with` names the kind of
/// units.
fn unit_peak(rate: u32, with: &str, units: u32, clock: Hertz) -> TheoreticalValue {
    let mhz = clock.0 / 1e6;
    TheoreticalValue {
        value: 2.0 * f64::from(rate) * f64::from(units) * clock.0,
        basis: "driver".to_owned(),
        detail: Some(format!(
            "{units} multiprocessors x {rate} multiply-adds{with} x {mhz:.0} MHz"
        )),
        at_most: false,
    }
}

/// Returns the peaks of multiply-adds in double and in single precision.
fn peaks(
    capability: [c_int; 2],
    units: u32,
    clock: Option<Hertz>,
) -> [Option<TheoreticalValue>; 2] {
    let known = multiply_adds(capability).zip(clock);
    [0, 1].map(|precision| {
        let (rates, hertz) = known?;
        Some(unit_peak(rates[precision], "", units, hertz))
    })
}

/// Returns the peak of matrix products in double precision.
fn matrix_peak(
    capability: [c_int; 2],
    units: u32,
    clock: Option<Hertz>,
) -> Option<TheoreticalValue> {
    let [without, _] = multiply_adds(capability)?;
    let hertz = clock?;
    match TENSOR_MULTIPLY_ADDS.iter().find(|(of, _)| *of == capability) {
        Some((_, rate)) => Some(unit_peak(*rate, " of tensor cores", units, hertz)),
        None => Some(unit_peak(without, "", units, hertz)),
    }
}

/// Adds the cause of an error of CUDA: the fabric manager is not running (code 802), or the reason that NVML provides
/// if CUDA lists no device.
fn with_cause(error: DeviceError) -> DeviceError {
    if error.code == 802 {
        return error
            .with_detail("NVSwitch's fabric manager (nvidia-fabricmanager) is not running");
    }
    match error.kind {
        FailureClass::NoDevice | FailureClass::NotAllowed => {
            let hidden = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            with_nvml_cause(error, nvml::read(), hidden.as_deref())
        }
        _ => error,
    }
}

/// Adds the reason why CUDA lists no device. NVML provides the reason, because it also lists GPUs that are hidden from
/// CUDA.
fn with_nvml_cause(
    mut error: DeviceError,
    seen: Result<NvmlReading, NvmlError>,
    visible: Option<&str>,
) -> DeviceError {
    let seen = match seen {
        Ok(seen) => seen,
        Err(NvmlError::Missing(_)) => return error,
        Err(cause) => return error.with_detail(cause),
    };
    if let Some((index, cause)) = seen.unresponsive.first() {
        if *cause == NvmlError::NoPermission {
            error.kind = FailureClass::NotAllowed;
        }
        return error.with_detail(format!("GPU {index}: {cause}"));
    }
    match (visible, seen.gpus.len()) {
        (Some(value), 1) => error
            .with_detail(format!("CUDA_VISIBLE_DEVICES={value} hides the only GPU of this node")),
        (Some(value), gpus @ 2..) => error.with_detail(format!(
            "CUDA_VISIBLE_DEVICES={value} hides all {gpus} GPUs of this node"
        )),
        _ => error,
    }
}

/// Returns a clock frequency that a driver reports in kHz.
fn hertz_from_khz(khz: c_int) -> Hertz {
    Hertz(f64::from(khz) * 1e3)
}

#[cfg(test)]
mod tests;
