//! The user's request to end the run. Long loops of the setup check it, in any thread of this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Flag that is set when the user requests the end of the run.
static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns the flag, for the handlers of signals.
pub fn end_request_flag() -> &'static Arc<AtomicBool> {
    REQUESTED.get_or_init(Arc::default)
}

/// True if the user requested the end of the run. A setup then ends early with an error.
pub fn is_end_requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// True if signals request the end of the run instead of ending this process at once.
pub(crate) fn is_end_handled() -> bool {
    REQUESTED.get().is_some()
}
