//! The view model: what a person sees of a record, before it is text, HTML or Markdown.
//!
//! Gauges build [`Section`]s of typed [`Block`]s from a record; a renderer formats them and knows no
//! gauge. Figures keep their value and unit beside their words, so that a renderer may sort, colour
//! or export them.

use nodegauge_measure::Unit;
use nodegauge_measure::quantity::significant;
use nodegauge_measure::record::{Measurement, Status};

/// A page: sections in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The line above everything.
    pub heading: String,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Default)]
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

/// Something that a page shows.
#[derive(Debug, Clone, PartialEq)]
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
    /// An empty line between blocks, for renderers of text.
    Gap,
}

/// How loud something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
#[derive(Debug, Clone, PartialEq, Default)]
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
#[derive(Debug, Clone, PartialEq, Default)]
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
#[derive(Debug, Clone, PartialEq, Default)]
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

/// What the values of an axis are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Sizes in bytes: `64 KiB`.
    Bytes,
    /// Rates in a unit, shown in its thousands, millions or thousand millions as fits: B/s as GB/s.
    Rate(Unit),
    /// Times: nanoseconds.
    Nanoseconds,
    /// Times: microseconds.
    Microseconds,
    /// Plain numbers.
    Number,
}

/// Curves. The horizontal axis is logarithmic, for sizes span many powers of two; the vertical one is as
/// [`Chart::vertical`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What the horizontal axis has.
    pub x: Scale,
    /// What the vertical axis has.
    pub y: Scale,
    /// Values of the horizontal axis to label, ascending.
    pub ticks: Vec<f64>,
    /// The curves; where two meet, the first is seen.
    pub series: Vec<Series>,
}

/// An axis with its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// From zero to this.
    Linear(f64),
    /// Logarithmic, from the least to the greatest.
    Logarithmic(f64, f64),
}

/// From this ratio of the greatest to the least value on an axis is logarithmic. Below, lengths from zero
/// show how much more one is than another, and 3 % look like 3 %.
const DECADE: f64 = 10.0;

impl Axis {
    /// Where a value lies, from 0 to 1.
    pub fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear(most) => value / most,
            Self::Logarithmic(least, most) => (value / least).ln() / (most / least).ln(),
        }
    }

    /// The value at a place.
    pub fn at(self, place: f64) -> f64 {
        match self {
            Self::Linear(most) => most * place,
            Self::Logarithmic(least, most) => least * (most / least).powf(place),
        }
    }
}

impl Chart {
    /// The dots that can be shown: those above zero.
    pub fn dots(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.series.iter().flat_map(|series| &series.dots).copied();
        all.filter(|(x, y)| *x > 0.0 && *y > 0.0)
    }

    /// The horizontal axis; `None` without two different values.
    pub fn horizontal(&self) -> Option<Axis> {
        let (least, most) = range(self.dots().map(|(x, _)| x))?;
        (least < most).then_some(Axis::Logarithmic(least, most))
    }

    /// The vertical axis: from zero, or logarithmic where values span a decade or more; `None` without any.
    pub fn vertical(&self) -> Option<Axis> {
        let (least, most) = range(self.dots().map(|(_, y)| y))?;
        Some(match most / least < DECADE {
            true => Axis::Linear(most),
            false => Axis::Logarithmic(least, most),
        })
    }
}

/// The least and the greatest; `None` of none.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, x| {
        let (least, most) = found.unwrap_or((x, x));
        Some((x.min(least), x.max(most)))
    })
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The letter that marks its dots in text.
    pub mark: char,
    /// What it is.
    pub name: String,
    /// Its dots in base units; those that are not above zero are not shown.
    pub dots: Vec<(f64, f64)>,
}

/// Heat maps that share their axes and stand side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMaps {
    /// What the rows are, top to bottom.
    pub rows: Vec<String>,
    /// What the columns are, left to right.
    pub columns: Vec<String>,
    /// The maps.
    pub maps: Vec<HeatMap>,
    /// What the values are.
    pub unit: Unit,
}

impl From<HeatMaps> for Block {
    fn from(maps: HeatMaps) -> Self {
        Self::HeatMaps(maps)
    }
}

/// Values over two axes, on a logarithmic scale from the least to the greatest.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// Above the map.
    pub title: String,
    /// Row by row; `None` where nothing was measured.
    pub values: Vec<Vec<Option<f64>>>,
}

impl HeatMap {
    /// The least and the greatest value.
    pub fn range(&self) -> Option<(f64, f64)> {
        range(self.values.iter().flatten().flatten().copied().filter(|x| *x > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(ys: &[f64]) -> Chart {
        let dots = ys.iter().enumerate().map(|(i, y)| (1.0 + i as f64, *y)).collect();
        let series = vec![Series { mark: '*', name: String::new(), dots }];
        Chart { x: Scale::Number, y: Scale::Number, ticks: Vec::new(), series }
    }

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

    #[test]
    fn a_small_difference_is_shown_small_and_decades_on_a_logarithmic_axis() {
        let axis = chart(&[97.0, 100.0]).vertical().unwrap();
        assert_eq!((axis, axis.place(97.0), axis.at(0.5)), (Axis::Linear(100.0), 0.97, 50.0));
        let axis = chart(&[1.0, 0.0, 100.0]).vertical().unwrap();
        assert_eq!(axis, Axis::Logarithmic(1.0, 100.0));
        assert!((axis.place(10.0) - 0.5).abs() < 1e-12 && (axis.at(0.5) - 10.0).abs() < 1e-12);
        assert_eq!((chart(&[5.0]).horizontal(), chart(&[0.0]).vertical()), (None, None));
    }
}
