//! Figures of a sweep: the figure of each combination, and its speed relative to the first one.

use crate::arrangement::Arrangement;
use crate::config::ProgramConfig;
use crate::figure::FigureSource;
use crate::{GAUGE, RELATIVE, TEST};
use nodegauge_analysis::ratio::speed::{self, Speed};
use nodegauge_measure::record::{Category, Measurement, Quoted, Validity};
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::{Seconds, Unit, stats};
use nodegauge_placement::RankPlace;
use nodegauge_toolchain::CommandLine;

/// Program, figure and combinations of a sweep.
#[derive(Clone, Copy)]
pub(crate) struct SweptProgram<'a> {
    pub program: &'a CommandLine,
    pub figure: &'a FigureSource,
    pub cells: &'a [Arrangement],
}

/// Runs of one combination.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellRuns {
    /// Elapsed times of the runs after the warm-up.
    pub seconds: Vec<f64>,
    /// Figures of the runs after the warm-up.
    pub figures: Vec<f64>,
    /// Reason why the combination was not measured further.
    pub failure: Option<String>,
    /// Complete command of a run.
    pub command: String,
}

/// Returns the figures of all combinations in the order of the sweep.
pub(crate) fn figures(
    sweep: &SweptProgram<'_>,
    runs: &[CellRuns],
    stop: Option<Stop>,
) -> Vec<Measurement> {
    // The baseline is the first combination that works.
    let base = runs.iter().position(|cell| cell.failure.is_none());
    let others = runs.iter().filter(|cell| cell.failure.is_none()).count().saturating_sub(1);
    let mut all = Vec::new();
    for (number, (cell, of)) in sweep.cells.iter().zip(runs).enumerate() {
        if of.figures.is_empty() && of.failure.is_none() {
            continue;
        }
        let mut config = config(sweep, cell, of, stop);
        let validity = validity(of);
        let (name, unit) = match sweep.figure.pattern() {
            Some(_) => ("figure", sweep.figure.unit.unit),
            None => ("elapsed", Unit::Seconds),
        };
        let figure = Measurement::new(GAUGE, TEST, name, unit)
            .category(Category::Reference)
            .sampled(Quoted::Median, of.figures.clone())
            .config(&config)
            .judged(validity.clone());
        all.push(figure);
        let Some(base) = base.filter(|base| *base != number) else { continue };
        if of.failure.is_some() {
            continue;
        }
        let pairs = costs(sweep, &runs[base]).into_iter().zip(costs(sweep, of));
        let ratios: Vec<f64> = pairs.map(|(first, own)| first / own).collect();
        if ratios.is_empty() {
            continue;
        }
        let compared = speed::compared(&ratios, others);
        config.against = Some(sweep.cells[base].in_words());
        config.verdict =
            Some(compared.map_or(Speed::CannotTell, |found| found.verdict).to_string());
        config.visible = compared.map(|found| found.visible);
        let mut relative = Measurement::new(GAUGE, TEST, RELATIVE, Unit::Factor)
            .category(Category::Reference)
            .sampled(Quoted::GeometricMean, ratios)
            .config(&config)
            .judged(validity);
        // The interval of the record is that of the verdict.
        if let (Some(summary), Some(found)) = (&mut relative.summary, compared) {
            summary.ci95 = Some(found.ci95);
        }
        all.push(relative);
    }
    all
}

/// Returns the cost of each run of a combination, which is proportional to the time for a unit of work.
fn costs(sweep: &SweptProgram<'_>, of: &CellRuns) -> Vec<f64> {
    of.figures.iter().map(|value| sweep.figure.cost(*value)).collect()
}

fn validity(of: &CellRuns) -> Validity {
    let mut validity = Validity::valid();
    if let Some(reason) = &of.failure {
        validity.invalid(reason.as_str());
    }
    validity
}

fn config(
    sweep: &SweptProgram<'_>,
    cell: &Arrangement,
    of: &CellRuns,
    stop: Option<Stop>,
) -> ProgramConfig {
    let placed = cell.placed();
    let bound: Option<Vec<Vec<u32>>> = placed
        .iter()
        .map(|place| Some(place.bound_cpus()?.iter().map(|cpu| cpu.0).collect()))
        .collect();
    let policies = || placed.iter().map(|place| place.memory.to_string()).collect();
    let threads = |place: &RankPlace| place.placement.threads.len() as u64;
    let sets_threads =
        cell.ranks().is_some() || cell.variables.iter().any(|(name, _)| name == "OMP_NUM_THREADS");
    let set =
        |(name, value): &(String, Option<String>)| Some(format!("{name}={}", value.as_ref()?));
    let variables: Vec<String> = cell.variables.iter().filter_map(set).collect();
    ProgramConfig {
        program: Some(sweep.program.to_string()),
        pattern: sweep.figure.pattern().map(str::to_owned),
        under: Some(cell.in_words()),
        sweep: (!cell.settings.is_empty()).then(|| cell.coordinates()),
        threads: placed.first().filter(|_| sets_threads).map(threads),
        processes: cell.ranks().map(|ranks| ranks as u64),
        cpus: bound.filter(|cpus| !cpus.is_empty()),
        memory_policies: (!placed.is_empty()).then(policies),
        variables: (!variables.is_empty()).then_some(variables),
        command: Some(of.command.clone()).filter(|command| !command.is_empty()),
        seconds: (!of.seconds.is_empty()).then(|| Seconds(stats::median(&of.seconds))),
        rounds: Some(of.figures.len() as u64),
        stopped: stop.map(|stop| stop.to_string()),
        ..ProgramConfig::default()
    }
}
