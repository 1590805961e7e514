//! Tests that threads and forked ranks run the same jobs.

use nodegauge_os::Mapping;
use nodegauge_team::{InterruptCheck, TeamError, WorkerPool, Workers};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns three workers of each kind: threads and forked ranks.
fn both() -> [Workers; 2] {
    [Workers::unbound_threads(3), Workers::unbound_ranks(3)]
}

#[test]
fn threads_and_ranks_run_a_timed_job() {
    let all = both();
    let mut pool = WorkerPool::start(&all).unwrap();
    let shared = Mapping::shared(4096).unwrap();
    let sum: &AtomicU64 = shared.view(0);
    for (at, workers) in all.iter().enumerate() {
        sum.store(0, Ordering::Relaxed);
        // SAFETY: the job only uses an atomic and the barrier.
        let (sample, timed) = unsafe {
            pool.sample(at, InterruptCheck::never(), |member, laps| {
                for _ in 0..4 {
                    laps.time(|| sum.fetch_add(member.index as u64, Ordering::Relaxed));
                }
                member.barrier();
                sum.load(Ordering::Relaxed)
            })
        }
        .unwrap();
        assert_eq!((timed.results, sample.seconds.len()), (vec![12; 3], 4), "{workers:?}");
        // SAFETY: the job only makes a system call.
        let made = unsafe {
            pool.run(at, InterruptCheck::never(), |member| (member.index, std::process::id()))
        }
        .unwrap();
        let own = made.iter().filter(|(_, process)| *process == std::process::id()).count();
        assert_eq!(own, if workers.are_processes() { 0 } else { 3 });
        assert_eq!(made.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2]);
    }
    assert_eq!(all.map(|workers| workers.in_words()), ["3 threads", "3 ranks, unbound"]);
}

#[test]
fn interrupt_kills_ranks_but_not_threads() {
    let all = both();
    let mut pool = WorkerPool::start(&all).unwrap();
    let shared = Mapping::shared(4096).unwrap();
    let stop: &AtomicU64 = shared.view(0);
    let mut ask = || {
        stop.store(1, Ordering::Relaxed);
        true
    };
    // SAFETY: the job only waits for a flag.
    let threads = unsafe {
        pool.run(0, InterruptCheck::when(&mut ask).every(Duration::from_millis(1)), |_| {
            while stop.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
        })
    };
    assert_eq!(threads.unwrap().len(), 3);
    // SAFETY: the job only waits.
    let ranks = unsafe {
        pool.run(1, InterruptCheck::when(&mut ask), |_| {
            loop {
                std::thread::park();
            }
        })
    };
    assert!(matches!(ranks, Err::<Vec<()>, _>(TeamError::Interrupted)));
}

#[test]
fn panic_in_callback_is_resumed_after_job() {
    let all = both();
    let mut pool = WorkerPool::start(&all).unwrap();
    let ended = AtomicU64::new(0);
    let mut ask = || panic!("on purpose");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the job only sleeps and uses an atomic.
        unsafe {
            pool.run(0, InterruptCheck::when(&mut ask).every(Duration::from_millis(1)), |_| {
                std::thread::sleep(Duration::from_millis(50));
                ended.fetch_add(1, Ordering::Relaxed);
            })
        }
    }));
    assert!(outcome.is_err());
    assert_eq!(ended.into_inner(), 3);
}
