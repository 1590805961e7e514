//! Reference of a site, made from a ranking, and its format for ReFrame.

use crate::check;
use crate::figures::{FigureKey, NodeFigure};
use crate::node::NodeRun;
use crate::rank::{FigureStatistics, RankVerdict, RankedGroup, Ranking};
use crate::reference::{Reference, ReferenceFigure, ReferenceGroup, SCHEMA};
use nodegauge_analysis::slow::z_limit;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::Tool;
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Bytes, Failure, Fraction, ScaledUnit};
use nodegauge_toolchain::mpi::HostList;
use std::collections::BTreeMap;

/// Makes a reference from a ranking. Slow nodes, and nodes to measure again, are left out of its list of nodes. They
/// remain in the medians and spreads, which are robust.
///
/// # Errors
/// Fails if the ranking contains no figures.
pub fn make_reference(
    ranking: &Ranking,
    tool: Tool,
    written: String,
) -> Result<Reference, Failure> {
    let groups: Vec<ReferenceGroup> =
        ranking.groups.iter().map(group).filter(|group| !group.figures.is_empty()).collect();
    if groups.is_empty() {
        return Err(Failure::usage("the records contain no figures for a reference")
            .hint("give records of nodes that were measured"));
    }
    Ok(Reference { schema: SCHEMA.to_owned(), written, tool, groups })
}

fn group(ranked: &RankedGroup) -> ReferenceGroup {
    let kept = ranked.nodes.iter().filter(|node| {
        matches!(node.verdict, RankVerdict::Good | RankVerdict::Unknown) || !node.has_slow_figure()
    });
    let nodes: Vec<String> = kept.map(|node| node.host.clone()).collect();
    let left_out = ranked.nodes.len() - nodes.len();
    // A reference needs figures, so the clock is added only to other figures.
    let clock = ranked.clock.iter().filter(|_| !ranked.figures.is_empty());
    ReferenceGroup {
        kind: ranked.kind.clone(),
        inventory: ranked.inventory.clone(),
        nodes: HostList::fold_names(&nodes),
        measured: ranked.measured.clone(),
        figures: ranked.figures.iter().chain(clock).map(|of| figure(of, left_out)).collect(),
    }
}

/// Creates the figure of a reference. The bound is the median minus the practical limit, or minus the statistical limit
/// of a single run if that is larger. The statistical limit combines the spread between nodes and the spread between
/// runs.
///
/// `left_out` is the number of slow nodes.
fn figure(of: &FigureStatistics, left_out: usize) -> ReferenceFigure {
    let practical = of.key.practical_limit();
    let spread = of.components.run_deviation();
    let statistical = spread.map_or(0.0, |spread| 1.0 - (-z_limit(of.runs) * spread).exp());
    let below = statistical.max(practical.0);
    let from = match left_out {
        0 => count_in_words(of.nodes, "node"),
        n => format!("{} ({n} slow)", count_in_words(of.nodes, "node")),
    };
    let runs = count_in_words(of.runs, "run");
    let why = if statistical > practical.0 {
        let of_a_run = Fraction(spread.unwrap_or_default());
        format!("{:.2} x spread of single runs, {of_a_run}", z_limit(of.runs))
    } else {
        "practical limit".to_owned()
    };
    let figure = ReferenceFigure {
        key: of.key.clone(),
        value: of.median,
        bound: of.key.value_at_share(1.0 - below, of.median),
        nodes: of.nodes,
        runs: of.runs,
        spread_nodes: of.components.nodes.map(Fraction),
        spread_runs: of.components.runs.map(Fraction),
        basis: format!("median of {from}, {runs}, minus {} ({why})", Fraction(below)),
        loss_found: None,
        needed: None,
        size: of.size,
    };
    let power = figure.detection_power(check::MAX_MEASUREMENTS);
    ReferenceFigure { loss_found: power.found, needed: power.needed, ..figure }
}

/// Keeps, for each figure and kind of node, only the values measured with the size that most runs have, because a
/// reference has one size per figure. Returns a remark for each figure from which runs were left out.
pub fn keep_one_size(runs: &mut [NodeRun]) -> Vec<String> {
    let mut counts: BTreeMap<SizedFigure, BTreeMap<Option<u64>, usize>> = BTreeMap::new();
    for run in runs.iter() {
        for figure in &run.figures {
            let of = counts.entry(SizedFigure::from_run(run, figure)).or_default();
            *of.entry(figure.size).or_default() += 1;
        }
    }
    let mut remarks = Vec::new();
    let mut kept: BTreeMap<SizedFigure, Option<u64>> = BTreeMap::new();
    for (of, sizes) in counts {
        let all: usize = sizes.values().sum();
        // The largest of the most frequent sizes is kept.
        let Some((size, max)) = sizes.into_iter().max_by_key(|(size, count)| (*count, *size))
        else {
            continue;
        };
        if max < all {
            let words = size.map_or("no size".to_owned(), |size| Bytes(size).to_string());
            let left_out = count_in_words(all - max, "run");
            remarks
                .push(format!("{}: {left_out} left out, because the size is not {words}", of.key));
        }
        kept.insert(of, size);
    }
    for run in runs {
        let own = std::mem::take(&mut run.figures);
        let is_kept = |figure: &NodeFigure| {
            kept.get(&SizedFigure::from_run(run, figure)) == Some(&figure.size)
        };
        run.figures = own.into_iter().filter(is_kept).collect();
    }
    remarks
}

/// Figure of nodes of one kind; the runs of these nodes may have different sizes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SizedFigure {
    kind: String,
    key: FigureKey,
}

impl SizedFigure {
    fn from_run(run: &NodeRun, figure: &NodeFigure) -> Self {
        Self { kind: run.kind.in_words(), key: figure.key.clone() }
    }
}

/// Describes, for each figure, which loss `check` detects with this reference.
pub fn powers_in_words(reference: &Reference) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &reference.groups {
        for figure in &group.figures {
            lines.push(format!(
                "{}: {}",
                figure.key,
                figure.detection_power(check::MAX_MEASUREMENTS).in_words()
            ));
        }
    }
    lines
}

/// Formats a reference as the attribute of a ReFrame check. The names are those of the shipped check,
/// `docs/examples/reframe_nodegauge.py`. `system` is ReFrame's name of the system and partition.
pub fn reframe_attribute(reference: &Reference, system: &str) -> String {
    let mut text = String::new();
    for group in &reference.groups {
        text.push_str(&format!("# {}: {}\n", group.kind.in_words(), group.inventory.in_words()));
        text.push_str(&format!("# {}, {}\n", group.nodes, reference.written));
        text.push_str(&format!("reference = {{\n    {}: {{\n", python(system)));
        // The ReFrame check does not print the clock.
        for figure in group.figures.iter().filter(|figure| !figure.key.is_clock()) {
            text.push_str(&format!("        {}\n", reframe_line(figure)));
        }
        text.push_str("    },\n}\n");
    }
    text
}

fn reframe_line(figure: &ReferenceFigure) -> String {
    let FigureKey { name, unit, .. } = &figure.key;
    let scaled = ScaledUnit::for_lists(*unit);
    let deviation = (figure.bound - figure.value) / figure.value;
    let bounds = match unit.better() {
        BetterDirection::Higher => format!("{deviation:.4}, None"),
        BetterDirection::Lower => format!("None, {deviation:.4}"),
    };
    let name: String = name.replace([' ', ','], "_");
    let value = scaled.number_text(figure.value);
    format!("{}: ({value}, {bounds}, '{scaled}'),  # {}", python(&name), figure.basis)
}

/// Quotes a text as a string in Python.
fn python(text: &str) -> String {
    format!("'{}'", text.escape_default().to_string().replace('\'', "\\'").replace("\\\\'", "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::Intake;
    use crate::inventory::{Inventory, NodeKind};
    use crate::rank::RankingOptions;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::Measurement;

    fn runs(mut value: impl FnMut(usize) -> f64, count: usize) -> Vec<NodeRun> {
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
                critical_findings: Vec::new(),
                other_load: None,
                facts: Default::default(),
                figures: vec![NodeFigure {
                    size: Some(1 << 27),
                    ..NodeFigure::new(FigureKey::from_measurement(&m, "triad".to_owned()), value(i))
                }],
            })
            .collect()
    }

    fn made(runs: Vec<NodeRun>) -> Reference {
        let intake = Intake { runs, ..Intake::default() };
        let ranking = Ranking::from_intake(&intake, &RankingOptions::default());
        let tool = Tool { version: "0.1.0".to_owned(), commit: None };
        make_reference(&ranking, tool, "2026-11-25T03:00:00Z".to_owned()).unwrap()
    }

    #[test]
    fn reference_bound_states_its_basis() {
        // One node of twenty has lost a third of its bandwidth.
        let value = |i: usize| if i == 3 { 250e9 } else { 380e9 + 1e9 * (i % 3) as f64 };
        let reference = made(runs(value, 20));
        let group = &reference.groups[0];
        assert_eq!(group.nodes, "n[00-02,04-19]");
        let figure = &group.figures[0];
        assert_eq!((figure.nodes, figure.runs), (20, 20));
        assert!((figure.bound / figure.value - 0.96).abs() < 1e-9);
        assert_eq!(
            figure.basis,
            "median of 20 nodes (1 slow), 20 runs, minus 4 % (practical limit)"
        );
        let clock = &group.figures[1];
        assert!(clock.key.is_clock() && clock.nodes == 20, "{clock:?}");
        assert!((clock.value - 3.6e9).abs() < 1.0 && (clock.bound - 3.492e9).abs() < 1.0);
        // A wide spread makes the bound lower.
        let wide = made(runs(|i| 380e9 * (1.0 + 0.03 * ((i * 7 % 20) as f64 / 10.0 - 1.0)), 20));
        let of_wide = &wide.groups[0].figures[0];
        assert!(of_wide.bound < 0.92 * of_wide.value, "{}", of_wide.basis);
        assert!(of_wide.basis.contains("x spread of single runs, "), "{}", of_wide.basis);
    }

    #[test]
    fn reference_contains_detectable_loss_and_size() {
        let precise = made(runs(|i| 380e9 + 1e9 * (i % 3) as f64, 20));
        let figure = &precise.groups[0].figures[0];
        assert!(figure.loss_found.is_some_and(|loss| loss.0 < 0.06), "{figure:?}");
        assert_eq!((figure.needed, figure.size), (None, Some(1 << 27)));
        assert_eq!(powers_in_words(&precise)[0], "triad: would find a loss of 5 %");
        let mut random = fastrand::Rng::with_seed(9);
        let wide = made(runs(|_| 380e9 * (0.7 + 0.6 * random.f64()), 12));
        let varied = &wide.groups[0].figures[0];
        assert!(varied.loss_found.is_some_and(|loss| loss.0 > 0.3), "{varied:?}");
        assert!(varied.needed.is_some_and(|needed| needed.runs > 20), "{varied:?}");
        let line = &powers_in_words(&wide)[0];
        assert!(line.starts_with("triad: cannot find a loss of 10 %, only one of "), "{line}");
        assert!(line.ends_with(" runs of each node would suffice"), "{line}");
        // A reference from an earlier version has none of these values.
        let text = serde_json::to_string(&precise).unwrap();
        let old = text.replace("\"size\"", "\"a\"").replace("\"loss_found\"", "\"b\"");
        let read = Reference::parse(&old.replace("\"needed\"", "\"c\"")).unwrap();
        assert_eq!(read.groups[0].figures[0].size, None);
    }

    #[test]
    fn runs_of_other_sizes_are_left_out() {
        let mut all = runs(|_| 380e9, 9);
        all[2].figures[0].size = Some(1 << 20);
        assert_eq!(
            keep_one_size(&mut all),
            ["triad: 1 run left out, because the size is not 128 MiB"]
        );
        assert_eq!(all.iter().filter(|run| run.figures.is_empty()).count(), 1);
        assert_eq!(made(all).groups[0].figures[0].nodes, 8);
        assert!(keep_one_size(&mut runs(|_| 380e9, 9)).is_empty());
    }

    #[test]
    fn reframe_reference_uses_the_names_of_the_check() {
        let text = reframe_attribute(&made(runs(|_| 380e9, 9)), "daint:mc");
        assert!(
            text.contains("    'daint:mc': {\n        'triad': (380.0, -0.0400, None, 'GB/s'),")
        );
        assert!(!text.contains("clock"), "{text}");
        assert_eq!(python("a'b\\"), "'a\\'b\\\\'");
    }

    #[test]
    fn reference_requires_figures() {
        let ranking = Ranking::from_intake(&Intake::default(), &RankingOptions::default());
        let tool = Tool { version: "0".to_owned(), commit: None };
        assert!(make_reference(&ranking, tool, String::new()).is_err());
    }
}
