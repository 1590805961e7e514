//! Keys of `config` of figures of `iccg`.

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
        /// `|r| / |b|` at which a solution is found.
        tolerance: f64 = Setting "tolerance";
        /// Storage format of the matrix.
        storage: String = Choice "storage", omits_label;
        isa: shared::isa;
        prefetch: shared::prefetch;
        /// Prefetching of the loops of the preconditioner.
        preconditioner_prefetch: String = Choice "prefetch of the preconditioner";
        /// Best time of a product in BCSR when the storage was chosen, seconds.
        bcsr_s: Seconds = Observation "product in BCSR";
        /// Time of a product in sliced ELL.
        sell_s: Seconds = Observation "product in sliced ELL";
        /// Colours, or levels, by which rows are eliminated.
        colours: u64 = Observation "colours";
        /// Share by which the diagonal was raised for a factorisation.
        shift: f64 = Observation "shift";
        /// Iterations of a solution.
        iterations: keys::iterations;
        /// Iterations that the natural order takes, as one thread would.
        natural_iterations: u64 = Observation "iterations in natural order";
        /// `|b - A x| / |b|`, computed anew.
        residual: shared::residual;
        /// Largest distance from the exact displacements, over the largest of these.
        error: keys::error;
        /// Solutions.
        solutions: u64 = Observation "solutions";
        /// Time to number, assemble and factorise, seconds: median. It excludes `memory_s`.
        setup_s: keys::setup_s;
        /// Time in which the kernel provided fresh memory during the setup, seconds: median.
        memory_s: f64 = Observation "fresh memory";
        /// The MPI that carries halos and sums between ranks; absent where they share memory.
        halo_by: String = Setting "halo by";
        /// Bytes that an iteration, or this part of it, moves by the count of the storage.
        moved_bytes: keys::moved_bytes;
        /// Operations of an iteration, or of this part of it.
        flops: shared::flops;
        matrix_bytes: shared::matrix_bytes;
        /// Matrix over the last-level caches in use.
        times_llc: f64 = Observation "matrix over caches";
        /// Predicted time of the bytes at the rates of reading and Triad of the same minutes, seconds.
        predicted_s: f64 = Observation "predicted";
        /// Share of an iteration, 0 to 1.
        share: Fraction = Observation "share of an iteration";
        sweep: shared::sweep;
        against: shared::against;
        stopped: shared::stopped;
    }
}
