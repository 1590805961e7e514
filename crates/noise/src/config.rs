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
        /// Minimum time of a pass that counts as a detour, seconds.
        detour_s: f64 = Observation "shortest detour";
        /// Number of detours on all CPUs.
        detours: u64 = Observation "detours";
        /// Number of detours per second and CPU.
        detours_per_s: f64 = Observation "detours per second";
        /// Number of detours by length: element i counts those of at least 2^i and less than 2^(i+1) nanoseconds.
        histogram: Vec<u64> = Observation "detours by length";
        /// Sources that ran on the measuring CPUs during the measurement.
        sources: Vec<NoiseSource> = Observation "sources";
        /// Predicted slowdown by a barrier after each quantum of computation.
        barrier: Vec<BarrierPoint> = Observation "barrier";
        /// Quantum of computation between two barriers, seconds.
        quantum_s: f64 = Observation "quantum";
        /// Measuring CPUs on which the kernel stops its periodic timer while a single task runs (`nohz_full=`).
        tickless_cpus: Vec<u32> = Observation "tickless cpus";
        /// True if irqbalance runs, the daemon that moves interrupts among CPUs.
        irqbalance: bool = Observation "irqbalance";
        stopped: shared::stopped;
    }
}

/// Counter of the kernel that grew while the loop ran, on the measuring CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseSource {
    /// Kind: `interrupt`, `softirq`, `steal`, `kernel thread`, or `task` of a process.
    pub kind: String,
    /// Name, e.g. `LOC: Local timer interrupts`.
    pub name: String,
    /// Events per second on all measuring CPUs. For a task, an event is each time that the task begins to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    /// Mean time of an event, seconds; absent if the kernel only counts the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_s: Option<f64>,
    /// Share of the time of the measuring CPUs; absent if the kernel only counts the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Number of recorded detours that are about as long as a mean event, divided by the number of events; at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<f64>,
}

/// Slowdown of a program with barriers on some hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarrierPoint {
    /// Number of hosts like this one.
    pub hosts: u64,
    /// Expected time between two barriers, divided by the quantum.
    pub slowdown: f64,
}
