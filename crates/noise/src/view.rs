//! View of `noise`: the share of the time that is left to a program, the detours by length, what ran during the
//! measurement, and the effect on barriers.

use crate::config::{BarrierPoint, NoiseConfig, NoiseSource};
use crate::{GAUGE, TEST};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::{quotable_figures, value_in_words};
use nodegauge_gauge::view::{ColumnList, Section, Table, TableCell, group_by_key};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::stats::Summary;
use nodegauge_measure::{Fraction, Seconds};

/// Figure with its configuration.
type NoiseFigure<'a> = (&'a Measurement, NoiseConfig);

/// Bin of the histogram of detours.
struct Bin {
    /// Minimum length of the detours in the bin, nanoseconds.
    from: u64,
    count: u64,
    /// Number of detours per second, on all measuring CPUs together.
    per_s: f64,
    /// Number of detours, as a share of the largest number in any bin.
    share: f64,
}

fn own(record: &Record) -> Vec<NoiseFigure<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    own.map(|m| (m, m.read_config())).collect()
}

/// Returns the first sentence of the page.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let all = own(record);
    let longest = quotable_figures(all.iter().filter(|(m, _)| m.name == "longest"), |(m, _)| *m);
    let (longest, config) = longest.into_iter().next()?;
    let available = all.iter().find(|(m, _)| m.name == "available")?;
    let lost = Fraction(1.0 - available.0.value?);
    Some(format!(
        "The node takes {} of the time of a program, in {:.0} detours per second and CPU; the longest detour in 0.1 s is {}",
        lost.in_whole_percent(),
        config.detours_per_s?,
        value_in_words(longest)?
    ))
}

/// Returns the sections of the page; empty if the record has no noise figures.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let all = own(record);
    let Some((_, config)) = all.first() else { return Vec::new() };
    let mut section = Section::new(TEST);
    let columns = ColumnList::<NoiseFigure<'_>>::new()
        .left("figure", |(m, _)| m.name.clone())
        .left("median", |(m, _)| TableCell::from_measurement(m, |value| m.unit.in_words(value)))
        .left("5 %", |(m, _)| quantile(m, |summary| summary.p05))
        .left("95 %", |(m, _)| quantile(m, |summary| summary.p95));
    section.push(columns.table(&all)).push_gap();
    section.push(histogram(config)).push_gap();
    if detail == Detail::Full {
        let sources = config.sources.clone().unwrap_or_default();
        section.push(source_table(&sources));
        for (remedy, own) in group_by_key(&sources, |source| remedy(source, config)) {
            if !remedy.is_empty() {
                let names: Vec<&str> = own.iter().map(|source| source.name.as_str()).collect();
                section.note("remedy", format!("{}: {remedy}", names.join(", ")));
            }
        }
        section.push_gap();
        let points = config.barrier.clone().unwrap_or_default();
        let of_hosts = ColumnList::<BarrierPoint>::new()
            .right("hosts", |point| point.hosts.to_string())
            .right("slowdown", |point| format!("{:.3}", point.slowdown));
        section.push(of_hosts.table(&points));
        let quantum = Seconds(config.quantum_s.unwrap_or(0.0));
        section.note(
            "barrier",
            format!(
                "slowdown: expected time between two barriers, divided by the {quantum} of \
                 computation between them, on hosts like this one; without the barrier itself, and \
                 without losses longer than the recorded ones"
            ),
        );
        let pass = Seconds(config.pass_s.unwrap_or(0.0));
        let shortest = Seconds(config.detour_s.unwrap_or(0.0));
        let stop = config.stopped.as_deref().unwrap_or("?");
        section.note(
            "how",
            format!("a pass of the loop takes {pass}, a detour at least {shortest}; {stop}"),
        );
    }
    let measurements: Vec<&Measurement> = all.iter().map(|(m, _)| *m).collect();
    section.push_doubts(&measurements);
    vec![section]
}

fn quantile(m: &Measurement, of: impl Fn(&Summary) -> f64) -> String {
    m.summary.as_ref().map_or("-".to_owned(), |summary| m.unit.in_words(of(summary)))
}

fn histogram(config: &NoiseConfig) -> Table {
    let counts = config.histogram.clone().unwrap_or_default();
    let max = counts.iter().copied().max().unwrap_or(0).max(1);
    let total: u64 = counts.iter().sum();
    let rate = config.detours_per_s.unwrap_or(0.0) * config.threads.unwrap_or(0) as f64;
    let mut bins = Vec::new();
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        bins.push(Bin {
            from: 1 << at,
            count: *count,
            per_s: rate * *count as f64 / total as f64,
            share: *count as f64 / max as f64,
        });
    }
    let columns = ColumnList::<Bin>::new()
        .right("detours from", |bin| Seconds(bin.from as f64 * 1e-9).to_string())
        .right("number", |bin| bin.count.to_string())
        .right("per second", |bin| format!("{:.1}", bin.per_s))
        .left("", |bin| TableCell::bar(Fraction(bin.share)));
    columns.table(&bins)
}

/// Returns a table of what ran on the measuring CPUs during the measurement.
fn source_table(sources: &[NoiseSource]) -> Table {
    let columns = ColumnList::<NoiseSource>::new()
        .left("source", |source| source.kind.clone())
        .left("name", short_name)
        .right("per s", |source| or_dash(source.per_s.map(|rate| format!("{rate:.1}"))))
        .right("mean time", |source| or_dash(source.mean_s.map(|time| Seconds(time).to_string())))
        .right("share", |source| or_dash(source.share.map(|share| Fraction(share).to_string())))
        .right("found", |source| {
            or_dash(source.found.map(|found| Fraction(found).in_whole_percent()))
        });
    columns.table(sources)
}

/// Returns the name of a source for a column. For an interrupt with a number, it consists of the number and the last
/// word.
fn short_name(source: &NoiseSource) -> String {
    let Some((label, rest)) = source.name.split_once(": ") else { return source.name.clone() };
    let is_numbered = label.chars().all(|c| c.is_ascii_digit());
    match rest.split_whitespace().next_back() {
        Some(last) if is_numbered => format!("{label}: {last}"),
        _ => source.name.clone(),
    }
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Minimum share of the CPU time of a task for which a remedy is shown. Smaller losses are below the resolution of most
/// programs.
const MIN_REMEDY_SHARE: f64 = 1e-4;

/// Returns a remedy that reduces a source; empty if there is no remedy, or if a task is too rare to need one.
fn remedy(source: &NoiseSource, config: &NoiseConfig) -> &'static str {
    let is_tickless = config.tickless_cpus.as_ref().is_some_and(|cpus| !cpus.is_empty());
    let is_worth = source.share.is_some_and(|share| share >= MIN_REMEDY_SHARE);
    match source.kind.as_str() {
        "interrupt" if source.name.starts_with("LOC") && !is_tickless => {
            "nohz_full= on the cores of jobs"
        }
        "interrupt" if source.name.starts_with(|first: char| first.is_ascii_digit()) => {
            if config.irqbalance == Some(true) {
                "irqbalance runs: IRQBALANCE_BANNED_CPULIST= with the cores of jobs"
            } else {
                "irqaffinity= without the cores of jobs"
            }
        }
        "steal" => "a dedicated host",
        "task" if is_worth => "stop it, or bind it to a core that no job uses",
        "kernel thread" if is_worth => "isolcpus= or cpusets keep it away from the cores of jobs",
        _ => "",
    }
}
