//! From what was observed to what is reported: one [`Measurement`] a kernel, with its
//! configuration as asked and as got, its limit, and every reason for doubt.

mod ranks;

use crate::arrays::Layout;
use crate::config::StreamConfig;
use crate::kernels::compiled::CompiledLoop;
use crate::kernels::{Kernel, Loop, Shape, Stores};
use crate::pages::{self, Truth};
use crate::point::Sample;
use crate::samples::Sorted;
use crate::size::{RULE_FACTOR, Size};
use crate::target::{Seen, Target};
use crate::traffic::Counted;
use nodegauge_machine::{NodeId, Topology};
use nodegauge_measure::clock::{ClockQuality, MIN_TICKS};
use nodegauge_measure::record::{
    Category, Disturbed, Finding, Limit, Machine, Measurement, Quoted, Severity, Status, Traffic,
    Validity,
};
use nodegauge_measure::keys::Config;
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::stats::{Better, Summary};
use nodegauge_measure::{BytesPerSec, Seconds};
use nodegauge_placement::{Bind, MemoryPolicy, Placement, ThreadPlace};
use nodegauge_toolchain::Compiler;
use serde_json::{Map, Value, json};

/// All that is known of a run when its figures are made.
pub(crate) struct Evidence<'a> {
    pub machine: &'a Machine,
    pub topology: &'a Topology,
    pub placement: &'a Placement,
    pub target: &'a dyn Target,
    pub seen: &'a Seen,
    pub size: &'a Size,
    pub samples: &'a [Sample],
    pub sorted: &'a Sorted,
    pub stop: Stop,
    /// How many loops a trial chose from; 0 without a trial.
    pub loops_tried: usize,
    pub clock: ClockQuality,
    /// What the memory controllers counted, or why they did not; `None` where nobody asked.
    pub traffic: Option<&'a Result<Counted, String>>,
}

/// A round trip above this contradicts a shared last-level cache: on processors whose shared
/// caches answer within some 130 ns, only a way through memory or another die takes longer.
const SHARED_CACHE_ROUND_TRIP: Seconds = Seconds(250e-9);
/// When fewer of the pages than this are of the asked size, the figure is not of those pages.
const PAGES_GOT_ENOUGH: f64 = 0.9;
/// More disturbed passes than this share make a figure suspect.
const DISTURBED_TOO_MANY: f64 = 0.5;

/// Bytes that STREAM counts for a pass of kernel number `i`, of all processes.
pub(crate) fn counted(target: &dyn Target, i: usize) -> f64 {
    let config = target.config();
    let elements = config.elements * target.processes();
    (target.loops()[i].kernel().counted(config.element) * elements) as f64
}

/// One measurement a kernel; none when not a single pass counts.
pub(crate) fn measurements(evidence: &Evidence<'_>) -> Vec<Measurement> {
    let Some(_) = evidence.sorted.headline() else { return Vec::new() };
    let numa = numa(evidence);
    let config = common_config(evidence, &numa);
    let doubts = common_validity(evidence, &numa);
    let loops = evidence.target.loops().iter().enumerate();
    loops.map(|(i, each)| one(evidence, i, each, &config, &doubts)).collect()
}

fn one(
    evidence: &Evidence<'_>,
    i: usize,
    each: &Loop,
    config: &Map<String, Value>,
    doubts: &Validity,
) -> Measurement {
    let element = evidence.target.config().element;
    let kernel = each.kernel();
    let bytes = counted(evidence.target, i);
    let samples = evidence
        .sorted
        .headline()
        .map(|group| Sorted::rates(evidence.samples, group, i, bytes))
        .unwrap_or_default();
    let summary = Summary::of(&samples, Better::Higher);
    let best = summary.as_ref().map(|summary| summary.best);
    let mut validity = doubts.clone();
    let limit =
        best.zip(evidence.machine.memory.theoretical.as_ref()).map(|(best, theoretical)| Limit {
            value: theoretical.value,
            basis: theoretical.basis.clone(),
            fraction: best / theoretical.value,
        });
    if let (Some(limit), Some(best)) = (&limit, best)
        && limit.fraction > 1.0
    {
        validity.add(Status::Invalid, above_limit(evidence, best, limit));
    }
    if let Some(best) = best {
        let ticks = bytes / best / evidence.clock.granularity.0;
        if ticks < MIN_TICKS {
            validity.add(
                Status::Suspect,
                format!(
                    "a loop lasts only {ticks:.0} ticks of the clock; {MIN_TICKS:.0} are needed"
                ),
            );
        }
    }
    // Who stores is not always known; whether lines are read first does not always matter.
    let factor = |stores| kernel.moved(element, stores) as f64 / kernel.counted(element) as f64;
    let factors = match each.stores() {
        Some(stores) => [factor(stores); 2],
        None => [factor(Stores::Regular), factor(Stores::NonTemporal)],
    };
    let moved_factor = Some(factors[0]).filter(|_| factors[0] == factors[1]);
    let mut config = config.clone();
    config.extend(describe(each));
    let mut of_ranks = StreamConfig::default();
    ranks::describe(evidence, i, &mut of_ranks);
    config.extend(of_ranks.to_map());
    let computed = best.zip(moved_factor).map(|(best, factor)| Traffic {
        value: best * factor,
        basis: if factor > 1.0 { "write-allocate" } else { "no write-allocate" }.to_owned(),
    });
    let traffic = traffic(evidence, i, best.map(|best| best / bytes), computed, &mut config);
    Measurement {
        gauge: "memory".to_owned(),
        test: "stream".to_owned(),
        name: kernel.name().to_owned(),
        unit: nodegauge_measure::Unit::BytesPerSecond,
        value: best.filter(|_| validity.status != Status::Invalid),
        quoted: Quoted::Best,
        traffic: traffic.filter(|_| validity.status != Status::Invalid),
        disturbed: evidence
            .sorted
            .disturbed
            .iter()
            .map(|(pass, causes)| Disturbed {
                value: bytes / evidence.samples[*pass].seconds[i],
                reason: causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            })
            .collect(),
        regimes: evidence.sorted.regimes(evidence.samples, i, bytes),
        summary,
        samples,
        config,
        category: Category::Variant,
        limit,
        validity,
    }
}

/// What kernel number `i` moves at `runs_per_s`: as the memory controllers counted it, with what is
/// computed beside it in the configuration; as computed where they did not, with the reason.
fn traffic(
    evidence: &Evidence<'_>,
    i: usize,
    runs_per_s: Option<f64>,
    computed: Option<Traffic>,
    config: &mut Map<String, Value>,
) -> Option<Traffic> {
    let Some(traffic) = evidence.traffic else { return computed };
    let seen = match traffic {
        Ok(seen) => seen,
        Err(why) => {
            config.insert("counters".to_owned(), json!({"unavailable": why}));
            return computed;
        }
    };
    config.insert("counters".to_owned(), seen.to_json(i, counted(evidence.target, i)));
    let Some(moved) = seen.kernels.get(i).copied().flatten() else { return computed };
    let beside = computed.map(|moved| json!({"value": moved.value, "basis": moved.basis}));
    config.insert("moved_computed".to_owned(), json!(beside));
    Some(Traffic { value: moved.total * runs_per_s?, basis: "counters".to_owned() })
}

/// What a loop adds to the configuration of its run.
fn describe(each: &Loop) -> Map<String, Value> {
    let stores = each.stores().filter(|_| each.kernel().writes()).map(Stores::name);
    let mut config = Map::from_iter([("stores".to_owned(), json!(stores))]);
    config.extend(match each {
        Loop::Native(variant) => of_shape(variant.shape()),
        Loop::Compiled(compiled) => of_compiled(compiled),
    });
    config
}

fn of_shape(shape: Shape) -> Map<String, Value> {
    Map::from_iter([
        ("isa".to_owned(), json!(shape.isa.name())),
        ("vector_bits".to_owned(), json!(shape.isa.vector_bits())),
        ("unroll".to_owned(), json!(shape.unroll)),
        ("prefetch".to_owned(), json!(shape.prefetch.to_string())),
    ])
}

fn of_compiled(compiled: &CompiledLoop) -> Map<String, Value> {
    let code = compiled.code.as_ref().map(|code| {
        json!({
            "vector_bits": code.vector_bits,
            "nontemporal": code.nontemporal,
            "fma": code.fma,
            "prefetch": code.prefetch,
            "calls": code.calls,
        })
    });
    let mut config = made_by(&compiled.compiler);
    config.insert("code".to_owned(), json!(code));
    config
}

/// Who compiled.
fn made_by(compiler: &Compiler) -> Map<String, Value> {
    let who = json!({"command": compiler.command.to_string(), "version": compiler.version});
    Map::from_iter([("engine".to_owned(), json!("compiled")), ("compiler".to_owned(), who)])
}

/// The measurement of a kernel of which a compiler made nothing that could be run.
pub(crate) fn missing(compiler: &Compiler, kernel: Kernel, why: &str) -> Measurement {
    let mut validity = Validity::valid();
    validity.add(Status::Invalid, why);
    let mut config = made_by(compiler);
    config.insert("code".to_owned(), Value::Null);
    Measurement {
        gauge: "memory".to_owned(),
        test: "stream".to_owned(),
        name: kernel.name().to_owned(),
        unit: nodegauge_measure::Unit::BytesPerSecond,
        value: None,
        summary: None,
        samples: Vec::new(),
        disturbed: Vec::new(),
        regimes: Vec::new(),
        config,
        quoted: nodegauge_measure::record::Quoted::Best,
        traffic: None,
        category: Category::Variant,
        limit: None,
        validity,
    }
}

fn above_limit(evidence: &Evidence<'_>, best: f64, limit: &Limit) -> String {
    let cached = evidence.size.follows_rule != Some(true);
    let reason = if cached {
        "the arrays lie in a cache: use a larger --size"
    } else {
        "the theoretical figure does not belong to this memory: check --dimms, or a cache is \
         larger than reported"
    };
    format!(
        "{} is above the theoretical {} ({}); {reason}",
        BytesPerSec(best),
        BytesPerSec(limit.value),
        limit.basis
    )
}

/// Why figures of a run with wrong values are no result.
pub(crate) fn wrong_in_words(wrong: &impl std::fmt::Display) -> String {
    format!("the arrays do not hold what they must: {wrong}")
}

/// Where the pages of the arrays are; of several processes overall, for each has a policy of its own.
fn numa(evidence: &Evidence<'_>) -> Truth {
    let policy = &evidence.target.config().policy;
    let threads = &evidence.placement.threads;
    let bound = evidence.placement.bind != Bind::None;
    let home = |thread: &ThreadPlace| match bound {
        true => thread.nodes(evidence.topology),
        false => Vec::new(),
    };
    let homes: Vec<Vec<NodeId>> = threads.iter().map(home).collect();
    match evidence.seen.shares.is_empty() {
        true => Truth::of_arrays(policy, &evidence.seen.nodes),
        false => pages::truth(&evidence.seen.shares, policy, &homes),
    }
}

/// Doubts that hold for every kernel of the run.
fn common_validity(evidence: &Evidence<'_>, numa: &Truth) -> Validity {
    let mut validity = Validity::valid();
    if let Some(wrong) = &evidence.seen.wrong {
        validity.add(Status::Invalid, wrong_in_words(wrong));
    }
    if evidence.size.follows_rule == Some(false) {
        let times = evidence.size.times_llc.unwrap_or(0.0);
        validity.add(
            Status::Suspect,
            format!(
                "arrays are {times:.2} times the last-level caches in use; STREAM's rule asks for \
                 {RULE_FACTOR:.0} times and a million elements"
            ),
        );
    }
    let counted = evidence.sorted.counted();
    let disturbed = evidence.sorted.disturbed.len().saturating_sub(1);
    if evidence.sorted.desperate {
        validity
            .add(Status::Suspect, "nearly every pass was disturbed, so disturbed ones count too");
    } else if disturbed as f64 > DISTURBED_TOO_MANY * (counted + disturbed) as f64 {
        validity.add(
            Status::Suspect,
            format!("{disturbed} of {} passes were disturbed", counted + disturbed),
        );
    }
    let asked = evidence.target.config().pages;
    if let Some(got) = &evidence.seen.pages {
        let huge: f64 = got.iter().filter(|(size, _)| **size >= 2 << 20).map(|(_, s)| s).sum();
        if asked != crate::arrays::Pages::Base && huge < PAGES_GOT_ENOUGH {
            validity.add(
                Status::Suspect,
                format!(
                    "asked for {asked} pages, but only {:.0} % of the arrays lie on huge pages",
                    huge * 100.0
                ),
            );
        }
    }
    if let Some(broken) = numa.in_words() {
        validity.add(Status::Suspect, broken);
    }
    ranks::doubts(&evidence.seen.ranks)
        .into_iter()
        .for_each(|doubt| validity.add(Status::Suspect, doubt));
    validity
}

/// What the run found out about the machine: CPUs that are moved, and CPUs that are said to share a
/// last-level cache and behave as if they did not.
pub(crate) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let trips: Vec<f64> = evidence.sorted.groups.iter().map(|group| group.round_trip).collect();
    if trips.len() > 1 {
        let trips: Vec<String> = trips.iter().map(|trip| Seconds(*trip).to_string()).collect();
        findings.push(Finding {
            id: "cpus-moved".to_owned(),
            severity: Severity::Warning,
            text: format!(
                "the cpus were moved during the run: a cache line took {} between them and back",
                trips.join(" or ")
            ),
            remedy: "compare figures of one regime only; each is in the record".to_owned(),
            cost: None,
        });
    }
    findings.extend(memory_elsewhere(evidence));
    let llcs: Vec<Option<usize>> = evidence
        .placement
        .threads
        .iter()
        .flat_map(|thread| &thread.cpus)
        .filter_map(|cpu| evidence.topology.thread(*cpu))
        .map(|thread| thread.llc)
        .collect();
    let shared = llcs.len() > 1 && llcs[0].is_some() && llcs.iter().all(|llc| *llc == llcs[0]);
    let apart = trips.iter().copied().find(|trip| *trip > SHARED_CACHE_ROUND_TRIP.0);
    if let (true, true, Some(apart)) = (shared, evidence.machine.virtualisation.is_some(), apart) {
        findings.push(Finding {
            id: "topology-untrue".to_owned(),
            severity: Severity::Warning,
            text: format!(
                "the guest is told that its cpus share one last-level cache, but a line takes {} \
                 between them and back: they behave as on two",
                Seconds(apart)
            ),
            remedy: "do not trust this guest's topology; size arrays for two caches".to_owned(),
            cost: None,
        });
    }
    findings
}

/// Pages that are not where the policy wants them.
fn memory_elsewhere(evidence: &Evidence<'_>) -> Option<Finding> {
    let text = numa(evidence).in_words()?;
    let remedy = match &evidence.target.config().policy {
        MemoryPolicy::Default | MemoryPolicy::Local => {
            "free memory on each node (numactl --hardware shows it), and switch NUMA balancing off \
             while measuring: echo 0 > /proc/sys/kernel/numa_balancing"
        }
        _ => {
            "free memory on the nodes that were asked for (numactl --hardware shows it), or use \
             smaller arrays"
        }
    };
    Some(Finding {
        id: "memory-elsewhere".to_owned(),
        severity: Severity::Warning,
        text,
        remedy: remedy.to_owned(),
        cost: None,
    })
}

/// The configuration, as asked and as got, that all kernels of the run share.
fn common_config(evidence: &Evidence<'_>, numa: &Truth) -> Map<String, Value> {
    let seen = evidence.seen;
    let asked = evidence.target.config();
    let got = seen.pages.as_ref().map(|got| {
        Value::Object(got.iter().map(|(size, share)| (size.to_string(), json!(share))).collect())
    });
    let observed: Vec<Vec<u32>> =
        seen.affinity.iter().map(|o| o.cpus.iter().map(|cpu| cpu.0).collect()).collect();
    let config = json!({
        "engine": "native",
        "threads": evidence.placement.threads.len(),
        "places": observed,
        "places_asked": evidence.placement.places,
        "bind": evidence.placement.bind.to_string(),
        "stores": null,
        "pages": {"asked": asked.pages.name(), "got": got},
        "element": asked.element.name(),
        "array_bytes": asked.elements * asked.element.bytes(),
        "array_elements": asked.elements,
        "array_times_llc": evidence.size.times_llc,
        "layout": match asked.layout {
            Layout::Staggered => json!("staggered"),
            Layout::Sequential { offset } => json!({"sequential": {"offset": offset}}),
        },
        "memory_policy": asked.policy.as_str(),
        "numa": numa.to_json(evidence.topology.nodes.len()),
        "passes": evidence.samples.len() - 1,
        "stopped": evidence.stop.to_string(),
        "loops_tried": evidence.loops_tried,
        "checks": seen.checks,
        "clock_granularity_s": evidence.clock.granularity.0,
        "round_trip_s": evidence
            .sorted
            .headline()
            .map(|group| group.round_trip)
            .filter(|trip| trip.is_finite()),
    });
    match config {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
