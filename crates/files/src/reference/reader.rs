//! Readers for the outputs of fio and IOzone.

use super::fio::{self, FioOutput};
use super::output::{self, IozoneOutput};
use super::saved;
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};

/// Reader of fio's JSON output.
pub(crate) struct FioReader;

impl Reader for FioReader {
    fn program(&self) -> &'static str {
        "fio"
    }

    fn doubts(&self) -> &'static str {
        "truncated JSON: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "{\""
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        line.contains(fio::VERSION_KEY).then_some(RunMark::DOCUMENT)
    }

    fn version(&self, text: &str) -> Option<String> {
        let version = text.split_once(fio::VERSION_KEY)?.1.split('"').nth(1)?;
        Some(version.trim_start_matches("fio-").to_owned())
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        Ok(saved::fio_figures(&FioOutput::read(text)?).into())
    }
}

/// Reader of the output of IOzone.
pub(crate) struct IozoneReader;

impl Reader for IozoneReader {
    fn program(&self) -> &'static str {
        "iozone"
    }

    fn doubts(&self) -> &'static str {
        "no `iozone test complete.`: suspect; a figure that does not end at the edge of its column is an error"
    }

    fn first_characters(&self) -> &'static str {
        "IikK\"C"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        output::mark(line)
    }

    fn version(&self, text: &str) -> Option<String> {
        output::version(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        Ok(saved::iozone_figures(&IozoneOutput::read(text)?).into())
    }
}
