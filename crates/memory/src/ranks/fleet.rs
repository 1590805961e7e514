//! The coordinator's side: the ranks, orders to them, and their answers.

use super::wire::{self, Order, Reply};
use super::{RankError, link};
use nodegauge_measure::Watch;
use nodegauge_os::{KillOnDrop, ProcessBarrier, describe};
use nodegauge_placement::cpus::number_ranges;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, ExitStatus};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Longest wait for an answer: a node's whole memory is touched and checked within this.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long ranks may take to leave before they are killed.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often a rank that was started here is looked after while ranks gather.
const LOOK: Duration = Duration::from_millis(100);

/// What a rank says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its number.
    pub rank: u32,
    /// How many there are.
    pub ranks: u32,
    /// Its process.
    pub process: u32,
    /// The CPUs that it was given.
    pub cpus: Vec<u32>,
    /// The program, so that ranks of different builds do not measure together.
    pub version: String,
}

impl Hello {
    /// Of this process.
    pub fn own(rank: u32, ranks: u32) -> Self {
        let cpus = nodegauge_placement::pin::current_affinity().unwrap_or_default();
        Self {
            rank,
            ranks,
            process: std::process::id(),
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            version: format!("{} {}", env!("CARGO_PKG_VERSION"), crate::kernels::compiled_in()),
        }
    }
}

/// Several processes under one command.
pub struct Fleet {
    members: Vec<Member>,
    inbox: Receiver<(usize, Option<Reply>)>,
    barrier: ProcessBarrier,
    children: BTreeMap<u32, KillOnDrop>,
    points: u32,
    /// Why nothing more can be measured.
    broken: Option<RankError>,
    /// The exit code that ranks are to leave with.
    code: u8,
}

/// A fleet that several points share.
pub type SharedFleet = Rc<RefCell<Fleet>>;

struct Member {
    hello: Hello,
    stream: UnixStream,
}

impl Fleet {
    /// Starts `ranks` processes with `command`, which is given the socket's name, the rank and the
    /// number of ranks, and makes a command that ends up in [`serve`](super::serve).
    ///
    /// # Errors
    /// When a process cannot be started or does not come within the patience.
    pub fn start(
        ranks: u32,
        command: impl Fn(&str, u32, u32) -> Command,
        patience: Duration,
        watch: &dyn Watch,
    ) -> Result<Self, RankError> {
        let name = format!("nodegauge-{}-{}", std::process::id(), nodegauge_os::monotonic_nanos());
        let listener = link::listen(&name)?;
        let children = (0..ranks)
            .map(|rank| Ok((rank, spawn(command(&name, rank, ranks))?)))
            .collect::<Result<_, RankError>>()?;
        Self::gather(&listener, ranks, children, patience, watch)
    }

    /// Coordinates ranks that a launcher has started and that join under `name`; the process of
    /// rank 0 calls this, and `command` starts the one that measures in its place.
    ///
    /// # Errors
    /// When ranks are missing at the end of the patience.
    pub fn join(
        name: &str,
        ranks: u32,
        command: impl Fn(&str, u32, u32) -> Command,
        patience: Duration,
        watch: &dyn Watch,
    ) -> Result<Self, RankError> {
        let listener = link::listen(name)?;
        let children = BTreeMap::from([(0, spawn(command(name, 0, ranks))?)]);
        Self::gather(&listener, ranks, children, patience, watch)
    }

    fn gather(
        listener: &UnixListener,
        ranks: u32,
        mut children: BTreeMap<u32, KillOnDrop>,
        patience: Duration,
        watch: &dyn Watch,
    ) -> Result<Self, RankError> {
        let deadline = Instant::now() + patience;
        let mut came: BTreeMap<u32, Member> = BTreeMap::new();
        while came.len() < ranks as usize {
            let stream = link::accept(listener, deadline.min(Instant::now() + LOOK));
            if let Some(member) = stream.and_then(greet) {
                refuse_others(&member.hello, ranks)?;
                let rank = member.hello.rank;
                if came.insert(rank, member).is_some() {
                    let message = "it came twice: two jobs meet on this host".to_owned();
                    return Err(RankError::Failed { rank, message });
                }
            }
            for (rank, child) in &mut children {
                if !came.contains_key(rank)
                    && let Some(status) = child.wait_within(Duration::ZERO)
                {
                    return Err(lost(*rank, child.id(), Some(status)));
                }
            }
            if watch.interrupted() || (Instant::now() >= deadline && came.len() < ranks as usize) {
                let missing = (0..ranks).filter(|rank| !came.contains_key(rank));
                let missing = number_ranges(missing);
                let seconds = patience.as_secs();
                return Err(RankError::Missing { ranks, came: came.len(), missing, seconds });
            }
        }
        let members: Vec<Member> = came.into_values().collect();
        let (sender, inbox) = mpsc::channel();
        for (index, member) in members.iter().enumerate() {
            let talk = |cause| RankError::system("talk to a rank", cause);
            hear(index, member.stream.try_clone().map_err(talk)?, sender.clone())?;
        }
        let barrier = ProcessBarrier::create(ranks.div_ceil(2) as usize)
            .map_err(|cause| RankError::system("share memory among ranks", cause))?;
        let mut fleet =
            Self { members, inbox, barrier, children, points: 0, broken: None, code: 0 };
        let path = fleet.barrier.path();
        fleet.ask(ranks as usize, |_| Order::Meet { path: path.clone() })?;
        Ok(fleet)
    }

    /// For several points to share.
    pub fn shared(self) -> SharedFleet {
        Rc::new(RefCell::new(self))
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What each rank said of itself, by rank.
    pub fn hellos(&self) -> Vec<Hello> {
        self.members.iter().map(|member| member.hello.clone()).collect()
    }

    /// Why nothing more can be measured, when that is so.
    pub fn broken(&self) -> Option<&RankError> {
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

    /// Gives an order to each of the first `ranks` ranks and waits for all answers.
    ///
    /// # Errors
    /// When a rank has gone, says that it failed, or says nothing for long. In a pass, or when one
    /// has gone, the others are sent away: the fleet is broken.
    pub(super) fn ask(
        &mut self,
        ranks: usize,
        order: impl Fn(usize) -> Order,
    ) -> Result<Vec<Reply>, RankError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut together = false;
        for (index, member) in self.members.iter_mut().take(ranks).enumerate() {
            let order = order(index);
            together |= matches!(order, Order::Pass { .. });
            // Who has gone is heard below.
            let _ = wire::send(&mut member.stream, &order);
        }
        let mut replies: Vec<Option<Reply>> = vec![None; ranks];
        let mut failed = None;
        while replies.iter().any(Option::is_none) {
            match self.inbox.recv_timeout(PATIENCE) {
                Ok((index, Some(Reply::Failed(message)))) => {
                    let rank = self.members[index].hello.rank;
                    let error = RankError::Failed { rank, message };
                    if together {
                        return Err(self.break_with(error));
                    }
                    failed.get_or_insert(error);
                    replies[index] = Some(Reply::Done);
                }
                Ok((index, Some(reply))) if index < ranks => replies[index] = Some(reply),
                Ok((_, Some(_))) => {}
                Ok((index, None)) => {
                    let error = self.lost(index);
                    return Err(self.break_with(error));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let open = (0..).zip(&replies).filter(|(_, reply)| reply.is_none());
                    let missing = number_ranges(open.map(|(rank, _)| rank));
                    let seconds = PATIENCE.as_secs();
                    return Err(self.break_with(RankError::Silent { missing, seconds }));
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(replies.into_iter().flatten().collect()),
        }
    }

    fn break_with(&mut self, error: RankError) -> RankError {
        self.barrier.poison();
        self.broken = Some(error.clone());
        error
    }

    /// What became of a rank whose socket has ended.
    fn lost(&mut self, index: usize) -> RankError {
        let Hello { rank, process, .. } = self.members[index].hello;
        let status = self.children.get_mut(&rank).and_then(|child| child.wait_within(FAREWELL));
        lost(rank, process, status)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let code = self.code;
        for member in &mut self.members {
            // Who has gone needs no farewell.
            let _ = wire::send(&mut member.stream, &Order::End { code });
        }
        let deadline = Instant::now() + FAREWELL;
        for child in self.children.values_mut() {
            child.wait_within(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

fn spawn(command: Command) -> Result<KillOnDrop, RankError> {
    KillOnDrop::spawn(command).map_err(|cause| RankError::system("start a rank", cause))
}

fn lost(rank: u32, process: u32, status: Option<ExitStatus>) -> RankError {
    let how = status.map(|status| format!(": {}", describe(status))).unwrap_or_default();
    RankError::Lost { rank, process, how }
}

/// Hears who has come.
fn greet(stream: UnixStream) -> Option<Member> {
    // A process that connects and says nothing must not stop the others.
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let Reply::Hello(hello) = wire::receive(&mut reader)? else { return None };
    stream.set_read_timeout(None).ok()?;
    Some(Member { hello, stream })
}

/// Ranks of another run, or of another build, do not measure with this one.
fn refuse_others(hello: &Hello, ranks: u32) -> Result<(), RankError> {
    let message = if hello.ranks != ranks || hello.rank >= ranks {
        format!("it is one of {} ranks, not of {ranks}", hello.ranks)
    } else if hello.version != Hello::own(0, ranks).version {
        "it is another build of nodegauge".to_owned()
    } else {
        return Ok(());
    };
    Err(RankError::Failed { rank: hello.rank, message })
}

/// Passes on what a rank says, and its end.
fn hear(
    index: usize,
    stream: UnixStream,
    sender: Sender<(usize, Option<Reply>)>,
) -> Result<(), RankError> {
    let listen = move || {
        let mut reader = BufReader::new(stream);
        loop {
            let reply: Option<Reply> = wire::receive(&mut reader);
            let ends = reply.is_none();
            if sender.send((index, reply)).is_err() || ends {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(listen)
        .map(drop)
        .map_err(|cause| RankError::system("listen to a rank", cause))
}
