//! What the configuration of a figure may hold.

use crate::config::WorkersConfig;
use serde_json::{Map, Value};

nodegauge_measure::config! {
    /// Configuration of figures of `apps iccg`.
    pub struct IccgConfig including on: WorkersConfig {
        /// Elements along x, y and z, e.g. `60x60x60`.
        elements: String = Identity "elements", speaks;
        /// Unknowns, three a node.
        n: u64 = Identity "unknowns" @ 39;
        /// The preconditioner and its order.
        preconditioner: String = Setting "preconditioner", speaks;
        /// `|r| / |b|` at which a solution is found.
        tolerance: f64 = Setting "tolerance";
        /// How the matrix is stored.
        storage: String = Choice "storage", speaks;
        /// Instruction set of the loops.
        isa: String = Choice "instruction set";
        /// Software prefetch of the loops: `off`, or how far ahead, bytes.
        prefetch: String = Choice "prefetch" @ 61;
        /// Best time of a product in BCSR when the storage was chosen, seconds.
        bcsr_s: f64 = Observation "product in BCSR";
        /// The same in slices.
        sell_s: f64 = Observation "product in sliced ELL";
        /// Colours, or levels, by which rows are eliminated.
        colours: u64 = Observation "colours";
        /// By what share the diagonal was raised for a factorisation.
        shift: f64 = Observation "shift";
        /// Iterations of a solution.
        iterations: u64 = Observation "iterations";
        /// Iterations that the natural order takes, as one thread would.
        natural_iterations: u64 = Observation "iterations in natural order";
        /// `|b - A x| / |b|`, computed anew.
        residual: f64 = Observation "residual";
        /// Largest distance from the exact displacements, over the largest of these.
        error: f64 = Observation "error";
        /// Solutions.
        solutions: u64 = Observation "solutions";
        /// Time to number, assemble and factorise, seconds: median.
        setup_s: f64 = Observation "setup";
        /// The MPI that carries halos and sums between ranks; absent where they share memory.
        halo_by: String = Setting "halo by";
        /// Bytes that an iteration, or this part of it, moves by the count of the storage.
        moved_bytes: u64 = Observation "bytes moved";
        /// Operations of an iteration, or of this part of it.
        flops: u64 = Observation "operations";
        /// Memory of the matrix.
        matrix_bytes: u64 = Observation "matrix bytes";
        /// The same over the last-level caches in use.
        times_llc: f64 = Observation "matrix over caches";
        /// What the bytes take at the rates of reading and Triad of the same minutes, seconds.
        predicted_s: f64 = Observation "predicted";
        /// Share of an iteration, 0 to 1.
        share: f64 = Observation "share of an iteration";
        /// The value of each axis of a sweep.
        sweep: Map<String, Value> = Observation "sweep" @ 56;
        /// Of a ratio, what it is held against.
        against: String = Observation "against";
        /// Why measuring ended.
        stopped: String = Observation "stopped";
    }
}
