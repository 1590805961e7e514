//! Ctrl-C, SIGTERM and SIGHUP. The first signal ends the measurement, and the results so far are saved. A second Ctrl-C
//! or SIGTERM ends the program immediately. If no program reads the output, writing ends some time after the first
//! signal (`nodegauge_os::write_all`).

use nodegauge_measure::Failure;
use nodegauge_os::{end_request_flag, is_hangup_ignored};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Sets a handler for SIGXFSZ. A write beyond the file size limit (`ulimit -f`) then fails with an error, as on a full
/// disk, and does not end the program. The signal is not ignored, because child processes would inherit that.
pub fn survive_file_size_limit() {
    // If the handler cannot be set, such a write ends the program.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Number of the last signal that this process has handled.
static NUMBER: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Returns the last signal that this process has handled; `None` if there was none.
pub fn handled_signal() -> Option<u8> {
    let number = NUMBER.get()?;
    Signals(Arc::clone(number)).received_signal()
}

/// Receiver of signals; stores the number of the received signal.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Starts to listen for signals.
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
            // The handler for the second signal is registered first, so that at the first signal, the flag is not yet
            // set when this handler runs.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&again),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&again))?;
            signals.note(signal)?;
        }
        // Closing a terminal sends SIGHUP twice, from the kernel and from the shell; the second one must not end the
        // program immediately.
        if !is_hangup_ignored() {
            signals.note(SIGHUP)?;
        }
        Ok(signals)
    }

    /// Stores the number of a signal when it arrives, and requests that all waits end.
    fn note(&self, signal: i32) -> io::Result<()> {
        signal_hook::flag::register(signal, Arc::clone(end_request_flag()))?;
        signal_hook::flag::register_usize(signal, Arc::clone(&self.0), signal as usize)?;
        Ok(())
    }

    /// Returns the received signal.
    pub fn received_signal(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(number as u8),
        }
    }

    /// True if a signal was received.
    pub fn is_received(&self) -> bool {
        self.received_signal().is_some()
    }
}
