//! Configuration keys that several tests of devices share.

nodegauge_measure::keys! {
    /// Number of work-items per group; absent if the driver selects it.
    group_items: u64 = Choice "work-items per group";
    /// Number of groups.
    groups: u64 = Choice "groups";
    /// Number of elements per vector.
    vector_elements: u64 = Choice "elements per vector";
    /// Largest relative deviation of a result.
    worst_error: f64 = Observation "worst error";
}
