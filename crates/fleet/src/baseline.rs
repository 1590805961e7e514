//! Makes the reference of a site from a ranked fleet, without its slow nodes, and prints it for ReFrame.

use crate::check;
use crate::figures::FigureKey;
use crate::rank::{FigureStatistics, RankVerdict, RankedGroup, RankedNode, Ranking};
use crate::reference::{Reference, ReferenceFigure, ReferenceGroup, SCHEMA};
use nodegauge_analysis::slow::limit;
use nodegauge_measure::quantity::{counted, significant};
use nodegauge_measure::record::Tool;
use nodegauge_measure::stats::Better;
use nodegauge_measure::{Failure, Fraction, Unit};
use nodegauge_toolchain::mpi::HostList;

/// Makes a reference from a ranking. Slow nodes and nodes to confirm are left out of the list of nodes; medians and
/// spreads are robust against them.
///
/// # Errors
/// Fails if there is nothing to make a reference from.
pub fn of(ranking: &Ranking, tool: Tool, written: String) -> Result<Reference, Failure> {
    let groups: Vec<ReferenceGroup> =
        ranking.groups.iter().map(group).filter(|group| !group.figures.is_empty()).collect();
    if groups.is_empty() {
        return Err(Failure::usage("no figures to make a reference from")
            .hint("give records of nodes that were measured"));
    }
    Ok(Reference { schema: SCHEMA.to_owned(), written, tool, groups })
}

fn group(ranked: &RankedGroup) -> ReferenceGroup {
    let is_kept = |node: &&RankedNode| {
        matches!(node.verdict, RankVerdict::Good | RankVerdict::Unknown) || !node.is_beyond()
    };
    let kept = ranked.nodes.iter().filter(is_kept);
    let nodes: Vec<String> = kept.map(|node| node.host.clone()).collect();
    let left_out = ranked.nodes.len() - nodes.len();
    // The clock alone is no reference.
    let clock = ranked.clock.iter().filter(|_| !ranked.figures.is_empty());
    ReferenceGroup {
        kind: ranked.kind.clone(),
        inventory: ranked.inventory.clone(),
        nodes: HostList::folded(&nodes),
        measured: ranked.measured.clone(),
        figures: ranked.figures.iter().chain(clock).map(|of| figure(of, left_out)).collect(),
    }
}

/// Returns the bound of a figure: the median less the larger of the practical limit and the statistical limit of a
/// single run, in which the spreads of nodes and of runs add.
fn figure(of: &FigureStatistics, left_out: usize) -> ReferenceFigure {
    let practical = of.key.practical_limit();
    let spread = of.components.of_a_run();
    let statistical = spread.map_or(0.0, |spread| 1.0 - (-limit(of.runs) * spread).exp());
    let below = statistical.max(practical.0);
    let from = match left_out {
        0 => counted(of.nodes, "node"),
        n => format!("{}, of which {n} slow", counted(of.nodes, "node")),
    };
    let runs = counted(of.runs, "run");
    let why = if statistical > practical.0 {
        let of_a_run = Fraction(spread.unwrap_or_default());
        format!("{:.2} x spread of a run of {of_a_run}", limit(of.runs))
    } else {
        "practical limit".to_owned()
    };
    let figure = ReferenceFigure {
        key: of.key.clone(),
        value: of.median,
        bound: of.key.at_share(1.0 - below, of.median),
        nodes: of.nodes,
        runs: of.runs,
        spread_nodes: of.components.nodes.map(Fraction),
        spread_runs: of.components.runs.map(Fraction),
        basis: format!("median of {from}, {runs}, less {} ({why})", Fraction(below)),
        loss_found: None,
        needed: None,
    };
    let power = figure.power(check::RUNS);
    ReferenceFigure { loss_found: power.found, needed: power.needed, ..figure }
}

/// Describes for each figure which loss `check` finds with this reference.
pub fn powers(reference: &Reference) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &reference.groups {
        for figure in &group.figures {
            lines.push(format!("{}: {}", figure.key, figure.power(check::RUNS).in_words()));
        }
    }
    lines
}

/// Units as ReFrame's checks print them, with the value of one.
fn reframe_unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::BytesPerSecond => ("GB/s", 1e9),
        Unit::FlopsPerSecond => ("GFLOP/s", 1e9),
        Unit::Seconds => ("us", 1e-6),
        other => (other.symbol(), 1.0),
    }
}

/// Prints a reference as the attribute of a ReFrame check. The names are those of the shipped check,
/// `docs/examples/reframe_nodegauge.py`. `system` is ReFrame's name of the system and partition.
pub fn as_reframe(reference: &Reference, system: &str) -> String {
    let mut text = String::new();
    for group in &reference.groups {
        text.push_str(&format!("# {}: {}\n", group.kind.in_words(), group.inventory.in_words()));
        text.push_str(&format!("# {}, {}\n", group.nodes, reference.written));
        text.push_str(&format!("reference = {{\n    {}: {{\n", python(system)));
        // The check of ReFrame does not print the clock.
        for figure in group.figures.iter().filter(|figure| !figure.key.is_clock()) {
            text.push_str(&format!("        {}\n", reframe_line(figure)));
        }
        text.push_str("    },\n}\n");
    }
    text
}

fn reframe_line(figure: &ReferenceFigure) -> String {
    let FigureKey { name, unit, .. } = &figure.key;
    let (symbol, worth) = reframe_unit(*unit);
    let deviation = (figure.bound - figure.value) / figure.value;
    let bounds = match unit.better() {
        Better::Higher => format!("{deviation:.4}, None"),
        Better::Lower => format!("None, {deviation:.4}"),
    };
    let name: String = name.replace([' ', ','], "_");
    let value = significant(figure.value / worth);
    format!("{}: ({value}, {bounds}, '{symbol}'),  # {}", python(&name), figure.basis)
}

/// Quotes a text for Python.
fn python(text: &str) -> String {
    format!("'{}'", text.escape_default().to_string().replace('\'', "\\'").replace("\\\\'", "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::NodeFigure;
    use crate::intake::Intake;
    use crate::inventory::{Inventory, NodeKind};
    use crate::node::NodeRun;
    use crate::rank::RankingOptions;
    use nodegauge_measure::record::Measurement;
    use std::collections::BTreeMap;

    fn runs(value: impl Fn(usize) -> f64, count: usize) -> Vec<NodeRun> {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        (0..count)
            .map(|i| NodeRun {
                host: format!("n{i:02}"),
                label: None,
                id: String::new(),
                started: format!("2026-11-25T00:00:{i:02}Z"),
                kind: NodeKind { processor: Some("A".to_owned()), ..NodeKind::default() },
                inventory: Inventory::default(),
                settings: BTreeMap::new(),
                clock_hz: Some(if i == 3 { 2.4e9 } else { 3.6e9 }),
                findings: Vec::new(),
                critical: Vec::new(),
                other_load: None,
                facts: Default::default(),
                figures: vec![NodeFigure {
                    key: FigureKey::named(&m, "triad".to_owned()),
                    value: value(i),
                    doubt: None,
                }],
            })
            .collect()
    }

    fn made(runs: Vec<NodeRun>) -> Reference {
        let intake = Intake { runs, ..Intake::default() };
        let ranking = Ranking::of(&intake, &RankingOptions::default());
        let tool = Tool { version: "0.1.0".to_owned(), commit: None };
        of(&ranking, tool, "2026-11-25T03:00:00Z".to_owned()).unwrap()
    }

    #[test]
    fn a_bound_says_where_it_comes_from() {
        // One node of twenty has lost a third.
        let value = |i: usize| if i == 3 { 250e9 } else { 380e9 + 1e9 * (i % 3) as f64 };
        let reference = made(runs(value, 20));
        let group = &reference.groups[0];
        assert_eq!(group.nodes, "n[00-02,04-19]");
        let figure = &group.figures[0];
        assert_eq!((figure.nodes, figure.runs), (20, 20));
        assert!((figure.bound / figure.value - 0.96).abs() < 1e-9);
        assert_eq!(
            figure.basis,
            "median of 20 nodes, of which 1 slow, 20 runs, less 4 % (practical limit)"
        );
        let clock = &group.figures[1];
        assert!(clock.key.is_clock() && clock.nodes == 20, "{clock:?}");
        assert!((clock.value - 3.6e9).abs() < 1.0 && (clock.bound - 3.492e9).abs() < 1.0);
        // A wide spread gives a wider bound.
        let wide = made(runs(|i| 380e9 * (1.0 + 0.03 * ((i * 7 % 20) as f64 / 10.0 - 1.0)), 20));
        let of_wide = &wide.groups[0].figures[0];
        assert!(of_wide.bound < 0.92 * of_wide.value, "{}", of_wide.basis);
        assert!(of_wide.basis.contains("x spread of a run of"), "{}", of_wide.basis);
    }

    #[test]
    fn the_reference_of_reframe_has_the_names_of_the_check() {
        let text = as_reframe(&made(runs(|_| 380e9, 9)), "daint:mc");
        assert!(
            text.contains("    'daint:mc': {\n        'triad': (380.0, -0.0400, None, 'GB/s'),")
        );
        assert!(!text.contains("clock"), "{text}");
        assert_eq!(python("a'b\\"), "'a\\'b\\\\'");
    }

    #[test]
    fn without_figures_there_is_no_reference() {
        let ranking = Ranking::of(&Intake::default(), &RankingOptions::default());
        let tool = Tool { version: "0".to_owned(), commit: None };
        assert!(of(&ranking, tool, String::new()).is_err());
    }
}
