//! `nodegauge compare`.

use crate::args::CompareArgs;
use crate::failure::{Exit, Failure};
use crate::gauges;
use crate::output;
use crate::session;
use nodegauge_history::{HistoryError, Store};
use nodegauge_measure::compare::{Comparison, Side, compare};
use std::path::Path;

pub(crate) fn execute(args: &CompareArgs) -> Result<Exit, Failure> {
    let store = Store::open_to_read(&session::store_path(&args.db)?)?;
    let (a, b) = (side(&args.a, store.as_ref())?, side(&args.b, store.as_ref())?);
    let comparison = compare(&a, &b, &gauges::registry());
    if comparison.pairs.is_empty() {
        return Err(nothing_in_common(&comparison));
    }
    let as_csv = || Ok(comparison.to_csv());
    let as_json = || output::json(&comparison);
    if !output::documents(&[(args.json.as_deref(), &as_json), (args.csv.as_deref(), &as_csv)])? {
        output::show(&nodegauge_report::compare::page(&comparison));
    }
    let mut exit = Exit::Success;
    for threshold in &args.fail_on {
        let finding = threshold.check(&comparison);
        match finding.in_words(threshold) {
            Some(text) if finding.fails() => {
                exit = Exit::Unmet;
                output::error(&text);
            }
            Some(text) => output::note(&text),
            None => {}
        }
    }
    Ok(exit)
}

/// The runs that a selector means; files alone where there is no history yet.
fn side(selector: &str, store: Option<&Store>) -> Result<Side, Failure> {
    let runs = match store {
        Some(store) => store.find_all(selector)?,
        None if Path::new(selector).is_file() => {
            vec![nodegauge_history::read_file(Path::new(selector))?]
        }
        None => {
            let selector = selector.to_owned();
            return Err(HistoryError::NotFound { selector, candidates: Vec::new() }.into());
        }
    };
    Ok(Side { asked: selector.to_owned(), runs })
}

fn nothing_in_common(comparison: &Comparison) -> Failure {
    let has = |only: &[String]| match only {
        [] => "nothing".to_owned(),
        [first, .., last] => format!("{first} ... {last}"),
        [one] => one.clone(),
    };
    Failure::usage(format!(
        "'{}' and '{}' have no measurement in common: the one has {}, the other {}\nhint: nodegauge history list",
        comparison.a.asked,
        comparison.b.asked,
        has(&comparison.only_a),
        has(&comparison.only_b),
    ))
}
