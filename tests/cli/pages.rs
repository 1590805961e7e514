//! Helper functions for tests of reports in a real browser. The scripts in `pages/` return properties of a page.

use crate::browser::{Browser, Graphics};
use crate::harness::{Harness, Part, skip};
use serde_json::{Value, json};
use std::path::PathBuf;

mod colours;
mod roofline;
mod thorough;
mod values;

/// Widths of the screens on which every page is tested: desktop, tablet, phone.
pub const WIDTHS: [u32; 3] = [1400, 768, 390];
/// Unmodified axe-core. The file `SHA256SUMS` in its folder contains its digest.
pub const AXE: &str = include_str!("../axe/axe.min.js");
/// Text that must not become markup, script or formula.
pub const HOSTILE: &str =
    "</script><script>window.hit=1</script>\"><img src=x onerror=window.hit=1>{{7*7}}\u{2028}'";
pub const FORMULA: &str = "=cmd|' /C calc'!A0";

pub fn golden(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    PathBuf::from(folder).join(name).join("record.json")
}

/// Returns the names of all golden records.
fn recorded() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().join("record.json").exists());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn record(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden(name)).unwrap()).unwrap()
}

pub fn browser(graphics: Graphics) -> Option<Browser> {
    let browser = Browser::start(graphics);
    if browser.is_none() {
        skip(Part::Chromium, "no Chromium is installed");
    }
    browser
}

/// Writes the report of a record to a file.
#[track_caller]
pub fn report(harness: &Harness, record: &str) -> PathBuf {
    harness
        .run(&["report", record, "--output", "page.html"])
        .exits(0)
        .prints("report     page.html");
    harness.path("page.html")
}

/// Script that returns the pictures of a page: kind, data, and the number of shapes and texts drawn, or of coloured
/// dots.
pub const PICTURES: &str = include_str!("pages/pictures.js");

/// Script that draws all surfaces by opening them, and returns their number.
const SURFACES: &str = include_str!("pages/surfaces.js");

/// Script that returns the elements that are wider than the window.
pub const TOO_WIDE: &str = include_str!("pages/too_wide.js");

/// Script that returns faults of picture labels: labels that overlap, and labels and other elements that are cut off.
/// Labels are compared by their outlines, which may be rotated.
pub const ILLEGIBLE: &str = include_str!("pages/illegible.js");

/// Script that returns labels of pictures whose contrast with the page is below WCAG AA for text, and legend symbols
/// whose contrast is below that for graphics. Cells of heat maps have a separate test.
pub const FAINT: &str = include_str!("pages/faint.js");

/// Script that opens the tables of all pictures and returns their cells: the title, then row by row.
pub const DATA: &str = include_str!("pages/data.js");

/// Script that returns the texts of all pictures.
const TEXTS: &str = include_str!("pages/texts.js");

/// Script that returns the serious violations that axe-core reports.
pub const SERIOUS: &str = include_str!("pages/serious.js");

/// Returns the rows of the table of the picture with this title.
#[track_caller]
pub fn rows<'a>(data: &'a Value, title: &str) -> Vec<Vec<&'a str>> {
    let of_title = |figure: &&Value| figure["title"] == title;
    let figure = data.as_array().unwrap().iter().find(of_title);
    let rows = figure.unwrap_or_else(|| panic!("{title} in {data}"))["rows"].as_array().unwrap();
    let cells = |row: &'a Value| row.as_array().unwrap().iter().map(|x| x.as_str().unwrap());
    rows.iter().skip(1).map(|row| cells(row).collect()).collect()
}

/// Parses a cell as a number.
pub fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell:?} is a number"))
}
