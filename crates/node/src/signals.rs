//! Ctrl-C, SIGTERM and SIGHUP: the first signal ends the measurement, and the results until then are saved; a second
//! Ctrl-C or SIGTERM ends the program immediately. A write that nobody reads ends some time after the first signal
//! (`nodegauge_os::write_all`).

use nodegauge_measure::Failure;
use nodegauge_os::{end_request, is_hangup_ignored};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with an error, like a write to a full disk, instead
/// of ending the program. A handler is used because child processes would inherit an ignored signal, but do not inherit
/// a handler.
pub fn survive_file_size_limit() {
    // Without the handler, such a write ends the program; nothing else changes.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Number of the latest signal that this process has handled.
static NUMBER: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Returns the signal that this process has handled, if any.
pub fn handled() -> Option<u8> {
    let number = NUMBER.get()?;
    Signals(Arc::clone(number)).received()
}

/// Signal received, if any.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Starts listening for signals.
    ///
    /// # Errors
    /// Fails if a handler cannot be registered.
    pub fn listen() -> Result<Self, Failure> {
        Self::register().map_err(|cause| Failure::missing("cannot listen for signals").cause(cause))
    }

    /// Registers the handlers of all signals.
    fn register() -> io::Result<Self> {
        let signals = Self(Arc::clone(NUMBER.get_or_init(Arc::default)));
        let again = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The shutdown handler is registered first, so that it sees the flag only at the second signal.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&again),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&again))?;
            signals.note(signal)?;
        }
        // Closing a terminal sends SIGHUP twice, from kernel and shell; the second signal must not end the program
        // immediately.
        if !is_hangup_ignored() {
            signals.note(SIGHUP)?;
        }
        Ok(signals)
    }

    /// Keeps the number of a signal when it arrives, and requests the end of everything that waits.
    fn note(&self, signal: i32) -> io::Result<()> {
        signal_hook::flag::register(signal, Arc::clone(end_request()))?;
        signal_hook::flag::register_usize(signal, Arc::clone(&self.0), signal as usize)?;
        Ok(())
    }

    /// Returns the received signal.
    pub fn received(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(number as u8),
        }
    }

    /// True if a signal was received.
    pub fn is_received(&self) -> bool {
        self.received().is_some()
    }
}
