//! Loops in shared objects that compilers of this system made of `probes/kernels.c`.

use super::{Args, Element, Kernel, SideBySide, Stores};
use libloading::Library;

use nodegauge_toolchain::code::Code;
use nodegauge_toolchain::{CommandLine, Compiler};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// The macro of `probes/kernels.c` for pages side by side.
pub(crate) const PAGES: &str = "PAGES";

/// Returns the number of pages that the kernels of a command walk side by side; `None` for plain loops.
pub(crate) fn side_by_side(command: &CommandLine) -> Option<u8> {
    command.defined(PAGES)?.parse().ok().and_then(SideBySide::new)?.several()
}

/// Function of `probes/kernels.c`: the arrays, elements, STREAM's scalar.
type CompiledFn = unsafe extern "C" fn(*mut u8, *mut u8, *mut u8, *mut u8, isize, f64) -> f64;

/// A loop that a compiler made. Its library stays loaded as long as it.
#[derive(Debug)]
pub struct CompiledLoop {
    /// The kernel.
    pub kernel: Kernel,
    /// Element type.
    pub element: Element,
    /// Compiler that made it.
    pub compiler: Arc<Compiler>,
    /// Properties of its machine code; `None` if nodegauge cannot decode the processor's instructions.
    pub code: Option<Code>,
    function: CompiledFn,
    _library: Arc<Library>,
}

impl CompiledLoop {
    /// Returns the kind of store; `None` if the code is unknown, or a library function stores.
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

    /// Runs it on one thread's share; returns the sum of a kernel that sums, else 0.
    ///
    /// # Safety
    /// As for [`Variant::run`](super::Variant::run).
    pub(super) unsafe fn run(&self, args: &Args) -> f64 {
        let n = args.n as isize;
        let [a, b, c, d] = args.at.map(NonNull::as_ptr);
        // SAFETY: the caller's promise; the function has this signature in `probes/kernels.c`, and
        // was checked on arrays of this element type in a process of its own.
        unsafe { (self.function)(a, b, c, d, n, args.scalar) }
    }
}

/// The name of a kernel's function in `probes/kernels.c`.
pub fn symbol(kernel: Kernel) -> String {
    format!("nodegauge_{kernel}")
}

/// Loads a shared object. What its linker wants done at loading is done on a thread that ends: code
/// for fast arithmetic switches denormal numbers off, for the thread that loads it and all threads
/// that this one starts.
///
/// # Errors
/// What the dynamic linker says.
///
/// # Safety
/// What the shared object does when it is loaded must do no harm to this process.
pub(crate) unsafe fn load(path: &Path) -> Result<Arc<Library>, String> {
    std::thread::scope(|scope| {
        scope
            // SAFETY: the caller's promise.
            .spawn(|| unsafe { Library::new(path) })
            .join()
            .map_err(|_| "the dynamic linker did not return".to_owned())?
            .map(Arc::new)
            .map_err(|error| error.to_string())
    })
}

/// Finds the function of `kernel` in a library that was made for arrays of `element`.
///
/// # Errors
/// When there is none.
///
/// # Safety
/// The function of that name has the signature of `probes/kernels.c` and keeps to its arrays.
pub(crate) unsafe fn find(
    library: &Arc<Library>,
    kernel: Kernel,
    element: Element,
    compiler: Arc<Compiler>,
    code: Option<Code>,
) -> Result<CompiledLoop, String> {
    let name = symbol(kernel);
    // SAFETY: the caller's promise on the signature.
    let found = unsafe { library.get::<CompiledFn>(name.as_bytes()) };
    let function = *found.map_err(|_| format!("there is no function {name} in it"))?;
    let library = Arc::clone(library);
    Ok(CompiledLoop { kernel, element, compiler, code, function, _library: library })
}
