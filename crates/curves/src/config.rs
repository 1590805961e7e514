//! Configuration keys of the figures of curves.

use nodegauge_arena::keys;
use nodegauge_chase::ChaseOrder;
use nodegauge_chase::traffic::WorkingSetLoop;
use nodegauge_measure::config;
use nodegauge_measure::keys::shared;

config! {
    /// Configuration of figures of `memory ladder`, `latency`, `matrix`, `loaded`, `mix`, `curves` and `scaling`, and
    /// of the bandwidths and kernels of `roofline`.
    pub struct CurveConfig including of: shared::HostConfig {
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
        set_bytes: keys::set_bytes;
        thread_bytes: shared::thread_bytes;
        /// NUMA node whose cores read.
        from_node: u64 = Setting "from node";
        /// NUMA node whose memory is read.
        to_node: u64 = Setting "to node";
        reads: keys::reads;
        writes: keys::writes;
        stores: shared::stores;
        /// Number of threads that load the memory while one thread measures latency.
        loaders: u64 = Setting "loaders";
        /// Bytes that each loading thread reads.
        loader_bytes: u64 = Setting "loader size";
        program: shared::program;
        cpus: shared::cpus;
        load_share: keys::load_share;
        wait_s: keys::wait_s;
        stride_bytes: keys::stride_bytes;
        /// Bytes of a block that a chain visits completely before the next block, or `whole`.
        locality: String = Setting "locality";
        /// Derivation of a figure that is not measured directly.
        basis: shared::basis;
        /// Description of the figure.
        what: keys::what;
        /// Formula of the kernel.
        formula: shared::formula;
        isa: shared::isa;
        vector_bits: keys::vector_bits;
        unroll: shared::unroll;
        side_by_side: keys::side_by_side;
        /// Number of passes over the set in a timed call.
        repeats: u64 = Observation "repeats";
        /// Number of loads in a timed call.
        steps: u64 = Observation "steps";
        /// Time of a load of a line that was flushed from all caches, on a page whose translation is in the TLB,
        /// seconds.
        flushed_s: f64 = Observation "flushed";
        /// Number of cache lines on which each pair of CPUs was measured, each on its own page, which one of the two
        /// CPUs touched first.
        lines: u64 = Observation "lines";
        /// Difference between the slowest and the fastest line of a pair, divided by the fastest; the value of a line
        /// is the median of its samples.
        line_spread: f64 = Observation "spread over lines";
        /// Level of the memory hierarchy that the figure belongs to.
        level: shared::level;
        /// Size of that level as the system reports it, bytes.
        level_reported_bytes: u64 = Observation "reported size of the level";
        /// Measured value of a predicted figure, in the unit of the figure.
        measured: f64 = Observation "measured";
        /// Number of cores at which a predicted loop saturates the memory.
        saturation: f64 = Observation "saturates at";
        flops_per_byte: shared::flops_per_byte;
        on_node: shared::on_node;
        /// Bus address of the device to which the memory of the NUMA node belongs; absent for the host's memory.
        device_memory: String = Observation "memory of device";
        /// Value that firmware (HMAT) reports for this access, in the unit of the figure.
        firmware: f64 = Observation "firmware";
        stopped: shared::stopped;
        round_trip_s: shared::round_trip_s;
    }
}

impl CurveConfig {
    /// Sets the keys that describe the order of a chase.
    pub(crate) fn add_order(&mut self, order: ChaseOrder) {
        self.stride_bytes = Some(order.stride as u64);
        self.locality = Some(order.locality.to_string());
    }

    /// Sets the keys that describe a loop.
    pub(crate) fn add_loop(&mut self, traffic: &WorkingSetLoop) {
        let spec = traffic.kernel().spec();
        let shape = traffic.variant().shape();
        self.kernel = Some(spec.name.to_owned());
        self.formula = Some(spec.formula.to_owned());
        self.stores = spec.writes.map(|_| shape.stores.name().to_owned());
        self.isa = Some(shape.isa.name().to_owned());
        self.vector_bits = Some(shape.isa.vector_bits().into());
        self.unroll = Some(shape.unroll.into());
        self.side_by_side = shape.side_by_side.above_one().map(u64::from);
        self.repeats = Some(traffic.repeats());
    }
}
