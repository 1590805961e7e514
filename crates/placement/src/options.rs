//! Options for threads, memory and ranks, and their application to a machine.
//!
//! Options have priority over the environment variables of OpenMP programs; a variable is used only if the
//! corresponding option is absent. Notices report which variables were used and which were ignored. The only value that
//! is read from the kernel is the memory policy of this process, and only for this machine.

use crate::{
    Binding, CoreChoice, CpuList, MappedPolicy, MemoryPolicy, NumaSpec, Placement,
    PlacementEnvironment, PlacementRequest, PlacesSpec, RankMap, RankPlan, RankPolicy, RankRequest,
    ThreadCountList, plan, plan_ranks,
};
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Failure, Notice, NoticeId, SyntaxError};

/// Options for the threads and the memory of one process, or of all ranks together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementOptions {
    /// Numbers of threads to measure with.
    pub threads: Option<ThreadCountList>,
    /// Places of the threads.
    pub places: Option<PlacesSpec>,
    /// Binding policy of the threads.
    pub bind: Option<Binding>,
    /// Number of threads per last-level cache.
    pub per_cache: Option<u32>,
    /// Class of cores that threads use.
    pub cores: Option<CoreChoice>,
    /// Memory policy of the process.
    pub numa: Option<NumaSpec>,
    /// Environment variables that apply if the corresponding options are absent.
    pub environment: PlacementEnvironment,
}

/// Options for the placement of ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankPlacementOptions {
    /// Number of ranks; `None` for a process without ranks.
    pub ranks: Option<u32>,
    /// Map of ranks to sockets or cores.
    pub map: Option<RankMap>,
    /// Policy for the CPUs and the memory of ranks.
    pub policy: Option<RankPolicy>,
    /// CPUs that the user gives explicitly.
    pub cpus: Option<CpuList>,
    /// Number of devices per rank.
    pub devices: Option<u32>,
}

/// Requested team of threads, before it is placed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TeamRequest {
    /// Number of threads and their places.
    pub request: PlacementRequest,
    /// Memory policy of the team.
    pub policy: MemoryPolicy,
    /// Notices for the user.
    pub notices: Vec<String>,
}

/// Placements of teams, one for each requested number of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedTeams {
    /// A placement for each number of threads, in the order requested.
    pub placements: Vec<Placement>,
    /// Memory policy of all teams.
    pub policy: MemoryPolicy,
    /// Notices for the user, without duplicates.
    pub notices: Vec<String>,
}

/// Threads and memory of one rank that a launcher has placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankResources {
    /// Number of threads per rank.
    pub threads: u32,
    /// Memory policy of the rank.
    pub memory: MemoryPolicy,
}

impl TeamRequest {
    /// Returns the notices of the request as notices of `gauge`.
    pub fn gauge_notices(&self, gauge: &str) -> Vec<Notice> {
        self.notices.iter().map(|text| Notice::new(NoticeId::Environment, gauge, text)).collect()
    }
}

impl PlacementOptions {
    /// Returns the number of threads if exactly one number is given.
    pub fn single_thread_count(&self) -> Option<u32> {
        self.threads.as_ref().and_then(ThreadCountList::single)
    }

    /// Returns the request for the single team of `mode`, which supports only one number of threads.
    ///
    /// # Errors
    /// Fails if several numbers of threads are given, if a variable that would be used has a syntax error, or if a
    /// NUMA node does not exist.
    pub fn team_request(&self, topology: &Topology, mode: &str) -> Result<TeamRequest, Failure> {
        let threads = self.one_count(|| {
            Failure::usage(format!("{mode} requires a single thread count"))
                .hint("e.g. --threads 4")
        })?;
        let (request, mut notices) = self.request(threads, &self.environment)?;
        let policy = self.policy(topology, &mut notices)?;
        Ok(TeamRequest { request, policy, notices })
    }

    /// Places a team for each number of threads.
    ///
    /// # Errors
    /// Fails if a variable that would be used has a syntax error, or if threads or memory do not fit the machine.
    pub fn place_teams(&self, topology: &Topology) -> Result<PlacedTeams, Failure> {
        let counts: Vec<Option<u32>> = match &self.threads {
            Some(counts) => counts.counts().iter().map(|count| Some(*count)).collect(),
            None => vec![None],
        };
        let mut placements = Vec::new();
        let mut notices: Vec<String> = Vec::new();
        for threads in counts {
            let (request, mut found) = self.request(threads, &self.environment)?;
            let placement = plan(topology, &request)?;
            found.extend(placement.notices.iter().cloned());
            found.retain(|notice| !notices.contains(notice));
            notices.extend(found);
            placements.push(placement);
        }
        let policy = self.policy(topology, &mut notices)?;
        Ok(PlacedTeams { placements, policy, notices })
    }

    /// Places a single team and returns it as a plan of one process, with all notices. `several` returns the error
    /// if there is more than one team.
    ///
    /// # Errors
    /// Returns the errors of [`Self::place_teams`] and the error of `several`.
    pub fn plan_single_team(
        &self,
        topology: &Topology,
        several: impl FnOnce() -> Failure,
    ) -> Result<RankPlan, Failure> {
        let placed = self.place_teams(topology)?;
        let [placement] = placed.placements.as_slice() else { return Err(several()) };
        let plan = RankPlan::single(placement.clone(), placed.policy);
        Ok(RankPlan { notices: placed.notices, ..plan })
    }

    /// Places the requested ranks; returns `None` if no ranks are requested.
    ///
    /// The number of threads is given by an option or a variable and applies to each rank. Places and binding, from
    /// options or variables, apply to all threads of all ranks together. If an option places the ranks, the variables
    /// for places and binding do not apply.
    ///
    /// # Errors
    /// Fails if options for ranks are given without the number of ranks. Also returns the errors of
    /// [`Self::team_request`] and [`plan_ranks`].
    pub fn plan_ranks(
        &self,
        options: &RankPlacementOptions,
        topology: &Topology,
    ) -> Result<Option<RankPlan>, Failure> {
        let Some(ranks) = options.ranks else {
            return match options.first_given_option() {
                Some(option) => Err(Failure::usage(format!("{option} requires --ranks"))
                    .hint("give the number of ranks, e.g. --ranks 2")),
                None => Ok(None),
            };
        };
        let threads = self.one_count(one_per_rank)?;
        let by_rank = RankPlacementOptions { ranks: None, ..options.clone() }.first_given_option();
        let all = &self.environment;
        let (mut all_threads, mut notices) = match by_rank {
            Some(_) => self.request(threads, &self.thread_count_variable())?,
            None => self.request(threads, all)?,
        };
        if let Some(option) = by_rank {
            for (name, value) in all.place_variables() {
                notices.push(format!("{name}={value} ignored: {option} is given"));
            }
        }
        let request = RankRequest {
            ranks,
            devices: options.devices,
            threads: all_threads.threads.take(),
            map: options.map,
            policy: options.policy,
            cpus: options.cpus.clone(),
            numa: self.numa.clone(),
            inherited: match (options.policy, &self.numa) {
                (None, None) => inherited(topology, &mut notices),
                _ => MemoryPolicy::Default,
            },
            all_threads,
        };
        let mut plan = plan_ranks(topology, &request)?;
        notices.append(&mut plan.notices);
        plan.notices = notices;
        Ok(Some(plan))
    }

    /// Returns the threads and the memory of each rank that a launcher has placed. The number of threads comes from
    /// the option, otherwise from `OMP_NUM_THREADS`; the default is 1.
    ///
    /// # Errors
    /// Returns the errors of [`Self::team_request`].
    pub fn rank_resources(&self, topology: &Topology) -> Result<RankResources, Failure> {
        let threads = self.one_count(one_per_rank)?;
        let mut request = PlacementRequest { threads, ..PlacementRequest::default() };
        self.thread_count_variable().apply(&mut request)?;
        let memory = self.policy(topology, &mut Vec::new())?;
        Ok(RankResources { threads: request.threads.unwrap_or(1), memory })
    }

    /// Returns the request for a team, with a notice for each variable that is set.
    fn request(
        &self,
        threads: Option<u32>,
        environment: &PlacementEnvironment,
    ) -> Result<(PlacementRequest, Vec<String>), SyntaxError> {
        let mut request = PlacementRequest {
            threads,
            places: self.places.clone(),
            bind: self.bind,
            kmp: None,
            per_cache: self.per_cache,
            cores: self.cores.clone(),
            max_threads: None,
        };
        let notices = environment.apply(&mut request)?;
        Ok((request, notices))
    }

    /// Returns only the variable for the number of threads.
    fn thread_count_variable(&self) -> PlacementEnvironment {
        self.environment.thread_count_variables()
    }

    /// Returns the number of threads, if it is given; `several` returns the error if several numbers are given.
    fn one_count(&self, several: impl FnOnce() -> Failure) -> Result<Option<u32>, Failure> {
        self.threads.as_ref().map(|counts| counts.single().ok_or_else(several)).transpose()
    }

    /// Returns the requested memory policy. If no policy is requested, returns the policy that this process inherited,
    /// with a notice.
    fn policy(
        &self,
        topology: &Topology,
        notices: &mut Vec<String>,
    ) -> Result<MemoryPolicy, Failure> {
        match &self.numa {
            Some(spec) => Ok(spec.resolve(topology)?),
            None => Ok(inherited(topology, notices)),
        }
    }
}

impl RankPlacementOptions {
    /// Returns options for ranks with `each` devices per rank. If the number of ranks is not given, the largest
    /// number for which there are enough devices is used.
    #[must_use]
    pub fn with_devices(self, each: u32, topology: &Topology) -> Self {
        let devices = topology.accelerators().count() as u32;
        let ranks = self.ranks.unwrap_or((devices / each).max(1));
        Self { ranks: Some(ranks), devices: Some(each), ..self }
    }

    /// Divides the ranks evenly among `nodes` nodes, and returns the options for one of them. `is_counted` is true
    /// if the number of ranks per node follows from other options.
    ///
    /// # Errors
    /// Fails if the number of ranks is not given, or is not a multiple of the number of nodes.
    pub fn divide_among_nodes(self, nodes: u32, is_counted: bool) -> Result<Self, Failure> {
        let Some(ranks) = self.ranks else {
            if is_counted {
                return Ok(self);
            }
            return Err(Failure::usage("--nodes requires --ranks")
                .hint(format!("give the number of ranks on all nodes, e.g. --ranks {nodes}")));
        };
        if ranks % nodes != 0 {
            let more = ranks.div_ceil(nodes) * nodes;
            return Err(Failure::usage(format!(
                "{} cannot be divided evenly among {nodes} nodes",
                count_in_words(ranks as usize, "rank"),
            ))
            .hint(format!("use a multiple of {nodes}, e.g. --ranks {more}")));
        }
        Ok(Self { ranks: Some(ranks / nodes), ..self })
    }

    /// Returns the options with this policy, and with the map of the policy if it has one.
    #[must_use]
    pub fn with_policy(self, of: MappedPolicy) -> Self {
        Self { policy: Some(of.policy), map: of.map.or(self.map), ..self }
    }

    /// Returns the name of the first option that is given; `None` if no option is given.
    pub fn first_given_option(&self) -> Option<&'static str> {
        let given = [
            ("--ranks", self.ranks.is_some()),
            ("--policy", self.policy.is_some()),
            ("--rank-map", self.map.is_some()),
            ("--cpus", self.cpus.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Error for several numbers of threads in combination with ranks.
fn one_per_rank() -> Failure {
    Failure::usage("ranks require a single number of threads")
        .hint("give one number, e.g. --threads 4")
}

/// Returns the memory policy that this process inherited, with a notice. For a described machine, returns the default
/// policy.
fn inherited(topology: &Topology, notices: &mut Vec<String>) -> MemoryPolicy {
    let live = matches!(topology.source, TopologySource::Live);
    let inherited = live.then(MemoryPolicy::inherited).flatten();
    notices.extend(inherited.as_ref().map(MemoryPolicy::inherited_in_words));
    inherited.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        let source = TopologySource::Synthetic("Package:2 NUMANode:1 Core:4 PU:1".to_owned());
        Topology::load(&source).unwrap()
    }

    fn options(threads: &str) -> PlacementOptions {
        PlacementOptions { threads: Some(threads.parse().unwrap()), ..PlacementOptions::default() }
    }

    #[test]
    fn each_thread_count_has_a_placed_team() {
        let environment = PlacementEnvironment {
            places: Some("cores".to_owned()),
            ..PlacementEnvironment::default()
        };
        let swept = PlacementOptions { environment, ..options("1,2,4") };
        let placed = swept.place_teams(&topology()).unwrap();
        let counts: Vec<usize> = placed.placements.iter().map(|one| one.threads.len()).collect();
        assert_eq!(counts, [1, 2, 4]);
        let honoured = |notice: &&String| notice.contains("OMP_PLACES=cores honoured");
        assert_eq!(placed.notices.iter().filter(honoured).count(), 1);
        assert_eq!(
            (swept.single_thread_count(), options("4").single_thread_count()),
            (None, Some(4))
        );
        let refusal = swept.team_request(&topology(), "memory").unwrap_err();
        assert_eq!(refusal.reason(), "memory requires a single thread count");
        assert_eq!(
            options("4").team_request(&topology(), "memory").unwrap().request.threads,
            Some(4)
        );
    }

    #[test]
    fn rank_options_require_ranks() {
        let environment = PlacementEnvironment {
            num_threads: Some("2".to_owned()),
            places: Some("sockets".to_owned()),
            ..PlacementEnvironment::default()
        };
        let placement = PlacementOptions { environment, ..PlacementOptions::default() };
        let mapped = RankPlacementOptions { map: Some(RankMap::Block), ..Default::default() };
        let refusal = placement.plan_ranks(&mapped, &topology()).unwrap_err();
        assert_eq!(refusal.reason(), "--rank-map requires --ranks");
        assert_eq!(placement.plan_ranks(&RankPlacementOptions::default(), &topology()), Ok(None));
        let ranks = RankPlacementOptions { ranks: Some(2), ..mapped };
        let plan = placement.plan_ranks(&ranks, &topology()).unwrap().unwrap();
        assert_eq!(plan.threads(), 4);
        assert_eq!(
            plan.notices,
            ["OMP_NUM_THREADS=2 honoured", "OMP_PLACES=sockets ignored: --rank-map is given"]
        );
        assert_eq!(placement.rank_resources(&topology()).unwrap().threads, 2);
    }
}
