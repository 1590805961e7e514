//! First sentence of a page of messages.

use super::{SMALL, ShownFigure, distance, figures};
use crate::pattern::Pattern;
use nodegauge_gauge::view::sentence::{capitalise, value_in_words, value_range};
use nodegauge_gauge::view::{distinct, group_by_key};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Record, Status};
use nodegauge_measure::{Bytes, Unit};

/// Maximum number of libraries and distances in the sentence.
const LINES: usize = 3;

/// Returns the conclusion: the small-message latency and the highest bandwidth of each library, or the range of the
/// values of all pairs.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    let all = figures(record);
    let usable = all
        .iter()
        .filter(|figure| figure.m.value.is_some() && figure.m.validity.status != Status::Invalid);
    let mut shown: Vec<&ShownFigure<'_>> = usable.collect();
    if shown.iter().any(|figure| figure.config.ranks.is_some()) {
        return pairs(&shown);
    }
    // The built-in transport is named only in a run without an MPI.
    if shown.iter().any(|figure| !figure.is_own()) {
        shown.retain(|figure| !figure.is_own());
    }
    let lines = group_by_key(shown, |figure| (figure.library(), figure.config.distance));
    let several = distinct(lines.iter().map(|((_, between), _)| *between)).len() > 1;
    let words = lines.iter().take(LINES).filter_map(|((library, between), figures)| {
        let between = between.filter(|_| several).map(|_| format!(" ({})", distance(*between)));
        let does = line(figures)?;
        Some(format!("{}{} {does}", library_name(library), between.unwrap_or_default()))
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| capitalise(&words.join("; ")))
}

/// Returns the name of a library for a sentence; the name of the transport for a run without an MPI.
fn library_name(library: &str) -> String {
    match library.strip_prefix("no MPI, ") {
        Some(transport) => format!("the transport {transport} without MPI"),
        None => library.to_owned(),
    }
}

/// Returns the figure that represents a pattern: the smallest message with content for a time, the highest value for a
/// rate.
fn lead<'a>(figures: &[&'a ShownFigure<'a>], pattern: Pattern) -> Option<&'a ShownFigure<'a>> {
    let of = figures.iter().copied().filter(|figure| figure.pattern == Some(pattern));
    if pattern.is_rate() {
        let is_bytes = of.filter(|figure| figure.m.unit == Unit::BytesPerSecond);
        return is_bytes.max_by(|a, b| a.m.cmp_value(b.m));
    }
    let sized = of.filter(|figure| {
        pattern.is_sizeless() || figure.config.message_bytes.is_some_and(|bytes| bytes >= SMALL)
    });
    sized.min_by_key(|figure| figure.config.message_bytes)
}

/// Returns the predicate about a library: its latency and bandwidth, or, if neither was measured, its first pattern.
fn line(figures: &[&ShownFigure<'_>]) -> Option<String> {
    let latency = lead(figures, Pattern::Latency).and_then(|figure| {
        let is_valid = figure.m.validity.status == Status::Valid;
        let floor = figure.config.floor.as_ref().filter(|floor| is_valid && floor.is_bound());
        let floor = floor
            .map(|floor| floor.share.in_whole_percent())
            .map(|share| format!(" ({share} of the speed of shared memory without MPI)"));
        let time = value_in_words(figure.m)?;
        Some(format!("delivers {} in {time}{}", figure.size(), floor.unwrap_or_default()))
    });
    let rate = lead(figures, Pattern::Bw).and_then(|figure| {
        Some(format!("moves {} at {}", figure.size(), value_in_words(figure.m)?))
    });
    let parts: Vec<String> = latency.into_iter().chain(rate).collect();
    if !parts.is_empty() {
        return Some(parts.join(" and "));
    }
    let pattern = figures.iter().find_map(|figure| figure.pattern)?;
    let figure = lead(figures, pattern)?;
    let value = value_in_words(figure.m)?;
    Some(if pattern.is_rate() {
        format!("reaches {value} in {pattern} with {}", figure.size())
    } else if pattern.is_sizeless() {
        format!("needs {value} for {pattern}")
    } else {
        format!("needs {value} for {pattern} of {}", figure.size())
    })
}

/// Returns the range of the values of all pairs, for the first pattern and size.
fn pairs(shown: &[&ShownFigure<'_>]) -> Option<String> {
    let first = shown.first()?;
    let of = shown.iter().filter(|one| {
        (&one.m.name, one.m.unit) == (&first.m.name, first.m.unit)
            && one.config.message_bytes == first.config.message_bytes
            && one.library() == first.library()
    });
    let of: Vec<&&ShownFigure<'_>> = of.collect();
    let range = value_range(of.iter().map(|figure| figure.m))?;
    let size = Bytes(first.config.message_bytes?);
    Some(capitalise(&format!(
        "{} of {size} is {} over {}, by {}",
        first.m.name,
        range,
        count_in_words(of.len(), "pair"),
        first.library()
    )))
}
