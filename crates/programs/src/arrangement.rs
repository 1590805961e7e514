//! Arrangement of the program for each combination of the axes: ranks, CPUs, memory policy, pages and variables.

use crate::axis::{ProgramAxis, ProgramPages, ProgramSetting};
use crate::{GAUGE, TEST};
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::sweep::{self, Setting as _};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_os::ChildPlace;
use nodegauge_placement::{
    Bind, PlacementOptions, RankPlace, RankPlacementOptions, RankPlan, ThreadList, emit,
};

/// File with the kernel's setting of transparent huge pages.
const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";
/// Variable by which the allocator of glibc requests transparent huge pages, for a kernel that provides them only on
/// request.
const TUNABLES: &str = "GLIBC_TUNABLES";
const REQUEST_HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";
/// Variables that would override or contradict those of a placement.
const OTHERS: [&str; 3] = ["KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_THREAD_LIMIT"];

/// Options for the placement of the program, and the axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramOptions {
    /// Threads, places and memory of the program.
    pub placement: PlacementOptions,
    /// Ranks of the program.
    pub ranks: RankPlacementOptions,
    /// Axes of the sweep.
    pub axes: Vec<ProgramAxis>,
}

/// Places of the processes of the program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Places {
    /// One process, which is not placed.
    Anywhere,
    /// One process at this place.
    Process(RankPlace),
    /// Ranks.
    Ranks(RankPlan),
}

/// Environment variable that the sweep sets, or removes if it has no value.
pub(crate) type Change = (String, Option<String>);

/// The program under one combination of the axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arrangement {
    pub settings: Vec<ProgramSetting>,
    pub places: Places,
    /// Variables of all processes. Variables of single ranks are in their places.
    pub variables: Vec<Change>,
    /// True if the kernel must not use transparent huge pages.
    pub without_huge_pages: bool,
}

impl ProgramOptions {
    /// Returns the arrangements that this node supports, and notices about the others.
    ///
    /// # Errors
    /// Fails if options contradict each other, if there are too many combinations, and if this node supports none.
    pub(crate) fn arrangements(
        &self,
        topology: &Topology,
        root: &SysRoot,
    ) -> Result<(Vec<Arrangement>, Vec<Notice>), Failure> {
        let ranks = &self.ranks;
        sweep::check(&self.axes, |name| match name {
            "threads" => self.placement.threads.is_some(),
            "places" => self.placement.places.is_some(),
            "bind" => self.placement.bind.is_some(),
            "per-cache" => self.placement.per_cache.is_some(),
            "numa" => self.placement.numa.is_some(),
            "ranks" => ranks.ranks.is_some(),
            "policy" => ranks.policy.is_some(),
            "rank-map" => ranks.map.is_some(),
            _ => false,
        })?;
        let swept = |name: &str| self.axes.iter().any(|axis| axis.name() == name);
        let counts =
            [("--ranks", ranks.ranks.is_some()), ("--threads", self.placement.threads.is_some())];
        let counts = counts.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
        let axis = ["ranks", "threads"].into_iter().find(|name| swept(name));
        if let Some(other) = counts.or(axis).filter(|_| swept("hybrid")) {
            return Err(Failure::usage(format!("hybrid cannot be combined with {other}")).hint(
                "hybrid gives the numbers of ranks and of threads per rank, e.g. hybrid=8x16",
            ));
        }
        let (all, mut notices) = sweep::combinations(&self.axes, GAUGE);
        sweep::check_count(all.len())?;
        let mut kept: Vec<Arrangement> = Vec::new();
        let mut gone = Vec::new();
        for settings in all {
            match self.arranged(&settings, topology, root, &mut notices) {
                Ok(arrangement) => kept.push(arrangement),
                Err(why) if why.is_of_machine() => gone.push((settings, why)),
                Err(why) => return Err(why),
            }
        }
        if kept.is_empty() && !gone.is_empty() {
            return Err(gone.swap_remove(0).1);
        }
        let supported: Vec<&[ProgramSetting]> =
            kept.iter().map(|arrangement| &arrangement.settings[..]).collect();
        notices.extend(sweep::left_out(&gone, &supported, GAUGE));
        Ok((kept, notices))
    }

    /// Arranges the program for one combination.
    fn arranged(
        &self,
        settings: &[ProgramSetting],
        topology: &Topology,
        root: &SysRoot,
        notices: &mut Vec<Notice>,
    ) -> Result<Arrangement, Failure> {
        let mut placement = self.placement.clone();
        let mut ranks = self.ranks.clone();
        let mut variables: Vec<Change> = Vec::new();
        let mut without_huge_pages = false;
        for setting in settings {
            match setting {
                ProgramSetting::Threads(count) => placement.threads = ThreadList::new(vec![*count]),
                ProgramSetting::Ranks(count) => ranks.ranks = Some(*count),
                ProgramSetting::Hybrid(hybrid) => {
                    ranks.ranks = Some(hybrid.ranks);
                    placement.threads = ThreadList::new(vec![hybrid.threads]);
                }
                ProgramSetting::Policy(of) => ranks = ranks.under(*of),
                ProgramSetting::RankMap(map) => ranks.map = Some(*map),
                ProgramSetting::Bind(bind) => placement.bind = Some(*bind),
                ProgramSetting::PerCache(count) => placement.per_cache = Some(*count),
                ProgramSetting::Places(places) => placement.places = Some(places.clone()),
                ProgramSetting::Numa(numa) => placement.numa = Some(numa.clone()),
                ProgramSetting::Pages(ProgramPages::Base) => without_huge_pages = true,
                ProgramSetting::Pages(ProgramPages::Transparent) => {
                    variables.extend(huge_pages(root, notices)?);
                }
                ProgramSetting::Variable(variable) => {
                    variables.push((variable.name().to_owned(), Some(variable.value.clone())));
                }
            }
        }
        let (places, placed, texts) = places(&placement, &ranks, topology)?;
        let notice = |text: String| Notice::new(NoticeId::Environment, GAUGE, text);
        nodegauge_measure::notice::add_new(notices, texts.into_iter().map(notice));
        // A variable of an axis replaces that of the placement.
        let variables = placed.into_iter().chain(variables).collect();
        Ok(Arrangement { settings: settings.to_vec(), places, variables, without_huge_pages })
    }
}

/// Returns the places of the processes, the variables of all processes, and notices.
fn places(
    placement: &PlacementOptions,
    ranks: &RankPlacementOptions,
    topology: &Topology,
) -> Result<(Places, Vec<Change>, Vec<String>), Failure> {
    if let Some(plan) = placement.ranks(&with_one(ranks), topology)? {
        let mut plan = plan;
        let notices = std::mem::take(&mut plan.notices);
        if ranks.ranks.is_some() {
            return Ok((Places::Ranks(plan), removed(), notices));
        }
        // A policy or explicit CPUs place one process, as numactl does.
        let mut place = plan.ranks.swap_remove(0);
        place.rank = None;
        let has_threads =
            placement.threads.is_some() || placement.environment.num_threads.is_some();
        let variables = if has_threads { set(emit::threads_within(&place)) } else { Vec::new() };
        return Ok((Places::Process(place), variables, notices));
    }
    let threads = placement.threads.is_some()
        || placement.places.is_some()
        || placement.bind.is_some()
        || placement.per_cache.is_some();
    if !threads && placement.numa.is_none() {
        return Ok((Places::Anywhere, Vec::new(), Vec::new()));
    }
    let several = || {
        Failure::usage(format!("{TEST} runs the program with a single number of threads"))
            .hint("to compare several, give an axis, e.g. threads=1,2,4")
    };
    let plan = placement.single(topology, several)?;
    let mut place = plan.ranks.into_iter().next().ok_or_else(several)?;
    if !threads {
        // Only the memory is placed; the number of threads is that of the program.
        place.placement.bind = Bind::None;
        return Ok((Places::Process(place), Vec::new(), plan.notices));
    }
    let variables = removed().into_iter().chain(set(emit::omp(&place))).collect();
    Ok((Places::Process(place), variables, plan.notices))
}

/// Returns the options with one rank if an option places ranks without a number.
fn with_one(ranks: &RankPlacementOptions) -> RankPlacementOptions {
    let places_one = ranks.policy.is_some() || ranks.cpus.is_some();
    let one = ranks.ranks.or(places_one.then_some(1));
    RankPlacementOptions { ranks: one, ..ranks.clone() }
}

fn set(variables: Vec<(&'static str, String)>) -> Vec<Change> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), Some(value))).collect()
}

fn removed() -> Vec<Change> {
    OTHERS.iter().map(|name| ((*name).to_owned(), None)).collect()
}

/// Returns the variables with which a program gets transparent huge pages.
fn huge_pages(root: &SysRoot, notices: &mut Vec<Notice>) -> Result<Vec<Change>, Failure> {
    let setting = std::fs::read_to_string(root.path(HUGE_PAGES)).unwrap_or_default();
    if setting.contains("[always]") {
        return Ok(Vec::new());
    }
    if setting.contains("[madvise]") {
        let text = format!(
            "transparent huge pages only on request: {TUNABLES}={REQUEST_HUGE_PAGES} requests them for memory of malloc"
        );
        let notice = Notice::new(NoticeId::Method, GAUGE, text)
            .hint(format!("for all memory: echo always > /{HUGE_PAGES}"));
        nodegauge_measure::notice::add_new(notices, [notice]);
        let before = std::env::var(TUNABLES).ok().filter(|value| !value.is_empty());
        let value = before.into_iter().chain([REQUEST_HUGE_PAGES.to_owned()]);
        let value = value.collect::<Vec<_>>().join(":");
        return Ok(vec![(TUNABLES.to_owned(), Some(value))]);
    }
    Err(Failure::beyond("transparent huge pages are off on this node")
        .hint(format!("echo madvise > /{HUGE_PAGES}")))
}

impl Arrangement {
    /// Returns the number of ranks; `None` for a single process.
    pub fn ranks(&self) -> Option<usize> {
        match &self.places {
            Places::Ranks(plan) => Some(plan.ranks.len()),
            _ => None,
        }
    }

    /// Returns the places of all processes; empty if the only process is not placed.
    pub fn placed(&self) -> &[RankPlace] {
        match &self.places {
            Places::Anywhere => &[],
            Places::Process(place) => std::slice::from_ref(place),
            Places::Ranks(plan) => &plan.ranks,
        }
    }

    /// Returns the place of the only process. The processes of ranks place themselves.
    pub fn child_place(&self) -> ChildPlace {
        let place = match &self.places {
            Places::Process(place) => place.child_place(),
            Places::Anywhere | Places::Ranks(_) => ChildPlace::default(),
        };
        let without_huge_pages = self.without_huge_pages && self.ranks().is_none();
        ChildPlace { without_huge_pages, ..place }
    }

    /// Formats the values on all axes: `policy 3, threads 4`. Without axes, the program runs `as it is`.
    pub fn in_words(&self) -> String {
        if self.settings.is_empty() {
            "as it is".to_owned()
        } else {
            sweep::in_words(&self.settings)
        }
    }

    /// Returns the values on all axes, for the record.
    pub fn coordinates(&self) -> serde_json::Map<String, serde_json::Value> {
        let entry =
            |setting: &ProgramSetting| (setting.axis().to_owned(), setting.to_string().into());
        self.settings.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_placement::MemoryPolicy;

    fn t2k() -> Topology {
        let source = TopologySource::Synthetic("Package:4 NUMANode:1 Core:4 PU:1".to_owned());
        Topology::load(&source).unwrap()
    }

    fn arranged(
        axes: &[&str],
        ranks: Option<u32>,
    ) -> Result<(Vec<Arrangement>, Vec<Notice>), Failure> {
        let axes = axes.iter().map(|text| text.parse().unwrap()).collect();
        let ranks = RankPlacementOptions { ranks, ..RankPlacementOptions::default() };
        let options = ProgramOptions { axes, ranks, ..ProgramOptions::default() };
        options.arrangements(&t2k(), &SysRoot::live())
    }

    fn value<'a>(of: &'a Arrangement, name: &str) -> Option<&'a str> {
        of.variables.iter().find(|(known, _)| known == name)?.1.as_deref()
    }

    #[test]
    fn a_policy_places_one_process_as_numactl_does_and_leaves_its_threads() {
        let (all, _) = arranged(&["policy=0-5"], None).unwrap();
        let place = |at: usize| all[at].placed()[0].clone();
        assert_eq!(place(0).bound_cpus(), None);
        assert_eq!(place(3).bound_cpus().unwrap().len(), 4);
        assert_eq!(place(3).memory, MemoryPolicy::Bind(vec![nodegauge_machine::NodeId(0)]));
        assert_eq!(place(5).memory, MemoryPolicy::Local);
        assert_eq!(value(&all[3], "OMP_NUM_THREADS"), None);
        let (threads, _) = arranged(&["policy=3", "threads=4"], None).unwrap();
        assert_eq!(value(&threads[0], "OMP_NUM_THREADS"), Some("4"));
        assert_eq!(value(&threads[0], "OMP_PLACES"), None);
    }

    #[test]
    fn policy_with_a_map_places_its_ranks_by_the_map() {
        let (all, _) = arranged(&["policy=4,4/even"], Some(2)).unwrap();
        let cpus = |at: usize| -> Vec<u32> {
            all[at].placed().iter().map(|rank| rank.bound_cpus().unwrap()[0].0).collect()
        };
        assert_eq!((cpus(0), cpus(1)), (vec![0, 0], vec![0, 4]));
        assert_eq!(all[1].in_words(), "policy 4/even");
        let twice = arranged(&["policy=4/even", "rank-map=block"], Some(2)).unwrap_err();
        let expected = "policy 4/even and --sweep rank-map both give the rank-map";
        assert!(twice.to_string().starts_with(expected), "{twice}");
    }

    #[test]
    fn threads_are_bound_and_variables_follow() {
        let (all, _) = arranged(&["threads=2", "env:OMP_SCHEDULE=dynamic"], None).unwrap();
        assert_eq!(value(&all[0], "OMP_PLACES"), Some("{0},{8}"));
        assert_eq!(value(&all[0], "OMP_SCHEDULE"), Some("dynamic"));
        assert!(all[0].variables.contains(&("KMP_AFFINITY".to_owned(), None)));
        assert_eq!(all[0].child_place().cpus, Some(vec![0, 8]));
        let (free, _) = arranged(&["env:A=1,2"], None).unwrap();
        assert_eq!((free.len(), &free[0].places), (2, &Places::Anywhere));
        let (memory, _) = arranged(&["numa=bind:1"], None).unwrap();
        assert_eq!(memory[0].child_place().cpus, None);
        assert_eq!(memory[0].child_place().memory.as_ref().unwrap().1, [1]);
    }

    #[test]
    fn hybrids_are_ranks_with_threads_and_those_beyond_the_node_are_left_out() {
        let (all, notices) = arranged(&["hybrid=4x4,2x8,16x2", "policy=4"], None).unwrap();
        let counts: Vec<_> =
            all.iter().map(|one| (one.ranks(), one.placed()[0].placement.threads.len())).collect();
        assert_eq!(counts, [(Some(4), 4), (Some(2), 8)]);
        assert!(
            notices[0]
                .message
                .starts_with("hybrid 16x2 left out: cannot place 16 ranks of 2 threads"),
            "{}",
            notices[0]
        );
        let both = arranged(&["hybrid=4x4", "ranks=2"], None).unwrap_err().to_string();
        assert!(both.starts_with("hybrid cannot be combined with ranks"), "{both}");
        let twice = arranged(&["ranks=1,2"], Some(4)).unwrap_err().to_string();
        assert!(twice.starts_with("--ranks is both fixed and swept"), "{twice}");
        let four = arranged(&["ranks=1", "threads=1", "bind=none", "pages"], None).unwrap_err();
        assert!(four.to_string().starts_with("a sweep has at most three axes"), "{four}");
    }
}
