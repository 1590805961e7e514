//! POSIX asynchronous I/O. glibc carries it out with threads and takes the requests of one
//! descriptor one after another, so that a depth beyond one hides the hand-over, not the device.

use super::{Completion, Engine, Request};
use nodegauge_os::{Buffer, check};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A request under way with its control block, which belongs to the C library until the request ends:
/// no reference to it exists meanwhile.
struct UnderWay {
    control: NonNull<libc::aiocb>,
    request: Request,
}

/// Requests under way on one file.
pub(crate) struct Aio<'f> {
    file: &'f File,
    under_way: Vec<UnderWay>,
}

/// Whether the C library carries a request out: it is asked to read a byte of `/dev/zero`.
pub(super) fn probe() -> io::Result<()> {
    let file = File::open("/dev/zero")?;
    let mut aio = Aio::new(&file);
    aio.submit(Request { block: Buffer::new(1)?, write: false, offset: 0, since: 0 })?;
    aio.wait()?.1
}

impl<'f> Aio<'f> {
    pub(crate) fn new(file: &'f File) -> Self {
        Self { file, under_way: Vec::new() }
    }

    /// Waits until one of the requests under way is done.
    fn suspend(&self) -> io::Result<()> {
        let list: Vec<_> =
            self.under_way.iter().map(|one| one.control.as_ptr().cast_const()).collect();
        // SAFETY: the list holds control blocks of requests under way, which live until they end.
        let done = unsafe { libc::aio_suspend(list.as_ptr(), list.len() as i32, std::ptr::null()) };
        match check("aio_suspend", done).map_err(io::Error::from) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// A request that is done, if one is.
    fn done(&mut self) -> Option<Completion> {
        // SAFETY: the control blocks belong to requests that were started and not asked for results.
        let status = |one: &UnderWay| unsafe { libc::aio_error(one.control.as_ptr()) };
        let done = self.under_way.iter().position(|one| status(one) != libc::EINPROGRESS)?;
        let done = self.under_way.swap_remove(done);
        let errno = status(&done);
        // SAFETY: as above; the request has ended, is asked for its result once, and the C library has
        // no more use for the control block, which `submit` has made in a box.
        let moved = unsafe {
            let moved = libc::aio_return(done.control.as_ptr());
            drop(Box::from_raw(done.control.as_ptr()));
            moved
        };
        let moved =
            if errno == 0 { Ok(moved as usize) } else { Err(io::Error::from_raw_os_error(errno)) };
        Some(done.request.completed(moved, self.file))
    }
}

impl Engine for Aio<'_> {
    fn submit(&mut self, mut request: Request) -> io::Result<()> {
        // SAFETY: all fields are numbers and pointers, for which zero is a value.
        let mut control = Box::new(unsafe { std::mem::zeroed::<libc::aiocb>() });
        control.aio_fildes = self.file.as_raw_fd();
        control.aio_offset = request.offset as libc::off_t;
        control.aio_buf = request.block.as_mut_ptr().cast();
        control.aio_nbytes = request.block.len();
        control.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        let start = if request.write { libc::aio_write } else { libc::aio_read };
        let control = NonNull::from(Box::leak(control));
        // SAFETY: control block and block stay where they are and belong to nobody else until the
        // request ends: only `done` lets go of them, and `drop` waits.
        if let Err(error) = check("aio_read or aio_write", unsafe { start(control.as_ptr()) }) {
            // SAFETY: the request was not taken, so the control block is still ours, from a box.
            drop(unsafe { Box::from_raw(control.as_ptr()) });
            return Err(error.into());
        }
        self.under_way.push(UnderWay { control, request });
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
        // Blocks must outlive the requests that use them.
        while !self.under_way.is_empty() {
            if self.done().is_none() && self.suspend().is_err() {
                std::thread::yield_now();
            }
        }
    }
}
