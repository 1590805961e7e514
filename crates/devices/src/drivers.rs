//! The drivers that there are, and what each of them lists.

use crate::cuda::Cuda;
use crate::driver::{DeviceError, Driver};
use crate::hip::Hip;
use crate::info::DeviceInfo;
use crate::opencl::OpenCl;
use serde::{Deserialize, Serialize};

/// Loads a driver's library into this process.
type Load = fn() -> Result<Box<dyn Driver>, DeviceError>;

/// A back end each: the name in the names of devices, and how its driver is loaded.
pub const DRIVERS: &[(&str, Load)] = &[
    ("opencl", || Ok(Box::new(OpenCl::load()?))),
    ("cuda", || Ok(Box::new(Cuda::load()?))),
    ("hip", || Ok(Box::new(Hip::load()?))),
];

/// What a driver has, or why it has nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The driver's name.
    pub driver: String,
    /// Its devices.
    pub devices: Result<Vec<DeviceInfo>, DeviceError>,
}

impl Listing {
    /// Asks a driver in this process, which may not survive it.
    pub fn here((name, load): &(&str, Load)) -> Self {
        let devices = load().and_then(|driver| driver.devices());
        Self { driver: (*name).to_owned(), devices }
    }
}
