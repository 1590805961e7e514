//! Reader for the output of xhpcg.

use super::output::{self, HpcgOutput};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};

/// Reader of the output of HPCG.
pub(crate) struct HpcgReader;

impl Reader for HpcgReader {
    fn program(&self) -> &'static str {
        "HPCG"
    }

    fn doubts(&self) -> &'static str {
        "no rating: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "HF"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        output::mark(line)
    }

    fn version(&self, text: &str) -> Option<String> {
        output::title_version(text.lines().next()?)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let found = HpcgOutput::read(text);
        let found = found.ok_or_else(|| "its title is not in the first line".to_owned())?;
        Ok(found.measurements(None).into())
    }
}
