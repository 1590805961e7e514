//! From timed samples to figures: which samples count, which regime each is of, and what they say.
//!
//! The only place that sorts samples into counted, disturbed and regimes. Pure: no clock, no kernel.

mod one_regime;

pub use one_regime::OneRegime;

use crate::interference::Cause;
use crate::regime::{self, Regime};
use crate::stats;
use std::collections::BTreeMap;

/// Fewer samples than this in a regime say nothing of it.
pub const LEAST_IN_REGIME: usize = 3;
/// A regime met for a smaller share of the samples does not give the headline.
const LEAST_SHARE: f64 = 0.1;
/// More disturbed samples than this share of all make a figure suspect.
pub const DISTURBED_TOO_MANY: f64 = 0.5;

/// One turn of a cell: the times of its parts, e.g. of each kernel of a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Time of each part, seconds: from the first thread's start to the last thread's end.
    pub seconds: Vec<f64>,
    /// Core-to-core round trip before and after, seconds; NaN where it was not measured.
    pub round_trips: (f64, f64),
    /// Why it does not count; empty when it does.
    pub causes: Vec<Cause>,
    /// Time of each part in each of several processes, seconds; empty for one process.
    pub each: Vec<Vec<f64>>,
}

impl Sample {
    /// A sample of which nothing but times is known.
    pub fn of_times(seconds: Vec<f64>) -> Self {
        Self { seconds, round_trips: (f64::NAN, f64::NAN), causes: Vec::new(), each: Vec::new() }
    }
}

/// Samples sorted into those of each regime and those that do not count.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// Indices of the samples of each regime with its round trips, the fastest regime first.
    pub groups: Vec<RegimeGroup>,
    /// Indices of the samples that do not count, with the causes.
    pub disturbed: Vec<(usize, Vec<Cause>)>,
    /// Whether disturbed samples had to be counted because nearly all were disturbed.
    pub desperate: bool,
}

/// Samples of one regime.
#[derive(Debug, Clone)]
pub struct RegimeGroup {
    /// Indices into the samples, in order of time.
    pub passes: Vec<usize>,
    /// Median round trip, seconds; NaN where it was not measured.
    pub round_trip: f64,
    /// Index among the regimes that were found; `None` where there are none.
    pub regime: Option<usize>,
}

/// What is known of samples beyond themselves.
#[derive(Debug, Clone, Copy)]
pub struct Sorting<'a> {
    /// Samples at the beginning that are the warm-up.
    pub warm_up: usize,
    /// With fewer clean samples than this, disturbed ones count as well.
    pub least: usize,
    /// The regimes of all that was measured together with these samples; `None` for their own.
    pub regimes: Option<&'a [Regime]>,
}

/// Sorts `samples`, of which the first is the warm-up.
pub fn sort(samples: &[Sample]) -> Sorted {
    sort_with(samples, Sorting { warm_up: 1, least: LEAST_IN_REGIME, regimes: None })
}

/// Sorts `samples`, of which the first is the warm-up, with round trips of other runs between the same
/// CPUs.
pub fn sort_beside(samples: &[Sample], known: &[f64]) -> Sorted {
    let measured = samples.iter().skip(1);
    let trips: Vec<f64> =
        measured.flat_map(|sample| [sample.round_trips.0, sample.round_trips.1]).collect();
    let regimes = (!known.is_empty()).then(|| regime::among(&trips, known));
    let regimes = regimes.as_deref();
    sort_with(samples, Sorting { warm_up: 1, least: LEAST_IN_REGIME, regimes })
}

/// Sorts `samples` with what else is known of them.
pub fn sort_with(samples: &[Sample], known: Sorting<'_>) -> Sorted {
    let Sorting { warm_up, least, regimes } = known;
    let mut disturbed: Vec<(usize, Vec<Cause>)> = Vec::new();
    let mut clean = Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        if i < warm_up {
            disturbed.push((i, vec![Cause::WarmUp]));
        } else if sample.causes.is_empty() {
            clean.push(i);
        } else {
            disturbed.push((i, sample.causes.clone()));
        }
    }
    // A machine so busy that almost nothing is clean still gets an answer, marked as suspect.
    let desperate = clean.len() < least && clean.len() + warm_up < samples.len();
    if desperate {
        disturbed.truncate(warm_up);
        clean = (warm_up..samples.len()).collect();
    }
    let trips: Vec<f64> =
        clean.iter().flat_map(|i| [samples[*i].round_trips.0, samples[*i].round_trips.1]).collect();
    let found = regimes.map_or_else(|| regime::regimes(&trips), <[Regime]>::to_vec);
    // Round trips of which no two are alike tell no regimes: such samples are pooled and suspect.
    let scattered = found.is_empty() && trips.iter().any(|trip| trip.is_finite());
    let mut groups: Vec<RegimeGroup> = if found.is_empty() {
        vec![RegimeGroup { passes: clean, round_trip: f64::NAN, regime: None }]
    } else {
        by_regime(samples, &clean, &found, &mut disturbed)
    };
    groups.retain(|group| !group.passes.is_empty());
    if groups.is_empty() && samples.len() > warm_up {
        // The CPUs were moved in every single sample: an answer of mixed regimes, marked as suspect.
        disturbed.truncate(warm_up);
        let passes = (warm_up..samples.len()).collect();
        groups.push(RegimeGroup { passes, round_trip: f64::NAN, regime: None });
        return Sorted { groups, disturbed, desperate: true };
    }
    let speed = |group: &RegimeGroup| {
        let medians: Vec<f64> = (0..samples[0].seconds.len())
            .map(|part| {
                let rates: Vec<f64> =
                    group.passes.iter().map(|i| 1.0 / samples[*i].seconds[part]).collect();
                stats::median(&rates)
            })
            .collect();
        stats::geometric_mean(&medians)
    };
    groups.sort_by(|x, y| speed(y).total_cmp(&speed(x)));
    disturbed.sort_by_key(|(i, _)| *i);
    Sorted { groups, disturbed, desperate: desperate || scattered }
}

fn by_regime(
    samples: &[Sample],
    clean: &[usize],
    found: &[Regime],
    disturbed: &mut Vec<(usize, Vec<Cause>)>,
) -> Vec<RegimeGroup> {
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
    for i in clean {
        let (before, after) = samples[*i].round_trips;
        match regime::assign(found, before, after) {
            Some(regime) => groups[regime].push(*i),
            None => disturbed.push((*i, vec![Cause::Moved])),
        }
    }
    groups
        .into_iter()
        .enumerate()
        .map(|(regime, passes)| {
            let trips: Vec<f64> = passes
                .iter()
                .flat_map(|i| [samples[*i].round_trips.0, samples[*i].round_trips.1])
                .collect();
            RegimeGroup { passes, round_trip: stats::median(&trips), regime: Some(regime) }
        })
        .collect()
}

impl Sorted {
    /// Samples that count, in all regimes.
    pub fn counted(&self) -> usize {
        self.groups.iter().map(|group| group.passes.len()).sum()
    }

    /// Samples that something interfered with; the warm-up is none of them.
    pub fn disturbances(&self) -> usize {
        self.disturbed.iter().filter(|(_, causes)| !causes.contains(&Cause::WarmUp)).count()
    }

    /// The regime that gives the headline: the fastest that was met often enough, else the one met
    /// most.
    pub fn headline(&self) -> Option<&RegimeGroup> {
        let enough = |group: &&RegimeGroup| {
            group.passes.len() >= LEAST_IN_REGIME
                && group.passes.len() as f64 >= LEAST_SHARE * self.counted() as f64
        };
        self.groups
            .iter()
            .find(enough)
            .or_else(|| self.groups.iter().max_by_key(|group| group.passes.len()))
    }

    /// Rates of part number `part` in a group: `counted` units of work over each time.
    pub fn rates(samples: &[Sample], group: &RegimeGroup, part: usize, counted: f64) -> Vec<f64> {
        group.passes.iter().map(|i| counted / samples[*i].seconds[part]).collect()
    }

    /// Why disturbances make a figure suspect; `what` are `passes`, `samples` or `rounds`.
    pub fn doubt(&self, what: Plural) -> Option<String> {
        let Plural { one, several } = what;
        let (counted, disturbed) = (self.counted(), self.disturbances());
        if self.desperate {
            return Some(format!("nearly every {one} was disturbed, so disturbed ones count too"));
        }
        let all = counted + disturbed;
        (disturbed as f64 > DISTURBED_TOO_MANY * all as f64)
            .then(|| format!("{disturbed} of {all} {several} were disturbed"))
    }
}

/// What samples are called in a message.
#[derive(Debug, Clone, Copy)]
pub struct Plural {
    /// `pass`
    pub one: &'static str,
    /// `passes`
    pub several: &'static str,
}

/// `pass`, `passes`.
pub const PASSES: Plural = Plural { one: "pass", several: "passes" };
/// `sample`, `samples`.
pub const SAMPLES: Plural = Plural { one: "sample", several: "samples" };

/// The clean rounds by [`clean_numbers`]; `None` when fewer than `fewest` are left.
pub fn clean_rounds<'a>(
    rounds: &'a [Vec<Sample>],
    watched: &[bool],
    fewest: usize,
) -> Option<Vec<&'a [Sample]>> {
    let clean = clean_numbers(rounds, watched);
    (clean.len() >= fewest).then(|| clean.into_iter().map(|at| &rounds[at][..]).collect())
}

/// The numbers of the rounds (one sample of each cell) in which nothing interfered with a watched cell
/// and all watched cells saw one regime: of several regimes, the one that most rounds saw.
///
/// Cells that are not watched, such as unbound threads that share a CPU or wander, are left out of
/// the question.
pub fn clean_numbers(rounds: &[Vec<Sample>], watched: &[bool]) -> Vec<usize> {
    let of_watched = |at: usize| {
        rounds[at].iter().zip(watched).filter(|(_, watched)| **watched).map(|(sample, _)| sample)
    };
    let trips: Vec<f64> = (0..rounds.len())
        .flat_map(of_watched)
        .flat_map(|sample| [sample.round_trips.0, sample.round_trips.1])
        .filter(|trip| trip.is_finite())
        .collect();
    let regimes = regime::regimes(&trips);
    let regime_of = |round: usize| -> Option<usize> {
        if trips.is_empty() {
            return Some(0);
        }
        let mut seen = of_watched(round)
            .map(|sample| regime::assign(&regimes, sample.round_trips.0, sample.round_trips.1));
        let first = seen.next()??;
        seen.all(|regime| regime == Some(first)).then_some(first)
    };
    let mut by_regime: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for round in 0..rounds.len() {
        let quiet = of_watched(round).all(|sample| sample.causes.is_empty());
        if let (true, Some(regime)) = (quiet, regime_of(round)) {
            by_regime.entry(regime).or_default().push(round);
        }
    }
    by_regime.into_values().max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Better;

    fn sample(seconds: f64, before: f64, after: f64, causes: Vec<Cause>) -> Sample {
        Sample { seconds: vec![seconds], round_trips: (before, after), causes, each: Vec::new() }
    }

    #[test]
    fn regimes_are_never_pooled_and_the_faster_gives_the_headline() {
        let (near, far) = (115e-9, 390e-9);
        let mut samples = vec![sample(9.0, far, far, vec![])];
        for _ in 0..6 {
            samples.push(sample(2.0, near, near, vec![]));
            samples.push(sample(1.0, far, far, vec![]));
        }
        samples.push(sample(1.5, near, far, vec![]));
        samples.push(sample(5.0, far, far, vec![Cause::Faults(99)]));
        let sorted = sort(&samples);
        assert_eq!(sorted.groups.len(), 2);
        let headline = sorted.headline().unwrap();
        assert_eq!(Sorted::rates(&samples, headline, 0, 10.0), [10.0; 6]);
        let why: Vec<usize> = sorted.disturbed.iter().map(|(i, _)| *i).collect();
        assert_eq!(why, [0, 13, 14]);
        let regimes = sorted.regimes(&samples, 0, Better::Higher, &|seconds| 10.0 / seconds);
        assert!((regimes[0].share - 0.5).abs() < 1e-9 && regimes[1].summary.best == 5.0);
    }

    #[test]
    fn a_fast_regime_seen_once_gives_no_headline() {
        let mut samples = vec![sample(2.0, 115e-9, 115e-9, vec![]); 30];
        samples.push(sample(1.0, 390e-9, 390e-9, vec![]));
        let sorted = sort(&samples);
        assert_eq!(sorted.headline().unwrap().passes.len(), 29);
    }

    #[test]
    fn a_single_thread_has_one_group() {
        let samples = vec![sample(1.0, f64::NAN, f64::NAN, vec![]); 5];
        let sorted = sort(&samples);
        assert_eq!((sorted.groups.len(), sorted.counted()), (1, 4));
        assert!(sorted.regimes(&samples, 0, Better::Lower, &|seconds| seconds).is_empty());
    }

    #[test]
    fn when_the_cpus_move_in_every_pass_there_is_still_an_answer() {
        let samples = vec![sample(1.0, 1e-7, 4e-7, vec![]); 4];
        let sorted = sort(&samples);
        assert!(sorted.desperate);
        assert_eq!(sorted.headline().unwrap().passes, [1, 2, 3]);
    }

    #[test]
    fn when_all_is_disturbed_all_counts_and_it_is_said() {
        let samples = vec![sample(1.0, 1e-7, 1e-7, vec![Cause::Stolen { ticks: 1 }]); 20];
        let sorted = sort(&samples);
        assert!(sorted.desperate);
        assert_eq!(sorted.counted(), 19);
    }

    #[test]
    fn a_round_counts_when_all_its_bound_steps_saw_one_regime_in_peace() {
        let sample = |trip, causes| super::tests::sample(1.0, trip, trip, causes);
        let (near, far, none) = (90e-9, 380e-9, f64::NAN);
        let preempted = || vec![Cause::Faults(99)];
        let round = |first: Vec<Cause>, trips: [f64; 2]| {
            vec![sample(none, first), sample(trips[0], vec![]), sample(trips[1], vec![])]
        };
        let mut rounds = vec![round(preempted(), [near, near]); 4];
        rounds.extend(vec![round(vec![], [near, far]); 3]);
        rounds.extend(vec![round(vec![], [far, far]); 2]);
        rounds[0][1].causes = preempted();
        let counted = clean_rounds(&rounds, &[false, true, true], 3).unwrap();
        let same = |(x, y): (&&[Sample], &Vec<Sample>)| std::ptr::eq(x.as_ptr(), y.as_ptr());
        assert!(counted.len() == 3 && counted.iter().zip(&rounds[1..4]).all(same));
        assert!(clean_rounds(&rounds[..3], &[false, true, true], 3).is_none());
    }
}
