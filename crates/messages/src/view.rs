//! View of `mpi`: a summary with one line per distance; then the curves with a chart, a matrix, or a comparison of the
//! probe with the OSU micro-benchmarks; then the evidence.

mod conclusion;
mod curves;
mod evidence;
mod matrix;
mod reference;

pub(crate) use conclusion::conclusion;

use crate::GAUGE;
use crate::config::MessageConfig;
use crate::curve::MessageCurve;
use crate::pattern::Pattern;
use nodegauge_analysis::ratio::closing;
use nodegauge_gauge::Detail;
use nodegauge_gauge::outputs::is_output;
use nodegauge_gauge::view::{
    self, ColumnList, ColumnUnit, FigureRow, Section, Table, distinct, group_by_key, words,
};
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_measure::{Bytes, NoticeId};
use nodegauge_placement::Distance;

/// Minimum message size of latencies in the summary, bytes: the smallest size with content.
const SMALL: u64 = 8;
/// Text for a missing value.
const NONE: &str = "-";

/// Figure with its configuration.
struct ShownFigure<'a> {
    m: &'a Measurement,
    config: MessageConfig,
    /// Pattern of the figure; `None` for an unknown pattern.
    pattern: Option<Pattern>,
}

impl FigureRow for ShownFigure<'_> {
    fn figure(&self) -> &Measurement {
        self.m
    }
}

impl ShownFigure<'_> {
    /// Returns the name of the library, e.g. `Open MPI 4.1.4`. For an MPI that cannot be used, it is the wrapper; for a
    /// saved output, it is the program that printed the output.
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

    /// Returns the size of the messages.
    fn size(&self) -> Bytes {
        Bytes(self.config.message_bytes.unwrap_or(0))
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

/// Returns the gauge's figures in a record.
fn figures(record: &Record) -> Vec<ShownFigure<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && !is_output(m));
    own.map(|m| ShownFigure { m, config: m.read_config(), pattern: m.name.parse().ok() }).collect()
}

/// Returns the gauge's sections of a page.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let figures = figures(record);
    let all: Vec<&ShownFigure<'_>> = figures.iter().collect();
    let mut section = Section::new(GAUGE);
    if all.is_empty() {
        // The page of all gauges shows the reason why a gauge has no figures.
        section.note_if(GAUGE, notice(record, NoticeId::LeftOut));
    } else if all.iter().any(|row| row.m.category == Category::Reference) {
        reference::add(&mut section, &all);
    } else if all.iter().any(|row| row.config.ranks.is_some()) {
        matrix::add(&mut section, &all);
    } else {
        let summary = summary(&all);
        if !summary.rows.is_empty() {
            section.push(summary);
        }
        // A page with several gauges shows only the facts that are needed to understand the row.
        evidence::add_notes(&mut section, &all, detail == Detail::Brief);
        evidence::add_doubts(&mut section, &all);
        if detail == Detail::Brief && all.iter().all(|row| row.is_own()) {
            section.note_if("note", notice(record, NoticeId::Method));
        }
        if detail == Detail::Full {
            section.push_gap();
            curves::add(&mut section, &all);
        }
        curves::add_unknown(&mut section, &all);
    }
    let closing = closing(&all);
    [section].into_iter().chain(closing).filter(|section| !section.blocks.is_empty()).collect()
}

/// Returns the gauge's notice of a kind.
fn notice(record: &Record, id: NoticeId) -> Option<String> {
    let mut own = record.notices.iter().filter(|notice| notice.gauge == GAUGE);
    own.find(|notice| notice.id == id).map(ToString::to_string)
}

/// Compares several MPIs between the same ranks, or the probe with OSU's programs on one MPI. The text states which
/// library has the lower latency for small messages, and which the higher bandwidth for large messages. If neither was
/// measured, the first measured pattern is compared.
fn closing(all: &[&ShownFigure<'_>]) -> Option<Section> {
    let has_osu = all.iter().any(|figure| is_osu(figure));
    let shown =
        all.iter().copied().filter(|figure| !figure.is_own() && figure.config.ranks.is_none());
    let places = group_by_key(shown, |figure| ComparedPlace {
        distance: figure.config.distance,
        library: has_osu.then(|| figure.library()),
    });
    let has_distances = distinct(places.iter().map(|(place, _)| place.distance)).len() > 1;
    let has_libraries = distinct(places.iter().map(|(place, _)| &place.library)).len() > 1;
    let mut sentences = Vec::new();
    for (place, own) in &places {
        let distance = place.distance.filter(|_| has_distances);
        let library = place.library.clone().filter(|_| has_libraries);
        let between: Vec<String> =
            distance.map(|kind| kind.name().to_owned()).into_iter().chain(library).collect();
        for pattern in compared_patterns(own) {
            let Some((size, figures)) = compared_size(own, pattern) else { continue };
            let mut what = action(pattern, size);
            if !between.is_empty() {
                what.push_str(&format!(" ({})", between.join(", ")));
            }
            let named: Vec<(String, &Measurement)> =
                figures.iter().map(|figure| (compared_name(figure, has_osu), figure.m)).collect();
            sentences.extend(closing::several_figures_sentences(
                &named,
                &what,
                figures[0].m.quoted,
            ));
        }
    }
    (!sentences.is_empty()).then(|| view::summary_section(sentences))
}

/// Distance of the ranks for which libraries are compared and, in a comparison with OSU's programs, the library.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ComparedPlace {
    distance: Option<Distance>,
    library: Option<String>,
}

/// True for a figure that one of OSU's programs measured.
fn is_osu(figure: &ShownFigure<'_>) -> bool {
    figure.m.category == Category::Reference
}

/// Returns the name of a figure in a comparison: the library, or, if OSU's programs were run, the program.
fn compared_name(figure: &ShownFigure<'_>, has_osu: bool) -> String {
    match &figure.config.engine_version {
        _ if !has_osu => figure.library(),
        Some(version) if is_osu(figure) => format!("OSU {version}"),
        _ if is_osu(figure) => "OSU".to_owned(),
        _ => "the probe".to_owned(),
    }
}

/// Returns the patterns to compare: latency and bandwidth, or, if neither was measured, the first measured pattern.
fn compared_patterns(own: &[&ShownFigure<'_>]) -> Vec<Pattern> {
    let measured = distinct(own.iter().filter_map(|figure| figure.pattern));
    let mut ends: Vec<Pattern> = vec![Pattern::Latency, Pattern::Bw];
    ends.retain(|pattern| measured.contains(pattern));
    if ends.is_empty() {
        ends.extend(measured.first());
    }
    ends
}

/// Returns a size that at least two libraries have for a pattern, with its figures. For rates it is the largest size,
/// otherwise the smallest size of at least 8 B.
fn compared_size<'a>(
    own: &[&'a ShownFigure<'a>],
    pattern: Pattern,
) -> Option<(u64, Vec<&'a ShownFigure<'a>>)> {
    let of = own.iter().copied().filter(|figure| figure.pattern == Some(pattern));
    let mut sizes: Vec<(u64, Vec<&ShownFigure<'_>>)> = Vec::new();
    for (size, figures) in group_by_key(of, |figure| figure.config.message_bytes) {
        let size = size.filter(|size| *size >= SMALL || pattern.is_sizeless());
        sizes.extend(size.filter(|_| figures.len() > 1).map(|size| (size, figures)));
    }
    sizes.sort_by_key(|(size, _)| *size);
    if pattern.is_rate() { sizes.pop() } else { sizes.into_iter().next() }
}

/// Returns the predicate of a sentence about messages of a size, e.g. `moves 1 MiB`.
fn action(pattern: Pattern, size: u64) -> String {
    let size = Bytes(size);
    match pattern {
        _ if pattern.is_sizeless() => format!("runs {pattern}"),
        Pattern::Latency => format!("delivers {size}"),
        Pattern::Bw => format!("moves {size}"),
        other => format!("runs {other} with {size}"),
    }
}

/// Row of the summary: the figures of a library at one distance.
struct SummaryRow<'a> {
    library: String,
    distance: Option<Distance>,
    own: Vec<&'a ShownFigure<'a>>,
}

impl SummaryRow<'_> {
    fn pattern_figures(&self, pattern: Pattern) -> impl Iterator<Item = &ShownFigure<'_>> {
        self.own.iter().copied().filter(move |figure| figure.pattern == Some(pattern))
    }

    /// Returns the latency of the smallest messages with a payload.
    fn latency(&self) -> Option<f64> {
        let with_payload = self
            .pattern_figures(Pattern::Latency)
            .filter(|figure| figure.config.message_bytes.is_some_and(|bytes| bytes >= SMALL));
        with_payload.min_by_key(|figure| figure.config.message_bytes)?.m.value
    }

    /// Returns the highest value of a pattern in a unit.
    fn best(&self, pattern: Pattern, unit: ColumnUnit) -> Option<f64> {
        let own = self.pattern_figures(pattern).filter(|figure| figure.m.unit == unit.unit());
        own.filter_map(|figure| figure.m.value).max_by(f64::total_cmp)
    }

    /// Returns the properties of the curve of latencies.
    fn curve(&self) -> MessageCurve {
        let first = self.pattern_figures(Pattern::Latency).next();
        first.and_then(|figure| figure.config.curve.clone()).unwrap_or_default()
    }
}

/// Returns a table with one row per library and distance.
fn summary(all: &[&ShownFigure<'_>]) -> Table {
    const RATE: ColumnUnit = ColumnUnit::GB_PER_S;
    const MESSAGES: ColumnUnit = ColumnUnit::MMSG_PER_S;
    let pairwise = all.iter().copied().filter(|figure| !figure.is_collective());
    let rows = group_by_key(pairwise, |figure| figure.line()).into_iter();
    let rows = rows.map(|((library, distance), own)| SummaryRow { library, distance, own });
    let columns = ColumnList::<SummaryRow<'_>>::new()
        .left("messages", |row| row.library.clone())
        .left("", |row| distance(row.distance))
        .left("cpus", |row| places(row.own[0]))
        .values("us", ColumnUnit::MICROSECONDS, SummaryRow::latency)
        .values("bw GB/s", RATE, |row| row.best(Pattern::Bw, RATE))
        .values("bibw", RATE, |row| row.best(Pattern::Bibw, RATE))
        .values("Mmsg/s", MESSAGES, |row| row.best(Pattern::MbwMr, MESSAGES))
        .right_or_dash("eager <", |row| Some(Bytes(row.curve().rendezvous()?.0).to_string()))
        .right_or_dash("n1/2", |row| {
            Some(Bytes(row.curve().hockney.last()?.half_bytes as u64).to_string())
        });
    columns.table(rows)
}

/// Returns the name of a distance; `all ranks` if there is none.
fn distance(distance: Option<Distance>) -> &'static str {
    distance.map_or("all ranks", Distance::name)
}

/// Formats the CPUs of each rank: `0, 1` or `{0-3}, {4-7}`. Long lists are shortened in the middle.
fn places(figure: &ShownFigure<'_>) -> String {
    figure.config.places.as_deref().map_or_else(|| NONE.to_owned(), words::places_in_words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_gauge::view::{Block, Note};
    use nodegauge_measure::Notice;

    fn recorded() -> Record {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/golden/mpi-all/record.json"
        ))
        .unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn missing_measurement_is_explained() {
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
    fn unknown_pattern_is_shown() {
        let mut record = recorded();
        record.measurements.truncate(1);
        record.measurements[0].name = "osu_put".to_owned();
        let sections = sections(&record, Detail::Brief);
        let Some(Block::Table(table)) = sections[0].blocks.last() else { panic!("{sections:?}") };
        assert_eq!((table.rows.len(), table.rows[0][0].text.as_str()), (1, "osu_put"));
    }

    #[test]
    fn brief_view_has_only_one_table() {
        let tables = |detail| {
            let sections = sections(&recorded(), detail);
            let blocks = sections.into_iter().flat_map(|section| section.blocks);
            blocks.filter(|block| matches!(block, Block::Table(_))).count()
        };
        assert_eq!((tables(Detail::Brief), tables(Detail::Full)), (1, 4));
    }
}
