//! View of a sweep of a program: a table with one row per combination, a chart over a numeric axis, and the fastest
//! combination.

use crate::config::ProgramConfig;
use crate::{GAUGE, RELATIVE, TEST};
use nodegauge_analysis::conclusion::{Obstacle, detectable_difference};
use nodegauge_analysis::ratio::closing::interval_in_words;
use nodegauge_analysis::ratio::speed::{self, SpeedVerdict};
use nodegauge_gauge::Detail;
use nodegauge_gauge::view::sentence::{self, mark_doubted};
use nodegauge_gauge::view::sweep::{RoundPairing, SweptRow, SweptRows};
use nodegauge_gauge::view::{
    AxisQuantity, Block, Chart, ChartSeries, ColumnList, Drawing, ForestPlot, ForestRow, Picture,
    Section, Table, TableCell, Tone, group_by_key, summary,
};
use nodegauge_measure::quantity::{count_in_words, format_significant, number_form};
use nodegauge_measure::record::doubt::main_cause;
use nodegauge_measure::record::{Measurement, QuotedStatistic, Record, Status};
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Fraction, Unit};

/// Description of the intervals of the relative speeds.
const INTERVAL: &str = "95 % interval, simultaneous over all combinations";
/// Description of the intervals in records of old versions, which were computed for each combination separately.
const SINGLE_INTERVAL: &str = "95 % interval of one combination, narrower than that of the verdict";
/// Letters that mark the series of a chart.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// Combination of a sweep: its figure, and its speed relative to the baseline.
struct Row<'r> {
    figure: &'r Measurement,
    config: ProgramConfig,
    relative: Option<(&'r Measurement, ProgramConfig)>,
}

impl Row<'_> {
    fn name(&self) -> &str {
        self.config.under.as_deref().unwrap_or("?")
    }

    /// Returns the median as text; `None` for an invalid figure.
    fn median(&self) -> Option<String> {
        let m = self.figure;
        let value = in_words(m, m.value.filter(|_| m.validity.status != Status::Invalid)?);
        Some(mark_doubted(&value, m.validity.status == Status::Suspect))
    }

    /// Returns the cell for the median, or for the status of a figure without a value.
    fn median_cell(&self) -> TableCell {
        let m = self.figure;
        match m.value {
            Some(value) => TableCell::figure(value, m.unit, in_words(m, value)),
            None => TableCell::text(m.validity.status.name()).tone(Tone::Bad),
        }
    }

    /// Returns the distance between the 5th and the 95th percentile, as a share of the median, as text.
    fn spread(&self) -> Option<String> {
        let summary = self.figure.summary.as_ref().filter(|_| self.figure.value.is_some())?;
        Some(Fraction((summary.p95 - summary.p05).abs() / summary.median).in_tenths())
    }

    /// Returns the cell for the elapsed time of a run; `None` if the elapsed time is the figure itself.
    fn elapsed(&self) -> Option<TableCell> {
        let time = self.config.seconds.filter(|_| self.figure.value.is_some())?;
        Some(TableCell::figure(time.0, Unit::Seconds, time.to_string()))
    }

    /// Returns the cell for the relative speed.
    fn relative_cell(&self) -> Option<TableCell> {
        let times = self.relative.as_ref()?.0.value?;
        Some(TableCell::figure(times, Unit::Factor, format!("{times:.3}")))
    }

    /// Returns the cell for the verdict. A figure without a verdict is the baseline, unless it is the only row
    /// (`is_alone`).
    fn verdict_cell(&self, is_alone: bool) -> TableCell {
        let Some(verdict) = self.verdict() else {
            let is_baseline = self.figure.value.is_some() && !is_alone;
            return TableCell::text(if is_baseline { "baseline" } else { "" });
        };
        let tone = match verdict {
            SpeedVerdict::Faster => Tone::Better,
            SpeedVerdict::Slower => Tone::Worse,
            _ => Tone::Plain,
        };
        TableCell::text(verdict.name()).tone(tone)
    }

    /// Returns the confidence interval of the relative speed.
    fn interval(&self) -> Option<[f64; 2]> {
        self.relative.as_ref()?.0.summary.as_ref()?.ci95
    }

    /// True if the interval of valid figures excludes 1 although the verdict is `cannot tell`.
    fn is_narrower(&self) -> bool {
        let excludes_one = self.interval().is_some_and(speed::is_different);
        // Suspect figures give no verdict, regardless of the interval.
        let is_valid = self.relative.as_ref().is_some_and(|(ratio, _)| is_valid(ratio));
        is_valid && excludes_one && self.verdict() == Some(SpeedVerdict::CannotTell)
    }

    /// Returns the relative speed, which is 1 for the baseline.
    fn ratio(&self) -> f64 {
        self.relative.as_ref().and_then(|(m, _)| m.value).unwrap_or(1.0)
    }

    /// Returns the value on an axis as a number above zero.
    fn number(&self, axis: &str) -> Option<f64> {
        let text = self.config.sweep.as_ref()?.get(axis)?.as_str()?;
        text.parse().ok().filter(|number| *number > 0.0)
    }

    /// Returns the point of the row in a chart over an axis.
    fn dot(&self, axis: &str) -> Option<(f64, f64)> {
        Some((self.number(axis)?, self.figure.value?))
    }

    /// Returns the values on all axes except one, as text.
    fn other_axes(&self, axis: &str) -> String {
        let mut words = Vec::new();
        for (name, given) in self.config.sweep.iter().flatten() {
            if name != axis {
                words.push(format!("{name} {}", given.as_str().unwrap_or("?")));
            }
        }
        words.join(", ")
    }

    /// Returns the verdict on the speed relative to the baseline; `None` for the baseline. For suspect figures it is
    /// `cannot tell`, even if an old version stored another verdict.
    fn verdict(&self) -> Option<SpeedVerdict> {
        let (ratio, config) = self.relative.as_ref()?;
        let verdict = config.verdict.as_ref()?.parse().ok()?;
        Some(if is_valid(ratio) { verdict } else { SpeedVerdict::CannotTell })
    }
}

fn is_valid(m: &Measurement) -> bool {
    m.validity.status == Status::Valid
}

/// Returns the combinations of the sweep in a record.
fn rows(record: &Record) -> Vec<Row<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let (of_speed, figures): (Vec<&Measurement>, Vec<_>) = own.partition(|m| m.name == RELATIVE);
    let ratios: Vec<(&Measurement, ProgramConfig)> =
        of_speed.into_iter().map(|m| (m, m.read_config())).collect();
    let mut rows = Vec::new();
    for figure in figures {
        let config: ProgramConfig = figure.read_config();
        let relative = ratios.iter().find(|(_, other)| other.under == config.under).cloned();
        rows.push(Row { figure, config, relative });
    }
    rows
}

/// Converts the combinations to the rows that all sweeps share.
fn swept_rows<'r>(rows: &[Row<'r>]) -> SweptRows<'r> {
    let mut swept = Vec::new();
    for row in rows {
        let rounds = match &row.relative {
            Some((ratio, _)) => RoundPairing::Relative(&ratio.samples),
            None => RoundPairing::Baseline,
        };
        swept.push(SweptRow { name: row.name().to_owned(), figure: row.figure, rounds });
    }
    SweptRows::new(swept, QuotedStatistic::Median)
}

/// Returns the sections of the page; empty if the record has no such figures.
pub(crate) fn sections(record: &Record, detail: Detail) -> Vec<Section> {
    let rows = rows(record);
    let Some(first) = rows.first() else { return Vec::new() };
    let mut section = Section::new(TEST);
    if let Some(picture) = forest(&rows) {
        section.push(picture);
    }
    section.push(table(&rows)).push_gap();
    let against = rows.iter().find_map(|row| row.relative.as_ref()?.1.against.as_deref());
    section.blocks.extend(against.map(|name| {
        Block::Text(format!(
            "relative: speed divided by that of {name}, geometric mean over the rounds; {}",
            interval_kind(&rows)
        ))
    }));
    if let Some(chart) = chart(&rows) {
        section.push(chart).push_gap();
    }
    section.note_if("ranking", swept_rows(&rows).ranking());
    section.note("program", first.config.program.as_deref().unwrap_or("?"));
    section.note("figure", figure_in_words(first));
    if detail == Detail::Full {
        let rounds = rows.iter().filter_map(|row| row.config.rounds).max().unwrap_or(0);
        let stop = first.config.stopped.as_deref().unwrap_or("?");
        section.note("spread", "5th to 95th percentile, relative to the median");
        section.note(
            "rounds",
            format!(
                "{}, each combination once per round; {stop}",
                count_in_words(rounds as usize, "round")
            ),
        );
    }
    for row in rows.iter().filter(|row| row.figure.validity.status != Status::Valid) {
        for reason in &row.figure.validity.reasons {
            let text = format!("{}: {reason}", row.name());
            section.push(nodegauge_gauge::view::Note::doubt(row.figure.validity.status, text));
        }
    }
    let ending = closing(&rows).map(summary);
    std::iter::once(section).chain(ending).collect()
}

fn figure_in_words(row: &Row<'_>) -> String {
    match &row.config.pattern {
        Some(pattern) => {
            let better = match row.figure.unit.better() {
                BetterDirection::Higher => "higher is better",
                BetterDirection::Lower => "lower is better",
            };
            format!("the number that {pattern:?} matches in the output, {better}; median")
        }
        None => "elapsed time of a run, median".to_owned(),
    }
}

/// Formats a value; a plain number has no unit.
fn in_words(m: &Measurement, value: f64) -> String {
    if m.unit == Unit::Factor { format_significant(value) } else { m.unit.in_words(value) }
}

fn table(rows: &[Row<'_>]) -> Table {
    let has_pattern = rows.iter().any(|row| row.config.pattern.is_some());
    let is_alone = rows.len() == 1;
    ColumnList::<Row<'_>>::new()
        .left("under", |row| row.name().to_owned())
        .right(if has_pattern { "figure" } else { "time" }, Row::median_cell)
        .right_or_blank("spread", Row::spread)
        .add_if(has_pattern, |columns| columns.right_or_blank("time", Row::elapsed))
        .right_or_blank("relative", Row::relative_cell)
        .right_or_blank("interval", |row| {
            row.interval().map(|[low, high]| format!("{low:.3} to {high:.3}"))
        })
        .left("verdict", |row| row.verdict_cell(is_alone))
        .table(rows)
}

/// Returns the description of the intervals. If an interval excludes 1 although the verdict is `cannot tell`, the
/// verdict is based on other, wider intervals.
fn interval_kind(rows: &[Row<'_>]) -> &'static str {
    if rows.iter().any(Row::is_narrower) { SINGLE_INTERVAL } else { INTERVAL }
}

/// Returns a picture of the relative speeds with their intervals; `None` if there are none.
fn forest(rows: &[Row<'_>]) -> Option<Picture> {
    let mut shown = Vec::new();
    for row in rows {
        let Some((ratio, _)) = &row.relative else { continue };
        let Some(times) = ratio.value else { continue };
        let verdict = row.verdict();
        shown.push(ForestRow {
            name: row.name().to_owned(),
            ratio: Some(times),
            interval: row.interval(),
            words: verdict.map_or_else(String::new, |verdict| verdict.name().to_owned()),
            is_clear: matches!(verdict, Some(SpeedVerdict::Faster | SpeedVerdict::Slower)),
            doubt: ratio.validity.reasons.first().cloned(),
        });
    }
    let against = rows.iter().find_map(|row| row.relative.as_ref()?.1.against.clone());
    let reference = against.filter(|_| !shown.is_empty())?;
    let title = format!("speed relative to {reference}");
    let forest = ForestPlot { reference, interval: interval_kind(rows), rows: shown };
    Some(Picture { title, drawing: Drawing::Forest(forest) })
}

/// Returns a chart over the numeric axis with the most values; `None` if no axis has at least three numbers.
fn chart(rows: &[Row<'_>]) -> Option<Chart> {
    let axes = rows.first()?.config.sweep.as_ref()?.keys();
    let counts = axes.filter(|axis| {
        axis.as_str() != "policy" && rows.iter().all(|row| row.number(axis).is_some())
    });
    let axis = counts.max_by_key(|axis| numbers(rows, axis).len())?;
    let ticks = numbers(rows, axis);
    if ticks.len() < 3 {
        return None;
    }
    let measured = rows.iter().filter(|row| row.figure.value.is_some());
    let unit = rows.first()?.figure.unit;
    let mut series = Vec::new();
    let curves = group_by_key(measured, |row| row.other_axes(axis));
    for ((others, of), mark) in curves.into_iter().zip(LETTERS.chars()) {
        let name = if others.is_empty() { axis.clone() } else { others };
        let dots = of.iter().filter_map(|row| row.dot(axis)).collect();
        let mut curve = ChartSeries { mark, name, dots, ..ChartSeries::default() };
        for row in &of {
            if let Some(at) = row.dot(axis) {
                curve.doubt(at, row.figure);
            }
        }
        series.push(curve);
    }
    let y = match unit {
        Unit::Seconds => AxisQuantity::Microseconds,
        Unit::Factor => AxisQuantity::Number,
        other => AxisQuantity::Rate(other),
    };
    Some(Chart { y, ticks, series, ..Chart::default() })
}

/// Returns the distinct numbers on an axis, ascending.
fn numbers(rows: &[Row<'_>], axis: &str) -> Vec<f64> {
    let mut all: Vec<f64> = rows.iter().filter_map(|row| row.number(axis)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Returns the first sentence of the page: the verdict on the combinations, and the best median together with the
/// median of the baseline. Without a verdict, no combination is named as the best.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let rows = rows(record);
    let verdict = closing(&rows);
    let best = if verdict.is_some() {
        fastest(&rows)
    } else {
        rows.iter().find(|row| row.median().is_some())
    };
    let best = best?;
    let median = format!("the median with {} is {}", best.name(), best.median()?);
    let base = rows.iter().find(|row| row.relative.is_none() && row.median().is_some());
    let baseline = base.filter(|base| base.name() != best.name()).and_then(|base| {
        Some(format!(", and that of the baseline {} is {}", base.name(), base.median()?))
    });
    let verdict = verdict.map(|verdict| format!("{verdict}; ")).unwrap_or_default();
    Some(sentence::capitalise(&format!("{verdict}{median}{}", baseline.unwrap_or_default())))
}

/// Returns a sentence about the fastest combination.
fn closing(rows: &[Row<'_>]) -> Option<String> {
    let fastest = fastest(rows)?;
    if rows.iter().filter(|row| row.figure.value.is_some()).count() < 2 {
        return None;
    }
    let base = rows.iter().find(|row| row.figure.value.is_some() && row.relative.is_none())?;
    let faster = rows.iter().filter(|row| row.verdict() == Some(SpeedVerdict::Faster)).count();
    let slower = rows.iter().filter(|row| row.verdict() == Some(SpeedVerdict::Slower)).count();
    let none = rows.iter().filter(|row| row.verdict() == Some(SpeedVerdict::NoDifference)).count();
    if let Some((ratio, _)) = fastest.relative.as_ref().filter(|_| faster > 0) {
        let times = ratio.value?;
        let interval = ratio.summary.as_ref()?.ci95.map(interval_in_words);
        let next = swept_rows(rows).comparison_with_next(fastest.name());
        let next = next.map(|next| format!("; {next}")).unwrap_or_default();
        return Some(format!(
            "{} is fastest: {times:.3} times as fast as {} (95 %: {}){next}",
            fastest.name(),
            base.name(),
            interval.unwrap_or_default()
        ));
    }
    let others = rows.iter().filter(|row| row.relative.is_some()).count();
    Some(if slower == others {
        format!(
            "{} is fastest: the {} slower",
            base.name(),
            number_form(others, "other is", "others are")
        )
    } else if none == others {
        let found = detectable_difference(speed::NEGLIGIBLE_DIFFERENCE);
        format!("no difference from {}: {found}", base.name())
    } else if slower > 0 {
        let verb = number_form(slower, "is", "are");
        format!(
            "no combination is significantly faster than {}; {slower} of {others} {verb} slower",
            base.name()
        )
    } else {
        let question = format!("whether another combination is faster than {}", base.name());
        let doubt = suspect_cause(rows);
        let leaders = if doubt.is_some() { None } else { swept_rows(rows).leaders_comparison() };
        let leaders = leaders.map(|text| format!("; {text}")).unwrap_or_default();
        let obstacle = doubt.unwrap_or_else(|| no_verdict_cause(rows));
        format!("{}{leaders}", obstacle.cannot_tell(&question))
    })
}

/// Returns the reason why figures are suspect, with the name of the first combination that has it; `None` if all are
/// valid.
fn suspect_cause(rows: &[Row<'_>]) -> Option<Obstacle> {
    let cause = main_cause(rows.iter().map(|row| row.figure))?;
    let first = rows.iter().find(|row| row.figure.validity.reasons.iter().any(|one| one == cause));
    let name = first.map_or("?", Row::name);
    let remedy = Obstacle::new(cause).remedy;
    Some(Obstacle { reason: format!("{cause} ({name})"), remedy })
}

/// Returns the reason why valid figures give no verdict: their intervals contain 1.
fn no_verdict_cause(rows: &[Row<'_>]) -> Obstacle {
    let visible = rows.iter().filter_map(|row| row.relative.as_ref()?.1.visible);
    let largest = visible.reduce(f64::max);
    let found = largest.map(|share| format!("; {}", detectable_difference(share)));
    Obstacle::new(format!("the intervals contain 1{}", found.unwrap_or_default()))
        .with_remedy("use a larger --budget or --samples")
}

/// Returns the fastest row among those that are significantly faster than the baseline; the baseline itself if there
/// are none.
fn fastest<'a, 'r>(rows: &'a [Row<'r>]) -> Option<&'a Row<'r>> {
    let base = rows.iter().find(|row| row.figure.value.is_some() && row.relative.is_none());
    let faster = rows.iter().filter(|row| row.verdict() == Some(SpeedVerdict::Faster));
    faster.max_by(|a, b| a.ratio().total_cmp(&b.ratio())).or(base)
}

/// Fastest combination of a record.
pub(crate) struct FastestCombination {
    pub name: String,
    /// Reason why it is unknown whether this combination is the fastest; `None` if it is known.
    pub doubt: Option<String>,
}

/// Returns the fastest combination of a record; `None` if nothing was measured.
pub(crate) fn fastest_combination(record: &Record) -> Option<FastestCombination> {
    let rows = rows(record);
    let name = fastest(&rows)?.name().to_owned();
    // A single combination is not compared.
    let doubt = suspect_cause(&rows).filter(|_| rows.len() > 1).map(|obstacle| obstacle.in_words());
    Some(FastestCombination { name, doubt })
}
