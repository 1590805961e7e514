//! Process of a rank: it owns points, and handles the requests of the coordinator.

use super::protocol::{MeasuringRanks, PassExtent, PassResult, Request, Response};
use crate::point::StreamTarget;
use nodegauge_arena::ArrayShare;
use nodegauge_measure::Failure;
use nodegauge_team::rank_service::{self, RankBarrier, Service};
use std::collections::BTreeMap;

/// Runs as rank `rank` of the coordinator that listens on the socket `name`. Returns the exit code that the coordinator
/// requests.
///
/// # Errors
/// Fails if no coordinator answers before the timeout, or if the coordinator ends.
pub fn serve(name: &str, rank: u32, ranks: u32) -> Result<u8, Failure> {
    rank_service::serve(name, rank, ranks, Rank { number: rank as usize, points: BTreeMap::new() })
}

fn no_point(number: u32) -> Failure {
    Failure::missing(format!("point {number} does not exist"))
}

/// State of a rank.
struct Rank {
    number: usize,
    points: BTreeMap<u32, StreamTarget>,
}

impl Service for Rank {
    type Protocol = MeasuringRanks;

    fn handle(&mut self, request: Request, barrier: &RankBarrier) -> Result<Response, Failure> {
        match request {
            Request::Prepare { point, config } => {
                self.points.insert(point, StreamTarget::prepare(*config)?);
            }
            Request::Reshape { point, kernels } => {
                self.point(point)?.set_kernels(kernels)?;
            }
            Request::Pass { point, ranks, ping_pong, over } => {
                return self.pass(&JointPass { point, over, ranks, ping_pong, barrier });
            }
            Request::Check { point } => self.point(point)?.check()?,
            Request::Inspect { point } => {
                return Ok(Response::Seen(Box::new(self.point(point)?.observations())));
            }
            Request::Release { point } => {
                self.points.remove(&point);
            }
        }
        Ok(Response::Done)
    }
}

/// Pass that several ranks run simultaneously.
struct JointPass<'a> {
    /// Number of the point.
    point: u32,
    over: PassExtent,
    /// Number of ranks that run the pass.
    ranks: usize,
    /// True if core-to-core latencies between ranks are measured.
    ping_pong: bool,
    barrier: &'a RankBarrier,
}

impl Rank {
    fn point(&mut self, number: u32) -> Result<&mut StreamTarget, Failure> {
        self.points.get_mut(&number).ok_or_else(|| no_point(number))
    }

    fn pass(&mut self, pass: &JointPass<'_>) -> Result<Response, Failure> {
        let JointPass { point: number, over, ranks, ping_pong, barrier } = *pass;
        let point = self.points.get_mut(&number).ok_or_else(|| no_point(number))?;
        let member = barrier.member(ranks);
        let gate = || member.barrier();
        // If the number of ranks is odd, the last rank has no partner.
        let paired = self.number / 2 * 2 + 1 < ranks;
        let line = barrier.pair_cache_line().filter(|_| paired);
        let line = line.map(|line| (line, self.number.is_multiple_of(2)));
        let latency = |own: &mut StreamTarget| {
            if ping_pong { own.ping_pong(line, &gate, &|| barrier.idle()) } else { Ok(None) }
        };
        let before = latency(point)?;
        let passed = match over {
            PassExtent::Whole => point.run_pass_with_barrier(Some(&gate)),
            PassExtent::Part { index, count } => {
                point.run_part_with_barrier(Some(&gate), ArrayShare { index, count })
            }
        };
        let (sample, spans) = passed?;
        let after = latency(point)?;
        let own = (finite(sample.round_trips.0), finite(sample.round_trips.1));
        Ok(Response::PassResult(PassResult {
            spans,
            round_trips: (before.or(own.0), after.or(own.1)),
            causes: sample.causes,
            part_causes: sample.part_causes,
        }))
    }
}

/// Returns a round trip if it was measured.
fn finite(trip: f64) -> Option<f64> {
    Some(trip).filter(|trip| trip.is_finite())
}
