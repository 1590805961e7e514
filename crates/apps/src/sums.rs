//! Sums over workers in a fixed order, in memory that processes share.
//!
//! There are two sets of partial sums, used alternately. A fast worker writes to a set that no other worker still
//! reads, because all workers synchronise once between two uses of a set.

use nodegauge_measure::Failure;
use nodegauge_os::{CacheLine, Mapping};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Size of a cache line, bytes.
const LINE: usize = size_of::<CacheLine<AtomicU64>>();

/// Two lines for each worker: a partial sum and its request for an end, for each set.
#[derive(Debug)]
pub(crate) struct SharedSums {
    memory: Mapping,
    workers: usize,
}

impl SharedSums {
    /// Maps memory for `workers` workers; called before they are started.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped.
    pub fn map(workers: usize) -> Result<Self, Failure> {
        let memory = Mapping::shared(2 * workers * LINE).map_err(|cause| {
            Failure::missing(format!("cannot map memory that the workers share: {cause}"))
        })?;
        Ok(Self { memory, workers })
    }

    /// Returns a worker's access to the sums. All workers create theirs together and make the same sequence of calls.
    pub fn of_worker(&self, worker: usize) -> Sums<'_> {
        Sums { shared: self, worker, number: AtomicUsize::new(0) }
    }

    /// Returns a worker's partial sum and the word after it.
    fn line(&self, half: usize, worker: usize) -> [&AtomicU64; 2] {
        let at = (half * self.workers + worker) * LINE;
        [at, at + size_of::<AtomicU64>()].map(|at| self.memory.view(at))
    }
}

/// A worker's access to the sums.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    shared: &'a SharedSums,
    worker: usize,
    /// Number of sums so far.
    number: AtomicUsize,
}

impl Sums<'_> {
    /// Returns the sum of `x` over all workers, the same for each, and true if any worker requests an `end`; all
    /// workers synchronise at `barrier`.
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
    fn all_have_the_same_sums_and_know_that_one_wants_an_end() {
        let shared = SharedSums::map(3).unwrap();
        let mut team = Team::start(&vec![Vec::new(); 3]).unwrap();
        let made = team.map(|member| {
            let sums = shared.of_worker(member.index);
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
