//! Tests of usage errors: the full text, the caret below the wrong character, a correct example, and exit code 2.

use crate::harness::{Harness, Outcome, T2K};

/// Returns the expected error for an invalid text: the text with a caret at column `at`, the problem, and an example.
fn pointed(what: &str, text: &str, at: usize, problem: &str, example: &str) -> String {
    let found = match text[at..].chars().next() {
        Some(c) => format!("found '{c}'"),
        None => "but the text ends here".to_owned(),
    };
    let column = text[..at].chars().count();
    format!(
        "{what} \"{text}\": {problem}, {found}\n  {text}\n  {:column$}^\nhint: e.g. {example}\n",
        ""
    )
}

/// Checks the error message of a command, and that nothing was printed, measured or saved.
#[track_caller]
fn assert_refused(harness: &Harness, outcome: Outcome, complaint: &str) {
    let outcome = outcome.exits(2).prints_nothing().warns(complaint);
    if !outcome.stderr.starts_with("error: ") {
        outcome.fail("an error begins with its name");
    }
    assert!(!harness.path(".local").exists());
}

/// One invalid text per grammar is tested here. A unit test of the arguments covers all of them.
#[test]
fn invalid_text_of_each_grammar_is_reported_with_its_column() {
    let harness = Harness::new();
    let table = include_str!("../../crates/cli/src/args/grammars.txt");
    let sections: Vec<&str> = table.split("\n\n").skip(1).collect();
    assert!(sections.len() > 10, "{sections:?}");
    for section in sections {
        let mut lines = section.lines().map(|line| line.split(" | ").map(str::trim));
        let mut next = || -> Vec<&str> { lines.next().unwrap().collect() };
        let (head, case) = (next(), next());
        let (command, option) = head[0].rsplit_once(' ').unwrap();
        let option = format!("{option}={}", case[0]);
        let outcome = harness.run(&command.split(' ').chain([&option[..]]).collect::<Vec<_>>());
        let complaint = pointed(head[1], case[0], case[1].parse().unwrap(), case[2], head[2]);
        assert_refused(&harness, outcome, &complaint);
    }
}

/// A unit test of the descriptions covers all errors except that of hwloc.
#[test]
fn invalid_topology_is_reported_with_its_column() {
    let harness = Harness::new();
    let example = "--topology 'synthetic:Package:2 NUMANode:4 L3Cache:4 Core:4 PU:1'";
    for (command, text, at, problem) in [
        ("places", "", 0, "expected a level such as Package:2"),
        ("places", "Package:x Core:4", 8, "expected a count after ':'"),
        ("machine", "L3Cache:2 Package:4", 0, "hwloc does not accept this order of levels"),
    ] {
        let outcome = harness.run(&[command, "--topology", &format!("synthetic:{text}")]);
        let complaint = pointed("synthetic topology", text, at, problem, example);
        assert_refused(&harness, outcome.only_error(complaint.trim_end_matches('\n')), &complaint);
    }
}

#[test]
fn error_in_a_variable_contains_its_name() {
    let harness = Harness::new();
    for (name, text, at, problem, example) in [
        ("OMP_NUM_THREADS", "0", 0, "expected at least 1", "OMP_NUM_THREADS=8"),
        ("OMP_NUM_THREADS", "4,", 2, "expected a number of threads", "OMP_NUM_THREADS=8"),
        (
            "OMP_PLACES",
            "{0:2}:x",
            6,
            "expected a count after ':'",
            "OMP_PLACES=cores or OMP_PLACES='{0:4}:4:8'",
        ),
        (
            "OMP_PROC_BIND",
            "wrong",
            0,
            "expected close, spread, primary, true or false",
            "OMP_PROC_BIND=spread",
        ),
        (
            "KMP_AFFINITY",
            "foo",
            0,
            "expected compact, scatter, balanced, explicit, none, disabled or a modifier",
            "KMP_AFFINITY=granularity=fine,compact",
        ),
    ] {
        for command in ["places", "stream", "run", "explain"] {
            let outcome = harness.run_with(&[(name, text)], &[command]);
            let complaint = pointed(name, text, at, problem, example);
            assert_refused(
                &harness,
                outcome.only_error(complaint.trim_end_matches('\n')),
                &complaint,
            );
        }
    }
}

#[test]
fn placements_impossible_on_the_topology_are_refused() {
    let harness = Harness::new();
    let on_t2k = |args: &[&str], message: &str| {
        harness.run(&[&["places", "--topology", T2K], args].concat()).exits(2).only_error(message);
    };
    on_t2k(
        &["--threads", "500"],
        "cannot place 500 threads: this process may use 16 hardware threads (0-15)\nhint: use 16 or fewer, e.g. --threads 16",
    );
    on_t2k(
        &["--places", "99"],
        "cpu 99 is not on this machine, whose CPUs are 0-15; this process may use 0-15",
    );
    on_t2k(
        &["--places", "0:2:-1"],
        "cpu -1 is not on this machine, whose CPUs are 0-15; this process may use 0-15",
    );
    on_t2k(
        &["--places", "sockets(5)"],
        "places \"sockets(5)\": this process may use 4 sockets, not 5\nhint: e.g. --places 'sockets(4)'",
    );
    on_t2k(&["--places", "0,!0"], "places \"0,!0\": no CPU is left after the exclusions");
    on_t2k(
        &["--places", "0,!1"],
        "places \"0,!1\": !1 excludes nothing\nhint: an exclusion must follow the place that it removes, or be in the same braces as the CPU that it removes",
    );
    on_t2k(&["--numa", "bind:7"], "NUMA node 7 does not exist: this machine has nodes 0-3");
    on_t2k(
        &["--per-cache", "1"],
        "cannot place threads by cache: this machine has no cache beyond level 1\nhint: use --places cores --bind spread",
    );
    on_t2k(
        &["--per-cache", "1", "--places", "cores"],
        "--per-cache and --places both decide where threads go\nhint: give only one of these options",
    );
}

#[test]
fn threads_and_places_beyond_this_machine_are_refused() {
    let harness = Harness::new();
    for command in ["stream", "explain", "places"] {
        let outcome = harness.run(&[command, "--threads", "60000"]).exits(2).prints_nothing();
        outcome.warns("error: cannot place 60000 threads: this process may use ");
        let places_outcome = harness.run(&[command, "--places", "60000"]).exits(2).prints_nothing();
        places_outcome.warns("error: cpu 60000 is not on this machine, whose CPUs are 0");
    }
    let outcome = harness.run(&["stream", "--threads", "500"]).exits(2).prints_nothing();
    outcome.warns("error: cannot place 500 threads: ").warns("\nhint: use ");
    assert!(!harness.path(".local").exists(), "nothing is measured, nothing is saved");
}

#[test]
fn unreadable_topology_files_are_refused() {
    let harness = Harness::new();
    let newer = harness.write(
        "newer.xml",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc3.dtd\">\n\
         <topology version=\"3.0\">\n</topology>\n",
    );
    harness.write("cut.xml", &crate::machine::XML[..600]);
    harness.write("empty.xml", "");
    // Without numbers of objects, hwloc 2.9 crashes.
    harness.write(
        "crash.xml",
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000001" nodeset="0x00000001">
    <object type="NUMANode" os_index="0" cpuset="0x00000001" nodeset="0x00000001"/>
    <object type="PU" os_index="0" cpuset="0x00000001" nodeset="0x00000001"/>
  </object>
</topology>
"#,
    );
    harness.write("bytes.xml", [0xff, 0xfe, 0]);
    for command in ["machine", "places"] {
        let described = |file: &str| harness.run(&[command, "--topology", file]).exits(2);
        described(&newer).only_error(&format!(
            "{newer} is not an XML topology that hwloc can read: it was written by hwloc 3.0; the installed hwloc 2 cannot read it\n\
             hint: convert it with the lstopo that wrote it: `lstopo -i {newer} --export-xml-flags v2 NEW.xml`"
        ));
        described("none.xml").only_error(
            "cannot read topology file none.xml: No such file or directory (os error 2)",
        );
        described("bytes.xml")
            .prints_nothing()
            .warns("error: cannot read topology file bytes.xml: ");
        let cut = "the file does not end with </topology>: copy it again, or ";
        for (broken, cause) in [("cut.xml", cut), ("empty.xml", cut), ("crash.xml", "")] {
            described(broken)
                .prints_nothing()
                .warns(&format!("error: {broken} is not an XML topology that hwloc can read: "))
                .warns(&format!("\nhint: {cause}write a new file with `lstopo FILE.xml`\n"));
        }
    }
}

#[test]
fn unknown_processor_is_refused() {
    let harness = Harness::new();
    for command in ["machine", "stream"] {
        harness.run(&[command, "--processor", "EPYC 9999"]).exits(2).only_error(
            "no processor \"EPYC 9999\" in the catalog\nhint: e.g. \"EPYC 9654\" or \"Xeon Platinum 8480+\"",
        );
    }
}

#[test]
fn dash_means_standard_input() {
    let harness = Harness::new();
    let record = harness.write("run.json", include_str!("../golden/stream/record.json"));
    let shown = harness.run(&["history", "show", &record]).exits(0).stdout;
    let program = crate::program::path();
    for script in [
        r#""$1" history show - < "$2""#,
        r#"cat "$2" | "$1" history show -"#,
        r#"cat "$2" | "$1" history show /dev/stdin"#,
    ] {
        let outcome = harness.run_other(&["sh", "-c", script, "sh", program, &record], &[]);
        assert_eq!(outcome.exits(0).stdout, shown, "{script}");
    }
}

#[test]
fn files_that_are_not_programs_are_refused() {
    let harness = Harness::new();
    harness.write("text", "no program");
    for (args, missing) in [
        (&["mpi", "--launcher", "./text"][..], "there is no launcher \"./text\" on this node\n"),
        (&["mpi", "--mpicc", "./text"], "there is no ./text on this node\n"),
        (&["stream", "--compiler", "./text"], "cannot start ./text --version: Permission denied"),
        (
            &["io", "--fio", "./text"],
            "./text: the program is not executable\nhint: give the path of fio",
        ),
        (&["io", "--iozone", "."], ".: program not found\n"),
        (&["hpl", "--xhpl", "./text"], "./text is not executable\nhint: chmod +x ./text"),
        (&["hpl", "--blas", "./text"], "cannot load "),
        (&["mpi", "--osu", "."], "no OSU program (osu_latency"),
    ] {
        if args[0] == "mpi" && !harness.has_cpus(2) {
            continue;
        }
        let outcome = harness.run(args).prints_nothing().warns(missing);
        let refused = matches!(outcome.code, Some(2 | 3));
        assert!(refused && outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
    }
}

#[test]
fn too_many_ranks_and_unaligned_blocks_are_refused() {
    let harness = Harness::new();
    if harness.has_cpus(2) {
        let ranks = harness.run(&["mpi", "--ranks", "65536"]).exits(2).prints_nothing();
        ranks.warns("error: 65536 ranks are too many for ").warns("\nhint: use at most ");
    }
    harness
        .run(&["io", "--cache", "direct", "--block-sizes", "3B", "--file-sizes", "64KiB"])
        .exits(2)
        .prints_nothing()
        .warns(" B; 3 B is not\nhint: use other --block-sizes");
}

#[test]
fn errors_are_short_and_contain_no_control_sequences() {
    let harness = Harness::new();
    let long = "9".repeat(10_000);
    for args in [
        &["stream", "--threads", &long][..],
        &["stream", "--places", &long],
        &["stream", "--label", &long],
        &["stream", "--numa", &long],
        &["stream", "--kernels", &long],
        &["stream", &long],
        &["history", "show", &long],
        &["mpi", "--hosts", &format!("-{long}")],
        &["stream", "--expect", &format!("triad>=3GB/s{long}")],
        &["machine", "--topology", &format!("synthetic:{long}")],
        &["stream", "--threads", "\x1b[31m1\x1b]0;owned\x07\u{202e}\r"],
        &["history", "show", "\x1b[31mred\x1b]0;owned\x07\u{202e}\r"],
        &["\x1b[2J\u{9b}2J"],
    ] {
        let reported = harness.run(args).exits(2).prints_nothing().stderr;
        assert!(reported.len() < 1200 && reported.lines().count() <= 6, "{reported}");
        let plain = |c: char| !c.is_control() || c == '\n';
        assert!(reported.chars().all(|c| plain(c) && c != '\u{202e}'), "{reported:?}");
    }
    // The error output has many lines, like that of a compiler.
    let many = "#!/bin/sh\necho one >&2\nfor i in 1 2 3 4 5 6 7 8 9; do printf 'error: \\033[31mno\\n' >&2; done\nexit 1\n";
    crate::harness::make_program(&harness.write("cc", many));
    let reported = harness.run(&[
        "stream",
        "--compiler",
        "./cc",
        "--budget",
        "1",
        "--size",
        "1000000elements",
    ]);
    assert!(
        reported.stderr.lines().count() <= 6 && !reported.stderr.contains('\x1b'),
        "{}",
        reported.stderr
    );
    assert!(!reported.stdout.contains('\x1b'), "{}", reported.stdout);
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    /// Invalid paths are reported before anything is measured or saved.
    #[test]
    fn devices_pipes_and_oversized_files_are_not_read() {
        let harness = Harness::new();
        assert_eq!(harness.run_other(&["mkfifo", &harness.arg("pipe.c")], &[]).code, Some(0));
        std::fs::File::create(harness.path("long.c")).unwrap().set_len(1 << 40).unwrap();
        let no_file = "it is not a regular file";
        for (file, why) in [
            ("/dev/zero", no_file),
            ("/dev/null", no_file),
            ("pipe.c", no_file),
            ("long.c", "it is longer than "),
            (".", "Is a directory (os error 21)"),
        ] {
            for option in [
                &["stream", "--standard"][..],
                &["machine", "--topology"],
                &["places", "--topology"],
                &["history", "import"],
                &["history", "show"],
                &["compare", "latest"],
            ] {
                let is_input = matches!(option[0], "history" | "compare");
                // These options accept a pipe and wait for its writer.
                if file == "pipe.c" && is_input {
                    continue;
                }
                let named = if is_input { format!("./{file}") } else { file.to_owned() };
                let named = if file.starts_with('/') { file.to_owned() } else { named };
                let outcome = harness.run(&[option, &[&named]].concat()).exits(2).prints_nothing();
                if option[0] != "compare" {
                    outcome.warns(why);
                }
            }
        }
        assert!(!harness.path(".local").exists(), "nothing is saved");
    }
}
