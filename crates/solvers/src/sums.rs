//! Sums over workers in a fixed order, in memory that processes share.
//!
//! There are two sets of partial sums, which are used in turn. All workers synchronise between two uses of a set, so
//! that a fast worker never writes a set that another worker still reads.

use nodegauge_measure::Failure;
use nodegauge_os::{CacheLine, Mapping};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Size of a cache line, bytes.
const LINE: usize = size_of::<CacheLine<AtomicU64>>();

/// Partial sums of workers. Each worker has two cache lines, one per set; a line contains a partial sum and a request
/// to end.
#[derive(Debug)]
pub(crate) struct SharedSums {
    memory: Mapping,
    workers: usize,
}

impl SharedSums {
    /// Maps memory for `workers` workers; must be called before the workers are started.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn allocate(workers: usize) -> Result<Self, Failure> {
        let memory = Mapping::shared(2 * workers * LINE).map_err(|cause| {
            Failure::missing(format!("cannot map memory that the workers share: {cause}"))
        })?;
        Ok(Self { memory, workers })
    }

    /// Returns the access of a worker to the sums. All workers must call this function, and must then make the same
    /// sequence of calls.
    pub fn worker_access(&self, worker: usize) -> Sums<'_> {
        Sums { shared: self, worker, number: AtomicUsize::new(0) }
    }

    /// Returns the partial sum of a worker and the word with the request to end.
    fn line(&self, half: usize, worker: usize) -> [&AtomicU64; 2] {
        let at = (half * self.workers + worker) * LINE;
        [at, at + size_of::<AtomicU64>()].map(|at| self.memory.view(at))
    }
}

/// Access of a worker to the sums.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    shared: &'a SharedSums,
    worker: usize,
    /// Number of sums computed so far, which selects the set.
    number: AtomicUsize,
}

impl Sums<'_> {
    /// Returns the sum of `x` over all workers, and true if any worker has passed true as `end`. All workers get the
    /// same result and synchronise at `barrier`.
    pub fn add_up(&self, x: f64, end: bool, barrier: impl FnOnce()) -> (f64, bool) {
        let half = self.number.fetch_add(1, Ordering::Relaxed) % 2;
        let [part, ends] = self.shared.line(half, self.worker);
        part.store(x.to_bits(), Ordering::Relaxed);
        ends.store(end.into(), Ordering::Relaxed);
        barrier();
        let all = (0..self.shared.workers).map(|worker| self.shared.line(half, worker));
        all.fold((0.0, false), |(sum, ended), [line_part, line_ends]| {
            let line_sum = f64::from_bits(line_part.load(Ordering::Relaxed));
            (sum + line_sum, ended | (line_ends.load(Ordering::Relaxed) != 0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_team::Team;

    #[test]
    fn workers_get_equal_sums() {
        let shared = SharedSums::allocate(3).unwrap();
        let mut team = Team::start(&vec![Vec::new(); 3]).unwrap();
        let made = team.run_and_collect(|member| {
            let sums = shared.worker_access(member.index);
            let sum = |number: usize| {
                let x = (number * (member.index + 1)) as f64 + 0.1;
                let end = number == 998 && member.index == 2;
                sums.add_up(x, end, || member.barrier())
            };
            (0..1000).map(sum).collect::<Vec<_>>()
        });
        for all in made.unwrap() {
            for (number, (sum, ended)) in all.into_iter().enumerate() {
                let expected = (1..4).fold(0.0, |total, of| total + ((number * of) as f64 + 0.1));
                assert_eq!((sum.to_bits(), ended), (expected.to_bits(), number == 998));
            }
        }
    }
}
