//! Which measurement of one record is the same as which of another: by gauge, test, name, and, where
//! a record has several of that name, by the configuration in which they differ.

use crate::Bytes;
use crate::record::{Measurement, Record};
use serde_json::{Map, Value};

/// The same measurement in the runs of both sides; neither is empty.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub at: Map<String, Value>,
    pub a: Vec<&'a Measurement>,
    pub b: Vec<&'a Measurement>,
}

/// What tells measurements of one name apart in one record, the telling ones first. Where these do
/// not, any other word or whole number of the configuration does; fractions are observations.
const TELLING: [&str; 18] = [
    "message_bytes",
    "file_bytes",
    "block_bytes",
    "kernel",
    "distance",
    "device_share",
    "ranks",
    "threads",
    "policy",
    "rank_map",
    "engine",
    "compiler",
    "places_asked",
    "stores",
    "pages",
    "prefetch",
    "array_bytes",
    "race",
];
/// Of these, what tells measurements apart in any two records.
const ALWAYS: [&str; 3] = ["message_bytes", "file_bytes", "block_bytes"];
/// Of these the reader sees the value alone: the value says what it is.
const SPEAKING: [&str; 8] = [
    "message_bytes",
    "file_bytes",
    "block_bytes",
    "array_bytes",
    "kernel",
    "distance",
    "engine",
    "compiler",
];
/// Whole numbers that a run finds out, and that tell nothing apart.
const FOUND_OUT: [&str; 10] = [
    "passes",
    "checks",
    "loops_tried",
    "unroll",
    "vector_bits",
    "isa",
    "stopped",
    "repeats",
    "steps",
    "level",
];

/// A value by which measurements can be told apart: a word, a number, what was asked, the command of
/// a compiler.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => scalar(map.get("asked").or_else(|| map.get("command"))?),
        other => Some(other.to_string()),
    }
}

/// A measurement with its place in its record.
struct Entry<'a> {
    m: &'a Measurement,
    at: Vec<(String, String)>,
}

type Group = (String, String, String);

/// Pairs the measurements of two sides; and the titles of those that one side alone has.
pub(crate) fn pair<'a>(
    a: &'a [Record],
    b: &'a [Record],
) -> (Vec<Point<'a>>, (Vec<String>, Vec<String>)) {
    let mut groups: Vec<Group> = Vec::new();
    for m in a.iter().chain(b).flat_map(own) {
        let group = group_of(m);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let mut points = Vec::new();
    let (mut only_a, mut only_b) = (Vec::new(), Vec::new());
    for group in &groups {
        let keys = telling(group, a.iter().chain(b));
        let mut places: Vec<Vec<(String, String)>> = Vec::new();
        let [of_a, of_b] = [a, b].map(|side| {
            let entries: Vec<Entry<'_>> =
                side.iter().flat_map(|record| entries(record, group, &keys)).collect();
            for entry in &entries {
                if !places.contains(&entry.at) {
                    places.push(entry.at.clone());
                }
            }
            entries
        });
        for at in places {
            let here = |entries: &[Entry<'a>]| -> Vec<&'a Measurement> {
                entries.iter().filter(|entry| entry.at == at).map(|entry| entry.m).collect()
            };
            let (of_a, of_b) = (here(&of_a), here(&of_b));
            let at = shown(&at, of_a.first().or(of_b.first()));
            match (of_a.is_empty(), of_b.is_empty()) {
                (false, false) => points.push(Point { at, a: of_a, b: of_b }),
                (false, true) => only_a.push(title(&group.2, &at)),
                _ => only_b.push(title(&group.2, &at)),
            }
        }
    }
    (points, (only_a, only_b))
}

/// What a run measured itself.
fn own(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.measurements.iter().filter(|m| !m.is_published())
}

fn group_of(m: &Measurement) -> Group {
    (m.gauge.clone(), m.test.clone(), m.name.clone())
}

/// The keys that tell the measurements of a group apart within every record, as few as do.
fn telling<'a>(group: &Group, records: impl Iterator<Item = &'a Record>) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let records: Vec<&Record> = records.collect();
    let group_has = |key: &str| {
        let mut all = records.iter().flat_map(|record| own(record));
        all.any(|m| group_of(m) == *group && m.config.contains_key(key))
    };
    keys.extend(ALWAYS.iter().filter(|key| group_has(key)).map(|key| (*key).to_owned()));
    for record in records {
        let all: Vec<&Measurement> = own(record).filter(|m| group_of(m) == *group).collect();
        let apart = |keys: &[String]| {
            let mut seen: Vec<Vec<Option<String>>> = Vec::new();
            all.iter().all(|m| {
                let place = keys.iter().map(|key| m.config.get(key).and_then(scalar)).collect();
                let new = !seen.contains(&place);
                seen.push(place);
                new
            })
        };
        for key in TELLING.iter().map(|key| (*key).to_owned()).chain(further(&all)) {
            if apart(&keys) {
                break;
            }
            let values = super::distinct(
                all.iter().map(|m| Some(m.config.get(&key).and_then(scalar).unwrap_or_default())),
            );
            if !keys.contains(&key) && values.contains(" | ") {
                keys.push(key);
            }
        }
    }
    keys
}

/// Words and whole numbers of the configurations that are not in the list.
fn further(all: &[&Measurement]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, value) in all.iter().flat_map(|m| &m.config) {
        let telling = value.is_string() || value.is_u64() || value.is_boolean();
        let known = TELLING.contains(&key.as_str()) || FOUND_OUT.contains(&key.as_str());
        if telling && !known && !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// The measurements of a group in a record, each at its place; what nothing tells apart is counted.
fn entries<'a>(record: &'a Record, group: &Group, keys: &[String]) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for m in own(record).filter(|m| group_of(m) == *group) {
        let place =
            keys.iter().filter_map(|key| Some((key.clone(), m.config.get(key).and_then(scalar)?)));
        let mut at: Vec<(String, String)> = place.collect();
        let before = entries.iter().filter(|entry| entry.at.starts_with(&at)).count();
        if before > 0 {
            at.push(("number".to_owned(), (before + 1).to_string()));
        }
        entries.push(Entry { m, at });
    }
    entries
}

/// A place with the values as the record has them.
fn shown(at: &[(String, String)], m: Option<&&Measurement>) -> Map<String, Value> {
    at.iter()
        .map(|(key, text)| {
            let value = m.and_then(|m| m.config.get(key)).filter(|value| value.is_number());
            (key.clone(), value.cloned().unwrap_or_else(|| Value::String(text.clone())))
        })
        .collect()
}

/// `triad`, `latency 8 B`, `triad, threads 4`.
pub(crate) fn title(name: &str, at: &Map<String, Value>) -> String {
    let mut title = name.to_owned();
    for (key, value) in at {
        let text = match value.as_u64().filter(|_| key.ends_with("_bytes")) {
            Some(bytes) => Bytes(bytes).to_string(),
            None => scalar(value).unwrap_or_default(),
        };
        match SPEAKING.contains(&key.as_str()) {
            true => title.push_str(&format!(" {text}")),
            false => title.push_str(&format!(", {} {text}", key.replace('_', " "))),
        }
    }
    title
}
