//! Errors, widths and rates of PCI Express links.

use super::SourceReader;
use crate::pci;
use crate::root::SysRoot;
use nodegauge_measure::record::{HardwareEvent, NarrowLink, SlowLink};

/// Files of Advanced Error Reporting, each with the line that contains the total.
const FILES: [(&str, &str, HardwareEvent); 3] = [
    ("aer_dev_fatal", "TOTAL_ERR_FATAL ", HardwareEvent::PcieFatal),
    ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL ", HardwareEvent::PcieNonfatal),
    ("aer_dev_correctable", "TOTAL_ERR_COR ", HardwareEvent::PcieCorrected),
];

/// PCI base classes of devices whose links affect figures: storage, networks, displays, processors, accelerators.
const CLASSES: [&str; 5] = ["0x01", "0x02", "0x03", "0x0b", "0x12"];

/// Reads the error counters of all devices and ports.
pub(super) fn read_errors(reader: &mut SourceReader<'_>) {
    for address in reader.root.names(pci::DEVICES_FOLDER) {
        for (sysfs_file, total, kind) in FILES {
            let path = pci::sysfs_file(&address, sysfs_file);
            // A device has all files or none.
            let Some(text) = reader.text(&path) else { break };
            let sum = text.lines().find_map(|line| line.strip_prefix(total)?.trim().parse().ok());
            match sum {
                Some(value) => reader.push(kind, address.clone(), value, None),
                None => reader.note(&path, &format!("no line {total}")),
            }
        }
    }
}

/// Links with fewer lanes or a lower rate than both of their ends support.
#[derive(Default)]
pub(super) struct ReducedLinks {
    pub(super) narrow: Vec<NarrowLink>,
    pub(super) slow: Vec<SlowLink>,
}

/// Returns the links that use fewer lanes, or run at a lower rate, than both ends support.
pub(super) fn find_reduced_links(root: &SysRoot) -> ReducedLinks {
    let mut reduced = ReducedLinks::default();
    for address in root.names(pci::DEVICES_FOLDER) {
        let class = root.text(&pci::sysfs_file(&address, "class")).unwrap_or_default();
        if !CLASSES.iter().any(|known| class.starts_with(known)) {
            continue;
        }
        // The port above is looked for only where the device supports more.
        let own = pci::link(root, &address, None);
        if !own.is_narrow() && !own.is_slow() {
            continue;
        }
        let port = pci::bridges(root, &address).pop();
        let link = pci::link(root, &address, port.as_deref());
        if let Some((width, most_width)) = link.width.zip(link.most_width)
            && link.is_narrow()
        {
            let address = address.clone();
            reduced.narrow.push(NarrowLink { address, width, most_width });
        }
        if let Some((rate, max)) = link.transfers_per_s.zip(link.most_transfers_per_s)
            && link.is_slow()
        {
            reduced.slow.push(SlowLink {
                address,
                transfers_per_s: rate,
                most_transfers_per_s: max,
            });
        }
    }
    reduced
}
