//! What is wrong with what was typed: the full text, the caret under the wrong character, an
//! example that is right, and exit code 2.

use crate::harness::{Harness, Outcome, T2K};

/// The complaint about one text of a grammar.
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

/// Checks a grammar's complaint; nothing is printed, measured or saved.
#[track_caller]
fn refused(harness: &Harness, outcome: Outcome, complaint: &str) {
    let outcome = outcome.exits(2).prints_nothing().complains(complaint);
    if !outcome.stderr.starts_with("error: ") {
        outcome.fail("an error begins with its name");
    }
    assert!(!harness.path(".local").exists());
}

/// Wrong texts of one option: text, byte that is wrong, problem.
#[track_caller]
fn all_refused(
    command: &str,
    option: &str,
    what: &str,
    example: &str,
    wrong: &[(&str, usize, &str)],
) {
    let harness = Harness::new();
    for (text, at, problem) in wrong {
        let outcome = harness.run(&[command, &format!("{option}={text}")]);
        refused(&harness, outcome, &pointed(what, text, *at, problem, example));
    }
}

#[test]
fn places() {
    let example = "--places cores, --places '{0:4}:4:8' or --places 0:96:2";
    all_refused(
        "places",
        "--places",
        "places",
        example,
        &[
            ("{0:4}:x:8", 6, "expected a count after ':'"),
            ("x", 0, "expected threads, cores, sockets, ll_caches, numa_domains, a number or '{'"),
            ("{0", 2, "expected ',' or '}'"),
            ("0:2:", 4, "expected a stride after ':'"),
            ("cores(0)", 6, "expected at least 1"),
            ("cores(2", 7, "expected ')' after the number of places"),
            ("cores 2", 6, "expected the end after an abstract name"),
            ("70000000000", 0, "this number is too large"),
            ("{0:99999}", 3, "expected at most 65536"),
            ("0,", 2, "expected a place: a number or '{'"),
            ("0 1", 2, "expected ',', ':' or the end after a place"),
            ("0,!", 3, "expected a place after '!'"),
            ("{0,\u{e4}}", 3, "expected a CPU number"),
        ],
    );
}

#[test]
fn threads() {
    all_refused(
        "stream",
        "--threads",
        "threads",
        "--threads 8 or --threads 1,2-32:2",
        &[
            ("x", 0, "expected a number of threads"),
            ("0", 0, "expected at least 1"),
            ("-1", 0, "expected a number of threads"),
            ("1,", 2, "expected a number of threads"),
            ("8-4", 2, "a range goes from the smaller number up"),
            ("1-8:", 4, "expected a step after ':'"),
            ("1-8:0", 4, "expected at least 1"),
            ("99999", 0, "expected at most 65536"),
            ("4 4", 2, "expected ',', '-' or the end"),
        ],
    );
}

#[test]
fn sizes() {
    let example = "--size 4xLLC, --size 2GiB or --size 80000000";
    let unit = "expected a unit of B, kB, MB, GB, TB, KiB, MiB, GiB or TiB";
    all_refused(
        "stream",
        "--size",
        "size",
        example,
        &[
            ("", 0, "expected auto, a number, or a size with a unit"),
            ("big", 0, "expected auto, a number, or a size with a unit"),
            ("-5", 0, "expected auto, a number, or a size with a unit"),
            ("0", 0, "a size must be greater than zero"),
            ("0xLLC", 0, "a size must be greater than zero"),
            ("12Qb", 2, unit),
            ("4xL", 1, unit),
            ("1e9", 1, unit),
            ("2GiB,", 4, "expected nothing after the unit"),
        ],
    );
    all_refused(
        "stream",
        "--size",
        "size",
        "--size 80000000",
        &[
            ("1.5", 1, "a number of elements has no fraction; expected a unit such as GiB"),
            ("99999999999999999999", 0, "this number is too large"),
        ],
    );
}

#[test]
fn expectations() {
    all_refused(
        "stream",
        "--expect",
        "expectation",
        "--expect 'triad>=300GB/s'",
        &[
            ("", 0, "expected the name of a measurement"),
            ("triad", 5, "expected >=, <=, > or <"),
            ("triad=3GB/s", 5, "expected >=, <=, > or <"),
            ("triad>=", 7, "expected a number"),
            ("triad>=-1GB/s", 7, "expected a number"),
            ("triad>=3", 8, "expected a unit such as GB/s, GFLOP/s, us, x, or % of the limit"),
            ("triad>=300gb/s", 10, "expected GB/s, upper and lower case so"),
            ("memory.>=1GB/s", 7, "expected the name of a measurement after '.'"),
            ("triad>=1GB/s@", 13, "expected a number"),
            ("triad>=1GB/s x", 13, "expected nothing after the unit, or @ and a size"),
        ],
    );
}

#[test]
fn modules() {
    all_refused(
        "stream",
        "--dimms",
        "dimms",
        "--dimms 16x3200 (channels x MT/s)",
        &[
            ("", 0, "expected the number of populated channels"),
            ("16", 2, "expected 'x' after the number of channels"),
            ("16*3200", 2, "expected 'x' after the number of channels"),
            ("16x", 3, "expected the MT/s that the modules run at"),
            ("16x3200MT", 7, "expected nothing after the MT/s"),
            ("3200x16", 0, "expected 1 to 1024 channels"),
            ("1x100", 2, "expected 200 to 20000 MT/s"),
        ],
    );
}

#[test]
fn memory_policies() {
    let example = "--numa local, --numa interleave:0,2-3, --numa bind:0 or --numa preferred:1";
    all_refused(
        "places",
        "--numa",
        "numa",
        example,
        &[
            ("", 0, "expected local, interleave, bind or preferred"),
            ("near", 0, "expected local, interleave, bind or preferred"),
            ("bind", 4, "expected ':' and nodes after bind"),
            ("bind:", 5, "expected a node number or all"),
            ("bind:x", 5, "expected a node number or all"),
            ("bind:1-0", 7, "a range goes from the smaller number up"),
            ("interleave:0 1", 13, "expected ',' or the end"),
            ("preferred:0,1", 11, "expected the end"),
            ("local:0", 5, "expected the end"),
        ],
    );
}

#[test]
fn prefetch_distances() {
    all_refused(
        "stream",
        "--prefetch",
        "prefetch",
        "--prefetch 512 or --prefetch 4096,512",
        &[
            ("x", 0, "expected off, or a distance in bytes"),
            ("0", 0, "a distance is greater than zero"),
            ("64B", 2, "expected ',' and a second distance, or nothing"),
            ("100,50,20", 6, "expected nothing after the second distance"),
        ],
    );
}

#[test]
fn policies_of_binding() {
    all_refused(
        "places",
        "--bind",
        "bind",
        "--bind close, spread, primary or none",
        &[("near", 0, "expected close, spread, primary or none")],
    );
}

#[test]
fn synthetic_machines() {
    let harness = Harness::new();
    let example = "--topology 'synthetic:Package:2 NUMANode:4 L3Cache:4 Core:4 PU:1'";
    for command in ["places", "machine"] {
        for (text, at, problem) in [
            ("", 0, "expected a level such as Package:2"),
            ("Package:x Core:4", 8, "expected a count after ':'"),
            ("Package:2 Core:0 PU:1", 15, "a level has at least one object"),
            ("Package 2", 7, "expected ':' and a count after the level"),
            ("Package:2,Core:4", 9, "expected a blank before the next level"),
            ("Package:2(memory=1GB Core:4", 27, "expected ')' to close the attributes"),
            (
                "Package:2 Kern:4 PU:1",
                10,
                "expected a level of Package, Die, NUMANode, L3Cache, L2Cache, L1dCache, Core, PU or Group",
            ),
            ("PU:2 Core:4", 0, "hwloc does not accept this order of levels"),
        ] {
            let outcome = harness.run(&[command, "--topology", &format!("synthetic:{text}")]);
            let complaint = pointed("synthetic topology", text, at, problem, example);
            refused(&harness, outcome.only_error(complaint.trim_end_matches('\n')), &complaint);
        }
    }
}

#[test]
fn variables_are_named() {
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
            "expected close, spread, primary or none",
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
            refused(&harness, outcome.only_error(complaint.trim_end_matches('\n')), &complaint);
        }
    }
}

#[test]
fn what_this_machine_does_not_have() {
    let harness = Harness::new();
    let on_t2k = |args: &[&str], message: &str| {
        harness.run(&[&["places", "--topology", T2K], args].concat()).exits(2).only_error(message);
    };
    on_t2k(
        &["--threads", "500"],
        "cannot place 500 threads: this process may use 16 hardware threads (0-15)\nhint: ask for 16 or fewer, e.g. --threads 16",
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
    on_t2k(&["--places", "0,!0"], "places \"0,!0\": nothing is left after the exclusions");
    on_t2k(
        &["--places", "0,!1"],
        "places \"0,!1\": !1 excludes nothing\nhint: an exclusion takes away a place listed before it, or a CPU of the same braces",
    );
    on_t2k(&["--numa", "bind:7"], "NUMA node 7 does not exist: this machine has nodes 0-3");
    on_t2k(
        &["--per-cache", "1"],
        "cannot place threads by cache: this machine has no cache beyond level 1\nhint: use --places cores --bind spread",
    );
    on_t2k(
        &["--per-cache", "1", "--places", "cores"],
        "--per-cache and --places both say where threads go\nhint: give one of them",
    );
}

#[test]
fn threads_and_places_beyond_this_machine() {
    let harness = Harness::new();
    for command in ["stream", "explain", "places"] {
        let outcome = harness.run(&[command, "--threads", "60000"]).exits(2).prints_nothing();
        outcome.complains("error: cannot place 60000 threads: this process may use ");
        let outcome = harness.run(&[command, "--places", "60000"]).exits(2).prints_nothing();
        outcome.complains("error: cpu 60000 is not on this machine, whose CPUs are 0");
    }
    let outcome = harness.run(&["stream", "--threads", "500"]).exits(2).prints_nothing();
    outcome.complains("error: cannot place 500 threads: ").complains("\nhint: ask for ");
    assert!(!harness.path(".local").exists(), "nothing is measured, nothing is saved");
}

#[test]
fn topology_files() {
    let harness = Harness::new();
    let newer = harness.write(
        "newer.xml",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc3.dtd\">\n\
         <topology version=\"3.0\">\n</topology>\n",
    );
    harness.write("cut.xml", &crate::machine::XML[..600]);
    harness.write("empty.xml", "");
    harness.write("bytes.xml", [0xff, 0xfe, 0]);
    for command in ["machine", "places"] {
        let described = |file: &str| harness.run(&[command, "--topology", file]).exits(2);
        described(&newer).only_error(&format!(
            "{newer} is not an XML topology that hwloc reads: it is of hwloc 3.0, newer than the installed hwloc 2 reads\n\
             hint: write one with `lstopo FILE.xml`"
        ));
        described("none.xml").only_error(
            "cannot read topology file none.xml: No such file or directory (os error 2)",
        );
        described("bytes.xml")
            .prints_nothing()
            .complains("error: cannot read topology file bytes.xml: ");
        for broken in ["cut.xml", "empty.xml"] {
            described(broken)
                .prints_nothing()
                .complains(&format!("error: {broken} is not an XML topology that hwloc reads: "))
                .complains("\nhint: write one with `lstopo FILE.xml`\n");
        }
    }
}

#[test]
fn processors() {
    let harness = Harness::new();
    for command in ["machine", "stream"] {
        harness.run(&[command, "--processor", "EPYC 9999"]).exits(2).only_error(
            "no processor \"EPYC 9999\" in the catalog\nhint: e.g. \"EPYC 9654\" or \"Xeon Platinum 8480+\"",
        );
    }
}
