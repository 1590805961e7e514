//! Main function of a rank: connects to the coordinator, handles requests, responds, and ends.

use super::protocol::{self, CoordinatorMessage, Handshake, Protocol, RankMessage};
use super::{ABANDONED_EXIT_CODE, SAME_COMMAND, cannot, join_timeout, link};
use crate::{Member, MemberBarrier};
use nodegauge_measure::Failure;
use nodegauge_os::{ProcessBarrier, Wait, wait_whole_time};
use serde::de::DeserializeOwned;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Time after which the process ends if the main thread does not end it before.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Service of a rank: handles requests and stores the state of the rank.
pub trait Service {
    /// Types of the requests and responses.
    type Protocol: Protocol;

    /// Handles one request.
    ///
    /// # Errors
    /// Fails if the request fails; the failure is reported to the coordinator.
    fn handle(
        &mut self,
        request: <Self::Protocol as Protocol>::TargetRequest,
        barrier: &RankBarrier,
    ) -> Result<<Self::Protocol as Protocol>::Response, Failure>;
}

/// Barrier of all ranks and cache lines for pairs of ranks, from the view of one rank.
#[derive(Debug)]
pub struct RankBarrier {
    rank: usize,
    shared: ProcessBarrier,
}

impl RankBarrier {
    /// Returns this rank as a member of the first `count` ranks. If another rank is lost, waiting at the barrier
    /// ends this process.
    pub fn member(&self, count: usize) -> Member<'_> {
        Member { index: self.rank, count, barrier: MemberBarrier::Processes(&self.shared) }
    }

    /// Returns the cache line that this rank shares with the partner in its pair of ranks.
    pub fn pair_cache_line(&self) -> Option<&AtomicU64> {
        self.shared.cache_line(self.rank / 2)
    }

    /// Yields the CPU while this rank waits for its partner; ends this process if another rank is lost.
    pub fn idle(&self) {
        if self.shared.is_poisoned() {
            std::process::exit(ABANDONED_EXIT_CODE.into());
        }
        std::thread::yield_now();
    }
}

/// Runs `service` as a rank of the coordinator that listens on the socket `name`; returns the exit code that the
/// coordinator requests.
///
/// # Errors
/// Fails if no coordinator answers before the timeout, or if the coordinator ends.
pub fn serve<S: Service>(name: &str, rank: u32, ranks: u32, mut service: S) -> Result<u8, Failure> {
    let timeout = join_timeout()?;
    let handshake = Handshake::new(rank, ranks, S::Protocol::version());
    // The coordinator handles interrupts; the ranks end when the coordinator ends.
    nodegauge_os::ignore_interrupts();
    let stream = link::join(name, Instant::now() + timeout).ok_or_else(|| {
        let seconds = timeout.as_secs_f64();
        Failure::missing(format!(
            "rank {rank} of {ranks}: no response from rank 0 within {seconds} s"
        ))
        .hint(SAME_COMMAND)
    })?;
    let mut responses = stream.try_clone().map_err(cannot_communicate)?;
    let first: RankMessage<<S::Protocol as Protocol>::Response> = RankMessage::Handshake(handshake);
    protocol::send(&mut responses, &first).map_err(cannot_communicate)?;
    let requests = listen(stream)?;
    let mut barrier = None;
    // The channel is closed only when the process ends; see `listen`.
    for request in requests {
        let response = match request {
            CoordinatorMessage::End { code } => return Ok(code),
            CoordinatorMessage::Map { path } => ProcessBarrier::open(&path)
                .map(|shared| barrier = Some(RankBarrier { rank: rank as usize, shared }))
                .map(|()| RankMessage::Mapped)
                .map_err(|cause| cannot("open the memory shared by the ranks", cause)),
            CoordinatorMessage::Handle(request) => match &barrier {
                Some(barrier) => service.handle(request, barrier).map(RankMessage::Handled),
                None => Err(Failure::missing("the shared memory is not mapped")),
            },
        };
        let response = response.unwrap_or_else(RankMessage::Failed);
        protocol::send(&mut responses, &response).map_err(cannot_communicate)?;
    }
    Ok(ABANDONED_EXIT_CODE)
}

fn cannot_communicate(cause: io::Error) -> Failure {
    cannot("communicate with rank 0", cause)
}

/// Reads requests in a separate thread, so that this process ends with the coordinator even while its team waits at
/// the barrier.
fn listen<Q: DeserializeOwned + Send + 'static>(
    stream: UnixStream,
) -> Result<Receiver<CoordinatorMessage<Q>>, Failure> {
    let (sender, requests) = mpsc::channel();
    std::thread::Builder::new()
        .spawn(move || std::process::exit(pass_on(stream, &sender).into()))
        .map(|_| requests)
        .map_err(|cause| cannot("start the thread for requests", cause))
}

/// Forwards requests until the connection ends; returns the exit code of this process.
fn pass_on<Q: DeserializeOwned>(
    stream: UnixStream,
    requests: &Sender<CoordinatorMessage<Q>>,
) -> u8 {
    let mut reader = BufReader::new(stream);
    let mut exit_code = ABANDONED_EXIT_CODE;
    while let Some(request) = protocol::receive(&mut reader) {
        let end = match &request {
            CoordinatorMessage::End { code: given } => Some(*given),
            CoordinatorMessage::Map { .. } | CoordinatorMessage::Handle(_) => None,
        };
        let is_sent = requests.send(request).is_ok();
        if let (Some(given), true) = (end, is_sent) {
            // The main thread ends the process, unless the team waits for a lost rank.
            wait_whole_time(&Wait::within(GRACE_PERIOD));
            exit_code = given;
        }
    }
    exit_code
}
