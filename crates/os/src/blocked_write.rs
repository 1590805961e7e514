//! Writes that may block forever: to a pipe without a reader, to a stopped terminal, or to a file system that does
//! not respond.
//!
//! The handlers of signals only set a flag (see [`mod@crate::end_request`]), and the kernel then continues an
//! interrupted write. Therefore another thread writes, and the calling thread stops waiting for it after some time.

use crate::end_request::{is_end_handled, is_end_requested};
use crate::wait::{Wait, wait_for_event};
use rustix::io::{Errno, retry_on_intr};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time without progress after which a write is abandoned if the user requested the end of the run.
const STALL_TIME: Duration = Duration::from_secs(1);
/// Interval between two checks of the progress.
const INTERVAL: Duration = Duration::from_millis(20);
/// Number of bytes written by one call. It is less than the capacity of a pipe, so that a slow reader counts as
/// progress.
const PART: usize = 4096;
/// Stack size of the thread that writes, in bytes.
const STACK: usize = 128 << 10;

/// Writes all bytes. If signals are handled, a write without progress is abandoned some time after the request to
/// end the run; otherwise, a signal ends the process.
///
/// # Errors
/// Returns the error of the write, or [`io::ErrorKind::TimedOut`] if the write was abandoned.
pub fn write_all(to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    if !is_end_handled() {
        return write_directly(to.as_fd(), bytes);
    }
    write_unless(to, bytes, &|stalled| is_end_requested() && stalled >= STALL_TIME)
}

/// Writes all bytes, in at most this time.
///
/// # Errors
/// Returns the error of the write, or [`io::ErrorKind::TimedOut`] if the write was abandoned.
pub fn write_within(to: impl AsFd, bytes: &[u8], time: Duration) -> io::Result<()> {
    let until = Instant::now() + time;
    write_unless(to, bytes, &|_| Instant::now() >= until)
}

/// Writes all bytes, or abandons the write when `is_over` returns true for the time since the last progress. The thread
/// of an abandoned write stays blocked until the process ends.
fn write_unless(to: impl AsFd, bytes: &[u8], is_over: &dyn Fn(Duration) -> bool) -> io::Result<()> {
    let to = to.as_fd();
    let Ok(copy) = to.try_clone_to_owned() else { return write_directly(to, bytes) };
    let content = bytes.to_vec();
    let parts = Arc::new(AtomicUsize::new(0));
    let written = Arc::clone(&parts);
    let (done, end) = mpsc::channel();
    let started = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        // An error means that nobody waits any more.
        let _ = done.send(write_parts(copy.as_fd(), &content, &written));
    });
    if started.is_err() {
        return write_directly(to, bytes);
    }
    let progress = Progress { parts, seen: Cell::new((0, Instant::now())) };
    let is_stopped = || is_over(progress.stalled());
    let result = wait_for_event(&Wait::unlimited().every(INTERVAL).unless(&is_stopped), |pause| {
        match end.recv_timeout(pause) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the thread that writes has ended")))
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    });
    result.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no program reads it")))
}

/// Progress of a write by another thread.
struct Progress {
    /// Number of parts that have been written.
    parts: Arc<AtomicUsize>,
    /// Number of parts seen at the last progress, and its time.
    seen: Cell<(usize, Instant)>,
}

impl Progress {
    /// Returns the time since the last progress.
    fn stalled(&self) -> Duration {
        let parts = self.parts.load(Ordering::Relaxed);
        if parts != self.seen.get().0 {
            self.seen.set((parts, Instant::now()));
        }
        self.seen.get().1.elapsed()
    }
}

/// Writes all bytes in parts, and counts the parts.
fn write_parts(to: BorrowedFd<'_>, bytes: &[u8], written: &AtomicUsize) -> io::Result<()> {
    for part in bytes.chunks(PART) {
        write_directly(to, part)?;
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn write_directly(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(to, bytes)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => wait_until_writable(to),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Waits until a non-blocking descriptor can be written; another program may have set it to non-blocking.
fn wait_until_writable(to: BorrowedFd<'_>) {
    use rustix::event::{PollFd, PollFlags, poll};
    // After an error, the next write reports it.
    let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn write_to_blocked_pipe_times_out() {
        let (reader, writer) = io::pipe().unwrap();
        let more_than_a_pipe = vec![b'x'; 4 << 20];
        let ended = write_within(&writer, &more_than_a_pipe, Duration::from_millis(50));
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(reader);
    }

    #[test]
    fn reader_receives_text_longer_than_the_pipe() {
        let (mut reader, writer) = io::pipe().unwrap();
        let text: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        let expected = text.clone();
        let reads = std::thread::spawn(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_| read)
        });
        write_unless(&writer, &text, &|_| false).unwrap();
        drop(writer);
        assert!(reads.join().unwrap().unwrap() == expected);
    }

    #[test]
    fn write_to_closed_pipe_fails() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        for result in
            [write_directly(writer.as_fd(), b"x"), write_unless(&writer, b"x", &|_| false)]
        {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
