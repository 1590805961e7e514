//! Table of policies: one row per mode, with the reason for each value.

use crate::Fraction;
use std::time::Duration;

/// Order of the cells in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundOrder {
    /// Order in which the cells are given, in every round.
    AsGiven,
    /// New random order in each round, with a fixed seed, so that no cell always follows the same neighbour.
    Shuffled,
    /// Cell 0 before each of the others, which are in random order, so that every ratio to cell 0 is between
    /// neighbours in time.
    ReferenceBeforeEach,
}

/// Rule that ends the turns of a stable cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellRule {
    /// All cells continue until all are stable, because compared cells need the same state of the machine.
    Together,
    /// A stable cell stops at once, so that the remaining time is for the other cells.
    OnceStable,
}

/// Position of the warm-up of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// The first round warms all cells up.
    Round,
    /// Every turn includes a warm-up, because the cell before it leaves the caches in another state;
    /// the first of these samples is kept as the warm-up of the cell.
    Turn,
    /// No warm-up: every sample counts.
    None,
}

/// Repetition of a mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepetitionPolicy {
    /// Order of a round.
    pub order: RoundOrder,
    /// Seed of random orders: fixed, so that a run can be repeated.
    pub seed: u64,
    /// Position of the warm-up.
    pub warm_up: WarmUp,
    /// Minimum number of rounds even if the time is used up; fewer give no meaningful figures.
    pub fewest: usize,
    /// Minimum number of samples before a figure may count as stable.
    pub least: usize,
    /// Maximum number of rounds.
    pub most: Option<usize>,
    /// Interval in rounds between checks of the stop conditions.
    pub ask_every: usize,
    /// Time before any figure counts as stable, as a share of the time and as a maximum: regimes of a virtual
    /// machine last seconds, and the samples should cover all of them.
    pub least_time: (f64, Duration),
    /// True if that share is of the whole budget; otherwise it is of the time left when the rounds begin.
    pub least_time_of_budget: bool,
    /// Share within which the best and the median of a stable figure stay. With `None` the rounds continue until
    /// the time is used up.
    pub tolerance: Option<Fraction>,
    /// Rule that ends the turns of a stable cell.
    pub leave: CellRule,
    /// True if the rounds may end in the middle of a round.
    pub ends_within_round: bool,
    /// True if a requested number of samples is taken even if the time is used up.
    pub samples_despite_time: bool,
    /// Maximum number of rounds per requested sample. With more than one, only undisturbed rounds of the most
    /// frequent regime count as requested samples.
    pub tries: usize,
    /// Share of the budget for the choice of variants before the rounds.
    pub choose: Fraction,
    /// Share of the budget at which the rounds must end; the rest is for checks and cleanup.
    pub measure: Fraction,
}

const NO_TIME: (f64, Duration) = (0.0, Duration::ZERO);

/// `stream`: one cell, whose kernels run in STREAM's order.
pub const STREAM: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    seed: 1,
    warm_up: WarmUp::Round,
    fewest: 3,
    // STREAM's NTIMES is 10; twice as many give a median with a confidence interval.
    least: 20,
    most: None,
    // The check sorts all samples, which costs more than a pass over small arrays.
    ask_every: 5,
    least_time: (0.25, Duration::from_millis(2500)),
    least_time_of_budget: true,
    tolerance: Some(Fraction(0.005)),
    leave: CellRule::Together,
    ends_within_round: false,
    samples_despite_time: true,
    tries: 1,
    choose: Fraction(0.25),
    measure: Fraction(0.95),
};

/// Check if a cache speeds up the arrays of `stream`: whole and half arrays alternate, and each turn includes a
/// warm-up.
pub const SIZE: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::Shuffled,
    seed: 0x7369_7A65,
    warm_up: WarmUp::None,
    // Nine ratios give a confidence interval of their median; three are enough for a large effect of a cache.
    most: Some(9),
    ask_every: 1,
    tolerance: None,
    samples_despite_time: false,
    choose: Fraction(0.0),
    measure: Fraction(0.35),
    ..STREAM
};

/// `stream --sweep`: many cells; the rest of the budget is for repeating values that break the trend.
pub const SWEEP: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::Shuffled,
    seed: 0x0073_7765_6570,
    least: 10,
    ask_every: 1,
    least_time: NO_TIME,
    measure: Fraction(0.85),
    ..STREAM
};

/// `explain`: factors between neighbours in a round, over complete rounds.
pub const EXPLAIN: RepetitionPolicy = RepetitionPolicy {
    seed: 0x0065_7870,
    // Medians over fewer rounds scatter too much.
    most: Some(60),
    tolerance: None,
    choose: Fraction(0.15),
    measure: Fraction(0.88),
    ..SWEEP
};

/// Last step of `explain` only, with consecutive passes as in `stream`.
pub const EXPLAIN_END: RepetitionPolicy = RepetitionPolicy {
    fewest: 5,
    most: Some(20),
    ask_every: 1,
    least_time: NO_TIME,
    tolerance: None,
    ..STREAM
};

/// `stream --compiler`: native loops before the loops of each compiler.
pub const COMPILED: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::ReferenceBeforeEach,
    seed: 0x636F_6D70,
    warm_up: WarmUp::Turn,
    measure: Fraction(0.95),
    ..SWEEP
};

/// `stream --standard`: native passes before each run of a build, for the elapsed time of such a run.
pub const STANDARD: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::ReferenceBeforeEach,
    seed: 0x7374_6463,
    warm_up: WarmUp::Turn,
    fewest: 1,
    tolerance: None,
    measure: Fraction(1.0),
    ..SWEEP
};

/// `memory ladder`, `latency`, `matrix`, `loaded`, `mix`: many cells with turns of milliseconds.
pub const CURVES: RepetitionPolicy = RepetitionPolicy {
    seed: 0x7475_726E,
    least_time: (0.25, Duration::MAX),
    least_time_of_budget: false,
    leave: CellRule::OnceStable,
    ends_within_round: true,
    measure: Fraction(0.95),
    ..SWEEP
};

/// Like [`CURVES`], for cells that had a turn when they were set up.
pub const CURVES_BEHIND: RepetitionPolicy = RepetitionPolicy { warm_up: WarmUp::Turn, ..CURVES };

/// Trial of loops before a curve: the first round determines the duration of a call, and the best counts.
pub const LOOPS: RepetitionPolicy = RepetitionPolicy {
    seed: 0x6C6F_6F70,
    warm_up: WarmUp::None,
    fewest: 1,
    most: Some(5),
    tolerance: None,
    ..CURVES
};

/// Node-to-node part of `memory matrix`; the rest of the time is for the CPU-to-CPU part.
pub const NODES: RepetitionPolicy = RepetitionPolicy { measure: Fraction(0.6), ..CURVES };

/// `io`: the grid of file and block sizes, repeated for the requested number of samples, or else until the
/// figures are precise enough or the time is used up.
pub const FILES: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    seed: 1,
    warm_up: WarmUp::None,
    fewest: 0,
    least: 1,
    // Passes over files of 64 KiB to 1 MiB scatter by a quarter: the median of 60 passes is known to 4 to 10 %,
    // the median of 240 passes to half of that, in some tenths of a second per cell.
    most: Some(240),
    ask_every: 1,
    tolerance: None,
    ends_within_round: true,
    samples_despite_time: false,
    choose: Fraction(0.0),
    measure: Fraction(1.0),
    ..STREAM
};

/// `mpi --osu`: a turn is an OSU program and the probe. Their means include all messages, so that a round
/// counts as a whole or not at all; on some machines the CPUs are moved every few seconds.
pub const OSU: RepetitionPolicy =
    RepetitionPolicy { tries: 3, samples_despite_time: true, ..FILES };

/// `apps`: workers on different placements, compared with each other; a round of sums takes seconds.
pub const APPS: RepetitionPolicy =
    RepetitionPolicy { seed: 0x6170_7073, measure: Fraction(0.95), ..SWEEP };

/// `apps iccg`: a turn is a complete solution, and each iteration is a sample. The rest of the budget is for the
/// number of iterations in the natural order.
pub const ICCG: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    warm_up: WarmUp::Turn,
    fewest: 1,
    ask_every: 1,
    least_time: NO_TIME,
    // A solution takes seconds; one more would improve the figures little.
    tolerance: Some(Fraction(0.01)),
    measure: Fraction(0.65),
    ..APPS
};

/// `device stream` and `device peaks`: passes of all devices, interleaved.
pub const DEVICES: RepetitionPolicy =
    RepetitionPolicy { seed: 0x6465_7669, measure: Fraction(0.95), ..SWEEP };

/// `device links`: a cell for each size, end and direction, with copies of milliseconds.
pub const LINKS: RepetitionPolicy = RepetitionPolicy { seed: 0x6C69_6E6B, ..CURVES };
