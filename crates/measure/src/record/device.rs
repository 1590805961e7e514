//! Accelerators and network adapters of a node, as the record keeps them. Unknown is `null` or not there.

use super::Figure;
use crate::BytesPerSec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a device is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// Computes, and has a display's class on the bus.
    Gpu,
    /// Computes otherwise, such as a Xeon Phi.
    Coprocessor,
    /// Sends messages past the kernel (InfiniBand, RoCE, Slingshot, EFA).
    Network,
}

impl DeviceKind {
    /// As the record has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Coprocessor => "coprocessor",
            Self::Network => "network",
        }
    }
}

/// A device on the PCI bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// What it is for.
    pub kind: DeviceKind,
    /// Its place on the bus, e.g. `0000:1b:00.0`.
    pub address: String,
    /// Numbers of its vendor and device, e.g. `10de:2335`.
    pub identification: String,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// What its driver, or else a list of devices, calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the system calls it: `card1`, `renderD128`, `mlx5_0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Number that tells it from all others of its make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The NUMA node of the host that it is near to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// The hardware threads that it is near to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Its own memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DeviceMemory>,
    /// How it is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<PciLink>,
    /// The kernel's driver for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The driver's version, where it says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// What its driver tells of its condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeviceState>,
    /// Network adapters near to it, by what the system calls them, the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NearNetwork>,
    /// Why this process cannot use it, each reason in words; empty where it can, as far as is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

impl Device {
    /// Whether it computes.
    pub fn computes(&self) -> bool {
        self.kind != DeviceKind::Network
    }

    /// Its name, or what is known of it where it has none.
    pub fn title(&self) -> String {
        let made =
            || self.vendor.as_ref().map(|vendor| format!("{vendor} {}", self.identification));
        self.name.clone().or_else(made).unwrap_or_else(|| self.identification.clone())
    }
}

/// Memory of a device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceMemory {
    /// Bytes.
    pub bytes: Option<u64>,
    /// `HBM3`, `GDDR6`, ...
    pub technology: Option<String>,
    /// What it can move at most, B/s.
    pub theoretical: Option<Figure>,
    /// The NUMA node of the host that it is, on coherent machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Whether errors are corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// Errors corrected since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_errors: Option<u64>,
    /// Errors that could not be corrected since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
}

/// A PCI Express link: what it runs at, and the most that both its ends can.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PciLink {
    /// Transfers per second of a lane.
    pub transfers_per_s: Option<f64>,
    /// Lanes.
    pub width: Option<u32>,
    /// Transfers per second of a lane that device and slot are capable of.
    pub most_transfers_per_s: Option<f64>,
    /// Lanes that device and slot have.
    pub most_width: Option<u32>,
    /// Bytes per second that it carries in one direction, packets' heads among them.
    pub bytes_per_s: Option<f64>,
}

impl PciLink {
    /// Whether lanes are not used that both ends have.
    pub fn is_narrow(&self) -> bool {
        matches!((self.width, self.most_width), (Some(now), Some(most)) if now < most)
    }

    /// Whether it runs slower than both ends can; devices at rest do.
    pub fn is_slow(&self) -> bool {
        let both = self.transfers_per_s.zip(self.most_transfers_per_s);
        both.is_some_and(|(now, most)| now < most)
    }

    /// The generation of PCI Express with this rate, as people say it: `5.0`.
    fn generation(transfers_per_s: f64) -> Option<&'static str> {
        let rates = [2.5e9, 5e9, 8e9, 16e9, 32e9, 64e9];
        let names = ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"];
        rates.iter().position(|rate| *rate == transfers_per_s).map(|at| names[at])
    }

    /// What is carried in one direction, B/s: 8b/10b to 5 GT/s, 128b/130b to 32 GT/s, then flits of 256 B
    /// with 242 B in them.
    pub fn rate(transfers_per_s: f64, width: u32) -> f64 {
        let share = match transfers_per_s {
            slow if slow <= 5e9 => 0.8,
            fast if fast <= 32e9 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        transfers_per_s / 8.0 * share * f64::from(width)
    }

    /// In words: `PCIe 5.0 x16, 63.0 GB/s each way`.
    pub fn in_words(&self) -> String {
        let generation = self.transfers_per_s.and_then(Self::generation);
        let mut text = format!("PCIe{}", generation.map(|of| format!(" {of}")).unwrap_or_default());
        text.extend(self.width.map(|width| format!(" x{width}")));
        text.extend(self.bytes_per_s.map(|rate| format!(", {} each way", BytesPerSec(rate))));
        if self.is_narrow() || self.is_slow() {
            let most =
                self.most_transfers_per_s.and_then(Self::generation).map(|of| format!(" {of}"));
            let lanes = self.most_width.map(|width| format!(" x{width}"));
            text += &format!(" (of PCIe{}{})", most.unwrap_or_default(), lanes.unwrap_or_default());
        }
        text
    }
}

/// What a driver tells of the condition of a device.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceState {
    /// Clock of its processors now, Hz.
    pub hz: Option<f64>,
    /// The most that this clock may be, Hz.
    pub most_hz: Option<f64>,
    /// Clock of its memory now, Hz.
    pub memory_hz: Option<f64>,
    /// The most that this clock may be, Hz.
    pub most_memory_hz: Option<f64>,
    /// What holds its clocks down now, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled_by: Vec<String>,
    /// Power that it may take, W.
    pub watts: Option<f64>,
    /// Power that its maker lets it take, W.
    pub most_watts: Option<f64>,
    /// How it is partitioned, in the driver's words: `CPX/NPS4`, `MIG: 7 slices`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Other processes that have memory of it.
    pub others: Option<u32>,
}

/// A network adapter near to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearNetwork {
    /// What the system calls it.
    pub name: String,
    /// Whether messages go to it through a switch of the bus, past the processor.
    pub same_switch: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_by_generation_lanes_and_what_they_lose() {
        let link = |now: f64, width, most: f64, most_width| PciLink {
            transfers_per_s: Some(now),
            width: Some(width),
            most_transfers_per_s: Some(most),
            most_width: Some(most_width),
            bytes_per_s: Some(PciLink::rate(now, width)),
        };
        let full = link(32e9, 16, 32e9, 16);
        assert_eq!(full.in_words(), "PCIe 5.0 x16, 63.02 GB/s each way");
        assert!(!full.is_narrow() && !full.is_slow());
        let narrow = link(16e9, 8, 32e9, 16);
        assert_eq!(narrow.in_words(), "PCIe 4.0 x8, 15.75 GB/s each way (of PCIe 5.0 x16)");
        assert!(narrow.is_narrow() && narrow.is_slow());
        // 8b/10b, and flits of 256 B.
        assert_eq!(PciLink::rate(5e9, 16), 8e9);
        assert_eq!(PciLink::rate(64e9, 16), 121e9);
        assert_eq!(PciLink::default().in_words(), "PCIe");
    }
}
