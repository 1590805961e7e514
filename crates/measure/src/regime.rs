//! Tells apart the regimes of a machine whose CPUs are moved under it.
//!
//! A hypervisor may run two virtual CPUs now on cores that share a cache and a link to memory, now
//! on cores that do not; bandwidth then jumps by a factor, without load or steal time to show for
//! it. The round trip of a cache line between the CPUs jumps with it (115 ns against 360 ns on a
//! Zen 4 guest, 50 ns against 390 ns on a Zen 5 guest), so it tells the regime of each
//! sample. Samples of different regimes are never pooled. Pure functions of slices.

/// Two neighbouring round trips that differ by this factor belong to different regimes. Within a
/// regime they scatter by some 10 %; between regimes they differed by 3 and more where seen.
const GAP: f64 = 1.6;

/// A cluster of fewer samples than this share of all is a disturbance, not a regime.
const MIN_SHARE: f64 = 0.05;

/// Round trips that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regime {
    /// Smallest round trip, seconds.
    pub from: f64,
    /// Largest round trip, seconds.
    pub to: f64,
}

impl Regime {
    /// Whether a round trip belongs here; a little beyond the ends seen still does.
    pub fn contains(&self, round_trip: f64) -> bool {
        let slack = GAP.sqrt();
        round_trip >= self.from / slack && round_trip <= self.to * slack
    }
}

/// The regimes in a set of round trips, shortest first. Empty only without finite round trips.
pub fn regimes(round_trips: &[f64]) -> Vec<Regime> {
    let mut sorted: Vec<f64> =
        round_trips.iter().copied().filter(|t| t.is_finite() && *t > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let mut clusters: Vec<(Regime, usize)> = Vec::new();
    for t in &sorted {
        match clusters.last_mut() {
            Some((regime, n)) if *t <= regime.to * GAP => {
                regime.to = *t;
                *n += 1;
            }
            _ => clusters.push((Regime { from: *t, to: *t }, 1)),
        }
    }
    let least = (sorted.len() as f64 * MIN_SHARE).max(if sorted.len() > 4 { 2.0 } else { 1.0 });
    clusters.iter().filter(|(_, n)| *n as f64 >= least).map(|(regime, _)| *regime).collect()
}

/// Whether two round trips are of one regime, as far as two can tell; true where there are none.
pub fn same(x: f64, y: f64) -> bool {
    x.is_nan() || y.is_nan() || (x <= y * GAP && y <= x * GAP)
}

/// The regime (index into `regimes`) in which a sample lies whose surroundings had round trips
/// `before` and `after`; `None` when they disagree: the CPUs were moved in between.
pub fn assign(regimes: &[Regime], before: f64, after: f64) -> Option<usize> {
    let of = |t: f64| regimes.iter().position(|regime| regime.contains(t));
    of(before).filter(|index| of(after) == Some(*index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_regimes_are_told_apart_and_a_stray_is_none() {
        let mut trips = vec![113e-9, 115e-9, 117e-9, 114e-9, 116e-9, 113e-9, 115e-9, 114e-9];
        trips.extend([361e-9, 390e-9, 402e-9, 377e-9, 388e-9, 395e-9, 371e-9, 383e-9]);
        trips.push(3e-6);
        let found = regimes(&trips);
        assert_eq!(found.len(), 2);
        assert_eq!(assign(&found, 116e-9, 113e-9), Some(0));
        assert_eq!(assign(&found, 380e-9, 371e-9), Some(1));
        assert_eq!(assign(&found, 116e-9, 380e-9), None);
        assert_eq!(assign(&found, 3e-6, 3e-6), None);
        assert!(same(113e-9, 117e-9) && !same(113e-9, 388e-9) && same(f64::NAN, f64::NAN));
    }

    #[test]
    fn slow_drift_is_one_regime() {
        let trips: Vec<f64> = (0..100).map(|i| 100e-9 * (1.0 + 0.005 * f64::from(i))).collect();
        assert_eq!(regimes(&trips).len(), 1);
        assert!(regimes(&[]).is_empty());
    }
}
