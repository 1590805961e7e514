//! Figures of a sweep: the figure of each combination, and its speed relative to the baseline, the first combination
//! that succeeds.

use crate::arrangement::ProgramArrangement;
use crate::config::ProgramConfig;
use crate::figure::FigureSource;
use crate::{GAUGE, RELATIVE, TEST};
use nodegauge_analysis::ratio::paired::PairedRounds;
use nodegauge_analysis::ratio::speed::SpeedVerdict;
use nodegauge_measure::record::{Category, Measurement, QuotedStatistic, Status, Validity};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::{Seconds, Unit, stats};
use nodegauge_toolchain::CommandLine;

/// Program of a sweep, with its figure and combinations.
#[derive(Clone, Copy)]
pub(crate) struct SweptProgram<'a> {
    pub program: &'a CommandLine,
    pub figure: &'a FigureSource,
    pub cells: &'a [ProgramArrangement],
}

/// Runs of one combination.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellRuns {
    /// Elapsed times of the runs after the warm-up, seconds.
    pub seconds: Vec<f64>,
    /// Figures of the runs after the warm-up, in the unit of the figure.
    pub figures: Vec<f64>,
    /// Elapsed time in seconds and figure of the warm-up. They are used if there was no time for another run.
    pub warm_up: Option<(f64, f64)>,
    /// Reason why the measurement of the combination ended early; `None` if it did not.
    pub failure: Option<String>,
    /// Complete command of a run.
    pub command: String,
}

/// Returns the figures of all combinations in the order of the sweep.
pub(crate) fn figures(
    sweep: &SweptProgram<'_>,
    runs: &[CellRuns],
    stop: Option<StopReason>,
) -> Vec<Measurement> {
    // The baseline is the first successful combination.
    let base = runs.iter().position(|cell| cell.failure.is_none());
    let others = runs.iter().filter(|cell| cell.failure.is_none()).count().saturating_sub(1);
    let mut all = Vec::new();
    let mut of_base = Validity::valid();
    for (number, (cell, of)) in sweep.cells.iter().zip(runs).enumerate() {
        if of.figures.is_empty() && of.failure.is_none() {
            continue;
        }
        let mut config = config(sweep, cell, of, stop);
        let (name, unit) = match sweep.figure.pattern() {
            Some(_) => ("figure", sweep.figure.unit.unit()),
            None => ("elapsed", Unit::Seconds),
        };
        let figure = Measurement::new(GAUGE, TEST, name, unit)
            .with_category(Category::Reference)
            .with_samples(QuotedStatistic::Median, of.figures.clone())
            .with_config(&config);
        let mut failed = Validity::valid();
        of.failure.iter().for_each(|reason| failed.mark_invalid(reason.as_str()));
        let figure = figure.with_validity(failed);
        let validity = figure.validity.clone();
        all.push(figure);
        if base == Some(number) {
            of_base = validity.clone();
        }
        let Some(base) = base.filter(|base| *base != number) else { continue };
        if of.failure.is_some() {
            continue;
        }
        let paired = PairedRounds::from_quotients(&costs(sweep, &runs[base]), &costs(sweep, of));
        if paired.ratios().is_empty() {
            continue;
        }
        let compared = paired.compare(others);
        config.against = Some(sweep.cells[base].in_words());
        // A ratio is at most as valid as its two figures; suspect figures give no verdict.
        let mut relative = Measurement::new(GAUGE, TEST, RELATIVE, Unit::Factor)
            .with_category(Category::Reference)
            .with_samples(QuotedStatistic::GeometricMean, paired.ratios().to_vec())
            .with_validity(validity);
        relative.inherit_doubts(&of_base, "baseline");
        let is_valid = relative.validity.status == Status::Valid;
        let verdict = compared.filter(|_| is_valid).map(|found| found.verdict);
        config.verdict = Some(verdict.unwrap_or(SpeedVerdict::CannotTell).to_string());
        config.visible = compared.map(|found| found.visible);
        relative = relative.with_config(&config);
        // The interval in the record is the one on which the verdict is based.
        if let (Some(summary), Some(found)) = (&mut relative.summary, compared) {
            summary.ci95 = Some(found.ci95);
        }
        all.push(relative);
    }
    all
}

/// Returns the cost of each run of a combination. A cost is proportional to the time per unit of work.
fn costs(sweep: &SweptProgram<'_>, of: &CellRuns) -> Vec<f64> {
    of.figures.iter().map(|value| sweep.figure.cost(*value)).collect()
}

fn config(
    sweep: &SweptProgram<'_>,
    cell: &ProgramArrangement,
    of: &CellRuns,
    stop: Option<StopReason>,
) -> ProgramConfig {
    let placed = cell.rank_places();
    let bound: Option<Vec<Vec<u32>>> = placed
        .iter()
        .map(|place| Some(place.bound_cpus()?.iter().map(|cpu| cpu.0).collect()))
        .collect();
    let policies: Vec<String> = placed.iter().map(|place| place.memory.to_string()).collect();
    let sets_threads =
        cell.ranks().is_some() || cell.variables.iter().any(|(name, _)| name == "OMP_NUM_THREADS");
    let mut variables: Vec<String> = Vec::new();
    for (name, value) in &cell.variables {
        variables.extend(value.as_ref().map(|value| format!("{name}={value}")));
    }
    ProgramConfig {
        program: Some(sweep.program.to_string()),
        pattern: sweep.figure.pattern().map(str::to_owned),
        under: Some(cell.in_words()),
        sweep: (!cell.settings.is_empty()).then(|| cell.coordinates()),
        threads: placed
            .first()
            .filter(|_| sets_threads)
            .map(|place| place.placement.threads.len() as u64),
        processes: cell.ranks().map(|ranks| ranks as u64),
        cpus: bound.filter(|cpus| !cpus.is_empty()),
        memory_policies: (!policies.is_empty()).then_some(policies),
        variables: (!variables.is_empty()).then_some(variables),
        command: Some(of.command.clone()).filter(|command| !command.is_empty()),
        seconds: (!of.seconds.is_empty()).then(|| Seconds(stats::median(&of.seconds))),
        rounds: Some(of.figures.len() as u64),
        stopped: stop.map(|stop| stop.to_string()),
        ..ProgramConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrangement::ProgramOptions;
    use nodegauge_machine::{SysRoot, Topology, TopologySource};

    /// Returns the figures of a sweep of two combinations with these elapsed times, seconds.
    fn swept(first: &[f64], second: &[f64]) -> Vec<Measurement> {
        let machine = TopologySource::Synthetic("Package:1 Core:2 PU:1".to_owned());
        let topology = Topology::load(&machine).unwrap();
        let options = ProgramOptions {
            axes: vec!["env:A=1,2".parse().unwrap()],
            ..ProgramOptions::default()
        };
        let (cells, _) = options.arrangements(&topology, &SysRoot::live()).unwrap();
        let program = CommandLine::new("true".to_owned(), Vec::new());
        let sweep =
            SweptProgram { program: &program, figure: &FigureSource::elapsed(), cells: &cells };
        let runs = |figures: &[f64]| CellRuns {
            seconds: figures.to_vec(),
            figures: figures.to_vec(),
            ..CellRuns::default()
        };
        figures(&sweep, &[runs(first), runs(second)], Some(StopReason::Budget))
    }

    fn verdict(figures: &[Measurement]) -> String {
        figures[2].read_config::<ProgramConfig>().verdict.unwrap()
    }

    #[test]
    fn combinations_with_little_noise_have_a_verdict() {
        let base = [2.0, 2.01, 2.0, 2.02, 2.0, 2.01];
        let all = swept(&base, &base.map(|seconds| seconds / 1.86));
        assert!(all.iter().all(|m| m.validity.status == Status::Valid), "{all:?}");
        assert_eq!(verdict(&all), "faster");
    }

    #[test]
    fn ratio_to_a_suspect_baseline_has_no_verdict() {
        // On a busy node, the runs of one combination scatter; each is slower than the baseline.
        let busy = [2.0, 2.9, 2.0, 2.4, 3.1, 2.2];
        let all = swept(&busy, &[4.0, 4.1, 4.0, 4.0, 4.1, 4.0]);
        let status: Vec<Status> = all.iter().map(|m| m.validity.status).collect();
        assert_eq!(status, [Status::Suspect, Status::Valid, Status::Suspect]);
        assert!(
            all[2].validity.reasons[0].starts_with("baseline: the 95 % interval of the samples")
        );
        assert_eq!(verdict(&all), "cannot tell");
    }

    #[test]
    fn few_rounds_give_no_verdict() {
        let all = swept(&[2.0; 5], &[1.0; 5]);
        assert_eq!(all[0].validity.status, Status::Suspect);
        assert!(all[0].validity.reasons[0].starts_with("5 samples count: too few"));
        assert_eq!(verdict(&all), "cannot tell");
    }
}
