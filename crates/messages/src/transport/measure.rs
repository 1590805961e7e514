//! Timing of one size, as in the MPI probe (probes/messages_measure.h), so that the figures are comparable. If two
//! routes are possible, a trial times both interleaved, and the faster route is measured.

use super::{RankJob, SizeOrder};
use crate::job::protocol::{MAX_LOST_SHARE, SizeEnd};
use nodegauge_exchange::{Participant, Route};
use nodegauge_measure::interference::ThreadCounts;
use nodegauge_measure::stats::{self, BetterDirection, Summary};
use std::fmt::Write;
use std::io;
use std::time::Instant;

/// Duration of a batch, seconds; reading the clock takes less than a thousandth of this time.
const BATCH: f64 = 200e-6;
/// Number of batches in a group; the cores are checked after each group.
const GROUP: usize = 5;
const MIN_SAMPLES: usize = 20;
const MAX_SAMPLES: usize = 60;
/// Maximum relative width of the median's confidence interval at which the measurement of a size ends: half a percent
/// above and below the median.
const STABLE: f64 = 0.01;
/// Number of batches of each route in a trial.
const TRIAL: usize = 3;

/// Number of operations per batch, and number of batches between two readings of the clock.
#[derive(Debug, Clone, Copy)]
struct Plan {
    operations: u64,
    group: usize,
    /// Seconds per operation at the end of the warm-up.
    seconds: f64,
}

/// Measures one size. Only the first rank appends its results to `output`.
pub(super) fn measure_size(
    participant: &mut Participant<'_, '_>,
    order: &RankJob,
    (bytes, warm_up, fixed): SizeOrder,
    output: &mut String,
) -> io::Result<()> {
    participant.resize(bytes as usize);
    let mut timing = Timing { participant, order, warm_up, fixed };
    let plan = timing.choose_route(bytes as usize, output)?;
    let why = timing.batches(plan, output)?;
    if order.validation_rounds > 0 {
        let wrong = timing.participant.validate(order.validation_rounds)?;
        let all =
            timing.agree(&[wrong as f64], |all| vec![all.iter().map(|values| values[0]).sum()]);
        timing.say(output, &format!("wrong {}\n", all[0]));
    }
    timing.say(output, &format!("done {why}\n"));
    Ok(())
}

struct Timing<'a, 'b, 'c> {
    participant: &'a mut Participant<'b, 'c>,
    order: &'a RankJob,
    warm_up: u64,
    /// Number of timed operations; 0 if it is not fixed.
    fixed: u64,
}

impl Timing<'_, '_, '_> {
    /// Shares `values` with all ranks. The first rank computes the answer from the values of all ranks, and every rank
    /// returns this answer.
    fn agree(&self, values: &[f64], answer: impl FnOnce(&[Vec<f64>]) -> Vec<f64>) -> Vec<f64> {
        let Participant { segment, rank, members, .. } = &self.participant;
        segment.combine_numbers(*rank, members, values, answer)
    }

    fn say(&self, output: &mut String, words: &str) {
        if self.participant.is_first() {
            output.push_str(words);
        }
    }

    /// Warms up every route and selects the route with the shortest batch.
    fn choose_route(&mut self, bytes: usize, output: &mut String) -> io::Result<Plan> {
        let mut plans: Vec<(Route, Plan)> = Vec::new();
        for route in self.participant.link.routes(bytes) {
            self.participant.link.set_route(route);
            plans.push((route, self.warm_up()?));
        }
        let mut best: Vec<f64> = plans.iter().map(|(_, plan)| plan.seconds).collect();
        // For long operations the warm-up alone is sufficient.
        let quick = plans.len() > 1 && plans.iter().all(|(_, plan)| plan.group > 1);
        for _ in 0..if quick { TRIAL } else { 0 } {
            for ((route, plan), shortest) in plans.iter().zip(&mut best) {
                self.participant.link.set_route(*route);
                *shortest =
                    shortest.min(self.participant.run(plan.operations)? / plan.operations as f64);
            }
        }
        let answer = self.agree(&best, |all| {
            let min = (0..plans.len())
                .min_by(|a, b| sum_over_ranks(all, *a).total_cmp(&sum_over_ranks(all, *b)));
            vec![min.unwrap_or(0) as f64]
        });
        let (route, plan) = plans[answer[0] as usize];
        self.participant.link.set_route(route);
        self.say(output, &format!("route {route}\n"));
        Ok(plan)
    }

    /// Runs warm-up operations, doubling their number each time, so that a slow machine does not exceed its share of
    /// the time limit.
    fn warm_up(&mut self) -> io::Result<Plan> {
        let limit = self.order.limit_s;
        let mut done = 0;
        let mut piece = 1;
        let start = Instant::now();
        loop {
            let begun = Instant::now();
            self.participant.run(piece)?;
            let one = (begun.elapsed().as_secs_f64() / piece as f64).max(1e-9);
            done += piece;
            let enough = done >= self.warm_up || start.elapsed().as_secs_f64() > limit / 4.0;
            let mut operations = (BATCH / one) as u64 + 1;
            // A batch takes at most an eighth of the time limit.
            while operations > 1 && operations as f64 * one > limit / 8.0 {
                operations /= 2;
            }
            let slow = operations as f64 * one > limit / 8.0;
            let own = [f64::from(u8::from(enough)), operations as f64, f64::from(u8::from(slow))];
            let answer = self.agree(&[], |_| own.to_vec());
            if answer[0] > 0.0 {
                let count =
                    (answer[1] as u64).min(self.fixed.checked_sub(1).map_or(u64::MAX, |n| n + 1));
                let group = if answer[2] > 0.0 { 1 } else { GROUP };
                return Ok(Plan { operations: count, group, seconds: one });
            }
            piece = if done + 2 * piece <= self.warm_up { 2 * piece } else { piece };
        }
    }

    /// Measures batches until the median is stable, the number of batches is reached, or the time limit ends. Returns
    /// the reason for the end.
    fn batches(&mut self, plan: Plan, output: &mut String) -> io::Result<SizeEnd> {
        let pairs = self.participant.pairs();
        let mut left = self.fixed;
        let mut have = 0;
        let mut clean = Vec::new();
        let started = Instant::now();
        loop {
            let mut n = plan.operations;
            let mut batches = plan.group;
            if let Some(asked) = self.order.samples {
                batches = batches.min(asked as usize - have);
            }
            if self.fixed > 0 {
                (n, batches) =
                    if left < n { (left, 1) } else { (n, batches.min((left / n) as usize)) };
            }
            let before = self.participant.round_trip()?;
            let values: Vec<[f64; 2]> =
                (0..batches).map(|_| self.batch(n)).collect::<Result<_, _>>()?;
            let after = self.participant.round_trip()?;
            left -= left.min(batches as u64 * n);
            have += batches;
            let order = self.order;
            let fixed = self.fixed;
            let answer = self.agree(values.as_flattened(), |all| {
                let mut lines = format!("batch {n} {before:.3e} {after:.3e}");
                let mut losses = "\nlost".to_owned();
                for at in 0..batches {
                    let seconds = sum_over_ranks(all, 2 * at) / pairs as f64;
                    let lost = all.iter().map(|of_rank| of_rank[2 * at + 1]).fold(0.0, f64::max);
                    // Writing to a string does not fail.
                    let _ = write!(lines, " {seconds:.5e}");
                    let _ = write!(losses, " {lost:.3}");
                    if lost <= MAX_LOST_SHARE && clean.len() < MAX_SAMPLES {
                        clean.push(seconds);
                    }
                }
                output.push_str(&(lines + &losses + "\n"));
                let enough = match (fixed, order.samples) {
                    (1.., _) => (left == 0).then_some(SizeEnd::Samples),
                    (0, Some(asked)) => (have >= asked as usize).then_some(SizeEnd::Samples),
                    (0, None) if is_stable(&clean) => Some(SizeEnd::Stable),
                    _ => (clean.len() >= MAX_SAMPLES).then_some(SizeEnd::Samples),
                };
                let late = started.elapsed().as_secs_f64() >= order.limit_s;
                let why = enough.or(late.then_some(SizeEnd::Limit));
                vec![why.map_or(0.0, |why| 1.0 + why as usize as f64)]
            });
            if let Some(why) = (answer[0] as usize).checked_sub(1) {
                return Ok(SizeEnd::ALL[why]);
            }
        }
    }

    /// Returns this rank's seconds per operation, and the share of the time in which other programs used its
    /// core.
    fn batch(&mut self, n: u64) -> io::Result<[f64; 2]> {
        let counts = ThreadCounts::now();
        let start = Instant::now();
        let seconds = self.participant.run(n)?;
        let wall = start.elapsed().as_secs_f64();
        let had = ThreadCounts::now() - counts;
        let off = (wall - had.cpu_nanos as f64 * 1e-9).max(0.0);
        Ok([seconds / n as f64, if had.involuntary_switches > 0 { off / wall } else { 0.0 }])
    }
}

/// True if the uncertainty of the median is at most half a percent.
fn is_stable(samples: &[f64]) -> bool {
    let summary = Summary::from_samples(samples, BetterDirection::Lower)
        .filter(|_| samples.len() >= MIN_SAMPLES);
    let interval = summary.and_then(|summary| summary.ci95);
    interval.is_some_and(|[low, high]| high - low <= STABLE * stats::median(samples))
}

/// Returns the sum of one number over all ranks.
fn sum_over_ranks(all: &[Vec<f64>], at: usize) -> f64 {
    all.iter().map(|of_rank| of_rank[at]).sum()
}
