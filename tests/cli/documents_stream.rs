//! Tests of `history import` with STREAM's output as published documents print it: two complete outputs, eight tables
//! and a table in Markdown. Every figure, and every share of the theoretical bandwidth, must equal that in the
//! document.

use crate::harness::{Harness, measurements};
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Kernels in the order of the tables.
const KERNELS: [&str; 4] = ["copy", "scale", "add", "triad"];

/// Options for the arrays and passes of the ORFEO tables.
const ORFEO: [&str; 6] = ["--element", "8", "--size", "800000000", "--times", "100"];

/// Text from a document, with the values that the document states.
struct PrintedRun {
    name: &'static str,
    /// Rates of the kernels, MB/s.
    rates: [f64; 4],
    /// Number of threads, or of ranks for T2K.
    workers: u64,
    /// Triad's share of the theoretical bandwidth: in tenths of a percent, and in percent.
    share: [&'static str; 2],
}

const RUNS: [PrintedRun; 11] = [
    run("oci-nps1.txt", [681724.7, 685595.0, 721807.1, 715650.4], 96, ["77.7 %", "78 %"]),
    run("oci-nps4.txt", [719952.6, 705125.1, 752324.6, 753699.8], 96, ["81.8 %", "82 %"]),
    run("orfeo-gcc-128.txt", [305583.7, 201266.7, 220611.3, 221266.6], 128, ["54 %", "54 %"]),
    run("orfeo-icc-128.txt", [239804.1, 224399.3, 220740.7, 235779.2], 128, ["57.6 %", "58 %"]),
    run("orfeo-gcc-128-bound.txt", [305533.3, 201188.3, 220841.8, 221233.8], 128, ["54 %", "54 %"]),
    run(
        "orfeo-icc-128-bound.txt",
        [318835.4, 319058.9, 320872.4, 320508.5],
        128,
        ["78.2 %", "78 %"],
    ),
    run("orfeo-gcc-64.txt", [319704.9, 209798.0, 228199.3, 228620.4], 64, ["55.8 %", "56 %"]),
    run("orfeo-icc-64.txt", [332466.9, 332613.2, 334152.0, 333924.8], 64, ["81.5 %", "82 %"]),
    run("orfeo-gcc-32.txt", [328473.9, 216117.7, 237191.8, 237897.4], 32, ["58.1 %", "58 %"]),
    run("orfeo-icc-32.txt", [340524.5, 340552.6, 342336.9, 342514.5], 32, ["83.6 %", "84 %"]),
    run("t2k-16.md", [18334.1898, 18035.1690, 18649.4455, 19603.8455], 16, ["45.9 %", "46 %"]),
];

const fn run(
    name: &'static str,
    rates: [f64; 4],
    workers: u64,
    share: [&'static str; 2],
) -> PrintedRun {
    PrintedRun { name, rates, workers, share }
}

/// Returns the path of a text.
fn path(name: &str) -> String {
    format!("{ROOT}/../../tests/cli/texts/stream/{name}")
}

/// Returns the text with this name.
fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// Returns the options for properties that a text does not contain.
fn options(run: &PrintedRun) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if run.name.starts_with("oci") {
        return words(&["--processor", "EPYC 9654", "--sockets", "2"]);
    }
    if run.name.starts_with("t2k") {
        return words(&["--dimms", "8x667"]);
    }
    let compiler = if run.name.contains("icc") { "icc -qopenmp -O3" } else { "gcc -fopenmp -O3" };
    let threads = run.workers.to_string();
    words(
        &[
            &ORFEO[..],
            &["--threads", &threads, "--compiler", compiler],
            &["--processor", "EPYC 7H12", "--sockets", "2"],
        ]
        .concat(),
    )
}

/// Returns the status of the figures in the latest run. All figures must have the same status.
fn status(harness: &Harness) -> String {
    let record = harness.latest();
    let all: Vec<&Value> = measurements(&record).iter().map(|m| &m["validity"]["status"]).collect();
    assert!(all.iter().all(|status| *status == all[0]));
    all[0].as_str().unwrap().to_owned()
}

#[test]
fn published_tables_are_imported_with_rates_and_shares_of_the_limit() {
    let harness = Harness::new();
    for run in &RUNS {
        let PrintedRun { name, rates, workers, share: [tenths, whole] } = run;
        let file = path(name);
        let options = options(run);
        let mut args = vec!["history", "import", file.as_str()];
        args.extend(options.iter().map(String::as_str));
        harness.run(&args).exits(0);
        let record = harness.latest();
        let figures = measurements(&record);
        for ((m, rate), kernel) in figures.iter().zip(rates).zip(KERNELS) {
            assert_eq!(m["name"], kernel);
            let value = m["value"].as_f64().unwrap();
            assert!((value / (rate * 1e6) - 1.0).abs() < 1e-12, "{name}, {kernel}: {value}");
        }
        let triad = &figures[3];
        let is_mpi = name.starts_with("t2k");
        let key = if is_mpi { "processes" } else { "threads" };
        assert_eq!(triad["config"][key], *workers, "{name}");
        let is_checked = name.starts_with("oci");
        let expected = if is_checked { "valid" } else { "suspect" };
        assert_eq!(status(&harness), expected, "{name}");
        if !is_checked {
            let reason = triad["validity"]["reasons"][0].as_str().unwrap();
            assert!(reason.starts_with("unchecked: "), "{reason}");
        }
        // Terminal, Markdown, HTML and CSV show the same share.
        let page = harness.run(&["history", "show", "latest"]).exits(0).stdout;
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!(", {whole} of ")), "{name}:\n{page}");
        assert!(!words.contains("fastest loop"), "{name}:\n{page}");
        let row = page.lines().find(|line| line.trim().starts_with("triad")).unwrap();
        assert!(row.ends_with(tenths), "{name}: {row}");
        let markdown =
            harness.run(&["report", "latest", "-f", "md", "--output", "-"]).exits(0).stdout;
        assert!(markdown.contains(&format!("| {tenths} |")), "{name}:\n{markdown}");
        let html =
            harness.run(&["report", "latest", "-f", "html", "--output", "-"]).exits(0).stdout;
        assert!(html.contains(&format!("<b>{whole}</b>")), "{name}");
        // The limit of the other loops shows the fastest loop as its second mark.
        assert!(html.contains(", fastest loop of this run: "), "{name}");
        let csv = harness.run(&["history", "show", "latest", "--csv", "-"]).exits(0).stdout;
        let share = share_in_csv(&csv);
        let limit = triad["limit"]["value"].as_f64().unwrap();
        assert!((share - rates[3] * 1e6 / limit).abs() < 1e-6, "{name}: {share}");
        let shown: f64 = tenths.trim_end_matches(" %").parse().unwrap();
        assert!((share * 100.0 - shown).abs() <= 0.0501, "{name}: {share} and {tenths}");
    }
}

/// Returns Triad's share of the limit in CSV.
fn share_in_csv(csv: &str) -> f64 {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|column| *column == "limit_fraction").unwrap();
    let triad = lines.find(|line| line.contains(",triad,")).unwrap();
    triad.split(',').nth(column).unwrap().parse().unwrap()
}

#[test]
fn properties_missing_in_imported_output_stay_unknown() {
    let harness = Harness::new();
    harness.run(&["history", "import", &path("orfeo-icc-32.txt")]).exits(0);
    let record = harness.latest();
    for m in measurements(&record) {
        for key in ["threads", "processes", "element", "array_bytes", "array_elements", "ntimes"] {
            assert_eq!(m["config"].get(key), None, "{key}");
        }
        assert!(m["value"].is_f64() && m["config"]["times_s"]["least"].is_f64());
    }
    let page = harness.run(&["history", "show", "latest"]).exits(0).stdout;
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("The node sustains 342.5 GB/s (suspect) of Triad"), "{page}");
    assert!(words.contains("arrays of unknown size, an unknown number of threads"), "{page}");
    harness.run(&["history", "import", &path("t2k-16.md")]).exits(0);
    let of_ranks = harness.latest();
    let config = &measurements(&of_ranks)[0]["config"];
    assert_eq!(config["array_bytes"], 16 * 2_000_000 * 8);
    assert_eq!((config.get("threads"), &config["processes"]), (None, &16.into()));
}

#[test]
fn unchecked_figures_meet_conditions_only_if_accepted() {
    let harness = Harness::new();
    harness.run(&["history", "import", &path("orfeo-icc-32.txt")]).exits(0);
    let report = ["report", "latest", "-f", "md", "--output", "-", "--expect", "triad>=300GB/s"];
    harness.run(&report).exits(1);
    harness.run(&[&report[..], &["--accept-suspect"]].concat()).exits(0);
    let checked = format!("{}Solution Validates: avg error\n", text("orfeo-icc-32.txt"));
    let checked = harness.write("checked.txt", checked);
    harness.run(&["history", "import", &checked]).exits(0);
    // With more passes, the values of the arrays may have overflowed, which the check does not detect.
    assert_eq!(status(&harness), "suspect");
    harness.run(&["history", "import", &checked, "--times", "10"]).exits(0);
    assert_eq!(status(&harness), "valid");
}

#[test]
fn options_that_contradict_the_text_are_refused_with_both_values() {
    let harness = Harness::new();
    let (oci, orfeo, t2k) = (path("oci-nps1.txt"), path("orfeo-icc-32.txt"), path("t2k-16.md"));
    let hpl = format!("{ROOT}/../compute/tests/outputs/three-nb.txt");
    let cases: [(&str, &[&str], &str); 9] = [
        (&oci, &["--threads", "32"], "--threads 32 contradicts the text: 96 threads"),
        (&oci, &["--element", "4"], "--element 4 contradicts the text: 8 bytes in an element"),
        (
            &oci,
            &["--size", "1000"],
            "--size 1000 contradicts the text: 430080000 elements in an array",
        ),
        (&oci, &["--times", "20"], "--times 20 contradicts the text: 10 runs of each kernel"),
        (&t2k, &["--ranks", "8"], "--ranks 8 contradicts the text: 16 ranks"),
        (&t2k, &["--size", "4000000"], "--size 4000000 contradicts the text: 2000000 elements"),
        (
            &orfeo,
            &["--element", "8", "--size", "400000000"],
            "--size 400000000 contradicts the text: arrays of about 6.4",
        ),
        (&orfeo, &["--element", "16"], "an element has 4 bytes (float) or 8 bytes (double)"),
        (&hpl, &["--threads", "4"], "--threads: "),
    ];
    for (file, options, message) in cases {
        let args = [&["history", "import", file][..], options].concat();
        harness.run(&args).exits(2).prints_nothing().warns(message);
    }
    let agreeing = ["--threads", "96", "--element", "8", "--size", "430080000", "--times", "10"];
    harness.run(&[&["history", "import", oci.as_str()][..], &agreeing].concat()).exits(0);
}

#[test]
fn surrounding_text_and_notation_do_not_change_figures() {
    let harness = Harness::new();
    let whole = text("oci-nps1.txt");
    let prompt = format!("$ cd ~/stream && ./a.out\n{whole}$\n");
    let document = format!("# NPS1\n\nAn array has 3.2 GiB.\n\n```console\n{prompt}```\n\nDone.\n");
    let quoted: String = whole.lines().map(|line| format!("> {line}\n")).collect();
    let comma = whole.replace("681724.7", "681.724,7").replace("685595.0", "685595,0");
    let comma = comma.replace("721807.1", "721.807,1").replace("715650.4", "715650,4");
    let comma = comma.replace(" 0.0", " 0,0").replace("430080000", "430.080.000");
    for other in [prompt, document, quoted, comma] {
        let file = harness.write("other.txt", other);
        let import = ["history", "import", file.as_str(), "--dimms", "24x4800"];
        harness.run(&import).exits(0);
        let record = harness.latest();
        for (m, rate) in measurements(&record).iter().zip(RUNS[0].rates) {
            assert!((m["value"].as_f64().unwrap() / (rate * 1e6) - 1.0).abs() < 1e-12);
            assert_eq!(m["config"]["threads"], 96);
            assert_eq!(m["config"]["array_elements"], 430_080_000);
        }
        assert_eq!(status(&harness), "valid");
    }
}

#[test]
fn invalid_tables_are_refused_and_rates_in_other_units_are_converted() {
    let harness = Harness::new();
    let (orfeo, t2k) = (text("orfeo-icc-32.txt"), text("t2k-16.md"));
    let units = orfeo.replace("MB/s", "MFLOP/s");
    let missing = t2k.replace("| Scale:", "| Other:");
    let short = t2k.replace("| 0.0285 |", "|");
    let cases = [
        (missing, "the table has no line for Scale (its header is line 17)\nhint: give the lines"),
        (units, "the rates have no known unit: \"Function Best Rate MFLOP/s"),
        (
            short,
            "the table has an invalid line: \"| Scale: | 18035.1690 | 0.0284 | 0.0284 |\" (line 20)\nhint: ",
        ),
        (
            orfeo.replace("0.056085", "0,056085"),
            "\"0,056085\" may be a decimal number or have a thousands separator (line 5)\nhint: ",
        ),
        (
            text("oci-nps1.txt").replace("430080000 (", "430.08 ("),
            "no whole number after \"Array size =\": \"430.08\" (line 6)",
        ),
    ];
    for (text, message) in cases {
        let file = harness.write("refused.txt", text);
        harness
            .run(&["history", "import", &file])
            .exits(2)
            .prints_nothing()
            .warns("refused.txt ")
            .warns(message);
    }
    // Rates in another unit are converted. Rates that contradict their times are refused.
    let in_gigabytes = text("oci-nps1.txt").replace("Rate MB/s", "Rate GB/s");
    let file = harness.write("unit.txt", &in_gigabytes);
    harness.run(&["history", "import", &file]).exits(1).warns("the table contradicts itself");
    let rates = [("681724.7", "681.7247"), ("685595.0", "685.595")];
    let more = [("721807.1", "721.8071"), ("715650.4", "715.6504")];
    let replaced = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    let right = rates.iter().chain(&more).fold(in_gigabytes, replaced);
    let converted = harness.write("converted.txt", right);
    harness.run(&["history", "import", &converted]).exits(0);
    assert_eq!(status(&harness), "valid");
    let record = harness.latest();
    let triad = measurements(&record)[3]["value"].as_f64().unwrap();
    assert!((triad / 715_650.4e6 - 1.0).abs() < 1e-12, "{triad}");
}

#[test]
fn run_with_few_threads_is_not_compared_with_the_node_limit() {
    let harness = Harness::new();
    let import = ["history", "import", &path("orfeo-icc-32.txt"), "--dimms", "16x3200"];
    harness.run(&[&import[..], &["--threads", "8"]].concat()).exits(0);
    let page = harness.run(&["history", "show", "latest"]).exits(0).stdout;
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Eight threads sustain 342.5 GB/s (suspect) of Triad with stream.c."));
    let limit = "limit 409.6 GB/s theoretical (option); only a part of it in use: 8 threads for its 16 channels";
    assert!(words.contains(limit), "{page}");
}
