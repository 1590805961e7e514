mod hosts;

use super::*;
use crate::figures::NodeFigure;
use nodegauge_measure::Unit;
use nodegauge_measure::record::Measurement;

fn triad() -> FigureKey {
    let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
    FigureKey::from_measurement(&m, "triad".to_owned())
}

fn run(host: &str, value: f64) -> NodeRun {
    NodeRun {
        host: host.to_owned(),
        label: None,
        id: String::new(),
        started: "2026-11-25T00:00:00Z".to_owned(),
        kind: NodeKind { processor: Some("A".to_owned()), sockets: 2, virtualisation: None },
        inventory: Inventory { dimms: Some(24), ..Inventory::default() },
        settings: BTreeMap::from([("governor", "performance".to_owned())]),
        clock_hz: Some(3e9),
        findings: Vec::new(),
        critical_findings: Vec::new(),
        other_load: None,
        facts: Default::default(),
        figures: vec![NodeFigure::new(triad(), value)],
    }
}

fn rank(runs: Vec<NodeRun>, options: &RankingOptions) -> Ranking {
    Ranking::from_intake(&Intake { runs, ..Intake::default() }, options)
}

/// Returns a random number with normal distribution.
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Simulates fleets of 1000 nodes with this spread between nodes, of which 1 % are slower by `loss`. Returns recall and
/// false positive rate.
fn simulated(spread: f64, loss: f64, key: &FigureKey) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(11);
    let (mut found, mut slow, mut wrong, mut good) = (0, 0, 0, 0);
    for _ in 0..80 {
        let runs = (0..1000).map(|i| {
            let factor = if i % 100 == 0 { 1.0 - loss } else { 1.0 };
            let value = 380e9 * factor * (1.0 + spread * normal(&mut random));
            let mut one = run(&format!("n{i}"), value);
            one.figures[0].key = key.clone();
            one
        });
        let ranking = rank(runs.collect(), &RankingOptions::default());
        for node in &ranking.groups[0].nodes {
            let is_slow = node.host[1..].parse::<usize>().unwrap() % 100 == 0;
            let is_called = node.verdict == RankVerdict::Slow;
            slow += usize::from(is_slow);
            good += usize::from(!is_slow);
            found += usize::from(is_slow && is_called);
            wrong += usize::from(!is_slow && is_called);
        }
    }
    (found as f64 / slow as f64, wrong as f64 / good as f64)
}

#[test]
fn slow_nodes_of_simulated_fleets_are_found_without_false_alarms() {
    let found = |spread: f64, loss: f64, key: &FigureKey, min: f64| {
        let (recall, wrong) = simulated(spread, loss, key);
        assert!(recall >= min && wrong < 0.001, "{key}: {recall} {wrong}");
    };
    found(0.02, 0.11, &triad(), 0.99);
    let rating = Measurement::new("compute", "hpl", "rating", Unit::FlopsPerSecond);
    found(0.01, 0.06, &FigureKey::from_measurement(&rating, "rating".to_owned()), 0.99);
    // A loss of 6 % plus a deviation may stay within the practical limit of 4 % for memory: about one node in sixty
    // does.
    found(0.01, 0.06, &triad(), 0.97);
}

fn fleet(count: usize) -> Vec<NodeRun> {
    (0..count).map(|i| run(&format!("n{i:02}"), 380e9 + 1e9 * (i % 3) as f64)).collect()
}

#[test]
fn reason_for_a_slow_node_contains_its_likely_cause() {
    let mut runs = fleet(20);
    runs[7].figures[0].value = 262e9;
    runs[7].inventory.dimms = Some(23);
    runs[9].figures[0].value = 300e9;
    runs[9].clock_hz = Some(2e9);
    runs[9].settings.insert("governor", "powersave".to_owned());
    let ranking = rank(runs, &RankingOptions::default());
    assert_eq!(ranking.groups.len(), 1);
    let lines: Vec<(&str, &str)> = ranking
        .nodes(RankVerdict::Slow)
        .map(|(_, node)| (node.host.as_str(), node.reason.as_str()))
        .collect();
    assert_eq!(lines, [("n07", "mem 68% of med: DIMM"), ("n09", "mem 78% med: clock")]);
    let first = &ranking.groups[0].nodes[1];
    assert!(first.explanation.contains("governor powersave, peers performance"));
    assert!(first.explanation.contains("clock 2.00 GHz, peers 3.00 GHz"));
}

#[test]
fn eight_equal_nodes_form_a_group_and_busy_nodes_are_unknown() {
    let mut runs = fleet(30);
    for one in &mut runs[..8] {
        one.inventory.dimms = Some(12);
        one.figures[0].value = 190e9;
    }
    runs[20].figures[0].value = 250e9;
    runs[20].other_load = Some("2 other tasks are running".to_owned());
    let ranking = rank(runs.clone(), &RankingOptions::default());
    let sizes: Vec<usize> = ranking.groups.iter().map(|group| group.nodes.len()).collect();
    assert_eq!(sizes, [22, 8]);
    assert_eq!(ranking.hosts(RankVerdict::Slow), Vec::<String>::new());
    assert_eq!(ranking.hosts(RankVerdict::Unknown), ["n20"]);
    let busy = &ranking.groups[0].nodes[0];
    assert_eq!(busy.reason, "mem 65% of med: busy");
    // A finding that is a defect under any load is not excused by load.
    runs[20].findings.push("cpu-quota".to_owned());
    assert_eq!(rank(runs.clone(), &RankingOptions::default()).hosts(RankVerdict::Unknown), ["n20"]);
    runs[20].critical_findings.push("cpu-quota".to_owned());
    let limited = rank(runs, &RankingOptions::default());
    assert_eq!(limited.hosts(RankVerdict::Slow), ["n20"]);
    assert_eq!(limited.groups[0].nodes[0].reason, "mem 65% med: quota");
}

#[test]
fn fewer_than_eight_equal_nodes_need_a_reference() {
    let mut runs = fleet(4);
    runs[1].figures[0].value = 304e9;
    let alone = rank(runs.clone(), &RankingOptions::default());
    assert_eq!(alone.hosts(RankVerdict::Unknown).len(), 4);
    assert!(alone.remarks[0].contains("give --reference"), "{:?}", alone.remarks);
    let reference = Reference {
        schema: crate::reference::SCHEMA.to_owned(),
        written: String::new(),
        tool: nodegauge_measure::record::Tool { version: "0".to_owned(), commit: None },
        groups: vec![ReferenceGroup {
            kind: runs[0].kind.clone(),
            inventory: runs[0].inventory.clone(),
            nodes: "n[00-03]".to_owned(),
            measured: None,
            figures: vec![ReferenceFigure {
                key: triad(),
                value: 380e9,
                bound: 365e9,
                nodes: 4,
                runs: 4,
                spread_nodes: Some(Fraction(0.005)),
                spread_runs: None,
                basis: String::new(),
                loss_found: None,
                needed: None,
                size: None,
            }],
        }],
    };
    let mut options = RankingOptions { reference: Some(reference), ..RankingOptions::default() };
    let judged = rank(runs.clone(), &options);
    assert_eq!(judged.hosts(RankVerdict::Slow), ["n01"]);
    assert_eq!(judged.groups[0].nodes[0].reason, "mem 80% of ref");
    assert_eq!(judged.hosts(RankVerdict::Good).len(), 3);
    // If two runs are required, one slow run is not sufficient; a second one makes the node slow.
    options.confirm = 2;
    assert_eq!(rank(runs.clone(), &options).hosts(RankVerdict::Suspect), ["n01"]);
    runs.push(run("n01", 305e9));
    assert_eq!(rank(runs.clone(), &options).hosts(RankVerdict::Slow), ["n01"]);
    // If all nodes are busy, a low share of the reference does not make a node slow.
    let mut busy = runs.clone();
    for one in &mut busy {
        one.other_load = Some("2 other tasks are running".to_owned());
    }
    let disturbed = rank(busy, &options);
    assert_eq!(disturbed.hosts(RankVerdict::Unknown), ["n01"]);
    assert_eq!(disturbed.hosts(RankVerdict::Good).len(), 3);
    let mut limited = runs.clone();
    for one in &mut limited {
        one.other_load = Some("2 other tasks are running".to_owned());
    }
    for one in limited.iter_mut().filter(|one| one.host == "n01") {
        one.findings.push("cpu-quota".to_owned());
    }
    assert_eq!(rank(limited, &options).hosts(RankVerdict::Slow), ["n01"]);
    // A reference for another kind of node gives no verdict.
    for one in &mut runs {
        one.kind.sockets = 1;
    }
    let other = rank(runs, &options);
    assert_eq!(other.hosts(RankVerdict::Unknown).len(), 4);
    assert!(other.remarks[0].contains("no such nodes"), "{:?}", other.remarks);
}

#[test]
fn nodes_without_a_record_are_missing_with_their_reason() {
    let rejected = |node: &str, reason: &str| RejectedText {
        source: format!("{node}.json"),
        node: Some(node.to_owned()),
        reason: reason.to_owned(),
        evidence: Evidence::Record,
    };
    let with = |evidence: Evidence, node: &str| RejectedText { evidence, ..rejected(node, "text") };
    let intake = Intake {
        runs: vec![run("n1.site", 1e9)],
        rejected: vec![
            rejected("n2", "the file is empty"),
            rejected("n1", "old"),
            with(Evidence::FileName, "README"),
            with(Evidence::Message, "vm"),
        ],
        duplicates: 0,
        files: Vec::new(),
    };
    let options = RankingOptions {
        expected_nodes: ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec(),
        failures: BTreeMap::from([("n3".to_owned(), "NODE_FAIL".to_owned())]),
        ..RankingOptions::default()
    };
    let missing = |of: &RankingOptions| -> Vec<String> {
        let ranking = Ranking::from_intake(&intake, of);
        ranking.missing.iter().map(|(host, why)| format!("{host}: {why}")).collect()
    };
    assert_eq!(missing(&options), ["n2: the file is empty", "n3: NODE_FAIL", "n4: no record"]);
    // Without a list of expected nodes, the outputs of tools determine the names.
    assert_eq!(missing(&RankingOptions::default()), ["n2: the file is empty", "vm: text"]);
    let named =
        RankingOptions { expected_nodes: vec!["README".to_owned()], ..RankingOptions::default() };
    assert_eq!(missing(&named), ["README: text", "n2: the file is empty"]);
}

#[test]
fn fast_second_run_clears_a_slow_node() {
    let mut runs = fleet(12);
    runs[3].figures[0].value = 0.69 * 380e9;
    let mut options = RankingOptions { confirm: 1, ..RankingOptions::default() };
    assert_eq!(rank(runs.clone(), &options).hosts(RankVerdict::Slow), ["n03"]);
    runs.push(run("n03", 0.998 * 380e9));
    for confirm in [0, 1, 2] {
        options.confirm = confirm;
        let ranking = rank(runs.clone(), &options);
        assert_eq!(ranking.hosts(RankVerdict::Good).len(), 12, "{confirm}");
        let node = ranking.groups[0].nodes.iter().find(|node| node.host == "n03").unwrap();
        // The better of the two runs counts.
        assert!(node.figures[0].as_ref().unwrap().share > 0.99);
    }
    // Two of three runs are slow.
    runs.push(run("n03", 0.68 * 380e9));
    assert_eq!(rank(runs.clone(), &options).hosts(RankVerdict::Slow), ["n03"]);
    // Too few runs are slow, but the value of the node does not exclude a loss.
    options.confirm = 3;
    let disagreeing = rank(runs.clone(), &options);
    assert_eq!(disagreeing.hosts(RankVerdict::Good).len(), 11);
    assert_eq!(disagreeing.groups[0].nodes[0].reason, "mem 68%: undecided");
    options.confirm = 4;
    assert_eq!(rank(runs, &options).hosts(RankVerdict::Suspect), ["n03"]);
}

#[test]
fn nodes_with_the_same_host_name_are_named_by_label() {
    let named = |i: usize, label: &str| NodeRun {
        label: Some(label.to_owned()),
        ..run("localhost", 380e9 + 1e9 * i as f64)
    };
    let runs: Vec<NodeRun> = (0..12).map(|i| named(i % 3, &format!("n{i:02}"))).collect();
    let ranking = rank(runs.clone(), &RankingOptions::default());
    assert_eq!(ranking.node_count(), 12);
    assert!(ranking.remarks[0].contains("records of n[00-11] have the same host name, localhost"));
    assert!(ranking.missing.is_empty());
    // Runs of a node that come from its own file and from a file of all nodes belong to the same node.
    let mut all = fleet(3);
    all.extend(fleet(3));
    for (i, one) in all.iter_mut().enumerate() {
        one.label = Some(if i < 3 { format!("n{i:02}") } else { "all".to_owned() });
    }
    let repeated = rank(all, &RankingOptions::default());
    assert_eq!((repeated.node_count(), repeated.groups[0].nodes[0].runs), (3, 2));
    assert!(!repeated.remarks.iter().any(|remark| remark.contains("host name")));
}

#[test]
fn reference_without_the_kind_of_the_nodes_is_reported() {
    let runs = fleet(12);
    let reference = Reference {
        schema: crate::reference::SCHEMA.to_owned(),
        written: String::new(),
        tool: nodegauge_measure::record::Tool { version: "0".to_owned(), commit: None },
        groups: Vec::new(),
    };
    let options = RankingOptions { reference: Some(reference), ..RankingOptions::default() };
    let ranking = rank(runs, &options);
    assert_eq!(ranking.hosts(RankVerdict::Good).len(), 12);
    assert_eq!(
        ranking.remarks,
        ["the reference has no such nodes (2 x A); judged by the group only"]
    );
}

#[test]
fn node_is_named_as_in_the_list_of_expected_nodes() {
    let hosts = |of_runs: &[&str], asked: &[&str]| -> Vec<String> {
        let runs: Vec<NodeRun> = of_runs.iter().map(|name| run(name, 1e9)).collect();
        let expected: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        let names = NodeNames::from_runs(&runs, &expected);
        runs.iter().map(|one| names.node_name(one).to_owned()).collect()
    };
    assert_eq!(hosts(&["n05.cluster.example.org"], &["n04", "n05"]), ["n05"]);
    assert_eq!(hosts(&["n05"], &["n05.cluster.example.org"]), ["n05.cluster.example.org"]);
    assert_eq!(hosts(&["n05", "n05.site"], &["n05"]), ["n05", "n05"]);
    assert_eq!(hosts(&["n05.site"], &[]), ["n05.site"]);
    // Hosts or nodes whose names differ only in the domain keep their full names.
    assert_eq!(hosts(&["n05.a", "n05.b"], &["n05"]), ["n05.a", "n05.b"]);
    assert_eq!(hosts(&["n05"], &["n05.a", "n05.b"]), ["n05"]);
    let runs = vec![run("n05.site", 1e9)];
    let options =
        RankingOptions { expected_nodes: vec!["n05".to_owned()], ..RankingOptions::default() };
    assert!(rank(runs, &options).missing.is_empty());
}

/// Simulates fleets of twelve nodes with this spread between runs. The first node of each fleet has lost `loss` of its
/// performance. Returns the verdicts on the first nodes, and those on the others.
fn verdicts(
    fleets: usize,
    spread: f64,
    runs: usize,
    loss: f64,
) -> (Vec<RankVerdict>, Vec<RankVerdict>) {
    let mut random = fastrand::Rng::with_seed(31);
    let mut first = Vec::new();
    let mut others = Vec::new();
    for _ in 0..fleets {
        let mut all = Vec::new();
        for i in 0..12 {
            let lost = if i == 0 { 1.0 - loss } else { 1.0 };
            for _ in 0..runs {
                all.push(run(
                    &format!("n{i:02}"),
                    380e9 * lost * (spread * normal(&mut random)).exp(),
                ));
            }
        }
        for node in &rank(all, &RankingOptions::default()).groups[0].nodes {
            let of = if node.host == "n00" { &mut first } else { &mut others };
            of.push(node.verdict);
        }
    }
    (first, others)
}

fn count(verdicts: &[RankVerdict], of: RankVerdict) -> usize {
    verdicts.iter().filter(|verdict| **verdict == of).count()
}

#[test]
fn ten_percent_loss_is_found_and_good_nodes_stay_good() {
    for runs in [1, 3] {
        let (lost, others) = verdicts(100, 0.02, runs, 0.1);
        assert!(count(&lost, RankVerdict::Good) <= 5, "{runs} runs");
        let found = count(&lost, RankVerdict::Slow) + count(&lost, RankVerdict::Suspect);
        let judged = 100 - count(&lost, RankVerdict::Unknown);
        assert!(judged >= 95 && 100 * found >= 95 * judged, "{runs} runs: {found} of {judged}");
        let (_, alike) = verdicts(100, 0.02, runs, 0.0);
        for of in [others, alike] {
            let good = count(&of, RankVerdict::Good);
            assert!(good >= 95 * 11, "{runs} runs: {good} of 1100 good nodes are good");
        }
    }
    // With more runs, the verdict is certain.
    let (lost, _) = verdicts(100, 0.02, 4, 0.1);
    let slow = count(&lost, RankVerdict::Slow);
    assert!(slow >= 95, "{slow} of 100 are slow");
}

#[test]
fn wide_spread_makes_nodes_unknown_until_enough_runs() {
    for loss in [0.0, 0.1] {
        let (first, others) = verdicts(100, 0.17, 1, loss);
        assert_eq!(count(&first, RankVerdict::Good) + count(&others, RankVerdict::Good), 0);
        let unknown = count(&others, RankVerdict::Unknown);
        assert!(unknown >= 95 * 11, "{unknown}");
    }
    let mut random = fastrand::Rng::with_seed(2);
    let runs =
        (0..48).map(|i| run(&format!("n{:02}", i / 4), 380e9 * (0.17 * normal(&mut random)).exp()));
    let ranking = rank(runs.collect(), &RankingOptions::default());
    let node = &ranking.groups[0].nodes[0];
    assert_eq!((node.verdict, node.reason.as_str()), (RankVerdict::Unknown, "mem: cannot tell"));
    let needed = node.figures[0].as_ref().unwrap().power.unwrap().needed.unwrap();
    let words = format!("{} runs of each node would suffice", needed.runs);
    assert!(node.explanation.ends_with(&words), "{}", node.explanation);
    let (_, others) = verdicts(100, 0.17, needed.runs, 0.0);
    let good = count(&others, RankVerdict::Good);
    assert!(good >= 95 * 11, "{good} of 1100 good nodes are good");
}

#[test]
fn node_with_a_rare_critical_finding_is_never_good() {
    let mut runs = fleet(12);
    runs[5].findings.push("cpu-quota".to_owned());
    runs[5].critical_findings.push("cpu-quota".to_owned());
    let verdict = |of: &[NodeRun], host: &str| {
        let ranking = rank(of.to_vec(), &RankingOptions::default());
        let node = ranking.groups[0].nodes.iter().find(|node| node.host == host).unwrap().clone();
        (node.verdict, node.reason, node.explanation)
    };
    let (limited, reason, explanation) = verdict(&runs, "n05");
    assert_eq!((limited, reason.as_str()), (RankVerdict::Unknown, "quota"));
    assert_eq!(explanation, "critical finding that most nodes do not have: cpu quota");
    assert_eq!(verdict(&runs, "n04").0, RankVerdict::Good);
    // Load is not a defect, and a quota that most nodes have does not distinguish a node.
    let mut busy = fleet(12);
    busy[5].critical_findings.push("other-load".to_owned());
    busy[5].findings.push("other-load".to_owned());
    assert_eq!(verdict(&busy, "n05").0, RankVerdict::Good);
    for one in &mut runs {
        one.findings = vec!["cpu-quota".to_owned()];
        one.critical_findings = vec!["cpu-quota".to_owned()];
    }
    assert_eq!(verdict(&runs, "n05").0, RankVerdict::Good);
}
