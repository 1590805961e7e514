//! Reader of the output of the OSU micro-benchmarks.

use super::output::{self, OsuOutput};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, UnreadOutput};

/// Reader of the output of an OSU micro-benchmark.
pub(crate) struct OsuReader;

impl Reader for OsuReader {
    fn program(&self) -> &'static str {
        "OSU micro-benchmarks"
    }

    fn doubts(&self) -> &'static str {
        "a table that ends before the usual largest size (also with `-m`); a row that has not one word for each \
         column is an error"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        output::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        let found = OsuOutput::read(text)?;
        let assumption = "the MPI library and the placement of the ranks are unknown";
        Ok(PrintedRun { measurements: output::saved_figures(&found), assumption: Some(assumption) })
    }
}
