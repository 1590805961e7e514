//! Completion of command lines in shells: commands, options, names of values, identifiers and labels of saved runs. The
//! shell script calls nodegauge itself, which reads the history; the engine is that of clap.

use crate::args::{DatabaseArgs, definition};
use crate::session;
use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;
use nodegauge_history::{ListedRun, RunFilter};
use nodegauge_measure::UnknownName;
use std::error::Error;
use std::ffi::OsStr;

/// Environment variable with which the shell script requests completions. Its value is the name of the shell.
const VARIABLE: &str = "NODEGAUGE_COMPLETE";
/// Maximum number of saved runs that are suggested, newest first.
const MAX_RUNS: usize = 50;
/// Value that no option accepts. The error for it lists the accepted names.
const NO_VALUE: &str = "\u{1}";
/// Positional arguments that select saved runs.
const SELECTORS: [&str; 4] = ["a", "b", "run", "runs"];

/// Options whose error message does not list the accepted names, because their values are not only names.
const MORE_NAMES: [OptionNames; 5] = [
    OptionNames { option: "bind", names: &["close", "spread", "primary", "none"] },
    OptionNames {
        option: "places",
        names: &["threads", "cores", "sockets", "ll_caches", "numa_domains"],
    },
    OptionNames { option: "numa", names: &["local", "interleave", "bind:", "preferred:"] },
    OptionNames { option: "cores", names: &["fast", "all"] },
    OptionNames { option: "size", names: &["auto", "4xLLC"] },
];

/// Placeholders of values in the help, in lower case, that stand for numbers, paths or other text, not for names.
const VALUES_WITHOUT_NAMES: [&str; 10] =
    ["n", "file", "dir", "size", "sizes", "time", "program", "bytes", "counts", "when"];

/// Names of the values of an option.
struct OptionNames {
    option: &'static str,
    names: &'static [&'static str],
}

/// If a shell requests completions, prints them and ends the process.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(completion_command).var(VARIABLE).complete();
}

/// Returns the completion script of a shell; `None` for an unsupported shell.
pub(crate) fn script(shell: &str) -> Option<String> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let completer = shells.completer(shell)?;
    completer
        .write_registration(VARIABLE, "nodegauge", "nodegauge", "nodegauge", &mut script)
        .ok()?;
    String::from_utf8(script).ok()
}

/// Returns the definition of the command line without internal commands, and with candidates for values.
fn completion_command() -> Command {
    visible_command(&definition(), &[])
}

/// Returns a command without internal subcommands. `above` contains the names of its parent commands.
fn visible_command(command: &Command, above: &[String]) -> Command {
    let path = [above, &[command.get_name().to_owned()]].concat();
    let mut made = Command::default().name(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        made = made.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        made = made.version(version.to_owned());
    }
    made = made.args(command.get_arguments().map(|arg| with_candidates(arg.clone(), &path)));
    made = made.groups(command.get_groups().cloned());
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    made.subcommands(shown.map(|below| visible_command(below, &path)))
}

/// Adds candidates for the value of an argument, in the command with this path.
fn with_candidates(arg: Arg, path: &[String]) -> Arg {
    let takes_value = arg.is_positional() || arg.get_action().takes_values();
    if !takes_value || !arg.get_possible_values().is_empty() {
        return arg;
    }
    let id = arg.get_id().to_string();
    if arg.is_positional() {
        let selects = SELECTORS.contains(&&id[..]);
        let completer = selects.then(|| ArgValueCompleter::new(run_candidates));
        return completer.into_iter().fold(arg, Arg::add);
    }
    match &id[..] {
        "label" | "trend" => return arg.add(ArgValueCompleter::new(label_candidates)),
        "host" => return arg.add(ArgValueCompleter::new(host_candidates)),
        _ => {}
    }
    let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
    if !has_names(&arg) {
        return arg;
    }
    let delimiter = arg.get_value_delimiter();
    let path = path.to_owned();
    arg.add(ArgValueCompleter::new(move |current: &OsStr| {
        let current = current.to_string_lossy();
        let at = delimiter.and_then(|delimiter| current.rfind(delimiter)).map_or(0, |at| at + 1);
        let (before, typed) = current.split_at(at);
        let names = value_names(&path, &long);
        let names = names.iter().filter(|name| name.starts_with(typed));
        names.map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
    }))
}

/// True if values of the option can be names, not only numbers, sizes, times or files.
fn has_names(arg: &Arg) -> bool {
    let is_listed = MORE_NAMES.iter().any(|of| arg.get_id() == of.option);
    let named = arg.get_value_names().unwrap_or_default();
    is_listed || !named.iter().any(|name| VALUES_WITHOUT_NAMES.contains(&&name.to_lowercase()[..]))
}

/// Returns the names that an option accepts, in the command with this path.
fn value_names(path: &[String], long: &str) -> Vec<String> {
    let listed = MORE_NAMES.iter().find(|of| of.option == long);
    if let Some(of) = listed {
        return of.names.iter().map(|name| (*name).to_owned()).collect();
    }
    let words = path.iter().cloned().chain([format!("--{long}={NO_VALUE}")]);
    let Err(error) = definition().try_get_matches_from(words) else { return Vec::new() };
    let unknown = error.source().and_then(|source| source.downcast_ref::<UnknownName>());
    let known = unknown.map(|unknown| unknown.known.iter());
    known.into_iter().flatten().map(|name| (*name).to_owned()).collect()
}

/// Returns the newest runs in the default history; empty if it cannot be read.
fn saved_runs() -> Vec<ListedRun> {
    let history = session::history(&DatabaseArgs { db: None });
    let Ok(Some(store)) = history.open_to_read() else { return Vec::new() };
    let filter = RunFilter { limit: Some(MAX_RUNS), ..RunFilter::default() };
    store.list(&filter).unwrap_or_default()
}

/// Returns the different labels of runs in alphabetical order.
fn labels(runs: &[ListedRun]) -> Vec<String> {
    let pairs = runs.iter().flat_map(|run| &run.labels);
    let mut labels: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    labels.dedup();
    labels
}

/// Returns the candidates that begin with the typed text, with their descriptions.
fn matching<I>(candidates: I, typed: &OsStr) -> Vec<CompletionCandidate>
where
    I: IntoIterator<Item = (String, String)>,
{
    let typed = typed.to_string_lossy();
    let candidates = candidates.into_iter().filter(|(value, _)| value.starts_with(&*typed));
    candidates
        .map(|(value, text)| {
            let help = (!text.is_empty()).then(|| text.into());
            CompletionCandidate::new(value).help(help)
        })
        .collect()
}

/// Returns the candidates for a run: `latest`, labels and identifiers of saved runs, and files.
fn run_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let runs = saved_runs();
    let latest = (!runs.is_empty()).then(|| ("latest".to_owned(), "the newest run".to_owned()));
    let identifiers = runs.iter().map(|run| {
        let host = run.host.as_deref().unwrap_or("unknown host");
        (run.id.clone(), format!("{} on {host}, {}", run.command, run.started))
    });
    let labels = labels(&runs).into_iter().map(|label| (label, "label".to_owned()));
    let mut found = matching(latest.into_iter().chain(labels).chain(identifiers), typed);
    found.extend(files(typed));
    found
}

/// Returns the files whose paths begin with the typed text, as candidates for a run.
fn files(typed: &OsStr) -> Vec<CompletionCandidate> {
    PathCompleter::file().complete(typed)
}

/// Returns the labels of saved runs.
fn label_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    matching(labels(&saved_runs()).into_iter().map(|label| (label, String::new())), typed)
}

/// Returns the hosts of saved runs.
fn host_candidates(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut hosts: Vec<String> = saved_runs().into_iter().filter_map(|run| run.host).collect();
    hosts.sort();
    hosts.dedup();
    matching(hosts.into_iter().map(|host| (host, String::new())), typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the completions of a command line with an incomplete last word.
    fn complete(line: &str) -> Vec<String> {
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        let last = words.len() - 1;
        let found =
            clap_complete::engine::complete(&mut completion_command(), words, last, None).unwrap();
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn internal_commands_are_not_completed() {
        let found = complete("nodegauge m");
        assert!(
            ["machine", "memory", "mpi", "man"].iter().all(|name| found.contains(&(*name).into()))
        );
        let commands = complete("nodegauge ");
        let hidden = definition();
        let hidden = hidden.get_subcommands().filter(|command| command.is_hide_set());
        for command in hidden {
            assert!(!commands.iter().any(|name| name == command.get_name()), "{command}");
            let typed = complete(&format!("nodegauge {}", command.get_name()));
            assert!(typed.is_empty(), "{typed:?}");
        }
    }

    #[test]
    fn completed_names_come_from_the_parsers() {
        assert_eq!(complete("nodegauge stream --bind c"), ["close"]);
        assert_eq!(complete("nodegauge stream --stores a"), ["auto"]);
        assert_eq!(complete("nodegauge stream --kernels copy,tr"), ["copy,triad"]);
        assert_eq!(complete("nodegauge places --emit=om"), ["--emit=omp"]);
        assert_eq!(complete("nodegauge report --format m"), ["md"]);
        assert!(complete("nodegauge memory lat").contains(&"latency".to_owned()));
        let places = complete("nodegauge stream --places ");
        assert!(
            places.iter().all(|place| place.parse::<nodegauge_placement::PlacesSpec>().is_ok())
        );
        assert!(places.contains(&"numa_domains".to_owned()));
    }

    #[test]
    fn completion_script_contains_no_list_of_names() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = script(shell).unwrap();
            assert!(script.contains(VARIABLE) && !script.contains("stream"), "{shell}");
        }
    }
}
