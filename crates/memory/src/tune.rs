//! `--tune`: the best of all threads, places, pages, stores, vector widths, unrolls and prefetches.
//!
//! The whole space is a product, too large to measure (some hundred configurations on a small
//! machine, thousands on a large one). Three races go through it, each by successive halving over
//! passes in random order:
//!
//! 1. **sites**: every team and kind of page, each with the best guess of both kinds of store;
//! 2. **loops**: on the best site every loop, for each kernel by itself;
//! 3. **final**: the best sites and the plain one with these loops, until no other can be faster by
//!    more than half a percent.
//!
//! This takes stores together with the site, on which they depend most (a few threads gain from
//! caches what many lose to write-allocate), and all else after it. docs/benchmarks.md sets the
//! result beside an exhaustive search.

mod choice;
mod space;

pub use choice::Choice;
pub use space::{Site, Space};

use crate::halving::{Halving, Shuffler};
use crate::kernels::{Kernel, Shape, Stores};
use crate::point::Point;
use crate::result;
use crate::stream::{self, Options, StreamError};
use crate::tuner;
use nodegauge_machine::Topology;
use nodegauge_measure::record::{Category, Machine, Measurement, Validity};
use nodegauge_measure::stats::{self, Better, Summary};
use nodegauge_measure::{Watch, regime};
use nodegauge_placement::Request;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// What tuning found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The choice; `None` when interrupted before there was one.
    pub choice: Option<Choice>,
    /// One a configuration of the first race and of the final, and what the choice is worth.
    pub measurements: Vec<Measurement>,
    /// What was clamped, and what was chosen.
    pub notices: Vec<String>,
    /// Passes that all this took.
    pub passes: usize,
}

/// Shares of the time until which the first and the second race may go on; the final has the rest.
const SITES_UNTIL: f64 = 0.45;
/// See [`SITES_UNTIL`].
const LOOPS_UNTIL: f64 = 0.75;
/// Entries that reach the final, the plain one not counted.
const FINALISTS: usize = 3;
/// Sites closer than this to the leader are worth a second look with better loops: what choosing them
/// gains beyond the best guess.
const WORTH_A_LOOK: f64 = 0.90;
/// The final goes on until nobody can be faster than the leader by more than this share.
const TOLERANCE: f64 = 0.005;
/// Passes of the final at least, for each.
const LEAST_FINAL: usize = 8;
/// Times a disturbed pass is run in all.
const TRIES: usize = 3;

/// A site with loops, and all that was measured of it.
struct Entry {
    /// Number of the site.
    site: usize,
    loops: Vec<(Kernel, Shape)>,
    /// Geometric mean of the kernels' rates, B/s, and the round trip of the regime.
    samples: Vec<(f64, f64)>,
    /// `sites` or `final`.
    race: &'static str,
}

impl Entry {
    /// The kind of store that it began with; `None` when no kernel stores.
    fn stores(&self) -> Option<Stores> {
        self.loops.iter().find(|(kernel, _)| kernel.writes()).map(|(_, shape)| shape.stores)
    }
}

/// Searches the space that `request` and `options` leave open, within the budget of `options`.
///
/// # Errors
/// When a site cannot be set up or measured.
pub fn run(
    topology: &Topology,
    machine: &Machine,
    request: &Request,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Outcome, StreamError> {
    let started = Instant::now();
    let space = Space::of(topology, machine, request, options)?;
    let mut search = Search::prepare(topology, machine, &space, options, watch)?;
    let until = |share: f64| started + options.budget.mul_f64(share);

    watch.phase(&format!("{} teams and pages", space.sites.len()));
    let mut entries = search.first_entries(&space);
    let order = search.race(&mut entries, until(SITES_UNTIL), None, watch)?;
    // The best entry of each site, leader first; and what a run without tuning would take.
    let mut best: Vec<usize> = Vec::new();
    let line = order.first().map_or(0.0, |first| WORTH_A_LOOK * middle(&entries[*first].samples));
    let plain = (0..entries.len())
        .filter(|i| entries[*i].site == 0)
        .max_by(|x, y| middle(&entries[*x].samples).total_cmp(&middle(&entries[*y].samples)));
    let good = order.iter().copied().filter(|i| middle(&entries[*i].samples) >= line);
    for i in good.chain(plain) {
        if best.iter().all(|known| entries[*known].site != entries[i].site) {
            best.push(i);
        }
    }
    search.keep_only(&best.iter().map(|i| entries[*i].site).collect::<Vec<_>>());

    let mut finalists: Vec<Entry> = Vec::new();
    for (done, i) in best.iter().enumerate() {
        let (site, stores) = (entries[*i].site, entries[*i].stores());
        // Sites that store alike choose alike.
        let known = best[..done].iter().position(|other| entries[*other].stores() == stores);
        let loops = match known {
            Some(known) => finalists[known].loops.clone(),
            None => {
                watch.phase(&format!("{} loops for each kernel", space.shapes.len()));
                search.choose_loops(site, &space, until(LOOPS_UNTIL), watch)?
            }
        };
        finalists.push(Entry { site, loops, samples: Vec::new(), race: "final" });
    }

    watch.phase("the best, by turns");
    let order = search.race(&mut finalists, until(1.0), Some(LEAST_FINAL), watch)?;
    let mut outcome = Outcome {
        choice: None,
        measurements: entries
            .iter()
            .chain(&finalists)
            .filter_map(|entry| measurement(entry, &space.sites[entry.site], options))
            .collect(),
        notices: search.notices,
        passes: search.passes,
    };
    let winner = order.first().map(|i| &finalists[*i]).filter(|_| !watch.interrupted());
    if let Some(winner) = winner {
        let site = &space.sites[winner.site];
        let choice = Choice::new(site, options.element, winner.loops.clone());
        let plain = finalists.iter().find(|entry| entry.site == 0).unwrap_or(winner);
        outcome.measurements.push(worth(winner, plain, &choice, outcome.passes));
        outcome.notices.push(format!(
            "tuned: {} on {} pages; {}",
            team_in_words(site),
            site.pages,
            stream::describe(&winner.loops)
        ));
        outcome.choice = Some(choice);
    }
    Ok(outcome)
}

/// The sites that are still in, and what it took.
struct Search {
    /// By number of the site.
    points: BTreeMap<usize, Point>,
    order: Shuffler,
    notices: Vec<String>,
    passes: usize,
}

impl Search {
    /// Every site with a team and arrays of its own; the memory is shared out among them.
    fn prepare(
        topology: &Topology,
        machine: &Machine,
        space: &Space,
        options: &Options,
        watch: &mut dyn Watch,
    ) -> Result<Self, StreamError> {
        watch.phase(&format!("preparing {} teams with their arrays", space.sites.len()));
        let mut points = BTreeMap::new();
        let mut notices = Vec::new();
        for (number, site) in space.sites.iter().enumerate() {
            let options = Options {
                pages: Some(site.pages),
                memory_fraction: options.memory_fraction / space.sites.len() as f64,
                ..options.clone()
            };
            let (size, config) = stream::plan(topology, machine, &site.placement, &options)?;
            for notice in size.notices {
                if !notices.contains(&notice) {
                    notices.push(notice);
                }
            }
            points.insert(number, Point::prepare(config)?);
        }
        Ok(Self { points, order: Shuffler::new(0x0074_756E_6500), notices, passes: 0 })
    }

    /// Each site with the best guess of each kind of store.
    fn first_entries(&self, space: &Space) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (site, point) in &self.points {
            for guess in space.guesses() {
                let config = point.config();
                let loop_for = |kernel: Kernel| {
                    let loops = tuner::loops(kernel, config.element, &[guess]);
                    (kernel, loops.first().copied().unwrap_or(guess))
                };
                let loops = config.kernels.iter().map(|(kernel, _)| loop_for(*kernel)).collect();
                entries.push(Entry { site: *site, loops, samples: Vec::new(), race: "sites" });
            }
        }
        entries
    }

    /// Lets entries run by turns. Without `least` the slower leave until [`FINALISTS`] are left;
    /// with it everybody stays, and it goes on until each has so many samples and the leader is
    /// certain. Time ends either; the first round is always whole. Returns who is left, by rank.
    fn race(
        &mut self,
        entries: &mut [Entry],
        deadline: Instant,
        least: Option<usize>,
        watch: &mut dyn Watch,
    ) -> Result<Vec<usize>, StreamError> {
        let begun = Instant::now();
        let allotted = deadline.saturating_duration_since(begun).as_secs_f64().max(1e-3);
        let mut race = Halving::new(0..entries.len());
        // The first pass of a configuration warms it up.
        for entry in entries.iter() {
            self.pass(entry)?;
        }
        let mut rounds = 0;
        loop {
            race.shuffle(&mut self.order, |_| ());
            for turn in 0..race.len() {
                if watch.interrupted() || (rounds > 0 && Instant::now() >= deadline) {
                    race.rank();
                    return Ok((0..race.len()).map(|i| *race.get(i)).collect());
                }
                let number = *race.get(turn);
                let (rate, trip) = self.pass(&entries[number])?;
                entries[number].samples.push((rate, trip));
                race.record(turn, rate, trip);
            }
            rounds += 1;
            let spent = begun.elapsed().as_secs_f64() / allotted;
            watch.progress(spent.min(1.0), &format!("{} still in", race.len()));
            let ended = match least {
                None if race.len() <= FINALISTS => true,
                // Twice before the first cut, so that the noise is known.
                None if rounds > 1 => {
                    race.cut();
                    race.len() <= FINALISTS
                }
                None => false,
                Some(least) => rounds >= least && race.is_settled(TOLERANCE),
            };
            if ended {
                race.rank();
                return Ok((0..race.len()).map(|i| *race.get(i)).collect());
            }
        }
    }

    /// One pass of an entry: geometric mean of its kernels' rates, B/s, and the round trip between
    /// the CPUs of the plain team, seconds, which tells the regime of the machine whoever runs.
    fn pass(&mut self, entry: &Entry) -> Result<(f64, f64), StreamError> {
        let mut before = self.reference_trip()?;
        for attempt in 1.. {
            let Some(point) = self.points.get_mut(&entry.site) else { break };
            point.reshape(entry.loops.clone())?;
            let sample = point.pass()?;
            let rates: Vec<f64> = sample
                .seconds
                .iter()
                .enumerate()
                .map(|(i, seconds)| result::counted(point, i) / seconds)
                .collect();
            self.passes += 1;
            let after = self.reference_trip()?;
            let clean = sample.causes.is_empty() && regime::same(before, after);
            // On a busy machine the last try counts, disturbed or not.
            if clean || attempt == TRIES {
                return Ok((stats::geometric_mean(&rates), after));
            }
            before = after;
        }
        Ok((f64::NAN, f64::NAN))
    }

    fn reference_trip(&mut self) -> Result<f64, StreamError> {
        match self.points.get_mut(&0) {
            Some(plain) => Ok(plain.round_trip()?),
            None => Ok(f64::NAN),
        }
    }

    /// The best loop for each kernel on a site.
    fn choose_loops(
        &mut self,
        site: usize,
        space: &Space,
        deadline: Instant,
        watch: &mut dyn Watch,
    ) -> Result<Vec<(Kernel, Shape)>, StreamError> {
        let Some(point) = self.points.get_mut(&site) else { return Ok(Vec::new()) };
        let chosen = tuner::choose(point, &space.shapes, deadline, || watch.interrupted())?;
        self.passes += chosen.passes;
        Ok(chosen.loops)
    }

    /// Gives back the memory and the threads of all sites but these and the plain one.
    fn keep_only(&mut self, sites: &[usize]) {
        self.points.retain(|site, _| *site == 0 || sites.contains(site));
    }
}

/// The team of a site: `2 threads on places cores (close)`.
fn team_in_words(site: &Site) -> String {
    let threads = site.placement.threads.len();
    let plural = if threads == 1 { "thread" } else { "threads" };
    format!("{threads} {plural} on places {} ({})", site.placement.places, site.placement.bind)
}

/// Rates of those samples that are of the regime most samples are of.
fn rates(samples: &[(f64, f64)]) -> Vec<f64> {
    let trips: Vec<f64> = samples.iter().map(|(_, trip)| *trip).collect();
    let regimes = regime::regimes(&trips);
    let members = |r: &regime::Regime| trips.iter().filter(|trip| r.contains(**trip)).count();
    let most = regimes.iter().max_by_key(|r| members(r));
    let counts = |trip: f64| most.is_none_or(|r| trip.is_nan() || r.contains(trip));
    samples.iter().filter(|(_, trip)| counts(*trip)).map(|(rate, _)| *rate).collect()
}

/// The median rate, B/s.
fn middle(samples: &[(f64, f64)]) -> f64 {
    stats::median(&rates(samples))
}

/// What is reported of an entry: the geometric mean of its kernels' rates, by its median.
fn measurement(entry: &Entry, site: &Site, options: &Options) -> Option<Measurement> {
    let samples = rates(&entry.samples);
    let summary = Summary::of(&samples, Better::Higher)?;
    let mut config = Map::new();
    for (key, value) in [
        ("race", json!(entry.race)),
        ("threads", json!(site.placement.threads.len())),
        ("places_asked", json!(site.placement.places)),
        ("bind", json!(site.placement.bind.to_string())),
        ("pages", json!({"asked": site.pages.name(), "got": null})),
        ("stores", json!(entry.stores().map(Stores::name))),
        ("loops", json!(stream::describe(&entry.loops))),
        ("element", json!(options.element.name())),
        ("plain", json!(entry.site == 0)),
    ] {
        config.insert(key.to_owned(), value);
    }
    Some(Measurement {
        gauge: "memory".to_owned(),
        test: "tune".to_owned(),
        name: format!("{}, {} pages", team_in_words(site), site.pages),
        unit: nodegauge_measure::Unit::BytesPerSecond,
        value: Some(summary.median),
        summary: Some(summary),
        samples,
        config,
        quoted: nodegauge_measure::record::Quoted::Median,
        traffic: None,
        disturbed: Vec::new(),
        regimes: Vec::new(),
        category: Category::Variant,
        limit: None,
        validity: Validity::valid(),
    })
}

/// What the choice is worth over one thread a core on default pages, both from the final.
fn worth(winner: &Entry, plain: &Entry, choice: &Choice, passes: usize) -> Measurement {
    let mut config = Map::new();
    config.insert("choice".to_owned(), choice.to_json());
    config.insert("from".to_owned(), json!(middle(&plain.samples)));
    config.insert("to".to_owned(), json!(middle(&winner.samples)));
    config.insert("passes".to_owned(), json!(passes));
    Measurement {
        gauge: "memory".to_owned(),
        test: "tune".to_owned(),
        name: "choice".to_owned(),
        unit: nodegauge_measure::Unit::Factor,
        value: Some(middle(&winner.samples) / middle(&plain.samples)).filter(|x| x.is_finite()),
        summary: None,
        samples: Vec::new(),
        config,
        quoted: nodegauge_measure::record::Quoted::Single,
        traffic: None,
        disturbed: Vec::new(),
        regimes: Vec::new(),
        category: Category::Variant,
        limit: None,
        validity: Validity::valid(),
    }
}
