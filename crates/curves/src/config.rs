//! Keys of `config` of curves' measurements.

use nodegauge_arena::{NumaConfig, PagesConfig};
use nodegauge_measure::config;

config! {
    /// Configuration of figures of `memory ladder`, `latency`, `matrix`, `loaded` and `mix`, and of the
    /// bandwidths and kernels of `roofline`.
    pub struct CurveConfig {
        /// Whose loops: always `native`.
        engine: String = Setting "engine" @ 26, speaks;
        /// Threads that measure together.
        threads: u64 = Setting "threads" @ 20;
        /// CPUs on which each thread may run, as the kernel says.
        places: Vec<Vec<u32>> = Setting "places";
        /// Places as they were asked for, as in `OMP_PLACES`.
        places_asked: String = Observation "places asked" @ 60;
        /// How threads are bound to places, as in `OMP_PROC_BIND`.
        bind: String = Setting "bind" @ 21;
        /// Pages of the memory.
        pages: PagesConfig = Setting "pages" @ 25;
        /// On which NUMA nodes the memory is.
        numa: NumaConfig = Setting "numa";
        /// The policy that the memory was given.
        memory_policy: String = Setting "memory policy" @ 59;
        /// Type of the elements.
        element: String = Identity "elements" @ 23;
        /// What the threads do: a kernel's name.
        kernel: String = Identity "kernel" @ 58, speaks;
        /// How two CPUs of a pair are related.
        distance: String = Identity "pairs" @ 29, speaks;
        /// Bytes of one array.
        array_bytes: u64 = Identity "array size" @ 22, speaks;
        /// Bytes of the working set, of all threads together.
        set_bytes: u64 = Setting "set size" @ 62;
        /// Bytes of the working set of one thread.
        thread_bytes: u64 = Setting "set of a thread";
        /// NUMA node whose cores read.
        from_node: u64 = Setting "from node";
        /// NUMA node whose memory is read.
        to_node: u64 = Setting "to node";
        /// Reads for each group of writes.
        reads: u64 = Setting "reads";
        /// Writes for each group of reads.
        writes: u64 = Setting "writes";
        /// `regular` or `nontemporal`; absent for kernels that only read.
        stores: String = Setting "stores" @ 24;
        /// Threads that load the memory while one measures latency.
        loaders: u64 = Setting "loaders";
        /// Bytes that each of them reads.
        loader_bytes: u64 = Setting "loader size";
        /// Share of full rate at which they are told to read, 0 to 1.
        load_share: f64 = Observation "load share";
        /// Pause between their pieces, seconds.
        wait_s: f64 = Observation "wait";
        /// Distance between two loads of a chain, bytes.
        stride_bytes: u64 = Setting "stride";
        /// Bytes within which a chain stays before it goes on, or `whole`.
        locality: String = Setting "locality";
        /// What the figure is made of, where it is not a measurement of its own.
        basis: String = Observation "basis";
        /// What the figure is.
        what: String = Observation "what";
        /// The kernel as a formula.
        formula: String = Observation "formula";
        /// Instruction set of the loop.
        isa: String = Choice "isa";
        /// Width of its vectors.
        vector_bits: u64 = Observation "vector bits";
        /// How often its body is repeated.
        unroll: u64 = Observation "unroll";
        /// Pages of 4 KiB that it walks side by side; absent where it is one after another.
        side_by_side: u64 = Observation "pages side by side";
        /// How often a timed call goes over its set.
        repeats: u64 = Observation "repeats";
        /// Loads of a timed call.
        steps: u64 = Observation "steps";
        /// Seconds of a load of a line that was flushed from all caches.
        flushed_s: f64 = Observation "flushed";
        /// The level of the memory hierarchy that the figure belongs to.
        level: String = Observation "level";
        /// Size of that level as the system reports it, bytes.
        level_reported_bytes: u64 = Observation "reported size of the level";
        /// Floating-point operations for each byte of the level.
        flops_per_byte: f64 = Observation "FLOP/B" @ 70;
        /// Share of the memory that is on the node that was asked for, 0 to 1.
        on_node: f64 = Observation "on node";
        /// The device whose memory the node is, by its place on the bus; not there for the host's memory.
        device_memory: String = Observation "memory of device";
        /// Why measuring ended.
        stopped: String = Observation "stopped";
        /// Core-to-core round trip of the regime of the figure, seconds.
        round_trip_s: f64 = Observation "round trip";
    }
}
