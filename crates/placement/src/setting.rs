//! Axes of a sweep over threads, ranks and memory, for every command that sweeps. A new axis is a new row of the
//! table.

use crate::{
    Binding, CoreChoice, MappedPolicy, NumaSpec, PlacementOptions, PlacesSpec, Policies, RankMap,
    RankPlacementOptions, RankPlan, ThreadCountList,
};
use nodegauge_machine::Topology;
use nodegauge_measure::sweep::{Axis, AxisSyntax, join_values};
use nodegauge_measure::{Failure, settings};

/// Options for threads, memory and ranks together, which the axes of a sweep set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPlacementOptions {
    /// Threads, their places and the memory of one process, or of all ranks together.
    pub process: PlacementOptions,
    /// Ranks and their places.
    pub ranks: RankPlacementOptions,
}

settings! {
    /// Value of an option for threads, ranks or memory.
    pub enum PlacementSetting sets JobPlacementOptions, e.g. "--sweep threads=1,2-32:2 or --sweep policy=0-5" {
        /// Number of threads, per rank if there are ranks.
        Threads(u32) = "threads", counts(),
            given |job| job.process.threads.is_some(),
            set |job, count| job.process.threads = ThreadCountList::new(vec![*count]);
        /// Number of threads per last-level cache.
        PerCache(u32) = "per-cache", counts(),
            given |job| job.process.per_cache.is_some(),
            set |job, count| job.process.per_cache = Some(*count);
        /// Class of cores that threads use.
        Cores(CoreChoice) = "cores", AxisSyntax::comma_separated(),
            given |job| job.process.cores.is_some(),
            set |job, cores| job.process.cores = Some(cores.clone());
        /// Places of the threads.
        Places(PlacesSpec) = "places", AxisSyntax::semicolon_separated(),
            given |job| job.process.places.is_some(),
            set |job, places| job.process.places = Some(places.clone());
        /// Binding policy of the threads.
        Bind(Binding) = "bind", AxisSyntax::comma_separated(),
            given |job| job.process.bind.is_some(),
            set |job, bind| job.process.bind = Some(*bind);
        /// Memory policy of the process.
        Numa(NumaSpec) = "numa", AxisSyntax::semicolon_separated(),
            given |job| job.process.numa.is_some(),
            set |job, numa| job.process.numa = Some(numa.clone());
        /// Number of ranks.
        Ranks(u32) = "ranks", counts(),
            given |job| job.ranks.ranks.is_some(),
            set |job, count| job.ranks.ranks = Some(*count);
        /// Policy for the CPUs and the memory of ranks, and their map if it is given with the policy.
        Policy(MappedPolicy) = "policy", AxisSyntax::with_list_grammar::<Policies>(),
            given |job| job.ranks.policy.is_some(),
            set |job, policy| job.ranks = job.ranks.clone().with_policy(*policy),
            also |policy| policy.map.map(|_| "rank-map");
        /// Socket or core of each rank.
        RankMap(RankMap) = "rank-map", AxisSyntax::comma_separated().with_default(RankMap::ALL),
            given |job| job.ranks.map.is_some(),
            set |job, map| job.ranks.map = Some(*map);
    }
}

/// Returns the syntax of counts, in whose lists ranges are allowed: `1,2-8:2`.
fn counts() -> AxisSyntax<u32> {
    AxisSyntax::with_list_grammar::<ThreadCountList>().with_formatter(count_list)
}

fn count_list(counts: &[u32]) -> String {
    ThreadCountList::new(counts.to_vec())
        .map_or_else(|| join_values::<_, ','>(counts), |list| list.to_string())
}

impl JobPlacementOptions {
    /// Places the requested ranks; `None` if no ranks are requested.
    ///
    /// # Errors
    /// Returns the errors of [`PlacementOptions::plan_ranks`].
    pub fn rank_plan(&self, topology: &Topology) -> Result<Option<RankPlan>, Failure> {
        self.process.plan_ranks(&self.ranks, topology)
    }

    /// Removes several numbers of threads from the options and returns them as an axis; `None` if there is at most one
    /// number.
    pub fn take_thread_axis<S>(&mut self) -> Option<Axis<S>>
    where
        S: nodegauge_measure::sweep::Setting + From<PlacementSetting>,
    {
        let several = self.process.threads.take_if(|counts| counts.single().is_none())?;
        Some(Axis::from_values(several, |count| PlacementSetting::Threads(count).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::sweep::{self, Setting};

    fn axis(text: &str) -> Axis<PlacementSetting> {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn placement_axis_round_trips() {
        for text in [
            "threads=1,2-8:2",
            "per-cache=1,2,4",
            "cores=fast,all,IntelAtom",
            "places=cores;{0:4}:2:4;0:96:2",
            "bind=close,none",
            "numa=local;bind:0,1",
            "ranks=1,2-8:2",
            "policy=0-3,5",
            "policy=0..5",
            "policy=5,3,4,4/even",
            "rank-map=block,cyclic",
            "rank-map",
        ] {
            assert_eq!(axis(&axis(text).to_string()), axis(text), "{text}");
        }
        assert_eq!(axis("threads=1,2,4,6,8").to_string(), "threads=1,2-8:2");
    }

    #[test]
    fn invalid_axis_is_reported_with_its_column() {
        for (text, at) in [
            ("", 0),
            ("thread=1", 0),
            ("threads", 7),
            ("threads=1,x", 10),
            ("places=cores;{0:x}", 16),
            ("bind=close,far", 11),
            ("policy=0-6", 9),
            ("policy=1,5-2", 11),
            ("policy=5,4/evn", 11),
            ("ranks=0", 6),
            ("rank-map=block,round", 15),
        ] {
            assert_eq!(text.parse::<Axis<PlacementSetting>>().unwrap_err().at, at, "{text}");
        }
    }

    /// Every value sets the option of its own axis, and no other.
    #[test]
    fn axis_value_sets_own_option_only() {
        for text in [
            "threads=2",
            "per-cache=1",
            "cores=slow",
            "places=cores",
            "bind=close",
            "numa=local",
            "ranks=2",
            "policy=3",
            "rank-map=block",
        ] {
            let mut job = JobPlacementOptions::default();
            let axis = axis(text);
            axis.settings()[0].apply(&mut job);
            let is_given = |name: &&str| PlacementSetting::is_given(name, &job);
            let given: Vec<&str> =
                PlacementSetting::names().into_iter().filter(|name| is_given(name)).collect();
            assert_eq!(given, [axis.name()], "{text}");
            assert!(sweep::check(&[axis], &job).is_err(), "{text}");
        }
    }

    #[test]
    fn policy_with_a_map_sets_the_rank_map() {
        let mut job = JobPlacementOptions::default();
        let mapped = &axis("policy=4/even").settings()[0].clone();
        mapped.apply(&mut job);
        assert_eq!((job.ranks.map, mapped.linked_axis()), (Some(RankMap::Even), Some("rank-map")));
        assert_eq!(axis("policy=4").settings()[0].linked_axis(), None);
    }

    #[test]
    fn several_thread_counts_are_an_axis() {
        let mut job = JobPlacementOptions::default();
        job.process.threads = Some("1,2".parse().unwrap());
        assert_eq!(job.take_thread_axis(), Some(axis("threads=1,2")));
        assert_eq!(job.process.threads, None);
        job.process.threads = Some("2".parse().unwrap());
        assert_eq!(job.take_thread_axis::<PlacementSetting>(), None);
        assert_eq!(job.process.single_thread_count(), Some(2));
    }
}
