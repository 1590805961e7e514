//! Simulation of the schedule on synthetic machines. Virtual threads execute the schedule in virtual time, and
//! bytes moved between NUMA nodes are counted. The results are shares of bytes and ratios of times for a comparison
//! of two distributions of columns, not absolute times.

use super::{LuSchedule, MAX_UPDATE_COLUMNS, Work};
use crate::distribution::{self, ColumnDistribution};
use crate::factorisation::panel_group_size;
use nodegauge_machine::{Topology, TopologySource};
use nodegauge_placement::{Binding, PlacementRequest};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Rate of a core, FLOP/s. Only the ratios of these three constants matter.
const CORE: f64 = 30e9;
/// Memory bandwidth per core on its own NUMA node, B/s.
const LOCAL: f64 = 5e9;
/// Memory bandwidth per core on another NUMA node, B/s.
const REMOTE: f64 = 2.5e9;

struct Machine {
    n: usize,
    nb: usize,
    /// NUMA node of each thread.
    nodes: Vec<usize>,
    /// Function that returns the NUMA node on which a column is stored.
    column_node: Box<dyn Fn(usize) -> usize>,
    schedule: LuSchedule,
    group: usize,
}

/// Activity of a thread until a point in time.
enum Activity {
    Nothing,
    Waiting,
    Panel(usize),
    Work(Work),
}

#[derive(Debug, Default, Clone, Copy)]
struct SimulatedRun {
    seconds: f64,
    bytes: f64,
    remote: f64,
}

impl Machine {
    fn columns(&self, blocks: &Range<usize>) -> Range<usize> {
        blocks.start * self.nb..(blocks.end * self.nb).min(self.n)
    }

    /// Returns the time in which `thread` moves the bytes of these columns, and counts the bytes.
    fn move_time(
        &self,
        thread: usize,
        columns: Range<usize>,
        per_column: f64,
        ran: &mut SimulatedRun,
    ) -> f64 {
        let own = self.nodes[thread];
        let remote =
            columns.clone().filter(|column| (self.column_node)(*column) != own).count() as f64;
        let all = columns.len() as f64;
        ran.bytes += all * per_column;
        ran.remote += remote * per_column;
        (all - remote) * per_column / LOCAL + remote * per_column / REMOTE
    }

    /// Returns the time of an item of work. Products read and write C, and read A and B. Exchanges read and write
    /// two rows of every column, with one element per cache line. Arithmetic and memory accesses overlap.
    fn work_time(
        &self,
        thread: usize,
        Work { blocks, step, rows }: &Work,
        ran: &mut SimulatedRun,
    ) -> f64 {
        let columns = self.columns(blocks);
        let panel = self.columns(&(*step..step + 1));
        let width = columns.len() as f64;
        let depth = panel.len() as f64;
        let (rows, flops, of_c) = match rows {
            None => (depth, depth * depth * width, 4.0 * 64.0 * depth),
            Some(rows) => (
                rows.len() as f64,
                2.0 * rows.len() as f64 * width * depth,
                16.0 * rows.len() as f64,
            ),
        };
        let moved = self.move_time(thread, columns, of_c, ran)
            + self.move_time(thread, panel, 8.0 * rows, ran);
        (flops / CORE).max(moved)
    }

    /// Returns the time in which the panel group factors a panel, at a quarter of the rate of a product.
    fn panel(&self, number: usize, step: usize, ran: &mut SimulatedRun) -> f64 {
        let columns = self.columns(&(number..number + 1));
        let rows = (self.n - columns.start) as f64;
        let width = columns.len() as f64;
        let updates: f64 = (step..number)
            .map(|step| 2.0 * (self.n - (step + 1) * self.nb) as f64 * width * self.nb as f64)
            .sum();
        let per_column = 16.0 * rows * (1 + number - step) as f64 / self.group as f64;
        let moved: f64 =
            (0..self.group).map(|of| self.move_time(of, columns.clone(), per_column, ran)).sum();
        let flops = updates + 4.0 * rows * width * width;
        (flops / CORE / self.group as f64).max(moved / self.group as f64)
    }

    /// Simulates a whole factorisation.
    fn run(&self) -> SimulatedRun {
        let threads = self.nodes.len();
        let mut ran = SimulatedRun::default();
        let mut doing: Vec<(f64, Activity)> =
            (0..threads).map(|_| (0.0, Activity::Nothing)).collect();
        let mut called: Option<(usize, usize, usize)> = None;
        let mut now = 0.0;
        let panels = self.n.div_ceil(self.nb);
        // After a change of the schedule, all threads look for work; otherwise, only the thread that has finished looks
        // for work.
        let mut version = u64::MAX;
        let mut done = 0;
        while self.schedule.factored.load(Ordering::Acquire) < panels {
            let seen =
                std::mem::replace(&mut version, self.schedule.version.load(Ordering::Acquire));
            let awaited = called.is_some_and(|(.., here)| here < self.group);
            let all = seen != version || awaited;
            for thread in if all { 0..threads } else { done..done + 1 } {
                if !matches!(doing[thread].1, Activity::Nothing) {
                    continue;
                }
                let next = self.schedule.factored.load(Ordering::Acquire);
                if thread == 0 && called.is_none() && next < panels {
                    called = self.schedule.claim_panel().map(|step| (next, step, 0));
                }
                if let Some((number, step, here)) = called.filter(|_| thread < self.group) {
                    doing[thread].1 = Activity::Waiting;
                    called = Some((number, step, here + 1));
                    if here + 1 == self.group {
                        let end = now + self.panel(number, step, &mut ran);
                        (0..self.group).for_each(|of| doing[of] = (end, Activity::Panel(number)));
                    }
                } else if let Some(work) = self.schedule.take(self.n, thread) {
                    doing[thread] =
                        (now + self.work_time(thread, &work, &mut ran), Activity::Work(work));
                }
            }
            let next = (0..threads)
                .filter(|of| matches!(doing[*of].1, Activity::Panel(_) | Activity::Work(_)));
            let thread =
                next.min_by(|a, b| doing[*a].0.total_cmp(&doing[*b].0)).expect("no standstill");
            (now, done) = (doing[thread].0, thread);
            match std::mem::replace(&mut doing[thread].1, Activity::Nothing) {
                Activity::Panel(number) if thread == 0 => {
                    self.schedule.publish(number);
                    (0..self.group).for_each(|of| doing[of] = (now, Activity::Nothing));
                    called = None;
                }
                Activity::Work(Work { blocks, step, rows }) => {
                    let follows = match rows {
                        None => self.schedule.open(blocks.start, (step + 1) * self.nb..self.n),
                        Some(_) => self.schedule.finish_piece(blocks.start),
                    };
                    if let Some(work) = follows {
                        let work_time = self.work_time(thread, &work, &mut ran);
                        doing[thread] = (now + work_time, Activity::Work(work));
                    }
                }
                other => doing[thread].1 = other,
            }
            ran.seconds = now;
        }
        ran
    }
}

/// Simulates two factorisations with one thread per core on a machine described in the literature. In the first one,
/// columns are on the NUMA nodes that update them; in the second one, columns are spread over all threads, and any
/// thread updates them.
fn both(topology: &str, n: usize, nb: usize) -> (usize, SimulatedRun, SimulatedRun) {
    let topology = Topology::load(&TopologySource::Synthetic(topology.to_owned())).unwrap();
    let request = PlacementRequest { bind: Some(Binding::Close), ..PlacementRequest::default() };
    let placement = nodegauge_placement::plan(&topology, &request).unwrap();
    let nodes = distribution::thread_numa_nodes(&topology, &placement);
    let threads = nodes.len();
    let group = panel_group_size(n, nb, threads);
    let machine =
        |distribution: ColumnDistribution, column_node: Box<dyn Fn(usize) -> usize>| Machine {
            n,
            nb,
            nodes: nodes.clone(),
            column_node,
            schedule: LuSchedule::new(n.div_ceil(nb), nb, threads, distribution),
            group,
        };
    let placing = ColumnDistribution::new(&nodes, n, nb, MAX_UPDATE_COLUMNS);
    let distribution = placing.clone();
    let placed =
        machine(placing, Box::new(move |column| distribution.column_numa_node(column))).run();
    let thread_node = nodes.clone();
    let spread = Box::new(move |column: usize| thread_node[column / 16 % thread_node.len()]);
    (topology.nodes.len(), placed, machine(ColumnDistribution::single_numa_node(), spread).run())
}

#[test]
fn placement_reduces_remote_bytes() {
    let machines = [
        ("Package:2 NUMANode:1 Core:8 PU:1", 16_000, 192),
        ("Package:4 NUMANode:1 Core:4 PU:1", 16_000, 192),
        ("Package:2 NUMANode:4 L3Cache:4 L2Cache:4 L1dCache:1 Core:1 PU:1", 24_000, 192),
        ("Package:2 NUMANode:1 L3Cache:12 L2Cache:8 L1dCache:1 Core:1 PU:1", 30_000, 256),
    ];
    for (topology, n, nb) in machines {
        let (nodes, placed, spread) = both(topology, n, nb);
        let faster = spread.seconds / placed.seconds;
        let before = spread.remote / spread.bytes;
        let after = placed.remote / placed.bytes;
        let text =
            format!("{topology}: remote {before:.3} -> {after:.3}, {faster:.3} times as fast");
        let by_chance = 1.0 - 1.0 / nodes as f64;
        assert!((before - by_chance).abs() < 0.05, "{text}");
        assert!(after < 0.6 * before && faster > 0.95, "{text}");
    }
}

#[test]
fn placement_has_no_effect_on_single_numa_node() {
    let (_, placed, spread) = both("Package:1 NUMANode:1 Core:8 PU:1", 8_000, 128);
    assert_eq!((placed.seconds, placed.remote), (spread.seconds, 0.0));
}
