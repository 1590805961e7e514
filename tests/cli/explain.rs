//! Tests of `nodegauge explain`.

use crate::harness::{FAST, Harness, has_keys, measurements, names, texts};
use serde_json::Value;

/// All steps, in the order of the output.
const STEPS: [&str; 7] =
    ["threads", "binding", "layout", "pages", "stores", "loop", "side_by_side"];

fn explained(harness: &Harness, args: &[&str]) -> Value {
    let common = [&["explain", "--json", "-"], &FAST[..], args].concat();
    harness.run(&common).exits(0).warns_nothing().json()
}

#[test]
fn explained_factors_multiply_to_the_total() {
    let record = explained(&Harness::new(), &[]);
    let names = names(&record);
    assert_eq!(names[names.len() - 2..], ["whole", "memcpy"]);
    let order: Vec<usize> = names[..names.len() - 2]
        .iter()
        .map(|name| STEPS.iter().position(|step| step == name).unwrap())
        .collect();
    assert!(order.is_sorted(), "{names:?}");
    let mut product = 1.0;
    for m in measurements(&record) {
        assert_eq!((&m["gauge"], &m["test"]), (&"memory".into(), &"explain".into()));
        let category = if m["name"] == "memcpy" { "reference" } else { "variant" };
        assert_eq!((&m["unit"], &m["category"]), (&"x".into(), &category.into()));
        has_keys(&m["config"], &["engine", "kernel", "to"]);
        if !["whole", "memcpy"].map(Value::from).contains(&m["name"]) {
            product *= m["value"].as_f64().unwrap();
            has_keys(&m["config"], &["what", "factors"]);
            let options = m["config"]["step_options"].as_array().unwrap();
            assert!(options.len() == 2 && options[0] != options[1], "{m:#}");
        }
    }
    let whole = measurements(&record).iter().find(|m| m["name"] == "whole").unwrap();
    let value = whole["value"].as_f64().unwrap();
    assert!((product / value - 1.0).abs() < 1e-9, "{product} is not {value}");
    let rate = |name: &str| whole["config"][name].as_f64().unwrap();
    assert!((rate("to") / rate("from") / value - 1.0).abs() < 1e-9);
    // Too few rounds are reported, and the last step is compared with consecutive passes.
    let (rounds, reasons) = (rate("rounds"), texts_of(&whole["validity"]["reasons"]));
    assert_eq!(reasons.iter().any(|why| why.starts_with("only ")), rounds < 10.0, "{reasons:?}");
    has_keys(&whole["config"]["stream"], &["passes", "rate"]);
}

fn texts_of(reasons: &Value) -> Vec<&str> {
    reasons.as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect()
}

/// If there are enough rounds, the factor is within its interval.
#[test]
fn factors_are_within_their_intervals() {
    let harness = Harness::new();
    let args =
        ["explain", "--json", "-", "--threads", "1", "--samples", "6", "--size", "1000000elements"];
    let record = harness.run(&args).exits(0).warns_nothing().json();
    for m in measurements(&record) {
        let ends: Vec<f64> = m["config"]["interval"]
            .as_array()
            .unwrap_or_else(|| panic!("{m:#}"))
            .iter()
            .map(|end| end.as_f64().unwrap())
            .collect();
        let value = m["value"].as_f64().unwrap();
        assert!(ends[0] <= value && value <= ends[1], "{m:#}");
    }
    let shown = harness.run(&["history", "show", "latest"]).exits(0);
    shown.prints("95 %").prints("\nstream ").prints("\nmemcpy ").prints("count, 0 left out");
}

#[test]
fn waterfall_names_every_step() {
    let harness = Harness::new();
    let reported = harness.run(&[&["explain"], &FAST[..]].concat()).exits(0).warns_nothing();
    let reported = reported
        .prints("\nbaseline")
        .prints("\nwhole")
        .prints("based on a variant of the STREAM benchmark");
    let shown = harness.latest();
    for name in names(&shown) {
        if !reported.stdout.lines().any(|line| line.starts_with(&format!("{name} "))) {
            reported.fail(&format!("no line begins with {name}"));
        }
    }
    // Steps that could not be varied are reported.
    let notices = texts(&shown["notices"]).join("\n");
    for step in &STEPS[1..] {
        assert!(names(&shown).contains(step) || notices.contains(step), "{step}: {shown:#}");
    }
}

#[test]
fn choice_set_by_an_option_is_not_a_step() {
    let args = ["--stores", "regular", "--pages", "4k", "--bind", "none"];
    let record = explained(&Harness::new(), &args);
    for step in ["stores", "pages", "binding"] {
        assert!(!names(&record).contains(&step), "{step}");
        let reason = format!("no step for {step}: ");
        assert!(texts(&record["notices"]).iter().any(|text| text.starts_with(&reason)), "{step}");
    }
}

#[test]
fn explain_refuses_several_thread_counts_and_stream_text() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let outcome = harness.run(&["explain", "--threads", "1,2"]).exits(2).prints_nothing();
    outcome.warns("explain requires a single thread count\nhint: e.g. --threads 4");
    harness.run(&["explain", "--stream-text"]).exits(2).warns("--stream-text");
}

#[test]
fn explain_accepts_every_option_in_its_help_and_refuses_the_against_option() {
    let harness = Harness::new();
    let help = harness.run(&["explain", "--help"]).exits(0);
    let help = help.prints_words(&format!("{}; finally, memcpy", STEPS.join(", ")));
    help.prints_words("--threads <N> Threads [default: one per core]").never_prints("--against");
    let against = harness.run(&["explain", "--against", "EPYC 7H12"]).exits(2);
    against.only_error(
        "no published figures exist for the measurements of explain\nhint: use --against with stream",
    );
    // Every listed option is accepted.
    let options = harness.run(&["explain", "--help"]).exits(0).stdout;
    let lines = options.lines().filter(|line| line.trim_start().starts_with('-'));
    let named = lines.filter_map(|line| line.trim_start().split("--").nth(1));
    let named: Vec<&str> = named.filter_map(|name| name.split([' ', '<']).next()).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named.into_iter().filter(|name| *name != "help") {
        let reported =
            harness.run(&["explain", &format!("--{name}"), "--nonsense"]).exits(2).stderr;
        assert!(!reported.contains(&format!("unexpected argument '--{name}'")), "{reported}");
    }
}

#[test]
fn condition_on_the_limit_share_of_a_factor_is_refused() {
    let args = [&["explain", "--quiet", "--no-save", "--expect", "whole>=1%"], &FAST[..]].concat();
    Harness::new().run(&args).exits(2).only_error(
        "expected whole >= 1 % of the limit, but the limit is unknown\n\
         hint: give a bound with a unit such as GB/s; for memory, --dimms COUNTxMT/s also makes \
         the limit known",
    );
}
