//! The result of a sweep: a line a configuration, and a chart of the kernel that trends are read
//! from.

use crate::table::{Style, incomplete, paragraph, table};
use crate::{published, ranks, words};
use nodegauge_measure::record::{Measurement, Record, Status};
use serde_json::Value;

/// Widest and narrowest room for bars, in characters.
const BAR: (usize, usize) = (24, 4);

/// The table with its chart, the evidence, and what the sweep found.
pub fn render(record: &Record, style: Style) -> String {
    let mut out = section(record, style);
    out.push_str(&published::beneath(record, style));
    for notice in &record.notices {
        out.push_str(&paragraph(style, "note", &notice.text));
    }
    out.push_str(&incomplete(style, record));
    out
}

/// The table with its chart, and the doubts.
pub(crate) fn section(record: &Record, style: Style) -> String {
    if !is_sweep(record) {
        return String::new();
    }
    let cells = cells(record);
    let Some(first) = cells.first() else { return String::new() };
    let axes: Vec<&str> = coordinates(first[0]).iter().map(|(axis, _)| *axis).collect();
    let kernels: Vec<&str> = first.iter().map(|m| m.name.as_str()).collect();
    let charted = kernels.iter().position(|name| *name == "triad").unwrap_or(kernels.len() - 1);
    let most = cells
        .iter()
        .filter_map(|cell| cell.get(charted)?.summary.as_ref())
        .map(|summary| summary.median)
        .fold(0.0, f64::max);
    let compilers = Compilers::of(&cells);
    let mut header = axes.clone();
    header.extend(&kernels);
    header.push("5 %..95 %");
    let reference = cells.iter().find_map(|cell| ranks::reference(cell.get(charted)?));
    if reference.is_some() {
        header.push("x");
    }
    let mut rows: Vec<Vec<String>> = cells
        .iter()
        .map(|cell| {
            let mut row: Vec<String> =
                coordinates(cell[0]).iter().map(|place| compilers.short(*place)).collect();
            row.extend(cell.iter().map(|m| median(m)));
            let summary = cell.get(charted).and_then(|m| m.summary.as_ref());
            row.push(summary.map_or_else(
                || "-".to_owned(),
                |s| format!("{}..{}", words::gb(s.p05), words::gb(s.p95)),
            ));
            if reference.is_some() {
                let ratio = cell.get(charted).and_then(|m| ranks::relative(m));
                row.push(ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
            }
            row
        })
        .collect();
    let used: usize = (0..header.len())
        .map(|i| {
            rows.iter().map(|row| row[i].len()).chain([header[i].len()]).max().unwrap_or(0) + 2
        })
        .sum();
    let room = usize::from(style.width).saturating_sub(used).clamp(BAR.1, BAR.0);
    header.push("");
    for (row, cell) in rows.iter_mut().zip(&cells) {
        let summary = cell.get(charted).and_then(|m| m.summary.as_ref());
        let share = summary.map_or(0.0, |s| s.median / most);
        row.push("#".repeat((share * room as f64).round() as usize));
    }
    let right: Vec<usize> = (0..header.len() - 1).collect();
    let mut out = table(style, &header, &rows, &right);
    out.push_str(&format!("\nmedians in GB/s; spread and bars are of {}\n", kernels[charted]));
    if let Some(reference) = reference {
        let kernel = kernels[charted];
        out.push_str(&format!("x: median of {kernel} over that of {reference}\n"));
    }
    for (name, command, made) in compilers.legend(&cells, charted) {
        out.push_str(&paragraph(style, &name, &format!("{command}{made}")));
    }
    out.push_str(&doubts(&cells, &compilers, style));
    out.push_str(&paragraph(style, "name", crate::stream::VARIANT));
    out
}

/// A verdict and its reasons.
type Doubt<'a> = (Status, Vec<&'a str>);

/// What is to be doubted, each doubt once with the configurations that it concerns.
fn doubts(cells: &[Vec<&Measurement>], compilers: &Compilers<'_>, style: Style) -> String {
    let mut groups: Vec<(Doubt<'_>, Vec<&Measurement>)> = Vec::new();
    for cell in cells {
        let doubt = doubt(cell);
        match groups.iter_mut().find(|(known, _)| *known == doubt) {
            Some((_, members)) => members.push(cell[0]),
            None => groups.push((doubt, vec![cell[0]])),
        }
    }
    let mut out = String::new();
    for ((status, reasons), members) in groups {
        if reasons.is_empty() {
            continue;
        }
        let reasons = reasons.join("; ");
        let text = match place_of(&members, cells, compilers) {
            place if place.is_empty() => reasons,
            place => format!("{place}: {reasons}"),
        };
        out.push_str(&paragraph(style, words::status(status), &text));
    }
    out
}

/// The worst verdict on a configuration, for of the loops that a compiler made some may be wrong and
/// others right; and its reasons, those that differ only in a figure once.
fn doubt<'a>(cell: &[&'a Measurement]) -> Doubt<'a> {
    let worst = cell.iter().map(|m| m.validity.status).max().unwrap_or(Status::Valid);
    let kind = |text: &str| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let mut reasons: Vec<&str> = Vec::new();
    for reason in cell.iter().flat_map(|m| &m.validity.reasons) {
        if reasons.iter().all(|known| kind(known) != kind(reason)) {
            reasons.push(reason);
        }
    }
    (worst, reasons)
}

/// Configurations in words: `size 32MiB or 48MiB`, without axes all of whose values are among them;
/// one by one when they are no such block.
fn place_of(
    members: &[&Measurement],
    cells: &[Vec<&Measurement>],
    compilers: &Compilers<'_>,
) -> String {
    let values = |of: &mut dyn Iterator<Item = &Measurement>, axis: usize| {
        let mut values: Vec<String> = Vec::new();
        for m in of {
            let Some(place) = coordinates(m).get(axis).copied() else { continue };
            let value = compilers.short(place);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    };
    let axes: Vec<String> =
        coordinates(members[0]).iter().map(|(axis, _)| (*axis).to_owned()).collect();
    let mut block = 1;
    let mut words = Vec::new();
    for (axis, name) in axes.iter().enumerate() {
        let here = values(&mut members.iter().copied(), axis);
        block *= here.len();
        if here.len() < values(&mut cells.iter().map(|cell| cell[0]), axis).len() {
            words.push(format!("{name} {}", here.join(" or ")));
        }
    }
    if block == members.len() {
        return words.join(", ");
    }
    let one = |m: &&Measurement| {
        let each: Vec<String> = coordinates(m)
            .iter()
            .map(|place| format!("{} {}", place.0, compilers.short(*place)))
            .collect();
        each.join(", ")
    };
    members.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Commands on the axis `compiler`, which have short names when they would make the table too wide.
struct Compilers<'a> {
    commands: Vec<&'a str>,
}

impl<'a> Compilers<'a> {
    /// A command as long as this stands in the table itself.
    const FITS: usize = 14;

    fn of(cells: &[Vec<&'a Measurement>]) -> Self {
        let mut commands: Vec<&str> = Vec::new();
        for (axis, value) in cells.iter().flat_map(|cell| coordinates(cell[0])) {
            if axis == "compiler" && value != "native" && !commands.contains(&value) {
                commands.push(value);
            }
        }
        if commands.iter().all(|command| command.len() <= Self::FITS) {
            commands.clear();
        }
        Self { commands }
    }

    /// A coordinate as the table has it.
    fn short(&self, (_, value): (&str, &str)) -> String {
        let number = self.commands.iter().position(|command| *command == value);
        number.map_or_else(|| value.to_owned(), |number| format!("c{}", number + 1))
    }

    /// Each short name with its command, and what it made of the kernel that is charted.
    fn legend(
        &self,
        cells: &[Vec<&Measurement>],
        charted: usize,
    ) -> Vec<(String, &'a str, String)> {
        let of = |(i, command): (usize, &&'a str)| {
            let cell = cells.iter().find(|cell| {
                coordinates(cell[0]).iter().any(|(axis, v)| *axis == "compiler" && v == command)
            });
            let made = cell
                .and_then(|cell| cell.get(charted))
                .and_then(|m| crate::compiled::in_words(m).map(|code| (m, code)))
                .map_or_else(String::new, |(m, code)| format!(" ({}: {code})", m.name));
            (format!("c{}", i + 1), *command, made)
        };
        self.commands.iter().enumerate().map(of).collect()
    }
}

/// The measurements of each configuration together.
fn cells(record: &Record) -> Vec<Vec<&Measurement>> {
    let mut cells: Vec<Vec<&Measurement>> = Vec::new();
    for m in crate::stream::variants(record) {
        match cells.last_mut() {
            Some(cell) if cell[0].config.get("sweep") == m.config.get("sweep") => cell.push(m),
            _ => cells.push(vec![m]),
        }
    }
    cells
}

/// Whether a record is of a sweep.
pub(crate) fn is_sweep(record: &Record) -> bool {
    crate::stream::variants(record).iter().any(|m| m.config.contains_key("sweep"))
}

fn coordinates(m: &Measurement) -> Vec<(&str, &str)> {
    m.config
        .get("sweep")
        .and_then(Value::as_object)
        .map(|map| {
            map.iter().filter_map(|(axis, value)| Some((axis.as_str(), value.as_str()?))).collect()
        })
        .unwrap_or_default()
}

fn median(m: &Measurement) -> String {
    match (&m.summary, m.value) {
        (Some(summary), Some(_)) => words::gb(summary.median),
        _ => words::status(m.validity.status).to_owned(),
    }
}
