//! Figures that other programs print and that have no equivalent in nodegauge: their configuration, their checks, and
//! their section of a page. Each gauge has one test for them.

use crate::readers::PrintedRun;
use crate::view::{ColumnList, Section, TableCell};
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::{count_in_words, format_significant};
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Record, Validity};
use nodegauge_measure::{Bytes, Unit, printed};
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

nodegauge_measure::config! {
    /// Configuration of a figure that another program printed.
    pub struct OutputConfig {
        engine: shared::engine;
        engine_version: shared::engine_version;
        /// Part of the output that contains the figure, in the words of the program: the kind of traffic, the pair of
        /// NUMA nodes, the loop.
        case: String = Identity "case", omits_label;
        message_bytes: shared::message_bytes;
        /// Data that the program uses, per thread or in total, bytes.
        data_bytes: u64 = Size "data", omits_label;
        file_bytes: shared::file_bytes;
        block_bytes: shared::block_bytes;
        device_name: shared::device_name;
        threads: shared::threads;
        processes: shared::processes;
        element: shared::element;
        n: shared::n;
        nb: shared::nb;
        p: shared::p;
        q: shared::q;
        /// Minimum that the program printed with the figure, in the unit of the figure.
        printed_min: f64 = Observation "printed minimum";
        /// Maximum that the program printed with the figure, in the unit of the figure.
        printed_max: f64 = Observation "printed maximum";
    }
}

/// Test of a gauge for figures of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputTest {
    /// Name of the gauge.
    pub gauge: &'static str,
    /// Name of the test.
    pub test: &'static str,
}

/// Figures of memory and caches.
pub const MEMORY: OutputTest = OutputTest { gauge: "memory", test: "memory_output" };
/// Figures of floating-point operations.
pub const COMPUTE: OutputTest = OutputTest { gauge: "compute", test: "compute_output" };
/// Figures of MPI messages.
pub const MESSAGES: OutputTest = OutputTest { gauge: "messages", test: "messages_output" };
/// Figures of files and their metadata.
pub const FILES: OutputTest = OutputTest { gauge: "files", test: "files_output" };
/// Figures of devices and their links.
pub const DEVICE: OutputTest = OutputTest { gauge: "device", test: "device_output" };
/// Figures of networks between nodes or devices.
pub const NETWORK: OutputTest = OutputTest { gauge: "network", test: "network_output" };
/// All tests.
pub const ALL: [OutputTest; 6] = [MEMORY, COMPUTE, MESSAGES, FILES, DEVICE, NETWORK];

/// True if the figure belongs to one of these tests.
pub fn is_output(m: &Measurement) -> bool {
    ALL.iter().any(|of| of.gauge == m.gauge && of.test == m.test)
}

/// Figure that a program printed.
#[derive(Debug, Clone)]
pub struct OutputFigure {
    /// Test of the figure.
    pub of: OutputTest,
    /// Name of the figure.
    pub name: String,
    /// Unit of the value.
    pub unit: Unit,
    /// Value in this unit.
    pub value: f64,
    /// Statistic that the program printed.
    pub quoted: QuotedStatistic,
}

/// Figures of a run of another program.
#[derive(Debug, Clone)]
pub struct OutputFigures {
    config: OutputConfig,
    all: Vec<Measurement>,
    /// Added figures, by the hash of what identifies a figure.
    added: HashMap<u64, Vec<AddedFigure>>,
}

/// Figure that was added to the figures of a run.
#[derive(Debug, Clone, Copy)]
struct AddedFigure {
    /// Position among all figures.
    at: usize,
    /// Value that the program printed; an invalid figure has no value.
    value: f64,
}

impl OutputFigures {
    /// Creates an empty list for a run of the program `engine`.
    pub fn new(engine: &str, version: Option<String>) -> Self {
        let config = OutputConfig {
            engine: Some(engine.to_owned()),
            engine_version: version,
            ..OutputConfig::default()
        };
        Self { config, all: Vec::new(), added: HashMap::new() }
    }

    /// Returns the configuration of the run, to which the figures add their own keys.
    pub fn config(&self) -> OutputConfig {
        self.config.clone()
    }

    /// Adds a figure. A repeated figure with the same value is added once. A value that is not positive is ignored,
    /// e.g. on the diagonal of a matrix.
    ///
    /// Fails if the same figure has two values, or if the value is not a number.
    pub fn push(&mut self, figure: OutputFigure, config: &OutputConfig) -> Result<(), String> {
        self.push_with_validity(figure, config, Validity::valid())
    }

    /// Adds a figure with the given validity.
    ///
    /// Fails for the reasons of [`Self::push`].
    pub fn push_with_validity(
        &mut self,
        figure: OutputFigure,
        config: &OutputConfig,
        validity: Validity,
    ) -> Result<(), String> {
        let OutputFigure { of, name, unit, value, quoted } = figure;
        if value == 0.0 {
            return Ok(());
        }
        if config.case.as_ref().is_some_and(|case| case.contains(char::is_control)) {
            return Err(format!("the text for its {name} contains control characters"));
        }
        if !printed::can_be_figure(value) {
            return Err(format!("its {name} is not a positive number: {value:e}"));
        }
        let m = Measurement::new(of.gauge, of.test, name, unit)
            .with_category(Category::Reference)
            .with_value(quoted, value)
            .with_config(config);
        let added = self.added.entry(identity_hash(&m)).or_default();
        if let Some(same) = added.iter().find(|one| have_one_identity(&self.all[one.at], &m)) {
            if same.value == value {
                return Ok(());
            }
            let [known, other] = [same.value, value].map(format_significant);
            return Err(format!("it has two values for one {}: {known} and {other}", m.name));
        }
        added.push(AddedFigure { at: self.all.len(), value });
        self.all.push(m.with_validity(validity));
        Ok(())
    }

    /// True if there are no figures.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the figures. `missing` names a missing part of the output, which makes them suspect.
    pub fn finish(mut self, missing: Option<&str>) -> PrintedRun {
        if let Some(missing) = missing {
            for m in &mut self.all {
                m.validity.mark_suspect(format!("{missing}: {}", printed::TRUNCATION_REASON));
            }
        }
        self.all.into()
    }
}

/// Keys of the configuration that a figure has in addition to its identity.
const PRINTED_KEYS: [&str; 2] = ["printed_min", "printed_max"];

/// Returns the keys and values of the configuration that identify a figure, in the order of their declaration.
fn identity(m: &Measurement) -> impl Iterator<Item = (&String, &Value)> {
    m.config.iter().filter(|(key, _)| !PRINTED_KEYS.contains(&key.as_str()))
}

/// Returns a hash that is equal for figures with the same identity.
fn identity_hash(m: &Measurement) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&m.gauge, &m.test, &m.name).hash(&mut hasher);
    for pair in identity(m) {
        pair.hash(&mut hasher);
    }
    hasher.finish()
}

/// True if two figures of one program have the same name, unit and configuration.
fn have_one_identity(one: &Measurement, other: &Measurement) -> bool {
    one.name == other.name
        && one.test == other.test
        && one.gauge == other.gauge
        && one.unit == other.unit
        && identity(one).eq(identity(other))
}

/// Returns the section with the figures of a test; `None` if the record has none.
pub fn section(record: &Record, of: OutputTest) -> Option<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == of.gauge && m.test == of.test);
    let rows: Vec<OutputRow<'_>> = own.map(|m| OutputRow { m, config: m.read_config() }).collect();
    let first = rows.first()?;
    let mut section = Section::new(of.test);
    let columns = ColumnList::<OutputRow<'_>>::new()
        .left("figure", |row| row.m.name_in_words())
        .left("case", |row| row.config.case.clone().unwrap_or_default())
        .right("size", |row| row.size())
        .right("value", |row| match row.m.value {
            Some(value) => TableCell::in_words(value, row.m.unit),
            None => "-".into(),
        })
        .left("", |row| row.m.quoted.name());
    section.push(columns.table(&rows)).push_gap();
    section.note("program", first.program());
    section.push_doubts(&rows.iter().map(|row| row.m).collect::<Vec<_>>());
    Some(section)
}

/// Returns the first sentence of a page with figures of this test.
pub fn conclusion(record: &Record, of: OutputTest) -> Option<String> {
    let mut own = record.measurements.iter().filter(|m| m.gauge == of.gauge && m.test == of.test);
    let m = own.find(|m| m.value.is_some())?;
    let row = OutputRow { m, config: m.read_config() };
    let value = TableCell::in_words(m.value?, m.unit);
    let case = row.config.case.as_ref().map(|case| format!(" ({case})")).unwrap_or_default();
    let status = m.validity.status;
    let doubt = match status {
        nodegauge_measure::record::Status::Valid => String::new(),
        _ => format!(" ({})", status.name()),
    };
    let parallel = row.parallelism();
    let with = if parallel.is_empty() { String::new() } else { format!(", with {parallel}") };
    Some(format!(
        "Output of {}: {}{doubt} for {}{case}{with}",
        row.program_version(),
        value.text,
        m.name_in_words()
    ))
}

/// Figure with its configuration.
struct OutputRow<'a> {
    m: &'a Measurement,
    config: OutputConfig,
}

impl OutputRow<'_> {
    /// Describes the program: its version, its threads and its processes.
    fn program(&self) -> String {
        let parallel = self.parallelism();
        let separator = if parallel.is_empty() { "" } else { ", " };
        format!("{}{separator}{parallel}", self.program_version())
    }

    /// Names the program and its version: `ior 3.3.0`.
    fn program_version(&self) -> String {
        let OutputConfig { engine, engine_version, .. } = &self.config;
        let mut words = engine.clone().unwrap_or_else(|| "another program".to_owned());
        if let Some(version) = engine_version {
            words.push_str(&format!(" {version}"));
        }
        words
    }

    /// Describes the known numbers of threads and processes: `2 threads, 1 process`; empty if both are unknown.
    fn parallelism(&self) -> String {
        let OutputConfig { threads, processes, .. } = &self.config;
        let counts = [(threads, "thread"), (processes, "process")];
        let known = counts.into_iter().filter_map(|(count, noun)| Some(((*count)?, noun)));
        let words: Vec<String> =
            known.map(|(count, noun)| count_in_words(count as usize, noun)).collect();
        words.join(", ")
    }

    /// Formats the size of the messages, blocks, data or files.
    fn size(&self) -> String {
        let OutputConfig { message_bytes, block_bytes, data_bytes, file_bytes, .. } = &self.config;
        let known = message_bytes.or(*block_bytes).or(*data_bytes).or(*file_bytes);
        known.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default()
    }
}
