//! Parser for the output of the OSU micro-benchmarks, versions 5 to 7.
//!
//! The title contains the test and the version, and the header contains the column names. One line per size follows.
//! Version 7 adds a line with the data type (before or after the header) and omits 0 B. `osu_mbw_mr` 7.2 prints its
//! title twice. Some options add columns: `-f` adds the minimum and maximum time and the iterations to collectives,
//! `-c` adds the result of the data check, `-D` adds a second size, and `-z` adds percentiles.

use super::columns::{OsuColumn, OsuColumns, is_header};
use super::title::OsuTitle;
pub(super) use super::title::{mark, title_version};
use crate::config::MessageConfig;
use crate::figures::result::{self, MessageFigure};
use crate::options::Timing;
use crate::pattern::Pattern;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::{Bytes, Unit, printed};

/// Row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct OsuRow {
    /// Bytes of a message; 0 for a barrier.
    pub bytes: u64,
    /// Time in seconds, or rate in bytes per second.
    pub value: f64,
    /// Messages per second; printed only by `osu_mbw_mr`.
    pub message_rate: Option<f64>,
    /// Minimum and maximum time over the ranks, seconds; printed only for collectives with `-f`.
    pub spread: Option<(f64, f64)>,
    /// Result of the data check; printed only with `-c`.
    pub validated: Option<bool>,
    /// Percentiles: percent and value; printed only with `-z`.
    pub percentiles: Vec<(u8, f64)>,
}

/// Parsed output of one OSU program.
#[derive(Debug, Clone, PartialEq)]
pub struct OsuOutput {
    /// Pattern of the test.
    pub pattern: Pattern,
    /// Version of the benchmarks.
    pub version: Option<String>,
    /// Location of the buffers if they may be in device memory: `cuda, device to device`.
    pub buffers: Option<String>,
    /// Number of concurrent pairs, if printed.
    pub pairs: Option<u32>,
    /// Number of messages in flight, if printed.
    pub window: Option<u32>,
    /// Numbers of sender threads and receiver threads of `osu_latency_mt`, if printed.
    pub threads: Option<(u32, u32)>,
    /// Rows of the table.
    pub rows: Vec<OsuRow>,
    /// True if a last line without a line end was ignored, because a number in it may be truncated.
    pub is_truncated: bool,
}

/// True if a line is a row of a table.
pub(super) fn is_row(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit())
}

/// True if a line consists only of table cells, so that it must be a row even if it cannot be parsed.
pub(super) fn has_cells_only(line: &str) -> bool {
    line.split_whitespace().all(|word| {
        let is_number = word.bytes().all(|byte| b"0123456789.,+-eE".contains(&byte));
        is_number || ["nan", "inf", "-nan", "-inf", "Pass", "Fail"].contains(&word)
    })
}

/// Returns the number after a label.
pub(super) fn number_after<N: std::str::FromStr>(text: &str, label: &str) -> Option<N> {
    let rest = text.split_once(label)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the number in a column of a row.
pub(super) fn number_in(words: &[&str], column: usize) -> Option<f64> {
    words.get(column)?.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0)
}

impl OsuOutput {
    /// Parses the output of one run. A last line without a line end is read only if it is certainly complete.
    ///
    /// Fails if the text is not the output of a known test. The error text continues a sentence about the output.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = printed::whole_lines(text).lines().map(str::trim).collect();
        let title = lines.iter().find_map(|line| OsuTitle::parse(line)).ok_or(NO_TITLE)?;
        let pattern = title
            .pattern()
            .ok_or_else(|| format!("its test {:?} is unknown", shorten(&title.test)))?;
        let mut headers = lines.iter().filter(|line| is_header(line));
        let columns = match headers.next() {
            Some(header) => OsuColumns::from_header(header)?,
            None => OsuColumns::default(),
        };
        if headers.next().is_some() {
            return Err("it has several tables".to_owned());
        }
        if let Some(row) = lines.iter().find(|line| columns.0.is_empty() && is_table_row(line)) {
            return Err(format!("its table has no header: {:?}", shorten(row)));
        }
        let mut rows: Vec<OsuRow> = Vec::new();
        let mut last_row = "";
        for line in lines.iter().copied().filter(|line| is_row(line)) {
            let Some(row) = OsuRow::parse(line, &columns, pattern) else {
                if !has_cells_only(line) && !rows.is_empty() {
                    // A line of another program after the table.
                    continue;
                }
                return Err(format!(
                    "its table has a line that cannot be read: {:?}",
                    shorten(line)
                ));
            };
            if let Some(last) = rows.last().filter(|last| last.bytes >= row.bytes) {
                return Err(format!(
                    "its table has {} B after {} B, so it is not a single table",
                    row.bytes, last.bytes
                ));
            }
            rows.push(row);
            last_row = line;
        }
        let unended = printed::unterminated_line(text).map(str::trim);
        let mut is_truncated = unended.is_some();
        let whole = unended.filter(|line| is_row(line) && decimals(line) == decimals(last_row));
        let whole = whole.and_then(|line| OsuRow::parse(line, &columns, pattern));
        if let Some(row) = whole
            && rows.last().is_some_and(|last| last.bytes < row.bytes)
        {
            rows.push(row);
            is_truncated = false;
        }
        if rows.is_empty() {
            return Err("its table is empty".to_owned());
        }
        Ok(Self {
            pattern,
            version: title.version,
            buffers: buffer_location(title.devices, &lines),
            pairs: number_after(text, "pairs:"),
            window: number_after(text, "window size:"),
            threads: number_after(text, "Sender threads:")
                .zip(number_after(text, "Receiver threads:")),
            rows,
            is_truncated,
        })
    }

    /// Returns the interval between readings of the clock in this version.
    pub fn timing(&self) -> Timing {
        let major = self.version.as_deref().and_then(|version| version.split('.').next());
        match major.and_then(|major| major.parse().ok()) {
            // Version 7 times each iteration separately.
            Some(7u32..) => Timing::Each,
            _ => Timing::Batch,
        }
    }

    /// Returns the reason why the table may be incomplete; `None` if it is complete. OSU's programs print no final
    /// line, so only the size in the last row shows whether rows are missing.
    fn incomplete_reason(&self) -> Option<String> {
        if self.is_truncated {
            return Some(format!("the last line has no line end: {}", printed::TRUNCATION_REASON));
        }
        let sizes: Vec<u64> = self.rows.iter().map(|row| row.bytes).collect();
        if let Some(missing) = missing_size(&sizes) {
            return Some(format!(
                "the table has no line for {}: {}",
                Bytes(missing),
                printed::TRUNCATION_REASON
            ));
        }
        let last = self.rows.last()?.bytes;
        let usual = self.pattern.usual_sizes().last().copied().unwrap_or_default();
        (last < usual).then(|| {
            format!(
                "the table ends at {} instead of {}: {}, or a smaller size or memory limit was requested",
                Bytes(last),
                Bytes(usual),
                printed::TRUNCATION_REASON
            )
        })
    }
}

impl OsuRow {
    /// Parses a row of the table; `None` if it is invalid or does not have one word per column.
    fn parse(line: &str, columns: &OsuColumns, pattern: Pattern) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != columns.0.len() {
            return None;
        }
        let at = |column: OsuColumn| columns.position(column);
        let bytes = match (pattern.is_sizeless(), at(OsuColumn::Size)) {
            (true, None) => 0,
            (false, Some(at)) => words.get(at)?.parse().ok()?,
            _ => return None,
        };
        let unit = if pattern.is_rate() { 1e6 } else { 1e-6 };
        let message_rate = match at(OsuColumn::Messages) {
            Some(at) if pattern.properties().counts_messages => Some(number_in(&words, at)?),
            _ => None,
        };
        let spread = match (at(OsuColumn::Min), at(OsuColumn::Max)) {
            (Some(min), Some(max)) => {
                Some((number_in(&words, min)? * unit, number_in(&words, max)? * unit))
            }
            _ => None,
        };
        let mut percentiles = Vec::new();
        for (percent, column) in columns.percentiles() {
            percentiles.push((percent, number_in(&words, column)? * unit));
        }
        let validated =
            parse_validation(at(OsuColumn::Validation).and_then(|at| words.get(at)).copied())?;
        let value = number_in(&words, at(OsuColumn::Value)?)? * unit;
        let row = Self { bytes, value, message_rate, spread, validated, percentiles };
        value.is_finite().then_some(row)
    }
}

/// Parses the result of the data check in a cell. The outer `None` means that the word is unknown; the inner `None`
/// means that the table has no such cell.
pub(super) fn parse_validation(cell: Option<&str>) -> Option<Option<bool>> {
    match cell {
        Some("Pass") => Some(Some(true)),
        Some("Fail") => Some(Some(false)),
        Some(_) => None,
        None => Some(None),
    }
}

/// Returns the location of the buffers from the title and from the line `# Send Buffer on DEVICE (D) and Receive Buffer
/// on HOST (H)`.
pub(super) fn buffer_location(devices: Option<String>, lines: &[&str]) -> Option<String> {
    let devices = devices?;
    let line = lines.iter().find_map(|line| line.strip_prefix("# Send Buffer on "));
    let places = line.and_then(|line| {
        let (send, rest) = line.split_once(" (")?;
        let (_, receive) = rest.split_once("Receive Buffer on ")?;
        let receive = receive.split(" (").next()?;
        Some(format!(", {} to {}", send.to_lowercase(), receive.to_lowercase()))
    });
    Some(devices + &places.unwrap_or_default())
}

/// Returns the first missing size in a table whose sizes grow by a constant factor; `None` if none is missing.
pub(super) fn missing_size(sizes: &[u64]) -> Option<u64> {
    let known: Vec<u64> = sizes.iter().copied().filter(|size| *size > 0).collect();
    let factors: Vec<f64> = known.windows(2).map(|two| two[1] as f64 / two[0] as f64).collect();
    let usual = factors.iter().copied().min_by(f64::total_cmp)?;
    let gap = factors.iter().position(|factor| (factor / usual - 1.0).abs() > 1e-6)?;
    Some((known[gap] as f64 * usual).round() as u64)
}

/// Reason why a text without a title is refused.
pub(super) const NO_TITLE: &str = "it has no title such as \"# OSU MPI Latency Test v7.2\"";

/// True if a line is a row of a table of figures.
fn is_table_row(line: &str) -> bool {
    is_row(line) && has_cells_only(line) && line.split_whitespace().count() > 1
}

/// Returns the number of digits after the decimal point of each word. OSU's programs print all figures of a table with
/// the same number of digits.
fn decimals(line: &str) -> Vec<Option<usize>> {
    let words = line.split_whitespace();
    words.map(|word| word.split_once('.').map(|(_, digits)| digits.len())).collect()
}

/// Returns the measurements of a saved output of an OSU program, with the configuration that the output contains. They
/// are suspect if the table may be incomplete.
pub fn saved_output_figures(output: &OsuOutput) -> Vec<Measurement> {
    let incomplete = output.incomplete_reason();
    let mut measurements: Vec<Measurement> = Vec::new();
    for row in &output.rows {
        measurements.push(figure(output, row, output.pattern.unit(), &[row.value]).into());
        if let Some(value) = row.message_rate {
            measurements.push(figure(output, row, Unit::MessagesPerSecond, &[value]).into());
        }
    }
    if let Some(reason) = incomplete {
        for measurement in &mut measurements {
            measurement.validity.add(Status::Suspect, reason.clone());
        }
    }
    measurements
}

/// Returns the measurement for one size: the median of the values of several runs.
pub(crate) fn figure(output: &OsuOutput, row: &OsuRow, unit: Unit, runs: &[f64]) -> MessageFigure {
    // The percentiles are those of the time or of the data rate.
    let percentiles = if unit == output.pattern.unit() { row.percentiles.as_slice() } else { &[] };
    let percentile = |percent: u8| {
        percentiles.iter().find(|(known, _)| *known == percent).map(|(_, value)| *value)
    };
    let config = MessageConfig {
        engine: Some("osu".to_owned()),
        engine_version: output.version.clone(),
        message_bytes: Some(row.bytes),
        pairs: output.pairs.map(u64::from),
        window: output.window.filter(|_| output.pattern.is_rate()).map(u64::from),
        threads: output.threads.map(|(senders, receivers)| vec![senders.into(), receivers.into()]),
        buffers: output.buffers.clone(),
        p50: percentile(50),
        p90: percentile(90),
        p99: percentile(99),
        validated: row.validated,
        fastest_rank: row.spread.map(|(min, _)| min),
        slowest_rank: row.spread.map(|(_, greatest)| greatest),
        ..MessageConfig::default()
    };
    let mut validity = Validity::valid();
    if row.validated == Some(false) {
        validity.add(Status::Invalid, "the program reports that the data arrived corrupted");
    }
    if !runs.iter().copied().all(printed::can_be_figure) {
        validity.add(Status::Invalid, "the program printed a value that is not positive");
    }
    // The program prints the mean of one run.
    let quoted = if runs.len() == 1 { QuotedStatistic::Mean } else { QuotedStatistic::Median };
    let measurement = result::blank_measurement(output.pattern, unit)
        .with_samples(quoted, runs.to_vec())
        .with_category(Category::Reference)
        .with_config(&config)
        .with_validity(validity);
    MessageFigure { measurement, config }
}

/// Shortens a text to one line.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Timing;
    use proptest::prelude::*;

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/outputs/", $name, ".txt"))
        };
    }

    fn near(x: f64, y: f64) -> bool {
        (x / y - 1.0).abs() < 1e-9
    }

    #[test]
    fn osu_5_is_recognised_and_times_the_whole_loop() {
        let output = OsuOutput::read(recorded!("osu57-ompi-osu_latency")).unwrap();
        assert_eq!((output.pattern, output.version.as_deref()), (Pattern::Latency, Some("5.7")));
        assert_eq!((output.rows.len(), output.rows[0].bytes), (24, 0));
        assert!(near(output.rows[0].value, 0.12e-6) && near(output.rows[23].value, 365.95e-6));
        assert_eq!(output.timing(), Timing::Batch);
    }

    #[test]
    fn osu_7_begins_at_1_byte_and_times_each_message() {
        for text in [recorded!("osu72-mpich-osu_latency"), recorded!("osu72-ompi-osu_multi_lat")] {
            let output = OsuOutput::read(text).unwrap();
            assert_eq!((output.rows.len(), output.rows[0].bytes), (23, 1));
            assert_eq!(output.timing(), Timing::Each);
        }
    }

    #[test]
    fn osu_megabytes_are_decimal() {
        let bw = OsuOutput::read(recorded!("osu72-ompi-osu_bw")).unwrap();
        assert!(near(bw.rows[11].value, 7967.90e6));
        let bibw = OsuOutput::read(recorded!("osu72-ompi-osu_bibw")).unwrap();
        assert_eq!(bibw.pattern, Pattern::Bibw);
        for text in [recorded!("osu57-ompi-osu_mbw_mr"), recorded!("osu72-ompi-osu_mbw_mr")] {
            let output = OsuOutput::read(text).unwrap();
            assert_eq!(
                (output.pattern, output.pairs, output.window),
                (Pattern::MbwMr, Some(1), Some(64))
            );
            assert!(output.rows.iter().all(|row| row.message_rate.is_some()));
        }
    }

    #[test]
    fn thread_counts_and_spreads_are_read() {
        let output = OsuOutput::read(recorded!("osu72-ompi-osu_latency_mt")).unwrap();
        assert_eq!((output.pattern, output.threads), (Pattern::LatencyMt, Some((1, 2))));
        let allreduce = OsuOutput::read(recorded!("osu72-ompi-osu_allreduce-f")).unwrap();
        assert_eq!(allreduce.pattern, Pattern::Allreduce);
        let spread = allreduce.rows[1].spread.unwrap();
        assert!(near(spread.0, 0.41e-6) && near(spread.1, 0.42e-6));
    }

    #[test]
    fn validation_column_is_read() {
        let text = "# OSU MPI Latency Test v7.4\n# Size          Latency (us)        Validation\n\
                    1                       0.20              Pass\n2   0.20   Fail\n";
        let output = OsuOutput::read(text).unwrap();
        let verdicts: Vec<_> = output.rows.iter().map(|row| row.validated).collect();
        assert_eq!(verdicts, [Some(true), Some(false)]);
        let measurements = saved_output_figures(&output);
        assert_eq!(measurements[1].validity.status, Status::Invalid);
        assert_eq!(measurements[1].value, None);
        let barrier_text =
            "\n# OSU MPI Barrier Latency Test v5.7\n# Avg Latency(us)\n             0.33\n";
        let barrier = OsuOutput::read(barrier_text).unwrap();
        assert_eq!((barrier.rows[0].bytes, barrier.pattern), (0, Pattern::Barrier));
        assert!(near(barrier.rows[0].value, 0.33e-6));
    }

    #[test]
    fn foreign_output_is_refused_with_a_reason() {
        let whole = recorded!("osu72-ompi-osu_bw");
        let title = "it has no title such as \"# OSU MPI Latency Test v7.2\"";
        let cases = [
            (String::new(), title),
            ("STREAM version".to_owned(), title),
            ("# OSU MPI_Put Latency Test v7.2\n".to_owned(), "its test \"Put Latency\" is unknown"),
            (whole.lines().take(3).collect::<Vec<_>>().join("\n"), "its table is empty"),
            (
                whole.replace("2048                 7967.90", "2048"),
                "its table has a line that cannot be read: \"2048\"",
            ),
            (
                recorded!("osu72-ompi-osu_mbw_mr").replace("3623.30", "       "),
                "its table has a line that cannot be read: \"512                                 7076749.56\"",
            ),
            (
                format!("{whole}1                      16.77\n"),
                "its table has 1 B after 4194304 B, so it is not a single table",
            ),
            (
                whole.replace("7967.90", "nan"),
                "its table has a line that cannot be read: \"2048                 nan\"",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(OsuOutput::read(&text), Err(error.to_owned()));
        }
    }

    #[test]
    fn truncated_osu_table_is_suspect() {
        let whole = recorded!("osu72-ompi-osu_bw");
        let of = |text: &str| saved_output_figures(&OsuOutput::read(text).unwrap());
        assert!(of(whole).iter().all(|m| m.validity.status == Status::Valid));
        // A complete last line without a line end, as in a pasted table.
        assert_eq!(of(whole.trim_end()), of(whole));
        for (cut, rows, reason) in [
            (&whole[..whole.len() - 2], 22, "the last line has no line end: the output may be cut"),
            (&whole[..whole.len() - 7], 22, "the last line has no line end: the output may be cut"),
            (
                &whole[..whole.find("2  ").unwrap()],
                1,
                "the table ends at 1 B instead of 4 MiB: the output may be cut, or a smaller size or \
                 memory limit was requested",
            ),
        ] {
            let all = of(cut);
            assert_eq!(all.len(), rows, "{cut}");
            assert_eq!(all[0].validity.status, Status::Suspect);
            assert_eq!(all[0].validity.reasons, [reason]);
        }
    }

    #[test]
    fn zero_makes_a_figure_invalid() {
        let text = recorded!("osu72-ompi-osu_bw").replace("7967.90", "   0.00");
        let all = saved_output_figures(&OsuOutput::read(&text).unwrap());
        assert_eq!((all[11].value, all[11].validity.status), (None, Status::Invalid));
        assert_eq!(all[12].validity.status, Status::Valid);
        let huge = recorded!("osu72-ompi-osu_bw").replace("7967.90", "1e308");
        assert!(OsuOutput::read(&huge).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn missing_row_makes_a_table_suspect() {
        let whole = recorded!("osu72-ompi-osu_bw");
        let of = |text: &str| saved_output_figures(&OsuOutput::read(text).unwrap());
        let line = whole.lines().find(|line| line.starts_with("2048 ")).unwrap();
        let without = of(&whole.replace(&format!("{line}\n"), ""));
        assert!(without.iter().all(|m| m.validity.status == Status::Suspect));
        let reason = "the table has no line for 2 KiB: the output may be cut";
        assert_eq!(without[0].validity.reasons, [reason]);
        assert_eq!(of(&format!("{whole}2 nodes were released at 12:30\n")), of(whole));
    }

    #[test]
    fn device_buffers_and_percentiles_are_read() {
        let text = "# OSU MPI-CUDA Latency Test v7.5\n# Datatype: MPI_CHAR.\n\
                    # Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)\n\
                    # Size  Avg Lat(us)  P50 Tail Lat(us)  P90 Tail Lat(us)  P99 Tail Lat(us)\n\
                    1   2.00   1.90   2.10   3.00\n2   2.10   2.00   2.20   3.10\n";
        let all = saved_output_figures(&OsuOutput::read(text).unwrap());
        let config: MessageConfig = all[0].read_config();
        assert_eq!(config.buffers.as_deref(), Some("cuda, device to host"));
        assert!(near(config.p50.unwrap(), 1.9e-6) && near(config.p99.unwrap(), 3e-6));
    }

    proptest! {
        #[test]
        fn osu_reader_never_panics(cut in 0usize..900, insert in ".{0,20}") {
            let whole = recorded!("osu72-ompi-osu_mbw_mr");
            let cut = cut.min(whole.len());
            let _ = OsuOutput::read(&format!("{}{insert}{}", &whole[..cut], &whole[cut..]));
            let _ = OsuOutput::read(&whole[..cut]);
        }
    }
}
