//! Tests that the program accepts all commands in the documentation.

use crate::contract::words;
use crate::harness::Harness;
use crate::outcome::Outcome;
use std::path::{Path, PathBuf};

/// Returns the files of the documentation: paths relative to the root of the repository, and texts.
pub fn chapters() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let names = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    let mut files: Vec<PathBuf> = names.map(|name| root.join(name)).into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    let named = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.iter().map(named).collect()
}

/// Returns the commands in a chapter that begin with `nodegauge`, from code blocks and inline code.
pub fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut is_fenced = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced || line.starts_with("    ") {
            let mut command = line.trim().trim_start_matches("$ ").to_owned();
            while command.ends_with('\\') {
                command.pop();
                command += lines.next().unwrap_or_default().trim();
            }
            found.extend(command_in(&command));
        } else {
            prose += line;
            prose.push('\n');
        }
    }
    for span in prose.split('`').skip(1).step_by(2) {
        found.extend(command_in(&span.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    found
}

/// Programs that start the command after their own arguments.
const LAUNCHERS: [&str; 5] = ["srun", "mpirun", "mpiexec", "numactl", "taskset"];

/// Returns the part of a line that begins with the word `nodegauge`, after variables and launchers; `None` for other
/// lines.
fn from_program(line: &str) -> Option<&str> {
    let is_variable =
        |word: &str| word.contains('=') && word.starts_with(|c: char| c.is_ascii_uppercase());
    let mut rest = line;
    while let Some((word, after)) = rest.split_once(' ') {
        if !is_variable(word) {
            break;
        }
        rest = after;
    }
    if LAUNCHERS.iter().any(|launcher| rest.split(' ').next() == Some(launcher)) {
        let programs = [" nodegauge ", " ./nodegauge "];
        let at = programs.iter().find_map(|program| rest.find(program))?;
        rest = &rest[at + 1..];
    }
    Some(rest.strip_prefix("./").unwrap_or(rest))
}

/// Returns the arguments in a line that runs nodegauge. The command ends at the word at which a shell would end it.
fn command_in(line: &str) -> Option<String> {
    let arguments = from_program(line)?.strip_prefix("nodegauge ")?;
    // This is the first line of a page, which contains the name and the version.
    if arguments.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut quoted = false;
    let mut end = arguments.len();
    let mut before = ' ';
    for (position, c) in arguments.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '|' | ';' | '&' if !quoted => end = end.min(position),
            '#' | '>' | '$' | '(' if !quoted && before == ' ' => end = end.min(position),
            _ => {}
        }
        before = c;
    }
    Some(arguments[..end].trim().to_owned())
}

#[test]
fn documented_commands_are_valid() {
    let harness = Harness::new();
    let mut wrong = String::new();
    let mut number = 0;
    for (chapter, text) in chapters() {
        for command in commands(&text) {
            let mut arguments = words(&command);
            // `--help` makes the program parse all arguments before it, and run nothing. Words after `--` are arguments
            // of another program.
            let end = arguments.iter().position(|word| word == "--");
            let end = end.unwrap_or(arguments.len());
            arguments.splice(end.., ["--help".to_owned()]);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let outcome = harness.run(&arguments);
            number += 1;
            if outcome.code != Some(0) {
                let error = outcome.stderr.lines().next().unwrap_or_default();
                wrong += &format!("{chapter}: nodegauge {command}: {error}\n");
            }
        }
    }
    assert!(number > 100, "{number} commands were found");
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn only_code_is_searched_for_commands() {
    let text = "nodegauge prints\n    nodegauge stream --expect 'triad>=1GB/s' > a # comment\n\
                ```\n$ nodegauge hpl \\\n  --plan | head\n```\nand `nodegauge\nmachine` or `x`, \
                `OMP_PLACES=cores nodegauge stream`, `srun -N4 ./nodegauge mpi`, `srun hostname`\n";
    let expected = ["stream --expect 'triad>=1GB/s'", "hpl --plan", "machine", "stream", "mpi"];
    assert_eq!(commands(text), expected);
}

/// Row of docs/literature.md: commands that only plan.
struct PlannedItem {
    item: String,
    /// Commands, which are run one after the other.
    commands: Vec<PlannedCommand>,
    /// Words that the last command must print.
    prints: Vec<String>,
}

/// Command in such a row.
struct PlannedCommand {
    /// Environment variables that precede the command.
    variables: Vec<(String, String)>,
    arguments: Vec<String>,
}

impl PlannedCommand {
    /// Parses a command line, in which variables may precede the program.
    fn parse(line: &str) -> Self {
        let mut arguments = words(line);
        let program = arguments.iter().position(|word| word == "nodegauge").unwrap();
        let variables = arguments.drain(..=program).filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Self { variables: variables.collect(), arguments }
    }

    /// Runs the command; the test fails if the command fails.
    fn run(&self, harness: &Harness) -> Outcome {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        harness.run_with(&variables, &arguments).exits(0)
    }
}

/// Returns the texts of the inline code in a table cell.
fn spans(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the rows of all tables with the columns item, command and prints.
fn planned_items(text: &str) -> Vec<PlannedItem> {
    let mut items = Vec::new();
    let mut is_planned = false;
    for line in text.lines() {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [item, command, prints] = cells.as_slice() else {
            is_planned &= line.starts_with('|');
            continue;
        };
        if line == "| item | command | prints |" {
            is_planned = true;
        } else if is_planned && !line.starts_with("| --- ") {
            let commands = spans(command).iter().map(|span| PlannedCommand::parse(span)).collect();
            let item = item.trim_start_matches("| ").to_owned();
            items.push(PlannedItem { item, commands, prints: spans(prints) });
        }
    }
    items
}

#[test]
fn literature_plans_print_the_documented_output() {
    let chapters = chapters();
    let (_, text) = chapters.iter().find(|(name, _)| name == "docs/literature.md").unwrap();
    let harness = Harness::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for entry in std::fs::read_dir(root.join("tests/cli/texts/stream")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), harness.path(entry.file_name().to_str().unwrap())).unwrap();
    }
    let items = planned_items(text);
    assert!(items.len() > 50, "{} items", items.len());
    for PlannedItem { item, commands, prints } in items {
        assert!(!prints.is_empty(), "{item}");
        let outcomes: Vec<Outcome> = commands.iter().map(|command| command.run(&harness)).collect();
        let mut outcome = outcomes.into_iter().next_back().unwrap();
        for expected in prints {
            outcome = outcome.prints_words(&expected);
        }
    }
}

/// Returns the targets of the links in a text.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#')).collect()
}

#[test]
fn documentation_links_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let chapters = chapters();
    let mut wrong = String::new();
    for (chapter, text) in &chapters {
        let folder = root.join(chapter);
        for link in links(text) {
            let file = link.split('#').next().unwrap();
            if !folder.parent().unwrap().join(file).exists() {
                wrong += &format!("{chapter}: {link}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing:\n{wrong}");
}

#[test]
fn every_chapter_is_in_the_book() {
    let chapters = chapters();
    let (_, summary) = chapters.iter().find(|(name, _)| name == "docs/SUMMARY.md").unwrap();
    let listed = links(summary);
    for (name, _) in &chapters {
        let target = name.strip_prefix("docs/").map_or(format!("../{name}"), str::to_owned);
        let is_listed = name == "docs/SUMMARY.md" || listed.contains(&target.as_str());
        assert!(is_listed, "docs/SUMMARY.md does not list {name}");
    }
}

#[test]
fn every_picture_is_in_the_gallery_and_in_another_chapter() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let chapters = chapters();
    for entry in std::fs::read_dir(root.join("docs/gallery")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let target = format!("gallery/{file}");
        let shows = |(_, text): &&(String, String)| links(text).contains(&target.as_str());
        let shown = chapters.iter().filter(|(name, _)| name.starts_with("docs/")).filter(shows);
        let names: Vec<&str> = shown.map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"docs/gallery.md"), "{file} is not in the gallery");
        assert!(names.len() > 1, "no chapter shows {file}");
    }
}
