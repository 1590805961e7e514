//! Output of the OSU micro-benchmarks, versions 5 to 7.
//!
//! The title contains the test and the version, and the header names the columns. One line per size follows. Version 7
//! adds a line with the data type (before or after the header) and omits 0 B. `osu_mbw_mr` 7.2 prints its title twice.
//! Some options add columns: `-f` adds the minimum and maximum time and the iterations to collectives, `-c` adds the
//! result of the data check, `-D` adds a second size, and `-z` adds percentiles.

use crate::config::MessageConfig;
use crate::figures::result::{self, MessageFigure};
use crate::options::Timing;
use crate::pattern::Pattern;
use nodegauge_measure::record::{Category, Measurement, Quoted, Status, Validity};
use nodegauge_measure::{Bytes, Unit, printed};

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct OsuRow {
    /// Bytes of a message; 0 for a barrier.
    pub bytes: u64,
    /// Time in seconds, or rate in bytes per second.
    pub value: f64,
    /// Messages per second; only `osu_mbw_mr` prints this column.
    pub messages: Option<f64>,
    /// Minimum and maximum time over the ranks, seconds; only printed for collectives with `-f`.
    pub spread: Option<(f64, f64)>,
    /// Result of the data check; only printed with `-c`.
    pub validated: Option<bool>,
}

/// Parsed output of one OSU program.
#[derive(Debug, Clone, PartialEq)]
pub struct OsuOutput {
    /// Pattern of the test.
    pub pattern: Pattern,
    /// Version of the benchmarks.
    pub version: Option<String>,
    /// Number of concurrent pairs, if printed.
    pub pairs: Option<u32>,
    /// Number of messages in flight, if printed.
    pub window: Option<u32>,
    /// Numbers of sender threads and receiver threads of `osu_latency_mt`, if printed.
    pub threads: Option<(u32, u32)>,
    /// Rows of the table.
    pub rows: Vec<OsuRow>,
    /// True if a last line without a line end was not read, because it may be cut in the middle of a number.
    pub is_cut: bool,
}

/// Returns the test and the version in a line that is the title of a test.
fn title_test(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix('#')?.trim().strip_prefix("OSU MPI")?.trim())
}

/// Returns the numbers of the lines, from 1, in which runs begin. A title begins a run, except the second one of
/// `osu_mbw_mr` 7.2, which follows the same title directly.
pub fn run_lines(text: &str) -> Vec<usize> {
    let mut runs = Vec::new();
    let mut before: Option<&str> = None;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if let Some(title) = title_test(line) {
            if before != Some(title) {
                runs.push(at + 1);
            }
            before = Some(title);
        } else if is_row(line) {
            before = None;
        }
    }
    runs
}

/// True if a line is a row of a table.
fn is_row(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit())
}

/// True if a line is the header of a table.
fn is_header(line: &str) -> bool {
    line.starts_with('#') && (line.contains("(us)") || line.contains("MB/s"))
}

/// Returns the number behind a label.
fn number_after<N: std::str::FromStr>(text: &str, label: &str) -> Option<N> {
    let rest = text.split_once(label)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the number in a column of a row.
fn number_in(words: &[&str], column: usize) -> Option<f64> {
    words.get(column)?.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0)
}

impl OsuOutput {
    /// Parses the output of one run. A last line without a line end is only read if it is certainly complete.
    ///
    /// # Errors
    /// Fails when the text is not the output of a known test. The error text continues a sentence about the output.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = printed::whole_lines(text).lines().map(str::trim).collect();
        let title = lines
            .iter()
            .find_map(|line| title_test(line))
            .ok_or("it has no title such as \"# OSU MPI Latency Test v7.2\"")?;
        let (name, version) = match title.rsplit_once(" v") {
            Some((name, version)) => (name.trim(), Some(version.trim().to_owned())),
            None => (title, None),
        };
        let name = name.strip_suffix("Test").unwrap_or(name).trim();
        let pattern = Pattern::ALL.iter().copied().find(|pattern| pattern.row().title == name);
        let pattern = pattern
            .ok_or_else(|| format!("its title is {:?}, an unknown test", shortened(title)))?;
        let header = lines.iter().find(|line| is_header(line));
        let columns = header.map(|line| Columns::from_header(line)).unwrap_or_default();
        let mut rows: Vec<OsuRow> = Vec::new();
        let mut last_row = "";
        for line in lines.iter().copied().filter(|line| is_row(line)) {
            let row = columns.row(line, pattern).ok_or_else(|| {
                format!("its table has a line that cannot be read: {:?}", shortened(line))
            })?;
            if let Some(last) = rows.last().filter(|last| last.bytes >= row.bytes) {
                return Err(format!(
                    "its table has {} B after {} B: it is not one table",
                    row.bytes, last.bytes
                ));
            }
            rows.push(row);
            last_row = line;
        }
        let unended = printed::unended_line(text).map(str::trim);
        let mut is_cut = unended.is_some();
        let whole = unended.filter(|line| is_row(line) && decimals(line) == decimals(last_row));
        let whole = whole.and_then(|line| columns.row(line, pattern));
        if let Some(row) = whole
            && rows.last().is_some_and(|last| last.bytes < row.bytes)
        {
            rows.push(row);
            is_cut = false;
        }
        if rows.is_empty() {
            return Err("its table is empty".to_owned());
        }
        Ok(Self {
            pattern,
            version,
            pairs: number_after(text, "pairs:"),
            window: number_after(text, "window size:"),
            threads: number_after(text, "Sender threads:")
                .zip(number_after(text, "Receiver threads:")),
            rows,
            is_cut,
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

    /// Returns the reason why the table may be incomplete. OSU's programs print no last line, so that only the size in
    /// the last row shows whether the table is complete.
    fn incomplete(&self) -> Option<String> {
        if self.is_cut {
            return Some(format!("the last line has no line end: {}", printed::CUT));
        }
        let last = self.rows.last()?.bytes;
        let usual = self.pattern.usual_sizes().last().copied().unwrap_or_default();
        (last < usual).then(|| {
            format!(
                "the table ends at {} instead of {}: {}, or a smaller size or memory was requested",
                Bytes(last),
                Bytes(usual),
                printed::CUT
            )
        })
    }
}

/// Columns of a table, from its header.
#[derive(Debug, Default)]
struct Columns {
    count: usize,
    /// True if the size is followed by the number of bytes sent (`-D`).
    has_transmit_size: bool,
    has_spread: bool,
    /// Column of the result of the data check (`-c`).
    validation: Option<usize>,
}

impl Columns {
    /// Parses the header. A column ends with a word that is a name of its own or contains a unit.
    fn from_header(header: &str) -> Self {
        const NAMES: [&str; 4] = ["Size", "Messages/s", "Iterations", "Validation"];
        let mut columns = Self {
            has_transmit_size: header.contains("Transmit Size"),
            has_spread: header.contains("Min Lat"),
            ..Self::default()
        };
        for word in header.split(['#', ' ', '\t']) {
            let is_unit = ["(us)", "MB/s", "(%)"].iter().any(|unit| word.contains(unit));
            if word == "Validation" {
                columns.validation = Some(columns.count);
            }
            columns.count += usize::from(is_unit || NAMES.contains(&word));
        }
        columns
    }

    /// Parses a line of the table; `None` if it is invalid or has not one word for each column.
    fn row(&self, line: &str, pattern: Pattern) -> Option<OsuRow> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != self.count {
            return None;
        }
        let (bytes, at) = if pattern.is_sizeless() {
            (0, 0)
        } else {
            (words.first()?.parse().ok()?, 1 + usize::from(self.has_transmit_size))
        };
        let unit = if pattern.is_rate() { 1e6 } else { 1e-6 };
        let rate_of_messages = at + 1;
        let counts_messages = pattern.row().counts_messages
            && rate_of_messages < self.validation.unwrap_or(self.count);
        let messages =
            if counts_messages { Some(number_in(&words, rate_of_messages)?) } else { None };
        let spread = if self.has_spread {
            Some((number_in(&words, at + 1)? * unit, number_in(&words, at + 2)? * unit))
        } else {
            None
        };
        let validated = match self.validation.and_then(|column| words.get(column)) {
            Some(&"Pass") => Some(true),
            Some(&"Fail") => Some(false),
            Some(_) => return None,
            None => None,
        };
        let value = number_in(&words, at)? * unit;
        value.is_finite().then_some(OsuRow { bytes, value, messages, spread, validated })
    }
}

/// Returns the number of digits after the decimal point of each word. OSU's programs print all figures of a table with
/// the same number of digits.
fn decimals(line: &str) -> Vec<Option<usize>> {
    let words = line.split_whitespace();
    words.map(|word| word.split_once('.').map(|(_, digits)| digits.len())).collect()
}

/// Returns the measurements of a saved output of OSU's programs, with the configuration that the output contains. They
/// are suspect if the table may be incomplete.
pub fn saved_figures(output: &OsuOutput) -> Vec<Measurement> {
    let incomplete = output.incomplete();
    let mut measurements: Vec<Measurement> = Vec::new();
    for row in &output.rows {
        measurements.push(figure(output, row, output.pattern.unit(), &[row.value]).into());
        if let Some(value) = row.messages {
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
    let config = MessageConfig {
        engine: Some("osu".to_owned()),
        engine_version: output.version.clone(),
        message_bytes: Some(row.bytes),
        pairs: output.pairs.map(u64::from),
        window: output.window.filter(|_| output.pattern.is_rate()).map(u64::from),
        threads: output.threads.map(|(senders, receivers)| vec![senders.into(), receivers.into()]),
        validated: row.validated,
        fastest_rank: row.spread.map(|(min, _)| min),
        slowest_rank: row.spread.map(|(_, greatest)| greatest),
        ..MessageConfig::default()
    };
    let mut validity = Validity::valid();
    if row.validated == Some(false) {
        validity.add(Status::Invalid, "the program reports that the data arrived corrupted");
    }
    if !runs.iter().copied().all(printed::is_figure) {
        validity.add(Status::Invalid, "the program printed no positive figure");
    }
    let measurement = result::blank(output.pattern, unit)
        .sampled(Quoted::Median, runs.to_vec())
        .category(Category::Reference)
        .config(&config)
        .judged(validity);
    MessageFigure { measurement, config }
}

/// Returns a text, shortened to one line.
fn shortened(text: &str) -> String {
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
    fn osu_7_has_a_data_type_and_times_each_message() {
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
            assert!(output.rows.iter().all(|row| row.messages.is_some()));
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
    fn validation_results_are_read_and_a_barrier_has_no_size() {
        let text = "# OSU MPI Latency Test v7.4\n# Size          Latency (us)        Validation\n\
                    1                       0.20              Pass\n2   0.20   Fail\n";
        let output = OsuOutput::read(text).unwrap();
        let verdicts: Vec<_> = output.rows.iter().map(|row| row.validated).collect();
        assert_eq!(verdicts, [Some(true), Some(false)]);
        let measurements = saved_figures(&output);
        assert_eq!(measurements[1].validity.status, Status::Invalid);
        assert_eq!(measurements[1].value, None);
        let barrier_text =
            "\n# OSU MPI Barrier Latency Test v5.7\n# Avg Latency(us)\n             0.33\n";
        let barrier = OsuOutput::read(barrier_text).unwrap();
        assert_eq!((barrier.rows[0].bytes, barrier.pattern), (0, Pattern::Barrier));
        assert!(near(barrier.rows[0].value, 0.33e-6));
    }

    #[test]
    fn foreign_output_is_refused_with_the_missing_title() {
        let whole = recorded!("osu72-ompi-osu_bw");
        let title = "it has no title such as \"# OSU MPI Latency Test v7.2\"";
        let cases = [
            (String::new(), title),
            ("STREAM version".to_owned(), title),
            (
                "# OSU MPI_Put Latency Test v7.2\n".to_owned(),
                "its title is \"_Put Latency Test v7.2\", an unknown test",
            ),
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
                "its table has 1 B after 4194304 B: it is not one table",
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
    fn cut_osu_table_is_suspect() {
        let whole = recorded!("osu72-ompi-osu_bw");
        let of = |text: &str| saved_figures(&OsuOutput::read(text).unwrap());
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
                 memory was requested",
            ),
        ] {
            let all = of(cut);
            assert_eq!(all.len(), rows, "{cut}");
            assert_eq!(all[0].validity.status, Status::Suspect);
            assert_eq!(all[0].validity.reasons, [reason]);
        }
    }

    #[test]
    fn zero_is_an_invalid_figure() {
        let text = recorded!("osu72-ompi-osu_bw").replace("7967.90", "   0.00");
        let all = saved_figures(&OsuOutput::read(&text).unwrap());
        assert_eq!((all[11].value, all[11].validity.status), (None, Status::Invalid));
        assert_eq!(all[12].validity.status, Status::Valid);
        let huge = recorded!("osu72-ompi-osu_bw").replace("7967.90", "1e308");
        assert!(OsuOutput::read(&huge).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn tables_of_several_runs_are_counted() {
        let (bw, mbw_mr) = (recorded!("osu72-ompi-osu_bw"), recorded!("osu72-ompi-osu_mbw_mr"));
        let other_test = "# OSU MPI Init Test v7.2\nnprocs: 2, min: 1.0\n".to_owned();
        for (text, runs) in [
            (bw.to_owned(), 1),
            // This version prints its title twice.
            (mbw_mr.to_owned(), 1),
            ([bw, bw].concat(), 2),
            ([mbw_mr, mbw_mr, bw].concat(), 3),
            (other_test + bw, 2),
            (String::new(), 0),
        ] {
            assert_eq!(run_lines(&text).len(), runs, "{text}");
        }
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
