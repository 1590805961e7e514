//! Tables that compare the probe with the OSU micro-benchmarks, or show only the latter for an imported output.

use super::curves::{pictures, sizes};
use super::{FigureUnit, NONE, ShownFigure, evidence};
use nodegauge_gauge::view::{Block, Section, Table, TableCell, grouped};
use nodegauge_measure::record::{Category, Measurement};
use nodegauge_measure::{Bytes, Fraction, stats};

/// Adds a table for each library, pattern and unit.
pub(super) fn add(section: &mut Section, all: &[&ShownFigure<'_>]) {
    let key = |figure: &&ShownFigure<'_>| (figure.library(), figure.m.name.clone(), figure.m.unit);
    for ((library, name, unit), own) in grouped(all.iter().copied(), key) {
        if !section.blocks.is_empty() {
            section.gap();
        }
        let version = own.iter().find_map(|figure| figure.config.engine_version.as_ref());
        let osu = version.map_or_else(|| ">osu".to_owned(), |version| format!(">osu {version}"));
        let scale = FigureUnit::of(unit);
        let title = format!(">{name} {}", scale.name);
        let mut rows = Table::new(&[&title, ">probe", &osu, ">ratio", ">spread", ">osu's"]);
        for size in sizes(&own, &[&name]) {
            let of = |category: Category| {
                own.iter().copied().find(|figure| {
                    figure.m.category == category && figure.config.message_bytes == Some(size)
                })
            };
            let (probe, reference) = (of(Category::Variant), of(Category::Reference));
            let value =
                |figure: Option<&ShownFigure<'_>>| scale.cell(figure.and_then(|f| f.m.value));
            let ratio = probe.and_then(|figure| figure.config.over_osu);
            rows.row([
                Bytes(size).to_string().into(),
                value(probe),
                value(reference),
                ratio.map_or_else(|| TableCell::from(NONE), |ratio| format!("{ratio:.3}").into()),
                spread(probe.map(|figure| figure.m)).into(),
                spread(reference.map(|figure| figure.m)).into(),
            ]);
        }
        section.push(Block::Heading(library));
        section.push(rows);
        if let Some(rounds) = own.iter().find_map(|figure| figure.config.rounds) {
            let timing = own.iter().find_map(|figure| figure.config.timing.as_deref());
            let timed_part = match timing {
                Some("each") => "operation, as in OSU 7",
                _ => "batch, as in OSU 5",
            };
            let text =
                "rounds, run alternately; ratios are also medians; the clock is read around each";
            section.note("", format!("medians of {rounds} {text} {timed_part}"));
        }
    }
    pictures(section, all, |figure, _| match figure.m.category {
        Category::Reference => format!("{}, OSU's", figure.m.name),
        _ => figure.m.name.clone(),
    });
    if all.iter().any(|figure| figure.m.category == Category::Variant) {
        evidence::how(section, all, false);
    }
    evidence::doubts(section, all);
}

/// Returns the variation of the samples: half of their range divided by the median.
fn spread(m: Option<&Measurement>) -> String {
    let Some(m) = m.filter(|m| m.samples.len() > 1) else { return NONE.to_owned() };
    let at = |share: f64| stats::quantile(&m.samples, share);
    Fraction((at(1.0) - at(0.0)) / 2.0 / at(0.5)).in_tenths()
}
