//! Reader for Intel Memory Latency Checker: matrices of latencies and bandwidths, bandwidths by traffic, and latencies
//! under load.

use nodegauge_gauge::outputs::{MEMORY, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{lines, parse_number, quote_text, unreadable_line_message};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of Intel Memory Latency Checker.
pub(crate) struct Mlc;

/// First words of a run, before the version.
const TITLE: &str = "Intel(R) Memory Latency Checker - v";
/// Line that states the unit of all bandwidths.
const UNIT: &str = "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)";
/// Kinds of traffic, as printed before a colon.
const TRAFFIC: [&str; 5] =
    ["ALL Reads", "3:1 Reads-Writes", "2:1 Reads-Writes", "1:1 Reads-Writes", "Stream-triad like"];

impl Reader for Mlc {
    fn program(&self) -> &'static str {
        "Intel MLC"
    }

    fn doubts(&self) -> &'static str {
        "a section without its unit is an error; missing sections are not detected, because the output has no last line"
    }

    fn first_characters(&self) -> &'static str {
        "I"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        line.starts_with(TITLE).then_some(RunMark::TITLE)
    }

    fn version(&self, text: &str) -> Option<String> {
        let rest = text.lines().next()?.trim().strip_prefix(TITLE)?;
        Some(rest.split_whitespace().next()?.to_owned())
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut part = Part {
            section: Section::Other,
            has_unit: false,
            columns: Vec::new(),
            rows: 0,
            has_load_unit: false,
        };
        let mut figures = OutputFigures::new("mlc", self.version(text));
        for line in lines(text) {
            part.line(line, &mut figures)?;
        }
        Ok(figures.finish(None))
    }
}

/// Section of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Section {
    /// Idle latencies between nodes.
    Latencies,
    /// Bandwidths between nodes.
    Bandwidths,
    /// Bandwidths by traffic: peak or maximum.
    Traffic(&'static str),
    /// Latency and bandwidth under load, by delay.
    Loaded,
    /// Latencies of cache lines in other caches.
    Caches,
    Other,
}

/// State of the parser: the current section.
struct Part {
    section: Section,
    has_unit: bool,
    columns: Vec<u64>,
    rows: usize,
    /// True if the header of the table under load has its units.
    has_load_unit: bool,
}

impl Part {
    fn line(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        if let Some(section) = section(line) {
            *self = Self {
                section,
                has_unit: false,
                columns: Vec::new(),
                rows: 0,
                has_load_unit: false,
            };
            return Ok(());
        }
        if line == UNIT {
            self.has_unit = true;
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("Each iteration took") {
            return idle(rest, figures);
        }
        match self.section {
            Section::Latencies | Section::Bandwidths => self.matrix(line, figures),
            Section::Traffic(kind) => self.traffic(line, kind, figures),
            Section::Loaded => self.loaded(line, figures),
            Section::Caches => caches(line, figures),
            Section::Other => Ok(()),
        }
    }

    /// Parses a line of a matrix: its header `Numa node 0 1`, or a row `0 89.7 139.1`.
    fn matrix(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        if let Some(header) = line.strip_prefix("Numa node") {
            let words: Option<Vec<u64>> =
                header.split_whitespace().map(|word| word.parse().ok()).collect();
            if let Some(columns) = words.filter(|columns| !columns.is_empty()) {
                self.columns = columns;
            }
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((row, cells)) = words.split_first() else { return Ok(()) };
        let Ok(row) = row.parse::<u64>() else { return Ok(()) };
        // A NUMA node without processors has a column and no row.
        let is_known = self.columns.contains(&row);
        if cells.len() != self.columns.len() || !is_known {
            return Err(format!("a row of a matrix does not fit its header: {}", quote_text(line)));
        }
        self.rows += 1;
        let is_rate = self.section == Section::Bandwidths;
        if is_rate && !self.has_unit {
            return Err("the unit of a matrix of bandwidths is missing".to_owned());
        }
        let (name, unit, factor) = if is_rate {
            ("bandwidth", Unit::BytesPerSecond, 1e6)
        } else {
            ("latency", Unit::Seconds, 1e-9)
        };
        for (column, cell) in self.columns.iter().zip(cells) {
            // A dash marks a NUMA node without memory.
            if *cell == "-" {
                continue;
            }
            let value = parse_number(cell)
                .ok_or_else(|| format!("a cell cannot be read: {}", quote_text(cell)))?;
            let mut config = figures.config();
            config.case = Some(format!("n{row}->n{column}"));
            let figure = OutputFigure {
                of: MEMORY,
                name: name.to_owned(),
                unit,
                value: value * factor,
                quoted: QuotedStatistic::Single,
            };
            figures.push(figure, &config)?;
        }
        Ok(())
    }

    /// Parses a line with the bandwidth of a kind of traffic: `ALL Reads : 181223.5`.
    fn traffic(&self, line: &str, kind: &str, figures: &mut OutputFigures) -> Result<(), String> {
        let Some(traffic) = TRAFFIC.iter().find(|traffic| line.starts_with(*traffic)) else {
            return Ok(());
        };
        let rest = line[traffic.len()..].trim().strip_prefix(':').map(str::trim);
        let value = rest
            .and_then(parse_number)
            .ok_or_else(|| format!("a line cannot be read: {}", quote_text(line)))?;
        if !self.has_unit {
            return Err("the unit of its bandwidths is missing".to_owned());
        }
        let mut config = figures.config();
        config.case = Some(format!("{kind}, {}", traffic.to_lowercase()));
        let figure = OutputFigure {
            of: MEMORY,
            name: "bandwidth".to_owned(),
            unit: Unit::BytesPerSecond,
            value: value * 1e6,
            quoted: QuotedStatistic::Single,
        };
        figures.push(figure, &config)
    }

    /// Parses a line with delay, latency and bandwidth: ` 00000 243.04 181000.2`.
    fn loaded(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == ["Delay", "(ns)", "MB/sec"] {
            self.has_load_unit = true;
        }
        let [delay, latency, rate] = words[..] else { return Ok(()) };
        let is_delay = delay.len() == 5 && delay.bytes().all(|byte| byte.is_ascii_digit());
        if !is_delay {
            return Ok(());
        }
        let (latency, rate) = parse_number(latency)
            .zip(parse_number(rate))
            .ok_or_else(|| unreadable_line_message(line))?;
        if !self.has_load_unit {
            return Err("the units of the table under load are missing".to_owned());
        }
        let mut config = figures.config();
        config.case = Some(format!("delay {}", delay.trim_start_matches('0').parse().unwrap_or(0)));
        let known = [
            ("loaded_latency", Unit::Seconds, latency * 1e-9),
            ("loaded_bandwidth", Unit::BytesPerSecond, rate * 1e6),
        ];
        for (name, unit, value) in known {
            figures.push(
                OutputFigure {
                    of: MEMORY,
                    name: name.to_owned(),
                    unit,
                    value,
                    quoted: QuotedStatistic::Single,
                },
                &config,
            )?;
        }
        Ok(())
    }
}

/// Returns the section that begins with this line; `None` for other lines.
fn section(line: &str) -> Option<Section> {
    let rest = line.strip_prefix("Measuring ")?;
    Some(match rest {
        _ if rest.starts_with("idle latencies") && rest.contains("in ns") => Section::Latencies,
        _ if rest.starts_with("Memory Bandwidths between nodes") => Section::Bandwidths,
        _ if rest.starts_with("Peak Injection Memory Bandwidths") => Section::Traffic("peak"),
        _ if rest.starts_with("Maximum Memory Bandwidths") => Section::Traffic("maximum"),
        _ if rest.starts_with("Loaded Latencies") => Section::Loaded,
        _ if rest.starts_with("cache-to-cache transfer latency (in ns)") => Section::Caches,
        _ => Section::Other,
    })
}

/// Parses the rest of `Each iteration took 273.5 base frequency clocks ( 101.3 ns)`.
fn idle(rest: &str, figures: &mut OutputFigures) -> Result<(), String> {
    let time = rest.split_once('(').and_then(|(_, time)| time.trim().strip_suffix("ns)"));
    let value =
        time.map(str::trim).and_then(parse_number).ok_or("its idle latency cannot be read")?;
    let mut config = figures.config();
    config.case = Some("idle".to_owned());
    figures.push(
        OutputFigure {
            of: MEMORY,
            name: "latency".to_owned(),
            unit: Unit::Seconds,
            value: value * 1e-9,
            quoted: QuotedStatistic::Single,
        },
        &config,
    )
}

/// Parses a line with the latency between caches: `Local Socket L2->L2 HIT latency 48.3`.
fn caches(line: &str, figures: &mut OutputFigures) -> Result<(), String> {
    if !line.starts_with("Local Socket") {
        return Ok(());
    }
    let Some((case, value)) = line.split_once("latency") else { return Ok(()) };
    let value = parse_number(value.trim())
        .ok_or_else(|| format!("a line cannot be read: {}", quote_text(line)))?;
    let mut config = figures.config();
    config.case = Some(case.split_whitespace().collect::<Vec<_>>().join(" "));
    figures.push(
        OutputFigure {
            of: MEMORY,
            name: "cache_to_cache".to_owned(),
            unit: Unit::Seconds,
            value: value * 1e-9,
            quoted: QuotedStatistic::Single,
        },
        &config,
    )
}
