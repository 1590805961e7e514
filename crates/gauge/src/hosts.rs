//! Runs on several hosts: merging of the outcomes of all hosts, ranking of the hosts, and the view of the ranking.
//!
//! A gauge measures a single host. Each figure of a host has the key `host`; sums over hosts have the key `hosts`. The
//! machine of the record is the first host.

use crate::view::sentence::{capitalise, mark_doubted};
use crate::view::{
    ChartBar, ColumnList, Note, Picture, Section, Table, TableCell, Tone, group_by_key,
};
use nodegauge_analysis::conclusion::{CANNOT_TELL, Obstacle};
use nodegauge_analysis::slow::power::DetectionPower;
use nodegauge_analysis::slow::{self, GroupVerdict, MIN_NODES, NodeGroupStatistics, practical};
use nodegauge_measure::keys::{Registry, SharedKey, shared};
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{
    Finding, Machine, Measurement, QuotedStatistic, Record, Status, Validity,
};
use nodegauge_measure::repeat::StopReason;
use nodegauge_measure::stats::BetterDirection;
use nodegauge_measure::{Failure, Fraction, Notice, NoticeId, Outcome, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Maximum number of figures in the table of hosts, in addition to the figure that ranks them.
const MAX_FURTHER: usize = 3;

/// Result of one host, which the host sends to the process that collects the results.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostReport {
    machine: Machine,
    measurements: Vec<Measurement>,
    findings: Vec<Finding>,
    notices: Vec<Notice>,
    interrupted: bool,
    failure: Option<Failure>,
}

impl HostReport {
    /// Converts the outcome of a host to its result; `findings` are those about the machine.
    pub fn new(machine: Machine, findings: Vec<Finding>, found: Outcome) -> Self {
        Self {
            machine,
            findings: findings.into_iter().chain(found.findings.clone()).collect(),
            interrupted: found.is_interrupted(),
            measurements: found.measurements,
            notices: found.notices,
            failure: found.failure,
        }
    }
}

/// Merges the results of all hosts; the first one is the host that collected them. A host without a result gets invalid
/// figures with the reason, so that it is not overlooked.
pub fn merge_host_reports(hosts: Vec<(String, Result<HostReport, Failure>)>) -> Outcome {
    let mut outcome = Outcome::default();
    let names: Vec<String> = hosts.iter().map(|(name, _)| name.clone()).collect();
    let reports = || hosts.iter().filter_map(|(name, result)| Some((name, result.as_ref().ok()?)));
    let pattern: Vec<Measurement> = reports()
        .map(|(_, report)| unique_figures(&report.measurements))
        .max_by_key(Vec::len)
        .unwrap_or_default();
    outcome.notices.extend(other_kinds(&reports().collect::<Vec<_>>()));
    for (at, (name, result)) in hosts.into_iter().enumerate() {
        match result {
            Ok(report) => add(&mut outcome, at, &name, report),
            Err(why) => {
                let reason = format!("{name}: {}", why.single_line());
                outcome.notices.push(Notice::new(NoticeId::Failed, "", reason));
                let lost = pattern.iter().map(|m| {
                    let mut validity = Validity::valid();
                    validity.mark_invalid(why.reason());
                    let empty = Measurement::new(&m.gauge, &m.test, &m.name, m.unit);
                    with_host(empty.with_category(m.category).with_validity(validity), &name)
                });
                outcome.measurements.extend(lost);
            }
        }
    }
    let sums = sums(&outcome.measurements, &names);
    outcome.measurements.extend(sums);
    outcome
}

/// Adds the result of the host at index `at`.
fn add(outcome: &mut Outcome, at: usize, name: &str, report: HostReport) {
    let figures = report.measurements.into_iter().map(|m| with_host(m, name));
    outcome.measurements.extend(figures);
    let known: BTreeSet<String> = outcome.findings.iter().map(|one| one.id.clone()).collect();
    let new = report.findings.into_iter().filter(|one| !known.contains(&one.id));
    outcome.findings.extend(new.map(|finding| match at {
        0 => finding,
        _ => Finding { text: format!("{name}: {}", finding.text), ..finding },
    }));
    // Notices on the choice of loops and libraries are dropped for other hosts: the configuration of their figures has
    // it.
    let notices = report.notices.into_iter();
    for notice in notices.filter(|notice| at == 0 || notice.id != NoticeId::Chosen) {
        if !outcome.notices.iter().any(|other| other.message == notice.message) {
            let message = match at {
                0 => notice.message,
                _ => format!("{name}: {}", notice.message),
            };
            outcome.notices.push(Notice { message, ..notice });
        }
    }
    if report.interrupted {
        outcome.stop = Some(StopReason::Interrupted);
    }
    if let Some(failure) = report.failure {
        outcome.failure.get_or_insert(failure.with_context(name));
    }
}

/// Sets the host of a figure.
fn with_host(mut m: Measurement, name: &str) -> Measurement {
    m.config.insert(shared::host::KEY.name.to_owned(), name.into());
    m
}

/// Returns the figures whose name occurs once, without published figures.
fn unique_figures(measurements: &[Measurement]) -> Vec<Measurement> {
    let own = measurements.iter().filter(|m| !m.is_published());
    let groups = group_by_key(own, |m| (m.test.clone(), m.name.clone()));
    groups.into_iter().filter(|(_, of)| of.len() == 1).map(|(_, of)| of[0].clone()).collect()
}

/// Returns a notice for each group of hosts whose processor, number of processors or memory differs from the majority.
fn other_kinds(hosts: &[(&String, &HostReport)]) -> Vec<Notice> {
    let kind_of = |machine: &Machine| {
        let processor = &machine.processor;
        let model = processor.model.clone().unwrap_or_else(|| "unknown processor".to_owned());
        format!("{} x {model}, {} hardware threads", processor.sockets, processor.threads)
    };
    let kinds = group_by_key(hosts.iter(), |(_, report)| kind_of(&report.machine));
    let Some(usual) = kinds.iter().map(|(_, of)| of.len()).max() else { return Vec::new() };
    let usual = kinds.iter().position(|(_, of)| of.len() == usual).unwrap_or(0);
    let others = kinds.iter().enumerate().filter(|(at, _)| *at != usual);
    let notice = |(kind, of): &(String, Vec<&(&String, &HostReport)>)| {
        let names: Vec<&str> = of.iter().map(|(name, _)| name.as_str()).collect();
        let text = format!(
            "different processor on {}: {kind}; most hosts have {}",
            names.join(", "),
            kinds[usual].0
        );
        Notice::new(NoticeId::Contradicted, "", text)
    };
    others.map(|(_, other)| notice(other)).collect()
}

/// Returns the sum over the hosts of each rate that no host has more than once. A sum without some hosts is suspect.
fn sums(measurements: &[Measurement], names: &[String]) -> Vec<Measurement> {
    let rates = measurements.iter().filter(|m| {
        matches!(m.unit, Unit::BytesPerSecond | Unit::FlopsPerSecond) && !m.is_published()
    });
    let groups = group_by_key(rates, |m| (m.test.clone(), m.name.clone(), m.unit));
    groups.into_iter().filter_map(|(_, of)| sum(&of, names)).collect()
}

/// Returns the sum of the figures with one name; `None` without a value, or if a host has several figures.
fn sum(of: &[&Measurement], names: &[String]) -> Option<Measurement> {
    let distinct: BTreeSet<&str> = of.iter().filter_map(|m| m.host()).collect();
    if distinct.len() != of.len() {
        return None;
    }
    let with: Vec<&&Measurement> = of.iter().filter(|m| m.value.is_some()).collect();
    let first = with.first()?;
    let hosts: Vec<&str> = with.iter().filter_map(|m| m.host()).collect();
    let total: f64 = with.iter().filter_map(|m| m.value).sum();
    let mut validity = Validity::valid();
    let mut without: Vec<&str> = names.iter().map(String::as_str).collect();
    without.retain(|name| !hosts.contains(name));
    if !without.is_empty() {
        validity.mark_suspect(format!("the sum does not include {}", without.join(", ")));
    }
    let suspect = with.iter().filter(|m| m.validity.status == Status::Suspect).count();
    if suspect > 0 {
        let count = count_in_words(suspect, "host");
        validity.mark_suspect(format!("the sum includes suspect figures of {count}"));
    }
    let name = format!("{}_sum", first.name);
    let mut sum = Measurement::new(&first.gauge, &first.test, name, first.unit)
        .with_category(first.category)
        .with_value(QuotedStatistic::Single, total);
    sum.config.insert(shared::hosts::KEY.name.to_owned(), hosts.into());
    Some(sum.with_validity(validity))
}

/// Divides figures with one name into groups that contain one figure of each host: the first figures of all hosts, the
/// second figures, and so on (e.g. for different pages). Returns no groups if the hosts have different numbers of
/// figures.
fn one_per_host<'r>(of: &[&'r Measurement]) -> Vec<Vec<&'r Measurement>> {
    let hosts = group_by_key(of.iter().copied(), |m| m.host());
    let count = hosts[0].1.len();
    if hosts.iter().any(|(_, figures)| figures.len() != count) {
        return Vec::new();
    }
    (0..count).map(|at| hosts.iter().map(|(_, figures)| figures[at]).collect()).collect()
}

/// Host in a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedHost<'r> {
    /// Name of the host.
    pub name: &'r str,
    /// Figure that ranks the hosts.
    pub figure: &'r Measurement,
    /// Value divided by the median of all hosts; `None` without a value.
    pub median_ratio: Option<f64>,
    /// Verdict of the comparison with all hosts; `None` without a value.
    pub verdict: Option<GroupVerdict>,
}

impl RankedHost<'_> {
    /// True if the host is slow, or if it is below the practical limit and there are too few hosts for a verdict.
    fn is_low(&self) -> bool {
        matches!(self.verdict, Some(GroupVerdict::Slow | GroupVerdict::Below))
    }

    /// True if the host is low or has no value.
    fn is_worse(&self) -> bool {
        self.is_low() || self.verdict.is_none()
    }

    /// Returns the cell of the figure.
    fn cell(&self) -> TableCell {
        cell(self.figure).tone(if self.is_worse() { Tone::Worse } else { Tone::Plain })
    }

    /// Returns another figure of the host.
    fn other_figure<'a>(
        &self,
        record: &'a Record,
        test: &str,
        name: &str,
    ) -> Option<&'a Measurement> {
        let mut all = record.measurements.iter();
        all.find(|m| m.host() == Some(self.name) && m.test == test && m.name == name)
    }
}

/// Returns the value by which a host is judged: a positive value that is not invalid.
fn judged_value(m: &Measurement) -> Option<f64> {
    let value = m.value.filter(|value| value.is_finite() && *value > 0.0);
    value.filter(|_| m.validity.status != Status::Invalid)
}

/// Ranking of the hosts of a run by one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRanking<'r> {
    /// Hosts, best first; those without a value are last.
    pub hosts: Vec<RankedHost<'r>>,
    /// Median of the values.
    pub median: f64,
    /// Difference of the best and the worst value divided by the median.
    pub spread: f64,
    /// Statistics of the hosts, with which each host is judged.
    pub group: NodeGroupStatistics,
    /// Power of the verdicts; `None` for fewer than eight hosts.
    pub power: Option<DetectionPower>,
}

impl<'r> HostRanking<'r> {
    /// Ranks the hosts of a record by the headline figure of a gauge, otherwise by the last figure that most hosts
    /// have, e.g. that of the largest working set. Returns `None` for a run on one host.
    pub fn from_record(record: &'r Record, gauge: &str, registry: &Registry) -> Option<Self> {
        let of_hosts =
            record.measurements.iter().filter(|m| m.gauge == gauge && m.host().is_some());
        let groups = group_by_key(of_hosts, |m| (m.test.as_str(), m.name.as_str()));
        let mut candidates: Vec<Vec<&Measurement>> =
            groups.into_iter().flat_map(|(_, of)| one_per_host(&of)).collect();
        candidates.retain(|of| of.iter().any(|m| m.value.is_some()));
        let max = candidates.iter().map(Vec::len).max()?;
        candidates.retain(|of| of.len() == max);
        let is_headline =
            |of: &&Vec<&Measurement>| registry.is_headline(gauge, &of[0].test, &of[0].name);
        let lead = candidates.iter().rev().find(is_headline).or(candidates.last())?;
        Some(Self::by(lead))
    }

    /// Ranks hosts by these figures, one per host.
    fn by(figures: &[&'r Measurement]) -> Self {
        let better = figures[0].unit.better();
        let mut values: Vec<f64> = figures.iter().filter_map(|m| judged_value(m)).collect();
        values.sort_by(f64::total_cmp);
        let runs: Vec<Vec<f64>> =
            values.iter().map(|value| vec![slow::log_performance(*value, better)]).collect();
        let group = NodeGroupStatistics::from_nodes(&runs, practical::limit(&figures[0].test));
        let power = group.detection_power(1);
        let median = slow::value_from_log_performance(group.robust_spread.median, better);
        let mut hosts = Vec::new();
        for figure in figures {
            let value = judged_value(figure);
            let performance = value.map(|value| slow::log_performance(value, better));
            hosts.push(RankedHost {
                name: figure.host().unwrap_or_default(),
                figure,
                median_ratio: value.map(|value| value / median),
                verdict: performance.map(|own| group.verdict(own, power.as_ref())),
            });
        }
        hosts.sort_by(|a, b| match (judged_value(a.figure), judged_value(b.figure)) {
            (Some(one), Some(other)) if better == BetterDirection::Higher => other.total_cmp(&one),
            (Some(one), Some(other)) => one.total_cmp(&other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        let range = values.last().zip(values.first()).map_or(0.0, |(max, min)| max - min);
        Self { hosts, median, spread: range / median, group, power }
    }

    /// Returns the names of the hosts with this verdict, worst first; for `None`, those of the hosts without a value.
    pub fn names_with_verdict(&self, verdict: Option<GroupVerdict>) -> Vec<&'r str> {
        self.hosts
            .iter()
            .rev()
            .filter(|host| host.verdict == verdict)
            .map(|host| host.name)
            .collect()
    }

    /// Returns the names of the hosts to leave out if the user requests it, worst first: slow hosts and hosts without a
    /// value. With too few hosts for a verdict, hosts below the practical limit replace the slow ones.
    pub fn hosts_to_exclude(&self) -> Vec<&'r str> {
        let hosts = self.hosts.iter().rev();
        hosts.filter(|host| host.is_worse()).map(|host| host.name).collect()
    }

    /// Returns the name of the host with the worst value; `None` for a single host.
    fn slowest(&self) -> Option<&'r str> {
        let slowest = self.hosts.iter().rfind(|host| host.verdict.is_some());
        slowest.filter(|_| self.hosts.len() > 1).map(|host| host.name)
    }

    /// Returns the table with one row per host; `what` is the title of the ranking figure.
    fn table(&self, record: &Record, what: &str) -> Table {
        let lead = self.hosts[0].figure;
        let slowest = self.slowest();
        ColumnList::<RankedHost<'r>>::new()
            .left("host", |host| host.name)
            .right(what, RankedHost::cell)
            .right_or_dash("of median", |host| host.median_ratio.map(|of| Fraction(of).in_tenths()))
            .columns_for_each(further_names(record, lead), String::clone, |host, name| {
                host.other_figure(record, &lead.test, name).map_or_else(|| "-".into(), cell)
            })
            .left("", |host| remark(host, slowest == Some(host.name)))
            .table(&self.hosts)
    }

    /// Returns a sentence on the hosts with a value.
    fn sentence(&self) -> String {
        let lead = self.hosts[0].figure;
        let name = lead.name_in_words();
        let all = count_in_words(self.group.nodes, "host");
        let known = || self.hosts.iter().filter(|host| host.verdict.is_some());
        let is_suspect = known().any(|host| host.figure.validity.status == Status::Suspect);
        let median = mark_doubted(&lead.unit.in_words(self.median), is_suspect);
        let limit = self.group.practical_limit.in_whole_percent();
        let slow = self.names_with_verdict(Some(GroupVerdict::Slow));
        let below = self.names_with_verdict(Some(GroupVerdict::Below));
        if let [one] = slow.as_slice() {
            return format!("One of {all} is slow in {name}: {one}; the median is {median}");
        }
        if !slow.is_empty() {
            let names = slow.join(", ");
            let count = slow.len();
            return format!("{count} of {all} are slow in {name}: {names}; the median is {median}");
        }
        if !below.is_empty() {
            let verb = number_form(below.len(), "is", "are");
            return format!(
                "{} {verb} more than {limit} worse than the median of {all} in {name}, {median}; fewer than \
                 {MIN_NODES} hosts do not show which one is slow",
                below.join(", ")
            );
        }
        if let Some(obstacle) = Obstacle::from_figures(known().map(|host| host.figure)) {
            let text = obstacle.cannot_tell(&format!("whether one of {all} is slow in {name}"));
            return capitalise(&format!("{text}; the median is {median}"));
        }
        let Some(power) = &self.power else {
            return format!(
                "None of {all} is more than {limit} worse than the median in {name}, {median}"
            );
        };
        let undecided = self.names_with_verdict(Some(GroupVerdict::Undecided));
        let reason = match undecided.as_slice() {
            _ if !power.suffices() => power.in_words(),
            [] => {
                let spread = Fraction(self.spread);
                return format!(
                    "None of {all} is slow in {name}: the median is {median}, the spread {spread}"
                );
            }
            hosts => {
                let sought = power.sought.in_whole_percent();
                format!("a loss of {sought} is not excluded for {}", hosts.join(", "))
            }
        };
        capitalise(&format!(
            "{CANNOT_TELL} whether one of {all} is slow in {name}: {reason}; the median is {median}"
        ))
    }

    /// Returns the notes on hosts that are low, undecided, or without a value.
    fn notes(&self) -> Vec<Note> {
        let all = count_in_words(self.group.nodes, "host");
        let limit = self.group.loss_limit().in_whole_percent();
        let mut notes = Vec::new();
        let slow = self.names_with_verdict(Some(GroupVerdict::Slow)).join(", ");
        if !slow.is_empty() {
            let text = format!("{slow} (more than {limit} worse than the median of {all})");
            notes.push(Note::new("slow", text).tone(Tone::Warning));
        }
        let below = self.names_with_verdict(Some(GroupVerdict::Below)).join(", ");
        if !below.is_empty() {
            let text = format!(
                "{below} (more than {limit} worse than the median of {all}; a verdict needs {MIN_NODES} hosts)"
            );
            notes.push(Note::new("below", text).tone(Tone::Warning));
        }
        let undecided = self.names_with_verdict(Some(GroupVerdict::Undecided)).join(", ");
        if let Some(power) = self.power.as_ref().filter(|_| !undecided.is_empty()) {
            let sought = power.sought.in_whole_percent();
            let text = format!("{undecided} (a loss of {sought} is not excluded)");
            notes.push(Note::new("undecided", text).tone(Tone::Warning));
        }
        if let Some(power) = &self.power {
            notes.push(Note::new("power", power.in_words()));
        }
        let without = self.names_with_verdict(None).join(", ");
        if !without.is_empty() {
            notes.push(Note::new("no figure", without).tone(Tone::Warning));
        }
        notes
    }
}

/// Returns the section on the hosts of a run, with one row per host, best first; `None` for a run on one host.
pub fn section(record: &Record, gauge: &str, registry: &Registry) -> Option<Section> {
    let ranking = HostRanking::from_record(record, gauge, registry)?;
    let lead = ranking.hosts[0].figure;
    let what = lead.name_in_words();
    let what = if what == lead.name { what } else { format!("{} {what}", lead.test) };
    let mut section = Section::new("hosts");
    section.push(ranking.table(record, &what));
    let bars = ranking.hosts.iter().map(|host| {
        let m = host.figure;
        ChartBar::bar(host.name, m.value, "").with_validity(m)
    });
    section.push(Picture::bars(format!("{what} of each host"), lead.unit, bars));
    let measured = ranking.group.nodes;
    section.note(
        "median",
        format!(
            "{} of {}, spread {} (best to slowest)",
            lead.unit.in_words(ranking.median),
            count_in_words(measured, "host"),
            Fraction(ranking.spread),
        ),
    );
    let sum = record.measurements.iter().find(|m| {
        m.gauge == gauge && m.test == lead.test && m.name == format!("{}_sum", lead.name)
    });
    section.note_if("sum", sum.map(Measurement::in_words));
    for note in ranking.notes() {
        section.push(note);
    }
    doubts(&ranking, &mut section);
    let first = record.hosts().first().map(|first| format!("{first}, the host of rank 0"));
    section.note_if("details", first);
    Some(section)
}

/// Returns a sentence on the hosts of a run: the median, the slow hosts, and those without a figure. Returns `None` for
/// a run on one host, or if no host has a value.
pub fn conclusion(record: &Record, gauge: &str, registry: &Registry) -> Option<String> {
    let ranking = HostRanking::from_record(record, gauge, registry)?;
    judged_value(ranking.hosts[0].figure)?;
    let sentence = ranking.sentence();
    let without = ranking.names_with_verdict(None);
    Some(match without.as_slice() {
        [] => sentence,
        [one] => format!("{sentence}; {one} has no figure"),
        several => format!("{sentence}; {} have no figure", several.join(", ")),
    })
}

/// Returns the names of other figures of the same test that have the unit of `lead`; empty if there are too many for
/// the table.
fn further_names(record: &Record, lead: &Measurement) -> Vec<String> {
    let of = |m: &&Measurement| {
        m.gauge == lead.gauge
            && m.test == lead.test
            && m.unit == lead.unit
            && m.host() == lead.host()
    };
    let others = record.measurements.iter().filter(of).filter(|m| m.name != lead.name);
    let names: Vec<String> = others.map(|m| m.name.clone()).collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    if names.len() > MAX_FURTHER || distinct.len() < names.len() { Vec::new() } else { names }
}

fn cell(m: &Measurement) -> TableCell {
    match m.value {
        Some(value) => TableCell::figure(value, m.unit, m.unit.in_words(value)),
        None => m.validity.status.name().into(),
    }
}

/// Returns the remark on a host: the slowest, suspect, or both.
fn remark(host: &RankedHost<'_>, is_slowest: bool) -> String {
    let status = host.figure.validity.status;
    let doubt = (host.figure.value.is_some() && status != Status::Valid).then(|| status.name());
    let words: Vec<&str> = is_slowest.then_some("slowest").into_iter().chain(doubt).collect();
    words.join(", ")
}

/// Adds the decisive reason of each suspect or invalid figure with the hosts that have it. Reasons that differ only in
/// numbers are combined. A reason that applies to all hosts is left out, because the details of the first host contain
/// it.
fn doubts(ranking: &HostRanking<'_>, section: &mut Section) {
    let of = |host: &RankedHost<'_>| {
        let validity = &host.figure.validity;
        let reason = validity.reasons.first().filter(|_| validity.status != Status::Valid)?;
        Some((host.name.to_owned(), validity.status, reason.clone()))
    };
    let doubted: Vec<(String, Status, String)> = ranking.hosts.iter().filter_map(of).collect();
    let kind = |(_, status, reason): &&(String, Status, String)| {
        let words: String = reason.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        (status.name(), words)
    };
    for (_, same) in group_by_key(doubted.iter(), kind) {
        if same.len() == ranking.hosts.len() {
            continue;
        }
        let (_, status, reason) = same[0];
        let names: Vec<&str> = same.iter().map(|(name, ..)| name.as_str()).collect();
        section.push(Note::doubt(*status, format!("{}: {reason}", names.join(", "))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::record::Category;

    fn report(model: &str, triad: f64) -> HostReport {
        let figure = |name: &str, unit, value| {
            Measurement::new("memory", "stream", name, unit)
                .with_category(Category::Variant)
                .with_value(QuotedStatistic::Best, value)
        };
        let mut machine = Machine::default();
        machine.processor.model = Some(model.to_owned());
        let measurements = vec![
            figure("copy", Unit::BytesPerSecond, triad * 0.9),
            figure("triad", Unit::BytesPerSecond, triad),
        ];
        let outcome = Outcome { measurements, ..Outcome::default() };
        HostReport::new(machine, Vec::new(), outcome)
    }

    fn run() -> Outcome {
        let silent = Failure::missing("no response within 30 s");
        merge_host_reports(vec![
            ("n1".to_owned(), Ok(report("A", 100e9))),
            ("n2".to_owned(), Ok(report("A", 80e9))),
            ("n3".to_owned(), Err(silent)),
            ("n4".to_owned(), Ok(report("B", 101e9))),
        ])
    }

    fn record() -> Record {
        let run = run();
        serde_json::from_value(serde_json::json!({
            "schema": "nodegauge/1", "id": "1", "started": "", "seconds": 1.0, "complete": true,
            "tool": {"version": "1", "commit": null}, "command": [], "machine": Machine::default(),
            "notices": run.notices, "measurements": run.measurements,
        }))
        .unwrap()
    }

    #[test]
    fn host_without_response_is_ranked_last() {
        let record = record();
        let ranking = HostRanking::from_record(&record, "memory", &Registry::default()).unwrap();
        let names: Vec<&str> = ranking.hosts.iter().map(|host| host.name).collect();
        assert_eq!(names, ["n4", "n1", "n2", "n3"]);
        assert!((ranking.median - 100e9).abs() < 1.0);
        assert!((ranking.spread - 0.21).abs() < 1e-9);
        assert_eq!(ranking.hosts_to_exclude(), ["n3", "n2"]);
        assert_eq!(ranking.names_with_verdict(Some(GroupVerdict::Below)), ["n2"]);
        assert_eq!(ranking.names_with_verdict(None), ["n3"]);
        let section = section(&record, "memory", &Registry::default()).unwrap();
        let text = format!("{section:?}");
        for reported in
            ["no response within 30 s", "slowest", "281.0 GB/s", "100.0 GB/s of 3 hosts"]
        {
            assert!(text.contains(reported), "{reported}: {text}");
        }
    }

    #[test]
    fn hosts_are_ranked_by_the_last_common_figure() {
        let figure = |host: &str, set: u64, pages: &str, ns: f64| {
            let name = set.to_string();
            let m = Measurement::new("memory", "latency", name, Unit::Seconds)
                .with_value(QuotedStatistic::Median, ns * 1e-9);
            let mut m = with_host(m, host);
            m.config.insert("pages".to_owned(), pages.into());
            m.config.insert("set_bytes".to_owned(), set.into());
            m
        };
        let measurements = vec![
            figure("n1", 4096, "4k", 1.0),
            figure("n1", 1 << 30, "4k", 150.0),
            figure("n1", 1 << 30, "thp", 100.0),
            figure("n2", 4096, "4k", 1.0),
            figure("n2", 1 << 30, "4k", 90.0),
            figure("n2", 1 << 30, "thp", 120.0),
            figure("n2", 2 << 30, "thp", 130.0),
        ];
        let record = Record { measurements, ..record() };
        let ranking = HostRanking::from_record(&record, "memory", &Registry::default()).unwrap();
        let ranked: Vec<(&str, &str)> =
            ranking.hosts.iter().map(|host| (host.name, host.figure.name.as_str())).collect();
        assert_eq!(ranked, [("n1", "1073741824"), ("n2", "1073741824")]);
        assert_eq!(ranking.hosts_to_exclude(), ["n2"]);
        let section = section(&record, "memory", &Registry::default()).unwrap();
        assert!(format!("{section:?}").contains("latency 1 GiB"), "{section:?}");
    }

    /// Returns a record of hosts. The first host has `share` of the rate of the others, whose rates vary by `spread` in
    /// both directions.
    fn record_of(hosts: usize, share: f64, spread: f64, is_suspect: bool) -> Record {
        let measurements = (0..hosts).map(|at| {
            let deviation = spread * ((at * 7 % hosts) as f64 * 2.0 / hosts as f64 - 1.0);
            let rate = if at == 0 { share * 100e9 } else { 100e9 * deviation.exp() };
            let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
            let mut m = with_host(m.with_value(QuotedStatistic::Best, rate), &format!("n{at:02}"));
            if is_suspect {
                m.validity.mark_suspect("disturbed");
            }
            m
        });
        Record { measurements: measurements.collect(), ..record() }
    }

    #[test]
    fn conclusion_depends_on_number_and_spread_of_hosts() {
        let registry = Registry::default();
        for (hosts, share, spread, is_suspect, excluded, words) in [
            (
                2,
                0.8,
                0.0,
                false,
                "n00",
                "n00 is more than 4 % worse than the median of 2 hosts in triad",
            ),
            (
                3,
                0.99,
                0.0,
                false,
                "",
                "None of 3 hosts is more than 4 % worse than the median in triad",
            ),
            (7, 0.9, 0.001, false, "n00", "fewer than 8 hosts do not show which one is slow"),
            (
                7,
                0.99,
                0.001,
                true,
                "",
                "Cannot tell whether one of 7 hosts is slow in triad: disturbed",
            ),
            (8, 0.9, 0.001, false, "n00", "One of 8 hosts is slow in triad: n00"),
            (8, 0.9, 0.001, true, "n00", "One of 8 hosts is slow in triad: n00"),
            (
                8,
                0.85,
                0.2,
                false,
                "",
                "Cannot tell whether one of 8 hosts is slow in triad: cannot find a loss",
            ),
            (40, 0.9, 0.002, false, "n00", "One of 40 hosts is slow in triad: n00"),
            (40, 0.92, 0.05, false, "", "a loss of 10 % is not excluded for n00"),
            (40, 0.999, 0.002, false, "", "None of 40 hosts is slow in triad"),
        ] {
            let record = record_of(hosts, share, spread, is_suspect);
            let case = format!("{hosts} hosts, {share}, spread {spread}");
            let ranking = HostRanking::from_record(&record, "memory", &registry).unwrap();
            assert_eq!(ranking.hosts_to_exclude().join(" "), excluded, "{case}");
            let text = conclusion(&record, "memory", &registry).unwrap();
            assert!(text.contains(words), "{case}: {text}");
        }
    }

    #[test]
    fn sum_over_hosts_names_the_missing_hosts() {
        let outcome = run();
        let sum = outcome.measurements.iter().find(|m| m.name == "triad_sum").unwrap();
        assert_eq!(sum.value, Some(281e9));
        assert_eq!(sum.config["hosts"], serde_json::json!(["n1", "n2", "n4"]));
        assert_eq!(sum.validity.reasons, ["the sum does not include n3"]);
    }

    #[test]
    fn host_with_different_processor_is_reported() {
        let outcome = run();
        let reported: Vec<&str> = outcome.notices.iter().map(|n| n.message.as_str()).collect();
        assert!(
            reported.iter().any(|reported| reported.starts_with("different processor on n4: ")),
            "{reported:?}"
        );
        assert!(reported.contains(&"n3: no response within 30 s"), "{reported:?}");
    }

    #[test]
    fn record_of_one_host_has_only_its_figures() {
        let mut record = record();
        assert_eq!(record.hosts(), ["n1", "n2", "n3", "n4"]);
        record.keep_own_host();
        assert!(record.measurements.iter().all(|m| m.host() == Some("n1")));
        assert_eq!(record.measurements.len(), 2);
    }
}
