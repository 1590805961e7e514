//! The result of `--tune`: every configuration that ran, fastest first, and what the choice is worth.

use crate::table::{Style, paragraph, table};
use crate::words;
use nodegauge_measure::record::{Measurement, Record};

/// Lines of the first race that are shown; the record has all.
const SHOWN: usize = 12;

/// The table of configurations, and the choice; empty for a record without tuning.
pub fn render(record: &Record, style: Style) -> String {
    let all: Vec<&Measurement> = record.measurements.iter().filter(|m| m.test == "tune").collect();
    let of_race = |race: &str| -> Vec<&Measurement> {
        let mut entries: Vec<&Measurement> =
            all.iter().copied().filter(|m| words::text(m, "race") == Some(race)).collect();
        entries.sort_by(|x, y| y.value.unwrap_or(0.0).total_cmp(&x.value.unwrap_or(0.0)));
        entries
    };
    let sites = of_race("sites");
    let Some(best) = sites.first().and_then(|m| m.value) else { return String::new() };
    let row = |m: &&Measurement, best: f64| {
        let summary = m.summary.as_ref();
        let pages =
            m.config.get("pages").and_then(|pages| pages.get("asked")?.as_str()).unwrap_or("?");
        vec![
            format!("{:.0}", words::number(m, "threads").unwrap_or(0.0)),
            words::text(m, "places_asked").unwrap_or("?").to_owned(),
            pages.to_owned(),
            words::text(m, "stores").unwrap_or("-").to_owned(),
            m.value.map_or_else(|| "-".to_owned(), words::gb),
            m.value.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate / best * 100.0)),
            summary.map_or_else(|| "-".to_owned(), |summary| summary.n.to_string()),
        ]
    };
    let header = ["threads", "places", "pages", "stores", "GB/s", "of best", "passes"];
    let rows: Vec<Vec<String>> = sites.iter().take(SHOWN).map(|m| row(m, best)).collect();
    let mut out = table(style, &header, &rows, &[0, 4, 5, 6]);
    if sites.len() > SHOWN {
        out.push_str(&format!("and {} slower ones\n", sites.len() - SHOWN));
    }
    let finalists = of_race("final");
    if let Some(best) = finalists.first().and_then(|m| m.value) {
        out.push_str("\nthe best, with the best loops\n");
        let rows: Vec<Vec<String>> = finalists.iter().map(|m| row(m, best)).collect();
        out.push_str(&table(style, &header, &rows, &[0, 4, 5, 6]));
    }
    out.push_str("\nGB/s: medians of the geometric mean of the kernels, all by turns\n");
    if let Some(choice) = all.iter().find(|m| m.name == "choice") {
        let worth = choice.value.unwrap_or(1.0);
        let passes = words::number(choice, "passes").unwrap_or(0.0);
        out.push_str(&paragraph(
            style,
            "tuned",
            &format!("x {worth:.3} over one thread a core on default pages with the same loops; {passes:.0} passes in all"),
        ));
    }
    out
}
