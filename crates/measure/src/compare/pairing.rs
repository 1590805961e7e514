//! Which measurement of one record is the same as which of another: by gauge, test, name, unit, the
//! sizes that it is quoted at, and, where a record has several of these, by the configuration in which
//! they differ: what was measured first, then how it was asked to be. Observations pair nothing.

use crate::keys::{Registry, Role};
use crate::record::{Measurement, Record};
use crate::{Bytes, Unit};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The same measurement in the runs of both sides; neither is empty.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub at: Map<String, Value>,
    /// [`Point::at`] in words, behind the name: ` 8 B`, `, threads 4`.
    pub place: String,
    pub a: Vec<&'a Measurement>,
    pub b: Vec<&'a Measurement>,
}

impl Point<'_> {
    /// `triad`, `latency 8 B`, `triad, threads 4`.
    pub fn title(&self) -> String {
        let name = self.a.first().or(self.b.first()).map_or("", |m| &m.name);
        format!("{name}{}", self.place)
    }
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

fn entry(m: &Measurement, key: &str) -> Option<String> {
    m.config.get(key).and_then(scalar)
}

/// Keys with their values: what tells a measurement from the others of its group.
type Place = Vec<(String, String)>;

/// Gauge, test, name, unit.
type Group<'a> = (&'a str, &'a str, &'a str, Unit);

fn group_of(m: &Measurement) -> Group<'_> {
    (&m.gauge, &m.test, &m.name, m.unit)
}

/// Pairs the measurements of two sides; and the titles of those that one side alone has.
pub(crate) fn pair<'a>(
    a: &'a [Record],
    b: &'a [Record],
    registry: &Registry,
) -> (Vec<Point<'a>>, (Vec<String>, Vec<String>)) {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for m in a.iter().chain(b).flat_map(own) {
        if !groups.contains(&group_of(m)) {
            groups.push(group_of(m));
        }
    }
    let mut points = Vec::new();
    let (mut only_a, mut only_b) = (Vec::new(), Vec::new());
    for group in groups {
        let of = |record: &'a Record| own(record).filter(|m| group_of(m) == group).collect();
        let [of_a, of_b] =
            [a, b].map(|side| side.iter().map(of).collect::<Vec<Vec<&Measurement>>>());
        let keys = telling(group, of_a.iter().chain(&of_b), registry);
        let [of_a, of_b] = [of_a, of_b]
            .map(|side| side.into_iter().flat_map(|all| entries(all, &keys)).collect::<Vec<_>>());
        let mut places: Vec<&Place> = Vec::new();
        for (at, _) in of_a.iter().chain(&of_b) {
            if !places.contains(&at) {
                places.push(at);
            }
        }
        for place in places {
            let here = |entries: &[(Place, &'a Measurement)]| -> Vec<&'a Measurement> {
                entries.iter().filter(|(at, _)| at == place).map(|(_, m)| *m).collect()
            };
            let (a, b) = (here(&of_a), here(&of_b));
            let at = values(place, a.first().or(b.first()));
            let point = Point { place: in_words(group, &at, registry), at, a, b };
            match (point.a.is_empty(), point.b.is_empty()) {
                (false, false) => points.push(point),
                (false, true) => only_a.push(point.title()),
                _ => only_b.push(point.title()),
            }
        }
    }
    (points, (only_a, only_b))
}

/// What a run measured itself.
fn own(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.measurements.iter().filter(|m| !m.is_published())
}

/// The keys that tell the measurements of a group apart: the sizes, and as few identities and then
/// settings as do so within each record, in the order of the registry. A key that the registry does
/// not know counts as a setting.
fn telling<'a: 'b, 'b>(
    (gauge, test, ..): Group<'_>,
    records: impl Iterator<Item = &'b Vec<&'a Measurement>> + Clone,
    registry: &Registry,
) -> Vec<&'a String> {
    let ranked = |key: &'a String| {
        let role = registry.key(gauge, test, key).map_or(Role::Setting, |key| key.role);
        (role, registry.place(gauge, test, key), key)
    };
    let ranked: BTreeSet<(Role, usize, &String)> =
        records.clone().flatten().copied().flat_map(|m| m.config.keys()).map(ranked).collect();
    let of_role = |role: Role| ranked.iter().filter(move |row| row.0 == role).map(|row| row.2);
    let mut keys: Vec<&String> = of_role(Role::Size).collect();
    for all in records {
        for key in of_role(Role::Identity).chain(of_role(Role::Setting)) {
            let place = |m: &&Measurement| keys.iter().map(|key| entry(m, key)).collect::<Vec<_>>();
            if all.iter().map(place).collect::<BTreeSet<_>>().len() == all.len() {
                break;
            }
            let varies = all.iter().any(|m| entry(m, key) != entry(all[0], key));
            if varies && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// The measurements of a record, each at its place; what nothing tells apart is counted.
fn entries<'a>(all: Vec<&'a Measurement>, keys: &[&String]) -> Vec<(Place, &'a Measurement)> {
    let mut entries: Vec<(Place, &Measurement)> = Vec::new();
    for m in all {
        let place = keys.iter().filter_map(|key| Some(((*key).clone(), entry(m, key)?)));
        let mut at: Place = place.collect();
        let before = entries.iter().filter(|(known, _)| known.starts_with(&at)).count();
        if before > 0 {
            at.push(("number".to_owned(), (before + 1).to_string()));
        }
        entries.push((at, m));
    }
    entries
}

/// A place with the values as the record has them.
fn values(at: &Place, m: Option<&&Measurement>) -> Map<String, Value> {
    at.iter()
        .map(|(key, text)| {
            let value = m.and_then(|m| m.config.get(key)).filter(|value| value.is_number());
            (key.clone(), value.cloned().unwrap_or_else(|| Value::String(text.clone())))
        })
        .collect()
}

/// What tells a measurement from others of its name, behind the name: ` 8 B`, `, threads 4`.
fn in_words((gauge, test, ..): Group<'_>, at: &Map<String, Value>, registry: &Registry) -> String {
    let mut place = String::new();
    for (key, value) in at {
        let text = match value.as_u64().filter(|_| crate::keys::is_size(key)) {
            Some(bytes) => Bytes(bytes).to_string(),
            None => scalar(value).unwrap_or_default(),
        };
        match registry.key(gauge, test, key) {
            Some(known) if known.speaks => place.push_str(&format!(" {text}")),
            _ => place.push_str(&format!(", {} {text}", key.replace('_', " "))),
        }
    }
    place
}
