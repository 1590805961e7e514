//! Selection of the options in `-h`, whose page fits on one screen. `--help` shows all options.

use super::tree::OPTION_GROUPS;
use clap::{Arg, Command};

/// Heading of options that only `--help` shows.
const RARE_HEADING: &str = OPTION_GROUPS[OPTION_GROUPS.len() - 1];

/// Options that only `--help` shows, in all commands.
const DETAILS: &[&str] = &[
    "accept_suspect",
    "against",
    "cpus",
    "csv",
    "element",
    "exclude_file",
    "launcher",
    "locality",
    "memory",
    "memory_fraction",
    "per_cache",
    "prefetch",
    "quiet",
    "rank_map",
    "reference",
    "show",
    "side_by_side",
    "strict",
    "stride",
    "topology",
    "verbose",
];

/// Options that only `--help` shows, in the command with this path.
struct CommandDetails {
    path: &'static str,
    options: &'static [&'static str],
}

const COMMAND_DETAILS: &[CommandDetails] = &[
    CommandDetails { path: "", options: &["budget", "samples", "json", "label", "expect"] },
    CommandDetails {
        path: "stream",
        options: &["devices", "stream_text", "policy", "places", "choices", "plan", "bind"],
    },
    CommandDetails {
        path: "mpi",
        options: &[
            "osu",
            "hosts",
            "warm_up",
            "threads",
            "no_floor",
            "iterations",
            "size_limit",
            "osu_text",
        ],
    },
    CommandDetails { path: "hpl", options: &["rate", "places", "hosts", "hpl_text"] },
    CommandDetails {
        path: "io",
        options: &[
            "max_size",
            "full",
            "stride",
            "mix",
            "processes",
            "sync_writes",
            "include_close",
            "include_fsync",
            "drop",
            "runtime",
            "iozone_text",
            "verify",
        ],
    },
    CommandDetails { path: "apps iccg", options: &["tolerance", "iterations", "places"] },
    CommandDetails { path: "apps hpcg", options: &["xhpcg_seconds", "places"] },
    CommandDetails { path: "sweep", options: &["places", "policy", "limit", "unit"] },
];

/// Hides options from `-h` that only `--help` shows, in a command and its subcommands.
pub(super) fn hide_details(command: Command) -> Command {
    hide_details_in(command, "")
}

/// True if only `--help` shows this argument; `own` contains the command's own details.
fn is_detail(arg: &Arg, own: &[&str]) -> bool {
    let id = arg.get_id().as_str();
    let is_listed = DETAILS.contains(&id) || own.contains(&id);
    !arg.is_positional() && (is_listed || arg.get_help_heading() == Some(RARE_HEADING))
}

/// Hides options from `-h` in the command with this path and its subcommands.
fn hide_details_in(command: Command, path: &str) -> Command {
    let own = COMMAND_DETAILS.iter().find(|details| details.path == path);
    let own = own.map_or(&[][..], |details| details.options);
    let command =
        command.mut_args(|arg| if is_detail(&arg, own) { arg.hide_short_help(true) } else { arg });
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        hide_details_in(sub, path.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum length of the page of `-h` in lines.
    const MAX_LINES: usize = 45;

    /// Appends to `long` each command whose `-h` page has more than [`MAX_LINES`] lines, with the number of lines.
    fn collect_long_pages(command: &mut Command, path: &str, long: &mut Vec<String>) {
        let lines = command.render_help().to_string().lines().count();
        if lines > MAX_LINES {
            long.push(format!("{path}: {lines} lines"));
        }
        for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
            if path != "help" && !path.ends_with(" help") {
                collect_long_pages(sub, &path, long);
            }
        }
    }

    #[test]
    fn short_help_of_every_command_fits_one_screen() {
        let mut root = crate::args::command().term_width(80);
        root.build();
        let mut long = Vec::new();
        collect_long_pages(&mut root, "", &mut long);
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn options_hidden_in_short_help_exist() {
        fn collect(command: &Command, path: &str, all: &mut Vec<(String, String)>) {
            let options = command.get_arguments().map(|arg| arg.get_id().to_string());
            all.extend(options.map(|id| (path.to_owned(), id)));
            for sub in command.get_subcommands() {
                let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
                collect(sub, &path, all);
            }
        }
        let mut all = Vec::new();
        collect(&crate::args::definition(), "", &mut all);
        for id in DETAILS {
            assert!(all.iter().any(|(_, known)| known == id), "{id}");
        }
        for CommandDetails { path, options } in COMMAND_DETAILS {
            for id in *options {
                let has = all.iter().any(|(of, known)| of == path && known == id);
                assert!(has, "{path}: {id}");
            }
        }
    }
}
