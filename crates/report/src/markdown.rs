//! Markdown renderer: a page of the view model becomes a ticket, in a dialect that GitHub, GitLab and others support.
//! It does not depend on gauges.
//!
//! Text from records is never interpreted. Characters that begin markup, HTML or a formula are escaped. Characters that
//! begin a link, a reference or the mention of a person are followed by a zero-width character, a method of the program
//! Renovate.

use crate::head;
use nodegauge_gauge::view::{Block, Note, Page, Section, Table, TableCell, Tone};
use nodegauge_measure::legible;

/// Zero-width character that prevents a link or a mention.
const ZERO_WIDTH: &str = "&#8203;";

/// Renders a page: the heading, the conclusion, the header, and the sections.
pub fn page(page: &Page) -> String {
    let mut out = format!("## {}\n", text(&page.heading));
    if let Some(conclusion) = &page.conclusion {
        out.push_str(&format!("\n{}\n", text(conclusion)));
    }
    let head = head::head_section(page);
    for one in head.iter().chain(&page.sections).filter(|section| !section.blocks.is_empty()) {
        out.push_str(&section(one));
    }
    out
}

/// Renders a page, followed by the command that repeats the run.
pub fn ticket(page: &Page, command: &str) -> String {
    let out = self::page(page);
    // A longer sequence of backticks in the command could end the code block, so the fence is longer than all of them.
    let fence = "`".repeat(3.max(longest(command, '`') + 1));
    let lines =
        command.lines().map(|line| legible::escape_controls(line) + "\n").collect::<String>();
    out + &format!("\n### again\n\n{fence}sh\n{lines}{fence}\n")
}

/// Returns the length of the longest sequence of a character in a text.
fn longest(text: &str, of: char) -> usize {
    let rows = text.split(|c| c != of).map(str::len);
    rows.max().unwrap_or(0)
}

fn section(section: &Section) -> String {
    let mut out = format!("\n### {}\n", text(section.id));
    let mut in_list = false;
    for block in &section.blocks {
        let (is_item, words) = match block {
            Block::Note(one) => (true, note(one)),
            Block::Heading(words) => (false, format!("**{}**\n", text(words))),
            Block::Text(words) => (false, format!("{}\n", text(words))),
            Block::Table(one) => (false, table(one)),
            Block::Card(card) => (false, table(&card.table())),
            // Tables on the page contain the data of pictures.
            Block::Gap | Block::Chart(_) | Block::HeatMaps(_) | Block::Picture(_) => continue,
        };
        if !(is_item && in_list) {
            out.push('\n');
        }
        out.push_str(&words);
        in_list = is_item;
    }
    out
}

/// Renders a note as a list item.
fn note(note: &Note) -> String {
    let indent = if note.nested { "  " } else { "" };
    let label = match note.label.as_str() {
        "" => String::new(),
        label => format!("**{}**: ", text(label)),
    };
    format!("{indent}- {label}{}\n", text(&note.text))
}

/// Renders a table without columns of bars, whose values are in other columns. Headings become rows.
fn table(table: &Table) -> String {
    let table = table.without_bars();
    let width = table.rows.iter().map(Vec::len).max().unwrap_or(0).max(table.columns.len());
    let columns = (0..width).map(|at| table.columns.get(at));
    let titles = columns.clone().map(|column| column.map_or(String::new(), |of| text(&of.title)));
    let mut out = markdown_row(titles);
    out.push_str(&markdown_row(columns.map(|column| match column {
        Some(column) if column.right => "---:".to_owned(),
        _ => "---".to_owned(),
    })));
    for (i, row) in table.rows.iter().enumerate() {
        let headings = table.headings.iter().filter(|(at, cell)| *at == i && !cell.text.is_empty());
        for (_, heading) in headings {
            let rest = (1..width).map(|_| String::new());
            let heading = format!("**{}**", text(&heading.text));
            out.push_str(&markdown_row(std::iter::once(heading).chain(rest)));
        }
        out.push_str(&markdown_row((0..width).map(|at| row.get(at).map_or(String::new(), cell))));
    }
    out
}

/// Renders a row of a table.
fn markdown_row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn cell(cell: &TableCell) -> String {
    let words = text(&cell.text);
    match cell.tone {
        Tone::Strong | Tone::Warning | Tone::Bad if !words.is_empty() => format!("**{words}**"),
        _ => words,
    }
}

/// Escapes a text and joins its lines.
fn text(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    let line = legible::escape_controls(&line);
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars().peekable();
    let mut before = ' ';
    while let Some(c) = rest.next() {
        let refers = |next: char| next.is_alphanumeric() || "_\"'[".contains(next);
        let next = rest.peek().copied().unwrap_or(' ');
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '^' => out.extend(['\\', c]),
            // These characters begin mentions, e-mail addresses, and references to items of GitHub and GitLab.
            '@' | '#' | '!' | '%' if refers(next) => {
                out.extend([c.to_string().as_str(), ZERO_WIDTH]);
            }
            // This prevents links from addresses, with and without a scheme.
            ':' if next == '/' => out.extend([":", ZERO_WIDTH]),
            '.' if before.eq_ignore_ascii_case(&'w') && refers(next) => {
                out.extend([ZERO_WIDTH, "."]);
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Fraction;

    #[test]
    fn text_is_escaped_in_markdown() {
        for (given, made) in [
            ("78.40 GB/s, 11.3 %", "78.40 GB/s, 11.3 %"),
            ("a|b\n\n\\|c", r"a\|b; \\\|c"),
            ("<img src=x>&lt;", "&lt;img src=x&gt;&amp;lt;"),
            ("[x](http://a.b)", r"\[x\](http:&#8203;//a.b)"),
            (
                "@all, a@b.c, #12, !3 www.a.b",
                "@&#8203;all, a@&#8203;b.c, #&#8203;12, !&#8203;3 www&#8203;.a.b",
            ),
            ("\x1b[2J*b* `c` _d_ $e$", r"\\u{1b}\[2J\*b\* \`c\` \_d\_ \$e\$"),
        ] {
            assert_eq!(text(given), made);
        }
    }

    #[test]
    fn command_cannot_end_its_code_block() {
        let made = ticket(&Page::default(), "nodegauge '```\n````'");
        assert!(made.ends_with("\n`````sh\nnodegauge '```\n````'\n`````\n"), "{made}");
    }

    #[test]
    fn markdown_table_has_headings_as_rows_and_no_bars() {
        let mut one = Table::new(&["what", ">GB/s", ""]);
        one.push_heading("native");
        one.push_row([
            "a|b".into(),
            TableCell::text("7").tone(Tone::Strong),
            TableCell::bar(Fraction(1.0)),
        ]);
        let rows = "| what | GB/s |\n| --- | ---: |\n| **native** |  |\n| a\\|b | **7** |\n";
        assert_eq!(table(&one), rows);
    }
}
