//! Tables and charts of figures over message sizes: latencies with their quantiles, rates with bars, collectives.

use super::{ShownFigure, distance, evidence};
use crate::config::LowerBoundConfig;
use crate::pattern::Pattern;
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartSeries, ColumnList, ColumnUnit, Guide, Picture, Section,
    Table, TableCell, distinct, group_by_key,
};
use nodegauge_measure::record::Category;
use nodegauge_measure::{Bytes, Fraction, Unit};
use nodegauge_placement::Distance;

/// Columns that a narrow terminal omits, in this order: the extremes, then the patterns after the first, and the ratio
/// to the lower bound last.
const OPTIONAL: [&str; 14] = [
    "max",
    "latency's max",
    "min",
    "latency's min",
    "p99",
    "p99",
    "median",
    "latency's median",
    "latency_mt",
    "multi_lat",
    "persistent",
    "Mmsg/s",
    "floor",
    "of floor",
];
/// Maximum number of curves in a chart with several patterns, limited by the colours of a page.
const CURVES: usize = 4;
/// Maximum width of a bar in columns.
const BAR: usize = 20;

/// Adds the tables of the curves for each library and distance.
pub(super) fn add(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let mut lines = group_by_key(all.iter().copied(), |figure| figure.line());
    lines.retain(|(_, own)| own.iter().any(|figure| figure.config.message_bytes.is_some()));
    // If an MPI was measured, the lower bound (floor) is shown in columns of the MPI's table.
    if lines.iter().any(|(_, own)| !own[0].is_own()) {
        lines.retain(|(_, own)| !own[0].is_own());
    }
    let several = lines.len() > 1;
    for (number, ((library, between), own)) in lines.into_iter().enumerate() {
        if number > 0 {
            section.push_gap();
        }
        if several {
            section.push(Block::Heading(format!("{library}, {}", distance(between))));
        }
        let ranks = own.iter().find(|figure| figure.is_collective());
        let ranks = ranks.and_then(|figure| figure.config.processes);
        let ranks = ranks.map(|ranks| format!(" of {ranks} ranks")).unwrap_or_default();
        let tables = [
            (latencies(&own), "times in us".to_owned()),
            (rates(&own), "rates in GB/s".to_owned()),
            (collectives(&own), format!("times{ranks} in us")),
        ];
        let there = tables.into_iter().filter_map(|(table, units)| Some((table?, units)));
        for (table_number, (table, units)) in there.enumerate() {
            if table_number > 0 {
                section.push_gap();
            }
            section.push(table).push(Block::Text(units));
        }
        let first = own.iter().find(|figure| figure.pattern == Some(Pattern::Latency));
        section.note_if("curve", first.and_then(|figure| evidence::curve_in_words(figure)));
        section.note_if("no floor", evidence::beaten_lower_bounds(&own));
    }
    // The name of a curve contains only what distinguishes it from the other curves of its chart.
    let libraries = distinct(all.iter().map(|figure| figure.library())).len() > 1;
    let distances = distinct(all.iter().map(|figure| figure.config.distance)).len() > 1;
    add_pictures(section, all, |figure, patterns| {
        let parts = [
            (patterns > 1).then(|| figure.m.name.clone()),
            libraries.then(|| figure.library()),
            distances.then(|| distance(figure.config.distance).to_owned()),
        ];
        let name = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if name.is_empty() { figure.library() } else { name }
    });
}

/// Adds charts over message sizes for times, byte rates, message rates and collectives. Figures for which `name`
/// returns the same text form one curve; its arguments are a figure and the number of patterns in the chart. If a chart
/// would have too many curves, each pattern gets its own chart; those of latency and bandwidth come first.
pub(super) fn add_pictures(
    section: &mut Section,
    all: &[&ShownFigure<'_>],
    name: impl Fn(&ShownFigure<'_>, usize) -> String,
) {
    let looks = CurveStyles::from_figures(all);
    let mut firsts = Vec::new();
    let mut others = Vec::new();
    let sized = all.iter().copied().filter(|f| f.config.message_bytes.is_some_and(|size| size > 0));
    let kinds = group_by_key(sized, |f| (f.is_collective(), f.m.unit));
    for ((collective, unit), own) in kinds {
        let what = match unit {
            _ if collective => "collectives",
            Unit::Seconds => "latency",
            Unit::BytesPerSecond => "bandwidth",
            _ => "message rate",
        };
        let patterns = group_by_key(own.iter().copied(), |f| f.m.name.clone());
        let count = patterns.len();
        let curves = distinct(own.iter().map(|f| name(f, count))).len();
        if count == 1 || curves <= CURVES {
            firsts.extend(picture(what, unit, &own, &looks, |f| name(f, count)));
            continue;
        }
        for (pattern, pattern_figures) in patterns {
            let is_first =
                matches!(pattern_figures[0].pattern, Some(Pattern::Latency | Pattern::Bw));
            let title = if is_first { what.to_owned() } else { format!("{what} ({pattern})") };
            let drawn = picture(&title, unit, &pattern_figures, &looks, |f| name(f, 1));
            if is_first { firsts.extend(drawn) } else { others.extend(drawn) }
        }
    }
    section.blocks.extend(firsts.into_iter().chain(others).map(Block::Picture));
}

/// Returns the chart of the figures with one unit; `None` if no curve has at least two points.
fn picture(
    what: &str,
    unit: Unit,
    own: &[&ShownFigure<'_>],
    looks: &CurveStyles,
    name: impl Fn(&ShownFigure<'_>) -> String,
) -> Option<Picture> {
    let mut series: Vec<ChartSeries> = Vec::new();
    for (line_name, line_figures) in group_by_key(own.iter().copied(), |f| name(f)) {
        let mut line = ChartSeries { mark: '*', name: line_name, ..ChartSeries::default() };
        if let Some(first) = line_figures.first() {
            looks.apply(&mut line, first);
        }
        for figure in &line_figures {
            let bytes = figure.config.message_bytes.filter(|bytes| *bytes > 0);
            if let (Some(bytes), Some(value)) = (bytes, figure.m.value) {
                line.push((bytes as f64, value), figure.m);
            }
        }
        line.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.push(line);
    }
    if series.iter().all(|series| series.dots.len() < 2) {
        return None;
    }
    let y =
        if unit == Unit::Seconds { AxisQuantity::Microseconds } else { AxisQuantity::Rate(unit) };
    // Size from which a message waits for its receiver.
    let mut by_mpi = own.iter().filter(|f| !f.is_own());
    let eager = by_mpi.find_map(|f| f.config.curve.as_ref()?.rendezvous());
    let guides = eager.map(|(at, _)| Guide::x(at as f64, format!("eager below {}", Bytes(at))));
    let chart = Chart {
        names: ["message size", ""],
        x: AxisQuantity::Bytes,
        y,
        series,
        guides: guides.into_iter().collect(),
        ..Chart::default()
    };
    Some(Picture::chart(format!("{what} over message size"), chart))
}

/// Colours and dash patterns of the curves, which are the same in all charts of a page. A library has a colour, and a
/// distance has a dash pattern. If there is only one library, each distance has a colour; if there is also only one
/// distance, each pattern has a colour.
struct CurveStyles {
    /// Libraries, each with a flag for figures of another program that uses the same library.
    libraries: Vec<(bool, String)>,
    distances: Vec<Option<Distance>>,
    patterns: Vec<String>,
    /// True if an MPI was measured, so that the transport without an MPI is its lower bound.
    has_mpi: bool,
}

impl CurveStyles {
    fn from_figures(all: &[&ShownFigure<'_>]) -> Self {
        Self {
            libraries: distinct(all.iter().map(|f| Self::library(f))),
            distances: distinct(all.iter().map(|f| f.config.distance)),
            patterns: distinct(all.iter().map(|f| f.m.name.clone())),
            has_mpi: all.iter().any(|f| !f.is_own()),
        }
    }

    fn library(of: &ShownFigure<'_>) -> (bool, String) {
        (of.m.category == Category::Reference, of.library())
    }

    /// Sets the colour and the dash pattern of the curve of a figure.
    fn apply(&self, line: &mut ChartSeries, of: &ShownFigure<'_>) {
        let library = self.libraries.iter().position(|known| *known == Self::library(of));
        let distance = self.distances.iter().position(|known| *known == of.config.distance);
        let pattern = self.patterns.iter().position(|known| *known == of.m.name);
        let several_libraries = self.libraries.len() > 1;
        let several_distances = self.distances.len() > 1;
        line.colour = match (several_libraries, several_distances) {
            (true, _) => library,
            (false, true) => distance,
            (false, false) => pattern,
        };
        line.dash = distance.filter(|_| several_libraries && several_distances);
        line.is_bound = of.is_own() && self.has_mpi;
    }
}

/// Adds the figures of unknown patterns, by name.
pub(super) fn add_unknown(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let columns = ColumnList::<ShownFigure<'_>>::new()
        .names("pattern")
        .left("", |figure| distance(figure.config.distance))
        .right_or_blank("size", |figure| Some(Bytes(figure.config.message_bytes?).to_string()))
        .right("value", |figure| ColumnUnit::from_unit(figure.m.unit).cell(figure.m.value))
        .left("unit", |figure| ColumnUnit::from_unit(figure.m.unit).symbol());
    let table = columns.table(all.iter().copied().filter(|figure| figure.pattern.is_none()));
    if !table.rows.is_empty() {
        section.push_gap().push(table);
    }
}

/// Returns the names of the measured patterns for which `of_kind` returns true, in order of appearance.
fn names<'a>(own: &[&'a ShownFigure<'_>], of_kind: impl Fn(Pattern) -> bool) -> Vec<&'a str> {
    let kind = own.iter().filter(|figure| figure.pattern.is_some_and(&of_kind));
    distinct(kind.map(|figure| figure.m.name.as_str()))
}

/// Returns the sizes of the figures with these names, ascending.
pub(super) fn sizes(own: &[&ShownFigure<'_>], names: &[&str]) -> Vec<u64> {
    let of_names = own.iter().filter(|figure| names.contains(&&*figure.m.name));
    let mut sizes: Vec<u64> = of_names.filter_map(|figure| figure.config.message_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn at<'a>(
    own: &[&'a ShownFigure<'a>],
    name: &str,
    unit: Unit,
    size: u64,
) -> Option<&'a ShownFigure<'a>> {
    own.iter().copied().find(|figure| {
        let config = &figure.config;
        figure.m.name == name && figure.m.unit == unit && config.message_bytes == Some(size)
    })
}

/// Columns of a table over message sizes.
type SizeColumns<'c> = ColumnList<'c, u64>;

/// Returns the columns for the figures of patterns; each row is a size.
fn over_sizes<'c>(
    own: &'c [&'c ShownFigure<'c>],
    patterns: &'c [&'c str],
    unit: ColumnUnit,
) -> SizeColumns<'c> {
    ColumnList::new().right("size", |size: &u64| Bytes(*size).to_string()).columns_for_each(
        patterns,
        |name| (*name).to_string(),
        move |size, name| unit.cell(at(own, name, unit.unit(), *size).and_then(|of| of.m.value)),
    )
}

/// Returns the table with a row for each size of these patterns. Columns that do not fit a narrow terminal are left
/// out.
fn table(columns: &SizeColumns<'_>, own: &[&ShownFigure<'_>], patterns: &[&str]) -> Table {
    columns.table(sizes(own, patterns)).with_optional_columns(&OPTIONAL)
}

fn latencies(own: &[&ShownFigure<'_>]) -> Option<Table> {
    const UNIT: ColumnUnit = ColumnUnit::MICROSECONDS;
    let there = names(own, |pattern| !pattern.is_rate() && !pattern.is_collective());
    let first = *there.first()?;
    // With a single pattern, the column titles do not contain the pattern's name.
    let whose = if there.len() > 1 { format!("{first}'s ") } else { String::new() };
    let config = |size: &u64| Some(&at(own, first, UNIT.unit(), *size)?.config);
    let columns = over_sizes(own, &there, UNIT)
        .values(format!("{whose}min"), UNIT, move |size| config(size)?.min)
        .values("median", UNIT, |size| {
            Some(at(own, first, UNIT.unit(), *size)?.m.summary.as_ref()?.median)
        })
        .values("p99", UNIT, move |size| config(size)?.p99)
        .values("max", UNIT, move |size| config(size)?.max);
    Some(table(&with_lower_bound(columns, own, first, UNIT), own, &there))
}

/// Adds the columns with the lower bound of a pattern, if it has one.
fn with_lower_bound<'c>(
    columns: SizeColumns<'c>,
    own: &'c [&'c ShownFigure<'c>],
    name: &'c str,
    unit: ColumnUnit,
) -> SizeColumns<'c> {
    let has_lower_bound =
        own.iter().any(|figure| figure.m.name == name && figure.config.floor.is_some());
    let floor = move |size: &u64| {
        at(own, name, unit.unit(), *size)?.config.floor.filter(LowerBoundConfig::is_bound)
    };
    columns.add_if(has_lower_bound, |columns| {
        columns
            .values("floor", unit, move |size| Some(floor(size)?.value))
            .right_or_dash("of floor", move |size| Some(floor(size)?.share.in_whole_percent()))
    })
}

fn rates(own: &[&ShownFigure<'_>]) -> Option<Table> {
    const UNIT: ColumnUnit = ColumnUnit::GB_PER_S;
    const MESSAGES: ColumnUnit = ColumnUnit::MMSG_PER_S;
    let there = names(own, Pattern::is_rate);
    let first = *there.first()?;
    let counting = own.iter().find(|figure| figure.m.unit == MESSAGES.unit());
    let of_first =
        own.iter().filter(|figure| figure.m.name == first && figure.m.unit == UNIT.unit());
    let max = of_first.filter_map(|figure| figure.m.value).fold(0.0, f64::max);
    let columns = over_sizes(own, &there, UNIT).add_if(counting.is_some(), |columns| {
        columns.values(MESSAGES.symbol(), MESSAGES, move |size| {
            at(own, &counting?.m.name, MESSAGES.unit(), *size)?.m.value
        })
    });
    let columns = with_lower_bound(columns, own, first, UNIT).left("", |size| {
        let rate = at(own, first, UNIT.unit(), *size).and_then(|figure| figure.m.value);
        rate.map_or_else(TableCell::default, |rate| TableCell::bar(Fraction(rate / max)))
    });
    Some(table(&columns, own, &there).with_max_bar_length(BAR))
}

fn collectives(own: &[&ShownFigure<'_>]) -> Option<Table> {
    let there = names(own, Pattern::is_collective);
    there.first()?;
    let columns = over_sizes(own, &there, ColumnUnit::MICROSECONDS);
    Some(columns.table(sizes(own, &there)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GAUGE;
    use crate::config::{MessageConfig, MpiConfig};
    use nodegauge_gauge::view::Drawing;
    use nodegauge_measure::record::{Measurement, QuotedStatistic};

    #[test]
    fn library_has_one_colour_on_all_charts() {
        let figure = |category, pattern: &str, unit| {
            Measurement::new(GAUGE, "mpi", pattern, unit)
                .with_category(category)
                .with_value(QuotedStatistic::Median, 1.0)
        };
        // Only the latency of the transport and only the bandwidth of the MPI come first in their charts.
        let own = figure(Category::Transport, "latency", Unit::Seconds);
        let own_rate = figure(Category::Transport, "bw", Unit::BytesPerSecond);
        let by_mpi = figure(Category::Variant, "bw", Unit::BytesPerSecond);
        let shown: Vec<ShownFigure<'_>> = [&own, &by_mpi, &own_rate]
            .into_iter()
            .flat_map(|m| [(m, 8), (m, 16)])
            .map(|(m, bytes)| ShownFigure {
                m,
                config: MessageConfig { message_bytes: Some(bytes), ..Default::default() },
                pattern: m.name.parse().ok(),
            })
            .collect();
        let mut section = Section::new("mpi");
        add(&mut section, &shown.iter().collect::<Vec<_>>());
        let charts = section.blocks.iter().filter_map(|block| match block {
            Block::Picture(Picture { drawing: Drawing::Chart(chart), .. }) => Some(chart),
            _ => None,
        });
        let colours: Vec<Vec<Option<usize>>> =
            charts.map(|chart| chart.series.iter().map(|one| one.colour).collect()).collect();
        assert_eq!(colours, [vec![Some(0)], vec![Some(1), Some(0)]]);
    }

    #[test]
    fn many_curves_are_split_into_one_chart_per_pattern() {
        let figure = |category, pattern: &str| {
            Measurement::new(GAUGE, "mpi", pattern, Unit::Seconds)
                .with_category(category)
                .with_value(QuotedStatistic::Median, 1e-6)
        };
        let patterns = ["latency", "multi_lat"];
        let by_mpi = patterns.map(|pattern| figure(Category::Variant, pattern));
        let own = patterns.map(|pattern| figure(Category::Transport, pattern));
        let mut shown = Vec::new();
        for distance in [Distance::Cache, Distance::Socket, Distance::OtherSocket] {
            for (library, of) in [("MPICH", &by_mpi), ("Open MPI", &by_mpi), ("", &own)] {
                let mpi = MpiConfig { library: Some(library.to_owned()), ..MpiConfig::default() };
                for m in of {
                    shown.extend([8, 16].map(|bytes| ShownFigure {
                        m,
                        config: MessageConfig {
                            message_bytes: Some(bytes),
                            mpi: Some(mpi.clone()),
                            distance: Some(distance),
                            ..MessageConfig::default()
                        },
                        pattern: m.name.parse().ok(),
                    }));
                }
            }
        }
        let mut section = Section::new("mpi");
        add(&mut section, &shown.iter().collect::<Vec<_>>());
        let mut titles = Vec::new();
        for block in section.blocks {
            let Block::Picture(Picture { title, drawing: Drawing::Chart(chart) }) = block else {
                continue;
            };
            titles.push(title);
            let looks = chart.series.iter().map(|one| (one.colour, one.dash, one.is_bound));
            let look = |colour, dash| (Some(colour), Some(dash), colour == 2);
            let expected = (0..3).flat_map(|dash| (0..3).map(move |colour| look(colour, dash)));
            assert!(looks.eq(expected), "{:?}", chart.series);
        }
        assert_eq!(titles, ["latency over message size", "latency (multi_lat) over message size"]);
    }

    #[test]
    fn mpi_and_built_in_transport_have_separate_curves() {
        let figure = |category, seconds| {
            let m = Measurement::new(GAUGE, "mpi", "latency", Unit::Seconds);
            m.with_category(category).with_value(QuotedStatistic::Median, seconds)
        };
        let by_mpi = figure(Category::Variant, 200e-9);
        let own = figure(Category::Transport, 80e-9);
        let shown: Vec<ShownFigure<'_>> = [8, 16]
            .into_iter()
            .flat_map(|bytes| [(&by_mpi, bytes), (&own, bytes)])
            .map(|(m, bytes)| ShownFigure {
                m,
                config: MessageConfig { message_bytes: Some(bytes), ..Default::default() },
                pattern: Some(Pattern::Latency),
            })
            .collect();
        let mut section = Section::new("mpi");
        add(&mut section, &shown.iter().collect::<Vec<_>>());
        let mut charts = section.blocks.iter().filter_map(|block| match block {
            Block::Picture(Picture { drawing: Drawing::Chart(chart), .. }) => Some(chart),
            _ => None,
        });
        let values = |series: &ChartSeries| series.dots.iter().map(|dot| dot.1).collect::<Vec<_>>();
        let series: Vec<Vec<f64>> = charts.next().unwrap().series.iter().map(values).collect();
        assert_eq!(series, [[200e-9; 2], [80e-9; 2]]);
    }
}
