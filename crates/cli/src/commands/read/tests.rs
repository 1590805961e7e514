//! Tests with the outputs in `tests/corpus`, which has the expected figures next to each file, and with mutations of
//! these outputs. A mutated output gives the correct figures, fewer correct figures, or a refusal.

use crate::gauges::GAUGES;
use nodegauge_gauge::readers::{self, GivenRunProperties, ParsedRun, ReadContext};
use nodegauge_measure::printed;
use nodegauge_measure::record::{Machine, Measurement, Status};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Folder of the corpus.
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus");
/// Keys that distinguish the figures of an output.
const KEYS: [&str; 9] =
    ["case", "message_bytes", "file_bytes", "block_bytes", "nb", "n", "device", "peer", "element"];
/// Number of mutations of which one is tried, unless `CORPUS_MUTATIONS` is `all`.
const ONE_IN: usize = 40;
/// Maximum number of mutations per text, unless all are tried.
const MAX_MUTATIONS: usize = 6;
/// Texts in which one line makes the figures invalid. Without this line, the figures are suspect.
const INVALID_BY_A_LINE: [&str; 5] = [
    "hpl/1.0a-failed.txt",
    "hpl/2.3-recorded-failed.txt",
    "stream/5.10-gcc-overflow.txt",
    "stream/5.10-loop-serial.txt",
    "stream/5.10-recorded-gcc-corrupt-2t.txt",
];

/// Returns the texts of the corpus, sorted by path.
fn texts() -> Vec<PathBuf> {
    let chosen = std::env::var("CORPUS").unwrap_or_default();
    let mut found = Vec::new();
    for program in std::fs::read_dir(CORPUS).unwrap() {
        let program = program.unwrap().path();
        if !program.is_dir() || !chosen.is_empty() && !program.ends_with(&chosen) {
            continue;
        }
        for text in std::fs::read_dir(program).unwrap() {
            let text = text.unwrap().path();
            if text.extension().is_some_and(|ending| ending == "txt") {
                found.push(text);
            }
        }
    }
    found.sort();
    found
}

/// Returns the path of a text within the corpus.
fn name(path: &Path) -> String {
    path.strip_prefix(CORPUS).unwrap().display().to_string()
}

/// Reads a text. The error is the reason why nothing was read.
fn read(bytes: &[u8]) -> Result<Vec<ParsedRun>, String> {
    let text = printed::decode(bytes.to_vec())?;
    let context =
        ReadContext { machine: &Machine::default(), known: &GivenRunProperties::default() };
    let runs = readers::read(&readers::all(&GAUGES), &text, &context);
    runs.map_err(|error| error.into_failure("the text").single_line())
}

/// Describes a figure in one line: name, value, statistic, configuration.
fn in_words(m: &Measurement) -> String {
    let value = m.value.map_or("none".to_owned(), |value| format!("{value:e}"));
    let statistic = serde_json::to_value(m.quoted).unwrap();
    let statistic = statistic.as_str().unwrap_or_default();
    let mut line = format!("{} {} {} {value} {} {statistic}", m.gauge, m.test, m.name, m.unit);
    for key in KEYS {
        if let Some(setting) = m.config.get(key) {
            let _ = write!(line, " {key}={setting}");
        }
    }
    if m.validity.status != Status::Valid {
        let _ = write!(line, " {}", m.validity.status.name());
    }
    line
}

/// Describes the runs and figures in a text, one per line.
fn figures_in_words(read: &Result<Vec<ParsedRun>, String>) -> String {
    let runs = match read {
        Ok(runs) => runs,
        // The reason lists all programs.
        Err(reason) if reason.contains(" is not the output of ") => {
            return "refused: no program is recognised\n".to_owned();
        }
        Err(reason) => return format!("refused: {reason}\n"),
    };
    let mut words = String::new();
    for run in runs {
        let version = run.version.as_deref().unwrap_or("?");
        let _ = write!(words, "{} {version}", run.program);
        match &run.printed {
            Ok(printed) => {
                let cut = printed
                    .truncation_reason()
                    .map(|reason| format!(", cut: {reason}"))
                    .unwrap_or_default();
                let _ = writeln!(words, "{cut}");
                for m in &printed.measurements {
                    let _ = writeln!(words, "  {}", in_words(m));
                }
            }
            Err(why) => {
                let _ = writeln!(words, ", unread: {}", why.cause);
            }
        }
    }
    words
}

#[test]
fn corpus_has_the_expected_figures() {
    let is_update = std::env::var_os("UPDATE_CORPUS").is_some();
    let mut different = Vec::new();
    let mut unread = 0;
    let all = texts();
    for path in &all {
        let words = figures_in_words(&read(&std::fs::read(path).unwrap()));
        unread += usize::from(words.starts_with("refused:") || words.contains(", unread:"));
        let expected_file = path.with_extension("expected");
        let expected = std::fs::read_to_string(&expected_file).unwrap_or_default();
        if expected != words {
            if is_update {
                std::fs::write(expected_file, &words).unwrap();
            } else {
                let lines = expected.lines().zip(words.lines()).find(|(one, other)| one != other);
                different.push(format!("{}: {lines:?}", name(path)));
            }
        }
    }
    assert!(different.is_empty(), "UPDATE_CORPUS=1 writes the figures: {different:#?}");
    let is_whole = std::env::var_os("CORPUS").is_none();
    assert!(!is_whole || 20 * unread <= all.len(), "{unread} of {} are not read", all.len());
    assert!(!is_whole || all.len() >= 200, "{}", all.len());
}

/// Figure in an output, without its validity.
#[derive(Debug, Clone, PartialEq)]
struct CorpusFigure {
    figure: String,
    config: Vec<(&'static str, String)>,
}

impl CorpusFigure {
    fn from_measurement(m: &Measurement) -> Self {
        let key = |key: &'static str| Some((key, m.config.get(key)?.to_string()));
        let value = m.value.unwrap_or_default();
        Self {
            figure: format!("{} {} {} {value:e} {}", m.gauge, m.test, m.name, m.unit),
            config: KEYS.into_iter().filter_map(key).collect(),
        }
    }

    /// True if the whole output contains this figure of a mutated output, which may lack keys of the figure. The line
    /// with which nccl-tests name the operation of all figures may also be missing.
    fn is_in(&self, whole: &[Self]) -> bool {
        whole.iter().any(|known| {
            let is_same = known.figure == self.figure || known.equals_without_operation(self);
            is_same && self.config.iter().all(|key| known.config.contains(key))
        })
    }

    /// True if `other` is this figure of nccl-tests as it is read if the operation is unknown.
    fn equals_without_operation(&self, other: &Self) -> bool {
        const TEST: &str = "network network_output ";
        let Some(named) = self.figure.strip_prefix(TEST) else { return false };
        let Some(unnamed) = other.figure.strip_prefix(TEST) else { return false };
        let rest = named.split_once(' ').map_or("", |(_, rest)| rest);
        unnamed.strip_prefix("collective ") == Some(rest)
    }
}

/// Returns the figures that have a value.
fn values(read: &Result<Vec<ParsedRun>, String>) -> Vec<CorpusFigure> {
    let runs = read.iter().flatten().filter_map(|run| run.printed.as_ref().ok());
    let figures = runs.flat_map(|run| &run.measurements);
    figures
        .filter(|m| m.value.is_some() && m.validity.status != Status::Invalid)
        .map(CorpusFigure::from_measurement)
        .collect()
}

/// Returns the numbers in a line.
fn numbers(line: &str) -> impl Iterator<Item = f64> {
    line.split(|c: char| !(c.is_ascii_digit() || ".eE+-".contains(c)))
        .filter_map(|word| word.parse().ok())
}

/// True if a number in the line is one of the values, in any unit.
fn has_value(line: &str, values: &[f64]) -> bool {
    const SCALES: [f64; 4] = [1.0, 1.048576, 1.024, 1.073741824];
    numbers(line).filter(|number| *number > 0.0).any(|number| {
        values.iter().any(|value| {
            let ratio = value / number;
            SCALES.iter().flat_map(|scale| [*scale, 1.25 * scale]).any(|scale| {
                let power = (ratio / scale).log10();
                (power - power.round()).abs() < 1e-7
            })
        })
    })
}

/// Returns mutated texts, each with the name of its mutation.
fn mutations(text: &str, values: &[f64]) -> Vec<(String, Vec<u8>)> {
    const UNITS: [(&str, &str); 12] = [
        ("MB/s", "GB/s"),
        ("GB/s", "MB/s"),
        ("(us)", "(ms)"),
        ("usec", "msec"),
        ("MiB", "GiB"),
        ("ns", "us"),
        ("Gflops", "Tflops"),
        ("MBytes", "GBytes"),
        ("Mbytes", "Gbytes"),
        ("MByte", "GByte"),
        ("ms", "us"),
        ("sec", "ms"),
    ];
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (at, line) in lines.iter().enumerate() {
        let with = |other: String| lines[..at].concat() + &other + &lines[at + 1..].concat();
        all.push((format!("line {} dropped", at + 1), with(String::new()).into_bytes()));
        all.push((format!("line {} doubled", at + 1), with(line.repeat(2)).into_bytes()));
        // A number that is 0 may belong to a figure.
        let is_row = line.split_whitespace().all(|word| word.parse::<u64>().is_ok());
        let has_zero = line.contains(" 0.0") || is_row && line.contains(" 0 ");
        let is_value = has_value(line, values) || has_zero;
        for (unit, other) in UNITS {
            let is_word = line.match_indices(unit).any(|(from, _)| {
                let before = line[..from].chars().next_back();
                before.is_none_or(|c| !c.is_ascii_lowercase() || unit.len() > 3)
            });
            if is_word {
                all.push((
                    format!("line {}: {unit} is {other}", at + 1),
                    with(line.replace(unit, other)).into_bytes(),
                ));
            }
        }
        // fio prints the file size only once; a run that ends at its time limit moves any part of the file. The rate of
        // a mix is the sum of two printed rates.
        let key = line.split(':').next().unwrap_or_default().trim();
        let keeps_digits = is_value || ["\"size\"", "\"bw_bytes\""].contains(&key);
        for (place, digit) in
            line.char_indices().filter(|(_, c)| c.is_ascii_digit() && !keeps_digits)
        {
            let other = if digit == '9' { '1' } else { '9' };
            let changed = format!("{}{other}{}", &line[..place], &line[place + 1..]);
            all.push((format!("line {}: digit {place}", at + 1), with(changed).into_bytes()));
        }
        if is_value {
            for word in ["nan", "inf", "1e400", "-1.0"] {
                let first = line.find('.').unwrap_or(0);
                let begin = line[..first]
                    .rfind(|c: char| !c.is_ascii_digit())
                    .map_or(0, |before| before + 1);
                let end = line[first..]
                    .find(|c: char| !(c.is_ascii_digit() || c == '.'))
                    .map_or(line.len(), |behind| first + behind);
                if first > 0 && begin < first && line.is_char_boundary(begin) {
                    let changed = format!("{}{word}{}", &line[..begin], &line[end..]);
                    all.push((format!("line {}: {word}", at + 1), with(changed).into_bytes()));
                }
            }
        }
    }
    for cut in (0..text.len()).step_by(10) {
        all.push((format!("cut at {cut}"), text.as_bytes()[..cut].to_vec()));
    }
    let half = text.len() / 2;
    let zero = [&text.as_bytes()[..half], b"\0\0", &text.as_bytes()[half..]].concat();
    all.push(("NUL".to_owned(), zero));
    let bytes: Vec<char> = text.chars().collect();
    let mut commas = String::new();
    for (at, c) in bytes.iter().enumerate() {
        let is_decimal = *c == '.'
            && at > 0
            && bytes[at - 1].is_ascii_digit()
            && bytes.get(at + 1).is_some_and(char::is_ascii_digit);
        commas.push(if is_decimal { ',' } else { *c });
    }
    all.push(("commas".to_owned(), commas.into_bytes()));
    all.push(("UTF-16".to_owned(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()));
    all
}

/// Numbers of mutated texts by what is read from them.
#[derive(Debug, Default)]
struct MutationCounts {
    /// Mutations from which all figures are read.
    right: usize,
    /// Mutations from which fewer figures are read, and a run or a figure is named as incomplete, or a run is not read.
    fewer_named: usize,
    /// Mutations from which fewer figures are read without a remark, e.g. if a row is missing in a table whose number
    /// of rows is unknown.
    fewer: usize,
    /// Mutations from which no figures are read, with a reason.
    refused: usize,
    /// Figures that the text does not have.
    wrong: Vec<String>,
}

impl MutationCounts {
    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.fewer_named += other.fewer_named;
        self.fewer += other.fewer;
        self.refused += other.refused;
        self.wrong.extend(other.wrong);
    }
}

/// True if a run is not read, or a figure is suspect.
fn has_notice(read: &Result<Vec<ParsedRun>, String>) -> bool {
    read.iter().flatten().any(|run| match &run.printed {
        Ok(printed) => printed.measurements.iter().any(|m| m.validity.status != Status::Valid),
        Err(_) => true,
    })
}

/// Reads mutations of the text in a file, of which one in `one_in` is tried, and counts them by result.
fn mutation_counts(path: &Path, one_in: usize) -> MutationCounts {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let whole = read(text.as_bytes());
    let known = values(&whole);
    let figures = whole.iter().flatten().filter_map(|run| run.printed.as_ref().ok());
    let numbers: Vec<f64> =
        figures.flat_map(|run| &run.measurements).filter_map(|m| m.value).collect();
    let mut counts = MutationCounts::default();
    let all = mutations(&text, &numbers);
    let one_in = if one_in == 1 { 1 } else { one_in.max(all.len() / MAX_MUTATIONS) };
    for (at, (what, bytes)) in all.into_iter().enumerate() {
        if at % one_in != name(path).len() % one_in {
            continue;
        }
        let mutation = read(&bytes);
        let found = values(&mutation);
        let may_be_suspect = INVALID_BY_A_LINE.contains(&name(path).as_str());
        if may_be_suspect && has_notice(&mutation) {
            counts.fewer_named += 1;
        } else if let Some(first) = found.iter().find(|figure| !figure.is_in(&known)) {
            counts.wrong.push(format!("{}, {what}: {first:?}", name(path)));
        } else if found.is_empty() {
            counts.refused += 1;
        } else if found.len() >= known.len() {
            counts.right += 1;
        } else if has_notice(&mutation) {
            counts.fewer_named += 1;
        } else {
            counts.fewer += 1;
        }
    }
    counts
}

#[test]
fn mutated_corpus_has_no_false_figure() {
    let one_in =
        if std::env::var("CORPUS_MUTATIONS").is_ok_and(|of| of == "all") { 1 } else { ONE_IN };
    let mut counts = MutationCounts::default();
    for path in texts() {
        counts.add(mutation_counts(&path, one_in));
    }
    let MutationCounts { right, fewer_named, fewer, refused, wrong } = counts;
    let summary = format!(
        "{right} right, {fewer_named} fewer figures with a notice, {fewer} without, {refused} refused, {} wrong",
        wrong.len()
    );
    if let Some(file) = std::env::var_os("CORPUS_COUNTS") {
        std::fs::write(file, format!("{summary}\n{}\n", wrong.join("\n"))).unwrap();
    }
    let first = &wrong[..wrong.len().min(60)];
    assert!(wrong.is_empty(), "{summary}: {first:#?}");
    // Some mutations change nothing that is read, and others make a text unreadable.
    let is_whole = std::env::var_os("CORPUS").is_none();
    assert!(!is_whole || right > 0 && fewer_named > 0 && refused > 0, "{summary}");
}

#[test]
fn bom_and_crlf_keep_figures_and_utf_16_is_refused() {
    for path in texts() {
        let text = std::fs::read(&path).unwrap();
        let whole = values(&read(&text));
        let text = String::from_utf8_lossy(&text).into_owned();
        if !text.contains('\r') {
            let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
            assert_eq!(values(&read(marked.as_bytes())), whole, "{}", name(&path));
        }
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(read(&wide).is_err(), "{}", name(&path));
    }
}
