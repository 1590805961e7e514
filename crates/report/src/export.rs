//! Export of saved runs: pages for people and documents for other programs.
//!
//! A format is one file with a type that implements [`Exporter`], and one line in [`EXPORTERS`]. The values
//! of `report --format`, its help and the table in `docs/formats.md` are generated from that list.

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

/// All formats, in the order of help and documentation; the first is the default.
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

/// A format of saved runs.
pub trait Exporter: Send + Sync {
    /// Name of the format, the value of `--format`.
    fn name(&self) -> &'static str;

    /// Purpose of the format in one line, for help and documentation.
    fn purpose(&self) -> &'static str;

    /// Usual ending of the file name, without the dot.
    fn extension(&self) -> &'static str;

    /// Makes the documents: one, or several that name their [part](Document::part).
    ///
    /// # Errors
    /// If these runs cannot be shown in this format.
    fn export(&self, export: &Export<'_>) -> Result<Vec<Document>, Failure>;

    /// Name of the file that is written unless the user names one; `None` for standard output.
    fn default_file(&self, _records: &[Record]) -> Option<String> {
        None
    }

    /// True if the format reports results as passed or failed, so that invalid figures and interrupted runs
    /// determine the exit code.
    fn reports_failures(&self) -> bool {
        false
    }

    /// Renderer of pages, from a page and its title; `None` if the format has no pages with pictures.
    fn renderer(&self) -> Option<fn(&Page, &str) -> String> {
        None
    }
}

/// Runs to export, with the context that formats need.
pub struct Export<'a> {
    /// The runs, at least one.
    pub records: &'a [Record],
    /// The runs as the user named them, in the same order.
    pub asked: &'a [String],
    /// Conditions for the figures.
    pub conditions: Conditions<'a>,
    /// All gauges.
    pub gauges: &'a [&'a dyn Gauge],
    /// Keys of configurations.
    pub registry: &'a Registry,
    /// Saved runs for comparison.
    pub related: &'a dyn RelatedRuns,
}

/// Saved runs that pages show for comparison.
pub trait RelatedRuns {
    /// Returns saved runs whose figures may stand next to those of `record`, other nodes first.
    ///
    /// # Errors
    /// If the history cannot be read.
    fn next_to(&self, record: &Record) -> Result<Vec<Record>, Failure>;

    /// Returns saved runs of the node of `record` with figures of the same tests, for an estimate of the
    /// run-to-run variation. The list is empty if the history cannot be read.
    fn repetitions(&self, record: &Record) -> Vec<Record>;
}

/// A document of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Name of the part if a format needs several files; it becomes part of the file name.
    pub part: Option<&'static str>,
    /// Content.
    pub text: String,
}

impl Document {
    /// Returns the document list of a format with a single document.
    fn whole(text: String) -> Vec<Self> {
        vec![Self { part: None, text }]
    }
}

impl Export<'_> {
    /// Returns the page of the runs, with the name of each.
    ///
    /// # Errors
    /// If there are too many runs for a page, or if a run is named twice.
    fn side_by_side(&self) -> Result<Page, Failure> {
        let runs = self.records;
        if runs.len() > SIDE_BY_SIDE {
            return Err(Failure::usage(format!("cannot show {} runs side by side", runs.len()))
                .hint(format!("give at most {SIDE_BY_SIDE}")));
        }
        for (i, run) in runs.iter().enumerate() {
            let Some(first) = runs[..i].iter().position(|known| known.id == run.id) else {
                continue;
            };
            return Err(Failure::usage(format!(
                "'{}' and '{}' name the same run, {}",
                self.asked[first], self.asked[i], run.id
            ))
            .hint("name each run once"));
        }
        let related = |run: &Record| self.related.repetitions(run);
        Ok(several::page(runs, self.gauges, self.registry, &related))
    }
}

/// Returns `nodegauge-ID` with the characters of `id` that are safe in a file name: the identifier of a
/// record from a file may contain any.
pub fn file_stem(id: &str) -> String {
    let safe = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    format!("nodegauge-{}", safe.take(40).collect::<String>())
}

/// Returns the title of the page of these runs, which is the name of its file without the ending.
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
    fn names_are_unique() {
        let names: BTreeSet<&str> = EXPORTERS.iter().map(|exporter| exporter.name()).collect();
        assert_eq!(names.len(), EXPORTERS.len());
    }

    #[test]
    fn the_chapter_has_a_row_per_format() {
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
