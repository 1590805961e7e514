//! Configuration keys that figures of several proxy applications share.

nodegauge_measure::keys! {
    /// Greatest deviation of the result.
    error: f64 = Observation "error";
    /// Iterations.
    iterations: u64 = Observation "iterations";
    /// Time to set up, seconds.
    setup_s: f64 = Observation "setup";
    /// Bytes that an iteration moves.
    moved_bytes: u64 = Observation "bytes moved";
}
