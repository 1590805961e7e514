//! Schedule of measurements: decides which configuration is measured next, for how long, when to stop, and what to
//! repeat.
//!
//! Only this module repeats measurements. A cell is one of the configurations that a run compares,
//! e.g. loops on one placement, the build of a compiler, a file size with a block size, a set of
//! MPI ranks. In every round each cell is measured once; this measurement is the turn of the cell.
//! Drift of the machine therefore appears as spread and not as a trend. The modes of nodegauge
//! differ in their [`RepetitionPolicy`], a row of the table in [`policy`].

mod affordable;
pub mod halving;
pub mod policy;
mod prediction;
pub mod shuffle;
mod turn;

pub use affordable::RemainingTime;
pub use policy::{RepetitionPolicy, RoundOrder, StableCellRule, WarmUp};
pub use prediction::{Predictable, PredictedTime};
pub use turn::{Turn, TurnFailure};

use crate::Fraction;
use crate::clock;
use crate::notice::{Notice, NoticeId};
use crate::progress::Observer;
use crate::repeat::{StopReason, StopRule};
use crate::samples::{self, Sample};
use crate::stats::BetterDirection;
use shuffle::Shuffler;
use std::time::{Duration, Instant};

/// Time budget of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Time for the whole run.
    pub time: Duration,
    /// True if the user set the budget. A run that cannot keep a budget of the user is refused before its set-up.
    pub is_set_by_user: bool,
}

impl Budget {
    /// Returns the budget of the user if there is one, otherwise `usual`.
    pub fn new(user: Option<Duration>, usual: Duration) -> Self {
        Self { time: user.unwrap_or(usual), is_set_by_user: user.is_some() }
    }
}

/// Creates a budget that the user did not set, e.g. for a part of a run.
impl From<Duration> for Budget {
    fn from(time: Duration) -> Self {
        Self { time, is_set_by_user: false }
    }
}

/// Time after the start of the command at which a prediction must be complete, because a budget is
/// refused within two seconds.
const DECISION: Duration = Duration::from_millis(1500);

/// Limits of a run: time and number of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLimits {
    /// Start of the run, including its setup. With a budget of the user, the start of the command.
    pub started: Instant,
    /// Time budget of the whole run.
    pub budget: Duration,
    /// Exact number of samples of each cell after the warm-up, regardless of the time; `None` for
    /// no fixed number.
    pub samples: Option<usize>,
    /// Expected time for checks and cleanup at the end.
    pub reserve: Duration,
    /// True if the user set the budget. A run that cannot keep a budget of the user is refused before its set-up.
    pub is_set_by_user: bool,
}

impl RunLimits {
    /// Returns the limits of a run that starts now.
    pub fn new(budget: Duration, samples: Option<usize>) -> Self {
        Self {
            started: clock::now(),
            budget,
            samples,
            reserve: Duration::ZERO,
            is_set_by_user: false,
        }
    }

    /// Returns the limits of a run. A default budget starts now; a budget of the user started with
    /// the command.
    pub fn from_budget(budget: Budget, samples: Option<usize>) -> Self {
        let usual = Self::new(budget.time, samples);
        let started = if budget.is_set_by_user { clock::budget_start() } else { usual.started };
        Self { is_set_by_user: budget.is_set_by_user, started, ..usual }
    }

    /// Returns these limits with a start at the current time, for a part of the run.
    #[must_use]
    pub fn from_now(self) -> Self {
        Self { started: clock::now(), ..self }
    }

    /// Returns the time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    /// Returns the time for the next of `left` remaining parts of equal length; zero if the budget
    /// is used up.
    pub fn next_part_time(&self, left: usize) -> Duration {
        self.budget.saturating_sub(self.elapsed()) / left.max(1) as u32
    }

    /// Returns the time by which a run may exceed its budget: a tenth of the budget, at least one
    /// second.
    pub fn grace(&self) -> Duration {
        self.budget.div_f64(10.0).max(Duration::from_secs(1))
    }

    /// True if the run must keep its budget, because the user set a budget and no number of
    /// samples.
    pub fn must_be_kept(&self) -> bool {
        self.is_set_by_user && self.samples.is_none()
    }

    /// True if a prediction must use what it has measured so far, because a budget can be refused
    /// only soon after the start of the command.
    pub fn must_end_prediction(&self) -> bool {
        self.must_be_kept() && self.elapsed() >= DECISION
    }

    /// True if the run has exceeded a budget of the user. The run then ends with what it has
    /// measured.
    pub fn is_exceeded(&self) -> bool {
        self.must_be_kept() && self.elapsed() > self.budget + self.grace()
    }

    /// Returns a notice if the run exceeded its budget by more than the grace time. Returns `None`
    /// otherwise, and if the user requested a number of samples. `setup_time` is the time of the
    /// setup; zero if setup and measurement are not separated.
    pub(crate) fn overrun_notice(&self, gauge: &str, setup_time: Duration) -> Option<Notice> {
        let elapsed = self.elapsed();
        if self.samples.is_some() || elapsed <= self.budget + self.grace() {
            return None;
        }
        let longer = "measuring took longer than predicted, e.g. because of other load";
        let setup = setup_time.as_secs_f64();
        let why = if setup_time.is_zero() {
            format!(": {longer}")
        } else if setup_time > elapsed.saturating_sub(setup_time) {
            format!(" ({setup:.1} s for setup)")
        } else {
            format!(" ({setup:.1} s for setup, and {longer})")
        };
        let text = format!(
            "budget exceeded: {:.1} s instead of {:.1} s{why}",
            elapsed.as_secs_f64(),
            self.budget.as_secs_f64(),
        );
        Some(Notice::new(NoticeId::Budget, gauge, text))
    }

    /// Returns the time at which `share` (0 to 1) of the budget is used up.
    pub fn time_at_share(&self, share: Fraction) -> Instant {
        self.started + self.budget.mul_f64(share.0)
    }
}

/// Function that describes the latest samples for the progress display.
pub type Latest<'a> = &'a dyn Fn(&[Vec<Sample>]) -> String;

/// Schedule of cells that are measured under one policy, with their samples.
pub struct Schedule {
    policy: RepetitionPolicy,
    /// Time and number of samples of the run.
    pub limits: RunLimits,
    /// Samples of each cell in order of time, beginning with the warm-up; empty for a cell that was not measured.
    pub samples: Vec<Vec<Sample>>,
    active: Vec<usize>,
    /// Cells whose measurement failed. A round is complete if it has a sample of each other cell.
    lost: Vec<usize>,
    shuffler: Shuffler,
}

impl Schedule {
    /// Returns a schedule of `cells` cells.
    pub fn new(policy: RepetitionPolicy, limits: RunLimits, cells: usize) -> Self {
        Self {
            shuffler: Shuffler::new(policy.seed),
            policy,
            limits,
            samples: vec![Vec::new(); cells],
            active: (0..cells).collect(),
            lost: Vec::new(),
        }
    }

    /// Excludes a cell from further measurements.
    pub fn exclude(&mut self, cell: usize) {
        self.active.retain(|active| *active != cell);
    }

    /// Excludes a cell whose measurement failed, and keeps its samples. Rounds are complete without
    /// this cell.
    pub fn mark_lost(&mut self, cell: usize) {
        self.exclude(cell);
        if !self.lost.contains(&cell) {
            self.lost.push(cell);
        }
    }

    /// Returns the cells whose measurement did not fail, ascending.
    pub fn remaining_cells(&self) -> Vec<usize> {
        (0..self.samples.len()).filter(|cell| !self.lost.contains(cell)).collect()
    }

    /// Measures the cells in rounds until every figure is stable, the time is used up, the
    /// requested samples are taken, or the user ends the run. `turn` measures a cell once. If
    /// `turn` returns no sample although samples are due, the cell is not measured again.
    ///
    /// # Errors
    /// Fails if `turn` fails; the samples taken before are kept.
    pub fn run<E>(
        &mut self,
        observer: &mut dyn Observer,
        latest: Option<Latest<'_>>,
        mut turn: impl FnMut(Turn) -> Result<Vec<Sample>, E>,
    ) -> Result<StopReason, E> {
        let begun = clock::now();
        let elapsed = || clock::now().saturating_duration_since(begun);
        let rule = self.rule(begun);
        // The rounds may use half of the grace time; the other half is for unforeseen delays.
        let end = rule.max_time + self.limits.grace() / 2;
        let time = rule.max_time.as_secs_f64().max(1e-3);
        let mut round = 0;
        let mut last_round = Duration::ZERO;
        loop {
            let cells = self.round_order();
            if cells.is_empty() {
                return Ok(StopReason::Stable);
            }
            let count = cells.len();
            let round_begun = elapsed();
            for (place, cell) in cells.into_iter().enumerate() {
                if observer.is_interrupted() {
                    return Ok(StopReason::Interrupted);
                }
                let counted_rounds = self.counted_rounds(round);
                let late = self.policy.ends_within_round
                    && elapsed() >= rule.max_time
                    && counted_rounds >= self.policy.min_rounds;
                // Each cell gets at least one sample, unless the run is so late that it ends with what it has. The
                // minimum number of rounds is not enforced if it would exceed the time.
                let has_figure = self.has_any_counted_sample() && self.limits.is_exceeded();
                if !self.requires_samples()
                    && (late || has_figure || (counted_rounds >= 1 && elapsed() > end))
                {
                    return Ok(StopReason::Budget);
                }
                if !self.active.contains(&cell) {
                    continue;
                }
                let remaining = self.remaining(cell);
                let taken = turn(Turn { cell, round, remaining })?;
                if taken.is_empty() && remaining != Some(0) {
                    self.exclude(cell);
                }
                self.samples[cell].extend(taken);
                if self.policy.ends_within_round {
                    let warm_up = usize::from(self.policy.warm_up == WarmUp::Round);
                    let rounds = round as f64 + (place + 1) as f64 / count as f64;
                    let done = self.limits.samples.map_or(0.0, |n| rounds / (n + warm_up) as f64);
                    let spent =
                        if self.requires_samples() { 0.0 } else { elapsed().as_secs_f64() / time };
                    let words = latest.map_or_else(String::new, |of| of(&self.samples));
                    observer.report_progress(done.max(spent).min(1.0), &words);
                }
            }
            round += 1;
            last_round = last_round.max(elapsed() - round_begun);
            let counted_rounds = self.counted_rounds(round);
            let late = (elapsed() >= rule.max_time && counted_rounds >= self.policy.min_rounds)
                || (elapsed() + last_round > end && counted_rounds >= 1);
            let asked = counted_rounds.is_multiple_of(self.policy.check_interval)
                || self.limits.samples.is_some_and(|n| self.min_sample_count() >= n);
            if !(late || asked) {
                continue;
            }
            let spent = if self.requires_samples() { 0.0 } else { elapsed().as_secs_f64() / time };
            let done = match self.limits.samples.or(self.policy.max_rounds) {
                Some(n) => self.min_sample_count() as f64 / n.max(1) as f64,
                None => 0.0,
            };
            let share = done.max(spent);
            let words = latest.map_or_else(|| format!("round {round}"), |of| of(&self.samples));
            observer.report_progress(share.min(1.0), &words);
            if let Some(stop) = self.stop(&rule, elapsed(), late) {
                return Ok(stop);
            }
        }
    }

    /// Measures each of the given cells `rounds` more times, in the given order.
    ///
    /// # Errors
    /// Fails if `turn` fails.
    pub fn remeasure<E>(
        &mut self,
        cells: &[usize],
        rounds: usize,
        mut turn: impl FnMut(Turn) -> Result<Vec<Sample>, E>,
    ) -> Result<(), E> {
        for round in 0..rounds {
            for cell in cells {
                let taken = turn(Turn { cell: *cell, round, remaining: None })?;
                self.samples[*cell].extend(taken);
            }
        }
        Ok(())
    }

    /// Returns the complete rounds without the warm-up, with one sample of each remaining cell, for
    /// ratios of samples that were measured shortly after each other.
    pub fn rounds(&self) -> Vec<Vec<Sample>> {
        self.complete_rounds(&self.remaining_cells())
    }

    /// Returns the rounds, without the warm-up, that have a sample of each of these cells.
    pub fn complete_rounds(&self, cells: &[usize]) -> Vec<Vec<Sample>> {
        let complete = cells.iter().map(|cell| self.samples[*cell].len()).min().unwrap_or(0);
        (self.warm_up()..complete)
            .map(|round| cells.iter().map(|cell| self.samples[*cell][round].clone()).collect())
            .collect()
    }

    /// Returns the numbers of the undisturbed rounds of the most frequent regime.
    pub fn undisturbed_rounds(&self) -> Vec<usize> {
        samples::undisturbed_round_numbers(
            &self.rounds(),
            &vec![true; self.remaining_cells().len()],
        )
    }

    fn rule(&self, begun: Instant) -> StopRule {
        let last = self
            .limits
            .time_at_share(Fraction(1.0))
            .checked_sub(self.limits.reserve)
            .unwrap_or(begun);
        let end = self.limits.time_at_share(self.policy.measurement_share).min(last);
        let at_most = end.saturating_duration_since(begun);
        let whole = if self.policy.min_time_is_budget_share { self.limits.budget } else { at_most };
        StopRule {
            min_samples: self.policy.min_samples,
            exact_samples: self.limits.samples,
            min_time: whole.mul_f64(self.policy.min_time.0).min(self.policy.min_time.1),
            max_time: at_most,
            tolerance: self.policy.tolerance.unwrap_or_default(),
        }
    }

    /// Returns the number of completed rounds without the warm-up.
    fn counted_rounds(&self, round: usize) -> usize {
        round.saturating_sub(usize::from(self.policy.warm_up == WarmUp::Round))
    }

    /// True if the run takes a requested number of samples regardless of the time.
    fn requires_samples(&self) -> bool {
        self.limits.samples.is_some() && self.policy.takes_samples_despite_time
    }

    /// Returns the number of warm-up samples of a cell.
    fn warm_up(&self) -> usize {
        usize::from(self.policy.warm_up != WarmUp::None)
    }

    /// Returns the number of samples of a cell that count, without its warm-up.
    fn sample_count(&self, cell: usize) -> usize {
        match self.policy.max_rounds_per_sample {
            1 => self.samples[cell].len().saturating_sub(self.warm_up()),
            _ => self.undisturbed_rounds().len(),
        }
    }

    /// Returns the minimum of [`Self::sample_count`] over the active cells.
    fn min_sample_count(&self) -> usize {
        self.active.iter().map(|cell| self.sample_count(*cell)).min().unwrap_or(0)
    }

    /// True if any cell has a sample after its warm-up.
    pub fn has_any_counted_sample(&self) -> bool {
        (0..self.samples.len()).any(|cell| self.has_counted_sample(cell))
    }

    /// True if this cell has a sample after its warm-up.
    pub fn has_counted_sample(&self, cell: usize) -> bool {
        self.samples[cell].len() > self.warm_up()
    }

    fn remaining(&self, cell: usize) -> Option<usize> {
        self.limits.samples.map(|n| n.saturating_sub(self.sample_count(cell)))
    }

    /// Returns the cells in the order of the next round.
    fn round_order(&mut self) -> Vec<usize> {
        let mut order = self.active.clone();
        match self.policy.order {
            RoundOrder::AsGiven => order,
            RoundOrder::Shuffled => {
                self.shuffler.shuffle(&mut order);
                order
            }
            RoundOrder::ReferenceBeforeEach => {
                order.retain(|cell| *cell != 0);
                self.shuffler.shuffle(&mut order);
                if order.is_empty() {
                    return self.active.clone();
                }
                order.into_iter().flat_map(|cell| [0, cell]).collect()
            }
        }
    }

    fn stop(&mut self, rule: &StopRule, elapsed: Duration, late: bool) -> Option<StopReason> {
        let tried = |n: usize| {
            self.policy.max_rounds_per_sample > 1
                && self.rounds().len() >= n * self.policy.max_rounds_per_sample
        };
        if self.limits.samples.is_some_and(|n| self.min_sample_count() >= n || tried(n)) {
            return Some(StopReason::Samples);
        }
        if late && !self.requires_samples() {
            return Some(StopReason::Budget);
        }
        if self.limits.samples.is_some() {
            return None;
        }
        if self.policy.max_rounds.is_some_and(|max| self.min_sample_count() >= max) {
            return Some(StopReason::Stable);
        }
        self.policy.tolerance?;
        let is_stable = |cell: &usize| self.is_stable(rule, *cell, elapsed);
        match self.policy.stable_cells {
            StableCellRule::UntilAllStable => {
                self.active.iter().all(is_stable).then_some(StopReason::Stable)
            }
            StableCellRule::OnceStable => {
                let stay: Vec<usize> =
                    self.active.iter().copied().filter(|cell| !is_stable(cell)).collect();
                self.active = stay;
                self.active.is_empty().then_some(StopReason::Stable)
            }
        }
    }

    fn is_stable(&self, rule: &StopRule, cell: usize, elapsed: Duration) -> bool {
        let samples = &self.samples[cell];
        let sorted = samples::assign_regimes(samples);
        let Some(group) = sorted.headline() else { return false };
        let parts = samples.first().map_or(0, |sample| sample.seconds.len());
        let rates: Vec<Vec<f64>> =
            (0..parts).map(|part| group.values(samples, part, &|seconds| 1.0 / seconds)).collect();
        let slices: Vec<&[f64]> = rates.iter().map(Vec::as_slice).collect();
        rule.stop_reason(&slices, elapsed, BetterDirection::Higher) == Some(StopReason::Stable)
    }
}

/// Repeats a measurement until it is undisturbed, at most `tries` times, and returns the last
/// result. Interference of a few milliseconds is usually over at the next attempt.
///
/// # Errors
/// Fails if a measurement fails.
pub fn repeat_until_undisturbed<T, E>(
    tries: usize,
    disturbed: impl Fn(&T) -> bool,
    mut measure: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut last = measure()?;
    for _ in 1..tries {
        if !disturbed(&last) {
            break;
        }
        last = measure()?;
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
