//! JSON document of `hpl --plan --json`: the document of `places --json`, with the key `plan`.

use crate::hpl::SECOND_ROUND_CANDIDATES;
use crate::plan::{HplPlan, PlannedNb};
use crate::size;
use nodegauge_gauge::MeasuredNode;
use nodegauge_lu::factorisation as lu;
use nodegauge_measure::record::TheoreticalValue;
use nodegauge_placement::json::PlacesDocument;
use nodegauge_placement::{MemoryPolicy, RankPlan};
use serde::Serialize;

/// JSON document of `hpl --plan --json`.
#[derive(Debug, Clone, Serialize)]
pub struct HplPlanDocument {
    #[serde(flatten)]
    places: PlacesDocument,
    plan: PlanEntry,
}

/// Plan of a run of `hpl`.
#[derive(Debug, Clone, Serialize)]
struct PlanEntry {
    gauge: &'static str,
    /// Memory for which the run is planned, bytes; `None` if it is unknown.
    memory_bytes: Option<u64>,
    /// Rows and columns of the grid of ranks.
    p: u64,
    q: u64,
    ranks: u64,
    threads_per_rank: u64,
    /// Theoretical peak of the cores in use; `None` if it is unknown.
    peak_flops: Option<TheoreticalValue>,
    /// Basis of the rate from which the times are predicted; `None` if no rate is known.
    rate: Option<String>,
    /// True if the predicted times are lower bounds.
    seconds_at_least: bool,
    /// Candidates for NB. The first one has the N of HPL.dat.
    candidates: Vec<CandidateEntry>,
    /// Search for NB; `None` without a search, or if no rate is known.
    search: Option<SearchEntry>,
}

/// Candidate for NB.
#[derive(Debug, Clone, Serialize)]
struct CandidateEntry {
    nb: u64,
    n: u64,
    /// Formula of N, with numbers in place of the variables.
    formula: String,
    matrix_bytes: u64,
    /// Maximum memory use of the run.
    needed_bytes: u64,
    /// Size of the matrix as a share of the memory, 0 to 1.
    memory_share: Option<f64>,
    flops: f64,
    /// Predicted time of a solve, seconds; `None` if no rate is known.
    seconds: Option<f64>,
}

/// Search for NB: all candidates at the first order, the best candidates at the second.
#[derive(Debug, Clone, Serialize)]
struct SearchEntry {
    n: [usize; 2],
    kept: usize,
}

impl HplPlanDocument {
    /// Returns the document of a plan for `site`.
    pub fn new(plan: &HplPlan, site: &MeasuredNode) -> Self {
        let single = RankPlan::single(plan.placement.clone(), MemoryPolicy::Default);
        let (p, q) = plan.layout.grid();
        let entry = PlanEntry {
            gauge: crate::GAUGE,
            memory_bytes: plan.available.map(|bytes| bytes.0),
            p: p as u64,
            q: q as u64,
            ranks: plan.layout.rank_count() as u64,
            threads_per_rank: plan.layout.threads_per_rank as u64,
            peak_flops: plan.peak.clone(),
            rate: plan.rate.clone(),
            seconds_at_least: plan.is_lower_bound(),
            candidates: plan.candidates.iter().map(|one| candidate(plan, one)).collect(),
            search: plan.search.filter(|_| plan.candidates.len() > 1).map(|n| SearchEntry {
                n,
                kept: SECOND_ROUND_CANDIDATES.min(plan.candidates.len()),
            }),
        };
        Self { places: PlacesDocument::new(&site.topology, &single.ranks), plan: entry }
    }
}

fn candidate(plan: &HplPlan, PlannedNb { nb, order }: &PlannedNb) -> CandidateEntry {
    let memory_share = plan.available.map(|memory| order.bytes.as_f64() / memory.as_f64());
    CandidateEntry {
        nb: *nb as u64,
        n: order.order as u64,
        formula: order.formula.clone(),
        matrix_bytes: order.bytes.0,
        needed_bytes: size::needed_memory(order.order, plan.placement.threads.len()).0,
        memory_share,
        flops: lu::flops(order.order),
        seconds: plan.rate.as_ref().map(|_| order.seconds.0),
    }
}
