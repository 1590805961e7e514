//! Reasons why a node is slow, from its record and the records of the other nodes in its group.

use super::{FigureStatistics, NodeRuns, RankVerdict, RankedFigure, RankedNode};
use crate::cause::{cut_at_word, finding_word, reason_with_cause};
use crate::node::OTHER_LOAD;
use nodegauge_analysis::slow::power::PeerVerdict;
use nodegauge_analysis::slow::practical::CLOCK_LIMIT;
use nodegauge_measure::record::Finding;
use nodegauge_measure::{Fraction, stats};
use std::collections::{BTreeMap, HashMap};

/// Settings, findings and median clock that most nodes of a group have.
pub(crate) struct GroupMajority {
    nodes: usize,
    busy: usize,
    settings: BTreeMap<&'static str, String>,
    findings: HashMap<String, usize>,
    clock_hz: Option<f64>,
}

impl GroupMajority {
    /// Determines what most nodes of a group have.
    pub(crate) fn from_nodes(nodes: &[NodeRuns<'_>]) -> Self {
        let mut counts: BTreeMap<&'static str, HashMap<&str, usize>> = BTreeMap::new();
        let mut findings: HashMap<String, usize> = HashMap::new();
        let mut clocks = Vec::new();
        let mut busy = 0;
        for node in nodes {
            let run = node.latest();
            for (word, value) in &run.settings {
                *counts.entry(word).or_default().entry(value).or_default() += 1;
            }
            for id in &run.findings {
                *findings.entry(id.clone()).or_default() += 1;
            }
            clocks.extend(run.clock_hz);
            busy += usize::from(node.runs.iter().any(|one| one.other_load.is_some()));
        }
        Self {
            nodes: nodes.len(),
            busy,
            settings: counts.into_iter().map(|(word, of)| (word, modal_value(of))).collect(),
            findings,
            clock_hz: (!clocks.is_empty()).then(|| stats::median(&clocks)),
        }
    }

    /// True if other programs used most nodes of the group, so that load does not distinguish a node.
    pub(crate) fn is_busy(&self) -> bool {
        2 * self.busy > self.nodes
    }

    /// Returns the short word for a finding that explains low figures; `None` if half of the nodes or more have the
    /// finding.
    fn finding_word(&self, id: &str) -> Option<&'static str> {
        let with = self.findings.get(id).copied().unwrap_or_default();
        finding_word(id).filter(|_| 2 * with < self.nodes)
    }

    /// True if a run has a critical finding that explains low figures and that most nodes do not have.
    pub(crate) fn has_rare_defect(&self, run: &crate::node::NodeRun) -> bool {
        run.critical_findings.iter().any(|id| self.finding_word(id).is_some())
    }

    /// Returns the first critical finding of a run that most nodes do not have. For a single node, every critical
    /// finding counts. Other load is ignored.
    pub(crate) fn rare_defect<'r>(&self, run: &'r crate::node::NodeRun) -> Option<&'r str> {
        let mut critical_findings = run.critical_findings.iter().map(String::as_str);
        critical_findings.find(|id| {
            let with = self.findings.get(*id).copied().unwrap_or_default();
            *id != OTHER_LOAD && (2 * with <= self.nodes || self.nodes == 1)
        })
    }

    /// Returns the first finding of a run that explains low figures and that most nodes do not have.
    pub(crate) fn rare_finding(&self, run: &crate::node::NodeRun) -> Option<&'static str> {
        run.findings.iter().find_map(|id| self.finding_word(id))
    }
}

/// Reason in a short and a long form.
#[derive(Default)]
pub(crate) struct VerdictReason {
    /// Text of at most [`MAX_REASON_CHARS`](crate::cause::MAX_REASON_CHARS) characters.
    pub(crate) short: String,
    /// Sentence.
    pub(crate) long: String,
}

/// Cause, with a short word and a description.
struct Cause {
    word: String,
    words: String,
}

impl Cause {
    /// Makes a cause from a part that the node lacks.
    fn missing_part(difference: &crate::inventory::InventoryDifference) -> Self {
        Self { word: difference.word.to_owned(), words: difference.in_words() }
    }
}

/// Returns the most frequent value; in a tie, the first in alphabetical order.
fn modal_value(of: HashMap<&str, usize>) -> String {
    let mut all: Vec<(&str, usize)> = of.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    all.first().map(|(value, _)| (*value).to_owned()).unwrap_or_default()
}

/// Returns the reason for the verdict on a node; empty for a good node.
pub(crate) fn find_reason(
    node: &NodeRuns<'_>,
    ranked: &RankedNode,
    statistics: &[FigureStatistics],
    peers: &GroupMajority,
    load: Option<String>,
) -> VerdictReason {
    if ranked.verdict == RankVerdict::Good {
        return VerdictReason::default();
    }
    let decided =
        ranked.deciding_figure.and_then(|at| Some((&statistics[at], ranked.figures[at].as_ref()?)));
    let Some((of, figure)) = decided else {
        return VerdictReason {
            short: "nothing measured".to_owned(),
            long: "no figure has a result".to_owned(),
        };
    };
    if !figure.exceeds_limits {
        return within_limits_reason(of, figure, peers.rare_defect(node.latest()), load);
    }
    let by_reference = of.is_below_reference(figure.value);
    let share = figure.reference_share.filter(|_| by_reference).unwrap_or(figure.share);
    let share = Fraction(share).rounded_down();
    let percent = share.in_whole_percent();
    let base = if by_reference { "ref" } else { "med" };
    let value = of.key.unit.in_words(figure.value);
    let compared = match &of.reference {
        Some(reference) if by_reference => {
            let bound = of.key.unit.in_words(reference.bound);
            format!("{percent} of the reference, bound {bound}")
        }
        _ => format!("{percent} of the median of {} nodes", of.nodes),
    };
    let mut causes = causes(node, ranked, peers);
    if let Some(load) = load {
        causes.insert(0, Cause { word: "busy".to_owned(), words: load });
    }
    let mut long = format!("{} {value}: {compared}", of.key.title());
    for cause in &causes {
        long.push_str(&format!("; {}", cause.words));
    }
    let words = causes.iter().map(|cause| cause.word.as_str());
    let head = format!("{} {}", of.key.short_name(), share.in_compact_percent());
    VerdictReason { short: reason_with_cause(&head, base, words), long }
}

/// Returns the reason why a node is not called good although its figures are within the limits.
fn within_limits_reason(
    of: &FigureStatistics,
    figure: &RankedFigure,
    defect: Option<&str>,
    load: Option<String>,
) -> VerdictReason {
    let Some((peer_verdict, power)) = figure.peer_verdict.zip(figure.power) else {
        let long = "fewer than eight nodes of one kind, and no reference for them".to_owned();
        return VerdictReason { short: "no peers or ref".to_owned(), long };
    };
    if let Some(id) = defect {
        let name = Finding::finding_name(id);
        let word = finding_word(id).map_or_else(|| name.clone(), str::to_owned);
        let long = format!("critical finding that most nodes do not have: {name}");
        return VerdictReason { short: cut_at_word(&word), long };
    }
    let short_name = of.key.short_name();
    if peer_verdict != PeerVerdict::Undecided {
        let long = format!("{}: {}", of.key, power.in_words());
        return VerdictReason { short: cut_at_word(&format!("{short_name}: cannot tell")), long };
    }
    let share = Fraction(figure.reference_share.map_or(figure.share, |one| one.min(figure.share)));
    let share = share.rounded_down();
    let is_by_reference = figure.reference_share.is_some_and(|one| one < figure.share);
    let base = if is_by_reference { "reference" } else { "median" };
    let mut long = format!(
        "{} {}: {} of the {base}, within the limits, but a loss of {} is not excluded",
        of.key,
        of.key.unit.in_words(figure.value),
        share.in_whole_percent(),
        power.sought.in_whole_percent(),
    );
    if let Some(load) = load {
        long.push_str(&format!("; {load}"));
        return VerdictReason {
            short: cut_at_word(&format!("{short_name} {}: busy", share.in_compact_percent())),
            long,
        };
    }
    VerdictReason {
        short: cut_at_word(&format!("{short_name} {}: undecided", share.in_compact_percent())),
        long,
    }
}

/// Returns the differences between a node and its group, the most likely cause first.
fn causes(node: &NodeRuns<'_>, ranked: &RankedNode, peers: &GroupMajority) -> Vec<Cause> {
    let run = node.latest();
    let mut causes: Vec<Cause> = Vec::new();
    let less = ranked.differences.iter().filter(|one| one.is_less);
    let more = ranked.differences.iter().filter(|one| !one.is_less);
    causes.extend(less.map(Cause::missing_part));
    for id in &run.findings {
        if let Some(word) = peers.finding_word(id) {
            causes.push(Cause {
                word: word.to_owned(),
                words: format!("finding: {}", Finding::finding_name(id)),
            });
        }
    }
    let slow_clock =
        run.clock_hz.zip(peers.clock_hz).filter(|(own, all)| *own < (1.0 - CLOCK_LIMIT) * all);
    causes.extend(slow_clock.map(|(own, all)| Cause {
        word: "clock".to_owned(),
        words: format!("clock {:.2} GHz, peers {:.2} GHz", own / 1e9, all / 1e9),
    }));
    for (word, usual) in &peers.settings {
        if let Some(own) = run.settings.get(word).filter(|own| *own != usual) {
            let words = format!("{word} {own}, peers {usual}");
            causes.push(Cause { word: (*word).to_owned(), words });
        }
    }
    causes.extend(more.map(Cause::missing_part));
    causes
}
