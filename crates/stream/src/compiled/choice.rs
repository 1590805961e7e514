//! Values of `--compiler` and of the sweep axis `compiler`: a command, all installed compilers, or nodegauge's own
//! (native) kernels.

use crate::kernels::SideBySidePages;
use crate::kernels::compiled::PAGES_MACRO;
use nodegauge_measure::sweep::{InvalidAxisValue, list_parts};
use nodegauge_measure::{Failure, SyntaxError};
use nodegauge_toolchain::presets::InstalledCompiler;
use nodegauge_toolchain::{CommandLine, presets};
use std::fmt;
use std::str::FromStr;

/// Compiler as requested by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompilerChoice {
    /// nodegauge's own kernels.
    Native,
    /// Every installed compiler, with each of the preset flag combinations.
    All,
    /// Command of a compiler with flags. Without flags, the usual flags of the compiler's family are added.
    Command(CommandLine),
}

/// Macros of stream.c for which nodegauge has options: macro and option. Other kernels than those of stream.c ignore
/// these macros.
const OPTION_MACROS: [(&str, &str); 6] = [
    ("STREAM_ARRAY_SIZE", "--size"),
    ("N", "--size"),
    ("NTIMES", "--samples"),
    ("OFFSET", "--offset"),
    ("STREAM_TYPE", "--element"),
    ("ELEMENT", "--element"),
];

/// Compiler that was found on this system; never [`CompilerChoice::All`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenCompiler {
    /// Native kernels, or a compiler with its flags.
    pub choice: CompilerChoice,
    /// True for a preset: a combination of flags that nodegauge adds. If the compiler rejects the flags, a preset is
    /// omitted, and a command of the user is an error.
    pub is_preset: bool,
}

impl CompilerChoice {
    /// Checks that the command defines no macros of stream.c, which would be ignored.
    ///
    /// # Errors
    ///
    /// Fails if the command defines such a macro.
    pub fn check_macros(&self) -> Result<(), Failure> {
        let Self::Command(command) = self else { return Ok(()) };
        let mut macros = OPTION_MACROS.iter();
        let defined = macros.find(|(name, _)| command.macro_value(name).is_some());
        let Some((name, option)) = defined else { return Ok(()) };
        Err(Failure::usage(format!(
            "--compiler '{command}': the kernels of nodegauge ignore the macro \
             {name}"
        ))
        .hint(format!("use {option}, or compile stream.c with --standard")))
    }

    /// Returns the compilers that `choices` select among the `installed` ones, without duplicates, in the order of
    /// `choices`.
    pub fn resolve(
        choices: &[Self],
        installed: &[InstalledCompiler],
        openmp: bool,
    ) -> Vec<ChosenCompiler> {
        let mut chosen: Vec<ChosenCompiler> = Vec::new();
        for choice in choices {
            let more = match choice {
                Self::Native => vec![Self::Native],
                Self::Command(command) => vec![Self::Command(with_usual_flags(command))],
                Self::All => {
                    let all = installed.iter().flat_map(|compiler| compiler.variants(openmp));
                    all.map(Self::Command).collect()
                }
            };
            for one in more {
                if !chosen.iter().any(|known| known.choice.to_string() == one.to_string()) {
                    chosen.push(ChosenCompiler { choice: one, is_preset: *choice == Self::All });
                }
            }
        }
        chosen
    }
}

impl ChosenCompiler {
    /// Returns the compiler itself and, for a command of the user, one variant per number of pages side by side.
    /// Presets have no variants, because presets are for a comparison of flags.
    pub(super) fn with_pages(self, pages: &[SideBySidePages]) -> Vec<Self> {
        let mut all = vec![self];
        if let Self { choice: CompilerChoice::Command(command), is_preset: false } = &all[0]
            && command.macro_value(PAGES_MACRO).is_none()
        {
            let several = pages.iter().filter_map(|pages| pages.above_one());
            let more = several.map(|count| {
                CompilerChoice::Command(
                    command.with_arguments([format!("-D{PAGES_MACRO}={count}")]),
                )
            });
            let more: Vec<CompilerChoice> = more.collect();
            all.extend(more.into_iter().map(|choice| Self { choice, is_preset: false }));
        }
        all
    }
}

/// Adds the usual flags of the compiler's family to a command without flags.
fn with_usual_flags(command: &CommandLine) -> CommandLine {
    if command.arguments().is_empty() {
        command.with_arguments(presets::usual_flags(command.program()).iter().copied())
    } else {
        command.clone()
    }
}

impl FromStr for CompilerChoice {
    type Err = SyntaxError;

    fn from_str(text: &str) -> Result<Self, SyntaxError> {
        let command: CommandLine = text.parse()?;
        // Commands are compared word by word, so that quotes around a word make no difference.
        match command.words() {
            [word] if word == "native" => Ok(Self::Native),
            [word] if word == "all" => Ok(Self::All),
            _ => Ok(Self::Command(command)),
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

/// Compilers of the sweep axis `compiler`. They are separated by `;` or, if the list contains no `;`, by `,`. Flags may
/// contain commas (`-Wl,-O1`); therefore commas separate compilers only if a compiler follows each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerList(Vec<CompilerChoice>);

impl FromStr for CompilerList {
    type Err = InvalidAxisValue;

    fn from_str(text: &str) -> Result<Self, InvalidAxisValue> {
        let mut parts = list_parts(text, ';');
        if parts.len() == 1 {
            let by_comma = list_parts(text, ',');
            if by_comma.iter().all(|(_, part)| begins_with_compiler(part)) {
                parts = by_comma;
            }
        }
        let mut all = Vec::new();
        for (at, part) in parts {
            let choice = part.trim().parse::<CompilerChoice>();
            all.push(choice.map_err(|e| InvalidAxisValue { at: at + e.at, ..e.into() })?);
        }
        Ok(Self(all))
    }
}

impl IntoIterator for CompilerList {
    type Item = CompilerChoice;
    type IntoIter = std::vec::IntoIter<CompilerChoice>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// True if the first word is `native`, `all` or the name of a known compiler.
fn begins_with_compiler(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    matches!(first, "native" | "all") || presets::is_compiler(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_compilers_if_a_compiler_follows_each() {
        for (text, expected) in [
            ("native,gcc -O3", &["native", "gcc -O3"][..]),
            ("all, native", &["all", "native"]),
            ("gcc -O2,/opt/bin/clang-18 -O3", &["gcc -O2", "/opt/bin/clang-18 -O3"]),
            ("native;gcc -Wl,-O1", &["native", "gcc -Wl,-O1"]),
            ("gcc -Wl,-O1", &["gcc -Wl,-O1"]),
            ("gcc -fsanitize=address,undefined", &["gcc -fsanitize=address,undefined"]),
            ("gcc '-DX=a,gcc'", &["gcc -DX=a,gcc"]),
        ] {
            let list: CompilerList = text.parse().unwrap();
            let words: Vec<String> = list.into_iter().map(|choice| choice.to_string()).collect();
            assert_eq!(words, expected, "{text}");
        }
    }

    #[test]
    fn requested_compiler_is_also_used_with_pages_side_by_side() {
        let of = |text: &str, is_preset| {
            let pages = [SideBySidePages::ONE, SideBySidePages::new(4).unwrap()];
            let chosen = ChosenCompiler { choice: text.parse().unwrap(), is_preset };
            let all = chosen.with_pages(&pages).into_iter();
            all.map(|compiler| compiler.choice.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("cc -O2", false), ["cc -O2", "cc -O2 -DPAGES=4"]);
        for (text, is_preset) in [("cc -O2", true), ("native", false), ("cc -D PAGES=2", false)] {
            assert_eq!(of(text, is_preset).len(), 1, "{text}");
        }
        let pages = |text: &str| crate::kernels::compiled::side_by_side(&text.parse().unwrap());
        assert_eq!(pages("cc -DPAGES=8"), Some(8));
        assert_eq!(pages("cc -D PAGES=2 -DX"), Some(2));
        assert_eq!([pages("cc"), pages("cc -DPAGES=1"), pages("-DPAGES=x")], [None; 3]);
    }

    #[test]
    fn duplicate_compiler_commands_are_removed() {
        let choices: Vec<CompilerChoice> =
            ["gcc", "native", "all", "gcc  -O3 -march=native", "./cc -Dx"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let gcc = presets::FAMILIES.iter().find(|family| family.name == "gcc").unwrap();
        let installed = [InstalledCompiler { family: gcc, command: "gcc".to_owned() }];
        let chosen = CompilerChoice::resolve(&choices, &installed, false);
        let words: Vec<String> = chosen.iter().map(|one| one.choice.to_string()).collect();
        assert_eq!(words[1], "native");
        assert_eq!(words.len(), 2 + gcc.variants.len());
        assert_eq!(words.last().map(String::as_str), Some("./cc -Dx"));
        // The user requested the plain variant by its command; it is therefore not a preset.
        assert_eq!((chosen[0].is_preset, chosen[2].is_preset), (false, true));
    }
}
