//! Readers of the outputs of fio and IOzone.

use super::fio::{self, FioOutput};
use super::output::{self, IozoneOutput};
use super::saved;
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, UnreadOutput};

/// Reader of fio's JSON.
pub(crate) struct FioReader;

impl Reader for FioReader {
    fn program(&self) -> &'static str {
        "fio"
    }

    fn doubts(&self) -> &'static str {
        "JSON without its end: no figures"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        fio::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
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
        "no `iozone test complete.`; a figure that does not end at the edge of its column is an error"
    }

    fn runs(&self, text: &str) -> Vec<usize> {
        output::run_lines(text)
    }

    fn read(&self, text: &str, _: &ReadContext<'_>) -> Result<PrintedRun, UnreadOutput> {
        Ok(saved::iozone_figures(&IozoneOutput::read(text)?).into())
    }
}
