//! A first run of what a compiler made, held against the oracle. Runs in a process of its own: code
//! that crashes, hangs or writes where it must not does so there.

use crate::kernels::{Element, Kernel, compiled, oracle};
use nodegauge_toolchain::{CommandLine, Compiler};
use std::path::Path;
use std::sync::Arc;

/// The hidden command of the program that runs it.
pub const COMMAND: &str = "test-kernel";
/// Output of a process that reached the end of its self-test: a kernel that crashes prevents it.
pub const PASSED: &str = "passed";

/// Lengths that are tried: all about the steps of any vector and unroll, and one beyond the blocks
/// in which sums are taken and the length from which libraries copy in another way.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=70).chain([127, 128, 129, 515, 4099, 530_003])
}

/// Loads `library` and tries its function for `kernel` on arrays of `element`.
///
/// # Errors
/// What is wrong with it, in words.
///
/// # Safety
/// This process may be lost: the library is code of which nothing is known.
pub unsafe fn run(library: &Path, kernel: Kernel, element: Element) -> Result<(), String> {
    // A crash that is expected leaves no file behind. When this is not granted, the crash may leave
    // one in the library's own private folder, which goes too.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // SAFETY: the caller gives this process up.
    let loaded = unsafe { compiled::load(library) }
        .map_err(|error| format!("it cannot be loaded: {error}"))?;
    let nobody = Compiler { command: CommandLine::new("unknown", []), version: None };
    // SAFETY: the caller gives this process up.
    let found = unsafe { compiled::find(&loaded, kernel, element, Arc::new(nobody), None) }?;
    let found = crate::kernels::Loop::Compiled(Arc::new(found));
    oracle::check(kernel, element, lengths(), &mut |args| {
        // SAFETY: the caller gives this process up.
        unsafe { found.run(args) }
    })
    .map_err(|wrong| wrong.to_string())
}
