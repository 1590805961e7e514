//! Arrangement of the program for each combination of axis values: ranks, CPUs, memory policy, pages and environment
//! variables.

use crate::axis::{ProgramAxis, ProgramCellOptions, ProgramPages, ProgramSetting};
use crate::{GAUGE, TEST};
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::sweep::{self, Setting as _};
use nodegauge_measure::{Failure, Notice, NoticeId};
use nodegauge_os::ChildPlace;
use nodegauge_placement::{
    Binding, JobPlacementOptions, RankPlace, RankPlacementOptions, RankPlan, emit,
};

/// File with the kernel's setting of transparent huge pages.
const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";
/// Environment variable with which glibc's allocator requests transparent huge pages, for kernels that provide them
/// only on request.
const TUNABLES: &str = "GLIBC_TUNABLES";
const REQUEST_HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";
/// Environment variables that would override or contradict the placement.
const OVERRIDING_VARIABLES: [&str; 3] = ["KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_THREAD_LIMIT"];

/// Options for the placement of the program, and the axes of the sweep.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramOptions {
    /// Threads, ranks, pages and variables that all combinations share.
    pub cell: ProgramCellOptions,
    /// Axes of the sweep.
    pub axes: Vec<ProgramAxis>,
}

/// Places of the processes of the program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProcessPlaces {
    /// One process that is not placed.
    Anywhere,
    /// One process at this place.
    Process(RankPlace),
    /// Several ranks at the places of this plan.
    Ranks(RankPlan),
}

/// Environment variable that the sweep sets, or removes if it has no value.
pub(crate) type VariableChange = (String, Option<String>);

/// Program under one combination of axis values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProgramArrangement {
    pub settings: Vec<ProgramSetting>,
    pub places: ProcessPlaces,
    /// Environment variables that all processes get. The variables of a single rank are part of its place.
    pub variables: Vec<VariableChange>,
    /// True if the kernel must not use transparent huge pages.
    pub without_huge_pages: bool,
}

impl ProgramOptions {
    /// Returns the arrangements that this node supports, with notices about the combinations that it does not support.
    ///
    /// Fails if options contradict each other, if there are too many combinations, or if this node supports none of
    /// them.
    pub(crate) fn arrangements(
        &self,
        topology: &Topology,
        root: &SysRoot,
    ) -> Result<(Vec<ProgramArrangement>, Vec<Notice>), Failure> {
        sweep::check(&self.axes, &self.cell)?;
        self.refuse_hybrid()?;
        let (all, mut notices) = sweep::combinations(&self.axes, GAUGE);
        sweep::check_count(all.len())?;
        let mut arranged = Vec::new();
        for settings in all {
            let arrangement = self.arrange(&settings, topology, root, &mut notices);
            arranged.push((settings, arrangement));
        }
        let (kept, left_out) = sweep::keep_supported(arranged, |cell| &cell.settings[..], GAUGE)?;
        notices.extend(left_out);
        Ok((kept, notices))
    }

    /// Returns an error if `hybrid` is combined with another option for the number of ranks or threads, because
    /// `hybrid` sets both.
    fn refuse_hybrid(&self) -> Result<(), Failure> {
        if !self.is_swept("hybrid") {
            return Ok(());
        }
        let job = &self.cell.job;
        let others = [
            ("--ranks", job.ranks.ranks.is_some()),
            ("--threads", job.process.threads.is_some()),
            ("ranks", self.is_swept("ranks")),
            ("threads", self.is_swept("threads")),
        ];
        match others.into_iter().find(|(_, is_given)| *is_given) {
            Some((other, _)) => Err(Failure::usage(format!(
                "hybrid cannot be combined with {other}"
            ))
            .hint("hybrid gives the numbers of ranks and of threads per rank, e.g. hybrid=8x16")),
            None => Ok(()),
        }
    }

    fn is_swept(&self, name: &str) -> bool {
        self.axes.iter().any(|axis| axis.has_name(name))
    }

    /// Returns the arrangement for one combination of axis values.
    fn arrange(
        &self,
        settings: &[ProgramSetting],
        topology: &Topology,
        root: &SysRoot,
        notices: &mut Vec<Notice>,
    ) -> Result<ProgramArrangement, Failure> {
        let mut cell = self.cell.clone();
        settings.iter().for_each(|setting| setting.apply(&mut cell));
        let placed = places(&cell.job, topology)?;
        let mut variables = placed.variables;
        if cell.pages == Some(ProgramPages::Transparent) {
            variables.extend(huge_pages(root, notices)?);
        }
        // A variable of an axis overrides that of the placement.
        for variable in &cell.variables {
            variables.push((variable.name().to_owned(), Some(variable.value.clone())));
        }
        for text in placed.notices {
            let notice = Notice::new(NoticeId::Environment, GAUGE, text);
            nodegauge_measure::notice::add_new(notices, [notice]);
        }
        Ok(ProgramArrangement {
            settings: settings.to_vec(),
            places: placed.places,
            variables,
            without_huge_pages: cell.pages == Some(ProgramPages::Base),
        })
    }
}

/// Places of the processes of a program, with the variables that the placement requires.
struct PlacedProgram {
    places: ProcessPlaces,
    /// Environment variables that all processes get.
    variables: Vec<VariableChange>,
    notices: Vec<String>,
}

/// Determines the places of the processes of a program.
fn places(job: &JobPlacementOptions, topology: &Topology) -> Result<PlacedProgram, Failure> {
    let process = &job.process;
    if let Some(mut plan) = process.plan_ranks(&with_default_rank(&job.ranks), topology)? {
        let notices = std::mem::take(&mut plan.notices);
        if job.ranks.ranks.is_some() {
            return Ok(PlacedProgram {
                places: ProcessPlaces::Ranks(plan),
                variables: removed_variables(),
                notices,
            });
        }
        // A policy or explicit CPUs place one process, as numactl does.
        let mut place = plan.ranks.swap_remove(0);
        place.rank = None;
        let has_threads = process.threads.is_some() || process.environment.num_threads.is_some();
        let variables =
            if has_threads { set(emit::rank_thread_variables(&place)) } else { Vec::new() };
        return Ok(PlacedProgram { places: ProcessPlaces::Process(place), variables, notices });
    }
    let threads = process.threads.is_some()
        || process.places.is_some()
        || process.bind.is_some()
        || process.per_cache.is_some()
        || process.cores.is_some();
    if !threads && process.numa.is_none() {
        let places = ProcessPlaces::Anywhere;
        return Ok(PlacedProgram { places, variables: Vec::new(), notices: Vec::new() });
    }
    let plan = process.plan_single_team(topology, several_counts_failure)?;
    let mut place = plan.ranks.into_iter().next().ok_or_else(several_counts_failure)?;
    let mut variables = Vec::new();
    if threads {
        variables.extend(removed_variables());
        variables.extend(set(emit::omp_variables(&place)));
    } else {
        // Only the memory is placed; the program chooses its number of threads.
        place.placement.bind = Binding::None;
    }
    Ok(PlacedProgram { places: ProcessPlaces::Process(place), variables, notices: plan.notices })
}

/// Returns the failure for an option with several numbers of threads.
fn several_counts_failure() -> Failure {
    Failure::usage(format!("{TEST} runs the program with a single number of threads"))
        .hint("to compare several, give an axis, e.g. threads=1,2,4")
}

/// Returns the options for ranks. If an option places ranks but the number of ranks is not given, the number is set to
/// one.
fn with_default_rank(ranks: &RankPlacementOptions) -> RankPlacementOptions {
    let places_one = ranks.policy.is_some() || ranks.cpus.is_some();
    let one = ranks.ranks.or(places_one.then_some(1));
    RankPlacementOptions { ranks: one, ..ranks.clone() }
}

fn set(variables: Vec<(&'static str, String)>) -> Vec<VariableChange> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), Some(value))).collect()
}

fn removed_variables() -> Vec<VariableChange> {
    OVERRIDING_VARIABLES.iter().map(|name| ((*name).to_owned(), None)).collect()
}

/// Returns the environment variables with which a program gets transparent huge pages.
fn huge_pages(root: &SysRoot, notices: &mut Vec<Notice>) -> Result<Vec<VariableChange>, Failure> {
    let setting = std::fs::read_to_string(root.path(HUGE_PAGES)).unwrap_or_default();
    if setting.contains("[always]") {
        return Ok(Vec::new());
    }
    if setting.contains("[madvise]") {
        let text = format!(
            "the kernel provides transparent huge pages only on request: \
             {TUNABLES}={REQUEST_HUGE_PAGES} requests them for memory from malloc"
        );
        let notice = Notice::new(NoticeId::Method, GAUGE, text)
            .hint(format!("for all memory: echo always > /{HUGE_PAGES}"));
        nodegauge_measure::notice::add_new(notices, [notice]);
        let before = std::env::var(TUNABLES).ok().filter(|value| !value.is_empty());
        let value = before.into_iter().chain([REQUEST_HUGE_PAGES.to_owned()]);
        let value = value.collect::<Vec<_>>().join(":");
        return Ok(vec![(TUNABLES.to_owned(), Some(value))]);
    }
    Err(Failure::insufficient("transparent huge pages are off on this node")
        .hint(format!("echo madvise > /{HUGE_PAGES}")))
}

impl ProgramArrangement {
    /// Returns the number of ranks; `None` for a single process.
    pub fn ranks(&self) -> Option<usize> {
        match &self.places {
            ProcessPlaces::Ranks(plan) => Some(plan.ranks.len()),
            _ => None,
        }
    }

    /// Returns the places of all processes; empty if the program has a single process that is not placed.
    pub fn rank_places(&self) -> &[RankPlace] {
        match &self.places {
            ProcessPlaces::Anywhere => &[],
            ProcessPlaces::Process(place) => std::slice::from_ref(place),
            ProcessPlaces::Ranks(plan) => &plan.ranks,
        }
    }

    /// Returns the place that the sweep gives the process it starts; none for ranks, which place themselves.
    pub fn child_place(&self) -> ChildPlace {
        let place = match &self.places {
            ProcessPlaces::Process(place) => place.child_place(),
            ProcessPlaces::Anywhere | ProcessPlaces::Ranks(_) => ChildPlace::default(),
        };
        let without_huge_pages = self.without_huge_pages && self.ranks().is_none();
        ChildPlace { without_huge_pages, ..place }
    }

    /// Returns a text with the values on all axes, e.g. `policy 3, threads 4`; `as it is` without axes.
    pub fn in_words(&self) -> String {
        if self.settings.is_empty() {
            "as it is".to_owned()
        } else {
            sweep::in_words(&self.settings)
        }
    }

    /// Returns the values on all axes, for the record.
    pub fn coordinates(&self) -> serde_json::Map<String, serde_json::Value> {
        sweep::coordinates(&self.settings)
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
    ) -> Result<(Vec<ProgramArrangement>, Vec<Notice>), Failure> {
        let axes = axes.iter().map(|text| text.parse().unwrap()).collect();
        let mut options = ProgramOptions { axes, ..ProgramOptions::default() };
        options.cell.job.ranks.ranks = ranks;
        options.arrangements(&t2k(), &SysRoot::live())
    }

    fn value<'a>(of: &'a ProgramArrangement, name: &str) -> Option<&'a str> {
        of.variables.iter().find(|(known, _)| known == name)?.1.as_deref()
    }

    #[test]
    fn policy_places_a_process_like_numactl() {
        let (all, _) = arranged(&["policy=0-5"], None).unwrap();
        let place = |at: usize| all[at].rank_places()[0].clone();
        assert_eq!(place(0).bound_cpus(), None);
        assert_eq!(place(3).bound_cpus().unwrap().len(), 4);
        assert_eq!(place(3).memory, MemoryPolicy::Bind(vec![nodegauge_machine::NumaNodeId(0)]));
        assert_eq!(place(5).memory, MemoryPolicy::Local);
        assert_eq!(value(&all[3], "OMP_NUM_THREADS"), None);
        let (threads, _) = arranged(&["policy=3", "threads=4"], None).unwrap();
        assert_eq!(value(&threads[0], "OMP_NUM_THREADS"), Some("4"));
        assert_eq!(value(&threads[0], "OMP_PLACES"), None);
    }

    #[test]
    fn policy_with_a_map_places_its_ranks() {
        let (all, _) = arranged(&["policy=4,4/even"], Some(2)).unwrap();
        let cpus = |at: usize| -> Vec<u32> {
            all[at].rank_places().iter().map(|rank| rank.bound_cpus().unwrap()[0].0).collect()
        };
        assert_eq!((cpus(0), cpus(1)), (vec![0, 0], vec![0, 4]));
        assert_eq!(all[1].in_words(), "policy 4/even");
        let twice = arranged(&["policy=4/even", "rank-map=block"], Some(2)).unwrap_err();
        let expected = "policy 4/even and --sweep rank-map both specify the rank-map";
        assert!(twice.to_string().starts_with(expected), "{twice}");
    }

    #[test]
    fn threads_are_bound_and_variables_are_set() {
        let (all, _) = arranged(&["threads=2", "env:OMP_SCHEDULE=dynamic"], None).unwrap();
        assert_eq!(value(&all[0], "OMP_PLACES"), Some("{0},{8}"));
        assert_eq!(value(&all[0], "OMP_SCHEDULE"), Some("dynamic"));
        assert!(all[0].variables.contains(&("KMP_AFFINITY".to_owned(), None)));
        assert_eq!(all[0].child_place().cpus, Some(vec![0, 8]));
        let (free, _) = arranged(&["env:A=1,2"], None).unwrap();
        assert_eq!((free.len(), &free[0].places), (2, &ProcessPlaces::Anywhere));
        let (memory, _) = arranged(&["numa=bind:1"], None).unwrap();
        assert_eq!(memory[0].child_place().cpus, None);
        assert_eq!(memory[0].child_place().memory.as_ref().unwrap().1, [1]);
    }

    #[test]
    fn too_large_hybrid_values_are_omitted_and_conflicting_axes_are_refused() {
        let (all, notices) = arranged(&["hybrid=4x4,2x8,16x2", "policy=4"], None).unwrap();
        let counts: Vec<_> = all
            .iter()
            .map(|one| (one.ranks(), one.rank_places()[0].placement.threads.len()))
            .collect();
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
