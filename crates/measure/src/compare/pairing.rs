//! Which measurement of one record is the same as which of another: by gauge, test, name, unit, the
//! sizes that it is quoted at, and, where a record has several of these, by the configuration in which
//! they differ: what was measured first, then how it was asked to be. What was found out pairs nothing.

use super::figures::Numbered;
use crate::keys::{self, Registry, Role, scalar};
use crate::record::{Measurement, Record};
use crate::{Bytes, Unit, expect};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The same measurement in the runs of both sides; neither is empty.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub at: Map<String, Value>,
    /// [`Point::at`] in words, behind the name: ` 8 B`, `, threads 4`.
    pub place: String,
    pub a: Vec<Numbered<'a>>,
    pub b: Vec<Numbered<'a>>,
}

impl<'a> Point<'a> {
    /// `triad`, `latency 8 B`, `triad, threads 4`, `8 KiB, pages thp`.
    pub fn title(&self) -> String {
        format!("{}{}", self.first().name_in_words(), self.place)
    }

    /// One of its measurements, of A if it has any.
    pub fn first(&self) -> &'a Measurement {
        self.a.first().or(self.b.first()).expect("a point has a measurement").1
    }

    fn unpaired(&self) -> Unpaired {
        let m = self.first();
        Unpaired {
            gauge: m.gauge.clone(),
            test: m.test.clone(),
            name: m.name.clone(),
            size: expect::size_of(m),
            title: self.title(),
        }
    }
}

/// A measurement that one side alone has. In JSON its title.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpaired {
    pub(super) gauge: String,
    pub(super) test: String,
    pub(super) name: String,
    pub(super) size: Option<Bytes>,
    /// What it is called: `triad`, `latency 8 B`.
    pub title: String,
}

impl Serialize for Unpaired {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.title)
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

/// Pairs the measurements of two sides; and those that one side alone has.
pub(crate) fn pair<'a>(
    a: &'a [Record],
    b: &'a [Record],
    registry: &Registry,
) -> (Vec<Point<'a>>, [Vec<Unpaired>; 2]) {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for m in a.iter().chain(b).flat_map(own) {
        if !groups.contains(&group_of(m)) {
            groups.push(group_of(m));
        }
    }
    let mut points = Vec::new();
    let mut only = [Vec::new(), Vec::new()];
    for group in groups {
        let of = |record: &'a Record| own(record).filter(|m| group_of(m) == group).collect();
        let [of_a, of_b] =
            [a, b].map(|side| side.iter().map(of).collect::<Vec<Vec<&Measurement>>>());
        let all: Vec<&Vec<&Measurement>> = of_a.iter().chain(&of_b).collect();
        let keys = telling(group, &all, registry);
        let [of_a, of_b] = [of_a, of_b].map(|side| {
            let numbered = side.into_iter().enumerate();
            numbered.flat_map(|(run, all)| entries(run, all, &keys)).collect::<Vec<_>>()
        });
        let mut places: Vec<&Place> = Vec::new();
        for (at, _) in of_a.iter().chain(&of_b) {
            if !places.contains(&at) {
                places.push(at);
            }
        }
        for place in places {
            let here = |entries: &[(Place, Numbered<'a>)]| -> Vec<Numbered<'a>> {
                entries.iter().filter(|(at, _)| at == place).map(|(_, m)| *m).collect()
            };
            let (a, b) = (here(&of_a), here(&of_b));
            let at = a.first().or(b.first()).map(|(_, m)| values(place, m)).unwrap_or_default();
            let point = Point { place: in_words(group, &at, registry), at, a, b };
            match (point.a.is_empty(), point.b.is_empty()) {
                (false, false) => points.push(point),
                (false, true) => only[0].push(point.unpaired()),
                _ => only[1].push(point.unpaired()),
            }
        }
    }
    (points, only)
}

/// What a run measured itself.
fn own(record: &Record) -> impl Iterator<Item = &Measurement> {
    record.measurements.iter().filter(|m| !m.is_published())
}

/// The measurement of another run at the place of a point.
pub(super) fn like<'a>(point: &Point<'_>, run: &'a Record) -> Option<&'a Measurement> {
    let first = point.first();
    own(run).find(|m| {
        group_of(m) == group_of(first)
            && m.category == first.category
            && point.at.iter().all(|(key, value)| entry(m, key) == scalar(value))
    })
}

/// The keys that tell the measurements of a group apart: the sizes, and as few identities and then
/// settings as do so within each record, in the order of the registry; what was chosen only where nothing
/// else does. A key that the registry does not know counts as a setting.
fn telling<'a>(
    (gauge, test, ..): Group<'_>,
    records: &[&Vec<&'a Measurement>],
    registry: &Registry,
) -> Vec<&'a String> {
    let key = |name: &str| registry.key(gauge, test, name);
    let ranked = |name: &'a String| {
        let role = key(name).map_or(Role::Setting, |key| key.role);
        (role, registry.place(gauge, test, name), name)
    };
    let all = records.iter().flat_map(|all| all.iter().copied());
    let ranked: BTreeSet<(Role, usize, &'a String)> =
        all.flat_map(|m| m.config.keys()).map(ranked).collect();
    let of_role = |role: Role| ranked.iter().filter(move |row| row.0 == role).map(|row| row.2);
    let told = |all: &[&Measurement], keys: &[&String]| {
        let place = |m: &&Measurement| keys.iter().map(|key| entry(m, key)).collect::<Vec<_>>();
        all.iter().map(place).collect::<BTreeSet<_>>().len()
    };
    let mut keys: Vec<&String> = of_role(Role::Size).collect();
    for all in records {
        let asked = of_role(Role::Identity).chain(of_role(Role::Setting));
        for key in asked.chain(of_role(Role::Choice)) {
            if told(all, &keys) == all.len() {
                break;
            }
            let varies = all.iter().any(|m| entry(m, key) != entry(all[0], key));
            if varies && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    // What a later key tells as well would only be one more thing that another run may choose otherwise.
    for at in (0..keys.len()).rev() {
        let needed = key(keys[at]).is_some_and(|key| key.speaks || key.role == Role::Size);
        let mut fewer = keys.clone();
        fewer.remove(at);
        if !needed && records.iter().all(|all| told(all, &fewer) == told(all, &keys)) {
            keys = fewer;
        }
    }
    keys
}

/// The measurements of a run, each at its place; what nothing tells apart is counted.
fn entries<'a>(
    run: usize,
    all: Vec<&'a Measurement>,
    keys: &[&String],
) -> Vec<(Place, Numbered<'a>)> {
    let mut entries: Vec<(Place, Numbered<'a>)> = Vec::new();
    for m in all {
        let place = keys.iter().filter_map(|key| Some(((*key).clone(), entry(m, key)?)));
        let mut at: Place = place.collect();
        let before = entries.iter().filter(|(known, _)| known.starts_with(&at)).count();
        if before > 0 {
            at.push(("number".to_owned(), (before + 1).to_string()));
        }
        entries.push((at, (run, m)));
    }
    entries
}

/// A place with the values as the record has them.
fn values(at: &Place, m: &Measurement) -> Map<String, Value> {
    at.iter()
        .map(|(key, text)| {
            let value = m.config.get(key).filter(|value| value.is_number());
            (key.clone(), value.cloned().unwrap_or_else(|| Value::String(text.clone())))
        })
        .collect()
}

/// What tells a measurement from others of its name, behind the name: ` 8 B`, `, threads 4`.
fn in_words((gauge, test, ..): Group<'_>, at: &Map<String, Value>, registry: &Registry) -> String {
    let mut place = String::new();
    for (key, value) in at {
        let text = match value.as_u64().filter(|_| keys::is_size(key)) {
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
