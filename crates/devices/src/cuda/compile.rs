//! Code for a device. It is compiled from the source at run time (NVRTC, hipRTC). If CUDA's compiler is not installed,
//! the included PTX is used, which the driver compiles.
//!
//! `probes/ptx` has three PTX builds per element type ([`EMBEDDED_BUILDS`]): one that supports every kernel, and the
//! two that were the fastest on an H100. They were compiled with clang, which does not require the CUDA toolkit; a test
//! compiles them again and compares. Their target is the oldest architecture with a useful rate in double precision
//! (`sm_60`); the driver compiles them for all later devices.

use super::api::{VendorApi, text_from_bytes};
use crate::driver::{DeviceError, FailureClass};
use crate::kernels::KernelSource;
use nodegauge_kernels::Element;
use nodegauge_os::SharedLibrary;
use std::ffi::{CString, c_char, c_int};
use std::ptr::null;
use std::sync::OnceLock;

/// Library names of run-time compilers, newest first, for CUDA and HIP.
const LIBRARIES: [&[&str]; 2] = [
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"],
    &["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"],
];

/// Code in a format that a driver can load.
pub struct DeviceCode(Vec<u8>);

impl DeviceCode {
    /// Returns the bytes of the code; PTX text ends with a zero byte.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the included build that supports every kernel. It has vectors of two elements, two vectors per work-item,
/// and a grid-stride loop, which supports reductions and any number of groups.
const fn strided(element: Element) -> KernelSource {
    KernelSource { element, width: 2, items: 2, strided: true }
}

/// Returns an included build with one group per tile and one vector per work-item.
const fn tiled(element: Element, width: u32) -> KernelSource {
    KernelSource { element, width, items: 1, strided: false }
}

/// Builds that are included as PTX, each with its PTX text.
pub(super) const EMBEDDED_BUILDS: [(KernelSource, &str); 6] = [
    (strided(Element::F64), include_str!("../../probes/ptx/f64-2x2-strided.ptx")),
    (tiled(Element::F64, 1), include_str!("../../probes/ptx/f64-1x1.ptx")),
    (tiled(Element::F64, 2), include_str!("../../probes/ptx/f64-1x2.ptx")),
    (strided(Element::F32), include_str!("../../probes/ptx/f32-2x2-strided.ptx")),
    (tiled(Element::F32, 2), include_str!("../../probes/ptx/f32-1x2.ptx")),
    (tiled(Element::F32, 4), include_str!("../../probes/ptx/f32-1x4.ptx")),
];

/// Returns the included PTX of a build, if there is one.
pub fn embedded_ptx(dialect: VendorApi, source: &KernelSource) -> Option<DeviceCode> {
    if dialect != VendorApi::Cuda {
        return None;
    }
    let (_, text) = EMBEDDED_BUILDS.iter().find(|(of, _)| of == source)?;
    Some(DeviceCode([text.as_bytes(), &[0]].concat()))
}

/// True if the run-time compiler can be loaded.
pub fn is_available(dialect: VendorApi) -> bool {
    Compiler::from_dialect(dialect).is_some()
}

/// Compiles a build for an architecture, e.g. `sm_90`.
///
/// # Errors
/// Fails if the compiler is missing or reports an error; the failure contains the first line of the compiler's log.
pub fn compile_at_run_time(
    dialect: VendorApi,
    source: &KernelSource,
    architecture: Option<&str>,
) -> Result<DeviceCode, DeviceError> {
    let reason = "the toolkit's run-time compiler is not installed";
    let Some(compiler) = Compiler::from_dialect(dialect) else {
        return Err(dialect.unsupported_error(LIBRARIES[dialect as usize][0], reason));
    };
    let mut options: Vec<String> =
        source.defines().into_iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    options.extend(architecture.map(|architecture| format!("--gpu-architecture={architecture}")));
    compiler.compile(KernelSource::text(), &options)
}

/// Handle of type `nvrtcProgram` or `hiprtcProgram`.
type Program = usize;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Length = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Fill = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// Pair of functions for a result of the compilation: the first returns its length, the second its bytes.
#[derive(Clone, Copy)]
struct ResultCalls {
    length: Length,
    fill: Fill,
}

/// Run-time compiler: NVRTC or hipRTC, whose functions have the same arguments.
struct Compiler {
    dialect: VendorApi,
    create: Create,
    compile: Compile,
    log: ResultCalls,
    code: ResultCalls,
    destroy: Destroy,
}

/// Returns the prefix of the compiler's function names.
fn prefix(dialect: VendorApi) -> &'static str {
    dialect.select("nvrtc", "hiprtc")
}

/// Returns the name of a function of the compiler.
fn function_name(dialect: VendorApi, what: &str) -> String {
    format!("{}{what}", prefix(dialect))
}

impl Compiler {
    /// Returns the run-time compiler of an API, if it is installed.
    fn from_dialect(dialect: VendorApi) -> Option<&'static Self> {
        static LOADED: [OnceLock<Option<Compiler>>; 2] = [OnceLock::new(), OnceLock::new()];
        LOADED[dialect as usize].get_or_init(|| Self::load(dialect)).as_ref()
    }

    fn load(dialect: VendorApi) -> Option<Self> {
        // Machine code is used because every minor version of a driver can load it, unlike newer PTX.
        let code = dialect.select("CUBIN", "Code");
        // SAFETY: the child process that listed devices has loaded this library without a crash. The types match
        // nvrtc.h and hiprtc.h.
        unsafe {
            let library = SharedLibrary::open_first(LIBRARIES[dialect as usize]).ok()?;
            Some(Self {
                dialect,
                create: library.function(&function_name(dialect, "CreateProgram"))?,
                compile: library.function(&function_name(dialect, "CompileProgram"))?,
                log: ResultCalls {
                    length: library.function(&function_name(dialect, "GetProgramLogSize"))?,
                    fill: library.function(&function_name(dialect, "GetProgramLog"))?,
                },
                code: ResultCalls {
                    length: library.function(&function_name(dialect, &format!("Get{code}Size")))?,
                    fill: library.function(&function_name(dialect, &format!("Get{code}")))?,
                },
                destroy: library.function(&function_name(dialect, "DestroyProgram"))?,
            })
        }
    }

    /// Returns the error of a call of the compiler.
    fn failed(&self, code: c_int) -> DeviceError {
        self.dialect.error(FailureClass::Build, prefix(self.dialect), code)
    }

    fn compile(&self, text: &str, options: &[String]) -> Result<DeviceCode, DeviceError> {
        let text = c_text(text);
        let name = c_text("device.c");
        let options: Vec<CString> = options.iter().map(|option| c_text(option)).collect();
        let words: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = 0;
        // SAFETY: the texts live and end with a zero byte; there are no headers; the call writes the program.
        let code = unsafe {
            (self.create)(&raw mut program, text.as_ptr(), name.as_ptr(), 0, null(), null())
        };
        if code != 0 {
            return Err(self.failed(code));
        }
        // SAFETY: the program was created; the options live.
        let log_code = unsafe { (self.compile)(program, words.len() as c_int, words.as_ptr()) };
        let image = match log_code {
            0 => {
                self.result_bytes(program, self.code).map(DeviceCode).ok_or_else(|| self.failed(0))
            }
            failure => {
                let bytes = self.result_bytes(program, self.log).unwrap_or_default();
                let log = text_from_bytes(&bytes);
                let mut lines = log.lines();
                let line = lines.clone().find(|line| line.contains("error")).or(lines.next());
                Err(self.failed(failure).with_detail(line.unwrap_or_default()))
            }
        };
        // SAFETY: the program was created here and is not used afterwards.
        unsafe { (self.destroy)(&raw mut program) };
        image
    }

    /// Returns the result that a pair of functions provides, followed by a zero byte.
    fn result_bytes(&self, program: Program, calls: ResultCalls) -> Option<Vec<u8>> {
        let ResultCalls { length, fill } = calls;
        let mut bytes = 0;
        // SAFETY: the program lives; the call writes the length.
        if unsafe { length(program, &raw mut bytes) } != 0 || bytes == 0 {
            return None;
        }
        let mut filled = vec![0u8; bytes + 1];
        // SAFETY: the buffer is long enough for `bytes` bytes.
        (unsafe { fill(program, filled.as_mut_ptr().cast()) } == 0).then_some(filled)
    }
}

#[cfg(test)]
mod tests;

/// Returns `words` with a terminating zero byte; an empty text if `words` itself contains a zero byte.
fn c_text(words: &str) -> CString {
    CString::new(words).unwrap_or_default()
}
