//! Verdict on one node: good, bad, or unknown, from its parts, its hardware errors, the doctor's findings and its
//! figures. Pure functions.
//!
//! A node is bad for a reason that was observed and, for a figure, measured twice. Everything that prevents a judgement
//! (other load, no reference, a reference of another kind of node) makes it unknown, never bad. It is good only if a loss
//! worth acting on would have been found (`slow::power`).

use crate::cause::{LONGEST_REASON, finding_word, first_that_fits, whole_words, with_cause};
use crate::figures::{FigureKey, NodeFigure};
use crate::inventory::Inventory;
use crate::reference::ReferenceGroup;
use nodegauge_analysis::slow::power::{Peers, Power, Standing};
use nodegauge_analysis::slow::{Components, RobustSpread};
use nodegauge_measure::record::{EventCount, Finding, HardwareEvent, Machine, Severity};
use nodegauge_measure::{Bytes, Fraction};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Verdict on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeVerdict {
    /// Everything that was examined is as it should be.
    Good,
    /// The node cannot be judged.
    Unknown,
    /// The node has a defect, or a figure is below its bound in two measurements.
    Bad,
}

nodegauge_measure::names!(NodeVerdict, "verdict", Good = "good", Unknown = "unknown", Bad = "bad");

/// Maximum number of characters of the line with the verdict; node-problem-detector cuts longer ones.
pub const LONGEST_LINE: usize = 80;

/// Number of corrected errors of a memory module in [`CORRECTED_IN`] at which the module counts as defective. It is
/// mcelog's default (`dimm-ce-error-threshold = 100 / 24h`, mcelog.conf(5)).
const CORRECTED: u64 = 100;
const CORRECTED_IN: Duration = Duration::from_secs(24 * 3600);

/// Number of own runs that replace a reference, at least.
pub const MIN_OWN_RUNS: usize = 5;
/// Number of runs of which the better one decides on a figure.
pub const RUNS: usize = 2;
/// Number of standard deviations of own runs within which a figure varies.
const SIGMAS: f64 = 3.0;

/// An observation that decides the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Verdict that the observation leads to.
    pub verdict: NodeVerdict,
    /// Reason with at most `LONGEST_REASON` characters.
    pub reason: String,
    /// Complete description.
    pub text: String,
}

impl Remark {
    /// Returns an observation; a longer reason keeps the whole words that fit.
    pub fn new(verdict: NodeVerdict, reason: impl AsRef<str>, text: impl Into<String>) -> Self {
        Self { verdict, reason: whole_words(reason.as_ref()), text: text.into() }
    }
}

/// Returns the parts that the node lacks.
pub fn lost_parts(group: &ReferenceGroup, machine: &Machine) -> Vec<Remark> {
    let differences = group.inventory.differences(&Inventory::from_machine(machine));
    let less = differences.into_iter().filter(|one| one.is_less);
    less.map(|one| {
        let reasons = [
            format!("{} {} of {}", one.word, one.found, one.expected),
            format!("{} {}", one.word, one.found),
            one.word.to_owned(),
        ];
        Remark::new(NodeVerdict::Bad, first_that_fits(reasons), one.in_words())
    })
    .collect()
}

/// Judges hardware errors that occurred in an interval, `None` if its length is unknown.
pub fn errors(events: &[EventCount], interval: Option<Duration>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for event in events {
        let word = match event.kind {
            HardwareEvent::MemoryUncorrected => "mem UE",
            HardwareEvent::MachineCheck => "MCE",
            HardwareEvent::PcieFatal => "PCIe",
            HardwareEvent::MemoryCorrected if is_storm(event.events, interval) => "mem CE",
            _ => continue,
        };
        let reason = first_that_fits([format!("{word}: {}", short_place(event)), word.to_owned()]);
        remarks.push(Remark::new(NodeVerdict::Bad, reason, event.to_string()));
    }
    remarks
}

/// Maximum number of characters of a label in a reason.
const LONGEST_LABEL: usize = 12;

/// Returns the place of an event for a reason: the slot, the driver's label of the module if it is short, otherwise the
/// module's number.
fn short_place(event: &EventCount) -> &str {
    let place = event.place();
    let place = place.strip_prefix("rasdaemon: ").unwrap_or(place);
    match place.split_once(", ") {
        Some((_, label)) if label.chars().count() <= LONGEST_LABEL => label,
        Some((module, _)) => module,
        None => place,
    }
}

/// True if so many corrected errors mean a defective module.
fn is_storm(events: u64, interval: Option<Duration>) -> bool {
    let days = interval.map_or(1.0, |time| time.as_secs_f64() / CORRECTED_IN.as_secs_f64());
    events >= CORRECTED && events as f64 >= CORRECTED as f64 * days
}

/// Findings about errors since boot, which [`errors`] judges by the time in which they occurred.
const OF_LEDGER: [&str; 7] = [
    "memory-errors",
    "machine-checks",
    "thermal-throttled",
    "pcie-errors",
    "pcie-lanes",
    "pcie-rate",
    "network-errors",
];

/// Judges the doctor's findings: a critical one makes figures wrong or much too low. Other load, whose identifier is
/// `other_load`, prevents a judgement.
pub fn conditions(findings: &[Finding], other_load: &str) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for finding in findings {
        if finding.id == other_load {
            if finding.severity >= Severity::Warning {
                remarks.push(Remark::new(NodeVerdict::Unknown, "busy", &finding.text));
            }
        } else if finding.severity == Severity::Critical
            && !OF_LEDGER.contains(&finding.id.as_str())
        {
            let word = finding_word(&finding.id).map(str::to_owned);
            let word = word.unwrap_or_else(|| Finding::finding_name(&finding.id));
            remarks.push(Remark::new(NodeVerdict::Bad, word, &finding.text));
        }
    }
    remarks
}

/// Value that a figure is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureBound {
    /// Value of good nodes.
    pub value: f64,
    /// Worst value of a good node.
    pub bound: f64,
    /// Origin in a word: `ref`, or `own` for own runs.
    pub base: String,
    /// Origin of the bound, for people.
    pub basis: String,
    /// Power of a judgement by the bound.
    pub power: Power,
    /// Size of an array or of the working set of the figures that gave the bound, bytes, if it is known.
    pub size: Option<u64>,
}

impl FigureBound {
    /// Returns the bound of the site's reference.
    pub fn from_reference(group: &ReferenceGroup, key: &FigureKey) -> Option<Self> {
        let figure = group.figure(key)?;
        Some(Self {
            value: figure.value,
            bound: figure.bound,
            base: "ref".to_owned(),
            basis: figure.basis.clone(),
            power: figure.power(RUNS),
            size: figure.size,
        })
    }

    /// Returns the bound from values of own runs; `None` if there are too few. The bound is below the median by the
    /// practical limit of the figure, or by three standard deviations of the runs if these are larger.
    pub fn from_own_runs(key: &FigureKey, values: &[f64]) -> Option<Self> {
        if values.len() < MIN_OWN_RUNS {
            return None;
        }
        let runs: Vec<f64> = values.iter().map(|value| key.share(*value, 1.0).ln()).collect();
        let RobustSpread { median, spread } = RobustSpread::from_values(&runs)?;
        let median = key.at_share(median.exp(), 1.0);
        let practical = key.practical_limit();
        let min = practical.0.max(1.0 - (-SIGMAS * spread).exp()).min(0.5);
        let spread = Components { nodes: None, runs: Some(spread) };
        let peers = Peers { spread, nodes: 1, runs: values.len() };
        Some(Self {
            value: median,
            bound: key.at_share(1.0 - min, median),
            base: "own".to_owned(),
            basis: format!(
                "median of {} own runs less {}",
                values.len(),
                Fraction(min).in_whole_percent()
            ),
            power: peers.power(practical, Fraction(min), RUNS),
            size: None,
        })
    }
}

/// A figure of the node with its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedFigure {
    /// Identity of the figure.
    pub key: FigureKey,
    /// Measurements in order of time.
    pub measured: Vec<NodeFigure>,
    /// Value that the figure is compared with; `None` if nothing is known.
    pub bound: Option<FigureBound>,
    /// True if the check measured with a smaller size than the command by itself, so that it ended in time.
    pub is_reduced: bool,
}

impl CheckedFigure {
    /// Returns the best measurement, because interference makes figures worse, never better.
    pub fn best(&self) -> Option<&NodeFigure> {
        self.measured
            .iter()
            .max_by(|a, b| self.key.share(a.value, 1.0).total_cmp(&self.key.share(b.value, 1.0)))
    }

    /// Returns the share of the reference that the best measurement reaches.
    pub fn share(&self) -> Option<Fraction> {
        Some(Fraction(self.key.share(self.best()?.value, self.bound.as_ref()?.value)))
    }

    /// Returns the reason why the measurements cannot be compared with the bound, which is of another size. A bound of
    /// unknown size is one of arrays by STREAM's rule, as measuring commands use them.
    fn other_size(&self) -> Option<String> {
        let bound = self.bound.as_ref()?;
        let measured = self.measured.iter().find_map(|one| one.size)?;
        let words = match bound.size {
            Some(size) if size == measured => return None,
            Some(size) => Bytes(size).to_string(),
            None if self.is_by_rule() => return None,
            None => "unknown".to_owned(),
        };
        let of = Bytes(measured);
        let option = of.to_string().replace(' ', "");
        Some(format!(
            "{}: measured with a size of {of}, that of the bound is {words}; make the reference of runs with \
             --size {option}",
            self.key
        ))
    }

    /// True if no measurement has smaller arrays than STREAM's rule requires.
    fn is_by_rule(&self) -> bool {
        !self.is_reduced && self.measured.iter().all(|one| one.below_rule.is_none())
    }

    /// True if the best measurement is worse than the bound, so that the figure must be measured again.
    pub fn is_below(&self) -> bool {
        if self.other_size().is_some() {
            return false;
        }
        let Some((bound, best)) = self.bound.as_ref().zip(self.best()) else { return false };
        self.key.share(best.value, bound.bound) < 1.0
    }

    /// True if the best measurement neither is below the bound nor excludes a loss worth acting on.
    fn is_undecided(&self) -> bool {
        if self.other_size().is_some() {
            return false;
        }
        let Some((bound, share)) = self.bound.as_ref().zip(self.share()) else { return false };
        !self.is_below() && bound.power.standing(share.0) == Standing::Undecided
    }

    /// True if a second measurement may change the judgement: the better one counts.
    pub fn is_to_repeat(&self) -> bool {
        self.is_below() || self.is_undecided()
    }

    /// Judges the figure; `None` if it is good or has no bound. `cause` is the likely reason for a bad figure.
    pub fn remark(&self, cause: Option<&str>) -> Option<Remark> {
        let best = self.best()?;
        let bound = self.bound.as_ref()?;
        if let Some(text) = self.other_size() {
            return Some(Remark::new(NodeVerdict::Unknown, "other size", text));
        }
        if !bound.power.suffices() && !self.is_below() {
            let reason = format!("{}: cannot tell", self.key.word());
            let text = format!("{}: {}", self.key, bound.power.in_words());
            return Some(Remark::new(NodeVerdict::Unknown, reason, text));
        }
        if !self.is_to_repeat() {
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
        if times < RUNS {
            let text = format!("{text}: no time to measure again");
            return Some(Remark::new(NodeVerdict::Unknown, "not confirmed", text));
        }
        if self.is_undecided() {
            let share = self.share()?.rounded_down().in_short();
            let reason = format!("{} {share}: undecided", self.key.word());
            let sought = bound.power.sought.in_whole_percent();
            let text = format!("{text}; a loss of {sought} is not excluded");
            return Some(Remark::new(NodeVerdict::Unknown, reason, text));
        }
        Some(Remark::new(NodeVerdict::Bad, self.in_short(cause)?, text))
    }

    /// Returns the loss that would have been found; `None` if the figure has no bound, or no power.
    pub fn loss_found(&self) -> Option<Fraction> {
        let power = self.bound.as_ref()?.power;
        power.found.filter(|_| power.suffices() && self.other_size().is_none())
    }

    /// Returns the figure in short: `mem 69% of ref: DIMM`.
    pub fn in_short(&self, cause: Option<&str>) -> Option<String> {
        let share = self.share()?.rounded_down().in_short();
        let base = &self.bound.as_ref()?.base;
        Some(with_cause(&format!("{} {share}", self.key.word()), base, cause))
    }
}

/// Returns the word for the likely cause of a bad figure: a part that the node lacks, otherwise the worst finding that
/// has a word.
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

/// Returns the verdict of all observations and the one that decides it; without an observation, the node is good.
pub fn verdict(remarks: &[Remark]) -> (NodeVerdict, Option<&Remark>) {
    let worst = remarks.iter().map(|remark| remark.verdict).max().unwrap_or(NodeVerdict::Good);
    if worst == NodeVerdict::Good {
        return (worst, None);
    }
    (worst, remarks.iter().find(|remark| remark.verdict == worst))
}

/// Returns the line with the verdict, at most [`LONGEST_LINE`] characters: host, reason, verdict, details.
pub fn line(host: &str, verdict: NodeVerdict, reason: Option<&Remark>, details: &str) -> String {
    let short = host.split('.').next().unwrap_or(host);
    // A name of any length leaves room for the reason.
    let room = LONGEST_LINE - LONGEST_REASON - " ...".len();
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
    if whole.chars().count() <= LONGEST_LINE {
        return whole;
    }
    whole.chars().take(LONGEST_LINE - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests;
