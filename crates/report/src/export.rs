//! Export of saved runs: pages for people and documents for other programs.
//!
//! Each format is a file with a type that implements [`Exporter`], and a line in [`EXPORTERS`]. The values of `report
//! --format`, its help and the table in `docs/formats.md` are made from that list.

mod csv;
mod github_action_benchmark;
mod html;
mod jsonl;
mod junit;
mod markdown;
mod openmetrics;
mod text;

pub use jsonl::line as json_line;

use crate::{Conditions, several};
use nodegauge_gauge::Gauge;
use nodegauge_gauge::view::Page;
use nodegauge_measure::Failure;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::record::Record;

/// All formats, in the order of the help and the documentation. The first is the default.
pub static EXPORTERS: &[&dyn Exporter] = &[
    &html::Html,
    &markdown::Markdown,
    &text::Text,
    &csv::Csv,
    &jsonl::JsonLines,
    &junit::Junit,
    &openmetrics::OpenMetrics,
    &github_action_benchmark::GithubActionBenchmark,
];

/// Maximum number of runs on one page.
const SIDE_BY_SIDE: usize = 16;

/// Output format for saved runs.
pub trait Exporter: Send + Sync {
    /// Name of the format, the value of `--format`.
    fn name(&self) -> &'static str;

    /// Purpose of the format in one line, for help and documentation.
    fn purpose(&self) -> &'static str;

    /// Usual extension of the file name, without the dot.
    fn extension(&self) -> &'static str;

    /// Returns the documents of the runs: a single document, or several documents with the names of their
    /// [parts](Document::part).
    ///
    /// # Errors
    /// Fails if these runs cannot be shown in this format.
    fn export(&self, export: &ExportInput<'_>) -> Result<Vec<Document>, Failure>;

    /// Default name of the output file; `None` for standard output.
    fn default_file(&self, _records: &[Record]) -> Option<String> {
        None
    }

    /// True if the format reports results as passed or failed. Invalid figures and incomplete runs then change the exit
    /// code.
    fn reports_failures(&self) -> bool {
        false
    }

    /// Returns the function that renders a page with a title; `None` if the format has no pages with pictures.
    fn renderer(&self) -> Option<fn(&Page, &str) -> String> {
        None
    }
}

/// Runs to export, and the other inputs of exporters.
pub struct ExportInput<'a> {
    /// Records of the runs, at least one.
    pub records: &'a [Record],
    /// Selectors of the runs as typed, in the order of the records.
    pub asked: &'a [String],
    /// Conditions that the figures must meet.
    pub conditions: Conditions<'a>,
    /// All gauges of the program.
    pub gauges: &'a [&'a dyn Gauge],
    /// Registry of the figures and of their configuration keys.
    pub registry: &'a Registry,
    /// Source of saved runs that are shown for comparison.
    pub related: &'a dyn RelatedRuns,
}

/// Source of saved runs that pages show for comparison.
pub trait RelatedRuns {
    /// Returns saved runs of the node of `record` that were measured before `record`, newest first.
    ///
    /// # Errors
    /// Fails if the history cannot be read.
    fn earlier_runs(&self, record: &Record) -> Result<Vec<Record>, Failure>;

    /// Returns saved runs of the node of `record` with figures of the same tests, from which the run-to-run variation
    /// is estimated. Empty if the history cannot be read.
    fn repetitions(&self, record: &Record) -> Vec<Record>;
}

/// Document that an exporter produces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Name of the part, if a format produces several files. The file name contains it.
    pub part: Option<&'static str>,
    /// Content of the file.
    pub text: String,
}

impl Document {
    /// Creates a list with a single document that has no part name.
    fn single(text: String) -> Vec<Self> {
        vec![Self { part: None, text }]
    }
}

impl ExportInput<'_> {
    /// Returns a page with all runs next to each other, each with a name.
    ///
    /// # Errors
    /// Fails if there are too many runs for a page, or if two selectors select the same run.
    fn side_by_side(&self) -> Result<Page, Failure> {
        let runs = self.records;
        if runs.len() > SIDE_BY_SIDE {
            return Err(Failure::usage(format!("cannot show {} runs side by side", runs.len()))
                .hint(format!("give at most {SIDE_BY_SIDE} runs")));
        }
        for (i, run) in runs.iter().enumerate() {
            let Some(first) = runs[..i].iter().position(|known| known.id == run.id) else {
                continue;
            };
            return Err(Failure::usage(format!(
                "'{}' and '{}' name the same run, {}",
                self.asked[first], self.asked[i], run.id
            ))
            .hint("give each run only once"));
        }
        Ok(several::page(runs, self.gauges, self.registry, &|run| self.related.repetitions(run)))
    }
}

/// Renders a page as one HTML file. The names of pictures and tables that are saved from it begin with `name`.
pub fn html_page(page: &Page, name: &str) -> String {
    crate::html::page(page, name)
}

/// Renders a page as Markdown.
pub fn markdown_page(page: &Page) -> String {
    crate::markdown::page(page)
}

/// Returns `nodegauge-ID` with only those characters of `id` that are safe in a file name, because the identifier of a
/// record from a file may contain any character.
pub fn file_stem(id: &str) -> String {
    let safe = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    format!("nodegauge-{}", safe.take(40).collect::<String>())
}

/// Returns the title of the page of these runs. With an extension, it is also the file name.
fn title(records: &[Record]) -> String {
    let first = file_stem(&records[0].id);
    match records.len() {
        1 => first,
        n => format!("{first}-and-{}-more", n - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn exporter_names_are_unique() {
        let names: BTreeSet<&str> = EXPORTERS.iter().map(|exporter| exporter.name()).collect();
        assert_eq!(names.len(), EXPORTERS.len());
    }

    #[test]
    fn formats_chapter_has_a_row_per_format() {
        let rows =
            EXPORTERS.iter().map(|one| format!("| `{}` | {} |\n", one.name(), one.purpose()));
        let table = format!("| format | content |\n| --- | --- |\n{}\n", rows.collect::<String>());
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
        let chapter = std::fs::read_to_string(&file).unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let start = chapter.find("| format | content |").unwrap();
            let end = start + chapter[start..].find("\n\n").unwrap() + 2;
            std::fs::write(file, [&chapter[..start], &table, &chapter[end..]].concat()).unwrap();
        } else {
            assert!(
                chapter.contains(&table),
                "UPDATE_GOLDEN=1 cargo test -p nodegauge-report chapter writes:\n{table}"
            );
        }
    }

    #[test]
    fn file_names_contain_safe_characters_only() {
        assert_eq!(file_stem("01KA../../x y"), "nodegauge-01KAxy");
        assert_eq!(file_stem(&"a".repeat(99)).len(), "nodegauge-".len() + 40);
    }
}
