//! Views of matrices: between NUMA nodes, and between CPUs.

use super::{CurvesFigure, evidence, memory_latency, of_caches, time, value};
use nodegauge_gauge::view::sentence::{capital, joined, range_of};
use nodegauge_gauge::view::{Block, Picture, Section, Table, TableCell};
use nodegauge_measure::quantity::significant;
use nodegauge_measure::{Bytes, Unit, stats};
use nodegauge_placement::Distance;
use std::collections::BTreeSet;

/// Maximum number of CPUs of a matrix that is shown cell by cell.
const MOST_CPUS: usize = 12;
/// Maximum number of nodes of a matrix that is shown; larger matrices are only in the record.
const MOST_NODES: usize = 16;

/// Unit of the times of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeUnit {
    Nanoseconds,
    /// Unit for CPUs that a hypervisor runs alternately on one core.
    Microseconds,
}

impl TimeUnit {
    /// Returns the unit in which the largest time has at most four digits before the point.
    fn of(figures: &[CurvesFigure<'_>]) -> Self {
        let largest = figures.iter().filter_map(|(m, _)| m.value).fold(0.0, f64::max);
        if largest < 10e-6 { Self::Nanoseconds } else { Self::Microseconds }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
        }
    }

    /// Returns the cell of a time.
    fn cell(self, seconds: f64) -> TableCell {
        match self {
            Self::Nanoseconds => time(seconds),
            Self::Microseconds => {
                TableCell::figure(seconds, Unit::Seconds, significant(seconds * 1e6))
            }
        }
    }
}

/// Returns the two ends of a figure: the kind (`n` for nodes, or `cpu`), and the two numbers.
pub(super) fn pair((_, config): &CurvesFigure<'_>) -> Option<(&'static str, u32, u32)> {
    if let (Some(from), Some(to)) = (config.from_node, config.to_node) {
        return Some(("n", from as u32, to as u32));
    }
    match config.places.as_deref() {
        Some([from, to]) => Some(("cpu", *from.first()?, *to.first()?)),
        _ => None,
    }
}

/// Adds the views of both matrices.
pub(super) fn view(of: &[CurvesFigure<'_>], section: &mut Section) {
    let some = |kind: &str, unit: Unit| -> Vec<CurvesFigure<'_>> {
        let is = |figure: &&CurvesFigure<'_>| {
            figure.0.unit == unit && pair(figure).is_some_and(|pair| pair.0 == kind)
        };
        of.iter().filter(is).cloned().collect()
    };
    let rates = some("n", Unit::BytesPerSecond);
    let cpus = some("cpu", Unit::Seconds);
    if !rates.is_empty() {
        let times = some("n", Unit::Seconds);
        section
            .push(grid(&rates, "GB/s", shown))
            .picture(map("bandwidth from node to node", &rates));
        section
            .gap()
            .push(grid(&times, "ns", shown))
            .picture(map("latency from node to node", &times))
            .gap();
        let text = "row: node whose cores read, column: node of the memory; latency of one core";
        section.push(Block::Text(text.to_owned()));
        if let [only] = times.as_slice() {
            section.push(Block::Text(memory_latency(only).unwrap_or_default()));
        } else if times.iter().any(|(_, config)| config.flushed_s.is_some()) {
            let flushed = |figure: &CurvesFigure<'_>| time(figure.1.flushed_s.unwrap_or(f64::NAN));
            section.gap().push(grid(&times, "ns, flushed", flushed)).gap();
            let set = times.iter().find_map(|(_, config)| config.set_bytes).unwrap_or(0);
            section.push(Block::Text(format!(
                "ns: a chase through {}, with its TLB misses; flushed: lines flushed from all caches, on pages that the TLB holds",
                Bytes(set)
            )));
        }
        let devices = rates
            .iter()
            .filter_map(|figure| Some((pair(figure)?.2, figure.1.device_memory.as_deref()?)));
        for (node, device) in devices.collect::<BTreeSet<_>>() {
            section.push(Block::Text(format!("n{node} is the memory of device {device}")));
        }
        evidence(section, &rates, "each node's cores read, memory bound to its node".to_owned());
    }
    if cpus.is_empty() {
        return;
    }
    if !rates.is_empty() {
        section.gap();
    }
    let unit = TimeUnit::of(&cpus);
    if numbers(&cpus).len() <= MOST_CPUS {
        let text = "core-to-core latency, half of a round trip of a cache line".to_owned();
        let shown = |(m, _): &CurvesFigure<'_>| match m.value {
            Some(value) => unit.cell(value),
            None => m.validity.status.name().into(),
        };
        section.push(grid(&cpus, unit.name(), shown)).gap().push(Block::Text(text));
    }
    section.picture(map("core-to-core latency", &cpus));
    let classes = by_distance(&cpus, unit);
    if !classes.rows.is_empty() {
        section.gap().push(classes);
    }
}

/// Returns the sentence on the nodes, or on the CPUs if there is one node: local and remote memory, or the range of the
/// core-to-core latency.
pub(super) fn conclusion(of: &[CurvesFigure<'_>]) -> Option<String> {
    let select = |kind: &str, unit: Unit, local: bool| -> Option<String> {
        let is = |figure: &&CurvesFigure<'_>| {
            let of_kind = pair(figure).filter(|pair| pair.0 == kind);
            figure.0.unit == unit && of_kind.is_some_and(|(_, from, to)| (from == to) == local)
        };
        range_of(of.iter().filter(is).map(|(m, _)| *m))
    };
    let of_memory = |local: bool| {
        let parts = [Unit::BytesPerSecond, Unit::Seconds].map(|unit| select("n", unit, local));
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| joined(&parts))
    };
    let mut parts = Vec::new();
    let is_local = |figure: &&CurvesFigure<'_>| {
        pair(figure).is_some_and(|(kind, from, to)| kind == "n" && from == to)
    };
    let local = of.iter().filter(is_local).filter(|(m, _)| m.unit == Unit::Seconds);
    let remark = local.map(of_caches).find(|text| !text.is_empty()).unwrap_or_default();
    parts.extend(of_memory(true).map(|words| format!("local memory has {words}{remark}")));
    parts.extend(of_memory(false).map(|words| format!("remote memory {words}")));
    let cores = select("cpu", Unit::Seconds, false);
    parts.extend(cores.map(|words| format!("a cache line goes between cores in {words}")));
    (!parts.is_empty()).then(|| capital(&parts.join("; ")))
}

/// Returns the numbers of all nodes or CPUs in these figures, ascending.
fn numbers(of: &[CurvesFigure<'_>]) -> BTreeSet<u32> {
    of.iter().filter_map(pair).flat_map(|(_, from, to)| [from, to]).collect()
}

/// Returns the figure from one node or CPU to another. The core-to-core latency between CPUs is the same in both
/// directions.
fn at<'a>(
    of: &'a [CurvesFigure<'a>],
    kind: &str,
    from: u32,
    to: u32,
) -> Option<&'a CurvesFigure<'a>> {
    let find = |x: u32, y: u32| {
        of.iter().find(|figure| {
            pair(figure).is_some_and(|pair| pair.0 == kind && (pair.1, pair.2) == (x, y))
        })
    };
    find(from, to).or_else(|| find(to, from).filter(|_| kind == "cpu"))
}

/// Returns a heat map with one row per source and one column per target.
fn map(title: &str, of: &[CurvesFigure<'_>]) -> Option<Picture> {
    let first = of.first()?;
    let numbers = numbers(of);
    let (kind, ..) = pair(first)?;
    let names: Vec<String> = numbers.iter().map(|number| format!("{kind}{number}")).collect();
    let row = |from: &u32| {
        let value = |to: &u32| at(of, kind, *from, *to).and_then(|(m, _)| m.value);
        numbers.iter().map(value).collect()
    };
    let values = numbers.iter().map(row).collect();
    (numbers.len() > 1).then(|| Picture::between(title, first.0.unit, names, values))
}

/// Returns the cell with the value of a figure.
fn shown(figure: &CurvesFigure<'_>) -> TableCell {
    value(Some(figure))
}

/// Returns a table with one row per source and one column per target. `cell_of` returns the cell of a figure.
fn grid(
    of: &[CurvesFigure<'_>],
    unit: &str,
    cell_of: impl Fn(&CurvesFigure<'_>) -> TableCell,
) -> Block {
    let numbers = numbers(of);
    if numbers.len() > MOST_NODES {
        return Block::Text(format!(
            "{unit}: the values of the {} pairs are in the record",
            of.len()
        ));
    }
    let kind = of.first().and_then(pair).map_or("", |(kind, ..)| kind);
    let mut titles = vec![unit.to_owned()];
    titles.extend(numbers.iter().map(|number| format!(">{kind}{number}")));
    let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    // Nodes without CPUs do not read and have no row.
    let reads = |from: &&u32| numbers.iter().any(|to| at(of, kind, **from, *to).is_some());
    for from in numbers.iter().filter(reads) {
        let cell = |to: &u32| {
            let found = at(of, kind, *from, *to);
            found.map_or_else(|| "".into(), &cell_of)
        };
        let title = format!("{kind}{from}").into();
        table.row(std::iter::once(title).chain(numbers.iter().map(cell)));
    }
    table.into()
}

/// Returns a table with the smallest, the median and the largest value of each class of distance, nearest first.
fn by_distance(of: &[CurvesFigure<'_>], unit: TimeUnit) -> Table {
    let mut classes: Vec<(&str, Vec<f64>)> = Vec::new();
    for (m, config) in of {
        let (Some(class), Some(value)) = (config.distance.map(Distance::name), m.value) else {
            continue;
        };
        match classes.iter_mut().find(|(known, _)| *known == class) {
            Some((_, values)) => values.push(value),
            None => classes.push((class, vec![value])),
        }
    }
    let least = format!(">least {}", unit.name());
    let mut table = Table::new(&["cpus", ">pairs", &least, ">median", ">most"]);
    for (class, values) in classes {
        table.row([
            class.into(),
            values.len().to_string().into(),
            unit.cell(values.iter().copied().fold(f64::INFINITY, f64::min)),
            unit.cell(stats::median(&values)),
            unit.cell(values.iter().copied().fold(0.0, f64::max)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CurveConfig;
    use nodegauge_measure::record::{Measurement, Quoted};

    #[test]
    fn pairs_are_told_by_the_configuration() {
        let m = Measurement::new("memory", "matrix", "any", Unit::Seconds);
        let of = |config: CurveConfig| pair(&(&m, config));
        let nodes = CurveConfig { from_node: Some(0), to_node: Some(11), ..Default::default() };
        assert_eq!(of(nodes), Some(("n", 0, 11)));
        let places = |places: &[u32]| CurveConfig {
            places: Some(places.iter().map(|cpu| vec![*cpu]).collect()),
            ..Default::default()
        };
        assert_eq!(of(places(&[3, 7])), Some(("cpu", 3, 7)));
        assert_eq!(of(places(&[3])), None);
        assert_eq!(of(CurveConfig::default()), None);
    }

    #[test]
    fn memory_of_a_device_is_named_and_a_node_without_cpus_has_no_row() {
        let m = |unit| Measurement::new("memory", "matrix", "any", unit).value(Quoted::Best, 1e9);
        let (rate, time) = (m(Unit::BytesPerSecond), m(Unit::Seconds));
        let config = |to, device: Option<&str>| CurveConfig {
            from_node: Some(0),
            to_node: Some(to),
            device_memory: device.map(str::to_owned),
            ..Default::default()
        };
        let to = [config(0, None), config(1, Some("0009:01:00.0"))];
        let figures: Vec<CurvesFigure<'_>> =
            to.iter().flat_map(|to| [(&rate, to.clone()), (&time, to.clone())]).collect();
        let mut section = Section::new("matrix");
        view(&figures, &mut section);
        let reported = "n1 is the memory of device 0009:01:00.0".to_owned();
        assert!(section.blocks.contains(&Block::Text(reported)));
        let Some(Block::Table(table)) = section.blocks.first() else { panic!("no table") };
        assert_eq!((table.columns.len(), table.rows.len()), (3, 1));
    }
}
