//! One configuration that several ranks measure together.

use super::SharedStreamCoordinator;
use super::protocol::{PassExtent, PassResult, Request, Response};
use crate::config::{RankConfig, RankMemory};
use crate::kernels::{Kernel, KernelShape, Loop};
use crate::point::{PointObservations, native_loops};
use crate::target::{RankObservations, Target, TargetConfig, TargetObservations};
use nodegauge_arena::{ArenaError, ArrayShare};
use nodegauge_machine::{CpuId, Topology};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::stats;
use nodegauge_measure::{Failure, Fraction};
use nodegauge_placement::{Binding, MemoryPolicy, RankPlace, RankPlan, ThreadPlace};
use nodegauge_team::core_to_core::have_exclusive_cpus;
use nodegauge_team::timed::span_seconds;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

/// Identifier of the next point; identifiers are unique in this process.
static POINTS: AtomicU32 = AtomicU32::new(1);

/// Target that consists of one point in each of the first ranks.
pub struct RanksTarget {
    coordinator: SharedStreamCoordinator,
    number: u32,
    configs: Vec<TargetConfig>,
    loops: Vec<Loop>,
    /// True if core-to-core latencies are measured between ranks, i.e. if each rank has one thread on its own CPU.
    ping_pong: bool,
    /// NUMA nodes on which the pages of each rank are expected; `None` if the pages may be on any NUMA node.
    expected: Vec<Option<Vec<u32>>>,
    /// Last observation. It is returned if a rank is lost.
    seen: TargetObservations,
}

impl RanksTarget {
    /// Sets up a point in each rank.
    ///
    /// # Errors
    /// Fails if memory, pages or CPUs of a rank are not available, or if a rank is lost.
    pub fn prepare(
        coordinator: &SharedStreamCoordinator,
        topology: &Topology,
        plan: &RankPlan,
        configs: Vec<TargetConfig>,
    ) -> Result<Self, ArenaError> {
        let number = POINTS.fetch_add(1, Ordering::Relaxed);
        let expected = plan.ranks.iter().map(|place| expected(place, topology)).collect();
        let seen = TargetObservations::default();
        let places: Vec<Vec<CpuId>> = configs.iter().flat_map(|c| c.places.clone()).collect();
        let ping_pong = places.len() == configs.len() && have_exclusive_cpus(&places);
        let loops = native_loops(&configs[0].kernels, configs[0].element)?;
        let mut point = Self {
            coordinator: SharedStreamCoordinator::clone(coordinator),
            number,
            configs,
            loops,
            ping_pong,
            expected,
            seen,
        };
        coordinator.borrow_mut().ask(point.configs.len(), |rank| Request::Prepare {
            point: number,
            config: Box::new(point.configs[rank].clone()),
        })?;
        point.observe()?;
        Ok(point)
    }

    fn ask(&self, request: impl Fn() -> Request) -> Result<Vec<Response>, Failure> {
        self.coordinator.borrow_mut().ask(self.configs.len(), |_| request())
    }
}

/// Returns the NUMA nodes on which the pages of a rank are expected: the NUMA nodes of the rank's policy or, without a
/// policy, those nearest to the rank's CPUs.
fn expected(place: &RankPlace, topology: &Topology) -> Option<Vec<u32>> {
    let nodes = match &place.memory {
        MemoryPolicy::Default | MemoryPolicy::Local if place.placement.bind == Binding::None => {
            return None;
        }
        MemoryPolicy::Default | MemoryPolicy::Local => {
            ThreadPlace { thread: 0, cpus: place.placement.cpus() }.numa_node_ids(topology)
        }
        MemoryPolicy::Preferred(node) => vec![*node],
        MemoryPolicy::Interleave(nodes) | MemoryPolicy::Bind(nodes) => nodes.clone(),
    };
    (!nodes.is_empty()).then(|| nodes.iter().map(|node| node.0).collect())
}

impl Target for RanksTarget {
    fn config(&self) -> &TargetConfig {
        &self.configs[0]
    }

    fn process_count(&self) -> u64 {
        self.configs.len() as u64
    }

    fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// Sets the loops, which must be native; compiled loops are not loaded in the ranks.
    fn set_loops(&mut self, loops: Vec<Loop>) -> Result<(), ArenaError> {
        let mut kernels: Vec<(Kernel, KernelShape)> = Vec::new();
        for each in &loops {
            let Loop::Native(variant) = each else {
                return Err(Failure::missing("ranks cannot run compiled loops").into());
            };
            kernels.push((variant.kernel(), variant.shape()));
        }
        self.set_kernels(kernels)
    }

    fn run_pass(&mut self) -> Result<Sample, ArenaError> {
        self.run(PassExtent::Whole)
    }

    fn run_part(&mut self, part: ArrayShare) -> Result<Option<Sample>, ArenaError> {
        self.run(PassExtent::Part { index: part.index, count: part.count }).map(Some)
    }

    fn check(&mut self) -> Result<(), ArenaError> {
        self.ask(|| Request::Check { point: self.number })?;
        Ok(())
    }

    fn set_kernels(&mut self, kernels: Vec<(Kernel, KernelShape)>) -> Result<(), ArenaError> {
        self.ask(|| Request::Reshape { point: self.number, kernels: kernels.clone() })?;
        self.loops = native_loops(&kernels, self.configs[0].element)?;
        self.configs.iter_mut().for_each(|config| config.kernels = kernels.clone());
        Ok(())
    }

    /// Observes placement and pages of all ranks. If a rank is lost, returns the last observation.
    fn observe(&mut self) -> Result<TargetObservations, ArenaError> {
        if self.coordinator.borrow().failure().is_some() {
            return Ok(self.seen.clone());
        }
        let responses = self.ask(|| Request::Inspect { point: self.number })?;
        let parts: Vec<PointObservations> = responses
            .into_iter()
            .filter_map(|response| match response {
                Response::Seen(seen) => Some(*seen),
                _ => None,
            })
            .collect();
        self.seen = self.combine(&parts);
        Ok(self.seen.clone())
    }
}

impl RanksTarget {
    fn run(&self, over: PassExtent) -> Result<Sample, ArenaError> {
        let Self { number: point, ping_pong, .. } = *self;
        let ranks = self.configs.len();
        let responses = self.ask(|| Request::Pass { point, ranks, ping_pong, over })?;
        let parts = responses.into_iter().filter_map(|response| match response {
            Response::PassResult(passed) => Some(passed),
            _ => None,
        });
        Ok(joint_sample(&parts.collect::<Vec<_>>()))
    }

    fn combine(&self, parts: &[PointObservations]) -> TargetObservations {
        let mut nodes = Vec::new();
        for i in 0..self.configs[0].arrays {
            nodes.push(mean(&parts.iter().map(|part| &part.nodes[i]).collect::<Vec<_>>()));
        }
        let wrong = parts.iter().enumerate().find_map(|(number, part)| {
            part.wrong.as_ref().map(|wrong| format!("rank {number}: {wrong}"))
        });
        let combined = PointObservations {
            affinity: parts.iter().flat_map(|part| part.affinity.clone()).collect(),
            pages: mean(&parts.iter().map(|part| &part.pages).collect::<Vec<_>>()),
            // The field `ranks` contains the nodes of each rank's pages.
            shares: Vec::new(),
            nodes,
            wrong,
            checks: parts.iter().map(|part| part.checks).min().unwrap_or(0),
        };
        let ranks = parts.iter().enumerate();
        TargetObservations {
            combined,
            ranks: ranks.map(|(rank, part)| self.rank_seen(rank, part)).collect(),
        }
    }

    /// Returns the observations of one rank, with its own policy and its expected NUMA nodes.
    fn rank_seen(&self, rank: usize, part: &PointObservations) -> RankObservations {
        let cpus: BTreeSet<u32> =
            part.affinity.iter().flat_map(|thread| &thread.cpus).map(|cpu| cpu.0).collect();
        let policy = self.configs[rank].policy.clone();
        let named = policy.numa_nodes().map(|nodes| nodes.iter().map(|node| node.0).collect());
        let got = mean(&part.nodes.iter().collect::<Vec<_>>());
        let config = RankConfig {
            rank: rank as u32,
            cpus: cpus.into_iter().collect(),
            memory: RankMemory { policy: policy.as_str().to_owned(), nodes: named },
            memory_got: got.map(|got| got.iter().map(|(node, x)| (node.0, *x)).collect()),
            ..RankConfig::default()
        };
        let unchecked = self.configs[rank].too_few_pages_reason(part.pages.as_ref());
        RankObservations { config, policy, expected: self.expected[rank].clone(), unchecked }
    }
}

/// Returns the mean of the shares over arrays or ranks of equal length; `None` if a share is unknown.
fn mean<K: Copy + Ord>(shares: &[&Option<BTreeMap<K, Fraction>>]) -> Option<BTreeMap<K, Fraction>> {
    let mut sum: BTreeMap<K, Fraction> = BTreeMap::new();
    for share in shares {
        for (key, value) in share.as_ref()? {
            *sum.entry(*key).or_default() += *value / shares.len() as f64;
        }
    }
    Some(sum)
}

/// Combines the passes of all ranks into one sample. Times are from the earliest start to the latest end of any rank;
/// the interference of all ranks is included.
fn joint_sample(parts: &[PassResult]) -> Sample {
    let kernels = parts.first().map_or(0, |part| part.spans.len());
    let mut whole = Vec::new();
    let mut part_causes = Vec::new();
    for i in 0..kernels {
        whole.push(whole_seconds(parts, i));
        let of_kernel = parts.iter().filter_map(|part| part.part_causes.get(i));
        part_causes.push(of_kernel.flatten().cloned().collect());
    }
    Sample {
        round_trips: (
            typical_trip(parts.iter().filter_map(|part| part.round_trips.0)),
            typical_trip(parts.iter().filter_map(|part| part.round_trips.1)),
        ),
        causes: parts.iter().flat_map(|part| part.causes.clone()).collect(),
        part_causes,
        per_process: parts
            .iter()
            .map(|part| part.spans.iter().map(|span| span_seconds(*span)).collect())
            .collect(),
        ..Sample::from_times(whole)
    }
}

/// Returns the time from the earliest start to the latest end of the kernel with index `i`.
fn whole_seconds(parts: &[PassResult], i: usize) -> f64 {
    let start = parts.iter().map(|part| part.spans[i].0).min().unwrap_or(0);
    let end = parts.iter().map(|part| part.spans[i].1).max().unwrap_or(0);
    span_seconds((start, end))
}

/// Returns the median of the measured round trips, over ranks with several threads or over pairs of ranks; NaN if there
/// are none.
fn typical_trip(trips: impl Iterator<Item = f64>) -> f64 {
    let trips: Vec<f64> = trips.collect();
    if trips.is_empty() { f64::NAN } else { stats::median(&trips) }
}

impl Drop for RanksTarget {
    fn drop(&mut self) {
        // Ranks that are lost or about to end need no request: their memory is freed anyway.
        if let Ok(mut coordinator) = self.coordinator.try_borrow_mut() {
            let number = self.number;
            let _ = coordinator.ask(self.configs.len(), |_| Request::Release { point: number });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joint_pass_lasts_from_first_start_to_last_end() {
        let part = |start: u64, end: u64| PassResult {
            spans: vec![(start, end)],
            round_trips: (None, None),
            causes: Vec::new(),
            part_causes: Vec::new(),
        };
        let sample = joint_sample(&[part(1000, 3000), part(1500, 4000)]);
        assert!((sample.seconds[0] - 3e-6).abs() < 1e-12);
        assert!((sample.per_process[1][0] - 2.5e-6).abs() < 1e-12);
        assert!(sample.round_trips.0.is_nan());
    }

    #[test]
    fn mean_share_is_unknown_if_one_share_is_unknown() {
        let some = |pairs: &[(u64, f64)]| {
            let shares = pairs.iter().map(|(bytes, share)| (*bytes, Fraction(*share)));
            Some(shares.collect::<BTreeMap<_, _>>())
        };
        let (one, two) = (some(&[(0, 1.0)]), some(&[(0, 0.5), (1, 0.5)]));
        assert_eq!(mean(&[&one, &two]), some(&[(0, 0.75), (1, 0.25)]));
        assert_eq!(mean(&[&one, &None]), None);
    }
}
