//! Configuration keys of figures of the user's program.

use nodegauge_measure::keys::shared;

nodegauge_measure::config! {
    /// Configuration of figures of `sweep`.
    pub struct ProgramConfig {
        program: shared::program;
        /// Regular expression whose group matches the figure in the output of the program.
        pattern: String = Identity "figure";
        /// Value on each axis, as text: `policy 3, threads 4`.
        under: String = Setting "under", omits_label;
        sweep: shared::sweep;
        /// Number of threads of each rank, or of the process.
        threads: shared::threads;
        processes: shared::processes;
        /// CPUs of each rank, or of the process; absent if they are not bound.
        cpus: shared::cpus;
        /// Memory policy of each rank, or of the process.
        memory_policies: Vec<String> = Setting "memory policies";
        /// Environment variables that the sweep set.
        variables: Vec<String> = Observation "variables";
        /// Complete command, with the launcher.
        command: shared::command;
        /// Median elapsed time of a run, seconds.
        seconds: shared::seconds;
        rounds: shared::rounds;
        /// Verdict on the speed relative to the baseline: `faster`, `slower`, `no difference`, `cannot tell`.
        verdict: String = Observation "verdict";
        /// Smallest relative change that nine of ten such sweeps would detect.
        visible: f64 = Observation "detectable change";
        against: shared::against;
        stopped: shared::stopped;
    }
}
