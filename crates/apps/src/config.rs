//! Configuration keys of figures of applications.

use crate::keys;
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_team::Workers;

nodegauge_measure::config! {
    /// Workers: threads of one process, or processes with one thread each.
    pub struct WorkersConfig including of: shared::HostConfig {
        threads: shared::threads;
        bind: shared::bind;
        /// Number of processes that work together; absent for threads of one process.
        processes: shared::processes;
        /// Places as requested, or the placement of the ranks.
        places_asked: shared::places_asked;
        cpus: shared::cpus;
        /// Number of the placement policy of ranks (numactl), 0 to 5.
        policy: u64 = Setting "numactl policy";
    }
}

impl WorkersConfig {
    /// Describes workers for the record.
    pub(crate) fn from_workers(workers: &Workers) -> Self {
        let together = workers.all_threads();
        let count = workers.count() as u64;
        let hosts = workers.hosts().map(|hosts| hosts.names.clone());
        Self {
            of: shared::HostConfig { hosts, ..shared::HostConfig::default() },
            threads: Some(count),
            bind: Some(together.bind.to_string()),
            processes: workers.are_processes().then_some(count),
            places_asked: Some(together.places),
            cpus: workers.bound_cpus(),
            policy: workers.policy_number().map(u64::from),
        }
    }

    /// Formats the workers: `2 threads`, `4 ranks, policy 3`, `4 ranks of 16 threads`.
    pub(crate) fn in_words(&self) -> String {
        let threads = self.threads.unwrap_or(0);
        let of_rank = self.processes.filter(|ranks| *ranks > 0).map(|ranks| threads / ranks);
        if let (Some(ranks), Some(of_rank @ 2..)) = (self.processes, of_rank) {
            return format!("{} of {of_rank} threads", count_in_words(ranks as usize, "rank"));
        }
        let count = threads as usize;
        let noun = if self.processes.is_some() { "rank" } else { "thread" };
        let policy = self.policy.map_or_else(String::new, |policy| format!(", policy {policy}"));
        let hosts = self.of.hosts.as_ref().map(|hosts| format!(" on {} hosts", hosts.len()));
        count_in_words(count, noun) + &policy + &hosts.unwrap_or_default()
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of `apps trapezoid`.
    pub struct TrapezoidConfig including on: WorkersConfig {
        /// Number of intervals of the sum.
        n: shared::n;
        isa: shared::isa;
        /// Median time of a sum, seconds.
        seconds: shared::seconds;
        /// Number of consecutive sums per sample.
        sums: u64 = Observation "sums per sample";
        /// Largest difference between a sum and pi.
        error: keys::error;
        /// Largest error that the rule and rounding can cause.
        error_allowed: f64 = Observation "error allowed";
        against: shared::against;
        stopped: shared::stopped;
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of `apps hpcg`, and of those that xhpcg printed.
    pub struct HpcgConfig including on: WorkersConfig {
        /// Program: `native` or `xhpcg`.
        engine: shared::engine;
        version: shared::version;
        command: shared::command;
        /// Number of points of a domain in each direction.
        grid: Vec<usize> = Setting "grid";
        /// Number of equations: the points of the whole grid.
        n: shared::n;
        /// Number of domains in each direction.
        domains: Vec<usize> = Setting "domains";
        /// Stored column indices: one per `coefficient`, as HPCG's rules require, or one per `slot` of eight rows.
        columns: String = Setting "column index per";
        isa: shared::isa;
        prefetch: shared::prefetch;
        /// Number of iterations of a set.
        iterations: keys::iterations;
        /// Residual after the iterations divided by the residual before them.
        residual: shared::residual;
        /// Number of sets, including the warm-up.
        sets: u64 = Observation "sets";
        /// Asymmetry of the product and of the multigrid cycle, on HPCG's scale; at most 1 is allowed.
        symmetry: Vec<f64> = Observation "departure from symmetry";
        /// Number of iterations with a large diagonal, without and with the preconditioner.
        spectral_iterations: Vec<u64> = Observation "iterations with a large diagonal";
        /// Set-up time, seconds; a tenth of it is added to the time of each set.
        setup_s: keys::setup_s;
        /// Memory of matrix and vectors, bytes.
        matrix_bytes: shared::matrix_bytes;
        sweep: shared::sweep;
        against: shared::against;
        /// Memory traffic of an iteration in bytes, computed from the loops' reads and writes.
        moved_bytes: keys::moved_bytes;
        /// Memory traffic of all sets, B/s.
        moved_bytes_per_s: f64 = Observation "bytes per second";
        stopped: shared::stopped;
    }
}
