//! View of `stream`: a table, followed by the evidence.

use super::figures::StreamFigure;
use super::words;
use crate::config::StreamConfig;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{Bar, Card, Drawing, Picture, Reach, Section, Table, TableCell};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Counts, Measurement, Record, Status};

/// Returns the table and the evidence for figures of one run.
pub(crate) fn section(figures: &[StreamFigure<'_>], record: &Record, detail: Detail) -> Section {
    let mut section = Section::new("stream");
    let (Some((first, config)), Some((last, of_last))) = (figures.first(), figures.last()) else {
        return section;
    };
    let measurements: Vec<&Measurement> = figures.iter().map(|(m, _)| *m).collect();
    section.push(rates(figures));
    if detail == Detail::Full {
        section.push(strips(figures, record));
    }
    section.picture(Picture::samples(&measurements, |m| m.name.clone()));
    section.gap().note("how", words::how(config));
    section.note_if("tasks", words::tasks(config));
    section.note_if("memory", config.numa.as_ref().and_then(words::numa));
    let regimes = words::regimes(last, of_last.round_trip_s);
    if detail == Detail::Brief {
        section.note_if("regime", regimes);
    } else {
        section.note_if("ranks", spread(last, of_last));
        let stop = config.stopped.as_deref().unwrap_or("?");
        let counts = counts(&measurements).map(|counts| format!("{counts}; {stop}"));
        section.note_if("samples", counts);
        if let Some(trip) = config.round_trip_s {
            let one = || format!("core-to-core round trip of {}", Seconds(trip));
            section.note("regime", regimes.unwrap_or_else(one));
        }
        section.note_if("size", of_last.size_check.as_ref().map(words::size_check));
        section.note("limit", words::limit_in_use(first, &record.machine));
        section.note_if("counters", words::counters(figures));
    }
    section.doubts(&measurements);
    section.push(words::variant());
    section
}

/// Returns the number of samples that count and the number of disturbed samples. If the numbers differ between kernels,
/// they are given as a range. Returns `None` without figures.
fn counts(measurements: &[&Measurement]) -> Option<String> {
    let range = |of: &dyn Fn(&Measurement) -> usize| {
        let all = measurements.iter().filter(|m| m.summary.is_some()).map(|m| of(m));
        let (least, most) = (all.clone().min()?, all.max()?);
        Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
    };
    let of = |m: &Measurement, counts| m.disturbed.iter().filter(|d| d.counts == counts).count();
    let counted = range(&|m| m.samples.len())?;
    let disturbed = range(&|m| m.interfered().count())?;
    let reported = if measurements.iter().any(|m| of(m, Counts::All) > 0) {
        format!("{} of them count because the others are too few", range(&|m| of(m, Counts::All))?)
    } else if measurements.iter().any(|m| of(m, Counts::Best) > 0) {
        format!("{} of them count only for the best", range(&|m| of(m, Counts::Best))?)
    } else {
        return Some(format!("{counted} count, {disturbed} disturbed, 1 warm-up"));
    };
    Some(format!("{counted} count, {disturbed} disturbed ({reported}), 1 warm-up"))
}

/// Returns the table with the best, the median and the spread of each kernel.
fn rates(figures: &[StreamFigure<'_>]) -> Table {
    let titles = ["GB/s", ">best", ">median", ">5 %", ">95 %", ">traffic", ">of limit", "loop"];
    let mut table = Table::new(&titles);
    for (m, config) in figures {
        // An invalid result has no statistics, which could be mistaken for a result.
        let summary = m.summary.as_ref().filter(|_| m.value.is_some());
        table.row([
            TableCell::text(m.name.clone()),
            words::value(m),
            words::rate(summary.map(|summary| summary.median)),
            words::rate(summary.map(|summary| summary.p05)),
            words::rate(summary.map(|summary| summary.p95)),
            words::rate(m.traffic.as_ref().map(|traffic| traffic.value)),
            words::of_limit(m.limit.as_ref().filter(|_| m.value.is_some())),
            words::loop_of(config).into(),
        ]);
    }
    table
}

/// Returns the samples of each kernel with the limit of the cores.
fn strips(figures: &[StreamFigure<'_>], record: &Record) -> Picture {
    let bar = |(m, config): &StreamFigure<'_>| {
        let statistic = m.quoted.name();
        let what = match &config.isa {
            Some(_) => format!("{statistic}; {}", words::loop_of(config)),
            None => statistic.to_owned(),
        };
        Bar::of(&m.name, what, m, reach(record, m), &record.machine)
    };
    let card = Card { bars: figures.iter().filter_map(bar).collect(), ..Card::default() };
    Picture { title: "sustained memory bandwidth".to_owned(), drawing: Drawing::Strips(card) }
}

/// Returns the rate of the fastest loop that the run measured on the same arrays, if it is faster than the figure.
pub(crate) fn reach(record: &Record, of: &Measurement) -> Option<Reach> {
    let config: StreamConfig = of.read_config();
    let same = |m: &&Measurement| {
        let other: StreamConfig = m.read_config();
        m.gauge == of.gauge
            && m.test == of.test
            && m.unit == of.unit
            && !m.is_published()
            && m.validity.status != Status::Invalid
            && (other.threads, other.array_bytes, other.sweep)
                == (config.threads, config.array_bytes, config.sweep.clone())
    };
    let fastest = record.measurements.iter().filter(same).filter(|m| m.value.is_some());
    let fastest = fastest.max_by(|a, b| a.by_value(b))?;
    if fastest.value <= of.value {
        return None;
    }
    let basis = format!("fastest loop of this run: {}", fastest.name);
    Some(Reach { value: fastest.value?, basis })
}

/// Returns a note with the slowest and the fastest rank, by the median of each rank; `None` for fewer than two ranks.
fn spread(m: &Measurement, config: &StreamConfig) -> Option<String> {
    let ranks = config.ranks.as_ref()?.iter();
    let mut rates: Vec<(u32, f64)> =
        ranks.filter_map(|rank| Some((rank.rank, rank.median?))).collect();
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (slowest, fastest) = (rates.first()?, rates.last()?);
    (rates.len() > 1).then(|| {
        format!(
            "{} per rank: slowest rank {} with {}, fastest rank {} with {} GB/s (medians)",
            m.name,
            slowest.0,
            words::gb(slowest.1),
            fastest.0,
            words::gb(fastest.1)
        )
    })
}
