//! Properties of all commands: the order of option groups in the help, and suggestions for unknown commands.

use clap::{Arg, Command};
use nodegauge_measure::is_alike;

/// Groups of options, in the order of every help text.
pub(super) const OPTION_GROUPS: [&str; 7] =
    ["What", "Where", "How", "How long", "Reference programs", "Output", "Rarely needed"];
/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 4;

/// Short options that are no longer supported because they had several meanings. Only `memory matrix -o` remains, as an
/// alias. The hint names the long option.
pub(super) const REMOVED_SHORT_OPTIONS: [char; 3] = ['n', 'o', 't'];

/// Removes a short option that had several meanings.
fn without_removed_short(arg: Arg) -> Arg {
    if arg.get_short().is_some_and(|short| REMOVED_SHORT_OPTIONS.contains(&short)) {
        arg.short(None)
    } else {
        arg
    }
}

/// Sorts the options of a command and its subcommands in the order of [`OPTION_GROUPS`]. Options without a group come
/// first.
pub(super) fn sort_options(command: Command) -> Command {
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    let mut ids: Vec<(usize, String)> = options
        .map(|arg| {
            (arg.get_help_heading().and_then(group_rank).unwrap_or(0), arg.get_id().to_string())
        })
        .collect();
    ids.sort_by_key(|(order, _)| *order);
    // An argument that is changed moves to the end of the list.
    let command = ids.iter().fold(command, |command, (order, id)| {
        command.mut_arg(id, |arg| without_removed_short(arg).help_heading(OPTION_GROUPS[*order]))
    });
    command.mut_subcommands(sort_options)
}

/// Returns the position of a group of options.
fn group_rank(heading: &str) -> Option<usize> {
    let found = OPTION_GROUPS.iter().position(|group| *group == heading);
    debug_assert!(found.is_some(), "option group {heading:?} is missing in OPTION_GROUPS");
    found
}

/// Returns the commands that a mistyped word may mean, as complete command lines.
pub(super) fn suggested_commands(typed: &str, root: &Command) -> Vec<String> {
    let typed = typed.to_lowercase();
    let mut all = Vec::new();
    collect(root, root.get_name(), &mut all);
    let mut found = command_paths(&all, |command| has_name(command, |name| name == typed));
    if found.is_empty() {
        found = command_paths(&all, |command| has_name(command, |name| is_alike(&typed, name)));
    }
    if found.is_empty() {
        found = command_paths(&all, |command| is_in_help(command, &typed));
    }
    found
}

/// Returns the names of the first matching commands.
fn command_paths(all: &[(String, &Command)], is_meant: impl Fn(&Command) -> bool) -> Vec<String> {
    let found = all.iter().filter(|(_, command)| is_meant(command));
    found.map(|(path, _)| path.clone()).take(MAX_SUGGESTIONS).collect()
}

/// True if a name or alias of a command matches.
fn has_name(command: &Command, is_meant: impl Fn(&str) -> bool) -> bool {
    is_meant(command.get_name()) || command.get_all_aliases().any(is_meant)
}

/// True if the help of a command contains a word.
fn is_in_help(command: &Command, word: &str) -> bool {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default().to_lowercase();
    about.split(|c: char| !c.is_alphanumeric()).any(|one| one == word)
}

/// Collects all visible subcommands of a command with their full names.
fn collect<'a>(command: &'a Command, path: &str, all: &mut Vec<(String, &'a Command)>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        all.push((path.clone(), sub));
        collect(sub, &path, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command;

    #[test]
    fn bare_subcommand_name_suggests_the_full_command() {
        let root = command();
        let mut all = Vec::new();
        collect(&root, "nodegauge", &mut all);
        assert!(all.len() > 20);
        for (path, command) in &all {
            assert!(suggested_commands(command.get_name(), &root).contains(path), "{path}");
        }
        assert_eq!(suggested_commands("latency", &root), ["nodegauge memory latency"]);
        assert_eq!(suggested_commands("Ladders", &root), ["nodegauge memory ladder"]);
        let bandwidth = suggested_commands("bandwidth", &root);
        assert!(bandwidth.contains(&"nodegauge stream".to_owned()), "{bandwidth:?}");
        assert!(suggested_commands("xyzzy", &root).is_empty());
    }

    #[test]
    fn option_groups_have_one_order_in_all_commands() {
        fn check(command: &Command) {
            let headings: Vec<&str> =
                command.get_arguments().filter_map(|arg| arg.get_help_heading()).collect();
            let ranks: Vec<Option<usize>> = headings
                .iter()
                .map(|heading| OPTION_GROUPS.iter().position(|group| group == heading))
                .collect();
            assert!(
                ranks.is_sorted() && !ranks.contains(&None),
                "{}: {headings:?}",
                command.get_name()
            );
            let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
            shown.filter(|sub| sub.get_name() != "help").for_each(check);
        }
        let mut root = command();
        root.build();
        check(&root);
    }
}
