//! Page of several runs side by side: the differences between the runs, a table that marks the best and the worst run
//! of each figure, and pictures of the figures that all runs have.

use crate::compare::{detectable_change, differences, limited_list, pair_obstacle, relative_speed};
use crate::conclusion::to_sentence;
use crate::head::{self, HostAndProcessor};
use crate::{run, terms};
use nodegauge_analysis::compare::{
    ComparisonDesign, Pair, PairReason, SharedFigure, Side, Verdict, compare, compare_runs,
};
use nodegauge_analysis::conclusion::{CANNOT_TELL, Obstacle};
use nodegauge_analysis::ratio::closing::{interval_in_words, times_as_fast};
use nodegauge_gauge::Gauge;
use nodegauge_gauge::view::{
    self, AxisQuantity, BarChart, BarSeries, Chart, ChartSeries, ColumnList, Drawing, ForestPlot,
    ForestRow, Note, Page, PageHead, Picture, Section, TableCell, Tone, distinct, group_by_key,
    sentence,
};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::stats::BetterDirection;

/// Maximum number of groups of bars in a picture. The tables contain all figures.
const GROUPS: usize = 12;
/// Maximum number of ratios in the first picture.
const RATIOS: usize = 12;
/// Maximum number of pictures per test.
const PICTURES: usize = 12;

/// Returns the page of two or more runs. `others` returns saved runs of the node of a run, from which the run-to-run
/// variation is estimated.
pub fn page(
    runs: &[Record],
    gauges: &[&dyn Gauge],
    registry: &Registry,
    others: &dyn Fn(&Record) -> Vec<Record>,
) -> Page {
    let run_names = run::run_names(runs);
    let known = compare_runs(runs, registry);
    let name_texts: Vec<&str> = run_names.iter().map(String::as_str).collect();
    let mut sections = vec![legend(runs, &run_names), differences(&known.differences, &name_texts)];
    for (test, figures) in group_by_key(&known.figures, |shared| shared.first().test.as_str()) {
        // A record of a later version may contain tests that are missing in the registry.
        let mut tests = registry.kinds().iter().flat_map(|kind| kind.tests.iter());
        let id = tests.find(|known_test| **known_test == test).copied().unwrap_or("figures");
        sections.push(section(id, test, &figures, &run_names));
    }
    let headlines =
        gauges.iter().flat_map(|gauge| runs.iter().map(move |run| gauge.headlines(run)));
    let heads: Vec<&Measurement> = headlines.flatten().filter_map(|head| head.figure).collect();
    let side = |run: usize| Side {
        asked: run_names[run].clone(),
        runs: vec![runs[run].clone()],
        others: others(&runs[run]),
    };
    let of_all = known.figures.iter().filter(|shared| shared.is_in_all_runs());
    let mut compared: Vec<&SharedFigure<'_>> =
        of_all.filter(|shared| is_headline(shared, &heads)).collect();
    if compared.is_empty() {
        compared.extend(known.figures.iter().find(|shared| shared.is_in_all_runs()));
    }
    let decided = compared.iter().filter_map(|shared| verdict(shared, &side, registry));
    let mut verdicts: Vec<String> = decided.collect();
    if verdicts.is_empty() {
        verdicts.extend(compared.first().map(|shared| undecided_reason(shared, &run_names)));
    }
    if verdicts.is_empty() {
        verdicts.push("no figure is in all runs".to_owned());
    }
    let conclusion = Some(to_sentence(&verdicts.join("; ")));
    let ratios = ratios(&run_names, &known.figures, &heads, &side, registry);
    let head = Some(head(runs, &known.figures, &ratios));
    if let Some(reason) = &ratios.without_interval {
        sections[0].push(view::Block::Text(format!("no interval: {reason}")));
    }
    sections[0].blocks.extend(ratios.picture().map(view::Block::Picture));
    let heading = format!("nodegauge: {} runs side by side", runs.len());
    let mut page = Page { heading, conclusion, head, sections };
    terms::explain(&mut page);
    page
}

/// True if the figure is the headline figure of any run.
fn is_headline(shared: &SharedFigure<'_>, heads: &[&Measurement]) -> bool {
    let mut of_runs = shared.runs.iter().flatten();
    of_runs.any(|m| heads.iter().any(|head| std::ptr::eq(*head, *m)))
}

/// Returns the header of the page: the machines of the runs, the number of figures that can be compared, and whether
/// their ratios have intervals.
fn head(runs: &[Record], figures: &[SharedFigure<'_>], ratios: &Ratios) -> PageHead {
    let all: Vec<&SharedFigure<'_>> =
        figures.iter().filter(|shared| shared.is_in_all_runs()).collect();
    let count = all.len();
    let valid = all.into_iter().filter(|shared| {
        shared.obstacles.is_empty()
            && shared.runs.iter().flatten().all(|m| m.validity.status == Status::Valid)
    });
    let usable = valid.count();
    let unsure = ratios.without_interval_in_words();
    let is_sure = usable == count && unsure.is_none();
    let tone = if is_sure { Tone::Plain } else { Tone::Warning };
    let counted_figures = count_in_words(count, "figure");
    let trust = match count {
        0 => "The runs have no figure in common, so nothing can be compared. The tables have the figures \
              of each run."
            .to_owned(),
        _ => {
            let are = number_form(usable, "is", "are");
            let usable = match (usable, count) {
                (1, 1) => "The figure that all runs have".to_owned(),
                (2, 2) => "Both figures that all runs have".to_owned(),
                (n, of) if n == of => format!("All {n} figures that all runs have"),
                (n, _) => format!("{n} of {counted_figures} that all runs have"),
            };
            let unsure = unsure.map(|text| format!("; {text}")).unwrap_or_default();
            format!("{usable} {are} valid and comparable{unsure}.")
        }
    };
    let nodes = runs
        .iter()
        .map(|run| HostAndProcessor::new(run.machine.host.as_deref(), &run.machine.processor));
    let title = head::node_names(nodes);
    PageHead { title, facts: facts(runs), trust, tone, findings: Vec::new() }
}

/// Describes the runs: their number, their command or the number of different commands, and their dates.
fn facts(runs: &[Record]) -> String {
    let command = head::command_names(&distinct(runs.iter().map(head::repeat_command)));
    let started = runs.iter().map(|run| run.started.as_str());
    let [first, last] = [started.clone().min(), started.max()].map(Option::unwrap_or_default);
    let dates = sentence::format_period(first, last);
    format!("{} runs side by side \u{b7} {command} \u{b7} {dates}", runs.len())
}

/// Ratios of the other runs to the first one.
struct Ratios {
    /// Name of the first run.
    reference: String,
    rows: Vec<ForestRow>,
    /// Reason why ratios have no interval; `None` if there is no remedy.
    without_interval: Option<PairReason>,
}

impl Ratios {
    /// Describes, for the header, how many ratios have no interval; `None` if every ratio has one.
    fn without_interval_in_words(&self) -> Option<String> {
        let all = self.rows.len();
        match self.rows.iter().filter(|row| row.interval.is_none()).count() {
            0 => None,
            n if n == all => {
                Some("their ratios have no interval: a difference may be chance".into())
            }
            1 => Some(format!("1 of {all} ratios has no interval: a difference may be chance")),
            n => Some(format!("{n} of {all} ratios have no interval: a difference may be chance")),
        }
    }

    /// Returns the picture of the ratios; `None` if there are none.
    fn picture(self) -> Option<Picture> {
        let Self { reference, rows, .. } = self;
        let title = format!("speed relative to {reference}");
        let is_empty = rows.is_empty();
        let drawing = Drawing::Forest(ForestPlot { reference, interval: "95 % interval", rows });
        (!is_empty).then_some(Picture { title, drawing })
    }
}

/// Computes the ratios of the other runs to the first run for a limited number of figures, headline figures first.
fn ratios(
    names: &[String],
    figures: &[SharedFigure<'_>],
    heads: &[&Measurement],
    side: &dyn Fn(usize) -> Side,
    registry: &Registry,
) -> Ratios {
    let runs = names.len();
    let mut shown: Vec<&SharedFigure<'_>> =
        figures.iter().filter(|shared| shared.is_in_all_runs()).collect();
    shown.sort_by_key(|shared| !is_headline(shared, heads));
    shown.truncate((RATIOS / (runs - 1)).max(1));
    let mut rows = Vec::new();
    let mut without_interval = None;
    for run in 1..runs {
        let comparison = compare(&side(0), &side(run), ComparisonDesign::default(), registry);
        let other = &comparison.b.asked;
        for shared in &shown {
            let of = shared.first();
            let Some(pair) = comparison.pairs.iter().find(|pair| is_pair_for(pair, shared)) else {
                continue;
            };
            let is_time = of.unit.direction() == Some(BetterDirection::Lower);
            let interval = pair.ci95.map(|ends| ends.map(|ratio| speed_ratio(ratio, is_time)));
            let interval = interval.map(|[a, b]| [a.min(b), a.max(b)]);
            let name =
                if runs > 2 { format!("{}, {other}", shared.title) } else { shared.title.clone() };
            let why = pair.reasons.first();
            let why = why.map(|why| format!(": {}", why.text)).unwrap_or_default();
            let Some(ratio) = pair.ratio.map(|ratio| speed_ratio(ratio, is_time)) else { continue };
            if interval.is_none() {
                let mut remediable = pair.reasons.iter().filter(|one| one.remedy.is_some());
                without_interval = without_interval.or_else(|| remediable.next().cloned());
            }
            rows.push(ForestRow {
                name,
                ratio: Some(ratio),
                interval,
                words: format!("{}{why}", pair.verdict.name()),
                is_clear: matches!(pair.verdict, Verdict::Faster | Verdict::Slower),
                doubt: [0, run]
                    .into_iter()
                    .find_map(|finish_run| run_doubt(shared, finish_run, names)),
            });
        }
    }
    Ratios { reference: side(0).asked, rows, without_interval }
}

/// Converts a ratio of figures to a ratio of speeds: ratios of times are inverted.
fn speed_ratio(ratio: f64, is_time: bool) -> f64 {
    if is_time { ratio.recip() } else { ratio }
}

/// Returns the table of the runs and their names.
fn legend(runs: &[Record], names: &[String]) -> Section {
    let mut section = Section::new("runs");
    let columns = ColumnList::<(&Record, &String)>::new()
        .left("run", |(_, name)| TableCell::text(*name).tone(Tone::Strong))
        .left("started", |(run, _)| sentence::start_minute(&run.started))
        .left("host", |(run, _)| run.machine.host.clone().unwrap_or_else(|| "-".to_owned()))
        .left("id", |(run, _)| run.id.clone())
        .left("command", |(run, _)| {
            let ended = if run.complete { "" } else { "(incomplete) " };
            format!("{ended}{}", run.command.join(" "))
        });
    section.push(columns.table(runs.iter().zip(names)));
    section
}

/// Returns the section of a test: a table of all figures, the reasons why figures cannot be compared or are in doubt,
/// and pictures.
fn section(
    id: &'static str,
    test: &str,
    figures: &[&SharedFigure<'_>],
    names: &[String],
) -> Section {
    let mut section = Section::new(id);
    let columns = ColumnList::<&SharedFigure<'_>>::new()
        .left(test, |shared| shared.title.clone())
        .columns_for_each(
            names.iter().enumerate(),
            |(_, name)| (*name).clone(),
            |shared, (run, _)| cell(shared.runs[*run], *run, shared.best_and_worst()),
        );
    let (all, some): (Vec<&SharedFigure<'_>>, Vec<&SharedFigure<'_>>) =
        figures.iter().copied().partition(|shared| shared.is_in_all_runs());
    let groups = [("", &all), ("only in some of the runs", &some)].into_iter();
    section.push(columns.grouped_table(groups.filter(|(_, part)| !part.is_empty())));
    let obstacles = figures.iter().flat_map(|of| of.obstacles.iter().map(move |why| (why, of)));
    for (why, of) in group_by_key(obstacles, |(why, _)| *why) {
        let affected: Vec<String> = of.iter().map(|(_, shared)| shared.title.clone()).collect();
        let text = format!("{}: not comparable: {why}", limited_list(&affected));
        section.push(Note::new("why", text).tone(Tone::Warning));
    }
    section.blocks.extend(doubts(figures, names).into_iter().map(Into::into));
    let mut pictures = curves(figures, names);
    pictures.extend(bars(test, &all, names));
    pictures.truncate(PICTURES);
    section.blocks.extend(pictures.into_iter().map(view::Block::Picture));
    section
}

/// Returns the reasons why figures are suspect or invalid, one note per reason, with the runs and figures concerned.
fn doubts(figures: &[&SharedFigure<'_>], names: &[String]) -> Vec<Note> {
    type Doubt<'a> = ((Status, String), &'a String);
    let mut found: Vec<Doubt<'_>> = Vec::new();
    for (run, name) in names.iter().enumerate() {
        let finish_run = figures.iter().filter_map(|shared| Some((shared.runs[run]?, shared)));
        let doubted = finish_run.filter_map(|(m, of)| Some((m.validity.reasons.first()?, m, of)));
        for (why, of) in group_by_key(doubted, |(why, ..)| *why) {
            let titles: Vec<String> = of.iter().map(|(.., shared)| shared.title.clone()).collect();
            let text = format!("{}: {why}", limited_list(&titles));
            found.push(((of[0].1.validity.status, text), name));
        }
    }
    let mut notes = Vec::new();
    for ((status, text), of) in group_by_key(found, |(doubt, _)| doubt.clone()) {
        let runs: Vec<String> = of.into_iter().map(|(_, name)| name.clone()).collect();
        let runs = if runs.len() == names.len() { "all".to_owned() } else { limited_list(&runs) };
        notes.push(Note::doubt(status, format!("{runs}: {text}")));
    }
    notes
}

/// Returns the cell of a figure. Its text repeats the meaning of its colour.
fn cell(m: Option<&Measurement>, run: usize, marked: Option<[usize; 2]>) -> TableCell {
    let Some(m) = m else { return "-".into() };
    let (words, tone) = match (m.validity.status, marked) {
        (Status::Invalid, _) => return TableCell::text("invalid").tone(Tone::Bad),
        (Status::Suspect, _) => (", suspect", Tone::Warning),
        (_, Some([best, _])) if best == run => (", best", Tone::Better),
        (_, Some([_, worst])) if worst == run => (", worst", Tone::Worse),
        _ => ("", Tone::Plain),
    };
    let text = format!("{}{words}", m.in_words());
    TableCell { figure: m.value.map(|value| (value, m.unit)), ..TableCell::text(text).tone(tone) }
}

/// Returns the value of a measurement; `None` if it is invalid.
fn result(m: Option<&Measurement>) -> Option<f64> {
    m.filter(|m| m.validity.status != Status::Invalid)?.value
}

/// Returns pictures of curves over size, with one curve per run.
fn curves(figures: &[&SharedFigure<'_>], names: &[String]) -> Vec<Picture> {
    let sized = figures.iter().filter(|shared| shared.size.is_some());
    let same = group_by_key(sized, |shared| (shared.curve.as_str(), shared.first().unit));
    let pictures = same.into_iter().filter_map(|((title, unit), of)| {
        let series = names.iter().enumerate().map(|(run, name)| curve(run, name, &of));
        let series: Vec<ChartSeries> = series.filter(|one| !one.dots.is_empty()).collect();
        let y = AxisQuantity::Rate(unit);
        let chart = Chart { x: AxisQuantity::Bytes, y, series, ..Chart::default() };
        (of.len() > 1 && chart.series.len() > 1).then(|| Picture {
            title: format!("{title} over size"),
            drawing: Drawing::Chart(chart),
        })
    });
    pictures.collect()
}

/// Returns the curve of a run over the sizes.
fn curve(run: usize, name: &str, of: &[&&SharedFigure<'_>]) -> ChartSeries {
    let mut series = ChartSeries {
        mark: '*',
        name: name.to_owned(),
        colour: Some(run),
        ..ChartSeries::default()
    };
    for shared in of {
        let m = shared.runs[run];
        if let (Some(size), Some(m), Some(value)) = (shared.size, m, result(m)) {
            series.push((size.0 as f64, value), m);
        }
    }
    series.dots.sort_by(|x, y| x.0.total_cmp(&y.0));
    series
}

/// Returns bars for the figures that all runs have and that are not on a curve, one picture per unit.
fn bars(test: &str, figures: &[&SharedFigure<'_>], names: &[String]) -> Vec<Picture> {
    let alone = figures.iter().filter(|shared| {
        let curve = figures.iter().filter(|other| {
            other.curve == shared.curve && other.first().unit == shared.first().unit
        });
        shared.size.is_none() || curve.count() == 1
    });
    let pictures =
        group_by_key(alone, |shared| shared.first().unit).into_iter().map(|(unit, of)| {
            let shown = &of[..of.len().min(GROUPS)];
            let series = names.iter().enumerate().map(|(run, name)| BarSeries {
                name: name.clone(),
                values: shown.iter().map(|shared| bar_value(shared.runs[run])).collect(),
            });
            let groups = shown.iter().map(|shared| shared.title.clone()).collect();
            let more = of.len() - shown.len();
            let title = match more {
                0 => format!("{test}, {}", unit.symbol()),
                n => format!("{test}, {}: {n} more in the table", unit.symbol()),
            };
            let drawing = Drawing::Bars(BarChart { unit, groups, series: series.collect() });
            Picture { title, drawing }
        });
    pictures.collect()
}

/// Returns the value of a bar, with the reason if it is suspect.
fn bar_value(m: Option<&Measurement>) -> Option<(f64, Option<String>)> {
    Some((result(m)?, m?.validity.reasons.first().cloned()))
}

/// Describes why the figure of a run is suspect or invalid: `n02 is suspect: 5 of 9 passes were disturbed`.
fn run_doubt(shared: &SharedFigure<'_>, run: usize, names: &[String]) -> Option<String> {
    let validity = &shared.runs[run]?.validity;
    let why = validity.reasons.first()?;
    Some(format!("{} is {}: {why}", names[run], validity.status.name()))
}

/// True if a pair belongs to a figure.
fn is_pair_for(pair: &Pair, shared: &SharedFigure<'_>) -> bool {
    pair.title() == shared.title && pair.test == shared.first().test
}

/// Returns a sentence about a figure without a best run: the runs are not comparable, only one run or none has a valid
/// figure, or all figures are equal.
fn undecided_reason(shared: &SharedFigure<'_>, names: &[String]) -> String {
    let title = &shared.title;
    let mut doubts = (0..names.len()).filter_map(|run| run_doubt(shared, run, names));
    if let Some(why) = shared.obstacles.first() {
        format!("the runs cannot be compared in {title}: {why}")
    } else if let Some(why) = doubts.next() {
        Obstacle::new(why).cannot_tell(&format!("which run is faster in {title}"))
    } else {
        format!("all runs have the same {title}")
    }
}

/// Returns a sentence that compares the best and the worst run of a figure; `None` if there is no best run.
fn verdict(
    shared: &SharedFigure<'_>,
    side: &dyn Fn(usize) -> Side,
    registry: &Registry,
) -> Option<String> {
    let [best_run, worst_run] = shared.best_and_worst()?;
    let best_side = side(best_run);
    let worst_side = side(worst_run);
    let mut comparison = compare(&worst_side, &best_side, ComparisonDesign::default(), registry);
    let at = comparison.pairs.iter().position(|pair| is_pair_for(pair, shared))?;
    let pair = comparison.pairs.swap_remove(at);
    let best = &best_side.asked;
    let worst = &worst_side.asked;
    let title = &shared.title;
    Some(match (pair.verdict, relative_speed(&pair, Verdict::Faster)) {
        (Verdict::Faster, Some((ratio, ci95))) => {
            let times = times_as_fast(ratio, Some(ci95), worst);
            format!("{best} is {times} in {title} ({})", interval_in_words(ci95))
        }
        (Verdict::WithinNoise, _) => {
            let found = detectable_change(std::slice::from_ref(&pair));
            let found = found.map(|found| format!("; {found}")).unwrap_or_default();
            format!("no difference between {best} and {worst} in {title} is beyond noise{found}")
        }
        _ => {
            let question = format!("which of {best} and {worst} is faster in {title}");
            match pair_obstacle(&pair) {
                Some(obstacle) => obstacle.cannot_tell(&question),
                None => format!("{CANNOT_TELL} {question}"),
            }
        }
    })
}
