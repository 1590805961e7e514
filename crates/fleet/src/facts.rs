//! Facts of a node: the description in its record, flattened to paths and values.
//!
//! Values that differ between good nodes or from minute to minute are left out: names and serial numbers, free memory,
//! clocks, states and load.

use crate::inventory::rounded;
use nodegauge_measure::record::Machine;
use serde_json::Value;
use std::collections::BTreeMap;

/// Facts of a node: paths in the description of the machine, with values.
pub type Facts = BTreeMap<String, String>;

/// Fields that are no properties of a node.
const LEFT_OUT: [&str; 15] = [
    "host",
    "uuid",
    "serial",
    "source",
    "free",
    "available",
    "swap_used",
    "measured_hz",
    "state",
    "cgroup_limit",
    "process_limit",
    "inherited",
    "environment",
    "corrected_errors",
    "ledger",
];
/// Names of fields with a size that the kernel reduces by what it reserves.
const ROUNDED: [&str; 2] = ["memory.bytes", "numa_nodes"];
/// Returns the facts of a machine.
pub fn of(machine: &Machine) -> Facts {
    let mut found = Facts::new();
    if let Ok(value) = serde_json::to_value(machine) {
        flatten("", &value, &mut found);
    }
    found
}

fn flatten(path: &str, value: &Value, found: &mut Facts) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, field) in fields {
                if !LEFT_OUT.contains(&name.as_str()) {
                    let separator = if path.is_empty() { "" } else { "." };
                    flatten(&format!("{path}{separator}{name}"), field, found);
                }
            }
        }
        // Lists of numbers and words, such as CPUs and instruction sets, are one fact.
        Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
            let words: Vec<String> = items.iter().map(in_words).collect();
            found.insert(path.to_owned(), words.join(" "));
        }
        Value::Array(items) => {
            found.insert(format!("{path}, number"), items.len().to_string());
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), item, found);
            }
        }
        Value::Number(number) if ROUNDED.iter().any(|name| path.starts_with(name)) => {
            let is_size = path.ends_with("bytes");
            let size = number.as_u64().filter(|_| is_size);
            let text = size.map_or_else(|| number.to_string(), |bytes| rounded(bytes).to_string());
            found.insert(path.to_owned(), text);
        }
        other => {
            found.insert(path.to_owned(), in_words(other));
        }
    }
}

fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
