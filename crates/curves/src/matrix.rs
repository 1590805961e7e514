//! Matrices between NUMA nodes (read and write bandwidth of all cores of a node on the memory of each node, and latency
//! of one of the cores) and between CPUs (core-to-core latency).
//!
//! Memory is bound to a node, and the actual location of the pages is read from the kernel. Each node has one region
//! for the loops and one for the pointer chase. The threads of all nodes use these regions in turn.

use crate::cached::{MeasuredChase, small_set_reason};
use crate::config::CurveConfig;
use crate::memory_chase::{self, ChasedMemory, SetRange};
use crate::prediction::CurveTimes;
use crate::run::{self, CurveRun, FigureOutline, TimeConversion};
use crate::{
    CurveSetup, Mode, TIMES_LLC, lines, memory_working_set, notice, refuse_below, too_large,
};
use nodegauge_arena::ArenaError;
use nodegauge_chase::traffic::{self, WorkingSetLoop};
use nodegauge_chase::{Chase, MemoryRegion, WitnessedPool};
use nodegauge_kernels::{self as kernels, Kernel, ResidentLoop, Stores};
use nodegauge_machine::memory::{FirmwareMemorySpeed, firmware_memory_speed};
use nodegauge_machine::{CpuId, NumaNodeId, Topology};
use nodegauge_measure::record::{QuotedStatistic, Status};
use nodegauge_measure::schedule::{PredictedTime, policy};
use nodegauge_measure::stream_rule::CacheCapacity;
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, stats};
use nodegauge_placement::{CpuPair, MemoryPolicy};
use std::collections::{BTreeMap, BTreeSet};

/// Divisor of the region size in bytes, if the memory limits this size.
const ROUND: u64 = 1 << 20;
/// Number of loops on each region: read and write.
const LOOPS: usize = 2;
/// Index of the time per load in a sample; it follows the times of the loops and precedes the time of flushed lines.
const CHASE: usize = LOOPS;
/// Suffix of the names of write bandwidths.
pub(crate) const WRITE_SUFFIX: &str = "_write";
/// Minimum share of a region's pages on its NUMA node; with a smaller share, the figure is suspect.
pub(crate) const MIN_LOCAL_SHARE: f64 = 0.99;

/// NUMA node with CPUs, whose cores read memory.
pub(crate) struct ReaderNode {
    pub(crate) node: NumaNodeId,
    /// One allowed CPU of each core of the NUMA node.
    pub(crate) cpus: Vec<CpuId>,
}

/// Planned measurement of matrices: NUMA nodes that read, and NUMA nodes whose memory is read.
pub(super) struct Matrix {
    /// NUMA nodes with CPUs, in the order of their numbers.
    readers: Vec<ReaderNode>,
    /// NUMA nodes with memory, in the order of their numbers, including those without CPUs.
    memories: Vec<NumaNodeId>,
    /// Bus address of the device for each NUMA node that consists of device memory.
    of_devices: BTreeMap<NumaNodeId, String>,
    /// Values that firmware reports for the memory of NUMA nodes.
    firmware: BTreeMap<NumaNodeId, FirmwareMemorySpeed>,
    /// Size of each region for reading, bytes.
    bytes: u64,
    /// Working set of each chase.
    chased: SetRange,
    /// Pairs of CPUs between which the core-to-core latency is measured.
    pairs: Vec<CpuPair>,
}

/// Plans the measurement of both matrices.
pub(super) fn plan(setup: CurveSetup<'_>, notices: &mut Vec<Notice>) -> Result<Matrix, Failure> {
    let topology = &setup.site.topology;
    let (pairs, all) = lines::cpu_pairs(topology);
    let mut matrix = Matrix { pairs, ..nodes(topology) };
    for node in &matrix.memories {
        let reported = firmware_memory_speed(&setup.site.root, *node);
        matrix.firmware.extend(reported.map(|access| (*node, access)));
    }
    let least = matrix.readers.iter().map(|readers| readers.cpus.len() as u64 * 4096).max();
    let least = Bytes(least.unwrap_or(4096));
    let caches = matrix.readers.iter().map(|readers| setup.site.cache_capacity(&readers.cpus));
    let caches = caches.max_by_key(CacheCapacity::bytes).unwrap_or_default();
    let llc = caches.bytes();
    let usable = setup.usable();
    let regions = 2 * matrix.memories.len() as u64;
    let room = Bytes(usable.0 / regions / ROUND * ROUND);
    let wanted = setup.options.max_working_set.unwrap_or_else(|| memory_working_set(caches));
    let size = match setup.options.max_working_set {
        None if wanted > room && room >= llc.map_or(wanted, |llc| Bytes(llc.0 * TIMES_LLC)) => {
            let text = format!(
                "{regions} regions of {wanted} do not fit in the usable memory of {usable}; \
                 each is reduced to {room}"
            );
            notices.push(notice(NoticeId::Assumed, text));
            room
        }
        _ => wanted,
    };
    refuse_below(least, size)?;
    matrix.bytes = size.0;
    let for_reading = size * matrix.memories.len() as u64;
    let for_chases = Bytes(usable.0.saturating_sub(for_reading.0) / matrix.memories.len() as u64);
    matrix.chased = SetRange::from_setup(setup, size, for_chases);
    let needed = matrix.memory();
    if needed > usable {
        return Err(too_large("two regions per NUMA node", needed, usable));
    }
    let mut left_out = Vec::new();
    if matrix.memories.len() == 1 {
        left_out.push("this machine has one NUMA node and no remote memory".to_owned());
    }
    if matrix.pairs.is_empty() {
        let text = "only one CPU is available: core-to-core latency cannot be measured";
        left_out.push(text.to_owned());
    } else if !all {
        left_out.push(format!(
            "core-to-core latency: only {} pairs of CPUs are measured, at most {} per class of \
             distance",
            matrix.pairs.len(),
            lines::MAX_PAIRS_PER_CLASS
        ));
    }
    notices.extend(left_out.into_iter().map(|text| notice(NoticeId::LeftOut, text)));
    Ok(matrix)
}

/// Returns one CPU per core of a NUMA node, or of all NUMA nodes.
fn one_per_core(topology: &Topology, node: Option<usize>) -> Vec<CpuId> {
    let mut cores = BTreeSet::new();
    let mut cpus = Vec::new();
    for thread in topology.allowed_threads() {
        let is_here = node.is_none_or(|node| thread.node.unwrap_or(0) == node);
        if is_here && cores.insert(thread.core) {
            cpus.push(thread.cpu);
        }
    }
    cpus
}

/// Returns the plan for the NUMA nodes of a machine, without sizes and pairs of CPUs. A machine without NUMA nodes is
/// treated as one node with number 0.
fn nodes(topology: &Topology) -> Matrix {
    let (readers, memories) = if topology.nodes.is_empty() {
        (
            vec![ReaderNode { node: NumaNodeId(0), cpus: one_per_core(topology, None) }],
            vec![NumaNodeId(0)],
        )
    } else {
        let all = topology.nodes.iter().enumerate();
        let readers = all
            .map(|(i, node)| ReaderNode { node: node.id, cpus: one_per_core(topology, Some(i)) })
            .filter(|readers| !readers.cpus.is_empty())
            .collect();
        let with_memory = topology.nodes.iter().filter(|node| node.bytes != Some(0));
        (readers, with_memory.map(|node| node.id).collect())
    };
    let with_device = topology.nodes.iter();
    let of_devices = with_device.filter_map(|node| Some((node.id, node.device.clone()?))).collect();
    let none = SetRange { min: Bytes(0), max: Bytes(0) };
    Matrix {
        readers,
        memories,
        of_devices,
        firmware: BTreeMap::new(),
        bytes: 0,
        chased: none,
        pairs: Vec::new(),
    }
}

/// Returns the loop that writes. It uses non-temporal stores if the processor has them, so that no line is read before
/// it is written.
fn writer() -> ResidentLoop {
    let mut variants = kernels::resident_loops(Kernel::Write, Stores::NonTemporal);
    if variants.is_empty() {
        variants = kernels::resident_loops(Kernel::Write, Stores::Regular);
    }
    let by_four = variants.iter().find(|variant| variant.shape().unroll == 4);
    *by_four.or(variants.first()).expect("the write kernel has portable loops")
}

/// Returns the nodes whose cores read, and the nodes with memory.
pub(crate) fn readers_and_memories(topology: &Topology) -> (Vec<ReaderNode>, Vec<NumaNodeId>) {
    let Matrix { readers, memories, .. } = nodes(topology);
    (readers, memories)
}

impl Mode for Matrix {
    fn memory(&self) -> Bytes {
        (Bytes(self.bytes) + self.chased.min) * self.memories.len() as u64
    }

    fn predicted(&self, times: &CurveTimes<'_>) -> PredictedTime {
        let of_cell = |_| {
            times.predict_loops(Bytes(self.bytes), LOOPS as u32)
                + times.predict_chase(self.chased.min)
        };
        self.cells().iter().map(of_cell).sum()
    }

    fn measure(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        self.nodes(run)?;
        if self.pairs.is_empty() || run.outcome.is_interrupted() {
            return Ok(());
        }
        lines::measure(run, &self.pairs)
    }
}

/// Memory regions of a NUMA node.
struct NodeRegions {
    read: MemoryRegion,
    chased: ChasedMemory,
}

impl Matrix {
    /// Returns all pairs of readers and memories, each as two indices.
    fn cells(&self) -> Vec<(usize, usize)> {
        let memories = self.memories.len();
        (0..self.readers.len() * memories).map(|cell| (cell / memories, cell % memories)).collect()
    }

    /// Returns the index of the readers that touch the memory of a NUMA node first: the CPUs of this node or, if it has
    /// none, the CPUs of the first node.
    fn nearest(&self, node: NumaNodeId) -> usize {
        self.readers.iter().position(|readers| readers.node == node).unwrap_or(0)
    }

    fn nodes(&self, run: &mut CurveRun<'_>) -> Result<(), ArenaError> {
        let setup = run.setup;
        run.observer.begin_phase(&format!("preparing {} on each NUMA node", Bytes(2 * self.bytes)));
        let mut pools = Vec::new();
        let mut chasers = Vec::new();
        for readers in &self.readers {
            let places: Vec<Vec<CpuId>> = readers.cpus.iter().map(|cpu| vec![*cpu]).collect();
            pools.push(run.start_place_pool(&places, setup.spare())?);
            let other = readers.cpus.get(1).copied().or_else(|| setup.spare());
            chasers.push(WitnessedPool::start(&places[..1], other)?);
        }
        let mut memories: Vec<NodeRegions> = Vec::new();
        for node in &self.memories {
            // On a machine without NUMA nodes, memory is not bound.
            let is_known = setup.site.topology.nodes.iter().any(|known| known.id == *node);
            let policy =
                if is_known { MemoryPolicy::Bind(vec![*node]) } else { MemoryPolicy::Default };
            // The CPUs of the node touch its memory first, if it has CPUs.
            let near = self.nearest(*node);
            let chaser = &mut chasers[near];
            let mut map = |_: &mut WitnessedPool, bytes| {
                MemoryRegion::allocate_shared(&mut pools[near], bytes, setup.pages(), &policy)
            };
            let read = map(chaser, self.bytes)?;
            // All nodes use the working set that is sufficient for the first node.
            let chased = match memories.first() {
                None => ChasedMemory::exceeding_caches(run, self.chased, chaser, &mut map)?,
                Some(first) => ChasedMemory::new(setup, chaser, first.chased.bytes(), &mut map)?,
            };
            memories.push(NodeRegions { read, chased });
        }
        let cells = self.cells();
        let chases: Vec<Chase<'_>> =
            memories.iter().map(|memory| memory.chased.write_chase()).collect();
        let mut work = Vec::new();
        for (reader, memory) in &cells {
            let chase = chases[*memory].clone();
            let buffers = memories[*memory].read.split(pools[*reader].workers(), self.bytes);
            let loops = [traffic::default_read_loop(), writer()];
            work.push((
                chase,
                loops.map(|variant| WorkingSetLoop::new(variant, buffers.bytes())),
                buffers,
            ));
        }
        let phase = "measuring all pairs of NUMA nodes, interleaved";
        let judged = run.take_samples(policy::NUMA_MATRIX, cells.len(), phase, |i| {
            let (chase, loops, buffers) = &mut work[i];
            let pool = &mut pools[cells[i].0];
            let chaser = &mut chasers[cells[i].0];
            for each in loops.iter_mut() {
                each.prepare(pool, *buffers)?;
            }
            let mut sample = traffic::take_sample(loops, pool, *buffers)?;
            let chased = chase.take_idle_sample(chaser)?;
            sample.seconds.extend(chased.seconds);
            sample.part_causes.extend(chased.part_causes);
            Ok(sample)
        })?;
        for (i, (reader, memory)) in cells.iter().enumerate() {
            let readers = &self.readers[*reader];
            let node = self.memories[*memory];
            let memory = &memories[*memory];
            let loops = &work[i].1;
            for part in 0..=CHASE {
                let (region, cpus, value, quoted) = match loops.get(part) {
                    Some(traffic) => {
                        let value = TimeConversion::Loop(traffic, true);
                        (&memory.read, readers.cpus.as_slice(), value, QuotedStatistic::Best)
                    }
                    None => {
                        let region = &memory.chased.region;
                        (
                            region,
                            &readers.cpus[..1],
                            TimeConversion::Seconds,
                            QuotedStatistic::Median,
                        )
                    }
                };
                let (pages, mut validity) = run::actual_pages(region.mapping());
                let got = run::numa_node_shares(region.mapping());
                let on_node = got.map(|got| got.get(&node.0).copied().unwrap_or_default());
                if let Some(share) = on_node.filter(|share| share.0 < MIN_LOCAL_SHARE) {
                    let share = share.in_whole_percent();
                    let reason = format!("only {share} of the region is on NUMA node {node}");
                    validity.add(Status::Suspect, reason);
                }
                let mut config = CurveConfig {
                    threads: Some(cpus.len() as u64),
                    places: Some(cpus.iter().map(|cpu| vec![cpu.0]).collect()),
                    pages: Some(pages),
                    from_node: Some(readers.node.0.into()),
                    to_node: Some(node.0.into()),
                    memory_policy: Some("bind".to_owned()),
                    on_node,
                    device_memory: self.of_devices.get(&node).cloned(),
                    set_bytes: Some(self.bytes),
                    ..CurveConfig::default()
                };
                let firmware = self.firmware.get(&node);
                let firmware = firmware.filter(|access| access.initiators.contains(&readers.node));
                let mut suffix = "";
                let caches = setup.site.cache_capacity(cpus);
                let mut cache_doubt = small_set_reason("regions", Bytes(self.bytes), caches);
                if part == CHASE {
                    config.add_order(setup.options.order);
                    let set = memory.chased.bytes();
                    config.set_bytes = Some(set);
                    let flushed = memory_chase::flushed_load_time(&judged, i, CHASE + 1);
                    config.flushed_s = flushed;
                    let step = stats::median(&judged.seconds(i, CHASE));
                    cache_doubt = MeasuredChase { step, flushed, set: Bytes(set) }.doubt(caches);
                    config.firmware = firmware.and_then(|access| Some(access.latency?.0));
                } else if loops[part].kernel() == Kernel::Write {
                    suffix = WRITE_SUFFIX;
                    config.firmware = firmware.and_then(|access| Some(access.write?.0));
                } else {
                    config.firmware = firmware.and_then(|access| Some(access.read?.0));
                }
                cache_doubt.into_iter().for_each(|reason| validity.mark_suspect(reason));
                let figure = FigureOutline {
                    name: format!("n{}->n{node}{suffix}", readers.node),
                    quoted,
                    value,
                    config,
                    validity,
                };
                run.add_figure(&judged, i, part, figure);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;

    fn topology(text: &str) -> Topology {
        let source: TopologySource = text.parse().unwrap();
        Topology::load(&source).unwrap()
    }

    #[test]
    fn eight_numa_nodes_have_sixty_four_cells() {
        // The topology is that of 2 x EPYC 9654 with NPS4: 8 nodes of 24 cores with 3 last-level caches of 32 MiB each.
        let machine = topology(
            "synthetic:Package:2 NUMANode:4(memory=96GiB) L3Cache:3(size=32MiB) \
             L2Cache:8(size=1MiB) L1dCache:1(size=32KiB) Core:1 PU:2",
        );
        let plan = nodes(&machine);
        assert_eq!(plan.cells().len(), 64);
        assert!(plan.readers.iter().all(|readers| readers.cpus.len() == 24));
        let mut nodes: Vec<u32> = plan.memories.iter().map(|node| node.0).collect();
        nodes.dedup();
        assert_eq!(nodes, (0..8).collect::<Vec<_>>());
        // The CPUs of each node touch its memory first; for a node without CPUs, the CPUs of the first node do.
        assert_eq!((plan.nearest(NumaNodeId(5)), plan.nearest(NumaNodeId(99))), (5, 0));
        // No CPU belongs to two nodes.
        let mut cpus: Vec<CpuId> = plan.readers.iter().flat_map(|r| r.cpus.clone()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), 192);
    }

    #[test]
    fn device_memory_has_a_column_and_empty_numa_nodes_have_none() {
        let path = "../machine/tests/topologies/gh200.xml";
        let gh200 = topology(&format!("{}/{path}", env!("CARGO_MANIFEST_DIR")));
        let plan = nodes(&gh200);
        assert_eq!((plan.readers.len(), plan.readers[0].cpus.len()), (1, 72));
        assert_eq!(plan.memories, [NumaNodeId(0), NumaNodeId(1)]);
        assert_eq!(plan.of_devices, [(NumaNodeId(1), "0009:01:00.0".to_owned())].into());
    }

    #[test]
    fn machine_with_one_numa_node_has_one_cell() {
        let machine = topology("synthetic:Package:1 L3Cache:1(size=8MiB) Core:4 PU:1");
        let plan = nodes(&machine);
        assert_eq!(plan.cells(), [(0, 0)]);
        assert_eq!(plan.readers[0].cpus.len(), 4);
    }
}
