//! What the configuration of a figure may hold.

use nodegauge_measure::keys::shared;
use nodegauge_placement::{Bind, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

nodegauge_measure::config! {
    /// Where threads ran.
    pub struct ThreadsConfig {
        threads: shared::threads;
        bind: shared::bind;
        cpus: shared::cpus;
    }
}

nodegauge_measure::config! {
    /// Configuration of the rate of DGEMM.
    pub struct DgemmConfig including on: ThreadsConfig {
        blas: shared::blas;
        /// Its file.
        blas_path: String = Setting "BLAS path";
        /// Bits of its integers.
        blas_integer_bits: u32 = Setting "BLAS integer bits";
        /// The variable that gives it its kernels, where it would take others by itself.
        blas_setting: String = Setting "BLAS setting";
    }
}

nodegauge_measure::config! {
    /// Configuration of a rating: of the run here, or of the reference program.
    pub struct RatingConfig including dgemm: DgemmConfig {
        /// `native`, `xhpl` or `hpcc`.
        engine: shared::engine;
        version: shared::version;
        command: shared::command;
        /// HPL's encoded variant, e.g. `WR11C2R4`.
        variant: String = Setting "variant";
        /// Order of the system.
        n: shared::n;
        nb: shared::nb;
        p: shared::p;
        q: shared::q;
        /// Seed of the random matrix.
        seed: u64 = Observation "seed";
        /// Time of the solution, seconds.
        seconds: shared::seconds;
        /// How the rating follows from N and time.
        formula: shared::formula;
        /// Whether x is a solution.
        residual: shared::residual
            as Observation of ResidualConfig = "HPL's residual has a threshold and norms";
        /// Where the threads' time went.
        time: TimeConfig = Observation "time";
        /// When the solution began, seconds since the epoch.
        began: f64 = Observation "began";
        /// How N came about.
        order_formula: String = Observation "order formula";
        /// Predicted time of the solution, seconds.
        predicted_seconds: f64 = Observation "predicted seconds";
        matrix_bytes: shared::matrix_bytes;
        /// Share of the matrix on huge pages, 0 to 1.
        on_huge_pages: f64 = Observation "on huge pages";
        /// The search of NB, in order of time.
        search: Vec<SearchStep> = Observation "search";
        /// Rating over DGEMM.
        of_dgemm: f64 = Observation "of DGEMM";
        /// Rating over the peak in registers.
        of_fma_peak: f64 = Observation "of FMA peak";
        /// Rating over the theoretical peak.
        of_theoretical: f64 = Observation "of theoretical peak";
        /// Power during the solution.
        power: PowerConfig = Observation "power";
    }
}

nodegauge_measure::config! {
    /// Configuration of a peak of multiply-adds in registers.
    pub struct PeakConfig including on: ThreadsConfig {
        /// `f64` or `f32`.
        element: shared::element;
        /// Instruction set of the fastest loop.
        isa: shared::isa;
        /// The clock during the best burst, Hz.
        clock_hz: shared::clock_hz;
        flops_per_cycle: shared::flops_per_cycle;
        /// Every loop of this element.
        loops: shared::loops as Observation of Vec<LoopRate> = "all loops are measured, none is chosen";
        /// Cores x clock x operations a cycle.
        theoretical: TheoreticalPeak = Observation "theoretical peak";
    }
}

impl ThreadsConfig {
    /// Of threads that are placed so.
    pub(crate) fn of(placement: &Placement) -> Self {
        let threads = placement.threads.iter();
        let cpus = threads.map(|thread| thread.cpus.iter().map(|cpu| cpu.0).collect());
        Self {
            threads: Some(placement.threads.len() as u64),
            bind: Some(placement.bind.to_string()),
            cpus: (placement.bind != Bind::None).then(|| cpus.collect()),
        }
    }
}

/// HPL's scaled residual.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResidualConfig {
    /// The residual; `null` where none was printed, or it is not a number.
    pub value: Option<f64>,
    /// It must be below this.
    pub threshold: f64,
    /// How it is computed.
    pub formula: String,
    /// ||A x - b||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// ||A||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_a: Option<f64>,
    /// ||x||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_x: Option<f64>,
    /// ||b||oo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm_b: Option<f64>,
}

/// Where the threads' time went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeConfig {
    /// Share in panels, 0 to 1.
    pub panels: f64,
    /// Share spent waiting, 0 to 1.
    pub waiting: f64,
    /// The back-substitution, seconds.
    pub solve_s: f64,
    /// Threads that factor a panel together.
    pub panel_threads: usize,
    /// Of the thread that lost most, the share that other work took, 0 to 1.
    pub lost: f64,
    /// Times that the kernel took a CPU away.
    pub switches: u64,
    /// Share of all CPUs' time that the hypervisor gave to others, 0 to 1; `null` where it is not
    /// counted.
    pub stolen: Option<f64>,
    /// Share of the cores' units that others had right before and after, 0 to 1: bursts in registers,
    /// the median against the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<f64>,
}

/// A run of the search of NB.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchStep {
    /// N.
    pub n: usize,
    /// NB.
    pub nb: usize,
    /// FLOP/s.
    pub rate: f64,
}

/// Power during a solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerConfig {
    /// Watts; `null` where they cannot be read.
    pub watts: Option<f64>,
    /// FLOP/s a watt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_watt: Option<f64>,
    /// Which counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    /// Why there are no watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a loop in registers reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopRate {
    /// Instruction set.
    pub isa: String,
    /// Whether multiplication and addition are one instruction.
    pub fused: bool,
    /// FLOP/s.
    pub rate: f64,
    /// The clock during its best burst, Hz.
    pub clock_hz: Option<f64>,
}

/// Cores x clock x operations a cycle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TheoreticalPeak {
    /// FLOP/s with fused multiply-adds.
    pub value: f64,
    /// With its numbers.
    pub formula: String,
    /// FLOP/s without fused multiply-adds.
    pub without_fma: f64,
}
