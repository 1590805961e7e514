//! Plan of a sweep: the axes, and the options that the values of the axes replace.

use super::StreamRequest;
use crate::arrangement::Arrangement;
use crate::axis::{StreamAxis, StreamSetting};
use crate::compiled::CompilerChoice;
use crate::ranks::LaunchedRanks;
use crate::size::SizeSpec;
use crate::sweep::SweepPlan;
use nodegauge_gauge::Site;
use nodegauge_measure::{Failure, sweep};
use nodegauge_placement::{MemoryPolicy, ThreadList};

impl StreamRequest {
    /// Returns the axes of the sweep. If the user gives several numbers of threads, these form an axis. If there is
    /// another axis, the compilers form an axis too, preceded by the native kernels.
    pub(super) fn axes(&self) -> Result<Vec<StreamAxis>, Failure> {
        let mut axes = self.axes.clone();
        let counts = self.placement.threads.as_ref();
        let is_search = self.tune || self.standard.is_some();
        if let Some(counts) = counts.filter(|counts| counts.single().is_none() && !is_search) {
            axes.insert(0, StreamAxis::of(counts.clone(), StreamSetting::Threads));
        }
        if !axes.is_empty() && !self.compilers.is_empty() {
            let native = std::iter::once(CompilerChoice::Native);
            let all = native.chain(self.compilers.iter().cloned());
            axes.push(StreamAxis::of(all, StreamSetting::Compiler));
        }
        sweep::check(&axes, |name| match name {
            "threads" => self.placement.single_count().is_some(),
            "per-cache" => self.placement.per_cache.is_some(),
            "places" => self.placement.places.is_some(),
            "stores" => self.arrays.stores.is_some(),
            "pages" => self.arrays.pages.is_some(),
            "size" => self.arrays.size != SizeSpec::Auto,
            "prefetch" => self.arrays.prefetch.is_some(),
            "side-by-side" => self.arrays.side_by_side.is_some(),
            "ranks" => self.ranks.ranks.is_some(),
            "policy" => self.ranks.policy.is_some(),
            "rank-map" => self.ranks.map.is_some(),
            _ => false,
        })?;
        Ok(axes)
    }

    /// Plans a sweep: every combination of values, resolved on this machine.
    pub(super) fn sweep(
        &self,
        axes: Vec<StreamAxis>,
        site: &Site,
        joined: Option<&LaunchedRanks>,
    ) -> Result<SweepPlan, Failure> {
        let mut request = self.clone();
        let topology = match joined {
            Some(joined) => {
                if axes.iter().all(|axis| axis.name() != "ranks") {
                    request.ranks.ranks.get_or_insert(joined.started.ranks);
                }
                &joined.topology(&site.topology)
            }
            None => &site.topology,
        };
        let fixed_ranks = request.ranks.ranks.map(StreamSetting::Ranks);
        let fixed_policy = request.ranks.policy.map(|policy| StreamSetting::Policy(policy.into()));
        let fixed: Vec<StreamSetting> = fixed_ranks.into_iter().chain(fixed_policy).collect();
        let budget = SweepPlan::BUDGET;
        SweepPlan::new(axes, &fixed, joined, |settings, share| {
            let mut cell = request.clone();
            settings.iter().for_each(|setting| cell.set(setting));
            let Some(ranks) = cell.placement.ranks(&cell.ranks, topology)? else {
                return cell.arrange(site, "a configuration", budget, share);
            };
            let options = cell.options(MemoryPolicy::Default, budget, share);
            Arrangement::of_ranks(site, ranks, options)
        })
    }

    /// Sets the option of an axis to the value `setting`.
    fn set(&mut self, setting: &StreamSetting) {
        match setting {
            StreamSetting::Threads(count) => {
                self.placement.threads = ThreadList::new(vec![*count]);
            }
            StreamSetting::PerCache(count) => self.placement.per_cache = Some(*count),
            StreamSetting::Places(places) => self.placement.places = Some(places.clone()),
            StreamSetting::Stores(stores) => self.arrays.stores = Some(*stores),
            StreamSetting::Pages(pages) => self.arrays.pages = Some(*pages),
            StreamSetting::Size(size) => self.arrays.size = *size,
            StreamSetting::Prefetch(prefetch) => self.arrays.prefetch = Some(*prefetch),
            StreamSetting::SideBySide(pages) => self.arrays.side_by_side = Some(*pages),
            StreamSetting::Ranks(count) => self.ranks.ranks = Some(*count),
            StreamSetting::Policy(of) => self.ranks = self.ranks.clone().under(*of),
            StreamSetting::RankMap(map) => self.ranks.map = Some(*map),
            // The loops are compiled later, after all combinations have been planned.
            StreamSetting::Compiler(_) => {}
        }
    }
}
