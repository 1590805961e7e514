//! Conversion of the user's options, the environment and saved runs of this node to the options of an `hpl` run.
//!
//! Saved figures are used only if the machine has not changed since they were saved, and not for a described machine.

use crate::config::RatingConfig;
use crate::options::{BUDGET, HplOptions, RankOptions, ReferenceProgramOptions};
use crate::size::{self, OrderSpec};
use crate::{DGEMM, RATING, TEST};
use nodegauge_analysis::facts::machine_changes;
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::shared;
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::{BytesPerSec, Failure, FlopsPerSec, Fraction};
use nodegauge_placement::{Placement, PlacementOptions};
use nodegauge_toolchain::blas::BlasRequest;
use nodegauge_toolchain::mpi::{HostList, job_has_several_hosts, job_hosts};
use std::time::Duration;

/// Options of `hpl` as given by the user.
pub struct HplRequest<'a> {
    /// Order N of the system.
    pub order: Option<usize>,
    /// True if the matrix shall fill the memory.
    pub full: bool,
    /// True if an option sets the available memory.
    pub is_memory_given: bool,
    /// Share of the available memory for the matrix if `full` is set.
    pub memory_fraction: Fraction,
    /// Candidates for the panel width NB; if empty, a search chooses NB.
    pub nb: Vec<usize>,
    /// True if N must be a multiple of NB x LCM(P, Q) of the reference program's grid.
    pub grid_multiple: bool,
    /// Seed of the random matrix.
    pub seed: u64,
    /// Time budget of the whole run.
    pub budget: Option<Duration>,
    /// Number of solves.
    pub samples: Option<usize>,
    /// Requested BLAS libraries; if empty, the fastest installed library is used.
    pub libraries: Vec<BlasRequest>,
    /// Rate of the solve that the user gave, used to predict the time.
    pub rate: Option<FlopsPerSec>,
    /// Threads and their places.
    pub placement: PlacementOptions,
    /// Ranks of the reference program on each host.
    pub ranks: Option<usize>,
    /// Hosts of the reference program.
    pub hosts: Vec<HostList>,
    /// Reference program to run in addition.
    pub reference: Option<ReferenceProgramOptions>,
    /// Function that returns the newest saved run of this node with a figure, given the test and the name of the
    /// figure.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

/// Placed threads of a run, and notices about the placement.
pub(crate) struct PlacedThreads {
    pub placement: Placement,
    pub notices: Vec<String>,
}

/// Best saved value of a figure.
#[derive(Debug, Clone, PartialEq)]
struct SavedFigure {
    value: f64,
    source: String,
}

impl HplRequest<'_> {
    /// Places the threads of the native run.
    pub(crate) fn place(&self, site: &MeasuredNode) -> Result<PlacedThreads, Failure> {
        let mut teams = self.placement.place_teams(&site.topology)?;
        if teams.placements.len() != 1 {
            return Err(
                Failure::usage("hpl requires a single thread count").hint("give --threads N once")
            );
        }
        Ok(PlacedThreads { placement: teams.placements.remove(0), notices: teams.notices })
    }

    /// Returns the options of a run on this number of threads.
    pub(crate) fn options(
        self,
        site: &MeasuredNode,
        threads: usize,
    ) -> Result<HplOptions, Failure> {
        let described = site.machine.is_described();
        let order = match (self.order, self.full) {
            (Some(order), _) => OrderSpec::Given(order),
            (None, true) => OrderSpec::Full,
            (None, false) if described && self.budget.is_none() => OrderSpec::Full,
            (None, false) => OrderSpec::Quick,
        };
        let on_as_many = |m: &Measurement| m.read_key::<shared::threads>() == Some(threads as u64);
        let triad = self.saved(site, (stream::TEST, stream::TRIAD), &|_| true);
        let dgemm = self.saved(site, (TEST, DGEMM), &on_as_many);
        let half_rate_order = self.saved_half(site, &on_as_many).filter(|_| self.rate.is_none());
        Ok(HplOptions {
            order,
            memory_fraction: self.memory_fraction,
            grid_multiple: self.grid_multiple,
            seed: self.seed,
            budget: self.budget.unwrap_or(BUDGET),
            samples: self.samples.unwrap_or(1),
            triad: triad.map(|saved| (BytesPerSec(saved.value), saved.source)),
            dgemm: dgemm.map(|saved| (FlopsPerSec(saved.value), saved.source)),
            rate: self.rate,
            half_rate_order,
            is_memory_given: self.is_memory_given,
            ranks: RankOptions {
                ranks: self.ranks,
                threads: self.placement.single_thread_count().map(|count| count as usize),
                hosts: hosts(&self.hosts)?,
            },
            nb: self.nb,
            libraries: self.libraries,
            // A plan for another machine does not require the reference program on this machine.
            reference: self.reference.filter(|_| !described),
        })
    }

    /// Returns the newest record with this figure that was measured on this machine in its present state.
    fn newest(&self, site: &MeasuredNode, (test, name): (&str, &str)) -> Option<Record> {
        if site.machine.is_described() {
            return None;
        }
        let record = (self.newest)(test, name)?;
        machine_changes(&record.machine, &site.machine).is_empty().then_some(record)
    }

    /// Returns the order at which LU reaches half of the DGEMM rate, from the newest saved rating. Suspect ratings are
    /// ignored: on a busy node, the predicted time would be too long and the next run would be refused.
    fn saved_half(&self, site: &MeasuredNode, fits: &dyn Fn(&Measurement) -> bool) -> Option<f64> {
        let record = self.newest(site, (TEST, RATING))?;
        let all = record.measurements.iter().filter(|m| m.test == TEST && m.name == RATING);
        let ratings = all.filter(|m| m.validity.status == Status::Valid && fits(m));
        ratings
            .map(|m| m.read_config::<RatingConfig>())
            .find_map(|config| size::half_rate_order_from_rating(&config))
    }

    /// Returns the best value of a figure in the newest saved run, with the time of that run. Only figures for which
    /// `fits` returns true are considered.
    fn saved(
        &self,
        site: &MeasuredNode,
        (test, name): (&str, &str),
        fits: &dyn Fn(&Measurement) -> bool,
    ) -> Option<SavedFigure> {
        let record = self.newest(site, (test, name))?;
        let figures = record.measurements.iter().filter(|m| m.test == test && m.name == name);
        let figures = figures.filter(|m| fits(m));
        let value = figures.filter_map(|m| m.value).reduce(f64::max)?;
        Some(SavedFigure { value, source: format!("saved {}", record.started) })
    }
}

/// Returns the given hosts; without them, the hosts of the Slurm job if it has several hosts. An empty list means this
/// node.
fn hosts(named: &[HostList]) -> Result<Vec<String>, Failure> {
    if named.is_empty() && job_has_several_hosts() {
        return job_hosts();
    }
    HostList::resolve_all(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::record;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::{Machine, MachineSource, Validity};

    fn site(source: MachineSource) -> MeasuredNode {
        let topology = TopologySource::Synthetic("Package:1 Core:4 PU:1".to_owned());
        let machine = Machine { source, ..Machine::default() };
        MeasuredNode::new(Topology::load(&topology).unwrap(), machine, SysRoot::live())
    }

    fn request(newest: &dyn Fn(&str, &str) -> Option<Record>) -> HplRequest<'_> {
        HplRequest {
            is_memory_given: false,
            order: None,
            full: false,
            memory_fraction: Fraction(0.8),
            nb: Vec::new(),
            grid_multiple: false,
            seed: 1,
            budget: None,
            samples: None,
            libraries: Vec::new(),
            rate: None,
            placement: PlacementOptions::default(),
            ranks: None,
            hosts: vec!["a,b".parse().unwrap()],
            reference: None,
            newest,
        }
    }

    /// Returns a record of `machine` with a figure of this name, measured with `threads` threads.
    fn saved_on(machine: &Machine, (test, name): (&str, &str), threads: u64) -> Record {
        let mut m = Measurement::new(crate::GAUGE, test, name, Unit::FlopsPerSecond);
        m.value = Some(5e9);
        m.config.insert("threads".to_owned(), threads.into());
        Record { machine: machine.clone(), started: "then".to_owned(), ..record(vec![m]) }
    }

    #[test]
    fn saved_figures_need_the_same_machine_and_dgemm_rates_need_the_same_thread_count() {
        let live = site(MachineSource::Live);
        let saved = |test: &str, name: &str| Some(saved_on(&live.machine, (test, name), 4));
        let options = request(&saved).options(&live, 4).unwrap();
        assert_eq!(options.order, OrderSpec::Quick);
        assert_eq!(options.dgemm, Some((FlopsPerSec(5e9), "saved then".to_owned())));
        assert_eq!(options.triad, Some((BytesPerSec(5e9), "saved then".to_owned())));
        assert_eq!(options.ranks.hosts, ["a", "b"]);
        let fewer = request(&saved).options(&live, 2).unwrap();
        assert_eq!((fewer.dgemm, fewer.triad.is_some()), (None, true));
        let mut changed = live.machine.clone();
        changed.processor.model = Some("another".to_owned());
        let of_another = |test: &str, name: &str| Some(saved_on(&changed, (test, name), 4));
        assert_eq!(request(&of_another).options(&live, 4).unwrap().triad, None);
    }

    #[test]
    fn suspect_rating_does_not_predict_the_time() {
        let live = site(MachineSource::Live);
        let rated = |validity: Validity| {
            let mut record = saved_on(&live.machine, (TEST, RATING), 4);
            let m = &mut record.measurements[0];
            m.validity = validity;
            m.config.insert("n".to_owned(), 2000.into());
            m.config.insert("of_dgemm".to_owned(), 0.8.into());
            record
        };
        let half_rate_order = |validity: &Validity| {
            let saved = |_: &str, _: &str| Some(rated(validity.clone()));
            request(&saved).options(&live, 4).unwrap().half_rate_order
        };
        let mut disturbed = Validity::valid();
        disturbed.mark_suspect("other processes used the CPUs");
        assert_eq!(half_rate_order(&Validity::valid()).map(f64::round), Some(500.0));
        assert_eq!(half_rate_order(&disturbed), None);
    }

    #[test]
    fn described_machine_uses_no_saved_figures() {
        let described = site(MachineSource::Synthetic);
        let saved = |test: &str, name: &str| Some(saved_on(&described.machine, (test, name), 4));
        let options = request(&saved).options(&described, 4).unwrap();
        assert_eq!((options.order, options.triad), (OrderSpec::Full, None));
        let budget = Some(Duration::from_secs(5));
        let in_time = HplRequest { budget, ..request(&saved) };
        assert_eq!(in_time.options(&described, 4).unwrap().order, OrderSpec::Quick);
    }
}
