//! `--compiler` and the axis `compiler`: a command, all compilers that are installed, or the native
//! kernels.

use nodegauge_measure::SyntaxError;
use nodegauge_toolchain::presets::Installed;
use nodegauge_toolchain::{CommandLine, presets};
use std::fmt;
use std::str::FromStr;

/// What may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompilerChoice {
    /// nodegauge's own kernels.
    Native,
    /// Every compiler that is installed, each with the flags of the literature.
    All,
    /// A compiler with its flags; without any it gets the usual ones.
    Command(CommandLine),
}

/// What it comes to on this system: never all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenCompiler {
    /// Native kernels, or a compiler with its flags.
    pub choice: CompilerChoice,
    /// Whether it is a preset, which is left out where the compiler refuses it; a command that the
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

/// A compiler without flags gets those of its family.
fn with_usual_flags(command: &CommandLine) -> CommandLine {
    match command.arguments().is_empty() {
        true => command.with(presets::usual_flags(command.program()).iter().copied()),
        false => command.clone(),
    }
}

impl FromStr for CompilerChoice {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        match text.trim() {
            "native" => Ok(Self::Native),
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Command),
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
