//! Checks of docs/benchmarks.md: its tables are made from the result files in benches/results, and links into the
//! chapter point to its headings.

use crate::{files, root};
use std::process::Command;

const CHAPTER: &str = "docs/benchmarks.md";

/// Returns the text of a file in the repository.
fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the anchors of a chapter's headings, as GitHub and mdBook make them.
fn anchors(chapter: &str) -> Vec<String> {
    let headings =
        chapter.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    headings.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the column with index `at` of a file in benches/results.
fn column(name: &str, at: usize) -> Vec<String> {
    let text = text(name);
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|row| row.split(',').nth(at).unwrap().to_owned()).collect()
}

#[test]
fn tables_of_benchmarks_match_results() {
    let output = Command::new(root().join("scripts/benchmarks")).arg("--check").output().unwrap();
    let differences = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "\n{differences}{error}");
}

#[test]
fn rows_of_the_peer_table_refer_to_existing_headings() {
    let anchors = anchors(&text(CHAPTER));
    for section in column("benches/results/peers.csv", 4) {
        assert!(anchors.contains(&section), "{CHAPTER} has no heading for #{section}");
    }
}

#[test]
fn links_into_benchmarks_lead_to_headings() {
    let anchors = anchors(&text(CHAPTER));
    for file in files(&root().join("docs"), &["md"]) {
        let chapter = std::fs::read_to_string(&file).unwrap();
        for part in chapter.split("](benchmarks.md#").skip(1) {
            let (link, _) = part.split_once(')').unwrap();
            assert!(anchors.iter().any(|anchor| anchor == link), "{}: #{link}", file.display());
        }
    }
}

#[test]
fn result_files_are_named_after_a_bench() {
    let manifest = text("crates/cli/Cargo.toml");
    for file in files(&root().join("benches/results"), &["csv"]) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let Some((bench, _)) = name.split_once('-') else { continue };
        let entry = format!("[[bench]]\nname = \"{bench}\"\n");
        assert!(manifest.contains(&entry), "{}: no bench {bench}", file.display());
    }
}

#[test]
fn result_files_have_the_columns_that_benches_write() {
    let common = text("benches/common.rs");
    for file in files(&root().join("benches/results"), &["csv"]) {
        let results = std::fs::read_to_string(&file).unwrap();
        if file.ends_with("peers.csv") {
            continue;
        }
        let columns = results.lines().nth(2).unwrap();
        assert!(common.contains(&format!("\"{columns}\"")), "{}", file.display());
        assert!(results.starts_with("# processor: "), "{}", file.display());
    }
}

/// Results of `benches/many`: a rate and a time, of two runs of each program.
const RESULTS: &str = "\
part,program,quantity,threads,unit,best,median
stream,nodegauge,stream copy,2,B/s,12e9,9e9
stream,stream.c,stream copy,2,B/s,5e9,
stream,nodegauge,stream copy,2,B/s,11e9,11e9
stream,stream.c,stream copy,2,B/s,3e9,
mpi,nodegauge,mpi latency 8,2,s,1e-7,3e-7
mpi,OSU,mpi latency 8,2,s,3e-7,
mpi,nodegauge,mpi latency 8,2,s,2e-7,1e-7
mpi,OSU,mpi latency 8,2,s,5e-7,
mpi,OSU,mpi latency 16,2,s,5e-7,
";

#[test]
fn summary_of_many_has_ratios_of_rates_and_times() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.csv"), RESULTS).unwrap();
    std::fs::write(folder.path().join("about.txt"), "2 CPUs\n").unwrap();
    let script = root().join("benches/many");
    let output = Command::new(script).arg("summary").arg(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<&str> = text.lines().skip(4).collect();
    let expected = [
        "| stream | stream copy | 2 | 1e+10 B/s | stream.c | 4e+09 | 2.500 | 2.400 |",
        "| mpi | mpi latency 8 | 2 | 2e-07 s | OSU | 4e-07 | 2.000 | 3.000 |",
    ];
    assert_eq!(rows, expected, "{text}");
}

#[test]
fn anchors_are_lower_case_without_punctuation() {
    assert_eq!(anchor("stream.c"), "streamc");
    assert_eq!(anchor("IOzone and fio"), "iozone-and-fio");
}
