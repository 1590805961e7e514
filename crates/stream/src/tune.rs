//! `--tune`: search for the best threads, places, pages, stores, vector widths, unrolls and prefetches.
//!
//! The whole space is the product of these settings and too large to measure (a few hundred configurations on a small
//! machine, thousands on a large one). The search has three stages, each by successive halving over passes in random
//! order:
//!
//! 1. **placements**: every team and kind of page, with the most promising loop for each kind of store;
//! 2. **loops**: every loop on the best placements, for each kernel separately;
//! 3. **final**: the best placements and the default placement with these loops, until no other placement can be faster
//!    than the leader by more than half a percent.
//!
//! The kind of store is searched together with the placement, because it depends most on the placement: regular stores
//! can be faster with few threads, which benefit from caches, and non-temporal stores with many threads, for which
//! write-allocate traffic is costly. All other properties are searched afterwards. docs/benchmarks.md compares the
//! result with an exhaustive search.

mod affordable;
mod choice;
mod prediction;
mod space;

pub use choice::{TunedChoice, saved_choice};
pub use space::{SearchSpace, TeamSetup};

use crate::GAUGE;
use crate::arrangement::{self, Arrangement, StreamOptions};
use crate::config::TuneConfig;
use crate::kernels::{Kernel, KernelShape, Stores};
use crate::point::StreamTarget;
use crate::result;
use crate::stream;
use crate::target::Target;
use crate::target::TargetConfig;
use crate::tuner;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_arena::PagesConfig;
use nodegauge_arena::names::{CHOICE, TUNE};
use nodegauge_gauge::{ExpectedCost, MeasuredNode, PlannedRun};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Validity};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::PASS_NOUN;
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::schedule::halving::{
    self, CandidateTurns, DeadlineCheck, EliminationRule, Halving, PassesPerRound, SearchRules,
    TurnRate,
};
use nodegauge_measure::{
    Bytes, BytesPerSec, Failure, Fraction, Notice, NoticeId, Observer, Outcome, Unit,
};
use nodegauge_measure::{clock, notice, regime, schedule, stats};
use nodegauge_placement::{MemoryPolicy, PlacementRequest};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Share of the budget for the search; the rest is for the measurement of the chosen configuration.
const SEARCH: f64 = 0.7;
/// Share of the search time at which the first stage ends.
const SETUPS_UNTIL: f64 = 0.45;
/// Share of the search time at which the second stage ends; the rest is for the final stage.
const LOOPS_UNTIL: f64 = 0.75;
/// Number of entries in the final stage, without the default placement.
const FINALISTS: usize = 3;
/// Minimum ratio of a setup's rate to the leader's rate with which a setup reaches the next stage. Better loops may
/// make up for the difference.
const MIN_PROMISING_SHARE: f64 = 0.90;
/// Rules of the first stage: two rounds before the first elimination, so that the noise is known.
const PLACEMENTS: SearchRules = SearchRules {
    seed: 0x0074_756E_6500,
    passes: PassesPerRound::One,
    elimination: EliminationRule::SlowerHalf { from: 2, left: FINALISTS },
    min_rounds: 1,
    max_rounds: None,
    whole_rounds: 1,
    check: DeadlineCheck::Turn,
};
/// Rules of the final stage: at least eight rounds, then until no other entry can be faster than the leader by more
/// than half a percent.
const FINAL: SearchRules =
    SearchRules { elimination: EliminationRule::KeepAll(0.005), min_rounds: 8, ..PLACEMENTS };
/// Maximum number of attempts to measure an undisturbed pass.
const TRIES: usize = 3;

/// Entry of the search: a setup with loops, and the samples.
struct Entry {
    /// Index of the setup.
    setup: usize,
    loops: Vec<(Kernel, KernelShape)>,
    /// Samples: geometric mean of the kernels' rates, B/s, and core-to-core round trip of the regime, seconds.
    samples: Vec<(f64, f64)>,
    /// Stage of the search: `placements` or `final`.
    stage: &'static str,
}

impl Entry {
    /// Returns the kind of store of the first kernel that stores; `None` if no kernel stores.
    fn stores(&self) -> Option<Stores> {
        self.loops.iter().find(|(kernel, _)| kernel.writes()).map(|(_, shape)| shape.stores)
    }
}

/// Plan of a search and of a measurement of the chosen configuration.
pub struct TunePlan {
    options: StreamOptions,
    /// Setups among which the search chooses.
    pub space: SearchSpace,
    /// Configuration of each setup. The arrays of all setups share the memory.
    configs: Vec<TargetConfig>,
    notices: Vec<Notice>,
}

impl TunePlan {
    /// Default time budget of `--tune`.
    pub const BUDGET: Duration = Duration::from_secs(30);

    /// Plans a search over everything that `request` and `options` do not fix. `notices` are notices about the request.
    ///
    /// # Errors
    /// Fails if a setup does not fit.
    pub fn new(
        site: &MeasuredNode,
        request: &PlacementRequest,
        options: StreamOptions,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Failure> {
        if options.policy != MemoryPolicy::Default {
            return Err(Failure::usage("--tune uses the memory of the threads' own NUMA nodes")
                .hint("leave out --numa"));
        }
        let space = SearchSpace::new(site, request, &options)?;
        let mut configs = Vec::new();
        for setup in &space.setups {
            let own = StreamOptions {
                arrays: space.setup_arrays(setup, &options.arrays),
                ..options.clone()
            };
            let (size, config) = arrangement::plan(site, &setup.placement, &own)?;
            notice::add_new(&mut notices, size.notices);
            configs.push(config);
        }
        Ok(Self { options, space, configs, notices })
    }

    /// Searches within `limits`. The result has no choice if the search was interrupted.
    ///
    /// # Errors
    /// Fails if a setup cannot be prepared or measured.
    pub fn search(
        &self,
        limits: RunLimits,
        observer: &mut dyn Observer,
    ) -> Result<TuningResult, Failure> {
        let until = |share: f64| limits.time_at_share(Fraction(SEARCH * share));
        let Self { options, space, .. } = self;
        observer.begin_phase(&format!(
            "preparing {} with their arrays",
            count_in_words(space.setups.len(), "team")
        ));
        let mut prepare =
            |number: usize| Ok(Box::new(StreamTarget::prepare(self.configs[number].clone())?) as _);
        let points = affordable::prepare_setups(
            self.configs.len(),
            until(SETUPS_UNTIL),
            &|| observer.is_interrupted(),
            &mut prepare,
        )?;
        observer.check_interrupt()?;
        let setup_time = limits.elapsed();
        let mut search = Search { points, passes: 0, measured: 0, disturbed: 0 };
        let tried = search.points.len();
        let all = space.setups.len();

        observer
            .begin_phase(&format!("measuring {} and their pages", count_in_words(tried, "team")));
        let mut entries = search.first_entries(space);
        let order = search.halve(&mut entries, until(SETUPS_UNTIL), &PLACEMENTS, observer)?;
        // Index of the best entry of each setup, beginning with the leader, and of the entry of a run without tuning.
        let mut best: Vec<usize> = Vec::new();
        let line = order
            .first()
            .map_or(0.0, |first| MIN_PROMISING_SHARE * median_rate(&entries[*first].samples));
        let plain = (0..entries.len()).filter(|i| entries[*i].setup == 0).max_by(|x, y| {
            median_rate(&entries[*x].samples).total_cmp(&median_rate(&entries[*y].samples))
        });
        let good = order.iter().copied().filter(|i| median_rate(&entries[*i].samples) >= line);
        for i in good.chain(plain) {
            if best.iter().all(|known| entries[*known].setup != entries[i].setup) {
                best.push(i);
            }
        }
        search.keep_only(&best.iter().map(|i| entries[*i].setup).collect::<Vec<_>>());

        let mut finalists: Vec<Entry> = Vec::new();
        for (done, i) in best.iter().enumerate() {
            let setup = entries[*i].setup;
            let stores = entries[*i].stores();
            // Setups with the same kind of store use the same loops.
            let known = best[..done].iter().position(|other| entries[*other].stores() == stores);
            let loops = match known {
                Some(known) => finalists[known].loops.clone(),
                None => {
                    observer.begin_phase(&format!(
                        "trying {} loops for each kernel",
                        space.shapes.len()
                    ));
                    search.choose_loops(setup, space, until(LOOPS_UNTIL), observer)?
                }
            };
            finalists.push(Entry { setup, loops, samples: Vec::new(), stage: "final" });
        }

        observer.begin_phase("measuring the finalists");
        let final_order = search.halve(&mut finalists, until(1.0), &FINAL, observer)?;
        let mut outcome = Outcome {
            measurements: entries
                .iter()
                .chain(&finalists)
                .filter_map(|entry| measurement(entry, &space.setups[entry.setup], options))
                .collect(),
            ..Outcome::default()
        };
        if tried < all {
            let text = format!(
                "{tried} of {all} combinations of threads, places and pages tried: no time left"
            );
            outcome.notices.push(Notice::new(NoticeId::Budget, GAUGE, text));
        }
        let winner =
            final_order.first().map(|i| &finalists[*i]).filter(|_| !observer.is_interrupted());
        let Some(winner) = winner else {
            outcome.stop = Some(StopReason::Interrupted);
            return Ok(TuningResult { outcome, choice: None, target: None, setup_time });
        };
        let setup = &space.setups[winner.setup];
        let choice = TunedChoice::new(setup, options.arrays.element, winner.loops.clone());
        let untuned = finalists.iter().find(|entry| entry.setup == 0).unwrap_or(winner);
        let mut gain = gain_figure(winner, untuned, &choice, search.passes);
        for (entry, of) in [(untuned, "untuned"), (winner, "choice")] {
            let source = measurement(entry, &space.setups[entry.setup], options);
            source.iter().for_each(|source| gain.inherit_doubts(&source.validity, of));
        }
        if tried < all {
            gain.validity.mark_suspect(format!(
                "only {tried} of {all} combinations of threads, places and pages were tried"
            ));
        }
        if search.disturbed > search.measured / 2 {
            let part = PASS_NOUN.sentence_start(search.disturbed, search.measured);
            gain.validity.mark_suspect(format!("{part} disturbed"));
        }
        outcome.measurements.push(gain);
        let team = team_in_words(setup);
        let loops = arrangement::loops_in_words(&winner.loops);
        let text = format!("tuned: {team} on {} pages; {loops}", setup.pages);
        outcome.notices.push(Notice::new(NoticeId::Chosen, GAUGE, text));
        let target = search.points.remove(&winner.setup);
        Ok(TuningResult { outcome, choice: Some(choice), target, setup_time })
    }
}

/// Result of a search.
pub struct TuningResult {
    /// Figures and notices of the search.
    pub outcome: Outcome,
    /// Chosen configuration; `None` if the search was interrupted.
    pub choice: Option<TunedChoice>,
    /// Arrays and team of the chosen configuration.
    target: Option<Box<dyn Target>>,
    setup_time: Duration,
}

impl PlannedRun for TunePlan {
    fn expected_cost(&self) -> ExpectedCost {
        let bytes = self.configs.iter().map(TargetConfig::bytes).sum();
        ExpectedCost { time: Some(self.options.budget.time), memory: Some(Bytes(bytes)) }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        let mut figures = arrangement::stream_figures(&self.options.arrays.kernels, site);
        figures.push(PossibleFigures::new(GAUGE, TUNE, [CHOICE], &[Unit::Factor]));
        figures
    }

    fn run(
        mut self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let limits = RunLimits::from_budget(self.options.budget, self.options.samples);
        self.admit(site, &limits, observer)?;
        let notices = std::mem::take(&mut self.notices);
        let mut outcome = Outcome { notices, ..Outcome::default() };
        let TuningResult { outcome: found, choice, target, setup_time } =
            self.search(limits, observer)?;
        outcome.extend(found);
        let Some(choice) = choice else { return Ok(outcome) };
        let mut options = self.options;
        choice.fill(&mut options);
        let chosen = Arrangement::new(site, &choice.request, options, Vec::new())?;
        // The target of the search is reused if only the loops differ.
        let mut ready = target.filter(|target| chosen.matches_config(target.config()));
        let mut set_up = |arrangement: &Arrangement| match ready.take() {
            Some(mut known) => {
                known.set_kernels(arrangement.kernels())?;
                Ok(known)
            }
            None => arrangement.prepare_target(site, None),
        };
        outcome.extend(stream::measure(site, chosen, limits, &mut set_up, observer)?);
        outcome.set_run_time(&limits, setup_time);
        Ok(outcome)
    }
}

/// State of a search: remaining setups, and the number of passes.
struct Search {
    /// Targets, by index of the setup.
    points: BTreeMap<usize, Box<dyn Target>>,
    /// Number of passes, including repeated attempts.
    passes: usize,
    /// Number of measured passes, without repeated attempts.
    measured: usize,
    /// Number of measured passes that were disturbed.
    disturbed: usize,
}

impl Search {
    /// Returns an entry for each setup and each kind of store, with the most promising loop.
    fn first_entries(&self, space: &SearchSpace) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (setup, point) in &self.points {
            let config = point.config();
            for guess in space.promising_loops() {
                let mut loops = Vec::new();
                for (kernel, _) in &config.kernels {
                    let best =
                        tuner::existing_loops(*kernel, config.element, &[guess]).first().copied();
                    loops.push((*kernel, best.unwrap_or(guess)));
                }
                let setup = *setup;
                entries.push(Entry { setup, loops, samples: Vec::new(), stage: "placements" });
            }
        }
        entries
    }

    /// Measures entries interleaved under `rules`. The first round is always completed. Returns the remaining entries,
    /// fastest first.
    fn halve(
        &mut self,
        entries: &mut [Entry],
        deadline: Instant,
        rules: &SearchRules,
        observer: &mut dyn Observer,
    ) -> Result<Vec<usize>, Failure> {
        let mut groups = [Halving::new(0..entries.len())];
        // The first pass of a setup is the warm-up.
        for entry in entries.iter() {
            self.pass(entry, 1)?;
        }
        let mut turns = EntryTurns { search: self, entries, deadline, observer };
        halving::choose(&mut turns, &mut groups, rules, deadline)?;
        let [halving] = groups;
        Ok((0..halving.len()).map(|i| *halving.get(i)).collect())
    }

    /// Runs a pass of an entry. Returns the geometric mean of the kernels' rates, B/s, and a core-to-core round trip,
    /// seconds. The round trip is measured between the CPUs of the default team and identifies the regime of the
    /// machine for all teams.
    fn pass(&mut self, entry: &Entry, tries: usize) -> Result<(f64, f64), Failure> {
        let mut before = self.reference_trip()?;
        // On a busy machine the last attempt counts, even if it is disturbed.
        let (rate, trip, clean) = schedule::repeat_until_undisturbed(
            tries,
            |(_, _, clean): &(f64, f64, bool)| !clean,
            || -> Result<_, Failure> {
                let Some(point) = self.points.get_mut(&entry.setup) else {
                    return Ok((f64::NAN, f64::NAN, true));
                };
                point.set_kernels(entry.loops.clone())?;
                let sample = point.run_pass()?;
                let rates = sample.seconds.iter().enumerate();
                let rates: Vec<f64> = rates
                    .map(|(i, seconds)| result::counted_bytes(&**point, i) / seconds)
                    .collect();
                self.passes += 1;
                let after = self.reference_trip()?;
                let clean = sample.is_undisturbed() && regime::may_share_regime(before, after);
                before = after;
                Ok((stats::geometric_mean(&rates), after, clean))
            },
        )?;
        self.measured += 1;
        self.disturbed += usize::from(!clean);
        Ok((rate, trip))
    }

    fn reference_trip(&mut self) -> Result<f64, Failure> {
        match self.points.get_mut(&0) {
            Some(plain) => Ok(plain.measure_round_trip()?),
            None => Ok(f64::NAN),
        }
    }

    /// Returns the best loop for each kernel on a setup.
    fn choose_loops(
        &mut self,
        setup: usize,
        space: &SearchSpace,
        deadline: Instant,
        observer: &mut dyn Observer,
    ) -> Result<Vec<(Kernel, KernelShape)>, Failure> {
        let Some(point) = self.points.get_mut(&setup) else { return Ok(Vec::new()) };
        let chosen =
            tuner::choose(&mut **point, &space.shapes, deadline, || observer.is_interrupted())?;
        self.passes += chosen.passes;
        Ok(chosen.loops)
    }

    /// Frees the memory and the threads of all setups except these and the default setup.
    fn keep_only(&mut self, setups: &[usize]) {
        self.points.retain(|setup, _| *setup == 0 || setups.contains(setup));
    }
}

/// Candidates of the search: entries, identified by their index.
struct EntryTurns<'a> {
    search: &'a mut Search,
    entries: &'a mut [Entry],
    deadline: Instant,
    observer: &'a mut dyn Observer,
}

impl CandidateTurns for EntryTurns<'_> {
    type Candidate = usize;
    type Error = Failure;

    fn turn(&mut self, picked: &mut [&mut usize]) -> Result<Vec<TurnRate>, Failure> {
        let mut rates = Vec::with_capacity(picked.len());
        for number in picked {
            let tries = if clock::now() < self.deadline { TRIES } else { 1 };
            let entry = &mut self.entries[**number];
            let (rate, round_trip) = self.search.pass(entry, tries)?;
            entry.samples.push((rate, round_trip));
            rates.push(TurnRate { rate, round_trip });
        }
        Ok(rates)
    }

    fn must_end(&mut self) -> bool {
        self.observer.is_interrupted()
    }

    fn report_round_end(&mut self, elapsed: f64, left: usize) {
        self.observer.report_progress(elapsed, &format!("{left} left"));
    }
}

/// Describes the team of a setup: `2 threads on places cores (close)`.
fn team_in_words(setup: &TeamSetup) -> String {
    let threads = setup.placement.threads.len();
    let team = count_in_words(threads, "thread");
    format!("{team} on places {} ({})", setup.placement.places, setup.placement.bind)
}

/// Returns the rates of the samples in the most frequent regime.
fn rates(samples: &[(f64, f64)]) -> Vec<f64> {
    let trips: Vec<f64> = samples.iter().map(|(_, trip)| *trip).collect();
    let regimes = regime::find_regimes(&trips);
    let most = regimes
        .iter()
        .max_by_key(|regime| trips.iter().filter(|trip| regime.contains(**trip)).count());
    let mut rates = Vec::new();
    for (rate, trip) in samples {
        if most.is_none_or(|regime| trip.is_nan() || regime.contains(*trip)) {
            rates.push(*rate);
        }
    }
    rates
}

/// Returns the median rate in the most frequent regime, B/s.
fn median_rate(samples: &[(f64, f64)]) -> f64 {
    stats::median(&rates(samples))
}

/// Returns the reported figure of an entry: the median of the geometric means of the kernels' rates.
fn measurement(entry: &Entry, setup: &TeamSetup, options: &StreamOptions) -> Option<Measurement> {
    let samples = rates(&entry.samples);
    let config = TuneConfig {
        stage: Some(entry.stage.to_owned()),
        threads: Some(setup.placement.threads.len() as u64),
        places_asked: Some(setup.placement.places.clone()),
        bind: Some(setup.placement.bind.to_string()),
        pages: Some(PagesConfig { asked: setup.pages.name().to_owned(), got: None }),
        stores: entry.stores().map(|stores| stores.name().to_owned()),
        loops: Some(arrangement::loops_in_words(&entry.loops)),
        element: Some(options.arrays.element.name().to_owned()),
        plain: Some(entry.setup == 0),
        ..TuneConfig::default()
    };
    let name = format!("{}, {} pages", team_in_words(setup), setup.pages);
    let m = Measurement::new(GAUGE, TUNE, name, Unit::BytesPerSecond);
    let m = m.with_samples(QuotedStatistic::Median, samples).with_config(&config);
    m.value.is_some().then(|| m.with_validity(Validity::valid()))
}

/// Returns the gain of the choice over one thread per core on default pages. Both rates were measured in the final
/// stage.
fn gain_figure(winner: &Entry, plain: &Entry, choice: &TunedChoice, passes: usize) -> Measurement {
    let from = median_rate(&plain.samples);
    let to = median_rate(&winner.samples);
    let config = TuneConfig {
        choice: Some(choice.to_config()),
        from: Some(BytesPerSec(from)),
        to: Some(BytesPerSec(to)),
        passes: Some(passes as u64),
        ..TuneConfig::default()
    };
    let m = Measurement::new(GAUGE, TUNE, CHOICE, Unit::Factor).with_config(&config);
    let factor = Some(to / from).filter(|factor| factor.is_finite());
    factor.map_or(m.clone(), |factor| m.with_value(QuotedStatistic::Single, factor))
}
