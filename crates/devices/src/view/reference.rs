//! View of figures of other programs, which are from a comparison or imported.

use crate::GAUGE;
use crate::config::{DeviceStreamConfig, LinkConfig};
use nodegauge_gauge::view::{Section, Table, TableCell};
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, Seconds, Unit};

/// Returns the section with a table for each program; `None` if there are no figures of other programs.
pub(super) fn section(record: &Record) -> Option<Section> {
    let is_theirs = |m: &&Measurement| {
        m.gauge == GAUGE && m.category == Category::Reference && !m.is_published()
    };
    let all: Vec<&Measurement> = record.measurements.iter().filter(is_theirs).collect();
    let mut section = Section::new("device_programs");
    let mut table = Table::new(&["another program's", "device", "to", ">size", ">value"]);
    let mut before = None;
    for m in &all {
        // The keys that are read here are the same for STREAM and links, so that either configuration type can read
        // them.
        let of: DeviceStreamConfig = m.read_config();
        let link: LinkConfig = m.read_config();
        let program = [of.engine, of.engine_version].into_iter().flatten().collect::<Vec<_>>();
        let program = program.join(" ");
        if before.as_ref() != Some(&program) {
            table.heading(program.clone());
            before = Some(program);
        }
        let device =
            of.on.device.or(of.on.device_name).unwrap_or_else(|| "not reported".to_owned());
        let size = of.array_bytes.or(link.message_bytes).map(|bytes| Bytes(bytes).to_string());
        let value = match (m.value, m.unit) {
            (Some(seconds), Unit::Seconds) => {
                TableCell::figure(seconds, m.unit, Seconds(seconds).to_string())
            }
            (Some(value), unit) => {
                TableCell::figure(value, unit, format!("{} GB/s", significant(value / 1e9)))
            }
            (None, _) => m.validity.status.name().into(),
        };
        table.row([
            TableCell::text(m.name.clone()),
            TableCell::text(device),
            TableCell::text(link.peer.unwrap_or_default()),
            TableCell::text(size.unwrap_or_default()),
            value,
        ]);
    }
    (!all.is_empty()).then(|| {
        section.push(table).doubts(&all);
        section
    })
}
