//! Ctrl-C, SIGTERM and SIGHUP: the first asks the gauge to end, so that what was measured is saved; a second
//! Ctrl-C or SIGTERM ends at once.

use nodegauge_os::hangup_is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Which signal has come, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let number = Arc::new(AtomicUsize::new(0));
        let again = Arc::new(AtomicBool::new(false));
        let listen = |signal| {
            signal_hook::flag::register_usize(signal, Arc::clone(&number), signal as usize)
        };
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal finds the flag that the first has set.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&again),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&again))?;
            listen(signal)?;
        }
        // A terminal that is closed sends it twice, by the kernel and by the shell: a second one is no haste.
        if !hangup_is_ignored() {
            listen(SIGHUP)?;
        }
        Ok(Self(number))
    }

    /// The signal that has come.
    pub(crate) fn received(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(number as u8),
        }
    }
}
