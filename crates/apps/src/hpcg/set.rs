//! One set of iterations as defined by HPCG: creation of the domains, tests, and solution.

use super::domain::{Domain, Until};
use super::exchange::{DomainExchange, DomainExchangePoint};
use super::problem::{DomainLayout, PARTS};
use crate::code::Code;
use nodegauge_measure::{Failure, Seconds};
use nodegauge_os::monotonic_nanos;
use nodegauge_team::{Laps, Member};
use serde::{Deserialize, Serialize};

/// Results of HPCG's tests; a value that is not finite is `None`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Tests {
    /// Scaled asymmetry of the product and of the multigrid cycle; HPCG allows at most 1.
    pub departures: [Option<f64>; 2],
    /// Number of iterations with a large diagonal, without and with the preconditioner.
    pub iterations: [usize; 2],
}

/// Result of a set in one domain or in all domains.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Set {
    /// Time until all domains were created, seconds.
    pub setup_s: Seconds,
    /// True if the loops prefetched coefficients.
    pub ahead: bool,
    pub tests: Option<Tests>,
    /// Number of iterations; `None` if the set was stopped early.
    pub iterations: Option<usize>,
    /// Relative residual `|r| / |r0|`.
    pub residual: Option<f64>,
    /// Largest difference between the solution and 1, the exact solution.
    pub distance: Option<f64>,
    /// Seconds per part; for all domains together, the seconds of the slowest domain.
    pub seconds: [f64; PARTS.len()],
}

/// Data from which a member creates a domain.
#[derive(Clone, Copy)]
pub struct DomainPlan<'a> {
    /// Layout of the domains.
    pub layout: &'a DomainLayout,
    /// Exchange of halos between the domains.
    pub exchange: &'a DomainExchange,
    /// Candidate loops; the first candidate is used until the fastest is chosen.
    pub codes: &'a [Code],
}

/// Request for one set.
#[derive(Clone, Copy)]
pub struct SetRequest<'a> {
    /// True if HPCG's tests have already been run.
    pub tested: bool,
    /// Criteria for the end of the iterations.
    pub until: Until<'a>,
}

impl Set {
    /// Creates the domain of a member and runs a set in it.
    pub fn of_member(
        member: &Member<'_>,
        laps: &mut Laps<'_>,
        plan: DomainPlan<'_>,
        request: SetRequest<'_>,
    ) -> Result<Self, Failure> {
        let DomainPlan { layout, exchange, codes } = plan;
        let finite = |x: f64| Some(x).filter(|x| x.is_finite());
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
            domain.choose(&place, codes);
        }
        let tests = (!request.tested).then(|| Tests {
            departures: domain.symmetry_test(&place, member.index).map(finite),
            iterations: domain.spectral_test(&place, layout, member.index, request.until.stop),
        });
        let solved = laps.time(|| domain.solve(&place, request.until));
        Ok(Self {
            setup_s: Seconds(setup_s),
            ahead: domain.asks_ahead(),
            tests,
            iterations: solved.map(|solved| solved.iterations),
            residual: solved.and_then(|solved| finite(solved.residual)),
            distance: finite(domain.distance()),
            seconds: solved.unwrap_or_default().seconds,
        })
    }

    /// Combines the results of all domains to the result of a set.
    pub fn together(all: Vec<Self>) -> Option<Self> {
        all.into_iter().reduce(|mut of_all, next| {
            of_all.setup_s = of_all.setup_s.max(next.setup_s);
            of_all.iterations = of_all.iterations.and(next.iterations);
            of_all.distance = of_all.distance.zip(next.distance).map(|(x, y)| x.max(y));
            for (most, seconds) in of_all.seconds.iter_mut().zip(next.seconds) {
                *most = most.max(seconds);
            }
            of_all
        })
    }
}
