//! Figures of the family of curves: the figures of points and bandwidths, and the figures that are derived from a whole
//! curve.

use super::{
    CellQuantity, Family, FamilyCell, FamilyMember, FamilyView, MemoryPath, PathMemory, PathRun,
    with_mix,
};
use crate::cached::{self, MeasuredChase};
use crate::config::CurveConfig;
use crate::loaded::{self, KNEE_BANDWIDTH};
use crate::matrix::MIN_LOCAL_SHARE;
use crate::mix::Mix;
use crate::run::{self, CurveRun, FigureOutline, TimeConversion, TimedCells};
use crate::{GAUGE, memory_chase, notice};
use nodegauge_chase::MemoryRegion;
use nodegauge_gauge::family::{
    self, FoundKnee, KNEE_PREFIX, Knee, LOAD_PERCENTS, LoadPoint, MeasuredPoint, PointNames,
    SATURATED_PREFIX,
};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::stream_rule::CacheCapacity;
use nodegauge_measure::{Bytes, NoticeId, Unit, stats};

/// Measured cells of the family, from which the figures are computed.
pub(super) struct FamilyFigures<'f, 'm> {
    pub family: &'f Family,
    pub memories: &'f [PathMemory],
    pub paths: &'f [PathRun<'m>],
    pub cells: &'f [FamilyCell],
}

impl FamilyFigures<'_, '_> {
    /// Adds all figures to the outcome of the run.
    pub(super) fn add(&self, run: &mut CurveRun<'_>, judged: &TimedCells) {
        let mut groups: Vec<(usize, usize)> = Vec::new();
        for cell in self.cells {
            if !groups.contains(&(cell.path, cell.member)) {
                groups.push((cell.path, cell.member));
            }
        }
        for (path, member) in groups {
            self.add_bandwidth(run, judged, path, member);
            self.add_curve(run, judged, path, member);
        }
    }

    /// Returns the index of a cell.
    fn number(&self, path: usize, member: usize, part: CellQuantity) -> Option<usize> {
        self.cells.iter().position(|cell| *cell == FamilyCell { path, member, part })
    }

    /// Returns the configuration and the validity that all figures of a path on a memory region share.
    pub(super) fn config_and_validity(
        &self,
        run: &CurveRun<'_>,
        number: usize,
        region: &MemoryRegion,
    ) -> (CurveConfig, Validity) {
        let path = &self.family.paths[number];
        let (mut config, mut validity) = run.config_and_validity(self.paths[number].pool, region);
        if let Some(node) = path.from {
            config.from_node = Some(node.0.into());
            config.places_asked = None;
            config.bind = None;
        }
        if let Some(node) = path.to {
            config.to_node = Some(node.0.into());
            config.memory_policy = Some(path.policy.as_str().to_owned());
            let got = run::numa_node_shares(region.mapping());
            config.on_node = got.map(|got| got.get(&node.0).copied().unwrap_or_default());
            if let Some(share) = config.on_node.filter(|share| share.0 < MIN_LOCAL_SHARE) {
                let share = share.in_whole_percent();
                validity.mark_suspect(format!("only {share} of the memory is on NUMA node {node}"));
            }
            let known = run.setup.site.topology.nodes.iter().find(|known| known.id == node);
            config.device_memory = known.and_then(|known| known.device.clone());
        }
        (config, validity)
    }

    /// Returns the reason why figures of the arrays of a path are suspect if caches may hold part of the arrays.
    fn array_doubt(&self, run: &CurveRun<'_>, path: usize) -> Option<String> {
        let MemoryPath { places, .. } = &self.family.paths[path];
        let workers = self.family.workers(places.len()).len() as u64;
        let arrays = Bytes(self.family.array_bytes * workers);
        cached::small_set_reason("arrays", arrays, self.caches(run, path))
    }

    /// Returns the reason why the latencies of a path are suspect if caches hold part of the chain. `step` and
    /// `flushed` are the times of a load without load on the memory, seconds.
    fn chase_doubt(
        &self,
        run: &CurveRun<'_>,
        path: usize,
        step: f64,
        flushed: Option<f64>,
    ) -> Option<String> {
        let set = Bytes(self.memories[path].chase_memory.as_ref()?.bytes());
        MeasuredChase { step, flushed, set }.doubt(self.caches(run, path))
    }

    /// Returns the last-level caches that the threads of a path use.
    fn caches(&self, run: &CurveRun<'_>, path: usize) -> CacheCapacity {
        run.setup.site.cache_capacity(&self.family.paths[path].cpus())
    }

    /// Adds the figure for the bandwidth of all threads with a mix.
    fn add_bandwidth(
        &self,
        run: &mut CurveRun<'_>,
        judged: &TimedCells,
        path: usize,
        member: usize,
    ) {
        let Some(cell) = self.number(path, member, CellQuantity::Saturated) else { return };
        let FamilyMember { mix, loops, .. } = &self.paths[path].members[member];
        let (config, mut validity) =
            self.config_and_validity(run, path, &self.memories[path].load_region);
        let threads = self.family.paths[path].places.len() as u64;
        let arrays = Bytes(self.family.array_bytes * threads);
        self.array_doubt(run, path).into_iter().for_each(|reason| validity.mark_suspect(reason));
        let config = CurveConfig {
            element: Some("f64".to_owned()),
            array_bytes: Some(arrays.0),
            ..with_mix(&config, *mix)
        };
        if self.family.view == FamilyView::Curves {
            let rates: Vec<f64> =
                judged.seconds(cell, 0).into_iter().map(|seconds| 1.0 / seconds).collect();
            family::best_doubt(&rates).into_iter().for_each(|reason| validity.mark_suspect(reason));
        }
        let name = match self.family.view {
            FamilyView::Mix => mix.name().to_owned(),
            _ => format!("{SATURATED_PREFIX}{mix}"),
        };
        let value = TimeConversion::Loop(&loops[0], true);
        let figure = FigureOutline { name, quoted: QuotedStatistic::Best, value, config, validity };
        run.add_figure(judged, cell, 0, figure);
    }

    /// Returns the configuration that the points of a curve share, and their validity so far.
    fn points_config(
        &self,
        run: &CurveRun<'_>,
        path: usize,
        member: usize,
    ) -> Option<(CurveConfig, Validity)> {
        let chase_memory = self.memories[path].chase_memory.as_ref()?;
        let (mut config, validity) = self.config_and_validity(run, path, &chase_memory.region);
        config.add_order(run.setup.options.order);
        config.set_bytes = Some(chase_memory.bytes());
        let FamilyMember { mix, load, .. } = &self.paths[path].members[member];
        let variant = load.as_ref()?.0.variant();
        if self.family.view == FamilyView::Curves {
            config = with_mix(&config, *mix);
            config.stores = mix.kernel().writes().then(|| mix.stores().name().to_owned());
        }
        config.loader_bytes = Some(self.family.array_bytes * mix.arrays());
        config.kernel = Some(variant.kernel().name().to_owned());
        config.isa = Some(variant.shape().isa.name().to_owned());
        Some((config, validity))
    }

    /// Returns the names of the figures of a point on the curve of a mix.
    fn point_names(&self, mix: Mix, share: u32) -> PointNames {
        if self.family.view != FamilyView::Loaded {
            return PointNames::new(mix.name(), share);
        }
        let step = loaded::load_suffix(share);
        let bandwidth = (share > 0).then(|| format!("bandwidth_{step}"));
        PointNames { latency: format!("latency_{step}"), bandwidth }
    }

    /// Adds the figures of the points of a curve, and the figures and sentences that are derived from the whole curve.
    fn add_curve(&self, run: &mut CurveRun<'_>, judged: &TimedCells, path: usize, member: usize) {
        let Some((config, validity)) = self.points_config(run, path, member) else { return };
        let FamilyMember { mix, load, .. } = &self.paths[path].members[member];
        let mix = *mix;
        let loaders = self.family.paths[path].places.len() as u64 - 1;
        let idle = self.number(path, member, CellQuantity::Point(0));
        let flushed = idle.and_then(|cell| memory_chase::flushed_load_time(judged, cell, 1));
        let without_load = idle.map(|cell| judged.seconds(cell, 0)).unwrap_or_default();
        let step = stats::median(&without_load);
        let chase_doubt = self.chase_doubt(run, path, step, flushed);
        let array_doubt = self.array_doubt(run, path);
        let mut points: Vec<MeasuredPoint> = Vec::new();
        for (number, share) in LOAD_PERCENTS.into_iter().enumerate() {
            let Some(cell) = self.number(path, member, CellQuantity::Point(number)) else {
                continue;
            };
            let first = run.outcome.measurements.len();
            let mut validity = validity.clone();
            if self.family.view == FamilyView::Curves && share == 0 {
                let doubt = family::latency_doubt(&judged.seconds(cell, 0));
                doubt.into_iter().for_each(|reason| validity.mark_suspect(reason));
            }
            let array_doubt = array_doubt.iter().filter(|_| share > 0);
            array_doubt.for_each(|reason| validity.mark_suspect(reason));
            let PointNames { latency, bandwidth } = self.point_names(mix, share);
            let names = std::iter::once(latency).chain(bandwidth);
            let parts = names.zip([TimeConversion::Seconds, TimeConversion::Rate]).enumerate();
            for (part, (name, value)) in parts {
                let mut validity = validity.clone();
                // The first part is the latency.
                let chase_doubt = chase_doubt.iter().filter(|_| part == 0);
                chase_doubt.for_each(|reason| validity.mark_suspect(reason));
                let figure = FigureOutline {
                    name,
                    quoted: QuotedStatistic::Median,
                    value,
                    config: CurveConfig {
                        loaders: Some(if share > 0 { loaders } else { 0 }),
                        flushed_s: flushed.filter(|_| share == 0),
                        load_share: Some(f64::from(share) / 100.0),
                        wait_s: load.as_ref().and_then(|(_, times)| times.pause_seconds(share)),
                        ..config.clone()
                    },
                    validity,
                };
                run.add_figure(judged, cell, part, figure);
            }
            let figures = &run.outcome.measurements[first..];
            let is_invalid = figures.iter().any(|m| m.validity.status == Status::Invalid);
            let latencies = judged.seconds(cell, 0);
            if stats::median(&latencies).is_finite() && !is_invalid {
                let mut doubts: Vec<String> = Vec::new();
                for reason in figures.iter().flat_map(|m| &m.validity.reasons) {
                    if !doubts.contains(reason) {
                        doubts.push(reason.clone());
                    }
                }
                let rates = if share > 0 { judged.seconds(cell, 1) } else { Vec::new() };
                let rates = rates.into_iter().map(|seconds| 1.0 / seconds).collect();
                points.push(MeasuredPoint { share, latencies, rates, doubts });
            }
        }
        // Without the idle latency, nothing can be derived from a curve.
        if points.first().is_none_or(|point| point.share > 0) {
            return;
        }
        if run.outcome.is_interrupted() && points.len() < LOAD_PERCENTS.len() {
            return;
        }
        let config = CurveConfig {
            loaders: Some(loaders),
            engine: Some("native".to_owned()),
            stopped: run.outcome.stop.map(|stop| stop.to_string()),
            ..config
        };
        match self.family.view {
            FamilyView::Loaded => add_loaded_knee(run, &points, config),
            _ => add_knee(run, mix, &points, config),
        }
    }
}

/// Adds the figure of `memory loaded` for the load at which latency is twice the idle latency, and the sentence about
/// this load.
fn add_loaded_knee(run: &mut CurveRun<'_>, points: &[MeasuredPoint], mut config: CurveConfig) {
    let curve: Vec<LoadPoint> = points.iter().map(MeasuredPoint::whole_run_point).collect();
    let text = loaded::knee_in_words(&curve);
    run.outcome.notices.extend(text.map(|text| notice(NoticeId::Saturation, text)));
    let Knee::At { rate, doubt } = family::find_knee(&curve) else { return };
    // The figure is derived from the points of the curve and has no samples.
    config.basis = Some("linear interpolation between the two nearest loads".to_owned());
    let m = Measurement::new(GAUGE, run.curve.test_name(), KNEE_BANDWIDTH, Unit::BytesPerSecond);
    let mut m = m.with_value(QuotedStatistic::Single, rate).with_config(&config);
    // The figure is at most as valid as the two points from which it is interpolated.
    doubt.into_iter().for_each(|reason| m.doubt(Status::Suspect, reason));
    run.outcome.measurements.push(m);
}

/// Adds the figure for the knee of a curve. Adds a sentence if the bandwidth decreases at higher load.
fn add_knee(run: &mut CurveRun<'_>, mix: Mix, points: &[MeasuredPoint], mut config: CurveConfig) {
    if let Some(text) = family::falling_in_words(mix.name(), points) {
        run.outcome.notices.push(notice(NoticeId::Saturation, text));
    }
    let Some(FoundKnee { basis, rates, doubts }) = FoundKnee::from_points(points) else { return };
    config.basis = Some(basis.to_string());
    let name = format!("{KNEE_PREFIX}{mix}");
    let m = Measurement::new(GAUGE, run.curve.test_name(), name, Unit::BytesPerSecond);
    let mut validity = Validity::valid();
    doubts.into_iter().for_each(|reason| validity.mark_suspect(reason));
    family::knee_doubt(&rates).into_iter().for_each(|reason| validity.mark_suspect(reason));
    let m =
        m.with_samples(QuotedStatistic::Median, rates).with_config(&config).with_validity(validity);
    run.outcome.measurements.push(m);
}
