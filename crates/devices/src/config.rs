//! Configuration keys of the figures of devices.

use crate::keys;
use nodegauge_arena::keys as memory;
use nodegauge_measure::keys::shared;

nodegauge_measure::config! {
    /// Device of a figure.
    pub struct DeviceConfig {
        /// Driver of the device and index in the driver's list, e.g. `cuda:0`.
        device: String = Setting "device", omits_label;
        device_name: shared::device_name;
        /// Class of the device: `cpu`, `gpu` or `accelerator`.
        class: String = Setting "class";
        /// MIG slice of a GPU; absent for a whole device.
        slice: String = Setting "slice";
        /// Version of the driver.
        driver_version: String = Setting "driver";
        /// Address on the PCI bus.
        pci: String = Observation "PCI address";
        /// Unique identifier that the vendor assigned.
        uuid: String = Observation "UUID";
        /// Clock of the compute units after the first and after the last sample, Hz.
        clock_hz: shared::clock_hz as Observation of Vec<f64> = "read before and after the samples";
        /// Reasons for reduced clocks after the last sample.
        slowed_by: Vec<String> = Observation "slowed by";
        stopped: shared::stopped;
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of STREAM's kernels on devices.
    pub struct DeviceStreamConfig including on: DeviceConfig {
        /// Origin of the loops: `native`, or a program such as `babelstream`.
        engine: shared::engine;
        engine_version: shared::engine_version;
        element: shared::element;
        arrays: shared::arrays;
        array_bytes: shared::array_bytes;
        /// Size of an array divided by the size of the device's last cache.
        array_times_llc: shared::array_times_llc;
        /// Pages of the arrays of a CPU; absent if the driver allocated them.
        pages: memory::pages;
        group_items: keys::group_items;
        /// Vectors in flight per work-item.
        vectors: u64 = Choice "vectors per work-item";
        vector_elements: keys::vector_elements;
        /// Number of groups of a grid-stride loop; absent if there is one group per tile.
        strided_groups: u64 = Choice "groups";
        loops_tried: shared::loops_tried;
        /// Median time of the kernel by the device's clock, seconds.
        device_seconds: f64 = Observation "time by the device's clock";
        /// Median time of the kernel by the host's clock, from the launch until completion is known, seconds.
        host_seconds: f64 = Observation "time by the host's clock";
        checks: shared::checks;
        /// Number of elements that deviate from the replay on the host by more than the tolerance.
        wrong_elements: u64 = Observation "wrong elements";
        /// Largest relative deviation of an element from the replay on the host.
        worst_error: keys::worst_error;
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of copies between host and devices.
    pub struct LinkConfig including on: DeviceConfig {
        /// Origin of the copies: `native`, or a program such as `nvbandwidth`.
        engine: shared::engine;
        engine_version: shared::engine_version;
        /// Bytes per copy.
        message_bytes: shared::message_bytes;
        /// Device at the other end.
        peer: String = Setting "other device", omits_label;
        /// `pinned` or `pageable`.
        host_memory: String = Setting "host memory", omits_label;
        /// NUMA node to which the host's memory was bound.
        host_node: u64 = Setting "NUMA node";
        on_node: shared::on_node;
        /// Number of devices that copy at the same time.
        devices: u64 = Setting "devices";
        /// Number of copies per sample and direction.
        copies: u64 = Observation "copies per sample";
        /// Clock that measured the times: `device` or `host`.
        clock: shared::clock;
    }
}

nodegauge_measure::config! {
    /// Configuration of peaks of devices.
    pub struct DevicePeakConfig including on: DeviceConfig {
        element: shared::element;
        /// Number of independent chains of multiply-adds per work-item.
        chains: u64 = Choice "chains";
        /// Number of elements per vector.
        vector_elements: keys::vector_elements;
        group_items: keys::group_items;
        groups: keys::groups;
        /// Order of the matrices of a product.
        n: shared::n;
        /// Library that computed the product.
        library: String = Setting "library";
        /// Largest relative deviation from the expected result.
        worst_error: keys::worst_error;
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of latency under load on devices.
    pub struct DeviceCurveConfig including on: DeviceConfig {
        element: shared::element;
        array_bytes: shared::array_bytes;
        set_bytes: memory::set_bytes;
        stride_bytes: memory::stride_bytes;
        reads: memory::reads;
        writes: memory::writes;
        load_share: memory::load_share;
        wait_s: memory::wait_s;
        group_items: keys::group_items;
        groups: keys::groups;
        /// Derivation of a figure that is not a measurement of its own.
        basis: shared::basis;
    }
}
