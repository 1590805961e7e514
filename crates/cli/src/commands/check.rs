//! `nodegauge check`: makes the request for a check from the arguments, and prints the verdict.

use crate::args::WhenBusy;
use crate::args::check::CheckArgs;
use crate::cache_size;
use crate::failure::{Exit, Failure};
use crate::files::refuse_same_file;
use crate::node;
use crate::output::{self, Sink};
use crate::session;
use nodegauge_curves::TouchRates;
use nodegauge_gauge::MeasuredNode;
use nodegauge_gauge::view::{Block, Note, Section};
use nodegauge_machine::{DescribeOptions, SysRoot};
use nodegauge_node::check::{
    CheckEnd, CheckReport, CheckRequest, CheckedNode, Examination, PreparedCheck,
    SizingProbeResult, VettingRequest,
};
use nodegauge_report::text;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

pub(crate) fn execute(args: &CheckArgs) -> Result<Exit, Failure> {
    let check = PreparedCheck::new(request(args), node::caller())?;
    protect_files(args, check.state_path())?;
    match check.run()? {
        CheckEnd::Signal(signal) => Ok(Exit::Signal(signal)),
        CheckEnd::Vetted(ended) => Ok(ended.into()),
        CheckEnd::Checked(checked) => {
            let code = args.verdict_codes().code(checked.report.verdict);
            show(args, *checked);
            Ok(Exit::Checked(code))
        }
    }
}

/// Converts the arguments to a request.
fn request(args: &CheckArgs) -> CheckRequest {
    let vetting = args.vet.map(|keep| VettingRequest {
        keep,
        exclude_file: args.exclude_file.clone(),
        node_file: args.node_file.clone(),
    });
    CheckRequest {
        level: args.level,
        time: args.max_time(),
        reference: args.reference.clone(),
        measures_when_busy: args.when_busy == WhenBusy::Measure,
        codes: args.verdict_codes(),
        vetting,
        state: args.state.clone(),
        is_saved: !args.no_save,
        history: session::history(&args.db),
    }
}

/// Prevents outputs from replacing an input, the history, or each other.
fn protect_files(args: &CheckArgs, state: Option<&Path>) -> Result<(), Failure> {
    // If there is no folder for the history, there is nothing to protect.
    let _ = session::protected_history(&args.db);
    let json = args.json.as_deref().filter(|file| *file != "-").map(PathBuf::from);
    let files = [
        ("--state", state.map(Path::to_owned)),
        ("--json", json),
        ("--exclude-file", args.exclude_file.clone()),
        ("--node-file", args.node_file.clone()),
    ];
    for (name, file) in files {
        let Some(file) = file else { continue };
        Sink::File(file.clone()).refuse_inputs()?;
        if let Some(state) = state.filter(|_| name != "--state") {
            refuse_same_file(name, &file, "the state", state)?;
        }
    }
    Ok(())
}

/// Prints the verdict before saving the state and writing the document, so that these do not delay it. If an output
/// cannot be written, prints a note instead of failing, because the exit code must report the state of the node.
fn show(args: &CheckArgs, mut checked: CheckedNode) {
    let caller = node::caller();
    let sink = args.json.as_deref().map(Sink::from);
    if sink == Some(Sink::Stdout) {
        write_document(&Sink::Stdout, &checked.report);
        if let Some(failure) = checked.save(&caller) {
            output::print_note(&failure);
        }
        return;
    }
    note_failure(output::try_print(&format!("{}\n", checked.report.line)));
    checked.save(&caller);
    note_failure(output::try_print(&reasons(args, &checked.report)));
    if let Some(sink) = &sink {
        write_document(sink, &checked.report);
    }
}

/// Writes the JSON document.
fn write_document(sink: &Sink, report: &CheckReport) {
    note_failure(output::json(report).and_then(|text| sink.write(&text)));
}

/// Prints a note if an output could not be written.
fn note_failure(written: Result<(), Failure>) {
    if let Err(failure) = written {
        output::print_note(&failure.single_line());
    }
}

/// Returns the reasons of the verdict, one per line; empty if only the verdict is requested.
fn reasons(args: &CheckArgs, report: &CheckReport) -> String {
    if args.quiet || args.npd {
        return String::new();
    }
    let figures = report.figures.iter().map(|figure| Note::new("figure", figure.in_words()));
    let remarks =
        report.remarks.iter().map(|remark| Note::new(remark.verdict.name(), remark.text.as_str()));
    let notes = report.notes.iter().map(|note| Note::new("note", note.as_str()));
    let rows: Vec<Note> = figures.chain(remarks).chain(notes).collect();
    if std::io::stdout().is_terminal() {
        let section = Section { id: "check", blocks: rows.into_iter().map(Block::Note).collect() };
        return text::section(&section, output::style());
    }
    // Programs expect one row per line.
    rows.iter().map(|row| format!("{:11}{}\n", row.label, row.text)).collect()
}

/// Examines this node and prints the result as JSON. Runs in the child process of a check.
pub(crate) fn print_examination(since: u64) -> Result<Exit, Failure> {
    let options = DescribeOptions { passive: true, ..DescribeOptions::default() };
    let (topology, machine) = session::this_machine(&options)?;
    output::print(&output::json(&Examination::new(&topology, machine, since))?);
    Ok(Exit::Success)
}

/// Measures how fast `threads` threads touch memory, and prints the result as JSON. Runs in the child process of a
/// check.
pub(crate) fn print_touch_rates(threads: u32) -> Result<Exit, Failure> {
    let options = DescribeOptions { passive: true, ..DescribeOptions::default() };
    let (topology, machine) = session::this_machine(&options)?;
    let site = MeasuredNode::new(topology, machine, SysRoot::live());
    let cache = cache_size::find_cache_capacity(&site, cache_size::max_time(None));
    output::print(&output::json(&SizingProbeResult {
        rates: TouchRates::measure(threads),
        cache,
    })?);
    Ok(Exit::Success)
}
