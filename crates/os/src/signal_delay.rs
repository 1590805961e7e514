//! Delay of signals that would end this process while a child process runs.
//!
//! A child in its own process group does not receive Ctrl-C from the terminal. If this process has no handler for the
//! signal, it would end, and the child would continue. [`SignalDelay`] catches such a signal. The thread that waits for
//! the child then kills it, and the signal takes effect when the last delay ends. Signals that the program handles or
//! ignores are not changed.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Signals by which users and systems end a program.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Number of the signal that was caught; 0 if no signal was caught.
static CAUGHT: AtomicI32 = AtomicI32::new(0);
/// Number of active delays in all threads.
static DELAYS: Mutex<usize> = Mutex::new(0);

/// Active delay of signals, which ends when this value is dropped.
#[derive(Debug)]
pub struct SignalDelay(());

impl Default for SignalDelay {
    fn default() -> Self {
        Self::new()
    }
}

impl SignalDelay {
    /// Starts a delay of the signals that have their default action.
    pub fn new() -> Self {
        let mut delays = DELAYS.lock().unwrap_or_else(PoisonError::into_inner);
        if *delays == 0 {
            exchange_handlers(libc::SIG_DFL, catch as *const () as libc::sighandler_t);
        }
        *delays += 1;
        Self(())
    }

    /// True if a signal was caught and will take effect at the end of the delay.
    pub(crate) fn has_caught_signal(&self) -> bool {
        CAUGHT.load(Ordering::Relaxed) != 0
    }
}

impl Drop for SignalDelay {
    fn drop(&mut self) {
        let mut delays = DELAYS.lock().unwrap_or_else(PoisonError::into_inner);
        *delays -= 1;
        if *delays > 0 {
            return;
        }
        exchange_handlers(catch as *const () as libc::sighandler_t, libc::SIG_DFL);
        let signal = CAUGHT.swap(0, Ordering::Relaxed);
        if signal != 0 {
            // SAFETY: the call sends a signal to this thread.
            unsafe { libc::raise(signal) };
        }
    }
}

extern "C" fn catch(signal: libc::c_int) {
    CAUGHT.store(signal, Ordering::Relaxed);
}

/// Sets the handler `to` for each signal whose handler is `from`.
fn exchange_handlers(from: libc::sighandler_t, to: libc::sighandler_t) {
    for signal in SIGNALS {
        // SAFETY: the kernel fills the structure, for which zeros are a valid value. The handler is the default action
        // or a function that only stores a number.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let done = libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if done == 0 && action.sa_sigaction == from {
                action.sa_sigaction = to;
                action.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}
