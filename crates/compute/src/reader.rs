//! Reader of the output of xhpl and hpcc.

use crate::{hpl_mxp, output, reference};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};

/// Reader of the output of HPL.
pub(crate) struct HplReader;

impl Reader for HplReader {
    fn program(&self) -> &'static str {
        "HPL"
    }

    fn doubts(&self) -> &'static str {
        "no `End of Tests.`, or fewer results than HPL states: suspect"
    }

    fn first_characters(&self) -> &'static str {
        "HWE"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        output::mark(line)
    }

    fn last_phase(&self) -> Option<u8> {
        Some(output::END_PHASE)
    }

    fn version(&self, text: &str) -> Option<String> {
        text.lines().find_map(output::title_version)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let found = output::read(text);
        if found.rows.is_empty() {
            let cause = found.errors.into_iter().next();
            let cause =
                cause.unwrap_or_else(|| "it has no line with the result of a test".to_owned());
            return Err(RefusedOutput::from(cause));
        }
        if found.is_mixed_precision && found.has_bare_variant {
            return Ok(hpl_mxp::mixed_figures(&found)?);
        }
        if found.has_bare_variant {
            // The rate in 16 bits would be many times that of HPL.
            let cause =
                "its variant names no algorithm, as in output of HPL-MxP: it may not be from HPL";
            return Err(RefusedOutput::from(cause.to_owned()));
        }
        Ok(reference::saved_output_figures(&found).into())
    }
}
