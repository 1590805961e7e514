//! Tests of `--against`: published figures next to those of the node.

use crate::harness::{FAST, Harness, measurements};
use serde_json::Value;

/// Returns the published figures of a record.
fn published(record: &Value) -> Vec<&Value> {
    measurements(record).iter().filter(|m| m["config"]["engine"] == "published").collect()
}

#[test]
fn published_figures_are_printed_next_to_the_measurement_and_saved() {
    let harness = Harness::new();
    harness
        .stream(&["--against", "EPYC 7H12"])
        .exits(0)
        .prints_words("published, GB/s copy scale add triad of theory this/it this run")
        .prints_words("340.5 340.6 342.3 342.5 83.6 %")
        .prints_words(
            "32 threads, one core of each L3, icc -O3 -ffast-math -qopenmp; ORFEO tutorial",
        );
    let record = harness.latest();
    let published = published(&record);
    assert_eq!(published.len(), 32);
    for m in &published {
        assert_eq!((&m["category"], &m["samples"]), (&"reference".into(), &Value::Array(vec![])));
        assert_eq!(m["config"]["source"], "ORFEO tutorial: the STREAM benchmark");
    }
    // `history show` prints the output of the run again.
    harness.run(&["history", "show", "latest"]).exits(0).prints_words("342.5 83.6 %");
    let list = harness.run(&["history", "list"]).exits(0).stdout;
    assert_eq!(list.matches("triad ").count(), 1, "{list}");
    let csv = harness.run(&["history", "show", "latest", "--csv"]).exits(0).stdout;
    assert_eq!(csv.lines().filter(|line| line.contains(",reference,")).count(), 32);
}

#[test]
fn conditions_ignore_published_figures() {
    let harness = Harness::new();
    // 342.5 GB/s were published, and 20 TB/s are more than this node reaches.
    harness
        .stream(&["--against", "EPYC 7H12", "--expect", "triad>=20TB/s"])
        .exits(1)
        .warns("expected triad >= 20 TB/s, measured");
    let met = ["--against", "EPYC 7H12", "--expect", "triad<=20TB/s", "--accept-suspect"];
    harness.stream(&met).exits(0);
    let copy =
        ["stream", "--kernels", "copy", "--against", "EPYC 7H12", "--expect", "triad>=1GB/s"];
    harness
        .run(&[&copy[..], &FAST].concat())
        .exits(2)
        .warns("there is no such measurement; available: copy\n");
    harness.run(&[&copy[..5], &FAST].concat()).exits(0);
    harness
        .run(&["compare", "latest", "latest~1", "--json"])
        .exits(0)
        .prints_words("\"only_b\": [ \"scale\", \"add\", \"triad\" ]");
    // The table of stream.c contains no published figures.
    let table = harness.stream(&["--against", "EPYC 7H12", "--stream-text"]).exits(0).stdout;
    assert_eq!(table.matches("Triad:").count(), 1);
}

#[test]
fn hpl_and_stream_ignore_published_and_imported_figures() {
    let harness = Harness::new();
    // 342.5 GB/s were published. A record with a higher value is imported, and it looks as if it had been measured on
    // this node.
    let record = harness.stream_record(&["--kernels", "copy", "--against", "EPYC 7H12"]);
    let host = record["machine"]["host"].as_str().unwrap();
    let file = harness.write("stream.txt", crate::compare::stream_c([999_999.0; 4]));
    harness.run(&["history", "import", &file, "--host", host]).exits(0);
    // These commands read the history: `hpl` compares its matrix products with Triad, and `stream` uses the tuned
    // choice.
    let small = [&["hpl"], &crate::hpl::SMALL[..]].concat();
    harness
        .run(&[&small[..], &["--json", "hpl.json"]].concat())
        .never_prints("342.5")
        .never_prints("1000.0 GB/s")
        .never_prints("of Triad's");
    harness.stream(&["--kernels", "copy"]).exits(0).never_prints("as tuned");
    // If this node has measured Triad, this figure is used.
    harness.stream(&["--against", "EPYC 7H12"]).exits(0);
    harness.run(&small).never_prints("342.5");
}

#[test]
fn nearest_published_node_is_shown_if_the_processor_matches() {
    let harness = Harness::new();
    let quick =
        ["stream", "--samples", "3", "--size", "1000000elements", "--budget", "0.5", "--no-save"];
    let of = |processor: &str| {
        let dimms = ["--dimms", "1024x20000", "--processor", processor];
        harness.run(&[&quick[..], &dimms].concat()).exits(0)
    };
    of("EPYC 9654")
        .prints_words(
            "published 2 x EPYC 9654, NPS1, SMT off: triad 715.7 GB/s, 77.7 % of theoretical,",
        )
        .prints_words("more with --against 'EPYC 9654'")
        .never_prints("this/it");
    of("EPYC 9554").never_prints("published");
}

#[test]
fn catalog_is_listed_and_unknown_names_are_refused() {
    let harness = Harness::new();
    for command in ["stream", "run"] {
        harness
            .run(&[command, "--against", "list"])
            .exits(0)
            .warns_nothing()
            .prints_words(
                "OCI HPC performance tips: STREAM on BM.Standard.E5.192 stream 2 x EPYC 9654, NPS1",
            )
            .prints_words("triad 159.0 GB/s")
            .prints_words("hpl 2 x EPYC 7F52, NB 180, 4 x 8 time 3761 s");
    }
    assert!(!harness.path(".local").exists(), "showing the catalog measures nothing");
    let list = harness.run(&["stream", "--against", "list"]).stdout;
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    harness.run(&["stream", "--against", "EPYC 7H13"]).exits(2).only_error(
        "no published figures for \"EPYC 7H13\"; known processors: EPYC 7H12, EPYC 7F52, Xeon Phi 7110P, \
         EPYC 9654, Tesla K40c, Xeon Phi 5110P, Opteron, POWER5+\nhint: --against list shows the catalog",
    );
}

#[test]
fn published_sweep_is_printed_next_to_the_run() {
    let harness = Harness::new();
    let sweep = ["--sweep", "threads=1", "--against", "7F52 by threads", "--accept-suspect"];
    let run = harness.stream(&sweep).exits(0);
    run.prints_words("published, GB/s: 2 x EPYC 7F52, HT off, by threads")
        .prints_words("1 34.06 19.29 23.16 23.74 7 %")
        .prints_words("20 199.3 118.7 136.8 140.6 41.2 % - -")
        .prints_words("32 295.5 182.6 204.6 194.2 56.9 % - -");
    let record = harness.latest();
    let published = published(&record);
    assert_eq!(published.len(), 17 * 4);
    assert!(published.iter().all(|m| m["config"]["axis"] == "threads"));
    // Each thread count of the run has a ratio to the published rate.
    harness
        .run(&["history", "show", "latest", "--json"])
        .exits(0)
        .prints_words("\"axis\": \"threads\"");
    let row = harness.run(&["history", "show", "latest"]).stdout;
    let row = row.lines().find(|line| line.trim_start().starts_with("1  34.06")).unwrap();
    assert!(row.ends_with(" x"), "{row}");
}
