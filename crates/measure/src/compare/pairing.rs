//! Which measurement of one record is the same as which of another: by gauge, test, name, unit, and,
//! where a record has several of these, by the configuration in which they differ: what was measured
//! first, then how it was asked to be. Observations pair nothing.

use crate::keys::{Registry, Role};
use crate::record::{Measurement, Record};
use crate::{Bytes, Unit};
use serde_json::{Map, Value};

/// The same measurement in the runs of both sides; neither is empty.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub at: Map<String, Value>,
    pub a: Vec<&'a Measurement>,
    pub b: Vec<&'a Measurement>,
}

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

/// Gauge, test, name, unit.
pub(crate) type Group = (String, String, String, Unit);

/// Pairs the measurements of two sides; and the titles of those that one side alone has.
pub(crate) fn pair<'a>(
    a: &'a [Record],
    b: &'a [Record],
    registry: &Registry,
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
        let keys = telling(group, a.iter().chain(b), registry);
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
                (false, true) => only_a.push(title(group, &at, registry)),
                _ => only_b.push(title(group, &at, registry)),
            }
        }
    }
    (points, (only_a, only_b))
}

/// What a run measured itself.
fn own(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.measurements.iter().filter(|m| !m.is_published())
}

pub(crate) fn group_of(m: &Measurement) -> Group {
    (m.gauge.clone(), m.test.clone(), m.name.clone(), m.unit)
}

/// The keys that tell the measurements of a group apart: identities that vary within a record, and as
/// few settings as are needed besides. A key that the registry does not know counts as a setting.
fn telling<'a>(
    group: &Group,
    records: impl Iterator<Item = &'a Record>,
    registry: &Registry,
) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let groups: Vec<Vec<&Measurement>> = records
        .map(|record| own(record).filter(|m| group_of(m) == *group).collect::<Vec<_>>())
        .filter(|all| all.len() > 1)
        .collect();
    for all in &groups {
        let varies = |key: &str| {
            let mut values = all.iter().map(|m| m.config.get(key).and_then(scalar));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let apart = |keys: &[String]| {
            let mut seen: Vec<Vec<Option<String>>> = Vec::new();
            all.iter().all(|m| {
                let place = keys.iter().map(|key| m.config.get(key).and_then(scalar)).collect();
                let new = !seen.contains(&place);
                seen.push(place);
                new
            })
        };
        for (key, role) in ranked(all, group, registry) {
            let needed = role == Role::Identity || !apart(&keys);
            if needed && !keys.contains(&key) && varies(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// The keys of some measurements with their roles: identities, then settings, each in the order of
/// the registry, then unknown keys. No observations.
fn ranked(all: &[&Measurement], group: &Group, registry: &Registry) -> Vec<(String, Role)> {
    let mut ranked: Vec<(usize, usize, String, Role)> = Vec::new();
    for key in all.iter().flat_map(|m| m.config.keys()) {
        if ranked.iter().any(|(_, _, known, _)| known == key) {
            continue;
        }
        let (role, place) = match registry.key(&group.0, &group.1, key) {
            Some(known) => (known.role, registry.place(&group.0, &group.1, key)),
            None => (Role::Setting, usize::MAX),
        };
        match role {
            Role::Identity => ranked.push((0, place, key.clone(), role)),
            Role::Setting => ranked.push((1, place, key.clone(), role)),
            Role::Observation => {}
        }
    }
    ranked.sort();
    ranked.into_iter().map(|(_, _, key, role)| (key, role)).collect()
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
pub(crate) fn title(group: &Group, at: &Map<String, Value>, registry: &Registry) -> String {
    format!("{}{}", group.2, place(group, at, registry))
}

/// What tells a measurement from others of its name, behind the name: ` 8 B`, `, threads 4`.
pub(crate) fn place(group: &Group, at: &Map<String, Value>, registry: &Registry) -> String {
    let mut place = String::new();
    for (key, value) in at {
        let text = match value.as_u64().filter(|_| key.ends_with("_bytes")) {
            Some(bytes) => Bytes(bytes).to_string(),
            None => scalar(value).unwrap_or_default(),
        };
        match registry.key(&group.0, &group.1, key) {
            Some(known) if known.speaks => place.push_str(&format!(" {text}")),
            _ => place.push_str(&format!(", {} {text}", key.replace('_', " "))),
        }
    }
    place
}
