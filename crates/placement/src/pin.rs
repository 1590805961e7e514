//! Binds the calling thread to CPUs and reads back whether the kernel did.
//!
//! The kernel silently drops CPUs outside the cpuset as long as one is left; here that is an error,
//! and the thread keeps the mask it had.

use crate::cpus::{ranges, sorted};
use nodegauge_machine::CpuId;
use nodegauge_os::SysError;
use std::fmt;

/// Why a thread could not be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinError {
    /// The number of the thread, where [`PinError::of_thread`] gave it.
    pub thread: Option<u32>,
    /// The CPUs that were asked for.
    pub cpus: Vec<CpuId>,
    /// What stood in the way.
    pub cause: PinCause,
}

/// What stood in the way of binding a thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinCause {
    /// CPUs that the cpuset of this job does not hold, or that are not there or offline.
    #[error("not in this job's cpuset ({cpuset})")]
    Outside {
        /// The cpuset in range notation.
        cpuset: String,
    },
    /// No CPU was asked for.
    #[error("no CPU was named")]
    Nothing,
    /// The kernel reports other CPUs than were asked for.
    #[error("the kernel reports {observed} instead")]
    Different {
        /// What it reports, in range notation.
        observed: String,
    },
    /// A call failed otherwise.
    #[error("{0}")]
    Refused(SysError),
}

impl PinError {
    fn new(cpus: &[CpuId], cause: PinCause) -> Self {
        Self { thread: None, cpus: cpus.to_vec(), cause }
    }

    /// The same error, with the number of the thread that it happened to.
    #[must_use]
    pub fn of_thread(mut self, thread: u32) -> Self {
        self.thread = Some(thread);
        self
    }
}

impl fmt::Display for PinError {
    /// `cannot bind thread 5 to cpu 37: not in this job's cpuset (0-31)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot bind ")?;
        match self.thread {
            Some(thread) => write!(f, "thread {thread}")?,
            None => f.write_str("this thread")?,
        }
        let plural = if self.cpus.len() == 1 { "" } else { "s" };
        match self.cpus[..] {
            [] => write!(f, ": {}", self.cause),
            _ => write!(f, " to cpu{plural} {}: {}", ranges(&self.cpus), self.cause),
        }
    }
}

impl std::error::Error for PinError {}

/// Binds the calling thread to these CPUs, in any order, and verifies it. When that fails, the
/// thread keeps the CPUs it had.
///
/// # Errors
/// When one of the CPUs is not in the cpuset of this job, does not exist or is offline, and when
/// the kernel refuses or reports another mask afterwards.
pub fn pin_current_thread(cpus: &[CpuId]) -> Result<(), PinError> {
    let refused = |error| PinError::new(cpus, PinCause::Refused(error));
    let wanted = sorted(cpus.iter().copied());
    if wanted.is_empty() {
        return Err(PinError::new(cpus, PinCause::Nothing));
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

/// Finds out why the CPUs were not given, by asking for all: the kernel answers with the cpuset.
/// Leaves the thread unbound.
fn diagnose(wanted: &[CpuId]) -> PinError {
    let observed = current_affinity();
    let cpuset = match nodegauge_os::set_affinity_to_all().and_then(|()| current_affinity()) {
        Ok(cpuset) => cpuset,
        Err(error) => return PinError::new(wanted, PinCause::Refused(error)),
    };
    let outside: Vec<CpuId> =
        wanted.iter().copied().filter(|cpu| cpuset.binary_search(cpu).is_err()).collect();
    match observed {
        _ if !outside.is_empty() => {
            PinError::new(&outside, PinCause::Outside { cpuset: ranges(&cpuset) })
        }
        Ok(observed) => PinError::new(wanted, PinCause::Different { observed: ranges(&observed) }),
        Err(error) => PinError::new(wanted, PinCause::Refused(error)),
    }
}

/// The CPUs that the calling thread may run on, in numeric order.
///
/// # Errors
/// When the kernel does not say.
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
    fn a_bound_thread_is_where_it_was_bound() {
        // A thread of its own, because the mask belongs to the thread.
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
    fn cpus_outside_are_refused_by_name_and_nothing_changes() {
        std::thread::spawn(|| {
            let before = current_affinity().unwrap();
            let outside = CpuId(60_000);
            let alone = pin_current_thread(&[outside]).unwrap_err().of_thread(5);
            let PinCause::Outside { cpuset } = &alone.cause else { panic!("{alone}") };
            assert_eq!(
                alone.to_string(),
                format!("cannot bind thread 5 to cpu 60000: not in this job's cpuset ({cpuset})")
            );
            let partly = pin_current_thread(&[before[0], outside]).unwrap_err();
            assert_eq!(partly.cpus, [outside]);
            assert!(partly.to_string().starts_with("cannot bind this thread to cpu 60000: "));
            assert_eq!(current_affinity().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn each_cause_reads_as_a_sentence() {
        let cpus = [CpuId(3), CpuId(4)];
        let text = |cause| PinError::new(&cpus, cause).to_string();
        assert_eq!(
            text(PinCause::Different { observed: "3".to_owned() }),
            "cannot bind this thread to cpus 3-4: the kernel reports 3 instead"
        );
        assert_eq!(
            text(PinCause::Refused(SysError { call: "sched_setaffinity", errno: libc::EPERM })),
            "cannot bind this thread to cpus 3-4: sched_setaffinity: Operation not permitted (os error 1)"
        );
        assert_eq!(
            pin_current_thread(&[]).unwrap_err().to_string(),
            "cannot bind this thread: no CPU was named"
        );
    }
}
