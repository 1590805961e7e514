//! Errors and widths of PCI Express links.

use super::SourceReader;
use crate::pci;
use crate::root::SysRoot;
use nodegauge_measure::record::{HardwareEvent, NarrowLink};

/// Files of Advanced Error Reporting, with the line that contains the sum.
const FILES: [(&str, &str, HardwareEvent); 3] = [
    ("aer_dev_fatal", "TOTAL_ERR_FATAL ", HardwareEvent::PcieFatal),
    ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL ", HardwareEvent::PcieNonfatal),
    ("aer_dev_correctable", "TOTAL_ERR_COR ", HardwareEvent::PcieCorrected),
];

/// PCI base classes of devices whose links matter to figures: storage, networks, displays, processors, accelerators.
const CLASSES: [&str; 5] = ["0x01", "0x02", "0x03", "0x0b", "0x12"];

/// Reads the error counters of all devices and ports.
pub(super) fn errors(reader: &mut SourceReader<'_>) {
    for address in reader.root.names(pci::BUS) {
        for (file, total, kind) in FILES {
            let path = pci::file(&address, file);
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

/// Returns the links that use fewer lanes than both ends have.
pub(super) fn narrow(root: &SysRoot) -> Vec<NarrowLink> {
    let mut narrow = Vec::new();
    for address in root.names(pci::BUS) {
        let class = root.text(&pci::file(&address, "class")).unwrap_or_default();
        if !CLASSES.iter().any(|known| class.starts_with(known)) {
            continue;
        }
        let Some(width) = pci::lanes(root, &address, "current_link_width") else { continue };
        let Some(own) = pci::lanes(root, &address, "max_link_width") else { continue };
        if width >= own {
            continue;
        }
        let port = pci::bridges(root, &address).pop();
        let port = port.and_then(|port| pci::lanes(root, &port, "max_link_width"));
        let most_width = port.map_or(own, |port| port.min(own));
        if width < most_width {
            narrow.push(NarrowLink { address, width, most_width });
        }
    }
    narrow
}
