//! What a run sees, before it is judged.

use crate::choose::Tried;
use crate::config::{ResidualConfig, SearchStep, TimeConfig};
use crate::peak::{Burst, Peak};
use crate::size::ChosenOrder;
use nodegauge_measure::stats;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SolvedSystem {
    pub order: usize,
    pub nb: usize,
    /// HPL's count over the time, FLOP/s.
    pub rating: f64,
    pub seconds: f64,
    pub time: TimeConfig,
    pub residual: ResidualConfig,
    /// Share of the matrix on huge pages, when the kernel says.
    pub huge_pages: Option<f64>,
    /// Energy of the packages during the solution.
    pub joules: Option<f64>,
    /// When it began, seconds since the epoch.
    pub began: f64,
    /// What was measured right before and right after.
    pub around: Around,
}

/// What the cores gave right before or after a solution.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Around {
    /// Rates of DGEMM on all threads by the solution's library, FLOP/s.
    pub dgemm: Vec<f64>,
    /// Bursts of the fastest loop in registers.
    pub bursts: Vec<Burst>,
}

impl SolvedSystem {
    /// The rating over the median of DGEMM around it.
    pub(crate) fn of_dgemm(&self) -> f64 {
        self.rating / stats::median(&self.around.dgemm)
    }
}

/// What a library reached.
#[derive(Debug)]
pub(crate) struct LibraryRuns {
    pub tried: Tried,
    /// Rates of DGEMM on all threads, FLOP/s.
    pub dgemm: Vec<f64>,
    /// The search of NB, in order of time.
    pub search: Vec<SearchStep>,
    pub order: Option<ChosenOrder>,
    pub solutions: Vec<SolvedSystem>,
}

impl LibraryRuns {
    pub(crate) fn best(&self) -> Option<&SolvedSystem> {
        self.solutions.iter().max_by(|a, b| a.rating.total_cmp(&b.rating))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Peaks by instruction set and element.
    pub peaks: Vec<Peak>,
    /// Results, a library each, in the order they were given.
    pub libraries: Vec<LibraryRuns>,
    /// Events of throttling during the run; `None` where they are not counted.
    pub throttled: Option<u64>,
    /// Where energy comes from, or why there is none.
    pub energy: Option<Result<String, String>>,
    /// Where a run that was interrupted was.
    pub interrupted: Option<String>,
}

impl Observed {
    /// The fastest loop of an element.
    pub(crate) fn peak(&self, element: &str) -> Option<&Peak> {
        let of_element = self.peaks.iter().filter(|peak| peak.kernel.element == element);
        of_element.max_by(|a, b| a.best().0.total_cmp(&b.best().0))
    }

    /// The same, to take more bursts.
    pub(crate) fn peak_mut(&mut self, element: &str) -> Option<&mut Peak> {
        let of_element = self.peaks.iter_mut().filter(|peak| peak.kernel.element == element);
        of_element.max_by(|a, b| a.best().0.total_cmp(&b.best().0))
    }
}
