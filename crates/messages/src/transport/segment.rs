//! The memory that all ranks share: of each its gate, a cache line, what it tells the others, and the ring
//! of what comes to it. It has no name, so nothing of it can be left.

use nodegauge_os::{CacheLine, Gate, Mapping, Ring, SysError, page_bytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that a rank tells the others at once, and that it answers them.
pub(super) const WORDS: usize = 16;
const LINE_AT: usize = size_of::<Gate>();
const TOLD_AT: usize = LINE_AT + size_of::<CacheLine<AtomicU64>>();
const ANSWER_AT: usize = TOLD_AT + WORDS * size_of::<AtomicU64>();
/// Whatever a rank has for others besides: see [`Segment::word`].
const WORD_AT: usize = ANSWER_AT + WORDS * size_of::<AtomicU64>();

/// A word of a rank's.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word {
    /// Number of the rank's process.
    Process,
    /// An address at which others find [`Segment::PROOF`].
    Proof,
    /// Port at which the rank accepts connections.
    Port,
    /// Steps that are over, of rank 0.
    Steps,
}

pub(super) struct Segment {
    mapping: Mapping,
    pub(super) ranks: usize,
}

impl Segment {
    /// Content of a rank's word [`Word::Proof`].
    pub(super) const PROOF: [u8; 8] = *b"nodegaug";

    /// For so many ranks, to be made before they are forked.
    ///
    /// # Errors
    /// Fails when the kernel has no memory.
    pub(super) fn new(ranks: usize) -> Result<Self, SysError> {
        Ok(Self { mapping: Mapping::shared(ranks * Self::stride())?, ranks })
    }

    /// Bytes of a rank: pages of its own, which it touches first.
    fn stride() -> usize {
        page_bytes() + Ring::BYTES.next_multiple_of(page_bytes())
    }

    fn at(&self, rank: usize) -> usize {
        debug_assert!(rank < self.ranks);
        rank * Self::stride()
    }

    /// The barrier of those who work with this rank as their first.
    pub(super) fn gate(&self, rank: usize) -> &Gate {
        self.mapping.view(self.at(rank))
    }

    /// The cache line that goes to and fro between this rank and its partner.
    pub(super) fn line(&self, rank: usize) -> &AtomicU64 {
        &self.mapping.view::<CacheLine<AtomicU64>>(self.at(rank) + LINE_AT).0
    }

    pub(super) fn word(&self, rank: usize, word: Word) -> &AtomicU64 {
        self.mapping.view(self.at(rank) + WORD_AT + word as usize * size_of::<AtomicU64>())
    }

    /// The ring of what comes to this rank.
    pub(super) fn inbox(&self, rank: usize) -> Ring<'_> {
        Ring::of(&self.mapping, self.at(rank) + page_bytes())
    }

    fn numbers(&self, rank: usize, from: usize) -> impl Iterator<Item = &AtomicU64> {
        let at = self.at(rank) + from;
        (0..WORDS).map(move |word| self.mapping.view(at + word * size_of::<AtomicU64>()))
    }

    /// All of `members` tell their numbers, [`WORDS`] at most; the first hears them all and answers, and
    /// every one returns the answer. `rank` is the caller.
    pub(super) fn agree(
        &self,
        rank: usize,
        members: &[usize],
        told: &[f64],
        answer: impl FnOnce(&[Vec<f64>]) -> Vec<f64>,
    ) -> Vec<f64> {
        let put = |from: usize, numbers: &[f64]| {
            for (word, number) in self.numbers(rank, from).zip(numbers) {
                word.store(number.to_bits(), Ordering::Relaxed);
            }
        };
        let get = |member: usize, from: usize| -> Vec<f64> {
            let number = |word: &AtomicU64| f64::from_bits(word.load(Ordering::Relaxed));
            self.numbers(member, from).map(number).collect()
        };
        let first = members[0];
        put(TOLD_AT, told);
        self.meet(members);
        if rank == first {
            let all: Vec<Vec<f64>> = members.iter().map(|member| get(*member, TOLD_AT)).collect();
            put(ANSWER_AT, &answer(&all));
        }
        self.meet(members);
        get(first, ANSWER_AT)
    }

    /// Waits until all of `members` are here.
    pub(super) fn meet(&self, members: &[usize]) {
        // Nobody poisons it: whoever waits for one that has died is killed.
        let _ = self.gate(members[0]).wait(members.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answers_what_all_have_told() {
        let segment = Segment::new(4).unwrap();
        let members = [1, 3, 2];
        std::thread::scope(|scope| {
            let (segment, members) = (&segment, &members);
            let agree = move |rank: usize| {
                let sums: Vec<f64> = (0..50)
                    .map(|round| {
                        let told = [rank as f64, f64::from(round)];
                        let sum = |all: &[Vec<f64>]| vec![all.iter().map(|n| n[0] * n[1]).sum()];
                        segment.agree(rank, members, &told, sum)[0]
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
    fn what_ranks_share_does_not_overlap() {
        let segment = Segment::new(2).unwrap();
        assert!(WORD_AT + (Word::Steps as usize + 1) * 8 <= page_bytes());
        for rank in 0..2 {
            segment.line(rank).store(1, Ordering::Relaxed);
            segment.word(rank, Word::Steps).store(2, Ordering::Relaxed);
            let mut writer = segment.inbox(rank).writer().unwrap();
            assert!(writer.write(&[3; 100_000], &mut 0));
        }
        assert_eq!(segment.word(0, Word::Process).load(Ordering::Relaxed), 0);
        assert_eq!(segment.agree(0, &[0], &[5.0], |all| all[0].clone())[0], 5.0);
        assert_eq!(segment.line(1).load(Ordering::Relaxed), 1);
    }
}
