//! Trends along the axes of a sweep. Cells whose rates are below the trend are measured again, and the saturation point
//! is reported.

use super::{MeasuredTarget, SweepCell};
use crate::GAUGE;
use crate::axis::StreamSetting;
use crate::kernels::{Kernel, Loop};
use crate::result;
use nodegauge_analysis::conclusion;
use nodegauge_gauge::series::Series;
use nodegauge_machine::Topology;
use nodegauge_machine::topology::HardwareThread;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::samples;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{RunLimits, Schedule, Turn};
use nodegauge_measure::sweep::Setting as _;
use nodegauge_measure::{Notice, NoticeId, Observer, stats};
use nodegauge_placement::Placement;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum ratio of a cell's rate to the lower of its neighbours' rates at which the cell is below the trend.
const DIP: f64 = 0.93;
/// Number of rounds of a repeated measurement, including the warm-up.
const REPEATED_ROUNDS: usize = 9;
/// Minimum ratio of a rate to the best rate at saturation. The saturation point is the first cell that reaches this
/// ratio.
const SATURATION_RATIO: f64 = 0.98;

/// Samples and settings of the cells of a sweep.
pub(super) struct TrendAnalysis<'a> {
    pub cells: &'a [SweepCell],
    pub topology: &'a Topology,
    pub limits: RunLimits,
}

/// Row of a sweep: the cells along a numeric axis, with fixed values on the other axes.
#[derive(Debug, PartialEq)]
struct Row {
    /// Name of the axis, with the values on the other axes.
    name: String,
    /// True if the axis counts ranks.
    counts_ranks: bool,
    /// Indices of the cells, in ascending order of threads.
    cells: Vec<usize>,
}

impl Row {
    /// Returns the value of a cell on the axis, e.g. `1 thread`, `4 ranks`.
    fn count(&self, cell: &SweepCell) -> String {
        match &cell.arrangement.ranks {
            Some(plan) if self.counts_ranks => count_in_words(plan.ranks.len(), "rank"),
            _ => count_in_words(cell.threads(), "thread"),
        }
    }
}

impl TrendAnalysis<'_> {
    /// Finds cells below the trend, measures these cells and their neighbours again, and returns a notice for each cell
    /// below the trend. A cell that fails in these turns is lost.
    pub(super) fn remeasure_dips(
        &self,
        series: &mut Series,
        candidates: &mut [MeasuredTarget],
        observer: &dyn Observer,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        for row in rows(self.cells) {
            for three in row.cells.windows(3) {
                let is_lost = three.iter().any(|cell| series.cell_failure(*cell).is_some());
                if series.has_ended() || is_lost || !has_dip(three, &series.schedule, candidates) {
                    continue;
                }
                let name = &row.name;
                let count = row.count(&self.cells[three[1]]);
                let round = three.iter().filter_map(|i| series.schedule.samples[*i].last());
                let round: f64 = round.flat_map(|sample| &sample.seconds).sum();
                let again =
                    Duration::from_secs_f64(round * REPEATED_ROUNDS as f64) + self.limits.reserve;
                if self.limits.samples.is_none()
                    && self.limits.elapsed() + again > self.limits.budget + self.limits.grace()
                {
                    let text = format!(
                        "{name}: the rate with {count} is below the trend; no time left to \
                         measure again"
                    );
                    notices.push(Notice::new(NoticeId::Trend, GAUGE, text));
                    continue;
                }
                let old: Vec<Vec<Sample>> = three
                    .iter()
                    .map(|i| std::mem::take(&mut series.schedule.samples[*i]))
                    .collect();
                let mut turn = |turn: Turn| candidates[turn.cell].run_pass();
                series.remeasure(three, REPEATED_ROUNDS, &mut turn, observer);
                let is_cut =
                    series.has_ended() || three.iter().any(|i| series.cell_failure(*i).is_some());
                let real = is_cut || has_dip(three, &series.schedule, candidates);
                for (n, (i, mut samples)) in three.iter().zip(old).enumerate() {
                    // If the cell is no longer below the trend, its first samples are discarded as wrong; all other
                    // samples are kept.
                    if real || n != 1 {
                        samples.extend(series.schedule.samples[*i].drain(..).skip(1));
                        series.schedule.samples[*i] = samples;
                    }
                }
                if is_cut {
                    continue;
                }
                let cell = &self.cells[three[1]];
                let text = if real {
                    format!(
                        "{name}: the rate with {count} is below the trend, confirmed by a second \
                         measurement: {}",
                        reason(&cell.arrangement.placement, self.topology)
                    )
                } else {
                    format!(
                        "{name}: the rate with {count} was below the trend, not confirmed by a \
                         second measurement; only the new samples count"
                    )
                };
                notices.push(Notice::new(NoticeId::Trend, GAUGE, text));
            }
        }
        notices
    }

    /// Returns a notice with the saturation point along each numeric axis. `figures` are those of each cell; suspect
    /// figures have no saturation point.
    pub(super) fn saturation_notices(
        &self,
        schedule: &Schedule,
        candidates: &[MeasuredTarget],
        figures: &[Vec<Measurement>],
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        for row in rows(self.cells).into_iter().filter(|row| row.cells.len() > 1) {
            let rates: Vec<f64> =
                row.cells.iter().map(|i| median(&candidates[*i], &schedule.samples[*i])).collect();
            let Some(first) = saturation_index(&rates) else { continue };
            let (_, kernel) = trend_kernel(&candidates[row.cells[first]]);
            let count = row.count(&self.cells[row.cells[first]]);
            let name = &row.name;
            let of_row = row.cells.iter().flat_map(|i| &figures[*i]);
            let of_kernel = of_row.filter(|m| m.name == kernel.name());
            let is_last = first + 1 == row.cells.len();
            let text = conclusion::sentence_or_obstacle(
                &format!("where {kernel} saturates"),
                of_kernel,
                || {
                    if is_last {
                        format!("{kernel} still grows at {count}")
                    } else {
                        format!("{kernel} saturates at {count} (within 2 % of the best)")
                    }
                },
            );
            let text = format!("{name}: {text}");
            notices.push(Notice::new(NoticeId::Saturation, GAUGE, text));
        }
        notices
    }
}

/// True if the second of three neighbouring cells is below the trend.
fn has_dip(three: &[usize], turns: &Schedule, targets: &[MeasuredTarget]) -> bool {
    let rates: Vec<f64> = three.iter().map(|i| median(&targets[*i], &turns.samples[*i])).collect();
    is_dip(rates[0], rates[1], rates[2])
}

/// Returns the kernel whose rates determine trends: Triad if it was measured, otherwise the last kernel.
fn trend_kernel(candidate: &MeasuredTarget) -> (usize, Kernel) {
    let kernels: Vec<Kernel> = candidate.target.loops().iter().map(Loop::kernel).collect();
    let i = kernels.iter().position(|k| *k == Kernel::Triad).unwrap_or(kernels.len() - 1);
    (i, kernels[i])
}

/// Returns the median rate of the kernel that determines trends; NaN without samples.
fn median(candidate: &MeasuredTarget, samples: &[Sample]) -> f64 {
    let (i, _) = trend_kernel(candidate);
    let counted = result::counted_bytes(&*candidate.target, i);
    let sorted = samples::assign_regimes(samples);
    let rates = sorted.headline().map(|group| group.values(samples, i, &|time| counted / time));
    rates.map_or(f64::NAN, |rates| stats::median(&rates))
}

/// Returns the index of the first rate that is close to the best, which is the saturation point unless it is the last.
pub(crate) fn saturation_index(rates: &[f64]) -> Option<usize> {
    let best = rates.iter().copied().filter(|x| x.is_finite()).fold(0.0, f64::max);
    rates.iter().position(|one| *one >= SATURATION_RATIO * best)
}

/// True if `here` is below both neighbours by more than the tolerance [`DIP`].
pub(crate) fn is_dip(before: f64, here: f64, after: f64) -> bool {
    here < DIP * before.min(after)
}

/// Returns the rows of cells along all numeric axes.
fn rows(cells: &[SweepCell]) -> Vec<Row> {
    let axes = cells.first().map_or(0, |cell| cell.settings.len());
    let mut rows = Vec::new();
    for axis in (0..axes).filter(|axis| cells[0].settings[*axis].count().is_some()) {
        let mut groups: Vec<(Vec<StreamSetting>, Vec<usize>)> = Vec::new();
        for (i, cell) in cells.iter().enumerate() {
            let mut others = cell.settings.clone();
            others.remove(axis);
            match groups.iter_mut().find(|(known, _)| *known == others) {
                Some((_, members)) => members.push(i),
                None => groups.push((others, vec![i])),
            }
        }
        let own = &cells[0].settings[axis];
        rows.extend(groups.into_iter().map(|(others, mut members)| {
            members.sort_by_key(|i| cells[*i].arrangement.placement.threads.len());
            let others = others.iter().map(|value| format!(" with {} {value}", value.axis()));
            Row {
                name: format!("{}{}", own.axis(), others.collect::<String>()),
                counts_ranks: own.axis() == "ranks",
                cells: members,
            }
        }));
    }
    rows
}

/// Returns the minimum and the maximum number of threads per resource (e.g. per NUMA node); `None` if they are equal.
/// `indices` contains the resource of each thread.
fn uneven_counts(indices: impl Iterator<Item = usize>) -> Option<(u32, u32)> {
    let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
    for index in indices {
        *counts.entry(index).or_default() += 1;
    }
    let least = counts.values().min().copied()?;
    let most = counts.values().max().copied()?;
    (least < most).then_some((least, most))
}

/// Returns the reason in the topology why this number of threads may be slower than the neighbouring numbers.
fn reason(placement: &Placement, topology: &Topology) -> String {
    let threads: Vec<&HardwareThread> = placement
        .threads
        .iter()
        .filter_map(|thread| topology.thread(*thread.cpus.first()?))
        .collect();
    let found = [
        ("NUMA node", uneven_counts(threads.iter().filter_map(|thread| thread.node))),
        ("last-level cache", uneven_counts(threads.iter().filter_map(|thread| thread.llc))),
        ("socket", uneven_counts(threads.iter().map(|thread| thread.socket))),
    ];
    match found.iter().find_map(|(what, counts)| counts.map(|counts| (what, counts))) {
        Some((what, (least, most))) => {
            format!("uneven number of threads per {what}: {least} to {most}")
        }
        None => "the topology shows no reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrangement::{Arrangement, StreamOptions};
    use nodegauge_arena::RequestedPages;
    use nodegauge_gauge::MeasuredNode;
    use nodegauge_machine::{SysRoot, TopologySource};
    use nodegauge_measure::record::Machine;
    use nodegauge_placement::{PlacementRequest, PlacementSetting};

    fn site(text: &str) -> MeasuredNode {
        let topology = Topology::load(&TopologySource::Synthetic(text.to_owned())).unwrap();
        let mut machine = Machine::default();
        machine.memory.available = Some(1 << 40);
        MeasuredNode::new(topology, machine, SysRoot::live())
    }

    fn cell(site: &MeasuredNode, threads: u32) -> SweepCell {
        let request = PlacementRequest { threads: Some(threads), ..PlacementRequest::default() };
        let options = StreamOptions::default();
        SweepCell {
            number: 0,
            settings: vec![PlacementSetting::Threads(threads).into()],
            arrangement: Arrangement::new(site, &request, options, Vec::new()).unwrap(),
            reference: None,
            compiled: None,
        }
    }

    #[test]
    fn uneven_thread_distribution_is_reported() {
        let text = "Package:2 NUMANode:1 L3Cache:16 L2Cache:1 L1dCache:1 Core:1 PU:1";
        let site = site(text);
        let of = |threads| reason(&cell(&site, threads).arrangement.placement, &site.topology);
        assert_eq!(of(31), "uneven number of threads per NUMA node: 15 to 16");
        assert_eq!(of(32), "the topology shows no reason");
    }

    #[test]
    fn dip_is_below_both_neighbours_by_the_tolerance() {
        // These values are from a published sweep on 2 x EPYC 7F52: Triad reaches 170, 141 and 178 GB/s with 18, 20 and
        // 22 threads.
        assert!(is_dip(170.0, 140.6, 177.5));
        assert!(!is_dip(170.0, 165.0, 177.5));
        assert!(!is_dip(100.0, 150.0, 200.0));
    }

    #[test]
    fn rows_have_one_numeric_axis_and_fixed_other_axes() {
        let text = "Package:1 Core:8 PU:1";
        let site = site(text);
        let mut cells = Vec::new();
        for pages in [RequestedPages::Base, RequestedPages::Transparent] {
            for threads in [4, 1, 2] {
                let mut cell = cell(&site, threads);
                cell.settings.push(StreamSetting::Pages(pages));
                cells.push(cell);
            }
        }
        assert_eq!(
            rows(&cells),
            [("threads with pages 4k", vec![1, 2, 0]), ("threads with pages thp", vec![4, 5, 3])]
                .map(|(name, of_row)| Row {
                    name: name.to_owned(),
                    counts_ranks: false,
                    cells: of_row
                })
        );
    }
}
