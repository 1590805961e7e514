//! Effect of detours on a barrier of many hosts: after each quantum of computation, all processes wait for the process
//! that lost the most time (Petrini, Kerbyson, Pakin 2003; Hoefler, Schneider, Lumsdaine 2010).
//!
//! The lost times of all recorded quanta form the distribution for one process. Processes on other hosts are assumed to
//! be independent, with the same distribution. The expected maximum of n draws follows from the sorted values without
//! simulation. With more processes than recorded quanta it approaches the longest recorded loss, because longer losses
//! were not observed.

use crate::config::BarrierPoint;

/// Numbers of hosts for which the slowdown is computed.
const HOSTS: [u64; 7] = [1, 4, 16, 64, 256, 1024, 4096];

/// Returns the slowdown for each number of hosts. `lost` is the lost time in each quantum, in the unit of `quantum`, on
/// a host with `processes` processes.
pub(crate) fn curve(lost: &[u64], quantum: u64, processes: usize) -> Vec<BarrierPoint> {
    if lost.is_empty() {
        return Vec::new();
    }
    let mut sorted = lost.to_vec();
    sorted.sort_unstable();
    let mut points = Vec::new();
    for hosts in HOSTS {
        let wait = expected_max(&sorted, hosts as f64 * processes as f64);
        points.push(BarrierPoint { hosts, slowdown: 1.0 + wait / quantum as f64 });
    }
    points
}

/// Returns the expected maximum of `draws` independent draws from `sorted`.
fn expected_max(sorted: &[u64], draws: f64) -> f64 {
    let count = sorted.len() as f64;
    let mut expected = 0.0;
    let mut below = 0.0;
    for (at, value) in sorted.iter().enumerate() {
        let up_to = ((at + 1) as f64 / count).powf(draws);
        expected += *value as f64 * (up_to - below);
        below = up_to;
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_maximum_matches_the_exact_value() {
        // One of four quanta has a detour of 10; n draws contain no such quantum with probability (3/4)^n.
        let lost = [0, 0, 0, 10];
        for draws in [1.0, 2.0, 10.0] {
            let expected = 10.0 * (1.0 - 0.75_f64.powf(draws));
            assert!((expected_max(&lost, draws) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn slowdown_grows_with_the_number_of_hosts() {
        let mut lost = vec![0; 999];
        lost.push(500);
        let points = curve(&lost, 1000, 2);
        assert!(points.is_sorted_by(|a, b| a.slowdown < b.slowdown));
        assert!((points[0].slowdown - 1.001).abs() < 1e-4, "{points:?}");
        assert!((points[6].slowdown - 1.5).abs() < 1e-3, "{points:?}");
        assert_eq!(curve(&[], 1000, 2), []);
    }
}
