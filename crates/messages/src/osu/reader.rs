//! Reader for the output of the OSU micro-benchmarks.

use super::other;
use super::output::{self, OsuOutput};
use super::title::OsuTitle;
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};

/// Note on what is unknown about every saved output.
const ASSUMED: &str = "the MPI library and the placement of the ranks are unknown";

/// Reader of the output of an OSU micro-benchmark.
pub(crate) struct OsuReader;

impl Reader for OsuReader {
    fn program(&self) -> &'static str {
        "OSU micro-benchmarks"
    }

    fn doubts(&self) -> &'static str {
        "a table that ends before the usual largest size (also with `-m`): suspect; a row with more or \
         fewer words than columns is an error"
    }

    fn first_characters(&self) -> &'static str {
        "#"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        output::mark(line)
    }

    fn version(&self, text: &str) -> Option<String> {
        text.lines().find_map(output::title_version)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let title = text.lines().find_map(OsuTitle::parse);
        if title.is_some_and(|title| title.pattern().is_none()) {
            return Ok(PrintedRun {
                measurements: other::figures(text)?,
                assumption: Some(ASSUMED),
            });
        }
        let found = OsuOutput::read(text)?;
        Ok(PrintedRun {
            measurements: output::saved_output_figures(&found),
            assumption: Some(ASSUMED),
        })
    }
}
