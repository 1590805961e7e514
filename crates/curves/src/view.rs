//! Views of latency and bandwidth curves. Each view consists of a table, a chart and the evidence.

mod conclusion;
mod family;
mod matrix;
mod scaling;

pub(crate) use conclusion::conclusion;

use crate::GAUGE;
use crate::config::CurveConfig;
use crate::levels::{MAX_EDGE_RATIO, difference_reason};
use crate::memory_chase::MIN_MEMORY_RATIO;
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_arena::names::{
    CURVE_FAMILY, LADDER, LATENCY, LOADED, MATRIX, MIX, PREDICTION, SCALING,
};
use nodegauge_arena::words::pages as pages_in_words;
use nodegauge_chase::is_cached;
use nodegauge_chase::traffic::is_short_call;
use nodegauge_gauge::view::sentence::{enumeration, verb_form};
use nodegauge_gauge::view::words::{self, count_with_noun};
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartBar, ChartSeries, ColumnList, ColumnUnit, Guide, Picture,
    Section, Table, TableCell, distinct, group_by_key, plain_table,
};
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::stats::{self, Summary};
use nodegauge_measure::{Bytes, BytesPerSec, Fraction, Seconds, Unit};
use std::collections::BTreeSet;

/// Figure with its configuration.
type CurvesFigure<'a> = (&'a Measurement, CurveConfig);
/// Function that returns true if a view can show a figure; other figures are shown in a plain table.
type Shows = fn(&CurvesFigure<'_>) -> bool;
/// Function that adds the view of a test's figures to a section.
type View = fn(&[CurvesFigure<'_>], &mut Section);

/// Tests in the order of the page, with their views.
const TESTS: [(&str, Shows, View); 8] = [
    (LADDER, |(_, c)| c.set_bytes.is_some() && c.kernel.is_some(), ladder),
    (LATENCY, |(_, c)| c.set_bytes.is_some() && c.pages.is_some(), latency),
    (MATRIX, |of| matrix::source_and_target(of).is_some(), matrix::add_view),
    (LOADED, |(_, c)| c.load_share.is_some() || c.basis.is_some(), loaded),
    (MIX, |_| true, mix),
    (CURVE_FAMILY, family::can_show, family::add_view),
    (PREDICTION, scaling::can_show, scaling::add_prediction),
    (SCALING, scaling::can_show, scaling::add_view),
];

/// Minimum ratio of two consecutive working sets at which sets between them were skipped.
const MIN_GAP: f64 = 4.0;
/// Minimum ratio of the bandwidths at a smaller and at a larger working set to the bandwidth of a dip between them.
const DIP: f64 = 1.3;
/// Description of a dip.
const DIP_IN_WORDS: &str = "slower than a smaller and a larger set";
/// Length of the longest bar in characters.
const LONGEST_BAR: usize = 30;

/// Returns the sections of this gauge, one per test; empty if the record has no such figures.
pub(crate) fn sections(record: &Record) -> Vec<Section> {
    let sections = TESTS
        .into_iter()
        .map(|(test, shows, view)| section(test, shows, view, &record.measurements));
    sections.filter(|section| !section.blocks.is_empty()).collect()
}

fn section(test: &'static str, shows: Shows, view: View, all: &[Measurement]) -> Section {
    let own: Vec<&Measurement> =
        all.iter().filter(|m| m.gauge == GAUGE && m.test == test).collect();
    let with_config = own.iter().map(|m| (*m, m.read_config()));
    let (shown, rest): (Vec<CurvesFigure<'_>>, Vec<CurvesFigure<'_>>) =
        with_config.partition(shows);
    let mut section = Section::new(test);
    if !shown.is_empty() {
        view(&shown, &mut section);
    }
    if !rest.is_empty() {
        let rest: Vec<&Measurement> = rest.iter().map(|(m, _)| *m).collect();
        section.push(plain_table(&rest));
    }
    section.push_doubts(&own);
    section
}

/// Returns the unit in which tables of this gauge show figures of a unit, e.g. nanoseconds for times.
fn column_unit(unit: Unit) -> ColumnUnit {
    if unit == Unit::Seconds { ColumnUnit::NANOSECONDS } else { ColumnUnit::from_unit(unit) }
}

/// Returns the cell for a figure in a column in GB/s or ns: its value, its status if it has no value, or a dash if
/// there is no figure.
fn value(figure: Option<&CurvesFigure<'_>>) -> TableCell {
    figure.map_or_else(|| "-".into(), |(m, _)| column_unit(m.unit).value(m))
}

fn bytes(bytes: Option<u64>) -> Option<String> {
    bytes.map(|bytes| Bytes(bytes).to_string())
}

/// Adds notes on the method and the number of samples.
fn evidence(section: &mut Section, of: &[CurvesFigure<'_>], what: String) {
    let Some((_, first)) = of.first() else { return };
    let threads = count_with_noun(first.threads.unwrap_or(0), "thread");
    let places = words::places_in_words(first.places.as_deref().unwrap_or_default());
    let bound = match first.bind.as_deref() {
        Some("none") => format!("{threads}, not bound"),
        _ => format!("{threads} on cpus {places}"),
    };
    let mut how = vec![what, bound];
    let pages = of.iter().filter_map(|(_, config)| config.pages.as_ref());
    how.extend(distinct(pages.map(pages_in_words)));
    section.note("how", how.join(", "));
    let counts = of.iter().filter_map(|(m, _)| m.summary.as_ref()).map(|summary| summary.n);
    if let Some(range) = words::count_range(counts) {
        let stopped = first.stopped.as_deref().unwrap_or("?");
        section.note("samples", format!("{range} each, interleaved; {stopped}"));
    }
    if let Some(trip) = of.iter().find_map(|(_, config)| config.round_trip_s).map(Seconds) {
        let text = if of.iter().any(|(m, _)| m.regimes.len() > 1) {
            format!(
                "several were detected; figures are from samples with a core-to-core round trip of {trip}"
            )
        } else {
            format!("core-to-core round trip of {trip}")
        };
        section.note("regime", text);
    }
}

/// Returns a description of the idle latency of memory: the time per load of the chase and of flushed lines, with the
/// cause of the difference. Returns `None` if the processor cannot flush lines.
fn memory_latency((m, config): &CurvesFigure<'_>) -> Option<String> {
    let step = m.value?;
    let flushed = config.flushed_s?;
    let set = Bytes(config.set_bytes?);
    let pages = config.pages.as_ref().map_or("", |pages| pages.asked.as_str());
    let measured = format!("a chase through {set} on {pages} pages: {}", Seconds(step));
    Some(if is_cached(step, flushed) {
        format!(
            "{measured}, because caches hold part of the set; memory: {} (flushed lines)",
            Seconds(flushed)
        )
    } else if flushed < step * MIN_MEMORY_RATIO {
        format!(
            "{measured}; without TLB misses: {} (flushed lines, translations in the TLB)",
            Seconds(flushed)
        )
    } else {
        format!("{measured}; flushed lines: {}", Seconds(flushed))
    })
}

/// Returns the remark that a latency is shorter than that of memory, because caches hold part of the working set; empty
/// for other latencies.
fn cache_remark((m, config): &CurvesFigure<'_>) -> String {
    let times = m.value.zip(config.flushed_s).filter(|(step, flushed)| is_cached(*step, *flushed));
    times.map_or_else(String::new, |(_, flushed)| {
        format!(" (partly from caches: flushed lines take {})", Seconds(flushed))
    })
}

/// Returns the value of a figure; `None` if the figure is not valid.
fn valid_value(m: &Measurement) -> Option<f64> {
    m.value.filter(|_| m.validity.status == Status::Valid)
}

/// Cache as the machine reports it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ReportedCache<'a> {
    /// `L1`, `L2`, ...
    level: &'a str,
    /// Share of one thread in the cache, bytes.
    share: u64,
    /// Number of threads that are measured together.
    threads: u64,
}

impl ReportedCache<'_> {
    /// Returns the largest working set of all threads that fits in the cache.
    fn bytes(&self) -> u64 {
        self.share * self.threads
    }

    fn is_shared(&self) -> bool {
        self.level != "L1" && self.level != "L2"
    }

    /// Formats the size for all threads: `2 x 48 KiB` for caches of cores, `32 MiB` for a shared cache.
    fn size_in_words(&self) -> String {
        if self.threads == 1 || self.is_shared() {
            return Bytes(self.bytes()).to_string();
        }
        format!("{} x {}", self.threads, Bytes(self.share))
    }

    /// Returns the line in the chart that marks the largest working set that fits in the cache.
    fn guide(&self) -> Guide {
        Guide::x(self.bytes() as f64, format!("{} {}", self.level, self.size_in_words()))
    }
}

/// Figures by working set, with one curve per kind: per loop or per page size.
struct Curves<'a> {
    figures: &'a [CurvesFigure<'a>],
    kind_of: fn(&CurveConfig) -> Option<&str>,
    /// Kinds of curves, in the order of appearance.
    kinds: Vec<&'a str>,
    sets: BTreeSet<u64>,
}

impl<'a> Curves<'a> {
    fn new(figures: &'a [CurvesFigure<'a>], kind_of: fn(&CurveConfig) -> Option<&str>) -> Self {
        let kinds = distinct(figures.iter().filter_map(|(_, config)| kind_of(config)));
        let sets = figures.iter().filter_map(|(_, config)| config.set_bytes).collect();
        Self { figures, kind_of, kinds, sets }
    }

    fn at(&self, set: u64, kind: &str) -> Option<&'a CurvesFigure<'a>> {
        self.figures.iter().find(|(_, config)| {
            config.set_bytes == Some(set) && (self.kind_of)(config) == Some(kind)
        })
    }

    fn curve(&self, kind: &str) -> Vec<&'a CurvesFigure<'a>> {
        self.sets.iter().filter_map(|set| self.at(*set, kind)).collect()
    }

    /// Returns the dots of a curve. The curve has a gap at each working set that was not measured, and between distant
    /// working sets.
    fn dots(&self, kind: &str) -> Vec<(f64, f64)> {
        let mut dots: Vec<(f64, f64)> = Vec::new();
        for set in &self.sets {
            let x = *set as f64;
            // The plan has at least two working sets per factor of two; a larger step means that some were skipped.
            if let Some((before, _)) = dots.last().filter(|(before, _)| x > before * MIN_GAP) {
                dots.push(((before * x).sqrt(), f64::NAN));
            }
            dots.push((x, self.at(*set, kind).and_then(|(m, _)| m.value).unwrap_or(f64::NAN)));
        }
        dots
    }

    /// Returns the first two consecutive working sets that are far apart; `None` if there are none.
    fn first_gap(&self) -> Option<(u64, u64)> {
        let sets: Vec<u64> = self.sets.iter().copied().collect();
        let apart = sets.windows(2).find(|pair| pair[1] as f64 > pair[0] as f64 * MIN_GAP)?;
        Some((apart[0], apart[1]))
    }

    /// Returns the reported caches, each with the number of threads that share it. The record contains only the share
    /// of one thread.
    fn caches(&self) -> Vec<ReportedCache<'a>> {
        let mut caches: Vec<ReportedCache<'a>> = Vec::new();
        for (_, config) in self.figures {
            let reported = config.level.as_ref().zip(config.level_reported_bytes);
            let Some((level, share)) = reported else { continue };
            let sets = config.set_bytes.zip(config.thread_bytes);
            let threads = sets.map_or(1, |(set, thread)| set / thread.max(1)).max(1);
            if caches.iter().all(|known| known.level != level) {
                caches.push(ReportedCache { level, share, threads });
            }
        }
        caches
    }

    /// Returns the shared caches whose speed ends at a working set that is much smaller than the cache. Each is
    /// returned with the last working set that has the speed of the cache.
    fn outgrown(&self, kind: &str) -> Vec<(ReportedCache<'a>, Bytes)> {
        let curve = self.curve(kind);
        let mut outgrown = Vec::new();
        for cache in self.caches().into_iter().filter(ReportedCache::is_shared) {
            let inside =
                curve.iter().filter(|(_, config)| config.level.as_deref() == Some(cache.level));
            let Some(last) = inside.filter_map(|(_, config)| config.set_bytes).max() else {
                continue;
            };
            let mut sets = curve.iter().filter_map(|(_, config)| config.set_bytes);
            let next = sets.find(|set| *set > last);
            if next.is_some_and(|next| next as f64 * MAX_EDGE_RATIO < cache.bytes() as f64) {
                outgrown.push((cache, Bytes(last)));
            }
        }
        outgrown
    }

    /// Returns the valid bandwidths of a curve that are far below those of a smaller and of a larger working set.
    /// Suspect bandwidths already have a reason.
    fn dips(&self, kind: &str) -> Vec<&'a CurvesFigure<'a>> {
        let curve = self.curve(kind);
        let rates: Vec<Option<f64>> = curve.iter().map(|(m, _)| valid_value(m)).collect();
        let mut dips = Vec::new();
        for (i, figure) in curve.iter().enumerate() {
            let Some(value) = rates[i] else { continue };
            let [smaller, larger] = [&rates[..i], &rates[i + 1..]]
                .map(|others| others.iter().flatten().any(|rate| *rate > DIP * value));
            if smaller && larger {
                dips.push(*figure);
            }
        }
        dips
    }

    /// Returns a list of the dips by kind of curve. The reason is the duration of the timed calls if it was too short.
    fn dips_in_words(&self, dips: &[&CurvesFigure<'_>]) -> String {
        let mut kinds = Vec::new();
        for (kind, of) in group_by_key(dips, |(_, config)| (self.kind_of)(config)) {
            let sets: Vec<String> = of.iter().filter_map(|(_, x)| bytes(x.set_bytes)).collect();
            kinds.push(format!("{} at {}", kind.unwrap_or("?"), enumeration(&sets)));
        }
        let calls = dips.iter().filter_map(|(m, config)| {
            Some(config.set_bytes? as f64 * config.repeats? as f64 / m.value?)
        });
        let short: Vec<f64> = calls.filter(|seconds| is_short_call(*seconds)).collect();
        let why = match short.iter().copied().reduce(f64::max) {
            Some(longest) => {
                let which = if short.len() == dips.len() {
                    String::new()
                } else {
                    format!(" of {} of them", short.len())
                };
                format!(
                    "the timed calls{which} took at most {}, so the start and the end of the \
                     threads add to their time",
                    Seconds(longest)
                )
            }
            None => "the record contains no reason".to_owned(),
        };
        format!("{DIP_IN_WORDS}: {}; {why}", kinds.join("; "))
    }

    /// Returns the columns of the working set and of the value of each kind.
    fn columns(&self, unit: Unit) -> ColumnList<'_, u64> {
        ColumnList::new().right("set", |set: &u64| Bytes(*set).to_string()).columns_for_each(
            &self.kinds,
            |kind| kind.to_string(),
            move |set, kind| match self.at(*set, kind) {
                Some((m, _)) => column_unit(unit).value(m),
                None => "-".into(),
            },
        )
    }

    /// Returns the curve of a kind; its name ends with `suffix`.
    fn series(&self, kind: &str, suffix: &str) -> ChartSeries {
        let mut series = ChartSeries {
            mark: kind.chars().next().unwrap_or('*'),
            name: format!("{kind}{suffix}"),
            dots: self.dots(kind),
            ..ChartSeries::default()
        };
        for (m, config) in self.curve(kind) {
            if let (Some(set), Some(value)) = (config.set_bytes, m.value) {
                series.doubt((set as f64, value), m);
            }
        }
        series
    }

    /// Adds the table with these columns, the chart and the levels. The chart has one curve per kind, whose name ends
    /// with `suffix`. The levels are taken from the curve of the kind `levels_of`.
    fn show(
        &self,
        section: &mut Section,
        unit: Unit,
        suffix: &str,
        levels_of: &str,
        columns: &ColumnList<'_, u64>,
    ) {
        // The ticks are the first working set times powers of four.
        let last = self.sets.last().copied().unwrap_or(0) as f64;
        let first = self.sets.first().map(|first| *first as f64);
        let ticks = std::iter::successors(first, |tick| Some(tick * 4.0));
        // The latency is that of one thread.
        let [what, set_axis] = match unit {
            Unit::Seconds => ["latency", "working set"],
            _ => ["bandwidth", "working set of all threads"],
        };
        let apart =
            self.first_gap().map(|(_, set)| Guide::x(set as f64, format!("set of {}", Bytes(set))));
        // Latencies have no dips: a smaller latency is not worse.
        let is_rate = unit != Unit::Seconds;
        let dips = self.kinds.iter().filter(|_| is_rate).flat_map(|kind| self.dips(kind));
        let dips: Vec<&CurvesFigure<'_>> = dips.collect();
        let marks = dips.iter().filter_map(|(m, config)| {
            Some((config.set_bytes? as f64, m.value?, DIP_IN_WORDS.to_owned()))
        });
        section.push(columns.table(&self.sets)).push_gap().push(Chart {
            title: format!("{what} over the size of the working set"),
            names: [set_axis, ""],
            x: AxisQuantity::Bytes,
            y: if is_rate { AxisQuantity::Rate(unit) } else { AxisQuantity::Nanoseconds },
            ticks: ticks.take_while(|tick| *tick <= last).collect(),
            series: self.kinds.iter().map(|kind| self.series(kind, suffix)).collect(),
            marks: marks.collect(),
            guides: self.caches().iter().map(ReportedCache::guide).chain(apart).collect(),
        });
        if let Some((before, set)) = self.first_gap() {
            section.push(Block::Text(format!(
                "between {} and {} no set was measured",
                Bytes(before),
                Bytes(set)
            )));
        }
        if !dips.is_empty() {
            section.push(Block::Text(self.dips_in_words(&dips)));
        }
        section.blocks.extend(self.outgrown(levels_of).into_iter().map(|(cache, end)| {
            let level = cache.level;
            let size = cache.size_in_words();
            Block::Text(format!(
                "{level} is reported as {size}, but only working sets of up to {end} have its \
                 {what}; other cores or guests may use the rest; {}",
                difference_reason(!is_rate)
            ))
        }));
        let levels = self.levels(levels_of, column_unit(unit));
        if !levels.rows.is_empty() {
            section.push_gap().push(levels);
        }
        section.push_gap();
    }

    /// Returns a table with one line per level of a kind, and the reported size of the level.
    fn levels(&self, kind: &str, unit: ColumnUnit) -> Table {
        let columns = ColumnList::<Vec<&CurvesFigure<'_>>>::new()
            .left("level", |of| of[0].1.level.clone().unwrap_or_default())
            .right(unit.symbol(), |of| {
                let values: Vec<f64> = of.iter().filter_map(|(m, _)| m.value).collect();
                unit.cell(Some(stats::median(&values)))
            })
            .left("sets per thread", |of| {
                let [from, to] = [of[0], of[of.len() - 1]].map(|(_, config)| {
                    bytes(config.thread_bytes).unwrap_or_else(|| "?".to_owned())
                });
                format!("{from} to {to}")
            })
            .left("reported", |of| {
                bytes(of[0].1.level_reported_bytes).unwrap_or_else(|| "-".to_owned())
            });
        let curve = self.curve(kind);
        let levels = curve.chunk_by(|(_, x), (_, next)| x.level == next.level);
        columns.table(levels.filter(|of| of[0].1.level.is_some()).map(<[_]>::to_vec))
    }
}

/// Adds the view of bandwidth by working set.
fn ladder(of: &[CurvesFigure<'_>], section: &mut Section) {
    let curves = Curves::new(of, |config| config.kernel.as_deref());
    let config = |set: &u64| Some(&curves.kinds.iter().find_map(|kind| curves.at(*set, kind))?.1);
    let columns = curves
        .columns(Unit::BytesPerSecond)
        .right("per thread", |set| {
            bytes(config(set).and_then(|own| own.thread_bytes)).unwrap_or_else(|| "?".to_owned())
        })
        .left("level", |set| config(set).and_then(|own| own.level.clone()).unwrap_or_default());
    curves.show(section, Unit::BytesPerSecond, "", curves.kinds[0], &columns);
    section.push(Block::Text(
        "GB/s, sum of all threads; levels are detected in the curves of all loops".to_owned(),
    ));
    evidence(section, of, "regular stores".to_owned());
}

/// Adds the view of idle latency by working set.
fn latency(of: &[CurvesFigure<'_>], section: &mut Section) {
    let curves = Curves::new(of, |config| config.pages.as_ref().map(|pages| pages.asked.as_str()));
    let first = curves.kinds[0];
    let last = curves.kinds[curves.kinds.len() - 1];
    let several = first != last;
    let columns = curves
        .columns(Unit::Seconds)
        .right_or_dash("5 %..95 %", |set| {
            let Summary { p05, p95, .. } = curves.at(*set, last)?.0.summary.as_ref()?;
            let [low, high] = [*p05, *p95].map(|time| ColumnUnit::NANOSECONDS.number_text(time));
            Some(format!("{low}..{high}"))
        })
        .add_if(several, |columns| {
            columns.right_or_dash(format!("{first}/{last}"), |set| {
                let ratio = curves.at(*set, first)?.0.value? / curves.at(*set, last)?.0.value?;
                Some(format!("{ratio:.2}"))
            })
        })
        .left("level", |set| {
            curves.at(*set, last).and_then(|(_, config)| config.level.clone()).unwrap_or_default()
        });
    curves.show(section, Unit::Seconds, " pages", last, &columns);
    let text = if several {
        format!(
            "ns; 5 %..95 % and levels: {last} pages; {first}/{last}: ratio of the latencies, the cost of TLB misses"
        )
    } else {
        format!("ns; levels: {last} pages")
    };
    section.push(Block::Text(text));
    if let Some(set) = curves.sets.last() {
        let largest = curves.kinds.iter().filter_map(|kind| curves.at(*set, kind));
        section.blocks.extend(largest.filter_map(memory_latency).map(Block::Text));
    }
    let config = &of[0].1;
    let stride = config.stride_bytes.unwrap_or(0);
    let locality = match config.locality.as_deref().map(str::parse) {
        Some(Ok(block)) => format!("blocks of {}", Bytes(block)),
        _ => "the whole set".to_owned(),
    };
    let what = format!("chase in random order over {locality}, one element per {stride} B");
    evidence(section, of, what);
}

/// Returns the figure with this unit at a load; without a load, the figure at twice the idle latency.
fn at_load<'a>(
    of: &'a [CurvesFigure<'a>],
    unit: Unit,
    share: Option<f64>,
) -> Option<&'a CurvesFigure<'a>> {
    of.iter().find(|(m, config)| m.unit == unit && config.load_share == share)
}

/// Adds the view of latency under load.
fn loaded(of: &[CurvesFigure<'_>], section: &mut Section) {
    let steps: Vec<&CurvesFigure<'_>> =
        of.iter().filter(|(m, c)| m.unit == Unit::Seconds && c.load_share.is_some()).collect();
    let knee_rate = at_load(of, Unit::BytesPerSecond, None);
    let idle_step = at_load(of, Unit::Seconds, Some(0.0));
    let idle = idle_step.and_then(|(m, _)| m.value);
    let most = steps.iter().filter_map(|(m, _)| m.value).fold(0.0, f64::max);
    let columns = ColumnList::<CurvesFigure<'_>>::new()
        .right("load", |(_, config)| match config.load_share.unwrap_or(0.0) {
            0.0 => "idle".to_owned(),
            share => Fraction(share).in_whole_percent(),
        })
        .right("GB/s", |(_, config)| match config.load_share.unwrap_or(0.0) {
            0.0 => "0".into(),
            share => value(at_load(of, Unit::BytesPerSecond, Some(share))),
        })
        .value_or_status("ns", ColumnUnit::NANOSECONDS)
        .values("5 %", ColumnUnit::NANOSECONDS, |(m, _)| Some(m.summary.as_ref()?.p05))
        .values("95 %", ColumnUnit::NANOSECONDS, |(m, _)| Some(m.summary.as_ref()?.p95))
        .right_or_dash("x idle", |(m, _)| Some(format!("{:.2}", m.value? / idle?)))
        .left("", |(m, _)| TableCell::bar(Fraction(m.value.unwrap_or(0.0) / most)));
    let table = columns.table(steps.iter().copied()).with_max_bar_length(LONGEST_BAR);
    let name = "ns by read rate of the loaders".to_owned();
    let mut curve = ChartSeries { mark: '*', name, ..ChartSeries::default() };
    for (m, config) in &steps {
        let rate =
            at_load(of, Unit::BytesPerSecond, config.load_share).and_then(|(load, _)| load.value);
        if let (Some(rate), Some(latency)) = (rate, m.value) {
            curve.push((rate, latency), m);
        }
    }
    curve.dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ticks = curve.dots.iter().map(|(dot_rate, _)| *dot_rate).collect();
    // The knee is the rate at which the latency is twice the idle latency. Older records have valid knees that were
    // derived from suspect points.
    let of_knee = knee_rate.into_iter().chain(idle_step).map(|(m, _)| *m);
    let obstacle = Obstacle::from_figures(of_knee);
    let is_known = obstacle.is_none();
    let knee = knee_rate.and_then(|(m, _)| m.value).filter(|_| is_known);
    let mut guides: Vec<Guide> =
        knee.map(|at| Guide::x(at, "twice the idle latency")).into_iter().collect();
    guides.extend(idle.map(|idle| {
        Guide::y(idle, format!("idle {} ns", ColumnUnit::NANOSECONDS.number_text(idle)))
    }));
    section.push(table).push_gap().push(Chart {
        title: "memory latency under load".to_owned(),
        names: ["rate of the loading threads", ""],
        x: AxisQuantity::Rate(Unit::BytesPerSecond),
        y: AxisQuantity::Nanoseconds,
        ticks,
        series: vec![curve],
        guides,
        ..Chart::default()
    });
    if let Some(figure) = knee_rate {
        let text = match obstacle {
            Some(obstacle) => {
                obstacle.cannot_tell("the rate at which latency is twice the idle latency")
            }
            None => format!("{} GB/s at twice the idle latency", value(Some(figure)).text),
        };
        section.push_gap().push(Block::Text(text));
    }
    if let Some(text) = idle_step.and_then(memory_latency) {
        section.push_gap().push(Block::Text(format!("idle: {text}")));
    }
    let loaders = of.iter().filter_map(|(_, config)| config.loaders).max().unwrap_or(0);
    let read = verb_form(loaders, "read");
    let what =
        format!("1 thread measures latency, {loaders} {read}; load: share of their full rate");
    evidence(section, of, what);
}

/// Adds the view of mixes of reads and writes.
fn mix(of: &[CurvesFigure<'_>], section: &mut Section) {
    let most = of.iter().filter_map(|(m, _)| m.value).fold(0.0, f64::max);
    let columns = ColumnList::<CurvesFigure<'_>>::new()
        .names("mix")
        .rates(ColumnUnit::GB_PER_S)
        .limit_share()
        .left("loop", |(_, config)| {
            let CurveConfig { stores, isa, unroll, side_by_side, .. } = config;
            words::native_loop_in_words(stores.as_deref(), isa.as_deref(), *unroll, *side_by_side)
        })
        .left("", |(m, _)| TableCell::bar(Fraction(m.value.unwrap_or(0.0) / most)));
    let limit = match of[0].0.limit.as_ref() {
        Some(limit) => format!("best divided by {}", BytesPerSec(limit.value)),
        None => "unknown".to_owned(),
    };
    let heading = format!("GB/s; of limit: {limit}");
    let table = columns.grouped_table([(heading, of)]).with_max_bar_length(LONGEST_BAR);
    let text = "mix: lines read : lines written; -nt: with non-temporal stores; loop: stores, instruction set, \
                unroll factor (u), pages side by side (p)"
        .to_owned();
    section.push(table).push_gap().push(Block::Text(text));
    let bars = of.iter().map(|(m, _)| ChartBar::bar(m.name.as_str(), m.value, "").with_validity(m));
    let title = "bandwidth by lines read : lines written; -nt: non-temporal stores";
    section.push(Picture::bars(title, of[0].0.unit, bars));
    let size = of[0].1.array_bytes.map(|bytes| format!("arrays of {}", Bytes(bytes)));
    evidence(section, of, size.unwrap_or_default());
    section.note("limit", words::limit_in_words(of[0].0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::QuotedStatistic;

    /// Two threads share a cache of 32 MiB; the record contains the share of one thread.
    #[test]
    fn cache_marks_show_the_capacity_for_all_threads() {
        let figure = |mib: u64, level: Option<&str>| {
            let m = Measurement::new(GAUGE, LATENCY, "latency", Unit::Seconds);
            let config = CurveConfig {
                kernel: Some("read".to_owned()),
                set_bytes: Some((2 * mib) << 20),
                thread_bytes: Some(mib << 20),
                level: level.map(str::to_owned),
                level_reported_bytes: level.map(|_| 16 << 20),
                ..CurveConfig::default()
            };
            (m.with_value(QuotedStatistic::Median, 1e-9), config)
        };
        let outgrown = |end: u64| -> Vec<(u64, Bytes)> {
            let sets = [1, 2, 4, 8, 16, 32];
            let own = sets.map(|mib| figure(mib, (mib <= end).then_some("L3")));
            let of: Vec<CurvesFigure<'_>> =
                own.iter().map(|(m, config)| (m, config.clone())).collect();
            let curves = Curves::new(&of, |config| config.kernel.as_deref());
            let guides: Vec<Guide> = curves.caches().iter().map(ReportedCache::guide).collect();
            assert_eq!(guides, [Guide::x(f64::from(32 << 20), "L3 32 MiB")]);
            curves.outgrown("read").iter().map(|(cache, last)| (cache.bytes(), *last)).collect()
        };
        // A set as large as the cache need not fit.
        assert_eq!(outgrown(4), [(32 << 20, Bytes::mib(8))]);
        assert!(outgrown(8).is_empty() && outgrown(16).is_empty());
        let private = ReportedCache { level: "L1", share: 48 << 10, threads: 2 };
        assert_eq!(private.guide(), Guide::x(f64::from(96 << 10), "L1 2 x 48 KiB"));
    }

    #[test]
    fn dips_are_marked_with_the_time_of_their_calls() {
        let figure = |mib: u64, gb: f64, repeats: u64| {
            let m = Measurement::new(GAUGE, LADDER, "set", Unit::BytesPerSecond);
            let config = CurveConfig {
                kernel: Some("triad".to_owned()),
                set_bytes: Some(mib << 20),
                repeats: Some(repeats),
                ..CurveConfig::default()
            };
            (m.with_value(QuotedStatistic::Best, gb * 1e9), config)
        };
        // Only the third set is slower than both a smaller and a larger set.
        let mut own = [(1, 60.0), (2, 50.0), (4, 12.0), (8, 40.0), (16, 20.0)]
            .map(|(mib, gb)| figure(mib, gb, if gb < 20.0 { 1 } else { 1000 }));
        let shown = |figures: &[(Measurement, CurveConfig)]| {
            let of: Vec<CurvesFigure<'_>> =
                figures.iter().map(|(m, config)| (m, config.clone())).collect();
            let curves = Curves::new(&of, |config| config.kernel.as_deref());
            let mut section = Section::new(LADDER);
            let columns = curves.columns(Unit::BytesPerSecond);
            curves.show(&mut section, Unit::BytesPerSecond, "", "triad", &columns);
            let mut rings = Vec::new();
            let mut texts = Vec::new();
            for block in section.blocks {
                match block {
                    Block::Chart(chart) => rings.extend(chart.marks),
                    Block::Text(text) => texts.push(text),
                    _ => {}
                }
            }
            (rings, texts)
        };
        let (rings, texts) = shown(&own);
        assert_eq!(rings, [(f64::from(4 << 20), 12e9, DIP_IN_WORDS.to_owned())]);
        let long = [
            "slower than a smaller and a larger set: triad at 4 MiB; the record contains no reason",
        ];
        assert_eq!(texts, long);
        own[2] = figure(4, 45.0, 1);
        assert!(shown(&own).0.is_empty());
        own[2] = figure(4, 30.0, 1);
        let (_, short) = shown(&own);
        assert!(short[0].contains("; the timed calls took at most 139.8 us, so"), "{short:?}");
        own[2].0.validity.mark_suspect("disturbed");
        assert!(shown(&own).0.is_empty());
    }

    #[test]
    fn unknown_figures_are_shown_in_a_plain_table() {
        for (test, shows, view) in TESTS.into_iter().filter(|(test, ..)| *test != MIX) {
            let m = Measurement::new(GAUGE, test, "odd", Unit::BytesPerSecond);
            let other = Measurement::new(GAUGE, "other", "odd", Unit::BytesPerSecond);
            let section = section(test, shows, view, &[m, other]);
            let [Block::Table(table)] = section.blocks.as_slice() else { panic!("{section:?}") };
            assert_eq!(table.rows.len(), 1);
            assert_eq!(table.rows[0][0].text, format!("{test} odd"));
        }
    }
}
