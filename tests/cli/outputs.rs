//! Tests of output files in folders of other users: links are not followed, files of others are not replaced, and
//! permissions are not inherited.

use crate::harness::{Harness, Outcome, Part, skip};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

/// Identifier of a user who does not run the tests.
const NOBODY: u32 = 65_534;
/// Options that name an output, each with the name of the file. All ways in which the program writes files are covered.
const OUTPUTS: [(&[&str], &str); 13] = [
    (&["machine", "--json"], "out"),
    (&["places", "--json"], "out"),
    (&["doctor", "--json"], "out"),
    (&["hpl", "--order", "1000", "--hpl-dat-only"], "out"),
    (&["stream", "--size", "1MiB", "--samples", "2", "--no-save", "--json"], "out"),
    (&["stream", "--size", "1MiB", "--samples", "2", "--no-save", "--csv"], "out"),
    (&["io", "--file-sizes", "256KiB", "--block-sizes", "16KiB", "--no-save", "--surface"], "out"),
    (&["history", "export", "--output"], "out"),
    (&["history", "show", "latest", "--csv"], "out"),
    (&["history", "list", "--json"], "out"),
    (&["report", "latest", "--output"], "out"),
    (&["report", "latest", "--format", "openmetrics", "--output"], "out"),
    (&["compare", "latest", "latest", "--json"], "out"),
];

/// Options whose file or folder is only read or is the history, and options that the tests of `check` cover.
const NO_OUTPUTS: [&str; 8] = [
    "--db",
    "--exclude-file",
    "--folder",
    "--node-file",
    "--osu",
    "--path",
    "--reference",
    "--state",
];
/// Arguments that commands require before their options.
const REQUIRED: [(&str, &[&str]); 4] = [
    ("history show", &["latest"]),
    ("compare", &["latest", "latest"]),
    ("report", &["latest"]),
    ("memory matrix", &["--emit", "hwloc"]),
];

/// Arguments that commands require after their options.
const BEHIND: [(&str, &[&str]); 1] = [("sweep", &["--", "true"])];

/// Returns all commands, from their help.
fn commands(harness: &Harness, parent: &[String]) -> Vec<Vec<String>> {
    let mut all = vec![parent.to_vec()];
    let help = help(harness, parent);
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let Some(entry) = line.strip_prefix("  ").filter(|entry| !entry.starts_with(' ')) else {
            continue;
        };
        let name = entry.split(' ').next().unwrap();
        if name != "help" {
            all.extend(commands(harness, &[parent, &[name.to_owned()]].concat()));
        }
    }
    all
}

fn help(harness: &Harness, command: &[String]) -> String {
    let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
    words.push("--help");
    harness.run(&words).exits(0).stdout
}

/// Returns the options of a command whose value has one of these names.
fn file_options(harness: &Harness, command: &[String], values: &[&str]) -> Vec<String> {
    let mut options = Vec::new();
    for line in help(harness, command).lines() {
        let line = line.trim();
        let names_a_file = values.iter().any(|value| line.contains(value));
        if line.starts_with('-') && names_a_file {
            options.extend(line.split(' ').find(|word| word.starts_with("--")).map(str::to_owned));
        }
    }
    options
}

#[test]
fn output_options_refuse_symbolic_links_in_shared_folders() {
    let harness = with_a_run();
    let victim = harness.write("victim", "OLD CONTENT");
    symlink(&victim, harness.path("shared/out")).unwrap();
    set_mode(&harness.path("shared"), 0o1777);
    let has_device =
        harness.run(&["device", "peaks", "--budget", "1", "--no-save"]).code != Some(3);
    if !has_device {
        skip(Part::Opencl, "no device can be used");
    }
    let has_two_cpus = harness.has_cpus(2);
    let mut outputs = 0;
    for command in commands(&harness, &[]) {
        let name = command.join(" ");
        let runs_here = match command.first().map(String::as_str) {
            Some("device") => has_device,
            Some("mpi" | "memory") => has_two_cpus,
            // `man --output` names a folder; see `man_pages_do_not_replace_files_of_other_users`.
            Some("man") => false,
            _ => true,
        };
        if !runs_here {
            continue;
        }
        for option in file_options(&harness, &command, &["<FILE>", "<DIR>"]) {
            if NO_OUTPUTS.contains(&option.as_str()) {
                continue;
            }
            let required = REQUIRED.iter().find(|(known, _)| *known == name);
            let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
            args.extend(required.map(|(_, words)| *words).unwrap_or_default());
            args.push(&option);
            let complaint = "is a symbolic link in a folder that other users can write\nhint: ";
            let path = harness.arg("shared/out");
            args.push(&path);
            args.extend(BEHIND.iter().filter(|(known, _)| *known == name).flat_map(|(_, of)| *of));
            let outcome = harness.run(&args);
            if name == "check" {
                // The exit code of `check` follows from the verdict, so only the reason is compared.
                let (reason, _) = complaint.split_once('\n').unwrap();
                assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
            } else {
                outcome.exits(3).warns(complaint);
            }
            assert_eq!(fs::read_to_string(&victim).unwrap(), "OLD CONTENT", "{args:?}");
            let option_is_tested = |(tested, _): &(&[&str], &str)| tested.contains(&&*option);
            assert!(OUTPUTS.iter().any(option_is_tested), "add {option} of '{name}' to OUTPUTS");
            outputs += 1;
        }
    }
    assert!(outputs > 25, "{outputs}");
    assert_eq!(names(&harness), ["out"]);
}

/// Creates a harness with a history of one run.
fn with_a_run() -> Harness {
    let harness = Harness::new();
    harness.stream(&["-q"]).exits(0);
    fs::create_dir(harness.path("shared")).unwrap();
    harness
}

/// Runs a command of [`OUTPUTS`] with its file in the shared folder.
fn write(harness: &Harness, args: &[&str], file: &str) -> Outcome {
    let path = harness.arg(&format!("shared/{file}"));
    harness.run(&[args, &[path.as_str()]].concat())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Changes the owner of a file; skips the test if that is not permitted.
fn give_away(path: &Path) -> bool {
    let given = std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY));
    if let Err(cause) = &given {
        skip(Part::Root, &format!("files cannot be given to another user: {cause}"));
    }
    given.is_ok()
}

/// Returns the names of all files in the shared folder, including temporary ones.
fn names(harness: &Harness) -> Vec<String> {
    let entries = fs::read_dir(harness.path("shared")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn output_does_not_inherit_special_mode_bits() {
    let harness = with_a_run();
    set_mode(&harness.path("shared"), 0o1777);
    let path = harness.path("shared/out");
    for (args, file) in OUTPUTS {
        harness.write("shared/out", "OLD CONTENT");
        set_mode(&path, 0o7751);
        write(&harness, args, file).exits(0);
        let written = fs::metadata(&path).unwrap();
        assert_eq!(written.mode() & 0o7777, 0o751, "{args:?}");
        assert!(!fs::read_to_string(&path).unwrap().contains("OLD CONTENT"), "{args:?}");
        assert_eq!(names(&harness), ["out"], "{args:?}");
    }
}

#[test]
fn file_of_another_user_is_refused_and_unchanged() {
    let harness = with_a_run();
    let path = harness.path("shared/out");
    harness.write("shared/out", "OLD CONTENT");
    // Changing the owner removes the special bits, so it is done first.
    if !give_away(&path) {
        return;
    }
    set_mode(&path, 0o6777);
    for mode in [0o1777, 0o755] {
        set_mode(&harness.path("shared"), mode);
        for (args, file) in OUTPUTS {
            let shown = path.display();
            write(&harness, args, file).exits(3).warns(&format!(
                "error: cannot write {shown}: the file belongs to another user (uid {NOBODY})\n\
                 hint: remove it first, or give another file\n"
            ));
            let stays = fs::metadata(&path).unwrap();
            assert_eq!((stays.uid(), stays.mode() & 0o7777), (NOBODY, 0o6777), "{args:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "OLD CONTENT", "{args:?}");
            assert_eq!(names(&harness), ["out"], "{args:?}");
        }
    }
}

#[test]
fn symbolic_link_in_a_shared_folder_is_not_followed() {
    let harness = with_a_run();
    let victim = harness.write("victim", "OLD CONTENT");
    fs::create_dir(harness.path("folder")).unwrap();
    symlink(&victim, harness.path("shared/out")).unwrap();
    symlink(harness.path("folder"), harness.path("shared/below")).unwrap();
    let refused = |file: &str, link: &str| {
        for (args, _) in OUTPUTS {
            let link = harness.arg(link);
            write(&harness, args, file).exits(3).warns(&format!(
                "{link} is a symbolic link in a folder that other users can write\n\
                 hint: give the path without the link, or a file in a folder that only you can \
                 write to\n"
            ));
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "OLD CONTENT");
        assert_eq!(fs::read_dir(harness.path("folder")).unwrap().count(), 0);
        assert_eq!(names(&harness), ["below", "out"]);
    };
    set_mode(&harness.path("shared"), 0o1777);
    refused("out", "shared/out");
    refused("below/new", "shared/below");
    set_mode(&harness.path("shared"), 0o775);
    refused("out", "shared/out");
    set_mode(&harness.path("shared"), 0o755);
    if give_away(&harness.path("shared")) {
        refused("out", "shared/out");
        chown(harness.path("shared"), Some(0), None).unwrap();
    }
    // A link is followed if only the caller could have created it.
    write(&harness, OUTPUTS[0].0, "out").exits(0);
    assert!(fs::read_to_string(&victim).unwrap().starts_with('{'));
}

#[test]
fn man_pages_do_not_replace_files_of_other_users() {
    let harness = Harness::new();
    let page = harness.write("share/nodegauge-stream.1", "OLD CONTENT");
    set_mode(Path::new(&page), 0o4755);
    let other = harness.write("share/nodegauge-run.1", "OLD CONTENT");
    harness.run(&["man", "--output", "share"]).exits(0).warns_nothing();
    assert_eq!(fs::metadata(&page).unwrap().mode() & 0o7777, 0o755);
    assert!(fs::read_to_string(&page).unwrap().contains("nodegauge"));
    if give_away(Path::new(&other)) {
        harness
            .run(&["man", "--output", "share"])
            .exits(3)
            .warns("share/nodegauge-run.1: the file belongs to another user (uid 65534)");
    }
}

#[test]
fn output_cannot_replace_the_history_or_an_input() {
    let harness = Harness::new();
    harness.stream(&["-q", "--db", "h.db", "--json", "run.json"]).exits(0);
    fs::hard_link(harness.path("h.db"), harness.path("linked.db")).unwrap();
    symlink("run.json", harness.path("link.json")).unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/topologies");
    let topology = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let topology = topology.filter(|file| file.extension().is_some_and(|end| end == "xml")).min();
    harness.write("topology.xml", fs::read(topology.unwrap()).unwrap());
    let kept = ["h.db", "run.json"].map(|name| fs::read(harness.path(name)).unwrap());
    let fast = ["stream", "-q", "--samples", "1", "--size", "100000elements", "--db", "h.db"];
    let commands: [&[&str]; 14] = [
        &["places", "--topology", "topology.xml", "--json", "topology.xml"],
        &["machine", "--topology", "topology.xml", "--json", "./topology.xml"],
        &["history", "export", "--db", "h.db", "--output", "h.db"],
        &["history", "export", "--db", "h.db", "--output", "linked.db"],
        &["history", "export", "--db", "linked.db", "--output", "./h.db"],
        &["history", "export", "--db", "h.db", "run.json", "--output", "link.json"],
        &["history", "show", "run.json", "--db", "h.db", "--csv", "run.json"],
        &["history", "list", "--db", "h.db", "--json", "h.db"],
        &["history", "list", "--db", "h.db", "--json", "h.db-journal"],
        &["report", "run.json", "--db", "h.db", "--output", "run.json"],
        &["compare", "run.json", "run.json", "--db", "h.db", "--csv", "run.json"],
        &["report", "latest", "--db", "h.db", "--format", "jsonl", "--output", "h.db"],
        &[&fast[..], &["--json", "h.db"]].concat(),
        &["stream", "--db", "new.db", "--csv", "new.db"],
    ];
    for args in commands {
        harness
            .run(args)
            .exits(2)
            .warns(": it is the history, or an input of this command\nhint: give another file\n");
    }
    // A command that does not read the default history must not write to it either.
    for command in ["machine", "doctor", "places"] {
        let refused = harness.run_with(&[("NODEGAUGE_DB", "h.db")], &[command, "--json", "h.db"]);
        refused.exits(2).warns(": it is the history, or an input of this command\n");
    }
    let now = ["h.db", "run.json"].map(|name| fs::read(harness.path(name)).unwrap());
    assert!(kept == now, "the history and the record stay as they were");
    harness.run(&["history", "show", "latest", "--db", "h.db", "--json", "other.json"]).exits(0);
}

#[test]
fn file_given_to_two_options_of_a_command_is_unchanged() {
    let harness = with_a_run();
    let content = crate::check::reference(&harness, "reference.json", |_| {});
    let content = fs::read_to_string(content).unwrap();
    let (mut pairs, mut refused) = (0, 0);
    for command in commands(&harness, &[]) {
        let name = command.join(" ");
        let options = file_options(&harness, &command, &["<FILE>"]);
        for (at, one) in options.iter().enumerate() {
            for other in &options[at + 1..] {
                let file = harness.write("one", &content);
                let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
                let required = REQUIRED.iter().find(|(known, _)| *known == name);
                args.extend(required.map(|(_, words)| *words).unwrap_or_default());
                args.extend([one, &file, other, "./one"]);
                args.extend(
                    BEHIND.iter().filter(|(known, _)| *known == name).flat_map(|(_, of)| *of),
                );
                let outcome = harness.run(&args);
                // The exit code of `check` follows from the verdict.
                assert!(outcome.code != Some(0) || name == "check", "{args:?}");
                assert!(fs::read_to_string(&file).unwrap() == content, "{args:?}");
                pairs += 1;
                refused += usize::from(outcome.stderr.contains(" cannot both be written to "));
            }
        }
    }
    assert!(pairs > 60 && refused > 15, "{pairs}, {refused}");
}

#[test]
fn two_outputs_in_one_file_are_refused() {
    let harness = Harness::new();
    harness.write("soft", "OLD CONTENT");
    symlink("soft", harness.path("link")).unwrap();
    for [json, csv] in [["new", "./new"], ["soft", "link"]] {
        let args = ["stream", "--json", json, "--csv", csv];
        harness.run(&args).exits(2).warns(&format!(
            "error: --json and --csv cannot both be written to {json}\nhint: give two files\n"
        ));
    }
    assert_eq!(fs::read_to_string(harness.path("soft")).unwrap(), "OLD CONTENT");
    assert!(!harness.path("new").exists());
    // A device accepts both outputs.
    harness.stream(&["-q", "--no-save", "--json", "/dev/null", "--csv", "/dev/null"]).exits(0);
}

#[test]
fn output_does_not_replace_a_record_in_the_input_folder() {
    let harness = with_a_run();
    let record = harness.latest().to_string();
    let file = harness.write("fleet/n1.json", &record);
    harness.write("fleet/page.html", "OLD PAGE");
    for command in ["rank", "baseline"] {
        let refused = harness.run(&["fleet", command, "fleet", "--output", &file]);
        refused.exits(2).warns("it is the history, or an input of this command");
        assert_eq!(fs::read_to_string(&file).unwrap(), record, "{command}");
    }
    // The folder contains the page of an earlier ranking, which is not a record.
    let page = ["fleet", "rank", "fleet", "--format", "html", "--output", "fleet/page.html"];
    harness.run(&page).exits(0);
    assert_ne!(fs::read_to_string(harness.path("fleet/page.html")).unwrap(), "OLD PAGE");
}

#[test]
fn unwritable_surface_file_is_an_error_after_the_run_is_saved() {
    let harness = Harness::new();
    let args = ["io", "--file-sizes", "64KiB", "--block-sizes", "16KiB", "--surface", "/dev/full"];
    let outcome = harness.run(&args).exits(3);
    outcome.warns("cannot write /dev/full: No space left on device").prints("\nsaved ");
}
