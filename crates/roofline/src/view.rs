//! View of a roofline: the chart, the ceilings with their ridge points, and the limits of the points.

use crate::place_of;
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_gauge::roofline::{
    BANDWIDTH, Ceiling, Dot, GAUGE, KERNEL, ONE_THREAD, PEAK, POINT, Roofline, chart, intensity,
};
use nodegauge_gauge::view::sentence::{doubted, quoted};
use nodegauge_gauge::view::{Block, Section, Table, TableCell, plain_table, summary};
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::{counted, significant};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, Unit};
use nodegauge_placement::cpus::number_ranges;

/// Letters for points; the lines of the chart use the remaining letters.
const LETTERS: &str = "abcdefghijklnopqrtuvwxyz";
/// Returns the sections of the page; none if the record has no roofline figures.
pub(super) fn sections(record: &Record) -> Vec<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE);
    let own: Vec<&Measurement> = own.collect();
    if own.is_empty() {
        return Vec::new();
    }
    let [all, one] = [false, true].map(|one| Roofline::of(&record.measurements, one));
    let points: Vec<Placed<'_>> = placed(&own);
    let mut section = Section::new(GAUGE);
    let mut shown: Vec<&Measurement> = points.iter().map(|point| point.m).collect();
    if let Some(chart) = chart(&all, &points.iter().filter_map(Placed::dot).collect::<Vec<_>>()) {
        section.push(chart).gap();
    }
    for (test, table) in
        [(BANDWIDTH, bandwidths as fn(&[&Measurement], [&Roofline; 2]) -> Table), (PEAK, peaks)]
    {
        let of: Vec<&Measurement> = own.iter().copied().filter(|m| m.test == test).collect();
        if !of.is_empty() {
            section.push(table(&of, [&all, &one])).gap();
        }
        shown.extend(of);
    }
    if !points.is_empty() {
        section.push(points_table(&all, &points)).gap();
    }
    let rest = own.iter().filter(|m| !shown.iter().any(|known| std::ptr::eq(*known, **m)));
    let rest: Vec<&Measurement> = rest.copied().collect();
    if !rest.is_empty() {
        section.push(plain_table(&rest)).gap();
    }
    evidence(&own, &mut section);
    section.doubts(&own);
    let closing = closing(&all, &own).map(summary);
    std::iter::once(section).chain(closing).collect()
}

/// Kernel or point in the chart, with the letter that marks it.
struct Placed<'a> {
    m: &'a Measurement,
    letter: char,
    /// Name of the kernel or point, without the memory level.
    name: String,
    level: String,
    flops_per_byte: f64,
}

impl Placed<'_> {
    fn dot(&self) -> Option<Dot> {
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
        Some(Dot { letter: *letter, name: name.clone(), label, flops_per_byte, rate, note, doubt })
    }
}

/// Returns the kernels and points. Figures with the same name at different memory levels have the same letter.
fn placed<'a>(own: &[&'a Measurement]) -> Vec<Placed<'a>> {
    let mut names: Vec<String> = Vec::new();
    let one = |m: &&'a Measurement| {
        let (level, flops_per_byte) = place_of(m)?;
        let name = match m.name.strip_prefix(&format!("{level}_")).filter(|_| m.test == KERNEL) {
            Some(kernel) => kernel.to_owned(),
            None => m.name.clone(),
        };
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        let letter = LETTERS.chars().cycle().nth(at).unwrap_or('*');
        Some(Placed { m, letter, name, level, flops_per_byte })
    };
    own.iter().filter_map(one).collect()
}

/// Returns the single-thread figure that corresponds to `m`.
fn of_one_thread<'a>(all: &[&'a Measurement], m: &Measurement) -> Option<&'a Measurement> {
    let name = format!("{}{ONE_THREAD}", m.name);
    all.iter().find(|other| other.name == name).copied()
}

fn giga(m: Option<&Measurement>) -> TableCell {
    let Some(m) = m else { return "-".into() };
    m.value.map_or_else(
        || m.validity.status.name().into(),
        |value| TableCell::figure(value, m.unit, significant(value / 1e9)),
    )
}

/// Returns the table of bandwidths with their ridge points, for all threads and for a single thread.
fn bandwidths(of: &[&Measurement], rooflines: [&Roofline; 2]) -> Table {
    let mut table =
        Table::new(&["bandwidth", ">GB/s", ">ridge", ">1 thread", ">its ridge", ">set", "loop"]);
    let ridge = |roofline: &Roofline, name: &str| -> TableCell {
        let ceiling = roofline.ceilings.iter().find(|ceiling| ceiling.name == name);
        let ridge = ceiling.and_then(|ceiling| roofline.ridge(ceiling));
        ridge.map_or_else(|| "-".to_owned(), intensity).into()
    };
    for m in of.iter().filter(|m| !m.name.ends_with(ONE_THREAD)) {
        let set = m.read_key::<shared::thread_bytes>().map(|bytes| Bytes(bytes).to_string());
        table.row([
            m.name.replace('_', " ").into(),
            giga(Some(m)),
            ridge(rooflines[0], &m.name),
            giga(of_one_thread(of, m)),
            ridge(rooflines[1], &m.name),
            set.unwrap_or_else(|| "-".to_owned()).into(),
            loop_of(m).into(),
        ]);
    }
    table
}

/// Describes the loop or library with which a figure was measured.
fn loop_of(m: &Measurement) -> String {
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
    let mut table = Table::new(&["peak", ">GFLOP/s", ">FLOP/cycle", ">at", ">1 thread", "loop"]);
    for m in of.iter().filter(|m| !m.name.ends_with(ONE_THREAD)) {
        let name = Ceiling { name: m.name.clone(), rate: 0.0, level: None }.in_words();
        let cycle = m.read_key::<shared::flops_per_cycle>().map(|flops| format!("{flops:.1}"));
        let clock = m.read_key::<shared::clock_hz>().map(|hz| hz.to_string());
        let or_dash =
            |text: Option<String>| TableCell::text(text.unwrap_or_else(|| "-".to_owned()));
        let one = of_one_thread(of, m);
        table.row([
            name.into(),
            giga(Some(m)),
            or_dash(cycle),
            or_dash(clock),
            giga(one),
            loop_of(m).into(),
        ]);
    }
    table
}

/// Returns the table of points. Columns are the reached share of the roof, the ceiling that limits the point, and the
/// next higher ceiling.
fn points_table(roofline: &Roofline, points: &[Placed<'_>]) -> Table {
    let titles = ["", "point", "of", ">FLOP/B", ">GFLOP/s", ">of roof", "bound by", "next ceiling"];
    let mut table = Table::new(&titles);
    for Placed { m, letter, name, level, flops_per_byte: x } in points {
        let roof = roofline.roof(level, *x);
        let next = m
            .value
            .and_then(|rate| roofline.next(level, *x, rate))
            .filter(|next| Some(*next) != roof);
        let share = m.limit.as_ref().map(|limit| limit.fraction.in_whole_percent());
        let words = |ceiling: Option<&Ceiling>| ceiling.map_or("-".to_owned(), Ceiling::in_words);
        table.row([
            letter.to_string().into(),
            name.as_str().into(),
            level.as_str().into(),
            intensity(*x).into(),
            giga(Some(m)),
            share.unwrap_or_else(|| "-".to_owned()).into(),
            words(roof).into(),
            words(next).into(),
        ]);
    }
    table
}

/// Adds the placement of the threads, the number of samples, and the sources of the points.
fn evidence(own: &[&Measurement], section: &mut Section) {
    section.push(Block::Text(
        "ridge: FLOP/B above which the highest peak is the limit; set: working set per thread; the roof of a level is \
         the fastest of its kernels, which may be faster than the reading that memory ladder quotes; of roof: \
         min(peak, FLOP/B x bandwidth)"
            .to_owned(),
    ));
    let ceilings = || own.iter().filter(|m| [BANDWIDTH, PEAK].contains(&m.test.as_str()));
    if let Some(m) = ceilings().find(|m| !m.name.ends_with(ONE_THREAD)) {
        let threads = counted(m.read_key::<shared::threads>().unwrap_or(0) as usize, "thread");
        let cpus = m.read_key::<shared::places>().or_else(|| m.read_key::<shared::cpus>());
        let cpus = cpus.map(|places| number_ranges(places.concat()));
        let bound = match (m.read_key::<shared::bind>().as_deref(), cpus) {
            (Some("none"), _) | (_, None) => format!("{threads}, not bound"),
            (_, Some(cpus)) => format!("{threads} on cpus {cpus}"),
        };
        section.note("how", format!("{bound}; bytes as read and written by the loops"));
    }
    let counts = || ceilings().filter_map(|m| Some(m.summary.as_ref()?.n));
    if let (Some(least), Some(most)) = (counts().min(), counts().max()) {
        section.note(
            "samples",
            format!("{least} to {most} per figure, interleaved; the best sample counts"),
        );
    }
    for (m, basis) in own
        .iter()
        .filter_map(|m| Some((m, m.read_key::<shared::basis>().filter(|_| m.test == POINT)?)))
    {
        section.note("point", format!("{}: {basis}", m.name));
    }
}

/// Returns the sentence that the page begins with: the highest peak, and the memory bandwidth with the number of
/// operations per byte below which it is the limit.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let roofline = Roofline::of(&record.measurements, false);
    let words = |ceiling: &Ceiling, test: &str| {
        let is_it = |m: &&Measurement| m.gauge == GAUGE && m.test == test && m.name == ceiling.name;
        record.measurements.iter().find(is_it).and_then(quoted)
    };
    let peak = roofline.peak()?;
    let level = roofline.levels().pop()?;
    let bandwidth = roofline.bandwidth(level)?;
    let ridge = intensity(roofline.ridge(bandwidth)?);
    // The figures in the sentence are marked, so that the ridge that follows from them needs no mark.
    Some(format!(
        "The cores compute at most {} ({}); below {ridge} FLOP/B {level} with {} is the limit",
        words(peak, PEAK)?,
        peak.in_words(),
        words(bandwidth, BANDWIDTH)?
    ))
}

/// Returns the sentence that states, for every memory level, below which number of operations per byte the level limits
/// the rate. Ridges of suspect ceilings are marked.
fn closing(roofline: &Roofline, own: &[&Measurement]) -> Option<String> {
    let is_suspect = |test: &str, ceiling: &Ceiling| {
        let of_ceiling = own.iter().filter(|m| m.test == test && m.name == ceiling.name);
        Obstacle::among(of_ceiling.copied()).is_some()
    };
    let is_peak_suspect = is_suspect(PEAK, roofline.peak()?);
    let ridges: Vec<String> = roofline
        .levels()
        .into_iter()
        .filter_map(|level| {
            let bandwidth = roofline.bandwidth(level)?;
            let ridge = format!("{} FLOP/B", intensity(roofline.ridge(bandwidth)?));
            let is_doubted = is_peak_suspect || is_suspect(BANDWIDTH, bandwidth);
            Some(format!("{level} is the limit below {}", doubted(&ridge, is_doubted)))
        })
        .collect();
    let peak = roofline.peak()?;
    let reached = doubted(&Unit::FlopsPerSecond.in_words(peak.rate), is_peak_suspect);
    (!ridges.is_empty())
        .then(|| format!("{}; above, {} at {reached}", ridges.join(", "), peak.in_words()))
}
