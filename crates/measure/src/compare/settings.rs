//! What differs between two settings: labels, machine, kernel, build, and the configuration of what
//! was measured. What one side does not tell is no difference.

use super::{TURNS, distinct, pairing};
use crate::keys::{Registry, Role, scalar};
use crate::place::Numbered;
use crate::record::{Machine, Record, Severity};
use crate::{Bytes, BytesPerSec};
use pairing::Point;
use serde::Serialize;
use serde_json::Value;

/// Something that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub what: String,
    /// On A; several values are separated by ` | `.
    pub a: String,
    /// On B.
    pub b: String,
}

/// A fact about a machine, when it is known: its name, whether it decides which configuration is
/// fastest, and the fact. Free memory, clocks and loads come and go, and decide nothing.
type Fact = (&'static str, bool, fn(&Machine) -> Option<String>);

/// Facts about machines, in the order of the list.
const FACTS: [Fact; 20] = [
    ("host", true, |m| m.host.clone()),
    ("processor", true, |m| m.processor.model.clone()),
    ("sockets", true, |m| count(m.processor.sockets)),
    ("cores", true, |m| count(m.processor.cores)),
    ("hardware threads", true, |m| count(m.processor.threads)),
    ("instruction sets", true, |m| {
        (!m.processor.isa.is_empty()).then(|| m.processor.isa.join(" "))
    }),
    ("last-level caches", true, |m| {
        let last =
            m.caches.iter().filter(|cache| cache.level >= 3).max_by_key(|cache| cache.level)?;
        Some(format!("{} x {}", last.count, Bytes(last.bytes?)))
    }),
    ("NUMA nodes", true, |m| count(m.numa_nodes.len() as u32)),
    ("memory", false, |m| m.memory.bytes.map(|bytes| Bytes(bytes).to_string())),
    ("memory limit", false, |m| m.memory.cgroup_limit.map(|bytes| Bytes(bytes).to_string())),
    ("memory channels", true, |m| m.memory.channels.map(|n| n.to_string())),
    ("memory speed", false, |m| {
        m.memory.transfers_per_s.map(|rate| format!("{:.0} MT/s", rate / 1e6))
    }),
    ("theoretical bandwidth", false, |m| {
        m.memory.theoretical.as_ref().map(|figure| BytesPerSec(figure.value).to_string())
    }),
    ("kernel", true, |m| m.kernel.clone()),
    ("virtual machine", true, |m| {
        (m.host.is_some()).then(|| m.virtualisation.clone().unwrap_or_else(|| "no".to_owned()))
    }),
    ("governor", false, |m| m.governor.clone()),
    ("transparent huge pages", true, |m| m.pages.as_ref()?.thp.clone()),
    ("THP defragmentation", false, |m| m.pages.as_ref()?.thp_defrag.clone()),
    ("reserved huge pages", true, |m| {
        let huge = m.pages.as_ref()?.huge.iter().filter(|pages| pages.total > 0);
        let kinds: Vec<String> =
            huge.map(|pages| format!("{} of {}", pages.total, Bytes(pages.bytes))).collect();
        Some(if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") })
    }),
    ("inherited memory policy", false, |m| {
        let inherited = m.circumstances.as_ref()?.inherited.as_ref()?;
        let nodes: Vec<String> = inherited.nodes.iter().map(u32::to_string).collect();
        let separator = if nodes.is_empty() { "" } else { ":" };
        Some(format!("{}{separator}{}", inherited.policy.as_ref()?, nodes.join(",")))
    }),
];

/// What differs between a machine as it was and as it is now, in words, as far as it decides which
/// configuration is fastest.
pub fn machine_changes(then: &Machine, now: &Machine) -> Vec<String> {
    let words = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_owned());
    let decisive = FACTS.iter().filter(|(_, decides, _)| *decides);
    let held = decisive.map(|(what, _, fact)| (what, words(fact(then)), words(fact(now))));
    held.filter(|(_, then, now)| then != now)
        .map(|(what, then, now)| format!("{what}: {then}, now {now}"))
        .collect()
}

/// Most measurements for which a difference is listed one by one.
const EACH: usize = 3;

fn count(n: u32) -> Option<String> {
    (n > 0).then(|| n.to_string())
}

/// Options of a command that say nothing of what is measured, and whether a value follows.
const ASIDE: [(&str, bool); 10] = [
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

/// What a run was asked to measure: its command without what goes beside it. `None` of what was imported.
pub(super) fn question(run: &Record) -> Option<Vec<&str>> {
    let mut asked = Vec::new();
    let mut words = run.command.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let is = |(option, _): &&(&str, bool)| {
            word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        match ASIDE.iter().find(is) {
            None => asked.push(word),
            Some((_, follows)) if *follows && !word.contains('=') => {
                words.next_if(|next| *next == "-" || !next.starts_with('-'));
            }
            Some(_) => {}
        }
    }
    (!run.machine.is_imported()).then_some(asked)
}

/// Whether all runs were asked the same, so that what differs between them came of it.
pub(super) fn same_question(a: &[Record], b: &[Record]) -> bool {
    let mut all = a.iter().chain(b).map(question);
    let first = all.next().flatten();
    first.is_some() && all.all(|question| question == first)
}

/// What differs, labels first.
pub(super) fn differences(
    a: &[Record],
    b: &[Record],
    points: &[Point<'_>],
    same_question: bool,
    registry: &Registry,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut add = |what: String, a: String, b: String| {
        if a != b {
            differences.push(Difference { what, a, b });
        }
    };
    let sides =
        |of: &dyn Fn(&Record) -> Option<String>| [a, b].map(|side| distinct(side.iter().map(of)));
    let mut labels: Vec<&String> = a.iter().chain(b).flat_map(|run| run.labels.keys()).collect();
    labels.retain(|label| *label != TURNS);
    labels.sort();
    labels.dedup();
    for key in labels {
        let [a, b] = sides(&|run| run.labels.get(key).cloned()).map(|text| match text.is_empty() {
            true => "-".to_owned(),
            false => text,
        });
        add(format!("label {key}"), a, b);
    }
    let known = |run: &Record| run.machine.host.is_some() || run.machine.processor.model.is_some();
    let [a_known, b_known] = [a, b].map(|side| side.iter().any(known));
    let in_words = |known| if known { "described" } else { "not known" }.to_owned();
    add("machine".to_owned(), in_words(a_known), in_words(b_known));
    for (what, _, fact) in FACTS {
        let [a, b] = sides(&|run| fact(&run.machine));
        if !a.is_empty() && !b.is_empty() {
            add(what.to_owned(), a, b);
        }
    }
    let [of_a, of_b] = sides(&|run| {
        let commit = run.tool.commit.as_deref().map(|commit| format!(" ({commit})"));
        Some(format!("{}{}", run.tool.version, commit.unwrap_or_default()))
    });
    add("nodegauge".to_owned(), of_a, of_b);
    if a_known && b_known {
        findings(a, b, &mut add);
    }
    differences.extend(configurations(points, same_question, registry));
    differences
}

/// Findings of which one side is free.
fn findings(a: &[Record], b: &[Record], add: &mut impl FnMut(String, String, String)) {
    let has = |side: &[Record], id: &str| {
        let n = side.iter().filter(|run| run.findings.iter().any(|known| known.id == id)).count();
        match n {
            0 => "no".to_owned(),
            n if n == side.len() => "yes".to_owned(),
            n => format!("{n} of {} runs", side.len()),
        }
    };
    let mut ids: Vec<&str> = Vec::new();
    for finding in a.iter().chain(b).flat_map(|run| &run.findings) {
        if finding.severity >= Severity::Warning && !ids.contains(&finding.id.as_str()) {
            ids.push(&finding.id);
        }
    }
    for id in ids {
        add(format!("finding {id}"), has(a, id), has(b, id));
    }
}

/// What of the configuration differs: a line where it is the same for all measurements, else a line
/// for each of the first few.
fn configurations(
    points: &[Point<'_>],
    same_question: bool,
    registry: &Registry,
) -> Vec<Difference> {
    let mut keys: Vec<&String> = Vec::new();
    for (_, m) in points.iter().flat_map(|point| point.a.iter().chain(&point.b)) {
        for key in m.config.keys() {
            let role = registry.key(&m.gauge, &m.test, key).map(|known| known.role);
            // Identities that differ where the same was asked; else they are why there is no ratio.
            let listed = |role| match role {
                Role::Setting | Role::Choice => true,
                Role::Identity => same_question,
                Role::Size | Role::Observation => false,
            };
            if role.is_none_or(listed) && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let mut differences = Vec::new();
    for key in keys {
        let value = |side: &[Numbered<'_>]| {
            distinct(side.iter().map(|(_, m)| told(key, m.config.get(key)?)))
        };
        let what = key.replace('_', " ");
        // Measurements that differ alike share a line.
        let mut alike: Vec<(Difference, Vec<String>)> = Vec::new();
        for point in points {
            let (a, b) = (value(&point.a), value(&point.b));
            if a == b || a.is_empty() || b.is_empty() {
                continue;
            }
            let title = point.title();
            match alike.iter_mut().find(|(known, _)| known.a == a && known.b == b) {
                Some((_, titles)) => titles.push(title),
                None => alike.push((Difference { what: what.clone(), a, b }, vec![title])),
            }
        }
        let many = alike.len() > EACH;
        for (mut difference, titles) in alike.into_iter().take(EACH) {
            // Of all measurements, or of these.
            if titles.len() < points.len() {
                difference.what = format!("{what} ({})", in_short(&titles));
            }
            differences.push(difference);
        }
        if many {
            let of = "of further measurements".to_owned();
            differences.push(Difference { what, a: of.clone(), b: of });
        }
    }
    differences
}

fn in_short(titles: &[String]) -> String {
    match titles {
        [one] => one.clone(),
        [one, two] => format!("{one}; {two}"),
        [one, .., last] => format!("{one} ... {last}"),
        [] => String::new(),
    }
}

/// A value of the configuration in words; fractions are observations and `None`.
fn told(key: &str, value: &Value) -> Option<String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let tens = |share: f64| (share * 10.0).round() * 10.0;
    let got = || {
        let got = value.get("got").and_then(Value::as_object).into_iter().flatten();
        got.filter_map(|(of, share)| Some((of, share.as_f64()?)))
    };
    match (key, value) {
        (_, Value::Number(number)) if !number.is_u64() && !number.is_i64() => None,
        ("pages", Value::Object(_)) => {
            let huge = |size: &String| size.parse::<u64>().is_ok_and(|size| size >= 2 << 20);
            let huge: f64 = got().filter(|(size, _)| huge(size)).map(|(_, share)| share).sum();
            Some(format!("{}, {} % huge", text("asked")?, tens(huge)))
        }
        ("numa", Value::Object(map)) if map.contains_key("got") => {
            let shares = got().map(|(node, share)| (node, tens(share)));
            let shares = shares.filter(|(_, tens)| *tens > 0.0);
            let shares: Vec<String> =
                shares.map(|(node, tens)| format!("{tens} % on node {node}")).collect();
            Some(format!("{}, {}", text("asked")?, shares.join(", ")))
        }
        ("compiler", Value::Object(_)) => {
            let version = text("version").map(|version| format!(" ({version})"));
            Some(format!("{}{}", text("command")?, version.unwrap_or_default()))
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
        (_, Value::Object(map)) if map.contains_key("asked") => map.get("asked").and_then(scalar),
        (_, Value::Object(_) | Value::Array(_)) => Some(value.to_string()),
        (_, other) => scalar(other),
    }
}
