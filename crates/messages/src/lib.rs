//! Messages between MPI processes: latency, bandwidth, message rate, collectives.
//!
//! `plan` chooses the transport, ranks, patterns and launches; `run` runs the launches. A probe is compiled with the
//! compiler wrapper of an installed MPI and started by the launcher of this MPI with an explicit binding (`probe`,
//! `job`). Its output is parsed line by line and evaluated (`figures`, `curve`). `osu` runs the OSU micro-benchmarks
//! interleaved with the probe, `nodes` forms pairs among many nodes, `transport` exchanges messages without an MPI, and
//! `view` formats the results. ARCHITECTURE.md describes the modules.
#![forbid(unsafe_code)]

mod config;
pub mod curve;
mod error;
mod figures;
mod job;
mod nodes;
pub mod options;
pub mod osu;
pub mod pattern;
mod plan;
mod probe;
mod run;
pub mod transport;
mod view;

pub use config::{DipConfig, LowerBoundConfig, MessageConfig, MpiConfig, PairRank};
pub use error::MessagesError;
pub use options::MessageOptions;
pub use pattern::Pattern;
pub use plan::{MessageRequest, MessagesPlan, MpiRequest, RankPairs};

use crate::osu::OsuReader;
use nodegauge_gauge::readers::Reader;
use nodegauge_gauge::view::{AttainableValue, Section};
use nodegauge_gauge::{Detail, Gauge, Headline, MeasuredNode, PlannedRun, SummaryRequest};
use nodegauge_measure::Failure;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Category, Measurement, Record};

/// Name of the gauge in records.
pub const GAUGE: &str = "messages";
/// Name of the test in records.
pub const TEST: &str = "mpi";
/// Name of the test in records for measurements without an MPI.
pub const TRANSPORT_TEST: &str = "transport";

/// Gauge of message latency, bandwidth, message rate and collectives.
pub struct MessageGauge;

impl Gauge for MessageGauge {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn uses_links(&self) -> bool {
        true
    }

    fn figure_kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::from_config::<MessageConfig>(GAUGE, &[TEST, TRANSPORT_TEST])
                .with_headlines(&["latency", "bw"]),
        ]
    }

    fn summary_plan(
        &self,
        site: &MeasuredNode,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn PlannedRun>>, Failure> {
        Ok(Some(Box::new(MessagesPlan::summary_plan(site, ask)?)))
    }

    fn readers(&self) -> Vec<&dyn Reader> {
        vec![&OsuReader]
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        // The built-in transport provides the headline only in runs without an MPI.
        let any_mpi = record.measurements.iter().any(|m| is_small_latency(m) && is_by_mpi(m));
        let title = "8 B latency of the nearest pair";
        vec![Headline::from_record("messages", title, record, GAUGE, |m| {
            (is_small_latency(m) && (is_by_mpi(m) || !any_mpi)).then_some(-m.value?)
        })]
    }

    fn reach(&self, _: &Record, figure: &Measurement) -> Option<AttainableValue> {
        let floor = figure.read_config::<MessageConfig>().floor;
        let floor = floor.filter(LowerBoundConfig::is_bound)?;
        let basis = "shared memory between these cores, without MPI".to_owned();
        Some(AttainableValue { value: floor.value, basis })
    }

    fn conclusion(&self, record: &Record) -> Option<String> {
        view::conclusion(record)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}

/// True if the figure is a latency of 8 B messages that has a value.
fn is_small_latency(m: &Measurement) -> bool {
    let bytes = m.read_config::<MessageConfig>().message_bytes;
    m.gauge == GAUGE && m.name == Pattern::Latency.name() && bytes == Some(8) && m.value.is_some()
}

/// True if an MPI transferred the messages of a figure.
fn is_by_mpi(m: &Measurement) -> bool {
    m.category != Category::Transport
}
