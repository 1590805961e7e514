//! Table of repetition policies: one row per mode of nodegauge, with the reason for each value.

use crate::Fraction;
use crate::record::doubt;
use std::time::Duration;

/// Order of the cells in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundOrder {
    /// The order in which the mode defines the cells, in every round.
    AsGiven,
    /// A new random order in each round, with a fixed seed, so that no cell is always measured after the same other
    /// cell.
    Shuffled,
    /// Cell 0 is measured before each of the other cells, which are in random order. Every ratio to cell 0 is therefore
    /// computed from consecutive measurements.
    ReferenceBeforeEach,
}

/// Rule that determines when a stable cell is no longer measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StableCellRule {
    /// All cells continue until all are stable, because compared cells need the same state of the machine.
    UntilAllStable,
    /// A stable cell is not measured again, so that the remaining time is available to the other cells.
    OnceStable,
}

/// Position of the warm-up of a cell in the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// The first round is the warm-up of all cells.
    Round,
    /// Every measurement of a cell (turn) begins with a warm-up, because the previous cell leaves the caches in another
    /// state. The first of these warm-up samples is kept as the warm-up of the cell.
    Turn,
    /// There is no warm-up; every sample counts.
    None,
}

/// Rules of repetition for one mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepetitionPolicy {
    /// Order of the cells in a round.
    pub order: RoundOrder,
    /// Seed of random orders; fixed, so that a run can be repeated.
    pub seed: u64,
    /// Position of the warm-up of each cell.
    pub warm_up: WarmUp,
    /// Minimum number of rounds. They are measured even if the time is used up, unless one more
    /// round would also exceed the grace time. With fewer rounds, the figures are suspect
    /// ([`doubt`]).
    pub min_rounds: usize,
    /// Minimum number of samples at which a figure may count as stable.
    pub min_samples: usize,
    /// Maximum number of rounds; `None` for no limit.
    pub max_rounds: Option<usize>,
    /// Number of rounds between two checks of the stop conditions.
    pub check_interval: usize,
    /// Minimum time before a figure may count as stable: a share of the time, and an upper bound.
    /// Regimes of a virtual machine last seconds, and the samples should cover all regimes.
    pub min_time: (f64, Duration),
    /// True if the share in `min_time` refers to the whole budget; false if it refers to the time left when the
    /// rounds begin.
    pub min_time_is_budget_share: bool,
    /// Maximum relative change of the best and the median of a stable figure. With `None`, the rounds continue until
    /// the time is used up.
    pub tolerance: Option<Fraction>,
    /// Rule that determines when a stable cell is no longer measured.
    pub stable_cells: StableCellRule,
    /// True if the measurement may end in the middle of a round.
    pub ends_within_round: bool,
    /// True if a requested number of samples is taken even if the time is used up.
    pub takes_samples_despite_time: bool,
    /// Maximum number of rounds per requested sample. With more than one, only undisturbed rounds
    /// of the most frequent regime count as requested samples.
    pub max_rounds_per_sample: usize,
    /// Share of the budget for the choice of kernel variants, before the rounds.
    pub choice_share: Fraction,
    /// Share of the budget at which the rounds must end; the rest is for checks and cleanup.
    pub measurement_share: Fraction,
}

/// Number of rounds after which figures are expected to be stable: STREAM's NTIMES.
const SUFFICIENT: usize = 10;

impl RepetitionPolicy {
    /// Returns the number of rounds for which the time should suffice when arrays and cells are
    /// chosen. A run with less time is shortened.
    pub fn sufficient_rounds(&self) -> usize {
        let stable = self.min_samples.min(SUFFICIENT).max(self.min_rounds);
        self.max_rounds.map_or(stable, |max| stable.min(max))
    }
}

/// Minimum number of rounds for figures that quote the best of the rounds.
const FOR_BEST: usize = doubt::BEST_RULE.min;
/// Minimum number of rounds for figures that quote a median or a mean.
const FOR_MEDIAN: usize = doubt::TYPICAL_RULE.min;

const NO_TIME: (f64, Duration) = (0.0, Duration::ZERO);

/// `stream`: one cell, whose kernels run in STREAM's order.
pub const STREAM: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    seed: 1,
    warm_up: WarmUp::Round,
    min_rounds: FOR_BEST,
    // STREAM's NTIMES is 10; twice as many samples give a median with a useful confidence interval.
    min_samples: 20,
    max_rounds: None,
    // The check of the stop conditions sorts all samples, which takes longer than a pass over small arrays.
    check_interval: 5,
    min_time: (0.25, Duration::from_millis(2500)),
    min_time_is_budget_share: true,
    tolerance: Some(Fraction(0.005)),
    stable_cells: StableCellRule::UntilAllStable,
    ends_within_round: false,
    takes_samples_despite_time: true,
    max_rounds_per_sample: 1,
    choice_share: Fraction(0.25),
    measurement_share: Fraction(0.95),
};

/// Check of `stream` for arrays that the caches accelerate: passes over whole arrays and over half
/// arrays alternate, each with a warm-up.
pub const SIZE_CHECK: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::Shuffled,
    seed: 0x7369_7A65,
    warm_up: WarmUp::None,
    min_rounds: 3,
    // Nine ratios give a confidence interval of their median; three ratios are sufficient to detect a large effect of a
    // cache.
    max_rounds: Some(9),
    check_interval: 1,
    tolerance: None,
    takes_samples_despite_time: false,
    choice_share: Fraction(0.0),
    measurement_share: Fraction(0.35),
    ..STREAM
};

/// `stream --sweep`: many cells. The rest of the budget is used to repeat values that deviate from the trend.
pub const SWEEP: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::Shuffled,
    seed: 0x0073_7765_6570,
    min_samples: 10,
    check_interval: 1,
    min_time: NO_TIME,
    measurement_share: Fraction(0.85),
    ..STREAM
};

/// `explain`: ratios of consecutive cells of a round, from complete rounds.
pub const EXPLAIN: RepetitionPolicy = RepetitionPolicy {
    seed: 0x0065_7870,
    // The figures are medians of ratios.
    min_rounds: FOR_MEDIAN,
    // More rounds hardly narrow the intervals.
    max_rounds: Some(60),
    tolerance: None,
    choice_share: Fraction(0.15),
    measurement_share: Fraction(0.88),
    ..SWEEP
};

/// Last step of `explain`: consecutive passes as in `stream`.
pub const EXPLAIN_LAST_STEP: RepetitionPolicy = RepetitionPolicy {
    min_rounds: FOR_BEST,
    max_rounds: Some(20),
    check_interval: 1,
    min_time: NO_TIME,
    tolerance: None,
    ..STREAM
};

/// `stream --compiler`: nodegauge's loops are measured before the loops of each compiler.
pub const COMPILED_LOOPS: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::ReferenceBeforeEach,
    seed: 0x636F_6D70,
    warm_up: WarmUp::Turn,
    measurement_share: Fraction(0.95),
    ..SWEEP
};

/// `stream --standard`: before each run of a compiled stream.c, nodegauge's passes are measured for as long as such a
/// run takes.
pub const STANDARD_STREAM: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::ReferenceBeforeEach,
    seed: 0x7374_6463,
    warm_up: WarmUp::Turn,
    min_rounds: 1,
    tolerance: None,
    measurement_share: Fraction(1.0),
    ..SWEEP
};

/// `noise`: one cell, which is measured until the time is used up, because rare detours occur only in a long time.
pub const NOISE: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    seed: 0x6E6F_6973,
    // The figures are medians.
    min_rounds: FOR_MEDIAN,
    tolerance: None,
    measurement_share: Fraction(0.95),
    ..SWEEP
};

/// `io --metadata`: a cell for each combination of workers and directories; a turn takes between milliseconds and
/// seconds. Write-back in the background takes a few seconds and then pauses; the cells are therefore measured for the
/// whole time.
pub const METADATA: RepetitionPolicy = RepetitionPolicy {
    seed: 0x6D65_7461,
    // Rates are medians.
    min_rounds: FOR_MEDIAN,
    tolerance: None,
    measurement_share: Fraction(0.95),
    ..SWEEP
};

/// `memory ladder`, `latency`, `matrix`, `loaded`, `mix`: many cells, which take milliseconds per measurement.
pub const CURVES: RepetitionPolicy = RepetitionPolicy {
    seed: 0x7475_726E,
    // Latencies are medians.
    min_rounds: FOR_MEDIAN,
    min_time: (0.25, Duration::MAX),
    min_time_is_budget_share: false,
    stable_cells: StableCellRule::OnceStable,
    ends_within_round: true,
    measurement_share: Fraction(0.95),
    ..SWEEP
};

/// Policy [`CURVES`] for cells that were already measured once during their setup.
pub const CURVES_AFTER_SETUP: RepetitionPolicy =
    RepetitionPolicy { warm_up: WarmUp::Turn, ..CURVES };

/// Choice of the loops before a curve is measured. The first round determines the duration of a call; the best sample
/// counts.
pub const LOOP_CHOICE: RepetitionPolicy = RepetitionPolicy {
    seed: 0x6C6F_6F70,
    warm_up: WarmUp::None,
    min_rounds: 1,
    max_rounds: Some(5),
    tolerance: None,
    ..CURVES
};

/// NUMA-node part of `memory matrix`; the rest of the time is for the CPU part.
pub const NUMA_MATRIX: RepetitionPolicy =
    RepetitionPolicy { measurement_share: Fraction(0.6), ..CURVES };

/// `io`: the grid of file and block sizes. It is repeated for the requested number of samples; without such a number,
/// until the figures are precise enough or the time is used up.
pub const FILES: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    seed: 1,
    warm_up: WarmUp::None,
    min_rounds: 0,
    min_samples: 1,
    // Passes over files of 64 KiB to 1 MiB scatter by a quarter. The uncertainty of the median is 4 to 10 % for 60
    // passes, and half of that for 240 passes, which take some tenths of a second per cell.
    max_rounds: Some(240),
    check_interval: 1,
    tolerance: None,
    ends_within_round: true,
    takes_samples_despite_time: false,
    choice_share: Fraction(0.0),
    measurement_share: Fraction(1.0),
    ..STREAM
};

/// `mpi --osu`: each measurement of a cell runs an OSU program and nodegauge's own ping-pong. The OSU mean includes all
/// messages of the run, so that a disturbed round is discarded as a whole. On some machines the hypervisor moves the
/// CPUs every few seconds.
pub const OSU: RepetitionPolicy =
    RepetitionPolicy { max_rounds_per_sample: 3, takes_samples_despite_time: true, ..FILES };

/// `apps`: workers on different placements, which are compared. A round takes seconds.
pub const APPS: RepetitionPolicy = RepetitionPolicy {
    seed: 0x6170_7073,
    // Rates are medians and harmonic means.
    min_rounds: FOR_MEDIAN,
    measurement_share: Fraction(0.95),
    ..SWEEP
};

/// `apps iccg`: each measurement of a cell is a complete solve, and each iteration is a sample. The
/// rest of the budget is used to count the iterations in natural ordering.
pub const ICCG: RepetitionPolicy = RepetitionPolicy {
    order: RoundOrder::AsGiven,
    warm_up: WarmUp::Turn,
    check_interval: 1,
    min_time: NO_TIME,
    // A solve takes seconds; one more solve would hardly improve the figures.
    tolerance: Some(Fraction(0.01)),
    measurement_share: Fraction(0.65),
    ..APPS
};

/// `device stream` and `device peaks`: passes on all devices, interleaved.
pub const DEVICES: RepetitionPolicy =
    RepetitionPolicy { seed: 0x6465_7669, measurement_share: Fraction(0.95), ..SWEEP };

/// `device links`: a cell for each combination of copy size, pair of ends and direction; a
/// measurement takes milliseconds.
pub const LINKS: RepetitionPolicy = RepetitionPolicy { seed: 0x6C69_6E6B, ..CURVES };

/// `memory curves` with a program: runs of the program, which take about a second, and known loads
/// alternate. The first round is the warm-up.
pub const CURVES_WITH_PROGRAM: RepetitionPolicy = RepetitionPolicy {
    seed: 0x706C_6163,
    // The bandwidth of the program is a median.
    min_rounds: FOR_MEDIAN,
    // More rounds hardly narrow the interval.
    max_rounds: Some(60),
    tolerance: None,
    takes_samples_despite_time: true,
    measurement_share: Fraction(0.97),
    ..SWEEP
};

/// `sweep`: runs of the user's program, which take between milliseconds and minutes. The warm-up of
/// each combination precedes the rounds.
pub const PROGRAMS: RepetitionPolicy = RepetitionPolicy {
    seed: 0x7072_6F67,
    warm_up: WarmUp::None,
    // The time of a program is a median.
    min_rounds: FOR_MEDIAN,
    min_samples: 20,
    // More runs of a short program would not change the verdict.
    max_rounds: Some(200),
    tolerance: Some(Fraction(0.002)),
    measurement_share: Fraction(0.98),
    ..SWEEP
};
