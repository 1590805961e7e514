//! Disks of the node, from the kernel's block devices.

use crate::root::SysRoot;
use nodegauge_measure::record::Disk;

/// Unit in which the kernel reports the size of a block device, bytes.
const SECTOR: u64 = 512;

/// Name prefixes of block devices that are not disks: they are in memory, or consist of other devices or of files.
const NO_DISKS: [&str; 8] = ["dm-", "drbd", "fd", "loop", "md", "nbd", "ram", "zram"];

/// Returns the disks that have a capacity and cannot be removed, in the order of their names.
pub(crate) fn disks(root: &SysRoot) -> Vec<Disk> {
    root.names("sys/block").into_iter().filter_map(|name| disk(root, name)).collect()
}

fn disk(root: &SysRoot, name: String) -> Option<Disk> {
    if NO_DISKS.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let folder = format!("sys/block/{name}");
    let sectors: u64 = root.value(&format!("{folder}/size"))?;
    let removable: Option<u8> = root.value(&format!("{folder}/removable"));
    if sectors == 0 || removable == Some(1) {
        return None;
    }
    let rotational: Option<u8> = root.value(&format!("{folder}/queue/rotational"));
    Some(Disk {
        model: root.text(&format!("{folder}/device/model")).filter(|model| !model.is_empty()),
        bytes: sectors.saturating_mul(SECTOR),
        rotational: rotational.map(|flag| flag != 0),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fixed_block_devices_are_disks() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join("sys/block").join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("sda/size", "1875385008\n");
        write("sda/removable", "0\n");
        write("sda/queue/rotational", "0\n");
        write("sda/device/model", "SSDSC2KB960G8   \n");
        write("loop0/size", "1024\n");
        write("sr0/size", "2097151\n");
        write("sr0/removable", "1\n");
        write("vda/size", "41943040\n");
        write("sdb/size", "0\n");
        let found = disks(&SysRoot::recorded(folder.path()));
        let named: Vec<&str> = found.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(named, ["sda", "vda"]);
        assert_eq!(found[0].bytes, 960_197_124_096);
        assert_eq!(found[0].model.as_deref(), Some("SSDSC2KB960G8"));
        assert_eq!((found[0].rotational, found[1].rotational), (Some(false), None));
        assert_eq!(found[1].model, None);
    }
}
