//! View of `stream --tune`: every measured configuration, fastest first, and the gain of the chosen configuration.

use super::words;
use crate::GAUGE;
use crate::config::TuneConfig;
use nodegauge_arena::names::TUNE;
use nodegauge_gauge::view::sentence::{capital, quotable, quoted, superlative};
use nodegauge_gauge::view::{Block, Picture, Section, Step, Table, TableCell};
use nodegauge_measure::Fraction;
use nodegauge_measure::record::{Measurement, Record};

/// Maximum number of lines for the first stage; the record contains all entries.
const SHOWN: usize = 12;

/// Returns the table of configurations and the chosen configuration; empty for a record without tuning.
pub(crate) fn section(record: &Record) -> Section {
    let mut section = Section::new("tune");
    let own = |m: &&Measurement| m.gauge == GAUGE && m.test == TUNE;
    let all: Vec<(&Measurement, TuneConfig)> =
        record.measurements.iter().filter(own).map(|m| (m, m.read_config())).collect();
    let of_stage = |stage: &str| {
        let of_stage = |(_, config): &&(_, TuneConfig)| config.stage.as_deref() == Some(stage);
        let mut entries: Vec<&(&Measurement, TuneConfig)> = all.iter().filter(of_stage).collect();
        entries.sort_by(|(x, _), (y, _)| y.by_value(x));
        entries
    };
    let first = of_stage("placements");
    if first.is_empty() {
        return section;
    }
    let shown = &first[..first.len().min(SHOWN)];
    let bars = shown.iter().map(|(m, config)| {
        let stores = config.stores.as_deref().map(|stores| format!(", {stores}"));
        let name = format!("{}{}", m.name, stores.unwrap_or_default());
        Step::bar(name, m.value, "").judged(m)
    });
    section.push(table(shown));
    section.push(Picture::bars("rate of each configuration", first[0].0.unit, bars));
    if first.len() > SHOWN {
        section.push(Block::Text(format!("and {} slower configurations", first.len() - SHOWN)));
    }
    let finalists = of_stage("final");
    if !finalists.is_empty() {
        section.gap().push(Block::Text("finalists, with the best loops".to_owned()));
        section.push(table(&finalists));
    }
    let text = "GB/s: median of the geometric mean of the kernels' rates, all interleaved";
    section.gap().push(Block::Text(text.to_owned()));
    if let Some((choice, config)) = all.iter().find(|(m, _)| m.name == "choice") {
        let worth = choice.value.unwrap_or(1.0);
        let passes = config.passes.unwrap_or(0);
        let line = format!(
            "x {worth:.3} relative to one thread per core on default pages with the same loops; {passes} \
             passes in total"
        );
        section.note("tuned", line);
    }
    section
}

/// Returns the sentence on the chosen configuration; `None` for a record without tuning.
pub(super) fn conclusion(record: &Record) -> Option<String> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == TUNE);
    let all: Vec<(&Measurement, TuneConfig)> = own.map(|m| (m, m.read_config())).collect();
    let finalists = all.iter().filter(|(_, config)| config.stage.as_deref() == Some("final"));
    let finalist = finalists.filter(|(m, _)| m.value.is_some());
    let finalist = quotable(finalist, |(m, _)| *m);
    let (best, _) = finalist.iter().max_by(|(a, _), (b, _)| a.by_value(b))?;
    let tried = all.iter().filter(|(_, config)| config.stage.as_deref() == Some("placements"));
    let value = quoted(best)?;
    let count = tried.count();
    let what = |which: &str| {
        format!(
            "the {which} of {count} configurations is {}: {value} on average of the kernels",
            best.name
        )
    };
    let text = superlative(
        "which configuration is the fastest",
        [*best],
        || what("fastest"),
        || what("highest rate"),
    );
    Some(capital(&text))
}

fn table(entries: &[&(&Measurement, TuneConfig)]) -> Table {
    let titles = [">threads", "places", "pages", "stores", ">GB/s", ">of best", ">passes"];
    let mut table = Table::new(&titles);
    let best = entries.first().and_then(|(m, _)| m.value);
    for (m, config) in entries {
        let share = m.value.zip(best).map(|(rate, best)| Fraction(rate / best).in_tenths());
        let passes = m.summary.as_ref().map(|summary| summary.n.to_string());
        let dash = |text: Option<String>| TableCell::text(text.unwrap_or_else(|| "-".to_owned()));
        table.row([
            config.threads.unwrap_or(0).to_string().into(),
            config.places_asked.as_deref().unwrap_or("?").into(),
            config.pages.as_ref().map_or("?", |pages| pages.asked.as_str()).into(),
            config.stores.as_deref().unwrap_or("-").into(),
            words::rate(m.value),
            dash(share),
            dash(passes),
        ]);
    }
    table
}
