//! Evidence of interleaved measurements on devices that may fail during the run.

use crate::driver::DeviceError;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::series::Series;
use nodegauge_measure::samples::SamplesByRegime;
use nodegauge_measure::schedule::TurnFailure;

/// Evidence for the figures of all cells.
pub(crate) struct DeviceEvidence<'a> {
    pub site: &'a MeasuredNode,
    pub series: &'a Series,
    pub regime: &'a SamplesByRegime,
    /// Reason why the measurement ended.
    pub stopped: &'a String,
}

/// Conversion of a driver's failure to the loss of a target: a device that failed cannot be measured any more.
impl From<DeviceError> for TurnFailure {
    fn from(error: DeviceError) -> Self {
        Self::Target(error.into())
    }
}
