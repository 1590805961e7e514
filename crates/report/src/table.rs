//! Tables without frames, and the few styles that text may carry.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use nodegauge_measure::record::Record;

/// How text may look: the width of the terminal, and whether escapes for colour may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: u16,
    /// Whether to use bold and colour.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, colour: false }
    }
}

impl Style {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
    /// What the reader looks for first.
    pub(crate) fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }
    /// What deserves attention.
    pub(crate) fn warning(self, text: &str) -> String {
        self.wrap("1;33", text)
    }
    /// What is wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("1;31", text)
    }
    /// What can be skipped.
    pub(crate) fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }
}

/// How loud a label is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    /// Like all labels.
    Plain,
    /// Deserves attention.
    Warning,
    /// Is wrong.
    Bad,
}

/// Lays out rows in columns; those in `right` are right-aligned. Only the last column wraps, at the
/// width of the terminal: a wrapped identifier or figure is of no use.
pub(crate) fn table(
    style: Style,
    header: &[&str],
    rows: &[Vec<String>],
    right: &[usize],
) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    for row in rows {
        table.add_row(row);
    }
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let columns = header.len().max(rows.iter().map(Vec::len).max().unwrap_or(0));
    for (i, column) in table.column_iter_mut().enumerate() {
        let last = i + 1 == columns;
        column.set_padding((0, if last { 0 } else { 2 }));
        column.set_constraint(match last {
            false => ColumnConstraint::ContentWidth,
            true => ColumnConstraint::LowerBoundary(Width::Fixed(longest_word(rows, i))),
        });
    }
    let text = table.to_string();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Letters of the longest word in a column, so that no usual word is torn apart.
fn longest_word(rows: &[Vec<String>], column: usize) -> u16 {
    const USUAL: usize = 12;
    let words = rows.iter().filter_map(|row| row.get(column)).flat_map(|cell| cell.split(' '));
    words.map(|word| word.chars().count()).max().unwrap_or(0).min(USUAL) as u16
}

/// A labelled paragraph: the label in a column of its own, the text wrapped beside it.
pub(crate) fn paragraph(style: Style, label: &str, text: &str) -> String {
    loud_paragraph(style, Loudness::Plain, label, text)
}

/// A labelled paragraph whose label is as loud as it must be.
pub(crate) fn loud_paragraph(style: Style, loudness: Loudness, label: &str, text: &str) -> String {
    let code = match loudness {
        Loudness::Plain => "1",
        Loudness::Warning => "1;33",
        Loudness::Bad => "1;31",
    };
    let width = usize::from(style.width).max(40) - LABEL;
    let lines = text.lines().flat_map(|line| wrap(line, width));
    let mut out = String::new();
    for (i, line) in lines.enumerate() {
        let shown = i == 0 && !label.is_empty();
        let head = if shown { style.wrap(code, label) } else { String::new() };
        let blanks = LABEL - if i == 0 { label.chars().count().min(LABEL) } else { 0 };
        out.push_str(&format!("{head}{:blanks$}{line}\n", ""));
    }
    out
}

/// Says that a run was interrupted, so that its table is not taken for whole; empty otherwise.
pub(crate) fn incomplete(style: Style, record: &Record) -> String {
    if record.complete {
        return String::new();
    }
    let text = "the run was interrupted before all was measured";
    loud_paragraph(style, Loudness::Warning, "incomplete", text)
}

/// Width of the column of labels.
pub(crate) const LABEL: usize = 11;

pub(crate) use nodegauge_gauge::view::wrap;

/// Indents every line.
pub(crate) fn indent(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_keeps_its_label_in_a_column() {
        let style = Style { width: 40, colour: false };
        let text = paragraph(style, "machine", "one two three four five six seven eight");
        assert_eq!(text, "machine    one two three four five six\n           seven eight\n");
    }
}
