//! Family of curves: for each mix of reads and writes, the latency of a chain of dependent loads over the bandwidth of
//! the other threads, and the bandwidth without the chain. Gauges measure families on processors and on devices, with
//! the same names of figures, derived figures and view. The functions are pure.

mod found;
mod knee;
mod repeated;
mod view;

pub use found::{FoundKnee, KneeBasis, MeasuredPoint, falling_in_words, part_count, part_slice};
pub use knee::{Knee, LoadPoint, find_knee};
pub use repeated::{best_doubt, knee_doubt, latency_doubt};
pub use view::{FamilyFigure, chart, conclusion, describe_columns, table};

/// Loads at which a curve is measured, in percent of the full rate; 0 is the idle point.
///
/// Most points are near the full rate, because a pause between loads also delays loads that would otherwise overlap.
pub const LOAD_PERCENTS: [u32; 11] = [0, 10, 30, 50, 65, 80, 90, 94, 97, 99, 100];
/// Prefix of the name of an idle latency.
pub const IDLE_PREFIX: &str = "idle_";
/// Prefix of the name of a bandwidth without the chain.
pub const SATURATED_PREFIX: &str = "saturated_";
/// Prefix of the name of a knee.
pub const KNEE_PREFIX: &str = "knee_";

/// Returns the names of the idle latency, the bandwidth without the chain, and the knee of each mix.
pub fn figure_names<'n>(mixes: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let mut names = Vec::new();
    for mix in mixes {
        names.extend(
            [IDLE_PREFIX, SATURATED_PREFIX, KNEE_PREFIX].map(|prefix| format!("{prefix}{mix}")),
        );
    }
    names
}

/// True if a figure with this name belongs to a point of a curve, e.g. `latency_1:0_load50`.
pub fn is_point_name(name: &str) -> bool {
    let rest = name.strip_prefix("latency_").or_else(|| name.strip_prefix("bandwidth_"));
    rest.is_some_and(|rest| rest.contains("_load"))
}

/// Names of the two figures of a point: latency and bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointNames {
    /// Name of the latency.
    pub latency: String,
    /// Name of the bandwidth of the load; `None` without load.
    pub bandwidth: Option<String>,
}

impl PointNames {
    /// Creates the names for the point of a mix at `share` percent of the full rate.
    pub fn new(mix: &str, share: u32) -> Self {
        if share == 0 {
            return Self { latency: format!("{IDLE_PREFIX}{mix}"), bandwidth: None };
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
    fn points_and_derived_figures_are_distinguished_by_name() {
        let PointNames { latency, bandwidth } = PointNames::new("2:1", 50);
        assert!(is_point_name(&latency) && is_point_name(&bandwidth.unwrap()));
        let idle = PointNames::new("2:1", 0);
        assert_eq!((idle.latency.as_str(), idle.bandwidth), ("idle_2:1", None));
        assert_eq!(figure_names(["1:0"]), ["idle_1:0", "saturated_1:0", "knee_1:0"]);
        assert!(figure_names(["1:0"]).iter().all(|name| !is_point_name(name)));
    }
}
