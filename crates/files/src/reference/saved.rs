//! Conversion of saved output of IOzone and fio to measurements, with the configuration that the output contains.

use super::fio::{self, DirectionResult, FioJob, FioOutput};
use super::output::IozoneOutput;
use crate::config::{FilesConfig, Percent};
use crate::keys::Latencies;
use crate::{GAUGE, TEST};
use nodegauge_blocks::task::CacheMode;
use nodegauge_gauge::readers::text::quote_text;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};

/// Creates a measurement of another program, without a value.
fn reference(name: &str, config: &FilesConfig) -> Measurement {
    Measurement::new(GAUGE, TEST, name, Unit::BytesPerSecond)
        .with_category(Category::Reference)
        .with_config(config)
}

/// Creates a measurement of another program with a single sample.
fn single(name: &str, rate: f64, config: &FilesConfig, validity: &Validity) -> Measurement {
    reference(name, config)
        .with_samples(QuotedStatistic::Single, vec![rate])
        .with_validity(validity.clone())
}

fn cache_mode(direct: bool) -> CacheMode {
    if direct { CacheMode::Direct } else { CacheMode::Cached }
}

/// Returns the figures of IOzone's output.
pub(super) fn iozone_figures(output: &IozoneOutput) -> Vec<Measurement> {
    let mut validity = Validity::valid();
    if !output.complete {
        validity.add(Status::Suspect, "the output does not end with \"iozone test complete.\"");
    }
    if output.has_poor_resolution {
        validity.add(
            Status::Suspect,
            "iozone reports that its clock is too coarse for the smallest files",
        );
    }
    if output.has_assumed_unit {
        validity.add(
            Status::Suspect,
            "the output does not state the unit of the figures; kB/s is assumed",
        );
    }
    let words: Vec<&str> =
        output.command.as_deref().unwrap_or_default().split_whitespace().collect();
    // Without a command line in the output, the options are unknown.
    let [direct, include_close, include_fsync] =
        ["-I", "-c", "-e"].map(|option| output.command.is_some().then(|| words.contains(&option)));
    let common = FilesConfig {
        engine: Some("iozone".to_owned()),
        version: output.version.clone(),
        command: output.command.clone(),
        direct,
        cache: direct.map(cache_mode),
        include_close,
        include_fsync,
        ..FilesConfig::default()
    };
    let mut out = Vec::new();
    for line in &output.lines {
        let config = FilesConfig {
            file_bytes: Some(line.file),
            block_bytes: Some(line.block),
            ..common.clone()
        };
        out.extend(line.rates.iter().map(|(name, rate)| single(name, *rate, &config, &validity)));
    }
    for test in &output.throughput {
        let threads = output.command.is_some() && words.contains(&"-T");
        let config = FilesConfig {
            file_bytes: test.sizes.file,
            block_bytes: test.sizes.block,
            threads: threads.then_some(u64::from(test.workers)),
            processes: (!threads).then_some(u64::from(test.workers)),
            parent_rate: test.parent,
            worker_rate_min: test.min,
            worker_rate_max: test.max,
            worker_bytes_min: test.min_bytes.map(|bytes| bytes as u64),
            ..common.clone()
        };
        out.push(single(test.name, test.children, &config, &validity));
    }
    if out.is_empty() {
        // For invalid sizes, IOzone prints zeros and exits successfully.
        validity.add(Status::Invalid, "iozone measured nothing: all its figures are zero");
        out.push(reference("write", &common).with_validity(validity));
    }
    out
}

/// Returns the figures of fio's output.
pub(super) fn fio_figures(output: &FioOutput) -> Vec<Measurement> {
    output.jobs.iter().map(|job| job_figure(job, &output.version)).collect()
}

/// Returns the name of the operation of one of fio's modes; `None` if the mode is not supported.
fn operation_name(mode: &str) -> Option<&'static str> {
    match mode.split(':').next().unwrap_or(mode) {
        "read" => Some("read"),
        "write" => Some("write"),
        "randread" => Some("random_read"),
        "randwrite" => Some("random_write"),
        "randrw" => Some("random_mix"),
        "rw" | "readwrite" => Some("mix"),
        _ => None,
    }
}

/// Returns the results of a job that belong to its operation.
///
/// # Errors
/// Fails if the operation transferred no data, or if other reads or writes are part of the results.
fn operation_results<'j>(job: &'j FioJob, name: &str) -> Result<Vec<&'j DirectionResult>, String> {
    let expected = match name {
        "random_mix" | "mix" => [true, true],
        "write" | "random_write" => [false, true],
        _ => [true, false],
    };
    let writes = expected[1];
    let verified = "the results include the reads that verify the written data (verify)";
    if let Some(sum) = job.direction_sum() {
        if writes && job.has_verification() {
            return Err(verified.to_owned());
        }
        return Ok(vec![sum]);
    }
    match [job.has_reads(), job.has_writes()] {
        [false, false] => Err("the job transferred no data".to_owned()),
        [true, true] if job.has_verification() && expected == [false, true] => {
            Ok(vec![job.writes()])
        }
        [true, true] if job.has_verification() && expected == [true, true] => {
            Err(verified.to_owned())
        }
        moves if moves == expected => Ok(job.results()),
        _ => Err("the reads and writes of the job do not match its mode (rw)".to_owned()),
    }
}

/// Returns the measurement for a job. The reads and writes of a mixed job count as a single operation.
fn job_figure(job: &FioJob, version: &str) -> Measurement {
    let option = |name: &str| job.options.get(name).map(String::as_str);
    let mode = option("rw").or_else(|| option("readwrite"));
    let operation = mode.and_then(operation_name);
    let name = operation.unwrap_or("read");
    let direct = option("direct") == Some("1");
    let mut config = FilesConfig {
        engine: Some("fio".to_owned()),
        version: Some(version.to_owned()),
        job: Some(job.name.clone()),
        options: Some(job.options.clone()),
        ioengine: option("ioengine").map(str::to_owned),
        depth: Some(option("iodepth").and_then(|n| n.parse().ok()).unwrap_or(1)),
        direct: Some(direct),
        cache: Some(cache_mode(direct)),
        block_bytes: option("bs").or_else(|| option("blocksize")).and_then(size),
        file_bytes: option("size").and_then(size),
        ..FilesConfig::default()
    };
    if job.error != 0 {
        let cause = std::io::Error::from_raw_os_error(job.error);
        return reference(name, &config).without_value(format!("the job failed: {cause}"));
    }
    if operation.is_none() {
        let reason = match mode {
            Some(mode) => format!("the mode (rw) of the job is not supported: {}", quote_text(mode)),
            None => "fio did not print the mode (rw) of the job: the job used the default, or the line is missing; \
                     give fio the option --rw=read"
                .to_owned(),
        };
        return reference(name, &config).without_value(reason);
    }
    let results = match operation_results(job, name) {
        Ok(results) => results,
        Err(reason) => return reference(name, &config).without_value(reason),
    };
    // A block size that contradicts the operations is not the size of the calls, e.g. with several block sizes.
    config.block_bytes =
        config.block_bytes.filter(|block| results.iter().all(|result| result.has_block(*block)));
    let rates: Result<Vec<f64>, String> = results.iter().map(|result| result.rate()).collect();
    config.iops = Some(results.iter().map(|result| result.iops).sum());
    config.operations = Some(results.iter().map(|result| result.operations).sum());
    match results[..] {
        [read, write] => {
            let share = read.operations as f64 / (read.operations + write.operations) as f64;
            config.read_percent = Some(Percent::from(share * 100.0));
            let both = read.latency().zip(write.latency());
            config.latency_s = both.map(|(read_latency, write_latency)| Latencies::Mixed {
                read: read_latency,
                write: write_latency,
            });
        }
        _ => config.latency_s = results[0].latency().map(Latencies::All),
    }
    let mut validity = Validity::valid();
    if let Some(reason) = fio::too_short_reason(fio::longest_ms(&results)) {
        validity.mark_suspect(reason);
    }
    if option("verify_backlog").is_some() && job.has_verification() {
        validity
            .mark_suspect("reads that verify the data were between the writes (verify_backlog)");
    }
    match rates {
        Ok(rates) => single(name, rates.iter().sum(), &config, &validity),
        Err(reason) => reference(name, &config).without_value(reason),
    }
}

/// Parses a size in fio's notation: the units are powers of 1024, in upper or lower case.
fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let unit = text[digits.len()..].trim_end_matches("ib").trim_end_matches('b');
    let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == unit)?;
    digits.parse::<u64>().ok()?.checked_shl(10 * power as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recorded(name: &str) -> Vec<Measurement> {
        let path = format!("{}/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        if FioOutput::recognises(&text) {
            fio_figures(&FioOutput::read(&text).unwrap())
        } else {
            iozone_figures(&IozoneOutput::read(&text).unwrap())
        }
    }

    #[test]
    fn iozone_grid_has_one_measurement_per_figure() {
        let imported = recorded("iozone-a.txt");
        assert!(imported.len().is_multiple_of(13));
        let first = &imported[0];
        assert_eq!((first.name.as_str(), first.value), ("write", Some(1_101_022.0 * 1024.0)));
        assert_eq!(
            (&first.config["file_bytes"], &first.config["block_bytes"]),
            (&json!(65536), &json!(4096))
        );
        assert_eq!(
            (first.category, &first.config["cache"]),
            (Category::Reference, &json!("cached"))
        );
        let threads = recorded("iozone-t2.txt");
        assert_eq!(threads[0].config["processes"], json!(2));
        let nothing = recorded("iozone-bad-r.txt");
        assert_eq!(nothing.len(), 1);
        assert_eq!(nothing[0].validity.status, Status::Invalid);
    }

    #[test]
    fn fio_jobs_become_operations() {
        let one = &recorded("fio-seqread.json")[0];
        assert_eq!((one.name.as_str(), one.value), ("read", Some(1_104_672_658.0)));
        assert_eq!(
            (&one.config["file_bytes"], &one.config["block_bytes"]),
            (&json!(256 << 20), &json!(1 << 20))
        );
        let mixed = &recorded("fio-randrw.json")[0];
        assert_eq!((mixed.name.as_str(), &mixed.config["depth"]), ("random_mix", &json!(4)));
        let failed = &recorded("fio-error.txt")[0];
        assert_eq!((failed.value, failed.validity.status), (None, Status::Invalid));
        assert!(failed.validity.reasons[0].contains("No such file"));
    }

    #[test]
    fn contradictory_fio_jobs_are_invalid() {
        let path = format!("{}/tests/outputs/fio-seqread.json", env!("CARGO_MANIFEST_DIR"));
        let whole = std::fs::read_to_string(path).unwrap();
        let of = |text: &str| fio_figures(&FioOutput::read(text).unwrap()).remove(0);
        let without_bytes =
            whole.lines().filter(|line| !line.contains("bw_bytes")).collect::<Vec<_>>().join("\n");
        let old = without_bytes.replace("fio-3.33", "fio-2.16").replace("268435456", "262144");
        let rate = of(&old).value.unwrap();
        assert!((rate / 1_104_672_658.0 - 1.0).abs() < 1e-5, "{rate}");
        for wrong in ["-1", "0", "1e308", "1104672658000"] {
            let m = of(&whole.replace("1104672658", wrong));
            assert_eq!((m.value, m.validity.status), (None, Status::Invalid), "{wrong}");
        }
    }

    /// Returns the figure of a job of fio with these options and results.
    fn job_figure_of(options: &serde_json::Value, results: &serde_json::Value) -> Measurement {
        let mut job = json!({ "jobname": "job", "job options": options });
        for (direction, result) in results.as_object().unwrap() {
            job[direction] = result.clone();
        }
        let text = json!({ "fio version": "fio-3.36", "jobs": [job] }).to_string();
        fio_figures(&FioOutput::read(&text).unwrap()).remove(0)
    }

    #[test]
    fn results_belong_to_the_mode_of_the_job() {
        let of = |rate: u64| {
            json!({
                "io_bytes": rate, "bw_bytes": rate, "iops": rate / 4096, "runtime": 1000,
                "total_ios": rate / 4096
            })
        };
        let both = json!({ "read": of(8_192_000), "write": of(4_096_000) });
        let verified = job_figure_of(&json!({ "rw": "write", "verify": "crc32c" }), &both);
        assert_eq!((verified.name.as_str(), verified.value), ("write", Some(4_096_000.0)));
        assert_eq!(verified.config["operations"], json!(1000));
        let backlog = json!({ "rw": "write", "verify": "crc32c", "verify_backlog": "8" });
        assert_eq!(job_figure_of(&backlog, &both).validity.status, Status::Suspect);
        let sum = json!({ "mixed": of(4_096_000) });
        let mixed = job_figure_of(&json!({ "rw": "randrw" }), &sum);
        assert_eq!((mixed.name.as_str(), mixed.value), ("random_mix", Some(4_096_000.0)));
        let both_and_sum = json!({
            "read": of(8_192_000), "write": of(4_096_000), "mixed": of(12_288_000)
        });
        let separate = job_figure_of(&json!({ "rw": "randrw" }), &both_and_sum);
        assert_eq!(separate.value, Some(12_288_000.0));
        let verifies = "verify the written data";
        let only_reads = json!({ "read": of(4_096_000) });
        for (options, results, reason) in [
            (json!({ "rw": "write" }), &both, "do not match its mode"),
            (json!({ "rw": "write", "verify": "0" }), &both, "do not match its mode"),
            (json!({ "rw": "read", "verify": "md5" }), &both, "do not match its mode"),
            (json!({ "rw": "randrw", "verify": "md5" }), &both, verifies),
            (json!({ "rw": "randrw", "verify": "md5" }), &sum, verifies),
            (json!({ "rw": "write", "verify": "md5" }), &sum, verifies),
            (json!({ "rw": "randtrim" }), &sum, "is not supported: \"randtrim\""),
            (json!({ "bs": "4k" }), &only_reads, "did not print the mode"),
            (json!({ "rw": "read" }), &json!({}), "transferred no data"),
        ] {
            let figure = job_figure_of(&options, results);
            assert_eq!(figure.value, None, "{options}");
            assert!(figure.validity.reasons[0].contains(reason), "{options}: {figure:?}");
        }
    }

    #[test]
    fn output_of_other_programs_is_not_recognised() {
        let stream = "STREAM version $Revision: 5.10 $";
        assert!(!FioOutput::recognises(stream) && !IozoneOutput::recognises(stream));
        assert!(FioOutput::read("{\"fio version\": 3}").is_err());
        assert_eq!(
            ["4k", "1M", "512", "2GiB", "1x"].map(size),
            [Some(4096), Some(1 << 20), Some(512), Some(2 << 30), None]
        );
    }
}
