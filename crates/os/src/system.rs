//! Small queries of the system, and settings of signals.

use crate::call::check;
use std::ffi::OsString;
use std::io::Write;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::OnceLock;

/// Returns the size of a base page in bytes.
pub fn page_bytes() -> usize {
    // SAFETY: no memory is passed. Every Linux system reports its page size.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Returns the size of a transparent huge page in bytes: 2 MiB with base pages of 4 KiB, 512 MiB with base pages of 64
/// KiB, as on many Arm kernels. If the kernel does not support transparent huge pages, the size is derived from the
/// base page.
pub fn huge_page_bytes() -> usize {
    static HUGE: OnceLock<usize> = OnceLock::new();
    *HUGE.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let reported = text.ok().and_then(|text| text.trim().parse().ok());
        // A huge page replaces one page table. A page table is a base page with entries of 8 bytes.
        reported.unwrap_or_else(|| page_bytes() * (page_bytes() / 8))
    })
}

/// Memory of the machine as the system call reports it, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemMemory {
    /// Usable memory, in bytes.
    pub total: u64,
    /// Free memory, in bytes. It includes buffers of block devices, but not the page cache, although the kernel can
    /// drop the page cache.
    pub free: u64,
}

/// Returns the memory of the machine without `/proc`; `None` if the kernel does not report it.
pub fn system_memory() -> Option<SystemMemory> {
    let mut info = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel writes at most the structure.
    check("sysinfo", unsafe { libc::sysinfo(info.as_mut_ptr()) }).ok()?;
    // SAFETY: all-zero bytes are a valid structure, which the kernel has filled.
    let info = unsafe { info.assume_init() };
    let unit = u64::from(info.mem_unit).max(1);
    Some(SystemMemory {
        total: info.totalram.saturating_mul(unit),
        free: (info.freeram + info.bufferram).saturating_mul(unit),
    })
}

/// Returns the IDs of the calling process and of the calling thread.
pub fn process_and_thread_ids() -> (u32, u32) {
    // SAFETY: the call has no arguments and always succeeds.
    (std::process::id(), unsafe { libc::gettid() } as u32)
}

/// Returns the effective user ID of this process.
pub fn effective_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// True if this process runs as root. Some programs require an option for this.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if permissions and device control groups allow this process to open a file for reading and writing. The
/// file is not opened.
pub fn may_read_and_write(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// Returns the time in nanoseconds since an origin that is the same for all processes of this machine. This is the
/// clock of [`std::time::Instant`], which does not expose its value.
pub fn monotonic_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure; every Linux system has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Lowers the CPU priority of this process and of the processes that it starts later. On an idle node, this has no
/// effect.
pub fn lower_priority() {
    // The increment is the default of the command `nice`. A process that may not change its priority continues with the
    // old priority.
    let _ = rustix::process::nice(10);
}

/// Makes the kernel kill this process when its parent process `parent` ends.
pub fn end_with_parent(parent: u32) {
    // SAFETY: the calls change and query only settings of this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have ended before the call, so that the kernel would not kill this process.
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
    }
}

/// Ignores SIGINT, SIGTERM and SIGHUP, in a process whose parent handles these signals and ends the process. This
/// is necessary because a terminal sends Ctrl-C and hang-ups to all processes, and launchers forward signals to all
/// ranks.
pub fn ignore_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: an ignored signal runs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Interrupts this process with SIGHUP. The handler ends the measurement. Unlike SIGINT and SIGTERM, a SIGHUP after
/// another signal does not end the process immediately.
pub fn interrupt_this_process() {
    // SAFETY: the call sends a signal.
    unsafe { libc::kill(libc::getpid(), libc::SIGHUP) };
}

/// Calls `f` and restores the actions of SIGINT, SIGTERM and SIGHUP afterwards, because `f` may load libraries that
/// install signal handlers.
pub fn preserve_signal_actions<T>(f: impl FnOnce() -> T) -> T {
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    // SAFETY: the kernel fills each structure, for which zeros are a valid value; no action is set.
    let before = signals.map(|signal| unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let done = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        (done == 0).then_some(action)
    });
    let made = f();
    for (signal, action) in signals.into_iter().zip(before) {
        if let Some(action) = action {
            // SAFETY: the action is the previous action of this signal.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
    made
}

/// Returns the value of an environment variable. If `HOME` or an XDG variable names a folder that must not be
/// created, the variable counts as not set; see `may_hold_files`.
pub fn environment_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    may_hold_files(name, Path::new(&value), is_root()).then_some(value)
}

/// True unless the variable names a folder in which files of this user must not be stored. `HOME` must be an existing
/// folder: for services and users without a home folder, it names one that must not be created, e.g. Debian's
/// /nonexistent, or `/`. The folders of XDG variables must exist only for root, who could create any folder.
fn may_hold_files(name: &str, folder: &Path, is_root: bool) -> bool {
    let is_folder = || folder.is_absolute() && folder.is_dir();
    match name {
        "HOME" => is_folder() && folder != Path::new("/"),
        "XDG_DATA_HOME" | "XDG_CACHE_HOME" if is_root => is_folder(),
        _ => true,
    }
}

/// Removes write permission for group and others from files that this process creates later, regardless of its
/// umask.
pub fn deny_writes_to_new_files() {
    use rustix::fs::Mode;
    let before = rustix::process::umask(Mode::WOTH);
    rustix::process::umask(before | Mode::WOTH);
}

/// True if SIGHUP is ignored, as in programs that `nohup` starts.
pub fn is_hangup_ignored() -> bool {
    // SAFETY: the kernel fills the structure, for which zeros are a valid value; no action is set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let done = libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action);
        done == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Flushes standard output and ends the process without running the destructors of loaded libraries. Threads of a
/// driver may still run in these libraries, and some drivers crash in this case.
pub fn end_process(code: u8) -> ! {
    // A failure is ignored, because the reader of the output may have ended.
    let _ = std::io::stdout().flush();
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_does_not_create_missing_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (there, absent) = (folder.path(), folder.path().join("absent"));
        for is_root in [false, true] {
            assert!(may_hold_files("HOME", there, is_root));
            assert!(!may_hold_files("HOME", &absent, is_root));
            assert!(!may_hold_files("HOME", Path::new("/"), is_root), "of a daemon");
            assert!(!may_hold_files("HOME", Path::new("relative"), is_root));
            assert!(may_hold_files("XDG_DATA_HOME", there, is_root));
            assert_eq!(may_hold_files("XDG_DATA_HOME", &absent, is_root), !is_root);
            assert!(may_hold_files("NODEGAUGE_DB", &absent, is_root));
        }
    }

    #[test]
    fn signal_actions_are_restored_after_call() {
        // SIGHUP is used because no other test of this process changes its action. SAFETY: the kernel fills the
        // structure, for which zeros are a valid value; no action is set.
        let of = |signal| unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            action.sa_sigaction
        };
        let before = of(libc::SIGHUP);
        // Programs that nohup starts ignore the signal.
        let other = if before == libc::SIG_IGN { libc::SIG_DFL } else { libc::SIG_IGN };
        preserve_signal_actions(|| {
            // SAFETY: the new action runs no handler.
            unsafe { libc::signal(libc::SIGHUP, other) };
            assert_eq!(of(libc::SIGHUP), other);
        });
        assert_eq!(of(libc::SIGHUP), before);
    }
}
