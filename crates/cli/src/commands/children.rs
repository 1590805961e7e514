//! Hidden commands: parts of nodegauge that may crash, or that require a separate process.

use crate::failure::{Exit, Failure};
use crate::output;
use nodegauge_compute::choose::{self, TrialPlaces};
use nodegauge_kernels::{Element, Kernel};
use nodegauge_messages::transport;
use nodegauge_stream::compiled::self_test;
use nodegauge_stream::ranks;
use std::path::Path;

/// Tries a BLAS library; see [`choose::child_output`].
pub(crate) fn try_blas(library: &Path, list_kernels: bool, on: &TrialPlaces) -> Exit {
    output::print(&format!("{}\n", choose::child_output(library, list_kernels, on)));
    Exit::Success
}

/// Measures as a rank for the process that listens at the socket `name`.
pub(crate) fn measure_as_rank(name: &str, rank: u32, ranks: u32) -> Result<Exit, Failure> {
    Ok(Exit::FromRank0(ranks::serve(name, rank, ranks)?))
}

/// Starts ranks that exchange messages without an MPI.
pub(crate) fn start_transport_ranks(order: &str) -> Result<Exit, Failure> {
    transport::serve(order)?;
    Ok(Exit::Success)
}

/// Tries a kernel of a shared object. Returns a failure, or crashes, if the kernel is faulty.
pub(crate) fn test_kernel(
    library: &Path,
    kernel: Kernel,
    element: Element,
    cpu_seconds: u64,
) -> Exit {
    // SAFETY: this process only tests the library; a crash loses nothing.
    match unsafe { self_test::run(library, kernel, element, cpu_seconds) } {
        Ok(()) => {
            output::print(self_test::PASSED);
            Exit::Success
        }
        Err(wrong) => {
            output::print_error_line(&wrong);
            Exit::Unmet
        }
    }
}
