//! Export of figures in the formats of IOzone and gnuplot, for programs that read these formats.

use crate::reference::{MAX_COLUMNS, MIN_COLUMNS, TESTS, is_wide};
use crate::view::{FilesRow, cells, find_row, rows, select_rows};
use nodegauge_gauge::view::distinct;
use nodegauge_measure::record::{Category, Record};

/// The two header lines above the figures of IOzone's table.
const HEADER: [&str; 2] = [
    "                                                              random    random     bkwd    record    stride                                    ",
    "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   fwrite frewrite    fread  freread",
];
const KIB: f64 = 1024.0;

/// Returns the gauge's own measurements of the first folder in the first cache mode, because IOzone's table cannot show
/// several folders or cache modes.
fn single_table_rows<'r, 'a>(rows: &'r [FilesRow<'a>]) -> Vec<&'r FilesRow<'a>> {
    let own: Vec<&FilesRow<'_>> =
        rows.iter().filter(|row| row.m.category == Category::Variant).collect();
    let Some(first) = own.first().copied() else { return own };
    select_rows(&own, |row| {
        row.folder() == first.folder() && row.config.cache == first.config.cache
    })
}

/// Converts a number of bytes to KiB; 0 if it is unknown.
fn kib(bytes: Option<f64>) -> f64 {
    bytes.unwrap_or(0.0) / KIB
}

/// Formats the figures as IOzone's table, or as IOzone's lines of throughput mode, after a line that names nodegauge as
/// the origin.
pub fn iozone_table(record: &Record) -> String {
    let rows = rows(record);
    let own = single_table_rows(&rows);
    let mut out = format!(
        "\tnodegauge {}: operations in the sense of IOzone, in IOzone's columns; not \
         IOzone\n\tOutput is in kBytes/sec\n",
        record.tool.version
    );
    if own.iter().any(|row| row.config.parent_rate.is_some()) {
        own.iter().for_each(|row| out.push_str(&throughput(row)));
        return out;
    }
    let measured = distinct(own.iter().map(|row| row.m.name.as_str()));
    let more = TESTS[MIN_COLUMNS..MAX_COLUMNS].iter().any(|(name, ..)| measured.contains(name));
    let columns = &TESTS[..if more { MAX_COLUMNS } else { MIN_COLUMNS }];
    out.push_str(&HEADER.join("\n"));
    columns[MIN_COLUMNS..].iter().for_each(|(name, ..)| out.push_str(&format!(" {name:>8}")));
    out.push('\n');
    for cell in cells(&own) {
        out.push_str(&format!("{:>16}{:>8}", cell.0 / 1024, cell.1 / 1024));
        for (column, ..) in columns {
            let value = find_row(&own, column, cell).and_then(|row| row.m.value);
            let width = if is_wide(column) { 9 } else { 8 };
            match value {
                Some(value) => out.push_str(&format!(" {:>width$.0}", value / KIB)),
                // As in IOzone, a cell that was not measured is 0, and a cell of a test that did not run is blank.
                None if measured.contains(column) => out.push_str(&format!(" {:>width$}", 0)),
                None => out.push_str(&" ".repeat(width + 1)),
            }
        }
        out.push('\n');
    }
    out
}

fn throughput(FilesRow { m, config }: &FilesRow<'_>) -> String {
    let workers = config.threads.or(config.processes).unwrap_or(1);
    let who = TESTS.iter().find(|(name, ..)| *name == m.name).and_then(|(.., who)| *who);
    let who = who.unwrap_or(&m.name);
    format!(
        "\n\tChildren see throughput for {workers:>2} {who} \t= {:>11.2} kB/sec\n\
         \tParent sees throughput for {workers:>2} {who} \t= {:>11.2} kB/sec\n\
         \tMin throughput per process \t\t\t= {:>11.2} kB/sec \n\
         \tMax throughput per process \t\t\t= {:>11.2} kB/sec\n\
         \tAvg throughput per process \t\t\t= {:>11.2} kB/sec\n\
         \tMin xfer \t\t\t\t\t= {:>11.2} kB\n",
        kib(m.value),
        kib(config.parent_rate),
        kib(config.worker_rate_min),
        kib(config.worker_rate_max),
        kib(config.worker_rate_mean),
        kib(config.worker_bytes_min.map(|bytes| bytes as f64)),
    )
}

/// Formats data for gnuplot's `splot`: an index per operation, a block per file size, and a line per block size. A line
/// contains the sizes in KiB, the rate in B/s, and the device share.
pub fn gnuplot_surface(record: &Record) -> String {
    let rows = rows(record);
    let own = single_table_rows(&rows);
    let mut out = format!(
        "# nodegauge {}: file size and block size in KiB, rate in B/s, device share (? if unknown)\n\
         # gnuplot: set logscale xy 2; splot 'FILE' index 'read' using 1:2:3 with lines\n",
        record.tool.version
    );
    for (i, name) in distinct(own.iter().map(|row| row.m.name.as_str())).into_iter().enumerate() {
        if i > 0 {
            out.push_str("\n\n");
        }
        out.push_str(&format!("# {name}\n"));
        let mut last = None;
        for (file, block) in cells(&own) {
            let here = find_row(&own, name, (file, block));
            let Some((row, value)) = here.and_then(|row| Some((row, row.m.value?))) else {
                continue;
            };
            if last.is_some_and(|last| last != file) {
                out.push('\n');
            }
            last = Some(file);
            let share = row.config.device_share.flatten();
            let share = share.map_or("?".to_owned(), |share| format!("{share:.4}"));
            let file = file as f64 / KIB;
            let block = block as f64 / KIB;
            out.push_str(&format!("{file} {block} {value:.0} {share}\n"));
        }
    }
    out
}
