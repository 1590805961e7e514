//! Reader for likwid-bench: several lines `name: value` per run. The rates are the printed amounts divided by the
//! printed time.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    after_label, agree_within, lines, number_with_unit, parse_count, parse_number,
    unique_after_label,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of likwid-bench.
pub(crate) struct LikwidBench;

/// Title of a run.
const TITLE: &str = "LIKWID MICRO BENCHMARK";

impl Reader for LikwidBench {
    fn program(&self) -> &'static str {
        "likwid-bench"
    }

    fn doubts(&self) -> &'static str {
        "no line `MByte/s`: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "LM"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if line == TITLE {
            return Some(RunMark::TITLE);
        }
        line.starts_with("MByte/s:").then_some(RunMark::weak(1))
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let kernel = property(text, "Test:")?;
        let time = number_with_unit(property(text, "Time:")?, "sec");
        let time = time.ok_or_else(|| "its time has no unit of seconds".to_owned())?;
        let mut figures = OutputFigures::new("likwid-bench", None);
        let mut config = figures.config();
        config.case = Some(kernel.to_owned());
        config.data_bytes = after_label(text, "Size (Byte):").and_then(parse_count);
        config.threads = lines(text).find_map(|line| {
            let threads = line.strip_prefix("Using ")?.strip_suffix(" threads")?;
            threads.parse().ok()
        });
        let rates = [
            ("bandwidth", "MByte/s:", "Data volume (Byte):", Unit::BytesPerSecond),
            ("flops", "MFlops/s:", "Number of Flops:", Unit::FlopsPerSecond),
        ];
        for (name, rate, amount, unit) in rates {
            let printed = value(text, rate)? * 1e6;
            let computed = value(text, amount)? / time;
            let is_both_zero = printed == 0.0 && computed == 0.0;
            // Rates are printed with two decimals, times with seven digits.
            if !is_both_zero && !agree_within(printed, computed, 1e-4 + 1e4 / printed.max(1.0)) {
                return Err(RefusedOutput::from(format!(
                    "{rate:?} is not {amount:?} divided by the time"
                )));
            }
            let figure = OutputFigure {
                of: MEMORY,
                name: name.to_owned(),
                unit,
                value: printed,
                quoted: QuotedStatistic::Single,
            };
            figures.push(figure, &config)?;
        }
        Ok(figures.finish(None))
    }
}

/// Returns the text after a label, which the output must contain.
fn property<'a>(text: &'a str, label: &str) -> Result<&'a str, String> {
    unique_after_label(text, label)?.ok_or_else(|| format!("it has no line {label:?}"))
}

/// Returns the number after a label, which the output must contain.
fn value(text: &str, label: &str) -> Result<f64, String> {
    parse_number(property(text, label)?)
        .ok_or_else(|| format!("the number of {label:?} cannot be read"))
}
