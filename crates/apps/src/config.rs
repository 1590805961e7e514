//! What the configuration of a figure may hold.

use nodegauge_measure::quantity::counted;
use nodegauge_team::Workers;
use serde_json::{Map, Value};

nodegauge_measure::config! {
    /// Who worked: threads of one process, or processes of one thread each.
    pub struct WorkersConfig {
        /// Threads, of all processes together.
        threads: u64 = Setting "threads" @ 20;
        /// How they are bound to places, as in `OMP_PROC_BIND`.
        bind: String = Setting "bind" @ 21;
        /// Processes that work together; absent for threads of one.
        processes: u64 = Setting "processes" @ 51;
        /// Places as they were asked for, or how ranks were placed.
        places_asked: String = Setting "places asked" @ 60;
        /// CPUs of each worker; none where it is not bound.
        cpus: Vec<Vec<u32>> = Setting "CPUs";
        /// Number of the numactl policy of ranks, 0 to 5.
        policy: u64 = Setting "numactl policy";
    }
}

impl WorkersConfig {
    /// Describes workers in the record.
    pub(crate) fn of(workers: &Workers) -> Self {
        let together = workers.together();
        let count = workers.count() as u64;
        Self {
            threads: Some(count),
            bind: Some(together.bind.to_string()),
            processes: workers.are_processes().then_some(count),
            places_asked: Some(together.places),
            cpus: workers.bound_cpus(),
            policy: workers.policy().map(u64::from),
        }
    }

    /// `2 threads`, `4 ranks, policy 3`.
    pub(crate) fn in_words(&self) -> String {
        let count = self.threads.unwrap_or(0) as usize;
        let noun = if self.processes.is_some() { "rank" } else { "thread" };
        let policy = self.policy.map_or_else(String::new, |policy| format!(", policy {policy}"));
        counted(count, noun) + &policy
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of `apps trapezoid`.
    pub struct TrapezoidConfig including on: WorkersConfig {
        /// Intervals that the sum goes over.
        n: u64 = Identity "intervals" @ 39;
        /// Instruction set of the loop.
        isa: String = Choice "instruction set";
        /// Median time of a sum, seconds.
        seconds: f64 = Observation "seconds";
        /// Sums in a sample, one after another.
        sums: u64 = Observation "sums a sample";
        /// The greatest distance of a sum from pi.
        error: f64 = Observation "error";
        /// What of it the rule and rounding explain.
        error_allowed: f64 = Observation "error allowed";
        /// Of a ratio, what it is held against.
        against: String = Observation "against";
        /// Why measuring ended.
        stopped: String = Observation "stopped";
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of `apps hpcg`, and of what xhpcg printed.
    pub struct HpcgConfig including on: WorkersConfig {
        /// `native`, or `xhpcg`.
        engine: String = Setting "engine" @ 26, speaks;
        /// The reference program's version.
        version: String = Setting "version" @ 44;
        /// Its whole command.
        command: String = Observation "command";
        /// Points of a domain in each direction.
        grid: Vec<usize> = Setting "grid";
        /// Equations: points of the whole grid.
        n: u64 = Identity "order" @ 39;
        /// Domains in each direction.
        domains: Vec<usize> = Setting "domains";
        /// Instruction set of the loops.
        isa: String = Choice "instruction set";
        /// Software prefetch of the loops: `off`, or how far ahead, bytes.
        prefetch: String = Choice "prefetch" @ 61;
        /// Iterations of a set.
        iterations: u64 = Observation "iterations";
        /// Residual behind them over that before.
        residual: f64 = Observation "residual";
        /// Sets, the warm-up among them.
        sets: u64 = Observation "sets";
        /// Departure from symmetry of the product and of the multigrid cycle, by HPCG's scale; 1 is allowed.
        symmetry: Vec<f64> = Observation "departure from symmetry";
        /// Iterations with a great diagonal, alone and preconditioned.
        spectral_iterations: Vec<u64> = Observation "iterations with a great diagonal";
        /// Time to set up, seconds; a tenth of it counts in each set.
        setup_s: f64 = Observation "setup";
        /// Matrix and vectors.
        matrix_bytes: u64 = Observation "matrix and vectors";
        /// The value of each axis of a sweep.
        sweep: Map<String, Value> = Observation "sweep" @ 56;
        /// Of a ratio, what it is held against.
        against: String = Observation "against";
        /// Bytes that an iteration moves, by what its loops read and write.
        moved_bytes: u64 = Observation "bytes an iteration";
        /// The same a second, of all sets.
        moved_bytes_per_s: f64 = Observation "bytes a second";
        /// Why measuring ended.
        stopped: String = Observation "stopped";
    }
}
