//! Sweeps over workers: axes, combinations, and the reference workers of every combination.

use crate::config::WorkersConfig;
use crate::{GAUGE, Workers};
use nodegauge_measure::sweep::{self, AxisSyntax, one, several};
use nodegauge_measure::{Failure, Notice};
use nodegauge_placement::{MappedPolicy, Policies, RankMap, ThreadList};
use serde_json::{Map, Value};
use std::fmt;

/// Kind of workers: threads of a process, or processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkersKind {
    /// Workers are threads of one process.
    Threads,
    /// Workers are processes (ranks) with one thread.
    Ranks,
}
nodegauge_measure::names!(WorkersKind, "kind of workers", Threads = "threads", Ranks = "ranks");

/// Value of an option that can be swept.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkersSetting {
    /// Kind of workers: threads or ranks.
    Workers(WorkersKind),
    /// Number of threads.
    Threads(u32),
    /// Number of ranks.
    Ranks(u32),
    /// Placement policy of the ranks, and their map if it is given with the policy.
    Policy(MappedPolicy),
    /// Map of ranks to sockets or cores.
    RankMap(RankMap),
}

impl fmt::Display for WorkersSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(kind) => kind.fmt(f),
            Self::Threads(count) | Self::Ranks(count) => count.fmt(f),
            Self::Policy(policy) => policy.fmt(f),
            Self::RankMap(map) => map.fmt(f),
        }
    }
}

/// Axis of a sweep over workers: values of one option.
pub type WorkersAxis = sweep::Axis<WorkersSetting>;

impl sweep::Setting for WorkersSetting {
    const EXAMPLE: &'static str = "--sweep policy=0-5 or --sweep ranks=1,2,4";
    const EXPECTED: &'static str =
        "expected an axis of workers, threads, ranks, policy or rank-map";

    fn axis(&self) -> &str {
        match self {
            Self::Workers(_) => "workers",
            Self::Threads(_) => "threads",
            Self::Ranks(_) => "ranks",
            Self::Policy(_) => "policy",
            Self::RankMap(_) => "rank-map",
        }
    }

    fn also_sets(&self) -> Option<&'static str> {
        match self {
            Self::Policy(MappedPolicy { map: Some(_), .. }) => Some("rank-map"),
            _ => None,
        }
    }

    fn values(name: &str) -> Option<AxisSyntax<Self>> {
        let all = |kinds: &[WorkersKind]| kinds.iter().copied().map(Self::Workers).collect();
        Some(match name {
            "workers" => {
                AxisSyntax::parted(|text| one(text, Self::Workers)).or_alone(all(WorkersKind::ALL))
            }
            "threads" => {
                AxisSyntax::listed(|text| several::<ThreadList, _, _>(text, Self::Threads))
            }
            "ranks" => AxisSyntax::listed(|text| several::<ThreadList, _, _>(text, Self::Ranks)),
            "policy" => AxisSyntax::listed(|text| several::<Policies, _, _>(text, Self::Policy)),
            "rank-map" => AxisSyntax::parted(|text| one(text, Self::RankMap))
                .or_alone(RankMap::ALL.iter().copied().map(Self::RankMap).collect()),
            _ => return None,
        })
    }
}

/// Workers of one combination of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    /// Workers of the combination.
    pub workers: Workers,
    /// Value on every axis of the sweep; empty without a sweep.
    pub settings: Vec<WorkersSetting>,
    /// Values on the axes for the reference workers.
    pub reference: Vec<WorkersSetting>,
}

impl Swept {
    /// Returns the workers of a run without a sweep.
    pub fn alone(workers: Workers) -> Self {
        Self { workers, settings: Vec::new(), reference: Vec::new() }
    }

    /// Returns the values on all axes for the record; `None` without a sweep.
    pub(crate) fn coordinates(&self) -> Option<Map<String, Value>> {
        let entry = |value: &WorkersSetting| {
            (sweep::Setting::axis(value).to_owned(), Value::from(value.to_string()))
        };
        (!self.settings.is_empty()).then(|| self.settings.iter().map(entry).collect())
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
    on.in_words() + &map.map_or_else(String::new, |map| format!(", {map}"))
}

/// Returns the label of workers in a chart: all swept values, or only policies and maps if these are swept.
pub(crate) fn label(on: &WorkersConfig, sweep: Coordinates<'_>) -> String {
    let of = |axis: &str| Some(format!("{axis} {}", coordinate(sweep, axis)?));
    let is_counted = ["workers", "threads", "ranks"].into_iter().any(|axis| of(axis).is_some());
    match [of("policy"), of("rank-map")].into_iter().flatten().collect::<Vec<_>>() {
        swept if is_counted || swept.is_empty() => in_words(on, sweep),
        swept => swept.join(", "),
    }
}

/// Plans the workers of every combination with `arrange`; combinations that this node does not support are left out.
///
/// # Errors
/// Fails if axes exclude each other, if there are too many combinations, and if this node supports no combination.
pub fn plan(
    axes: &[WorkersAxis],
    mut arrange: impl FnMut(&[WorkersSetting]) -> Result<Workers, Failure>,
) -> Result<(Vec<Swept>, Vec<Notice>), Failure> {
    let of_ranks =
        |axis: &WorkersAxis| ["ranks", "policy", "rank-map", "workers"].contains(&axis.name());
    if axes.iter().any(|axis| axis.name() == "threads") && axes.iter().any(of_ranks) {
        return Err(Failure::usage("--sweep threads cannot be combined with an axis of ranks")
            .hint(
                "e.g. --sweep workers=threads,ranks --sweep ranks=1,2,4, which is the number of \
             threads or ranks",
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
        Ok(Swept { workers, settings: settings.clone(), reference })
    });
    let (swept, left_out) = keep(each.iter().cloned().zip(swept))?;
    Ok((swept, notices.into_iter().chain(left_out).collect()))
}

/// Returns the combinations that this node supports, with notices about the other combinations.
///
/// # Errors
/// Fails with the first error if no combination is supported, and with any error that does not depend on the machine.
pub(crate) fn keep(
    all: impl IntoIterator<Item = (Vec<WorkersSetting>, Result<Swept, Failure>)>,
) -> Result<(Vec<Swept>, Vec<Notice>), Failure> {
    let (mut kept, mut gone): (Vec<Swept>, Vec<(Vec<WorkersSetting>, Failure)>) =
        Default::default();
    for (settings, swept) in all {
        match swept {
            Ok(swept) => kept.push(swept),
            Err(why) if why.is_of_machine() => gone.push((settings, why)),
            Err(why) => return Err(why),
        }
    }
    if kept.is_empty() && !gone.is_empty() {
        return Err(gone.swap_remove(0).1);
    }
    let settings: Vec<&[WorkersSetting]> = kept.iter().map(|swept| &swept.settings[..]).collect();
    let notices = sweep::left_out(&gone, &settings, GAUGE);
    Ok((kept, notices))
}

/// Removes values without effect, because threads have no policy and no map.
fn meaningful(mut settings: Vec<WorkersSetting>) -> Vec<WorkersSetting> {
    if settings.contains(&WorkersSetting::Workers(WorkersKind::Threads)) {
        settings.retain(|value| {
            !matches!(value, WorkersSetting::Policy(_) | WorkersSetting::RankMap(_))
        });
    }
    settings
}

/// Returns the settings of the workers with which a combination is compared. With both kinds of workers in the sweep,
/// these are threads; with policies, the same ranks under policy 0 (as in the plots of the ccNUMA lecture); otherwise,
/// a single rank or thread. If that value is not in the sweep, the first value of the axis is used.
fn reference(settings: &[WorkersSetting], axes: &[WorkersAxis]) -> Vec<WorkersSetting> {
    const BY: [&str; 5] = ["workers", "policy", "rank-map", "ranks", "threads"];
    let own = |name: &str| settings.iter().position(|value| sweep::Setting::axis(value) == name);
    let Some((at, name)) = BY.into_iter().find_map(|name| Some((own(name)?, name))) else {
        return Vec::new();
    };
    let Some(axis) = axes.iter().find(|axis| axis.name() == name) else { return Vec::new() };
    let is_base = |value: &&WorkersSetting| {
        *value == &WorkersSetting::Workers(WorkersKind::Threads)
            || matches!(value, WorkersSetting::Policy(of) if of.policy.number() == 0)
            || matches!(value, WorkersSetting::Ranks(1) | WorkersSetting::Threads(1))
    };
    let base = axis.settings().iter().find(is_base).unwrap_or(&axis.settings()[0]);
    let mut wanted = settings.to_vec();
    wanted[at] = base.clone();
    meaningful(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_placement::Placement;

    /// Returns combinations with their references, for a node that does not support `refused` ranks.
    fn planned(axes: &[&str], refused: u32) -> Result<(Vec<String>, Vec<Notice>), Failure> {
        let axes: Vec<WorkersAxis> = axes.iter().map(|text| text.parse().unwrap()).collect();
        let (swept, notices) = plan(&axes, |settings| match settings {
            [WorkersSetting::Ranks(n), ..] if *n == refused => {
                Err(Failure::beyond("no such ranks"))
            }
            _ => Ok(Workers::Threads(Placement::new(
                nodegauge_placement::Bind::None,
                "",
                Vec::new(),
            ))),
        })?;
        let in_words = |one: &Swept| {
            let words = [&one.settings, &one.reference]
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("/"));
            format!("{} over {}", words[0], words[1])
        };
        Ok((swept.iter().map(in_words).collect(), notices))
    }

    #[test]
    fn each_is_held_against_policy_0_one_rank_or_threads() {
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
    fn what_cannot_be_had_is_left_out_and_what_excludes_itself_is_refused() {
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
