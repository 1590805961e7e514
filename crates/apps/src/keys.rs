//! Configuration keys that figures of several proxy applications share.

nodegauge_measure::keys! {
    /// Largest deviation of the result.
    error: f64 = Observation "error";
    /// Number of iterations.
    iterations: u64 = Observation "iterations";
    /// Time of the set-up, seconds.
    setup_s: f64 = Observation "setup";
    /// Memory traffic of an iteration, bytes.
    moved_bytes: u64 = Observation "bytes moved";
}
