//! POSIX asynchronous I/O. glibc carries it out with threads and takes the requests of one
//! descriptor one after another, so that a depth beyond one hides the hand-over, not the device.

use super::{Completion, Queue, nothing_moved};
use nodegauge_os::{Buffer, check};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// One request.
struct Slot {
    control: Box<libc::aiocb>,
    memory: Buffer,
    busy: bool,
    write: bool,
}

/// Requests under way on one file.
pub(crate) struct Aio<'f> {
    file: &'f File,
    slots: Vec<Slot>,
    block: usize,
}

/// Whether the C library carries a request out: it is asked to read a byte of `/dev/zero`.
pub(crate) fn probe() -> io::Result<()> {
    let file = File::open("/dev/zero")?;
    let mut aio = Aio::new(&file, 1, 1)?;
    aio.submit(0, false, 0)?;
    aio.wait()?.result.map(drop)
}

impl<'f> Aio<'f> {
    pub(crate) fn new(file: &'f File, depth: usize, block: usize) -> io::Result<Self> {
        let slot = || {
            // SAFETY: all fields are numbers and pointers, for which zero is a value.
            let control = Box::new(unsafe { std::mem::zeroed::<libc::aiocb>() });
            Ok(Slot { control, memory: Buffer::new(block)?, busy: false, write: false })
        };
        let slots = (0..depth).map(|_| slot()).collect::<io::Result<_>>()?;
        Ok(Self { file, slots, block })
    }

    /// Waits until one of the requests under way is done.
    fn suspend(&self) -> io::Result<()> {
        let list: Vec<*const libc::aiocb> = self
            .slots
            .iter()
            .filter(|slot| slot.busy)
            .map(|slot| &raw const *slot.control)
            .collect();
        if list.is_empty() {
            return Ok(());
        }
        // SAFETY: the list holds control blocks of requests under way, which live until they end.
        let done = unsafe { libc::aio_suspend(list.as_ptr(), list.len() as i32, std::ptr::null()) };
        match check("aio_suspend", done).map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// A request that is done, if one is.
    fn done(&mut self) -> Option<Completion> {
        for (i, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.busy) {
            // SAFETY: the control block belongs to a request that was started.
            let status = unsafe { libc::aio_error(&raw const *slot.control) };
            if status == libc::EINPROGRESS {
                continue;
            }
            slot.busy = false;
            // SAFETY: as above; the request has ended and is asked for its result once.
            let moved = unsafe { libc::aio_return(&raw mut *slot.control) };
            let result = match status {
                0 if moved == 0 => Err(nothing_moved(slot.write)),
                0 => Ok(moved as usize),
                errno => Err(io::Error::from_raw_os_error(errno)),
            };
            return Some(Completion { slot: i, result });
        }
        None
    }
}

impl Queue for Aio<'_> {
    fn block(&mut self, slot: usize) -> &mut [u8] {
        let block = self.block;
        &mut self.slots[slot].memory[..block]
    }

    fn submit(&mut self, slot: usize, write: bool, offset: u64) -> io::Result<()> {
        let fd = self.file.as_raw_fd();
        let block = self.block;
        let slot = &mut self.slots[slot];
        slot.control.aio_fildes = fd;
        slot.control.aio_offset = offset as libc::off_t;
        slot.control.aio_buf = slot.memory.as_mut_ptr().cast();
        slot.control.aio_nbytes = block;
        slot.control.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        let control = &raw mut *slot.control;
        // SAFETY: control block and memory stay where they are until the request ends: both are on the
        // heap, and `drop` waits.
        let started =
            unsafe { if write { libc::aio_write(control) } else { libc::aio_read(control) } };
        check("aio_read or aio_write", started)?;
        slot.busy = true;
        slot.write = write;
        Ok(())
    }

    fn wait(&mut self) -> io::Result<Completion> {
        loop {
            if let Some(completion) = self.done() {
                return Ok(completion);
            }
            self.suspend()?;
        }
    }
}

impl Drop for Aio<'_> {
    fn drop(&mut self) {
        // Memory must outlive the requests that use it.
        while self.slots.iter().any(|slot| slot.busy) {
            if self.done().is_none() && self.suspend().is_err() {
                std::thread::yield_now();
            }
        }
    }
}
