//! From timed samples to figures: which samples count, part by part, and which regime each is of.
//!
//! The only place that sorts samples into counted, disturbed and regimes. Pure: no clock, no kernel.

mod one_regime;

pub use one_regime::OneRegime;

use crate::clock;
use crate::interference::Cause;
use crate::regime::{self, Regime};
use crate::stats::{self, Better};
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
    /// When it was over, seconds of [`clock::since_start`].
    pub at: f64,
    /// Core-to-core round trip before and after, seconds; NaN where it was not measured.
    pub round_trips: (f64, f64),
    /// What interfered with all of it, or with nobody knows which part; empty when nothing did.
    pub causes: Vec<Cause>,
    /// What interfered with each part alone; empty where parts are not watched one by one.
    pub part_causes: Vec<Vec<Cause>>,
    /// Time of each part in each of several processes, seconds; empty for one process.
    pub each: Vec<Vec<f64>>,
}

impl Sample {
    /// A sample, over now, of which nothing but times is known.
    pub fn of_times(seconds: Vec<f64>) -> Self {
        Self {
            seconds,
            at: clock::since_start(),
            round_trips: (f64::NAN, f64::NAN),
            causes: Vec::new(),
            part_causes: Vec::new(),
            each: Vec::new(),
        }
    }

    /// What interfered with a part.
    pub fn causes_of(&self, part: usize) -> impl Iterator<Item = &Cause> {
        self.causes.iter().chain(self.part_causes.get(part).into_iter().flatten())
    }

    /// Whether nothing interfered with any part.
    pub fn is_clean(&self) -> bool {
        self.causes.is_empty() && self.part_causes.iter().all(Vec::is_empty)
    }
}

/// Samples sorted into those of each regime and those of none.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// The samples of each regime, the fastest regime first.
    pub groups: Vec<RegimeGroup>,
    /// Indices of the samples that are of no regime, with the causes: the warm-up, and those in which
    /// the CPUs were moved.
    pub set_aside: Vec<(usize, Vec<Cause>)>,
    /// Why the groups are of no regime that could be told; `None` where they are.
    pub unsettled: Option<Unsettled>,
}

/// Why samples are of no regime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsettled {
    /// Round trips before and after each sample are of different regimes.
    Changed,
    /// No two round trips are alike.
    Scattered,
}

/// Samples of one regime.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegimeGroup {
    /// Indices into the samples, in order of time. All of them count for the best: whatever interferes
    /// makes a sample slower.
    pub all: Vec<usize>,
    /// For each part those with which nothing interfered, which count for everything else; all of them
    /// where fewer than are needed are left.
    pub parts: Vec<Vec<usize>>,
    /// Median round trip, seconds; NaN where it was not measured.
    pub round_trip: f64,
    /// Index among the regimes that were found; `None` where there are none.
    pub regime: Option<usize>,
}

impl RegimeGroup {
    /// The samples `all` of a regime.
    fn new(samples: &[Sample], all: Vec<usize>, least: usize, regime: Option<usize>) -> Self {
        let parts = samples.first().map_or(0, |sample| sample.seconds.len());
        let clean = |part: usize| {
            let clean = |i: &&usize| samples[**i].causes_of(part).next().is_none();
            let clean: Vec<usize> = all.iter().filter(clean).copied().collect();
            // A machine so busy that almost nothing is clean still gets an answer, marked as suspect.
            if clean.len() < least { all.clone() } else { clean }
        };
        let trips: Vec<f64> = all
            .iter()
            .flat_map(|i| [samples[*i].round_trips.0, samples[*i].round_trips.1])
            .filter(|_| regime.is_some())
            .collect();
        Self {
            parts: (0..parts).map(clean).collect(),
            all,
            round_trip: stats::median(&trips),
            regime,
        }
    }

    /// The samples that count for a part.
    pub fn counted(&self, part: usize) -> &[usize] {
        &self.parts[part]
    }

    /// Values of the samples that count for a part, each of its seconds made a value.
    pub fn values(
        &self,
        samples: &[Sample],
        part: usize,
        value_of: &dyn Fn(f64) -> f64,
    ) -> Vec<f64> {
        self.counted(part).iter().map(|i| value_of(samples[*i].seconds[part])).collect()
    }

    /// The best value of a part, disturbed samples among them.
    pub fn best(
        &self,
        samples: &[Sample],
        part: usize,
        better: Better,
        value_of: &dyn Fn(f64) -> f64,
    ) -> f64 {
        let values = self.all.iter().map(|i| value_of(samples[*i].seconds[part]));
        match better {
            Better::Higher => values.fold(f64::NEG_INFINITY, f64::max),
            Better::Lower => values.fold(f64::INFINITY, f64::min),
        }
    }

    /// How many samples of a part are disturbed, and whether they count for lack of others.
    pub fn disturbed(&self, samples: &[Sample], part: usize) -> (usize, bool) {
        let disturbed = |i: &&usize| samples[**i].causes_of(part).next().is_some();
        let disturbed = self.all.iter().filter(disturbed).count();
        (disturbed, disturbed > 0 && self.counted(part).len() == self.all.len())
    }
}

/// What is known of samples beyond themselves.
#[derive(Debug, Clone, Copy)]
pub struct Sorting<'a> {
    /// Samples at the beginning that are the warm-up.
    pub warm_up: usize,
    /// With fewer clean samples of a part than this in a regime, disturbed ones count as well.
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
    let warm_up = warm_up.min(samples.len());
    let mut set_aside: Vec<(usize, Vec<Cause>)> =
        (0..warm_up).map(|i| (i, vec![Cause::WarmUp])).collect();
    let after = warm_up..samples.len();
    let trips = |of: &dyn Fn(&Sample) -> bool| -> Vec<f64> {
        let samples = samples[warm_up..].iter().filter(|sample| of(sample));
        samples.flat_map(|sample| [sample.round_trips.0, sample.round_trips.1]).collect()
    };
    // What disturbs a pass may disturb the round trips beside it.
    let clean = trips(&Sample::is_clean);
    let trips = if clean.len() < 2 * least { trips(&|_| true) } else { clean };
    let found = regimes.map_or_else(|| regime::regimes(&trips), <[Regime]>::to_vec);
    // Round trips of which no two are alike tell no regimes: such samples are pooled and suspect.
    let scattered = found.is_empty() && trips.iter().any(|trip| trip.is_finite());
    let mut groups: Vec<RegimeGroup> = if found.is_empty() {
        vec![RegimeGroup::new(samples, after.clone().collect(), least, None)]
    } else {
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); found.len()];
        for i in after.clone() {
            let (before, after) = samples[i].round_trips;
            match regime::assign(&found, before, after) {
                Some(regime) => groups[regime].push(i),
                None => {
                    let causes = samples[i].causes.iter().cloned();
                    set_aside.push((i, causes.chain([Cause::Moved]).collect()));
                }
            }
        }
        let group = |(regime, all)| RegimeGroup::new(samples, all, least, Some(regime));
        groups.into_iter().enumerate().map(group).collect()
    };
    groups.retain(|group| !group.all.is_empty());
    let moved = groups.is_empty() && !after.is_empty();
    if moved {
        // The regime changed in every single sample: an answer of mixed regimes, marked as suspect.
        set_aside.truncate(warm_up);
        groups.push(RegimeGroup::new(samples, after.collect(), least, None));
    }
    let speed = |group: &RegimeGroup| {
        let rate = |part| stats::median(&group.values(samples, part, &|seconds| 1.0 / seconds));
        let medians: Vec<f64> = (0..group.parts.len()).map(rate).collect();
        stats::geometric_mean(&medians)
    };
    groups.sort_by(|x, y| speed(y).total_cmp(&speed(x)));
    let changed = moved.then_some(Unsettled::Changed);
    Sorted { groups, set_aside, unsettled: changed.or(scattered.then_some(Unsettled::Scattered)) }
}

impl Sorted {
    /// Samples of all regimes.
    pub fn in_regimes(&self) -> usize {
        self.groups.iter().map(|group| group.all.len()).sum()
    }

    /// The regime that gives the headline: the fastest that was met often enough, else the one met
    /// most.
    pub fn headline(&self) -> Option<&RegimeGroup> {
        let enough = |group: &&RegimeGroup| {
            group.all.len() >= LEAST_IN_REGIME
                && group.all.len() as f64 >= LEAST_SHARE * self.in_regimes() as f64
        };
        let most = || self.groups.iter().max_by_key(|group| group.all.len());
        self.groups.iter().find(enough).or_else(most)
    }

    /// Why disturbances make the figure of a part suspect; `group` is the regime of the figure, and
    /// `what` are `passes` or `samples`. Nothing but the hypervisor of a `guest` moves CPUs.
    pub fn doubt(
        &self,
        samples: &[Sample],
        group: &RegimeGroup,
        part: usize,
        (what, guest): (Plural, bool),
    ) -> Option<String> {
        let Plural { one, several } = what;
        let (disturbed, for_lack) = group.disturbed(samples, part);
        if let Some(unsettled) = self.unsettled {
            let why = match (unsettled, guest) {
                (Unsettled::Changed, true) => {
                    format!("the hypervisor moved the cpus in every {one}")
                }
                (Unsettled::Changed, false) => {
                    format!("the clock of the caches, or that of the cores, changed in every {one}")
                }
                (Unsettled::Scattered, _) => {
                    "no two round trips of a cache line between the cpus agree".to_owned()
                }
            };
            return Some(format!("{why}: {several} of different regimes are pooled"));
        }
        if for_lack {
            let all = group.all.len();
            return Some(format!(
                "{disturbed} of {all} {several} were disturbed, so disturbed ones count too"
            ));
        }
        let moved = self.set_aside.iter().filter(|(_, causes)| causes.contains(&Cause::Moved));
        let disturbed = disturbed + moved.count();
        let all = group.counted(part).len() + disturbed;
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
        let quiet = of_watched(round).all(Sample::is_clean);
        if let (true, Some(regime)) = (quiet, regime_of(round)) {
            by_regime.entry(regime).or_default().push(round);
        }
    }
    by_regime.into_values().max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests;
