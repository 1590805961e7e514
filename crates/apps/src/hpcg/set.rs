//! A set of iterations as HPCG counts them: domains that are made for it, their tests, and what they came to.

use super::domain::{Domain, Until};
use super::exchange::{DomainExchange, DomainExchangePoint};
use super::problem::{DomainLayout, PARTS};
use crate::code::Code;
use nodegauge_measure::{Failure, Seconds};
use nodegauge_os::monotonic_nanos;
use nodegauge_team::{Laps, Member};
use serde::{Deserialize, Serialize};

/// Results of HPCG's tests; a number that is not finite is `None`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Tests {
    /// Departure from symmetry of the product and of the multigrid cycle, scaled.
    pub departures: [Option<f64>; 2],
    /// Iterations with a great diagonal, alone and preconditioned.
    pub iterations: [usize; 2],
}

/// A set as a domain has seen it, or all of them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Set {
    /// Time to make the domain, until all others were made as well, seconds.
    pub setup_s: Seconds,
    /// True if the loops asked for coefficients before they needed them.
    pub ahead: bool,
    pub tests: Option<Tests>,
    /// Iterations; `None` of a set that was ended.
    pub iterations: Option<usize>,
    /// `|r| / |r0|`.
    pub residual: Option<f64>,
    /// The greatest distance of the solution from 1.
    pub distance: Option<f64>,
    /// In each part; of all domains those of the slowest.
    pub seconds: [f64; PARTS.len()],
}

/// Parts that a member builds its domain from.
#[derive(Clone, Copy)]
pub struct DomainPlan<'a> {
    /// Partition of the mesh.
    pub layout: &'a DomainLayout,
    /// Exchange of halos between the members.
    pub exchange: &'a DomainExchange,
    /// Candidate loops; the first is used until one is chosen.
    pub codes: &'a [Code],
}

/// Request for one set.
#[derive(Clone, Copy)]
pub struct SetRequest<'a> {
    /// True if HPCG's tests have passed already.
    pub tested: bool,
    /// End of the iterations.
    pub until: Until<'a>,
}

impl Set {
    /// Runs the set of a member's domain, which it makes.
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
        // A domain that is not there must not leave the others waiting.
        let (_, ended) = place.sum(0.0, domain.is_err());
        let setup_s = (monotonic_nanos() - begun) as f64 * 1e-9;
        let mut domain = domain?;
        if ended {
            return Err(Failure::missing("another domain has no memory"));
        }
        if codes.len() > 1 {
            domain.choose(&place, codes);
        }
        let tests = (!request.tested).then(|| Tests {
            departures: domain.symmetry_test(&place, member.index).map(finite),
            iterations: domain.spectral_test(&place, layout, member.index),
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

    /// Combines the sets of all domains.
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
