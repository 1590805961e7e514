//! Tables that compare the probe with the OSU micro-benchmarks, or show only the latter for an imported output.

use super::curves::{add_pictures, sizes};
use super::{ShownFigure, evidence};
use nodegauge_gauge::view::{Block, ColumnList, ColumnUnit, Section, group_by_key};
use nodegauge_measure::record::{Category, Measurement};
use nodegauge_measure::{Bytes, Fraction, stats};

/// Adds a table for each library, pattern and unit.
pub(super) fn add(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let key = |figure: &&ShownFigure<'_>| (figure.library(), figure.m.name.clone(), figure.m.unit);
    for ((library, name, unit), own) in group_by_key(all.iter().copied(), key) {
        if !section.blocks.is_empty() {
            section.push_gap();
        }
        let version = own.iter().find_map(|figure| figure.config.engine_version.as_ref());
        let version = version.map_or_else(|| "osu".to_owned(), |version| format!("osu {version}"));
        let rows = sizes(&own, &[&name]).into_iter().map(|size| ComparedRow::new(size, &own));
        let table = columns(&name, &version, ColumnUnit::from_unit(unit)).table(rows);
        section.push(Block::Heading(library));
        section.push(table);
        if let Some(rounds) = own.iter().find_map(|figure| figure.config.rounds) {
            let timing = own.iter().find_map(|figure| figure.config.timing.as_deref());
            let timed_part = match timing {
                Some("each") => "operation, as in OSU 7",
                _ => "batch, as in OSU 5",
            };
            let text = "interleaved rounds; ratios are also medians; the clock is read around each";
            section.note("", format!("medians of {rounds} {text} {timed_part}"));
        }
    }
    add_pictures(section, all, |figure, _| match figure.m.category {
        Category::Reference => format!("{}, OSU's", figure.m.name),
        _ => figure.m.name.clone(),
    });
    if all.iter().any(|figure| figure.m.category == Category::Variant) {
        evidence::add_notes(section, all, false);
    }
    evidence::add_doubts(section, all);
}

/// Row of a table: the figures of a size.
struct ComparedRow<'a> {
    size: u64,
    probe: Option<&'a ShownFigure<'a>>,
    osu: Option<&'a ShownFigure<'a>>,
}

impl<'a> ComparedRow<'a> {
    fn new(size: u64, own: &[&'a ShownFigure<'a>]) -> Self {
        let [probe, osu] = [Category::Variant, Category::Reference].map(|category| {
            own.iter().copied().find(|figure| {
                figure.m.category == category && figure.config.message_bytes == Some(size)
            })
        });
        Self { size, probe, osu }
    }
}

/// Returns the columns of a table: the values of the probe and of OSU's program, their ratio, and the spread of both.
fn columns<'c>(name: &str, version: &str, unit: ColumnUnit) -> ColumnList<'c, ComparedRow<'c>> {
    ColumnList::new()
        .right(format!("{name} {}", unit.symbol()), |row: &ComparedRow<'_>| {
            Bytes(row.size).to_string()
        })
        .values("probe", unit, |row| row.probe?.m.value)
        .values(version, unit, |row| row.osu?.m.value)
        .right_or_dash("ratio", |row| Some(format!("{:.3}", row.probe?.config.over_osu?)))
        .right_or_dash("spread", |row| spread(row.probe?.m))
        .right_or_dash("osu's", |row| spread(row.osu?.m))
}

/// Returns the variation of the samples: half of their range, divided by the median.
fn spread(m: &Measurement) -> Option<String> {
    if m.samples.len() < 2 {
        return None;
    }
    let [min, median, max] = [0.0, 0.5, 1.0].map(|share| stats::quantile(&m.samples, share));
    Some(Fraction((max - min) / 2.0 / median).in_tenths())
}
