//! Plan of a sweep: the axes, and the configurations of their values.

use super::StreamRequest;
use crate::arrangement::Arrangement;
use crate::axis::{StreamAxis, StreamSetting};
use crate::compiled::CompilerChoice;
use crate::ranks::LaunchedRanks;
use crate::sweep::SweepPlan;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::Failure;
use nodegauge_measure::sweep::{self, Setting as _};
use nodegauge_placement::{MemoryPolicy, PlacementSetting};

impl StreamRequest {
    /// Returns the axes of the sweep. If the user gives several numbers of threads, these form an axis. If there is
    /// another axis, the compilers form an axis too, preceded by the native kernels.
    pub(super) fn axes(&self) -> Result<Vec<StreamAxis>, Failure> {
        let mut axes = self.axes.clone();
        let mut fixed = self.cell.clone();
        let threads = fixed.job.take_thread_axis();
        let is_search = self.tune || self.standard.is_some();
        if let Some(threads) = threads.filter(|_| !is_search) {
            axes.insert(0, threads);
        }
        if !axes.is_empty() && !self.compilers.is_empty() {
            let native = std::iter::once(CompilerChoice::Native);
            let all = native.chain(self.compilers.iter().cloned());
            axes.push(StreamAxis::from_values(all, StreamSetting::Compiler));
        }
        sweep::check(&axes, &fixed)?;
        Ok(axes)
    }

    /// Plans a sweep: every combination of values, resolved on this machine.
    pub(super) fn sweep(
        &self,
        axes: Vec<StreamAxis>,
        site: &MeasuredNode,
        joined: Option<&LaunchedRanks>,
    ) -> Result<SweepPlan, Failure> {
        let mut request = self.clone();
        let ranks = &mut request.cell.job.ranks;
        let topology = match joined {
            Some(joined) => {
                if axes.iter().all(|axis| !axis.has_name("ranks")) {
                    ranks.ranks.get_or_insert(joined.started.ranks);
                }
                &joined.topology(&site.topology)
            }
            None => &site.topology,
        };
        let count = ranks.ranks.map(PlacementSetting::Ranks);
        let policy = ranks.policy.map(|policy| PlacementSetting::Policy(policy.into()));
        let fixed: Vec<StreamSetting> =
            count.into_iter().chain(policy).map(StreamSetting::Placement).collect();
        let budget = SweepPlan::BUDGET;
        SweepPlan::new(axes, &fixed, joined, |settings, share| {
            let mut one = request.clone();
            settings.iter().for_each(|setting| setting.apply(&mut one.cell));
            let Some(placed) = one.cell.job.rank_plan(topology)? else {
                return one.arrange(site, "a configuration", budget, share);
            };
            let options = one.options(MemoryPolicy::Default, budget, share);
            Arrangement::for_ranks(site, placed, options)
        })
    }
}
