//! Tests of `fleet`. The verdict must be the same for the output of every tool that ran the measurement.

use crate::harness::{Harness, Part, make_program};
use serde_json::{Value, json};

/// Number of nodes. A group of at least eight can be judged without a reference.
const NODES: usize = 12;
/// Node that is 30 % slower than the others.
const SLOW: &str = "n07";

/// Returns the records of all nodes by name. They are made from one recorded run.
fn fleet() -> Vec<(String, Value)> {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/stream/record.json");
    let text = std::fs::read_to_string(recorded).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    (1..=NODES)
        .map(|i| {
            let host = format!("n{i:02}");
            let mut one = record.clone();
            one["id"] = json!(format!("01KAAAAAAAAAAAAAAAAAAAAA{i:02}"));
            one["machine"]["host"] = json!(host);
            one["findings"] = json!([]);
            let factor = if host == SLOW { 0.7 } else { 1.0 + 0.002 * (i % 3) as f64 };
            for m in one["measurements"].as_array_mut().unwrap() {
                let value = m["value"].as_f64().map(|value| value * factor);
                m["value"] = json!(value);
            }
            (host, one)
        })
        .collect()
}

/// Writes the records into the folder `fleet`, one file per node.
fn written(harness: &Harness) -> Vec<(String, Value)> {
    write_records(harness, "fleet")
}

/// Writes the records into a folder, one file per node.
pub fn write_records(harness: &Harness, folder: &str) -> Vec<(String, Value)> {
    let fleet = fleet();
    for (host, record) in &fleet {
        harness.write(&format!("{folder}/{host}.json"), format!("{record}\n"));
    }
    fleet
}

/// Ranks an input, and checks that only the slow node is reported as slow.
#[track_caller]
fn assert_slow_node(harness: &Harness, input: &str) {
    let ranked = harness.run(&["fleet", "rank", input, "--format", "json"]).exits(1).json();
    assert_eq!(ranked["slow"], SLOW, "{input}: {ranked}");
    assert_eq!((&ranked["suspect"], &ranked["unknown"]), (&json!(""), &json!("")), "{input}");
    harness.run(&["fleet", "rank", input, "--format", "exclude"]).exits(1).prints("n07");
}

#[test]
fn output_of_every_tool_gives_the_same_verdict() {
    let harness = Harness::new();
    let fleet = written(&harness);
    assert_slow_node(&harness, "fleet");
    let lines: String = fleet.iter().map(|(_, record)| format!("{record}\n")).collect();
    harness.write("all.jsonl", lines);
    assert_slow_node(&harness, "all.jsonl");
    let labelled = |label: &dyn Fn(usize) -> String| -> String {
        let node = |(i, (_, record)): (usize, &(String, Value))| {
            let text = serde_json::to_string_pretty(record).unwrap();
            text.lines().map(|line| format!("{}: {line}\n", label(i))).collect::<String>()
        };
        fleet.iter().enumerate().map(node).collect()
    };
    harness.write("clush.txt", labelled(&|i| fleet[i].0.clone()));
    assert_slow_node(&harness, "clush.txt");
    harness.write("srun.txt", labelled(&|i| format!("{i:2}")));
    assert_slow_node(&harness, "srun.txt");
    for (host, record) in &fleet {
        let text = record.to_string();
        let result =
            json!({"changed": true, "cmd": ["nodegauge"], "rc": 0, "stderr": "", "stdout": text});
        harness.write(&format!("ansible/{host}"), result.to_string());
    }
    assert_slow_node(&harness, "ansible");
    let case = |(host, record): &(String, Value)| {
        let triad =
            record["measurements"].as_array().unwrap().iter().find(|m| m["name"] == "triad");
        let value = triad.unwrap()["value"].as_f64().unwrap() / 1e9;
        json!({
            "name": "NodegaugeStream", "system": "a", "partition": "b", "result": "pass",
            "job_nodelist": [host], "perfvalues": {"a:b:triad": [value, 0, null, null, "GB/s"]},
        })
    };
    let cases: Vec<Value> = fleet.iter().map(case).collect();
    let report = json!({"session_info": {"version": "4.6"}, "runs": [{"testcases": cases}]});
    harness.write("report.json", report.to_string());
    assert_slow_node(&harness, "report.json");
}

/// Clocks may differ by years or be unset. A repeated run of a node counts regardless of its time.
#[test]
fn clock_differences_do_not_change_a_verdict() {
    let harness = Harness::new();
    let mut fleet = written(&harness);
    let times = ["1970-01-01T00:00:07Z", "2199-01-01T00:00:00Z", ""];
    for (i, (host, record)) in fleet.iter_mut().enumerate() {
        record["started"] = json!(times[i % times.len()]);
        harness.write(&format!("fleet/{host}.json"), record.to_string());
    }
    assert_slow_node(&harness, "fleet");
    harness.run(&["fleet", "rank", "fleet"]).exits(1).prints("1970-01-01").prints("2199-01-01");
    // The slow node is repeated with an earlier and a later time.
    let (_, record) = &mut fleet[6];
    for (i, started) in times.iter().enumerate() {
        record["id"] = json!(format!("01KAAAAAAAAAAAAAAAAAAAAB{i:02}"));
        record["started"] = json!(started);
        harness.write(&format!("fleet/again{i}.json"), record.to_string());
    }
    assert_slow_node(&harness, "fleet");
    let nodes = harness.run(&["fleet", "rank", "fleet", "--format", "json"]).exits(1).json();
    let slow = nodes["groups"][0]["nodes"].as_array().unwrap();
    let slow = slow.iter().find(|node| node["host"] == SLOW).unwrap();
    assert_eq!(slow["runs"], 4, "{slow}");
}

#[test]
fn clush_and_pdsh_output_is_ranked() {
    let harness = Harness::new();
    written(&harness);
    let nodes = "n[01-12]";
    // The only worker is this machine; for each node, it prints the record of this node.
    if harness.has(Part::Clush, "clush") {
        let words = ["clush", "-R", "exec", "-w", nodes, "cat", "fleet/%h.json"];
        let carried = harness.run_other(&words, &[]).exits(0);
        harness.write("clush.txt", carried.stdout);
        assert_slow_node(&harness, "clush.txt");
    }
    if harness.has(Part::Clush, "pdsh") {
        let words = ["pdsh", "-R", "exec", "-w", nodes, "cat", "fleet/%h.json"];
        let carried = harness.run_other(&words, &[]).exits(0);
        harness.write("pdsh.txt", carried.stdout);
        assert_slow_node(&harness, "pdsh.txt");
    }
}

#[test]
fn ansible_output_is_ranked() {
    let harness = Harness::new();
    let fleet = written(&harness);
    if !harness.has(Part::Ansible, "ansible") {
        return;
    }
    // The emitted line, with a command that prints the record of each node over a connection to this machine. Another
    // callback in the configuration is not used.
    let script = ["fleet", "script", "--for", "ansible", "--nodes", "n[01-12]", "--folder", "out"];
    let line = harness.run(&script).exits(0).stdout;
    let measure = "'nodegauge run --quick --quiet --no-save --json -'";
    assert!(line.contains(measure), "{line}");
    let line = line.replace(measure, "'cat fleet/{{ inventory_hostname }}.json'");
    let carry: String = line
        .lines()
        .filter(|line| !line.starts_with("nodegauge"))
        .map(|l| format!("{l}\n"))
        .collect();
    let local = [
        ("ANSIBLE_TRANSPORT", "local"),
        ("ANSIBLE_STDOUT_CALLBACK", "json"),
        ("ANSIBLE_LOCALHOST_WARNING", "0"),
        ("LC_ALL", "C.UTF-8"),
    ];
    harness.run_other(&["sh", "-c", &carry], &local).exits(0);
    assert_slow_node(&harness, "out");
    assert_eq!(fleet.len(), NODES);
}

#[test]
fn missing_and_damaged_records_are_reported() {
    let harness = Harness::new();
    let fleet = written(&harness);
    let whole = fleet[0].1.to_string();
    harness.write("fleet/n01.json", &whole[..whole.len() / 2]);
    harness.write("fleet/n02.json", "");
    harness.write("fleet/notes.txt", "maintenance on Monday");
    // Log files of a Slurm step: that of a successful run is empty.
    harness
        .write("fleet/n02.log", "error: no memory\nhint: none\nsrun: error: vm: task 0: Exited\n");
    harness.write("fleet/n03.log", "");
    let stream = concat!(env!("CARGO_MANIFEST_DIR"), "/../stream/tests/outputs/stream-gcc-2t.txt");
    harness.write("fleet/stream.txt", std::fs::read(stream).unwrap());
    let unnamed = harness.run(&["fleet", "rank", "fleet", "--format", "json"]).exits(1).json();
    let missing: Vec<&Value> =
        unnamed["missing"].as_array().unwrap().iter().map(|one| &one["host"]).collect();
    assert_eq!(missing, ["n01", "n02"]);
    assert_eq!(unnamed["not_read"].as_array().unwrap().len(), 4, "{unnamed}");
    harness
        .run(&["fleet", "rank", "fleet", "--nodes", "n[01-13]"])
        .exits(1)
        .prints("mem 69% of med")
        .prints("n01: the record is incomplete")
        .prints("n02: no record: error: no memory")
        .prints("n13: no record")
        .prints("no record: maintenance on Monday")
        .prints("output of STREAM instead of a record");
    for format in ["html", "md", "csv", "reframe", "nhc"] {
        let shown = harness.run(&["fleet", "rank", "fleet", "--format", format]).exits(1);
        assert!(shown.stdout.len() > 20, "{format}");
    }
    harness.run(&["fleet", "rank", "none"]).exits(2).warns("cannot read none");
}

/// Returns the settings of a node with this firmware version.
fn with_firmware(version: &str) -> Value {
    json!({ "mitigations": {}, "environment": {}, "firmware": { "version": version } })
}

#[test]
fn earlier_records_come_from_a_folder_or_standard_input_or_the_history() {
    let harness = Harness::new();
    let mut lines = String::new();
    for (host, mut record) in fleet() {
        record["machine"]["circumstances"] = with_firmware("2.19.0");
        lines.push_str(&format!("{record}\n"));
        harness.write(&format!("before/{host}.json"), format!("{record}\n"));
        if host == SLOW {
            record["machine"]["circumstances"] = with_firmware("2.18.1");
        }
        harness.write(&format!("now/{host}.json"), format!("{record}\n"));
    }
    let lines = harness.write("before.jsonl", lines);
    let firmware = "firmware";
    let diff = ["fleet", "diff", "now"];
    harness.run(&diff).exits(1).prints("n07 ").prints(firmware).prints("2.18.1");
    for before in ["before", &lines] {
        let shown = harness.run(&[&diff[..], &["--before", before]].concat()).exits(1);
        assert_eq!(shown.stdout.matches(firmware).count(), 2, "{before}: {}", shown.stdout);
    }
    let script = r#""$1" fleet diff now --before - <before.jsonl"#;
    let piped =
        harness.run_other(&["sh", "-c", script, "sh", crate::program::path()], &[]).exits(1);
    assert_eq!(piped.stdout.matches(firmware).count(), 2, "{}", piped.stdout);
    harness
        .run(&["fleet", "diff", "-", "--before", "-"])
        .exits(2)
        .warns("standard input is given twice");
    harness.run(&["history", "import", &lines]).exits(0);
    let saved = harness.run(&[&diff[..], &["--before", "2099-01-01"]].concat()).exits(1);
    assert_eq!(saved.stdout.matches(firmware).count(), 2, "{}", saved.stdout);
    harness
        .run(&[&diff[..], &["--before", "1999-01-01"]].concat())
        .exits(2)
        .warns("no earlier record was read");
    harness.run(&[&diff[..], &["--before", "none"]].concat()).exits(2).warns("cannot read none");
}

#[test]
fn nodes_with_the_same_host_name_are_distinguished() {
    let harness = Harness::new();
    for (host, mut record) in fleet() {
        record["machine"]["host"] = json!("localhost");
        harness.write(&format!("fleet/{host}.json"), format!("{record}\n"));
    }
    assert_slow_node(&harness, "fleet");
    harness.run(&["fleet", "rank", "fleet"]).exits(1).prints_words("same host name, localhost");
    let baseline = harness.run(&["fleet", "baseline", "fleet"]).exits(0);
    baseline.prints("n[01-06,08-12]").warns("same host name, localhost");
    harness.run(&["fleet", "diff", "fleet"]).exits(0).prints("differences of 12 nodes");
}

#[test]
fn invalid_host_names_are_not_in_lists_for_other_programs() {
    let harness = Harness::new();
    for (host, mut record) in fleet() {
        record["machine"]["host"] = json!(if host == SLOW { "n 07" } else { &host });
        harness.write(&format!("fleet/{host}.json"), format!("{record}\n"));
    }
    for format in ["exclude", "nhc"] {
        let listed = harness.run(&["fleet", "rank", "fleet", "--format", format]).exits(1);
        let listed = listed.warns("left out because of an invalid host name: n 07");
        assert!(listed.stdout.is_empty(), "{format}: {:?}", listed.stdout);
    }
    harness
        .run(&["fleet", "rank", "fleet"])
        .exits(1)
        .prints("not in lists for other programs: n 07");
}

#[test]
fn reference_judges_few_nodes_and_single_records() {
    let harness = Harness::new();
    written(&harness);
    let baseline = ["fleet", "baseline", "fleet", "--output", "ref.json"];
    harness.run(&baseline).exits(0).warns("triad: would find a loss of ");
    let reframe = ["fleet", "baseline", "fleet", "--format", "reframe", "--system", "a:b"];
    harness.run(&reframe).exits(0).prints("'triad': (");
    let few = ["fleet/n06.json", "fleet/n07.json"];
    let rank = [&["fleet", "rank"], &few[..]].concat();
    harness.run(&rank).exits(0).prints_words("not judged; give --reference");
    let judged = [&rank[..], &["--reference", "ref.json"]].concat();
    harness.run(&judged).exits(1).prints("mem 69% of ref");
    harness
        .run(&["report", "fleet/n07.json", "--format", "csv", "--reference", "ref.json"])
        .exits(1)
        .warns("69 % of the reference");
    harness
        .run(&["report", "fleet/n06.json", "--format", "csv", "--reference", "ref.json"])
        .exits(0);
    let compare = ["compare", "fleet/n06.json", "fleet/n07.json", "--reference", "ref.json"];
    harness.run(&compare).exits(1).warns("B: triad");
    harness
        .run(&["report", "fleet/n06.json", "--reference", "fleet/n06.json"])
        .exits(2)
        .warns("not a reference");
}

#[test]
fn fleet_script_requires_a_command_that_writes_records() {
    let harness = Harness::new();
    let script = ["fleet", "script", "--for", "pdsh", "--nodes", "n[1-2]", "--"];
    let describe = [&script[..], &["machine"]].concat();
    harness.run(&describe).exits(0).prints("nodegauge machine --json -");
    for (wrong, reason) in
        [(&["history", "list"][..], "unexpected argument"), (&["strean"][..], "strean")]
    {
        let refused = [&script[..], wrong].concat();
        harness.run(&refused).exits(2).warns(reason).warns("a measuring command");
    }
    let run = ["fleet", "run", "night", "--slurm", "--", "machine", "--quiet"];
    harness.run(&run).exits(2).warns("nodes cannot run");
    assert!(!harness.path("night").exists());
}

/// Host names that try to insert a line, a table cell, a terminal command or markup into outputs.
const HOSTILE: [&str; 12] = [
    "=HYPERLINK(\"http://e.vil\",\"y\")",
    "@SUM(A1)",
    "+1+1",
    "\t=1+1",
    "\u{ff1d}1+1",
    "n1\nFORGED error: line",
    "n1\r\nFORGED",
    "n1\u{b}FORGED\u{c}FORGED\u{85}FORGED",
    "n1\u{2028}FORGED\u{2029}FORGED",
    "\u{1b}[2Jn1\u{7}",
    "n1\u{202e}gpj\u{2066}",
    "<script>alert(1)</script>|x|![i](http://e.vil/x)",
];

/// Fails if a text contains a line that a hostile name inserted, or a control character.
#[track_caller]
fn assert_plain(what: &str, text: &str) {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    let forged = text.split(ends).find(|line| line.trim_start().starts_with("FORGED"));
    assert_eq!(forged, None, "{what}: {text}");
    let commands = ['\u{1b}', '\u{7}', '\u{202e}', '\u{2066}'];
    assert!(!text.contains(commands), "{what}: {text:?}");
}

#[test]
fn hostile_names_are_safe_in_all_fleet_outputs() {
    let harness = Harness::new();
    let fleet = written(&harness);
    let slow = &fleet[6].1;
    // Twice as many good nodes are added, so the nodes with hostile names are slow.
    for i in 0..2 * HOSTILE.len() {
        let mut good = fleet[i % 3].1.clone();
        good["id"] = json!(format!("01KAAAAAAAAAAAAAAAAAAAAD{i:02}"));
        good["machine"]["host"] = json!(format!("m{i:02}"));
        harness.write(&format!("fleet/m{i:02}.json"), good.to_string());
    }
    for (i, name) in HOSTILE.iter().enumerate() {
        let mut one = slow.clone();
        one["id"] = json!(format!("01KAAAAAAAAAAAAAAAAAAAAC{i:02}"));
        one["machine"]["host"] = json!(name);
        one["machine"]["kernel"] = json!(name);
        harness.write(&format!("fleet/x{i}.json"), one.to_string());
    }
    harness.write("fleet/a\nFORGED: bad.json", "junk \u{1b}[2J");
    harness.write("fleet/b\u{2028}FORGED.json", "");
    for format in ["text", "html", "md", "csv", "json", "exclude", "reframe", "nhc"] {
        let made = harness.run(&["fleet", "rank", "fleet", "--all", "--format", format]).exits(1);
        assert_plain(format, &made.stderr);
        // In JSON and HTML, names are inside strings and elements.
        match format {
            "json" => assert!(made.json()["groups"].is_array()),
            "html" => assert!(!made.stdout.contains("<script>alert"), "{}", made.stdout),
            "csv" => {
                let begin = |line: &&str| {
                    line.trim_start_matches('"').starts_with(['=', '+', '@', '\t', '\u{ff1d}'])
                };
                assert_eq!(made.stdout.lines().find(begin), None, "{}", made.stdout);
                assert!(made.stdout.contains("'=HYPERLINK"), "{}", made.stdout);
            }
            _ => assert_plain(format, &made.stdout),
        }
        if format == "md" {
            let text = &made.stdout;
            assert!(!text.contains("<script>") && !text.contains("![i](http"), "{text}");
        }
    }
    for format in ["json", "reframe"] {
        let made = harness.run(&["fleet", "baseline", "fleet", "--format", format]).exits(0);
        assert_plain(format, &made.stderr);
        assert!(made.stderr.contains("not read: "), "{}", made.stderr);
    }
    // On a wide terminal, no cell is wrapped.
    let wide = [("COLUMNS", "400")];
    let shown = harness.run_with(&wide, &["fleet", "diff", "fleet"]).exits(1);
    assert_plain("diff", &shown.stdout);
    assert_plain("diff", &shown.stderr);
}

#[test]
fn pipe_in_a_folder_is_skipped_and_pipe_as_argument_is_read() {
    let harness = Harness::new();
    written(&harness);
    let make = harness.run_other(&["mkfifo", "fleet/pipe.json", "named"], &[]);
    make.exits(0);
    assert_slow_node(&harness, "fleet");
    let shown = harness.run(&["fleet", "rank", "fleet"]).exits(1);
    shown.prints("pipe.json: it is not a regular file");
    harness.run(&["fleet", "baseline", "fleet"]).exits(0).warns("pipe.json");
    harness.run(&["fleet", "diff", "fleet"]).exits(0);
    let reason = "no program has written to this pipe within 10 s";
    harness.run(&["fleet", "rank", "named"]).exits(2).warns(reason);
    harness.run(&["report", "./named"]).exits(2).warns(reason);
    let piped = "cat fleet/n01.json > named & exec \"$1\" report ./named -f csv";
    let piped = harness.run_other(&["sh", "-c", piped, "sh", crate::program::path()], &[]);
    piped.exits(0).prints("triad");
}

#[test]
fn lists_for_other_programs_use_the_names_of_the_nodes_option() {
    let harness = Harness::new();
    let mut lines = String::new();
    for (host, mut record) in fleet() {
        record["machine"]["host"] = json!(format!("{host}.cluster.example.org"));
        lines.push_str(&format!("{record}\n"));
    }
    harness.write("all.jsonl", lines);
    let rank = ["fleet", "rank", "all.jsonl", "--format"];
    let own = harness.run(&[&rank[..], &["exclude"]].concat()).exits(1);
    assert_eq!(own.stdout, "n07.cluster.example.org\n");
    let asked = ["--nodes", "n[01-13]"];
    let listed = harness.run(&[&rank[..], &["exclude"], &asked].concat()).exits(1);
    assert_eq!(listed.stdout, "n07\n");
    harness.run(&[&rank[..], &["nhc"], &asked].concat()).exits(1).prints("{n07} || die 1");
    let json = harness.run(&[&rank[..], &["json"], &asked].concat()).exits(1).json();
    assert_eq!(json["missing"].as_array().unwrap().len(), 1, "{json}");
}

#[test]
fn ranking_fits_the_width_of_the_terminal() {
    let harness = Harness::new();
    written(&harness);
    for (variable, most) in [("80", 80), ("60", 60), ("200", 200)] {
        let shown =
            harness.run_with(&[("COLUMNS", variable)], &["fleet", "rank", "fleet", "--all"]);
        let shown = shown.exits(1);
        let widest = shown.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= most, "{variable}: {}", shown.stdout);
        let row = shown.stdout.lines().find(|line| line.trim_start().starts_with("n07 ")).unwrap();
        assert!(row.contains("mem 69% of med"), "{row}");
    }
}

#[test]
fn jobs_do_not_power_up_nodes_without_permission() {
    let harness = Harness::new();
    let program = |name: &str, text: &str| {
        let path = harness.write(&format!("bin/{name}"), format!("#!/bin/sh\n{text}\n"));
        make_program(&path);
    };
    let states = "n1|idle~|all*\nn2|idle%|all*\nn3|idle#|all*\nn4|idle!|all*\nn5|down|all*\n";
    program("sinfo", &format!("cat <<'END'\n{states}END"));
    program("squeue", ":");
    let calls = harness.arg("calls");
    program("sbatch", &format!("echo \"$@\" >>'{calls}'\necho 'sbatch: error: no' >&2\nexit 1"));
    let path = format!("{}:{}", harness.arg("bin"), std::env::var("PATH").unwrap());
    let run = |more: &[&str]| {
        harness
            .run_with(&[("PATH", &path)], &[&["fleet", "run", "night", "--slurm"], more].concat())
    };
    let kept = run(&[]).exits(0);
    assert!(!harness.path("calls").exists(), "{}", kept.stderr);
    kept.warns("n1: not measured: idle, powered off; --power-up switches such nodes on")
        .warns("n3: not measured: idle, being powered on")
        .warns("n5: the node is not available: down")
        .prints_words("n2: not measured: idle, being powered off");
    run(&["--power-up"]).warns("n4: sbatch: no");
    let submitted = std::fs::read_to_string(harness.path("calls")).unwrap();
    assert_eq!(submitted.lines().count(), 4, "{submitted}");
    assert!(!submitted.contains("--nodelist=n5"), "{submitted}");
}

/// Nodes that vary by a sixth are unknown, not good, and the reference made from them says which losses it cannot
/// detect.
#[test]
fn nodes_with_too_much_variation_are_unknown() {
    let harness = Harness::new();
    let factors = [1.0, 0.8, 1.17, 0.9, 1.25, 0.85, 1.05, 1.1, 0.95, 0.75, 1.2, 1.0];
    for ((host, mut record), factor) in fleet().into_iter().zip(factors) {
        for m in record["measurements"].as_array_mut().unwrap() {
            let slow = if host == SLOW { 1.0 / 0.7 } else { 1.0 };
            let value = m["value"].as_f64().map(|value| value * factor * slow);
            m["value"] = json!(value);
        }
        harness.write(&format!("fleet/{host}.json"), format!("{record}\n"));
    }
    let lacking = "triad: cannot find a loss of 10 %, only one of ";
    let ranked = harness.run(&["fleet", "rank", "fleet", "--format", "json"]).exits(0).json();
    assert_eq!((&ranked["slow"], &ranked["unknown"]), (&json!(""), &json!("n[01-12]")));
    let baseline = ["fleet", "baseline", "fleet", "--output", "ref.json"];
    harness.run(&baseline).exits(0).warns(lacking).warns("runs of each node would suffice");
    let few = ["fleet", "rank", "fleet/n01.json", "--reference", "ref.json"];
    harness.run(&few).exits(0).prints("mem: cannot tell").prints("would suffice");
}
