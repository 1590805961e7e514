//! Devices of the node that compute: what their management libraries say of them.

#[allow(unsafe_code)]
pub mod nvml;
