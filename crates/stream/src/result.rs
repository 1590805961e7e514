//! Conversion of observations to results: one [`Measurement`] per kernel, with the requested and the observed
//! configuration, the limit, and all reasons why the figure is suspect or invalid.

mod ranks;

use crate::GAUGE;
use crate::arrangement::Arrangement;
use crate::config::{CodeConfig, CountedTrafficConfig, CountersConfig, LeadConfig, StreamConfig};
use crate::kernels::{Element, Kernel, KernelShape, Loop, STREAM_ARRAY_COUNT, Stores};
use crate::size::check::SizeCheck;
use crate::target::{Target, TargetObservations};
use crate::tuner::ChosenLoops;
use nodegauge_arena::evidence::{
    add_memory_limit, page_size_reason, regime_finding, wrong_values_reason,
};
use nodegauge_arena::location;
use nodegauge_arena::names::STREAM;
use nodegauge_arena::{NumaConfig, PagesConfig};
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::series::lost_in_words;
use nodegauge_machine::{NumaNodeId, UnavailableReason};
use nodegauge_measure::clock::{self, ClockQuality, MIN_TICKS};
use nodegauge_measure::keys::shared::CompilerConfig;
use nodegauge_measure::record::{
    Finding, Limit, Measurement, QuotedStatistic, Severity, Traffic, Validity,
};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::samples::{self, CellSamples, RegimeAssignment, Sample};
use nodegauge_measure::{BytesPerSec, Failure, Fraction, Outcome, Seconds, Unit, stream_rule};
use nodegauge_passes::traffic::CountedTraffic;
use nodegauge_placement::{Binding, MemoryPolicy};
use nodegauge_toolchain::Compiler;

/// Inputs from which the figures of a run are computed.
pub(crate) struct StreamEvidence<'a> {
    pub site: &'a MeasuredNode,
    pub arrangement: &'a Arrangement,
    pub target: &'a dyn Target,
    pub seen: &'a TargetObservations,
    pub samples: &'a [Sample],
    pub sorted: RegimeAssignment,
    pub stop: StopReason,
    /// Result of the choice of loops; `None` if the options fixed all loops.
    pub chosen: Option<&'a ChosenLoops>,
    pub clock: ClockQuality,
    /// Result of the size check; `None` if the check was not made.
    pub check: Option<SizeCheck>,
    /// Counts of the memory controllers, or the reason why there are no counts; `None` if counting was not requested.
    pub traffic: Option<&'a Result<CountedTraffic, UnavailableReason>>,
    /// Failure of the cell; `None` if the cell was measured to the end.
    pub lost: Option<&'a Failure>,
    /// Failure that prevented the check of the arrays at the end; `None` if they were checked.
    pub unchecked: Option<&'a Failure>,
}

impl<'a> StreamEvidence<'a> {
    /// Creates the inputs for a run without a choice of loops and without counted traffic.
    pub(crate) fn new(
        site: &'a MeasuredNode,
        arrangement: &'a Arrangement,
        target: &'a dyn Target,
        seen: &'a TargetObservations,
        samples: &'a [Sample],
        stop: StopReason,
    ) -> Self {
        let places =
            seen.combined.affinity.iter().map(|of| of.cpus.iter().map(|cpu| cpu.0).collect());
        let known = site.round_trips.for_places(&places.collect::<Vec<Vec<u32>>>());
        let sorted = samples::assign_regimes_with_known(samples, &known);
        let clock = clock::measure_quality();
        Self {
            site,
            arrangement,
            target,
            seen,
            samples,
            sorted,
            stop,
            chosen: None,
            clock,
            check: None,
            traffic: None,
            lost: None,
            unchecked: None,
        }
    }
}

/// Returns the outcome of a run, without notices.
pub(crate) fn outcome(evidence: &StreamEvidence<'_>) -> Outcome {
    Outcome {
        measurements: measurements(evidence),
        findings: findings(evidence),
        details: evidence.seen.combined.affinity.iter().map(ToString::to_string).collect(),
        stop: Some(evidence.stop),
        ..Outcome::default()
    }
}

/// Returns the bytes that STREAM counts for a pass of the kernel with index `i`, in all processes.
pub(crate) fn counted_bytes(target: &dyn Target, i: usize) -> f64 {
    let config = target.config();
    let elements = config.elements * target.process_count();
    (target.loops()[i].kernel().counted_bytes(config.element) * elements) as f64
}

/// Returns the measurement of a kernel, without a value.
pub(crate) fn figure_without_value(kernel: Kernel) -> Measurement {
    Measurement::new(GAUGE, STREAM, kernel.name(), Unit::BytesPerSecond)
}

/// Returns the reason why figures are suspect if a failure prevented the check of the arrays.
pub(crate) fn unchecked_in_words(failure: &Failure) -> String {
    format!("the arrays were not checked at the end: {}", failure.reason())
}

/// Returns one measurement per kernel; empty if no pass was measured. The measurements of a lost cell are invalid.
pub(crate) fn measurements(evidence: &StreamEvidence<'_>) -> Vec<Measurement> {
    if evidence.sorted.headline().is_none() {
        let all = evidence.target.loops().iter().map(|each| figure_without_value(each.kernel()));
        return match evidence.lost {
            Some(failure) => all.map(|m| m.without_value(lost_in_words(failure))).collect(),
            None => Vec::new(),
        };
    }
    let numa = numa(evidence);
    let config = common_config(evidence, &numa);
    let doubts = common_validity(evidence, &numa);
    let loops = evidence.target.loops().iter().enumerate();
    loops.filter_map(|(i, each)| one(evidence, i, each, &config, &doubts)).collect()
}

fn one(
    evidence: &StreamEvidence<'_>,
    i: usize,
    each: &Loop,
    config: &StreamConfig,
    doubts: &Validity,
) -> Option<Measurement> {
    let kernel = each.kernel();
    let bytes = counted_bytes(evidence.target, i);
    let sorted = &evidence.sorted;
    let timed = CellSamples { samples: evidence.samples, sorted, group: sorted.headline()? };
    let m = figure_without_value(kernel).with_timed_samples(
        QuotedStatistic::Best,
        timed,
        i,
        &|seconds| bytes / seconds,
    );
    let m = add_memory_limit(m, &evidence.site.machine, config.numa.as_ref());
    let mut validity = doubts.clone();
    let Some(best) = m.value else {
        let step = evidence.clock.granularity;
        validity.mark_invalid(format!("a pass ended within one step of the clock ({step})"));
        let mut config = config.clone();
        describe(each, &mut config);
        return Some(figure_without_value(kernel).with_config(&config).with_validity(validity));
    };
    let guest = evidence.site.machine.virtualisation.is_some();
    if let Some(doubt) =
        sorted.interference_doubt(timed.samples, timed.group, i, samples::PASS_NOUN, guest)
    {
        validity.mark_suspect(doubt);
    }
    if let Some(limit) = m.limit.as_ref().filter(|limit| limit.fraction > Fraction(1.0)) {
        validity.mark_invalid(above_limit(evidence, best, limit));
    }
    let ticks = bytes / best / evidence.clock.granularity.0;
    if ticks < MIN_TICKS {
        let reason =
            format!("a loop lasts only {ticks:.0} clock ticks; the minimum is {MIN_TICKS:.0}");
        validity.mark_suspect(reason);
    }
    let mut config = config.clone();
    describe(each, &mut config);
    let leads = evidence.chosen.iter().flat_map(|chosen| &chosen.leads);
    let lead = leads.filter(|(of, _)| *of == kernel).map(|(_, lead)| lead).next();
    config.loop_lead = lead.map(|lead| LeadConfig { ratio: lead.ratio, noise: lead.noise });
    ranks::add_to_config(evidence, i, &mut config);
    let traffic = traffic(evidence, i, best, computed_traffic(evidence, each, best), &mut config);
    if let (Some(traffic), Some(limit)) = (&traffic, &m.limit)
        && traffic.value > limit.value
        && limit.fraction <= Fraction(1.0)
    {
        validity.mark_suspect(format!(
            "traffic of {} ({}) exceeds the theoretical {}: caches served part of it",
            BytesPerSec(traffic.value),
            traffic.basis,
            BytesPerSec(limit.value)
        ));
    }
    Some(m.with_traffic(traffic).with_config(&config).with_validity(validity))
}

impl StreamEvidence<'_> {
    /// True if the arrays are larger than the caches, so that all bytes that the loops read and write cross the memory
    /// bus.
    fn exceeds_caches(&self) -> bool {
        self.arrangement.size.follows_rule == Some(true)
            && !self.check.is_some_and(|check| check.finds_cache())
    }
}

/// Returns the computed traffic of a loop; `None` if it is unknown, or if the arrays may fit in the caches.
fn computed_traffic(evidence: &StreamEvidence<'_>, each: &Loop, best: f64) -> Option<Traffic> {
    let element = evidence.target.config().element;
    let allocates = evidence.site.machine.processor.write_allocate == Some(true);
    let factor = traffic_factor(each.kernel(), element, each.stores(), allocates)?;
    let basis = if factor > 1.0 { "write-allocate" } else { "no write-allocate" };
    evidence.exceeds_caches().then(|| Traffic { value: best * factor, basis: basis.to_owned() })
}

/// Returns the ratio of the bytes on the memory bus to the bytes that STREAM counts. Returns `None` if the ratio
/// depends on the kind of store and this is unknown, or if it is unknown whether regular stores read the overwritten
/// lines. `allocates` is true if the processor is known to read these lines.
fn traffic_factor(
    kernel: Kernel,
    element: Element,
    stores: Option<Stores>,
    allocates: bool,
) -> Option<f64> {
    let possible = match stores {
        Some(stores) => [factor_with(kernel, element, stores); 2],
        None => [
            factor_with(kernel, element, Stores::Regular),
            factor_with(kernel, element, Stores::NonTemporal),
        ],
    };
    (possible[0] == possible[1] && (possible[0] == 1.0 || allocates)).then_some(possible[0])
}

/// Returns the ratio of the moved to the counted bytes for a given kind of store.
fn factor_with(kernel: Kernel, element: Element, stores: Stores) -> f64 {
    kernel.moved_bytes(element, stores) as f64 / kernel.counted_bytes(element) as f64
}

/// Returns the traffic of the kernel with index `i` at a rate of `best` counted bytes per second. If the memory
/// controllers counted the traffic, the computed traffic is stored in the configuration. Otherwise the computed traffic
/// is returned, and the reason is stored in the configuration.
fn traffic(
    evidence: &StreamEvidence<'_>,
    i: usize,
    best: f64,
    computed: Option<Traffic>,
    config: &mut StreamConfig,
) -> Option<Traffic> {
    let bytes = counted_bytes(evidence.target, i);
    let seen = match evidence.traffic {
        None => return computed,
        Some(Err(why)) => {
            config.counters = Some(CountersConfig::Unavailable { unavailable: why.0.clone() });
            return computed;
        }
        Some(Ok(seen)) => seen,
    };
    config.counters =
        Some(CountersConfig::Counted(CountedTrafficConfig::for_kernel(seen, i, bytes)));
    let Some(moved) = seen.kernels.get(i).copied().flatten() else { return computed };
    config.traffic_computed = computed;
    Some(Traffic { value: moved.total * best / bytes, basis: "counters".to_owned() })
}

/// Adds the properties of a loop to a configuration.
fn describe(each: &Loop, config: &mut StreamConfig) {
    let stores = each.stores().filter(|_| each.kernel().writes());
    config.stores = stores.map(|stores| stores.name().to_owned());
    match each {
        Loop::Native(variant) => {
            let KernelShape { isa, unroll, side_by_side, prefetch, .. } = variant.shape();
            config.isa = Some(isa.name().to_owned());
            config.vector_bits = Some(isa.vector_bits().into());
            config.unroll = Some(unroll.into());
            config.side_by_side = side_by_side.above_one().map(u64::from);
            config.prefetch = Some(prefetch.to_string());
        }
        Loop::Compiled(made) => {
            describe_compiler(&made.compiler, config);
            config.side_by_side =
                crate::kernels::compiled::side_by_side(&made.compiler.command).map(u64::from);
            config.code = made.code.as_ref().map(|code| CodeConfig {
                vector_bits: code.vector_bits.map(u64::from),
                nontemporal: code.nontemporal,
                fma: code.fma,
                prefetch: code.prefetch,
                calls: code.calls.clone(),
            });
        }
        Loop::Memcpy(_) => config.engine = Some("memcpy".to_owned()),
    }
}

/// Adds the command and the version of a compiler to a configuration.
fn describe_compiler(compiler: &Compiler, config: &mut StreamConfig) {
    config.engine = Some("compiled".to_owned());
    config.compiler = Some(CompilerConfig {
        command: compiler.command.to_string(),
        version: compiler.version.clone(),
        flags: None,
    });
}

/// Returns the measurement of a kernel that a compiler did not build successfully.
pub(crate) fn missing_measurement(compiler: &Compiler, kernel: Kernel, why: &str) -> Measurement {
    let mut config = StreamConfig::default();
    describe_compiler(compiler, &mut config);
    figure_without_value(kernel).with_config(&config).without_value(why)
}

fn above_limit(evidence: &StreamEvidence<'_>, best: f64, limit: &Limit) -> String {
    let reason = if evidence.arrangement.size.follows_rule != Some(true) {
        "the arrays fit in a cache: use a larger --size"
    } else {
        "either the theoretical figure is wrong (check --dimms), or a cache is larger than \
         reported"
    };
    format!(
        "{} exceeds the theoretical {} ({}); {reason}",
        BytesPerSec(best),
        BytesPerSec(limit.value),
        limit.basis
    )
}

/// Returns the NUMA nodes of the arrays' pages, compared with the policy; with several processes, each process is
/// compared with its own policy.
fn numa(evidence: &StreamEvidence<'_>) -> NumaConfig {
    let policy = &evidence.target.config().policy;
    let nodes = evidence.site.topology.nodes.len();
    let threads = &evidence.arrangement.placement.threads;
    let bound = evidence.arrangement.placement.bind != Binding::None;
    let mut thread_nodes: Vec<Vec<NumaNodeId>> = Vec::new();
    for thread in threads {
        let home = if bound { thread.numa_node_ids(&evidence.site.topology) } else { Vec::new() };
        thread_nodes.push(home);
    }
    let together = location::unchecked_numa_config(policy, &evidence.seen.combined.nodes, nodes);
    if !evidence.seen.ranks.is_empty() {
        return ranks::numa(&evidence.seen.ranks, together);
    }
    if evidence.seen.combined.shares.is_empty() {
        return together;
    }
    let config = evidence.target.config();
    let numa = location::numa_config(
        &evidence.seen.combined.shares,
        config.arrays,
        policy,
        &thread_nodes,
        nodes,
    );
    match config.too_few_pages_reason(evidence.seen.combined.pages.as_ref()) {
        Some(why) => NumaConfig { held: None, unchecked: Some(why), ..numa },
        None => numa,
    }
}

/// Returns the reasons why figures are suspect: pages that are not on the requested NUMA nodes.
fn misplaced(evidence: &StreamEvidence<'_>, numa: &NumaConfig) -> Vec<String> {
    if evidence.seen.ranks.is_empty() {
        location::policy_violation(numa, &evidence.target.config().policy).into_iter().collect()
    } else {
        ranks::doubts(&evidence.seen.ranks)
    }
}

/// Returns the validity that is common to all kernels of the run.
fn common_validity(evidence: &StreamEvidence<'_>, numa: &NumaConfig) -> Validity {
    let mut validity = Validity::valid();
    if let Some(wrong) = &evidence.seen.combined.wrong {
        validity.mark_invalid(wrong_values_reason(wrong));
    }
    if let Some(failure) = evidence.lost {
        validity.mark_invalid(lost_in_words(failure));
    } else if let Some(failure) = evidence.unchecked {
        validity.mark_suspect(unchecked_in_words(failure));
    }
    if evidence.arrangement.size.follows_rule == Some(false) {
        let times = evidence.arrangement.size.times_llc.unwrap_or(0.0);
        validity.mark_suspect(stream_rule::below_rule_reason(times));
    }
    evidence
        .check
        .and_then(|check| check.cache_doubt())
        .into_iter()
        .for_each(|doubt| validity.mark_suspect(doubt));
    let asked = evidence.target.config().pages;
    let got = evidence.seen.combined.pages.as_ref();
    if let Some(doubt) = got.and_then(|got| page_size_reason(asked, got, "arrays")) {
        validity.mark_suspect(doubt);
    }
    misplaced(evidence, numa).into_iter().for_each(|doubt| validity.mark_suspect(doubt));
    validity
}

/// Returns findings about the machine: several regimes in the run; pages that are not on the NUMA nodes of the policy;
/// and in a guest, CPUs that are reported to share a last-level cache, but whose core-to-core latency differs between
/// regimes, as if they had two caches.
pub(crate) fn findings(evidence: &StreamEvidence<'_>) -> Vec<Finding> {
    let trips: Vec<f64> = evidence.sorted.groups.iter().map(|group| group.round_trip).collect();
    let guest = evidence.site.machine.virtualisation.is_some();
    let mut findings: Vec<Finding> = regime_finding(&trips, guest).into_iter().collect();
    findings.extend(misplaced_memory(evidence));
    let cpus = evidence.arrangement.placement.threads.iter().flat_map(|thread| &thread.cpus);
    let known = cpus.filter_map(|cpu| evidence.site.topology.thread(*cpu));
    let llcs: Vec<Option<usize>> = known.map(|thread| thread.llc).collect();
    let shared = llcs.len() > 1 && llcs[0].is_some() && llcs.iter().all(|llc| *llc == llcs[0]);
    let [near, far] = [f64::min, f64::max].map(|of| trips.iter().copied().reduce(of));
    if let (true, true, Some(near), Some(far)) = (shared && trips.len() > 1, guest, near, far) {
        findings.push(Finding {
            id: "topology-untrue".to_owned(),
            severity: Severity::Warning,
            text: format!(
                "the hypervisor reports one last-level cache for these cpus, but their core-to-core round \
                 trip varies between {} and {}, as if these cpus sometimes had two such caches",
                Seconds(near),
                Seconds(far)
            ),
            remedy: "do not trust this guest's topology; size arrays for two caches".to_owned(),
            cost: None,
        });
    }
    findings
}

/// Returns a finding if pages are not on the NUMA nodes of the policy.
fn misplaced_memory(evidence: &StreamEvidence<'_>) -> Option<Finding> {
    let policy = &evidence.target.config().policy;
    let doubts = misplaced(evidence, &numa(evidence));
    if doubts.is_empty() {
        return None;
    }
    let remedy = match policy {
        MemoryPolicy::Default | MemoryPolicy::Local => {
            "free memory on each NUMA node (numactl --hardware shows it), and disable NUMA balancing \
             while measuring: echo 0 > /proc/sys/kernel/numa_balancing"
        }
        _ => {
            "free memory on the requested NUMA nodes (numactl --hardware shows it), or use \
             smaller arrays"
        }
    };
    Some(Finding {
        id: "memory-elsewhere".to_owned(),
        severity: Severity::Warning,
        text: doubts.join("; "),
        remedy: remedy.to_owned(),
        cost: None,
    })
}

/// Returns the requested and the observed configuration, common to all kernels of the run.
fn common_config(evidence: &StreamEvidence<'_>, numa: &NumaConfig) -> StreamConfig {
    let StreamEvidence { seen, arrangement, .. } = evidence;
    let placement = &arrangement.placement;
    let asked = evidence.target.config();
    let trip = evidence.sorted.headline().map(|group| group.round_trip);
    let observed = seen.combined.affinity.iter().map(|o| o.cpus.iter().map(|cpu| cpu.0).collect());
    StreamConfig {
        engine: Some("native".to_owned()),
        threads: Some(placement.threads.len() as u64),
        places: Some(observed.collect()),
        places_asked: Some(placement.places.clone()),
        bind: Some(placement.bind.to_string()),
        pages: Some(PagesConfig {
            asked: asked.pages.name().to_owned(),
            got: seen.combined.pages.clone(),
        }),
        element: Some(asked.element.name().to_owned()),
        arrays: (asked.arrays != STREAM_ARRAY_COUNT).then_some(asked.arrays as u64),
        array_bytes: Some(asked.elements * asked.element.bytes()),
        array_elements: Some(asked.elements),
        array_times_llc: evidence.arrangement.size.times_llc,
        measured_cache_bytes: evidence.arrangement.size.rule.measured().map(|bytes| bytes.0),
        reported_cache_bytes: evidence.arrangement.size.rule.reported().map(|bytes| bytes.0),
        size_check: evidence.check.map(SizeCheck::to_config),
        layout: Some(asked.layout),
        memory_policy: Some(asked.policy.as_str().to_owned()),
        numa: Some(numa.clone()),
        passes: Some(evidence.samples.len() as u64 - 1),
        stopped: Some(evidence.stop.to_string()),
        loops_tried: Some(evidence.chosen.map_or(0, |chosen| chosen.tried.len()) as u64),
        checks: Some(seen.combined.checks.into()),
        clock_granularity_s: Some(evidence.clock.granularity.0),
        round_trip_s: trip.filter(|trip| trip.is_finite()),
        ..StreamConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_store_traffic_needs_known_write_allocate() {
        let factor =
            |kernel, stores, allocates| traffic_factor(kernel, Element::F64, stores, allocates);
        let (regular, past) = (Some(Stores::Regular), Some(Stores::NonTemporal));
        assert_eq!(factor(Kernel::Copy, regular, true), Some(1.5));
        assert_eq!(factor(Kernel::Copy, regular, false), None);
        assert_eq!(factor(Kernel::Copy, past, false), Some(1.0));
        // The kind of store of a compiled loop is unknown. It does not matter if the kernel has already read the lines
        // that it overwrites.
        assert_eq!(factor(Kernel::Copy, None, true), None);
        assert_eq!(factor(Kernel::Update, None, false), Some(1.0));
        assert_eq!(factor(Kernel::Read, None, false), Some(1.0));
        // Three arrays are read, and one is written after its lines are read (write-allocate).
        assert_eq!(factor(Kernel::VectorTriad, regular, true), Some(5.0 / 4.0));
        assert_eq!(factor(Kernel::VectorTriad, past, true), Some(1.0));
    }
}
