//! Terminal for the standard error of a program. The program shows its progress there, so a test can wait for an event
//! instead of a fixed time.

use crate::harness::timeout;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// Makes the terminal the controlling terminal of `command`, so that closing it sends SIGHUP.
pub fn make_its_own(command: &mut Command) {
    let lead = || {
        // SAFETY: the function makes only two system calls and uses no memory of this process.
        let done = unsafe { libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec, the function only makes system calls.
    unsafe { command.pre_exec(lead) };
}

/// Output that a terminal has received.
#[derive(Default)]
struct Screen {
    text: Mutex<(String, bool)>,
    changed: Condvar,
    closed: AtomicBool,
}

pub struct Terminal {
    screen: Arc<Screen>,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Creates a terminal; returns it with the file descriptor for the program.
    pub fn open() -> (Self, OwnedFd) {
        // The standard library opens the terminal, so that programs of other tests do not inherit it.
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        let ours = options.open("/dev/ptmx").unwrap();
        let size = libc::winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let descriptor = ours.as_raw_fd();
        // SAFETY: the descriptor is an open terminal, and `size` outlives the call.
        let theirs = unsafe {
            assert_eq!(libc::unlockpt(descriptor), 0);
            assert_eq!(libc::ioctl(descriptor, libc::TIOCSWINSZ, &raw const size), 0);
            libc::ioctl(descriptor, libc::TIOCGPTPEER, flags)
        };
        assert!(theirs >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the call succeeded, so the descriptor is open and has no other owner.
        let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
        let screen = Arc::new(Screen::default());
        let shown = Arc::clone(&screen);
        let reader = std::thread::spawn(move || shown.fill(ours));
        (Self { screen, reader }, theirs)
    }

    /// Waits until the program has shown `text` this many times.
    #[track_caller]
    pub fn wait_for(&self, text: &str, times: usize) {
        let deadline = Instant::now() + timeout();
        let mut screen = self.screen.text.lock().unwrap();
        while screen.0.matches(text).count() < times {
            let left = deadline.saturating_duration_since(Instant::now());
            if screen.1 || left.is_zero() {
                let shown = screen.0.replace(['\r', '\x1b'], "\n");
                drop(screen);
                panic!("expected on the terminal, {times} times: {text}\n--- shown\n{shown}---");
            }
            screen = self.screen.changed.wait_timeout(screen, left).unwrap().0;
        }
    }

    /// Closes the terminal when the program prints next, as if its window were closed.
    pub fn close(self) {
        self.screen.closed.store(true, Ordering::Relaxed);
        self.reader.join().unwrap();
    }

    /// Waits for the end of the program; returns the text on the terminal without the progress bar.
    pub fn rest(self) -> String {
        /// Escape sequence that clears a line of the terminal.
        const CLEAR_LINE: &str = "\x1b[2K";
        self.reader.join().unwrap();
        let screen = self.screen.text.lock().unwrap();
        let rest = screen.0.rsplit(CLEAR_LINE).next().unwrap_or_default();
        rest.replace('\r', "")
    }
}

impl Screen {
    /// Reads the output until all processes have closed the terminal.
    fn fill(&self, mut terminal: File) {
        let mut buffer = [0; 4096];
        loop {
            let read = terminal.read(&mut buffer).unwrap_or(0);
            let mut screen = self.text.lock().unwrap();
            screen.0.push_str(&String::from_utf8_lossy(&buffer[..read]));
            screen.1 = read == 0;
            self.changed.notify_all();
            if read == 0 || self.closed.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}
