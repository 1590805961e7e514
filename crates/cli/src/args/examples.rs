//! Examples with which every `--help` ends. A test runs each of them.

use clap::Command;
use std::fmt::Write;

/// Examples of a command.
struct CommandExamples {
    /// Name of the command after `nodegauge`, e.g. `memory ladder`; empty for the program.
    path: &'static str,
    /// Complete command lines, in the order of usefulness; the first is the hint for a wrong usage.
    lines: &'static [&'static str],
}

/// Shorthand for a row of [`EXAMPLES`].
const fn row(path: &'static str, lines: &'static [&'static str]) -> CommandExamples {
    CommandExamples { path, lines }
}

const EXAMPLES: &[CommandExamples] = &[
    row("", &["nodegauge", "nodegauge stream --json result.json", "nodegauge report latest"]),
    row(
        "run",
        &[
            "nodegauge run",
            "nodegauge run --budget 2m --label nps=4 --json node.json",
            "nodegauge run --full --strict",
        ],
    ),
    row(
        "machine",
        &[
            "nodegauge machine",
            "nodegauge machine --json machine.json",
            "nodegauge machine --topology 'synthetic:Package:2 Core:96 PU:1'",
        ],
    ),
    row("doctor", &["nodegauge doctor", "nodegauge doctor --json findings.json"]),
    row(
        "places",
        &[
            "nodegauge places",
            "nodegauge places --places cores --bind spread",
            "nodegauge places --topology 'synthetic:Package:2 Core:4 PU:1' --ranks 4",
            "nodegauge places --emit omp",
        ],
    ),
    row(
        "stream",
        &[
            "nodegauge stream",
            "nodegauge stream --threads 1 --size 2GiB --stores regular",
            "nodegauge stream --sweep pages=4k,thp --kernels triad",
            "nodegauge stream --expect 'triad>=1GB/s' --accept-suspect",
            "nodegauge stream --plan",
        ],
    ),
    row("explain", &["nodegauge explain", "nodegauge explain --threads 1 --kernels triad"]),
    row(
        "memory",
        &["nodegauge memory ladder", "nodegauge memory latency", "nodegauge memory matrix"],
    ),
    row(
        "memory ladder",
        &["nodegauge memory ladder", "nodegauge memory ladder --threads 1 --size 256MiB"],
    ),
    row(
        "memory latency",
        &["nodegauge memory latency", "nodegauge memory latency --size 256MiB --pages 4k"],
    ),
    row(
        "memory matrix",
        &["nodegauge memory matrix", "nodegauge memory matrix --json matrix.json"],
    ),
    row("memory loaded", &["nodegauge memory loaded", "nodegauge memory loaded --csv loaded.csv"]),
    row("memory mix", &["nodegauge memory mix", "nodegauge memory mix --threads 1"]),
    row(
        "roofline",
        &[
            "nodegauge roofline",
            "nodegauge roofline --point spmv,2.4e9,1.9e10,0.8",
            "nodegauge roofline --perf -- ./solver input",
        ],
    ),
    row(
        "mpi",
        &[
            "nodegauge mpi",
            "nodegauge mpi --patterns latency,bw --sizes 8,4KiB,1MiB",
            "nodegauge mpi --transport=shm --patterns latency",
        ],
    ),
    row(
        "hpl",
        &["nodegauge hpl", "nodegauge hpl --order 4000 --threads 1", "nodegauge hpl --full --plan"],
    ),
    row(
        "io",
        &[
            "nodegauge io",
            "nodegauge io --path . --quick",
            "nodegauge io --operations write,read --file-sizes 64MiB --block-sizes 1MiB",
            "nodegauge io --operations random_read --engine uring --bs 4KiB --iodepth 8",
        ],
    ),
    row("device", &["nodegauge device", "nodegauge device stream --device all"]),
    row(
        "device stream",
        &["nodegauge device stream", "nodegauge device stream --device cuda:0 --size 1GiB"],
    ),
    row("device links", &["nodegauge device links", "nodegauge device links --sizes 8,1MiB,64MiB"]),
    row("device peaks", &["nodegauge device peaks", "nodegauge device peaks --element f64"]),
    row(
        "apps",
        &["nodegauge apps trapezoid", "nodegauge apps iccg", "nodegauge apps hpcg --grid 64"],
    ),
    row(
        "apps trapezoid",
        &["nodegauge apps trapezoid", "nodegauge apps trapezoid --n 1e6 --policy none"],
    ),
    row(
        "apps iccg",
        &[
            "nodegauge apps iccg",
            "nodegauge apps iccg --elements 32,32,32 --preconditioner diagonal",
        ],
    ),
    row("apps hpcg", &["nodegauge apps hpcg", "nodegauge apps hpcg --grid 64 --policy none"]),
    row(
        "sweep",
        &[
            "nodegauge sweep policy=0-5 -- ./solver input",
            "nodegauge sweep env:BLOCK=16,64 --threads 1 -- ./solver input",
        ],
    ),
    row("watch", &["nodegauge watch", "nodegauge watch --every 10m --for 24h --label watch=night"]),
    row(
        "check",
        &[
            "nodegauge check",
            "nodegauge check --level 2 --reference site.json",
            "nodegauge check --nagios",
        ],
    ),
    row("history", &["nodegauge history list", "nodegauge history show latest"]),
    row(
        "history list",
        &["nodegauge history list", "nodegauge history list --gauge stream --since 7d"],
    ),
    row(
        "history show",
        &["nodegauge history show latest", "nodegauge history show nps=4 --verbose"],
    ),
    row(
        "history export",
        &["nodegauge history export --output runs.jsonl", "nodegauge history export nps=4"],
    ),
    row(
        "history import",
        &[
            "nodegauge history import runs.jsonl",
            "nodegauge history import stream.out --processor 'EPYC 9654' --sockets 2",
        ],
    ),
    row("history label", &["nodegauge history label latest nps=4"]),
    row("history remove", &["nodegauge history remove latest"]),
    row(
        "compare",
        &[
            "nodegauge compare latest~1 latest",
            "nodegauge compare nps=1 nps=4 --fail-on slower",
            "nodegauge compare --run 'stream --pages 4k' 'stream --pages thp'",
        ],
    ),
    row(
        "report",
        &[
            "nodegauge report latest",
            "nodegauge report nps=1 nps=4 --output nps.html",
            "nodegauge report latest --format md",
        ],
    ),
    row(
        "fleet",
        &["nodegauge fleet rank fleet/", "nodegauge fleet baseline fleet/ --output site.json"],
    ),
    row(
        "fleet rank",
        &[
            "nodegauge fleet rank fleet/",
            "nodegauge fleet rank fleet/ --nodes node[01-04]",
            "nodegauge fleet rank fleet/ --format html --output rank.html",
        ],
    ),
    row(
        "fleet baseline",
        &[
            "nodegauge fleet baseline fleet/ --output site.json",
            "nodegauge fleet baseline --gauge stream --since 30d",
        ],
    ),
    row(
        "fleet diff",
        &["nodegauge fleet diff fleet/", "nodegauge fleet diff fleet/ --before older/"],
    ),
    row(
        "fleet script",
        &[
            "nodegauge fleet script --for slurm --nodes node[01-64]",
            "nodegauge fleet script --for clush --nodes node[01-64] -- stream --budget 20",
        ],
    ),
    row(
        "fleet run",
        &["nodegauge fleet run fleet", "nodegauge fleet run fleet --nodes node[01-64] -- stream"],
    ),
    row("completions", &["nodegauge completions bash"]),
    row("man", &["nodegauge man", "nodegauge man --output man1"]),
    row("schema", &["nodegauge schema"]),
];

/// Returns the examples of the command with this path.
fn of(path: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|examples| examples.path == path).map_or(&[], |examples| examples.lines)
}

/// Returns the first example of the command with this path.
pub(super) fn first(path: &str) -> Option<&'static str> {
    of(path).first().copied()
}

/// Adds the examples to `--help` of a command and of those below it.
pub(super) fn shown(command: Command) -> Command {
    below(command, "")
}

/// Adds the examples to `--help` of the command with this path, and of those below it.
fn below(mut command: Command, path: &str) -> Command {
    let lines = of(path);
    if !lines.is_empty() {
        let mut text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str("Examples:");
        for line in lines {
            let _ = write!(text, "\n  {line}");
        }
        command = command.after_long_help(text);
    }
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim_start().to_owned();
        command.mut_subcommand(name, |sub| below(sub, &path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodegauge_toolchain::CommandLine;

    /// Maximum length of an example, which is indented by two columns.
    const WIDEST: usize = 78;

    /// Adds the paths of the visible commands to `all`.
    fn collect(command: &Command, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            collect(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
        }
    }

    #[test]
    fn every_command_has_examples_that_are_parsed() {
        let mut all = Vec::new();
        collect(&crate::args::definition(), "", &mut all);
        for path in &all {
            assert!(!of(path).is_empty(), "{path:?} has no example");
        }
        for CommandExamples { path, lines } in EXAMPLES {
            assert!(all.iter().any(|known| known == path), "{path:?} is not a command");
            for line in *lines {
                assert!(line.starts_with(format!("nodegauge {path}").trim_end()), "{line}");
                assert!(line.len() <= WIDEST, "{line}: wrapped at 80 columns");
                let words = CommandLine::read("command", "", line).unwrap();
                let matches = crate::args::command().try_get_matches_from(words.words());
                assert!(matches.is_ok(), "{line}: {matches:?}");
            }
        }
    }
}
