//! View of `stream`: a table, followed by the evidence.

use super::figures::StreamFigure;
use super::words;
use crate::config::StreamConfig;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::{
    AttainableValue, ColumnList, ColumnUnit, Drawing, FigureBar, FigureBars, Picture, Section,
    Table,
};
use nodegauge_measure::Seconds;
use nodegauge_measure::record::{Measurement, Record, SampleUse, Status};

/// Returns the table and the evidence for figures of one run.
pub(crate) fn section(figures: &[StreamFigure<'_>], record: &Record, detail: Detail) -> Section {
    let mut section = Section::new("stream");
    let [(first, config), ..] = figures else { return section };
    let (last, of_last) = &figures[figures.len() - 1];
    let measurements: Vec<&Measurement> = figures.iter().map(|(m, _)| *m).collect();
    section.push(rates(figures));
    if detail == Detail::Full {
        section.push(strips(figures, record));
    }
    section.push_picture(Picture::samples(&measurements, |m| m.name.clone()));
    section.push_gap().note("how", words::configuration_in_words(config));
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
            let one = format!("core-to-core round trip of {}", Seconds(trip));
            section.note("regime", regimes.unwrap_or(one));
        }
        section.note_if("size", of_last.size_check.as_ref().map(words::size_check));
        section.note("limit", words::limit_in_use(first, &record.machine));
        section.note_if("counters", words::counters(figures));
    }
    section.push_doubts(&measurements);
    section.push(words::variant_note());
    section
}

/// Returns the number of samples that count and the number of disturbed samples. If the numbers differ between kernels,
/// they are given as a range. Returns `None` without figures.
fn counts(measurements: &[&Measurement]) -> Option<String> {
    let sampled: Vec<&Measurement> =
        measurements.iter().copied().filter(|m| m.summary.is_some()).collect();
    let counted = words::count_range(sampled.iter().map(|m| m.samples.len()))?;
    let disturbed = words::count_range(sampled.iter().map(|m| m.disturbed_samples().count()))?;
    let reported = [
        (SampleUse::All, "count because the others are too few"),
        (SampleUse::Best, "count only for the best"),
    ];
    for (counts, which) in reported {
        if measurements.iter().any(|m| disturbed_with(m, counts) > 0) {
            let number = words::count_range(sampled.iter().map(|m| disturbed_with(m, counts)))?;
            return Some(format!(
                "{counted} count, {disturbed} disturbed ({number} of them {which}), 1 warm-up"
            ));
        }
    }
    Some(format!("{counted} count, {disturbed} disturbed, 1 warm-up"))
}

/// Returns the number of disturbed samples of a figure with this kind of count.
fn disturbed_with(m: &Measurement, counts: SampleUse) -> usize {
    m.disturbed.iter().filter(|disturbed| disturbed.counts == counts).count()
}

/// Returns the table with the best, the median and the spread of each kernel.
fn rates(figures: &[StreamFigure<'_>]) -> Table {
    let columns = ColumnList::<StreamFigure<'_>>::new()
        .names("GB/s")
        .rates(ColumnUnit::GB_PER_S)
        .values("traffic", ColumnUnit::GB_PER_S, |(m, _)| Some(m.traffic.as_ref()?.value))
        .limit_share()
        .left("loop", |(_, config)| words::loop_in_words(config));
    columns.table(figures)
}

/// Returns the picture with the samples and the limits of each kernel.
fn strips(figures: &[StreamFigure<'_>], record: &Record) -> Picture {
    let bars = figures.iter().filter_map(|figure| strip(figure, record)).collect();
    let drawing = Drawing::Strips(FigureBars { bars, ..FigureBars::default() });
    Picture { title: "sustained memory bandwidth".to_owned(), drawing }
}

/// Returns the bar of a kernel; `None` if the figure has no value.
fn strip((m, config): &StreamFigure<'_>, record: &Record) -> Option<FigureBar> {
    let statistic = m.quoted.name();
    let what = match &config.isa {
        Some(_) => format!("{statistic}; {}", words::loop_in_words(config)),
        None => statistic.to_owned(),
    };
    FigureBar::new(&m.name, what, m, reach(record, m), &record.machine)
}

/// Returns the rate of the fastest loop that the run measured on the same arrays, if it is higher than the figure.
pub(crate) fn reach(record: &Record, of: &Measurement) -> Option<AttainableValue> {
    let config: StreamConfig = of.read_config();
    let usable = record
        .measurements
        .iter()
        .filter(|m| m.value.is_some() && !m.is_published() && m.validity.status != Status::Invalid);
    let on_same_arrays = usable.filter(|m| {
        let other: StreamConfig = m.read_config();
        (&m.gauge, &m.test, m.unit) == (&of.gauge, &of.test, of.unit)
            && (other.threads, other.array_bytes) == (config.threads, config.array_bytes)
            && other.sweep == config.sweep
    });
    let fastest = on_same_arrays.max_by(|a, b| a.cmp_value(b))?;
    if fastest.value <= of.value {
        return None;
    }
    let basis = format!("fastest loop of this run: {}", fastest.name);
    Some(AttainableValue { value: fastest.value?, basis })
}

/// Returns a note with the slowest and the fastest rank, by the median of each rank; `None` for fewer than two ranks.
fn spread(m: &Measurement, config: &StreamConfig) -> Option<String> {
    let ranks = config.ranks.as_ref()?.iter();
    let mut rates: Vec<(u32, f64)> =
        ranks.filter_map(|rank| Some((rank.rank, rank.median?))).collect();
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let slowest = rates.first()?;
    let fastest = rates.last()?;
    (rates.len() > 1).then(|| {
        format!(
            "{} per rank: slowest rank {} with {}, fastest rank {} with {} GB/s (medians)",
            m.name,
            slowest.0,
            words::format_gb_per_s(slowest.1),
            fastest.0,
            words::format_gb_per_s(fastest.1)
        )
    })
}
