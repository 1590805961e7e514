//! Keys that figures of several tests of devices share.

nodegauge_measure::keys! {
    /// Work-items of a group.
    group_items: u64 = Choice "work-items of a group";
    /// Elements of a vector.
    vector_elements: u64 = Choice "elements of a vector";
    /// Greatest relative deviation of a result.
    worst_error: f64 = Observation "worst error";
}
