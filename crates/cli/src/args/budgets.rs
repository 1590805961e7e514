//! Default budgets in the help of `--budget`. Each struct of arguments declares the default of its command with the
//! constant that the command uses: `#[command(mut_arg("budget", budgets::add_default_time(HpcgPlan::BUDGET)))]`.

use clap::Arg;
use std::time::Duration;

/// Option that selects a mode of a command, with the default budget of the mode.
pub(super) type ModeBudget = (&'static str, Duration);

/// Adds a default budget to the help of `--budget`.
pub(super) fn add_default_time(usual: Duration) -> impl FnOnce(Arg) -> Arg {
    default_in_words(in_words(usual, &[]))
}

/// Adds a default budget and the budgets of modes to the help of `--budget`.
pub(super) fn add_default_times(
    usual: Duration,
    modes: &[ModeBudget],
) -> impl FnOnce(Arg) -> Arg + use<> {
    default_in_words(in_words(usual, modes))
}

/// Adds a description of the default to the help of `--budget`, for commands without a single default time.
pub(super) fn default_in_words(default: impl Into<String>) -> impl FnOnce(Arg) -> Arg {
    let default = default.into();
    move |budget| {
        let help = budget.get_help().map(ToString::to_string).unwrap_or_default();
        budget.help(format!("{help} [default: {default}]"))
    }
}

/// Returns a default budget for the help, with the budgets of modes that differ from it.
fn in_words(usual: Duration, modes: &[ModeBudget]) -> String {
    let others = modes.iter().filter(|(_, time)| *time != usual);
    let others = others.map(|(option, time)| format!("; {option} {}", time.as_secs_f64()));
    format!("{}{}", usual.as_secs_f64(), others.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use nodegauge_curves::CurvePlan;
    use std::collections::BTreeMap;

    /// Collects the help of `--budget` by command, for the command with this path and its subcommands. Commands whose
    /// `--budget` has a default value of clap are omitted.
    fn collect(command: &Command, path: &str, helps: &mut BTreeMap<String, String>) {
        let budget = command.get_arguments().find(|arg| arg.get_id() == "budget");
        if let Some(budget) = budget.filter(|arg| arg.get_default_values().is_empty()) {
            let help = budget.get_help().map(ToString::to_string).unwrap_or_default();
            helps.insert(path.to_owned(), help);
        }
        for sub in command.get_subcommands() {
            collect(sub, format!("{path} {}", sub.get_name()).trim_start(), helps);
        }
    }

    #[test]
    fn budget_help_contains_its_default_once() {
        let mut helps = BTreeMap::new();
        collect(&crate::args::definition(), "", &mut helps);
        assert!(helps.len() > 15, "{helps:?}");
        for path in ["", "run", "stream", "memory ladder", "device stream", "apps iccg"] {
            assert!(helps.contains_key(path), "{path:?}: {helps:?}");
        }
        for (path, help) in &helps {
            assert_eq!(help.matches(" [default: ").count(), 1, "nodegauge {path}: {help}");
        }
        let of_mix = format!(" [default: {}]", CurvePlan::BUDGET.as_secs_f64());
        assert!(helps["memory mix"].ends_with(&of_mix), "{helps:?}");
        assert!(helps["mpi"].ends_with(" [default: no limit]"), "{helps:?}");
    }

    #[test]
    fn modes_with_the_default_budget_are_omitted() {
        let ten = Duration::from_secs(10);
        let modes = [("--tune", Duration::from_secs(30)), ("--sweep", ten)];
        assert_eq!(in_words(ten, &modes), "10; --tune 30");
    }
}
