//! First sentence of the page for curves.

use super::{Curves, CurvesFigure, at_load, cache_remark, family, matrix, scaling};
use crate::GAUGE;
use crate::levels::MEMORY;
use nodegauge_arena::names::{CURVE_FAMILY, LADDER, LATENCY, LOADED, MATRIX, MIX, SCALING};
use nodegauge_gauge::view::sentence::{
    capitalise, enumeration, mark_doubted, number_with_noun, quotable_figures,
    superlative_sentence, value_in_words, verb_form,
};
use nodegauge_measure::record::{Measurement, Record, Status};
use nodegauge_measure::{Bytes, Unit, stats};

/// Returns a sentence about the figures of the first test of this gauge in a record.
pub(crate) fn conclusion(record: &Record) -> Option<String> {
    ladder(&figures(record, LADDER))
        .or_else(|| latency(&figures(record, LATENCY)))
        .or_else(|| loaded(&figures(record, LOADED)))
        .or_else(|| matrix::conclusion(&figures(record, MATRIX)))
        .or_else(|| mix(&figures(record, MIX)))
        .or_else(|| family::conclusion(&figures(record, CURVE_FAMILY)))
        .or_else(|| scaling::conclusion(record, &figures(record, SCALING)))
}

/// Returns the figures of a test in a record.
fn figures<'a>(record: &'a Record, test: &str) -> Vec<CurvesFigure<'a>> {
    let own = record.measurements.iter().filter(|m| m.gauge == GAUGE && m.test == test);
    own.map(|m| (m, m.read_config())).collect()
}

fn usable(figure: &CurvesFigure<'_>) -> Option<f64> {
    figure.0.value.filter(|_| figure.0.validity.status != Status::Invalid)
}

fn is_suspect(m: &Measurement) -> bool {
    m.validity.status == Status::Suspect
}

/// True if a figure is the latency of memory. If the TLB has several levels, memory also has several levels; its
/// latency is then that of the largest working set, as in `memory matrix` and `memory loaded`.
fn is_memory_latency((m, config): &CurvesFigure<'_>) -> bool {
    m.unit == Unit::Seconds && config.level.as_deref() == Some(MEMORY)
}

/// Returns the median of each level of a curve, e.g. `1.8 ns in L1`, or the value of the largest working set if no
/// level is known. For a level that ends far below the size of its cache, the last working set is added: `13.46 ns in
/// L3 (up to 3 MiB)`.
fn by_level(curves: &Curves<'_>, kind: &str) -> Vec<String> {
    let curve = curves.curve(kind);
    let outgrown = curves.outgrown(kind);
    let mut parts = Vec::new();
    for figures in curve.chunk_by(|(_, x), (_, next)| x.level == next.level) {
        let Some(level) = &figures[0].1.level else { continue };
        if is_memory_latency(figures[0]) {
            continue;
        }
        let values: Vec<f64> = figures.iter().filter_map(|figure| usable(figure)).collect();
        if values.is_empty() {
            continue;
        }
        let words = figures[0].0.unit.in_words(stats::median(&values));
        let words = mark_doubted(&words, figures.iter().any(|(m, _)| is_suspect(m)));
        let last = outgrown.iter().find(|(cache, _)| cache.level == level);
        let last = last.map(|(_, last)| format!(" (up to {last})")).unwrap_or_default();
        parts.push(format!("{words} in {level}{last}"));
    }
    let largest = curve.iter().rev().find(|figure| usable(figure).is_some());
    let Some(largest) = largest else { return parts };
    let (m, config) = largest;
    if is_memory_latency(largest) {
        parts.extend(
            value_in_words(m).map(|value| format!("{value} in memory{}", cache_remark(largest))),
        );
    } else if config.level.is_none() {
        let set = Bytes(config.set_bytes.unwrap_or(0));
        parts.extend(value_in_words(m).map(|value| format!("{value} in a working set of {set}")));
    }
    parts
}

fn ladder(of: &[CurvesFigure<'_>]) -> Option<String> {
    let curves = Curves::new(of, |config| config.kernel.as_deref());
    let kernel = curves.kinds.first()?;
    let parts = by_level(&curves, kernel);
    let threads = of.first()?.1.threads.unwrap_or(1);
    let who = number_with_noun(threads, "thread");
    let does = verb_form(threads, "sustain");
    (!parts.is_empty()).then(|| format!("{who} {does} {} ({kernel})", enumeration(&parts)))
}

fn latency(of: &[CurvesFigure<'_>]) -> Option<String> {
    let curves = Curves::new(of, |config| config.pages.as_ref().map(|pages| pages.asked.as_str()));
    let pages = curves.kinds.last()?;
    let parts = by_level(&curves, pages);
    (!parts.is_empty()).then(|| format!("A load takes {} ({pages} pages)", enumeration(&parts)))
}

fn loaded(of: &[CurvesFigure<'_>]) -> Option<String> {
    let without_load = at_load(of, Unit::Seconds, Some(0.0))?;
    let idle = value_in_words(without_load.0)? + &cache_remark(without_load);
    let full = at_load(of, Unit::Seconds, Some(1.0)).and_then(|(m, _)| value_in_words(m));
    let rate = at_load(of, Unit::BytesPerSecond, Some(1.0)).and_then(|(m, _)| value_in_words(m));
    let full = full.map(|time| {
        let at = rate.map(|rate| format!(" of {rate}")).unwrap_or_default();
        format!(" and {time} under the full load{at}")
    });
    // Older records have valid knees that were derived from suspect points.
    let rates_at_knee = at_load(of, Unit::BytesPerSecond, None).filter(|(m, _)| m.value.is_some());
    let knee = rates_at_knee.map(|(m, _)| {
        let text = nodegauge_analysis::conclusion::sentence_or_obstacle(
            "the load at which it doubles",
            [*m, without_load.0],
            || format!("it doubles at {}", m.in_words()),
        );
        format!("; {text}")
    });
    let knee = knee.unwrap_or_default();
    Some(format!("Memory latency is {idle} without load{}{knee}", full.unwrap_or_default()))
}

fn mix(of: &[CurvesFigure<'_>]) -> Option<String> {
    let mixes = quotable_figures(of, |figure| figure.0);
    let (m, config) = mixes.into_iter().max_by(|(a, _), (b, _)| a.cmp_value(b))?;
    let counts = [(config.reads, "read"), (config.writes, "written")].into_iter();
    let parts: Vec<String> = counts
        .filter_map(|(count, done)| {
            Some(format!("{} {done}", number_with_noun(count?, "line").to_lowercase()))
        })
        .collect();
    let what = if parts.is_empty() { m.name.clone() } else { parts.join(" for ") };
    let value = value_in_words(m)?;
    let text = superlative_sentence(
        "which mix is the fastest",
        [*m],
        || format!("the fastest mix is {what}: {value}"),
        || format!("the highest rate is that of {what}: {value}"),
    );
    Some(capitalise(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CurveConfig;
    use nodegauge_arena::PagesConfig;
    use nodegauge_measure::record::QuotedStatistic;

    #[test]
    fn memory_latency_is_that_of_the_largest_set() {
        let figure = |set: u64, level: &str, value: f64| {
            let config = CurveConfig {
                set_bytes: Some(set << 20),
                pages: Some(PagesConfig { asked: "thp".to_owned(), got: None }),
                level: Some(level.to_owned()),
                ..CurveConfig::default()
            };
            let m = Measurement::new(GAUGE, LATENCY, set.to_string(), Unit::Seconds);
            (m.with_value(QuotedStatistic::Median, value), config)
        };
        let curve = [
            figure(1, "L2", 5e-9),
            figure(64, MEMORY, 100e-9),
            figure(128, MEMORY, 101e-9),
            figure(512, MEMORY, 140e-9),
        ];
        let of: Vec<CurvesFigure<'_>> =
            curve.iter().map(|(m, config)| (m, config.clone())).collect();
        let expected = "A load takes 5.000 ns in L2 and 140.0 ns in memory (thp pages)";
        assert_eq!(latency(&of).unwrap(), expected);
    }

    #[test]
    fn suspect_mix_is_quoted_only_without_a_valid_one() {
        let figure = |name: &str, value: f64| {
            let m = Measurement::new(GAUGE, MIX, name, Unit::BytesPerSecond);
            m.with_value(QuotedStatistic::Best, value)
        };
        let [read, mut fastest, streaming] =
            [figure("1:0", 31e9), figure("1:1", 54e9), figure("1:1-nt", 47e9)];
        fastest.validity.mark_suspect("disturbed");
        let of = |m| (m, CurveConfig::default());
        let all = [&read, &fastest, &streaming].map(of);
        assert_eq!(mix(&all).unwrap(), "The fastest mix is 1:1-nt: 47.00 GB/s");
        let only = mix(&[of(&fastest)]).unwrap();
        let expected = "Cannot tell which mix is the fastest: disturbed; the highest rate is that of 1:1: 54.00 GB/s (suspect)";
        assert_eq!(only, expected);
    }
}
