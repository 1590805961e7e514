//! JSON document of `stream --plan --json`: the document of `places --json`, with the key `plan`.

use super::{LengthBasis, LengthPlan, PlannedLength};
use nodegauge_gauge::MeasuredNode;
use nodegauge_measure::record::TheoreticalValue;
use nodegauge_placement::json::PlacesDocument;
use serde::Serialize;
use std::collections::BTreeMap;

/// JSON document of `stream --plan --json`.
#[derive(Debug, Clone, Serialize)]
pub struct LengthPlanDocument {
    #[serde(flatten)]
    places: PlacesDocument,
    plan: PlanEntry,
}

/// Plan of a run of STREAM.
#[derive(Debug, Clone, Serialize)]
struct PlanEntry {
    gauge: &'static str,
    element: &'static str,
    ntimes: u64,
    /// Total size of the last-level caches in use; `None` if it is unknown.
    llc_bytes: Option<u64>,
    /// Memory for which the run is planned; `None` if it is unknown.
    memory_bytes: Option<u64>,
    theoretical: Option<TheoreticalValue>,
    rate: Option<RateEntry>,
    /// Variables that place the threads of stream.c.
    environment: BTreeMap<&'static str, String>,
    lengths: Vec<LengthEntry>,
}

/// Rate from which times are predicted.
#[derive(Debug, Clone, Serialize)]
struct RateEntry {
    /// Rate of Triad, B/s.
    triad: Option<f64>,
    basis: String,
    /// True if the predicted times are lower bounds.
    seconds_at_least: bool,
}

/// Planned length.
#[derive(Debug, Clone, Serialize)]
struct LengthEntry {
    /// `rule`, `share` or `given`.
    basis: &'static str,
    array_elements: u64,
    array_bytes: u64,
    total_bytes: u64,
    /// Size of the arrays as a share of the memory, 0 to 1.
    memory_share: Option<f64>,
    array_times_llc: Option<f64>,
    follows_rule: Option<bool>,
    /// Predicted time of all passes.
    seconds: Option<f64>,
    compile: String,
}

impl LengthPlanDocument {
    /// Returns the document of a plan for `site`.
    pub fn new(plan: &LengthPlan, site: &MeasuredNode) -> Self {
        let rate = plan.rate.as_ref().map(|rate| RateEntry {
            triad: rate.triad().map(|triad| triad.0),
            basis: rate.basis.clone(),
            seconds_at_least: rate.is_bound,
        });
        let entry = PlanEntry {
            gauge: crate::GAUGE,
            element: plan.element.name(),
            ntimes: plan.ntimes,
            llc_bytes: plan.caches.map(|caches| caches.bytes.0),
            memory_bytes: plan.memory.map(|memory| memory.0),
            theoretical: plan.theoretical.clone(),
            rate,
            environment: plan.openmp_variables().into_iter().collect(),
            lengths: plan.lengths.iter().map(LengthEntry::new).collect(),
        };
        Self { places: PlacesDocument::new(&site.topology, &plan.rank_plan.ranks), plan: entry }
    }
}

impl LengthEntry {
    fn new(length: &PlannedLength) -> Self {
        Self {
            basis: match length.basis {
                LengthBasis::Rule => "rule",
                LengthBasis::Share(_) => "share",
                LengthBasis::Given(_) => "given",
            },
            array_elements: length.elements,
            array_bytes: length.array.0,
            total_bytes: length.total.0,
            memory_share: length.memory_share.map(|share| share.0),
            array_times_llc: length.times_llc,
            follows_rule: length.follows_rule,
            seconds: length.seconds.map(|seconds| seconds.0),
            compile: length.compile.to_string(),
        }
    }
}
