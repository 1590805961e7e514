//! Processes in place of threads: ranks that are forked for one job, each bound to its CPUs and with the
//! memory policy that numactl would give it, as flat MPI has them.
//!
//! A job that a team of threads can do, ranks can: they meet at the same barrier, in memory that they share,
//! and their parts are timed in the same way, for the clock is the machine's. What they are to share besides,
//! such as halos, lies in a [`Mapping::shared`] that was made before.

use crate::timed::{Lap, Laps, Timed};
use crate::{Meeting, Member, TeamError};
use nodegauge_measure::interference::stolen_ticks;
use nodegauge_os::{ForkedChild, Gate, Mapping, describe, receive};
use nodegauge_placement::{RankPlace, pin};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// How often the user is asked, and lost ranks are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What comes back through a rank's pipe: what it made and its parts, or why it could not begin.
type Message<T> = Result<(T, Vec<Option<Lap>>), String>;

/// Lets a process for each of `places` do `job`, of which each has one thread; what they made must be of
/// numbers that JSON has.
///
/// # Errors
/// A rank that cannot be started, bound or given its memory policy, one that dies, and when `interrupted`
/// says so: then all of them are ended.
///
/// # Safety
/// `job` runs in a process forked from one that may have threads: it may use memory that was made before,
/// the allocator and system calls, and must neither wait for a thread nor take a lock that one may hold.
pub unsafe fn timed<T: Serialize + DeserializeOwned>(
    places: &[RankPlace],
    interrupted: &mut dyn FnMut() -> bool,
    job: impl Fn(&Member<'_>, &mut Laps<'_>) -> T,
) -> Result<Timed<T>, TeamError> {
    let start =
        |cause: nodegauge_os::SysError| TeamError::Start(format!("cannot start a rank: {cause}"));
    let shared = Mapping::shared(size_of::<Gate>()).map_err(start)?;
    let gate: &Gate = shared.view(0);
    let count = places.len();
    let stolen = stolen_ticks();
    let mut children = Vec::with_capacity(count);
    for (index, place) in places.iter().enumerate() {
        let member = Member { index, count, meeting: Meeting::Gate(gate) };
        // SAFETY: the caller's promise for `job`; what is around it makes system calls and allocates.
        let child = unsafe { nodegauge_os::fork(|pipe| serve(&member, place, &job, pipe)) };
        children.push(child.map_err(start)?);
    }
    while children.iter().any(ForkedChild::is_open) {
        receive(&mut children, LOOK_EVERY);
        if interrupted() {
            // They are killed as they are dropped.
            return Err(TeamError::Interrupted);
        }
        if children.iter().any(|child| !child.is_open() && message::<T>(child).is_none()) {
            gate.poison();
        }
    }
    let said: Vec<Option<Message<T>>> = children.iter().map(message).collect();
    // Whoever could not begin is the reason why others were lost.
    for (rank, message) in said.iter().enumerate() {
        if let Some(Err(why)) = message {
            return Err(TeamError::Start(format!("rank {rank}: {why}")));
        }
    }
    // A rank that ends its job, for another was lost, exits by itself; one that was killed did not.
    let killed = children.iter_mut().position(|child| child.wait().code().is_none());
    if let Some(rank) = killed.or(said.iter().position(Option::is_none)) {
        let (process, how) = (children[rank].id(), describe(children[rank].wait()));
        return Err(TeamError::Lost { rank, process, how });
    }
    Ok(Timed::of(said.into_iter().filter_map(|message| message?.ok()).collect(), stolen))
}

/// What a rank has said; `None` before its end.
fn message<T: DeserializeOwned>(child: &ForkedChild) -> Option<Message<T>> {
    serde_json::from_slice(child.received()).ok()
}

/// A rank's life.
fn serve<T: Serialize>(
    member: &Member<'_>,
    place: &RankPlace,
    job: &impl Fn(&Member<'_>, &mut Laps<'_>) -> T,
    mut pipe: File,
) {
    let message: Message<T> = settle(place).map(|()| {
        let mut laps = Laps::new(member);
        let made = job(member, &mut laps);
        (made, laps.into_inner())
    });
    if message.is_err() {
        member.poison();
    }
    if let Ok(text) = serde_json::to_vec(&message) {
        // A parent that does not listen any more has no use for it.
        let _ = pipe.write_all(&text);
    }
}

/// Binds this process and its memory.
fn settle(place: &RankPlace) -> Result<(), String> {
    if let Some(cpus) = place.bound_cpus() {
        pin::pin_current_thread(&cpus).map_err(|error| error.to_string())?;
    }
    let refused = |error| format!("memory policy {} was refused: {error}", place.memory);
    place.memory.apply_to_thread().map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::NodeId;
    use nodegauge_placement::{Bind, MemoryPolicy, Placement};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Ranks on the CPUs of this thread, which are bound where `bound`.
    fn places(count: u32, bound: bool) -> Vec<RankPlace> {
        let cpus = pin::current_affinity().unwrap();
        let bind = if bound { Bind::Close } else { Bind::None };
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
    ) -> Result<Timed<T>, TeamError> {
        // SAFETY: the jobs below use atomics, the allocator and system calls.
        unsafe { timed(places, &mut || false, job) }
    }

    #[test]
    fn ranks_work_together_where_they_are_put() {
        let shared = Mapping::shared(4096).unwrap();
        let sum: &AtomicU64 = shared.view(0);
        let places = places(3, true);
        let timed = run(&places, |member, laps| {
            for _ in 0..5 {
                laps.time(|| sum.fetch_add(member.index as u64 + 1, Ordering::Relaxed));
            }
            member.barrier();
            let policy = nodegauge_os::policy_of_thread().unwrap().0.unwrap();
            (std::process::id(), pin::current_affinity().unwrap(), policy.name().to_owned())
        })
        .unwrap();
        assert_eq!((sum.load(Ordering::Relaxed), timed.spans.len()), (5 * 6, 5));
        assert!(timed.spans.windows(2).all(|two| two[0].1 <= two[1].0));
        for (place, (process, cpus, policy)) in places.iter().zip(&timed.made) {
            assert_ne!(*process, std::process::id());
            assert_eq!(Some(cpus), place.bound_cpus().as_ref());
            assert_eq!(policy, "local");
        }
    }

    #[test]
    fn a_rank_that_dies_is_named_and_the_others_end() {
        let dies = run(&places(3, false), |member, _| {
            if member.index == 1 {
                std::process::abort();
            }
            member.barrier();
        });
        let Err(TeamError::Lost { rank: 1, how, .. }) = dies else { panic!("{dies:?}") };
        assert!(how.contains("abort"), "{how}");
    }

    #[test]
    fn what_cannot_be_had_is_said_and_an_end_is_an_end() {
        let mut beyond = places(2, false);
        beyond[1].memory = MemoryPolicy::Bind(vec![NodeId(900)]);
        let refused = run(&beyond, |member, _| member.barrier()).unwrap_err().to_string();
        assert!(refused.starts_with("rank 1: memory policy bind:900 was refused"), "{refused}");
        // SAFETY: the job only waits.
        let ended = unsafe {
            timed(&places(2, false), &mut || true, |_, _| {
                loop {
                    std::thread::park()
                }
            })
        };
        assert!(matches!(ended, Err::<Timed<()>, _>(TeamError::Interrupted)));
    }
}
