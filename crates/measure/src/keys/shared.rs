//! Keys that figures of several gauges have. Each key is declared here once; the configurations of the gauges refer to
//! it.

use crate as nodegauge_measure;
use crate::{Fraction, Hertz, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

// Keys of threads, processes and their places.
crate::keys! {
    /// Number of threads of all processes together.
    threads: u64 = Setting "threads";
    /// Number of processes that measure together.
    processes: u64 = Setting "processes";
    /// Ranks; one object per rank.
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

// Keys of runs on several hosts.
crate::keys! {
    /// Host that the figure describes, in a run on several hosts.
    host: String = Identity "host", omits_label;
    /// Hosts of the ranks, or hosts whose rates the figure adds up.
    hosts: Vec<String> = Setting "hosts";
}

crate::config! {
    /// Keys of the figures of one host or of several hosts together.
    pub struct HostConfig {
        host: host;
        hosts: hosts;
    }
}

// Keys of the program that measured, and of its compiler.
crate::keys! {
    /// Program or loops that measured: `native`, `compiled`, or the name of a program.
    engine: String = Setting "engine", omits_label;
    /// Version of the program.
    engine_version: String = Setting "engine version";
    /// Name and version of the library that computes matrix products.
    blas: String = Setting "BLAS";
    /// Version of the reference program.
    version: String = Setting "version";
    /// The user's program with its arguments.
    program: String = Identity "program";
    /// Complete command of the reference program.
    command: String = Observation "command";
    /// Compiler of the program.
    compiler: CompilerConfig = Setting "compiler", omits_label;
    /// Vendor's name of the device.
    device_name: String = Setting "device's name", omits_label;
    /// Source of the program or of the figure.
    source: String = Setting "source";
}

// Keys of arrays, messages and matrices.
crate::keys! {
    /// Type of the elements.
    element: String = Identity "elements";
    /// Number of arrays that a pass uses; absent for STREAM, which always uses three arrays.
    arrays: u64 = Setting "arrays";
    /// Bytes of one array.
    array_bytes: u64 = Identity "array size", omits_label;
    /// Bytes of the working set of one thread.
    thread_bytes: u64 = Setting "set per thread";
    /// Number of elements of one array.
    array_elements: u64 = Observation "array elements";
    /// Size of an array divided by the size of the last-level caches in use. The size is the
    /// measured capacity, or the reported size if the capacity was not measured.
    array_times_llc: f64 = Observation "array/cache ratio";
    /// Measured capacity of the last-level caches in use, if arrays are compared with it; absent if
    /// they are compared with the reported size.
    measured_cache_bytes: u64 = Observation "measured cache";
    /// Size of the last-level caches in use that the system reports.
    reported_cache_bytes: u64 = Observation "reported cache";
    /// Bytes of a message or copy.
    message_bytes: u64 = Size "messages", omits_label;
    /// Size of the file, bytes.
    file_bytes: u64 = Size "files", omits_label;
    /// Size of the block of each operation, bytes.
    block_bytes: u64 = Size "blocks", omits_label;
    /// Order of the problem.
    n: u64 = Identity "N";
    /// Columns of a panel in HPL.
    nb: u64 = Setting "NB";
    /// Rows of HPL's process grid.
    p: u64 = Setting "P";
    /// Columns of HPL's process grid.
    q: u64 = Setting "Q";
    /// Memory that the matrix occupies, bytes.
    matrix_bytes: u64 = Observation "matrix bytes";
}

// Keys of the loops.
crate::keys! {
    /// Instruction set of the loop.
    isa: String = Choice "instruction set";
    /// Kind of store: `regular` or `nontemporal`; absent for kernels that only read, and if it is unknown.
    stores: String = Choice "stores";
    /// Unroll factor: number of repetitions of the loop's body.
    unroll: u64 = Choice "unroll";
    /// Floating-point operations per cycle and core.
    flops_per_cycle: f64 = Observation "FLOP/cycle";
    /// Software prefetch: `off`, or distances in bytes.
    prefetch: String = Choice "prefetch";
    /// Description of the loops of all kernels.
    loops: String = Choice "loops";
    /// Number of loops from which the fastest was chosen; 0 if there was no choice.
    loops_tried: u64 = Observation "loops tried";
}

// Keys of results of checks, counts and times.
crate::keys! {
    /// Number of checks, each of all elements.
    checks: u64 = Observation "checks";
    /// Relative residual of the solution.
    residual: f64 = Observation "residual";
    /// Number of operations in the samples that count.
    operations: u64 = Observation "operations";
    /// Number of rounds that count.
    rounds: u64 = Observation "rounds";
    /// Floating-point operations.
    flops: u64 = Observation "operations";
    /// Floating-point operations per byte moved to and from the memory level.
    flops_per_byte: f64 = Observation "FLOP/B";
    /// Level of the memory hierarchy: `memory`, `L1`, ...
    level: String = Observation "level";
    /// Figure or setting that a ratio is relative to.
    against: String = Observation "against";
    /// Formula of the figure.
    formula: String = Observation "formula";
    /// Source of the figure or of its counts, if they were not measured directly.
    basis: String = Observation "basis";
    /// Elapsed time, seconds.
    seconds: Seconds = Observation "seconds";
    /// Times that stream.c printed in the fastest run.
    times_s: TimesConfig = Observation "times";
    /// Core-to-core round trip that identifies the regime of the figure, seconds.
    round_trip_s: f64 = Observation "round trip";
    /// Clock that timed the figure: `device` or `host`.
    clock: String = Setting "clock";
    /// Clock rate, Hz.
    clock_hz: Hertz = Observation "clock";
    /// Value of each axis of a sweep.
    sweep: Map<String, Value> = Observation "sweep";
    /// Reason why the measurement ended.
    stopped: String = Observation "stopped";
}

/// Times that stream.c prints, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimesConfig {
    /// Average of all passes but the first.
    pub average: Seconds,
    /// Time of the fastest pass.
    pub least: Seconds,
    /// Time of the slowest pass.
    pub greatest: Seconds,
}

/// Compiler of a program, with its flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompilerConfig {
    /// Command of the compiler, with its flags.
    pub command: String,
    /// First line of the output of the compiler's version option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Further flags, which follow the flags in `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
}
