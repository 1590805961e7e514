//! What the configuration of a figure may hold.

use crate::keys;
use nodegauge_measure::keys::shared;

nodegauge_measure::config! {
    /// The device of a figure.
    pub struct DeviceConfig {
        /// Its driver and its place in the driver's list, e.g. `cuda:0`.
        device: String = Setting "device", speaks;
        device_name: shared::device_name;
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
        clock_hz: shared::clock_hz as Observation of Vec<f64> = "read before and after the samples";
        /// What held its clocks down behind the last sample.
        slowed_by: Vec<String> = Observation "slowed by";
        stopped: shared::stopped;
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of STREAM's kernels on devices.
    pub struct DeviceStreamConfig including on: DeviceConfig {
        /// Whose loops: `native`, or a program such as `babelstream`.
        engine: shared::engine;
        engine_version: shared::engine_version;
        element: shared::element;
        arrays: shared::arrays;
        array_bytes: shared::array_bytes;
        /// Size of an array over the device's last cache.
        array_times_llc: shared::array_times_llc;
        group_items: keys::group_items;
        /// Vectors that a work-item has under way.
        vectors: u64 = Choice "vectors a work-item";
        vector_elements: keys::vector_elements;
        /// Groups that go on from tile to tile (grid-stride); absent where there is a group for each tile.
        strided_groups: u64 = Choice "groups";
        loops_tried: shared::loops_tried;
        /// Median time of the kernel by the device's clock, seconds.
        device_seconds: f64 = Observation "time by the device";
        /// The same by the host's, from the launch until the host knows that it is over.
        host_seconds: f64 = Observation "time by the host";
        checks: shared::checks;
        /// Elements that were not what they must be.
        wrong_elements: u64 = Observation "wrong elements";
        /// The greatest relative deviation of an element from the replay.
        worst_error: keys::worst_error;
    }
}

nodegauge_measure::config! {
    /// Configuration of figures of copies between host and devices.
    pub struct LinkConfig including on: DeviceConfig {
        /// Whose copies: `native`, or a program such as `nvbandwidth`.
        engine: shared::engine;
        engine_version: shared::engine_version;
        /// Bytes of a copy.
        message_bytes: shared::message_bytes;
        /// The device at the other end.
        peer: String = Setting "other device", speaks;
        /// `pinned` or `pageable`.
        host_memory: String = Setting "host memory", speaks;
        /// NUMA node that the host's memory was bound to.
        host_node: u64 = Setting "NUMA node";
        on_node: shared::on_node;
        /// Devices that copy at once.
        devices: u64 = Setting "devices";
        /// Copies of a sample, each way.
        copies: u64 = Observation "copies a sample";
        /// Whose clock: `device` or `host`.
        clock: shared::clock;
    }
}

nodegauge_measure::config! {
    /// Configuration of peaks of devices.
    pub struct DevicePeakConfig including on: DeviceConfig {
        element: shared::element;
        /// Chains of multiply-adds of a work-item, side by side.
        chains: u64 = Choice "chains";
        /// Numbers of a vector.
        vector_elements: keys::vector_elements;
        group_items: keys::group_items;
        /// Groups.
        groups: u64 = Choice "groups";
        /// Of products of matrices, their order.
        n: shared::n;
        /// The library that multiplied.
        library: String = Setting "library";
        /// The greatest deviation from what must come out, relatively.
        worst_error: keys::worst_error;
    }
}
