//! View of `mpi`: a summary with one line per distance, the curves with a chart, a matrix, or a comparison of the probe
//! with the OSU micro-benchmarks. The evidence follows below.

mod conclusion;
mod curves;
mod evidence;
mod matrix;
mod reference;

pub(crate) use conclusion::conclusion;

use crate::GAUGE;
use crate::config::MessageConfig;
use crate::pattern::Pattern;
use nodegauge_analysis::ratio::closing;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{self, Section, Table, TableCell, distinct, grouped};
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, NoticeId, Unit};
use nodegauge_placement::{Distance, cpus};

/// Message sizes of the summary: the smallest size with a payload for the latency, and the largest size for the rate.
const SMALL: u64 = 8;
/// Text for a missing figure.
const NONE: &str = "-";

/// Figure with its configuration.
struct ShownFigure<'a> {
    m: &'a Measurement,
    config: MessageConfig,
    /// Pattern of the figure; `None` for an unknown pattern.
    pattern: Option<Pattern>,
}

impl ShownFigure<'_> {
    /// Returns the name of the library, e.g. `Open MPI 4.1.4`. For an unusable MPI this is the wrapper, and for a saved
    /// output the program that printed it.
    fn library(&self) -> String {
        if self.is_own() {
            return format!("no MPI, {}", self.config.engine.as_deref().unwrap_or(NONE));
        }
        let mpi = self.config.mpi.clone().unwrap_or_default();
        match (mpi.library, mpi.version, &self.config.engine_version) {
            (Some(name), Some(version), _) => format!("{name} {version}"),
            (Some(name), None, _) => name,
            (None, _, Some(version)) => format!("OSU {version}"),
            (None, _, None) => mpi.mpicc.unwrap_or_else(|| "OSU".to_owned()),
        }
    }

    /// Returns the library and the distance. Figures with the same library and distance share a line.
    fn line(&self) -> (String, Option<Distance>) {
        (self.library(), self.config.distance)
    }

    /// True if the figure was measured without an MPI.
    fn is_own(&self) -> bool {
        self.m.category == Category::Transport
    }

    fn is_collective(&self) -> bool {
        self.pattern.is_some_and(Pattern::is_collective)
    }
}

/// Returns the gauge's sections of a page.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE);
    let figure = |m| ShownFigure { m, config: m.read_config(), pattern: m.name.parse().ok() };
    let all: Vec<ShownFigure<'_>> = own.map(figure).collect();
    let all: Vec<&ShownFigure<'_>> = all.iter().collect();
    let mut section = Section::new(GAUGE);
    if all.is_empty() {
        // The page of all gauges shows the reason why a gauge has no figures.
        let mut notices = record.notices.iter().filter(|notice| notice.gauge == GAUGE);
        let why = notices.find(|notice| notice.id == NoticeId::LeftOut);
        section.note_if(GAUGE, why.map(|notice| notice.to_string()));
    } else if all.iter().any(|row| row.m.category == Category::Reference) {
        reference::add(&mut section, &all);
    } else if all.iter().any(|row| row.config.ranks.is_some()) {
        matrix::add(&mut section, &all);
    } else {
        let summary = summary(&all);
        if !summary.rows.is_empty() {
            section.push(summary);
        }
        // On a page with several gauges, only the facts that are needed to understand the row are shown.
        evidence::how(&mut section, &all, detail == Detail::Brief);
        evidence::doubts(&mut section, &all);
        if detail == Detail::Brief && all.iter().all(|row| row.is_own()) {
            let mut notices = record.notices.iter().filter(|notice| notice.gauge == GAUGE);
            let why = notices.find(|notice| notice.id == NoticeId::Method);
            section.note_if("note", why.map(|notice| notice.to_string()));
        }
        if detail == Detail::Full {
            section.gap();
            curves::add(&mut section, &all);
        }
        curves::add_unknown(&mut section, &all);
    }
    let closing = closing(&all);
    [section].into_iter().chain(closing).filter(|section| !section.blocks.is_empty()).collect()
}

/// Compares several MPIs between the same ranks, or the probe with OSU's programs on one MPI. The text states which
/// library has the lower latency of small messages and which has the higher bandwidth of large messages. If neither was
/// measured, the first measured pattern is compared.
fn closing(all: &[&ShownFigure<'_>]) -> Option<Section> {
    let is_osu = |figure: &ShownFigure<'_>| figure.m.category == Category::Reference;
    let osu = all.iter().any(|figure| is_osu(figure));
    let shown = |figure: &&&ShownFigure<'_>| !figure.is_own() && figure.config.ranks.is_none();
    let name = |figure: &ShownFigure<'_>| match (osu, &figure.config.engine_version) {
        (false, _) => figure.library(),
        (true, Some(version)) if is_osu(figure) => format!("OSU {version}"),
        (true, _) => if is_osu(figure) { "OSU" } else { "the probe" }.to_owned(),
    };
    let mut sentences = Vec::new();
    let place =
        |figure: &&&ShownFigure<'_>| (figure.config.distance, osu.then(|| figure.library()));
    let places = grouped(all.iter().filter(shown), place);
    let several = [
        distinct(places.iter().map(|((distance, _), _)| distance)).len() > 1,
        distinct(places.iter().map(|((_, library), _)| library)).len() > 1,
    ];
    for ((distance, library), own) in &places {
        let measured = distinct(own.iter().filter_map(|figure| figure.pattern));
        let mut ends: Vec<Pattern> = vec![Pattern::Latency, Pattern::Bw];
        ends.retain(|pattern| measured.contains(pattern));
        if ends.is_empty() {
            ends.extend(measured.first());
        }
        for pattern in ends {
            let smallest = !pattern.is_rate();
            let does = match pattern {
                Pattern::Latency => "delivers".to_owned(),
                Pattern::Bw => "moves".to_owned(),
                other => format!("does {other} of"),
            };
            let of = own.iter().filter(|figure| figure.pattern == Some(pattern));
            let by_size = grouped(of, |figure| figure.config.message_bytes);
            // A size that all libraries have; for small messages, a size greater than zero.
            let mut sizes: Vec<_> =
                by_size.iter().filter(|(_, figures)| figures.len() > 1).collect();
            sizes.retain(|(size, _)| {
                size.is_some_and(|size| size >= SMALL || pattern.is_sizeless())
            });
            sizes.sort_by_key(|(size, _)| *size);
            let end = if smallest { sizes.first() } else { sizes.last() };
            let Some((Some(size), figures)) = end else { continue };
            let what = if pattern.is_sizeless() {
                format!("does {pattern}")
            } else {
                format!("{does} {}", Bytes(*size))
            };
            let distance = distance.filter(|_| several[0]).map(|kind| kind.name().to_owned());
            let between = [distance, library.clone().filter(|_| several[1])];
            let between: Vec<String> = between.into_iter().flatten().collect();
            let what =
                if between.is_empty() { what } else { format!("{what} ({})", between.join(", ")) };
            let named: Vec<(String, &Measurement)> =
                figures.iter().map(|figure| (name(figure), figure.m)).collect();
            sentences.extend(closing::of_several(&named, &what, figures[0].m.quoted));
        }
    }
    (!sentences.is_empty()).then(|| view::summary_of(sentences))
}

/// Returns a table with one row per library and distance.
fn summary(all: &[&ShownFigure<'_>]) -> Table {
    let mut table = Table::new(&[
        "messages", "", "cpus", ">us", ">bw GB/s", ">bibw", ">Mmsg/s", ">eager <", ">n1/2",
    ]);
    let pairwise = all.iter().filter(|figure| !figure.is_collective());
    for ((library, between), own) in grouped(pairwise, |figure| figure.line()) {
        let latencies = || own.iter().filter(|figure| figure.pattern == Some(Pattern::Latency));
        let latency = latencies()
            .filter(|figure| figure.config.message_bytes.is_some_and(|bytes| bytes >= SMALL))
            .min_by_key(|figure| figure.config.message_bytes)
            .and_then(|figure| figure.m.value);
        let best = |pattern: Pattern, unit: Unit| {
            let own = own.iter().filter(|figure| figure.pattern == Some(pattern));
            let values = own.filter(|figure| figure.m.unit == unit).filter_map(|f| f.m.value);
            FigureUnit::of(unit).cell(values.max_by(f64::total_cmp))
        };
        let curve = latencies().next().and_then(|figure| figure.config.curve.clone());
        let curve = curve.unwrap_or_default();
        let half = curve.hockney.last().map(|fit| fit.half_bytes as u64);
        let bytes = |bytes: Option<u64>| bytes.map_or(NONE.to_owned(), |b| Bytes(b).to_string());
        table.row([
            library.into(),
            distance(between).into(),
            places(own[0]).into(),
            FigureUnit::of(Unit::Seconds).cell(latency),
            best(Pattern::Bw, Unit::BytesPerSecond),
            best(Pattern::Bibw, Unit::BytesPerSecond),
            best(Pattern::MbwMr, Unit::MessagesPerSecond),
            bytes(curve.rendezvous().map(|(size, _)| size)).into(),
            bytes(half).into(),
        ]);
    }
    table
}

/// Returns the name of a distance; `all ranks` if there is none.
fn distance(distance: Option<Distance>) -> &'static str {
    distance.map_or("all ranks", Distance::name)
}

/// Formats the CPUs of each rank: `0, 1` or `{0-3}, {4-7}`. Long lists are shortened in the middle.
fn places(figure: &ShownFigure<'_>) -> String {
    const SHOWN: usize = 8;
    let words = |cpus: &Vec<u32>| match cpus.as_slice() {
        [cpu] => cpu.to_string(),
        several => {
            let ids: Vec<_> = several.iter().map(|cpu| nodegauge_machine::CpuId(*cpu)).collect();
            format!("{{{}}}", cpus::ranges(&ids))
        }
    };
    let Some(places) = &figure.config.places else { return NONE.to_owned() };
    let words: Vec<String> = places.iter().map(words).collect();
    match words.len() {
        0..=SHOWN => words.join(", "),
        all => format!("{}, ..., {}", words[..SHOWN - 2].join(", "), words[all - 2..].join(", ")),
    }
}

/// Unit in which figures are shown, e.g. `GB/s`.
#[derive(Clone, Copy)]
struct FigureUnit {
    unit: Unit,
    name: &'static str,
    /// Converts a value to this unit.
    convert: fn(f64) -> f64,
}

impl FigureUnit {
    fn of(unit: Unit) -> Self {
        let (name, convert): (_, fn(f64) -> f64) = match unit {
            Unit::Seconds => ("us", |seconds| seconds * 1e6),
            Unit::BytesPerSecond => ("GB/s", |rate| rate / 1e9),
            Unit::MessagesPerSecond => ("Mmsg/s", |rate| rate / 1e6),
            other => (other.symbol(), |value| value),
        };
        Self { unit, name, convert }
    }

    /// Formats a value with four digits.
    fn words(self, value: f64) -> String {
        significant((self.convert)(value))
    }

    fn cell(self, value: Option<f64>) -> TableCell {
        let figure = |rate| TableCell::figure(rate, self.unit, self.words(rate));
        value.map_or_else(|| NONE.into(), figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::{Block, Note};
    use nodegauge_measure::Notice;

    fn recorded() -> Record {
        let text = include_str!("../../../tests/golden/mpi-all/record.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn why_nothing_was_measured_is_told() {
        let mut record = recorded();
        record.measurements.clear();
        record.notices = vec![
            Notice::new(NoticeId::LeftOut, "files", "another gauge"),
            Notice::new(NoticeId::LeftOut, GAUGE, "not measured: there is no mpicc"),
        ];
        let sections = sections(&record, Detail::Brief);
        assert_eq!(
            sections[0].blocks,
            [Note::new(GAUGE, "not measured: there is no mpicc").into()]
        );
        record.notices.clear();
        assert!(super::sections(&record, Detail::Brief).is_empty());
    }

    #[test]
    fn a_pattern_that_is_not_known_is_shown() {
        let mut record = recorded();
        record.measurements.truncate(1);
        record.measurements[0].name = "osu_put".to_owned();
        let sections = sections(&record, Detail::Brief);
        let Some(Block::Table(table)) = sections[0].blocks.last() else { panic!("{sections:?}") };
        assert_eq!((table.rows.len(), table.rows[0][0].text.as_str()), (1, "osu_put"));
    }

    #[test]
    fn the_brief_view_has_no_curves() {
        let tables = |detail| {
            let sections = sections(&recorded(), detail);
            let blocks = sections.into_iter().flat_map(|section| section.blocks);
            blocks.filter(|block| matches!(block, Block::Table(_))).count()
        };
        assert_eq!((tables(Detail::Brief), tables(Detail::Full)), (1, 4));
    }
}
