//! Conversion of outputs of stream.c to measurements, with all reasons why a result is suspect or invalid. All
//! functions are pure.
//!
//! The message "Solution Validates" is not sufficient. A saved output without this message is suspect, because the line
//! may have been removed. There is no result if the check could not detect errors, if the table contradicts itself, or
//! if the arrays differ from the requested arrays.

use crate::config::StreamConfig;
use crate::kernels::{Kernel, STREAM};
use crate::result;
use crate::size::{MIN_ARRAY_ELEMENTS, MIN_CACHE_MULTIPLE};
use crate::standard::build::ProgramArrays;
use crate::standard::output::{OutputFormat, ReportedCheck, StreamOutput};
use nodegauge_arena::ArrayLayout;
use nodegauge_arena::evidence::add_memory_limit;
use nodegauge_measure::keys::shared::{CompilerConfig, TimesConfig};
use nodegauge_measure::record::{
    Category, DisturbedSample, Machine, Measurement, QuotedStatistic, RegimeSamples, Validity,
};
use nodegauge_measure::stats::{BetterDirection, Summary};
use nodegauge_measure::{BytesPerSec, Fraction, quantity};

/// First word of the reason why a saved output without the result of STREAM's check is suspect.
pub const UNCHECKED_PREFIX: &str = "unchecked";

/// Expected properties of an output of stream.c.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectedOutput<'a> {
    /// Arrays for which the program was built; `None` for a saved output.
    pub wanted: Option<&'a ProgramArrays>,
    /// Requested number of threads.
    pub threads: Option<u64>,
    /// Total size of the last-level caches in use, bytes.
    pub llc: Option<f64>,
    /// True for a saved output, from which lines may have been removed.
    pub is_saved: bool,
}

/// Returns the validity of an output, with all reasons for doubt.
pub fn output_validity(output: &StreamOutput, expected: &ExpectedOutput<'_>) -> Validity {
    let mut validity = Validity::valid();
    let name = output.output_format.engine();
    match &output.check {
        ReportedCheck::Passed => {}
        ReportedCheck::Failed(words) => {
            validity.mark_invalid(format!("{name} reports wrong values: {words}"));
        }
        ReportedCheck::Absent if expected.is_saved => {
            validity.mark_suspect(format!(
                "{UNCHECKED_PREFIX}: the text has no result of {name}'s check of the arrays"
            ));
        }
        ReportedCheck::Absent => {
            validity.mark_invalid(format!("{name} does not report whether its arrays are correct"))
        }
    }
    let sound = output.max_finite_passes();
    if output.ntimes > Some(sound) || output.has_non_finite {
        let passes = output.ntimes.map(|n| format!(" after {n} passes")).unwrap_or_default();
        let of_type = output.element.map(|of| format!("{} ", of.name())).unwrap_or_default();
        validity.mark_invalid(format!(
            "{name} cannot detect errors{passes}: its {of_type}values overflow after {sound} \
             passes, and it prints \"Solution Validates\" for infinities"
        ));
    }
    if expected.is_saved && output.ntimes.is_none() {
        validity.mark_suspect(format!(
            "{UNCHECKED_PREFIX}: the text has no number of passes, and {name} cannot detect errors after more than {sound}"
        ));
    }
    if let Some(kernel) = output.contradiction() {
        validity.mark_invalid(format!("the table contradicts itself: the rate of {kernel} is not its bytes divided by its minimum time"),
        );
    }
    if output.has_obsolete_macro {
        validity.mark_suspect("built with -DN, which has no effect; use -DSTREAM_ARRAY_SIZE");
    }
    check_parameters(output, expected, &mut validity);
    let times = times_llc(output, expected.llc);
    let is_short = output.elements.is_some_and(|elements| elements < MIN_ARRAY_ELEMENTS);
    if is_short || times.is_some_and(|times| times < MIN_CACHE_MULTIPLE * 0.999) {
        let cache = times
            .map(|times| format!(", {times:.2} times the last-level caches in use"))
            .unwrap_or_default();
        validity.mark_suspect(format!(
            "arrays have {} elements{cache}; STREAM's rule requires {MIN_CACHE_MULTIPLE:.0} times the \
                 caches and a million elements",
            number(output.elements)
        ));
    }
    validity
}

/// Returns the size of an array divided by that of the last-level caches; `None` if one of them is unknown.
pub(crate) fn times_llc(output: &StreamOutput, llc: Option<f64>) -> Option<f64> {
    Some(output.array_bytes()? as f64 / llc?)
}

/// Formats a number that may be unknown.
fn number(of: Option<u64>) -> String {
    of.map_or_else(|| "?".to_owned(), |of| of.to_string())
}

/// Checks that the program used the requested parameters.
fn check_parameters(output: &StreamOutput, expected: &ExpectedOutput<'_>, validity: &mut Validity) {
    let name = output.output_format.engine();
    if let Some(wanted) = expected.wanted.filter(|_| output.output_format != OutputFormat::Fortran)
    {
        let elements = wanted.elements;
        let element = wanted.element;
        if output.elements != Some(elements) || output.element != Some(element) {
            validity.mark_invalid(format!(
                "{elements} elements of {} requested, but {name} used {} of {}",
                element.name(),
                number(output.elements),
                output.element.map_or("?", |of| of.name())
            ));
        }
    } else if let Some(wanted) = expected.wanted
        && output.elements != Some(wanted.elements)
    {
        // The sizes of stream.f are fixed in the source, which must not be modified.
        validity.mark_suspect(format!(
            "{name} has {} elements per array (fixed in its source), the native run has {}",
            number(output.elements),
            wanted.elements
        ));
    }
    let Some(threads) = expected.threads else { return };
    match output.threads {
        None if output.output_format == OutputFormat::Mpi => {}
        None if threads > 1 => {
            validity.mark_suspect(format!("built without OpenMP: one thread instead of {threads}"))
        }
        Some((_, counted)) if counted != threads => {
            let requested = quantity::count_in_words(threads as usize, "thread");
            validity.mark_suspect(format!("{requested} requested, but {name} counted {counted}"))
        }
        _ => {}
    }
}

/// Returns the configuration that an output reports.
pub fn config(output: &StreamOutput, llc: Option<f64>) -> StreamConfig {
    let counted = output.threads.map(|(_, counted)| counted);
    let compiler = output.compiler.clone();
    StreamConfig {
        engine: Some(output.output_format.engine().to_owned()),
        engine_version: output.version.clone(),
        threads: counted.or(output.is_serial.then_some(1)),
        processes: output.ranks,
        compiler: compiler.map(|command| CompilerConfig { command, ..CompilerConfig::default() }),
        element: output.element.map(|element| element.name().to_owned()),
        array_bytes: output.array_bytes(),
        array_elements: output.elements,
        array_times_llc: times_llc(output, llc),
        layout: Some(ArrayLayout::Sequential { offset: output.offset }),
        ntimes: output.ntimes,
        ..StreamConfig::default()
    }
}

/// Runs of a build, from which the standard results of all four kernels are computed.
pub(crate) struct StandardRuns<'a> {
    /// Outputs that count, in chronological order.
    pub counted_outputs: Vec<&'a StreamOutput>,
    /// Outputs that do not count, with the reason.
    pub disturbed: Vec<(&'a StreamOutput, String)>,
    /// Outputs by regime, with the round trip and the share of each regime; empty if there was only one regime.
    pub regimes: Vec<(f64, f64, Vec<&'a StreamOutput>)>,
    pub config: StreamConfig,
    pub validity: Validity,
    /// Description of the machine; `None` if it is unknown.
    pub machine: Option<&'a Machine>,
    /// True if the output of the fastest run is kept; a saved output is in the user's file.
    pub keeps_text: bool,
}

/// Returns one measurement per kernel. Each sample is the best pass of a run, as stream.c reports it.
pub(crate) fn measurements(runs: &StandardRuns<'_>) -> Vec<Measurement> {
    (0..STREAM.len()).map(|i| one(runs, i)).collect()
}

/// Returns the rate of kernel number `i` in each output.
fn rates(outputs: &[&StreamOutput], i: usize) -> Vec<f64> {
    outputs.iter().map(|output| output.lines[i].rate.0).collect()
}

fn one(runs: &StandardRuns<'_>, i: usize) -> Measurement {
    let mut m =
        standard(STREAM[i]).with_samples(QuotedStatistic::Best, rates(&runs.counted_outputs, i));
    if let Some(machine) = runs.machine {
        m = add_memory_limit(m, machine, runs.config.numa.as_ref());
    }
    let mut validity = runs.validity.clone();
    if let (Some(limit), Some(best)) =
        (m.limit.as_ref().filter(|l| l.fraction > Fraction(1.0)), m.value)
    {
        let reason = format!(
            "{} is above the theoretical {} ({}): the arrays fit in a cache, or the theoretical \
             figure is wrong",
            BytesPerSec(best),
            BytesPerSec(limit.value),
            limit.basis
        );
        validity.mark_invalid(reason);
    }
    let mut config = runs.config.clone();
    let fastest =
        runs.counted_outputs.iter().max_by(|x, y| x.lines[i].rate.total_cmp(&y.lines[i].rate));
    let keeps_text = runs.keeps_text && STREAM[i] == Kernel::Triad;
    config.printed = fastest.filter(|_| keeps_text).map(|output| output.text.clone());
    config.times_s = fastest.map(|output| {
        let [average, least, greatest] = output.lines[i].times;
        TimesConfig { average, least, greatest }
    });
    let disturbed = runs.disturbed.iter();
    m.disturbed = disturbed
        .map(|(output, reason)| DisturbedSample {
            value: output.lines[i].rate.0,
            reason: reason.clone(),
            ..DisturbedSample::default()
        })
        .collect();
    let regimes = runs.regimes.iter();
    m.regimes = regimes
        .filter_map(|(round_trip, share, outputs)| {
            let samples = rates(outputs, i);
            Some(RegimeSamples {
                round_trip_s: *round_trip,
                share: Fraction(*share),
                summary: Summary::from_samples(&samples, BetterDirection::Higher)?,
                samples,
            })
        })
        .collect();
    m.with_config(&config).with_validity(validity)
}

/// Returns the standard figure of a kernel, without a value. Its traffic is unknown because the compiler chose the kind
/// of store.
fn standard(kernel: Kernel) -> Measurement {
    result::figure_without_value(kernel).with_category(Category::Standard)
}

/// Returns the measurements of a saved output of stream.c. The program ran on `machine`, whose theoretical bandwidth
/// the user may have given.
pub fn saved_measurements(output: &StreamOutput, machine: &Machine) -> Vec<Measurement> {
    measurements(&StandardRuns {
        counted_outputs: vec![output],
        disturbed: Vec::new(),
        regimes: Vec::new(),
        config: config(output, None),
        validity: output_validity(
            output,
            &ExpectedOutput { is_saved: true, ..ExpectedOutput::default() },
        ),
        machine: Some(machine),
        keeps_text: false,
    })
}

/// Returns measurements without a value, with the reason why there is none.
pub(crate) fn missing_measurements(config: &StreamConfig, reason: &str) -> Vec<Measurement> {
    STREAM
        .iter()
        .map(|kernel| standard(*kernel).with_config(config).without_value(reason))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Element;
    use nodegauge_measure::record::Status;

    macro_rules! recorded {
        ($name:literal) => {
            StreamOutput::read(include_str!(concat!("../../tests/outputs/stream-", $name, ".txt")))
                .unwrap()
        };
    }

    #[test]
    fn correct_output_is_a_valid_standard_result() {
        let saved = saved_measurements(&recorded!("gcc-2t"), &Machine::default());
        let names: Vec<&str> = saved.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["copy", "scale", "add", "triad"]);
        let triad = &saved[3];
        assert_eq!((triad.value, triad.category), (Some(22_189.7e6), Category::Standard));
        assert_eq!(triad.validity, Validity::valid());
        assert_eq!(triad.config["engine"], "stream.c");
        assert_eq!(triad.config["array_bytes"], 536_870_912u64);
        assert_eq!(triad.config["threads"], 2);
        for sound in [
            recorded!("clang-2t"),
            recorded!("gcc-float-2t"),
            recorded!("f-67M-2t"),
            recorded!("mpi-2r"),
            recorded!("gcc-verbose-2t"),
        ] {
            assert!(
                saved_measurements(&sound, &Machine::default())
                    .iter()
                    .all(|m| m.value.is_some() && m.validity == Validity::valid())
            );
        }
    }

    #[test]
    fn failed_validation_gives_no_figure() {
        let reasons = |output: &StreamOutput| {
            let saved = saved_measurements(output, &Machine::default());
            assert!(
                saved.iter().all(|m| m.value.is_none() && m.validity.status == Status::Invalid)
            );
            saved[0].validity.reasons.clone()
        };
        assert_eq!(
            reasons(&recorded!("gcc-corrupt-2t")),
            [
                "stream.c reports wrong values: Failed Validation on array a[], AvgRelAbsErr > epsilon \
              (1.000000e-13)"
            ]
        );
        assert_eq!(
            reasons(&recorded!("gcc-ntimes300-2t")),
            [
                "stream.c cannot detect errors after 300 passes: its f64 values overflow after 261 passes, \
              and it prints \"Solution Validates\" for infinities"
            ]
        );
        let absent = StreamOutput { check: ReportedCheck::Absent, ..recorded!("gcc-2t") };
        let own = output_validity(&absent, &ExpectedOutput::default());
        assert!(own.status == Status::Invalid && own.reasons[0].contains("does not report"));
    }

    #[test]
    fn saved_output_without_validation_is_suspect() {
        let absent = StreamOutput { check: ReportedCheck::Absent, ..recorded!("gcc-2t") };
        let saved = saved_measurements(&absent, &Machine::default());
        assert!(saved.iter().all(|m| m.value.is_some() && m.validity.status == Status::Suspect));
        assert!(saved[0].validity.reasons[0].starts_with(UNCHECKED_PREFIX));
        let unknown = StreamOutput { threads: None, ..absent };
        let config = config(&unknown, None);
        assert_eq!(config.threads, None);
        let serial = StreamOutput { is_serial: true, ..unknown };
        assert_eq!(super::config(&serial, None).threads, Some(1));
    }

    #[test]
    fn deviation_from_the_request_is_reported() {
        let output = recorded!("gcc-2t");
        let wanted =
            ProgramArrays { elements: 1 << 26, element: Element::F64, offset: 0, ntimes: 20 };
        let expected = ExpectedOutput {
            wanted: Some(&wanted),
            threads: Some(2),
            llc: Some(64e6),
            ..ExpectedOutput::default()
        };
        assert_eq!(output_validity(&output, &expected), Validity::valid());
        let four = output_validity(&output, &ExpectedOutput { threads: Some(4), ..expected });
        assert_eq!(four.reasons, ["4 threads requested, but stream.c counted 2"]);
        let serial = StreamOutput { threads: None, ..output.clone() };
        assert_eq!(
            output_validity(&serial, &expected).reasons,
            ["built without OpenMP: one thread instead of 2"]
        );
        let other = ProgramArrays { elements: 10_000_000, ..wanted };
        let other = output_validity(&output, &ExpectedOutput { wanted: Some(&other), ..expected });
        assert_eq!(other.status, Status::Invalid);
        let small = output_validity(&output, &ExpectedOutput { llc: Some(512e6), ..expected });
        assert_eq!(small.status, Status::Suspect);
        assert!(small.reasons[0].contains("1.05 times the last-level caches"), "{small:?}");
        let old = StreamOutput { has_obsolete_macro: true, ..output };
        assert!(output_validity(&old, &expected).reasons[0].contains("-DN"));
    }
}
