//! Rank that runs a pattern: sends, receives, and verification of the data. Patterns, data and timing are the same as
//! in the MPI probe (probes/messages_patterns.h).

use super::link::Link;
use super::segment::Segment;
use crate::pattern::{Participants, Pattern};
use nodegauge_os::Spin;
use nodegauge_team::core_to_core::{ping, pong};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of bytes in the reply to a window.
const ANSWER: usize = 4;

/// Page-aligned memory for a message.
pub(super) struct Message {
    memory: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl Message {
    pub(super) fn new(bytes: usize) -> Self {
        let page = nodegauge_os::page_bytes();
        // Writing to the memory allocates its pages.
        let memory = vec![b'a'; bytes + page];
        let from = memory.as_ptr().align_offset(page).min(page);
        Self { memory, from, bytes }
    }

    fn get(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.bytes]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.bytes]
    }
}

/// State of a rank that runs a pattern.
pub(super) struct Participant<'a, L> {
    pub(super) segment: &'a Segment,
    pub(super) rank: usize,
    /// All ranks that run the pattern together: the senders, followed by the same number of receivers.
    pub(super) members: &'a [usize],
    pub(super) pattern: Pattern,
    pub(super) window: usize,
    pub(super) each: bool,
    pub(super) link: &'a mut L,
    pub(super) sent: Vec<Message>,
    pub(super) received: Vec<Message>,
}

/// Returns the seconds for `n` operations. The operations are timed together, or with `each` separately and summed.
fn timed(each: bool, n: u64, mut operation: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let start = Instant::now();
    let mut sum = Duration::ZERO;
    for _ in 0..n {
        if each {
            let one = Instant::now();
            operation()?;
            sum += one.elapsed();
        } else {
            operation()?;
        }
    }
    Ok(if each { sum } else { start.elapsed() }.as_secs_f64())
}

/// Sends and receives these numbers of messages, all of which are in flight simultaneously.
#[inline]
fn exchange<L: Link>(
    link: &mut L,
    sent: &[Message],
    to_send: usize,
    received: &mut [Message],
    to_receive: usize,
) -> io::Result<()> {
    let mut out = 0;
    let mut done_out = 0;
    let mut slot_out = 0;
    let mut into = 0;
    let mut done_into = 0;
    let mut slot_into = 0;
    let mut spin = Spin::default();
    loop {
        let before = (out, done_out, into, done_into);
        while out < to_send && link.post(sent[slot_out].get(), &mut done_out)? {
            (out, done_out) = (out + 1, 0);
            slot_out = if slot_out + 1 < sent.len() { slot_out + 1 } else { 0 };
        }
        while into < to_receive && link.take(received[slot_into].get_mut(), &mut done_into)? {
            (into, done_into) = (into + 1, 0);
            slot_into = if slot_into + 1 < received.len() { slot_into + 1 } else { 0 };
        }
        if out == to_send && into == to_receive && link.is_sent() {
            return Ok(());
        }
        if before == (out, done_out, into, done_into) {
            spin.pause();
        }
    }
}

#[inline]
fn send<L: Link>(link: &mut L, message: &[u8]) -> io::Result<()> {
    let mut done = 0;
    let mut spin = Spin::default();
    while !link.post(message, &mut done)? {
        spin.pause();
    }
    while !link.is_sent() {
        spin.pause();
    }
    Ok(())
}

#[inline]
fn receive<L: Link>(link: &mut L, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    let mut spin = Spin::default();
    while !link.take(into, &mut done)? {
        spin.pause();
    }
    Ok(())
}

/// Returns byte `i` of a message: message `number` of a window that rank `from` sends in round `round`.
fn byte(i: usize, from: usize, number: usize, round: u32) -> u8 {
    (i * 7 + from * 13 + number * 17 + round as usize * 31 + 5) as u8
}

impl<L: Link> Participant<'_, L> {
    pub(super) fn pairs(&self) -> usize {
        self.members.len() / 2
    }

    fn index(&self) -> usize {
        self.members.iter().position(|rank| *rank == self.rank).unwrap_or(0)
    }

    fn is_sender(&self) -> bool {
        self.index() < self.pairs()
    }

    fn partner(&self) -> usize {
        let index = self.index();
        let pairs = self.pairs();
        self.members[if index < pairs { index + pairs } else { index - pairs }]
    }

    pub(super) fn is_first(&self) -> bool {
        self.rank == self.members[0]
    }

    /// Sets the length of messages.
    pub(super) fn resize(&mut self, bytes: usize) {
        for message in self.sent.iter_mut().chain(&mut self.received) {
            message.bytes = bytes;
        }
    }

    /// Waits until both ranks of the pair, or all ranks of concurrent pairs, are ready for the timed loop.
    fn start_together(&mut self) -> io::Result<()> {
        if self.pattern.row().participants == Participants::Pairs {
            self.segment.meet(self.members);
        }
        self.meet()
    }

    /// Waits for the other rank of the pair.
    fn meet(&mut self) -> io::Result<()> {
        if self.is_sender() {
            send(self.link, &[])?;
            receive(self.link, &mut [])
        } else {
            receive(self.link, &mut [])?;
            send(self.link, &[])
        }
    }

    /// Runs `n` operations. Returns the elapsed seconds of this rank; 0 for a receiver.
    pub(super) fn run(&mut self, n: u64) -> io::Result<f64> {
        self.start_together()?;
        let sender = self.is_sender();
        let window = self.window;
        let each = self.each;
        let both_ways = self.pattern == Pattern::Bibw;
        let Self { link, sent, received, .. } = self;
        let link: &mut L = link;
        let mut slot = 0;
        let buffers = sent.len();
        let seconds = if both_ways {
            timed(each, n, || exchange(link, sent, window, received, window))
        } else if self.pattern.is_rate() {
            timed(each, n, || {
                if sender {
                    exchange(link, sent, window, received, 0)?;
                    receive(link, &mut [0; ANSWER])
                } else {
                    exchange(link, sent, 0, received, window)?;
                    send(link, &[0; ANSWER])
                }
            })
        } else {
            timed(each, n, || {
                let out = sent[slot].get();
                let into = received[slot].get_mut();
                slot = if slot + 1 < buffers { slot + 1 } else { 0 };
                if sender {
                    send(link, out)?;
                    receive(link, into)
                } else {
                    receive(link, into)?;
                    send(link, out)
                }
            })
            // The latency is half of the round-trip time.
            .map(|seconds| seconds / 2.0)
        };
        seconds.map(|seconds| if sender { seconds } else { 0.0 })
    }

    /// Measures the round trip of a cache line between the first rank and its partner in seconds. Returns 0 for other
    /// ranks.
    pub(super) fn trip(&mut self) -> io::Result<f64> {
        let index = self.index();
        if index != 0 && index != self.pairs() {
            return Ok(0.0);
        }
        let line = self.segment.line(self.members[0]);
        if index == 0 {
            line.store(0, Ordering::Release);
        }
        self.meet()?;
        if index != 0 {
            pong(line, &|| {});
            return Ok(0.0);
        }
        let trip = ping(line, &|| {});
        Ok(if trip.is_finite() { trip } else { 0.0 })
    }

    /// Runs `rounds` untimed operations. Returns the number of received bytes that differ from those sent by this
    /// rank's partner.
    pub(super) fn validate(&mut self, rounds: u32) -> io::Result<u64> {
        let rank = self.rank;
        let partner = self.partner();
        let receives =
            !self.pattern.is_rate() || self.pattern == Pattern::Bibw || !self.is_sender();
        let mut wrong = 0;
        for round in 0..rounds {
            for (number, message) in self.sent.iter_mut().enumerate() {
                let bytes = message.get_mut().iter_mut().enumerate();
                bytes.for_each(|(i, to)| *to = byte(i, rank, number, round));
            }
            self.received.iter_mut().for_each(|message| message.get_mut().fill(0));
            self.run(1)?;
            // A latency pattern uses only the first buffer.
            let used = if self.pattern.is_rate() { self.received.len() } else { 1 };
            for (number, message) in self.received[..used].iter().enumerate().filter(|_| receives) {
                let bytes = message.get().iter().enumerate();
                wrong += bytes.filter(|(i, is)| **is != byte(*i, partner, number, round)).count();
            }
        }
        Ok(wrong as u64)
    }
}
