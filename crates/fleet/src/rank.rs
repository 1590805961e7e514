//! Ranking of nodes: groups of nodes of one kind, the deviation of each node from the others of its group, and a
//! verdict with its reason.
//!
//! A node is slow if a figure is beyond two limits: the statistical limit (`slow::z_limit`) and the practical one
//! ([`FigureKey::practical_limit`]). It is good only if a loss worth acting on would have been detected
//! (`slow::power`). In groups of fewer than eight nodes, the spread cannot be estimated, and only a reference judges;
//! with larger groups, a reference judges in addition. If other programs used a node with a slow figure, the node is
//! unknown, unless it has a critical finding that the other nodes do not have. The functions are pure.

mod group;
mod reason;

use crate::figures::FigureKey;
use crate::intake::{Evidence, Intake, RejectedText};
use crate::inventory::{Inventory, InventoryDifference, NodeKind};
use crate::names::NodeNames;
use crate::node::NodeRun;
use crate::reference::{Reference, ReferenceFigure, ReferenceGroup};
use nodegauge_analysis::slow::power::{DetectionPower, PeerVerdict};
use nodegauge_analysis::slow::{
    self, MIN_NODES, NodeGroupStatistics, RobustSpread, SpreadComponents,
};
use nodegauge_measure::Fraction;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Verdict on a node, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankVerdict {
    /// A figure is beyond both limits in a sufficient number of runs.
    Slow,
    /// A figure is beyond both limits, but in fewer runs than required; or it is within the limits, but too low to
    /// exclude a loss worth acting on.
    Suspect,
    /// The node cannot be judged, other programs used it, a loss worth acting on would not have been detected, or the
    /// node has a critical finding that most nodes do not have.
    Unknown,
    /// For every figure, a loss worth acting on is excluded.
    Good,
}

nodegauge_measure::names!(
    RankVerdict,
    "verdict",
    Slow = "slow",
    Suspect = "suspect",
    Unknown = "unknown",
    Good = "good"
);

/// Options of a ranking.
#[derive(Debug, Clone, Default)]
pub struct RankingOptions {
    /// Reference of the site.
    pub reference: Option<Reference>,
    /// Nodes that should have been measured.
    pub expected_nodes: Vec<String>,
    /// Reasons why expected nodes have no record, according to the tool that ran the measurement.
    pub failures: BTreeMap<String, String>,
    /// States of expected nodes in the scheduler; a state is the reason for a missing record if no other reason is
    /// known.
    pub states: BTreeMap<String, String>,
    /// Number of runs of a node that must be beyond the limits before the node is called slow.
    pub confirm: usize,
}

/// Nodes in groups, and nodes without a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// Groups of nodes of one kind, largest first.
    pub groups: Vec<RankedGroup>,
    /// Nodes without a run, with the reason.
    pub missing: Vec<(String, String)>,
    /// Texts that contain no record.
    pub rejected: Vec<RejectedText>,
    /// Number of records that were found more than once; each counts once.
    pub duplicates: usize,
    /// Remarks on the whole ranking.
    pub remarks: Vec<String>,
}

/// Group of nodes of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedGroup {
    /// Kind of the nodes.
    pub kind: NodeKind,
    /// Parts that most nodes of the group have.
    pub inventory: Inventory,
    /// Nodes, worst first.
    pub nodes: Vec<RankedNode>,
    /// Statistics of the figures.
    pub figures: Vec<FigureStatistics>,
    /// Statistics of the clock with all cores busy, which explains figures and does not affect verdicts; `None` if it
    /// is unknown.
    pub clock: Option<FigureStatistics>,
    /// Start times of the oldest and the newest run.
    pub measured: Option<[String; 2]>,
}

/// Statistics of a figure over the nodes of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureStatistics {
    /// Identity of the figure.
    pub key: FigureKey,
    /// Median of the nodes, in the unit of the figure.
    pub median: f64,
    /// Relative standard deviation of the values of the nodes.
    pub spread: f64,
    /// Spread between nodes, and spread between runs of one node.
    pub components: SpreadComponents,
    /// Number of nodes that have the figure.
    pub nodes: usize,
    /// Number of runs that have the figure.
    pub runs: usize,
    /// Robust z from which a node is slow; `None` for fewer than eight nodes.
    pub limit: Option<f64>,
    /// Bound in the reference.
    pub reference: Option<ReferenceFigure>,
    /// Array size or working set in bytes; `None` if it is unknown or differs between the runs.
    pub size: Option<u64>,
}

/// Node with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedNode {
    /// Host name.
    pub host: String,
    /// Verdict.
    pub verdict: RankVerdict,
    /// Reason with at most 20 characters; empty for a good node.
    pub reason: String,
    /// Reason in a sentence.
    pub explanation: String,
    /// Figures in the order of [`RankedGroup::figures`]; `None` where the node has no result.
    pub figures: Vec<Option<RankedFigure>>,
    /// Index of the deciding figure: the figure farthest beyond its limits, otherwise the worst figure.
    pub deciding_figure: Option<usize>,
    /// Number of runs.
    pub runs: usize,
    /// Parts in which the node differs from its group.
    pub differences: Vec<InventoryDifference>,
}

/// Figure of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedFigure {
    /// Median of the node's runs; for an even number of runs, the better of the two middle values.
    pub value: f64,
    /// Performance divided by the median of the group.
    pub share: f64,
    /// Performance divided by that of the reference.
    pub reference_share: Option<f64>,
    /// Robust z, which is negative for values worse than the median; `None` for fewer than eight nodes.
    pub z: Option<f64>,
    /// True if the value is beyond the limits. If the node has enough runs, a sufficient number of its runs must be
    /// beyond the limits, too.
    pub exceeds_limits: bool,
    /// Number of runs beyond the limits.
    pub runs_exceeding: usize,
    /// Verdict on a value within the limits; `None` if neither group nor reference can judge it.
    pub peer_verdict: Option<PeerVerdict>,
    /// Power of the judgement. If both group and reference judge, it is the power of the one that detects the smaller
    /// loss.
    pub power: Option<DetectionPower>,
    /// Reason why the figure is suspect in the runs.
    pub doubt: Option<String>,
}

/// Runs of one node.
pub(crate) struct NodeRuns<'a> {
    pub(crate) host: &'a str,
    pub(crate) runs: Vec<&'a NodeRun>,
}

impl<'a> NodeRuns<'a> {
    /// Returns the newest run.
    pub(crate) fn latest(&self) -> &'a NodeRun {
        let newest = self.runs.iter().max_by(|a, b| a.started.cmp(&b.started));
        newest.expect("a node has a run")
    }
}

impl RankedNode {
    /// True if a figure is beyond its limits.
    pub fn has_slow_figure(&self) -> bool {
        self.figures.iter().flatten().any(|figure| figure.exceeds_limits)
    }
}

impl RankedGroup {
    /// Returns the nodes with a verdict.
    pub fn nodes_with(&self, verdict: RankVerdict) -> impl Iterator<Item = &RankedNode> {
        self.nodes.iter().filter(move |node| node.verdict == verdict)
    }
}

impl Ranking {
    /// Ranks the nodes of an intake.
    pub fn from_intake(intake: &Intake, options: &RankingOptions) -> Self {
        Self::with_names(
            intake,
            &NodeNames::from_runs(&intake.runs, &options.expected_nodes),
            options,
        )
    }

    /// Ranks the nodes of an intake, with known names.
    pub fn with_names(intake: &Intake, names: &NodeNames<'_>, options: &RankingOptions) -> Self {
        let nodes = by_host(&intake.runs, names);
        let mut groups: Vec<RankedGroup> = group::group_nodes(nodes)
            .into_iter()
            .map(|members| ranked(&members, options))
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
        let mut ranking = Self {
            missing: missing(intake, names, options),
            groups,
            rejected: intake.rejected.clone(),
            duplicates: intake.duplicates,
            remarks: names.remarks(),
        };
        let on_groups = remarks(&ranking, options);
        ranking.remarks.extend(on_groups);
        ranking
    }

    /// Returns all nodes with a verdict, with their groups.
    pub fn nodes(&self, verdict: RankVerdict) -> impl Iterator<Item = (&RankedGroup, &RankedNode)> {
        self.groups
            .iter()
            .flat_map(move |group| group.nodes_with(verdict).map(move |node| (group, node)))
    }

    /// Returns the hosts with a verdict.
    pub fn hosts(&self, verdict: RankVerdict) -> Vec<String> {
        self.nodes(verdict).map(|(_, node)| node.host.clone()).collect()
    }

    /// Returns the number of nodes with a run.
    pub fn node_count(&self) -> usize {
        self.groups.iter().map(|group| group.nodes.len()).sum()
    }
}

/// Groups runs by node, in the order of their first runs.
fn by_host<'a>(runs: &'a [NodeRun], names: &NodeNames<'a>) -> Vec<NodeRuns<'a>> {
    let mut indices: HashMap<&str, usize> = HashMap::new();
    let mut nodes: Vec<NodeRuns<'_>> = Vec::new();
    for run in runs {
        let host = names.node_name(run);
        let index = *indices.entry(host).or_insert_with(|| {
            nodes.push(NodeRuns { host, runs: Vec::new() });
            nodes.len() - 1
        });
        nodes[index].runs.push(run);
    }
    nodes
}

/// Logarithms of the performance of a figure, by node and run.
struct Column {
    key: FigureKey,
    /// Runs by node; empty for a node without the figure.
    runs: Vec<Vec<f64>>,
    doubts: Vec<Option<String>>,
    /// Array sizes or working sets in the runs.
    sizes: BTreeSet<Option<u64>>,
}

impl Column {
    /// Returns the array size or working set in bytes; `None` if it is unknown or differs between the runs.
    fn size(&self) -> Option<u64> {
        let mut sizes = self.sizes.iter();
        let first = *sizes.next()?;
        first.filter(|_| sizes.next().is_none())
    }
}

/// Returns the logarithm of the performance of a value; larger is better.
fn performance(key: &FigureKey, value: f64) -> f64 {
    slow::log_performance(value, key.unit.better())
}

fn columns(nodes: &[NodeRuns<'_>]) -> Vec<Column> {
    let mut indices: HashMap<&FigureKey, usize> = HashMap::new();
    let mut found: Vec<Column> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for figure in node.runs.iter().flat_map(|run| &run.figures) {
            let index = *indices.entry(&figure.key).or_insert_with(|| {
                found.push(Column {
                    key: figure.key.clone(),
                    runs: vec![Vec::new(); nodes.len()],
                    doubts: vec![None; nodes.len()],
                    sizes: BTreeSet::new(),
                });
                found.len() - 1
            });
            found[index].runs[at].push(performance(&figure.key, figure.value));
            found[index].sizes.insert(figure.size);
            let doubt = figure.doubt.as_ref().or(figure.size_doubt.as_ref());
            if doubt.is_some() {
                found[index].doubts[at] = doubt.cloned();
            }
        }
    }
    found
}

/// Ranks the nodes of a group.
fn ranked(members: &group::GroupMembers<'_>, options: &RankingOptions) -> RankedGroup {
    let nodes = &members.nodes;
    let reference = options.reference.as_ref();
    let of_group = reference.and_then(|all| all.closest_group(&members.kind, &members.inventory));
    let columns = columns(nodes);
    let statistics: Vec<FigureStatistics> =
        columns.iter().map(|column| statistics(column, of_group)).collect();
    let judges: Vec<Judges> =
        columns.iter().zip(&statistics).map(|(column, of)| Judges::new(column, of)).collect();
    let peers = reason::GroupMajority::from_nodes(nodes);
    let mut ranked_nodes: Vec<RankedNode> = (0..nodes.len())
        .map(|at| {
            let figures: Vec<Option<RankedFigure>> = columns
                .iter()
                .zip(&judges)
                .map(|(column, judges)| ranked_figure(column, judges, at, options.confirm))
                .collect();
            judged(&nodes[at], figures, &statistics, members, &peers, options)
        })
        .collect();
    ranked_nodes.sort_by(|a, b| {
        let by_share = deciding_share(a).total_cmp(&deciding_share(b));
        a.verdict.cmp(&b.verdict).then(by_share).then(a.host.cmp(&b.host))
    });
    let mut started: Vec<&String> =
        nodes.iter().flat_map(|node| &node.runs).map(|run| &run.started).collect();
    started.retain(|text| !text.is_empty());
    let first = started.iter().min();
    let last = started.iter().max();
    RankedGroup {
        kind: members.kind.clone(),
        inventory: members.inventory.clone(),
        nodes: ranked_nodes,
        figures: statistics,
        clock: clock(nodes),
        measured: first.zip(last).map(|(a, b)| [(*a).clone(), (*b).clone()]),
    }
}

/// Returns the share of the deciding figure of a node; infinite if there is none.
fn deciding_share(node: &RankedNode) -> f64 {
    let deciding_figure = node.deciding_figure.and_then(|index| node.figures[index].as_ref());
    deciding_figure.map_or(f64::INFINITY, |figure| figure.share)
}

/// Returns the statistics of the clock with all cores busy.
fn clock(nodes: &[NodeRuns<'_>]) -> Option<FigureStatistics> {
    let key = FigureKey::clock();
    let mut runs: Vec<Vec<f64>> = Vec::new();
    for node in nodes {
        let clocks = node.runs.iter().filter_map(|run| run.clock_hz);
        runs.push(clocks.map(|hz| performance(&key, hz)).collect());
    }
    let is_known = runs.iter().any(|of_node| !of_node.is_empty());
    let column = Column { doubts: vec![None; runs.len()], runs, key, sizes: BTreeSet::new() };
    is_known.then(|| statistics(&column, None))
}

fn statistics(column: &Column, reference: Option<&ReferenceGroup>) -> FigureStatistics {
    let group = NodeGroupStatistics::from_nodes(&column.runs, column.key.practical_limit());
    FigureStatistics {
        median: slow::value_from_log_performance(
            group.robust_spread.median,
            column.key.unit.better(),
        ),
        spread: group.robust_spread.spread,
        components: group.components,
        nodes: group.nodes,
        runs: group.runs,
        limit: group.limit,
        reference: reference.and_then(|bounds| bounds.figure(&column.key)).cloned(),
        size: column.size(),
        key: column.key.clone(),
    }
}

impl FigureStatistics {
    /// Returns the statistics as logarithms of performance, by which nodes are judged.
    fn group(&self) -> NodeGroupStatistics {
        NodeGroupStatistics {
            robust_spread: RobustSpread {
                median: performance(&self.key, self.median),
                spread: self.spread,
            },
            components: self.components,
            nodes: self.nodes,
            runs: self.runs,
            practical_limit: self.key.practical_limit(),
            limit: self.limit,
        }
    }

    /// True if this value is worse than the bound in the reference.
    fn is_below_reference(&self, value: f64) -> bool {
        self.reference.as_ref().is_some_and(|reference| !reference.is_met(value))
    }

    /// Converts a performance to a value.
    fn value_from_log_performance(&self, performance: f64) -> f64 {
        slow::value_from_log_performance(performance, self.key.unit.better())
    }

    /// True if this performance is beyond the limit of the group or of the reference.
    fn exceeds_limits(&self, performance: f64) -> bool {
        self.group().is_slow(performance)
            || self.is_below_reference(self.value_from_log_performance(performance))
    }

    /// True if the figure can be judged.
    fn is_judged(&self) -> bool {
        self.limit.is_some() || self.reference.is_some()
    }

    /// Returns the smallest loss of a slow node, as a share of the median.
    pub(crate) fn loss_limit(&self) -> f64 {
        self.group().loss_limit().0
    }
}

/// Group and reference by which a figure is judged, with the detection power of each for every number of runs that a
/// node has.
struct Judges<'a> {
    of: &'a FigureStatistics,
    powers: BTreeMap<usize, Powers>,
}

/// Powers of both judges.
struct Powers {
    peers: Option<DetectionPower>,
    reference: Option<DetectionPower>,
}

impl<'a> Judges<'a> {
    fn new(column: &Column, of: &'a FigureStatistics) -> Self {
        let mut powers = BTreeMap::new();
        for runs in column.runs.iter().map(Vec::len).filter(|runs| *runs > 0) {
            powers.entry(runs).or_insert_with(|| Powers {
                peers: of.group().detection_power(runs),
                reference: of.reference.as_ref().map(|reference| reference.detection_power(runs)),
            });
        }
        Self { of, powers }
    }

    /// Judges the value of a node with `runs` runs. Returns the result and the power of the stronger judge. A judge
    /// without power is ignored if the other judge has power.
    fn peer_verdict(
        &self,
        runs: usize,
        value: f64,
    ) -> (Option<PeerVerdict>, Option<DetectionPower>) {
        let Some(powers) = self.powers.get(&runs) else { return (None, None) };
        let by_peers = powers
            .peers
            .map(|power| (power, power.peer_verdict(self.of.key.share(value, self.of.median))));
        let by_reference = powers.reference.zip(self.of.reference.as_ref());
        let by_reference =
            by_reference.map(|(power, of)| (power, power.peer_verdict(of.share(value))));
        let judged: Vec<(DetectionPower, PeerVerdict)> =
            by_peers.into_iter().chain(by_reference).collect();
        let order = [PeerVerdict::Undecided, PeerVerdict::Good, PeerVerdict::Unknown];
        let verdict = order.into_iter().find(|known| judged.iter().any(|(_, one)| one == known));
        let strongest = judged.iter().map(|(power, _)| *power);
        (verdict, strongest.min_by(|a, b| smallest_loss(a).total_cmp(&smallest_loss(b))))
    }
}

/// Returns the smallest loss that a judge detects; 1 if it detects none.
fn smallest_loss(power: &DetectionPower) -> f64 {
    power.found.map_or(1.0, |found| found.0)
}

/// Returns the median; for an even number of values, the better of the two middle values, because a good value shows
/// what the node can reach.
fn better_median(performances: &[f64]) -> Option<f64> {
    let mut sorted = performances.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Returns the figure of the node with index `at`. If the node has at least `confirm` runs, the figure is beyond the
/// limits only if `confirm` of these runs are.
fn ranked_figure(
    column: &Column,
    judges: &Judges<'_>,
    at: usize,
    confirm: usize,
) -> Option<RankedFigure> {
    let of = judges.of;
    let runs = column.runs.get(at)?;
    let own = better_median(runs)?;
    let value = of.value_from_log_performance(own);
    let runs_exceeding = runs.iter().filter(|run| of.exceeds_limits(**run)).count();
    let is_acquitted = runs.len() >= confirm && runs_exceeding < confirm;
    let (peer_verdict, power) = judges.peer_verdict(runs.len(), value);
    Some(RankedFigure {
        value,
        share: of.key.share(value, of.median),
        reference_share: of.reference.as_ref().map(|reference| reference.share(value)),
        z: of.limit.map(|_| of.group().robust_spread.z(own)),
        exceeds_limits: of.exceeds_limits(own) && !is_acquitted,
        runs_exceeding,
        peer_verdict,
        power,
        doubt: column.doubts[at].clone(),
    })
}

/// Returns the index of the worst figure among those for which `is_meant` is true: the figure with the smallest share
/// of the reference or of the median.
fn worst(
    figures: &[Option<RankedFigure>],
    is_meant: impl Fn(&RankedFigure) -> bool,
) -> Option<usize> {
    let mut worst: Option<(usize, f64)> = None;
    for (index, figure) in figures.iter().enumerate() {
        let Some(figure) = figure.as_ref().filter(|figure| is_meant(figure)) else { continue };
        let share = figure.reference_share.unwrap_or(1.0).min(figure.share);
        if worst.is_none_or(|(_, min)| share.total_cmp(&min).is_lt()) {
            worst = Some((index, share));
        }
    }
    worst.map(|(index, _)| index)
}

/// Returns the verdict on a node.
fn judged(
    node: &NodeRuns<'_>,
    figures: Vec<Option<RankedFigure>>,
    statistics: &[FigureStatistics],
    members: &group::GroupMembers<'_>,
    peers: &reason::GroupMajority,
    options: &RankingOptions,
) -> RankedNode {
    let beyond = worst(&figures, |figure| figure.exceeds_limits);
    let undecided = worst(&figures, |figure| figure.peer_verdict == Some(PeerVerdict::Undecided));
    let without_power = worst(&figures, |figure| figure.peer_verdict == Some(PeerVerdict::Unknown));
    let deciding_figure =
        beyond.or(undecided).or(without_power).or_else(|| worst(&figures, |_| true));
    let is_judged = figures.iter().zip(statistics).any(|(one, of)| one.is_some() && of.is_judged());
    let load = node.runs.iter().find_map(|run| run.other_load.clone());
    let decided = deciding_figure.and_then(|index| figures[index].as_ref());
    // Load on most nodes does not distinguish any node, but makes figures lower than a reference. A finding that most
    // nodes do not have distinguishes a node even under the same load. A critical finding is a defect under any load.
    let is_by_peers = deciding_figure.zip(decided).is_some_and(|(index, figure)| {
        let of = &statistics[index];
        of.group().is_slow(performance(&of.key, figure.value))
    });
    let is_distinguished = is_by_peers || peers.rare_finding(node.latest()).is_some();
    let has_defect = peers.has_rare_defect(node.latest());
    let is_busy = load.is_some() && !has_defect && !(peers.is_busy() && is_distinguished);
    let confirmed = decided.is_some_and(|one| one.runs_exceeding >= options.confirm.max(1));
    let verdict = match beyond {
        Some(_) if is_busy => RankVerdict::Unknown,
        Some(_) if confirmed => RankVerdict::Slow,
        Some(_) => RankVerdict::Suspect,
        None if !is_judged || peers.rare_defect(node.latest()).is_some() => RankVerdict::Unknown,
        None if undecided.is_some() && is_busy => RankVerdict::Unknown,
        None if undecided.is_some() => RankVerdict::Suspect,
        None if without_power.is_some() => RankVerdict::Unknown,
        None => RankVerdict::Good,
    };
    let differences = members.inventory.differences(&node.latest().inventory);
    let mut ranked = RankedNode {
        host: node.host.to_owned(),
        verdict,
        reason: String::new(),
        explanation: String::new(),
        figures,
        deciding_figure,
        runs: node.runs.len(),
        differences,
    };
    let why = reason::find_reason(node, &ranked, statistics, peers, load.filter(|_| is_busy));
    ranked.reason = why.short;
    ranked.explanation = why.long;
    ranked
}

/// Returns a host name without its domain.
fn without_domain(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

/// True if `there` contains the host, with or without its domain.
fn has_run(host: &str, there: &HashSet<String>) -> bool {
    there.contains(host) || host.contains('.') && there.contains(without_domain(host))
}

/// Returns the expected nodes without a run, and the nodes whose text contains no record, with the reasons.
fn missing(
    intake: &Intake,
    names: &NodeNames<'_>,
    options: &RankingOptions,
) -> Vec<(String, String)> {
    let mut there: HashSet<String> = HashSet::new();
    for run in &intake.runs {
        let host = names.node_name(run);
        there.insert(host.to_owned());
        there.insert(without_domain(host).to_owned());
    }
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for rejected in &intake.rejected {
        let Some(node) = rejected.node.as_ref().filter(|node| !has_run(node, &there)) else {
            continue;
        };
        let is_node = match rejected.evidence {
            Evidence::Record => true,
            Evidence::Message => {
                options.expected_nodes.is_empty() || options.expected_nodes.contains(node)
            }
            Evidence::FileName | Evidence::Log => options.expected_nodes.contains(node),
        };
        if is_node {
            found.insert(node.clone(), rejected.reason.clone());
        }
    }
    for host in options.expected_nodes.iter().filter(|host| !has_run(host, &there)) {
        found.entry(host.clone()).or_insert_with(|| {
            options.states.get(host).cloned().unwrap_or_else(|| "no record".to_owned())
        });
    }
    for (host, why) in options.failures.iter().filter(|(host, _)| !has_run(host, &there)) {
        found.insert(host.clone(), why.clone());
    }
    found.into_iter().collect()
}

fn remarks(ranking: &Ranking, options: &RankingOptions) -> Vec<String> {
    let mut remarks = Vec::new();
    for group in &ranking.groups {
        for figure in &group.figures {
            let Some(reference) = &figure.reference else { continue };
            let share = reference.share(figure.median);
            if !reference.is_met(figure.median) {
                let share = Fraction(share).rounded_down().in_whole_percent();
                remarks.push(format!(
                    "the median of {} is {share} of the reference: the whole group has changed",
                    figure.key.title()
                ));
            }
        }
        let is_small = group.nodes.len() < MIN_NODES;
        let has_reference = group.figures.iter().any(|figure| figure.reference.is_some());
        if has_reference {
            continue;
        }
        let nodes = group.kind.in_words();
        match &options.reference {
            Some(_) if is_small => remarks.push(format!(
                "fewer than {MIN_NODES} nodes of one kind ({nodes}): not judged; the reference has no such nodes"
            )),
            Some(_) => remarks
                .push(format!("the reference has no such nodes ({nodes}); judged by the group only")),
            None if is_small => remarks.push(format!(
                "fewer than {MIN_NODES} nodes of one kind ({nodes}): not judged; give --reference"
            )),
            None => {}
        }
    }
    remarks
}

#[cfg(test)]
mod tests;
