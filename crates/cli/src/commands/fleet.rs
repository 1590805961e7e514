//! Implementation of the command `nodegauge fleet`.

use crate::args;
use crate::args::fleet::{
    BaselineArgs, BaselineFormat, DiffArgs, EarlierRecords, FleetCommand, InputArgs, RankArgs,
    RankFormat, RunArgs, ScriptArgs,
};
use crate::failure::{Exit, Failure};
use crate::gauges::{self, GAUGES};
use crate::node;
use crate::output::{self, Sink};
use crate::session;
use nodegauge_fleet::figures::FigureSelection;
use nodegauge_fleet::intake::Intake;
use nodegauge_fleet::names::NodeNames;
use nodegauge_fleet::rank::{RankVerdict, Ranking, RankingOptions};
use nodegauge_fleet::{baseline, diff, formats, page, script};
use nodegauge_gauge::view::Page;
use nodegauge_measure::quantity::count_in_words;
use nodegauge_measure::record;
use nodegauge_node::fleet_run::{FleetEnd, FleetRequest};
use nodegauge_report::text;
use std::path::Path;

/// Maximum number of words of the command in the header of a page.
const MAX_WORDS: usize = 16;
/// Maximum number of remarks of one kind on standard error; further remarks are only counted.
const MAX_REMARKS: usize = 10;
/// Maximum number of figures for which the statistical power is printed.
const MAX_POWERS: usize = 20;

pub(crate) fn execute(command: &FleetCommand) -> Result<Exit, Failure> {
    match command {
        FleetCommand::Rank(args) => rank(args),
        FleetCommand::Baseline(args) => make_baseline(args),
        FleetCommand::Diff(args) => show_differences(args),
        FleetCommand::Script(args) => print_script(args),
        FleetCommand::Run(args) => run_jobs(args),
    }
}

/// Reads the records of the inputs; without inputs, those of the history. With `facts`, keeps the facts of the nodes
/// for a comparison of facts.
fn read(args: &InputArgs, facts: bool) -> Result<Intake, Failure> {
    let registry = gauges::registry();
    let selection =
        FigureSelection { gauges: &GAUGES, registry, includes_all: args.all_figures, facts };
    if !args.inputs.is_empty() {
        args.inputs.iter().for_each(|path| output::protect_input(path));
        let intake = Intake::read(&args.inputs, &selection)?;
        // An output in a folder of records must not replace a record.
        intake.files.iter().for_each(|path| output::protect_input(path));
        return Ok(intake);
    }
    let mut intake = Intake::default();
    let Some(store) = session::open_store_to_read(&args.db)? else {
        return Err(Failure::usage("there are no saved runs").hint("give a folder of records"));
    };
    // Records are read one after another, because each contains all its samples.
    for id in store.ids(&args.saved.filter())? {
        intake.add_saved(&store.find(&id)?, &selection);
    }
    Ok(intake)
}

/// Adds the node lists in folders of `fleet run` to the options of a ranking.
fn add_folders(input: &InputArgs, options: &mut RankingOptions) {
    for folder in input.inputs.iter().filter(|path| path.is_dir()) {
        nodegauge_fleet::folder::FleetFolder::from_path(folder).add_to_ranking_options(options);
    }
}

fn rank(args: &RankArgs) -> Result<Exit, Failure> {
    let intake = read(&args.input, false)?;
    let mut options = RankingOptions {
        reference: args.reference.clone(),
        expected_nodes: args.nodes.as_ref().map(|nodes| nodes.0.clone()).unwrap_or_default(),
        confirm: args.confirm as usize,
        ..RankingOptions::default()
    };
    add_folders(&args.input, &mut options);
    let ranking = Ranking::from_intake(&intake, &options);
    show(&ranking, args.format, args.all, &args.output)?;
    if ranking.node_count() == 0 && ranking.missing.is_empty() {
        return Err(Failure::usage("no record was read").hint("nodegauge run --json FILE"));
    }
    Ok(exit_status(&ranking))
}

/// Returns the exit code, which is 1 if a node is slow.
fn exit_status(ranking: &Ranking) -> Exit {
    match ranking.nodes(RankVerdict::Slow).next() {
        Some(_) => Exit::Unmet,
        None => Exit::Success,
    }
}

/// Returns the command for the header of a page, shortened if it is long.
fn command() -> String {
    let words = session::command_words();
    let shown = &words[..words.len().min(MAX_WORDS)];
    let more = words.len() - shown.len();
    let rest = if more > 0 {
        format!(" and {}", count_in_words(more, "more word"))
    } else {
        String::new()
    };
    nodegauge_report::run::shell_command(shown) + &rest
}

/// Returns the page of a ranking, with the command in its header.
fn ranking_page(ranking: &Ranking, all: bool) -> Page {
    let head = Some(page::head(ranking, &command()));
    Page { head, ..page::ranking_page(ranking, all) }
}

fn show(ranking: &Ranking, format: RankFormat, all: bool, file: &str) -> Result<(), Failure> {
    let document = match format {
        RankFormat::Text => text::page(&ranking_page(ranking, all), output::style()),
        RankFormat::Html => {
            nodegauge_report::export::html_page(&ranking_page(ranking, all), "nodegauge-fleet")
        }
        RankFormat::Md => nodegauge_report::export::markdown_page(&ranking_page(ranking, all)),
        RankFormat::Csv => formats::csv(ranking),
        RankFormat::Json => output::json(&formats::json(ranking))?,
        RankFormat::Exclude => formats::exclude_list(ranking),
        RankFormat::Reframe => {
            let reference =
                baseline::make_reference(ranking, session::tool(), record::now_rfc3339())?;
            baseline::reframe_attribute(&reference, "*")
        }
        RankFormat::Nhc => formats::nhc_lines(ranking),
    };
    if matches!(format, RankFormat::Exclude | RankFormat::Nhc) {
        note_each(
            "slow, but left out because of an invalid host name",
            &formats::invalid_names(ranking),
        );
    }
    match (Sink::from(file), format) {
        (Sink::Stdout, RankFormat::Text) => {
            output::print(&document);
            Ok(())
        }
        (sink, _) => sink.write(&document),
    }
}

/// Prints one remark per item. Items beyond [`MAX_REMARKS`] are only counted.
fn note_each(what: &str, items: &[String]) {
    for item in items.iter().take(MAX_REMARKS) {
        output::print_note(&format!("{what}: {item}"));
    }
    if items.len() > MAX_REMARKS {
        output::print_note(&format!("{what}: {} more", items.len() - MAX_REMARKS));
    }
}

fn make_baseline(args: &BaselineArgs) -> Result<Exit, Failure> {
    let mut intake = read(&args.input, false)?;
    let rejected = intake.rejected.iter().map(|one| format!("{}: {}", one.source, one.reason));
    note_each("not read", &rejected.collect::<Vec<_>>());
    for remark in baseline::keep_one_size(&mut intake.runs) {
        output::print_note(&remark);
    }
    let mut options = RankingOptions::default();
    add_folders(&args.input, &mut options);
    let names = NodeNames::from_runs(&intake.runs, &options.expected_nodes);
    for remark in names.remarks() {
        output::print_note(&remark);
    }
    let ranking = Ranking::with_names(&intake, &names, &options);
    let made = baseline::make_reference(&ranking, session::tool(), record::now_rfc3339())?;
    let powers = baseline::powers_in_words(&made);
    for line in powers.iter().take(MAX_POWERS) {
        output::print_note(line);
    }
    let more = powers.len().saturating_sub(MAX_POWERS);
    if more > 0 {
        output::print_note(&format!(
            "{}: see loss_found in the reference",
            count_in_words(more, "more figure")
        ));
    }
    let document = match args.format {
        BaselineFormat::Json => output::json(&made)?,
        BaselineFormat::Reframe => baseline::reframe_attribute(&made, &args.system),
    };
    Sink::from(args.output.as_str()).write(&document)?;
    Ok(Exit::Success)
}

/// True for `-`, the name of standard input.
fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Prints the differences between nodes; returns exit code 1 if there are any.
fn show_differences(args: &DiffArgs) -> Result<Exit, Failure> {
    if let Some(EarlierRecords::Path(before)) = &args.before
        && is_stdin(before)
        && args.input.inputs.iter().any(|path| is_stdin(path))
    {
        return Err(Failure::usage("standard input is given twice")
            .hint("give a file or folder for one of them"));
    }
    let now = read(&args.input, true)?;
    if now.runs.is_empty() {
        return Err(Failure::usage("no record was read").hint("nodegauge machine --json FILE"));
    }
    let nodes = diff::NewestRuns::from_intake(&now);
    let between = diff::node_differences(&nodes);
    let before = match &args.before {
        Some(before) => Some(read_earlier(before, &args.input)?),
        None => None,
    };
    let earlier = before.as_ref().map(diff::NewestRuns::from_intake);
    let changes = earlier.as_ref().map(|earlier| diff::differences_from_earlier(earlier, &nodes));
    output::show(&diff::page(&nodes, &between, changes.as_ref()));
    let are_equal = between.is_empty() && changes.is_none_or(|all| all.found.is_empty());
    Ok(if are_equal { Exit::Success } else { Exit::Unmet })
}

/// Reads the earlier records of `--before`, with the options that select the current records.
fn read_earlier(before: &EarlierRecords, now: &InputArgs) -> Result<Intake, Failure> {
    let mut args = now.clone();
    match before {
        EarlierRecords::Path(path) => {
            args.inputs = vec![path.clone()];
        }
        EarlierRecords::Saved(moment) => {
            args.inputs.clear();
            args.saved.since = None;
            args.saved.until = Some(moment.clone());
        }
    }
    let earlier = read(&args, true)?;
    if earlier.runs.is_empty() {
        return Err(Failure::usage("no earlier record was read")
            .hint("give a folder of records to --before, or a later time"));
    }
    Ok(earlier)
}

/// Returns an error if this command does not produce a record, before jobs are submitted or a script is printed.
fn check_command(command: &[String]) -> Result<(), Failure> {
    let line = script::command_for_record("nodegauge", command, "-");
    let Err(error) = args::command().try_get_matches_from(line.words()) else { return Ok(()) };
    let wrong = args::hints::failure(&error, line.words());
    let wrong = wrong.map_or_else(String::new, |wrong| wrong.message);
    let reason = wrong.lines().next().unwrap_or("it prints no record");
    Err(Failure::usage(format!("nodes cannot run `{line}`: {reason}"))
        .hint("give a measuring command or `machine` after --, without --json and --no-save"))
}

fn print_script(args: &ScriptArgs) -> Result<Exit, Failure> {
    check_command(&args.command)?;
    let lines = script::script_text(args.tool, &args.nodes.0, &args.folder, &args.command);
    output::print(&lines);
    Ok(Exit::Success)
}

/// Measures nodes with Slurm jobs, and prints their ranking and the commands that drain slow nodes.
fn run_jobs(args: &RunArgs) -> Result<Exit, Failure> {
    check_command(&args.command)?;
    let request = FleetRequest {
        folder: args.folder.clone(),
        nodes: args.nodes.clone(),
        partition: args.partition.clone(),
        qos: args.qos.clone(),
        sbatch: args.sbatch.clone(),
        minutes: args.job_minutes(),
        command: args.command.clone(),
        power_up: args.power_up,
        max_jobs: args.outstanding as usize,
        deadline: args.deadline,
        confirm: args.confirm as usize,
        reference: args.reference.clone(),
        is_watch_only: args.watch,
    };
    let ranking = match request.run(&node::caller())? {
        FleetEnd::Signal(signal) => return Ok(Exit::Signal(signal)),
        FleetEnd::Ranked(ranking) => ranking,
    };
    show(&ranking, RankFormat::Text, false, "-")?;
    let lines = formats::drain_commands(&ranking);
    if !lines.is_empty() {
        output::print(&format!("\nto drain the slow nodes:\n{}\n", lines.join("\n")));
    }
    Ok(exit_status(&ranking))
}
