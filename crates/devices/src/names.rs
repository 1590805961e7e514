//! Names of tests and figures in records.

/// Test of STREAM's kernels.
pub use nodegauge_measure::figure_names::stream::TEST_ON_DEVICES as STREAM;
/// Test of copies.
pub const LINKS: &str = "device_links";
/// Copies from the host to a device.
pub const TO_DEVICE: &str = "host_to_device";
/// Copies from a device to the host.
pub const TO_HOST: &str = "device_to_host";
/// Copies from one device to another.
pub const ACROSS: &str = "device_to_device";
