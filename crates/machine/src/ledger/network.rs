//! Errors of InfiniBand ports.

use super::SourceReader;
use nodegauge_measure::record::HardwareEvent;

const ADAPTERS: &str = "sys/class/infiniband";

/// Error counters of a port (InfiniBand architecture, PortCounters), each with the value at which it stops. Counters of
/// traffic and congestion are not errors and are omitted.
const COUNTERS: [(&str, u64); 7] = [
    ("symbol_error", 0xffff),
    ("link_error_recovery", 0xff),
    ("link_downed", 0xff),
    ("port_rcv_errors", 0xffff),
    ("port_rcv_remote_physical_errors", 0xffff),
    ("local_link_integrity_errors", 0xf),
    ("excessive_buffer_overrun_errors", 0xf),
];

/// Reads the error counters of all ports.
pub(super) fn read(reader: &mut SourceReader<'_>) {
    for adapter in reader.root.names(ADAPTERS) {
        let ports = format!("{ADAPTERS}/{adapter}/ports");
        for port in reader.root.names(&ports) {
            for (name, stops_at) in COUNTERS {
                let file = format!("{ports}/{port}/counters/{name}");
                if let Some(value) = reader.number(&file) {
                    // Drivers with wider counters exceed the limit of the architecture.
                    let stops_at = Some(stops_at).filter(|max| value <= *max);
                    let component = format!("{adapter} port {port} {name}");
                    reader.push(HardwareEvent::Network, component, value, stops_at);
                }
            }
        }
    }
}
