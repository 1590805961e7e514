//! Memory errors of each module, which the kernel's EDAC drivers count.

use super::{SourceReader, is_numbered};
use nodegauge_measure::record::HardwareEvent;

/// Folder with one subfolder per memory controller.
const CONTROLLERS: &str = "sys/devices/system/edac/mc";

/// Reads the counters of all memory controllers.
pub(super) fn read(reader: &mut SourceReader<'_>) {
    for controller in numbered(reader, CONTROLLERS, &["mc"]) {
        let folder = format!("{CONTROLLERS}/{controller}");
        let modules = numbered(reader, &folder, &["dimm", "rank"]);
        let mut counted = false;
        for module in &modules {
            counted |= add_module(reader, &folder, &controller, module);
        }
        if !counted {
            counted = rows(reader, &folder, &controller);
        }
        // Errors of modules that the driver could not determine; without counters per module, all errors.
        let names =
            if counted { ["ce_noinfo_count", "ue_noinfo_count"] } else { ["ce_count", "ue_count"] };
        let component = format!("{controller}, module unknown");
        reader.count(HardwareEvent::MemoryCorrected, &component, &format!("{folder}/{}", names[0]));
        reader.count(
            HardwareEvent::MemoryUncorrected,
            &component,
            &format!("{folder}/{}", names[1]),
        );
    }
}

/// Returns the sorted names in `folder` that consist of one of `prefixes` and a number.
fn numbered(reader: &SourceReader<'_>, folder: &str, prefixes: &[&str]) -> Vec<String> {
    let mut names = reader.root.names(folder);
    names.retain(|name| is_numbered(name, prefixes));
    names.sort_by_key(|name| (name.len(), name.clone()));
    names
}

/// Adds the counters of a module; returns false if there are none.
fn add_module(reader: &mut SourceReader<'_>, folder: &str, controller: &str, module: &str) -> bool {
    let path = format!("{folder}/{module}");
    let label = reader.text(&format!("{path}/dimm_label")).filter(|label| !label.is_empty());
    let component = component(controller, module, label);
    let corrected =
        reader.count(HardwareEvent::MemoryCorrected, &component, &format!("{path}/dimm_ce_count"));
    let uncorrected = reader.count(
        HardwareEvent::MemoryUncorrected,
        &component,
        &format!("{path}/dimm_ue_count"),
    );
    corrected || uncorrected
}

/// Returns the name of a module: its position in EDAC, and the label that the driver or the site has set.
fn component(controller: &str, module: &str, label: Option<String>) -> String {
    match label {
        Some(label) => format!("{controller} {module}, {label}"),
        None => format!("{controller} {module}"),
    }
}

/// Adds the counters of older kernels, which count per row and channel; returns false if there are none.
fn rows(reader: &mut SourceReader<'_>, folder: &str, controller: &str) -> bool {
    let mut counted = false;
    for row in numbered(reader, folder, &["csrow"]) {
        let path = format!("{folder}/{row}");
        for name in reader.root.names(&path) {
            let Some(channel) = name.strip_suffix("_ce_count") else { continue };
            let label = reader.text(&format!("{path}/{channel}_dimm_label"));
            let component = component(
                controller,
                &format!("{row} {channel}"),
                label.filter(|label| !label.is_empty()),
            );
            let file = format!("{path}/{name}");
            counted |= reader.count(HardwareEvent::MemoryCorrected, &component, &file);
        }
        let component = format!("{controller} {row}");
        reader.count(HardwareEvent::MemoryUncorrected, &component, &format!("{path}/ue_count"));
    }
    counted
}
