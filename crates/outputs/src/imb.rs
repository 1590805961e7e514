//! Reader for the Intel MPI Benchmarks: a table for each benchmark, below `# Benchmarking NAME`.

use nodegauge_gauge::outputs::{MESSAGES, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    TitledRunRules, lines, parse_number, quote_text, rounding_error, slug, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of the Intel MPI Benchmarks.
pub(crate) struct Imb;

/// Titles in all versions, without the version number.
const TITLES: [&str; 3] =
    ["Intel(R) MPI Benchmarks", "Intel (R) MPI Benchmarks", "Intel (R) MPI Benchmark Suite"];
/// First words of a table.
const TABLE: &str = "# Benchmarking";
/// Rules that detect the runs.
const RUN: TitledRunRules =
    TitledRunRules { version, is_table, end: "# All processes entering MPI_Finalize" };

impl Reader for Imb {
    fn program(&self) -> &'static str {
        "Intel MPI Benchmarks"
    }

    fn doubts(&self) -> &'static str {
        "no `All processes entering MPI_Finalize`: suspect; a data rate that is not the size divided by the time is an error"
    }

    fn first_characters(&self) -> &'static str {
        "#"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        RUN.mark(line)
    }

    fn last_phase(&self) -> Option<u8> {
        Some(TitledRunRules::END)
    }

    fn version(&self, text: &str) -> Option<String> {
        RUN.version(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = OutputFigures::new("imb", self.version(text));
        let mut table = Table::default();
        for line in lines(text) {
            table.line(line, &mut figures)?;
        }
        let missing = !RUN.is_ended(text);
        Ok(figures.finish(missing.then_some("the last line of the benchmarks is missing")))
    }
}

/// Parses the version in a title: `#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part`. For `2018 Update 1`, returns
/// `2018.1`.
fn version(line: &str) -> Option<String> {
    let rest = line.strip_prefix('#')?.trim_start_matches(['#', ' ']);
    let rest = TITLES.iter().find_map(|title| rest.strip_prefix(title))?;
    let words = rest.trim().trim_start_matches(['V', 'v']).trim();
    let words = words.strip_prefix("ersion").unwrap_or(words).trim();
    let mut words = words.split([' ', ',']);
    let version = words.next().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let update = if words.next() == Some("Update") { words.next() } else { None };
    Some(update.map_or_else(|| version.to_owned(), |update| format!("{version}.{update}")))
}

/// True for the first line of a table.
fn is_table(line: &str) -> bool {
    line.starts_with(TABLE)
}

/// Table of a benchmark.
#[derive(Debug, Default)]
struct Table {
    name: Option<String>,
    processes: Option<u64>,
    mode: Option<String>,
    columns: Vec<String>,
    last_bytes: Option<f64>,
    /// True if an empty line follows the last row, so that lines of other programs may follow, too.
    is_interrupted: bool,
}

impl Table {
    fn line(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        if let Some(name) = line.strip_prefix(TABLE) {
            *self = Self { name: Some(slug(name)), ..Self::default() };
        } else if let Some(rest) = line.strip_prefix("# #processes =") {
            self.processes =
                rest.trim().split([' ', ';']).next().and_then(|word| word.parse().ok());
        } else if let Some(mode) = line.strip_prefix("#    MODE:") {
            self.mode = Some(mode.trim().to_lowercase());
            self.columns.clear();
            self.last_bytes = None;
        } else if line.contains("[usec]") || line.starts_with("#bytes ") {
            self.header(line)?;
        } else if self.is_row(line) {
            self.is_interrupted = false;
            self.row(line, figures)?;
        } else if line.is_empty() && self.last_bytes.is_some() {
            self.is_interrupted = true;
            // A table without sizes has one row.
            if !self.has_sizes() {
                self.columns.clear();
            }
        } else if self.last_bytes.is_some() && (line.starts_with("#-") || line.starts_with(RUN.end))
        {
            self.columns.clear();
        }
        Ok(())
    }

    /// True if the rows begin with a size and a number of repetitions.
    fn has_sizes(&self) -> bool {
        self.columns.iter().take(2).eq(["#bytes", "#repetitions"])
    }

    /// True if a line must be a row of this table. After an empty line, only a line that begins with two integers must
    /// be a row.
    fn is_row(&self, line: &str) -> bool {
        if self.columns.is_empty() || !line.starts_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        let mut begin = line.split_whitespace().take(2).map(str::parse::<u64>);
        !self.is_interrupted
            || begin.next().is_some_and(|word| word.is_ok())
                && begin.next().is_some_and(|word| word.is_ok())
    }

    /// Parses the names of the columns.
    fn header(&mut self, line: &str) -> Result<(), String> {
        const KNOWN: [&str; 12] = [
            "#bytes",
            "#repetitions",
            "t[usec]",
            "t_min[usec]",
            "t_max[usec]",
            "t_avg[usec]",
            "Mbytes/sec",
            "Msg/sec",
            "t_ovrl[usec]",
            "t_pure[usec]",
            "t_CPU[usec]",
            "overlap[%]",
        ];
        let columns: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let unknown =
            columns.iter().find(|column| !KNOWN.contains(&column.as_str()) && *column != "defects");
        if let Some(unknown) = unknown {
            return Err(format!("its table has an unknown column: {unknown:?}"));
        }
        let is_repeated = (1..columns.len()).any(|at| columns[..at].contains(&columns[at]));
        if is_repeated || !self.columns.is_empty() && self.last_bytes.is_none() {
            return Err(format!("the header of a table is unknown: {}", quote_text(line)));
        }
        self.columns = columns;
        self.last_bytes = None;
        self.is_interrupted = false;
        Ok(())
    }

    fn row(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        // If a size exceeded the memory or the time limit, the row has a remark instead of figures.
        if ["out-of-mem.;", "int-overflow;", "time-out.;"].iter().any(|word| words.contains(word)) {
            return Ok(());
        }
        if words.len() != self.columns.len() {
            return Err(unreadable_line_message(line));
        }
        let name = self.name.clone().ok_or("a table has no name")?;
        let values: Option<Vec<f64>> = words.iter().map(|word| parse_number(word)).collect();
        let values = values.ok_or_else(|| unreadable_line_message(line))?;
        let row = Row { columns: &self.columns, values: &values };
        let bytes = row.value("#bytes");
        if let (Some(last), Some(now)) = (self.last_bytes, bytes)
            && now <= last
        {
            return Err(format!(
                "its table of {name} has {now} B after {last} B, so it is not a single table"
            ));
        }
        self.last_bytes = Some(bytes.unwrap_or(0.0));
        let times = ["t_min[usec]", "t_avg[usec]", "t_max[usec]"].map(|column| row.value(column));
        if let [Some(least), Some(mean), Some(most)] = times
            && !(least <= mean + 0.01 && mean <= most + 0.01)
        {
            return Err(unreadable_line_message(line));
        }
        let mut config = figures.config();
        config.message_bytes = bytes.map(|bytes| bytes as u64);
        config.processes = self.processes;
        config.case = self.mode.clone();
        let rate = row.value("Mbytes/sec").zip(bytes);
        let longest = row.column("t_max[usec]").or(row.column("t[usec]"));
        let factor = match (rate, longest) {
            (Some((printed, size)), Some(time)) => {
                mega(printed, size, values[time], rounding_error(words[time])).ok_or_else(|| {
                    format!(
                        "the data rate of {name} is not its size divided by its time: {}",
                        quote_text(line)
                    )
                })?
            }
            (Some((printed, size)), None) => {
                let messages = row
                    .value("Msg/sec")
                    .ok_or("its rates have neither times nor numbers of messages")?;
                [1e6, 1_048_576.0].into_iter().find(|mega| {
                    (printed * mega - messages * size).abs() <= 0.006 * mega + 0.6 * size
                })
            }
            _ => None,
        };
        let of_time = ["t[usec]", "t_avg[usec]", "t_pure[usec]"];
        let time = of_time.into_iter().find_map(|column| row.value(column));
        let known = [
            (name.clone(), Unit::Seconds, time.map(|time| time * 1e-6)),
            (
                format!("{name}_overall"),
                Unit::Seconds,
                row.value("t_ovrl[usec]").map(|overall| overall * 1e-6),
            ),
            (
                format!("{name}_overlap"),
                Unit::Factor,
                row.value("overlap[%]").map(|percent| percent * 1e-2),
            ),
            (
                name.clone(),
                Unit::BytesPerSecond,
                factor.zip(row.value("Mbytes/sec")).map(|(unit, printed)| printed * unit),
            ),
            (name, Unit::MessagesPerSecond, row.value("Msg/sec")),
        ];
        for (figure_name, unit, printed) in known {
            let Some(printed) = printed else { continue };
            let is_mean = unit == Unit::Seconds && times[0].is_some();
            let own = OutputConfig {
                printed_min: times[0].filter(|_| is_mean).map(|least| least * 1e-6),
                printed_max: times[2].filter(|_| is_mean).map(|most| most * 1e-6),
                ..config.clone()
            };
            let figure = OutputFigure {
                of: MESSAGES,
                name: figure_name,
                unit,
                value: printed,
                quoted: QuotedStatistic::Mean,
            };
            figures.push(figure, &own)?;
        }
        Ok(())
    }
}

/// Numbers of a row by the names of their columns.
struct Row<'a> {
    columns: &'a [String],
    values: &'a [f64],
}

impl Row<'_> {
    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.column(name).map(|column| self.values[column])
    }
}

/// Returns the number of bytes per megabyte in this version: 10^6, or 2^20 before 2018. The data rate must be one, two
/// or four times the size divided by the time. Returns `Some(None)` if the printed digits fit both numbers, and `None`
/// if they fit neither.
fn mega(rate: f64, bytes: f64, microseconds: f64, error: f64) -> Option<Option<f64>> {
    if rate == 0.0 || bytes == 0.0 {
        return Some(None);
    }
    let mut found: Option<f64> = None;
    for scale in [1.0, 2.0, 4.0] {
        for mega in [1e6, 1_048_576.0] {
            let megabytes = scale * bytes / mega;
            let least = megabytes / ((microseconds + error) * 1e-6) - 0.006;
            let most = if microseconds > error {
                megabytes / ((microseconds - error) * 1e-6) + 0.006
            } else {
                f64::INFINITY
            };
            if (least..=most).contains(&rate) {
                match found {
                    Some(other) if other != mega => return Some(None),
                    _ => found = Some(mega),
                }
            }
        }
    }
    found.map(Some)
}
