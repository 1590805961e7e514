//! Functions that the benches share: environment variables, other programs, output, and result files.
#![allow(dead_code)]

use nodegauge_machine::{DescribeOptions, SysRoot, Topology, TopologySource};
use nodegauge_measure::record::{Record, now_rfc3339};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// Returns the value of an environment variable; `None` if it is not set or cannot be parsed.
pub fn variable<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().filter(|value| !value.is_empty())?.parse().ok()
}

/// True if a program can be started.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs nodegauge without saving and returns the record.
pub fn nodegauge(args: &[&str]) -> Record {
    nodegauge_program(args, &[])
}

/// Runs nodegauge with a program, without saving, and returns the record.
pub fn nodegauge_program(args: &[&str], program: &[&str]) -> Record {
    let output = Command::new(env!("CARGO_BIN_EXE_nodegauge"))
        .args(args)
        .args(["--no-save", "--json", "-"])
        .args(program)
        .output()
        .expect("nodegauge runs");
    serde_json::from_slice(&output.stdout).expect("a record")
}

/// Runs a kernel of likwid-bench in a work group, with `more` arguments. Returns the figure after `label` in base
/// units.
pub fn likwid_bench(kernel: &str, group: &str, label: &str, more: &[&str]) -> Option<f64> {
    let args = ["-t", kernel, "-w", group];
    let output = Command::new("likwid-bench").args(args).args(more).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.lines().find_map(|line| line.strip_prefix(label))?;
    // likwid-bench may print its first note on the same line.
    let digits: String =
        number.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse::<f64>().ok().map(|millions| millions * 1e6)
}

/// Prints Markdown for the documentation to standard output.
#[allow(clippy::print_stdout)]
pub fn print(text: &str) {
    println!("{text}");
}

/// Prints progress and omissions to standard error.
#[allow(clippy::print_stderr)]
pub fn note(text: &str) {
    eprintln!("{text}");
}

/// Version of a peer whose version cannot be read.
pub const UNKNOWN: &str = "unknown";

/// Returns the first version number in the output of a command, e.g. `5.2.2`.
pub fn version_of(program: &str, args: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(args).output() else { return UNKNOWN.to_owned() };
    let text = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&text), "")
}

/// Returns the first version number after `label` in a source file.
pub fn version_in_file(path: &Path, label: &str) -> String {
    version_in(&std::fs::read_to_string(path).unwrap_or_default(), label)
}

fn version_in(text: &str, label: &str) -> String {
    let Some((_, rest)) = text.split_once(label) else { return UNKNOWN.to_owned() };
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit() && c != '.');
    let is_version = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.trim_end_matches('.').contains('.')
    };
    let found = numbers.find(is_version);
    found.map_or(UNKNOWN, |version| version.trim_end_matches('.')).to_owned()
}

/// Best and median of a figure, or of a ratio.
#[derive(Clone, Copy, Default)]
pub struct BestAndMedian {
    pub best: Option<f64>,
    pub median: Option<f64>,
}

impl BestAndMedian {
    pub fn both(best: f64, median: f64) -> Self {
        Self { best: Some(best), median: Some(median) }
    }

    pub fn best(best: f64) -> Self {
        Self { best: Some(best), median: None }
    }

    pub fn median(median: f64) -> Self {
        Self { best: None, median: Some(median) }
    }

    /// Returns the ratio to another figure.
    pub fn ratio_to(self, other: Self) -> Self {
        let ratio = |mine: Option<f64>, theirs: Option<f64>| Some(mine? / theirs?);
        Self { best: ratio(self.best, other.best), median: ratio(self.median, other.median) }
    }

    /// Returns both figures multiplied by `factor`.
    pub fn scaled(self, factor: f64) -> Self {
        let scaled = |figure: Option<f64>| figure.map(|figure| figure * factor);
        Self { best: scaled(self.best), median: scaled(self.median) }
    }
}

/// Comparison of nodegauge with a peer in one quantity: a row in a result file (benches/results/README.md).
pub struct Comparison {
    /// Key in benches/results/peers.csv.
    pub peer: &'static str,
    pub version: String,
    pub quantity: String,
    pub unit: &'static str,
    /// Figures of nodegauge and of the peer, in `unit`.
    pub own: BestAndMedian,
    pub theirs: BestAndMedian,
    /// Ratio, above 1 if nodegauge is better.
    pub ratio: BestAndMedian,
    /// Noise of the ratio: the deviation from 1 between two runs of the same program, or the range over all rounds;
    /// empty if it is unknown.
    pub noise: String,
}

impl Comparison {
    /// Creates a comparison of rates, in `unit`, with unknown noise.
    pub fn from_rates(
        peer: &'static str,
        quantity: String,
        unit: &'static str,
        own: BestAndMedian,
        theirs: BestAndMedian,
    ) -> Self {
        let version = UNKNOWN.to_owned();
        let ratio = own.ratio_to(theirs);
        Self { peer, version, quantity, unit, own, theirs, ratio, noise: String::new() }
    }

    /// Creates a comparison of times, in `unit`, with unknown noise.
    pub fn from_times(
        peer: &'static str,
        quantity: String,
        unit: &'static str,
        own: BestAndMedian,
        theirs: BestAndMedian,
    ) -> Self {
        let ratio = theirs.ratio_to(own);
        Self { ratio, ..Self::from_rates(peer, quantity, unit, own, theirs) }
    }

    pub fn with_version(self, version: impl Into<String>) -> Self {
        Self { version: version.into(), ..self }
    }

    pub fn with_noise(self, noise: String) -> Self {
        Self { noise, ..self }
    }

    fn row(&self, date: &str, commit: &str) -> String {
        let text = |text: &str| text.replace(',', ";").replace('\n', " ");
        let number = |value: Option<f64>| value.map(four_digits).unwrap_or_default();
        let ratio = |value: Option<f64>| {
            value.filter(|value| value.is_finite()).map(|v| format!("{v:.3}")).unwrap_or_default()
        };
        [
            self.peer.to_owned(),
            text(&self.version),
            text(&self.quantity),
            date.to_owned(),
            commit.to_owned(),
            self.unit.to_owned(),
            number(self.own.best),
            number(self.own.median),
            number(self.theirs.best),
            number(self.theirs.median),
            ratio(self.ratio.best),
            ratio(self.ratio.median),
            text(&self.noise),
        ]
        .join(",")
    }
}

/// Formats the range of ratios, as the noise of a [`Comparison`].
pub fn range(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{least:.3}..{most:.3}")
}

/// Formats a number with four significant digits.
fn four_digits(value: f64) -> String {
    let digits = 3.0 - value.abs().max(1e-6).log10().floor();
    format!("{value:.*}", digits.clamp(0.0, 9.0) as usize)
}

const COLUMNS: &str = "peer,version,quantity,date,commit,unit,own_best,own_median,peer_best,peer_median,best_ratio,median_ratio,noise";

/// Writes the result file of a bench for this processor. Rows of peers that were not measured are kept.
pub fn write_results(bench: &str, comparisons: &[Comparison]) {
    let has_ratio = |c: &&Comparison| c.ratio.best.or(c.ratio.median).is_some_and(f64::is_finite);
    let comparisons: Vec<&Comparison> = comparisons.iter().filter(has_ratio).collect();
    if comparisons.is_empty() {
        note("no peer was measured: no result file");
        return;
    }
    let (processor, machine) = this_machine();
    let folder = root().join("benches/results");
    let path = folder.join(format!("{bench}-{}.csv", file_name(&processor)));
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let is_measured = |row: &str| comparisons.iter().any(|c| row.split(',').next() == Some(c.peer));
    let is_kept = |row: &&str| !row.starts_with('#') && *row != COLUMNS && !is_measured(row);
    let date = now_rfc3339();
    let date = date.split('T').next().unwrap_or_default();
    let commit = commit();
    let mut lines = vec![
        format!("# processor: {processor}"),
        format!("# machine: {machine}"),
        COLUMNS.to_owned(),
    ];
    lines.extend(known.lines().filter(is_kept).map(str::to_owned));
    lines.extend(comparisons.iter().map(|comparison| comparison.row(date, &commit)));
    std::fs::write(&path, lines.join("\n") + "\n").expect("the result file");
    note(&format!("wrote {}; scripts/benchmarks makes the tables of the chapter", path.display()));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the name of the processor and the description of the machine.
fn this_machine() -> (String, String) {
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let machine =
        nodegauge_machine::describe(&topology, &SysRoot::live(), &DescribeOptions::default());
    let processor = &machine.processor;
    let model = processor.model.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let name = processor.microarchitecture.clone().unwrap_or_else(|| model.clone());
    (name, format!("{} CPUs; {model}", processor.threads))
}

/// Converts a name to a file name: lower-case letters, digits and hyphens.
fn file_name(processor: &str) -> String {
    let words =
        processor.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// Returns the commit of the repository, with a `+` if files were changed.
fn commit() -> String {
    let git = |args: &[&str]| Command::new("git").arg("-C").arg(root()).args(args).output().ok();
    let head = git(&["rev-parse", "--short=8", "HEAD"]).filter(|output| output.status.success());
    let Some(head) = head else { return UNKNOWN.to_owned() };
    let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
    // Result files that other benches have just written do not count as changes.
    let changes = git(&["diff", "--quiet", "HEAD", "--", ":!benches/results", ":!docs"]);
    let is_changed = changes.is_none_or(|output| !output.status.success());
    if is_changed { head + "+" } else { head }
}
