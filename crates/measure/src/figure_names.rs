//! Names of gauges, tests and figures that crates below the gauge refer to, for published figures and for plans
//! that start from saved runs. A gauge exports the names of all its figures; the names that it shares with
//! crates below it are declared here.

/// STREAM.
pub mod stream {
    /// Gauge of main memory.
    pub const GAUGE: &str = "memory";
    /// Test on processors.
    pub const TEST: &str = "stream";
    /// Test on devices.
    pub const TEST_ON_DEVICES: &str = "device_stream";
    /// Triad.
    pub const TRIAD: &str = "triad";
    /// STREAM's four kernels, in its order.
    pub const KERNELS: [&str; 4] = ["copy", "scale", "add", TRIAD];

    /// True if figures of the test are STREAM's, on processors or on devices.
    pub fn is_test(test: &str) -> bool {
        [TEST, TEST_ON_DEVICES].contains(&test)
    }
}

/// HPL.
pub mod hpl {
    /// Gauge of floating point.
    pub const GAUGE: &str = "compute";
    /// Test.
    pub const TEST: &str = "hpl";
    /// Rate of the solution.
    pub const RATING: &str = "rating";
    /// Rate of products of matrices.
    pub const DGEMM: &str = "dgemm";
    /// Time of the solution, as published.
    pub const TIME: &str = "time";
}

/// File operations.
pub mod io {
    /// Gauge of files.
    pub const GAUGE: &str = "files";
    /// Test.
    pub const TEST: &str = "io";
    /// Reading a file.
    pub const READ: &str = "read";
}
