//! Parsers of the version output of wrappers and launchers. The module works only on text.

use super::{LauncherKind, MpiLauncher, MpiLibrary};
use crate::CommandLine;
use nodegauge_os::mpi_abi::{MpiImplementation, VersionPosition, implementations};

/// Launcher, as recognised from its `--version` output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognisedLauncher {
    /// Implementation to which the launcher belongs; `None` for srun.
    pub implementation: Option<&'static MpiImplementation>,
    /// Version of the launcher; `None` if it does not report its version.
    pub version: Option<String>,
}

impl RecognisedLauncher {
    /// Returns the name of the launcher for messages.
    pub fn title(&self) -> &'static str {
        self.implementation.map_or("Slurm", |own| own.launcher_title)
    }

    /// Returns the launcher that `command` starts and that prints `output` for `--version`.
    pub(super) fn launcher(self, command: CommandLine, output: &str) -> MpiLauncher {
        MpiLauncher {
            command,
            kind: self.implementation.map_or(LauncherKind::Slurm, |own| own.launcher),
            title: self.title(),
            version: self.version,
            binds: binds_ranks(output),
        }
    }
}

/// Detects the library from a wrapper's output for `--showme:version` or `-v`.
pub fn library_in_output(output: &str) -> Option<MpiLibrary> {
    for line in output.lines() {
        let has_words = line.contains(" for ") || line.contains("version");
        for own in implementations() {
            let marks = own.wrapper_marks.iter().filter(|mark| has_words || !mark.needs_words);
            for mark in marks {
                if let Some((_, rest)) = line.split_once(mark.text) {
                    let version = rest.split_whitespace().find_map(version_at);
                    let library = MpiLibrary::from_implementation(own);
                    return Some(MpiLibrary { name: mark.library.to_owned(), version, ..library });
                }
            }
        }
    }
    None
}

/// Recognises a launcher by its output for `--version`.
pub fn recognise_launcher(output: &str) -> Option<RecognisedLauncher> {
    for line in output.lines() {
        // Debian's package of Slurm prints slurm-wlm.
        if line.starts_with("slurm ") || line.starts_with("slurm-") {
            let version = last_number(line);
            return Some(RecognisedLauncher { implementation: None, version });
        }
        for own in implementations() {
            if let Some(mark) = own.launcher_marks.iter().find(|mark| line.contains(mark.text)) {
                let version = version_in(output, line, &mark.version);
                return Some(RecognisedLauncher { implementation: Some(own), version });
            }
        }
    }
    None
}

/// Extracts the version from a launcher's output; `line` is the line that identified the launcher.
fn version_in(output: &str, line: &str, place: &VersionPosition) -> Option<String> {
    match place {
        VersionPosition::LastOfLine => last_number(line),
        VersionPosition::After(text) => {
            let after = line.split_once(text).map_or(line, |(_, rest)| rest);
            after.split_whitespace().find_map(version_at)
        }
        VersionPosition::LineBeginning(text) => {
            last_number(output.lines().find_map(|other| other.trim().strip_prefix(text))?)
        }
    }
}

/// Returns the last version number in a line.
fn last_number(line: &str) -> Option<String> {
    line.split_whitespace().rev().find_map(version_at)
}

/// False for the output of a Hydra whose list of topology libraries is empty, so that it cannot bind ranks.
fn binds_ranks(output: &str) -> bool {
    let mut lines = output.lines();
    !lines.any(|line| line.trim() == "Topology libraries available:")
}

/// Parses the version number at the beginning of a text: digits and points, and the suffix of a release candidate if
/// there is one.
fn version_at(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'))
        .unwrap_or(text.len());
    let word = &text[..end];
    let number = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    number.then(|| word.to_owned())
}

/// Shortens the error output of a launcher. Open MPI prints explanations between two lines of dashes; only the first
/// sentence of each remains.
pub fn shorten_launcher_error(text: &str) -> String {
    let mut kept = Vec::new();
    let mut is_explanation = false;
    let mut is_first_sentence = false;
    for line in text.lines().map(str::trim_end) {
        if line.len() >= 40 && line.chars().all(|c| c == '-') {
            is_explanation = !is_explanation;
            is_first_sentence = is_explanation;
            continue;
        }
        if is_explanation && !is_first_sentence {
            continue;
        }
        kept.push(line);
        if is_explanation && (line.is_empty() || line.ends_with(['.', ':'])) {
            is_first_sentence = false;
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_mpi_explanations_are_shortened() {
        let rule = "-".repeat(74);
        let text = format!(
            "ssh: cannot connect to n2\n{rule}\nORTE was unable to reliably start one or more \
             daemons.\nThis usually is caused by:\n\n* not finding the required libraries\n{rule}\n\
             {rule}\nORTE does not know how to route a message to the specified daemon\nlocated on \
             the indicated node:\n\n  my node:   vm\n{rule}\nend\n"
        );
        let short = "ssh: cannot connect to n2\nORTE was unable to reliably start one or more \
                     daemons.\nORTE does not know how to route a message to the specified \
                     daemon\nlocated on the indicated node:\nend";
        assert_eq!(shorten_launcher_error(&text), short);
        assert_eq!(shorten_launcher_error("a\n--\nb: c\nd"), "a\n--\nb: c\nd");
    }

    fn library(output: &str) -> (String, Option<String>) {
        let library = library_in_output(output).unwrap();
        (library.name, library.version)
    }

    #[test]
    fn mpi_library_is_read_from_wrapper_output() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            library("mpicc.openmpi: Open MPI 4.1.4 (Language: C)\n"),
            ("Open MPI".to_owned(), some("4.1.4"))
        );
        assert_eq!(
            library("mpicc.mpich for MPICH version 4.0.2\nUsing built-in specs.\n"),
            ("MPICH".to_owned(), some("4.0.2"))
        );
        assert_eq!(
            library("mpigcc for the Intel(R) MPI Library 2021.11 for Linux*\nCopyright Intel"),
            ("Intel MPI".to_owned(), some("2021.11"))
        );
        assert_eq!(
            library("mpicc for MVAPICH2 version 2.3.7\n"),
            ("MVAPICH".to_owned(), some("2.3.7"))
        );
        assert_eq!(
            library_in_output("gcc: error: unrecognized command-line option '--showme:version'"),
            None
        );
        assert_eq!(library_in_output("gcc version 12.2.0 (Debian 12.2.0-14)"), None);
    }

    #[test]
    fn hydra_without_topology_library_cannot_bind() {
        let of = |libraries: &str| {
            let line = format!("    Topology libraries available:            {libraries}\n");
            binds_ranks(&format!("HYDRA build details:\n{line}    Demux engines available: poll\n"))
        };
        assert!(of("hwloc") && !of(""));
        assert!(binds_ranks("mpirun (Open MPI) 5.0.3\n"));
    }

    #[test]
    fn launcher_is_recognised_from_version_output() {
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            (
                "mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://x\n",
                LauncherKind::OpenMpi,
                some("4.1.4"),
            ),
            ("mpirun (Open MPI) 5.0.3\n", LauncherKind::OpenMpi, some("5.0.3")),
            (
                "HYDRA build details:\n    Version:                                 4.0.2\n",
                LauncherKind::Hydra,
                some("4.0.2"),
            ),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n",
                LauncherKind::Hydra,
                some("2021.11"),
            ),
            ("slurm 22.05.8\n", LauncherKind::Slurm, some("22.05.8")),
            ("slurm-wlm 22.05.8\n", LauncherKind::Slurm, some("22.05.8")),
        ];
        for (output, kind, version) in cases {
            let words = recognise_launcher(output).unwrap();
            let launcher = words.launcher(CommandLine::new("mpirun", []), output);
            assert_eq!((launcher.kind, launcher.version), (kind, version), "{output}");
        }
        assert_eq!(recognise_launcher("true (GNU coreutils) 9.1\n"), None);
    }
}
