//! List of all gauges in page order, which is used to run, show, compare, describe and fuzz them.

use nodegauge_curves::CurveGauge;
use nodegauge_gauge::Gauge;
use nodegauge_stream::StreamGauge;

/// Number of gauges in the list.
const COUNT: usize = 16;

/// All gauges of the program.
pub(crate) const GAUGES: [&dyn Gauge; COUNT] = with_stream(&STREAM_GAUGE);

static STREAM_GAUGE: StreamGauge = StreamGauge::WITH_DEFAULT_VIEW;

/// Returns all gauges, with `stream` as the STREAM gauge.
pub(crate) const fn with_stream(stream: &StreamGauge) -> [&dyn Gauge; COUNT] {
    [
        stream,
        &CurveGauge,
        &nodegauge_compute::ComputeGauge,
        &nodegauge_messages::MessageGauge,
        &nodegauge_files::FileGauge,
        &nodegauge_noise::NoiseGauge,
        &nodegauge_devices::DeviceGauge,
        &nodegauge_apps::AppGauge,
        &nodegauge_programs::ProgramGauge,
        &nodegauge_roofline::RooflineGauge,
        &nodegauge_outputs::MEMORY,
        &nodegauge_outputs::COMPUTE,
        &nodegauge_outputs::MESSAGES,
        &nodegauge_outputs::FILES,
        &nodegauge_outputs::DEVICE,
        &nodegauge_outputs::NETWORK,
    ]
}
