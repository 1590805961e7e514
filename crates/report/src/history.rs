//! Page of `history list`.

use nodegauge_gauge::view::{Block, ColumnList, Section, Table, sentence};

/// Number of blanks between two columns.
const GAP: usize = 2;

/// Mark after a suspect figure.
const SUSPECT: &str = " ?";

/// Saved run in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListLine {
    /// Prefix that distinguishes the identifier from those of other runs.
    pub id: String,
    /// Start time, to the minute.
    pub started: String,
    /// Name of the host.
    pub host: String,
    /// Headline figure, and the number of other figures.
    pub figure: String,
    /// True if a figure with the name of the headline figure is suspect.
    pub is_suspect: bool,
    /// Labels as text.
    pub labels: String,
    /// Command, with a mark if the run is incomplete.
    pub command: String,
}

/// Returns the list, newest first, with one line of at most `width` characters per run. `older` is the number of runs
/// that are not listed. The column of hosts is left out if there is only one host, and the column of labels if no run
/// has labels. These columns and the commands share the remaining width.
pub fn list(lines: &[ListLine], older: usize, width: usize) -> Section {
    let mut section = Section::new("history");
    let Some(first) = lines.first() else {
        section.push(Block::Text("no saved runs".to_owned()));
        return section;
    };
    let one_host = lines.iter().all(|line| line.host == first.host);
    let labelled = lines.iter().any(|line| !line.labels.is_empty());
    let columns = ColumnList::<ListLine>::new()
        .left("id", |line| line.id.clone())
        // Minutes are sufficient in a list; the record contains the exact time.
        .left("started (UTC)", |line| sentence::start_minute(&line.started))
        .left("best", figure)
        .add_if(!one_host, |columns| columns.left("host", |line| line.host.clone()))
        .add_if(labelled, |columns| columns.left("labels", |line| line.labels.clone()))
        .left("run", |line| line.command.clone());
    section.push(cut_to(columns.table(lines), width));
    let host = (one_host && first.host != "-").then(|| format!("all on {}", first.host));
    let older = (older > 0).then(|| format!("{older} older: --all"));
    let is_marked = lines.iter().any(|line| line.is_suspect);
    let legend = is_marked.then(|| format!("{} suspect: history show ID", SUSPECT.trim()));
    let below: Vec<String> = host.into_iter().chain(legend).chain(older).collect();
    if !below.is_empty() {
        section.push(Block::Text(below.join("; ")));
    }
    section
}

/// Number of columns that are never cut: identifier, time and figure.
const FIXED: usize = 3;

/// Shortens the cells of all columns except the first [`FIXED`] ones so that the table fits the terminal.
fn cut_to(mut table: Table, width: usize) -> Table {
    let columns = table.columns.iter().enumerate().map(|(at, column)| {
        let cells = table.rows.iter().map(|row| row[at].text.chars().count());
        cells.chain([column.title.len()]).max().unwrap_or(0)
    });
    let widths: Vec<usize> = columns.collect();
    let used: usize = widths[..FIXED].iter().sum::<usize>() + GAP * (widths.len() - 1);
    let shared = shares(&widths[FIXED..], width.saturating_sub(used));
    for row in &mut table.rows {
        for (cell, room) in row[FIXED..].iter_mut().zip(&shared) {
            cell.text = cut(&cell.text, *room);
        }
    }
    table
}

/// Returns the headline figure, with a mark if it is suspect.
fn figure(line: &ListLine) -> String {
    let mark = if line.is_suspect { SUSPECT } else { "" };
    format!("{}{mark}", line.figure)
}

/// Distributes the width `room` over columns that need these widths. No column gets more than it needs. Columns that
/// need more than an equal share get equal widths.
fn shares(needed: &[usize], mut room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needed.len()).collect();
    order.sort_by_key(|i| needed[*i]);
    let mut shares = vec![0; needed.len()];
    for (done, i) in order.into_iter().enumerate() {
        shares[i] = needed[i].min(room / (needed.len() - done));
        room -= shares[i];
    }
    shares
}

/// Cuts a text to `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Style, text};

    fn line(id: &str) -> ListLine {
        ListLine {
            id: id.to_owned(),
            started: "2026-11-21T20:04:36Z".to_owned(),
            host: "n01".to_owned(),
            figure: "triad 163.8 GB/s +15".to_owned(),
            is_suspect: false,
            labels: String::new(),
            command: "stream --sweep threads=1,2,4,8 --sweep stores=regular,nontemporal".to_owned(),
        }
    }

    fn shown(lines: &[ListLine], older: usize, width: u16) -> String {
        let list = list(lines, older, width.into());
        text::section(&list, Style { width, colour: false })
    }

    #[test]
    fn listed_run_is_one_line_within_the_width() {
        let other = ListLine { host: "a-host-with-a-long-name".to_owned(), ..line("01M7ZVE5") };
        let labelled =
            ListLine { labels: "nps=4 bios=tuned site=there".to_owned(), ..line("01M7ZVE4") };
        let lines = [line("01M7ZVE6"), other, labelled];
        for width in [80, 100, 120] {
            let text = shown(&lines, 9_980, width);
            assert_eq!(text.lines().count(), 5, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        }
        assert_eq!(
            shown(&lines[..1], 9_980, 80),
            "id        started (UTC)     best                  run\n\
             01M7ZVE6  2026-11-21 20:04  triad 163.8 GB/s +15  stream --sweep threads=1,2,4,…\n\
             all on n01; 9980 older: --all\n"
        );
        assert_eq!(shown(&[], 0, 80), "no saved runs\n");
        let suspect = ListLine { is_suspect: true, ..line("01M7ZVE3") };
        let text = shown(&[line("01M7ZVE6"), suspect], 0, 80);
        assert!(text.contains("triad 163.8 GB/s +15 ?"), "{text}");
        assert!(text.ends_with("all on n01; ? suspect: history show ID\n"), "{text}");
    }

    #[test]
    fn unused_width_of_narrow_columns_goes_to_wide_columns() {
        assert_eq!(shares(&[4, 40, 40], 30), vec![4, 13, 13]);
        assert_eq!(shares(&[40, 4, 5], 30), vec![21, 4, 5]);
        assert_eq!(shares(&[3, 4], 30), vec![3, 4]);
    }
}
