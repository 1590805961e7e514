//! The pages of records: the machine, what matters of the findings, the figures with their evidence.

use crate::compare::cut;
use crate::{Conditions, card, machine, topology};
use nodegauge_gauge::view::{Block, Cell, Note, Page, Section, Table, Tone};
use nodegauge_gauge::{Detail, Gauge};
use nodegauge_measure::Seconds;
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::counted;
use nodegauge_measure::record::{Finding, Record, Severity};
use std::collections::BTreeSet;

/// Longest name of a run, and fewest characters of an identifier that names one.
const NAME: usize = 40;
const ID: usize = 8;

/// What is said of a run that was ended early.
pub(crate) const INCOMPLETE: &str = "the run was interrupted before all was measured";
/// Findings that the page shows; `doctor` shows all.
const FINDINGS_SHOWN: usize = 2;

/// The page of a record: when and where it was measured, and what was. It has all evidence and what was
/// noticed on the way where one gauge alone was at work, as that gauge's command shows it, and where `all`
/// is asked for. `run` and `history show` print it.
pub fn page(record: &Record, gauges: &[&dyn Gauge], all: bool) -> Page {
    let first = record.measurements.first();
    let alone = record.measurements.iter().all(|m| Some(&m.gauge) == first.map(|m| &m.gauge));
    let detail = if alone || all { Detail::Full } else { Detail::Brief };
    ended(begun(record, gauges, detail), record, detail == Detail::Full)
}

/// What the command of one gauge shows of its record: the page without when and where.
pub fn own(record: &Record, gauge: &dyn Gauge) -> Page {
    let page = Page { heading: String::new(), sections: gauge.view(record, Detail::Full) };
    ended(page, record, true)
}

/// Everything that a record holds, for a report: the node in a few bars beside `others`, what matters of the
/// findings, all evidence of every gauge, the environment, and how to repeat it.
pub fn whole(record: &Record, gauges: &[&dyn Gauge], others: &[Record]) -> Page {
    let mut node = Section::new("node");
    node.push(Block::Card(card::card(record, gauges, others)));
    let matter = record.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    node.blocks.extend(matter.map(|one| machine::finding(one).into()));
    regimes(record, gauges, &mut node);
    let measured = record.measurements.iter().filter(|m| !m.is_published());
    if !record.measurements.is_empty()
        && measured.clone().all(|m| m.samples.len() + m.disturbed.len() < 2)
    {
        let text =
            "the record has none: each figure was measured once, or another program printed it";
        node.note("samples", text);
    }
    if measured.clone().next().is_none() {
        node.note("figures", "the record has none");
    }
    let mut all = begun(record, gauges, Detail::Full);
    let parts = all.sections.drain(..).skip(1);
    let mut sections: Vec<Section> = std::iter::once(node).chain(parts).collect();
    let mut environment = machine::page(&record.machine).sections;
    let placed = topology::pictures(record).into_iter().map(Block::from);
    environment[0].blocks.splice(0..0, placed);
    sections.append(&mut environment);
    if !record.findings.is_empty() {
        sections.push(machine::findings(&record.findings));
    }
    sections.push(repeat(record));
    ended(Page { sections, ..all }, record, true)
}

/// What a ticket needs of a record: the figures that stand for the node with limit and validity, the least evidence of
/// every gauge, what was expected, findings, the environment.
pub fn ticket(
    record: &Record,
    gauges: &[&dyn Gauge],
    conditions: Conditions<'_>,
    registry: &Registry,
) -> Page {
    let mut page = begun(record, gauges, Detail::Brief);
    let mut table = Table::new(&["figure", ">value", ">of limit", "limit", "validity"]);
    let headlines = gauges.iter().flat_map(|gauge| gauge.headlines(record));
    for (headline, m) in headlines.filter_map(|one| Some((one, one.figure?))) {
        let limit = m.limit.as_ref();
        let status = m.validity.status.name();
        table.row([
            format!("{}: {}", headline.title, headline.what).into(),
            Cell::from(m.in_words()).tone(Tone::Strong),
            limit.map_or("?".to_owned(), |of| format!("{:.1} %", of.fraction * 100.0)).into(),
            limit
                .map_or("no limit is known".to_owned(), |of| {
                    format!("{}, {}", m.unit.in_words(of.value), of.basis)
                })
                .into(),
            m.validity
                .reasons
                .first()
                .map_or(status.to_owned(), |why| format!("{status}: {why}"))
                .into(),
        ]);
    }
    let mut figures = Section::new("figures");
    if !table.rows.is_empty() {
        figures.push(table);
    }
    for expectation in conditions.expect {
        let judged = expectation.check(&record.measurements, conditions.accept_suspect, registry);
        let (label, tone) =
            if judged.is_met() { ("met", Tone::Better) } else { ("not met", Tone::Bad) };
        figures.push(Note::new(label, judged.in_words(expectation)).tone(tone));
    }
    page.sections[0] = figures;
    let mut notes = Section::new("notes");
    if !record.complete {
        notes.push(Note::new("incomplete", INCOMPLETE).tone(Tone::Warning));
    }
    record.notices.iter().for_each(|notice| _ = notes.note("note", notice.to_string()));
    let findings = (!record.findings.is_empty()).then(|| machine::findings(&record.findings));
    page.sections.push(notes);
    page.sections.extend(findings);
    page.sections.extend(machine::page(&record.machine).sections);
    page.sections.push(about(record));
    page
}

/// The regimes of a figure of each test: of that which stands for the gauge, else of the first that met
/// several.
fn regimes(record: &Record, gauges: &[&dyn Gauge], section: &mut Section) {
    let mut table = Table::new(&["regimes", ">there and back", ">of samples", ">best", ">median"]);
    let heads = gauges.iter().flat_map(|gauge| gauge.headlines(record));
    let heads = heads.filter_map(|headline| headline.figure);
    let mut tests: BTreeSet<&str> = BTreeSet::new();
    for m in heads.chain(&record.measurements) {
        if m.regimes.len() < 2 || !tests.insert(&m.test) {
            continue;
        }
        for regime in &m.regimes {
            let value = |value: f64| Cell::figure(value, m.unit, m.unit.in_words(value));
            table.row([
                format!("{} {}", m.test, m.name).into(),
                Seconds(regime.round_trip_s).to_string().into(),
                format!("{:.0} %", regime.share * 100.0).into(),
                value(regime.summary.best),
                value(regime.summary.median),
            ]);
        }
    }
    let watched = record.measurements.iter().any(|m| !m.samples_round_trip_s.is_empty());
    match table.rows.is_empty() {
        true if watched => {
            _ = section.note("regimes", "one, as far as round trips between cores tell")
        }
        true => {}
        false => _ = section.push(table),
    }
}

/// Which run it is, and the command that makes another like it.
fn repeat(record: &Record) -> Section {
    let mut section = Section::new("run");
    section.note("command", command(record));
    section.blocks.append(&mut about(record).blocks);
    section
}

/// Which run it is, and of what program.
fn about(record: &Record) -> Section {
    let mut section = Section::new("run");
    section.note("record", format!("{}, {}", record.id, record.schema));
    let labels = labels(record);
    section.note_if("labels", (!labels.is_empty()).then(|| labels.join(", ")));
    let commit = record.tool.commit.as_deref().unwrap_or("commit unknown");
    section.note("program", format!("nodegauge {} ({commit})", record.tool.version));
    section
}

/// The command that makes another run like it, as shells read it.
pub fn command(record: &Record) -> String {
    let words = record.command.iter().map(|word| quoted(word));
    std::iter::once("nodegauge".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word as shells read it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// What each of several runs is called: by the labels in which they differ, with the host where others have the same
/// labels, else by identifier and host.
pub fn names(runs: &[Record]) -> Vec<String> {
    let differs =
        |key: &String| runs.iter().any(|run| run.labels.get(key) != runs[0].labels.get(key));
    let short = |run: &Record, n: usize| run.id.chars().take(n).collect::<String>();
    let all_short = |n: usize| runs.iter().map(move |run| short(run, n));
    let tells = |n: &usize| all_short(*n).collect::<BTreeSet<_>>().len() == runs.len();
    let n = (ID..NAME).find(tells).unwrap_or(NAME);
    let of_run = |run: &Record| {
        let own = run.labels.iter().filter(|(key, _)| differs(key));
        let labels: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
        let host = run.machine.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        let labels = cut(&labels.join(" "), NAME);
        let id = short(run, n);
        let [by_host, by_id] = [&labels, &id].map(|first| cut(&format!("{first}{host}"), NAME));
        vec![labels.clone(), by_host, format!("{labels}, {id}"), by_id]
    };
    let called: Vec<Vec<String>> = runs.iter().map(of_run).collect();
    let name = |own: &Vec<String>| {
        let is_own = |kind: usize| called.iter().filter(|all| all[kind] == own[kind]).count() == 1;
        let kinds = if own[0].is_empty() { 3..4 } else { 0..3 };
        let kind = kinds.clone().find(|kind| is_own(*kind)).unwrap_or(kinds.end - 1);
        own[kind].clone()
    };
    called.iter().map(name).collect()
}

/// Labels as they were given.
fn labels(record: &Record) -> Vec<String> {
    record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn begun(record: &Record, gauges: &[&dyn Gauge], detail: Detail) -> Page {
    let host = record.machine.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    let heading = format!(
        "nodegauge {}{host}, {}, {}",
        record.tool.version,
        record.started,
        Seconds(record.seconds)
    );
    let mut node = machine::brief(&record.machine);
    findings(&record.findings, &mut node);
    let parts = gauges.iter().flat_map(|gauge| gauge.view(record, detail));
    Page { heading, sections: std::iter::once(node).chain(parts).collect() }
}

/// Behind the last section: that a run was interrupted, so that its table is not taken for whole, and
/// what was noticed on the way, or where that is found; then what it all comes to.
fn ended(mut page: Page, record: &Record, notices: bool) -> Page {
    page.sections.retain(|section| !section.blocks.is_empty());
    let summaries: Vec<Section> =
        page.sections.extract_if(.., |section| section.is_summary()).collect();
    if page.sections.is_empty() {
        page.sections.push(Section::new("notes"));
    }
    let last = page.sections.last_mut().expect("one was just added");
    if !record.complete {
        last.push(Note::new("incomplete", INCOMPLETE).tone(Tone::Warning));
    }
    for notice in record.notices.iter().filter(|_| notices) {
        last.note("note", notice.to_string());
    }
    if !notices {
        let noticed = counted(record.notices.len(), "note");
        last.push(Note::new("more", format!("all figures and {noticed}: -v")).faint());
    }
    page.sections.extend(summaries);
    page
}

/// The findings that matter most, and how many more there are.
fn findings(findings: &[Finding], section: &mut Section) {
    let matter = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let shown: Vec<&Finding> = matter.take(FINDINGS_SHOWN).collect();
    for finding in &shown {
        section.push(machine::finding(finding));
    }
    let more = findings.len() - shown.len();
    if more > 0 {
        let label = if shown.is_empty() { "findings" } else { "" };
        let text = format!("{more} more with their remedies: nodegauge doctor");
        section.push(Note::new(label, text).faint());
    }
}
