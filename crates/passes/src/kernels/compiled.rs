//! Loops in shared objects that a compiler of this system has built from `crates/kernels/probes/kernels.c`.

use super::{Element, Kernel, LoopArgs, SideBySidePages, Stores};
use libloading::Library;
use nodegauge_toolchain::code::CodeProperties;
use nodegauge_toolchain::{CommandLine, Compiler};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// Macro of `crates/kernels/probes/kernels.c` that sets how many pages a loop traverses side by side.
pub const PAGES_MACRO: &str = "PAGES";

/// Returns the number of pages that kernels built with a compiler command traverse side by side; `None` for plain
/// loops.
pub fn side_by_side(command: &CommandLine) -> Option<u8> {
    command.macro_value(PAGES_MACRO)?.parse().ok().and_then(SideBySidePages::new)?.above_one()
}

/// Type of the functions in `crates/kernels/probes/kernels.c`; the arguments are the arrays, the number of
/// elements, and STREAM's scalar.
type CompiledFn = unsafe extern "C" fn(*mut u8, *mut u8, *mut u8, *mut u8, isize, f64) -> f64;

/// Compiled loop. Its library stays loaded as long as the loop exists.
#[derive(Debug)]
pub struct CompiledLoop {
    /// Kernel that the loop computes.
    pub kernel: Kernel,
    /// Type of the array elements.
    pub element: Element,
    /// Compiler that built the loop.
    pub compiler: Arc<Compiler>,
    /// Properties of the machine code; `None` if nodegauge cannot decode the processor's instructions.
    pub code: Option<CodeProperties>,
    function: CompiledFn,
    _library: Arc<Library>,
}

impl CompiledLoop {
    /// Returns the kind of store; `None` if the code is unknown, or if a library function performs the stores.
    pub fn stores(&self) -> Option<Stores> {
        if !self.kernel.writes() {
            return Some(Stores::Regular);
        }
        let code = self.code.as_ref()?;
        match (code.vector_bits, code.calls.is_empty()) {
            (Some(_), _) if code.nontemporal => Some(Stores::NonTemporal),
            (Some(_), true) => Some(Stores::Regular),
            _ => None,
        }
    }

    /// Runs the loop on the share of one thread. Returns the sum for a reduction, and 0 for other kernels.
    ///
    /// # Safety
    /// The requirements of [`Variant::run`](super::Variant::run) apply.
    pub(super) unsafe fn run(&self, args: &LoopArgs) -> f64 {
        let n = args.n as isize;
        let [a, b, c, d] = args.at.map(NonNull::as_ptr);
        // SAFETY: the caller guarantees valid arguments. The function has the signature in
        // `crates/kernels/probes/kernels.c`, and it was tested on arrays of this element type in a separate process.
        unsafe { (self.function)(a, b, c, d, n, args.scalar) }
    }
}

/// Returns the name of a kernel's function in `crates/kernels/probes/kernels.c`.
pub fn symbol(kernel: Kernel) -> String {
    format!("nodegauge_{kernel}")
}

/// Loads a shared object in a temporary thread. Code that is compiled for fast arithmetic disables denormal numbers
/// in the thread that loads it, and in all threads that this thread starts. The temporary thread limits this
/// effect.
///
/// # Errors
/// Fails with the message of the dynamic linker.
///
/// # Safety
/// The initialisers of the shared object must not harm this process.
pub unsafe fn load(path: &Path) -> Result<Arc<Library>, String> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            // SAFETY: the caller guarantees that the initialisers are harmless.
            .spawn_scoped(scope, || unsafe { Library::new(path) })
            .map_err(|cause| format!("cannot start a thread: {cause}"))?
            .join()
            .map_err(|_| "the dynamic linker failed".to_owned())?
            .map(Arc::new)
            .map_err(|error| error.to_string())
    })
}

/// Finds the function of `kernel` in a library that was built for arrays of `element`.
///
/// # Errors
/// Fails if there is no such function.
///
/// # Safety
/// The function must have the signature of `crates/kernels/probes/kernels.c` and must access only its arrays.
pub unsafe fn find(
    library: &Arc<Library>,
    kernel: Kernel,
    element: Element,
    compiler: Arc<Compiler>,
    code: Option<CodeProperties>,
) -> Result<CompiledLoop, String> {
    let name = symbol(kernel);
    // SAFETY: the caller guarantees the signature of the function.
    let found = unsafe { library.get::<CompiledFn>(name.as_bytes()) };
    let function = *found.map_err(|_| format!("the shared object has no function {name}"))?;
    let library = Arc::clone(library);
    Ok(CompiledLoop { kernel, element, compiler, code, function, _library: library })
}
