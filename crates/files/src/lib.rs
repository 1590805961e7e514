//! Operations on the data of files as in IOzone, for many combinations of file size and block size; and operations on
//! the entries of directories as in mdtest ([`metadata`]). The gauge distinguishes the page cache from the device and
//! records a latency for every operation.
//!
//! The implementation follows the definitions of the operations in IOzone's documentation and in the manual pages of
//! the calls. It does not use IOzone's source, whose licence restricts derivative works.
//!
//! ARCHITECTURE.md describes the modules; the timed code is in `nodegauge_blocks`.
#![forbid(unsafe_code)]

mod choice;
mod config;
pub mod export;
mod grid;
mod keys;
pub mod metadata;
mod plan;
mod precision;
mod prediction;
pub mod reference;
mod result;
mod run;
mod view;

pub use choice::{OperationChoice, choose_operations};
pub use grid::SizeList;
pub use nodegauge_blocks::engine::{IoEngine, Msync, SyncWrites};
pub use nodegauge_blocks::operation::{Operation, OperationList};
pub use nodegauge_blocks::pattern::Stride;
pub use nodegauge_blocks::scratch::{Leftover, remove_leftovers};
pub use nodegauge_blocks::task::{CacheMode, TaskSetup};
pub use nodegauge_blocks::workers::{FileWorkers, WorkerKind};
pub use plan::{FilesOptions, FilesPlan, ShortGrid, plan};
pub use run::{latency_cost, run};

use crate::reference::{FioReader, IozoneReader, Mdtest};
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::view::{AttainableValue, Section};
use nodegauge_gauge::{Detail, Gauge, Headline, MeasuredNode, PlannedRun, SummaryRequest};
use nodegauge_measure::Failure;
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::io::READ;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::schedule::Budget;
use std::path::PathBuf;

/// Name of the gauge in records.
pub const GAUGE: &str = nodegauge_measure::figure_names::io::GAUGE;
/// The test's name in the record for figures of data.
pub const TEST: &str = nodegauge_measure::figure_names::io::TEST;

/// The test's name in the record for figures of metadata.
pub const METADATA_TEST: &str = "metadata";

/// Text for the headline figure of a read through the page cache; [`PAST_CACHE`] takes precedence if direct I/O was
/// measured.
const THROUGH_CACHE: &str = "read with the largest blocks, through the page cache";
const PAST_CACHE: &str = "read with the largest blocks, past the page cache";

/// Gauge of operations on files.
#[derive(Debug, Clone, Copy)]
pub struct FileGauge;

/// Plans a short measurement in a folder for the summary of the node.
fn summary_in(folder: PathBuf, ask: &SummaryRequest<'_>) -> Result<FilesPlan, Failure> {
    let usual = FilesOptions::for_summary(folder);
    let budget = ask.budget.map(Budget::from).or(usual.budget);
    plan(FilesOptions { samples: ask.samples, budget, ..usual }, Vec::new())
}

/// Returns the sort key of a read rate; `None` for other figures. The read rate with the largest key is the headline.
fn headline_rank(m: &Measurement) -> Option<(Option<bool>, Option<u64>, Option<u64>)> {
    let config: config::FilesConfig = m.read_config();
    let is_read = m.name == READ && m.unit == Unit::BytesPerSecond;
    is_read.then_some((config.direct, config.block_bytes, config.file_bytes))
}

impl Gauge for FileGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn uses_links(&self) -> bool {
        true
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<config::FilesConfig>(GAUGE, &[TEST])
                .with_headlines(&["write", READ]),
            ConfigKind::from_config::<metadata::MetadataConfig>(GAUGE, &[METADATA_TEST])
                .with_headlines(&["create", "stat"]),
        ]
    }

    /// Plans a short measurement in the current folder, or in the folder for temporary files if the current folder is
    /// not writable.
    fn summary_plan(
        &self,
        _: &MeasuredNode,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        let plan = summary_in(PathBuf::from("."), ask)
            .or_else(|_| summary_in(std::env::temp_dir(), ask))?;
        Ok(Some(Box::new(plan)))
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        vec![&FioReader, &IozoneReader, &Mdtest]
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let headline = Headline::from_record("files", THROUGH_CACHE, record, GAUGE, headline_rank);
        let config = headline.figure.map(Measurement::read_config::<config::FilesConfig>);
        let is_direct = config.is_some_and(|config| config.direct == Some(true));
        let what = if is_direct { PAST_CACHE } else { headline.what };
        vec![Headline { what, ..headline }]
    }

    fn reach(&self, record: &Record, figure: &Measurement) -> Option<AttainableValue> {
        view::reach(record, figure)
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record).or_else(|| metadata::conclusion(record))
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        let mut sections = view::sections(record, detail);
        sections.extend(metadata::section(record, detail));
        sections
    }
}
