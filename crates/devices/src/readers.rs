//! Readers for the outputs of BabelStream and nvbandwidth.

use crate::babelstream::{self, BabelStreamOutput};
use crate::nvbandwidth::{self, NvbandwidthOutput};
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};

/// Reader of the output of BabelStream.
pub(crate) struct BabelStreamReader;

impl Reader for BabelStreamReader {
    fn program(&self) -> &'static str {
        "BabelStream"
    }

    fn doubts(&self) -> &'static str {
        "fewer kernels than the run selected (five if the output does not state how many): suspect"
    }

    fn first_characters(&self) -> &'static str {
        "BGf"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        babelstream::mark(line)
    }

    fn version(&self, text: &str) -> Option<String> {
        babelstream::value_after_key(text, "Version:")
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
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
        "a matrix without an end: suspect"
    }

    fn first_characters(&self) -> &'static str {
        "n{\""
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        nvbandwidth::mark(line)
    }

    fn version(&self, text: &str) -> Option<String> {
        nvbandwidth::version(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        let found =
            NvbandwidthOutput::read(text).unwrap_or_else(|| Err("it has no title".to_owned()));
        Ok(found?.measurements(None, &[]).into())
    }
}
