//! What a gauge is: a name, plans that are refused before anything is touched, runs that end in an
//! [`Outcome`], the keys of its figures' configurations, and the view of its part of a record.
//!
//! Gauges implement [`Gauge`] and [`Planned`] and are registered in one list of the command; what
//! runs, shows, compares and exports records reads that list. Nothing here assumes that a gauge
//! measures processors: a device with memory and queues of its own fits as well.
#![forbid(unsafe_code)]

pub mod roofline;
pub mod view;

use nodegauge_analysis::expect::Figures;
use nodegauge_machine::{SysRoot, Topology};
use nodegauge_measure::keys::ConfigKind;
use nodegauge_measure::record::SavedTrips;
use nodegauge_measure::record::{Machine, Measurement, Record};
use nodegauge_measure::{Bytes, Failure, Notice, NoticeId, Observer, Outcome};
use nodegauge_placement::Environment;
use roofline::{CeilingsAsk, Point};
use std::time::Duration;
use view::Section;

/// The node that is measured, as it was found.
pub struct Site {
    /// Processors, caches, NUMA nodes.
    pub topology: Topology,
    /// The same and more, as the record keeps it.
    pub machine: Machine,
    /// Where `/proc` and `/sys` are read.
    pub root: SysRoot,
    /// Round trips of saved runs of this node.
    pub round_trips: SavedTrips,
}

impl Site {
    /// A node without a history.
    pub fn new(topology: Topology, machine: Machine, root: SysRoot) -> Self {
        Self { topology, machine, root, round_trips: SavedTrips::default() }
    }
}

/// What a run will need, as far as it is known before.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Foreseen {
    /// Time; `None` where it depends on what is measured.
    pub time: Option<Duration>,
    /// Memory.
    pub memory: Option<Bytes>,
}

/// A run that has been planned: everything that can be refused has been, and nothing was touched.
pub trait Planned {
    /// What the run will need.
    fn foreseen(&self) -> Foreseen {
        Foreseen::default()
    }

    /// The figures that it may give, so that a condition that none can meet is refused before it runs; empty
    /// where that is not known.
    fn figures(&self, site: &Site) -> Vec<Figures> {
        let _ = site;
        Vec::new()
    }

    /// Measures.
    ///
    /// # Errors
    /// When nothing could be measured. What fails later is in the outcome, with what was measured
    /// before.
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

/// How much of a gauge the page of `run` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// About a minute for all gauges together.
    Quick,
    /// Everything that a gauge does by default.
    Full,
}

/// What `run` asks of a gauge.
pub struct Glance<'a> {
    /// How much.
    pub depth: Depth,
    /// What the gauges before found in this run.
    pub before: &'a [Measurement],
    /// The gauge's share of the time that was asked for.
    pub budget: Option<Duration>,
    /// The number of samples that was asked for, of a gauge that measures until its figures are stable.
    pub samples: Option<usize>,
    /// What the variables of OpenMP programs say of threads.
    pub environment: &'a Environment,
    /// The newest saved run of this node with a figure of this test and name that it measured itself.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

/// Which view of a record is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The part of the one page of `run`: figures and the least evidence.
    Brief,
    /// All evidence, as the gauge's own command shows it.
    Full,
}

/// A figure that stands for a gauge, or the place of one that the record does not have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'r> {
    /// What of the node it is, e.g. `floating point`.
    pub title: &'static str,
    /// Which figure it is, e.g. `Triad`.
    pub what: &'static str,
    /// The figure.
    pub figure: Option<&'r Measurement>,
}

impl<'r> Headline<'r> {
    /// The figure among those of a gauge that the record's run measured itself which comes last by `rank`;
    /// none where every one has `None`.
    pub fn of<K: PartialOrd>(
        (title, what): (&'static str, &'static str),
        (record, gauge): (&'r Record, &str),
        rank: impl Fn(&Measurement) -> Option<K>,
    ) -> Self {
        let own = record.measurements.iter();
        let own = own.filter(|m| m.gauge == gauge && m.value.is_some() && !m.is_published());
        let ranked = own.filter_map(|m| Some((rank(m)?, m)));
        let last = ranked.reduce(|best, next| if next.0 >= best.0 { next } else { best });
        Self { title, what, figure: last.map(|(_, m)| m) }
    }
}

/// Returns the outcome of a gauge's plan as part of a larger run: what one gauge lacks must not cost the figures
/// of the others, so the reason why it did not measure becomes a notice.
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
    /// Its name, as records have it in `gauge`.
    fn name(&self) -> &'static str;

    /// The kinds of its figures, with the keys of their configurations.
    fn kinds(&self) -> Vec<ConfigKind>;

    /// Plans the gauge's part of `run`; `None` where it has none on this node.
    ///
    /// # Errors
    /// When something that the run needs is not there or does not fit.
    fn glance(&self, site: &Site, ask: &Glance<'_>) -> Result<Option<Box<dyn Planned>>, Failure>;

    /// Plans the gauge's part of a roofline: ceilings, and kernels placed under them, as figures of
    /// [`roofline::GAUGE`]; `None` where it has none.
    ///
    /// # Errors
    /// As [`Self::glance`].
    fn ceilings(
        &self,
        site: &Site,
        ask: &CeilingsAsk<'_>,
    ) -> Result<Option<Box<dyn Planned>>, Failure> {
        let _ = (site, ask);
        Ok(None)
    }

    /// What the gauge can place under a roofline of its saved figures: `newest` has the newest saved run of
    /// this node with a figure of this test and name that it measured itself.
    fn points(&self, newest: &dyn Fn(&str, &str) -> Option<Record>) -> Vec<Point> {
        let _ = newest;
        Vec::new()
    }

    /// What of a record stands for the gauge where a node is shown by a few bars, in order: figures that
    /// the node measured itself.
    fn headlines<'r>(&self, record: &'r Record) -> Vec<Headline<'r>>;

    /// The gauge's part of a record's page; empty when it took no part. Figures of a kind that the
    /// gauge does not know are shown in a plain table, never left out.
    fn view(&self, record: &Record, detail: Detail) -> Vec<Section>;
}
