//! The tables of `mpi` in the columns of the OSU micro-benchmarks, for scripts that parse those. The
//! title says that the figures are nodegauge's.

use nodegauge_measure::record::{Category, Measurement, Record};
use serde_json::Value;

/// Titles of the tests, and the header of the value.
const TESTS: [(&str, &str, &str); 11] = [
    ("latency", "Latency", "Latency (us)"),
    ("bw", "Bandwidth", "Bandwidth (MB/s)"),
    ("bibw", "Bi-Directional Bandwidth", "Bandwidth (MB/s)"),
    ("multi_lat", "Multi Latency", "Latency (us)"),
    ("mbw_mr", "Multiple Bandwidth / Message Rate", "MB/s"),
    ("latency_mt", "Multi-threaded Latency", "Latency (us)"),
    ("barrier", "Barrier Latency", "Avg Latency(us)"),
    ("bcast", "Broadcast Latency", "Avg Latency(us)"),
    ("allreduce", "Allreduce Latency", "Avg Latency(us)"),
    ("allgather", "Allgather Latency", "Avg Latency(us)"),
    ("alltoall", "All-to-All Personalized Exchange Latency", "Avg Latency(us)"),
];

/// The tables, one after another: sizes 10 wide, values in a field of 20 with two digits.
pub fn render(record: &Record) -> String {
    let mut out = String::new();
    let mut last: Option<(&str, Vec<String>)> = None;
    for m in &record.measurements {
        let ours = m.gauge == "messages"
            && m.category == Category::Variant
            && m.unit != nodegauge_measure::Unit::MessagesPerSecond;
        let Some((_, title, header)) = TESTS.iter().find(|(name, ..)| *name == m.name) else {
            continue;
        };
        let (Some(value), true) = (m.value, ours) else { continue };
        let text = |key: &str| m.config.get(key).map(Value::to_string).unwrap_or_default();
        let key = (m.name.as_str(), ["mpi", "distance", "ranks"].map(text).to_vec());
        if last.as_ref() != Some(&key) {
            if last.is_some() {
                out.push('\n');
            }
            out.push_str(&heading(m, title, header));
            last = Some(key);
        }
        let bytes = m.config.get("message_bytes").and_then(Value::as_u64).unwrap_or(0);
        let value =
            if m.unit == nodegauge_measure::Unit::Seconds { value * 1e6 } else { value / 1e6 };
        if m.name == "barrier" {
            out.push_str(&format!("{value:>17.2}\n"));
        } else {
            out.push_str(&format!("{bytes:<10}{value:>18.2}"));
            if m.name == "mbw_mr" {
                // A byte rate counts the same messages.
                out.push_str(&format!("{:>20.2}", value * 1e6 / bytes as f64));
            }
            out.push('\n');
        }
    }
    out
}

fn heading(m: &Measurement, title: &str, header: &str) -> String {
    let text = |key: &str| m.config.get(key).and_then(Value::as_str).unwrap_or("all ranks");
    let mut out =
        format!("# nodegauge: OSU MPI {title} Test, by its own probe ({})\n", text("distance"));
    if m.name == "mbw_mr" {
        let number = |key: &str| m.config.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (pairs, window) = (number("pairs"), number("window"));
        out.push_str(&format!("# [ pairs: {pairs} ] [ window size: {window} ]\n"));
        out.push_str(&format!("{:<10}{:>18}{:>20}\n", "# Size", "MB/s", "Messages/s"));
    } else if m.name == "barrier" {
        out.push_str(&format!("# {header}\n"));
    } else {
        out.push_str(&format!("{:<10}{header:>18}\n", "# Size"));
    }
    out
}
