//! Keys of `config` of curves' measurements.

use nodegauge_arena::keys;
use nodegauge_measure::config;
use nodegauge_measure::keys::shared;

config! {
    /// Configuration of figures of `memory ladder`, `latency`, `matrix`, `loaded` and `mix`, and of the
    /// bandwidths and kernels of `roofline`.
    pub struct CurveConfig {
        engine: shared::engine;
        threads: shared::threads;
        places: shared::places;
        places_asked: shared::places_asked;
        bind: shared::bind;
        pages: keys::pages;
        numa: keys::numa;
        memory_policy: keys::memory_policy;
        element: shared::element;
        kernel: keys::kernel;
        distance: nodegauge_placement::keys::distance;
        array_bytes: shared::array_bytes;
        /// Bytes of the working set, of all threads together.
        set_bytes: u64 = Setting "set size";
        thread_bytes: shared::thread_bytes;
        /// NUMA node whose cores read.
        from_node: u64 = Setting "from node";
        /// NUMA node whose memory is read.
        to_node: u64 = Setting "to node";
        /// Reads for each group of writes.
        reads: u64 = Setting "reads";
        /// Writes for each group of reads.
        writes: u64 = Setting "writes";
        stores: shared::stores;
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
        basis: shared::basis;
        /// What the figure is.
        what: keys::what;
        /// The kernel as a formula.
        formula: shared::formula;
        isa: shared::isa;
        vector_bits: keys::vector_bits;
        unroll: shared::unroll;
        side_by_side: keys::side_by_side;
        /// How often a timed call goes over its set.
        repeats: u64 = Observation "repeats";
        /// Loads of a timed call.
        steps: u64 = Observation "steps";
        /// Seconds of a load of a line that was flushed from all caches.
        flushed_s: f64 = Observation "flushed";
        /// The level of the memory hierarchy that the figure belongs to.
        level: shared::level;
        /// Size of that level as the system reports it, bytes.
        level_reported_bytes: u64 = Observation "reported size of the level";
        flops_per_byte: shared::flops_per_byte;
        on_node: shared::on_node;
        /// The device whose memory the node is, by its place on the bus; not there for the host's memory.
        device_memory: String = Observation "memory of device";
        stopped: shared::stopped;
        round_trip_s: shared::round_trip_s;
    }
}
