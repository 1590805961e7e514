//! Plan of `stream --plan`: the lengths of the arrays by STREAM's rule and by memory, the placement, the predicted
//! time, and the commands for an unmodified stream.c. The plan is for this node or for a described machine. Nothing is
//! measured.

mod compile;
mod document;
mod rate;

pub use document::LengthPlanDocument;

use crate::GAUGE;
use crate::arrangement::caches_in_use;
use crate::kernels::Element;
use crate::request::{StreamMode, StreamRequest};
use crate::size::{self, ArraySize, CacheCapacity, RuleCaches, SizeConditions, SizeSpec};
use crate::standard::build::{NTIMES, ProgramArrays, StreamSource};
use crate::standard::macros::StreamMacros;
use crate::standard::output::OutputFormat;
use nodegauge_arena::supply::available_memory;
use nodegauge_gauge::MeasuredNode;
use nodegauge_kernels::STREAM_ARRAY_COUNT;
use nodegauge_measure::record::{Record, TheoreticalValue};
use nodegauge_measure::{Bytes, BytesPerSec, Failure, FailureKind, Fraction, Seconds};
use nodegauge_placement::{Placement, RankPlan, emit};
use nodegauge_toolchain::CommandLine;
use rate::PlannedRate;

/// Share of the memory that published runs with long arrays typically fill.
const USUAL_SHARE: Fraction = Fraction(0.6);
/// Name of the compiled program in the commands.
const PROGRAM: &str = "stream";
/// Number of arrays of stream.c.
const ARRAYS: u64 = STREAM_ARRAY_COUNT as u64;

/// Plan of a run of STREAM.
#[derive(Debug)]
pub struct LengthPlan {
    pub(crate) rank_plan: RankPlan,
    pub(crate) element: Element,
    /// Number of runs of each kernel.
    pub(crate) ntimes: u64,
    /// Last-level caches that the threads use; `None` if their size is unknown.
    pub(crate) caches: Option<CachesInUse>,
    /// Memory for which the run is planned; `None` if it is unknown.
    pub(crate) memory: Option<Bytes>,
    /// Theoretical bandwidth of the memory that the threads use; `None` if it is unknown.
    pub(crate) theoretical: Option<TheoreticalValue>,
    /// Rate from which the times are predicted; `None` if no rate is known.
    pub(crate) rate: Option<PlannedRate>,
    /// Planned lengths: by STREAM's rule, by a share of the memory, and as given.
    pub(crate) lengths: Vec<PlannedLength>,
    /// Index of the chosen length.
    chosen: usize,
    /// True if the cache sizes are reported by a hypervisor, so that `stream` uses longer arrays.
    pub(crate) is_guest: bool,
    /// Notices about the places of the threads.
    pub(crate) notices: Vec<String>,
}

/// Last-level caches in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CachesInUse {
    pub bytes: Bytes,
    pub count: usize,
}

/// Basis of a planned length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LengthBasis {
    /// STREAM's rule.
    Rule,
    /// Share of the memory.
    Share(Fraction),
    /// Length as the user gave it.
    Given(SizeSpec),
}

impl LengthBasis {
    /// Converts the size option to the basis of the length.
    fn from_size(size: SizeSpec) -> Self {
        match size {
            SizeSpec::Auto => Self::Rule,
            SizeSpec::Share(share) => Self::Share(share),
            spec => Self::Given(spec),
        }
    }
}

/// Planned length of the arrays.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedLength {
    pub basis: LengthBasis,
    /// Number of elements of an array.
    pub elements: u64,
    pub array: Bytes,
    /// Size of all arrays together.
    pub total: Bytes,
    pub memory_share: Option<Fraction>,
    /// Size of an array divided by the size of the last-level caches.
    pub times_llc: Option<f64>,
    /// True if the length satisfies STREAM's rule; `None` if the caches are unknown.
    pub follows_rule: Option<bool>,
    /// Predicted time of all passes; `None` if no rate is known.
    pub seconds: Option<Seconds>,
    /// Command that compiles stream.c with arrays of the planned length.
    pub compile: CommandLine,
}

/// Inputs of a plan in addition to the options of a run.
pub struct LengthRequest<'a> {
    /// Rate that the user expects; `None` to derive the rate.
    pub rate: Option<BytesPerSec>,
    /// True if an option sets the available memory.
    pub is_memory_given: bool,
    /// Function that returns the newest saved run of this node that contains a figure with the given test and name.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

impl LengthPlan {
    /// Plans the requested run.
    ///
    /// # Errors
    /// Fails if the options do not describe a single configuration of one process, if threads or arrays do not fit, and
    /// if no length can be computed.
    pub fn new(
        options: &StreamRequest,
        site: &MeasuredNode,
        request: &LengthRequest<'_>,
    ) -> Result<Self, Failure> {
        let source = source_name(options)?;
        let command = compile::compiler_command(options, &site.machine)?;
        let macros = StreamMacros::from_choices(&options.compilers)?;
        let options = options.with_macros(&macros)?;
        let arrays = &options.cell.arrays;
        let team = options.cell.job.process.team_request(&site.topology, "--plan")?;
        let placement = nodegauge_placement::plan(&site.topology, &team.request)?;
        let mut notices = team.notices;
        notices.extend(placement.notices.iter().cloned());
        let caches = used_caches(site, &placement);
        let memory = available_memory(&site.machine, arrays.pages, &team.policy);
        let theoretical = theoretical_bandwidth(site, &placement);
        let rate = rate::planned_rate(site, &placement, theoretical.as_ref(), request);
        let conditions = SizeConditions {
            gauge: GAUGE,
            arrays: ARRAYS as usize,
            // stream.c follows STREAM's rule for the reported cache sizes.
            caches: CacheCapacity { reported: caches.map(|caches| caches.bytes), measured: None },
            available: memory,
            fraction: arrays.memory_fraction,
        };
        let is_described = site.machine.is_described() || request.is_memory_given;
        let found = lengths(arrays.size, arrays.element, &conditions);
        let found =
            found.map_err(
                |failure| {
                    if is_described { failure.kind(FailureKind::Usage) } else { failure }
                },
            )?;
        let asked = LengthBasis::from_size(arrays.size);
        let chosen = found.iter().position(|(basis, _)| *basis == asked).unwrap_or(0);
        let wanted = ProgramArrays {
            elements: 0,
            element: arrays.element,
            offset: arrays.offset.unwrap_or(0),
            ntimes: macros.ntimes.unwrap_or(NTIMES),
        };
        let planned = |(basis, elements): (LengthBasis, u64)| {
            let wanted = ProgramArrays { elements, ..wanted };
            let length = PlannedLength::new(basis, &wanted, &conditions);
            PlannedLength {
                seconds: rate.as_ref().map(|rate| rate.seconds(&wanted)),
                compile: compile::compile_command(&command, &wanted, &source, &site.machine),
                ..length
            }
        };
        Ok(Self {
            lengths: found.into_iter().map(planned).collect(),
            chosen,
            rank_plan: RankPlan::single(placement, team.policy),
            element: arrays.element,
            ntimes: wanted.ntimes,
            caches,
            memory,
            theoretical,
            rate,
            is_guest: site.machine.virtualisation.is_some(),
            notices,
        })
    }

    /// Returns the chosen length: as given, otherwise by STREAM's rule, otherwise by memory.
    pub(crate) fn chosen_length(&self) -> &PlannedLength {
        &self.lengths[self.chosen]
    }

    /// Returns the commands that compile stream.c with the chosen length and run it with variables that place its
    /// threads.
    pub fn commands(&self) -> String {
        let variables = self.openmp_variables();
        let words: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        format!("{}\n{} ./{PROGRAM}\n", self.chosen_length().compile, words.join(" "))
    }

    /// Returns the OpenMP variables that place the threads.
    pub(crate) fn openmp_variables(&self) -> Vec<(&'static str, String)> {
        self.rank_plan.ranks.first().map(emit::omp_variables).unwrap_or_default()
    }
}

/// Quotes the value of a variable if a shell would interpret its characters.
fn quoted(value: &str) -> String {
    if value.contains(['{', '}', ' ']) { format!("'{value}'") } else { value.to_owned() }
}

impl PlannedLength {
    /// Creates a length without a predicted time and without a command.
    fn new(basis: LengthBasis, wanted: &ProgramArrays, conditions: &SizeConditions) -> Self {
        let array = Bytes(wanted.elements.saturating_mul(wanted.element.bytes()));
        let total = Bytes(array.0.saturating_mul(ARRAYS));
        let rule = RuleCaches::Reported(conditions.caches.reported);
        let sized = ArraySize::new(wanted.elements, wanted.element, rule, Vec::new());
        Self {
            basis,
            elements: wanted.elements,
            array,
            total,
            memory_share: conditions
                .available
                .map(|memory| Fraction(total.as_f64() / memory.as_f64())),
            times_llc: sized.times_llc,
            follows_rule: sized.follows_rule,
            seconds: None,
            compile: CommandLine::new(PROGRAM, []),
        }
    }
}

/// Returns the name of the source as the user gave it.
fn source_name(options: &StreamRequest) -> Result<String, Failure> {
    match options.mode(None)? {
        StreamMode::Tune => {
            return Err(
                Failure::usage("--plan cannot be used with --tune").hint("leave out --tune")
            );
        }
        StreamMode::Sweep(_) => {
            return Err(Failure::usage("--plan plans one configuration, not a sweep")
                .hint("give one value for each option, e.g. --threads 4"));
        }
        StreamMode::Standard(_) | StreamMode::Compilers | StreamMode::Plain => {}
    }
    if let Some(option) = options.rank_option() {
        return Err(Failure::usage(format!("--plan cannot be used with {option}"))
            .hint("leave it out; `nodegauge places` plans ranks"));
    }
    let Some(path) = &options.standard else { return Ok("stream.c".to_owned()) };
    let source = StreamSource::open(path)?;
    if source.output_format() != OutputFormat::C {
        return Err(Failure::usage(format!(
            "--plan cannot plan {}, whose array length is fixed in the source",
            source.engine()
        ))
        .hint("give stream.c, or leave out --standard"));
    }
    Ok(path.display().to_string())
}

fn used_caches(site: &MeasuredNode, placement: &Placement) -> Option<CachesInUse> {
    let bytes = caches_in_use(site, placement).reported?;
    let (_, count) = site.topology.llc_bytes_and_count(&placement.cpus())?;
    Some(CachesInUse { bytes, count })
}

/// Returns the theoretical bandwidth of the NUMA nodes whose CPUs the threads use. By first touch, the arrays are on
/// these NUMA nodes.
fn theoretical_bandwidth(site: &MeasuredNode, placement: &Placement) -> Option<TheoreticalValue> {
    let cpus = placement.cpus();
    let nodes = site.machine.numa_nodes.iter();
    let near = nodes.filter(|node| cpus.iter().any(|cpu| node.cpus.contains(&cpu.0)));
    let holding: Vec<u32> = near.map(|node| node.id).collect();
    nodegauge_machine::node_bandwidth(&site.machine, &holding)
}

/// Returns the known lengths: by STREAM's rule, by a share of the memory, and as given.
fn lengths(
    spec: SizeSpec,
    element: Element,
    conditions: &SizeConditions,
) -> Result<Vec<(LengthBasis, u64)>, Failure> {
    let elements_by_rule =
        conditions.caches.reported.map(|llc| size::stream_rule_elements(llc, element));
    let given = match spec {
        SizeSpec::Auto => None,
        spec => Some(size::choose(spec, element, conditions)?.elements),
    };
    if let (Some(elements), None) = (elements_by_rule, given) {
        check_memory(elements, element, conditions)?;
    }
    let mut found = Vec::new();
    found.extend(elements_by_rule.map(|elements| (LengthBasis::Rule, elements)));
    let share = match spec {
        SizeSpec::Share(share) => share,
        _ => Fraction(USUAL_SHARE.0.min(conditions.fraction.0)),
    };
    let of_memory = conditions
        .available
        .map(|memory| size::elements_by_memory_share(memory, share, ARRAYS, element));
    found.extend(of_memory.map(|elements| (LengthBasis::Share(share), elements)));
    if !matches!(spec, SizeSpec::Share(_)) {
        found.extend(given.map(|elements| (LengthBasis::Given(spec), elements)));
    }
    if found.is_empty() {
        return Err(Failure::usage("neither the caches nor the memory of the machine is known")
            .hint("give --memory, or the size of a cache: L3Cache:1(size=32MB), or --size"));
    }
    Ok(found)
}

/// Fails if the memory is too small for arrays that satisfy STREAM's rule.
fn check_memory(
    elements: u64,
    element: Element,
    conditions: &SizeConditions,
) -> Result<(), Failure> {
    let Some(memory) = conditions.available else { return Ok(()) };
    let total = Bytes(ARRAYS * elements * element.bytes());
    let allowed = memory.as_f64() * conditions.fraction.0;
    if total.as_f64() <= allowed {
        return Ok(());
    }
    let enough = Bytes((total.as_f64() / conditions.fraction.0).ceil() as u64);
    Err(Failure::missing(format!(
        "STREAM's rule requires {ARRAYS} arrays of {elements} elements, {total} in total, but only {memory} of memory is available, of which {} may be used",
        conditions.fraction
    ))
    .hint(format!("give at least {enough} of memory (--memory), fewer threads, or a --size")))
}

#[cfg(test)]
mod tests;
