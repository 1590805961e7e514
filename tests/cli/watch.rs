//! Tests that `watch` continues a series of samples and loses no runs.

use crate::harness::{Harness, wait_for};

/// Options for a sample every three seconds, even under other load.
const SHORT: [&str; 6] =
    ["watch", "--budget=0.5", "--every=3s", "--when-busy=measure", "--label", "watch=night"];

fn saved(harness: &Harness) -> usize {
    harness
        .run(&["history", "list", "-q", "--label", "watch=night"])
        .exits(0)
        .stdout
        .lines()
        .count()
}

#[test]
fn interrupted_watch_continues_its_series() {
    let harness = Harness::new();
    let args = [&SHORT[..], &["--for=1h"]].concat();
    let running = harness.start(&args);
    wait_for("a sample", || (saved(&harness) >= 2).then_some(()));
    running.signal("INT");
    let outcome = running.end().exits(130);
    let outcome = outcome.prints("watch      watch=night: a sample every 3s until ");
    let outcome = outcome.prints("  memory ").prints(", latency ").never_prints("goes on");
    outcome.prints("nodegauge report --trend 'watch=night'");
    let before = saved(&harness);
    let record = harness.latest();
    assert_eq!(record["labels"]["watch"], "night");
    // The same command continues the series, because the time of `--for` begins with the first run.
    let second_running = harness.start(&args);
    wait_for("one more", || (saved(&harness) > before).then_some(()));
    second_running.signal("TERM");
    let ended = second_running.end().exits(143);
    ended.prints(&format!("; continues after {before} run"));
    let over = [&SHORT[..], &["--for=1s"]].concat();
    harness.run(&over).exits(2).warns("series watch=night has ended: --for 1s, ");
    // Each sample is an ordinary record.
    harness.run(&["report", "--trend", "night", "--output", "trend.html"]).exits(0);
    let page = std::fs::read_to_string(harness.path("trend.html")).unwrap();
    assert!(page.contains("nodegauge: trend of ") && page.contains(" with label night"), "{page}");
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn sample_that_cannot_be_saved_is_written_to_a_file() {
        let harness = Harness::new();
        let db = harness.arg("runs.db");
        let args = [&SHORT[..], &["--for=1h", "--db", &db]].concat();
        let running = harness.start(&args);
        let listed = ["history", "list", "-q", "--db", &db];
        wait_for("a sample", || (harness.run(&listed).stdout.lines().count() > 0).then_some(()));
        std::fs::remove_file(&db).unwrap();
        std::fs::create_dir(&db).unwrap();
        let running = running.shows("will be saved later");
        running.signal("TERM");
        let outcome = running.end().exits(3);
        let name = |line: &str| {
            let end = line.find(".jsonl")? + ".jsonl".len();
            Some(line[line.find("nodegauge-unsaved-")?..end].to_owned())
        };
        let file = outcome.stderr.lines().find_map(name).unwrap_or_else(|| outcome.fail("a file"));
        harness.run(&["history", "import", &file]).exits(0);
        assert!(saved(&harness) > 0);
    }

    #[test]
    fn failed_sample_is_reported_and_not_saved() {
        let harness = Harness::new();
        let args = [&SHORT[..], &["--for=2s"]].concat();
        let outcome = harness.run_with(&[("OMP_NUM_THREADS", "many")], &args).exits(1);
        let outcome = outcome.prints("stream failed: ").prints("memory failed: ");
        outcome.prints("watched    0 samples, 1 failed");
        assert_eq!(saved(&harness), 0);
        harness.run(&args).prints("watched    1 sample: ");
    }
}
