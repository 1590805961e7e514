//! Configuration keys of the figures of noise.

use nodegauge_measure::keys::shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

nodegauge_measure::config! {
    /// Configuration of figures of `noise`.
    pub struct NoiseConfig including of: shared::HostConfig {
        threads: shared::threads;
        cpus: shared::cpus;
        /// Time of a pass of the loop, seconds. It is the resolution of the measurement.
        pass_s: f64 = Observation "pass";
        /// Minimum duration of a pass that counts as a detour, seconds.
        detour_s: f64 = Observation "shortest detour";
        /// Number of detours on all CPUs.
        detours: u64 = Observation "detours";
        /// Number of detours per second and CPU.
        detours_per_s: f64 = Observation "detours per second";
        /// Number of detours by length: element i counts those from 2^i to less than 2^(i+1) nanoseconds.
        histogram: Vec<u64> = Observation "detours by length";
        /// Sources that ran on the node during the measurement, by events per second and CPU.
        sources: Vec<NoiseSource> = Observation "sources";
        /// Effect on a barrier after each quantum of computation.
        barrier: Vec<BarrierPoint> = Observation "barrier";
        /// Quantum of computation between two barriers, seconds.
        quantum_s: f64 = Observation "quantum";
        stopped: shared::stopped;
    }
}

/// Kernel counter that increased while the loop ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseSource {
    /// Kind: `interrupt`, `softirq`, `steal`, or `task`.
    pub kind: String,
    /// Name, e.g. `LOC: Local timer interrupts`.
    pub name: String,
    /// Events per second and measuring CPU; for `steal`, the share of the time.
    pub per_s: f64,
}

/// Slowdown of a program with barriers on some hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarrierPoint {
    /// Number of hosts like this one.
    pub hosts: u64,
    /// Expected time between two barriers, divided by the quantum.
    pub slowdown: f64,
}
