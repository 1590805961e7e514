//! What a person sees of a roofline: the chart, the ceilings with their ridges, and what each point runs into.

use super::place_of;
use super::{BANDWIDTH, Ceiling, GAUGE, KERNEL, MEMORY, ONE_THREAD, PEAK, Roofline};
use crate::view::{
    Block, Cell, Chart, Joined, Scale, Section, Series, Table, plain_table, summary,
};
use nodegauge_measure::keys::shared;
use nodegauge_measure::quantity::{counted, significant};
use nodegauge_measure::record::{Measurement, Record};
use nodegauge_measure::{Bytes, Hertz, Unit};
use nodegauge_placement::cpus::number_ranges;

/// The least operations for each byte that the chart shows beside those of all points, FLOP/B: a copy of
/// double precision with an operation on every fourth element.
const LEAST: f64 = 1.0 / 64.0;
/// Behind the last ridge the chart goes on as far as this.
const BEHIND_RIDGE: f64 = 8.0;
/// And no farther than this: what hardly needs memory stands at the edge, under the peaks that bind it.
const FAR_BEHIND_RIDGE: f64 = 256.0;
/// Letters of points; those of lines are not among them.
const LETTERS: &str = "abcdefghijklnopqrtuvwxyz";
/// The letter of each peak's line.
const PEAK_MARKS: [(&str, char); 4] =
    [("fma", 'F'), ("simd", 'S'), ("scalar", 's'), ("dgemm", 'D')];

/// Operations for each byte: `0.08333`, `11.25`.
pub(super) fn intensity(x: f64) -> String {
    if x < 0.1 { format!("{x:.4}") } else { significant(x) }
}

/// The page's sections; none where the record has nothing of a roofline.
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
    let closing = closing(&all).map(summary);
    std::iter::once(section).chain(closing).collect()
}

/// A figure under a roof, with its letter.
struct Placed<'a> {
    m: &'a Measurement,
    letter: char,
    /// What it is, without its level.
    name: String,
    level: String,
    flops_per_byte: f64,
}

impl Placed<'_> {
    fn dot(&self) -> Option<Dot> {
        let Self { letter, name, flops_per_byte, .. } = self;
        let rate = self.m.value?;
        Some(Dot { letter: *letter, name: name.clone(), flops_per_byte: *flops_per_byte, rate })
    }
}

/// A point of a chart; those of one name are one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Its letter.
    pub letter: char,
    /// Its name.
    pub name: String,
    /// Operations for each byte of its level, FLOP/B.
    pub flops_per_byte: f64,
    /// FLOP/s.
    pub rate: f64,
}

/// Kernels and points; those of one name, in several levels, have one letter.
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

/// Roofs as lines, points as letters on both logarithmic axes; `None` without a roof.
pub fn chart(roofline: &Roofline, points: &[Dot]) -> Option<Chart> {
    let peak = roofline.peak()?;
    let roofs: Vec<&Ceiling> =
        roofline.levels().iter().filter_map(|level| roofline.bandwidth(level)).collect();
    let slowest = roofs.iter().map(|roof| roof.rate).reduce(f64::min)?;
    let fastest = roofs.iter().map(|roof| roof.rate).fold(slowest, f64::max);
    let xs = || points.iter().map(|point| point.flops_per_byte);
    let least = xs().map(|x| x / 2.0).fold(LEAST, f64::min);
    let ridge = peak.rate / slowest;
    let most = xs().map(|x| x * 2.0).fold(ridge * BEHIND_RIDGE, f64::max);
    let most = most.min(ridge * FAR_BEHIND_RIDGE);
    let mut series: Vec<Series> = Vec::new();
    for point in points {
        let dot = (point.flops_per_byte.min(most), point.rate);
        match series.iter_mut().find(|one| one.name == point.name) {
            Some(one) => one.dots.push(dot),
            None => series.push(Series {
                mark: point.letter,
                name: point.name.clone(),
                dots: vec![dot],
                joined: Joined::Apart,
            }),
        }
    }
    for ceiling in roofline.ceilings.iter().filter(|ceiling| ceiling.level.is_none()) {
        let mark = PEAK_MARKS.iter().find(|(name, _)| *name == ceiling.name);
        series.push(Series {
            mark: mark.map_or('-', |(_, mark)| *mark),
            name: ceiling.in_words(),
            // From where the fastest level reaches it.
            dots: vec![(ceiling.rate / fastest, ceiling.rate), (most, ceiling.rate)],
            joined: Joined::Straight,
        });
    }
    for roof in roofs {
        let level = roof.level.clone().unwrap_or_default();
        let mark = if level == MEMORY { Some('m') } else { level.chars().last() };
        series.push(Series {
            mark: mark.unwrap_or('/'),
            name: level,
            dots: vec![(least, roof.at(least)), (peak.rate / roof.rate, peak.rate)],
            joined: Joined::Straight,
        });
    }
    let ticks = std::iter::successors(Some(LEAST / 64.0), |tick| Some(tick * 4.0));
    let ticks = ticks.skip_while(|tick| *tick < least).take_while(|tick| *tick <= most).collect();
    let (x, y) = (Scale::Intensity, Scale::Rate(Unit::FlopsPerSecond));
    Some(Chart { x, y, ticks, series, marks: Vec::new() })
}

/// The figure of one thread beside that of all.
fn of_one_thread<'a>(all: &[&'a Measurement], m: &Measurement) -> Option<&'a Measurement> {
    let name = format!("{}{ONE_THREAD}", m.name);
    all.iter().find(|other| other.name == name).copied()
}

fn giga(m: Option<&Measurement>) -> Cell {
    let Some(m) = m else { return "-".into() };
    m.value.map_or_else(
        || m.validity.status.name().into(),
        |value| Cell::figure(value, m.unit, significant(value / 1e9)),
    )
}

/// Bandwidths with their ridges, of all threads and of one.
fn bandwidths(of: &[&Measurement], rooflines: [&Roofline; 2]) -> Table {
    let mut table =
        Table::new(&["bandwidth", ">GB/s", ">ridge", ">1 thread", ">ridge", ">set", "loop"]);
    let ridge = |roofline: &Roofline, name: &str| -> Cell {
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

/// The loop or library in words.
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

/// Peaks of all threads and of one.
fn peaks(of: &[&Measurement], _: [&Roofline; 2]) -> Table {
    let mut table = Table::new(&["peak", ">GFLOP/s", ">FLOP/cycle", ">at", ">1 thread", "loop"]);
    for m in of.iter().filter(|m| !m.name.ends_with(ONE_THREAD)) {
        let name = Ceiling { name: m.name.clone(), rate: 0.0, level: None }.in_words();
        let cycle = m.read_key::<shared::flops_per_cycle>().map(|flops| format!("{flops:.1}"));
        let clock = m.read_key::<shared::clock_hz>().map(|hz| Hertz(hz).to_string());
        let or_dash = |text: Option<String>| Cell::text(text.unwrap_or_else(|| "-".to_owned()));
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

/// What each point reaches of its roof, what binds it there, and what it runs into first.
fn points_table(roofline: &Roofline, points: &[Placed<'_>]) -> Table {
    let titles = ["", "point", "of", ">FLOP/B", ">GFLOP/s", ">of roof", "bound by", "next ceiling"];
    let mut table = Table::new(&titles);
    for Placed { m, letter, name, level, flops_per_byte: x } in points {
        let roof = roofline.roof(level, *x);
        let next = m
            .value
            .and_then(|rate| roofline.next(level, *x, rate))
            .filter(|next| Some(*next) != roof);
        let share = m.limit.as_ref().map(|limit| format!("{:.0} %", limit.fraction * 100.0));
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

/// Where threads ran, how often was measured, and what points are known from.
fn evidence(own: &[&Measurement], section: &mut Section) {
    section.push(Block::Text(
        "ridge: FLOP/B from which the highest peak binds; of roof: min(peak, FLOP/B x bandwidth)"
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
        section.note("how", format!("{bound}; bytes are those that loops name"));
    }
    let counts = || ceilings().filter_map(|m| Some(m.summary.as_ref()?.n));
    if let (Some(least), Some(most)) = (counts().min(), counts().max()) {
        section
            .note("samples", format!("{least} to {most} each, by turns; the best of each counts"));
    }
    for (m, basis) in own.iter().filter_map(|m| {
        Some((m, m.read_key::<shared::basis>().filter(|_| m.test == super::POINT)?))
    }) {
        section.note("point", format!("{}: {basis}", m.name));
    }
}

/// From where on a program is bound by computing here.
fn closing(roofline: &Roofline) -> Option<String> {
    let ridges: Vec<String> = roofline
        .levels()
        .into_iter()
        .filter_map(|level| {
            let ridge = roofline.ridge(roofline.bandwidth(level)?)?;
            Some(format!("{level} binds below {} FLOP/B", intensity(ridge)))
        })
        .collect();
    let peak = roofline.peak()?;
    let reached = Unit::FlopsPerSecond.in_words(peak.rate);
    (!ridges.is_empty())
        .then(|| format!("{}; above, {} at {reached}", ridges.join(", "), peak.in_words()))
}
