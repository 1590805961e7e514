//! Binding of the calling thread to CPUs. The affinity mask is read back from the kernel for verification.
//!
//! If some of the requested CPUs are outside the cpuset, the kernel silently ignores them. In this module this is an
//! error, and the thread keeps its previous mask.

use crate::cpus::{format_ranges, sort_and_deduplicate};
use nodegauge_machine::CpuId;
use nodegauge_os::SysError;
use std::fmt;

/// Error for a thread that could not be bound, e.g. `cannot bind thread 5 to cpu 37: not in this job's
/// cpuset (0-31)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot bind {}{problem}", thread.map_or("this thread".to_owned(), |n| format!("thread {n}")))]
pub struct PinError {
    /// Thread number, if [`PinError::with_thread`] set it.
    thread: Option<u32>,
    /// Text with the requested CPUs and the cause.
    problem: String,
}

impl PinError {
    fn new(cpus: &[CpuId], cause: impl fmt::Display) -> Self {
        let to = match cpus {
            [] => String::new(),
            [cpu] => format!(" to cpu {cpu}"),
            _ => format!(" to cpus {}", format_ranges(cpus)),
        };
        Self { thread: None, problem: format!("{to}: {cause}") }
    }

    /// Sets the number of the thread that could not be bound.
    #[must_use]
    pub fn with_thread(mut self, thread: u32) -> Self {
        self.thread = Some(thread);
        self
    }
}

/// Binds the calling thread to these CPUs, in any order, and verifies the result. On failure, the thread keeps its
/// previous CPUs.
///
/// # Errors
/// Fails when a CPU is not in the cpuset of this job, does not exist or is offline. Also fails when the kernel refuses
/// the call, or reports another mask afterwards.
pub fn pin_current_thread(cpus: &[CpuId]) -> Result<(), PinError> {
    let refused = |error| PinError::new(cpus, error);
    let wanted = sort_and_deduplicate(cpus.iter().copied());
    if wanted.is_empty() {
        return Err(PinError::new(cpus, "no CPU was given"));
    }
    let before = current_affinity().map_err(refused)?;
    match set_affinity(&wanted) {
        // None of the CPUs is in the cpuset.
        Err(SysError { errno: libc::EINVAL, .. }) => {}
        Err(error) => return Err(refused(error)),
        Ok(()) => {
            if current_affinity().map_err(refused)? == wanted {
                return Ok(());
            }
        }
    }
    let error = diagnose(&wanted);
    set_affinity(&before).map_err(refused)?;
    Err(error)
}

/// Determines why a binding failed: requests all CPUs, of which the kernel grants those in the cpuset. The thread is
/// not bound afterwards.
fn diagnose(wanted: &[CpuId]) -> PinError {
    let observed = current_affinity();
    let cpuset = match nodegauge_os::set_affinity_to_all().and_then(|()| current_affinity()) {
        Ok(cpuset) => cpuset,
        Err(error) => return PinError::new(wanted, error),
    };
    let outside: Vec<CpuId> =
        wanted.iter().copied().filter(|cpu| cpuset.binary_search(cpu).is_err()).collect();
    match observed {
        _ if !outside.is_empty() => PinError::new(
            &outside,
            format!("not in this job's cpuset ({})", format_ranges(&cpuset)),
        ),
        Ok(observed) => PinError::new(
            wanted,
            format!("the kernel reports cpus {} instead", format_ranges(&observed)),
        ),
        Err(error) => PinError::new(wanted, error),
    }
}

/// Returns the CPUs on which the calling thread may run, in numeric order.
///
/// # Errors
/// Fails when the kernel refuses the call.
pub fn current_affinity() -> Result<Vec<CpuId>, SysError> {
    Ok(nodegauge_os::affinity()?.into_iter().map(CpuId).collect())
}

fn set_affinity(cpus: &[CpuId]) -> Result<(), SysError> {
    let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
    nodegauge_os::set_affinity(&cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_thread_has_affinity_to_given_cpus() {
        // The test uses a separate thread, because the mask belongs to the thread.
        std::thread::spawn(|| {
            let before = current_affinity().unwrap();
            let last = *before.last().unwrap();
            pin_current_thread(&[last]).unwrap();
            assert_eq!(current_affinity().unwrap(), [last]);
            pin_current_thread(&before).unwrap();
            assert_eq!(current_affinity().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_outside_cpuset_are_refused() {
        std::thread::spawn(|| {
            let before = current_affinity().unwrap();
            let outside = CpuId(60_000);
            let alone = pin_current_thread(&[outside]).unwrap_err().with_thread(5);
            let alone = alone.to_string();
            let text = "cannot bind thread 5 to cpu 60000: not in this job's cpuset (";
            assert!(alone.starts_with(text), "{alone}");
            let partly = pin_current_thread(&[before[0], outside]).unwrap_err().to_string();
            assert!(partly.starts_with("cannot bind this thread to cpu 60000: "), "{partly}");
            assert_eq!(current_affinity().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pin_error_names_thread_and_cpus() {
        let cpus = [CpuId(3), CpuId(4)];
        let refused = SysError { call: "sched_setaffinity", errno: libc::EPERM };
        assert_eq!(
            PinError::new(&cpus, refused).to_string(),
            "cannot bind this thread to cpus 3-4: sched_setaffinity: Operation not permitted (os error 1)"
        );
        assert_eq!(
            pin_current_thread(&[]).unwrap_err().to_string(),
            "cannot bind this thread: no CPU was given"
        );
    }
}
