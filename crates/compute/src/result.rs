//! From what a run saw to what is reported: the rating, DGEMM, the peaks, each against its limit,
//! with every reason for doubt.

use crate::choose::Tried;
use crate::config::{
    DgemmConfig, LoopRate, PeakConfig, PowerConfig, RatingConfig, ResidualConfig, TheoreticalPeak,
    TimeConfig,
};
use crate::observed::{LibraryRuns, Observed, SolvedSystem};
use crate::peak::Peak;
use crate::residual::{Residual, THRESHOLD};
use crate::{GAUGE, TEST};
use nodegauge_gauge::Site;
use nodegauge_measure::record::{ClockBasis, Machine, Measurement, Quoted, Status, Validity};
use nodegauge_measure::{BytesPerSec, Notice, NoticeId, Unit};
use nodegauge_placement::{Bind, Placement};

/// The formulas, as they stand in the record.
pub(crate) const RATING_FORMULA: &str = "(2/3 N^3 + 3/2 N^2) / t";
/// HPL's scaled residual.
pub(crate) const RESIDUAL_FORMULA: &str = "||Ax-b||oo / (eps (||A||oo ||x||oo + ||b||oo) N)";

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
        out.push(dgemm(placement, library, peak));
    }
    let peaks = ["f64", "f32"].into_iter().filter_map(|element| seen.peak(element));
    out.extend(peaks.map(|peak| fma_peak(machine, placement, seen, peak)));
    out
}

/// CPUs of each thread where threads are bound.
fn cpus(placement: &Placement) -> Option<Vec<Vec<u32>>> {
    let of = |cpus: &[nodegauge_machine::CpuId]| cpus.iter().map(|cpu| cpu.0).collect();
    let all = placement.threads.iter().map(|thread| of(&thread.cpus)).collect();
    (placement.bind != Bind::None).then_some(all)
}

/// Where threads ran and what multiplied.
fn dgemm_config(placement: &Placement, tried: &Tried) -> DgemmConfig {
    let about = match tried {
        Tried::Library(probed) => Some(probed.about()),
        Tried::BuiltIn(_) => None,
    };
    DgemmConfig {
        threads: Some(placement.threads.len()),
        bind: Some(placement.bind.to_string()),
        cpus: cpus(placement),
        blas: Some(tried.name()),
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
    let SolvedSystem { order, nb, rating, residual, times, .. } = solution;
    let DgemmConfig { threads, bind, cpus, blas, blas_path, blas_integer_bits, blas_setting } =
        dgemm_config(placement, &library.tried);
    let theory = peak.and_then(|peak| theory(machine, peak, placement.threads.len()));
    let sized = library.order.as_ref();
    let config = RatingConfig {
        threads,
        bind,
        cpus,
        blas,
        blas_path,
        blas_integer_bits,
        blas_setting,
        engine: Some("native".to_owned()),
        n: Some(*order),
        nb: Some(*nb),
        p: Some(1),
        q: Some(1),
        seed: Some(seed),
        seconds: Some(times.total),
        formula: Some(RATING_FORMULA.to_owned()),
        residual: Some(residual_config(residual)),
        time: Some(TimeConfig {
            panels: times.panels,
            waiting: times.waiting,
            solve_s: times.solve,
            panel_threads: times.panel_threads,
            lost: times.lost,
            switches: times.switches,
            stolen: solution.stolen,
        }),
        began: Some(solution.began),
        order_formula: sized.map(|sized| sized.formula.clone()),
        predicted_seconds: sized.map(|sized| sized.seconds),
        matrix_bytes: sized.map(|sized| sized.bytes.0),
        on_huge_pages: solution.huge_pages,
        search: (!library.search.is_empty()).then(|| library.search.clone()),
        of_dgemm: Some(rating / library.best_dgemm()),
        of_fma_peak: peak.map(|peak| rating / peak.best().0),
        of_theoretical: theory.map(|theory| rating / theory.value),
        power: power(seen, solution),
        ..RatingConfig::default()
    };
    let failed = library.solutions.iter().find(|solution| !solution.residual.passes());
    let mut validity = Validity::valid();
    if let Some(failed) = failed {
        let residual = failed.residual.value;
        let reason =
            format!("the residual is {residual:.3e}, not below {THRESHOLD}: x is no solution");
        validity.add(Status::Invalid, reason);
    }
    if let Some(doubt) = sized.and_then(|sized| sized.doubt.clone()) {
        validity.add(Status::Suspect, doubt);
    }
    let (lost, stolen) = (times.lost, solution.stolen.unwrap_or(0.0));
    if failed.is_none() && lost > DISTURBED {
        let reason = format!(
            "other work took {:.0} % of a thread's time during the solution: repeat it on a quiet node",
            lost * 100.0
        );
        validity.add(Status::Suspect, reason);
    }
    if failed.is_none() && stolen > DISTURBED {
        let reason = format!(
            "the hypervisor gave {:.0} % of the CPUs' time to others during the solution",
            stolen * 100.0
        );
        validity.add(Status::Suspect, reason);
    }
    let samples = match failed {
        Some(_) => Vec::new(),
        None => library.solutions.iter().map(|solution| solution.rating).collect(),
    };
    let m = against_peak(figure("rating", samples), peak, placement).config(&config);
    doubt_above_limit(&m, &mut validity, ABOVE_PEAK);
    m.judged(validity)
}

fn residual_config(residual: &Residual) -> ResidualConfig {
    ResidualConfig {
        value: Some(residual.value),
        threshold: THRESHOLD,
        formula: RESIDUAL_FORMULA.to_owned(),
        error: Some(residual.error),
        norm_a: Some(residual.a),
        norm_x: Some(residual.x),
        norm_b: Some(residual.b),
    }
}

fn power(seen: &Observed, solution: &SolvedSystem) -> Option<PowerConfig> {
    match (seen.energy.as_ref()?, solution.joules) {
        (Ok(basis), Some(joules)) => {
            let watts = joules / solution.times.total;
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
    m.limit(peak.best().0, format!("{} multiply-adds in registers, {threads} threads", peak.isa))
}

/// Marks what is above the limit that was measured for it.
fn doubt_above_limit(m: &Measurement, validity: &mut Validity, reason: &str) {
    if m.limit.as_ref().is_some_and(|limit| limit.fraction > 1.0 + ABOVE) {
        validity.add(Status::Suspect, reason);
    }
}

fn dgemm(placement: &Placement, library: &LibraryRuns, peak: Option<&Peak>) -> Measurement {
    let config = dgemm_config(placement, &library.tried);
    let m = against_peak(figure("dgemm", library.dgemm.clone()), peak, placement).config(&config);
    let mut validity = Validity::valid();
    doubt_above_limit(&m, &mut validity, ABOVE_PEAK);
    m.judged(validity)
}

fn fma_peak(machine: &Machine, placement: &Placement, seen: &Observed, peak: &Peak) -> Measurement {
    let threads = placement.threads.len();
    let loops = seen.peaks.iter().filter(|other| other.element == peak.element);
    let rate = |other: &Peak| LoopRate {
        isa: other.isa.to_owned(),
        fused: other.fused,
        rate: other.best().0,
        clock_hz: other.clock.map(|clock| clock.0),
    };
    let theory = theory(machine, peak, threads);
    let config = PeakConfig {
        threads: Some(threads),
        bind: Some(placement.bind.to_string()),
        cpus: cpus(placement),
        element: Some(peak.element.to_owned()),
        isa: Some(peak.isa.to_owned()),
        clock_hz: peak.clock.map(|clock| clock.0),
        flops_per_cycle: peak.a_cycle(threads),
        loops: Some(loops.map(rate).collect()),
        theoretical: theory.clone(),
    };
    let name = if peak.element == "f64" { "fma_peak" } else { "fma_peak_f32" };
    let mut m = figure(name, peak.samples.clone()).config(&config);
    if let Some(theory) = theory.filter(|theory| theory.value > 0.0) {
        m = m.limit(theory.value, theory.formula);
    }
    let mut validity = Validity::valid();
    let reason =
        "above cores x clock x FLOP/cycle: the clock was lower, or disturbed, right after the load";
    doubt_above_limit(&m, &mut validity, reason);
    m.judged(validity)
}

/// Cores x clock x operations a cycle, twice that for single precision; the clock is the measured
/// one, because the nominal is often the time-stamp counter's.
fn theory(machine: &Machine, peak: &Peak, threads: usize) -> Option<TheoreticalPeak> {
    let a_cycle = f64::from(machine.processor.flops_per_cycle?);
    let a_cycle = if peak.element == "f32" { 2.0 * a_cycle } else { a_cycle };
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

fn notice(id: NoticeId, text: String) -> Notice {
    Notice::new(id, GAUGE, text)
}

/// Where a library or LU loses.
fn of_library(library: &LibraryRuns, solution: &SolvedSystem, peak: Option<&Peak>) -> Vec<Notice> {
    let mut notices = Vec::new();
    let (best, name) = (library.best_dgemm(), library.tried.name());
    let (of_dgemm, times) = (solution.rating / best, &solution.times);
    if let Some(setting) = library.tried.setting() {
        let text = format!(
            "{name}: taken with {setting}, since the kernels that it takes by itself are slower here; set it for your own programs too"
        );
        notices.push(notice(NoticeId::Chosen, text));
    }
    // What other work took is the loss of neither; the rating is marked for it.
    if times.lost > DISTURBED {
        return notices;
    }
    if let Some(peak) = peak.filter(|peak| best / peak.best().0 < LIBRARY_LOSES) {
        let text = format!(
            "the library loses: DGEMM by {name} is {:.0} % of the {} peak; another BLAS, or other kernels of it, may do better",
            100.0 * best / peak.best().0,
            peak.isa
        );
        notices.push(notice(NoticeId::Bottleneck, text));
    }
    if of_dgemm < LU_LOSES {
        let text = format!(
            "LU loses: the rating is {:.0} % of DGEMM; panels take {:.0} % of the threads' time, waiting {:.0} %; a larger N loses less",
            of_dgemm * 100.0,
            times.panels * 100.0,
            times.waiting * 100.0
        );
        notices.push(notice(NoticeId::Bottleneck, text));
    } else if times.waiting > WAITING {
        let text = format!("threads waited {:.0} % of their time", times.waiting * 100.0);
        notices.push(notice(NoticeId::Bottleneck, text));
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
    notice(NoticeId::Bottleneck, text)
}

/// Clock, throttling, siblings.
fn of_the_node(site: &Site, placement: &Placement, seen: &Observed) -> Vec<Notice> {
    let mut texts = Vec::new();
    let processor = &site.machine.processor;
    let measured = processor.hz_basis == Some(ClockBasis::Measured);
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
    let cores = placement.threads.iter().flat_map(|thread| thread.cores(&site.topology));
    let mut cores: Vec<u32> = cores.collect();
    let all = cores.len();
    cores.sort_unstable();
    cores.dedup();
    if placement.bind != Bind::None && cores.len() < all {
        texts.push(format!(
            "{all} threads on {} cores: siblings share one core's units, which HPL fills with one thread",
            cores.len()
        ));
    }
    texts.into_iter().map(|text| notice(NoticeId::Bottleneck, text)).collect()
}
