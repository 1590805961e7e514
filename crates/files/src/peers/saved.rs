//! What the original programs saved, as measurements: figures of another program, with what their
//! output says of how they came about.

use super::fio::{FioJob, FioOutput};
use super::output::{IozoneOutput, IozoneThroughput};
use nodegauge_measure::record::{Category, Measurement, Status, Validity};
use nodegauge_measure::stats::{Better, Summary};
use serde_json::{Map, Value, json};

/// A saved output, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// `iozone` or `fio`.
    pub program: &'static str,
    /// Its figures.
    pub measurements: Vec<Measurement>,
}

/// Reads the saved output of IOzone or fio; `None` when the text is of neither.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Option<Result<Imported, String>> {
    if FioOutput::recognises(text) {
        let read = FioOutput::read(text).map_err(|error| error.to_string());
        return Some(read.map(|output| Imported { program: "fio", measurements: of_fio(&output) }));
    }
    IozoneOutput::recognises(text).then(|| {
        let read = IozoneOutput::read(text).map_err(|error| error.to_string());
        read.map(|output| Imported { program: "iozone", measurements: of_iozone(&output) })
    })
}

/// A measurement of another program.
fn reference(
    name: &str,
    value: Option<f64>,
    config: Map<String, Value>,
    validity: Validity,
) -> Measurement {
    let samples: Vec<f64> = value.into_iter().collect();
    Measurement {
        gauge: "files".into(),
        test: "io".into(),
        name: name.into(),
        unit: nodegauge_measure::Unit::BytesPerSecond,
        value,
        summary: Summary::of(&samples, Better::Higher),
        samples,
        disturbed: Vec::new(),
        regimes: Vec::new(),
        config,
        quoted: nodegauge_measure::record::Quoted::Single,
        traffic: None,
        category: Category::Reference,
        limit: None,
        validity,
    }
}

fn of_iozone(output: &IozoneOutput) -> Vec<Measurement> {
    let mut validity = Validity::valid();
    if !output.complete {
        validity.add(Status::Suspect, "the output does not end with \"iozone test complete.\"");
    }
    if output.poor_resolution {
        validity.add(
            Status::Suspect,
            "iozone says itself that its clock is too coarse for the smallest files",
        );
    }
    let words: Vec<&str> =
        output.command.as_deref().unwrap_or_default().split_whitespace().collect();
    let has = |option: &str| words.contains(&option);
    let mut common = Map::from_iter([
        ("engine".to_owned(), json!("iozone")),
        ("version".to_owned(), json!(output.version)),
        ("command".to_owned(), json!(output.command)),
    ]);
    // Without its command nothing is known of these.
    if output.command.is_some() {
        common.insert("direct".into(), json!(has("-I")));
        common.insert("cache".into(), json!(if has("-I") { "direct" } else { "cached" }));
        common.insert("include_close".into(), json!(has("-c")));
        common.insert("include_fsync".into(), json!(has("-e")));
    }
    let mut out = Vec::new();
    for line in &output.lines {
        for (name, rate) in &line.rates {
            let mut config = common.clone();
            config.insert("file_bytes".into(), json!(line.file));
            config.insert("block_bytes".into(), json!(line.block));
            out.push(reference(name, Some(*rate), config, validity.clone()));
        }
    }
    for test in &output.throughput {
        let config = throughput_config(test, output, common.clone(), has("-T"));
        out.push(reference(test.name, Some(test.children), config, validity.clone()));
    }
    if out.is_empty() {
        // A size that cannot be: IOzone prints zeros and ends well.
        validity.add(Status::Invalid, "iozone measured nothing: all its figures are zero");
        out.push(reference("write", None, common, validity));
    }
    out
}

fn throughput_config(
    test: &IozoneThroughput,
    output: &IozoneOutput,
    mut config: Map<String, Value>,
    threads: bool,
) -> Map<String, Value> {
    config.insert("file_bytes".into(), json!(output.sizes.0));
    config.insert("block_bytes".into(), json!(output.sizes.1));
    config.insert(if threads { "threads" } else { "processes" }.into(), json!(test.workers));
    config.insert("parent_rate".into(), json!(test.parent));
    config.insert("worker_rate_min".into(), json!(test.least));
    config.insert("worker_rate_max".into(), json!(test.most));
    config.insert("worker_bytes_min".into(), json!(test.least_bytes));
    config
}

fn of_fio(output: &FioOutput) -> Vec<Measurement> {
    output.jobs.iter().flat_map(|job| of_job(job, &output.version)).collect()
}

/// A job's directions; both of a mixed job are one operation.
fn of_job(job: &FioJob, version: &str) -> Vec<Measurement> {
    let option = |name: &str| job.options.get(name).map(String::as_str);
    let mode = option("rw").or_else(|| option("readwrite")).unwrap_or("read");
    let mode = mode.split(':').next().unwrap_or(mode);
    let name = match mode {
        "write" => "write",
        "randread" => "random_read",
        "randwrite" => "random_write",
        "randrw" => "random_mix",
        "rw" | "readwrite" => "mix",
        _ => "read",
    };
    let direct = option("direct") == Some("1");
    let mut config = Map::from_iter([
        ("engine".to_owned(), json!("fio")),
        ("version".to_owned(), json!(version)),
        ("job".to_owned(), json!(job.name)),
        ("options".to_owned(), json!(job.options)),
        ("ioengine".to_owned(), json!(option("ioengine"))),
        (
            "depth".to_owned(),
            json!(option("iodepth").and_then(|n| n.parse::<u32>().ok()).unwrap_or(1)),
        ),
        ("direct".to_owned(), json!(direct)),
        ("cache".to_owned(), json!(if direct { "direct" } else { "cached" })),
        // What fio takes when nothing is said.
        (
            "block_bytes".to_owned(),
            json!(option("bs").or_else(|| option("blocksize")).map_or(Some(4096), size)),
        ),
        ("file_bytes".to_owned(), json!(option("size").and_then(size))),
    ]);
    let mut validity = Validity::valid();
    if job.error != 0 {
        let cause = std::io::Error::from_raw_os_error(job.error as i32);
        validity.add(Status::Invalid, format!("the job failed: {cause}"));
        return vec![reference(name, None, config, validity)];
    }
    let halves: Vec<_> = [&job.read, &job.write].into_iter().flatten().collect();
    let Some(first) = halves.first() else {
        validity.add(Status::Invalid, "the job moved nothing");
        return vec![reference(name, None, config, validity)];
    };
    let rate = halves.iter().map(|half| half.rate).sum();
    config.insert("iops".into(), json!(halves.iter().map(|half| half.iops).sum::<f64>()));
    config
        .insert("operations".into(), json!(halves.iter().map(|half| half.operations).sum::<u64>()));
    if let [read, write] = halves[..] {
        let share = read.operations as f64 / (read.operations + write.operations) as f64;
        config.insert("read_percent".into(), json!((share * 100.0).round()));
        config.insert("latency_s".into(), json!({"read": read.latency, "write": write.latency}));
    } else {
        config.insert("latency_s".into(), first.latency.clone());
    }
    vec![reference(name, Some(rate), config, validity)]
}

/// A size as fio takes it: units of 1024 whatever their letter's case.
fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let shift = match text[digits.len()..].trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> Imported {
        let path = format!("{}/tests/outputs/{name}", env!("CARGO_MANIFEST_DIR"));
        read(&std::fs::read_to_string(path).unwrap()).unwrap().unwrap()
    }

    #[test]
    fn a_grid_of_iozone_is_a_measurement_a_figure() {
        let imported = recorded("iozone-a.txt");
        assert_eq!(imported.program, "iozone");
        assert!(imported.measurements.len().is_multiple_of(13));
        let first = &imported.measurements[0];
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
        assert_eq!(threads.measurements[0].config["processes"], json!(2));
        let nothing = recorded("iozone-bad-r.txt");
        assert_eq!(nothing.measurements.len(), 1);
        assert_eq!(nothing.measurements[0].validity.status, Status::Invalid);
    }

    #[test]
    fn jobs_of_fio_are_operations() {
        let one = &recorded("fio-seqread.json").measurements[0];
        assert_eq!((one.name.as_str(), one.value), ("read", Some(1_104_672_658.0)));
        assert_eq!(
            (&one.config["file_bytes"], &one.config["block_bytes"]),
            (&json!(256 << 20), &json!(1 << 20))
        );
        let mixed = &recorded("fio-randrw.json").measurements[0];
        assert_eq!((mixed.name.as_str(), &mixed.config["depth"]), ("random_mix", &json!(4)));
        let failed = &recorded("fio-error.txt").measurements[0];
        assert_eq!((failed.value, failed.validity.status), (None, Status::Invalid));
        assert!(failed.validity.reasons[0].contains("No such file"));
    }

    #[test]
    fn other_texts_are_left_to_others() {
        assert_eq!(read("STREAM version $Revision: 5.10 $"), None);
        assert!(read("{\"fio version\": 3}").unwrap().is_err());
        assert_eq!(
            ["4k", "1M", "512", "2GiB", "1x"].map(size),
            [Some(4096), Some(1 << 20), Some(512), Some(2 << 30), None]
        );
    }
}
