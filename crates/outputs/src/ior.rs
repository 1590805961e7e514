//! Reader for IOR: the lines `Max Write` and `Max Read` in two units, rows of repetitions, and the CSV and JSON forms.

use nodegauge_gauge::outputs::{FILES, OutputConfig, OutputFigure, OutputFigures};
use nodegauge_gauge::readers::text::{
    after_label, agree_within, lines, parse_count, parse_document, parse_number, parse_size,
    unreadable_line_message,
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

/// Parses the configuration of the run.
fn config(text: &str, figures: &OutputFigures) -> OutputConfig {
    let tasks = property(text, &["tasks", "clients"]);
    let tasks = tasks.and_then(|words| words.split([' ', '(']).next());
    let access = property(text, &["access"]);
    OutputConfig {
        processes: tasks.and_then(|word| word.parse().ok()),
        block_bytes: property(text, &["xfersize"]).and_then(parse_size),
        file_bytes: file_bytes(text),
        case: property(text, &["api"]).zip(access).map(|(api, access)| format!("{api}, {access}")),
        ..figures.config()
    }
}

/// Returns the number of bytes of all tasks. Returns `None` if it differs from the product of block size, tasks and
/// segments.
fn file_bytes(text: &str) -> Option<u64> {
    let printed = property(text, &["aggregate filesize"])?;
    let bytes = parse_size(printed)?;
    let tasks = property(text, &["tasks", "clients"]).and_then(parse_count)?;
    let block = property(text, &["blocksize"]).and_then(parse_size)?;
    let segments = property(text, &["segments"]).and_then(parse_count).unwrap_or(1);
    let exact = block.checked_mul(tasks)?.checked_mul(segments)?;
    // The printed size has two decimals, and its value is at least one of its unit.
    let is_same =
        bytes == exact || printed.contains('.') && agree_within(bytes as f64, exact as f64, 5e-3);
    is_same.then_some(bytes)
}

/// Parses the best rates, and the operation rates in the summary.
fn table(text: &str, figures: &mut OutputFigures) -> Result<(), String> {
    let config = config(text, figures);
    is_transfer_size_consistent(text, config.block_bytes)?;
    for (label, name) in BEST {
        let mut found = lines(text).filter_map(|line| line.strip_prefix(label));
        let Some(line) = found.next() else {
            if name == "read" && figures.is_empty() && has_row(text, name) {
                return Err("its best rates are missing".to_owned());
            }
            continue;
        };
        if found.next().is_some_and(|other| other != line) {
            return Err(format!("it has several lines {label:?}"));
        }
        let (mebi, mega) =
            line.split_once("MiB/sec").ok_or_else(|| unreadable_line_message(line))?;
        let mega = mega.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix("MB/sec)"));
        let rates = parse_number(mebi.trim()).zip(mega.map(str::trim).and_then(parse_number));
        let (binary, decimal) = rates.ok_or_else(|| unreadable_line_message(line))?;
        if !agree_within(binary * MEBI, decimal * 1e6, 1e-4 + 1e4 / (decimal * 1e6).max(1.0)) {
            return Err(format!("the two rates of {label:?} contradict each other"));
        }
        let figure = OutputFigure {
            of: FILES,
            name: name.to_owned(),
            unit: Unit::BytesPerSecond,
            value: binary * MEBI,
            quoted: QuotedStatistic::Best,
        };
        figures.push(figure, &config)?;
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

/// Checks the transfer size in the description of the run: it must be a whole number of words, and agree with the rows
/// of the repetitions and with the summary.
///
/// Fails if it does not.
fn is_transfer_size_consistent(text: &str, bytes: Option<u64>) -> Result<(), String> {
    // IOR transfers whole words of 8 bytes.
    if bytes.is_some_and(|bytes| bytes % 8 != 0) {
        return Err("its transfer size is not a multiple of the word size".to_owned());
    }
    let mut columns: Option<usize> = None;
    let mut at = 0;
    let mut has_operations = false;
    for line in lines(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The summary of version 2 has a column for data rates and one for transfers.
        has_operations |= line.starts_with("Operation ") && line.contains("Max (OPs)");
        if has_operations
            && let ["write" | "read", data, _, _, _, transfers, ..] = words[..]
            && let (Some(data), Some(transfers)) = (parse_number(data), parse_number(transfers))
            && bytes.is_some_and(|bytes| {
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
            && let (Some(bytes), Some(printed)) = (bytes, parse_number(words[at]))
            && (printed * 1024.0 - bytes as f64).abs() > 16.0
        {
            return Err("the transfer sizes of its rows and of its description differ".to_owned());
        }
    }
    Ok(())
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
    for row in summary {
        let name = row.get("operation").and_then(Value::as_str).ok_or("a row has no operation")?;
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
            case: row.get("API").and_then(Value::as_str).map(str::to_owned),
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
