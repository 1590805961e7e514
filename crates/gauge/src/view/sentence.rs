//! Parts of the first sentence of a page: the most important figure, its unit and its meaning.

use super::FigureBar;
use nodegauge_analysis::conclusion::Obstacle;
use nodegauge_measure::record::{Measurement, Status};

/// Numbers that are written as words.
const WORDS: [&str; 13] = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];

/// Returns the value of a figure for a sentence: `41.23 GB/s`, or `41.23 GB/s (suspect)`. Returns `None` for an invalid
/// figure or a figure without a value, because nothing can be concluded from it.
pub fn value_in_words(m: &Measurement) -> Option<String> {
    m.value?;
    match m.validity.status {
        Status::Valid => Some(m.in_words()),
        Status::Suspect => Some(mark_doubted(&m.in_words(), true)),
        Status::Invalid => None,
    }
}

/// Returns the value of the highest of several rates: `up to 41.23 GB/s`. A suspect figure is only quoted (`41.23 GB/s
/// (suspect)`), because another one may be the highest. Returns `None` if nothing can be concluded.
pub fn highest_in_words(m: &Measurement) -> Option<String> {
    let value = value_in_words(m)?;
    Some(if m.validity.status == Status::Valid { format!("up to {value}") } else { value })
}

/// Adds the mark of a suspect value to a text.
pub fn mark_doubted(text: &str, is_suspect: bool) -> String {
    if is_suspect { format!("{text} ({})", Status::Suspect.name()) } else { text.to_owned() }
}

/// Returns the sentence `best`, which names the best of several figures, e.g. `the fastest mix is copy: 54 GB/s`. If
/// the figures are suspect, returns a sentence that it is unknown `which`, e.g. `which mix is the fastest`, followed by
/// the weaker text `highest`. `figures` are those that [`quotable_figures`] returned.
pub fn superlative_sentence<'a>(
    which: &str,
    figures: impl IntoIterator<Item = &'a Measurement>,
    best: impl FnOnce() -> String,
    highest: impl FnOnce() -> String,
) -> String {
    match Obstacle::from_figures(figures) {
        Some(obstacle) => format!("{}; {}", obstacle.cannot_tell(which), highest()),
        None => best(),
    }
}

/// Returns the figures that a sentence may quote: the valid ones, or the suspect ones if none is valid.
pub fn quotable_figures<'a, T>(
    figures: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &'a Measurement,
) -> Vec<T> {
    let usable = figures.into_iter().filter(|figure| value_in_words(of(figure)).is_some());
    let (valid, suspect): (Vec<T>, Vec<T>) =
        usable.partition(|figure| of(figure).validity.status == Status::Valid);
    if valid.is_empty() { suspect } else { valid }
}

/// Returns the range of the values of figures with the same unit: `40.1 ns to 52.0 ns`, marked if one of them is
/// suspect. Invalid figures are left out. Returns `None` if no value is positive.
pub fn value_range<'a>(figures: impl IntoIterator<Item = &'a Measurement>) -> Option<String> {
    let is_usable = |m: &&Measurement| m.validity.status != Status::Invalid && m.value.is_some();
    let usable: Vec<&Measurement> = figures.into_iter().filter(is_usable).collect();
    let min = usable.iter().min_by(|a, b| a.cmp_value(b))?;
    let max = usable.iter().max_by(|a, b| a.cmp_value(b)).filter(|m| m.value > Some(0.0))?;
    let [low, high] = [min, max].map(|m| m.in_words());
    let words = if low == high { low } else { format!("{low} to {high}") };
    Some(mark_doubted(&words, usable.iter().any(|m| m.validity.status == Status::Suspect)))
}

/// Returns the share of the limit that a figure reaches, as the end of a sentence: `, 97 % of 42.1 GB/s (fastest loop
/// of this run: copy)`; empty if no limit is known.
pub fn limit_share_in_words(bar: Option<&FigureBar>) -> String {
    let limit = bar.and_then(|bar| Some((bar.share()?, bar.limit.as_ref()?, bar.unit)));
    limit.map_or_else(String::new, |(share, limit, unit)| {
        format!(
            ", {} of {} ({})",
            share.in_whole_percent(),
            unit.in_words(limit.value),
            limit.basis
        )
    })
}

/// Shortens the start time of a run (RFC 3339) to the minute: `2026-11-21 20:02`.
pub fn start_minute(started: &str) -> String {
    started.get(..16).unwrap_or(started).replace('T', " ")
}

/// Formats the period from the first to the last run: `2026-11-21 20:02 UTC`, `2026-11-21 20:02 to 2026-11-22 06:00
/// UTC`.
pub fn format_period(first: &str, last: &str) -> String {
    let [first, last] = [first, last].map(start_minute);
    if first == last { format!("{first} UTC") } else { format!("{first} to {last} UTC") }
}

/// Returns a number and a noun at the start of a sentence: `Two threads`, `128 threads`.
pub fn number_with_noun(count: u64, noun: &str) -> String {
    let number =
        WORDS.get(count as usize).map_or_else(|| count.to_string(), |word| (*word).to_owned());
    capitalise(&format!("{number} {noun}{}", if count == 1 { "" } else { "s" }))
}

/// Returns the form of a verb for a number of subjects: `sustains` for one, `sustain` for several.
pub fn verb_form(count: u64, verb_form: &str) -> String {
    format!("{verb_form}{}", if count == 1 { "s" } else { "" })
}

/// Returns a text whose first letter is in upper case. A first word that is an identifier, such as `n01` or `pages=4k`,
/// is unchanged.
pub fn capitalise(text: &str) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    if !word.trim_end_matches([',', ':', ';']).chars().all(char::is_alphabetic) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Joins the parts of an enumeration: `a, b and c`.
pub fn enumeration(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    #[test]
    fn suspect_rate_is_not_called_the_highest() {
        let mut m =
            Measurement::new("files", "grid", "read", nodegauge_measure::Unit::BytesPerSecond);
        m = m.with_value(nodegauge_measure::record::QuotedStatistic::Single, 2e9);
        assert_eq!(highest_in_words(&m).as_deref(), Some("up to 2.000 GB/s"));
        m.validity.mark_suspect("disturbed");
        assert_eq!(highest_in_words(&m).as_deref(), Some("2.000 GB/s (suspect)"));
    }

    #[test]
    fn suspect_figure_is_marked_and_invalid_one_is_not_quoted() {
        let mut m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        assert_eq!(value_in_words(&m), None);
        m = m.with_value(QuotedStatistic::Best, 41.2e9);
        assert_eq!(value_in_words(&m).unwrap(), "41.20 GB/s");
        m.validity.mark_suspect("disturbed");
        assert_eq!(value_in_words(&m).unwrap(), "41.20 GB/s (suspect)");
        m.validity.mark_invalid("wrong result");
        assert_eq!(value_in_words(&m), None);
    }

    #[test]
    fn suspect_figures_are_quoted_only_without_valid_ones() {
        let figure = |value| {
            let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
            m.with_value(QuotedStatistic::Best, value)
        };
        let [valid, mut suspect] = [1e9, 9e9].map(figure);
        suspect.validity.mark_suspect("disturbed");
        let values = |of: &[&Measurement]| {
            let chosen = quotable_figures(of.iter().copied(), |m| m);
            chosen.iter().map(|m| m.value.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(values(&[&valid, &suspect]), [1e9]);
        assert_eq!(values(&[&suspect]), [9e9]);
    }

    #[test]
    fn best_suspect_figure_is_not_called_the_best() {
        let figure = |value| {
            let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
            m.with_value(QuotedStatistic::Best, value)
        };
        let [valid, mut suspect] = [1e9, 9e9].map(figure);
        suspect.validity.mark_suspect("disturbed");
        let text = |m: &Measurement| {
            let best = || "the fastest is b".to_owned();
            superlative_sentence("which is the fastest", [m], best, || {
                "the highest is b".to_owned()
            })
        };
        assert_eq!(text(&valid), "the fastest is b");
        let expected = "cannot tell which is the fastest: disturbed; the highest is b";
        assert_eq!(text(&suspect), expected);
    }

    #[test]
    fn small_numbers_are_written_as_words() {
        assert_eq!(number_with_noun(2, "thread"), "Two threads");
        assert_eq!(number_with_noun(1, "rank"), "One rank");
        assert_eq!(number_with_noun(128, "thread"), "128 threads");
        assert_eq!(
            (verb_form(1, "sustain"), verb_form(2, "sustain")),
            ("sustains".into(), "sustain".into())
        );
        let parts = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(enumeration(&parts), "a, b and c");
        assert_eq!(capitalise("triad, best: 3"), "Triad, best: 3");
        assert_eq!(capitalise("n01 is slow"), "n01 is slow");
        assert_eq!(enumeration(&parts[..1]), "a");
    }
}
