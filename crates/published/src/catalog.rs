//! Catalog of published figures of known nodes, which can be shown together with a measurement. The figures are in
//! `data/published.toml` with their sources; they are neither corrected nor completed.
//!
//! Shown figures are saved in the record as measurements of the category "reference" with the engine
//! [`PUBLISHED_ENGINE`]. They never count as results of the run.

use nodegauge_machine::catalog::{name_distance, simplify_name};
use nodegauge_machine::devices;
use nodegauge_measure::figure_names::{hpl, io, stream};
use nodegauge_measure::keys::shared::{self, CompilerConfig};
use nodegauge_measure::record::{
    Category, Machine, Measurement, PUBLISHED_ENGINE, QuotedStatistic,
};
use nodegauge_measure::{Failure, Unit};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

/// Number of bytes per KB in the output of IOzone.
const KB: f64 = 1024.0;
/// Text after the title of a sweep in the catalog.
pub(crate) const SWEEP_TITLE_SUFFIX: &str = "by threads";
/// Argument of `--against` that prints the catalog.
const LIST: &str = "list";

nodegauge_measure::config! {
    /// Configuration of a published figure.
    pub struct PublishedConfig {
        /// Engine, which is always `published`.
        engine: shared::engine;
        /// Reason why the figure is shown: `asked` or `nearest`.
        shown: String = Observation "shown";
        /// Machine and its settings, on one line.
        machine: String = Setting "machine";
        /// Processor of the machine.
        processor: String = Setting "processor";
        /// Node and its memory.
        node: String = Setting "node";
        /// Source of the publication.
        source: shared::source;
        threads: shared::threads;
        processes: shared::processes;
        /// Axis of a published sweep to which the figure belongs: `threads`.
        axis: String = Observation "axis";
        /// Placement of the threads or processes.
        placement: String = Setting "placement";
        compiler: shared::compiler;
        array_elements: shared::array_elements;
        array_bytes: shared::array_bytes;
        nb: shared::nb;
        p: shared::p;
        q: shared::q;
    }
}

/// Published figures of a node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedEntry {
    /// Processor name, as in the catalog of processors.
    pub processor: String,
    /// Number of processor packages.
    pub sockets: u32,
    /// Number of cores of all packages.
    pub cores: u32,
    /// NUMA nodes per socket (AMD's NPS), if the publication states it.
    pub nodes_per_socket: Option<u32>,
    /// Settings that distinguish the node from other nodes with the same processor.
    pub settings: String,
    /// Node and its memory.
    pub node: String,
    /// Theoretical memory bandwidth in B/s, if the publication states the memory modules.
    pub theoretical: Option<f64>,
    /// Compiler and flags of the published run.
    pub compiler: Option<String>,
    /// Number of threads of the published run.
    pub threads: Option<u32>,
    /// Number of MPI processes.
    pub ranks: Option<u32>,
    /// Placement of the threads or processes.
    pub placement: Option<String>,
    /// Number of elements of an array.
    pub elements: Option<u64>,
    /// STREAM rates by kernel in B/s, or rates of file operations in KB/s.
    #[serde(default)]
    pub rates: BTreeMap<String, f64>,
    /// Rows of a sweep; a row contains the number of threads and the rates of the four STREAM kernels in MB/s.
    #[serde(default)]
    rows: Vec<[f64; 5]>,
    /// Block size (NB) of the HPL run.
    nb: Option<u32>,
    /// Process grid (P x Q) of the HPL run.
    p: Option<u32>,
    q: Option<u32>,
    /// Elapsed time of the HPL run, seconds.
    seconds: Option<f64>,
    source: String,
    /// Name of the test, as in records.
    #[serde(skip)]
    pub test: &'static str,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedTables {
    sources: BTreeMap<String, String>,
    stream: Vec<PublishedEntry>,
    sweep: Vec<PublishedEntry>,
    hpl: Vec<PublishedEntry>,
    io: Vec<PublishedEntry>,
}

fn tables() -> &'static (Vec<PublishedEntry>, BTreeMap<String, String>) {
    static TABLES: OnceLock<(Vec<PublishedEntry>, BTreeMap<String, String>)> = OnceLock::new();
    TABLES.get_or_init(|| {
        let tables: PublishedTables = toml::from_str(include_str!("../data/published.toml"))
            .expect("the embedded catalog is valid TOML, because a test parses it");
        // Sweeps consist of STREAM figures, so they belong to the test `stream`.
        let tests = [
            (stream::TEST, tables.stream),
            (stream::TEST, tables.sweep),
            (hpl::TEST, tables.hpl),
            (io::TEST, tables.io),
        ];
        let mut all = Vec::new();
        for (test, nodes) in tests {
            all.extend(nodes.into_iter().map(|node| PublishedEntry { test, ..node }));
        }
        (all, tables.sources)
    })
}

/// Returns all published nodes, in the order of the catalog.
pub fn all() -> &'static [PublishedEntry] {
    &tables().0
}

/// Parsed argument of `--against`.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishedSelection {
    /// Prints the catalog and measures nothing.
    List,
    /// Shows the figures of these nodes together with the measurement.
    Nodes {
        /// Text that the user typed.
        asked: String,
        /// All nodes that the text selects.
        nodes: Vec<&'static PublishedEntry>,
    },
}

/// Error for a name that matches no published node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownNode {
    /// Name that the user typed.
    pub name: String,
    /// Processors in the catalog, similar names first.
    pub similar_names: Vec<String>,
}

impl From<&UnknownNode> for Failure {
    fn from(error: &UnknownNode) -> Self {
        let similar_names = error.similar_names.join(", ");
        Self::usage(format!(
            "no published figures for \"{}\"; known processors: {similar_names}",
            error.name
        ))
        .hint("--against list shows the catalog")
    }
}

impl fmt::Display for UnknownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Failure::from(self).fmt(f)
    }
}

impl std::error::Error for UnknownNode {}

impl FromStr for PublishedSelection {
    type Err = UnknownNode;

    fn from_str(text: &str) -> Result<Self, UnknownNode> {
        match text {
            LIST => Ok(Self::List),
            _ => find(text).map(|nodes| Self::Nodes { asked: text.to_owned(), nodes }),
        }
    }
}

/// Returns the published nodes whose title is `name`. If there is no such node, returns the nodes whose processor,
/// settings and description contain all words of `name`.
///
/// # Errors
/// Fails if no node matches.
pub(crate) fn find(name: &str) -> Result<Vec<&'static PublishedEntry>, UnknownNode> {
    let typed = simplify_name(name);
    let words: Vec<&str> = words(&typed).filter(|word| !is_filler(word)).collect();
    let titled = all().iter().filter(|node| simplify_name(&node.to_string()) == typed);
    let mut found: Vec<&PublishedEntry> = titled.collect();
    if found.is_empty() {
        let described = all().iter().filter(|node| {
            let known = node.words();
            words.iter().all(|word| known.iter().any(|own| own == word))
        });
        found = described.collect();
    }
    if !words.is_empty() && !found.is_empty() {
        return Ok(found);
    }
    let mut similar_names: Vec<String> = all().iter().map(|node| node.processor.clone()).collect();
    similar_names.sort_by_key(|processor| (name_distance(name, processor), processor.clone()));
    similar_names.dedup();
    Err(UnknownNode { name: name.to_owned(), similar_names })
}

/// True for a word that occurs in many processor names, which a search ignores.
fn is_filler(word: &str) -> bool {
    ["", "amd", "intel"].contains(&word) || word.ends_with("-core")
}

/// Splits a name or title into words, without punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '.');
    words.filter(|word| !word.is_empty())
}

/// Returns the node with the same processor whose published STREAM figures are compared with those of a run. It is the
/// most similar node by sockets, NUMA nodes per socket, and threads; among equally similar nodes, it is the fastest.
/// Returns `None` if the processor is not in the catalog.
pub fn nearest_node(machine: &Machine, threads: u32) -> Option<&'static PublishedEntry> {
    nearest_among(machine, threads, &|node| !node.is_sweep())
}

/// Returns the node of [`nearest_node`]. Without such a node, returns a sweep that contains this number of threads.
pub fn nearest_with_sweeps(machine: &Machine, threads: u32) -> Option<&'static PublishedEntry> {
    nearest_node(machine, threads).or_else(|| {
        nearest_among(machine, threads, &|node| {
            node.rows.iter().any(|row| row[0] as u32 == threads)
        })
    })
}

/// Returns the most similar node among those for which `fits` returns true.
fn nearest_among(
    machine: &Machine,
    threads: u32,
    fits: &dyn Fn(&PublishedEntry) -> bool,
) -> Option<&'static PublishedEntry> {
    let model = simplify_name(machine.processor.model.as_deref()?);
    let model: Vec<&str> = model.split(' ').collect();
    let sockets = machine.processor.sockets.max(1);
    let nodes_per_socket = machine.numa_nodes.len() as u32 / sockets;
    let same = all()
        .iter()
        .filter(|node| node.test == stream::TEST && fits(node) && node.has_processor(&model));
    same.min_by(|x, y| {
        let [far, farther] = [x, y].map(|node| {
            (
                node.sockets.abs_diff(sockets),
                node.nodes_per_socket.map_or(0, |nodes| nodes.abs_diff(nodes_per_socket)),
                node.threads.map_or(0, |n| n.abs_diff(threads)),
            )
        });
        far.cmp(&farther).then(y.triad().total_cmp(&x.triad()))
    })
}

/// Returns the published STREAM figures with which the figures of a run are compared: those of the same device if a
/// device was measured, otherwise those of a node with the same processor. Returns `None` if the run has no STREAM
/// figure.
pub fn nearest_to_figures(
    machine: &Machine,
    figures: &[Measurement],
    threads: Option<u32>,
) -> Option<&'static PublishedEntry> {
    let own = figures.iter().find(|m| stream::is_test(&m.test))?;
    match own.read_key::<shared::device_name>() {
        Some(name) => nearest_device(&name),
        None => nearest_node(machine, threads.unwrap_or(0)),
    }
}

/// Returns the fastest published STREAM figures of the device that the driver calls `name`; `None` if the catalog does
/// not contain the device.
pub fn nearest_device(name: &str) -> Option<&'static PublishedEntry> {
    let entry = devices::catalog::find(name)?;
    let of_device = all().iter().filter(|node| {
        node.test == stream::TEST && devices::catalog::find(&node.processor) == Some(entry)
    });
    // In a tie, the first device in the catalog is returned.
    of_device.min_by(|x, y| y.triad().total_cmp(&x.triad()))
}

impl fmt::Display for PublishedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}, {}", self.sockets, self.processor, self.settings)
    }
}

impl PublishedEntry {
    /// Returns the rate of Triad; zero if it was not published.
    fn triad(&self) -> f64 {
        self.rates.get(stream::TRIAD).copied().unwrap_or(0.0)
    }

    /// True if the words of a processor name contain the words of the published name, in the same order and without a
    /// gap. A published name of a single word, such as Opteron, would match many processors, so it is ignored.
    fn has_processor(&self, model: &[&str]) -> bool {
        let wanted = simplify_name(&self.processor);
        let wanted: Vec<&str> = wanted.split(' ').collect();
        wanted.len() > 1 && model.windows(wanted.len()).any(|window| window == wanted)
    }

    /// True if the figures belong to the test `test`. STREAM has different test names for processors and for devices.
    pub fn belongs_to(&self, test: &str) -> bool {
        self.test == test || self.test == stream::TEST && stream::is_test(test)
    }

    /// Returns the source of the publication.
    pub fn source(&self) -> &'static str {
        tables().1.get(&self.source).map_or("", String::as_str)
    }

    /// Splits the description of the node into words, for searches.
    fn words(&self) -> Vec<String> {
        let by = if self.is_sweep() { SWEEP_TITLE_SUFFIX } else { "" };
        let text = simplify_name(&format!("{self} {by} {} {}", self.node, self.source()));
        words(&text).map(str::to_owned).collect()
    }

    /// True if the figures are a sweep over thread counts.
    pub fn is_sweep(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Converts the figures of the node, or all rows of a sweep, to measurements. `why` is the reason for showing the
    /// figures: `asked` or `nearest`.
    pub fn measurements(&self, why: &str) -> Vec<Measurement> {
        const RATE: Unit = Unit::BytesPerSecond;
        if self.is_sweep() {
            return self.rows.iter().flat_map(|row| self.row(row, why)).collect();
        }
        let figures: Vec<(&str, Unit, f64)> = match self.test {
            hpl::TEST => {
                self.seconds.iter().map(|time| (hpl::TIME, Unit::Seconds, *time)).collect()
            }
            io::TEST => {
                self.rates.iter().map(|(name, kb)| (name.as_str(), RATE, kb * KB)).collect()
            }
            _ => stream::KERNELS
                .iter()
                .filter_map(|name| Some((*name, RATE, *self.rates.get(*name)?)))
                .collect(),
        };
        let figures = figures.into_iter();
        figures
            .map(|(name, unit, value)| self.measurement(name, unit, value, self.threads, why))
            .collect()
    }

    /// Converts a row of a sweep to measurements.
    fn row(&self, row: &[f64; 5], why: &str) -> Vec<Measurement> {
        let threads = Some(row[0] as u32);
        let rates = stream::KERNELS.iter().zip(&row[1..]);
        rates
            .map(|(name, mb)| self.measurement(name, Unit::BytesPerSecond, mb * 1e6, threads, why))
            .collect()
    }

    fn measurement(
        &self,
        name: &str,
        unit: Unit,
        value: f64,
        threads: Option<u32>,
        why: &str,
    ) -> Measurement {
        let compiler = self.compiler.clone();
        let compiler =
            compiler.map(|command| CompilerConfig { command, ..CompilerConfig::default() });
        let config = PublishedConfig {
            engine: Some(PUBLISHED_ENGINE.to_owned()),
            shown: Some(why.to_owned()),
            machine: Some(self.to_string()),
            processor: Some(self.processor.clone()),
            node: Some(self.node.clone()),
            source: Some(self.source().to_owned()),
            threads: threads.map(u64::from),
            processes: self.ranks.map(u64::from),
            axis: self.is_sweep().then(|| "threads".to_owned()),
            placement: self.placement.clone(),
            compiler,
            array_elements: self.elements,
            // The elements of all published arrays are doubles.
            array_bytes: self.elements.map(|n| n * 8),
            nb: self.nb.map(u64::from),
            p: self.p.map(u64::from),
            q: self.q.map(u64::from),
        };
        let gauge = match self.test {
            hpl::TEST => hpl::GAUGE,
            io::TEST => io::GAUGE,
            _ => stream::GAUGE,
        };
        let m = Measurement::new(gauge, self.test, name, unit)
            .with_category(Category::Reference)
            .with_value(QuotedStatistic::Single, value)
            .with_config(&config);
        match self.theoretical.filter(|_| self.test == stream::TEST) {
            Some(limit) if devices::catalog::find(&self.processor).is_some() => {
                m.with_limit(limit, "data sheet")
            }
            Some(limit) => m.with_limit(limit, "published: channels x transfers/s x 8 B"),
            None => m,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_machine::catalog;
    use nodegauge_measure::Fraction;

    fn names(name: &str) -> Vec<String> {
        find(name).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn catalog_nodes_have_sources_known_processors_and_positive_figures() {
        for node in all() {
            assert!(!node.source().is_empty(), "{node}");
            assert!(
                node.processor == "Opteron"
                    || catalog::find_by_name(&node.processor).is_ok()
                    || nodegauge_machine::devices::catalog::find(&node.processor).is_some(),
                "{node}"
            );
            let figures = node.measurements("asked");
            assert!(!figures.is_empty(), "{node}");
            for m in &figures {
                assert!(m.is_published() && m.value.is_some_and(|value| value > 0.0));
                let known = node.theoretical.is_some() && node.test == stream::TEST;
                assert_eq!(m.limit.is_some(), known, "{node}");
                assert!(m.limit.iter().all(|limit| limit.fraction < Fraction(1.0)), "{node}");
            }
        }
        // The memories are 2 x 12 x DDR5-4800, 2 x 8 x DDR4-3200, 2 x 8 x DDR4-2666, and GDDR5 with 384 bits at 6 GT/s.
        let theoretical: Vec<f64> = all().iter().filter_map(|node| node.theoretical).collect();
        assert!(theoretical.iter().all(|rate| [921.6e9, 409.6e9, 341.2e9, 288e9].contains(rate)));
    }

    #[test]
    fn devices_are_found_by_driver_names() {
        let title = |name: &str| nearest_device(name).map(ToString::to_string);
        assert_eq!(title("Tesla K40c").as_deref(), Some("1 x Tesla K40c, ECC off"));
        let phi = title("Intel(R) Xeon Phi(TM) coprocessor 7110P");
        assert_eq!(phi.as_deref(), Some("1 x Xeon Phi 7110P, ECC off, 2 MB pages"));
        assert_eq!((title("NVIDIA H200"), title("pthread-Intel(R) Xeon(R)")), (None, None));
    }

    #[test]
    fn nodes_are_found_by_words_of_their_name() {
        assert_eq!(names("EPYC 7H12").len(), 8);
        assert_eq!(names("epyc 9654 nps4"), ["2 x EPYC 9654, NPS4, SMT off"]);
        assert_eq!(
            names("AMD EPYC 7H12 64-Core Processor icc 64"),
            ["2 x EPYC 7H12, NPS4, icc, 64 threads"]
        );
        assert_eq!(names("7H12 icc").len(), 4);
        assert_eq!(names("SR11000"), ["8 x POWER5+, SR11000/J2"]);
        assert_eq!(names("T2K Opteron"), ["4 x Opteron, T2K, 16 ranks"]);
        assert_eq!(names("T2K").len(), 2, "the lecture has two nodes");
        assert_eq!(names("Xeon Phi").len(), 10);
        let unknown = find("EPYC 7H13").unwrap_err();
        assert_eq!(unknown.similar_names[0], "EPYC 7H12");
        assert_eq!(
            unknown.to_string().lines().collect::<Vec<_>>(),
            [
                "no published figures for \"EPYC 7H13\"; known processors: EPYC 7H12, EPYC 7F52, \
                 Xeon Phi 7110P, EPYC 9654, Tesla K40c, Xeon Phi 5110P, Opteron, POWER5+",
                "hint: --against list shows the catalog"
            ]
        );
        assert!(find("").is_err());
        assert_eq!("list".parse(), Ok(PublishedSelection::List));
    }

    #[test]
    fn every_title_and_source_selects_its_node() {
        for node in all() {
            for title in [node.to_string(), node.source().to_owned()] {
                let found = find(&title).unwrap_or_else(|unknown| panic!("{unknown}"));
                assert!(found.contains(&node), "{title}");
            }
            // The complete title selects this node and other nodes with the same title.
            let found = names(&node.to_string());
            assert!(found.iter().all(|name| *name == node.to_string()), "{node}: {found:?}");
        }
    }

    #[test]
    fn catalog_figures_equal_the_published_figures() {
        let node = find("EPYC 9654 NPS1").unwrap()[0];
        let triad = &node.measurements("asked")[3];
        assert_eq!((triad.name.as_str(), triad.value), ("triad", Some(715_650.4e6)));
        assert!((triad.limit.as_ref().unwrap().fraction.0 - 0.7765).abs() < 1e-4);
        assert_eq!(
            triad.config["source"],
            "OCI HPC performance tips: STREAM on BM.Standard.E5.192"
        );
        // A sweep has four figures per number of threads.
        let sweep = find("7F52 by threads").unwrap()[0];
        let rows = sweep.measurements("asked");
        let on_20: Vec<_> = rows.iter().filter(|m| m.config["threads"] == 20).collect();
        assert_eq!((rows.len(), on_20.len()), (17 * 4, 4));
        assert_eq!(
            (on_20[3].value, &on_20[3].config["axis"]),
            (Some(140_583.9e6), &"threads".into())
        );
        let phi = find("5110P").unwrap()[0];
        assert_eq!(phi.measurements("asked").len(), 1);
        assert_eq!(phi.measurements("asked")[0].limit, None);
        let io = find("7F52 SSD").unwrap()[0];
        let read = io.measurements("asked").into_iter().find(|m| m.name == "read").unwrap();
        assert_eq!((read.value, read.gauge.as_str()), (Some(675_840_000.0), "files"));
    }

    #[test]
    fn nearest_node_has_the_same_processor() {
        let machine = |model: &str, sockets: u32, nodes: u32| {
            let mut machine = Machine::default();
            machine.processor.model = Some(model.to_owned());
            machine.processor.sockets = sockets;
            machine.numa_nodes = (0..nodes)
                .map(|id| nodegauge_measure::record::NumaNode { id, ..Default::default() })
                .collect();
            machine
        };
        let of = |model: &str, sockets: u32, nodes: u32, threads: u32| {
            nearest_node(&machine(model, sockets, nodes), threads).map(ToString::to_string)
        };
        let genoa = "AMD EPYC 9654 96-Core Processor";
        assert_eq!(of(genoa, 2, 2, 192).as_deref(), Some("2 x EPYC 9654, NPS1, SMT off"));
        assert_eq!(of(genoa, 2, 8, 192).as_deref(), Some("2 x EPYC 9654, NPS4, SMT off"));
        let rome = "AMD EPYC 7H12 64-Core Processor";
        assert_eq!(of(rome, 2, 8, 32).as_deref(), Some("2 x EPYC 7H12, NPS4, icc, 32 threads"));
        assert_eq!(
            of(rome, 2, 8, 128).as_deref(),
            Some("2 x EPYC 7H12, NPS4, icc, 128 threads, bound")
        );
        assert_eq!(of("AMD EPYC", 1, 1, 2), None);
        assert_eq!(of("AMD Opteron(tm) Processor 6276", 4, 8, 64), None);
        assert_eq!(nearest_node(&Machine::default(), 1), None);
    }
}
