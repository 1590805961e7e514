//! Check of the clock around measurements: figures are suspect if the clock ran at another rate than other sources of
//! time.

use nodegauge_machine::timekeeping::TimeReading;
use nodegauge_measure::Outcome;
use nodegauge_measure::record::Machine;

/// Sources of time before a measurement.
pub struct TimeWatch(TimeReading);

impl TimeWatch {
    /// Reads the sources of time before a measurement.
    pub fn begin() -> Self {
        Self(TimeReading::read())
    }

    /// Compares the sources of time after the measurement, and adds the differences to the reasons for doubt of all
    /// figures that were measured meanwhile.
    pub fn end(self, found: &mut Outcome, machine: &Machine) {
        for doubt in self.0.doubts(&machine.processor) {
            found.doubt_own_figures(&doubt);
        }
    }
}
