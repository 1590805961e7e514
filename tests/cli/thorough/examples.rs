//! Tests of the examples in `docs/examples`: they run, and the names in them exist in the output of the program.

use crate::harness::{FAST, Harness, Outcome, Part, make_program, skip};
use crate::pages::golden;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn example(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    std::fs::canonicalize(Path::new(folder).join(name)).unwrap()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}

/// Returns the words in a query that begin with the prefix of nodegauge's metrics.
fn metrics(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("nodegauge_"))
}

#[test]
fn dashboard_uses_existing_metrics_and_labels() {
    let harness = Harness::new();
    let report = |name: &str| {
        let file = golden(name);
        harness.run(&["report", file.to_str().unwrap(), "-f", "openmetrics"]).exits(0).stdout
    };
    let written: String =
        ["run", "stream", "stream-sweep-two-axes", "hpl-two-blas", "mpi-all", "io"]
            .map(report)
            .concat();
    let known: BTreeSet<&str> = written
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let keys = harness.run(&["schema"]).exits(0).stdout;
    let dashboard: Value = serde_json::from_str(&text("grafana-dashboard.json")).unwrap();
    assert!(dashboard["schemaVersion"].is_u64() && dashboard["uid"] == "nodegauge");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variable = |name: &str| variables.iter().any(|one| one["name"] == name);
    let (mut ids, mut cells, mut asked) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: two of its number");
        assert!(
            ["timeseries", "stat", "table", "bargauge"].contains(&panel["type"].as_str().unwrap()),
            "{title}"
        );
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{title}: a row has 24 columns");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title}: lies over another panel");
        }
        assert_eq!(
            panel["datasource"],
            json!({"type": "prometheus", "uid": "${datasource}"}),
            "{title}"
        );
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            assert!(target["refId"].is_string(), "{title}");
            let query = target["expr"].as_str().unwrap();
            assert!(
                query.contains("host=~\"$host\"") && variable("host") && variable("datasource"),
                "{query}"
            );
            asked.extend(metrics(query).map(str::to_owned));
            // Labels occur in selectors and in legends.
            let selected =
                query.split(['{', '}']).skip(1).step_by(2).flat_map(|inside| inside.split("\","));
            let selected = selected.filter_map(|one| one.split(['=', '!']).next());
            let legend = target["legendFormat"].as_str().unwrap();
            let shown = legend.split("{{").skip(1).filter_map(|part| part.split("}}").next());
            for label in selected.chain(shown) {
                let is_written = written.contains(&format!("{label}=\""));
                // Some keys distinguish figures that none of these records contains, e.g. figures of several distances.
                let is_key = keys.contains(&format!("\"{label}\": {{"));
                assert!(is_written || is_key, "{title}: no label {label}");
            }
        }
    }
    let asked: BTreeSet<&str> = asked.iter().map(String::as_str).collect();
    assert!(asked.len() > 5 && asked.is_subset(&known), "{asked:?}, known: {known:?}");
    let of_variables = variables.iter().filter_map(|one| one["query"]["query"].as_str());
    assert!(of_variables.flat_map(metrics).all(|name| known.contains(name)));
    let documented = std::fs::read_to_string(example("../formats.md")).unwrap();
    let named: BTreeSet<&str> = documented.split('`').flat_map(metrics).collect();
    assert!(known.is_subset(&named), "docs/formats.md has {named:?}, written are {known:?}");
}

/// Returns the commands in a pipeline file, in their order.
fn commands(file: &str) -> Vec<String> {
    let text = text(file);
    let line = |line: &str| {
        let line = line.trim();
        let command = line.strip_prefix("- run: ").or_else(|| line.strip_prefix("- "))?;
        command.starts_with("nodegauge ").then(|| command.to_owned())
    };
    text.lines().filter_map(line).collect()
}

/// Runs commands one after another, like the runner of a pipeline, until one fails. Figures of small test arrays are
/// suspect and would meet no condition, so they are made valid.
fn pipeline(harness: &Harness, file: &str, expect: &str) -> Outcome {
    const STREAM: &str = "#!/bin/sh\n\"$NODEGAUGE\" \"$@\" || exit\n\
                          [ \"$1\" != stream ] || sed -i 's/\"suspect\"/\"valid\"/' run.json\n";
    make_program(&harness.write("bin/nodegauge", STREAM));
    let script = format!("set -e\nPATH=\"$PWD/bin:$PATH\"\n{}\n", commands(file).join("\n"));
    let (stream, summary) = (FAST.join(" "), harness.arg("summary.md"));
    let variables = [
        ("NODEGAUGE", crate::program::path()),
        ("STREAM", &stream),
        ("EXPECT", expect),
        ("CI_COMMIT_SHORT_SHA", "0123abc"),
        ("GITHUB_STEP_SUMMARY", &summary),
    ];
    harness.run_other(&["sh", "-c", &script], &variables)
}

#[test]
fn example_pipelines_fail_only_if_the_expectation_is_not_met() {
    assert!(commands("gitlab-ci.yml").len() == 3 && commands("github-workflow.yml").len() == 3);
    for file in ["gitlab-ci.yml", "github-workflow.yml"] {
        let harness = Harness::new();
        pipeline(&harness, file, "triad>=1B/s").exits(0);
        let example = Harness::new();
        pipeline(&example, file, "triad>=900TB/s").exits(1).warns("expected triad >= 900 TB/s");
        let artifacts = artifacts(file);
        assert!(!artifacts.is_empty());
        for name in artifacts {
            let written = std::fs::metadata(example.path(name));
            assert!(written.is_ok_and(|metadata| metadata.len() > 0), "{file}: {name}");
        }
    }
}

/// Returns the files that a pipeline declares as artifacts.
fn artifacts(file: &str) -> Vec<&'static str> {
    let named = ["run.json", "run.md", "junit.xml", "benchmark-bigger.json"];
    let text = text(file);
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("nodegauge ")).collect();
    named.into_iter().filter(|name| lines.iter().any(|line| line.contains(name))).collect()
}

/// Returns the path of ReFrame: from the search path, otherwise installed from PyPI in a virtual environment.
fn reframe(harness: &Harness) -> Option<String> {
    const INSTALL: &str = "python3 -m venv reframe && reframe/bin/pip --quiet --disable-pip-version-check \
                           install --timeout 10 --retries 1 'ReFrame-HPC>=4.6,<5'";
    let there = ["-c", "command -v reframe"];
    if harness.command("sh").args(there).output().unwrap().status.success() {
        return Some("reframe".to_owned());
    }
    let installed = harness.command("timeout").args(["100", "sh", "-c", INSTALL]).output().unwrap();
    if !installed.status.success() {
        let why = String::from_utf8_lossy(&installed.stderr).into_owned();
        skip(Part::Reframe, why.lines().last().unwrap_or("pip did not end in time"));
        return None;
    }
    Some(harness.arg("reframe/bin/reframe"))
}

#[test]
fn reframe_example_passes_with_figures_and_fails_on_an_unmet_expectation() {
    let harness = Harness::new();
    let Some(reframe) = reframe(&harness) else { return };
    let check = example("reframe_nodegauge.py");
    let program = Path::new(crate::program::path()).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // The classes that the example uses come from the Python package.
    let package = example("../../packaging/python");
    let run = |more: &str, file: &str| {
        let options = format!("NodegaugeStream.options={}{more}", FAST.join(","));
        let report = format!("--report-file={file}");
        let words = [
            reframe.as_str(),
            "--nocolor",
            "-c",
            check.to_str().unwrap(),
            "-n",
            "NodegaugeStream",
            "-r",
        ];
        let variables = [("PATH", &path[..]), ("PYTHONPATH", package.to_str().unwrap())];
        let ended =
            harness.run_other(&[&words[..], &["-S", &options, &report]].concat(), &variables);
        let text = std::fs::read_to_string(harness.path(file));
        let document: Value = serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default();
        (ended, document["runs"][0]["testcases"][0].clone())
    };
    let (ended, case) = run("", "met.json");
    ended.exits(0).prints("PASSED");
    let figures = case["perfvalues"].as_object().unwrap();
    for kernel in ["copy", "scale", "add", "triad"] {
        let figure = figures.iter().find(|(name, _)| name.ends_with(&format!(":{kernel}")));
        let (_, figure) = figure.unwrap_or_else(|| panic!("{kernel} in {case}"));
        assert!(figure[0].as_f64() > Some(0.0) && figure[4] == "GB/s", "{figure}");
    }
    let (unmet_ended, unmet_case) = run(",--expect,triad>=900TB/s", "unmet.json");
    unmet_ended.exits(1);
    assert_eq!(unmet_case["fail_phase"], "sanity", "{unmet_case}");
}
