//! Tries a library in a process of its own, which may crash, and asks it what it is and how fast it
//! multiplies: on the kernels it takes by itself, and on others that this processor could run.
//!
//! Libraries older than the processor they run on fall back to kernels of an older one, silently: a
//! factor of two or more. What a variable of the library can mend is therefore tried.

use super::find::BlasCandidate;
use super::info::{BlasInfo, ProbedBlas, Vendor};
use super::library::{self, BlasLibrary};
use crate::{ChildEnd, CommandLine, Job, KillReason, ToolchainError, run};
use nodegauge_os::describe;
use std::path::Path;
use std::time::Duration;

/// The child's answer: the library and its rate, FLOP/s, or why it cannot be used.
type Answer = Result<(BlasInfo, f64), String>;

/// Longest time for one try: loading from a slow file system counts.
const LIMIT: Duration = Duration::from_secs(20);

/// Kernels worth trying by vendor: name, and the instruction set that it needs.
const KERNELS: [(Vendor, &str, &str); 6] = [
    (Vendor::OpenBlas, "SkylakeX", "avx512dq"),
    (Vendor::OpenBlas, "Cooperlake", "avx512_bf16"),
    (Vendor::OpenBlas, "Haswell", "fma"),
    (Vendor::Blis, "skx", "avx512dq"),
    (Vendor::Blis, "zen3", "fma"),
    (Vendor::Blis, "haswell", "fma"),
];

/// Starts tries.
#[derive(Debug, Clone)]
pub struct BlasProber {
    /// This program with the words that make it run [`answer`]; the path and the kernel follow.
    pub command: CommandLine,
}

impl BlasProber {
    /// Tries the library of `candidate` with the kernels that it takes by itself, or with `kernel`.
    ///
    /// # Errors
    /// When it cannot be used, with what it said; or when the user ends the run.
    pub fn probe(
        &self,
        candidate: &BlasCandidate,
        kernel: Option<&str>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ProbedBlas, ToolchainError> {
        let setting = kernel.map(|kernel| self.setting(candidate, kernel, interrupted));
        let environment = setting.transpose()?.flatten();
        let (about, rate) = self.ask(&candidate.path, environment.as_ref(), interrupted)?;
        match (kernel, &about.kernel) {
            (Some(wanted), Some(got)) if !wanted.eq_ignore_ascii_case(got) => {
                Err(ToolchainError::Unusable(format!(
                    "{} runs its {got} kernels, not {wanted}\nhint: {} has no such kernels here; leave out '@{wanted}'",
                    candidate.path.display(),
                    about.vendor
                )))
            }
            _ => Ok(ProbedBlas { about, rate, environment }),
        }
    }

    /// The rate of a library once more, in a new process, FLOP/s.
    ///
    /// # Errors
    /// As for [`BlasProber::probe`].
    pub fn rate(
        &self,
        probed: &ProbedBlas,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<f64, ToolchainError> {
        let environment = probed.environment.as_ref();
        self.ask(&probed.about.path, environment, interrupted).map(|(_, rate)| rate)
    }

    /// Lets a child process load the library at `path` with a variable set, and say what it is.
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
        let path = path.display();
        let crashed = |how: String| {
            let said = output.stderr.lines().rfind(|line| !line.trim().is_empty());
            let said = said.map(|line| format!(":\n{line}")).unwrap_or_default();
            ToolchainError::Unusable(format!(
                "{path} cannot be used: the process that tried it ended with {how}{said}\nhint: give another with --blas"
            ))
        };
        let status = match output.end {
            ChildEnd::Exited(status) => status,
            ChildEnd::Killed(KillReason::Interrupted) => return Err(ToolchainError::Interrupted),
            ChildEnd::Killed(KillReason::TimedOut) => {
                return Err(crashed(format!("no answer in {} s", LIMIT.as_secs())));
            }
            ChildEnd::Killed(KillReason::TooMuchOutput) => {
                return Err(crashed("endless output".to_owned()));
            }
        };
        // A library may print on standard output itself; the answer is the last line.
        let line = output.stdout.lines().next_back().unwrap_or_default();
        let answer = serde_json::from_str::<Answer>(line).ok().filter(|_| status.success());
        let answer = answer.ok_or_else(|| crashed(describe(status)))?;
        answer.map_err(ToolchainError::Unusable)
    }

    /// Tries `candidate` as it is, and with every other kernel that this processor has the
    /// instructions for. `isa` holds the processor's instruction sets as
    /// `/proc/cpuinfo` names them.
    ///
    /// # Errors
    /// As for [`BlasProber::probe`]; a kernel that cannot be had is left out.
    pub fn probe_all(
        &self,
        candidate: &BlasCandidate,
        isa: &dyn Fn(&str) -> bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<ProbedBlas>, ToolchainError> {
        let mut probed = vec![self.probe(candidate, None, interrupted)?];
        let vendor = probed[0].about.vendor;
        // What the user's environment says already is not overruled.
        let told = vendor.kernel_variable().is_some_and(|name| std::env::var_os(name).is_some());
        let kernels = KERNELS.iter().filter(|(of, _, needs)| *of == vendor && !told && isa(needs));
        for (_, kernel, _) in kernels {
            let is_this = |known: &String| known.eq_ignore_ascii_case(kernel);
            if !probed.iter().any(|known| known.about.kernel.as_ref().is_some_and(is_this)) {
                probed.extend(usable(self.probe(candidate, Some(kernel), interrupted))?);
            }
        }
        Ok(probed)
    }

    /// The variable, with its value, that makes the library take `kernel`.
    fn setting(
        &self,
        candidate: &BlasCandidate,
        kernel: &str,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<(String, String)>, ToolchainError> {
        let mut vendor = candidate.vendor;
        if vendor == Vendor::Other
            && let Some(probed) = usable(self.probe(candidate, None, interrupted))?
        {
            vendor = probed.about.vendor;
        }
        let Some(variable) = vendor.kernel_variable() else { return Ok(None) };
        let mut value = kernel.to_owned();
        if vendor == Vendor::Blis {
            let mut job = self.job(&candidate.path);
            job.command = job.command.with(["--number-of", kernel]);
            let output = run(&job, interrupted)?;
            let failed = matches!(output.end, ChildEnd::Exited(status) if !status.success());
            if let (false, Ok(number)) = (failed, output.stdout.trim().parse::<i32>()) {
                value = number.to_string();
            }
        }
        Ok(Some((variable.to_owned(), value)))
    }

    fn job(&self, path: &Path) -> Job {
        // A pool of threads for a try of a tenth of a second would cost more than the try.
        let environment = threads_environment(1);
        let command = self.command.with([path.display().to_string()]);
        Job { environment, ..Job::new(command, LIMIT) }
    }
}

/// The variables that give a library so many threads in a child process.
pub fn threads_environment(threads: usize) -> Vec<(String, Option<String>)> {
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"]
        .map(|name| (name.to_owned(), Some(threads.to_string())))
        .to_vec()
}

/// What was tried, `None` where it cannot be used.
fn usable(tried: Result<ProbedBlas, ToolchainError>) -> Result<Option<ProbedBlas>, ToolchainError> {
    match tried {
        Err(ToolchainError::Unusable(_)) => Ok(None),
        tried => tried.map(Some),
    }
}

/// What the child process, which may crash, prints: one line of JSON about the library at `path`. With `number_of`,
/// the number by which BLIS knows the kernel of that name, or nothing. `rate` measures the library, FLOP/s.
pub fn answer(
    path: &Path,
    number_of: Option<&str>,
    rate: impl FnOnce(BlasLibrary) -> Result<f64, String>,
) -> String {
    if let Some(kernel) = number_of {
        let number = library::blis_number_of(path, kernel).ok().flatten();
        return number.map(|number| number.to_string()).unwrap_or_default();
    }
    let answer: Answer = BlasLibrary::open(path)
        .map_err(|error| error.to_string())
        .and_then(|library| Ok((library.about().clone(), rate(library)?)));
    serde_json::to_string(&answer).unwrap_or_default()
}
