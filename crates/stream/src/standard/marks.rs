//! Lines that identify runs of STREAM in a text: the title, the lines before the table, the table, and the result of
//! the check. All functions are pure.

use super::table;
use nodegauge_gauge::readers::RunMark;

/// Phase of the line with the result of the check, which ends a run.
pub(super) const END_PHASE: u8 = 3;

/// Titles of STREAM and of CEA's version, without the version number.
const TITLES: [&str; 2] = ["STREAM version", "MPI_STREAM CEA"];

/// First words of the lines before the table, in all versions.
const PREAMBLE: [&str; 10] = [
    "Array size",
    "Assuming",
    "Double precision appears to have",
    "Each kernel will be executed",
    "Each test is run",
    "Number of Threads",
    "Number of processors =",
    "This system uses",
    "Total Aggregate Array size",
    "You are running each test",
];

/// Returns the position of a line in the order of the lines of a run.
pub(super) fn mark(line: &str) -> Option<RunMark> {
    let words = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    match words.as_bytes().first()? {
        b'S' | b'M' if is_title(words) => Some(RunMark::TITLE),
        b'F' | b'f' if table::is_header(words) => Some(RunMark::once(2)),
        b'T' if words == "Triad Rate (MB/s):" => Some(RunMark::once(2)),
        b'S' if words.starts_with("Solution Validates") => Some(RunMark::weak(END_PHASE)),
        b'F' if words.starts_with("Failed Valid") => Some(RunMark::weak(END_PHASE)),
        b'A' | b'D' | b'E' | b'N' | b'T' | b'Y' => {
            PREAMBLE.iter().any(|start| words.starts_with(start)).then_some(RunMark::weak(1))
        }
        _ => None,
    }
}

/// True if a line is the title of a version of STREAM.
fn is_title(words: &str) -> bool {
    TITLES.iter().any(|title| words.starts_with(title)) && words.contains("Revision")
}

/// Returns the version in a title: `5.10`.
pub(super) fn title_version(line: &str) -> Option<String> {
    let words = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    is_title(words).then_some(())?;
    let (_, version) = words.split_once("Revision")?;
    let version = version.trim_matches([':', '$', ' ', '\r']);
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}
