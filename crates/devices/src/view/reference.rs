//! View of figures of other programs, from a comparison or from an import.

use crate::GAUGE;
use crate::config::{DeviceStreamConfig, LinkConfig};
use nodegauge_gauge::outputs::is_output;
use nodegauge_gauge::view::{ColumnList, Section, TableCell};
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, ScaledUnit, Seconds, Unit};

/// Row of the table: a figure of another program.
struct ForeignRow<'a> {
    m: &'a Measurement,
    program: String,
    device: String,
    peer: String,
    size: String,
}

impl<'a> ForeignRow<'a> {
    fn from_figure(m: &'a Measurement) -> Self {
        // The keys that are read here are the same for STREAM and links, so either configuration type can read them.
        let of: DeviceStreamConfig = m.read_config();
        let link: LinkConfig = m.read_config();
        let program: Vec<String> = [of.engine, of.engine_version].into_iter().flatten().collect();
        let device = of.on.device.or(of.on.device_name);
        let size = of.array_bytes.or(link.message_bytes).map(|bytes| Bytes(bytes).to_string());
        Self {
            m,
            program: program.join(" "),
            device: device.unwrap_or_else(|| "not reported".to_owned()),
            peer: link.peer.unwrap_or_default(),
            size: size.unwrap_or_default(),
        }
    }
}

/// Returns the section with a table for each program; `None` if there are no figures of other programs.
pub(super) fn section(record: &Record) -> Option<Section> {
    let of_gauge = record
        .measurements
        .iter()
        .filter(|m| m.gauge == GAUGE && !m.is_published() && !is_output(m));
    let all: Vec<&Measurement> = of_gauge.filter(|m| m.category == Category::Reference).collect();
    let rows: Vec<ForeignRow<'_>> = all.iter().map(|m| ForeignRow::from_figure(m)).collect();
    let columns = ColumnList::<ForeignRow<'_>>::new()
        .left("another program's", |row| row.m.name.clone())
        .left("device", |row| row.device.clone())
        .left("to", |row| row.peer.clone())
        .right("size", |row| row.size.clone())
        .right("value", |row| {
            TableCell::from_measurement(row.m, |value| match row.m.unit {
                Unit::Seconds => Seconds(value).to_string(),
                _ => ScaledUnit::GB_PER_S.in_words(value),
            })
        });
    let by_program = rows.chunk_by(|one, next| one.program == next.program);
    let table = columns.grouped_table(by_program.map(|own| (own[0].program.clone(), own)));
    let mut section = Section::new("device_programs");
    (!all.is_empty()).then(|| {
        section.push(table).push_doubts(&all);
        section
    })
}
