//! Engine with io_uring: requests and their results are in rings that are shared with the kernel. A single system call
//! submits requests and waits.

use super::{BlockRequest, Completion, Engine};
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Ring with the requests in flight for one file.
pub(crate) struct Uring<'f> {
    ring: IoUring,
    file: &'f File,
    /// Requests in flight, by the number that the kernel returns; `None` if the number is free.
    under_way: Vec<Option<BlockRequest>>,
    free: Vec<usize>,
}

/// Checks that the kernel allows this process to create a ring.
pub(crate) fn probe() -> io::Result<()> {
    IoUring::new(1).map(drop)
}

impl<'f> Uring<'f> {
    pub(crate) fn new(file: &'f File, depth: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth.next_power_of_two()).map_err(io::Error::other)?;
        let ring = IoUring::new(entries)?;
        let under_way = (0..depth).map(|_| None).collect();
        Ok(Self { ring, file, under_way, free: (0..depth).rev().collect() })
    }

    /// Returns a completed request; `None` if there is none.
    fn done(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let number = entry.user_data() as usize;
        let request = self.under_way[number].take()?;
        self.free.push(number);
        let moved = usize::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some(request.completed(moved, self.file))
    }
}

impl Engine for Uring<'_> {
    fn submit(&mut self, mut request: BlockRequest) -> io::Result<()> {
        let Some(number) = self.free.last().copied() else {
            return Err(io::Error::other("more requests than the ring can hold"));
        };
        let fd = types::Fd(self.file.as_raw_fd());
        let length = u32::try_from(request.block.len()).map_err(io::Error::other)?;
        let block = request.block.as_mut_ptr();
        let entry = if request.write {
            opcode::Write::new(fd, block, length).offset(request.offset).build()
        } else {
            opcode::Read::new(fd, block, length).offset(request.offset).build()
        };
        let entry = entry.user_data(number as u64);
        // SAFETY: the file and the block live until the request is complete, and nobody else accesses the block until
        // then. Only `done` releases a block, and `drop` waits for all requests. The ring has room for all requests.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.free.pop();
        self.under_way[number] = Some(request);
        Ok(())
    }

    fn wait(&mut self) -> io::Result<Completion> {
        loop {
            // Requests in the ring must be submitted before the wait.
            if self.ring.submission().is_empty()
                && let Some(completion) = self.done()
            {
                return Ok(completion);
            }
            let wanted = usize::from(self.ring.completion().is_empty());
            match self.ring.submit_and_wait(wanted) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

impl Drop for Uring<'_> {
    fn drop(&mut self) {
        // Blocks must live until the requests that use them are complete.
        while self.free.len() < self.under_way.len() {
            if self.done().is_none() && self.ring.submit_and_wait(1).is_err() {
                std::thread::yield_now();
            }
        }
    }
}
