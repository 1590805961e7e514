//! Processes of the ranks: forked children of one parent process, which waits for them.

use super::{Fabric, RankJob, measure};
use crate::pattern::{Participants, Pattern};
use nodegauge_exchange::{
    ConnectedLink, MessageBuffer, MessageOperation, Participant, RankLink, Route, Segment,
    SharedLink, SharedWord,
};
use nodegauge_machine::CpuId;
use nodegauge_measure::Failure;
use nodegauge_os::{allow_memory_reads, end_with_parent, read_process_memory, wait_without_limit};
use nodegauge_placement::cpus::format_ranges;
use nodegauge_placement::{RankPlace, pin};
use nodegauge_team::{InterruptCheck, ranks};
use std::error::Error;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which an idle rank checks whether its next step begins.
const POLL: Duration = Duration::from_micros(200);
/// Interval at which the parent checks that its ranks are running.
const CHECK_RANKS: Duration = Duration::from_millis(100);

/// Runs the job that `RankJob::arguments` passes. The ranks print the same output as the MPI probe.
///
/// # Errors
/// Fails when the job is invalid, or a rank cannot be started or ends early.
pub fn serve(order: &str) -> Result<(), Failure> {
    let order: RankJob = serde_json::from_str(order)
        .map_err(|error| Failure::usage(format!("invalid description of the ranks: {error}")))?;
    end_with_parent(order.parent);
    let segment = Segment::new(order.cpus.len()).map_err(|error| {
        Failure::missing(format!("cannot map memory that ranks share: {error}"))
    })?;
    let mut places = Vec::with_capacity(order.cpus.len());
    for (rank, cpus) in (0..).zip(&order.cpus) {
        places.push(RankPlace::single_thread(rank, cpus.iter().map(|cpu| CpuId(*cpu)).collect()));
    }
    // The parent checks rarely, so that it does not disturb its ranks.
    let interrupt = InterruptCheck::never().every(CHECK_RANKS);
    ranks::run_single_threaded(&places, interrupt, |member| {
        let mut rank = Rank { segment: &segment, order: &order, rank: member.index };
        rank.work().map_err(|error| error.to_string())
    })?;
    Ok(())
}

/// Rank of the job, in its own process.
struct Rank<'a> {
    segment: &'a Segment,
    order: &'a RankJob,
    rank: usize,
}

type Worked<T = ()> = Result<T, Box<dyn Error>>;

impl Rank<'_> {
    fn work(&mut self) -> Worked {
        // Each rank touches its own part of the shared memory first, so that this part is on the rank's NUMA node.
        let marker = Box::new(Segment::MARKER);
        self.word(SharedWord::Process).store(std::process::id().into(), Ordering::Release);
        self.word(SharedWord::Marker).store(marker.as_ptr() as u64, Ordering::Release);
        allow_memory_reads();
        let everybody: Vec<usize> = (0..self.segment.ranks).collect();
        self.segment.wait_for_members(&everybody);
        self.introduce()?;
        if self.order.steps.is_empty() {
            self.patterns(&everybody)?;
        }
        for (step, (a, b)) in self.order.steps.iter().enumerate() {
            let pair = [*a, *b];
            if pair.contains(&self.rank) {
                self.patterns(&pair)?;
                self.segment.wait_for_members(&pair);
            }
            let over = self.segment.word(0, SharedWord::Steps);
            if self.rank == *a {
                say(&format!("step {step}\n"))?;
                over.store(step as u64 + 1, Ordering::Release);
            }
            // An idle rank sleeps, so that it neither polls memory nor heats the processor.
            wait_without_limit(POLL, || (over.load(Ordering::Acquire) > step as u64).then_some(()));
        }
        self.segment.wait_for_members(&everybody);
        // Other ranks may read the marker until all ranks have reached this line.
        drop(marker);
        if self.rank == 0 { Ok(say("end\n")?) } else { Ok(()) }
    }

    fn word(&self, word: SharedWord) -> &std::sync::atomic::AtomicU64 {
        self.segment.word(self.rank, word)
    }

    /// Prints the line of this rank in the format of the probe. The ranks print one after another; rank 0 first prints
    /// the line with the version of the format.
    fn introduce(&self) -> Worked {
        let everybody: Vec<usize> = (0..self.segment.ranks).collect();
        let cpus = pin::current_affinity()?;
        // The ranks print one after another.
        for rank in &everybody {
            if *rank == self.rank {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let host = host.trim();
                let process = std::process::id();
                let first = if *rank == 0 { "nodegauge-messages 1\n" } else { "" };
                let host = if host.is_empty() { "localhost" } else { host };
                say(&format!("{first}rank {rank} {process} {} {host}\n", format_ranges(&cpus)))?;
            }
            self.segment.wait_for_members(&everybody);
        }
        Ok(())
    }

    /// Runs all patterns between the members. The first half of the members is paired with the second half.
    fn patterns(&self, members: &[usize]) -> Worked {
        let index = members.iter().position(|rank| *rank == self.rank).unwrap_or(0);
        let half = members.len() / 2;
        let partner = members[if index < half { index + half } else { index - half }];
        match self.order.fabric {
            Fabric::Shm => {
                let process =
                    self.segment.word(partner, SharedWord::Process).load(Ordering::Acquire) as u32;
                let may_lend = self.may_lend(members, partner, process)?;
                let taken = "another rank already uses one end of the ring buffer";
                let shared = SharedLink {
                    writer: self.segment.inbox(partner).writer().ok_or(taken)?,
                    reader: self.segment.inbox(self.rank).reader().ok_or(taken)?,
                    process,
                    may_lend,
                    route: Route::Ring,
                };
                self.sizes(members, RankLink::Shared(shared))
            }
            Fabric::Tcp => {
                let connected =
                    ConnectedLink::new(self.connect(members, index < half, partner)?)?;
                self.sizes(members, RankLink::Connected(connected))
            }
        }
    }

    /// True if each member can read its partner's memory. If a member cannot, the first member prints the error number.
    fn may_lend(&self, members: &[usize], partner: usize, process: u32) -> Worked<bool> {
        let address = self.segment.word(partner, SharedWord::Marker).load(Ordering::Acquire);
        let mut marker = [0; Segment::MARKER.len()];
        let errno = match read_process_memory(process, address, &mut marker) {
            // Access to the memory of a wrong process is treated as refused (EPERM).
            Ok(()) => i32::from(marker != Segment::MARKER),
            Err(error) => error.errno,
        };
        let worst = self.segment.combine_numbers(self.rank, members, &[f64::from(errno)], |all| {
            vec![all.iter().map(|of_rank| of_rank[0]).fold(0.0, f64::max)]
        });
        let worst_errno = worst[0] as i32;
        if worst_errno != 0 && self.rank == members[0] {
            say(&format!("unreadable {worst_errno}\n"))?;
        }
        Ok(worst_errno == 0)
    }

    fn connect(&self, members: &[usize], sender: bool, partner: usize) -> Worked<TcpStream> {
        let address = (Ipv4Addr::LOCALHOST, 0);
        let listener = if sender { Some(TcpListener::bind(address)?) } else { None };
        if let Some(listener) = &listener {
            self.word(SharedWord::Port)
                .store(listener.local_addr()?.port().into(), Ordering::Release);
        }
        self.segment.wait_for_members(members);
        Ok(match listener {
            Some(listener) => listener.accept()?.0,
            None => {
                let port =
                    self.segment.word(partner, SharedWord::Port).load(Ordering::Acquire) as u16;
                TcpStream::connect((Ipv4Addr::LOCALHOST, port))?
            }
        })
    }

    fn sizes(&self, members: &[usize], mut link: RankLink<'_>) -> Worked {
        for (name, sizes) in &self.order.patterns {
            let pattern: Pattern = name.parse()?;
            let pairs = match pattern.properties().participants {
                Participants::Pairs => members.len() / 2,
                _ => 1,
            };
            let largest = sizes.iter().map(|(bytes, ..)| *bytes as usize).max().unwrap_or(0);
            let buffers = if self.order.multiple { self.order.window } else { 1 };
            let mut participant = Participant {
                segment: self.segment,
                rank: self.rank,
                members,
                operation: pattern_operation(pattern),
                simultaneous_start: pattern.properties().participants == Participants::Pairs,
                window: self.order.window,
                timed_separately: self.order.each,
                link: &mut link,
                send_buffers: messages(buffers, largest),
                receive_buffers: messages(buffers, largest),
            };
            let first = members[0];
            let second = members[members.len() / 2];
            for size in sizes {
                let mut output = format!("size {pattern} {} {first} {second} {pairs}\n", size.0);
                if participant.is_first() {
                    say(&std::mem::take(&mut output))?;
                }
                measure::measure_size(&mut participant, self.order, *size, &mut output)?;
                if participant.is_first() {
                    say(&output)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the operation of a pattern.
fn pattern_operation(pattern: Pattern) -> MessageOperation {
    if pattern == Pattern::Bibw {
        MessageOperation::BothWays
    } else if pattern.is_rate() {
        MessageOperation::Window
    } else {
        MessageOperation::RoundTrip
    }
}

/// Returns `count` buffers, each for messages of at most `largest` bytes.
fn messages(count: usize, largest: usize) -> Vec<MessageBuffer> {
    (0..count).map(|_| MessageBuffer::new(largest)).collect()
}

/// Prints a text and flushes the output, so that the reader receives each size as soon as it is complete.
fn say(words: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(words.as_bytes())?;
    out.flush()
}
