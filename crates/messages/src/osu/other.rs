//! Output of OSU micro-benchmarks without an equivalent pattern: one-sided and non-blocking operations, start-up, other
//! interfaces. Their figures are named after the words of the title.

use super::columns::{OsuColumn, OsuColumns, is_header};
use super::output::{self, shorten};
use super::title::OsuTitle;
use crate::config::MessageConfig;
use crate::{GAUGE, TEST};
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::{Bytes, Unit, printed};

/// Column of a table, with the name and the unit of its figure.
struct OtherColumn {
    at: usize,
    /// Suffix that is appended to the name of the test.
    suffix: &'static str,
    unit: Unit,
    factor: f64,
}

/// Returns the figures from the output of one run.
///
/// Fails if the text has no title of a test, or no readable table. The error continues a sentence.
pub(super) fn figures(text: &str) -> Result<Vec<Measurement>, String> {
    let lines: Vec<&str> = printed::whole_lines(text).lines().map(str::trim).collect();
    let title = lines.iter().find_map(|line| OsuTitle::parse(line)).ok_or(output::NO_TITLE)?;
    let config = MessageConfig {
        engine: Some("osu".to_owned()),
        engine_version: title.version.clone(),
        buffers: output::buffer_location(title.devices.clone(), &lines),
        pairs: output::number_after(text, "pairs:"),
        ..MessageConfig::default()
    };
    if title.test == "Init" {
        return start_up(&lines, config);
    }
    let mut headers = lines.iter().filter(|line| is_header(line));
    let header = headers.next().ok_or("its table has no header, or was not printed")?;
    if headers.next().is_some() {
        return Err("it has several tables".to_owned());
    }
    let columns = OsuColumns::from_header(header)?;
    let name = title.name();
    let mut all = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for line in lines.iter().filter(|line| output::is_row(line)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(of_row) = row(&words, &columns, header, &name, &config) else {
            if !output::has_cells_only(line) && !all.is_empty() {
                continue;
            }
            return Err(format!("its table has a line that cannot be read: {:?}", shorten(line)));
        };
        let bytes = bytes(&words, &columns).unwrap_or(0);
        if let Some(last) = sizes.last().filter(|last| **last >= bytes) {
            return Err(format!(
                "its table has {bytes} B after {last} B, so it is not a single \
                 table"
            ));
        }
        sizes.push(bytes);
        all.extend(of_row);
    }
    let missing = output::missing_size(&sizes).map(|size| {
        format!("the table has no line for {}: {}", Bytes(size), printed::TRUNCATION_REASON)
    });
    let unended = printed::unterminated_line(text).filter(|line| output::is_row(line.trim()));
    let cut =
        unended.map(|_| format!("the last line has no line end: {}", printed::TRUNCATION_REASON));
    for reason in missing.into_iter().chain(cut) {
        for measurement in &mut all {
            measurement.validity.add(Status::Suspect, reason.clone());
        }
    }
    Ok(all)
}

/// Returns the size of the messages of a row; `None` if the table has no column of sizes, or an invalid one.
fn bytes(words: &[&str], columns: &OsuColumns) -> Option<u64> {
    words.get(columns.position(OsuColumn::Size)?)?.parse().ok()
}

/// Returns the figures of a row; `None` if it cannot be parsed.
fn row(
    words: &[&str],
    columns: &OsuColumns,
    header: &str,
    name: &str,
    config: &MessageConfig,
) -> Option<Vec<Measurement>> {
    if words.len() != columns.0.len() {
        return None;
    }
    let has_sizes = columns.position(OsuColumn::Size).is_some();
    let bytes = bytes(words, columns);
    if has_sizes && bytes.is_none() {
        return None;
    }
    let validation = columns.position(OsuColumn::Validation).and_then(|at| words.get(at)).copied();
    let validated = output::parse_validation(validation)?;
    let at = |column: OsuColumn| columns.position(column);
    let is_rate = header.contains("MB/s");
    let (unit, factor) = if is_rate { (Unit::BytesPerSecond, 1e6) } else { (Unit::Seconds, 1e-6) };
    let known = [
        at(OsuColumn::Value).map(|at| OtherColumn { at, suffix: "", unit, factor }),
        at(OsuColumn::Messages).map(|at| OtherColumn {
            at,
            suffix: "",
            unit: Unit::MessagesPerSecond,
            factor: 1.0,
        }),
        at(OsuColumn::Overall).map(|at| OtherColumn {
            at,
            suffix: "_overall",
            unit: Unit::Seconds,
            factor: 1e-6,
        }),
        at(OsuColumn::Overlap).map(|at| OtherColumn {
            at,
            suffix: "_overlap",
            unit: Unit::Factor,
            factor: 1e-2,
        }),
    ];
    let mut all = Vec::new();
    for one in known.into_iter().flatten() {
        let OtherColumn { at: column, suffix, .. } = one;
        let printed = output::number_in(words, column)?;
        let mut of_row = MessageConfig {
            message_bytes: has_sizes.then_some(bytes.unwrap_or(0)),
            validated,
            ..config.clone()
        };
        if suffix.is_empty() && one.unit != Unit::MessagesPerSecond {
            let number = |kind: OsuColumn| Some(output::number_in(words, at(kind)?)? * one.factor);
            of_row.fastest_rank = number(OsuColumn::Min);
            of_row.slowest_rank = number(OsuColumn::Max);
            of_row.p50 = number(OsuColumn::Percentile(50));
            of_row.p90 = number(OsuColumn::Percentile(90));
            of_row.p99 = number(OsuColumn::Percentile(99));
        }
        // A missing overlap is a valid result without a figure.
        if suffix == "_overlap" && printed == 0.0 {
            continue;
        }
        let mut validity = Validity::valid();
        if validated == Some(false) {
            validity.mark_invalid("the program reports that the data arrived corrupted");
        }
        all.push(figure(
            format!("{name}{suffix}"),
            one.unit,
            printed * one.factor,
            &of_row,
            validity,
        ));
    }
    (!all.is_empty()).then_some(all)
}

fn figure(
    name: String,
    unit: Unit,
    value: f64,
    config: &MessageConfig,
    mut validity: Validity,
) -> Measurement {
    if !printed::can_be_figure(value) {
        validity.mark_invalid("the program printed no positive value");
    }
    Measurement::new(GAUGE, TEST, name, unit)
        .with_category(Category::Reference)
        .with_value(QuotedStatistic::Mean, value)
        .with_config(config)
        .with_validity(validity)
}

/// Returns the figures of `osu_init`: `nprocs: 2, min: 23 ms, max: 24 ms, avg: 23 ms`.
fn start_up(lines: &[&str], config: MessageConfig) -> Result<Vec<Measurement>, String> {
    let mut found = lines.iter().filter_map(|line| line.strip_prefix("nprocs:"));
    let line = found.next().ok_or("it has no line with its times")?;
    if found.next().is_some() {
        return Err("it has several lines with times".to_owned());
    }
    let unread = || format!("the times of its line cannot be read: {:?}", shorten(line));
    let mut parts = line.split(',').map(str::trim);
    let processes: u64 = parts.next().and_then(|word| word.parse().ok()).ok_or_else(unread)?;
    let mut times = [0.0; 3];
    for (time, label) in times.iter_mut().zip(["min:", "max:", "avg:"]) {
        let words = parts.next().and_then(|part| part.strip_prefix(label)).ok_or_else(unread)?;
        let words = words.trim().strip_suffix("ms").ok_or("its times have no unit")?;
        *time = words.trim().parse::<f64>().ok().filter(|x| *x >= 0.0).ok_or_else(unread)? * 1e-3;
    }
    let [min, max, mean] = times;
    if !(min <= mean && mean <= max) {
        return Err("its mean time is not between the minimum and the maximum".to_owned());
    }
    let config = MessageConfig {
        processes: Some(processes),
        fastest_rank: Some(min),
        slowest_rank: Some(max),
        ..config
    };
    Ok(vec![figure("init".to_owned(), Unit::Seconds, mean, &config, Validity::valid())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_blocking_and_one_sided_tables_are_read() {
        let text = "# OSU MPI Non-Blocking Alltoall Latency Test v7.4\n# Overall = Init + Compute\n\n\
                    # Size  Overall(us)  Compute(us)  Pure Comm.(us)  Overlap(%)\n\
                    1   10.50   5.20   5.00   80.00\n2   11.50   5.20   5.10   0.00\n";
        let all = figures(text).unwrap();
        let names: Vec<&str> = all.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "ialltoall",
                "ialltoall_overall",
                "ialltoall_overlap",
                "ialltoall",
                "ialltoall_overall"
            ]
        );
        let near = |m: &Measurement, value: f64| (m.value.unwrap() / value - 1.0).abs() < 1e-9;
        assert!(near(&all[0], 5e-6) && near(&all[2], 0.8), "{all:?}");
        let put = "# OSU MPI_Put Bandwidth Test v7.4\n# Window creation: MPI_Win_allocate\n\
                   # Synchronization: MPI_Win_flush\n# Size      Bandwidth (MB/s)\n1   2.00\n2 4.00\n";
        let put = figures(put).unwrap();
        assert_eq!((put[0].name.as_str(), put[0].value), ("put_bandwidth", Some(2e6)));
    }

    #[test]
    fn start_up_time_without_unit_is_refused() {
        let text = |line: &str| format!("# OSU MPI Init Test v7.4\n{line}\n");
        let all = figures(&text("nprocs: 2, min: 20 ms, max: 24 ms, avg: 22 ms")).unwrap();
        assert_eq!((all[0].name.as_str(), all[0].value), ("init", Some(0.022)));
        assert!(figures(&text("nprocs: 2, min: 20, max: 24, avg: 22")).is_err());
        assert!(figures(&text("nprocs: 2, min: 20 ms, max: 24 ms, avg: 32 ms")).is_err());
    }
}
