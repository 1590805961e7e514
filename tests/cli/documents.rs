//! Tests of the help, the completions, the man page and the version. All of them are generated from the same
//! definition.

use crate::harness::Harness;

/// Returns all commands, as words, with their subcommands. They are read from the help; the program itself is first.
pub fn commands(harness: &Harness) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut next = 0;
    while next < all.len() {
        let parent: Vec<String> = all[next].clone();
        next += 1;
        let help = harness.run(&with(&parent, &["-h"])).exits(0).stdout;
        all.extend(subcommands(&help).map(|name| [&parent[..], &[name.to_owned()]].concat()));
    }
    assert!(all.len() > 40, "{all:?}");
    for known in ["run", "memory ladder", "history import"] {
        assert!(all.iter().any(|command| command.join(" ") == known), "{known}: {all:?}");
    }
    all
}

/// Returns the names of the subcommands in a help text.
fn subcommands(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let listed = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help")
}

/// Returns the words of a command, followed by `more`.
pub fn with<'a>(command: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    command.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

#[test]
fn every_command_has_help() {
    let harness = Harness::new();
    for command in commands(&harness) {
        let short =
            harness.run(&with(&command, &["-h"])).exits(0).warns_nothing().prints("Usage: ");
        let long =
            harness.run(&with(&command, &["--help"])).exits(0).warns_nothing().prints("Usage: ");
        let words = |text: &str| text.split_whitespace().count();
        if words(&long.stdout) < words(&short.stdout) {
            long.fail("expected more than with -h");
        }
    }
}

#[test]
fn help_fits_eighty_columns() {
    let harness = Harness::new();
    for command in commands(&harness) {
        for help in ["-h", "--help"] {
            let args = with(&command, &[help]);
            let outcome = harness.run_with(&[("COLUMNS", "80")], &args).exits(0);
            // Lines that are not generated are not wrapped.
            let wide = |line: &&str| line.chars().count() > 80 && !line.starts_with("Exit codes:");
            if let Some(line) = outcome.stdout.lines().find(wide) {
                outcome.fail(&format!("wider than 80 columns: {line}"));
            }
        }
    }
}

#[test]
fn table_of_commands_has_every_command() {
    let chapters = crate::chapters::chapters();
    let (_, table) = chapters.iter().find(|(name, _)| name == "docs/README.md").unwrap();
    for command in commands(&Harness::new()).iter().filter(|command| command.len() == 1) {
        let name = format!("`nodegauge {}", command[0]);
        let is_listed = ["`", " "].iter().any(|end| table.contains(&(name.clone() + end)));
        assert!(is_listed || command[0] == "run", "docs/README.md does not list {name}`");
    }
}

/// Returns the completions of a command line in bash. They are computed by the script that the program prints.
fn completed_in_bash(harness: &Harness, words: &[&str]) -> Vec<String> {
    const COMPLETE: &str = "source <(nodegauge completions bash)\n\
                            COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_TYPE=9\n\
                            _clap_complete_nodegauge nodegauge \"${!#}\" ''\n\
                            printf '%s\\n' \"${COMPREPLY[@]}\"";
    let folder = std::path::Path::new(crate::program::path()).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let line = [&["bash", "-c", COMPLETE, "bash", "nodegauge"], words].concat();
    let outcome = harness.run_other(&line, &[("PATH", &path)]).exits(0);
    outcome.stdout.lines().map(|candidate| candidate.trim_end().to_owned()).collect()
}

#[test]
fn shell_completes_commands_values_runs_and_labels() {
    let harness = Harness::new();
    harness.stream(&["-q", "--label", "nps=4"]).exits(0);
    for (words, expected) in [
        (&["mea"][..], ""),
        (&["stream", "--stream-t"], "--stream-text"),
        (&["stream", "--kernels", "copy,tri"], "copy,triad"),
        (&["report", "lat"], "latest"),
        (&["compare", "latest", "nps"], "nps=4"),
    ] {
        assert_eq!(completed_in_bash(&harness, words), [expected], "{words:?}");
    }
    assert!(completed_in_bash(&harness, &["m"]).contains(&"machine".to_owned()));
    assert_eq!(completed_in_bash(&harness, &["history", "show", "01"]).len(), 1);
    for shell in ["zsh", "fish"] {
        harness.run(&["completions", shell]).exits(0).warns_nothing().prints("NODEGAUGE_COMPLETE");
    }
}

#[test]
fn man_page_has_every_command_and_the_usual_sections() {
    let harness = Harness::new();
    let page = harness.run(&["man"]).exits(0).warns_nothing();
    for command in &commands(&harness)[1..] {
        let heading = format!(".SH \"NODEGAUGE {}\"\n", command.join(" ").to_uppercase());
        if !page.stdout.contains(&heading) {
            page.fail(&format!("no section {heading}"));
        }
    }
    let page = page.prints(r"\-\-per\-cache").prints(r"\-\-stream\-text");
    page.prints(".SH \"EXIT STATUS\"\n")
        .prints(".SH \"ENVIRONMENT\"\n")
        .prints(".SH \"FILES\"\n")
        .prints(".SH EXAMPLES\n");
}

#[test]
fn every_command_has_a_valid_man_page() {
    let harness = Harness::new();
    harness.run(&["man", "--output", "share/man1"]).exits(0).warns_nothing();
    let folder = harness.path("share/man1");
    let mut pages: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let named = commands(&harness);
    let words = named.iter().map(|command| [&["nodegauge"], &with(command, &[])[..]].concat());
    let mut expected: Vec<String> = words.map(|of_page| of_page.join("-") + ".1").collect();
    expected.sort();
    assert_eq!(pages, expected);
    for page in pages {
        let read = std::process::Command::new("man")
            .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(folder.join(&page))
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let faults = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success() && faults.is_empty(), "{page}: {faults}");
        assert!(!read.stdout.is_empty(), "{page}");
    }
}

#[test]
fn subcommand_without_its_command_gets_a_suggestion() {
    let harness = Harness::new();
    for (typed, meant) in [
        ("latency", "nodegauge memory latency"),
        ("bandwidth", "nodegauge stream"),
        ("label", "nodegauge history label"),
        ("steam", "nodegauge stream"),
    ] {
        let refused = harness.run(&[typed]).exits(2);
        assert!(refused.stderr.contains(&format!("'{meant}'")), "{typed}: {}", refused.stderr);
    }
    let refused = harness.run(&["memory", "stream"]).exits(2);
    assert!(refused.stderr.contains("'nodegauge stream'"), "{}", refused.stderr);
}

#[test]
fn version_has_a_short_and_a_long_form() {
    let harness = Harness::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(harness.run(&["-V"]).exits(0).stdout, format!("nodegauge {version}\n"));
    let long = harness.run(&["--version"]).exits(0).prints(&format!("nodegauge {version}"));
    long.prints("\nkernels for this processor: ")
        .prints("\nkernel variants compiled in: ")
        .prints("\nhwloc: ");
}
