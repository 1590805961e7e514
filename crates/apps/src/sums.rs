//! Sums over workers in a fixed order, in memory that processes share.
//!
//! Parts are written twice by turns, so that whoever is ahead writes what nobody reads any more: between two
//! uses of one half everybody has met once.

use nodegauge_measure::Failure;
use nodegauge_os::{CacheLine, Mapping};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of a line.
const LINE: usize = size_of::<CacheLine<AtomicU64>>();

/// Two lines for each worker: a part of a sum, and whether it asks for an end.
#[derive(Debug)]
pub(crate) struct SharedSums {
    memory: Mapping,
    workers: usize,
}

impl SharedSums {
    /// Memory for so many workers, made before they are started.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn map(workers: usize) -> Result<Self, Failure> {
        let memory = Mapping::shared(2 * workers * LINE).map_err(|cause| {
            Failure::missing(format!("cannot map memory that workers share: {cause}"))
        })?;
        Ok(Self { memory, workers })
    }

    /// A worker's way to the sums; all take theirs together, and use it alike.
    pub fn of_worker(&self, worker: usize) -> Sums<'_> {
        Sums { shared: self, worker, number: AtomicUsize::new(0) }
    }

    /// A part of a sum, and the word behind it.
    fn line(&self, half: usize, worker: usize) -> [&AtomicU64; 2] {
        let at = (half * self.workers + worker) * LINE;
        [at, at + size_of::<AtomicU64>()].map(|at| self.memory.view(at))
    }
}

/// A worker's way to the sums.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    shared: &'a SharedSums,
    worker: usize,
    /// Sums so far.
    number: AtomicUsize,
}

impl Sums<'_> {
    /// The sum of `x` over all workers, the same for each, and whether one of them asks for an `end`; all meet
    /// at `barrier`.
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
