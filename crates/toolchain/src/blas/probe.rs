//! Tests of a library in a child process, because the library may crash. A test returns the properties of the library
//! and its DGEMM rate. The library is tested with the kernels that it selects itself, and with other kernels that this
//! processor supports.
//!
//! A library that is older than the processor silently uses kernels for older processors, which may be slower by a
//! factor of two or more. Therefore kernels that an environment variable can select are tested, too.

use super::find::BlasCandidate;
use super::info::{BlasInfo, BlasVendor, ProbedBlas};
use super::kernels;
use super::library::{self, BlasLibrary};
use crate::quote::{last_line, no_response_reason, quoted_lines};
use crate::{ChildEnd, CommandLine, Job, KillReason, ToolchainError, run};
use nodegauge_measure::{Failure, FlopsPerSec};
use nodegauge_os::describe_exit_status;
use std::path::Path;
use std::time::Duration;

/// Answer of the child process: the properties and the rate of the library in FLOP/s, or the reason why the library
/// cannot be used.
type Answer = Result<(BlasInfo, f64), Failure>;

/// Time limit of a test, which includes loading the library from a slow file system.
const LIMIT: Duration = Duration::from_secs(20);
/// Option with which the child process prints the output of [`list_kernels`] instead of the output of [`probe_output`].
pub const LIST_KERNELS_OPTION: &str = "--list-kernels";

/// Starter of the child processes in which libraries are tested.
#[derive(Debug, Clone)]
pub struct BlasProber {
    /// Command that starts this program so that it prints the output of [`probe_output`]. The path of a library is
    /// appended, and optionally [`LIST_KERNELS_OPTION`].
    pub command: CommandLine,
}

impl BlasProber {
    /// Tests the library of `candidate` with the kernels that it selects.
    ///
    /// # Errors
    /// Fails when the library cannot be used, or when the user interrupts the run. The error contains the library's
    /// error output.
    pub fn probe(
        &self,
        candidate: &BlasCandidate,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ProbedBlas, ToolchainError> {
        let (info, rate) = self.ask(&candidate.path, None, interrupted)?;
        Ok(ProbedBlas { info, rate: FlopsPerSec(rate), environment: None })
    }

    /// Tests the library of `candidate` with the kernels named `wanted`. `isa` returns true for an instruction set of
    /// the processor, named as in `/proc/cpuinfo`.
    ///
    /// # Errors
    /// Fails before the kernels run if the library does not contain them, or if the processor does not support a
    /// required instruction set. Otherwise fails as [`BlasProber::probe`] does.
    pub fn probe_kernel(
        &self,
        candidate: &BlasCandidate,
        wanted: &str,
        isa: &dyn Fn(&str) -> bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ProbedBlas, ToolchainError> {
        let environment = self.setting(candidate, wanted, isa, interrupted)?;
        let (info, rate) = self.ask(&candidate.path, environment.as_ref(), interrupted)?;
        match &info.kernel {
            Some(got) if !wanted.eq_ignore_ascii_case(got) => Err(ToolchainError::Unusable(
                Failure::missing(format!(
                    "{} runs its {got} kernels, not {wanted}",
                    candidate.path.display(),
                ))
                .hint(format!(
                    "{} cannot select these kernels on this node; leave out '@{wanted}'",
                    info.vendor,
                )),
            )),
            _ => Ok(ProbedBlas { info, rate: FlopsPerSec(rate), environment }),
        }
    }

    /// Measures the rate of a tested library again in a new process; returns FLOP/s.
    ///
    /// # Errors
    /// Fails as [`BlasProber::probe`] does.
    pub fn measure_rate(
        &self,
        probed: &ProbedBlas,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<f64, ToolchainError> {
        let environment = probed.environment.as_ref();
        self.ask(&probed.info.path, environment, interrupted).map(|(_, rate)| rate)
    }

    /// Loads the library at `path` in a child process with the variable `environment`. Returns the properties of the
    /// library, and its rate in FLOP/s.
    fn ask(
        &self,
        path: &Path,
        environment: Option<&(String, String)>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(BlasInfo, f64), ToolchainError> {
        let mut job = self.job(path);
        job.environment
            .extend(environment.map(|(name, value)| (name.clone(), Some(value.clone()))));
        let output = run(&job, interrupted)?;

        let status = match output.end {
            ChildEnd::Exited(status) => status,
            ChildEnd::Killed(KillReason::Interrupted) => return Err(ToolchainError::Interrupted),
            ChildEnd::Killed(KillReason::TimedOut) => {
                return Err(crashed(path, &no_response_reason(output.limit), &output.stderr));
            }
            ChildEnd::Killed(KillReason::TooMuchOutput) => {
                return Err(crashed(path, "endless output", &output.stderr));
            }
        };
        // The library may also print to standard output; the answer is the last line.
        let line = output.stdout.lines().next_back().unwrap_or_default();
        let answer = serde_json::from_str::<Answer>(line).ok().filter(|_| status.success());
        let answer =
            answer.ok_or_else(|| crashed(path, &describe_exit_status(status), &output.stderr))?;
        answer.map_err(ToolchainError::Unusable)
    }

    /// Tests `candidate` with the kernels that it selects itself, and then with other kernels that may be fast and that
    /// this processor supports, until `is_over` returns true. `isa` has the same meaning as in
    /// [`BlasProber::probe_kernel`].
    ///
    /// # Errors
    /// Fails as [`BlasProber::probe`] does; unavailable kernels are left out.
    pub fn probe_all(
        &self,
        candidate: &BlasCandidate,
        isa: &dyn Fn(&str) -> bool,
        is_over: &dyn Fn() -> bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<ProbedBlas>, ToolchainError> {
        let mut probed = vec![self.probe(candidate, interrupted)?];
        let vendor = probed[0].info.vendor;
        // If the user's environment selects kernels, only this selection is tested.
        let is_set = vendor.kernel_variable().is_some_and(|name| std::env::var_os(name).is_some());
        if is_set {
            return Ok(probed);
        }
        for kernel in kernels::promising_kernels(vendor, isa) {
            if is_over() {
                break;
            }
            let mut known = probed.iter().filter_map(|blas| blas.info.kernel.as_deref());
            if !known.any(|name| name.eq_ignore_ascii_case(kernel)) {
                probed.extend(usable(self.probe_kernel(candidate, kernel, isa, interrupted))?);
            }
        }
        Ok(probed)
    }

    /// Returns the environment variable and the value that select the kernels `wanted`; `None` if the library has
    /// no such variable.
    fn setting(
        &self,
        candidate: &BlasCandidate,
        wanted: &str,
        isa: &dyn Fn(&str) -> bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<(String, String)>, ToolchainError> {
        let mut vendor = candidate.vendor;
        if vendor == BlasVendor::Other
            && let Some(probed) = usable(self.probe(candidate, interrupted))?
        {
            vendor = probed.info.vendor;
        }
        let Some(variable) = vendor.kernel_variable() else { return Ok(None) };
        let mut value = wanted.to_owned();
        if vendor == BlasVendor::Blis {
            let names = self.blis_kernels(&candidate.path, interrupted)?;
            if !names.is_empty() {
                value = kernels::kernel_index(wanted, &names)?.to_string();
            }
        }
        kernels::check_is_supported(vendor, wanted, isa)?;
        Ok(Some((variable.to_owned(), value)))
    }

    /// Returns the kernels that the BLIS library at `path` lists; empty if it lists none or cannot be loaded.
    fn blis_kernels(
        &self,
        path: &Path,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, ToolchainError> {
        let mut job = self.job(path);
        job.command = job.command.with_arguments([LIST_KERNELS_OPTION]);
        let output = run(&job, interrupted)?;
        if let ChildEnd::Killed(KillReason::Interrupted) = output.end {
            return Err(ToolchainError::Interrupted);
        }
        let line = output.stdout.lines().next_back().unwrap_or_default();
        Ok(serde_json::from_str(line).unwrap_or_default())
    }

    fn job(&self, path: &Path) -> Job {
        // One thread is sufficient. Starting a thread pool would take longer than the test, which takes a tenth of a
        // second.
        let environment = threads_environment(1);
        let command = self.command.with_arguments([path.display().to_string()]);
        Job { environment, ..Job::new(command, LIMIT) }
    }
}

/// Returns the error for a child process that tested the library at `path` and ended with `how`, without an answer.
fn crashed(path: &Path, how: &str, stderr: &str) -> ToolchainError {
    let path = path.display();
    let reason = quoted_lines(&last_line(stderr));
    ToolchainError::Unusable(
        Failure::missing(format!(
            "{path} cannot be used: the process that tested it ended with {how}{reason}"
        ))
        .hint("give another library with --blas"),
    )
}

/// Returns the environment variables that set the number of threads of a library in a child process.
pub fn threads_environment(threads: usize) -> Vec<(String, Option<String>)> {
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"]
        .map(|name| (name.to_owned(), Some(threads.to_string())))
        .to_vec()
}

/// Returns the tested library, or `None` if the library cannot be used.
///
/// # Errors
/// Returns all other errors, e.g. an interruption.
fn usable(tried: Result<ProbedBlas, ToolchainError>) -> Result<Option<ProbedBlas>, ToolchainError> {
    match tried {
        Err(ToolchainError::Unusable(_)) => Ok(None),
        tried => tried.map(Some),
    }
}

/// Returns the output of the child process that tests the library at `path`: one line of JSON. The process may
/// crash. `rate` measures the rate of the library in FLOP/s.
pub fn probe_output(path: &Path, rate: impl FnOnce(BlasLibrary) -> Result<f64, Failure>) -> String {
    let answer: Answer = BlasLibrary::open(path)
        .map_err(Failure::from)
        .and_then(|library| Ok((library.info().clone(), rate(library)?)));
    serde_json::to_string(&answer).unwrap_or_default()
}

/// Returns the output of the child process for [`LIST_KERNELS_OPTION`]. It is one line of JSON with the names of the
/// kernels of the BLIS library at `path`. The index of a name is the number of the kernel. No kernel is run.
pub fn list_kernels(path: &Path) -> String {
    let names = library::blis_kernels(path).unwrap_or_default();
    serde_json::to_string(&names).unwrap_or_default()
}
