//! Driver of [`Halving`]: the only loop that measures candidates by turns until one candidate per group is left.

use super::{Halving, Shuffler};
use crate::clock;
use std::time::Instant;

/// Rules of a search: one constant per kind of search.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Seed of the order of turns: any number.
    pub seed: u64,
    /// Number of passes over the candidates in a round.
    pub passes: Passes,
    /// Rule for the candidates that leave after a round.
    pub leave: RoundRule,
    /// Rounds before the search may end because it is decided.
    pub least_rounds: usize,
    /// Rounds after which the search ends undecided; `None` for no limit.
    pub most_rounds: Option<usize>,
    /// First rounds that the deadline does not cut short.
    pub whole_rounds: usize,
    /// Position at which the deadline is checked.
    pub check: DeadlineCheck,
}

/// Number of passes over the candidates in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// One pass in each round.
    One,
    /// One pass in the first round, two in the second, and so on: the fewer candidates are left, the more samples
    /// each of them gets.
    Growing,
}

/// Rule that determines which candidates leave after a round, and when the search is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RoundRule {
    /// [`Halving::cut`] from round `from` on; decided when at most `left` candidates of each group are left.
    SlowerHalf {
        /// First round after which candidates leave, counted from 1.
        from: usize,
        /// Number of candidates at which no more leave.
        left: usize,
    },
    /// [`Halving::leave_behind`]; decided when one candidate of each group is left.
    SignificantlySlower,
    /// No candidate leaves; decided when no other candidate can be faster than the leader by more than this share.
    Nobody(f64),
}

/// Position at which the deadline is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineCheck {
    /// Before each turn.
    Turn,
    /// Before each round: a round that has begun is completed.
    Round,
}

/// Result of one candidate's turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnRate {
    /// Rate in any unit.
    pub rate: f64,
    /// Core-to-core round trip that identifies the regime, seconds; NaN where there is one regime only.
    pub round_trip: f64,
}

/// Measurement of the candidates of a search.
pub trait Candidates {
    /// One candidate.
    type Candidate;
    /// Error of a turn that ends the search.
    type Error;

    /// Measures one candidate of each group, in the order of the groups, and returns a rate for each.
    ///
    /// # Errors
    /// Fails if nothing more can be measured.
    fn turn(&mut self, picked: &mut [&mut Self::Candidate]) -> Result<Vec<TurnRate>, Self::Error>;

    /// True if the search must end now: the user interrupts it, or other limits than the deadline are reached.
    fn must_end(&mut self) -> bool;

    /// Reports the end of a round: the elapsed share of the time until the deadline, and the number of candidates
    /// of the largest group that are left.
    fn round_ended(&mut self, _elapsed: f64, _left: usize) {}

    /// Returns the key by which the candidates of a pass are grouped: those with the smallest key have their turns
    /// first.
    fn sort_key(&self, _candidate: &Self::Candidate) -> u8 {
        0
    }
}

/// Measures the candidates of all groups by turns under `rules` until the search is decided or `deadline` has passed.
/// Every group has at least one candidate. Afterwards each group is ranked, fastest first.
///
/// # Errors
/// Returns the first error of a turn; the samples until then stay in `groups`.
pub fn choose<T: Candidates>(
    candidates: &mut T,
    groups: &mut [Halving<T::Candidate>],
    rules: &Rules,
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
        groups.iter_mut().for_each(|group| rules.leave.after(round, group));
        let elapsed = (clock::now() - begun).as_secs_f64() / allotted;
        search.candidates.round_ended(elapsed.min(1.0), largest(groups));
    }
    for group in groups {
        group.rank();
    }
    Ok(())
}

/// Returns the number of candidates left in the largest group.
fn largest<C>(groups: &[Halving<C>]) -> usize {
    groups.iter().map(Halving::len).max().unwrap_or(0)
}

/// A search that is under way.
struct Search<'a, T> {
    candidates: &'a mut T,
    rules: &'a Rules,
    deadline: Instant,
    order: Shuffler,
}

impl<T: Candidates> Search<'_, T> {
    /// Measures one round, counted from 1. Returns false if it was not completed.
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

    /// Measures candidate number `turn` of each group; smaller groups begin again at their first.
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
            group.record(turn % group.len(), rate, round_trip);
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        clock::now() >= self.deadline
    }
}

impl Rules {
    /// True if the search is decided or has had all its rounds; `rounds` have ended.
    fn is_over<C>(&self, groups: &mut [Halving<C>], rounds: usize) -> bool {
        if self.most_rounds.is_some_and(|most| rounds >= most) {
            return true;
        }
        rounds >= self.least_rounds && groups.iter_mut().all(|group| self.leave.is_decided(group))
    }
}

impl Passes {
    fn in_round(self, round: usize) -> usize {
        match self {
            Self::One => 1,
            Self::Growing => round,
        }
    }
}

impl RoundRule {
    /// Removes the candidates of a group that leave after this round.
    fn after<C>(self, round: usize, group: &mut Halving<C>) {
        match self {
            Self::SlowerHalf { from, left } if round >= from && group.len() > left => group.cut(),
            Self::SignificantlySlower => group.leave_behind(),
            Self::SlowerHalf { .. } | Self::Nobody(_) => {}
        }
    }

    fn is_decided<C>(self, group: &mut Halving<C>) -> bool {
        match self {
            Self::SlowerHalf { left, .. } => group.len() <= left,
            Self::SignificantlySlower => group.len() <= 1,
            Self::Nobody(tolerance) => group.is_settled(tolerance),
        }
    }
}

/// Result of a candidate's preparation.
#[derive(Debug)]
pub enum Prepared<C, E> {
    /// The candidate works.
    Works(C),
    /// The candidate does not work here; the others may.
    Refused(E),
}

/// Function that prepares one candidate of the group with this number.
pub type Prepare<'a, P, C, E> = dyn FnMut(usize, &P) -> Result<Prepared<C, E>, E> + 'a;

/// Prepares the candidates of each group in order, the first of all groups before the second of any, and returns
/// those that work. When `must_end` returns true, the rest is left out as soon as each group has a candidate that
/// works.
///
/// # Errors
/// Returns an error of `prepare`, or the first refusal if no candidate of a group works.
pub fn prepared<P, C, E>(
    groups: &[Vec<P>],
    must_end: &dyn Fn() -> bool,
    prepare: &mut Prepare<'_, P, C, E>,
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
                Prepared::Works(candidate) => working[at].push(candidate),
                Prepared::Refused(error) => refusal = refusal.or(Some(error)),
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

    const HALVE: Rules = Rules {
        seed: 1,
        passes: Passes::Growing,
        leave: RoundRule::SlowerHalf { from: 1, left: 1 },
        least_rounds: 0,
        most_rounds: None,
        whole_rounds: 0,
        check: DeadlineCheck::Turn,
    };

    /// Candidates that are numbers and equal to their rates; the search ends after a given number of turns.
    #[derive(Default)]
    struct Numbers {
        turns: usize,
        most_turns: Option<usize>,
        lasts: Duration,
        rounds: Vec<usize>,
        first: Option<u32>,
    }

    impl Candidates for Numbers {
        type Candidate = u32;
        type Error = String;

        fn turn(&mut self, picked: &mut [&mut u32]) -> Result<Vec<TurnRate>, String> {
            self.turns += 1;
            self.first.get_or_insert(*picked[0]);
            clock::run_ahead(self.lasts);
            let rate = |number: &&mut u32| match **number {
                0 => Err("zero".to_owned()),
                number => Ok(TurnRate { rate: number.into(), round_trip: f64::NAN }),
            };
            picked.iter().map(rate).collect()
        }

        fn must_end(&mut self) -> bool {
            self.most_turns.is_some_and(|most| self.turns >= most)
        }

        fn round_ended(&mut self, _: f64, left: usize) {
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
    fn each_group_is_left_with_its_fastest() {
        let mut groups = [Halving::new(1..=8), Halving::new([7, 9, 8]), Halving::new([3])];
        let mut numbers = Numbers::default();
        choose(&mut numbers, &mut groups, &HALVE, hour()).unwrap();
        assert_eq!(groups.each_ref().map(|group| *group.leader()), [8, 9, 3]);
        // Rounds of 8 candidates with one turn each, 4 with two turns, and 2 with three turns.
        assert_eq!((numbers.rounds, numbers.turns), (vec![4, 2, 1], 8 + 2 * 4 + 3 * 2));
        assert_eq!(numbers.first.map(|first| first % 2), Some(1));
    }

    #[test]
    fn the_deadline_ends_a_search_where_the_rules_check_it() {
        let rounds = |rules: Rules, seconds| {
            let mut numbers = Numbers { lasts: Duration::from_secs(10), ..Numbers::default() };
            let deadline = clock::now() + Duration::from_secs(seconds);
            let mut groups = [Halving::new(1..=8)];
            choose(&mut numbers, &mut groups, &rules, deadline).unwrap();
            (numbers.rounds.len(), numbers.turns)
        };
        assert_eq!(rounds(HALVE, 35), (0, 4));
        assert_eq!(rounds(Rules { check: DeadlineCheck::Round, ..HALVE }, 35), (1, 8));
        assert_eq!(rounds(Rules { whole_rounds: 1, ..HALVE }, 35), (1, 8));
        assert_eq!(rounds(Rules { whole_rounds: 1, ..HALVE }, 0), (1, 8));
        assert_eq!(rounds(Rules { most_rounds: Some(2), ..HALVE }, 3600), (2, 16));
    }

    #[test]
    fn a_search_without_leaving_ends_when_it_is_settled() {
        let rules =
            Rules { passes: Passes::One, leave: RoundRule::Nobody(0.5), least_rounds: 3, ..HALVE };
        let mut groups = [Halving::new([10, 1])];
        let mut numbers = Numbers::default();
        choose(&mut numbers, &mut groups, &rules, hour()).unwrap();
        assert_eq!((numbers.rounds, groups[0].len(), *groups[0].leader()), (vec![2; 3], 2, 10));
        let rules = Rules { leave: RoundRule::SignificantlySlower, ..rules };
        let mut limited = Numbers { most_turns: Some(5), ..Numbers::default() };
        choose(&mut limited, &mut [Halving::new([1, 10])], &rules, hour()).unwrap();
        assert_eq!(limited.turns, 5);
    }

    #[test]
    fn an_error_of_a_turn_ends_the_search() {
        let mut groups = [Halving::new([0, 1])];
        let failed = choose(&mut Numbers::default(), &mut groups, &HALVE, hour());
        assert_eq!(failed, Err("zero".to_owned()));
    }

    #[test]
    fn candidates_that_do_not_work_are_left_out() {
        let mut prepare = |_: usize, number: &u32| match number {
            0 => Ok(Prepared::Refused("refused".to_owned())),
            1 => Err("broken".to_owned()),
            _ => Ok(Prepared::Works(*number)),
        };
        let mut working =
            |groups: &[Vec<u32>], must_end: bool| prepared(groups, &|| must_end, &mut prepare);
        let groups = [vec![0, 2, 3], vec![4, 5]];
        assert_eq!(working(&groups, false).unwrap(), [vec![2, 3], vec![4, 5]]);
        assert_eq!(working(&groups, true).unwrap(), [vec![2], vec![4, 5]]);
        assert_eq!(working(&[vec![0], vec![2]], false), Err("refused".to_owned()));
        assert_eq!(working(&[vec![1, 2]], false), Err("broken".to_owned()));
    }
}
