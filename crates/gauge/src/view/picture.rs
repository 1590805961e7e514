//! What renderers that draw show of figures. Text leaves it out: the tables beside it say the same.

use super::Chart;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Counts, Measurement};
use serde::Serialize;

/// Something to draw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Above the picture.
    pub title: String,
    /// What is drawn.
    #[serde(flatten)]
    pub drawing: Drawing,
}

/// Kinds of pictures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Drawing {
    /// Curves.
    Chart(Chart),
    /// Every sample in time.
    Samples(Samples),
    /// Bars, of which each may begin where the one before ended.
    Steps(Steps),
    /// The same figures of several runs.
    Bars(Bars),
    /// Values over two axes; a surface where the axes are sizes.
    HeatMap(Grid),
    /// Where threads run.
    Placement(Vec<NodeThreads>),
}

/// Samples of some figures in time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Samples {
    /// Of all samples.
    pub unit: Unit,
    /// Whether the records have times; else samples are numbered.
    pub timed: bool,
    /// Each figure's.
    pub series: Vec<SampleSeries>,
}

/// Samples of one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleSeries {
    /// The figure.
    pub name: String,
    /// In order of time.
    pub samples: Vec<Sample>,
}

/// When, in seconds since the first, or its number; the value; and what interfered, if anything did.
pub type Sample = (f64, f64, Option<String>);

/// Bars.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Steps {
    /// Of all values.
    pub unit: Unit,
    /// Top to bottom, or left to right.
    pub steps: Vec<Step>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// What it is.
    pub name: String,
    /// Where it begins: 0, or where the step before ended.
    pub from: f64,
    /// Where it ends; nothing where there is no result.
    pub to: Option<f64>,
    /// More about it.
    pub words: String,
}

/// Groups of bars, one of each series in every group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bars {
    /// Of all values.
    pub unit: Unit,
    /// What the groups are, in order.
    pub groups: Vec<String>,
    /// The series with the bars of each.
    pub series: Vec<BarSeries>,
}

/// A bar in each group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BarSeries {
    /// What it is of.
    pub name: String,
    /// Group by group: the value, and why it is doubted, if it is; nothing where there is no result.
    pub values: Vec<Option<(f64, Option<String>)>>,
}

/// Values over two axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Grid {
    /// What rows and columns are, e.g. `file` and `block`.
    pub axes: [&'static str; 2],
    /// What the rows are, top to bottom.
    pub rows: Vec<String>,
    /// What the columns are, left to right.
    pub columns: Vec<String>,
    /// Row by row; `None` where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
    /// Of all values.
    pub unit: Unit,
    /// Whether it may be shown as a surface.
    pub surface: bool,
}

/// A NUMA node with its hardware threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeThreads {
    /// The node, with its memory.
    pub name: String,
    /// The operating system's number of each hardware thread, and the threads or ranks that may run on it.
    pub cpus: Vec<(u32, Vec<usize>)>,
}

impl Picture {
    /// Curves.
    pub fn chart(title: impl Into<String>, chart: Chart) -> Self {
        Self { title: title.into(), drawing: Drawing::Chart(chart) }
    }

    /// Bars from 0 on: what each is, its value, and more about it.
    pub fn bars(
        title: impl Into<String>,
        unit: Unit,
        bars: impl IntoIterator<Item = (String, Option<f64>, String)>,
    ) -> Self {
        let step = |(name, to, words)| Step { name, from: 0.0, to, words };
        let steps = bars.into_iter().map(step).collect();
        Self { title: title.into(), drawing: Drawing::Steps(Steps { unit, steps }) }
    }

    /// A heat map of every end to every other, row by row.
    pub fn between(
        title: impl Into<String>,
        unit: Unit,
        ends: Vec<String>,
        values: Vec<Vec<Option<f64>>>,
    ) -> Self {
        let (axes, rows, columns) = (["from", "to"], ends.clone(), ends);
        let grid = Grid { axes, rows, columns, values, unit, surface: false };
        Self { title: title.into(), drawing: Drawing::HeatMap(grid) }
    }

    /// Every sample of some figures of one unit in time, with what interfered; `None` where no figure has
    /// two samples.
    pub fn samples(title: &str, of: &[&Measurement]) -> Option<Self> {
        let all = |m: &Measurement| m.samples.len() + m.disturbed.len();
        let of: Vec<&&Measurement> = of.iter().filter(|m| all(m) > 0).collect();
        let first = of.first().filter(|_| of.iter().any(|m| all(m) > 1))?;
        let timed = |m: &&&Measurement| {
            m.samples_at_s.len() == m.samples.len() && m.disturbed.iter().all(|d| d.at_s.is_some())
        };
        let timed = of.iter().all(timed);
        let times = of.iter().flat_map(|m| {
            m.samples_at_s.iter().copied().chain(m.disturbed.iter().filter_map(|d| d.at_s))
        });
        let start = times.fold(f64::INFINITY, f64::min);
        let one = |m: &&&Measurement| {
            // What counts in spite of what interfered is among the samples as well.
            let again = |value: f64| {
                let counts = |d: &&_| matches!(d, Counts::All);
                m.disturbed.iter().any(|d| d.value == value && counts(&&d.counts))
            };
            let clean = m.samples.iter().enumerate().filter(|(_, value)| !again(**value));
            let clean = clean.map(|(i, value)| (m.samples_at_s.get(i).copied(), *value, None));
            let disturbed = m.disturbed.iter().map(|d| (d.at_s, d.value, Some(d.reason.clone())));
            let mut samples: Vec<(Option<f64>, f64, Option<String>)> =
                disturbed.chain(clean).collect();
            if timed {
                samples.sort_by(|a, b| a.0.unwrap_or(0.0).total_cmp(&b.0.unwrap_or(0.0)));
            }
            let place = |(i, (at, value, reason)): (usize, (Option<f64>, f64, Option<String>))| {
                let at = at.filter(|_| timed).map_or(i as f64 + 1.0, |at| at - start);
                (at, value, reason)
            };
            let samples = samples.into_iter().enumerate().map(place).collect();
            SampleSeries { name: m.name.clone(), samples }
        };
        let series = of.iter().map(one).collect();
        let drawing = Drawing::Samples(Samples { unit: first.unit, timed, series });
        Some(Self { title: title.to_owned(), drawing })
    }
}

/// What stands for a node: a bar a gauge, each in percent of its limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Card {
    /// The bars, top to bottom.
    pub bars: Vec<Bar>,
}

/// A figure that stands for a gauge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bar {
    /// What of the node it is: `memory`, `latency`, ...
    pub title: String,
    /// Which figure stands for it.
    pub what: String,
    /// The figure in words; nothing where it was not measured or is no result.
    pub value: Option<String>,
    /// Share of its limit; nothing where the limit is not known.
    pub share: Option<f64>,
    /// Where the limit comes from, or that there is none.
    pub limit: String,
    /// The same figure of another node.
    pub beside: Option<Beside>,
}

/// A figure of the node that is set beside.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    /// The node, by name.
    pub name: String,
    /// Its figure in words.
    pub value: String,
    /// Share of its own limit; nothing where that is not known.
    pub share: Option<f64>,
    /// This figure over that one.
    pub ratio: Option<f64>,
}

impl Card {
    /// The same as a table.
    pub fn table(&self) -> super::Table {
        let percent =
            |share: Option<f64>| share.map_or("?".to_owned(), |x| format!("{:.0} %", x * 100.0));
        let mut table = super::Table::new(&["", ">value", ">of limit", "limit", ">beside", "of"]);
        for bar in &self.bars {
            let beside =
                |of: fn(&Beside) -> String| bar.beside.as_ref().map(of).unwrap_or_default();
            table.row([
                bar.title.as_str().into(),
                bar.value.as_deref().unwrap_or("?").into(),
                percent(bar.share).into(),
                bar.limit.as_str().into(),
                beside(|b| b.value.clone()).into(),
                beside(|b| b.name.clone()).into(),
            ]);
        }
        table
    }
}
