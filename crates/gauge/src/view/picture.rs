//! Pictures for renderers with graphics. Text output omits pictures; the tables on the page contain the same values.

use super::limits::{AttainableValue, FigureLimits};
use super::{Chart, ColumnList};
use nodegauge_measure::record::{Machine, Measurement};
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Fraction, Unit};
use serde::Serialize;

/// Picture with its title.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Title above the picture.
    pub title: String,
    /// Content of the picture.
    #[serde(flatten)]
    pub drawing: Drawing,
}

/// Kinds of pictures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Drawing {
    /// Line chart.
    Chart(Chart),
    /// All samples over time.
    Samples(SamplePlot),
    /// Sequence of bars; a bar may begin where the previous one ends.
    Steps(StepChart),
    /// Groups of bars that compare figures of several runs.
    Bars(BarChart),
    /// Ratios with their confidence intervals.
    Forest(ForestPlot),
    /// Figures with their samples and limits, one row each.
    Strips(FigureBars),
    /// Values of a figure in successive runs.
    Trend(TrendPlot),
    /// Values over two axes; drawn as a surface if the axes are sizes.
    HeatMap(ValueGrid),
    /// Placement of threads on the hardware threads of each NUMA node.
    Placement(Vec<NumaNodeThreads>),
}

/// Plot of the samples of several figures over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SamplePlot {
    /// Unit of all samples.
    pub unit: Unit,
    /// True if the horizontal axis shows times; false if it shows sample numbers.
    pub timed: bool,
    /// Samples of each figure.
    pub series: Vec<SampleSeries>,
}

/// Samples of one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleSeries {
    /// Name of the figure.
    pub name: String,
    /// Samples in chronological order.
    pub samples: Vec<PlottedSample>,
}

/// Sample: the time since the first sample in seconds, or the number of the sample; the value; and the interference, if
/// any.
pub type PlottedSample = (f64, f64, Option<String>);

/// Sequence of bars.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepChart {
    /// Unit of all values.
    pub unit: Unit,
    /// Bars, top to bottom or left to right.
    pub steps: Vec<ChartBar>,
}

/// Bar with its label and details.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChartBar {
    /// Label of the bar.
    pub name: String,
    /// Start of the bar: 0, or the end of the previous bar.
    pub from: f64,
    /// End of the bar; `None` without a result.
    pub to: Option<f64>,
    /// Details that are shown with the bar.
    pub words: String,
    /// Text after the value, e.g. a share; empty if there is none.
    pub label: String,
    /// Confidence interval of the end of the bar.
    pub interval: Option<[f64; 2]>,
    /// True if the end of the bar does not differ significantly from its start.
    pub is_open: bool,
    /// First reason why the figure is suspect or invalid.
    pub doubt: Option<String>,
}

impl ChartBar {
    /// Creates a bar that begins at 0, from its label, its value and its details.
    pub fn bar(name: impl Into<String>, to: Option<f64>, words: impl Into<String>) -> Self {
        Self { name: name.into(), to, words: words.into(), ..Self::default() }
    }

    /// Marks the bar if its figure is suspect or invalid.
    pub fn with_validity(self, m: &Measurement) -> Self {
        Self { doubt: m.validity.reasons.first().cloned(), ..self }
    }
}

/// Ratios with their confidence intervals, each on its own line.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ForestPlot {
    /// Description of the reference, whose value is 1, e.g. the name of a run.
    pub reference: String,
    /// Kind of the intervals, e.g. `95 % interval`.
    pub interval: &'static str,
    /// Ratios, top to bottom.
    pub rows: Vec<ForestRow>,
}

/// Ratio with its interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ForestRow {
    /// Name of the figure.
    pub name: String,
    /// Ratio to the reference, above 1 if better; `None` if there is none.
    pub ratio: Option<f64>,
    /// Confidence interval of the ratio; `None` if it is unknown.
    pub interval: Option<[f64; 2]>,
    /// Verdict, or the reason why there is no ratio.
    pub words: String,
    /// True if the ratio differs significantly from 1.
    pub is_clear: bool,
    /// Reason why one of the two figures is suspect or invalid.
    pub doubt: Option<String>,
}

/// Groups of bars; each group has one bar of each series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BarChart {
    /// Unit of all values.
    pub unit: Unit,
    /// Group labels, in display order.
    pub groups: Vec<String>,
    /// Series of bars.
    pub series: Vec<BarSeries>,
}

/// Series with one bar per group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BarSeries {
    /// Name of the series.
    pub name: String,
    /// Value for each group, with the reason if the value is suspect; `None` if there is no result.
    pub values: Vec<Option<(f64, Option<String>)>>,
}

/// Values of a figure in successive runs, over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendPlot {
    /// Unit of all values.
    pub unit: Unit,
    /// Runs of each configuration.
    pub series: Vec<TrendSeries>,
    /// Names of the regimes.
    pub regimes: Vec<String>,
    /// Periods in which the runs had the same regime.
    pub bands: Vec<TrendBand>,
    /// Changes of the machine: start of the first run after the change, in seconds since 1970, and description.
    pub changes: Vec<(f64, String)>,
}

/// Values of a figure in the runs of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendSeries {
    /// Settings in which the configuration differs from the others; empty if it is the only one.
    pub name: String,
    /// Dots in chronological order, at least one per run.
    pub dots: Vec<TrendDot>,
    /// Start and end of periods without runs, in seconds since 1970.
    pub gaps: Vec<(f64, f64)>,
}

/// Value of the figure in one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendDot {
    /// Start of the run, in seconds since 1970.
    pub at: f64,
    /// Value of the figure; `None` if there is no result.
    pub value: Option<f64>,
    /// Regime of the value, if it is known.
    pub regime: Option<usize>,
    /// True if the value belongs to another regime than the value that the run reports.
    pub is_other_regime: bool,
    /// Reason why the value is suspect; empty if it is valid.
    pub remark: String,
}

/// Sequence of consecutive runs with the same regime.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrendBand {
    /// Start of the first run, in seconds since 1970.
    pub from: f64,
    /// End of the period, in seconds since 1970.
    pub to: f64,
    /// Index of the regime.
    pub regime: usize,
}

/// Grid of values over two axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueGrid {
    /// Names of the row and column axes, e.g. `file` and `block`.
    pub axes: [&'static str; 2],
    /// Row labels, top to bottom.
    pub rows: Vec<String>,
    /// Column labels, left to right.
    pub columns: Vec<String>,
    /// Values row by row; `None` if not measured.
    pub values: Vec<Vec<Option<f64>>>,
    /// Unit of all values.
    pub unit: Unit,
    /// True if the grid can be drawn as a three-dimensional surface.
    pub surface: bool,
}

/// NUMA node with its hardware threads, and the threads placed on them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumaNodeThreads {
    /// Name of the NUMA node, with the size of its memory.
    pub name: String,
    /// Hardware threads by their numbers in the operating system, each with the threads or ranks that may run on it.
    pub cpus: Vec<(u32, Vec<usize>)>,
}

impl Picture {
    /// Creates a line chart.
    pub fn chart(title: impl Into<String>, chart: Chart) -> Self {
        Self { title: title.into(), drawing: Drawing::Chart(chart) }
    }

    /// Creates a chart of bars.
    pub fn bars(
        title: impl Into<String>,
        unit: Unit,
        bars: impl IntoIterator<Item = ChartBar>,
    ) -> Self {
        let steps = bars.into_iter().collect();
        Self { title: title.into(), drawing: Drawing::Steps(StepChart { unit, steps }) }
    }

    /// Creates a heat map of values between all pairs of `ends`. The values are given row by row.
    pub fn pair_map(
        title: impl Into<String>,
        unit: Unit,
        ends: Vec<String>,
        values: Vec<Vec<Option<f64>>>,
    ) -> Self {
        let axes = ["from", "to"];
        let rows = ends.clone();
        let columns = ends;
        let grid = ValueGrid { axes, rows, columns, values, unit, surface: false };
        Self { title: title.into(), drawing: Drawing::HeatMap(grid) }
    }

    /// Creates a plot of all samples of the figures over time, including disturbed samples. The figures must have the
    /// same unit, and `name` must return distinct names. Returns `None` if no figure has two samples.
    pub fn samples(of: &[&Measurement], name: impl Fn(&Measurement) -> String) -> Option<Self> {
        let of: Vec<&Measurement> =
            of.iter().copied().filter(|m| m.samples.len() + m.disturbed.len() > 0).collect();
        let has_two = of.iter().any(|m| m.samples.len() + m.disturbed.len() > 1);
        let first = of.first().filter(|_| has_two)?;
        let timed = of.iter().all(|m| {
            m.samples_at_s.len() == m.samples.len() && m.disturbed.iter().all(|d| d.at_s.is_some())
        });
        let times = of.iter().flat_map(|m| {
            m.samples_at_s.iter().copied().chain(m.disturbed.iter().filter_map(|d| d.at_s))
        });
        let start = times.fold(f64::INFINITY, f64::min);
        let start = Some(start).filter(|_| timed);
        let series =
            of.iter().map(|m| SampleSeries { name: name(m), samples: plotted(m, start) }).collect();
        let drawing = Drawing::Samples(SamplePlot { unit: first.unit, timed, series });
        let title = if timed { "samples over time" } else { "samples in order" };
        Some(Self { title: title.to_owned(), drawing })
    }
}

/// Returns the samples of a figure with their times since `start`; if `start` is `None`, with their numbers.
fn plotted(m: &Measurement, start: Option<f64>) -> Vec<PlottedSample> {
    let clean = m.undisturbed_samples();
    let clean = clean.map(|(i, value)| (m.samples_at_s.get(i).copied(), value, None));
    let disturbed = m.disturbed.iter().map(|d| (d.at_s, d.value, Some(d.reason.clone())));
    let mut samples: Vec<(Option<f64>, f64, Option<String>)> = disturbed.chain(clean).collect();
    if start.is_some() {
        samples.sort_by(|a, b| a.0.unwrap_or(0.0).total_cmp(&b.0.unwrap_or(0.0)));
    }
    let places = samples.into_iter().enumerate().map(|(i, (at, value, reason))| {
        let since = at.zip(start).map_or(i as f64 + 1.0, |(at, start)| at - start);
        (since, value, reason)
    });
    places.collect()
}

/// Figures with their limits, one per row: the representative figures of a node, the kernels of a gauge, or the figures
/// of a group of nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FigureBars {
    /// Rows, top to bottom.
    pub bars: Vec<FigureBar>,
    /// Meaning of the values on the bars.
    pub values: BarValues,
}

/// Meaning of the values on the bars of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BarValues {
    /// Samples of a figure.
    #[default]
    Samples,
    /// Figures of nodes: the value of a bar is their median, the limit is the value beyond which a node is slow, and
    /// the disturbed samples are the slow nodes.
    Nodes,
}

/// Figure with its samples and the limit of the cores that were used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureBar {
    /// Component of the node, or name of the figure: `memory`, `latency`, ...
    pub title: String,
    /// Name of the measured quantity.
    pub what: String,
    /// Formatted value.
    pub words: String,
    /// Value in the base unit.
    pub value: f64,
    /// Unit of the value, the limit and the samples.
    pub unit: Unit,
    /// Samples without interference.
    pub samples: Vec<f64>,
    /// Samples with interference, without the warm-up.
    pub disturbed: Vec<f64>,
    /// Names of the disturbed samples, e.g. of nodes; empty if they have none.
    pub names: Vec<String>,
    /// Number of samples in regimes that the figure does not describe.
    pub other_regimes: usize,
    /// Limit to which the share refers, see [`FigureLimits`]; `None` if none is known.
    pub limit: Option<AttainableValue>,
    /// Second mark next to the limit, e.g. the fastest loop of the run; `None` if there is none.
    pub second: Option<AttainableValue>,
    /// Sentence about a limit that these cores may be unable to reach; empty if there is none.
    pub remark: String,
    /// First reason why the figure is suspect or invalid.
    pub doubt: Option<String>,
    /// Same figure in an earlier run, for comparison.
    pub earlier: Option<EarlierValue>,
}

impl FigureBar {
    /// Creates the bar of a figure; `None` if the figure has no value. `reach` is the best value that the run itself
    /// reached on these cores.
    pub fn new(
        title: impl Into<String>,
        what: impl Into<String>,
        m: &Measurement,
        reach: Option<AttainableValue>,
        machine: &Machine,
    ) -> Option<Self> {
        let value = m.value?;
        let limits = FigureLimits::new(m, reach, machine);
        Some(Self {
            title: title.into(),
            what: what.into(),
            words: m.in_words(),
            value,
            unit: m.unit,
            samples: m.undisturbed_samples().map(|(_, sample)| sample).collect(),
            disturbed: m.disturbed_samples().map(|sample| sample.value).collect(),
            names: Vec::new(),
            other_regimes: m.other_regime_count(),
            limit: limits.first,
            second: limits.second,
            remark: limits.remark,
            doubt: m.validity.reasons.first().cloned(),
            earlier: None,
        })
    }

    /// Returns the value divided by the limit; for times, the limit divided by the value.
    pub fn share(&self) -> Option<Fraction> {
        let limit = self.limit.as_ref()?.value;
        let is_time = self.unit.direction() == Some(BetterDirection::Lower);
        let share = if is_time { limit / self.value } else { self.value / limit };
        share.is_finite().then_some(Fraction(share))
    }

    /// Returns the limit, the second mark and the remark for a cell: `921.6 GB/s, option; 721.8 GB/s, fastest loop of
    /// this run: add`; `None` if none is known.
    pub fn limits_in_words(&self) -> Option<String> {
        let marks = [&self.limit, &self.second].into_iter().flatten();
        let marks = marks.map(|mark| format!("{}, {}", self.unit.in_words(mark.value), mark.basis));
        let remark = Some(self.remark.clone()).filter(|remark| !remark.is_empty());
        let parts: Vec<String> = marks.chain(remark).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Same figure in an earlier run of this node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EarlierValue {
    /// Name of the run.
    pub name: String,
    /// Formatted value.
    pub value: String,
    /// Ratio of the figure to that of the earlier run.
    pub ratio: f64,
}

impl FigureBars {
    /// Returns the content of the card as a table.
    pub fn table(&self) -> super::Table {
        let columns = ColumnList::<FigureBar>::new()
            .left("", |bar| bar.title.clone())
            .right("value", |bar| bar.words.clone())
            .right("of limit", |bar| {
                bar.share().map_or_else(|| "?".to_owned(), Fraction::in_whole_percent)
            })
            .left("limit", |bar| bar.limits_in_words().unwrap_or_default())
            .right_or_blank("earlier", |bar| Some(bar.earlier.as_ref()?.value.clone()))
            .left("run", |bar| bar.earlier.as_ref().map_or_else(String::new, |of| of.name.clone()));
        columns.table(&self.bars)
    }
}
