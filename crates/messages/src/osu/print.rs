//! Output of the tables of `mpi` in the column format of the OSU micro-benchmarks, for scripts that parse this format.
//! The title states that nodegauge measured the figures.

use crate::GAUGE;
use crate::config::{MessageConfig, PairRank};
use crate::pattern::Pattern;
use crate::transport::Fabric;
use nodegauge_measure::Unit;
use nodegauge_measure::record::{Category, Measurement, Record};
use nodegauge_placement::Distance;

/// Properties of a figure that identify its table.
type TableKey = (Pattern, Option<String>, Option<Distance>, Option<Vec<PairRank>>);

/// Formats all tables. Numbers are in columns of the same width as in OSU's tables: 10 characters for a size, 18 for a
/// value, and 20 for a message rate. Values have two decimals.
pub fn format_tables(record: &Record) -> String {
    let mut out = String::new();
    let mut last: Option<TableKey> = None;
    // In a record with an MPI, the built-in transport is only the lower bound and has no table.
    let with_mpi = record.measurements.iter().any(|m| has_row(m, Category::Variant));
    let ours = if with_mpi { Category::Variant } else { Category::Transport };
    for m in record.measurements.iter().filter(|m| has_row(m, ours)) {
        let Ok(pattern) = m.name.parse::<Pattern>() else { continue };
        let Some(value) = m.value else { continue };
        let config: MessageConfig = m.read_config();
        let launcher = config.mpi.as_ref().and_then(|mpi| mpi.launcher.clone());
        let launcher = launcher.or_else(|| config.engine.clone());
        let key = (pattern, launcher, config.distance, config.ranks.clone());
        if last.as_ref() != Some(&key) {
            out.push_str(if last.is_some() { "\n" } else { "" });
            out.push_str(&heading(pattern, &config));
            last = Some(key);
        }
        let bytes = config.message_bytes.unwrap_or(0);
        let value = if m.unit == Unit::Seconds { value * 1e6 } else { value / 1e6 };
        // The message rate is the byte rate divided by the message size.
        let messages = value * 1e6 / bytes as f64;
        out.push_str(&match pattern {
            _ if pattern.is_sizeless() => format!("{value:>17.2}\n"),
            _ if pattern.properties().counts_messages => {
                format!("{bytes:<10}{value:>18.2}{messages:>20.2}\n")
            }
            _ => format!("{bytes:<10}{value:>18.2}\n"),
        });
    }
    out
}

/// True if the figure belongs to this category and has its own row.
fn has_row(m: &Measurement, category: Category) -> bool {
    m.gauge == GAUGE && m.category == category && m.unit != Unit::MessagesPerSecond
}

fn heading(pattern: Pattern, config: &MessageConfig) -> String {
    let distance = config.distance.map_or("all ranks", Distance::name);
    let title = pattern.properties().title;
    let name = match &config.engine {
        Some(fabric) if config.mpi.is_none() && fabric.parse::<Fabric>().is_ok() => {
            format!("# nodegauge: {title} Test without MPI, over {fabric} ({distance})\n")
        }
        _ => format!("# nodegauge: OSU MPI {title} Test, by its own probe ({distance})\n"),
    };
    let header = match (pattern.is_collective(), pattern.is_rate()) {
        (true, _) => "Avg Latency(us)",
        (_, true) => "Bandwidth (MB/s)",
        _ => "Latency (us)",
    };
    let size = "# Size";
    let rate = "MB/s";
    let messages = "Messages/s";
    let pairs = config.pairs.unwrap_or(0);
    let window = config.window.unwrap_or(0);
    match pattern {
        _ if pattern.is_sizeless() => format!("{name}# {header}\n"),
        _ if pattern.properties().counts_messages => format!(
            "{name}# [ pairs: {pairs} ] [ window size: {window} ]\n{size:<10}{rate:>18}{messages:>20}\n"
        ),
        _ => format!("{name}{size:<10}{header:>18}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::result::{self, MessageFigure};
    use crate::osu::OsuOutput;
    use nodegauge_measure::record::QuotedStatistic;

    fn record(pattern: Pattern, figures: &[(u64, f64)]) -> Record {
        let figure = |(bytes, value): &(u64, f64)| -> Measurement {
            let config = MessageConfig {
                message_bytes: Some(*bytes),
                pairs: Some(1),
                window: Some(64),
                ..MessageConfig::default()
            };
            let measurement = result::blank_measurement(pattern, pattern.unit())
                .with_value(QuotedStatistic::Mean, *value);
            MessageFigure { measurement, config }.into()
        };
        let mut record: Record = serde_json::from_str(
            &std::fs::read_to_string(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../tests/golden/mpi-pairs/record.json"
            ))
            .unwrap(),
        )
        .unwrap();
        record.measurements = figures.iter().map(figure).collect();
        record
    }

    #[test]
    fn osu_tables_round_trip() {
        for pattern in Pattern::ALL.iter().copied() {
            let sizes = pattern.valid_sizes(&[8, 1024]);
            let of_size = |bytes: &u64| (*bytes, if pattern.is_rate() { 125e6 } else { 1.25e-6 });
            let figures: Vec<(u64, f64)> = sizes.iter().map(of_size).collect();
            let printed = format_tables(&record(pattern, &figures));
            let (_, rest) = printed.split_once('\n').unwrap();
            let theirs = format!("# OSU MPI {} Test v5.7\n{rest}", pattern.properties().title);
            let output = OsuOutput::read(&theirs).unwrap();
            assert_eq!(output.pattern, pattern);
            let read: Vec<(u64, f64)> =
                output.rows.iter().map(|row| (row.bytes, row.value)).collect();
            for ((bytes, value), (asked, given)) in read.iter().zip(&figures) {
                assert!(bytes == asked && (value / given - 1.0).abs() < 1e-6, "{printed}");
            }
            assert_eq!(read.len(), figures.len());
        }
    }
}
