//! Flags of single vendors' compilers in published command lines, and their nearest equivalents for other compilers.
//!
//! Two problems are detected. A compiler refuses an unknown flag, but does not report which compiler supports it. gcc
//! and clang read every flag that begins with `-o` as the name of the output file: they accept `-openmp` and
//! `-opt-prefetch-distance=64,8`, which then enable neither OpenMP nor prefetching.

use crate::CommandLine;

/// Flag of one vendor's compiler.
struct VendorFlag {
    /// Flag, or its beginning up to the value (`-opt-prefetch-distance=`).
    flag: &'static str,
    /// Compiler that has the flag.
    compiler: &'static str,
    /// Nearest equivalent in other compilers or in nodegauge.
    instead: &'static str,
}

const fn flag(flag: &'static str, compiler: &'static str, instead: &'static str) -> VendorFlag {
    VendorFlag { flag, compiler, instead }
}

/// Intel's classic compiler.
const ICC: &str = "Intel's icc";
/// Versions of Intel's classic compiler that compile for Knights Corner.
const ICC_PHI: &str = "Intel's icc up to 2017";

/// Equivalent of flags that request non-temporal stores.
const NONTEMPORAL: &str = "no equivalent in gcc and llvm.org's clang; the native loops use non-temporal stores (--stores nontemporal)";
/// Equivalent of other vendors' flags for OpenMP.
const OPENMP: &str = "-fopenmp";

/// Equivalent of flags that set the distances of software prefetch.
const PREFETCH: &str =
    "--prefetch with distances in bytes (64,8 lines are 4096,512), or gcc's -fprefetch-loop-arrays";
/// Reason why flags that select instructions of the Xeon Phi have no equivalent.
const EVICT: &str = "no equivalent, because it selects instructions of the Xeon Phi";

/// Flags in published command lines. A flag precedes all flags that are a prefix of it.
///
/// Sources: AOCC user guide ("-fnt-store"); Intel C++ Compiler XE 13.1 and Classic 2021 "Developer Guide and Reference"
/// (`-opt-...` became `-qopt-...` in version 15, `-openmp` became `-qopenmp`); NVIDIA "HPC Compilers Reference Guide".
const FLAGS: [VendorFlag; 14] = [
    flag("-fnt-store", "AMD's AOCC", NONTEMPORAL),
    flag(
        "-mmic",
        ICC_PHI,
        "no equivalent, because it compiles for the coprocessor Xeon Phi (Knights Corner)",
    ),
    flag("-opt-prefetch-distance=", ICC, PREFETCH),
    flag("-qopt-prefetch-distance=", ICC, PREFETCH),
    flag("-opt-streaming-cache-evict", ICC_PHI, EVICT),
    flag("-qopt-streaming-cache-evict", ICC_PHI, EVICT),
    flag("-opt-streaming-stores", ICC, NONTEMPORAL),
    flag("-qopt-streaming-stores", "Intel's icc and icx", NONTEMPORAL),
    flag("-openmp", ICC, OPENMP),
    flag("-qopenmp", "Intel's icc and icx", OPENMP),
    flag("-xHost", "Intel's icc and icx", "-march=native"),
    flag("-Mmovnt", "NVIDIA's nvc", NONTEMPORAL),
    flag("-Oss", "Hitachi's optimizing compilers", "-O3"),
    flag(
        "-noparallel",
        "Hitachi's optimizing compilers",
        "no equivalent, because other compilers parallelise only with a flag",
    ),
];

/// Returns the row of the table for the flag in a word of a command line; `None` if the word contains no such flag.
fn known(word: &str) -> Option<&'static VendorFlag> {
    FLAGS.iter().find(|row| word.strip_prefix(row.flag).is_some_and(|rest| ends(row, rest)))
}

/// True if `rest`, which follows the flag in a word, is a value of the flag and not a part of another flag's name.
fn ends(row: &VendorFlag, rest: &str) -> bool {
    row.flag.ends_with('=') || rest.is_empty() || rest.starts_with('=')
}

/// Returns a sentence for each flag of another vendor in `command` that the compiler refused; `errors` is its
/// output. The output may contain only the beginning of a refused flag, e.g. `unknown argument: '-fnt-store'`.
pub(crate) fn refused_flags(command: &CommandLine, errors: &str) -> Option<String> {
    // gcc's error for a wrong optimisation level does not contain the level.
    let is_level = errors.contains("argument to") && errors.contains("-O");
    in_words(
        command
            .arguments()
            .iter()
            .filter(|word| errors.contains(word.as_str()) || (is_level && word.starts_with("-O"))),
    )
}

/// Returns a sentence for each flag of another vendor in `command`, if the compiler with this version line would
/// read one of them as the name of the output file.
pub(crate) fn misread_flags(command: &CommandLine, version: Option<&str>) -> Option<String> {
    if version.is_none_or(|line| line.contains("ICC") || line.contains("Intel")) {
        return None;
    }
    let mut vendors = command.arguments().iter().filter(|word| known(word).is_some());
    let is_misread = vendors.any(|word| word.starts_with("-o"));
    is_misread.then(|| in_words(command.arguments().iter())).flatten()
}

/// Describes the flags among `words` that are in the table; `None` if there is none.
fn in_words<'a>(words: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut sentences: Vec<String> = Vec::new();
    for word in words {
        let Some(row) = known(word) else { continue };
        let sentence = format!("{word} is a flag of {}; elsewhere: {}", row.compiler, row.instead);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> CommandLine {
        text.parse().unwrap()
    }

    #[test]
    fn refused_flag_is_reported_with_equivalent() {
        let line = command("clang -O3 -fnt-store -mcmodel=large");
        let words = refused_flags(&line, "clang: error: unknown argument: '-fnt-store'").unwrap();
        assert!(words.starts_with("-fnt-store is a flag of AMD's AOCC; elsewhere: "), "{words}");
        assert!(words.contains("--stores nontemporal"), "{words}");
        // An error with another cause is not explained by the flag.
        assert_eq!(refused_flags(&line, "stream.c:5: error: expected ';'"), None);
        let phi = refused_flags(&command("gcc -mmic -O3"), "error: unrecognized option '-mmic'");
        let phi = phi.unwrap();
        assert!(phi.contains("Xeon Phi"), "{phi}");
    }

    #[test]
    fn flag_read_as_output_file_is_reported_before_compiling() {
        let line =
            command("gcc -O3 -openmp -opt-prefetch-distance=64,8 -opt-streaming-cache-evict=0");
        let words = misread_flags(&line, Some("gcc (Debian 12.2.0) 12.2.0")).unwrap();
        for word in
            ["-openmp is", "elsewhere: -fopenmp", "-opt-prefetch-distance=64,8 is", "4096,512"]
        {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert_eq!(misread_flags(&line, Some("icc (ICC) 13.1.3 20130607")), None);
        assert_eq!(misread_flags(&line, None), None);
        // If the word is not a known flag, it may be an intended output file.
        assert_eq!(misread_flags(&command("gcc -ostream -O3"), Some("gcc 12")), None);
    }

    #[test]
    fn flag_with_same_prefix_is_not_matched() {
        assert!(known("-openmp-stubs").is_none());
        assert!(known("-openmp").is_some());
        assert!(known("-mmicro").is_none());
        assert!(known("-qopt-streaming-stores=always").is_some());
        assert!(known("-fopenmp").is_none());
    }
}
