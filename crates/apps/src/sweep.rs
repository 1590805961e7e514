//! Sweeps over workers: axes, combinations, and the reference workers of each combination.

use crate::config::WorkersConfig;
use crate::{GAUGE, Workers};
use WorkersSetting::Placement;
use nodegauge_measure::sweep::{self, AxisSyntax, Setting as _};
use nodegauge_measure::{Failure, Notice};
use nodegauge_placement::{JobPlacementOptions, PlacementSetting};
use serde_json::{Map, Value};

/// Axes that give the kind or the number of workers.
const COUNTED: [&str; 3] = ["workers", "threads", "ranks"];
/// Axes whose values are part of the names of workers.
const IN_NAMES: [&str; 5] = ["workers", "threads", "ranks", "policy", "rank-map"];
/// Axes that request ranks.
const RANK_AXES: [&str; 4] = ["ranks", "policy", "rank-map", "workers"];

/// Kind of workers: threads of a process, or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkersKind {
    /// Workers are threads of one process.
    Threads,
    /// Workers are processes (ranks) with one thread.
    Ranks,
}
nodegauge_measure::names!(WorkersKind, "kind of workers", Threads = "threads", Ranks = "ranks");

/// Options for the workers of one combination of a sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkersCellOptions {
    /// Threads, ranks and memory.
    pub job: JobPlacementOptions,
    /// Kind of workers. `None` means ranks if an option requests ranks, and threads otherwise.
    pub kind: Option<WorkersKind>,
}

nodegauge_measure::settings! {
    /// Value of an option for workers that can be swept.
    pub enum WorkersSetting including Placement(PlacementSetting) of job
    sets WorkersCellOptions, e.g. "--sweep policy=0-5 or --sweep ranks=1,2,4" {
        /// Kind of workers: threads or ranks.
        Workers(WorkersKind) = "workers", AxisSyntax::comma_separated().with_default(WorkersKind::ALL),
            given |cell| cell.kind.is_some(),
            set |cell, kind| cell.kind = Some(*kind);
    }
}

/// Axis of a sweep over workers: values of one option.
pub type WorkersAxis = sweep::Axis<WorkersSetting>;

/// Workers of one combination of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepWorkers {
    /// Workers of the combination.
    pub workers: Workers,
    /// Value on each axis of the sweep; empty without a sweep.
    pub settings: Vec<WorkersSetting>,
    /// Values of the reference workers on the axes.
    pub reference: Vec<WorkersSetting>,
}

impl SweepWorkers {
    /// Returns the workers of a run without a sweep.
    pub fn without_sweep(workers: Workers) -> Self {
        Self { workers, settings: Vec::new(), reference: Vec::new() }
    }

    /// Returns the values on all axes for the record; `None` without a sweep.
    pub(crate) fn coordinates(&self) -> Option<Map<String, Value>> {
        (!self.settings.is_empty()).then(|| sweep::coordinates(&self.settings))
    }
}

/// Values on all axes, as stored in records.
pub(crate) type Coordinates<'c> = Option<&'c Map<String, Value>>;

/// Returns the value on `axis` of the sweep.
pub(crate) fn coordinate<'c>(sweep: Coordinates<'c>, axis: &str) -> Option<&'c str> {
    sweep?.get(axis)?.as_str()
}

/// Returns the name of workers with all swept values: `2 threads`, `4 ranks, policy 3, cyclic`.
pub(crate) fn in_words(on: &WorkersConfig, sweep: Coordinates<'_>) -> String {
    let with_policy = coordinate(sweep, "policy").and_then(|policy| policy.split_once('/'));
    let map = coordinate(sweep, "rank-map").or(with_policy.map(|(_, map)| map));
    let mut words = on.in_words() + &map.map_or_else(String::new, |map| format!(", {map}"));
    for (axis, value) in sweep.into_iter().flatten() {
        if let Some(value) = value.as_str().filter(|_| !IN_NAMES.contains(&axis.as_str())) {
            words += &format!(", {axis} {value}");
        }
    }
    words
}

/// Returns the label of workers in a chart: their name with all swept values, or only the swept values if neither the
/// kind nor the number of workers is swept.
pub(crate) fn label(on: &WorkersConfig, sweep: Coordinates<'_>) -> String {
    let is_counted = COUNTED.into_iter().any(|axis| coordinate(sweep, axis).is_some());
    let mut swept = Vec::new();
    for (axis, value) in sweep.into_iter().flatten() {
        if let Some(value) = value.as_str().filter(|_| !COUNTED.contains(&axis.as_str())) {
            swept.push(format!("{axis} {value}"));
        }
    }
    if is_counted || swept.is_empty() { in_words(on, sweep) } else { swept.join(", ") }
}

/// Plans the workers of every combination with `arrange`; combinations that this node does not support are left out.
///
/// Fails if axes exclude each other, if there are too many combinations, or if this node supports no combination.
pub fn plan(
    axes: &[WorkersAxis],
    mut arrange: impl FnMut(&[WorkersSetting]) -> Result<Workers, Failure>,
) -> Result<(Vec<SweepWorkers>, Vec<Notice>), Failure> {
    let has_threads = axes.iter().any(|axis| axis.has_name("threads"));
    if has_threads && axes.iter().any(|axis| RANK_AXES.contains(&axis.name())) {
        return Err(Failure::usage("--sweep threads cannot be combined with an axis of ranks")
            .hint(
                "e.g. --sweep workers=threads,ranks --sweep ranks=1,2,4 (ranks is the number of \
                 threads or ranks)",
            ));
    }
    let (all, notices) = sweep::combinations(axes, GAUGE);
    let mut each: Vec<Vec<WorkersSetting>> = Vec::new();
    for settings in all.into_iter().map(meaningful) {
        if !each.contains(&settings) {
            each.push(settings);
        }
    }
    sweep::check_count(each.len())?;
    let swept = each.iter().map(|settings| {
        let workers = arrange(settings)?;
        let reference = reference(settings, axes);
        Ok(SweepWorkers { workers, settings: settings.clone(), reference })
    });
    let (swept, left_out) = keep_supported(each.iter().cloned().zip(swept))?;
    Ok((swept, notices.into_iter().chain(left_out).collect()))
}

/// Returns the combinations that this node supports, with notices about the other combinations.
///
/// Fails with the first error if no combination is supported, and with any error that does not depend on the machine.
pub(crate) fn keep_supported(
    all: impl IntoIterator<Item = (Vec<WorkersSetting>, Result<SweepWorkers, Failure>)>,
) -> Result<(Vec<SweepWorkers>, Vec<Notice>), Failure> {
    sweep::keep_supported(all, |swept| &swept.settings[..], GAUGE)
}

/// Removes values without effect: threads have no policy and no rank map.
fn meaningful(mut settings: Vec<WorkersSetting>) -> Vec<WorkersSetting> {
    if settings.contains(&WorkersSetting::Workers(WorkersKind::Threads)) {
        settings.retain(|value| {
            !matches!(value, Placement(PlacementSetting::Policy(_) | PlacementSetting::RankMap(_)))
        });
    }
    settings
}

/// Returns the settings of the reference workers of a combination. If the sweep has both kinds of workers, the
/// reference is threads. If policies are swept, the reference is the same ranks under policy 0 (as in the plots of the
/// ccNUMA lecture). Otherwise, the reference is a single rank or thread. If the sweep does not contain that value, or
/// if another option is swept, the first value of the axis is the reference.
fn reference(settings: &[WorkersSetting], axes: &[WorkersAxis]) -> Vec<WorkersSetting> {
    const BY: [&str; 5] = ["workers", "policy", "rank-map", "ranks", "threads"];
    let own =
        BY.into_iter().find_map(|name| settings.iter().position(|value| value.axis() == name));
    let Some(at) = own.or((!settings.is_empty()).then_some(0)) else { return Vec::new() };
    let Some(axis) = axes.iter().find(|axis| axis.has_name(settings[at].axis())) else {
        return Vec::new();
    };
    let base = axis.settings().iter().find(|value| is_base(value)).unwrap_or(&axis.settings()[0]);
    let mut wanted = settings.to_vec();
    wanted[at] = base.clone();
    meaningful(wanted)
}

/// True for a value of reference workers: threads, policy 0, one rank or one thread.
fn is_base(value: &WorkersSetting) -> bool {
    match value {
        WorkersSetting::Workers(kind) => *kind == WorkersKind::Threads,
        Placement(PlacementSetting::Policy(of)) => of.policy.number() == 0,
        Placement(PlacementSetting::Ranks(count) | PlacementSetting::Threads(count)) => *count == 1,
        Placement(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the combinations with their references, on a node that does not support `refused` ranks.
    fn planned(axes: &[&str], refused: u32) -> Result<(Vec<String>, Vec<Notice>), Failure> {
        let axes: Vec<WorkersAxis> = axes.iter().map(|text| text.parse().unwrap()).collect();
        let (swept, notices) = plan(&axes, |settings| match settings {
            [Placement(PlacementSetting::Ranks(n)), ..] if *n == refused => {
                Err(Failure::insufficient("no such ranks"))
            }
            _ => Ok(Workers::Threads(nodegauge_placement::Placement::new(
                nodegauge_placement::Binding::None,
                "",
                Vec::new(),
            ))),
        })?;
        let in_words = |one: &SweepWorkers| {
            let words = [&one.settings, &one.reference]
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("/"));
            format!("{} over {}", words[0], words[1])
        };
        Ok((swept.iter().map(in_words).collect(), notices))
    }

    #[test]
    fn sweep_axes_determine_the_reference_of_each_cell() {
        let of = |axes: &[&str]| planned(axes, 0).unwrap().0;
        assert_eq!(of(&["policy=3,0"]), ["3 over 0", "0 over 0"]);
        assert_eq!(of(&["policy=3..5"]), ["3 over 3", "4 over 3", "5 over 3"]);
        assert_eq!(of(&["policy=4,4/even"]), ["4 over 4", "4/even over 4"]);
        assert_eq!(of(&["ranks=2,1"]), ["2 over 1", "1 over 1"]);
        assert_eq!(of(&["threads=4,2"]), ["4 over 4", "2 over 4"]);
        let both = ["1/0 over 1/0", "1/5 over 1/0", "2/0 over 2/0", "2/5 over 2/0"];
        assert_eq!(of(&["ranks=1,2", "policy=0,5"]), both);
        let against = ["threads over threads", "ranks/0 over threads", "ranks/4 over threads"];
        assert_eq!(of(&["workers", "policy=0,4"]), against);
        assert_eq!(of(&[]), [" over "]);
    }

    #[test]
    fn sweep_leaves_out_or_refuses_impossible_workers() {
        let (kept, notices) = planned(&["ranks=1,64"], 64).unwrap();
        assert_eq!(
            (kept.len(), notices[0].message.as_str()),
            (1, "ranks 64 left out: no such ranks")
        );
        assert_eq!(planned(&["ranks=64"], 64).unwrap_err().to_string(), "no such ranks");
        let both = planned(&["threads=1,2", "policy=0-5"], 0).unwrap_err().to_string();
        assert!(both.starts_with("--sweep threads cannot be combined with"), "{both}");
        assert!(
            "mode=threads".parse::<WorkersAxis>().is_err()
                && "workers=gpus".parse::<WorkersAxis>().is_err()
        );
    }
}
