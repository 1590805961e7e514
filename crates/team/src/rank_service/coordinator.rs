//! Coordinator of ranks: starts ranks or waits for ranks of a launcher, sends requests, and receives responses.

use super::protocol::{self, CoordinatorMessage, Handshake, Protocol, RankMessage};
use super::{SAME_COMMAND, cannot, join_timeout, link};
use crate::TeamError;
use crate::collect::MessageCollection;
use nodegauge_measure::progress::SilentObserver;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::{Failure, FailureKind, Observer};
use nodegauge_os::{KillOnDrop, ProcessBarrier, describe_exit_status};
use nodegauge_placement::launchers::LauncherJob;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Timeout for a response. It is long enough to touch and check the whole memory of a node.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);
/// Time after which ranks that have not ended are killed.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Interval at which the coordinator checks whether started processes have ended, while it waits for ranks to join.
const CHILD_POLL: Duration = Duration::from_millis(100);

/// Coordinator of several ranks, which handle requests.
pub struct Coordinator<P: Protocol> {
    joined: Vec<JoinedRank>,
    inbox: Receiver<(usize, Option<RankMessage<P::Response>>)>,
    barrier: ProcessBarrier,
    children: BTreeMap<u32, KillOnDrop>,
    /// Reason why no further requests are possible; `None` if they are.
    broken: Option<Failure>,
    /// Exit code with which the ranks will end.
    code: u8,
}

/// Coordinator shared by several users.
pub type SharedCoordinator<P> = Rc<RefCell<Coordinator<P>>>;

/// Response of a rank with this index, or its failure.
type RankResponse<P> = (usize, Result<RankMessage<<P as Protocol>::Response>, Failure>);

/// Rank that has joined (connected to) the coordinator.
struct JoinedRank {
    handshake: Handshake,
    stream: UnixStream,
}

impl<P: Protocol> Coordinator<P> {
    /// Starts `ranks` processes of this program.
    ///
    /// # Errors
    /// Fails if a process cannot be started, or if it has not joined before the timeout.
    pub fn start(
        ranks: usize,
        observer: &mut dyn Observer,
    ) -> Result<SharedCoordinator<P>, Failure> {
        observer.begin_phase(&format!("starting {}", count_in_words(ranks, "rank")));
        let timeout = join_timeout()?;
        let ranks = ranks as u32;
        let name = format!("nodegauge-{}-{}", std::process::id(), nodegauge_os::monotonic_nanos());
        let listener = link::listen(&name)?;
        let children = (0..ranks)
            .map(|rank| Ok((rank, spawn(P::COMMAND, &name, rank, ranks)?)))
            .collect::<Result<_, Failure>>()?;
        Self::gather(&listener, ranks, children, timeout, observer)
    }

    /// Coordinates ranks that a launcher has started. The process of rank 0 calls this function and becomes the
    /// coordinator; it starts another process that measures as rank 0.
    ///
    /// # Errors
    /// Fails if a rank has not joined before the timeout.
    pub fn join(started: &LauncherJob) -> Result<SharedCoordinator<P>, Failure> {
        let timeout = join_timeout()?;
        let name = started.socket_name();
        let listener = link::listen(&name)?;
        let children = BTreeMap::from([(0, spawn(P::COMMAND, &name, 0, started.ranks)?)]);
        Self::gather(&listener, started.ranks, children, timeout, &SilentObserver)
    }

    fn gather(
        listener: &UnixListener,
        ranks: u32,
        mut children: BTreeMap<u32, KillOnDrop>,
        timeout: Duration,
        observer: &dyn Observer,
    ) -> Result<SharedCoordinator<P>, Failure> {
        let mut collection = MessageCollection::new(0..ranks as usize, timeout);
        let interrupted = || observer.is_interrupted();
        let wait = collection.deadline_wait().every(CHILD_POLL).unless(&interrupted);
        let mut known = BTreeSet::new();
        collection.receive(&wait, |pause| {
            let stream = link::accept(listener, pause);
            let Some(member) = stream.and_then(receive_handshake::<P>) else {
                check_started::<P>(&mut children, &known)?;
                return Ok(None);
            };
            refuse_others(&member.handshake, ranks, &P::version())?;
            let rank = member.handshake.rank;
            if !known.insert(rank) {
                let text = "two processes joined as this rank, because two jobs run on this host";
                return Err(failed(rank, Failure::missing(text)));
            }
            Ok(Some((rank as usize, member)))
        })?;
        let joined = collection.all_messages().map_err(|lost| lost.hint(SAME_COMMAND))?;
        let (sender, inbox) = mpsc::channel();
        for (index, member) in joined.iter().enumerate() {
            let stream = member.stream.try_clone().map_err(cannot_communicate)?;
            forward(index, stream, sender.clone())?;
        }
        let barrier = ProcessBarrier::create(ranks.div_ceil(2) as usize)
            .map_err(|cause| cannot("create the memory shared by the ranks", cause))?;
        let mut coordinator = Self { joined, inbox, barrier, children, broken: None, code: 0 };
        let path = coordinator.barrier.path();
        let count = ranks as usize;
        let is_collective = false;
        coordinator
            .exchange(count, is_collective, |_| CoordinatorMessage::Map { path: path.clone() })?;
        Ok(Rc::new(RefCell::new(coordinator)))
    }

    /// Returns the handshakes of the ranks, in rank order.
    pub fn handshakes(&self) -> impl Iterator<Item = &Handshake> {
        self.joined.iter().map(|member| &member.handshake)
    }

    /// Returns the reason why no further requests are possible; `None` if all ranks are usable.
    pub fn failure(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    /// Sets the exit code with which the ranks will end, because some launchers check the exit codes of all ranks.
    pub fn set_exit_code(&mut self, code: u8) {
        self.code = code;
    }

    /// Sends a request to each of the first `ranks` ranks, waits for all responses and returns them in order.
    ///
    /// # Errors
    /// Fails if a rank reports a failure, is lost, or does not respond before the timeout. After the failure of a
    /// collective request, and after the loss of a rank, no more requests are possible.
    pub fn ask(
        &mut self,
        ranks: usize,
        request: impl Fn(usize) -> P::TargetRequest,
    ) -> Result<Vec<P::Response>, Failure> {
        let requests: Vec<P::TargetRequest> = (0..ranks).map(request).collect();
        let is_collective = requests.iter().any(P::is_collective);
        let mut requests = requests.into_iter();
        let responses = self.exchange(ranks, is_collective, |_| {
            requests.next().map_or(CoordinatorMessage::End { code: 0 }, CoordinatorMessage::Handle)
        })?;
        Ok(responses.into_iter().filter_map(handled_response).collect())
    }

    /// Sends a message to each of the first `ranks` ranks, and waits for all responses. `is_collective` is true if the
    /// ranks wait for each other while they handle the message.
    fn exchange(
        &mut self,
        ranks: usize,
        is_collective: bool,
        mut message: impl FnMut(usize) -> CoordinatorMessage<P::TargetRequest>,
    ) -> Result<Vec<RankMessage<P::Response>>, Failure> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        for (index, member) in self.joined.iter_mut().take(ranks).enumerate() {
            // Errors are ignored here: a lost rank is detected when its response is received.
            let _ = protocol::send(&mut member.stream, &message(index));
        }
        let mut collection = MessageCollection::new(0..ranks, RESPONSE_TIMEOUT);
        // A look at the clock would take CPU time from a rank that measures.
        let wait = collection.deadline_wait().every(RESPONSE_TIMEOUT);
        let received = collection.receive(&wait, |pause| self.response(pause, is_collective));
        let responses = received.and_then(|()| collection.all_messages());
        let responses = responses.map_err(|failure| self.break_with(failure))?;
        responses.into_iter().collect()
    }

    /// Waits for the next response of a rank: its message, or its failure.
    ///
    /// # Errors
    /// Fails if the other ranks cannot continue, because a rank is lost, or has failed while it handled a collective
    /// message.
    fn response(
        &mut self,
        pause: Duration,
        is_collective: bool,
    ) -> Result<Option<RankResponse<P>>, Failure> {
        let (index, response) = match self.inbox.recv_timeout(pause) {
            Ok(received) => received,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::missing("no rank is connected"));
            }
        };
        let rank = self.joined[index].handshake.rank;
        match response {
            None => Err(self.lost(index)),
            Some(RankMessage::Failed(failure)) if is_collective => Err(failed(rank, failure)),
            Some(RankMessage::Failed(failure)) => Ok(Some((index, Err(failed(rank, failure))))),
            Some(response) => Ok(Some((index, Ok(response)))),
        }
    }

    fn break_with(&mut self, error: Failure) -> Failure {
        self.barrier.poison();
        self.broken = Some(error.clone());
        error
    }

    /// Returns the failure for a rank whose connection has ended.
    fn lost(&mut self, index: usize) -> Failure {
        let Handshake { rank, process, .. } = self.joined[index].handshake;
        let status = self.children.get_mut(&rank).and_then(|child| child.wait_within(GRACE_PERIOD));
        lost::<P>(rank, process, status)
    }
}

impl<P: Protocol> Drop for Coordinator<P> {
    fn drop(&mut self) {
        let code = self.code;
        for member in &mut self.joined {
            let end: CoordinatorMessage<P::TargetRequest> = CoordinatorMessage::End { code };
            // An error is ignored, because it means that the rank has already ended.
            let _ = protocol::send(&mut member.stream, &end);
        }
        let deadline = Instant::now() + GRACE_PERIOD;
        for child in self.children.values_mut() {
            child.wait_within(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Starts this program in another process as a rank, even if the program's file has been replaced in the meantime.
fn spawn(command_name: &str, name: &str, rank: u32, ranks: u32) -> Result<KillOnDrop, Failure> {
    let program = nodegauge_os::own_program().map_err(|cause| cannot("start a rank", cause))?;
    let mut command = Command::new(program);
    command.args([command_name, name, &rank.to_string(), &ranks.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    KillOnDrop::spawn(command).map_err(|cause| cannot("start a rank", cause))
}

/// Fails if a started process has ended before it joined.
fn check_started<P: Protocol>(
    children: &mut BTreeMap<u32, KillOnDrop>,
    joined: &BTreeSet<u32>,
) -> Result<(), Failure> {
    for (rank, child) in children.iter_mut().filter(|(rank, _)| !joined.contains(rank)) {
        if let Some(status) = child.wait_within(Duration::ZERO) {
            return Err(lost::<P>(*rank, child.id(), Some(status)));
        }
    }
    Ok(())
}

/// Returns the response to a request of the gauge; `None` for other messages.
fn handled_response<R>(response: RankMessage<R>) -> Option<R> {
    match response {
        RankMessage::Handled(response) => Some(response),
        RankMessage::Handshake(_) | RankMessage::Mapped | RankMessage::Failed(_) => None,
    }
}

fn cannot_communicate(cause: io::Error) -> Failure {
    cannot("communicate with a rank", cause)
}

/// Returns the failure for a lost rank.
fn lost<P: Protocol>(rank: u32, process: u32, status: Option<ExitStatus>) -> Failure {
    let lost =
        TeamError::Lost { rank: rank as usize, process, how: status.map(describe_exit_status) };
    Failure::missing(lost).hint(P::LOST_HINT)
}

/// Returns the failure for an error that a rank has reported.
fn failed(rank: u32, failure: Failure) -> Failure {
    failure.with_context(format_args!("rank {rank}")).kind(FailureKind::Missing)
}

/// Reads the first message of a rank; `None` if it is invalid or does not arrive.
fn receive_handshake<P: Protocol>(stream: UnixStream) -> Option<JoinedRank> {
    // A process that connects but sends nothing must not block other processes.
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let first: RankMessage<P::Response> = protocol::receive(&mut reader)?;
    let RankMessage::Handshake(handshake) = first else { return None };
    stream.set_read_timeout(None).ok()?;
    Some(JoinedRank { handshake, stream })
}

/// Fails if the rank belongs to another run or to another build of the program.
fn refuse_others(handshake: &Handshake, ranks: u32, version: &str) -> Result<(), Failure> {
    let message = if handshake.ranks != ranks || handshake.rank >= ranks {
        format!("started as one of {} ranks, not of {ranks}", handshake.ranks)
    } else if handshake.version != version {
        "different build of nodegauge".to_owned()
    } else {
        return Ok(());
    };
    Err(failed(handshake.rank, Failure::missing(message)))
}

/// Starts a thread that forwards the responses of a rank and reports the end of its connection.
fn forward<R: DeserializeOwned + Send + 'static>(
    index: usize,
    stream: UnixStream,
    sender: Sender<(usize, Option<RankMessage<R>>)>,
) -> Result<(), Failure> {
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || {
            let mut reader = BufReader::new(stream);
            loop {
                let response: Option<RankMessage<R>> = protocol::receive(&mut reader);
                let ends = response.is_none();
                if sender.send((index, response)).is_err() || ends {
                    return;
                }
            }
        })
        .map(drop)
        .map_err(|cause| cannot("start the thread for a rank", cause))
}
