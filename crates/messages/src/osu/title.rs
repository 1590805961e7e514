//! Titles of the OSU micro-benchmarks, and the lines that identify runs in a text.

use super::columns::is_header;
use crate::pattern::Pattern;
use nodegauge_gauge::readers::RunMark;

/// Title of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OsuTitle {
    /// Words of the test, without `OSU`, the interface and `Test`.
    pub(crate) test: String,
    /// Version of the benchmarks.
    pub(crate) version: Option<String>,
    /// Kinds of devices whose memory the buffers may use: `cuda`, `rocm`.
    pub(crate) devices: Option<String>,
}

impl OsuTitle {
    /// Parses a title: `# OSU MPI Latency Test v7.2`, `# OSU MPI-CUDA Bandwidth Test v7.5`, `# OSU MPI_Put Latency Test
    /// v5.9`. Returns `None` for other lines.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix('#')?.trim().strip_prefix("OSU ")?.trim();
        let (words, version) = match rest.rsplit_once(" v") {
            Some((words, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
                (words.trim(), Some(version.trim().to_owned()))
            }
            _ => (rest, None),
        };
        let test = words.strip_suffix("Test").or_else(|| words.strip_suffix("test"));
        // An incomplete title is not parsed.
        let test = test.or(version.is_some().then_some(words))?.trim();
        let (interface, test) = match test.split_once(' ') {
            Some((interface, test)) => (interface, test),
            None => (test, ""),
        };
        let (name, devices) = match interface.split_once('-') {
            Some((name, devices)) => (name, Some(devices.to_lowercase())),
            None => (interface, None),
        };
        let test = match name.strip_prefix("MPI") {
            Some("") => test.to_owned(),
            Some(operation) => {
                format!("{} {test}", operation.trim_start_matches('_'))
            }
            // Other interfaces: OpenSHMEM, UPC, NCCL.
            None => format!("{name} {test}"),
        };
        Some(Self { test: test.trim().to_owned(), version, devices })
    }

    /// Returns the pattern that the test measures; `None` if nodegauge does not measure it.
    pub(crate) fn pattern(&self) -> Option<Pattern> {
        Pattern::ALL.iter().copied().find(|pattern| pattern.properties().title == self.test)
    }

    /// Returns the figure name of a test without a pattern: `put_latency`, `iallreduce`.
    pub(crate) fn name(&self) -> String {
        let lower = self.test.to_lowercase();
        let words: Vec<&str> = lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        match words[..] {
            ["non", "blocking", ref operation @ ..] => {
                let operation = operation.strip_suffix(&["latency"]).unwrap_or(operation);
                format!("i{}", operation.join("_"))
            }
            ["persistent", ref operation @ .., "latency"] => {
                format!("persistent_{}", operation.join("_"))
            }
            _ => words.join("_"),
        }
    }
}

/// Returns the kind of a line that marks a run: a title, or the header of a table. Returns `None` for other lines.
pub(crate) fn mark(line: &str) -> Option<RunMark> {
    if !line.starts_with('#') {
        return None;
    }
    if OsuTitle::parse(line).is_some() {
        return Some(RunMark::TITLE);
    }
    let first = line.trim_start_matches('#').trim_start();
    let is_table = first.starts_with("Size ") || first.starts_with("Avg L");
    (is_table && is_header(line)).then_some(RunMark::once(1))
}

/// Returns the version in a title.
pub(crate) fn title_version(line: &str) -> Option<String> {
    OsuTitle::parse(line)?.version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_all_versions_are_parsed() {
        for (line, test, version, devices, name) in [
            ("# OSU MPI Latency Test v7.2", "Latency", "7.2", None, "latency"),
            ("# OSU MPI-CUDA Bandwidth Test v7.5", "Bandwidth", "7.5", Some("cuda"), "bandwidth"),
            ("# OSU MPI_Put Latency Test v5.9", "Put Latency", "5.9", None, "put_latency"),
            (
                "# OSU MPI-ROCM Non-Blocking Allreduce Latency Test v7.4",
                "Non-Blocking Allreduce Latency",
                "7.4",
                Some("rocm"),
                "iallreduce",
            ),
            (
                "# OSU MPI_Fetch_and_op latency Test v6.2",
                "Fetch_and_op latency",
                "6.2",
                None,
                "fetch_and_op_latency",
            ),
            ("# OSU MPI Init Test v7.2", "Init", "7.2", None, "init"),
        ] {
            let title = OsuTitle::parse(line).unwrap();
            assert_eq!(
                (title.test.as_str(), title.version.as_deref(), title.devices.as_deref()),
                (test, Some(version), devices)
            );
            assert_eq!(title.name(), name);
        }
        for line in ["# OSU", "# OSU MPI Bandw", "OSU MPI Latency Test v7.2", "# Size Latency (us)"]
        {
            assert_eq!(OsuTitle::parse(line), None, "{line}");
        }
    }
}
