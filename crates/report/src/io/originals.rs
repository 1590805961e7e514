//! Figures in the form of the originals, for programs that read those.

use super::{cells, sizes};
use crate::words::{number, text};
use nodegauge_measure::record::{Category, Measurement, Record};

/// IOzone's columns: a name, and the words above it and in its row of the header.
const COLUMNS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random_read",
    "random_write",
    "bkwd_read",
    "record_rewrite",
    "stride_read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];
/// Columns behind them, where one of these was measured.
const MORE: [&str; 8] =
    ["pwrite", "repwrite", "pread", "repread", "pwritev", "repwritev", "preadv", "repreadv"];
/// The two rows above the figures.
const HEADER: [&str; 2] = [
    "                                                              random    random     bkwd    record    stride                                    ",
    "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread",
];
/// What throughput mode calls the workers of an operation.
const WORKERS: [(&str, &str); 15] = [
    ("write", "initial writers"),
    ("rewrite", "rewriters"),
    ("read", "readers"),
    ("reread", "re-readers"),
    ("bkwd_read", "reverse readers"),
    ("stride_read", "stride readers"),
    ("random_read", "random readers"),
    ("random_mix", "mixed workload"),
    ("random_write", "random writers"),
    ("pwrite", "pwrite writers"),
    ("pread", "pread readers"),
    ("fwrite", "fwriters"),
    ("fread", "freaders"),
    ("frewrite", "re-fwriters"),
    ("freread", "re-freaders"),
];
const KIB: f64 = 1024.0;

/// The own measurements of a record, of its first folder and cache mode: what one table can hold.
fn of_one_table(record: &Record) -> Vec<&Measurement> {
    let own: Vec<&Measurement> = record
        .measurements
        .iter()
        .filter(|m| m.gauge == "files" && m.category == Category::Variant)
        .collect();
    let Some(first) = own.first() else { return own };
    let kind = (super::volume(first), text(first, "cache").map(str::to_owned));
    own.into_iter()
        .filter(|m| (super::volume(m), text(m, "cache").map(str::to_owned)) == kind)
        .collect()
}

/// IOzone's table, or its lines of throughput mode, under a line that says whose figures these are.
pub fn iozone(record: &Record) -> String {
    let own = of_one_table(record);
    let mut out = format!(
        "\tnodegauge {}: operations in the sense of IOzone, in IOzone's columns; not IOzone\n\tOutput is in kBytes/sec\n",
        record.tool.version
    );
    if own.iter().any(|m| number(m, "parent_rate").is_some()) {
        own.iter().for_each(|m| out.push_str(&throughput(m)));
        return out;
    }
    let more = own.iter().any(|m| MORE.contains(&m.name.as_str()));
    let columns: Vec<&str> =
        if more { [&COLUMNS[..], &MORE[..]].concat() } else { COLUMNS.to_vec() };
    out.push_str(&format!("{}\n{}", HEADER[0], HEADER[1]));
    if more {
        MORE.iter().for_each(|name| out.push_str(&format!(" {name:>8}")));
    }
    out.push('\n');
    let measured: Vec<&str> =
        columns.iter().copied().filter(|name| own.iter().any(|m| m.name == *name)).collect();
    for cell in cells(&own) {
        out.push_str(&format!("{:>16}{:>8}", cell.0 / 1024, cell.1 / 1024));
        for column in &columns {
            let value = own
                .iter()
                .find(|m| m.name == *column && sizes(m) == Some(cell))
                .and_then(|m| m.value)
                .map(|value| value / KIB);
            // Two columns are wider in the original.
            let wide = ["record_rewrite", "stride_read"].contains(column);
            let width = if wide { 9 } else { 8 };
            match value {
                Some(value) => out.push_str(&format!(" {value:>width$.0}")),
                // As IOzone: 0 for a cell that was not measured, blank for a test that was not.
                None if measured.contains(column) => out.push_str(&format!(" {:>width$}", 0)),
                None => out.push_str(&" ".repeat(width + 1)),
            }
        }
        out.push('\n');
    }
    out
}

fn throughput(m: &Measurement) -> String {
    let workers = number(m, "threads").or_else(|| number(m, "processes")).unwrap_or(1.0);
    let who = WORKERS.iter().find(|(name, _)| *name == m.name).map_or(m.name.as_str(), |(_, w)| w);
    let kib = |value: Option<f64>| value.unwrap_or(0.0) / KIB;
    format!(
        "\n\tChildren see throughput for {workers:>2} {who} \t= {:>11.2} kB/sec\n\
         \tParent sees throughput for {workers:>2} {who} \t= {:>11.2} kB/sec\n\
         \tMin throughput per process \t\t\t= {:>11.2} kB/sec \n\
         \tMax throughput per process \t\t\t= {:>11.2} kB/sec\n\
         \tAvg throughput per process \t\t\t= {:>11.2} kB/sec\n\
         \tMin xfer \t\t\t\t\t= {:>11.2} kB\n",
        kib(m.value),
        kib(number(m, "parent_rate")),
        kib(number(m, "worker_rate_min")),
        kib(number(m, "worker_rate_max")),
        kib(number(m, "worker_rate_mean")),
        kib(number(m, "worker_bytes_min")),
    )
}

/// Data for `splot` of gnuplot: an index for each operation, a block for each file size, a line for
/// each block size; sizes in KiB, rates in B/s, and the device's share.
pub fn surface(record: &Record) -> String {
    let own = of_one_table(record);
    let mut names: Vec<&str> = Vec::new();
    for m in &own {
        if !names.contains(&m.name.as_str()) {
            names.push(&m.name);
        }
    }
    let mut out = format!(
        "# nodegauge {}: file size and block size in KiB, rate in B/s, device share (? if unknown)\n\
         # gnuplot: set logscale xy 2; splot 'FILE' index 'read' using 1:2:3 with lines\n",
        record.tool.version
    );
    for (i, name) in names.iter().enumerate() {
        if i > 0 {
            out.push_str("\n\n");
        }
        out.push_str(&format!("# {name}\n"));
        let mut last = None;
        let of: Vec<&Measurement> = own.iter().copied().filter(|m| m.name == *name).collect();
        for cell in cells(&of) {
            let Some(m) = of.iter().find(|m| sizes(m) == Some(cell)) else { continue };
            let Some(value) = m.value else { continue };
            if last.is_some_and(|file| file != cell.0) {
                out.push('\n');
            }
            last = Some(cell.0);
            let share =
                number(m, "device_share").map_or("?".to_owned(), |share| format!("{share:.4}"));
            out.push_str(&format!(
                "{} {} {value:.0} {share}\n",
                cell.0 as f64 / KIB,
                cell.1 as f64 / KIB
            ));
        }
    }
    out
}
