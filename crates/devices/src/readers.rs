//! Readers of the outputs of BabelStream and nvbandwidth.

use crate::babelstream::{self, BabelStreamOutput};
use crate::nvbandwidth::{self, NvbandwidthOutput};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, UnreadOutput};

/// Reader of the output of BabelStream.
pub(crate) struct BabelStreamReader;

impl Reader for BabelStreamReader {
    fn program(&self) -> &'static str {
        "BabelStream"
    }

    fn doubts(&self) -> &'static str {
        "fewer kernels than the run selected, five if the output does not say it"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        babelstream::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        let found =
            BabelStreamOutput::read(text).unwrap_or_else(|| Err("it has no title".to_owned()));
        Ok(found?.measurements(None).into())
    }
}

/// Reader of the output of nvbandwidth.
pub(crate) struct NvbandwidthReader;

impl Reader for NvbandwidthReader {
    fn program(&self) -> &'static str {
        "nvbandwidth"
    }

    fn doubts(&self) -> &'static str {
        "a matrix without an end"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        nvbandwidth::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        let found =
            NvbandwidthOutput::read(text).unwrap_or_else(|| Err("it has no title".to_owned()));
        Ok(found?.measurements(None, &[]).into())
    }
}
