//! Tries a library in a process of its own, which may crash, and asks it what it is and how fast it
//! multiplies: on the kernels it takes by itself, and on others that this processor could run.
//!
//! Libraries older than the processor they run on fall back to kernels of an older one, silently: a
//! factor of two or more. What a variable of the library can mend is therefore tried.

use super::find::BlasCandidate;
use super::info::{BlasError, BlasInfo, Vendor};
use super::library::{self, BlasLibrary};
use super::probed::ProbedBlas;
use crate::{ChildEnd, CommandLine, Job, KillReason, ToolchainError, run};
use nodegauge_os::describe;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The child's answer.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    about: Option<BlasInfo>,
    rate: f64,
    error: Option<String>,
}

/// Longest time for one try: loading from a slow file system counts.
const LIMIT: Duration = Duration::from_secs(20);
/// Order of the product that is timed: its three matrices fit any level-2 cache and some.
const ORDER: usize = 512;
/// For how long it is repeated.
const TRIAL: Duration = Duration::from_millis(30);

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
    ) -> Result<Result<ProbedBlas, BlasError>, ToolchainError> {
        let environment = match kernel {
            None => None,
            Some(kernel) => self.setting(candidate, kernel, interrupted)?,
        };
        let mut job = self.job(candidate.path.as_path());
        job.environment
            .extend(environment.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
        let answer = match self.ask(&job, &candidate.path, interrupted)? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        let Some(about) = answer.about else {
            let cause = answer.error.unwrap_or_else(|| "it gave no answer".to_owned());
            return Ok(Err(BlasError::Said(cause)));
        };
        if let (Some(wanted), Some(got)) = (kernel, &about.kernel)
            && !wanted.eq_ignore_ascii_case(got)
        {
            return Ok(Err(BlasError::Kernel {
                path: candidate.path.clone(),
                vendor: about.vendor,
                wanted: wanted.to_owned(),
                got: got.clone(),
            }));
        }
        Ok(Ok(ProbedBlas::new(about, answer.rate, environment)))
    }

    /// Tries `candidate` as it is, and with every other kernel that this processor has the
    /// instructions for; fastest first. `isa` holds the processor's instruction sets as
    /// `/proc/cpuinfo` names them.
    ///
    /// # Errors
    /// As for [`BlasProber::probe`]; a kernel that cannot be had is left out.
    pub fn probe_all(
        &self,
        candidate: &BlasCandidate,
        isa: &dyn Fn(&str) -> bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Result<Vec<ProbedBlas>, BlasError>, ToolchainError> {
        let first = match self.probe(candidate, None, interrupted)? {
            Ok(first) => first,
            Err(error) => return Ok(Err(error)),
        };
        let mut probed = vec![first];
        for (vendor, kernel, needs) in KERNELS {
            let known = |probed: &ProbedBlas| {
                probed.about().kernel.as_deref().is_some_and(|k| k.eq_ignore_ascii_case(kernel))
            };
            // What the user's environment says already is not overruled.
            let told =
                vendor.kernel_variable().is_some_and(|name| std::env::var_os(name).is_some());
            if vendor != probed[0].about().vendor || told || !isa(needs) || probed.iter().any(known)
            {
                continue;
            }
            if let Ok(other) = self.probe(candidate, Some(kernel), interrupted)? {
                probed.push(other);
            }
        }
        probed.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
        Ok(Ok(probed))
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
            && let Ok(probed) = self.probe(candidate, None, interrupted)?
        {
            vendor = probed.about().vendor;
        }
        let Some(variable) = vendor.kernel_variable() else { return Ok(None) };
        let mut value = kernel.to_owned();
        if vendor == Vendor::Blis {
            let mut job = self.job(candidate.path.as_path());
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
        let environment = ["OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"]
            .map(|name| (name.to_owned(), Some("1".to_owned())))
            .to_vec();
        let command = self.command.with([path.display().to_string()]);
        Job { environment, ..Job::new(command, LIMIT) }
    }

    fn ask(
        &self,
        job: &Job,
        path: &Path,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Result<Answer, BlasError>, ToolchainError> {
        let output = run(job, interrupted)?;
        let said = output.stderr.lines().rfind(|line| !line.trim().is_empty());
        let crashed = |how: String| BlasError::Crashed {
            path: path.to_owned(),
            how,
            said: said.map(|line| format!(":\n{line}")).unwrap_or_default(),
        };
        Ok(match output.end {
            ChildEnd::Killed(KillReason::Interrupted) => return Err(ToolchainError::Interrupted),
            ChildEnd::Killed(KillReason::TimedOut) => {
                Err(crashed(format!("no answer in {} s", LIMIT.as_secs())))
            }
            ChildEnd::Exited(status) => {
                // A library may print on standard output itself; the answer is the last line.
                let line = output.stdout.lines().next_back().unwrap_or_default();
                match serde_json::from_str::<Answer>(line) {
                    Ok(answer) if status.success() => Ok(answer),
                    _ => Err(crashed(describe(status))),
                }
            }
        })
    }
}

/// What the child process, which may crash, prints: one line of JSON about the library at `path`. With `number_of`,
/// the number by which BLIS knows the kernel of that name, or nothing.
pub fn answer(path: &Path, number_of: Option<&str>) -> String {
    if let Some(kernel) = number_of {
        let number = library::blis_number_of(path, kernel).ok().flatten();
        return number.map(|number| number.to_string()).unwrap_or_default();
    }
    let answer = match BlasLibrary::open(path) {
        Ok(library) => {
            Answer { about: Some(library.about().clone()), rate: short_rate(&library), error: None }
        }
        Err(error) => Answer { about: None, rate: 0.0, error: Some(error.to_string()) },
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

/// Rate of a short DGEMM on this thread, FLOP/s: the best of repetitions.
#[allow(unsafe_code)]
fn short_rate(library: &BlasLibrary) -> f64 {
    let matrix = |seed: usize| -> Vec<f64> {
        (0..ORDER * ORDER).map(|x| ((x * 7 + seed) % 17) as f64 / 8.0 - 1.0).collect()
    };
    let (a, b, mut c) = (matrix(1), matrix(2), matrix(3));
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < TRIAL || best.is_infinite() {
        let before = Instant::now();
        // SAFETY: three vectors of ORDER by ORDER elements.
        unsafe {
            library.dgemm(
                (ORDER, ORDER, ORDER),
                -1.0,
                a.as_ptr(),
                ORDER,
                b.as_ptr(),
                ORDER,
                0.0,
                c.as_mut_ptr(),
                ORDER,
            );
        }
        best = best.min(before.elapsed().as_secs_f64());
    }
    2.0 * (ORDER as f64).powi(3) / best
}
