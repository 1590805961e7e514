//! Tests of `stream --sweep`: omitted values, the axes of ranks, and the printed statistics.

use crate::harness::{Harness, Part, measurements, skip};
use serde_json::Value;

/// Returns the distinct values of an axis that were measured.
fn measured(record: &Value, axis: &str) -> Vec<String> {
    let value = |m: &Value| m["config"]["sweep"][axis].as_str().unwrap().to_owned();
    let mut values: Vec<String> = measurements(record).iter().map(value).collect();
    values.dedup();
    values
}

/// Returns the number of free reserved huge pages of `bytes` bytes.
fn free_pages(harness: &Harness, bytes: u64) -> u64 {
    let machine = harness.run(&["machine", "--json"]).exits(0).json();
    let sizes = machine["machine"]["pages"]["huge"].as_array().unwrap();
    sizes.iter().find(|size| size["bytes"] == bytes).map_or(0, |s| s["free"].as_u64().unwrap())
}

#[test]
fn unavailable_page_size_is_omitted_with_the_reason() {
    let harness = Harness::new();
    if free_pages(&harness, 1 << 30) > 0 {
        return skip(Part::Pages, "pages of 1 GiB are reserved here");
    }
    let axes = ["--kernels", "triad", "--sweep", "pages=4k,1g", "--sweep", "stores=regular"];
    let reported = harness.stream(&axes).exits(0);
    reported
        .prints_words(
            "note pages 1g left out: cannot put 1 GiB on 1g pages: reserved pages of 1 GiB: 0 of 0 free",
        )
        .never_prints("  1g  ");
    assert_eq!(measured(&harness.latest(), "pages"), ["4k"]);
    let nothing = harness.stream(&["--sweep", "pages=1g"]).exits(3).prints_nothing();
    nothing.warns("error: cannot put 1 GiB on 1g pages: ").warns("hint: as root, echo 1 >");
}

#[test]
fn values_unavailable_on_this_node_are_omitted() {
    let harness = Harness::new();
    let place = format!("{{{}}}", harness.first_cpu());
    let places = format!("places={place};{{4000}}");
    let cases = [
        ("threads=1,50000", "threads", "1", "threads 50000 left out: cannot place 50000 threads"),
        (&places, "places", &place, "places {4000} left out: cpu 4000 is not on this"),
        (
            "compiler=native;no-such-cc -O3",
            "compiler",
            "native",
            "compiler no-such-cc -O3 left out: ",
        ),
    ];
    for (sweep, axis, kept, why) in cases {
        let reported = harness.stream(&["--kernels", "triad", "--sweep", sweep]).exits(0);
        reported.prints_words(&format!("note {why}"));
        assert_eq!(measured(&harness.latest(), axis), [kept], "{sweep}");
    }
    // If no value is left, the exit code is 3. A value that no machine supports is a usage error.
    let nothing = harness.stream(&["--sweep", "threads=50000,60000"]).exits(3).prints_nothing();
    nothing.warns("error: cannot place 50000 threads: this process may use");
    let both = ["--ranks", "1", "--cpus", "0", "--sweep", "rank-map=block,core"];
    harness.stream(&both).exits(2).warns("--cpus and --rank-map both decide where threads go");
}

#[test]
fn sweep_measures_every_rank_map() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let sweep = ["--ranks", "2", "--kernels", "triad", "--sweep", "rank-map"];
    let record = harness.stream_record(&sweep);
    let maps = ["block", "cyclic", "core", "spread", "even"];
    assert_eq!(measured(&record, "rank-map"), maps);
    let asked = |m: &Value| m["config"]["places_asked"].as_str().unwrap().to_owned();
    let words: Vec<String> = measurements(&record).iter().map(asked).collect();
    assert_eq!(words, maps);
    let none = harness.stream(&["--sweep", "rank-map=block"]).exits(2);
    none.warns("--rank-map requires --ranks");
}

#[test]
fn sweep_over_ranks_shows_one_series_per_policy() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let sweep = ["--kernels", "triad", "--sweep", "ranks=1,2", "--sweep", "policy=5,3,4,4/even"];
    let reported = harness.stream(&sweep).exits(0);
    let reported = reported
        .prints("relative to 1 rank of policy 5 (= 1.00)\n")
        .prints("a policy 5, b policy 3, c policy 4, d policy 4/even\n")
        .prints_words("x: median of triad divided by that of 1 rank of policy 5");
    let table = rows(&reported.stdout, "ranks");
    let places: Vec<(&str, &str)> = table[1..].iter().map(|row| (row[0], row[1])).collect();
    let series = ["5", "3", "4", "4/even"];
    let expected: Vec<(&str, &str)> =
        ["1", "2"].iter().flat_map(|ranks| series.map(|policy| (*ranks, policy))).collect();
    assert_eq!(places, expected, "{}", reported.stdout);
    // The columns are ranks, policy, memory per task, median, spread, and relative rate.
    assert_eq!(table[1][5], "1.00", "{}", reported.stdout);
    let record = harness.latest();
    let all = measurements(&record);
    let asked = |m: &Value| m["config"]["places_asked"].as_str().unwrap().to_owned();
    let words: Vec<String> = all.iter().take(4).map(asked).collect();
    assert_eq!(words, ["policy 5 block", "policy 3 block", "policy 4 block", "policy 4 even"]);
    for m in all {
        assert_eq!(m["config"]["relative"]["to"]["policy"], "5");
        assert_eq!(m["config"]["relative"]["to"]["ranks"], "1");
    }
    let page = harness.run(&["report", "latest", "--output", "-"]).exits(0);
    page.prints("\"triad over ranks, relative to 1 rank of policy 5\"");
    let both = [&sweep[..], &["--rank-map", "cyclic"]].concat();
    harness.stream(&both).exits(2).warns(
        "error: policy 4/even and --rank-map both specify the rank-map\nhint: leave out --rank-map",
    );
}

/// Returns the words of each line of the table whose title line begins with `title`. The table ends with an empty line.
fn rows<'a>(text: &'a str, title: &str) -> Vec<Vec<&'a str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn show_option_prints_a_sweep_in_the_columns_of_stream_c() {
    let harness = Harness::new();
    let sweep =
        ["--sweep", "pages=4k,thp", "--show", "best,avg,min,max", "--kernels", "copy,triad"];
    let reported = harness.stream(&sweep).exits(0);
    let reported =
        reported.prints_words("pages Function Best Rate MB/s Avg time Min time Max time");
    let all = rows(&reported.stdout, "pages");
    let places: Vec<&[&str]> = all.iter().map(|row| &row[..2]).collect();
    let expected = [["4k", "copy"], ["4k", "triad"], ["thp", "copy"], ["thp", "triad"]];
    assert_eq!(places, expected);
    let record = harness.latest();
    for (row, m) in all.iter().zip(measurements(&record)) {
        let figures: Vec<f64> = row[2..].iter().map(|word| word.parse().unwrap()).collect();
        let [rate, average, least, most] = figures[..] else { panic!("{row:?}") };
        assert!(least <= average && average <= most, "{row:?}");
        assert!((rate - m["value"].as_f64().unwrap() / 1e6).abs() < 0.06, "{row:?}");
        // The rate is the number of bytes that STREAM counts, divided by the shortest time. The time is printed in
        // microseconds, and the rate with 0.1 MB/s.
        let bytes = if row[1] == "copy" { 16e6 } else { 24e6 };
        let rounding = rate * 1e6 * 0.6e-6 + 0.06e6 * least;
        assert!((rate * 1e6 * least - bytes).abs() <= rounding, "{row:?}");
    }
    // The saved record is printed in the same way. With `--show`, it is printed with the statistics of a publication.
    let again = harness.run(&["history", "show", "latest", "--show", "best,avg,min,max"]).exits(0);
    assert_eq!(rows(&again.stdout, "pages"), all);
    let best = harness.run(&["history", "show", "latest", "--show", "best"]).exits(0);
    let best = best.prints_words("pages copy triad").prints("best rates in MB/s");
    assert_eq!(
        rows(&best.stdout, "pages"),
        [["4k", all[0][2], all[1][2]], ["thp", all[2][2], all[3][2]]]
    );
    let as_ever = harness.run(&["history", "show", "latest"]).exits(0);
    as_ever.prints("medians in GB/s").never_prints("Best Rate");
}

#[test]
fn show_option_requires_a_sweep() {
    let harness = Harness::new();
    let none = "error: --show requires a sweep";
    harness.stream(&["--show", "best"]).exits(2).warns(none).prints_nothing();
    harness.stream(&["--kernels", "triad"]).exits(0);
    harness.run(&["history", "show", "latest", "--show", "avg"]).exits(2).warns(none);
    let unknown = harness.stream(&["--sweep", "stores", "--show", "mean"]).exits(2);
    unknown.warns("unknown statistic 'mean': expected best, avg, min, max");
}

#[test]
fn pages_of_runs_with_ranks_print_processes_and_memory_per_rank() {
    let harness = Harness::new();
    if !harness.has_cpus(2) {
        return;
    }
    let reported = harness.stream(&["--ranks", "2", "--kernels", "triad"]).exits(0);
    reported.prints_words("tasks 2 processes, 22.9 MiB per rank, 45.8 MiB in total");
    let sweep = ["--sweep", "ranks=1,2", "--kernels", "triad", "--show", "best,min"];
    let swept = harness.stream(&sweep).exits(0);
    let swept = swept.prints_words("ranks MiB per rank Function Best Rate MB/s Min time");
    let all = rows(&swept.stdout, "ranks");
    for (row, ranks) in all.iter().zip([1.0, 2.0]) {
        assert_eq!(row[1], "22.9");
        let (rate, least): (f64, f64) = (row[3].parse().unwrap(), row[4].parse().unwrap());
        // The bytes of all ranks are counted.
        let bytes = ranks * 24e6;
        let rounding = rate * 1e6 * 0.6e-6 + 0.06e6 * least;
        assert!((rate * 1e6 * least - bytes).abs() <= rounding, "{row:?}");
    }
    let table = harness.stream(&["--ranks", "2", "--stream-text", "--no-save"]).exits(0);
    table
        .prints("\nTotal Aggregate Array size = 2000000 (elements)\n")
        .prints("\nData is distributed across 2 MPI ranks\n")
        .prints("\n   Total memory per MPI rank = 22.9 MiB (= 0.0 GiB).\n");
}
