//! View of copies, by size, and by source and destination.

use super::{DeviceFigure, drivers, heading, rate};
use crate::config::LinkConfig;
use crate::links::{ACROSS, ALL, BOTH, LATENCY, TEST, TO_DEVICE, TO_HOST};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{
    Block, Chart, ChartSeries, HeatMap, HeatMaps, Picture, Scale, Section, Table, TableCell,
    distinct,
};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Bytes, Seconds, Unit};
use std::collections::BTreeSet;

/// Figures of copies.
type Links<'a> = [DeviceFigure<'a, LinkConfig>];
/// Columns of the table by size: name of the figure, kind of host memory, title, and letter of the curve.
const COLUMNS: [(&str, &str, &str, char); 5] = [
    (TO_DEVICE, "pageable", ">to device", 'h'),
    (TO_HOST, "pageable", ">to host", 'd'),
    (TO_DEVICE, "pinned", ">pinned: to device", 'H'),
    (TO_HOST, "pinned", ">to host", 'D'),
    (BOTH, "pinned", ">both ways", 'B'),
];

/// Returns the section with a table by size for each device. If there are several NUMA nodes or devices, matrices are
/// added.
pub(super) fn section(all: &Links<'_>, detail: Detail) -> Section {
    let mut section = Section::new(TEST);
    let is_one = |(m, config): &&DeviceFigure<'_, LinkConfig>| {
        !m.name.starts_with(ALL) && config.peer.is_none()
    };
    let ones: Vec<DeviceFigure<'_, LinkConfig>> = all.iter().filter(is_one).cloned().collect();
    let largest = all.iter().filter_map(|(_, config)| config.message_bytes).max();
    let mut table = Table::new(&["GB/s"]);
    table
        .columns
        .extend(COLUMNS.iter().map(|(_, _, title, _)| nodegauge_gauge::view::Column::of(title)));
    let mut curves = Vec::new();
    for device in values(&ones, |config| config.on.device.clone()) {
        let of: Vec<&DeviceFigure<'_, LinkConfig>> =
            ones.iter().filter(|(_, config)| config.on.device == device).collect();
        for node in values(&ones, |config| config.host_node) {
            let here: Vec<&DeviceFigure<'_, LinkConfig>> =
                of.iter().filter(|(_, config)| config.host_node == node).copied().collect();
            let Some((_, config)) = here.first() else { continue };
            let node = node.map(|node| format!(", NUMA node {node}")).unwrap_or_default();
            table.heading(format!("{}{node}", heading(&config.on)));
            let sizes: BTreeSet<u64> =
                here.iter().filter_map(|(_, link_config)| link_config.message_bytes).collect();
            for size in &sizes {
                let cell = |(name, memory, ..): &(&str, &str, &str, char)| {
                    let is = |(m, cell_config): &&&DeviceFigure<'_, LinkConfig>| {
                        m.name.strip_suffix(LATENCY).unwrap_or(&m.name) == *name
                            && cell_config.message_bytes == Some(*size)
                            && cell_config.host_memory.as_deref() == Some(memory)
                    };
                    here.iter().find(is).map_or_else(|| "-".into(), |(m, _)| value(m))
                };
                let title = TableCell::text(Bytes(*size).to_string());
                table.row(std::iter::once(title).chain(COLUMNS.iter().map(cell)));
            }
            if curves.is_empty() {
                curves = series(&here);
            }
        }
    }
    if !table.rows.is_empty() {
        section.push(table);
    }
    if detail == Detail::Full && !curves.is_empty() {
        let x = Scale::Bytes;
        let y = Scale::Rate(Unit::BytesPerSecond);
        let mut ticks: Vec<f64> =
            curves.iter().flat_map(|of: &ChartSeries| &of.dots).map(|dot| dot.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        section.gap().push(Chart {
            title: "copies over size".to_owned(),
            names: ["bytes of a copy", ""],
            x,
            y,
            ticks,
            series: curves,
            ..Chart::default()
        });
    }
    by_node(&mut section, &ones, largest);
    across(&mut section, all);
    together(&mut section, all);
    section.gap().note(
        "how",
        "medians; single copies timed by the device's clock, simultaneous copies \
         by the host's; 8 B: time until the host detects that the copy is done",
    );
    drivers(&mut section, all.iter().map(|(_, config)| &config.on));
    section.doubts(&all.iter().map(|(m, _)| *m).collect::<Vec<_>>());
    section
}

/// Returns the cell with a rate in GB/s, or with a time and its unit.
fn value(m: &Measurement) -> TableCell {
    match (m.value, m.unit) {
        (Some(seconds), Unit::Seconds) => {
            TableCell::figure(seconds, Unit::Seconds, Seconds(seconds).to_string())
        }
        (Some(value), _) => rate(Some(value)),
        (None, _) => m.validity.status.name().into(),
    }
}

/// Returns the distinct values of a configuration key, in order of appearance.
fn values<T: PartialEq>(all: &Links<'_>, of: impl Fn(&LinkConfig) -> T) -> Vec<T> {
    distinct(all.iter().map(|(_, config)| of(config)))
}

/// Returns a curve over sizes for each column.
fn series(of: &[&DeviceFigure<'_, LinkConfig>]) -> Vec<ChartSeries> {
    let curve = |(name, memory, _, mark): &(&str, &str, &str, char)| {
        let is = |(m, config): &&&DeviceFigure<'_, LinkConfig>| {
            m.name == *name && config.host_memory.as_deref() == Some(memory)
        };
        let dot = |(m, config): &&DeviceFigure<'_, LinkConfig>| {
            Some((config.message_bytes? as f64, m.value?))
        };
        let dots: Vec<(f64, f64)> = of.iter().filter(is).filter_map(dot).collect();
        let name = format!("{}, {memory}", name.replace('_', " "));
        let mut series = ChartSeries { mark: *mark, name, dots, ..ChartSeries::default() };
        for figure in of.iter().filter(is) {
            if let Some(at) = dot(figure) {
                series.doubt(at, figure.0);
            }
        }
        series
    };
    COLUMNS.iter().map(curve).filter(|series| series.dots.len() > 1).collect()
}

/// Adds heat maps of NUMA nodes and devices for copies of the largest size, if there are several nodes.
fn by_node(section: &mut Section, ones: &Links<'_>, largest: Option<u64>) {
    let nodes: Vec<u64> = values(ones, |config| config.host_node).into_iter().flatten().collect();
    let devices: Vec<String> =
        values(ones, |config| config.on.device.clone()).into_iter().flatten().collect();
    if nodes.len() < 2 {
        return;
    }
    let map = |name: &str| {
        let at = |node: &u64, device: &String| {
            let is = |(m, config): &&DeviceFigure<'_, LinkConfig>| {
                m.name == name
                    && config.message_bytes == largest
                    && config.host_memory.as_deref() == Some("pinned")
                    && config.host_node == Some(*node)
                    && config.on.device.as_ref() == Some(device)
            };
            ones.iter().find(is).and_then(|(m, _)| m.value)
        };
        let row = |node: &u64| devices.iter().map(|device| at(node, device)).collect();
        HeatMap {
            title: format!("{}, GB/s", name.replace('_', " ")),
            values: nodes.iter().map(row).collect(),
        }
    };
    section.gap().push(HeatMaps {
        setup: String::new(),
        axes: ["NUMA node", "device"],
        rows: nodes.iter().map(|node| format!("n{node}")).collect(),
        columns: devices.clone(),
        maps: [TO_DEVICE, TO_HOST, BOTH].map(map).into(),
        unit: Unit::BytesPerSecond,
    });
}

/// Adds the matrices of copies between devices, if there are several devices.
fn across(section: &mut Section, all: &Links<'_>) {
    for (name, unit) in [(ACROSS.to_owned(), "GB/s"), (format!("{ACROSS}{LATENCY}"), "time")] {
        let of: Vec<DeviceFigure<'_, LinkConfig>> =
            all.iter().filter(|(m, _)| m.name == name).cloned().collect();
        let mut ids: Vec<String> =
            values(&of, |config| config.on.device.clone()).into_iter().flatten().collect();
        ids.sort();
        let Some((first, _)) = of.first() else { continue };
        let titles: Vec<String> =
            std::iter::once(unit.to_owned()).chain(ids.iter().map(|id| format!(">{id}"))).collect();
        let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
        let at = |from: &String, to: &String| {
            let is = |(_, config): &&DeviceFigure<'_, LinkConfig>| {
                config.on.device.as_ref() == Some(from) && config.peer.as_ref() == Some(to)
            };
            of.iter().find(is).map(|(m, _)| *m)
        };
        for from in &ids {
            let cells = ids.iter().map(|to| at(from, to).map_or_else(|| "".into(), value));
            table.row(std::iter::once(TableCell::text(from.clone())).chain(cells));
        }
        let values = ids
            .iter()
            .map(|from| ids.iter().map(|to| at(from, to).and_then(|m| m.value)).collect())
            .collect();
        let title = format!("{} of devices", name.replace('_', " "));
        section.gap().push(table);
        section.push(Picture::between(title, first.unit, ids.clone(), values));
        section.push(Block::Text("from the row's device to the column's device".to_owned()));
    }
}

/// Adds the table of simultaneous copies of all devices.
fn together(section: &mut Section, all: &Links<'_>) {
    let sums = all.iter().filter(|(m, _)| m.name.starts_with(ALL));
    let mut table = Table::new(&["all devices at the same time, GB/s", ">size", ">sum"]);
    for (m, config) in sums {
        let size = config.message_bytes.map_or_else(String::new, |size| Bytes(size).to_string());
        table.row([m.name[ALL.len()..].replace('_', " ").into(), size.into(), value(m)]);
    }
    if !table.rows.is_empty() {
        section.gap().push(table);
    }
}
