//! Who measures next, how long, when to stop, and what to repeat: cells by turns.
//!
//! The only loop that repeats measurements. A cell is whatever is compared: a kernel's loops on one
//! placement, a compiler's build, a file and its block size, a start of MPI ranks. Cells have turns
//! round after round, so that drift of the machine becomes spread and not a trend; what differs
//! between modes is a [`Policy`], a row of the table in [`policy`].

mod affordable;
pub mod halving;
pub mod policy;
pub mod shuffle;

pub use affordable::Affordable;
pub use policy::{Leave, Order, Policy, WarmUp};

use crate::clock;
use crate::failure::Failure;
use crate::notice::{Notice, NoticeId};
use crate::progress::Observer;
use crate::repeat::{Stop, StopRule};
use crate::samples::{self, Sample};
use crate::stats::Better;
use shuffle::Shuffler;
use std::time::{Duration, Instant};

/// The time and the number of samples of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// When the run started; what was spent on setting up counts.
    pub started: Instant,
    /// Time for everything.
    pub budget: Duration,
    /// Exactly this many samples of each cell behind the warm-up, whatever the time.
    pub samples: Option<usize>,
    /// Time that checking and ending will take.
    pub reserve: Duration,
    /// Whether the user asked for the budget: what cannot keep it is refused then.
    pub asked: bool,
}

impl Limits {
    /// Limits that begin now.
    pub fn new(budget: Duration, samples: Option<usize>) -> Self {
        let (started, reserve) = (clock::now(), Duration::ZERO);
        Self { started, budget, samples, reserve, asked: false }
    }

    /// Time that is spent.
    pub fn elapsed(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    /// By how much a run may miss its budget: a tenth, and a second where that is more.
    pub fn grace(&self) -> Duration {
        self.budget.div_f64(10.0).max(Duration::from_secs(1))
    }

    /// What to say when everything took longer than that, of which setting up took `setting_up`; `None`
    /// when it did not, or a number of samples decided.
    pub fn overrun(&self, gauge: &str, setting_up: Duration) -> Option<Notice> {
        let took = self.elapsed();
        (self.samples.is_none() && took > self.budget + self.grace()).then(|| {
            let text = format!(
                "took {:.1} s instead of {:.1}, of which setting up took {:.1}: the least that works here is \
                 --budget {:.0}",
                took.as_secs_f64(),
                self.budget.as_secs_f64(),
                setting_up.as_secs_f64(),
                took.as_secs_f64().ceil()
            );
            Notice::new(NoticeId::Budget, gauge, text)
        })
    }

    /// What to say beforehand of a run that takes `least` from its start on: nothing where the budget
    /// suffices.
    ///
    /// # Errors
    /// Where it does not, and the user asked for it: the least that works.
    pub fn beforehand(&self, least: Duration) -> Result<String, Failure> {
        if self.samples.is_some() || least <= self.budget + self.grace() {
            return Ok(String::new());
        }
        let (budget, least) = (self.budget.as_secs_f64(), least.as_secs_f64());
        match self.asked {
            // What was foreseen may take a tenth more.
            true => Err(Failure::usage(format!(
                "--budget {budget} is too short: this takes {least:.1} s at least"
            ))
            .hint(format!(
                "give --budget {:.0}, smaller arrays (--size), or ask for less at once",
                (1.1 * least).ceil(),
            ))),
            false => Ok(format!(": takes {:.0} s at least", least.ceil())),
        }
    }

    /// The time at which the share `share` (0 to 1) of the budget is spent.
    pub fn at(&self, share: f64) -> Instant {
        self.started + self.budget.mul_f64(share)
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The cell.
    pub cell: usize,
    /// Rounds that are over.
    pub round: usize,
    /// Samples that are still to be taken of the cell, the warm-up not among them; `None` where no
    /// number was asked for.
    pub due: Option<usize>,
}

/// What the user is told of the latest samples, in words.
pub type Latest<'a> = &'a dyn Fn(&[Vec<Sample>]) -> String;

/// Cells and their samples under one policy.
pub struct Schedule {
    policy: Policy,
    limits: Limits,
    /// By cell, in order of time; the first of each is the warm-up. Empty for a cell that was not
    /// reached.
    pub samples: Vec<Vec<Sample>>,
    active: Vec<usize>,
    shuffler: Shuffler,
}

impl Schedule {
    /// A schedule of `cells` cells.
    pub fn new(policy: Policy, limits: Limits, cells: usize) -> Self {
        Self {
            shuffler: Shuffler::new(policy.seed),
            policy,
            limits,
            samples: vec![Vec::new(); cells],
            active: (0..cells).collect(),
        }
    }

    /// Leaves a cell out from now on.
    pub fn leave_out(&mut self, cell: usize) {
        self.active.retain(|active| *active != cell);
    }

    /// Lets the cells have their turns until every figure is stable, the time is spent, the samples
    /// are taken, or the user ends it. `turn` measures; a turn that returns no sample although some
    /// are due makes the cell leave.
    ///
    /// # Errors
    /// The error of a turn; the samples until then stay.
    pub fn run<E>(
        &mut self,
        observer: &mut dyn Observer,
        latest: Option<Latest<'_>>,
        mut turn: impl FnMut(Turn) -> Result<Vec<Sample>, E>,
    ) -> Result<Stop, E> {
        let begun = clock::now();
        let elapsed = || clock::now().saturating_duration_since(begun);
        let rule = self.rule(begun);
        // Half of what a run may miss its budget by; the other half is for what nobody foresees.
        let end = rule.at_most + self.limits.grace() / 2;
        let time = rule.at_most.as_secs_f64().max(1e-3);
        let (mut round, mut last_round) = (0, Duration::ZERO);
        loop {
            let cells = self.round_order();
            if cells.is_empty() {
                return Ok(Stop::Stable);
            }
            let count = cells.len();
            let round_begun = elapsed();
            for (place, cell) in cells.into_iter().enumerate() {
                if observer.interrupted() {
                    return Ok(Stop::Interrupted);
                }
                let passes = self.passes(round);
                let late = self.policy.ends_within_round
                    && elapsed() >= rule.at_most
                    && passes >= self.policy.fewest;
                // One figure each is the least; the fewest that say something may take too long.
                if !self.exactly() && (late || (passes >= 1 && elapsed() > end)) {
                    return Ok(Stop::Budget);
                }
                if !self.active.contains(&cell) {
                    continue;
                }
                let due = self.due(cell);
                let taken = turn(Turn { cell, round, due })?;
                if taken.is_empty() && due != Some(0) {
                    self.leave_out(cell);
                }
                self.samples[cell].extend(taken);
                if self.policy.ends_within_round {
                    let warm_up = usize::from(self.policy.warm_up == WarmUp::Round);
                    let rounds = round as f64 + (place + 1) as f64 / count as f64;
                    let taken = self.limits.samples.map_or(0.0, |n| rounds / (n + warm_up) as f64);
                    let spent = if self.exactly() { 0.0 } else { elapsed().as_secs_f64() / time };
                    let words = latest.map_or_else(String::new, |of| of(&self.samples));
                    observer.progress(taken.max(spent).min(1.0), &words);
                }
            }
            round += 1;
            last_round = last_round.max(elapsed() - round_begun);
            let passes = self.passes(round);
            let late = (elapsed() >= rule.at_most && passes >= self.policy.fewest)
                || (elapsed() + last_round > end && passes >= 1);
            let asked = passes.is_multiple_of(self.policy.ask_every)
                || self.limits.samples.is_some_and(|n| self.taken() >= n);
            if !(late || asked) {
                continue;
            }
            let share = match self.limits.samples.or(self.policy.most) {
                Some(n) => self.taken() as f64 / n.max(1) as f64,
                None => elapsed().as_secs_f64() / time,
            };
            let words = latest.map_or_else(|| format!("round {round}"), |of| of(&self.samples));
            observer.progress(share.min(1.0), &words);
            if let Some(stop) = self.stop(&rule, elapsed(), late) {
                return Ok(stop);
            }
        }
    }

    /// Gives some cells `rounds` more turns, in their order.
    ///
    /// # Errors
    /// The error of a turn.
    pub fn again<E>(
        &mut self,
        cells: &[usize],
        rounds: usize,
        mut turn: impl FnMut(Turn) -> Result<Vec<Sample>, E>,
    ) -> Result<(), E> {
        for round in 0..rounds {
            for cell in cells {
                let taken = turn(Turn { cell: *cell, round, due: None })?;
                self.samples[*cell].extend(taken);
            }
        }
        Ok(())
    }

    /// Complete rounds without the warm-up, one sample of each cell: for ratios of neighbours in time.
    pub fn rounds(&self) -> Vec<Vec<Sample>> {
        let complete = self.samples.iter().map(Vec::len).min().unwrap_or(0);
        (self.warm_up()..complete)
            .map(|round| self.samples.iter().map(|cell| cell[round].clone()).collect())
            .collect()
    }

    /// The numbers of those rounds that nothing disturbed and that met the regime of most.
    pub fn clean_rounds(&self) -> Vec<usize> {
        samples::clean_numbers(&self.rounds(), &vec![true; self.samples.len()])
    }

    fn rule(&self, begun: Instant) -> StopRule {
        let last = self.limits.at(1.0).checked_sub(self.limits.reserve).unwrap_or(begun);
        let end = self.limits.at(self.policy.measure).min(last);
        let at_most = end.saturating_duration_since(begun);
        let whole = if self.policy.least_time_of_budget { self.limits.budget } else { at_most };
        StopRule {
            least: self.policy.least,
            exactly: self.limits.samples,
            at_least: whole.mul_f64(self.policy.least_time.0).min(self.policy.least_time.1),
            at_most,
            tolerance: self.policy.tolerance.unwrap_or(0.0),
        }
    }

    /// Rounds behind the warm-up.
    fn passes(&self, round: usize) -> usize {
        round.saturating_sub(usize::from(self.policy.warm_up == WarmUp::Round))
    }

    /// Whether the number of samples decides, and the time does not.
    fn exactly(&self) -> bool {
        self.limits.samples.is_some() && self.policy.samples_despite_time
    }

    /// Samples of a cell that are its warm-up.
    fn warm_up(&self) -> usize {
        usize::from(self.policy.warm_up != WarmUp::None)
    }

    /// Samples of a cell behind its warm-up, as far as they count.
    fn taken_of(&self, cell: usize) -> usize {
        match self.policy.tries {
            1 => self.samples[cell].len().saturating_sub(self.warm_up()),
            _ => self.clean_rounds().len(),
        }
    }

    /// The same of the cell that has fewest.
    fn taken(&self) -> usize {
        self.active.iter().map(|cell| self.taken_of(*cell)).min().unwrap_or(0)
    }

    fn due(&self, cell: usize) -> Option<usize> {
        self.limits.samples.map(|n| n.saturating_sub(self.taken_of(cell)))
    }

    /// The cells of the next round, in their order.
    fn round_order(&mut self) -> Vec<usize> {
        let mut order = self.active.clone();
        match self.policy.order {
            Order::AsGiven => order,
            Order::Shuffled => {
                self.shuffler.shuffle(&mut order);
                order
            }
            Order::ReferenceBeforeEach => {
                order.retain(|cell| *cell != 0);
                self.shuffler.shuffle(&mut order);
                match order.is_empty() {
                    true => self.active.clone(),
                    false => order.into_iter().flat_map(|cell| [0, cell]).collect(),
                }
            }
        }
    }

    fn stop(&mut self, rule: &StopRule, elapsed: Duration, late: bool) -> Option<Stop> {
        let tried =
            |n: usize| self.policy.tries > 1 && self.rounds().len() >= n * self.policy.tries;
        if self.limits.samples.is_some_and(|n| self.taken() >= n || tried(n)) {
            return Some(Stop::Samples);
        }
        if late && !self.exactly() {
            return Some(Stop::Budget);
        }
        if self.limits.samples.is_some() {
            return None;
        }
        if self.policy.most.is_some_and(|most| self.taken() >= most) {
            return Some(Stop::Stable);
        }
        self.policy.tolerance?;
        let is_stable = |cell: &usize| self.is_stable(rule, *cell, elapsed);
        match self.policy.leave {
            Leave::Together => self.active.iter().all(is_stable).then_some(Stop::Stable),
            Leave::OnceStable => {
                let stay: Vec<usize> =
                    self.active.iter().copied().filter(|cell| !is_stable(cell)).collect();
                self.active = stay;
                self.active.is_empty().then_some(Stop::Stable)
            }
        }
    }

    fn is_stable(&self, rule: &StopRule, cell: usize, elapsed: Duration) -> bool {
        let samples = &self.samples[cell];
        let sorted = samples::sort(samples);
        let Some(group) = sorted.headline() else { return false };
        let parts = samples.first().map_or(0, |sample| sample.seconds.len());
        let rates: Vec<Vec<f64>> =
            (0..parts).map(|part| group.values(samples, part, &|seconds| 1.0 / seconds)).collect();
        let slices: Vec<&[f64]> = rates.iter().map(Vec::as_slice).collect();
        rule.decide(&slices, elapsed, Better::Higher) == Some(Stop::Stable)
    }
}

/// Measures until nothing interfered, `tries` times at most; the last try stands, disturbed or not.
/// What interferes with milliseconds is mostly gone after some more.
///
/// # Errors
/// The error of a try.
pub fn undisturbed<T, E>(
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
