//! Back end for HIP: AMD GPUs through ROCm, with the same loops as for CUDA.

use crate::cuda::api::{CudaApi, VendorApi};
use crate::cuda::device::VendorDevice;
use crate::cuda::{self, AttributeNumbers};
use crate::driver::{DeviceError, Driver, OpenDevice};
use crate::info::DeviceInfo;
use std::ffi::c_int;

/// Library names of ROCm's runtime, newest first.
const LIBRARIES: &[&str] =
    &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// Values of `hipDeviceAttribute_t` of hip_runtime_api.h, unchanged since ROCm 5.
const ATTRIBUTES: AttributeNumbers = AttributeNumbers {
    largest_block: 56,
    clock: 5,
    units: 63,
    integrated: 16,
    ecc: 0,
    memory_clock: 60,
    bus: 59,
    last_cache: 19,
};

/// Loaded HIP runtime.
pub struct Hip {
    api: &'static CudaApi,
}

impl Hip {
    /// Loads and initialises the library. Because loading may crash, a child process has already tried it.
    ///
    /// # Errors
    /// Fails if the library is missing or lists no device.
    pub fn load() -> Result<Self, DeviceError> {
        Ok(Self { api: CudaApi::load(VendorApi::Hip, LIBRARIES)? })
    }

    fn describe(&self, index: usize) -> Result<(DeviceInfo, c_int), DeviceError> {
        let (info, number) = cuda::describe(self.api, &ATTRIBUTES, index)?;
        Ok((DeviceInfo { driver_version: words(cuda::driver_version(self.api)?), ..info }, number))
    }
}

/// Formats an encoded version number: `60443484` is 6.4.43484.
fn words(version: c_int) -> String {
    format!("HIP {}.{}.{}", version / 10_000_000, version / 100_000 % 100, version % 100_000)
}

impl Driver for Hip {
    fn name(&self) -> &'static str {
        VendorApi::Hip.name()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, DeviceError> {
        cuda::probe_compiler(VendorApi::Hip);
        let count = cuda::device_count(self.api)?;
        (0..count).map(|index| self.describe(index).map(|(info, _)| info)).collect()
    }

    fn open(&self, index: usize) -> Result<Box<dyn OpenDevice>, DeviceError> {
        let (info, number) = self.describe(index)?;
        Ok(Box::new(VendorDevice::open(self.api, number, info, None, None)?))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hip_version_is_decoded_as_rocm_prints_it() {
        assert_eq!(super::words(60_443_484), "HIP 6.4.43484");
    }
}
