//! Names of tests and figures in records.

/// Name of the test of STREAM's kernels on devices.
pub use nodegauge_measure::figure_names::stream::TEST_ON_DEVICES as STREAM;
/// Name of the test of copies.
pub const LINKS: &str = "device_links";
/// Name of copies from the host to a device.
pub const TO_DEVICE: &str = "host_to_device";
/// Name of copies from a device to the host.
pub const TO_HOST: &str = "device_to_host";
/// Name of copies from a device to another device.
pub const DEVICE_TO_DEVICE: &str = "device_to_device";
