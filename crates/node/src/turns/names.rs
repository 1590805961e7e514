//! Names of two commands by which they can be distinguished: `--pages 4k` and `--pages 2m`. The functions are pure.

use nodegauge_toolchain::CommandLine;

/// Name of this program, with which a command may begin.
const PROGRAM: &str = "nodegauge";

/// Returns the names of two commands: the options and arguments in which they differ. If the programs differ, or if the
/// commands are equal, the names are the whole commands. If a command only lacks words of the other command, its name
/// begins with `without`.
pub(super) fn names(commands: [&CommandLine; 2]) -> [String; 2] {
    let [a, b] = commands.map(words);
    let common = common(&a, &b);
    let own = [
        with_options(&a, common.iter().map(|pair| pair.0)),
        with_options(&b, common.iter().map(|pair| pair.1)),
    ];
    let first = common.first();
    let are_of_one_program =
        first.is_some_and(|first| is_program(&a, first.0) && is_program(&b, first.1));
    match own {
        [of_a, of_b] if !are_of_one_program || (of_a.is_empty() && of_b.is_empty()) => {
            commands.map(ToString::to_string)
        }
        [of_a, of_b] if of_a.is_empty() => [format!("without {}", quoted(&of_b)), quoted(&of_b)],
        [of_a, of_b] if of_b.is_empty() => [quoted(&of_a), format!("without {}", quoted(&of_a))],
        [of_a, of_b] => [quoted(&of_a), quoted(&of_b)],
    }
}

/// Returns the words of a command without the name of this program.
fn words(command: &CommandLine) -> Vec<String> {
    let mut words = command.words().to_vec();
    let program = words.iter().position(|word| !is_variable(word));
    if let Some(at) = program.filter(|at| words[*at] == PROGRAM && words.len() > at + 1) {
        words.remove(at);
    }
    words
}

/// True for `NAME=value` in front of a command.
fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty()
    })
}

/// True if the word at index `at` is the program or its subcommand, after any variables.
fn is_program(words: &[String], at: usize) -> bool {
    words[..at].iter().all(|word| is_variable(word))
}

/// Returns the positions of the longest common subsequence of the words of two commands.
fn common(a: &[String], b: &[String]) -> Vec<(usize, usize)> {
    // Length of the longest common subsequence of the words from i and from j onwards.
    let mut length = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i][j] = if a[i] == b[j] {
                length[i + 1][j + 1] + 1
            } else {
                length[i + 1][j].max(length[i][j + 1])
            };
        }
    }
    let mut pairs = Vec::new();
    let mut i = 0;
    let mut j = 0;
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            i += 1;
            j += 1;
        } else if length[i + 1][j] >= length[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// Returns the words that are not in `common`. An option is returned together with its value even if only the value
/// differs.
fn with_options(words: &[String], common: impl Iterator<Item = usize>) -> Vec<String> {
    let common: Vec<usize> = common.collect();
    let mut own: Vec<String> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if common.contains(&at) {
            continue;
        }
        let option = at.checked_sub(1).filter(|before| {
            let before_word = &words[*before];
            common.contains(before) && before_word.starts_with('-') && !before_word.contains('=')
        });
        if let Some(before) = option.filter(|_| !word.starts_with('-')) {
            own.push(words[before].clone());
        }
        own.push(word.clone());
    }
    own
}

/// Joins words, quoted for a shell.
fn quoted(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [first, rest @ ..] => CommandLine::new(first.clone(), rest.to_vec()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(a: &str, b: &str) -> [String; 2] {
        let [a, b]: [CommandLine; 2] = [a, b].map(|text| text.parse().unwrap());
        names([&a, &b])
    }

    #[test]
    fn differing_value_is_shown_with_its_option() {
        let pages = named("stream --pages 4k --samples 3", "stream --pages 2m --samples 3");
        assert_eq!(pages, ["--pages 4k", "--pages 2m"]);
        let joined = named("stream --pages=4k", "stream --pages=2m");
        assert_eq!(joined, ["--pages=4k", "--pages=2m"]);
        let two = named("stream --pages 4k --threads 1", "stream --pages 2m --threads 2");
        assert_eq!(two, ["--pages 4k --threads 1", "--pages 2m --threads 2"]);
        let other = named("stream --pages 4k", "stream --threads 4");
        assert_eq!(other, ["--pages 4k", "--threads 4"]);
    }

    #[test]
    fn command_is_named_by_the_option_that_it_lacks() {
        let added = named("stream", "stream --stores regular");
        assert_eq!(added, ["without --stores regular", "--stores regular"]);
        assert_eq!(named("stream -q", "nodegauge stream"), ["-q", "without -q"]);
        let variable = named("OMP_NUM_THREADS=1 stream", "nodegauge stream");
        assert_eq!(variable, ["OMP_NUM_THREADS=1", "without OMP_NUM_THREADS=1"]);
        let values = named("OMP_NUM_THREADS=1 stream", "OMP_NUM_THREADS=2 nodegauge stream");
        assert_eq!(values, ["OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2"]);
    }

    #[test]
    fn different_programs_and_equal_commands_are_shown_in_full() {
        assert_eq!(named("stream --samples 3", "memory mix"), ["stream --samples 3", "memory mix"]);
        let wrapped = named("numactl -m 0 nodegauge stream", "stream");
        assert_eq!(wrapped, ["numactl -m 0 nodegauge stream", "stream"]);
        assert_eq!(named("stream", "numactl stream"), ["stream", "numactl stream"]);
        assert_eq!(named("stream -q", "stream -q"), ["stream -q", "stream -q"]);
        assert_eq!(named("nodegauge", "nodegauge"), ["nodegauge", "nodegauge"]);
    }

    #[test]
    fn shown_words_are_quoted_for_the_shell() {
        let quoted = named("stream --compiler 'gcc -O3'", "stream --compiler 'clang -O3'");
        assert_eq!(quoted, ["--compiler 'gcc -O3'", "--compiler 'clang -O3'"]);
        let positional = named("sweep 'env:A=x y' -- ./a", "sweep env:A=z -- ./a");
        assert_eq!(positional, ["'env:A=x y'", "env:A=z"]);
    }
}
