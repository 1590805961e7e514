//! Views of matrices: between NUMA nodes, and between CPUs.

use super::{CurvesFigure, cache_remark, evidence, memory_latency, value};
use nodegauge_gauge::view::sentence::{capitalise, enumeration, value_range};
use nodegauge_gauge::view::{
    Block, ColumnList, ColumnUnit, Picture, Section, Table, TableCell, group_by_key,
};
use nodegauge_kernels::Kernel;
use nodegauge_measure::{Bytes, Fraction, Unit, stats};
use std::collections::BTreeSet;

mod firmware;

/// Maximum number of CPUs for which the matrix is shown cell by cell.
const MAX_CPUS: usize = 12;
/// Maximum number of NUMA nodes for which the matrix is shown; larger matrices are only in the record.
const MAX_NODES: usize = 16;

/// Maximum time that a table shows in nanoseconds, in seconds, so that there are at most four digits before the point.
/// If a hypervisor runs CPUs alternately on one core, times are longer.
const MAX_NANOSECONDS: f64 = 10e-6;

/// Returns the unit in which a table shows times.
fn time_unit(figures: &[CurvesFigure<'_>]) -> ColumnUnit {
    let largest = figures.iter().filter_map(|(m, _)| m.value).fold(0.0, f64::max);
    if largest < MAX_NANOSECONDS { ColumnUnit::NANOSECONDS } else { ColumnUnit::MICROSECONDS }
}

/// Returns the source and the target of a figure: the kind (`n` for NUMA nodes, or `cpu`), and two numbers.
pub(super) fn source_and_target(
    (_, config): &CurvesFigure<'_>,
) -> Option<(&'static str, u32, u32)> {
    if let (Some(from), Some(to)) = (config.from_node, config.to_node) {
        return Some(("n", from as u32, to as u32));
    }
    match config.places.as_deref() {
        Some([from, to]) => Some(("cpu", *from.first()?, *to.first()?)),
        _ => None,
    }
}

/// True if a figure is a write bandwidth.
fn is_write((_, config): &CurvesFigure<'_>) -> bool {
    config.kernel.as_deref() == Some(Kernel::Write.spec().name)
}

/// Adds the views of both matrices.
pub(super) fn add_view(of: &[CurvesFigure<'_>], section: &mut Section) {
    let mut rates = pair_figures(of, "n", Unit::BytesPerSecond);
    let writes: Vec<CurvesFigure<'_>> = rates.extract_if(.., |figure| is_write(figure)).collect();
    let cpus = pair_figures(of, "cpu", Unit::Seconds);
    if !rates.is_empty() {
        let times = pair_figures(of, "n", Unit::Seconds);
        let title = if writes.is_empty() { "GB/s" } else { "GB/s read" };
        section
            .push(grid(&rates, title, shown))
            .push_picture(map("bandwidth between NUMA nodes", &rates));
        if !writes.is_empty() {
            section
                .push_gap()
                .push(grid(&writes, "GB/s written", shown))
                .push_picture(map("write bandwidth between NUMA nodes", &writes));
        }
        section
            .push_gap()
            .push(grid(&times, "ns", shown))
            .push_picture(map("latency between NUMA nodes", &times))
            .push_gap();
        let text =
            "row: NUMA node whose cores read; column: NUMA node of the memory; latency of one core";
        section.push(Block::Text(text.to_owned()));
        if let [only] = times.as_slice() {
            section.push(Block::Text(memory_latency(only).unwrap_or_default()));
        } else if times.iter().any(|(_, config)| config.flushed_s.is_some()) {
            let flushed = grid(&times, "ns, flushed", |(_, config)| {
                ColumnUnit::NANOSECONDS.cell(Some(config.flushed_s.unwrap_or(f64::NAN)))
            });
            section.push_gap().push(flushed).push_gap();
            let set = times.iter().find_map(|(_, config)| config.set_bytes).unwrap_or(0);
            section.push(Block::Text(format!(
                "ns: a chase through {}, with its TLB misses; flushed: lines flushed from all \
                 caches, translations in the TLB",
                Bytes(set)
            )));
        }
        let devices = rates.iter().filter_map(|figure| {
            Some((source_and_target(figure)?.2, figure.1.device_memory.as_deref()?))
        });
        for (node, device) in devices.collect::<BTreeSet<_>>() {
            section.push(Block::Text(format!("n{node} is the memory of device {device}")));
        }
        firmware::add(section, &[&rates, &writes, &times]);
        evidence(
            section,
            &rates,
            "the cores of each NUMA node read; memory is bound to its NUMA node".to_owned(),
        );
    }
    if cpus.is_empty() {
        return;
    }
    if !rates.is_empty() {
        section.push_gap();
    }
    let unit = time_unit(&cpus);
    if numbers(&cpus).len() <= MAX_CPUS {
        let text = "core-to-core latency, half of a round trip of a cache line".to_owned();
        let table = grid(&cpus, &unit.symbol(), |(m, _)| unit.value(m));
        section.push(table).push_gap().push(Block::Text(text));
    }
    section.push_picture(map("core-to-core latency", &cpus));
    let classes = by_distance(&cpus, unit);
    if !classes.rows.is_empty() {
        section.push_gap().push(classes);
    }
    if let Some(text) = lines_in_words(&cpus) {
        section.push_gap().push(Block::Text(text));
    }
}

/// Returns a sentence about the number of lines per pair and their spread; `None` for records without this number.
fn lines_in_words(cpus: &[CurvesFigure<'_>]) -> Option<String> {
    let lines = cpus.iter().find_map(|(_, config)| config.lines)?;
    let spreads: Vec<f64> = cpus.iter().filter_map(|(_, config)| config.line_spread).collect();
    let most = spreads.iter().copied().reduce(f64::max)?;
    let median = Fraction(stats::median(&spreads));
    Some(format!(
        "median of {lines} lines of each pair, on pages that one of the two CPUs touched first; the slowest line takes \
         {} more time than the fastest (median), at most {}",
        median.in_whole_percent(),
        Fraction(most).in_whole_percent()
    ))
}

/// Returns a sentence with the ranges of local memory, remote memory, and the core-to-core latency, as far as they were
/// measured.
pub(super) fn conclusion(of: &[CurvesFigure<'_>]) -> Option<String> {
    let mut parts = Vec::new();
    let local = pair_figures(of, "n", Unit::Seconds).into_iter().filter(is_local);
    let remark = local.map(|figure| cache_remark(&figure)).find(|text| !text.is_empty());
    let remark = remark.unwrap_or_default();
    parts.extend(memory_range(of, true).map(|words| format!("local memory has {words}{remark}")));
    parts.extend(memory_range(of, false).map(|words| format!("remote memory {words}")));
    let cores = pair_range(of, "cpu", Unit::Seconds, false);
    parts.extend(cores.map(|words| format!("the core-to-core latency is {words}")));
    (!parts.is_empty()).then(|| capitalise(&parts.join("; ")))
}

/// Returns the figures between NUMA nodes (`n`) or between CPUs (`cpu`) that have a unit.
fn pair_figures<'a>(of: &[CurvesFigure<'a>], kind: &str, unit: Unit) -> Vec<CurvesFigure<'a>> {
    let pairs = of.iter().filter(|figure| {
        figure.0.unit == unit && source_and_target(figure).is_some_and(|pair| pair.0 == kind)
    });
    pairs.cloned().collect()
}

/// True if the source and the target of a figure are the same.
fn is_local(figure: &CurvesFigure<'_>) -> bool {
    source_and_target(figure).is_some_and(|(_, from, to)| from == to)
}

/// Returns the range of the values of pairs, without the bandwidths of writes. If `with_local` is true, the pairs have
/// the same source and target, otherwise different ones.
fn pair_range(of: &[CurvesFigure<'_>], kind: &str, unit: Unit, with_local: bool) -> Option<String> {
    let mut pairs = pair_figures(of, kind, unit);
    pairs.retain(|figure| is_local(figure) == with_local && !is_write(figure));
    value_range(pairs.iter().map(|(m, _)| *m))
}

/// Returns the ranges of the bandwidth and of the latency of local memory if `with_local` is true, otherwise of remote
/// memory.
fn memory_range(of: &[CurvesFigure<'_>], with_local: bool) -> Option<String> {
    let units = [Unit::BytesPerSecond, Unit::Seconds];
    let parts: Vec<String> =
        units.into_iter().filter_map(|unit| pair_range(of, "n", unit, with_local)).collect();
    (!parts.is_empty()).then(|| enumeration(&parts))
}

/// Returns the numbers of all NUMA nodes or CPUs in these figures, ascending.
fn numbers(of: &[CurvesFigure<'_>]) -> BTreeSet<u32> {
    of.iter().filter_map(source_and_target).flat_map(|(_, from, to)| [from, to]).collect()
}

/// Returns the figure from one NUMA node or CPU to another. The core-to-core latency between CPUs is the same in both
/// directions.
fn at<'a>(
    of: &'a [CurvesFigure<'a>],
    kind: &str,
    from: u32,
    to: u32,
) -> Option<&'a CurvesFigure<'a>> {
    let find = |x: u32, y: u32| {
        of.iter().find(|figure| {
            source_and_target(figure)
                .is_some_and(|pair| pair.0 == kind && (pair.1, pair.2) == (x, y))
        })
    };
    find(from, to).or_else(|| find(to, from).filter(|_| kind == "cpu"))
}

/// Returns a heat map with one row per source and one column per target.
fn map(title: &str, of: &[CurvesFigure<'_>]) -> Option<Picture> {
    let first = of.first()?;
    let numbers = numbers(of);
    let (kind, ..) = source_and_target(first)?;
    let names: Vec<String> = numbers.iter().map(|number| format!("{kind}{number}")).collect();
    let values = numbers.iter().map(|from| {
        let row = numbers.iter().map(|to| at(of, kind, *from, *to).and_then(|(m, _)| m.value));
        row.collect()
    });
    let values = values.collect();
    (numbers.len() > 1).then(|| Picture::pair_map(title, first.0.unit, names, values))
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
    if numbers.len() > MAX_NODES {
        return Block::Text(format!(
            "{unit}: the values of the {} pairs are in the record",
            of.len()
        ));
    }
    let kind = of.first().and_then(source_and_target).map_or("", |(kind, ..)| kind);
    let columns =
        ColumnList::<u32>::new().left(unit, |from| format!("{kind}{from}")).columns_for_each(
            &numbers,
            |to| format!("{kind}{to}"),
            |from, to| at(of, kind, *from, **to).map_or_else(TableCell::default, &cell_of),
        );
    // Nodes without CPUs cannot read, so they have no row.
    let reading =
        numbers.iter().filter(|from| numbers.iter().any(|to| at(of, kind, **from, *to).is_some()));
    columns.table(reading).into()
}

/// Returns a table with the smallest, the median and the largest value of each class of distance, nearest first.
fn by_distance(of: &[CurvesFigure<'_>], unit: ColumnUnit) -> Table {
    let known = of.iter().filter_map(|(m, config)| Some((config.distance?.name(), m.value?)));
    let rows = group_by_key(known, |(class, _)| *class).into_iter();
    let rows = rows
        .map(|(class, own)| (class, own.into_iter().map(|(_, value)| value).collect::<Vec<f64>>()));
    let columns = ColumnList::<(&str, Vec<f64>)>::new()
        .left("cpus", |(class, _)| *class)
        .right("pairs", |(_, values)| values.len().to_string())
        .values(format!("least {}", unit.symbol()), unit, |(_, values)| {
            values.iter().copied().reduce(f64::min)
        })
        .values("median", unit, |(_, values)| Some(stats::median(values)))
        .values("most", unit, |(_, values)| values.iter().copied().reduce(f64::max));
    columns.table(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CurveConfig;
    use nodegauge_measure::record::{Measurement, QuotedStatistic};

    #[test]
    fn matrix_pairs_are_read_from_the_configuration() {
        let m = Measurement::new("memory", "matrix", "any", Unit::Seconds);
        let of = |config: CurveConfig| source_and_target(&(&m, config));
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
    fn spread_over_lines_is_printed_if_measured() {
        let m = Measurement::new("memory", "matrix", "cpu0->cpu1", Unit::Seconds)
            .with_value(QuotedStatistic::Median, 1e-7);
        let with_spread = |lines, spread: Option<f64>| {
            let config = CurveConfig { lines, line_spread: spread, ..Default::default() };
            (&m, config)
        };
        let known = [
            with_spread(Some(8), Some(0.02)),
            with_spread(Some(8), Some(0.3)),
            with_spread(Some(8), Some(0.05)),
        ];
        let text = lines_in_words(&known).unwrap();
        assert!(text.starts_with("median of 8 lines of each pair"), "{text}");
        assert!(text.ends_with("5 % more time than the fastest (median), at most 30 %"), "{text}");
        assert_eq!(lines_in_words(&[with_spread(None, None)]), None);
    }

    #[test]
    fn numa_nodes_without_cpus_have_no_row() {
        let m = |unit| {
            Measurement::new("memory", "matrix", "any", unit).with_value(QuotedStatistic::Best, 1e9)
        };
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
        add_view(&figures, &mut section);
        let reported = "n1 is the memory of device 0009:01:00.0".to_owned();
        assert!(section.blocks.contains(&Block::Text(reported)));
        let Some(Block::Table(table)) = section.blocks.first() else { panic!("no table") };
        assert_eq!((table.columns.len(), table.rows.len()), (3, 1));
    }
}
