//! Default budgets in the help of `--budget`, from the constants that the commands use.

use clap::Command;
use nodegauge_apps::hpcg::HpcgPlan;
use nodegauge_apps::iccg::IccgOptions;
use nodegauge_apps::trapezoid::TrapezoidPlan;
use nodegauge_curves::CurvePlan;
use nodegauge_devices::ALL_PARTS_BUDGET;
use nodegauge_devices::links::LinkPlan;
use nodegauge_devices::peaks::PeakPlan;
use nodegauge_devices::stream::DeviceStreamOptions;
use nodegauge_files::FilesOptions;
use nodegauge_programs::ProgramSweep;
use nodegauge_roofline::RooflinePlan;
use nodegauge_stream::ablation::AblationPlan;
use nodegauge_stream::compiled::CompiledPlan;
use nodegauge_stream::standard::StandardPlan;
use nodegauge_stream::stream::StreamPlan;
use nodegauge_stream::sweep::SweepPlan;
use nodegauge_stream::tune::TunePlan;
use std::time::Duration;

/// Identifier of the option `--budget`.
const BUDGET: &str = "budget";

/// Time that a command takes without `--budget`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DefaultBudget {
    /// A budget; other budgets of modes, with the option of each.
    Time(Duration, Vec<(&'static str, Duration)>),
    /// No single budget.
    None(&'static str),
}

impl DefaultBudget {
    /// Returns the default of the command with this path, e.g. `device stream`; `None` for a command that this table lacks.
    fn of(path: &str) -> Option<Self> {
        let budget = match path {
            "" | "run" => return Some(Self::None("that of each part")),
            "mpi" => return Some(Self::None("no limit")),
            "stream" => {
                let modes = vec![
                    ("--tune", TunePlan::BUDGET),
                    ("--sweep", SweepPlan::BUDGET),
                    ("--standard", StandardPlan::BUDGET),
                    ("--compiler", CompiledPlan::BUDGET),
                    ("--device", DeviceStreamOptions::BUDGET),
                ];
                return Some(Self::Time(StreamPlan::BUDGET, modes));
            }
            "io" => {
                let quick = ("--quick", FilesOptions::QUICK_BUDGET);
                return Some(Self::Time(FilesOptions::BUDGET, vec![quick]));
            }
            "explain" => AblationPlan::BUDGET,
            "roofline" => RooflinePlan::BUDGET,
            "hpl" => nodegauge_compute::options::BUDGET,
            "device" => ALL_PARTS_BUDGET,
            "device stream" => DeviceStreamOptions::BUDGET,
            "device links" => LinkPlan::BUDGET,
            "device peaks" => PeakPlan::BUDGET,
            "apps trapezoid" => TrapezoidPlan::BUDGET,
            "apps iccg" => IccgOptions::BUDGET,
            "apps hpcg" => HpcgPlan::BUDGET,
            "sweep" => ProgramSweep::BUDGET,
            curve if curve.starts_with("memory ") => CurvePlan::BUDGET,
            _ => return None,
        };
        Some(Self::Time(budget, Vec::new()))
    }

    /// Returns the default as the help shows it.
    fn in_words(&self) -> String {
        match self {
            Self::None(words) => (*words).to_owned(),
            Self::Time(usual, modes) => {
                let modes = modes
                    .iter()
                    .filter(|(_, time)| time != usual)
                    .map(|(option, time)| format!("; {option} {}", time.as_secs_f64()));
                format!("{}{}", usual.as_secs_f64(), modes.collect::<String>())
            }
        }
    }
}

/// Adds the default budgets to the help of a command and of those below it.
pub(super) fn stated(command: Command) -> Command {
    below(command, "")
}

/// Adds the default budgets to the help of the command with this path and of those below it.
fn below(mut command: Command, path: &str) -> Command {
    let has_option = command.get_arguments().any(|arg| arg.get_id() == BUDGET);
    if let Some(default) = DefaultBudget::of(path).filter(|_| has_option) {
        command = command.mut_arg(BUDGET, |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(format!("{help} [default: {}]", default.in_words()))
        });
    }
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |sub| below(sub, &path));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the help of the command with this path and of those below it; adds the paths of the commands with a budget
    /// to `checked`.
    fn check(command: &Command, path: &str, checked: &mut Vec<String>) {
        let budget = command.get_arguments().find(|arg| arg.get_id() == BUDGET);
        if let Some(budget) = budget.filter(|arg| arg.get_default_values().is_empty()) {
            let default = DefaultBudget::of(path);
            let default =
                default.unwrap_or_else(|| panic!("the default of {path:?} is not stated"));
            let help = budget.get_help().map(ToString::to_string).unwrap_or_default();
            let words = format!(" [default: {}]", default.in_words());
            assert!(help.ends_with(&words), "{path}: {help}");
            checked.push(path.to_owned());
        }
        for sub in command.get_subcommands() {
            check(sub, format!("{path} {}", sub.get_name()).trim_start(), checked);
        }
    }

    #[test]
    fn help_of_every_budget_states_its_default() {
        let mut checked = Vec::new();
        check(&crate::args::definition(), "", &mut checked);
        assert!(checked.len() > 15, "{checked:?}");
        for path in ["", "stream", "memory ladder", "device stream", "apps iccg"] {
            assert!(checked.iter().any(|known| known == path), "{path:?}: {checked:?}");
        }
    }

    #[test]
    fn default_budget_is_that_of_the_plan() {
        let mix = DefaultBudget::Time(CurvePlan::BUDGET, Vec::new());
        assert_eq!(DefaultBudget::of("memory mix"), Some(mix));
        assert_eq!(DefaultBudget::of("doctor"), None);
        let modes = vec![("--tune", Duration::from_secs(30)), ("--sweep", Duration::from_secs(10))];
        let default = DefaultBudget::Time(Duration::from_secs(10), modes);
        assert_eq!(default.in_words(), "10; --tune 30");
    }
}
