//! Reader for IOR: the lines `Max Write` and `Max Read` in two units, rows of repetitions, and the CSV and JSON forms.

use nodegauge_gauge::outputs::{FILES, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    after_label, agree_within, lines, parse_count, parse_document, parse_number, parse_size,
    rounding_error, unreadable_line_message,
};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};
use nodegauge_measure::Unit;
use nodegauge_measure::record::QuotedStatistic;
use serde_json::Value;

/// Reader for the output of IOR.
pub(crate) struct Ior;

/// Header of the CSV form, in version 3.2 and later.
const CSV: &str = "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter";
/// Labels of the best rates.
const BEST: [(&str, &str); 2] = [("Max Write:", "write"), ("Max Read:", "read")];
/// Bytes of a mebibyte.
const MEBI: f64 = 1_048_576.0;
/// Bytes of a word, of which transfers consist.
const WORD: u64 = 8;

impl Reader for Ior {
    fn program(&self) -> &'static str {
        "IOR"
    }

    fn doubts(&self) -> &'static str {
        "no line `Finished`: suspect; rates in MiB/s and MB/s that contradict each other are an error"
    }

    fn first_characters(&self) -> &'static str {
        "IaFR{\""
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        if version(line).is_some() || line == CSV {
            return Some(RunMark::TITLE);
        }
        if line.contains("\"bwMaxMIB\"") {
            return Some(RunMark::DOCUMENT);
        }
        is_end(line).then_some(RunMark::weak(2))
    }

    fn version(&self, text: &str) -> Option<String> {
        lines(text).find_map(version)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let mut figures = OutputFigures::new("ior", self.version(text));
        let first = text.lines().next().unwrap_or_default().trim();
        if first.starts_with('{') {
            json(text, &mut figures)?;
            return Ok(figures.finish(None));
        }
        if first == CSV {
            read_csv_rows(text, &mut figures)?;
            return Ok(figures.finish(None));
        }
        table(text, &mut figures)?;
        let missing = !lines(text).any(is_end);
        Ok(figures.finish(missing.then_some("the line \"Finished\" of IOR is missing")))
    }
}

/// Parses the version in a title: `IOR-3.3.0: MPI Coordinated Test of Parallel I/O`.
fn version(line: &str) -> Option<String> {
    let (version, rest) = line.strip_prefix("IOR-")?.split_once(':')?;
    rest.contains("MPI Coordinated Test").then(|| version.trim().to_owned())
}

/// True for the last line of a run.
fn is_end(line: &str) -> bool {
    let rest = line.strip_prefix("Finished").or_else(|| line.strip_prefix("Run finished"));
    rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
}

/// Returns the value in a line `label : value` or `label = value`; the first of `labels` that occurs is used.
fn property<'a>(text: &'a str, labels: &[&str]) -> Option<&'a str> {
    labels.iter().find_map(|label| {
        let rest = after_label(text, label)?;
        Some(rest.strip_prefix([':', '='])?.trim())
    })
}

/// Part of the output that belongs to one test. A script has several tests.
#[derive(Debug)]
struct TestPart<'a> {
    /// Number of the test, from 0.
    number: u64,
    text: &'a str,
}

/// Returns the end of the case of a test; empty for the first test.
fn test_case(number: u64) -> String {
    if number == 0 { String::new() } else { format!(", test {number}") }
}

/// Returns the number in the first line of a test: `TestID : 1`, or `Test 1 started: ...`.
fn test_number(line: &str) -> Option<u64> {
    if let Some(rest) = line.strip_prefix("TestID") {
        return rest.trim_start().strip_prefix(':')?.trim().parse().ok();
    }
    let (number, _) = line.strip_prefix("Test ")?.split_once(" started:")?;
    number.parse().ok()
}

/// Splits a text at the first line of each test. The first part includes the lines before it. Version 2 does not print
/// the numbers of the tests.
///
/// Fails if a test is missing.
fn tests(text: &str) -> Result<Vec<TestPart<'_>>, String> {
    let is_numbered = lines(text).any(|line| test_number(line).is_some());
    let mut begins: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        let number = if is_numbered {
            test_number(words)
        } else {
            (words == "Summary:").then_some(begins.len() as u64)
        };
        if let Some(number) = number {
            if number != begins.len() as u64 {
                return Err(format!("its test {} is missing", begins.len()));
            }
            begins.push(at);
        }
        at += line.len();
    }
    begins.drain(..begins.len().min(1));
    let ends = begins.iter().copied().chain([text.len()]);
    let mut begin = 0;
    let mut parts = Vec::new();
    for (number, end) in (0..).zip(ends) {
        parts.push(TestPart { number, text: &text[begin..end] });
        begin = end;
    }
    Ok(parts)
}

/// Size as printed. Sizes that are not a multiple of their unit have two decimals.
#[derive(Debug, Clone, Copy)]
struct PrintedSize {
    bytes: u64,
    /// Rounding error, bytes; 0 for an exact size.
    error: f64,
}

impl PrintedSize {
    /// Parses a size: `65536 bytes`, `1.43 MiB`.
    fn parse(text: &str) -> Option<Self> {
        let bytes = parse_size(text)?;
        let (number, unit) = text.trim().split_once(' ')?;
        let unit = parse_size(&format!("1 {unit}"))?;
        let is_rounded = number.contains('.');
        let error = if is_rounded { rounding_error(number) * unit as f64 + 1.0 } else { 0.0 };
        Some(Self { bytes, error })
    }

    /// True if this is the size `exact`, apart from rounding.
    fn is(self, exact: u64) -> bool {
        (exact as f64 - self.bytes as f64).abs() <= self.error
    }

    /// Returns the exact size: the printed one, or the one in the summary if the printed one is rounded. Returns `None`
    /// if neither is exact.
    ///
    /// Fails if both contradict each other.
    fn exact(self, in_summary: Option<u64>) -> Result<Option<u64>, String> {
        if in_summary.is_some_and(|exact| !self.is(exact)) {
            return Err("the sizes in its description and in its summary differ".to_owned());
        }
        Ok(in_summary.or(Some(self.bytes).filter(|_| self.error == 0.0)))
    }
}

/// Sizes of a test in the summary of all tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SummarySizes {
    block: u64,
    transfer: u64,
}

/// Returns the sizes of a test in the summary of all tests; `None` if there is no summary.
///
/// Fails if the rows of the test differ.
fn summary_sizes(text: &str, test: u64) -> Result<Option<SummarySizes>, String> {
    let mut columns: Vec<&str> = Vec::new();
    let mut found: Option<SummarySizes> = None;
    for line in lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Operation") {
            columns = words;
            continue;
        }
        let is_row = ["write", "read"].iter().any(|access| words.first() == Some(access));
        if !is_row || words.len() != columns.len() {
            continue;
        }
        let number = |name: &str| {
            let at = columns.iter().position(|column| *column == name)?;
            words[at].parse::<u64>().ok()
        };
        let cells = ["Test#", "blksiz", "xsize"].map(number);
        let [Some(known), Some(block), Some(transfer)] = cells else { continue };
        let sizes = SummarySizes { block, transfer };
        if known != test {
            continue;
        }
        if found.is_some_and(|other| other != sizes) {
            return Err("the sizes in the rows of its summary differ".to_owned());
        }
        found = Some(sizes);
    }
    Ok(found)
}

impl TestPart<'_> {
    /// Parses the configuration of the test.
    ///
    /// Fails if its sizes contradict each other.
    fn config(&self, whole: &str, figures: &OutputFigures) -> Result<OutputConfig, String> {
        let text = self.text;
        let tasks = property(text, &["tasks", "clients"]);
        let tasks = tasks.and_then(|words| words.split([' ', '(']).next());
        let api = property(text, &["api"]);
        let case = api
            .zip(property(text, &["access"]))
            .map(|(api, access)| format!("{api}, {access}{}", test_case(self.number)));
        let summary = summary_sizes(whole, self.number)?;
        Ok(OutputConfig {
            processes: tasks.and_then(|word| word.parse().ok()),
            block_bytes: transfer_bytes(text, summary.map(|sizes| sizes.transfer))?,
            file_bytes: file_bytes(text, summary.map(|sizes| sizes.block))?,
            case,
            ..figures.config()
        })
    }

    /// Parses the best rates. Returns false if there are none.
    fn push_rates(&self, whole: &str, figures: &mut OutputFigures) -> Result<bool, String> {
        let text = self.text;
        let config = self.config(whole, figures)?;
        let mut is_empty = true;
        for (label, name) in BEST {
            let mut found = lines(text).filter_map(|line| line.strip_prefix(label));
            let Some(line) = found.next() else {
                if name == "read" && is_empty && has_row(text, name) {
                    return Err("its best rates are missing".to_owned());
                }
                continue;
            };
            if found.next().is_some_and(|other| other != line) {
                return Err(format!("it has several lines {label:?} in one test"));
            }
            let value = best_rate(label, line)?;
            let figure = OutputFigure {
                of: FILES,
                name: name.to_owned(),
                unit: Unit::BytesPerSecond,
                value,
                quoted: QuotedStatistic::Best,
            };
            figures.push(figure, &config)?;
            is_empty = false;
        }
        Ok(!is_empty)
    }
}

/// Parses the rest of a line `Max Write: 1232.31 MiB/sec (1292.17 MB/sec)`. Returns the rate in B/s.
///
/// Fails if the two rates differ.
fn best_rate(label: &str, line: &str) -> Result<f64, String> {
    let (mebi, mega) = line.split_once("MiB/sec").ok_or_else(|| unreadable_line_message(line))?;
    let mega = mega.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix("MB/sec)"));
    let rates = parse_number(mebi.trim()).zip(mega.map(str::trim).and_then(parse_number));
    let (binary, decimal) = rates.ok_or_else(|| unreadable_line_message(line))?;
    if !agree_within(binary * MEBI, decimal * 1e6, 1e-4 + 1e4 / (decimal * 1e6).max(1.0)) {
        return Err(format!("the two rates of {label:?} contradict each other"));
    }
    Ok(binary * MEBI)
}

/// Returns the number of bytes of all tasks: the product of block size, tasks and segments. Returns `None` if the block
/// size is not known exactly, or if the printed number differs from the product. `block` is the block size in the
/// summary.
fn file_bytes(text: &str, block: Option<u64>) -> Result<Option<u64>, String> {
    let printed = property(text, &["blocksize"]).and_then(PrintedSize::parse);
    let block = match printed {
        Some(printed) => printed.exact(block)?,
        None => None,
    };
    let total = property(text, &["aggregate filesize"]).and_then(PrintedSize::parse);
    let tasks = property(text, &["tasks", "clients"]).and_then(parse_count);
    let segments = property(text, &["segments"]).and_then(parse_count).unwrap_or(1);
    let per_task = block.and_then(|block| block.checked_mul(segments));
    let exact = per_task.zip(tasks).and_then(|(bytes, tasks)| bytes.checked_mul(tasks));
    Ok(exact.filter(|exact| total.is_some_and(|total| total.is(*exact))))
}

/// Parses the best rates of all tests.
fn table(text: &str, figures: &mut OutputFigures) -> Result<(), String> {
    let is_ended = lines(text).any(is_end);
    let tests = tests(text)?;
    for test in &tests {
        let has_rates = test.push_rates(text, figures)?;
        // Only the last test may be incomplete.
        let must_have_rates = is_ended || test.number + 1 < tests.len() as u64;
        if !has_rates && must_have_rates && tests.len() > 1 {
            return Err(format!("its test {} has no best rates", test.number));
        }
    }
    if figures.is_empty() {
        return Err("it has no line \"Max Write:\" or \"Max Read:\"".to_owned());
    }
    Ok(())
}

/// True if the rows of the repetitions contain this kind of access.
fn has_row(text: &str, access: &str) -> bool {
    lines(text).any(|line| line.split_whitespace().next() == Some(access))
}

/// Returns the transfer size of a test; `None` if it is not known exactly. `in_summary` is that in the summary. A
/// rounded size is also known exactly if only one size agrees with a row of the repetitions.
///
/// Fails if the size is not a whole number of words, or if it contradicts the rows of the repetitions or the summary.
fn transfer_bytes(text: &str, in_summary: Option<u64>) -> Result<Option<u64>, String> {
    let Some(printed) = property(text, &["xfersize"]).and_then(PrintedSize::parse) else {
        return Ok(None);
    };
    let exact = printed.exact(in_summary)?;
    // IOR transfers whole words.
    if exact.is_some_and(|bytes| bytes % WORD != 0) {
        return Err("its transfer size is not a multiple of the word size".to_owned());
    }
    let mut columns: Option<usize> = None;
    let mut at = 0;
    let mut has_operations = false;
    let mut in_row: Option<u64> = None;
    for line in lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The summary of version 2 has a column for data rates and one for transfers.
        has_operations |= line.starts_with("Operation ") && line.contains("Max (OPs)");
        if has_operations
            && let ["write" | "read", data, _, _, _, transfers, ..] = words[..]
            && let (Some(data), Some(transfers)) = (parse_number(data), parse_number(transfers))
            && exact.is_some_and(|bytes| {
                !agree_within(data * MEBI, transfers * bytes as f64, 1e-3 + 0.006 / data.max(0.01))
            })
        {
            return Err("its data rate contradicts its rate of transfers".to_owned());
        }
        if let Some(position) = words.iter().position(|word| *word == "xfer(KiB)") {
            columns = Some(words.len());
            at = position;
        } else if columns == Some(words.len())
            && ["write", "read"].contains(&words[0])
            && let Some(kibibytes) = parse_number(words[at])
        {
            let bytes = kibibytes * 1024.0;
            let error = rounding_error(words[at]) * 1024.0 + 1.0;
            let known = exact.unwrap_or(printed.bytes) as f64;
            let slack = if exact.is_some() { error } else { error + printed.error };
            if (bytes - known).abs() > slack {
                return Err(
                    "the transfer sizes of its rows and of its description differ".to_owned()
                );
            }
            in_row = only_multiple(bytes - error, bytes + error);
        }
    }
    Ok(exact.or(in_row))
}

/// Returns the multiple of the word size in a range; `None` if there are several.
fn only_multiple(least: f64, most: f64) -> Option<u64> {
    let word = WORD as f64;
    let [first, last] = [(least / word).ceil(), (most / word).floor()];
    (first == last && first > 0.0).then_some((first * word) as u64)
}

/// Parses the rows of the CSV form. The figure of each kind of access is its best rate.
fn read_csv_rows(text: &str, figures: &mut OutputFigures) -> Result<(), String> {
    let mut best: Vec<(String, f64, OutputConfig)> = Vec::new();
    for line in lines(text).skip(1) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if !["write", "read"].contains(&cells[0]) {
            continue;
        }
        if cells.len() != CSV.split(',').count() {
            return Err(unreadable_line_message(line));
        }
        let numbers: Option<Vec<f64>> = cells[1..].iter().map(|cell| parse_number(cell)).collect();
        let numbers = numbers.ok_or_else(|| unreadable_line_message(line))?;
        let config = OutputConfig {
            block_bytes: Some((numbers[4] * 1024.0) as u64),
            processes: Some(numbers[9] as u64),
            ..figures.config()
        };
        match best.iter_mut().find(|(name, _, known)| *name == cells[0] && *known == config) {
            Some((_, rate, _)) => *rate = rate.max(numbers[0]),
            None => best.push((cells[0].to_owned(), numbers[0], config)),
        }
    }
    for (name, rate, config) in best {
        let figure = OutputFigure {
            of: FILES,
            name,
            unit: Unit::BytesPerSecond,
            value: rate * MEBI,
            quoted: QuotedStatistic::Best,
        };
        figures.push(figure, &config)?;
    }
    Ok(())
}

/// Returns a whole number from a row of JSON.
fn whole(row: &Value, key: &str) -> Option<u64> {
    row.get(key).and_then(Value::as_u64)
}

/// Parses the summary of the JSON form.
fn json(text: &str, figures: &mut OutputFigures) -> Result<(), String> {
    let document = parse_document(text)?;
    let summary = document.get("summary").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut tests = 0;
    for row in summary {
        // The rows of a test follow each other.
        let test = whole(row, "TestID").unwrap_or(0);
        if test == tests {
            tests += 1;
        } else if test + 1 != tests {
            return Err(format!("its test {tests} is missing"));
        }
        let name = row.get("operation").and_then(Value::as_str).ok_or("a row has no operation")?;
        let api = row.get("API").and_then(Value::as_str);
        let rate = row.get("bwMaxMIB").and_then(Value::as_f64).ok_or("a row has no rate")?;
        let transfer = whole(row, "transferSize");
        let printed = transfer.map(|bytes| bytes as f64 / 1024.0);
        let rows = text.split("\"xferKiB\":").skip(1);
        let mut sizes =
            rows.filter_map(|rest| parse_number(rest.trim_start().split(',').next()?.trim()));
        if sizes.any(|size| printed.is_some_and(|printed| (printed - size).abs() > 1e-4)) {
            return Err("the transfer sizes of its rows and of its summary differ".to_owned());
        }
        let config = OutputConfig {
            block_bytes: transfer,
            processes: whole(row, "numTasks"),
            case: api.map(|api| format!("{api}{}", test_case(test))),
            engine_version: document.get("Version").and_then(Value::as_str).map(str::to_owned),
            ..figures.config()
        };
        let figure = OutputFigure {
            of: FILES,
            name: name.to_owned(),
            unit: Unit::BytesPerSecond,
            value: rate * MEBI,
            quoted: QuotedStatistic::Best,
        };
        figures.push(figure, &config)?;
    }
    Ok(())
}
