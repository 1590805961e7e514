//! Configuration keys of figures of `iccg`.

use crate::config::WorkersConfig;
use crate::keys;
use nodegauge_measure::keys::shared;
use nodegauge_measure::{Fraction, Seconds};

nodegauge_measure::config! {
    /// Configuration of figures of `apps iccg`.
    pub struct IccgConfig including on: WorkersConfig {
        /// Elements along x, y and z, e.g. `60x60x60`.
        elements: String = Identity "elements", omits_label;
        /// Number of unknowns, three per mesh point.
        n: shared::n;
        /// The preconditioner and its order.
        preconditioner: String = Setting "preconditioner", omits_label;
        /// `|r| / |b|` at which the solver stops.
        tolerance: f64 = Setting "tolerance";
        /// Storage format of the matrix.
        storage: String = Choice "storage", omits_label;
        isa: shared::isa;
        prefetch: shared::prefetch;
        /// Software prefetch of the loops of the preconditioner.
        preconditioner_prefetch: String = Choice "prefetch of the preconditioner";
        /// Best time of a product in BCSR during the choice of the storage, seconds.
        bcsr_s: Seconds = Observation "product in BCSR";
        /// Best time of a product in sliced ELL when the storage was chosen, seconds.
        sell_s: Seconds = Observation "product in sliced ELL";
        /// Number of colours or levels in which rows are eliminated.
        colours: u64 = Observation "colours";
        /// Share by which the diagonal was increased for the factorisation.
        shift: f64 = Observation "shift";
        /// Number of iterations of a solve.
        iterations: keys::iterations;
        /// Number of iterations with the natural order in one domain.
        natural_iterations: u64 = Observation "iterations in natural order";
        /// `|b - A x| / |b|`, computed again from x.
        residual: shared::residual;
        /// Largest difference from the exact displacements, divided by the largest exact displacement.
        error: keys::error;
        /// Number of solves.
        solutions: u64 = Observation "solutions";
        /// Median time for numbering, assembly and factorisation, seconds, without `memory_s`.
        setup_s: keys::setup_s;
        /// Median time in which the kernel provided new memory during the set-up, seconds.
        memory_s: f64 = Observation "fresh memory";
        /// MPI that exchanges halos and sums between ranks; absent if they share memory.
        halo_by: String = Setting "halo by";
        /// Memory traffic of an iteration, or of the part that the figure describes, bytes; computed from the storage
        /// format.
        moved_bytes: keys::moved_bytes;
        /// Floating-point operations of an iteration, or of the part that the figure describes.
        flops: shared::flops;
        matrix_bytes: shared::matrix_bytes;
        /// Size of the matrix divided by the size of the last-level caches in use.
        times_llc: f64 = Observation "matrix over caches";
        /// Predicted time, seconds: the bytes divided by the rates `read` and `triad` of the same run.
        predicted_s: f64 = Observation "predicted";
        /// Share of the iteration time, 0 to 1.
        share: Fraction = Observation "share of an iteration";
        sweep: shared::sweep;
        against: shared::against;
        stopped: shared::stopped;
    }
}
