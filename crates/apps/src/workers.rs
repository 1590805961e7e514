//! Workers of an application, planned from options: threads or ranks for each combination of a sweep, or the ranks that
//! an MPI launcher has started.
//!
//! A worker is a thread or a process with one thread. The default is one worker per core. Ranks are planned only if an
//! option or an axis requests ranks; [`WorkersOptions::threads_and_ranks`] always plans threads and ranks.

use crate::GAUGE;
use crate::sweep::{
    self, SweepWorkers, WorkersAxis, WorkersCellOptions, WorkersKind, WorkersSetting,
};
use nodegauge_machine::Topology;
use nodegauge_measure::sweep::{self as grid, Setting as _};
use nodegauge_measure::{Failure, FailureKind, Notice, NoticeId, notice};
use nodegauge_placement::{
    Binding, JobPlacementOptions, LauncherJob, MappedPolicy, MemoryPolicy, Placement,
    PlacementRequest, PlacementSetting, Policies, RankPolicy, ThreadCountList, plan,
};
use nodegauge_team::mpi::World;
use nodegauge_team::{Workers, hosts};

/// Options for the workers of an application.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkersOptions {
    /// Threads, ranks and their places.
    pub cell: WorkersCellOptions,
    /// Placement policies of ranks; an empty list means that only threads are measured.
    pub policies: Option<Policies>,
    /// Axes of a sweep.
    pub axes: Vec<WorkersAxis>,
}

/// Ranks that an MPI launcher has started, as seen by rank 0.
pub struct MpiRanks {
    /// Launcher of this process.
    pub launcher_job: LauncherJob,
    world: &'static World,
    /// CPUs to which the launcher has bound every rank.
    cpus: Vec<Vec<u32>>,
}

impl MpiRanks {
    /// Collects the CPUs and the hosts of all ranks; every rank must call this function. Returns `None` on all ranks
    /// except rank 0. `version` is that of the program.
    ///
    /// Fails if ranks do not respond, or if they run different versions.
    pub fn gather(
        launcher_job: &LauncherJob,
        world: &'static World,
        version: &str,
    ) -> Result<Option<Self>, Failure> {
        let all = hosts::gather_rank_cpus(world, version)?;
        Ok(all.map(|cpus| Self { launcher_job: launcher_job.clone(), world, cpus }))
    }

    /// Returns the ranks as workers, at the places chosen by the launcher.
    fn workers(&self, topology: &Topology, notices: &mut Vec<Notice>) -> Result<Workers, Failure> {
        let plan = self.launcher_job.place_ranks(&self.cpus, topology, 1, &MemoryPolicy::Default);
        let mut plan = plan.map_err(|(rank, why)| {
            Failure::from(why).with_context(format_args!("rank {rank}")).kind(FailureKind::Usage)
        })?;
        add(notices, std::mem::take(&mut plan.notices));
        Ok(Workers::Mpi(plan, self.world))
    }
}

impl WorkersOptions {
    /// Returns the workers of all combinations of the axes, or the ranks that a launcher has started.
    ///
    /// Fails if options contradict each other or the launcher, if a memory policy is given, or if this node supports
    /// none of the workers.
    pub(crate) fn sweep_workers(
        &self,
        topology: &Topology,
        joined: Option<&MpiRanks>,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<SweepWorkers>, Failure> {
        self.refuse_numa()?;
        self.refuse_two_maps()?;
        if let Some(ranks) = joined {
            self.refuse_all(&ranks.launcher_job)?;
            return Ok(vec![SweepWorkers::without_sweep(ranks.workers(topology, notices)?)]);
        }
        let (axes, fixed) = self.axes()?;
        let (swept, left_out) =
            sweep::plan(&axes, |settings| fixed.clone().workers(settings, topology, notices))?;
        notices.extend(left_out);
        Ok(swept)
    }

    /// Returns one thread, and the ranks that a launcher has started, to compare them.
    ///
    /// # Errors
    /// Fails if options contradict the launcher.
    pub(crate) fn thread_and_launched_ranks(
        &self,
        topology: &Topology,
        joined: &MpiRanks,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<Workers>, Failure> {
        self.refuse_numa()?;
        self.refuse_all(&joined.launcher_job)?;
        let ranks = joined.workers(topology, notices)?;
        let alone = Placement::new(Binding::None, "unbound", vec![Vec::new()]);
        Ok(vec![Workers::Threads(alone), ranks])
    }

    /// Returns threads and ranks to compare them. The numbers of threads range from one to one per core, unless numbers
    /// are given. Ranks are planned for every policy that this machine supports.
    ///
    /// Fails if a memory policy is given, or if requested threads or ranks do not fit the machine.
    pub(crate) fn threads_and_ranks(
        &self,
        topology: &Topology,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<Workers>, Failure> {
        self.refuse_numa()?;
        self.refuse_two_maps()?;
        let job = &self.cell.job;
        let mut placement = job.process.clone();
        let counts = doubled(cores(topology)?);
        placement.threads = placement.threads.or_else(|| ThreadCountList::new(counts));
        let placed = placement.place_teams(topology)?;
        add(notices, placed.notices);
        let mut workers: Vec<Workers> =
            placed.placements.into_iter().map(Workers::Threads).collect();
        workers.sort_by_key(Workers::count);
        let policies = match &self.policies {
            Some(given) => given.0.clone(),
            None => (0..=5).filter_map(RankPolicy::new).map(MappedPolicy::from).collect(),
        };
        for policy in policies {
            let mut under = job.clone();
            under.ranks = under.ranks.with_policy(policy);
            match ranks(under, topology, notices) {
                Ok(planned) => workers.push(planned),
                Err(why) if self.policies.is_some() || job.ranks.ranks.is_some() => {
                    return Err(why);
                }
                Err(why) => {
                    let text = format!("policy {policy} left out: {}", why.single_line());
                    notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
                }
            }
        }
        Ok(workers)
    }

    /// Returns an error if a memory policy is given, because applications place memory by first touch.
    fn refuse_numa(&self) -> Result<(), Failure> {
        let swept =
            self.axes.iter().flat_map(WorkersAxis::settings).find_map(|value| match value {
                WorkersSetting::Placement(PlacementSetting::Numa(spec)) => Some(spec),
                _ => None,
            });
        match self.cell.job.process.numa.as_ref().or(swept) {
            Some(spec) => Err(Failure::usage(format!(
                "--numa {spec} is not supported: applications place their memory by first touch"
            ))
            .hint("start nodegauge with numactl, or use --policy for ranks")),
            None => Ok(()),
        }
    }

    /// Returns an error if a policy with its own rank map is combined with another rank map.
    fn refuse_two_maps(&self) -> Result<(), Failure> {
        let mapped = self.policies.iter().flat_map(|given| &given.0).find(|of| of.map.is_some());
        let is_swept = self.axes.iter().any(|axis| axis.has_name("rank-map"));
        match mapped.filter(|_| is_swept || self.cell.job.ranks.map.is_some()) {
            Some(policy) => {
                let problem = format!("--policy {policy} and the rank map both place the threads");
                Err(Failure::usage(problem)
                    .hint(format!("give one of them, e.g. --policy {policy}")))
            }
            None => Ok(()),
        }
    }

    /// Returns an error if a placement option is given, because the launcher has placed the ranks.
    fn refuse_all(&self, launcher_job: &LauncherJob) -> Result<(), Failure> {
        let JobPlacementOptions { process, ranks } = &self.cell.job;
        let given = [
            ("--threads", process.threads.is_some()),
            ("--places", process.places.is_some()),
            ("--bind", process.bind.is_some()),
            ("--per-cache", process.per_cache.is_some()),
            ("--cores", process.cores.is_some()),
            ("--ranks", ranks.ranks.is_some()),
            ("--rank-map", ranks.map.is_some()),
            ("--policy", self.policies.is_some()),
            ("--sweep", !self.axes.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} cannot be used: {}", launcher_job.in_words()))
                    .hint("let the launcher place the ranks, or start one process"))
            }
            None => Ok(()),
        }
    }

    /// Returns the axes of the sweep, and the options that all combinations share. Several numbers of threads form an
    /// axis, and several policies, too.
    fn axes(&self) -> Result<(Vec<WorkersAxis>, WorkersCellOptions), Failure> {
        let mut axes = self.axes.clone();
        let mut fixed = self.cell.clone();
        if let Some(threads) = fixed.job.take_thread_axis() {
            axes.insert(0, threads);
        }
        match self.policies.as_ref().map(|given| given.0.as_slice()) {
            None | Some([]) => {}
            Some([policy]) => fixed.job.ranks = fixed.job.ranks.with_policy(*policy),
            Some(several) => axes
                .push(WorkersAxis::from_values(several.iter().copied(), |policy| {
                    PlacementSetting::Policy(policy).into()
                })),
        }
        grid::check(&axes, &fixed)?;
        Ok((axes, fixed))
    }
}

impl WorkersCellOptions {
    /// Returns the workers of a combination: ranks if an option or an axis requests ranks, otherwise threads.
    fn workers(
        mut self,
        settings: &[WorkersSetting],
        topology: &Topology,
        notices: &mut Vec<Notice>,
    ) -> Result<Workers, Failure> {
        settings.iter().for_each(|setting| setting.apply(&mut self));
        let JobPlacementOptions { process, ranks: of_ranks } = &mut self.job;
        let has_ranks =
            of_ranks.ranks.is_some() || of_ranks.map.is_some() || of_ranks.policy.is_some();
        // If the sweep has both kinds of workers, a number of workers applies to both.
        let threads = process.single_thread_count();
        let is_of_ranks = match self.kind {
            Some(WorkersKind::Threads) => {
                let count = threads.or(of_ranks.ranks);
                process.threads = count.and_then(|count| ThreadCountList::new(vec![count]));
                false
            }
            Some(WorkersKind::Ranks) => {
                of_ranks.ranks = of_ranks.ranks.or(threads);
                true
            }
            None => has_ranks,
        };
        if is_of_ranks {
            return ranks(self.job, topology, notices);
        }
        let placed = process.place_teams(topology)?;
        add(notices, placed.notices);
        let only = placed.placements.into_iter().next();
        only.map(Workers::Threads).ok_or_else(|| Failure::usage("expected threads"))
    }
}

/// Returns ranks with one thread; the default number is one rank per core.
fn ranks(
    mut job: JobPlacementOptions,
    topology: &Topology,
    notices: &mut Vec<Notice>,
) -> Result<Workers, Failure> {
    if job.ranks.ranks.is_none() {
        job.ranks.ranks = Some(cores(topology)?);
    }
    job.process.threads = ThreadCountList::new(vec![1]);
    let mut plan =
        job.rank_plan(topology)?.unwrap_or_else(|| unreachable!("their number is given"));
    add(notices, std::mem::take(&mut plan.notices));
    Ok(Workers::Ranks(plan))
}

/// Returns the number of cores that this process may use.
fn cores(topology: &Topology) -> Result<u32, Failure> {
    Ok(plan(topology, &PlacementRequest::default())?.threads.len() as u32)
}

/// Adds the notices of a placement that are not yet in the list.
fn add(notices: &mut Vec<Notice>, texts: Vec<String>) {
    for text in texts {
        notice::add_new(notices, [Notice::new(NoticeId::Environment, GAUGE, text)]);
    }
}

/// Returns the powers of two below `max`, and `max`.
fn doubled(max: u32) -> Vec<u32> {
    let powers = std::iter::successors(Some(1), |count| Some(2 * count));
    powers.take_while(|count| *count < max).chain([max.max(1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_placement::RankMap;

    fn topology() -> Topology {
        let source = TopologySource::Synthetic("Package:2 NUMANode:1 Core:3 PU:1".to_owned());
        Topology::load(&source).unwrap()
    }

    fn words(options: &WorkersOptions) -> Vec<String> {
        let swept = options.sweep_workers(&topology(), None, &mut Vec::new()).unwrap();
        swept.iter().map(|one| one.workers.in_words()).collect()
    }

    #[test]
    fn worker_counts_double_up_to_the_maximum() {
        let of = [1, 2, 6, 8].map(doubled);
        assert_eq!(of, [vec![1], vec![1, 2], vec![1, 2, 4, 6], vec![1, 2, 4, 8]]);
    }

    #[test]
    fn options_determine_kind_and_number_of_workers() {
        assert_eq!(words(&WorkersOptions::default()), ["6 threads"]);
        let mut by_map = WorkersOptions::default();
        by_map.cell.job.ranks.map = Some(RankMap::Block);
        assert_eq!(words(&by_map), ["6 ranks, block"]);
        let axes = vec!["workers".parse().unwrap()];
        let mut both = WorkersOptions { axes, ..WorkersOptions::default() };
        both.cell.job.ranks.ranks = Some(4);
        assert_eq!(words(&both), ["4 threads", "4 ranks, spread"]);
        let policies = Some("0,3".parse().unwrap());
        let by_policy = WorkersOptions { policies, ..both };
        let under = ["4 threads", "4 ranks, policy 0 block", "4 ranks, policy 3 block"];
        assert_eq!(words(&by_policy), under);
    }

    #[test]
    fn policy_with_a_rank_map_excludes_another_map() {
        let with_map = |map: Option<RankMap>, axis: &str| {
            let mut options = WorkersOptions {
                policies: Some("4/even".parse().unwrap()),
                axes: axis.split_whitespace().map(|text| text.parse().unwrap()).collect(),
                ..WorkersOptions::default()
            };
            options.cell.job.ranks.ranks = Some(4);
            options.cell.job.ranks.map = map;
            options
        };
        let several =
            WorkersOptions { policies: Some("5,4,4/even".parse().unwrap()), ..with_map(None, "") };
        let under =
            ["4 ranks, policy 5 block", "4 ranks, policy 4 block", "4 ranks, policy 4 even"];
        assert_eq!(words(&several), under);
        assert_eq!(words(&with_map(None, "")), ["4 ranks, policy 4 even"]);
        for options in [with_map(Some(RankMap::Block), ""), with_map(None, "rank-map")] {
            let refusal = options.sweep_workers(&topology(), None, &mut Vec::new()).unwrap_err();
            let problem = "--policy 4/even and the rank map both place the threads";
            assert_eq!(refusal.reason(), problem);
            let refused = options.threads_and_ranks(&topology(), &mut Vec::new()).unwrap_err();
            assert_eq!(refused.reason(), problem);
        }
    }

    #[test]
    fn threads_are_compared_with_ranks_under_each_policy() {
        let mut notices = Vec::new();
        let compared =
            WorkersOptions::default().threads_and_ranks(&topology(), &mut notices).unwrap();
        let counts: Vec<usize> = compared.iter().map(Workers::count).collect();
        assert_eq!(counts, [1, 2, 4, 6, 6, 6, 6, 6, 6, 6]);
        let policies: Vec<Option<u8>> = compared.iter().map(Workers::policy_number).collect();
        assert_eq!(policies[4..], [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn memory_policy_is_refused() {
        let mut options = WorkersOptions::default();
        options.cell.job.process.numa = Some("local".parse().unwrap());
        let axes = vec!["numa=local;bind:0".parse().unwrap()];
        for refused in [options, WorkersOptions { axes, ..WorkersOptions::default() }] {
            let refusal = refused.sweep_workers(&topology(), None, &mut Vec::new()).unwrap_err();
            assert!(refusal.reason().starts_with("--numa local is not supported"), "{refusal}");
        }
    }

    #[test]
    fn swept_places_are_compared_with_the_first_value() {
        let axes = vec!["places={0},{1};{3},{4},{5}".parse().unwrap()];
        let options = WorkersOptions { axes, ..WorkersOptions::default() };
        assert_eq!(words(&options), ["2 threads", "3 threads"]);
        let swept = options.sweep_workers(&topology(), None, &mut Vec::new()).unwrap();
        assert_eq!(swept[1].reference, swept[0].settings);
    }
}
