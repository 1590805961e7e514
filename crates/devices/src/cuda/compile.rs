//! Loops as what a device runs: compiled at run time from the source (NVRTC, hipRTC), or, where CUDA's compiler is
//! not installed, PTX that is carried along, which the driver itself translates.
//!
//! `probes/ptx` holds a build per element ([`CARRIED`]), made by clang, which needs no toolkit for that; a test makes
//! them again. They are for the oldest device that computes in double precision at some rate (`sm_60`); the driver
//! translates them for all later ones.

use super::api::{Dialect, text_of};
use crate::driver::{DeviceError, Kind};
use crate::kernels::KernelSource;
use nodegauge_kernels::Element;
use nodegauge_os::SharedLibrary;
use std::ffi::{CString, c_char, c_int};
use std::ptr::null;
use std::sync::OnceLock;

/// Compilers of source at run time, newest first.
const LIBRARIES: [&[&str]; 2] = [
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"],
    &["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"],
];

/// What a driver loads.
pub struct Image(Vec<u8>);

impl Image {
    /// Its bytes; a text ends with a zero.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The build that is carried for an element: vectors of two, two per work-item, in the grid-stride form, which serves
/// every kernel and number of groups.
const fn carried(element: Element) -> KernelSource {
    KernelSource { element, width: 2, items: 2, strided: true }
}

/// The builds that are carried as PTX, and their texts.
pub(super) const CARRIED: [(KernelSource, &str); 2] = [
    (carried(Element::F64), include_str!("../../../../probes/ptx/f64.ptx")),
    (carried(Element::F32), include_str!("../../../../probes/ptx/f32.ptx")),
];

/// Returns a build as carried PTX, if it is one of those.
pub fn assembly(dialect: Dialect, source: &KernelSource) -> Option<Image> {
    if dialect != Dialect::Cuda {
        return None;
    }
    let (_, text) = CARRIED.iter().find(|(of, _)| of == source)?;
    Some(Image([text.as_bytes(), &[0]].concat()))
}

/// Whether the compiler of source is installed, and can be loaded.
pub fn is_there(dialect: Dialect) -> bool {
    Compiler::of(dialect).is_some()
}

/// Compiles a build for an architecture, e.g. `sm_90`.
///
/// # Errors
/// When there is no compiler, or it refuses, with the first line of its log.
pub fn at_run_time(
    dialect: Dialect,
    source: &KernelSource,
    architecture: Option<&str>,
) -> Result<Image, DeviceError> {
    let what = "the compiler that comes with the toolkit is not installed";
    let missing = || dialect.lacks(LIBRARIES[dialect as usize][0], what);
    let compiler = Compiler::of(dialect).ok_or_else(missing)?;
    let mut options: Vec<String> =
        source.defines().into_iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    options.extend(architecture.map(|architecture| format!("--gpu-architecture={architecture}")));
    compiler.compile(KernelSource::text(), &options)
}

/// `nvrtcProgram`, `hiprtcProgram`.
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

/// NVRTC or hipRTC, whose functions have the same arguments.
struct Compiler {
    dialect: Dialect,
    create: Create,
    compile: Compile,
    log: (Length, Fill),
    code: (Length, Fill),
    destroy: Destroy,
}

impl Compiler {
    /// The compiler of a driver, where it is installed.
    fn of(dialect: Dialect) -> Option<&'static Self> {
        static LOADED: [OnceLock<Option<Compiler>>; 2] = [OnceLock::new(), OnceLock::new()];
        LOADED[dialect as usize].get_or_init(|| Self::load(dialect)).as_ref()
    }

    fn load(dialect: Dialect) -> Option<Self> {
        let named = |what: &str| format!("{}{what}", dialect.of("nvrtc", "hiprtc"));
        // Machine code, which a driver of any minor version loads, unlike newer assembly.
        let code = dialect.of("CUBIN", "Code");
        // SAFETY: the vendor's library, which the child process that listed devices has loaded; the functions'
        // types as nvrtc.h and hiprtc.h declare them.
        unsafe {
            let library = SharedLibrary::first_of(LIBRARIES[dialect as usize]).ok()?;
            Some(Self {
                dialect,
                create: library.function(&named("CreateProgram"))?,
                compile: library.function(&named("CompileProgram"))?,
                log: (
                    library.function(&named("GetProgramLogSize"))?,
                    library.function(&named("GetProgramLog"))?,
                ),
                code: (
                    library.function(&named(&format!("Get{code}Size")))?,
                    library.function(&named(&format!("Get{code}")))?,
                ),
                destroy: library.function(&named("DestroyProgram"))?,
            })
        }
    }

    fn compile(&self, text: &str, options: &[String]) -> Result<Image, DeviceError> {
        let failed =
            |code| self.dialect.error(Kind::Build, self.dialect.of("nvrtc", "hiprtc"), code);
        let c_text = |text: &str| CString::new(text).unwrap_or_default();
        let (text, name) = (c_text(text), c_text("device.c"));
        let options: Vec<CString> = options.iter().map(|option| c_text(option)).collect();
        let words: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = 0;
        // SAFETY: texts end with a zero and live; there are no headers; the program is filled in.
        let code = unsafe {
            let (text, name) = (text.as_ptr(), name.as_ptr());
            (self.create)(&raw mut program, text, name, 0, null(), null())
        };
        if code != 0 {
            return Err(failed(code));
        }
        // SAFETY: the program was made; the words live.
        let code = unsafe { (self.compile)(program, words.len() as c_int, words.as_ptr()) };
        let image = match code {
            0 => self.filled(program, self.code).map(Image).ok_or_else(|| failed(0)),
            code => {
                let log = text_of(&self.filled(program, self.log).unwrap_or_default());
                let mut lines = log.lines();
                let line = lines.clone().find(|line| line.contains("error")).or(lines.next());
                Err(failed(code).saying(line.unwrap_or_default()))
            }
        };
        // SAFETY: the program was made here and is not used any more.
        unsafe { (self.destroy)(&raw mut program) };
        image
    }

    /// What a pair of calls gives: how long it is, and its bytes, with a zero behind.
    fn filled(&self, program: Program, (length, fill): (Length, Fill)) -> Option<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the program lives; the length is filled in.
        if unsafe { length(program, &raw mut bytes) } != 0 || bytes == 0 {
            return None;
        }
        let mut filled = vec![0u8; bytes + 1];
        // SAFETY: there is room for so many bytes.
        (unsafe { fill(program, filled.as_mut_ptr().cast()) } == 0).then_some(filled)
    }
}

#[cfg(test)]
mod tests;
