//! Reader for Intel Memory Latency Checker: matrices of latencies and bandwidths, bandwidths by traffic, and latencies
//! under load.

use nodegauge_gauge::outputs::{MEMORY, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    lines, may_be_cell, parse_number, quote_text, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;

/// Reader for the output of Intel Memory Latency Checker.
pub(crate) struct Mlc;

/// First words of a run, before the version.
const TITLE: &str = "Intel(R) Memory Latency Checker - v";
/// Line that states the unit of all bandwidths.
const UNIT: &str = "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)";
/// Titles of the matrices between caches, with the case of their figures.
const CACHE_MATRICES: [(&str, &str); 2] = [
    (
        "Remote Socket L2->L2 HITM latency (data address homed in writer socket)",
        "Remote Socket L2->L2 HITM, data address homed in writer socket",
    ),
    (
        "Remote Socket L2->L2 HITM latency (data address homed in reader socket)",
        "Remote Socket L2->L2 HITM, data address homed in reader socket",
    ),
];
/// First words of the header of such a matrix, with the word for its rows and columns.
const CACHE_HEADERS: [(&str, &str); 2] = [("Writer Numa Node", "n"), ("Writer Socket", "socket ")];
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
            rows: Vec::new(),
            title: None,
            node: "",
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
    /// Idle latencies between nodes, with the order of access if it is printed.
    Latencies(Option<String>),
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
    /// Rows of the matrix that have been read.
    rows: Vec<u64>,
    /// Case of the figures of a matrix between caches.
    title: Option<&'static str>,
    /// Word before the numbers of the rows and columns of this matrix.
    node: &'static str,
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
                rows: Vec::new(),
                title: None,
                node: "",
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
        match &self.section {
            Section::Latencies(_) | Section::Bandwidths => self.matrix(line, figures),
            Section::Traffic(kind) => self.traffic(line, kind, figures),
            Section::Loaded => self.loaded(line, figures),
            Section::Caches => self.caches(line, figures),
            Section::Other => Ok(()),
        }
    }

    /// Parses a line of a matrix between nodes: its header `Numa node 0 1`, or a row `0 89.7 139.1`.
    fn matrix(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        if let Some(header) = line.strip_prefix("Numa node") {
            let nodes = node_numbers(header);
            if !nodes.is_empty() {
                self.columns = nodes;
                self.rows.clear();
            }
            return Ok(());
        }
        let Some(pairs) = self.row(line)? else { return Ok(()) };
        if self.section == Section::Bandwidths && !self.has_unit {
            return Err("the unit of a matrix of bandwidths is missing".to_owned());
        }
        for NodePair { row, column, value } in pairs {
            let pair = format!("n{row}->n{column}");
            let figure = match &self.section {
                Section::Latencies(Some(order)) => {
                    CaseFigure::latency("latency", format!("{order}, {pair}"), value)
                }
                Section::Latencies(None) => CaseFigure::latency("latency", pair, value),
                _ => CaseFigure::bandwidth(pair, value),
            };
            figure.push(figures)?;
        }
        Ok(())
    }

    /// Parses a row of a matrix: the number of its node, and one cell per column. Returns `None` for other lines. After
    /// the last row, all lines are other lines.
    ///
    /// Fails if the row does not fit the header.
    fn row(&mut self, line: &str) -> Result<Option<Vec<NodePair>>, String> {
        let is_ended = !self.columns.is_empty() && self.rows.len() == self.columns.len();
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((first, cells)) = words.split_first() else { return Ok(None) };
        let Some(row) = first.parse().ok().filter(|_| !is_ended) else { return Ok(None) };
        if cells.len() != self.columns.len() && !cells.iter().any(|cell| may_be_cell(cell, "-")) {
            return Ok(None);
        }
        // A NUMA node without processors has a column and no row.
        let is_known = self.columns.contains(&row);
        if cells.len() != self.columns.len() || !is_known {
            return Err(format!("a row of a matrix does not fit its header: {}", quote_text(line)));
        }
        if !self.rows.contains(&row) {
            self.rows.push(row);
        }
        let mut pairs = Vec::new();
        for (column, cell) in self.columns.iter().copied().zip(cells) {
            // A dash marks a NUMA node without memory, or the node itself.
            if *cell == "-" {
                continue;
            }
            let value = parse_number(cell)
                .ok_or_else(|| format!("a cell cannot be read: {}", quote_text(cell)))?;
            pairs.push(NodePair { row, column, value });
        }
        Ok(Some(pairs))
    }

    /// Parses a line of the latencies between caches: `Local Socket L2->L2 HIT latency 48.3`, or a line of a matrix
    /// with a title `Remote Socket L2->L2 HITM latency (data address homed in writer socket)`.
    fn caches(&mut self, line: &str, figures: &mut OutputFigures) -> Result<(), String> {
        if line.starts_with("Local Socket") {
            let Some((case, value)) = line.split_once("latency") else { return Ok(()) };
            let value = parse_number(value.trim()).ok_or_else(|| unreadable_line_message(line))?;
            return CaseFigure::latency("cache_to_cache", single_spaced(case), value).push(figures);
        }
        if line.starts_with("Remote Socket") {
            let words = single_spaced(line);
            let found = CACHE_MATRICES.iter().find(|(title, _)| *title == words);
            let (_, case) = found.ok_or_else(|| unreadable_line_message(line))?;
            self.title = Some(case);
            self.columns.clear();
            self.rows.clear();
            return Ok(());
        }
        let header =
            CACHE_HEADERS.iter().find_map(|(begin, node)| Some((line.strip_prefix(begin)?, *node)));
        if let Some((header, node)) = header {
            let nodes = node_numbers(header);
            if nodes.is_empty() || !self.columns.is_empty() && self.columns != nodes {
                return Err(unreadable_line_message(line));
            }
            if self.title.is_none() || !self.rows.is_empty() {
                return Err("the title of a matrix between caches is missing".to_owned());
            }
            self.columns = nodes;
            self.node = node;
            return Ok(());
        }
        let Some(pairs) = self.row(line)? else { return Ok(()) };
        let title = self.title.ok_or("the title of a matrix between caches is missing")?;
        let node = self.node;
        for NodePair { row, column, value } in pairs {
            let case = format!("{title}, writer {node}{row}, reader {node}{column}");
            CaseFigure::latency("cache_to_cache", case, value).push(figures)?;
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
        CaseFigure::bandwidth(format!("{kind}, {}", traffic.to_lowercase()), value).push(figures)
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
        let delay = delay.trim_start_matches('0').parse().unwrap_or(0);
        let case = format!("delay {delay}");
        CaseFigure::latency("loaded_latency", case.clone(), latency).push(figures)?;
        let rate = CaseFigure::bandwidth(case, rate);
        CaseFigure { name: "loaded_bandwidth", ..rate }.push(figures)
    }
}

/// Cell of a matrix between nodes.
struct NodePair {
    row: u64,
    column: u64,
    value: f64,
}

/// Figure with a case and no other configuration.
struct CaseFigure {
    name: &'static str,
    case: String,
    unit: Unit,
    value: f64,
}

impl CaseFigure {
    /// Creates a latency from its value in nanoseconds.
    fn latency(name: &'static str, case: String, nanoseconds: f64) -> Self {
        Self { name, case, unit: Unit::Seconds, value: nanoseconds * 1e-9 }
    }

    /// Creates a bandwidth from its value in MB/s.
    fn bandwidth(case: String, megabytes: f64) -> Self {
        Self { name: "bandwidth", case, unit: Unit::BytesPerSecond, value: megabytes * 1e6 }
    }

    /// Adds the figure.
    ///
    /// Fails for the reasons of [`OutputFigures::push`].
    fn push(self, figures: &mut OutputFigures) -> Result<(), String> {
        let Self { name, case, unit, value } = self;
        let config = OutputConfig { case: Some(case), ..figures.config() };
        let quoted = QuotedStatistic::Single;
        let figure = OutputFigure { of: MEMORY, name: name.to_owned(), unit, value, quoted };
        figures.push(figure, &config)
    }
}

/// Returns the numbers of the nodes in the header of a matrix; empty if the header has other words.
fn node_numbers(header: &str) -> Vec<u64> {
    let numbers: Option<Vec<u64>> =
        header.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers.unwrap_or_default()
}

/// Returns the words of a text with single spaces between them.
fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the section that begins with this line; `None` for other lines.
fn section(line: &str) -> Option<Section> {
    let rest = line.strip_prefix("Measuring ")?;
    Some(match rest {
        _ if rest.starts_with("idle latencies") && rest.contains("in ns") => {
            let order = rest.strip_prefix("idle latencies for ");
            let order = order.and_then(|order| order.split_once("(in ns)"));
            Section::Latencies(order.map(|(order, _)| order.trim().to_owned()))
        }
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
    CaseFigure::latency("latency", "idle".to_owned(), value).push(figures)
}
