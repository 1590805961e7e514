//! Rank that runs a pattern: sends, receives and verifies messages. Patterns, data and timing are the same as in
//! the MPI probe (crates/messages/probes/messages_patterns.h).

use crate::link::{RankLink, Transfer};
use crate::segment::Segment;
use nodegauge_os::Spin;
use nodegauge_team::core_to_core::{ping, pong};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Number of bytes in the reply to a window.
const REPLY_BYTES: usize = 4;

/// Page-aligned memory for a message.
pub struct MessageBuffer {
    memory: Vec<u8>,
    from: usize,
    bytes: usize,
}

impl MessageBuffer {
    /// Allocates a message of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
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

/// Operation that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOperation {
    /// A message to the partner, and a message back.
    RoundTrip,
    /// A window of messages to the partner, which answers with a short reply.
    Window,
    /// A window of messages in each direction, concurrently.
    BothWays,
}

/// State of a rank that runs a pattern.
pub struct Participant<'a, 'b> {
    /// Memory of all ranks.
    pub segment: &'a Segment,
    /// Number of this rank.
    pub rank: usize,
    /// Ranks that run the pattern together: the senders, followed by the same number of receivers.
    pub members: &'a [usize],
    /// Operation that is timed.
    pub operation: MessageOperation,
    /// True if all pairs begin simultaneously; false if each pair begins when it is ready.
    pub simultaneous_start: bool,
    /// Number of messages per window.
    pub window: usize,
    /// True if each operation is timed separately.
    pub timed_separately: bool,
    /// Connection to the partner.
    pub link: &'a mut RankLink<'b>,
    /// Buffers for messages that are sent.
    pub send_buffers: Vec<MessageBuffer>,
    /// Buffers for received messages.
    pub receive_buffers: Vec<MessageBuffer>,
}

/// Runs `n` operations and returns their total time in seconds. If `separately` is true, each operation is timed
/// separately; otherwise all are timed together.
fn timed(
    separately: bool,
    n: u64,
    mut operation: impl FnMut() -> io::Result<()>,
) -> io::Result<f64> {
    let start = Instant::now();
    let mut sum = Duration::ZERO;
    for _ in 0..n {
        if separately {
            let one = Instant::now();
            operation()?;
            sum += one.elapsed();
        } else {
            operation()?;
        }
    }
    Ok(if separately { sum } else { start.elapsed() }.as_secs_f64())
}

/// Sends and receives these numbers of messages. All of the messages are in flight concurrently.
#[inline]
fn exchange<L: Transfer>(
    link: &mut L,
    send_buffers: &[MessageBuffer],
    to_send: usize,
    receive_buffers: &mut [MessageBuffer],
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
        while out < to_send && link.post(send_buffers[slot_out].get(), &mut done_out)? {
            (out, done_out) = (out + 1, 0);
            slot_out = if slot_out + 1 < send_buffers.len() { slot_out + 1 } else { 0 };
        }
        while into < to_receive
            && link.take(receive_buffers[slot_into].get_mut(), &mut done_into)?
        {
            (into, done_into) = (into + 1, 0);
            slot_into = if slot_into + 1 < receive_buffers.len() { slot_into + 1 } else { 0 };
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
fn send<L: Transfer>(link: &mut L, message: &[u8]) -> io::Result<()> {
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
fn receive<L: Transfer>(link: &mut L, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    let mut spin = Spin::default();
    while !link.take(into, &mut done)? {
        spin.pause();
    }
    Ok(())
}

/// Returns byte `i` of the message that rank `from` sends as number `number` of a window in round `round`.
fn byte(i: usize, from: usize, number: usize, round: u32) -> u8 {
    (i * 7 + from * 13 + number * 17 + round as usize * 31 + 5) as u8
}

/// Signals to the partner that this rank is ready, and waits until the partner is ready.
fn meet<L: Transfer>(link: &mut L, is_sender: bool) -> io::Result<()> {
    if is_sender {
        send(link, &[])?;
        receive(link, &mut [])
    } else {
        receive(link, &mut [])?;
        send(link, &[])
    }
}

/// Runs `n` operations and returns their time in seconds; of round trips, half of the time, because the latency is one
/// way. `send_buffers` and `receive_buffers` are the buffers for the two directions.
fn operate<L: Transfer>(
    link: &mut L,
    rules: &Rules,
    send_buffers: &[MessageBuffer],
    receive_buffers: &mut [MessageBuffer],
    n: u64,
) -> io::Result<f64> {
    let Rules { operation, window, timed_separately, is_sender } = *rules;
    let mut slot = 0;
    let buffers = send_buffers.len();
    match operation {
        MessageOperation::BothWays => timed(timed_separately, n, || {
            exchange(link, send_buffers, window, receive_buffers, window)
        }),
        MessageOperation::Window => timed(timed_separately, n, || {
            if is_sender {
                exchange(link, send_buffers, window, receive_buffers, 0)?;
                receive(link, &mut [0; REPLY_BYTES])
            } else {
                exchange(link, send_buffers, 0, receive_buffers, window)?;
                send(link, &[0; REPLY_BYTES])
            }
        }),
        MessageOperation::RoundTrip => timed(timed_separately, n, || {
            let out = send_buffers[slot].get();
            let into = receive_buffers[slot].get_mut();
            slot = if slot + 1 < buffers { slot + 1 } else { 0 };
            if is_sender {
                send(link, out)?;
                receive(link, into)
            } else {
                receive(link, into)?;
                send(link, out)
            }
        })
        // The latency is half of the round-trip time.
        .map(|seconds| seconds / 2.0),
    }
}

/// Properties of a participant on which the timed loop depends.
struct Rules {
    operation: MessageOperation,
    window: usize,
    timed_separately: bool,
    is_sender: bool,
}

impl Participant<'_, '_> {
    /// Returns the number of pairs.
    pub fn pairs(&self) -> usize {
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

    /// True for the first rank, which prints the results.
    pub fn is_first(&self) -> bool {
        self.rank == self.members[0]
    }

    /// Sets the length of messages.
    pub fn resize(&mut self, bytes: usize) {
        for message in self.send_buffers.iter_mut().chain(&mut self.receive_buffers) {
            message.bytes = bytes;
        }
    }

    /// Waits for the other rank of the pair.
    fn meet(&mut self) -> io::Result<()> {
        let is_sender = self.is_sender();
        match self.link {
            RankLink::Shared(shared) => meet(shared, is_sender),
            RankLink::Connected(connected) => meet(connected, is_sender),
        }
    }

    /// Runs `n` operations and returns their time in seconds; of round trips, half of the time. A receiver returns 0.
    ///
    /// # Errors
    /// Fails when the partner has ended.
    pub fn run(&mut self, n: u64) -> io::Result<f64> {
        if self.simultaneous_start {
            self.segment.wait_for_members(self.members);
        }
        self.meet()?;
        let is_sender = self.is_sender();
        let Self { operation, window, timed_separately, send_buffers, receive_buffers, .. } = self;
        let rules = Rules {
            operation: *operation,
            window: *window,
            timed_separately: *timed_separately,
            is_sender,
        };
        let seconds = match self.link {
            RankLink::Shared(shared) => operate(shared, &rules, send_buffers, receive_buffers, n),
            RankLink::Connected(connected) => {
                operate(connected, &rules, send_buffers, receive_buffers, n)
            }
        };
        seconds.map(|seconds| if is_sender { seconds } else { 0.0 })
    }

    /// Measures the round trip of a cache line between the first rank and its partner in seconds. Returns 0 for other
    /// ranks.
    ///
    /// # Errors
    /// Fails when the partner has ended.
    pub fn round_trip(&mut self) -> io::Result<f64> {
        let index = self.index();
        if index != 0 && index != self.pairs() {
            return Ok(0.0);
        }
        let line = self.segment.cache_line(self.members[0]);
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

    /// Runs `rounds` operations without timing. Returns the number of received bytes that are wrong.
    ///
    /// # Errors
    /// Fails when the partner has ended.
    pub fn validate(&mut self, rounds: u32) -> io::Result<u64> {
        let rank = self.rank;
        let partner = self.partner();
        let receives = self.operation != MessageOperation::Window || !self.is_sender();
        let mut wrong = 0;
        for round in 0..rounds {
            for (number, message) in self.send_buffers.iter_mut().enumerate() {
                let bytes = message.get_mut().iter_mut().enumerate();
                bytes.for_each(|(i, to)| *to = byte(i, rank, number, round));
            }
            self.receive_buffers.iter_mut().for_each(|message| message.get_mut().fill(0));
            self.run(1)?;
            // A round trip uses only the first buffer.
            let used = if self.operation == MessageOperation::RoundTrip {
                1
            } else {
                self.receive_buffers.len()
            };
            for (number, message) in
                self.receive_buffers[..used].iter().enumerate().filter(|_| receives)
            {
                let bytes = message.get().iter().enumerate();
                wrong += bytes.filter(|(i, is)| **is != byte(*i, partner, number, round)).count();
            }
        }
        Ok(wrong as u64)
    }
}
