//! Tests of the commands in `docs/tasks`. Each command runs as written, with a small budget or small sizes. The history
//! contains sixty unrelated runs.

use crate::chapters::{chapters, commands};
use crate::contract::words;
use crate::harness::{Harness, Part};
use crate::history::many;

/// Number of saved runs that are unrelated to the task.
const UNRELATED: usize = 60;
/// Machine for commands that only plan, because their threads do not fit on every machine.
const LARGE: &str =
    "synthetic:Package:2 NUMANode:1 L3Cache:4(size=33554432) L2Cache:4 L1dCache:1 Core:1 PU:1";

/// Command that is not run, with the reason.
struct Exemption {
    /// First words of the command.
    command: &'static str,
    reason: &'static str,
}

const EXEMPT: [Exemption; 7] = [
    Exemption { command: "fleet run ", reason: "needs a cluster; thorough::slurm runs it on one" },
    Exemption {
        command: "check --level 2 --vet ",
        reason: "needs ranks on several nodes; thorough::check_slurm runs it with srun",
    },
    Exemption {
        command: "stream --exclude-file ",
        reason: "needs ranks on several nodes; thorough::hosts runs it with mpirun",
    },
    Exemption { command: "hpl --full", reason: "fills the memory of the machine" },
    Exemption {
        command: "hpl --xhpl ./xhpl",
        reason: "needs an HPL at this path; thorough::hpl_real runs one",
    },
    Exemption {
        command: "hpl --blas /opt/blis/lib/libblis.so",
        reason: "needs a library at this path; hpl_blas gives one by its path",
    },
    Exemption {
        command: "mpi --mpicc /opt/openmpi/bin/mpicc",
        reason: "needs an MPI at this path; mpi gives one by its path",
    },
];

/// Options that shorten a command. The other options of the command remain.
struct Reduction {
    /// First words of the command.
    command: &'static str,
    added: &'static [&'static str],
}

/// Options by command. The first entry whose words match is used.
const REDUCED: [Reduction; 16] = [
    Reduction { command: "stream --against list", added: &[] },
    Reduction { command: "stream --sweep", added: &["--size", "1MiB", "--samples", "2"] },
    Reduction { command: "stream", added: &["--size", "1MiB", "--samples", "3"] },
    Reduction { command: "explain", added: &["--size", "1MiB", "--samples", "2"] },
    Reduction { command: "compare --run", added: &["--blocks", "3"] },
    Reduction { command: "hpl --plan", added: &[] },
    Reduction { command: "hpl --hpl-dat-only", added: &[] },
    Reduction { command: "hpl", added: &["--order", "256"] },
    Reduction { command: "mpi", added: &["--sizes", "8", "--budget", "5"] },
    Reduction { command: "io", added: &["--file-sizes", "1MiB", "--budget", "2"] },
    Reduction { command: "run", added: &["--budget", "10"] },
    Reduction { command: "roofline", added: &["--size", "1MiB", "--samples", "1"] },
    Reduction { command: "memory matrix", added: &["--size", "1MiB", "--samples", "1"] },
    Reduction { command: "apps iccg", added: &["--elements", "8,8,8", "--samples", "1"] },
    Reduction { command: "watch", added: &["--budget", "1", "--when-busy", "measure"] },
    Reduction { command: "places --", added: &["--topology", LARGE] },
];

/// Words that are replaced: paths and times in the chapters. In `compare --run`, they may be parts of a word.
const REPLACED: [(&str, &str); 5] = [
    // A described machine is given by `REDUCED`.
    ("--topology \"$NODE\" ", ""),
    ("/scratch", "scratch"),
    ("--every 10m --for 24h", "--every 10s --for 1s"),
    ("'stream --pages 4k'", "'stream --pages 4k --size 1MiB --samples 3'"),
    ("'stream --pages thp'", "'stream --pages thp --size 1MiB --samples 3'"),
];

/// Commands that exit with 1 if a verdict or condition is negative, which depends on the machine.
const JUDGING: [&str; 4] = ["--expect", "--fail-on", "check", "fleet rank"];

/// Command whose results a chapter requires, e.g. results of another node or of an earlier month.
struct Preparation {
    chapter: &'static str,
    command: &'static str,
}

const PREPARED: [Preparation; 2] = [
    Preparation { chapter: "accept", command: "run --label node=n16" },
    Preparation { chapter: "site", command: "stream --label check=november" },
];

/// Returns the arguments of a command with the options that shorten it.
fn reduced(command: &str) -> Vec<String> {
    let mut text = command.to_owned();
    for (written, replaced) in REPLACED {
        text = text.replace(written, replaced);
    }
    let mut arguments = words(&text);
    let reduction = REDUCED.iter().find(|reduction| command.starts_with(reduction.command));
    let added = reduction.map_or(&[][..], |reduction| reduction.added);
    if !added.iter().any(|added| added.starts_with("--") && arguments.iter().any(|a| a == added)) {
        arguments.extend(added.iter().map(|&added| added.to_owned()));
    }
    arguments
}

/// Runs a command. The test fails if the command does not do what the chapter states.
#[track_caller]
fn run(harness: &Harness, command: &str) {
    let arguments = reduced(command);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = harness.run(&arguments);
    let is_judging = JUDGING.iter().any(|words| command.contains(words));
    if is_judging && outcome.code == Some(1) {
        return;
    }
    outcome.exits(0);
}

/// Returns the text of a chapter.
fn text(chapter: &str) -> String {
    let name = format!("docs/tasks/{chapter}.md");
    let found = chapters().into_iter().find(|(path, _)| *path == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

/// Runs the commands of a chapter in their order, if the required programs are installed.
fn works_as_written(chapter: &str, required: &[(Part, &str)]) {
    let harness = Harness::new();
    if !required.iter().all(|(part, program)| harness.has(*part, program)) {
        return;
    }
    harness.write("runs.jsonl", many(UNRELATED));
    harness.run(&["history", "import", "runs.jsonl"]).exits(0);
    harness.write("stream.c", include_str!("../../standin/stream.c"));
    std::fs::create_dir_all(harness.path("scratch/me")).unwrap();
    for folder in ["fleet", "night"] {
        crate::fleet::write_records(&harness, folder);
    }
    for preparation in PREPARED.iter().filter(|one| one.chapter == chapter) {
        run(&harness, preparation.command);
    }
    let text = text(chapter);
    let commands = commands(&text);
    assert!(!commands.is_empty(), "{chapter}");
    for command in &commands {
        if EXEMPT.iter().any(|exempt| command.starts_with(exempt.command)) {
            continue;
        }
        run(&harness, command);
    }
}

/// Defines the list of chapters, and a test for each chapter.
macro_rules! tasks {
    ($($name:ident $(needs $part:ident $program:literal)*;)*) => {
        const TASKS: &[&str] = &[$(stringify!($name)),*];

        mod works_as_written {
            use super::Part;

            $(
                #[test]
                fn $name() {
                    let required: &[(Part, &str)] = &[$((Part::$part, $program)),*];
                    super::works_as_written(stringify!($name), required);
                }
            )*
        }
    };
}

tasks! {
    accept;
    balance;
    choose needs Compilers "gcc" needs Mpi "mpicc";
    files needs Fio "fio";
    hpl;
    place;
    settings;
    site;
    teach;
    triad needs Compilers "gcc";
}

#[test]
fn every_task_is_tested() {
    let mut names: Vec<String> = Vec::new();
    for (path, _) in chapters() {
        let name = path.strip_prefix("docs/tasks/").and_then(|name| name.strip_suffix(".md"));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    assert_eq!(names, TASKS);
}

#[test]
fn exemptions_and_reductions_of_tasks_refer_to_commands() {
    let texts: Vec<String> = TASKS.iter().map(|chapter| text(chapter)).collect();
    let all: Vec<String> = texts.iter().flat_map(|text| commands(text)).collect();
    let is_used = |beginning: &str| all.iter().any(|command| command.starts_with(beginning));
    for exempt in &EXEMPT {
        assert!(is_used(exempt.command), "{}: {}", exempt.command, exempt.reason);
    }
    for reduction in &REDUCED {
        assert!(is_used(reduction.command), "{}", reduction.command);
    }
}
