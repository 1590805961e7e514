//! STREAM, and curves of latency and bandwidth: what the memory of a node really sustains.
//!
//! Machine, placement and options go in, measurements come out; nothing here prints, saves or
//! knows another gauge. What each module is stands in ARCHITECTURE.md, from the bottom up.

pub mod ablation;
mod arrangement;
pub mod arrays;
pub mod axis;
pub mod compiled;
pub mod config;
pub mod curves;
pub mod kernels;
mod mapping;
pub mod mixes;
pub mod pages;
pub mod point;
pub mod ranks;
mod result;
#[cfg(test)]
mod simulated;
pub mod size;
pub mod standard;
pub mod stream;
pub mod sweep;
pub mod target;
mod traffic;
pub mod tune;
mod tuner;
pub use nodegauge_kernels::values;
pub mod view;

pub use nodegauge_team as team;

use curves::{Curve, CurveOptions, CurvePlan};
use nodegauge_gauge::roofline::{self, CeilingsAsk, CeilingsPart, Point};
use nodegauge_gauge::view::Section;
use nodegauge_gauge::{Depth, Detail, Gauge, Glance, Headline, InTurn, Planned, Site};
use nodegauge_machine::published::PublishedConfig;
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Failure, Notice, NoticeId, Unit};
use nodegauge_placement::{MemoryPolicy, Request};
use std::time::Duration;
use stream::{Arrangement, StreamOptions, StreamPlan};
use view::Statistic;

/// The gauge's name, as records have it.
pub const GAUGE: &str = "memory";

/// Time in a full run: long enough to meet regimes that last for tens of seconds.
const FULL: Duration = Duration::from_secs(60);

/// The gauge of main memory.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Columns of STREAM's table in which sweeps are shown; none for medians and their spread.
    pub show: Vec<Statistic>,
}

impl Memory {
    /// The gauge as it shows figures by itself.
    pub const PLAIN: Self = Self { show: Vec::new() };
}

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
            ConfigKind::of::<config::CurveConfig>(
                roofline::GAUGE,
                &[roofline::BANDWIDTH, roofline::KERNEL],
            ),
        ]
    }

    /// STREAM with threads where the environment says, else as they were tuned, else one a core.
    fn glance(&self, site: &Site, ask: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure> {
        let mut request = Request::default();
        let said = ask.environment.apply(&mut request)?;
        let notice = |text| Notice::new(NoticeId::Environment, GAUGE, text);
        let mut notices: Vec<Notice> = said.into_iter().map(notice).collect();
        let policy = MemoryPolicy::inherited();
        let honoured = policy.as_ref().map(MemoryPolicy::inherited_in_words);
        notices.extend(honoured.map(notice));
        let usual = if ask.depth == Depth::Full { FULL } else { StreamPlan::BUDGET };
        let mut options = StreamOptions {
            budget: ask.budget.unwrap_or(usual),
            samples: ask.samples,
            policy: policy.unwrap_or_default(),
            ..StreamOptions::default()
        };
        if let Some(remembered) = tune::remembered(site, ask.newest) {
            remembered.fill(&mut request, &mut options);
            notices.push(remembered.notice);
        }
        let arrangement = Arrangement::new(site, &request, options, notices)?;
        let mixes = mixes::saved(site, ask.newest);
        Ok(Some(Box::new(StreamPlan::new(arrangement, None).beside(mixes))))
    }

    /// Read and Triad in each cache and in main memory, and kernels under them.
    fn ceilings(
        &self,
        site: &Site,
        ask: &CeilingsAsk<'_>,
    ) -> Result<Option<Box<dyn Planned>>, Failure> {
        let plan = |part: &CeilingsPart<'_>| -> Result<Box<dyn Planned>, Failure> {
            let options = CurveOptions {
                policy: ask.policy.clone(),
                largest: ask.largest,
                kernels: part.kernels,
                suffix: part.suffix,
                budget: ask.budget.mul_f64(part.share),
                samples: ask.samples,
                ..CurveOptions::default()
            };
            let placement = part.placement.clone();
            let plan = CurvePlan::new(Curve::Ceilings, site, placement, options, Vec::new())?;
            Ok(Box::new(plan))
        };
        let parts: Result<_, Failure> = ask.parts.iter().map(plan).collect();
        Ok(Some(Box::new(InTurn(parts?))))
    }

    /// The kernels of the newest STREAM that compute, with the bytes that moved.
    fn points(&self, newest: &dyn Fn(&str, &str) -> Option<Record>) -> Vec<Point> {
        newest("stream", "triad").map(|record| view::points(&record)).unwrap_or_default()
    }

    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>> {
        let of = |what, rank: &dyn Fn(&Measurement) -> Option<f64>| {
            Headline::of(what, (record, GAUGE), rank)
        };
        let triad = |m: &Measurement| (m.test == "stream" && m.name == "triad").then_some(m.value?);
        let set = |m: &Measurement| {
            let idle = m.test == "latency" && m.unit == Unit::Seconds;
            idle.then(|| m.read_config::<config::CurveConfig>().set_bytes.unwrap_or(0) as f64)
        };
        vec![
            of(("memory", "Triad, best"), &triad),
            of(("latency", "idle memory, of the largest set"), &set),
        ]
    }

    fn view(&self, record: &Record, detail: Detail) -> Vec<Section> {
        view::sections(record, detail, &self.show)
    }
}
