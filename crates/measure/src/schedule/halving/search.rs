//! Driver of [`Halving`]: measures the candidates interleaved until one candidate per group is
//! left.

use super::{Halving, Shuffler};
use crate::clock;
use std::time::Instant;

/// Rules of a search: one constant per kind of search.
#[derive(Debug, Clone, Copy)]
pub struct SearchRules {
    /// Seed of the random order of measurements; any number.
    pub seed: u64,
    /// Number of passes over the candidates in a round.
    pub passes: PassesPerRound,
    /// Rule for the elimination of candidates after a round.
    pub elimination: EliminationRule,
    /// Minimum number of rounds before the search can be decided.
    pub min_rounds: usize,
    /// Maximum number of rounds, after which the search ends undecided; `None` for no limit.
    pub max_rounds: Option<usize>,
    /// Number of rounds at the beginning that are completed even if the deadline has passed.
    pub whole_rounds: usize,
    /// Point of the search at which the deadline is checked.
    pub check: DeadlineCheck,
}

/// Number of passes over the candidates in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassesPerRound {
    /// Each round has one pass.
    One,
    /// The first round has one pass, the second has two, and so on. Fewer remaining candidates thus
    /// get more samples per round.
    Growing,
}

/// Rule that determines which candidates are eliminated after a round, and when the search is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EliminationRule {
    /// From round `from` on, [`Halving::eliminate_half`] eliminates candidates. The search is decided when each
    /// group has at most `left` candidates.
    SlowerHalf {
        /// First round after which candidates are eliminated, counted from 1.
        from: usize,
        /// Number of candidates per group at which the elimination ends.
        left: usize,
    },
    /// [`Halving::eliminate_slower`] eliminates candidates. The search is decided when each group has one candidate.
    SignificantlySlower,
    /// No candidate is eliminated. The search is decided when no candidate can be faster than the
    /// first by more than this share.
    KeepAll(f64),
}

/// Point of the search at which the deadline is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineCheck {
    /// The deadline is checked before each measurement of a candidate.
    Turn,
    /// The deadline is checked before each round; a round that has begun is completed.
    Round,
}

/// Result of one measurement of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnRate {
    /// Measured rate, in any unit.
    pub rate: f64,
    /// Core-to-core round trip that identifies the regime, seconds; NaN if there is only one
    /// regime.
    pub round_trip: f64,
}

/// Code that measures the candidates of a search.
pub trait CandidateTurns {
    /// Type of a candidate.
    type Candidate;
    /// Error of a measurement; it ends the search.
    type Error;

    /// Measures one candidate of each group and returns their rates, in the order of the groups.
    ///
    /// # Errors
    /// Fails if nothing more can be measured.
    fn turn(&mut self, picked: &mut [&mut Self::Candidate]) -> Result<Vec<TurnRate>, Self::Error>;

    /// True if the search must end now, because the user interrupts it or because of a limit other
    /// than the deadline.
    fn must_end(&mut self) -> bool;

    /// Reports the end of a round, with the elapsed share of the time until the deadline and the number of remaining
    /// candidates in the largest group.
    fn report_round_end(&mut self, _elapsed: f64, _left: usize) {}

    /// Returns the key by which the candidates of a pass are sorted. Candidates with the smallest key are measured
    /// first; the order is random among candidates with the same key.
    fn sort_key(&self, _candidate: &Self::Candidate) -> u8 {
        0
    }
}

/// Measures the candidates of all groups interleaved under `rules` until the search is decided or `deadline` has
/// passed. Every group must have at least one candidate. Afterwards the candidates of each group are sorted, fastest
/// first.
///
/// # Errors
/// Returns the first error of a measurement; `groups` keeps the samples taken before.
pub fn choose<T: CandidateTurns>(
    candidates: &mut T,
    groups: &mut [Halving<T::Candidate>],
    rules: &SearchRules,
    deadline: Instant,
) -> Result<(), T::Error> {
    let begun = clock::now();
    let allotted = deadline.saturating_duration_since(begun).as_secs_f64().max(1e-3);
    let mut search = Search { candidates, rules, deadline, order: Shuffler::new(rules.seed) };
    let mut round = 0;
    while !rules.is_over(groups, round) {
        round += 1;
        if !search.measure_round(groups, round)? {
            break;
        }
        groups.iter_mut().for_each(|group| rules.elimination.after(round, group));
        let elapsed = (clock::now() - begun).as_secs_f64() / allotted;
        search.candidates.report_round_end(elapsed.min(1.0), largest(groups));
    }
    for group in groups {
        group.sort_by_score();
    }
    Ok(())
}

/// Returns the number of candidates left in the largest group.
fn largest<C>(groups: &[Halving<C>]) -> usize {
    groups.iter().map(Halving::len).max().unwrap_or(0)
}

/// State of a running search.
struct Search<'a, T> {
    candidates: &'a mut T,
    rules: &'a SearchRules,
    deadline: Instant,
    order: Shuffler,
}

impl<T: CandidateTurns> Search<'_, T> {
    /// Measures round number `round`, counted from 1. Returns false if the round was not completed.
    fn measure_round(
        &mut self,
        groups: &mut [Halving<T::Candidate>],
        round: usize,
    ) -> Result<bool, T::Error> {
        let deadline_counts = round > self.rules.whole_rounds;
        if self.candidates.must_end() || (deadline_counts && self.is_late()) {
            return Ok(false);
        }
        let deadline_counts = deadline_counts && self.rules.check == DeadlineCheck::Turn;
        for _ in 0..self.rules.passes.in_round(round) {
            let candidates = &*self.candidates;
            for group in &mut *groups {
                group.shuffle(&mut self.order, |candidate| candidates.sort_key(candidate));
            }
            for turn in 0..largest(groups) {
                if self.candidates.must_end() || (deadline_counts && self.is_late()) {
                    return Ok(false);
                }
                self.measure_turn(groups, turn)?;
            }
        }
        Ok(true)
    }

    /// Measures candidate number `turn` of each group. A group with fewer candidates starts again
    /// at its first candidate.
    fn measure_turn(
        &mut self,
        groups: &mut [Halving<T::Candidate>],
        turn: usize,
    ) -> Result<(), T::Error> {
        let mut picked: Vec<&mut T::Candidate> = Vec::with_capacity(groups.len());
        for group in &mut *groups {
            let number = turn % group.len();
            picked.push(group.get_mut(number));
        }
        let rates = self.candidates.turn(&mut picked)?;
        for (group, TurnRate { rate, round_trip }) in groups.iter_mut().zip(rates) {
            group.add_rate(turn % group.len(), rate, round_trip);
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        clock::now() >= self.deadline
    }
}

impl SearchRules {
    /// True if the search is decided or the maximum number of rounds is reached. `rounds` is the
    /// number of completed rounds.
    fn is_over<C>(&self, groups: &mut [Halving<C>], rounds: usize) -> bool {
        if self.max_rounds.is_some_and(|max| rounds >= max) {
            return true;
        }
        rounds >= self.min_rounds
            && groups.iter_mut().all(|group| self.elimination.is_decided(group))
    }
}

impl PassesPerRound {
    fn in_round(self, round: usize) -> usize {
        match self {
            Self::One => 1,
            Self::Growing => round,
        }
    }
}

impl EliminationRule {
    /// Eliminates candidates of a group after round number `round`, according to the rule.
    fn after<C>(self, round: usize, group: &mut Halving<C>) {
        match self {
            Self::SlowerHalf { from, left } if round >= from && group.len() > left => {
                group.eliminate_half()
            }
            Self::SignificantlySlower => group.eliminate_slower(),
            Self::SlowerHalf { .. } | Self::KeepAll(_) => {}
        }
    }

    fn is_decided<C>(self, group: &mut Halving<C>) -> bool {
        match self {
            Self::SlowerHalf { left, .. } => group.len() <= left,
            Self::SignificantlySlower => group.len() <= 1,
            Self::KeepAll(tolerance) => group.is_settled(tolerance),
        }
    }
}

/// Result of the preparation of a candidate.
#[derive(Debug)]
pub enum PreparationResult<C, E> {
    /// The candidate can be measured.
    Works(C),
    /// The candidate cannot be measured on this machine; other candidates may be.
    Refused(E),
}

/// Function that prepares a candidate; the first argument is the index of its group.
pub type CandidatePreparer<'a, P, C, E> =
    dyn FnMut(usize, &P) -> Result<PreparationResult<C, E>, E> + 'a;

/// Prepares candidates, and returns those that can be measured. First the first candidate of every group is
/// prepared, then the second of every group, and so on. If `must_end` returns true and each group has a usable
/// candidate, the remaining candidates are omitted.
///
/// # Errors
/// Returns an error of `prepare`, or the first refusal if no candidate of a group can be measured.
pub fn prepare_candidates<P, C, E>(
    groups: &[Vec<P>],
    must_end: &dyn Fn() -> bool,
    prepare: &mut CandidatePreparer<'_, P, C, E>,
) -> Result<Vec<Vec<C>>, E> {
    let mut working: Vec<Vec<C>> = groups.iter().map(|_| Vec::new()).collect();
    let mut refusal = None;
    for number in 0..groups.iter().map(Vec::len).max().unwrap_or(0) {
        if working.iter().all(|group| !group.is_empty()) && must_end() {
            break;
        }
        for (at, group) in groups.iter().enumerate() {
            let Some(candidate) = group.get(number) else { continue };
            match prepare(at, candidate)? {
                PreparationResult::Works(candidate) => working[at].push(candidate),
                PreparationResult::Refused(error) => refusal = refusal.or(Some(error)),
            }
        }
    }
    match refusal {
        Some(error) if working.iter().any(Vec::is_empty) => Err(error),
        _ => Ok(working),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HALVE: SearchRules = SearchRules {
        seed: 1,
        passes: PassesPerRound::Growing,
        elimination: EliminationRule::SlowerHalf { from: 1, left: 1 },
        min_rounds: 0,
        max_rounds: None,
        whole_rounds: 0,
        check: DeadlineCheck::Turn,
    };

    /// Candidates that are numbers and whose rates are these numbers; the search ends after a given
    /// number of measurements.
    #[derive(Default)]
    struct Numbers {
        turns: usize,
        max_turns: Option<usize>,
        lasts: Duration,
        rounds: Vec<usize>,
        first: Option<u32>,
    }

    impl CandidateTurns for Numbers {
        type Candidate = u32;
        type Error = String;

        fn turn(&mut self, picked: &mut [&mut u32]) -> Result<Vec<TurnRate>, String> {
            self.turns += 1;
            self.first.get_or_insert(*picked[0]);
            clock::advance_clock(self.lasts);
            let rate = |number: &&mut u32| match **number {
                0 => Err("zero".to_owned()),
                number => Ok(TurnRate { rate: number.into(), round_trip: f64::NAN }),
            };
            picked.iter().map(rate).collect()
        }

        fn must_end(&mut self) -> bool {
            self.max_turns.is_some_and(|max| self.turns >= max)
        }

        fn report_round_end(&mut self, _: f64, left: usize) {
            self.rounds.push(left);
        }

        fn sort_key(&self, candidate: &u32) -> u8 {
            u8::from(candidate.is_multiple_of(2))
        }
    }

    fn hour() -> Instant {
        clock::now() + Duration::from_secs(3600)
    }

    #[test]
    fn search_finds_the_fastest_candidate_of_each_group() {
        let mut groups = [Halving::new(1..=8), Halving::new([7, 9, 8]), Halving::new([3])];
        let mut numbers = Numbers::default();
        choose(&mut numbers, &mut groups, &HALVE, hour()).unwrap();
        assert_eq!(groups.each_ref().map(|group| *group.leader()), [8, 9, 3]);
        // Three rounds: 8 candidates with one measurement each, 4 with two each, and 2 with three each.
        assert_eq!((numbers.rounds, numbers.turns), (vec![4, 2, 1], 8 + 2 * 4 + 3 * 2));
        assert_eq!(numbers.first.map(|first| first % 2), Some(1));
    }

    #[test]
    fn deadline_is_checked_per_turn_or_per_round() {
        let rounds = |rules: SearchRules, seconds| {
            let mut numbers = Numbers { lasts: Duration::from_secs(10), ..Numbers::default() };
            let deadline = clock::now() + Duration::from_secs(seconds);
            let mut groups = [Halving::new(1..=8)];
            choose(&mut numbers, &mut groups, &rules, deadline).unwrap();
            (numbers.rounds.len(), numbers.turns)
        };
        assert_eq!(rounds(HALVE, 35), (0, 4));
        assert_eq!(rounds(SearchRules { check: DeadlineCheck::Round, ..HALVE }, 35), (1, 8));
        assert_eq!(rounds(SearchRules { whole_rounds: 1, ..HALVE }, 35), (1, 8));
        assert_eq!(rounds(SearchRules { whole_rounds: 1, ..HALVE }, 0), (1, 8));
        assert_eq!(rounds(SearchRules { max_rounds: Some(2), ..HALVE }, 3600), (2, 16));
    }

    #[test]
    fn search_ends_when_decided_or_at_turn_limit() {
        let rules = SearchRules {
            passes: PassesPerRound::One,
            elimination: EliminationRule::KeepAll(0.5),
            min_rounds: 3,
            ..HALVE
        };
        let mut groups = [Halving::new([10, 1])];
        let mut numbers = Numbers::default();
        choose(&mut numbers, &mut groups, &rules, hour()).unwrap();
        assert_eq!((numbers.rounds, groups[0].len(), *groups[0].leader()), (vec![2; 3], 2, 10));
        let rules = SearchRules { elimination: EliminationRule::SignificantlySlower, ..rules };
        let mut limited = Numbers { max_turns: Some(5), ..Numbers::default() };
        choose(&mut limited, &mut [Halving::new([1, 10])], &rules, hour()).unwrap();
        assert_eq!(limited.turns, 5);
    }

    #[test]
    fn failed_turn_ends_search() {
        let mut groups = [Halving::new([0, 1])];
        let failed = choose(&mut Numbers::default(), &mut groups, &HALVE, hour());
        assert_eq!(failed, Err("zero".to_owned()));
    }

    #[test]
    fn unusable_candidates_are_skipped() {
        let mut prepare = |_: usize, number: &u32| match number {
            0 => Ok(PreparationResult::Refused("refused".to_owned())),
            1 => Err("broken".to_owned()),
            _ => Ok(PreparationResult::Works(*number)),
        };
        let mut working = |groups: &[Vec<u32>], must_end: bool| {
            prepare_candidates(groups, &|| must_end, &mut prepare)
        };
        let groups = [vec![0, 2, 3], vec![4, 5]];
        assert_eq!(working(&groups, false).unwrap(), [vec![2, 3], vec![4, 5]]);
        assert_eq!(working(&groups, true).unwrap(), [vec![2], vec![4, 5]]);
        assert_eq!(working(&[vec![0], vec![2]], false), Err("refused".to_owned()));
        assert_eq!(working(&[vec![1, 2]], false), Err("broken".to_owned()));
    }
}
