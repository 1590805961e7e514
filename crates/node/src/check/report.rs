//! Report of a check: the verdict, with all remarks and notes. It has the form of the JSON document.

use super::Check;
use nodegauge_analysis::slow::power::NeededMeasurements;
use nodegauge_fleet::check::{self, CheckedFigure, NodeVerdict, Remark};
use nodegauge_measure::record::{self, EventCount};
use nodegauge_measure::{Fraction, Unit};
use serde::Serialize;
use std::time::Instant;

/// Result of a check, in the form of the JSON document.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Schema of the document.
    pub schema: &'static str,
    /// Name of the node.
    pub host: String,
    /// Time of the check, RFC 3339.
    pub checked: String,
    /// Extent of the check.
    pub level: u8,
    /// Verdict on the node.
    pub verdict: NodeVerdict,
    /// Reason with at most 20 characters; `null` for a good node.
    pub reason: Option<String>,
    /// Line with the verdict.
    pub line: String,
    /// Remarks that decide the verdict.
    pub remarks: Vec<Remark>,
    /// Notes, which do not change the verdict.
    pub notes: Vec<String>,
    /// Measured figures.
    pub figures: Vec<ReportedFigure>,
    /// Hardware events since the last check, or since boot.
    pub events: Vec<EventCount>,
    /// Elapsed time.
    pub seconds: f64,
}

/// Figure in the report.
#[derive(Debug, Clone, Serialize)]
pub struct ReportedFigure {
    /// Name of the figure.
    pub name: String,
    /// Symbol of the unit.
    pub unit: &'static str,
    /// Measurements in chronological order, in the unit of the figure.
    pub values: Vec<f64>,
    /// Value of good nodes in the unit of the figure, according to the reference or to earlier runs of this node.
    pub reference: Option<f64>,
    /// Worst value of a good node, in the unit of the figure.
    pub bound: Option<f64>,
    /// Best measurement divided by the value of good nodes.
    pub share: Option<Fraction>,
    /// Origin of the reference.
    pub basis: Option<String>,
    /// Smallest loss that is found in 95 of 100 nodes; `null` if it is unknown.
    pub loss_found: Option<Fraction>,
    /// Loss that makes a node bad.
    pub loss_sought: Option<Fraction>,
    /// Number of measurements with which this loss would be found; `null` if it is already found, or if no number of
    /// measurements would be sufficient.
    pub needed: Option<NeededMeasurements>,
    /// Best measurement on a scale where higher is better: the value of a rate, the inverse of a time.
    #[serde(skip)]
    pub score: Option<f64>,
}

/// Schema of the JSON document.
const SCHEMA: &str = "nodegauge-check/1";

impl ReportedFigure {
    fn from_checked(figure: &CheckedFigure) -> Self {
        let bound = figure.bound.as_ref();
        let origin = figure.key.is_clock().then(|| "all cores busy".to_owned());
        Self {
            name: figure.key.to_string(),
            unit: figure.key.unit.symbol(),
            values: figure.measured.iter().map(|one| one.value).collect(),
            reference: bound.map(|bound| bound.value),
            bound: bound.map(|bound| bound.bound),
            share: figure.share(),
            basis: bound.map(|bound| bound.basis.clone()).or(origin),
            loss_found: bound.and_then(|bound| bound.power.found),
            loss_sought: bound.map(|bound| bound.power.sought),
            needed: bound.and_then(|bound| bound.power.needed),
            score: figure.best().map(|best| figure.key.share(best.value, 1.0)),
        }
    }

    /// Describes the figure, its measured values, and the reference.
    pub fn in_words(&self) -> String {
        let values: Vec<String> =
            self.values.iter().map(|value| self.value_in_words(*value)).collect();
        let compared = match (self.share, self.reference, &self.basis) {
            (Some(share), Some(reference), Some(basis)) => {
                let share = share.rounded_down().in_whole_percent();
                format!("{share} of {} ({basis})", self.value_in_words(reference))
            }
            (.., Some(basis)) => basis.clone(),
            _ => "nothing to compare with".to_owned(),
        };
        format!("{}: {}; {compared}", self.name, values.join(", "))
    }

    fn value_in_words(&self, value: f64) -> String {
        let unit: Option<Unit> = serde_json::from_value(self.unit.into()).ok();
        unit.map_or_else(|| format!("{value} {}", self.unit), |unit| unit.in_words(value))
    }
}

impl Check<'_> {
    /// Returns the report of the check.
    pub(super) fn report(&self, host: &str, started: Instant) -> CheckReport {
        let (verdict, reason) = check::verdict(&self.remarks);
        let mut shares = Vec::new();
        for figure in &self.figures {
            if let Some(share) = figure.share() {
                shares.push(format!("{} {}", figure.key, share.in_compact_percent()));
            }
        }
        let found =
            self.figures.iter().chain(&self.clock).filter_map(CheckedFigure::detectable_loss);
        let found = found.map(|loss| loss.0).reduce(f64::max);
        let found = found.map_or(String::new(), |loss| {
            format!("; would find a loss of {}", Fraction(loss).rounded_up().in_compact_percent())
        });
        let sizes: String = self.sizes.iter().map(|size| format!(", {size}")).collect();
        let details = match (shares.is_empty(), &self.group) {
            (false, _) => format!("{} of the reference{found}{sizes}", shares.join(", ")),
            (true, Some(_)) => "parts as in the reference".to_owned(),
            (true, None) => "no hardware error".to_owned(),
        };
        let figures =
            self.figures.iter().chain(&self.clock).map(ReportedFigure::from_checked).collect();
        CheckReport {
            schema: SCHEMA,
            host: host.to_owned(),
            checked: record::now_rfc3339(),
            level: self.request.level,
            verdict,
            reason: reason.map(|remark| remark.reason.clone()),
            line: check::verdict_line(host, verdict, reason, &details),
            remarks: self.remarks.clone(),
            notes: self.notes.clone(),
            figures,
            events: self.events.clone(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}
