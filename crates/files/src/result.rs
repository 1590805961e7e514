//! From what was seen to measurements, with every reason for doubt.

use crate::cell::{CacheMode, Sample, Task};
use crate::clock::Clock;
use crate::counters;
use crate::gauge::Seen;
use crate::latency::Latency;
use crate::operation::{Direction, Operation};
use crate::pass::Ended;
use crate::peers::{Beside, Figure};
use crate::plan::{Plan, Site};
use crate::team::Kind;
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Category, Measurement, Quoted, Status, Traffic, Validity};
use nodegauge_measure::stats::{Better, Summary};
use serde_json::{Map, Value, json};

/// A file of which more stays in the page cache although it was to be dropped is told of.
const STAYED: f64 = 0.05;
/// Direct I/O of which the counters see less than this is doubted.
const DIRECT: f64 = 0.5;

/// All measurements, in the order of folders, cells by size, and operations; own ones first.
pub(crate) fn measurements(
    plan: &Plan,
    seen: &Seen,
    beside: &[Box<dyn Beside>],
    clock: Clock,
    overhead: Seconds,
) -> Vec<Measurement> {
    let mut order: Vec<usize> = (0..plan.tasks.len()).collect();
    order.sort_by_key(|i| {
        let (site, task) = &plan.tasks[*i];
        (*site, task.cache, task.cell)
    });
    let mut out = Vec::new();
    for number in order {
        let (site, task) = &plan.tasks[number];
        let about = About { plan, site: &plan.sites[*site], task, clock, overhead };
        for (i, operation) in task.operations.iter().enumerate() {
            let failed = seen
                .failed
                .as_ref()
                .filter(|(at, what, _)| *at == number && what.name == operation.name);
            if let Some(samples) = seen.own.get(&(number, i)) {
                out.push(about.own(operation, samples, failed.map(|(.., why)| why.as_str())));
            } else if let Some((.., why)) = failed {
                out.push(about.own(operation, &[], Some(why)));
            }
        }
        for (program, figures) in beside.iter().zip(&seen.others) {
            for (i, operation) in task.operations.iter().enumerate() {
                if let Some(figures) = figures.get(&(number, i)) {
                    out.push(about.other(operation, figures, program.as_ref()));
                }
            }
        }
    }
    out
}

/// What the measurements of a cell have in common.
struct About<'a> {
    plan: &'a Plan,
    site: &'a Site,
    task: &'a Task,
    clock: Clock,
    overhead: Seconds,
}

impl About<'_> {
    fn own(&self, operation: &Operation, samples: &[Sample], failed: Option<&str>) -> Measurement {
        // A sample that was cut short stands only where there is no other.
        let cut = |s: &&Sample| matches!(s.ended, Ended::Budget | Ended::Interrupted);
        let mut counting: Vec<&Sample> = samples.iter().filter(|s| !cut(s)).collect();
        if counting.is_empty() {
            counting = samples.iter().collect();
        }
        let rates: Vec<f64> = counting.iter().map(|s| s.rate).filter(|r| r.is_finite()).collect();
        let summary = Summary::of(&rates, Better::Higher);
        let value = summary.as_ref().map(|summary| summary.median).filter(|_| failed.is_none());
        let share = device_share(&counting);
        let mut config = self.config(operation);
        config.insert("engine".into(), json!(self.task.setup.engine.name()));
        config.insert("compressible_percent".into(), json!(self.plan.options.compressible));
        config.insert("verified".into(), json!(self.task.setup.verify));
        if let Some(first) = counting.first() {
            self.evidence(&mut config, &counting, first, share);
        }
        let traffic = value
            .zip(share)
            .map(|(value, (share, _))| Traffic { value: value * share, basis: "counters".into() });
        Measurement {
            gauge: "files".into(),
            test: "io".into(),
            name: operation.name.into(),
            unit: nodegauge_measure::Unit::BytesPerSecond,
            value,
            summary,
            samples: rates,
            disturbed: Vec::new(),
            regimes: Vec::new(),
            validity: self.validity(operation, &counting, share.map(|(s, _)| s), failed),
            config,
            quoted: Quoted::Median,
            traffic,
            category: Category::Variant,
            limit: None,
        }
    }

    /// What the samples have to say beside their rates.
    fn evidence(
        &self,
        config: &mut Map<String, Value>,
        counting: &[&Sample],
        first: &Sample,
        share: Option<(f64, &str)>,
    ) {
        let mut latency = Latency::new();
        let (mut operations, mut seconds) = (0, 0.0);
        for sample in counting {
            latency.merge_pairs(&sample.latencies);
            operations += sample.operations.0;
            seconds += sample.seconds;
        }
        config.insert("operations".into(), json!(first.operations.0));
        config.insert("operations_planned".into(), json!(first.operations.1));
        config.insert("seconds".into(), json!(first.seconds));
        config.insert("iops".into(), json!(operations as f64 / seconds));
        config.insert("latency_s".into(), latency.to_json(self.clock));
        config.insert(
            "clock".into(),
            json!({"source": self.clock.source().name(), "overhead_s": self.overhead.0}),
        );
        config.insert("ended".into(), json!(first.ended));
        config.insert("device_share".into(), json!(share.map(|(share, _)| share)));
        config.insert("device_share_basis".into(), json!(share.map(|(_, basis)| basis)));
        config.insert("served".into(), json!(share.map(|(share, _)| counters::label(share))));
        if let Some(workers) = &first.workers {
            let of = |f: fn(f64, f64) -> f64, start| workers.rates.iter().copied().fold(start, f);
            config.insert("parent_rate".into(), json!(workers.parent));
            config.insert("worker_rate_min".into(), json!(of(f64::min, f64::INFINITY)));
            config.insert("worker_rate_max".into(), json!(of(f64::max, 0.0)));
            let mean = workers.rates.iter().sum::<f64>() / workers.rates.len().max(1) as f64;
            config.insert("worker_rate_mean".into(), json!(mean));
            config.insert("worker_bytes_min".into(), json!(workers.least_bytes));
        }
    }

    /// What is the same for own figures and those of others.
    fn config(&self, operation: &Operation) -> Map<String, Value> {
        let Task { cell, cache, setup, drop_before_reads, .. } = self.task;
        let mut config = Map::from_iter([
            ("file_bytes".to_owned(), json!(cell.file)),
            ("block_bytes".to_owned(), json!(cell.block)),
            ("cache".to_owned(), json!(cache)),
            ("direct".to_owned(), json!(setup.access.direct)),
            ("sync_writes".to_owned(), json!(setup.access.sync)),
            ("depth".to_owned(), json!(setup.depth)),
            ("include_close".to_owned(), json!(setup.include_close)),
            ("include_fsync".to_owned(), json!(setup.include_fsync)),
            ("dropped_before_reads".to_owned(), json!(drop_before_reads)),
            ("volume".to_owned(), json!(self.site.volume)),
        ]);
        if setup.engine == crate::Engine::Mmap {
            config.insert("msync".into(), json!(setup.msync));
        }
        if operation.direction == Direction::Mixed {
            config.insert("read_percent".into(), json!(setup.read_percent));
        }
        if let Some(crew) = self.plan.options.crew {
            let key = if crew.kind == Kind::Threads { "threads" } else { "processes" };
            config.insert(key.into(), json!(crew.count));
            config.insert("stonewall".into(), json!(crew.stonewall));
        }
        config
    }

    fn validity(
        &self,
        operation: &Operation,
        counting: &[&Sample],
        share: Option<f64>,
        failed: Option<&str>,
    ) -> Validity {
        let mut validity = Validity::valid();
        if let Some(why) = failed {
            let first = why.lines().next().unwrap_or(why);
            validity.add(Status::Invalid, first.to_owned());
        }
        for sample in counting {
            if matches!(sample.ended, Ended::Budget | Ended::Interrupted) {
                let why =
                    if sample.ended == Ended::Budget { "by the budget" } else { "by the user" };
                validity.add(
                    Status::Suspect,
                    format!(
                        "cut short {why} after {} of {} operations",
                        sample.operations.0, sample.operations.1
                    ),
                );
                break;
            }
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

    fn other(
        &self,
        operation: &Operation,
        figures: &[Figure],
        program: &dyn Beside,
    ) -> Measurement {
        let rates: Vec<f64> = figures.iter().map(|figure| figure.rate).collect();
        let summary = Summary::of(&rates, Better::Higher);
        let mut config = self.config(operation);
        config.insert("engine".into(), json!(program.name()));
        config.insert("version".into(), json!(program.version()));
        // The engine of the own figures beside which these stand.
        config.insert("beside_engine".into(), json!(self.task.setup.engine.name()));
        let mut validity = Validity::valid();
        if let Some(figure) = figures.first() {
            config.insert("command".into(), json!(figure.command));
            config.insert("iops".into(), json!(figure.iops));
            config.insert("latency_s".into(), json!(figure.latency));
            if let Some(doubt) = &figure.doubt {
                validity.add(Status::Suspect, doubt.clone());
            }
        }
        Measurement {
            gauge: "files".into(),
            test: "io".into(),
            name: operation.name.into(),
            unit: nodegauge_measure::Unit::BytesPerSecond,
            value: summary.as_ref().map(|summary| summary.median),
            summary,
            samples: rates,
            disturbed: Vec::new(),
            regimes: Vec::new(),
            config,
            quoted: nodegauge_measure::record::Quoted::Median,
            traffic: None,
            category: Category::Reference,
            limit: None,
            validity,
        }
    }
}

/// The device's share over all samples, by their bytes' weight being equal, with its basis; unknown
/// when it is of one of them.
fn device_share<'a>(counting: &[&'a Sample]) -> Option<(f64, &'a str)> {
    let shares: Option<Vec<_>> = counting.iter().map(|sample| sample.share).collect();
    let shares = shares?;
    let first = shares.first()?;
    let mean = shares.iter().map(|share| share.share).sum::<f64>() / shares.len() as f64;
    Some((mean, first.basis))
}
