//! Test `device curves`: the family of curves of a device's memory. For each mix of reads and writes, a curve gives the
//! latency of a chain of dependent loads as a function of the bandwidth of a concurrent load.
//!
//! One kernel does both: its first group follows the chain with a single work-item; the other groups load the memory,
//! with pauses that control their rate. The points of all curves, and the bandwidths of all groups without the chain,
//! are measured interleaved. The analysis of a curve and the view are shared with `memory curves` (`gauge::family`).

mod rig;

use crate::config::DeviceCurveConfig;
use crate::driver::{DeviceError, OpenDevice};
use crate::evidence::DeviceEvidence;
use crate::info::{DeviceClass, DeviceInfo};
use crate::state::DeviceStates;
use crate::{GAUGE, drivers, host_memory};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::family::{
    self, FoundKnee, KNEE_PREFIX, LOAD_PERCENTS, MeasuredPoint, PointNames, SATURATED_PREFIX,
};
use nodegauge_gauge::series::Series;
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::samples::{Sample, SamplesByRegime};
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, policy};
use nodegauge_measure::{
    Bytes, Failure, Fraction, Notice, NoticeId, Observer, Outcome, Unit, names, stats,
};
use rig::{CurveRig, MixTimes};
use std::rc::Rc;
use std::time::Duration;

/// Name of this test in records.
pub const TEST: &str = "device_curves";
/// Size of the chain and of each array as a multiple of the last-level cache, as STREAM's rule requires.
const TIMES_LLC: u64 = 4;
/// Minimum size of the chain and of each array, for devices whose cache is small or of unknown size.
const MIN_SIZE: Bytes = Bytes::mib(64);
/// Maximum size of the chain, because the host generates the chain and verifies its end.
const MAX_SIZE: Bytes = Bytes::gib(1);
/// Number of buffers per device, all of about the same size: three arrays and one chain.
const PARTS: u64 = 4;
/// Maximum share of the free memory for the arrays and the chain.
const SHARE: Fraction = Fraction(0.8);

/// Mix of reads and writes. Its name is the ratio of lines read to lines written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMix {
    /// Reads only.
    Reads,
    /// Three lines are read; one of them is also written.
    ThreeToOne,
    /// Two lines are read; one of them is also written.
    TwoToOne,
    /// Each line is read and written.
    OneToOne,
    /// Writes only.
    Writes,
}

names!(
    DeviceMix,
    "mix",
    Reads = "1:0",
    ThreeToOne = "3:1",
    TwoToOne = "2:1",
    OneToOne = "1:1",
    Writes = "0:1",
);

impl DeviceMix {
    /// Returns the number of lines read and the number of lines written.
    pub fn lines(self) -> [u32; 2] {
        match self {
            Self::Reads => [1, 0],
            Self::ThreeToOne => [3, 1],
            Self::TwoToOne => [2, 1],
            Self::OneToOne => [1, 1],
            Self::Writes => [0, 1],
        }
    }

    /// Returns the number of elements that are read or written per iteration of the loop.
    fn words(self) -> u32 {
        self.lines().iter().sum()
    }
}

/// Options of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceCurveOptions {
    /// Mixes to measure, without duplicates.
    pub mixes: Vec<DeviceMix>,
    /// Size of the chain and of each array; `None` for four times the last-level cache.
    pub size: Option<Bytes>,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Exact number of rounds, regardless of the time budget.
    pub samples: Option<usize>,
}

impl DeviceCurveOptions {
    /// Default time budget.
    pub const BUDGET: Duration = Duration::from_secs(30);
}

/// Run that has been planned and not yet started.
pub struct DeviceCurvePlan {
    devices: Vec<DeviceInfo>,
    options: DeviceCurveOptions,
    notices: Vec<Notice>,
}

impl DeviceCurvePlan {
    /// Plans a run on `devices`.
    ///
    /// # Errors
    /// Fails if a device cannot run a chain and a load at the same time.
    pub fn new(
        devices: Vec<DeviceInfo>,
        options: DeviceCurveOptions,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        for device in &devices {
            let id = device.id();
            if device.units == 1 {
                return Err(Failure::missing(format!(
                    "{id} has one compute unit: a chain and a load cannot run at the same time"
                )));
            }
            if device.class == DeviceClass::Cpu {
                let text = format!(
                    "{id} is this node's processor: the driver does not pin its threads, \
                     and the loops do not read several pages side by side; for the node's own \
                     curves run nodegauge memory curves"
                );
                notices.push(Notice::new(NoticeId::Method, GAUGE, text));
            }
        }
        if options.size.is_some_and(|size| size > MAX_SIZE) {
            let text = format!(
                "the chain is limited to {MAX_SIZE}, because the host generates and checks it"
            );
            return Err(Failure::usage(text).hint(format!("use --size {MAX_SIZE} or less")));
        }
        let mut options = options;
        options.mixes =
            DeviceMix::ALL.iter().copied().filter(|mix| options.mixes.contains(mix)).collect();
        Ok(Self { devices, options, notices })
    }

    /// Returns the size of the chain and of each array on a device. Adds a notice if the memory is too small for the
    /// default size.
    fn size(
        &self,
        host: Option<Bytes>,
        device: &dyn OpenDevice,
        notices: &mut Vec<Notice>,
    ) -> Result<Bytes, Failure> {
        let info = device.info();
        let available = match device.free_memory()? {
            Some(free) => free,
            None if info.shares_host_memory => {
                host_memory::array_memory(info, host)?.unwrap_or(info.memory)
            }
            None => info.memory,
        };
        let room = (available.as_f64() * SHARE.0 / self.devices.len() as f64) as u64 / PARTS;
        let room = Bytes(room.min(info.largest_allocation.0));
        let usual = info.last_cache.map_or(MIN_SIZE, |llc| Bytes(llc.0 * TIMES_LLC)).max(MIN_SIZE);
        let wanted = self.options.size.unwrap_or(usual).min(MAX_SIZE);
        if wanted <= room {
            return Ok(wanted);
        }
        let id = info.id();
        if self.options.size.is_some() || room < Bytes(1 << 20) {
            return Err(Failure::missing(format!(
                "{id}: a chain and three arrays of {wanted} do not fit: at most {room} each"
            ))
            .hint("use a smaller --size"));
        }
        let text = format!("{id}: chain and arrays reduced from {wanted} to {room} each");
        notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
        Ok(room)
    }
}

/// Quantity of a mix that a cell measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CurvePart {
    /// Bandwidth with load from all groups.
    Saturated,
    /// Point with this index into [`LOAD_PERCENTS`].
    Point(usize),
}

/// Cell of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CurveCell {
    /// Index of the device.
    device: usize,
    /// Index of the mix.
    mix: usize,
    part: CurvePart,
}

/// Device with its chain and arrays during the run.
struct CurveDevice {
    device: Rc<dyn OpenDevice>,
    rig: CurveRig,
    /// Block and wait times of each mix at full rate.
    times: Vec<MixTimes>,
    watched: DeviceStates,
}

impl CurveDevice {
    /// Measures one quantity of a mix once.
    fn turn(
        &mut self,
        number: usize,
        mix: DeviceMix,
        part: CurvePart,
    ) -> Result<Sample, DeviceError> {
        let times = self.times[number];
        let seconds = match part {
            CurvePart::Saturated => vec![self.rig.measure_saturated(mix, times)?],
            CurvePart::Point(share) => self.rig.measure_point(mix, times, LOAD_PERCENTS[share])?,
        };
        self.watched.record_state(self.device.state());
        Ok(Sample::from_times(seconds))
    }
}

impl PlannedRun for DeviceCurvePlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.options.budget.time), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let names = family::figure_names(self.options.mixes.iter().map(|mix| mix.name()));
        let units = &[Unit::BytesPerSecond, Unit::Seconds];
        vec![
            PossibleFigures::new(GAUGE, TEST, names, units)
                .with_name_rule(family::is_point_name)
                .with_known_limit(true),
        ]
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let limits = RunLimits::from_budget(self.options.budget, self.options.samples);
        let mut notices = self.notices.clone();
        let host = host_memory::remaining_memory(site);
        let mut devices: Vec<CurveDevice> = Vec::new();
        for device in drivers::open_devices(&self.devices)? {
            let id = device.info().id();
            let size = self.size(host, &*device, &mut notices)?;
            observer.begin_phase(&format!("{id}: preparing a chain and arrays of {size}"));
            let mut rig = CurveRig::new(&device, size.0 as usize)?;
            let mut times = Vec::new();
            for mix in &self.options.mixes {
                observer.check_interrupt()?;
                times.push(rig.calibrate(*mix)?);
            }
            let watched = DeviceStates::new(device.state());
            devices.push(CurveDevice { device, rig, times, watched });
        }
        let mut cells = Vec::new();
        for device in 0..devices.len() {
            for mix in 0..self.options.mixes.len() {
                cells.push(CurveCell { device, mix, part: CurvePart::Saturated });
                let points = (0..LOAD_PERCENTS.len()).map(CurvePart::Point);
                cells.extend(points.map(|part| CurveCell { device, mix, part }));
            }
        }
        observer.begin_phase("measuring all points of all curves, interleaved");
        let mut series = Series::new(policy::DEVICES, limits, cells.len());
        let mixes = &self.options.mixes;
        let mut turn = |turn: Turn| -> Result<Vec<Sample>, DeviceError> {
            let CurveCell { device, mix, part } = cells[turn.cell];
            Ok(vec![devices[device].turn(mix, mixes[mix], part)?])
        };
        series.run(&mut turn, observer, None)?;
        if series.failure().is_none() {
            for device in &mut devices {
                device.rig.verify()?;
            }
        }
        let regime = series.samples_by_regime(&[]);
        let stopped = series.stop_reason().to_string();
        let evidence = DeviceEvidence { site, series: &series, regime: &regime, stopped: &stopped };
        let mut outcome = Outcome { notices, ..Outcome::default() };
        for (number, device) in devices.iter().enumerate() {
            for (of_mix, mix) in mixes.iter().enumerate() {
                let first = CurveCell { device: number, mix: of_mix, part: CurvePart::Saturated };
                let figures =
                    MixFigures { evidence: &evidence, cells: &cells, first, device, mix: *mix };
                figures.add(&mut outcome, device.times[of_mix]);
            }
        }
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}

/// Figures of a mix on a device.
struct MixFigures<'f> {
    evidence: &'f DeviceEvidence<'f>,
    /// Cells of the run.
    cells: &'f [CurveCell],
    /// First cell of the mix.
    first: CurveCell,
    device: &'f CurveDevice,
    mix: DeviceMix,
}

impl MixFigures<'_> {
    /// Returns the configuration of the figures of the mix.
    fn config(&self) -> DeviceCurveConfig {
        let CurveDevice { device, rig, watched, .. } = self.device;
        let mut on = watched.config(device.info());
        on.stopped = Some(self.evidence.stopped.clone());
        let [reads, writes] = self.mix.lines();
        DeviceCurveConfig {
            on,
            element: Some(rig.element.name().to_owned()),
            reads: Some(reads.into()),
            writes: Some(writes.into()),
            array_bytes: Some(rig.array_bytes as u64),
            set_bytes: Some(rig.chain_bytes as u64),
            stride_bytes: Some(rig.stride as u64),
            groups: Some(rig.load_groups as u64),
            group_items: Some(rig.items as u64),
            ..DeviceCurveConfig::default()
        }
    }

    /// Returns the validity of the device, which all figures of the device share.
    fn validity(&self) -> Validity {
        let CurveDevice { device, rig, watched, .. } = self.device;
        let info = device.info();
        let mut validity = Validity::valid();
        watched.judge(&info.id(), &mut validity);
        if let Some(wrong) = &rig.wrong_result {
            let id = info.id();
            validity.mark_invalid(format!("{id}: {wrong}; the device computes wrong results"));
        }
        let caches = info.last_cache.map_or(0, |llc| TIMES_LLC * llc.0);
        if (rig.chain_bytes as u64) < caches {
            validity.mark_suspect(format!(
                "a chain and arrays of {} are smaller than four times the last cache, which holds part of them",
                Bytes(rig.chain_bytes as u64)
            ));
        }
        validity
    }

    /// Returns the figure for the times with index `part` in the samples of a cell; `None` if no sample counts.
    fn timed(
        &self,
        (cell, part): (usize, usize),
        name: &str,
        quoted: QuotedStatistic,
        config: &DeviceCurveConfig,
    ) -> Option<Measurement> {
        let DeviceEvidence { series, regime, .. } = *self.evidence;
        let is_latency = part == 0 && quoted == QuotedStatistic::Median;
        let unit = if is_latency { Unit::Seconds } else { Unit::BytesPerSecond };
        let m = Measurement::new(GAUGE, TEST, name, unit);
        let value = |seconds: f64| if is_latency { seconds } else { 1.0 / seconds };
        let m = series.figure(regime, (cell, part), m, quoted, &value)?;
        Some(series.judge_figure(cell, m.with_config(config).with_validity(self.validity())))
    }

    /// Returns the index of the cell that measures a quantity of this mix.
    fn cell(&self, part: CurvePart) -> Option<usize> {
        let wanted = CurveCell { part, ..self.first };
        self.cells.iter().position(|cell| *cell == wanted)
    }

    /// Adds the figures of the mix to the outcome.
    fn add(&self, outcome: &mut Outcome, times: MixTimes) {
        let config = self.config();
        let DeviceEvidence { site, regime, .. } = *self.evidence;
        if let Some(cell) = self.cell(CurvePart::Saturated) {
            let name = format!("{SATURATED_PREFIX}{}", self.mix);
            if let Some(mut m) = self.timed((cell, 0), &name, QuotedStatistic::Best, &config) {
                let rates = rates(regime, cell, 0);
                family::best_doubt(&rates)
                    .into_iter()
                    .for_each(|reason| m.doubt(Status::Suspect, reason));
                let info = self.device.device.info();
                let limit = match info.class {
                    DeviceClass::Cpu => nodegauge_machine::node_bandwidth(&site.machine, &[]),
                    _ => info.theoretical.clone(),
                };
                outcome.measurements.push(match &limit {
                    Some(limit) => m.with_theoretical_limit(limit),
                    None => m,
                });
            }
        }
        let mut points = Vec::new();
        for (at, share) in LOAD_PERCENTS.into_iter().enumerate() {
            let Some(cell) = self.cell(CurvePart::Point(at)) else { continue };
            points.extend(self.add_point(outcome, times, cell, share));
        }
        if points.first().is_none_or(|point: &MeasuredPoint| point.share > 0) {
            return;
        }
        if let Some(text) = family::falling_in_words(self.mix.name(), &points) {
            outcome.notices.push(Notice::new(NoticeId::Saturation, GAUGE, text));
        }
        let Some(FoundKnee { basis, rates, doubts }) = FoundKnee::from_points(&points) else {
            return;
        };
        let config = DeviceCurveConfig { basis: Some(basis.to_string()), ..config };
        let name = format!("{KNEE_PREFIX}{}", self.mix);
        let mut validity = Validity::valid();
        let doubts = doubts.into_iter().chain(family::knee_doubt(&rates));
        doubts.for_each(|reason| validity.mark_suspect(reason));
        let m = Measurement::new(GAUGE, TEST, name, Unit::BytesPerSecond);
        let m = m
            .with_samples(QuotedStatistic::Median, rates)
            .with_config(&config)
            .with_validity(validity);
        outcome.measurements.push(m);
    }

    /// Adds the figures of a point to the outcome. Returns the point, unless no sample counts.
    fn add_point(
        &self,
        outcome: &mut Outcome,
        times: MixTimes,
        cell: usize,
        share: u32,
    ) -> Option<MeasuredPoint> {
        let regime = self.evidence.regime;
        let config = DeviceCurveConfig {
            load_share: Some(f64::from(share) / 100.0),
            wait_s: times.pause_seconds(share),
            ..self.config()
        };
        let PointNames { latency, bandwidth } = PointNames::new(self.mix.name(), share);
        let mut of_latency = self.timed((cell, 0), &latency, QuotedStatistic::Median, &config)?;
        let latencies = regime.seconds(cell, 0);
        if share == 0 {
            let doubt = family::latency_doubt(&latencies);
            doubt.into_iter().for_each(|reason| of_latency.doubt(Status::Suspect, reason));
        }
        let mut figures = vec![of_latency];
        let mut of_load = Vec::new();
        if let Some(name) = bandwidth {
            figures.extend(self.timed((cell, 1), &name, QuotedStatistic::Median, &config));
            of_load = rates(regime, cell, 1);
        }
        let is_invalid = figures.iter().any(|m| m.validity.status == Status::Invalid);
        let mut doubts: Vec<String> = Vec::new();
        for reason in figures.iter().flat_map(|m| &m.validity.reasons) {
            if !doubts.contains(reason) {
                doubts.push(reason.clone());
            }
        }
        outcome.measurements.extend(figures);
        let counts = !latencies.is_empty() && stats::median(&latencies).is_finite() && !is_invalid;
        counts.then_some(MeasuredPoint { share, latencies, rates: of_load, doubts })
    }
}

/// Returns the rates in B/s from the times with index `part` in the samples of a cell; samples that do not count are
/// left out.
fn rates(regime: &SamplesByRegime, cell: usize, part: usize) -> Vec<f64> {
    regime.seconds(cell, part).into_iter().map(|seconds| 1.0 / seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_named_after_its_ratio() {
        for mix in DeviceMix::ALL {
            let [reads, writes] = mix.lines();
            assert_eq!(mix.name(), format!("{reads}:{writes}"));
            assert_eq!(mix.words(), reads + writes);
        }
    }

    fn device(units: u32) -> DeviceInfo {
        DeviceInfo { driver: "opencl".into(), units, ..DeviceInfo::default() }
    }

    fn options() -> DeviceCurveOptions {
        DeviceCurveOptions {
            mixes: vec![DeviceMix::OneToOne, DeviceMix::Reads, DeviceMix::Reads],
            size: None,
            budget: DeviceCurveOptions::BUDGET.into(),
            samples: None,
        }
    }

    #[test]
    fn single_compute_unit_or_too_large_set_is_refused() {
        let refused = DeviceCurvePlan::new(vec![device(1)], options(), Vec::new()).err().unwrap();
        assert!(refused.to_string().starts_with("opencl:0 has one compute unit"), "{refused}");
        let plan = DeviceCurvePlan::new(vec![device(8)], options(), Vec::new()).unwrap();
        assert_eq!(plan.options.mixes, [DeviceMix::Reads, DeviceMix::OneToOne]);
        let large = DeviceCurveOptions { size: Some(Bytes::gib(2)), ..options() };
        let too_large = DeviceCurvePlan::new(vec![device(8)], large, Vec::new()).err().unwrap();
        assert!(too_large.to_string().contains("limited to 1 GiB"), "{too_large}");
    }
}
