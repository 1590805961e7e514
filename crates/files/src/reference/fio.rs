//! fio: a parser for its JSON output, and fio as a reference program with one job per supported operation.

use super::{ProgramProperties, ReferenceProgramFigure};
use nodegauge_blocks::engine::{IoEngine, SyncWrites};
use nodegauge_blocks::latency::Quantiles;
use nodegauge_blocks::operation::{Direction, Operation, TransferCall};
use nodegauge_blocks::pattern::AccessPattern;
use nodegauge_blocks::task::Task;
use nodegauge_blocks::workers::{FileWorkers, WorkerKind};
use nodegauge_measure::quantity::format_significant;
use nodegauge_measure::{BytesPerSec, Seconds, printed};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of bytes per KiB, the unit of `bw`.
const KIB: f64 = 1024.0;
/// Key of fio's version; it occurs once per output.
pub(super) const VERSION_KEY: &str = "\"fio version\"";
/// Minimum duration of a job in milliseconds. fio counts whole milliseconds, so that the rate of a shorter job has an
/// error of more than 1 %.
const SHORTEST_MS: f64 = 100.0;

/// Maximum relative difference between two equal rates that were rounded to whole bytes or KiB per second.
const ROUNDED: f64 = 1e-3;

/// Results of a job for one direction, reads or writes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DirectionResult {
    /// Rate in B/s; versions before 3 do not print it.
    bw_bytes: Option<f64>,
    /// Rate in KiB/s.
    bw: Option<f64>,
    /// Amount of data in bytes, or in KiB in versions that do not print `bw_bytes`.
    io_bytes: Option<f64>,
    pub(super) iops: f64,
    #[serde(rename = "total_ios")]
    pub(super) operations: u64,
    /// Operations that transferred less than their block.
    #[serde(rename = "short_ios", default)]
    short_operations: u64,
    /// Elapsed time in milliseconds.
    runtime: f64,
    /// Completion latencies (without the submission).
    clat_ns: FioLatency,
    /// Total latencies (from the submission to the completion).
    lat_ns: FioLatency,
}

/// Latencies in nanoseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FioLatency {
    percentile: BTreeMap<String, f64>,
    max: Option<f64>,
}

/// Result of a job.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FioJob {
    #[serde(default, rename = "jobname")]
    pub(super) name: String,
    /// Host of the client.
    #[serde(default)]
    hostname: Option<String>,
    /// Error number; 0 if the job succeeded.
    #[serde(default)]
    pub(super) error: i32,
    /// Options of the job, including global options.
    #[serde(default, rename = "job options")]
    pub(super) options: BTreeMap<String, String>,
    #[serde(default)]
    read: DirectionResult,
    #[serde(default)]
    write: DirectionResult,
    /// Sum of all directions (`unified_rw_reporting`).
    #[serde(default)]
    mixed: DirectionResult,
}

/// Parsed output of one run of fio.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FioOutput {
    /// Version of fio, e.g. `fio-3.33`.
    #[serde(rename = "fio version")]
    pub(super) version: String,
    #[serde(default, rename = "global options")]
    options: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) jobs: Vec<FioJob>,
    /// Jobs of the clients and their sum, if fio controlled other instances (`--client`).
    #[serde(default)]
    client_stats: Vec<FioJob>,
}

/// Name of the entry with the sum of all jobs in client mode.
const ALL_CLIENTS: &str = "All clients";

impl FioOutput {
    /// True if a text looks like fio's JSON output; other lines of fio may surround the JSON document.
    pub(super) fn recognises(text: &str) -> bool {
        text.contains(VERSION_KEY)
    }

    /// Parses fio's JSON or JSON+ output. Lines before and after the document are ignored. The error is the reason why
    /// the text is invalid.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let start = text.find("\n{").map(|at| at + 1).or(text.starts_with('{').then_some(0));
        let start = start.filter(|_| Self::recognises(text)).ok_or("this is not fio's JSON")?;
        let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter();
        let document: Option<serde_json::Result<Self>> = documents.next();
        let mut output = document
            .ok_or("fio's JSON is empty")?
            .map_err(|error| format!("fio's JSON is invalid: {error}"))?;
        let rest = &text[start + documents.byte_offset()..];
        if rest.trim_start_matches([' ', '\t']).starts_with('{') || Self::recognises(rest) {
            let line = text[..text.len() - rest.len()].lines().count();
            return Err(format!(
                "a second JSON document begins in line {line}, in which the first one ends; insert a line break \
                 between them"
            ));
        }
        output.jobs.append(&mut output.client_stats);
        // The entry with the sum over all clients is removed if there are other entries.
        if output.jobs.iter().any(|job| job.name != ALL_CLIENTS) {
            output.jobs.retain(|job| job.name != ALL_CLIENTS);
        }
        if output.jobs.is_empty() {
            return Err("fio's JSON contains no jobs".to_owned());
        }
        for job in &mut output.jobs {
            let own = std::mem::replace(&mut job.options, output.options.clone());
            job.options.extend(own);
            if let Some(host) = &job.hostname {
                job.name.push_str(&format!(" on {host}"));
            }
        }
        Ok(output)
    }
}

impl FioJob {
    /// True if the job has results of reads.
    pub(super) fn has_reads(&self) -> bool {
        self.read.has_data()
    }

    /// True if the job has results of writes.
    pub(super) fn has_writes(&self) -> bool {
        self.write.has_data()
    }

    /// True if the job verifies the data that it writes (`verify`), so that its reads include those of the verification.
    pub(super) fn has_verification(&self) -> bool {
        self.options.get("verify").is_some_and(|method| method != "0")
    }

    /// Returns the results of the writes.
    pub(super) fn writes(&self) -> &DirectionResult {
        &self.write
    }

    /// Returns the sum of all directions if fio printed nothing else (`unified_rw_reporting`).
    pub(super) fn direction_sum(&self) -> Option<&DirectionResult> {
        let is_only = self.mixed.has_data() && !self.has_reads() && !self.has_writes();
        is_only.then_some(&self.mixed)
    }

    /// Returns the results of the directions that transferred data.
    pub(super) fn results(&self) -> Vec<&DirectionResult> {
        [&self.read, &self.write].into_iter().filter(|result| result.has_data()).collect()
    }
}

impl DirectionResult {
    /// True if at least one number shows that data was transferred. The rate is then checked against all of the
    /// numbers.
    fn has_data(&self) -> bool {
        let amounts = [self.bw_bytes, self.bw, self.io_bytes];
        self.operations > 0 || amounts.into_iter().flatten().any(|amount| amount > 0.0)
    }

    /// True if the amount of data is that of operations of `block` bytes each, of which only those that fio counts as
    /// short may be shorter.
    pub(super) fn has_block(&self, block: u64) -> bool {
        let unit = if self.bw_bytes.is_some() { 1.0 } else { KIB };
        let Some(bytes) = self.io_bytes.map(|amount| amount * unit) else { return false };
        let missing = self.operations as f64 * block as f64 - bytes;
        let most = self.short_operations as f64 * block as f64;
        (-unit..=most + unit).contains(&missing)
    }

    /// Returns the rate in B/s.
    ///
    /// Fails if the rate is missing, is not positive, or differs from the amount of data divided by the time.
    pub(super) fn rate(&self) -> Result<f64, String> {
        let (rate, bytes) = match (self.bw_bytes, self.bw, self.io_bytes) {
            (Some(rate), _, Some(bytes)) => (rate, bytes),
            (None, Some(rate), Some(bytes)) => (rate * KIB, bytes * KIB),
            _ => return Err("fio did not print the rate and the amount of data".to_owned()),
        };
        let time = self.runtime * 1e-3;
        if !(printed::can_be_figure(rate)
            && printed::can_be_figure(bytes)
            && printed::can_be_figure(time))
        {
            return Err(format!(
                "fio printed no positive rate and time: {} in {} ms",
                BytesPerSec(rate),
                format_significant(self.runtime)
            ));
        }
        let iops = self.operations as f64 / time;
        let slack = ROUNDED + KIB / rate + KIB / bytes;
        let agrees = (rate * time / bytes - 1.0).abs() <= slack;
        let counts = (self.iops / iops - 1.0).abs() <= ROUNDED;
        if agrees && counts {
            return Ok(rate);
        }
        Err(format!(
            "fio's figures contradict each other: {} and {} operations/s for {} B and {} operations \
             in {} ms",
            BytesPerSec(rate),
            format_significant(self.iops),
            format_significant(bytes),
            self.operations,
            format_significant(self.runtime)
        ))
    }

    /// Returns the quantiles of the completion latencies or, if they are missing, of the total latencies.
    pub(super) fn latency(&self) -> Option<Quantiles> {
        let either = [&self.clat_ns, &self.lat_ns];
        let printed = either.into_iter().find(|latency| !latency.percentile.is_empty())?;
        let [p50, p90, p99, p99_9] = ["50.000000", "90.000000", "99.000000", "99.900000"]
            .map(|name| printed.percentile.get(name).map(|ns| Seconds(ns * 1e-9)));
        Some(Quantiles { p50, p90, p99, p99_9, max: printed.max.map(|ns| Seconds(ns * 1e-9)) })
    }
}

pub(super) const PROPERTIES: ProgramProperties = ProgramProperties {
    name: "fio",
    title: "fio",
    version_option: "--version",
    version: |stdout| Some(stdout.trim()).filter(|version| version.starts_with("fio-")),
    runs: |program, task| {
        let mut runs = Vec::new();
        for operation in &task.operations {
            let words = arguments(task, operation, program.workers, program.limit);
            runs.extend(words.map(|words| (words, vec![*operation])));
        }
        runs
    },
    figures: |text, _, operations, command| {
        let figure = figure(&FioOutput::read(text)?, command)?;
        Ok(operations.iter().copied().zip(figure).collect())
    },
};

/// Returns the arguments for one operation; `None` if fio does not support it.
fn arguments(
    task: &Task,
    operation: &Operation,
    workers: Option<FileWorkers>,
    limit: Option<Duration>,
) -> Option<Vec<String>> {
    let setup = &task.setup;
    let (mode, engine) = match (operation.direction, operation.pattern) {
        (Direction::Read, AccessPattern::Forward) => ("read", "sync"),
        (Direction::Read, AccessPattern::Random) => ("randread", "psync"),
        (Direction::Write, AccessPattern::Forward) => ("write", "sync"),
        (Direction::Write, AccessPattern::Random) => ("randwrite", "psync"),
        (Direction::Mixed, AccessPattern::Random) => ("randrw", "psync"),
        _ => return None,
    };
    let engine = match (operation.calls, setup.engine) {
        (TransferCall::Stdio, _) => return None,
        (TransferCall::Vector, _) => "pvsync",
        (TransferCall::Positional, _) => "psync",
        // fio's engine `sync` seeks only if the file position differs from the offset.
        (TransferCall::Plain, IoEngine::Sync) => engine,
        (TransferCall::Plain, IoEngine::Mmap) => "mmap",
        (TransferCall::Plain, IoEngine::Uring) => "io_uring",
    };
    let mut words = vec![
        "--name=data-fio".to_owned(),
        format!("--rw={mode}"),
        format!("--bs={}", task.cell.block.0),
        format!("--size={}", task.cell.blocks() * task.cell.block.0),
        format!("--ioengine={engine}"),
        format!("--iodepth={}", setup.depth),
        format!("--direct={}", u8::from(setup.direct)),
        "--output-format=json".to_owned(),
        "--fallocate=none".to_owned(),
        // Pages stay in the page cache in the cases in which the gauge does not drop them.
        format!("--invalidate={}", u8::from(task.drop_before_reads || setup.direct)),
        format!("--overwrite={}", u8::from(!operation.creates)),
    ];
    if operation.direction == Direction::Mixed {
        words.push(format!("--rwmixread={}", setup.read_percent));
    }
    words.extend(limit.map(|limit| format!("--runtime={}ms", limit.as_millis())));
    words.extend(workers.map(|workers| format!("--numjobs={}", workers.count)));
    let threads = workers.is_some_and(|workers| workers.kind == WorkerKind::Threads);
    let stonewall = workers.is_some_and(|workers| workers.stonewall);
    let flags = [
        ("--sync=sync", setup.sync_writes == Some(SyncWrites::Sync)),
        ("--sync=dsync", setup.sync_writes == Some(SyncWrites::Dsync)),
        ("--end_fsync=1", setup.include_fsync && operation.direction != Direction::Read),
        ("--thread", threads),
        ("--exitall=1", stonewall),
    ];
    words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
    Some(words)
}

/// Returns the reason why figures are suspect if even the longest job took only `milliseconds`; `None` if this is long
/// enough.
pub(super) fn too_short_reason(milliseconds: f64) -> Option<String> {
    (milliseconds < SHORTEST_MS).then(|| {
        format!(
            "fio counts whole milliseconds, and this job took only {milliseconds} ms; use a \
             larger file"
        )
    })
}

/// Returns the longest time of the results in milliseconds.
pub(super) fn longest_ms(results: &[&DirectionResult]) -> f64 {
    results.iter().map(|result| result.runtime).fold(0.0, f64::max)
}

/// Result of a run of one of fio's engines for metadata.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FioOperations {
    /// Operations per second, summed over all jobs.
    pub(crate) rate: f64,
    /// Latencies; `None` if there are several jobs.
    pub(crate) latency: Option<Quantiles>,
    /// Reason why the rate is suspect.
    pub(crate) doubt: Option<String>,
}

/// Parses the output of a run of one of fio's engines for metadata. fio prints their operations as reads.
///
/// # Errors
/// Fails if the text is not fio's JSON, or a job has failed or has no operations.
pub(crate) fn fio_operations(text: &str) -> Result<FioOperations, String> {
    let output = FioOutput::read(text)?;
    if let Some(job) = output.jobs.iter().find(|job| job.error != 0) {
        let cause = std::io::Error::from_raw_os_error(job.error);
        return Err(format!("the job failed: {cause}"));
    }
    let results: Vec<&DirectionResult> = output.jobs.iter().flat_map(FioJob::results).collect();
    let rate = results.iter().map(|result| result.iops).sum();
    let [first, ..] = results[..] else { return Err("fio printed no operations".to_owned()) };
    if !printed::can_be_figure(rate) {
        return Err("fio printed no positive rate of operations".to_owned());
    }
    Ok(FioOperations {
        rate,
        latency: first.latency().filter(|_| results.len() == 1),
        doubt: too_short_reason(longest_ms(&results))
            .map(|why| why.replace("a larger file", "more --files")),
    })
}

/// Returns the figure of a run, summed over all its jobs; `None` if they transferred no data.
fn figure(output: &FioOutput, command: &str) -> Result<Option<ReferenceProgramFigure>, String> {
    let results: Vec<&DirectionResult> = output.jobs.iter().flat_map(FioJob::results).collect();
    let Some(first) = results.first() else { return Ok(None) };
    let rates: Vec<f64> = results.iter().map(|result| result.rate()).collect::<Result<_, _>>()?;
    Ok(Some(ReferenceProgramFigure {
        rate: rates.iter().sum(),
        iops: Some(results.iter().map(|result| result.iops).sum()),
        // Quantiles of several jobs cannot be combined.
        latency: first.latency().filter(|_| results.len() == 1),
        command: command.to_owned(),
        doubt: too_short_reason(longest_ms(&results)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_blocks::operation;
    use nodegauge_blocks::task::CacheMode;
    use nodegauge_blocks::task::CellSize;
    use nodegauge_blocks::task::TaskSetup;
    use nodegauge_measure::Bytes;

    fn recorded(name: &str) -> FioOutput {
        let path = format!("{}/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
        FioOutput::read(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn fio_job_has_rates_and_latencies() {
        let output = recorded("fio-seqread.json");
        let job = &output.jobs[0];
        assert_eq!((output.version.as_str(), job.error), ("fio-3.33", 0));
        assert_eq!(job.options["bs"], "1M");
        let [read] = job.results()[..] else { panic!("{job:?}") };
        assert_eq!((read.rate(), read.operations), (Ok(1_104_672_658.0), 256));
        assert_eq!(read.latency().unwrap().p99, Some(Seconds(1_204_224.0 * 1e-9)));
        let mixed = &recorded("fio-randrw.json").jobs[0];
        assert_eq!(mixed.results().len(), 2);
        let both = figure(&recorded("fio-randrw.json"), "fio").unwrap().unwrap();
        assert!(both.rate > mixed.results()[0].rate().unwrap() && both.latency.is_none());
    }

    #[test]
    fn fio_metadata_engine_output_is_read() {
        let path = format!("{}/tests/outputs/fio-filestat.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let found = fio_operations(&text).unwrap();
        assert_eq!(found.rate, 16129.032258);
        assert_eq!(found.latency.unwrap().p50, Some(Seconds(2008.0 * 1e-9)));
        // The recorded job is shorter than the limit.
        assert!(found.doubt.unwrap().ends_with("use more --files"));
        let long = fio_operations(&text.replace("\"runtime\" : 62", "\"runtime\" : 620")).unwrap();
        assert_eq!(long.doubt, None);
        assert!(fio_operations(&text.replace("16129.032258", "0.0")).is_err());
        assert!(fio_operations("{}").is_err());
    }

    #[test]
    fn failed_fio_job_reports_its_error() {
        let output = recorded("fio-error.txt");
        assert_eq!((output.jobs[0].error, output.jobs[0].results().len()), (2, 0));
        assert_eq!(figure(&output, "fio"), Ok(None));
    }

    #[test]
    fn contradictory_rate_data_and_time_are_refused() {
        let sound = DirectionResult {
            bw_bytes: Some(1_048_576_000.0),
            bw: Some(1_024_000.0),
            io_bytes: Some(1_048_576_000.0),
            iops: 1000.0,
            operations: 1000,
            runtime: 1000.0,
            ..DirectionResult::default()
        };
        assert_eq!(sound.rate(), Ok(1_048_576_000.0));
        // fio 2 prints KiB/s and KiB.
        let old = DirectionResult { bw_bytes: None, io_bytes: Some(1_024_000.0), ..sound.clone() };
        assert_eq!(old.rate(), Ok(1_048_576_000.0));
        for wrong in [-1.0, 0.0, 1e308, 1_048_576.0, f64::NAN] {
            let result = DirectionResult { bw_bytes: Some(wrong), ..sound.clone() };
            assert!(result.rate().is_err(), "{wrong}");
        }
        for result in [
            DirectionResult { bw_bytes: None, bw: None, ..sound.clone() },
            DirectionResult { io_bytes: None, ..sound.clone() },
            DirectionResult { runtime: 0.0, ..sound.clone() },
            DirectionResult { runtime: -1.0, ..sound.clone() },
            DirectionResult { iops: -1.0, ..sound.clone() },
            DirectionResult { operations: 5, ..sound },
        ] {
            assert!(result.rate().is_err(), "{result:?}");
        }
    }

    #[test]
    fn notes_around_the_json_document_are_ignored() {
        let path = format!("{}/tests/outputs/fio-seqread.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(FioOutput::read(&format!("fio: a note\n{text}\nmore\n")).is_ok());
        assert!(FioOutput::read(&text[..text.len() / 2]).is_err());
        assert!(FioOutput::read("{}").is_err());
        let refusal = FioOutput::read(&format!("{}{text}", text.trim_end())).unwrap_err();
        let last = text.trim_end().lines().count();
        assert!(refusal.contains(&format!("begins in line {last},")), "{refusal}");
    }

    #[test]
    fn fio_options_match_the_task() {
        let task = Task {
            cell: CellSize { file: Bytes::mib(64), block: Bytes::kib(4) },
            cache: CacheMode::Direct,
            setup: TaskSetup {
                engine: IoEngine::Uring,
                depth: 8,
                ..CacheMode::Direct.apply_to(TaskSetup::default())
            },
            drop_before_reads: false,
            operations: Vec::new(),
        };
        let words = |name| {
            arguments(&task, operation::find(name).unwrap(), None, None)
                .map(|words| words.join(" "))
        };
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
