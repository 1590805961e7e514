//! Workers that are forked processes, each with a pipe to its parent.

use crate::call::{SysError, check};
use crate::system::die_with_parent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// A forked child and what it has said. Dropped, it is killed and reaped.
#[derive(Debug)]
pub struct ForkedChild {
    pid: libc::pid_t,
    pipe: File,
    received: Vec<u8>,
    open: bool,
    status: Option<ExitStatus>,
}

impl ForkedChild {
    /// Whether it may still say something: its end of the pipe is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.pid as u32
    }

    /// Waits until it has ended; how it did.
    pub fn wait(&mut self) -> ExitStatus {
        *self.status.get_or_insert_with(|| {
            let mut status = 0;
            let interrupted = || SysError::last("waitpid").errno == libc::EINTR;
            // SAFETY: the process is a child that nobody else reaps, so its number is still its own.
            while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0 && interrupted() {}
            ExitStatus::from_raw(status)
        })
    }

    /// What it has said so far.
    pub fn received(&self) -> &[u8] {
        &self.received
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        if self.open && self.status.is_none() {
            // SAFETY: the process is a child that nobody has reaped, so its number is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        self.wait();
    }
}

/// Forks a child that runs `body` with its end of a pipe and exits. It dies with its parent, and leaves
/// Ctrl-C to it.
///
/// # Errors
/// When the kernel gives no pipe or no process.
///
/// # Safety
/// The child goes on with the calling thread alone. `body` may use memory that was made before, the
/// allocator, which the C library makes usable in the child of a process with threads, and system calls;
/// it must not wait for another thread or take a lock that one may hold.
pub unsafe fn fork(body: impl FnOnce(File)) -> Result<ForkedChild, SysError> {
    let ends = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| SysError { call: "pipe2", errno: error.raw_os_error() })?;
    let (reader, writer) = (File::from(ends.0), File::from(ends.1));
    let parent = std::process::id();
    // SAFETY: the caller's promise; the child ends below without running what the parent registered
    // for its end.
    let pid = check("fork", unsafe { libc::fork() })?;
    if pid > 0 {
        return Ok(ForkedChild {
            pid,
            pipe: reader,
            received: Vec::new(),
            open: true,
            status: None,
        });
    }
    drop(reader);
    die_with_parent(parent);
    // SAFETY: plain system calls.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
    }
    // A panic must not unwind into the parent's code.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(writer)));
    // SAFETY: ends the process at once: what is registered for its end belongs to the parent.
    unsafe { libc::_exit(i32::from(done.is_err())) }
}

/// Checks that this process has a single thread: then the body of a [`fork`] may use everything.
///
/// # Errors
/// When this process has other threads (`EBUSY`).
pub fn check_alone() -> Result<(), SysError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    match threads {
        1 => Ok(()),
        _ => Err(SysError { call: "fork", errno: libc::EBUSY }),
    }
}

/// What a child that was asked one thing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildAnswer {
    /// All that it said before its end; nothing, or a part, where it crashed.
    Said(Vec<u8>),
    /// It was killed at its time limit.
    TimedOut,
}

/// Has a forked child make an answer, for code that may crash or never end. Its error output goes nowhere.
///
/// # Errors
/// When the kernel gives no pipe or no process.
///
/// # Safety
/// As for [`fork`].
pub unsafe fn ask_child(
    limit: Duration,
    body: impl FnOnce() -> Vec<u8>,
) -> Result<ChildAnswer, SysError> {
    let started = Instant::now();
    // SAFETY: the caller's promise; opening and duplicating descriptors are system calls.
    let child = unsafe {
        fork(|mut pipe| {
            if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
                libc::dup2(nowhere.as_raw_fd(), libc::STDERR_FILENO);
            }
            // The parent may have gone.
            let _ = pipe.write_all(&body());
        })
    }?;
    let mut children = [child];
    while children[0].open {
        if started.elapsed() > limit {
            return Ok(ChildAnswer::TimedOut);
        }
        receive(&mut children, Duration::from_millis(100));
    }
    let [mut child] = children;
    Ok(ChildAnswer::Said(std::mem::take(&mut child.received)))
}

/// Takes what the children say, waiting for at most `timeout`, less than a second.
pub fn receive(children: &mut [ForkedChild], timeout: Duration) {
    let mut open: Vec<&mut ForkedChild> = children.iter_mut().filter(|child| child.open).collect();
    let mut fds: Vec<PollFd<'_>> =
        open.iter().map(|child| PollFd::new(&child.pipe, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    if poll(&mut fds, Some(&timeout)).is_err() {
        return;
    }
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    for (child, _) in open.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
        let mut buffer = [0; 16 << 10];
        match child.pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => child.open = false,
            Ok(n) => child.received.extend_from_slice(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_answers_crashes_or_is_killed_at_its_limit() {
        let ask = |limit, body: fn() -> Vec<u8>| {
            // SAFETY: the bodies use the allocator and system calls only.
            unsafe { ask_child(limit, body) }.unwrap()
        };
        let long = Duration::from_secs(60);
        assert_eq!(ask(long, || vec![7; 100_000]), ChildAnswer::Said(vec![7; 100_000]));
        assert_eq!(ask(long, || std::process::abort()), ChildAnswer::Said(Vec::new()));
        assert_eq!(ask(long, || panic!("not seen")), ChildAnswer::Said(Vec::new()));
        let endless = || loop {
            std::thread::park();
        };
        assert_eq!(ask(Duration::from_millis(150), endless), ChildAnswer::TimedOut);
    }

    #[test]
    fn children_say_something_and_end() {
        let mut children: Vec<ForkedChild> = (0..3u8)
            .map(|number| {
                // SAFETY: the body makes a system call only.
                unsafe { fork(move |mut pipe| drop(pipe.write_all(&[number; 5]))) }.unwrap()
            })
            .collect();
        while children.iter().any(ForkedChild::is_open) {
            receive(&mut children, Duration::from_millis(100));
        }
        let said: Vec<&[u8]> = children.iter().map(ForkedChild::received).collect();
        assert_eq!(said, [[0; 5], [1; 5], [2; 5]]);
    }

    #[test]
    fn a_child_that_is_busy_is_killed() {
        // SAFETY: the body does nothing but wait.
        let child = unsafe {
            fork(|_| {
                loop {
                    std::thread::park()
                }
            })
        }
        .unwrap();
        let pid = child.pid;
        drop(child);
        // SAFETY: signal 0 only asks whether the process is there.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }
}
