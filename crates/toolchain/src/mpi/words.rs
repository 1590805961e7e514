//! Parsers of the version output of wrappers and launchers. The module works only on text.

use super::{LauncherKind, MpiLibrary};

/// Returns the library from a wrapper's output for `--showme:version` or `-v`.
pub fn library_of(output: &str) -> Option<MpiLibrary> {
    let library =
        |family, name: &str, version| Some(MpiLibrary { family, name: name.to_owned(), version });
    for line in output.lines() {
        if let Some((_, rest)) = line.split_once("Open MPI ") {
            return library(LauncherKind::OpenMpi, "Open MPI", version_at(rest));
        }
        let marks =
            [("Intel(R) MPI Library", "Intel MPI"), ("MVAPICH", "MVAPICH"), ("MPICH", "MPICH")];
        let named = line.contains(" for ") || line.contains("version");
        for (mark, name) in marks.into_iter().filter(|_| named) {
            if let Some((_, rest)) = line.split_once(mark) {
                let version = rest.split_whitespace().find_map(version_at);
                return library(LauncherKind::Hydra, name, version);
            }
        }
    }
    None
}

/// Returns the kind and the version of a launcher from its output for `--version`.
pub fn launcher_of(output: &str) -> Option<(LauncherKind, Option<String>)> {
    let last_number = |line: &str| line.split_whitespace().rev().find_map(version_at);
    for line in output.lines() {
        if ["OpenRTE", "Open MPI", "PRRTE", "prterun"].iter().any(|mark| line.contains(mark)) {
            return Some((LauncherKind::OpenMpi, last_number(line)));
        }
        // Debian's package of Slurm prints slurm-wlm.
        if line.starts_with("slurm ") || line.starts_with("slurm-") {
            return Some((LauncherKind::Slurm, last_number(line)));
        }
        if line.contains("Intel(R) MPI Library") {
            let after = line.split_once("Version").map_or(line, |(_, rest)| rest);
            return Some((LauncherKind::Hydra, after.split_whitespace().find_map(version_at)));
        }
        if line.contains("HYDRA") {
            let version = output.lines().find_map(|text| text.trim().strip_prefix("Version:"));
            return Some((LauncherKind::Hydra, version.and_then(last_number)));
        }
    }
    None
}

/// False for the output of a Hydra that lists no topology library.
pub(super) fn binds_ranks(output: &str) -> bool {
    let mut lines = output.lines();
    !lines.any(|line| line.trim() == "Topology libraries available:")
}

/// Returns the version number at the beginning of a text. It consists of digits and points, and the suffix of a release
/// candidate if there is one.
fn version_at(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'))
        .unwrap_or(text.len());
    let word = &text[..end];
    let number = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    number.then(|| word.to_owned())
}

/// Returns the error output of a launcher without the explanations of Open MPI, which are printed between two lines of
/// dashes; of an explanation, the lines of its first sentence remain.
pub fn without_explanations(text: &str) -> String {
    let is_rule = |line: &str| line.len() >= 40 && line.chars().all(|c| c == '-');
    let mut kept = Vec::new();
    let mut is_explanation = false;
    let mut is_first_sentence = false;
    for line in text.lines().map(str::trim_end) {
        if is_rule(line) {
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
    fn explanations_are_reduced_to_their_first_sentence() {
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
        assert_eq!(without_explanations(&text), short);
        assert_eq!(without_explanations("a\n--\nb: c\nd"), "a\n--\nb: c\nd");
    }

    fn library(said: &str) -> (String, Option<String>) {
        let library = library_of(said).unwrap();
        (library.name, library.version)
    }

    #[test]
    fn wrappers_name_their_library() {
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
            library_of("gcc: error: unrecognized command-line option '--showme:version'"),
            None
        );
        assert_eq!(library_of("gcc version 12.2.0 (Debian 12.2.0-14)"), None);
    }

    #[test]
    fn a_hydra_without_a_topology_library_does_not_bind() {
        let of = |libraries: &str| {
            let line = format!("    Topology libraries available:            {libraries}\n");
            binds_ranks(&format!("HYDRA build details:\n{line}    Demux engines available: poll\n"))
        };
        assert!(of("hwloc") && !of(""));
        assert!(binds_ranks("mpirun (Open MPI) 5.0.3\n"));
    }

    #[test]
    fn launchers_name_themselves() {
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
        for (said, kind, version) in cases {
            assert_eq!(launcher_of(said), Some((kind, version)), "{said}");
        }
        assert_eq!(launcher_of("true (GNU coreutils) 9.1\n"), None);
    }
}
