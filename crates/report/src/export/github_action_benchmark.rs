//! Exporter of figures for github-action-benchmark, for its tools `customBiggerIsBetter` and `customSmallerIsBetter`.
//! The action compares all figures of a file in the same direction, so there is one file per direction.

use super::{Document, ExportInput, Exporter};
use crate::figures;
use crate::run;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::Record;
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Failure, ScaledUnit};
use serde::Serialize;

/// Exporter of the format `github-action-benchmark`.
pub(super) struct GithubActionBenchmark;

impl Exporter for GithubActionBenchmark {
    fn name(&self) -> &'static str {
        "github-action-benchmark"
    }

    fn purpose(&self) -> &'static str {
        "Input for the GitHub action of this name; `--output NAME.json` writes NAME-bigger.json (bigger is better) and NAME-smaller.json (smaller is better)"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure> {
        let mut documents = Vec::new();
        for (part, direction) in
            [("bigger", BetterDirection::Higher), ("smaller", BetterDirection::Lower)]
        {
            let list = benchmarks(export.records, direction, export.registry);
            if list.is_empty() {
                continue;
            }
            let text = serde_json::to_string_pretty(&list)
                .map_err(|error| Failure::missing(format!("cannot write JSON: {error}")))?;
            documents.push(Document { part: Some(part), text: text + "\n" });
        }
        if documents.is_empty() {
            return Err(Failure::usage("no figure has a unit for which higher or lower is better"));
        }
        Ok(documents)
    }
}

/// Entry of the file. The action identifies figures by name and ignores units, so the unit of a figure must not change
/// between runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Benchmark {
    name: String,
    unit: String,
    value: f64,
    /// Half the distance between the 5 % and 95 % quantiles of the samples, e.g. `± 1.25`, in the unit of the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    extra: String,
}

/// Returns the figures with a value for which `direction` is better. With several runs, each figure name begins with
/// the name of its run.
fn benchmarks(
    records: &[Record],
    direction: BetterDirection,
    registry: &Registry,
) -> Vec<Benchmark> {
    let run_names = run::run_names(records);
    let mut all = Vec::new();
    for (record, run) in records.iter().zip(&run_names) {
        let prefix = if records.len() > 1 { format!("{run}: ") } else { String::new() };
        let figures = figures::measured_figures(record, registry).into_iter();
        let figures = figures.filter(|figure| figure.m.unit.direction() == Some(direction));
        all.extend(figures.filter_map(|figure| benchmark(&figure, record, &prefix)));
    }
    all
}

/// Returns the entry for a figure; `None` if it has no value.
fn benchmark(
    figure: &figures::IdentifiedFigure<'_>,
    record: &Record,
    prefix: &str,
) -> Option<Benchmark> {
    let unit = ScaledUnit::for_lists(figure.m.unit);
    let value = figure.m.value.filter(|value| value.is_finite())?;
    let spread = figure.m.summary.as_ref().map(|s| (s.p95 - s.p05).abs() / 2.0 / unit.factor());
    let machine = &record.machine;
    let node = [machine.host.as_ref(), machine.processor.model.as_ref()];
    let node = node.into_iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    let mut extra = figure.evidence();
    extra.extend([node, run::repeat_command(record)]);
    Some(Benchmark {
        name: format!("{prefix}{} {}", figure.m.test, figure.title()),
        unit: unit.to_string(),
        value: value / unit.factor(),
        range: spread.map(|spread| format!("± {spread}")),
        extra: extra.join("\n"),
    })
}
