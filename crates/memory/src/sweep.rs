//! Many configurations in one run: sweeps over threads, places, stores, pages, size, prefetch,
//! compilers.
//!
//! All cells live side by side and run interleaved, in an order that is random (with a fixed seed)
//! and new each round, so that drift of the machine becomes spread and not a trend. A cell that
//! breaks the trend of its neighbours is measured again before it is believed.

use crate::compiled::CompiledKernels;
use crate::halving::Shuffler;
use crate::kernels::{Kernel, Loop, Prefetch, Stores};
use crate::point::{Point, PointError, Sample};
use crate::ranks::{self, FleetPoint, SharedFleet};
use crate::result::{self, Evidence};
use crate::size::Size;
use crate::stream::{self, Options, StreamError};
use crate::target::Target;
use crate::tuner::{self, Breadth};
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::repeat::{Stop, StopRule};
use nodegauge_measure::samples::{self, Sorted};
use nodegauge_measure::stats::Better;
use nodegauge_measure::{Watch, clock, stats};
use nodegauge_placement::{Placement, RankPlan};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A value on each axis: `("threads", "4")`.
pub type Coordinates = Vec<(String, String)>;

/// One configuration of a sweep.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its value on each axis, in the order of the axes.
    pub coordinates: Coordinates,
    /// Where its threads go; of ranks, all of them together.
    pub placement: Placement,
    /// Where its ranks go; `None` for one process.
    pub ranks: Option<RankPlan>,
    /// Everything else.
    pub options: Options,
    /// The cell that its rates are held against.
    pub reference: Option<usize>,
    /// Who made its loops; `None` for the native ones.
    pub variant: Option<Arc<CompiledKernels>>,
}

impl Cell {
    /// Whether there is something to run: a compiler may have made nothing.
    fn can_run(&self) -> bool {
        self.variant.as_ref().is_none_or(|variant| !variant.loops().is_empty())
    }
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The measurements of all cells, cell by cell.
    pub measurements: Vec<Measurement>,
    /// Saturation, broken trends, loops chosen, and what was clamped.
    pub notices: Vec<String>,
    /// Why repetition ended.
    pub stop: Stop,
    /// What ended the sweep before its time; what was measured until then is kept.
    pub broken: Option<String>,
}

/// Share of the budget for all trials together.
const TRIAL_SHARE: f64 = 0.25;
/// Share of the budget for measuring; the rest is for broken trends and the checks.
const MEASURE_SHARE: f64 = 0.85;
/// Rounds at least.
const LEAST_ROUNDS: usize = 8;
/// Rounds, the warm-up among them, even when the time is spent before.
const FEWEST_ROUNDS: usize = 4;
/// Stable means within this share.
const TOLERANCE: f64 = 0.01;
/// A cell that lies this far below both neighbours breaks the trend.
const DIP: f64 = 0.93;
/// Rounds for which a broken trend is measured again.
const AGAIN: usize = 8;
/// The saturation point is the first cell within this share of the best.
const SATURATED: f64 = 0.98;

/// A cell under measurement.
struct Stand {
    point: Box<dyn Target>,
    size: Size,
    samples: Vec<Sample>,
    tried: usize,
}

/// Measures all cells.
///
/// # Errors
/// When a cell cannot be set up: no memory, pages or CPUs as asked.
pub fn run(
    topology: &Topology,
    machine: &Machine,
    cells: &[Cell],
    fleet: Option<&SharedFleet>,
    budget: Duration,
    watch: &mut dyn Watch,
) -> Result<Outcome, StreamError> {
    let started = Instant::now();
    let mut notices = Vec::new();
    let (cells, idle): (Vec<Cell>, Vec<Cell>) = cells.iter().cloned().partition(Cell::can_run);
    let cells = cells.as_slice();
    let nothing = idle.iter().flat_map(|cell| located(cell, Vec::new())).collect();
    if cells.is_empty() {
        return Ok(Outcome { measurements: nothing, notices, stop: Stop::Budget, broken: None });
    }
    watch.phase(&format!("preparing {} configurations", cells.len()));
    let mut stands = prepare(topology, machine, cells, fleet, &mut notices)?;
    watch.phase("choosing loops");
    choose_loops(&mut stands, cells, started, budget, watch, &mut notices)?;
    watch.phase(&format!("measuring {} configurations by turns", cells.len()));
    let mut broken = None;
    let measured = rounds(&mut stands, cells, started, budget, watch).and_then(|stop| {
        if stop != Stop::Interrupted {
            notices.extend(mend_trends(&mut stands, cells, topology)?);
        }
        Ok(stop)
    });
    let stop = match measured {
        Ok(stop) => stop,
        // A rank has gone: what was measured until then is kept.
        Err(StreamError::Point(PointError::Rank(error))) => {
            broken = Some(error.to_string());
            Stop::Interrupted
        }
        Err(error) => return Err(error),
    };
    let quality = clock::quality();
    let mut measurements = Vec::new();
    let mut ends = Vec::new();
    for (stand, cell) in stands.iter_mut().zip(cells) {
        // Ranks that have gone check nothing; their cells say how often they were checked before.
        if broken.is_none() || cell.ranks.is_none() {
            stand.point.check()?;
        }
        let seen = stand.point.seen()?;
        let sorted = samples::sort(&stand.samples);
        let evidence = Evidence {
            machine,
            topology,
            placement: &cell.placement,
            target: &*stand.point,
            seen: &seen,
            size: &stand.size,
            samples: &stand.samples,
            sorted: &sorted,
            stop,
            loops_tried: stand.tried,
            clock: quality,
            traffic: None,
        };
        measurements.extend(located(cell, result::measurements(&evidence)));
        ends.push(measurements.len());
    }
    relate(&mut measurements, &ends, cells);
    measurements.extend::<Vec<Measurement>>(nothing);
    notices.extend(saturation(&stands, cells));
    Ok(Outcome { measurements, notices, stop, broken })
}

/// Gives each measurement its rate over that of the same kernel in the reference cell, medians.
/// `ends` says where the measurements of each cell end.
fn relate(measurements: &mut [Measurement], ends: &[usize], cells: &[Cell]) {
    let median = |m: &Measurement| m.summary.as_ref().map(|summary| summary.median);
    let medians: Vec<Option<f64>> = measurements.iter().map(median).collect();
    let names: Vec<String> = measurements.iter().map(|m| m.name.clone()).collect();
    let range = |cell: usize| (if cell == 0 { 0 } else { ends[cell - 1] })..ends[cell];
    for (i, cell) in cells.iter().enumerate() {
        let Some(reference) = cell.reference else { continue };
        for m in range(i) {
            let same = range(reference).find(|other| names[*other] == names[m]);
            let ratio = same.and_then(|other| Some(medians[m]? / medians[other]?));
            let to: Map<String, Value> = cells[reference]
                .coordinates
                .iter()
                .map(|(axis, value)| (axis.clone(), json!(value)))
                .collect();
            measurements[m]
                .config
                .insert("relative".to_owned(), json!({"to": to, "median": ratio}));
        }
    }
}

/// The measurements of a cell with its coordinates; of what its compiler did not make, the reason.
fn located(cell: &Cell, measured: Vec<Measurement>) -> Vec<Measurement> {
    let coordinates: Map<String, Value> =
        cell.coordinates.iter().map(|(axis, value)| (axis.clone(), json!(value))).collect();
    let mut all = match &cell.variant {
        Some(variant) => variant.complete(measured, None),
        None => measured,
    };
    for measurement in &mut all {
        measurement.config.insert("sweep".to_owned(), Value::Object(coordinates.clone()));
    }
    all
}

/// Every cell with a team and arrays of its own; the memory is shared out among them.
fn prepare(
    topology: &Topology,
    machine: &Machine,
    cells: &[Cell],
    fleet: Option<&SharedFleet>,
    notices: &mut Vec<String>,
) -> Result<Vec<Stand>, StreamError> {
    let mut stands = Vec::new();
    for cell in cells {
        let options = Options {
            memory_fraction: cell.options.memory_fraction / cells.len() as f64,
            ..cell.options.clone()
        };
        let (size, point): (Size, Box<dyn Target>) = match cell.ranks.as_ref().zip(fleet) {
            Some((plan, fleet)) => {
                let (size, configs) = ranks::plan(topology, machine, plan, &options)?;
                (size, Box::new(FleetPoint::prepare(fleet, topology, plan, configs)?))
            }
            None => {
                let (size, config) = stream::plan(topology, machine, &cell.placement, &options)?;
                (size, Box::new(Point::prepare(config)?))
            }
        };
        for notice in &size.notices {
            if !notices.contains(&notice.text) {
                notices.push(notice.text.clone());
            }
        }
        stands.push(Stand { point, size, samples: Vec::new(), tried: 0 });
    }
    Ok(stands)
}

/// What the user left open about a cell's loops.
fn wishes(cell: &Cell) -> tuner::Constraints {
    tuner::Constraints { stores: cell.options.stores, prefetch: cell.options.prefetch }
}

/// One trial for each set of wishes, on the cell with most threads; all cells with the same wishes
/// run the loops that it chose, so that they differ in nothing but their coordinates. What a compiler
/// made is as it is.
fn choose_loops(
    stands: &mut [Stand],
    cells: &[Cell],
    started: Instant,
    budget: Duration,
    watch: &mut dyn Watch,
    notices: &mut Vec<String>,
) -> Result<(), StreamError> {
    let mut groups: Vec<(Option<Stores>, Option<Prefetch>)> = Vec::new();
    for (stand, cell) in stands.iter_mut().zip(cells) {
        if let Some(variant) = &cell.variant {
            stand.point.set_loops(variant.loops())?;
            continue;
        }
        let group = (cell.options.stores, cell.options.prefetch);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let share = budget.mul_f64(TRIAL_SHARE) / groups.len().max(1) as u32;
    for (done, group) in groups.iter().enumerate() {
        let members: Vec<usize> = (0..cells.len())
            .filter(|i| cells[*i].variant.is_none())
            .filter(|i| (cells[*i].options.stores, cells[*i].options.prefetch) == *group)
            .collect();
        let Some(widest) =
            members.iter().copied().max_by_key(|i| cells[*i].placement.threads.len())
        else {
            continue;
        };
        let shapes = tuner::candidates(wishes(&cells[widest]), Breadth::Likely);
        let deadline = (started + share * (done as u32 + 1)).max(Instant::now() + share / 2);
        let chosen =
            tuner::choose(&mut *stands[widest].point, &shapes, deadline, || watch.interrupted())?;
        notices.push(stream::trial_in_words(&chosen, shapes.len()));
        for i in members {
            stands[i].point.reshape(chosen.loops.clone())?;
            stands[i].tried = chosen.tried;
        }
    }
    notices.dedup();
    Ok(())
}

/// Rounds over all cells until all are stable, the time is spent, or the user ends it.
fn rounds(
    stands: &mut [Stand],
    cells: &[Cell],
    started: Instant,
    budget: Duration,
    watch: &mut dyn Watch,
) -> Result<Stop, StreamError> {
    let exactly = cells.first().and_then(|cell| cell.options.samples);
    let rule = StopRule {
        least: LEAST_ROUNDS,
        exactly,
        at_least: Duration::ZERO,
        at_most: budget.mul_f64(MEASURE_SHARE).saturating_sub(started.elapsed()),
        tolerance: TOLERANCE,
    };
    let begun = Instant::now();
    let mut shuffler = Shuffler::new(0x0073_7765_6570);
    let mut order: Vec<usize> = (0..stands.len()).collect();
    loop {
        shuffler.shuffle(&mut order);
        for i in &order {
            if watch.interrupted() {
                return Ok(Stop::Interrupted);
            }
            let sample = stands[*i].point.pass()?;
            stands[*i].samples.push(sample);
        }
        let rounds = stands.iter().map(|stand| stand.samples.len()).min().unwrap_or(0);
        let spent = begun.elapsed().as_secs_f64() / rule.at_most.as_secs_f64().max(1e-3);
        let share = exactly.map_or(spent, |n| rounds as f64 / (n + 1) as f64);
        watch.progress(share.min(1.0), &format!("round {rounds}"));
        // The first round is the warm-up.
        let late = begun.elapsed() >= rule.at_most && rounds >= FEWEST_ROUNDS;
        if rounds <= LEAST_ROUNDS && exactly.is_none() && !late {
            continue;
        }
        let figures: Vec<Vec<f64>> = match exactly {
            Some(_) => vec![vec![1.0; rounds - 1]],
            None => stands.iter().flat_map(figures).collect(),
        };
        let slices: Vec<&[f64]> = figures.iter().map(Vec::as_slice).collect();
        if let Some(stop) = rule.decide(&slices, begun.elapsed(), Better::Higher) {
            return Ok(stop);
        }
    }
}

/// Rates of each kernel in the headline's regime.
fn figures(stand: &Stand) -> Vec<Vec<f64>> {
    let sorted = samples::sort(&stand.samples);
    let Some(group) = sorted.headline() else { return Vec::new() };
    (0..stand.point.loops().len())
        .map(|i| Sorted::rates(&stand.samples, group, i, result::counted(&*stand.point, i)))
        .collect()
}

/// The kernel that trends are read from: Triad when it runs, else the last.
fn read_from(point: &dyn Target) -> (usize, Kernel) {
    let kernels: Vec<Kernel> = point.loops().iter().map(Loop::kernel).collect();
    let i = kernels.iter().position(|k| *k == Kernel::Triad).unwrap_or(kernels.len() - 1);
    (i, kernels[i])
}

/// The median rate of the kernel that trends are read from; NaN without samples.
fn typical(stand: &Stand) -> f64 {
    let (i, _) = read_from(&*stand.point);
    figures(stand).get(i).map_or(f64::NAN, |rates| stats::median(rates))
}

/// Cells in a row along an axis of numbers, the other axis fixed: indices in ascending order.
fn rows(cells: &[Cell]) -> Vec<(String, Vec<usize>)> {
    let axes = cells.first().map_or(0, |cell| cell.coordinates.len());
    let mut rows: Vec<(String, Vec<usize>)> = Vec::new();
    for axis in 0..axes {
        let name = &cells[0].coordinates[axis].0;
        if !["threads", "per-cache", "ranks"].contains(&name.as_str()) {
            continue;
        }
        let rest = |cell: &Cell| {
            let mut rest = cell.coordinates.clone();
            rest.remove(axis);
            rest
        };
        let mut groups: Vec<(Coordinates, Vec<usize>)> = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            match groups.iter_mut().find(|(known, _)| *known == rest(cell)) {
                Some((_, members)) => members.push(i),
                None => groups.push((rest(cell), vec![i])),
            }
        }
        for (rest, mut members) in groups {
            members.sort_by_key(|i| cells[*i].placement.threads.len());
            let fixed: Vec<String> = rest.iter().map(|(a, v)| format!(" with {a} {v}")).collect();
            rows.push((format!("{name}{}", fixed.join("")), members));
        }
    }
    rows
}

/// Whether the middle of three lies below both neighbours by more than noise.
fn is_dip(before: f64, here: f64, after: f64) -> bool {
    here < DIP * before.min(after)
}

/// Finds cells that break the trend, measures them and their neighbours again, and says what
/// became of each.
fn mend_trends(
    stands: &mut [Stand],
    cells: &[Cell],
    topology: &Topology,
) -> Result<Vec<String>, StreamError> {
    let mut notices = Vec::new();
    for (name, row) in rows(cells) {
        for three in row.windows(3) {
            let [before, here, after] = [three[0], three[1], three[2]];
            let rates = [before, here, after].map(|i| typical(&stands[i]));
            if !is_dip(rates[0], rates[1], rates[2]) {
                continue;
            }
            let mut again: [Vec<Sample>; 3] = Default::default();
            for _ in 0..=AGAIN {
                for (i, samples) in three.iter().zip(&mut again) {
                    samples.push(stands[*i].point.pass()?);
                }
            }
            let fresh = three.iter().zip(again).map(|(i, samples)| {
                let old = std::mem::replace(&mut stands[*i].samples, samples);
                let rate = typical(&stands[*i]);
                (old, rate)
            });
            let fresh: Vec<(Vec<Sample>, f64)> = fresh.collect();
            let real = is_dip(fresh[0].1, fresh[1].1, fresh[2].1);
            let count = counted(&cells[here], &name);
            for (n, (i, (old, _))) in three.iter().zip(fresh).enumerate() {
                // The dip's first samples were wrong if it is gone now; all else is kept.
                let gone = n == 1 && !real;
                if !gone {
                    let more = std::mem::replace(&mut stands[*i].samples, old);
                    stands[*i].samples.extend(more.into_iter().skip(1));
                }
            }
            notices.push(if real {
                format!(
                    "{name}: {count} break the trend, also when measured again: {}",
                    reason(&cells[here].placement, topology)
                )
            } else {
                format!(
                    "{name}: {count} broke the trend; measured again they do not, and the \
                     new samples stand"
                )
            });
        }
    }
    Ok(notices)
}

/// Why a number of threads may be slower than its neighbours, from the topology.
fn reason(placement: &Placement, topology: &Topology) -> String {
    let uneven = |of: &dyn Fn(&nodegauge_machine::topology::HardwareThread) -> Option<usize>| {
        let mut counts: std::collections::BTreeMap<usize, u32> = Default::default();
        let first = |cpus: &[nodegauge_machine::CpuId]| cpus.first().copied();
        for cpu in placement.threads.iter().filter_map(|thread| first(&thread.cpus)) {
            if let Some(index) = topology.thread(cpu).and_then(of) {
                *counts.entry(index).or_default() += 1;
            }
        }
        let (least, most) = (counts.values().min().copied(), counts.values().max().copied());
        least.zip(most).filter(|(least, most)| least < most)
    };
    let found = [
        ("NUMA nodes", uneven(&|thread| thread.node)),
        ("last-level caches", uneven(&|thread| thread.llc)),
        ("sockets", uneven(&|thread| Some(thread.socket))),
    ];
    match found.iter().find_map(|(what, counts)| counts.map(|counts| (what, counts))) {
        Some((what, (least, most))) => {
            format!("the threads are uneven over the {what} ({least} to {most} on each)")
        }
        None => "the topology shows no reason".to_owned(),
    }
}

/// `1 thread`, `4 ranks`: the length of a row's step.
fn counted(cell: &Cell, row: &str) -> String {
    let (count, noun) = match &cell.ranks {
        Some(plan) if row.starts_with("ranks") => (plan.ranks.len(), "rank"),
        _ => (cell.placement.threads.len(), "thread"),
    };
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Names the fewest threads that reach nearly the best, along each axis of numbers.
fn saturation(stands: &[Stand], cells: &[Cell]) -> Vec<String> {
    rows(cells)
        .into_iter()
        .filter(|(_, row)| row.len() > 1)
        .filter_map(|(name, row)| {
            let rates: Vec<f64> = row.iter().map(|i| typical(&stands[*i])).collect();
            let best = rates.iter().copied().filter(|x| x.is_finite()).fold(0.0, f64::max);
            let first = rates.iter().position(|rate| *rate >= SATURATED * best)?;
            let (_, kernel) = read_from(&*stands[row[first]].point);
            let threads = counted(&cells[row[first]], &name);
            let last = first + 1 == row.len();
            Some(if last {
                format!("{name}: {kernel} still grows at {threads}")
            } else {
                format!("{name}: {kernel} saturates at {threads} (within 2 % of the best)")
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::TopologySource;
    use nodegauge_placement::Request;

    fn cell(topology: &Topology, threads: u32) -> Cell {
        let request = Request { threads: Some(threads), ..Request::default() };
        Cell {
            coordinates: vec![("threads".to_owned(), threads.to_string())],
            placement: nodegauge_placement::plan(topology, &request).unwrap(),
            ranks: None,
            options: Options::default(),
            reference: None,
            variant: None,
        }
    }

    #[test]
    fn uneven_threads_are_named_from_the_topology() {
        let text = "Package:2 NUMANode:1 L3Cache:16 L2Cache:1 L1dCache:1 Core:1 PU:1";
        let topology = Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap();
        assert_eq!(
            reason(&cell(&topology, 31).placement, &topology),
            "the threads are uneven over the NUMA nodes (15 to 16 on each)"
        );
        let even = reason(&cell(&topology, 32).placement, &topology);
        assert_eq!(even, "the topology shows no reason");
    }

    #[test]
    fn a_dip_must_be_below_both_neighbours_by_more_than_noise() {
        // 18, 20 and 22 threads of a published sweep on 2 x EPYC 7F52: Triad 170, 141, 178 GB/s.
        assert!(is_dip(170.0, 140.6, 177.5));
        assert!(!is_dip(170.0, 165.0, 177.5));
        assert!(!is_dip(100.0, 150.0, 200.0));
    }

    #[test]
    fn rows_run_along_numbers_with_the_other_axis_fixed() {
        let text = "Package:1 Core:8 PU:1";
        let topology = Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap();
        let mut cells = Vec::new();
        for pages in ["4k", "thp"] {
            for threads in [4, 1, 2] {
                let mut cell = cell(&topology, threads);
                cell.coordinates.push(("pages".to_owned(), pages.to_owned()));
                cells.push(cell);
            }
        }
        assert_eq!(
            rows(&cells),
            [
                ("threads with pages 4k".to_owned(), vec![1, 2, 0]),
                ("threads with pages thp".to_owned(), vec![4, 5, 3]),
            ]
        );
    }
}
