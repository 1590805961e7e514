//! Parser for the output of stream.c (5.10), of its MPI version, and of stream.f. All functions are pure.
//!
//! The table is accepted only if it is consistent: all four kernels, positive figures, and the product of each rate and
//! its minimum time equals the bytes that the kernel counts. Rates are in units of 1e6 B/s. The text "Solution
//! Validates" alone does not prove correct results; see [`StreamOutput::largest_sound_ntimes`].

use crate::kernels::{Element, Kernel, STREAM};
use nodegauge_measure::{BytesPerSec, Seconds, printed};

/// Program that printed an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// The output is that of stream.c.
    C,
    /// The output is that of stream.f.
    Fortran,
    /// The output is that of the MPI version of stream.c.
    Mpi,
}

impl OutputFormat {
    /// Returns the name of the program in records.
    pub fn engine(self) -> &'static str {
        match self {
            Self::C => "stream.c",
            Self::Fortran => "stream.f",
            Self::Mpi => "stream_mpi.c",
        }
    }
}

/// Result of the program's own check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedCheck {
    /// The program printed "Solution Validates".
    Passed,
    /// The program printed "Failed Validation ..."; contains the printed text.
    Failed(String),
    /// The program printed no result.
    Absent,
}

/// Line of the table, for one kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelLine {
    /// Best rate of the kernel, B/s.
    pub rate: BytesPerSec,
    /// Average, minimum and maximum time, seconds.
    pub times: [Seconds; 3],
    /// Difference of two times that are printed differently: 1 us for six decimals.
    pub step: Seconds,
}

/// Parsed output of a run of STREAM.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutput {
    /// Program that printed the output.
    pub dialect: OutputFormat,
    /// Version of the program, e.g. `5.10`.
    pub version: Option<String>,
    /// Type of the elements.
    pub element: Element,
    /// Number of elements per array, of all ranks together.
    pub elements: u64,
    /// Padding between arrays, elements.
    pub offset: u64,
    /// Number of runs of each kernel.
    pub ntimes: u64,
    /// Number of threads that the program requested, and number that it counted; `None` for a build without OpenMP.
    pub threads: Option<(u64, u64)>,
    /// Number of MPI ranks.
    pub ranks: Option<u64>,
    /// Lines of the four kernels, in STREAM's order.
    pub lines: [KernelLine; 4],
    /// Result of the check that the program made.
    pub check: ReportedCheck,
    /// True if the program reports that the compared values are not finite.
    pub not_finite: bool,
    /// True if the obsolete macro `N` was set, which has no effect.
    pub obsolete_macro: bool,
    /// Scalar of Scale and Triad.
    pub scalar: f64,
    /// Complete output, as printed.
    pub text: String,
}

/// Reason why a text is not an output of STREAM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStream {
    /// The output is empty.
    #[error("the program printed nothing")]
    Nothing,
    /// The output has no table.
    #[error("the program printed {0:?} instead of a STREAM table")]
    NoTable(String),
    /// The output contains the table of another program.
    #[error("the table is not that of stream.c: {0:?}")]
    OtherTable(String),
    /// The table is incomplete.
    #[error("the table has no line for {0}")]
    NoLine(&'static str),
    /// A kernel has several lines.
    #[error("the output has several lines for {0}; which of them is the result is unknown")]
    Repeated(&'static str),
    /// A line of the table has a syntax error.
    #[error("the table has an invalid line: {0:?}")]
    BadLine(String),
    /// A required value is missing.
    #[error("the program did not print {0}")]
    Unsaid(&'static str),
}

/// Names of the kernels in the table, in [`STREAM`]'s order.
const NAMES: [&str; 4] = ["Copy", "Scale", "Add", "Triad"];
/// Scalar of Scale and Triad in stream.c.
const SCALAR: f64 = 3.0;

impl StreamOutput {
    /// Parses an output.
    ///
    /// # Errors
    /// Fails if the text is not a complete output of STREAM.
    pub fn read(text: &str) -> Result<Self, NotStream> {
        let header = table_header(text)?;
        let dialect = if text.contains("MPI ranks") {
            OutputFormat::Mpi
        } else if header.contains("Rate (MB/s)") {
            OutputFormat::Fortran
        } else {
            OutputFormat::C
        };
        let element = match dialect {
            OutputFormat::Fortran => after(text, "Assuming"),
            _ => after(text, "This system uses"),
        };
        let element = match element {
            Some(4) => Element::F32,
            Some(8) => Element::F64,
            _ => return Err(NotStream::Unsaid("the size of an element")),
        };
        let elements = match dialect {
            OutputFormat::Mpi => after(text, "Total Aggregate Array size ="),
            _ => after(text, "Array size ="),
        };
        let ntimes = match dialect {
            OutputFormat::Fortran => after(text, "You are running each test"),
            _ => after(text, "Each kernel will be executed"),
        };
        // stream_mpi.f prints the length of the arrays of one rank, and the rate of all.
        let ranks = match dialect {
            OutputFormat::Fortran => after(text, "Number of processors ="),
            _ => after(text, "Data is distributed across"),
        };
        let elements = match (dialect, ranks) {
            (OutputFormat::Fortran, Some(ranks)) => elements.and_then(|n| n.checked_mul(ranks)),
            _ => elements,
        };
        let threads = match dialect {
            OutputFormat::Fortran => after(text, "Number of Threads =").map(|n| (n, n)),
            _ => after(text, "Number of Threads requested =")
                .zip(after(text, "Number of Threads counted =")),
        };
        Ok(Self {
            dialect,
            version: between(text, "$Revision: ", " $"),
            element,
            elements: elements.ok_or(NotStream::Unsaid("the length of its arrays"))?,
            offset: after(text, "Offset =").or_else(|| after(text, "Offset     =")).unwrap_or(0),
            ntimes: ntimes.ok_or(NotStream::Unsaid("the number of passes"))?,
            threads,
            ranks,
            lines: lines(text, header)?,
            check: check(text),
            not_finite: not_finite(text),
            obsolete_macro: text.contains("set the preprocessor variable N "),
            scalar: between(text, "SCALAR value used for this run is ", "\n")
                .and_then(|number| number.trim().parse().ok())
                .unwrap_or(SCALAR),
            text: text.to_owned(),
        })
    }

    /// Returns the bytes of one array.
    pub fn array_bytes(&self) -> u64 {
        self.elements.saturating_mul(self.element.bytes())
    }

    /// Returns the bytes that a kernel counts for one pass.
    pub fn counted(&self, kernel: Kernel) -> f64 {
        kernel.counted(self.element) as f64 * self.elements as f64
    }

    /// Returns the largest number of passes after which all values are still finite. A pass multiplies `a` by s(2 + s),
    /// which is 15 for s = 3; `a` starts at 2. With more passes the program compares infinities. The difference of
    /// infinities is NaN, and every comparison with NaN is false, so that the program prints "Solution Validates"
    /// regardless of the contents of the arrays.
    pub fn largest_sound_ntimes(&self) -> u64 {
        let growth = self.scalar * (2.0 + self.scalar);
        if growth <= 1.0 {
            return u64::MAX;
        }
        let largest = match self.element {
            Element::F64 => f64::MAX,
            Element::F32 => f64::from(f32::MAX),
        };
        ((largest / 2.0).ln() / growth.ln()).floor() as u64
    }

    /// Returns the first kernel whose rate is not its bytes divided by its minimum time, within the precision of the
    /// printed digits.
    pub fn contradiction(&self) -> Option<Kernel> {
        STREAM.iter().zip(&self.lines).find_map(|(kernel, line)| {
            let least = line.times[1].0;
            let expected = self.counted(*kernel) / least;
            // The tolerance follows from the printed digits: rates have one decimal or more.
            let slack = 0.6 * line.step.0 / least + 0.1e6 / line.rate.0 + 1e-6;
            ((line.rate.0 / expected - 1.0).abs() > slack).then_some(*kernel)
        })
    }
}

/// True if a line is the header of a table of STREAM.
fn is_header(line: &str) -> bool {
    line.starts_with("Function") && (line.contains("Rate MB/s") || line.contains("Rate (MB/s)"))
}

/// Returns the number of runs in a text, which have a table each.
pub fn count_runs(text: &str) -> usize {
    printed::count_lines(text, is_header)
}

fn table_header(text: &str) -> Result<&str, NotStream> {
    let first = text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric));
    let Some(first) = first else { return Err(NotStream::Nothing) };
    let header = text.lines().map(str::trim).find(|line| line.starts_with("Function"));
    match header {
        Some(header) if is_header(header) => Ok(header),
        Some(header) => Err(NotStream::OtherTable(shortened(header))),
        None => Err(NotStream::NoTable(shortened(first))),
    }
}

fn lines(text: &str, header: &str) -> Result<[KernelLine; 4], NotStream> {
    // The lines of the kernels follow the header directly.
    let table = text.split_once(header).map_or("", |(_, table)| table);
    // A second line anywhere behind the header may belong to another table, whose header is missing.
    let is_of = |line: &str, name: &str| {
        line.trim().strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
    };
    let repeated = NAMES.iter().find(|name| table.lines().filter(|l| is_of(l, name)).count() > 1);
    if let Some(name) = repeated {
        return Err(NotStream::Repeated(name));
    }
    let mut lines =
        [KernelLine { rate: BytesPerSec(0.0), times: [Seconds(0.0); 3], step: Seconds(0.0) }; 4];
    for (name, line) in NAMES.into_iter().zip(&mut lines) {
        let found = table.lines().take(6).find_map(|candidate| {
            candidate.trim().strip_prefix(name)?.strip_prefix(':').map(|l| (candidate, l))
        });
        let Some((whole, numbers)) = found else { return Err(NotStream::NoLine(name)) };
        let decimals = numbers.split_whitespace().nth(2).and_then(|time| time.split_once('.'));
        let step = Seconds(decimals.map_or(1.0, |(_, digits)| 0.1f64.powi(digits.len() as i32)));
        let numbers: Option<Vec<f64>> =
            numbers.split_whitespace().map(|number| number.parse().ok()).collect();
        let sound = |x: &f64| printed::is_figure(*x);
        *line = match numbers.as_deref() {
            Some([rate, average, least, greatest])
                if [rate, average, least, greatest].into_iter().all(sound) =>
            {
                KernelLine {
                    rate: BytesPerSec(rate * 1e6),
                    times: [average, least, greatest].map(|time| Seconds(*time)),
                    step,
                }
            }
            _ => return Err(NotStream::BadLine(shortened(whole))),
        };
    }
    Ok(lines)
}

fn check(text: &str) -> ReportedCheck {
    if let Some(line) = text.lines().map(str::trim).find(|line| line.starts_with("Failed Valid")) {
        return ReportedCheck::Failed(shortened(line));
    }
    if text.contains("Solution Validates") { ReportedCheck::Passed } else { ReportedCheck::Absent }
}

/// True if a verbose build shows values or errors that are not finite.
fn not_finite(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .filter(|line| {
            ["Expected a(1)", "Observed a(1)", "Rel Errors"]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .any(|line| line.split_whitespace().any(|word| word.contains("nan") || word == "inf"))
}

/// Returns the integer after `label`.
fn after(text: &str, label: &str) -> Option<u64> {
    let rest = text.split_once(label)?.1.trim_start_matches(' ');
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

fn between(text: &str, before: &str, behind: &str) -> Option<String> {
    let rest = text.split_once(before)?.1;
    rest.split_once(behind).map(|(inside, _)| inside.to_owned())
}

/// Returns the beginning of a text, at most as long as a line.
fn shortened(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/data/stream-", $name, ".txt"))
        };
    }

    #[test]
    fn a_build_by_gcc_is_read_to_the_last_digit() {
        let output = StreamOutput::read(recorded!("gcc-2t")).unwrap();
        assert_eq!((output.dialect, output.version.as_deref()), (OutputFormat::C, Some("5.10")));
        assert_eq!((output.element, output.elements, output.offset), (Element::F64, 1 << 26, 0));
        assert_eq!((output.ntimes, output.threads, output.ranks), (20, Some((2, 2)), None));
        assert_eq!(output.array_bytes(), 512 << 20);
        let rates: Vec<f64> = output.lines.iter().map(|line| line.rate.0).collect();
        assert_eq!(rates, [35_632.3e6, 30_072.7e6, 21_529.1e6, 22_189.7e6]);
        assert_eq!(output.lines[3].times, [0.083_601, 0.072_584, 0.096_988].map(Seconds));
        assert_eq!(output.check, ReportedCheck::Passed);
        assert!(!output.not_finite && !output.obsolete_macro);
        assert_eq!(output.contradiction(), None);
    }

    #[test]
    fn every_recorded_output_is_read() {
        let of = |text| StreamOutput::read(text).unwrap();
        let all = [
            (of(recorded!("clang-2t")), OutputFormat::C, 30_586.2e6),
            (of(recorded!("gcc-verbose-2t")), OutputFormat::C, 22_176.2e6),
            (of(recorded!("gcc-float-2t")), OutputFormat::C, 29_248.7e6),
            (of(recorded!("gcc-ntimes300-2t")), OutputFormat::C, 60_915.8e6),
            (of(recorded!("f-67M-2t")), OutputFormat::Fortran, 27_353.7e6),
            (of(recorded!("mpi-2r")), OutputFormat::Mpi, 36_332.2e6),
        ];
        for (output, dialect, triad) in &all {
            assert_eq!((output.dialect, output.lines[3].rate.0), (*dialect, *triad));
            assert_eq!(output.check, ReportedCheck::Passed);
            assert_eq!(output.contradiction(), None, "{output:?}");
        }
        let elements: Vec<u64> = all.iter().map(|(output, _, _)| output.elements).collect();
        assert_eq!(elements, [1 << 26, 1 << 26, 1 << 26, 4_000_000, 1 << 26, 1 << 26]);
        assert_eq!(all[2].0.element, Element::F32);
        assert_eq!(all[4].0.threads, Some((2, 2)));
        assert_eq!((all[5].0.threads, all[5].0.ranks, all[5].0.scalar), (None, Some(2), 0.42));
        assert_eq!(all[5].0.version.as_deref(), Some("1.8"));
    }

    #[test]
    fn a_failed_validation_is_told_in_the_programs_words() {
        let output = StreamOutput::read(recorded!("gcc-corrupt-2t")).unwrap();
        assert_eq!(
            output.check,
            ReportedCheck::Failed(
                "Failed Validation on array a[], AvgRelAbsErr > epsilon (1.000000e-13)".to_owned()
            )
        );
    }

    #[test]
    fn passes_that_overflow_make_the_check_void() {
        let output = StreamOutput::read(recorded!("gcc-ntimes300-2t")).unwrap();
        assert_eq!((output.ntimes, output.largest_sound_ntimes()), (300, 261));
        assert!(output.not_finite);
        let float = StreamOutput::read(recorded!("gcc-float-2t")).unwrap();
        assert_eq!(float.largest_sound_ntimes(), 32);
        assert!(StreamOutput::read(recorded!("mpi-2r")).unwrap().largest_sound_ntimes() > 40_000);
    }

    #[test]
    fn the_bounds_on_passes_are_those_of_the_arithmetic_itself() {
        let finite = |ntimes: u64| (0..ntimes).fold(2.0f64, |a, _| 15.0 * a).is_finite();
        assert!(finite(261) && !finite(262));
        let finite_f32 = |ntimes: u64| (0..ntimes).fold(2.0f32, |a, _| 15.0 * a).is_finite();
        assert!(finite_f32(32) && !finite_f32(33));
    }

    #[test]
    fn the_obsolete_macro_and_a_build_without_threads_are_seen() {
        let text = recorded!("gcc-2t").replace("Number of Threads", "Number of Shreds").replace(
            "Each kernel",
            "It appears that you set the preprocessor variable N when\nEach kernel",
        );
        let output = StreamOutput::read(&text).unwrap();
        assert!(output.obsolete_macro && output.threads.is_none());
    }

    #[test]
    fn what_is_not_stream_is_said_to_be_not() {
        let whole = recorded!("gcc-2t");
        let cases = [
            (String::new(), "the program printed nothing"),
            ("-----\n".to_owned(), "the program printed nothing"),
            (
                "Good day, world\n".to_owned(),
                "the program printed \"Good day, world\" instead of a STREAM table",
            ),
            (
                whole.replace("Best Rate MB/s", "Rate (GB/s)"),
                "the table is not that of stream.c: \"Function    Rate (GB/s)  Avg time     Min time     Max time\"",
            ),
            (whole.replace("Add:", "Odd:"), "the table has no line for Add"),
            (
                whole.replace("0.072584", "-"),
                "the table has an invalid line: \"Triad:          22189.7     0.083601     -     0.096988\"",
            ),
            (
                whole.replace("22189.7", "inf"),
                "the table has an invalid line: \"Triad:          inf     0.083601     0.072584     0.096988\"",
            ),
            (
                whole.replace("22189.7", "1e308"),
                "the table has an invalid line: \"Triad:          1e308     0.083601     0.072584     0.096988\"",
            ),
            (
                format!("{whole}Triad:          42189.7     0.083601     0.072584     0.096988\n"),
                "the output has several lines for Triad; which of them is the result is unknown",
            ),
            (
                whole.replace("Array size", "Size"),
                "the program did not print the length of its arrays",
            ),
            (
                whole.replace("executed 20", "executed"),
                "the program did not print the number of passes",
            ),
            (whole.replace("uses 8", "uses 3"), "the program did not print the size of an element"),
        ];
        for (text, message) in cases {
            assert_eq!(StreamOutput::read(&text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn tables_of_several_runs_are_counted() {
        let (c, fortran) = (recorded!("gcc-2t"), recorded!("f-67M-2t"));
        let texts = [c, fortran, &[c, fortran, c].concat(), ""];
        assert_eq!(texts.map(count_runs), [1, 1, 3, 0]);
    }

    #[test]
    fn a_table_that_was_tampered_with_contradicts_itself() {
        let text = recorded!("gcc-2t").replace("22189.7", "42189.7");
        assert_eq!(StreamOutput::read(&text).unwrap().contradiction(), Some(Kernel::Triad));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_fail_badly(cut in 0usize..2200, insert in ".{0,20}") {
            let whole = recorded!("gcc-2t");
            let cut = cut.min(whole.len());
            let _ = StreamOutput::read(&format!("{}{insert}{}", &whole[..cut], &whole[cut..]));
            let _ = StreamOutput::read(&whole[..cut]);
        }
    }
}
