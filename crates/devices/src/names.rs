//! Names of tests and figures, as records have them.

/// `test` of STREAM's kernels.
pub use nodegauge_measure::figure_names::stream::TEST_ON_DEVICES as STREAM;
/// `test` of copies.
pub const LINKS: &str = "device_links";
/// Host to device, alone.
pub const TO_DEVICE: &str = "host_to_device";
/// Device to host, alone.
pub const TO_HOST: &str = "device_to_host";
/// From one device to another.
pub const ACROSS: &str = "device_to_device";
