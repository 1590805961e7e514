//! Files in the sense of IOzone: operations on files of many sizes in blocks of many sizes, with the page
//! cache distinguished from the device, and a latency for every operation.
//!
//! The operations are written from their definitions (IOzone's documentation of what each does, and
//! the calls' manual pages), not from IOzone's source, whose licence keeps derivative works.
//!
//! ARCHITECTURE.md says what each module is for, from the bottom up.

mod cache;
mod cell;
mod clock;
mod config;
mod counters;
mod data;
mod engine;
mod error;
pub mod export;
mod grid;
mod latency;
mod operation;
mod pass;
mod pattern;
mod plan;
mod precision;
pub mod reference;
mod result;
mod run;
mod scratch;
mod task;
mod view;
mod volume;
mod workers;

pub use engine::{IoEngine, Msync, SyncWrites};
pub use grid::SizeList;
pub use operation::{Operation, OperationList, in_order};
pub use plan::{FilesOptions, FilesPlan, ShortGrid, plan};
pub use run::{cost_of_latency, run};
pub use scratch::{Leftover, remove_leftovers};
pub use task::{CacheMode, TaskSetup};
pub use workers::{FileWorkers, WorkerKind};

use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, Headline, Planned, Site, SummaryRequest};
use nodegauge_measure::Failure;
use nodegauge_measure::Unit;
use nodegauge_measure::figure_names::io::READ;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Measurement, Record};
use std::path::PathBuf;

/// The gauge's name in records.
pub const GAUGE: &str = nodegauge_measure::figure_names::io::GAUGE;
/// The test of all figures.
pub const TEST: &str = nodegauge_measure::figure_names::io::TEST;

/// The gauge of files.
#[derive(Debug, Clone, Copy)]
pub struct Files;

impl Gauge for Files {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<config::FilesConfig>(GAUGE, &[TEST]).headed(&["write", READ])]
    }

    /// Plans a short measurement in the current folder, or in that for temporary files if it is not writable.
    fn summary_plan(
        &self,
        _: &Site,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn Planned>>, Failure> {
        let options = |path| {
            let usual = FilesOptions::summary_plan(path);
            FilesOptions { samples: ask.samples, budget: ask.budget.or(usual.budget), ..usual }
        };
        let plan_in = |path| plan(options(path), Vec::new());
        let plan = plan_in(PathBuf::from(".")).or_else(|_| plan_in(std::env::temp_dir()))?;
        Ok(Some(Box::new(plan)))
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let read = |m: &Measurement| {
            let config: config::FilesConfig = m.read_config();
            let is = m.name == READ && m.unit == Unit::BytesPerSecond;
            is.then_some((config.direct, config.block_bytes, config.file_bytes))
        };
        vec![Headline::of(
            "files",
            "read with the largest blocks, past the page cache if measured",
            record,
            GAUGE,
            read,
        )]
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
