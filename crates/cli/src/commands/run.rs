//! `nodegauge run`: all measurements of nodegauge, on one page.

use crate::args::RunArgs;
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::session::{self, Shown};
use nodegauge_analysis::expect::Figures;
use nodegauge_gauge::{Depth, Gauge, Site, SummaryRequest};
use nodegauge_measure::Outcome;
use nodegauge_placement::{Environment, PlacementRequest};
use nodegauge_report::{run, text};
use std::time::{Duration, Instant};

pub(crate) fn execute(args: &RunArgs) -> Result<Exit, Failure> {
    let common = &args.common;
    let site = session::site(common)?;
    // Invalid placement variables are reported before anything is measured, like invalid options.
    let environment = Environment::own();
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
            let (started, mut found) = (Instant::now(), Outcome::default());
            let usual = || usual_times(site, &environment, args.full);
            let usual = common.budget.map(|_| usual()).unwrap_or_default();
            for (at, gauge) in GAUGES.into_iter().enumerate() {
                if found.is_interrupted() {
                    break;
                }
                let ask = SummaryRequest {
                    depth: if args.full { Depth::Full } else { Depth::Quick },
                    before: &found.measurements,
                    budget: common
                        .budget
                        .map(|budget| share(budget, started.elapsed(), &usual, at)),
                    samples: common.samples.map(|n| n as usize),
                    environment: &environment,
                    newest: &session::newest(&common.db, site),
                };
                let more = gauges::summary_plan(gauge, site, &ask, progress);
                found.extend(more);
            }
            Ok(found)
        },
        |record, style| Shown::Text(text::page(&run::page(record, &GAUGES, common.verbose), style)),
    )
}

/// Returns the usual time of each gauge, zero if it cannot be planned; budgets are divided in proportion to
/// these times.
fn usual_times(site: &Site, environment: &Environment, full: bool) -> Vec<Duration> {
    let depth = if full { Depth::Full } else { Depth::Quick };
    let ask = SummaryRequest { depth, ..unasked(environment) };
    let time = |gauge: &dyn Gauge| gauge.summary_plan(site, &ask).ok()??.foreseen().time;
    GAUGES.iter().map(|gauge| time(*gauge).unwrap_or_default()).collect()
}

/// Returns the part of `budget` for gauge number `at`, after the gauges before it used `spent`. The remaining
/// time is divided in proportion to `usual`. The minimum is half of the gauge's part of the whole budget,
/// because a gauge with a long set-up could otherwise leave no time for the last one.
fn share(budget: Duration, spent: Duration, usual: &[Duration], at: usize) -> Duration {
    let part = |of: Duration, among: &[Duration]| {
        let all: Duration = among.iter().sum();
        of.mul_f64(usual[at].as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE))
    };
    part(budget.saturating_sub(spent), &usual[at..]).max(part(budget / 2, usual))
}

/// Returns the request for a quick summary with default options.
fn unasked(environment: &Environment) -> SummaryRequest<'_> {
    SummaryRequest {
        depth: Depth::Quick,
        before: &[],
        budget: None,
        samples: None,
        environment,
        newest: &|_, _| None,
    }
}

/// Returns the figures that the gauges may produce, for expectations; empty if a gauge cannot be planned,
/// because its figures are then unknown.
fn figures(site: &Site, environment: &Environment) -> Vec<Figures> {
    let ask = unasked(environment);
    let plans: Result<Vec<_>, _> =
        GAUGES.iter().map(|gauge| gauge.summary_plan(site, &ask)).collect();
    let plans = plans.unwrap_or_default();
    plans.iter().flatten().flat_map(|plan| plan.figures(site)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_out_and_what_one_leaves_or_takes_is_the_others() {
        let seconds = Duration::from_secs_f64;
        // The fourth gauge measures nothing in this command.
        let usual = [10.0, 8.0, 3.0, 0.0, 4.0].map(seconds);
        for (budget, misses) in [(30.0, 1.1), (30.0, 0.5), (10.0, 1.0), (300.0, 1.05)] {
            let (mut spent, mut shares) = (Duration::ZERO, Vec::new());
            for at in 0..usual.len() {
                let share = share(seconds(budget), spent, &usual, at);
                shares.push(share);
                spent += share.mul_f64(misses);
            }
            assert_eq!(shares[3], Duration::ZERO);
            let most = budget + f64::max(1.0, budget / 10.0);
            assert!(spent.as_secs_f64() <= most, "{budget} s, {misses}: {spent:?}");
            if misses == 1.0 {
                assert!((spent.as_secs_f64() - budget).abs() < 1e-6, "{spent:?}");
                assert!((shares[0].as_secs_f64() - 0.4 * budget).abs() < 1e-6, "{shares:?}");
            }
        }
        // The last gauge gets its minimum even if the others exceed the budget.
        assert_eq!(share(seconds(25.0), seconds(80.0), &usual, 4), seconds(2.0));
        assert_eq!(share(seconds(3.0), seconds(1.0), &[Duration::ZERO], 0), Duration::ZERO);
    }
}
