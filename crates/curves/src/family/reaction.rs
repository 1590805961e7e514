//! Reaction of a program to load on the memory: its slowdown, compared with the rise of the latency under the same load.
//! All functions are pure.

use super::drawn::{NoEstimate, interval};
use nodegauge_analysis::conclusion::{Obstacle, detectable_difference};
use nodegauge_measure::record::doubt::TYPICAL_RULE;
use nodegauge_measure::stats;

/// Readings from which the reaction of a program is determined.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ReactionReadings {
    /// Time of the program with load on the other CPUs divided by its time without load, one per part of the run.
    pub slowdowns: Vec<f64>,
    /// Time per load of the chain without load, one per round, seconds.
    pub idle: Vec<f64>,
    /// Time per load of the chain with the same load on the other CPUs, one per round, seconds.
    pub loaded: Vec<f64>,
}

/// Measured reaction of a program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reaction {
    /// Latency under the load divided by the latency without load.
    pub rise: f64,
    /// Sensitivity: the relative slowdown divided by the relative rise of the latency, one per part of the run.
    pub sensitivities: Vec<f64>,
}

/// Reason why the sensitivity of a program is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NoReaction {
    /// There are too few readings for a confidence interval.
    FewRuns,
    /// The confidence interval of the slowdown includes 1 and is too wide to exclude a slowdown.
    UnclearSlowdown {
        /// Ends of the confidence interval.
        interval: [f64; 2],
    },
    /// The load does not slow the program down.
    NoSlowdown {
        /// Upper end of the confidence interval of the slowdown.
        highest: f64,
    },
    /// The latency does not rise under the load.
    NoRise,
}

impl NoReaction {
    /// Returns the obstacle to a statement about the reaction.
    pub(super) fn obstacle(self) -> Obstacle {
        match self {
            Self::FewRuns => NoEstimate::FewReadings.obstacle(),
            Self::UnclearSlowdown { interval: [low, high] } => Obstacle::new(format!(
                "the interval of its slowdown, {low:.2} to {high:.2}, includes 1"
            ))
            .with_remedy("use a larger --budget, or repeat the run on an idle node"),
            Self::NoSlowdown { highest } => {
                let why = "the load of the other CPUs does not slow it down";
                if highest <= 1.0 {
                    return Obstacle::new(why);
                }
                Obstacle::new(format!("{why}: {}", detectable_difference(highest - 1.0)))
            }
            Self::NoRise => Obstacle::new("the latency does not rise under this load"),
        }
    }
}

impl ReactionReadings {
    /// Returns the reaction of the program.
    ///
    /// Fails if there are too few readings, or if the program or the latency does not react to the load.
    pub(super) fn reaction(&self) -> Result<Reaction, NoReaction> {
        let slowdown = interval(&self.slowdowns).ok_or(NoReaction::FewRuns)?;
        let [low, high] = slowdown;
        if low <= 1.0 {
            // An interval near 1 shows that the program does not become slower.
            let is_near = high - 1.0 <= TYPICAL_RULE.max_distance.0;
            return Err(if is_near {
                NoReaction::NoSlowdown { highest: high }
            } else {
                NoReaction::UnclearSlowdown { interval: slowdown }
            });
        }
        let [_, idle_high] = interval(&self.idle).ok_or(NoReaction::FewRuns)?;
        let [loaded_low, _] = interval(&self.loaded).ok_or(NoReaction::FewRuns)?;
        if loaded_low <= idle_high {
            return Err(NoReaction::NoRise);
        }
        let rise = stats::median(&self.loaded) / stats::median(&self.idle);
        let slowdowns = self.slowdowns.iter();
        let sensitivities = slowdowns.map(|of_part| (of_part - 1.0) / (rise - 1.0)).collect();
        Ok(Reaction { rise, sensitivities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(slowdowns: &[f64], loaded: f64) -> ReactionReadings {
        let around = |value: f64| [0.99, 1.0, 1.01, 1.0, 0.99, 1.01].map(|factor| factor * value);
        ReactionReadings {
            slowdowns: slowdowns.to_vec(),
            idle: around(100e-9).to_vec(),
            loaded: around(loaded).to_vec(),
        }
    }

    fn obstacle(slowdowns: &[f64], loaded: f64) -> String {
        readings(slowdowns, loaded).reaction().unwrap_err().obstacle().in_words()
    }

    #[test]
    fn sensitivity_is_the_slowdown_relative_to_the_rise_of_the_latency() {
        let found = readings(&[1.2, 1.21, 1.19, 1.2, 1.2, 1.2], 140e-9).reaction().unwrap();
        assert!((found.rise - 1.4).abs() < 0.01, "{found:?}");
        assert!((stats::median(&found.sensitivities) - 0.5).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn missing_reactions_have_different_reasons() {
        let few = "too few runs of the program for an interval; use a larger --budget or --samples";
        assert_eq!(obstacle(&[1.3; 5], 140e-9), few);
        let unclear = obstacle(&[0.9, 0.95, 1.0, 1.2, 1.3, 1.4], 140e-9);
        let expected =
            "the interval of its slowdown, 0.90 to 1.40, includes 1; use a larger --budget";
        assert!(unclear.starts_with(expected), "{unclear}");
        let absent = "the load of the other CPUs does not slow it down: a difference of more than 2 % would have been \
                      found";
        assert_eq!(obstacle(&[0.98, 0.99, 1.0, 1.0, 1.01, 1.02], 140e-9), absent);
        let faster = "the load of the other CPUs does not slow it down";
        assert_eq!(obstacle(&[0.9; 6], 140e-9), faster);
        let flat = "the latency does not rise under this load";
        assert_eq!(obstacle(&[1.2; 6], 100e-9), flat);
        let mut few_chains = readings(&[1.2; 6], 140e-9);
        few_chains.loaded.truncate(2);
        assert_eq!(few_chains.reaction(), Err(NoReaction::FewRuns));
    }
}
