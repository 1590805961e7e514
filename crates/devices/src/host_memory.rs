//! Host memory for devices without their own memory, such as the CPU as an OpenCL device. A control group or a limit of
//! this process may permit less than the machine has.

use crate::info::DeviceInfo;
use nodegauge_gauge::MeasuredNode;
use nodegauge_machine::memory;
use nodegauge_measure::{Bytes, Failure};

/// Memory that the driver of a device without its own memory needs in this process to compile loops. A driver such as
/// PoCL contains the compiler LLVM, which needs about 150 MB for the loops of this crate.
const DRIVER_RESERVE: Bytes = Bytes::mib(256);

/// Returns the memory that this process can still use; `None` if it is unknown. It may be less than in the description
/// of the node, because the process has loaded drivers since then.
pub(crate) fn remaining_memory(site: &MeasuredNode) -> Option<Bytes> {
    let now = memory::remaining_bytes(&site.root).filter(|_| !site.machine.is_described());
    site.machine.memory.available.into_iter().chain(now).min().map(Bytes)
}

/// Returns the part of the memory `left` that arrays of a device without its own memory may use; `None` if it is
/// unknown.
///
/// Fails if the remaining memory is too small for the driver to compile loops.
pub(crate) fn array_memory(
    info: &DeviceInfo,
    left: Option<Bytes>,
) -> Result<Option<Bytes>, Failure> {
    left.map(|left| left_by_driver(&info.id(), left)).transpose()
}

fn left_by_driver(device: &str, left: Bytes) -> Result<Bytes, Failure> {
    if left < DRIVER_RESERVE {
        return Err(Failure::missing(format!(
            "the driver of {device} needs up to {DRIVER_RESERVE} of host memory to compile loops, but only {left} is available"
        ))
        .hint("raise the memory limit of the control group or job, or leave the device out with --device"));
    }
    Ok(Bytes(left.0 - DRIVER_RESERVE.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_arrays_leave_memory_for_the_driver() {
        let gib = Bytes::gib(1);
        assert_eq!(left_by_driver("opencl:0", gib).unwrap(), Bytes::mib(1024 - 256));
        let refused = left_by_driver("opencl:0", Bytes::mib(60)).unwrap_err().to_string();
        assert!(refused.starts_with("the driver of opencl:0 needs up to 256 MiB"), "{refused}");
        assert!(refused.contains("only 60 MiB is available\nhint: "), "{refused}");
    }
}
