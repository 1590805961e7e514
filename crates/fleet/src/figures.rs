//! Figures of a node that are compared with those of other nodes.

use nodegauge_analysis::identity;
use nodegauge_analysis::slow::practical::{self, CLOCK};
use nodegauge_gauge::Gauge;
use nodegauge_gauge::view::words;
use nodegauge_measure::figure_names::stream;
use nodegauge_measure::keys::{Registry, SharedKey, shared};
use nodegauge_measure::record::{Category, Measurement, Record, Status};
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::stream_rule;
use nodegauge_measure::{Fraction, Unit};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Identity of a figure, with which the records of several nodes are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FigureKey {
    /// Name of the gauge, e.g. `memory`.
    pub gauge: String,
    /// Name of the test, e.g. `stream`.
    pub test: String,
    /// Name of the figure, e.g. `triad`, with the settings that distinguish figures of the same name. If the name of a
    /// headline figure is a size, e.g. the largest working set, this is the name of the test, because the size differs
    /// between nodes.
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Category. Figures of the original STREAM and of variants are not compared.
    pub category: CategoryName,
}

/// Category of a figure by its name in records. Unlike [`Category`], it can be sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CategoryName(String);

impl From<Category> for CategoryName {
    fn from(category: Category) -> Self {
        let name = match category {
            Category::Standard => "standard",
            Category::Variant => "variant",
            Category::Reference => "reference",
            Category::Transport => "transport",
        };
        Self(name.to_owned())
    }
}

impl fmt::Display for CategoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Keys that contain the size of an array or of the working set.
const SIZES: [&str; 2] = [ARRAY_BYTES, SET_BYTES];
/// Key with the array size of `stream`.
const ARRAY_BYTES: &str = shared::array_bytes::KEY.name;
/// Key with the working set of `memory latency`.
const SET_BYTES: &str = "set_bytes";

impl FigureKey {
    /// Creates the key of a measurement; `name` is its name with the settings that distinguish it.
    pub fn from_measurement(m: &Measurement, name: String) -> Self {
        Self {
            gauge: m.gauge.clone(),
            test: m.test.clone(),
            name,
            unit: m.unit,
            category: m.category.into(),
        }
    }

    /// Returns the key of the clock with all cores busy.
    pub fn clock() -> Self {
        Self {
            gauge: "machine".to_owned(),
            test: CLOCK.to_owned(),
            name: CLOCK.to_owned(),
            unit: Unit::Hertz,
            category: Category::Variant.into(),
        }
    }

    /// True for the clock with all cores busy.
    pub fn is_clock(&self) -> bool {
        self.test == CLOCK
    }

    /// Returns the short word of the figure in reasons, e.g. `mem`.
    pub fn short_name(&self) -> &'static str {
        practical::short_name(&self.test)
    }

    /// Returns the smallest relevant loss, as a share of the median of the nodes.
    pub fn practical_limit(&self) -> Fraction {
        practical::limit(&self.test)
    }

    /// Returns the title for a page, with acronyms in capitals: `MPI latency`.
    pub fn title(&self) -> String {
        words::with_acronyms(&self.to_string())
    }

    /// Returns the performance of `value` divided by that of `center`. The result for a time that is twice as long is
    /// 0.5.
    pub fn share(&self, value: f64, center: f64) -> f64 {
        match self.unit.better() {
            BetterDirection::Higher => value / center,
            BetterDirection::Lower => center / value,
        }
    }

    /// Returns the value whose performance is `share` times that of `center`.
    pub fn value_at_share(&self, share: f64, center: f64) -> f64 {
        match self.unit.better() {
            BetterDirection::Higher => center * share,
            BetterDirection::Lower => center / share,
        }
    }
}

/// Displays `triad`, or `mpi latency` if several tests have a figure of this name.
impl fmt::Display for FigureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if stream::is_test(&self.test) && self.test == stream::TEST || self.name == self.test {
            return f.write_str(&self.name);
        }
        write!(f, "{} {}", self.test, self.name)
    }
}

/// Value of a figure in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFigure {
    /// Identity of the figure.
    pub key: FigureKey,
    /// Value in the unit of the key; positive and finite.
    pub value: f64,
    /// Reason why the figure is suspect; reasons that concern the array size are in `size_doubt`.
    pub doubt: Option<String>,
    /// Reason why the array size makes the figure suspect. If all compared figures have the same size, this reason is
    /// ignored.
    pub size_doubt: Option<String>,
    /// Array size or working set in bytes; `None` if the figure has none.
    pub size: Option<u64>,
}

/// Selection of the figures that are compared.
#[derive(Clone, Copy)]
pub struct FigureSelection<'a> {
    /// All gauges, whose headline figures are compared.
    pub gauges: &'a [&'a dyn Gauge],
    /// Registry of the keys that distinguish figures.
    pub registry: &'a Registry,
    /// True to compare all figures of a record instead of only the headline figures.
    pub includes_all: bool,
    /// True to keep the facts of the nodes in memory, for a comparison of facts.
    pub facts: bool,
}

impl NodeFigure {
    /// Returns the clock with all cores busy as a figure.
    pub fn clock(hz: f64) -> Self {
        Self::new(FigureKey::clock(), hz)
    }

    /// Returns a figure that is valid and has no size.
    pub fn new(key: FigureKey, value: f64) -> Self {
        Self { key, value, doubt: None, size_doubt: None, size: None }
    }
}

impl FigureSelection<'_> {
    /// Returns the figures of a record that are compared. Figures without a result, from publications and from other
    /// programs are left out.
    pub fn figures_in_record(&self, record: &Record) -> Vec<NodeFigure> {
        let heads: Vec<&Measurement> = self
            .gauges
            .iter()
            .flat_map(|gauge| gauge.headlines(record))
            .filter_map(|headline| headline.figure)
            .collect();
        if !self.includes_all {
            return heads.into_iter().filter_map(|m| figure(m, headline_name(m))).collect();
        }
        let own: Vec<&Measurement> =
            record.measurements.iter().filter(|m| !m.is_published()).collect();
        let identities = identity::identities(&own, self.registry);
        let named = own.into_iter().zip(identities);
        named
            .filter_map(|(m, at)| {
                if heads.iter().any(|head| std::ptr::eq(*head, m)) {
                    return figure(m, headline_name(m));
                }
                figure(m, format!("{}{}", m.name_in_words(), at.name_suffix))
            })
            .collect()
    }
}

/// Returns the name of a headline figure, or the name of the test if the name is a size.
fn headline_name(m: &Measurement) -> String {
    let is_size = m.name.bytes().all(|byte| byte.is_ascii_digit());
    if is_size { m.test.clone() } else { m.name.clone() }
}

fn figure(m: &Measurement, name: String) -> Option<NodeFigure> {
    let value = m.value.filter(|value| value.is_finite() && *value > 0.0)?;
    if m.validity.status == Status::Invalid {
        return None;
    }
    let reasons = &m.validity.reasons;
    let is_suspect = m.validity.status == Status::Suspect;
    let size_doubt = reasons.iter().find(|reason| stream_rule::is_below_rule_reason(reason));
    let size_doubt = size_doubt.filter(|_| is_suspect).cloned();
    let other = reasons.iter().find(|reason| !stream_rule::is_below_rule_reason(reason)).cloned();
    let doubt = match &size_doubt {
        _ if !is_suspect => None,
        Some(_) => other,
        None => Some(other.unwrap_or_default()),
    };
    m.unit.direction()?;
    let size = SIZES.into_iter().find_map(|size| m.config.get(size)?.as_u64());
    Some(NodeFigure { key: FigureKey::from_measurement(m, name), value, doubt, size_doubt, size })
}
