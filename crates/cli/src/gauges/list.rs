//! List of all gauges in page order, which is used to run, show, compare, describe and fuzz them.

use nodegauge_curves::Curves;
use nodegauge_gauge::Gauge;
use nodegauge_stream::Stream;

/// Number of gauges in the list.
const COUNT: usize = 16;

/// All gauges of the program.
pub(crate) const GAUGES: [&dyn Gauge; COUNT] = with_stream(&PLAIN_STREAM);

static PLAIN_STREAM: Stream = Stream::PLAIN;

/// Returns all gauges, with `stream` as the STREAM gauge.
pub(crate) const fn with_stream(stream: &Stream) -> [&dyn Gauge; COUNT] {
    [
        stream,
        &Curves,
        &nodegauge_compute::ComputeGauge,
        &nodegauge_messages::Messages,
        &nodegauge_files::Files,
        &nodegauge_noise::Noise,
        &nodegauge_devices::Devices,
        &nodegauge_apps::Apps,
        &nodegauge_programs::Programs,
        &nodegauge_roofline::RooflineGauge,
        &nodegauge_outputs::MEMORY,
        &nodegauge_outputs::COMPUTE,
        &nodegauge_outputs::MESSAGES,
        &nodegauge_outputs::FILES,
        &nodegauge_outputs::DEVICE,
        &nodegauge_outputs::NETWORK,
    ]
}
