//! Hardware errors and throttling in the record: which counters could be read, and what they counted since boot and
//! during the measurements.

use super::Status;
use crate::{Seconds, TransfersPerSec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of an event that the hardware or its driver counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum HardwareEvent {
    /// Memory error that ECC did not correct.
    MemoryUncorrected,
    /// Memory error that ECC corrected.
    MemoryCorrected,
    /// Machine-check exception or deferred error: an error that the processor did not correct.
    MachineCheck,
    /// Interrupt about errors that the processor corrected.
    MachineCheckCorrected,
    /// Reduction of the clock because of the temperature.
    ThermalThrottle,
    /// Reduction of the clock because of a power limit.
    PowerThrottle,
    /// PCI Express error after which the link must be reset.
    PcieFatal,
    /// PCI Express error that lost a transaction.
    PcieNonfatal,
    /// PCI Express error that the link corrected by a repetition.
    PcieCorrected,
    /// Error of an InfiniBand port.
    Network,
    /// Kind that this version does not know.
    #[serde(other)]
    Other,
}

impl HardwareEvent {
    /// Returns the validity of figures that were measured while such an event was counted; `None`
    /// if the event does not affect validity.
    pub fn figure_status(self) -> Option<Status> {
        match self {
            Self::MemoryUncorrected | Self::MachineCheck | Self::PcieFatal => Some(Status::Invalid),
            Self::MemoryCorrected
            | Self::MachineCheckCorrected
            | Self::ThermalThrottle
            | Self::PcieNonfatal
            | Self::PcieCorrected
            | Self::Network => Some(Status::Suspect),
            // Processors reach their power limit in normal operation.
            Self::PowerThrottle | Self::Other => None,
        }
    }

    /// True if the event concerns only data on a link to a device, a network or a disk.
    pub fn is_link_event(self) -> bool {
        matches!(self, Self::PcieFatal | Self::PcieNonfatal | Self::PcieCorrected | Self::Network)
    }

    /// Returns the plural noun for such events.
    pub fn plural_name(self) -> &'static str {
        match self {
            Self::MemoryUncorrected => "uncorrected memory errors",
            Self::MemoryCorrected => "corrected memory errors",
            Self::MachineCheck => "machine-check exceptions",
            Self::MachineCheckCorrected => "corrected machine checks",
            Self::ThermalThrottle => "thermal throttling events",
            Self::PowerThrottle => "power throttling events",
            Self::PcieFatal => "fatal PCIe errors",
            Self::PcieNonfatal => "uncorrected PCIe errors",
            Self::PcieCorrected => "corrected PCIe errors",
            Self::Network => "InfiniBand errors",
            Self::Other => "hardware events",
        }
    }
}

/// Property of a counter because of which the number of events is uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CounterNote {
    /// The counter is at its maximum and counts no further events.
    Saturated,
    /// The counter was reset during the interval, e.g. by loading its driver again; the number is a lower bound.
    Reset,
    /// The counter passed its maximum once and continued at 0.
    Wrapped,
}

impl CounterNote {
    /// Returns the words that follow the number of events.
    fn in_words(self) -> &'static str {
        match self {
            Self::Saturated => " (the counter is at its maximum)",
            Self::Reset => " (at least: the counter was reset)",
            Self::Wrapped => " (the counter wrapped)",
        }
    }
}

/// Number of events that one component counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventCount {
    /// Kind of the events.
    pub kind: HardwareEvent,
    /// Component that counts the events: a memory module by the driver's name, a PCI address, or a
    /// port.
    pub component: String,
    /// Slot of the memory module in the firmware's list (SMBIOS); absent if the driver's name
    /// cannot be assigned to a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Number of events.
    pub events: u64,
    /// Property of the counter because of which the number is uncertain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<CounterNote>,
}

impl EventCount {
    /// Returns the location of the counter: the slot if it is known, otherwise the component.
    pub fn location(&self) -> &str {
        self.slot.as_deref().unwrap_or(&self.component)
    }
}

impl fmt::Display for EventCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = self.kind.plural_name();
        let what = if self.events == 1 { plural.trim_end_matches('s') } else { plural };
        let note = self.note.map_or("", CounterNote::in_words);
        write!(f, "{} {what}{note}: ", self.events)?;
        match &self.slot {
            Some(slot) => write!(f, "{slot} ({})", self.component),
            None => f.write_str(&self.component),
        }
    }
}

/// State of a source of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceState {
    /// The counters were read.
    Read,
    /// The kernel has no such counters, because the hardware or the driver is missing.
    Absent,
    /// There are counters that this process cannot read.
    Unreadable,
}

/// Source of counters, with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerSource {
    /// Name of the source, e.g. `EDAC`.
    pub name: String,
    /// State of the source.
    pub state: SourceState,
    /// First file that cannot be read, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// PCI Express link that uses fewer lanes than both of its ends support.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NarrowLink {
    /// PCI address of the device.
    pub address: String,
    /// Number of lanes in use.
    pub width: u32,
    /// Number of lanes that both the device and the slot support.
    pub most_width: u32,
}

impl fmt::Display for NarrowLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} uses {} of {} PCIe lanes", self.address, self.width, self.most_width)
    }
}

/// PCI Express link at a lower rate than both of its ends support. This is normal for an idle
/// accelerator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowLink {
    /// PCI address of the device.
    pub address: String,
    /// Current rate, transfers per second and lane.
    pub transfers_per_s: TransfersPerSec,
    /// Rate that both the device and the slot support, transfers per second and lane.
    pub most_transfers_per_s: TransfersPerSec,
}

impl fmt::Display for SlowLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.transfers_per_s.0 / 1e9;
        let max = self.most_transfers_per_s.0 / 1e9;
        write!(f, "{} runs at {now} of {max} GT/s", self.address)
    }
}

/// Ledger of hardware errors and throttling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Sources of counters, and which of them could be read. If no source could be read, the number
    /// of events is unknown.
    pub sources: Vec<LedgerSource>,
    /// Counters above zero at the end of the run: events since boot, or since the driver was loaded.
    #[serde(default)]
    pub since_boot: Vec<EventCount>,
    /// Events during the measurements of this record.
    #[serde(default)]
    pub during: Vec<EventCount>,
    /// Counters that could be read before the measurements but not after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vanished: Vec<String>,
    /// Links that use fewer lanes than both of their ends support.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrow_links: Vec<NarrowLink>,
    /// Links at a lower rate than both of their ends support.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_links: Vec<SlowLink>,
    /// Time to read all counters once, in seconds.
    pub seconds: Seconds,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_text_names_slot() {
        let mut count = EventCount {
            kind: HardwareEvent::MemoryCorrected,
            component: "mc0 dimm3".to_owned(),
            slot: Some("DIMM_B1".to_owned()),
            events: 1,
            note: None,
        };
        assert_eq!(count.to_string(), "1 corrected memory error: DIMM_B1 (mc0 dimm3)");
        count.slot = None;
        count.events = 12;
        count.note = Some(CounterNote::Reset);
        assert_eq!(
            count.to_string(),
            "12 corrected memory errors (at least: the counter was reset): mc0 dimm3"
        );
    }

    #[test]
    fn unknown_event_kind_has_no_effect() {
        let kind: HardwareEvent = serde_json::from_str("\"gravity-wave\"").unwrap();
        assert_eq!((kind, kind.figure_status()), (HardwareEvent::Other, None));
        let known: HardwareEvent = serde_json::from_str("\"memory-corrected\"").unwrap();
        assert_eq!(known.figure_status(), Some(Status::Suspect));
    }
}
