//! Rankings for other programs: CSV, JSON, host lists for schedulers, lines for NHC, commands for `scontrol`.
//!
//! Host names come from records of other nodes. Only names that are valid in the grammar of [`HostList`] are printed
//! for other programs; the others appear only on the page.

use crate::rank::{RankVerdict, RankedNode, Ranking};
use nodegauge_analysis::csv;
use nodegauge_gauge::view::group_by_key;
use nodegauge_toolchain::CommandLine;
use nodegauge_toolchain::mpi::HostList;
use serde_json::{Value, json};

/// Columns of the CSV table. New columns are added at the end.
const COLUMNS: [&str; 13] = [
    "host",
    "verdict",
    "reason",
    "group",
    "gauge",
    "test",
    "name",
    "unit",
    "value",
    "of_median",
    "z",
    "of_reference",
    "runs",
];

/// Returns the ranking as CSV, with one line per node and figure.
pub fn csv(ranking: &Ranking) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for (number, group) in ranking.groups.iter().enumerate() {
        for node in &group.nodes {
            for (figure, of) in node.figures.iter().zip(&group.figures) {
                let Some(figure) = figure else { continue };
                rows.push(vec![
                    node.host.clone(),
                    node.verdict.name().to_owned(),
                    node.reason.clone(),
                    (number + 1).to_string(),
                    of.key.gauge.clone(),
                    of.key.test.clone(),
                    of.key.name.clone(),
                    of.key.unit.symbol().to_owned(),
                    csv::format_number(Some(figure.value)),
                    csv::format_number(Some(figure.share)),
                    csv::format_number(figure.z),
                    csv::format_number(figure.reference_share),
                    node.runs.to_string(),
                ]);
            }
        }
    }
    for (host, why) in &ranking.missing {
        let mut row = vec![host.clone(), "missing".to_owned(), why.clone()];
        row.resize(COLUMNS.len() - 1, String::new());
        row.push("0".to_owned());
        rows.push(row);
    }
    csv::format_rows(&rows)
}

/// Returns the ranking as JSON.
pub fn json(ranking: &Ranking) -> Value {
    let groups = ranking.groups.iter().map(|group| {
        let figures = group.figures.iter().map(|of| {
            json!({
                "gauge": of.key.gauge, "test": of.key.test, "name": of.key.name,
                "unit": of.key.unit, "category": of.key.category, "median": of.median,
                "spread": of.spread, "spread_nodes": of.components.nodes,
                "spread_runs": of.components.runs, "nodes": of.nodes, "runs": of.runs,
                "limit_z": of.limit, "limit_practical": of.key.practical_limit(),
                "reference": of.reference,
            })
        });
        let nodes = group.nodes.iter().map(|node| {
            let of_node = node.figures.iter().zip(&group.figures).filter_map(|(figure, of)| {
                let figure = figure.as_ref()?;
                Some(json!({
                    "test": of.key.test, "name": of.key.name, "value": figure.value,
                    "of_median": figure.share, "z": figure.z, "of_reference": figure.reference_share,
                    "beyond_limits": figure.exceeds_limits, "doubt": figure.doubt,
                }))
            });
            let differences: Vec<String> =
                node.differences.iter().map(|one| one.in_words()).collect();
            json!({
                "host": node.host, "verdict": node.verdict.name(), "reason": node.reason,
                "explanation": node.explanation, "runs": node.runs, "differences": differences,
                "figures": of_node.collect::<Vec<_>>(),
            })
        });
        json!({
            "kind": group.kind, "inventory": group.inventory, "measured": group.measured,
            "figures": figures.collect::<Vec<_>>(), "nodes": nodes.collect::<Vec<_>>(),
        })
    });
    let missing: Vec<Value> =
        ranking.missing.iter().map(|(host, why)| json!({"host": host, "reason": why})).collect();
    let rejected = ranking
        .rejected
        .iter()
        .map(|one| json!({"source": one.source, "node": one.node, "reason": one.reason}));
    json!({
        "schema": "nodegauge-rank/1",
        "slow": folded(ranking, RankVerdict::Slow),
        "suspect": folded(ranking, RankVerdict::Suspect),
        "unknown": folded(ranking, RankVerdict::Unknown), "missing": missing,
        "groups": groups.collect::<Vec<_>>(), "not_read": rejected.collect::<Vec<_>>(),
        "duplicates": ranking.duplicates, "remarks": ranking.remarks,
    })
}

/// Returns the nodes with a verdict as a host list.
fn folded(ranking: &Ranking, verdict: RankVerdict) -> String {
    HostList::fold_names(&ranking.hosts(verdict))
}

/// Returns the slow nodes as a host list for `--exclude`; empty if there are none.
pub fn exclude_list(ranking: &Ranking) -> String {
    let (valid, _) = HostList::split_invalid_names(&ranking.hosts(RankVerdict::Slow));
    if valid.is_empty() { String::new() } else { format!("{}\n", HostList::fold_names(&valid)) }
}

/// Returns the names of slow nodes that are invalid in the grammar of [`HostList`], so that lists for other programs
/// cannot contain them.
pub fn invalid_names(ranking: &Ranking) -> Vec<String> {
    let (_, others) = HostList::split_invalid_names(&ranking.hosts(RankVerdict::Slow));
    others
}

/// Returns the slow nodes with valid names, grouped by reason.
fn slow_by_reason(ranking: &Ranking) -> Vec<(String, String)> {
    let slow = ranking.nodes(RankVerdict::Slow).map(|(_, node)| node);
    let mut found = Vec::new();
    for (reason, nodes) in group_by_key(slow, |node: &&RankedNode| node.reason.clone()) {
        let hosts: Vec<String> = nodes.iter().map(|node| node.host.clone()).collect();
        let (valid, _) = HostList::split_invalid_names(&hosts);
        if !valid.is_empty() {
            found.push((HostList::fold_names(&valid), plain(&reason)));
        }
    }
    found
}

/// Removes the characters of a reason that a shell interprets, because users copy the printed command.
fn plain(reason: &str) -> String {
    let mut plain = reason.to_owned();
    plain.retain(|c| c.is_ascii_alphanumeric() || " %:/.-".contains(c));
    plain
}

/// Returns lines for `nhc.conf` that make the health check fail on slow nodes.
pub fn nhc_lines(ranking: &Ranking) -> String {
    let mut lines = String::new();
    for (nodes, reason) in slow_by_reason(ranking) {
        // In NHC's match strings, a range of nodes is written in braces.
        lines.push_str(&format!("{{{nodes}}} || die 1 \"{reason}\"\n"));
    }
    lines
}

/// Returns the commands with which an administrator can drain the slow nodes. Slurm shows only the first characters of
/// the reason.
pub fn drain_commands(ranking: &Ranking) -> Vec<String> {
    let mut commands = Vec::new();
    for (nodes, reason) in slow_by_reason(ranking) {
        let name = CommandLine::new(format!("NodeName={nodes}"), []);
        commands.push(format!("scontrol update {name} State=DRAIN Reason=\"{reason}\""));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::RankedGroup;

    fn ranking(slow: &[(&str, &str)]) -> Ranking {
        let node = |(host, reason): &(&str, &str)| RankedNode {
            host: (*host).to_owned(),
            verdict: RankVerdict::Slow,
            reason: (*reason).to_owned(),
            explanation: String::new(),
            figures: Vec::new(),
            deciding_figure: None,
            runs: 1,
            differences: Vec::new(),
        };
        let group = RankedGroup {
            kind: Default::default(),
            inventory: Default::default(),
            nodes: slow.iter().map(node).collect(),
            figures: Vec::new(),
            clock: None,
            measured: None,
        };
        Ranking {
            groups: vec![group],
            missing: vec![("n9".to_owned(), "a, \"b\"".to_owned())],
            rejected: Vec::new(),
            duplicates: 0,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn node_lists_for_other_programs_have_valid_names_only() {
        let reason = "mem 69% of ref: DIMM";
        let of = ranking(&[("n3", reason), ("n4", reason), ("$(id)", reason), ("n7", "x\";id")]);
        assert_eq!(exclude_list(&of), "n[3-4,7]\n");
        assert_eq!(
            nhc_lines(&of),
            "{n[3-4]} || die 1 \"mem 69% of ref: DIMM\"\n{n7} || die 1 \"xid\"\n"
        );
        assert_eq!(
            drain_commands(&of)[0],
            "scontrol update 'NodeName=n[3-4]' State=DRAIN Reason=\"mem 69% of ref: DIMM\""
        );
        assert_eq!(invalid_names(&of), ["$(id)"]);
        for none in [ranking(&[]), ranking(&[("$(id)", reason)])] {
            assert_eq!((exclude_list(&none), nhc_lines(&none)), (String::new(), String::new()));
        }
        assert!(csv(&of).ends_with("n9,missing,\"a, \"\"b\"\"\",,,,,,,,,,0\n"), "{}", csv(&of));
        assert_eq!(json(&of)["slow"], "$(id),n[3-4,7]");
    }
}
