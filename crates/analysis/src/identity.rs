//! Identity of figures with the same name: their sizes, and the smallest set of other configuration keys that
//! distinguishes them.

use nodegauge_measure::keys::{self, Registry, Role, scalar_text};
use nodegauge_measure::record::Measurement;
use nodegauge_measure::{Bytes, Unit};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Index of a run among the runs of A or B, and a measurement of this run.
pub(crate) type NumberedMeasurement<'a> = (usize, &'a Measurement);

/// Keys with values that distinguish a measurement from the others with the same gauge, test, name and unit.
pub(crate) type DistinguishingValues = Vec<(String, String)>;

/// Group of measurements: gauge, test, name and unit.
pub(crate) type FigureGroupKey<'a> = (&'a str, &'a str, &'a str, Unit);

pub(crate) fn figure_group_key(m: &Measurement) -> FigureGroupKey<'_> {
    (&m.gauge, &m.test, &m.name, m.unit)
}

/// Formats the value of a key as a short text.
pub(crate) fn value_text(m: &Measurement, key: &str) -> Option<String> {
    m.config.get(key).and_then(scalar_text)
}

/// Identity of a figure: keys that distinguish it from other figures with the same name and unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FigureIdentity {
    /// Keys with their values as short texts: sizes, and as few other keys as necessary.
    pub at: Vec<(String, String)>,
    /// Text after the name, for display: ` 8 B`, `, threads 4`.
    pub name_suffix: String,
}

/// Returns the identities of these figures, in their order. Figures with the same name and unit have different
/// identities.
pub fn identities(measurements: &[&Measurement], registry: &Registry) -> Vec<FigureIdentity> {
    let mut groups: BTreeMap<FigureGroupKey<'_>, Vec<usize>> = BTreeMap::new();
    for (i, m) in measurements.iter().enumerate() {
        groups.entry(figure_group_key(m)).or_default().push(i);
    }
    let mut found = vec![FigureIdentity::default(); measurements.len()];
    for (group, members) in groups {
        let alike: Vec<&Measurement> = members.iter().map(|i| measurements[*i]).collect();
        let keys = distinguishing_keys(group, &[&alike], registry);
        for (i, (at, (_, m))) in members.into_iter().zip(keyed_measurements(0, alike, &keys)) {
            let name_suffix = in_words(group, &key_values(&at, m), registry);
            found[i] = FigureIdentity { at, name_suffix };
        }
    }
    found
}

/// Returns the keys that distinguish the measurements of a group within each record: the sizes, and as few identities
/// and settings as necessary, in the order of the registry; identities come first. Choices are used only if the other
/// keys are not sufficient. A key that is not in the registry counts as a setting.
pub(crate) fn distinguishing_keys<'a>(
    (gauge, test, ..): FigureGroupKey<'_>,
    records: &[&Vec<&'a Measurement>],
    registry: &Registry,
) -> Vec<&'a String> {
    let known = registry.for_test(gauge, test);
    // Keys other than sizes are used only to distinguish measurements of the same record.
    let has_several = records.iter().any(|record| record.len() > 1);
    let mut ranked: BTreeSet<RankedKey<'a>> = BTreeSet::new();
    for name in records.iter().flat_map(|record| record.iter()).flat_map(|m| m.config.keys()) {
        let role = known.key(name).map_or(Role::Setting, |key| key.role);
        if has_several || role == Role::Size {
            ranked.insert(RankedKey { role, position: known.position(name), name });
        }
    }
    let mut keys: Vec<&String> = keys_with_role(&ranked, Role::Size).collect();
    for record in records {
        let asked =
            keys_with_role(&ranked, Role::Identity).chain(keys_with_role(&ranked, Role::Setting));
        for name in asked.chain(keys_with_role(&ranked, Role::Choice)) {
            if distinguished(record, &keys) == record.len() {
                break;
            }
            let varies = record.iter().any(|m| value_text(m, name) != value_text(record[0], name));
            if varies && !keys.contains(&name) {
                keys.push(name);
            }
        }
    }
    // Removes redundant keys, because another run may have other values for them.
    for at in (0..keys.len()).rev() {
        let needed =
            known.key(keys[at]).is_some_and(|key| key.omits_label || key.role == Role::Size);
        let mut fewer = keys.clone();
        fewer.remove(at);
        let mut of_records = records.iter();
        let is_redundant =
            of_records.all(|record| distinguished(record, &fewer) == distinguished(record, &keys));
        if !needed && is_redundant {
            keys = fewer;
        }
    }
    keys
}

/// Configuration key with its rank; keys of lower rank are preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RankedKey<'a> {
    role: Role,
    position: usize,
    name: &'a String,
}

/// Returns the keys with a role, in order.
fn keys_with_role<'a>(
    ranked: &BTreeSet<RankedKey<'a>>,
    role: Role,
) -> impl Iterator<Item = &'a String> {
    ranked.iter().filter(move |key| key.role == role).map(|key| key.name)
}

/// Returns the number of measurements that can be distinguished by these keys.
fn distinguished(measurements: &[&Measurement], keys: &[&String]) -> usize {
    let mut distinct: BTreeSet<Vec<Option<String>>> = BTreeSet::new();
    for m in measurements {
        distinct.insert(keys.iter().map(|key| value_text(m, key)).collect());
    }
    distinct.len()
}

/// Pairs the measurements of a run with their distinguishing keys. Measurements with equal keys are numbered.
pub(crate) fn keyed_measurements<'a>(
    run: usize,
    all: Vec<&'a Measurement>,
    keys: &[&String],
) -> Vec<(DistinguishingValues, NumberedMeasurement<'a>)> {
    let mut entries: Vec<(DistinguishingValues, NumberedMeasurement<'a>)> =
        Vec::with_capacity(all.len());
    // Number of earlier measurements with these keys.
    let mut counts: HashMap<DistinguishingValues, usize> = HashMap::new();
    for m in all {
        let found = keys.iter().filter_map(|key| Some(((*key).clone(), value_text(m, key)?)));
        let mut at: DistinguishingValues = found.collect();
        let before = counts.get(&at).copied().unwrap_or_default();
        for length in 0..=at.len() {
            *counts.entry(at[..length].to_vec()).or_default() += 1;
        }
        if before > 0 {
            at.push(("number".to_owned(), (before + 1).to_string()));
        }
        entries.push((at, (run, m)));
    }
    entries
}

/// Returns the distinguishing keys of a measurement with their values: numbers as in the record, other values as short
/// texts.
pub(crate) fn key_values(at: &DistinguishingValues, m: &Measurement) -> Map<String, Value> {
    at.iter()
        .map(|(key, text)| {
            let value = m.config.get(key).filter(|value| value.is_number());
            (key.clone(), value.cloned().unwrap_or_else(|| Value::String(text.clone())))
        })
        .collect()
}

/// Returns the text that is appended to the name of a measurement to distinguish it from others: ` 8 B`, `, threads 4`.
pub(crate) fn in_words(
    (gauge, test, ..): FigureGroupKey<'_>,
    at: &Map<String, Value>,
    registry: &Registry,
) -> String {
    let mut name_suffix = String::new();
    for (key, value) in at {
        let text = match value.as_u64().filter(|_| keys::is_size(key)) {
            Some(bytes) => Bytes(bytes).to_string(),
            None => scalar_text(value).unwrap_or_default(),
        };
        match registry.key(gauge, test, key) {
            Some(known) if known.omits_label => name_suffix.push_str(&format!(" {text}")),
            _ => name_suffix.push_str(&format!(", {} {text}", key.replace('_', " "))),
        }
    }
    name_suffix
}
