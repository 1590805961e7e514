//! Reader of the output of xhpcg.

use super::output::{self, HpcgOutput};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, UnreadOutput};

/// Reader of the output of HPCG.
pub(crate) struct HpcgReader;

impl Reader for HpcgReader {
    fn program(&self) -> &'static str {
        "HPCG"
    }

    fn doubts(&self) -> &'static str {
        "no rating: no figures"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        output::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        let found = HpcgOutput::read(text);
        let found = found.ok_or_else(|| "its title is not in the first line".to_owned())?;
        Ok(found.measurements(None).into())
    }
}
