//! Figures of a record for the formats of other programs, with unique names and descriptions. This module uses the
//! registry and no gauges.

use nodegauge_analysis::expect::Expectation;
use nodegauge_analysis::identity::{self, FigureIdentity};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::{Measurement, Record};
use std::collections::BTreeMap;

/// Conditions that figures must meet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    /// Conditions of `--expect`, checked for every run.
    pub expect: &'a [Expectation],
    /// True if a suspect figure can meet a condition.
    pub accept_suspect: bool,
    /// True if a suspect figure is a failure.
    pub strict: bool,
}

/// Figure of a record, with its identity.
pub(crate) struct IdentifiedFigure<'r> {
    pub(crate) m: &'r Measurement,
    pub(crate) identity: FigureIdentity,
    /// True if another figure of the record differs from this figure only in the unit.
    has_twin: bool,
}

/// Returns the figures that the run measured; published figures are left out.
pub(crate) fn measured_figures<'r>(
    record: &'r Record,
    registry: &Registry,
) -> Vec<IdentifiedFigure<'r>> {
    let all: Vec<&Measurement> = record.measurements.iter().filter(|m| !m.is_published()).collect();
    let identities = identity::identities(&all, registry);
    let mut units: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (m, identity) in all.iter().zip(&identities) {
        *units.entry((&m.test, &m.name, &identity.name_suffix)).or_default() += 1;
    }
    let twins: Vec<bool> = all
        .iter()
        .zip(&identities)
        .map(|(m, identity)| {
            units[&(m.test.as_str(), m.name.as_str(), identity.name_suffix.as_str())] > 1
        })
        .collect();
    let figures = all.into_iter().zip(identities).zip(twins);
    figures.map(|((m, identity), has_twin)| IdentifiedFigure { m, identity, has_twin }).collect()
}

impl IdentifiedFigure<'_> {
    /// Returns a title that is unique within a test, e.g. `triad`, `bw 8 B, distance same core`, `mbw_mr 8 B in msg/s`.
    pub(crate) fn title(&self) -> String {
        let unit = if self.has_twin { format!(" in {}", self.m.unit) } else { String::new() };
        format!("{}{}{unit}", self.m.name_in_words(), self.identity.name_suffix)
    }

    /// Describes the share of the limit, e.g. `11.3 % of 576.0 GB/s, catalog`; `None` if the limit is unknown.
    pub(crate) fn limit_share(&self) -> Option<String> {
        let limit = self.m.limit.as_ref()?;
        let value = self.m.unit.in_words(limit.value);
        Some(format!("{} of {value}, {}", limit.fraction, limit.basis))
    }

    /// Describes how the figure was measured: one line for statistic and samples, one for the limit, and one per reason
    /// for doubt.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let m = self.m;
        let sampled = m.summary.as_ref().map_or_else(String::new, |summary| {
            let [median, p05, p95] =
                [summary.median, summary.p05, summary.p95].map(|value| m.unit.in_words(value));
            let statistic = m.quoted.name();
            let samples = count_in_words(summary.n, "sample");
            format!(", {statistic} of {samples}: median {median}, 5 % {p05}, 95 % {p95}")
        });
        let mut lines = vec![format!("{}{sampled}", m.in_words())];
        lines.push(self.limit_share().unwrap_or_else(|| "no limit is known".to_owned()));
        lines.extend(
            m.validity.reasons.iter().map(|why| format!("{}: {why}", m.validity.status.name())),
        );
        lines
    }
}
