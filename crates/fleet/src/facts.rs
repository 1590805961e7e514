//! Facts of a node by name: those in the table of facts that are compared between nodes, the fields of its parts, and
//! its software.
//!
//! Facts that differ between good nodes or change within minutes are left out: names and serial numbers, free memory,
//! states and load.

use nodegauge_analysis::facts::{FACTS, PART_LISTS, PartList, rounded_memory};
use nodegauge_measure::record::{Machine, Software};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Value of a part that the node has.
const PRESENT: &str = "present";
/// Value for an entry that the node does not have, although the record lists all entries of its kind.
const ABSENT: &str = "absent";

/// Facts of a node: values by name, or by path for the fields of parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    values: BTreeMap<String, String>,
    /// Path prefixes for which the record lists all entries, so that an entry missing in the record does not exist on
    /// the node.
    complete: BTreeSet<&'static str>,
    /// Lists of parts that the record contains. The fields of a missing part are not facts, but the absence of the part
    /// is.
    parts: BTreeSet<&'static str>,
}

/// Fields of parts that vary between good nodes or over time.
const LEFT_OUT: [&str; 7] =
    ["uuid", "serial", "free", "available", "state", "corrected_errors", "ledger"];
/// List of NUMA nodes. Their memory sizes are rounded, because they exclude the varying part that the kernel reserves.
const ROUNDED: &str = "numa_nodes";

impl Facts {
    /// Returns the facts of a machine.
    pub fn from_machine(machine: &Machine) -> Self {
        let mut found = Self::default();
        for fact in FACTS.iter().filter(|fact| fact.distinguishes_nodes()) {
            let text = fact.node_text(machine);
            found.values.extend(text.map(|text| (fact.name.to_owned(), text)));
        }
        if let Ok(value) = serde_json::to_value(machine) {
            for list in &PART_LISTS {
                found.add_parts(list, &value);
            }
        }
        if let Some(known) = &machine.circumstances {
            for (name, state) in &known.mitigations {
                found.values.insert(format!("mitigation {name}"), state.clone());
            }
        }
        if let Some(software) = &machine.software {
            found.add_software(software);
        }
        found
    }

    /// Adds the parts of a list of the machine.
    fn add_parts(&mut self, list: &PartList, machine: &Value) {
        let mut value = machine;
        for name in list.path.split('.') {
            value = &value[name];
        }
        if let Some(items) = value.as_array().filter(|items| !items.is_empty()) {
            flatten_list(list.path, items, self);
        }
    }

    fn add_software(&mut self, software: &Software) {
        let distribution = software.distribution.clone();
        self.values.extend(distribution.map(|name| ("distribution".to_owned(), name)));
        self.add_all("sysctl ", &software.sysctl);
        self.add_all("module ", &software.modules);
        self.add_all("library ", &software.libraries);
        let mounts: BTreeMap<String, String> = software
            .mounts
            .iter()
            .map(|(at, mount)| (at.clone(), with_rounded_size(&mount.to_string())))
            .collect();
        self.add_all("mount ", &mounts);
    }

    /// Adds all entries of a kind, one fact per entry.
    fn add_all<T: Display>(&mut self, prefix: &'static str, entries: &BTreeMap<String, T>) {
        self.complete.insert(prefix);
        for (name, value) in entries {
            self.values.insert(format!("{prefix}{name}"), value.to_string());
        }
    }

    /// Returns the paths of all facts.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns the value of a fact; `absent` if the node does not have the entry, `None` if it is unknown.
    pub fn value(&self, path: &str) -> Option<&str> {
        if let Some(value) = self.values.get(path) {
            return Some(value);
        }
        let is_absent = self.complete.iter().any(|prefix| path.starts_with(prefix))
            || self.parts.iter().any(|list| is_list_part(list, path));
        is_absent.then_some(ABSENT)
    }
}

/// True for the path of a part in this list; false for a field of a part.
fn is_list_part(list: &str, path: &str) -> bool {
    let rest = path.strip_prefix(list).and_then(|rest| rest.strip_prefix('['));
    rest.is_some_and(|rest| rest.ends_with(']'))
}

/// Rounds the size in the mount options of a file system in memory. By default, it is a share of the usable memory,
/// which varies slightly.
fn with_rounded_size(mount: &str) -> String {
    mount.split(',').map(option_with_rounded_size).collect::<Vec<_>>().join(",")
}

/// Rounds the size in an option `size=...k`; returns any other option unchanged.
fn option_with_rounded_size(option: &str) -> String {
    let kib = option.strip_prefix("size=").and_then(|size| size.strip_suffix('k'));
    match kib.and_then(|digits| digits.parse::<u64>().ok()) {
        Some(kib) => format!("size={}k", rounded_memory(kib << 10) >> 10),
        None => option.to_owned(),
    }
}

/// Returns the names of the parts in a list; `None` if a part has no name, or if two parts have the same name.
fn part_names(items: &[Value], fields: &[&str]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut distinct = BTreeSet::new();
    for item in items {
        let name = part_name(item, fields).filter(|name| !name.is_empty())?;
        distinct.insert(name.clone());
        names.push(name);
    }
    (distinct.len() == names.len()).then_some(names)
}

/// Joins the fields that identify a part into its name; `None` if a field is missing.
fn part_name(item: &Value, fields: &[&str]) -> Option<String> {
    let words: Option<Vec<String>> =
        fields.iter().map(|field| item.get(field).map(in_words)).collect();
    Some(words?.join(" "))
}

/// Adds the fields of the objects in a list. The parts of a node are named by their identifying fields; other objects
/// are numbered.
fn flatten_list(path: &str, items: &[Value], found: &mut Facts) {
    let list = PART_LISTS.iter().find(|list| list.path == path);
    let names = list.and_then(|list| part_names(items, list.identified_by));
    let Some((list, names)) = list.zip(names) else {
        found.values.insert(format!("{path}, number"), items.len().to_string());
        for (index, item) in items.iter().enumerate() {
            flatten(&format!("{path}[{index}]"), item, found);
        }
        return;
    };
    found.parts.insert(list.path);
    for (name, item) in names.iter().zip(items) {
        let part = format!("{path}[{name}]");
        for (field, value) in item.as_object().into_iter().flatten() {
            let is_name = list.identified_by.contains(&field.as_str());
            if !is_name && !LEFT_OUT.contains(&field.as_str()) {
                flatten(&format!("{part}.{field}"), value, found);
            }
        }
        found.values.insert(part, PRESENT.to_owned());
    }
}

fn flatten(path: &str, value: &Value, found: &mut Facts) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, field) in fields {
                if !LEFT_OUT.contains(&name.as_str()) {
                    flatten(&format!("{path}.{name}"), field, found);
                }
            }
        }
        // Lists of numbers and words, such as CPUs and instruction sets, are one fact.
        Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
            let words: Vec<String> = items.iter().map(in_words).collect();
            found.values.insert(path.to_owned(), words.join(" "));
        }
        Value::Array(items) => flatten_list(path, items, found),
        Value::Number(number) if path.starts_with(ROUNDED) => {
            let is_size = path.ends_with("bytes");
            let size = number.as_u64().filter(|_| is_size);
            let text =
                size.map_or_else(|| number.to_string(), |bytes| rounded_memory(bytes).to_string());
            found.values.insert(path.to_owned(), text);
        }
        other => {
            found.values.insert(path.to_owned(), in_words(other));
        }
    }
}

fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
