//! Measured values of a run, before figures and notices are derived from them.

use crate::choose::TrialResult;
use crate::config::{ResidualConfig, SearchStep, TimeConfig};
use crate::size::ChosenOrder;
use nodegauge_kernels::Isa;
use nodegauge_lu::peak::{Burst, Peak, PeakLoop};
use nodegauge_machine::UnavailableReason;
use nodegauge_measure::stats;
use nodegauge_measure::{FlopsPerSec, Fraction, Joules, Seconds};

/// Result of one solve of a system of equations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SolvedSystem {
    pub order: usize,
    pub nb: usize,
    /// Number of operations as counted by HPL, divided by the time.
    pub rating: FlopsPerSec,
    pub seconds: Seconds,
    pub time: TimeConfig,
    pub residual: ResidualConfig,
    /// Share of the matrix on huge pages; `None` if the kernel does not report it.
    pub huge_pages: Option<Fraction>,
    /// Energy that the processor packages consumed during the solve.
    pub joules: Option<Joules>,
    /// Start of the solve, seconds since the epoch.
    pub start_time: Seconds,
    /// Measurements taken immediately before and after the solve.
    pub comparison: ComparisonRates,
}

/// Rates measured immediately before and after a solve.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ComparisonRates {
    /// Rates of DGEMM on all threads with the library of the solve, FLOP/s.
    pub dgemm: Vec<f64>,
    /// Results of bursts (short runs) of register-only loops in double precision.
    pub bursts: Vec<LoopBurst>,
}

/// Result of a burst of a loop in double precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoopBurst {
    /// Instruction set of the loop.
    pub isa: Isa,
    /// Result of the burst.
    pub burst: Burst,
}

impl ComparisonRates {
    /// Returns the bursts of a loop.
    pub(crate) fn loop_bursts(&self, kernel: &PeakLoop) -> Vec<Burst> {
        let of_loop = self.bursts.iter().filter(|of| of.isa == kernel.isa);
        of_loop.map(|of| of.burst).collect()
    }
}

impl SolvedSystem {
    /// Returns the rating divided by the median DGEMM rate before and after the solve.
    pub(crate) fn dgemm_share(&self) -> Fraction {
        Fraction(self.rating.0 / stats::median(&self.comparison.dgemm))
    }
}

/// Results of the runs with one library.
#[derive(Debug)]
pub(crate) struct LibraryRuns {
    pub candidate: TrialResult,
    /// Rates of DGEMM on all threads, FLOP/s.
    pub dgemm: Vec<f64>,
    /// Runs of the NB search, in chronological order.
    pub search: Vec<SearchStep>,
    pub order: Option<ChosenOrder>,
    pub solutions: Vec<SolvedSystem>,
}

impl LibraryRuns {
    pub(crate) fn best(&self) -> Option<&SolvedSystem> {
        self.solutions.iter().max_by(|a, b| a.rating.total_cmp(&b.rating))
    }
}

/// Measured values of a complete run.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    /// Peaks for every instruction set and element type.
    pub peaks: Vec<Peak>,
    /// Results per library, in the order in which the user gave them.
    pub libraries: Vec<LibraryRuns>,
    /// Number of throttling events during the run; `None` if throttling is not counted.
    pub throttle_events: Option<u64>,
    /// Counters from which the energy is read, or the reason why no counter is available.
    pub energy: Option<Result<String, UnavailableReason>>,
    /// Phase of the run in which the user interrupted it.
    pub interrupted_phase: Option<String>,
}

impl Observations {
    /// Returns the fastest loop of an element type.
    pub(crate) fn peak(&self, element: &str) -> Option<&Peak> {
        let of_element = self.peaks.iter().filter(|peak| peak.kernel.element == element);
        of_element.max_by(|a, b| a.best_rate().0.total_cmp(&b.best_rate().0))
    }

    /// Returns the loops of each element type that may be the fastest: the fastest so far, and the one with the widest
    /// vectors, which other load may have slowed down.
    pub(crate) fn fastest_candidates(&self) -> Vec<PeakLoop> {
        let mut fastest_candidates: Vec<PeakLoop> = Vec::new();
        for element in ["f64", "f32"] {
            let widest = self.peaks.iter().rev().find(|peak| peak.kernel.element == element);
            for peak in self.peak(element).into_iter().chain(widest) {
                if !fastest_candidates.iter().any(|known| known.is_same_loop(&peak.kernel)) {
                    fastest_candidates.push(peak.kernel);
                }
            }
        }
        fastest_candidates
    }

    /// Adds a burst of a loop.
    pub(crate) fn add_burst(&mut self, kernel: &PeakLoop, burst: Burst) {
        match self.peaks.iter_mut().find(|peak| peak.kernel.is_same_loop(kernel)) {
            Some(peak) => peak.bursts.push(burst),
            None => self.peaks.push(Peak { kernel: *kernel, bursts: vec![burst] }),
        }
    }
}
