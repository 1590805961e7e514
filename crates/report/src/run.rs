//! Pages of records: the machine, the most important findings, and the figures with samples and notes.

use crate::compare::shorten_middle;
use crate::head::INCOMPLETE_RUN;
pub use crate::head::{repeat_command, shell_command};
use crate::{Conditions, card, conclusion, head, machine, terms, topology};
use nodegauge_analysis::compare::{COMPARED_LABEL, IMPORT_LABEL, TURNS_LABEL};
use nodegauge_gauge::view::{Block, ColumnList, FigureBar, Note, Page, Section, TableCell, Tone};
use nodegauge_gauge::{Detail, Gauge, hosts};
use nodegauge_measure::keys::Registry;
use nodegauge_measure::quantity::{count_in_words, number_form};
use nodegauge_measure::record::{Finding, Measurement, Record, RegimeSamples, Severity};
use nodegauge_measure::{Fraction, Notice, NoticeId, Seconds};
use std::collections::BTreeSet;

/// Maximum number of characters of the name of a run.
const NAME: usize = 40;
/// Number of characters of an identifier in the name of a run.
const ID: usize = 8;

/// Maximum number of findings on the page; `doctor` prints all.
const FINDINGS_SHOWN: usize = 2;

/// Returns the page of a record that `run` and `history show` print: start time, host and figures. With `all`, or if
/// there is only one gauge, it contains all samples and notices.
pub fn page(record: &Record, gauges: &[&dyn Gauge], all: bool) -> Page {
    let first = record.measurements.first();
    let alone =
        record.measurements.iter().all(|m| Some(&m.gauge) == first.map(|other| &other.gauge));
    let detail = if alone || all { Detail::Full } else { Detail::Brief };
    completed_page(page_with_node(record, gauges, detail), record, detail == Detail::Full)
}

/// Returns the page that the command of a gauge prints: [`page`] without description of the node and findings.
pub fn gauge_page(record: &Record, gauge: &dyn Gauge) -> Page {
    completed_page(page_with_header(record, &[gauge], Detail::Full), record, true)
}

/// Returns the complete page of a record for a report: pictures, all samples and notes of every gauge, environment, and
/// the command that repeats the run. The figures are compared with those of `earlier` runs.
pub fn report_page(
    record: &Record,
    gauges: &[&dyn Gauge],
    earlier: &[Record],
    registry: &Registry,
) -> Page {
    let mut node = Section::new("node");
    let card = card::headline_card(record, gauges, earlier, registry);
    let mut measured = record.measurements.iter().filter(|m| !m.is_published());
    let all: BTreeSet<&str> = measured.clone().map(|m| m.gauge.as_str()).collect();
    // The page of a single gauge begins with the picture of that gauge.
    if all.len() > 1 && !card.bars.is_empty() {
        node.push(Block::Card(card));
    }
    regimes(record, gauges, &mut node);
    if measured.clone().next().is_some()
        && measured.all(|m| m.samples.len() + m.disturbed.len() < 2)
    {
        let text =
            "none in the record: each figure was measured once, or another program printed it";
        node.note("samples", text);
    }
    let mut page = page_with_node(record, gauges, Detail::Full);
    let mut sections: Vec<Section> = page.sections.drain(..).skip(1).collect();
    let at = if all.len() > 1 { 0 } else { sections.len() };
    sections.insert(at, node);
    let mut environment = machine::page(&record.machine).sections;
    let placed = topology::pictures(record).into_iter().map(Block::from);
    environment[0].blocks.extend(placed);
    sections.append(&mut environment);
    sections.push(repeat(record));
    completed_page(Page { sections, ..page }, record, true)
}

/// Returns the page of a record for a ticket: headline figures with limit and validity, short notes of every gauge,
/// expectations, findings, and environment.
pub fn ticket_page(
    record: &Record,
    gauges: &[&dyn Gauge],
    conditions: Conditions<'_>,
    registry: &Registry,
) -> Page {
    let mut page = page_with_node(record, gauges, Detail::Brief);
    let mut rows = Vec::new();
    for gauge in gauges {
        for headline in gauge.headlines(record) {
            let Some(m) = headline.figure else { continue };
            let title = format!("{}: {}", headline.title, headline.what);
            let bar = FigureBar::new("", "", m, gauge.reach(record, m), &record.machine);
            rows.push(TicketRow { title, m, bar });
        }
    }
    let columns = ColumnList::<TicketRow<'_>>::new()
        .left("figure", |row| row.title.clone())
        .right("value", |row| TableCell::text(row.m.in_words()).tone(Tone::Strong))
        .right("of limit", |row| {
            let share = row.bar.as_ref().and_then(FigureBar::share);
            share.map_or_else(|| "?".to_owned(), Fraction::in_tenths)
        })
        .left("limit", |row| {
            let limits = row.bar.as_ref().and_then(FigureBar::limits_in_words);
            limits.unwrap_or_else(|| "no limit is known".to_owned())
        })
        .left("validity", |row| {
            let status = row.m.validity.status.name();
            match row.m.validity.reasons.first() {
                Some(why) => format!("{status}: {why}"),
                None => status.to_owned(),
            }
        });
    let table = columns.table(rows);
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
        notes.push(Note::new("incomplete", INCOMPLETE_RUN).tone(Tone::Warning));
    }
    record.notices.iter().for_each(|notice| _ = notes.note("note", notice.single_line()));
    let findings =
        (!record.findings.is_empty()).then(|| machine::findings_section(&record.findings));
    page.sections.push(notes);
    page.sections.extend(findings);
    page.sections.extend(machine::page(&record.machine).sections);
    page.sections.push(about(record));
    page
}

/// Row of a ticket: a headline figure with its limits.
struct TicketRow<'a> {
    title: String,
    m: &'a Measurement,
    bar: Option<FigureBar>,
}

/// Adds one table per test with the regimes of a figure (groups of samples with similar core-to-core round trips), and
/// marks the regime that the figure is from. The figure is the headline figure, otherwise the first figure with several
/// regimes.
fn regimes(record: &Record, gauges: &[&dyn Gauge], section: &mut Section) {
    let headlines = gauges.iter().flat_map(|gauge| gauge.headlines(record));
    let heads = headlines.filter_map(|headline| headline.figure);
    let mut tests: BTreeSet<&str> = BTreeSet::new();
    let mut rows = Vec::new();
    for m in heads.chain(&record.measurements) {
        if m.regimes.len() < 2 || !tests.insert(&m.test) {
            continue;
        }
        rows.extend(m.regimes.iter().map(|regime| (m, regime)));
    }
    let columns = ColumnList::<(&Measurement, &RegimeSamples)>::new()
        .left("regimes", |(m, regime)| {
            let is_quoted = m.summary.as_ref() == Some(&regime.summary);
            format!("{} {}{}", m.test, m.name, if is_quoted { ", quoted" } else { "" })
        })
        .right("core round trip", |(_, regime)| Seconds(regime.round_trip_s).to_string())
        .right("of samples", |(_, regime)| regime.share.in_whole_percent())
        .right("best", |(m, regime)| TableCell::in_words(regime.summary.best, m.unit))
        .right("median", |(m, regime)| TableCell::in_words(regime.summary.median, m.unit));
    let table = columns.table(rows);
    let watched = record.measurements.iter().any(|m| !m.samples_round_trip_s.is_empty());
    if !table.rows.is_empty() {
        section.push(table);
        let text = "figures are from the regime with the shortest round trip that has enough \
                    samples; the best value of another regime may be better";
        section.note("quoted", text);
    } else if watched {
        section.note("regimes", "all samples have similar core-to-core round trips");
    }
}

/// Returns a section with the command that repeats the run, and with its identifier.
fn repeat(record: &Record) -> Section {
    let mut section = Section::new("run");
    section.note("command", repeat_command(record));
    section.blocks.append(&mut about(record).blocks);
    section
}

/// Returns a section with the identifiers of the run and the program.
fn about(record: &Record) -> Section {
    let mut section = Section::new("run");
    section.note("record", format!("{}, {}", record.id, record.schema));
    let labels = labels(record);
    section.note_if("labels", (!labels.is_empty()).then(|| labels.join(", ")));
    let commit = record.tool.commit.as_deref().unwrap_or("commit unknown");
    section.note("program", format!("nodegauge {} ({commit})", record.tool.version));
    section
}

/// Returns names for several runs: the labels in which they differ, followed by the host if several runs have the same
/// labels. Without such labels, the names are identifier and host.
pub fn run_names(runs: &[Record]) -> Vec<String> {
    let is_unique = |n: &usize| {
        let short = runs.iter().map(|run| short_id(run, *n));
        short.collect::<BTreeSet<_>>().len() == runs.len()
    };
    let characters = (ID..NAME).find(is_unique).unwrap_or(NAME);
    let all: Vec<[String; 5]> =
        runs.iter().map(|run| possible_names(run, runs, characters)).collect();
    all.iter().map(|own| chosen_name(own, &all)).collect()
}

/// Returns the first characters of the identifier of a run.
fn short_id(run: &Record, characters: usize) -> String {
    run.id.chars().take(characters).collect()
}

/// Returns five possible names of a run, in descending order of preference. The first three begin with the labels in
/// which the runs differ, and are empty without such labels. The last two consist of host and identifier.
fn possible_names(run: &Record, runs: &[Record], characters: usize) -> [String; 5] {
    let own = run.labels.iter().filter(|(key, _)| {
        runs.iter().any(|other| other.labels.get(*key) != runs[0].labels.get(*key))
    });
    let mut own: Vec<(&String, &String)> = own.collect();
    if own.iter().any(|(key, _)| *key != IMPORT_LABEL) {
        own.retain(|(key, _)| *key != IMPORT_LABEL);
    }
    let is_named = own.iter().any(|(key, _)| *key == COMPARED_LABEL);
    let mut labels = Vec::new();
    for (key, value) in own {
        match key.as_str() {
            // Runs of `compare --run` are named by the differences between their commands.
            COMPARED_LABEL => labels.push(value.clone()),
            TURNS_LABEL if is_named => {}
            _ => labels.push(format!("{key}={value}")),
        }
    }
    let host = run.machine.host.as_deref().unwrap_or_default();
    let on_host = if host.is_empty() { String::new() } else { format!(" on {host}") };
    let labels = shorten_middle(&labels.join(" "), NAME);
    let id = short_id(run, characters);
    let [by_host, by_id] =
        [&labels, &id].map(|first| shorten_middle(&format!("{first}{on_host}"), NAME));
    [labels.clone(), by_host, format!("{labels}, {id}"), shorten_middle(host, NAME), by_id]
}

/// Returns the first possible name that is unique among all runs, otherwise the last one.
fn chosen_name(own: &[String; 5], all: &[[String; 5]]) -> String {
    let host_alone = if own[3].is_empty() { 4 } else { 3 };
    let kinds = if own[0].is_empty() { host_alone..5 } else { 0..3 };
    let last = kinds.end - 1;
    let unique = kinds
        .into_iter()
        .find(|kind| all.iter().filter(|other| other[*kind] == own[*kind]).count() == 1);
    own[unique.unwrap_or(last)].clone()
}

/// Returns the labels of a run as `key=value`.
fn labels(record: &Record) -> Vec<String> {
    record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// Returns the sections of a gauge. For a run on several hosts, the first section ranks the hosts, and the others
/// describe the first host.
fn sections(record: &Record, gauge: &dyn Gauge, detail: Detail) -> Vec<Section> {
    let registry = Registry::new(gauge.figure_kinds());
    let Some(ranking) = hosts::section(record, gauge.name(), &registry) else {
        return gauge.view(record, detail);
    };
    let mut first = record.clone();
    first.keep_own_host();
    let of_first = gauge.view(&first, detail);
    // The gauge name is shared by STREAM and the memory curves, so the ranking is shown only with the gauge that
    // measured.
    let ranking = Some(ranking).filter(|_| !of_first.is_empty());
    ranking.into_iter().chain(of_first).collect()
}

/// Creates the page of [`page_with_header`] with a description of the node and the most important findings.
fn page_with_node(record: &Record, gauges: &[&dyn Gauge], detail: Detail) -> Page {
    let mut page = page_with_header(record, gauges, detail);
    let node = &mut page.sections[0];
    node.blocks.append(&mut machine::brief_section(&record.machine).blocks);
    findings(&record.findings, node);
    page
}

/// Creates a page that begins with the header (node, command, date, trust in the figures), followed by the figures.
fn page_with_header(record: &Record, gauges: &[&dyn Gauge], detail: Detail) -> Page {
    let machine = &record.machine;
    let host = machine.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    let processor =
        head::processor(&machine.processor).map(|name| format!(", {name}")).unwrap_or_default();
    let Record { started, seconds, .. } = record;
    let heading =
        format!("nodegauge {}{host}{processor}, {started}, {seconds}", record.tool.version);
    let head = head::page_head(record);
    let mut node = Section::new(machine::MACHINE_SECTION);
    if !record.command.is_empty() {
        node.note("command", repeat_command(record));
    }
    node.push(Note::new("trust", head.trust.as_str()).tone(head.tone));
    if let Some(note) = machine::measured_cache_note(machine) {
        node.push(note);
    }
    let parts = gauges.iter().flat_map(|gauge| sections(record, *gauge, detail));
    let sections = std::iter::once(node).chain(parts).collect();
    Page {
        heading,
        conclusion: conclusion::record_conclusion(record, gauges),
        head: Some(head),
        sections,
    }
}

/// True if a notice concerns the budget of all gauges together.
fn concerns_whole_budget(notice: &Notice) -> bool {
    notice.id == NoticeId::Budget && notice.gauge.is_empty()
}

/// Completes a page. A note about an incomplete run is added to the last section, because its table may be incomplete.
/// The notices are added if `notices` is true, otherwise a hint to the option that shows them. The summaries are moved
/// to the end.
fn completed_page(mut page: Page, record: &Record, notices: bool) -> Page {
    page.sections.retain(|section| !section.blocks.is_empty());
    let summaries: Vec<Section> =
        page.sections.extract_if(.., |section| section.is_summary()).collect();
    if page.sections.is_empty() {
        page.sections.push(Section::new("notes"));
    }
    let last = page.sections.last_mut().expect("the page has at least one section");
    if !record.complete {
        last.push(Note::new("incomplete", INCOMPLETE_RUN).tone(Tone::Warning));
    }
    // Even a page without notices lists what the time budget of the run did not permit.
    for notice in record.notices.iter().filter(|notice| notices || concerns_whole_budget(notice)) {
        last.note("note", notice.single_line());
    }
    if !notices {
        let noticed = count_in_words(record.notices.len(), "note");
        last.push(Note::new("more", format!("all figures and {noticed}: -v")).faint());
    }
    terms::explain(&mut page);
    page.sections.extend(summaries);
    page
}

/// Adds the most important findings, and the number of further findings.
fn findings(findings: &[Finding], section: &mut Section) {
    let matter = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let shown: Vec<&Finding> = matter.take(FINDINGS_SHOWN).collect();
    for finding in &shown {
        section.push(machine::finding_note(finding));
    }
    let more = findings.len() - shown.len();
    if more > 0 {
        let label = if shown.is_empty() { "findings" } else { "" };
        let remedies = number_form(more, "its remedy", "their remedies");
        let text = format!("{more} more with {remedies}: nodegauge doctor");
        section.push(Note::new(label, text).faint());
    }
}
