//! First run of a compiled kernel, compared with the reference results. It runs in a separate process, so that a
//! crash, a hang or a wild store does not affect the measurement.

use crate::kernels::{Element, Kernel, compiled, oracle};
use nodegauge_toolchain::{CommandLine, Compiler};
use std::path::Path;
use std::sync::Arc;

/// Hidden command that runs the self-test.
pub const COMMAND: &str = "test-kernel";
/// Output of a process that completed its self-test; a kernel that crashes prevents it.
pub const PASSED: &str = "passed";

/// Returns the lengths to test: all around the step of any vector and unroll, and one longer than the blocks of a sum
/// and than the length from which libraries copy differently.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=70).chain([127, 128, 129, 515, 4099, 530_003])
}

/// Loads `library` and tests its function for `kernel` on arrays of `element`.
///
/// # Errors
/// The error in words.
///
/// # Safety
/// The library is unknown code, which may corrupt or end this process.
pub unsafe fn run(library: &Path, kernel: Kernel, element: Element) -> Result<(), String> {
    // No core dump of a crash that is expected. If the limit cannot be set, the dump is written to the private
    // directory of the library, which is deleted.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // SAFETY: the caller accepts that this process may be lost.
    let loaded = unsafe { compiled::load(library) }
        .map_err(|error| format!("the shared object cannot be loaded: {error}"))?;
    let unknown = Compiler { command: CommandLine::new("unknown", []), version: None };
    // SAFETY: the caller accepts that this process may be lost.
    let found = unsafe { compiled::find(&loaded, kernel, element, Arc::new(unknown), None) }?;
    let found = crate::kernels::Loop::Compiled(Arc::new(found));
    oracle::check(kernel, element, lengths(), &mut |args| {
        // SAFETY: the caller accepts that this process may be lost.
        unsafe { found.run(args) }
    })
    .map_err(|wrong| wrong.to_string())
}
