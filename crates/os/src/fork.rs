//! Workers that are forked processes, each with a pipe to the parent process.

use crate::call::{SysError, check};
use crate::helpers::remaining_helper_time;
use crate::system::end_with_parent;
use crate::wait::{Wait, timespec, wait_for_event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Forked child process, with the bytes received from it. The child is killed and reaped when this value is dropped.
#[derive(Debug)]
pub struct ForkedChild {
    pid: libc::pid_t,
    pipe: File,
    received: Vec<u8>,
    open: bool,
    status: Option<ExitStatus>,
}

impl ForkedChild {
    /// True if the child can still send bytes, because its end of the pipe is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.pid as u32
    }

    /// Waits for the end of the child and returns its exit status.
    pub fn wait(&mut self) -> ExitStatus {
        *self.status.get_or_insert_with(|| {
            let mut status = 0;
            // SAFETY: only this value reaps the child, so that its process ID is still valid.
            while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } < 0
                && SysError::last("waitpid").errno == libc::EINTR
            {}
            ExitStatus::from_raw(status)
        })
    }

    /// Returns the bytes received so far.
    pub fn received(&self) -> &[u8] {
        &self.received
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        if self.open && self.status.is_none() {
            // SAFETY: the child has not been reaped, so that its process ID is still valid.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
        self.wait();
    }
}

/// Forks a child process, which runs `body` with its end of a pipe and then exits. The child is killed when its parent
/// ends. It ignores Ctrl-C, which the parent handles.
///
/// # Errors
/// Fails if the kernel cannot create a pipe or a process.
///
/// # Safety
/// Only the calling thread continues in the child. `body` may use existing memory, system calls, and the allocator,
/// which the C library keeps usable in the child of a process with threads. `body` must not wait for another thread or
/// take a lock that another thread may hold.
pub unsafe fn fork(body: impl FnOnce(File)) -> Result<ForkedChild, SysError> {
    let ends = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|error| SysError { call: "pipe2", errno: error.raw_os_error() })?;
    let reader = File::from(ends.0);
    let writer = File::from(ends.1);
    let parent = std::process::id();
    // SAFETY: the caller guarantees the requirements. The child ends below without running the exit handlers of the
    // parent.
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
    end_with_parent(parent);
    // SAFETY: these are plain system calls.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
    }
    // A panic must not unwind into the code of the parent.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(writer)));
    // SAFETY: the call ends the process immediately, without the exit handlers, which belong to the parent.
    unsafe { libc::_exit(i32::from(done.is_err())) }
}

/// Checks that this process has only one thread. The body of a [`fork`] then has no restrictions. Without `/proc`,
/// the number of threads is unknown, and the caller must not have started any thread.
///
/// # Errors
/// Fails if this process has other threads (`EBUSY`).
pub fn check_single_threaded() -> Result<(), SysError> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) | Err(_) => Ok(()),
        Ok(_) => Err(SysError { call: "fork", errno: libc::EBUSY }),
    }
}

/// Result of [`ask_child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildAnswer {
    /// Bytes that the child sent before it ended; incomplete or empty if the child crashed.
    Answered(Vec<u8>),
    /// The child was killed because it reached a limit.
    TimedOut,
}

/// Limits of [`ask_child`].
#[derive(Debug, Clone, Copy)]
pub struct AnswerLimits {
    /// Maximum elapsed time.
    pub elapsed: Duration,
    /// Maximum CPU time, whole seconds; `None` for no limit. Other load on the machine does not count.
    pub cpu_seconds: Option<u64>,
}

impl AnswerLimits {
    /// Returns these limits for a library or driver that is loaded on trial, shortened to the budget of the user;
    /// see [`remaining_helper_time`].
    #[must_use]
    pub fn for_helper(self) -> Self {
        Self { elapsed: remaining_helper_time(self.elapsed), ..self }
    }
}

/// Runs `body` in a forked child process and returns the bytes that `body` returns. Use it for code that may crash
/// or never end. The error output of the child is discarded.
///
/// # Errors
/// Fails if the kernel cannot create a pipe or a process.
///
/// # Safety
/// The requirements of [`fork`] apply.
pub unsafe fn ask_child(
    limits: AnswerLimits,
    body: impl FnOnce() -> Vec<u8>,
) -> Result<ChildAnswer, SysError> {
    let started = Instant::now();
    // SAFETY: the caller guarantees the requirements; opening and duplicating descriptors are system calls.
    let child = unsafe {
        fork(|mut pipe| {
            if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
                libc::dup2(nowhere.as_raw_fd(), libc::STDERR_FILENO);
            }
            if let Some(seconds) = limits.cpu_seconds {
                let limit = Rlimit { current: Some(seconds), maximum: Some(seconds + 1) };
                // A failure is ignored, because the elapsed time is limited, too.
                let _ = setrlimit(Resource::Cpu, limit);
            }
            // A failure is ignored, because the parent may have ended.
            let _ = pipe.write_all(&body());
        })
    }?;
    let mut children = [child];
    let left = limits.elapsed.saturating_sub(started.elapsed());
    let ended = wait_for_event(&Wait::within(left).every(left), |pause| {
        receive_from_children(&mut children, pause);
        (!children[0].open).then_some(())
    });
    if ended.is_err() {
        return Ok(ChildAnswer::TimedOut);
    }
    let [mut finished] = children;
    if finished.wait().signal() == Some(libc::SIGXCPU) {
        return Ok(ChildAnswer::TimedOut);
    }
    Ok(ChildAnswer::Answered(std::mem::take(&mut finished.received)))
}

/// Receives bytes from the child processes. Waits at most `timeout`.
pub fn receive_from_children(children: &mut [ForkedChild], timeout: Duration) {
    let mut open: Vec<&mut ForkedChild> = children.iter_mut().filter(|child| child.open).collect();
    let mut fds: Vec<PollFd<'_>> =
        open.iter().map(|child| PollFd::new(&child.pipe, PollFlags::IN)).collect();
    if poll(&mut fds, Some(&timespec(timeout))).is_err() {
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
    fn child_answer_is_empty_after_crash_and_absent_after_timeout() {
        let ask = |elapsed, body: fn() -> Vec<u8>| {
            let limits = AnswerLimits { elapsed, cpu_seconds: None };
            // SAFETY: the bodies use only the allocator and system calls.
            unsafe { ask_child(limits, body) }.unwrap()
        };
        let long = Duration::from_secs(60);
        assert_eq!(ask(long, || vec![7; 100_000]), ChildAnswer::Answered(vec![7; 100_000]));
        assert_eq!(ask(long, || std::process::abort()), ChildAnswer::Answered(Vec::new()));
        assert_eq!(ask(long, || panic!("not seen")), ChildAnswer::Answered(Vec::new()));
        let endless = || loop {
            std::thread::park();
        };
        assert_eq!(ask(Duration::from_millis(150), endless), ChildAnswer::TimedOut);
    }

    #[test]
    fn busy_child_is_killed_at_cpu_time_limit() {
        let hour = Duration::from_secs(3600);
        let limits = AnswerLimits { elapsed: hour, cpu_seconds: Some(1) };
        let busy = || loop {
            std::hint::spin_loop();
        };
        // SAFETY: the body makes no calls.
        assert_eq!(unsafe { ask_child(limits, busy) }.unwrap(), ChildAnswer::TimedOut);
    }

    #[test]
    fn output_of_forked_children_is_complete() {
        let mut children: Vec<ForkedChild> = (0..3u8)
            .map(|number| {
                // SAFETY: the body makes only a system call.
                unsafe { fork(move |mut pipe| drop(pipe.write_all(&[number; 5]))) }.unwrap()
            })
            .collect();
        while children.iter().any(ForkedChild::is_open) {
            receive_from_children(&mut children, Duration::from_millis(100));
        }
        let reported: Vec<&[u8]> = children.iter().map(ForkedChild::received).collect();
        assert_eq!(reported, [[0; 5], [1; 5], [2; 5]]);
    }

    #[test]
    fn forked_child_is_killed_on_drop() {
        // SAFETY: the body only waits.
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
        // SAFETY: signal 0 only checks whether the process exists.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }
}
