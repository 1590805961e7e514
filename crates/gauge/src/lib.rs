//! Interface of a gauge: a name, plans that are checked before anything is touched, runs that end in an
//! [`Outcome`], the configuration keys of its figures, and the view of its part of a record.
//!
//! Gauges implement [`Gauge`] and [`Planned`] and are registered in one list of the command. Everything that
//! runs, shows, compares and exports records reads that list. Nothing here assumes that a gauge measures
//! processors: a device with its own memory and queues fits as well.
#![forbid(unsafe_code)]

pub mod roofline;
mod shares;
pub mod view;

pub use shares::BudgetShares;

use nodegauge_analysis::expect::Figures;
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::SavedTrips;
use nodegauge_measure::record::{Machine, Measurement, Record};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::Environment;
use roofline::{CeilingsAsk, RooflinePoint};
use std::time::Duration;
use view::Section;

/// Node that is measured, with its configuration at the start of the run.
pub struct Site {
    /// Processors, caches and NUMA nodes.
    pub topology: Topology,
    /// Description of the node as it is stored in the record; it includes the topology.
    pub machine: Machine,
    /// Root directory of `/proc` and `/sys`.
    pub root: SysRoot,
    /// Core-to-core round trips in saved runs of this node.
    pub round_trips: SavedTrips,
}

impl Site {
    /// Creates a site without saved runs.
    pub fn new(topology: Topology, machine: Machine, root: SysRoot) -> Self {
        Self { topology, machine, root, round_trips: SavedTrips::default() }
    }
}

/// Expected resources of a run, as far as they are known in advance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Foreseen {
    /// Expected time; `None` if it depends on what is measured.
    pub time: Option<Duration>,
    /// Expected memory.
    pub memory: Option<Bytes>,
}

/// A planned run: its options have been checked, and nothing has been touched yet.
pub trait Planned {
    /// Returns the expected resources of the run.
    fn foreseen(&self) -> Foreseen {
        Foreseen::default()
    }

    /// Returns the figures that the run may produce; empty if they are not known. A condition that no figure
    /// can meet is rejected before the run.
    fn figures(&self, site: &Site) -> Vec<Figures> {
        let _ = site;
        Vec::new()
    }

    /// Runs the measurement.
    ///
    /// # Errors
    /// Fails if nothing could be measured. A later failure is stored in the outcome, together with the figures
    /// measured before it.
    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure>;
}

/// Plans that run one after another.
pub struct InTurn(pub Vec<Box<dyn Planned>>);

impl Planned for InTurn {
    fn foreseen(&self) -> Foreseen {
        let all = || self.0.iter().map(|plan| plan.foreseen());
        Foreseen {
            time: all().map(|one| one.time).sum(),
            memory: all().filter_map(|one| one.memory).max(),
        }
    }

    fn figures(&self, site: &Site) -> Vec<Figures> {
        self.0.iter().flat_map(|plan| plan.figures(site)).collect()
    }

    fn run(self: Box<Self>, site: &Site, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
        let mut found = Outcome::default();
        for plan in self.0 {
            if !found.is_interrupted() {
                found.extend(plan.run(site, observer)?);
            }
        }
        Ok(found)
    }
}

/// Extent of a gauge's part of `run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// A short measurement: about one minute for all gauges together.
    Quick,
    /// Everything that a gauge measures by default.
    Full,
}

/// Input of a gauge's plan for `run`.
pub struct SummaryRequest<'a> {
    /// Extent of the measurement.
    pub depth: Depth,
    /// Figures of the gauges that ran before this one.
    pub before: &'a [Measurement],
    /// The gauge's share of the requested time.
    pub budget: Option<Duration>,
    /// Requested number of samples, for a gauge that measures until its figures are stable.
    pub samples: Option<usize>,
    /// Thread settings from the environment variables of OpenMP programs.
    pub environment: &'a Environment,
    /// Returns the newest saved run of this node that itself measured a figure with this test and name.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

impl<'a> SummaryRequest<'a> {
    /// Returns a request of this depth without figures, limits and saved runs.
    pub fn plain(depth: Depth, environment: &'a Environment) -> Self {
        Self { depth, before: &[], budget: None, samples: None, environment, newest: &|_, _| None }
    }
}

/// Level of detail of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The part on the page of `run`: figures and the most important evidence.
    Brief,
    /// All evidence, as the gauge's own command shows it.
    Full,
}

/// Representative figure of a gauge, or a placeholder for one that the record does not contain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'r> {
    /// Part of the node that the figure describes, e.g. `floating point`.
    pub title: &'static str,
    /// Name of the figure, e.g. `Triad`.
    pub what: &'static str,
    /// The figure.
    pub figure: Option<&'r Measurement>,
}

impl<'r> Headline<'r> {
    /// Selects the figure with the highest `rank` among those of `gauge` that the record's run measured
    /// itself; none if `rank` returns `None` for all of them.
    pub fn of<K: PartialOrd>(
        title: &'static str,
        what: &'static str,
        record: &'r Record,
        gauge: &str,
        rank: impl Fn(&Measurement) -> Option<K>,
    ) -> Self {
        let own = record.measurements.iter();
        let own = own.filter(|m| m.gauge == gauge && m.value.is_some() && !m.is_published());
        let ranked = own.filter_map(|m| Some((rank(m)?, m)));
        let last = ranked.reduce(|best, next| if next.0 >= best.0 { next } else { best });
        Self { title, what, figure: last.map(|(_, m)| m) }
    }
}

/// Returns the outcome of a gauge's plan as part of a larger run. A gauge that fails must not discard the
/// figures of the others, so its failure becomes a notice.
pub fn attempted(
    gauge: &dyn Gauge,
    planned: Result<Option<Box<dyn Planned>>, Failure>,
    site: &Site,
    observer: &mut dyn Observer,
) -> Outcome {
    let not_measured = |failure: Failure| {
        let text = format!("not measured: {}", failure.in_a_line());
        Notice::new(NoticeId::LeftOut, gauge.name(), text)
    };
    let found =
        planned.and_then(|planned| planned.map(|planned| planned.run(site, observer)).transpose());
    match found {
        Ok(outcome) => {
            let mut outcome = outcome.unwrap_or_default();
            let failure = outcome.failure.take();
            outcome.notices.extend(failure.map(not_measured));
            outcome
        }
        Err(failure) => Outcome { notices: vec![not_measured(failure)], ..Outcome::default() },
    }
}

/// A gauge: memory, compute, messages, files, ...
pub trait Gauge: Sync {
    /// Returns the gauge's name, as it is stored in `gauge` in records.
    fn name(&self) -> &'static str;

    /// Returns the kinds of the gauge's figures, with their configuration keys.
    fn kinds(&self) -> Vec<ConfigKind>;

    /// Plans the gauge's part of `run`; `None` if it has none on this node.
    ///
    /// # Errors
    /// Fails if something that the run requires is missing or does not fit.
    fn summary_plan(
        &self,
        site: &Site,
        ask: &SummaryRequest<'_>,
    ) -> Result<Option<Box<dyn Planned>>, Failure>;

    /// Plans the gauge's part of a roofline: ceilings, and kernels below them, as figures of
    /// [`roofline::GAUGE`]; `None` if it has none.
    ///
    /// # Errors
    /// Fails under the same conditions as [`Self::summary_plan`].
    fn ceilings(
        &self,
        site: &Site,
        ask: &CeilingsAsk<'_>,
    ) -> Result<Option<Box<dyn Planned>>, Failure> {
        let _ = (site, ask);
        Ok(None)
    }

    /// Returns the points that the gauge can add to a roofline from its saved figures. `newest` returns the
    /// newest saved run of this node that itself measured a figure with this test and name.
    fn points(&self, newest: &dyn Fn(&str, &str) -> Option<Record>) -> Vec<RooflinePoint> {
        let _ = newest;
        Vec::new()
    }

    /// Returns the gauge's representative figures for a short summary of a node, in display order. They are
    /// figures that the node measured itself.
    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>>;

    /// Returns the gauge's part of a record's page; empty if the record has no figures of the gauge. Figures
    /// of unknown kinds are shown in a plain table.
    fn view(&self, record: &Record, detail: Detail) -> Vec<Section>;
}
