//! Classes of cores of equal speed. hwloc treats every difference of capacity as another kind, even if cores of one
//! design have maximum clocks that differ by a few percent. Such kinds are combined: work that is divided equally takes
//! no longer on all these cores than on only the fastest of them, because there are more cores. The functions are pure.

use super::HardwareThread;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum speed of a kind, divided by the speed of the fastest kind in its class. hwloc ranks cores as equal if
/// their maximum clocks differ by at most a tenth (`HWLOC_CPUKINDS_MAXFREQ`, default `adjust=10`); here the same
/// applies to capacities.
const EQUAL_SPEED: f64 = 0.9;

/// Kind of cores that hwloc found.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CoreKind {
    /// Rank that hwloc assigns, higher is faster; `None` if unknown.
    pub rank: Option<usize>,
    /// Capacity that Linux reports; the fastest core has 1024.
    pub capacity: Option<f64>,
    /// Maximum clock, MHz.
    pub clock: Option<f64>,
    /// Name of the design, such as `IntelAtom`.
    pub design: Option<String>,
}

impl CoreKind {
    /// True if cores of this kind are as fast as those of `fastest`, within [`EQUAL_SPEED`].
    fn is_as_fast_as(&self, fastest: &Self) -> bool {
        let designs = self.design.as_ref().zip(fastest.design.as_ref());
        if designs.is_some_and(|(own, other)| own != other) {
            return false;
        }
        // The capacity contains the clock.
        let speeds = self.capacity.zip(fastest.capacity).or(self.clock.zip(fastest.clock));
        speeds.is_some_and(|(own, max)| own >= EQUAL_SPEED * max)
    }

    /// Compares the speeds of two kinds: by capacity if both are known, otherwise by rank.
    fn by_speed(&self, other: &Self) -> Ordering {
        match self.capacity.zip(other.capacity) {
            Some((own, theirs)) => own.total_cmp(&theirs).then(self.rank.cmp(&other.rank)),
            None => self.rank.cmp(&other.rank),
        }
    }
}

/// Cores of equal speed, with the properties of their kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpeedClass {
    /// Names of the designs, such as `IntelAtom`; empty if unknown.
    pub designs: Vec<String>,
    /// Lowest and highest capacity (`cpu_capacity`) that Linux reports; `None` if unknown.
    pub capacities: Option<[u32; 2]>,
    /// Lowest and highest maximum clock, MHz; `None` if unknown.
    pub clocks: Option<[u32; 2]>,
    /// True for the cores about whose kind a description of other kinds contains nothing. Their speed is unknown; they
    /// count as slower than all others, so that they are used only on request.
    pub is_unknown: bool,
}

/// Completes the classes of hardware threads, so that each core is in exactly one class: all hardware threads of a core
/// get the class of the fastest of them, because hypervisors may report several kinds for one core; cores of no kind
/// form a class of their own; and classes without cores are removed. There are no classes if fewer than two remain.
pub(super) fn complete_classes(threads: &mut [HardwareThread], classes: &mut Vec<SpeedClass>) {
    unify_core_classes(threads);
    if !classes.is_empty() && threads.iter().any(|thread| thread.speed_class.is_none()) {
        classes.insert(0, SpeedClass { is_unknown: true, ..SpeedClass::default() });
        for thread in &mut *threads {
            thread.speed_class = Some(thread.speed_class.map_or(0, |class| class + 1));
        }
    }
    let used: BTreeSet<usize> = threads.iter().filter_map(|thread| thread.speed_class).collect();
    let numbers: BTreeMap<usize, usize> =
        used.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    *classes = used.iter().filter_map(|class| classes.get(*class).cloned()).collect();
    let is_one = classes.len() < 2;
    for thread in threads {
        let class = thread.speed_class.filter(|_| !is_one);
        thread.speed_class = class.and_then(|old| numbers.get(&old).copied());
    }
    if is_one {
        classes.clear();
    }
}

/// Describes the classes that [`classes`] found, the slowest first; empty if there are no classes.
pub(super) fn describe_classes(kinds: &[CoreKind], classes: &[Option<usize>]) -> Vec<SpeedClass> {
    let count = classes.iter().flatten().max().map_or(0, |max| max + 1);
    let mut found = vec![SpeedClass::default(); count];
    for (kind, class) in kinds.iter().zip(classes) {
        let Some(class) = class else { continue };
        let class = &mut found[*class];
        if let Some(design) = kind.design.as_ref().filter(|name| !class.designs.contains(name)) {
            class.designs.push(design.clone());
        }
        class.capacities = widened(class.capacities, kind.capacity);
        class.clocks = widened(class.clocks, kind.clock);
    }
    found
}

/// Extends a range so that it contains a further value.
fn widened(range: Option<[u32; 2]>, value: Option<f64>) -> Option<[u32; 2]> {
    let Some(value) = value.map(|value| value.round() as u32) else { return range };
    let [min, max] = range.unwrap_or([value, value]);
    Some([min.min(value), max.max(value)])
}

/// Assigns to all hardware threads of a core the class of the fastest of them.
fn unify_core_classes(threads: &mut [HardwareThread]) {
    let mut fastest: BTreeMap<usize, Option<usize>> = BTreeMap::new();
    for thread in threads.iter() {
        let class = fastest.entry(thread.core).or_insert(thread.speed_class);
        *class = (*class).max(thread.speed_class);
    }
    for thread in threads {
        thread.speed_class = fastest[&thread.core];
    }
}

/// Returns the name of a class in options and on pages; `class` counts from the slowest.
pub(super) fn speed_class_name(class: usize, classes: &[SpeedClass]) -> String {
    let slowest = classes.iter().position(|one| !one.is_unknown).unwrap_or(0);
    match classes.len().saturating_sub(class) {
        _ if class < slowest => "unknown".to_owned(),
        0 | 1 => "fast".to_owned(),
        _ if class == slowest => "slow".to_owned(),
        between => format!("class{between}"),
    }
}

/// Returns the speed class of each kind; higher is faster. All are `None` if the kinds are of one class, or if
/// neither ranks nor capacities are known.
pub(super) fn classes(kinds: &[CoreKind]) -> Vec<Option<usize>> {
    let all_ranked = kinds.iter().all(|kind| kind.rank.is_some());
    let all_rated = kinds.iter().all(|kind| kind.capacity.is_some());
    if !(all_ranked || all_rated) {
        return vec![None; kinds.len()];
    }
    let mut fastest_first: Vec<usize> = (0..kinds.len()).collect();
    // With capacities of some kinds only, the order by both would not be transitive.
    fastest_first.sort_by(|a, b| {
        let earlier = &kinds[*b];
        let later = &kinds[*a];
        if all_rated { earlier.by_speed(later) } else { earlier.rank.cmp(&later.rank) }
    });
    let mut members: Vec<Vec<usize>> = Vec::new();
    for index in fastest_first {
        match members.last_mut() {
            Some(class) if kinds[index].is_as_fast_as(&kinds[class[0]]) => class.push(index),
            _ => members.push(vec![index]),
        }
    }
    let mut found = vec![None; kinds.len()];
    if members.len() < 2 {
        return found;
    }
    for (class, indices) in members.iter().rev().enumerate() {
        for index in indices {
            found[*index] = Some(class);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(capacity: f64, rank: usize) -> CoreKind {
        CoreKind { rank: Some(rank), capacity: Some(capacity), ..CoreKind::default() }
    }

    fn clocked(clock: f64, rank: usize, design: Option<&str>) -> CoreKind {
        let design = design.map(str::to_owned);
        CoreKind { rank: Some(rank), capacity: None, clock: Some(clock), design }
    }

    #[test]
    fn cores_of_similar_capacity_form_one_class() {
        // Capacities of the ten Cortex-A725 and ten Cortex-X925 of a GB10.
        let gb10: Vec<CoreKind> = [718.0, 731.0, 997.0, 1017.0, 1024.0]
            .into_iter()
            .enumerate()
            .map(|(rank, capacity)| rated(capacity, rank))
            .collect();
        assert_eq!(classes(&gb10), [Some(0), Some(0), Some(1), Some(1), Some(1)]);
        let unranked: Vec<CoreKind> =
            gb10.into_iter().map(|kind| CoreKind { rank: None, ..kind }).collect();
        assert_eq!(classes(&unranked), [Some(0), Some(0), Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn cores_of_similar_clock_form_one_class() {
        // Cortex-A55 and two clusters of Cortex-A76 of an RK3588.
        let kinds = [clocked(1800.0, 0, None), clocked(2304.0, 1, None), clocked(2352.0, 2, None)];
        assert_eq!(classes(&kinds), [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn cores_of_different_designs_form_different_classes() {
        let designs =
            [clocked(4700.0, 0, Some("IntelAtom")), clocked(4800.0, 1, Some("IntelCore"))];
        assert_eq!(classes(&designs), [Some(0), Some(1)]);
    }

    #[test]
    fn class_is_relative_to_its_fastest_kind() {
        let steps: Vec<CoreKind> =
            [600.0, 700.0, 800.0, 920.0, 1024.0].map(|capacity| rated(capacity, 0)).to_vec();
        // 920 is below nine tenths of 1024, 800 below those of 920, and so on.
        assert_eq!(classes(&steps), [0, 1, 2, 3, 4].map(Some));
    }

    #[test]
    fn classes_have_names_and_ranges() {
        let names = |classes: Vec<SpeedClass>| -> Vec<String> {
            (0..classes.len()).map(|class| speed_class_name(class, &classes)).collect()
        };
        let of_two = vec![SpeedClass::default(); 2];
        assert_eq!(names(of_two.clone()), ["slow", "fast"]);
        assert_eq!(names(vec![SpeedClass::default(); 4]), ["slow", "class3", "class2", "fast"]);
        let unknown = SpeedClass { is_unknown: true, ..SpeedClass::default() };
        assert_eq!(names([vec![unknown], of_two].concat()), ["unknown", "slow", "fast"]);
        let kinds = [rated(718.0, 0), rated(731.0, 1), rated(1017.0, 2), rated(1024.0, 3)];
        let found = describe_classes(&kinds, &classes(&kinds));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].capacities, Some([718, 731]));
        assert_eq!(found[1].capacities, Some([1017, 1024]));
        assert_eq!(found[1].clocks, None);
        assert!(describe_classes(&kinds[..1], &[None]).is_empty());
    }

    #[test]
    fn kinds_of_unknown_or_equal_speed_have_no_class() {
        let unknown = [CoreKind::default(), CoreKind::default()];
        assert_eq!(classes(&unknown), [None, None]);
        assert_eq!(classes(&[rated(1000.0, 0), rated(1024.0, 1)]), [None, None]);
        assert_eq!(classes(&[]), []);
        // Ranks alone distinguish kinds.
        let ranked = [0, 1].map(|rank| CoreKind { rank: Some(rank), ..CoreKind::default() });
        assert_eq!(classes(&ranked), [Some(0), Some(1)]);
    }
}
