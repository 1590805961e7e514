//! The view of `history list`.

use nodegauge_gauge::view::{Block, Cell, Section, Table};

/// Blanks between two columns.
const GAP: usize = 2;
/// Most characters of a host's name.
const HOST: usize = 16;
/// Fewest characters of the last column.
const COMMAND: usize = 8;

/// One saved run, as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// As much of its identifier as tells it from others.
    pub id: String,
    /// When it started.
    pub started: String,
    /// On which host.
    pub host: String,
    /// The figure that stands for it, and how many more there are.
    pub figure: String,
    /// Its labels.
    pub labels: String,
    /// What was run, and whether it is complete.
    pub command: String,
}

/// The list, newest first, a line a run in `width` characters; `older` are not in it. Hosts have a column
/// where there are several, labels where there are any.
pub fn list(lines: &[Line], older: usize, width: usize) -> Section {
    let mut section = Section::new("history");
    let Some(first) = lines.first() else {
        section.push(Block::Text("no saved runs".to_owned()));
        return section;
    };
    let one_host = lines.iter().all(|line| line.host == first.host);
    let columns: [(&str, bool, fn(&Line, usize) -> String); 5] = [
        ("id", true, |line, _| line.id.clone()),
        // To the minute; the record has the whole.
        ("started (UTC)", true, |line, _| {
            line.started.get(..16).unwrap_or(&line.started).replace('T', " ")
        }),
        ("host", !one_host, |line, _| cut(&line.host, HOST)),
        ("best", true, |line, _| line.figure.clone()),
        ("labels", lines.iter().any(|line| !line.labels.is_empty()), |line, width| {
            cut(&line.labels, width / 5)
        }),
    ];
    let shown = || columns.iter().filter(|(_, shown, _)| *shown);
    let titles: Vec<&str> = shown().map(|(title, ..)| *title).chain(["run"]).collect();
    let mut rows: Vec<Vec<String>> =
        lines.iter().map(|line| shown().map(|(_, _, cell)| cell(line, width)).collect()).collect();
    let used: usize = (0..titles.len() - 1)
        .map(|i| {
            let cells = rows.iter().map(|row| row[i].chars().count());
            cells.chain([titles[i].len()]).max().unwrap_or(0) + GAP
        })
        .sum();
    let left = width.saturating_sub(used).max(COMMAND);
    let mut table = Table::new(&titles);
    for (row, line) in rows.iter_mut().zip(lines) {
        row.push(cut(&line.command, left));
        table.row(row.drain(..).map(Cell::text));
    }
    section.push(table);
    let host = (one_host && first.host != "-").then(|| format!("all on {}", first.host));
    let older = (older > 0).then(|| format!("{older} older: --all"));
    let below: Vec<String> = host.into_iter().chain(older).collect();
    if !below.is_empty() {
        section.push(Block::Text(below.join("; ")));
    }
    section
}

/// At most so many characters of a text.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Style, text};

    fn line(id: &str) -> Line {
        Line {
            id: id.to_owned(),
            started: "2026-11-21T20:04:36Z".to_owned(),
            host: "n01".to_owned(),
            figure: "triad 163.8 GB/s +15".to_owned(),
            labels: String::new(),
            command: "stream --sweep threads=1,2,4,8 --sweep stores=regular,nontemporal".to_owned(),
        }
    }

    fn shown(lines: &[Line], older: usize, width: u16) -> String {
        let list = list(lines, older, width.into());
        text::section(&list, Style { width, colour: false })
    }

    #[test]
    fn a_run_is_a_line_that_fits() {
        let other = Line { host: "a-host-with-a-long-name".to_owned(), ..line("01M7ZVE5") };
        let labelled =
            Line { labels: "nps=4 bios=tuned site=there".to_owned(), ..line("01M7ZVE4") };
        let lines = [line("01M7ZVE6"), other, labelled];
        for width in [80, 100, 120] {
            let text = shown(&lines, 9_980, width);
            assert_eq!(text.lines().count(), 5, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        }
        assert_eq!(
            shown(&lines[..1], 9_980, 80),
            "id        started (UTC)     best                  run\n\
             01M7ZVE6  2026-11-21 20:04  triad 163.8 GB/s +15  stream --sweep threads=1,2,4…\n\
             all on n01; 9980 older: --all\n"
        );
        assert_eq!(shown(&[], 0, 80), "no saved runs\n");
    }
}
