//! The figures of a record for other programs: each by its name, what tells it from others, and its evidence in
//! words. Knows no gauge but by the registry.

use nodegauge_analysis::expect::Expectation;
use nodegauge_analysis::identity::{self, Identity};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::{counted, significant};
use nodegauge_measure::record::{Measurement, Record};
use std::collections::BTreeMap;

/// What figures must be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    /// Of every run.
    pub expect: &'a [Expectation],
    /// Whether a suspect figure meets them.
    pub accept_suspect: bool,
    /// Whether a suspect figure fails by itself.
    pub strict: bool,
}

/// A figure among those of its record.
pub(crate) struct Figure<'r> {
    pub(crate) m: &'r Measurement,
    pub(crate) identity: Identity,
    /// Whether another figure differs in the unit alone.
    has_twin: bool,
}

/// The figures of a record without those that others have published.
pub(crate) fn own<'r>(record: &'r Record, registry: &Registry) -> Vec<Figure<'r>> {
    let all: Vec<&Measurement> = record.measurements.iter().filter(|m| !m.is_published()).collect();
    let identities = identity::identities(&all, registry);
    let mut units: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (m, identity) in all.iter().zip(&identities) {
        *units.entry((&m.test, &m.name, &identity.words)).or_default() += 1;
    }
    let twins: Vec<bool> = all
        .iter()
        .zip(&identities)
        .map(|(m, identity)| {
            units[&(m.test.as_str(), m.name.as_str(), identity.words.as_str())] > 1
        })
        .collect();
    let figures = all.into_iter().zip(identities).zip(twins);
    figures.map(|((m, identity), has_twin)| Figure { m, identity, has_twin }).collect()
}

impl Figure<'_> {
    /// `triad`, `bw 8 B, distance same core`, `mbw_mr 8 B in msg/s`: unique among the figures of a test.
    pub(crate) fn title(&self) -> String {
        let unit = if self.has_twin { format!(" in {}", self.m.unit) } else { String::new() };
        format!("{}{}{unit}", self.m.name_in_words(), self.identity.words)
    }

    /// `11.3 % of 576.0 GB/s, catalog`; `None` where no limit is known.
    pub(crate) fn of_limit(&self) -> Option<String> {
        let limit = self.m.limit.as_ref()?;
        let (share, of) = (limit.fraction * 100.0, self.m.unit.in_words(limit.value));
        Some(format!("{} % of {of}, {}", significant(share), limit.basis))
    }

    /// The figure, which statistic of how many samples it is, its limit, and why it is doubted: a line each.
    pub(crate) fn evidence(&self) -> Vec<String> {
        let m = self.m;
        let sampled = m.summary.as_ref().map_or_else(String::new, |summary| {
            let words = |value: f64| m.unit.in_words(value);
            format!(
                ", {} of {}: median {}, 5 % {}, 95 % {}",
                m.quoted.name(),
                counted(summary.n, "sample"),
                words(summary.median),
                words(summary.p05),
                words(summary.p95)
            )
        });
        let mut lines = vec![format!("{}{sampled}", m.in_words())];
        lines.push(self.of_limit().unwrap_or_else(|| "no limit is known".to_owned()));
        lines.extend(
            m.validity.reasons.iter().map(|why| format!("{}: {why}", m.validity.status.name())),
        );
        lines
    }
}
