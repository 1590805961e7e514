//! Connection of a rank to another rank: through a ring buffer and reads of the other process's memory, or over TCP. No
//! call blocks.

use nodegauge_measure::names;
use nodegauge_os::{Arrival, RingReader, RingWriter, read_process_memory};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

/// Minimum length in bytes of messages that the receiver reads from the sender's memory. For shorter messages, a system
/// call takes as long as two copies.
const MIN_LENT: usize = 1 << 10;

/// Route of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Ring buffer in shared memory: two copies.
    Ring,
    /// Read from the sender's memory: one copy.
    Read,
    /// TCP.
    Tcp,
}

names!(Route, "route", Ring = "ring", Read = "process_vm_readv", Tcp = "tcp");

/// Connection of a rank to its partner.
pub enum RankLink<'a> {
    /// Through shared memory.
    Shared(SharedLink<'a>),
    /// Over TCP.
    Connected(ConnectedLink),
}

impl RankLink<'_> {
    /// Returns the possible routes of messages of this length.
    pub fn routes(&self, bytes: usize) -> Vec<Route> {
        match self {
            Self::Shared(shared) => {
                let lent = shared.may_lend && bytes >= MIN_LENT;
                [Route::Ring].into_iter().chain(lent.then_some(Route::Read)).collect()
            }
            Self::Connected(_) => vec![Route::Tcp],
        }
    }

    /// Sets the route of later messages.
    pub fn set_route(&mut self, route: Route) {
        if let Self::Shared(shared) = self {
            shared.route = route;
        }
    }
}

/// Transfer of messages in both directions. The timed loops are compiled for each implementation.
pub(crate) trait Transfer {
    /// Sends as much of `message` as possible, beginning at offset `done`. Returns true when the complete message has
    /// been sent. The caller must not change the message until [`Transfer::is_sent`] returns true.
    fn post(&mut self, message: &[u8], done: &mut usize) -> io::Result<bool>;

    /// Receives the available part of a message, beginning at offset `done`. The message has the length of `into`.
    /// Returns true when the message is complete.
    fn take(&mut self, into: &mut [u8], done: &mut usize) -> io::Result<bool>;

    /// True if the buffers of all sent messages may be reused.
    fn is_sent(&mut self) -> bool;
}

/// Link between ranks that share memory.
pub struct SharedLink<'a> {
    /// Writing end of the partner's ring for incoming messages.
    pub writer: RingWriter<'a>,
    /// Reading end of this rank's ring for incoming messages.
    pub reader: RingReader<'a>,
    /// Process ID of the partner.
    pub process: u32,
    /// True if the partner may read this rank's memory.
    pub may_lend: bool,
    /// Route of the next message.
    pub route: Route,
}

impl Transfer for SharedLink<'_> {
    #[inline]
    fn post(&mut self, message: &[u8], done: &mut usize) -> io::Result<bool> {
        Ok(match self.route {
            Route::Read if message.len() >= MIN_LENT => self.writer.lend(message),
            _ => self.writer.write(message, done),
        })
    }

    #[inline]
    fn take(&mut self, into: &mut [u8], done: &mut usize) -> io::Result<bool> {
        match self.reader.read(into, done).map_err(io::Error::other)? {
            Arrival::Incomplete => Ok(false),
            Arrival::Whole => Ok(true),
            Arrival::Lent(address) => {
                read_process_memory(self.process, address, into)?;
                self.reader.mark_fetched();
                Ok(true)
            }
        }
    }

    #[inline]
    fn is_sent(&mut self) -> bool {
        self.writer.is_fetched()
    }
}

/// Link between ranks over TCP; a message is its length followed by its bytes.
pub struct ConnectedLink(TcpStream);

/// Number of bytes of the length that precedes a message.
const HEAD: usize = size_of::<u64>();

impl ConnectedLink {
    /// Prepares a stream: messages are sent without delay, and calls do not block.
    ///
    /// # Errors
    /// Fails when the stream is closed.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }
}

/// Returns the number of bytes that a call transferred; zero if the call would have blocked.
fn moved(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        other => other,
    }
}

impl Transfer for ConnectedLink {
    fn post(&mut self, message: &[u8], done: &mut usize) -> io::Result<bool> {
        let head = (message.len() as u64).to_ne_bytes();
        let written = match done.checked_sub(HEAD) {
            Some(at) => self.0.write(&message[at..]),
            None => self.0.write_vectored(&[IoSlice::new(&head[*done..]), IoSlice::new(message)]),
        };
        *done += moved(written)?;
        Ok(*done == HEAD + message.len())
    }

    fn take(&mut self, into: &mut [u8], done: &mut usize) -> io::Result<bool> {
        let whole = HEAD + into.len();
        if let Some(at) = done.checked_sub(HEAD) {
            *done += moved(self.0.read(&mut into[at..]))?;
            return Ok(*done == whole);
        }
        // All messages have the expected length. The length is checked only if all its bytes arrive together.
        let mut head = [0; HEAD];
        let rest = HEAD - *done;
        let length = into.len() as u64;
        let read = {
            let parts = &mut [IoSliceMut::new(&mut head[..rest]), IoSliceMut::new(into)];
            moved(self.0.read_vectored(parts))?
        };
        if rest == HEAD && read >= HEAD && u64::from_ne_bytes(head) != length {
            return Err(io::Error::other("a message does not have the expected length"));
        }
        *done += read;
        Ok(*done == whole)
    }

    fn is_sent(&mut self) -> bool {
        true
    }
}
