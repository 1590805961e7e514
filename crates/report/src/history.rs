//! The view of `history list`.

use nodegauge_gauge::view::{Block, Cell, Section, Table};

/// One saved run, as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its identifier.
    pub id: String,
    /// When it started.
    pub started: String,
    /// On which host.
    pub host: String,
    /// The command, its labels, and whether it is complete.
    pub what: String,
    /// The figures that stand for it.
    pub figures: String,
}

/// The list, newest first.
pub fn list(lines: &[Line]) -> Section {
    let mut section = Section::new("history");
    if lines.is_empty() {
        section.push(Block::Text("no saved runs".to_owned()));
        return section;
    }
    let mut table = Table::new(&["id", "started (UTC)", "host", "best", "run"]);
    for Line { id, started, host, what, figures } in lines {
        // To the minute, in UTC; the record has the whole.
        let minute = started.get(..16).unwrap_or(started).replace('T', " ");
        table.row([id, &minute, host, figures, what].map(|text| Cell::text(text.as_str())));
    }
    section.push(table);
    section
}
