//! Implementation of the command `nodegauge compare`.

use crate::args::CompareArgs;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::node;
use crate::output;
use crate::progress::Progress;
use crate::session;
use nodegauge_analysis::compare::{Comparison, ComparisonDesign, Side, UnpairedFigure, compare};
use nodegauge_history::{HistoryError, Store};
use nodegauge_measure::legible;
use nodegauge_node::turns::InterleavedRunsRequest;
use std::path::Path;

pub(crate) fn execute(args: &CompareArgs) -> Result<Exit, Failure> {
    let mut saved = None;
    let mut unsaved_count = 0;
    let mut ended = None;
    let [a, b] = match (&args.run, &args.a, &args.b) {
        (None, Some(a), Some(b)) => {
            let store = session::open_store_to_read(&args.db)?;
            [side(a, store.as_ref())?, side(b, store.as_ref())?]
        }
        (commands, ..) => {
            let request = InterleavedRunsRequest {
                commands: commands.clone().unwrap_or_default(),
                blocks: args.blocks,
                is_saved: !args.no_save,
                history: session::protected_history(&args.db)?,
            };
            let turns = request.run(&node::caller(), |signals| {
                Progress::new(false, signals.clone(), "compare", None)
            })?;
            saved = turns.saved;
            unsaved_count = turns.unsaved_count;
            ended = turns.signal.map(Exit::Signal);
            turns.sides
        }
    };
    if let (Some(exit), []) = (ended, a.runs.as_slice()) {
        output::print_note("interrupted before the first block was complete: nothing to compare");
        return Ok(exit);
    }
    let design = ComparisonDesign {
        is_interleaved: args.run.is_some(),
        accept_suspect: args.accept_suspect,
    };
    let comparison = compare(&a, &b, design, gauges::registry());
    if comparison.pairs.is_empty() {
        return Err(nothing_in_common(&comparison));
    }
    if !args.documents.write(&|| output::json(&comparison), &|| Ok(comparison.to_csv()))? {
        output::show(&nodegauge_report::compare::page(&comparison));
        if let Some(saved) = saved {
            output::print(&format!("{:11}{saved}\n", "saved"));
        }
    }
    let mut exit = Exit::Success;
    for (side, name) in [(&a, "A: "), (&b, "B: ")] {
        let figures = side.runs.iter().flat_map(|run| &run.measurements);
        if args.strict && output::report_suspects(figures, name) {
            exit = Exit::Unmet;
        }
    }
    if let Some(reference) = &args.reference {
        for (side, name) in [(&a, "A: "), (&b, "B: ")] {
            let newest = side.runs.iter().max_by(|one, other| one.started.cmp(&other.started));
            let Some(run) = newest else { continue };
            if session::report_below_bounds(reference, run, name, true) && name == "B: " {
                exit = Exit::Unmet;
            }
        }
    }
    for threshold in &args.fail_on {
        let finding = threshold.check(&comparison);
        match finding.in_words(threshold) {
            Some(text) if finding.fails() => {
                exit = Exit::Unmet;
                output::print_error_line(&legible::escape_controls(&text));
            }
            Some(text) => output::print_note(&text),
            None => {}
        }
    }
    if unsaved_count > 0 {
        exit = Exit::Missing;
    }
    Ok(ended.unwrap_or(exit))
}

/// Returns the runs that a selector matches. Without a history, a selector can only be a file.
fn side(selector: &str, store: Option<&Store>) -> Result<Side, Failure> {
    super::history::protect_record(selector);
    let runs = match store {
        Some(store) => store.find_all(selector)?,
        None if nodegauge_history::is_file_selector(selector) => {
            let names = gauges::registry().former_names();
            vec![nodegauge_history::read_file(Path::new(selector), names)?]
        }
        None => {
            let selector = selector.to_owned();
            return Err(HistoryError::NotFound { selector, candidates: Vec::new() }.into());
        }
    };
    let others = store.map_or(Ok(Vec::new()), |store| store.related_runs(&runs))?;
    Ok(Side { asked: selector.to_owned(), runs, others })
}

/// Returns the first and the last name of figures that only one side has.
fn first_and_last(only: &[UnpairedFigure]) -> String {
    match only {
        [] => "nothing".to_owned(),
        [first, .., last] => format!("{} ... {}", first.title, last.title),
        [one] => one.title.clone(),
    }
}

fn nothing_in_common(comparison: &Comparison) -> Failure {
    let notices = comparison.notices.iter().map(|notice| format!("; {notice}"));
    Failure::usage(format!(
        "'{}' and '{}' have no measurement in common: the first has {}, the second {}{}",
        comparison.a.asked,
        comparison.b.asked,
        first_and_last(&comparison.only_a),
        first_and_last(&comparison.only_b),
        notices.collect::<String>(),
    ))
    .hint("nodegauge history list")
}
