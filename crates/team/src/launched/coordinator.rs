//! Coordinator of ranks: starts ranks or waits for ranks of a launcher, sends requests, and receives responses.

use super::protocol::{self, FromRank, Handshake, Protocol, ToRank};
use super::{cannot, join_timeout, link};
use crate::TeamError;
use nodegauge_measure::progress::Silent;
use nodegauge_measure::{Failure, FailureKind, Observer};
use nodegauge_os::{KillOnDrop, ProcessBarrier, describe};
use nodegauge_placement::cpus::number_ranges;
use nodegauge_placement::launchers::Started;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Timeout for a response. It is sufficient to touch and check the whole memory of a node.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);
/// Time after which ranks that have not ended are killed.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Interval at which the coordinator checks if started processes have ended, while it waits for ranks to join.
const CHILD_POLL: Duration = Duration::from_millis(100);

/// Coordinator of several ranks, which handle requests.
pub struct Coordinator<P: Protocol> {
    joined: Vec<JoinedRank>,
    inbox: Receiver<(usize, Option<FromRank<P::Response>>)>,
    barrier: ProcessBarrier,
    children: BTreeMap<u32, KillOnDrop>,
    /// Reason why no more requests are possible.
    broken: Option<Failure>,
    /// Exit code with which the ranks will end.
    code: u8,
}

/// Coordinator shared by several users.
pub type SharedCoordinator<P> = Rc<RefCell<Coordinator<P>>>;

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
        observer.phase(&format!("starting {ranks} ranks"));
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
    pub fn join(started: &Started) -> Result<SharedCoordinator<P>, Failure> {
        let timeout = join_timeout()?;
        let name = started.socket_name();
        let listener = link::listen(&name)?;
        let children = BTreeMap::from([(0, spawn(P::COMMAND, &name, 0, started.ranks)?)]);
        Self::gather(&listener, started.ranks, children, timeout, &Silent)
    }

    fn gather(
        listener: &UnixListener,
        ranks: u32,
        mut children: BTreeMap<u32, KillOnDrop>,
        timeout: Duration,
        observer: &dyn Observer,
    ) -> Result<SharedCoordinator<P>, Failure> {
        let deadline = Instant::now() + timeout;
        let mut joined: BTreeMap<u32, JoinedRank> = BTreeMap::new();
        while joined.len() < ranks as usize {
            let stream = link::accept(listener, deadline.min(Instant::now() + CHILD_POLL));
            if let Some(member) = stream.and_then(receive_handshake::<P>) {
                refuse_others(&member.handshake, ranks, &P::version())?;
                let rank = member.handshake.rank;
                if joined.insert(rank, member).is_some() {
                    return Err(failed(
                        rank,
                        Failure::missing(
                            "two processes joined as this rank, because two jobs run on this host",
                        ),
                    ));
                }
            }
            for (rank, child) in &mut children {
                if !joined.contains_key(rank)
                    && let Some(status) = child.wait_within(Duration::ZERO)
                {
                    return Err(lost::<P>(*rank, child.id(), Some(status)));
                }
            }
            let late = Instant::now() >= deadline && joined.len() < ranks as usize;
            if observer.interrupted() || late {
                let missing = (0..ranks).filter(|rank| !joined.contains_key(rank));
                let missing = number_ranges(missing);
                return Err(Failure::missing(format!(
                    "only {} of {ranks} ranks joined within {} s; missing: {missing}",
                    joined.len(),
                    timeout.as_secs()
                ))
                .hint("start all ranks with the same command on one host"));
            }
        }
        let joined: Vec<JoinedRank> = joined.into_values().collect();
        let (sender, inbox) = mpsc::channel();
        for (index, member) in joined.iter().enumerate() {
            let talk = |cause| cannot("communicate with a rank", cause);
            forward(index, member.stream.try_clone().map_err(talk)?, sender.clone())?;
        }
        let barrier = ProcessBarrier::create(ranks.div_ceil(2) as usize)
            .map_err(|cause| cannot("create the memory shared by the ranks", cause))?;
        let mut coordinator = Self { joined, inbox, barrier, children, broken: None, code: 0 };
        let path = coordinator.barrier.path();
        let together = false;
        coordinator.exchange(ranks as usize, together, |_| ToRank::Map { path: path.clone() })?;
        Ok(Rc::new(RefCell::new(coordinator)))
    }

    /// Returns the handshakes of the ranks, in rank order.
    pub fn handshakes(&self) -> impl Iterator<Item = &Handshake> {
        self.joined.iter().map(|member| &member.handshake)
    }

    /// Returns the reason why no more requests are possible; `None` if all ranks are usable.
    pub fn broken(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    /// Sets the exit code with which the ranks will end, because some launchers check the exit codes of all ranks.
    pub fn leave_with(&mut self, code: u8) {
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
        let together = requests.iter().any(P::is_collective);
        let mut requests = requests.into_iter();
        let mut next = |_: usize| requests.next().map_or(ToRank::End { code: 0 }, ToRank::Handle);
        let responses = self.exchange(ranks, together, &mut next)?;
        let handled = |response| match response {
            FromRank::Handled(response) => Some(response),
            FromRank::Handshake(_) | FromRank::Mapped | FromRank::Failed(_) => None,
        };
        Ok(responses.into_iter().filter_map(handled).collect())
    }

    /// Sends a message to each of the first `ranks` ranks, and waits for all responses. If `together` is true, the
    /// ranks wait for each other while they handle the message.
    fn exchange(
        &mut self,
        ranks: usize,
        together: bool,
        mut message: impl FnMut(usize) -> ToRank<P::TargetRequest>,
    ) -> Result<Vec<FromRank<P::Response>>, Failure> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        for (index, member) in self.joined.iter_mut().take(ranks).enumerate() {
            // Errors are ignored here: a lost rank is detected when its response is received.
            let _ = protocol::send(&mut member.stream, &message(index));
        }
        let mut responses: Vec<Option<FromRank<P::Response>>> = (0..ranks).map(|_| None).collect();
        let mut first = None;
        while responses.iter().any(Option::is_none) {
            match self.inbox.recv_timeout(RESPONSE_TIMEOUT) {
                Ok((index, Some(FromRank::Failed(failure)))) => {
                    let rank = self.joined[index].handshake.rank;
                    let error = failed(rank, failure);
                    if together {
                        return Err(self.break_with(error));
                    }
                    first.get_or_insert(error);
                    responses[index] = Some(FromRank::Mapped);
                }
                Ok((index, Some(response))) if index < ranks => responses[index] = Some(response),
                Ok((_, Some(_))) => {}
                Ok((index, None)) => {
                    let error = self.lost(index);
                    return Err(self.break_with(error));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let open = (0..).zip(&responses).filter(|(_, response)| response.is_none());
                    let missing = number_ranges(open.map(|(rank, _)| rank));
                    return Err(self.break_with(Failure::missing(format!(
                        "no response from ranks {missing} within {} s",
                        RESPONSE_TIMEOUT.as_secs()
                    ))));
                }
            }
        }
        match first {
            Some(error) => Err(error),
            None => Ok(responses.into_iter().flatten().collect()),
        }
    }

    fn break_with(&mut self, error: Failure) -> Failure {
        self.barrier.poison();
        self.broken = Some(error.clone());
        error
    }

    /// Creates the failure for a rank whose connection has ended.
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
            let end: ToRank<P::TargetRequest> = ToRank::End { code };
            // An error is ignored, because it means that the rank has already ended.
            let _ = protocol::send(&mut member.stream, &end);
        }
        let deadline = Instant::now() + GRACE_PERIOD;
        for child in self.children.values_mut() {
            child.wait_within(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Starts the running program as a rank, even if the program's file has been replaced since the start.
fn spawn(command_name: &str, name: &str, rank: u32, ranks: u32) -> Result<KillOnDrop, Failure> {
    let program = nodegauge_os::own_program().map_err(|cause| cannot("start a rank", cause))?;
    let mut command = Command::new(program);
    command.args([command_name, name, &rank.to_string(), &ranks.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    KillOnDrop::spawn(command).map_err(|cause| cannot("start a rank", cause))
}

/// Creates the failure for a lost rank.
fn lost<P: Protocol>(rank: u32, process: u32, status: Option<ExitStatus>) -> Failure {
    let lost = TeamError::Lost { rank: rank as usize, process, how: status.map(describe) };
    Failure::missing(lost).hint(P::LOST_HINT)
}

/// Creates the failure for an error that a rank has reported.
fn failed(rank: u32, failure: Failure) -> Failure {
    failure.of(format_args!("rank {rank}")).kind(FailureKind::Missing)
}

/// Reads the first message of a rank; `None` if it is invalid or does not arrive.
fn receive_handshake<P: Protocol>(stream: UnixStream) -> Option<JoinedRank> {
    // A process that connects but sends nothing must not block other processes.
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let first: FromRank<P::Response> = protocol::receive(&mut reader)?;
    let FromRank::Handshake(handshake) = first else { return None };
    stream.set_read_timeout(None).ok()?;
    Some(JoinedRank { handshake, stream })
}

/// Fails if a rank belongs to another run or to another build of the program.
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

/// Starts a thread that forwards the responses of a rank, and reports the end of the connection.
fn forward<R: DeserializeOwned + Send + 'static>(
    index: usize,
    stream: UnixStream,
    sender: Sender<(usize, Option<FromRank<R>>)>,
) -> Result<(), Failure> {
    let listen = move || {
        let mut reader = BufReader::new(stream);
        loop {
            let response: Option<FromRank<R>> = protocol::receive(&mut reader);
            let ends = response.is_none();
            if sender.send((index, response)).is_err() || ends {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(listen)
        .map(drop)
        .map_err(|cause| cannot("start the thread for a rank", cause))
}
