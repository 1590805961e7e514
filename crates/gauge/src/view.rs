//! View model: the content of a record's page, independent of the output format (text, HTML or Markdown).
//!
//! Gauges build [`Section`]s of typed [`Block`]s from a record. A renderer formats the blocks and does not depend on
//! any gauge. A figure has a value and a unit in addition to its text, so that a renderer can sort, colour or export
//! figures.

mod chart;
mod columns;
mod groups;
mod limits;
mod picture;
pub mod sentence;
pub mod sweep;
pub mod words;
mod wrap;

pub use chart::{
    AxisQuantity, AxisScale, Chart, ChartSeries, DotConnection, Guide, GuideAxis, HeatMap, HeatMaps,
};
pub use columns::{ColumnList, ColumnUnit, FigureRow};
pub use groups::{distinct, group_by_key};
pub use limits::{AttainableValue, FigureLimits, partial_memory_reason};
pub use picture::{
    BarChart, BarSeries, BarValues, ChartBar, Drawing, EarlierValue, FigureBar, FigureBars,
    ForestPlot, ForestRow, NumaNodeThreads, Picture, PlottedSample, SamplePlot, SampleSeries,
    StepChart, TrendBand, TrendDot, TrendPlot, TrendSeries, ValueGrid,
};

pub use wrap::{is_quantity, wrap};

use nodegauge_measure::legible;
use nodegauge_measure::quantity::format_significant;
use nodegauge_measure::record::{Measurement, Status, Validity};
use nodegauge_measure::{Fraction, Unit};
use serde::Serialize;

/// Page: sections in display order.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Page {
    /// Title line of the page.
    pub heading: String,
    /// The most important figure with its meaning, in one sentence; `None` if nothing can be concluded.
    pub conclusion: Option<String>,
    /// Head of the page: node, command and trust; `None` for pages without a run.
    pub head: Option<PageHead>,
    /// Sections of the page.
    pub sections: Vec<Section>,
}

/// Head of a page: what was measured where and when, and how far the figures can be trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PageHead {
    /// Host, processor, sockets and cores.
    pub title: String,
    /// Command, date, duration and system.
    pub facts: String,
    /// Sentence on how far the figures can be trusted.
    pub trust: String,
    /// Emphasis of the sentence.
    pub tone: Tone,
    /// Findings about the node with their remedies.
    pub findings: Vec<Note>,
}

/// Section of a page.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Section {
    /// Stable name, e.g. `stream`; used as the anchor in HTML.
    pub id: &'static str,
    /// Blocks of the section, in display order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// Creates an empty section.
    pub fn new(id: &'static str) -> Self {
        Self { id, blocks: Vec::new() }
    }

    /// Adds a block to the section.
    pub fn push(&mut self, block: impl Into<Block>) -> &mut Self {
        self.blocks.push(block.into());
        self
    }

    /// Adds a labelled paragraph.
    pub fn note(&mut self, label: &str, text: impl Into<String>) -> &mut Self {
        self.push(Note::new(label, text))
    }

    /// Adds a labelled paragraph that keeps the line breaks of its text. Names from records must be escaped in the
    /// text.
    pub fn push_lines(&mut self, label: &str, text: impl Into<String>) -> &mut Self {
        self.push(Note { has_lines: true, ..Note::new(label, text) })
    }

    /// Adds a labelled paragraph if there is a text.
    pub fn note_if(&mut self, label: &str, text: Option<String>) -> &mut Self {
        match text {
            Some(text) => self.note(label, text),
            None => self,
        }
    }

    /// Adds a picture if there is one.
    pub fn push_picture(&mut self, picture: Option<Picture>) -> &mut Self {
        self.blocks.extend(picture.map(Block::Picture));
        self
    }

    /// Adds the reasons why figures are suspect or invalid, each once. The decisive reason of an invalid figure is
    /// labelled with the status, its other reasons with "also", because records do not contain a status per reason. Of
    /// reasons that differ only in a leading number, only the first is added.
    pub fn push_doubts(&mut self, measurements: &[&Measurement]) -> &mut Self {
        let mut seen: Vec<&str> = Vec::new();
        for m in measurements {
            for (i, reason) in m.validity.reasons.iter().enumerate() {
                let kind = words::without_number(reason);
                if seen.contains(&kind) {
                    continue;
                }
                seen.push(kind);
                let (label, tone) = match (m.validity.status, i) {
                    (Status::Invalid, 0) => ("invalid", Tone::Bad),
                    (Status::Invalid, _) => ("also", Tone::Warning),
                    (Status::Valid, _) => ("remark", Tone::Plain),
                    _ => ("suspect", Tone::Warning),
                };
                self.push(Note::new(label, reason.as_str()).tone(tone));
            }
        }
        self
    }

    /// Adds each reason once, with the names of the figures that have it; at most `NAMED` names are listed.
    pub fn push_named_doubts<'m>(
        &mut self,
        figures: impl IntoIterator<Item = NamedFigure<'m>>,
    ) -> &mut Self {
        let mut doubts: Vec<(String, Status, &str)> = Vec::new();
        for NamedFigure { name, m } in figures {
            let Validity { status, reasons } = &m.validity;
            doubts.extend(reasons.iter().map(|reason| (name.clone(), *status, reason.as_str())));
        }
        for ((_, reason), same) in
            group_by_key(doubts, |(_, status, reason)| (status.name(), *reason))
        {
            let names = distinct(same.iter().map(|(name, ..)| name.as_str()));
            let mut shown = names[..names.len().min(NAMED)].join(", ");
            if names.len() > NAMED {
                shown.push_str(&format!(" and {} more", names.len() - NAMED));
            }
            let (_, status, _) = same[0];
            self.push(Note::doubt(status, format!("{shown}: {reason}")));
        }
        self
    }

    /// Adds an empty line between blocks.
    pub fn push_gap(&mut self) -> &mut Self {
        self.push(Block::Gap)
    }
}

/// Maximum number of figures that are listed with a reason.
const NAMED: usize = 3;

/// Figure with its name on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedFigure<'m> {
    /// Name of the figure on its page.
    pub name: String,
    /// The figure.
    pub m: &'m Measurement,
}

/// Identifier of summary sections, which end a page.
const SUMMARY: &str = "summary";

/// Creates the last section of a page, which summarizes the figures in one sentence.
pub fn summary(text: impl Into<String>) -> Section {
    let mut section = Section::new(SUMMARY);
    section.note("summary", text);
    section
}

/// Creates the last section of a page from several sentences, each on its own line.
pub fn summary_section(sentences: impl IntoIterator<Item = String>) -> Section {
    let mut section = Section::new(SUMMARY);
    section.push_lines("summary", legible::join_lines(sentences));
    section
}

impl Section {
    /// True if the section is a summary, i.e. the last section of a page.
    pub fn is_summary(&self) -> bool {
        self.id == SUMMARY
    }
}

/// Block of a section.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Block {
    /// Heading on its own line.
    Heading(String),
    /// Plain text of one or more lines.
    Text(String),
    /// Labelled paragraph.
    Note(Note),
    /// Table, with or without a header.
    Table(Table),
    /// Line chart.
    Chart(Chart),
    /// One or several heat maps.
    HeatMaps(HeatMaps),
    /// Summary card with one bar per gauge.
    Card(FigureBars),
    /// Empty line between blocks, for text renderers.
    Gap,
    /// Picture; only renderers with graphics show it.
    #[serde(untagged)]
    Picture(Picture),
}

/// Emphasis of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Normal text.
    #[default]
    Plain,
    /// Important text.
    Strong,
    /// Text of minor importance.
    Faint,
    /// Text of a warning.
    Warning,
    /// Text of an error or of an invalid figure.
    Bad,
    /// Text of a figure that is better than the reference.
    Better,
    /// Text of a figure that is worse than the reference.
    Worse,
}

/// Labelled paragraph; the label names the topic.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Note {
    /// Label: `how`, `regime`, `suspect`, ...; empty if the note continues the previous note.
    pub label: String,
    /// Text of the paragraph.
    pub text: String,
    /// Emphasis of the label.
    pub tone: Tone,
    /// True if the text is of minor importance.
    pub faint: bool,
    /// True if the note belongs to the previous note.
    pub nested: bool,
    /// True if line breaks in the text are intended. In other notes they are escaped, because the text may come from a
    /// foreign record.
    #[serde(skip)]
    pub has_lines: bool,
}

impl Note {
    /// Creates a note without emphasis.
    pub fn new(label: &str, text: impl Into<String>) -> Self {
        Self { label: label.to_owned(), text: text.into(), ..Self::default() }
    }

    /// Creates a note with the reason why a figure is suspect or invalid; the label is the status.
    pub fn doubt(status: Status, text: impl Into<String>) -> Self {
        let tone = if status == Status::Invalid { Tone::Bad } else { Tone::Warning };
        Self::new(status.name(), text).tone(tone)
    }

    /// Sets the emphasis of the label.
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Marks the text as being of minor importance.
    pub fn faint(mut self) -> Self {
        self.faint = true;
        self
    }

    /// Marks the note as part of the previous note.
    pub fn nested(mut self) -> Self {
        self.nested = true;
        self
    }
}

impl From<Note> for Block {
    fn from(note: Note) -> Self {
        Self::Note(note)
    }
}

/// Table. In text output, only the cells of the last column are wrapped, because a wrapped identifier or figure is hard
/// to read. Conversion into a [`Block`] removes empty columns except the first.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    /// Columns, left to right; empty for a table without a header.
    pub columns: Vec<Column>,
    /// Cells, row by row.
    pub rows: Vec<Vec<TableCell>>,
    /// Headings between rows, each with the index of the row after it, in ascending order. An empty heading ends the
    /// previous group of rows.
    pub headings: Vec<(usize, TableCell)>,
    /// Maximum length of a bar in text output, in characters; `None` for the renderer's default.
    pub longest_bar: Option<usize>,
    /// Titles of columns that text output leaves out, in this order, while the table is wider than the terminal.
    pub optional: Vec<String>,
}

impl Table {
    /// Creates a table without rows. A title that begins with `>` makes its column right-aligned.
    pub fn new(titles: &[&str]) -> Self {
        let columns = titles.iter().map(|title| Column::new(title)).collect();
        Self { columns, ..Self::default() }
    }

    /// Sets the maximum length of a bar in text output, in characters.
    pub fn with_max_bar_length(mut self, characters: usize) -> Self {
        self.longest_bar = Some(characters);
        self
    }

    /// Sets the titles of columns that text output leaves out, in this order, while the table is too wide.
    pub fn with_optional_columns(mut self, titles: &[&str]) -> Self {
        self.optional = titles.iter().map(|title| (*title).to_owned()).collect();
        self
    }

    /// Adds a heading above the rows that are added next.
    pub fn push_heading(&mut self, heading: impl Into<TableCell>) {
        self.headings.push((self.rows.len(), heading.into()));
    }

    /// Adds a row to the table.
    pub fn push_row(&mut self, cells: impl IntoIterator<Item = TableCell>) -> &mut Self {
        self.rows.push(cells.into_iter().collect());
        self
    }
}

impl Table {
    /// Returns a table with some of its columns.
    pub fn with_columns(&self, columns: &[usize]) -> Self {
        let rows = self.rows.iter().map(|row| columns.iter().filter_map(|at| row.get(*at)));
        Self {
            columns: columns.iter().filter_map(|at| self.columns.get(*at)).cloned().collect(),
            rows: rows.map(|cells| cells.cloned().collect()).collect(),
            ..self.clone()
        }
    }

    /// Returns the table without its bars, for renderers that compute bars from other columns.
    pub fn without_bars(&self) -> Self {
        let width = self.rows.iter().map(Vec::len).max().unwrap_or(0).max(self.columns.len());
        let columns = (0..width).filter(|at| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(*at));
            !cells.any(|cell| cell.bar.is_some())
        });
        self.with_columns(&columns.collect::<Vec<_>>())
    }

    /// True if a column is the first one or has a non-empty cell.
    fn shows(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        column == 0 || self.rows.is_empty() || cells.any(|cell| !cell.is_blank())
    }
}

impl From<Table> for Block {
    fn from(mut table: Table) -> Self {
        let kept: Vec<bool> = (0..table.columns.len()).map(|at| table.shows(at)).collect();
        let mut of_columns = kept.iter();
        table.columns.retain(|_| *of_columns.next().unwrap_or(&true));
        for row in &mut table.rows {
            let mut of_cells = kept.iter();
            row.retain(|_| *of_cells.next().unwrap_or(&true));
        }
        Self::Table(table)
    }
}

/// Column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Column {
    /// Title of the column.
    pub title: String,
    /// True if the cells are right-aligned, as figures are.
    pub right: bool,
}

impl Column {
    /// Creates a column with a title; `>` before the title makes the column right-aligned.
    pub fn new(title: &str) -> Self {
        match title.strip_prefix('>') {
            Some(title) => Self { title: title.to_owned(), right: true },
            None => Self { title: title.to_owned(), right: false },
        }
    }
}

/// Cell of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TableCell {
    /// Text of the cell.
    pub text: String,
    /// Value of the figure in base units, and its unit; `None` for plain text.
    pub figure: Option<(f64, Unit)>,
    /// Length of a bar that is drawn instead of the text, 0 to 1. In text output, the longest bar fills the rest of the
    /// line.
    pub bar: Option<Fraction>,
    /// Emphasis of the cell.
    pub tone: Tone,
    /// True if line breaks in the text are intended. In other cells they are escaped, because the text may come from a
    /// foreign record.
    #[serde(skip)]
    pub has_lines: bool,
}

impl TableCell {
    /// Creates a cell with several lines. Control characters in the lines are escaped.
    pub fn lines(lines: &[String]) -> Self {
        let legible: Vec<_> = lines.iter().map(|line| legible::escape_controls(line)).collect();
        Self { text: legible.join("\n"), has_lines: true, ..Self::default() }
    }

    /// Creates a cell with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a cell with a value, its unit and its text.
    pub fn figure(value: f64, unit: Unit, text: impl Into<String>) -> Self {
        Self { text: text.into(), figure: Some((value, unit)), ..Self::default() }
    }

    /// Creates a cell with a value and its unit.
    pub fn in_words(value: f64, unit: Unit) -> Self {
        Self::figure(value, unit, unit.in_words(value))
    }

    /// Creates the cell of a figure; `form` formats its value. Without a value, the cell contains the status.
    pub fn from_measurement(m: &Measurement, form: impl FnOnce(f64) -> String) -> Self {
        match m.value {
            Some(value) => Self::figure(value, m.unit, form(value)),
            None => m.validity.status.name().into(),
        }
    }

    /// True if the cell has no content: no figure, no bar, and no text except a dash or a question mark.
    pub fn is_blank(&self) -> bool {
        let is_blank = matches!(self.text.as_str(), "" | "-" | "?");
        is_blank && self.figure.is_none() && self.bar.is_none()
    }

    /// Creates a bar; `share` is its length as a share of the longest bar.
    pub fn bar(share: Fraction) -> Self {
        Self { bar: Some(share), ..Self::default() }
    }

    /// Sets the emphasis of the cell.
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

impl<T: Into<String>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::text(text)
    }
}

/// Returns a plain table, for kinds of figures that the gauge does not support.
pub fn plain_table(measurements: &[&Measurement]) -> Table {
    let columns = ColumnList::<Measurement>::new()
        .left("figure", |m| format!("{} {}", m.test, m.name_in_words()))
        .right("value", |m| match m.value {
            Some(value) => TableCell::figure(value, m.unit, format_significant(value)),
            None => "-".into(),
        })
        .left("unit", |m| m.unit.symbol())
        .left("status", |m| m.validity.status.name());
    columns.table(measurements.iter().copied())
}

impl From<Picture> for Block {
    fn from(picture: Picture) -> Self {
        Self::Picture(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_omitted() {
        let mut table = Table::new(&["what", ">a", ">b", ">c", ""]);
        table.push_row([
            "x".into(),
            "-".into(),
            "1".into(),
            "?".into(),
            TableCell::bar(Fraction(0.0)),
        ]);
        table.push_row([
            "".into(),
            "-".into(),
            "-".into(),
            "".into(),
            TableCell::bar(Fraction(0.5)),
        ]);
        let Block::Table(table) = Block::from(table) else { panic!() };
        let titles: Vec<&str> = table.columns.iter().map(|column| &*column.title).collect();
        assert_eq!(titles, ["what", "b", ""]);
        assert!(table.rows.iter().all(|row| row.len() == 3));
    }
}
