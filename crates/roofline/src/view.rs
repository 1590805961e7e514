//! View of a roofline: the chart, the ceilings with their ridge points, and the limits of the points.

use crate::roof_position;
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_gauge::roofline::{
    BANDWIDTH_TEST, Ceiling, GAUGE, KERNEL_TEST, ONE_THREAD_SUFFIX, PEAK_TEST, POINT_TEST,
    Roofline, RooflineDot, chart, format_intensity,
};
use nodegauge_gauge::view::sentence::{mark_doubted, value_in_words};
use nodegauge_gauge::view::{
    Block, ColumnList, ColumnUnit, Section, Table, TableCell, plain_table, summary,
};
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, Unit};
use nodegauge_placement::cpus::number_ranges;

/// Letters for points; the remaining letters are used for the lines of the chart.
const LETTERS: &str = "abcdefghijklnopqrtuvwxyz";
/// Returns the sections of the page; empty if the record has no roofline figures.
pub(super) fn sections(record: &Record) -> Vec<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE);
    let own: Vec<&Measurement> = own.collect();
    if own.is_empty() {
        return Vec::new();
    }
    let [all, one] = [false, true].map(|one| Roofline::from_figures(&record.measurements, one));
    let points: Vec<MarkedPoint<'_>> = placed(&own);
    let mut section = Section::new(GAUGE);
    let mut shown: Vec<&Measurement> = points.iter().map(|point| point.m).collect();
    if let Some(chart) =
        chart(&all, &points.iter().filter_map(MarkedPoint::dot).collect::<Vec<_>>())
    {
        section.push(chart).push_gap();
    }
    for (test, table) in [
        (BANDWIDTH_TEST, bandwidths as fn(&[&Measurement], [&Roofline; 2]) -> Table),
        (PEAK_TEST, peaks),
    ] {
        let of: Vec<&Measurement> = own.iter().copied().filter(|m| m.test == test).collect();
        if !of.is_empty() {
            section.push(table(&of, [&all, &one])).push_gap();
        }
        shown.extend(of);
    }
    if !points.is_empty() {
        section.push(points_table(&all, &points)).push_gap();
    }
    let rest = own.iter().filter(|m| !shown.iter().any(|known| std::ptr::eq(*known, **m)));
    let rest: Vec<&Measurement> = rest.copied().collect();
    if !rest.is_empty() {
        section.push(plain_table(&rest)).push_gap();
    }
    evidence(&own, &mut section);
    section.push_doubts(&own);
    let closing = closing(&all, &own).map(summary);
    std::iter::once(section).chain(closing).collect()
}

/// Kernel or point in the chart, with the letter that marks it.
struct MarkedPoint<'a> {
    m: &'a Measurement,
    letter: char,
    /// Name of the kernel or point, without the memory level.
    name: String,
    level: String,
    flops_per_byte: f64,
}

impl MarkedPoint<'_> {
    /// Returns the ceiling that limits the point.
    fn roof<'r>(&self, roofline: &'r Roofline) -> Option<&'r Ceiling> {
        roofline.roof(&self.level, self.flops_per_byte)
    }

    /// Returns the next ceiling above the point's rate, if it is not the roof.
    fn next_ceiling<'r>(&self, roofline: &'r Roofline) -> Option<&'r Ceiling> {
        let next = roofline.next_ceiling(&self.level, self.flops_per_byte, self.m.value?)?;
        Some(next).filter(|next| Some(*next) != self.roof(roofline))
    }

    fn dot(&self) -> Option<RooflineDot> {
        let Self { letter, name, flops_per_byte, .. } = self;
        let rate = self.m.value?;
        let basis = self.m.read_key::<shared::basis>();
        let note = basis.map_or_else(
            || format!("{name} in {}, this run", self.level),
            |of| format!("{name}: {of}"),
        );
        let flops_per_byte = *flops_per_byte;
        let doubt = self.m.validity.reasons.first().cloned();
        let label = format!("{name}, {}", self.level);
        Some(RooflineDot {
            letter: *letter,
            name: name.clone(),
            label,
            flops_per_byte,
            rate,
            note,
            doubt,
        })
    }
}

/// Returns the kernels and points with their letters. Figures with the same name at different memory levels have the
/// same letter.
fn placed<'a>(own: &[&'a Measurement]) -> Vec<MarkedPoint<'a>> {
    let mut names: Vec<String> = Vec::new();
    let mut points = Vec::new();
    for m in own {
        let Some((level, flops_per_byte)) = roof_position(m) else { continue };
        let name = match m.name.strip_prefix(&format!("{level}_")).filter(|_| m.test == KERNEL_TEST)
        {
            Some(kernel) => kernel.to_owned(),
            None => m.name.clone(),
        };
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        let letter = LETTERS.chars().cycle().nth(at).unwrap_or('*');
        points.push(MarkedPoint { m, letter, name, level, flops_per_byte });
    }
    points
}

/// Returns the single-thread figure that corresponds to `m`.
fn single_thread_figure<'a>(all: &[&'a Measurement], m: &Measurement) -> Option<&'a Measurement> {
    let name = format!("{}{ONE_THREAD_SUFFIX}", m.name);
    all.iter().find(|other| other.name == name).copied()
}

/// Returns the cell for a rate with the column's unit prefix; a dash if there is no figure.
fn giga(m: Option<&Measurement>) -> TableCell {
    m.map_or_else(|| "-".into(), |m| ColumnUnit::from_unit(m.unit).value(m))
}

/// Returns the figures of all threads.
fn all_threads_figures<'a>(of: &[&'a Measurement]) -> impl Iterator<Item = &'a Measurement> {
    of.iter().copied().filter(|m| !m.name.ends_with(ONE_THREAD_SUFFIX))
}

/// Returns a text with the ridge point of a ceiling.
fn ridge_in_words(roofline: &Roofline, name: &str) -> Option<String> {
    let ceiling = roofline.ceilings.iter().find(|ceiling| ceiling.name == name)?;
    roofline.ridge(ceiling).map(format_intensity)
}

/// Returns the table of bandwidths with their ridge points, for all threads and for a single thread.
fn bandwidths(of: &[&Measurement], [all, one]: [&Roofline; 2]) -> Table {
    let columns = ColumnList::<Measurement>::new()
        .left("bandwidth", |m| m.name.replace('_', " "))
        .right("GB/s", |m| giga(Some(m)))
        .right_or_dash("ridge", |m| ridge_in_words(all, &m.name))
        .right("1 thread", |m| giga(single_thread_figure(of, m)))
        .right_or_dash("its ridge", |m| ridge_in_words(one, &m.name))
        .right_or_dash("set", |m| Some(Bytes(m.read_key::<shared::thread_bytes>()?).to_string()))
        .left("loop", loop_in_words);
    columns.table(all_threads_figures(of))
}

/// Describes the loop or library with which a figure was measured.
fn loop_in_words(m: &Measurement) -> String {
    let unroll = m.read_key::<shared::unroll>().map(|times| format!("x{times}"));
    let parts = [
        m.read_key::<shared::blas>(),
        m.read_key::<shared::isa>(),
        unroll,
        m.read_key::<shared::stores>(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the table of peaks, for all threads and for a single thread.
fn peaks(of: &[&Measurement], _: [&Roofline; 2]) -> Table {
    let columns = ColumnList::<Measurement>::new()
        .left("peak", |m| Ceiling { name: m.name.clone(), rate: 0.0, level: None }.in_words())
        .right("GFLOP/s", |m| giga(Some(m)))
        .right_or_dash("FLOP/cycle", |m| {
            m.read_key::<shared::flops_per_cycle>().map(|flops| format!("{flops:.1}"))
        })
        .right_or_dash("at", |m| Some(m.read_key::<shared::clock_hz>()?.to_string()))
        .right("1 thread", |m| giga(single_thread_figure(of, m)))
        .left("loop", loop_in_words);
    columns.table(all_threads_figures(of))
}

/// Returns the table of points. Its columns are the rate as a share of the roof, the ceiling that limits the point, and
/// the next higher ceiling.
fn points_table(roofline: &Roofline, points: &[MarkedPoint<'_>]) -> Table {
    let columns = ColumnList::<MarkedPoint<'_>>::new()
        .left("", |point| point.letter.to_string())
        .left("point", |point| point.name.clone())
        .left("of", |point| point.level.clone())
        .right("FLOP/B", |point| format_intensity(point.flops_per_byte))
        .right("GFLOP/s", |point| giga(Some(point.m)))
        .right_or_dash("of roof", |point| Some(point.m.limit.as_ref()?.fraction.in_whole_percent()))
        .left("bound by", |point| ceiling_name(point.roof(roofline)))
        .left("next ceiling", |point| ceiling_name(point.next_ceiling(roofline)));
    columns.table(points)
}

/// Returns the name of a ceiling, or a dash.
fn ceiling_name(ceiling: Option<&Ceiling>) -> String {
    ceiling.map_or_else(|| "-".to_owned(), Ceiling::in_words)
}

/// Adds notes on the placement of the threads, the number of samples, and the sources of the points.
fn evidence(own: &[&Measurement], section: &mut Section) {
    section.push(Block::Text(
        "ridge: FLOP/B above which the highest peak is the limit; set: working set per thread; \
         the roof of a level is its fastest kernel, which may exceed the read bandwidth that \
         memory ladder prints; of roof: rate divided by min(peak, FLOP/B x bandwidth)"
            .to_owned(),
    ));
    let ceilings: Vec<&Measurement> = own
        .iter()
        .copied()
        .filter(|m| [BANDWIDTH_TEST, PEAK_TEST].contains(&m.test.as_str()))
        .collect();
    if let Some(m) = ceilings.iter().find(|m| !m.name.ends_with(ONE_THREAD_SUFFIX)) {
        let threads =
            count_in_words(m.read_key::<shared::threads>().unwrap_or(0) as usize, "thread");
        let cpus = m.read_key::<shared::places>().or_else(|| m.read_key::<shared::cpus>());
        let cpus = cpus.map(|places| number_ranges(places.concat()));
        let bound = match (m.read_key::<shared::bind>().as_deref(), cpus) {
            (Some("none"), _) | (_, None) => format!("{threads}, not bound"),
            (_, Some(cpus)) => format!("{threads} on cpus {cpus}"),
        };
        section.note("how", format!("{bound}; the bytes are those that the loops read and write"));
    }
    let counts = ceilings.iter().filter_map(|m| Some(m.summary.as_ref()?.n));
    if let (Some(min), Some(max)) = (counts.clone().min(), counts.max()) {
        let count = if min == max { min.to_string() } else { format!("{min} to {max}") };
        section
            .note("samples", format!("{count} per figure, interleaved; the best sample is quoted"));
    }
    for (m, basis) in own
        .iter()
        .filter_map(|m| Some((m, m.read_key::<shared::basis>().filter(|_| m.test == POINT_TEST)?)))
    {
        section.note("point", format!("{}: {basis}", m.name));
    }
}

/// Returns the first sentence of the page: the highest peak, and the memory bandwidth, which is the limit below a
/// certain number of operations per byte.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let roofline = Roofline::from_figures(&record.measurements, false);
    let peak = roofline.peak()?;
    let level = roofline.levels().pop()?;
    let bandwidth = roofline.bandwidth(level)?;
    let ridge = format_intensity(roofline.ridge(bandwidth)?);
    // Suspect figures in the sentence are marked, so the ridge computed from them needs no mark.
    Some(format!(
        "The cores compute at most {} ({}); below {ridge} FLOP/B, {level} with {} is the limit",
        quoted_ceiling(record, peak, PEAK_TEST)?,
        peak.in_words(),
        quoted_ceiling(record, bandwidth, BANDWIDTH_TEST)?
    ))
}

/// Returns a text with the figure of a ceiling.
fn quoted_ceiling(record: &Record, ceiling: &Ceiling, test: &str) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == test);
    own.into_iter().find(|m| m.name == ceiling.name).and_then(value_in_words)
}

/// True if the figure of a ceiling is suspect.
fn is_suspect(own: &[&Measurement], test: &str, ceiling: &Ceiling) -> bool {
    let of_ceiling = own.iter().filter(|m| m.test == test && m.name == ceiling.name);
    Obstacle::from_figures(of_ceiling.copied()).is_some()
}

/// Returns a sentence with the number of operations per byte below which each memory level is the limit. Ridge points
/// of suspect ceilings are marked.
fn closing(roofline: &Roofline, own: &[&Measurement]) -> Option<String> {
    let is_peak_suspect = is_suspect(own, PEAK_TEST, roofline.peak()?);
    let ridges: Vec<String> = roofline
        .levels()
        .into_iter()
        .filter_map(|level| {
            let bandwidth = roofline.bandwidth(level)?;
            let ridge = format!("{} FLOP/B", format_intensity(roofline.ridge(bandwidth)?));
            let is_doubted = is_peak_suspect || is_suspect(own, BANDWIDTH_TEST, bandwidth);
            Some(format!("{level} is the limit below {}", mark_doubted(&ridge, is_doubted)))
        })
        .collect();
    let peak = roofline.peak()?;
    let reached = mark_doubted(&Unit::FlopsPerSecond.in_words(peak.rate), is_peak_suspect);
    (!ridges.is_empty())
        .then(|| format!("{}; above, {} at {reached}", ridges.join(", "), peak.in_words()))
}
