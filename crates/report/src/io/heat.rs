//! Heat maps: file sizes downwards, block sizes to the right, a digit from 0 to 9 for each cell on a
//! logarithmic scale, on a ground from blue to red where there is colour.

use super::{cells, size, sizes};
use crate::table::{Style, paragraph};
use crate::words::gb;
use nodegauge_measure::record::Measurement;
use std::collections::BTreeMap;

/// Operations that are shown if they were measured; else the first ones.
const FIRST: [&str; 4] = ["write", "read", "random_read", "random_write"];
/// Steps of the scale.
const STEPS: usize = 10;
/// Grounds of the steps, as numbers of the 256 colours of terminals.
const GROUNDS: [u8; STEPS] = [17, 19, 25, 31, 30, 28, 64, 136, 166, 124];
/// Columns of the label of a row.
const LABEL: usize = 9;

/// Maps of up to four operations, as many beside each other as there is room.
pub(super) fn maps(measurements: &[&Measurement], style: Style) -> String {
    let mut chosen: Vec<&str> =
        FIRST.into_iter().filter(|name| measurements.iter().any(|m| m.name == *name)).collect();
    for m in measurements {
        if chosen.len() < FIRST.len() && !chosen.contains(&m.name.as_str()) {
            chosen.push(&m.name);
        }
    }
    let all = cells(measurements);
    let mut files: Vec<u64> = all.iter().map(|(file, _)| *file).collect();
    files.dedup();
    let mut blocks: Vec<u64> = all.iter().map(|(_, block)| *block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    if files.len() < 2 || blocks.len() < 2 {
        return String::new();
    }
    let maps: Vec<Map> = chosen.iter().map(|name| Map::of(name, measurements)).collect();
    let width = (blocks.len() * 2).max(chosen.iter().map(|name| name.len()).max().unwrap_or(0)) + 2;
    let abreast = ((usize::from(style.width) - LABEL) / width).max(1);
    let mut out = String::new();
    for band in maps.chunks(abreast) {
        out.push('\n');
        let line = |of: &dyn Fn(&Map) -> (String, usize)| {
            let mut line = String::new();
            for map in band {
                let (text, columns) = of(map);
                line.push_str(&text);
                line.push_str(&" ".repeat(width.saturating_sub(columns)));
            }
            line.trim_end().to_owned()
        };
        let names = line(&|map| (style.strong(&map.name), map.name.len()));
        out.push_str(&format!("{:LABEL$}{names}\n", ""));
        for file in &files {
            let cells = line(&|map| (map.row(*file, &blocks, style), blocks.len() * 2));
            out.push_str(&format!("{:>width$} {cells}\n", size(*file), width = LABEL - 1));
        }
    }
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return out };
    let mut legend = format!(
        "files downwards, blocks from {} to {} rightwards, GB/s:",
        size(*first),
        size(*last)
    );
    for map in &maps {
        legend.push_str(&format!(" {} 0 = {}, 9 = {};", map.name, gb(map.least), gb(map.most)));
    }
    out.push_str(&paragraph(style, "map", legend.trim_end_matches(';')));
    out
}

/// The rates of one operation.
struct Map {
    name: String,
    rates: BTreeMap<(u64, u64), f64>,
    least: f64,
    most: f64,
}

impl Map {
    fn of(name: &str, measurements: &[&Measurement]) -> Self {
        let rates: BTreeMap<(u64, u64), f64> = measurements
            .iter()
            .filter(|m| m.name == name)
            .filter_map(|m| Some((sizes(m)?, m.value.filter(|rate| *rate > 0.0)?)))
            .collect();
        let least = rates.values().copied().fold(f64::INFINITY, f64::min);
        let most = rates.values().copied().fold(0.0, f64::max);
        Self { name: name.to_owned(), rates, least, most }
    }

    fn row(&self, file: u64, blocks: &[u64], style: Style) -> String {
        let cell = |block: &u64| match self.rates.get(&(file, *block)) {
            None => "  ".to_owned(),
            Some(rate) => {
                let step = self.step(*rate);
                match style.colour {
                    true => format!("\x1b[48;5;{};97m {step}\x1b[0m", GROUNDS[step]),
                    false => format!(" {step}"),
                }
            }
        };
        blocks.iter().map(cell).collect()
    }

    fn step(&self, rate: f64) -> usize {
        let span = (self.most / self.least).ln();
        if span <= 0.0 {
            return STEPS - 1;
        }
        (((rate / self.least).ln() / span * STEPS as f64) as usize).min(STEPS - 1)
    }
}
