//! Family of curves: latency of a chain of dependent loads over the bandwidth of a load, for each mix of reads and writes,
//! and the bandwidth without the chain. Gauges measure it on processors and on devices; what is found on a curve, the names
//! of the figures and the view are the same. Everything here is pure.

mod found;
mod knee;
mod repeated;
mod view;

pub use found::{FoundKnee, KneeBasis, MeasuredPoint, falling_in_words, part_count, slice};
pub use knee::{Knee, LoadPoint, knee};
pub use repeated::{best_doubt, knee_doubt, latency_doubt};
pub use view::{FamilyFigure, chart, conclusion, table, words_for_columns};

/// Shares of the full rate of the load, percent; at 0 there is no load.
///
/// Most shares are near the full rate, because a wait also delays loads that would otherwise overlap.
pub const SHARES: [u32; 11] = [0, 10, 30, 50, 65, 80, 90, 94, 97, 99, 100];
/// Beginning of the name of an idle latency.
pub const IDLE: &str = "idle_";
/// Beginning of the name of a bandwidth without the chain.
pub const SATURATED: &str = "saturated_";
/// Beginning of the name of a knee.
pub const KNEE: &str = "knee_";

/// Returns the names of the figures that are found for these mixes.
pub fn names<'n>(mixes: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let mut names = Vec::new();
    for mix in mixes {
        names.extend([IDLE, SATURATED, KNEE].map(|prefix| format!("{prefix}{mix}")));
    }
    names
}

/// True for the name of a figure of a point of a curve, e.g. `latency_1:0_load50`.
pub fn is_point(name: &str) -> bool {
    let rest = name.strip_prefix("latency_").or_else(|| name.strip_prefix("bandwidth_"));
    rest.is_some_and(|rest| rest.contains("_load"))
}

/// Names of the figures of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointNames {
    /// Name of the latency.
    pub latency: String,
    /// Name of the bandwidth of the load; `None` without load.
    pub bandwidth: Option<String>,
}

impl PointNames {
    /// Returns the names of the point of a mix at a share of the full rate, percent.
    pub fn new(mix: &str, share: u32) -> Self {
        if share == 0 {
            return Self { latency: format!("{IDLE}{mix}"), bandwidth: None };
        }
        Self {
            latency: format!("latency_{mix}_load{share}"),
            bandwidth: Some(format!("bandwidth_{mix}_load{share}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_found_figures_are_distinguished_by_name() {
        let PointNames { latency, bandwidth } = PointNames::new("2:1", 50);
        assert!(is_point(&latency) && is_point(&bandwidth.unwrap()));
        let idle = PointNames::new("2:1", 0);
        assert_eq!((idle.latency.as_str(), idle.bandwidth), ("idle_2:1", None));
        assert_eq!(names(["1:0"]), ["idle_1:0", "saturated_1:0", "knee_1:0"]);
        assert!(names(["1:0"]).iter().all(|name| !is_point(name)));
    }
}
