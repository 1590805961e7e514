//! View of `explain`: a waterfall chart from the baseline to the best configuration, with one choice per line.

use super::words;
use crate::GAUGE;
use crate::ablation::{MEMCPY, MIN_ROUNDS, TEST, TOTAL_FACTOR, remedy};
use crate::config::{ExplainConfig, StreamAgreement};
use nodegauge_analysis::conclusion::{CANNOT_TELL, Obstacle};
use nodegauge_analysis::ratio::bests;
use nodegauge_analysis::ratio::speed::{SpeedVerdict, is_different};
use nodegauge_gauge::view::sentence::{capitalise, value_in_words};
use nodegauge_gauge::view::{
    Block, ChartBar, ColumnList, ColumnUnit, Drawing, Picture, Section, StepChart, Table,
    TableCell, Tone,
};
use nodegauge_measure::quantity::{change_in_words, changes_in_words, count_in_words, number_form};
use nodegauge_measure::record::{Measurement, QuotedStatistic, Record};
use nodegauge_measure::{Bytes, BytesPerSec, Fraction, Unit};

/// Maximum ratio of upper to lower end of a confidence interval that confirms the agreement of two figures.
const MAX_INTERVAL_RATIO: f64 = 1.1;
/// Minimum length of a bar, as a share of the longest bar.
const MIN_BAR: f64 = 1.0 / 24.0;

/// Figure of a step with its configuration.
type StepFigure<'a> = (&'a Measurement, ExplainConfig);

/// Row of the table of steps.
struct StepRow<'a> {
    name: &'a str,
    /// Rate that the step reaches.
    rate: BytesPerSec,
    /// Figure with the factor of the step; `None` for the baseline.
    figure: Option<&'a StepFigure<'a>>,
}

/// Returns the table of steps. If too few rounds count (`is_few`), factors with an interval are faint, and the others
/// are left out. `most` is the rate of the longest bar.
fn table(kernel: &str, rows: &[StepRow<'_>], is_few: bool, most: BytesPerSec) -> Table {
    let columns = ColumnList::<StepRow<'_>>::new()
        .left(kernel, |row| row.name.to_owned())
        .right("factor", |row| match row.figure {
            Some((m, step)) if !is_few => factor(m, step),
            Some((m, step)) if ends(step).is_some() => factor(m, step).tone(Tone::Faint),
            _ => TableCell::default(),
        })
        .right("95 % interval", |row| {
            row.figure.map_or_else(TableCell::default, |(_, step)| interval(step))
        })
        .values("GB/s", ColumnUnit::GB_PER_S, |row| Some(row.rate.0))
        .left("", |row| match row.figure {
            Some((m, _)) if m.name == TOTAL_FACTOR => TableCell::default(),
            _ => TableCell::bar(Fraction((row.rate / most).max(MIN_BAR))),
        });
    columns.table(rows)
}

/// Returns the waterfall of the explained kernel, followed by the factors of the other kernels; `None` if the record
/// has no such figures.
pub(crate) fn section(record: &Record) -> Option<Section> {
    let own = |m: &&Measurement| m.gauge == GAUGE && m.test == TEST;
    let all: Vec<&Measurement> = record.measurements.iter().filter(own).collect();
    let figures: Vec<StepFigure<'_>> = all.iter().map(|m| (*m, m.read_config())).collect();
    let of_whole = figures.iter().find(|(m, _)| m.name == TOTAL_FACTOR)?;
    let (whole, config) = of_whole;
    let kernel = config.kernel.as_deref().unwrap_or("triad");
    let from = config.from.unwrap_or_default();
    let to = config.to.unwrap_or_default();
    // Records of old versions contain no confidence intervals.
    let known = whole.quoted != QuotedStatistic::GeometricMean;
    let few = too_few(config);
    let obstacle = obstacle(whole, config);
    let steps: Vec<&StepFigure<'_>> =
        figures.iter().filter(|(m, _)| m.name != TOTAL_FACTOR && m.name != MEMCPY).collect();
    let mut rows = vec![StepRow { name: "baseline", rate: from, figure: None }];
    rows.extend(steps.iter().map(|figure| StepRow {
        name: &figure.0.name,
        rate: figure.1.to.unwrap_or_default(),
        figure: Some(figure),
    }));
    rows.push(StepRow { name: TOTAL_FACTOR, rate: to, figure: Some(of_whole) });
    let mut section = Section::new("explain");
    let mut at = 0.0;
    let plain = config.baseline.clone().unwrap_or_default();
    // The rates of all steps are from the same rounds, so a doubt about their ratio concerns the baseline, too.
    let mut bars = vec![ChartBar::bar("baseline", Some(from.0), plain).with_validity(whole)];
    at += from.0;
    for (m, step) in &steps {
        let reached = step.to.map(|best| best.0);
        let significant = obstacle.is_none() && (!known || is_significant(step));
        bars.push(ChartBar {
            name: named(m, step),
            from: at,
            to: reached,
            words: step.what.clone().unwrap_or_default(),
            label: if few.is_some() { CANNOT_TELL.to_owned() } else { factor(m, step).text },
            interval: ends(step).map(|ends| ends.map(|end| end * at)),
            is_open: !significant,
            doubt: m.validity.reasons.first().cloned(),
        });
        at = reached.unwrap_or(at);
    }
    let waterfall = StepChart { unit: Unit::BytesPerSecond, steps: bars };
    let drawing = Drawing::Steps(waterfall);
    let title = match &obstacle {
        Some(obstacle) => obstacle.cannot_tell(&format!("the effect of each choice on {kernel}")),
        None => format!("effect of each choice: {kernel}"),
    };
    let rates = figures.iter().filter_map(|(_, step)| step.to).chain([from, to]);
    let most = rates.fold(BytesPerSec(1.0), BytesPerSec::max);
    section.push(table(kernel, &rows, few.is_some(), most));
    if obstacle.is_some() {
        // Renderers without graphics do not show the title of a picture.
        section.push(Block::Text(title.clone()));
    }
    section.push(Picture { title, drawing }).push_gap();
    section.note("baseline", config.baseline.as_deref().unwrap_or("plain run"));
    for (m, step) in &steps {
        let what = step.what.as_deref().unwrap_or("");
        let reported = if few.is_some() {
            "; too few rounds"
        } else if !known || is_significant(step) {
            ""
        } else {
            "; not significantly different from 1"
        };
        section.note(&m.name, format!("{what}{reported}{}", other_factors(step, kernel)));
    }
    if let Some((m, copy_config)) = figures.iter().find(|(m, _)| m.name == MEMCPY) {
        let text = match &few {
            Some(_) => copy_config.to.map(|copied| {
                format!(
                    "function of the C library, interleaved with the steps: {copied}; too few rounds"
                )
            }),
            None => memcpy(m, copy_config),
        };
        section.note_if(MEMCPY, text);
    }
    section.note_if("stream", config.stream.as_ref().map(stream));
    let rounds = config.rounds.unwrap_or(0);
    let left_out = config.rounds_left_out.unwrap_or(0);
    let [why, how] = match whole.quoted {
        QuotedStatistic::GeometricMean => ["of interference", "factors are geometric means"],
        _ => {
            ["of another regime", "rates are the best of all rounds, and factors are their ratios"]
        }
    };
    let text = format!(
        "{rounds} count, {left_out} left out because {why}; all steps interleaved in random order; 3 \
         arrays of {}{} per step; {how}",
        Bytes(config.array_bytes.unwrap_or(0)),
        words::times_caches(
            config.array_times_llc,
            config.measured_cache_bytes,
            config.reported_cache_bytes,
            ""
        )
    );
    section.note("rounds", text).push_doubts(&all).push(words::variant_note());
    Some(section)
}

/// Returns the sentence on the effect of all choices together and on the choice with the largest effect; `None` if the
/// record has no such figures.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TEST);
    let figures: Vec<(&Measurement, ExplainConfig)> = own.map(|m| (m, m.read_config())).collect();
    let (whole, config) = figures.iter().find(|(m, _)| m.name == TOTAL_FACTOR)?;
    value_in_words(whole)?;
    let kernel = capitalise(config.kernel.as_deref().unwrap_or("triad"));
    let from = config.from?;
    let to = config.to?;
    if let Some(obstacle) = obstacle(whole, config) {
        let worth = format!("the effect of the choices on {kernel}");
        return Some(capitalise(&obstacle.cannot_tell(&worth)));
    }
    if ends(config).is_some() && !is_significant(config) {
        let obstacle = Obstacle::new(format!("{to} with all of them, {from} without"))
            .with_remedy(remedy(config.enough_budget_s));
        let question = format!("whether the choices affect {kernel}");
        return Some(capitalise(&obstacle.cannot_tell(&question)));
    }
    let times = factor(whole, config).text;
    let faster = format!("{} times as fast", times.trim_start_matches("x "));
    // Records of old versions contain no confidence intervals.
    let has_intervals = whole.quoted != QuotedStatistic::GeometricMean;
    let steps = figures.iter().filter(|(m, _)| m.name != TOTAL_FACTOR && m.name != MEMCPY);
    let largest = steps.max_by(|(a, _), (b, _)| a.cmp_value(b));
    let largest = largest.filter(|(m, step)| {
        m.value.is_some_and(|value| value > 1.0) && (!has_intervals || is_significant(step))
    });
    let most = largest.map(|(m, step)| {
        let gain = factor(m, step).text;
        format!("; the largest factor is {} ({})", gain.trim_start_matches("x "), m.name)
    });
    let is_unsure = has_intervals && ends(config).is_none();
    let unsure = if is_unsure { "; too few rounds for an interval of the factors" } else { "" };
    Some(format!(
        "All choices together make {kernel} {faster}, {to} instead of {from}{unsure}{}",
        most.unwrap_or_default()
    ))
}

/// Returns the reason why no conclusion is drawn: too few rounds count, or the figure is suspect for a cause that a
/// larger budget does not remove; `None` if the conclusion can be drawn.
fn obstacle(whole: &Measurement, config: &ExplainConfig) -> Option<Obstacle> {
    let few = too_few(config);
    let few = few.map(|few| Obstacle::new(few).with_remedy(remedy(config.enough_budget_s)));
    few.or_else(|| Obstacle::from_figures([whole]))
}

/// Returns the reason if too few rounds count for a conclusion; `None` if the rounds that count suffice.
fn too_few(config: &ExplainConfig) -> Option<String> {
    let rounds = config.rounds.filter(|rounds| *rounds < MIN_ROUNDS as u64)?;
    let count = number_form(rounds as usize, "counts", "count");
    let rounds = count_in_words(rounds as usize, "round");
    Some(format!("{rounds} {count}, at least {MIN_ROUNDS} are needed"))
}

/// Returns the name of a step with its options: `pages: 4k \u{2192} thp`.
fn named(m: &Measurement, step: &ExplainConfig) -> String {
    let name = m.name.replace('_', " ");
    match step.step_options.as_deref() {
        Some([before, after]) => format!("{name}: {before} \u{2192} {after}"),
        // Records of old versions contain no options.
        _ => name,
    }
}

/// Returns the ends of the confidence interval of a factor.
fn ends(config: &ExplainConfig) -> Option<[f64; 2]> {
    config.interval.as_deref()?.try_into().ok()
}

/// True if a factor differs significantly from 1.
fn is_significant(config: &ExplainConfig) -> bool {
    ends(config).is_some_and(is_different)
}

/// Formats a factor with the digits that are significant according to its confidence interval.
fn factor(m: &Measurement, config: &ExplainConfig) -> TableCell {
    let significant_decimals = ends(config).map_or(3, bests::significant_decimals);
    let Some(value) = m.value else { return "-".into() };
    TableCell::figure(value, Unit::Factor, format!("x {value:.significant_decimals$}"))
}

fn interval(config: &ExplainConfig) -> TableCell {
    let Some([low, high]) = ends(config) else { return "-".into() };
    let significant_decimals = bests::significant_decimals([low, high]);
    format!("{low:.significant_decimals$}..{high:.significant_decimals$}").into()
}

/// Returns a note that compares `memcpy` with Copy.
fn memcpy(m: &Measurement, config: &ExplainConfig) -> Option<String> {
    let value = m.value?;
    let rate = config.to?;
    let Some([low, high]) = ends(config) else {
        return Some(format!(
            "function of the C library, interleaved with the steps: {rate}, x {value:.1}"
        ));
    };
    let significant_decimals = bests::significant_decimals([low, high]);
    let stands = match SpeedVerdict::from_interval(Some([low, high]), 0.0) {
        SpeedVerdict::Faster => "faster than the best loop for copy",
        SpeedVerdict::Slower => "slower than the best loop for copy",
        _ => "not distinguishable from the best loop for copy",
    };
    Some(format!(
        "function of the C library, interleaved with the steps, {stands}: {rate}, x {value:.significant_decimals$} \
         ({low:.significant_decimals$} to {high:.significant_decimals$})"
    ))
}

/// Returns a note that compares consecutive passes, as `stream` makes them, with the last step.
fn stream(seen: &StreamAgreement) -> String {
    let change = change_in_words(seen.ratio);
    let agree = match seen.interval {
        Some(interval) if is_different(interval) => format!(
            "{change}, significant: the other steps leave different lines in the caches, or \
             the machine has changed"
        ),
        Some([low, high]) => format!(
            "{change} ({}), not significant: {}",
            changes_in_words([low, high]),
            if high / low < MAX_INTERVAL_RATIO {
                "the rates agree"
            } else {
                "the interval is too wide to confirm agreement"
            }
        ),
        None => format!("{change}, too few passes for an interval"),
    };
    format!(
        "the last step, measured alone as by stream, best of {} passes: {}; {agree}",
        seen.passes,
        BytesPerSec(seen.rate)
    )
}

/// Formats the factors of a step for the kernels other than the explained kernel.
fn other_factors(config: &ExplainConfig, explained: &str) -> String {
    let others = config.factors.iter().flatten().filter(|(name, _)| *name != explained);
    let words: Vec<String> =
        others.filter_map(|(name, x)| Some(format!("{name} x {:.2}", x.as_f64()?))).collect();
    if words.is_empty() { String::new() } else { format!(" [{}]", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Validity;

    #[test]
    fn bars_of_suspect_figures_are_marked() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/golden/explain/record.json"
        ))
        .unwrap();
        let record: Record = serde_json::from_str(&text).unwrap();
        let blocks = section(&record).unwrap().blocks;
        let mut waterfalls = blocks.iter().filter_map(|block| match block {
            Block::Picture(Picture { drawing: Drawing::Steps(of), .. }) => Some(&of.steps),
            _ => None,
        });
        let steps = waterfalls.next().unwrap();
        assert_eq!(steps[0].name, "baseline");
        assert!(steps.iter().all(|step| step.doubt.is_some()), "{steps:?}");
    }

    /// Returns the golden record with this number of rounds, and a budget for ten.
    fn record_with_rounds(rounds: u64) -> Record {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/golden/explain/record.json"
        ))
        .unwrap();
        let mut record: Record = serde_json::from_str(&text).unwrap();
        for m in &mut record.measurements {
            let mut config: ExplainConfig = m.read_config();
            config.interval = Some(vec![1.5, 9.0]);
            config.rounds = config.rounds.and(Some(rounds));
            config.enough_budget_s = Some(nodegauge_measure::Seconds(87.0));
            m.quoted = QuotedStatistic::Single;
            m.config = nodegauge_measure::keys::Config::to_map(&config);
        }
        record
    }

    fn title(record: &Record) -> String {
        let blocks = section(record).unwrap().blocks;
        let mut titles = blocks.into_iter().filter_map(|block| match block {
            Block::Picture(Picture { title, .. }) => Some(title),
            _ => None,
        });
        titles.next_back().unwrap()
    }

    #[test]
    fn few_rounds_give_no_conclusion() {
        for (rounds, few) in [(1, "1 round counts"), (9, "9 rounds count")] {
            let record = record_with_rounds(rounds);
            let expected = format!(
                "Cannot tell the effect of the choices on Triad: {few}, at least 10 are needed; use --budget 87"
            );
            assert_eq!(conclusion(&record).unwrap(), expected);
            let expected_title = format!(
                "cannot tell the effect of each choice on triad: {few}, at least 10 are needed; use --budget 87"
            );
            assert_eq!(title(&record), expected_title);
            let text = serde_json::to_string(&section(&record).unwrap()).unwrap();
            assert!(!text.contains("\"label\":\"x "), "{text}");
        }
        let mut record = record_with_rounds(10);
        let of_suspect = conclusion(&record).unwrap();
        assert!(of_suspect.starts_with("Cannot tell the effect of the choices"), "{of_suspect}");
        record.measurements.iter_mut().for_each(|m| m.validity = Validity::valid());
        assert!(conclusion(&record).unwrap().starts_with("All choices together make Triad"));
        assert_eq!(title(&record), "effect of each choice: triad");
    }

    #[test]
    fn bars_are_labelled_with_the_chosen_option() {
        let m = Measurement::new(GAUGE, TEST, "side_by_side", Unit::Factor);
        let step_options = Some(["one page", "several"].map(str::to_owned).into());
        let step = ExplainConfig { step_options, ..ExplainConfig::default() };
        assert_eq!(named(&m, &step), "side by side: one page \u{2192} several");
        assert_eq!(named(&m, &ExplainConfig::default()), "side by side");
    }
}
