//! Reasons why a text is not accepted as an output of STREAM.

/// Reason why a text is not an output of STREAM, or is ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamOutputError {
    /// The output is empty.
    #[error("the program printed nothing")]
    Nothing,
    /// The output has no table.
    #[error("the program printed {0:?} instead of a STREAM table")]
    NoTable(String),
    /// The output contains the table of another program.
    #[error("the table is not that of stream.c: {text:?} (line {line})")]
    OtherTable {
        /// Header of the table.
        text: String,
        /// Number of the line.
        line: usize,
    },
    /// The rates have no unit, or an unknown unit.
    #[error("the rates have no known unit: {text:?} (line {line})")]
    Unit {
        /// Header of the table.
        text: String,
        /// Number of the line.
        line: usize,
    },
    /// The times are not seconds.
    #[error("the times are not seconds: {text:?} (line {line})")]
    TimeUnit {
        /// Header of the table.
        text: String,
        /// Number of the line.
        line: usize,
    },
    /// The table is incomplete.
    #[error("the table has no line for {kernel} (its header is line {line})")]
    NoLine {
        /// Kernel without a line.
        kernel: &'static str,
        /// Number of the header's line.
        line: usize,
    },
    /// A kernel has several lines.
    #[error(
        "the output has several lines for {kernel}; which of them is the result is unknown (line {line})"
    )]
    Repeated {
        /// Kernel with several lines.
        kernel: &'static str,
        /// Number of the second line.
        line: usize,
    },
    /// A line of the table has a syntax error.
    #[error("the table has an invalid line: {text:?} (line {line})")]
    BadLine {
        /// Text of the line.
        text: String,
        /// Number of the line.
        line: usize,
    },
    /// The decimal mark of a number is ambiguous: it may separate thousands.
    #[error("{text:?} may be a decimal number or have a thousands separator (line {line})")]
    Ambiguous {
        /// Text of the number.
        text: String,
        /// Number of the line.
        line: usize,
    },
    /// A count is not an integer.
    #[error("no whole number after {label:?}: {text:?} (line {line})")]
    NoCount {
        /// Words before the count.
        label: &'static str,
        /// Text that is not a count.
        text: String,
        /// Number of the line.
        line: usize,
    },
    /// Two lines of the text contradict each other.
    #[error("{label:?} occurs twice with different values: {first} (line {}) and {second} (line \
             {})", lines[0], lines[1])]
    Contradiction {
        /// Words before the counts.
        label: &'static str,
        /// First count.
        first: u64,
        /// Second count.
        second: u64,
        /// Numbers of the lines.
        lines: [usize; 2],
    },
    /// A required value is missing.
    #[error("the program did not print {0}")]
    Missing(&'static str),
}

impl StreamOutputError {
    /// True if the text has no STREAM table, so it may be the output of another program.
    pub fn is_other_text(&self) -> bool {
        matches!(self, Self::Nothing | Self::NoTable(_))
    }

    /// Returns the remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OtherTable { .. } => {
                "the table needs the columns Function, best rate, average, minimum and maximum time"
            }
            Self::Unit { .. } => "write the unit into the header, e.g. Rate (MB/s) or Rate (GB/s)",
            Self::TimeUnit { .. } => "give the times in seconds",
            Self::NoLine { .. } => "give the lines of all four kernels: Copy, Scale, Add, Triad",
            Self::Repeated { .. } => "give one file for each run",
            Self::BadLine { .. } => {
                "a line needs the kernel, its rate, and its average, minimum and maximum time"
            }
            Self::Ambiguous { .. } => {
                "write decimals with a point, and thousands without a separator"
            }
            Self::NoCount { .. } | Self::Contradiction { .. } => {
                "give the lines of one run, as the program printed them"
            }
            Self::Nothing | Self::NoTable(_) | Self::Missing(_) => {
                "give a file with the complete output of one run"
            }
        }
    }
}

/// Returns the beginning of a text, at most as long as a line.
pub(super) fn first_line_part(text: &str) -> String {
    const MAX_LENGTH: usize = 100;
    match text.char_indices().nth(MAX_LENGTH) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
