//! Reader of mdtest's output: the table below `SUMMARY rate`, with a row for each operation.

use nodegauge_gauge::outputs::{FILES, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    TitledRunRules, lines, parse_count, parse_number, quote_text, slug,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader of the output of mdtest.
pub(crate) struct Mdtest;

/// Lines that mark the beginning, the table and the end of a run.
const RUN: TitledRunRules = TitledRunRules { version, is_table, end: "-- finished at" };

impl Reader for Mdtest {
    fn program(&self) -> &'static str {
        "mdtest"
    }

    fn doubts(&self) -> &'static str {
        "no line `-- finished at`: suspect; a mean that is not between the extremes is an error"
    }

    fn first_characters(&self) -> &'static str {
        "mS-"
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
        Ok(self.figures(text)?)
    }
}

impl Mdtest {
    /// Parses the output of a run.
    ///
    /// # Errors
    /// Fails with the reason why the text is invalid.
    pub(crate) fn figures(&self, text: &str) -> Result<PrintedRun, String> {
        let mut figures = OutputFigures::new("mdtest", self.version(text));
        let mut config = figures.config();
        let launched = lines(text).find_map(|line| line.split_once("was launched with ")?.1.into());
        config.processes = launched.and_then(parse_count);
        let mut columns: Option<Columns> = None;
        let mut is_rate = false;
        for line in lines(text) {
            if line.starts_with("SUMMARY") {
                // Other tables contain times.
                is_rate = !line.contains("time");
                columns = None;
            } else if line.starts_with("Operation") && is_rate {
                columns = Some(Columns::parse(line)?);
            } else if line.starts_with("-- finished") || line.starts_with("V-") {
                columns = None;
            } else if let Some(columns) = columns {
                columns.row(line, &config, &mut figures)?;
            }
        }
        let missing = !RUN.is_ended(text);
        Ok(figures.finish(missing.then_some("the line \"-- finished at\" of mdtest is missing")))
    }
}

/// Returns the version in a title such as `mdtest-3.3.0 was launched with 2 total task(s) on 1 node(s)`.
fn version(line: &str) -> Option<String> {
    let (version, _) = line.strip_prefix("mdtest-")?.split_once(" was launched")?;
    Some(version.to_owned())
}

/// True if a line begins the table of a summary.
fn is_table(line: &str) -> bool {
    line.starts_with("SUMMARY") && line.contains("iterations)")
}

/// Columns of a table, given by their number. The last four columns are statistics over the iterations: maximum,
/// minimum, mean, deviation.
#[derive(Debug, Clone, Copy)]
struct Columns(usize);

impl Columns {
    fn parse(header: &str) -> Result<Self, String> {
        let words: Vec<&str> = header.split_whitespace().collect();
        let numbers: Vec<&str> =
            words.into_iter().filter(|word| ["Max", "Min", "Mean", "Dev"].contains(word)).collect();
        match numbers[..] {
            ["Max", "Min", "Mean", "Dev"] => Ok(Self(4)),
            ["Max", "Min", "Mean", "Max", "Min", "Mean", "Dev"] => Ok(Self(7)),
            _ => Err(format!("the columns of its summary are unknown: {}", quote_text(header))),
        }
    }

    /// Parses a row such as `Directory creation : 12345.678 12000.000 12100.000 100.000`, and adds its figures.
    fn row(
        self,
        line: &str,
        config: &OutputConfig,
        figures: &mut OutputFigures,
    ) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = words.iter().rev().take_while(|word| parse_number(word).is_some()).count();
        let Some(names) =
            words.len().checked_sub(numbers).filter(|names| *names > 0 && numbers > 0)
        else {
            return Ok(());
        };
        let name = slug(&words[..names].join(" "));
        let is_operation =
            ["directory_", "file_", "tree_"].iter().any(|start| name.starts_with(start));
        if !is_operation {
            return Ok(());
        }
        if numbers != self.0 {
            return Err(format!("a row of its summary cannot be read: {}", quote_text(line)));
        }
        let values: Vec<f64> =
            words[names..].iter().filter_map(|word| parse_number(word)).collect();
        let [most, least, mean, _] = values[values.len() - 4..] else { return Ok(()) };
        if !(least <= mean + 0.001 && mean <= most + 0.001) {
            return Err(format!("a mean is not between minimum and maximum: {}", quote_text(line)));
        }
        let own =
            OutputConfig { printed_min: Some(least), printed_max: Some(most), ..config.clone() };
        figures.push(
            OutputFigure {
                of: FILES,
                name,
                unit: Unit::OperationsPerSecond,
                value: mean,
                quoted: QuotedStatistic::Mean,
            },
            &own,
        )
    }
}
