//! Memory that all ranks share. Each rank has a barrier, a cache line, numbers for the other ranks, and a ring buffer
//! for its incoming messages. The shared memory has no name in the file system, so that nothing remains after a crash.

use nodegauge_os::{CacheLine, Mapping, Ring, SpinBarrier, SysError, page_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of values that a rank contributes to an exchange, and of values in the answer.
const WORDS: usize = 16;
const LINE_AT: usize = size_of::<SpinBarrier>();
const OWN_AT: usize = LINE_AT + size_of::<CacheLine<AtomicU64>>();
const ANSWER_AT: usize = OWN_AT + WORDS * size_of::<AtomicU64>();
/// Offset of the 64-bit words of a rank, see [`Segment::word`].
const WORD_AT: usize = ANSWER_AT + WORDS * size_of::<AtomicU64>();

/// Index of a 64-bit word that a rank shares.
#[derive(Debug, Clone, Copy)]
pub enum SharedWord {
    /// Process ID of the rank.
    Process,
    /// Address of a copy of [`Segment::MARKER`] in the rank's memory.
    Marker,
    /// Port at which the rank accepts connections.
    Port,
    /// Number of completed steps, set by rank 0.
    Steps,
}

/// Memory of all ranks.
pub struct Segment {
    mapping: Mapping,
    /// Number of ranks.
    pub ranks: usize,
}

impl Segment {
    /// Bytes to which the address in [`SharedWord::Marker`] points. A partner reads them to check that it can read this
    /// rank's memory.
    pub const MARKER: [u8; 8] = *b"nodegaug";

    /// Creates the memory for `ranks` ranks, before they are forked.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn new(ranks: usize) -> Result<Self, SysError> {
        Ok(Self { mapping: Mapping::shared(ranks * Self::stride())?, ranks })
    }

    /// Returns the number of bytes per rank. It consists of whole pages, so that each rank's pages can be on its own
    /// NUMA node.
    fn stride() -> usize {
        page_bytes() + Ring::BYTES.next_multiple_of(page_bytes())
    }

    fn at(&self, rank: usize) -> usize {
        debug_assert!(rank < self.ranks);
        rank * Self::stride()
    }

    /// Returns the barrier of a group of ranks. `rank` is the first rank of the group.
    pub fn group_barrier(&self, rank: usize) -> &SpinBarrier {
        self.mapping.view(self.at(rank))
    }

    /// Returns the cache line that this rank and its partner exchange.
    pub fn cache_line(&self, rank: usize) -> &AtomicU64 {
        &self.mapping.view::<CacheLine<AtomicU64>>(self.at(rank) + LINE_AT).0
    }

    /// Returns a word of a rank.
    pub fn word(&self, rank: usize, word: SharedWord) -> &AtomicU64 {
        self.mapping.view(self.at(rank) + WORD_AT + word as usize * size_of::<AtomicU64>())
    }

    /// Returns the ring of this rank's incoming messages.
    pub fn inbox(&self, rank: usize) -> Ring<'_> {
        Ring::new(&self.mapping, self.at(rank) + page_bytes())
    }

    fn numbers(&self, rank: usize, from: usize) -> impl Iterator<Item = &AtomicU64> {
        let at = self.at(rank) + from;
        (0..WORDS).map(move |word| self.mapping.view(at + word * size_of::<AtomicU64>()))
    }

    /// Exchanges at most 16 numbers of each rank in `members`. The first member computes an answer from all numbers,
    /// and every member returns this answer. `rank` is the rank of the caller.
    pub fn combine_numbers(
        &self,
        rank: usize,
        members: &[usize],
        own: &[f64],
        answer: impl FnOnce(&[Vec<f64>]) -> Vec<f64>,
    ) -> Vec<f64> {
        let first = members[0];
        self.put(rank, OWN_AT, own);
        self.wait_for_members(members);
        if rank == first {
            let all: Vec<Vec<f64>> =
                members.iter().map(|member| self.get(*member, OWN_AT)).collect();
            self.put(rank, ANSWER_AT, &answer(&all));
        }
        self.wait_for_members(members);
        self.get(first, ANSWER_AT)
    }

    /// Stores the numbers of a rank, beginning at offset `from` in the memory of the rank.
    fn put(&self, rank: usize, from: usize, numbers: &[f64]) {
        for (word, number) in self.numbers(rank, from).zip(numbers) {
            word.store(number.to_bits(), Ordering::Relaxed);
        }
    }

    /// Returns the numbers of a rank, beginning at offset `from` in the memory of the rank.
    fn get(&self, rank: usize, from: usize) -> Vec<f64> {
        let words = self.numbers(rank, from);
        words.map(|word| f64::from_bits(word.load(Ordering::Relaxed))).collect()
    }

    /// Waits until all of `members` have called this function.
    pub fn wait_for_members(&self, members: &[usize]) {
        // The barrier is never poisoned, because ranks that wait for an ended rank are killed.
        let _ = self.group_barrier(members[0]).wait(members.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreed_answer_contains_values_of_all_ranks() {
        let segment = Segment::new(4).unwrap();
        let members = [1, 3, 2];
        std::thread::scope(|scope| {
            let (segment, members) = (&segment, &members);
            let agree = move |rank: usize| {
                let sums: Vec<f64> = (0..50)
                    .map(|round| {
                        let own = [rank as f64, f64::from(round)];
                        let sum = |all: &[Vec<f64>]| vec![all.iter().map(|n| n[0] * n[1]).sum()];
                        segment.combine_numbers(rank, members, &own, sum)[0]
                    })
                    .collect();
                sums
            };
            let ranks = members.map(|rank| scope.spawn(move || agree(rank)));
            let expected: Vec<f64> = (0..50).map(|round| f64::from(round) * 6.0).collect();
            for rank in ranks {
                assert_eq!(rank.join().unwrap(), expected);
            }
        });
    }

    #[test]
    fn memory_of_ranks_does_not_overlap() {
        let segment = Segment::new(2).unwrap();
        assert!(WORD_AT + (SharedWord::Steps as usize + 1) * 8 <= page_bytes());
        for rank in 0..2 {
            segment.cache_line(rank).store(1, Ordering::Relaxed);
            segment.word(rank, SharedWord::Steps).store(2, Ordering::Relaxed);
            let mut writer = segment.inbox(rank).writer().unwrap();
            assert!(writer.write(&[3; 100_000], &mut 0));
        }
        assert_eq!(segment.word(0, SharedWord::Process).load(Ordering::Relaxed), 0);
        assert_eq!(segment.combine_numbers(0, &[0], &[5.0], |all| all[0].clone())[0], 5.0);
        assert_eq!(segment.cache_line(1).load(Ordering::Relaxed), 1);
    }
}
