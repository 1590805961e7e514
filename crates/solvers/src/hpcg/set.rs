//! One set of iterations as HPCG defines it: creation of the domains, tests, and solve.

use super::domain::{Domain, StopCriteria};
use super::exchange::{DomainExchange, DomainExchangePoint};
use super::problem::{DomainLayout, ITERATIONS, PARTS};
use crate::array::finite_or_none;
use crate::code::LoopCode;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::{Failure, Seconds};
use nodegauge_os::monotonic_nanos;
use nodegauge_team::{InterruptCheck, Laps, Member, TeamError, WorkerPool, stopping_check};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Interval between two checks whether the user has interrupted a set.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Results of HPCG's tests; a value that is not finite is `None`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TestResults {
    /// Scaled asymmetry of the matrix product and of the multigrid cycle; HPCG allows at most 1.
    pub departures: [Option<f64>; 2],
    /// Number of iterations for a matrix with a large diagonal, without and with the preconditioner.
    pub iterations: [usize; 2],
}

/// Result of a set, in one domain or in all domains together.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SetResult {
    /// Time until all domains were created, seconds.
    pub setup_s: Seconds,
    /// True if the loops prefetched coefficients.
    pub prefetches: bool,
    /// Results of HPCG's tests, if they were run.
    pub tests: Option<TestResults>,
    /// Number of iterations; `None` if the set was stopped early.
    pub iterations: Option<usize>,
    /// Relative residual `|r| / |r0|`; `None` if the set was stopped early.
    pub residual: Option<f64>,
    /// Largest difference between the solution and 1, the exact solution.
    pub max_error: Option<f64>,
    /// Seconds per part; for all domains together, the seconds of the slowest domain.
    pub seconds: [f64; PARTS.len()],
}

/// Data for creating the domain of a member.
#[derive(Clone, Copy)]
pub struct DomainSetup<'a> {
    /// Layout of the domains.
    pub layout: &'a DomainLayout,
    /// Exchange of halos between the domains.
    pub exchange: &'a DomainExchange,
    /// Candidate loops; the first is used until the fastest has been chosen.
    pub codes: &'a [LoopCode],
}

/// Request for one set.
#[derive(Clone, Copy)]
struct SetRequest<'a> {
    /// True if HPCG's tests have already been run; they are not run again.
    pub tested: bool,
    /// Criteria for the end of the iterations.
    pub stop_criteria: StopCriteria<'a>,
}

impl DomainSetup<'_> {
    /// Runs one set on newly created domains. `at` is the index of the workers in the pool. HPCG's tests are also run,
    /// unless `is_tested` is true. Returns `None` if the user interrupts the run.
    ///
    /// # Errors
    /// Fails if memory cannot be mapped or a worker fails.
    pub fn run_set(
        self,
        pool: &mut WorkerPool<'_>,
        at: usize,
        is_tested: bool,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<(Sample, SetResult)>, Failure> {
        let stop = AtomicBool::new(false);
        let stop_criteria = StopCriteria {
            iterations: ITERATIONS,
            tolerance: 0.0,
            preconditioned: true,
            stop: &stop,
        };
        let request = SetRequest { tested: is_tested, stop_criteria };
        let mut ask = stopping_check(interrupted, &stop);
        // SAFETY: the job computes, maps memory and synchronises only at the barrier of the team.
        let made = unsafe {
            pool.sample(at, InterruptCheck::when(&mut ask).every(CHECK_INTERVAL), |member, laps| {
                SetResult::run_member(member, laps, self, request)
            })
        };
        let (sample, timed) = match made {
            Err(TeamError::Interrupted) => return Ok(None),
            made => made?,
        };
        let sets = timed.results.into_iter().collect::<Result<Vec<SetResult>, Failure>>();
        let set = SetResult::combine(sets?).filter(|set| set.iterations.is_some());
        Ok(set.map(|set| (sample, set)))
    }
}

impl SetResult {
    /// Creates the domain of a member and runs a set in it.
    fn run_member(
        member: &Member<'_>,
        laps: &mut Laps<'_>,
        plan: DomainSetup<'_>,
        request: SetRequest<'_>,
    ) -> Result<Self, Failure> {
        let DomainSetup { layout, exchange, codes } = plan;
        let place = DomainExchangePoint::new(exchange, member);
        let begun = monotonic_nanos();
        let domain = Domain::new(layout, member.index, codes[0]);
        // A domain that cannot be created must not leave the other domains waiting.
        let (_, ended) = place.sum(0.0, domain.is_err());
        let setup_s = (monotonic_nanos() - begun) as f64 * 1e-9;
        let mut domain = domain?;
        if ended {
            return Err(Failure::missing("another domain could not map memory"));
        }
        if codes.len() > 1 {
            domain.choose_loops(&place, codes);
        }
        let tests = (!request.tested).then(|| TestResults {
            departures: domain.run_symmetry_test(&place, member.index).map(finite_or_none),
            iterations: domain.run_spectral_test(
                &place,
                layout,
                member.index,
                request.stop_criteria.stop,
            ),
        });
        let solved = laps.time(|| domain.solve(&place, request.stop_criteria));
        Ok(Self {
            setup_s: Seconds(setup_s),
            prefetches: domain.prefetches_coefficients(),
            tests,
            iterations: solved.map(|solved| solved.iterations),
            residual: solved.and_then(|solved| finite_or_none(solved.residual)),
            max_error: finite_or_none(domain.max_error()),
            seconds: solved.unwrap_or_default().seconds,
        })
    }

    /// Combines the results of all domains into the result of a set.
    fn combine(all: Vec<Self>) -> Option<Self> {
        all.into_iter().reduce(|mut of_all, next| {
            of_all.setup_s = of_all.setup_s.max(next.setup_s);
            of_all.iterations = of_all.iterations.and(next.iterations);
            of_all.max_error = of_all.max_error.zip(next.max_error).map(|(x, y)| x.max(y));
            for (max, seconds) in of_all.seconds.iter_mut().zip(next.seconds) {
                *max = max.max(seconds);
            }
            of_all
        })
    }
}
