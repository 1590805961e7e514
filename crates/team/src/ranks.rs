//! Ranks that are forked for one job, as in flat MPI: single-threaded processes with CPUs and a memory policy, as
//! numactl sets them.
//!
//! Ranks run the same jobs as a team of threads. They wait for each other at the same kind of barrier, in shared
//! memory. The parts of a job are timed in the same way, because all processes read the same clock. Other shared data,
//! such as halos, are in a [`Mapping::shared`] that is created before the fork.
//!
//! If a rank dies or fails, the job ends, and all other ranks are killed, so that no rank waits forever.

use crate::timed::{Laps, TimedResults};
use crate::{InterruptCheck, Member, MemberBarrier, TeamError};
use nodegauge_measure::interference::stolen_ticks;
use nodegauge_os::{
    ForkedChild, Mapping, SpinBarrier, SysError, describe_exit_status, receive_from_children,
};
use nodegauge_placement::{RankPlace, pin};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Write;

/// Message of a rank through its pipe: the result, or the reason of a failure.
type Message<T> = Result<T, String>;

/// Runs `job` in one process per entry of `places`. Returns the results in rank order. If the job returns an error in
/// one rank, the other ranks are ended.
///
/// # Errors
/// Fails if a rank cannot be started, if its binding or memory policy cannot be set, if it dies, if its job fails, and
/// if the user interrupts the run. All ranks are then killed.
///
/// # Safety
/// `job` runs in a process that was forked from a process that may have several threads. It may use memory that existed
/// before the fork, the allocator and system calls. It must neither wait for another thread nor take a lock that
/// another thread may hold.
pub unsafe fn run<T: Serialize + DeserializeOwned>(
    places: &[RankPlace],
    mut interrupt: InterruptCheck<'_>,
    job: impl Fn(&Member<'_>) -> Result<T, String>,
) -> Result<Vec<T>, TeamError> {
    let shared = Mapping::shared(size_of::<SpinBarrier>()).map_err(cannot_start)?;
    let barrier = MemberBarrier::SpinBarrier(shared.view(0));
    let count = places.len();
    // Children that still run are killed when they are dropped.
    let mut children = Vec::with_capacity(count);
    for (index, place) in places.iter().enumerate() {
        let member = Member { index, count, barrier };
        // SAFETY: the caller guarantees the conditions for `job`. The code around it only makes system calls and
        // allocates memory.
        let child = unsafe { nodegauge_os::fork(|pipe| serve(&member, place, &job, pipe)) };
        children.push(child.map_err(cannot_start)?);
    }
    while children.iter().any(ForkedChild::is_open) {
        receive_from_children(&mut children, interrupt.interval());
        if interrupt.is_requested() {
            return Err(TeamError::Interrupted);
        }
        check::<T>(&mut children)?;
    }
    check::<T>(&mut children)?;
    Ok(children.iter().filter_map(|child| message(child)?.ok()).collect())
}

/// Runs `job` like [`run`]. The calling process must have a single thread, so that there are no restrictions for `job`.
///
/// # Errors
/// Fails under the same conditions as [`run`], and if this process has other threads (`EBUSY`).
pub fn run_single_threaded<T: Serialize + DeserializeOwned>(
    places: &[RankPlace],
    interrupt: InterruptCheck<'_>,
    job: impl Fn(&Member<'_>) -> Result<T, String>,
) -> Result<Vec<T>, TeamError> {
    nodegauge_os::check_single_threaded().map_err(cannot_start)?;
    // SAFETY: there is no other thread that could hold a lock or for which the job could wait.
    unsafe { run(places, interrupt, job) }
}

/// Runs `job` in one process per entry of `places`, and times the parts of the job. The results must not contain
/// numbers that JSON cannot represent.
///
/// # Errors
/// The conditions are the same as for [`run`].
///
/// # Safety
/// The conditions are the same as for [`run`].
pub unsafe fn run_timed<T: Serialize + DeserializeOwned>(
    places: &[RankPlace],
    interrupt: InterruptCheck<'_>,
    job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T,
) -> Result<TimedResults<T>, TeamError> {
    let stolen = stolen_ticks();
    // SAFETY: the caller guarantees the conditions for `job`. The timing only uses the clock, the allocator and system
    // calls.
    let all = unsafe {
        run(places, interrupt, |member| {
            let mut laps = Laps::new(member);
            let made = job(member, &mut laps);
            Ok((made, laps.into_inner()))
        })
    }?;
    Ok(TimedResults::from_members(all, stolen))
}

fn cannot_start(cause: SysError) -> TeamError {
    TeamError::Start(format!("cannot start a rank: {cause}"))
}

/// Fails if a rank has reported a failure or has ended without a report.
fn check<T: DeserializeOwned>(children: &mut [ForkedChild]) -> Result<(), TeamError> {
    let mut lost = None;
    for (rank, child) in children.iter().enumerate().filter(|(_, child)| !child.is_open()) {
        match message::<T>(child) {
            Some(Err(why)) => return Err(TeamError::Failed { rank, why }),
            Some(Ok(_)) => {}
            None => lost = lost.or(Some(rank)),
        }
    }
    let Some(rank) = lost else { return Ok(()) };
    let process = children[rank].id();
    let how = Some(describe_exit_status(children[rank].wait()));
    Err(TeamError::Lost { rank, process, how })
}

/// Returns the message of a rank; `None` if the rank has not ended.
fn message<T: DeserializeOwned>(child: &ForkedChild) -> Option<Message<T>> {
    serde_json::from_slice(child.received()).ok()
}

/// Runs the job in a rank, and reports the result.
fn serve<T: Serialize>(
    member: &Member<'_>,
    place: &RankPlace,
    job: &impl Fn(&Member<'_>) -> Result<T, String>,
    mut pipe: File,
) {
    let message: Message<T> = apply_place(place).and_then(|()| job(member));
    if let Ok(text) = serde_json::to_vec(&message) {
        // Errors are ignored, because the parent process may have ended.
        let _ = pipe.write_all(&text);
    }
}

/// Binds this process to the CPUs of a rank and sets the memory policy of the rank.
///
/// # Errors
/// Fails with the reason if the kernel refuses the binding or the policy.
pub fn apply_place(place: &RankPlace) -> Result<(), String> {
    if let Some(cpus) = place.bound_cpus() {
        pin::pin_current_thread(&cpus).map_err(|error| error.to_string())?;
    }
    place
        .memory
        .apply_to_thread()
        .map_err(|error| format!("memory policy {} was refused: {error}", place.memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::NumaNodeId;
    use nodegauge_placement::{Binding, MemoryPolicy, Placement};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Returns places for ranks on the CPUs of this thread. If `bound` is false, the ranks are not bound.
    fn places(count: u32, bound: bool) -> Vec<RankPlace> {
        let cpus = pin::current_affinity().unwrap();
        let bind = if bound { Binding::Close } else { Binding::None };
        let place = |rank: u32| {
            let cpus = if bound { vec![cpus[rank as usize % cpus.len()]] } else { cpus.clone() };
            let placement = Placement::new(bind, "test", vec![cpus]);
            RankPlace { rank: Some(rank), placement, memory: MemoryPolicy::Local }
        };
        (0..count).map(place).collect()
    }

    fn run<T: Serialize + DeserializeOwned>(
        places: &[RankPlace],
        job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T,
    ) -> Result<TimedResults<T>, TeamError> {
        // SAFETY: the jobs below use atomics, the allocator and system calls.
        unsafe { run_timed(places, InterruptCheck::never(), job) }
    }

    #[test]
    fn forked_ranks_have_their_cpus_and_policy() {
        let shared = Mapping::shared(4096).unwrap();
        let sum: &AtomicU64 = shared.view(0);
        let places = places(3, true);
        let timed = run(&places, |member, laps| {
            for _ in 0..5 {
                laps.time(|| sum.fetch_add(member.index as u64 + 1, Ordering::Relaxed));
            }
            member.barrier();
            let policy = nodegauge_os::thread_policy().unwrap().0.unwrap();
            (std::process::id(), pin::current_affinity().unwrap(), policy.name().to_owned())
        })
        .unwrap();
        assert_eq!((sum.load(Ordering::Relaxed), timed.spans.len()), (5 * 6, 5));
        assert!(timed.spans.windows(2).all(|two| two[0].1 <= two[1].0));
        for (place, (process, cpus, policy)) in places.iter().zip(&timed.results) {
            assert_ne!(*process, std::process::id());
            assert_eq!(Some(cpus), place.bound_cpus().as_ref());
            assert_eq!(policy, "local");
        }
    }

    #[test]
    fn dead_rank_ends_job_and_is_reported() {
        let dies = run(&places(3, false), |member, _| {
            if member.index == 1 {
                std::process::abort();
            }
            member.barrier();
        });
        let Err(TeamError::Lost { rank: 1, how: Some(how), .. }) = dies else { panic!("{dies:?}") };
        assert!(how.contains("abort"), "{how}");
    }

    #[test]
    fn refused_policy_and_interrupt_are_reported() {
        let mut beyond = places(2, false);
        beyond[1].memory = MemoryPolicy::Bind(vec![NumaNodeId(900)]);
        let refused = run(&beyond, |member, _| member.barrier()).unwrap_err().to_string();
        assert!(refused.starts_with("rank 1: memory policy bind:900 was refused"), "{refused}");
        // SAFETY: the job only waits.
        let ended = unsafe {
            run_timed(&places(2, false), InterruptCheck::when(&mut || true), |_, _| {
                loop {
                    std::thread::park()
                }
            })
        };
        assert!(matches!(ended, Err::<TimedResults<()>, _>(TeamError::Interrupted)));
    }
}
