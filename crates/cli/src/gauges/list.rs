//! The gauges, in the order of a page: the one list that runs, shows, compares, describes and fuzzes them.

use nodegauge_gauge::Gauge;

/// All gauges.
pub(crate) const GAUGES: [&dyn Gauge; 7] = [
    &nodegauge_memory::Memory::PLAIN,
    &nodegauge_compute::ComputeGauge,
    &nodegauge_messages::Messages,
    &nodegauge_files::Files,
    &nodegauge_devices::Devices,
    &nodegauge_apps::Apps,
    &nodegauge_gauge::roofline::RooflineGauge,
];
