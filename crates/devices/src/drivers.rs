//! List of drivers, the devices of each driver, and the selection of devices. Each driver is first loaded in a child
//! process, because loading may crash.

use crate::GAUGE;
use crate::cuda::Cuda;
use crate::driver::{DeviceError, Driver, FailureClass, OpenDevice};
use crate::hip::Hip;
use crate::info::DeviceInfo;
use crate::opencl::OpenCl;
use nodegauge_measure::grammar::Cursor;
use nodegauge_measure::{Failure, FailureKind, Notice, NoticeId, SyntaxError, UnknownName};
use nodegauge_os::{ChildEnd, KillReason, describe_exit_status};
use nodegauge_toolchain::{CommandLine, Job, last_line, no_response_reason, run};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

/// Function that loads a driver's library into this process.
type Load = fn() -> Result<Box<dyn Driver>, DeviceError>;

/// Back ends: the driver's name in device names, and the function that loads the driver. Vendors' drivers come before
/// OpenCL, because `all` selects the first driver that lists a device.
pub const DRIVERS: &[(&str, Load)] = &[
    ("cuda", || Ok(Box::new(Cuda::load()?))),
    ("hip", || Ok(Box::new(Hip::load()?))),
    ("opencl", || Ok(Box::new(OpenCl::load()?))),
];

/// Hidden command that lists the devices of one driver in a child process.
pub const LIST_DEVICES_COMMAND: &str = "list-devices";
/// Hint for a node without a driver.
const INSTALL: &str =
    "install the driver of the device's vendor, or pocl-opencl-icd for this node's processor";
/// Timeout for listing devices. It is long because a driver wakes every device that it lists.
const LIMIT: Duration = Duration::from_secs(60);

/// Devices of a driver, or the reason why the driver has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverListing {
    /// Name of the driver.
    pub driver: String,
    /// Devices of the driver.
    pub devices: Result<Vec<DeviceInfo>, DeviceError>,
}

/// Returns the devices of the driver `name` as JSON ([`DriverListing`]), which the child process prints.
pub fn listing_json(name: &str) -> String {
    let devices = load(name).and_then(|driver| driver.devices());
    serde_json::to_string(&DriverListing { driver: name.to_owned(), devices }).unwrap_or_default()
}

fn load(name: &str) -> Result<Box<dyn Driver>, DeviceError> {
    let known = DRIVERS.iter().find(|(known, _)| *known == name);
    known.map_or_else(
        || Err(DeviceError::new(FailureClass::NoDriver, name, name, 0)),
        |(_, load)| load(),
    )
}

/// Lists the devices of all drivers, each in a child process.
///
/// # Errors
/// Fails if this program cannot start itself, or if the user interrupts the run.
pub fn list_devices(interrupted: &dyn Fn() -> bool) -> Result<Vec<DriverListing>, Failure> {
    let program = nodegauge_os::own_program().map_err(|cause| {
        Failure::missing(format!(
            "the path of this program's executable cannot be determined: {cause}"
        ))
    })?;
    let mut listings = Vec::with_capacity(DRIVERS.len());
    for (name, _) in DRIVERS {
        let words = [LIST_DEVICES_COMMAND.to_owned(), (*name).to_owned()];
        let job = Job::new(CommandLine::new(program.clone(), words), LIMIT);
        let output = run(&job, interrupted)?;
        let devices = match output.end {
            ChildEnd::Exited(status) => {
                // The driver may also print to standard output; the listing is the last line.
                let line = output.stdout.lines().next_back().unwrap_or_default();
                let answer = serde_json::from_str::<DriverListing>(line).ok();
                match answer.filter(|_| status.success()) {
                    Some(listing) => listing.devices,
                    None => {
                        let how = format!("ended with {}", describe_exit_status(status));
                        Err(no_listing(name, &how, &output.stderr))
                    }
                }
            }
            ChildEnd::Killed(KillReason::TooMuchOutput) => {
                Err(no_listing(name, "printed too much output", &output.stderr))
            }
            ChildEnd::Killed(_) => {
                let how = format!("was killed: {}", no_response_reason(output.limit));
                Err(no_listing(name, &how, &output.stderr))
            }
        };
        listings.push(DriverListing { driver: (*name).to_owned(), devices });
    }
    Ok(listings)
}

/// Returns the error of a child process that did not list the devices of a driver.
fn no_listing(name: &str, how: &str, stderr: &str) -> DeviceError {
    let line = last_line(stderr);
    let last_line = if line.is_empty() { line } else { format!(": {line}") };
    DeviceError::new(
        FailureClass::Other,
        name,
        "while its devices were listed in a child process",
        0,
    )
    .with_detail(format!("the child process {how}{last_line}"))
}

/// Device that the user requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// All devices.
    #[default]
    All,
    /// Device of a driver, by its index in the driver's list.
    One(String, usize),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::One(driver, index) => write!(f, "{driver}:{index}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = SyntaxError;

    /// Parses `all`, or the name of a driver with the number of a device, e.g. `opencl:0`.
    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        if text == "all" {
            return Ok(Self::All);
        }
        let mut cursor = Cursor::new("device", "opencl:0, cuda:1 or all", text);
        let driver = cursor.take_while(|c| c != ':');
        let known: Vec<&'static str> = DRIVERS.iter().map(|(name, _)| *name).collect();
        if !known.contains(&driver) {
            let given = driver.to_owned();
            let known = known.into_iter().chain(["all"]).collect();
            let unknown = UnknownName { what: "device driver", given, known };
            return Err(cursor.error_at(0, unknown.to_string()));
        }
        if cursor.at_end() {
            return Ok(Self::One(driver.to_owned(), 0));
        }
        cursor.expect(':', "expected ':' and the number of a device")?;
        let index_at = cursor.position();
        let index = cursor.number("expected the number of a device")?;
        let index = usize::try_from(index)
            .map_err(|_| cursor.error_at(index_at, "this number is too large"))?;
        cursor.finish("expected nothing after the number of the device")?;
        Ok(Self::One(driver.to_owned(), index))
    }
}

/// Devices to measure, with notices about the other devices.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectedDevices {
    /// Devices to measure.
    pub devices: Vec<DeviceInfo>,
    /// Notices about devices that are not measured.
    pub notices: Vec<Notice>,
}

/// Lists the devices of all drivers and returns the requested devices. If no device is requested, all devices are
/// returned.
///
/// # Errors
/// Fails if there is no device, or if a requested device is missing.
pub fn find_devices(choices: &[DeviceChoice]) -> Result<SelectedDevices, Failure> {
    let listings = list_devices(&|| false)?;
    let mut notices = Vec::new();
    let choices = if choices.is_empty() { &[DeviceChoice::All] } else { choices };
    let devices = select_devices(choices, &listings, &mut notices)?;
    Ok(SelectedDevices { devices, notices })
}

/// Returns the requested devices in the order of the drivers, without duplicates.
///
/// # Errors
/// Fails if there is no device, or if a requested device is missing.
pub fn select_devices(
    choices: &[DeviceChoice],
    listings: &[DriverListing],
    notices: &mut Vec<Notice>,
) -> Result<Vec<DeviceInfo>, Failure> {
    let all: Vec<&DeviceInfo> =
        listings.iter().filter_map(|listing| listing.devices.as_ref().ok()).flatten().collect();
    let mut found: Vec<DeviceInfo> = Vec::new();
    for choice in choices {
        match choice {
            DeviceChoice::All => {
                for device in &all {
                    let same = found.iter().find(|known| {
                        known.driver != device.driver
                            && known.pci.is_some()
                            && known.pci == device.pci
                    });
                    match same {
                        Some(known) => notices.push(Notice::new(
                            NoticeId::LeftOut,
                            GAUGE,
                            format!(
                                "{0} is the same device as {1} and is measured as {1}",
                                device.id(),
                                known.id()
                            ),
                        )),
                        None => found.push((*device).clone()),
                    }
                }
            }
            DeviceChoice::One(driver, index) => {
                let listing = listings.iter().find(|listing| listing.driver == *driver);
                let devices = match listing.map(|listing| &listing.devices) {
                    Some(Ok(devices)) => devices,
                    Some(Err(error)) if error.kind == FailureClass::NoDriver => {
                        return Err(Failure::missing(error).hint(INSTALL));
                    }
                    Some(Err(error)) => return Err(error.clone().into()),
                    None => {
                        return Err(DeviceError::new(FailureClass::NoDriver, driver, "", 0).into());
                    }
                };
                let device = devices.get(*index).ok_or_else(|| {
                    let known: Vec<String> = all.iter().map(|known| known.id()).collect();
                    Failure::usage(format!(
                        "there is no device {choice}: expected {}",
                        known.join(", ")
                    ))
                })?;
                found.push(device.clone());
            }
        }
    }
    let mut once: Vec<DeviceInfo> = Vec::new();
    for device in found {
        if once.iter().all(|known| known.id() != device.id()) {
            once.push(device);
        }
    }
    if once.is_empty() {
        return Err(Failure::missing(format!(
            "no device can be used: {}",
            device_missing_reasons(listings).join("; "),
        ))
        .hint(INSTALL));
    }
    Ok(once)
}

/// Returns one line per driver with the reason why the driver has no devices.
pub fn device_missing_reasons(listings: &[DriverListing]) -> Vec<String> {
    let errors = listings.iter().filter_map(|listing| listing.devices.as_ref().err());
    errors.map(|error| Failure::from(error.clone()).single_line()).collect()
}

/// Opens devices. A faulty driver may crash this process.
///
/// Returns the first error of a device that cannot be opened.
pub fn open_devices(devices: &[DeviceInfo]) -> Result<Vec<Rc<dyn OpenDevice>>, DeviceError> {
    let mut loaded: Vec<Box<dyn Driver>> = Vec::new();
    let mut opened = Vec::new();
    for device in devices {
        if loaded.iter().all(|driver| driver.name() != device.driver) {
            loaded.push(load(&device.driver)?);
        }
        let driver = loaded.iter().find(|driver| driver.name() == device.driver);
        let driver = driver
            .ok_or_else(|| DeviceError::new(FailureClass::NoDriver, &device.driver, "", 0))?;
        opened.push(Rc::from(driver.open(device.index)?));
    }
    Ok(opened)
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        let kind = match error.kind {
            // Measurements with faulty memory are invalid.
            FailureClass::Ecc => FailureKind::Unmet,
            _ => FailureKind::Missing,
        };
        Self::new(kind, &error).hint_if(error.hint().map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(driver: &str, index: usize, pci: &str) -> DeviceInfo {
        let (driver, pci) = (driver.to_owned(), Some(pci.to_owned()));
        DeviceInfo { driver, index, pci, ..DeviceInfo::default() }
    }

    #[test]
    fn device_listed_by_two_drivers_is_measured_once() {
        let of = |driver: &str, devices| DriverListing { driver: driver.to_owned(), devices };
        let listings = [
            of("cuda", Ok(vec![device("cuda", 0, "0000:17:00.0")])),
            of("hip", Err(DeviceError::new(FailureClass::NoDriver, "hip", "libamdhip64.so.6", 0))),
            of(
                "opencl",
                Ok(vec![device("opencl", 0, "0000:17:00.0"), device("opencl", 1, "0000:65:00.0")]),
            ),
        ];
        let mut notices = Vec::new();
        let mut ids = |choices: &[DeviceChoice]| -> Result<Vec<String>, Failure> {
            let found = select_devices(choices, &listings, &mut notices)?;
            Ok(found.iter().map(DeviceInfo::id).collect())
        };
        assert_eq!(ids(&[DeviceChoice::All]).unwrap(), ["cuda:0", "opencl:1"]);
        let one = |driver: &str, index| DeviceChoice::One(driver.to_owned(), index);
        assert_eq!(ids(&[one("opencl", 0), one("opencl", 0)]).unwrap(), ["opencl:0"]);
        let error = ids(&[one("opencl", 7)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no device opencl:7: expected cuda:0, opencl:0, opencl:1"
        );
        let hip_error = ids(&[one("hip", 0)]).unwrap_err();
        assert!(hip_error.to_string().contains("libamdhip64.so.6"), "{hip_error}");
        assert_eq!(notices.len(), 1);
    }
}
