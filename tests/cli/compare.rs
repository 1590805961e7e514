//! Tests of `nodegauge compare`.

use crate::harness::{FAST, Harness, has_keys};
use serde_json::Value;

/// Formats these rates, MB/s, as the output of stream.c.
pub(crate) fn stream_c(rates: [f64; 4]) -> String {
    const ELEMENTS: f64 = 430_080_000.0;
    let mut text = "STREAM version $Revision: 5.10 $\n\
        This system uses 8 bytes per array element.\n\
        Array size = 430080000 (elements), Offset = 0 (elements)\n\
        Memory per array = 3281.2 MiB (= 3.2 GiB).\n\
        Total memory required = 9843.8 MiB (= 9.6 GiB).\n\
        Each kernel will be executed 10 times.\n\
        Number of Threads requested = 96\nNumber of Threads counted = 96\n\
        Function    Best Rate MB/s  Avg time     Min time     Max time\n"
        .to_owned();
    for ((name, words), rate) in
        [("Copy", 2.0), ("Scale", 2.0), ("Add", 3.0), ("Triad", 3.0)].iter().zip(rates)
    {
        let least = words * 8.0 * ELEMENTS / rate / 1e6;
        let name = format!("{name}:");
        text += &format!(
            "{name:12}{rate:12.1}  {:11.6}  {least:11.6}  {:11.6}\n",
            least * 1.01,
            least * 1.03
        );
    }
    text + "Solution Validates: avg error less than 1.000000e-13 on all three arrays\n"
}

/// Imports a published pair of results: 2 x EPYC 9654 with NPS1 and NPS4.
fn published(harness: &Harness) {
    let nps1 = harness.write("nps1.txt", stream_c([681_724.7, 685_595.0, 721_807.1, 715_650.4]));
    let nps4 = harness.write("nps4.txt", stream_c([719_952.6, 705_125.1, 752_324.6, 753_699.8]));
    for (file, label) in [(&nps1, "nps=1"), (&nps4, "nps=4")] {
        harness.run(&["history", "import", file, "--label", label]).exits(0);
    }
}

fn pair<'a>(comparison: &'a Value, name: &str) -> &'a Value {
    let pairs = comparison["pairs"].as_array().unwrap();
    pairs.iter().find(|pair| pair["name"] == name).unwrap()
}

#[test]
fn verdict_on_two_single_runs_is_cannot_tell() {
    let harness = Harness::new();
    published(&harness);
    harness
        .run(&["compare", "nps=1", "nps=4"])
        .exits(0)
        .warns_nothing()
        .prints_words("differs A B label nps 1 4")
        .prints_words("triad 715.7 GB/s 753.7 GB/s +5.3 % cannot tell")
        .prints_words("the run-to-run spread is unknown remedy make three runs of A")
        .prints_words(
            "the ranges within A and within B do not overlap: the difference exceeds the spread",
        );
    let json = harness.run(&["compare", "nps=1", "nps=4", "--json", "-"]).exits(0).json();
    assert_eq!(json["schema"], "nodegauge/1");
    has_keys(
        pair(&json, "triad"),
        &["gauge", "test", "unit", "at", "a", "b", "ratio", "statistic", "verdict", "reasons"],
    );
    let ratio = pair(&json, "triad")["ratio"].as_f64().unwrap();
    assert!((ratio - 753_699.8 / 715_650.4).abs() < 1e-9);
    let csv = harness.run(&["compare", "nps=1", "nps=4", "--csv"]).exits(0).stdout;
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.starts_with("gauge,test,name,at,unit,statistic,a,b,ratio,"));
}

#[test]
fn imported_figures_have_the_theoretical_bandwidth_as_limit() {
    let harness = Harness::new();
    let file = harness.write("nps1.txt", stream_c([681_724.7, 685_595.0, 721_807.1, 715_650.4]));
    let node = ["--processor", "EPYC 9654", "--sockets", "2"];
    harness.run(&[&["history", "import", &file][..], &node].concat()).exits(0);
    let record = harness.latest();
    assert_eq!(record["machine"]["memory"]["theoretical"]["value"], 921.6e9);
    assert_eq!(record["machine"]["source"], "import");
    let triad = &record["measurements"][3];
    assert!((triad["limit"]["fraction"].as_f64().unwrap() - 0.7765).abs() < 1e-4, "{triad}");
    harness.run(&["history", "show", "latest"]).exits(0).prints_words("EPYC 9654");
    harness.run(&["history", "import", &file, "--dimms", "16x3200"]).exits(1);
    let above = &harness.latest()["measurements"][3];
    assert_eq!(above["validity"]["status"], "invalid", "715 GB/s exceed 409.6 GB/s");
    let unknown = harness.run(&["history", "import", &file, "--processor", "Z80"]).exits(2);
    unknown.warns("no processor \"Z80\" in the catalog");
    harness.run(&["history", "export", "latest", "--output", &harness.arg("run.json")]).exits(0);
    harness
        .run(&["history", "import", &harness.arg("run.json"), "--dimms", "24x4800"])
        .exits(2)
        .warns("already contain their dimms\nhint: leave out --dimms");
}

#[test]
fn fail_on_conditions_determine_the_exit_code() {
    let harness = Harness::new();
    published(&harness);
    let fails =
        |condition: &str| harness.run(&["compare", "nps=1", "nps=4", "--fail-on", condition]);
    fails("triad<-5%").exits(0).warns_nothing();
    fails("triad>5%").exits(1).warns("error: triad>5%: triad +5.3 %\n");
    fails("any>4%").exits(1).warns("copy +5.6 %; add +4.2 %; triad +5.3 %");
    // With one run per side, it is unknown whether a figure is slower.
    fails("slower").exits(0).warns("slower cannot be decided for copy; scale; add; triad");
    fails("traid<-5%")
        .exits(1)
        .warns("A and B have no such measurement in common; available: copy");
    fails("triad<-5").exits(2).warns("expected % after the number, but the text ends here");
}

#[test]
fn runs_with_the_same_label_are_pooled() {
    let harness = Harness::new();
    for label in ["host=quiet", "host=quiet", "host=quiet", "host=busy"] {
        harness.stream(&["-q", "--label", label]).exits(0);
    }
    let json = harness.run(&["compare", "host=quiet", "host=busy", "--json", "-"]).exits(0).json();
    assert_eq!(json["a"]["runs"].as_array().unwrap().len(), 3);
    assert_eq!(json["b"]["runs"].as_array().unwrap().len(), 1);
    assert_eq!(json["differences"][0]["what"], "label host");
    harness
        .run(&["compare", "host=quiet", "host=busy"])
        .exits(0)
        .prints_words("A host=quiet: 3 runs pooled: ");
}

#[test]
fn run_is_within_noise_of_itself() {
    let harness = Harness::new();
    let sampled =
        ["stream", "-q", "--size", "1000000elements", "--samples", "60", "--json", "run.json"];
    harness.run(&[&sampled[..], &["--dimms", "1024x20000"]].concat()).exits(0);
    let sides = [["latest", "latest"], ["latest", "run.json"]];
    let compare = |pair: [&str; 2], more: &[&str]| {
        harness.run(&[&["compare", "--accept-suspect"], &pair[..], more].concat())
    };
    for both in sides {
        let json = compare(both, &["--json", "-"]).exits(0).json();
        assert_eq!(json["notices"][0], "A and B are the same runs");
        assert_eq!(pair(&json, "triad")["verdict"], "within noise");
        assert_eq!(pair(&json, "triad")["ratio"], 1.0);
        assert_eq!(json["differences"].as_array().unwrap().len(), 0);
    }
    compare(sides[1], &["--fail-on", "slower", "--fail-on", "triad<0%"])
        .exits(0)
        .prints_words("differs nothing in the records")
        .prints_words("verdict B compared with A, 4 figures: 4 within noise");
}

/// The saved runs have the noise of a busy node; one further run is far outside that noise.
#[test]
fn run_to_run_spread_is_taken_from_the_history() {
    let harness = Harness::new();
    // With one thread, there are no round trips, so regimes cannot be distinguished.
    let quick = ["stream", "-q", "--threads", "1", "--kernels", "copy,triad"];
    let quick = [&quick[..], &FAST].concat();
    for _ in 0..12 {
        harness.run(&quick).exits(0);
    }
    let compare = |more: &[&str]| {
        let all = ["compare", "latest~1", "latest", "--accept-suspect", "--json"];
        let json = harness.run(&[&all[..], more].concat()).exits(0).json();
        (pair(&json, "triad")["basis"].clone(), pair(&json, "triad")["visible"].clone())
    };
    let (basis, visible) = compare(&[]);
    assert!(basis == "history" && visible.as_f64().unwrap() > 0.0, "{basis} {visible}");
    // Without saved runs, the noise is unknown.
    harness.run(&["history", "show", "latest~1", "--json", "a.json"]).exits(0);
    harness.run(&["history", "show", "latest", "--json", "b.json"]).exits(0);
    harness
        .run(&["compare", "a.json", "b.json", "--accept-suspect", "--db", "none.db"])
        .exits(0)
        .prints_words("2 cannot tell");
}

#[test]
fn conclusion_names_the_faster_side_per_figure() {
    let harness = Harness::new();
    for (label, triad, add) in [("nps=1", 700e3, 900e3), ("nps=4", 770e3, 720e3)] {
        for run in 0..3 {
            let noise = 1.0 + 0.001 * f64::from(run);
            let text = stream_c([700e3, 700e3, add, triad].map(|rate| rate * noise));
            let file = harness.write(&format!("{label}-{run}.txt"), text);
            harness.run(&["history", "import", &file, "--label", label]).exits(0);
        }
    }
    let page = harness.run(&["compare", "nps=1", "nps=4"]).exits(0).warns_nothing();
    let first = page.stdout.split("\n\n").next().unwrap().split_whitespace();
    let first = first.collect::<Vec<_>>().join(" ");
    let sides = first.strip_prefix("result B is 1.10").and_then(|rest| rest.split_once("; "));
    let (b, a) = sides.unwrap_or_else(|| panic!("{first}"));
    assert!(
        b.contains(" times as fast as A in triad (1.09") && a.starts_with("A is 1.25"),
        "{first}"
    );
    assert!(a.contains(" times as fast as B in add (1.24") && !first.contains("copy"), "{first}");
    let coloured = harness.run(&["compare", "nps=1", "nps=4", "--color", "always"]).exits(0);
    coloured.prints("\x1b[32mfaster\x1b[0m").prints("\x1b[31mslower\x1b[0m");
    let plain = [("NO_COLOR", "1")];
    harness.run_with(&plain, &["compare", "nps=1", "nps=4"]).exits(0).never_prints("\x1b");
    harness
        .run(&["compare", "nps=1", "nps=1"])
        .exits(0)
        .prints_words("result No difference between A");
}

#[test]
fn compare_interleaves_the_runs_of_two_commands() {
    let harness = Harness::new();
    let fast =
        "--size 1000000elements --samples 3 --budget 0.5 --dimms 1024x20000 --kernels copy,triad";
    let (a, b) =
        (format!("OMP_NUM_THREADS=1 stream {fast}"), format!("nodegauge stream {fast} -q"));
    let turns = ["compare", "--run", &a, &b, "--blocks", "3", "--accept-suspect"];
    let json = harness.run(&[&turns[..], &["--json", "c.json", "--csv", "-"]].concat());
    assert_eq!(json.exits(0).stdout.lines().count(), 3);
    let turned_json: Value =
        serde_json::from_slice(&std::fs::read(harness.path("c.json")).unwrap()).unwrap();
    let runs = |side: &str| turned_json[side]["runs"].as_array().unwrap().len();
    assert_eq!((runs("a"), runs("b")), (6, 6));
    assert_eq!(
        (&turned_json["a"]["asked"], &pair(&turned_json, "triad")["basis"]),
        (&"OMP_NUM_THREADS=1".into(), &"blocks".into())
    );
    let ci95 = pair(&turned_json, "triad")["ci95"].as_array().unwrap();
    assert!(ci95[0].as_f64() <= pair(&turned_json, "triad")["ratio"].as_f64(), "{turned_json}");
    // All runs are saved in block order, and can be selected by their labels.
    let ids = |side: &str| -> Vec<String> {
        let side_runs = turned_json[side]["runs"].as_array().unwrap();
        side_runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    let mut all: Vec<(String, char)> = ids("a").into_iter().map(|id| (id, 'A')).collect();
    all.extend(ids("b").into_iter().map(|id| (id, 'B')));
    all.sort();
    assert_eq!(all.iter().map(|(_, side)| side).collect::<String>(), "ABBAABBAABBA");
    let record = harness.run(&["history", "show", &all[0].0, "--json"]).exits(0).json();
    assert_eq!(record["measurements"][0]["config"]["threads"], 1);
    assert_eq!(record["labels"]["compared"], "OMP_NUM_THREADS=1");
    let label = format!("turns={}", record["labels"]["turns"].as_str().unwrap());
    harness
        .run(&["compare", &label, &label])
        .exits(0)
        .prints_words(&format!("A {label}: 6 runs pooled"));
}

#[test]
fn compare_refuses_commands_without_measurements() {
    let harness = Harness::new();
    let run = |a: &str| harness.run(&["compare", "--no-save", "--run", a, "stream"]);
    run("stream --nonsense").exits(2).warns("ended with exit status 2: error: unexpected argument");
    run("true")
        .exits(2)
        .warns("'true' does not print a nodegauge record")
        .warns("hint: use commands that measure");
    run("./none").exits(3).warns("./none");
    assert!(!harness.path(".local").exists(), "nothing was saved");
}

#[test]
fn different_element_types_are_not_compared() {
    let harness = Harness::new();
    harness.stream(&["-q", "--label", "run=double"]).exits(0);
    harness.stream(&["-q", "--label", "run=single", "--element", "f32"]).exits(0);
    harness
        .run(&["compare", "run=double", "run=single"])
        .exits(0)
        .prints_words("not comparable")
        .prints_words("elements: f64 against f32")
        .never_prints("faster")
        .never_prints("slower")
        .prints_words("command A nodegauge stream")
        .prints_words("command B nodegauge stream")
        .prints_words("--label run=single --element f32")
        .never_prints("node A");
    let comparison = harness.run(&["compare", "run=double", "run=single", "--json", "-"]).exits(0);
    let run = &comparison.json()["b"]["runs"][0];
    let machine = harness.run(&["history", "show", "run=single", "--json"]).exits(0).json();
    assert_eq!(run["processor"], machine["machine"]["processor"]);
    assert_eq!(run["command"], machine["command"]);
    harness
        .run(&["compare", "run=double", "run=single", "--fail-on", "triad<-5%"])
        .exits(1)
        .warns("triad is not comparable: elements: f64 against f32");
}

#[test]
fn invalid_comparisons_are_refused_with_the_reason() {
    let harness = Harness::new();
    harness
        .run(&["compare", "latest", "latest~1"])
        .exits(2)
        .only_error("no saved run 'latest'\nhint: nodegauge history list");
    assert!(!harness.path(".local").exists(), "reading makes no files");
    harness.run(&["compare", "latest"]).exits(2);
    let quick = ["stream", "-q", "--kernels"];
    harness.run(&[&quick[..], &["copy"], &FAST].concat()).exits(0);
    harness.run(&[&quick[..], &["triad"], &FAST].concat()).exits(0);
    harness.run(&["compare", "latest", "latest~1"]).exits(2).only_error(
        "'latest' and 'latest~1' have no measurement in common: the first has triad, the second copy\n\
         hint: nodegauge history list",
    );
    harness
        .run(&["compare", "latest", "latest", "--json", "--csv"])
        .exits(2)
        .warns("--json and --csv cannot both go to standard output");
    harness.write("other.json", "{}");
    harness.run(&["compare", "latest", "other.json"]).exits(2).warns("is not a nodegauge record");
}
