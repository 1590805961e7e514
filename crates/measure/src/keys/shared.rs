//! Keys that figures of several gauges have. Each key is declared here once; configurations of gauges name it.

use crate::{Fraction, Hertz, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

// Threads, processes and their places.
crate::keys! {
    /// Threads, of all processes together.
    threads: u64 = Setting "threads";
    /// Processes that measure together.
    processes: u64 = Setting "processes";
    /// Ranks, an object each.
    ranks: Vec<Map<String, Value>> = Observation "ranks";
    /// CPUs on which each thread may run, as the kernel reports them.
    places: Vec<Vec<u32>> = Setting "places";
    /// Places as requested, as in `OMP_PLACES`.
    places_asked: String = Setting "places asked";
    /// Binding of threads to places, as in `OMP_PROC_BIND`.
    bind: String = Setting "bind";
    /// CPUs of each bound thread or rank.
    cpus: Vec<Vec<u32>> = Setting "CPUs";
    /// Share of the memory that is on the requested NUMA node, 0 to 1.
    on_node: Fraction = Observation "on node";
}

// The program that measured, and its compiler.
crate::keys! {
    /// Program or loops that measured: `native`, `compiled`, or the name of a program.
    engine: String = Setting "engine", speaks;
    /// Version of the program.
    engine_version: String = Setting "engine version";
    /// Library that computes matrix products, in words.
    blas: String = Setting "BLAS";
    /// Version of the reference program.
    version: String = Setting "version";
    /// Complete command of the reference program.
    command: String = Observation "command";
    /// Compiler of the program.
    compiler: CompilerConfig = Setting "compiler", speaks;
    /// Vendor's name of the device.
    device_name: String = Setting "device's name", speaks;
    /// Source of the program or of the figure.
    source: String = Setting "source";
}

// Arrays, messages, matrices.
crate::keys! {
    /// Type of the elements.
    element: String = Identity "elements";
    /// Number of arrays of a pass; absent for STREAM's three.
    arrays: u64 = Setting "arrays";
    /// Bytes of one array.
    array_bytes: u64 = Identity "array size", speaks;
    /// Bytes of the working set of one thread.
    thread_bytes: u64 = Setting "set per thread";
    /// Elements of one array.
    array_elements: u64 = Observation "array elements";
    /// Size of an array divided by the size of the last-level caches in use.
    array_times_llc: f64 = Observation "array/cache ratio";
    /// Bytes of a message or copy.
    message_bytes: u64 = Size "messages", speaks;
    /// Order of the problem.
    n: u64 = Identity "N";
    /// Columns of a panel in HPL.
    nb: u64 = Setting "NB";
    /// Rows of HPL's process grid.
    p: u64 = Setting "P";
    /// Columns of HPL's process grid.
    q: u64 = Setting "Q";
    /// Memory of the matrix.
    matrix_bytes: u64 = Observation "matrix bytes";
}

// Loops.
crate::keys! {
    /// Instruction set of the loop.
    isa: String = Choice "instruction set";
    /// Kind of store: `regular` or `nontemporal`; absent for kernels that only read, and if it is unknown.
    stores: String = Choice "stores";
    /// Repetitions of the loop's body.
    unroll: u64 = Choice "unroll";
    /// Operations per cycle and core.
    flops_per_cycle: f64 = Observation "FLOP/cycle";
    /// Software prefetch: `off`, or distances in bytes.
    prefetch: String = Choice "prefetch";
    /// Loops of all kernels in words.
    loops: String = Choice "loops";
    /// Number of loops from which the fastest was chosen; 0 if there was no choice.
    loops_tried: u64 = Observation "loops tried";
}

// Results of checks, counts and times.
crate::keys! {
    /// Number of checks of all elements.
    checks: u64 = Observation "checks";
    /// Relative residual of the solution.
    residual: f64 = Observation "residual";
    /// Operations that count.
    operations: u64 = Observation "operations";
    /// Rounds that count.
    rounds: u64 = Observation "rounds";
    /// Floating-point operations.
    flops: u64 = Observation "operations";
    /// Floating-point operations per byte moved at the level.
    flops_per_byte: f64 = Observation "FLOP/B";
    /// Level of the memory hierarchy: `memory`, `L1`, ...
    level: String = Observation "level";
    /// Formula of the figure.
    formula: String = Observation "formula";
    /// Source of the figure or of its counts, if they were not measured directly.
    basis: String = Observation "basis";
    /// Time, seconds.
    seconds: Seconds = Observation "seconds";
    /// Core-to-core round trip of the regime of the figure, seconds.
    round_trip_s: f64 = Observation "round trip";
    /// Clock that timed the figure: `device` or `host`.
    clock: String = Setting "clock";
    /// Clock rate, Hz.
    clock_hz: Hertz = Observation "clock";
    /// Value of each axis of a sweep.
    sweep: Map<String, Value> = Observation "sweep";
    /// Reason why measuring ended.
    stopped: String = Observation "stopped";
}

/// Compiler of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompilerConfig {
    /// Command with its flags.
    pub command: String,
    /// First line of the version that the compiler prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Flags after those of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
}
