//! Fuzz test of the whole command line: every mutated command line is parsed, or refused with a short error. No command
//! is executed.

#[path = "../../../../tests/fuzz/mutate.rs"]
mod mutate;

use super::{Args, command};
use clap::FromArgMatches;
use nodegauge_measure::legible;
use nodegauge_toolchain::CommandLine;

/// Number of command lines, unless `FUZZ_CASES` is larger. Parsing them takes about a second.
const CASES: usize = 500;

#[test]
fn mutated_command_line_is_parsed_or_refused_briefly() {
    let contract = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/cli/contract.txt"
    ))
    .unwrap();
    let lines = contract.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = |line: &str| {
        let words = CommandLine::parse("command", "", line.split(" | ").next().unwrap()).unwrap();
        words.words().iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>()
    };
    let seeds: Vec<Vec<Vec<u8>>> = lines.map(read).collect();
    let mut rng = fastrand::Rng::with_seed(3);
    let cases = std::env::var("FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    for _ in 0..cases.unwrap_or(CASES).max(CASES) {
        let mut words = seeds[rng.usize(..seeds.len())].clone();
        let other = &seeds[rng.usize(..seeds.len())];
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..words.len());
            let from = rng.usize(..other.len());
            match rng.u8(..4) {
                0 => words.insert(at, other[from].clone()),
                1 => words[at].clone_from(&other[from]),
                _ => words[at] = mutate::mutated(&words[at], &other[from], &mut rng),
            }
        }
        let words: Vec<String> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let typed = [&["nodegauge".to_owned()], &words[..]].concat();
        let parsed = command().try_get_matches_from(&typed);
        let Err(error) = parsed.and_then(|matches| Args::from_arg_matches(&matches)) else {
            continue;
        };
        let Some(failure) = super::hints::failure(&error, &typed) else { continue };
        let shown = legible::failure(&failure);
        let plain = shown.chars().all(|c| !c.is_control() || c == '\n');
        assert!(plain && shown.lines().count() <= 6 && !shown.is_empty(), "{words:?}: {shown:?}");
    }
}
