//! Catalog of accelerators, by PCI IDs and by name, with their memory and its maximum bandwidth. The data and their
//! sources are in `data/devices.toml`.

use nodegauge_measure::record::TheoreticalValue;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Entry of the catalog for a device.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceEntry {
    /// Name of the device as its driver reports it.
    pub name: String,
    /// PCI vendor and device IDs; empty if several devices share the same IDs.
    #[serde(default)]
    ids: Vec<String>,
    /// Words that the name of a device must contain.
    words: String,
    /// Memory technology: `HBM3`, `GDDR6`, ...
    pub memory: String,
    /// Memory size in bytes that the manufacturer specifies.
    pub bytes: Option<f64>,
    bandwidth: f64,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTables {
    sources: BTreeMap<String, String>,
    device: Vec<DeviceEntry>,
}

fn tables() -> &'static DeviceTables {
    static TABLES: OnceLock<DeviceTables> = OnceLock::new();
    TABLES.get_or_init(|| {
        toml::from_str(include_str!("../../data/devices.toml"))
            .expect("the embedded table is valid, as a test checks")
    })
}

impl DeviceEntry {
    /// Returns the maximum bandwidth of the memory in B/s, with its source.
    pub fn bandwidth(&self) -> TheoreticalValue {
        let source = tables().sources.get(&self.source).map_or(self.source.as_str(), |known| known);
        TheoreticalValue {
            value: self.bandwidth,
            basis: "catalog".to_owned(),
            detail: Some(source.to_owned()),
            at_most: false,
        }
    }
}

/// Returns the catalog's entry for these PCI IDs, e.g. `10de:2335`.
pub fn find_by_ids(identification: &str) -> Option<&'static DeviceEntry> {
    tables().device.iter().find(|entry| entry.ids.iter().any(|id| id == identification))
}

/// Returns the catalog entry for a device whose driver reports this name, e.g. `NVIDIA H100 80GB HBM3`. Among the
/// entries whose words all occur in the name, the entry with the most words is used; if several have the same number of
/// words, the first.
pub fn find(name: &str) -> Option<&'static DeviceEntry> {
    let typed = words(name);
    // The list is reversed, because `max_by_key` returns the last of several equal entries.
    let entries = tables().device.iter().rev();
    entries
        .filter(|entry| words(&entry.words).iter().all(|word| typed.contains(word)))
        .max_by_key(|entry| words(&entry.words).len())
}

/// Returns the words of a name in lower case: `Xeon(R) Phi` gives `xeon phi`, and `A100-SXM4` gives `a100 sxm4`.
fn words(name: &str) -> Vec<String> {
    let plain = name.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words = plain.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_catalog_is_consistent() {
        let DeviceTables { sources, device } = tables();
        let mut ids: Vec<&String> = device.iter().flat_map(|entry| &entry.ids).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "PCI ids are unique");
        for entry in device {
            assert!(sources.contains_key(&entry.source), "{}", entry.name);
            // Each name that a driver reports must find its own entry.
            assert_eq!(find(&entry.name), Some(entry), "{}", entry.name);
            assert!(entry.bytes.is_none_or(|bytes| (1e9..1e12).contains(&bytes)), "{}", entry.name);
            assert!((100e9..20e12).contains(&entry.bandwidth), "{}", entry.name);
        }
        assert!(sources.keys().all(|key| device.iter().any(|entry| entry.source == *key)));
    }

    #[test]
    fn device_names_match_their_catalog_entries() {
        let rate = |name: &str| find(name).map(|entry| entry.bandwidth().value);
        assert_eq!(rate("NVIDIA H200"), Some(4.8e12));
        assert_eq!(rate("NVIDIA H100 80GB HBM3"), Some(3.35e12));
        assert_eq!(rate("NVIDIA H100 PCIe"), Some(2.0e12));
        assert_eq!(rate("NVIDIA A100-SXM4-80GB"), Some(2.039e12));
        assert_eq!(rate("NVIDIA A100 80GB PCIe"), Some(1.935e12));
        assert_eq!(rate("NVIDIA GH200 480GB"), Some(4.0e12));
        assert_eq!(rate("NVIDIA GH200 144G HBM3e"), Some(4.9e12));
        assert_eq!(rate("AMD Instinct MI300X"), Some(5.3e12));
        assert_eq!(rate("Intel(R) Data Center GPU Max 1550"), Some(3.2768e12));
        assert_eq!(rate("Intel(R) Xeon Phi(TM) coprocessor 7110P"), Some(352e9));
        // A laptop's RTX A1000 is not an A10, and the name H100 alone does not determine the memory.
        assert_eq!((rate("NVIDIA RTX A1000 Laptop GPU"), rate("NVIDIA H100")), (None, None));
        assert_eq!(find_by_ids("10de:2335").unwrap().name, "NVIDIA H200");
        assert_eq!(find_by_ids("10de:0000"), None);
    }
}
