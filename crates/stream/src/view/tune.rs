//! View of `stream --tune`: every measured configuration, fastest first, and the gain of the chosen configuration.

use crate::GAUGE;
use crate::config::TuneConfig;
use nodegauge_arena::names::TUNE;
use nodegauge_gauge::view::sentence::{
    capitalise, quotable_figures, superlative_sentence, value_in_words,
};
use nodegauge_gauge::view::{Block, ChartBar, ColumnList, ColumnUnit, Picture, Section, Table};
use nodegauge_measure::Fraction;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Record};

/// Maximum number of lines that show the first stage; the record contains all entries.
const MAX_LINES: usize = 12;

/// Stage of the search in which the placements are tried.
const PLACEMENTS: &str = "placements";
/// Last stage of the search.
const FINAL: &str = "final";

/// Figure of a configuration that the search has tried.
type TunedFigure<'a> = (&'a Measurement, TuneConfig);

/// Returns the figures of a search.
fn figures(record: &Record) -> Vec<TunedFigure<'_>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TUNE);
    own.map(|m| (m, m.read_config())).collect()
}

/// Returns the figures of a stage, the fastest first.
fn stage_figures<'a>(all: &'a [TunedFigure<'a>], stage: &str) -> Vec<&'a TunedFigure<'a>> {
    let in_stage = all.iter().filter(|(_, config)| config.stage.as_deref() == Some(stage));
    let mut entries: Vec<&TunedFigure<'_>> = in_stage.collect();
    entries.sort_by(|(x, _), (y, _)| y.cmp_value(x));
    entries
}

/// Returns the table of configurations and the chosen configuration; empty for a record without tuning.
pub(crate) fn section(record: &Record) -> Section {
    let mut section = Section::new("tune");
    let all = figures(record);
    let first = stage_figures(&all, PLACEMENTS);
    if first.is_empty() {
        return section;
    }
    let shown = &first[..first.len().min(MAX_LINES)];
    let bars = shown.iter().map(|(m, config)| {
        let stores = config.stores.as_deref().map(|stores| format!(", {stores}"));
        let name = format!("{}{}", m.name, stores.unwrap_or_default());
        ChartBar::bar(name, m.value, "").with_validity(m)
    });
    section.push(table(shown));
    section.push(Picture::bars("rate of each configuration", first[0].0.unit, bars));
    if first.len() > MAX_LINES {
        let slower = count_in_words(first.len() - MAX_LINES, "slower configuration");
        section.push(Block::Text(format!("and {slower}")));
    }
    let finalists = stage_figures(&all, FINAL);
    if !finalists.is_empty() {
        section.push_gap().push(Block::Text("finalists, with the best loops".to_owned()));
        section.push(table(&finalists));
    }
    let text = "GB/s: geometric mean of the kernels' rates, median of the passes; the rows of a \
                table were measured interleaved";
    section.push_gap().push(Block::Text(text.to_owned()));
    if let Some((choice, config)) = all.iter().find(|(m, _)| m.name == "choice") {
        let worth = choice.value.unwrap_or(1.0);
        let passes = config.passes.unwrap_or(0);
        let line = format!(
            "{worth:.3} x the rate of one thread per core on default pages with the same loops; \
             {passes} passes in total"
        );
        section.note("tuned", line);
    }
    section
}

/// Returns the sentence on the chosen configuration; `None` for a record without tuning.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let all = figures(record);
    let finalists = quotable_figures(stage_figures(&all, FINAL), |(m, _)| *m);
    let (best, _) = finalists.first()?;
    let count = stage_figures(&all, PLACEMENTS).len();
    let rest = format!(
        "of {count} configurations is {}: {} on average over the kernels",
        best.name,
        value_in_words(best)?
    );
    let text = superlative_sentence(
        "which configuration is the fastest",
        [*best],
        || format!("the fastest {rest}"),
        || format!("the highest rate {rest}"),
    );
    Some(capitalise(&text))
}

fn table(entries: &[&TunedFigure<'_>]) -> Table {
    let best = entries.first().and_then(|(m, _)| m.value);
    let columns = ColumnList::<TunedFigure<'_>>::new()
        .right("threads", |(_, config)| config.threads.unwrap_or(0).to_string())
        .left("places", |(_, config)| config.places_asked.clone().unwrap_or_else(|| "?".to_owned()))
        .left("pages", |(_, config)| match &config.pages {
            Some(pages) => pages.asked.clone(),
            None => "?".to_owned(),
        })
        .left("stores", |(_, config)| config.stores.clone().unwrap_or_else(|| "-".to_owned()))
        .values("GB/s", ColumnUnit::GB_PER_S, |(m, _)| m.value)
        .right_or_dash("of best", |(m, _)| Some(Fraction(m.value? / best?).in_tenths()))
        .right_or_dash("passes", |(m, _)| Some(m.summary.as_ref()?.n.to_string()));
    columns.table(entries.iter().copied())
}
