//! View of `apps trapezoid`: a table with one row per number of intervals and kind of workers, and a sentence about the
//! effect of placement.

use super::TEST;
use crate::GAUGE;
use crate::config::TrapezoidConfig;
use crate::efficiency::{self, WorkersRate};
use nodegauge_analysis::conclusion::{Obstacle, detectable_difference};
use nodegauge_analysis::ratio::speed::SpeedVerdict;
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::{mark_doubted, quotable_figures, value_in_words};
use nodegauge_gauge::view::{
    BarChart, BarSeries, ColumnList, ColumnUnit, Drawing, Picture, Section, TableCell, distinct,
    summary, words,
};
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::stats::Summary;
use nodegauge_measure::{Fraction, Unit};

/// Figure and its configuration.
type TrapezoidFigure<'a> = (&'a Measurement, TrapezoidConfig);

/// Returns the sections with table, evidence and summary; none if the record has no such figures.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let all: Vec<TrapezoidFigure<'_>> = own.map(|m| (m, m.read_config())).collect();
    let rates: Vec<&TrapezoidFigure<'_>> = all.iter().filter(|(m, _)| m.name == "rate").collect();
    let (Some((_, config)), Some(max)) =
        (rates.first(), rates.iter().filter_map(|(m, _)| m.value).reduce(f64::max))
    else {
        let mut section = Section::new(TEST);
        section.push_doubts(&all.iter().map(|(m, _)| *m).collect::<Vec<_>>());
        return if section.blocks.is_empty() { Vec::new() } else { vec![section] };
    };
    let mut section = Section::new(TEST);
    let columns = ColumnList::<TrapezoidFigure<'_>>::new()
        .left("workers", |(_, one)| one.on.in_words())
        .right_or_dash("time", |(_, one)| Some(one.seconds?.to_string()))
        .value_or_status("GFLOP/s", ColumnUnit::GFLOP_PER_S)
        .right_or_blank("efficiency", |of| {
            let m = related_figure(&all, of, "efficiency")?;
            Some(TableCell::from_measurement(m, |value| Fraction(value).in_tenths()))
        })
        .right_or_blank("relative", |of| {
            let m = related_figure(&all, of, "relative")?;
            Some(TableCell::from_measurement(m, |value| format!("{value:.3}")))
        })
        .right_or_dash("off pi", |(_, one)| Some(format!("{:.0e}", one.error?)))
        .left("", |(m, _)| TableCell::bar(Fraction(m.value.unwrap_or(0.0) / max)));
    let groups = rates.chunk_by(|(_, one), (_, next)| one.n == next.n).map(|of_points| {
        let points = of_points[0].1.n.unwrap_or(0);
        (format!("{} intervals", power(points)), of_points.iter().copied())
    });
    let table = columns.grouped_table(groups);
    section.push(table).push_picture(picture(&rates)).push_picture(efficiency(&all)).push_gap();
    section.note(
        "how",
        format!(
            "pi = integral of 4 / (1 + x^2) from 0 to 1, 5 FLOP per interval, {} loop, bound {}; medians",
            config.isa.as_deref().unwrap_or("?"),
            config.on.bind.as_deref().unwrap_or("?"),
        ),
    );
    if detail == Detail::Full {
        let stop = config.stopped.as_deref().unwrap_or("?");
        let counts = rates.iter().map(|(m, _)| m.summary.as_ref().map_or(0, |summary| summary.n));
        let count = words::count_range(counts);
        section.note_if("samples", count.map(|count| format!("{count} per figure; {stop}")));
        let against = all.iter().find(|(m, _)| m.name == "efficiency");
        if let Some(against) = against.and_then(|(_, ratio_config)| ratio_config.against.as_deref())
        {
            let text = format!(
                "parallel efficiency relative to {against}: median of the ratios in each round, \
                 which may differ from the ratio of the figures above"
            );
            section.note("efficiency", text);
        }
        let relative = all.iter().find(|(m, _)| m.name == "relative");
        if let Some(other) =
            relative.and_then(|(_, relative_config)| relative_config.against.as_deref())
        {
            section.note("relative", format!("speed divided by that of {other}, interleaved"));
        }
    }
    let measurements: Vec<&Measurement> = all.iter().map(|(m, _)| *m).collect();
    section.push_doubts(&measurements);
    let ending = placement(&all).map(summary);
    std::iter::once(section).chain(ending).collect()
}

/// Returns the first sentence of the page: the fastest workers for the longest sum, with their efficiency.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let all: Vec<TrapezoidFigure<'_>> = own.map(|m| (m, m.read_config())).collect();
    let longest = all.iter().filter_map(|(_, config)| config.n).max()?;
    let rates = quotable_figures(figures_with_length(&all, "rate", longest), |(m, _)| *m);
    let (m, config) = rates.into_iter().max_by(|(a, _), (b, _)| a.cmp_value(b))?;
    let efficiency =
        figures_with_length(&all, "efficiency", longest).find(|(_, of)| of.on == config.on);
    let efficiency = efficiency.and_then(|(ratio, of)| {
        let is_suspect = ratio.validity.status == Status::Suspect;
        let share = mark_doubted(&Fraction(ratio.value?).in_tenths(), is_suspect);
        let against = of.against.as_deref().unwrap_or("one worker");
        Some(format!(", a parallel efficiency of {share} relative to {against}"))
    });
    Some(format!(
        "Sums of {} intervals run at up to {}, by {}{}",
        power(longest),
        value_in_words(m)?,
        config.on.in_words(),
        efficiency.unwrap_or_default()
    ))
}

/// Returns the chart of the efficiency of the longest sum over the number of workers.
fn efficiency(all: &[TrapezoidFigure<'_>]) -> Option<Picture> {
    let longest = all.iter().filter_map(|(_, config)| config.n).max()?;
    let points = figures_with_length(all, "rate", longest).filter_map(|figure| {
        let (m, config) = figure;
        let efficiency = related_figure(all, figure, "efficiency").and_then(|ratio| ratio.value);
        Some(WorkersRate { efficiency, ..WorkersRate::from_rate(&config.on, None, m)? })
    });
    efficiency::picture(&points.collect::<Vec<_>>())
}

/// Returns a picture of the rates, with one group of bars per kind of workers and one bar per number of intervals.
fn picture(rates: &[&TrapezoidFigure<'_>]) -> Option<Picture> {
    let groups = distinct(rates.iter().map(|(_, config)| config.on.in_words()));
    let points = distinct(rates.iter().map(|(_, config)| config.n.unwrap_or(0)));
    let mut series = Vec::new();
    for n in points {
        let values = groups.iter().map(|workers| {
            let (m, _) = rates.iter().find(|(_, config)| {
                config.n.unwrap_or(0) == n && config.on.in_words() == *workers
            })?;
            Some((m.value?, m.validity.reasons.first().cloned()))
        });
        let values = values.collect();
        series.push(BarSeries { name: format!("{} intervals", power(n)), values });
    }
    let title = "rate by workers".to_owned();
    let drawing = Drawing::Bars(BarChart { unit: Unit::FlopsPerSecond, groups, series });
    (rates.len() > 1).then_some(Picture { title, drawing })
}

/// Returns a power of ten as `10^9`, and other numbers unchanged.
fn power(points: u64) -> String {
    let exponent = points.checked_ilog10().unwrap_or(0);
    if 10u64.pow(exponent) == points { format!("10^{exponent}") } else { points.to_string() }
}

/// Returns the figure with another name for the same sum and workers.
fn related_figure<'a>(
    all: &[TrapezoidFigure<'a>],
    (_, config): &TrapezoidFigure<'_>,
    name: &str,
) -> Option<&'a Measurement> {
    let (m, _) =
        all.iter().find(|(m, of)| m.name == name && of.n == config.n && of.on == config.on)?;
    Some(m)
}

/// Returns the figures with this name for sums with `n` intervals.
fn figures_with_length<'f, 'a>(
    all: &'f [TrapezoidFigure<'a>],
    name: &'static str,
    n: u64,
) -> impl Iterator<Item = &'f TrapezoidFigure<'a>> {
    all.iter().filter(move |(m, config)| m.name == name && config.n == Some(n))
}

/// Relative difference below which placement is considered to have no effect.
const MAX_NEGLIGIBLE_DIFFERENCE: f64 = 0.05;

/// Returns the minimum and the maximum of positive values.
fn value_range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, 0.0], |[low, high]: [f64; 2], x| [low.min(x), high.max(x)])
}

/// Returns a sentence about the effect of placement on the longest sums, based on the confidence intervals of the
/// ratios to policy 0.
fn placement(all: &[TrapezoidFigure<'_>]) -> Option<String> {
    let relative = all.iter().filter(|(m, _)| m.name == "relative");
    let longest = relative.filter_map(|(_, config)| config.n).max()?;
    let of_longest: Vec<&TrapezoidFigure<'_>> =
        figures_with_length(all, "relative", longest).collect();
    let what = format!("of {} intervals", power(longest));
    let question = format!("whether placement affects the speed of sums {what}");
    if let Some(obstacle) = Obstacle::from_figures(of_longest.iter().map(|(m, _)| *m)) {
        return Some(obstacle.cannot_tell(&question));
    }
    let known: Vec<(u64, f64, [f64; 2])> = of_longest
        .iter()
        .filter_map(|(m, config)| {
            let Summary { median, ci95, .. } = m.summary.as_ref()?;
            Some((config.on.policy?, *median, (*ci95)?))
        })
        .collect();
    let asked = of_longest.len();
    if known.len() < asked || known.is_empty() {
        let few = Obstacle::new("too few samples for confidence intervals");
        return Some(few.cannot_tell(&question));
    }
    let [min, max] = value_range(known.iter().map(|(_, ratio, _)| *ratio));
    let [low, high] = value_range(known.iter().flat_map(|(.., ends)| *ends));
    let apart: Vec<String> = known
        .iter()
        .filter(|(.., ci95)| {
            matches!(
                SpeedVerdict::from_interval(Some(*ci95), 0.0),
                SpeedVerdict::Faster | SpeedVerdict::Slower
            )
        })
        .map(|(policy, ratio, [lower, upper])| {
            format!(
                "policy {policy} is {ratio:.3} times as fast as policy 0 ({lower:.3} to {upper:.3})"
            )
        })
        .collect();
    let evenly = format!(
        "the other policies are {min:.3} to {max:.3} times as fast as policy 0 (confidence intervals from {low:.3} to {high:.3})"
    );
    Some(
        match (
            apart.as_slice(),
            SpeedVerdict::from_interval(Some([low, high]), MAX_NEGLIGIBLE_DIFFERENCE),
        ) {
            ([], SpeedVerdict::NoDifference) => {
                let found = detectable_difference(MAX_NEGLIGIBLE_DIFFERENCE);
                format!("placement does not affect the speed of sums {what}: {evenly}; {found}")
            }
            ([], _) => Obstacle::new(evenly)
                .with_remedy("use a larger --budget or --samples")
                .cannot_tell(&question),
            _ => {
                format!(
                    "sums {what}: {} of {asked} policies differ from policy 0: {}",
                    apart.len(),
                    apart.join(", ")
                )
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::QuotedStatistic;

    /// Returns the sentence of the page for ratios to policy 0 that are evenly distributed around `centre` in a range
    /// of width `spread`.
    fn reported(centre: f64, spread: f64, samples: u32) -> String {
        let ratios = |policy: f64| {
            let at = |n| centre + spread * (f64::from(n) / f64::from(samples.max(2) - 1) - 0.5);
            (0..samples).map(|n| at(n) + 1e-4 * policy).collect()
        };
        let figure = |policy: u64| {
            let figure = Measurement::new(GAUGE, TEST, "relative", Unit::Factor);
            figure.with_samples(QuotedStatistic::Median, ratios(policy as f64))
        };
        sentence((1..=5).map(figure).collect())
    }

    /// Returns the sentence of the page for the ratios of policies 1 to 5.
    fn sentence(all: Vec<Measurement>) -> String {
        let config = |policy| {
            let mut config = TrapezoidConfig { n: Some(1000), ..TrapezoidConfig::default() };
            config.on.policy = Some(policy);
            config
        };
        let figures: Vec<TrapezoidFigure<'_>> = all.iter().zip((1..=5).map(config)).collect();
        placement(&figures).unwrap()
    }

    #[test]
    fn suspect_ratios_show_no_effect_of_placement() {
        let figure = |_| {
            let figure = Measurement::new(GAUGE, TEST, "relative", Unit::Factor);
            let mut figure = figure.with_samples(QuotedStatistic::Median, vec![0.816; 20]);
            figure.validity.mark_suspect("disturbed");
            figure
        };
        let text = sentence((1..=5).map(figure).collect());
        assert_eq!(
            text,
            "cannot tell whether placement affects the speed of sums of 10^3 intervals: disturbed"
        );
    }

    #[test]
    fn placement_effect_needs_narrow_confidence_intervals() {
        assert!(
            reported(1.0, 0.02, 20)
                .starts_with("placement does not affect the speed of sums of 10^3")
        );
        assert!(reported(1.0, 0.5, 20).starts_with("cannot tell whether"));
        assert!(reported(1.0, 0.02, 3).contains("too few samples"));
        let apart = reported(0.9, 0.02, 20);
        assert!(
            apart.contains("5 of 5 policies differ from policy 0: policy 1 is 0.900 times"),
            "{apart}"
        );
    }
}
