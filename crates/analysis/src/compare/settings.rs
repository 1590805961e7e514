//! Differences between settings: labels, machine, kernel, build, and the configuration of the measurements. A value
//! that is unknown for A or for B is not a difference.

use super::{COMPARED_LABEL, IMPORT_LABEL, TURNS_LABEL, join_distinct, pairing};
use crate::facts::FACTS;
use crate::identity::NumberedMeasurement;
use nodegauge_measure::Fraction;
use nodegauge_measure::keys::{Registry, Role, scalar_text};
use nodegauge_measure::record::{Finding, Record, Severity};
use pairing::PairedMeasurement;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Difference between the compared settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the property.
    pub what: String,
    /// Values of A and B, or of each of several runs. Different values within A or B are separated by ` | `; an unknown
    /// value is `?`.
    pub sides: Vec<String>,
}

/// Serialises the difference with the fields `what`, `a` and `b`.
impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = ["a", "b"].into_iter().zip(&self.sides);
        serializer.collect_map([("what", &self.what)].into_iter().chain(named))
    }
}

impl Difference {
    /// Returns the difference between the known values; `None` if all known values are equal.
    fn between(what: String, mut sides: Vec<String>) -> Option<Self> {
        let known: BTreeSet<&String> = sides.iter().filter(|words| !words.is_empty()).collect();
        (known.len() > 1).then(|| {
            let unknown = sides.iter_mut().filter(|words| words.is_empty());
            unknown.for_each(|words| *words = "?".to_owned());
            Self { what, sides }
        })
    }
}

/// Maximum number of lines for one configuration key.
const MAX_LINES_PER_KEY: usize = 3;

/// Options that do not affect the measurement. The flag is true if the option takes a value.
const IRRELEVANT_OPTIONS: [(&str, bool); 10] = [
    ("--label", true),
    ("--json", true),
    ("--csv", true),
    ("--db", true),
    ("--expect", true),
    ("--show", true),
    ("--no-save", false),
    ("--accept-suspect", false),
    ("-q", false),
    ("-v", false),
];

/// Returns the command of a run without the options that do not affect the measurement; `None` for imported records.
pub(crate) fn relevant_command(run: &Record) -> Option<Vec<&str>> {
    let mut asked = Vec::new();
    let mut words = run.command.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        match IRRELEVANT_OPTIONS.iter().find(|(option, _)| is_option(word, option)) {
            None => asked.push(word),
            Some((_, follows)) if *follows && !word.contains('=') => {
                words.next_if(|next| *next == "-" || !next.starts_with('-'));
            }
            Some(_) => {}
        }
    }
    (!run.machine.is_imported()).then_some(asked)
}

/// True if a word of a command is this option, with or without its value.
fn is_option(word: &str, option: &str) -> bool {
    word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// True if all runs had the same command. Differences in configuration were then chosen or observed by the runs.
pub(super) fn is_same_command(sides: &[&[Record]]) -> bool {
    let mut all = sides.iter().copied().flatten().map(relevant_command);
    let first = all.next().flatten();
    first.is_some() && all.all(|question| question == first)
}

/// Returns the differences between the settings, labels first.
pub(super) fn differences(
    sides: &[&[Record]],
    points: &[PairedMeasurement<'_>],
    is_same_command: bool,
    registry: &Registry,
) -> Vec<Difference> {
    let known: Vec<bool> = sides.iter().map(|side| side.iter().any(is_described)).collect();
    let mut differences = labels(sides);
    let described = known.iter().map(|known| if *known { "described" } else { "not known" });
    differences
        .extend(Difference::between("machine".to_owned(), described.map(str::to_owned).collect()));
    for fact in FACTS.iter().filter(|fact| fact.distinguishes_runs()) {
        let values = side_values(sides, |run| fact.text(&run.machine));
        differences.extend(Difference::between(fact.name.to_owned(), values));
    }
    let tools = side_values(sides, |run| Some(tool_in_words(run)));
    differences.extend(Difference::between("nodegauge".to_owned(), tools));
    differences.extend(findings(sides, &known));
    differences.extend(configurations(points, is_same_command, registry));
    differences
}

/// Returns the distinct values of each side.
fn side_values(sides: &[&[Record]], value: impl Fn(&Record) -> Option<String>) -> Vec<String> {
    sides.iter().map(|side| join_distinct(side.iter().map(&value))).collect()
}

/// True if the record describes its machine.
fn is_described(run: &Record) -> bool {
    run.machine.host.is_some() || run.machine.processor.model.is_some()
}

/// Returns the version of nodegauge, with its commit if that is known.
fn tool_in_words(run: &Record) -> String {
    match &run.tool.commit {
        Some(commit) => format!("{} ({commit})", run.tool.version),
        None => run.tool.version.clone(),
    }
}

/// Returns the labels in which the sides differ; a missing label is shown as a dash.
fn labels(sides: &[&[Record]]) -> Vec<Difference> {
    let mut names: Vec<&String> = Vec::new();
    for run in sides.iter().copied().flatten() {
        let own = run.labels.keys();
        names.extend(
            own.filter(|name| {
                ![TURNS_LABEL, COMPARED_LABEL, IMPORT_LABEL].contains(&name.as_str())
            }),
        );
    }
    names.sort();
    names.dedup();
    let mut differences = Vec::new();
    for name in names {
        let mut values = side_values(sides, |run| run.labels.get(name).cloned());
        for value in values.iter_mut().filter(|value| value.is_empty()) {
            "-".clone_into(value);
        }
        differences.extend(Difference::between(format!("label {name}"), values));
    }
    differences
}

/// Returns the findings, from warnings on, in which the sides differ. A side whose machine is not `known` has no value.
fn findings(sides: &[&[Record]], known: &[bool]) -> Vec<Difference> {
    let mut ids: Vec<&str> = Vec::new();
    for finding in sides.iter().copied().flatten().flat_map(|run| &run.findings) {
        if finding.severity >= Severity::Warning && !ids.contains(&finding.id.as_str()) {
            ids.push(&finding.id);
        }
    }
    let mut differences = Vec::new();
    for id in ids {
        let mut values = Vec::new();
        for (side, is_known) in sides.iter().zip(known) {
            values.push(if *is_known { finding_in_words(side, id) } else { String::new() });
        }
        let what = format!("finding: {}", Finding::finding_name(id));
        differences.extend(Difference::between(what, values));
    }
    differences
}

/// Describes how many runs of A or B have a finding.
fn finding_in_words(side: &[Record], id: &str) -> String {
    let n = side.iter().filter(|run| run.findings.iter().any(|known| known.id == id)).count();
    match n {
        0 => "no".to_owned(),
        n if n == side.len() => "yes".to_owned(),
        n => format!("{n} of {} runs", side.len()),
    }
}

/// Returns the differences of the configuration: one line for a key that differs in the same way in all measurements,
/// otherwise the first few differences of the key.
fn configurations(
    points: &[PairedMeasurement<'_>],
    is_same_command: bool,
    registry: &Registry,
) -> Vec<Difference> {
    let mut keys: Vec<&String> = Vec::new();
    for (_, m) in points.iter().flat_map(|point| point.sides.iter().flatten()) {
        for key in m.config.keys() {
            let role = registry.key(&m.gauge, &m.test, key).map(|known| known.role);
            if role.is_none_or(|role| is_listed(role, is_same_command)) && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let mut differences = Vec::new();
    for key in keys {
        let what = key.replace('_', " ");
        // Measurements with the same difference are listed on one line.
        let mut alike: Vec<(Difference, Vec<String>)> = Vec::new();
        for point in points {
            let sides = point.sides.iter().map(|side| key_values(key, side)).collect();
            let Some(difference) = Difference::between(what.clone(), sides) else { continue };
            let title = point.title();
            match alike.iter().position(|(known, _)| *known == difference) {
                Some(index) => alike[index].1.push(title),
                // The list is one entry longer than the limit, to detect that there are more.
                None if alike.len() <= MAX_LINES_PER_KEY => alike.push((difference, vec![title])),
                None => {}
            }
        }
        let many = alike.len() > MAX_LINES_PER_KEY;
        for (mut difference, titles) in alike.into_iter().take(MAX_LINES_PER_KEY) {
            // The titles are added unless all measurements have this difference.
            if titles.len() < points.len() {
                difference.what = format!("{what} ({})", in_short(&titles));
            }
            differences.push(difference);
        }
        if many {
            let sides = points.first().map_or(0, |point| point.sides.len());
            let of = "further measurements differ".to_owned();
            differences.push(Difference { what, sides: vec![of; sides] });
        }
    }
    differences
}

/// True if the differences of keys with this role are listed. Differences of identity keys are listed only if the runs
/// have the same command; otherwise they are the reason why there is no ratio.
fn is_listed(role: Role, is_same_command: bool) -> bool {
    match role {
        Role::Setting | Role::Choice => true,
        Role::Identity => is_same_command,
        Role::Size | Role::Observation => false,
    }
}

/// Returns the distinct values of a key among the measurements of a side.
fn key_values(key: &str, side: &[NumberedMeasurement<'_>]) -> String {
    join_distinct(side.iter().map(|(_, m)| value_in_words(key, m.config.get(key)?)))
}

fn in_short(titles: &[String]) -> String {
    match titles {
        [one] => one.clone(),
        [one, two] => format!("{one}; {two}"),
        [one, .., last] => format!("{one} ... {last}"),
        [] => String::new(),
    }
}

/// Returns a string member of an object.
fn member_text<'v>(value: &'v Value, member: &str) -> Option<&'v str> {
    value.get(member).and_then(Value::as_str)
}

/// Returns the share of pages that the run obtained, per page size or NUMA node.
fn obtained(value: &Value) -> impl Iterator<Item = (&String, f64)> {
    let shares = value.get("got").and_then(Value::as_object).into_iter().flatten();
    shares.filter_map(|(of, share)| Some((of, share.as_f64()?)))
}

/// Rounds a share to tenths, so that small variations between runs are no difference.
fn in_tenths(share: f64) -> Fraction {
    Fraction((share * 10.0).round() / 10.0)
}

/// True for the size of a huge page.
fn is_huge(size: &str) -> bool {
    size.parse::<u64>().is_ok_and(|bytes| bytes >= 2 << 20)
}

/// Formats a value of the configuration; `None` for fractions, which are observations and not settings.
fn value_in_words(key: &str, value: &Value) -> Option<String> {
    match (key, value) {
        (_, Value::Number(number)) if !number.is_u64() && !number.is_i64() => None,
        ("pages", Value::Object(_)) => {
            let huge = obtained(value).filter(|(size, _)| is_huge(size));
            let share = in_tenths(huge.map(|(_, share)| share).sum());
            Some(format!("{}, {} huge", member_text(value, "asked")?, share.in_whole_percent()))
        }
        ("numa", Value::Object(map)) if map.contains_key("got") => {
            let mut shares = Vec::new();
            for (node, obtained_share) in obtained(value) {
                let share = in_tenths(obtained_share);
                if share.0 > 0.0 {
                    shares.push(format!("{} on NUMA node {node}", share.in_whole_percent()));
                }
            }
            Some(format!("{}, {}", member_text(value, "asked")?, shares.join(", ")))
        }
        ("compiler", Value::Object(_)) => {
            let version = member_text(value, "version").map(|version| format!(" ({version})"));
            Some(format!("{}{}", member_text(value, "command")?, version.unwrap_or_default()))
        }
        ("places", Value::Array(places)) => {
            let cpus = places.iter().filter_map(Value::as_array).map(|cpus| {
                let cpus: Vec<String> = cpus.iter().map(Value::to_string).collect();
                if cpus.len() == 1 { cpus.concat() } else { format!("{{{}}}", cpus.join(",")) }
            });
            Some(cpus.collect::<Vec<_>>().join(" "))
        }
        ("layout", Value::Object(map)) => {
            let offset = map.get("sequential")?.get("offset")?.as_u64()?;
            Some(format!("sequential, offset {offset}"))
        }
        (_, Value::Object(map)) if map.contains_key("asked") => {
            map.get("asked").and_then(scalar_text)
        }
        (_, Value::Object(map)) => Some(members_in_words(map)),
        (_, Value::Array(items)) => {
            let items = items.iter().filter_map(|item| value_in_words("", item));
            Some(items.collect::<Vec<_>>().join(", "))
        }
        (_, other) => scalar_text(other),
    }
}

/// Part of the names of temporary folders, which differ between runs.
const TEMPORARY: &str = "/nodegauge-";

/// Formats an object as text: `library Open MPI, version 4.1.4`. Unknown members and names of temporary files are left
/// out.
fn members_in_words(map: &Map<String, Value>) -> String {
    let words = map.iter().filter_map(|(key, value)| {
        let text = value_in_words("", value).map(|text| without_temporary(&text));
        let text = text.filter(|text| !text.is_empty())?;
        Some(format!("{} {text}", key.replace('_', " ")))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Removes the names of temporary files from a text.
fn without_temporary(text: &str) -> String {
    let words = text.split(' ').filter(|word| !word.contains(TEMPORARY));
    words.collect::<Vec<_>>().join(" ")
}
