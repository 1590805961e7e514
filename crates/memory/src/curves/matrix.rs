//! Every NUMA node to every other: read bandwidth of all cores of a node from the memory of another,
//! and the latency of one of them; and how long a cache line takes from CPU to CPU.
//!
//! Memory is bound to its node, and where its pages are is read back. Each node has one region to
//! read and one to chase through, which the threads of all nodes use by turns.

use crate::curves::figures::{self, Figure, Judged};
use crate::curves::latency::{Pursuit, region};
use crate::curves::lines;
use crate::curves::pool::{Timed, WorkerPool};
use crate::curves::region::{MemoryRegion, address};
use crate::curves::rounds::{self, Until};
use crate::curves::traffic::{CALL_SECONDS, Traffic};
use crate::curves::{CurveError, Options, Outcome, Site, pages_or_best};
use crate::kernels::{self, Kernel, Stores};
use crate::point::{PointError, Sample};
use nodegauge_machine::{CpuId, NodeId, Topology};
use nodegauge_measure::Bytes;
use nodegauge_measure::Observer;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Quoted;
use nodegauge_measure::record::{Status, Validity};
use nodegauge_measure::repeat::Stop;
use nodegauge_placement::MemoryPolicy;
use serde_json::json;
use std::time::Instant;

/// How long a timed stretch of a chase lasts, seconds.
const CHASE_SECONDS: f64 = 2e-3;
/// Share of the budget by which nodes must end; CPU to CPU gets the rest.
const NODES_SHARE: f64 = 0.6;
/// Share of the budget by which everything must end.
const END_SHARE: f64 = 0.95;
/// Size of a node's region, in last-level caches that its threads reach.
const TIMES_LLC: u64 = 4;
/// The same where no cache is known.
const UNKNOWN_CACHE: u64 = 256 << 20;
/// Less of a region on its node than this share makes a figure suspect.
const ON_NODE_ENOUGH: f64 = 0.99;

/// A node with CPUs: who reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readers {
    /// The node.
    pub node: NodeId,
    /// One CPU of each of its cores that may be used.
    pub cpus: Vec<CpuId>,
}

/// Who reads whose memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Nodes with CPUs, by number.
    pub readers: Vec<Readers>,
    /// Nodes with memory, by number; those without CPUs are there too.
    pub memories: Vec<NodeId>,
    /// Bytes of each region.
    pub bytes: u64,
}

impl Plan {
    /// All pairs, by reader and memory: indices into both.
    pub fn cells(&self) -> Vec<(usize, usize)> {
        (0..self.readers.len())
            .flat_map(|reader| (0..self.memories.len()).map(move |memory| (reader, memory)))
            .collect()
    }
}

/// The plan for a machine. Without NUMA nodes, the machine is one node, number 0.
pub fn plan(topology: &Topology, largest: Option<Bytes>) -> Plan {
    let one_a_core = |keep: &dyn Fn(usize) -> bool| -> Vec<CpuId> {
        let mut seen = Vec::new();
        topology
            .allowed()
            .filter(|thread| keep(thread.node.unwrap_or(0)))
            .filter(|thread| {
                let new = !seen.contains(&thread.core);
                if new {
                    seen.push(thread.core);
                }
                new
            })
            .map(|thread| thread.cpu)
            .collect()
    };
    let (readers, memories) = if topology.nodes.is_empty() {
        (vec![Readers { node: NodeId(0), cpus: one_a_core(&|_| true) }], vec![NodeId(0)])
    } else {
        let readers = topology
            .nodes
            .iter()
            .enumerate()
            .map(|(i, node)| Readers { node: node.id, cpus: one_a_core(&|of| of == i) })
            .filter(|readers| !readers.cpus.is_empty())
            .collect();
        let with_memory = topology.nodes.iter().filter(|node| node.bytes != Some(0));
        (readers, with_memory.map(|node| node.id).collect())
    };
    let reach = |readers: &Readers| topology.llc_in_use(&readers.cpus).map(|(bytes, _)| bytes);
    let llc = readers.iter().filter_map(reach).max();
    let auto = llc.map_or(UNKNOWN_CACHE, |llc| (llc * TIMES_LLC).max(16 << 20));
    Plan { readers, memories, bytes: largest.map_or(auto, |largest| largest.0) }
}

/// Checks that the regions of a plan fit.
///
/// # Errors
/// When they do not, or are too small for all threads of a node.
pub fn fits(site: &Site<'_>, options: &Options, plan: &Plan) -> Result<(), CurveError> {
    let most = plan.readers.iter().map(|readers| readers.cpus.len()).max().unwrap_or(1);
    let least = Bytes(most as u64 * 4096);
    if plan.bytes < least.0 {
        return Err(CurveError::TooSmall { given: Bytes(plan.bytes), least });
    }
    let usable = site.usable(options, options.pages);
    let needed = Bytes(2 * plan.bytes * plan.memories.len() as u64);
    if needed > usable {
        return Err(CurveError::TooLarge { what: "two regions a node", needed, usable });
    }
    Ok(())
}

/// A node's memory: to read and to chase through.
struct Memory {
    read: MemoryRegion,
    chased: MemoryRegion,
}

/// Measures both matrices.
///
/// # Errors
/// No memory, pages or CPUs as asked.
pub fn run(
    site: &Site<'_>,
    options: &Options,
    watch: &mut dyn Observer,
) -> Result<Outcome, CurveError> {
    let started = Instant::now();
    let plan = plan(site.topology, options.largest);
    fits(site, options, &plan)?;
    let mut outcome = Outcome::default();
    if plan.memories.len() == 1 {
        outcome.notices.push("there is one NUMA node: nothing is remote here".to_owned());
    }
    nodes(site, options, &plan, started, watch, &mut outcome)?;
    if !outcome.interrupted {
        cpus(site, options, started, watch, &mut outcome)?;
    }
    Ok(outcome)
}

/// The matrix of nodes.
fn nodes(
    site: &Site<'_>,
    options: &Options,
    plan: &Plan,
    started: Instant,
    watch: &mut dyn Observer,
    outcome: &mut Outcome,
) -> Result<(), CurveError> {
    let pages = pages_or_best(options, site.machine);
    watch.phase(&format!("preparing {} on each node", Bytes(2 * plan.bytes)));
    let mut pools = Vec::new();
    let mut chasers = Vec::new();
    for readers in &plan.readers {
        let places: Vec<Vec<CpuId>> = readers.cpus.iter().map(|cpu| vec![*cpu]).collect();
        pools.push(WorkerPool::start(&places, site.spare())?);
        let other = readers.cpus.get(1).copied().or_else(|| site.spare());
        chasers.push(WorkerPool::start(&places[..1], other)?);
    }
    let Some(toucher) = chasers.first_mut() else { return Ok(()) };
    let mut memories = Vec::new();
    for node in &plan.memories {
        let policy = bound_to(site.topology, *node);
        let read = region(toucher, plan.bytes, pages, &policy)?;
        let all = read.mapping().range();
        toucher.work(|worker| {
            if worker == 0 {
                // SAFETY: the mapping is ours, and nobody else has it.
                unsafe { read.refill(0, all.1) };
            }
        })?;
        let chased = region(toucher, plan.bytes, pages, &policy)?;
        memories.push(Memory { read, chased });
    }
    // One chain a region: it starts anywhere, whoever chases.
    let llc = plan.bytes / TIMES_LLC;
    let cells = plan.cells();
    let mut work = Vec::new();
    for (reader, memory) in &cells {
        let area = &memories[*memory];
        let at = (area.chased.mapping().range().0, plan.bytes);
        // SAFETY: the region is as long as the chain; each chain replaces the one before, with the
        // same seed, so that all are the same.
        let pursuit = unsafe { Pursuit::write(&mut chasers[*reader], at, 0, options.order, llc)? };
        work.push((pursuit, None::<Traffic>, None::<String>));
    }
    watch.phase("measuring all pairs of nodes by turns");
    let until =
        Until { deadline: started + options.budget.mul_f64(NODES_SHARE), samples: options.samples };
    let rounds = rounds::by_turns(cells.len(), until, watch, |i| {
        let (reader, memory) = cells[i];
        let (pursuit, traffic, wrong) = &mut work[i];
        let (pool, area) = (&mut pools[reader], &memories[memory]);
        let shared = Shared { area: &area.read, bytes: plan.bytes, workers: pool.workers() };
        let traffic = match traffic {
            Some(traffic) => traffic,
            none => {
                let first = shared.first()?;
                *wrong = shared.check(pool, &first)?;
                none.insert(shared.calibrated(pool, first)?)
            }
        };
        let before = pool.round_trip()?;
        let timed = shared.run(pool, traffic)?;
        let after = pool.round_trip()?;
        // SAFETY: the regions live until the end of this function, and nobody writes chains now.
        let chase = unsafe {
            pursuit.warm(&mut chasers[reader], CHASE_SECONDS)?;
            pursuit.sample(&mut chasers[reader])?
        };
        let mut causes = timed.causes;
        causes.extend(chase.causes);
        Ok(Sample {
            seconds: vec![timed.seconds / traffic.repeats as f64, chase.seconds[0]],
            round_trips: (before, after),
            causes,
            each: Vec::new(),
        })
    })?;
    let judged = Judged::new(rounds.samples);
    for (i, (reader, memory)) in cells.iter().enumerate() {
        let (readers, node) = (&plan.readers[*reader], plan.memories[*memory]);
        let area = &memories[*memory];
        let (_, traffic, wrong) = &work[i];
        let Some(traffic) = traffic else { continue };
        for (part, unit) in [(0, Unit::BytesPerSecond), (1, Unit::Seconds)] {
            let mapping = if part == 0 { area.read.mapping() } else { area.chased.mapping() };
            let (got, mut validity) = figures::pages(mapping);
            let shares = figures::node_shares(mapping);
            let on_node = shares.as_ref().map(|shares| shares.get(&node).copied().unwrap_or(0.0));
            if let Some(share) = on_node.filter(|share| *share < ON_NODE_ENOUGH) {
                let reason =
                    format!("only {:.0} % of the memory lies on node {}", share * 100.0, node.0);
                validity.add(Status::Suspect, reason);
            }
            if let (0, Some(wrong)) = (part, wrong) {
                validity.add(Status::Invalid, wrong.clone());
            }
            let cpus = if part == 0 { readers.cpus.as_slice() } else { &readers.cpus[..1] };
            let mut config = figures::object(json!({
                "engine": "native",
                "threads": cpus.len(),
                "places": cpus.iter().map(|cpu| [cpu.0]).collect::<Vec<_>>(),
                "pages": got,
                "from_node": readers.node.0,
                "to_node": node.0,
                "memory_policy": "bind",
                "on_node": on_node,
                "set_bytes": plan.bytes,
                "stopped": rounds.stop.to_string(),
            }));
            if part == 0 {
                config.extend(figures::object(traffic.config()));
            } else {
                config.insert("stride_bytes".to_owned(), json!(options.order.stride));
                config.insert("locality".to_owned(), json!(options.order.locality.to_string()));
            }
            let figure = Figure {
                test: "matrix",
                name: format!("n{}->n{}", readers.node.0, node.0),
                unit,
                amount: match part {
                    0 => traffic.counted() * readers.cpus.len() as f64,
                    _ => 1.0,
                },
                quoted: Quoted::Best,
                traffic: (part == 0).then(|| traffic.moved()),
                limited: part == 0,
                config,
                validity,
            };
            outcome.measurements.extend(judged.measurement(i, part, figure, site));
        }
    }
    outcome.findings = judged.findings();
    outcome.interrupted = rounds.stop == Stop::Interrupted;
    for pool in &pools {
        outcome.affinity.extend(pool.observed().iter().map(ToString::to_string));
    }
    Ok(())
}

/// The policy that puts memory on a node; of a machine without NUMA nodes, none.
fn bound_to(topology: &Topology, node: NodeId) -> MemoryPolicy {
    match topology.nodes.iter().any(|known| known.id == node) {
        true => MemoryPolicy::Bind(vec![node]),
        false => MemoryPolicy::Default,
    }
}

/// A region that all workers of a pool read together, each its share.
struct Shared<'a> {
    area: &'a MemoryRegion,
    bytes: u64,
    workers: usize,
}

impl Shared<'_> {
    /// The loop that reads: the widest vectors, unrolled by four. Main memory does not tell loops
    /// apart, and remote memory less.
    fn first(&self) -> Result<Traffic, PointError> {
        let variants = kernels::resident(Kernel::Read, Stores::Regular);
        let by_four = variants.iter().find(|variant| variant.shape().unroll == 4);
        let Some(variant) = by_four.or(variants.first()).copied() else {
            return Err(crate::team::TeamError::Panicked(0).into());
        };
        let share = (self.bytes as usize / self.workers) & !4095;
        Ok(Traffic { variant, bytes: share, repeats: 1 })
    }

    fn run(&self, pool: &mut WorkerPool, traffic: &Traffic) -> Result<Timed<f64>, PointError> {
        let (start, _) = self.area.mapping().range();
        pool.undisturbed(|worker| {
            let mut streams = self.area.streams(0, traffic.bytes, Kernel::Read, traffic.repeats);
            streams.at[0] = address(start + worker * traffic.bytes);
            // SAFETY: the share lies in the region, and is only read.
            std::hint::black_box(unsafe { traffic.variant.run(&streams) })
        })
    }

    fn calibrated(
        &self,
        pool: &mut WorkerPool,
        mut traffic: Traffic,
    ) -> Result<Traffic, PointError> {
        let seconds = self.run(pool, &traffic)?.seconds;
        traffic.repeats = (CALL_SECONDS / seconds.max(1e-9)).ceil() as u64;
        Ok(traffic)
    }

    /// Holds the sum of every share against what its elements must add up to.
    fn check(
        &self,
        pool: &mut WorkerPool,
        traffic: &Traffic,
    ) -> Result<Option<String>, PointError> {
        let timed = self.run(pool, traffic)?;
        let words = traffic.bytes / 8;
        let wrong = timed.parts.iter().enumerate().find_map(|(worker, part)| {
            let first = worker * words;
            let expected: f64 = (first..first + words).map(crate::curves::region::value).sum();
            let close = (part.made - expected).abs() <= 1e-12 * expected.abs();
            (!close).then(|| {
                format!("the sum of share {worker} is {:e}, and must be {expected:e}", part.made)
            })
        });
        Ok(wrong)
    }
}

/// The matrix of CPUs.
fn cpus(
    site: &Site<'_>,
    options: &Options,
    started: Instant,
    watch: &mut dyn Observer,
    outcome: &mut Outcome,
) -> Result<(), CurveError> {
    let (pairs, all) = lines::pairs(site.topology);
    if pairs.is_empty() {
        outcome.notices.push("there is one cpu only: no line goes from cpu to cpu".to_owned());
        return Ok(());
    }
    if !all {
        outcome.notices.push(format!(
            "cpu to cpu: {} pairs, up to {} of each distance, stand for all",
            pairs.len(),
            lines::PAIRS_A_CLASS
        ));
    }
    watch.phase(&format!("passing a line between {} pairs of cpus", pairs.len()));
    let until =
        Until { deadline: started + options.budget.mul_f64(END_SHARE), samples: options.samples };
    let rounds = lines::run(&pairs, until, watch)?;
    let judged = Judged::new(rounds.samples);
    for (i, pair) in pairs.iter().enumerate() {
        let config = json!({
            "engine": "native",
            "threads": 2,
            "places": [[pair.first.0], [pair.second.0]],
            "distance": pair.distance.name(),
            "what": "half of a cache line's round trip",
            "stopped": rounds.stop.to_string(),
        });
        let figure = Figure {
            test: "matrix",
            name: format!("cpu{}->cpu{}", pair.first.0, pair.second.0),
            unit: Unit::Seconds,
            amount: 1.0,
            quoted: Quoted::Median,
            traffic: None,
            limited: false,
            config: figures::object(config),
            validity: Validity::valid(),
        };
        outcome.measurements.extend(judged.measurement(i, 0, figure, site));
    }
    outcome.interrupted |= rounds.stop == Stop::Interrupted;
    Ok(())
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
    fn two_sockets_of_four_nodes_are_sixty_four_cells() {
        // 2 x EPYC 9654 at NPS4: 8 nodes of 24 cores on 3 caches of 32 MiB.
        let machine = topology(
            "synthetic:Package:2 NUMANode:4(memory=96GiB) L3Cache:3(size=32MiB) \
             L2Cache:8(size=1MiB) L1dCache:1(size=32KiB) Core:1 PU:2",
        );
        let plan = plan(&machine, None);
        assert_eq!(plan.cells().len(), 64);
        assert!(plan.readers.iter().all(|readers| readers.cpus.len() == 24));
        assert_eq!(plan.bytes, 4 * 3 * (32 << 20));
        let mut nodes: Vec<u32> = plan.memories.iter().map(|node| node.0).collect();
        nodes.dedup();
        assert_eq!(nodes, (0..8).collect::<Vec<_>>());
        // No CPU reads for two nodes.
        let mut cpus: Vec<CpuId> = plan.readers.iter().flat_map(|r| r.cpus.clone()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), 192);
        assert_eq!(super::plan(&machine, Some(Bytes::mib(64))).bytes, 64 << 20);
    }

    #[test]
    fn a_machine_of_one_node_has_one_cell() {
        let machine = topology("synthetic:Package:1 L3Cache:1(size=8MiB) Core:4 PU:1");
        let plan = plan(&machine, None);
        assert_eq!(plan.cells(), [(0, 0)]);
        assert_eq!(plan.readers[0].cpus.len(), 4);
        assert_eq!(plan.bytes, 32 << 20);
    }
}
