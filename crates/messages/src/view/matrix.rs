//! Every core with every other, or pairs of nodes: a matrix while it fits, else the pairs that stand
//! out.

use super::{Figure, NONE, distance, distinct, evidence, in_words, unit_words};
use nodegauge_gauge::view::{Block, Cell, Column, Section, Table};
use nodegauge_measure::quantity::significant;
use nodegauge_measure::{Bytes, Unit, stats};
use nodegauge_placement::Distance;

/// Columns of a matrix at most: a wider one fits no terminal.
const MOST: usize = 12;
/// Pairs that stand out, shown at most.
const WORST: usize = 8;
/// A pair stands out when it is this much worse than the median of its distance.
const FAR: f64 = 1.1;
/// Below this rate figures have nothing before the point and little behind it: shown in MB/s.
const SMALL_RATE: f64 = 1e8;

/// One figure of one pair.
struct Pair<'a> {
    ends: [String; 2],
    value: f64,
    figure: &'a Figure<'a>,
}

impl<'a> Pair<'a> {
    fn of(figure: &'a Figure<'a>) -> Option<Self> {
        let config = &figure.config;
        let ends: Vec<String> = match (&config.hosts, &config.places) {
            (Some(hosts), _) => hosts.clone(),
            (None, Some(places)) => {
                places.iter().filter_map(|cpus| Some(cpus.first()?.to_string())).collect()
            }
            (None, None) => return None,
        };
        let ends = ends.try_into().ok()?;
        Some(Self { ends, value: figure.m.value?, figure })
    }
}

/// What the figures of a table are shown in.
#[derive(Clone, Copy)]
struct Shown {
    unit: Unit,
    megabytes: bool,
}

impl Shown {
    fn of(pairs: &[Pair<'_>]) -> Self {
        let unit = pairs.first().map_or(Unit::Seconds, |pair| pair.figure.m.unit);
        let most = pairs.iter().map(|pair| pair.value).fold(0.0, f64::max);
        Self { unit, megabytes: unit == Unit::BytesPerSecond && most < SMALL_RATE }
    }

    fn name(self) -> &'static str {
        if self.megabytes { "MB/s" } else { unit_words(self.unit) }
    }

    fn words(self, value: f64) -> String {
        if self.megabytes { significant(value / 1e6) } else { in_words(value, self.unit) }
    }

    fn cell(self, value: f64) -> Cell {
        Cell::figure(value, self.unit, self.words(value))
    }
}

/// A table for each library, pattern and size, with what stands out.
pub(super) fn add(section: &mut Section, all: &[&Figure<'_>]) {
    let key = |figure: &Figure<'_>| {
        (figure.library(), figure.m.name.clone(), figure.config.message_bytes)
    };
    let sized: Vec<&Figure<'_>> = all
        .iter()
        .copied()
        .filter(|figure| figure.m.unit != Unit::MessagesPerSecond)
        .filter(|figure| figure.config.message_bytes.is_some())
        .collect();
    let mut tables = 0;
    for table in distinct(sized.iter().map(|figure| key(figure))) {
        let own = sized.iter().filter(|figure| key(figure) == table);
        let pairs: Vec<Pair<'_>> = own.filter_map(|figure| Pair::of(figure)).collect();
        if pairs.is_empty() {
            continue;
        }
        if tables > 0 {
            section.gap();
        }
        tables += 1;
        let shown = Shown::of(&pairs);
        let (library, name, bytes) = table;
        let size = Bytes(bytes.unwrap_or(0));
        section.push(Block::Heading(format!("{library}, {name} of {size}, {}", shown.name())));
        section.push(square(&pairs, shown));
        section.note_if("far off", outliers(&pairs, shown));
    }
    evidence::how(section, all, false);
    evidence::doubts(section, all);
}

/// The matrix itself, with as few ends as fit; of many only a summary by distance.
fn square(pairs: &[Pair<'_>], shown: Shown) -> Table {
    let ends = distinct(pairs.iter().flat_map(|pair| &pair.ends));
    if ends.len() > MOST {
        return summary(pairs, shown);
    }
    let title = |end: &&String| Column { title: (*end).clone(), right: true };
    let corner = Column { title: String::new(), right: true };
    let columns = std::iter::once(corner).chain(ends.iter().map(title)).collect();
    let mut table = Table { columns, ..Table::default() };
    for a in &ends {
        let mut row: Vec<Cell> = vec![(*a).clone().into()];
        row.extend(ends.iter().map(|b| {
            let met = |pair: &&Pair<'_>| {
                let [x, y] = &pair.ends;
                (x == *a && y == *b) || (x == *b && y == *a)
            };
            pairs.iter().find(met).map_or_else(|| NONE.into(), |pair| shown.cell(pair.value))
        }));
        table.row(row);
    }
    table
}

fn summary(pairs: &[Pair<'_>], shown: Shown) -> Table {
    let mut table = Table::new(&["", ">pairs", ">least", ">median", ">most"]);
    for (name, values) in by_distance(pairs) {
        let at = |q: f64| shown.cell(stats::quantile(&values, q));
        table.row([
            distance(name).into(),
            values.len().to_string().into(),
            at(0.0),
            at(0.5),
            at(1.0),
        ]);
    }
    table
}

fn by_distance(pairs: &[Pair<'_>]) -> Vec<(Option<Distance>, Vec<f64>)> {
    let of = |pair: &Pair<'_>| pair.figure.config.distance;
    let values = |name| pairs.iter().filter(|pair| of(pair) == name).map(|p| p.value).collect();
    distinct(pairs.iter().map(of)).into_iter().map(|name| (name, values(name))).collect()
}

/// Pairs far from the median of their distance.
fn outliers(pairs: &[Pair<'_>], shown: Shown) -> Option<String> {
    let groups = by_distance(pairs);
    let worse = |pair: &Pair<'_>| {
        let name = pair.figure.config.distance;
        let (_, values) = groups.iter().find(|(known, _)| *known == name)?;
        let median = stats::median(values);
        let worse = match shown.unit {
            Unit::Seconds => pair.value / median,
            _ => median / pair.value,
        };
        (worse > FAR && values.len() > 2).then_some(worse)
    };
    let mut far: Vec<(f64, &Pair<'_>)> =
        pairs.iter().filter_map(|pair| Some((worse(pair)?, pair))).collect();
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = |(worse, pair): &(f64, &Pair<'_>)| {
        let [a, b] = &pair.ends;
        format!("{a}-{b} {} (x {worse:.2})", shown.words(pair.value))
    };
    let list: Vec<String> = far.iter().take(WORST).map(words).collect();
    (!list.is_empty()).then(|| list.join(", "))
}
