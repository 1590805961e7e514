//! Names of gauges, tests and figures that several crates use, e.g. for published figures and for
//! plans that start from saved runs. They are declared here and not in the crates of the gauges,
//! because crates below the gauges use them.

/// Names of STREAM's figures.
pub mod stream {
    /// Name of the gauge that measures main memory.
    pub const GAUGE: &str = "memory";
    /// Name of the test on processors.
    pub const TEST: &str = "stream";
    /// Name of the test on devices.
    pub const TEST_ON_DEVICES: &str = "device_stream";
    /// Name of the Triad figure.
    pub const TRIAD: &str = "triad";
    /// Name of the Copy figure.
    pub const COPY: &str = "copy";
    /// Names of STREAM's four kernels, in STREAM's order.
    pub const KERNELS: [&str; 4] = [COPY, "scale", "add", TRIAD];

    /// True if `test` is STREAM, on processors or on devices.
    pub fn is_test(test: &str) -> bool {
        [TEST, TEST_ON_DEVICES].contains(&test)
    }
}

/// Names of HPL's figures.
pub mod hpl {
    /// Name of the gauge that measures floating-point rates.
    pub const GAUGE: &str = "compute";
    /// Name of the HPL test.
    pub const TEST: &str = "hpl";
    /// Name of the figure with the FLOP rate of the solver, as HPL reports it.
    pub const RATING: &str = "rating";
    /// Name of the figure with the FLOP rate of matrix products.
    pub const DGEMM: &str = "dgemm";
    /// Name of the figure with the published time of the solver.
    pub const TIME: &str = "time";
}

/// Names of the figures of file operations.
pub mod io {
    /// Name of the gauge that measures file I/O.
    pub const GAUGE: &str = "files";
    /// Name of the file I/O test.
    pub const TEST: &str = "io";
    /// Name of the figure for reading a file.
    pub const READ: &str = "read";
}
