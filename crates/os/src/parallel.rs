//! Work on many items by several threads, where the results have the order of the items.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// True while this thread works for [`map_in_parallel`].
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Calls `work` for each item on all allowed CPUs, and returns the results in the order of the items.
///
/// The current thread also works, so that the call succeeds even if no other thread can be started. A call from `work`
/// starts no threads, because the CPUs are in use already. Not for measured code: threads are not bound.
pub fn map_in_parallel<I: Sync, O: Send>(items: &[I], work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    if items.len() <= 1 || IS_WORKER.get() {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        let _marked = WorkerMark::new();
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(position) else { break };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((position, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Mark of a thread as a worker, removed when it is dropped, also after a panic.
struct WorkerMark;

impl WorkerMark {
    fn new() -> Self {
        IS_WORKER.set(true);
        Self
    }
}

impl Drop for WorkerMark {
    fn drop(&mut self) {
        IS_WORKER.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let squares = map_in_parallel(&items, |item| item * item);
        assert_eq!(squares, items.iter().map(|item| item * item).collect::<Vec<_>>());
        assert!(map_in_parallel(&[] as &[u64], |item| *item).is_empty());
    }

    #[test]
    fn nested_call_runs_on_the_thread_of_its_caller() {
        let threads = map_in_parallel(&[0; 8], |_| {
            let own = std::thread::current().id();
            map_in_parallel(&[0; 8], |_| std::thread::current().id() == own)
        });
        assert!(threads.iter().flatten().all(|is_own| *is_own));
        assert!(!IS_WORKER.get());
    }
}
