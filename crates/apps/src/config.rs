//! What the configuration of a figure may hold.

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
