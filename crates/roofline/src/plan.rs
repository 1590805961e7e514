//! Plan of a roofline: points, and ceilings for all threads and for a single thread, which other gauges measure.

use crate::counted::{RooflineCounters, count_program};
use crate::{GivenPoint, add_points, possible_figures};
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_gauge::roofline::{
    CeilingsRequest, GAUGE, MEMORY_LEVEL, NoPointReason, ONE_THREAD_SUFFIX, RooflinePoint,
    RooflineThreads,
};
use nodegauge_gauge::{
    ExpectedCost, Gauge, MeasuredNode, PlannedRun, run_part, with_failure_as_notice,
};
use nodegauge_measure::record::Record;
use nodegauge_measure::schedule::{Budget, RunLimits};
use nodegauge_measure::{
    Bytes, Failure, FailureKind, Notice, NoticeId, Observer, Outcome, figure_names,
};
use nodegauge_placement::{PlacementOptions, PlacementRequest};
use nodegauge_toolchain::CommandLine;
use std::collections::BTreeSet;
use std::time::Duration;

/// Share of the time for the roofline of all threads, if the roofline of a single thread is also measured.
const ALL_THREADS_SHARE: f64 = 0.5;

/// Options of a roofline.
pub struct RooflineOptions<'a> {
    /// Threads, their places and their memory policy.
    pub placement: PlacementOptions,
    /// Working set in main memory, as the total of all threads; `None` for the default size.
    pub largest: Option<Bytes>,
    /// Time budget of the whole run.
    pub budget: Budget,
    /// Exact number of samples, regardless of the time.
    pub samples: Option<usize>,
    /// Points that the user gave.
    pub given_points: &'a [GivenPoint],
    /// Program to run once while its operations and bytes are counted.
    pub program: Option<CommandLine>,
    /// Function that returns the newest saved run of this node that contains a figure. Its arguments are the test and
    /// the name of the figure.
    pub newest: &'a dyn Fn(&str, &str) -> Option<Record>,
}

/// Planned measurement of the ceilings of one gauge.
struct GaugeCeilings {
    gauge: &'static dyn Gauge,
    planned: Box<dyn PlannedRun>,
}

/// Planned run of `roofline`.
pub struct RooflinePlan {
    parts: Vec<GaugeCeilings>,
    points: Vec<RooflinePoint>,
    program: Option<CommandLine>,
    budget: Budget,
    samples: Option<usize>,
    notices: Vec<Notice>,
}

impl RooflinePlan {
    /// Default time budget of the whole run.
    pub const BUDGET: Duration = Duration::from_secs(15);

    /// Plans the ceilings that `gauges` can measure, and the points on the roofline.
    ///
    /// Fails if a point is given twice or has a memory level that this node lacks, if counters are unavailable, or if a
    /// gauge refuses the options.
    pub fn new(
        gauges: &[&'static dyn Gauge],
        site: &MeasuredNode,
        options: RooflineOptions<'_>,
    ) -> Result<Self, Failure> {
        let team = options.placement.team_request(&site.topology, GAUGE)?;
        let mut points = given_points(site, options.given_points)?;
        let mut left_out = Vec::new();
        if options.program.is_some() {
            // Checks that the counters are available before the first measurement.
            RooflineCounters::start()?;
        }
        let all = nodegauge_placement::plan(&site.topology, &team.request)?;
        let one_request =
            PlacementRequest { threads: Some(1), per_cache: None, ..team.request.clone() };
        let one = if all.threads.len() > 1 {
            Some(nodegauge_placement::plan(&site.topology, &one_request)?)
        } else {
            None
        };
        let share_of_all = if one.is_some() { ALL_THREADS_SHARE } else { 1.0 };
        let mut parts_asked = vec![RooflineThreads {
            placement: &all,
            suffix: "",
            share: share_of_all,
            kernels: true,
        }];
        if let Some(placement) = &one {
            let share = 1.0 - share_of_all;
            parts_asked.push(RooflineThreads {
                placement,
                suffix: ONE_THREAD_SUFFIX,
                share,
                kernels: false,
            });
        }
        // The capacity of the caches may already have been measured, within the user's time.
        let limits = RunLimits::from_budget(options.budget, options.samples);
        let unused = limits.budget.saturating_sub(limits.elapsed());
        let ask = CeilingsRequest {
            parts: &parts_asked,
            policy: &team.policy,
            largest: options.largest,
            budget: if limits.must_be_kept() { unused } else { options.budget.time },
            whole: options.budget,
            samples: options.samples,
        };
        let parts = parts_with_equal_time(gauges, site, ask)?;
        // Saved figures were measured with the default placement. With another placement, they do not belong under this
        // roof.
        if team.request == PlacementRequest::default() {
            for point in gauges.iter().flat_map(|gauge| gauge.roofline_points(options.newest)) {
                match point {
                    Ok(point) => points.push(point),
                    Err(NoPointReason(why)) => {
                        left_out.push(Notice::new(NoticeId::LeftOut, GAUGE, why))
                    }
                }
            }
        }
        let mut notices = team.gauge_notices(figure_names::stream::GAUGE);
        notices.extend(left_out);
        let RooflineOptions { program, budget, samples, .. } = options;
        Ok(Self { parts, points, program, budget, samples, notices })
    }
}

impl PlannedRun for RooflinePlan {
    fn expected_cost(&self) -> ExpectedCost {
        ExpectedCost {
            time: self.parts.iter().map(|part| part.planned.expected_cost().time).sum(),
            memory: self.parts.iter().filter_map(|part| part.planned.expected_cost().memory).max(),
        }
    }

    fn possible_figures(&self, site: &MeasuredNode) -> Vec<PossibleFigures> {
        // With `--perf`, the name of the point is not known in advance.
        if self.program.is_some() {
            return Vec::new();
        }
        let mut all: Vec<PossibleFigures> =
            self.parts.iter().flat_map(|part| part.planned.possible_figures(site)).collect();
        all.push(possible_figures(&self.points));
        all
    }

    fn run(
        self: Box<Self>,
        site: &MeasuredNode,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Failure> {
        let mut points = self.points;
        let mut found = Outcome { notices: self.notices, ..Outcome::default() };
        let limits = RunLimits::from_budget(self.budget, self.samples);
        let mut left_out = Vec::new();
        for GaugeCeilings { gauge, planned } in self.parts {
            if found.is_interrupted() {
                break;
            }
            if limits.is_exceeded() && !found.measurements.is_empty() {
                left_out.push(gauge.name());
                continue;
            }
            match run_part(gauge, planned, site, observer) {
                // A part may refuse the budget before anything is measured.
                Err(refused)
                    if refused.kind == FailureKind::Usage && found.measurements.is_empty() =>
                {
                    return Err(refused);
                }
                ended => found.extend(with_failure_as_notice(gauge, ended)),
            }
        }
        found.set_run_time(&limits, Duration::ZERO);
        if !left_out.is_empty() {
            let what = format!("the ceilings of {}", left_out.join(", "));
            found.notices.push(Notice::no_time_left(GAUGE, &what));
        }
        if let Some(program) = self.program.filter(|_| !found.is_interrupted()) {
            observer.begin_phase(&format!("running {program}"));
            points.push(count_program(program, &|| observer.is_interrupted())?);
        }
        found.measurements = add_points(found.measurements, points);
        Ok(found)
    }
}

/// Returns the points that the user gave. Their names must be distinct, and this node must have their memory levels.
fn given_points(site: &MeasuredNode, points: &[GivenPoint]) -> Result<Vec<RooflinePoint>, Failure> {
    let mut levels: Vec<String> =
        site.topology.caches.iter().map(|cache| format!("L{}", cache.level)).collect();
    levels.dedup();
    levels.push(MEMORY_LEVEL.to_owned());
    if let Some(point) = points.iter().find(|point| !levels.contains(&point.level)) {
        return Err(Failure::usage(format!(
            "--point {}: this node has no {} cache",
            point.name, point.level
        ))
        .hint(format!("the levels of this node are {}", levels.join(", "))));
    }
    let mut names = BTreeSet::new();
    if let Some(again) = points.iter().find(|point| !names.insert(&point.name)) {
        return Err(Failure::usage(format!(
            "--point {}: a point with this name is already given",
            again.name
        ))
        .hint("give different names to the points"));
    }
    Ok(points.iter().map(|point| point.roofline_point("as given")).collect())
}

/// Plans the ceilings of all gauges that can measure ceilings. The gauges get equal shares of the time.
fn parts_with_equal_time(
    gauges: &[&'static dyn Gauge],
    site: &MeasuredNode,
    ask: CeilingsRequest<'_>,
) -> Result<Vec<GaugeCeilings>, Failure> {
    let count = planned_parts(gauges, site, ask)?.len().max(1);
    planned_parts(gauges, site, CeilingsRequest { budget: ask.budget.div_f64(count as f64), ..ask })
}

fn planned_parts(
    gauges: &[&'static dyn Gauge],
    site: &MeasuredNode,
    ask: CeilingsRequest<'_>,
) -> Result<Vec<GaugeCeilings>, Failure> {
    let mut parts = Vec::new();
    for gauge in gauges {
        if let Some(planned) = gauge.ceilings_plan(site, &ask)? {
            parts.push(GaugeCeilings { gauge: *gauge, planned });
        }
    }
    Ok(parts)
}
