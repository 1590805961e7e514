//! View of copies, by size, and by source and destination.

use super::{DeviceFigure, drivers, heading};
use crate::config::LinkConfig;
use crate::links::{
    ALL_PREFIX, BOTH_WAYS, DEVICE_TO_DEVICE, LATENCY_SUFFIX, TEST, TO_DEVICE, TO_HOST,
};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartSeries, ColumnList, ColumnUnit, HeatMap, HeatMaps, Picture,
    Section, TableCell, distinct, group_by_key,
};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Bytes, Seconds, Unit};
use std::collections::BTreeSet;

/// Figures of copies.
type Links<'a> = [DeviceFigure<'a, LinkConfig>];
/// Column of the table by size, and curve of the chart.
struct LinkColumn {
    /// Name of the figure.
    name: &'static str,
    /// Kind of host memory: `pinned` or `pageable`.
    memory: &'static str,
    /// Title of the column.
    title: &'static str,
    /// Letter that marks the curve in the chart.
    mark: char,
}

impl LinkColumn {
    const fn new(
        name: &'static str,
        memory: &'static str,
        title: &'static str,
        mark: char,
    ) -> Self {
        Self { name, memory, title, mark }
    }

    /// True if a figure has the direction and the memory of this column.
    fn has(&self, (m, config): &DeviceFigure<'_, LinkConfig>) -> bool {
        m.name == self.name && config.host_memory.as_deref() == Some(self.memory)
    }

    /// Returns the cell for a size. A latency is shown in the column with the rates of the same direction and memory.
    fn cell(&self, row: &SizeRow<'_>) -> Option<TableCell> {
        let (m, _) = row.figures.iter().find(|(m, config)| {
            m.name.strip_suffix(LATENCY_SUFFIX).unwrap_or(&m.name) == self.name
                && config.message_bytes == Some(row.size)
                && config.host_memory.as_deref() == Some(self.memory)
        })?;
        Some(value(m))
    }

    /// Returns the curve of the column over sizes.
    fn curve(&self, of: &[&DeviceFigure<'_, LinkConfig>]) -> ChartSeries {
        let name = format!("{}, {}", self.name.replace('_', " "), self.memory);
        let mut series = ChartSeries { mark: self.mark, name, ..ChartSeries::default() };
        for (m, config) in of.iter().filter(|figure| self.has(figure)) {
            if let (Some(bytes), Some(value)) = (config.message_bytes, m.value) {
                series.push((bytes as f64, value), m);
            }
        }
        series
    }
}

const COLUMNS: [LinkColumn; 5] = [
    LinkColumn::new(TO_DEVICE, "pageable", "to device", 'h'),
    LinkColumn::new(TO_HOST, "pageable", "to host", 'd'),
    LinkColumn::new(TO_DEVICE, "pinned", "pinned: to device", 'H'),
    LinkColumn::new(TO_HOST, "pinned", "to host", 'D'),
    LinkColumn::new(BOTH_WAYS, "pinned", "both ways", 'B'),
];

/// Row of the table by size.
struct SizeRow<'a> {
    size: u64,
    /// Figures of one device and one NUMA node, for one size.
    figures: &'a [&'a DeviceFigure<'a, LinkConfig>],
}

/// Returns the section with a table by size for each device; with several NUMA nodes or devices, also with matrices.
pub(super) fn section(all: &Links<'_>, detail: Detail) -> Section {
    let mut section = Section::new(TEST);
    let ones: Vec<DeviceFigure<'_, LinkConfig>> = all
        .iter()
        .filter(|(m, config)| !m.name.starts_with(ALL_PREFIX) && config.peer.is_none())
        .cloned()
        .collect();
    let largest = all.iter().filter_map(|(_, config)| config.message_bytes).max();
    let groups = by_device_and_node(&ones);
    let columns = ColumnList::<SizeRow<'_>>::new()
        .left("GB/s", |row| Bytes(row.size).to_string())
        .columns_for_each(
            &COLUMNS,
            |column| column.title.to_owned(),
            |row, column| column.cell(row).unwrap_or_else(|| "-".into()),
        );
    let table = columns.grouped_table(groups.iter().map(|(heading, figures)| {
        let sizes: BTreeSet<u64> =
            figures.iter().filter_map(|(_, config)| config.message_bytes).collect();
        (heading.as_str(), sizes.into_iter().map(|size| SizeRow { size, figures }))
    }));
    let curves = groups.iter().map(|(_, of)| series(of)).find(|curves| !curves.is_empty());
    let curves = curves.unwrap_or_default();
    if !table.rows.is_empty() {
        section.push(table);
    }
    if detail == Detail::Full && !curves.is_empty() {
        let x = AxisQuantity::Bytes;
        let y = AxisQuantity::Rate(Unit::BytesPerSecond);
        let mut ticks: Vec<f64> =
            curves.iter().flat_map(|of: &ChartSeries| &of.dots).map(|dot| dot.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        section.push_gap().push(Chart {
            title: "copies over size".to_owned(),
            names: ["bytes of a copy", ""],
            x,
            y,
            ticks,
            series: curves,
            ..Chart::default()
        });
    }
    add_node_maps(&mut section, &ones, largest);
    add_device_matrices(&mut section, all);
    add_joint_copies(&mut section, all);
    section.push_gap().note(
        "how",
        "medians; single copies timed by the device's clock, simultaneous copies \
         by the host's; 8 B: time until the host detects that the copy is done",
    );
    drivers(&mut section, all.iter().map(|(_, config)| &config.on));
    section.push_doubts(&all.iter().map(|(m, _)| *m).collect::<Vec<_>>());
    section
}

/// Returns the figures of each device and NUMA node, under the heading of this device and node.
fn by_device_and_node<'a>(
    ones: &'a Links<'a>,
) -> Vec<(String, Vec<&'a DeviceFigure<'a, LinkConfig>>)> {
    let mut places = Vec::new();
    let nodes = values(ones, |config| config.host_node);
    for (_, of) in group_by_key(ones, |(_, config)| config.on.device.clone()) {
        for node in &nodes {
            let here: Vec<&DeviceFigure<'_, LinkConfig>> =
                of.iter().filter(|(_, config)| config.host_node == *node).copied().collect();
            let Some((_, config)) = here.first() else { continue };
            let node = node.map(|node| format!(", NUMA node {node}")).unwrap_or_default();
            places.push((format!("{}{node}", heading(&config.on)), here));
        }
    }
    places
}

/// Returns the cell with a rate in GB/s, or with a time and its unit.
fn value(m: &Measurement) -> TableCell {
    match m.unit {
        Unit::Seconds => TableCell::from_measurement(m, |value| Seconds(value).to_string()),
        _ => ColumnUnit::GB_PER_S.value(m),
    }
}

/// Returns the distinct values of a configuration key, in order of appearance.
fn values<T: PartialEq>(all: &Links<'_>, of: impl Fn(&LinkConfig) -> T) -> Vec<T> {
    distinct(all.iter().map(|(_, config)| of(config)))
}

/// Returns a curve over sizes for each column with at least two sizes.
fn series(of: &[&DeviceFigure<'_, LinkConfig>]) -> Vec<ChartSeries> {
    let curves = COLUMNS.iter().map(|column| column.curve(of));
    curves.filter(|series| series.dots.len() > 1).collect()
}

/// Returns the rate of a copy between pinned memory of a NUMA node and a device.
fn at_node(
    ones: &Links<'_>,
    name: &str,
    size: Option<u64>,
    node: u64,
    device: &str,
) -> Option<f64> {
    let (m, _) = ones.iter().find(|(m, config)| {
        m.name == name
            && config.message_bytes == size
            && config.host_memory.as_deref() == Some("pinned")
            && config.host_node == Some(node)
            && config.on.device.as_deref() == Some(device)
    })?;
    m.value
}

/// Adds heat maps of NUMA nodes and devices for the largest copies, if there are several nodes.
fn add_node_maps(section: &mut Section, ones: &Links<'_>, largest: Option<u64>) {
    let nodes: Vec<u64> = values(ones, |config| config.host_node).into_iter().flatten().collect();
    let devices: Vec<String> =
        values(ones, |config| config.on.device.clone()).into_iter().flatten().collect();
    if nodes.len() < 2 {
        return;
    }
    let map = |name: &str| HeatMap {
        title: format!("{}, GB/s", name.replace('_', " ")),
        values: nodes
            .iter()
            .map(|node| devices.iter().map(|at| at_node(ones, name, largest, *node, at)).collect())
            .collect(),
    };
    section.push_gap().push(HeatMaps {
        setup: String::new(),
        axes: ["NUMA node", "device"],
        rows: nodes.iter().map(|node| format!("n{node}")).collect(),
        columns: devices.clone(),
        maps: [TO_DEVICE, TO_HOST, BOTH_WAYS].map(map).into(),
        unit: Unit::BytesPerSecond,
    });
}

/// Adds the matrices of copies between devices, if there are several devices.
fn add_device_matrices(section: &mut Section, all: &Links<'_>) {
    let latency = format!("{DEVICE_TO_DEVICE}{LATENCY_SUFFIX}");
    for (name, unit) in [(DEVICE_TO_DEVICE.to_owned(), "GB/s"), (latency, "time")] {
        let of: Vec<DeviceFigure<'_, LinkConfig>> =
            all.iter().filter(|(m, _)| m.name == name).cloned().collect();
        let mut ids: Vec<String> =
            values(&of, |config| config.on.device.clone()).into_iter().flatten().collect();
        ids.sort();
        let Some((first, _)) = of.first() else { continue };
        let columns = ColumnList::<String>::new().left(unit, String::clone).columns_for_each(
            &ids,
            |to| (*to).clone(),
            |from, to| between(&of, from, to).map_or_else(|| "".into(), value),
        );
        let table = columns.table(&ids);
        let row = |from: &String| {
            ids.iter().map(|to| between(&of, from, to).and_then(|m| m.value)).collect()
        };
        let values = ids.iter().map(row).collect();
        let title = format!("{} of devices", name.replace('_', " "));
        section.push_gap().push(table);
        section.push(Picture::pair_map(title, first.unit, ids.clone(), values));
        section.push(Block::Text(
            "from the device of the row to the device of the \
             column"
                .to_owned(),
        ));
    }
}

/// Returns the figure of copies from one device to another.
fn between<'a>(of: &Links<'a>, from: &str, to: &str) -> Option<&'a Measurement> {
    let (m, _) = of.iter().find(|(_, config)| {
        config.on.device.as_deref() == Some(from) && config.peer.as_deref() == Some(to)
    })?;
    Some(m)
}

/// Adds the table of simultaneous copies of all devices.
fn add_joint_copies(section: &mut Section, all: &Links<'_>) {
    let columns = ColumnList::<DeviceFigure<'_, LinkConfig>>::new()
        .left("all devices at the same time, GB/s", |(m, _)| {
            m.name[ALL_PREFIX.len()..].replace('_', " ")
        })
        .right_or_blank("size", |(_, config)| Some(Bytes(config.message_bytes?).to_string()))
        .right("sum", |(m, _)| value(m));
    let table = columns.table(all.iter().filter(|(m, _)| m.name.starts_with(ALL_PREFIX)));
    if !table.rows.is_empty() {
        section.push_gap().push(table);
    }
}
