//! fio: its JSON, and fio by turns with the gauge, one job for each operation that it has.

use super::{ReferenceFigure, ReferenceFigures, ReferenceProgram, located, time_limit};
use crate::FilesError;
use crate::cell::Task;
use crate::engine::{IoEngine, SyncWrites};
use crate::latency::Quantiles;
use crate::operation::{Direction, Operation, Way};
use crate::pattern::AccessPattern;
use crate::scratch::ScratchDirectory;
use crate::workers::{WorkerKind, Workers};
use nodegauge_toolchain::{CommandLine, Job};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// fio counts the time of a job in whole milliseconds; below this its rate is off by a percent.
const SHORTEST_MS: f64 = 100.0;

/// One direction of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Half {
    /// B/s.
    pub rate: f64,
    /// Operations per second.
    pub iops: f64,
    /// Operations.
    pub operations: u64,
    /// Time, milliseconds.
    pub runtime_ms: f64,
    /// Latencies by quantile, seconds.
    pub latency: Option<Quantiles>,
}

/// A job's result.
#[derive(Debug, Clone, PartialEq)]
pub struct FioJob {
    /// Its name.
    pub name: String,
    /// 0, or the number of the error.
    pub error: i64,
    /// Options as given, those of all jobs first.
    pub options: BTreeMap<String, String>,
    /// What was read, if anything was.
    pub read: Option<Half>,
    /// What was written, if anything was.
    pub write: Option<Half>,
}

/// What one run printed.
#[derive(Debug, Clone, PartialEq)]
pub struct FioOutput {
    /// E.g. `fio-3.33`.
    pub version: String,
    /// Its jobs.
    pub jobs: Vec<FioJob>,
}

/// Why a text is not taken for fio's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFio(String);

impl fmt::Display for NotFio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FioOutput {
    /// Whether a text looks like fio's JSON, perhaps with fio's notes around it.
    pub fn recognises(text: &str) -> bool {
        text.contains("\"fio version\"")
    }

    /// Reads fio's JSON or JSON+; lines before and behind are fio's notes.
    ///
    /// # Errors
    /// When there is no such document in it, or no jobs.
    pub fn read(text: &str) -> Result<Self, NotFio> {
        let start = text.find("\n{").map(|at| at + 1).or(text.starts_with('{').then_some(0));
        let Some(start) = start.filter(|_| Self::recognises(text)) else {
            return Err(NotFio("this is not fio's JSON".to_owned()));
        };
        let document = serde_json::Deserializer::from_str(&text[start..])
            .into_iter::<Value>()
            .next()
            .ok_or_else(|| NotFio("fio's JSON is empty".to_owned()))?
            .map_err(|error| NotFio(format!("fio's JSON is broken: {error}")))?;
        let version = document["fio version"].as_str().unwrap_or("fio").to_owned();
        let global = options(&document["global options"]);
        let jobs = document["jobs"].as_array().cloned().unwrap_or_default();
        if jobs.is_empty() {
            return Err(NotFio("fio's JSON holds no jobs".to_owned()));
        }
        let jobs = jobs.iter().map(|job| read_job(job, &global)).collect();
        Ok(Self { version, jobs })
    }
}

fn options(value: &Value) -> BTreeMap<String, String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn read_job(job: &Value, global: &BTreeMap<String, String>) -> FioJob {
    let mut all = global.clone();
    all.extend(options(&job["job options"]));
    FioJob {
        name: job["jobname"].as_str().unwrap_or_default().to_owned(),
        error: job["error"].as_i64().unwrap_or(0),
        options: all,
        read: half(&job["read"]),
        write: half(&job["write"]),
    }
}

fn half(value: &Value) -> Option<Half> {
    let operations = value["total_ios"].as_u64().filter(|n| *n > 0)?;
    Some(Half {
        rate: value["bw_bytes"].as_f64()?,
        iops: value["iops"].as_f64()?,
        operations,
        runtime_ms: value["runtime"].as_f64().unwrap_or(0.0),
        latency: latency(value),
    })
}

/// The quantiles that fio gives for completion latencies, or for whole ones where it was asked to.
fn latency(value: &Value) -> Option<Quantiles> {
    let either = [&value["clat_ns"], &value["lat_ns"]];
    let whole = either.into_iter().find(|latency| latency["percentile"].is_object())?;
    let seconds = |ns: &Value| ns.as_f64().map(|ns| ns * 1e-9);
    let of = |name: &str| seconds(&whole["percentile"][name]);
    Some(Quantiles {
        p50: of("50.000000"),
        p90: of("90.000000"),
        p99: of("99.000000"),
        p99_9: of("99.900000"),
        max: seconds(&whole["max"]),
    })
}

/// fio, run by turns.
#[derive(Debug, Clone)]
pub struct Fio {
    program: String,
    version: String,
    workers: Option<Workers>,
    limit: Option<Duration>,
}

impl Fio {
    /// Finds the program and asks for its version. Each job ends after `limit`.
    ///
    /// # Errors
    /// When it is not there or is not fio.
    pub fn new(
        program: &Path,
        workers: Option<Workers>,
        limit: Option<Duration>,
    ) -> Result<Self, FilesError> {
        let program = located(program, "fio")?;
        let command = CommandLine::new(program.as_str(), ["--version"]);
        let job =
            Job { folder: std::env::temp_dir(), ..Job::new(command, Duration::from_secs(10)) };
        let version = nodegauge_toolchain::run(&job, &|| false)?.stdout.trim().to_owned();
        if !version.starts_with("fio-") {
            return Err(FilesError::Reference { program, why: "this is not fio: it prints no version\nhint: --fio takes the path of the program fio".to_owned() });
        }
        Ok(Self { program, version, workers, limit })
    }

    /// The arguments for one operation; `None` when fio has no such thing.
    fn arguments(&self, task: &Task, operation: &Operation) -> Option<Vec<String>> {
        let setup = &task.setup;
        let random = match operation.pattern {
            AccessPattern::Forward => false,
            AccessPattern::Random => true,
            _ => return None,
        };
        let mode = match (operation.direction, random) {
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "randread",
            (Direction::Write, false) => "write",
            (Direction::Write, true) => "randwrite",
            (Direction::Mixed, _) => "randrw",
        };
        let engine = match (operation.way, setup.engine) {
            (Way::Stdio, _) => return None,
            (Way::Vector, _) => "pvsync",
            (Way::Positional, _) => "psync",
            (Way::Plain, IoEngine::Sync) if random => "psync",
            // Its plain engine seeks before each call only where the file's position is elsewhere.
            (Way::Plain, IoEngine::Sync) => "sync",
            (Way::Plain, IoEngine::Mmap) => "mmap",
            (Way::Plain, IoEngine::Aio) => "posixaio",
            (Way::Plain, IoEngine::Uring) => "io_uring",
        };
        let mut words = vec![
            "--name=data-fio".to_owned(),
            format!("--rw={mode}"),
            format!("--bs={}", task.cell.block.0),
            format!("--size={}", task.cell.blocks() * task.cell.block.0),
            format!("--ioengine={engine}"),
            format!("--iodepth={}", setup.depth),
            format!("--direct={}", u8::from(setup.access.direct)),
            "--output-format=json".to_owned(),
            "--fallocate=none".to_owned(),
            // Pages stay where ours stay.
            format!("--invalidate={}", u8::from(task.drop_before_reads || setup.access.direct)),
            format!("--overwrite={}", u8::from(!operation.creates)),
        ];
        if operation.direction == Direction::Mixed {
            words.push(format!("--rwmixread={}", setup.read_percent));
        }
        match setup.access.sync {
            Some(SyncWrites::Sync) => words.push("--sync=sync".to_owned()),
            Some(SyncWrites::Dsync) => words.push("--sync=dsync".to_owned()),
            None => {}
        }
        if setup.include_fsync && operation.direction != Direction::Read {
            words.push("--end_fsync=1".to_owned());
        }
        if let Some(limit) = self.limit {
            words.push(format!("--runtime={}ms", limit.as_millis()));
        }
        if let Some(workers) = self.workers {
            words.push(format!("--numjobs={}", workers.count));
            if workers.kind == WorkerKind::Threads {
                words.push("--thread".to_owned());
            }
            if workers.stonewall {
                words.push("--exitall=1".to_owned());
            }
        }
        Some(words)
    }

    fn one(
        &self,
        task: &Task,
        operation: &'static Operation,
        scratch: &ScratchDirectory,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<ReferenceFigure>, FilesError> {
        let Some(arguments) = self.arguments(task, operation) else { return Ok(None) };
        if operation.creates {
            remove_files(scratch);
        }
        let command = CommandLine::new(self.program.clone(), arguments);
        let job = Job { folder: scratch.folder().to_owned(), ..Job::new(command.clone(), limit) };
        let text = job.success(nodegauge_toolchain::run(&job, interrupted)?)?;
        let output = FioOutput::read(&text).map_err(|error| FilesError::Reference {
            program: command.to_string(),
            why: error.to_string(),
        })?;
        Ok(figure(&output, &command.to_string()))
    }
}

/// All jobs of a run as one figure.
fn figure(output: &FioOutput, command: &str) -> Option<ReferenceFigure> {
    let halves: Vec<&Half> =
        output.jobs.iter().flat_map(|job| [&job.read, &job.write]).flatten().collect();
    let longest = halves.iter().map(|half| half.runtime_ms).fold(0.0, f64::max);
    let first = halves.first()?;
    Some(ReferenceFigure {
        rate: halves.iter().map(|half| half.rate).sum(),
        iops: Some(halves.iter().map(|half| half.iops).sum()),
        // Quantiles of several jobs cannot be put together.
        latency: first.latency.clone().filter(|_| halves.len() == 1),
        command: command.to_owned(),
        doubt: (longest < SHORTEST_MS).then(|| {
            format!(
                "fio counts whole milliseconds, and this took {longest}: a longer file tells more"
            )
        }),
    })
}

/// Removes the files of earlier jobs, so that the next makes its own.
fn remove_files(scratch: &ScratchDirectory) {
    let Ok(entries) = std::fs::read_dir(scratch.folder()) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with("data-fio") {
            // One that stays is overwritten.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl ReferenceProgram for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn run(
        &mut self,
        task: &Task,
        scratch: &ScratchDirectory,
        left: Option<Duration>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ReferenceFigures, FilesError> {
        let mut figures = Vec::new();
        let mut outcome = Ok(());
        for operation in task.operations.iter().copied() {
            match self.one(task, operation, scratch, time_limit(left), interrupted) {
                Ok(figure) => figures.extend(figure.map(|figure| (operation, figure))),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        remove_files(scratch);
        outcome.map(|()| figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CacheMode;
    use crate::grid::CellSize;
    use crate::operation::named;
    use crate::pass::Setup;
    use nodegauge_measure::Bytes;

    fn recorded(name: &str) -> FioOutput {
        let path = format!("{}/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
        FioOutput::read(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn a_job_has_rates_and_latencies() {
        let output = recorded("fio-seqread.json");
        let job = &output.jobs[0];
        assert_eq!((output.version.as_str(), job.error), ("fio-3.33", 0));
        assert_eq!(job.options["bs"], "1M");
        let read = job.read.as_ref().unwrap();
        assert_eq!((read.rate, read.operations), (1_104_672_658.0, 256));
        assert_eq!(read.latency.as_ref().unwrap().p99, Some(1_204_224.0 * 1e-9));
        assert_eq!(job.write, None);
        let mixed = &recorded("fio-randrw.json").jobs[0];
        assert!(mixed.read.is_some() && mixed.write.is_some());
        let both = figure(&recorded("fio-randrw.json"), "fio").unwrap();
        assert!(both.rate > mixed.read.as_ref().unwrap().rate && both.latency.is_none());
    }

    #[test]
    fn a_failed_job_has_its_error_and_no_figures() {
        let output = recorded("fio-error.txt");
        assert_eq!((output.jobs[0].error, &output.jobs[0].read), (2, &None));
        assert_eq!(figure(&output, "fio"), None);
    }

    #[test]
    fn notes_around_the_document_are_passed_over_and_others_refused() {
        let path = format!("{}/tests/outputs/fio-seqread.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(FioOutput::read(&format!("fio: a note\n{text}\nmore\n")).is_ok());
        assert!(FioOutput::read(&text[..text.len() / 2]).is_err());
        assert!(FioOutput::read("{}").is_err());
    }

    #[test]
    fn options_say_the_same_as_ours() {
        let fio =
            Fio { program: "fio".into(), version: "fio-3.33".into(), workers: None, limit: None };
        let task = Task {
            cell: CellSize { file: Bytes::mib(64), block: Bytes::kib(4) },
            cache: CacheMode::Direct,
            setup: Setup {
                engine: IoEngine::Uring,
                depth: 8,
                ..CacheMode::Direct.applied(Setup::default())
            },
            drop_before_reads: false,
            operations: Vec::new(),
        };
        let words = |name| fio.arguments(&task, named(name).unwrap()).map(|words| words.join(" "));
        let write = words("random_write").unwrap();
        for part in [
            "--rw=randwrite",
            "--bs=4096",
            "--size=67108864",
            "--ioengine=io_uring",
            "--iodepth=8",
            "--direct=1",
            "--overwrite=1",
        ] {
            assert!(write.contains(part), "{part} in {write}");
        }
        assert_eq!(words("stride_read"), None);
        assert_eq!(words("fread"), None);
    }
}
