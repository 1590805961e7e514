//! From what a run saw to what is reported: the rating, DGEMM, the peaks, each against its limit,
//! with every reason for doubt.

use crate::choose::Tried;
use crate::hpl::{OfLibrary, Options, Seen, Solution};
use crate::peak::Peak;
use crate::residual::THRESHOLD;
use nodegauge_machine::Topology;
use nodegauge_measure::FlopsPerSec;
use nodegauge_measure::record::{Category, Limit, Machine, Measurement, Status, Validity};
use nodegauge_measure::stats::{Better, Summary};
use nodegauge_placement::{Bind, Placement};
use serde_json::{Map, Value, json};

/// The formulas, as they stand in the record.
pub const RATING_FORMULA: &str = "(2/3 N^3 + 3/2 N^2) / t";
/// HPL's scaled residual.
pub const RESIDUAL_FORMULA: &str = "||Ax-b||oo / (eps (||A||oo ||x||oo + ||b||oo) N)";

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

/// All measurements, and what is to be explained of them.
pub(crate) fn measurements(
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    seen: &Seen,
) -> (Vec<Measurement>, Vec<String>) {
    let threads = placement.threads.len();
    let peak = best(&seen.peaks, "f64");
    let mut out = Vec::new();
    let mut notices = Vec::new();
    for library in &seen.libraries {
        if let Some(solution) =
            library.solutions.iter().max_by(|a, b| a.rating.total_cmp(&b.rating))
        {
            out.push(rating(machine, placement, options, seen, library, solution, peak));
            explain(&mut notices, options, library, solution, peak);
        }
        out.push(dgemm(placement, library, peak, threads));
    }
    out.extend(["f64", "f32"].into_iter().filter_map(|element| {
        Some(fma_peak(machine, placement, seen, best(&seen.peaks, element)?, threads))
    }));
    of_the_node(&mut notices, topology, machine, placement, seen, peak);
    (out, notices)
}

/// The fastest loop of an element.
fn best<'a>(peaks: &'a [Peak], element: &str) -> Option<&'a Peak> {
    peaks
        .iter()
        .filter(|peak| peak.element == element)
        .max_by(|a, b| a.best().0.total_cmp(&b.best().0))
}

fn common(placement: &Placement) -> Map<String, Value> {
    let mut config = Map::new();
    let cpus: Vec<Vec<u32>> =
        placement.threads.iter().map(|t| t.cpus.iter().map(|cpu| cpu.0).collect()).collect();
    config.insert("threads".into(), placement.threads.len().into());
    config.insert("bind".into(), placement.bind.to_string().into());
    if placement.bind != Bind::None {
        config.insert("cpus".into(), json!(cpus));
    }
    config
}

fn describe(config: &mut Map<String, Value>, tried: &Tried) {
    config.insert("blas".into(), tried.name().into());
    if let Tried::Library(probed) = tried {
        config.insert("blas_path".into(), probed.about().path.display().to_string().into());
        config.insert("blas_integer_bits".into(), probed.about().integer_bits.into());
        if let Some(setting) = tried.setting() {
            config.insert("blas_setting".into(), setting.into());
        }
    }
}

fn limit(value: f64, against: Option<(f64, String)>) -> Option<Limit> {
    let (limit, basis) = against?;
    (limit > 0.0).then(|| Limit { value: limit, basis, fraction: value / limit })
}

fn measurement(
    name: &str,
    value: Option<f64>,
    samples: Vec<f64>,
    config: Map<String, Value>,
) -> Measurement {
    Measurement {
        gauge: "compute".into(),
        test: "hpl".into(),
        name: name.into(),
        unit: nodegauge_measure::Unit::FlopsPerSecond,
        value,
        summary: Summary::of(&samples, Better::Higher),
        samples,
        disturbed: Vec::new(),
        regimes: Vec::new(),
        config,
        quoted: nodegauge_measure::record::Quoted::Best,
        traffic: None,
        category: Category::Variant,
        limit: None,
        validity: Validity::valid(),
    }
}

fn rating(
    machine: &Machine,
    placement: &Placement,
    options: &Options,
    seen: &Seen,
    library: &OfLibrary,
    solution: &Solution,
    peak: Option<&Peak>,
) -> Measurement {
    let threads = placement.threads.len();
    let failed = library.solutions.iter().find(|s| !s.residual.passes());
    let mut config = common(placement);
    describe(&mut config, &library.tried);
    let Solution { order, nb, residual, times, .. } = solution;
    config.insert("engine".into(), "native".into());
    config.insert("n".into(), (*order).into());
    config.insert("nb".into(), (*nb).into());
    config.insert("p".into(), 1.into());
    config.insert("q".into(), 1.into());
    config.insert("seed".into(), options.seed.into());
    config.insert("seconds".into(), times.total.into());
    config.insert("formula".into(), RATING_FORMULA.into());
    config.insert(
        "residual".into(),
        json!({ "value": residual.value, "threshold": THRESHOLD, "formula": RESIDUAL_FORMULA,
            "error": residual.error, "norm_a": residual.a, "norm_x": residual.x, "norm_b": residual.b }),
    );
    config.insert(
        "time".into(),
        json!({ "panels": times.panels, "waiting": times.waiting, "solve_s": times.solve,
            "crew": times.crew, "lost": times.lost, "switches": times.switches,
            "stolen": solution.stolen }),
    );
    config.insert("began".into(), solution.began.into());
    if let Some(sized) = &library.order {
        config.insert("order_formula".into(), sized.formula.clone().into());
        config.insert("predicted_seconds".into(), sized.seconds.into());
        config.insert("matrix_bytes".into(), sized.bytes.0.into());
    }
    if let Some(share) = solution.huge_pages {
        config.insert("on_huge_pages".into(), share.into());
    }
    if !library.search.is_empty() {
        let tried: Vec<Value> = library
            .search
            .iter()
            .map(|(n, nb, rate)| json!({ "n": n, "nb": nb, "rate": rate }))
            .collect();
        config.insert("search".into(), tried.into());
    }
    let of_dgemm = library.dgemm.iter().copied().fold(0.0, f64::max);
    config.insert("of_dgemm".into(), (solution.rating / of_dgemm).into());
    if let Some(peak) = peak {
        config.insert("of_fma_peak".into(), (solution.rating / peak.best().0).into());
        let theory = theory(machine, peak, threads).map(|(value, _)| solution.rating / value);
        config.insert("of_theoretical".into(), theory.into());
    }
    match (&seen.energy, solution.joules) {
        (Some(Ok(basis)), Some(joules)) => {
            let watts = joules / times.total;
            config.insert(
                "power".into(),
                json!({ "watts": watts, "flops_per_watt": solution.rating / watts, "basis": basis }),
            );
        }
        (Some(Err(reason)), _) => {
            config.insert("power".into(), json!({ "watts": null, "reason": reason }));
        }
        _ => {}
    }
    let samples = library.solutions.iter().map(|s| s.rating).collect();
    let mut out = measurement("rating", Some(solution.rating), samples, config);
    out.limit = limit(solution.rating, against_peak(peak, threads));
    if let Some(failed) = failed {
        out.value = None;
        out.samples.clear();
        out.summary = None;
        out.limit = None;
        out.validity.add(
            Status::Invalid,
            format!(
                "the residual is {:.3e}, not below {THRESHOLD}: x is no solution",
                failed.residual.value
            ),
        );
    }
    if let Some(doubt) = library.order.as_ref().and_then(|order| order.doubt.clone()) {
        out.validity.add(Status::Suspect, doubt);
    }
    let (lost, stolen) = (times.lost, solution.stolen.unwrap_or(0.0));
    if failed.is_none() && lost > DISTURBED {
        out.validity.add(
            Status::Suspect,
            format!(
                "other work took {:.0} % of a thread's time during the solution: repeat it on a quiet node",
                lost * 100.0
            ),
        );
    }
    if failed.is_none() && stolen > DISTURBED {
        out.validity.add(
            Status::Suspect,
            format!(
                "the hypervisor gave {:.0} % of the CPUs' time to others during the solution",
                stolen * 100.0
            ),
        );
    }
    doubt_above_limit(&mut out);
    out
}

/// Marks what is above the limit that was measured for it.
fn doubt_above_limit(m: &mut Measurement) {
    if m.limit.as_ref().is_some_and(|limit| limit.fraction > 1.0 + ABOVE) {
        m.validity.add(
            Status::Suspect,
            "above the measured peak: the clock or other work changed between them",
        );
    }
}

fn against_peak(peak: Option<&Peak>, threads: usize) -> Option<(f64, String)> {
    let peak = peak?;
    Some((peak.best().0, format!("{} multiply-adds in registers, {threads} threads", peak.isa)))
}

fn dgemm(
    placement: &Placement,
    library: &OfLibrary,
    peak: Option<&Peak>,
    threads: usize,
) -> Measurement {
    let best = library.dgemm.iter().copied().fold(0.0, f64::max);
    let mut config = common(placement);
    describe(&mut config, &library.tried);
    let mut out = measurement("dgemm", Some(best), library.dgemm.clone(), config);
    out.limit = limit(best, against_peak(peak, threads));
    doubt_above_limit(&mut out);
    out
}

fn fma_peak(
    machine: &Machine,
    placement: &Placement,
    seen: &Seen,
    peak: &Peak,
    threads: usize,
) -> Measurement {
    let mut config = common(placement);
    config.insert("element".into(), peak.element.into());
    config.insert("isa".into(), peak.isa.into());
    config.insert("clock_hz".into(), peak.clock.map(|clock| clock.0).into());
    config.insert("flops_per_cycle".into(), peak.a_cycle(threads).into());
    let all: Vec<Value> = seen
        .peaks
        .iter()
        .filter(|other| other.element == peak.element)
        .map(|other| {
            json!({ "isa": other.isa, "fused": other.fused, "rate": other.best().0,
            "clock_hz": other.clock.map(|clock| clock.0) })
        })
        .collect();
    config.insert("loops".into(), all.into());
    let theory = theory(machine, peak, threads);
    if let Some((value, formula)) = &theory {
        config.insert(
            "theoretical".into(),
            json!({ "value": value, "formula": formula,
            "without_fma": value / 2.0 }),
        );
    }
    let name = if peak.element == "f64" { "fma_peak" } else { "fma_peak_f32" };
    let mut out = measurement(name, Some(peak.best().0), peak.samples.clone(), config);
    out.limit = limit(peak.best().0, theory);
    if out.limit.as_ref().is_some_and(|limit| limit.fraction > 1.0 + ABOVE) {
        out.validity.add(
            Status::Suspect,
            "above cores x clock x FLOP/cycle: the clock was lower, or disturbed, right after the load",
        );
    }
    out
}

/// Cores x clock x operations a cycle, twice that for single precision; the clock is the measured
/// one, because the nominal is often the time-stamp counter's.
fn theory(machine: &Machine, peak: &Peak, threads: usize) -> Option<(f64, String)> {
    let a_cycle = f64::from(machine.processor.flops_per_cycle?);
    let a_cycle = if peak.element == "f32" { 2.0 * a_cycle } else { a_cycle };
    let clock = peak.clock?;
    let cores = threads.min(machine.processor.cores.max(1) as usize);
    let value = cores as f64 * clock.0 * a_cycle;
    Some((
        value,
        format!("{cores} cores x {clock} measured under load x {a_cycle} FLOP/cycle with FMA"),
    ))
}

/// Where the rating comes from and what holds it down.
fn explain(
    notices: &mut Vec<String>,
    options: &Options,
    library: &OfLibrary,
    solution: &Solution,
    peak: Option<&Peak>,
) {
    let of_dgemm = solution.rating / library.dgemm.iter().copied().fold(0.0, f64::max);
    let name = library.tried.name();
    if let Some(setting) = library.tried.setting() {
        notices.push(format!(
            "{name}: taken with {setting}, since the kernels that it takes by itself are slower here; set it for your own programs too"
        ));
    }
    // What other work took is nobody's loss; the rating is marked for it.
    let quiet = solution.times.lost <= DISTURBED;
    if let (Some(peak), true) = (peak, quiet) {
        let best = library.dgemm.iter().copied().fold(0.0, f64::max);
        let share = best / peak.best().0;
        if share < LIBRARY_LOSES {
            notices.push(format!(
                "the library loses: DGEMM by {name} is {:.0} % of the {} peak; another BLAS, or other kernels of it, may do better",
                share * 100.0, peak.isa
            ));
        }
    }
    if quiet && of_dgemm < LU_LOSES {
        notices.push(format!(
            "LU loses: the rating is {:.0} % of DGEMM; panels take {:.0} % of the threads' time, waiting {:.0} %; a larger N loses less",
            of_dgemm * 100.0, solution.times.panels * 100.0, solution.times.waiting * 100.0
        ));
    } else if quiet && solution.times.waiting > WAITING {
        notices
            .push(format!("threads waited {:.0} % of their time", solution.times.waiting * 100.0));
    }
    // Each product reads and writes its C once for 2 NB operations an element.
    let demand = solution.rating * 16.0 / (2.0 * solution.nb as f64);
    match &options.triad {
        Some((triad, source)) => {
            let share = demand / triad.0;
            let verdict = if share > MEMORY_BOUND {
                "memory holds the products back: see populated channels (nodegauge machine), or take a larger NB"
            } else {
                "memory does not hold the products back"
            };
            notices.push(format!(
                "products at NB = {} move at least {:.1} GB/s (rating x 16 B / (2 NB)), {:.0} % of Triad's {triad} ({source}): {verdict}",
                solution.nb, demand / 1e9, share * 100.0
            ));
        }
        None => notices.push(format!(
            "products at NB = {} move at least {:.1} GB/s (rating x 16 B / (2 NB)); no Triad of this node is saved to hold that against: run nodegauge stream",
            solution.nb, demand / 1e9
        )),
    }
}

/// Clock, throttling, siblings.
fn of_the_node(
    notices: &mut Vec<String>,
    topology: &Topology,
    machine: &Machine,
    placement: &Placement,
    seen: &Seen,
    peak: Option<&Peak>,
) {
    let scalar =
        machine.processor.hz_basis.as_deref().is_some_and(|basis| basis.contains("measured"));
    if let (Some(clock), Some(hz), true) =
        (peak.and_then(|peak| peak.clock), machine.processor.hz, scalar)
    {
        let drop = 1.0 - clock.0 / hz;
        if drop > CLOCK_DROP {
            notices.push(format!(
                "the clock falls by {:.0} % under this load: {clock} of {:.3} GHz with one core's scalar work",
                drop * 100.0, hz / 1e9
            ));
        }
    }
    match seen.throttled {
        Some(0) | None => {}
        Some(events) => notices.push(format!(
            "the processor slowed itself down {events} times in this run (heat or power): see cooling and power limits"
        )),
    }
    let mut cores: Vec<u32> =
        placement.threads.iter().flat_map(|thread| thread.cores(topology)).collect();
    let all = cores.len();
    cores.sort_unstable();
    cores.dedup();
    if placement.bind != Bind::None && cores.len() < all {
        notices.push(format!(
            "{all} threads on {} cores: siblings share one core's units, which HPL fills with one thread",
            cores.len()
        ));
    }
}

/// A rate in words.
pub fn in_words(rate: f64) -> String {
    FlopsPerSec(rate).to_string()
}
