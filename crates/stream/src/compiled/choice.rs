//! `--compiler` and the axis `compiler`: a command, all compilers that are installed, or the native
//! kernels.

use crate::kernels::SideBySide;
use crate::kernels::compiled::PAGES;
use nodegauge_measure::SyntaxError;
use nodegauge_toolchain::presets::Installed;
use nodegauge_toolchain::{CommandLine, presets};
use std::fmt;
use std::str::FromStr;

/// Compiler as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompilerChoice {
    /// nodegauge's own kernels.
    Native,
    /// Every compiler that is installed, each with the flags of the literature.
    All,
    /// A compiler with its flags; without any it gets the usual ones.
    Command(CommandLine),
}

/// Macros by which stream.c is told what options of this program say: here they would be shown and
/// mean nothing.
const TOLD_BY_OPTIONS: [(&str, &str); 6] = [
    ("STREAM_ARRAY_SIZE", "--size"),
    ("N", "--size"),
    ("NTIMES", "--samples"),
    ("OFFSET", "--offset"),
    ("STREAM_TYPE", "--element"),
    ("ELEMENT", "--element"),
];

/// Compiler chosen on this system: never all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenCompiler {
    /// Native kernels, or a compiler with its flags.
    pub choice: CompilerChoice,
    /// True if it is a preset, which is left out where the compiler refuses it; a command that the
    /// user gave is a failure then.
    pub preset: bool,
}

impl CompilerChoice {
    /// The commands that are meant, given the compilers that are `installed`; each command once,
    /// in the order of `choices`.
    pub fn resolve(choices: &[Self], installed: &[Installed], openmp: bool) -> Vec<ChosenCompiler> {
        let mut chosen: Vec<ChosenCompiler> = Vec::new();
        for choice in choices {
            let all = || installed.iter().flat_map(|compiler| compiler.variants(openmp));
            let more = match choice {
                Self::Native => vec![Self::Native],
                Self::Command(command) => vec![Self::Command(with_usual_flags(command))],
                Self::All => all().map(Self::Command).collect(),
            };
            for one in more {
                if !chosen.iter().any(|known| known.choice.to_string() == one.to_string()) {
                    chosen.push(ChosenCompiler { choice: one, preset: *choice == Self::All });
                }
            }
        }
        chosen
    }
}

impl ChosenCompiler {
    /// This and, of a command that was given by name, the same with each of these numbers of pages side
    /// by side; presets stay plain, as they are there to compare flags.
    pub(super) fn with_pages(self, pages: &[SideBySide]) -> Vec<Self> {
        let mut all = vec![self];
        if let Self { choice: CompilerChoice::Command(command), preset: false } = &all[0]
            && command.defined(PAGES).is_none()
        {
            let several = pages.iter().filter_map(|pages| pages.several());
            let with = |count| command.with([format!("-D{PAGES}={count}")]);
            let more = several.map(|count| CompilerChoice::Command(with(count)));
            let more: Vec<CompilerChoice> = more.collect();
            all.extend(more.into_iter().map(|choice| Self { choice, preset: false }));
        }
        all
    }
}

/// A compiler without flags gets those of its family.
fn with_usual_flags(command: &CommandLine) -> CommandLine {
    if command.arguments().is_empty() {
        command.with(presets::usual_flags(command.program()).iter().copied())
    } else {
        command.clone()
    }
}

impl FromStr for CompilerChoice {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let command: CommandLine = text.parse()?;
        // As words, so that quotes around one do not make it another.
        match command.words() {
            [word] if word == "native" => Ok(Self::Native),
            [word] if word == "all" => Ok(Self::All),
            _ => {
                let told = |(name, _): &&(&str, &str)| command.defined(name).is_some();
                match TOLD_BY_OPTIONS.iter().find(told) {
                    Some((name, option)) => Err(SyntaxError {
                        what: "compiler",
                        input: text.to_owned(),
                        at: text.find(name).unwrap_or(0),
                        problem: format!("expected {option} for what {name} says"),
                        example: "--samples 50 --compiler 'gcc -O3'",
                    }),
                    None => Ok(Self::Command(command)),
                }
            }
        }
    }
}

impl fmt::Display for CompilerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::All => f.write_str("all"),
            Self::Command(command) => command.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_given_by_name_get_pages_side_by_side_too() {
        let of = |text: &str, preset| {
            let pages = [SideBySide::ONE, SideBySide::new(4).unwrap()];
            let chosen = ChosenCompiler { choice: text.parse().unwrap(), preset };
            let all = chosen.with_pages(&pages).into_iter();
            all.map(|compiler| compiler.choice.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("cc -O2", false), ["cc -O2", "cc -O2 -DPAGES=4"]);
        for (text, preset) in [("cc -O2", true), ("native", false), ("cc -D PAGES=2", false)] {
            assert_eq!(of(text, preset).len(), 1, "{text}");
        }
        let pages = |text: &str| crate::kernels::compiled::side_by_side(&text.parse().unwrap());
        assert_eq!(pages("cc -DPAGES=8"), Some(8));
        assert_eq!(pages("cc -D PAGES=2 -DX"), Some(2));
        assert_eq!([pages("cc"), pages("cc -DPAGES=1"), pages("-DPAGES=x")], [None; 3]);
    }

    #[test]
    fn choices_become_commands_each_once() {
        let choices: Vec<CompilerChoice> =
            ["gcc", "native", "all", "gcc  -O3 -march=native", "./cc -Dx"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let gcc = presets::FAMILIES.iter().find(|family| family.name == "gcc").unwrap();
        let installed = [Installed { family: gcc, command: "gcc".to_owned() }];
        let chosen = CompilerChoice::resolve(&choices, &installed, false);
        let words: Vec<String> = chosen.iter().map(|one| one.choice.to_string()).collect();
        assert_eq!(words[1], "native");
        assert_eq!(words.len(), 2 + gcc.variants.len());
        assert_eq!(words.last().map(String::as_str), Some("./cc -Dx"));
        // The plain variant was asked for by name, and is no preset then.
        assert_eq!((chosen[0].preset, chosen[2].preset), (false, true));
    }
}
