//! Text renderer: pages of the view model for a terminal or a pipe. It does not depend on gauges.

mod chart;

use crate::head;
use crate::machine::MACHINE_SECTION;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};
use nodegauge_gauge::view::{
    Block, Chart, HeatMaps, Note, Page, Section, Table, TableCell, Tone, wrap,
};
use nodegauge_measure::legible::{escape_controls, escape_lines};

/// Width of the column of labels.
const LABEL: usize = 11;
/// Maximum number of characters of a line of prose. Longer lines are hard to read, even on a wide terminal.
const PROSE: usize = 120;
/// Maximum width of bars in characters, unless the table specifies another width.
const MAX_BAR: usize = 24;
/// Divisor of the terminal width that gives the width of bars on a wide terminal.
const BAR_PART: usize = 4;
/// Minimum width of bars in characters.
const MIN_BAR: usize = 4;
/// Number of blanks between two columns of a table.
const GAP: usize = 2;
/// Indentation of the rows below a heading.
const INDENT: usize = 2;
/// Maximum number of characters of a word that is never split in the last column of a table.
const WORD: usize = 12;
/// Placeholder for a heading between the rows: a private-use character that no text contains.
const HEADING: char = '\u{e000}';
/// Private-use characters, one per tone, that mark words while a table is laid out. No text contains them.
const TONES: [(Tone, char); 6] = [
    (Tone::Strong, '\u{2061}'),
    (Tone::Faint, '\u{2062}'),
    (Tone::Warning, '\u{2063}'),
    (Tone::Bad, '\u{2064}'),
    (Tone::Better, '\u{200b}'),
    (Tone::Worse, '\u{200c}'),
];
const END: char = '\u{2060}';
/// Escape sequence that ends a colour.
const RESET: &str = "\x1b[0m";

/// Style of the output: terminal width and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Number of columns of the terminal.
    pub width: u16,
    /// True if bold and colours are used.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, colour: false }
    }
}

impl Style {
    fn toned(self, tone: Tone, text: &str) -> String {
        if !self.colour || tone == Tone::Plain {
            return text.to_owned();
        }
        format!("{}{text}{RESET}", escape(tone))
    }
}

fn escape(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Strong => "\x1b[1m",
        Tone::Faint => "\x1b[2m",
        Tone::Warning => "\x1b[1;33m",
        Tone::Bad => "\x1b[1;31m",
        Tone::Better => "\x1b[32m",
        Tone::Worse => "\x1b[31m",
    }
}

/// Renders a page: the heading, the header, and the sections, separated by empty lines. The conclusion is between the
/// description of the node and the figures. A run prints the description before it measures, so this order is that of
/// its output.
pub fn page(page: &Page, style: Style) -> String {
    let mut out = String::new();
    for line in heading(&escape_controls(&page.heading), usize::from(style.width)) {
        out.push_str(&format!("{}\n", style.toned(Tone::Strong, &line)));
    }
    let mut conclusion = page.conclusion.as_deref();
    let mut conclude = |written: &mut String| {
        if let Some(text) = conclusion.take() {
            begin_part(written);
            written.push_str(&note(&Note::new("result", text), style));
        }
    };
    let head = head::head_section(page);
    let sections = head.iter().chain(&page.sections);
    for section in sections.filter(|section| !section.blocks.is_empty()) {
        if section.id != MACHINE_SECTION {
            conclude(&mut out);
        }
        begin_part(&mut out);
        out.push_str(&self::section(section, style));
    }
    conclude(&mut out);
    out
}

/// Breaks a heading into lines that fit the width: at commas, and within a part that is too wide, at blanks.
fn heading(text: &str, width: usize) -> Vec<String> {
    const JOINED: &str = "\u{a0}";
    let parts: Vec<String> = text.split(", ").map(|part| part.replace(' ', JOINED)).collect();
    let lines = wrap(&parts.join(", "), width).into_iter().map(|line| line.replace(JOINED, " "));
    lines.filter(|line| !line.is_empty()).flat_map(|line| wrap(&line, width)).collect()
}

/// Formats the heading of a block, wrapped at the width of the terminal.
fn heading_lines(text: &str, tone: Tone, style: Style) -> String {
    let lines = wrap(&escape_controls(text), usize::from(style.width));
    lines.iter().map(|line| format!("{}\n", style.toned(tone, line))).collect()
}

/// Adds an empty line before the next part of a page, unless the page is empty.
fn begin_part(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

/// Renders a section as text.
pub fn section(section: &Section, style: Style) -> String {
    section.blocks.iter().map(|block| self::block(block, style)).collect()
}

fn block(block: &Block, style: Style) -> String {
    match block {
        Block::Heading(text) => heading_lines(text, Tone::Strong, style),
        Block::Text(text) => self::text(&escape_controls(text), style),
        Block::Note(note) => self::note(note, style),
        Block::Table(table) => self::table(&legible(table), style),
        Block::Chart(chart) => chart::chart(&legible_chart(chart), style),
        Block::HeatMaps(maps) => chart::heat_maps(&legible_maps(maps), style),
        Block::Card(card) => self::table(&legible(&card.table()), style),
        // Tables on the page contain the same data.
        Block::Picture(_) => String::new(),
        Block::Gap => "\n".to_owned(),
    }
}

/// Renders a note: the label in the left column, and the wrapped text in the right column. If the label fills its
/// column, the text begins on the next line.
fn note(note: &Note, style: Style) -> String {
    let indent = if note.nested { LABEL } else { 0 };
    let width = (usize::from(style.width).min(PROSE) - indent).max(40) - LABEL;
    let text = if note.has_lines { escape_lines(&note.text) } else { escape_controls(&note.text) };
    let own_label = escape_controls(&note.label);
    let tone = if note.tone == Tone::Plain { Tone::Strong } else { note.tone };
    let mut out = String::new();
    let mut lines: Vec<String> = text.lines().flat_map(|line| wrap(line, width)).collect();
    if own_label.chars().count() >= LABEL {
        lines.insert(0, String::new());
    }
    let text_tone = if note.faint { Tone::Faint } else { Tone::Plain };
    for (i, line) in lines.into_iter().enumerate() {
        let line = style.toned(text_tone, &line);
        let label = if i == 0 { &*own_label } else { "" };
        let head = if label.is_empty() { String::new() } else { style.toned(tone, label) };
        let blanks = LABEL - label.chars().count().min(LABEL);
        out.push_str(&format!("{:indent$}{head}{:blanks$}{line}\n", "", ""));
    }
    out
}

/// Escapes the control characters in a table. Cells may contain text from other records, which must not control the
/// terminal or begin a new line. Escape sequences for colours are added later.
fn legible(table: &Table) -> Table {
    let mut legible = table.clone();
    let cells = legible.rows.iter_mut().flatten();
    let headings = legible.headings.iter_mut().map(|(_, heading)| heading);
    for cell in cells.chain(headings) {
        let shown =
            if cell.has_lines { escape_lines(&cell.text) } else { escape_controls(&cell.text) };
        cell.text = shown.into_owned();
    }
    let titles = legible.columns.iter_mut().map(|column| &mut column.title);
    for title in titles.chain(&mut legible.optional) {
        *title = escape_controls(title).into_owned();
    }
    legible
}

/// Escapes the control characters in the names of a chart's series.
fn legible_chart(chart: &Chart) -> Chart {
    let mut legible = chart.clone();
    for series in &mut legible.series {
        series.name = escape_controls(&series.name).into_owned();
    }
    legible
}

/// Escapes the control characters in the names of heat maps.
fn legible_maps(maps: &HeatMaps) -> HeatMaps {
    let mut legible = maps.clone();
    let titles = legible.maps.iter_mut().map(|map| &mut map.title);
    for name in legible.rows.iter_mut().chain(&mut legible.columns).chain(titles) {
        *name = escape_controls(name).into_owned();
    }
    legible
}

fn text(text: &str, style: Style) -> String {
    let width = usize::from(style.width).min(PROSE);
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= width {
            out.push_str(&format!("{line}\n"));
            continue;
        }
        for part in wrap(line, width) {
            out.push_str(&format!("{part}\n"));
        }
    }
    out
}

/// Returns the width of a column in characters if its cells are not wrapped and its bars have the minimum width.
fn column_width(table: &Table, at: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(at));
    let cells = cells.map(|cell| match cell.bar {
        Some(_) => MIN_BAR,
        None => cell.text.lines().map(length).max().unwrap_or(0),
    });
    let title = table.columns.get(at).map_or(0, |column| length(&column.title));
    cells.chain([title]).max().unwrap_or(0)
}

/// Returns the length of a text in characters.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the width of a table in characters if its cells are not wrapped and its bars have the minimum width.
fn natural_width(table: &Table) -> usize {
    let columns = (0..table.columns.len()).map(|at| column_width(table, at) + GAP);
    columns.sum::<usize>().saturating_sub(GAP)
}

/// Returns the indentation of the rows of a table: rows below a heading are indented.
fn indentation(table: &Table) -> usize {
    if table.headings.iter().any(|(_, heading)| !heading.is_blank()) { INDENT } else { 0 }
}

/// Returns the width of the first column, including the indentation of cells below a heading.
fn first_width(table: &Table) -> usize {
    let mut width = table.columns.first().map_or(0, |column| length(&column.title));
    for (at, row) in table.rows.iter().enumerate() {
        let heading = table.headings.iter().rfind(|(from, _)| *from <= at);
        let indent = heading.map_or(0, |(_, text)| if text.text.is_empty() { 0 } else { INDENT });
        let cell = row.first().and_then(|cell| cell.text.lines().map(length).max()).unwrap_or(0);
        width = width.max(indent + cell);
    }
    width
}

/// Returns the minimum width of the last column, which is wrapped: the length of its longest word, but at most
/// [`WORD`]. A title is broken only between words.
fn min_last_width(table: &Table) -> usize {
    let last = table.columns.len().saturating_sub(1);
    let cells = table.rows.iter().filter_map(|row| row.get(last));
    let words = cells.flat_map(|cell| cell.text.split([' ', '\n'])).map(length);
    let title = table.columns.get(last).map_or("", |column| &column.title);
    let title = title.split(' ').map(length).max().unwrap_or(0);
    words.max().unwrap_or(0).min(WORD).max(title)
}

/// Splits a table by columns into parts that fit the terminal. Each part begins with the first column.
fn parts(table: &Table, style: Style) -> Vec<Table> {
    let width = usize::from(style.width);
    let last = table.columns.len().saturating_sub(1);
    let needed: Vec<usize> = (0..table.columns.len())
        .map(|at| match at {
            0 => first_width(table) + GAP,
            at if at == last => min_last_width(table),
            at => column_width(table, at) + GAP,
        })
        .collect();
    if last < 2 || needed.iter().sum::<usize>() <= width {
        return vec![table.clone()];
    }
    let mut parts: Vec<Vec<usize>> = vec![vec![0]];
    let mut used = needed[0];
    for (at, needed_width) in needed.iter().enumerate().skip(1) {
        if used + needed_width > width && parts.last().is_some_and(|part| part.len() > 1) {
            parts.push(vec![0]);
            used = needed[0];
        }
        parts.last_mut().expect("there is a first part").push(at);
        used += needed_width;
    }
    parts.iter().map(|columns| table.with_columns(columns)).collect()
}

/// Returns the table without the optional columns that do not fit the terminal, and the titles of these columns. If
/// this is not sufficient, bars are left out, because they repeat a figure.
fn fitted(table: &Table, style: Style) -> (Table, Vec<String>) {
    let mut fitted = table.clone();
    let mut left_out = Vec::new();
    let width = usize::from(style.width);
    for title in &table.optional {
        if natural_width(&fitted) <= width {
            break;
        }
        let Some(at) = fitted.columns.iter().position(|column| column.title == *title) else {
            continue;
        };
        remove_column(&mut fitted, at);
        left_out.push(title.clone());
    }
    let bars = (0..fitted.columns.len()).rev().find(|at| has_only_bars(&fitted, *at));
    if let Some(at) = bars.filter(|_| natural_width(&fitted) > width) {
        remove_column(&mut fitted, at);
    }
    (fitted, left_out)
}

fn remove_column(table: &mut Table, at: usize) {
    table.columns.remove(at);
    for row in table.rows.iter_mut().filter(|row| row.len() > at) {
        row.remove(at);
    }
}

/// True if a column contains only bars.
fn has_only_bars(table: &Table, at: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(at));
    cells.clone().any(|cell| cell.bar.is_some())
        && cells.all(|cell| cell.bar.is_some() || cell.text.is_empty())
}

/// Renders a table without frames. Optional columns that do not fit are left out. A table that is still too wide is
/// split into parts, one below the other.
fn table(table: &Table, style: Style) -> String {
    let (fitted, left_out) = fitted(table, style);
    let parts: Vec<String> =
        parts(&fitted, style).iter().map(|part| whole_table(part, style)).collect();
    let mut out = parts.join("\n");
    if !left_out.is_empty() {
        let text = format!("not shown at this width: {}", left_out.join(", "));
        for line in wrap(&text, usize::from(style.width)) {
            out.push_str(&format!("{}\n", style.toned(Tone::Faint, &line)));
        }
    }
    out
}

/// Renders all columns of a table. Only the last column wraps, at the width of the terminal.
fn whole_table(table: &Table, style: Style) -> String {
    let bars = bar_room(table, style);
    let last = table.columns.len().saturating_sub(1);
    let last_room = last_room(table, style);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &table.rows {
        let cells = row.iter().enumerate().map(|(at, cell)| match cell.bar {
            Some(share) => "#".repeat((share.0.clamp(0.0, 1.0) * bars as f64).round() as usize),
            None if at == last => marked(&wrapped(cell, last_room), style),
            None => marked(cell, style),
        });
        rows.push(cells.collect());
    }
    // Headings become separate lines, so that they do not widen a column. A placeholder marks their position.
    for (i, (from, heading)) in table.headings.iter().enumerate().rev() {
        if !heading.text.is_empty() {
            let until = table.headings.get(i + 1).map_or(table.rows.len(), |(next, _)| *next);
            rows[*from..until].iter_mut().for_each(|row| row[0].insert_str(0, "  "));
            rows.insert(*from, vec![HEADING.to_string()]);
        }
    }
    let shown = table.headings.iter().filter(|(_, heading)| !heading.text.is_empty());
    let mut headings = shown.map(|(_, heading)| heading_lines(&heading.text, heading.tone, style));
    let mut text = String::new();
    for line in laid_out(table, &rows, style).lines() {
        if line.trim_start().starts_with(HEADING) {
            text.push_str(&headings.next().unwrap_or_default());
        } else {
            text.push_str(&format!("{}\n", line.trim_end()));
        }
    }
    if style.colour {
        for (tone, mark) in TONES {
            text = text.replace(mark, escape(tone));
        }
        text = text.replace(END, RESET);
    }
    text
}

/// Returns the width that the other columns leave for the last column.
fn last_room(table: &Table, style: Style) -> usize {
    let last = table.columns.len().saturating_sub(1);
    let first = if last > 0 { first_width(table) + GAP } else { 0 };
    let others: usize = (1..last).map(|at| column_width(table, at) + GAP).sum();
    usize::from(style.width).saturating_sub(first + others).max(min_last_width(table))
}

/// Returns a cell with its text wrapped.
fn wrapped(cell: &TableCell, width: usize) -> TableCell {
    let lines: Vec<String> = cell.text.lines().flat_map(|line| wrap(line, width)).collect();
    TableCell { text: lines.join("\n"), ..cell.clone() }
}

/// Encloses each word of a cell in marks for the tone of the cell.
fn marked(cell: &TableCell, style: Style) -> String {
    let Some((_, mark)) = TONES.iter().find(|(tone, _)| *tone == cell.tone && style.colour) else {
        return cell.text.clone();
    };
    let words = cell.text.split_inclusive([' ', '\n']).map(|word| {
        let text = word.trim_end_matches([' ', '\n']);
        format!("{mark}{text}{END}{}", &word[text.len()..])
    });
    words.collect()
}

fn laid_out(table: &Table, rows: &[Vec<String>], style: Style) -> String {
    let mut grid = comfy_table::Table::new();
    grid.load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width);
    if table.columns.iter().any(|column| !column.title.is_empty()) {
        grid.set_header(table.columns.iter().map(|column| &column.title));
    }
    grid.add_rows(rows);
    let last = grid.column_count().saturating_sub(1);
    let word = min_last_width(table) as u16;
    for (i, column) in grid.column_iter_mut().enumerate() {
        if table.columns.get(i).is_some_and(|described| described.right) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_padding((0, if i == last { 0 } else { GAP as u16 }));
        column.set_constraint(if i == last {
            ColumnConstraint::LowerBoundary(Width::Fixed(word))
        } else {
            ColumnConstraint::ContentWidth
        });
    }
    grid.to_string()
}

/// Returns the width that the other columns leave for bars, in characters.
fn bar_room(table: &Table, style: Style) -> usize {
    let indent = indentation(table);
    let used: usize = (0..table.columns.len())
        .filter(|i| table.rows.iter().all(|row| row.get(*i).is_none_or(|cell| cell.bar.is_none())))
        .map(|i| {
            let cells = table.rows.iter().filter_map(|row| row.get(i)).map(|cell| &cell.text);
            let widths = cells.chain([&table.columns[i].title]).map(|text| text.chars().count());
            widths.max().unwrap_or(0) + 2
        })
        .sum();
    let width = usize::from(style.width);
    let longest = table.longest_bar.unwrap_or(MAX_BAR).max(width / BAR_PART);
    width.saturating_sub(used + indent).clamp(MIN_BAR, longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Fraction;

    #[test]
    fn note_label_is_in_the_left_column() {
        let style = Style { width: 40, colour: false };
        let note = Note::new("machine", "one two three four five six seven eight");
        let lines = "machine    one two three four five six\n           seven eight\n";
        assert_eq!(super::note(&note, style), lines);
        let long = Note::new("side_by_side", "one two");
        assert_eq!(super::note(&long, style), "side_by_side\n           one two\n");
    }

    #[test]
    fn long_heading_is_broken_at_commas() {
        let text = "nodegauge on n01, AMD EPYC, 1 socket x 2 cores, 21.9 s";
        let lines = ["nodegauge on n01,", "AMD EPYC,", "1 socket x 2 cores,", "21.9 s"];
        assert_eq!(heading(text, 20), lines);
        assert_eq!(heading(text, 80), [text]);
        assert_eq!(heading("two words", 5), ["two", "words"]);
        assert!(heading("", 80).is_empty());
    }

    #[test]
    fn column_heading_is_not_split_and_omitted_columns_are_listed() {
        let mut one = Table::new(&["host", ">triad bandwidth", ">runs"]);
        one.push_row(["n01".into(), "380.0 GB/s".into(), "1".into()]);
        let style = Style { width: 24, colour: false };
        let whole = super::table(&one, style);
        assert!(whole.contains("runs"), "{whole}");
        one.optional = ["runs", "triad bandwidth"].map(str::to_owned).to_vec();
        let fitted = super::table(&one, style);
        assert!(fitted.starts_with("host  triad bandwidth\n"), "{fitted}");
        let words: Vec<&str> = fitted.split_whitespace().collect();
        assert!(words.join(" ").ends_with("not shown at this width: runs"), "{fitted}");
    }

    #[test]
    fn headings_keep_their_rows_if_a_column_wraps() {
        let mut one = Table::new(&["hpl", ">A", "verdict"]);
        one.push_heading("a heading that is longer than all its columns");
        one.push_row(["rating".into(), "1.5".into(), "no confidence".into()]);
        one.push_row(["dgemm".into(), "2".into(), "faster".into()]);
        one.push_heading("");
        one.push_row(["peak".into(), "3".into(), "faster".into()]);
        let text = super::table(&one, Style { width: 26, colour: false });
        let rows = "  rating  1.5  no\n               confidence\n  dgemm     2  faster\npeak        3  faster\n";
        let heading = "a heading that is longer\nthan all its columns";
        assert_eq!(text, format!("hpl         A  verdict\n{heading}\n{rows}"));
    }

    #[test]
    fn foreign_text_cannot_control_the_terminal_or_begin_a_line() {
        let hostile = "\x1b[31mred\x1b[8m\x1b]0;title\x07\r\nfake\u{202e}";
        let mut cells = Table::new(&["what", ""]);
        cells.push_heading(hostile);
        cells.push_row([hostile.into(), hostile.into()]);
        let blocks = vec![
            Block::Heading(hostile.to_owned()),
            Block::Note(Note::new("host", hostile)),
            Block::Table(cells),
        ];
        let section = Section { blocks, ..Section::default() };
        let hostile_page =
            Page { heading: hostile.to_owned(), sections: vec![section], ..Page::default() };
        let shown = super::page(&hostile_page, Style { width: 80, colour: false });
        assert!(!shown.contains(['\x1b', '\x07', '\r', '\u{202e}']), "{shown:?}");
        assert!(!shown.lines().any(|line| line.starts_with("fake")), "{shown}");
    }

    #[test]
    fn colours_do_not_change_the_layout() {
        let mut one = Table::new(&["what", ">A", "verdict"]);
        one.push_row(["copy".into(), TableCell::text("7").tone(Tone::Bad), "no confidence".into()]);
        one.push_row([
            "add".into(),
            "35".into(),
            TableCell::text("much faster").tone(Tone::Strong),
        ]);
        let plain = super::table(&one, Style { width: 22, colour: false });
        let coloured = super::table(&one, Style { width: 22, colour: true });
        assert!(coloured.contains("  \x1b[1;31m7\x1b[0m  no\n"), "{coloured:?}");
        assert!(coloured.contains("\x1b[1mfaster\x1b[0m\n"), "{coloured:?}");
        let escapes = ["\x1b[1;31m", "\x1b[1m", RESET];
        assert_eq!(escapes.iter().fold(coloured, |text, escape| text.replace(escape, "")), plain);
    }

    #[test]
    fn bars_are_omitted_if_narrow_and_grow_on_wide_terminals() {
        let mut one = Table::new(&["what", ">GB/s", ""]);
        one.push_row(["random_write".into(), "7".into(), TableCell::bar(Fraction(1.0))]);
        let narrow = super::table(&one, Style { width: 20, colour: false });
        assert_eq!(narrow, "what          GB/s\nrandom_write     7\n");
        let wide = super::table(&one, Style { width: 200, colour: false });
        assert!(wide.ends_with(&format!("7  {}\n", "#".repeat(50))), "{wide}");
    }

    #[test]
    fn wide_table_is_split_into_parts_that_fit() {
        let names: Vec<String> = (0..30).map(|i| format!("n{i:02}")).collect();
        let columns = nodegauge_gauge::view::ColumnList::<String>::new()
            .left("ns", String::clone)
            .columns_for_each(&names, |to| (*to).clone(), |from, to| format!("{from}{to}"));
        let matrix = columns.table(&names);
        for width in 40..=200 {
            let text = super::table(&matrix, Style { width, colour: false });
            let longest = text.lines().map(super::length).max().unwrap();
            assert!(longest <= usize::from(width), "{width}: {text}");
            let words: std::collections::HashSet<&str> = text.split_whitespace().collect();
            assert_eq!(words.len(), 1 + 30 + 900, "{text}");
        }
    }

    #[test]
    fn last_column_keeps_numbers_with_their_units() {
        let mut one = Table::new(&["figure", "remark"]);
        one.push_row(["triad".into(), "too slow: 12 GB/s, use --budget 10".into()]);
        for width in 20..=60 {
            let text = super::table(&one, Style { width, colour: true });
            assert!(text.contains("12 GB/s") && text.contains("--budget 10"), "{width}: {text}");
        }
    }

    #[test]
    fn bars_fill_the_remaining_width() {
        let mut one = Table::new(&["what", ">GB/s", ""]);
        one.push_row(["copy".into(), "7".into(), TableCell::bar(Fraction(1.0))]);
        one.push_row(["scale".into(), "3.5".into(), TableCell::bar(Fraction(0.5))]);
        let text = super::table(&one, Style { width: 24, colour: false });
        assert_eq!(text, "what   GB/s\ncopy      7  ###########\nscale   3.5  ######\n");
        one.headings = vec![(0, "all".into())];
        let coloured = super::table(&one, Style { width: 24, colour: false });
        assert!(coloured.contains("\n  copy      7  #########\n"), "{coloured}");
    }
}
