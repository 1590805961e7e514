//! What the configuration of a figure may hold.

nodegauge_measure::config! {
    /// The device of a figure.
    pub struct DeviceConfig {
        /// Its driver and its place in the driver's list, e.g. `cuda:0`.
        device: String = Setting "device" @ 71, speaks;
        /// What its vendor calls it.
        device_name: String = Setting "device's name" @ 72, speaks;
        /// `cpu`, `gpu` or `accelerator`.
        class: String = Setting "class";
        /// Of a part of a device (MIG), what part it is.
        slice: String = Setting "slice";
        /// The driver's version.
        driver_version: String = Setting "driver";
        /// Where it is on the PCI bus.
        pci: String = Observation "PCI address";
        /// The vendor's unique name of it.
        uuid: String = Observation "UUID";
        /// Clock of its compute units behind the first and behind the last sample, Hz.
        clock_hz: Vec<f64> = Observation "clock";
        /// What held its clocks down behind the last sample.
        slowed_by: Vec<String> = Observation "slowed by";
        /// Why measuring ended.
        stopped: String = Observation "stopped";
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of STREAM's kernels on devices.
    pub struct DeviceStreamConfig including on: DeviceConfig {
        /// Whose loops: `native`, or a program such as `babelstream`.
        engine: String = Setting "engine" @ 26, speaks;
        /// The program's own version.
        engine_version: String = Setting "engine version" @ 45;
        /// Type of the elements.
        element: String = Identity "elements" @ 23;
        /// Bytes of one array.
        array_bytes: u64 = Identity "array size" @ 22, speaks;
        /// Size of an array over the device's last cache.
        array_times_llc: f64 = Observation "arrays over caches";
        /// Work-items of a group.
        group_items: u64 = Choice "work-items of a group";
        /// Vectors that a work-item has under way.
        vectors: u64 = Choice "vectors a work-item";
        /// Elements of a vector.
        vector_elements: u64 = Choice "elements of a vector";
        /// Groups that go on from tile to tile (grid-stride); absent where there is a group for each tile.
        strided_groups: u64 = Choice "groups";
        /// Loops of which the fastest was chosen.
        loops_tried: u64 = Observation "loops tried";
        /// Median time of the kernel by the device's clock, seconds.
        device_seconds: f64 = Observation "time by the device";
        /// The same by the host's, from the launch until the host knows that it is over.
        host_seconds: f64 = Observation "time by the host";
        /// How often all elements were checked.
        checks: u64 = Observation "checks";
        /// Elements that were not what they must be.
        wrong_elements: u64 = Observation "wrong elements";
        /// The greatest relative deviation of an element from the replay.
        worst_error: f64 = Observation "worst error";
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of copies between host and devices.
    pub struct LinkConfig including on: DeviceConfig {
        /// Whose copies: `native`, or a program such as `nvbandwidth`.
        engine: String = Setting "engine" @ 26, speaks;
        /// The program's own version.
        engine_version: String = Setting "engine version" @ 45;
        /// Bytes of a copy.
        message_bytes: u64 = Size "size" @ 28, speaks;
        /// The device at the other end.
        peer: String = Setting "other device" @ 75, speaks;
        /// `pinned` or `pageable`.
        host_memory: String = Setting "host memory" @ 73, speaks;
        /// NUMA node that the host's memory was bound to.
        host_node: u64 = Setting "NUMA node" @ 74;
        /// Share of it that lies there, as the kernel says.
        on_node: f64 = Observation "on the node";
        /// Devices that copy at once.
        devices: u64 = Setting "devices";
        /// Copies of a sample, each way.
        copies: u64 = Observation "copies a sample";
        /// Whose clock: `device` or `host`.
        clock: String = Setting "clock";
    }
}

nodegauge_measure::config! {
    /// Configuration of peaks of devices.
    pub struct DevicePeakConfig including on: DeviceConfig {
        /// Type of the numbers.
        element: String = Identity "elements" @ 23;
        /// Chains of multiply-adds of a work-item, side by side.
        chains: u64 = Choice "chains";
        /// Numbers of a vector.
        vector_elements: u64 = Choice "elements of a vector";
        /// Work-items of a group.
        group_items: u64 = Choice "work-items of a group";
        /// Groups.
        groups: u64 = Choice "groups";
        /// Of products of matrices, their order.
        n: u64 = Identity "order" @ 39;
        /// The library that multiplied.
        library: String = Setting "library";
        /// The greatest deviation from what must come out, relatively.
        worst_error: f64 = Observation "worst error";
    }
}
