//! Page of many runs over time. Every headline figure is plotted over the start times of the runs. Bands show regimes
//! (sequences of runs with similar core-to-core round trips); gaps show periods without runs.

use crate::conclusion::to_sentence;
use crate::{head, terms};
use nodegauge_analysis::compare::{RegimeFigures, split_by_regime};
use nodegauge_analysis::facts::machine_changes;
use nodegauge_analysis::series::{self, SeriesConfig};
use nodegauge_gauge::Gauge;
use nodegauge_gauge::view::sentence::mark_doubted;
use nodegauge_gauge::view::{
    self, ColumnList, Drawing, Note, Page, PageHead, Picture, Section, Table, TableCell, Tone,
    TrendBand, TrendDot, TrendPlot, TrendSeries, group_by_key, sentence,
};
use nodegauge_measure::Unit;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{self, Machine, Measurement, Record, Status};
use nodegauge_measure::regime::{self, Regime};
use nodegauge_measure::stats::{self, BetterDirection};
use std::time::{Duration, UNIX_EPOCH};

/// Minimum length of a gap, as a multiple of the median interval between runs. A single missing run doubles the
/// interval.
const GAP: f64 = 1.5;
/// Maximum number of listed machine changes, and of reasons for doubt.
const LISTED: usize = 12;
/// Maximum number of configurations in one picture; more curves would hide each other.
const SERIES: usize = 4;
/// Maximum number of configurations and hosts in the conclusion.
const IN_CONCLUSION: usize = 3;

/// Values of many runs. Runs are added one by one, oldest first, and only values that the page shows are kept.
#[derive(Debug, Default)]
pub struct TrendRuns {
    count: usize,
    /// Number of runs without a start time.
    without_start: usize,
    /// Number of runs with a suspect or invalid headline figure.
    doubted: usize,
    /// Different commands of the runs.
    commands: Vec<String>,
    figures: Vec<TrendFigure>,
    /// Machine of each host, according to its latest run.
    machines: Vec<Machine>,
    /// Changes of the machines between runs.
    changes: Vec<MachineChange>,
    span: Option<(String, String)>,
}

/// Change of a machine between two runs.
#[derive(Debug)]
struct MachineChange {
    host: Option<String>,
    /// Start of the first run after the change, in seconds since 1970.
    at: f64,
    change: String,
    /// Description of the change, with time and host.
    text: String,
}

/// Figure of a host over time, for runs with one configuration.
#[derive(Debug)]
struct TrendFigure {
    title: &'static str,
    what: &'static str,
    host: Option<String>,
    unit: Unit,
    /// One configuration for each different command of the runs.
    configs: Vec<SeriesConfig>,
    runs: Vec<TrendRun>,
}

/// Values of a figure in one run.
#[derive(Debug)]
struct TrendRun {
    /// Start time of the run, in seconds since 1970.
    at: f64,
    /// Samples by regime. The first entry is the regime of the quoted value.
    parts: Vec<RegimeFigures>,
    status: Status,
    doubt: Option<String>,
}

impl TrendRuns {
    /// Adds the headline figures of a run. Figures with different configurations are separate.
    pub fn add(&mut self, run: &Record, gauges: &[&dyn Gauge], registry: &Registry) {
        self.count += 1;
        let command = head::repeat_command(run);
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
        let time = record::parse_rfc3339(&run.started);
        let Some(at) = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) else {
            self.without_start += 1;
            return;
        };
        let started = sentence::start_minute(&run.started);
        let first = self.span.as_ref().map_or(&started, |(first, _)| first).clone();
        self.span = Some((first, started.clone()));
        let host = &run.machine.host;
        match self.machines.iter_mut().find(|known| known.host == *host) {
            Some(known) => {
                let on = host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
                let seconds = at.as_secs_f64();
                for change in machine_changes(known, &run.machine) {
                    let text = format!("{started}{on}: {change}");
                    let host = host.clone();
                    self.changes.push(MachineChange { host, at: seconds, change, text });
                }
                known.clone_from(&run.machine);
            }
            None => self.machines.push(run.machine.clone()),
        }
        let mut is_doubted = false;
        for headline in gauges.iter().flat_map(|gauge| gauge.headlines(run)) {
            let Some(m) = headline.figure else { continue };
            is_doubted |= m.validity.status != Status::Valid;
            let config = SeriesConfig::from_figure(run, m, registry);
            let new = TrendFigure {
                title: headline.title,
                what: headline.what,
                host: host.clone(),
                unit: m.unit,
                configs: Vec::new(),
                runs: Vec::new(),
            };
            let known = self.figures.iter().position(|known| {
                known.is_same_kind(&new) && known.configs.iter().any(|of| of.is_same(&config))
            });
            let index = known.unwrap_or(self.figures.len());
            if index == self.figures.len() {
                self.figures.push(new);
            }
            let figure = &mut self.figures[index];
            if figure.configs.iter().all(|of| !of.is_same_command(&config)) {
                figure.configs.push(config);
            }
            figure.runs.push(TrendRun::from_figure(m, at.as_secs_f64()));
        }
        self.doubted += usize::from(is_doubted);
    }

    /// Returns the number of runs that were added.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the page. `label` is the label by which the runs were selected.
    pub fn page(&self, label: &str) -> Page {
        let hosts = self.machines.iter().map(|machine| machine.host.as_deref());
        let hosts: Vec<&str> = hosts.map(|host| host.unwrap_or("unknown host")).collect();
        let on = match hosts.as_slice() {
            [] => String::new(),
            [one] => format!(" on {one}"),
            several => format!(" on {} hosts", several.len()),
        };
        let (from, to) = self.span.clone().unwrap_or_default();
        let runs = count_in_words(self.count, "run");
        let heading =
            format!("nodegauge: trend of {runs} with label {label}{on}, {from} to {to} UTC");
        let mut about = Section::new("runs");
        about.note("runs", format!("{runs} with label {label}{on}, from {from} to {to} UTC"));
        if self.without_start > 0 {
            about.note(
                "left out",
                format!("{} without a start time", count_in_words(self.without_start, "run")),
            );
        }
        if self.figures.is_empty() {
            about.note("figures", "the runs have no headline figures");
        }
        let more = self.changes.len().saturating_sub(LISTED);
        for change in self.changes.iter().take(LISTED) {
            about.push(Note::new("changed", change.text.as_str()).tone(Tone::Warning));
        }
        about.note_if(
            "",
            (more > 0).then(|| count_in_words(more, "more change") + " of the machine"),
        );
        let mut sections: Vec<Section> = Vec::new();
        let mut sentences = Vec::new();
        let first = self.figures.first().map(|figure| figure.title);
        let mut of_first = Vec::new();
        let kinds = group_by_key(&self.figures, |figure| {
            (figure.title, figure.what, figure.unit, figure.host.as_deref())
        });
        for ((title, ..), figures) in kinds {
            let of_title = sections.iter().position(|section| section.id == title);
            let index = of_title.unwrap_or_else(|| {
                sections.push(Section::new(title));
                sections.len() - 1
            });
            let section = &mut sections[index];
            for figure in &figures {
                let name = self.name(figure);
                figure.show(section, &name);
                let text = figure.in_words(&name);
                of_first.extend(text.clone().filter(|_| Some(title) == first));
                sentences.extend(text);
            }
            let together = figures.chunks(if figures.len() > SERIES { 1 } else { SERIES });
            section.blocks.extend(together.map(|some| self.picture(some).into()));
        }
        sections.push(about);
        of_first.truncate(IN_CONCLUSION);
        let conclusion = (!of_first.is_empty()).then(|| to_sentence(&of_first.join("; ")));
        // A single sentence becomes the conclusion.
        sections.extend((sentences.len() > 1).then(|| view::summary_section(sentences)));
        let head = Some(self.head(label, &runs, [&from, &to]));
        let mut page = Page { heading, conclusion, head, sections };
        terms::explain(&mut page);
        page
    }
}

impl TrendRuns {
    /// Returns the name of a figure: `Triad, best, pages thp on n01`. The name contains the host if there are several
    /// hosts, and the settings in which the configurations of the figure differ.
    fn name(&self, figure: &TrendFigure) -> String {
        let settings = self.settings(figure);
        let comma = if settings.is_empty() { "" } else { ", " };
        format!("{}{comma}{settings}{}", figure.what, self.host_suffix(figure))
    }

    /// Returns the settings in which the configuration of a figure differs from its other configurations.
    fn settings(&self, figure: &TrendFigure) -> String {
        let all: Vec<&TrendFigure> =
            self.figures.iter().filter(|other| other.is_same_kind(figure)).collect();
        let configs: Vec<&SeriesConfig> = all.iter().map(|of| &of.configs[0]).collect();
        let at = all.iter().position(|other| std::ptr::eq(*other, figure)).unwrap_or(0);
        series::differences(&configs)[at].clone()
    }

    /// Returns ` on HOST` for the name of a figure if there are several hosts; otherwise an empty text.
    fn host_suffix(&self, figure: &TrendFigure) -> String {
        let host = figure.host.as_deref().filter(|_| self.machines.len() > 1);
        host.map(|host| format!(" on {host}")).unwrap_or_default()
    }

    /// Returns the picture of the configurations of a figure on one host. Regimes are a property of the host, so the
    /// runs of all configurations determine the bands.
    fn picture(&self, figures: &[&TrendFigure]) -> Picture {
        let is_alone = figures.len() == 1;
        let mut runs: Vec<&TrendRun> = figures.iter().flat_map(|figure| &figure.runs).collect();
        runs.sort_by(|a, b| a.at.total_cmp(&b.at));
        let regimes = run_regimes(runs.iter().copied());
        let quoted = |run: &&TrendRun| {
            (run.at, run.parts.first().and_then(|part| part_regime(part, &regimes)))
        };
        let quoted: Vec<(f64, Option<usize>)> = runs.iter().map(quoted).collect();
        let times: Vec<f64> = runs.iter().map(|run| run.at).collect();
        let series = figures.iter().enumerate().map(|(i, figure)| {
            let settings = self.settings(figure);
            let name = match settings.as_str() {
                _ if is_alone => String::new(),
                "" => format!("configuration {}", i + 1),
                _ => settings,
            };
            TrendSeries { name, dots: figure.dots(&regimes), gaps: figure.gaps() }
        });
        let first = figures[0];
        let own = self.changes.iter().filter(|change| change.host == first.host);
        let trend = TrendPlot {
            unit: first.unit,
            series: series.collect(),
            bands: bands(&quoted, &gaps(&times)),
            regimes: regimes.iter().map(named).collect(),
            changes: own.map(|change| (change.at, change.change.clone())).collect(),
        };
        let name = format!("{}{}", first.what, self.host_suffix(first));
        let title = if is_alone { self.name(first) } else { name };
        Picture { title, drawing: Drawing::Trend(trend) }
    }

    /// Returns the header of the page: the machines, the command, the period, and the number of runs in doubt.
    fn head(&self, of: &str, runs: &str, [from, to]: [&str; 2]) -> PageHead {
        let machines: Vec<String> = self.machines.iter().map(head::title).collect();
        let (tone, trust) = match self.doubted {
            0 => (Tone::Plain, "Every figure is valid.".to_owned()),
            n => {
                let has = number_form(n, "has", "have");
                let text =
                    format!("Use with care: {n} of {runs} {has} suspect or invalid figures.");
                (Tone::Warning, text)
            }
        };
        PageHead {
            title: machines.join("; "),
            facts: format!(
                "trend of {runs} with label {of} \u{b7} {} \u{b7} {from} to {to} UTC",
                head::command_names(&self.commands)
            ),
            trust,
            tone,
            findings: Vec::new(),
        }
    }
}

impl TrendRun {
    fn from_figure(m: &Measurement, at: f64) -> Self {
        let status = m.validity.status;
        let doubt = m.validity.reasons.first().cloned();
        let mut parts = split_by_regime(m);
        if status == Status::Invalid {
            parts.clear();
        }
        parts.retain(|part| part.value.is_finite());
        Self { at, parts, status, doubt }
    }

    /// Returns the quoted value of the run.
    fn value(&self) -> Option<TrendValue> {
        self.parts.first().map(|part| self.marked(part.value))
    }

    /// Converts a value of the run; it is suspect if the figure of the run is suspect.
    fn marked(&self, value: f64) -> TrendValue {
        TrendValue { value, is_suspect: self.status == Status::Suspect }
    }
}

/// Value of a figure in one run, or in one regime of the run.
#[derive(Debug, Clone, Copy)]
struct TrendValue {
    value: f64,
    is_suspect: bool,
}

/// Values of a figure in several runs, in ascending order.
struct TrendValues {
    unit: Unit,
    values: Vec<TrendValue>,
}

impl TrendValues {
    /// Creates a set of values, and sorts it.
    fn new(unit: Unit, mut values: Vec<TrendValue>) -> Self {
        values.sort_by(|a, b| a.value.total_cmp(&b.value));
        Self { unit, values }
    }

    /// Returns the number of suspect values.
    fn suspect(&self) -> usize {
        self.values.iter().filter(|one| one.is_suspect).count()
    }

    /// Returns the median. It is suspect if at least half of the values are suspect, because fewer suspect values
    /// cannot move it past the valid ones.
    fn median(&self) -> TrendValue {
        let values: Vec<f64> = self.values.iter().map(|one| one.value).collect();
        let is_suspect = 2 * self.suspect() >= values.len();
        TrendValue { value: stats::median(&values), is_suspect }
    }

    /// Returns the lowest value; `None` without values.
    fn min(&self) -> Option<TrendValue> {
        self.values.first().copied()
    }

    /// Returns the highest value; `None` without values.
    fn max(&self) -> Option<TrendValue> {
        self.values.last().copied()
    }

    /// Returns the best and the worst value; `None` without values.
    fn ends(&self) -> Option<[TrendValue; 2]> {
        let [min, max] = [self.min()?, self.max()?];
        Some(if self.unit.better() == BetterDirection::Higher { [max, min] } else { [min, max] })
    }

    /// Formats a value with its unit, and with a mark if it is suspect.
    fn in_words(&self, one: TrendValue) -> String {
        mark_doubted(&self.unit.in_words(one.value), one.is_suspect)
    }

    /// Returns the cell of a value, with a mark if it is suspect.
    fn cell(&self, one: TrendValue) -> TableCell {
        let cell = TableCell::in_words(one.value, self.unit);
        TableCell { text: mark_doubted(&cell.text, one.is_suspect), ..cell }
    }
}

/// Row in the table of a figure, with its values in several runs.
struct TrendRow {
    name: String,
    runs: usize,
    best: TrendValue,
    worst: TrendValue,
    values: TrendValues,
}

impl TrendRow {
    /// Formats the number of suspect values; empty if there are none.
    fn suspect(&self) -> String {
        match self.values.suspect() {
            0 => String::new(),
            n => n.to_string(),
        }
    }
}

impl TrendFigure {
    /// True if both are the same figure on the same host; their configurations may differ.
    fn is_same_kind(&self, other: &Self) -> bool {
        self.title == other.title && self.unit == other.unit && self.host == other.host
    }

    /// Returns the periods without runs.
    fn gaps(&self) -> Vec<(f64, f64)> {
        gaps(&self.runs.iter().map(|run| run.at).collect::<Vec<_>>())
    }

    /// Adds the table of values, the longest gap between runs, and the reasons for doubt.
    fn show(&self, section: &mut Section, name: &str) {
        section.push(self.table(name, &run_regimes(&self.runs)));
        let gaps = self.gaps();
        let longest = gaps.iter().copied().max_by(|x, y| (x.1 - x.0).total_cmp(&(y.1 - y.0)));
        section.note_if(
            "gaps",
            longest.map(|(from, to)| {
                let [first, last] = [from, to].map(time_in_words);
                format!(
                    "{} without runs, the longest from {first} to {last}",
                    count_in_words(gaps.len(), "gap")
                )
            }),
        );
        self.doubts(section);
    }

    /// Returns the table of values: one row for the values that the runs report, and one row per regime. The row of a
    /// regime also contains runs that have samples in the regime but report the value of another regime.
    fn table(&self, name: &str, regimes: &[Regime]) -> Table {
        let columns = ColumnList::<TrendRow>::new()
            .left(name, |row| row.name.clone())
            .right("runs", |row| row.runs.to_string())
            .right("suspect", TrendRow::suspect)
            .right("best", |row| row.values.cell(row.best))
            .right("median", |row| row.values.cell(row.values.median()))
            .right("worst", |row| row.values.cell(row.worst));
        let reported: Vec<TrendValue> = self.runs.iter().filter_map(TrendRun::value).collect();
        let count = reported.len();
        let mut table = columns.table(self.row("as reported".to_owned(), count, reported));
        if regimes.is_empty() {
            return table;
        }
        table.push_heading("by regime; a run counts in every regime in which it has samples");
        let kinds = regimes.iter().enumerate().map(|(i, regime)| (Some(i), named(regime)));
        for (kind, regime) in kinds.chain([(None, "unknown".to_owned())]) {
            let mut runs = 0;
            let mut values = Vec::new();
            for run in &self.runs {
                let parts = run.parts.iter().filter(|part| part_regime(part, regimes) == kind);
                let own: Vec<TrendValue> = parts.map(|part| run.marked(part.value)).collect();
                runs += usize::from(!own.is_empty());
                values.extend(own);
            }
            columns.add_rows(&mut table, self.row(regime, runs, values));
        }
        table
    }

    /// Returns a row with the values of `runs` runs; `None` without values.
    fn row(&self, name: String, runs: usize, values: Vec<TrendValue>) -> Option<TrendRow> {
        let values = TrendValues::new(self.unit, values);
        let [best, worst] = values.ends()?;
        Some(TrendRow { name, runs, best, worst, values })
    }

    /// Adds the reasons why runs are in doubt, with the number of runs per reason.
    fn doubts(&self, section: &mut Section) {
        let mut reasons: Vec<(Status, &String, usize)> = Vec::new();
        for run in &self.runs {
            let Some(why) = &run.doubt else { continue };
            match reasons.iter_mut().find(|(_, known, _)| *known == why) {
                Some((.., count)) => *count += 1,
                None => reasons.push((run.status, why, 1)),
            }
        }
        reasons.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
        for (status, why, count) in reasons.into_iter().take(LISTED) {
            section.push(Note::doubt(status, format!("{}: {why}", count_in_words(count, "run"))));
        }
    }

    /// Returns the dots of the runs, one per regime of a run.
    fn dots(&self, regimes: &[Regime]) -> Vec<TrendDot> {
        let mut dots = Vec::new();
        for run in &self.runs {
            let remark = run.doubt.clone().unwrap_or_default();
            if run.parts.is_empty() {
                dots.push(TrendDot {
                    at: run.at,
                    value: None,
                    regime: None,
                    is_other_regime: false,
                    remark,
                });
                continue;
            }
            dots.extend(run.parts.iter().enumerate().map(|(i, part)| TrendDot {
                at: run.at,
                value: Some(part.value),
                regime: part_regime(part, regimes),
                is_other_regime: i > 0,
                remark: remark.clone(),
            }));
        }
        dots
    }

    /// Returns a sentence that summarises the figure; `None` for fewer than two values.
    fn in_words(&self, name: &str) -> Option<String> {
        let reported: Vec<TrendValue> = self.runs.iter().filter_map(TrendRun::value).collect();
        if reported.len() < 2 {
            return None;
        }
        let values = TrendValues::new(self.unit, reported);
        let regimes = match run_regimes(&self.runs).len() {
            0 => String::new(),
            n => format!("; samples in {n} regimes"),
        };
        let suspect = values.suspect();
        let suspect = if suspect > 0 { format!(" ({suspect} suspect)") } else { String::new() };
        Some(format!(
            "{name}: {} to {}, median {}, in {}{suspect}{regimes}",
            values.in_words(values.min()?),
            values.in_words(values.max()?),
            values.in_words(values.median()),
            count_in_words(values.values.len(), "run"),
        ))
    }
}

/// Returns the regimes of runs, shortest round trip first; empty for a single regime.
fn run_regimes<'a>(runs: impl IntoIterator<Item = &'a TrendRun>) -> Vec<Regime> {
    let parts = runs.into_iter().flat_map(|run| &run.parts);
    let trips: Vec<f64> = parts.filter_map(|part| part.round_trip).collect();
    let regimes = regime::find_regimes(&trips);
    if regimes.len() > 1 { regimes } else { Vec::new() }
}

fn time_in_words(at: f64) -> String {
    let time = record::format_rfc3339(UNIX_EPOCH + Duration::from_secs_f64(at));
    time.map_or_else(|| "?".to_owned(), |text| sentence::start_minute(&text))
}

fn named(regime: &Regime) -> String {
    format!("round trip {}", regime.in_words())
}

/// Returns the index of the regime of a part of a run; `None` if the regime is unknown.
fn part_regime(part: &RegimeFigures, regimes: &[Regime]) -> Option<usize> {
    let trip = part.round_trip?;
    regimes.iter().position(|regime| regime.contains(trip))
}

/// Returns the periods between consecutive runs in which runs are missing.
fn gaps(times: &[f64]) -> Vec<(f64, f64)> {
    let apart: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual = if apart.len() < 2 { f64::INFINITY } else { stats::median(&apart) };
    let pairs = times.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(from, to)| to - from > GAP * usual).collect()
}

/// Returns one band per sequence of runs in one regime. A band begins halfway between its first run and the previous
/// run, and ends halfway between its last run and the next run. It does not extend into a gap.
fn bands(runs: &[(f64, Option<usize>)], gaps: &[(f64, f64)]) -> Vec<TrendBand> {
    let mut bands: Vec<TrendBand> = Vec::new();
    for (i, (at, regime)) in runs.iter().enumerate() {
        let Some(regime) = *regime else { continue };
        let before = i.checked_sub(1).map(|i| runs[i].0);
        let before = before.filter(|before| !gaps.contains(&(*before, *at)));
        let after = runs.get(i + 1).map(|run| run.0);
        let after = after.filter(|after| !gaps.contains(&(*at, *after)));
        let [from, to] = [before, after].map(|other| other.map_or(*at, |other| (at + other) / 2.0));
        match bands.last_mut().filter(|last| last.regime == regime && last.to == from) {
            Some(last) if before.is_some() => last.to = to,
            _ => bands.push(TrendBand { from, to, regime }),
        }
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: f64, value: f64, status: Status) -> TrendRun {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let mut m = m.with_value(record::QuotedStatistic::Best, value);
        m.validity.add(status, "busy");
        TrendRun::from_figure(&m, at)
    }

    fn figure(runs: Vec<TrendRun>) -> TrendFigure {
        TrendFigure {
            title: "Memory",
            what: "Triad, best",
            host: None,
            unit: Unit::BytesPerSecond,
            configs: Vec::new(),
            runs,
        }
    }

    /// Returns the texts of the first row of a figure's table.
    fn row(figure: &TrendFigure) -> Vec<String> {
        let table = figure.table("Triad, best", &[]);
        table.rows[0].iter().map(|cell| cell.text.clone()).collect()
    }

    #[test]
    fn each_value_of_a_suspect_run_is_marked() {
        let valid = |at: f64, value: f64| {
            let mut run = run(at, value, Status::Suspect);
            run.status = Status::Valid;
            run
        };
        let one = vec![valid(0.0, 40e9), valid(60.0, 41e9), run(120.0, 52e9, Status::Suspect)];
        let some = figure(one);
        assert_eq!(
            row(&some),
            ["as reported", "3", "1", "52.00 GB/s (suspect)", "41.00 GB/s", "40.00 GB/s"]
        );
        let text = some.in_words("Triad, best").unwrap();
        assert!(text.contains("40.00 GB/s to 52.00 GB/s (suspect), median 41.00 GB/s,"), "{text}");
        assert!(text.ends_with("in 3 runs (1 suspect)"), "{text}");
        let half = figure(vec![valid(0.0, 40e9), run(60.0, 41e9, Status::Suspect)]);
        assert!(half.in_words("x").unwrap().contains("median 40.50 GB/s (suspect)"));
        let all_valid = figure(vec![valid(0.0, 40e9), valid(60.0, 41e9)]);
        assert!(!all_valid.in_words("x").unwrap().contains("suspect"));
    }

    #[test]
    fn missing_run_gives_a_gap() {
        let times = [0.0, 600.0, 1205.0, 2400.0, 3010.0, 9000.0];
        assert_eq!(gaps(&times), [(1205.0, 2400.0), (3010.0, 9000.0)]);
        assert!(gaps(&[0.0, 600.0, 1300.0]).is_empty() && gaps(&[0.0, 9e9]).is_empty());
    }

    #[test]
    fn band_covers_runs_of_one_regime_and_ends_at_a_gap() {
        let runs =
            [(0.0, Some(0)), (10.0, Some(0)), (20.0, Some(1)), (30.0, None), (90.0, Some(1))];
        let band = |from, to, regime| TrendBand { from, to, regime };
        let expected = [band(0.0, 15.0, 0), band(15.0, 25.0, 1), band(90.0, 90.0, 1)];
        assert_eq!(bands(&runs, &[(30.0, 90.0)]), expected);
        let same = [(0.0, Some(1)), (60.0, Some(1)), (70.0, Some(1))];
        assert_eq!(bands(&same, &[(0.0, 60.0)]), [band(0.0, 0.0, 1), band(60.0, 70.0, 1)]);
    }
}
