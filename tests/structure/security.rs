//! Checks of docs/security.md and docs/adversarial.md: the tests that they name exist, and docs/security.md lists every
//! environment variable that the program reads. Only the modules listed here start programs, use the network or write
//! files.

use crate::names::without_tests;
use crate::tokens::tokens;
use crate::{crates, files, root};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Functions that read environment variables. In a file that uses one of them, every name in capitals counts as a
/// variable.
const READERS: [&str; 4] = ["var", "var_os", "variable", "lookup"];
/// Prefixes of names in capitals that are not environment variables: constants of MPI and NVML, macros of C, keys of
/// HPCC, variables of the build and of tests.
const NO_VARIABLES: [&str; 24] = [
    "CARGO_",
    "COMMIT",
    "FAILED",
    "FUZZ_CASES",
    "HPL_N",
    "MPICH",
    "MPIR_CVAR_",
    "MPI_",
    "MVAPICH",
    "NODEGAUGE_COMMIT",
    "NODEGAUGE_HWLOC",
    "NODEGAUGE_ORACLE",
    "OUT_DIR",
    "O_",
    "PALS",
    "PASSED",
    "PROBE_FLAGS",
    "STAGE_OUT",
    "STREAM_ARRAY_SIZE",
    "STREAM_TYPE",
    "UPDATE_GOLDEN",
    "OMPI_",
    "PRTE_",
    "ALLOW_RUN_AS_ROOT",
];

fn chapter() -> String {
    std::fs::read_to_string(root().join("docs/security.md")).unwrap()
}

/// Source file of a crate, with its tokens outside tests.
struct Source {
    name: String,
    tokens: Vec<String>,
}

/// Returns the sources of the crates without tests. They are read once.
fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(read_sources)
}

fn read_sources() -> Vec<Source> {
    let root = root();
    let mut sources = Vec::new();
    for folder in crates() {
        for file in files(&folder.join("src"), &["rs"]) {
            let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if name.contains("/tests") || name.ends_with("_tests.rs") {
                continue;
            }
            let tokens = without_tests(&tokens(&std::fs::read_to_string(&file).unwrap()));
            sources.push(Source { name, tokens });
        }
    }
    sources
}

/// Returns the texts in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn tests_named_in_security_and_adversarial_chapters_exist() {
    let adversarial = std::fs::read_to_string(root().join("docs/adversarial.md")).unwrap();
    let mut count = 0;
    let mut wrong = String::new();
    for reference in quoted(&format!("{}{adversarial}", chapter())) {
        let Some((file, test)) = reference.split_once(".rs: ") else { continue };
        let path = root().join(format!("{file}.rs"));
        let source = tokens(&std::fs::read_to_string(&path).unwrap_or_default());
        let declares = |words: &[String]| words[0] == "fn" && words[1] == test && words[2] == "(";
        let at = source.windows(3).position(declares);
        // The attribute `test` precedes the function; other attributes may be between them.
        let is_test = at.is_some_and(|at| {
            source[at.saturating_sub(12)..at].windows(3).any(|words| words == ["[", "test", "]"])
        });
        if !is_test {
            wrong += &format!("{reference}: no such test\n");
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(count > 50, "{count} tests");
}

/// True if a text can be the name of an environment variable, or a prefix of several names (`OMP_`).
fn is_name(text: &str) -> bool {
    // Open MPI's variables end with the name of a parameter.
    let capitals = text.strip_prefix("OMPI_MCA_").map_or(text, |_| "OMPI_MCA_");
    capitals.len() > 1
        && capitals.starts_with(|c: char| c.is_ascii_uppercase())
        && capitals.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Returns the environment variables in a source. A name without `_` counts only if the source calls a function that
/// reads variables.
fn variables(source: &Source) -> BTreeSet<String> {
    let reads = source.tokens.iter().any(|word| READERS.contains(&word.as_str()));
    let texts = source.tokens.iter().filter_map(|word| word.strip_prefix('"')?.strip_suffix('"'));
    let names =
        texts.filter(|text| is_name(text) && (text.contains('_') || (reads && text.len() > 3)));
    let excluded = |name: &&str| NO_VARIABLES.iter().any(|prefix| name.starts_with(prefix));
    let files_of_launchers = ["launchers.rs", "visible.rs", "abi/src/lib.rs"];
    let is_launchers = files_of_launchers.iter().any(|file| source.name.ends_with(file));
    let excluded_here = |name: &&str| {
        // Launchers set variables that begin like constants.
        let is_constant = name.starts_with("MPI_") && !name.starts_with("MPI_LOCAL");
        let of_launcher = is_launchers && name.contains('_') && !is_constant;
        let folder_of_open_mpi = name.starts_with("OMPI_MCA_");
        excluded(name) && !of_launcher && !folder_of_open_mpi
    };
    names.filter(|name| !excluded_here(name)).map(str::to_owned).collect()
}

#[test]
fn security_chapter_lists_every_environment_variable_that_is_read() {
    let chapter = chapter();
    let listed: BTreeSet<&str> = quoted(&chapter).collect();
    let mut wrong = String::new();
    let mut read = BTreeSet::new();
    for source in sources() {
        for name in variables(source) {
            let pattern = format!("{name}*");
            if !listed.contains(name.as_str()) && !listed.contains(pattern.as_str()) {
                wrong += &format!("{}: {name} is missing in docs/security.md\n", source.name);
            }
            read.insert(name);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(read.len() > 60, "{read:?}");
}

#[test]
fn names_of_environment_variables_are_found() {
    let call = r#"let a = variable("HOME"); g("OMPI_MCA_btl_x", "MPI_BYTE", "O_SYNC", "text");"#;
    let source = |text: &str| Source { name: "f.rs".to_owned(), tokens: tokens(text) };
    let names = |text: &str| variables(&source(text)).into_iter().collect::<Vec<String>>();
    assert_eq!(names(call), ["HOME", "OMPI_MCA_btl_x"]);
    assert_eq!(
        names(r#"const NAMES: [&str; 3] = ["HOME", "XDG_HOME", "OMP_"];"#),
        ["OMP_", "XDG_HOME"]
    );
}

/// Returns the sources that contain one of these sequences of tokens. The tokens of a sequence are separated by spaces.
fn with_any(sequences: &[&str]) -> Vec<String> {
    let is_there = |source: &Source| {
        sequences.iter().any(|sequence| {
            let words: Vec<&str> = sequence.split(' ').collect();
            source.tokens.windows(words.len()).any(|here| here == words)
        })
    };
    let found = sources().iter().filter(|source| is_there(source));
    found.map(|source| source.name.clone()).collect()
}

#[test]
fn programs_are_started_only_in_listed_modules_and_without_a_shell() {
    let starts = ["Command :: new", "libc :: execv", "libc :: system", "libc :: popen"];
    // These are the user's program in place of a rank, srun for the other hosts of its step, and nodegauge itself as
    // the watchdog of a sweep.
    let expected = [
        "crates/programs/src/placed.rs",
        "crates/team/src/hosts.rs",
        "crates/team/src/rank_service/coordinator.rs",
        "crates/toolchain/src/job.rs",
        "crates/toolchain/src/watchdog.rs",
    ];
    assert_eq!(with_any(&starts), expected);
    let shells = [r#""sh""#, r#""/bin/sh""#, r#""bash""#, r#""/bin/bash""#];
    assert_eq!(with_any(&shells), [] as [String; 0]);
}

#[test]
fn no_module_changes_user_or_capabilities_or_becomes_a_daemon() {
    let calls = ["setuid", "seteuid", "setreuid", "setresuid", "setgid", "setresgid", "setgroups"];
    assert_eq!(with_any(&calls), [] as [String; 0]);
    assert_eq!(with_any(&["capset", "daemon", "setcap"]), [] as [String; 0]);
}

#[test]
fn network_is_used_in_listed_modules_only() {
    let expected = [
        "crates/exchange/src/link.rs",
        "crates/messages/src/transport/ranks.rs",
        "crates/messages/src/transport.rs",
    ];
    let sockets = ["TcpListener", "TcpStream", "UdpSocket", "libc :: socket", "libc :: connect"];
    assert_eq!(with_any(&sockets), expected);
    let ports = ["Ipv4Addr :: UNSPECIFIED", "Ipv6Addr :: UNSPECIFIED"];
    assert_eq!(with_any(&ports), [] as [String; 0], "only the loopback interface is used");
}

#[test]
fn wall_clock_is_read_in_listed_modules_only() {
    assert_eq!(
        with_any(&["SystemTime", "CLOCK_REALTIME"]),
        [
            // Age of folders that a killed run has left.
            "crates/blocks/src/scratch.rs",
            // Start of a solve, in the format of HPL's output.
            "crates/compute/src/hpl.rs",
            // Dates of records, in options and in the history.
            "crates/history/src/moment.rs",
            "crates/measure/src/record.rs",
            // Times of the boot and of the last check, after which hardware errors count.
            "crates/node/src/check/examination.rs",
            "crates/node/src/check.rs",
            // Times of the samples in a day.
            "crates/node/src/watch/grid.rs",
            "crates/node/src/watch/series.rs",
            "crates/node/src/watch.rs",
        ]
    );
}

#[test]
fn files_are_written_in_listed_modules_only() {
    let writes = [
        "fs :: write",
        "File :: create",
        "File :: options",
        "OpenOptions :: new",
        "OFlags :: CREATE",
        "OFlags :: TMPFILE",
        "create_dir_all",
        "DirBuilder :: new",
        "mkdirat",
        "NamedTempFile :: new_in",
        "tempfile :: Builder",
        "memfd_create",
        "mknodat",
        "symlink",
        "hard_link",
        "libc :: open",
        "libc :: shm_open",
        "SQLITE_OPEN_CREATE",
    ];
    assert_eq!(
        with_any(&writes),
        [
            // Files that `io` measures, in its own folder.
            "crates/blocks/src/engine/mod.rs",
            "crates/blocks/src/entries/pass.rs",
            // The file of the kernel that drops caches.
            "crates/blocks/src/entries/turn.rs",
            "crates/blocks/src/pass.rs",
            "crates/blocks/src/scratch.rs",
            // Folder of `man --output`.
            "crates/cli/src/commands/manual.rs",
            // Folder of `fleet run`; its files are outputs.
            "crates/fleet/src/folder.rs",
            // The history. `error.rs` opens it to find the reason for an error.
            "crates/history/src/error.rs",
            "crates/history/src/store.rs",
            // The compiled probe, in a private folder.
            "crates/messages/src/probe/build.rs",
            // Memory without a name, the order in which the kernel ends processes, /dev/null, outputs. `input.rs` keeps
            // long pipes in a file without a name.
            "crates/os/src/barrier.rs",
            "crates/os/src/child.rs",
            "crates/os/src/fork.rs",
            "crates/os/src/input.rs",
            "crates/os/src/memory_program.rs",
            "crates/os/src/output.rs",
            // Folder of cached probes.
            "crates/os/src/trusted_folder.rs",
            // Sources in a private folder.
            "crates/stream/src/compiled/build.rs",
            // Cache of compiled probes, private folders, and input files of programs.
            "crates/toolchain/src/cache.rs",
            "crates/toolchain/src/program.rs",
            "crates/toolchain/src/scratch.rs",
        ]
    );
}
