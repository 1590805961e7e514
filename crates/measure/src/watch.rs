//! What a gauge tells its user while it goes on, and what it asks. The command shows it on a
//! terminal; a gauge prints nothing itself.

/// Listens to a gauge.
pub trait Watch {
    /// A new phase begins, in words: `preparing 3 arrays of 128 MiB`.
    fn phase(&mut self, what: &str);
    /// How much of the time of this phase has passed, 0 to 1, and the latest figures in words.
    fn progress(&mut self, share: f64, latest: &str);
    /// Whether the user wants to end.
    fn interrupted(&self) -> bool;
}

/// Nobody looks, and nobody wants to end: for tests and benchmarks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn phase(&mut self, _: &str) {}
    fn progress(&mut self, _: f64, _: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}
