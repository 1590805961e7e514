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

/// What it comes to on this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenCompiler {
    /// nodegauge's own kernels.
    Native,
    /// A compiler with its flags, and whether it is a preset: a preset that a compiler refuses is
    /// left out, a command that the user gave is a failure.
    Command {
        /// The command.
        command: CommandLine,
        /// Whether the user named it.
        preset: bool,
    },
}

impl CompilerChoice {
    /// The commands that are meant, given the compilers that are `installed`; each command once,
    /// in the order of `choices`.
    pub fn resolve(choices: &[Self], installed: &[Installed], openmp: bool) -> Vec<ChosenCompiler> {
        let mut chosen: Vec<ChosenCompiler> = Vec::new();
        for choice in choices {
            let more = match choice {
                Self::Native => vec![ChosenCompiler::Native],
                Self::Command(command) => {
                    let command = with_usual_flags(command);
                    vec![ChosenCompiler::Command { command, preset: false }]
                }
                Self::All => installed
                    .iter()
                    .flat_map(|compiler| compiler.variants(openmp))
                    .map(|command| ChosenCompiler::Command { command, preset: true })
                    .collect(),
            };
            for one in more {
                if !chosen.iter().any(|known| known.to_string() == one.to_string()) {
                    chosen.push(one);
                }
            }
        }
        chosen
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

impl From<&ChosenCompiler> for CompilerChoice {
    fn from(chosen: &ChosenCompiler) -> Self {
        match chosen {
            ChosenCompiler::Native => Self::Native,
            ChosenCompiler::Command { command, .. } => Self::Command(command.clone()),
        }
    }
}

impl fmt::Display for ChosenCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Command { command, .. } => command.fmt(f),
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
        let words: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        assert_eq!(words[1], "native");
        assert_eq!(words.len(), 2 + gcc.variants.len());
        assert_eq!(words.last().map(String::as_str), Some("./cc -Dx"));
        // The plain variant was asked for by name, and is no preset then.
        assert!(matches!(&chosen[0], ChosenCompiler::Command { preset: false, .. }));
        assert!(matches!(&chosen[2], ChosenCompiler::Command { preset: true, .. }));
    }
}
