//! Small questions to the system, and signals.

use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

/// Bytes in a page of the base size.
pub fn page_bytes() -> usize {
    // SAFETY: no memory is handed over. Every Linux knows its page size.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Bytes in a transparent huge page: 2 MiB with base pages of 4 KiB, 512 MiB with base pages of 64 KiB as
/// many Arm kernels have; where the kernel has none, what would be one with its base pages.
pub fn huge_page_bytes() -> usize {
    static HUGE: OnceLock<usize> = OnceLock::new();
    *HUGE.get_or_init(|| {
        let told = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let told = told.ok().and_then(|text| text.trim().parse().ok());
        // A table of the level above the base pages: entries of 8 bytes, a base page long.
        told.unwrap_or_else(|| page_bytes() * (page_bytes() / 8))
    })
}

/// The numbers of the calling process and thread.
pub fn process_and_thread() -> (u32, u32) {
    // SAFETY: no arguments, always succeeds.
    (std::process::id(), unsafe { libc::gettid() } as u32)
}

/// The effective user of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process runs as root, for which some programs ask for an option.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may open a file for reading and writing, as permissions and control groups of devices
/// have it; nothing is opened.
pub fn may_read_and_write(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// Nanoseconds since an origin that all processes of this machine share: the clock behind
/// [`std::time::Instant`], which does not give its number away.
pub fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure; every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Lets other programs that want a CPU have it before this process and those that it starts from now on; on an
/// idle node it changes nothing.
pub fn yield_to_others() {
    // As `nice` does by default. One that may not even do this goes on as it is.
    let _ = rustix::process::nice(10);
}

/// Has the kernel kill this process when `parent`, which started it, ends.
pub fn die_with_parent(parent: u32) {
    // SAFETY: settings and questions of this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // It may have ended before.
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
    }
}

/// Ignores SIGINT, SIGTERM and SIGHUP. Ctrl-C and the end of a terminal go to all processes of it, and
/// launchers pass signals on to all ranks; a process whose parent decides about the run's end leaves them to it.
pub fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: ignoring a signal runs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Runs `f`, which may load what catches signals, and has interrupts do again what they did before.
pub fn keep_interrupts<T>(f: impl FnOnce() -> T) -> T {
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    // SAFETY: the kernel fills each structure, for which zero is a value; no action is set.
    let before = signals.map(|signal| unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let done = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        (done == 0).then_some(action)
    });
    let made = f();
    for (signal, action) in signals.into_iter().zip(before) {
        if let Some(action) = action {
            // SAFETY: the action was that of this signal.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
    made
}

/// Whether SIGHUP is ignored, as `nohup` has it for the program that it starts.
pub fn hangup_is_ignored() -> bool {
    // SAFETY: the kernel fills the structure, for which zero is a value; no action is set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let done = libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action);
        done == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Ends the process with what was printed, but without the destructors of libraries that it has loaded: threads of a
/// driver may still be at work in them, and some crash then.
pub fn leave(code: u8) -> ! {
    // Whoever reads may have gone.
    let _ = std::io::stdout().flush();
    // SAFETY: ends the process.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_catches_interrupts_meanwhile_does_so_no_longer() {
        // SIGHUP: no other test of this process is about it.
        let of = |signal| unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        };
        let before = of(libc::SIGHUP);
        keep_interrupts(|| {
            // SAFETY: ignoring a signal runs no handler.
            unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
            assert_eq!(of(libc::SIGHUP), libc::SIG_IGN);
        });
        assert_eq!(of(libc::SIGHUP), before);
        assert_ne!(before, libc::SIG_IGN);
    }
}
