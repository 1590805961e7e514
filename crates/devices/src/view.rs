//! View of device figures: kernels by device, copies by size and direction, peaks, and rooflines.

mod conclusion;
mod links;
mod reference;
mod roofline;
mod stream;

pub(crate) use conclusion::conclusion;

use crate::config::{DeviceConfig, DevicePeakConfig};
use crate::{GAUGE, links as of_links, peaks, stream as of_stream};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{Picture, Section, Step, Table, TableCell};
use nodegauge_measure::Unit;
use nodegauge_measure::keys::Config;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Category, Limit, Measurement, Record};
use nodegauge_published as published;

/// Figure with its configuration.
type DeviceFigure<'a, C> = (&'a Measurement, C);

/// Returns the sections for a record; none if the record has no device figures.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let streams = figures(record, of_stream::TEST);
    let peaks = figures(record, peaks::TEST);
    let links = figures(record, of_links::TEST);
    let mut sections = Vec::new();
    if !streams.is_empty() {
        sections.push(stream::section(&streams, detail));
        published::add(&mut sections, record, GAUGE, detail);
    }
    if !links.is_empty() {
        sections.push(links::section(&links, detail));
    }
    if !peaks.is_empty() {
        sections.push(of_peaks(&peaks));
    }
    sections.extend(reference::section(record));
    // A run of both kernels and peaks is one of a roofline, so the page begins with that picture.
    let (rooflines, summaries): (Vec<Section>, Vec<Section>) =
        roofline::sections(&streams, &peaks).into_iter().partition(|one| !one.is_summary());
    rooflines.into_iter().chain(sections).chain(summaries).collect()
}

/// Returns the native figures of a test.
fn figures<'a, C: Config>(record: &'a Record, test: &str) -> Vec<DeviceFigure<'a, C>> {
    let own = record
        .measurements
        .iter()
        .filter(|m| m.gauge == GAUGE && m.test == test && m.category != Category::Reference);
    own.map(|m| (m, m.read_config())).collect()
}

/// Returns the heading of the rows for a device, e.g. `opencl:0  pthread-skylake-avx512 (cpu)`.
fn heading(on: &DeviceConfig) -> String {
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    let slice = on.slice.as_ref().map(|slice| format!(", {slice}")).unwrap_or_default();
    format!("{}  {} ({}{slice})", or(&on.device), or(&on.device_name), or(&on.class))
}

/// Returns the cell with a rate in a column of GB/s; a dash if there is no rate.
fn rate(rate: Option<f64>) -> TableCell {
    rate.map_or_else(
        || "-".into(),
        |rate| TableCell::figure(rate, Unit::BytesPerSecond, significant(rate / 1e9)),
    )
}

/// Returns the cell with the value in a column of GB/s or GFLOP/s. If there is no value, the cell shows the validity.
fn value(m: &Measurement) -> TableCell {
    m.value.map_or_else(
        || m.validity.status.name().into(),
        |value| TableCell::figure(value, m.unit, significant(value / 1e9)),
    )
}

/// Returns the cell with the value as a share of its limit.
fn of_limit(limit: Option<&Limit>) -> TableCell {
    limit.map_or_else(|| "?".into(), |limit| limit.fraction.in_tenths().into())
}

/// Adds notes with the drivers of the devices, without duplicates.
fn drivers<'a>(section: &mut Section, all: impl Iterator<Item = &'a DeviceConfig>) {
    let mut seen: Vec<&String> = Vec::new();
    for version in all.filter_map(|on| on.driver_version.as_ref()) {
        if !seen.contains(&version) {
            seen.push(version);
            section.note(if seen.len() == 1 { "driver" } else { "" }, version.as_str());
        }
    }
}

/// Returns the section with the table of peaks.
fn of_peaks(all: &[DeviceFigure<'_, DevicePeakConfig>]) -> Section {
    let mut section = Section::new(peaks::TEST);
    let titles = ["GFLOP/s", "", ">best", ">median", ">5 %", ">95 %", ">of limit", "loop"];
    let mut table = Table::new(&titles);
    let mut device = None;
    for (m, config) in all {
        if device != config.on.device {
            table.heading(heading(&config.on));
            device.clone_from(&config.on.device);
        }
        let summary = m.summary.as_ref().filter(|_| m.value.is_some());
        let of = |x: Option<f64>| match x {
            Some(x) => TableCell::figure(x, m.unit, significant(x / 1e9)),
            None => "-".into(),
        };
        table.row([
            m.name.as_str().into(),
            config.element.clone().unwrap_or_default().into(),
            value(m),
            of(summary.map(|summary| summary.median)),
            of(summary.map(|summary| summary.p05)),
            of(summary.map(|summary| summary.p95)),
            of_limit(m.limit.as_ref().filter(|_| m.value.is_some())),
            peaks::loop_of(config).into(),
        ]);
    }
    let bars = all.iter().map(|(m, config)| {
        let element = config.element.as_deref().unwrap_or_default();
        let which = config.on.device.as_deref().unwrap_or_default();
        let name = format!("{} {element}, {which}", m.name);
        Step::bar(name, m.value, peaks::loop_of(config)).judged(m)
    });
    let bars = Picture::bars("peaks", Unit::FlopsPerSecond, bars);
    section.push(table).push(bars).gap();
    let products = all.iter().any(|(m, _)| m.name == peaks::DGEMM);
    let products = if products { "; products by the vendor's library" } else { "" };
    section.note("how", format!("fused multiply-adds in registers, two operations each{products}"));
    drivers(&mut section, all.iter().map(|(_, config)| &config.on));
    section.doubts(&all.iter().map(|(m, _)| *m).collect::<Vec<_>>());
    section
}
