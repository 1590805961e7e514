//! Verdict on one node: good, bad, or unknown. It depends on parts, hardware errors, findings of the doctor, and
//! figures. The functions are pure.
//!
//! A node is bad only for an observed reason; a figure must be measured twice. If something prevents a judgement (other
//! load, no reference, a reference for another kind of node), the node is unknown, never bad. The node is good only if
//! a loss worth acting on would have been detected (`slow::power`).

use crate::cause::{
    MAX_REASON_CHARS, cut_at_word, finding_word, first_short_reason, reason_with_cause,
};
use crate::figures::{FigureKey, NodeFigure};
use crate::inventory::Inventory;
use crate::reference::ReferenceGroup;
use nodegauge_analysis::slow::power::{DetectionPower, PeerSpread, PeerVerdict};
use nodegauge_analysis::slow::{RobustSpread, SpreadComponents};
use nodegauge_measure::record::{EventCount, Finding, HardwareEvent, Machine, Severity};
use nodegauge_measure::{Bytes, Fraction};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Verdict on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeVerdict {
    /// All checks were passed.
    Good,
    /// The node cannot be judged.
    Unknown,
    /// The node has a defect, or a figure is below its bound in two measurements.
    Bad,
}

nodegauge_measure::names!(NodeVerdict, "verdict", Good = "good", Unknown = "unknown", Bad = "bad");

/// Maximum number of characters of the verdict line; node-problem-detector cuts longer lines.
pub const MAX_LINE_CHARS: usize = 80;

/// Number of corrected errors within [`CORRECTED_INTERVAL`] from which a memory module counts as defective: the default
/// of mcelog (`dimm-ce-error-threshold = 100 / 24h`, mcelog.conf(5)).
const MAX_CORRECTED: u64 = 100;
const CORRECTED_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Minimum number of runs of the node itself that can replace a reference.
pub const MIN_OWN_RUNS: usize = 5;
/// Maximum number of measurements of a figure, of which the better one decides.
pub const MAX_MEASUREMENTS: usize = 2;
/// Distance of the bound from the median of the node's own runs, in standard deviations of these runs.
const SIGMAS: f64 = 3.0;

/// Remark on the node, with the verdict that it leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Verdict that the remark leads to.
    pub verdict: NodeVerdict,
    /// Reason with at most `MAX_REASON_CHARS` characters.
    pub reason: String,
    /// Complete reason.
    pub text: String,
}

impl Remark {
    /// Returns a remark. A longer reason is cut after the last word that fits.
    pub fn new(verdict: NodeVerdict, reason: impl AsRef<str>, text: impl Into<String>) -> Self {
        Self { verdict, reason: cut_at_word(reason.as_ref()), text: text.into() }
    }
}

/// Returns a remark for each part of the reference that the node lacks.
pub fn judge_parts(group: &ReferenceGroup, machine: &Machine) -> Vec<Remark> {
    let differences = group.inventory.differences(&Inventory::from_machine(machine));
    let less = differences.into_iter().filter(|one| one.is_less);
    less.map(|one| {
        let reasons = [
            format!("{} {} of {}", one.word, one.found, one.expected),
            format!("{} {}", one.word, one.found),
            one.word.to_owned(),
        ];
        Remark::new(NodeVerdict::Bad, first_short_reason(reasons), one.in_words())
    })
    .collect()
}

/// Judges the hardware errors that occurred within `interval`, which is `None` if its length is unknown.
pub fn judge_errors(events: &[EventCount], interval: Option<Duration>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for event in events {
        let word = match event.kind {
            HardwareEvent::MemoryUncorrected => "mem UE",
            HardwareEvent::MachineCheck => "MCE",
            HardwareEvent::PcieFatal => "PCIe",
            HardwareEvent::MemoryCorrected if is_storm(event.events, interval) => "mem CE",
            _ => continue,
        };
        let reason =
            first_short_reason([format!("{word}: {}", short_place(event)), word.to_owned()]);
        remarks.push(Remark::new(NodeVerdict::Bad, reason, event.to_string()));
    }
    remarks
}

/// Maximum number of characters of a label in a reason.
const LONGEST_LABEL: usize = 12;

/// Returns the location of an event for a reason: the slot, otherwise the driver's label of the module if it is short,
/// otherwise the number of the module.
fn short_place(event: &EventCount) -> &str {
    let place = event.location();
    let place = place.strip_prefix("rasdaemon: ").unwrap_or(place);
    match place.split_once(", ") {
        Some((_, label)) if label.chars().count() <= LONGEST_LABEL => label,
        Some((module, _)) => module,
        None => place,
    }
}

/// True if the rate of corrected errors means that a module is defective.
fn is_storm(events: u64, interval: Option<Duration>) -> bool {
    let days = interval.map_or(1.0, |time| time.as_secs_f64() / CORRECTED_INTERVAL.as_secs_f64());
    events >= MAX_CORRECTED && events as f64 >= MAX_CORRECTED as f64 * days
}

/// Findings about errors since boot. [`judge_findings`] ignores them, because [`judge_errors`] judges the errors
/// themselves, by the time in which they occurred.
const LEDGER_FINDINGS: [&str; 7] = [
    "memory-errors",
    "machine-checks",
    "thermal-throttled",
    "pcie-errors",
    "pcie-lanes",
    "pcie-rate",
    "network-errors",
];

/// Judges the findings of the doctor. A critical finding means that figures are wrong or much too low. Other load,
/// whose identifier is `other_load`, prevents a judgement.
pub fn judge_findings(findings: &[Finding], other_load: &str) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for finding in findings {
        if finding.id == other_load {
            if finding.severity >= Severity::Warning {
                remarks.push(Remark::new(NodeVerdict::Unknown, "busy", &finding.text));
            }
        } else if finding.severity == Severity::Critical
            && !LEDGER_FINDINGS.contains(&finding.id.as_str())
        {
            let word = finding_word(&finding.id).map(str::to_owned);
            let word = word.unwrap_or_else(|| Finding::finding_name(&finding.id));
            remarks.push(Remark::new(NodeVerdict::Bad, word, &finding.text));
        }
    }
    remarks
}

/// Bound of a figure, with its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureBound {
    /// Value of good nodes, in the unit of the figure.
    pub value: f64,
    /// Worst value of a good node, in the unit of the figure.
    pub bound: f64,
    /// Origin in one word: `ref` for the reference, `own` for earlier runs of the node itself.
    pub base: String,
    /// Description of the origin.
    pub basis: String,
    /// Power of the judgement with this bound.
    pub power: DetectionPower,
    /// Array size or working set with which the value was measured, in bytes; `None` if it is unknown.
    pub size: Option<u64>,
}

impl FigureBound {
    /// Returns the bound from the reference of the site.
    pub fn from_reference(group: &ReferenceGroup, key: &FigureKey) -> Option<Self> {
        let figure = group.figure(key)?;
        Some(Self {
            value: figure.value,
            bound: figure.bound,
            base: "ref".to_owned(),
            basis: figure.basis.clone(),
            power: figure.detection_power(MAX_MEASUREMENTS),
            size: figure.size,
        })
    }

    /// Returns the bound from the values of the node's own runs; `None` if there are too few. The bound is the median
    /// minus the practical limit of the figure, or minus three standard deviations of the runs if that is more.
    pub fn from_own_runs(key: &FigureKey, values: &[f64]) -> Option<Self> {
        if values.len() < MIN_OWN_RUNS {
            return None;
        }
        let runs: Vec<f64> = values.iter().map(|value| key.share(*value, 1.0).ln()).collect();
        let RobustSpread { median, spread } = RobustSpread::from_values(&runs)?;
        let median = key.value_at_share(median.exp(), 1.0);
        let practical = key.practical_limit();
        let min = practical.0.max(1.0 - (-SIGMAS * spread).exp()).min(0.5);
        let spread = SpreadComponents { nodes: None, runs: Some(spread) };
        let peers = PeerSpread { spread, nodes: 1, runs: values.len() };
        Some(Self {
            value: median,
            bound: key.value_at_share(1.0 - min, median),
            base: "own".to_owned(),
            basis: format!(
                "median of {} earlier runs of this node minus {}",
                values.len(),
                Fraction(min).in_whole_percent()
            ),
            power: peers.detection_power(practical, Fraction(min), MAX_MEASUREMENTS),
            size: None,
        })
    }
}

/// Figure of the node, with its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedFigure {
    /// Identity of the figure.
    pub key: FigureKey,
    /// Measurements in chronological order.
    pub measured: Vec<NodeFigure>,
    /// Value with which the figure is compared; `None` if there is no bound.
    pub bound: Option<FigureBound>,
    /// True if the check measured with a smaller size than the default of the command, to end in time.
    pub is_reduced: bool,
}

impl CheckedFigure {
    /// Returns the best measurement, because interference only makes figures worse.
    pub fn best(&self) -> Option<&NodeFigure> {
        self.measured
            .iter()
            .max_by(|a, b| self.key.share(a.value, 1.0).total_cmp(&self.key.share(b.value, 1.0)))
    }

    /// Returns the share of the reference that the best measurement reaches.
    pub fn share(&self) -> Option<Fraction> {
        Some(Fraction(self.key.share(self.best()?.value, self.bound.as_ref()?.value)))
    }

    /// Returns the reason why measurements and bound cannot be compared because of different sizes. If the size of the
    /// bound is unknown, it is assumed to follow STREAM's rule, the default of measuring commands.
    fn other_size(&self) -> Option<String> {
        let bound = self.bound.as_ref()?;
        let measured = self.measured.iter().find_map(|one| one.size)?;
        let words = match bound.size {
            Some(size) if size == measured => return None,
            Some(size) => format!("size {}", Bytes(size)),
            None if self.follows_size_rule() => return None,
            None => "an unknown size".to_owned(),
        };
        let of = Bytes(measured);
        let option = of.to_string().replace(' ', "");
        Some(format!(
            "{}: measured with size {of}, but the bound is for {words}; make the reference from runs with \
             --size {option}",
            self.key
        ))
    }

    /// True if all measurements have arrays that are as large as STREAM's rule requires.
    fn follows_size_rule(&self) -> bool {
        !self.is_reduced && self.measured.iter().all(|one| one.size_doubt.is_none())
    }

    /// True if the best measurement is worse than the bound, so that a second measurement is required.
    pub fn is_worse_than_bound(&self) -> bool {
        if self.other_size().is_some() {
            return false;
        }
        let Some((bound, best)) = self.bound.as_ref().zip(self.best()) else { return false };
        self.key.share(best.value, bound.bound) < 1.0
    }

    /// True if the best measurement is not below the bound, but does not exclude a loss worth acting on either.
    fn is_undecided(&self) -> bool {
        if self.other_size().is_some() {
            return false;
        }
        let Some((bound, share)) = self.bound.as_ref().zip(self.share()) else { return false };
        !self.is_worse_than_bound() && bound.power.peer_verdict(share.0) == PeerVerdict::Undecided
    }

    /// True if a second measurement may change the judgement. The better of the two measurements counts.
    pub fn needs_repetition(&self) -> bool {
        self.is_worse_than_bound() || self.is_undecided()
    }

    /// Judges the figure; returns `None` if it is good or has no bound. `cause` is the likely reason for a bad figure.
    pub fn remark(&self, cause: Option<&str>) -> Option<Remark> {
        let best = self.best()?;
        let bound = self.bound.as_ref()?;
        if let Some(text) = self.other_size() {
            return Some(Remark::new(NodeVerdict::Unknown, "other size", text));
        }
        if !bound.power.suffices() && !self.is_worse_than_bound() {
            let reason = format!("{}: cannot tell", self.key.short_name());
            let text = format!("{}: {}", self.key, bound.power.in_words());
            return Some(Remark::new(NodeVerdict::Unknown, reason, text));
        }
        if !self.needs_repetition() {
            return None;
        }
        let unit = self.key.unit;
        let times = self.measured.len();
        let text = format!(
            "{} {} of {}, bound {} ({}), measured {}",
            self.key,
            unit.in_words(best.value),
            unit.in_words(bound.value),
            unit.in_words(bound.bound),
            bound.basis,
            if times == 1 { "once".to_owned() } else { format!("{times} times") },
        );
        if let Some(doubt) = self.measured.iter().find_map(|one| one.doubt.as_ref()) {
            let text = format!("{text}; disturbed: {doubt}");
            return Some(Remark::new(NodeVerdict::Unknown, "disturbed", text));
        }
        if times < MAX_MEASUREMENTS {
            let text = format!("{text}: no time to measure again");
            return Some(Remark::new(NodeVerdict::Unknown, "not confirmed", text));
        }
        if self.is_undecided() {
            let share = self.share()?.rounded_down().in_compact_percent();
            let reason = format!("{} {share}: undecided", self.key.short_name());
            let sought = bound.power.sought.in_whole_percent();
            let text = format!("{text}; a loss of {sought} is not excluded");
            return Some(Remark::new(NodeVerdict::Unknown, reason, text));
        }
        Some(Remark::new(NodeVerdict::Bad, self.short_reason(cause)?, text))
    }

    /// Returns the smallest loss that the check would have detected; `None` if the figure has no bound, or if the
    /// judgement has no power.
    pub fn detectable_loss(&self) -> Option<Fraction> {
        let power = self.bound.as_ref()?.power;
        power.found.filter(|_| power.suffices() && self.other_size().is_none())
    }

    /// Describes the figure with its likely cause in at most 20 characters: `mem 69% of ref: DIMM`.
    pub fn short_reason(&self, cause: Option<&str>) -> Option<String> {
        let share = self.share()?.rounded_down().in_compact_percent();
        let base = &self.bound.as_ref()?.base;
        Some(reason_with_cause(&format!("{} {share}", self.key.short_name()), base, cause))
    }
}

/// Returns a short word for the likely cause of a bad figure: a missing part, otherwise the worst finding that has a
/// short word.
pub fn likely_cause(
    group: Option<&ReferenceGroup>,
    machine: &Machine,
    findings: &[Finding],
) -> Option<String> {
    let differences = group
        .map(|group| group.inventory.differences(&Inventory::from_machine(machine)))
        .unwrap_or_default();
    let part = differences.iter().find(|one| one.is_less).map(|one| one.word.to_owned());
    let warnings = findings.iter().filter(|one| one.severity >= Severity::Warning);
    part.or_else(|| warnings.filter_map(|one| finding_word(&one.id)).next().map(str::to_owned))
}

/// Returns the verdict and the remark that decides it; without remarks, the node is good.
pub fn verdict(remarks: &[Remark]) -> (NodeVerdict, Option<&Remark>) {
    let worst = remarks.iter().map(|remark| remark.verdict).max().unwrap_or(NodeVerdict::Good);
    if worst == NodeVerdict::Good {
        return (worst, None);
    }
    (worst, remarks.iter().find(|remark| remark.verdict == worst))
}

/// Formats the verdict in one line of at most [`MAX_LINE_CHARS`] characters: host, reason, verdict, details.
pub fn verdict_line(
    host: &str,
    verdict: NodeVerdict,
    reason: Option<&Remark>,
    details: &str,
) -> String {
    let short = host.split('.').next().unwrap_or(host);
    // A long host name must leave room for the reason.
    let room = MAX_LINE_CHARS - MAX_REASON_CHARS - " ...".len();
    let name: String = short.chars().take(room).collect();
    let head = match reason {
        Some(remark) => format!("{name} {}; {verdict}", remark.reason),
        None => format!("{name} {verdict}"),
    };
    let details = match reason {
        Some(remark) => remark.text.as_str(),
        None => details,
    };
    let whole = if details.is_empty() { head } else { format!("{head}: {details}") };
    if whole.chars().count() <= MAX_LINE_CHARS {
        return whole;
    }
    whole.chars().take(MAX_LINE_CHARS - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests;
