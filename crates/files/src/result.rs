//! Conversion of samples to measurements, with the reasons why a figure is suspect.

use crate::config::{FilesConfig, OperationClock, Percent};
use crate::keys::Latencies;
use crate::plan::{FilesOptions, FilesPlan};
use crate::reference::{ReferenceProgram, ReferenceProgramFigure};
use crate::{GAUGE, IoEngine, TEST, precision};
use nodegauge_blocks::clock::Clock;
use nodegauge_blocks::counters;
use nodegauge_blocks::latency::{self, LatencyHistogram};
use nodegauge_blocks::operation::{Direction, Operation};
use nodegauge_blocks::pass::PassEnd;
use nodegauge_blocks::pattern::{AccessPattern, STRIDE};
use nodegauge_blocks::task::{CacheMode, Task};
use nodegauge_blocks::volume::Volume;
use nodegauge_blocks::workers::{OperationSample, WorkerKind};
use nodegauge_gauge::series::lost_in_words;
use nodegauge_measure::record::{
    Category, Measurement, QuotedStatistic, Status, Traffic, Validity,
};
use nodegauge_measure::{Failure, Fraction, Seconds, Unit};
use std::collections::BTreeMap;

/// Maximum share of a file that may remain in the page cache after dropping without making the figure suspect.
const MAX_CACHED_SHARE: f64 = 0.05;
/// Minimum device share of an operation with direct I/O. With a smaller share, the figure is suspect.
const MIN_DIRECT_SHARE: f64 = 0.5;

/// Samples that have been measured, by task index and operation name.
#[derive(Default)]
pub(crate) struct MeasuredSamples {
    /// Samples of the gauge.
    pub(crate) gauge_samples: BTreeMap<(usize, &'static str), Vec<OperationSample>>,
    /// Figures of the reference programs, by task index, program index and operation name.
    pub(crate) reference_figures:
        BTreeMap<(usize, usize, &'static str), Vec<ReferenceProgramFigure>>,
    /// Failures by task index and name of the operation that failed.
    pub(crate) failures: BTreeMap<(usize, &'static str), Failure>,
}

impl MeasuredSamples {
    /// Marks a cell as lost because of `failure`. The failure applies to all operations of the cell, unless one of them
    /// has its own failure.
    pub(crate) fn mark_lost(&mut self, cell: usize, task: &Task, failure: &Failure) {
        if self.failures.keys().all(|(at, _)| *at != cell) {
            let all = task.operations.iter();
            self.failures.extend(all.map(|each| ((cell, each.name), failure.clone())));
        }
    }

    /// Returns the number of cells that have at least one sample of each operation.
    pub(crate) fn complete_cell_count(&self, tasks: &[(usize, Task)]) -> usize {
        let whole = tasks.iter().enumerate().filter(|(number, (_, task))| {
            task.operations.iter().all(|o| self.gauge_samples.contains_key(&(*number, o.name)))
        });
        whole.count()
    }
}

/// Returns all measurements, ordered by folder, cache mode, cell size and operation. In each cell, measurements of the
/// gauge precede those of reference programs.
pub(crate) fn measurements(
    plan: &FilesPlan,
    measured: &MeasuredSamples,
    clock: Clock,
) -> Vec<Measurement> {
    let overhead = latency::measure_overhead(clock);
    let reading = precision::measure_clock_reading_time(clock);
    let mut order: Vec<(usize, &(usize, Task))> = plan.tasks.iter().enumerate().collect();
    order.sort_by_key(|(_, (path, task))| (*path, task.cache, task.cell));
    let mut out = Vec::new();
    for (number, (path, task)) in order {
        let options = &plan.options;
        let volume = &plan.volumes[*path];
        let cell = CellFigures { options, volume, task, clock, overhead, reading };
        for operation in &task.operations {
            let samples = measured.gauge_samples.get(&(number, operation.name));
            let failed = measured.failures.get(&(number, operation.name));
            if samples.is_some() || failed.is_some() {
                let samples = samples.map_or(&[][..], Vec::as_slice);
                out.push(cell.own(operation, samples, failed));
            }
        }
        for (at, program) in plan.programs.iter().enumerate() {
            for operation in &task.operations {
                if let Some(figures) = measured.reference_figures.get(&(number, at, operation.name))
                {
                    out.push(cell.reference(operation, figures, program));
                }
            }
        }
    }
    out
}

/// Data for the figures of a cell.
struct CellFigures<'a> {
    options: &'a FilesOptions,
    volume: &'a Volume,
    task: &'a Task,
    clock: Clock,
    overhead: Seconds,
    reading: Seconds,
}

impl CellFigures<'_> {
    /// Returns the measurement of an operation by the gauge.
    fn own(
        &self,
        operation: &Operation,
        samples: &[OperationSample],
        failed: Option<&Failure>,
    ) -> Measurement {
        // Interrupted samples are used only if there is no complete sample.
        let mut counting: Vec<&OperationSample> =
            samples.iter().filter(|sample| !sample.end_reason.is_early_end()).collect();
        if counting.is_empty() {
            counting = samples.iter().collect();
        }
        let rates = counting.iter().map(|s| s.rate).filter(|r| r.is_finite()).collect();
        let share = device_share(&counting);
        let config = self.evidence(operation, &counting, share);
        let figure = figure(operation).with_samples(QuotedStatistic::Median, rates);
        let traffic = figure
            .value
            .zip(share)
            .map(|(value, (share, _))| Traffic { value: value * share, basis: "counters".into() });
        let validity = self.validity(operation, &counting, share.map(|(share, _)| share), failed);
        figure.with_config(&config).with_traffic(traffic).with_validity(validity)
    }

    /// Returns the configuration of a figure, including the latencies, counters and other results of the samples.
    fn evidence(
        &self,
        operation: &Operation,
        counting: &[&OperationSample],
        share: Option<(f64, &str)>,
    ) -> FilesConfig {
        let config = FilesConfig {
            engine: Some(self.task.setup.engine.name().to_owned()),
            compressible_percent: Some(self.options.compressible),
            verified: Some(self.task.setup.verify),
            ..self.config(operation)
        };
        // Numbers and times of a single pass are taken from the pass with the median rate.
        let mut by_rate: Vec<&&OperationSample> = counting.iter().collect();
        by_rate.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let Some(pass) = by_rate.get(by_rate.len() / 2) else { return config };
        let latency =
            LatencyHistogram::from_pairs(counting.iter().flat_map(|sample| &sample.latencies));
        let operations: u64 = counting.iter().map(|sample| sample.operations.0).sum();
        let seconds: f64 = counting.iter().map(|sample| sample.seconds).sum();
        let workers = pass.workers.as_ref();
        let rates = workers.map_or(&[][..], |workers| &workers.rates);
        FilesConfig {
            operations: Some(pass.operations.0),
            operations_planned: Some(pass.operations.1),
            seconds: Some(Seconds(pass.seconds)),
            iops: Some(operations as f64 / seconds),
            latency_s: Some(Latencies::All(latency.quantiles(self.clock))),
            clock: Some(OperationClock {
                source: self.clock.source().to_owned(),
                overhead_s: self.overhead,
            }),
            ended: Some(pass.end_reason),
            device_share: Some(share.map(|(share, _)| share)),
            device_share_basis: Some(share.map(|(_, basis)| basis.to_owned())),
            served: Some(share.map(|(share, _)| counters::share_label(share).to_owned())),
            parent_rate: workers.map(|workers| workers.parent),
            worker_rate_min: rates.iter().copied().reduce(f64::min),
            worker_rate_max: rates.iter().copied().reduce(f64::max),
            worker_rate_mean: workers.map(|_| rates.iter().sum::<f64>() / rates.len() as f64),
            worker_bytes_min: workers.map(|workers| workers.min_bytes),
            ..config
        }
    }

    /// Returns the part of the configuration that the gauge and reference programs share.
    fn config(&self, operation: &Operation) -> FilesConfig {
        let Task { cell, cache, setup, drop_before_reads, .. } = self.task;
        let workers = self.options.workers;
        let [threads, processes] = [WorkerKind::Threads, WorkerKind::Processes].map(|kind| {
            workers.filter(|workers| workers.kind == kind).map(|workers| workers.count as u64)
        });
        FilesConfig {
            file_bytes: Some(cell.file.0),
            block_bytes: Some(cell.block.0),
            cache: Some(*cache),
            direct: Some(setup.direct),
            sync_writes: Some(setup.sync_writes),
            depth: Some(setup.depth),
            include_close: Some(setup.include_close),
            include_fsync: Some(setup.include_fsync),
            dropped_before_reads: Some(*drop_before_reads),
            volume: Some(self.volume.clone()),
            msync: (setup.engine == IoEngine::Mmap).then_some(setup.msync),
            read_percent: (operation.direction == Direction::Mixed)
                .then_some(Percent(setup.read_percent)),
            stride_blocks: (operation.pattern == AccessPattern::Stride && setup.stride != STRIDE)
                .then_some(setup.stride),
            threads,
            processes,
            stonewall: workers.map(|workers| workers.stonewall),
            ..FilesConfig::default()
        }
    }

    /// Returns the validity of the gauge's figure, with the reasons why it is suspect or invalid.
    fn validity(
        &self,
        operation: &Operation,
        counting: &[&OperationSample],
        share: Option<f64>,
        failed: Option<&Failure>,
    ) -> Validity {
        let mut validity = Validity::valid();
        if let Some(why) = failed {
            validity.mark_invalid(lost_in_words(why));
        }
        let cut = counting.iter().find(|sample| sample.end_reason.is_early_end()).map(|sample| {
            let by =
                if sample.end_reason == PassEnd::Budget { "the time budget" } else { "the user" };
            let (done, planned) = sample.operations;
            format!("ended by {by} after {done} of {planned} operations")
        });
        let stayed =
            counting.iter().filter_map(|sample| sample.undropped_share).fold(0.0, f64::max);
        let stayed = (stayed > MAX_CACHED_SHARE).then(|| {
            let percent = Fraction(stayed).in_whole_percent();
            format!("{percent} of the file could not be dropped from the page cache")
        });
        let little = share.is_some_and(|share| share < MIN_DIRECT_SHARE);
        let direct = (little && self.task.setup.direct)
            .then(|| "direct I/O, but the kernel's counters show little device traffic".to_owned());
        let reads_beyond =
            self.task.cache == CacheMode::Beyond && operation.direction == Direction::Read;
        let beyond = (little && reads_beyond).then(|| {
            "most of the data was in the page cache although the file is larger than memory"
                .to_owned()
        });
        let unknown = match cut {
            Some(_) => None,
            None => precision::doubt_reason(counting.iter().copied(), self.reading),
        };
        for reason in [cut, stayed, direct, beyond, unknown].into_iter().flatten() {
            validity.add(Status::Suspect, reason);
        }
        validity
    }

    /// Returns the measurement of an operation by a reference program.
    fn reference(
        &self,
        operation: &Operation,
        figures: &[ReferenceProgramFigure],
        program: &ReferenceProgram,
    ) -> Measurement {
        let first = &figures[0];
        let config = FilesConfig {
            engine: Some(program.name.to_owned()),
            version: Some(program.version.clone()),
            compared_engine: Some(self.task.setup.engine.name().to_owned()),
            command: Some(first.command.clone()),
            iops: first.iops,
            latency_s: first.latency.clone().map(Latencies::All),
            ..self.config(operation)
        };
        let mut validity = Validity::valid();
        if let Some(doubt) = &first.doubt {
            validity.add(Status::Suspect, doubt.as_str());
        }
        figure(operation)
            .with_category(Category::Reference)
            .with_samples(
                QuotedStatistic::Median,
                figures.iter().map(|figure| figure.rate).collect(),
            )
            .with_config(&config)
            .with_validity(validity)
    }
}

fn figure(operation: &Operation) -> Measurement {
    Measurement::new(GAUGE, TEST, operation.name, Unit::BytesPerSecond)
}

/// Returns the mean device share of all samples, with the counter from which it is computed. All samples transfer the
/// same number of bytes. Returns `None` if the share of a sample is unknown.
fn device_share<'a>(counting: &[&'a OperationSample]) -> Option<(f64, &'a str)> {
    let shares: Option<Vec<_>> = counting.iter().map(|sample| sample.share).collect();
    let shares = shares?;
    let first = shares.first()?;
    let mean = shares.iter().map(|share| share.share).sum::<f64>() / shares.len() as f64;
    Some((mean, first.basis))
}
