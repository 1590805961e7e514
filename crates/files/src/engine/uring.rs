//! io_uring: requests and their results in rings shared with the kernel, one system call to hand
//! over and to wait.

use super::{Completion, Queue, nothing_moved};
use io_uring::{IoUring, opcode, types};
use nodegauge_os::Buffer;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Requests under way on one file.
pub(crate) struct Uring<'f> {
    ring: IoUring,
    file: &'f File,
    memory: Vec<Buffer>,
    block: usize,
    write: Vec<bool>,
    under_way: usize,
}

/// Whether the kernel lets this process have a ring.
pub(crate) fn probe() -> io::Result<()> {
    IoUring::new(1).map(drop)
}

impl<'f> Uring<'f> {
    pub(crate) fn new(file: &'f File, depth: usize, block: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth.next_power_of_two()).map_err(io::Error::other)?;
        let ring = IoUring::new(entries)?;
        let memory = (0..depth).map(|_| Buffer::new(block)).collect::<io::Result<_>>()?;
        Ok(Self { ring, file, memory, block, write: vec![false; depth], under_way: 0 })
    }

    /// A result that is there already.
    fn done(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        self.under_way -= 1;
        let slot = entry.user_data() as usize;
        let result = match entry.result() {
            0 => Err(nothing_moved(self.write[slot])),
            n if n < 0 => Err(io::Error::from_raw_os_error(-n)),
            n => Ok(n as usize),
        };
        Some(Completion { slot, result })
    }
}

impl Queue for Uring<'_> {
    fn block(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[slot][..self.block]
    }

    fn submit(&mut self, slot: usize, write: bool, offset: u64) -> io::Result<()> {
        let fd = types::Fd(self.file.as_raw_fd());
        let length = u32::try_from(self.block).map_err(io::Error::other)?;
        let memory = self.memory[slot].as_mut_ptr();
        let entry = match write {
            true => opcode::Write::new(fd, memory, length).offset(offset).build(),
            false => opcode::Read::new(fd, memory, length).offset(offset).build(),
        };
        self.write[slot] = write;
        let entry = entry.user_data(slot as u64);
        // SAFETY: file and memory live until the request ends: `drop` waits for all. A slot has one
        // request at a time, so the ring, which has room for all slots, is never full.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.under_way += 1;
        Ok(())
    }

    fn wait(&mut self) -> io::Result<Completion> {
        loop {
            // What is pushed but not yet submitted must go before anything is waited for.
            let pending = !self.ring.submission().is_empty();
            if !pending && let Some(completion) = self.done() {
                return Ok(completion);
            }
            let wanted = usize::from(self.ring.completion().is_empty());
            match self.ring.submit_and_wait(wanted) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    if let Some(completion) = self.done() {
                        return Ok(completion);
                    }
                }
            }
        }
    }
}

impl Drop for Uring<'_> {
    fn drop(&mut self) {
        // Memory must outlive the requests that use it.
        while self.under_way > 0 {
            if self.done().is_none() && self.ring.submit_and_wait(1).is_err() {
                std::thread::yield_now();
            }
        }
    }
}
