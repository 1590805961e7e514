//! Comparison of the measured bandwidths and latencies between nodes with the values that firmware reports (HMAT).

use super::{CurvesFigure, source_and_target};
use nodegauge_gauge::view::Section;
use nodegauge_measure::Unit;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Status;
use nodegauge_measure::record::doubt::TYPICAL_RULE;

/// Figure for which firmware also reports a value.
struct Compared<'a> {
    figure: &'a CurvesFigure<'a>,
    measured: f64,
    firmware: f64,
}

impl<'a> Compared<'a> {
    fn new(figure: &'a CurvesFigure<'a>) -> Option<Self> {
        Some(Self { figure, measured: figure.0.value?, firmware: figure.1.firmware? })
    }

    fn unit(&self) -> Unit {
        self.figure.0.unit
    }

    /// Returns the name of the access, e.g. `n0->n1`.
    fn access(&self) -> String {
        let (kind, from, to) = source_and_target(self.figure).unwrap_or_default();
        format!("{kind}{from}->{kind}{to}")
    }

    fn is_suspect(&self) -> bool {
        self.figure.0.validity.status != Status::Valid
    }
}

/// Contradiction between firmware and measurement.
struct Contradiction {
    /// Ratio between the value of firmware and the measured value.
    factor: f64,
    text: String,
    is_suspect: bool,
}

/// Adds the values that firmware reports, and a sentence about those that contradict the measurement.
pub(super) fn add(section: &mut Section, groups: &[&[CurvesFigure<'_>]]) {
    let mut values = Vec::new();
    let mut contradictions = Vec::new();
    for group in groups {
        let compared: Vec<Compared<'_>> = group.iter().filter_map(Compared::new).collect();
        for one in &compared {
            values.push(format!(
                "{} {}{}",
                one.access(),
                one.unit().in_words(one.firmware),
                direction(one)
            ));
        }
        contradictions.extend(find_contradictions(&compared));
    }
    if values.is_empty() {
        return;
    }
    section.note("firmware", format!("its HMAT reports {}", values.join(", ")));
    contradictions.sort_by(|x, y| y.factor.total_cmp(&x.factor));
    if let Some((worst, others)) = contradictions.split_first() {
        section.note("firmware", in_words(worst, others.len()));
    }
}

/// Returns the name of the direction of a bandwidth.
fn direction(one: &Compared<'_>) -> &'static str {
    match one.unit() {
        Unit::Seconds => "",
        _ if super::is_write(one.figure) => " written",
        _ => " read",
    }
}

/// Returns a sentence about the worst contradiction. `others` is the number of the other contradictions.
fn in_words(worst: &Contradiction, others: usize) -> String {
    let mut text = format!("its HMAT contradicts the measurement: {}", worst.text);
    if others > 0 {
        text += &format!("; {}", count_in_words(others, "more contradiction"));
    }
    if worst.is_suspect {
        text += " (the measured figures are suspect)";
    }
    text
}

/// Returns the contradictions among figures of one unit: measured values that are better than firmware's, and pairs of
/// accesses whose order differs between firmware and measurement. Differences within the interval of a valid figure are
/// ignored.
fn find_contradictions(compared: &[Compared<'_>]) -> Vec<Contradiction> {
    let enough = 1.0 + TYPICAL_RULE.max_distance.0;
    let mut found = Vec::new();
    for (i, one) in compared.iter().enumerate() {
        let unit = one.unit();
        let above = gain(unit, one.measured, one.firmware);
        if above > enough {
            let text = format!(
                "{} has {}, although firmware reports {}",
                one.access(),
                unit.in_words(one.measured),
                unit.in_words(one.firmware)
            );
            found.push(Contradiction { factor: above, text, is_suspect: one.is_suspect() });
        }
        for (j, other) in compared.iter().enumerate() {
            let by_firmware = gain(unit, one.firmware, other.firmware);
            let by_measurement = gain(unit, other.measured, one.measured);
            if i == j || by_firmware <= 1.0 || by_measurement <= enough {
                continue;
            }
            let text = format!(
                "firmware reports {} for {} and {} for {}, measured are {} and {}",
                unit.in_words(one.firmware),
                one.access(),
                unit.in_words(other.firmware),
                other.access(),
                unit.in_words(one.measured),
                unit.in_words(other.measured)
            );
            let is_suspect = one.is_suspect() || other.is_suspect();
            found.push(Contradiction { factor: by_firmware * by_measurement, text, is_suspect });
        }
    }
    found
}

/// Returns the ratio by which `value` is better than `other`.
fn gain(unit: Unit, value: f64, other: f64) -> f64 {
    if unit == Unit::Seconds { other / value } else { value / other }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CurveConfig;
    use nodegauge_gauge::view::Block;
    use nodegauge_measure::record::{Measurement, QuotedStatistic};

    fn measurement(unit: Unit, value: f64) -> Measurement {
        Measurement::new("memory", "matrix", "any", unit).with_value(QuotedStatistic::Best, value)
    }

    fn access(to: u64, firmware: Option<f64>) -> CurveConfig {
        CurveConfig { from_node: Some(0), to_node: Some(to), firmware, ..Default::default() }
    }

    fn notes(groups: &[&[CurvesFigure<'_>]]) -> Vec<String> {
        let mut section = Section::new("matrix");
        add(&mut section, groups);
        let notes = section.blocks.iter().filter_map(|block| match block {
            Block::Note(note) => Some(note.text.clone()),
            _ => None,
        });
        notes.collect()
    }

    #[test]
    fn wrong_firmware_values_are_reported_in_one_sentence() {
        let (near, far) =
            (measurement(Unit::BytesPerSecond, 40e9), measurement(Unit::BytesPerSecond, 8e9));
        let (soon, late) = (measurement(Unit::Seconds, 90e-9), measurement(Unit::Seconds, 250e-9));
        let rates = [(&near, access(0, Some(50e9))), (&far, access(2, Some(100e9)))];
        let times = [(&soon, access(0, Some(80e-9))), (&late, access(2, Some(60e-9)))];
        let notes = notes(&[&rates, &times]);
        assert_eq!(
            notes,
            [
                "its HMAT reports n0->n0 50.00 GB/s read, n0->n2 100.0 GB/s read, n0->n0 80.00 ns, \
                 n0->n2 60.00 ns",
                "its HMAT contradicts the measurement: firmware reports 100.0 GB/s for n0->n2 and \
                 50.00 GB/s for n0->n0, measured are 8.000 GB/s and 40.00 GB/s; 1 more \
                 contradiction"
            ]
        );
    }

    #[test]
    fn correct_or_missing_firmware_values_give_no_contradiction() {
        let (near, far) =
            (measurement(Unit::BytesPerSecond, 40e9), measurement(Unit::BytesPerSecond, 42e9));
        // The measured order differs by less than a valid figure may vary.
        let rates = [(&near, access(0, Some(50e9))), (&far, access(1, Some(48e9)))];
        assert_eq!(notes(&[&rates]).len(), 1);
        assert!(notes(&[&[(&near, access(0, None))]]).is_empty());
        // A measured rate above that of firmware is a contradiction.
        let above = [(&near, access(0, Some(20e9)))];
        let notes = notes(&[&above]);
        assert!(notes[1].contains("n0->n0 has 40.00 GB/s, although firmware reports 20.00 GB/s"));
    }
}
