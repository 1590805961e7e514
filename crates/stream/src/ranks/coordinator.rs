//! The coordinator's side: starting ranks or waiting for them, requests, responses.

use super::wire::{self, Handshake, Request, Response};
use super::{COMMAND, Started, cannot, failed, join_timeout, link};
use nodegauge_measure::progress::Silent;
use nodegauge_measure::{Failure, Observer};
use nodegauge_os::{KillOnDrop, ProcessBarrier, describe};
use nodegauge_placement::cpus::number_ranges;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Longest wait for a response: a node's whole memory is touched and checked within this.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long ranks may take to end before they are killed.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// How often processes that were started here are polled while ranks join.
const CHILD_POLL: Duration = Duration::from_millis(100);

/// Several processes that measure as one.
pub struct Coordinator {
    members: Vec<Member>,
    inbox: Receiver<(usize, Option<Response>)>,
    barrier: ProcessBarrier,
    children: BTreeMap<u32, KillOnDrop>,
    points: u32,
    /// Why nothing more can be measured.
    broken: Option<Failure>,
    /// The exit code that ranks are to leave with.
    code: u8,
}

/// A coordinator that several points use.
pub type SharedCoordinator = Rc<RefCell<Coordinator>>;

/// A rank that has joined.
struct Member {
    handshake: Handshake,
    stream: UnixStream,
}

impl Coordinator {
    /// Starts `ranks` processes of this program.
    ///
    /// # Errors
    /// When a process cannot be started or does not join in time.
    pub fn start(ranks: usize, observer: &mut dyn Observer) -> Result<SharedCoordinator, Failure> {
        observer.phase(&format!("starting {ranks} ranks"));
        let timeout = join_timeout()?;
        let ranks = ranks as u32;
        let name = format!("nodegauge-{}-{}", std::process::id(), nodegauge_os::monotonic_nanos());
        let listener = link::listen(&name)?;
        let children = (0..ranks)
            .map(|rank| Ok((rank, spawn(&name, rank, ranks)?)))
            .collect::<Result<_, Failure>>()?;
        Self::gather(&listener, ranks, children, timeout, observer)
    }

    /// Coordinates ranks that a launcher has started; the process of rank 0 calls this, and starts
    /// the one that measures in its place.
    ///
    /// # Errors
    /// When ranks are missing when the time is over.
    pub fn join(started: &Started) -> Result<SharedCoordinator, Failure> {
        let timeout = join_timeout()?;
        let name = started.meeting();
        let listener = link::listen(&name)?;
        let children = BTreeMap::from([(0, spawn(&name, 0, started.ranks)?)]);
        Self::gather(&listener, started.ranks, children, timeout, &Silent)
    }

    fn gather(
        listener: &UnixListener,
        ranks: u32,
        mut children: BTreeMap<u32, KillOnDrop>,
        timeout: Duration,
        observer: &dyn Observer,
    ) -> Result<SharedCoordinator, Failure> {
        let deadline = Instant::now() + timeout;
        let mut joined: BTreeMap<u32, Member> = BTreeMap::new();
        while joined.len() < ranks as usize {
            let stream = link::accept(listener, deadline.min(Instant::now() + CHILD_POLL));
            if let Some(member) = stream.and_then(receive_handshake) {
                refuse_others(&member.handshake, ranks)?;
                let rank = member.handshake.rank;
                if joined.insert(rank, member).is_some() {
                    return Err(failed(
                        rank,
                        Failure::missing("it joined twice: two jobs meet on this host"),
                    ));
                }
            }
            for (rank, child) in &mut children {
                if !joined.contains_key(rank)
                    && let Some(status) = child.wait_within(Duration::ZERO)
                {
                    return Err(lost(*rank, child.id(), Some(status)));
                }
            }
            let late = Instant::now() >= deadline && joined.len() < ranks as usize;
            if observer.interrupted() || late {
                let missing = (0..ranks).filter(|rank| !joined.contains_key(rank));
                let missing = number_ranges(missing);
                return Err(Failure::missing(format!(
                    "only {} of {ranks} ranks joined within {} s; missing: {missing}",
                    joined.len(),
                    timeout.as_secs(),
                ))
                .hint("start all ranks with the same command on one host"));
            }
        }
        let members: Vec<Member> = joined.into_values().collect();
        let (sender, inbox) = mpsc::channel();
        for (index, member) in members.iter().enumerate() {
            let talk = |cause| cannot("talk to a rank", cause);
            forward(index, member.stream.try_clone().map_err(talk)?, sender.clone())?;
        }
        let barrier = ProcessBarrier::create(ranks.div_ceil(2) as usize)
            .map_err(|cause| cannot("share memory among ranks", cause))?;
        let mut coordinator =
            Self { members, inbox, barrier, children, points: 0, broken: None, code: 0 };
        let path = coordinator.barrier.path();
        coordinator.ask(ranks as usize, |_| Request::Map { path: path.clone() })?;
        Ok(Rc::new(RefCell::new(coordinator)))
    }

    /// What each rank said of itself, by rank.
    pub(super) fn handshakes(&self) -> impl Iterator<Item = &Handshake> {
        self.members.iter().map(|member| &member.handshake)
    }

    /// Why nothing more can be measured, when that is so.
    pub(super) fn broken(&self) -> Option<&Failure> {
        self.broken.as_ref()
    }

    /// Gives the exit code with which ranks leave, for launchers that look at all of them.
    pub fn leave_with(&mut self, code: u8) {
        self.code = code;
    }

    /// A number for a new point.
    pub(super) fn new_point(&mut self) -> u32 {
        self.points += 1;
        self.points
    }

    /// Sends a request to each of the first `ranks` ranks and waits for all responses.
    pub(super) fn ask(
        &mut self,
        ranks: usize,
        request: impl Fn(usize) -> Request,
    ) -> Result<Vec<Response>, Failure> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut together = false;
        for (index, member) in self.members.iter_mut().take(ranks).enumerate() {
            let request = request(index);
            together |= matches!(request, Request::Pass { .. });
            // A rank that has gone is noticed when its response is awaited.
            let _ = wire::send(&mut member.stream, &request);
        }
        let mut responses: Vec<Option<Response>> = vec![None; ranks];
        let mut first = None;
        while responses.iter().any(Option::is_none) {
            match self.inbox.recv_timeout(RESPONSE_TIMEOUT) {
                Ok((index, Some(Response::Failed(failure)))) => {
                    let rank = self.members[index].handshake.rank;
                    let error = failed(rank, failure);
                    if together {
                        return Err(self.break_with(error));
                    }
                    first.get_or_insert(error);
                    responses[index] = Some(Response::Done);
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

    /// What became of a rank whose socket has ended.
    fn lost(&mut self, index: usize) -> Failure {
        let Handshake { rank, process, .. } = self.members[index].handshake;
        let status = self.children.get_mut(&rank).and_then(|child| child.wait_within(GRACE_PERIOD));
        lost(rank, process, status)
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let code = self.code;
        for member in &mut self.members {
            // An error means that the rank has ended already.
            let _ = wire::send(&mut member.stream, &Request::End { code });
        }
        let deadline = Instant::now() + GRACE_PERIOD;
        for child in self.children.values_mut() {
            child.wait_within(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Starts this very program as a rank, also when its file has been replaced meanwhile.
fn spawn(name: &str, rank: u32, ranks: u32) -> Result<KillOnDrop, Failure> {
    let mut command = Command::new("/proc/self/exe");
    command.args([COMMAND, name, &rank.to_string(), &ranks.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    KillOnDrop::spawn(command).map_err(|cause| cannot("start a rank", cause))
}

fn lost(rank: u32, process: u32, status: Option<ExitStatus>) -> Failure {
    let how = status.map(|status| format!(": {}", describe(status))).unwrap_or_default();
    Failure::missing(format!("rank {rank} (process {process}) ended in the middle of the run{how}"))
        .hint("look into the system's log whether memory ran out, and give a smaller --size")
}

/// Reads the first message of a rank.
fn receive_handshake(stream: UnixStream) -> Option<Member> {
    // A process that connects and says nothing must not stop the others.
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let Response::Handshake(handshake) = wire::receive(&mut reader)? else { return None };
    stream.set_read_timeout(None).ok()?;
    Some(Member { handshake, stream })
}

/// Ranks of another run, or of another build, do not measure with this one.
fn refuse_others(handshake: &Handshake, ranks: u32) -> Result<(), Failure> {
    let message = if handshake.ranks != ranks || handshake.rank >= ranks {
        format!("it is one of {} ranks, not of {ranks}", handshake.ranks)
    } else if handshake.version != Handshake::own(0, ranks).version {
        "it is another build of nodegauge".to_owned()
    } else {
        return Ok(());
    };
    Err(failed(handshake.rank, Failure::missing(message)))
}

/// Forwards the responses of a rank, and the end of its connection.
fn forward(
    index: usize,
    stream: UnixStream,
    sender: Sender<(usize, Option<Response>)>,
) -> Result<(), Failure> {
    let listen = move || {
        let mut reader = BufReader::new(stream);
        loop {
            let response: Option<Response> = wire::receive(&mut reader);
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
        .map_err(|cause| cannot("listen to a rank", cause))
}
