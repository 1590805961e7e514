//! Tests of `nodegauge history`, and of the path of the history.

use crate::harness::{FAST, Harness, Outcome, Part, skip};
use serde_json::Value;

/// Saves a short run and returns its identifier.
fn save(harness: &Harness, args: &[&str]) -> String {
    let common = ["--kernels", "copy,triad", "--samples", "1", "--json", "-"];
    let quick = ["stream", "--size", "100000elements", "--budget", "0.2", "--dimms", "1024x20000"];
    let record = harness.run(&[&quick[..], &common, args].concat()).exits(0).json();
    record["id"].as_str().unwrap().to_owned()
}

fn show(harness: &Harness, selector: &str) -> Value {
    harness.run(&["history", "show", selector, "--json"]).exits(0).json()
}

#[test]
fn empty_history_lists_no_runs_and_creates_no_files() {
    let harness = Harness::new();
    assert_eq!(
        harness.run(&["history", "list"]).exits(0).warns_nothing().stdout,
        "no saved runs\n"
    );
    harness
        .run(&["history", "show", "latest"])
        .exits(2)
        .only_error("no saved run 'latest'\nhint: nodegauge history list");
    assert!(!harness.path(".local").exists(), "reading makes no files");
}

#[test]
fn run_is_found_by_every_selector() {
    let harness = Harness::new();
    let first = save(&harness, &["--label", "nps=4", "--label", "who=me"]);
    let second = save(&harness, &["--label", "nps=1"]);
    let found = |selector: &str| show(&harness, selector)["id"].as_str().unwrap().to_owned();
    assert_eq!(found("latest"), second);
    assert_eq!(found("latest~1"), first);
    assert_eq!(found("nps=4"), first);
    assert_eq!(found("me"), first);
    assert_eq!(found(&first), first);
    assert_eq!(found(&first.to_lowercase()), first);
    let shortest = (4..=26).find(|n| !second.starts_with(&first[..*n])).unwrap();
    assert_eq!(found(&first[..shortest]), first);
    harness
        .run(&["history", "show", &first[..shortest - 1]])
        .exits(2)
        .warns(&format!("is the prefix of several runs: {second}, {first}\n"));
    harness
        .run(&["history", "show", &first[..2]])
        .exits(2)
        .warns("hint: give at least 4 characters of the identifier\n");
    harness.run(&["history", "show", "latest~2"]).exits(2).only_error(
        "no saved run 'latest~2'; available: latest, latest~1\nhint: nodegauge history list",
    );
    harness
        .run(&["history", "show", "nsp=4"])
        .exits(2)
        .warns("error: no saved run 'nsp=4'; available: nps=4");
}

#[test]
fn shown_record_equals_the_printed_record() {
    let harness = Harness::new();
    let printed = harness.stream_record(&[]);
    assert_eq!(show(&harness, "latest"), printed);
    let csv = harness.run(&["history", "show", "latest", "--csv"]).exits(0).stdout;
    assert_eq!(csv.lines().count(), 5);
    let page = harness.run(&["history", "show", "latest"]).exits(0).warns_nothing();
    page.prints("\nmachine ")
        .prints("\ntriad ")
        .prints("based on a variant of the STREAM benchmark");
}

#[test]
fn record_file_is_shown_with_and_without_a_history() {
    let harness = Harness::new();
    harness
        .stream(&["--no-save", "-q", "--json", "run.json"])
        .exits(0)
        .warns_nothing()
        .prints_nothing();
    harness.run(&["history", "show", "run.json"]).exits(0).prints("\ntriad ");
    save(&harness, &[]);
    harness.run(&["history", "show", "run.json"]).exits(0).prints("\ntriad ");
    harness.write("other.json", "{\"schema\": \"other/1\"}");
    harness
        .run(&["history", "show", "other.json"])
        .exits(2)
        .warns("error: other.json is not a nodegauge record: ")
        .warns("\nhint: give a file that --json FILE wrote\n");
}

#[test]
fn list_begins_with_the_newest_run_and_can_be_filtered() {
    let harness = Harness::new();
    let first = save(&harness, &["--label", "nps=4"]);
    let second = save(&harness, &[]);
    let list = |args: &[&str]| {
        let reported =
            harness.run(&[&["history", "list", "-q"], args].concat()).exits(0).warns_nothing();
        reported.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), [second.as_str(), first.as_str()]);
    assert_eq!(list(&["--limit", "1"]), [second.as_str()]);
    assert_eq!(list(&["--label", "nps=4"]), [first.as_str()]);
    assert!(list(&["--label", "nps=5"]).is_empty());
    assert!(list(&["--host", "no-such-host"]).is_empty());
    let host = show(&harness, "latest")["machine"]["host"].as_str().unwrap().to_owned();
    assert_eq!(list(&["--host", &host]).len(), 2);
    assert_eq!(list(&["--since", "1h", "--until", "2099-12-31", "--gauge", "memory"]).len(), 2);
    assert!(list(&["--until", "2025-12-31T23:59:59+01:00"]).is_empty());
    assert!(list(&["--gauge", "hpl"]).is_empty());
    harness
        .run(&["history", "list", "--gauge", "tryad"])
        .exits(2)
        .warns("unknown gauge or test 'tryad': expected apps, bandwidth, compute, ");
    harness
        .run(&["history", "list"])
        .prints(" nps=4 ")
        .prints("triad ")
        .prints(&format!("on {host}"));
    let json = harness.run(&["history", "list", "--json"]).exits(0).json();
    assert_eq!(json[1]["labels"]["nps"], "4");
    assert_eq!((&json[0]["id"], &json[0]["figures"][1]["name"]), (&second.into(), &"triad".into()));
    let csv = harness.run(&["history", "list", "--csv"]).exits(0).stdout;
    assert!(csv.lines().nth(2).unwrap().starts_with(&format!("{first},20")), "{csv}");
    // The printed identifiers become arguments of another command. Without runs, nothing is printed.
    let remove = "history remove $(\"$0\" history list -q --label nps=4)";
    let program = crate::program::path();
    harness.run_other(&["sh", "-c", &format!("\"$0\" {remove}"), program], &[]).exits(0);
    assert_eq!(list(&[]).len(), 1);
}

/// Returns `runs` records, one per line. They are made from a recorded one and come from three hosts, a minute apart.
pub fn many(runs: usize) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/golden/stream-sweep-two-axes/record.json"
    );
    let recorded: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let line = |i: usize| {
        let mut record = recorded.clone();
        record["id"] = format!("01M7ZV{i:04}{}", "0".repeat(16)).into();
        record["started"] = format!("2026-11-21T{:02}:{:02}:00Z", i / 60 % 24, i % 60).into();
        record["machine"]["host"] = format!("a-node-of-some-cluster-{}", i % 3).into();
        record["labels"] =
            serde_json::json!({"nps": (i % 2).to_string(), "purchase": "acceptance"});
        record.to_string() + "\n"
    };
    (0..runs).map(line).collect()
}

#[test]
fn long_list_is_limited_to_a_screen() {
    let harness = Harness::new();
    let file = harness.write("many.jsonl", many(300));
    harness.run(&["history", "import", &file]).exits(0).prints("many.jsonl: 300 runs saved\n");
    let listed = |args: &[&str], width: usize| {
        let columns = [("COLUMNS", width.to_string())];
        let columns = columns.each_ref().map(|(name, value)| (*name, value.as_str()));
        let args = [&["history", "list"], args].concat();
        let outcome = harness.run_with(&columns, &args).exits(0).warns_nothing();
        if let Some(line) = outcome.stdout.lines().find(|line| line.chars().count() > width) {
            outcome.fail(&format!("wider than {width}: {line}"));
        }
        outcome
    };
    for width in [80, 120] {
        let list = listed(&[], width).prints("280 older: --all\n").prints(" triad ");
        assert_eq!(list.stdout.lines().count(), 22, "{}", list.stdout);
    }
    // The last line explains the mark for suspect figures.
    let all = listed(&["--all"], 80).prints("\n? suspect: history show ID\n");
    assert_eq!(all.stdout.lines().count(), 302);
    assert_eq!(listed(&["--limit", "3"], 80).prints("297 older: --all").stdout.lines().count(), 5);
    // The printed part of an identifier is sufficient to select the run.
    let shown = all.stdout.lines().nth(300).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(show(&harness, &shown)["id"], format!("01M7ZV{}", "0".repeat(20)));
    let node = ["--host", "a-node-of-some-cluster-1", "--label", "nps=0", "-q"];
    assert_eq!(listed(&node, 80).stdout.lines().count(), 50);
    let hour = ["--since", "2026-11-21T03:00:00Z", "--until", "2026-11-21T03:59:59Z", "-q"];
    assert_eq!(listed(&hour, 80).stdout.lines().count(), 60);
}

#[test]
fn records_move_between_histories_unchanged() {
    let harness = Harness::new();
    let [old, new] = ["a", "b"].map(|run| save(&harness, &["--label", &format!("run={run}")]));
    let exported = harness.run(&["history", "export"]).exits(0).warns_nothing().stdout;
    assert_eq!(exported.lines().count(), 2);
    assert!(exported.contains(&old) && exported.find(&old) < exported.find(&new), "oldest first");
    harness
        .run(&["history", "export", "run=b", &new, "--output", "b.jsonl"])
        .exits(0)
        .prints_nothing();
    harness.write("all.jsonl", &exported);
    let import =
        |files: &[&str]| harness.run(&[&["history", "import", "--db", "there.db"], files].concat());
    import(&["b.jsonl"]).exits(0).prints("b.jsonl: 1 run saved\n");
    import(&["all.jsonl", "--label", "from=here"])
        .exits(0)
        .prints("all.jsonl: 1 run saved, 1 already saved\n");
    let there = |args: &[&str]| harness.run(&[&["history"], args, &["--db", "there.db"]].concat());
    assert_eq!(there(&["show", &new, "--json"]).json(), show(&harness, &new));
    assert_eq!(there(&["show", &old, "--json"]).json()["labels"]["from"], "here");
    assert!(there(&["list", "--json"]).json()[0]["own"] == false, "not this node's");
    assert!(harness.run(&["history", "list", "--json"]).json()[0]["own"] == true);
    // Two different records cannot have the same identifier.
    harness.write("other.jsonl", exported.replace("\"n\":1", "\"n\":7"));
    import(&["other.jsonl"])
        .exits(2)
        .warns(&format!("error: run {old} is in history database there.db with different content"));
    harness.write("cut.jsonl", &exported[..exported.len() - 30]);
    import(&["cut.jsonl"]).exits(2).warns("error: cut.jsonl, record at line 2: EOF while parsing");
    import(&["b.jsonl", "--host", "n07"]).exits(2).warns("leave out --host");
    assert_eq!(there(&["list", "-q"]).stdout.lines().count(), 2);
}

/// Checks that `history show` prints the output of the run, with the node and its findings below the header.
pub fn shown_as_printed(harness: &Harness, printed: &Outcome) {
    let (page, saved) = printed.stdout.split_once("\nsaved ").unwrap_or_else(|| {
        printed.fail("expected a line that says where it was saved");
    });
    assert!(page.lines().count() > 2 && saved.lines().count() == 1, "{page}");
    let shown = harness.run(&["history", "show", "latest"]).exits(0).warns_nothing();
    // A run does not print the description and the findings of the node again.
    let (heading, rest) = page.split_once("\n\n").unwrap();
    let (node, figures) = rest.split_once("\n\n").unwrap();
    let begins = shown.stdout.starts_with(&format!("{heading}\n\n{node}\n"));
    if !begins || !shown.stdout.ends_with(&format!("\n\n{figures}\n")) {
        shown.fail(&format!("expected to begin and to end as the run printed it:\n{page}"));
    }
}

#[test]
fn history_show_prints_every_mode_like_its_run() {
    let harness = Harness::new();
    let stream = |args: &[&'static str]| [&["stream"], &FAST[..], args].concat();
    let tiny = ["--samples", "2", "--budget", "0.2", "--dimms", "1024x20000"];
    let memory = |args: &[&'static str]| [&["memory"], args, &tiny[..]].concat();
    for args in [
        stream(&[]),
        stream(&["--threads", "1", "--kernels", "triad,read", "--label", "a=b"]),
        stream(&["--ranks", "1"]),
        stream(&["--sweep", "stores=regular,nontemporal", "--kernels", "triad"]),
        [&["explain"], &FAST[..]].concat(),
        memory(&["ladder", "--size", "64KiB", "--threads", "1"]),
        memory(&["latency", "--size", "64KiB"]),
        memory(&["matrix", "--size", "8MiB"]),
        memory(&["loaded", "--size", "8MiB"]),
        memory(&["mix", "--size", "8MiB"]),
        // A short budget may be refused on a busy machine, so these runs have a number of samples instead.
        vec![
            "hpl",
            "--order",
            "200",
            "--nb",
            "32",
            "--blas",
            "builtin",
            "--budget",
            "3",
            "--samples",
            "1",
        ],
        vec!["io", "--path", ".", "--file-sizes", "64KiB", "--block-sizes", "4KiB,16KiB"],
    ] {
        if args.contains(&"loaded") && !harness.has_cpus(2) {
            continue;
        }
        shown_as_printed(&harness, &harness.run(&args));
    }
    if let Some(which) = crate::mpi::installed(&harness).first() {
        let little = ["-m", "8,1024", "--samples", "2", "--size-limit", "0.02"];
        shown_as_printed(&harness, &crate::mpi::mpi(&harness, *which, &little));
    }
}

#[test]
fn labels_are_added_changed_and_removed() {
    let harness = Harness::new();
    let id = save(&harness, &["--label", "site=here"]);
    let label = |text: &str| harness.run(&["history", "label", "latest", text]).exits(0).stdout;
    assert_eq!(label("nps=4"), format!("{id}: nps=4\n"));
    assert_eq!(label("site=there"), format!("{id}: site=there\n"));
    assert_eq!(show(&harness, "nps=4")["labels"].to_string(), r#"{"nps":"4","site":"there"}"#);
    assert_eq!(label("nps="), format!("{id}: label nps removed\n"));
    harness.run(&["history", "show", "nps=4"]).exits(2);
    harness.run(&["history", "label", "latest", "nps"]).exits(2).warns("expected KEY=VALUE");
}

#[test]
fn removed_run_cannot_be_found() {
    let harness = Harness::new();
    let first = save(&harness, &[]);
    let second = save(&harness, &[]);
    let reported = harness.run(&["history", "remove", "latest"]).exits(0).stdout;
    assert_eq!(reported, format!("{second} removed\n"));
    harness.run(&["history", "show", &second]).exits(2);
    assert_eq!(show(&harness, "latest")["id"], first.as_str());
    harness.run(&["history", "remove", &second]).exits(2).warns("no saved run");
    harness.run(&["history", "remove", &first]).exits(0);
    assert_eq!(harness.run(&["history", "list"]).stdout, "no saved runs\n");
}

#[test]
fn database_path_follows_option_and_variable() {
    let harness = Harness::new();
    let args = [&["stream", "-q"], &FAST[..]].concat();
    let variables = [("NODEGAUGE_DB", harness.arg("by-variable.db"))];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    harness.run_with(&variables, &args).exits(0);
    assert!(harness.path("by-variable.db").exists() && !harness.path(".local").exists());
    let list = harness.run_with(&variables, &["history", "list"]).exits(0).stdout;
    assert!(list.contains("triad"), "{list}");
    let option = ["--db", "folder/by-option.db"];
    for command in [&args[..], &["history", "list"]] {
        harness.run(&[command, &option].concat()).exits(2).only_error(
            "--db folder/by-option.db: folder folder does not exist\nhint: create it, e.g. mkdir -p folder",
        );
    }
    std::fs::create_dir(harness.path("folder")).unwrap();
    harness.run_with(&variables, &[&args[..], &option].concat()).exits(0);
    harness.run(&[&["history", "list"], &option[..]].concat()).exits(0).prints("triad");
    assert_eq!(harness.run_with(&variables, &["history", "list"]).stdout, list);
}

#[test]
fn no_save_option_leaves_the_database_unchanged() {
    let harness = Harness::new();
    let broken = harness.write("broken.db", "this is no database");
    let outcome = harness.stream(&["--no-save", "--db", &broken]).exits(0).warns_nothing();
    outcome.never_prints("saved ");
    assert_eq!(std::fs::read(&broken).unwrap(), b"this is no database");
    harness.stream(&["--no-save"]).exits(0);
    assert!(!harness.path(".local").exists());
}

#[test]
fn file_that_is_not_a_database_is_refused_and_unchanged() {
    let harness = Harness::new();
    let text = "this is no database, and longer than the header of one ".repeat(40);
    let broken = harness.write("broken.db", &text);
    let message = format!(
        "cannot read history database {broken}: file is not a database\n\
         hint: move the file away, or use --db FILE"
    );
    for args in [
        &["stream"][..],
        &["run"],
        &["explain"],
        &["history", "list"],
        &["history", "show", "latest"],
        &["history", "label", "latest", "a=b"],
        &["history", "remove", "latest"],
    ] {
        harness.run(&[args, &["--db", &broken]].concat()).exits(2).only_error(&message);
    }
    assert_eq!(std::fs::read_to_string(&broken).unwrap(), text);
}

#[test]
fn damaged_database_is_refused() {
    let harness = Harness::new();
    save(&harness, &["--db", "runs.db"]);
    let mut bytes = std::fs::read(harness.path("runs.db")).unwrap();
    let end = bytes.len();
    // The header of the database is intact, but the page with the schema is damaged.
    bytes[100..end].fill(0xa5);
    harness.write("runs.db", &bytes);
    let outcome = harness.run(&["history", "list", "--db", "runs.db"]).exits(2).prints_nothing();
    outcome.warns("error: cannot read history database runs.db: ");
    harness.run(&["stream", "--db", "runs.db"]).exits(2).prints_nothing();
    assert_eq!(std::fs::read(harness.path("runs.db")).unwrap(), bytes);
}

#[test]
fn unwritable_database_is_refused_before_measuring() {
    let harness = Harness::new();
    let file = harness.write("file", "");
    let below = harness.arg("file/history.db");
    // Without `--samples`, a run would measure for ten seconds before it fails.
    let outcome = harness.run(&["stream", "--db", &below]).exits(3).prints_nothing();
    outcome
        .warns(&format!("error: cannot write history database {below}: "))
        .warns("\nhint: use --no-save, or --db FILE in a folder that you can write to\n");
    harness
        .run(&["history", "list", "--db", &below])
        .exits(3)
        .warns(&format!("error: cannot read history database {below}: "));
    let folder = harness.arg("");
    harness.run(&["stream", "--db", &folder]).exits(3).prints_nothing();
    assert_eq!(std::fs::read(file).unwrap(), b"");
}

#[test]
fn run_that_saves_is_refused_if_the_home_is_unwritable() {
    let harness = Harness::new();
    std::fs::create_dir(harness.path(".local")).unwrap();
    let local = harness.arg(".local");
    let shown = [("tmpfs:ro", local.as_str())];
    let database = format!("{local}/share/nodegauge/history.db");
    let Some(outcome) = harness.run_where(&shown, &["stream"]) else { return };
    outcome.exits(3).only_error(&format!(
        "cannot write history database {database}: Read-only file system (os error 30)\n\
         hint: use --no-save, or --db FILE in a folder that you can write to"
    ));
    let listed = harness.run_where(&shown, &["history", "list"]).unwrap();
    assert_eq!(listed.exits(0).stdout, "no saved runs\n");
    let args = [&["stream", "-q", "--no-save"], &FAST[..]].concat();
    harness.run_where(&shown, &args).unwrap().exits(0).warns_nothing();
}

#[test]
fn read_only_database_can_be_read() {
    let harness = Harness::new();
    std::fs::create_dir(harness.path("shared")).unwrap();
    let id = save(&harness, &["--db", "shared/runs.db"]);
    let (folder, database) = (harness.arg("shared"), harness.arg("view/runs.db"));
    std::fs::create_dir(harness.path("view")).unwrap();
    let view = harness.arg("view");
    // A read-only bind mount takes two steps; `mount` does only the first one with a plain path.
    let args = [
        "-c",
        r#"mount --bind "$1" "$2" && mount -o remount,ro,bind "$2" && shift 2 && exec "$@""#,
    ];
    let mut command = harness.command("unshare");
    command.args(["--mount", "sh"]).args(args).args(["sh", &folder, &view]);
    command.args([crate::program::path(), "history", "list", "-q", "--db", &database]);
    if !harness.has(Part::Namespaces, "unshare") {
        return;
    }
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if ["unshare: ", "mount: "].iter().any(|program| complaint.starts_with(program)) {
        return skip(Part::Namespaces, &complaint);
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains(&id), "{output:?}");
}

#[test]
fn missing_home_is_reported_with_a_hint() {
    let harness = Harness::new();
    harness
        .run_with(&[("HOME", "")], &["stream"])
        .exits(3)
        .only_error("no home folder for the history\nhint: give --db FILE, or --no-save");
}

#[test]
fn simultaneous_runs_are_both_saved() {
    let harness = Harness::new();
    let args = [&["stream", "--json", "-"], &FAST[..]].concat();
    let running = [harness.start(&args), harness.start(&args)];
    let ids = running.map(|run| run.end().exits(0).warns_nothing().json()["id"].clone());
    let list = harness.run(&["history", "list", "-q"]).exits(0).stdout;
    assert!(ids.iter().all(|id| list.contains(id.as_str().unwrap())), "{list}");
    assert_ne!(ids[0], ids[1]);
}

/// Tests of the second tier.
mod thorough {
    use super::*;

    #[test]
    fn runs_of_eight_concurrent_writers_are_all_saved() {
        let harness = Harness::new();
        let lines: Vec<String> = many(80).lines().map(|line| format!("{line}\n")).collect();
        let files: Vec<String> = lines
            .chunks(10)
            .enumerate()
            .map(|(i, lines)| harness.write(&format!("{i}.jsonl"), lines.concat()))
            .collect();
        let running: Vec<_> =
            files.iter().map(|file| harness.start(&["history", "import", file])).collect();
        assert_eq!(running.len(), 8);
        for run in running {
            run.end().exits(0).prints(": 10 runs saved");
        }
        let exported = harness.run(&["history", "export"]).exits(0).stdout;
        assert_eq!(exported.lines().count(), 80);
        assert!(exported.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    }
}

/// The commands of the chapter on accepting a node run on a history that contains other runs.
#[test]
fn acceptance_exports_only_the_runs_of_the_new_node() {
    let chapter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tasks/accept.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let commands: Vec<Vec<&str>> = chapter
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nodegauge history "))
        .map(|line| line.split('#').next().unwrap().split_whitespace().collect())
        .collect();
    let [export, import] = &commands[..] else { panic!("{commands:?}") };
    let harness = Harness::new();
    for name in ["stream", "io", "mpi"] {
        let file = crate::pages::golden(name);
        harness.run(&["history", "import", file.to_str().unwrap()]).exits(0);
    }
    let ids = harness.run(&["history", "list", "-q"]).exits(0).stdout;
    let id = ids.lines().next().unwrap();
    harness.run(&["history", "label", id, "node=n17"]).exits(0);
    harness.run(&[&["history"], &export[..]].concat()).exits(0);
    let carried = std::fs::read_to_string(harness.path("n17.jsonl")).unwrap();
    assert_eq!(carried.lines().count(), 1, "{carried}");
    // The history of the known good node is a separate file.
    let other = ["--db", "n16.db"];
    harness.run(&[&["history"], &import[..], &other].concat()).exits(0);
    let listed = ["history", "list", "-q", "--label", "node=n17"];
    let listed = harness.run(&[&listed[..], &other].concat()).exits(0).stdout;
    assert_eq!(listed.trim(), id);
}
