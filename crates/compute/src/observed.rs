//! Observations of a run, before they are judged.

use crate::choose::Tried;
use crate::config::{ResidualConfig, SearchStep, TimeConfig};
use crate::peak::{Burst, Peak};
use crate::size::ChosenOrder;
use nodegauge_machine::Unavailable;
use nodegauge_measure::stats;
use nodegauge_measure::{FlopsPerSec, Fraction, Joules, Seconds};

/// A solved system of equations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SolvedSystem {
    pub order: usize,
    pub nb: usize,
    /// Operations in HPL's count divided by the time, FLOP/s.
    pub rating: FlopsPerSec,
    pub seconds: Seconds,
    pub time: TimeConfig,
    pub residual: ResidualConfig,
    /// Share of the matrix on huge pages; `None` where the kernel does not report it.
    pub huge_pages: Option<Fraction>,
    /// Energy of the packages during the solution.
    pub joules: Option<Joules>,
    /// Start of the solution, seconds since the epoch.
    pub began: Seconds,
    /// Measurements taken immediately before and after the solution.
    pub around: Around,
}

/// Rates of the cores immediately before or after a solution.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Around {
    /// Rates of DGEMM on all threads by the solution's library, FLOP/s.
    pub dgemm: Vec<f64>,
    /// Bursts of the fastest loop in registers.
    pub bursts: Vec<Burst>,
}

impl SolvedSystem {
    /// Returns the rating divided by the median rate of DGEMM around the solution.
    pub(crate) fn of_dgemm(&self) -> Fraction {
        Fraction(self.rating.0 / stats::median(&self.around.dgemm))
    }
}

/// Results of a library.
#[derive(Debug)]
pub(crate) struct LibraryRuns {
    pub tried: Tried,
    /// Rates of DGEMM on all threads, FLOP/s.
    pub dgemm: Vec<f64>,
    /// Runs of the NB search, in order of time.
    pub search: Vec<SearchStep>,
    pub order: Option<ChosenOrder>,
    pub solutions: Vec<SolvedSystem>,
}

impl LibraryRuns {
    pub(crate) fn best(&self) -> Option<&SolvedSystem> {
        self.solutions.iter().max_by(|a, b| a.rating.total_cmp(&b.rating))
    }
}

/// Observations of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Peaks by instruction set and element.
    pub peaks: Vec<Peak>,
    /// Results of each library, in the order in which the libraries were given.
    pub libraries: Vec<LibraryRuns>,
    /// Throttling events during the run; `None` where they are not counted.
    pub throttled: Option<u64>,
    /// Counters from which energy is read, or the reason why there are none.
    pub energy: Option<Result<String, Unavailable>>,
    /// Point at which a run was interrupted.
    pub interrupted: Option<String>,
}

impl Observed {
    /// Returns the fastest loop of an element type.
    pub(crate) fn peak(&self, element: &str) -> Option<&Peak> {
        let of_element = self.peaks.iter().filter(|peak| peak.kernel.element == element);
        of_element.max_by(|a, b| a.best().0.total_cmp(&b.best().0))
    }

    /// Returns the fastest loop of an element type mutably, so that bursts can be added.
    pub(crate) fn peak_mut(&mut self, element: &str) -> Option<&mut Peak> {
        let of_element = self.peaks.iter_mut().filter(|peak| peak.kernel.element == element);
        of_element.max_by(|a, b| a.best().0.total_cmp(&b.best().0))
    }
}
