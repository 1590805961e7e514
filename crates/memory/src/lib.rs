//! STREAM, and curves of latency and bandwidth: what the memory of a node really sustains.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or
//! knows another gauge. From the bottom up: [`kernels`] (the loops), [`arrays`] on chosen pages,
//! [`team`] of pinned threads, [`core_to_core`] of where they run, `values` (what the arrays must
//! hold), [`point`] (one configuration, measured pass by pass), `tuner` (which loop is best here),
//! [`stream`] (the protocol), [`ablation`] (what each choice is worth), [`compiled`] (what this
//! system's compilers make of the same loops), [`standard`] (the user's own stream.c beside it) and
//! [`curves`] (ladder, latency, matrix, load, mixes).

pub mod ablation;
pub mod arrays;
pub mod axis;
pub mod compiled;
pub mod config;
pub mod core_to_core;
pub mod curves;
mod halving;
pub mod kernels;
pub mod mapping;
pub mod pages;
pub mod point;
mod rank_error;
pub mod ranks;

mod result;
pub mod size;
pub mod standard;
pub mod stream;
pub mod sweep;
pub mod target;
pub mod traffic;
pub mod tune;
mod tuner;
pub use nodegauge_kernels::values;
pub mod view;

pub use nodegauge_team as team;

use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Detail, Gauge, Glance, Planned, Site};
use nodegauge_machine::published::PublishedConfig;
use nodegauge_measure::Failure;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::Record;

/// The gauge's name, as records have it.
pub const GAUGE: &str = "memory";

/// The gauge of main memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory;

impl Gauge for Memory {
    fn name(&self) -> &'static str {
        GAUGE
    }

    fn kinds(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::of::<config::StreamConfig>(GAUGE, &["stream"]).headed(&["triad"]),
            ConfigKind::of::<config::TuneConfig>(GAUGE, &["tune"]),
            ConfigKind::of::<config::CurveConfig>(
                GAUGE,
                &["ladder", "latency", "matrix", "loaded", "mix"],
            ),
            ConfigKind::of::<config::ExplainConfig>(GAUGE, &[ablation::TEST])
                .headed(&[ablation::WHOLE]),
            ConfigKind::of::<PublishedConfig>(GAUGE, &["stream"]),
        ]
    }

    fn glance(&self, _site: &Site, _ask: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure> {
        Ok(None)
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail)
    }
}
