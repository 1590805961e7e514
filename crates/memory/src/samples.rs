//! From passes to figures: which samples count, which regime each belongs to, and what they say.
//! Pure: no clock, no kernel.

use crate::point::Sample;
use nodegauge_measure::interference::Cause;
use nodegauge_measure::record::RegimeSamples;
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats::{self, Better, Summary};

/// Fewer samples than this in a regime say nothing of it.
const LEAST_IN_REGIME: usize = 3;
/// A regime met for a smaller share of the samples does not give the headline.
const LEAST_SHARE: f64 = 0.1;

/// Samples sorted into those of each regime and those that do not count.
#[derive(Debug, Clone)]
pub struct Sorted {
    /// Indices of the passes of each regime with its round trips, the fastest regime first.
    pub groups: Vec<Group>,
    /// Indices of the passes that do not count, with the causes.
    pub disturbed: Vec<(usize, Vec<Cause>)>,
    /// Whether disturbed passes had to be counted because nearly all were disturbed.
    pub desperate: bool,
}

/// Passes of one regime.
#[derive(Debug, Clone)]
pub struct Group {
    /// Indices into the samples, in order of time.
    pub passes: Vec<usize>,
    /// Median round trip, seconds; NaN for a single thread.
    pub round_trip: f64,
}

/// Sorts `samples`, of which the first is the warm-up.
pub fn sort(samples: &[Sample]) -> Sorted {
    let mut disturbed: Vec<(usize, Vec<Cause>)> = Vec::new();
    let mut clean = Vec::new();
    for (i, sample) in samples.iter().enumerate() {
        if i == 0 {
            disturbed.push((i, vec![Cause::WarmUp]));
        } else if sample.causes.is_empty() {
            clean.push(i);
        } else {
            disturbed.push((i, sample.causes.clone()));
        }
    }
    // A machine so busy that almost nothing is clean still gets an answer, marked as suspect.
    let desperate = clean.len() < LEAST_IN_REGIME && clean.len() + 1 < samples.len();
    if desperate {
        disturbed.truncate(1);
        clean = (1..samples.len()).collect();
    }
    let trips: Vec<f64> =
        clean.iter().flat_map(|i| [samples[*i].round_trips.0, samples[*i].round_trips.1]).collect();
    let found = regime::regimes(&trips);
    // Round trips of which no two are alike tell no regimes: such samples are pooled, and said to be.
    let scattered = found.is_empty() && trips.iter().any(|trip| trip.is_finite());
    let mut groups: Vec<Group> = if found.is_empty() {
        vec![Group { passes: clean, round_trip: f64::NAN }]
    } else {
        by_regime(samples, &clean, &found, &mut disturbed)
    };
    groups.retain(|group| !group.passes.is_empty());
    if groups.is_empty() && samples.len() > 1 {
        // The CPUs were moved in every single pass: an answer of mixed regimes, marked as suspect.
        disturbed.truncate(1);
        groups.push(Group { passes: (1..samples.len()).collect(), round_trip: f64::NAN });
        return Sorted { groups, disturbed, desperate: true };
    }
    let speed = |group: &Group| {
        let medians: Vec<f64> = (0..samples[0].seconds.len())
            .map(|kernel| {
                let rates: Vec<f64> =
                    group.passes.iter().map(|i| 1.0 / samples[*i].seconds[kernel]).collect();
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
) -> Vec<Group> {
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
        .map(|passes| {
            let trips: Vec<f64> = passes
                .iter()
                .flat_map(|i| [samples[*i].round_trips.0, samples[*i].round_trips.1])
                .collect();
            Group { passes, round_trip: stats::median(&trips) }
        })
        .collect()
}

impl Sorted {
    /// Passes that count, in all regimes.
    pub fn counted(&self) -> usize {
        self.groups.iter().map(|group| group.passes.len()).sum()
    }

    /// The regime that gives the headline: the fastest that was met often enough, else the one met
    /// most.
    pub fn headline(&self) -> Option<&Group> {
        let enough = |group: &&Group| {
            group.passes.len() >= LEAST_IN_REGIME
                && group.passes.len() as f64 >= LEAST_SHARE * self.counted() as f64
        };
        self.groups
            .iter()
            .find(enough)
            .or_else(|| self.groups.iter().max_by_key(|group| group.passes.len()))
    }

    /// Rates of kernel number `kernel` in a group: `counted` bytes over each time.
    pub fn rates(samples: &[Sample], group: &Group, kernel: usize, counted: f64) -> Vec<f64> {
        group.passes.iter().map(|i| counted / samples[*i].seconds[kernel]).collect()
    }

    /// What each regime says of a kernel, when more than one was met.
    pub fn regimes(&self, samples: &[Sample], kernel: usize, counted: f64) -> Vec<RegimeSamples> {
        if self.groups.len() < 2 {
            return Vec::new();
        }
        self.groups
            .iter()
            .filter_map(|group| {
                let rates = Self::rates(samples, group, kernel, counted);
                Some(RegimeSamples {
                    round_trip_s: group.round_trip,
                    share: group.passes.len() as f64 / self.counted() as f64,
                    summary: Summary::of(&rates, Better::Higher)?,
                    samples: rates,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let regimes = sorted.regimes(&samples, 0, 10.0);
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
        assert!(sorted.regimes(&samples, 0, 1.0).is_empty());
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
}
