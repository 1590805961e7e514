//! The life of a rank: join the coordinator, carry out its orders, answer, leave.

use super::wire::{self, Order, Passed, Reply};
use super::{Hello, RankError, link};
use crate::point::{Point, PointError};
use crate::target::Target;
use nodegauge_os::ProcessBarrier;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// The exit code of a rank whose coordinator has gone.
const ABANDONED: i32 = 3;
/// How long the main thread may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves the coordinator that listens under `name` as this rank, and returns the exit code that it
/// gives.
///
/// # Errors
/// When there is no coordinator within the patience, or it goes away.
pub fn serve(name: &str, hello: Hello, patience: Duration) -> Result<u8, RankError> {
    // The coordinator decides what becomes of the run, and ranks end when it does.
    nodegauge_os::ignore_interrupts();
    let number = hello.rank;
    let alone =
        RankError::Alone { rank: hello.rank, ranks: hello.ranks, seconds: patience.as_secs() };
    let stream = link::join(name, Instant::now() + patience).ok_or(alone)?;
    let talk = |cause| RankError::system("talk to rank 0", cause);
    let mut answers = stream.try_clone().map_err(talk)?;
    wire::send(&mut answers, &Reply::Hello(hello)).map_err(talk)?;
    let orders = listen(stream);
    let mut rank = Rank { number: number as usize, points: BTreeMap::new(), barrier: None };
    // The channel ends only with the process, see `listen`.
    for order in orders {
        let reply = match order {
            Order::End { code } => return Ok(code),
            order => rank.carry_out(order).unwrap_or_else(Reply::Failed),
        };
        wire::send(&mut answers, &reply).map_err(talk)?;
    }
    Ok(ABANDONED as u8)
}

/// Reads orders on a thread of its own, so that a coordinator that goes away ends this process even
/// while its team waits at the barrier.
fn listen(stream: UnixStream) -> Receiver<Order> {
    let (sender, orders) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut code = ABANDONED;
        while let Some(order) = wire::receive(&mut reader) {
            let end = if let Order::End { code } = &order { Some(*code) } else { None };
            let sent = sender.send(order).is_ok();
            if let (Some(given), true) = (end, sent) {
                // The main thread leaves, unless its team waits for a rank that has gone.
                std::thread::sleep(FAREWELL);
                code = given.into();
            }
        }
        std::process::exit(code);
    });
    orders
}

/// What a rank holds.
struct Rank {
    number: usize,
    points: BTreeMap<u32, Point>,
    barrier: Option<ProcessBarrier>,
}

impl Rank {
    /// Carries one order out; the error is what the coordinator is told.
    fn carry_out(&mut self, order: Order) -> Result<Reply, String> {
        let in_words = |error: PointError| error.to_string();
        match order {
            Order::Meet { path } => {
                let barrier = ProcessBarrier::open(&path).map_err(|cause| {
                    RankError::system("open the memory that ranks share", cause).to_string()
                })?;
                self.barrier = Some(barrier);
            }
            Order::Prepare { point, config } => {
                self.points.insert(point, Point::prepare(*config).map_err(in_words)?);
            }
            Order::Reshape { point, kernels } => {
                self.point(point)?.reshape(kernels).map_err(in_words)?;
            }
            Order::Pass { point, ranks, courts } => return self.pass(point, ranks, courts),
            Order::Check { point } => self.point(point)?.check().map_err(in_words)?,
            Order::See { point } => {
                return Ok(Reply::Seen(Box::new(self.point(point)?.seen().map_err(in_words)?)));
            }
            Order::Forget { point } => {
                self.points.remove(&point);
            }
            Order::End { .. } => {}
        }
        Ok(Reply::Done)
    }

    fn point(&mut self, number: u32) -> Result<&mut Point, String> {
        self.points.get_mut(&number).ok_or_else(|| format!("there is no point {number}"))
    }

    fn pass(&mut self, number: u32, ranks: usize, courts: bool) -> Result<Reply, String> {
        let point = self.points.get_mut(&number);
        let point = point.ok_or_else(|| format!("there is no point {number}"))?;
        let barrier = self.barrier.as_ref().ok_or("there is no barrier")?;
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
        let in_words = |error: PointError| error.to_string();
        // The last of an odd number has no partner.
        let paired = self.number / 2 * 2 + 1 < ranks;
        let ball = barrier.line(self.number / 2).filter(|_| paired);
        let court = ball.map(|ball| (ball, self.number.is_multiple_of(2)));
        let rally = |point: &mut Point| match courts {
            true => point.ping_pong(court, &gate, &idle),
            false => Ok(None),
        };
        let before = rally(point).map_err(in_words)?;
        let (sample, spans) = point.pass_with(Some(&gate)).map_err(in_words)?;
        let after = rally(point).map_err(in_words)?;
        let known = |trip: f64| Some(trip).filter(|trip| trip.is_finite());
        let own = (known(sample.round_trips.0), known(sample.round_trips.1));
        Ok(Reply::Passed(Passed {
            spans,
            round_trips: (before.or(own.0), after.or(own.1)),
            causes: sample.causes,
        }))
    }
}
