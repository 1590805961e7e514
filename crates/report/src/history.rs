//! The text of `history list`.

use crate::table::{Style, table};

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
pub fn render(lines: &[Line], style: Style) -> String {
    if lines.is_empty() {
        return "no saved runs\n".to_owned();
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.id.clone(),
                // To the minute, in UTC; the record has the whole.
                line.started.get(..16).unwrap_or(&line.started).replace('T', " "),
                line.host.clone(),
                line.figures.clone(),
                line.what.clone(),
            ]
        })
        .collect();
    table(style, &["id", "started (UTC)", "host", "best", "run"], &rows, &[])
}
