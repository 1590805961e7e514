//! Card of a record: one row per headline figure, with its samples, its limit, and the same figure of an earlier run.

use nodegauge_gauge::Gauge;
use nodegauge_gauge::view::{EarlierValue, FigureBar, FigureBars, sentence};
use nodegauge_measure::keys::{Registry, Role, scalar_text};
use nodegauge_measure::record::{Measurement, Record};
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns one row per headline figure of a record. `earlier` contains runs of this node, newest first; each row also
/// shows the newest of them that has the same figure.
pub(crate) fn headline_card(
    record: &Record,
    gauges: &[&dyn Gauge],
    earlier: &[Record],
    registry: &Registry,
) -> FigureBars {
    let mut bars = Vec::new();
    for gauge in gauges {
        for headline in gauge.headlines(record) {
            let Some(m) = headline.figure else { continue };
            let reach = gauge.reach(record, m);
            let bar = FigureBar::new(headline.title, headline.what, m, reach, &record.machine);
            let before = earlier_value(m, record, earlier, registry);
            bars.extend(bar.map(|bar| FigureBar { earlier: before, ..bar }));
        }
    }
    FigureBars { bars, ..FigureBars::default() }
}

/// Returns the same figure of the newest earlier run that has it.
fn earlier_value(
    own: &Measurement,
    record: &Record,
    earlier: &[Record],
    registry: &Registry,
) -> Option<EarlierValue> {
    let mut before = earlier.iter().filter(|other| {
        other.machine.host == record.machine.host && other.started < record.started
    });
    before.find_map(|other| {
        let m = other.measurements.iter().find(|m| is_same(own, m, registry))?;
        let ratio = own.value? / m.value?;
        let when = sentence::start_minute(&other.started);
        let name = format!("this node on {when}");
        ratio.is_finite().then(|| EarlierValue { name, value: m.in_words(), ratio })
    })
}

/// True if two figures have the same name, unit, category, statistic, sizes, settings and status.
fn is_same(own: &Measurement, other: &Measurement, registry: &Registry) -> bool {
    let is_same_kind = (&own.gauge, &own.test, &own.name)
        == (&other.gauge, &other.test, &other.name)
        && (own.unit, own.category, own.quoted) == (other.unit, other.category, other.quoted)
        && own.validity.status == other.validity.status;
    if !is_same_kind {
        return false;
    }
    let keys: BTreeSet<&String> = own.config.keys().chain(other.config.keys()).collect();
    let mut decisive = keys.into_iter().filter(|key| {
        let role = registry.key(&own.gauge, &own.test, key).map(|known| known.role);
        matches!(role, Some(Role::Size | Role::Identity | Role::Setting))
    });
    decisive.all(|key| key_text(own, key) == key_text(other, key))
}

/// Returns the value of a key as text.
fn key_text(m: &Measurement, key: &str) -> Option<String> {
    match m.config.get(key) {
        Some(items @ Value::Array(_)) => Some(items.to_string()),
        value => value.and_then(scalar_text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::{Category, QuotedStatistic};

    #[test]
    fn figures_of_different_category_or_validity_are_not_compared() {
        let registry = Registry::new(Vec::new());
        let figure = |category: Category, size: u64| {
            let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
            let mut m = m.with_category(category).with_value(QuotedStatistic::Best, 1e9);
            m.config.insert("array_bytes".to_owned(), size.into());
            m
        };
        let own = figure(Category::Variant, 1);
        assert!(is_same(&own, &figure(Category::Variant, 1), &registry));
        assert!(!is_same(&own, &figure(Category::Reference, 1), &registry));
        let mut doubted = figure(Category::Variant, 1);
        doubted.validity.mark_suspect("disturbed");
        assert!(!is_same(&own, &doubted, &registry));
    }
}
