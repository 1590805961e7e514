//! Check of the array length by a measurement. Every mode of `stream` tests whether caches hold part of the arrays.

use super::{Arrangement, size_conditions};
use crate::GAUGE;
use crate::kernels::{Kernel, Loop};
use crate::size::check::{self, SizeCheck};
use crate::size::{self, ArraySize, SizeSpec};
use crate::target::Target;
use nodegauge_arena::ArenaError;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer};
use std::time::Duration;

/// Share of the budget after which arrays are not doubled any more, because doubling requires a new set-up.
const DOUBLE_UNTIL: f64 = 0.5;

/// A target (arrays and team) that is ready to be measured.
pub(crate) struct PreparedTarget<T> {
    pub target: T,
    /// Elapsed time of the set-up.
    pub setup_time: Duration,
    /// Result of the size check; `None` if the check was not made.
    pub check: Option<SizeCheck>,
}

/// Set-up of the targets of an arrangement.
pub(crate) struct TargetSetup<'a, T> {
    /// Function that sets up one target.
    pub make: &'a mut dyn FnMut(&Arrangement) -> Result<T, ArenaError>,
    /// Function that returns the target to check.
    pub target: fn(&mut T) -> &mut dyn Target,
    /// Number of targets that are set up with arrays of the same length.
    pub count: u32,
    /// True if the arrays may be doubled.
    pub may_grow: bool,
}

impl<T> TargetSetup<'_, T> {
    /// Sets up one target, without checking the size of its arrays.
    pub(crate) fn run(
        &mut self,
        arrangement: &Arrangement,
        limits: &RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<PreparedTarget<T>, Failure> {
        observer.check_interrupt()?;
        arrangement.announce(observer);
        let begun = limits.elapsed();
        let target = (self.make)(arrangement)?;
        observer.check_interrupt()?;
        Ok(PreparedTarget { target, setup_time: limits.elapsed() - begun, check: None })
    }
}

/// Returns the index of the kernel that is used for the size check and the progress display: Triad if the pass contains
/// it, otherwise the first kernel.
pub(crate) fn shown_kernel_index(loops: &[Loop]) -> usize {
    loops.iter().position(|each| each.kernel() == Kernel::Triad).unwrap_or(0)
}

impl Arrangement {
    /// Measures with the loops of `ready` whether caches hold part of the arrays. If they do, doubles the arrays and
    /// sets them up again, until caches have no effect. Arrays are not doubled if the user chose the length or if the
    /// time is too short.
    pub(crate) fn check_size<T>(
        &mut self,
        site: &MeasuredNode,
        mut ready: PreparedTarget<T>,
        set_up: &mut TargetSetup<'_, T>,
        limits: RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<PreparedTarget<T>, Failure> {
        // Figures of arrays smaller than STREAM's rule requires are suspect anyway and need no check.
        while self.size.follows_rule != Some(false) {
            observer.begin_phase("checking the size of the arrays");
            let target = (set_up.target)(&mut ready.target);
            let shown = shown_kernel_index(target.loops());
            let kernels = target.config().kernels.clone();
            ready.check = check::run(target, shown, set_up.count, limits, observer)?;
            // The set-up of doubled arrays takes twice as long as the last set-up.
            let again = 2 * set_up.count * ready.setup_time;
            let in_time = limits.elapsed() + again < limits.budget.mul_f64(DOUBLE_UNTIL);
            let cached = ready.check.filter(SizeCheck::finds_cache);
            let twice = self.doubled_size(site).filter(|_| in_time && set_up.may_grow);
            let Some(cached) = cached else { break };
            let Some(twice) = twice else { break };
            self.notices.push(self.doubled(&cached, &twice));
            self.resize(twice);
            // The memory of the old arrays is freed before the new arrays are set up.
            drop(ready);
            ready = set_up.run(self, &limits, observer)?;
            (set_up.target)(&mut ready.target).set_kernels(kernels)?;
        }
        Ok(ready)
    }

    /// Returns a size with arrays of twice the length; `None` if the user chose the length, or if longer arrays do not
    /// fit.
    pub(crate) fn doubled_size(&self, site: &MeasuredNode) -> Option<ArraySize> {
        let spec = SizeSpec::Elements(2 * self.size.elements);
        let conditions = size_conditions(site, &self.placement, &self.options);
        let twice = size::choose(spec, self.options.arrays.element, &conditions).ok();
        let twice = twice.filter(|_| self.options.arrays.size == SizeSpec::Auto)?;
        // A cache held part of the arrays, so that the capacity is larger than measured before.
        let rule = self.size.rule.doubled();
        Some(ArraySize::new(twice.elements, self.options.arrays.element, rule, twice.notices))
    }

    /// Returns a size with arrays of half the length; `None` if the user chose the length, if the caches are unknown,
    /// or if shorter arrays would violate STREAM's rule.
    pub(crate) fn halved_size(&self, site: &MeasuredNode) -> Option<ArraySize> {
        if self.options.arrays.size != SizeSpec::Auto {
            return None;
        }
        let spec = SizeSpec::Elements(self.size.elements / 2);
        let conditions = size_conditions(site, &self.placement, &self.options);
        let half = size::choose(spec, self.options.arrays.element, &conditions).ok();
        half.filter(|half| half.follows_rule == Some(true))
    }

    /// Sets the length of the arrays. The length is divided evenly among the processes.
    pub(crate) fn resize(&mut self, size: ArraySize) {
        let each = size.elements.div_ceil(self.configs.len() as u64);
        self.configs.iter_mut().for_each(|config| config.elements = each);
        self.size = size;
    }

    fn doubled(&self, check: &SizeCheck, size: &ArraySize) -> Notice {
        let each = size.elements.div_ceil(self.configs.len() as u64);
        let text = format!(
            "arrays doubled to {}: {} was {:.2} times as fast over half of them, so a cache larger than {} \
             held part of them",
            Bytes(each * self.options.arrays.element.bytes()),
            check.kernel,
            check.ratio,
            if size.rule.measured().is_some() { "measured before" } else { "reported" }
        );
        Notice::new(NoticeId::Contradicted, GAUGE, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrangement::StreamOptions;
    use crate::simulated::SimulatedTarget;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};
    use nodegauge_measure::progress::SilentObserver;
    use nodegauge_measure::record::Machine;
    use nodegauge_placement::{PlacementRequest, RankRequest};

    /// Returns a node with two cores, a reported cache of 2 MB, and `available` bytes of memory.
    fn site(available: u64) -> MeasuredNode {
        let text = "Package:1 L3Cache:1(size=2MB) Core:2 PU:1".to_owned();
        let topology = Topology::load(&TopologySource::Synthetic(text)).unwrap();
        let mut machine = Machine::default();
        machine.memory.available = Some(available);
        MeasuredNode::new(topology, machine, SysRoot::live())
    }

    fn plan(site: &MeasuredNode, size: SizeSpec) -> Arrangement {
        let mut options = StreamOptions::default();
        options.arrays.size = size;
        Arrangement::new(site, &PlacementRequest::default(), options, Vec::new()).unwrap()
    }

    #[test]
    fn automatic_arrays_are_doubled_if_memory_allows() {
        let site = site(100_000_000);
        let mut auto = plan(&site, SizeSpec::Auto);
        let rule = auto.elements();
        auto.resize(auto.doubled_size(&site).unwrap());
        assert_eq!((auto.elements(), auto.size.elements), (2 * rule, 2 * rule));
        // Arrays of four times the size that STREAM's rule requires do not fit into 80 MB.
        assert_eq!(auto.doubled_size(&site), None);
        assert_eq!(plan(&site, SizeSpec::TimesLlc(4.0)).doubled_size(&site), None);
    }

    #[test]
    fn doubled_arrays_are_divided_among_ranks() {
        let site = site(1 << 40);
        let request = RankRequest { ranks: 2, ..RankRequest::default() };
        let ranks = nodegauge_placement::plan_ranks(&site.topology, &request).unwrap();
        let mut two = Arrangement::for_ranks(&site, ranks, StreamOptions::default()).unwrap();
        let each = two.elements();
        two.resize(two.doubled_size(&site).unwrap());
        assert_eq!((two.elements(), two.size.elements), (2 * each, 4 * each));
    }

    #[test]
    fn size_check_doubles_the_arrays_or_reports_a_cache() {
        let site = site(1 << 40);
        // Half of an array fits in a cache that the system does not report; the whole array does not fit.
        let run = |count, may_grow| {
            let mut arrangement = plan(&site, SizeSpec::Auto);
            let before = arrangement.elements();
            let cache = 0.9 * (3 * before * 8) as f64;
            let make =
                &mut |of: &Arrangement| Ok(SimulatedTarget::set_up(&of.configs[0], 1e-10, cache));
            let mut set_up = TargetSetup { make, target: |it| &mut **it, count, may_grow };
            let limits = arrangement.limits();
            let ready = set_up.run(&arrangement, &limits, &mut SilentObserver).unwrap();
            let ready = arrangement
                .check_size(&site, ready, &mut set_up, limits, &mut SilentObserver)
                .unwrap();
            (arrangement.elements() / before, ready.check.unwrap(), arrangement.notices.len())
        };
        let (times, check, notices) = run(1, true);
        assert_eq!((times, check.finds_cache(), check.rounds, notices), (2, false, 9, 1));
        let (large_times, large_check, large_reported) = run(16, false);
        assert_eq!(
            (large_times, large_check.finds_cache(), large_check.rounds, large_reported),
            (1, true, 3, 0)
        );
        assert!(large_check.cache_doubt().unwrap().contains("a cache holds part of the arrays"));
    }
}
