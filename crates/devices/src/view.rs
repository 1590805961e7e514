//! View of device figures: kernels by device, copies by size and direction, peaks, latency under load, and rooflines.

mod conclusion;
mod curves;
mod links;
mod reference;
mod roofline;
mod stream;

pub(crate) use conclusion::conclusion;

use crate::config::{DeviceConfig, DevicePeakConfig};
use crate::{GAUGE, curves as of_curves, links as of_links, peaks, stream as of_stream};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{ChartBar, ColumnList, ColumnUnit, Picture, Section, distinct};
use nodegauge_measure::keys::Config;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Fraction, Unit};
use nodegauge_published as published;

/// Figure with its configuration.
type DeviceFigure<'a, C> = (&'a Measurement, C);

/// Returns the sections for a record; empty if the record has no device figures.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let streams = figures(record, of_stream::TEST);
    let peaks = figures(record, peaks::TEST);
    let links = figures(record, of_links::TEST);
    let mut sections = Vec::new();
    if !streams.is_empty() {
        sections.push(stream::section(&streams, detail));
        published::add_published_section(&mut sections, record, GAUGE, detail);
    }
    if !links.is_empty() {
        sections.push(links::section(&links, detail));
    }
    if !peaks.is_empty() {
        sections.push(peak_section(&peaks));
    }
    let of_load = figures(record, of_curves::TEST);
    if !of_load.is_empty() {
        sections.push(curves::section(&of_load));
    }
    sections.extend(reference::section(record));
    // A run with both kernels and peaks contains a roofline, so the page begins with that picture.
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
    let [device, name, class] =
        [&on.device, &on.device_name, &on.class].map(|text| text.as_deref().unwrap_or("?"));
    let slice = on.slice.as_ref().map(|slice| format!(", {slice}")).unwrap_or_default();
    format!("{device}  {name} ({class}{slice})")
}

/// Adds notes with the drivers of the devices, without duplicates.
fn drivers<'a>(section: &mut Section, all: impl Iterator<Item = &'a DeviceConfig>) {
    let versions = distinct(all.filter_map(|on| on.driver_version.as_deref()));
    for (i, version) in versions.into_iter().enumerate() {
        section.note(if i == 0 { "driver" } else { "" }, version);
    }
}

/// Returns the section with the table of peaks.
fn peak_section(all: &[DeviceFigure<'_, DevicePeakConfig>]) -> Section {
    let mut section = Section::new(peaks::TEST);
    let columns = ColumnList::<DeviceFigure<'_, DevicePeakConfig>>::new()
        .names("GFLOP/s")
        .left("", |(_, config)| config.element.clone().unwrap_or_default())
        .rates(ColumnUnit::GFLOP_PER_S)
        .limit_share_as(Fraction::in_tenths)
        .left("loop", |(_, config)| peaks::loop_in_words(config));
    let by_device = all.chunk_by(|(_, one), (_, next)| one.on.device == next.on.device);
    let table = columns.grouped_table(by_device.map(|own| (heading(&own[0].1.on), own)));
    let bars = all.iter().map(|(m, config)| {
        let element = config.element.as_deref().unwrap_or_default();
        let which = config.on.device.as_deref().unwrap_or_default();
        let name = format!("{} {element}, {which}", m.name);
        ChartBar::bar(name, m.value, peaks::loop_in_words(config)).with_validity(m)
    });
    let bars = Picture::bars("peaks", Unit::FlopsPerSecond, bars);
    section.push(table).push(bars).push_gap();
    let has_products = all.iter().any(|(m, _)| m.name == peaks::DGEMM);
    let products = if has_products { "; matrix products by the vendor's library" } else { "" };
    section.note(
        "how",
        format!(
            "register-only fused multiply-adds, two operations \
                  each{products}"
        ),
    );
    drivers(&mut section, all.iter().map(|(_, config)| &config.on));
    section.push_doubts(&all.iter().map(|(m, _)| *m).collect::<Vec<_>>());
    section
}
