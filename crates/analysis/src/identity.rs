//! What tells the figures of one name apart: the sizes that they are quoted at, and as few other keys of their
//! configurations as are needed; and these in words.

use nodegauge_measure::keys::{self, Registry, Role, scalar};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Bytes, Unit};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A measurement with the number of its run on its side.
pub(crate) type Numbered<'a> = (usize, &'a Measurement);

/// Keys with their values: what tells a measurement from the others of its group.
pub(crate) type Place = Vec<(String, String)>;

/// Gauge, test, name, unit.
pub(crate) type Group<'a> = (&'a str, &'a str, &'a str, Unit);

pub(crate) fn group_of(m: &Measurement) -> Group<'_> {
    (&m.gauge, &m.test, &m.name, m.unit)
}

/// The value of a key in a word.
pub(crate) fn entry(m: &Measurement, key: &str) -> Option<String> {
    m.config.get(key).and_then(scalar)
}

/// What tells a figure from the others of its name and unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Keys with their values in a word: sizes, and as few others as are needed.
    pub at: Vec<(String, String)>,
    /// The same for people, to stand behind the name: ` 8 B`, `, threads 4`.
    pub words: String,
}

/// The identity of each of these figures among them, in their order; no two of one name and unit are equal.
pub fn identities(measurements: &[&Measurement], registry: &Registry) -> Vec<Identity> {
    let mut groups: BTreeMap<Group<'_>, Vec<usize>> = BTreeMap::new();
    for (i, m) in measurements.iter().enumerate() {
        groups.entry(group_of(m)).or_default().push(i);
    }
    let mut found = vec![Identity::default(); measurements.len()];
    for (group, members) in groups {
        let alike: Vec<&Measurement> = members.iter().map(|i| measurements[*i]).collect();
        let keys = telling(group, &[&alike], registry);
        for (i, (at, (_, m))) in members.into_iter().zip(entries(0, alike, &keys)) {
            let words = in_words(group, &values(&at, m), registry);
            found[i] = Identity { at, words };
        }
    }
    found
}

/// The keys that tell the measurements of a group apart: the sizes, and as few identities and then
/// settings as do so within each record, in the order of the registry; what was chosen only where nothing
/// else does. A key that the registry does not know counts as a setting.
pub(crate) fn telling<'a>(
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
pub(crate) fn entries<'a>(
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
pub(crate) fn values(at: &Place, m: &Measurement) -> Map<String, Value> {
    at.iter()
        .map(|(key, text)| {
            let value = m.config.get(key).filter(|value| value.is_number());
            (key.clone(), value.cloned().unwrap_or_else(|| Value::String(text.clone())))
        })
        .collect()
}

/// What tells a measurement from others of its name, behind the name: ` 8 B`, `, threads 4`.
pub(crate) fn in_words(
    (gauge, test, ..): Group<'_>,
    at: &Map<String, Value>,
    registry: &Registry,
) -> String {
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
