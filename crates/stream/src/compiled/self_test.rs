//! Self-test of a compiled kernel: the first run, whose results are compared with reference results. It runs in a
//! separate process, so that a crash, a hang or a wild store does not affect the measurement.

use crate::kernels::oracle::Oracle;
use crate::kernels::{Element, Kernel, compiled};
use nodegauge_toolchain::{CommandLine, Compiler};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::Path;
use std::sync::Arc;

/// Hidden command that runs the self-test.
pub const COMMAND: &str = "test-kernel";
/// Output of a process after a successful self-test; after a crash this output is missing.
pub const PASSED: &str = "passed";

/// Returns the array lengths to test. They include all lengths around the number of elements per iteration of any loop.
/// The longest exceeds the blocks of a sum, and the length from which the copy functions of the C library use another
/// method.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=70).chain([127, 128, 129, 515, 4099, 530_003])
}

/// Loads `library` and tests its function for `kernel` on arrays of `element`. The process is killed after
/// `cpu_seconds` of CPU time.
///
/// # Errors
/// Fails with a message if the library cannot be loaded, or if a result is wrong.
///
/// # Safety
/// The library is unknown code, which may corrupt or end this process.
pub unsafe fn run(
    library: &Path,
    kernel: Kernel,
    element: Element,
    cpu_seconds: u64,
) -> Result<(), String> {
    // The operating system kills a kernel that never ends. An error of this call is ignored, because the elapsed time
    // is limited too.
    let cpu = Rlimit { current: Some(cpu_seconds), maximum: Some(cpu_seconds + 1) };
    let _ = setrlimit(Resource::Cpu, cpu);
    // A crash of the kernel needs no core dump. If the limit cannot be set, the dump is written to the private
    // directory of the library, which is deleted.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    // SAFETY: the caller accepts that unknown code may crash this process.
    let loaded = unsafe { compiled::load(library) }
        .map_err(|error| format!("the shared object cannot be loaded: {error}"))?;
    let unknown = Compiler { command: CommandLine::new("unknown", []), version: None };
    // SAFETY: the caller accepts that unknown code may crash this process.
    let found = unsafe { compiled::find(&loaded, kernel, element, Arc::new(unknown), None) }?;
    let found = crate::kernels::Loop::Compiled(Arc::new(found));
    Oracle::new(kernel, element)
        .check(lengths(), &mut |args| {
            // SAFETY: the caller accepts that unknown code may crash this process.
            unsafe { found.run(args) }
        })
        .map_err(|wrong| wrong.to_string())
}
