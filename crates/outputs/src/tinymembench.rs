//! Reader for tinymembench: lines `name : rate MB/s`, and tables of latencies by block size.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{lines, parse_number, unreadable_line_message};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of tinymembench.
pub(crate) struct Tinymembench;

/// First words of the header of a latency table.
const LATENCIES: &str = "block size : single random read / dual random read";

impl Reader for Tinymembench {
    fn program(&self) -> &'static str {
        "tinymembench"
    }

    fn doubts(&self) -> &'static str {
        "no latency table: suspect"
    }

    fn first_characters(&self) -> &'static str {
        "t"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        version(line).map(|_| RunMark::TITLE)
    }

    fn version(&self, text: &str) -> Option<String> {
        version(text.lines().next()?.trim())
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        Ok(figures(text, self.version(text))?)
    }
}

/// Parses the version in a title: `tinymembench v0.4.9 (simple benchmark for memory throughput and latency)`.
fn version(line: &str) -> Option<String> {
    let rest = line.strip_prefix("tinymembench v")?;
    Some(rest.split_whitespace().next()?.to_owned())
}

fn figures(text: &str, version: Option<String>) -> Result<PrintedRun, String> {
    let mut figures = OutputFigures::new("tinymembench", version);
    let mut part = "";
    let mut pages: Option<&str> = None;
    let mut last_block = 0;
    for line in lines(text) {
        if let Some(title) = line.strip_prefix("== ") {
            let title = title.trim_end_matches('=').trim();
            part = if title.contains("Framebuffer") { "framebuffer, " } else { part };
            continue;
        }
        if let Some(rest) = line.strip_prefix(LATENCIES) {
            pages = Some(rest.trim_matches([',', ' ', '[', ']']));
            last_block = 0;
            continue;
        }
        let Some((name, value)) = line.rsplit_once(" : ") else { continue };
        let mut config = figures.config();
        if let Some(pages) = pages.filter(|_| value.contains(" ns")) {
            let block: u64 = name.trim().parse().map_err(|_| unreadable_line_message(line))?;
            if last_block > 0 && block != 2 * last_block {
                return Err("a size of its latency table is not twice the previous size".to_owned());
            }
            last_block = block;
            config.block_bytes = Some(block);
            config.case = Some(pages.to_owned()).filter(|pages| !pages.is_empty());
            let (single, dual) =
                value.split_once('/').ok_or_else(|| unreadable_line_message(line))?;
            for (figure_name, cell) in
                [("latency_above_l1", single), ("dual_latency_above_l1", dual)]
            {
                let cell = cell.trim().strip_suffix("ns").map(str::trim).and_then(parse_number);
                let seconds = cell.ok_or_else(|| unreadable_line_message(line))? * 1e-9;
                figures.push(
                    OutputFigure {
                        of: MEMORY,
                        name: figure_name.to_owned(),
                        unit: Unit::Seconds,
                        value: seconds,
                        quoted: QuotedStatistic::Best,
                    },
                    &config,
                )?;
            }
        } else if let Some(rate) =
            value.split(" (").next().and_then(|rate| rate.strip_suffix("MB/s"))
        {
            let printed =
                parse_number(rate.trim()).ok_or_else(|| unreadable_line_message(line))? * 1e6;
            config.case = Some(format!("{part}{}", name.trim()));
            figures.push(
                OutputFigure {
                    of: MEMORY,
                    name: "bandwidth".to_owned(),
                    unit: Unit::BytesPerSecond,
                    value: printed,
                    quoted: QuotedStatistic::Best,
                },
                &config,
            )?;
        }
    }
    let missing = pages.is_none().then_some("the output has no latency table");
    Ok(figures.finish(missing))
}
