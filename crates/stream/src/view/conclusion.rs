//! First sentence of STREAM's page.

use super::figures::{self, StreamFigure};
use super::{ablation, standard, stream, sweep, tune};
use crate::config::StreamConfig;
use nodegauge_arena::names::TRIAD;
use nodegauge_gauge::view::sentence::{
    capitalise, limit_share_in_words, number_with_noun, value_in_words, verb_form,
};
use nodegauge_gauge::view::{FigureBar, group_by_key};
use nodegauge_measure::record::{Category, Record};

/// Maximum number of other programs that the sentence names.
const MAX_OTHERS: usize = 2;

/// Returns the sentence: the result of a sweep, of `explain` or of a tuning, or else the rate of Triad.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    sweep::conclusion(record)
        .or_else(|| ablation::conclusion(record))
        .or_else(|| tune::conclusion(record))
        .or_else(|| rate(record))
}

/// Returns the workers of a figure (threads or ranks) as words of a sentence, and their number.
pub(super) fn workers(config: &StreamConfig) -> (String, u64) {
    let threads = config.threads.unwrap_or(0);
    match config.processes {
        Some(ranks) => (number_with_noun(ranks, "rank"), ranks),
        None if threads == 0 => ("The node".to_owned(), 1),
        None => (number_with_noun(threads, "thread"), threads),
    }
}

/// Returns the rate of Triad, or of the last kernel, by each program.
fn rate(record: &Record) -> Option<String> {
    let all: Vec<StreamFigure<'_>> = figures::all(record);
    let own = all.iter().filter(|(m, _)| !m.is_published());
    let has_triad = own.clone().any(|(m, _)| m.name == TRIAD);
    let last = own.clone().next_back()?.0.name.clone();
    let kernel = if has_triad { TRIAD } else { last.as_str() };
    let of_kernel = own.filter(|(m, _)| m.name == kernel);
    let programs = group_by_key(of_kernel, |(m, config)| {
        let is_native = m.category == Category::Variant && !figures::is_compiled(config);
        (!is_native).then(|| standard::program_name(config))
    });
    let mut parts: Vec<String> = Vec::new();
    for (program, figures) in &programs {
        let (m, config) = figures.first()?;
        let Some(value) = value_in_words(m) else { continue };
        let of = capitalise(kernel);
        if !parts.is_empty() {
            let name = program.as_deref().unwrap_or("nodegauge's loop");
            parts.push(format!("{name} {value}"));
            continue;
        }
        let (who, count) = workers(config);
        let by = program.as_ref().map(|name| format!(" with {name}")).unwrap_or_default();
        let bar = FigureBar::new("", "", m, stream::reach(record, m), &record.machine);
        let share = limit_share_in_words(bar.as_ref());
        parts.push(format!("{who} {} {value} of {of}{by}{share}", verb_form(count, "sustain")));
    }
    parts.truncate(1 + MAX_OTHERS);
    (!parts.is_empty()).then(|| parts.join("; "))
}
