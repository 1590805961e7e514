//! View of the STREAM test on devices.

use super::{DeviceFigure, drivers, heading};
use crate::config::DeviceStreamConfig;
use crate::kernels::babelstream_name;
use crate::stream::TEST;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{
    ChartBar, ColumnList, ColumnUnit, FigureRow, Note, Picture, Section, words,
};
use nodegauge_kernels::STREAM_ARRAY_COUNT;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Bytes, BytesPerSec, Fraction, Unit};

/// Returns the section with the table by device and element type, and the notes.
pub(super) fn section(all: &[DeviceFigure<'_, DeviceStreamConfig>], detail: Detail) -> Section {
    let mut section = Section::new(TEST);
    let columns = ColumnList::<DeviceFigure<'_, DeviceStreamConfig>>::new()
        .names("GB/s")
        .left("", |(_, config)| config.element.clone().unwrap_or_default())
        .rates(ColumnUnit::GB_PER_S)
        .values("by host", ColumnUnit::GB_PER_S, |figure| {
            let median = figure.statistics()?.median;
            Some(median * figure.1.device_seconds? / figure.1.host_seconds?)
        })
        .limit_share_as(Fraction::in_tenths)
        .left("loop", |(_, config)| loop_in_words(config));
    let groups = all.chunk_by(|(_, one), (_, next)| row_kind(one) == row_kind(next));
    let table = columns.grouped_table(groups.map(|own| (kind_in_words(&own[0].1), own)));
    let measurements: Vec<&Measurement> = all.iter().map(|(m, _)| *m).collect();
    let first_device = all.first().and_then(|(_, config)| config.on.device.as_ref());
    let is_one = all.iter().all(|(_, config)| config.on.device.as_ref() == first_device);
    let bars = measurements
        .iter()
        .map(|m| ChartBar::bar(figure_name(m, is_one), m.value, "").with_validity(m));
    let rates = Picture::bars("best rate of each kernel", Unit::BytesPerSecond, bars);
    let samples = Picture::samples(&measurements, |m| figure_name(m, is_one));
    section.push(table).push(rates).push_picture(samples).push_gap();
    let Some((first, config)) = all.first() else { return section };
    let mul = all.iter().find_map(|(m, _)| {
        let name = babelstream_name(m.name.parse().ok()?)?;
        Some(format!("; {} is BabelStream's {name}", m.name))
    });
    section.note(
        "how",
        format!(
            "{} arrays of {}, times by the device's clock, bytes as STREAM counts them{}",
            config.arrays.unwrap_or(STREAM_ARRAY_COUNT as u64),
            config.array_bytes.map_or_else(|| "?".to_owned(), |bytes| Bytes(bytes).to_string()),
            mul.unwrap_or_default()
        ),
    );
    if detail == Detail::Full {
        drivers(&mut section, all.iter().map(|(_, own_config)| &own_config.on));
        let checks = count_in_words(config.checks.unwrap_or(0) as usize, "time");
        let worst =
            all.iter().filter_map(|(_, own_config)| own_config.worst_error).fold(0.0, f64::max);
        section.note(
            "checked",
            format!("every element on the device, {checks}; worst deviation {worst:.0e}"),
        );
        let counts = measurements.iter().filter_map(|m| m.summary.as_ref());
        let count = words::count_range(counts.map(|summary| summary.n));
        let stopped = config.on.stopped.as_deref().unwrap_or("?");
        section.note_if("samples", count.map(|count| format!("{count} per figure; {stopped}")));
        section.note(
            "limit",
            first.limit.as_ref().map_or_else(
                || {
                    "unknown: neither the driver nor the catalog contains the memory bandwidth"
                        .to_owned()
                },
                |limit| format!("{} theoretical ({})", BytesPerSec(limit.value), limit.basis),
            ),
        );
    }
    section.push_doubts(&measurements);
    section.push(Note::new("name", "based on a variant of the STREAM benchmark code"));
    section
}

/// Returns the device, the element type and the program of a figure. The rows below a heading share these values.
fn row_kind(config: &DeviceStreamConfig) -> [&Option<String>; 3] {
    [&config.on.device, &config.element, &config.engine]
}

/// Returns the heading for figures of a device, with the name of the program if it is not nodegauge.
fn kind_in_words(config: &DeviceStreamConfig) -> String {
    let engine = config.engine.as_ref().filter(|engine| *engine != "native");
    let engine = engine.map(|engine| format!(", {engine}")).unwrap_or_default();
    format!("{}{engine}", heading(&config.on))
}

/// Returns the name of a figure in charts. With several devices, the name contains the device.
fn figure_name(m: &Measurement, is_one: bool) -> String {
    let config: DeviceStreamConfig = m.read_config();
    let engine = config.engine.filter(|engine| engine != "native");
    let device = config.on.device.filter(|_| !is_one);
    let parts = [Some(m.name.clone()), config.element, engine, device];
    parts.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

/// Describes a loop, e.g. `256 1x2 s32`: work-items per group (`driver` if the driver selects it), vectors per
/// work-item x elements per vector, and after `s` the number of groups of a grid-stride loop.
fn loop_in_words(config: &DeviceStreamConfig) -> String {
    let Some((vectors, width)) = config.vectors.zip(config.vector_elements) else {
        return "-".to_owned();
    };
    let group = config.group_items.map_or_else(|| "driver".to_owned(), |items| items.to_string());
    let strided = config.strided_groups.map(|groups| format!(" s{groups}"));
    format!("{group} {vectors}x{width}{}", strided.unwrap_or_default())
}
