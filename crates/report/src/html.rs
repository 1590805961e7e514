//! HTML renderer: a page of the view model becomes one file that needs no network. It does not depend on gauges.
//!
//! Text from records becomes text of elements or attributes, escaped by `markup`, or JSON in a data block that is not
//! executed. A content security policy in the page allows only its own scripts, identified by their digests.
//!
//! A section begins with its pictures. Notes that follow a table or picture explain it and are collapsed.

mod strip;

use crate::markup::{self, Markup, element, fixed_text, script, text};
use nodegauge_gauge::view::{
    AxisQuantity, Block, Drawing, HeatMaps, Note, Page, PageHead, Picture, Section, Table,
    TableCell, Tone, ValueGrid, is_quantity, words,
};
use nodegauge_measure::Fraction;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Minimum number of rows and columns of a heat map that can be shown as a 3D surface.
const SURFACE: usize = 3;

/// Maximum number of columns with which a table keeps its natural width. At the full width of the page, so few columns
/// would be too far apart.
const FEW: usize = 3;

/// Maximum length in bytes of a cell's text that does not wrap. A longer text wraps in the last column, whose cells
/// then have a minimum width.
const LONG: usize = 24;

/// Separator between facts in the header of a page.
const PART: &str = " \u{b7} ";

/// Width of a decimal point, as a multiple of the width of a digit.
const POINT: f64 = 0.5;

const STYLE: &str = include_str!("../assets/report.css");

/// Script in the page.
#[derive(Clone, Copy)]
struct Script {
    /// Name of the file in `assets`.
    name: &'static str,
    text: fn() -> &'static str,
}

/// Apache ECharts 6.1.0 and ECharts-GL 2.1.0, unmodified; the build script compresses them.
const ECHARTS: Script = Script { name: "echarts.min.js", text: || &ECHARTS_TEXT };
const ECHARTS_GL: Script = Script { name: "echarts-gl.min.js", text: || &ECHARTS_GL_TEXT };
const DRAW: Script = Script { name: "report.js", text: || include_str!("../assets/report.js") };

static ECHARTS_TEXT: LazyLock<String> =
    LazyLock::new(|| decompressed(include_bytes!(concat!(env!("OUT_DIR"), "/echarts.min.js"))));
static ECHARTS_GL_TEXT: LazyLock<String> =
    LazyLock::new(|| decompressed(include_bytes!(concat!(env!("OUT_DIR"), "/echarts-gl.min.js"))));

/// Decompresses a script that the build script has compressed.
fn decompressed(script: &[u8]) -> String {
    let text = miniz_oxide::inflate::decompress_to_vec_zlib(script);
    String::from_utf8(text.expect("the build script has compressed it")).expect("scripts are text")
}

/// Renders a page as one file. The names of pictures and tables that are saved from it begin with `name`.
pub fn page(page: &Page, name: &str) -> String {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut links: Vec<Markup> = Vec::new();
    let mut sections: Vec<Markup> = Vec::new();
    let mut pictures: Vec<Picture> = Vec::new();
    for shown in page.sections.iter().filter(|section| !section.blocks.is_empty()) {
        let anchor = anchor(shown.id, &mut seen);
        let link = element("a", &[("href", &format!("#{anchor}"))], [text(&heading(shown.id))]);
        links.push(element("li", &[], [link]));
        sections.push(section(shown, &anchor));
        pictures.extend(shown.blocks.iter().flat_map(block_pictures));
    }
    let mut scripts: Vec<Script> = Vec::new();
    scripts.extend((!pictures.is_empty()).then_some(ECHARTS));
    scripts.extend(pictures.iter().any(is_surface).then_some(ECHARTS_GL));
    scripts.push(DRAW);
    let digests: Vec<String> =
        scripts.iter().map(|script| format!("'sha256-{}'", markup::digest(script.name))).collect();
    let policy = format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        digests.join(" ")
    );
    let viewport = "width=device-width, initial-scale=1";
    let head = [
        element("meta", &[("charset", "utf-8")], []),
        element("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)], []),
        element("meta", &[("name", "viewport"), ("content", viewport)], []),
        element("meta", &[("name", "color-scheme"), ("content", "light dark")], []),
        element("title", &[], [text(&page.heading)]),
        element("style", &[], [fixed_text(STYLE)]),
    ];
    let body = [
        element("a", &[("class", "skip"), ("href", "#main")], [text("skip to the figures")]),
        page_head(page),
        element("nav", &[("aria-label", "sections")], [element("ul", &[], links)]),
        element(
            "noscript",
            &[],
            [element("p", &[], [text("Pictures need JavaScript; tables do not.")])],
        ),
        element("main", &[("id", "main")], sections),
    ];
    let scripts =
        scripts.into_iter().map(|script| element("script", &[], [fixed_text((script.text)())]));
    let body = element("body", &[("data-name", name)], body.into_iter().chain(scripts));
    let html = element("html", &[("lang", "en")], [element("head", &[], head), body]);
    format!("<!doctype html>\n{html}\n")
}

/// Returns the name of a section's anchor, which is unique on the page.
fn anchor<'a>(id: &'a str, seen: &mut BTreeMap<&'a str, usize>) -> String {
    let number = seen.entry(id).or_default();
    *number += 1;
    let name = id.replace(' ', "-");
    if *number == 1 { name } else { format!("{name}-{number}") }
}

/// Returns the header of the page: the machine, the run, and the sentence about the trust in its figures.
fn page_head(page: &Page) -> Markup {
    let concluded = page.conclusion.as_ref();
    let concluded = concluded
        .map(|sentence| element("p", &[("class", "conclusion")], [text(&unbroken(sentence))]));
    let Some(PageHead { title, facts, trust, tone, findings }) = &page.head else {
        let heading = element("h1", &[], [text(&page.heading)]);
        let about = std::iter::once(heading).chain(concluded);
        return element("header", &[], [element("div", &[("class", "about")], about)]);
    };
    let heading = element("h1", &[], [text(title)]);
    // Blanks in the command are kept, because users copy the command from the page.
    let (command, others) = facts.split_once(PART).unwrap_or((facts, ""));
    let others: Vec<String> = others.split(PART).map(unbroken).collect();
    let words = [&[command.to_owned()][..], &others].concat();
    let words: Vec<String> = words.into_iter().filter(|part| !part.is_empty()).collect();
    let line = element("p", &[("class", "facts")], [text(&words.join(PART))]);
    let about = std::iter::once(heading).chain(concluded).chain([line]);
    let mut trusted = vec![element("p", &[("class", class(*tone))], [text(&unbroken(trust))])];
    let count = findings.iter().filter(|note| !note.nested).count();
    let summary = match count {
        1 => "1 finding about the node, with its remedy".to_owned(),
        n => format!("{n} findings about the node, with their remedies"),
    };
    trusted.extend((count > 0).then(|| folded(&summary, "", findings.iter().map(note))));
    let parts = [
        element("div", &[("class", "about")], about),
        element("div", &[("class", "trust")], trusted),
    ];
    element("header", &[], parts)
}

/// Replaces the blank between a number and its unit by a blank that does not break.
fn unbroken(text: &str) -> String {
    let mut joined = String::new();
    let mut before = "";
    for word in text.split(' ') {
        if !joined.is_empty() {
            joined.push(if is_quantity(before, word) { '\u{a0}' } else { ' ' });
        }
        joined.push_str(word);
        before = word;
    }
    joined
}

/// Returns a collapsed element.
fn folded(summary: &str, tone: &str, inside: impl IntoIterator<Item = Markup>) -> Markup {
    let summary = element("summary", &[("class", tone)], [text(summary)]);
    let region = element("div", &[], inside);
    element("details", &[("class", "folded")], [summary, region])
}

/// Returns the heading of a section, with acronyms in capitals and without underscores.
fn heading(id: &str) -> String {
    words::with_acronyms(&id.replace(['_', '-'], " "))
}

fn section(section: &Section, anchor: &str) -> Markup {
    let mut inside = vec![element("h2", &[], [text(&heading(section.id))])];
    let is_shown =
        |block: &Block| is_drawn(block) || matches!(block, Block::Table(_) | Block::Card(_));
    let lead = section.blocks.iter().position(is_shown).unwrap_or(section.blocks.len());
    let (leading, rest) = section.blocks.split_at(lead);
    let (drawn, others): (Vec<&Block>, Vec<&Block>) = rest.iter().partition(|one| is_drawn(one));
    inside.extend(leading.iter().filter_map(block));
    let pictures: Vec<Picture> = drawn.into_iter().flat_map(block_pictures).collect();
    if !pictures.is_empty() {
        let class = if begins_with_pair(&pictures) { "figures pair" } else { "figures" };
        inside.push(element("div", &[("class", class)], pictures.iter().map(figure)));
    }
    for blocks in others.chunk_by(|one, next| note_kind(one) == note_kind(next)) {
        let notes = blocks.iter().filter_map(|block| match block {
            Block::Note(note) => Some(note),
            _ => None,
        });
        let notes: Vec<&Note> = notes.collect();
        match note_kind(blocks[0]) {
            NoteKind::None => {
                inside.extend(blocks.iter().filter_map(|one| match one {
                    // The pictures of a section already contain the bars of its tables.
                    Block::Table(table) if !pictures.is_empty() => {
                        Some(self::table(&table.without_bars()))
                    }
                    other => block(other),
                }));
            }
            // Notes without a label are remarks on the table above them.
            NoteKind::Evidence if notes.iter().all(|note| note.label.is_empty()) => {
                inside.extend(
                    notes.iter().map(|one| element("p", &[("class", "text")], [text(&one.text)])),
                );
            }
            NoteKind::Evidence => {
                let labels: Vec<&str> = notes.iter().map(|note| note.label.as_str()).collect();
                inside.push(folded(&named(&labels), "", notes.iter().map(|one| note(one))));
            }
            NoteKind::Doubt => inside.extend(doubts(&notes)),
        }
    }
    element("section", &[("id", anchor), ("aria-label", anchor)], inside)
}

/// Joins the labels of collapsed notes, without repetitions: `evidence: how, samples, limit`.
fn named(labels: &[&str]) -> String {
    let mut known: Vec<&str> = Vec::new();
    for label in labels.iter().filter(|label| !label.is_empty()) {
        if !known.contains(label) {
            known.push(label);
        }
    }
    format!("evidence: {}", known.join(", "))
}

/// Returns the reasons for doubt. The first is shown; the others are collapsed.
fn doubts(notes: &[&Note]) -> Vec<Markup> {
    let [first, others @ ..] = notes else { return Vec::new() };
    let mut shown = vec![note(first)];
    if !others.is_empty() {
        let summary = format!("{} more of this kind", others.len());
        shown.push(folded(&summary, class(first.tone), others.iter().map(|one| note(one))));
    }
    shown
}

/// Kind of a block. Consecutive blocks of one kind are collapsed together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoteKind {
    /// The block is not a note.
    None,
    /// The note explains a figure.
    Evidence,
    /// The note is a reason for doubt.
    Doubt,
}

fn note_kind(block: &Block) -> NoteKind {
    match block {
        Block::Note(note) if matches!(note.tone, Tone::Warning | Tone::Bad) => NoteKind::Doubt,
        // The remark that figures are of a variant must stand next to the figures, so it is not collapsed.
        Block::Note(note) if note.label != "name" => NoteKind::Evidence,
        _ => NoteKind::None,
    }
}

fn is_drawn(block: &Block) -> bool {
    matches!(block, Block::Chart(_) | Block::HeatMaps(_) | Block::Picture(_))
}

/// Returns the pictures of a block.
fn block_pictures(block: &Block) -> Vec<Picture> {
    match block {
        Block::Picture(picture) => vec![picture.clone()],
        Block::Chart(chart) => {
            let names: Vec<&str> = chart.series.iter().map(|one| one.name.as_str()).collect();
            let title = match chart.x {
                _ if !chart.title.is_empty() => chart.title.clone(),
                AxisQuantity::Bytes => names.join(", ") + " over size",
                _ => names.join(", "),
            };
            vec![Picture::chart(title, chart.clone())]
        }
        Block::HeatMaps(maps) => grids(maps),
        _ => Vec::new(),
    }
}

/// Returns one picture per heat map.
fn grids(HeatMaps { setup, axes, rows, columns, maps, unit }: &HeatMaps) -> Vec<Picture> {
    let end = if setup.is_empty() { String::new() } else { format!(", {setup}") };
    let pictures = maps.iter().map(|map| Picture {
        title: map.title.replace('_', " ") + &end,
        drawing: Drawing::HeatMap(ValueGrid {
            axes: *axes,
            rows: rows.clone(),
            columns: columns.clone(),
            values: map.values.clone(),
            unit: *unit,
            surface: rows.len() >= SURFACE && columns.len() >= SURFACE,
        }),
    });
    pictures.collect()
}

fn is_surface(picture: &Picture) -> bool {
    matches!(&picture.drawing, Drawing::HeatMap(grid) if grid.surface)
}

/// True if the first two pictures are curves over the same quantity, e.g. latency and bandwidth over message size. The
/// page shows such pictures side by side.
fn begins_with_pair(pictures: &[Picture]) -> bool {
    let [first, second, ..] = pictures else { return false };
    match (&first.drawing, &second.drawing) {
        (Drawing::Chart(one), Drawing::Chart(other)) => {
            let [name, other_name] = [one.names[0], other.names[0]];
            !name.is_empty() && name == other_name && one.x == other.x
        }
        _ => false,
    }
}

/// Returns the element of a picture: its title, and the data that the script draws.
fn figure(picture: &Picture) -> Markup {
    let caption = element("figcaption", &[], [text(&picture.title)]);
    if let Drawing::Strips(card) = &picture.drawing {
        return element("figure", &[("class", "strips")], [caption, strip::card_rows(card)]);
    }
    element("figure", &[], [caption, script(picture)])
}

/// Returns the element of a block that is not a picture.
fn block(block: &Block) -> Option<Markup> {
    Some(match block {
        Block::Heading(words) => element("h3", &[], [text(words)]),
        Block::Text(words) => element("p", &[("class", "text")], [text(words)]),
        Block::Note(note) => self::note(note),
        Block::Table(table) => self::table(table),
        Block::Card(card) => strip::card_rows(card),
        Block::Gap | Block::Chart(_) | Block::HeatMaps(_) | Block::Picture(_) => return None,
    })
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Strong => "strong",
        Tone::Better => "better",
        Tone::Worse => "worse",
        Tone::Faint => "faint",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

fn note(note: &Note) -> Markup {
    let nested = if note.nested { " nested" } else { "" };
    let class = format!("note {}{nested}", class(note.tone));
    let faint = if note.faint { "faint" } else { "" };
    let words = element("span", &[("class", faint)], [text(&note.text)]);
    element("div", &[("class", &class)], [element("b", &[], [text(&note.label)]), words])
}

/// Returns a table that scrolls separately on narrow screens.
fn table(table: &Table) -> Markup {
    let bars: Vec<Fraction> = table.rows.iter().flatten().filter_map(|cell| cell.bar).collect();
    let longest = bars.iter().copied().fold(Fraction(1.0), Fraction::max);
    let max = decimals(table);
    let mut rows = Vec::new();
    for (i, row) in table.rows.iter().enumerate() {
        let heads = table.headings.iter().filter(|(at, cell)| *at == i && !cell.text.is_empty());
        let span = row.len().to_string();
        rows.extend(heads.map(|(_, cell)| {
            let attributes = [("colspan", span.as_str()), ("scope", "rowgroup")];
            element("tr", &[], [element("th", &attributes, [text(&cell.text)])])
        }));
        let mut cells = Vec::new();
        for (at, one) in row.iter().enumerate() {
            let right = table.columns.get(at).is_some_and(|column| column.right);
            cells.push(cell(one, right.then(|| max[at]), longest));
        }
        rows.push(element("tr", &[], cells));
    }
    let heads = table.columns.iter().enumerate().map(|(at, column)| {
        let right = if column.right { "right" } else { "" };
        let mut cells = table.rows.iter().filter_map(|row| row.get(at));
        if column.title.is_empty() && cells.any(|cell| cell.bar.is_some()) {
            return element("th", &[("scope", "col")], [text("relative to the highest")]);
        }
        if column.title.is_empty() {
            // A header cell must not be empty in HTML, so an empty heading becomes a data cell.
            return element("td", &[], []);
        }
        element("th", &[("scope", "col"), ("class", right)], [text(&column.title)])
    });
    let head = element("thead", &[], [element("tr", &[], heads)]);
    let named = table.columns.iter().any(|column| !column.title.is_empty());
    let parts = named.then_some(head).into_iter().chain([element("tbody", &[], rows)]);
    let is_small = table.columns.len() <= FEW;
    let class = match bars.first() {
        Some(_) => "bars",
        None if is_small => "few",
        None => "",
    };
    let whole = element("table", &[("class", class)], parts);
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    let label = format!("table of {}", titles.join(" "));
    let region =
        [("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", &label)];
    element("div", &[("class", "block")], [element("div", &region, [whole])])
}

/// Returns the number of decimals of a number at the start of a text; `None` if there is no number.
fn decimal_count(text: &str) -> Option<usize> {
    let number = text.trim_start_matches(['+', '-']).split([' ', 'e']).next()?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = [whole, decimals].iter().all(|part| part.chars().all(|c| c.is_ascii_digit()));
    (!whole.is_empty() && are_digits).then_some(decimals.len())
}

/// Returns the maximum number of decimals of each column. It is 0 for a column with different units, whose numbers
/// cannot be aligned.
fn decimals(table: &Table) -> Vec<usize> {
    let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0).max(table.columns.len());
    (0..columns).map(|at| column_decimals(table, at)).collect()
}

/// Returns the maximum number of decimals in a column, or 0.
fn column_decimals(table: &Table, at: usize) -> usize {
    let cells = table.rows.iter().filter_map(|row| row.get(at));
    let numbers: Vec<(usize, Option<&str>)> = cells
        .filter_map(|cell| {
            let unit = cell.text.split_once(' ').map(|(_, unit)| unit);
            Some((decimal_count(&cell.text)?, unit))
        })
        .collect();
    let is_alike = numbers.iter().all(|(_, unit)| *unit == numbers[0].1);
    let max = numbers.iter().map(|(decimals, _)| *decimals).max().filter(|_| is_alike);
    max.unwrap_or(0)
}

/// Returns a cell. The width of a bar is relative to `longest`. In a right-aligned column, numbers with fewer than
/// `decimals` decimals are shifted to the left, together with their units.
fn cell(cell: &TableCell, decimals: Option<usize>, longest: Fraction) -> Markup {
    let right = if decimals.is_some() { " right" } else { "" };
    let long = if cell.text.len() > LONG { " long" } else { "" };
    let class = format!("{}{right}{long}", class(cell.tone));
    let value = cell.figure.map(|(value, _)| value.to_string());
    let fewer = decimals.zip(decimal_count(&cell.text)).map(|(max, own)| {
        let point = if own == 0 && max > 0 { POINT } else { 0.0 };
        max.saturating_sub(own) as f64 + point
    });
    let shift = fewer.filter(|fewer| *fewer > 0.0).map(|fewer| format!("--fewer:{fewer}"));
    let mut attributes = vec![("class", class.trim())];
    attributes.extend(value.as_deref().map(|value| ("data-value", value)));
    if cell.bar == Some(Fraction(0.0)) {
        return element("td", &[], []);
    }
    if let Some(share) = cell.bar {
        let style = format!("width:{:.1}%", share / longest * 100.0);
        let bar = element("span", &[("class", "bar"), ("style", &style)], []);
        return element("td", &attributes, [bar]);
    }
    attributes.extend(shift.as_deref().map(|style| ("style", style)));
    element("td", &attributes, [text(&cell.text)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_scripts_equal_their_files() {
        for script in [ECHARTS, ECHARTS_GL, DRAW] {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/").to_owned() + script.name;
            assert!((script.text)() == std::fs::read_to_string(path).unwrap(), "{}", script.name);
        }
    }

    #[test]
    fn line_break_never_separates_number_and_unit() {
        let text = "1.5 GB/s in 2 threads (5 %), after 3 s.";
        assert_eq!(unbroken(text), "1.5\u{a0}GB/s in 2 threads (5\u{a0}%), after 3\u{a0}s.");
    }

    #[test]
    fn zero_has_no_bar() {
        let none = cell(&TableCell::bar(Fraction(0.0)), None, Fraction(1.0)).to_string();
        assert_eq!(none, "<td></td>");
    }

    #[test]
    fn bar_column_has_a_heading_and_can_be_removed() {
        let mut table = Table::new(&["", ">GB/s", ""]);
        table.push_row(["a".into(), "1.25".into(), TableCell::bar(Fraction(1.0))]);
        assert!(self::table(&table).to_string().contains("relative to the highest"));
        let shown = table.without_bars();
        assert_eq!((shown.columns.len(), shown.rows[0].len()), (2, 2));
    }

    #[test]
    fn numbers_of_one_unit_are_aligned_at_the_decimal_point() {
        assert_eq!(decimal_count("12.5 us"), Some(1));
        assert_eq!(["-3", "-", "L1", "9e-3"].map(decimal_count), [Some(0), None, None, Some(0)]);
        let mut table = Table::new(&["", ">GB/s", ">time"]);
        table.push_row(["a".into(), "1.25".into(), "1.5 us".into()]);
        table.push_row(["b".into(), "12".into(), "3.25 ms".into()]);
        assert_eq!(decimals(&table), [0, 2, 0]);
        let whole = cell(&table.rows[1][1], Some(2), Fraction(1.0)).to_string();
        assert_eq!(whole, "<td class=\"right\" style=\"--fewer:2.5\">12</td>");
        let time = cell(&"12.5 us".into(), Some(3), Fraction(1.0)).to_string();
        assert_eq!(time, "<td class=\"right\" style=\"--fewer:2\">12.5 us</td>");
    }
}
