//! Accelerators and network adapters of a node in the record. Unknown values are `null` or absent.

use super::TheoreticalValue;
use crate::{BytesPerSec, Hertz, TransfersPerSec, Watts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Purpose of a device: computing or networking.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// Accelerator with the PCI class of a display controller.
    Gpu,
    /// Other accelerator, such as a Xeon Phi.
    Coprocessor,
    /// Network adapter that bypasses the kernel (InfiniBand, RoCE, Slingshot, EFA).
    Network,
}

impl DeviceKind {
    /// Returns the name in records.
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
    /// Purpose of the device.
    pub kind: DeviceKind,
    /// PCI address, e.g. `0000:1b:00.0`.
    pub address: String,
    /// Vendor and device ID, e.g. `10de:2335`.
    pub identification: String,
    /// Vendor of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Product name as the driver reports it; without such a report, the name in the list of PCI
    /// devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names in the operating system: `card1`, `renderD128`, `mlx5_0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Unique identifier of this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// NUMA node of the host to which the device is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Hardware threads of the host that are near the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Memory of the device: size, technology and errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<DeviceMemory>,
    /// PCI Express link of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<PciLink>,
    /// Name of the kernel driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver, if the driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// State that the driver reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeviceState>,
    /// Network adapters near the device, by their names in the operating system, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NearbyNetworkAdapter>,
    /// Reasons why this process cannot use the device; empty if none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

impl Device {
    /// True if the device executes kernels; false for network adapters.
    pub fn is_accelerator(&self) -> bool {
        self.kind != DeviceKind::Network
    }

    /// Returns the product name; if it is unknown, the vendor and the IDs.
    pub fn title(&self) -> String {
        let made =
            || self.vendor.as_ref().map(|vendor| format!("{vendor} {}", self.identification));
        self.name.clone().or_else(made).unwrap_or_else(|| self.identification.clone())
    }
}

/// Memory of a device: size, technology and errors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceMemory {
    /// Size of the memory in bytes.
    pub bytes: Option<u64>,
    /// Technology of the memory: `HBM3`, `GDDR6`, ...
    pub technology: Option<String>,
    /// Theoretical bandwidth of the memory, B/s.
    pub theoretical: Option<TheoreticalValue>,
    /// NUMA node of the host that consists of the device's memory, on machines with coherent devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// True if ECC is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// Number of memory errors corrected since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected_errors: Option<u64>,
    /// Number of uncorrectable memory errors since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
}

/// A PCI Express link: current rate and width, and the maximum that both the device and the slot support.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PciLink {
    /// Current rate, transfers per second and lane.
    pub transfers_per_s: Option<TransfersPerSec>,
    /// Number of lanes in use.
    pub width: Option<u32>,
    /// Maximum rate that both the device and the slot support, transfers per second and lane.
    pub most_transfers_per_s: Option<TransfersPerSec>,
    /// Maximum number of lanes that both the device and the slot support.
    pub most_width: Option<u32>,
    /// Bandwidth in one direction, including packet headers, B/s.
    pub bytes_per_s: Option<BytesPerSec>,
}

impl PciLink {
    /// True if fewer lanes are in use than both the device and the slot support.
    pub fn is_narrow(&self) -> bool {
        matches!((self.width, self.most_width), (Some(now), Some(max)) if now < max)
    }

    /// True if the current rate is below the maximum that the device and the slot support. This is normal for an idle
    /// device.
    pub fn is_slow(&self) -> bool {
        let both = self.transfers_per_s.zip(self.most_transfers_per_s);
        both.is_some_and(|(now, max)| now < max)
    }

    /// Returns the PCI Express generation with this transfer rate, e.g. `5.0`.
    fn generation(rate: TransfersPerSec) -> Option<&'static str> {
        let rates = [2.5e9, 5e9, 8e9, 16e9, 32e9, 64e9];
        let names = ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"];
        rates.iter().position(|known| *known == rate.0).map(|at| names[at])
    }

    /// Returns the bandwidth in one direction. The encoding is 8b/10b up to 5 GT/s and 128b/130b up to 32 GT/s. Above
    /// 32 GT/s, flits of 256 B carry 242 B of payload.
    pub fn bandwidth(transfers: TransfersPerSec, width: u32) -> BytesPerSec {
        let share = match transfers.0 {
            slow if slow <= 5e9 => 0.8,
            fast if fast <= 32e9 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        BytesPerSec(transfers.0 / 8.0 * share * f64::from(width))
    }

    /// Describes the link: `PCIe 5.0 x16, 63.0 GB/s each way`.
    pub fn in_words(&self) -> String {
        let generation = self.transfers_per_s.and_then(Self::generation);
        let mut text = format!("PCIe{}", generation.map(|of| format!(" {of}")).unwrap_or_default());
        text.extend(self.width.map(|width| format!(" x{width}")));
        text.extend(self.bytes_per_s.map(|rate| format!(", {rate} each way")));
        if self.is_narrow() || self.is_slow() {
            let max =
                self.most_transfers_per_s.and_then(Self::generation).map(|of| format!(" {of}"));
            let lanes = self.most_width.map(|width| format!(" x{width}"));
            text += &format!(" (of PCIe{}{})", max.unwrap_or_default(), lanes.unwrap_or_default());
        }
        text
    }
}

/// State of a device as its driver reports it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceState {
    /// Current clock of the processors, Hz.
    pub hz: Option<Hertz>,
    /// Maximum clock of the processors, Hz.
    pub most_hz: Option<Hertz>,
    /// Current clock of the memory, Hz.
    pub memory_hz: Option<Hertz>,
    /// Maximum clock of the memory, Hz.
    pub most_memory_hz: Option<Hertz>,
    /// Reasons why the clocks are currently reduced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled_by: Vec<String>,
    /// Current power limit, W.
    pub watts: Option<Watts>,
    /// Maximum power limit that the vendor permits, W.
    pub most_watts: Option<Watts>,
    /// Partitioning as the driver describes it: `CPX/NPS4`, `MIG: 7 slices`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Number of other processes that have allocated memory on the device.
    pub others: Option<u32>,
}

/// A network adapter near a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearbyNetworkAdapter {
    /// Name of the adapter in the operating system.
    pub name: String,
    /// True if both devices are below one PCIe switch, so that transfers between them bypass the processor.
    pub same_switch: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_text_has_generation_and_lanes() {
        let link = |now: f64, width, max: f64, most_width| PciLink {
            transfers_per_s: Some(TransfersPerSec(now)),
            width: Some(width),
            most_transfers_per_s: Some(TransfersPerSec(max)),
            most_width: Some(most_width),
            bytes_per_s: Some(PciLink::bandwidth(TransfersPerSec(now), width)),
        };
        let full = link(32e9, 16, 32e9, 16);
        assert_eq!(full.in_words(), "PCIe 5.0 x16, 63.02 GB/s each way");
        assert!(!full.is_narrow() && !full.is_slow());
        let narrow = link(16e9, 8, 32e9, 16);
        assert_eq!(narrow.in_words(), "PCIe 4.0 x8, 15.75 GB/s each way (of PCIe 5.0 x16)");
        assert!(narrow.is_narrow() && narrow.is_slow());
        // The link uses 8b/10b encoding; the next link uses flits of 256 B.
        assert_eq!(PciLink::bandwidth(TransfersPerSec(5e9), 16), BytesPerSec(8e9));
        assert_eq!(PciLink::bandwidth(TransfersPerSec(64e9), 16), BytesPerSec(121e9));
        assert_eq!(PciLink::default().in_words(), "PCIe");
    }
}
