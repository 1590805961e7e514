use super::*;
use nodegauge_measure::keys::Registry;
use serde_json::json;

/// Returns a record of a host with one figure.
fn record(host: &str, triad: f64) -> serde_json::Value {
    let m = nodegauge_measure::record::Measurement {
        value: Some(triad),
        ..nodegauge_measure::record::Measurement::new(
            "memory",
            "stream",
            "triad",
            nodegauge_measure::Unit::BytesPerSecond,
        )
    };
    json!({
        "schema": "nodegauge/1", "id": format!("ID{host}"), "started": "2026-11-21T20:00:00Z", "seconds": 1.0,
        "complete": true, "tool": {"version": "0", "commit": null}, "command": ["stream"],
        "machine": nodegauge_measure::record::Machine { host: Some(host.to_owned()), ..Default::default() },
        "measurements": [m],
    })
}

fn read(content: &str) -> Intake {
    let registry = Registry::new(std::iter::empty());
    let selection =
        FigureSelection { gauges: &[], registry: &registry, includes_all: true, facts: false };
    let mut intake = Intake::default();
    let text = InputText {
        source: "in".to_owned(),
        node: None,
        evidence: Evidence::FileName,
        content: content.to_owned(),
    };
    intake.add(&text, &selection);
    intake
}

fn hosts(intake: &Intake) -> Vec<(&str, f64)> {
    intake.runs.iter().map(|run| (run.host.as_str(), run.figures[0].value)).collect()
}

fn reasons(intake: &Intake) -> Vec<String> {
    let one = |rejected: &RejectedText| {
        format!("{}: {}", rejected.node.as_deref().unwrap_or("?"), rejected.reason)
    };
    intake.rejected.iter().map(one).collect()
}

/// Prefixes each line of a formatted record with a label.
fn labelled(label: &str, record: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(record).unwrap();
    text.lines().map(|line| format!("{label}: {line}\n")).collect()
}

#[test]
fn record_is_found_in_every_tool_format() {
    let a = record("n1", 3e9);
    let b = record("n2", 4e9);
    let expected = [("n1", 3e9), ("n2", 4e9)];
    let lines = format!("{a}\n{b}\n");
    assert_eq!(hosts(&read(&lines)), expected);
    let pretty =
        format!("Welcome to n1\n{}\n{}\nbye", serde_json::to_string_pretty(&a).unwrap(), b);
    assert_eq!(hosts(&read(&pretty)), expected);
    // Lines of two nodes are interleaved.
    let [first, second] = [labelled("n1", &a), labelled("n2", &b)];
    let mixed: String =
        first.lines().zip(second.lines()).map(|(one, other)| format!("{other}\n{one}\n")).collect();
    let mut found = read(&mixed);
    found.runs.sort_by(|x, y| x.host.cmp(&y.host));
    assert_eq!(hosts(&found), expected);
    let tasks = format!("{}{}", labelled(" 0", &a), labelled("10", &b));
    assert_eq!(hosts(&read(&tasks)), expected);
    let rule = "-".repeat(15);
    let gathered = format!("{rule}\nn1\n{rule}\n{a}\n{rule}\nn2\n{rule}\n{b}\n");
    assert_eq!(hosts(&read(&gathered)), expected);
    let tree = json!({"changed": true, "rc": 0, "stdout": b.to_string(), "stderr": ""});
    assert_eq!(hosts(&read(&tree.to_string())), [expected[1]]);
}

/// Returns the formatted records of nine nodes; `prefix` returns the prefix of each line for the number of the node.
fn prefixed(prefix: impl Fn(usize) -> String) -> String {
    let one = |at: usize| {
        let text = serde_json::to_string_pretty(&record(&format!("n{at}"), 3e9)).unwrap();
        text.lines().map(|line| format!("{}{line}\n", prefix(at))).collect::<String>()
    };
    (1..10).map(one).collect()
}

#[test]
fn nodes_are_found_in_output_of_cluster_tools() {
    let records: Vec<serde_json::Value> =
        (1..10).map(|at| record(&format!("n{at}"), 3e9)).collect();
    let lines = |line: &dyn Fn(usize, &str) -> String| -> String {
        records.iter().enumerate().map(|(at, one)| line(at + 1, &one.to_string())).collect()
    };
    let pretty = |at: usize| serde_json::to_string_pretty(&records[at - 1]).unwrap();
    let salt: serde_json::Map<String, serde_json::Value> =
        (1..10).map(|at| (format!("n{at}"), pretty(at).into())).collect();
    let forms = [
        ("kubectl", prefixed(|at| format!("[pod/n{at}-x7k/nodegauge] "))),
        ("parallel", prefixed(|at| format!("n{at}\t"))),
        ("Open MPI 4", prefixed(|at| format!("[1,{at}]<stdout>:"))),
        ("Open MPI 5", prefixed(|at| format!("[prterun-n1-77@1,{at}]<stdout>: "))),
        ("MPICH", prefixed(|at| format!("[{at}] "))),
        (
            "ansible -o",
            lines(&|at, _| {
                format!("n{at} | CHANGED | rc=0 | (stdout) {}\n", pretty(at).replace('\n', "\\n"))
            }),
        ),
        (
            "Salt",
            lines(&|at, _| {
                format!(
                    "n{at}:\n{}",
                    pretty(at).lines().map(|l| format!("    {l}\n")).collect::<String>()
                )
            }),
        ),
        ("Salt, JSON", serde_json::to_string_pretty(&salt).unwrap()),
        (
            "Salt, JSON per minion",
            lines(&|at, _| json!({format!("n{at}"): pretty(at)}).to_string() + "\n"),
        ),
        ("array", serde_json::to_string_pretty(&records).unwrap()),
        ("journal", prefixed(|at| format!("Nov 28 14:00:0{at} n{at} nodegauge[12{at}]: "))),
        (
            "journal, RFC 3339",
            prefixed(|at| format!("2026-11-28T14:00:0{at}+01:00 n{at} nodegauge[1]: ")),
        ),
        (
            "journal, JSON",
            lines(&|at, one| {
                json!({"_HOSTNAME": format!("n{at}"), "MESSAGE": one, "PRIORITY": "6"}).to_string()
                    + "\n"
            }),
        ),
        ("pssh -i", lines(&|at, one| format!("[{at}] 14:00:0{at} [SUCCESS] n{at}\n{one}\n"))),
    ];
    for (name, text) in forms {
        let found = read(&text);
        let names: std::collections::BTreeSet<&str> =
            found.runs.iter().map(|run| run.host.as_str()).collect();
        assert_eq!(names.len(), 9, "{name}: {:?}", reasons(&found));
        assert!(found.rejected.is_empty(), "{name}: {:?}", reasons(&found));
    }
}

#[test]
fn failed_nodes_are_reported_with_the_reason_of_the_tool() {
    let good = record("n1", 3e9);
    let text = format!(
        "n1 | CHANGED | rc=0 | (stdout) {good}\nn2 | FAILED | rc=3 | (stdout)  (stderr) error: no memory\n\
         n3 | UNREACHABLE!: timed out\n"
    );
    let found = read(&text);
    assert_eq!(hosts(&found), [("n1", 3e9)]);
    assert_eq!(
        reasons(&found),
        ["n2: exit code 3: error: no memory", "n3: unreachable: timed out"]
    );
    let inline = format!(
        "[1] 14:00:01 [SUCCESS] n1\n{good}\n[2] 14:00:02 [FAILURE] n2 Exited with error code 1\nStderr: no\n"
    );
    assert_eq!(reasons(&read(&inline)), ["n2: Exited with error code 1"]);
}

#[test]
fn invalid_records_are_rejected_with_reasons() {
    let whole = serde_json::to_string_pretty(&record("n1", 3e9)).unwrap();
    let half = &whole[..whole.len() / 2];
    assert_eq!(reasons(&read(half)), ["?: the record is incomplete: the file ends within it"]);
    let newer = whole.replace("nodegauge/1", "nodegauge/2");
    assert_eq!(reasons(&read(&newer)), ["?: found schema nodegauge/2, required is nodegauge/1"]);
    let joined = format!("{whole}n2: {whole}");
    assert!(reasons(&read(&joined))[0].starts_with("?: text after a record: n2: {"));
    assert_eq!(reasons(&read(r#"{"a": 1}"#)), ["?: not a record of nodegauge"]);
    assert_eq!(reasons(&read(" \n")), ["?: the file is empty"]);
    assert_eq!(
        reasons(&read("bash: nodegauge: command not found\n")),
        ["?: no record: bash: nodegauge: command not found"]
    );
    let unreachable = json!({"changed": false, "unreachable": true, "msg": "no route to host"});
    assert_eq!(reasons(&read(&unreachable.to_string())), ["?: unreachable: no route to host"]);
    let mixed = format!(
        "{}clush: n2: exited with exit code 3\npdsh@head: n3: ssh exited with exit code 255\n\
         srun: error: n4: task 2: Exited with exit code 1\n",
        labelled("n1", &record("n1", 3e9))
    );
    let found = read(&mixed);
    assert_eq!(hosts(&found), [("n1", 3e9)]);
    assert_eq!(
        reasons(&found),
        [
            "n2: exited with exit code 3",
            "n3: ssh exited with exit code 255",
            "n4: task 2: Exited with exit code 1"
        ]
    );
}

#[test]
fn reframe_report_gives_a_run_per_node() {
    let case = |node: &str, value: f64| {
        json!({
            "name": "NodegaugeStream", "system": "daint", "partition": "mc", "result": "pass",
            "job_nodelist": [node], "fail_reason": null,
            "perfvalues": {"daint:mc:triad": [value, 0, null, null, "GB/s", "pass"]},
        })
    };
    let mut bad = case("n3", 1.0);
    bad["perfvalues"] = json!(null);
    bad["result"] = json!("fail");
    bad["fail_reason"] = json!("sanity error");
    let report = json!({
        "session_info": {}, "runs": [{"testcases": [case("n1", 3.0), case("n2", 4.0), bad]}],
    });
    let found = read(&report.to_string());
    assert_eq!(hosts(&found), [("n1", 3e9), ("n2", 4e9)]);
    assert_eq!(reasons(&found), ["n3: fail: sanity error"]);
}

#[test]
fn unreadable_files_of_a_folder_are_reported_by_node_name() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let a = record("n1", 3e9).to_string();
    write("n1.json", &a);
    write("again/all.jsonl", &a);
    write("n2.json", &a[..20]);
    write("n3.2.json", "");
    write(".fleet/n9.log", "not read");
    let registry = Registry::new(std::iter::empty());
    let selection =
        FigureSelection { gauges: &[], registry: &registry, includes_all: true, facts: false };
    let found = Intake::read(&[folder.path().to_owned()], &selection).unwrap();
    assert_eq!(hosts(&found), [("n1", 3e9)]);
    assert_eq!(found.duplicates, 1);
    assert_eq!(
        reasons(&found),
        ["n2: the record is incomplete: the file ends within it", "n3: the file is empty"]
    );
    let none = Intake::read(&[folder.path().join("none")], &selection).unwrap_err();
    assert!(none.to_string().starts_with("cannot read"), "{none}");
}

#[test]
fn messages_that_the_journal_left_out_are_named() {
    let text = record("n2", 3e9).to_string();
    let bytes = json!({"_HOSTNAME": "n2", "MESSAGE": text.as_bytes()});
    let omitted = json!({"_HOSTNAME": "n1", "MESSAGE": null});
    let found = read(&format!("{omitted}\n{bytes}\n"));
    assert_eq!(hosts(&found), [("n2", 3e9)]);
    let reasons = reasons(&found);
    assert!(reasons[0].starts_with("n1: journalctl left out a message"), "{reasons:?}");
}

#[test]
fn label_of_the_node_precedes_the_host_name_of_a_container() {
    let mut of_pod = record("nodegauge-0", 3e9);
    of_pod["labels"] = json!({"node": "n17"});
    assert_eq!(hosts(&read(&of_pod.to_string())), [("n17", 3e9)]);
}

#[test]
fn logs_next_to_records_give_reasons_for_missing_records() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("n1.json", &record("n1", 3e9).to_string());
    write("n1.log", "");
    write("n2.json", "");
    write(
        "n2.log",
        "error: no memory\nhint: ask the administrator\n\
         srun: error: vm: task 1: Exited with exit code 3\n",
    );
    write("n3.json", "{\"schema\": \"nodegauge/1\", ");
    write("n3.log", "slurmstepd: error: cancelled\n");
    write("n4.log", "");
    write("n5/stderr", "");
    write("n5/stdout", &record("n5", 3e9).to_string());
    write("README", "Records of Monday: see below\n");
    write("n6.json", "error: no processor\nhint: none\n");
    let registry = Registry::new(std::iter::empty());
    let selection =
        FigureSelection { gauges: &[], registry: &registry, includes_all: true, facts: false };
    let found = Intake::read(&[folder.path().to_owned()], &selection).unwrap();
    assert_eq!(hosts(&found), [("n1", 3e9), ("n5", 3e9)]);
    assert_eq!(
        reasons(&found),
        [
            "README: no record: Records of Monday: see below",
            "n2: no record: error: no memory",
            "n3: the record is incomplete: the file ends within it; slurmstepd: error: cancelled",
            "n4: the file is empty",
            "n6: no record: error: no processor",
        ]
    );
    assert_eq!(found.rejected[0].evidence, Evidence::FileName);
    assert_eq!(found.rejected[1].evidence, Evidence::Record);
}

#[test]
fn host_lists_in_messages_are_expanded() {
    let one = labelled("n1", &record("n1", 3e9));
    let found = read(&format!("{one}clush: n[14-15],login (3): exited with exit code 255\n"));
    assert_eq!(hosts(&found), [("n1", 3e9)]);
    let code = "exited with exit code 255";
    assert_eq!(reasons(&found), ["n14", "n15", "login"].map(|node| format!("{node}: {code}")));
    let rule = "-".repeat(15);
    let gathered = format!(
        "{rule}\nn[13-14] (2)\n{rule}\nbash: nodegauge: command not found\n{rule}\nn1\n{rule}\n{}\n",
        record("n1", 3e9)
    );
    let blocks = read(&gathered);
    assert_eq!(hosts(&blocks), [("n1", 3e9)]);
    let why = "no record: bash: nodegauge: command not found";
    assert_eq!(reasons(&blocks), ["n13", "n14"].map(|node| format!("{node}: {why}")));
}

#[test]
fn ansible_output_is_split_by_node() {
    let pretty = serde_json::to_string_pretty(&record("n1", 3e9)).unwrap();
    let printed = format!(
        "n1 | CHANGED | rc=0 >>\n{pretty}\n\
         n12 | FAILED | rc=127 >>\nerror: no nodegauge\nhint: non-zero return code\n\
         n13 | UNREACHABLE! => {{\n    \"changed\": false,\n    \"msg\": \"no route to host\",\n    \"unreachable\": true\n}}\n\
         n14 | FAILED! => {{\n    \"changed\": false,\n    \"msg\": \"no python\"\n}}\n"
    );
    let found = read(&printed);
    assert_eq!(hosts(&found), [("n1", 3e9)]);
    assert_eq!(
        reasons(&found),
        [
            "n12: exit code 127: error: no nodegauge",
            "n13: unreachable: no route to host",
            "n14: no python"
        ]
    );
}
