//! Steps that all measuring commands have in common, in [`conduct`]: check the outputs, measure, make the record, print
//! and save it, compare it with expectations, and return the exit code.

use crate::args::plan::PlanForArgs;
use crate::args::{ConditionArgs, DatabaseArgs, MeasuringArgs};
use crate::cache_size;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::node::Terminal;
use crate::output::{self, Sink};
use crate::progress::Progress;
use nodegauge_analysis::expect::PossibleFigures;
use nodegauge_fleet::figures::FigureSelection;
use nodegauge_fleet::reference::Reference;
use nodegauge_gauge::cpus::CpuWatch;
use nodegauge_gauge::hosts::{HostRanking, HostReport, merge_host_reports};
use nodegauge_gauge::ledger::LedgerWatch;
use nodegauge_gauge::time::TimeWatch;
use nodegauge_gauge::{Gauge, MeasuredNode, PlannedRun};
use nodegauge_history::{HistoryFile, Store};
use nodegauge_machine::{DescribeOptions, SysRoot, Topology, TopologySource};
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record::SavedRoundTrips;
use nodegauge_measure::record::{self, Ledger, Machine, Record, Status, Tool};
use nodegauge_measure::{Notice, NoticeId, Observer, Outcome, Seconds, clock, legible};
use nodegauge_node::saving::SavingContext;
use nodegauge_node::signals::Signals;
use nodegauge_published::PublishedSelection;
use nodegauge_report::{Style, run, text};
use nodegauge_team::hosts::Hosts;
use std::time::Instant;

/// Returns the history that the user gave, or the default one.
pub(crate) fn history(db: &DatabaseArgs) -> HistoryFile {
    HistoryFile { given_path: db.db.clone(), former_names: gauges::registry().former_names() }
}

/// Returns the history, and prevents outputs of this command from replacing it.
pub(crate) fn protected_history(db: &DatabaseArgs) -> Result<HistoryFile, Failure> {
    let history = history(db);
    output::protect_input(&history.path()?);
    Ok(history)
}

/// Opens the history for writing.
pub(crate) fn open_store(db: &DatabaseArgs) -> Result<Store, Failure> {
    protected_history(db)?.open()
}

/// Opens the history for reading; returns `None` if it does not exist.
pub(crate) fn open_store_to_read(db: &DatabaseArgs) -> Result<Option<Store>, Failure> {
    protected_history(db)?.open_to_read()
}

/// Returns a function that finds the newest saved run of this node with a figure, by the names of the test and the
/// figure (see [`Store::own_runs`]). It returns `None` if the history cannot be read.
pub(crate) fn newest_run(
    db: &DatabaseArgs,
    site: &MeasuredNode,
) -> impl Fn(&str, &str) -> Option<Record> {
    move |test, name| {
        let store = open_store_to_read(db).ok()??;
        store.own_runs(site.machine.host.as_deref(), test, Some(name), 1).ok()?.pop()
    }
}

/// Returns the core-to-core round trips in the latest runs of this node.
fn saved_round_trips(db: &DatabaseArgs, site: &MeasuredNode) -> Option<SavedRoundTrips> {
    let store = open_store_to_read(db).ok()??;
    store.saved_round_trips(site.machine.host.as_deref()).ok()
}

/// Returns version and commit of this program, for records.
pub(crate) fn tool() -> Tool {
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("NODEGAUGE_COMMIT").map(str::to_owned),
    }
}

/// Returns version and commit of this program as one text, which must be equal on all ranks of a job.
pub(crate) fn version() -> String {
    let tool = tool();
    format!("{} {}", tool.version, tool.commit.unwrap_or_default()).trim_end().to_owned()
}

/// Returns the topology and the description of this machine.
pub(crate) fn this_machine(options: &DescribeOptions) -> Result<(Topology, Machine), Failure> {
    let topology = cache_size::replace_reported_size(Topology::load(&TopologySource::Live)?);
    let machine = nodegauge_machine::describe(&topology, &SysRoot::live(), options);
    Ok((topology, machine))
}

/// Returns the options `--dimms` and `--processor`, or an error for an unknown processor.
pub(crate) fn description_options(
    dimms: Option<nodegauge_machine::DimmSpec>,
    processor: Option<&str>,
) -> Result<DescribeOptions, Failure> {
    if let Some(name) = processor {
        nodegauge_machine::catalog::find_by_name(name)?;
    }
    Ok(DescribeOptions { dimms, processor: processor.map(str::to_owned), passive: false })
}

/// Returns the command line without the name of the program.
pub(crate) fn command_words() -> Vec<String> {
    // Paths may contain bytes that are not UTF-8.
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns a record with a machine and findings, without measurements.
pub(crate) fn description_record(machine: Machine, findings: Vec<record::Finding>) -> Record {
    Record {
        schema: record::SCHEMA.to_owned(),
        id: record::new_id(),
        started: record::now_rfc3339(),
        seconds: Seconds(0.0),
        complete: true,
        tool: tool(),
        command: command_words(),
        labels: Default::default(),
        machine,
        findings,
        notices: Vec::new(),
        ledger: None,
        measurements: Vec::new(),
    }
}

/// State of a running measurement.
struct Session {
    started: Instant,
    started_at: String,
    store: Option<Store>,
    json: Option<Sink>,
    csv: Option<Sink>,
    /// Signals that end the command.
    signals: Signals,
}

/// Reads a topology, and prevents outputs from replacing its file.
pub(crate) fn load_topology(source: &TopologySource) -> Result<Topology, Failure> {
    if let TopologySource::Xml(file) = source {
        output::protect_input(file);
    }
    Topology::load(source)
}

/// Returns this machine, with the properties that the user gave.
pub(crate) fn this_node(common: &MeasuringArgs) -> Result<MeasuredNode, Failure> {
    let describe = description_options(common.dimms, common.processor.as_deref())?;
    let (topology, machine) = this_machine(&describe)?;
    let site = MeasuredNode::new(topology, machine, SysRoot::live());
    let round_trips = saved_round_trips(&common.db, &site).unwrap_or_default();
    Ok(MeasuredNode { round_trips, ..site })
}

/// Returns this machine like [`this_node`], with the capacity of its caches, for commands that size arrays. The
/// capacity is measured if it is not saved.
pub(crate) fn node_with_caches(common: &MeasuringArgs) -> Result<MeasuredNode, Failure> {
    let mut site = this_node(common)?;
    site.machine.measured_cache =
        cache_size::find_cache_capacity(&site, cache_size::max_time(common.budget));
    Ok(site)
}

/// Returns a described machine, with the properties that the user gave.
pub(crate) fn described_node(
    common: &MeasuringArgs,
    source: &TopologySource,
) -> Result<MeasuredNode, Failure> {
    let describe = description_options(common.dimms, common.processor.as_deref())?;
    let topology = load_topology(source)?;
    let machine = nodegauge_machine::describe(&topology, &SysRoot::live(), &describe);
    Ok(MeasuredNode::new(topology, machine, SysRoot::live()))
}

/// Returns the machine of a plan: this one or a described one, with the memory to plan for.
pub(crate) fn node_to_plan_for(
    common: &MeasuringArgs,
    plan_for: &PlanForArgs,
) -> Result<MeasuredNode, Failure> {
    let site = match &plan_for.topology {
        Some(source) => described_node(common, source)?,
        None => this_node(common)?,
    };
    Ok(site.with_plan_memory(plan_for.memory))
}

/// Content for standard output.
pub(crate) enum StdoutContent {
    /// Text for people, followed by a line with the path of the history.
    Text(String),
    /// Table for other programs, without other lines.
    Table(String),
}

impl StdoutContent {
    /// Returns the renderer for the page of a command with one gauge.
    pub(crate) fn page_renderer(gauge: &dyn Gauge) -> impl Fn(&Record, Style) -> Self {
        move |record, style| Self::Text(text::page(&run::gauge_page(record, gauge), style))
    }
}

/// Run on several hosts, with the user's options for such a run.
pub(crate) struct HostsRun<'a> {
    /// The hosts.
    pub(crate) hosts: &'a Hosts,
    /// File that receives the names of the slow hosts.
    pub(crate) exclude_file: Option<&'a str>,
}

/// Runs a command that consists of one plan, and shows the page of its gauge.
pub(crate) fn conduct_plan(
    common: &MeasuringArgs,
    node: MeasuredNode,
    plan: Box<dyn PlannedRun>,
    gauge: &dyn Gauge,
) -> Result<Exit, Failure> {
    conduct_plan_on(None, common, node, plan, gauge)
}

/// Runs a command that consists of one plan, like [`conduct_plan`], on this host or on several hosts.
pub(crate) fn conduct_plan_on(
    hosts: Option<&HostsRun<'_>>,
    common: &MeasuringArgs,
    node: MeasuredNode,
    plan: Box<dyn PlannedRun>,
    gauge: &dyn Gauge,
) -> Result<Exit, Failure> {
    let figures = plan.possible_figures(&node);
    conduct_on(
        hosts,
        common,
        node,
        &figures,
        |site, progress| measure(plan, site, progress),
        StdoutContent::page_renderer(gauge),
    )
}

/// Runs a plan. `progress` shows its predicted time as an estimate.
pub(crate) fn measure(
    plan: Box<dyn PlannedRun>,
    site: &MeasuredNode,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    progress.set_predicted_time(plan.expected_cost().time);
    plan.run(site, progress)
}

/// Runs a measuring command: opens the outputs, calls `gauge` with progress and signals, makes the record, shows it
/// with `show`, saves it, and returns the exit code. Callers report usage errors before they call this function,
/// because it creates the history if necessary. An expectation that none of `figures` can meet is reported before the
/// history is opened.
pub(crate) fn conduct(
    common: &MeasuringArgs,
    node: MeasuredNode,
    figures: &[PossibleFigures],
    gauge: impl FnOnce(&MeasuredNode, &mut Progress) -> Result<Outcome, Failure>,
    show: impl FnOnce(&Record, Style) -> StdoutContent,
) -> Result<Exit, Failure> {
    conduct_on(None, common, node, figures, gauge, show)
}

/// Runs a measuring command like [`conduct`], on this host or on several hosts. The leader of the first host makes the
/// record of all hosts; the others only measure.
pub(crate) fn conduct_on(
    hosts: Option<&HostsRun<'_>>,
    common: &MeasuringArgs,
    node: MeasuredNode,
    figures: &[PossibleFigures],
    gauge: impl FnOnce(&MeasuredNode, &mut Progress) -> Result<Outcome, Failure>,
    show: impl FnOnce(&Record, Style) -> StdoutContent,
) -> Result<Exit, Failure> {
    if let Some(run) = hosts.filter(|run| !run.hosts.is_first()) {
        return follow(run, node, gauge);
    }
    if common.against == Some(PublishedSelection::List) {
        output::show(&nodegauge_published::list());
        return Ok(Exit::Success);
    }
    for expectation in common.conditions.expect.iter().filter(|_| !figures.is_empty()) {
        expectation.refusal(figures).map_or(Ok(()), Err)?;
    }
    let session = Session::begin(common)?;
    let exclude = hosts.and_then(|run| run.exclude_file).map(Sink::from);
    exclude.as_ref().map_or(Ok(()), Sink::check)?;
    let mut findings = nodegauge_machine::examine(&node.topology, &SysRoot::live(), &node.machine);
    let command = command_words().into_iter().next().filter(|word| !word.starts_with('-'));
    let command = command.unwrap_or_else(|| "run".to_owned());
    let signals = session.signals.clone();
    let mut progress = Progress::new(common.quiet, signals, &command, common.budget);
    let (mut found, ledger) = match hosts {
        Some(run) => on_all_hosts(run, &node, &mut progress, gauge)?,
        None => measure_this_host(&node, &mut progress, gauge)?,
    };
    progress.finish();
    cache_size::remember_larger_cache(
        &node,
        &found.measurements,
        cache_size::max_time(common.budget),
    );
    if let Some(size) = cache_size::reported_by_variable() {
        let text = format!(
            "{}: the reported size of a last-level cache is replaced by {size}",
            cache_size::REPORTED_VARIABLE
        );
        found.notices.push(Notice::new(NoticeId::Environment, "", text));
    }
    nodegauge_published::add_published_figures(&mut found, &node.machine, common.against.as_ref());
    let skipped = nodegauge_toolchain::skipped_folder_notices(|name| std::env::var_os(name));
    let skipped_folders = nodegauge_toolchain::unused_folder_reasons();
    for text in skipped.into_iter().chain(skipped_folders) {
        found.notices.push(Notice::new(NoticeId::Environment, "", text));
    }
    let complete = found.is_complete();
    let mut ending = found.ending_failure();
    add_findings(&mut findings, found.findings);
    let record = Record {
        started: session.started_at.clone(),
        seconds: Seconds::from(session.started.elapsed()),
        complete,
        labels: common.label.iter().cloned().collect(),
        notices: found.notices,
        ledger: Some(ledger),
        measurements: found.measurements,
        ..description_record(node.machine, findings)
    };
    let shown = show(&record, output::style());
    let (ended, mut failures) = session.end(common, &record, shown, &found.details);
    if let Some(sink) = exclude {
        failures.extend(sink.write(&excluded_hosts(&record)).err());
    }
    // The reason for an early end is printed below the results.
    if ended != Exit::Success && ended != Exit::Unmet {
        ending = None;
    }
    failures.splice(0..0, ending);
    let Some(last) = failures.pop() else { return Ok(ended) };
    failures.iter().for_each(|failure| output::print_error_line(&failure.to_string()));
    Err(last)
}

/// Measures this host. Reads its hardware error counters, time sources and CPUs before and after the measurement.
fn measure_this_host(
    node: &MeasuredNode,
    progress: &mut Progress,
    gauge: impl FnOnce(&MeasuredNode, &mut Progress) -> Result<Outcome, Failure>,
) -> Result<(Outcome, Ledger), Failure> {
    let watch = LedgerWatch::begin(&node.root);
    let time = TimeWatch::begin();
    progress.watch(CpuWatch::begin(&node.root));
    let measured = gauge(node, progress);
    let cpus = progress.take_watch();
    let mut found = Outcome::finish_run(measured, progress)?;
    time.end(&mut found, &node.machine);
    cpus.into_iter().for_each(|cpus| cpus.end(&mut found));
    let ledger = watch.end(&mut found, &gauges::GAUGES);
    Ok((found, ledger))
}

/// Measures all hosts at the same time, including this one, and merges their results.
fn on_all_hosts(
    run: &HostsRun<'_>,
    node: &MeasuredNode,
    progress: &mut Progress,
    gauge: impl FnOnce(&MeasuredNode, &mut Progress) -> Result<Outcome, Failure>,
) -> Result<(Outcome, Ledger), Failure> {
    let hosts = run.hosts;
    progress.begin_phase(&format!("waiting for {}", count_in_words(hosts.names().len(), "host")));
    hosts.start(&|| progress.is_interrupted())?;
    clock::start_budget();
    let started = Instant::now();
    let own = measure_this_host(node, progress, gauge);
    progress.begin_phase("collecting the results of all hosts");
    let others = hosts.collect(started.elapsed(), &|| progress.is_interrupted())?;
    if let (Err(why), true) = (&own, others.iter().all(|(_, result)| result.is_err())) {
        return Err(why.clone());
    }
    let (own, ledger) = match own {
        Ok((found, ledger)) => {
            (Ok(HostReport::new(node.machine.clone(), Vec::new(), found)), ledger)
        }
        Err(why) => (Err(why), LedgerWatch::begin(&node.root).end(&mut Outcome::default(), &[])),
    };
    let first = (hosts.name().to_owned(), own);
    let mut found = merge_host_reports(std::iter::once(first).chain(others).collect());
    found.notices.extend(hosts.notices().iter().cloned());
    Ok((found, ledger))
}

/// Measures this host for the leader of the first host; returns the exit code that the leader sends.
fn follow(
    run: &HostsRun<'_>,
    node: MeasuredNode,
    gauge: impl FnOnce(&MeasuredNode, &mut Progress) -> Result<Outcome, Failure>,
) -> Result<Exit, Failure> {
    let signals = Signals::listen()?;
    let findings = nodegauge_machine::examine(&node.topology, &SysRoot::live(), &node.machine);
    if let Some(code) = run.hosts.await_start()? {
        return Ok(Exit::FromRank0(code));
    }
    clock::start_budget();
    let is_quiet = true;
    let mut progress = Progress::new(is_quiet, signals, "", None);
    let found = measure_this_host(&node, &mut progress, gauge);
    let report = found.map(|(found, _)| HostReport::new(node.machine, findings, found));
    Ok(Exit::FromRank0(run.hosts.report(report)?))
}

/// Returns the hosts to be excluded, one per line.
fn excluded_hosts(record: &Record) -> String {
    let registry = gauges::registry();
    let gauge = record.measurements.first().map(|m| m.gauge.as_str()).unwrap_or_default();
    let ranking = HostRanking::from_record(record, gauge, registry);
    let excluded = ranking.map(|ranking| ranking.hosts_to_exclude()).unwrap_or_default();
    excluded.iter().map(|name| format!("{name}\n")).collect()
}

impl Session {
    /// Opens all outputs before the measurement, so that no result is lost because a file cannot be written. From now
    /// on, a signal ends the run with a record.
    fn begin(common: &MeasuringArgs) -> Result<Self, Failure> {
        let signals = Signals::listen()?;
        let json = common.json.as_deref().map(Sink::from);
        let csv = common.csv.as_deref().map(Sink::from);
        if json == Some(Sink::Stdout) && csv == Some(Sink::Stdout) {
            return Err(output::both_to_stdout_failure());
        }
        let sinks = [&json, &csv];
        if !common.no_save {
            protected_history(&common.db)?;
        }
        for sink in sinks.into_iter().flatten() {
            sink.check()?;
        }
        let store = if common.no_save { None } else { Some(open_store(&common.db)?) };
        // The history may just have been created at the path of an output, so the outputs are checked again.
        for sink in sinks.into_iter().flatten() {
            sink.check()?;
        }
        Ok(Self {
            started: Instant::now(),
            started_at: record::now_rfc3339(),
            store,
            json,
            csv,
            signals,
        })
    }

    /// True if `--json -` or `--csv -` writes to standard output.
    fn stdout_is_taken(&self) -> bool {
        [&self.json, &self.csv].into_iter().flatten().any(|sink| *sink == Sink::Stdout)
    }

    /// Shows the record, writes the requested documents and saves the record; returns the exit status and all failures.
    /// After a failure, the remaining steps are still executed. Saving is last, because other programs may have locked
    /// the history.
    fn end(
        mut self,
        common: &MeasuringArgs,
        record: &Record,
        shown: StdoutContent,
        details: &[String],
    ) -> (Exit, Vec<Failure>) {
        // Further signals end the wait for the history, not the measurement.
        let signal = self.signals.received_signal();
        let mut failures = Vec::new();
        let is_page = self.show(common, shown, details).unwrap_or_else(|failure| {
            failures.push(failure);
            false
        });
        if let Some(sink) = &self.csv {
            failures.extend(sink.write(&gauges::record_csv(record)).err());
        }
        let mut copy = None;
        if let Some(sink) = &self.json {
            match output::json(record).and_then(|text| sink.write(&text)) {
                Ok(()) => copy = sink.regular_file(),
                Err(failure) => failures.push(failure),
            }
        }
        let mut is_saved = false;
        if let Some(store) = &mut self.store {
            let elapsed = self.started.elapsed();
            let saving = SavingContext {
                history: &history(&common.db),
                signals: &self.signals,
                elapsed,
                outputs: &Terminal,
            };
            match saving.save(store, record, copy) {
                Ok(()) => is_saved = true,
                Err(failure) => failures.push(failure),
            }
            if is_saved && is_page {
                let path = legible::path(store.path());
                let line = format!("{:11}{} in {path}\n", "saved", record.id);
                failures.extend(output::try_print(&line).err());
            }
        }
        (exit(common, record, is_saved, signal), failures)
    }

    /// Prints the result; returns true if it is a page, which is followed by the path of the history.
    fn show(
        &self,
        common: &MeasuringArgs,
        shown: StdoutContent,
        details: &[String],
    ) -> Result<bool, Failure> {
        if self.stdout_is_taken() {
            return Ok(false);
        }
        match shown {
            StdoutContent::Table(table) => {
                output::try_print(&table)?;
                Ok(false)
            }
            StdoutContent::Text(_) if common.quiet => Ok(false),
            StdoutContent::Text(mut text) => {
                if common.verbose {
                    details.iter().for_each(|line| text.push_str(&format!("{line}\n")));
                }
                output::try_print(&text)?;
                Ok(true)
            }
        }
    }
}

/// Reports unmet conditions, and the signal that ended the measurement; returns the exit status.
fn exit(common: &MeasuringArgs, record: &Record, is_saved: bool, signal: Option<u8>) -> Exit {
    let unmet = report_unmet_conditions(&common.conditions, record, "", common.verbose);
    if let Some(signal) = signal {
        let what = if record.measurements.is_empty() {
            "nothing was measured; the record is"
        } else {
            "the results so far are"
        };
        let saved = if is_saved { "saved and " } else { "" };
        output::print_note(&format!("interrupted: {what} {saved}marked incomplete"));
        return Exit::Signal(signal);
    }
    if unmet || has_invalid_figure(record) { Exit::Unmet } else { Exit::Success }
}

/// Adds new findings, and sorts all findings, worst first.
fn add_findings(findings: &mut Vec<record::Finding>, more: Vec<record::Finding>) {
    for finding in more {
        if findings.iter().all(|known| known.id != finding.id) {
            findings.push(finding);
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}

/// True if a measurement is invalid.
pub(crate) fn has_invalid_figure(record: &Record) -> bool {
    record.measurements.iter().any(|m| m.validity.status == Status::Invalid)
}

/// Reports the conditions that a record does not meet, and with `--strict`, suspect figures. With `verbose`, also
/// reports conditions that are met. Returns true if a condition is not met, or with `--strict`, if a figure is suspect.
/// Each message begins with `run`.
pub(crate) fn report_unmet_conditions(
    conditions: &ConditionArgs,
    record: &Record,
    run: &str,
    verbose: bool,
) -> bool {
    let mut any = conditions.strict && output::report_suspects(&record.measurements, run);
    let registry = gauges::registry();
    for expectation in &conditions.expect {
        let verdict = expectation.check(&record.measurements, conditions.accept_suspect, registry);
        let failure = verdict.failure(expectation, run);
        if !verdict.is_met() {
            any = true;
            output::print_failure(&failure);
        } else if verbose {
            output::print_note(&failure.message);
        }
    }
    match &conditions.reference {
        Some(reference) => report_below_bounds(reference, record, run, verbose) || any,
        None => any,
    }
}

/// Prints the figures that are worse than their bounds in a reference; returns true if there are any. If the reference
/// has no group for this node, prints that nothing was compared.
pub(crate) fn report_below_bounds(
    reference: &Reference,
    record: &Record,
    run: &str,
    verbose: bool,
) -> bool {
    let Some(group) = reference.machine_group(&record.machine) else {
        output::print_note(&format!(
            "{run}not compared: {}",
            reference.no_group_reason(&record.machine)
        ));
        return false;
    };
    let registry = gauges::registry();
    let selection =
        FigureSelection { gauges: &gauges::GAUGES, registry, includes_all: true, facts: false };
    let mut any = false;
    for figure in group.compare(&selection.figures_in_record(record)) {
        let words = format!("{run}{}", figure.words);
        if !figure.is_met {
            any = true;
            output::print_error_line(&legible::escape_controls(&words));
        } else if verbose {
            output::print_note(&words);
        }
    }
    any
}
