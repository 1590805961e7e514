//! Effect of the device's error counts and clocks before and after the measurement on the validity of its figures.

use crate::config::DeviceConfig;
use crate::info::{DeviceClass, DeviceInfo, DeviceReading};
use nodegauge_measure::record::{Status, Validity};

/// Minimum relative decrease of the clock that is reported.
const MIN_CLOCK_DROP: f64 = 0.03;

/// States of a device: before the measurement, after the first round, and after the last round.
#[derive(Debug, Clone, Default)]
pub struct DeviceStates {
    before: Option<DeviceReading>,
    warm: Option<DeviceReading>,
    after: Option<DeviceReading>,
}

impl DeviceStates {
    /// Creates the list with the state before the measurement.
    pub fn new(before: Option<DeviceReading>) -> Self {
        Self { before, ..Self::default() }
    }

    /// Records the state after a round.
    pub fn record_state(&mut self, now: Option<DeviceReading>) {
        if self.warm.is_none() {
            self.warm.clone_from(&now);
        }
        self.after = now;
    }

    /// Returns the configuration keys that describe the device and its state.
    pub fn config(&self, info: &DeviceInfo) -> DeviceConfig {
        let clocks = [&self.warm, &self.after].into_iter().flatten();
        let clocks: Vec<f64> = clocks.filter_map(|state| Some(state.clock?.0)).collect();
        let slowed = self.after.as_ref().map(|state| state.slowed_by.clone());
        DeviceConfig {
            clock_hz: Some(clocks).filter(|clocks| clocks.len() == 2),
            slowed_by: slowed.filter(|causes| !causes.is_empty()),
            ..info.config()
        }
    }

    /// Adds what affects the figures: uncorrectable memory errors make them invalid; corrected errors and other
    /// processes on the device make them suspect; a decreased clock is only reported.
    pub fn judge(&self, id: &str, validity: &mut Validity) {
        let Some((before, after)) = self.before.as_ref().zip(self.after.as_ref()) else { return };
        if let Some(errors) = increase(before.uncorrected, after.uncorrected) {
            validity.mark_invalid(format!(
                "{id}: {errors} uncorrectable memory errors during the measurement"
            ));
        }
        if let Some(errors) = increase(before.corrected, after.corrected) {
            validity.mark_suspect(format!(
                "{id}: {errors} corrected memory errors during the measurement"
            ));
        }
        let clocks = self.warm.as_ref().and_then(|warm| warm.clock).zip(after.clock);
        if let Some((from, to)) = clocks.filter(|(from, to)| to.0 < from.0 * (1.0 - MIN_CLOCK_DROP))
        {
            let cause = if after.slowed_by.is_empty() {
                "; the driver reports no cause".to_owned()
            } else {
                format!(": {}", after.slowed_by.join(", "))
            };
            validity
                .add(Status::Valid, format!("{id}: the clock dropped from {from} to {to}{cause}"));
        }
        if let Some(others) = before.others.max(after.others).filter(|others| *others > 0) {
            validity.mark_suspect(match others {
                1 => format!("{id}: another process uses the device"),
                n => format!("{id}: {n} other processes use the device"),
            });
        }
    }
}

/// Returns the increase of a counter, if it is known and not zero.
fn increase(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?)).filter(|more| *more > 0)
}

impl DeviceInfo {
    /// Returns the configuration keys that describe the device.
    pub fn config(&self) -> DeviceConfig {
        DeviceConfig {
            device: Some(self.id()),
            device_name: Some(self.name.clone()),
            class: Some(self.class.name().to_owned()),
            slice: self.slice.clone(),
            driver_version: Some(self.driver_version.clone()),
            pci: self.pci.clone(),
            uuid: self.uuid.clone(),
            ..DeviceConfig::default()
        }
    }
}

impl DeviceClass {
    /// Returns the name of the device class in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Accelerator => "accelerator",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Hertz;

    #[test]
    fn device_state_is_judged_by_changes_during_the_run() {
        let state = |corrected, uncorrected, mhz: f64| DeviceReading {
            clock: Some(Hertz(mhz * 1e6)),
            corrected: Some(corrected),
            uncorrected: Some(uncorrected),
            ..DeviceReading::default()
        };
        let judged = |after: DeviceReading| {
            let mut watched = DeviceStates::new(Some(state(7, 1, 300.0)));
            watched.record_state(Some(state(7, 1, 1980.0)));
            watched.record_state(Some(after));
            let mut validity = Validity::valid();
            watched.judge("cuda:0", &mut validity);
            validity
        };
        assert_eq!(judged(state(7, 1, 1980.0)), Validity::valid());
        assert_eq!(judged(state(9, 1, 1980.0)).status, Status::Suspect);
        assert_eq!(judged(state(9, 2, 1980.0)).status, Status::Invalid);
        let slow = DeviceReading { slowed_by: vec!["power limit".into()], ..state(7, 1, 1200.0) };
        let slow = judged(slow);
        assert_eq!(slow.status, Status::Valid);
        assert_eq!(
            slow.reasons,
            ["cuda:0: the clock dropped from 1.980 GHz to 1.200 GHz: power limit"]
        );
    }
}
