//! From what a run saw to what is reported: the rating, DGEMM, the peaks, each against its limit,
//! with every reason for doubt.

use crate::choose::Tried;
use crate::config::{
    DgemmConfig, LoopRate, PeakConfig, PowerConfig, RatingConfig, TheoreticalPeak, ThreadsConfig,
};
use crate::dgemm;
use crate::observed::{LibraryRuns, Observed, SolvedSystem};
use crate::peak::Peak;
use crate::residual::THRESHOLD;
use crate::{GAUGE, TEST};
use nodegauge_gauge::Site;
use nodegauge_measure::record::{Machine, Measurement, Quoted, Status, Validity};
use nodegauge_measure::{BytesPerSec, Notice, NoticeId, Unit};
use nodegauge_placement::{Bind, Placement};
use std::collections::BTreeSet;

/// The formula, as it stands in the record.
pub(crate) const RATING_FORMULA: &str = "(2/3 N^3 + 3/2 N^2) / t";

/// A rating below this share of DGEMM at a size that should reach more says that LU loses.
const LU_LOSES: f64 = 0.85;
/// DGEMM below this share of the peak says that the library loses.
const LIBRARY_LOSES: f64 = 0.75;
/// Share of Triad from which the products' traffic is a limit beside arithmetic.
const MEMORY_BOUND: f64 = 0.5;
/// A clock lower than that of scalar work by this share is worth a word.
const CLOCK_DROP: f64 = 0.03;
/// More of the threads' time than this in waiting is worth a word.
const WAITING: f64 = 0.05;
/// More of a thread's time than this taken by other work, or of all CPUs' by the hypervisor, makes a
/// rating doubtful: by as much a quiet node would do better.
const DISTURBED: f64 = 0.02;
/// A rate above its measured limit by more than this share says that the limit was measured in a
/// worse moment.
const ABOVE: f64 = 0.02;
/// Why a figure above its measured peak is doubted.
const ABOVE_PEAK: &str = "above the measured peak: the clock or other work changed between them";

/// All measurements.
pub(crate) fn measurements(
    machine: &Machine,
    placement: &Placement,
    seed: u64,
    seen: &Observed,
) -> Vec<Measurement> {
    let peak = seen.peak("f64");
    let mut out = Vec::new();
    for library in &seen.libraries {
        if let Some(solution) = library.best() {
            out.push(rating(machine, placement, seed, seen, library, solution));
        }
        let config = dgemm_config(placement, &library.tried);
        let m =
            against_peak(figure("dgemm", library.dgemm.clone()), peak, placement).config(&config);
        out.push(judged(m, Validity::valid(), ABOVE_PEAK));
    }
    let peaks = ["f64", "f32"].into_iter().filter_map(|element| seen.peak(element));
    out.extend(peaks.map(|peak| fma_peak(machine, placement, seen, peak)));
    out
}

fn threads_config(placement: &Placement) -> ThreadsConfig {
    let cpus = placement.threads.iter().map(|thread| thread.cpus.iter().map(|cpu| cpu.0).collect());
    ThreadsConfig {
        threads: Some(placement.threads.len()),
        bind: Some(placement.bind.to_string()),
        cpus: (placement.bind != Bind::None).then(|| cpus.collect()),
    }
}

/// Where threads ran and what multiplied.
fn dgemm_config(placement: &Placement, tried: &Tried) -> DgemmConfig {
    let about = tried.probed.as_ref().map(|probed| probed.about());
    DgemmConfig {
        on: threads_config(placement),
        blas: Some(tried.name.clone()),
        blas_path: about.map(|about| about.path.display().to_string()),
        blas_integer_bits: about.map(|about| about.integer_bits),
        blas_setting: tried.setting(),
    }
}

fn figure(name: &str, samples: Vec<f64>) -> Measurement {
    Measurement::new(GAUGE, TEST, name, Unit::FlopsPerSecond).sampled(Quoted::Best, samples)
}

fn rating(
    machine: &Machine,
    placement: &Placement,
    seed: u64,
    seen: &Observed,
    library: &LibraryRuns,
    solution: &SolvedSystem,
) -> Measurement {
    let peak = seen.peak("f64");
    let SolvedSystem { order, nb, rating, residual, time, .. } = solution;
    let theory = peak.and_then(|peak| theory(machine, peak, placement.threads.len()));
    let sized = library.order.as_ref();
    let config = RatingConfig {
        dgemm: dgemm_config(placement, &library.tried),
        engine: Some("native".to_owned()),
        n: Some(*order),
        nb: Some(*nb),
        p: Some(1),
        q: Some(1),
        seed: Some(seed),
        seconds: Some(solution.seconds),
        formula: Some(RATING_FORMULA.to_owned()),
        residual: Some(residual.clone()),
        time: Some(time.clone()),
        began: Some(solution.began),
        order_formula: sized.map(|sized| sized.formula.clone()),
        predicted_seconds: sized.map(|sized| sized.seconds),
        matrix_bytes: sized.map(|sized| sized.bytes.0),
        on_huge_pages: solution.huge_pages,
        search: (!library.search.is_empty()).then(|| library.search.clone()),
        of_dgemm: Some(rating / dgemm::best(&library.dgemm).0),
        of_fma_peak: peak.map(|peak| rating / peak.best().0),
        of_theoretical: theory.map(|theory| rating / theory.value),
        power: power(seen, solution),
        ..RatingConfig::default()
    };
    let failed = library.solutions.iter().find(|solution| !solution.residual.passes());
    let mut validity = Validity::valid();
    if let Some(failed) = failed {
        let residual = failed.residual.value.unwrap_or(f64::NAN);
        let reason =
            format!("the residual is {residual:.3e}, not below {THRESHOLD}: x is no solution");
        validity.add(Status::Invalid, reason);
    }
    if let Some(doubt) = sized.and_then(|sized| sized.doubt.as_ref()) {
        validity.add(Status::Suspect, doubt);
    }
    if failed.is_none() && time.lost > DISTURBED {
        let percent = time.lost * 100.0;
        let reason = format!(
            "other work took {percent:.0} % of a thread's time during the solution: repeat it on a quiet node"
        );
        validity.add(Status::Suspect, reason);
    }
    if let (None, Some(stolen)) = (failed, time.stolen.filter(|stolen| *stolen > DISTURBED)) {
        let percent = stolen * 100.0;
        let reason = format!(
            "the hypervisor gave {percent:.0} % of the CPUs' time to others during the solution"
        );
        validity.add(Status::Suspect, reason);
    }
    let samples = match failed {
        Some(_) => Vec::new(),
        None => library.solutions.iter().map(|solution| solution.rating).collect(),
    };
    let m = against_peak(figure("rating", samples), peak, placement).config(&config);
    judged(m, validity, ABOVE_PEAK)
}

fn power(seen: &Observed, solution: &SolvedSystem) -> Option<PowerConfig> {
    match (seen.energy.as_ref()?, solution.joules) {
        (Ok(basis), Some(joules)) => {
            let watts = joules / solution.seconds;
            Some(PowerConfig {
                watts: Some(watts),
                flops_per_watt: Some(solution.rating / watts),
                basis: Some(basis.clone()),
                reason: None,
            })
        }
        (Ok(_), None) => None,
        (Err(reason), _) => {
            Some(PowerConfig { reason: Some(reason.clone()), ..PowerConfig::default() })
        }
    }
}

/// Holds a rate against the measured peak.
fn against_peak(m: Measurement, peak: Option<&Peak>, placement: &Placement) -> Measurement {
    let Some(peak) = peak.filter(|peak| peak.best().0 > 0.0) else { return m };
    let threads = placement.threads.len();
    m.limit(
        peak.best().0,
        format!("{} multiply-adds in registers, {threads} threads", peak.kernel.isa),
    )
}

/// Judges a figure, which is doubted when it is above the limit that was measured for it.
fn judged(m: Measurement, mut validity: Validity, reason: &str) -> Measurement {
    if m.limit.as_ref().is_some_and(|limit| limit.fraction > 1.0 + ABOVE) {
        validity.add(Status::Suspect, reason);
    }
    m.judged(validity)
}

fn fma_peak(machine: &Machine, placement: &Placement, seen: &Observed, peak: &Peak) -> Measurement {
    let (threads, kernel) = (placement.threads.len(), peak.kernel);
    let loops = seen.peaks.iter().filter(|other| other.kernel.element == kernel.element);
    let rate = |other: &Peak| LoopRate {
        isa: other.kernel.isa.to_owned(),
        fused: other.kernel.fused,
        rate: other.best().0,
        clock_hz: other.clock.map(|clock| clock.0),
    };
    let theory = theory(machine, peak, threads);
    let config = PeakConfig {
        on: threads_config(placement),
        element: Some(kernel.element.to_owned()),
        isa: Some(kernel.isa.to_owned()),
        clock_hz: peak.clock.map(|clock| clock.0),
        flops_per_cycle: peak.a_cycle(threads),
        loops: Some(loops.map(rate).collect()),
        theoretical: theory.clone(),
    };
    let name = if kernel.element == "f64" { "fma_peak" } else { "fma_peak_f32" };
    let mut m = figure(name, peak.samples.clone()).config(&config);
    if let Some(theory) = theory.filter(|theory| theory.value > 0.0) {
        m = m.limit(theory.value, theory.formula);
    }
    let reason =
        "above cores x clock x FLOP/cycle: the clock was lower, or disturbed, right after the load";
    judged(m, Validity::valid(), reason)
}

/// Cores x clock x operations a cycle, twice that for single precision; the clock is the measured
/// one, because the nominal is often the time-stamp counter's.
fn theory(machine: &Machine, peak: &Peak, threads: usize) -> Option<TheoreticalPeak> {
    let a_cycle = f64::from(machine.processor.flops_per_cycle?);
    let a_cycle = if peak.kernel.element == "f32" { 2.0 * a_cycle } else { a_cycle };
    let clock = peak.clock?;
    let cores = threads.min(machine.processor.cores.max(1) as usize);
    let value = cores as f64 * clock.0 * a_cycle;
    let formula =
        format!("{cores} cores x {clock} measured under load x {a_cycle} FLOP/cycle with FMA");
    Some(TheoreticalPeak { value, formula, without_fma: value / 2.0 })
}

/// What holds the ratings down.
pub(crate) fn notices(
    site: &Site,
    placement: &Placement,
    triad: Option<&(BytesPerSec, String)>,
    seen: &Observed,
) -> Vec<Notice> {
    let mut notices = Vec::new();
    for library in &seen.libraries {
        if let Some(solution) = library.best() {
            notices.extend(of_library(library, solution, seen.peak("f64")));
            notices.push(of_memory(solution, triad));
        }
    }
    notices.extend(of_the_node(site, placement, seen));
    notices
}

fn bottleneck(text: String) -> Notice {
    Notice::new(NoticeId::Bottleneck, GAUGE, text)
}

/// Where a library or LU loses.
fn of_library(library: &LibraryRuns, solution: &SolvedSystem, peak: Option<&Peak>) -> Vec<Notice> {
    let mut notices = Vec::new();
    let (best, name) = (dgemm::best(&library.dgemm).0, &library.tried.name);
    let (of_dgemm, time) = (solution.rating / best, &solution.time);
    if let Some(setting) = library.tried.setting() {
        let text = format!(
            "{name}: taken with {setting}, since the kernels that it takes by itself are slower here; set it for your own programs too"
        );
        notices.push(Notice::new(NoticeId::Chosen, GAUGE, text));
    }
    // What other work took is the loss of neither; the rating is marked for it.
    if time.lost > DISTURBED {
        return notices;
    }
    if let Some(peak) = peak.filter(|peak| best / peak.best().0 < LIBRARY_LOSES) {
        let text = format!(
            "the library loses: DGEMM by {name} is {:.0} % of the {} peak; another BLAS, or other kernels of it, may do better",
            100.0 * best / peak.best().0,
            peak.kernel.isa
        );
        notices.push(bottleneck(text));
    }
    if of_dgemm < LU_LOSES {
        let text = format!(
            "LU loses: the rating is {:.0} % of DGEMM; panels take {:.0} % of the threads' time, waiting {:.0} %; a larger N loses less",
            of_dgemm * 100.0,
            time.panels * 100.0,
            time.waiting * 100.0
        );
        notices.push(bottleneck(text));
    } else if time.waiting > WAITING {
        let text = format!("threads waited {:.0} % of their time", time.waiting * 100.0);
        notices.push(bottleneck(text));
    }
    notices
}

/// Whether memory holds the products back: each reads and writes its C once for 2 NB operations an
/// element.
fn of_memory(solution: &SolvedSystem, triad: Option<&(BytesPerSec, String)>) -> Notice {
    let demand = solution.rating * 16.0 / (2.0 * solution.nb as f64);
    let products = format!(
        "products at NB = {} move at least {:.1} GB/s (rating x 16 B / (2 NB))",
        solution.nb,
        demand / 1e9
    );
    let text = match triad {
        Some((triad, source)) => {
            let share = demand / triad.0;
            let verdict = if share > MEMORY_BOUND {
                "memory holds the products back: see populated channels (nodegauge machine), or take a larger NB"
            } else {
                "memory does not hold the products back"
            };
            format!("{products}, {:.0} % of Triad's {triad} ({source}): {verdict}", share * 100.0)
        }
        None => format!(
            "{products}; no Triad of this node is saved to hold that against: run nodegauge stream"
        ),
    };
    bottleneck(text)
}

/// Clock, throttling, siblings.
fn of_the_node(site: &Site, placement: &Placement, seen: &Observed) -> Vec<Notice> {
    let mut texts = Vec::new();
    let processor = &site.machine.processor;
    let measured = processor.hz_basis.as_deref().is_some_and(|basis| basis.contains("measured"));
    let under_load = seen.peak("f64").and_then(|peak| peak.clock);
    if let (Some(clock), Some(hz), true) = (under_load, processor.hz, measured) {
        let drop = 1.0 - clock.0 / hz;
        if drop > CLOCK_DROP {
            texts.push(format!(
                "the clock falls by {:.0} % under this load: {clock} of {:.3} GHz with one core's scalar work",
                drop * 100.0,
                hz / 1e9
            ));
        }
    }
    if let Some(events) = seen.throttled.filter(|events| *events > 0) {
        texts.push(format!(
            "the processor slowed itself down {events} times in this run (heat or power): see cooling and power limits"
        ));
    }
    let cores = || placement.threads.iter().flat_map(|thread| thread.cores(&site.topology));
    let (all, cores) = (cores().count(), cores().collect::<BTreeSet<u32>>());
    if placement.bind != Bind::None && cores.len() < all {
        texts.push(format!(
            "{all} threads on {} cores: siblings share one core's units, which HPL fills with one thread",
            cores.len()
        ));
    }
    texts.into_iter().map(bottleneck).collect()
}
