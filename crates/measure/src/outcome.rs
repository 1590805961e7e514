//! What a gauge found: the one result type of all gauges and modes.

use crate::failure::Failure;
use crate::notice::{self, Notice};
use crate::record::{Finding, Measurement};
use crate::repeat::Stop;

/// What one or several gauges found, before it is a record.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The figures.
    pub measurements: Vec<Measurement>,
    /// What was found out about the machine while measuring.
    pub findings: Vec<Finding>,
    /// What was clamped, assumed, replaced or found out on the way.
    pub notices: Vec<Notice>,
    /// Lines that `-v` adds to the text, e.g. where each thread ran.
    pub details: Vec<String>,
    /// Why measuring ended; `None` where nothing was repeated.
    pub stop: Option<Stop>,
    /// What ended the measuring early; what was measured before is kept.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Whether the user or the system ended the run before everything was measured.
    pub fn is_interrupted(&self) -> bool {
        self.stop == Some(Stop::Interrupted)
    }

    /// Whether everything was measured.
    pub fn is_complete(&self) -> bool {
        !self.is_interrupted() && self.failure.is_none()
    }

    /// Puts what another gauge found behind this.
    pub fn extend(&mut self, more: Self) {
        self.measurements.extend(more.measurements);
        self.findings.extend(more.findings);
        notice::add_new(&mut self.notices, more.notices);
        self.details.extend(more.details);
        let interrupted = self.is_interrupted() || more.stop == Some(Stop::Interrupted);
        self.stop = if interrupted { Some(Stop::Interrupted) } else { self.stop.or(more.stop) };
        self.failure = self.failure.take().or(more.failure);
    }
}
