//! Plans of `stream` and `explain`, derived from the options of the user, the environment, and the result of an earlier
//! tuning.

mod sweep;

use crate::ablation::AblationPlan;
use crate::arrangement::{Arrangement, StreamOptions};
use crate::axis::{StreamAxis, StreamCellOptions};
use crate::compiled::{CompiledPlan, CompilerChoice};
use crate::ranks::LaunchedRanks;
use crate::size::SizeSpec;
use crate::standard::build::{NTIMES, StreamSource};
use crate::standard::macros::StreamMacros;
use crate::standard::{MpiStandardPlan, StandardPlan};
use crate::stream::StreamPlan;
use crate::tune::{self, TunePlan};
use crate::{GAUGE, mixes};
use nodegauge_gauge::{MeasuredNode, PlannedRun};
use nodegauge_machine::Topology;
use nodegauge_measure::record::Record;
use nodegauge_measure::schedule::Budget;
use nodegauge_measure::{Failure, FailureKind};
use nodegauge_placement::{LauncherJob, MemoryPolicy, RankPlacementOptions, RankPlan};
use std::path::PathBuf;
use std::time::Duration;

/// Options of `stream` and `explain`, as the user gave them.
#[derive(Debug, Clone, Default)]
pub struct StreamRequest {
    /// Threads, ranks and arrays of the configuration, or of all configurations of a sweep.
    pub cell: StreamCellOptions,
    /// Axes of a sweep.
    pub axes: Vec<StreamAxis>,
    /// True to search for the best configuration (`--tune`).
    pub tune: bool,
    /// True to ignore the result of an earlier search (`--untuned`).
    pub untuned: bool,
    /// Path of the user's stream.c.
    pub standard: Option<PathBuf>,
    /// Compilers of the loops, or of the user's stream.c.
    pub compilers: Vec<CompilerChoice>,
    /// Time for the whole run; `None` for the default of the mode.
    pub budget: Option<Duration>,
    /// True to exceed a budget that is too short instead of refusing the run.
    pub exceed_budget: bool,
    /// Exact number of passes after the warm-up, regardless of the time.
    pub samples: Option<usize>,
}

/// Mode of `stream`, which determines what is measured.
#[derive(Debug, Clone)]
pub enum StreamMode {
    /// Search for the best configuration.
    Tune,
    /// Several configurations, measured interleaved.
    Sweep(Vec<StreamAxis>),
    /// The user's stream.c and the native kernels, measured interleaved.
    Standard(PathBuf),
    /// Kernels compiled by compilers of this system.
    Compilers,
    /// One configuration, of one process or of ranks.
    Plain,
}

impl StreamMode {
    /// Returns the option that requests the mode, if the mode requires a single process; otherwise `None`.
    fn option(&self) -> Option<&'static str> {
        match self {
            Self::Tune => Some("--tune"),
            Self::Standard(_) => Some("--standard"),
            Self::Compilers => Some("--compiler"),
            Self::Sweep(_) | Self::Plain => None,
        }
    }
}

impl StreamRequest {
    /// Returns the requested mode.
    ///
    /// # Errors
    /// Fails if axes contradict each other or other options, and if a launcher has started several ranks but the mode
    /// requires a single process.
    pub fn mode(&self, joined: Option<&LaunchedRanks>) -> Result<StreamMode, Failure> {
        let is_own_loop = self.standard.is_none() && !self.compilers.is_empty();
        if let Some(option) = self.rank_option().filter(|_| is_own_loop) {
            return Err(Failure::usage(format!(
                "{option} cannot be used with --compiler, except for STREAM's MPI source"
            ))
            .hint("compile it with --standard stream_mpi.c, or leave out --compiler"));
        }
        let axes = self.axes()?;
        let mode = match &self.standard {
            Some(path) => StreamMode::Standard(path.clone()),
            None if self.tune => StreamMode::Tune,
            None if !axes.is_empty() => StreamMode::Sweep(axes),
            None if !self.compilers.is_empty() => StreamMode::Compilers,
            None => StreamMode::Plain,
        };
        if let Some((option, joined)) = mode.option().zip(joined) {
            return Err(Failure::usage(format!(
                "{option} requires one process, but {} has started {} ranks",
                joined.started.launcher, joined.started.ranks,
            ))
            .hint("start one process"));
        }
        Ok(mode)
    }

    /// Plans a run in this mode. `newest` returns the newest saved run of this node that contains a figure with the
    /// given test and name.
    ///
    /// # Errors
    /// Fails if threads, ranks or arrays do not fit, and if the requested loops or compilers do not exist.
    pub fn plan(
        &self,
        mode: StreamMode,
        site: &MeasuredNode,
        joined: Option<&LaunchedRanks>,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Result<Box<dyn PlannedRun>, Failure> {
        Ok(match mode {
            StreamMode::Tune => {
                let team = self.cell.job.process.team_request(&site.topology, "--tune")?;
                let notices = team.gauge_notices(GAUGE);
                let options = self.options(team.policy, TunePlan::BUDGET, 1.0);
                Box::new(TunePlan::new(site, &team.request, options, notices)?)
            }
            StreamMode::Sweep(axes) => Box::new(self.sweep(axes, site, joined)?),
            StreamMode::Standard(path) => {
                let source = StreamSource::open(&path)?;
                if source.is_mpi() {
                    return self.mpi_standard(source, site);
                }
                if let Some(option) = self.rank_option() {
                    return Err(Failure::usage(format!(
                        "{option} does not apply to {}",
                        source.engine()
                    ))
                    .hint("give STREAM's MPI source, e.g. --standard stream_mpi.c"));
                }
                let budget = StandardPlan::BUDGET;
                let share = StandardPlan::MEMORY_SHARE;
                let macros = StreamMacros::from_choices(&self.compilers)?;
                let request = self.with_macros(&macros)?;
                let arrangement = request.arrange(site, "--standard", budget, share)?;
                let ntimes = macros.ntimes.unwrap_or(NTIMES);
                Box::new(StandardPlan::new(arrangement, &path, &self.compilers, ntimes)?)
            }
            StreamMode::Compilers => {
                let arrangement = self.arrange(site, "--compiler", CompiledPlan::BUDGET, 1.0)?;
                Box::new(CompiledPlan::new(arrangement, &self.compilers)?)
            }
            StreamMode::Plain => Box::new(self.plain(site, joined, newest)?),
        })
    }

    /// Returns the first given option for ranks.
    pub(crate) fn rank_option(&self) -> Option<&'static str> {
        let ranks = self.cell.job.ranks.ranks.map(|_| "--ranks");
        let others = RankPlacementOptions { ranks: None, ..self.cell.job.ranks.clone() };
        ranks.or_else(|| others.first_given_option())
    }

    /// Plans runs of STREAM's MPI source.
    fn mpi_standard(
        &self,
        source: StreamSource,
        site: &MeasuredNode,
    ) -> Result<Box<dyn PlannedRun>, Failure> {
        let ranks = self.cell.job.rank_plan(&site.topology)?.ok_or_else(|| {
            Failure::usage(format!("{} requires --ranks", source.engine()))
                .hint("give the number of ranks, e.g. --ranks 2")
        })?;
        let macros = StreamMacros::from_choices(&self.compilers)?;
        let count = ranks.ranks.len() as u64;
        let of_rank = StreamMacros {
            // The macro is the length of the arrays of all ranks together.
            elements: macros.elements.map(|elements| elements.div_ceil(count)),
            ..macros
        };
        let request = self.with_macros(&of_rank)?;
        let options = request.options(MemoryPolicy::Default, MpiStandardPlan::BUDGET, 1.0);
        let arrangement = Arrangement::for_ranks(site, ranks.clone(), options)?;
        Ok(Box::new(MpiStandardPlan::new(arrangement, ranks, source, &self.compilers, &macros)?))
    }

    /// Returns the request with the arrays that macros of stream.c define.
    pub(crate) fn with_macros(&self, macros: &StreamMacros) -> Result<Self, Failure> {
        let mut request = self.clone();
        request.cell.arrays.size = macros.size(self.cell.arrays.size)?;
        request.cell.arrays.offset = self.cell.arrays.offset.or(macros.offset);
        request.cell.arrays.element = macros.element.unwrap_or(self.cell.arrays.element);
        Ok(request)
    }

    /// Plans `explain`.
    ///
    /// # Errors
    /// Fails if threads or arrays do not fit, and if the requested loops do not exist.
    pub fn plan_ablation(&self, site: &MeasuredNode) -> Result<AblationPlan, Failure> {
        let budget = AblationPlan::BUDGET;
        let share = AblationPlan::MEMORY_SHARE;
        Ok(AblationPlan::new(self.arrange(site, "explain", budget, share)?))
    }

    /// Returns the options of a run. `usual` is the budget if the user gives none; `share` is the share of the
    /// permitted memory for this run.
    fn options(&self, policy: MemoryPolicy, usual: Duration, share: f64) -> StreamOptions {
        let mut options = StreamOptions::from_arrays(&self.cell.arrays);
        options.arrays.memory_fraction = options.arrays.memory_fraction * share;
        let budget = Budget::new(self.budget, usual);
        StreamOptions {
            policy,
            budget: Budget {
                is_set_by_user: budget.is_set_by_user && !self.exceed_budget,
                ..budget
            },
            samples: self.samples,
            ..options
        }
    }

    /// Plans one team with its arrays for `mode`.
    fn arrange(
        &self,
        site: &MeasuredNode,
        mode: &str,
        budget: Duration,
        share: f64,
    ) -> Result<Arrangement, Failure> {
        let team = self.cell.job.process.team_request(&site.topology, mode)?;
        let notices = team.gauge_notices(GAUGE);
        let options = self.options(team.policy, budget, share);
        Arrangement::new(site, &team.request, options, notices)
    }

    /// Plans one configuration. It consists of ranks if ranks were requested or a launcher has started them, and of a
    /// single team otherwise. An earlier tuning determines the team and its loops, unless the user requests other
    /// threads, arrays or memory.
    fn plain(
        &self,
        site: &MeasuredNode,
        joined: Option<&LaunchedRanks>,
        newest: &dyn Fn(&str, &str) -> Option<Record>,
    ) -> Result<StreamPlan, Failure> {
        let ranks = match joined {
            Some(joined) => Some(self.place_launched(joined, &site.topology)?),
            None => self.cell.job.rank_plan(&site.topology)?,
        };
        if let Some(ranks) = ranks {
            let options = self.options(MemoryPolicy::Default, StreamPlan::BUDGET, 1.0);
            let arrangement = Arrangement::for_ranks(site, ranks, options)?;
            let coordinator = joined.map(|joined| joined.coordinator.clone());
            return Ok(StreamPlan::new(arrangement, coordinator));
        }
        let team = self.cell.job.process.team_request(&site.topology, "stream")?;
        let mut notices = team.gauge_notices(GAUGE);
        let mut request = team.request;
        let mut options = self.options(team.policy, StreamPlan::BUDGET, 1.0);
        let is_as_tuned = self.cell.arrays.size == SizeSpec::Auto
            && self.cell.arrays.offset.is_none()
            && options.policy == MemoryPolicy::Default;
        if is_as_tuned
            && !self.untuned
            && let Some(remembered) = tune::saved_choice(site, newest)
        {
            remembered.fill(&mut request, &mut options);
            notices.push(remembered.notice);
        }
        let arrangement = Arrangement::new(site, &request, options, notices)?;
        Ok(StreamPlan::new(arrangement, None).with_mixes(mixes::find_saved(site, newest)))
    }

    /// Places the ranks that a launcher has started: as requested or, without a request, on the CPUs that the launcher
    /// assigned.
    fn place_launched(
        &self,
        joined: &LaunchedRanks,
        topology: &Topology,
    ) -> Result<RankPlan, Failure> {
        let LauncherJob { ranks: count, launcher, .. } = joined.started;
        if let Some(asked) = self.cell.job.ranks.ranks.filter(|asked| *asked != count) {
            return Err(Failure::usage(format!(
                "--ranks {asked} is given, but {launcher} has started {count} ranks"
            ))
            .hint("leave out --ranks"));
        }
        let by_rank = RankPlacementOptions { ranks: None, ..self.cell.job.ranks.clone() };
        let is_asked = by_rank.first_given_option().is_some()
            || self.cell.job.process.places.is_some()
            || self.cell.job.process.bind.is_some()
            || self.cell.job.process.per_cache.is_some()
            || self.cell.job.process.cores.is_some();
        if is_asked {
            let ranks = RankPlacementOptions { ranks: Some(count), ..by_rank };
            let plan = self.cell.job.process.plan_ranks(&ranks, &joined.topology(topology))?;
            let mut plan = plan.ok_or_else(|| Failure::usage("expected ranks"))?;
            plan.notices.insert(0, joined.started.in_words());
            return Ok(plan);
        }
        let each = self.cell.job.process.rank_resources(topology)?;
        joined.place_ranks(topology, each.threads, &each.memory).map_err(|(rank, error)| {
            Failure::from(error).with_context(format_args!("rank {rank}")).kind(FailureKind::Usage)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_placement::ThreadCountList;

    #[test]
    fn several_thread_counts_with_compilers_select_a_sweep() {
        let threads = ThreadCountList::new(vec![1, 2]);
        let mut cell = StreamCellOptions::default();
        cell.job.process.threads = threads;
        let compilers = vec!["gcc -O2".parse().unwrap()];
        let alone = StreamRequest { compilers: compilers.clone(), ..StreamRequest::default() };
        assert!(matches!(alone.mode(None), Ok(StreamMode::Compilers)));
        let swept = StreamRequest { cell, compilers, ..StreamRequest::default() };
        let Ok(StreamMode::Sweep(axes)) = swept.mode(None) else { panic!("expected a sweep") };
        let names: Vec<&str> = axes.iter().map(StreamAxis::name).collect();
        assert_eq!(names, ["threads", "compiler"]);
        let searched = StreamRequest { tune: true, compilers: Vec::new(), ..swept };
        assert!(matches!(searched.mode(None), Ok(StreamMode::Tune)));
        let size = vec!["size=1MiB,2MiB".parse().unwrap()];
        let mut long = StreamCellOptions::default();
        long.arrays.size = "1GiB".parse().unwrap();
        let twice = StreamRequest { axes: size, cell: long, ..StreamRequest::default() };
        assert!(twice.mode(None).is_err());
    }
}
