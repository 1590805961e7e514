//! Execution-cache-memory model (ECM): the rate of a loop over the number of cores, predicted from its time on one core
//! and the rate that all cores together reach. All functions are pure.
//!
//! Cores share nothing but the memory interface of their NUMA domain. A loop scales until its transfers fill the
//! interface (Treibig and Hager, "Introducing a Performance Model for Bandwidth-Limited Loop Kernels", 2009; Stengel,
//! Treibig, Hager and Wellein, "Quantifying Performance Bottlenecks of Stencil Computations Using the
//! Execution-Cache-Memory Model", ICS 2015). Near the saturation point, cores wait for the interface while it is partly
//! used: a core waits for half a transfer of each other core, times the share of time during which the interface is
//! used (Hofmann, Hager and Fey, "On the Accuracy and Usefulness of Analytic Energy Models for Contemporary Multicore
//! Processors", ISC 2018; half a transfer, as in RRZE's Kerncraft).

/// Number of bisection steps that determine the transfer time; the remaining error is below the precision of `f64`.
const HALVINGS: usize = 60;

/// Times that a loop takes for a unit of work, in any unit of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoopTimes {
    /// Time on one core while the other cores are idle, in the common unit of these times.
    pub one_core: f64,
    /// Part of `one_core` during which the loop uses the memory interface, in the same unit.
    pub transfer: f64,
}

impl LoopTimes {
    /// Returns the times of a loop that takes `one_core` on one core and reaches `rate` (units of work per unit of
    /// time) on `cores` cores. If `rate` is at least that of `cores` independent cores, the transfer time is zero.
    pub(crate) fn from_rate(one_core: f64, cores: usize, rate: f64) -> Self {
        let mut low = Self { one_core, transfer: 0.0 };
        let mut high = Self { one_core, transfer: 1.0 / rate };
        if low.rate(cores) <= rate {
            return low;
        }
        // The rate decreases as the transfer time increases.
        for _ in 0..HALVINGS {
            let middle = Self { one_core, transfer: (low.transfer + high.transfer) / 2.0 };
            if middle.rate(cores) > rate {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Returns the number of cores that saturate the memory interface, at least one; infinite if the transfer time is
    /// zero.
    pub(crate) fn saturation_cores(self) -> f64 {
        if self.transfer > 0.0 { (self.one_core / self.transfer).max(1.0) } else { f64::INFINITY }
    }

    /// Returns the share of time during which `cores` cores together use the memory interface, 0 to 1.
    pub(crate) fn utilisation(self, cores: usize) -> f64 {
        let mut used = 0.0;
        for count in 1..=cores {
            let others = (count - 1) as f64;
            let waiting = used * others * self.transfer / 2.0;
            used = (count as f64 * self.transfer / (self.one_core + waiting)).min(1.0);
        }
        used
    }

    /// Returns the rate of `cores` cores, in units of work per unit of time.
    pub(crate) fn rate(self, cores: usize) -> f64 {
        if self.transfer > 0.0 {
            return self.utilisation(cores) / self.transfer;
        }
        cores as f64 / self.one_core
    }
}

/// Returns the predicted rate of threads on several NUMA domains, each of which has its own memory interface. `running`
/// is the number of running cores per domain. `all` is the number of cores per domain in a run with all cores, which
/// reaches `rate_of_all`.
pub(crate) fn predicted_rate(
    one_core: f64,
    rate_of_all: f64,
    running: &[usize],
    all: &[usize],
) -> f64 {
    let total: usize = all.iter().sum();
    let mut rate = 0.0;
    for (cores, of_domain) in running.iter().zip(all) {
        let share = rate_of_all * *of_domain as f64 / total as f64;
        if *cores > 0 {
            rate += LoopTimes::from_rate(one_core, *of_domain, share).rate(*cores);
        }
    }
    rate
}

/// Returns the time that each level of the memory hierarchy adds on one core. `times` are the times with all data in
/// the first level, in the second level, and so on. The results are the terms of the model without overlap. A level
/// that is not slower than the previous level adds no time, which is negative here, because the loop is not the fastest
/// one for every level.
pub(crate) fn contributions(times: &[f64]) -> Vec<f64> {
    let mut before = 0.0;
    let mut added = Vec::new();
    for time in times {
        added.push(time - before);
        before = *time;
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-3
    }

    #[test]
    fn published_times_give_the_published_saturation_point() {
        // Hammer, Eitzinger, Hager and Wellein, "Kerncraft: A Tool for Analytic Performance Modeling of Loop Kernels",
        // 2016, listing 4: a long-range stencil on Ivy Bridge, {52 || 54 | 40 | 24 | 48.5} cycles per line, which
        // saturates at 4 cores.
        let stencil = LoopTimes { one_core: 166.5, transfer: 48.5 };
        assert_eq!(stencil.saturation_cores().ceil(), 4.0);
        let added = contributions(&[54.0, 94.0, 118.0, 166.5]);
        assert_eq!(added, [54.0, 40.0, 24.0, 48.5]);
        // Hammer, Hager, Eitzinger and Wellein, "Automatic Loop Kernel Analysis and Performance Modeling With
        // Kerncraft", PMBS 2015, table 5: Schönauer's triad on Sandy Bridge and on Haswell.
        let triad = [(47.9, 21.9, 3.0), (44.3, 26.3, 2.0)];
        for (one_core, transfer, saturation) in triad {
            assert_eq!(LoopTimes { one_core, transfer }.saturation_cores().ceil(), saturation);
        }
    }

    #[test]
    fn utilisation_follows_the_recursion_of_kerncraft() {
        // Schönauer's triad on Sandy Bridge again, with the recursion of `kerncraft/models/ecm.py`.
        let triad = LoopTimes { one_core: 47.9, transfer: 21.9 };
        let expected = [0.457_203, 0.827_887, 0.995_022, 1.0, 1.0];
        for (cores, share) in (1..).zip(expected) {
            assert!(
                is_near(triad.utilisation(cores), share),
                "{cores}: {}",
                triad.utilisation(cores)
            );
        }
        assert!(is_near(triad.rate(5), 1.0 / 21.9));
        assert!(is_near(triad.rate(1), 1.0 / 47.9));
    }

    #[test]
    fn prediction_reproduces_its_inputs() {
        for cores in 1..40 {
            let mut before = 0.0;
            for percent in 1..=120 {
                // Rate of all cores, in units of the rate of one core.
                let rate = cores as f64 * f64::from(percent) / 100.0;
                let times = LoopTimes::from_rate(1.0, cores, rate);
                let reached = times.rate(cores);
                assert!(is_near(reached, rate.min(cores as f64)), "{cores} {rate} {reached}");
                // A faster memory never lowers a prediction.
                let half = times.rate(cores.div_ceil(2));
                assert!(half >= before * 0.999, "{cores} {rate}: {half} {before}");
                before = half;
            }
        }
    }

    #[test]
    fn two_cores_reach_the_memory_rate_or_twice_the_rate_of_one() {
        assert!(is_near(predicted_rate(1.0, 1.4, &[1], &[2]), 1.0));
        assert!(is_near(predicted_rate(1.0, 1.4, &[2], &[2]), 1.4));
        assert!(is_near(predicted_rate(1.0, 2.5, &[2], &[2]), 2.0));
    }

    #[test]
    fn domains_saturate_separately() {
        // There are two domains of four cores; the memory of each domain is as fast as two cores.
        assert!(is_near(on_two_domains(&[4, 0]), 2.0));
        assert!(is_near(on_two_domains(&[4, 4]), 4.0));
        assert!(is_near(on_two_domains(&[1, 1]), 2.0));
        assert!(on_two_domains(&[2, 2]) > on_two_domains(&[4, 0]));
    }

    fn on_two_domains(running: &[usize]) -> f64 {
        predicted_rate(1.0, 4.0, running, &[4, 4])
    }

    #[test]
    fn contributions_add_up_to_the_time_of_the_last_level() {
        assert_eq!(contributions(&[2.0, 1.5, 4.0]), [2.0, -0.5, 2.5]);
    }
}
