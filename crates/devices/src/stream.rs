//! Test `device stream`: STREAM on devices. Devices and element types are measured interleaved. Every element is
//! verified on the device. Times are measured by the device's clock and by the host's clock.

use crate::bench::{DeviceArrays, LoopShape};
use crate::config::DeviceStreamConfig;
use crate::driver::{DeviceError, OpenDevice};
use crate::evidence::DeviceEvidence;
use crate::info::{DeviceClass, DeviceInfo};
use crate::prediction::{ArrayRates, PlannedArrays, PredictedArrays};
use crate::reference::{self, UsersProgram};
use crate::state::DeviceStates;
use crate::{GAUGE, tuner};
use crate::{drivers, host_memory};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::series::{ReferenceProgramRun, Series};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_kernels::size::{self, CacheCapacity, SizeConditions, SizeSpec};
use nodegauge_kernels::{Element, KERNELS, Kernel, STREAM_ARRAY_COUNT, array_count};
use nodegauge_machine::devices::catalog;
use nodegauge_measure::interference::{Cause, stolen_ticks};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Budget, RunLimits, Turn, policy};
use nodegauge_measure::{
    Bytes, BytesPerSec, Failure, Fraction, Notice, NoticeId, Observer, Outcome, Unit, clock, stats,
};
use std::rc::Rc;
use std::time::Duration;

/// Name of this test in records.
pub use crate::names::STREAM as TEST;
/// Minimum size of an array on a device with its own memory, if the array fits. A kernel over such an array takes 0.3
/// ms even at 10 TB/s, so the microseconds of its launch are negligible.
const OWN_MEMORY: Bytes = Bytes::gib(1);

/// Options of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStreamOptions {
    /// Length of each array.
    pub size: SizeSpec,
    /// Maximum share of the free memory for all arrays.
    pub memory_fraction: Fraction,
    /// Element types. If empty, double precision is used on devices that support it.
    pub elements: Vec<Element>,
    /// Kernels, in the order in which a pass runs them.
    pub kernels: Vec<Kernel>,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Exact number of passes after the warm-up, regardless of the time budget.
    pub samples: Option<usize>,
}

impl DeviceStreamOptions {
    /// Sets the kernels of a pass, in STREAM's order and without duplicates. If `asked` is empty, the default kernels
    /// are used.
    #[must_use]
    pub fn with_kernels(self, asked: &[Kernel]) -> Self {
        let all = KERNELS.iter().map(|spec| spec.kernel);
        let kernels: Vec<Kernel> = all.filter(|kernel| asked.contains(kernel)).collect();
        if kernels.is_empty() { self } else { Self { kernels, ..self } }
    }
}

/// Returns the requested element types without duplicates, in the order of the table of types.
pub fn distinct_element_types(asked: &[Element]) -> Vec<Element> {
    Element::ALL.iter().copied().filter(|element| asked.contains(element)).collect()
}

impl DeviceStreamOptions {
    /// Default time budget.
    pub const BUDGET: Duration = Duration::from_secs(15);
}

impl Default for DeviceStreamOptions {
    fn default() -> Self {
        let mut kernels = nodegauge_kernels::STREAM.to_vec();
        kernels.extend([Kernel::Dot, Kernel::Nstream]);
        Self {
            size: SizeSpec::Auto,
            memory_fraction: Fraction(0.8),
            elements: Vec::new(),
            kernels,
            budget: Self::BUDGET.into(),
            samples: None,
        }
    }
}

/// Planned run.
pub struct DeviceStreamPlan {
    devices: Vec<DeviceInfo>,
    /// Cells of the run, each given by the index of a device and an element type.
    cells: Vec<(usize, Element)>,
    options: DeviceStreamOptions,
    babelstream: Option<UsersProgram>,
    notices: Vec<Notice>,
}

impl DeviceStreamPlan {
    /// Returns the plan with an additional run of BabelStream on the same devices. Native passes are measured before
    /// and after this run.
    #[must_use]
    pub fn with_reference_program(self, babelstream: Option<UsersProgram>) -> Self {
        Self { babelstream, ..self }
    }

    /// Plans a run on `devices`.
    ///
    /// # Errors
    /// Fails if a device does not support a requested element type.
    pub fn new(
        devices: Vec<DeviceInfo>,
        options: DeviceStreamOptions,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        let mut cells = Vec::new();
        for (at, device) in devices.iter().enumerate() {
            let id = device.id();
            match options.elements.as_slice() {
                [] if !device.double => {
                    let text = format!("{id} has no double precision; only f32 is measured");
                    notices.push(Notice::new(NoticeId::LeftOut, GAUGE, text));
                    cells.push((at, Element::F32));
                }
                [] => cells.push((at, Element::F64)),
                asked if asked.contains(&Element::F64) && !device.double => {
                    return Err(Failure::missing(format!("{id} has no double precision"))
                        .hint("use --element f32"));
                }
                asked => cells.extend(asked.iter().map(|element| (at, *element))),
            }
            if device.class == DeviceClass::Cpu {
                notices.push(Notice::new(
                    NoticeId::Method,
                    GAUGE,
                    format!(
                        "{id} is this node's processor: its driver chooses stores (regular, with \
                         write-allocate), pages and threads (not pinned); nodegauge stream \
                         measures the node itself"
                    ),
                ));
            }
        }
        Ok(Self { devices, cells, options, babelstream: None, notices })
    }

    /// Returns the number of arrays that the kernels of a pass use.
    fn arrays(&self) -> usize {
        array_count(self.options.kernels.iter().copied())
    }

    /// Returns the number of elements per array of a cell, and the ratio of the array size to the size of the
    /// last-level cache. `host` is the host memory that this process can still use.
    fn size(
        &self,
        site: &MeasuredNode,
        host: Option<Bytes>,
        device: &dyn OpenDevice,
        element: Element,
        notices: &mut Vec<Notice>,
    ) -> Result<(u64, Option<f64>), Failure> {
        let info = device.info();
        let available = match device.free_memory()? {
            Some(free) => free,
            None if info.shares_host_memory => {
                let available = host_memory::array_memory(info, host)?;
                available.map_or(info.memory, |bytes| info.memory.min(bytes))
            }
            None => info.memory,
        };
        let with_it = self.cells.iter().filter(|(at, _)| self.devices[*at].id() == info.id());
        let available = Bytes(available.0 / with_it.count().max(1) as u64);
        let measured = site.machine.measured_cache.filter(|_| info.class == DeviceClass::Cpu);
        let caches = CacheCapacity::new(info.last_cache, measured.as_ref());
        let conditions = SizeConditions {
            gauge: GAUGE,
            arrays: self.arrays(),
            caches,
            available: Some(available),
            fraction: self.options.memory_fraction,
        };
        let mut chosen = size::choose(self.options.size, element, &conditions)?;
        let max = info.largest_allocation.0 / element.bytes();
        if self.options.size == SizeSpec::Auto {
            let room = available.as_f64() * conditions.fraction.0;
            if info.class != DeviceClass::Cpu && room >= self.arrays() as f64 * OWN_MEMORY.as_f64()
            {
                chosen.elements = chosen.elements.max(OWN_MEMORY.0 / element.bytes());
            }
            chosen.elements = chosen.elements.min(max);
        } else if chosen.elements > max {
            return Err(Failure::missing(format!(
                "{} supports allocations of at most {}",
                info.id(),
                info.largest_allocation,
            ))
            .hint(format!(
                "use a smaller size, e.g. --size {}MiB",
                info.largest_allocation.0 >> 20
            )));
        }
        for notice in chosen.notices.drain(..) {
            let text = format!("{}: {}", info.id(), notice.message);
            notices.push(Notice { message: text, ..notice });
        }
        let times = chosen
            .rule
            .caches()
            .map(|llc| (chosen.elements * element.bytes()) as f64 / llc.as_f64());
        Ok((chosen.elements, times))
    }

    /// Returns the arrays of all cells. If the user set the budget and the time is short, the arrays are shortened.
    ///
    /// # Errors
    /// Fails if the arrays do not fit, and if the user set the budget and the shortest arrays exceed it.
    fn admitted(
        &self,
        site: &MeasuredNode,
        host: Option<Bytes>,
        opened: &[Rc<dyn OpenDevice>],
        limits: &RunLimits,
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<PlannedArrays>, Failure> {
        let mut planned = Vec::new();
        for (at, element) in &self.cells {
            let device = &*opened[*at];
            let (elements, times_llc) = self.size(site, host, device, *element, notices)?;
            let all = Bytes(self.arrays() as u64 * elements * element.bytes());
            let is_kept = limits.must_be_kept();
            let rates =
                if is_kept { ArrayRates::for_device(site, device.info(), all)? } else { None };
            planned.push(PlannedArrays {
                device: *at,
                element: *element,
                elements,
                times_llc,
                rates,
            });
        }
        let before = planned.clone();
        limits.admit(&mut PredictedArrays {
            cells: &mut planned,
            arrays: self.arrays(),
            kernels: &self.options.kernels,
            is_given: self.options.size != SizeSpec::Auto,
        })?;
        for (cell, was) in planned.iter().zip(&before).filter(|(now, was)| now != was) {
            let text = format!(
                "{}: arrays reduced from {} to {} each to keep the budget",
                self.devices[cell.device].id(),
                Bytes(was.elements * cell.element.bytes()),
                Bytes(cell.elements * cell.element.bytes())
            );
            notices.push(Notice::new(NoticeId::Clamped, GAUGE, text));
        }
        Ok(planned)
    }
}

/// Device and element type, with the arrays, the loops and the recorded states of the device.
struct StreamCell {
    device: Rc<dyn OpenDevice>,
    bench: DeviceArrays,
    loops: Vec<(Kernel, LoopShape)>,
    tried: usize,
    times_llc: Option<f64>,
    watched: DeviceStates,
}

impl PlannedRun for DeviceStreamPlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost { time: Some(self.options.budget.time), memory: None }
    }

    fn possible_figures(&self, _: &MeasuredNode) -> Vec<PossibleFigures> {
        let names = self.options.kernels.iter().map(|kernel| kernel.name());
        vec![
            PossibleFigures::new(GAUGE, TEST, names, &[Unit::BytesPerSecond])
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
        let opened = drivers::open_devices(&self.devices)?;
        let host = host_memory::remaining_memory(site);
        let planned = self.admitted(site, host, &opened, &limits, &mut notices)?;
        let mut cells: Vec<StreamCell> = Vec::new();
        let choose =
            limits.budget.mul_f64(policy::DEVICES.choice_share.0 / self.cells.len().max(1) as f64);
        for PlannedArrays { device, element, elements, times_llc, .. } in planned {
            let device = &opened[device];
            let array = Bytes(elements * element.bytes());
            let id = device.info().id();
            observer
                .begin_phase(&format!("{id}: {} arrays of {array}, trying loops", self.arrays()));
            let watched = DeviceStates::new(device.state());
            let kernels = &self.options.kernels;
            observer.check_interrupt()?;
            let mut bench = DeviceArrays::new(device.clone(), kernels, element, elements)?;
            // The deadline is set after the set-up, which may take long if a driver compiles, so that the choice of
            // loops has its full time.
            let deadline = clock::now() + choose;
            let chosen =
                tuner::choose_loops(&mut bench, kernels, device.info(), deadline, &|| {
                    observer.is_interrupted()
                })?;
            cells.push(StreamCell {
                device: device.clone(),
                bench,
                loops: chosen.loops,
                tried: chosen.tried,
                times_llc,
                watched,
            });
        }
        observer.begin_phase("measuring all devices, interleaved");
        let mut series = Series::new(policy::DEVICES, limits, cells.len());
        let last: Vec<(String, f64)> = cells.iter().map(StreamCell::last).collect();
        let last_kernel = self.options.kernels.len() - 1;
        let arrays: Vec<CellArrays> = cells.iter().map(StreamCell::arrays).collect();
        series.run(
            &mut |turn: Turn| cells[turn.cell].turn(),
            observer,
            Some(&|samples: &[Vec<Sample>]| latest_rates(&last, samples, last_kernel)),
        )?;
        let mut reference = Vec::new();
        if let Some(program) = &self.babelstream {
            let all: Vec<usize> = (0..arrays.len()).collect();
            let run = ReferenceProgramRun {
                phase: "BabelStream",
                compared: &all,
                run: &mut |interrupted| babelstream(program, &arrays, interrupted),
            };
            reference = series.run_reference_program(
                run,
                &mut |turn: Turn| cells[turn.cell].turn(),
                observer,
            );
        }
        let is_measured = series.schedule.samples.iter().any(|samples| !samples.is_empty());
        let mut is_checked = is_measured && series.failure().is_none();
        for (number, cell) in cells.iter_mut().enumerate() {
            if is_checked && let Err(error) = cell.bench.check() {
                series.mark_lost(number, error.into());
                is_checked = false;
            }
        }
        let stopped = series.stop_reason().to_string();
        let regime = series.samples_by_regime(&[]);
        let evidence = DeviceEvidence { site, series: &series, regime: &regime, stopped: &stopped };
        let mut measurements = Vec::new();
        for (number, cell) in cells.iter().enumerate() {
            measurements.extend(cell.figures(number, &evidence, is_checked));
        }
        measurements.extend(reference);
        notices.extend(reference::comparison_notice(&measurements));
        let mut outcome = Outcome { measurements, notices, ..Outcome::default() };
        series.store_end(&mut outcome);
        Ok(outcome)
    }
}

/// Device, element type and number of elements of the arrays of a cell.
struct CellArrays {
    device: Rc<dyn OpenDevice>,
    element: Element,
    elements: u64,
}

/// Runs BabelStream on the device of each cell, with arrays of the same type and length. Returns its figures.
fn babelstream(
    program: &UsersProgram,
    cells: &[CellArrays],
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<Measurement>, Failure> {
    let mut figures = Vec::new();
    for CellArrays { device, element, elements } in cells {
        figures.extend(program.run_babelstream(device.info(), *element, *elements, interrupted)?);
    }
    Ok(figures)
}

/// Returns the rates of the last kernel in the latest samples, for the progress display. `last` contains the name and
/// the bytes of this kernel for each cell.
fn latest_rates(last: &[(String, f64)], samples: &[Vec<Sample>], last_kernel: usize) -> String {
    let mut words = Vec::new();
    for ((what, bytes), of_cell) in last.iter().zip(samples) {
        let seconds = of_cell.last().and_then(|sample| sample.seconds.get(last_kernel));
        words.extend(seconds.map(|seconds| format!("{what} {}", BytesPerSec(bytes / seconds))));
    }
    words.join(", ")
}

impl StreamCell {
    /// Returns the arrays of the cell.
    fn arrays(&self) -> CellArrays {
        let DeviceArrays { element, elements, .. } = self.bench;
        CellArrays { device: self.device.clone(), element, elements }
    }

    /// Returns the name of the last kernel of a pass, and the bytes that STREAM counts for it.
    fn last(&self) -> (String, f64) {
        let name = self.loops.last().map_or("", |(kernel, _)| kernel.name());
        let bytes = self.loops.last().map_or(0, |(kernel, _)| self.counted(*kernel));
        (format!("{} {name}", self.device.info().id()), bytes as f64)
    }

    /// Returns the number of bytes of a kernel by STREAM's counting rule.
    fn counted(&self, kernel: Kernel) -> u64 {
        kernel.counted_bytes(self.bench.element) * self.bench.elements
    }

    /// Runs a pass. The sample contains the times of all kernels by the device's clock, followed by the times by the
    /// host's clock.
    fn turn(&mut self) -> Result<Vec<Sample>, DeviceError> {
        // Stolen CPU time matters only if the device is the host's processor.
        let on_host = self.device.info().class == DeviceClass::Cpu;
        let before = on_host.then(stolen_ticks).flatten();
        let times = self.bench.run_pass(&self.loops)?;
        let after = on_host.then(stolen_ticks).flatten();
        let ticks = after.zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
        self.watched.record_state(self.device.state());
        let (device, host): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        let mut sample = Sample::from_times([device, host].concat());
        sample.causes.extend((ticks > 0).then_some(Cause::Stolen { ticks }));
        Ok(vec![sample])
    }

    fn figures(
        &self,
        cell: usize,
        evidence: &DeviceEvidence<'_>,
        is_checked: bool,
    ) -> Vec<Measurement> {
        let DeviceEvidence { site, series, regime, stopped } = *evidence;
        let guest = site.machine.virtualisation.is_some();
        let bench = &self.bench;
        let info = self.device.info();
        let checked = &bench.checked;
        // Data sheets apply to whole devices, not to slices.
        let sheet =
            || Some(catalog::find(&info.name)?.bandwidth()).filter(|_| info.slice.is_none());
        let theoretical = match info.class {
            DeviceClass::Cpu => site.machine.memory.theoretical.clone(),
            _ => info.theoretical.clone().or_else(sheet),
        };
        let pages = bench.pages();
        let figure = |(part, (kernel, shape)): (usize, &(Kernel, LoopShape))| {
            let mut validity = Validity::valid();
            for reason in &checked.reasons {
                validity.mark_invalid(reason.clone());
            }
            if !is_checked {
                validity
                    .mark_suspect("the device failed before its arrays were checked at the end");
            }
            if self.times_llc.is_some_and(|times| times < size::MIN_CACHE_MULTIPLE * 0.999) {
                validity.mark_suspect(format!(
                    "arrays are {:.2} times as large as the device's last-level cache; STREAM requires at least 4 times",
                    self.times_llc.unwrap_or(0.0)
                ));
            }
            self.watched.judge(&info.id(), &mut validity);
            regime
                .doubts(cell, part, guest)
                .into_iter()
                .for_each(|doubt| validity.mark_suspect(doubt));
            let host = regime.seconds(cell, self.loops.len() + part);
            let grid = shape.grid(*kernel, bench.elements, info.units);
            let mut on = self.watched.config(info);
            on.stopped = Some(stopped.clone());
            let config = DeviceStreamConfig {
                on,
                engine: Some("native".to_owned()),
                element: Some(bench.element.name().to_owned()),
                arrays: (bench.arrays() != STREAM_ARRAY_COUNT).then_some(bench.arrays() as u64),
                array_bytes: Some(bench.array_bytes()),
                array_times_llc: self.times_llc,
                pages: pages.clone(),
                group_items: shape.group.map(|items| items as u64),
                vectors: Some(shape.vectors.into()),
                vector_elements: Some(shape.width.into()),
                strided_groups: shape.strided.map(|_| grid.groups as u64),
                loops_tried: Some(self.tried as u64),
                device_seconds: Some(stats::median(&regime.seconds(cell, part)))
                    .filter(|s| s.is_finite()),
                host_seconds: Some(stats::median(&host)).filter(|s| s.is_finite()),
                checks: Some(checked.checks),
                wrong_elements: Some(checked.wrong),
                worst_error: Some(checked.worst).filter(|worst| worst.is_finite()),
                ..DeviceStreamConfig::default()
            };
            let bytes = self.counted(*kernel) as f64;
            let m = Measurement::new(GAUGE, TEST, kernel.name(), Unit::BytesPerSecond);
            let m = series.figure(regime, (cell, part), m, QuotedStatistic::Best, &|seconds| {
                bytes / seconds
            })?;
            let mut m = m.with_config(&config);
            if let Some(theoretical) = &theoretical {
                m = m.with_theoretical_limit(theoretical);
            }
            Some(series.judge_figure(cell, m.with_validity(validity)))
        };
        self.loops.iter().enumerate().filter_map(figure).collect()
    }
}
