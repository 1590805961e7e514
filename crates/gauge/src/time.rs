//! Check of the clock during measurements: figures are suspect if the rate of the clock differs from that of other
//! sources of time.

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

    /// Compares the sources of time after the measurement, and adds differences to the reasons for doubt of all figures
    /// measured since [`Self::begin`].
    pub fn end(self, found: &mut Outcome, machine: &Machine) {
        for doubt in self.0.doubts(&machine.processor) {
            found.doubt_own_figures(&doubt);
        }
    }
}
