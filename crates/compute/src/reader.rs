//! Reader of the output of xhpl and hpcc.

use crate::{output, reference};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, UnreadOutput};

/// Reader of the output of HPL.
pub(crate) struct HplReader;

impl Reader for HplReader {
    fn program(&self) -> &'static str {
        "HPL"
    }

    fn doubts(&self) -> &'static str {
        "no `End of Tests.`; fewer results than HPL counts"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        output::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        let found = output::read(text);
        if found.rows.is_empty() {
            let cause = found.errors.into_iter().next();
            let cause =
                cause.unwrap_or_else(|| "it has no line with the result of a test".to_owned());
            return Err(UnreadOutput::from(cause));
        }
        Ok(reference::saved_figures(&found).into())
    }
}
