//! A rank: joins the coordinator, handles its requests, responds, ends.

use super::wire::{self, Handshake, Over, Passed, Request, Response};
use super::{cannot, join_timeout, link};
use crate::point::Point;
use crate::target::Target;
use nodegauge_measure::Failure;
use nodegauge_os::ProcessBarrier;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// The exit code of a rank whose coordinator has gone.
const ABANDONED: i32 = 3;
/// How long the main thread may take to end.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Measures as a rank for the coordinator that listens under `name`, and returns the exit code that it
/// gives.
///
/// # Errors
/// When there is no coordinator in time, or it ends.
pub fn serve(name: &str, rank: u32, ranks: u32) -> Result<u8, Failure> {
    let timeout = join_timeout()?;
    let handshake = Handshake::own(rank, ranks);
    // The coordinator decides what becomes of the run, and ranks end when it does.
    nodegauge_os::ignore_interrupts();
    let alone = || {
        Failure::missing(format!(
            "rank {rank} of {ranks}: rank 0 has not joined within {} s",
            timeout.as_secs(),
        ))
        .hint("start all ranks with the same command on one host")
    };
    let stream = link::join(name, Instant::now() + timeout).ok_or_else(alone)?;
    let talk = |cause| cannot("talk to rank 0", cause);
    let mut responses = stream.try_clone().map_err(talk)?;
    wire::send(&mut responses, &Response::Handshake(handshake)).map_err(talk)?;
    let requests = listen(stream);
    let mut state = Rank { number: rank as usize, points: BTreeMap::new(), barrier: None };
    // The channel ends only with the process, see `listen`.
    for request in requests {
        let response = match request {
            Request::End { code } => return Ok(code),
            request => state.handle(request).unwrap_or_else(Response::Failed),
        };
        wire::send(&mut responses, &response).map_err(talk)?;
    }
    Ok(ABANDONED as u8)
}

/// Reads requests on a thread of its own, so that a coordinator that goes away ends this process even
/// while its team waits at the barrier.
fn listen(stream: UnixStream) -> Receiver<Request> {
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut code = ABANDONED;
        while let Some(request) = wire::receive(&mut reader) {
            let end = if let Request::End { code } = &request { Some(*code) } else { None };
            let sent = sender.send(request).is_ok();
            if let (Some(given), true) = (end, sent) {
                // The main thread leaves, unless its team waits for a rank that has gone.
                std::thread::sleep(GRACE_PERIOD);
                code = given.into();
            }
        }
        std::process::exit(code);
    });
    requests
}

fn no_point(number: u32) -> Failure {
    Failure::missing(format!("there is no point {number}"))
}

/// What a rank holds.
struct Rank {
    number: usize,
    points: BTreeMap<u32, Point>,
    barrier: Option<ProcessBarrier>,
}

impl Rank {
    /// Handles one request; the error becomes [`Response::Failed`].
    fn handle(&mut self, request: Request) -> Result<Response, Failure> {
        match request {
            Request::Map { path } => {
                let barrier = ProcessBarrier::open(&path)
                    .map_err(|cause| cannot("open the memory that ranks share", cause))?;
                self.barrier = Some(barrier);
            }
            Request::Prepare { point, config } => {
                self.points.insert(point, Point::prepare(*config)?);
            }
            Request::Reshape { point, kernels } => {
                self.point(point)?.reshape(kernels)?;
            }
            Request::Pass { point, ranks, ping_pong, over } => {
                return self.pass((point, over), ranks, ping_pong);
            }
            Request::Check { point } => self.point(point)?.check()?,
            Request::Inspect { point } => {
                return Ok(Response::Seen(Box::new(self.point(point)?.seen()?)));
            }
            Request::Release { point } => {
                self.points.remove(&point);
            }
            Request::End { .. } => {}
        }
        Ok(Response::Done)
    }

    fn point(&mut self, number: u32) -> Result<&mut Point, Failure> {
        self.points.get_mut(&number).ok_or_else(|| no_point(number))
    }

    fn pass(
        &mut self,
        (number, over): (u32, Over),
        ranks: usize,
        ping_pong: bool,
    ) -> Result<Response, Failure> {
        let point = self.points.get_mut(&number).ok_or_else(|| no_point(number))?;
        let no_barrier = || Failure::missing("there is no barrier");
        let barrier = self.barrier.as_ref().ok_or_else(no_barrier)?;
        let gate = || {
            if barrier.wait(ranks).is_err() {
                // Another rank has gone, so there is nothing left to do.
                std::process::exit(ABANDONED);
            }
        };
        let idle = || match barrier.is_poisoned() {
            true => std::process::exit(ABANDONED),
            false => std::thread::yield_now(),
        };
        // The last of an odd number has no partner.
        let paired = self.number / 2 * 2 + 1 < ranks;
        let line = barrier.line(self.number / 2).filter(|_| paired);
        let line = line.map(|line| (line, self.number.is_multiple_of(2)));
        let latency = |point: &mut Point| match ping_pong {
            true => point.ping_pong(line, &gate, &idle),
            false => Ok(None),
        };
        let before = latency(point)?;
        let passed = match over {
            Over::Whole => point.pass_with(Some(&gate)),
            Over::Trial => point.trial_with(Some(&gate)),
            Over::Part(number, of) => point.over_part(Some(&gate), (number, of)),
        };
        let (sample, spans) = passed?;
        let after = latency(point)?;
        let known = |trip: f64| Some(trip).filter(|trip| trip.is_finite());
        let own = (known(sample.round_trips.0), known(sample.round_trips.1));
        Ok(Response::Passed(Passed {
            spans,
            round_trips: (before.or(own.0), after.or(own.1)),
            causes: sample.causes,
            part_causes: sample.part_causes,
        }))
    }
}
