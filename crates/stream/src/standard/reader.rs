//! Reader for the output of stream.c, stream_mpi.c and stream.f. A text may contain only the table.

use super::cea;
use super::figures;
use super::known;
use super::marks;
use super::output::StreamOutput;
use nodegauge_gauge::readers::{PrintedRun, ReadContext, Reader, RefusedOutput, RunMark};

/// Reader of the output of STREAM.
pub(crate) struct StreamReader;

impl Reader for StreamReader {
    fn program(&self) -> &'static str {
        "STREAM"
    }

    fn doubts(&self) -> &'static str {
        "no result of the check of the arrays, or no number of passes (also not with `--times`): suspect (*unchecked*); rates \
         that contradict the times: no figures"
    }

    fn first_characters(&self) -> &'static str {
        "SMFfADENTY"
    }

    fn mark(&self, line: &str) -> Option<RunMark> {
        marks::mark(line)
    }

    fn last_phase(&self) -> Option<u8> {
        Some(marks::END_PHASE)
    }

    fn version(&self, text: &str) -> Option<String> {
        text.lines().find_map(marks::title_version)
    }

    fn resembles(&self, text: &str) -> bool {
        StreamOutput::read_saved(text).is_err_and(|cause| !cause.is_other_text())
    }

    fn takes_description(&self) -> bool {
        true
    }

    fn read(&self, text: &str, context: &ReadContext<'_>) -> Result<PrintedRun, RefusedOutput> {
        if let Some(figures) = cea::figures(text, self.version(text)) {
            return Ok(figures?.into());
        }
        let mut output = StreamOutput::read_saved(text).map_err(|cause| RefusedOutput {
            problem: Some("has a table of STREAM that cannot be read"),
            cause: cause.to_string(),
            hint: cause.hint().to_owned(),
        })?;
        known::add_known_properties(context.known, &mut output).map_err(|cause| RefusedOutput {
            problem: Some("contradicts an option"),
            hint: format!("correct {}, or leave it out", cause.option),
            cause: cause.to_string(),
        })?;
        let assumption = "the machine's caches and the program's source are unknown; STREAM's \
                          size rule and an \
                          unmodified source are assumed";
        let measurements = figures::saved_measurements(&output, context.machine);
        Ok(PrintedRun { measurements, assumption: Some(assumption) })
    }
}
