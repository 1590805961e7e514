//! Builds the kernels of one compiler: compiles `crates/kernels/probes/kernels.c` into a shared object, tests each
//! kernel in a separate process, reads its machine code, and loads it.

use super::self_test;
use crate::GAUGE;
use crate::kernels::compiled::{self, CompiledLoop};
use crate::kernels::{Element, Kernel, Loop};
use crate::result;
use nodegauge_kernels::C_SOURCE;
use nodegauge_measure::Notice;
use nodegauge_measure::record::Measurement;
use nodegauge_toolchain::code::SharedObject;
use nodegauge_toolchain::{
    ChildEnd, CommandLine, CompileLimits, Compiler, Job, JobOutput, KillReason, ProgramReach,
    ScratchFolder, ToolchainError, last_line, limit_exceeded_clause, run,
};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;

/// Flags for a shared object. All supported compilers accept gcc's flags.
const SHARED_FLAGS: [&str; 2] = ["-shared", "-fPIC"];

/// Result of building one kernel: a loop, or the reason why there is none.
#[derive(Debug, Clone)]
struct BuiltKernel {
    kernel: Kernel,
    outcome: Result<Arc<CompiledLoop>, String>,
}

/// Kernels that one compiler built.
#[derive(Debug, Clone)]
pub struct CompiledKernels {
    /// Compiler that built the kernels.
    pub compiler: Arc<Compiler>,
    kernels: Vec<BuiltKernel>,
    /// True if the compilation succeeded; if it failed, each kernel contains the reason.
    compiled: bool,
}

impl CompiledKernels {
    /// Returns the loops that passed the test, in the order of the requested kernels.
    pub fn loops(&self) -> Vec<Loop> {
        let good = self.kernels.iter().filter_map(|made| made.outcome.as_ref().ok().cloned());
        good.map(Loop::Compiled).collect()
    }

    /// Returns the error of a failed compilation; `None` if it succeeded.
    pub fn refusal(&self) -> Option<&str> {
        let first = self.kernels.first()?.outcome.as_ref().err()?;
        (!self.compiled).then_some(first.as_str())
    }

    /// Returns a measurement for each requested kernel, from `measured`. For kernels that are missing there, it returns
    /// an invalid measurement with the reason. `wrong` is the reason for missing kernels that passed the test.
    pub(crate) fn complete_measurements(
        &self,
        mut measured: Vec<Measurement>,
        wrong: Option<&str>,
    ) -> Vec<Measurement> {
        let mut all = Vec::new();
        for made in &self.kernels {
            let name = made.kernel.name();
            if let Some(i) = measured.iter().position(|m| m.name == name) {
                all.push(measured.remove(i));
            } else if let Some(why) = made.outcome.as_ref().err().map(String::as_str).or(wrong) {
                all.push(result::missing_measurement(&self.compiler, made.kernel, why));
            }
        }
        all
    }
}

/// Maximum elapsed time of a self-test, as a multiple of the limit of its CPU time. A node with other load needs more
/// elapsed time.
const MAX_ELAPSED_FACTOR: u32 = 10;

/// Builder of kernels, with a private directory for its files.
pub struct KernelBuilder<'a> {
    scratch: ScratchFolder,
    /// Command that runs [`self_test::run`]. Its arguments are appended.
    /// The command prints [`self_test::PASSED`] on success. On failure it prints the reason on standard error and exits
    /// with an error.
    self_test: CommandLine,
    limits: CompileLimits,
    kernels: &'a [Kernel],
    element: Element,
    made: usize,
    /// Compilers with a kernel that hung. Their other builds are not tested, because each test may take the whole time
    /// limit.
    hung: Vec<HungKernel>,
}

/// Kernel that hung in its self-test.
struct HungKernel {
    compiler: String,
    kernel: Kernel,
}

impl<'a> KernelBuilder<'a> {
    /// Creates a build directory for `kernels` on arrays of `element`.
    ///
    /// # Errors
    /// Fails if no directory can be created.
    pub fn open(
        self_test: CommandLine,
        limits: CompileLimits,
        kernels: &'a [Kernel],
        element: Element,
    ) -> Result<Self, ToolchainError> {
        Ok(Self {
            scratch: ScratchFolder::for_programs(None, ProgramReach::ThisHost)?,
            self_test,
            limits,
            kernels,
            element,
            made: 0,
            hung: Vec::new(),
        })
    }

    /// Returns a notice if the kernels are loaded from memory, because no folder permits execution.
    pub fn notice(&self) -> Option<Notice> {
        self.scratch.notice(GAUGE)
    }

    /// Builds the kernels of a compiler. An error of the compiler and errors of single kernels are part of the result.
    ///
    /// # Errors
    /// Fails if the compiler does not exist or cannot be started, and if the user interrupts the run.
    pub fn build(
        &mut self,
        command: &CommandLine,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<CompiledKernels, ToolchainError> {
        self.made += 1;
        let mut compiler = Arc::new(Compiler { command: command.clone(), version: None });
        let library =
            Compiler::find(command.clone(), self.limits.version, interrupted).and_then(|found| {
                compiler = Arc::new(found);
                self.compile(&compiler, interrupted)
            });
        let compiled = library.is_ok();
        let kernels = match library {
            Ok(library) => self.build_kernels(&library, &compiler, interrupted)?,
            Err(error) => {
                let why = self.in_words(error)?;
                let kernels = self.kernels.iter().copied();
                kernels.map(|kernel| BuiltKernel { kernel, outcome: Err(why.clone()) }).collect()
            }
        };
        Ok(CompiledKernels { compiler, kernels, compiled })
    }

    /// Compiles the kernels; returns the path of the shared object.
    fn compile(
        &self,
        compiler: &Compiler,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<std::path::PathBuf, ToolchainError> {
        let source = self.scratch.path().join("kernels.c");
        std::fs::write(&source, C_SOURCE)
            .map_err(|cause| ScratchFolder::error(self.scratch.path(), &cause))?;
        let element = if self.element == Element::F32 { "float" } else { "double" };
        let mut flags = SHARED_FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("-DELEMENT={element}"));
        let name = format!("kernels-{}.so", self.made);
        let limit = self.limits.compile;
        let program =
            compiler.compile(limit, &[&source], &flags, &self.scratch, &name, interrupted)?;
        Ok(program.path)
    }

    /// Returns the text for the record if the compiler failed or exceeded its time limit; every other error remains an
    /// error.
    fn in_words(&self, error: ToolchainError) -> Result<String, ToolchainError> {
        let why = match error {
            ToolchainError::Compile { status, errors, flags, .. } => {
                let colon = if errors.is_empty() { "" } else { ": " };
                let flags = flags.map(|flags| format!("; {flags}")).unwrap_or_default();
                format!("the compiler failed ({status}){colon}{errors}{flags}")
            }
            ToolchainError::TooLong { limit, .. } => {
                format!("the compiler {}", limit_exceeded_clause(limit))
            }
            other => return Err(other),
        };
        // The private directory is removed from the message, because it is deleted after the build.
        Ok(why.replace(&format!("{}/", self.scratch.path().display()), ""))
    }

    fn build_kernels(
        &mut self,
        library: &Path,
        compiler: &Arc<Compiler>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<BuiltKernel>, ToolchainError> {
        let mut tried = Vec::new();
        let program = compiler.command.program();
        for kernel in self.kernels {
            let hung = self.hung.iter().find(|hung| hung.compiler == program);
            let outcome = match hung {
                None => self.try_out(library, *kernel, interrupted)?,
                Some(hung) => SelfTest::Failed(format!("not tested: {} hangs", hung.kernel)),
            };
            if let SelfTest::Hung(_) = outcome {
                self.hung.push(HungKernel { compiler: program.to_owned(), kernel: *kernel });
            }
            tried.push((*kernel, outcome));
        }
        let passed = tried.iter().any(|(_, outcome)| matches!(outcome, SelfTest::Passed));
        let object = if passed { SharedObject::open(library).ok() } else { None };
        // SAFETY: a separate process has loaded the library and ended normally.
        let loaded = passed.then(|| unsafe { compiled::load(library) });
        let outcome = |kernel: Kernel, tested: SelfTest| match (tested, &loaded) {
            (SelfTest::Passed, Some(Ok(loaded))) => {
                let code = object.as_ref().and_then(|object| {
                    object.function_code(&compiled::symbol(kernel)).ok().flatten()
                });
                let compiler = Arc::clone(compiler);
                // SAFETY: the function was compiled from the source that defines this signature, and it has been
                // tested.
                let found = unsafe { compiled::find(loaded, kernel, self.element, compiler, code) };
                found.map(Arc::new)
            }
            (SelfTest::Passed, Some(Err(error))) => {
                Err(format!("the shared object cannot be loaded: {error}"))
            }
            (SelfTest::Passed, None) => Err("the shared object was not loaded".to_owned()),
            (SelfTest::Failed(why) | SelfTest::Hung(why), _) => Err(why),
        };
        let mut made = Vec::new();
        for (kernel, tested) in tried {
            made.push(BuiltKernel { kernel, outcome: outcome(kernel, tested) });
        }
        Ok(made)
    }

    /// Tests a kernel in a separate process.
    fn try_out(
        &self,
        library: &Path,
        kernel: Kernel,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<SelfTest, ToolchainError> {
        let cpu_seconds = self.limits.trial.as_secs_f64().ceil() as u64;
        let words = [
            library.display().to_string(),
            kernel.to_string(),
            self.element.to_string(),
            cpu_seconds.to_string(),
        ];
        let job = Job {
            folder: self.scratch.path().to_owned(),
            ..Job::new(self.self_test.with_arguments(words), self.limits.trial * MAX_ELAPSED_FACTOR)
        };
        let output = run(&job, interrupted)?;
        Ok(match output.end {
            ChildEnd::Exited(status)
                if status.success() && output.stdout.trim() == self_test::PASSED =>
            {
                SelfTest::Passed
            }
            ChildEnd::Exited(status) if status.code() == Some(1) => {
                SelfTest::Failed(format!("{kernel} gives wrong results: {}", error_tail(&output)))
            }
            ChildEnd::Exited(status) if status.success() => {
                SelfTest::Failed(format!("{kernel} terminates the program"))
            }
            ChildEnd::Exited(status) if status.signal() == Some(Signal::XCPU.as_raw()) => {
                SelfTest::Hung(format!(
                    "{kernel} hangs: it exceeded {cpu_seconds} s of CPU time and was killed"
                ))
            }
            ChildEnd::Exited(status) => SelfTest::Failed(format!(
                "{kernel} crashes: {}",
                nodegauge_os::describe_exit_status(status)
            )),
            ChildEnd::Killed(KillReason::TimedOut) if output.limit.is_zero() => {
                SelfTest::Failed("not tested: no time is left".to_owned())
            }
            ChildEnd::Killed(KillReason::TimedOut) => SelfTest::Hung(format!(
                "{kernel} hangs: it {}",
                limit_exceeded_clause(output.limit)
            )),
            ChildEnd::Killed(KillReason::TooMuchOutput) => {
                SelfTest::Failed(format!("{kernel} prints too much output"))
            }
            ChildEnd::Killed(KillReason::Interrupted) => return Err(ToolchainError::Interrupted),
        })
    }
}

/// Result of the self-test of a kernel.
enum SelfTest {
    Passed,
    Failed(String),
    Hung(String),
}

/// Returns the last non-empty line of the error output.
fn error_tail(output: &JobOutput) -> String {
    let line = last_line(&output.stderr);
    if line.is_empty() { "no error message".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::KERNELS;
    use crate::kernels::oracle::Oracle;

    #[test]
    fn compiled_kernels_agree_with_the_oracle() {
        let kernels: Vec<Kernel> =
            KERNELS.iter().filter(|spec| spec.has_pass_loops()).map(|spec| spec.kernel).collect();
        let plain = CommandLine::new("cc", ["-O2"]);
        let commands = [plain.clone(), plain.with_arguments(["-DPAGES=4"])];
        let cases =
            Element::ALL.iter().flat_map(|element| commands.iter().map(move |c| (element, c)));
        for (element, command) in cases {
            let passed = CommandLine::new("sh", ["-c", "echo passed"]);
            let mut builder =
                KernelBuilder::open(passed, CompileLimits::DEFAULT, &kernels, *element).unwrap();
            let made = builder.build(command, &|| false).unwrap();
            assert_eq!(made.refusal(), None);
            let loops = made.loops();
            assert_eq!(loops.len(), kernels.len());
            for each in loops {
                let lengths = (0..=70).step_by(5).chain([515, 4099, 40_009]);
                let mut oracle = Oracle::new(each.kernel(), *element);
                let outcome = oracle.check(lengths, &mut |args| {
                    // SAFETY: the buffers of the reference computation contain `n` elements each and do not overlap.
                    unsafe { each.run(args) }
                });
                assert_eq!(outcome, Ok(()), "{} of {element}, {command}", each.kernel());
            }
        }
    }
}
