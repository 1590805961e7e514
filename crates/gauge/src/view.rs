//! The view model: what a person sees of a record, before it is text, HTML or Markdown.
//!
//! Gauges build [`Section`]s of typed [`Block`]s from a record; a renderer formats them and knows no
//! gauge. Figures keep their value and unit beside their words, so that a renderer may sort, colour
//! or export them.

mod chart;
mod picture;
pub mod words;

pub use chart::{Axis, Chart, HeatMap, HeatMaps, Joined, Scale, Series};
pub use picture::{
    Bar, BarSeries, Bars, Beside, Card, Drawing, Grid, NodeThreads, Picture, Sample, SampleSeries,
    Samples, Step, Steps, Trend, TrendBand, TrendDot,
};

use nodegauge_measure::Unit;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Measurement, Status};
use serde::Serialize;

/// A page: sections in their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Page {
    /// The line above everything.
    pub heading: String,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Section {
    /// Stable name, e.g. `stream`: an anchor in HTML.
    pub id: &'static str,
    /// What it shows, in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// An empty section.
    pub fn new(id: &'static str) -> Self {
        Self { id, blocks: Vec::new() }
    }

    /// Adds a block.
    pub fn push(&mut self, block: impl Into<Block>) -> &mut Self {
        self.blocks.push(block.into());
        self
    }

    /// Adds a labelled paragraph.
    pub fn note(&mut self, label: &str, text: impl Into<String>) -> &mut Self {
        self.push(Note::new(label, text))
    }

    /// Adds a labelled paragraph where there is something to say.
    pub fn note_if(&mut self, label: &str, text: Option<String>) -> &mut Self {
        match text {
            Some(text) => self.note(label, text),
            None => self,
        }
    }

    /// Adds a picture where there is something to draw.
    pub fn picture(&mut self, picture: Option<Picture>) -> &mut Self {
        self.blocks.extend(picture.map(Block::Picture));
        self
    }

    /// Adds every reason for doubt, once; the one that decides is labelled with the verdict. Of reasons
    /// that differ only in a leading number the first is shown.
    pub fn doubts(&mut self, measurements: &[&Measurement]) -> &mut Self {
        let mut seen: Vec<&str> = Vec::new();
        for m in measurements {
            for (i, reason) in m.validity.reasons.iter().enumerate() {
                let kind = reason.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                if seen.contains(&kind) {
                    continue;
                }
                seen.push(kind);
                let (label, tone) = match (m.validity.status, i) {
                    (Status::Invalid, 0) => ("invalid", Tone::Bad),
                    (Status::Valid, _) => ("remark", Tone::Plain),
                    _ => ("suspect", Tone::Warning),
                };
                self.push(Note::new(label, reason.as_str()).tone(tone));
            }
        }
        self
    }

    /// Adds an empty line.
    pub fn gap(&mut self) -> &mut Self {
        self.push(Block::Gap)
    }
}

/// The name of sections that end a page.
const SUMMARY: &str = "summary";

/// A section with what the figures come to, in a sentence or a line each: a page ends with it.
pub fn summary(text: impl Into<String>) -> Section {
    let mut section = Section::new(SUMMARY);
    section.note("summary", text);
    section
}

impl Section {
    /// Whether a page ends with it.
    pub fn is_summary(&self) -> bool {
        self.id == SUMMARY
    }
}

/// Something that a page shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Block {
    /// A heading of its own line.
    Heading(String),
    /// A line or more of plain text.
    Text(String),
    /// A labelled paragraph.
    Note(Note),
    /// A table.
    Table(Table),
    /// Curves.
    Chart(Chart),
    /// Values over two axes.
    HeatMaps(HeatMaps),
    /// A bar a gauge.
    Card(Card),
    /// An empty line between blocks, for renderers of text.
    Gap,
    /// What only renderers that draw show.
    #[serde(untagged)]
    Picture(Picture),
}

/// How loud something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Like everything.
    #[default]
    Plain,
    /// What the reader looks for first.
    Strong,
    /// What can be skipped.
    Faint,
    /// Deserves attention.
    Warning,
    /// Is wrong.
    Bad,
    /// Is better than what it is compared with.
    Better,
    /// Is worse than what it is compared with.
    Worse,
}

/// A labelled paragraph: the label says what the text is about.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Note {
    /// `how`, `regime`, `suspect`, ...; empty to continue the note before.
    pub label: String,
    /// In words; line breaks stay.
    pub text: String,
    /// How loud the label is.
    pub tone: Tone,
    /// Whether the text itself can be skipped.
    pub faint: bool,
    /// Whether it belongs to the note before.
    pub nested: bool,
}

impl Note {
    /// A plain note.
    pub fn new(label: &str, text: impl Into<String>) -> Self {
        Self { label: label.to_owned(), text: text.into(), ..Self::default() }
    }

    /// Why a figure is doubted or no result: labelled by the verdict.
    pub fn doubt(status: Status, text: impl Into<String>) -> Self {
        let tone = if status == Status::Invalid { Tone::Bad } else { Tone::Warning };
        Self::new(status.name(), text).tone(tone)
    }

    /// The same with a loud label.
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// The same with text that can be skipped.
    pub fn faint(mut self) -> Self {
        self.faint = true;
        self
    }

    /// The same as a part of the note before.
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

/// A table. Only the last column wraps in text: a wrapped identifier or figure is of no use. As a
/// [`Block`] it has no column, but the first, that holds nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Table {
    /// Titles, left to right; none for a table without a header.
    pub columns: Vec<Column>,
    /// Cells, row by row.
    pub rows: Vec<Vec<Cell>>,
    /// What heads the rows from this one on, by ascending row; an empty cell ends what went before.
    pub headings: Vec<(usize, Cell)>,
    /// Characters of the longest bar in text, where there is room; `None` leaves it to the renderer.
    pub longest_bar: Option<usize>,
}

impl Table {
    /// A table without rows. Titles that begin with `>` are of right-aligned columns.
    pub fn new(titles: &[&str]) -> Self {
        let columns = titles.iter().map(|title| Column::of(title)).collect();
        Self { columns, ..Self::default() }
    }

    /// Heads the rows that are added from now on.
    pub fn heading(&mut self, heading: impl Into<Cell>) {
        self.headings.push((self.rows.len(), heading.into()));
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        self.rows.push(cells.into_iter().collect());
        self
    }
}

impl From<Table> for Block {
    fn from(mut table: Table) -> Self {
        let holds = |column: usize| {
            let mut cells = table.rows.iter().filter_map(|row| row.get(column));
            column == 0 || table.rows.is_empty() || cells.any(|cell| !cell.is_nothing())
        };
        let kept: Vec<bool> = (0..table.columns.len()).map(holds).collect();
        let mut of_columns = kept.iter();
        table.columns.retain(|_| *of_columns.next().unwrap_or(&true));
        for row in &mut table.rows {
            let mut of_cells = kept.iter();
            row.retain(|_| *of_cells.next().unwrap_or(&true));
        }
        Self::Table(table)
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Column {
    /// Above the column.
    pub title: String,
    /// Whether its cells are right-aligned, as figures are.
    pub right: bool,
}

impl Column {
    /// A column; `>title` is right-aligned.
    pub fn of(title: &str) -> Self {
        match title.strip_prefix('>') {
            Some(title) => Self { title: title.to_owned(), right: true },
            None => Self { title: title.to_owned(), right: false },
        }
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Cell {
    /// In words.
    pub text: String,
    /// The figure behind the words, in base units.
    pub figure: Option<(f64, Unit)>,
    /// Length of a bar, 0 to 1, in place of the words; text draws it in what room is left.
    pub bar: Option<f64>,
    /// How loud it is.
    pub tone: Tone,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A figure with its words.
    pub fn figure(value: f64, unit: Unit, text: impl Into<String>) -> Self {
        Self { text: text.into(), figure: Some((value, unit)), ..Self::default() }
    }

    /// Whether it says of nothing but that there is none: a dash, a question mark, or no words.
    pub fn is_nothing(&self) -> bool {
        let is_blank = matches!(self.text.as_str(), "" | "-" | "?");
        is_blank && self.figure.is_none() && self.bar.is_none()
    }

    /// A bar of this share of the longest.
    pub fn bar(share: f64) -> Self {
        Self { bar: Some(share), ..Self::default() }
    }

    /// The same, louder or fainter.
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::text(text)
    }
}

/// A table of figures of a kind that the gauge does not know.
pub fn plain_table(measurements: &[&Measurement]) -> Table {
    let mut table = Table::new(&["figure", ">value", "unit", "status"]);
    for m in measurements {
        let value = m.value.map_or_else(
            || Cell::text("-"),
            |value| Cell::figure(value, m.unit, significant(value)),
        );
        table.row([
            format!("{} {}", m.test, m.name_in_words()).into(),
            value,
            m.unit.symbol().into(),
            m.validity.status.name().into(),
        ]);
    }
    table
}

/// Breaks a line at blanks so that no piece is longer than `width`, where words allow.
pub fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.len() - 1;
        let current = &mut lines[last];
        if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
    }
    lines
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
    fn columns_that_hold_nothing_are_absent() {
        let mut table = Table::new(&["what", ">a", ">b", ">c", ""]);
        table.row(["x".into(), "-".into(), "1".into(), "?".into(), Cell::bar(0.0)]);
        table.row(["".into(), "-".into(), "-".into(), "".into(), Cell::bar(0.5)]);
        let Block::Table(table) = Block::from(table) else { panic!() };
        let titles: Vec<&str> = table.columns.iter().map(|column| &*column.title).collect();
        assert_eq!(titles, ["what", "b", ""]);
        assert!(table.rows.iter().all(|row| row.len() == 3));
    }
}
