//! Alternate measurements on devices, which may fail during the run.

use crate::driver::DeviceError;
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Latest, Schedule, Turn};
use nodegauge_measure::{Failure, Observer};

/// Measures all cells alternately. Returns the reason why the measurement ended, or the failure of a device. Samples
/// that were taken before the failure are kept.
///
/// # Errors
/// Returns the device's failure if no cell has samples beyond its warm-up.
pub(crate) fn run(
    schedule: &mut Schedule,
    observer: &mut dyn Observer,
    latest: Option<Latest<'_>>,
    turn: impl FnMut(Turn) -> Result<Vec<Sample>, DeviceError>,
) -> Result<(Option<Stop>, Option<Failure>), Failure> {
    match schedule.run(observer, latest, turn) {
        Ok(stop) => Ok((Some(stop), None)),
        Err(error) if schedule.samples.iter().all(|of| of.len() < 2) => Err(error.into()),
        Err(error) => Ok((None, Some(error.into()))),
    }
}
