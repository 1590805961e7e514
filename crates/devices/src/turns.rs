//! Turns on devices, which may fail in the middle.

use crate::driver::DeviceError;
use nodegauge_measure::repeat::Stop;
use nodegauge_measure::samples::Sample;
use nodegauge_measure::schedule::{Latest, Schedule, Turn};
use nodegauge_measure::{Failure, Observer};

/// Lets all cells have their turns: why they ended, or the failure of a device behind samples that are kept.
///
/// # Errors
/// The device's failure where no cell has more than its warm-up.
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
