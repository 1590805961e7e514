//! Configuration keys of figures of HPL.

use nodegauge_lu::factorisation::LuTime;
use nodegauge_lu::peak::Peak;
use nodegauge_lu::residual::{ScaledResidual, THRESHOLD};
use nodegauge_measure::keys::shared;
use nodegauge_measure::{FlopsPerSec, Fraction, Hertz, Seconds, Watts};
use nodegauge_placement::{Binding, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

nodegauge_measure::config! {
    /// Placement of threads.
    pub struct ThreadsConfig including of: shared::HostConfig {
        threads: shared::threads;
        bind: shared::bind;
        cpus: shared::cpus;
    }
}

nodegauge_measure::config! {
    /// Configuration of the rate of DGEMM.
    pub struct DgemmConfig including on: ThreadsConfig {
        blas: shared::blas;
        /// Path of the library.
        blas_path: String = Setting "BLAS path";
        /// Width of the library's integers in bits.
        blas_integer_bits: u32 = Setting "BLAS integer bits";
        /// Environment variable that selects the kernels in use, if the library selects other kernels by default.
        blas_setting: String = Setting "BLAS setting";
    }
}

nodegauge_measure::config! {
    /// Configuration of a rating, of nodegauge or of a reference program.
    pub struct RatingConfig including dgemm: DgemmConfig {
        /// Program: `native`, `xhpl` or `hpcc`.
        engine: shared::engine;
        version: shared::version;
        command: shared::command;
        /// HPL's encoded variant, e.g. `WR11C2R4`.
        variant: String = Setting "variant";
        /// Order N of the system.
        n: shared::n;
        nb: shared::nb;
        p: shared::p;
        q: shared::q;
        /// Seed of the random matrix.
        seed: u64 = Observation "seed";
        /// Time of the solve, seconds.
        seconds: shared::seconds;
        /// Formula of the rating from N and the time.
        formula: shared::formula;
        /// Scaled residual of the solution.
        residual: shared::residual
            as Observation of ResidualConfig = "HPL's residual must have a threshold and norms";
        /// Breakdown of the threads' time during the solve.
        time: TimeConfig = Observation "time";
        /// Start of the solve, seconds since the epoch.
        began: Seconds = Observation "began";
        /// Formula by which N was chosen.
        order_formula: String = Observation "order formula";
        /// Predicted time of the solve, seconds.
        predicted_seconds: Seconds = Observation "predicted seconds";
        matrix_bytes: shared::matrix_bytes;
        /// Share of the matrix on huge pages, 0 to 1.
        on_huge_pages: Fraction = Observation "on huge pages";
        /// Runs of the search for NB, in chronological order.
        search: Vec<SearchStep> = Observation "search";
        /// Rating divided by the rate of DGEMM.
        of_dgemm: Fraction = Observation "of DGEMM";
        /// Rating divided by the register-only peak.
        of_fma_peak: Fraction = Observation "of FMA peak";
        /// Rating divided by the theoretical peak.
        of_theoretical: Fraction = Observation "of theoretical peak";
        /// Power during the solve.
        power: PowerConfig = Observation "power";
    }
}

nodegauge_measure::config! {
    /// Configuration of a register-only peak of multiply-adds.
    pub struct PeakConfig including on: ThreadsConfig {
        /// Element type: `f64` or `f32`.
        element: shared::element;
        /// Instruction set of the fastest loop.
        isa: shared::isa;
        /// Clock frequency during the best burst (short run), Hz.
        clock_hz: shared::clock_hz;
        flops_per_cycle: shared::flops_per_cycle;
        /// Rates of all loops with the element type of the figure.
        loops: shared::loops as Observation of Vec<LoopRate> = "all loops are measured, none is chosen";
        /// Theoretical peak: cores x clock x operations per cycle.
        theoretical: TheoreticalPeak = Observation "theoretical peak";
    }
}

impl ThreadsConfig {
    /// Returns the configuration of the threads of a placement.
    pub(crate) fn from_placement(placement: &Placement) -> Self {
        let threads = placement.threads.iter();
        let cpus = threads.map(|thread| thread.cpus.iter().map(|cpu| cpu.0).collect());
        Self {
            of: shared::HostConfig::default(),
            threads: Some(placement.threads.len() as u64),
            bind: Some(placement.bind.to_string()),
            cpus: (placement.bind != Binding::None).then(|| cpus.collect()),
        }
    }
}

/// HPL's scaled residual.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResidualConfig {
    /// Scaled residual; `null` if none was printed or if it is not a number.
    pub value: Option<f64>,
    /// Threshold; the residual must be smaller.
    pub threshold: f64,
    /// Formula of the residual.
    pub formula: String,
    /// Norm of the residual, ||A x - b||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Norm of the matrix, ||A||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_a: Option<f64>,
    /// Norm of the solution, ||x||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_x: Option<f64>,
    /// Norm of the right-hand side, ||b||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_b: Option<f64>,
}

/// Formula of HPL's scaled residual, as written in the record.
const RESIDUAL_FORMULA: &str = "||Ax-b||oo / (eps (||A||oo ||x||oo + ||b||oo) N)";

impl ResidualConfig {
    /// Returns a residual without norms.
    pub fn from_value(value: Option<f64>) -> Self {
        let formula = RESIDUAL_FORMULA.to_owned();
        Self { value, threshold: THRESHOLD, formula, ..Self::default() }
    }

    /// True if x is a solution; false if the residual is not a number.
    pub fn passes(&self) -> bool {
        self.value.is_some_and(|value| value < self.threshold)
    }
}

impl From<ScaledResidual> for ResidualConfig {
    fn from(of: ScaledResidual) -> Self {
        Self {
            error: Some(of.error),
            norm_a: Some(of.norm_a),
            norm_x: Some(of.norm_x),
            norm_b: Some(of.norm_b),
            ..Self::from_value(Some(of.value))
        }
    }
}

/// Breakdown of the threads' time during a solve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeConfig {
    /// Share of the threads' time in panels, 0 to 1.
    pub panels: Fraction,
    /// Share of the threads' time spent waiting, 0 to 1.
    pub waiting: Fraction,
    /// Time of the back-substitution, seconds.
    #[serde(rename = "solve_s")]
    pub back_substitution: Seconds,
    /// Number of threads that factor a panel together.
    pub panel_threads: usize,
    /// Maximum share of a thread's time that other processes used, 0 to 1.
    pub lost: Fraction,
    /// Number of times that the kernel preempted a thread.
    pub switches: u64,
    /// Share of all CPUs' time that the hypervisor gave to other guests, 0 to 1; `null` if it is not counted.
    pub stolen: Option<Fraction>,
    /// Share of the cores' execution units that other processes used immediately before and after the solve, 0 to 1. It
    /// is computed from the ratio of the median to the best register-only burst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Fraction>,
}

impl From<LuTime> for TimeConfig {
    /// Returns the breakdown without the shares that threads cannot measure.
    fn from(of: LuTime) -> Self {
        Self {
            panels: of.panels,
            waiting: of.waiting,
            back_substitution: of.solve,
            panel_threads: of.panel_threads,
            lost: of.lost,
            switches: of.switches,
            stolen: None,
            shared: None,
        }
    }
}

/// Run of the NB search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchStep {
    /// Order N of the system.
    pub n: usize,
    /// Block size NB.
    pub nb: usize,
    /// Rate, FLOP/s.
    pub rate: FlopsPerSec,
}

/// Power during a solve.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerConfig {
    /// Power in watts; `null` if it cannot be read.
    pub watts: Option<Watts>,
    /// FLOP/s per watt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_watt: Option<f64>,
    /// Counters from which the power was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    /// Reason why the power is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of a register-only loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRate {
    /// Instruction set.
    pub isa: String,
    /// True if multiplication and addition are a single instruction.
    pub fused: bool,
    /// Rate, FLOP/s.
    pub rate: FlopsPerSec,
    /// Clock frequency during the best burst, Hz.
    pub clock_hz: Option<Hertz>,
}

impl LoopRate {
    /// Returns the best rate of a loop, with the clock frequency during the best burst.
    pub(crate) fn from_peak(peak: &Peak) -> Self {
        Self {
            isa: peak.kernel.isa_name().to_owned(),
            fused: peak.kernel.fused,
            rate: peak.best_rate(),
            clock_hz: peak.best_burst().clock,
        }
    }
}

/// Theoretical peak: cores x clock x operations per cycle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TheoreticalPeak {
    /// Peak with fused multiply-adds, FLOP/s.
    pub value: FlopsPerSec,
    /// Formula with numbers in place of the variables.
    pub formula: String,
    /// Peak without fused multiply-adds, FLOP/s; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_fma: Option<FlopsPerSec>,
}
