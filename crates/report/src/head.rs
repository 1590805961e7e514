//! Header of a page: host, processor, command and date of a run, and a sentence about the trust in its figures.

use crate::conclusion::to_sentence;
use crate::machine::{self, MACHINE_SECTION};
use nodegauge_gauge::view::{
    Block, Note, Page, PageHead, Section, Tone, distinct, group_by_key, sentence,
};
use nodegauge_machine::OTHER_LOAD;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::doubt::{self, CauseEvidence};
use nodegauge_measure::record::{
    Finding, Machine, Measurement, Processor, Record, Severity, Status, product_name,
};
use nodegauge_measure::samples::SAMPLE_NOUN;

/// Maximum number of hosts with the same processor in a title.
const HOSTS: usize = 4;
/// Message about a run that was interrupted or failed.
pub(crate) const INCOMPLETE_RUN: &str = "the run ended before everything was measured";

/// Returns the header of the page of a record.
pub(crate) fn page_head(record: &Record) -> PageHead {
    let (tone, trust) = trust(record);
    let mut findings = notes(machine::findings_section(&record.findings));
    findings.extend(machine::measured_cache_note(&record.machine));
    PageHead { title: title(&record.machine), facts: facts(record), trust, tone, findings }
}

/// Returns the header of a page as a section for text output; `None` if a section of the page describes the node.
pub(crate) fn head_section(page: &Page) -> Option<Section> {
    let is_described = page.sections.iter().any(|section| section.id == MACHINE_SECTION);
    let head = page.head.as_ref().filter(|_| !is_described)?;
    let mut section = Section::new(MACHINE_SECTION);
    section.note("command", head.facts.as_str());
    section.push(Note::new("trust", head.trust.as_str()).tone(head.tone));
    for note in head.findings.iter().filter(|note| note.label == machine::CACHES_LABEL) {
        section.push(note.clone());
    }
    Some(section)
}

/// Returns the notes of a section.
fn notes(section: Section) -> Vec<Note> {
    let notes = section.blocks.into_iter().filter_map(|block| match block {
        Block::Note(note) => Some(note),
        _ => None,
    });
    notes.collect()
}

/// Returns the names of host and processor: `n07, AMD EPYC 9654, 2 sockets x 96 cores`.
pub(crate) fn title(machine: &Machine) -> String {
    let HostAndProcessor { host, processor } =
        HostAndProcessor::new(machine.host.as_deref(), &machine.processor);
    format!("{host}, {processor}")
}

/// Names of a host and its processor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostAndProcessor {
    host: String,
    processor: String,
}

impl HostAndProcessor {
    /// Makes the names from a host and a processor, both of which may be unknown.
    pub(crate) fn new(host: Option<&str>, processor: &Processor) -> Self {
        let host = host.unwrap_or("unknown host").to_owned();
        let name = self::processor(processor);
        Self { host, processor: name.unwrap_or_else(|| "unknown processor".to_owned()) }
    }
}

/// Lists nodes, grouped by processor: `n07, n08, AMD EPYC 9654, 2 sockets x 96 cores`.
pub(crate) fn node_names(nodes: impl Iterator<Item = HostAndProcessor>) -> String {
    let mut titles = Vec::new();
    for (processor, same) in group_by_key(distinct(nodes), |node| node.processor.clone()) {
        let hosts: Vec<String> = same.into_iter().map(|node| node.host).collect();
        let hosts = if hosts.len() > HOSTS {
            count_in_words(hosts.len(), "host")
        } else {
            hosts.join(", ")
        };
        titles.push(format!("{hosts}, {processor}"));
    }
    titles.join("; ")
}

/// Describes the processor: `AMD EPYC 9654, 2 sockets x 96 cores`; `None` if it is unknown. The core count is unknown
/// for imported figures.
pub(crate) fn processor(processor: &Processor) -> Option<String> {
    let model = product_name(processor.model.as_ref()?);
    let sockets = count_in_words(processor.sockets as usize, "socket");
    let cores = match processor.cores / processor.sockets.max(1) {
        0 => String::new(),
        n => format!(" x {}", count_in_words(n as usize, "core")),
    };
    Some(format!("{model}, {sockets}{cores}"))
}

/// Describes the run: command, date, duration, kind of system, kernel.
fn facts(record: &Record) -> String {
    let command = repeat_command(record);
    let command = if record.command.is_empty() { format!("{command} run") } else { command };
    let date = sentence::start_minute(&record.started);
    let is_imported = record.machine.is_imported();
    let mut parts = vec![command, format!("{date} UTC")];
    let has_duration = !is_imported && !is_description(record);
    parts.extend(has_duration.then(|| record.seconds.to_string()));
    parts.extend(record.machine.virtualisation.as_ref().map(|kind| format!("{kind} guest")));
    parts.extend(record.machine.kernel.clone());
    parts.join(" \u{b7} ")
}

/// Returns the command that repeats the run, quoted for a shell.
pub fn repeat_command(record: &Record) -> String {
    shell_command(&record.command)
}

/// Returns the command of nodegauge with these arguments, quoted for a shell.
pub fn shell_command(words: &[String]) -> String {
    let words = words.iter().map(|word| quoted(word));
    std::iter::once("nodegauge".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns the command of several runs, or the number of commands if they differ.
pub(crate) fn command_names(commands: &[String]) -> String {
    match commands {
        [only] => only.clone(),
        several => count_in_words(several.len(), "command"),
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c));
    if !word.is_empty() && is_plain {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// True if the record only describes the node, without measurements.
fn is_description(record: &Record) -> bool {
    record.command.first().is_some_and(|word| word == "machine")
}

/// Returns the first words of a sentence about `part` of `all` figures: `2 of 3 figures are`, `all 3 figures are`,
/// `both figures are`, `the only figure is`.
fn part(part: usize, all: usize) -> String {
    match part {
        1 if all == 1 => "the only figure is".to_owned(),
        1 => format!("1 of {all} figures is"),
        2 if all == 2 => "both figures are".to_owned(),
        n if n == all => format!("all {all} figures are"),
        n => format!("{n} of {all} figures are"),
    }
}

/// Returns the cause of most of the suspect figures ([`doubt::main_cause`]). If the reasons of these figures are only
/// symptoms, e.g. too few samples, and other load was critical when the run began, the other load is the cause.
fn cause<'a>(own: &[&'a Measurement], findings: &'a [Finding]) -> &'a str {
    let found = doubt::main_cause(own.iter().copied()).unwrap_or("?");
    let load =
        findings.iter().find(|one| one.id == OTHER_LOAD && one.severity >= Severity::Critical);
    match load {
        Some(load) if CauseEvidence::from_reason(found) == CauseEvidence::Symptom => &load.text,
        _ => found,
    }
}

/// Maximum number of valid figures that are named; if there are more, they are counted.
const NAMED: usize = 4;

/// Returns the sentence on the valid figures of a record that also has suspect or invalid figures, followed by a blank;
/// empty without valid figures. Figures of a single test are named; figures of several gauges are counted per gauge.
fn valid_part(own: &[&Measurement]) -> String {
    let valid: Vec<&Measurement> =
        own.iter().copied().filter(|m| m.validity.status == Status::Valid).collect();
    if valid.is_empty() || valid.len() == own.len() {
        return String::new();
    }
    let mut parts = Vec::new();
    let gauges = distinct(own.iter().map(|m| m.gauge.as_str()));
    let names = distinct(valid.iter().map(|m| m.name.as_str()));
    if gauges.len() > 1 {
        for gauge in gauges {
            let all = own.iter().filter(|m| m.gauge == gauge).count();
            let count = valid.iter().filter(|m| m.gauge == gauge).count();
            if count > 0 {
                parts.push(format!("{gauge} {count} of {all}"));
            }
        }
    } else if valid.len() == names.len() && names.len() <= NAMED {
        parts.extend(names.into_iter().map(str::to_owned));
    }
    let which = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!("Valid: {} of {}{which}. ", valid.len(), count_in_words(own.len(), "figure"))
}

/// Returns the sentence on the trust in the figures of a record: first the valid figures, then the others with the
/// reasons.
fn trust(record: &Record) -> (Tone, String) {
    let own: Vec<&Measurement> = record.measurements.iter().filter(|m| !m.is_published()).collect();
    let [suspect, invalid] = [Status::Suspect, Status::Invalid]
        .map(|status| own.iter().filter(|m| m.validity.status == status).count());
    let critical = record.findings.iter().find(|one| one.severity >= Severity::Critical);
    let ended =
        if record.complete { String::new() } else { format!(" {}", to_sentence(INCOMPLETE_RUN)) };
    if own.is_empty() {
        let tone = if is_description(record) { Tone::Plain } else { Tone::Warning };
        return (tone, format!("The record has no figures.{ended}"));
    }
    let (tone, text) = if invalid > 0 {
        let doubted = own.iter().find(|m| m.validity.status == Status::Invalid);
        let why = doubted.and_then(|m| m.validity.reasons.first()).map_or("?", String::as_str);
        (
            Tone::Bad,
            format!(
                "{}Do not use the invalid figures: {} invalid ({why}).",
                valid_part(&own),
                part(invalid, own.len())
            ),
        )
    } else if suspect > 0 {
        let why = cause(&own, &record.findings);
        let suspect = part(suspect, own.len());
        (Tone::Warning, format!("{}Use with care: {suspect} suspect ({why}).", valid_part(&own)))
    } else if record.machine.is_imported() {
        let text = "As printed by another program: the state of the node is unknown.";
        (Tone::Plain, text.to_owned())
    } else if let Some(critical) = critical {
        (Tone::Warning, format!("Use with care: {}.", critical.text))
    } else {
        let disturbed: usize = own.iter().map(|m| m.disturbed_samples().count()).sum();
        let clean: usize = own.iter().map(|m| m.undisturbed_samples().count()).sum();
        let left_out = match disturbed {
            0 => String::new(),
            n => {
                let disturbed_part = SAMPLE_NOUN.sentence_start(n, clean + n);
                let them = number_form(n, "it", "them");
                format!("; {disturbed_part} disturbed: medians leave {them} out")
            }
        };
        let all = if own.len() == 1 {
            "only figure".to_owned()
        } else {
            count_in_words(own.len(), "figure")
        };
        (Tone::Plain, format!("Valid: nothing casts doubt on the {all}{left_out}."))
    };
    let tone = if record.complete || tone == Tone::Bad { tone } else { Tone::Warning };
    (tone, format!("{text}{ended}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_measure::Unit;
    use nodegauge_measure::record::QuotedStatistic;

    fn suspect(reasons: &[&str]) -> Measurement {
        let m = Measurement::new("memory", "stream", "triad", Unit::BytesPerSecond);
        let mut m = m.with_value(QuotedStatistic::Best, 1e9);
        reasons.iter().for_each(|reason| m.validity.mark_suspect(*reason));
        m
    }

    fn named(figures: &[Measurement], findings: &[Finding]) -> String {
        cause(&figures.iter().collect::<Vec<_>>(), findings).to_owned()
    }

    const FEW: &str = "only 1 pass in the budget: use a larger --budget";
    const LOAD: &str = "3 of 4 passes were disturbed";
    const QUOTA: &str = "the CPU quota of the control group throttled 9 of 10 periods";

    fn busy(severity: Severity) -> Finding {
        let text = "other processes used 100 % of the CPU time".to_owned();
        let id = OTHER_LOAD.to_owned();
        Finding { id, severity, text, remedy: String::new(), cost: None }
    }

    #[test]
    fn other_load_precedes_a_small_budget_as_cause() {
        let few = [suspect(&[FEW]), suspect(&[FEW]), suspect(&[FEW, LOAD])];
        assert_eq!(named(&few, &[]), FEW);
        assert_eq!(named(&few, &[busy(Severity::Warning)]), FEW);
        assert!(named(&few, &[busy(Severity::Critical)]).starts_with("other processes used 100 %"));
        let disturbed = [suspect(&[FEW]), suspect(&[FEW, LOAD])];
        assert_eq!(named(&disturbed, &[]), LOAD);
    }

    #[test]
    fn measured_cause_precedes_an_inferred_cause() {
        let both = [suspect(&[LOAD, QUOTA]), suspect(&[LOAD])];
        assert_eq!(named(&both, &[busy(Severity::Critical)]), QUOTA);
    }

    #[test]
    fn known_property_precedes_an_inferred_cause() {
        let small = "arrays are 2 times the last-level caches in use";
        let figures = [suspect(&[LOAD, small]), suspect(&[LOAD, small])];
        assert_eq!(named(&figures, &[]), small);
    }

    #[test]
    fn reason_of_one_figure_does_not_explain_the_others() {
        let small = "arrays are 2 times the last-level caches in use";
        let figures = [suspect(&[LOAD]), suspect(&[small]), suspect(&[small]), suspect(&[small])];
        assert_eq!(named(&figures, &[]), small);
        let several = ["1 of 3 passes was disturbed", "2 of 3 passes were disturbed"];
        let same =
            [suspect(&several[..1]), suspect(&[LOAD]), suspect(&["7 of 9 passes were disturbed"])];
        assert_eq!(named(&same, &[]), LOAD);
    }

    fn good(name: &str, gauge: &str) -> Measurement {
        Measurement::new(gauge, "test", name, Unit::BytesPerSecond)
            .with_value(QuotedStatistic::Best, 1e9)
    }

    fn valid_sentence(figures: &[Measurement]) -> String {
        valid_part(&figures.iter().collect::<Vec<_>>())
    }

    #[test]
    fn valid_figures_are_named_if_others_are_suspect() {
        let doubted = suspect(&[FEW]);
        assert_eq!(valid_sentence(&[good("copy", "memory")]), "");
        assert_eq!(valid_sentence(std::slice::from_ref(&doubted)), "");
        let one = [good("copy", "memory"), doubted.clone()];
        assert_eq!(valid_sentence(&one), "Valid: 1 of 2 figures (copy). ");
        let two = [good("copy", "memory"), good("rating", "compute"), doubted];
        assert_eq!(valid_sentence(&two), "Valid: 2 of 3 figures (memory 1 of 2, compute 1 of 1). ");
    }
}
