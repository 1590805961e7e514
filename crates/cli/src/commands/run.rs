//! `nodegauge run`: all measurements of nodegauge, on one page.

use crate::args::RunArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::session::{self, StdoutContent};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::{BudgetShares, Depth, MeasuredNode, SummaryRequest, usual_times};
use nodegauge_measure::schedule::{Budget, RunLimits};
use nodegauge_measure::{Notice, Outcome};
use nodegauge_placement::{PlacementEnvironment, PlacementRequest};
use nodegauge_report::{run, text};
use std::time::Duration;

pub(crate) fn execute(args: &RunArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    let site = session::node_with_caches(common)?;
    // Invalid placement variables are reported before anything is measured, like invalid options.
    let environment = PlacementEnvironment::current();
    let mut asked = PlacementRequest::default();
    environment.apply(&mut asked)?;
    nodegauge_placement::plan(&site.topology, &asked)?;
    let figures =
        if common.conditions.expect.is_empty() { Vec::new() } else { figures(&site, &environment) };
    session::conduct(
        common,
        site,
        &figures,
        |site, progress| {
            // The parts have shares of the budget. They may exceed a share, but do not refuse it.
            let samples = common.samples.map(|n| n as usize);
            let limits = common.budget.map(|time| {
                let parts = RunLimits::from_budget(Budget::new(Some(time), time), samples);
                RunLimits { is_set_by_user: false, ..parts }
            });
            let mut found = Outcome::default();
            let depth = if args.full { Depth::Full } else { Depth::Quick };
            let usual = SummaryRequest::plain(depth, &environment);
            let times = usual_times(&GAUGES, site, &usual);
            progress.set_predicted_time(Some(times.iter().sum()));
            let is_measured: Vec<bool> = times.iter().map(|time| !time.is_zero()).collect();
            let shares = common.budget.map(|budget| BudgetShares::new(budget, times));
            let mut left_out = Vec::new();
            for (at, gauge) in GAUGES.into_iter().enumerate() {
                if found.is_interrupted() {
                    break;
                }
                let is_late = limits.is_some_and(|limits| {
                    limits.samples.is_none() && limits.elapsed() >= limits.budget
                });
                if is_late && is_measured[at] {
                    left_out.push(gauge.name());
                    continue;
                }
                let ask = SummaryRequest {
                    depth,
                    earlier_figures: &found.measurements,
                    budget: shares
                        .as_ref()
                        .zip(limits)
                        .map(|(shares, limits)| shares.part_budget(at, limits.elapsed())),
                    samples,
                    environment: &environment,
                    newest: &session::newest_run(&common.db, site),
                };
                let more = gauges::measure_summary_part(gauge, site, &ask, progress);
                found.extend(more);
            }
            if let Some(limits) = &limits {
                found.set_run_time(limits, Duration::ZERO);
            }
            if !left_out.is_empty() {
                found.notices.push(Notice::no_time_left("", &left_out.join(", ")));
            }
            Ok(found)
        },
        |record, style| {
            StdoutContent::Text(text::page(&run::page(record, &GAUGES, common.verbose), style))
        },
    )
}

/// Returns the figures that the gauges may produce, which `--expect` is checked against. The list is empty if a gauge
/// cannot be planned, because its figures are then unknown.
fn figures(site: &MeasuredNode, environment: &PlacementEnvironment) -> Vec<PossibleFigures> {
    let ask = SummaryRequest::plain(Depth::Quick, environment);
    let plans: Result<Vec<_>, _> =
        GAUGES.iter().map(|gauge| gauge.summary_plan(site, &ask)).collect();
    let plans = plans.unwrap_or_default();
    plans.iter().flatten().flat_map(|plan| plan.possible_figures(site)).collect()
}
