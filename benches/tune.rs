//! Compares `--tune` with an exhaustive search of the same space: every team and kind of page with every loop, each for
//! the minimum number of passes of a `stream` run (`PASSES`, default 20), in random order. Then both choices alternate
//! for `FINAL` passes each (default 60). The result is the ratio of their rates within one regime.
//!
//! With `LOOPS=1`, the loops that `stream` selects by trial are compared with an exhaustive search on the default team
//! and pages, with all loops of `--tune` and `PASSES` passes each. In `TRIALS` runs of `stream` (default 3), the
//! selection and the result of the search alternate for `FINAL` pairs of passes. The last column is the ratio of the
//! best passes, which `stream` quotes. Only runs and pairs in the regime of the search count, because the fastest loop
//! of one regime may be slow in another. Prints Markdown and, with `LOOPS=1`, writes the result file.

#![allow(clippy::print_stdout)]

mod common;

use common::{BestAndMedian, Comparison, nodegauge, range, variable, write_results};
use nodegauge_gauge::MeasuredNode;
use nodegauge_kernels::{Kernel, KernelShape, SideBySidePages, Stores};
use nodegauge_machine::{DescribeOptions, SysRoot, Topology, TopologySource};
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::record::Record;
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::schedule::RunLimits;
use nodegauge_measure::stats;
use nodegauge_placement::PlacementRequest;
use nodegauge_stream::config::{StreamConfig, TuneConfig};
use nodegauge_stream::point::StreamTarget;
use nodegauge_stream::stream::{self, StreamOptions};
use nodegauge_stream::tune::{SearchSpace, TunePlan, TunedChoice};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Rates by set-up, kernel and loop, each with the round trip of its regime.
type Samples = BTreeMap<(usize, Kernel, usize), Vec<(f64, f64)>>;

/// Index of a set-up, with one loop per kernel.
type Configuration = (usize, Vec<(Kernel, KernelShape)>);

fn main() {
    let topology = Topology::load(&TopologySource::Live).expect("hwloc reads this machine");
    let machine =
        nodegauge_machine::describe(&topology, &SysRoot::live(), &DescribeOptions::default());
    let options = StreamOptions::default();
    let request = PlacementRequest::default();
    let site = MeasuredNode::new(topology, machine, SysRoot::live());
    let plan = TunePlan::new(&site, &request, options.clone(), Vec::new()).expect("a plan");
    let space = &plan.space;
    if variable::<u32>("LOOPS").is_some() {
        return compare_loops(&site, space);
    }

    let begun = Instant::now();
    let limits = RunLimits::new(Duration::from_secs(28), None);
    let found = plan.search(limits, &mut SilentObserver).expect("a search");
    let tuned = found.outcome;
    let tuning = begun.elapsed();
    let choice = found.choice.expect("the search is not interrupted");

    let mut points: Vec<StreamTarget> = space
        .setups
        .iter()
        .map(|setup| {
            let arrays = space.setup_arrays(setup, &options.arrays);
            let options = StreamOptions { arrays, ..options.clone() };
            let (_, config) = stream::plan(&site, &setup.placement, &options).expect("it fits");
            StreamTarget::prepare(config).expect("a point")
        })
        .collect();
    let search_begun = Instant::now();
    let passes = variable("PASSES").unwrap_or(20);
    let samples = measure_all(space, &mut points, passes);
    let exhausting = search_begun.elapsed();
    let best = best(space, &samples, &options.arrays.kernels);

    let of_choice = space
        .setups
        .iter()
        .position(|known| known.request == choice.request && known.pages == choice.pages)
        .expect("the choice is of the space");
    let ratios =
        compare_in_pairs(&mut points, (of_choice, &choice), &best, variable("FINAL").unwrap_or(60));
    let count = space.setups.len() * space.shapes.len();
    println!("| | configurations | passes | seconds |\n| --- | --- | --- | --- |");
    println!("| exhaustive | {count} | {} | {:.1} |", count * passes, exhausting.as_secs_f64());
    let of_search: TuneConfig = tuned.measurements.last().expect("a figure").read_config();
    let search_passes = of_search.passes.unwrap_or(0);
    println!("| `--tune` | {count} | {search_passes} | {:.1} |", tuning.as_secs_f64());
    println!(
        "\nrate of the tuned choice over that of the exhaustive search, interleaved: median {:.4}, quartiles \
         {:.4} to {:.4} ({} pairs); ratio of the search times {:.3}",
        stats::median(&ratios),
        stats::quantile(&ratios, 0.25),
        stats::quantile(&ratios, 0.75),
        ratios.len(),
        tuning.as_secs_f64() / exhausting.as_secs_f64()
    );
    println!("\nthe exhaustive search chose: site {} with {:?}", best.0, best.1);
    println!("--tune chose: site {of_choice} with {:?}", choice.loops);
}

/// Kernels in the comparison of loops.
const KERNELS: [Kernel; 6] =
    [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad, Kernel::Read, Kernel::Write];

/// Compares the loops that runs of `stream` select with an exhaustive search on the default team and pages.
fn compare_loops(site: &MeasuredNode, space: &SearchSpace) {
    let mut options = StreamOptions::default();
    options.arrays.kernels = KERNELS.to_vec();
    let placement = &space.setups[0].placement;
    let (_, config) = stream::plan(site, placement, &options).expect("it fits");
    let element = config.element;
    let mut points = vec![StreamTarget::prepare(config).expect("a point")];
    let samples = measure_all(space, &mut points, variable("PASSES").unwrap_or(20));
    let found = best(space, &samples, &KERNELS).1;
    let of_search = regime_of(&samples);
    let is_of_search = |trip: f64| of_search.is_none_or(|regime| regime.contains(trip));
    println!("regime of the search: {}\n", regime_in_words(of_search));
    println!(
        "| kernel | exhaustive search | trial | trial / search, median (quartiles) | best / best |"
    );
    println!("| --- | --- | --- | --- | --- |");
    // Ratios of the medians of the pairs, and of the bests of all trials.
    let mut ratios: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for _ in 0..variable("TRIALS").unwrap_or(3) {
        let Some(run) = run_within(is_of_search) else {
            println!("| all | no run in the regime of the search | | | |");
            break;
        };
        let finish_run = |(kernel, searched): &(Kernel, KernelShape)| {
            let m = run.measurements.iter().find(|m| m.name == kernel.name()).expect("a figure");
            let measured: StreamConfig = m.read_config();
            let all = space.loops(*kernel, element);
            let known = |shape: &&KernelShape| is_loop(shape, *kernel, &measured);
            (*kernel, all.iter().find(known).copied().unwrap_or(*searched))
        };
        let chosen: Vec<(Kernel, KernelShape)> = found.iter().map(finish_run).collect();
        let pairs = variable("FINAL").unwrap_or(60);
        let played = pairs_of(&mut points, (0, &chosen), (0, &found), pairs, is_of_search);
        for (at, (kernel, searched)) in found.iter().enumerate() {
            let of: Vec<f64> = played.iter().map(|pair| pair.ratios()[at]).collect();
            let fastest =
                |rates: &dyn Fn(&PairOfPasses) -> f64| played.iter().map(rates).fold(0.0, f64::max);
            let of_bests = fastest(&|pair| pair.tuned[at]) / fastest(&|pair| pair.other[at]);
            let all = ratios.entry(kernel.name()).or_default();
            all.0.push(stats::median(&of));
            all.1.push(of_bests);
            println!(
                "| {kernel} | {searched} | {} | {:.3} ({:.3} to {:.3}), {} pairs | {:.3} |",
                chosen[at].1,
                stats::median(&of),
                stats::quantile(&of, 0.25),
                stats::quantile(&of, 0.75),
                of.len(),
                of_bests,
            );
        }
    }
    let none = BestAndMedian::default();
    let comparison = |(kernel, (medians, bests)): (&&str, &(Vec<f64>, Vec<f64>))| {
        let rates = Comparison::from_rates("search", (*kernel).to_owned(), "", none, none);
        let ratio = BestAndMedian::both(stats::median(bests), stats::median(medians));
        Comparison { ratio, ..rates.with_version("-").with_noise(range(medians)) }
    };
    write_results("tune", &ratios.iter().map(comparison).collect::<Vec<_>>());
}

/// Runs `stream` until the regime of a run is that of the search, at most ten times.
fn run_within(is_of_search: impl Fn(f64) -> bool) -> Option<Record> {
    let names = KERNELS.map(Kernel::name).join(",");
    (0..10).map(|_| nodegauge(&["stream", "--kernels", &names])).find(|run| {
        run.measurements.iter().all(|m| {
            let config: StreamConfig = m.read_config();
            config.round_trip_s.is_none_or(&is_of_search)
        })
    })
}

fn regime_in_words(regime: Option<Regime>) -> String {
    match regime {
        Some(regime) => {
            format!("round trip of {:.0} to {:.0} ns", regime.from * 1e9, regime.to * 1e9)
        }
        None => "unknown".to_owned(),
    }
}

/// True if a figure was measured with this loop.
fn is_loop(shape: &KernelShape, kernel: Kernel, config: &StreamConfig) -> bool {
    let stores = config.stores.as_deref().is_none_or(|stores| stores == shape.stores.name());
    let stores = stores && (kernel.writes() || shape.stores == Stores::Regular);
    let pages = config.side_by_side.unwrap_or(1);
    stores
        && config.isa.as_deref() == Some(shape.isa.name())
        && config.unroll == Some(u64::from(shape.unroll))
        && SideBySidePages::new(pages as u8) == Some(shape.side_by_side)
        && config.prefetch == Some(shape.prefetch.to_string())
}

/// Measures every loop with every set-up, interleaved.
fn measure_all(space: &SearchSpace, points: &mut [StreamTarget], passes: usize) -> Samples {
    let mut samples = Samples::new();
    let most = space.shapes.len();
    let mut order: Vec<(usize, usize)> =
        (0..points.len()).flat_map(|site| (0..most).map(move |turn| (site, turn))).collect();
    let mut seed = 0x9E37_79B9_u64;
    for _ in 0..passes {
        for i in (1..order.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(i, (seed >> 33) as usize % (i + 1));
        }
        for (site, turn) in &order {
            let trip = points[0].measure_round_trip().expect("the team lives");
            let point = &mut points[*site];
            let kernels: Vec<Kernel> = point.config().kernels.iter().map(|(k, _)| *k).collect();
            let element = point.config().element;
            let loops: Vec<(Kernel, KernelShape)> = kernels
                .iter()
                .map(|kernel| {
                    let loops = space.loops(*kernel, element);
                    (*kernel, loops[turn % loops.len()])
                })
                .collect();
            let numbers = kernels.iter().map(|k| turn % space.loops(*k, element).len());
            let numbers: Vec<usize> = numbers.collect();
            point.set_kernels(loops).expect("these loops exist");
            let sample = point.run_pass().expect("the team lives");
            for ((kernel, number), rate) in
                kernels.iter().zip(numbers).zip(rates(point, &sample.seconds))
            {
                samples.entry((*site, *kernel, number)).or_default().push((rate, trip));
            }
        }
    }
    samples
}

/// Returns the rate of each kernel in B/s.
fn rates(point: &StreamTarget, seconds: &[f64]) -> Vec<f64> {
    let config = point.config();
    let bytes = |kernel: Kernel| (kernel.counted_bytes(config.element) * config.elements) as f64;
    config.kernels.iter().zip(seconds).map(|((kernel, _), s)| bytes(*kernel) / s).collect()
}

/// Returns the regime with the most samples.
fn regime_of(samples: &Samples) -> Option<Regime> {
    let trips: Vec<f64> = samples.values().flatten().map(|(_, trip)| *trip).collect();
    let count = |regime: &Regime| trips.iter().filter(|trip| regime.contains(**trip)).count();
    regime::find_regimes(&trips).into_iter().max_by_key(count)
}

/// Returns the set-up, and a loop for each kernel, with the highest median rates in the regime with the most samples.
fn best(space: &SearchSpace, samples: &Samples, kernels: &[Kernel]) -> Configuration {
    let most = regime_of(samples);
    let typical = |pairs: &[(f64, f64)]| {
        let counts = |trip: f64| most.is_none_or(|r| r.contains(trip));
        let rates: Vec<f64> =
            pairs.iter().filter(|(_, trip)| counts(*trip)).map(|(rate, _)| *rate).collect();
        stats::median(&rates)
    };
    let element = StreamOptions::default().arrays.element;
    let mut found: Vec<(f64, Configuration)> = Vec::new();
    let sites: BTreeSet<usize> = samples.keys().map(|(site, ..)| *site).collect();
    for site in sites {
        let mut loops = Vec::new();
        let mut rates = Vec::new();
        for kernel in kernels.iter().copied() {
            let of_kernel = samples.iter().filter(|((s, k, _), _)| (*s, *k) == (site, kernel));
            let (number, rate) = of_kernel
                .map(|((_, _, number), site_samples)| (*number, typical(site_samples)))
                .filter(|(_, rate)| rate.is_finite())
                .max_by(|x, y| x.1.total_cmp(&y.1))
                .expect("every loop has samples");
            loops.push((kernel, space.loops(kernel, element)[number]));
            rates.push(rate);
        }
        found.push((stats::geometric_mean(&rates), (site, loops)));
    }
    found.sort_by(|x, y| y.0.total_cmp(&x.0));
    found.swap_remove(0).1
}

/// Runs two configurations in pairs of passes; returns the ratios of the pairs that are within one regime.
fn compare_in_pairs(
    points: &mut [StreamTarget],
    (site, choice): (usize, &TunedChoice),
    best: &Configuration,
    pairs: usize,
) -> Vec<f64> {
    let played = pairs_of(points, (site, &choice.loops), (best.0, &best.1), pairs, |_| true);
    played.iter().map(|pair| stats::geometric_mean(&pair.ratios())).collect()
}

/// Configuration in a pair: the index of its set-up, and its loops.
type Paired<'a> = (usize, &'a [(Kernel, KernelShape)]);

/// Rates of all kernels in two passes, one of each configuration, in B/s.
struct PairOfPasses {
    tuned: Vec<f64>,
    other: Vec<f64>,
}

impl PairOfPasses {
    /// Returns one ratio per kernel.
    fn ratios(&self) -> Vec<f64> {
        self.tuned.iter().zip(&self.other).map(|(tuned, other)| tuned / other).collect()
    }
}

/// Runs two configurations in pairs of passes; returns the pairs that are within one regime for which `counts` is true.
fn pairs_of(
    points: &mut [StreamTarget],
    tuned: Paired<'_>,
    other: Paired<'_>,
    pairs: usize,
    counts: impl Fn(f64) -> bool,
) -> Vec<PairOfPasses> {
    let mut pass = |(number, loops): Paired<'_>| {
        let before = points[0].measure_round_trip().expect("the team lives");
        let point = &mut points[number];
        point.set_kernels(loops.to_vec()).expect("these loops exist");
        let sample = point.run_pass().expect("the team lives");
        (rates(point, &sample.seconds), before)
    };
    let mut played = Vec::new();
    for pair in 0..pairs {
        // The configuration that runs first alternates.
        let (one, two) = if pair % 2 == 0 {
            let one = pass(tuned);
            (one, pass(other))
        } else {
            let two = pass(other);
            (pass(tuned), two)
        };
        if regime::may_share_regime(one.1, two.1) && counts(one.1) && counts(two.1) {
            played.push(PairOfPasses { tuned: one.0, other: two.0 });
        }
    }
    played
}
