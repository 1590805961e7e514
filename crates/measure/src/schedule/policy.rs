//! The table of policies: one row a mode, each value with its reason.

use std::time::Duration;

/// In which order the cells of a round have their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As given, round after round.
    AsGiven,
    /// Random and new each round, with a fixed seed: no cell always follows the same neighbour.
    Shuffled,
    /// Cell 0 before each of the others, which come in random order: every ratio to cell 0 is of
    /// neighbours in time.
    ReferenceBeforeEach,
}

/// When a cell that is stable stops being measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// All go on until all are stable: cells that are compared need the same machine.
    Together,
    /// At once, so that the time goes to those that are not stable.
    OnceStable,
}

/// Where the warm-up of a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// The first round warms all cells up.
    Round,
    /// Every turn warms up by itself, because the cell before it leaves the caches in another state;
    /// the first of these samples is kept as the cell's warm-up.
    Turn,
    /// There is none: every sample counts.
    None,
}

/// How a mode repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Order of a round.
    pub order: Order,
    /// Seed of random orders: fixed, so that a run can be repeated.
    pub seed: u64,
    /// Where the warm-up is.
    pub warm_up: WarmUp,
    /// Rounds even when the time is spent: fewer say nothing.
    pub fewest: usize,
    /// Samples before a figure may count as stable.
    pub least: usize,
    /// Rounds at most.
    pub most: Option<usize>,
    /// Every so many rounds the question whether to stop is asked anew.
    pub ask_every: usize,
    /// Share of the time, and the time at most, that passes before anything counts as stable: regimes
    /// of a virtual machine last seconds, and all should be met.
    pub least_time: (f64, Duration),
    /// Whether that share is of the whole budget; else of the time left when measuring begins.
    pub least_time_of_budget: bool,
    /// Stable means: best and median within this share. `None` goes on until the time is spent.
    pub tolerance: Option<f64>,
    /// When a stable cell stops.
    pub leave: Leave,
    /// Whether the time may end in the middle of a round.
    pub ends_within_round: bool,
    /// Whether a number of samples that is asked for is taken even when the time is spent.
    pub samples_despite_time: bool,
    /// Rounds at most for each sample that is asked for. With more than one, only rounds that were
    /// disturbed by nothing and met the regime of most are samples that were asked for.
    pub tries: usize,
    /// Share of the budget for choosing variants before measuring.
    pub choose: f64,
    /// Share of the budget by which measuring must end; the rest is for checking and ending.
    pub measure: f64,
}

const NO_TIME: (f64, Duration) = (0.0, Duration::ZERO);

/// `stream`: one cell, whose kernels run in STREAM's order.
pub const STREAM: Policy = Policy {
    order: Order::AsGiven,
    seed: 1,
    warm_up: WarmUp::Round,
    fewest: 3,
    // STREAM's NTIMES is 10; twice as many give a median with an interval.
    least: 20,
    most: None,
    // Sorting samples costs more than a pass over small arrays.
    ask_every: 5,
    least_time: (0.25, Duration::from_millis(2500)),
    least_time_of_budget: true,
    tolerance: Some(0.005),
    leave: Leave::Together,
    ends_within_round: false,
    samples_despite_time: true,
    tries: 1,
    choose: 0.25,
    measure: 0.95,
};

/// Whether a cache helps the arrays of `stream`: whole and half by turns, each of which warms itself up.
pub const SIZE: Policy = Policy {
    order: Order::Shuffled,
    seed: 0x7369_7A65,
    warm_up: WarmUp::None,
    // Nine ratios have an interval of their median; three tell a cache that is plain to see.
    most: Some(9),
    ask_every: 1,
    tolerance: None,
    samples_despite_time: false,
    choose: 0.0,
    measure: 0.35,
    ..STREAM
};

/// `stream --sweep`: many cells; what is left of the budget measures broken trends again.
pub const SWEEP: Policy = Policy {
    order: Order::Shuffled,
    seed: 0x0073_7765_6570,
    least: 10,
    ask_every: 1,
    least_time: NO_TIME,
    measure: 0.85,
    ..STREAM
};

/// `explain`: factors between neighbours of one round, over complete rounds.
pub const EXPLAIN: Policy = Policy {
    seed: 0x0065_7870,
    // Medians over fewer scatter too much.
    most: Some(60),
    tolerance: None,
    choose: 0.15,
    measure: 0.88,
    ..SWEEP
};

/// The last step of `explain` alone, one pass after another as `stream` makes them.
pub const EXPLAIN_END: Policy = Policy {
    fewest: 5,
    most: Some(20),
    ask_every: 1,
    least_time: NO_TIME,
    tolerance: None,
    ..STREAM
};

/// `stream --compiler`: native loops before each compiler's.
pub const COMPILED: Policy = Policy {
    order: Order::ReferenceBeforeEach,
    seed: 0x636F_6D70,
    warm_up: WarmUp::Turn,
    measure: 0.95,
    ..SWEEP
};

/// `stream --standard`: native passes before each run of a build, as long as the run took.
pub const STANDARD: Policy = Policy {
    order: Order::ReferenceBeforeEach,
    seed: 0x7374_6463,
    warm_up: WarmUp::Turn,
    fewest: 1,
    tolerance: None,
    measure: 1.0,
    ..SWEEP
};

/// `memory ladder`, `latency`, `matrix`, `loaded`, `mix`: many cells of milliseconds.
pub const CURVES: Policy = Policy {
    seed: 0x7475_726E,
    least_time: (0.25, Duration::MAX),
    least_time_of_budget: false,
    leave: Leave::OnceStable,
    ends_within_round: true,
    measure: 0.95,
    ..SWEEP
};

/// The same behind a turn that each cell had when it was set up.
pub const CURVES_BEHIND: Policy = Policy { warm_up: WarmUp::Turn, ..CURVES };

/// The trial of loops before a curve: the first round sets how long a call lasts, and the best counts.
pub const LOOPS: Policy = Policy {
    seed: 0x6C6F_6F70,
    warm_up: WarmUp::None,
    fewest: 1,
    most: Some(5),
    tolerance: None,
    ..CURVES
};

/// The nodes of `memory matrix`; CPU to CPU gets the rest of the time.
pub const NODES: Policy = Policy { measure: 0.6, ..CURVES };

/// `io`: the grid of files and blocks, as often as samples are asked for, else until figures are known,
/// until the time is spent.
pub const FILES: Policy = Policy {
    order: Order::AsGiven,
    seed: 1,
    warm_up: WarmUp::None,
    fewest: 0,
    least: 1,
    // Passes over files of 64 KiB to 1 MiB scatter by a quarter: the median of 60 is known to 4 to 10 %, of
    // four times as many to half of that, in some tenths of a second a cell.
    most: Some(240),
    ask_every: 1,
    tolerance: None,
    ends_within_round: true,
    samples_despite_time: false,
    choose: 0.0,
    measure: 1.0,
    ..STREAM
};

/// `mpi --osu`: a turn is an OSU program and the probe. Their means leave nothing out, so that a round
/// counts as a whole or not at all, and on some machines the CPUs are moved every few seconds.
pub const OSU: Policy = Policy { tries: 3, samples_despite_time: true, ..FILES };

/// `apps`: workers in many places, held against each other; a round of sums takes seconds.
pub const APPS: Policy = Policy { seed: 0x6170_7073, measure: 0.95, ..SWEEP };

/// `apps iccg`: a turn is a whole solution, of which each iteration is a sample; what is left of the budget
/// counts the iterations of the natural order.
pub const ICCG: Policy = Policy {
    order: Order::AsGiven,
    warm_up: WarmUp::Turn,
    fewest: 1,
    ask_every: 1,
    least_time: NO_TIME,
    // Solutions of seconds: one more costs more than it tells.
    tolerance: Some(0.01),
    measure: 0.65,
    ..APPS
};

/// `device stream` and `device peaks`: passes of all devices, each by turns with the others.
pub const DEVICES: Policy = Policy { seed: 0x6465_7669, measure: 0.95, ..SWEEP };

/// `device links`: a cell for each size, end and direction, whose copies last milliseconds.
pub const LINKS: Policy = Policy { seed: 0x6C69_6E6B, ..CURVES };
