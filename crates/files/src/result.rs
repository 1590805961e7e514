//! From what was measured to figures, with every reason for doubt.

use crate::cell::{CacheMode, OperationSample, Task};
use crate::clock::Clock;
use crate::config::{ClockUsed, FilesConfig, Latencies, Percent};
use crate::latency::Latency;
use crate::operation::{Direction, Operation};
use crate::pass::PassEnd;
use crate::plan::FilesOptions;
use crate::reference::{ReferenceFigure, ReferenceProgram};
use crate::volume::Volume;
use crate::workers::WorkerKind;
use crate::{GAUGE, IoEngine, TEST, counters};
use nodegauge_measure::record::{Category, Measurement, Quoted, Status, Traffic, Validity};
use nodegauge_measure::{Seconds, Unit};
use std::collections::BTreeMap;

/// A file of which more stays in the page cache although it was to be dropped is told of.
const STAYED: f64 = 0.05;
/// Direct I/O of which the counters see less than this is doubted.
const DIRECT: f64 = 0.5;

/// What was measured, by number of the task and name of the operation.
pub(crate) struct Measured {
    /// Own samples.
    pub(crate) own: BTreeMap<(usize, &'static str), Vec<OperationSample>>,
    /// Figures of reference programs: number of the program before the operation.
    pub(crate) reference: BTreeMap<(usize, usize, &'static str), Vec<ReferenceFigure>>,
    /// An operation that failed, and why.
    pub(crate) failed: Option<(usize, &'static Operation, String)>,
}

impl Measured {
    /// Cells with at least one sample of each operation.
    pub(crate) fn whole_cells(&self, tasks: &[(usize, Task)]) -> usize {
        let is_whole = |(number, (_, task)): &(usize, &(usize, Task))| {
            task.operations.iter().all(|o| self.own.contains_key(&(*number, o.name)))
        };
        tasks.iter().enumerate().filter(is_whole).count()
    }
}

/// All measurements, in the order of folders, cells by size, and operations; own ones first.
pub(crate) fn measurements(
    options: &FilesOptions,
    volumes: &[Volume],
    tasks: &[(usize, Task)],
    measured: &Measured,
    programs: &[Box<dyn ReferenceProgram>],
    (clock, overhead): (Clock, Seconds),
) -> Vec<Measurement> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|i| {
        let (path, task) = &tasks[*i];
        (*path, task.cache, task.cell)
    });
    let mut out = Vec::new();
    for number in order {
        let (path, task) = &tasks[number];
        let cell = CellFigures { options, volume: &volumes[*path], task, clock, overhead };
        for operation in &task.operations {
            let samples = measured.own.get(&(number, operation.name));
            let failed = measured
                .failed
                .as_ref()
                .filter(|(at, what, _)| *at == number && what.name == operation.name)
                .map(|(.., why)| why.as_str());
            if samples.is_some() || failed.is_some() {
                out.push(cell.own(operation, samples.map_or(&[], Vec::as_slice), failed));
            }
        }
        for (at, program) in programs.iter().enumerate() {
            for operation in &task.operations {
                if let Some(figures) = measured.reference.get(&(number, at, operation.name)) {
                    out.push(cell.reference(operation, figures, program.as_ref()));
                }
            }
        }
    }
    out
}

/// What the figures of a cell have in common.
struct CellFigures<'a> {
    options: &'a FilesOptions,
    volume: &'a Volume,
    task: &'a Task,
    clock: Clock,
    overhead: Seconds,
}

impl CellFigures<'_> {
    fn own(
        &self,
        operation: &Operation,
        samples: &[OperationSample],
        failed: Option<&str>,
    ) -> Measurement {
        // A sample that was cut short stands only where there is no other.
        let mut counting: Vec<&OperationSample> =
            samples.iter().filter(|sample| !is_cut(sample)).collect();
        if counting.is_empty() {
            counting = samples.iter().collect();
        }
        let rates = counting.iter().map(|s| s.rate).filter(|r| r.is_finite()).collect();
        let share = device_share(&counting);
        let mut config = FilesConfig {
            engine: Some(self.task.setup.engine.name().to_owned()),
            compressible_percent: Some(self.options.compressible),
            verified: Some(self.task.setup.verify),
            ..self.config(operation)
        };
        if let Some(first) = counting.first() {
            self.evidence(&mut config, &counting, first, share);
        }
        let figure = figure(operation).sampled(Quoted::Median, rates);
        let traffic = figure
            .value
            .zip(share)
            .map(|(value, (share, _))| Traffic { value: value * share, basis: "counters".into() });
        let validity = self.validity(operation, &counting, share.map(|(share, _)| share), failed);
        figure.config(&config).traffic(traffic).judged(validity)
    }

    /// What the samples tell beside their rates.
    fn evidence(
        &self,
        config: &mut FilesConfig,
        counting: &[&OperationSample],
        first: &OperationSample,
        share: Option<(f64, &str)>,
    ) {
        let mut latency = Latency::new();
        let (mut operations, mut seconds) = (0, 0.0);
        for sample in counting {
            latency.merge_pairs(&sample.latencies);
            operations += sample.operations.0;
            seconds += sample.seconds;
        }
        config.operations = Some(first.operations.0);
        config.operations_planned = Some(first.operations.1);
        config.seconds = Some(first.seconds);
        config.iops = Some(operations as f64 / seconds);
        config.latency_s = Some(Latencies::All(latency.quantiles(self.clock)));
        let source = self.clock.source().name().to_owned();
        config.clock = Some(ClockUsed { source, overhead_s: self.overhead.0 });
        config.ended = Some(first.ended);
        config.device_share = Some(share.map(|(share, _)| share));
        config.device_share_basis = Some(share.map(|(_, basis)| basis.to_owned()));
        config.served = Some(share.map(|(share, _)| counters::label(share).to_owned()));
        if let Some(workers) = &first.workers {
            let rates = &workers.rates;
            config.parent_rate = Some(workers.parent);
            config.worker_rate_min = rates.iter().copied().reduce(f64::min);
            config.worker_rate_max = rates.iter().copied().reduce(f64::max);
            config.worker_rate_mean = Some(rates.iter().sum::<f64>() / rates.len().max(1) as f64);
            config.worker_bytes_min = Some(workers.least_bytes);
        }
    }

    /// What own figures and those of other programs share.
    fn config(&self, operation: &Operation) -> FilesConfig {
        let Task { cell, cache, setup, drop_before_reads, .. } = self.task;
        let mut config = FilesConfig {
            file_bytes: Some(cell.file.0),
            block_bytes: Some(cell.block.0),
            cache: Some(*cache),
            direct: Some(setup.access.direct),
            sync_writes: Some(setup.access.sync),
            depth: Some(setup.depth),
            include_close: Some(setup.include_close),
            include_fsync: Some(setup.include_fsync),
            dropped_before_reads: Some(*drop_before_reads),
            volume: Some(self.volume.clone()),
            msync: (setup.engine == IoEngine::Mmap).then_some(setup.msync),
            read_percent: (operation.direction == Direction::Mixed)
                .then_some(Percent(setup.read_percent)),
            ..FilesConfig::default()
        };
        if let Some(workers) = self.options.workers {
            let count = Some(workers.count as u32);
            match workers.kind {
                WorkerKind::Threads => config.threads = count,
                WorkerKind::Processes => config.processes = count,
            }
            config.stonewall = Some(workers.stonewall);
        }
        config
    }

    fn validity(
        &self,
        operation: &Operation,
        counting: &[&OperationSample],
        share: Option<f64>,
        failed: Option<&str>,
    ) -> Validity {
        let mut validity = Validity::valid();
        if let Some(why) = failed {
            let first = why.lines().next().unwrap_or(why);
            validity.add(Status::Invalid, first.to_owned());
        }
        if let Some(sample) = counting.iter().find(|sample| is_cut(sample)) {
            let by = if sample.ended == PassEnd::Budget { "the budget" } else { "the user" };
            let (done, planned) = sample.operations;
            let why = format!("cut short by {by} after {done} of {planned} operations");
            validity.add(Status::Suspect, why);
        }
        let stayed = counting.iter().filter_map(|sample| sample.not_dropped).fold(0.0, f64::max);
        if stayed > STAYED {
            validity.add(
                Status::Suspect,
                format!(
                    "{:.0} % of the file stayed in the page cache although it was to be dropped",
                    stayed * 100.0
                ),
            );
        }
        if self.task.setup.access.direct && share.is_some_and(|share| share < DIRECT) {
            validity.add(
                Status::Suspect,
                "direct I/O, but the kernel's counters saw little of it go to the device",
            );
        }
        if self.task.cache == CacheMode::Beyond
            && operation.direction == Direction::Read
            && share.is_some_and(|share| share < DIRECT)
        {
            validity.add(
                Status::Suspect,
                "most of it was in the page cache although the file is larger than memory",
            );
        }
        validity
    }

    fn reference(
        &self,
        operation: &Operation,
        figures: &[ReferenceFigure],
        program: &dyn ReferenceProgram,
    ) -> Measurement {
        let first = figures.first();
        let config = FilesConfig {
            engine: Some(program.name().to_owned()),
            version: Some(program.version().to_owned()),
            beside_engine: Some(self.task.setup.engine.name().to_owned()),
            command: first.map(|figure| figure.command.clone()),
            iops: first.and_then(|figure| figure.iops),
            latency_s: first.and_then(|figure| figure.latency.clone()).map(Latencies::All),
            ..self.config(operation)
        };
        let mut validity = Validity::valid();
        if let Some(doubt) = first.and_then(|figure| figure.doubt.as_ref()) {
            validity.add(Status::Suspect, doubt.clone());
        }
        figure(operation)
            .category(Category::Reference)
            .sampled(Quoted::Median, figures.iter().map(|figure| figure.rate).collect())
            .config(&config)
            .judged(validity)
    }
}

fn figure(operation: &Operation) -> Measurement {
    Measurement::new(GAUGE, TEST, operation.name, Unit::BytesPerSecond)
}

fn is_cut(sample: &OperationSample) -> bool {
    matches!(sample.ended, PassEnd::Budget | PassEnd::Interrupted)
}

/// The device's share over all samples, by their bytes' weight being equal, with its basis; unknown
/// when it is of one of them.
fn device_share<'a>(counting: &[&'a OperationSample]) -> Option<(f64, &'a str)> {
    let shares: Option<Vec<_>> = counting.iter().map(|sample| sample.share).collect();
    let shares = shares?;
    let first = shares.first()?;
    let mean = shares.iter().map(|share| share.share).sum::<f64>() / shares.len() as f64;
    Some((mean, first.basis))
}
